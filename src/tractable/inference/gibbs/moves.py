r"""How Gibbs sampling redraws one block: exactly, by another sampler, or by rejection.

Inner step.  Any kernel that leaves $p(x_b \mid x_{-b}) \propto \tilde p(x_b, x_{-b})$ invariant may take the
             place of an exact draw: Metropolis, slice or Hamiltonian steps on the block alone.
Rejection.   Proposals of $q$ are kept with probability $\min\{1, \tilde p/(Mq)\}$: a draw of
             $g \propto \min\{\tilde p, Mq\}$. A Metropolis step with the ratio
             $\max\{1, \tilde p/(Mq)\}(x') \,/\, \max\{1, \tilde p/(Mq)\}(x)$ makes the move exact even where
             $M$ is too small; with a true envelope the ratio is 1.
Cost.        That of the draw or inner step; $1/P(\text{keep})$ evaluations for rejection.
References.  Tierney (1994), sections 2.3-2.4; Gilks, Best and Tan (1995).
"""

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.accept import accept
from tractable.core.checks import check, check_count
from tractable.core.iterate import run, run_until
from tractable.core.module import Module, field
from tractable.core.types import Key, Scalar
from tractable.distributions.base import Distribution
from tractable.inference.samplers.sampler import Info, LogDensity, Sampler

__all__ = ["Block", "ExactDraw", "FromConditional", "Move", "RejectionWithinGibbs", "WithinGibbs"]

Position = dict[str, Any]


class Block(Module):
    """Some variables by name, and the move that redraws them together."""

    move: Any
    names: tuple[str, ...] = field(static=True)
    single: bool = field(static=True)  # named by one name: its value stands for itself, not in a dict

    @staticmethod
    def of(names: Any, move: Any) -> "Block":
        """The block of one name or of a tuple of distinct names."""
        single = isinstance(names, str)
        chosen = (names,) if single else names
        is_names = isinstance(chosen, tuple) and all(isinstance(name, str) for name in chosen)
        check(is_names and len(chosen) > 0, "blocks", "keyed by a name or a tuple of names", repr(names))
        check(len(set(chosen)) == len(chosen), "blocks", "keyed by distinct names", chosen)
        return Block(move, chosen, single)

    def take(self, position: Position) -> Any:
        """The value of the block: of its variable, or a dict of its variables."""
        return position[self.names[0]] if self.single else {name: position[name] for name in self.names}

    def put(self, position: Position, values: Any) -> Position:
        """`position` with new values of the block, which must have the shapes and kinds of the old ones."""
        named = {self.names[0]: values} if self.single else values
        fits = isinstance(named, Mapping) and set(named) == set(self.names)
        got = sorted(named) if isinstance(named, Mapping) else type(named).__name__
        check(fits, f"blocks[{self.names}]", "a move that returns a dict of these variables", got)
        return {**position, **{name: _like(name, named[name], position[name]) for name in self.names}}

    def draw_from(self, distribution: Any, position: Position, key: Key) -> Position:
        """`position` with the block drawn from one distribution of all its numbers, or one for each name."""
        if isinstance(distribution, Mapping):
            keys = dict(zip(distribution, jr.split(key, len(distribution))))
            return self.put(position, {name: _sample(d, keys[name]) for name, d in distribution.items()})
        fix = "Give one parameter, `conditional(position)`, and return e.g. `Normal(...)`."
        is_one, got = isinstance(distribution, Distribution), type(distribution).__name__
        check(is_one, f"blocks[{self.names}]", "a function that returns a distribution", got, fix, TypeError)
        return self.put(position, self._shared_out(position, _sample(distribution, key)))

    def log_prob_of(self, distribution: Any, position: Position) -> Scalar:
        """The log-density of the block's present values."""
        if isinstance(distribution, Mapping):
            terms = [jnp.asarray(d.log_prob(position[name])) for name, d in distribution.items()]
            return jnp.stack(terms).sum()
        return distribution.log_prob(self._joined(position))

    def _joined(self, position: Position) -> Any:
        """The block as one array: its variable as it is, or all of its numbers in the order of the names."""
        if self.single:
            return position[self.names[0]]
        return jnp.concatenate([jnp.reshape(position[name], -1) for name in self.names])

    def _shared_out(self, position: Position, draw: Any) -> Any:
        """The inverse of `_joined`."""
        if self.single:
            return draw
        shapes = {name: jnp.shape(position[name]) for name in self.names}
        total = sum(math.prod(shape) for shape in shapes.values())
        must = f"a vector of {total} numbers, those of {self.names} in order"
        check(jnp.shape(draw) == (total,), f"blocks[{self.names}]", must, f"shape {jnp.shape(draw)}")
        values, start = {}, 0
        for name, shape in shapes.items():
            values[name] = draw[start : start + math.prod(shape)].reshape(shape)
            start += math.prod(shape)
        return values


class Move(Module):
    """How a block is redrawn while the other variables are held."""

    def init(self, block: Block, log_density: LogDensity, position: Position, key: Key) -> Any:
        """What the move remembers from sweep to sweep."""
        return ()

    @abc.abstractmethod
    def update(
        self, block: Block, log_density: LogDensity, position: Position, memory: Any, key: Key
    ) -> tuple[Position, Any, Info]:
        """The position with the block redrawn, the memory, and how it went."""


class ExactDraw(Move):
    """A draw from the conditional by a function of `(key, position)` that returns the block's new values."""

    function: Callable[..., Any]

    def update(self, block, log_density, position, memory, key):
        return block.put(position, self.function(key, position)), memory, Info(1.0, 0)


class FromConditional(Move):
    """A draw from the conditional that a function of `(position)` states.

    It returns a `Distribution`, or a dict with one for each name of the block (independent of each other
    given the rest). One distribution for several variables is over the vector of their numbers, in order.
    """

    function: Callable[..., Any]

    def update(self, block, log_density, position, memory, key):
        return block.draw_from(self.function(position), position, key), memory, Info(1.0, 0)


class WithinGibbs(Move):
    """`num_steps` steps of `sampler` on the block alone, with the log-density as a function of it.

    A sampler in real space moves the free numbers of the block; `supports` names the constraints of its
    variables, as in `mcmc`. What a sampler learns is kept from sweep to sweep.
    """

    sampler: Any
    supports: Any = None
    num_steps: int = field(static=True, default=1)

    def __check_init__(self) -> None:
        kind = type(self.sampler).__name__
        is_sampler = isinstance(self.sampler, Sampler)
        check(is_sampler, "sampler", "a `Sampler`, such as `RandomWalk(0.5)`", kind, error=TypeError)
        check(not self.sampler.ensemble, "sampler", "one that moves a single chain", kind)
        check_count("num_steps", self.num_steps)
        allowed = self.sampler.space == "real" or self.supports is None
        check(allowed, "supports", f"left out for {kind}, which sees values as they are", self.supports)

    def init(self, block, log_density, position, key):
        target, start, _ = self._restricted(block, log_density, position)
        return self.sampler.init(target, start, key)

    def update(self, block, log_density, position, memory, key):
        key_init, key_steps = jr.split(key)
        target, start, rebuilt = self._restricted(block, log_density, position)
        # the other blocks have moved: what was known at this point of the block is known no longer
        state = _refreshed(memory, self.sampler.init(target, start, key_init))

        def step(state, k):
            return self.sampler.step(target, state, jr.fold_in(key_steps, k))

        made = run(step, state, jnp.arange(self.num_steps))
        info = made.trace.joined()
        info = eqx.tree_at(lambda i: i.num_gradients, info, info.num_gradients + 1)
        return block.put(position, rebuilt(made.state.position)), made.state, info

    def _restricted(self, block: Block, log_density: LogDensity, position: Position) -> tuple:
        """The log-density of the block given the rest, where the block is, and the way back to its values."""
        if self.sampler.space == "native":
            return (
                lambda values: log_density(block.put(position, values)),
                block.take(position),
                lambda values: values,
            )
        held = {name: position[name] for name in block.names}
        _check_floats(held, type(self.sampler).__name__)
        free, rebuild = unconstrain(held, self.supports)

        def target(real):
            values, log_det = rebuild(real)
            return log_density({**position, **values}) + log_det

        return target, free, lambda real: _block_values(block, rebuild, real)


class RejectionWithinGibbs(Move):
    r"""Draws of `proposal` until one is kept, under $\tilde p \le M q$ with $\log M$ = `log_bound`.

    Both may be functions of the position. Where the bound fails a Metropolis step corrects for it, so that
    the chain stays exact. After `max_proposals` without success the block stays where it is, which leaves its
    conditional invariant too, and the step is reported as `saturated`.
    """

    proposal: Any
    log_bound: Any
    max_proposals: int = field(static=True, default=1000)

    def __check_init__(self) -> None:
        check_count("max_proposals", self.max_proposals)
        able = isinstance(self.proposal, Distribution) or callable(self.proposal)
        must = "a distribution, or a function of the position that returns one"
        check(able, "proposal", must, type(self.proposal).__name__, error=TypeError)

    def update(self, block, log_density, position, memory, key):
        q = self.proposal if isinstance(self.proposal, Distribution) else self.proposal(position)
        bound: Any = self.log_bound(position) if callable(self.log_bound) else self.log_bound

        def excess(point):
            return jnp.asarray(log_density(point) - block.log_prob_of(q, point) - bound, float)

        def propose(state):
            _, _, _, count, key = state
            key, key_draw, key_keep = jr.split(key, 3)
            point = block.draw_from(q, position, key_draw)
            over = excess(point)
            kept, _ = accept(key_keep, over)
            return (block.take(point), over, kept, count + 1, key), count + 1.0

        key, key_accept = jr.split(key)
        before = excess(position)
        start = (block.take(position), before, jnp.asarray(False), jnp.asarray(0.0), key)
        found = run_until(
            propose, start, max_steps=self.max_proposals, tol=0.0, settled=lambda state, value, last: state[2]
        )
        values, over, kept, count, _ = found.state
        moved, _ = accept(key_accept, jnp.maximum(over, 0.0) - jnp.maximum(before, 0.0))
        stay = block.take(position)
        chosen = jax.tree.map(lambda new, old: jnp.where(kept & moved, new, old), values, stay)
        info = Info(kept / count, count + 1, False, ~kept, jnp.isnan(before) | jnp.isnan(over))
        return block.put(position, chosen), memory, info


def _sample(distribution: Distribution, key: Key) -> Any:
    draw = distribution.sample(key)
    return draw.astype(int) if distribution.discrete else draw


def _like(name: str, new: Any, old: Any) -> Any:
    """`new` with the types of `old`, refused by name where shape or kind differ."""
    same = jax.tree.structure(new) == jax.tree.structure(old)
    check(same, name, f"redrawn as {jax.tree.structure(old)}", jax.tree.structure(new))

    def leaf(new, old):
        new = jnp.asarray(new)
        check(new.shape == old.shape, name, f"redrawn with its shape {old.shape}", f"shape {new.shape}")
        lost = jnp.issubdtype(new.dtype, jnp.floating) and not jnp.issubdtype(old.dtype, jnp.floating)
        fix = "Start it with a float such as 0.0."
        check(not lost, name, f"redrawn with its kind {old.dtype}", f"{new.dtype}", fix, TypeError)
        return new.astype(old.dtype)

    return jax.tree.map(leaf, new, old)


def _check_floats(held: Position, kind: str) -> None:
    fix = "Use an exact conditional, or a sampler in native space."
    for name, value in held.items():
        floats = all(jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in jax.tree.leaves(value))
        check(floats, name, f"made of floats to be moved by {kind}", "whole numbers", fix, TypeError)


def _block_values(block: Block, rebuild: Rebuild, real: Any) -> Any:
    values, _ = rebuild(real)
    return values[block.names[0]] if block.single else values


def _refreshed(memory: Any, fresh: Any) -> Any:
    """What a sampler has learnt, at a point where everything else is known anew."""
    known = [n for n in ("position", "log_density", "gradient") if getattr(fresh, n, None) is not None]
    if len(known) < 2:
        return fresh
    return eqx.tree_at(lambda s: [getattr(s, n) for n in known], memory, [getattr(fresh, n) for n in known])
