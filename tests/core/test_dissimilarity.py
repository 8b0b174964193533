"""Distances on the host: against mpmath and by hand, and tables that are none."""

import mpmath
import numpy as np
import pytest

from tractable.core.dissimilarity import (
    condensed_distances,
    cross_distances,
    given_distances,
    square_distances,
)

GENES = np.array([[1.6, 0.5], [-0.5, -1.9]])


def test_two_genes_by_hand():
    assert condensed_distances(GENES)[0] == pytest.approx(np.sqrt(10.17), rel=1e-14)  # 3.18904
    assert condensed_distances(GENES, "manhattan")[0] == pytest.approx(4.5, rel=1e-14)


def test_cosine_keeps_its_digits_where_directions_agree():
    one, other = [1.0, 1e-6, 0.0], [1e200, 0.0, 1e192]
    found = cross_distances([one], [other], "cosine")[0, 0]
    with mpmath.workdps(60):
        x, y = ([mpmath.mpf(v) for v in row] for row in (one, other))
        wanted = 1 - sum(a * b for a, b in zip(x, y)) / mpmath.sqrt(
            sum(a * a for a in x) * sum(b * b for b in y)
        )
    assert found == pytest.approx(float(wanted), rel=1e-6)  # 5e-13; one minus the cosine keeps three digits


def test_forms_agree():
    rows = np.random.default_rng(0).normal(size=(7, 3)) + 1e8
    for metric in ("euclidean", "manhattan", "cosine"):
        square = square_distances(rows, metric)
        np.testing.assert_allclose(square, cross_distances(rows, rows, metric), rtol=1e-12, atol=1e-30)
        np.testing.assert_array_equal(square_distances(square, "precomputed"), square)
        np.testing.assert_array_equal(
            condensed_distances(square, "precomputed"), square[np.triu_indices(7, 1)]
        )


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0.0, 1.0]], "square table of distances; got shape"),
        ([[0.0, -1.0], [-1.0, 0.0]], r"zero or positive, and finite; got -1.0 at index \(0, 1\)"),
        ([[0.0, np.nan], [np.nan, 0.0]], "finite; got nan at index"),
        ([[1.0, 2.0], [2.0, 0.0]], "zero diagonal; got 1.0 at index 0"),
        ([[0.0, 1.0], [2.0, 0.0]], r"symmetric table; got 1.0 at index \(0, 1\), unlike its mirror"),
        ([1.0, 2.0], r"n\(n - 1\)/2 distances of n rows; got 2"),
    ],
)
def test_what_is_no_table_of_distances_is_named(table, message):
    with pytest.raises(ValueError, match=message):
        given_distances(table)


def test_rows_without_distance_or_direction_are_named():
    with pytest.raises(ValueError, match="zeros in row 1"):
        condensed_distances([[1.0, 2.0], [0.0, 0.0]], "cosine")
    with pytest.raises(ValueError, match="infinite distance"):
        condensed_distances([[1e200], [-1e200]])
    with pytest.raises(ValueError, match="`metric` must be one of 'euclidean'"):
        condensed_distances(GENES, "chebyshev")
