r"""Rows for mini-batches: tables in memory, their orders, held-out rows in slabs, the pace of pieces.

Dtype.       Where all parameters are in single precision, the floats among the rows are cast to it, once.
Order.       Drawn on the host from the key of the epoch (and the number of the chunk), where a permutation
             costs a tenth of a sort by random numbers, and nothing is compiled.
Cost.        One permutation for each epoch.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_finite, to_device
from tractable.core.chunks import bucket_size, pad_rows
from tractable.core.host_random import generator
from tractable.core.types import Array
from tractable.optim.batch_state import BatchState, Table

__all__ = ["WINDOW", "Orders", "Pace", "cast_rows", "held_out", "row_table", "split_floats"]

PIECE = 0.08  # seconds: less than what `core.programs` takes for long
WINDOW = 64  # epochs that one call may end
_SLAB = 256  # rows of the held-out loss at a time


class Orders:
    """The order of the rows of a table in each epoch, by the words of its key; the last ones are kept."""

    def __init__(self, table: Table, each: int, shuffle: bool):
        weights = np.asarray(table.weights)
        self.there, self.shuffle = np.flatnonzero(weights > 0).astype(np.int32), shuffle
        self.size = -(-weights.size // each) * each
        self._kept: dict[tuple[int, ...], np.ndarray] = {}

    def __call__(self, word: np.ndarray, epoch: int, *part: int) -> np.ndarray:
        """Rows that are present, then one of them as often as it takes to fill the batches."""
        if (epoch, *part) not in self._kept:
            while len(self._kept) >= WINDOW:
                del self._kept[next(iter(self._kept))]
            order = generator(word, *part).permutation(self.there) if self.shuffle else self.there
            filled = np.full(self.size, order[0] if order.size else 0, np.int32)
            filled[: order.size] = order
            self._kept[epoch, *part] = filled
        return self._kept[epoch, *part]


class Pace:
    """How many updates a call should make, by how long the last ones took."""

    def __init__(self) -> None:
        self.count, self.is_new = 1, True

    def updates(self, state: BatchState) -> int:
        """One at the beginning: its loss is that by which the run is known."""
        return self.count if int(state.step) else 1

    def saw(self, updates: int, seconds: float) -> None:
        """The first call is compiled, and tells nothing."""
        if self.is_new:
            self.is_new, self.count = False, 8
        elif updates >= self.count or seconds > PIECE:
            wanted = self.count * PIECE / max(seconds, 1e-6)
            self.count = int(np.clip(wanted, 1, min(8 * self.count, 2**30)))


def split_floats(name: str, start: Any) -> tuple[Any, Any]:
    """The floats of the start, and everything else; a plain number in a module is an option of it."""

    def is_module(node: Any) -> bool:
        return isinstance(node, eqx.Module)

    def chosen(node: Any) -> Any:
        if is_module(node):  # such as the rate of a dropout, which no gradient may move
            return jax.tree.map(eqx.is_inexact_array, node)
        return eqx.is_inexact_array_like(node)

    params, rest = eqx.partition(start, jax.tree.map(chosen, start, is_leaf=is_module))
    params = jax.tree.map(lambda leaf: as_float(name, leaf), params)
    leaves = jax.tree.leaves(params)
    check(bool(leaves), name, "at least one array of floats", "none")
    for leaf in leaves:
        check_finite(name, leaf)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), params), rest


def held_out(data: Any, single: bool) -> Table:
    """Held-out rows in slabs."""
    table = row_table(data, None, 1, single, "validation")
    size = min(_SLAB, len(table.weights))
    extra = -len(table.weights) % size

    def slabs(leaf: Array, edge: str) -> Array:
        padded = np.pad(np.asarray(leaf), [(0, extra), *[(0, 0)] * (leaf.ndim - 1)], mode=edge)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return jnp.asarray(padded.reshape(-1, size, *leaf.shape[1:]))

    rows = jax.tree.map(lambda leaf: slabs(leaf, "edge"), table.rows)
    return Table(rows, slabs(table.weights, "constant"), table.mean_weight, table.num_present)


def row_table(data: Any, weights: Any, batch: int, single: bool, name: str = "data") -> Table:
    data = np.asarray(data) if isinstance(data, list) else data
    leaves = jax.tree.leaves(data)
    num_rows = np.shape(leaves[0])[0] if leaves and np.ndim(leaves[0]) else 0
    check(num_rows > 0, name, "at least one row", "none")
    size = -(-bucket_size(num_rows) // batch) * batch
    rows, padded = pad_rows(cast_rows(data, single), weights, size=size)
    present = np.asarray(padded)[np.asarray(padded) > 0]
    check(present.size > 0, "weights", "positive for at least one row", "zeros")
    padded = to_device(np.asarray(padded, np.float32)) if single else padded
    mean = to_device(np.asarray(present.mean(), padded.dtype))
    return Table(rows, padded, mean, to_device(np.asarray(present.size, np.int32)))


def cast_rows(rows: Any, single: bool) -> Any:
    """Floats in the precision of the parameters."""

    def narrow(leaf: Any) -> Any:
        is_double = getattr(leaf, "dtype", None) == np.float64
        return leaf.astype(np.float32) if single and is_double else leaf

    return jax.tree.map(narrow, rows)
