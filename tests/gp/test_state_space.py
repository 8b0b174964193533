"""Matern processes by filter and smoother: equal to the dense process, and linear in the rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.gp.noise import LogLinearNoise
from tractable.gp.regression import GaussianProcess
from tractable.gp.state_space import MarkovProcess
from tractable.kernels.stationary import RBF, Matern12, Matern32, Matern52


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 5, 60)
    x[3], x[10] = x[4], x[11] + 1e-7  # points that repeat, and points that nearly do
    return x, np.sin(x) + 0.1 * rng.normal(size=60)


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52])
def test_equals_the_dense_process(series, kernel):
    x, y = series
    weights = np.random.default_rng(1).integers(0, 3, 60).astype(float)
    process = GaussianProcess(1.7 * kernel(0.8), noise=0.05, mean=0.3)
    markov, dense = MarkovProcess(process).posterior(x, y, weights), process.posterior(x, y, weights)
    new = np.concatenate([np.linspace(-1, 6, 17), x[:3]])
    assert float(markov.log_evidence) == pytest.approx(float(dense.log_evidence), rel=1e-11)
    np.testing.assert_allclose(markov.latent(new).mean, dense.latent(new).mean, atol=1e-11)
    np.testing.assert_allclose(
        markov.predict_dist(new).variance, dense.predict_dist(new).variance, atol=1e-11
    )


def test_equals_the_dense_process_where_points_are_dense():
    """1000 points ten thousand times closer than the length scale: drifts of order 1e-12 must not cancel."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 0.1, 1000))
    y = np.sin(30 * x) + 0.1 * rng.normal(size=1000)
    process = GaussianProcess(Matern52(1.0), noise=LogLinearNoise(0.01, [0.5]))
    markov, dense = MarkovProcess(process).posterior(x, y), process.posterior(x, y)
    assert float(markov.log_evidence) == pytest.approx(float(dense.log_evidence), rel=1e-8)
    np.testing.assert_allclose(markov.latent(x[::100]).mean, dense.latent(x[::100]).mean, atol=1e-8)
    np.testing.assert_allclose(markov.latent(x[::100]).variance, dense.latent(x[::100]).variance, atol=1e-8)


def test_gradient_of_the_evidence_is_that_of_the_dense_process(series):
    x, y = series

    def evidence(theta, markov):
        process = GaussianProcess(jnp.exp(theta[0]) * Matern32(jnp.exp(theta[1])), jnp.exp(theta[2]))
        return (MarkovProcess(process) if markov else process).log_evidence(x, y)

    theta = jnp.array([0.3, -0.2, -3.0])
    one, other = (jax.grad(lambda t: evidence(t, markov))(theta) for markov in (True, False))
    np.testing.assert_allclose(one, other, rtol=1e-8)


def test_a_hundred_thousand_points():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 100, 100_000)
    y = np.sin(x) + 0.1 * rng.normal(size=100_000)
    post = MarkovProcess(GaussianProcess(Matern52(1.0), noise=0.01)).posterior(x, y)
    new = np.linspace(1, 99, 50)
    shown = post.latent(new)
    z = (np.asarray(shown.mean) - np.sin(new)) / np.asarray(shown.std)
    assert np.abs(z).max() < 5
    assert 0.5 < z.std() < 1.5
    assert "num_rows      100000" in repr(post)


def test_what_has_no_state_is_refused():
    with pytest.raises(ValueError, match="`kernel` must be a Matern12"):
        MarkovProcess(GaussianProcess(RBF(1.0), 0.1))
    with pytest.raises(ValueError, match="`noise` must be one variance"):
        MarkovProcess(GaussianProcess(Matern12(1.0), [0.1, 0.2]))
    with pytest.raises(ValueError, match="`X` must be rows of 1 columns"):
        MarkovProcess(GaussianProcess(Matern12(1.0), 0.1)).posterior([[0.0, 1.0]], [1.0])
    with pytest.raises(ValueError, match="points whose targets have a density"):
        MarkovProcess(GaussianProcess(Matern12(1.0))).posterior([0.0, 0.0], [1.0, 2.0])
