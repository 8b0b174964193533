r"""Noise for contrastive estimation: word frequencies raised to a power, drawn in constant time.

Noise.       $q(w) \propto c_w^\alpha$: uniform ($\alpha = 0$), unigram ($1$), or in between ($3/4$). It must
             be positive wherever the data can be.
Alias.       Each of $V$ columns holds mass $1/V$ split between its own word and one other: a draw takes one
             column and one comparison, whatever $V$ is.
Set.         Each observation with label 1, $k$ draws of noise with label 0: $P(y = 1) = 1/(k + 1)$.
Cost.        $O(V)$ to build on the host, $O(1)$ per draw.
References.  Walker (1977); Vose (1991); Mikolov et al. (2013).
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries, check_nonnegative
from tractable.core.module import Module
from tractable.core.support import Support, integer_range
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Shape
from tractable.distributions.base import Distribution

__all__ = ["AliasNoise", "ContrastiveSet", "check_noise_support", "contrastive_set", "frequency_noise"]


class AliasNoise(Distribution):
    """A distribution over 0 to V - 1 whose draws take constant time; made by `frequency_noise`."""

    log_probs: Float[Array, " v"]
    keep: Float[Array, " v"]
    other: Int[Array, " v"]

    @property
    def unit_shape(self) -> Shape:
        return ()

    @property
    def support(self) -> Support:
        return integer_range(0, self.log_probs.size - 1)

    def _log_prob(self, x: Array) -> Array:
        return self.log_probs[x.astype(int)]

    def _sample(self, key: Key, n: int) -> Array:
        column_key, side_key = jr.split(key)
        column = jr.randint(column_key, (n,), 0, self.log_probs.size)
        own = jr.uniform(side_key, (n,)) < self.keep[column]
        return jnp.where(own, column, self.other[column])


class ContrastiveSet(Module):
    """Observations (label 1) and noise (label 0), with the contexts that they were paired with."""

    values: Array
    labels: Int[Array, " n"]
    contexts: Array | None


def frequency_noise(counts: ArrayLike, power: float = 0.75) -> AliasNoise:
    r"""$q(w) \propto c_w^{\mathrm{power}}$ over the words 0 to V - 1: 0 is uniform, 1 the frequencies.

    >>> round(float(frequency_noise([8.0, 1.0, 1.0], power=1.0).prob(0)), 6)
    0.8
    """
    c = np.asarray(as_float("counts", counts), float)
    check(c.ndim == 1 and c.size > 0, "counts", "a vector with an entry per word", f"shape {c.shape}")
    check_nonnegative("counts", c)
    check(bool(c.sum() > 0), "counts", "positive somewhere", c.tolist())
    check(0 <= power <= 1, "power", "from 0 (uniform) to 1 (the frequencies)", power)
    weights = np.where(c > 0, c, 1.0) ** power * ((c > 0) | (power == 0))
    probs = weights / weights.sum()
    keep, other = _alias_table(probs)
    with np.errstate(divide="ignore"):
        return AliasNoise(jnp.asarray(np.log(probs)), jnp.asarray(keep), jnp.asarray(other))


def contrastive_set(
    key: Key, data: ArrayLike, noise: Distribution, k: int, contexts: ArrayLike | None = None
) -> ContrastiveSet:
    """Each row of `data` with label 1, then `k` draws of `noise` per row with label 0, contexts kept."""
    positives, k = jnp.asarray(data), check_count("k", k)
    check(positives.ndim >= 1 and len(positives) > 0, "data", "at least one row", f"shape {positives.shape}")
    drawn = noise.sample(key, (k * len(positives),)).astype(positives.dtype)
    labels = jnp.concatenate([jnp.ones(len(positives), int), jnp.zeros(len(drawn), int)])
    paired = None if contexts is None else jnp.concatenate([jnp.asarray(contexts)] * (k + 1))
    return ContrastiveSet(jnp.concatenate([positives, drawn]), labels, paired)


def check_noise_support(probs: ArrayLike, noise_probs: ArrayLike) -> None:
    """Refuse noise that is impossible where the data are not: the ratio there can never be learnt."""
    p, q = np.asarray(probs), np.asarray(noise_probs)
    check(p.shape == q.shape, "noise_probs", f"of shape {p.shape}", f"shape {q.shape}")
    fix = "Mix in a little of the uniform distribution, or lower `power`."
    check_entries("noise_probs", q, lambda v: (p == 0) | (v > 0), "positive wherever the data are", fix)


def _alias_table(probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vose's construction: fill each short column up from a tall one."""
    size = len(probs)
    keep, other = probs * size, np.arange(size)
    short, tall = list(np.flatnonzero(keep < 1)), list(np.flatnonzero(keep >= 1))
    while short and tall:
        low, high = short.pop(), tall[-1]
        other[low] = high
        keep[high] -= 1 - keep[low]
        if keep[high] < 1:
            short.append(tall.pop())
    keep[short + tall] = 1.0  # what is left is one up to rounding
    return keep, other
