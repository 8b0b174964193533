"""Padding that no sum can see, chunks of one shape from every source, sums without loss."""

import gc
import math

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from tractable.core.chunks import bucket_size, chunks, pad_rows, sum_over_chunks
from tractable.core.iterate import count_traces

ROWS = np.arange(20.0).reshape(10, 2)
ROWS[3, 1] = np.nan


def gathered(parts):
    """The rows of positive weight, and their weights."""
    parts = list(parts)
    rows = np.concatenate([np.asarray(r)[np.asarray(w) > 0] for r, w in parts])
    return rows, np.concatenate([np.asarray(w)[np.asarray(w) > 0] for _, w in parts])


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(
        {
            "a": ROWS[:, 0],
            "b": ROWS[:, 1],
            "whole": np.arange(10),
            "known": pd.array([True, None] * 5, dtype="boolean"),
            "name": list("abcdefghij"),
            "weight": np.linspace(0.5, 5, 10),
        }
    )


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    frame.to_parquet(folder / "t.parquet", row_group_size=3)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.csv.gz", index=False)
    np.save(folder / "t.npy", ROWS)
    return folder


def test_buckets_are_few_and_waste_little():
    rows = np.unique(np.geomspace(1, 1e6, 500).astype(int))
    sizes = np.array([bucket_size(n) for n in rows.tolist()])
    assert (sizes >= rows).all()
    assert (np.diff(sizes) >= 0).all()
    assert len(set(sizes.tolist())) <= 10 + 2 * 8  # doublings from 8 to 4096, and from 4096 to a million
    assert (sizes / rows)[rows > 4096].max() < 1.5
    assert (sizes / rows)[rows >= 8].max() < 2
    assert [bucket_size(n) for n in (1, 8, 9, 4096, 4097, 6144, 6145)] == [8, 8, 16, 4096, 6144, 6144, 8192]


def test_padding_repeats_the_last_row_with_weight_zero():
    rows, weights = pad_rows(ROWS[:3])
    np.testing.assert_array_equal(weights, [1, 1, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(rows[:3], ROWS[:3])
    np.testing.assert_array_equal(rows[3:], np.broadcast_to(ROWS[2], (5, 2)))


def test_padding_keeps_dtypes_weights_and_several_arrays():
    (x, y), weights = pad_rows((ROWS[:3].astype(np.float32), np.array([1, 2, 3])), np.array([2.0, 0.0, 1.0]))
    assert (x.dtype, y.dtype, weights.dtype) == (np.float32, np.int64, np.float64)
    np.testing.assert_array_equal(y, [1, 2, 3, 3, 3, 3, 3, 3])
    np.testing.assert_array_equal(weights, [2, 0, 1, 0, 0, 0, 0, 0])
    assert pad_rows(ROWS[:3].astype(np.float32))[1].dtype == np.float32


def test_padding_works_under_jit():
    rows, weights = jax.jit(lambda r, w: pad_rows(r, w))(jnp.arange(3.0), jnp.ones(3))
    np.testing.assert_array_equal(rows, [0, 1, 2, 2, 2, 2, 2, 2])
    np.testing.assert_array_equal(weights, [1, 1, 1, 0, 0, 0, 0, 0])


def test_a_new_number_of_rows_does_not_compile_again():
    counted = count_traces(lambda rows, weights: (weights * jnp.log(rows)).sum())
    compiled = jax.jit(counted)
    for n in (9, 12, 16):
        x = np.arange(1.0, n + 1)
        np.testing.assert_allclose(compiled(*pad_rows(x)), math.lgamma(n + 1), rtol=1e-14)
    assert counted.count == 1


@pytest.mark.parametrize(
    ("make", "reiterable", "num_rows"),
    [
        (lambda frame, files: ROWS, True, 10),
        (lambda frame, files: jnp.asarray(ROWS), True, 10),
        (lambda frame, files: np.load(files / "t.npy", mmap_mode="r"), True, 10),
        (lambda frame, files: files / "t.npy", True, 10),
        (lambda frame, files: frame[["a", "b"]], True, 10),
        (lambda frame, files: list(ROWS), True, None),
        (lambda frame, files: [ROWS[:7], ROWS[7:]], True, None),
        (lambda frame, files: lambda: iter([ROWS[:7], ROWS[7:]]), True, None),
        (lambda frame, files: (row for row in ROWS), False, None),
        (lambda frame, files: ([float(v) for v in row] for row in ROWS), False, None),
    ],
)
def test_sources_give_the_same_rows(make, reiterable, num_rows, frame, files):
    parts = chunks(make(frame, files), 4)
    assert (parts.reiterable, parts.num_rows) == (reiterable, num_rows)
    seen = list(parts)
    assert [(r.shape, w.shape) for r, w in seen] == [((4, 2), (4,))] * 3
    np.testing.assert_array_equal(seen[-1][1], [1, 1, 0, 0])
    rows, weights = gathered(seen)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(weights, np.ones(10))
    if reiterable:
        np.testing.assert_array_equal(gathered(parts)[0], ROWS)
    else:
        with pytest.raises(ValueError, match="`source` must be an iterator that is not used up"):
            list(parts)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.csv.gz", None])
def test_tables_choose_columns_and_weights_by_name(name, frame, files):
    source = frame if name is None else str(files / name)
    parts = chunks(source, 4, weights="weight", columns=["b", "whole", "known"])
    assert parts.columns == ("b", "whole", "known")
    rows, weights = gathered(parts)
    np.testing.assert_array_equal(rows[:, :2], np.column_stack([ROWS[:, 1], np.arange(10)]))
    np.testing.assert_array_equal(rows[:, 2], [1.0, np.nan] * 5)
    np.testing.assert_allclose(weights, np.linspace(0.5, 5, 10))
    numeric = chunks(frame.drop(columns="name") if name is None else source, 4, columns=["a", "b"])
    np.testing.assert_array_equal(gathered(numeric)[0], ROWS)


def test_weights_of_every_kind_of_source():
    given = np.linspace(0.5, 5, 10)
    for source in (ROWS, (row for row in ROWS), pd.DataFrame(ROWS, columns=["a", "b"])):
        np.testing.assert_allclose(gathered(chunks(source, 4, weights=given))[1], given)


def test_several_arrays_travel_together():
    x, y = ROWS, np.arange(10)
    seen = list(chunks((x, y), 4))
    (first_x, first_y), _ = seen[0]
    np.testing.assert_array_equal(first_x, x[:4])
    np.testing.assert_array_equal(first_y, y[:4])
    assert first_y.dtype == np.int64


def test_whole_numbers_and_fractions_in_one_stream_have_one_dtype():
    seen = list(chunks(iter([[1, 2], [3, 4], [0.5, 1]]), 2))
    assert {rows.dtype.name for rows, _ in seen} == {"float64"}
    np.testing.assert_array_equal(gathered(seen)[0], [[1, 2], [3, 4], [0.5, 1]])


def test_a_csv_whose_fractions_come_late(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("x\n" + "1\n" * 700_000 + "0.5\n")
    total = sum(float((np.asarray(r)[:, 0] * np.asarray(w)).sum()) for r, w in chunks(path, 65536))
    assert total == 700_000.5
    path.write_text("x\n" + "1\n" * 700_000 + "late\n")
    with pytest.raises(ValueError, match=r"`source` must hold numbers in the columns \['x'\]"):
        list(chunks(path, 65536))


def test_parquet_is_streamed(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "large.parquet"
    rows = 2_000_000
    with pq.ParquetWriter(path, pa.schema([("x", pa.float64()), ("y", pa.float64())])) as writer:
        for start in range(0, rows, 50_000):
            x = np.arange(start, start + 50_000, dtype=float)
            writer.write_table(pa.table({"x": x, "y": -x}))
    gc.collect()
    before, peak, total = pa.total_allocated_bytes(), 0, 0.0
    for chunk, weights in chunks(path, 65536):
        peak = max(peak, pa.total_allocated_bytes() - before)
        total += float((np.asarray(chunk)[:, 0] * np.asarray(weights)).sum())
    assert total == rows * (rows - 1) / 2
    assert peak < rows * 16 / 5  # the table has rows * 16 bytes


def test_sum_over_chunks_is_the_sum_over_rows():
    counted = count_traces(
        lambda rows, w: {"count": w.sum(), "outer": (w[:, None] * rows).T @ rows, "n": (w > 0).sum()}
    )
    x = np.random.default_rng(0).normal(size=(1003, 3))
    total = sum_over_chunks(counted, chunks(x, 100))
    np.testing.assert_allclose(total["outer"], x.T @ x, rtol=1e-13)
    assert float(total["count"]) == 1003.0
    assert (int(total["n"]), total["n"].dtype) == (1003, np.int64)
    assert counted.count == 1


def test_sums_lose_nothing_to_rounding():
    x = np.array([1e16, 1.0, -1e16, 1.0] * 20)
    assert float(sum_over_chunks(lambda r, w: (r * w).sum(), chunks(x, 1))) == math.fsum(x) == 40.0
    single = np.full(2000, 0.1, np.float32)
    total = sum_over_chunks(lambda r, w: (r * w).sum(), chunks(single, 8))
    assert total.dtype == np.float64
    np.testing.assert_allclose(total, 2000 * float(np.float32(0.1)), rtol=1e-7)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_impossible_and_missing_stay_what_they_are(bad):
    x = np.array([1.0, 2.0, bad, 3.0, 4.0])
    total = sum_over_chunks(lambda r, w: jnp.where(w > 0, r, 0.0).sum(), chunks(x, 2))
    np.testing.assert_array_equal(total, bad)


def test_a_module_keeps_its_program_when_its_arrays_change():
    traces = []

    class Scaled(eqx.Module):
        scale: jax.Array

        def statistics(self, rows, weights):
            traces.append(1)
            return (weights * self.scale * rows).sum()

    for scale in (1.0, 2.0):
        total = sum_over_chunks(Scaled(jnp.asarray(scale)).statistics, chunks(np.arange(10.0), 4))
        np.testing.assert_allclose(total, 45.0 * scale)
    assert len(traces) == 1


@given(st.integers(1, 40), st.integers(1, 12), st.lists(st.integers(0, 40), max_size=4))
def test_any_cutting_of_the_rows_gives_the_same_chunks(num_rows, size, cuts):
    x = np.arange(2.0 * num_rows).reshape(num_rows, 2)
    blocks = np.split(x, sorted(min(c, num_rows) for c in cuts))
    seen = list(chunks(iter(blocks), size))
    assert len(seen) == math.ceil(num_rows / size)
    assert all(rows.shape == (size, 2) for rows, _ in seen)
    np.testing.assert_array_equal(gathered(seen)[0], x)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda f: chunks(ROWS, 0), ValueError, "`size` must be a whole number of at least 1; got 0"),
        (lambda f: chunks(ROWS[:0], 4), ValueError, "`source` must be an array with at least one row"),
        (lambda f: list(chunks(iter([]), 4)), ValueError, "`source` must be at least one row; got none"),
        (
            lambda f: chunks(pd.DataFrame({"a": []}), 4),
            ValueError,
            "`source` must be a table with at least one row",
        ),
        (
            lambda f: list(chunks(iter([[1, 2], [3]]), 4)),
            ValueError,
            r"rows of one shape, \(2,\) .* got \(1,\) at item 1",
        ),
        (lambda f: list(chunks(iter([[1, [2, 3]]]), 4)), ValueError, "`source` must have rows of one length"),
        (
            lambda f: list(chunks(iter([["a", "b"]]), 4)),
            TypeError,
            r"`source\[0\]` must be numbers; got dtype <U1",
        ),
        (lambda f: chunks(f, 4), TypeError, r"`source\['name'\]` must be a column of numbers"),
        (lambda f: chunks(f, 4, columns=["x"]), ValueError, "`columns` must be among the columns .* got 'x'"),
        (
            lambda f: chunks(f, 4, columns=["a"], weights="x"),
            ValueError,
            "`weights` must be among the columns",
        ),
        (lambda f: chunks(ROWS, 4, columns=["a"]), ValueError, "`columns` must be left out"),
        (lambda f: chunks(ROWS, 4, weights="w"), ValueError, "`weights` must be an array where"),
        (lambda f: chunks(ROWS, 4, weights=np.ones(9)), ValueError, r"`weights` must be of shape \(10,\)"),
        (
            lambda f: chunks(ROWS, 4, weights=-np.ones(10)),
            ValueError,
            r"`weights` must be zero or positive.*-1\.0 at index 0",
        ),
        (
            lambda f: chunks(ROWS, 4, weights=np.full(10, np.nan)),
            ValueError,
            "`weights` must be zero or positive",
        ),
        (
            lambda f: list(chunks(iter(ROWS), 4, weights=np.ones(9))),
            ValueError,
            r"as many as there are rows \(at least 10\)",
        ),
        (
            lambda f: list(chunks(iter(ROWS), 4, weights=np.ones(11))),
            ValueError,
            r"as many as there are rows \(10\); got 11",
        ),
        (lambda f: chunks((ROWS, ROWS[:5]), 4), ValueError, "one common number of rows"),
        (lambda f: chunks("table.xlsx", 4), ValueError, r"`source` must be a \.parquet, \.csv"),
        (lambda f: chunks(3.0, 4), ValueError, "`source` must be an array, a table, a path or an iterable"),
        (lambda f: pad_rows(ROWS[:0]), ValueError, "`rows` must be at least one row"),
        (
            lambda f: pad_rows((ROWS, ROWS[:3])),
            ValueError,
            "`rows` must be arrays with one common number of rows",
        ),
        (lambda f: pad_rows(ROWS, size=5), ValueError, "`size` must be a whole number of at least 10; got 5"),
        (lambda f: sum_over_chunks(lambda r, w: w, []), ValueError, "`parts` must be at least one chunk"),
    ],
)
def test_bad_input_is_named(call, error, words, frame):
    with pytest.raises(error, match=words):
        call(frame)


def test_text_in_files_is_named(files):
    for name in ("t.parquet", "t.csv"):
        with pytest.raises(
            TypeError, match=r"`source\['name'\]` must be a column of numbers; got (large_)?string"
        ):
            chunks(files / name, 4)


def test_empty_csv(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="`source` must be a CSV file with a header"):
        chunks(tmp_path / "empty.csv", 4)
    (tmp_path / "header.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="`source` must be at least one row"):
        list(chunks(tmp_path / "header.csv", 4))
