"""Lagrange multipliers, active and inactive inequalities, and the KKT report."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from tractable.core.iterate import Status, count_traces
from tractable.optim.constrained import minimise_constrained, proportions
from tractable.optim.kkt import kkt_report


def test_worked_lagrange_multiplier():
    found = minimise_constrained(lambda x: x @ x, [0.0, 0.0], equality=lambda x: x.sum() - 1.0)
    np.testing.assert_allclose(found.state, [0.5, 0.5], atol=1e-10)
    np.testing.assert_allclose(found.prices, [1.0], atol=1e-10)  # grad f = alpha grad g with alpha = 1
    np.testing.assert_allclose(found.value, 0.5, atol=1e-10)
    assert found.status is Status.converged


def loss(theta, counts):
    return -(counts * jnp.log(theta)).sum()


def total(theta, counts):
    return theta.sum() - 1.0


def test_categorical_maximum_likelihood_has_multiplier_minus_n():
    counts = np.array([3.0, 5.0, 2.0])
    found = minimise_constrained(loss, np.full(3, 0.2), equality=total, args=(counts,))
    np.testing.assert_allclose(found.state, counts / 10, atol=1e-9)
    np.testing.assert_allclose(found.prices, [-10.0], atol=1e-7)  # c_k/theta_k + lambda = 0: lambda = -N
    shares, multiplier = proportions(counts)
    np.testing.assert_allclose(shares, found.state, atol=1e-9)
    np.testing.assert_allclose(multiplier, -found.prices[0], rtol=1e-9)


def test_new_data_do_not_compile_again():
    counted = count_traces(loss)
    minimise_constrained(counted, np.full(3, 0.2), equality=total, args=(np.array([1.0, 1.0, 2.0]),))
    traced = counted.count
    again = minimise_constrained(counted, np.full(3, 0.3), equality=total, args=(np.array([6.0, 1.0, 1.0]),))
    assert counted.count == traced
    np.testing.assert_allclose(again.state, [0.75, 0.125, 0.125], atol=1e-9)


def test_entropy_is_largest_for_equal_probabilities_and_exponential_with_a_mean():
    def negative_entropy(p):
        return (p * jnp.log(p)).sum()

    start = np.array([0.1, 0.2, 0.3, 0.4])
    flat = minimise_constrained(negative_entropy, start, equality=lambda p: p.sum() - 1.0)
    np.testing.assert_allclose(flat.state, 0.25, atol=1e-9)
    levels = jnp.arange(4.0)
    tilted = minimise_constrained(
        negative_entropy, start, equality=lambda p: jnp.stack([p.sum() - 1.0, levels @ p - 2.0])
    )
    ratios = np.diff(np.log(np.asarray(tilted.state)))
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-7)  # p_k proportional to exp(-nu k)
    np.testing.assert_allclose(ratios[0], -tilted.equality_multipliers[1], rtol=1e-7)
    assert tilted.report.ok


def cap(x, bound):
    return x - bound


def bowl(x, bound):
    return (x - 1.0) ** 2


@pytest.mark.parametrize(
    ("bound", "solution", "multiplier", "active"),
    [(0.25, 0.25, 1.5, True), (2.0, 1.0, 0.0, False), (1.0, 1.0, 0.0, None)],
    ids=["active", "inactive", "degenerate"],
)
def test_inequality_is_active_or_inactive(bound, solution, multiplier, active):
    found = minimise_constrained(bowl, 0.0, inequality=cap, args=(bound,))
    np.testing.assert_allclose(found.state, solution, atol=1e-7)
    np.testing.assert_allclose(found.inequality_multipliers, [multiplier], atol=1e-7)
    assert found.status is Status.converged
    if active is not None:
        assert bool(found.active[0]) is active


def rosenbrock(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def test_nonlinear_constraints_meet_slsqp():
    found = minimise_constrained(
        rosenbrock, [0.0, 0.0], inequality=lambda x: jnp.stack([x @ x - 1.0, -x[0] - 5.0])
    )
    oracle = minimize(
        lambda x: float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2),
        [0.0, 0.0],
        constraints=[{"type": "ineq", "fun": lambda x: 1.0 - x @ x}],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(found.state, oracle.x, atol=1e-5)
    assert found.value <= oracle.fun + 1e-9
    np.testing.assert_array_equal(found.active, [True, False])


def test_trees_and_dependent_constraints_are_welcome():
    found = minimise_constrained(
        lambda p: (p["a"] ** 2).sum() + (p["b"] - 1.0) ** 2,
        {"a": np.ones(2), "b": 0.0},
        equality=lambda p: jnp.stack([p["a"].sum() - p["b"], 2 * p["a"].sum() - 2 * p["b"]]),
    )
    assert found.status is Status.converged
    np.testing.assert_allclose(found.state["b"], 2 / 3, atol=1e-8)
    np.testing.assert_allclose(found.state["a"], 1 / 3, atol=1e-8)


def test_impossible_constraints_and_endless_descent_are_said_so():
    impossible = minimise_constrained(lambda x: x**2, 0.0, inequality=lambda x: jnp.stack([x - 2.0, 3.0 - x]))
    assert impossible.status is Status.infeasible
    assert "primal feasibility, inequality" in impossible.report.verdict.sentence
    assert "FAILS" in repr(impossible)
    endless = minimise_constrained(lambda x: x, 0.0, inequality=lambda x: x - 2.0)
    assert endless.status is Status.unbounded


def test_report_names_what_fails():
    options = {"inequality": lambda x: jnp.stack([2.0 - x, x - 5.0])}
    good = kkt_report(lambda x: x**2, 2.0, inequality_multipliers=[4.0, 0.0], **options)
    assert good.ok
    assert "holds" in repr(good)
    negative = kkt_report(lambda x: x**2, 2.0, inequality_multipliers=[3.0, -1.0], **options)
    assert "dual feasibility" in negative.verdict.sentence
    np.testing.assert_allclose([negative.dual, negative.complementarity], [1.0, 3.0])
    outside = kkt_report(lambda x: x**2, 1.0, inequality_multipliers=[2.0, 0.0], **options)
    np.testing.assert_allclose([outside.inequality, outside.stationarity], [1.0, 0.0])
    assert not outside.ok


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`equality` must be given, or `inequality`; got None"):
        minimise_constrained(lambda x: x, 0.0)
    with pytest.raises(ValueError, match="`fun` must be finite at `start`; got nan"):
        minimise_constrained(lambda x: jnp.log(x), -1.0, inequality=lambda x: x)
    with pytest.raises(ValueError, match="`start` must be finite"):
        minimise_constrained(lambda x: x, np.nan, inequality=lambda x: x)
    with pytest.raises(
        ValueError, match="`inequality_multipliers` must be 1 numbers, one per constraint; got 2"
    ):
        kkt_report(lambda x: x, 0.0, inequality=lambda x: x, inequality_multipliers=[1.0, 2.0])
    with pytest.raises(ValueError, match="`counts` must be zero or positive, finite and not all zero"):
        proportions([0.0, 0.0])


def bump(x, factor, constant, sign):
    return factor * (sign * jnp.sum((x - 0.3) ** 2) + jnp.sum((x - 0.3) ** 4) + constant)


def below(x, *_):
    return x - 5.0


UNITS = [(1.0, 0.0), (1.0, 1e10), (1e-10, 0.0), (1e10, -1e10)]


@pytest.mark.parametrize("sign", [-1.0, 1.0], ids=["maximum", "minimum"])
def test_an_interior_maximum_is_no_minimum_in_any_units(sign):
    for factor, constant in UNITS:
        args = tuple(jnp.asarray(number) for number in (factor, constant, sign))
        found = minimise_constrained(bump, np.full(2, 0.3), inequality=below, args=args)
        assert found.report.ok
        assert found.status is (Status.converged if sign > 0 else Status.saddle)
        away = minimise_constrained(bump, np.array([0.9, -0.7]), inequality=below, args=args)
        slope = np.abs(jax.grad(bump)(away.state, 1.0, 0.0, sign)).max()
        assert away.status is not Status.converged or slope < 1e-4
        assert constant or away.status is Status.converged


@pytest.mark.thorough
def test_saddles_along_constraints_are_found_and_those_across_them_are_held():
    along = minimise_constrained(lambda x: x[0] * x[1], [0.0, 0.0], equality=lambda x: x[0] + x[1])
    assert along.status is Status.saddle  # on the line the objective is minus a square
    across = minimise_constrained(lambda x: x[0] * x[1], [0.0, 0.0], equality=lambda x: x[0] - x[1])
    assert across.status is Status.converged
    corner = minimise_constrained(lambda x: -(x @ x), [0.5, 0.4], inequality=lambda x: x - 1.0)
    assert corner.status is Status.converged  # held on both sides: a local minimum, and no more is said
    assert "A local minimum" in corner.verdict.sentence


def test_only_a_fall_that_does_not_end_is_called_unbounded():
    below = minimise_constrained(lambda x: jnp.exp(-x), 0.0, inequality=lambda x: -x)
    assert below.status is not Status.unbounded
    line = minimise_constrained(lambda x: -x, 0.0, inequality=lambda x: -x)
    assert line.status is Status.unbounded
