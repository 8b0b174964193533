"""Maximum likelihood, MAP and Bayes side by side."""

import numpy as np
import pytest

from tractable.distributions.estimates import compare_estimates


def test_worked_example():
    table = compare_estimates(np.array([3, 1]), np.array([[1.0, 1.0], [2.0, 2.0]]))
    np.testing.assert_allclose(table.mle, [[0.75, 0.25]] * 2, rtol=1e-14)
    np.testing.assert_allclose(table.map, [[0.75, 0.25], [2 / 3, 1 / 3]], rtol=1e-14)
    np.testing.assert_allclose(table.bayes, [[2 / 3, 1 / 3], [0.625, 0.375]], rtol=1e-14)


def test_relations_between_the_estimators():
    counts = np.array([[5, 2, 3], [1, 0, 4]])
    flat, add_one = compare_estimates(counts, 1.0), compare_estimates(counts, 2.0)
    np.testing.assert_allclose(flat.map, flat.mle, rtol=1e-13)
    np.testing.assert_allclose(add_one.map, flat.bayes, rtol=1e-13)


def test_all_agree_as_the_sample_grows():
    counts = np.array([[3, 1, 6]]) * np.array([[1], [100], [10_000]])
    table = compare_estimates(counts, 3.0)
    gaps = np.abs(table.bayes - table.mle).max(1)
    assert (np.diff(gaps) < 0).all()
    assert gaps[-1] < 1e-4


def test_stronger_priors_pull_towards_uniform():
    table = compare_estimates(np.array([8, 2]), np.outer([1.0, 10.0, 1000.0], np.ones(2)))
    assert (np.diff(table.bayes[:, 0]) < 0).all()
    assert abs(table.bayes[-1, 0] - 0.5) < 0.01


def test_every_combination_has_a_row():
    table = compare_estimates(np.array([[1, 1], [9, 1]]), np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    assert table.totals.tolist() == [2, 2, 2, 10, 10, 10]
    np.testing.assert_allclose(table.concentrations[:, 0], [1, 2, 3, 1, 2, 3])


def test_held_out_log_loss():
    table = compare_estimates(np.array([3, 1, 0]), 1.0, held_out=np.array([2, 1, 1]))
    bayes = np.array([4, 2, 1]) / 7
    expected = -(2 * np.log(bayes[0]) + np.log(bayes[1]) + np.log(bayes[2])) / 4
    assert table.log_loss is not None
    np.testing.assert_allclose(table.log_loss["bayes"], [expected], rtol=1e-13)
    assert table.log_loss["mle"][0] == np.inf  # it gave the third category nothing
    unseen = compare_estimates(np.array([3, 1, 0]), 1.0, held_out=np.array([2, 1, 0]))
    assert np.isfinite(unseen.log_loss["mle"]).all()


def test_estimates_that_do_not_exist_are_nan():
    unbounded = compare_estimates(np.array([3, 0]), 0.5)  # the density has no maximum: infinite at zero
    assert np.isnan(unbounded.map).all()
    assert np.isfinite(unbounded.bayes).all()
    empty = compare_estimates(np.array([0, 0]), 2.0)
    assert np.isnan(empty.mle).all()
    np.testing.assert_allclose(empty.map, [[0.5, 0.5]])


def test_table_and_records():
    table = compare_estimates(np.array([3, 1]), 2.0, held_out=np.array([1, 1]))
    lines = repr(table).split("\n")
    assert lines[0].split()[:5] == ["n", "concentration", "mle", "map", "bayes"]
    assert "(0.625, 0.375)" in lines[1]
    frame = table.to_pandas()
    assert frame.loc[0, "bayes"] == [0.625, 0.375]
    assert frame.loc[0, "bayes_log_loss"] == pytest.approx(-np.log(0.625 * 0.375) / 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.array([-1, 2]), 1.0), "`counts` must be zero or positive, and finite; got -1.0 at index 0"),
        ((np.array([3]), 1.0), "`counts` must be counts of two or more categories"),
        ((np.array([1, 2]), np.ones(3)), r"`concentration` must be a number, or one per category \(2\)"),
        ((np.array([1, 2]), -1.0), "`concentration` must be positive and finite"),
        ((np.array([1, 2]), 1.0, np.ones(3)), r"`held_out` must be one count per category \(2\)"),
        ((np.array([1, 2]), 1.0, np.zeros(2)), "`held_out` must be at least one observation"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        compare_estimates(*arguments)
