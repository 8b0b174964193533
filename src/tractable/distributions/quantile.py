r"""Quantiles of distributions that are known by their tails: Newton in logarithms, and galloping.

Equation.    Find $y$ with $F(y) = p$. Of $\log F(y) = \log p$ and $\log(1 - F(y)) = \log q$ the one with the
             smaller tail is solved, so that a quantile at $q = 10^{-300}$ is as exact as the median.
Derivatives. From the implicit function: $dy = (dp - dF)/F'$, at the cost of one more evaluation of the tails.
Cost.        Four to eight evaluations of both tails at each point; the loop ends when every point has
             converged.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from tractable.core.checks import check
from tractable.core.types import Array, ArrayLike

__all__ = ["follow", "follow_weights", "invert_counts", "invert_tails"]

Tails = Callable[..., tuple[Array, Array]]


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def invert_tails(
    tails: Tails, log_slope: Callable[..., Array], params: tuple[Array, ...], p: Array, q: Array, start: Array
) -> Array:
    r"""The $y$ on the line with $F(y) = p = 1 - q$, elementwise, from a `start`.

    `tails(y, *params)` gives $\log F$ and $\log(1 - F)$, `log_slope(y, *params)` gives $\log F'$. Newton's
    step is taken where it stays inside the bracket found so far, else the bracket is halved or widened.
    """
    lower = p < q
    target = jnp.log(jnp.where(lower, p, q))
    tolerance = 0.1 * jnp.sqrt(jnp.finfo(p.dtype).eps)  # Newton doubles the digits: one step more is rounding

    def unfinished(state):
        return (state[0] < 200) & jnp.any(~state[4])

    def advance(state):
        k, y, low, high, done = state
        log_lower, log_upper = tails(y, *params)
        log_tail = jnp.where(lower, log_lower, log_upper)
        value = jnp.where(lower, log_tail - target, target - log_tail)
        low, high = jnp.where(value < 0, y, low), jnp.where(value >= 0, y, high)
        newton = y - value * jnp.exp(log_tail - log_slope(y, *params))
        wider = jnp.where(value < 0, 1.0, -1.0) * 2.0 ** jnp.minimum(k, 50)
        bounded = jnp.isfinite(low) & jnp.isfinite(high)
        safe = jnp.where(bounded, low / 2 + high / 2, y + wider.astype(y.dtype))
        moved = jnp.where((newton >= low) & (newton <= high) & jnp.isfinite(newton), newton, safe)
        settled = jnp.abs(moved - y) <= tolerance * jnp.maximum(1.0, jnp.abs(y))
        return k + 1, jnp.where(done, y, moved), low, high, done | settled

    infinite = jnp.full_like(p, jnp.inf)
    first = (0, jnp.broadcast_to(start, p.shape), -infinite, infinite, jnp.zeros(p.shape, bool))
    return jax.lax.while_loop(unfinished, advance, first)[1]


@invert_tails.defjvp
def _invert_tangent(tails, log_slope, primals, tangents):
    params, p, q, _ = primals
    moved, dp, dq, _ = tangents
    y = invert_tails(tails, log_slope, *primals)
    logs, slopes = jax.jvp(lambda *values: tails(y, *values), params, moved)
    lower = p < q
    residual = jnp.where(lower, slopes[0] - dp / p, dq / q - slopes[1])
    return y, -residual * jnp.exp(jnp.where(lower, *logs) - log_slope(y, *params))


def follow(x: Array, residual: Array, slope: Array) -> Array:
    """The root `x` of a residual, with the derivative of the implicit function: `residual` is what is left of
    the equation at the fixed `x`, `slope` its fall with x; no derivative where it does not fall."""
    falls = slope > 0
    step = residual / jax.lax.stop_gradient(jnp.where(falls, slope, jnp.inf))
    return x + (step - jax.lax.stop_gradient(step))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def follow_weights(shares: Callable[..., Array] | None, weights: Array, draws: Array, params: Any) -> Array:
    r"""`draws` of $\sum_k w_k p_k$, which move with $w$ at a fixed value of the distribution function.

    `shares(draws, weights, params)` gives $F_k(x)/p(x)$ along the last axis; without it, a derivative in the
    weights is refused by name, since labels have none.
    """
    return draws


def _follow_weights_tangent(shares, primals, tangents):
    weights, draws, params = primals
    moved, along = (t if not isinstance(t, SymbolicZero) else None for t in tangents[:2])
    along = jnp.zeros_like(draws) if along is None else along
    if moved is None:
        return draws, along
    must = "held fixed where draws of a mixture of vectors are differentiated: a label has no derivative"
    fix = "Use `jax.lax.stop_gradient(weights)`, or sum over the components."
    check(shares is not None, "weights", must, "weights with a derivative", fix, TypeError)
    rates = shares(draws, weights, params)
    moved = jnp.broadcast_to(moved.reshape((1,) * (rates.ndim - moved.ndim) + moved.shape), rates.shape)
    return draws, along - (rates * moved).sum(-1)


follow_weights.defjvp(_follow_weights_tangent, symbolic_zeros=True)


def invert_counts(
    tails: Callable[[Array], tuple[Array, Array]],
    p: Array,
    q: Array,
    rounding: tuple[float, float],
    high: ArrayLike,
    start: Array,
) -> Array:
    r"""The least whole number $k$ from 0 to `high` with $F(k) \ge p$, by galloping from `start` and halving.

    `p` and `q` are one less the other, and `rounding` says how far the subtraction has moved each. The
    comparison allows that and a relative $64\epsilon$, so that the quantile of `cdf(k)` is $k$ and not $k +
    1$.
    """
    eps = jnp.finfo(p.dtype).eps
    lower = p < q
    log_p, log_q = jnp.log(p - rounding[0]), jnp.log(q + rounding[1])
    slack = 64 * eps * (1 + jnp.abs(jnp.where(lower, log_p, log_q)))

    def reached(k):
        log_lower, log_upper = tails(k)
        return jnp.where(lower, log_lower >= log_p - slack, log_upper <= log_q + slack)

    def unfinished(state):
        return (state[0] < 2000) & jnp.any(state[3] - state[2] > 1)

    def advance(state):
        step, k, low, high, seen_low, seen_high = state
        hit, open_ = reached(k), high - low > 1
        high, low = jnp.where(open_ & hit, k, high), jnp.where(open_ & ~hit, k, low)
        seen_high, seen_low = seen_high | hit, seen_low | ~hit
        reach = 2.0 ** jnp.minimum(step + 1, 60)
        gallop = jnp.where(hit, k - reach, k + reach)
        middle = jnp.floor(low / 2 + high / 2)
        inside = jnp.where(seen_low & seen_high, middle, gallop.astype(k.dtype))
        return step + 1, jnp.clip(inside, low + 1, high - 1), low, high, seen_low, seen_high

    last = jnp.broadcast_to(high, p.shape).astype(p.dtype)
    k = jnp.clip(jnp.floor(jnp.broadcast_to(start, p.shape)), 0.0, jnp.maximum(0.0, last - 1))
    no = jnp.zeros(p.shape, bool)
    state = (0, k, jnp.full_like(p, -1.0), last, no, no)
    return jax.lax.while_loop(unfinished, advance, state)[3]
