"""Normal latents that chains move: by their noise where the data know little, else as they are."""

import numpy as np
import pytest
from scipy import stats

import tractable as tr
from benchmarks._mcmc_measure import mean_error
from tractable.distributions import HalfNormal, Normal, StudentT

SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


@tr.model
def schools(sigma, y):
    mu, tau = tr.sample("mu", Normal(0.0, 5.0)), tr.sample("tau", HalfNormal(8.0))
    with tr.plate("school", len(y)):
        theta = tr.sample("theta", Normal(mu, tau))
        tr.sample("y", StudentT(4.0, theta, sigma), obs=y)


def by_quadrature(sigma, y):
    """Means of tau and of the first effect: each effect is integrated on its own, given mu and tau."""
    tau, mu = np.linspace(0.02, 40, 400)[:, None], np.linspace(-25, 30, 111)[None, :]
    noise, weights = np.polynomial.hermite_e.hermegauss(80)
    log_joint = stats.norm.logpdf(mu, 0, 5) + stats.halfnorm.logpdf(tau, 0, 8)
    first = None
    for value, scale in zip(y, sigma):
        theta = mu[..., None] + tau[..., None] * noise
        masses = weights * stats.t.pdf(value, 4, theta, scale)
        log_joint = log_joint + np.log(masses.sum(-1))
        first = (masses * theta).sum(-1) / masses.sum(-1) if first is None else first
    posterior = np.exp(log_joint - log_joint.max())
    posterior /= posterior.sum()
    return (posterior * tau).sum(), (posterior * first).sum()


def assert_means(post, wanted):
    for values, want in zip((post["tau"], post["theta"][..., 0]), wanted):
        assert abs(values.mean() - want) < 4 * mean_error(values)


@pytest.mark.thorough
def test_little_data_move_the_noise():
    post = tr.infer(schools, SIGMA, EFFECTS, key=0, method="nuts", num_draws=1500, progress=False)
    assert "moved by its noise" in str(post.explain())
    assert_means(post, by_quadrature(SIGMA, EFFECTS))
    assert post.verdict.ok, post.verdict


@pytest.mark.thorough
def test_much_data_move_the_latents():
    post = tr.infer(schools, SIGMA / 20, EFFECTS, key=0, method="nuts", num_draws=1500, progress=False)
    assert "moved as it is" in str(post.explain())
    assert post.verdict.ok, post.verdict
    assert np.all(abs(post["theta"].mean((0, 1)) - EFFECTS) < 1.5)


def test_laws_of_numbers_are_left_alone():
    @tr.model
    def plain(y):
        mu, tau = tr.sample("mu", Normal(0.0, 5.0)), tr.sample("tau", HalfNormal(8.0))
        with tr.plate("row", len(y)):
            tr.sample("y", StudentT(4.0, mu, tau), obs=y)

    post = tr.infer(plain, EFFECTS, key=0, method="nuts", num_draws=300, progress=False)
    assert "moved" not in str(post.explain())
