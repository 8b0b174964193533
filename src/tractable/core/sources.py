"""Where rows come from: arrays, data frames, Parquet and CSV files, iterables; each as an iterator of blocks.

Contract.    A block is a list of NumPy arrays with one common number of rows. Blocks have any number of rows;
             `core.chunks` cuts them to size. Numbers of a table become float64, missing values NaN.
Cost.        Memory for one block: a Parquet file is read by row groups, a CSV file by the megabyte.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check

__all__ = ["Block", "Table", "array_blocks", "give_back", "item_blocks", "open_table"]

_HELD = 64_000_000  # bytes of memory maps that are read before what was read is given back

Block = list[np.ndarray]


class Table(NamedTuple):
    """Columns of numbers that can be read again and again; named weights are the last array of each block."""

    blocks: Callable[[], Iterator[Block]]
    num_rows: int | None
    columns: tuple[str, ...]


def array_blocks(arrays: tuple, size: int) -> tuple[Callable[[], Iterator[Block]], int]:
    """Slices of `size` rows of arrays of one length, and that length."""
    check(len(arrays) > 0, "source", "at least one array", "an empty tuple")
    held = [np.asarray(a) if isinstance(a, jax.Array) else a for a in arrays]
    for position, array in enumerate(held):
        name = "source" if len(held) == 1 else f"source[{position}]"
        check(isinstance(array, np.ndarray), name, "an array", type(array).__name__, error=TypeError)
        _check_numeric(name, array.dtype)
        check(
            array.ndim > 0 and len(array) > 0, name, "an array with at least one row", f"shape {array.shape}"
        )
    lengths = [len(array) for array in held]
    check(len(set(lengths)) == 1, "source", "arrays with one common number of rows", lengths)
    return lambda: _slices(held, size), lengths[0]


def give_back(array: Any) -> None:
    """Tell the system that the pages of a memory map that were read may go: they are in the file."""
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    found = None if getattr(array, "mode", "c") == "c" else getattr(array, "_mmap", None)
    if found is not None and hasattr(mmap, "MADV_DONTNEED"):  # a private copy ("c") may hold changes
        found.madvise(mmap.MADV_DONTNEED)


def _slices(arrays: list[np.ndarray], size: int) -> Iterator[Block]:
    read = 0
    for low in range(0, len(arrays[0]), size):
        block = [array[low : low + size] for array in arrays]
        yield block
        read += sum(part.nbytes for part in block)
        if read >= _HELD:
            read = 0
            for array in arrays:
                give_back(array)


def item_blocks(items: Iterable) -> Iterator[Block]:
    """Items that are numbers, rows or blocks of rows, as blocks of one width and of one float dtype."""
    width = dtype = None
    for position, item in enumerate(items):
        try:
            array = np.asarray(item)
        except ValueError as error:
            raise ValueError(
                f"`source` must have rows of one length; got {item!r} at item {position}."
            ) from error
        _check_numeric(f"source[{position}]", array.dtype)
        block = array if array.ndim >= 2 else array[None]
        if width is None:
            width, dtype = block.shape[1:], np.result_type(block.dtype, np.float32)
        got = f"{block.shape[1:]} at item {position}"
        check(block.shape[1:] == width, "source", f"rows of one shape, {width} as in the first item", got)
        yield [block.astype(dtype, copy=False)]


def open_table(source: Any, size: int, columns: Sequence[str] | None, weights: str | None) -> Table:
    """A data frame, or the path of a Parquet or CSV file."""
    if hasattr(source, "iloc"):
        return _frame(source, size, columns, weights)
    path = Path(source)
    if path.suffix in (".parquet", ".pq"):
        return _parquet(path, size, columns, weights)
    text = Path(path.stem) if path.suffix in (".gz", ".bz2") else path
    check(text.suffix == ".csv", "source", "a .parquet, .csv, .csv.gz or .npy file", f"{path}")
    return _csv(path, columns, weights)


def _frame(frame: Any, size: int, columns: Sequence[str] | None, weights: str | None) -> Table:
    available = [str(name) for name in frame.columns]
    kinds = {name: (dtype.kind in "iufb", str(dtype)) for name, dtype in zip(available, frame.dtypes)}
    names, read = _choose(available, kinds, columns, weights)
    positions = [available.index(name) for name in read]

    def numbers(position: int, start: int) -> np.ndarray:
        return frame.iloc[start : start + size, position].to_numpy(dtype=np.float64, na_value=np.nan)

    def blocks() -> Iterator[Block]:
        for start in range(0, len(frame), size):
            yield _split([numbers(position, start) for position in positions], weights)

    check(len(frame) > 0, "source", "a table with at least one row", "none")
    return Table(blocks, len(frame), names)


def _parquet(path: Path, size: int, columns: Sequence[str] | None, weights: str | None) -> Table:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        names, read = _choose(file.schema_arrow.names, _arrow_kinds(file.schema_arrow), columns, weights)
        num_rows = file.metadata.num_rows

    def blocks() -> Iterator[Block]:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=size, columns=read):
                yield _split([_arrow_numbers(batch.column(name)) for name in read], weights)

    check(num_rows > 0, "source", "a table with at least one row", f"none in {path}")
    return Table(blocks, num_rows, names)


def _csv(path: Path, columns: Sequence[str] | None, weights: str | None) -> Table:
    import pyarrow
    from pyarrow import csv

    try:
        with csv.open_csv(path) as reader:
            schema = reader.schema
    except pyarrow.ArrowInvalid as error:
        raise ValueError(
            f"`source` must be a CSV file with a header and rows; got {path}: {error}."
        ) from error
    names, read = _choose(schema.names, _arrow_kinds(schema), columns, weights)
    # the first megabyte cannot know that a column of whole numbers holds a fraction further down
    types = {n: schema.field(n).type for n in read}
    wide = {n: t if pyarrow.types.is_boolean(t) else pyarrow.float64() for n, t in types.items()}
    options = csv.ConvertOptions(column_types=wide, include_columns=read)

    def blocks() -> Iterator[Block]:
        try:
            with csv.open_csv(path, convert_options=options) as reader:
                for batch in reader:
                    yield _split([_arrow_numbers(batch.column(name)) for name in read], weights)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"`source` must hold numbers in the columns {read}; got {error}.") from error

    return Table(blocks, None, names)


def _choose(
    available: list[str],
    kinds: dict[str, tuple[bool, str]],
    columns: Sequence[str] | None,
    weights: str | None,
) -> tuple[tuple[str, ...], list[str]]:
    """The columns of the rows, and those with the column of weights; each exists and holds numbers."""
    must = "a table whose columns have different names"
    check(len(set(available)) == len(available), "source", must, available)
    names = tuple(columns) if columns is not None else tuple(name for name in available if name != weights)
    check(len(names) > 0, "columns", "at least one column", "none")
    read = [*names, weights] if weights is not None else [*names]
    for name in read:
        where = "weights" if name == weights else "columns"
        check(name in available, where, f"among the columns {available}", repr(name))
        numeric, words = kinds[name]
        fix = "Leave it out with `columns=[...]`, or turn its names into codes."
        check(numeric, f"source[{name!r}]", "a column of numbers", words, fix, TypeError)
    return names, read


def _split(arrays: list[np.ndarray], weights: str | None) -> Block:
    """One matrix of the columns, and the weights apart."""
    if weights is None:
        return [np.stack(arrays, axis=1)]
    return [np.stack(arrays[:-1], axis=1), arrays[-1]]


def _arrow_kinds(schema: Any) -> dict[str, tuple[bool, str]]:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return {field.name: (any(test(field.type) for test in tests), str(field.type)) for field in schema}


def _arrow_numbers(column: Any) -> np.ndarray:
    import pyarrow

    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def _check_numeric(name: str, dtype: Any) -> None:
    numeric = jnp.issubdtype(dtype, np.number) or dtype == np.bool_
    check(numeric, name, "numbers", f"dtype {dtype}", "Turn names into codes with `label_codes`.", TypeError)
