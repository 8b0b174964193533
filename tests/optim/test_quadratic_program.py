"""Interior-point quadratic programs against enumeration of active sets; certificates of impossibility."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.solvers import judge_quadratic
from tests.oracles.active_sets import quadratic_minimum
from tests.oracles.programs import KINDS, SHAPES, random_program
from tractable.core.iterate import Status
from tractable.optim.kkt import kkt_report
from tractable.optim.quadratic_program import quadratic_program


def problem(seed, n=4, m=6, p=1):
    generator = np.random.default_rng(seed)
    factor = generator.normal(size=(n, n))
    inside = generator.normal(size=n)
    G, A = generator.normal(size=(m, n)), generator.normal(size=(p, n))
    h = G @ inside + generator.uniform(0, 1, size=m)
    return factor @ factor.T + 0.1 * np.eye(n), 3 * generator.normal(size=n), G, h, A, A @ inside


@pytest.mark.parametrize("seed", range(12))
def test_solution_and_multipliers_meet_the_enumeration(seed):
    data = problem(seed)
    found = quadratic_program(*data)
    x, z, y = quadratic_minimum(*data)
    assert found.status is Status.converged
    np.testing.assert_allclose(found.x, x, atol=1e-6)
    np.testing.assert_allclose(found.inequality_multipliers, z, atol=1e-5)
    np.testing.assert_allclose(found.equality_multipliers, y, atol=1e-5)
    assert abs(float(found.gap)) <= 1e-7 * (1 + abs(float(found.value)))


def test_dual_value_bounds_every_feasible_value():
    P, q, G, h, A, b = problem(3)
    found = quadratic_program(P, q, G, h, A, b)
    generator = np.random.default_rng(0)
    null = np.linalg.svd(A)[2][1:].T
    points = [np.asarray(found.x) + null @ generator.normal(scale=0.3, size=3) for _ in range(200)]
    values = [0.5 * x @ P @ x + q @ x for x in points if (G @ x <= h).all()]
    assert len(values) > 5
    assert min(values) >= float(found.dual_value) - 1e-7


def test_many_problems_at_once():
    stacked = [np.stack(part) for part in zip(*[problem(seed) for seed in range(12)], strict=True)]
    found = jax.jit(jax.vmap(quadratic_program))(*[jnp.asarray(part) for part in stacked])
    assert (np.asarray(found.code) == 0).all()
    expected = np.stack([quadratic_minimum(*problem(seed))[0] for seed in range(12)])
    np.testing.assert_allclose(found.x, expected, atol=1e-6)


def test_bad_scales_and_no_interior_are_solved_too():
    # half of the rows are tight at one point, which may be all there is; units differ by four digits
    generator = np.random.default_rng(1)
    outcomes = []
    for _ in range(20):
        rank = generator.integers(0, 5)
        factor, inside = generator.normal(size=(4, rank)), generator.uniform(-0.5, 0.5, 4)
        P = factor @ factor.T * 10 ** generator.uniform(-3, 3)
        G = np.r_[generator.normal(size=(10, 4)), np.eye(4), -np.eye(4)] * 10 ** generator.uniform(-2, 2)
        slack = np.r_[generator.uniform(size=10) * generator.integers(0, 2, 10), np.ones(8)]
        h, A = G @ inside + np.abs(G).max() * slack, generator.normal(size=(1, 4))
        found = quadratic_program(P, generator.normal(size=4), G, h, A, A @ inside)
        outcomes.append(found.status)
        assert (G @ np.asarray(found.x) <= h + 1e-6 * np.abs(G).max()).all()
    assert set(outcomes) == {Status.converged}


def test_no_curvature_is_a_linear_program():
    generator = np.random.default_rng(4)
    G, cost = np.r_[generator.normal(size=(5, 3)), -np.eye(3), np.eye(3)], generator.normal(size=3)
    h = np.r_[np.abs(generator.normal(size=5)) + 0.5, np.ones(6)]
    found = quadratic_program(np.zeros((3, 3)), cost, G, h)
    oracle = linprog(cost, G, h, bounds=(None, None))
    assert found.status is Status.converged
    np.testing.assert_allclose(found.value, oracle.fun, rtol=1e-7)
    np.testing.assert_allclose(found.inequality_multipliers, -oracle.ineqlin.marginals, atol=1e-6)


def test_equalities_alone_take_one_solve():
    found = quadratic_program(2 * np.eye(2), [0.0, 0.0], A=[[1.0, 1.0]], b=[1.0])
    np.testing.assert_allclose(found.x, [0.5, 0.5], atol=1e-8)
    np.testing.assert_allclose(found.equality_multipliers, [-1.0], atol=1e-8)
    assert int(found.num_steps) <= 3


def test_redundant_equalities_do_no_harm():
    found = quadratic_program(2 * np.eye(2), [0.0, 0.0], A=[[1.0, 1.0], [2.0, 2.0]], b=[1.0, 2.0])
    assert found.status is Status.converged
    np.testing.assert_allclose(found.x, [0.5, 0.5], atol=1e-7)


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (([[2.0]], [0.0], [[-1.0], [1.0]], [-2.0, 1.0]), Status.infeasible),
        ((np.eye(2), [0.0, 0.0], None, None, [[1.0, 1.0], [1.0, 1.0]], [1.0, 2.0]), Status.infeasible),
        (([[0.0]], [1.0], [[1.0]], [1.0]), Status.unbounded),
        ((np.diag([1.0, 0.0]), [0.0, -1.0], [[1.0, 0.0]], [1.0]), Status.unbounded),
    ],
    ids=["box", "parallel lines", "line", "valley"],
)
def test_impossible_problems_are_proved_so(data, outcome):
    found = quadratic_program(*data)
    assert found.status is outcome
    assert outcome.sentence in repr(found)
    if outcome is Status.infeasible:  # Farkas: z >= 0, G'z + A'y = 0, h'z + b'y < 0
        n = len(data[1])
        G, h = (data[2], data[3]) if data[2] is not None else (np.zeros((0, n)), np.zeros(0))
        A, b = data[4:] if len(data) > 4 else (np.zeros((0, n)), np.zeros(0))
        z, y = np.asarray(found.inequality_multipliers), np.asarray(found.equality_multipliers)
        strength = -(np.asarray(h) @ z + np.asarray(b) @ y)
        assert strength > 0
        assert (z >= 0).all()
        assert np.abs(np.asarray(G).T @ z + np.asarray(A).T @ y).max() <= 1e-6 * strength


def test_support_vector_machine_and_its_conditions():
    generator = np.random.default_rng(7)
    rows = np.r_[generator.normal(size=(10, 2)) + 1.0, generator.normal(size=(10, 2)) - 1.0]
    labels, cost = np.r_[np.ones(10), -np.ones(10)], 1.0
    signed = rows * labels[:, None]
    box, ends = np.r_[np.eye(20), -np.eye(20)], np.r_[np.full(20, cost), np.zeros(20)]
    dual = quadratic_program(signed @ signed.T, -np.ones(20), box, ends, labels[None], [0.0])
    alpha, bias = np.asarray(dual.x), float(dual.equality_multipliers[0])
    weights = signed.T @ alpha
    slack = np.maximum(0, 1 - labels * (rows @ weights + bias))

    def primal(p):
        return 0.5 * p["w"] @ p["w"] + cost * p["xi"].sum()

    def margins(p):
        return jnp.concatenate([1 - p["xi"] - jnp.asarray(labels) * (rows @ p["w"] + p["b"]), -p["xi"]])

    candidate = {"w": weights, "b": bias, "xi": slack}
    report = kkt_report(
        primal, candidate, inequality=margins, inequality_multipliers=np.r_[alpha, cost - alpha]
    )
    assert report.ok, report
    np.testing.assert_allclose(primal({"w": weights, "xi": slack}), -float(dual.value), rtol=1e-6)
    wrong = kkt_report(primal, candidate, inequality=margins, inequality_multipliers=np.r_[alpha, alpha])
    assert not wrong.ok
    assert "stationarity" in wrong.verdict.sentence


def test_bad_input_is_named():
    with pytest.raises(
        ValueError, match="`P` must be a symmetric positive semi-definite matrix; got smallest eig"
    ):
        quadratic_program([[-1.0]], [0.0])
    with pytest.raises(ValueError, match=r"`G` must be of shape \(any, 2\); got shape \(1, 3\)"):
        quadratic_program(np.eye(2), np.zeros(2), np.ones((1, 3)), [1.0])
    with pytest.raises(ValueError, match="`h` must be given with"):
        quadratic_program(np.eye(2), np.zeros(2), np.ones((1, 2)))
    with pytest.raises(ValueError, match="`q` must be finite; got nan at index 1"):
        quadratic_program(np.eye(2), [0.0, np.nan])
    with pytest.raises(ValueError, match=r"`P` must be of shape \(2, 2\)"):
        quadratic_program(np.eye(3), np.zeros(2))


@pytest.mark.parametrize("first", range(0, 36, 9))
@pytest.mark.thorough
def test_every_claim_about_a_random_program_is_right_and_carries_its_proof(first):
    """Problems of known classes in many units; `python -m benchmarks solvers` takes 1,200."""
    assert [judge_quadratic(number) for number in range(first, first + 9)] == [None] * 9


def test_inside_compiled_programs_no_claim_is_false():
    numbers = [n for n in range(60) if n // 3 % len(SHAPES) == 1]
    rng = [np.random.default_rng(n) for n in numbers]
    programs = [random_program(g, KINDS[n % 3], SHAPES[1]) for g, n in zip(rng, numbers)]
    codes = jax.vmap(lambda *data: quadratic_program(*data).code)(*map(np.stack, zip(*programs)))
    claims = {Status.converged: "solvable", Status.infeasible: "infeasible", Status.unbounded: "unbounded"}
    for number, code in zip(numbers, codes.tolist()):
        assert claims.get(Status(code), KINDS[number % 3]) == KINDS[number % 3]
