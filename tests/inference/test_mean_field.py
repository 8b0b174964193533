"""Mean field of a Gaussian and both directions of KL: the worked numbers, and what each direction does."""

import numpy as np
import pytest

from tests.oracles.variational import mean_field_sweeps
from tractable.core.iterate import Status
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.mixture import Mixture
from tractable.inference.variational.kl_fit import forward_kl_fit, reverse_kl_fit
from tractable.inference.variational.mean_field import (
    inclusive_mean_field,
    inclusive_mean_field_table,
    kl_directions,
    mean_field_gaussian,
    mean_field_path,
)

CORRELATED = Gaussian([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]])


def dense_kl(m, s, n, t):
    """KL(N(m, s) || N(n, t)) from its definition."""
    inverse = np.linalg.inv(t)
    gap = n - m
    volumes = np.linalg.slogdet(t)[1] - np.linalg.slogdet(s)[1]
    return 0.5 * (np.trace(inverse @ s) + gap @ inverse @ gap - len(m) + volumes)


def test_worked_sweep_and_variances_of_a_correlated_gaussian():
    path = np.asarray(mean_field_path(CORRELATED, [0.0, 1.0], 3))
    np.testing.assert_allclose(path[0], [0.9, 0.81], rtol=1e-12)
    np.testing.assert_allclose(path[1:] / path[:-1], 0.9**2, rtol=1e-12)  # contraction by rho^2
    run = mean_field_gaussian(CORRELATED, [0.0, 1.0])
    assert run.status is Status.converged
    np.testing.assert_allclose(np.diagonal(run.state.cov), 0.19, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(run.state.mean), 0.0, atol=1e-6)
    np.testing.assert_allclose(run.values[-1], 0.8303656, atol=5e-8)
    assert (np.diff(run.values) <= 1e-12).all()


def test_any_dimension_reaches_the_mean_with_inverse_precision_variances():
    random = np.random.default_rng(2)
    factor = random.normal(size=(5, 5))
    cov, mean = factor @ factor.T + 0.5 * np.eye(5), random.normal(size=5)
    run = mean_field_gaussian(Gaussian(mean, cov), np.zeros(5))
    np.testing.assert_allclose(np.asarray(run.state.mean), mean, atol=1e-5)
    variances = np.diagonal(run.state.cov)
    np.testing.assert_allclose(variances, 1 / np.diag(np.linalg.inv(cov)), rtol=1e-9)
    assert (variances <= np.diag(cov)).all()


def test_worked_divergences_in_both_directions():
    report = kl_directions(CORRELATED)
    np.testing.assert_allclose(float(report.exclusive_kl), 0.8303656, atol=5e-8)
    np.testing.assert_allclose(float(report.inclusive_kl), 0.8303656, atol=5e-8)
    np.testing.assert_allclose(float(report.exclusive_reversed), 3.4327923, atol=5e-8)
    np.testing.assert_allclose(float(report.inclusive_reversed), 3.4327923, atol=5e-8)
    zero, cov = np.zeros(2), np.asarray(CORRELATED.cov)
    narrow = dense_kl(zero, 0.19 * np.eye(2), zero, cov)
    np.testing.assert_allclose(float(report.exclusive_kl), narrow, rtol=1e-10)
    np.testing.assert_allclose(float(report.inclusive_kl), dense_kl(zero, cov, zero, np.eye(2)), rtol=1e-10)
    assert "3.43279" in repr(report)


def test_product_of_marginals_is_the_inclusive_optimum():
    random = np.random.default_rng(3)
    probs = random.dirichlet(np.ones(6)).reshape(2, 3)
    product = np.asarray(inclusive_mean_field_table(probs))
    np.testing.assert_allclose(product, np.outer(probs.sum(1), probs.sum(0)), rtol=1e-13)

    def divergence(q):
        return (probs * np.log(probs / q)).sum()

    q, _ = mean_field_sweeps(np.log(probs), [np.full(2, 0.5), np.full(3, 1 / 3)], 50)
    exclusive = np.outer(*q)
    assert divergence(product) < divergence(exclusive)
    for _ in range(20):
        other = np.outer(random.dirichlet(np.ones(2)), random.dirichlet(np.ones(3)))
        assert divergence(product) <= divergence(other)
    wide = inclusive_mean_field(CORRELATED)
    np.testing.assert_allclose(np.asarray(wide.cov), np.eye(2))


def test_two_modes_are_covered_by_one_direction_and_chosen_by_the_other():
    target = Mixture([0.5, 0.5], Normal(np.array([-3.0, 3.0]), np.array([0.5, 0.5])))
    covering = forward_kl_fit(Normal(0.0, 1.0), target).distribution
    np.testing.assert_allclose(float(covering.loc), 0.0, atol=1e-6)
    np.testing.assert_allclose(float(covering.scale), np.sqrt(9.25), rtol=1e-6)  # moments matched
    starts = [Normal(-2.0, 1.0), Normal(2.0, 1.0)]
    seeking = reverse_kl_fit(target, starts).distribution
    np.testing.assert_allclose(abs(float(seeking.loc)), 3.0, atol=0.05)  # zero forcing: one mode
    np.testing.assert_allclose(float(seeking.scale), 0.5, rtol=0.1)


def test_bad_start_is_refused():
    with pytest.raises(ValueError, match=r"`start` must be of shape \(2,\); got shape \(3,\)"):
        mean_field_gaussian(CORRELATED, [0.0, 0.0, 0.0])
