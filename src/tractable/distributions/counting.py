r"""Exact draws of several counts that add up, and of shares.

Algorithms.  Multinomial counts by binomial counts of what is left; shares by log-Gamma variables.
Cost.        A bounded expected number of proposals per count, whatever the total.
References.  Devroye (1986), section XI.4.
"""

import jax.numpy as jnp
import jax.random as jr

from tractable.core.iterate import run
from tractable.core.numerics import log_softmax
from tractable.core.types import Array, Key
from tractable.distributions.samplers import binomial_draw

__all__ = ["log_shares", "sample_multinomial"]


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
        count = binomial_draw(jr.fold_in(key, i), remaining, p, q, remaining.shape)
        return remaining - count, count

    inputs = (jnp.arange(len(columns)), columns / scale, jnp.where(some, after / scale, 1.0))
    return run(step, jnp.broadcast_to(total, probs.shape[:1]), inputs).trace.T


def log_shares(key: Key, concentration: Array, n: int) -> Array:
    """Logarithms of `n` Dirichlet draws; at a concentration of 1e-3 all the Gamma variables would be zero."""
    return log_softmax(jr.loggamma(key, concentration, (n, concentration.size), concentration.dtype))
