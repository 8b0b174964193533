"""Quadrature on a box that is found: evidences and moments against closed forms, wherever they lie."""

import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core.module import Module
from tractable.inference.box import found_box_posterior

ROOTS = {
    "near": ([0.3], [[0.7]]),
    "far and narrow": ([400.0], [[1e-3]]),
    "wide": ([-5.0], [[300.0]]),
    "correlated": ([1.0, -2.0], [[1.0, 0.0], [0.995, 0.1]]),
    "two scales": ([30.0, 0.0], [[0.01, 0.0], [0.0, 50.0]]),
}


class Normal(Module):
    mean: jnp.ndarray
    root: jnp.ndarray

    def __call__(self, u):
        z = jnp.linalg.solve(self.root, u - self.mean)
        return -0.5 * z @ z


@pytest.mark.cheap
@pytest.mark.parametrize("name", ROOTS)
def test_a_normal_density_is_found_wherever_it_lies(name):
    mean, root = (np.asarray(part) for part in ROOTS[name])
    density = Normal(jnp.asarray(mean), jnp.asarray(root))
    found = found_box_posterior(density, jnp.zeros(len(mean)))
    want = 0.5 * len(mean) * np.log(2 * np.pi) + np.linalg.slogdet(root)[1]
    np.testing.assert_allclose(found.log_evidence.value, want, atol=1e-8)
    assert found.verdict.ok, found.verdict
    np.testing.assert_allclose(found.mean, mean, atol=1e-6 * (1 + abs(mean)).max())
    np.testing.assert_allclose(found.cov, root @ root.T, rtol=1e-5, atol=1e-6 * abs(root @ root.T).max())


def _exponential_tail(u):  # the density of log s for s ~ Exponential: e^u below, e^{-e^u} above
    return u[0] - jnp.exp(u[0])


def _two_modes(u):
    return jnp.logaddexp(-0.5 * (u[0] - 4) ** 2, -0.5 * (u[0] + 4) ** 2)


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("density", "want"), [(_exponential_tail, 0.0), (_two_modes, np.log(2) + 0.5 * np.log(2 * np.pi))]
)
def test_skewed_densities_and_two_modes(density, want):
    found = found_box_posterior(density, jnp.zeros(1))
    np.testing.assert_allclose(found.log_evidence.value, want, atol=1e-7)


@pytest.mark.parametrize(("cut", "share"), [(-12.0, 1e-4), (-3.0, None)])
def test_what_is_no_number_counts_as_outside_where_it_can_hold_little(cut, share):
    def density(u):
        return jnp.where(u[0] < cut, jnp.nan, _exponential_tail(u))

    if share is None:  # a twentieth of the mass may be there
        with pytest.raises(ValueError, match="a number or minus infinity in the box; got NaN where"):
            found_box_posterior(density, jnp.zeros(1))
        return
    found = found_box_posterior(density, jnp.zeros(1))
    missing = -np.log1p(-np.exp(cut))
    assert abs(float(found.log_evidence.value)) < missing + float(found.log_evidence.standard_error)
    assert np.exp(cut) < found.undefined < share
    assert found.verdict.ok
    assert "not a number" in found.verdict.sentence


def _banana(u):
    return -0.5 * (u[0] ** 2 + (u[1] - u[0] ** 2) ** 2)


def test_draws_lie_between_the_points():
    found = found_box_posterior(_banana, jnp.zeros(2))
    np.testing.assert_allclose(found.log_evidence.value, np.log(2 * np.pi), atol=1e-7)
    x, y = found.draws(np.random.default_rng(0), 100_000).T
    assert len(np.unique(x)) == len(x)
    for values in (x, y - x**2):  # both standard normal: quantiles within five standard errors
        for level, want in ((0.1, -1.2815515655), (0.5, 0.0), (0.975, 1.9599639845)):
            error = np.sqrt(level * (1 - level) / len(values)) / (np.exp(-0.5 * want**2) / np.sqrt(2 * np.pi))
            assert abs(np.quantile(values, level) - want) < 5 * error


def test_a_density_of_three_numbers_is_refused():
    with pytest.raises(ValueError, match="one or two free numbers; got 3"):
        found_box_posterior(lambda u: -(u**2).sum(), jnp.zeros(3))
