"""Training: XOR, digits with a confusion matrix, keys of dropout, averages, what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from tractable.core import Status
from tractable.neural import MLP, cross_entropy, half_squared, predict_rows, squared, train
from tractable.optim import Adam, GradientDescent
from tractable.supervised.selection.losses import confusion_matrix

CORNERS = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
XOR = np.array([0, 1, 1, 0])


@pytest.mark.cheap
@pytest.mark.parametrize("batch", [1, 4])
def test_xor_is_learned_one_example_at_a_time_and_in_batches(batch):
    network = MLP((2, 8, 2), "tanh", key=jr.key(1))
    run = train(
        network, (CORNERS, XOR), cross_entropy, key=jr.key(0), method=Adam(0.05), batch=batch, epochs=150
    )
    assert run.status is Status.completed
    np.testing.assert_array_equal(np.argmax(predict_rows(run.state, CORNERS), axis=1), XOR)
    assert run.trace[-1] < 0.05 < run.trace[0]
    flat = MLP((2, 2), key=jr.key(1))  # a line cannot: its best guess is one half everywhere
    line = train(flat, (CORNERS, XOR), cross_entropy, key=jr.key(0), method=Adam(0.05), batch=4, epochs=150)
    assert line.trace[-1] > 0.69 * 0.99


def test_digits_are_read_with_early_stopping_and_counted_in_a_confusion_matrix():
    X, y = load_digits(return_X_y=True)
    X, order = X / 16, np.random.default_rng(0).permutation(len(y))
    fit, held, test = order[:1100], order[1100:1300], order[1300:]
    network = MLP((64, 32, 10), key=jr.key(0))
    run = train(
        network, (X[fit], y[fit]), cross_entropy, key=jr.key(1), method=Adam(1e-2), epochs=60,
        validation=(X[held], y[held]), patience=3,
    )  # fmt: skip
    assert run.status is Status.stopped
    assert run.state.layers[0].weight.dtype == jnp.float32
    curve = run.trace.validation
    assert len(run.trace.training) == len(curve) == int(run.best_epoch) + 3
    assert np.argmin(curve) + 1 == int(run.best_epoch)
    logits = predict_rows(run.state, X[held])  # the best network is the state
    mean = np.mean(jax.vmap(cross_entropy)(logits, jnp.asarray(y[held])))
    np.testing.assert_allclose(mean, curve.min(), rtol=1e-5)
    counts = confusion_matrix(y[test], np.argmax(predict_rows(run.state, X[test]), axis=1))
    np.testing.assert_array_equal(counts.sum(1), np.bincount(y[test]))
    assert np.trace(counts) / counts.sum() > 0.93


class Noisy(eqx.Module):
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __call__(self, x, *, key=None):
        return self.linear(self.dropout(x, key=key))


def test_dropout_draws_for_each_row_while_training_and_not_on_held_out_rows():
    linear = eqx.nn.Linear(1, 1, use_bias=False, key=jr.key(0))
    network = Noisy(eqx.tree_at(lambda l: l.weight, linear, jnp.ones((1, 1))), eqx.nn.Dropout(0.25))
    rows = np.ones((4096, 1)), np.zeros((4096, 1))
    run = train(
        network,
        rows,
        squared,
        key=jr.key(3),
        method=GradientDescent(0.0),
        batch=512,
        validation=rows,
        epochs=1,
    )
    # inputs are kept with probability 3/4 and then 4/3: the square has mean 4/3 and variance 16/27
    z = (run.trace.training[0] - 4 / 3) / np.sqrt(16 / 27 / 4096)
    assert abs(z) < 4
    np.testing.assert_allclose(run.trace.validation, 1.0, rtol=1e-12)
    assert run.state.dropout.p == 0.25  # an option, not a parameter


def test_weights_count_rows_and_precision_is_that_of_the_network():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(60, 2)), rng.normal(size=(60, 1)), rng.integers(0, 3, 60).astype(float)
    network = MLP((2, 1), key=jr.key(0), dtype=jnp.float64)
    run = train(
        network,
        (X, y),
        half_squared,
        key=jr.key(1),
        method=GradientDescent(0.5),
        batch=64,
        epochs=60,
        weights=w,
    )
    design = np.c_[X, np.ones(60)]
    best = np.linalg.solve((design.T * w) @ design, (design.T * w) @ y)
    layer = run.state.layers[0]
    np.testing.assert_allclose(np.r_[layer.weight.T, layer.bias[None]], best, rtol=1e-6, atol=1e-9)
    single = MLP((2, 1), key=jr.key(0))
    near = train(
        single,
        (X, y),
        half_squared,
        key=jr.key(1),
        method=GradientDescent(0.5),
        batch=64,
        epochs=60,
        weights=w,
    )
    assert near.state.layers[0].weight.dtype == jnp.float32
    np.testing.assert_allclose(near.state.layers[0].weight, layer.weight, atol=1e-5)
    assert predict_rows(near.state, X).dtype == jnp.float32


def test_tables_are_rows():
    X, y = np.random.default_rng(0).normal(size=(8, 3)), np.arange(8) % 2
    options = {"key": 1, "batch": 8, "epochs": 2, "progress": False}
    plain, framed = (
        train(MLP((3, 2), key=jr.key(0)), rows, cross_entropy, **options).trace
        for rows in ((X, y), (pd.DataFrame(X), pd.Series(y)))
    )
    np.testing.assert_array_equal(plain, framed)


def test_one_class_is_learned_and_nothing_breaks():
    rows = np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20, int)
    run = train(MLP((3, 2), key=jr.key(0)), rows, cross_entropy, key=jr.key(1), method=Adam(0.1), epochs=40)
    assert run.trace[-1] < 0.05
    assert np.isfinite(run.state.layers[0].weight).all()


def test_slips_are_named():
    network = MLP((2, 2), key=jr.key(0))
    X, y = np.zeros((6, 2)), np.zeros(6, int)
    cases = [
        ((X, y[:5]), {}, r"`data` must be as many targets as inputs; got arrays of \[5, 6\] rows"),
        (X, {}, r"`data` must be a pair `\(inputs, targets\)`; got ndarray"),
        (
            (np.where(np.eye(6, 2), np.nan, X), y),
            {},
            r"`data` must be finite; got nan at index \(0, 0\)\. Leave such",
        ),
        ((X[:0], y[:0]), {}, "`data` must be at least one row; got none"),
        ((np.zeros((6, 3)), y), {}, r"`x` must be of shape \(2,\); got shape \(3,\)"),
        ((X, y), {"patience": 2}, "`patience` must be left out without `validation`; got 2"),
        (
            (X, y),
            {"validation": (X, y), "patience": 0},
            "`patience` must be a whole number of at least 1; got 0",
        ),
        ((X, y), {"clip": 0.0}, r"`clip` must be positive and finite, or None; got 0\.0"),
        ((X, y), {"accumulate": 0}, "`accumulate` must be a whole number of at least 1; got 0"),
    ]
    for data, options, words in cases:
        with pytest.raises(ValueError, match=words):
            train(network, data, cross_entropy, key=jr.key(1), **options)
    with pytest.raises(
        TypeError, match=r"`data` must be arrays of numbers; got dtype <U1\. Turn names into codes"
    ):
        train(network, (X, np.array(list("ababab"))), cross_entropy, key=jr.key(1))
    with pytest.raises(ValueError, match="`inputs` must be at least one row; got none"):
        predict_rows(network, X[:0])
    with pytest.raises(ValueError, match=r"`loss` must be one number for each row; got shape \(2,\)"):
        train(network, (X, y), lambda output, target: output - target, key=jr.key(1))


def test_a_class_that_is_not_there_is_named_by_its_batch():
    y = np.zeros(6, int)
    y[4] = 7
    run = train(
        MLP((2, 2), key=jr.key(0)),
        (np.zeros((6, 2)), y),
        cross_entropy,
        key=jr.key(1),
        batch=2,
        shuffle=False,
    )
    assert run.status is Status.not_finite
    assert "batch 3 of epoch 1 is NaN or infinite" in repr(run)
    assert np.isfinite(run.state.layers[0].weight).all()
