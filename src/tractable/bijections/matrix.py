r"""Linear maps with a shift: triangular, general, orthogonal, and the whitening of a covariance.

Identity.    $x = Az + b$ has $\log|\det A|$; with $z \sim N(0, I)$ it makes $x \sim N(b, AA^\top)$.
Whitening.   With $\Sigma = E\Lambda E^\top$ (eigenvectors in the columns of $E$), $y = \Lambda^{-1/2}E^\top(x
             - \mu)$ has identity covariance, $\Delta^2 = (x - \mu)^\top\Sigma^{-1}(x - \mu) = y^\top y$, and
             the level set $\Delta = 1$ is the ellipsoid with axes $\sqrt{\lambda_i}\,e_i$.
Cost.        $O(d^2)$ triangular and orthogonal, $O(d^3)$ for a factor, once per batch under `vmap`.
References.  Bishop (2006) section 2.3; Golub and Van Loan (2013) sections 3.2 and 5.1.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.bijections.base import Bijection
from tractable.core.checks import check, check_entries, check_shape, is_concrete
from tractable.core.module import field
from tractable.core.support import lower_cholesky, psd, real
from tractable.core.types import Array, ArrayLike, Float, Scalar

__all__ = ["LowerTriangular", "MatrixMap", "Orthogonal", "Whitening"]


class _AffineOfVector(Bijection):
    """What the affine maps of one vector share."""

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    @property
    def is_affine(self) -> bool:
        return True


class LowerTriangular(_AffineOfVector):
    r"""$x = Lz + b$ with $L$ = `lower` (positive diagonal): with $LL^\top = \Sigma$, standard normal noise
    becomes $N(b, \Sigma)$."""

    lower: Float[Array, "d d"] = field(support=lower_cholesky)
    shift: Float[Array, " d"] = field(support=real, rank=1)

    def __check_init__(self) -> None:
        check_shape(
            "shift", self.shift, self.lower.shape[:1], "It is a vector with one entry per row of `lower`."
        )

    def _forward(self, x):
        check_shape("x", x, self.shift.shape)
        return self.lower @ x + self.shift, self._log_det()

    def _inverse(self, y):
        check_shape("y", y, self.shift.shape)
        return jsl.solve_triangular(self.lower, y - self.shift, lower=True), -self._log_det()

    def _log_det(self) -> Scalar:
        return jnp.log(jnp.diagonal(self.lower)).sum()


class MatrixMap(_AffineOfVector):
    r"""$x = Az + b$ for any invertible $A$ = `matrix`, by its LU factors."""

    matrix: Float[Array, "d d"] = field(support=real, rank=2)
    shift: Float[Array, " d"] = field(support=real, rank=1)

    def __check_init__(self) -> None:
        rows = self.matrix.shape[0]
        check_shape("matrix", self.matrix, (rows, rows))
        check_shape("shift", self.shift, (rows,), "It is a vector with one entry per row of `matrix`.")
        if is_concrete(self.matrix):
            rank = int(np.linalg.matrix_rank(np.asarray(self.matrix)))
            fix = "Drop the dependent rows and columns."
            check(rank == rows, "matrix", "invertible", f"rank {rank} of {rows}", fix)

    def _forward(self, x):
        check_shape("x", x, self.shift.shape)
        return self.matrix @ x + self.shift, jnp.linalg.slogdet(self.matrix)[1]

    def _inverse(self, y):
        check_shape("y", y, self.shift.shape)
        factors = jsl.lu_factor(self.matrix)
        return jsl.lu_solve(factors, y - self.shift), -jnp.log(jnp.abs(jnp.diagonal(factors[0]))).sum()


class Orthogonal(_AffineOfVector):
    r"""$y = H_r \cdots H_1 x$ with the reflections $H_i = I - 2 v_i v_i^\top/\|v_i\|^2$, $v_i$ the rows of
    `vectors`; volume is kept."""

    vectors: Float[Array, "r d"] = field(support=real, rank=2)

    def __check_init__(self) -> None:
        check_entries("vectors", self.vectors, lambda v: (v != 0).any(-1), "rows different from zero")

    def _forward(self, x):
        check_shape("x", x, self.vectors.shape[1:])
        return jax.lax.scan(_reflect, x, self.vectors)[0], jnp.zeros((), x.dtype)

    def _inverse(self, y):
        check_shape("y", y, self.vectors.shape[1:])
        return jax.lax.scan(_reflect, y, self.vectors, reverse=True)[0], jnp.zeros((), y.dtype)


class Whitening(_AffineOfVector):
    r"""$y = \Lambda^{-1/2}E^\top(x - \mu)$ with $\mu$ = `mean` and `cov` $= E\Lambda E^\top$, positive
    definite.

    The coordinates of $y$ belong to the eigenvalues in increasing order. Where eigenvalues are equal their
    eigenvectors are not unique and the derivative in `cov` does not exist; `LowerTriangular(cholesky(cov),
    mean).inverted` whitens with a derivative everywhere.
    """

    mean: Float[Array, " d"] = field(support=real, rank=1)
    cov: Float[Array, "d d"] = field(support=psd)

    def __check_init__(self) -> None:
        check_shape("mean", self.mean, self.cov.shape[:1], "It is a vector with one entry per row of `cov`.")
        if is_concrete(self.cov):
            values = np.linalg.eigvalsh(np.asarray(self.cov))
            definite = values[0] > values[-1] * values.size * np.finfo(values.dtype).eps
            fix = "Drop directions without variance."
            check(definite, "cov", "positive definite", f"smallest eigenvalue {values[0]:.3g}", fix)

    def _forward(self, x):
        check_shape("x", x, self.mean.shape)
        values, vectors = jnp.linalg.eigh(self.cov)
        return vectors.T @ (x - self.mean) / jnp.sqrt(values), -0.5 * jnp.log(values).sum()

    def _inverse(self, y):
        check_shape("y", y, self.mean.shape)
        values, vectors = jnp.linalg.eigh(self.cov)
        return self.mean + vectors @ (jnp.sqrt(values) * y), 0.5 * jnp.log(values).sum()

    @property
    def axes(self) -> Float[Array, "d d"]:
        r"""The half-axes $\sqrt{\lambda_i}\,e_i$ of the ellipsoid $\Delta = 1$, one per column, the shortest
        first."""
        values, vectors = jnp.linalg.eigh(self.cov)
        return vectors * jnp.sqrt(values)[None, :]

    def squared_distance(self, x: ArrayLike) -> Scalar:
        r"""$\Delta^2 = (x - \mu)^\top\Sigma^{-1}(x - \mu) = y^\top y$."""
        y = self.forward(x)
        return y @ y


def _reflect(x: Array, v: Array) -> tuple[Array, None]:
    return x - 2 * v * (v @ x) / (v @ v), None
