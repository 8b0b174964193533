r"""Updates from mini-batches, as compiled: players and their slopes, the order of rows, the end of an epoch.

Update.      For player $p$ with parameters $\theta_p$ and a batch $B$,
             $\theta_p \leftarrow \theta_p - \mathrm{method}_p\bigl(\nabla_{\theta_p}
             \{\sum_{i \in B} w_i \ell_p(\theta, x_i)/(|B| \bar w) + r_p(\theta_p)\}\bigr)$; the next player
             sees what this one did. One player is ordinary training.
Epoch.       Every row once, in an order that is given. It can be left and taken up again at any update:
             pieces of any length give the same bits.
Sums.        Losses of an epoch add up in double precision, whatever the parameters are in.
Not finite.  A loss that is not finite ends the run before its update; what went wrong earlier is found by
             doing the piece again (`batch_epochs`), so that updates need not be looked at one by one.
Cost.        One gradient per player, batch and update; memory for one batch.
"""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from tractable.core.checks import check
from tractable.core.iterate import Status, run
from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar
from tractable.optim.averaging import Averaging
from tractable.optim.batch_state import RUNNING, BatchState, Player, Table
from tractable.optim.stopping import fall_in_units

__all__ = ["Rule", "mean_loss", "words_of"]


class Rule(Module):
    """What one update does; the arrays in it are leaves, so that new ones use the same program."""

    players: tuple[Player, ...]
    rest: tuple
    args: tuple
    average: Averaging | None
    clip: Any
    tol: Any
    patience: Any
    held: Table | None
    held_loss: Callable[..., Any] | None = field(static=True)
    batch: int = field(static=True)
    accumulate: int = field(static=True)
    shuffle: bool = field(static=True)
    together: bool = field(static=True)  # losses take all players' parameters, as a tuple
    implementation: str = field(static=True)  # of the keys

    @property
    def width(self) -> int:
        """The numbers in the record of an epoch."""
        return len(self.players) + (self.held is not None)

    def transformation(self, player: int) -> optax.GradientTransformation:
        """The method of a player, after clipping."""
        moved = self.players[player].method.transformation()
        return moved if self.clip is None else optax.chain(optax.clip_by_global_norm(self.clip), moved)

    def advance(
        self, state: BatchState, table: Table, order: Array, key: Key, most: Array
    ) -> BatchState:  # fmt: skip
        """At most `most` updates of this epoch, from where it stands."""
        noise = key if any("key" in player.words for player in self.players) else None
        stop = jnp.minimum(self.num_updates(table), state.place + most)
        ahead = state.step - state.place

        def go_on(carry: tuple) -> Array:
            return (carry[0] < stop) & carry[1]

        def update(carry: tuple) -> tuple:
            place, _, params, memory, average, sums, seen = carry
            params, memory, average, values, counts = self._update(
                params, memory, average, place, ahead + place, table, order, noise
            )
            fine, sums = jnp.isfinite(values).all(), sums + values * counts
            return place + 1, fine, params, memory, average, sums, seen + counts

        begin = (state.place, state.code == RUNNING, state.params, state.memory, state.average)
        place, fine, *moved, sums, seen = jax.lax.while_loop(go_on, update, (*begin, state.sums, state.seen))
        done = place - state.place
        return state.set(
            params=moved[0], memory=moved[1], average=moved[2], sums=sums, seen=seen, place=place,
            step=state.step + done, turn=state.turn + done,
            code=jnp.where(fine, state.code, int(Status.not_finite)),
        )  # fmt: skip

    def num_updates(self, table: Table) -> Array:
        """Those of one pass over the rows of a table."""
        each = self.batch * self.accumulate
        return (table.num_present + each - 1) // each

    def close(self, state: BatchState) -> tuple[BatchState, Array]:
        """The end of an epoch: its record, the loss on held-out rows, and whether that is the end of all."""
        record = state.sums / state.seen
        state = self._settled(state, record[0])
        if self.held is not None:
            value = self._held(state)
            record, state = jnp.append(record, value), self._judged(state, value)
        zero, none = jnp.zeros_like(state.turn), jnp.zeros_like(state.sums)
        state = state.set(sums=none, seen=none, epoch=state.epoch + 1, turn=zero, place=zero, part=zero)
        return state, record

    def answer(self, state: BatchState) -> Any:
        """The parameters that count: the average where there is one."""
        return state.params if self.average is None else self.average.value(state.average)

    def _update(
        self, params: tuple, memory: tuple, average: Any, place: Array, step: Array, table: Table,
        order: Array, noise: Key | None,
    ) -> tuple[tuple, tuple, Any, Array, Array]:  # fmt: skip
        """Every player once: parameters, memory and average after it, the losses and the rows behind them."""
        now, kept, values, counts = list(params), list(memory), [], []
        for index, player in enumerate(self.players):

            def move(index: int = index) -> tuple:
                value, count, slope = self._slope(index, tuple(now), place, step, table, order, noise)
                update, after = self.transformation(index).update(slope, kept[index], now[index])
                moved = optax.apply_updates(now[index], update)
                return moved, after, value.astype(float), count.astype(float)

            if player.every > 1:
                blank = now[index], kept[index], jnp.zeros(()), jnp.zeros(())
                moved = jax.lax.cond((step + 1) % player.every == 0, move, lambda blank=blank: blank)
            else:
                moved = move()
            now[index], kept[index] = moved[:2]
            values.append(moved[2])
            counts.append(moved[3])
        average = average if self.average is None else self.average.push(average, tuple(now))
        return tuple(now), tuple(kept), average, jnp.stack(values), jnp.stack(counts)

    def _slope(
        self, player: int, params: tuple, place: Array, step: Array, table: Table,
        order: Array, noise: Key | None,
    ) -> tuple[Array, Array, Any]:  # fmt: skip
        """The loss of one update and its gradient, batch after batch where several make an update."""

        def one(index: Any) -> tuple[Array, Array, Any]:
            number = place * self.accumulate + index
            low = number * self.batch
            at = jax.lax.dynamic_slice(order, (low,), (self.batch,))
            # an order holds places of the table alone: to look again costs a tenth of a small update
            rows, weights = jax.tree.map(
                lambda leaf: leaf.at[at].get(mode="promise_in_bounds"), (table.rows, table.weights)
            )
            count = jnp.clip(table.num_present - low, 0, self.batch)
            weights = jnp.where(jnp.arange(self.batch, dtype=low.dtype) < count, weights, 0)
            key = None if noise is None else jr.fold_in(noise, number * len(self.players) + player)
            size = jnp.maximum(count, 1) * table.mean_weight

            def value_of(own: Any) -> Scalar:
                return self._value(own, player, params, rows, weights, size, key, step)

            value, slope = jax.value_and_grad(value_of)(params[player])
            return value, count, slope

        if self.accumulate == 1:
            return one(0)
        many = self.batch * self.accumulate
        total = jnp.minimum(table.num_present - place * many, many)

        def add(sums: Any, index: Array) -> tuple[Any, None]:
            value, count, slope = one(index)
            share = count / total
            each = jax.tree.map(lambda leaf: (share * leaf).astype(leaf.dtype), (value, slope))
            return jax.tree.map(jnp.add, sums, each), None

        value, _, slope = jax.eval_shape(one, jnp.asarray(0))
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (value, slope))
        value, slope = run(add, blank, jnp.arange(self.accumulate)).state
        return value, total, slope

    def _value(
        self, own: Any, player: int, params: tuple, rows: Any, weights: Array, size: Array, key: Key | None,
        step: Array,
    ) -> Scalar:  # fmt: skip
        mover = self.players[player]
        given = eqx.combine(own, self.rest[player])
        if self.together:
            others = [eqx.combine(one, rest) for one, rest in zip(params, self.rest)]
            given = (*others[:player], given, *others[player + 1 :])
        named = {"step": step} if "step" in mover.words else {}
        key = key if "key" in mover.words else None
        value = mean_loss(mover.loss, given, rows, weights, 1 / size, args=self.args, key=key, named=named)
        return value if mover.penalty is None else value + mover.penalty(given)

    def _held(self, state: BatchState) -> Scalar:
        """The mean loss on the held-out rows, slab by slab."""
        table, loss = self.held, self.held_loss
        assert table is not None
        assert loss is not None
        given = tuple(eqx.combine(one, rest) for one, rest in zip(self.answer(state), self.rest))
        named = {"step": state.step} if "step" in words_of(loss) else {}

        def add(total: Array, slab: Any) -> tuple[Array, None]:
            rows, weights = slab
            one = jnp.ones((), weights.dtype)
            keyed = jr.key(0, impl=self.implementation) if "key" in words_of(loss) else None
            value = mean_loss(
                loss, given if self.together else given[0], rows, weights, one, args=self.args, key=keyed,
                named=named,
            )  # fmt: skip
            return total + value.astype(float), None

        total = run(add, jnp.zeros(()), (table.rows, table.weights)).state
        return total / table.weights.astype(float).sum()

    def _settled(self, state: BatchState, value: Scalar) -> BatchState:
        first = jnp.where(jnp.isfinite(state.first), state.first, value)
        code = state.code
        if self.tol is not None:
            close = jnp.abs(value - state.value) <= self.tol * fall_in_units(first, value)
            code = jnp.where(close, int(Status.converged), code)
        return state.set(value=value, first=first, code=code)

    def _judged(self, state: BatchState, value: Scalar) -> BatchState:
        """What the held-out loss says: the best parameters so far, and whether to wait on."""
        if self.patience is None:
            return state
        better = value < state.lowest
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), self.answer(state), state.best)
        waited = jnp.where(better, 0, state.waited + 1)
        over = (state.code == RUNNING) & (waited >= self.patience)
        return state.set(
            best=best, lowest=jnp.where(better, value, state.lowest), waited=waited,
            best_epoch=jnp.where(better, state.epoch + 1, state.best_epoch),
            code=jnp.where(over, int(Status.stopped), state.code),
        )  # fmt: skip


def mean_loss(
    loss: Callable[..., Any], params: Any, rows: Any, weights: Array, scale: Scalar, *, args: tuple = (),
    key: Key | None = None, named: dict[str, Any] | None = None,
) -> Scalar:  # fmt: skip
    """`scale` times the weighted sum of the losses of a batch; with a key, each row has its own."""
    named = named or {}
    if key is None:
        each = jax.vmap(lambda row: loss(params, row, *args, **named))(rows)
    else:
        keys = jr.split(key, weights.size)
        each = jax.vmap(lambda row, own: loss(params, row, *args, key=own, **named))(rows, keys)
    fix = "A loss of one row is a number: take the sum or the mean of its parts."
    shape = jnp.shape(each)
    check(shape == weights.shape, "loss", "one number for each row", f"shape {shape[1:]}", fix)
    return scale * (weights * each).sum()


def words_of(loss: Callable[..., Any]) -> tuple[str, ...]:
    """Which of `key` and `step` a loss takes, by its signature."""
    names = inspect.signature(loss).parameters
    return tuple(name for name in ("key", "step") if name in names)
