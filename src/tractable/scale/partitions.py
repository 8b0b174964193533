r"""Partitions: the rows of a Dask collection as blocks of arrays, one for each partition, not read yet.

Collections. Arrays (rows along the first axis), data frames and series (numbers; missing values NaN), bags
             (an item is a row, a number, a sequence, or a tuple of the parts of a row), and lists of delayed
             blocks. Sequences of several lengths become one padded array and their lengths.
             A tuple such as `(X, y)` is several of them that are cut alike.
Weights.     One for each row, cut as the rows are, or the name of a column of a data frame.
Dask.        It is an extra: `pip install 'tractable[scale]'`. Nothing here imports it before it is needed.
Cost.        None: a block is read where and when it is used.
"""

import importlib
from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check

__all__ = ["Block", "is_collection", "partitions_of", "required"]

_KINDS = "a Dask array, bag, data frame or series, a list of delayed blocks, or a tuple of these"


class Block(NamedTuple):
    """The rows of one partition: one array, or several of one length, and their weights if there are any."""

    arrays: tuple[np.ndarray, ...]
    weights: np.ndarray | None
    single: bool
    place: int

    @property
    def rows(self) -> Any:
        return self.arrays[0] if self.single else self.arrays

    @property
    def num_rows(self) -> int:
        return len(self.arrays[0])


def required(name: str) -> Any:
    """A module of Dask, or an error that names the extra that brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        said = f"`{name}` must be installed to fit Dask collections. Run `pip install 'tractable[scale]'`."
        raise ImportError(said) from error


def is_collection(data: Any) -> bool:
    """Whether Dask holds the rows, or some of their parts; Dask need not be installed to ask.

    >>> is_collection(np.zeros(3))
    False
    """
    if isinstance(data, tuple):
        return any(map(is_collection, data))
    if isinstance(data, list):
        return len(data) > 0 and all(_is_delayed(part) for part in data)
    return hasattr(type(data), "__dask_graph__")


def partitions_of(collection: Any, weights: Any = None) -> list[Any]:
    """One delayed `Block` for each partition, in the order of the rows."""
    delayed = required("dask").delayed
    single = not isinstance(collection, tuple)
    parts = [collection] if single else list(collection)
    for part in parts:
        check(is_collection(part), "collection", _KINDS, type(part).__name__, error=TypeError)
    named = isinstance(weights, str)
    if named:
        known = [str(name) for name in getattr(parts[0], "columns", [])]
        check(weights in known, "weights", f"a column of the data frame ({known})", repr(weights))
        weights, parts[0] = parts[0][weights], parts[0].drop(columns=weights)
    whole = [*parts, *([] if weights is None else [weights])]
    pieces = [_pieces(part) for part in _aligned(whole)]
    counts = [len(each) for each in pieces]
    fix = "Rechunk or repartition them alike."
    check(len(set(counts)) == 1, "collection", "parts of as many partitions as each other", counts, fix)
    block = delayed(_block, pure=False)
    return [block(list(each), single, weights is not None, i) for i, each in enumerate(zip(*pieces))]


def _is_delayed(part: Any) -> bool:
    return type(part).__module__.startswith("dask.delayed") or type(part).__name__ == "Future"


def _aligned(parts: list) -> list:
    """Arrays in chunks of rows, all cut as the first one is, where the sizes are known."""
    arrays = [part for part in parts if hasattr(part, "rechunk")]
    if not arrays:
        return parts
    first = arrays[0].chunks[0]
    lengths = {part.shape[0] for part in arrays if not np.isnan(part.shape[0])}
    check(len(lengths) <= 1, "collection", "arrays with one common number of rows", sorted(lengths))
    known = not np.isnan(first).any() and len(arrays) == len(parts)

    def cut(part: Any) -> Any:
        if not hasattr(part, "rechunk"):
            return part
        other = known and not np.isnan(part.shape[0]) and part.chunks[0] != first
        return part.rechunk({0: first if other else part.chunks[0], **dict.fromkeys(range(1, part.ndim), -1)})

    return [cut(part) for part in parts]


def _pieces(part: Any) -> list[Any]:
    if isinstance(part, list):
        return part
    if hasattr(getattr(part, "dtypes", None), "items"):  # a frame; a series has one dtype
        kinds = {str(name): np.dtype(getattr(dtype, "numpy_dtype", dtype)).kind if _plain(dtype) else "O"
                 for name, dtype in part.dtypes.items()}  # fmt: skip
        text = [name for name, kind in kinds.items() if kind not in "iufb"]
        fix = "Choose columns of numbers, or encode the others first."
        check(not text, "collection", "columns of numbers", f"the column {text[:1]}", fix)
    found = part.to_delayed()
    return list(np.ravel(np.asarray(found, object))) if isinstance(found, np.ndarray) else list(found)


def _plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) or hasattr(dtype, "numpy_dtype")


def _block(pieces: list, single: bool, weighted: bool, place: int) -> Block:
    """The arrays of one partition; runs where the partition is."""
    weights = np.asarray(pieces.pop()) if weighted else None
    found = [_arrays(piece) for piece in pieces]
    arrays = tuple(array for each in found for array in each)
    single = single and len(arrays) == 1
    lengths = [len(array) for array in (*arrays, *([] if weights is None else [weights]))]
    check(len(set(lengths)) == 1, f"partition {place}", "parts of one number of rows", lengths)
    return Block(arrays, weights, single, place)


def _arrays(piece: Any) -> tuple[np.ndarray, ...]:
    """A chunk of an array, a frame, the items of a bag, or what a delayed block gives."""
    if hasattr(piece, "columns"):  # of a frame
        return (piece.to_numpy(dtype=np.float64, na_value=np.nan),)
    if isinstance(piece, tuple):
        return tuple(np.asarray(part) for part in piece)
    if isinstance(piece, np.ndarray) or hasattr(piece, "to_numpy"):
        return (np.asarray(piece),)
    items = list(piece)
    if items and isinstance(items[0], tuple):
        return tuple(np.asarray(part) for part in zip(*items))
    lengths = np.array([np.shape(item)[0] if np.ndim(item) else 0 for item in items])
    return (np.asarray(items),) if len(set(lengths.tolist())) < 2 else (_padded(items, lengths), lengths)


def _padded(items: list, lengths: np.ndarray) -> np.ndarray:
    """Sequences of several lengths as one array, with zeros behind their ends."""
    parts = [np.asarray(item) for item in items]
    shapes = sorted({part.shape[1:] for part in parts})
    check(len(shapes) == 1, "collection", "sequences whose rows have one shape", shapes)
    whole = np.zeros((len(parts), int(lengths.max()), *shapes[0]), np.result_type(*parts))
    for row, part in zip(whole, parts):
        row[: len(part)] = part
    return whole
