r"""Sparse Gaussians by the entries of their precision: solves, determinants, draws and covariances.

Gaussian.    $p(x) \propto e^{h^\top x - x^\top \Lambda x/2}$ with $\Lambda$ sparse, given by some of its
             entries; each pair $i \le j$ of variables once. What curves otherwise than a sum of squares
             (the Hessian at a mode) has no $J$ with $\Lambda = J^\top J$: here its entries are enough.
Elimination. That of `messages.gaussian_field`, by the same plans.
Indefinite.  Where $\Lambda$ is not positive definite `regular` is False, and mean and determinant are NaN.
Cost.        $O(T k^2 (k + b))$ for $T$ blocks of $k$ and a border of $b$.
References.  Rue and Held (2005) chapter 2.
"""

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Bool, Float, Int, Scalar
from tractable.messages.gaussian_blocks import Reduced
from tractable.messages.gaussian_field import (
    FieldPlan,
    factorised,
    is_regular,
    stored_covariances,
    substituted,
)

__all__ = ["PrecisionField", "PrecisionPlan", "plan_precision"]

Indices = Int[Array, "..."] | Int[np.ndarray, "..."]


class PrecisionPlan(Module):
    """Which entries of a precision are given, and where the storage of a field's plan holds them."""

    plan: FieldPlan
    at: Indices  # of each entry
    diagonal: Indices  # of each variable
    times: Float[Array, " m"] | Float[np.ndarray, " m"]  # how often an entry is in the matrix: once or twice


def plan_precision(plan: FieldPlan, first: ArrayLike, second: ArrayLike) -> PrecisionPlan:
    """Entries at pairs of variables, each pair once, all of which share a row of the plan's pattern."""
    first, second = np.asarray(first), np.asarray(second)
    everything = np.arange(plan.dim)
    at, diagonal = plan.locate(first, second), plan.locate(everything, everything)
    check(bool((at >= 0).all()), "first, second", "pairs of variables that share a row", "others too")
    return PrecisionPlan(plan, at, diagonal, np.where(first == second, 1.0, 2.0))


class PrecisionField(Module):
    r"""The Gaussian with these `values` of $\Lambda$ at the entries of a plan, and $h$ = `force`.

    >>> from tractable.messages.gaussian_field import plan_field
    >>> pattern = plan_field([0, 1, 1, 2], [0, 0, 1, 1], (3, 2))  # x_0; x_1 - x_0; a reading of x_1
    >>> plan = plan_precision(pattern, [0, 0, 1], [0, 1, 1])
    >>> walk = PrecisionField.of(plan, jnp.array([2.0, -1.0, 2.0]), jnp.array([0.0, 3.0]))
    >>> walk.mean.round(6).tolist(), round(float(jnp.exp(walk.log_det)), 6)
    ([1.0, 2.0], 3.0)
    """

    mean: Float[Array, " d"]  # of p: the solution of `Lambda m = h`
    log_det: Scalar
    regular: Bool[Array, ""]
    plan: PrecisionPlan | None = field(show=False)  # None while it is carried through a loop
    reduced: tuple[Reduced, ...] = field(show=False)
    lower: Float[Array, "b b"] = field(show=False)

    @classmethod
    def of(cls, entries: PrecisionPlan, values: Array, force: Array) -> "PrecisionField":
        """The field with these numbers; under `jit` give the plan as an argument, not by closure."""
        plan = entries.plan
        size = plan.num_inner + plan.num_places * plan.border
        storage = jnp.zeros(size, values.dtype).at[entries.at].add(values)
        inner, outer = storage[: plan.num_inner], storage[plan.num_inner :]
        right = jnp.zeros(plan.num_places, values.dtype).at[plan.place].set(force)
        outer = outer.reshape(plan.num_places, plan.border)
        reduced, lower, shift, pivots = factorised(plan, inner, outer, right)
        regular = is_regular(plan, storage[entries.diagonal], pivots)
        mean = substituted(plan, reduced, lower, shift, None)
        log_det = jnp.where(regular, 2 * jnp.log(pivots).sum(), jnp.nan)
        return cls(jnp.where(regular, mean, jnp.nan), log_det, regular, entries, reduced, lower)

    def spread(self, noise: Float[Array, " places"]) -> Float[Array, " d"]:
        r"""$L^{-\top} z$ with $\Lambda = L L^\top$, for standard noise $z$ in the order of places: a draw
        less the mean. The variables of the border depend on the noise of the border alone."""
        assert self.plan is not None
        still = tuple(each._replace(shift=jnp.zeros_like(each.shift)) for each in self.reduced)
        return substituted(self.plan.plan, still, self.lower, jnp.zeros(len(self.lower)), noise)

    def covariances(self) -> Float[Array, " m"]:
        r"""Those entries of $\Lambda^{-1}$ that were given of $\Lambda$."""
        assert self.plan is not None
        return stored_covariances(self.plan.plan, self.reduced, self.lower)[self.plan.at]
