r"""Adaptive rejection sampling on the line, for densities whose logarithm is concave.

Envelope.    Tangents of $h = \log\tilde p$ at points $x_1 < \dots < x_k$ lie above a concave $h$: their least
             is exponential between their crossings, so it is drawn exactly. Chords lie below $h$.
Adaptation.  After each block of proposals the rejected point where the envelope is worst joins the points:
             the acceptance rises to one.
Honesty.     A point with $h$ above the tangents or below the chords shows that $h$ is not concave: the draws
             are then not exact, and the result says where.
Cost.        $k$ exponentials per proposal; a few blocks.
References.  Gilks and Wild (1992).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.accept import accept
from tractable.core.checks import as_float, check, check_count, check_finite
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended, run_until
from tractable.core.module import Module
from tractable.core.numerics import log1mexp, logsumexp
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.base import Univariate
from tractable.inference.weighted.importance import as_log_density
from tractable.inference.weighted.weights import share_estimate

__all__ = ["AdaptiveRejection", "adaptive_rejection"]

# a log-density may stray from concavity by this, relative to its size, through rounding alone
_ROUNDING = 1e-8


class AdaptiveRejection(Ended, Module):
    """Draws, the points of the final envelope, and whether the log-density proved concave where seen."""

    draws: Float[Array, " n"]
    points: Float[Array, " k"]
    num_points: Int[Array, ""]
    num_accepted: Int[Array, ""]
    num_proposed: Int[Array, ""]
    log_envelope: Scalar  # the logarithm of the final envelope's integral
    violation: Scalar
    violation_at: Scalar
    code: Int[Array, ""]
    _shown = ("draws", "num_proposed", "acceptance", "num_points")

    @property
    def acceptance(self) -> Estimate:
        """The accepted share of all proposals, while the envelope was still learning."""
        return share_estimate(self.num_accepted, self.num_proposed)

    @property
    def concave(self) -> bool:
        """Whether no evaluation contradicted the concavity of the log-density."""
        return bool(self.violation <= 0)

    @property
    def verdict(self) -> Verdict:
        """Whether the draws are exact."""
        at = float(self.violation_at)
        if not self.concave:
            said = f"The log-density is not concave near {at:.6g}: not exact draws. "
            said += "Use `rejection` or a chain."
        elif not self.status.ok:
            said = "Stopped at the limit of proposals; the draws that are missing are NaN."
        else:
            said = "Exact draws: the log-density was concave wherever it was seen."
        numbers = {"violation": self.violation, "violation_at": at}
        return Verdict(self.concave and self.status.ok, said, numbers)


def adaptive_rejection(
    log_density: Callable[..., Any] | Univariate,
    points: ArrayLike,
    *,
    key: Key,
    num_draws: int,
    low: float | int = -np.inf,
    high: float | int = np.inf,
    max_points: int = 40,
    block: int = 256,
    max_proposals: int = 100_000,
    args: tuple = (),
) -> AdaptiveRejection:
    r"""Exact draws of $\tilde p$ = `exp(log_density(x, *args))` on (`low`, `high`), log-concave and smooth.

    `points` are two or more places to begin with; on an unbounded side the density must be falling outwards
    at the outermost of them.

    >>> found = adaptive_rejection(lambda x: -0.5 * x**2, [-1.0, 1.0], key=jr.key(0), num_draws=1000)
    >>> found.concave, bool(found.acceptance.value > 0.7)
    (True, True)
    """
    start = jnp.sort(as_float("points", points))
    check(start.ndim == 1 and start.size >= 2, "points", "two or more numbers", f"shape {start.shape}")
    check_finite("points", start)
    check(low < high, "low", f"below `high` = {high}", low)
    inside = bool((start > low).all() & (start < high).all() & (jnp.diff(start) > 0).all())
    check(inside, "points", f"distinct and inside ({low}, {high})", np.asarray(start).tolist())
    count, block = check_count("num_draws", num_draws), check_count("block", block)
    max_points = check_count("max_points", max_points, least=start.size)
    blocks = -(-check_count("max_proposals", max_proposals) // block)
    target = as_log_density(log_density)
    args = as_data(args)
    _check_start(target, start, args, low, high)
    padded = jnp.concatenate([start, jnp.full(max_points - start.size, jnp.inf, start.dtype)])
    ends = jnp.asarray([float(low), float(high)], start.dtype)
    return _sample(target, padded, jnp.asarray(start.size), ends, key, (count, block, blocks), args)


def _check_start(log_density: Callable, points: Array, args: tuple, low: float, high: float) -> None:
    height, slope = _height_and_slope(log_density, points, args)
    check_finite("log_density", height)
    fix = "Move the outermost point out, past the mode."
    left, right = float(slope[0]), float(slope[-1])
    check(np.isfinite(low) or left > 0, "points", "on the rising side at the left", f"slope {left:.3g}", fix)
    must = "on the falling side at the right"
    check(np.isfinite(high) or right < 0, "points", must, f"slope {right:.3g}", fix)


@program
def _height_and_slope(log_density: Callable, points: Array, args: tuple) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(lambda x: jnp.asarray(log_density(x, *args), points.dtype)))(points)


class _Hull(Module):
    """Tangents at sorted points (padded with infinity at the end) and what follows from them."""

    points: Array
    height: Array
    slope: Array
    count: Array
    ends: Array

    @property
    def used(self) -> Array:
        return jnp.arange(self.points.size) < self.count

    def edges(self) -> tuple[Array, Array]:
        """The left and right end of each tangent's piece."""
        x, h, s = self.points, self.height, self.slope
        gap = jnp.where(self.used[1:], x[1:] - x[:-1], 0.0)
        bend = s[:-1] - s[1:]
        # x_i + (h_{i+1} - h_i - s_{i+1} gap)/(s_i - s_{i+1}); parallel tangents cross nowhere: the middle
        offset = (h[1:] - h[:-1] - s[1:] * gap) / jnp.where(bend > 0, bend, 1.0)
        crossing = x[:-1] + jnp.where(bend > 0, jnp.clip(offset, 0.0, gap), gap / 2)
        right = jnp.where(self.used[1:], crossing, self.ends[1])
        return jnp.concatenate([self.ends[:1], right]), jnp.concatenate([right, self.ends[1:]])

    def log_masses(self) -> Array:
        r"""$\log\int e^{h_i + s_i(x - x_i)}dx$ over each piece."""
        left, right = self.edges()
        # from the higher end of the piece: mass = e^{top} (1 - e^{-|s| w})/|s|
        high_end = jnp.where(self.slope > 0, right, left)
        top = self.height + self.slope * jnp.where(self.used, high_end - self.points, 0.0)
        steep, width = jnp.abs(self.slope), right - left
        decay = jnp.where(steep > 0, steep * width, 0.0)
        flat = decay < 1e-12
        curved = log1mexp(jnp.where(flat, 1.0, decay)) - jnp.log(jnp.where(flat, 1.0, steep))
        mass = top + jnp.where(flat, jnp.log(width), curved)
        return jnp.where(self.used & (width > 0), mass, -jnp.inf)

    def sample(self, key: Key, num: int) -> Array:
        """Independent draws of the envelope."""
        key_piece, key_place = jr.split(key)
        masses = self.log_masses()
        piece = jr.categorical(key_piece, jnp.broadcast_to(masses, (num, masses.size)), axis=1)
        left, right = (side[piece] for side in self.edges())
        slope, width = self.slope[piece], right - left
        u = jr.uniform(key_place, (num,), self.points.dtype)
        steep = jnp.abs(slope)
        decay = jnp.where(steep > 0, steep * width, 0.0)
        flat = decay < 1e-12
        # a truncated exponential, measured from the higher end of the piece
        depth = -jnp.log1p(u * jnp.expm1(-jnp.where(flat, 1.0, decay))) / jnp.where(flat, 1.0, steep)
        depth = jnp.where(flat, u * jnp.where(flat, width, 0.0), depth)
        return jnp.where(slope > 0, right - depth, left + depth)

    def bounds(self, x: Array) -> tuple[Array, Array]:
        """The lowest tangent and (between points) the chord at each of the places `x`."""
        reach = jnp.where(self.used, self.points, 0.0)
        tangents = self.height[None] + self.slope[None] * (x[:, None] - reach[None])
        upper = jnp.where(self.used[None], tangents, jnp.inf).min(1)
        right = jnp.searchsorted(self.points, x)
        inner = (right > 0) & (right < self.count)
        b = jnp.clip(right, 1, self.points.size - 1)
        share = (x - self.points[b - 1]) / jnp.where(inner, self.points[b] - self.points[b - 1], 1.0)
        chord = self.height[b - 1] + jnp.where(inner, share, 0.0) * (self.height[b] - self.height[b - 1])
        return upper, jnp.where(inner, chord, -jnp.inf)


class _State(Module):
    """Where the sampler stands: its points, the draws so far, and the worst breach of concavity."""

    points: Array
    count: Array
    draws: Array
    filled: Array
    proposed: Array
    violation: Array
    violation_at: Array
    key: Key

    @staticmethod
    def start(points: Array, count: Array, num_draws: int, key: Key) -> "_State":
        zero, empty = jnp.asarray(0), jnp.full(num_draws, jnp.nan, points.dtype)
        nothing = jnp.asarray(-jnp.inf, points.dtype)
        return _State(points, count, empty, zero, zero, nothing, jnp.asarray(jnp.nan, points.dtype), key)

    def learn(self, x: Array, h: Array, upper: Array, keep: Array) -> tuple[Array, Array]:
        """The points with the rejected place where the envelope is worst among them, if there is room."""
        new = jnp.argmax(jnp.where(keep, -jnp.inf, upper - h))
        room = (self.count < self.points.size) & ~keep[new] & jnp.isfinite(h[new])
        slot = jnp.where(room, self.count, self.points.size)
        return jnp.sort(self.points.at[slot].set(x[new], mode="drop")), self.count + room

    def breach(self, x: Array, h: Array, upper: Array, chord: Array) -> tuple[Array, Array]:
        """The worst breach of concavity so far, and where."""
        excess = jnp.maximum(h - upper, chord - h) - _ROUNDING * (1 + jnp.abs(upper))
        excess = jnp.where(jnp.isnan(h), jnp.inf, excess)
        worst = jnp.argmax(excess)
        worse = excess[worst] > self.violation
        return jnp.where(worse, excess[worst], self.violation), jnp.where(worse, x[worst], self.violation_at)


@program
def _sample(
    log_density: Callable,
    points: Array,
    count: Array,
    ends: Array,
    key: Key,
    sizes: tuple[int, int, int],
    args: tuple,
) -> AdaptiveRejection:
    num_draws, block, blocks = sizes

    def hull(points, count):
        used = jnp.arange(points.size) < count
        height, slope = _height_and_slope(log_density, jnp.where(used, points, points[0]), args)
        return _Hull(points, jnp.where(used, height, 0.0), jnp.where(used, slope, 0.0), count, ends)

    def step(state):
        key, key_draw, key_accept = jr.split(state.key, 3)
        current = hull(state.points, state.count)
        x = current.sample(key_draw, block)
        h = jax.vmap(lambda each: jnp.asarray(log_density(each, *args), points.dtype))(x)
        upper, chord = current.bounds(x)
        keep, _ = accept(key_accept, h - upper)
        places = jnp.where(keep, state.filled + jnp.cumsum(keep) - 1, num_draws)
        draws = state.draws.at[places].set(x, mode="drop")
        filled, proposed = state.filled + keep.sum(), state.proposed + block
        points_next, count_next = state.learn(x, h, upper, keep)
        worst, at = state.breach(x, h, upper, chord)
        return _State(points_next, count_next, draws, filled, proposed, worst, at, key), filled / proposed

    found = run_until(
        step,
        _State.start(points, count, num_draws, key),
        max_steps=blocks,
        tol=0.0,
        settled=lambda state, value, before: state.filled >= num_draws,
    )
    last = found.state
    total = logsumexp(hull(last.points, last.count).log_masses())
    return AdaptiveRejection(
        last.draws,
        last.points,
        last.count,
        last.filled,
        last.proposed,
        total,
        last.violation,
        last.violation_at,
        found.code,
    )
