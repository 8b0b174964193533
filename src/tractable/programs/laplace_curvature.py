r"""The curvature of a program's density in its Gaussian latents: its entries, from few derivatives.

Pattern.     Two latents share an entry of the Hessian if some unit of a site depends on both.
Entries.     Hessian-vector products with sums of unit vectors: a product for each variable of the border, and
             one for each colour of the others, where two columns of one colour share no row among the others.
             Entries with the border are read from the border's products, by symmetry.
Groups.      Without the border the latents fall into groups that no unit joins: given the border they are
             independent in the posterior itself, not only in its Gaussian.
Cost.        One product for each colour and each variable of the border.
References.  Coleman and More (1984), direct recovery of symmetric matrices; Rue, Martino and Chopin (2009).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.messages.gaussian_field import plan_field
from tractable.messages.gaussian_precision import PrecisionPlan, plan_precision
from tractable.programs.gaussian_block import colour_columns

__all__ = ["SMALL_GROUP", "Curvature", "Groups", "plan_curvature"]

SMALL_GROUP = 3  # latents of a group that a lattice of candidates covers

Indices = Int[Array, "..."] | Int[np.ndarray, "..."]


class Curvature(Module):
    """The entries of a Hessian of known pattern; give it to compiled functions as an argument."""

    precision: PrecisionPlan
    colour: Indices  # of each variable
    row: Indices  # of the product in which each entry is read
    product: Indices  # which of the products that is
    num_colours: int = field(static=True)

    @property
    def dim(self) -> int:
        return self.precision.plan.dim

    def seeds(self, dtype: Any) -> Float[Array, "c d"]:
        """The directions of the products, sums of unit vectors."""
        colours = jnp.arange(self.num_colours, dtype=self.colour.dtype)
        return (jnp.asarray(self.colour)[None] == colours[:, None]).astype(dtype)

    def of(self, phi: Callable[[Array], Scalar], x: Float[Array, " d"]) -> tuple[Scalar, Array, Array]:
        """The value of a function, its gradient, and the entries of its Hessian."""
        (value, slope), push = jax.linearize(jax.value_and_grad(phi), x)
        pushed = jax.vmap(lambda seed: push(seed)[1])(self.seeds(x.dtype))
        return value, slope, pushed[self.product, self.row]


class Groups(Module):
    """Latents that are independent of each other given the border: `num_groups` of them.

    Numbers of groups are `num_groups` for the border, and one more for places that only fill a shape. `slot`
    counts the places of a group.
    """

    of_unit: Indices  # the group that a unit of the density belongs to
    of_place: Indices
    of_variable: Indices
    slot: Indices
    num_groups: int = field(static=True)
    largest: int = field(static=True)  # the number of latents in the largest group
    num_border: int = field(static=True)


def plan_curvature(
    rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int], border: ArrayLike | None = None
) -> tuple[Curvature, Groups]:
    """For units (rows) that depend on these latents (columns).

    >>> found, groups = plan_curvature([0, 1, 1, 2, 2], [0, 0, 1, 0, 2], (3, 3), border=[0])
    >>> found.num_colours, groups.num_groups  # one for the border, one for the two others
    (2, 2)
    """
    from scipy import sparse

    rows, cols = np.asarray(rows), np.asarray(cols)
    pattern = sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, cols)), shape=shape)
    graph = sparse.csr_matrix(pattern.T @ pattern)
    plan = plan_field(rows, cols, shape, border=_between_groups(graph) if border is None else border)
    joined = sparse.coo_matrix(sparse.triu(graph))
    first, second = joined.row, joined.col
    place = np.asarray(plan.place)
    at_border = place >= plan.num_places - plan.border
    colour, num_inner = _colours(first, second, at_border)
    turned = at_border[first] & ~at_border[second]  # read where the product is that of the border
    row, of = np.where(turned, second, first), np.where(turned, first, second)
    colours = num_inner + int(at_border.sum())
    entries = Curvature(plan_precision(plan, first, second), colour, row, colour[of], colours)
    return entries, _groups(pattern, first, second, at_border, np.asarray(plan.variable))


def _between_groups(graph) -> np.ndarray | None:
    """The fewest well-joined variables without which the rest falls into small groups, if most are left."""
    from scipy.sparse import csgraph

    degrees = np.diff(graph.indptr)
    for most in np.unique(degrees)[::-1]:
        inside = np.flatnonzero(degrees <= most)
        if 2 * len(inside) < len(degrees):
            break
        label = csgraph.connected_components(graph[inside][:, inside], directed=False)[1]
        if np.bincount(label).max() <= SMALL_GROUP:
            return np.flatnonzero(degrees > most)
    return None


def _colours(first: np.ndarray, second: np.ndarray, at_border: np.ndarray) -> tuple[np.ndarray, int]:
    """Colours of all variables, those of the border last, one for each; and how many the others have."""
    inside = ~(at_border[first] | at_border[second])
    a, b = first[inside], second[inside]
    off = a != b
    number = np.cumsum(~at_border) - 1  # among the inner variables
    some = int((~at_border).sum())
    inner = colour_columns(number[np.r_[a, b[off]]], number[np.r_[b, a[off]]], some) if some else np.zeros(0)
    count = int(inner.max(initial=-1)) + 1
    colour = np.zeros(len(at_border), np.int32)
    colour[~at_border] = inner
    colour[at_border] = count + np.arange(int(at_border.sum()))
    return colour, count


def _groups(
    pattern, first: np.ndarray, second: np.ndarray, at_border: np.ndarray, variable: np.ndarray
) -> Groups:
    from scipy import sparse
    from scipy.sparse import csgraph

    inside = ~(at_border[first] | at_border[second])
    dim = len(at_border)
    ones = np.ones(int(inside.sum()), np.int8)
    graph = sparse.csr_matrix((ones, (first[inside], second[inside])), shape=(dim, dim))
    label = csgraph.connected_components(graph, directed=False)[1]
    kinds, inner = np.unique(label[~at_border], return_inverse=True)
    count = len(kinds)
    group = np.full(dim, count, np.int32)
    group[~at_border] = inner
    sizes = np.bincount(inner, minlength=1)
    rows, cols = pattern.nonzero()
    of_unit = np.full(pattern.shape[0], count, np.int32)
    np.minimum.at(of_unit, rows, group[cols])
    of_place = np.append(group, count + 1)[variable].astype(np.int32)
    order = np.argsort(of_place, kind="stable")
    ranked = of_place[order]
    slot = np.empty(len(of_place), np.int32)
    slot[order] = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    border = int(at_border.sum())
    return Groups(of_unit, of_place, group, slot, count, int(sizes.max()) if count else 0, border)
