r"""Rows on many machines: sums over all of them, made where they are.

Sum.         $\sum_i w_i\,t(x_i)$ within each partition in chunks of one shape, without loss to rounding
             (`core.sums`), then over a tree of partitions with what each part lost. The same rows in memory,
             in chunks or from a stream give the same value to rounding of the terms; the same partitions give
             it to the last bit, whatever the cluster does.
Memory.      Of a worker: its partitions (held, unless `persist=False`) and one chunk of intermediate values.
Cost.        One pass over the rows for each sum; statistics travel up the tree, rows never do.
"""

import functools
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from tractable.core import sums
from tractable.core.checks import check, check_count
from tractable.core.chunks import bucket_size, chunks
from tractable.scale.partitions import Block, partitions_of
from tractable.scale.places import Place, place_of

__all__ = ["DistributedRows", "Foldable"]


@runtime_checkable
class Foldable(Protocol):
    """Rows whose statistics can be joined, partition by partition."""

    def fold(self, function: Callable[..., Any], add: Callable[[Any, Any], Any] | None = None) -> Any: ...


class DistributedRows:
    """The rows of a Dask collection, for algorithms that ask for sums (`core.interfaces.HasTotals`).

    `chunk` rows at a time are computed with, `fan_in` parts are joined at a time. With `persist` partitions
    stay in the memory of the workers between passes; by default they do on a cluster, and are read again by
    threads.
    """

    reiterable = True

    def __init__(
        self,
        collection: Any,
        weights: Any = None,
        *,
        client: Any = None,
        chunk: int = 16384,
        fan_in: int = 16,
        persist: bool | None = None,
    ):
        self.chunk = bucket_size(check_count("chunk", chunk))
        self.fan_in = check_count("fan_in", fan_in, least=2)
        self.place: Place = client if isinstance(client, Place) else place_of(client)
        blocks = partitions_of(collection, weights)
        check(len(blocks) > 0, "collection", "at least one partition", "none")
        self.num_partitions = len(blocks)
        self.blocks = blocks if persist is False else self.place.hold(blocks)

    def total(self, function: Callable[[Any, Any], Any]) -> Any:
        """The sum of `function(rows, weights)` over all rows, compiled once on each worker.

        As with `core.chunks.sum_over_chunks`, a function that carries arrays is a method of a module.
        """
        leaf = functools.partial(_sum, chunk=self.chunk)
        found = self._reduce(leaf, function, _join_sums)
        return found.value

    def fold(self, function: Callable[..., Any], add: Callable[[Any, Any], Any] | None = None) -> Any:
        """`function(*arrays, weights)` of each partition, on the host, joined by `add` (or by `+`).

        Weights are None where there are none.
        """
        return self._reduce(_statistics, function, functools.partial(_join, add=add))

    def close(self) -> None:
        """Let go of the partitions, and of a client that was opened here."""
        self.blocks = []
        self.place.close()

    def __enter__(self) -> "DistributedRows":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _reduce(self, leaf: Callable, function: Callable, join: Callable) -> Any:
        found = self.place.reduce(leaf, function, self.blocks, join, self.fan_in)
        check(found is not None, "collection", "at least one row", "none in any partition")
        return found


def _sum(function: Callable, block: Block, *, chunk: int) -> sums.Sum | None:
    """The sum over one partition; runs where it is. An empty one adds nothing."""
    if block.num_rows == 0:
        return None
    size = min(chunk, bucket_size(block.num_rows))
    rows = jax.tree.map(np.ascontiguousarray, block.rows)
    kind = (type(getattr(function, "__self__", function)), size, tuple(a.shape[1:] for a in block.arrays))
    # threads that begin together would each compile the same program: the first goes alone
    with nullcontext() if kind in _begun else _first:
        found = sums.sum_parts(function, chunks(rows, size, block.weights)).as_numpy()
        _begun.add(kind)
        return found


_first = threading.Lock()
_begun: set[tuple] = set()


def _statistics(function: Callable, block: Block) -> Any:
    absent = block.weights is not None and not np.any(block.weights)  # weights of zero: no rows at all
    if block.num_rows == 0 or absent:
        return None
    try:
        return function(*block.arrays, block.weights)
    except (ValueError, TypeError) as error:
        raise type(error)(f"In partition {block.place}: {error}") from error


def _join_sums(parts: list) -> Any:
    some = [part for part in parts if part is not None]
    return sums.join(some) if some else None


def _join(parts: list, add: Callable | None) -> Any:
    some = [part for part in parts if part is not None]
    return functools.reduce(add or _plus, some) if some else None


def _plus(first: Any, second: Any) -> Any:
    return first + second
