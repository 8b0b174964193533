r"""Sparse Gaussians: $p(x) \propto e^{-|e_0 + J x|^2/2}$ for a sparse $J$, with its integral, mean, draws and
covariances.

Integral.    $\log \int e^{-|e_0 + J x|^2/2} dx = -\frac12(|e_0 + J m|^2 + \log|\Lambda| - D \log 2\pi)$ with
             $\Lambda = J^\top J$ and $m = -\Lambda^{-1} J^\top e_0$.
Elimination. By the plan of the pattern (`gaussian_field_plan`): chains of blocks first, then a dense border.
Gradient.    Fisher's identity: $d \log Z = -\hat e^\top de_0 - \mathrm{tr}\{(\hat e m^\top + J \Sigma)^\top
             dJ\}$, $\hat e = e_0 + J m$, which needs $\Sigma = \Lambda^{-1}$ where $\Lambda$ is not zero.
Improper.    Where a pivot is below $2D$ roundings of its diagonal, $\Lambda$ is singular: `regular` is False,
             integral, mean and draws are NaN.
Accuracy.    That of $J^\top J$: relative errors of $10^{-16}$ times the square of the condition of $J$.
Cost.        $O(T k^2 (k + b))$ for $T$ blocks of $k$ and a border of $b$, beside the pairs in rows of $J$.
References.  Rue and Held (2005) chapter 2; Lindgren and Rue (2015).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_shape
from tractable.core.factors import normal_log_density
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Bool, Float, Key, Scalar
from tractable.messages.gaussian_blocks import (
    Chains,
    Reduced,
    back,
    back_solve,
    eliminate,
    half_solve,
    inverse,
    lower_factor,
    selected,
)  # fmt: skip
from tractable.messages.gaussian_field_plan import FieldPlan, plan_field

__all__ = [
    "FieldPlan", "GaussianField", "factorised", "is_regular", "plan_field", "stored_covariances",
    "substituted",
]  # fmt: skip


class GaussianField(Module):
    r"""The Gaussian of a plan, the entries `values` of $J$ in the order of the pattern, and $e_0$ = `offset`.

    >>> plan = plan_field([0, 1, 1, 2], [0, 0, 1, 1], (3, 2))  # x_0; x_1 - x_0; a reading of x_1
    >>> walk = GaussianField.of(plan, jnp.array([1.0, -1.0, 1.0, 1.0]), jnp.array([0.0, 0.0, -3.0]))
    >>> walk.mean.round(6).tolist(), walk.variances().round(6).tolist()
    ([1.0, 2.0], [0.666667, 0.666667])
    """

    log_integral: Scalar
    mean: Float[Array, " d"]
    regular: Bool[Array, ""]
    values: Float[Array, " m"] = field(show=False)
    plan: FieldPlan = field(show=False)
    reduced: tuple[Reduced, ...] = field(show=False)
    lower: Float[Array, "b b"] = field(show=False)  # the factor of the border
    shift: Float[Array, " b"] = field(show=False)

    @classmethod
    def of(cls, plan: FieldPlan, values: Array, offset: Array) -> "GaussianField":
        """The field with these numbers; under `jit` give the plan as an argument, not by closure."""
        check_shape("values", values, (len(plan.rows),))
        check_shape("offset", offset, (plan.shape[0],))
        found = _solved(plan, values, offset)
        return cls(log_integral(plan, values, offset), found.mean, found.regular, values, plan, *found[3:])

    @takes_key
    def draw(self, key: Key) -> Float[Array, " d"]:
        """One exact draw; `jax.vmap` over keys gives many."""
        noise = jr.normal(key, (self.plan.num_places,), self.lower.dtype)
        x = substituted(self.plan, self.reduced, self.lower, self.shift, noise)
        return jnp.where(self.regular, x, jnp.nan)

    def variances(self) -> Float[Array, " d"]:
        """The variance of each variable."""
        everything = np.arange(self.plan.dim)
        return self.covariances(everything, everything)

    def covariances(self, first: ArrayLike, second: ArrayLike) -> Float[Array, " m"]:
        """The covariances of pairs of variables that share a row, a block or the border."""
        at = self.plan.locate(first, second)
        check(bool((at >= 0).all()), "first, second", "pairs of variables that share a row", "others too")
        return stored_covariances(self.plan, self.reduced, self.lower)[at]

    def row_variances(self) -> Float[Array, " n"]:
        r"""The variance of each row of $J x$."""
        covariances = stored_covariances(self.plan, self.reduced, self.lower)
        leverage = self.values * _products(self.plan, self.values, covariances)
        return jnp.zeros(self.plan.shape[0], leverage.dtype).at[self.plan.rows].add(leverage)


@jax.custom_jvp
def log_integral(plan: FieldPlan, values: Array, offset: Array) -> Scalar:
    r"""$\log \int e^{-|e_0 + J x|^2/2} dx$."""
    return _solved(plan, values, offset).log_integral


@log_integral.defjvp
def _log_integral_jvp(at: tuple, moved: tuple) -> tuple[Scalar, Scalar]:
    plan, values, offset = at
    _, by_value, by_offset = moved
    found = _solved(plan, values, offset)
    rest = offset + _times(plan, values, found.mean)
    covariances = stored_covariances(plan, found.reduced, found.lower)
    slope = rest[plan.rows] * found.mean[plan.cols] + _products(plan, values, covariances)
    return found.log_integral, -rest @ by_offset - slope @ by_value


# --- elimination ---------------------------------------------------------------------------------------


class _Solved(NamedTuple):
    """What one elimination gives."""

    log_integral: Scalar
    mean: Array
    regular: Array
    reduced: tuple[Reduced, ...]
    lower: Array
    shift: Array


@jax.jit
def _solved(plan: FieldPlan, values: Array, offset: Array) -> _Solved:
    inner, outer = _assembled(plan, values)
    force = _transposed(plan, values, -offset)
    reduced, lower, shift, pivots = factorised(plan, inner, outer, force)
    mean = substituted(plan, reduced, lower, shift, None)
    whole = jnp.zeros(plan.dim, values.dtype).at[plan.cols].add(values**2)
    regular = is_regular(plan, whole, pivots)
    mean = jnp.where(regular, mean, jnp.nan)
    rest = offset + _times(plan, values, mean)
    value = normal_log_density(rest @ rest, 2 * jnp.log(pivots).sum(), -plan.dim)
    return _Solved(value, mean, regular, reduced, lower, shift)


def factorised(
    plan: FieldPlan, inner: Array, outer: Array, force: Array
) -> tuple[tuple[Reduced, ...], Array, Array, Array]:
    r"""The elimination of a precision in the storage of a plan: its banks, the factor and the half-solved
    shift of the border, and all pivots. `force` is $\Lambda m$ in the order of places."""
    fill = (jnp.asarray(plan.variable) == plan.dim).astype(inner.dtype)
    corner = jnp.zeros((plan.border + 1, plan.border + 1), inner.dtype)
    reduced, start, read = [], 0, 0
    for bank in plan.banks:
        size, k, stack = bank.num_places, bank.size, (bank.length, bank.count, bank.size)
        end = start + size
        diag, sub = inner[read : read + 2 * size * k].reshape(2, *stack, k)
        diag = diag + fill[start:end].reshape(*stack, 1) * jnp.eye(k, dtype=diag.dtype).reshape(1, 1, k, k)
        wide = jnp.concatenate([outer[start:end], force[start:end, None]], axis=1).reshape(
            *stack, plan.border + 1
        )
        found, lost = eliminate(Chains(diag, sub, wide))
        reduced.append(found)
        corner = corner + lost
        start, read = end, read + 2 * size * k
    lower = lower_factor(outer[start:] + jnp.diag(fill[start:]) - corner[:-1, :-1])
    shift = half_solve(lower, (force[start:] - corner[:-1, -1])[:, None])[:, 0]
    pivots = jnp.concatenate([*(found.pivots().reshape(-1) for found in reduced), jnp.diag(lower)])
    return tuple(reduced), lower, shift, pivots


def is_regular(plan: FieldPlan, diagonal: Array, pivots: Array) -> Array:
    """Whether each pivot is more than rounding of the diagonal of the precision that it is left of."""
    return (pivots[plan.place] ** 2 > 2 * plan.dim * jnp.finfo(pivots.dtype).eps * diagonal).all()


@jax.jit
def substituted(
    plan: FieldPlan, reduced: tuple[Reduced, ...], lower: Array, shift: Array, noise: Array | None
) -> Array:
    """The mean of all variables; with noise of all places a draw."""
    start = plan.num_places - plan.border
    right = shift if noise is None else shift + noise[start:]
    border = back_solve(lower, right)
    parts, start = [], 0
    for bank, found in zip(plan.banks, reduced):
        stack = (bank.length, bank.count, bank.size)
        own = None if noise is None else noise[start : start + bank.num_places].reshape(stack)
        parts.append(back(found, border, own).reshape(-1))
        start += bank.num_places
    return jnp.concatenate([*parts, border])[plan.place]


@jax.jit
def stored_covariances(plan: FieldPlan, reduced: tuple[Reduced, ...], lower: Array) -> Array:
    """Covariances in the places of the storage, inner and outer in one."""
    border = inverse(lower)
    found = [selected(each, border) for each in reduced]
    inner = [part.reshape(-1) for each in found for part in (each.diag, each.sub)]
    outer = [each.side.reshape(-1) for each in found]
    return jnp.concatenate([*inner, *outer, border.reshape(-1)])


# --- J and its products --------------------------------------------------------------------------------


def _assembled(plan: FieldPlan, values: Array) -> tuple[Array, Array]:
    r"""The storage of $J^\top J$: inner, and outer `(places, border)`."""
    full = jnp.append(values, 0.0)
    outer = plan.num_places * plan.border
    storage = jnp.zeros(plan.num_inner + outer, values.dtype)
    storage = storage.at[plan.target].add(full[plan.left] * full[plan.right])
    inner, outer = storage[: plan.num_inner], storage[plan.num_inner :].reshape(plan.num_places, plan.border)
    if not plan.by_product:
        return inner, outer
    dense, (row, place) = full[plan.at_border], _of_inside(plan)
    outer = outer.at[place].add(full[plan.inside][:, None] * dense[row])
    return inner, outer.at[plan.num_places - plan.border :].add(dense.T @ dense)


@jax.jit
def _products(plan: FieldPlan, values: Array, covariances: Array) -> Array:
    r"""$J \Sigma$ in the places of the entries of $J$."""
    full, shared = jnp.append(values, 0.0), covariances[plan.target]
    once = jnp.where(plan.left == plan.right, 0.5, 1.0) * shared
    found = jnp.zeros_like(full).at[plan.left].add(full[plan.right] * once)
    found = found.at[plan.right].add(full[plan.left] * once)
    if plan.by_product:
        outer = covariances[plan.num_inner :].reshape(plan.num_places, plan.border)
        dense, (row, place) = full[plan.at_border], _of_inside(plan)
        found = found.at[plan.inside].add((dense[row] * outer[place]).sum(1))
        whole = dense @ outer[plan.num_places - plan.border :]
        whole = whole.at[row].add(full[plan.inside][:, None] * outer[place])
        found = found.at[plan.at_border].add(whole)
    return found[:-1]


def _of_inside(plan: FieldPlan) -> tuple[Array, Array]:
    """Row and place of the entries outside the border; what fills the shape has the value zero."""
    entries = jnp.minimum(plan.inside, len(plan.rows) - 1)
    return jnp.asarray(plan.rows)[entries], jnp.asarray(plan.place)[jnp.asarray(plan.cols)[entries]]


def _times(plan: FieldPlan, values: Array, x: Array) -> Array:
    return jnp.zeros(plan.shape[0], values.dtype).at[plan.rows].add(values * x[plan.cols])


def _transposed(plan: FieldPlan, values: Array, e: Array) -> Array:
    r"""$J^\top e$ in the order of places."""
    places = jnp.asarray(plan.place)[plan.cols]
    return jnp.zeros(plan.num_places, values.dtype).at[places].add(values * e[plan.rows])
