"""Long runs: the numbers of `run`, Ctrl-C, checkpoints that resume bit for bit, verdicts between blocks."""

import signal

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core import storage
from tractable.core.blocks import run_in_blocks, settles
from tractable.core.iterate import Status, count_traces, run
from tractable.core.storage import StorageError

NUM_STEPS, BLOCK = 23, 5


def walk(state, key):
    """A random walk that keeps a key, a count and the position."""
    carried, step_key = jr.split(state["key"])
    position = state["position"] + jr.normal(key, (2,)) + jr.normal(step_key, (2,))
    state = {"key": carried, "position": position, "count": state["count"] + 1}
    return state, {"position": position, "far": (position**2).sum() > 4}


def start():
    return {"key": jr.key(1), "position": jnp.zeros(2), "count": jnp.asarray(0)}


def keys():
    return jr.split(jr.key(0), NUM_STEPS)


def interrupt_in_block(number):
    """A judge that presses Ctrl-C in the given block."""
    seen = []

    def judge(state, records):
        seen.append(len(records["far"]))
        if len(seen) == number:
            signal.raise_signal(signal.SIGINT)

    return judge


def assert_same(a, b):
    for one, other in zip(jax.tree.leaves((a.state, a.trace)), jax.tree.leaves((b.state, b.trace))):
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jr.key_data(one), jr.key_data(other)
        np.testing.assert_array_equal(one, other)


@pytest.fixture(autouse=True)
def _listening():
    """Ctrl-C is heard, also where the suite was started in the background and its shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def whole():
    return run_in_blocks(walk, start(), keys(), block=BLOCK)


def test_blocks_give_what_one_run_gives(whole):
    assert whole.status is Status.completed
    assert int(whole.num_steps) == NUM_STEPS == int(whole.state["count"])
    assert_same(whole, jax.jit(lambda s, k: run(walk, s, k))(start(), keys()))


def test_every_block_is_one_program():
    def step(state, x):
        return state + x, state

    counted = count_traces(step)
    run_in_blocks(counted, 0.0, jnp.arange(23.0), block=5)
    first = counted.count
    result = run_in_blocks(counted, 1.0, jnp.arange(23.0) + 1, block=5)
    assert counted.count == first <= 2  # once for the shapes of the records, once to compile
    assert float(result.state) == 1 + 23 * 24 / 2


def test_ctrl_c_gives_a_valid_partial_result(whole):
    partial = run_in_blocks(walk, start(), keys(), block=BLOCK, judge=interrupt_in_block(3))
    assert partial.status is Status.interrupted
    assert int(partial.num_steps) == 2 * BLOCK == int(partial.state["count"])
    np.testing.assert_array_equal(partial.trace["position"], whole.trace["position"][: 2 * BLOCK])
    np.testing.assert_array_equal(partial.state["position"], whole.trace["position"][2 * BLOCK - 1])


def test_ctrl_c_in_the_first_block_gives_the_start():
    partial = run_in_blocks(walk, start(), keys(), block=BLOCK, judge=interrupt_in_block(1))
    assert (partial.status, int(partial.num_steps)) == (Status.interrupted, 0)
    assert partial.trace["position"].shape == (0, 2)


@pytest.mark.parametrize("block", [BLOCK, 4])
def test_resuming_is_bit_exact(tmp_path, whole, block):
    path = tmp_path / "walk"
    run_in_blocks(walk, start(), keys(), block=BLOCK, judge=interrupt_in_block(4), checkpoint=path)
    assert storage.load(path)["done"] == 3 * BLOCK
    resumed = run_in_blocks(walk, start(), keys(), block=block, checkpoint=path)
    assert resumed.status is Status.completed
    assert_same(resumed, whole)
    again = run_in_blocks(walk, start(), keys(), block=block, checkpoint=path)  # nothing is left to do
    assert_same(again, whole)


def test_checkpoints_are_written_while_it_runs_and_survive_a_crash(tmp_path, whole):
    path = tmp_path / "walk"

    def crash(state, records):
        if int(state["count"]) > 3 * BLOCK:
            raise RuntimeError("the machine is switched off")

    with pytest.raises(RuntimeError, match="switched off"):
        run_in_blocks(walk, start(), keys(), block=BLOCK, judge=crash, checkpoint=path, seconds=0)
    assert storage.load(path)["done"] == 3 * BLOCK
    assert_same(run_in_blocks(walk, start(), keys(), block=BLOCK, checkpoint=path), whole)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "walk"
    run_in_blocks(walk, start(), keys(), block=BLOCK, checkpoint=path)
    others = [
        (start() | {"position": jnp.ones(2)}, keys()),
        (start() | {"key": jr.key(2)}, keys()),
        (start(), jr.split(jr.key(5), NUM_STEPS)),
        (start(), keys()[:-1]),
    ]
    for other_start, other_keys in others:
        with pytest.raises(ValueError, match="`checkpoint` must be a checkpoint of this run"):
            run_in_blocks(walk, other_start, other_keys, block=BLOCK, checkpoint=path)
    path.write_bytes(b"damaged")
    with pytest.raises(StorageError, match="not a file that `save` wrote"):
        run_in_blocks(walk, start(), keys(), block=BLOCK, checkpoint=path)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_checkpoint_of_another_step_is_refused(tmp_path, compiled):
    def go(step):
        options = {"block": 3, "checkpoint": tmp_path / "run", "compiled": compiled}
        return run_in_blocks(step, 1.0, jnp.arange(7.0) + 1, **options)

    whole = go(lambda x, u: (x / 2 + u, (x - u) ** 2 - 3.0 * u))
    assert_same(go(lambda x, u: (u + 0.5 * x, x * x - 2 * u * x + u * u - 3.0 * u)), whole)
    with pytest.raises(ValueError, match=r"`checkpoint` must be a checkpoint of this run .*values"):
        go(lambda x, u: (x / 2 + u, (x - u) ** 2 - 3.001 * u))


def test_a_checkpoint_of_other_numbers_in_the_step_is_refused(tmp_path):
    def step(rate, x, u):
        return x - rate * u, u  # what it records says nothing

    run_in_blocks(jax.tree_util.Partial(step, 0.5), 1.0, jnp.arange(3.0), checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="`checkpoint` must be a checkpoint of this run"):
        run_in_blocks(jax.tree_util.Partial(step, 0.6), 1.0, jnp.arange(3.0), checkpoint=tmp_path / "run")


def test_a_judge_ends_the_run():
    result = run_in_blocks(lambda x, _: (x / 2, x), 1.0, num_steps=1000, block=8, judge=settles(1e-6))
    assert result.status is Status.converged
    assert int(result.num_steps) == 24  # the change falls below the tolerance in step 21
    np.testing.assert_array_equal(result.values, 0.5 ** np.arange(24))


def test_values_that_are_not_finite_keep_the_state_before_their_block():
    def step(x, _):
        return x + 1, jnp.where(x > 9, jnp.nan, -x)

    result = run_in_blocks(step, 0.0, num_steps=100, block=4, judge=settles(0.0))
    assert result.status is Status.not_finite
    assert float(result.state) == 8.0
    assert np.isnan(result.values[-1])


def test_a_finished_verdict_is_kept_in_the_checkpoint(tmp_path):
    def call():
        return run_in_blocks(
            lambda x, _: (x / 2, x),
            1.0,
            num_steps=1000,
            block=8,
            judge=settles(1e-6),
            checkpoint=tmp_path / "halves",
        )

    first, second = call(), call()
    assert (second.status, int(second.num_steps)) == (Status.converged, int(first.num_steps))


def test_report_sees_each_block():
    seen = []

    def report(state, records):
        seen.append((float(state), len(records)))
        return {"position": float(state)}

    run_in_blocks(lambda x, _: (x + 1, x), 0.0, num_steps=7, block=3, report=report, progress=True)
    assert seen == [(3.0, 3), (6.0, 3), (7.0, 1)]


def test_bad_input():
    with pytest.raises(ValueError, match="`block` must be a whole number of at least 1; got 0"):
        run_in_blocks(walk, start(), keys(), block=0)
    with pytest.raises(ValueError, match="`num_steps` must be given"):
        run_in_blocks(lambda x, _: (x, x), 0.0)


def test_no_steps_at_all():
    result = run_in_blocks(lambda x, _: (x, x), 2.0, num_steps=0)
    assert (result.status, int(result.num_steps), float(result.state)) == (Status.completed, 0, 2.0)
