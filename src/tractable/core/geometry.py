r"""Distances, projections and coordinates.

Distances.   $\|x - y\|^2 = \|x\|^2 + \|y\|^2 - 2 x^\top y$: one matrix product for all pairs. For
             near-identical points the right side cancels (two points of length 1, $10^{-8}$ apart, keep no
             digit); where that happens the table is computed again from differences. Each entry is right to
             about ten digits.
Bases.       With basis vectors as columns, $v = B\,[v]_B$ and $[v]_{B'} = B'^{-1} B\,[v]_B$.
Projection.  $\mathrm{proj}_y x = \frac{y^\top x}{\|y\|^2}\,y$; the residual is orthogonal to $y$.
Cost.        $O(nmd)$ for distances.
References.  Kahan (2006), "How futile are mindless assessments of roundoff" (angles).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_shape, is_concrete
from tractable.core.types import Array, ArrayLike, Float, Scalar

__all__ = [
    "angle", "change_of_basis", "condensed", "coordinates", "cosine", "euclidean", "euclidean_distances",
    "from_coordinates", "manhattan", "manhattan_distances", "pairwise", "project",
    "residual", "signed_length", "squared_distances", "squared_distances_from_gram", "squared_euclidean",
]  # fmt: skip


def squared_euclidean(x: Float[Array, " d"], y: Float[Array, " d"]) -> Scalar:
    r"""$\sum_i (x_i - y_i)^2$."""
    return ((x - y) ** 2).sum()


def euclidean(x: Float[Array, " d"], y: Float[Array, " d"]) -> Scalar:
    r"""$\sqrt{\sum_i (x_i - y_i)^2}$, with gradient zero where $x = y$."""
    return _safe_sqrt(squared_euclidean(x, y))


def manhattan(x: Float[Array, " d"], y: Float[Array, " d"]) -> Scalar:
    r"""$\sum_i |x_i - y_i|$."""
    return jnp.abs(x - y).sum()


def pairwise(function: Callable[[Array, Array], Array], x: ArrayLike, y: ArrayLike | None = None) -> Array:
    """`function(x[i], y[j])` for all rows; `y` is `x` if it is not given."""
    x = jnp.asarray(x)
    y = x if y is None else jnp.asarray(y)
    return jax.vmap(lambda row: jax.vmap(lambda other: function(row, other))(y))(x)


def squared_distances(x: ArrayLike, y: ArrayLike | None = None) -> Float[Array, "n m"]:
    r"""$\|x_i - y_j\|^2$ for all rows, by the Gram identity, or directly where it cancels.

    >>> squared_distances(jnp.array([[1e8, 0.0], [1e8 + 1, 0.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    x, y, same = _two_tables(x, y)
    return _squared_distances(x, y, same)


def euclidean_distances(x: ArrayLike, y: ArrayLike | None = None) -> Float[Array, "n m"]:
    r"""$\|x_i - y_j\|$ for all rows, with gradient zero where two rows are equal."""
    return _safe_sqrt(squared_distances(x, y))


def manhattan_distances(x: ArrayLike, y: ArrayLike | None = None) -> Float[Array, "n m"]:
    r"""$\sum_k |x_{ik} - y_{jk}|$ for all rows."""
    x, y, _ = _two_tables(x, y)
    return _manhattan_distances(x, y)


def squared_distances_from_gram(gram: Float[Array, "n n"]) -> Float[Array, "n n"]:
    r"""$D_{ij} = G_{ii} + G_{jj} - 2 G_{ij}$ for the Gram matrix $G_{ij} = x_i^\top x_j$."""
    check_shape("gram", gram, (gram.shape[0], gram.shape[0]))
    lengths = jnp.diag(gram)
    return lengths[:, None] + lengths[None, :] - 2 * gram


def condensed(distances: Float[Array, "n n"]) -> Float[Array, " pairs"]:
    """The entries above the diagonal, row after row: the form of linkage algorithms."""
    return distances[jnp.triu_indices(distances.shape[0], 1)]


def change_of_basis(old: ArrayLike, new: ArrayLike) -> Float[Array, "d d"]:
    r"""$P = B'^{-1} B$ with $[v]_{B'} = P\,[v]_B$; the columns of `old` and `new` are the basis vectors."""
    old, new = as_float("old", old), as_float("new", new)
    _check_basis("old", old)
    _check_basis("new", new)
    check(old.shape == new.shape, "new", f"of the shape of `old`, {old.shape}", f"shape {new.shape}")
    return jnp.linalg.solve(new, old)


def coordinates(vector: ArrayLike, basis: ArrayLike) -> Float[Array, " d"]:
    r"""$[v]_B$ with $v = B\,[v]_B$."""
    basis = as_float("basis", basis)
    _check_basis("basis", basis)
    return jnp.linalg.solve(basis, as_float("vector", vector))


def from_coordinates(coordinates: ArrayLike, basis: ArrayLike) -> Float[Array, " d"]:
    r"""$v = B\,[v]_B$."""
    return as_float("basis", basis) @ as_float("coordinates", coordinates)


def signed_length(x: ArrayLike, onto: ArrayLike) -> Scalar:
    r"""$u^\top x$ with $u = y/\|y\|$: the length of the projection, negative where it points against $y$."""
    x, onto = _two_vectors(x, onto)
    return (onto / jnp.linalg.norm(onto)) @ x


def project(x: ArrayLike, onto: ArrayLike) -> Float[Array, " d"]:
    r"""$\frac{y^\top x}{\|y\|^2}\,y$, the point of the line through $y$ that is nearest to $x$."""
    x, onto = _two_vectors(x, onto)
    unit = onto / jnp.linalg.norm(onto)
    return (unit @ x) * unit


def residual(x: ArrayLike, onto: ArrayLike) -> Float[Array, " d"]:
    r"""$x - \mathrm{proj}_y x$, orthogonal to $y$."""
    return as_float("x", x) - project(x, onto)


def cosine(x: ArrayLike, y: ArrayLike) -> Scalar:
    r"""$x^\top y / (\|x\| \|y\|)$."""
    x, y = _two_vectors(x, y)
    _check_direction("x", x)
    return (x / jnp.linalg.norm(x)) @ (y / jnp.linalg.norm(y))


def angle(x: ArrayLike, y: ArrayLike) -> Scalar:
    r"""The angle in $[0, \pi]$ as $2\arctan(\|u - w\| / \|u + w\|)$: exact where the cosine rounds to 1."""
    x, y = _two_vectors(x, y)
    _check_direction("x", x)
    u, w = x / jnp.linalg.norm(x), y / jnp.linalg.norm(y)
    return 2 * jnp.arctan2(jnp.linalg.norm(u - w), jnp.linalg.norm(u + w))


@jax.jit
def _safe_sqrt(squared: Array) -> Array:
    positive = squared > 0
    root = jnp.sqrt(jnp.where(positive, squared, 1.0))
    return jnp.where(positive, root, jnp.where(squared == 0, 0.0, jnp.nan))


@partial(jax.jit, static_argnames="same")
def _squared_distances(x: Array, y: Array, same: bool) -> Array:
    # distances do not depend on the centre, rounding does; a NaN must spoil its own row alone
    centre = jax.lax.stop_gradient(jnp.where(jnp.isfinite(y), y, 0.0).mean(0, keepdims=True))
    x_centred, y_centred = x - centre, y - centre
    sizes = (x_centred**2).sum(1)[:, None] + (y_centred**2).sum(1)[None, :]
    squared = sizes - 2 * x_centred @ y_centred.T
    # the error is a few eps * sizes; this leaves at most about eps^(2/3) of it relative to the answer
    suspect = squared < jnp.finfo(squared.dtype).eps ** (1 / 3) * sizes
    if same:
        diagonal = jnp.eye(len(x), dtype=bool)
        squared, suspect = jnp.where(diagonal, 0.0, squared), suspect & ~diagonal
    return jax.lax.cond(suspect.any(), lambda: pairwise(squared_euclidean, x, y), lambda: squared)


@jax.jit
def _manhattan_distances(x: Array, y: Array) -> Array:
    return pairwise(manhattan, x, y)


def _two_tables(x: ArrayLike, y: ArrayLike | None) -> tuple[Array, Array, bool]:
    x = as_float("x", x)
    check(x.ndim == 2, "x", "a table of rows with 2 axes", f"shape {x.shape}")
    if y is None:
        return x, x, True
    y = as_float("y", y)
    check_shape("y", y, (None, x.shape[1]), "Its rows need as many columns as `x`.")
    return x, y, False


def _two_vectors(x: ArrayLike, onto: ArrayLike) -> tuple[Array, Array]:
    x, onto = as_float("x", x), as_float("onto", onto)
    check(x.ndim == 1, "x", "a vector", f"shape {x.shape}")
    check_shape("onto", onto, x.shape)
    _check_direction("onto", onto)
    return x, onto


def _check_direction(name: str, x: Array) -> None:
    if is_concrete(x):
        check(
            bool(np.any(np.asarray(x) != 0)), name, "a vector other than zero, which has a direction", "zeros"
        )


def _check_basis(name: str, basis: Array) -> None:
    square = basis.ndim == 2 and basis.shape[0] == basis.shape[1]
    check(square, name, "a square matrix whose columns are the basis vectors", f"shape {basis.shape}")
    if is_concrete(basis):
        rank = int(np.linalg.matrix_rank(np.asarray(basis)))
        check(rank == basis.shape[0], name, f"{basis.shape[0]} independent columns", f"rank {rank}")
