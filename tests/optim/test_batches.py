"""What the loop of mini-batches takes besides rows: held-out rows, clipping, accumulation, averages."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core import Status, blocks, storage
from tractable.optim import (
    Adam,
    ExponentialWeights,
    GradientDescent,
    UniformWeights,
    batch_rows,
    minimise_batches,
    stochastic,
)
from tractable.optim.schedules import constant

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=100)
STEP = GradientDescent(constant(0.3))


def distance(w, row):
    return 0.5 * (w - row) ** 2


def go(rows=ROWS, method=STEP, batch=20, epochs=6, **options):
    return minimise_batches(distance, 0.0, rows, method, key=jr.key(0), batch=batch, epochs=epochs, **options)


def test_held_out_rows_stop_the_run_and_keep_the_best():
    # towards 3 by one batch of all rows: w goes 0.9, 1.53, 1.971, ...; rows at 1.5 are best after two
    rows, held = np.full(20, 3.0), np.full(7, 1.5)
    run = go(rows, epochs=20, validation=held, patience=2)
    path = 3 * (1 - 0.7 ** np.arange(1, 5))
    assert run.status is Status.stopped
    assert run.status.ok
    assert (int(run.best_epoch), int(run.num_steps)) == (2, 4)
    np.testing.assert_allclose(run.state, path[1], rtol=1e-12)
    np.testing.assert_allclose(run.trace.validation, 0.5 * (path - 1.5) ** 2, rtol=1e-12)
    np.testing.assert_allclose(run.trace.training, 0.5 * (3 - np.r_[0, path[:3]]) ** 2, rtol=1e-12)
    curve = go(rows, epochs=4, validation=held)
    np.testing.assert_allclose(curve.state, path[3], rtol=1e-12)  # without patience they only look on
    other = go(rows, epochs=4, validation=held, validation_loss=lambda w, row: w + 0.0 * row)
    np.testing.assert_allclose(other.trace.validation, path, rtol=1e-12)


def test_many_held_out_rows_have_the_mean_of_all():
    held = RNG.normal(size=777)
    run = go(epochs=1, validation=held)
    np.testing.assert_allclose(run.trace.validation[0], 0.5 * ((run.state - held) ** 2).mean(), rtol=1e-12)


def test_clipping_bounds_the_step():
    run = go(np.full(20, 3.0), epochs=3, clip=0.5)
    np.testing.assert_allclose(run.state, 3 * 0.3 * 0.5, rtol=1e-12)
    free = go(np.full(20, 3.0), epochs=3, clip=5.0)
    np.testing.assert_allclose(free.state, 3 * (1 - 0.7**3), rtol=1e-12)


def test_accumulated_batches_are_one_larger_batch():
    weights = RNG.integers(0, 3, 100).astype(float)
    options = {"weights": weights, "penalty": lambda w: 0.1 * w**2}
    once, parts = go(batch=32, **options), go(batch=8, accumulate=4, **options)
    np.testing.assert_allclose(parts.state, once.state, rtol=1e-12)
    np.testing.assert_allclose(parts.trace, once.trace, rtol=1e-12)


def test_averages_of_the_iterates():
    rows = np.full(20, 3.0)
    path = 3 * (1 - 0.7 ** np.arange(1, 9))
    decay = 0.8
    weights = decay ** np.arange(7, -1, -1)
    run = go(rows, epochs=8, average=ExponentialWeights(decay))
    np.testing.assert_allclose(run.state, weights @ path / weights.sum(), rtol=1e-12)
    run = go(rows, epochs=8, average=UniformWeights(after=2, every=3))
    np.testing.assert_allclose(run.state, (path[4] + path[7]) / 2, rtol=1e-12)
    run = go(rows, epochs=2, average=UniformWeights(after=3), validation=rows)
    np.testing.assert_allclose(run.state, path[1], rtol=1e-12)
    np.testing.assert_allclose(
        run.trace.validation[-1], 0.5 * (3 - path[1]) ** 2, rtol=1e-12
    )  # of the average
    with pytest.raises(ValueError, match=r"`decay` must be from 0 to below 1; got 1\.0"):
        ExponentialWeights(1.0)


def test_the_average_of_noisy_iterates_is_nearer_than_the_last():
    rows = RNG.normal(size=2048)
    last = go(rows, batch=1, epochs=2)
    mean = go(rows, batch=1, epochs=2, average=UniformWeights(after=1000))
    assert abs(mean.state - rows.mean()) < 4 / np.sqrt(3096) < abs(last.state - rows.mean())


@pytest.mark.cheap
@pytest.mark.parametrize("chunk", [None, 40])
def test_what_is_not_finite_is_named_and_the_state_before_it_kept(chunk):
    rows = np.zeros(120) + 1.0
    rows[70] = np.nan
    run = go(rows, batch=20, shuffle=False, chunk=chunk)
    assert run.status is Status.not_finite
    np.testing.assert_array_equal(run.fault, [1, 4])
    np.testing.assert_allclose(run.state, 1 - 0.7**3, rtol=1e-12)  # the three batches before it
    assert "batch 4 of epoch 1 is NaN or infinite" in run.verdict.sentence
    assert np.isnan(run.trace[-1])
    assert int(run.num_steps) == 1

    def kink(w, row):  # a finite value whose slope is not: the parameter is NaN, and seen only later
        return jnp.where(row > 0, jnp.sqrt(jnp.abs(w[0] - 0.0)), 0.5 * (w[0] - 1.0) ** 2) + 0.5 * w[1] ** 2

    bad = np.zeros(120)
    bad[0], start = 1.0, np.array([0.0, 1.0])
    run = minimise_batches(
        kink, start, bad, STEP, key=jr.key(0), batch=20, shuffle=False, chunk=chunk, epochs=3
    )  # fmt: skip
    np.testing.assert_array_equal(run.fault, [1, 1])
    np.testing.assert_array_equal(run.state, start)


def test_a_fault_inside_a_long_piece_is_found():
    def late(w, row, *, step):
        return 0.5 * (w - row) ** 2 + jnp.where(step == 37, jnp.nan, 0.0)

    run = minimise_batches(late, 0.0, np.ones(40), STEP, key=jr.key(0), batch=4, epochs=20)
    np.testing.assert_array_equal(run.fault, [4, 8])
    np.testing.assert_allclose(run.state, 1 - 0.7**37, rtol=1e-12)
    assert len(run.trace) == 4
    assert np.isfinite(run.trace[:3]).all()


LONG = """
import sys, jax.numpy as jnp, jax.random as jr, numpy as np
from tractable.optim import Adam, minimise_batches
rows = np.random.default_rng(0).normal(size=(4096, 8))
def loss(w, row):
    return jnp.sum((jnp.tanh(w @ row) - row) ** 2)
run = minimise_batches(loss, np.eye(8), rows, Adam(1e-3), key=jr.key(0), batch=1, epochs=int(sys.argv[2]),
                       checkpoint=sys.argv[1], seconds=0.2)
np.save(sys.argv[1] + ".npy", run.state)
"""


@pytest.mark.thorough
def test_a_killed_process_loses_what_was_done_since_the_last_checkpoint_and_no_bit(tmp_path):
    path, environment = tmp_path / "run", {**os.environ, "XLA_FLAGS": ""}

    def command(name, epochs):
        return [sys.executable, "-c", LONG, str(tmp_path / name), str(epochs)]

    process = subprocess.Popen(command("run", 12), env=environment, cwd=Path(__file__).resolve().parents[2])
    begun = time.monotonic()
    while not path.exists() and time.monotonic() - begun < 120:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not Path(f"{path}.npy").exists()
    saved = storage.load(path)
    assert saved["done"] < 12
    for name in ("run", "whole"):
        subprocess.run(
            command(name, 12), env=environment, check=True, cwd=Path(__file__).resolve().parents[2]
        )
    resumed, whole = (np.load(tmp_path / f"{name}.npy") for name in ("run", "whole"))
    np.testing.assert_array_equal(resumed, whole)


class Killed(BaseException):
    """Nothing is done on the way out."""


def test_a_kill_loses_at_most_what_was_done_within_the_interval(tmp_path, monkeypatch):
    path, steps, clock = tmp_path / "run", [], itertools.count()
    monkeypatch.setattr(
        blocks, "time", SimpleNamespace(monotonic=lambda: 0.1 * next(clock))
    )  # a tenth a piece
    monkeypatch.setattr(batch_rows.Pace, "updates", lambda self, state: 5 if int(state.step) else 1)

    def until(count):
        def judge(state, records):
            steps.append(int(state.step))
            if len(steps) == count:
                raise Killed

        monkeypatch.setattr(stochastic, "_judge", judge)
        with pytest.raises(Killed):
            go(checkpoint=path, seconds=0.25, epochs=60)
        return steps.pop()

    killed = until(29)
    steps.clear()
    saved = until(1) - 5  # the first piece that is made again
    assert 0 < killed - saved <= 4 * 5  # saved after three pieces, and killed before the end of the fourth
    assert saved > 100


def test_a_network_in_single_precision_sums_its_losses_in_double():
    rows = np.full(2**16, 0.1)
    run = minimise_batches(
        lambda w, row: w * 0.0 + row,
        np.float32(1),
        rows,
        GradientDescent(0.0),
        key=jr.key(0),
        batch=16,
        epochs=1,
    )
    assert run.state.dtype == jnp.float32
    np.testing.assert_allclose(run.trace[0], np.float32(0.1), rtol=2e-7)  # in single precision: 1e-4 off


def test_checkpoint_keeps_best_and_average(tmp_path):
    options = {
        "validation": ROWS[:30],
        "patience": 9,
        "average": ExponentialWeights(0.5),
        "method": Adam(0.1),
    }
    whole = go(**options)
    saved = go(**options, checkpoint=tmp_path / "run", seconds=0)
    again = go(**options, checkpoint=tmp_path / "run")
    for run in (saved, again):
        np.testing.assert_array_equal(run.state, whole.state)
        for one, other in zip(jax.tree.leaves(run.trace), jax.tree.leaves(whole.trace)):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="`checkpoint` must be a checkpoint of this run"):
        go(**(options | {"validation": ROWS[:31]}), checkpoint=tmp_path / "run")
