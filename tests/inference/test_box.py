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
    grid, placed = found_box_posterior(density, jnp.zeros(len(mean)))
    want = 0.5 * len(mean) * np.log(2 * np.pi) + np.linalg.slogdet(root)[1]
    np.testing.assert_allclose(grid.log_evidence.value + placed.log_det, want, atol=1e-8)
    assert grid.verdict.ok, grid.verdict
    found = placed.centre + placed.root @ grid.mean
    np.testing.assert_allclose(found, mean, atol=1e-6 * (1 + abs(mean)).max())
    cov = placed.root @ grid.cov @ placed.root.T
    np.testing.assert_allclose(cov, root @ root.T, rtol=1e-5, atol=1e-6 * abs(root @ root.T).max())


def _exponential_tail(u):  # the density of log s for s ~ Exponential: e^u below, e^{-e^u} above
    return u[0] - jnp.exp(u[0])


def _two_modes(u):
    return jnp.logaddexp(-0.5 * (u[0] - 4) ** 2, -0.5 * (u[0] + 4) ** 2)


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("density", "want"), [(_exponential_tail, 0.0), (_two_modes, np.log(2) + 0.5 * np.log(2 * np.pi))]
)
def test_skewed_densities_and_two_modes(density, want):
    grid, placed = found_box_posterior(density, jnp.zeros(1))
    np.testing.assert_allclose(grid.log_evidence.value + placed.log_det, want, atol=1e-7)


def test_a_density_of_three_numbers_is_refused():
    with pytest.raises(ValueError, match="one or two free numbers; got 3"):
        found_box_posterior(lambda u: -(u**2).sum(), jnp.zeros(3))
