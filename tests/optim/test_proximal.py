"""The lasso and the elastic net, by proximal gradient and by coordinates, against scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso

from tractable.core import Status
from tractable.optim import L1Penalty, ProximalGradient, minimise
from tractable.optim.proximal import coordinate_descent, soft_threshold

GENERATOR = np.random.default_rng(0)
FEATURES = GENERATOR.normal(size=(60, 8))
FEATURES[:, 3] = 0.9 * FEATURES[:, 0] + 0.1 * FEATURES[:, 3]  # correlated columns: the harder case
TARGETS = 3 * FEATURES[:, 0] - FEATURES[:, 1] + 0.5 * FEATURES[:, 5] + 0.3 * GENERATOR.normal(size=60)
GRAM, SHIFT = FEATURES.T @ FEATURES, FEATURES.T @ TARGETS


def loss(w, x, y):
    return 0.5 * jnp.sum((x @ w - y) ** 2)


def by_proximal_gradient(penalty):
    method = ProximalGradient(penalty=penalty)
    return minimise(loss, np.zeros(8), method, args=(FEATURES, TARGETS), max_steps=20_000, tol=1e-13)


@pytest.mark.parametrize("strength", [0.5, 5.0, 60.0])
def test_lasso_meets_scikit_learn(strength):
    oracle = Lasso(alpha=strength / 60, fit_intercept=False, tol=1e-14, max_iter=100_000)
    expected = oracle.fit(FEATURES, TARGETS).coef_
    penalty = L1Penalty(strength)
    np.testing.assert_allclose(by_proximal_gradient(penalty).state, expected, atol=1e-8)
    sweeps = coordinate_descent(GRAM, SHIFT, penalty, tol=1e-13, max_steps=5000)
    assert sweeps.status is Status.converged
    np.testing.assert_allclose(sweeps.state, expected, atol=1e-8)


def test_elastic_net_meets_scikit_learn():
    strength, ridge = 6.0, 3.0
    alpha = (strength + ridge) / 60
    oracle = ElasticNet(
        alpha=alpha, l1_ratio=strength / (strength + ridge), fit_intercept=False, tol=1e-14, max_iter=100_000
    )
    expected = oracle.fit(FEATURES, TARGETS).coef_
    penalty = L1Penalty(strength, ridge)
    np.testing.assert_allclose(by_proximal_gradient(penalty).state, expected, atol=1e-8)
    sweeps = coordinate_descent(GRAM, SHIFT, penalty, tol=1e-13, max_steps=5000)
    np.testing.assert_allclose(sweeps.state, expected, atol=1e-8)


def test_orthonormal_design_is_soft_thresholding():
    columns = np.linalg.qr(FEATURES)[0]
    expected = soft_threshold(jnp.asarray(columns.T @ TARGETS), 2.0)
    method = ProximalGradient(penalty=L1Penalty(2.0))
    run = minimise(loss, np.zeros(8), method, args=(columns, TARGETS), tol=1e-13)
    np.testing.assert_allclose(run.state, expected, atol=1e-10)
    sweeps = coordinate_descent(columns.T @ columns, columns.T @ TARGETS, L1Penalty(2.0))
    np.testing.assert_allclose(sweeps.state, expected, atol=1e-10)


def test_strength_above_the_largest_correlation_gives_exact_zeros():
    largest = np.abs(SHIFT).max()
    assert (np.asarray(by_proximal_gradient(L1Penalty(1.001 * largest)).state) == 0).all()
    kept = np.asarray(coordinate_descent(GRAM, SHIFT, L1Penalty(0.999 * largest)).state)
    assert (kept != 0).sum() == 1


def test_a_strength_for_each_coordinate():
    strengths = np.array([0.0, 50.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    run = coordinate_descent(GRAM, SHIFT, L1Penalty(strengths), tol=1e-13)
    w = np.asarray(run.state)
    slope = GRAM @ w - SHIFT
    active = w != 0
    assert active[0]
    np.testing.assert_allclose(slope[active], -strengths[active] * np.sign(w[active]), atol=1e-8)
    assert (np.abs(slope[~active]) <= strengths[~active] + 1e-9).all()


def test_a_warm_start_at_the_answer_takes_one_sweep():
    answer = coordinate_descent(GRAM, SHIFT, L1Penalty(5.0), tol=1e-13)
    again = coordinate_descent(GRAM, SHIFT, L1Penalty(5.0), start=answer.state, tol=1e-10)
    assert int(again.num_steps) == 1


def test_value_includes_the_penalty():
    run = by_proximal_gradient(L1Penalty(5.0))
    w = np.asarray(run.state)
    np.testing.assert_allclose(
        run.value, 0.5 * np.sum((FEATURES @ w - TARGETS) ** 2) + 5 * np.abs(w).sum(), rtol=1e-12
    )
    assert (np.diff(run.values) <= 1e-9).all()


def test_bad_inputs_are_refused():
    with pytest.raises(ValueError, match=r"`gram` must be of shape \(8, 8\); got shape \(7, 8\)"):
        coordinate_descent(GRAM[:7], SHIFT, L1Penalty(1.0))
    with pytest.raises(ValueError, match="`strength` must be"):
        L1Penalty(-1.0)


def test_coordinate_descent_does_not_take_small_units_for_convergence():
    gram, shift = np.array([[2.0, 1.9], [1.9, 2.0]]), np.array([1.0, -1.0])
    plain = coordinate_descent(gram, shift, L1Penalty(0.0), max_steps=5000)
    small = coordinate_descent(gram, 1e-12 * shift, L1Penalty(0.0), max_steps=5000)
    assert small.status is Status.converged
    np.testing.assert_allclose(1e12 * np.asarray(small.state), plain.state, rtol=1e-7)
