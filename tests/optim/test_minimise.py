"""`minimise`: its stopping rules, its gradients, its verdicts, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import rosen

from benchmarks.solvers import judge_smooth
from tractable.core import Status
from tractable.core.iterate import count_traces
from tractable.optim import (
    BFGS,
    LBFGS,
    Adam,
    GaussNewton,
    GradientDescent,
    LineSearchDescent,
    Newton,
    ProjectedGradient,
    minimise,
)
from tractable.optim.minimise import trajectory
from tractable.optim.projected import Box

SCALES = np.array([1.0, 4.0])
START = np.array([3.0, -1.0])


def bowl(x):
    return 0.5 * jnp.sum(SCALES * x**2)


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_slope(x):
    return jnp.array([-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)])


def descended(step, num_steps):
    """The path of gradient descent on the bowl, in closed form."""
    return START * (1 - step * SCALES) ** np.arange(num_steps + 1)[:, None]


def test_trajectory_is_the_closed_form_path():
    path = trajectory(bowl, START, GradientDescent(0.1), num_steps=30)
    expected = descended(0.1, 30)
    np.testing.assert_allclose(path.points, expected, rtol=1e-12)
    np.testing.assert_allclose(path.values, 0.5 * (SCALES * expected**2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(path.gradients, SCALES * expected, rtol=1e-12)


def first_step(met):
    """The first step at which a rule holds, from the closed-form path."""
    path = descended(0.1, 400)
    return next(k for k in range(1, 401) if met(path[k], path[k - 1]))


def height(x):
    return 0.5 * np.sum(SCALES * x**2)


def length(x):
    return max(np.abs(x).max(), np.abs(x - START).max())


def fallen(x):
    return min(height(START) - height(x), 1 + height(x))


def is_flat(x, before):
    """The step and the fall that are left, by the secant of the last step."""
    slope = np.abs(SCALES * x).max()
    secant = np.linalg.norm(SCALES * (x - before)) / np.linalg.norm(x - before)
    return slope <= 1e-4 * secant * length(x) or slope**2 <= 2e-8 * secant * fallen(x)


RULES = {
    "gradient": is_flat,
    "step": lambda x, before: np.abs(x - before).max() <= 1e-4 * length(x),
    "value": lambda x, before: abs(height(x) - height(before)) <= 1e-4 * fallen(x),
}


@pytest.mark.parametrize("stop", RULES)
def test_stopping_rule_stops_at_the_first_step_that_meets_it(stop):
    run = minimise(bowl, START, GradientDescent(0.1), max_steps=400, tol=1e-4, stop=stop)
    assert run.status is Status.converged
    assert int(run.num_steps) == first_step(RULES[stop])
    words = {"gradient": "gradient is below", "step": "point moved", "value": "objective changed"}
    assert words[stop] in repr(run)


@pytest.mark.parametrize("method", [LBFGS(), Newton()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("gradient", [rosenbrock_slope, "numeric"], ids=["supplied", "numeric"])
def test_supplied_and_numeric_gradients_find_the_minimum(method, gradient):
    run = minimise(rosenbrock, np.array([-1.2, 1.0]), method, gradient=gradient, max_steps=200, tol=1e-6)
    np.testing.assert_allclose(run.state, 1.0, atol=1e-5)
    assert run.status is Status.converged


def test_supplied_gradient_is_the_one_that_is_used():
    # A gradient of another function: descent goes where it points.
    run = minimise(bowl, START, GradientDescent(0.5), gradient=lambda x: x - 7.0, max_steps=100)
    np.testing.assert_allclose(run.state, 7.0, rtol=1e-6)


def test_black_box_is_minimised_by_differences():
    def outside(x):  # JAX cannot look inside
        shape = jax.ShapeDtypeStruct((), x.dtype)
        return jax.pure_callback(lambda v: np.asarray(rosen(v)), shape, x, vmap_method="sequential")

    run = minimise(outside, np.array([-1.2, 1.0]), BFGS(), gradient="numeric", tol=1e-5)
    np.testing.assert_allclose(run.state, 1.0, atol=1e-4)


def test_start_that_is_good_enough_takes_no_step():
    run = minimise(bowl, np.zeros(2))
    assert (int(run.num_steps), run.status) == (0, Status.converged)


def test_exhausted_after_max_steps():
    run = minimise(rosenbrock, np.array([-1.2, 1.0]), GradientDescent(1e-4), max_steps=10)
    assert run.status is Status.exhausted
    assert int(run.num_steps) == 10
    assert "raise max_steps" in repr(run)


def test_not_finite_keeps_the_last_finite_point():
    run = minimise(lambda x: x**4, 10.0, GradientDescent(1.0), max_steps=50)
    assert run.status is Status.not_finite
    assert np.isfinite(run.state)
    assert np.isfinite(run.value)
    assert "NaN or infinite" in repr(run)


@pytest.mark.parametrize("method", [LBFGS(), LineSearchDescent()], ids=lambda m: type(m).__name__)
def test_stalled_where_no_step_goes_down(method):
    # the gradient of |x| never vanishes: at the kink every step goes up
    run = minimise(lambda x: jnp.sum(jnp.abs(x - 0.3)), START, method, max_steps=500)
    assert run.status is Status.stalled
    assert "Stalled" in repr(run)
    uphill = minimise(bowl, START, method, gradient=lambda x: -SCALES * x)
    assert uphill.status is Status.stalled
    np.testing.assert_array_equal(uphill.state, START)


@pytest.mark.parametrize("method", [LBFGS(), LineSearchDescent(), Newton()], ids=lambda m: type(m).__name__)
def test_descent_goes_on_below_the_rounding_of_the_value(method):
    # 10^8 + f: below |x| about 10^-4 the value cannot change, but the slope still tells where to go
    run = minimise(lambda x: 1e8 + bowl(x), START, method, max_steps=500, tol=1e-16)
    assert run.status is Status.converged
    assert np.abs(run.state).max() < 1e-7


def test_line_search_survives_a_wall_of_infinities():
    # log-barrier: steps that are too long leave the domain and are shortened
    run = minimise(lambda x: jnp.sum(x - jnp.log(x)), np.array([0.01, 5.0]), LBFGS())
    assert run.status is Status.converged
    np.testing.assert_allclose(run.state, 1.0, rtol=1e-7)


def test_new_data_or_numbers_do_not_compile_again():
    counted = count_traces(lambda x, shift: jnp.sum((x - shift) ** 2))
    method = GradientDescent(jnp.asarray(0.1))
    minimise(counted, np.zeros(2), method, args=(np.ones(2),))
    traced = counted.count
    other = GradientDescent(jnp.asarray(0.2))  # the step is a leaf
    run = minimise(counted, np.ones(2), other, args=(np.array([5.0, -1.0]),), tol=1e-10)
    assert counted.count == traced
    np.testing.assert_allclose(run.state, [5.0, -1.0], rtol=1e-8)


def test_minimise_works_inside_vmap_and_jit():
    @jax.jit
    def solve(shift):
        run = minimise(shifted, jnp.zeros(2), LBFGS(history=4), args=(shift,), tol=1e-10)
        return run.state, run.code

    shifts = jnp.array([[1.0, 2.0], [-3.0, 0.5]])
    found, codes = jax.vmap(solve)(shifts)
    np.testing.assert_allclose(found, shifts, atol=1e-8)
    np.testing.assert_array_equal(codes, int(Status.converged))


def shifted(x, shift):
    return jnp.sum((x - shift) ** 2 + (x - shift) ** 4)


def test_maximisation_is_minimisation_of_the_negative():
    # log-likelihood of a Poisson rate in log scale: the maximum is the log of the mean; one Newton run
    counts = np.array([3.0, 0.0, 2.0, 7.0])
    run = minimise(lambda eta: -jnp.sum(counts * eta - jnp.exp(eta)), 0.0, Newton())
    np.testing.assert_allclose(run.state, np.log(3.0), rtol=1e-9)
    assert int(run.num_steps) < 10


def test_gauss_newton_solves_linear_least_squares_in_one_step():
    generator = np.random.default_rng(0)
    design, target = generator.normal(size=(20, 3)), generator.normal(size=20)

    def residuals(x, design, target):
        return design @ x - target

    run = minimise(
        lambda x, design, target: 0.5 * jnp.sum(residuals(x, design, target) ** 2),
        np.zeros(3),
        GaussNewton(residuals=residuals),
        args=(design, target),
    )
    assert int(run.num_steps) == 1
    np.testing.assert_allclose(run.state, np.linalg.lstsq(design, target, rcond=None)[0], rtol=1e-9)


def test_projected_gradient_reports_the_projected_residual():
    run = minimise(bowl, START, ProjectedGradient(onto=Box(1.0, 2.0)))
    np.testing.assert_array_equal(run.state, 1.0)
    assert run.status is Status.converged
    assert run.gradient_norm == 0.0  # though the gradient itself is (1, 4)


def test_bad_inputs_are_refused_by_name():
    cases = [
        ({"max_steps": 0}, "`max_steps` must be a whole number of at least 1; got 0"),
        ({"tol": -1.0}, r"`tol` must be zero or positive; got -1\.0"),
        ({"stop": "never"}, "`stop` must be one of 'gradient', 'step', 'value'; got 'never'"),
        ({"gradient": "guess"}, "`gradient` must be a function, 'numeric' or None; got 'guess'"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            minimise(bowl, START, **options)
    with pytest.raises(ValueError, match="`start` must be at least one number; got none"):
        minimise(bowl, {})
    with pytest.raises(TypeError, match="`start` must be"):
        minimise(bowl, "here")
    with pytest.raises(ValueError, match="`num_steps` must be a whole number of at least 1; got 0"):
        trajectory(bowl, START, num_steps=0)
    with pytest.raises(ValueError, match=r"`learning_rate` must be zero or positive, and finite; got -0\.1"):
        Adam(-0.1)
    with pytest.raises(ValueError, match="`search` must be one of 'backtracking', 'wolfe'; got 'exact'"):
        LineSearchDescent(search="exact")


def wells(x, target=1.0):
    """Four minima at plus and minus `target` in each coordinate, a maximum between them, saddles beside."""
    return jnp.sum((x**2 - target**2) ** 2)


METHODS = [LBFGS(), BFGS(), Newton(), LineSearchDescent("wolfe")]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("start", [[0.0, 0.0], [0.3, 0.0], [1.0, 0.0]], ids=["maximum", "ridge", "saddle"])
def test_maxima_and_saddles_are_not_called_minima(method, start):
    run = minimise(wells, np.array(start), method)
    assert run.status is Status.saddle
    assert not run.verdict.ok
    assert "no minimum" in repr(run)
    assert run.least_curvature < 0
    beside = minimise(wells, np.array(start) + 1e-3, method)
    assert beside.status is Status.converged
    assert "a local minimum" in beside.verdict.sentence
    np.testing.assert_allclose(np.abs(beside.state), 1.0, atol=1e-6)


def test_without_a_look_at_the_curvature_nothing_is_said_about_it():
    run = minimise(wells, np.zeros(2), curvature=False)
    assert run.status is Status.converged
    assert "a stationary point; the curvature was not looked at" in run.verdict.sentence
    assert run.least_curvature is None


def hanging(x, factor, constant, unit):
    z = x / unit
    return factor * (jnp.sum(jnp.cosh(z - 1.0)) + 0.5 * (z[0] - z[1]) ** 2 + constant)


UNITS = [(1, 1e10, 1), (1, 0, 1), (1e-10, 0, 1e6), (1e10, -1e10, 1e-6), (1e-10, 1e10, 1), (1, 1e20, 1)]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_constants_and_units_change_no_verdict(method):
    """The gradient is small beside the curvature, whatever is added to the objective or multiplied."""
    for factor, constant, unit in UNITS:
        args = tuple(jnp.asarray(float(number)) for number in (factor, constant, unit))
        run = minimise(hanging, unit * np.array([3.0, -1.0]), method, args=args)
        away = np.abs(np.asarray(run.state) / unit - 1.0).max()
        assert (run.status is Status.converged) == (away < 1e-5)
        assert run.status is Status.converged or constant == 1e20


def test_many_unknowns_are_judged_by_a_few_products():
    signs = np.ones(60).astype(float)
    signs[17] = -1.0

    def hills(x, signs):
        return jnp.sum(signs * x**2 + 0.1 * x**4)

    assert minimise(hills, np.zeros(60), args=(signs,)).status is Status.saddle
    bowl_run = minimise(hills, np.ones(60), args=(np.ones(60),))
    assert bowl_run.status is Status.converged
    assert bowl_run.least_curvature > 0


def test_random_functions_in_random_units_are_judged_rightly():
    """Minima, saddles and maxima; `python -m benchmarks solvers` takes 1,200."""
    assert [judge_smooth(number) for number in range(24)] == [None] * 24
