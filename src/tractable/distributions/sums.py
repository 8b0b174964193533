r"""Sums over whole numbers: entropies of counts, and tails from the ratios of neighbouring masses.

Sums.        $-\sum_k P(k)\log P(k)$; $\log\sum_{i \ge 0} \prod_{j < i} r_j$.
Lattice.     A function that varies slowly over $h$ numbers is summed over every $h$-th: $\sum_k f(k) =
             h\sum_j f(hj)$ up to the trapezoidal rule's error, $e^{-2\pi^2 s^2/h^2}$ for a bell of standard
             deviation $s$; with $h \le s/8$ it is nothing.
Cost.        513 terms for a window; blocks of 256 until the rest is negligible otherwise. The window can be
             differentiated in both modes, the open-ended sums in forward mode alone.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tractable.core.types import Array

__all__ = ["entropy_of_window", "entropy_until_negligible", "log_sums_of_ratios"]

_HALF_WIDTH = 256


def entropy_of_window(log_prob: Callable[[Array], Array], mean: Array, variance: Array, high: Array) -> Array:
    """The entropy of a bell-shaped law on 0, ..., `high` from 513 numbers within 16 deviations."""
    step = _lattice_step(variance)
    offsets = jnp.arange(-_HALF_WIDTH, _HALF_WIDTH + 1.0).reshape((-1,) + (1,) * mean.ndim)
    k = jax.lax.stop_gradient(jnp.round(mean)[None] + step[None] * offsets)
    inside = (k >= 0) & (k <= high[None])
    return step * _terms(log_prob, jnp.where(inside, k, 0.0), inside).sum(0)


def entropy_until_negligible(
    log_prob: Callable[[Array], Array],
    mean: Array,
    variance: Array,
    smooth: Array,
    high: Array | None = None,
) -> Array:
    """The entropy of a law on 0, 1, ... (to `high`): from zero, or where `smooth` on a lattice from 16
    deviations down."""
    step = jnp.where(smooth, _lattice_step(variance), 1.0)
    start = jnp.where(smooth, jnp.maximum(0.0, jnp.round(mean) - _HALF_WIDTH * step), 0.0)
    offsets = jnp.arange(256.0).reshape((-1,) + (1,) * mean.ndim)

    def unfinished(state):
        return jnp.any(state[2])

    def advance(state):
        first, total, _ = state
        k = first[None] + step[None] * offsets
        inside = jnp.ones(k.shape, bool) if high is None else k <= high[None]
        terms = _terms(log_prob, jnp.where(inside, k, 0.0), inside)
        added, last = terms.sum(0), first + 256 * step
        if high is not None:
            return last, total + added, last <= high
        return last, total + added, (last < mean) | (added > 1e-17 * (total + added))

    busy = jnp.ones(mean.shape, bool)
    return step * jax.lax.while_loop(unfinished, advance, (start, jnp.zeros_like(mean), busy))[1]


def log_sums_of_ratios(ratio: Callable[[Array], Array], count: Array) -> Array:
    r"""$\log(1 + r_0 + r_0 r_1 + \dots + r_0\cdots r_{m-1})$ with $m$ = `count` and $r_i$ = `ratio(i)`,
    elementwise."""

    def unfinished(state):
        return jnp.any(state[0] < count)

    def advance(state):
        i, term, total = state
        for _ in range(8):  # eight terms in one pass over memory
            more = i < count
            term = jnp.where(more, term * ratio(jnp.where(more, i, 0.0)), 0.0)
            total = total + term
            i = i + 1
        return i, term, total

    one = jnp.ones_like(count)
    return jnp.log(jax.lax.while_loop(unfinished, advance, (jnp.zeros((), count.dtype), one, one))[2])


def _lattice_step(variance: Array) -> Array:
    return jax.lax.stop_gradient(jnp.maximum(1.0, jnp.ceil(jnp.sqrt(variance) / 16)))


def _terms(log_prob: Callable[[Array], Array], k: Array, inside: Array) -> Array:
    """-P log P, zero where P is."""
    log_p = jnp.where(inside, log_prob(k), -jnp.inf)
    possible = log_p > -jnp.inf
    return -jnp.exp(log_p) * jnp.where(possible, log_p, 0.0)
