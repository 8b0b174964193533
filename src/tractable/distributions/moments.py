r"""Moments of finitely many values, the laws of total expectation and variance, Jensen's gap.

Identities.  $E[f(X)] = \sum_i p_i f(x_i)$; $\mathrm{Cov}[X, Y] = E[(X - EX)(Y - EY)]$;
             $E[Y] = E[E[Y \mid X]]$;
             $\mathrm{Var}[Y] = E[\mathrm{Var}[Y \mid X]] + \mathrm{Var}[E[Y \mid X]]$;
             $E[f(X)] \ge f(E[X])$ for convex $f$.
             An outcome of probability zero contributes nothing, whatever its value.
Cost.        Linear in the number of values.
References.  Grimmett and Stirzaker (2020) chapters 3 and 4.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_length, is_concrete
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.information import Numbers, as_probabilities
from tractable.distributions.tabulation import as_weights, column_codes

__all__ = [
    "Groups", "TotalVariance", "covariance", "expectation", "group_moments", "jensen_gap",
    "total_expectation", "total_variance", "variance",
]  # fmt: skip


class TotalVariance(Module):
    """The two parts of a variance: `within` groups on average, and `between` the means of groups."""

    within: Scalar
    between: Scalar

    @property
    def total(self) -> Scalar:
        return self.within + self.between


class Groups(Module):
    """What the laws of total expectation and variance need to know about each group."""

    probs: Float[Array, " groups"]
    means: Float[Array, " groups"]
    variances: Float[Array, " groups"]
    labels: tuple[Any, ...] = field(static=True)


def expectation(values: Numbers, probs: Numbers | None = None) -> Array:
    """The mean of `values`, whose first axes are those of `probs`; without `probs`, of equally likely entries
    of the first axis.

    >>> round(float(expectation([70.0, 71.0], [0.47, 0.53])), 6)
    70.53
    """
    x = as_float("values", values)
    p = _equal_shares(x) if probs is None else as_probabilities("probs", probs)
    must = f"an array whose first axes are those of `probs` {p.shape}"
    check(x.shape[: p.ndim] == p.shape, "values", must, f"shape {x.shape}")
    return _mean(x, p)


def variance(values: Numbers, probs: Numbers | None = None) -> Array:
    r"""$E[(X - E[X])^2]$ (divided by $n$, not $n - 1$, for equally likely values)."""
    return expectation(jnp.square(_centred(as_float("values", values), probs)), probs)


def covariance(first: Numbers, second: Numbers, probs: Numbers | None = None) -> Scalar:
    r"""$E[(X - E[X])(Y - E[Y])]$ for pairs of values with joint probabilities `probs`.

    >>> round(float(covariance([-1.0, 0.0, 1.0], [1.0, 2.0, 6.0])), 6)
    1.666667
    """
    x, y = as_float("first", first), as_float("second", second)
    check(x.shape == y.shape, "second", f"of the shape of `first`, {x.shape}", f"shape {y.shape}")
    return expectation(_centred(x, probs) * _centred(y, probs), probs)


def total_expectation(probs: Numbers, means: Numbers) -> Scalar:
    r"""$E[Y] = \sum_g P(g)\,E[Y \mid g]$: the overall mean from the probabilities and means of groups."""
    return expectation(means, probs)


def total_variance(probs: Numbers, means: Numbers, variances: Numbers) -> TotalVariance:
    r"""$\mathrm{Var}[Y] = \sum_g P(g) \mathrm{Var}[Y \mid g] + \sum_g P(g) (E[Y \mid g] - E[Y])^2$."""
    return TotalVariance(expectation(variances, probs), variance(means, probs))


def group_moments(values: Numbers, groups: Any, weights: Numbers | None = None) -> Groups:
    """The share, mean and variance of each group of rows; a weight of two is the row twice."""
    labels, codes = column_codes("groups", groups)
    y = as_float("values", values)
    check_length("values", y, "groups", codes)
    w = jnp.ones_like(y) if weights is None else as_float("weights", weights)
    if is_concrete(w):
        as_weights(w, codes)

    def total(terms):
        return jax.ops.segment_sum(terms, jnp.asarray(codes), len(labels))

    count = total(w)
    means = total(w * y) / count
    spread = total(w * jnp.square(y - means[codes])) / count
    return Groups(count / count.sum(), means, spread, labels)


def jensen_gap(function: Callable[[Array], Array], values: Numbers, probs: Numbers | None = None) -> Scalar:
    r"""$E[f(X)] - f(E[X])$ for `function` of one value: at least 0 for convex $f$, at most 0 for concave.

    >>> float(jensen_gap(jnp.square, jnp.array([1.0, 3.0])))  # the variance
    1.0
    """
    x = as_float("values", values)
    return expectation(jax.vmap(function)(x), probs) - function(expectation(x, probs))


@jax.jit
def _mean(x: Array, p: Array) -> Array:
    possible = (p != 0).reshape(p.shape + (1,) * (x.ndim - p.ndim))
    return jnp.tensordot(p, jnp.where(possible, x, 0.0), p.ndim)


def _centred(x: Array, probs: Numbers | None) -> Array:
    mean = expectation(x, probs)
    return x - mean.reshape((1,) * (x.ndim - mean.ndim) + mean.shape)


def _equal_shares(x: Array) -> Array:
    check(x.ndim > 0 and x.size > 0, "values", "an array with at least one entry", f"shape {x.shape}")
    return jnp.full(x.shape[0], 1.0 / x.shape[0], x.dtype)
