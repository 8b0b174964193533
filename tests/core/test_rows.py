"""The one table of rows: what it accepts, what it refuses, and by which words."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from tractable.core.checks import namespace
from tractable.core.rows import Rows, points

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
Y = np.array([0.5, 1.5, 2.5])


def refused(*parts, error: type[Exception] = ValueError, says, **options):
    with pytest.raises(error) as raised:
        Rows.of(*parts, **options)
    assert str(raised.value).startswith(says), str(raised.value)


def test_a_table_in_double_precision_and_row_order_is_not_copied():
    rows = Rows.of(X, Y, target="number")
    assert rows.X is X
    assert rows.y is Y
    assert rows.weights.tolist() == [1, 1, 1]
    assert not rows.is_weighted
    assert not rows.has_gaps
    assert (rows.num_rows, rows.num_columns, rows.names, rows.classes) == (3, 2, None, None)


ONES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    "given",
    [
        ONES.tolist(),
        ONES.astype(np.float32),
        ONES.astype(np.int64),
        ONES.astype(bool),
        np.asfortranarray(ONES),
        jnp.asarray(ONES),
        pd.DataFrame(ONES),
    ],
    ids=["list", "single", "whole", "bool", "columns", "jax", "frame"],
)
def test_every_kind_of_table_becomes_the_same_rows(given):
    rows = Rows.of(given)
    assert np.array_equal(rows.X, ONES)
    assert rows.X.dtype == np.float64
    assert rows.X.flags.c_contiguous


def test_a_vector_is_points_in_one_dimension():
    assert Rows.of([1.0, 2.0]).X.shape == (2, 1)
    assert points(pd.Series([1.0, 2.0])).shape == (2, 1)


def test_prepared_rows_pass_unread():
    rows = Rows.of(X, Y, [1, 2, 3], target="number")
    assert Rows.of(rows, target="number") is rows
    assert Rows.of(rows, target="numbers") is rows
    assert points(rows, 2) is X
    refused(rows, Y, says="`y` must be left out where `X` holds prepared rows")
    refused(rows, target="class", says="`y` must be classes; got numbers")
    refused(Rows.of(X), target="number", says="`y` must be given; got rows without targets")
    refused(rows, num_columns=3, says="`X` must be rows of 3 columns; got 2 columns")


def test_gaps_are_allowed_or_refused_by_column_and_row():
    gappy = X.copy()
    gappy[1, 0] = np.nan
    frame = pd.DataFrame(gappy, columns=["age", "height"])
    rows = Rows.of(frame, gaps=True)
    assert rows.has_gaps
    assert rows.names == ("age", "height")
    assert rows.where(1) == "column 'height'"
    refused(frame, says="`X` must be finite; got NaN in column 'age', row 1. Impute")
    refused(gappy, says="`X` must be finite; got NaN in column 0, row 1. Impute")
    refused(rows, says="`X` must be finite; got NaN in column 'age', row 1. Impute")
    with pytest.raises(ValueError, match="`X` must be finite; got NaN in column 'age', row 1"):
        points(rows)
    gappy[2, 1] = -np.inf
    says = "`X` must be finite, or NaN where missing; got infinity (-inf) in column 1, row 2."
    refused(gappy, gaps=True, says=says)


def test_sums_that_overflow_are_no_fault():
    huge = np.full((4, 1), 1e308)
    assert Rows.of(huge).X is huge
    assert not Rows.of(huge, gaps=True).has_gaps


def test_nullable_columns_of_a_frame_have_gaps():
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    rows = Rows.of(frame, gaps=True)
    assert np.isnan(rows.X[1, 0])
    assert rows.X[:, 1].tolist() == [1, 0, 1]


def test_what_is_no_number_is_refused_with_its_column():
    frame = pd.DataFrame({"a": [1.0, 2.0], "city": ["Oslo", "Rome"]})
    refused(frame, error=TypeError, says="`X` must be numbers; got 'Oslo' in column 'city', row 0. Encode")
    refused([["1", "2"]], error=TypeError, says="`X` must be numbers; got dtype <U1.")
    refused([[1j]], error=TypeError, says="`X` must be real numbers; got dtype complex128.")
    refused([[object()]], error=TypeError, says="`X` must be numbers; got list.")
    refused([[1.0], [1.0, 2.0]], error=TypeError, says="`X` must be numbers; got list.")
    from scipy.sparse import eye_array

    refused(eye_array(3).tocsr(), error=TypeError, says="`X` must be a dense table; got a sparse one.")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (np.zeros((0, 2)), "`X` must be at least one row; got none."),
        (np.zeros((2, 0)), "`X` must be rows of at least one column; got shape (2, 0)."),
        (np.zeros((2, 2, 2)), "`X` must be rows of shape (n, d), or a vector; got shape (2, 2, 2)."),
        (np.float64(3.0), "`X` must be rows of shape (n, d), or a vector; got shape ()."),
    ],
)
def test_degenerate_shapes_are_refused(table, says):
    refused(table, says=says)


def test_too_few_rows_are_refused():
    refused(X[:1], least=2, says="`X` must be at least 2 rows; got 1.")
    assert Rows.of(X[:1]).num_rows == 1
    assert Rows.of(np.zeros((0, 2)), least=0).num_rows == 0


def test_targets_are_numbers():
    assert Rows.of(X, [1, 2, 3], target="number").y.dtype == np.float64
    assert Rows.of(X, X, target="numbers").y.shape == (3, 2)
    refused(X, X, target="number", says="`y` must be one per row (3,); got shape (3, 2).")
    refused(X, Y[:2], target="number", says="`y` must be as long as `X` (3); got 2.")
    refused(X, [1, np.nan, 2], target="number", says="`y` must be finite; got NaN in row 1.")
    several = np.array([[1, 2], [3, np.inf], [5, 6]])
    refused(X, several, target="numbers", says="`y` must be finite; got infinity (inf) in column 1, row 1.")
    refused(X, None, target="number", says="`y` must be given; got None.")
    refused(X, Y, says="`y` must be left out where there are no targets")
    refused(X, Y, target="colour", says="`target` must be one of 'number'")


def test_classes_are_codes():
    rows = Rows.of(X, [2.0, 0.0, 2.0], target="class")
    assert rows.y.dtype == np.int64
    assert rows.y.tolist() == [2, 0, 2]
    assert rows.num_classes == 3
    assert Rows.of(X, [True, False, True], target="class", num_classes=4).num_classes == 4
    refused(
        X, [0, 1, -1], target="class", says="`y` must be codes 0, 1, ... of classes, from 0 to ...; got -1"
    )
    refused(
        X, [0, 1, 2], target="class", num_classes=2, says="`y` must be codes 0, 1, ... of classes, from 0"
    )
    refused(X, [0, 1, 0.5], target="class", says="`y` must be codes 0, 1, ... of classes")
    refused(X, ["a", "b", "a"], target="class", says="`y` must be codes of classes; got dtype <U1.")


def test_labels_become_codes():
    rows = Rows.of(X, ["b", "a", "b"], target="label")
    assert rows.classes == ("a", "b")
    assert rows.y.tolist() == [1, 0, 1]
    assert rows.signs.tolist() == [1, -1, 1]
    assert Rows.of(rows, target="sign") is rows
    assert Rows.of(rows, target="class") is rows
    wider = Rows.of(rows, target="class", num_classes=3)
    assert wider.num_classes == 3
    assert wider.X is rows.X
    refused(X, [1.0, np.nan, 2.0], target="label", says="`y` must be without gaps; got")
    refused(X, np.array(["a", None, "b"], object), target="label", says="`y` must be without gaps; got")
    refused(Rows.of(X, Y, target="label"), target="sign", says="`y` must be of two classes; got 3 classes.")


def test_two_classes_as_bits_and_signs():
    bits = Rows.of(X, [1, 0, 1], target="binary")
    signs = Rows.of(X, [1, -1, 1], target="sign")
    assert bits.y.tolist() == signs.y.tolist() == [1, 0, 1]
    assert signs.signs.tolist() == [1.0, -1.0, 1.0]
    assert signs.classes == (-1, 1)
    refused(X, [1, -1, 1], target="binary", says="`y` must be 0 or 1; got -1 at index 1.")
    refused(X, [1, 0, 1], target="sign", says="`y` must be -1 or +1; got 0 at index 1.")


def test_weights_say_how_often_a_row_counts():
    rows = Rows.of(X, Y, [2, 0, 1], target="number")
    assert rows.X.tolist() == [[1, 2], [5, 6]]
    assert rows.y.tolist() == [0.5, 2.5]
    assert rows.is_weighted
    assert rows.total == 3
    assert Rows.of(X, Y, [2, 0, 1], target="number", absent="keep").num_rows == 3
    refused(
        X, Y, [0, 0, 0], target="number", says="`weights` must be positive for at least one row; got zeros."
    )
    refused(X, None, [1, -1, 1], says="`weights` must be zero or positive, and finite; got -1.0 at index 1.")
    refused(
        X, None, [1, np.nan, 1], says="`weights` must be zero or positive, and finite; got nan at index 1."
    )
    refused(X, None, [1, 1], says="`weights` must be of shape (3,), one per row; got shape (2,).")


def test_a_frame_of_other_columns_is_refused_by_name():
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert Rows.of(frame, names=("a", "b")).names == ("a", "b")
    refused(frame, names=("a", "c"), says="`X` must be a table with column 'c' at place 1; got 'b'.")
    with pytest.raises(ValueError, match="'c' at place 1"):
        points(frame, names=("a", "c"))
    assert points(X, names=("a", "c")).shape == (3, 2)


def test_padding_repeats_the_last_row_without_weight():
    rows = Rows.of(X, Y, target="number").padded()
    assert rows.X.shape == (8, 2)
    assert rows.y.shape == (8,)
    assert rows.weights.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert rows.X[7].tolist() == [5, 6]
    assert Rows.of(rows, target="number") is rows
    assert Rows.of(X).padded(16).X.shape == (16, 2)


def test_rows_pass_through_jit_and_are_made_under_it():
    rows = Rows.of(X, Y, target="number")
    assert jax.jit(lambda r: (r.weights * r.y).sum())(rows) == Y.sum()

    @jax.jit
    def inside(table, y, weights):
        made = Rows.of(table, y, weights, target="number")
        return made.total + points(table, 2).sum() + made.y.sum()

    assert inside(X, Y, np.ones(3)) == 3 + X.sum() + Y.sum()
    with pytest.raises(ValueError, match="as long as `X`"):
        jax.jit(lambda x, y: Rows.of(x, y, target="number").y)(X, Y[:2])
    with pytest.raises(ValueError, match="`num_classes` must be given"):
        jax.jit(lambda y: Rows.of(X, y, target="class").y)(np.array([0, 1, 1]))


def test_subsets_keep_names_and_classes():
    rows = Rows.of(pd.DataFrame(X, columns=["a", "b"]), ["u", "v", "u"], target="label")
    part = rows.take([0, 2])
    assert part.names == ("a", "b")
    assert part.classes == ("u", "v")
    assert part.y.tolist() == [0, 0]


def test_a_large_table_is_read_without_copies():
    table = np.ones((200_000, 20))
    tracemalloc.start()
    Rows.of(table, np.ones(len(table)), np.ones(len(table)), target="number")
    peak = tracemalloc.get_traced_memory()[1]
    single = np.asfortranarray(table)
    tracemalloc.reset_peak()
    Rows.of(single)
    copied = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * table.nbytes
    assert copied < 1.3 * 2 * table.nbytes


def test_the_namespace_follows_the_values():
    assert namespace({"a": np.ones(2)}, jnp.ones(2)) is np
    assert jax.jit(lambda x: jnp.asarray(namespace(X, x) is jnp))(1.0)
