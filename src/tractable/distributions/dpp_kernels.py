r"""Kernels of determinantal point processes: validity, the two forms, and Schur complements.

Validity.    A symmetric $K$ is the marginal kernel of a process if and only if $0 \preceq K \preceq I$
             (Loewner order); any $L \succeq 0$ is the kernel of an ensemble.
Forms.       $K = L(L + I)^{-1} = I - (L + I)^{-1}$ and $L = K(I - K)^{-1}$: the same eigenvectors, and
             eigenvalues $\kappa = \lambda / (1 + \lambda)$. An eigenvalue $\kappa = 1$ has no $\lambda$.
Cost.        $O(N^3)$: eigenvalues for a check, one Cholesky factor for a conversion.
References.  Kulesza and Taskar (2012), "Determinantal point processes for machine learning", section 2.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import ImpossibleEvidence, as_float, check, check_finite, check_shape, is_concrete
from tractable.core.factors import schur_complement
from tractable.core.linalg import psd_solve, symmetrise
from tractable.core.types import Array, ArrayLike, Bool
from tractable.distributions.gaussian_parts import as_indices

__all__ = [
    "Items", "Matrix", "block", "checked_kernel", "ensemble_kernel", "given_items", "item_indices",
    "loewner_leq", "marginal_kernel", "rounding_of", "to_marginal",
]  # fmt: skip

Items = Sequence[int] | np.ndarray | Array  # indices of items, numbered from 0
Matrix = ArrayLike | Sequence


def loewner_leq(a: Matrix, b: Matrix) -> Bool[Array, ""]:
    r"""Whether $A \preceq B$: the matrix $B - A$ is symmetric without a negative eigenvalue (up to rounding).

    >>> kernel = np.array([[1.0, -0.5], [-0.5, 1.0]])
    >>> bool(loewner_leq(np.zeros((2, 2)), kernel)), bool(loewner_leq(kernel, np.eye(2)))
    (True, False)
    """
    a, b = as_float("a", a), as_float("b", b)
    check(a.ndim == 2 and a.shape[0] == a.shape[1], "a", "a square matrix", f"shape {a.shape}")
    check_shape("b", b, a.shape)
    tolerance = rounding_of(a) * jnp.maximum(jnp.abs(a).max(), jnp.abs(b).max())
    gap = b - a
    symmetric = jnp.abs(gap - gap.T).max() <= tolerance
    return symmetric & (jnp.linalg.eigvalsh(gap)[0] >= -tolerance)


def marginal_kernel(L: Matrix) -> Array:
    r"""$K = L(L + I)^{-1} = I - (L + I)^{-1}$, with eigenvalues $\lambda / (1 + \lambda)$."""
    return to_marginal(checked_kernel("L", np.inf, L)[0])


def ensemble_kernel(K: Matrix) -> Array:
    r"""$L = K(I - K)^{-1}$, eigenvalues $\kappa / (1 - \kappa)$; an error where $K$ has an eigenvalue 1."""
    array, eigenvalues = checked_kernel("K", 1.0, K)
    if eigenvalues is not None:
        largest = eigenvalues.max()
        fix = "Such a process is never empty and has no `L`; work with `K`."
        below = 1 - largest > rounding_of(array)
        check(below, "K", "without the eigenvalue 1 to have an `L`", f"the eigenvalue {largest}", fix)
    return _to_ensemble(array)


def checked_kernel(name: str, largest: float, value: Any) -> tuple[Array, np.ndarray | None]:
    """`value` as a symmetric kernel with eigenvalues from 0 to `largest`, and these where it has values."""
    array = as_float(name, value)
    square = array.ndim >= 2 and array.shape[-1] == array.shape[-2] and array.shape[-1] > 0
    check(square, name, "a square matrix with a row for each item", f"shape {array.shape}")
    if is_concrete(array):
        values = np.asarray(array)
        check_finite(name, values)
        # What rounding of the input can do: eight digits of a number that was printed and read, more in
        # single precision.
        tolerance = max(1e-8, rounding_of(array)) * np.abs(values).max()
        skew = np.abs(values - np.swapaxes(values, -1, -2)).max()
        fix = "Average it with its transpose."
        check(skew <= tolerance, name, "symmetric", f"entries that differ by {skew} across the diagonal", fix)
        eigenvalues = np.linalg.eigvalsh(values)
        smallest, top = eigenvalues.min(), eigenvalues.max()
        check(smallest >= -tolerance, name, "positive semi-definite", f"the eigenvalue {smallest}")
        fix = "A kernel with larger eigenvalues may be an `L`."
        must = "at most the identity (0 <= K <= I)"
        check(top <= largest + tolerance, name, must, f"the eigenvalue {top}", fix)
        return array, eigenvalues
    return array, None


def item_indices(name: str, items: Any, count: int) -> np.ndarray:
    """`items` as an array of distinct indices below `count`, possibly none."""
    return as_indices(name, items, count) if np.size(items) else np.zeros(0, int)


def block(a: Any, rows: Any, columns: Any) -> Any:
    """The entries of the last two axes of `a` in the given rows and columns."""
    return a[..., rows[:, None], columns[None, :]]


def given_items(name: str, a: Array, rest: np.ndarray, fixed: np.ndarray) -> Array:
    r"""$A_R - A_{RB} A_B^{-1} A_{BR}$; a singular $A_B$ is an impossible event, an error about `name`."""
    if len(fixed) == 0:
        return block(a, rest, rest)
    if is_concrete(a):
        sizes = np.abs(np.linalg.eigvalsh(block(np.asarray(a), fixed, fixed)))
        possible = (sizes.min(-1) > rounding_of(a) * sizes.max(-1)).all()
        fix = "No subset agrees with it: these items are linearly dependent, or sure to be there or not."
        got = f"the items {fixed.tolist()}"
        check(possible, name, "of positive probability", got, fix, ImpossibleEvidence)
    return schur_complement(block(a, rest, rest), block(a, fixed, rest), block(a, fixed, fixed))


def rounding_of(a: Array) -> float:
    r"""$10 N \epsilon$: how far off, relative to the largest, an eigenvalue is by rounding."""
    return 10 * a.shape[-1] * float(jnp.finfo(a.dtype).eps)


@jax.jit
@partial(jnp.vectorize, signature="(n,n)->(n,n)")
def to_marginal(L: Array) -> Array:
    r"""`marginal_kernel` of a kernel that has been checked."""
    return symmetrise(psd_solve(L + jnp.eye(L.shape[0], dtype=L.dtype), L))


@jax.jit
@partial(jnp.vectorize, signature="(n,n)->(n,n)")
def _to_ensemble(K: Array) -> Array:
    return symmetrise(psd_solve(jnp.eye(K.shape[0], dtype=K.dtype) - K, K))
