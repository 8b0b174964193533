"""Mini-batches: unbiased gradients by enumeration, agreement with closed forms, resuming bit for bit."""

from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core import Status
from tractable.core.chunks import chunks
from tractable.core.iterate import count_traces
from tractable.optim import batch_rows, stochastic
from tractable.optim.gradient import Adam, GradientDescent, Momentum
from tractable.optim.quasi_newton import LBFGS
from tractable.optim.schedules import PowerLaw, constant, inverse_time
from tractable.optim.stochastic import batch_gradient, minimise_batches

NUM_ROWS = 203
GENERATOR = np.random.default_rng(0)
FEATURES = GENERATOR.normal(size=(NUM_ROWS, 3))
TARGETS = FEATURES @ [1.0, -2.0, 0.5] + 0.1 * GENERATOR.normal(size=NUM_ROWS)
WEIGHTS = GENERATOR.integers(0, 4, NUM_ROWS).astype(float)


def squared(w, row):
    x, y = row
    return 0.5 * (x @ w - y) ** 2


def least_squares(weights=None, ridge=0.0):
    w = np.ones(NUM_ROWS) if weights is None else weights
    gram = (FEATURES.T * w) @ FEATURES / w.sum() + ridge * np.eye(3)
    return np.linalg.solve(gram, (FEATURES.T * w) @ TARGETS / w.sum())


def shrink(w):
    return 0.25 * w @ w


DECAY = GradientDescent(inverse_time(2.0, 10.0))
DESCENT = GradientDescent(constant(0.1))


def fitted(data=(FEATURES, TARGETS), method=DECAY, seed=0, epochs=30, **options):
    return minimise_batches(
        squared, np.zeros(3), data, method, key=jr.key(seed), batch=16, epochs=epochs, **options
    )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_batch_gradient_is_unbiased_over_all_batches(size):
    rows, targets, weights = FEATURES[:6], TARGETS[:6], np.array([1.0, 2.0, 0.5, 3.0, 1.0, 1.0])
    w = jnp.array([0.3, -0.1, 0.7])
    found = []
    for batch in combinations(range(6), size):
        at = list(batch) + [0] * (3 - size)  # filled up with a row of weight zero
        chosen = np.r_[weights[list(batch)], np.zeros(3 - size)]
        scale = jnp.asarray(6 / (size * weights.sum()))
        found.append(
            estimate(w, (jnp.asarray(rows[at]), jnp.asarray(targets[at])), jnp.asarray(chosen), scale)
        )
    value = np.mean([f[0] for f in found])
    gradient = np.mean([f[1] for f in found], axis=0)
    residual = rows @ w - targets
    np.testing.assert_allclose(value, weights @ residual**2 / 2 / weights.sum() + 0.25 * w @ w, rtol=1e-12)
    expected = rows.T @ (weights * residual) / weights.sum() + 0.5 * np.asarray(w)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


@jax.jit
def estimate(w, rows, weights, scale):
    return batch_gradient(squared, w, rows, weights, scale, penalty=shrink)


def test_row_of_weight_zero_is_absent_even_where_its_loss_is_infinite():
    rows = (
        jnp.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]),
        jnp.array([2.0, jnp.inf, jnp.nan]),
    )
    value, gradient = estimate(jnp.zeros(3), rows, jnp.array([1.0, 0.0, 0.0]), jnp.asarray(1.0))
    np.testing.assert_allclose(value, 2.0)
    np.testing.assert_allclose(gradient, [-2.0, 0.0, 0.0])


def test_decaying_steps_find_the_weighted_least_squares():
    np.testing.assert_allclose(fitted().state, least_squares(), atol=3e-3)
    np.testing.assert_allclose(fitted(weights=WEIGHTS).state, least_squares(WEIGHTS), atol=6e-3)


def test_penalty_is_added_to_the_mean():
    run = fitted(penalty=shrink, epochs=60)
    np.testing.assert_allclose(run.state, least_squares(ridge=0.5), atol=2e-2)


def test_one_batch_of_all_rows_is_gradient_descent():
    run = minimise_batches(
        squared,
        np.zeros(3),
        (FEATURES, TARGETS),
        DESCENT,
        key=jr.key(0),
        batch=256,
        epochs=5,
        weights=WEIGHTS,
    )
    w, losses = np.zeros(3), []
    for _ in range(5):
        residual = FEATURES @ w - TARGETS
        losses.append(WEIGHTS @ residual**2 / 2 / WEIGHTS.sum())
        w = w - 0.1 * FEATURES.T @ (WEIGHTS * residual) / WEIGHTS.sum()
    np.testing.assert_allclose(run.state, w, rtol=1e-12)
    np.testing.assert_allclose(run.trace, losses, rtol=1e-12)
    assert run.status is Status.completed


def test_every_epoch_visits_every_row_once_in_a_new_order():
    # The loss is the row's own number times w[0]; w stays put (step zero), so an epoch's mean is that of all.
    rows = np.arange(NUM_ROWS, dtype=float)
    seen = minimise_batches(
        lambda w, row: row * w, 1.0, rows, GradientDescent(0.0), key=jr.key(3), batch=16, epochs=2
    )
    np.testing.assert_allclose(seen.trace, rows.mean(), rtol=1e-12)
    # Where the point moves the order matters; without shuffling it is the rows' own.
    moved = minimise_batches(
        lambda w, row: 0.5 * (w - row) ** 2,
        0.0,
        rows,
        GradientDescent(0.5),
        key=jr.key(3),
        batch=16,
        epochs=2,
    )
    assert moved.trace[0] != moved.trace[1]
    ordered = minimise_batches(
        lambda w, row: 0.5 * (w - row) ** 2,
        0.0,
        rows,
        DESCENT,
        key=jr.key(3),
        batch=16,
        epochs=1,
        shuffle=False,
    )
    w = 0.0
    for low in range(0, NUM_ROWS, 16):
        w = w - 0.1 * np.mean(w - rows[low : low + 16])  # the last batch has eleven rows
    np.testing.assert_allclose(ordered.state, w, rtol=1e-12)


def test_new_rows_of_one_bucket_do_not_compile_again():
    counted = count_traces(squared)
    for rows in (200, 203, 131):
        data = (FEATURES[:rows], TARGETS[:rows])
        minimise_batches(counted, np.zeros(3), data, DECAY, key=jr.key(rows), batch=16, epochs=2)
        first = counted.count if rows == 200 else first
    assert counted.count == first
    other = GradientDescent(inverse_time(1.0, 4.0))  # numbers of a schedule are leaves: no new program
    minimise_batches(counted, np.zeros(3), (FEATURES, TARGETS), other, key=jr.key(0), batch=16, epochs=2)
    assert counted.count == first


def test_chunks_give_what_memory_gives_within_the_noise_and_count_weights_alike():
    streamed = fitted(chunk=64, weights=WEIGHTS)
    np.testing.assert_allclose(streamed.state, least_squares(WEIGHTS), atol=6e-3)
    table = np.c_[FEATURES, TARGETS]
    source = chunks(table, 64, weights=WEIGHTS)
    run = minimise_batches(
        lambda w, row: 0.5 * (row[:3] @ w - row[3]) ** 2,
        np.zeros(3),
        source,
        DECAY,
        key=jr.key(0),
        batch=16,
        epochs=30,
    )
    # the same keys, rows and batches: the same numbers, whether the rows come as a tuple or as a table
    np.testing.assert_allclose(run.state, streamed.state, rtol=1e-12)


def interrupted(monkeypatch, after, piece=5, **options):
    """A run in pieces of five updates, in which Ctrl-C is pressed after so many pieces."""
    pieces = []

    def judge(state, records):
        pieces.append(int(state.step))
        if len(pieces) > after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batch_rows.Pace, "updates", lambda self, state: piece if int(state.step) else 1)
        patch.setattr(stochastic, "_judge", judge)
        return fitted(method=Momentum(PowerLaw(0.2, 0.5)), epochs=8, **options)


@pytest.mark.cheap
@pytest.mark.parametrize("options", [{}, {"chunk": 64}], ids=["memory", "chunks"])
def test_resumes_bit_for_bit_inside_of_an_epoch(tmp_path, monkeypatch, options):
    whole = fitted(method=Momentum(PowerLaw(0.2, 0.5)), epochs=8, **options)
    path = tmp_path / "run"
    for after, piece in ((6, 5), (1, 1), (4, 5), (3, 1), (2, 7)):  # an epoch has thirteen updates
        part = interrupted(monkeypatch, after, piece, checkpoint=path, **options)
        assert part.status is Status.interrupted
        assert np.isfinite(part.state).all()
        done = int(part.num_steps)
        assert done < 8
        np.testing.assert_array_equal(part.trace, whole.trace[:done])
    rest = fitted(method=Momentum(PowerLaw(0.2, 0.5)), epochs=8, checkpoint=path, **options)
    assert rest.status is Status.completed
    np.testing.assert_array_equal(rest.state, whole.state)
    np.testing.assert_array_equal(rest.trace, whole.trace)


def test_pieces_of_any_length_give_the_same_bits_beyond_a_window_of_epochs(monkeypatch):
    whole = fitted(epochs=2 * batch_rows.WINDOW + 5)
    monkeypatch.setattr(batch_rows.Pace, "updates", lambda self, state: 21 if int(state.step) else 1)
    again = fitted(epochs=2 * batch_rows.WINDOW + 5)
    np.testing.assert_array_equal(again.trace, whole.trace)
    np.testing.assert_array_equal(again.state, whole.state)


def test_streamed_run_resumes_bit_for_bit(tmp_path):
    whole = fitted(epochs=4, chunk=64)
    fitted(epochs=2, chunk=64, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="`checkpoint` must be a checkpoint of this run"):
        fitted(epochs=4, chunk=64, checkpoint=tmp_path / "run")
    saved = fitted(epochs=4, chunk=64, checkpoint=tmp_path / "other")
    again = fitted(epochs=4, chunk=64, checkpoint=tmp_path / "other")
    np.testing.assert_array_equal(saved.state, whole.state)
    np.testing.assert_array_equal(again.state, whole.state)


@pytest.mark.parametrize("change", ["data", "method", "weights"])
def test_checkpoint_of_other_data_or_options_is_refused(change, tmp_path):
    fitted(epochs=2, checkpoint=tmp_path / "run")
    other = {
        "data": {"data": (FEATURES + 1e-9, TARGETS)},
        "method": {"method": GradientDescent(inverse_time(2.5, 10.0))},
        "weights": {"weights": WEIGHTS},
    }[change]
    with pytest.raises(ValueError, match="`checkpoint` must be a checkpoint of this run"):
        fitted(epochs=2, checkpoint=tmp_path / "run", **other)


def test_modules_with_functions_inside_are_fitted():
    class Network(eqx.Module):
        weights: jax.Array
        activation: object
        width: int

        def __call__(self, x):
            return self.activation(self.weights @ x)

    network = Network(jnp.zeros(3), jax.nn.softplus, 3)
    targets = np.logaddexp(0, FEATURES @ [1.0, -1.0, 0.5])
    run = minimise_batches(
        lambda net, row: (net(row[0]) - row[1]) ** 2,
        network,
        (FEATURES, targets),
        Adam(0.05),
        key=jr.key(0),
        batch=16,
        epochs=60,
    )
    assert run.state.activation is jax.nn.softplus
    np.testing.assert_allclose(run.state.weights, [1.0, -1.0, 0.5], atol=1e-3)


def test_lists_are_rows_and_progress_changes_nothing():
    rows, options = [[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]], {"batch": 3, "epochs": 100}

    def distance(w, row):
        return jnp.sum((w - row) ** 2)

    quiet, shown = (
        minimise_batches(distance, np.zeros(2), rows, DESCENT, key=jr.key(0), progress=progress, **options)
        for progress in (False, True)
    )
    np.testing.assert_allclose(quiet.state, [3.0, 5.0], rtol=1e-6)
    np.testing.assert_array_equal(quiet.state, shown.state)


def test_verdicts():
    settled = fitted(tol=1e-3, epochs=200)
    assert settled.status is Status.converged
    assert int(settled.num_steps) < 200
    assert fitted(tol=0.0, epochs=3).status is Status.exhausted
    lifted = minimise_batches(
        lambda w, row: squared(w, row) + 1e8, np.zeros(3), (FEATURES, TARGETS), DECAY, key=jr.key(0),
        batch=16, epochs=200, tol=1e-3,
    )  # fmt: skip
    assert abs(int(lifted.num_steps) - int(settled.num_steps)) <= 1  # a constant settles nothing
    diverged = fitted(method=GradientDescent(constant(1e3)), epochs=40)
    assert diverged.status is Status.not_finite
    assert np.isfinite(diverged.state).all()


def test_float32_stays_float32():
    single = tuple(np.asarray(a, np.float32) for a in (FEATURES, TARGETS))
    run = minimise_batches(
        squared, np.zeros(3, np.float32), single, DECAY, key=jr.key(0), batch=16, epochs=30
    )
    assert run.state.dtype == jnp.float32
    np.testing.assert_allclose(run.state, least_squares(), atol=3e-3)


def test_bad_inputs_are_refused_by_name():
    data, key = (FEATURES, TARGETS), jr.key(0)
    cases = [
        ({"batch": 0}, "`batch` must be a whole number of at least 1; got 0"),
        ({"epochs": 0}, "`epochs` must be a whole number of at least 1; got 0"),
        ({"tol": -1.0}, r"`tol` must be zero or positive, or None; got -1\.0"),
        ({"weights": np.zeros(NUM_ROWS)}, "`weights` must be positive for at least one row; got zeros"),
        ({"weights": -np.ones(NUM_ROWS)}, "`weights` must be zero or positive, and finite; got -1"),
        ({"weights": np.ones(3)}, r"`weights` must be of shape \(203,\)"),
        ({"chunk": 50, "batch": 16}, "`batch` must be a divisor of the chunk size, 50; got 16"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            minimise_batches(squared, np.zeros(3), data, DECAY, key=key, **options)
    with pytest.raises(ValueError, match=r"`start` must be finite; got nan at index 1"):
        minimise_batches(squared, np.array([0.0, np.nan, 0.0]), data, key=key)
    with pytest.raises(ValueError, match="`start` must be at least one array of floats; got none"):
        minimise_batches(squared, {"name": "w"}, data, key=key)
    with pytest.raises(ValueError, match="`data` must be at least one row; got none"):
        minimise_batches(squared, np.zeros(3), (FEATURES[:0], TARGETS[:0]), key=key)
    with pytest.raises(ValueError, match="`data` must be readable more than once; got a one-shot iterator"):
        minimise_batches(squared, np.zeros(3), iter([FEATURES]), key=key, chunk=64)


def test_methods_that_need_the_whole_sum_are_refused():
    with pytest.raises(TypeError, match=r"`method` must be a first-order method such as `Adam`.*; got LBFGS"):
        minimise_batches(squared, np.zeros(3), (FEATURES, TARGETS), LBFGS(), key=jr.key(0))
