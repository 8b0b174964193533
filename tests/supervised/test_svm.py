"""Support vector machines against quadratic programs, LIBSVM through scikit-learn, and worked numbers."""

import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR

from tractable.core.iterate import Status
from tractable.kernels.base import Kernel
from tractable.kernels.nonstationary import Linear, Polynomial
from tractable.kernels.stationary import RBF, Matern32
from tractable.optim.quadratic_program import quadratic_program
from tractable.supervised.perceptrons.separability import augmented
from tractable.supervised.svm import bounds, multiclass, smo
from tractable.supervised.svm.bounds import (
    enclosing_radius,
    leave_one_out_bounds,
    leave_one_out_changes,
    span_squares,
)
from tractable.supervised.svm.calibration import (
    fit_isotonic,
    fit_platt,
    fit_temperature,
    fit_two_sided,
)
from tractable.supervised.svm.gram import expand_kernel, kernel_diagonal, kernel_matrix, merge_rows
from tractable.supervised.svm.machine import SupportVectorMachine, prefer_dual
from tractable.supervised.svm.multiclass import class_scores, fit_pairwise
from tractable.supervised.svm.primal import (
    ascend_dual,
    descend_hinge,
    descend_tube,
    hard_margin,
    hinge_objective,
    soft_margin,
)
from tractable.supervised.svm.regression import (
    SupportVectorRegression,
    fit_nu_classes,
    fit_nu_regression,
    tube_loss,
    tube_program,
)
from tractable.supervised.svm.row_loops import exponentials_of_products
from tractable.supervised.svm.smo import solve_dual
from tractable.supervised.svm.study import bandwidth_study, rings, xor

TWO, SIGNS = np.array([[1.0, 1.0], [-1.0, -1.0]]), np.array([1.0, -1.0])


def noisy(n=80, seed=0, d=2):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    y = np.where(X[:, 0] + 2 * X[:, 1] + 0.3 + generator.normal(size=n) > 0, 1.0, -1.0)
    return X, y, np.sin(X[:, 0]) + 0.1 * generator.normal(size=n)


def dual_objective(beta, K, t, epsilon=0.0):
    return 0.5 * beta @ K @ beta - t @ beta + epsilon * np.abs(beta).sum()


def coefficients_of(machine, n):
    beta = np.zeros(n)
    beta[machine.support_] = machine.dual_coef_[0]
    return beta


def test_two_points_have_the_worked_solution():
    machine = SupportVectorMachine.fit(TWO, SIGNS)
    np.testing.assert_allclose(machine.multipliers, [0.25, 0.25], atol=1e-14)
    np.testing.assert_allclose(machine.primal_weights, [0.5, 0.5], atol=1e-14)
    assert machine.bias == pytest.approx(0.0, abs=1e-14)
    assert machine.width == pytest.approx(2 * np.sqrt(2), abs=1e-12)
    assert machine.value == pytest.approx(0.25)
    assert machine.dual_value == pytest.approx(0.25)
    hard = hard_margin(TWO, SIGNS)
    np.testing.assert_allclose(hard.weights, [0.5, 0.5], atol=1e-8)
    assert hard.width == pytest.approx(2 * np.sqrt(2), abs=1e-7)
    assert abs(hard.bias) < 1e-8
    assert hard.support.tolist() == [0, 1]


def test_a_hard_margin_needs_separable_classes():
    X, y, _ = noisy()
    assert not hard_margin(X, y).verdict
    assert "no plane separates" in repr(hard_margin(X, y))
    with pytest.raises(ValueError, match=r"`y` must be separable by a plane for a hard margin; got not sep"):
        SupportVectorMachine.fit(X, y, C=np.inf)
    labels = np.where(X @ [1.0, 2.0] + 0.3 > 0, 1.0, -1.0)
    primal, dual = hard_margin(X, labels), SupportVectorMachine.fit(X, labels, C=np.inf)
    np.testing.assert_allclose(dual.primal_weights, primal.weights, rtol=1e-6)
    np.testing.assert_allclose(dual.bias, primal.bias, rtol=1e-6)
    assert set(primal.support) == set(dual.support)
    assert dual.gap < 1e-8
    assert (labels * primal.decision(X)).min() == pytest.approx(1.0, abs=1e-7)


def test_the_soft_margin_is_that_of_the_quadratic_program():
    X, y, _ = noisy()
    weights = np.random.default_rng(5).integers(1, 4, len(y)).astype(float)
    program, dual = (
        soft_margin(X, y, 1.5, weights=weights),
        SupportVectorMachine.fit(X, y, C=1.5, weights=weights),
    )
    np.testing.assert_allclose(dual.primal_weights, program.weights, atol=1e-7)
    np.testing.assert_allclose(dual.bias, program.bias, atol=1e-7)
    assert dual.value == pytest.approx(program.value, rel=1e-8)
    assert program.value == pytest.approx(
        hinge_objective(program.weights, program.bias, X, y, 1.5, weights), rel=1e-7
    )
    slack = dual.slack(X, y)
    np.testing.assert_array_equal(slack > 1, dual.predict(X) != y)
    repeated = SupportVectorMachine.fit(
        np.repeat(X, weights.astype(int), 0), np.repeat(y, weights.astype(int)), C=1.5
    )
    assert repeated.value == pytest.approx(dual.value, rel=1e-9)
    np.testing.assert_allclose(repeated.decision(X), dual.decision(X), atol=1e-7)


def test_descent_along_subgradients_reaches_the_program():
    X, y, _ = noisy()
    program, run = soft_margin(X, y, 1.5), descend_hinge(X, y, 1.5, key=jr.key(0), epochs=400)
    assert program.value <= run.value * (1 + 1e-9)
    assert run.value < program.value * 1.002


def test_descent_in_a_tube_reaches_the_program():
    X, _, _ = noisy()
    t = X[:, 0] - 0.5 * X[:, 1] + 0.3 * np.sin(5 * X[:, 0]) + 0.7
    weights, bias, value = tube_program(X, t, 1.5, 0.1)
    run = descend_tube(X, t, 1.5, 0.1, key=jr.key(0), epochs=1500)
    assert value <= run.value * (1 + 1e-9)
    assert run.value < value * 1.005
    np.testing.assert_allclose(np.r_[run.weights, run.bias], np.r_[weights, bias], atol=0.03)
    with pytest.raises(ValueError, match="`epsilon` must be zero or positive"):
        descend_tube(X, t, epsilon=-1.0, key=jr.key(0))


@pytest.mark.parametrize("bias", [True, False])
def test_the_wolfe_dual_is_that_of_a_quadratic_program_from_any_start(bias):
    X, y, _ = noisy(40)
    K, C = kernel_matrix(RBF(1.2), X), 2.0
    P, n = y[:, None] * K * y, len(y)
    G, h = np.vstack([-np.eye(n), np.eye(n)]), np.r_[np.zeros(n), np.full(n, C)]
    sums = (y[None], np.zeros(1)) if bias else (None, None)
    oracle = quadratic_program(P, -np.ones(n), G, h, *sums)
    starts = [None, np.where(y > 0, 1.0 / (y > 0).sum(), 1.0 / (y < 0).sum())]
    for start in starts:
        machine = SupportVectorMachine.fit(X, y, RBF(1.2), C, bias=bias, start=start)
        assert machine.dual_value == pytest.approx(-float(oracle.value), rel=1e-8)
        assert machine.gap == pytest.approx(0.0, abs=1e-8)
        np.testing.assert_allclose(machine.multipliers, np.asarray(oracle.x), atol=1e-6)
    margin = machine.roles(X, y).margin
    np.testing.assert_allclose((y * machine.decision(X))[margin], 1.0, atol=1e-9)


def test_weak_duality_before_the_end():
    X, y, _ = noisy()
    stopped = [SupportVectorMachine.fit(X, y, RBF(1.0), 1.0, max_steps=m, finish=False) for m in (3, 10, 30)]
    best = SupportVectorMachine.fit(X, y, RBF(1.0), 1.0)
    for machine in stopped:
        assert machine.dual_value <= best.dual_value + 1e-9
        assert machine.value >= best.value - 1e-9
        assert machine.status is Status.exhausted
    assert stopped[0].gap > stopped[1].gap > stopped[2].gap > 0


@pytest.mark.parametrize("kernel", [RBF(0.8), Linear(), 0.5 * Polynomial(2, 1.0), Matern32(1.0)])
def test_rows_on_demand_agree_with_the_whole_matrix(kernel, monkeypatch):
    X, y, _ = noisy(150, seed=1)
    whole = solve_dual(kernel, X, y, np.where(y > 0, 0.0, -1.0), np.where(y > 0, 1.0, 0.0))
    monkeypatch.setattr(smo, "_WHOLE", 10)
    monkeypatch.setattr(smo, "_BLOCK", 16)
    for memory, tol in (
        (1e9, 1e-3),
        (40 * 150 * 4.0, 1e-3),
        (1e9, 1e-6),
    ):  # enough, too little, double precision
        options = {"tol": tol, "memory": memory}
        found = solve_dual(kernel, X, y, np.where(y > 0, 0.0, -1.0), np.where(y > 0, 1.0, 0.0), **options)
        assert found.exact
        assert found.status is Status.converged
        assert found.objective == pytest.approx(whole.objective, rel=1e-9)


@pytest.mark.thorough
def test_shrinking_changes_nothing(monkeypatch):
    X, y, _ = noisy(1500, seed=2, d=3)
    monkeypatch.setattr(smo, "_WHOLE", 10)
    low, high = np.where(y > 0, 0.0, -50.0), np.where(y > 0, 50.0, 0.0)
    runs = [solve_dual(RBF(1.0), X, y, low, high, shrink=shrink, finish=False) for shrink in (False, True)]
    assert runs[0].num_steps > 2000  # long enough for coefficients to leave
    assert runs[0].objective == pytest.approx(runs[1].objective, rel=1e-5)
    assert max(run.violation for run in runs) <= 1.01e-3


@pytest.mark.parametrize(("C", "gamma"), [(1.5, 0.7), (100.0, 0.1), (0.01, 2.0)])
def test_dual_objectives_agree_with_libsvm(C, gamma):
    X, y, t = noisy()
    K, kernel = kernel_matrix(RBF.from_gamma(gamma), X), RBF.from_gamma(gamma)
    theirs = SVC(C=C, gamma=gamma, tol=1e-9).fit(X, y)
    ours = SupportVectorMachine.fit(X, y, kernel, C)
    assert -ours.dual_value == pytest.approx(dual_objective(coefficients_of(theirs, 80), K, y), rel=1e-6)
    # LIBSVM keeps its kernel in single precision, ours is exact: decisions agree to that times C
    np.testing.assert_allclose(ours.decision(X), theirs.decision_function(X), atol=1e-6 * max(C, 1.0))
    tube = SVR(C=C, gamma=gamma, tol=1e-9, epsilon=0.05).fit(X, t)
    found = SupportVectorRegression.fit(X, t, kernel, C, 0.05)
    assert -found.dual_value == pytest.approx(dual_objective(coefficients_of(tube, 80), K, t, 0.05), rel=1e-6)
    assert found.gap == pytest.approx(0.0, abs=1e-7)


def test_nu_machines_agree_with_libsvm():
    X, y, t = noisy()
    kernel, K = RBF.from_gamma(0.7), kernel_matrix(RBF.from_gamma(0.7), X)
    theirs = NuSVC(nu=0.3, gamma=0.7, tol=1e-9).fit(X, y)
    ours = fit_nu_classes(X, y, kernel, 0.3)
    assert -ours.dual_value == pytest.approx(dual_objective(coefficients_of(theirs, 80), K, y), rel=1e-6)
    np.testing.assert_allclose(ours.decision(X), theirs.decision_function(X), atol=1e-4)
    assert (ours.slack(X, y) > 1e-9).mean() <= 0.3 <= len(ours.support) / 80 + 1e-12
    tube = NuSVR(nu=0.3, C=2.0, gamma=0.7, tol=1e-9).fit(X, t)
    found = fit_nu_regression(X, t, kernel, 0.3, 2.0)
    np.testing.assert_allclose(found.predict(X), tube.predict(X), atol=1e-5)
    outside = tube_loss(t - found.predict(X), found.epsilon) > 1e-9
    assert outside.mean() <= 0.3 <= len(found.support) / 80 + 1e-12
    with pytest.raises(ValueError, match=r"`nu` must be at most 0\.1 for classes"):
        fit_nu_classes(X[:20], np.r_[np.ones(19), -1.0], kernel, 0.5)


def test_a_pair_step_has_the_written_form():
    """One step from zero: eta = K_ii + K_jj - 2 K_ij, moved by the slopes' difference over eta, clipped."""
    X = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    y = np.array([1.0, -1.0, 1.0])
    K = X @ X.T
    eta = K[0, 0] + K[1, 1] - 2 * K[0, 1]
    options = {"max_steps": 1, "finish": False}
    free = SupportVectorMachine.fit(X, y, C=10.0, **options)
    i, j = 0, 1
    assert free.multipliers[[i, j]].tolist() == pytest.approx([2 / eta, 2 / eta])
    assert free.multipliers[2] == 0
    clipped = SupportVectorMachine.fit(X, y, C=0.3, **options)
    assert clipped.multipliers.tolist() == pytest.approx([0.3, 0.3, 0.0])


def test_the_single_coordinate_variant_solves_the_box():
    X, y, _ = noisy(30)
    K, alpha = kernel_matrix(RBF(1.0), X), np.zeros(30)
    for _ in range(3000):  # a <- clip(a + (1 - y f)/K_ii, 0, C), rows in turn
        for i in range(30):
            f = (alpha * y) @ K[i]
            alpha[i] = np.clip(alpha[i] + (1 - y[i] * f) / K[i, i], 0.0, 1.0)
    machine = SupportVectorMachine.fit(X, y, RBF(1.0), 1.0, bias=False)
    np.testing.assert_allclose(machine.multipliers, alpha, atol=1e-7)
    assert machine.bias == 0.0


def test_conditions_and_roles_of_the_rows():
    X, y, _ = noisy()
    machine = SupportVectorMachine.fit(X, y, RBF(1.0), 1.0)
    report = machine.conditions(X, y, C=1.0)
    assert report.ok
    assert "KKT point" in repr(report)
    alpha, slack, roles = machine.multipliers, machine.slack(X, y), machine.roles(X, y)
    margins = y * machine.decision(X)
    assert (margins[roles.outside] >= 1 - 1e-9).all()
    assert (alpha[roles.outside] == 0).all()
    np.testing.assert_allclose(margins[roles.margin], 1.0, atol=1e-9)
    assert ((alpha[roles.inside] == 1.0) & (slack[roles.inside] <= 1)).all()
    assert len(roles.inside) > 0
    assert (margins[roles.wrong] < 0).all()
    assert len(roles.wrong) > 0
    assert sorted(np.concatenate([roles.outside, roles.support])) == list(range(80))
    spoilt = SupportVectorMachine.fit(X, y, RBF(1.0), 1.0, max_steps=5, finish=False)
    assert not spoilt.conditions(X, y, C=1.0).ok


def test_kernels_with_and_without_bias_and_the_smaller_problem():
    X, y, _ = noisy()
    both = [SupportVectorMachine.fit(X, y, RBF(1.0), 1.0, bias=bias) for bias in (True, False)]
    assert both[0].value < both[1].value  # a bias can only help
    assert abs((both[0].multipliers * y).sum()) < 1e-12 < abs((both[1].multipliers * y).sum())
    expansion = kernel_matrix(RBF(1.0), X[:5], X) @ (both[0].multipliers * y) + both[0].bias
    np.testing.assert_allclose(both[0].decision(X[:5]), expansion, atol=1e-12)
    np.testing.assert_array_equal(both[0].predict(X[:5]), np.where(expansion >= 0, 1, -1))
    assert not prefer_dual(1000, 5)
    assert prefer_dual(50, 500)
    assert prefer_dual(1000, 5, RBF())


def test_kernels_solve_what_lines_cannot():
    for X, y in (rings(120), xor(120)):
        assert (SupportVectorMachine.fit(X, y, Linear(), 10.0).predict(X) == y).mean() < 0.8
        assert (SupportVectorMachine.fit(X, y, RBF(0.7), 10.0).predict(X) == y).mean() > 0.97
    X, y = xor(120)
    assert (SupportVectorMachine.fit(X, y, Polynomial(2, 1.0), 10.0).predict(X) == y).mean() == 1.0


def test_a_small_width_makes_every_row_a_support_vector():
    X, y = rings(100, noise=0.35)
    X_test, y_test = rings(400, seed=1, noise=0.35)
    study = bandwidth_study(X, y, X_test, y_test, [1e-3, 0.1, 0.7, 30.0])
    np.testing.assert_allclose(kernel_matrix(RBF(1e-3), X), np.eye(100), atol=1e-12)
    assert study.support_share[0] == 1.0
    assert study.train_error[0] == 0.0
    assert study.test_error[0] > 2 * study.test_error[2]
    assert study.best == 0.7


def test_tubes_are_those_of_the_quadratic_program():
    X, _, t = noisy()
    weights, bias, value = tube_program(X, t, 1.5, 0.1)
    found = SupportVectorRegression.fit(X, t, None, 1.5, 0.1)
    assert found.value == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(found.primal_weights, weights, atol=1e-6)
    assert found.bias == pytest.approx(bias, abs=1e-6)
    residuals = t - found.predict(X)
    assert found.value == pytest.approx(
        0.5 * weights @ weights + 1.5 * tube_loss(residuals, 0.1).sum(), rel=1e-6
    )


def test_no_tube_and_a_large_penalty_are_least_absolute_deviations():
    X, _, t = noisy(40)
    found = SupportVectorRegression.fit(X, t, None, 100.0, 0.0)
    n, table = 40, np.column_stack([X, np.ones(40)])
    cost = np.r_[np.zeros(3), np.ones(n)]
    left = np.block([[table, -np.eye(n)], [-table, -np.eye(n)]])
    oracle = linprog(cost, left, np.r_[t, -t], bounds=[(None, None)] * 3 + [(0, None)] * n)
    assert np.abs(t - found.predict(X)).sum() == pytest.approx(oracle.fun, rel=1e-6)
    squares = np.linalg.lstsq(table, t, rcond=None)[0]
    assert np.abs(table @ squares - found.predict(X)).max() > 1e-3  # and not least squares


def test_dual_ascent_is_liblinear():
    X, y, _ = noisy()
    ours, program = ascend_dual(X, y, 1.5, tol=1e-9), soft_margin(augmented(X), y, 1.5, bias=False)
    np.testing.assert_allclose(np.r_[ours.weights, ours.bias], program.weights, atol=1e-6)
    theirs = LinearSVC(loss="hinge", C=1.5, tol=1e-5, max_iter=20_000, dual=True).fit(X, y)
    np.testing.assert_allclose(ours.weights, theirs.coef_[0], atol=1e-3)
    assert ours.gap == pytest.approx(0.0, abs=1e-6)
    assert ours.verdict


def test_pairs_of_classes_agree_with_libsvm():
    generator = np.random.default_rng(3)
    X = generator.normal(size=(150, 4))
    codes = np.argmax(X[:, :3] + 0.5 * generator.normal(size=(150, 3)), 1)
    theirs = SVC(C=2.0, gamma=0.3, tol=1e-9, decision_function_shape="ovo").fit(X, codes)
    ours, left_out = fit_pairwise(X, codes, RBF.from_gamma(0.3), 2.0, left_out=500)
    np.testing.assert_allclose(-ours.decisions(X), theirs.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert sorted(ours.support) == sorted(theirs.support_)
    rows, decisions = left_out
    p = int(np.flatnonzero(rows == 11)[0])  # the truth for one row: fit without it
    truth, _ = fit_pairwise(np.delete(X, 11, 0), np.delete(codes, 11), RBF.from_gamma(0.3), 2.0)
    np.testing.assert_allclose(decisions[p], truth.decisions(X[11:12])[0], atol=0.15)
    scores = class_scores(ours.decisions(X), 3)
    np.testing.assert_array_equal(np.round(scores).sum(1), 3)


def pair_rows(singular):
    generator = np.random.default_rng(5)
    X = generator.normal(size=(90, 3))
    codes = np.argmax(X + 0.4 * generator.normal(size=(90, 3)), 1)
    return (np.vstack([X, X[:30]]), np.r_[codes, (codes[:30] + 1) % 3]) if singular else (X, codes)


@pytest.mark.parametrize("singular", [False, True])  # equal rows with other labels: no factor of the matrix
@pytest.mark.parametrize("kernel", [RBF(0.8), Linear()])
def test_pairs_together_are_the_duals_of_each_alone(kernel, singular):
    X, codes = pair_rows(singular)
    weights = np.random.default_rng(6).uniform(0.5, 2.0, len(X))
    found, _ = fit_pairwise(X, codes, kernel, 3.0, weights=weights)
    for column, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        own = np.flatnonzero((codes == a) | (codes == b))
        signs = np.where(codes[own] == b, 1.0, -1.0)
        alone = SupportVectorMachine.fit(X[own], signs, kernel, 3.0, weights=weights[own])
        assert found.dual_values[column] == pytest.approx(alone.dual_value, rel=1e-10)
        np.testing.assert_allclose(found.decisions(X[own])[:, column], alone.decision(X[own]), atol=1e-6)
    assert found.status.ok
    assert found.violation < 1e-8


def test_pairs_say_where_steps_or_room_were_too_few(monkeypatch):
    X, codes = pair_rows(False)
    short, _ = fit_pairwise(X, codes, RBF(0.8), 3.0, max_steps=3)
    assert not short.status.ok
    assert short.violation > 1e-3
    full, _ = fit_pairwise(X, codes, RBF(0.8), 3.0)
    for name in ("_LARGEST_SYSTEM", "_SHARED"):  # systems by LAPACK; no matrix of all rows
        monkeypatch.setattr(multiclass, name, 2)
        other, _ = fit_pairwise(X, codes, RBF(0.8), 3.0)
        np.testing.assert_allclose(other.decisions(X), full.decisions(X), atol=1e-8)
    absent, _ = fit_pairwise(X, codes, RBF(0.8), 3.0, weights=np.where(codes == 2, 0.0, 1.0))
    assert (absent.predict(X) != 2).all()  # a class without weight has no votes


def test_dual_ascent_goes_on_from_multipliers():
    X, y, _ = noisy()
    full = ascend_dual(X, y, 1.5, tol=1e-9)
    again = ascend_dual(X, y, 1.5, tol=1e-6, start=full.multipliers)
    assert again.num_steps == 1
    np.testing.assert_allclose(again.weights, full.weights, atol=1e-6)
    with pytest.raises(ValueError, match="`start` must be inside the bounds; got 80 multipliers outside"):
        ascend_dual(X, y, 1.5, start=np.full(80, 2.0))


def kinds(alpha, C):
    return (alpha > 0).astype(int) + (alpha >= C)


def refitted_without(X, y, kernel, C, **options):
    """The decision of every row by a machine that has not seen it."""
    found = []
    for p in range(len(y)):
        rest = np.delete(np.arange(len(y)), p)
        machine = SupportVectorMachine.fit(X[rest], y[rest], kernel, C, tol=1e-6, **options)
        found.append(machine.decision(X[p : p + 1])[0])
    return np.array(found)


def test_leave_one_out_by_the_span_rule():
    X, y = rings(60, noise=0.3)
    kernel = RBF(1.0)
    machine = SupportVectorMachine.fit(X, y, kernel, 5.0)
    beta, free = np.zeros(60), np.zeros(60, bool)
    beta[machine.support] = machine.coefficients
    free[machine.support] = np.abs(machine.coefficients) < 5.0
    estimate = machine.decision(X) - leave_one_out_changes(kernel, X, beta, free, np.arange(60))
    truth = refitted_without(X, y, kernel, 5.0)
    np.testing.assert_allclose(estimate[beta == 0], truth[beta == 0], atol=1e-8)
    unchanged = 0
    for p in np.flatnonzero(beta):  # exact where the vectors on the margin and at the bound stay the same
        keep = np.delete(np.arange(60), p)
        other = SupportVectorMachine.fit(X[keep], y[keep], kernel, 5.0)
        refit = np.zeros(60)
        refit[keep[other.support]] = np.abs(other.coefficients)
        same = np.array_equal(kinds(refit, 5.0)[keep], kinds(np.abs(beta), 5.0)[keep])
        unchanged += same
        if same:
            assert estimate[p] == pytest.approx(truth[p], abs=1e-8)
    assert unchanged >= 2
    bounds, errors = leave_one_out_bounds(machine, X, y), (y * truth <= 0).mean()
    assert errors <= bounds.support_vectors
    assert errors <= bounds.span <= bounds.dual  # the rule is on the careful side


@pytest.mark.parametrize("bias", [True, False])
def test_spans_of_many_vectors_are_those_of_few(bias, monkeypatch):
    X, y = rings(60, noise=0.3)
    machine = SupportVectorMachine.fit(X, y, RBF(0.5), 2.0, bias=bias)
    table, free = kernel_matrix(RBF(0.5), X[machine.support]), np.abs(machine.coefficients) < 2.0
    few = span_squares(table, free, bias=bias)
    inside, border = np.flatnonzero(free), np.ones((free.sum(), int(bias)))
    inverse = np.linalg.inv(
        np.block([[table[np.ix_(free, free)], border], [border.T, np.zeros((int(bias),) * 2)]])
    )
    np.testing.assert_allclose(few[inside], 1 / np.diagonal(inverse)[: len(inside)], rtol=1e-6)
    monkeypatch.setattr(bounds, "_PSEUDO", 1)
    np.testing.assert_allclose(span_squares(table, free, bias=bias), few, rtol=1e-6)


def test_bounds_of_a_hard_margin_through_the_origin_hold():
    generator = np.random.default_rng(2)
    X = generator.normal(size=(40, 2))
    X = X[np.abs(X @ [0.8, 0.6]) > 0.3]
    y = np.where(X @ [0.8, 0.6] > 0, 1.0, -1.0)
    machine = SupportVectorMachine.fit(X, y, C=np.inf, bias=False)
    bounds = leave_one_out_bounds(machine, X, y)
    errors = (y * refitted_without(X, y, Linear(), 1e6, bias=False) <= 0).mean()
    assert machine.multipliers.sum() == pytest.approx(machine.norm**2, rel=1e-9)  # sum alpha = 1/rho^2
    largest = (X**2).sum(1).max()
    assert bounds.radius_margin == pytest.approx(largest * machine.norm**2 / len(y))
    assert errors <= min(bounds.dual, bounds.support_vectors, bounds.radius_margin)


def test_the_smallest_ball():
    generator = np.random.default_rng(0)
    circle = generator.normal(size=(30, 2))
    circle /= np.linalg.norm(circle, axis=1, keepdims=True)
    rows = np.vstack([3 + 2 * circle, 3 - 2 * circle, 3 + 0.5 * circle])  # opposite points: radius two
    assert enclosing_radius(Linear(), rows) == pytest.approx(2.0, rel=1e-8)


def test_probabilities_never_contradict_decisions():
    generator = np.random.default_rng(1)
    f = generator.normal(size=400) - 0.5
    y = np.where(generator.uniform(size=400) < 1 / (1 + np.exp(-(2 * f + 1))), 1.0, -1.0)
    two, platt, curve = fit_two_sided(f, y), fit_platt(f, y), fit_isotonic(f, y)
    assert ((two(f) > 0.5) == (f > 0)).all()
    assert not ((platt(f) > 0.5) == (f > 0)).all()
    assert platt.slope == pytest.approx(2.0, abs=0.8)
    assert platt.shift == pytest.approx(1.0, abs=0.5)
    assert (np.diff(curve(np.sort(f))) >= 0).all()

    def slope(a, side):  # of the log-loss with Platt's targets: zero at the fit
        positive, negative = (y > 0).sum(), (y < 0).sum()
        t = np.where(y > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))
        return (f[side] * (1 / (1 + np.exp(-a * f[side])) - t[side])).sum()

    assert abs(slope(two.above, f >= 0)) < 1e-8
    assert abs(slope(two.below, f < 0)) < 1e-8
    weighted = fit_two_sided(f[:50], y[:50], np.full(50, 2.0))
    repeated = fit_two_sided(np.tile(f[:50], 2), np.tile(y[:50], 2))
    np.testing.assert_allclose([weighted.below, weighted.above], [repeated.below, repeated.above], rtol=1e-10)


def test_the_temperature_of_scores_is_found():
    generator = np.random.default_rng(4)
    scores = generator.normal(size=(4000, 3))
    probs = np.exp(2.0 * scores) / np.exp(2.0 * scores).sum(1, keepdims=True)
    codes = (generator.uniform(size=(4000, 1)) > np.cumsum(probs, 1)).sum(1)
    assert fit_temperature(scores, codes).slope == pytest.approx(2.0, abs=0.15)  # standard error 0.03


@given(st.integers(0, 10_000))
def test_kernel_matrices_without_compilation_are_those_of_the_kernel(seed):
    generator = np.random.default_rng(seed)
    X, Z = 1e3 + generator.normal(size=(8, 3)), 1e3 + generator.normal(size=(8, 3))
    kernels: list[Kernel] = [RBF([0.5, 1.0, 3.0]), 2.5 * RBF(1.5)]
    for kernel in kernels:
        np.testing.assert_allclose(kernel_matrix(kernel, X, Z), kernel.gram(X, Z), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(kernel_diagonal(kernel, X), kernel.diagonal(X), rtol=1e-12)
    for kernel in (Linear(), 0.3 * Polynomial(3, 1.5)):
        x, z = X - 1e3, Z - 1e3
        np.testing.assert_allclose(kernel_matrix(kernel, x, z), kernel.gram(x, z), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(kernel_diagonal(kernel, x), kernel.diagonal(x), rtol=1e-12)
    c = generator.normal(size=(8, 2))
    np.testing.assert_allclose(
        expand_kernel(RBF(1.5), X, Z, c), kernel_matrix(RBF(1.5), X, Z) @ c, atol=1e-12
    )


def test_exponentials_by_polynomials():
    squares = np.r_[0.0, 1e-30, np.linspace(0, 200, 5001), 1e6]
    table = np.zeros((1, len(squares)))
    exponentials_of_products(table, np.zeros(1), squares)
    truth = np.exp(-0.5 * squares)
    np.testing.assert_allclose(table[0, :-1], truth[:-1], rtol=3e-14)
    assert table[0, -1] < 1e-300
    single = np.zeros((1, len(squares)), np.float32)
    exponentials_of_products(single, np.zeros(1, np.float32), squares.astype(np.float32))
    np.testing.assert_allclose(single[0, :1000], truth[:1000], rtol=3e-6)


def test_equal_rows_are_merged():
    X, y = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [1.0, 2.0]]), np.array([1.0, 1.0, -1.0, 1.0])
    first, weights = merge_rows(X, y, np.array([1.0, 2.0, 3.0, 4.0]))
    assert first.tolist() == [0, 1, 2]
    assert weights.tolist() == [5.0, 2.0, 3.0]


def test_scales_of_columns_do_not_spoil_the_machine():
    X, y, _ = noisy()
    for unit in (1e-9, 1e9):
        scaled = SupportVectorMachine.fit(X * unit, y, RBF(unit), 1.0)
        np.testing.assert_allclose(
            scaled.decision(X * unit), SupportVectorMachine.fit(X, y, RBF(1.0), 1.0).decision(X), atol=1e-7
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SupportVectorMachine.fit(TWO, [1, 0]), r"`y` must be -1 or \+1; got 0 at index 1"),
        (lambda: SupportVectorMachine.fit(TWO, [1, -1, 1]), r"`y` must be as long as `X` \(2\); got 3"),
        (lambda: SupportVectorMachine.fit(TWO, SIGNS, C=-1.0), r"`C` must be positive"),
        (lambda: SupportVectorMachine.fit([[np.nan, 1.0]], [1]), r"finite; got NaN in column 0, row 0"),
        (lambda: SupportVectorMachine.fit(TWO, SIGNS, weights=[1.0, -1.0]), r"`weights` must be zero or pos"),
        (lambda: SupportVectorMachine.fit(TWO, SIGNS, start=[3.0, 3.0]), r"`start` must be inside the bou"),
        (lambda: SupportVectorRegression.fit([1.0], [1.0], epsilon=-1.0), r"`epsilon` must be zero or pos"),
        (lambda: SupportVectorMachine.fit(TWO, SIGNS, RBF()).primal_weights, r"`kernel` must be linear"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
