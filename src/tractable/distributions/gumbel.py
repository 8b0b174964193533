r"""Categorical draws by Gumbel noise: one index, several without replacement, and the law of the maximum.

Identity.    With independent $G_i \sim \mathrm{Gumbel}(0, 1)$, one for each index, $\arg\max_i (\mu_i + G_i)$
             has the probabilities $\mathrm{softmax}(\mu)$, and $\max_i (\mu_i + G_i) \sim
             \mathrm{Gumbel}(\log\sum_i e^{\mu_i}, 1)$, independent of it. One $G$ shared by all would always
             give $\arg\max_i \mu_i$.
Top k.       The $k$ largest, in falling order, are draws without replacement: $P(i_1..i_k) = \prod_j
             w_{i_j} / (W - w_{i_1} - \dots - w_{i_{j-1}})$ with $w = e^\mu$, $W = \sum_i w_i$.
Cost.        $O(n)$ a draw, $O(n \log k)$ for the $k$ largest.
References.  Gumbel (1954); Yellott (1977); Kool, van Hoof and Welling (2019), "Stochastic beams".
"""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries, is_concrete
from tractable.core.keys import takes_key
from tractable.core.numerics import logsumexp, safe_log
from tractable.core.support import log_weights, nonnegative
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Shape
from tractable.distributions.continuous import Gumbel

__all__ = ["gumbel_max", "gumbel_top_k", "maximum_of_gumbels", "perturbed", "top_k_log_prob"]


@takes_key
def gumbel_max(
    key: Key, logits: ArrayLike | None = None, shape: Shape = (), *, weights: ArrayLike | None = None
) -> Int[Array, "..."]:
    r"""Indices drawn along the last axis with probabilities $\mathrm{softmax}$(`logits`), or as `weights`.

    The result has shape `shape` plus the leading axes of the logits.

    >>> gumbel_max(jr.key(0), weights=jnp.array([0.0, 1.0, 0.0]), shape=(4,)).tolist()
    [1, 1, 1, 1]
    """
    return _draw(key, _logits(logits, weights), shape, None)


def gumbel_top_k(
    key: Key, k: int, logits: ArrayLike | None = None, shape: Shape = (), *, weights: ArrayLike | None = None
) -> Int[Array, "..."]:
    """`k` different indices in the order of drawing without replacement; the first is a `gumbel_max` draw."""
    values = _logits(logits, weights)
    k = check_count("k", k, 0, values.shape[-1])
    if is_concrete(values):
        possible = int((np.asarray(values) > -np.inf).sum(-1).min())
        check(k <= possible, "k", f"at most the number of possible indices, {possible}", k)
    return _draw(key, values, shape, k)


def top_k_log_prob(
    items: ArrayLike, logits: ArrayLike | None = None, *, weights: ArrayLike | None = None
) -> Float[Array, ""]:
    r"""$\log P(i_1, \dots, i_k)$ of an ordered draw without replacement; $-\infty$ where an index repeats."""
    values, items = _logits(logits, weights), jnp.asarray(items)
    check(values.ndim == 1, "logits", "one vector", f"shape {values.shape}", "Use `jax.vmap`.")
    check(items.ndim == 1, "items", "one list of indices", f"shape {items.shape}", "Use `jax.vmap`.")

    return _ordered_log_prob(values, items)


def maximum_of_gumbels(logits: ArrayLike, scale: ArrayLike = 1.0) -> Gumbel:
    r"""The law of $\max_i (\mu_i + \beta G_i)$: location $\beta \log\sum_i e^{\mu_i / \beta}$."""
    values, scale = _logits(logits, None), as_float("scale", scale)
    return Gumbel(scale * logsumexp(values / scale, axis=-1), scale)


def perturbed(key: Key, logits: Float[Array, "..."], shape: Shape = ()) -> Float[Array, "..."]:
    r"""$\mu_i + G_i$ with independent standard Gumbel noise for each entry of `shape + logits.shape`."""
    full = shape + logits.shape
    return jnp.broadcast_to(logits, full) + jr.gumbel(key, full, logits.dtype)


@partial(jax.jit, static_argnums=(2, 3))
def _draw(key: Key, logits: Array, shape: Shape, k: int | None) -> Array:
    noisy = perturbed(key, logits, shape)
    return jnp.argmax(noisy, axis=-1) if k is None else jax.lax.top_k(noisy, k)[1]


@jax.jit
def _ordered_log_prob(logits: Array, items: Array) -> Array:
    def draw(left, item):
        log = left[item] - logsumexp(left)
        return left.at[item].set(-jnp.inf), log

    return jax.lax.scan(draw, logits, items)[1].sum()


def _logits(logits: ArrayLike | None, weights: ArrayLike | None) -> Array:
    """The log-weights from exactly one of the two; a weight of zero is an impossible index."""
    given = "neither" if logits is None else "both"
    check((logits is None) != (weights is None), "logits", "given, or else `weights`, not both", given)
    name, support = ("logits", log_weights) if weights is None else ("weights", nonnegative)
    values = as_float(name, logits if weights is None else weights)
    must = "an array with an entry for each index"
    check(values.ndim >= 1 and values.shape[-1] > 0, name, must, f"shape {values.shape}")
    if is_concrete(values):
        array = np.asarray(values)
        check_entries(name, array, support.contains, support.words)
        must = "not all zero along the last axis"
        check(weights is None or (array > 0).any(-1).all(), name, must, "zeros only")
    return values if weights is None else safe_log(values)
