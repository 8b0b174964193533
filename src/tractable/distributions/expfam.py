r"""Exponential families: natural parameters, statistics, and everything that follows from the log-normaliser.

Family.      $p(x \mid \eta) = h(x) \exp\{\langle \eta, t(x) \rangle - A(\eta)\}$.
Identities.  $\nabla A = E[t(x)]$, $\nabla^2 A = \mathrm{Cov}[t(x)]$ (the Fisher information in $\eta$);
             maximum likelihood sets the model's mean statistics to the data's;
             $\mathrm{KL}(p \| q) = A(\eta_q) - A(\eta_p) - \langle \eta_q - \eta_p, \nabla A(\eta_p)\rangle$.
Cost.        $O(1)$ per point for the statistics; fitting depends on the data only through their sum.
References.  Wainwright and Jordan (2008) chapter 3; Brown (1986).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check, check_entries, check_nonnegative, is_concrete
from tractable.core.module import Module, plates
from tractable.core.support import Support
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.leading_axes import flatten_units

__all__ = [
    "ExponentialFamily", "Statistics", "check_rows", "expfam_entropy", "expfam_kl", "expfam_log_prob",
    "fisher_information", "log_likelihood", "log_likelihood_from", "maximum_likelihood", "mean_stats",
    "per_unit", "present_rows", "row_weights", "weigh", "weighted_stats",
]  # fmt: skip

Natural = tuple[Array, ...]


class ExponentialFamily(Distribution):
    """A distribution with natural parameters and statistics.

    Each method speaks of one unit. For a `Univariate` it is elementwise instead: every array has the common
    shape of the parameters, so `log_normaliser` returns one value per entry. The functions of this file take
    leading axes apart.
    """

    @property
    @abstractmethod
    def natural(self) -> Natural:
        r"""$\eta$, a tuple of arrays."""

    @abstractmethod
    def stats(self, x: Array) -> Natural:
        r"""$t(x)$, a tuple of the same shapes as `natural`."""

    @abstractmethod
    def log_base(self, x: Array) -> Scalar:
        r"""$\log h(x)$."""

    @abstractmethod
    def log_normaliser(self, natural: Natural) -> Scalar:
        r"""$A(\eta)$ as a function of $\eta$, so that it can be differentiated."""

    @abstractmethod
    def from_natural(self, natural: Natural) -> Any:
        r"""The member with natural parameters $\eta$; fixed ones (a binomial's total) stay as in `self`."""

    @abstractmethod
    def from_stats(self, mean_stats: Natural) -> Any:
        r"""The member whose expected statistics are `mean_stats`: maximum likelihood from their averages."""


class Statistics(Module):
    """Weighted sums of statistics over rows; they add, so chunks of rows, streams and machines add too."""

    weight: Scalar
    sums: Natural

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(self.weight + other.weight, jax.tree.map(jnp.add, self.sums, other.sums))

    @property
    def means(self) -> Natural:
        """The weighted average of each statistic."""
        return jax.tree.map(lambda total: total / self.weight, self.sums)


def row_weights(rows: ArrayLike, weights: ArrayLike | None) -> Float[Array, " n"]:
    """One weight per row, ones if none are given; checked by name."""
    n, kind = jnp.shape(rows)[0], jnp.result_type(rows)
    if weights is None:
        return jnp.ones(n, kind if jnp.issubdtype(kind, jnp.floating) else None)
    weights = as_float("weights", weights)
    check(weights.shape == (n,), "weights", f"one number per row, shape ({n},)", f"shape {weights.shape}")
    check_nonnegative("weights", weights)
    return weights


def weigh(weights: Float[Array, " n"], values: Float[Array, "n ..."]) -> Array:
    r"""$\sum_n w_n v_n$ over the first axis; a row of weight zero is absent, whatever it holds."""
    spread = weights.reshape((-1,) + (1,) * (values.ndim - 1))
    return (spread * jnp.where(spread > 0, values, 0.0)).sum(0)


def present_rows(support: Support, rows: Array, weights: Float[Array, " n"]) -> Array:
    """`rows` with a member of the support in place of each of weight zero: no gradient sees the absent."""
    spread = weights.reshape((-1,) + (1,) * (rows.ndim - 1))
    return jnp.where(spread > 0, rows, jnp.asarray(support.interior(rows), rows.dtype))


def log_likelihood(distribution: Distribution, xs: ArrayLike, weights: ArrayLike | None = None) -> Scalar:
    r"""$\sum_n w_n \log p(x_n)$ over rows; a row of weight zero is absent, even an impossible one."""
    rows = _rows(distribution, xs)
    weights = row_weights(rows, weights)
    return weigh(weights, distribution.log_prob(present_rows(distribution.support, rows, weights)))


def check_rows(name: str, support: Support, rows: Array, weights: Array) -> None:
    """Check that rows of positive weight lie in the support."""

    def inside(values):
        found = np.asarray(support.contains(values))
        return found | (np.asarray(weights) == 0).reshape((-1,) + (1,) * (found.ndim - 1))

    if is_concrete(weights):
        check_entries(name, rows, inside, support.words)


def weighted_stats(family: ExponentialFamily, xs: ArrayLike, weights: ArrayLike | None = None) -> Statistics:
    r"""$\sum_n w_n$ and $\sum_n w_n t(x_n)$: all that a fit needs of the rows. They add over chunks."""
    rows = _rows(family, xs)
    weights = row_weights(rows, weights)
    check_rows("xs", family.support, rows, weights)
    return _weighted_stats(family, present_rows(family.support, rows, weights), weights)


@jax.jit
def log_likelihood_from(member: ExponentialFamily, statistics: Statistics) -> Scalar:
    r"""$\langle \eta, \sum_n w_n t(x_n) \rangle - A(\eta)\sum_n w_n$: the log-likelihood of the rows behind
    the statistics, less $\sum_n w_n \log h(x_n)$."""

    def unit(d, sums):
        return _inner(d, d.natural, sums) - statistics.weight * d.log_normaliser(d.natural)

    return per_unit((member,), unit, (statistics.sums,)).sum()


def maximum_likelihood(family: ExponentialFamily, xs: ArrayLike, weights: ArrayLike | None = None) -> Any:
    r"""The member that maximises $\sum_n w_n \log p(x_n)$: the one whose mean statistics are the data's.

    `family` is any member; it gives the class, the shape and the parameters that are not fitted.

    >>> from tractable.distributions.gaussian import Gaussian
    >>> start = Gaussian(jnp.zeros(1), jnp.eye(1))
    >>> maximum_likelihood(start, jnp.asarray([[0.0], [2.0], [4.0]])).mean
    Array([2.], dtype=float64)
    """
    statistics = weighted_stats(family, xs, weights)
    if is_concrete(statistics.weight):
        total = float(statistics.weight)
        check(total > 0, "weights", "positive in total", total, "Give at least one row.")
    return per_unit((family,), lambda unit, means: unit.from_stats(means), (statistics.means,))


@jax.jit
def mean_stats(member: ExponentialFamily) -> Natural:
    r"""$E[t(x)] = \nabla A(\eta)$, by differentiation, for each unit."""
    return per_unit((member,), lambda unit: _gradient(unit, unit.natural))


def fisher_information(member: ExponentialFamily, parameters: Sequence[str] | None = None) -> Array:
    r"""The Fisher information of each unit, a matrix over the flattened parameters.

    In the natural parameters it is $\nabla^2 A(\eta) = \mathrm{Cov}[t(x)]$. With `parameters`, the names of
    fields $\theta$, it is $J^\top \nabla^2 A\, J$ with $J = \partial \eta / \partial \theta$: for a `Normal`
    and `("loc", "scale")` it is $\mathrm{diag}(1/\sigma^2, 2/\sigma^2)$.
    """
    names = None if parameters is None else tuple(parameters)
    known = [f.name for f in member.__dataclass_fields__.values() if "rank" in f.metadata]
    for name in names or ():
        check(name in known, "parameters", f"names among {known}", repr(name))
    return _fisher_information(member, names)


def expfam_log_prob(member: ExponentialFamily, x: ArrayLike) -> Array:
    r"""$\log h(x) + \langle \eta, t(x) \rangle - A(\eta)$ at each point of `x`: the law behind `log_prob`."""
    points = member._points("x", x)
    lead = points.shape[: points.ndim - len(member.shape)]
    return _natural_log_prob(member, points.reshape((math.prod(lead), *member.shape))).reshape(lead)


@jax.jit
def expfam_entropy(member: ExponentialFamily) -> Scalar:
    r"""$A(\eta) - \langle \eta, \nabla A(\eta)\rangle - \log h$, for families of constant base measure."""
    example = jnp.broadcast_to(jnp.asarray(member.support.interior(jnp.zeros(member.shape))), member.shape)

    def unit(d, point):
        if _depends(d.log_base, point):
            name = type(d).__name__
            raise AttributeError(f"{name} has a base measure that varies with x: no closed-form entropy.")
        eta = d.natural
        return d.log_normaliser(eta) - _inner(d, eta, _gradient(d, eta)) - d.log_base(point)

    return per_unit((member,), unit, (example,)).sum()


def expfam_kl(p: ExponentialFamily, q: ExponentialFamily) -> Scalar:
    r"""$\mathrm{KL}(p \| q)$ of two members of one family, the Bregman divergence of $A$, summed over units.

    NaN where the two have different fixed parameters: two binomials of different totals are not one family.
    """
    same = type(p) is type(q) and p.unit_shape == q.unit_shape
    must = f"a {type(p).__name__} of unit shape {p.unit_shape}, like `p`"
    check(same, "q", must, f"{type(q).__name__} of unit shape {q.unit_shape}")
    return _expfam_kl(p, q)


def per_unit(
    members: tuple[Any, ...], function: Callable, arrays: tuple = (), pointwise: bool = False
) -> Any:
    """`function(*members, *arrays)` for each unit: `vmap` over leading axes, none for an elementwise family.

    With `pointwise` the entries of a `Univariate` are taken apart too, so that `function` may build matrices.
    """
    units = jnp.broadcast_shapes(*map(plates, members))
    members = tuple(member.expand(units) if units else member for member in members)
    if units == () or (isinstance(members[0], Univariate) and not pointwise):
        return function(*members, *arrays)
    n = math.prod(units)
    each = tuple(flatten_units(member, units) for member in members)
    flat = jax.tree.map(lambda a: a.reshape((n, *a.shape[len(units) :])), arrays)
    return jax.tree.map(lambda a: a.reshape(units + a.shape[1:]), jax.vmap(function)(*each, *flat))


@jax.jit
def _expfam_kl(p: ExponentialFamily, q: ExponentialFamily) -> Scalar:
    def unit(a, b):
        eta, other = a.natural, b.natural
        start = a.log_normaliser(eta)
        moved = jax.tree.map(jnp.subtract, other, eta)
        divergence = b.log_normaliser(other) - start - _inner(a, moved, _gradient(a, eta))
        alike = jnp.isclose(b.log_normaliser(eta), start, rtol=1e-6, atol=1e-6)
        return jnp.where(alike, divergence, jnp.nan)

    return per_unit((p, q), unit).sum()


@partial(jax.jit, static_argnums=1)
def _fisher_information(member: ExponentialFamily, names: tuple[str, ...] | None) -> Array:
    return per_unit((member,), partial(_information, names=names), pointwise=True)


@jax.jit
def _weighted_stats(family: ExponentialFamily, rows: Array, weights: Array) -> Statistics:
    def row(x):
        return per_unit((family,), lambda unit, point: unit.stats(point), (x,))

    return Statistics(weights.sum(), jax.tree.map(partial(weigh, weights), jax.vmap(row)(rows)))


@jax.jit
def _natural_log_prob(member: ExponentialFamily, points: Array) -> Array:
    def unit(d, point):
        return d.log_base(point) + _inner(d, d.natural, d.stats(point)) - d.log_normaliser(d.natural)

    return jax.vmap(lambda point: per_unit((member,), unit, (point,)).sum())(points)


def _rows(distribution: Distribution, xs: ArrayLike) -> Array:
    rows = as_float("xs", xs)
    shape = distribution.shape
    must = f"rows, of shape (n, {', '.join(map(str, shape))})"
    check(rows.shape[1:] == shape and rows.ndim > 0, "xs", must, f"shape {rows.shape}", "Rows come first.")
    return rows


def _inner(member: Distribution, eta: Natural, stats: Natural) -> Array:
    """The inner product of one unit; one for each entry of a `Univariate`."""
    entries = len(plates(member))
    parts = [(a * b).sum(tuple(range(entries, jnp.ndim(a)))) for a, b in zip(eta, stats, strict=True)]
    return sum(parts[1:], parts[0])


def _gradient(member: ExponentialFamily, eta: Natural) -> Natural:
    return jax.grad(lambda natural: member.log_normaliser(natural).sum())(eta)


def _information(unit: ExponentialFamily, names: tuple[str, ...] | None) -> Array:
    flat, unravel = ravel_pytree(unit.natural)
    hessian = jax.hessian(lambda eta: unit.log_normaliser(unravel(eta)))(flat)
    if names is None:
        return hessian
    theta, rebuild = ravel_pytree([getattr(unit, name) for name in names])

    def natural(values):
        moved = eqx.tree_at(lambda d: [getattr(d, name) for name in names], unit, rebuild(values))
        return ravel_pytree(moved.natural)[0]

    jacobian = jax.jacfwd(natural)(theta)
    return jacobian.T @ hessian @ jacobian


def _depends(function: Callable[[Array], Array], x: Array) -> bool:
    """Whether the value of `function` depends on `x`, read off its trace."""
    traced = jax.make_jaxpr(function)(x).jaxpr
    reached = set(map(id, traced.invars))
    for equation in traced.eqns:
        if any(id(v) in reached for v in equation.invars):
            reached.update(map(id, equation.outvars))
    return any(id(v) in reached for v in traced.outvars)
