"""Dask collections as blocks of rows: kinds, cuts, weights, and what is refused."""

import math
import subprocess
import sys

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pandas as pd
import pytest

from tractable.scale import DistributedRows
from tractable.scale.partitions import is_collection, partitions_of
from tractable.scale.places import height

X = np.random.default_rng(0).normal(size=(23, 3))
Y = np.arange(23.0)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


def _weighted(rows, weights):
    return (rows * weights[:, None]).sum(0), weights.sum()


def _frame(table, pieces=3):
    import dask.dataframe as dd

    return dd.from_pandas(table, npartitions=pieces)


@pytest.mark.cheap
@pytest.mark.parametrize(
    "collection",
    [
        da.from_array(X, chunks=(5, 3)),
        da.from_array(X, chunks=(7, 2)),
        da.from_array(X, chunks=(23, 3)),
        db.from_sequence(list(X), npartitions=4),
        db.from_sequence(X.tolist(), npartitions=4),
        [dask.delayed(X[:10]), dask.delayed(X[10:])],
    ],
    ids=["array", "cut columns", "one chunk", "bag", "bag of lists", "delayed"],
)
def test_every_kind_of_collection_adds_up_to_the_rows(collection):
    assert is_collection(collection)
    sums, count = DistributedRows(collection, chunk=8).total(_weighted)
    np.testing.assert_allclose(sums, [math.fsum(column) for column in X.T], rtol=1e-14)
    assert float(count) == 23


def test_frames_give_their_numbers_and_a_column_of_weights():
    rows = DistributedRows(_frame(FRAME.assign(w=np.arange(23.0))), "w", chunk=8)
    sums, count = rows.total(_weighted)
    np.testing.assert_allclose(sums, np.arange(23.0) @ X, rtol=1e-14)
    assert float(count) == 253
    with pytest.raises(ValueError, match=r"`weights` must be a column of the data frame"):
        DistributedRows(_frame(FRAME), "w")
    with pytest.raises(ValueError, match=r"columns of numbers; got the column \['d'\]"):
        DistributedRows(_frame(FRAME.assign(d="x")))


def test_missing_numbers_of_a_frame_are_nan():
    table = FRAME.copy()
    table["a"] = table["a"].astype("Float64")
    table.loc[3, "a"] = pd.NA
    blocks = dask.compute(*partitions_of(_frame(table)), scheduler="synchronous")
    found = np.concatenate([block.rows for block in blocks])
    assert np.isnan(found[3, 0])
    assert np.isnan(found).sum() == 1


def test_tuples_are_cut_alike():
    pair = (da.from_array(X, chunks=(5, 3)), da.from_array(Y, chunks=7))
    blocks = dask.compute(*partitions_of(pair, da.from_array(Y, chunks=9)), scheduler="synchronous")
    assert [block.num_rows for block in blocks] == [5, 5, 5, 5, 3]
    assert all((block.rows[1] == block.weights).all() for block in blocks)
    frames = (_frame(FRAME), _frame(FRAME.assign(y=Y))["y"])
    blocks = dask.compute(*partitions_of(frames), scheduler="synchronous")
    np.testing.assert_array_equal(np.concatenate([block.rows[1] for block in blocks]), Y)


def test_bags_of_tuples_are_parts_of_rows():
    bag = db.from_sequence(list(zip(X, Y)), npartitions=3)
    blocks = dask.compute(*partitions_of(bag), scheduler="synchronous")
    np.testing.assert_array_equal(np.concatenate([block.rows[0] for block in blocks]), X)
    np.testing.assert_array_equal(np.concatenate([block.rows[1] for block in blocks]), Y)


def test_empty_partitions_add_nothing_and_none_at_all_is_an_error():
    some = da.from_array(X, chunks=(5, 3))
    mask = da.from_array(Y, chunks=5) < 7
    sums, count = DistributedRows(some[mask], chunk=8).total(_weighted)
    np.testing.assert_allclose(sums, X[:7].sum(0), rtol=1e-14)
    assert float(count) == 7
    with pytest.raises(ValueError, match="at least one row; got none in any partition"):
        DistributedRows(some[mask & ~mask]).total(_weighted)


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("collection", "weights", "error", "words"),
    [
        ((da.zeros((4, 2), chunks=2), np.zeros(4)), None, TypeError, "`collection` must be a Dask array"),
        ((da.zeros(4, chunks=2), da.zeros(5, chunks=2)), None, ValueError, "one common number of rows"),
        ([dask.delayed(X)], da.zeros(4, chunks=2), ValueError, "as many partitions"),
    ],
)
def test_what_is_no_collection_is_refused(collection, weights, error, words):
    with pytest.raises(error, match=words):
        DistributedRows(collection, weights)


def test_a_weight_below_zero_is_refused_where_it_is():
    weights = da.from_array(np.where(Y == 8, -1.0, 1.0), chunks=5)
    with pytest.raises(ValueError, match="`weights` must be"):
        DistributedRows(da.from_array(X, chunks=(5, 3)), weights).total(_weighted)


def test_the_tree_does_not_change_the_value():
    x = da.from_array(np.array([1e16, 1.0, -1e16, 1.0] * 8), chunks=1)

    def total(rows, weights):
        return (rows * weights).sum()

    assert {float(DistributedRows(x, fan_in=f).total(total)) for f in (2, 3, 40)} == {16.0}
    assert [height(n, f) for n, f in ((1, 2), (2, 2), (9, 2), (256, 16), (257, 16))] == [1, 1, 4, 2, 3]


def test_without_dask_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['dask'] = None\n"
        "import numpy as np, tractable as tr\n"
        "from tractable.scale.partitions import required\n"
        "try:\n    required('dask')\nexcept ImportError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tractable[scale]'" in found.stdout
