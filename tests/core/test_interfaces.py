"""Protocols told apart at run time, tasks told from targets, training error against test error."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from tractable.core import interfaces
from tractable.core.interfaces import Task, class_log_probs, errors, is_implicit, task_of
from tractable.distributions.continuous import Normal
from tractable.distributions.tables import ConditionalTable, JointTable


class Sampler:
    """A model with draws and no density."""

    def sample(self, key, shape=()):
        return jr.normal(key, shape) ** 3


class TwoClasses:
    """p(x, y) with y fair and x given y normal around 2y."""

    def log_joint(self, x, y):
        return jnp.log(0.5) + Normal(2.0 * y, 1.0).log_prob(x)

    def sample(self, key, shape=()):
        label, noise = jr.split(key)
        y = jr.bernoulli(label, 0.5, shape)
        return 2.0 * y + jr.normal(noise, shape), y


class Line:
    """Least squares, as a supervised estimator."""

    def fit(self, features, targets):
        self.weights = np.linalg.lstsq(
            np.column_stack([np.ones(len(features)), features]), targets, rcond=None
        )[0]
        return self

    def predict(self, features):
        return self.weights[0] + self.weights[1] * features

    def predict_dist(self, features):
        return Normal(self.predict(features), 1.0)


def test_explicit_and_implicit_models():
    normal, sampler = Normal(0.0, 1.0), Sampler()
    assert isinstance(normal, interfaces.HasLogProb)
    assert isinstance(normal, interfaces.HasSample)
    assert not is_implicit(normal)
    assert isinstance(sampler, interfaces.HasSample)
    assert not isinstance(sampler, interfaces.HasLogProb)
    assert is_implicit(sampler)
    assert not is_implicit(object())


def test_real_classes_meet_their_protocols():
    table, conditional = JointTable("a", [0.5, 0.5]), ConditionalTable("b", "a", [[0.1, 0.9], [0.5, 0.5]])
    assert isinstance(table, interfaces.HasQueries)
    assert isinstance(table, interfaces.HasSample)
    assert isinstance(conditional, interfaces.Conditional)
    assert not isinstance(table, interfaces.Conditional)
    assert isinstance(TwoClasses(), interfaces.Generative)
    assert isinstance(TwoClasses(), interfaces.HasLogJoint)
    assert not isinstance(Sampler(), interfaces.Generative)
    assert isinstance(Line(), interfaces.Predictor)
    for protocol in (
        interfaces.HasEM,
        interfaces.HasPotentials,
        interfaces.HasPosterior,
        interfaces.Predictor,
    ):
        assert not isinstance(Normal(0.0, 1.0), protocol)


def test_half_a_protocol_is_not_the_protocol():
    class OnlyE:
        def e_step(self, rows, weights):
            return rows, weights

    class Both(OnlyE):
        def m_step(self, stats):
            return self

    assert not isinstance(OnlyE(), interfaces.HasEM)
    assert isinstance(Both(), interfaces.HasEM)


def test_generative_model_as_a_classifier():
    found = np.exp(class_log_probs(TwoClasses(), 1.6, [0.0, 1.0]))
    odds = np.exp(2 * 1.6 - 2)  # log p(x | 1) - log p(x | 0) = 2x - 2
    np.testing.assert_allclose(found, [1 / (1 + odds), odds / (1 + odds)], rtol=1e-13)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (None, Task.unsupervised),
        (["spam", "ham"], Task.classification),
        (np.array([True, False]), Task.classification),
        (pd.Series([1, 2, 3], dtype="category"), Task.classification),
        (pd.Series(["a", "b"]), Task.classification),
        (np.array([0, 1, 2, 0, 1, 2]), Task.classification),
        (np.array([0.1, 2.5]), Task.regression),
        (np.array([0.0, 1.0, 0.0, 1.0]), Task.regression),
        (np.arange(100), Task.regression),
        (np.array([3, 7, 12]), Task.regression),
        (np.repeat(np.arange(21), 5), Task.regression),
        (pd.Series(range(50), dtype="Int64"), Task.regression),
        (np.array(["a", 1], dtype=object), Task.classification),
        (np.repeat(np.arange(20), 5), Task.classification),
    ],
)
def test_task_is_told_from_the_targets(targets, expected):
    assert task_of(targets) is expected


def test_the_rule_can_be_overridden_and_refuses_nonsense():
    counts = np.array([0, 1, 2, 0, 1, 2])
    assert task_of(counts, task="regression") is Task.regression
    assert task_of(np.array([0.0, 1.0]), task=Task.classification) is Task.classification
    assert task_of(counts, max_classes=2) is Task.regression
    with pytest.raises(
        ValueError,
        match=r"`task` must be one of \['regression', 'classification', 'unsupervised'\]; got 'rank'",
    ):
        task_of(counts, task="rank")
    with pytest.raises(ValueError, match=r"`targets` must be without missing values"):
        task_of(np.array([1.0, np.nan]))
    for gaps in (pd.Series([1, None], dtype="Int64"), np.array(["a", None], dtype=object)):
        with pytest.raises(ValueError, match=r"`targets` must be without missing values"):
            task_of(gaps)
    with pytest.raises(ValueError, match=r"`targets` must be at least one value"):
        task_of(np.array([]))
    with pytest.raises(
        TypeError, match=r"`targets` must be numbers, text, booleans or categories; got complex128"
    ):
        task_of(np.array([1j]))


@pytest.fixture(scope="module")
def noisy_line():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 400)
    y = 1 + 2 * x + rng.normal(size=400)
    return (x[:200], y[:200]), (x[200:], y[200:])


def nearest(train):
    """The target of the nearest training row."""
    x, y = train
    return lambda new: y[np.abs(np.asarray(new)[:, None] - x).argmin(1)]


def test_nearest_neighbour_remembers_and_a_line_generalises(noisy_line):
    train, test = noisy_line
    memory, line = errors(nearest(train), train, test), errors(Line().fit(*train).predict, train, test)
    assert memory.train == 0.0
    assert memory.test - 2.0 > -5 * memory.test_standard_error  # twice the noise, in expectation
    assert memory.gap == memory.test > 5 * memory.gap_standard_error
    assert abs(line.gap) < 5 * line.gap_standard_error
    assert abs(line.test - 1.0) < 5 * line.test_standard_error
    assert line.test < memory.test


def test_errors_are_means_of_row_losses(noisy_line):
    train, test = noisy_line
    found = errors(lambda x: 0 * x, train, test)
    np.testing.assert_allclose(found.test, np.mean(test[1] ** 2), rtol=1e-13)
    np.testing.assert_allclose(
        found.test_standard_error, np.std(test[1] ** 2, ddof=1) / np.sqrt(200), rtol=1e-13
    )
    np.testing.assert_allclose(
        found.gap_standard_error**2, found.train_standard_error**2 + found.test_standard_error**2
    )
    absolute = errors(lambda x: 0 * x, train, test, loss=lambda y, guess: np.abs(y - guess))
    np.testing.assert_allclose(absolute.train, np.abs(train[1]).mean(), rtol=1e-13)


def test_errors_of_a_classifier_count_mistakes():
    features, labels = np.arange(4), np.array(["a", "b", "a", "b"])
    found = errors(
        lambda x: np.where(x % 2 == 0, "a", "b"),
        (features, labels),
        (features, np.array(["a", "a", "a", "b"])),
    )
    assert (found.train, found.test) == (0.0, 0.25)
    single = errors(lambda x: labels[:1], (features[:1], labels[:1]), (features[:1], labels[:1]))
    assert np.isnan(single.test_standard_error)


def test_errors_refuse_wrong_lengths(noisy_line):
    train, test = noisy_line
    with pytest.raises(
        ValueError, match=r"`predict\(train\)` must be as long as `targets of train` \(200\); got 3"
    ):
        errors(lambda x: x[:3], train, test)
    with pytest.raises(
        ValueError, match=r"`loss` must be one number for each of the \(200,\) rows; got shape \(\)"
    ):
        errors(lambda x: x, train, test, loss=lambda y, guess: np.mean(y))
