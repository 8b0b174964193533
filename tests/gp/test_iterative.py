"""Conjugate gradients and Lanczos quadrature against the exact process."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.gp import hyperparameters, regression
from tractable.gp.conjugate_gradients import Iterative
from tractable.gp.exact import ExactPosterior
from tractable.gp.hyperparameters import default_process, fit_hyperparameters
from tractable.gp.iterative import IterativePosterior, iterative_evidence, iterative_posterior
from tractable.gp.points import observe
from tractable.gp.regression import GaussianProcess, evidence_of
from tractable.kernels.stationary import RBF, Matern32

OPTIONS = Iterative(rank=40, num_probes=16, max_steps=150)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 2))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=300)


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(1).integers(0, 3, 300).astype(float)


@pytest.fixture(scope="module")
def process():
    return GaussianProcess(1.5 * Matern32(1.0), noise=0.09, mean=0.2)


@pytest.fixture(scope="module")
def found(rows, weights, process):
    return iterative_posterior(process, observe(*rows, weights), jr.key(0), OPTIONS)


def test_predictions_are_those_of_the_exact_process(rows, weights, process, found):
    X, y = rows
    exact = process.posterior(X, y, weights)
    np.testing.assert_allclose(found.mean(X[:9]), exact.mean(X[:9]), atol=1e-5)
    shown, expected = found.predict_dist(X[:9]), exact.predict_dist(X[:9])
    np.testing.assert_allclose(shown.variance, expected.variance, rtol=1e-5)
    np.testing.assert_allclose(found.latent(X[:9]).mean, expected.mean, atol=1e-5)
    joint, dense = found.joint(X[:9]), exact.joint(X[:9])
    np.testing.assert_allclose(joint.cov, dense.cov, atol=1e-5)
    assert np.isfinite(np.asarray(found.sample(jr.key(9), X[:9], (2,)))).all()
    assert float(found.residual) <= OPTIONS.tol
    assert "converged in" in repr(found)
    assert "±" in repr(found)


def test_evidence_is_within_its_error(rows, weights, process, found):
    exact = float(process.log_evidence(*rows, weights))
    error = float(found.evidence.standard_error)
    assert 0 < error < 5
    assert abs(float(found.log_evidence) - exact) < 5 * error


def test_gradient_is_unbiased_and_has_little_noise(rows):
    observed = observe(*rows)

    def process_at(theta):
        return GaussianProcess(jnp.exp(theta[0]) * RBF(jnp.exp(theta[1:3])), jnp.exp(theta[3]), theta[4])

    def estimate(theta, key):
        return iterative_evidence(process_at(theta), observed, key, OPTIONS).value

    theta = jnp.log(jnp.array([1.5, 1.2, 2.0, 0.08, 1.2]))
    exact = jax.jit(jax.grad(lambda t: evidence_of(process_at(t), observed).total))(theta)
    slopes = jax.jit(lambda t, keys: jax.lax.map(lambda key: jax.grad(estimate)(t, key), keys))
    found = np.asarray(slopes(theta, jr.split(jr.key(1), 12)))
    error = found.std(0, ddof=1) / np.sqrt(12)
    assert (np.abs(found.mean(0) - exact) < 5 * error + 1e-4).all()
    assert (found.std(0) < 0.05 * np.abs(exact) + 0.1).all()


def test_many_rows_choose_it_and_say_so(rows, process, monkeypatch):
    monkeypatch.setattr(regression, "MANY", 250)
    post = process.posterior(*rows)
    assert isinstance(post, IterativePosterior)
    assert "Conjugate gradients" in repr(post)
    with pytest.raises(ValueError, match="`key` must be given for an estimate of the evidence"):
        _ = post.log_evidence
    assert isinstance(process.posterior(*rows, method="exact"), ExactPosterior)


def test_hyperparameters_of_many_rows_need_a_key(rows, process, monkeypatch):
    monkeypatch.setattr(hyperparameters, "MANY", 250)
    with pytest.raises(ValueError, match="`key` must be given above 250 rows"):
        fit_hyperparameters(process, *rows)


@pytest.mark.slow
def test_hyperparameters_by_estimates_are_as_good_as_exact_ones(rows, monkeypatch):
    X, y = rows
    process = default_process(X, y)
    exact = fit_hyperparameters(process, X, y)
    for name, value in (("MANY", 250), ("_LARGE", 250), ("_SUBSET", 120)):
        monkeypatch.setattr(hyperparameters, name, value)
    fit = fit_hyperparameters(process, X, y, key=jr.key(2))
    gap = float(fit.process.log_evidence(X, y)) - float(exact.log_evidence)
    assert -0.3 < gap < 0.1
    assert "from probes" in repr(fit)
    assert float(fit.standard_error) > 0


def test_noise_is_needed(rows):
    with pytest.raises(ValueError, match="`noise` must be positive for the iterative method"):
        GaussianProcess(RBF(1.0)).posterior(*rows, method="iterative")


def test_a_covariance_that_is_not_held_gives_the_same_numbers(rows, weights, process, found):
    """And the rank that is chosen by the number of rows needs fewer steps than a small one."""
    anew = Iterative(rank=40, num_probes=16, max_steps=150, memory=0.0)
    other = iterative_posterior(process, observe(*rows, weights), jr.key(0), anew)
    np.testing.assert_allclose(other.alpha, found.alpha, rtol=1e-8, atol=1e-8)
    assert float(other.log_evidence) == pytest.approx(float(found.log_evidence), rel=1e-9)
    chosen = iterative_posterior(process, observe(*rows, weights), None, Iterative())
    assert int(chosen.num_steps) < int(found.num_steps)
    np.testing.assert_allclose(chosen.mean(rows[0][:9]), found.mean(rows[0][:9]), atol=1e-4)
