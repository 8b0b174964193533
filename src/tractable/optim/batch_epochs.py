r"""Epochs of mini-batches, driven from Python: rows in memory or in chunks, pieces of a tenth of a second.

Pieces.      A call into compiled code makes as many updates as fit into about `PIECE` seconds: many short
             epochs or a part of a long one. How many that is changes no bit of the result; Ctrl-C and
             checkpoints need not wait for the end of an epoch.
Not finite.  A piece in which a loss or a parameter was not finite is done again up to the batch before it.
Cost.        A few hundred microseconds for each piece.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, to_device
from tractable.core.chunks import Chunks, chunks
from tractable.core.fingerprint import digest
from tractable.core.iterate import Status
from tractable.core.programs import light, program
from tractable.core.types import Array, ArrayLike
from tractable.optim.batch_rows import WINDOW, Orders, Pace, cast_rows, row_table
from tractable.optim.batch_state import RUNNING, BatchState, Table
from tractable.optim.batch_updates import Rule

__all__ = ["Epochs", "MemoryEpochs", "StreamedEpochs", "fingerprint", "first_state"]  # fmt: skip

_ORDERED = 1 << 18  # rows whose places go with one call
_TOLD = bool | int | float | str

Ahead = Callable[[int], Any]


class MemoryEpochs:
    """Epochs over rows in memory."""

    def __init__(self, rule: Rule, data: Any, weights: ArrayLike | None, single: bool):
        self.rule, self.pace = rule, Pace()
        self.table = row_table(data, weights, rule.batch, single)
        self.orders = Orders(self.table, rule.batch * rule.accumulate, rule.shuffle)
        self.window = int(np.clip(_ORDERED // self.orders.size, 1, WINDOW))
        self._sent: tuple[tuple[int, int], Array] | None = None

    @property
    def told(self) -> Any:
        """What a checkpoint must agree on, beside the rule."""
        return self.table

    def __call__(self, state: BatchState, ahead: Ahead, left: int) -> tuple[BatchState, np.ndarray]:
        words, most, first = ahead(self.window), self.pace.updates(state), int(state.epoch)
        orders = self._orders(words, first, min(left, self.window))
        begun, before = time.monotonic(), int(state.step)

        def made(updates: int) -> tuple[BatchState, np.ndarray]:
            limits = to_device(np.array([min(left, self.window), updates], np.int32))
            after, done, records = _epochs(self.rule, state, self.table, orders, words, limits)
            return after, np.asarray(records)[: int(done)]

        after, records = made(most)
        self.pace.saw(int(after.step) - before, time.monotonic() - begun)
        if int(after.code) == int(Status.not_finite):
            after, records = _before_the_fault(made, int(after.step) - before)
            records = np.concatenate([records, np.full((1, records.shape[1]), np.nan)])
        return after, records

    def opening(self, state: BatchState, word: np.ndarray) -> Array:
        """The losses of the first batch, computed anew by the same program."""
        words = np.repeat(word[None], self.window, axis=0)
        orders, limits = self._orders(words, 0, 1), to_device(np.array([1, 1], np.int32))
        return _epochs(self.rule, state, self.table, orders, words, limits)[0].opening

    def _orders(self, words: np.ndarray, first: int, count: int) -> Array:
        """Those of `count` epochs from `first` on, in a window; they are sent once, however many pieces."""
        if self._sent is None or self._sent[0] != (first, count):
            table = np.zeros((self.window, self.orders.size), np.int32)
            for i in range(count):
                table[i] = self.orders(words[i], first + i)
            self._sent = ((first, count), to_device(table))
        return self._sent[1]


class StreamedEpochs:
    """Epochs over chunks, each shuffled by itself."""

    def __init__(self, rule: Rule, data: Any, chunk: int | None, weights: Any, single: bool):
        parts = data if isinstance(data, Chunks) else chunks(data, chunk or 1, weights)
        fix = "Every epoch reads the rows: pass a function that makes the generator."
        check(parts.reiterable, "data", "readable more than once", "a one-shot iterator", fix)
        fits = parts.size % rule.batch == 0
        check(
            fits, "batch", f"a divisor of the chunk size, {parts.size}", rule.batch, "Choose another chunk."
        )
        self.rule, self.parts, self.single, self.pace = rule, parts, single, Pace()
        present = [np.asarray(part)[np.asarray(part) > 0] for _, part in parts]
        self.num_parts = len(present)
        every = np.concatenate(present)
        check(every.size > 0, "weights", "positive for at least one row", "zeros")
        self.mean_weight = every.mean()
        self._open: tuple[int, Iterator, Any] | None = None

    @property
    def told(self) -> Any:
        """What a checkpoint must agree on, beside the rule: chunks are known by what they do."""
        return ()

    def __call__(self, state: BatchState, ahead: Ahead, left: int) -> tuple[BatchState, np.ndarray]:
        table, word, most = self._table(int(state.part)), ahead(1)[0], self.pace.updates(state)
        order = to_device(self.orders(word, int(state.epoch), int(state.part)))
        begun, before = time.monotonic(), int(state.step)

        def made(updates: int) -> tuple[BatchState, np.ndarray]:
            most = to_device(np.asarray(updates, np.int32))
            return _part(self.rule, state, table, order, word, most), np.zeros((0, 1))

        after, none = made(most)
        self.pace.saw(int(after.step) - before, time.monotonic() - begun)
        if int(after.code) == int(Status.not_finite):
            after, _ = _before_the_fault(made, int(after.step) - before)
            return after, np.full((1, self.rule.width), np.nan)
        each = self.rule.batch * self.rule.accumulate
        if int(after.place) * each >= int(table.num_present):
            part = jnp.asarray(int(after.part) + 1, jnp.int32)
            after = after.set(place=jnp.zeros_like(after.place), part=part)
        if int(after.part) < self.num_parts:
            return after, none
        after, record = _close(self.rule, after)
        return after, np.asarray(record)[None]

    def opening(self, state: BatchState, word: np.ndarray) -> Array:
        """The losses of the first batch, computed anew by the same program."""
        table, most = self._table(0), jnp.asarray(1, jnp.int32)
        order = jnp.asarray(self.orders(word, 0, 0))
        return _part(self.rule, state, table, order, word, most).opening

    def _table(self, part: int) -> Table:
        """The chunk of that number: at hand, the next one, or (where a run goes on) found from the start."""
        if self._open is not None and self._open[0] == part:
            return self._open[2]
        if self._open is None or part < self._open[0]:
            self._open = (-1, iter(self.parts), self._blank)
        at, source, found = self._open
        while at < part:
            rows, weights = next(source)
            at += 1
            found = rows, weights
        rows, weights = found
        weights = weights.astype(np.float32) if self.single else weights
        present = jnp.asarray(int((np.asarray(weights) > 0).sum()), jnp.int32)
        mean = jnp.asarray(self.mean_weight, weights.dtype)
        self._open = (at, source, Table(cast_rows(rows, self.single), weights, mean, present))
        self.orders = Orders(self._open[2], self.rule.batch * self.rule.accumulate, self.rule.shuffle)
        return self._open[2]

    _blank: Any = None


Epochs = MemoryEpochs | StreamedEpochs


@program
def _epochs(
    rule: Rule, state: BatchState, table: Table, orders: Array, words: Any, limits: Array
) -> tuple:  # fmt: skip
    """At most `limits[0]` epochs and `limits[1]` updates: the state, the epochs that ended, their records."""

    def go_on(carry: tuple) -> Array:
        now, done, left, _ = carry
        return (done < limits[0]) & (left > 0) & (now.code == RUNNING)

    def piece(carry: tuple) -> tuple:
        now, done, left, records = carry
        key = jr.wrap_key_data(words[done], impl=rule.implementation)
        after = rule.advance(now, table, orders[done], key, left)
        left = left - (after.turn - now.turn)
        over = (after.place >= rule.num_updates(table)) & (after.code == RUNNING)
        blank = jnp.zeros(records.shape[1:])
        after, record = jax.lax.cond(over, lambda: rule.close(after), lambda: (after, blank))
        return after, done + over.astype(done.dtype), left, records.at[done].set(record)

    blank = jnp.zeros((len(words), rule.width))
    carry = (state, jnp.asarray(0, jnp.int32), limits[1], blank)
    after, done, _, records = jax.lax.while_loop(go_on, piece, carry)
    first = jnp.where(done > 0, records[0, : len(rule.players)], after.sums / after.seen)
    return _looked_at(state, after, first), done, records


@program
def _part(
    rule: Rule, state: BatchState, table: Table, order: Array, word: Any, most: Array
) -> BatchState:  # fmt: skip
    """At most `most` updates of one chunk."""
    key = jr.fold_in(jr.wrap_key_data(word, impl=rule.implementation), state.part)
    after = rule.advance(state, table, order, key, most)
    return _looked_at(state, after, after.sums / after.seen)


def _looked_at(state: BatchState, after: BatchState, first: Array) -> BatchState:
    """With the losses of the first piece, and with its code if a parameter is not finite."""
    fine = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(after.params)]).all()
    opening = jnp.where(state.step == 0, first, state.opening)
    return after.set(opening=opening, code=jnp.where(fine, after.code, int(Status.not_finite)))


def _before_the_fault(made: Callable, most: int) -> tuple[BatchState, np.ndarray]:
    """The state and the records just before the first update that was not fine, of `most` in a piece."""
    low, high = 0, most  # the first `low` are fine; of `high` the last is not
    while high - low > 1:
        middle = (low + high) // 2
        fine = int(made(middle)[0].code) != int(Status.not_finite)
        low, high = (middle, high) if fine else (low, middle)
    state, records = made(low)
    return state.set(code=jnp.asarray(int(Status.not_finite), jnp.int32)), records


@program
def _close(rule: Rule, state: BatchState) -> tuple[BatchState, Array]:
    return rule.close(state)


@program
@light
def first_state(rule: Rule, params: tuple, mark: Array) -> BatchState:
    """Nothing done yet, with what the methods and the average remember of it."""
    memory = tuple(rule.transformation(index).init(own) for index, own in enumerate(params))
    average = () if rule.average is None else rule.average.begin(params)
    return BatchState.begin(params, memory, average, params if rule.patience is not None else (), mark)


def fingerprint(rule: Rule, told: Any, structure: str) -> np.ndarray:
    """Eight numbers that change with the data, the methods' numbers and the batch size."""
    leaves = jax.tree.leaves((rule, told))
    values = [leaf for leaf in leaves if eqx.is_array(leaf) or isinstance(leaf, _TOLD)]
    names = " ".join(type(player.method).__name__ for player in rule.players)
    words = f"{names} {rule.batch} {rule.accumulate} {rule.shuffle} {structure}"
    return np.frombuffer(bytes.fromhex(digest(words, values)), np.uint32)
