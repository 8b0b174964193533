r"""The precision of a Gaussian approximation, in the forms that its size allows.

Matrix.      $A = -\nabla\nabla \log f$ at a mode: dense; its diagonal; or $\mathrm{diag}(b) + W W^\top$ with
             $W$ from the largest eigenvalues. Each form solves, draws and gives $\log|A|$ without the others.
Scaling.     The dense form is judged and inverted after scaling to a unit diagonal: parameters of sizes
             $10^{-8}$ and $10^8$ in one model lose no digits, and "positive definite" does not depend on
             units.
Cost.        $O(d^3)$ dense, $O(d)$ diagonal, $O(d k^2)$ for rank $k$; the diagonal of a Hessian takes $d$
             Hessian-vector products, the top of its spectrum about $20 (k + 10)$.
References.  Golub and Van Loan (2013) chapter 8; Halko, Martinsson and Tropp (2011); Ritter et al. (2018).
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import to_device
from tractable.core.factors import DiagonalPlusLowRank
from tractable.core.host_random import generator
from tractable.core.iterate import run
from tractable.core.linalg import symmetrise
from tractable.core.module import Module
from tractable.core.types import Array, Bool, Float, Scalar, Values

__all__ = [
    "DensePrecision", "DiagonalPrecision", "LowRankPrecision", "Precision", "hessian_diagonal",
    "hessian_product", "top_eigenpairs",
]  # fmt: skip

_MOST_DIRECTIONS = 64  # along which skewness is measured
_OVERSAMPLING = 10
_SWEEPS = 20

Product = Callable[[Array], Array]


class Precision(Module):
    """A symmetric matrix $A$, the inverse of a covariance, that knows whether it is positive definite."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number $d$ of rows."""

    @property
    @abstractmethod
    def positive(self) -> Bool[Array, ""]:
        """Whether all eigenvalues are clearly above zero."""

    @property
    @abstractmethod
    def smallest(self) -> Scalar:
        """The smallest eigenvalue, of the matrix scaled to a unit diagonal or of its diagonal part."""

    @abstractmethod
    def solve(self, v: Float[Array, " d"]) -> Float[Array, " d"]:
        r"""$A^{-1} v$."""

    @abstractmethod
    def root(self, z: Float[Array, " d"]) -> Float[Array, " d"]:
        r"""$B z$ with $B B^\top = A^{-1}$: a standard normal $z$ becomes one of covariance $A^{-1}$."""

    @abstractmethod
    def quadratic(self, v: Float[Array, " d"]) -> Scalar:
        r"""$v^\top A v$."""

    @abstractmethod
    def log_det(self) -> Scalar:
        r"""$\log|A|$; NaN where $A$ is not positive definite."""

    def covariance(self) -> Float[Array, "d d"]:
        r"""$A^{-1}$ as a dense matrix."""
        identity = jnp.eye(self.size, dtype=self.smallest.dtype)
        return symmetrise(jax.vmap(self.solve)(identity))

    def variances(self) -> Float[Array, " d"]:
        r"""The diagonal of $A^{-1}$."""
        return jnp.diag(self.covariance())

    def directions(self) -> Float[Array, "k d"]:
        """Up to 64 directions in which the Gaussian has unit variance, the widest first where known."""
        identity = jnp.eye(self.size, dtype=self.smallest.dtype)
        return jax.vmap(self.root)(identity[:_MOST_DIRECTIONS])


class DensePrecision(Precision):
    r"""$A = S V \mathrm{diag}(\lambda) V^\top S$ with $S^2$ the diagonal of $A$."""

    scale: Float[Array, " d"]
    values: Float[Array, " d"]
    vectors: Float[Array, "d d"]

    @staticmethod
    def of(matrix: Values) -> "DensePrecision":
        """The form of a symmetric matrix (its symmetric part)."""
        xp: Any = np if isinstance(matrix, np.ndarray) else jnp  # on the host nothing is compiled
        diagonal = xp.diag(matrix)
        scale = xp.sqrt(xp.where(diagonal > 0, diagonal, 1.0))
        values, vectors = xp.linalg.eigh(0.5 * (matrix + matrix.T) / (scale[:, None] * scale[None]))
        parts = (scale, values, vectors)
        return DensePrecision(*(map(to_device, parts) if xp is np else parts))

    def on_host(self) -> "DensePrecision":
        """The same with NumPy arrays, whose answers are NumPy arrays: nothing is compiled."""
        return jax.tree.map(np.asarray, self)

    @property
    def size(self) -> int:
        return self.scale.size

    @property
    def smallest(self) -> Scalar:
        return self.values[0]

    @property
    def positive(self) -> Bool[Array, ""]:
        return self.values[0] > 4 * self.size * jnp.finfo(self.values.dtype).eps * self.values[-1]

    def solve(self, v: Values) -> Values:
        return self.vectors @ ((self.vectors.T @ (v / self.scale)) / self.values) / self.scale

    def root(self, z: Values) -> Values:
        return self.vectors @ (z / self.values**0.5) / self.scale

    def quadratic(self, v: Values) -> Any:
        return self.values @ (self.vectors.T @ (v * self.scale)) ** 2

    def log_det(self) -> Any:
        xp = np if isinstance(self.values, np.ndarray) else jnp
        return xp.log(self.values).sum() + 2 * xp.log(self.scale).sum()

    def variances(self) -> Values:
        return (self.vectors**2 / self.values[None]).sum(1) / self.scale**2


class DiagonalPrecision(Precision):
    r"""$A = \mathrm{diag}(a)$: each parameter by itself."""

    diagonal: Float[Array, " d"]

    @property
    def size(self) -> int:
        return self.diagonal.size

    @property
    def smallest(self) -> Scalar:
        return self.diagonal.min()

    @property
    def positive(self) -> Bool[Array, ""]:
        return self.smallest > 0

    def solve(self, v: Array) -> Array:
        return v / self.diagonal

    def root(self, z: Array) -> Array:
        return z / jnp.sqrt(self.diagonal)

    def quadratic(self, v: Array) -> Scalar:
        return self.diagonal @ v**2

    def log_det(self) -> Scalar:
        return jnp.log(self.diagonal).sum()

    def variances(self) -> Array:
        return 1 / self.diagonal

    def directions(self) -> Array:
        widest = jnp.argsort(self.diagonal)[:_MOST_DIRECTIONS]
        return jax.vmap(self.root)(jax.nn.one_hot(widest, self.size, dtype=self.diagonal.dtype))


class LowRankPrecision(Precision):
    r"""$A = \mathrm{diag}(b) + W W^\top$ with few columns in $W$."""

    matrix: DiagonalPlusLowRank

    @staticmethod
    def of(
        product: Product, diagonal: Float[Array, " d"], rank: int, prior: Float[Array, " d"] | None
    ) -> "LowRankPrecision":
        r"""The top of the spectrum of $x \mapsto A x$, and a diagonal for all the rest.

        With `prior`, $A = \mathrm{diag}(\mathrm{prior}) + H$ and the eigenpairs are those of $H$. Without it
        they are those of $A$, and what is left of `diagonal` keeps the diagonal of $A$ exact.
        """
        rest = jnp.zeros_like(diagonal) if prior is None else prior
        values, vectors = top_eigenpairs(lambda v: product(v) - rest * v, diagonal.size, rank)
        factor = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None]
        base = diagonal - (factor**2).sum(1) if prior is None else prior
        return LowRankPrecision(DiagonalPlusLowRank(base, factor))

    @property
    def size(self) -> int:
        return self.matrix.diagonal.size

    @property
    def smallest(self) -> Scalar:
        return self.matrix.diagonal.min()

    @property
    def positive(self) -> Bool[Array, ""]:
        return self.smallest > 0

    def solve(self, v: Array) -> Array:
        return self.matrix.solve(v)

    def root(self, z: Array) -> Array:
        # (I + B B^T)^(-1/2) = I + U ((1 + s^2)^(-1/2) - 1) U^T for the thin singular vectors U, s of B
        spread = jnp.sqrt(self.matrix.diagonal)
        left, s, _ = jnp.linalg.svd(self.matrix.factor / spread[:, None], full_matrices=False)
        return (z + left @ ((1 / jnp.sqrt(1 + s**2) - 1) * (left.T @ z))) / spread

    def quadratic(self, v: Array) -> Scalar:
        return self.matrix.diagonal @ v**2 + ((self.matrix.factor.T @ v) ** 2).sum()

    def log_det(self) -> Scalar:
        return jnp.where(self.positive, self.matrix.log_det(), jnp.nan)


def hessian_product(fun: Callable[[Array], Scalar], x: Float[Array, " d"]) -> Product:
    r"""$v \mapsto \nabla\nabla f(x)\,v$, forward over reverse, without forming the matrix."""
    return lambda v: jax.jvp(jax.grad(fun), (x,), (v,))[1]


def hessian_diagonal(fun: Callable[[Array], Scalar], x: Float[Array, " d"]) -> Float[Array, " d"]:
    r"""$\partial^2 f/\partial x_i^2$ for each $i$, exactly, by $d$ products, 64 at a time."""
    product = hessian_product(fun, x)

    def entry(i):
        return product(jax.nn.one_hot(i, x.size, dtype=x.dtype))[i]

    return jax.lax.map(entry, jnp.arange(x.size), batch_size=min(64, x.size))


def top_eigenpairs(product: Product, size: int, rank: int) -> tuple[Float[Array, " k"], Float[Array, "d k"]]:
    """The largest eigenvalues of a symmetric map, descending, and their vectors as columns.

    Orthogonal iteration from a fixed start with ten spare columns, which repeated eigenvalues do not trouble.
    """
    rank = min(rank, size)
    columns = min(size, rank + _OVERSAMPLING)
    start = jnp.asarray(generator(0).normal(size=(size, columns)))
    many = jax.vmap(product, in_axes=1, out_axes=1)

    def sweep(basis, _):
        return jnp.linalg.qr(many(basis))[0], None

    basis = run(sweep, jnp.linalg.qr(start)[0], num_steps=_SWEEPS).state
    values, inner = jnp.linalg.eigh(symmetrise(basis.T @ many(basis)))
    return values[::-1][:rank], (basis @ inner)[:, ::-1][:, :rank]
