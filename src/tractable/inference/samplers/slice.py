r"""Slice sampling: a uniform point under the graph of the density, one line at a time.

Extension.   $\pi(x, u) = 1[0 < u < \tilde p(x)]/Z$ has the marginal $\int \pi(x, u)\,du = p(x)$: draw
             $u \mid x$ uniform below the graph, then $x' \mid u$ uniform on the slice $\{\tilde p > u\}$. The
             second draw is replaced by a move that keeps the uniform law of the slice.
Line.        An interval of `width` around $x$, placed at random, is stepped out until both ends leave the
             slice; points are drawn in it, and those outside the slice become its ends, until one is inside.
             A limit of expansions is divided between the ends at random: the move stays reversible.
Machine.     One loop serves all lines of a step, with one density per round whatever the round is for
             (stepping out to the left, to the right, or shrinking): the density is compiled once, and chains
             side by side do not wait for each other's phases.
Cost.        About five densities per line for a width near the slice's; nothing needs tuning to be valid.
References.  Neal (2003), "Slice sampling".
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count, check_option
from tractable.core.module import Module, field
from tractable.core.streams import Stream
from tractable.core.support import positive
from tractable.core.types import Array, Bool, Float, Int, Key, PyTree, Scalar
from tractable.inference.samplers.metropolis import vector_state
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler

__all__ = ["SliceSampler", "shrink"]

_LEFT, _RIGHT, _SHRINK = range(3)


class SliceSampler(Sampler):
    """Slice sampling by stepping out and shrinking.

    - `lines`: what one step moves along. `systematic` takes the coordinates in order, `random` takes them in
      an order drawn anew, `direction` takes a single direction drawn uniformly.
    - `width`: the first guess at the length of a slice, one number or one per coordinate. Too long a guess
      costs little, too short a guess costs expansions.
    - `max_expansions`, `max_shrinks`: limits of work on one line. A step is `saturated` if the slice was
      longer than all expansions at both ends, or if the shrinking did not end (the point then stays).
    """

    width: Float[Array, "..."] = field(support=positive, default=2.0)
    lines: str = field(static=True, default="systematic")
    max_expansions: int = field(static=True, default=50)
    max_shrinks: int = field(static=True, default=100)

    def __check_init__(self) -> None:
        check_option("lines", self.lines, ("systematic", "random", "direction"))
        check_count("max_expansions", self.max_expansions, 0)
        check_count("max_shrinks", self.max_shrinks)

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> ChainState:
        """The state at `position`; the key is not used."""
        state = vector_state(log_density, position)
        shape = self.width.shape
        ok = shape in ((), state.position.shape)
        check(ok, "width", f"one number, or of shape {state.position.shape}", f"shape {shape}")
        return state

    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[Any, Info]:
        """Move along every line in turn."""
        key_lines, key_points = jr.split(key)
        numbers = Stream.of(key_points)
        plan = self._plan(Stream.of(key_lines), numbers, state.position)
        used = 3 * plan.num_lines

        def advance(search: _Search) -> _Search:
            uniform = numbers.uniform(used + search.num_densities).astype(search.position.dtype)
            return self._advance(log_density, plan, search, uniform)

        first = plan.begin(_Search.at(state))
        end = jax.lax.while_loop(lambda search: search.line < plan.num_lines, advance, first)
        acceptance = (end.num_moved / end.num_proposed).astype(state.position.dtype)
        info = Info(acceptance, end.num_densities, saturated=end.saturated, undefined=end.undefined)
        return ChainState(end.position, end.log_density), info

    def _plan(self, lines: Stream, numbers: Stream, x: Float[Array, " d"]) -> "_Plan":
        width, axes = self.width.astype(x.dtype) * jnp.ones_like(x), jnp.arange(x.size)
        order, count = axes, x.size
        if self.lines == "random":
            order = jnp.argsort(lines.uniform(axes))
        if self.lines == "direction":
            z = lines.normal(axes).astype(x.dtype)
            width, order, count = width * z / jnp.linalg.norm(z), None, 1
        levels, offsets, shares = numbers.uniform(jnp.arange(3 * count)).astype(x.dtype).reshape((3, count))
        most = self.max_expansions
        shares = jnp.minimum(jnp.floor((most + 1) * shares), most).astype(int)  # single precision may reach 1
        return _Plan(width, order, -jnp.log(levels), offsets, shares, most)

    def _advance(
        self, log_density: LogDensity, plan: "_Plan", search: "_Search", uniform: Scalar
    ) -> "_Search":
        """One density, and what follows from it in the phase that the search is in."""
        low, high, left, right = search.low, search.high, search.phase == _LEFT, search.phase == _RIGHT
        shrinking = search.phase == _SHRINK
        t = jnp.where(left, low, jnp.where(right, high, low + uniform * (high - low)))
        point = plan.point(search, t)
        value = jnp.asarray(log_density(point), search.log_density.dtype)
        inside = value >= search.level  # false for NaN
        grows = inside & (jnp.where(left, search.spare_left, search.spare_right) > 0)
        cut = ~shrinking & inside & ~grows
        accepted, rejected = shrinking & inside, shrinking & ~inside
        shrunk_low, shrunk_high = shrink(low, high, t)
        num_rejected = search.num_rejected + rejected
        stuck = num_rejected >= self.max_shrinks
        after = _Search(
            position=jnp.where(accepted, point, search.position),
            log_density=jnp.where(accepted, value, search.log_density),
            line=search.line + (accepted | stuck),
            phase=jnp.where(shrinking | grows, search.phase, search.phase + 1),
            level=search.level,
            low=jnp.where(left & grows, low - 1, jnp.where(rejected, shrunk_low, low)),
            high=jnp.where(right & grows, high + 1, jnp.where(rejected, shrunk_high, high)),
            spare_left=search.spare_left - (left & grows),
            spare_right=search.spare_right - (right & grows),
            left_cut=search.left_cut | (left & cut),
            num_rejected=num_rejected,
            num_moved=search.num_moved + accepted,
            num_proposed=search.num_proposed + shrinking,
            num_densities=search.num_densities + 1,
            saturated=search.saturated | stuck | (search.left_cut & right & cut),
            undefined=search.undefined | jnp.isnan(value),
        )
        begun = plan.begin(after)
        return jax.tree.map(lambda new, old: jnp.where(accepted | stuck, new, old), begun, after)


def shrink(low: Scalar, high: Scalar, t: Scalar) -> tuple[Scalar, Scalar]:
    """The interval around 0 with `t`, a point that is not in the slice, as its new end."""
    return jnp.where(t < 0, t, low), jnp.where(t < 0, high, t)


class _Search(Module):
    """Where the loop stands: the point, the interval on the present line (in widths), and the counts."""

    position: Float[Array, " d"]
    log_density: Scalar
    line: Int[Array, ""]
    phase: Int[Array, ""]
    level: Scalar
    low: Scalar
    high: Scalar
    spare_left: Int[Array, ""]  # expansions that are left
    spare_right: Int[Array, ""]
    left_cut: Bool[Array, ""]  # whether the left end was stopped by its limit
    num_rejected: Int[Array, ""]  # on this line
    num_moved: Int[Array, ""]
    num_proposed: Int[Array, ""]
    num_densities: Int[Array, ""]
    saturated: Bool[Array, ""]
    undefined: Bool[Array, ""]

    @staticmethod
    def at(state: ChainState) -> "_Search":
        none, no, zero = jnp.asarray(0), jnp.asarray(False), jnp.zeros((), state.position.dtype)
        counts = none, none, none
        interval = state.log_density, zero, zero, none, none, no
        return _Search(state.position, state.log_density, none, none, *interval, none, *counts, no, no)


class _Plan(Module):
    """The random numbers of all lines, drawn before the loop."""

    width: Float[Array, " d"]
    order: Int[Array, " d"] | None  # coordinates, or nothing for the direction of `width`
    depths: Float[Array, " lines"]
    offsets: Float[Array, " lines"]
    shares: Int[Array, " lines"]
    max_expansions: int = field(static=True)

    @property
    def num_lines(self) -> int:
        return self.depths.size

    def begin(self, search: _Search) -> _Search:
        """The search at the beginning of its line: a level below the graph, and an interval around 0."""
        line = search.line  # past the last line an index means the last one, and the loop is over
        low, share = -self.offsets[line], self.shares[line]
        level = search.log_density - self.depths[line].astype(search.log_density.dtype)
        places = _places(search)
        fresh = jnp.asarray(_LEFT), level, low, low + 1, share, self.max_expansions - share
        return eqx.tree_at(_places, search, (*fresh, jnp.asarray(False), jnp.zeros_like(places[-1])))

    def point(self, search: _Search, t: Scalar) -> Float[Array, " d"]:
        """The point at `t` widths from the position along the line."""
        if self.order is None:
            return search.position + t * self.width
        axis = self.order[search.line]
        return search.position.at[axis].add(t * self.width[axis])


def _places(search: _Search) -> tuple:
    """What belongs to one line."""
    ends = search.low, search.high, search.spare_left, search.spare_right
    return search.phase, search.level, *ends, search.left_cut, search.num_rejected
