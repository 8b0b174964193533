"""Neural estimators: laws against the truth, coverage and scores beside a line, files, options."""

import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from tractable import datasets
from tractable.estimators import (
    BayesianLinearRegressor,
    NeuralClassifier,
    NeuralRegressor,
    SequenceClassifier,
)
from tractable.neural.tabular import held_rows


def waves(num_rows, seed):
    """A bent line whose noise grows from .03 to 1.6."""
    numbers = np.random.default_rng(seed)
    X = numbers.uniform(-2, 2, (num_rows, 2))
    scale = np.exp(X[:, 0] - 1.5)
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + scale * numbers.normal(size=num_rows), scale


@pytest.mark.parametrize("law", ["normal", "mixture", "quantile"])
def test_laws_find_noise_that_grows(law):
    X, y, _ = waves(800, 0)
    new, targets, scale = waves(2000, 1)
    model = NeuralRegressor((32,), law=law, learning_rate=0.01, random_state=0).fit(X, y)
    lower, upper = model.predict_interval(new, 0.9)
    inside = (lower <= targets) & (targets <= upper)
    for part in (new[:, 0] < 0, new[:, 0] >= 0):  # in the calm and in the noisy half
        assert 0.83 < inside[part].mean() < 0.98
    entropy = np.mean(np.log(scale)) + 0.5 * np.log(2 * np.pi * np.e)
    assert model.log_score(new, targets) > -entropy - 0.3  # near the best that any law can have
    assert BayesianLinearRegressor().fit(X, y).log_score(new, targets) < -entropy - 0.5
    assert model.n_iter_ == len(model.validation_curve_) == len(model.loss_curve_)


@pytest.mark.thorough
def test_mixtures_see_two_answers_where_a_normal_law_sees_their_mean():
    numbers = np.random.default_rng(0)
    X = numbers.uniform(-1, 1, (600, 1))
    y = np.where(numbers.random(600) < 0.5, 1, -1) * (2 + X[:, 0]) + 0.1 * numbers.normal(size=600)
    model = NeuralRegressor((16,), law="mixture", n_components=2, learning_rate=0.01, random_state=0).fit(
        X, y
    )
    law = model.predict_dist(np.zeros((1, 1)))
    density = np.exp([float(law.log_prob(np.array([at]))) for at in (-2.0, 0.0, 2.0)])
    assert density[0] > 1 > 0.05 > density[1]
    assert density[2] > 1


@pytest.mark.thorough
def test_real_tables_have_intervals_that_hold_and_classes_as_good_as_a_line():
    seen, held = datasets.diabetes().split(0.3, seed=0)
    model = NeuralRegressor(random_state=0).fit(seen.features, seen.target)
    lower, upper = model.predict_interval(held.features, 0.9)
    assert 0.84 < np.mean((lower <= held.target) & (held.target <= upper)) < 0.96
    line = BayesianLinearRegressor().fit(seen.features, seen.target)
    assert model.log_score(held.features, held.target) > line.log_score(held.features, held.target) - 0.05
    seen, held = datasets.breast_cancer().split(0.3, seed=0)
    names = np.where(seen.target == 1, "benign", "malignant")
    found = NeuralClassifier(random_state=0).fit(seen.features, names)
    assert found.score(held.features, np.where(held.target == 1, "benign", "malignant")) > 0.94
    assert found.log_score(held.features, np.where(held.target == 1, "benign", "malignant")) > -0.2


@pytest.mark.thorough
def test_files_hold_every_law_and_weights_count(tmp_path):
    X, y, _ = waves(200, 0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    weights = np.where(X[:, 0] > 0, 5.0, 0.2)
    for law in ("mixture", "quantile"):
        model = NeuralRegressor((8,), law=law, max_iter=3, random_state=0).fit(frame, y)
        model.save(tmp_path / law)
        again = NeuralRegressor.load(tmp_path / law)
        np.testing.assert_array_equal(again.predict_interval(frame), model.predict_interval(frame))
    one = NeuralRegressor((8,), max_iter=40, learning_rate=0.02, random_state=0)
    right = X[:, 0] > 0
    plain, heavy = one.fit(X, y).predict(X), one.fit(X, y, weights).predict(X)
    assert np.mean((heavy - y)[~right] ** 2) > np.mean(
        (plain - y)[~right] ** 2
    )  # the light half is neglected


def test_rows_that_fill_a_shape_do_not_count_in_the_loss_of_held_out_rows():
    place, weights = np.arange(50), np.random.default_rng(0).uniform(0.5, 3, 50)
    kept, options = held_rows(jr.key(0), place, place, weights, 0.2, 10, 3)
    held, (_, counts) = options["validation"]
    left = np.setdiff1d(place, kept[0])
    assert (left.size, held.size) == (10, 16)
    np.testing.assert_allclose((counts * held).mean(), np.average(left, weights=weights[left]), rtol=1e-6)


def test_training_does_not_depend_on_units_or_on_history():
    X, y, _ = waves(100, 0)
    model = NeuralClassifier(8, max_iter=5, random_state=3)
    first = model.fit(X, y > 0).predict_proba(X)
    scaled = model.fit(X * [1e6, 1e-6] + [5.0, -3.0], y > 0).predict_proba(X * [1e6, 1e-6] + [5.0, -3.0])
    np.testing.assert_allclose(scaled, first, atol=1e-4)
    np.testing.assert_array_equal(model.fit(X, y > 0).predict_proba(X), first)
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        NeuralRegressor("many").fit(X, y)
    for sizes in ((8, 0), (2.5,)):
        with pytest.raises((TypeError, ValueError), match="`hidden_layer_sizes` must be a whole number"):
            NeuralRegressor(sizes).fit(X, y)


def first(x):
    """What a layer must keep whatever follows."""
    return x[0, 0]


def total(x):
    """What a layer must add up."""
    return x[:, 0].sum()


def marked(num_sequences, seed, told):
    """Sequences of unequal lengths whose class is a sign of what is told."""
    numbers = np.random.default_rng(seed)
    X = [numbers.normal(size=(numbers.integers(3, 12), 2)) for _ in range(num_sequences)]
    return X, np.where([told(x) > 0 for x in X], "up", "down")


@pytest.mark.parametrize(("layer", "told", "least"), [("gru", first, 0.9), ("state_space", total, 0.75)])
def test_sequences_of_unequal_lengths_are_read_to_their_end(layer, told, least, tmp_path):
    X, y = marked(240, 0, told)
    new, labels = marked(200, 1, told)
    model = SequenceClassifier(layer, hidden_size=16, max_iter=40, random_state=0).fit(X, y)
    assert model.score(new, labels) > least
    probs = model.predict_proba(new)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-12)
    alone = np.concatenate([model.predict_proba([x]) for x in new[:5]])  # what is filled in changes nothing
    np.testing.assert_allclose(alone, probs[:5], atol=1e-9)
    rows, lengths = np.concatenate(new), [len(x) for x in new]
    np.testing.assert_array_equal(model.predict_proba(rows, lengths), probs)
    np.testing.assert_array_equal(model.predict_proba((rows, lengths)), probs)
    model.save(tmp_path / "reader")
    np.testing.assert_array_equal(SequenceClassifier.load(tmp_path / "reader").predict_proba(new), probs)


def test_sequences_that_cannot_be_read_are_refused():
    X, y = marked(10, 0, first)
    with pytest.raises(ValueError, match="`y` must be one class for each of 10 sequences"):
        SequenceClassifier().fit(X, y[:9])
    with pytest.raises(ValueError, match="`y` must be at least 2 classes; got one class"):
        SequenceClassifier().fit(X, ["up"] * 10)
    with pytest.raises(ValueError, match="`X` must be sequences of rows; got sequences of numbers"):
        SequenceClassifier().fit([[1.0, 2.0], [3.0]], [0, 1])
    X[3][1, 0] = np.nan
    with pytest.raises(ValueError, match="`X` must be finite"):
        SequenceClassifier().fit(X, y)
