r"""Gibbs sampling: one block of variables after another is redrawn given all the others.

Identity.    $x_b' \sim p(x_b \mid x_{-b})$ leaves $p$ invariant: it is a Metropolis-Hastings step with
             $q(x' \mid x) = p(x_b' \mid x_{-b})$ and the ratio
             $\frac{p(x')\,q(x \mid x')}{p(x)\,q(x' \mid x)} = \frac{p(x_b' \mid x_{-b})\,p(x_{-b})\,
             p(x_b \mid x_{-b})}{p(x_b \mid x_{-b})\,p(x_{-b})\,p(x_b' \mid x_{-b})} = 1$.
Scans.       Systematic: every block once, in order; random: as many updates, each of a block drawn at random.
Limits.      Slow where blocks depend on each other (a pair of normals: lag-one autocorrelation $\rho^2$ per
             sweep), and stuck for ever where no change of one block alone leads on.
Cost.        One draw or inner step per block, and one evaluation of the density per sweep.
References.  Geman and Geman (1984); Tierney (1994); Roberts and Sahu (1997).
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_option
from tractable.core.iterate import run
from tractable.core.module import field
from tractable.core.types import Key, PyTree, Scalar
from tractable.distributions.base import Distribution
from tractable.inference.gibbs.moves import (
    Block,
    ExactDraw,
    FromConditional,
    Move,
    RejectionWithinGibbs,
    WithinGibbs,
)
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler

__all__ = [
    "ExactDraw", "FromConditional", "Gibbs", "GibbsState", "RejectionWithinGibbs", "WithinGibbs",
    "gibbs_log_ratio",
]  # fmt: skip

scans = ("systematic", "random")


class GibbsState(ChainState):
    """The values of all variables, with what the moves of the blocks remember."""

    memories: Any = ()


class Gibbs(Sampler):
    r"""Blocks of variables, each with the way to redraw it: `Gibbs({"x": move, ("y", "z"): move})`.

    A move is a function of `(key, position)` that draws the block from its conditional, a function of
    `(position)` that returns the conditional as a `Distribution`, `WithinGibbs(sampler)` for any other
    sampler on that block, or `RejectionWithinGibbs(proposal, log_bound)`. A block named by one name has that
    variable's value; one named by a tuple has a dict. Together the blocks must reach every variable; they may
    overlap. A random scan is reversible where a systematic one is not. Inner samplers that tune themselves do
    so while `adapting` is true.
    """

    space: ClassVar[str] = "native"

    blocks: tuple[Block, ...]
    scan: str = field(static=True, default="systematic")
    adapting: Any = True

    def __init__(self, blocks: Mapping[Any, Any], scan: str = "systematic", adapting: Any = True):
        check(isinstance(blocks, Mapping), "blocks", "a mapping from names to moves", type(blocks).__name__)
        check(len(blocks) > 0, "blocks", "at least one block", "none")
        check_option("scan", scan, scans)
        self.blocks = tuple(Block.of(names, _as_move(names, move)) for names, move in blocks.items())
        self.scan, self.adapting = scan, adapting

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> GibbsState:
        """The state at `position`, a dict from names to values."""
        self._check_variables(position)
        position = jax.tree.map(jnp.array, dict(position))
        keys = jr.split(key, len(self.blocks))
        memories = tuple(b.move.init(b, log_density, position, keys[i]) for i, b in enumerate(self.blocks))
        return GibbsState(position, jnp.asarray(log_density(position), float), None, memories)

    def step(self, log_density: LogDensity, state: GibbsState, key: Key) -> tuple[GibbsState, Info]:
        """One sweep: as many updates of blocks as there are blocks."""
        sweep = self._systematic if self.scan == "systematic" else self._random
        position, memories, infos = sweep(log_density, state, key)
        value = jnp.asarray(log_density(position), state.log_density.dtype)
        info = Info(
            infos.acceptance.mean(),
            infos.num_gradients.sum() + 1,
            infos.diverging.any(),
            infos.saturated.any(),
            infos.undefined.any() | jnp.isnan(value),
        )
        return GibbsState(position, value, None, memories), info

    def _systematic(self, log_density: LogDensity, state: GibbsState, key: Key) -> tuple:
        position, memories, infos = state.position, list(state.memories), []
        keys = jr.split(key, len(self.blocks))
        for i, block in enumerate(self._ready_blocks()):
            update = block.move.update
            position, memories[i], info = update(block, log_density, position, memories[i], keys[i])
            infos.append(_plain(info))
        return position, tuple(memories), jax.tree.map(lambda *each: jnp.stack(each), *infos)

    def _random(self, log_density: LogDensity, state: GibbsState, key: Key) -> tuple:
        blocks, count = self._ready_blocks(), len(self.blocks)
        impl = jr.key_impl(key)
        key_choice, key_moves = jr.split(key)

        def branch(i: int) -> Callable:
            def update(position, memories, data):
                block, key = blocks[i], jr.wrap_key_data(data, impl=impl)
                position, new, info = block.move.update(block, log_density, position, memories[i], key)
                return position, (*memories[:i], new, *memories[i + 1 :]), _plain(info)

            return update

        def step(carry, each):
            chosen, data = each
            position, memories, info = jax.lax.switch(chosen, [branch(i) for i in range(count)], *carry, data)
            return (position, memories), info

        # chains side by side make every branch and choose: keys cannot be chosen, the numbers behind them can
        data = jr.key_data(jr.split(key_moves, count))
        choices = jr.randint(key_choice, (count,), 0, count)
        made = run(step, (state.position, state.memories), (choices, data))
        return *made.state, made.trace

    def _ready_blocks(self) -> tuple[Block, ...]:
        """The blocks, whose inner samplers learn only while this sampler does."""

        def ready(block: Block) -> Block:
            inner = getattr(getattr(block.move, "sampler", None), "adapting", None)
            if inner is None:
                return block
            return eqx.tree_at(lambda b: b.move.sampler.adapting, block, jnp.asarray(inner) & self.adapting)

        return tuple(ready(block) for block in self.blocks)

    def _check_variables(self, position: PyTree) -> None:
        fix = "Name the variables: `{'x': 0.5, 'labels': labels}`."
        is_map = isinstance(position, Mapping)
        check(is_map, "start", "a dict from names to values", type(position).__name__, fix, TypeError)
        named = {name for block in self.blocks for name in block.names}
        unknown = sorted(named - set(position))
        known = ", ".join(map(str, position))
        check(not unknown, "blocks", f"about variables of the start ({known})", unknown)
        still = [name for name in position if name not in named]
        check(not still, "blocks", "a cover of the start's variables", f"no block with {still}")


def gibbs_log_ratio(
    log_density: LogDensity,
    names: str | tuple[str, ...],
    conditional: Callable[[Any], Any],
    position: Mapping[str, Any],
    *,
    key: Key,
) -> Scalar:
    r"""$\log\frac{p(x')\,q(x \mid x')}{p(x)\,q(x' \mid x)}$ for a draw of $q$ = `conditional(position)`.

    Zero, up to rounding, wherever `conditional` is the full conditional of `log_density`: a check of formulas
    worked out by hand. Anything else is the log-ratio that a Metropolis step would have to correct for.

    >>> from tractable.distributions.continuous import Normal
    >>> log_density = lambda p: -0.5 * (p["x"] ** 2 - 1.6 * p["x"] * p["y"] + p["y"] ** 2) / 0.36
    >>> given_y = lambda p: Normal(0.8 * p["y"], 0.6)
    >>> ratio = gibbs_log_ratio(log_density, "x", given_y, {"x": 1.0, "y": -2.0}, key=jr.key(0))
    >>> round(abs(float(ratio)), 9)
    0.0
    """
    block = Block.of(names, FromConditional(conditional))
    before = jax.tree.map(jnp.array, dict(position))
    forward = conditional(before)
    after = block.draw_from(forward, before, key)
    backward = conditional(after)
    gain = jnp.asarray(log_density(after)) - jnp.asarray(log_density(before))
    return gain + block.log_prob_of(backward, before) - block.log_prob_of(forward, after)


def _plain(info: Info) -> Info:
    """The report in types that do not depend on the move, so that reports of different moves stack."""
    return Info(
        jnp.asarray(info.acceptance, float),
        jnp.asarray(info.num_gradients, int),
        jnp.asarray(info.diverging, bool),
        jnp.asarray(info.saturated, bool),
        jnp.asarray(info.undefined, bool),
        None,
    )


def _as_move(names: Any, move: Any) -> Move:
    if isinstance(move, Move):
        return move
    fix = "A sampler goes inside `WithinGibbs(sampler)`." if isinstance(move, Sampler) else ""
    able = callable(move) and not isinstance(move, Sampler | Distribution)
    check(able, f"blocks[{names!r}]", "a function or a move", type(move).__name__, fix, TypeError)
    function: Any = move
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    must = "a function of (key, position) or of (position)"
    check(len(needed) in (1, 2), f"blocks[{names!r}]", must, f"{len(needed)} arguments", error=TypeError)
    return ExactDraw(function) if len(needed) == 2 else FromConditional(function)
