r"""Distributions over given numbers: a point mass, a finite table of values and probabilities, weighted data.

Models.      $P(x) = \sum_i w_i\,1\{x = v_i\}$ with $w_i \ge 0$ and $\sum_i w_i = 1$; the empirical
             distribution of data has $w_i = 1/N$. Values are kept in increasing order; equal values of
             `Empirical` share their weights.
Cost.        A sort at construction; a binary search for each point, draw and quantile.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_entries, is_concrete
from tractable.core.module import field
from tractable.core.numerics import logit, safe_log, xlogy
from tractable.core.support import Support, nonnegative, real, simplex
from tractable.core.types import Array, ArrayLike, Float
from tractable.distributions.base import Univariate

__all__ = [
    "Atomic",
    "Atoms",
    "Empirical",
    "Finite",
    "PointMass",
    "generalised_inverse",
    "log_odds",
    "log_of",
    "one_of_probs_or_logits",
]


class Atoms(Support):
    r"""$\{v_1, \dots, v_n\}$, given in increasing order along the last axis of `values`."""

    values: Any
    discrete: ClassVar[bool] = True

    @property
    def words(self) -> str:
        return f"one of the {jnp.shape(self.values)[-1]} values of the distribution"

    @property
    def low(self) -> Array:
        return jnp.asarray(self.values)[..., 0]

    @property
    def high(self) -> Array:
        return jnp.asarray(self.values)[..., -1]

    def contains(self, x):
        return _contains(jnp.asarray(self.values), jnp.asarray(x))

    def interior(self, like):
        return jnp.broadcast_to(self.low, jnp.shape(like))


class Atomic(Univariate):
    """A distribution with probabilities on finitely many numbers, in increasing order."""

    values: eqx.AbstractVar[Array]
    probs: eqx.AbstractVar[Array]

    @property
    def support(self) -> Support:
        return Atoms(self.values)

    def _log_prob(self, x):
        return safe_log(_lookup(self.values, _shared(self.values, self.probs), x, "left"))

    def _sample(self, key, n):
        u = jr.uniform(key, n, self.probs.dtype, jnp.finfo(self.probs.dtype).tiny)
        return self._icdf(u)

    def _mean(self):
        return (self.probs * self.values).sum(-1)

    def _variance(self):
        return (self.probs * (self.values - self._mean()[..., None]) ** 2).sum(-1)

    def _entropy(self):
        return -xlogy(self.probs, _shared(self.values, self.probs)).sum(-1)

    def _mode(self):
        return self._mode_within(-jnp.inf, jnp.inf)

    def _mode_within(self, low, high):
        """The heaviest value from `low` to `high`; NaN where several tie."""
        inside = (self.values >= low) & (self.values <= high)
        mass = jnp.where(inside, _shared(self.values, self.probs), -1.0)
        best = mass == mass.max(-1, keepdims=True)
        least = jnp.where(best, self.values, jnp.inf).min(-1)
        most = jnp.where(best, self.values, -jnp.inf).max(-1)
        return jnp.where(least == most, least, jnp.nan)

    def _cdf(self, x):
        return _lookup(self.values, jnp.cumsum(self.probs, -1), x, "right")

    def _survival(self, x):
        beyond = jnp.cumsum(self.probs[..., ::-1], -1)[..., ::-1] - self.probs
        return _lookup(self.values, beyond, x, "right")

    def _icdf(self, p):
        index = generalised_inverse(jnp.cumsum(self.probs, -1), p)
        return jnp.take_along_axis(self.values, index[..., None], -1)[..., 0]


class Finite(Atomic):
    r"""$P(v_i) = p_i$ over distinct numbers $v_i$ = `values` and $p_i$ = `probs`, whose sum is one.

    >>> coins = Finite([1.0, 2.0, 5.0], [0.5, 0.25, 0.25])
    >>> float(coins.mean), float(coins.cdf(3.0))
    (2.25, 0.75)
    """

    values: Float[Array, "... n"] = field(support=real, rank=1)
    probs: Float[Array, "... n"] = field(support=simplex)

    def __init__(self, values: ArrayLike | Sequence, probs: ArrayLike | Sequence):
        self.values, self.probs = _in_order(as_float("values", values), as_float("probs", probs), "probs")

    def __check_init__(self) -> None:
        super().__check_init__()
        if is_concrete(self.values):
            values = np.asarray(self.values)
            same = values[..., 1:] == values[..., :-1]
            if same.any():
                repeated = values[..., 1:][same][0]
                fix = "Add up the probabilities of equal values, or use `Empirical`."
                check(False, "values", "distinct", f"{repeated} more than once", fix)


class Empirical(Atomic):
    r"""$P(x) = \sum_i w_i 1\{x = v_i\} / \sum_i w_i$ over data `values`, with equal weights unless `weights`
    are given.

    `icdf` is the weighted quantile: the least value at which the weights so far reach the share `p`.
    """

    values: Float[Array, "... n"] = field(support=real, rank=1)
    probs: Float[Array, "... n"] = field(support=simplex)

    def __init__(self, values: ArrayLike | Sequence, weights: ArrayLike | Sequence | None = None):
        data = as_float("values", values)
        check(data.ndim > 0 and data.size > 0, "values", "at least one number", f"shape {data.shape}")
        given = jnp.ones_like(data) if weights is None else as_float("weights", weights)
        if is_concrete(given):
            check_entries("weights", given, nonnegative.contains, nonnegative.words)
            check(bool((given.sum(-1) > 0).all()), "weights", "positive in total", "zeros")
        ordered, weight = _in_order(data, given, "weights")
        self.values, self.probs = ordered, weight / weight.sum(-1, keepdims=True)


class PointMass(Univariate):
    r"""$P(x = v) = 1$ with $v$ = `value`: certainty, as a distribution."""

    value: Float[Array, "..."] = field(support=real)

    @property
    def support(self) -> Support:
        return Atoms(self.value[..., None])

    def _log_prob(self, x):
        return jnp.zeros_like(x)

    def _sample(self, key, n):
        return jnp.broadcast_to(self.value, n)

    def _mean(self):
        return self.value

    def _variance(self):
        return jnp.zeros_like(self.value)

    def _entropy(self):
        return jnp.zeros_like(self.value)

    def _mode(self):
        return self.value

    def _cdf(self, x):
        return jnp.ones_like(x)

    def _icdf(self, p):
        return jnp.broadcast_to(self.value, p.shape)


def one_of_probs_or_logits(probs: Any, logits: Any, support: Support, to_logits: Callable) -> Any:
    """The logits of a distribution that is given by exactly one of its probabilities and its logits.

    Probabilities that have values are turned by NumPy, whose logarithms are right to the last digit: the
    errors of a total of $10^8$ are those of its probability, times the total.
    """
    both = probs is not None and logits is not None
    got = "both" if both else "neither"
    check((probs is None) != (logits is None), "probs", "given, or else `logits`, and not both", got)
    if probs is None:
        return logits
    array = as_float("probs", probs)
    must = f"an array with at least {support.ndim} axes"
    check(array.ndim >= support.ndim, "probs", must, f"shape {array.shape}")
    if is_concrete(array):
        values = np.asarray(array)
        check_entries("probs", values, support.contains, support.words)
        with np.errstate(divide="ignore"):
            return to_logits(values)
    return to_logits(array)


def log_odds(p: Any) -> Any:
    """log p - log(1 - p), by NumPy for its arrays."""
    return np.log(p) - np.log1p(-p) if isinstance(p, np.ndarray) else logit(p)


def log_of(p: Any) -> Any:
    """log p, by NumPy for its arrays."""
    return np.log(p) if isinstance(p, np.ndarray) else safe_log(p)


def generalised_inverse(cumulative: Array, p: Array) -> Array:
    r"""The generalised inverse $\min\{i : F_i \ge p\}$ of a table of cumulative probabilities along the last
    axis.

    The comparison allows the rounding of a cumulative sum, $32\epsilon$ relative. An entry of probability
    zero is never found for $p > 0$, nor one past the last that has any.
    """
    missing = p.ndim + 1 - cumulative.ndim
    cumulative = cumulative.reshape((1,) * missing + cumulative.shape)
    scaled = p * (1 - 32 * jnp.finfo(p.dtype).eps)
    last = (cumulative < cumulative[..., -1:]).sum(-1)
    if cumulative.shape[-1] <= 64:
        count = (cumulative < scaled[..., None]).sum(-1)
    else:
        count = jnp.vectorize(jnp.searchsorted, signature="(n),()->()")(cumulative, scaled)
    return jnp.minimum(count, last).astype(int)


def _in_order(values: Array, weights: Array, name: str) -> tuple[Array, Array]:
    check(values.ndim > 0, "values", "an array with at least one axis", f"shape {values.shape}")
    same = weights.ndim > 0 and weights.shape[-1] == values.shape[-1]
    check(same, name, f"as long as `values` ({values.shape[-1]})", f"shape {weights.shape}")
    values, weights = (
        jnp.broadcast_arrays(values, weights) if values.ndim == weights.ndim else (values, weights)
    )
    check_entries("values", values, real.contains, real.words)
    must = f"of the shape of `values`, {values.shape}"
    check(values.shape == weights.shape, name, must, f"shape {weights.shape}")
    order = jnp.argsort(values, -1)
    return jnp.take_along_axis(values, order, -1), jnp.take_along_axis(weights, order, -1)


def _contains(values: Array, x: Array) -> Array:
    def one(row, point):
        return row[jnp.minimum(jnp.searchsorted(row, point), row.size - 1)] == point

    return jnp.vectorize(one, signature="(n),()->()")(values, x)


def _lookup(values: Array, table: Array, x: Array, side: str) -> Array:
    """The entry of `table` at the first value from x on (`left`) or at the last value up to x (`right`)."""

    def one(row, entries, point):
        index = jnp.searchsorted(row, point, side=side) - (1 if side == "right" else 0)
        return entries[jnp.clip(index, 0, row.size - 1)]

    return jnp.vectorize(one, signature="(n),(n),()->()")(values, table, x)


def _shared(values: Array, probs: Array) -> Array:
    """The total probability of each value, which equal values share."""

    def one(row, weights):
        group = jnp.cumsum(jnp.concatenate([jnp.zeros(1, bool), row[1:] != row[:-1]]))
        return jax.ops.segment_sum(weights, group, row.size)[group]

    return jnp.vectorize(one, signature="(n),(n)->(n)")(values, probs)
