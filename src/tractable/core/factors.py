r"""Factors of positive definite matrices: shapes with one interface, and what follows from any of them.

Interface.   `solve(b)` is $S^{-1} b$, `half_solve(b)` some $z$ with $z^\top z = b^\top S^{-1} b$, `log_det()`
             is $\log|S|$: all that conditioning and evidence of Gaussians need.
Shapes.      `PsdFactor`: $S = L L^\top$. `DiagonalPlusLowRank`: $S = D + W W^\top$ (Woodbury). `SiteFactor`:
             $S = K + T^{-1}$ with $T$ diagonal, in which a zero says nothing about its row.
Root.        With $V = D^{-1/2} W$ and $L L^\top = I + V^\top V$, $R = D^{1/2}(I + V (I + L)^{-1} V^\top)$ has
             $R R^\top = S$ and $R^{-1} = (I - V (I + L^\top)^{-1} L^{-1} V^\top) D^{-1/2}$: triangles only.
Singular.    With $R$ the matrix scaled to a unit diagonal, one step of inverse iteration and a Rayleigh
             quotient give $\lambda_{\min}(R)$: below $2d$ roundings the matrix is singular, its factor NaN.
Cost.        $O(d^3/3)$ for a dense factor, $O(d k^2)$ for low rank $k$; $O(d^2)$, $O(d k)$ per solve.
References.  Golub and Van Loan (2013) sections 2.1.4 and 4.2; Rasmussen and Williams (2006) section 3.4.3.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.linalg import PsdFactor, psd_factor, symmetrise
from tractable.core.module import Module
from tractable.core.numerics import safe_where
from tractable.core.types import Array, ArrayLike, Float, Scalar

__all__ = [
    "DiagonalPlusLowRank", "Factor", "SiteFactor", "UnitFactor", "is_regular", "normal_log_density",
    "positive_definite_factor", "psd_inverse", "psd_root", "schur_complement",
]  # fmt: skip

_LOG_2PI = float(np.log(2 * np.pi))


class DiagonalPlusLowRank(Module):
    r"""$\mathrm{diag}(s) + W W^\top$ with $s > 0$, solved in $O(d k)$ without ever forming the matrix.

    >>> low_rank = DiagonalPlusLowRank(jnp.ones(3), jnp.ones((3, 1)))
    >>> round(float(low_rank.log_det()), 6), low_rank.solve(jnp.ones(3)).tolist()
    (1.386294, [0.25, 0.25, 0.25])
    """

    diagonal: Float[Array, " d"]
    factor: Float[Array, "d k"]
    middle: PsdFactor  # of $I + W^\top D^{-1} W$

    def __init__(self, diagonal: Float[Array, " d"], factor: Float[Array, "d k"]):
        self.diagonal, self.factor = diagonal, factor
        eye = jnp.eye(factor.shape[1], dtype=factor.dtype)
        self.middle = psd_factor(eye + factor.T @ (factor / diagonal[:, None]))

    def dense(self) -> Float[Array, "d d"]:
        """The matrix itself."""
        return jnp.diag(self.diagonal) + self.factor @ self.factor.T

    def solve(self, b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
        r"""$(\mathrm{diag}(s) + W W^\top)^{-1} b$."""
        base = _rows(1 / self.diagonal, b)
        return base - _rows(1 / self.diagonal, self.factor @ self.middle.solve(self.factor.T @ base))

    def half_solve(self, b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
        r"""$R^{-1} b$ with $R R^\top = \mathrm{diag}(s) + W W^\top$."""
        scale = 1 / jnp.sqrt(self.diagonal)
        scaled, spread = _rows(scale, b), scale[:, None] * self.factor
        outer = (self.middle.lower + jnp.eye(spread.shape[1], dtype=spread.dtype)).T
        return scaled - spread @ jsl.solve_triangular(outer, self.middle.half_solve(spread.T @ scaled))

    def log_det(self) -> Scalar:
        r"""$\log|\mathrm{diag}(s) + W W^\top|$."""
        return jnp.log(self.diagonal).sum() + self.middle.log_det()


class SiteFactor(Module):
    r"""$S = K + T^{-1}$ with $T = \mathrm{diag}(\tau)$, $\tau \ge 0$: a row with $\tau = 0$ is not seen.

    `root` is $T^{1/2}$ and `inner` the factor of $B = I + T^{1/2} K T^{1/2}$, so that $S^{-1} = T^{1/2}
    B^{-1} T^{1/2}$; `log_det` is $\log|B| = \log|S| + \log|T|$, which exists for every $\tau$.
    """

    root: Float[Array, " n"]
    inner: PsdFactor

    @classmethod
    def of(cls, gram: Float[Array, "n n"], precision: Float[Array, " n"]) -> "SiteFactor":
        """The factor for the covariance `gram` and the precisions of the sites."""
        root = safe_where(precision > 0, jnp.sqrt, precision, 0.0)  # the square root has no slope at zero
        eye = jnp.eye(gram.shape[0], dtype=gram.dtype)
        lower = jnp.linalg.cholesky(eye + root[:, None] * gram * root[None])
        return cls(root, PsdFactor(lower, jnp.zeros((), gram.dtype)))

    def solve(self, b: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        r"""$T^{1/2} B^{-1} T^{1/2} b$."""
        return _rows(self.root, self.inner.solve(_rows(self.root, b)))

    def half_solve(self, b: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        r"""$L^{-1} T^{1/2} b$ with $L L^\top = B$."""
        return self.inner.half_solve(_rows(self.root, b))

    def log_det(self) -> Scalar:
        r"""$\log|B|$."""
        return self.inner.log_det()


class UnitFactor(Module):
    """$S = I$: numbers that were whitened before."""

    def solve(self, b: Array) -> Array:
        return b

    def half_solve(self, b: Array) -> Array:
        return b

    def log_det(self) -> Scalar:
        return jnp.zeros(())


Factor = PsdFactor | DiagonalPlusLowRank | SiteFactor | UnitFactor


def positive_definite_factor(a: Float[Array, "d d"], jitter: ArrayLike = 0.0) -> PsdFactor:
    r"""The Cholesky factor of $A$, or NaN where $A$ is singular to rounding.

    Cholesky alone can return finite nonsense for a rank-deficient matrix: its last pivot is then $10^{-16}$
    of either sign, and half of the time positive.
    """
    factor = psd_factor(a, jitter=jitter)
    return PsdFactor(jnp.where(is_regular(factor.lower), factor.lower, jnp.nan), factor.jitter)


def is_regular(lower: Float[Array, "d d"]) -> Array:
    r"""Whether $L L^\top$ is more than rounding away from a singular matrix."""
    held, d = jax.lax.stop_gradient(lower), lower.shape[0]
    if d == 1:
        return held[0, 0] > 0
    scale = jnp.linalg.norm(held, axis=1)
    start = jnp.cos(1.0 + jnp.arange(d, dtype=held.dtype) ** 2)  # like no direction that a problem has
    grown = scale * jsl.cho_solve((held, True), scale * start)
    grown = grown / jnp.linalg.norm(grown)
    half = jsl.solve_triangular(held, scale * grown, lower=True)
    return 2 * d * jnp.finfo(held.dtype).eps * (half @ half) < 1


@jax.jit
def psd_inverse(a: Float[Array, "d d"]) -> Float[Array, "d d"]:
    r"""$A^{-1}$, exactly symmetric; NaN where $A$ is singular to rounding."""
    return symmetrise(positive_definite_factor(a).solve(jnp.eye(a.shape[0], dtype=a.dtype)))


def psd_root(a: Float[Array, "d d"]) -> Float[Array, "d d"]:
    r"""$B$ with $B B^\top = A$: the Cholesky factor where it exists, else a root from the eigenvalues.

    Of a singular matrix, the eigenvalues that rounding has put below zero are taken as zero.
    """
    regular = jnp.isfinite(positive_definite_factor(jax.lax.stop_gradient(a)).lower).all()
    identity = jnp.eye(a.shape[0], dtype=a.dtype)
    ladder = jnp.diag(jnp.arange(1, a.shape[0] + 1, dtype=a.dtype))  # distinct eigenvalues: a finite gradient

    def cholesky():
        return jnp.linalg.cholesky(jnp.where(regular, a, identity))

    def spectral():
        values, vectors = jnp.linalg.eigh(jnp.where(regular, ladder, a))
        return vectors * safe_where(values > 0, jnp.sqrt, values, 0.0)[None]

    return jax.lax.cond(regular, cholesky, spectral)


def schur_complement(
    corner: Float[Array, "*u a a"], cross: Float[Array, "*u b a"], inner: Factor | Float[Array, "*u b b"]
) -> Float[Array, "*u a a"]:
    r"""$P - C^\top S^{-1} C$, exactly symmetric, for a factor of $S$ or (indefinite too) for $S$ itself."""
    if isinstance(inner, Factor):
        half = inner.half_solve(cross)
        return symmetrise(corner - half.T @ half)
    left = corner - jnp.swapaxes(cross, -1, -2) @ jnp.linalg.solve(inner, cross)
    return 0.5 * (left + jnp.swapaxes(left, -1, -2))


def normal_log_density(squares: Any, log_det: Any, count: Any) -> Any:
    r"""$-\frac12(q + \log|S| + n\log 2\pi)$: the log-density of $n$ Gaussian numbers whose residual has
    $q = r^\top S^{-1} r$; the evidence of every linear-Gaussian model."""
    return -0.5 * (squares + log_det + count * _LOG_2PI)


def _rows(scale: Float[Array, " d"], b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
    """Each row of `b` times a number."""
    return b * (scale if b.ndim == 1 else scale[:, None])
