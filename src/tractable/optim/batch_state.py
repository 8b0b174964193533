"""What a run of mini-batches holds: its rows, its players, and where it stands, inside of an epoch too.

Cost.        The parameters, what the methods remember of them, and one copy for each of average and best.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Int, Scalar
from tractable.optim.gradient import FirstOrder

__all__ = ["RUNNING", "BatchState", "Player", "Table"]

RUNNING = -1  # the code of a run that goes on


class Table(Module):
    """Rows in memory, a chunk of them or slabs of held-out ones, with what a batch must know of all."""

    rows: Any
    weights: Float[Array, "..."]
    mean_weight: Scalar
    num_present: Int[Array, ""]


class BatchState(Module):
    """Where a run stands, inside of an epoch too."""

    params: tuple
    memory: tuple
    average: Any
    best: Any
    sums: Float[Array, " players"]  # of the losses of this epoch, with the rows behind them
    seen: Float[Array, " players"]
    opening: Float[Array, " players"]  # the losses of the very first batch: by them a checkpoint is known
    step: Int[Array, ""]  # updates so far
    epoch: Int[Array, ""]  # epochs behind
    turn: Int[Array, ""]  # updates of this epoch
    place: Int[Array, ""]  # updates of this chunk
    part: Int[Array, ""]  # chunks behind in this epoch
    value: Scalar  # the mean of the last epoch
    first: Scalar  # that of the first: what later ones have fallen from
    lowest: Scalar  # the lowest loss on held-out rows, its epoch, and the epochs since
    best_epoch: Int[Array, ""]
    waited: Int[Array, ""]
    code: Int[Array, ""]
    mark: Array  # of the data and the options, so that a checkpoint of others is refused

    @staticmethod
    def begin(params: tuple, memory: tuple, average: Any, best: Any, mark: Array) -> "BatchState":
        """Nothing done yet."""
        blank, zero = jnp.full(len(params), jnp.nan), jnp.asarray(0, jnp.int32)
        nan, none = jnp.asarray(jnp.nan), jnp.zeros(len(params))
        return BatchState(
            params, memory, average, best, none, none, blank, zero, zero, zero, zero, zero, nan, nan,
            jnp.asarray(jnp.inf), zero, zero, jnp.asarray(RUNNING, jnp.int32), mark,
        )  # fmt: skip

    def set(self, **changes: Any) -> "BatchState":
        """With other values in some fields."""
        names = list(changes)
        return eqx.tree_at(
            lambda state: [getattr(state, name) for name in names], self, [changes[name] for name in names],
            is_leaf=lambda leaf: leaf is None,
        )  # fmt: skip


class Player(Module):
    """One who moves: by which method, whose loss, at every so manyth update."""

    method: FirstOrder
    loss: Callable[..., Any] = field(static=True)
    penalty: Callable[[Any], Any] | None = field(static=True)
    every: int = field(static=True, default=1)
    words: tuple[str, ...] = field(static=True, default=())
