r"""Positive semi-definite matrices: one factor, one jitter policy, low-rank changes, and what follows.

Factor.      $A + \epsilon\,\bar a I = L L^\top$ with $\bar a$ the mean of the diagonal. The jitter $\epsilon$
             is zero unless the caller asks for more, and what was added is kept: nothing is hidden.
Woodbury.    $(A - B D^{-1} C)^{-1} = A^{-1} + A^{-1} B (D - C A^{-1} B)^{-1} C A^{-1}$ and
             $|A - B D^{-1} C| = |A|\,|D - C A^{-1} B| / |D|$.
Cost.        $O(d^3/3)$ for a factor, $O(d^2)$ for each solve and each rank-one change of a factor.
References.  Golub and Van Loan (2013) sections 2.1.4, 4.2 and 6.5; Higham (1988).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import check, check_finite, is_concrete
from tractable.core.iterate import run
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar

__all__ = [
    "Pivots", "PsdFactor", "cholesky_downdate", "cholesky_update", "log_det", "nearest_psd",
    "pivoted_cholesky", "psd_factor", "psd_factor_checked", "psd_solve", "sherman_morrison_solve", "sqrt_sum",
    "symmetrise", "tria", "woodbury_log_det", "woodbury_solve",
]  # fmt: skip

Solve = Callable[[Array], Array]


class PsdFactor(Module):
    r"""$L$ with $L L^\top = A + \mathrm{jitter}\, I$; `jitter` says how much was added to the diagonal."""

    lower: Float[Array, "d d"]
    jitter: Scalar

    def solve(self, b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
        r"""$A^{-1} b$."""
        if self.lower.shape == (1, 1):  # a call of LAPACK per number, and for the compiler
            return b / self.lower[0, 0] / self.lower[0, 0]
        return jsl.cho_solve((self.lower, True), b)

    def half_solve(self, b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
        r"""$L^{-1} b$, so that $\|L^{-1} b\|^2 = b^\top A^{-1} b$."""
        if self.lower.shape == (1, 1):
            return b / self.lower[0, 0]
        return jsl.solve_triangular(self.lower, b, lower=True)

    def log_det(self) -> Scalar:
        r"""$\log |A|$."""
        return 2 * jnp.log(jnp.diag(self.lower)).sum()


def symmetrise(a: Float[Array, "d d"]) -> Float[Array, "d d"]:
    r"""$(A + A^\top)/2$: removes the rounding that two orders of multiplication leave."""
    return 0.5 * (a + a.T)


@partial(jax.jit, static_argnames="largest_jitter")
def psd_factor(
    a: Float[Array, "d d"], *, jitter: ArrayLike = 0.0, largest_jitter: float | None = None
) -> PsdFactor:
    r"""Cholesky factor of $A$ (of its symmetric part) plus `jitter` times its mean diagonal.

    With `largest_jitter`, the jitter is raised tenfold (from at least $10^{-14}$) until the factor exists,
    and never past `largest_jitter`. A factor that does not exist is NaN: an honest answer inside a compiled
    program (`psd_factor_checked` raises instead, where there are values to look at).
    """
    identity = jnp.eye(a.shape[0], dtype=a.dtype)

    def attempt(a, relative):
        raised = a + relative * (jnp.trace(a) / a.shape[0]) * identity
        if a.shape == (1, 1):
            return jnp.sqrt(jnp.where(raised > 0, raised, jnp.nan))
        return jnp.linalg.cholesky(raised)

    relative = jnp.asarray(jitter, a.dtype)
    if largest_jitter is not None:
        # the search has no derivative: it runs on constants, and the factor is made once more from its result
        constant = jax.lax.stop_gradient(a)

        def failed(carry):
            relative, lower = carry
            return ~jnp.isfinite(lower).all() & (relative < largest_jitter)

        def raise_jitter(carry):
            relative = jnp.clip(10 * carry[0], min(1e-14, largest_jitter), largest_jitter)
            return relative, attempt(constant, relative)

        relative, _ = jax.lax.while_loop(failed, raise_jitter, (relative, attempt(constant, relative)))
    return PsdFactor(attempt(a, relative), relative * jnp.trace(a) / a.shape[0])


def psd_factor_checked(
    a: ArrayLike, name: str = "matrix", *, jitter: ArrayLike = 0.0, largest_jitter: float | None = None
) -> PsdFactor:
    """`psd_factor`, with an error that names the smallest eigenvalue where concrete values have no factor."""
    a = jnp.asarray(a)
    check(a.ndim == 2 and a.shape[0] == a.shape[1], name, "a square matrix", f"shape {a.shape}")
    check_finite(name, a)
    if is_concrete(a):
        gap = float(np.abs(np.asarray(a) - np.asarray(a).T).max(initial=0.0))
        largest = float(np.abs(np.asarray(a)).max(initial=0.0))
        check(
            gap <= 1e-6 * largest, name, "symmetric", f"entries that differ by {gap:.3g} across the diagonal"
        )
    factor = psd_factor(a, jitter=jitter, largest_jitter=largest_jitter)
    if is_concrete(factor.lower) and not np.isfinite(np.asarray(factor.lower)).all():
        smallest = np.linalg.eigvalsh(np.asarray(symmetrise(a)))[0]
        fix = "Remove dependent columns or repeated points, or allow a `largest_jitter`."
        check(False, name, "positive definite", f"smallest eigenvalue {smallest:.6g}", fix)
    return factor


def psd_solve(a: Float[Array, "d d"], b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
    r"""$A^{-1} b$ for positive definite $A$."""
    return psd_factor(a).solve(b)


def log_det(a: Float[Array, "d d"]) -> Scalar:
    r"""$\log |A|$ for positive definite $A$."""
    return psd_factor(a).log_det()


def nearest_psd(a: Float[Array, "d d"]) -> Float[Array, "d d"]:
    r"""The positive semi-definite matrix nearest to $(A + A^\top)/2$: negative eigenvalues become zero."""
    values, vectors = jnp.linalg.eigh(symmetrise(a))
    return symmetrise((vectors * jnp.maximum(values, 0)[None, :]) @ vectors.T)


def cholesky_update(lower: Float[Array, "d d"], v: Float[Array, " d"]) -> Float[Array, "d d"]:
    r"""The factor of $L L^\top + v v^\top$ in $O(d^2)$, by Givens rotations."""

    def rotate(v, column_and_index):
        column, k = column_and_index
        length = jnp.hypot(column[k], v[k])
        cosine = jnp.where(length > 0, column[k] / jnp.where(length > 0, length, 1.0), 1.0)
        sine = jnp.where(length > 0, v[k] / jnp.where(length > 0, length, 1.0), 0.0)
        return cosine * v - sine * column, cosine * column + sine * v

    return _by_columns(rotate, lower, v)


def cholesky_downdate(lower: Float[Array, "d d"], v: Float[Array, " d"]) -> Float[Array, "d d"]:
    r"""The factor of $L L^\top - v v^\top$ in $O(d^2)$; NaN where that matrix is not positive definite."""

    def rotate(v, column_and_index):
        column, k = column_and_index
        sine = v[k] / column[k]
        cosine = jnp.sqrt((1 - sine) * (1 + sine))
        column = (column - sine * v) / cosine
        return cosine * v - sine * column, column

    return _by_columns(rotate, lower, v)


def tria(matrix: Float[Array, "d k"]) -> Float[Array, "d d"]:
    r"""Lower-triangular $L$ with $L L^\top = M M^\top$ and no negative diagonal entry, by QR of $M^\top$."""
    rows, columns = matrix.shape
    padded = jnp.pad(matrix, ((0, 0), (0, max(rows - columns, 0))))
    upper = jnp.linalg.qr(padded.T, mode="r")
    return (upper * jnp.where(jnp.diag(upper) < 0, -1.0, 1.0)[:, None]).T


def sqrt_sum(*factors: Float[Array, "d _"]) -> Float[Array, "d d"]:
    r"""The lower-triangular $L$ with $L L^\top = \sum_i F_i F_i^\top$; the sum itself is never formed."""
    return tria(jnp.concatenate(factors, axis=1))


class Pivots(NamedTuple):
    """Rows in the order in which a pivoted Cholesky factor takes them, and the trace left after each."""

    indices: Int[Array, " r"]
    residuals: Float[Array, " r"]


def pivoted_cholesky(
    column: Callable[[Scalar], Float[Array, " n"]],
    diagonal: Float[Array, " n"],
    count: int,
    tol: float = 0.0,
) -> Pivots:
    """The pivots of a PSD matrix that is known by its diagonal and, one at a time, its columns.

    Each time the row with the largest remaining variance is taken; where none has more than `tol` times the
    largest of all, further columns of the factor are zero.
    """
    floor = tol * diagonal.max()

    def step(state: tuple[Array, Array], place: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        factor, left = state
        pivot = jnp.argmax(left)
        useful = left[pivot] > floor
        root = jnp.sqrt(jnp.where(useful, left[pivot], 1.0))
        new = jnp.where(useful, (column(pivot) - factor @ factor[pivot]) / root, 0.0)
        left = jnp.maximum(left - new**2, 0.0).at[pivot].set(0.0)  # below zero by rounding alone
        return (factor.at[:, place].set(new), left), (pivot, left.sum())

    start = jnp.zeros((diagonal.shape[0], count), diagonal.dtype), diagonal
    return Pivots(*run(step, start, jnp.arange(count)).trace)


def woodbury_solve(
    solve: Solve,
    b: Float[Array, "d k"],
    d: Float[Array, "k k"],
    c: Float[Array, "k d"],
    right: Float[Array, "d *m"],
) -> Float[Array, "d *m"]:
    r"""$(A - B D^{-1} C)^{-1} r$, given the map $r \mapsto A^{-1} r$."""
    base, spread = solve(right), solve(b)
    return base + spread @ jnp.linalg.solve(d - c @ spread, c @ base)


def woodbury_log_det(
    solve: Solve, log_det_a: Scalar, b: Float[Array, "d k"], d: Float[Array, "k k"], c: Float[Array, "k d"]
) -> Scalar:
    r"""$\log|\det(A - B D^{-1} C)|$ (absolute value), given $r \mapsto A^{-1} r$ and $\log|\det A|$."""
    inner = jnp.linalg.slogdet(d - c @ solve(b))[1]
    return log_det_a + inner - jnp.linalg.slogdet(d)[1]


def sherman_morrison_solve(
    solve: Solve, u: Float[Array, " d"], v: Float[Array, " d"], right: Float[Array, "d *m"]
) -> Float[Array, "d *m"]:
    r"""$(A + u v^\top)^{-1} r = A^{-1} r - A^{-1} u\,v^\top A^{-1} r / (1 + v^\top A^{-1} u)$."""
    return woodbury_solve(solve, u[:, None], -jnp.ones((1, 1), u.dtype), v[None, :], right)


def _by_columns(rotate: Callable, lower: Float[Array, "d d"], v: Float[Array, " d"]) -> Float[Array, "d d"]:
    """Rotate `v` into each column in turn; entries above the diagonal stay the zeros that they are."""
    indices = jnp.arange(lower.shape[0])

    def step(v, column_and_index):
        remaining, column = rotate(v, column_and_index)
        done = indices <= column_and_index[1]
        return jnp.where(done, 0.0, remaining), jnp.where(indices < column_and_index[1], 0.0, column)

    return jax.lax.scan(step, v, (lower.T, indices))[1].T
