"""Particle Metropolis and Gibbs beside the posterior of a parameter on a grid, by Kalman likelihoods."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.oracles.kalman import kalman_filter
from tractable.inference.trust.effective_size import mcse_mean
from tractable.statespace.nonlinear.particle_chains import particle_gibbs, particle_metropolis
from tractable.statespace.nonlinear.system import NonlinearSystem

Q, R, T = 0.5, 0.7, 12
ONE = np.eye(1)


def system(theta):
    """x' = a x + q, y = x + r, of which a is not known."""
    return NonlinearSystem(lambda x: theta * x, Q * ONE, lambda x: x, R * ONE, np.zeros(1), ONE)


def log_prior(theta):
    return -0.5 * (theta**2).sum()


def draw_slope(key, path, y):
    """The slope of a regression of each state on the one before: conjugate, with a standard normal prior."""
    before, after = path[:-1, 0], path[1:, 0]
    precision = 1 + (before**2).sum() / Q
    mean = (before * after).sum() / Q / precision
    return (mean + jr.normal(key) / jnp.sqrt(precision))[None]


YS = np.array(system(jnp.array([0.8])).sample(jr.key(3), T)[1][0])
YS[4] = np.nan


def exact():
    """Mean and standard deviation of the slope."""
    slopes = np.linspace(-3, 3, 1201)
    logs = np.array(
        [
            kalman_filter([0.0], [[1.0]], np.array([[a]]), Q * ONE, ONE, R * ONE, YS)[2] - 0.5 * a**2
            for a in slopes
        ]
    )
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ slopes
    return mean, np.sqrt(weights @ (slopes - mean) ** 2)


def agrees(found):
    mean, deviation = exact()
    draws = found.draws["parameters"][..., 0]
    error = float(mcse_mean(draws))
    assert abs(draws.mean() - mean) < 4.5 * error < 0.2 * deviation
    squares = (draws - mean) ** 2
    assert abs(squares.mean() - deviation**2) < 4.5 * float(mcse_mean(squares))


@pytest.mark.slow
def test_particle_metropolis_has_the_exact_posterior():
    """With twenty particles the likelihood is rough; its chain is exact all the same."""
    found = particle_metropolis(
        system, log_prior, [0.5], YS, key=0, num_draws=3000, num_warmup=600, num_particles=20
    )
    agrees(found)
    assert found.draws["parameters"].shape == (4, 3000, 1)


@pytest.mark.thorough
def test_particle_gibbs_has_the_exact_posterior():
    found = particle_gibbs(
        system, draw_slope, [0.5], YS, key=1, num_draws=2000, num_particles=10, keep_paths=True
    )
    agrees(found)
    assert found.draws["states"].shape == (4, 2000, T, 1)


def test_slips_are_named():
    with pytest.raises(TypeError, match=r"`model` must be a function that returns a `NonlinearSystem`"):
        particle_gibbs(lambda theta: theta, draw_slope, [0.5], YS, key=0)
    with pytest.raises(ValueError, match=r"`start` must be a vector, or one for each of 4 chains"):
        particle_metropolis(system, log_prior, 0.5, YS, key=0)
