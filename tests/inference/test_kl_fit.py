"""Fits by either divergence: moments, maximum likelihood, modes, local optima and verdicts."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core import Status
from tractable.distributions.atoms import Empirical
from tractable.distributions.continuous import Normal, StudentT
from tractable.distributions.counts import Binomial, Poisson
from tractable.distributions.divergence import kl
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.mixture import Mixture
from tractable.inference.variational.kl_fit import forward_kl_fit, reverse_kl_fit

TWO = Mixture(np.array([0.5, 0.5]), Normal(np.array([-3.0, 3.0]), 1.0))
COUNTS = np.array([0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 0.0, 4.0])


def test_forward_fit_covers_both_modes():
    """.5 N(-3, 1) + .5 N(3, 1) -> mean 0, variance 10: moment matching."""
    fit = forward_kl_fit(Normal(0.0, 1.0), TWO)
    np.testing.assert_allclose(fit.distribution.loc, 0.0, atol=1e-12)
    np.testing.assert_allclose(fit.distribution.variance, 10.0, rtol=1e-12)
    assert fit.status is Status.converged
    np.testing.assert_allclose(fit.objective, 0.5 * np.log(2 * np.pi * np.e * 10), rtol=1e-12)
    near = [float(kl(TWO, Normal(m, s))) for m, s in ((0.05, 10**0.5), (0.0, 3.1), (-0.1, 3.2))]
    assert all(value > float(kl(TWO, fit.distribution)) for value in near)


def test_forward_fit_of_a_gaussian_matches_mean_and_covariance():
    parts = Gaussian(np.array([[-2.0, 0.0], [1.0, 1.0]]), np.stack([np.eye(2), 0.5 * np.eye(2)]))
    target = Mixture(np.array([0.4, 0.6]), parts)
    fit = forward_kl_fit(Gaussian(jnp.zeros(2), jnp.eye(2)), target).distribution
    mean = 0.4 * np.array([-2.0, 0.0]) + 0.6 * np.array([1.0, 1.0])
    spread = 0.4 * 0.6 * np.outer([3.0, 1.0], [3.0, 1.0]) + (0.4 + 0.3) * np.eye(2)
    np.testing.assert_allclose(fit.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(fit.cov, spread, rtol=1e-12)


def test_forward_fit_on_samples_is_maximum_likelihood():
    x = np.random.default_rng(0).normal(1.0, 2.0, 200)
    fit = forward_kl_fit(Normal(0.0, 1.0), x).distribution
    np.testing.assert_allclose(fit.loc, x.mean(), rtol=1e-12)
    np.testing.assert_allclose(fit.scale, x.std(), rtol=1e-12)
    weighted = forward_kl_fit(Poisson(1.0), COUNTS, np.arange(8.0)).distribution
    np.testing.assert_allclose(weighted.rate, (COUNTS * np.arange(8)).sum() / 28, rtol=1e-12)


def test_forward_fit_to_discrete_numbers():
    """The Poisson nearest to a binomial has its mean."""
    fit = forward_kl_fit(Poisson(1.0), Binomial(10, 0.3))
    np.testing.assert_allclose(fit.distribution.rate, 3.0, rtol=1e-12)


def test_forward_fit_outside_exponential_families_is_searched():
    """Student's t to its own draws: the gradient of the likelihood vanishes at the fit."""
    x = np.asarray(StudentT(4.0, 1.0, 0.5).sample(jr.key(0), (400,)))
    fit = forward_kl_fit(StudentT(4.0, 0.0, 1.0), x)
    assert fit.status is Status.converged
    best = float(fit.objective)
    for name, change in (("loc", 0.02), ("scale", 0.02), ("degrees", 0.5)):
        moved = {
            n: float(getattr(fit.distribution, n)) + (change if n == name else 0)
            for n in ("degrees", "loc", "scale")
        }
        assert -float(np.mean(StudentT(**moved).log_prob(x))) > best


def test_empirical_divergence_is_likelihood_less_entropy():
    """KL(p_emp || q) = -(1/N) sum log q - H(p_emp), by a sum over distinct values; least at maximum
    likelihood.
    """
    q = Poisson(2.0)
    shares = {0.0: 2 / 8, 1.0: 3 / 8, 2.0: 1 / 8, 3.0: 1 / 8, 4.0: 1 / 8}
    exact = sum(s * (np.log(s) - float(q.log_prob(v))) for v, s in shares.items())
    np.testing.assert_allclose(kl(Empirical(COUNTS), q), exact, rtol=1e-12)
    best = forward_kl_fit(q, COUNTS).distribution
    least = kl(Empirical(COUNTS), best)
    assert all(kl(Empirical(COUNTS), Poisson(best.rate * f)) > least for f in (0.9, 1.1))


def test_reverse_fit_finds_each_mode_and_no_saddle():
    """The start midway between equal modes is a saddle: the search leaves it for a mode."""
    found = reverse_kl_fit(TWO, [Normal(-2.0, 1.0), Normal(2.5, 1.0), Normal(0.0, 0.5)])
    assert [fit.status for fit in found.optima] == [Status.converged] * len(found.optima)
    locations = sorted(
        float(fit.distribution.loc) for fit in found.optima if float(fit.distribution.scale) < 1.5
    )
    np.testing.assert_allclose(locations, [-3.0, 3.0], atol=0.02)
    # One mode alone misses half of the mass: KL is log 2, less a little.
    np.testing.assert_allclose(found.best.objective, np.log(2), rtol=0.01)
    assert "Converged" in repr(found)


def test_reverse_fit_is_stationary_against_a_grid():
    """The best fit to a skewed unnormalised target, by brute force over a grid of quadrature values."""

    def log_target(x):
        return -0.5 * x**2 - jnp.log1p(jnp.exp(-3 * x))

    fit = reverse_kl_fit(log_target, Normal(0.0, 1.0)).best
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()

    def objective(m, s):
        x = m + s * z
        return (w * (0.5 * x**2 + np.log1p(np.exp(-3 * x)))).sum() - 0.5 * np.log(2 * np.pi * np.e * s**2)

    grid = min((objective(m, s), m, s) for m in np.linspace(0.3, 0.9, 121) for s in np.linspace(0.5, 0.9, 81))
    np.testing.assert_allclose(
        fit.objective, objective(float(fit.distribution.loc), float(fit.distribution.scale)), rtol=1e-8
    )
    assert float(fit.objective) <= grid[0] + 1e-9
    np.testing.assert_allclose(
        [float(fit.distribution.loc), float(fit.distribution.scale)], grid[1:], atol=6e-3
    )


def test_reverse_fit_of_a_gaussian_is_exact_and_bounds_the_evidence():
    """A Gaussian target times e^3 is found exactly; -objective = log of its integral = 3."""
    target = Gaussian(np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]]))
    fit = reverse_kl_fit(lambda x: target.log_prob(x) + 3.0, Gaussian(jnp.zeros(2), jnp.eye(2))).best
    np.testing.assert_allclose(fit.distribution.mean, target.mean, atol=1e-6)
    np.testing.assert_allclose(fit.distribution.cov, target.cov, atol=1e-6)
    np.testing.assert_allclose(fit.objective, -3.0, atol=1e-10)


def test_reverse_mean_field_keeps_conditional_variances():
    """Independent normals fitted to a correlated Gaussian have the variances 1 / (precision diagonal): too
    narrow.
    """
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    fit = reverse_kl_fit(Gaussian(np.array([1.0, 2.0]), cov), Normal(jnp.zeros(2), jnp.ones(2))).distribution
    np.testing.assert_allclose(fit.variance, 1 / np.diag(np.linalg.inv(cov)), rtol=1e-6)
    np.testing.assert_allclose(fit.loc, [1.0, 2.0], atol=1e-6)


def test_reverse_fit_by_fixed_noise():
    """Four dimensions with draws: near the target within the error of 4000 draws."""
    target = Normal(jnp.array([0.5, -1.0, 2.0, 0.0]), jnp.array([1.0, 0.5, 2.0, 1.5]))
    found = reverse_kl_fit(target, Normal(jnp.zeros(4), jnp.ones(4)), key=jr.key(1), num_samples=4000)
    assert found.status is Status.converged
    error = np.asarray(target.scale) / np.sqrt(4000)
    assert (np.abs(found.distribution.loc - target.loc) < 5 * error).all()
    assert (np.abs(found.distribution.scale - target.scale) < 5 * error).all()


def test_bad_inputs_are_refused_by_name():
    with pytest.raises(ValueError, match="`starts` must be densities; got Poisson, which has masses"):
        reverse_kl_fit(lambda x: -x, Poisson(1.0))
    with pytest.raises(ValueError, match="`starts` must be at least one distribution"):
        reverse_kl_fit(lambda x: -(x**2), [])
    with pytest.raises(ValueError, match=r"`key` must be given for Normal of shape \(4,\)"):
        reverse_kl_fit(lambda x: -(x**2).sum(), Normal(jnp.zeros(4), 1.0))
    with pytest.raises(ValueError, match="`weights` must be left out when `target` is a distribution"):
        forward_kl_fit(Normal(0.0, 1.0), TWO, np.ones(3))
