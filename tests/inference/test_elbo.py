"""The identities of the ELBO, to rounding, on enumerable and on Gaussian models; bounds from weights."""

import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.inference.variational.elbo import (
    discrete_elbo,
    gaussian_elbo,
    importance_weighted_bound,
    renyi_bound,
)


@given(st.integers(0, 10_000))
def test_evidence_is_bound_plus_divergence_on_tables(seed):
    random = np.random.default_rng(seed)
    prior = random.dirichlet(np.ones(6)).reshape(2, 3)
    likelihood = random.uniform(0.01, 1.0, (2, 3))
    q = random.dirichlet(np.ones(6)).reshape(2, 3)
    report = discrete_elbo(np.log(prior * likelihood), q, np.log(prior))
    evidence = np.log((prior * likelihood).sum())
    posterior = prior * likelihood / np.exp(evidence)
    divergence = (q * np.log(q / posterior)).sum()
    np.testing.assert_allclose(float(report.log_evidence), evidence, rtol=1e-13)
    np.testing.assert_allclose(float(report.gap), divergence, atol=1e-12)
    np.testing.assert_allclose(float(report.kl), divergence, atol=1e-12)
    np.testing.assert_allclose(float(report.reconstruction - report.prior_kl), float(report.elbo), atol=1e-12)
    np.testing.assert_allclose(float(report.entropy), -(q * np.log(q)).sum(), atol=1e-12)
    tight = discrete_elbo(np.log(prior * likelihood), posterior)
    np.testing.assert_allclose(float(tight.elbo), evidence, atol=1e-12)


def test_impossible_states_cost_nothing_unless_q_visits_them():
    log_joint = np.log(np.array([0.2, 0.3, 1.0])) + np.array([0.0, 0.0, -np.inf])
    inside = discrete_elbo(log_joint, [0.4, 0.6, 0.0])
    np.testing.assert_allclose(float(inside.elbo), np.log(0.5), rtol=1e-13)
    outside = discrete_elbo(log_joint, [0.3, 0.3, 0.4])
    assert float(outside.elbo) == -np.inf
    assert float(outside.kl) == np.inf


def test_gaussian_identities_hold_for_any_q_and_the_posterior_is_tight():
    prior = Gaussian([0.5, -1.0], [[2.0, 0.3], [0.3, 1.0]])
    observe = LinearGaussian([[1.0, 2.0], [0.5, -1.0], [0.0, 1.0]], np.zeros(3), 0.7 * np.eye(3))
    y = np.array([1.0, -0.5, 2.0])
    q = Gaussian([0.1, 0.4], [[0.5, 0.1], [0.1, 0.3]])
    report = gaussian_elbo(prior, observe, y, q)
    np.testing.assert_allclose(float(report.gap), float(report.kl), rtol=1e-12)
    np.testing.assert_allclose(float(report.reconstruction - report.prior_kl), float(report.elbo), rtol=1e-12)
    # the evidence by the dense joint normal
    cov = observe.weights @ prior.cov @ observe.weights.T + observe.cov
    gap = y - np.asarray(observe.weights @ prior.mean)
    dense = -0.5 * (gap @ np.linalg.solve(cov, gap) + np.linalg.slogdet(cov)[1] + 3 * np.log(2 * np.pi))
    np.testing.assert_allclose(float(report.log_evidence), dense, rtol=1e-12)
    tight = gaussian_elbo(prior, observe, y, observe.posterior(prior, y))
    np.testing.assert_allclose(float(tight.gap), 0.0, atol=1e-12)
    assert "log_evidence" in repr(tight)


def test_bounds_rise_as_alpha_falls_and_with_more_weights():
    logs = np.asarray(jr.normal(jr.key(0), (4000, 16))) * 0.8
    bounds = [float(renyi_bound(logs, a).mean()) for a in (1.0, 0.5, 0.0)]
    assert bounds[0] < bounds[1] < bounds[2]
    np.testing.assert_allclose(float(renyi_bound(logs[0], 1.0)), logs[0].mean(), rtol=1e-13)
    near = [float(renyi_bound(logs[0], a)) for a in (1.0, 1 - 1e-6)]
    np.testing.assert_allclose(near[0], near[1], rtol=1e-4)
    few = float(importance_weighted_bound(logs[:, :4]).mean())
    assert bounds[0] < few < bounds[2] < 0.8**2 / 2 + 5 * 0.8 / np.sqrt(4000 * 16)
    np.testing.assert_allclose(
        float(importance_weighted_bound(logs[0])), np.log(np.exp(logs[0]).mean()), rtol=1e-12
    )


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`q` must be of shape \(2,\); got shape \(3,\)"):
        discrete_elbo([0.0, 0.0], [0.2, 0.3, 0.5])
    with pytest.raises(ValueError, match="`q` must be probabilities that sum to 1"):
        discrete_elbo([0.0, 0.0], [0.2, 0.3])
    with pytest.raises(ValueError, match="`log_weights` must be at least a vector"):
        renyi_bound(1.0, 0.5)
