r"""Exact draws of counts and of shares.

Algorithms.  A binomial count by waiting times or by transformed rejection, with the full mass in the test of
             acceptance; multinomial counts by binomial counts of what is left; shares by log-Gamma variables.
Used by.     distributions.multinomial, distributions.multivariate.
Cost.        A bounded expected number of proposals per binomial draw, whatever the total.
References.  Hormann (1993), "The generation of binomial random variates" (algorithm BTRS); Devroye (1986),
             sections X.4.3 and XI.4.
"""

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.iterate import run
from tractable.core.numerics import log_softmax
from tractable.core.types import Array, Key, Shape
from tractable.distributions.special import log_binomial

__all__ = ["log_shares", "sample_binomial", "sample_multinomial"]


def sample_binomial(key: Key, total: Array, p: Array, q: Array, shape: Shape) -> Array:
    r"""The number of successes in `total` trials of probability $p = 1 - q$: floats of shape `shape`.

    Successes are counted by their waiting times where fewer than ten are expected, else drawn by rejection,
    with the exact mass in the acceptance test. Loops number their keys and carry none: `vmap` may choose
    between carried values, which would be a second use of a key.
    """
    total, p, q = (jnp.broadcast_to(a, shape) for a in (total, p, q))
    less, more = jnp.minimum(p, q), jnp.maximum(p, q)
    few = ~(total * less >= 10)  # also for NaN, on which the rejection would never end
    key_few, key_many = jr.split(key)
    waited = _by_waiting(key_few, jnp.where(few, total, 0.0), jnp.where(few, less, 0.0))
    half = jnp.where(few, 0.5, less), jnp.where(few, 0.5, more)
    count = jnp.where(few, waited, _by_rejection(key_many, jnp.where(few, 100.0, total), *half))
    return jnp.where(jnp.isnan(total * p * q), jnp.nan, jnp.where(p <= q, count, total - count))


def sample_multinomial(key: Key, total: Array, probs: Array) -> Array:
    r"""One draw of counts for each row of `probs`, whose shape is `(n, k)`.

    $m_k \mid m_1, \dots, m_{k-1} \sim \mathrm{Binomial}(n - \sum_{j<k} m_j,\ p_k / \sum_{j\ge k} p_j)$.
    """
    columns = probs.T
    left = jnp.cumsum(columns[::-1], axis=0)[::-1]
    after = jnp.concatenate([left[1:], jnp.zeros_like(left[:1])])  # zero at the end: no trial is left over
    some = left > 0
    scale = jnp.where(some, left, 1.0)

    def step(remaining, column):
        i, p, q = column
        count = sample_binomial(jr.fold_in(key, i), remaining, p, q, remaining.shape)
        return remaining - count, count

    inputs = (jnp.arange(len(columns)), columns / scale, jnp.where(some, after / scale, 1.0))
    return run(step, jnp.broadcast_to(total, probs.shape[:1]), inputs).trace.T


def log_shares(key: Key, concentration: Array, n: int) -> Array:
    """Logarithms of `n` Dirichlet draws; at a concentration of 1e-3 all the Gamma variables would be zero."""
    return log_softmax(jr.loggamma(key, concentration, (n, concentration.size), concentration.dtype))


def _by_waiting(key: Key, total: Array, p: Array) -> Array:
    """Trials up to each success are geometric: successes are counted until the trials are used up."""
    log_failure = jnp.log1p(-p)

    def proceed(carry):
        return (carry[1] <= total).any()

    def wait(carry):
        i, trials, count = carry
        u = jr.uniform(jr.fold_in(key, i), total.shape, total.dtype)
        trials = trials + jnp.ceil(jnp.log(u) / log_failure)
        return i + 1, trials, count + (trials <= total)

    zero = jnp.zeros_like(total)
    return jax.lax.while_loop(proceed, wait, (0, zero, zero))[2]


def _by_rejection(key: Key, total: Array, p: Array, q: Array) -> Array:
    """Transformed rejection with a squeeze, for `p` up to a half and an expected count of ten or more."""
    spread = jnp.sqrt(total * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p

    def log_mass(k):
        return log_binomial(k, total - k, p, q)

    top = log_mass(jnp.floor((total + 1) * p))

    def proceed(carry):
        return ~carry[1].all()

    def propose(carry):
        i, done, count = carry
        key_u, key_v = jr.split(jr.fold_in(key, i))
        u = jr.uniform(key_u, total.shape, total.dtype) - 0.5
        v = jr.uniform(key_v, total.shape, total.dtype)
        edge = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * a / edge + b) * u + total * p + 0.5)
        inside = (k >= 0) & (k <= total)
        height = jnp.log(v) + jnp.log((2.83 + 5.1 / b) * spread / (a / edge**2 + b))
        below = height <= log_mass(jnp.where(inside, k, 0.0)) - top
        accept = ((edge >= 0.07) & (v <= 0.92 - 4.2 / b)) | (inside & below)
        return i + 1, done | accept, jnp.where(accept & ~done, k, count)

    start = (0, jnp.zeros(total.shape, bool), jnp.zeros_like(total))
    return jax.lax.while_loop(proceed, propose, start)[2]
