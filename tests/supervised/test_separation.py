"""Separated classes: kinds, columns, errors, and the same verdict from every fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tractable.core.iterate import Status
from tractable.core.rows import Rows
from tractable.supervised.logistic.binary import fit_logistic
from tractable.supervised.logistic.newton import StandardRows
from tractable.supervised.logistic.probit import fit_probit
from tractable.supervised.logistic.separation import Overlap, SeparatedDataError, find_separation, separation
from tractable.supervised.logistic.softmax import fit_softmax

LINE = np.array([[0.0], [1.0], [2.0], [3.0]])


def plane(seed=0):
    """Separated by x1 + 2 x2 > 0.1, but by no column alone; the third column is noise."""
    x = np.random.default_rng(seed).normal(size=(40, 3))
    return x, (x[:, 0] + 2 * x[:, 1] > 0.1).astype(int)


@pytest.mark.parametrize(
    ("y", "kind", "rows"),
    [
        ([0, 0, 1, 1], Overlap.complete, 4),
        ([0, 1, 0, 1], Overlap.overlapping, 0),
        ([1, 0, 0, 0], Overlap.complete, 4),
    ],
)
def test_points_on_a_line(y, kind, rows):
    found = separation(LINE, y)
    assert found.overlap is kind
    assert found.rows == rows


def test_a_tie_makes_it_quasi_complete():
    found = separation([[0.0], [1.0], [1.0], [3.0]], ["a", "a", "b", "b"], names=["age"])
    assert found.overlap is Overlap.quasi_complete
    assert found.names == ("age",)
    assert found.rows == 2


def test_directions_across_columns_are_found_and_named():
    x, y = plane()
    found = separation(x, y)
    assert found.overlap is Overlap.complete
    assert set(found.columns) >= {0, 1}
    y[0] = 1 - y[0]  # one point on the wrong side, deep enough
    x[0] *= 10
    assert separation(x, y).exists


def test_quasi_complete_separation_by_a_program():
    x, y = plane()
    edge = np.array([[0.1, 0.0, 0.3], [0.1, 0.0, 0.3]])  # the same point in both classes, on the boundary
    found = separation(np.vstack([x, edge]), [*y, 0, 1])
    assert found.overlap is Overlap.quasi_complete
    assert found.rows == 40


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_a_fit_exists_exactly_where_the_program_says_so(seed):
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=(9, 2)).round(1), generator.integers(0, 2, 9)
    y[:2] = 0, 1
    exists = separation(x, y).exists
    fitted = fit_logistic(x, y, separated="report")
    assert (fitted.status is Status.converged) == exists
    assert ("Do not use" in fitted.verdict.sentence) != exists


@pytest.mark.parametrize("fit", [fit_logistic, fit_probit, fit_softmax])
def test_every_fit_names_the_columns(fit):
    x, y = plane()
    with pytest.raises(
        SeparatedDataError, match=r"separated completely.*Separating columns: .*height.*penalty"
    ):
        fit(x, y, names=["width", "height", "noise"])
    reported = fit(x, y, separated="report")
    assert "Do not use the coefficients" in repr(reported)
    assert reported.separation.overlap is Overlap.complete
    assert np.isfinite(np.asarray(fit(x, y, penalty=1e-3).coefficients)).all()


def test_first_order_methods_are_not_fooled_by_a_flat_likelihood():
    with pytest.raises(SeparatedDataError, match="column 0"):
        fit_logistic(LINE, [0, 0, 1, 1], solver="lbfgs")
    with pytest.raises(SeparatedDataError, match="column 0"):
        fit_softmax(LINE, [0, 0, 1, 2], solver="lbfgs")


def test_three_classes_of_which_one_is_apart():
    x = np.array([[0.0], [0.1], [5.0], [6.0], [5.5], [5.2]])
    found = separation(x, [0, 0, 1, 2, 2, 1])
    assert found.overlap is Overlap.complete
    found = separation(np.vstack([x, x[2:]]), [0, 0, 1, 2, 2, 1, 2, 1, 1, 2])
    assert found.overlap is Overlap.quasi_complete
    assert separation(np.vstack([x, x]), [0, 0, 1, 2, 2, 1, 1, 2, 0, 0, 1, 2]).exists


def test_one_class_has_no_maximum_with_an_intercept():
    found = separation(LINE, [1, 1, 1, 1])
    assert "the intercept alone" in repr(found)
    with pytest.raises(SeparatedDataError, match="the intercept alone"):
        fit_logistic(LINE, [1, 1, 1, 1])


def test_a_direction_that_separates_is_a_proof_for_many_rows():
    x = np.random.default_rng(1).normal(size=(25_000, 2))
    codes = (x.sum(1) > 0).astype(int)
    rows = StandardRows.of(Rows.of(x, codes, target="class"), True)
    beta = np.array([x.mean(0).sum(), *rows.scale])
    found = find_separation(rows, codes, beta)
    assert found.overlap is Overlap.complete
    assert found.columns == (0, 1)
