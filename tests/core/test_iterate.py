"""The two loops: how they end, what they keep, and that they compile, batch and stay in single precision."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import Run, Status, bisect, count_traces, run, run_until


def newton(x):
    """Newton's iteration for the square root of two, reporting the estimate."""
    x = (x + 2 / x) / 2
    return x, x


def test_convergence_is_reported_with_the_trace():
    result = run_until(newton, jnp.asarray(1.0), max_steps=50, tol=1e-14)
    assert result.status is Status.converged
    np.testing.assert_allclose(result.state, np.sqrt(2), rtol=1e-15)
    expected = [1.0]
    for _ in range(int(result.num_steps)):
        expected.append((expected[-1] + 2 / expected[-1]) / 2)
    np.testing.assert_allclose(result.values, expected[1:], rtol=1e-15)
    assert np.isnan(result.trace[int(result.num_steps) :]).all()
    assert abs(result.values[-1] - result.values[-2]) <= 1e-14 * (1 + result.values[-1])
    assert abs(result.values[-2] - result.values[-3]) > 1e-14 * (1 + result.values[-2])


def test_running_out_of_steps_is_not_convergence():
    result = run_until(lambda x: (x / 2, x), jnp.asarray(1.0), max_steps=5, tol=1e-6)
    assert result.status is Status.exhausted
    assert not result.status.ok
    assert int(result.num_steps) == 5
    np.testing.assert_allclose(result.values, 0.5 ** np.arange(5))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_stops_and_keeps_the_last_finite_state(bad):
    def step(state):
        x, key = state
        value = jnp.where(x > 3, bad, -x)
        return (x + 1, jr.split(key)[0]), value

    result = run_until(step, (jnp.asarray(1.0), jr.key(0)), max_steps=20, tol=0.0)
    assert result.status is Status.not_finite
    assert float(result.state[0]) == 4.0
    np.testing.assert_array_equal(result.values, [-1.0, -2.0, -3.0, bad])


def test_a_first_value_that_is_not_finite_keeps_the_start():
    result = run_until(lambda x: (x + 1, jnp.nan * x), jnp.asarray(1.0), max_steps=5, tol=0.0)
    assert (result.status, float(result.state), int(result.num_steps)) == (Status.not_finite, 1.0, 1)


def test_one_value_is_never_convergence():
    result = run_until(lambda x: (x, 0.0 * x), jnp.asarray(1.0), max_steps=9, tol=1.0)
    assert (result.status, int(result.num_steps)) == (Status.converged, 2)


def test_a_rule_of_the_caller_sees_the_state_and_the_start():
    def settled(state, value, before):
        return state >= 3

    counted = run_until(lambda x: (x + 1, x), jnp.asarray(0.0), max_steps=9, tol=0.0, settled=settled)
    assert (counted.status, int(counted.num_steps), float(counted.state)) == (Status.converged, 3, 3.0)
    ready = run_until(lambda x: (x + 1, x), jnp.asarray(5.0), max_steps=9, tol=0.0, settled=settled)
    assert (ready.status, int(ready.num_steps), float(ready.state)) == (Status.converged, 0, 5.0)


def test_batched_starts_end_each_on_its_own():
    def step(x):
        return jnp.where(x > 100, jnp.nan, x**2), x**2

    starts = jnp.array([0.5, 1.0, 3.0, 0.999])
    runs = jax.jit(jax.vmap(lambda x: run_until(step, x, max_steps=12, tol=1e-6)))(starts)
    singles = [run_until(step, x, max_steps=12, tol=1e-6) for x in starts]
    np.testing.assert_array_equal(runs.code, [int(r.code) for r in singles])
    np.testing.assert_array_equal(runs.num_steps, [int(r.num_steps) for r in singles])
    np.testing.assert_array_equal(runs.state, [float(r.state) for r in singles])
    assert "4 runs: " in repr(runs)
    assert "converged" in repr(runs)
    with pytest.raises(ValueError, match="`status` must be asked of one run; got a stack of runs"):
        runs.status
    assert jax.tree.map(lambda leaf: leaf[1], runs).status is Status.converged


def test_tolerance_is_an_argument_not_a_constant():
    counted = count_traces(lambda start, tol: run_until(newton, start, max_steps=50, tol=tol).num_steps)
    compiled = jax.jit(counted)
    steps = [int(compiled(1.0, tol)) for tol in (1e-2, 1e-6, 1e-14)]
    assert counted.count == 1
    assert steps[0] < steps[1] < steps[2]


def test_run_stacks_reports_and_feeds_inputs():
    inputs = {"a": jnp.arange(5.0), "b": jnp.ones((5, 2))}
    result = run(lambda s, i: (s + i["a"], (s, i["b"].sum())), jnp.asarray(0.0), inputs)
    assert result.status is Status.completed
    assert float(result.state) == 10.0
    np.testing.assert_array_equal(result.values[0], [0.0, 0.0, 1.0, 3.0, 6.0])
    np.testing.assert_array_equal(result.values[1], np.full(5, 2.0))


def test_run_has_gradients():
    slope = jax.grad(lambda x: run(lambda s, _: (s * x, None), 1.0, num_steps=3).state)(2.0)
    np.testing.assert_allclose(slope, 12.0)


def test_a_run_shows_its_verdict():
    result = run(lambda s, _: (s, None), jnp.asarray(0.0), num_steps=2)
    assert "num_steps=2)\n  Completed the requested number" in repr(result)
    assert "Run(state=" in repr(jax.eval_shape(lambda: result))


def test_every_status_has_a_sentence():
    for status in Status:
        assert status.sentence.endswith(".")
    assert [s.name for s in Status if s.ok] == ["converged", "completed", "stopped"]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: run_until(newton, 1.0, max_steps=0, tol=0.1),
            ValueError,
            "`max_steps` must be a whole number of at",
        ),
        (
            lambda: run_until(newton, 1.0, max_steps=3, tol=-1.0),
            ValueError,
            "`tol` must be zero or positive; got -1",
        ),
        (
            lambda: run(lambda s, _: (s, s), 0.0),
            ValueError,
            "`num_steps` must be given where there are no `inputs`",
        ),
        (
            lambda: run(lambda s, _: (s, s), 0.0, jnp.ones(3), num_steps=2),
            ValueError,
            "`num_steps` must be the length",
        ),
        (
            lambda: run(lambda s, _: (s, s), 0.0, (jnp.ones(3), jnp.ones(2))),
            ValueError,
            "`inputs` must be arrays with",
        ),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_loops_work_in_single_precision():
    with jax.enable_x64(False):
        result = run_until(newton, jnp.asarray(1.0), max_steps=50, tol=1e-6)
        assert (result.state.dtype, result.status) == (np.float32, Status.converged)
        np.testing.assert_allclose(result.state, np.sqrt(2), rtol=1e-6)


def test_a_single_precision_value_in_a_double_precision_program():
    result = run_until(lambda x: (x / 2, x.astype(jnp.float32)), jnp.asarray(1.0), max_steps=60, tol=1e-6)
    assert result.status is Status.converged


def test_trace_counter_counts_compilations():
    counted = count_traces(lambda x: x.sum())
    compiled = jax.jit(counted)
    for size in (3, 3, 4):
        compiled(jnp.ones(size))
    assert counted.count == 2


def test_run_is_a_pytree():
    result = run_until(newton, jnp.asarray(1.0), max_steps=9, tol=1e-8)
    leaves, structure = jax.tree.flatten(result)
    again = jax.tree.unflatten(structure, leaves)
    assert isinstance(again, Run)
    assert again.status is result.status


def test_brackets_close_around_the_point_elementwise():
    goal = jnp.array([0.25, 0.5, 0.99])
    low, high = bisect(lambda x: x >= goal, jnp.zeros(3), jnp.ones(3), num_steps=30)
    assert bool(((low < goal) & (goal <= high)).all())
    np.testing.assert_allclose(high - low, 2.0**-30)
