"""The log-evidence of eight schools, -31.311347, by quadrature, bridge sampling, integration and stones."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.oracles import eight_schools as oracle
from tractable.inference.evidence.bridge import bridge_evidence
from tractable.inference.evidence.thermodynamic import (
    power_log_likelihoods,
    stepping_stone_evidence,
    thermodynamic_evidence,
)
from tractable.inference.grid import grid_posterior
from tractable.inference.weighted.annealed import temperature_ladder

EXACT = -31.311347
LADDER = np.asarray(temperature_ladder(40, 3.0))


def log_density(x, y, sigma):
    """Of (mu, log tau, standardised effects), with the log-determinant of tau."""
    mu, log_tau, z = x[0], x[1], x[2:]
    theta = mu + jnp.exp(log_tau) * z
    log_likelihood = (-0.5 * ((y - theta) / sigma) ** 2 - jnp.log(sigma)).sum() - 4 * jnp.log(2 * jnp.pi)
    log_mu = -0.5 * (mu / 5) ** 2 - jnp.log(5.0) - 0.5 * jnp.log(2 * jnp.pi)
    log_scale = jnp.log(2 / (5 * jnp.pi)) - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau
    return log_likelihood + log_mu + log_scale - 0.5 * z @ z - 4 * jnp.log(2 * jnp.pi)


def marginal_density(log_tau, y, sigma):
    """Of log tau alone, with mu and the effects integrated out by hand."""
    variance = sigma**2 + jnp.exp(2 * log_tau)
    precision = 1 / 25 + (1 / variance).sum()
    shift = (y / variance).sum()
    log_y = -0.5 * (y**2 / variance + jnp.log(2 * jnp.pi * variance)).sum()
    log_y += 0.5 * shift**2 / precision - 0.5 * jnp.log(25 * precision)
    return log_y + jnp.log(2 / (5 * jnp.pi)) - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau


@pytest.fixture(scope="module")
def data():
    return jnp.asarray(oracle.Y), jnp.asarray(oracle.SIGMA)


@pytest.fixture(scope="module")
def tempered():
    rng = np.random.default_rng(1)
    return np.stack([oracle.log_likelihood(oracle.draw(rng, t, 2000)[2]) for t in LADDER])


def test_the_number_itself(data):
    np.testing.assert_allclose(oracle.log_evidence_by_quadrature(), EXACT, atol=5e-7)
    post = grid_posterior(marginal_density, -18.0, 22.0, num_panels=40, args=data)
    np.testing.assert_allclose(post.log_evidence.value, EXACT, atol=5e-7)


@pytest.mark.parametrize("seed", [0, 1])
def test_bridge_sampling_meets_it(data, seed):
    mu, log_tau, theta = oracle.draw(np.random.default_rng(seed), 1.0, 8000)
    z = (theta - mu[:, None]) / np.exp(log_tau)[:, None]
    draws = np.concatenate([mu[:, None], log_tau[:, None], z], 1)
    found = bridge_evidence(log_density, draws, key=jr.key(seed), args=data)
    assert float(found.standard_error) < 0.01
    assert abs(float(found.value) - EXACT) < 2 * float(found.standard_error)
    assert found.status.ok


def test_thermodynamic_integration_meets_it(tempered):
    """E_0 of the log-likelihood is minus infinity (tau has no variance): in the ladder's coordinate it is
    harmless."""
    found = thermodynamic_evidence(tempered, LADDER, power=3.0)
    assert float(found.standard_error) < 0.015
    assert abs(float(found.value) - EXACT) < 2 * float(found.standard_error)
    assert float(found.discretisation) < float(found.monte_carlo)


def test_stepping_stones_meet_it(tempered):
    found = stepping_stone_evidence(tempered, LADDER)
    assert float(found.standard_error) < 0.015
    assert abs(float(found.value) - EXACT) < 2 * float(found.standard_error)


def test_a_sampler_may_give_the_draws():
    """One Gaussian mean with y = 1 and unit variances: theta ~ N(b/(1 + b), 1/(1 + b)) at temperature b."""

    def sampler(key, beta):
        theta = beta / (1 + beta) + jr.normal(key, (4000,)) / jnp.sqrt(1 + beta)
        return -0.5 * (1 - theta) ** 2 - 0.5 * jnp.log(2 * jnp.pi)

    ladder = np.linspace(0, 1, 11)
    found = thermodynamic_evidence(power_log_likelihoods(sampler, ladder, key=jr.key(0)), ladder, power=1)
    exact = -0.25 - 0.5 * np.log(4 * np.pi)
    assert abs(float(found.value) - exact) < 4 * float(found.standard_error) < 0.05
