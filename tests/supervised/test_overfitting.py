"""Overfitting studies: flexible learners win on the rows seen and lose on new ones."""

import jax.random as jr
import numpy as np
import pytest

from tractable.supervised.selection.overfitting import (
    compare_learners,
    degree_sweep,
    heights_and_weights,
    line_learner,
    linear_classifier,
    nearest_neighbour_classifier,
    nearest_neighbour_learner,
)

RANDOM = np.random.default_rng(4)


def cubic(x):
    return 1 - 2 * x + 3 * x**3


def test_degree_sweep_turns_on_new_rows_only():
    x, new = np.linspace(-1, 1, 15), RANDOM.uniform(-1, 1, 2000)
    y, y_new = cubic(x) + 0.3 * RANDOM.normal(size=15), cubic(new) + 0.3 * RANDOM.normal(size=2000)
    sweep = degree_sweep(x, y, new, y_new, range(13))
    train, test = sweep.curve.train[:, 0], sweep.curve.test[:, 0]
    assert (np.diff(train) <= 1e-12).all()  # the larger model contains the smaller one
    for degree in (0, 3, 12):
        fit = np.polynomial.polynomial.polyfit(x, y, degree)
        residual = y - np.polynomial.polynomial.polyval(x, fit)
        np.testing.assert_allclose(train[degree], (residual**2).mean(), rtol=1e-8)
    assert test[12] > 1.5 * test[3]  # the noise alone is 0.09, of which no degree is rid
    assert sweep.best == 3
    assert sweep.best_by_evidence == 3
    assert "best_by_evidence  3" in repr(sweep)


def test_more_rows_cure_overfitting():
    random = np.random.default_rng(1)  # its own: other tests may or may not have drawn before
    new = random.uniform(-1, 1, 2000)
    y_new = cubic(new) + 0.3 * random.normal(size=2000)

    def gap(count):
        x = np.linspace(-1, 1, count)
        sweep = degree_sweep(x, cubic(x) + 0.3 * random.normal(size=count), new, y_new, [9])
        return float((sweep.curve.test - sweep.curve.train)[0, 0])

    few, many = (np.mean([gap(count) for _ in range(20)]) for count in (15, 400))
    assert many < 0.1 * few


def test_straight_border_beats_a_winding_one_on_new_people():
    rows, sex = heights_and_weights(jr.key(0), 120)
    new, new_sex = heights_and_weights(jr.key(1), 3000)
    learners = {"winding": nearest_neighbour_classifier, "straight": linear_classifier}
    study = compare_learners(learners, rows, sex, new, new_sex)
    assert study.train[0] == 0.0
    assert study.train[1] > 0.05
    error = np.sqrt(0.25 / 3000)
    assert study.test[0] > study.test[1] + 3 * error
    assert study.gaps[0] > 3 * abs(study.gaps[1])
    assert "winding" in repr(study)


def test_one_neighbour_repeats_the_noise_and_a_line_does_not():
    x, new = RANDOM.uniform(size=(80, 1)), RANDOM.uniform(size=(4000, 1))
    y, y_new = (2 * z[:, 0] + 0.5 * RANDOM.normal(size=len(z)) for z in (x, new))
    learners = {"neighbour": nearest_neighbour_learner, "line": line_learner}
    study = compare_learners(learners, x, y, new, y_new)
    assert study.train[0] == 0.0
    # the line pays the noise once, the neighbour twice: its own and that of the row that it repeats
    np.testing.assert_allclose(study.test, [0.5, 0.25], rtol=0.25)


def test_several_variables_are_refused():
    with pytest.raises(ValueError, match="`X` must be one variable"):
        degree_sweep(np.ones((4, 2)), np.ones(4), np.ones((2, 2)), np.ones(2))
