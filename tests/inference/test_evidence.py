"""Every route to the evidence meets the exact one of a conjugate regression, within its stated error."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tractable.core.iterate import Status, count_traces
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.regression_conjugate import linear_regression_log_evidence
from tractable.inference.evidence.bridge import bridge_evidence
from tractable.inference.evidence.comparison import bayes_factor
from tractable.inference.evidence.criteria import aic, bic
from tractable.inference.evidence.thermodynamic import stepping_stone_evidence, thermodynamic_evidence
from tractable.inference.grid import grid_posterior
from tractable.inference.trust.evidence import Evidence
from tractable.inference.weighted.adaptive_importance import adaptive_importance
from tractable.inference.weighted.annealed import annealed_importance, temperature_ladder
from tractable.inference.weighted.importance import importance
from tractable.inference.weighted.rejection import rejection

RNG = np.random.default_rng(0)
X = np.stack([np.ones(12), np.linspace(-1, 1, 12)], 1)
Y_VALUES = X @ [0.5, -1.0] + 0.5 * RNG.normal(size=12)
NOISE, SCALE = 0.5, 2.0
EXACT = multivariate_normal(np.zeros(12), NOISE**2 * np.eye(12) + SCALE**2 * X @ X.T).logpdf(Y_VALUES)
PRIOR = Gaussian(jnp.zeros(2), SCALE**2 * jnp.eye(2))


def log_joint(beta):
    residual = (jnp.asarray(Y_VALUES) - jnp.asarray(X) @ beta) / NOISE
    normaliser = 12 * (jnp.log(NOISE) + 0.5 * jnp.log(2 * jnp.pi))
    return -0.5 * (residual @ residual) - normaliser + PRIOR.log_prob(beta)


def power_posterior(temperature):
    """Mean and covariance of prior times likelihood to a power: Gaussian."""
    cov = np.linalg.inv(np.eye(2) / SCALE**2 + temperature * X.T @ X / NOISE**2)
    return cov @ (temperature * X.T @ Y_VALUES) / NOISE**2, cov


def draws_at(temperature, count, seed):
    return np.random.default_rng(seed).multivariate_normal(*power_posterior(temperature), size=count)


def meets(estimate, largest=0.1):
    error = float(estimate.standard_error)
    return abs(float(estimate.value) - EXACT) < 4 * error and error < largest


def test_the_exact_evidence():
    found = linear_regression_log_evidence(PRIOR, X, Y_VALUES, noise=NOISE)
    np.testing.assert_allclose(found, EXACT, rtol=1e-10)


def test_quadrature():
    mean, cov = power_posterior(1.0)
    width = 9 * np.sqrt(np.diag(cov))
    post = grid_posterior(log_joint, mean - width, mean + width)
    np.testing.assert_allclose(post.log_evidence.value, EXACT, rtol=1e-9)
    np.testing.assert_allclose(post.mean, mean, atol=1e-8)


def test_importance_sampling():
    mean, cov = power_posterior(1.0)
    proposal = Gaussian(mean, 2 * cov)
    assert meets(importance(log_joint, proposal, key=jr.key(0), num_draws=4000).log_evidence)


def test_adaptive_importance_sampling():
    post = adaptive_importance(log_joint, PRIOR, key=jr.key(1), num_draws=500, num_rounds=8)
    assert meets(post.log_evidence)


def test_annealed_importance_sampling():
    post = annealed_importance(log_joint, PRIOR, key=jr.key(2), num_draws=500, temperatures=40)
    assert meets(post.log_evidence, 0.2)


def test_rejection():
    mean, cov = power_posterior(1.0)
    bound = EXACT + np.log(2) + 0.1  # two dimensions at twice the covariance need M = 2, and a margin
    found = rejection(log_joint, Gaussian(mean, 2 * cov), bound, key=jr.key(3), num_draws=4000)
    assert meets(found.log_evidence)
    assert float(found.excess) < 0


def test_bridge_sampling():
    found = bridge_evidence(log_joint, draws_at(1.0, 800, 0), key=jr.key(4))
    assert meets(found, 0.03)
    assert "by bridge sampling. Good" in repr(found)
    chains = bridge_evidence(log_joint, draws_at(1.0, 800, 1).reshape(4, 200, 2), key=jr.key(5))
    assert meets(chains, 0.03)


def test_a_perfect_proposal_has_no_error():
    post = Gaussian(*power_posterior(1.0))
    found = bridge_evidence(log_joint, draws_at(1.0, 800, 2), key=jr.key(6), proposal=post)
    np.testing.assert_allclose(found.value, EXACT, rtol=1e-9)
    assert float(found.standard_error) < 1e-6


def test_new_draws_do_not_compile_again():
    counted = count_traces(lambda x, scale: -0.5 * (x @ x) / scale)
    for seed in range(3):
        draws = np.random.default_rng(seed).normal(size=(800, 2))
        bridge_evidence(counted, draws, key=jr.key(seed), args=(jnp.asarray(1.0 + seed),))
        if seed == 0:
            first = counted.count
    assert counted.count == first


@pytest.mark.parametrize(("factor", "repeats"), [(3.0, 1), (0.3, 5)])
def test_the_bridge_error_is_the_spread_of_repetitions(factor, repeats):
    """Also for a proposal that is too narrow, and for chains that repeat every draw five times."""
    proposal = Gaussian(power_posterior(1.0)[0], factor * power_posterior(1.0)[1])
    found = []
    for seed in range(40):
        draws = np.repeat(draws_at(1.0, 800 // repeats, seed), repeats, axis=0)
        found.append(bridge_evidence(log_joint, draws, key=jr.key(seed), proposal=proposal))
    values, errors = np.array([[float(each.value), float(each.standard_error)] for each in found]).T
    np.testing.assert_allclose(values.std(), errors.mean(), rtol=5 / np.sqrt(80))
    assert abs(values.mean() - EXACT) < 5 * values.std() / np.sqrt(40)


LADDER = np.asarray(temperature_ladder(20, 3.0))


def log_likelihoods(count, seed):
    rows = [draws_at(t, count, (seed, i)) for i, t in enumerate(LADDER)]
    residual = (Y_VALUES - np.stack(rows) @ X.T) / NOISE
    return (-0.5 * residual**2 - np.log(NOISE) - 0.5 * np.log(2 * np.pi)).sum(-1)


def test_thermodynamic_integration_and_stepping_stones():
    logs = log_likelihoods(1000, 0)
    found = thermodynamic_evidence(logs, LADDER, power=3.0)
    assert meets(found)
    assert meets(thermodynamic_evidence(logs.reshape(21, 4, 250), LADDER, power=3.0))
    stones = stepping_stone_evidence(logs, LADDER)
    assert meets(stones)
    assert abs(float(bayes_factor(found, stones).value)) < 0.2  # both rest on a proper prior
    np.testing.assert_allclose(found.means, logs.mean(1), rtol=1e-12)


def test_the_rule_is_of_fourth_order():
    """With exact moments at each temperature only the discretisation is left, and its estimate covers it."""

    def exact_rule(steps):
        ladder = np.linspace(0, 1, steps + 1) ** 3
        means, spreads = [], []
        for t in ladder:
            mean, cov = power_posterior(t)
            design = X / NOISE
            rest = Y_VALUES / NOISE - design @ mean
            inner = design @ cov @ design.T
            constant = -12 * (np.log(NOISE) + 0.5 * np.log(2 * np.pi))
            means.append(constant - 0.5 * (rest @ rest + np.trace(inner)))
            spreads.append(rest @ inner @ rest + 0.5 * np.trace(inner @ inner))
        # four values with that mean and that unbiased variance
        around = np.sqrt(0.75 * np.array(spreads))[:, None] * np.array([-1.0, 1.0, -1.0, 1.0])
        return thermodynamic_evidence(np.array(means)[:, None] + around, ladder, power=3.0)

    coarse, fine = exact_rule(20), exact_rule(40)
    errors = [abs(float(found.value) - EXACT) for found in (coarse, fine)]
    assert errors[0] / errors[1] > 10
    assert errors[1] < 2 * float(fine.discretisation) < 0.01


def test_information_criteria():
    """The maximised log-likelihood less half a logarithm per parameter, and less one per parameter."""
    np.testing.assert_allclose(bic(-20.0, 3, 100), -20 - 1.5 * np.log(100), rtol=1e-12)
    np.testing.assert_allclose(aic([-20.0, -10.0], 3), [-23, -13], rtol=1e-12)


def test_bic_approaches_the_evidence_per_row():
    """For many rows the difference from the exact evidence stays bounded while both grow."""
    gaps = []
    for n in (200, 2000):
        x = np.stack([np.ones(n), np.linspace(-1, 1, n)], 1)
        y = x @ [0.5, -1.0] + 0.5 * np.random.default_rng(n).normal(size=n)
        best = np.linalg.lstsq(x, y, rcond=None)[0]
        fit = -0.5 * (((y - x @ best) / NOISE) ** 2).sum() - n * np.log(NOISE * np.sqrt(2 * np.pi))
        gaps.append(float(bic(fit, 2, n)) - float(linear_regression_log_evidence(PRIOR, x, y, noise=NOISE)))
    assert abs(gaps[0] - gaps[1]) < 0.05
    assert max(map(abs, gaps)) < 5


def test_verdicts_and_bad_input():
    bad = Evidence(jnp.asarray(0.0), jnp.asarray(2.0), jnp.asarray(int(Status.converged)), method="magic")
    assert "Unreliable" in repr(bad)
    lost = Evidence(jnp.asarray(0.0), jnp.asarray(0.01), jnp.asarray(int(Status.exhausted)), method="magic")
    assert "Do not use" in repr(lost)
    with pytest.raises(ValueError, match=r"`draws` must be of shape \(n, d\) or \(chains, n, d\)"):
        bridge_evidence(log_joint, np.zeros(5), key=jr.key(0))
    with pytest.raises(ValueError, match=r"`draws` must be more than 8 draws"):
        bridge_evidence(log_joint, np.zeros((4, 2)), key=jr.key(0))
    with pytest.raises(ValueError, match=r"`temperatures` must be rising from 0 to 1"):
        thermodynamic_evidence(np.zeros((3, 9)), [0.0, 0.5, 0.9])
    with pytest.raises(ValueError, match=r"`power` must be 1, or at least 2; got 1.5"):
        thermodynamic_evidence(np.zeros((3, 9)), [0.0, 0.5, 1.0], power=1.5)
    with pytest.raises(ValueError, match=r"`log_likelihoods` must be numbers.*a higher temperature"):
        stepping_stone_evidence(np.full((2, 9), -np.inf), [0.0, 1.0])
