r"""Rows in shapes that repeat: padded to bucket sizes, or streamed in chunks of one size.

Padding.     Rows that only fill a shape have weight zero and repeat the last row, so that whatever is finite
             on the data is finite on them. A sum $\sum_i w_i\,t(x_i)$ does not see them.
Buckets.     Powers of two up to 4096 rows, where compiling costs far more than computing; above, also 1.5
             times them, so that padding adds at most half, with two programs for each doubling of the rows.
Chunks.      An iterable of `(rows, weights)` of one shape over arrays, memory maps, Parquet, CSV and NumPy
             files, data frames and generators; no file is in memory as a whole. Missing values stay NaN.
Cost.        One program for all chunks; memory for one chunk.
Sums.        Over chunks they are those of `core.sums`, which lose nothing to rounding.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_nonnegative, is_concrete, to_device
from tractable.core.sources import Block, array_blocks, item_blocks, open_table
from tractable.core.sums import sum_parts
from tractable.core.types import Array, ArrayLike, Float

__all__ = ["Chunks", "bucket_size", "chunks", "pad_rows", "sum_over_chunks", "weighted_rows"]

_SMALL = 4096


class Chunks:
    """An iterable of equally shaped `(rows, weights)`.

    `reiterable` says whether it can be gone through again, `num_rows` is None where only a full pass can
    tell, and `columns` names the columns of a table.
    """

    def __init__(self, blocks: Callable[[], Iterable[Block]], size: int, single: bool, reiterable: bool,
                 num_rows: int | None = None, columns: tuple[str, ...] | None = None):  # fmt: skip
        self.size, self.reiterable, self.num_rows, self.columns = size, reiterable, num_rows, columns
        self._blocks, self._single, self._used = blocks, single, False

    def __iter__(self) -> Iterator[tuple[Any, Float[Array, " size"]]]:
        fix = "Pass a function that makes the generator, to go through it again."
        check(
            self.reiterable or not self._used, "source", "an iterator that is not used up", "one that is", fix
        )
        self._used = True
        empty = True
        for *arrays, weights in _regroup(self._blocks(), self.size):
            empty = False
            rows = arrays[0] if self._single else tuple(arrays)
            yield pad_rows(rows, weights, size=self.size)
        check(not empty, "source", "at least one row", "none")

    def total(self, function: Callable[[Any, Array], Any]) -> Any:
        """The sum of `function(rows, weights)` over all rows, in one pass."""
        return sum_over_chunks(function, self)


def bucket_size(num_rows: int) -> int:
    """The number of rows, from 8 up, to which `num_rows` rows are padded.

    >>> [bucket_size(n) for n in (1, 9, 1000, 5000, 7000)]
    [8, 16, 1024, 6144, 8192]
    """
    size = max(8, 1 << (check_count("num_rows", num_rows) - 1).bit_length())
    return size * 3 // 4 if size > _SMALL and num_rows <= size * 3 // 4 else size


def pad_rows(rows: Any, weights: ArrayLike | None = None, *, size: int | None = None) -> tuple[Any, Array]:
    """`rows` (an array, or several of one length) with copies of the last row, and weights that hide them.

    >>> rows, weights = pad_rows(np.arange(5.0), size=8)
    >>> weights.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    """
    num_rows = _common_length(rows)
    size = bucket_size(num_rows) if size is None else check_count("size", size, least=num_rows)
    single = all(getattr(leaf, "dtype", None) == np.float32 for leaf in jax.tree.leaves(rows))
    weights = _as_weights(weights, num_rows, np.float32 if single else jnp.result_type(float))
    return jax.tree.map(lambda leaf: _extend(leaf, size, -1), rows), _extend(weights, size, None)


def weighted_rows(rows: Any, weights: ArrayLike | None = None) -> tuple[Any, np.ndarray]:
    """`rows` on the host as they are, and one checked weight for each: for work that is not compiled."""
    num_rows = _common_length(rows)
    return jax.tree.map(np.asarray, rows), _as_weights(weights, num_rows, jnp.result_type(float))


def chunks(
    source: Any, size: int, weights: ArrayLike | str | None = None, columns: Sequence[str] | None = None
) -> Chunks:
    """Chunks of `size` rows over `source`, the last one padded with rows of weight zero.

    `source` is an array, a tuple of arrays of one length, a memory map, a data frame, the path of a Parquet,
    CSV or NumPy file, a list or generator of rows or of blocks of rows, or a function that makes such a
    generator (so that it can be read more than once). `columns` chooses and orders the columns of a table;
    `weights` is an array with one weight for each row, or the name of a column.
    """
    size = check_count("size", size)
    if isinstance(source, str | Path) and Path(source).suffix == ".npy":
        source = np.load(source, mmap_mode="r", allow_pickle=False)
    if isinstance(source, str | Path) or hasattr(source, "iloc"):
        named = weights if isinstance(weights, str) else None
        table = open_table(source, size, columns, named)
        blocks = table.blocks if named is not None else _attach(table.blocks, weights)
        return Chunks(blocks, size, True, True, table.num_rows, table.columns)
    check(columns is None, "columns", "left out where the source is not a table", columns)
    check(not isinstance(weights, str), "weights", "an array where the source is not a table", repr(weights))
    if isinstance(source, np.ndarray | jax.Array | tuple):
        blocks, num_rows = array_blocks(source if isinstance(source, tuple) else (source,), size)
        shape = (num_rows,) if weights is None else np.shape(weights)
        check(shape == (num_rows,), "weights", f"of shape ({num_rows},), one per row", f"shape {shape}")
        return Chunks(_attach(blocks, weights), size, not isinstance(source, tuple), True, num_rows)
    make: Callable[[], Any] = source if callable(source) else lambda: source
    reads = callable(source) or isinstance(source, Iterable)
    check(reads, "source", "an array, a table, a path or an iterable of rows", type(source).__name__)
    reiterable = callable(source) or not isinstance(source, Iterator)
    return Chunks(_attach(lambda: item_blocks(make()), weights), size, True, reiterable)


def sum_over_chunks(function: Callable[[Any, Array], Any], parts: Iterable[tuple[Any, Array]]) -> Any:
    """The sum of `function(rows, weights)` over chunks, compiled once and added in float64 without loss.

    A function that carries arrays should be a module or a method of one (`model.e_step`): other values of its
    arrays then use the same program. A new `lambda` is compiled anew. A method of a module with
    `on_host = True` is not compiled: it is given NumPy arrays.
    """
    return sum_parts(function, parts).value


def _common_length(rows: Any) -> int:
    """The number of rows that all arrays have."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(rows)]
    lengths = {shape[0] if shape else -1 for shape in shapes}
    check(len(lengths) == 1 and -1 not in lengths, "rows", "arrays with one common number of rows", shapes)
    num_rows = lengths.pop()
    check(num_rows > 0, "rows", "at least one row", "none")
    return num_rows


def _extend(x: Any, size: int, fill: int | None) -> Array:
    """`x` with more rows: copies of the row `fill`, or zeros. In NumPy if it has values: nothing compiles."""
    xp = np if is_concrete(x) else jnp
    x = xp.asarray(x)
    extra = size - x.shape[0]
    shape = (extra, *x.shape[1:])
    tail = xp.zeros(shape, x.dtype) if fill is None else xp.broadcast_to(x[fill:], shape)
    if extra and xp is np:
        return to_device(np.concatenate([x, tail]))  # nobody else has it: it need not be copied
    return jnp.asarray(xp.concatenate([x, tail]) if extra else x)


def _as_weights(weights: Any, num_rows: int, dtype: Any) -> Any:
    if weights is None:
        return np.ones(num_rows, dtype)
    if not is_concrete(weights):
        return jnp.asarray(weights, dtype)
    values = np.asarray(weights, dtype)
    must = f"of shape ({num_rows},), one per row"
    check(values.shape == (num_rows,), "weights", must, f"shape {values.shape}")
    check_nonnegative("weights", values)
    return values


def _attach(blocks: Callable[[], Iterable[Block]], weights: Any) -> Callable[[], Iterator[Block]]:
    """Blocks with their weights as the last array; given weights are used up row by row."""
    given = None if weights is None else _as_weights(weights, np.size(weights), jnp.result_type(float))
    count = -1 if given is None else len(given)

    def attached() -> Iterator[Block]:
        start = 0
        for block in blocks():
            stop = start + len(block[0])
            enough = given is None or stop <= count
            check(enough, "weights", f"as many as there are rows (at least {stop})", count)
            yield [*block, np.ones(stop - start) if given is None else given[start:stop]]
            start = stop
        check(given is None or start == count, "weights", f"as many as there are rows ({start})", count)

    return attached


def _regroup(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """The same rows in blocks of `size`, the last one smaller."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        held.append(block)
        count += len(block[0])
        if count >= size:
            joined, whole = _join(held), count // size * size
            yield from ([array[i : i + size] for array in joined] for i in range(0, whole, size))
            held, count = [[array[whole:] for array in joined]], count - whole
    if count:
        yield _join(held)


def _join(blocks: list[Block]) -> Block:
    return blocks[0] if len(blocks) == 1 else [np.concatenate(parts) for parts in zip(*blocks)]
