r"""Integrals and sums of a function of two log-densities, each with an estimate of its own error.

Integral.    $I = \int g(\log p(x), \log q(x))\,dx$ over the line, or the same sum over the atoms of $p$ and
             $q$.
Error.       Of an integral: 20 nodes per panel against 12, the tail that the outermost panels foretell, and
             the mass of $p$ that the panels miss. Where the tail does not shrink, the integral is infinite.
             Of a sum: the tail that the last block foretells, and the missing mass.
Cost.        About 6000 evaluations of each log-density for an integral; for a sum, blocks of whole numbers
             that grow until the tail is below $10^{-15}$ (4096 numbers inside `jit`, where no values are
             known).
References.  Davis and Rabinowitz (1984) chapter 6.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import check, is_concrete
from tractable.core.estimate import Estimate
from tractable.core.types import Array, ArrayLike, Scalar
from tractable.distributions.atoms import Atomic, PointMass
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.breakpoints import real_dtype, tail_levels
from tractable.distributions.pairs import over_units
from tractable.distributions.panels import (
    for_both,
    integrate_panels,
    outer_error,
    panel_edges,
    support_ends,
    tail_sum,
)

__all__ = [
    "Estimate",
    "certified",
    "integrate",
    "integrate_quantiles",
    "listed_values",
    "monte_carlo",
    "tabulate",
]

Integrand = Callable[[Array, Array], Array]

_MOST_TERMS = 2**20
_TRACED_TERMS = 2**12


def certified(estimate: Estimate) -> Scalar:
    """The value of a computed integral, or NaN where its error is not small: a wrong number is never
    returned."""
    return jnp.where(estimate.certified, estimate.value, jnp.nan)


def integrate(integrand: Integrand, p: Distribution, q: Distribution, *, crossings: bool = False) -> Estimate:
    r"""$\int g(\log p, \log q)\,dx$ (a sum for discrete `p` and `q`), added over independent numbers.

    `integrand` is elementwise, and 0 where both are $-\infty$; `crossings` also cuts panels where $p = q$,
    for kinks.
    """
    numbers = p.unit_shape == () and q.unit_shape == ()
    check(numbers, "p", "a distribution of numbers, as `q`", f"unit shapes {p.unit_shape} and {q.unit_shape}")
    got = f"{type(p).__name__} and {type(q).__name__}"
    check(p.discrete == q.discrete, "q", "discrete exactly if `p` is", got)
    if not p.discrete:
        value, error = _quadrature(integrand, p, q, crossings)
        return Estimate(value, error, method="quadrature")
    low, high = _integer_ends(p, q)
    if all(is_concrete(leaf) for leaf in jax.tree.leaves((p, q, low, high))):
        return _sum_until_certain(integrand, p, q, float(low), float(high))
    value, error, _ = _sum(integrand, p, q, jnp.asarray(low), _TRACED_TERMS)
    return Estimate(value, error, method="sum")


def integrate_quantiles(p: Any, q: Any, order: ArrayLike) -> Estimate:
    r"""$\int_0^1 |F^{-1}(u) - G^{-1}(u)|^r\,du$ with $r$ = `order`, for densities of one number with
    quantiles."""
    value, error = _quantile_integral(p, q, jnp.asarray(order, real_dtype(p)))
    return Estimate(value, error, method="quadrature")


def monte_carlo(values: Array) -> Estimate:
    """The mean of independent values with its standard error; infinite if one of them is."""
    mean = values.mean()
    centred = jnp.where(jnp.isfinite(mean), values - mean, 0.0)
    spread = jnp.sqrt((centred**2).sum() / (values.size - 1) / values.size)
    return Estimate(mean, spread, method="monte_carlo")


def tabulate(distribution: Distribution) -> tuple[Array, Array]:
    """The values of a discrete number with their probabilities; an infinite range ends where less than 1e-15
    is left."""
    values = listed_values(distribution)
    if values is not None:
        return values, jnp.exp(distribution.log_prob(values)) / _repeats(values)
    low, high = support_ends(distribution.support)
    if not all(is_concrete(leaf) for leaf in jax.tree.leaves((distribution, low, high))):
        numbers, probs, _ = _table(distribution, jnp.asarray(low, float), _TRACED_TERMS)
        return numbers, probs
    terms = 256
    while True:
        numbers, probs, tail = _table(distribution, jnp.asarray(low, float), terms)
        if bool(tail < 1e-15) or float(low) + terms > float(high) or terms >= _MOST_TERMS:
            return numbers, probs
        terms *= 8


def listed_values(distribution: Distribution) -> Array | None:
    """The values of a distribution over a given list of numbers; None for one over a range of whole
    numbers."""
    if isinstance(distribution, PointMass):
        return distribution.value[..., None]
    return distribution.values if isinstance(distribution, Atomic) else None


def _quadrature(
    integrand: Integrand, p: Distribution, q: Distribution, crossings: bool
) -> tuple[Scalar, Scalar]:
    if crossings:  # a loop: one program
        return _cut_quadrature(integrand, p, q)
    # Several programs, most of them shared by all pairs: this compiles faster than one for each pair.
    values, errors = over_units(partial(_one_quadrature, integrand, False), p, q)
    return values.sum(), errors.sum()


@partial(jax.jit, static_argnums=0)
def _cut_quadrature(integrand: Integrand, p: Distribution, q: Distribution) -> tuple[Scalar, Scalar]:
    values, errors = over_units(partial(_one_quadrature, integrand, True), p, q)
    return values.sum(), errors.sum()


def _one_quadrature(
    integrand: Integrand, crossings: bool, p: Distribution, q: Distribution
) -> tuple[Scalar, Scalar]:
    edges, anchors = panel_edges(p, q)
    values, errors = integrate_panels(partial(_at_nodes, integrand, p, q), edges, anchors, crossings)
    return _judged(values, errors, edges, anchors)


@partial(jax.jit, static_argnums=0)
def _at_nodes(integrand: Integrand, p: Distribution, q: Distribution, x: Array) -> tuple[Array, Array]:
    log_p, log_q = for_both(lambda d: d.log_prob(x), p, q)
    return log_p - log_q, jnp.stack([integrand(log_p, log_q), jnp.exp(log_p)], -1)


@jax.jit
def _judged(values: Array, errors: Array, edges: Array, anchors: Array) -> tuple[Scalar, Scalar]:
    """The integral and its error, from those of the integrand and of the density of `p` over each panel."""
    value, missed = values[:, 0].sum(), jnp.abs(1 - values[:, 1].sum())
    tails = outer_error(values[:, 0], edges, anchors)
    diverges = jnp.isposinf(value) | (jnp.isinf(tails) & (missed < 1e-3))
    error = errors[:, 0].sum() + tails + missed
    return jnp.where(diverges, jnp.inf, value), jnp.where(diverges, 0.0, error)


@jax.jit
def _quantile_integral(p: Any, q: Any, order: Array) -> tuple[Scalar, Scalar]:
    deep = isinstance(p, Univariate) and isinstance(q, Univariate)  # they know their upper tail without 1 - u
    edges = tail_levels(order.dtype, (100 if order.dtype == jnp.float64 else 50) if deep else None)[::-1]
    halves = [_half_quantile_integral(p, q, order, edges, upper) for upper in (False, True)]
    value, error, tail = (first + second for first, second in zip(*halves))
    return jnp.where(jnp.isinf(tail), jnp.inf, value), jnp.where(jnp.isinf(tail), 0.0, error + tail)


def _half_quantile_integral(p: Any, q: Any, order: Array, edges: Array, upper: bool) -> tuple[Scalar, ...]:
    """The integral over one half of the probabilities, the error of its panels, and the tail beyond them."""

    def quantile(u, d):
        if isinstance(d, Univariate) and upper:
            return d.inverse_survival(u)
        return d.icdf(1 - u if upper else u)

    def evaluate(u):
        first, second = for_both(partial(quantile, u), p, q)
        return first - second, (jnp.abs(first - second) ** order)[..., None]

    values, errors = integrate_panels(evaluate, edges, jnp.asarray([0.5, 0.0], edges.dtype), True)
    return values.sum(), errors.sum(), tail_sum(values[0, 0], values[1, 0])


def _integer_ends(p: Distribution, q: Distribution) -> tuple[Any, Any]:
    """The least and the greatest number to visit beside the listed atoms."""
    limits = [support_ends(d.support) for d in (p, q) if listed_values(d) is None]
    if not limits:
        return 0.0, 0.0
    lows, highs = zip(*limits)
    lows, highs = [jnp.min(jnp.asarray(v)) for v in lows], [jnp.max(jnp.asarray(v)) for v in highs]
    return jnp.min(jnp.stack(lows)), jnp.max(jnp.stack(highs))


def _sum_until_certain(
    integrand: Integrand, p: Distribution, q: Distribution, low: float, high: float
) -> Estimate:
    terms = 256
    while True:
        value, error, tail = _sum(integrand, p, q, jnp.asarray(low), terms)
        if bool(tail < 1e-15) or low + terms > high or terms >= _MOST_TERMS:
            return Estimate(value, error, method="sum")
        terms *= 8


@partial(jax.jit, static_argnums=(0, 4))
def _sum(
    integrand: Integrand, p: Distribution, q: Distribution, low: Array, terms: int
) -> tuple[Scalar, ...]:
    """The sum, its error, and the part of the error that more terms would mend."""
    values, errors, tails = over_units(lambda a, b: _one_sum(integrand, a, b, low, terms), p, q)
    return values.sum(), errors.sum(), tails.sum()


def _one_sum(
    integrand: Integrand, p: Distribution, q: Distribution, low: Array, terms: int
) -> tuple[Scalar, ...]:
    x, fresh = _atoms_of_both(p, q, low + jnp.arange(terms))
    log_p, log_q = p.log_prob(x), q.log_prob(x)
    values = jnp.where(fresh, integrand(log_p, log_q), 0.0).reshape(4, -1).sum(1)
    mass = jnp.where(fresh, jnp.exp(log_p), 0.0).reshape(4, -1).sum(1)
    missed = jnp.abs(1 - mass.sum())
    tail = tail_sum(values[3], values[2]) + tail_sum(mass[3], mass[2]) + jnp.where(missed < 1e-6, 0.0, missed)
    diverges = jnp.isposinf(values.sum()) | (jnp.isinf(tail) & (missed < 1e-6))
    return jnp.where(diverges, jnp.inf, values.sum()), jnp.where(diverges, 0.0, tail + missed), tail


def _atoms_of_both(p: Distribution, q: Distribution, numbers: Array) -> tuple[Array, Array]:
    """Every value that `p` or `q` may take (`numbers` for a range), and whether it is there for the first
    time."""
    listed = [values for values in (listed_values(p), listed_values(q)) if values is not None]
    if not listed:
        return numbers, jnp.ones(numbers.shape, bool)
    ranges = [numbers] if len(listed) == 1 else []
    x = jnp.sort(jnp.concatenate([values.astype(numbers.dtype) for values in listed + ranges]))
    fresh = jnp.concatenate([jnp.ones(1, bool), x[1:] != x[:-1]])
    spare = -x.size % 4 + 4  # at least one empty place in the last block: a list has no tail
    return jnp.pad(x, (0, spare), mode="edge"), jnp.pad(fresh, (0, spare))


@partial(jax.jit, static_argnums=2)
def _table(distribution: Distribution, low: Array, terms: int) -> tuple[Array, Array, Scalar]:
    numbers = low + jnp.arange(terms)
    probs = jnp.exp(distribution.log_prob(numbers))
    blocks, missed = probs.reshape(4, -1).sum(1), jnp.abs(1 - probs.sum())
    return numbers, probs, tail_sum(blocks[3], blocks[2]) + jnp.where(missed < 1e-6, 0.0, missed)


def _repeats(values: Array) -> Array:
    """How often each value is listed: equal values share the probability of their value."""
    return (values[:, None] == values[None]).sum(1).astype(values.dtype)
