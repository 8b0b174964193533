r"""Weights in log space: normalise them, count what they are worth, average them, resample by them.

Identities.  $\tilde w_i = w_i / \sum_j w_j$; effective sample size $(\sum_i w_i)^2 / \sum_i w_i^2$;
             $\widehat{E}f = \sum_i \tilde w_i f_i$ with variance about
             $\sum_i \tilde w_i^2 (f_i - \widehat{E}f)^2$; $\log\frac1n\sum_i w_i$ with standard error
             $\mathrm{sd}(w) / (\sqrt n\,\bar w)$.
Resampling.  $n$ indices with $E[\#i] = n\,\tilde w_i$ in every scheme: independent draws (multinomial), one
             draw per stratum (stratified), one shift for all strata (systematic), or the whole part of
             $n\,\tilde w_i$ for certain and the rest by independent draws (residual).
Cost.        Linear in the number of weights, and one sort of $n$ numbers for resampling.
References.  Kong (1992); Douc, Cappe and Moulines (2005), "Comparison of resampling schemes"; Owen (2013)
             chapter 9.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core import support
from tractable.core.checks import as_float, check, check_count, check_option, is_concrete
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.numerics import log_mean_exp, log_softmax, logsumexp
from tractable.core.types import Array, ArrayLike, Int, Key

__all__ = [
    "Estimate", "as_log_weights", "effective_sample_size", "log_mean_weight", "mean_estimate", "normalise",
    "resample", "resampling_schemes", "weighted_mean",
]  # fmt: skip


def as_log_weights(log_weights: Any, name: str = "log_weights") -> Array:
    """`log_weights` as floats: below infinity, not NaN, and (along the last axis) not all minus infinity."""
    values = as_float(name, log_weights)
    check(values.ndim > 0 and values.shape[-1] > 0, name, "at least one weight", f"shape {values.shape}")
    if is_concrete(values):
        ok = np.asarray(support.log_weights.contains(np.asarray(values)))
        if not ok.all():
            row = np.asarray(values)[tuple(np.argwhere(~ok)[0])]
            bad = row[~(row < np.inf)]
            got = f"{bad[0]}" if len(bad) else "minus infinity everywhere"
            check(False, name, support.log_weights.words, got, "Look at the density and the proposal.")
    return values


def normalise(log_weights: ArrayLike) -> Array:
    r"""$\log \tilde w_i$ along the last axis: the logarithms of weights that sum to one.

    >>> jnp.exp(normalise([0.0, 0.0, -jnp.inf])).tolist()
    [0.5, 0.5, 0.0]
    """
    return log_softmax(as_log_weights(log_weights))


def effective_sample_size(log_weights: ArrayLike) -> Array:
    r"""$(\sum_i w_i)^2 / \sum_i w_i^2$ along the last axis: from 1 (one weight has it all) to $n$ (equal).

    It is blind to what was never drawn: `inference.weighted.pareto.smooth` looks at the tail of the weights.

    >>> float(effective_sample_size([0.0, 0.0, -jnp.inf]))
    2.0
    """
    return _effective_sample_size(as_log_weights(log_weights))


def log_mean_weight(log_weights: ArrayLike) -> Estimate:
    r"""$\log\frac1n\sum_i w_i$ along the last axis, with its standard error by the delta method.

    For weights $\tilde p(x_i)/q(x_i)$ this is the log-evidence. The mean is unbiased, its logarithm low by
    about half the squared standard error.
    """
    return _log_mean_weight(as_log_weights(log_weights))


def weighted_mean(values: ArrayLike, log_weights: ArrayLike) -> Estimate:
    r"""$\sum_i \tilde w_i f_i$ over the first axis of `values`, with the standard error of the delta method.

    A draw of weight zero contributes nothing, whatever its value.
    """
    f, logs = as_float("values", values), as_log_weights(log_weights)
    check(logs.ndim == 1, "log_weights", "a vector", f"shape {logs.shape}", "Use `jax.vmap` for more.")
    check(f.shape[:1] == logs.shape, "values", f"one per weight ({logs.shape[0]})", f"shape {f.shape}")
    return _weighted_mean(f, logs)


def share_estimate(count: Array, total: Array) -> Estimate:
    r"""A share $r = $ `count / total` of independent trials, with the standard error $\sqrt{r(1 - r)/n}$."""
    rate = count / total
    return Estimate(rate, jnp.sqrt(rate * (1 - rate) / total))


def mean_estimate(values: ArrayLike) -> Estimate:
    r"""$\frac1n\sum_i f_i$ over the first axis, with $\mathrm{sd}(f)/\sqrt n$: plain Monte Carlo.

    >>> mean_estimate([1.0, 2.0, 3.0])
    2 ± 0.58
    """
    f = as_float("values", values)
    check(f.ndim > 0 and f.shape[0] > 1, "values", "two or more along the first axis", f"shape {f.shape}")
    return _mean_estimate(f)


@takes_key
def resample(
    key: Key, log_weights: ArrayLike, num_draws: int | None = None, *, method: str = "systematic"
) -> Int[Array, " m"]:
    r"""Indices $0 \dots n - 1$, as many as `num_draws` (default: as there are weights), in rising order.

    Index $i$ appears `num_draws` $\cdot\, \tilde w_i$ times on average in every scheme; `systematic` and
    `stratified` and `residual` scatter less around it than `multinomial`. A weight of zero is never chosen.
    Inside a compiled program weights that are all zero cannot be refused: look at `log_mean_weight`, which is
    minus infinity there.
    """
    check_option("method", method, resampling_schemes)
    logs = as_log_weights(log_weights)
    check(logs.ndim == 1, "log_weights", "a vector", f"shape {logs.shape}", "Use `jax.vmap` for more.")
    count = logs.shape[0] if num_draws is None else check_count("num_draws", num_draws)
    return _resample(key, logs, count, method)


@jax.jit
def _effective_sample_size(logs: Array) -> Array:
    top = logsumexp(logs, axis=-1)
    possible = top > -jnp.inf
    shifted = logs - jnp.where(jnp.isneginf(top), 0.0, top)[..., None]
    return jnp.where(possible | jnp.isnan(top), jnp.exp(-logsumexp(2 * shifted, axis=-1)), 0.0)


@jax.jit
def _log_mean_weight(logs: Array) -> Estimate:
    count = logs.shape[-1]
    value = log_mean_exp(logs, axis=-1)
    ratio = jnp.exp(logs - value[..., None]) - 1  # about its mean: equal weights have no spread at all
    if count < 2:
        return Estimate(value, jnp.full_like(value, jnp.inf))
    return Estimate(value, jnp.sqrt((ratio**2).sum(-1) / (count * (count - 1))))


@jax.jit
def _weighted_mean(f: Array, logs: Array) -> Estimate:
    w = jnp.exp(log_softmax(logs)).reshape((-1,) + (1,) * (f.ndim - 1))
    present = jnp.where(w > 0, f, 0.0)
    mean = (w * present).sum(0)
    return Estimate(mean, jnp.sqrt((jnp.where(w > 0, w * (present - mean[None]), 0.0) ** 2).sum(0)))


@jax.jit
def _mean_estimate(f: Array) -> Estimate:
    return Estimate(f.mean(0), f.std(0, ddof=1) / jnp.sqrt(f.shape[0]))


@partial(jax.jit, static_argnums=(2, 3))
def _resample(key: Key, logs: Array, count: int, method: str) -> Array:
    return _SCHEMES[method](key, jnp.exp(log_softmax(logs)), count)


def _locate(weights: Array, positions: Array) -> Array:
    """The index in whose stretch of the cumulative weights each position in [0, 1) falls."""
    cumulative = jnp.cumsum(weights)
    # (n - 1 + u)/n may round up to 1, past the last stretch
    below = jnp.minimum(positions, 1 - jnp.finfo(positions.dtype).eps)
    return jnp.searchsorted(cumulative, below * cumulative[-1], side="right")


def _multinomial(key: Key, weights: Array, count: int) -> Array:
    return _locate(weights, jnp.sort(jr.uniform(key, (count,), weights.dtype)))


def _stratified(key: Key, weights: Array, count: int) -> Array:
    return _locate(weights, (jnp.arange(count) + jr.uniform(key, (count,), weights.dtype)) / count)


def _systematic(key: Key, weights: Array, count: int) -> Array:
    return _locate(weights, (jnp.arange(count) + jr.uniform(key, (), weights.dtype)) / count)


def _residual(key: Key, weights: Array, count: int) -> Array:
    whole = jnp.floor(count * weights)
    ends = jnp.cumsum(whole)
    certain = jnp.searchsorted(ends, jnp.arange(count, dtype=ends.dtype), side="right")
    # not in order: those that take the last places must be as good as any
    drawn = _locate(count * weights - whole, jr.uniform(key, (count,), weights.dtype))
    return jnp.sort(jnp.where(jnp.arange(count) < ends[-1], certain, drawn))


_SCHEMES = {
    "multinomial": _multinomial,
    "stratified": _stratified,
    "systematic": _systematic,
    "residual": _residual,
}
resampling_schemes = tuple(_SCHEMES)
