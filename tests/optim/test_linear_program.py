"""Linear programs: rock-paper-scissors, the dual pair, certificates, impossible problems."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array

from benchmarks.solvers import judge_linear
from tractable.core.iterate import Status
from tractable.optim.kkt import kkt_report
from tractable.optim.linear_program import LinearProgram, linear_program

GAME = np.array([[2.0, 1.0, 3.0], [3.0, 2.0, 1.0], [1.0, 3.0, 2.0]])  # rock, paper, scissors, shifted by 2


def test_rock_paper_scissors():
    column = LinearProgram(np.ones(3), GAME, np.ones(3))
    row = column.dual()
    best, answer = column.solve(), row.solve()
    np.testing.assert_allclose([best.value, answer.value], 0.5, rtol=1e-12)
    np.testing.assert_allclose(best.x / best.value, 1 / 3, rtol=1e-9)
    np.testing.assert_allclose(answer.x.sum(), 0.5, rtol=1e-12)
    np.testing.assert_allclose(best.dual, answer.x, atol=1e-12)
    assert 1 / float(best.value) - 2 == pytest.approx(0.0, abs=1e-12)


def test_dual_of_the_dual_is_the_program():
    program = LinearProgram([1.0, 2.0], [[1.0, 3.0], [2.0, 1.0], [0.5, 0.5]], [4.0, 5.0, 6.0])
    again = program.dual().dual()
    assert again.maximise is program.maximise
    np.testing.assert_array_equal(again.matrix, program.matrix)
    np.testing.assert_array_equal(again.objective, program.objective)
    assert program.dual().matrix.shape == (2, 3)


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 5), columns=st.integers(1, 5))
def test_strong_duality_and_complementary_slackness(seed, rows, columns):
    generator = np.random.default_rng(seed)
    program = LinearProgram(  # positive matrix and bounds: both sides are feasible
        generator.normal(size=columns),
        generator.uniform(0.1, 1, (rows, columns)),
        generator.uniform(1, 2, rows),
    )
    best, other = program.solve(), program.dual().solve()
    x, y = np.asarray(best.x), np.asarray(other.x)
    matrix, bound, objective = (np.asarray(v) for v in (program.matrix, program.bound, program.objective))
    np.testing.assert_allclose(objective @ x, bound @ y, atol=1e-9)
    np.testing.assert_allclose(y * (bound - matrix @ x), 0.0, atol=1e-8)
    np.testing.assert_allclose(x * (matrix.T @ y - objective), 0.0, atol=1e-8)
    assert best.gap <= 1e-9
    assert best.slackness <= 1e-8
    assert (np.asarray(best.dual) >= -1e-12).all()


def test_lagrangian_is_finite_exactly_on_the_dual_feasible_set():
    program = LinearProgram(np.ones(3), GAME, np.ones(3))
    np.testing.assert_allclose(program.dual_function(np.full(3, 1 / 6)), 0.5, rtol=1e-12)
    assert float(program.dual_function([0.1, 0.1, 0.1])) == np.inf
    assert float(program.dual_function([-1.0, 2.0, 2.0])) == np.inf
    assert float(program.dual().dual_function([1.0, 1.0, 1.0])) == -np.inf
    # the definition, by brute force on a grid of x >= 0: the best of c'x + lambda'(b - A x)
    lam = np.array([0.2, 0.15, 0.2])
    grid = np.stack(np.meshgrid(*[np.linspace(0, 2, 9)] * 3), -1).reshape(-1, 3)
    best = max(x.sum() + lam @ (1 - GAME @ x) for x in grid)
    np.testing.assert_allclose(program.dual_function(lam), best, rtol=1e-12)


def test_prices_are_the_change_per_unit_of_each_bound():
    cost, rows, bound = [3.0, 5.0], [[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]], np.array([4.0, 12.0, 18.0])
    found = linear_program(cost, upper=(rows, bound), maximise=True)
    np.testing.assert_allclose(found.x, [2.0, 6.0], atol=1e-9)
    np.testing.assert_allclose(found.dual, [0.0, 1.5, 1.0], atol=1e-9)
    for i in range(3):
        more = linear_program(cost, upper=(rows, bound + 1e-3 * np.eye(3)[i]), maximise=True)
        np.testing.assert_allclose((more.value - found.value) / 1e-3, found.dual[i], atol=1e-6)


def test_general_form_meets_the_conditions():
    cost = np.array([1.0, 2.0, -1.0])
    equal, lower = ([[1.0, 1.0, 1.0]], [2.0]), ([[1.0, -1.0, 0.0]], [0.5])
    found = linear_program(cost, equality=equal, lower=lower)
    assert found.gap <= 1e-12
    report = kkt_report(
        lambda x: jnp.asarray(cost) @ x,
        found.x,
        inequality=lambda x: jnp.concatenate([0.5 - x[:1] + x[1:2], -x]),
        equality=lambda x: x.sum() - 2.0,
        inequality_multipliers=np.r_[found.dual, found.reduced_costs],
        equality_multipliers=found.equality_dual,
    )
    assert report.ok, report


def test_infeasible_and_unbounded_are_each_others_duals():
    impossible = LinearProgram([1.0], [[1.0]], [-1.0])
    assert impossible.solve().status is Status.infeasible
    assert impossible.dual().solve().status is Status.unbounded
    assert float(impossible.solve().value) == -np.inf
    assert "Infeasible" in repr(impossible.solve())


def test_every_claim_about_a_random_program_is_right_and_carries_its_proof():
    assert [judge_linear(number) for number in range(72)] == [None] * 72


def test_bounds_of_unknowns_are_part_of_the_proof():
    above = linear_program([1.0, 1.0], lower=([[1.0, 1.0]], [3.0]), high=[1.0, 1.0])
    assert above.status is Status.infeasible
    assert np.isfinite(above.dual).all()
    away = linear_program([-1.0, 0.0], upper=([[0.0, 1.0]], [3.0]), high=[np.inf, 1.0])
    assert away.status is Status.unbounded
    assert away.ray[0] > 0.5
    assert away.ray[1] <= 0
    sparse = linear_program([1.0, 0.0], upper=(csr_array([[0.0, 1.0]]), [3.0]), low=None)
    assert sparse.status is Status.unbounded
    assert sparse.ray[0] < 0


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`matrix` must be of shape \(any, 2\)"):
        LinearProgram([1.0, 2.0], np.ones((2, 3)), [1.0, 1.0])
    with pytest.raises(ValueError, match="`bound` must be finite; got nan at index 0"):
        LinearProgram([1.0], [[1.0]], [np.nan])
    with pytest.raises(ValueError, match=r"`upper\[1\]` must be of shape \(1,\)"):
        linear_program([1.0], upper=([[1.0]], [1.0, 2.0]))
    with pytest.raises(ValueError, match=r"`low` must be one number or 1 of them"):
        linear_program([1.0], low=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"`multipliers` must be of shape \(1,\)"):
        LinearProgram([1.0], [[1.0]], [1.0]).dual_function([1.0, 2.0])


@pytest.mark.parametrize("maximise", [False, True])
def test_boxes_and_sparse_rows_keep_strong_duality(maximise):
    rng = np.random.default_rng(0)
    cost, rows = rng.normal(size=5), rng.normal(size=(3, 5))
    low, high = np.array([-1.0, -np.inf, 0.0, -2.0, 0.5]), np.array([1.0, 2.0, 3.0, np.inf, 4.0])
    upper, equality = (rows[:2], np.ones(2)), (rows[2:], np.array([0.3]))
    box = (np.vstack([np.eye(5)[[1, 3]], -np.eye(5)[[1, 3]]]), np.full(4, 10.0))  # so that it is bounded
    pair = (np.vstack([upper[0], box[0]]), np.concatenate([upper[1], box[1]]))
    options = {"equality": equality, "low": low, "high": high, "maximise": maximise}
    found = linear_program(cost, upper=pair, **options)
    sparse = linear_program(cost, upper=(csr_array(pair[0]), pair[1]), **options)
    best = linprog(-cost if maximise else cost, pair[0], pair[1], *equality, bounds=np.stack([low, high], 1))
    assert found.status is Status.converged
    np.testing.assert_allclose(found.value, -best.fun if maximise else best.fun, rtol=1e-12)
    np.testing.assert_allclose(sparse.x, found.x, atol=1e-12)
    assert found.gap < 1e-12
    assert found.slackness < 1e-12
