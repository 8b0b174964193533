r"""Finite features that come near a kernel: random Fourier features, and Nystrom features from landmarks.

Bochner.     A stationary kernel with $k(0) = 1$ is $E\cos(\omega^\top(x - x'))$ for $\omega$ from its
             spectral density: normal $N(0, \ell^{-2})$ for the RBF, Student with $2\nu$ degrees for a Matern
             kernel, a gamma mixture of normals for the rational quadratic. So
             $\phi(x) = (\cos\omega_i^\top x, \sin\omega_i^\top x)_i / \sqrt m$ has
             $E[\phi(x)^\top\phi(x')] = k(x, x')$, and each entry the variance
             $\frac{1 + k(2\tau) - 2k(\tau)^2}{2m}$ (RBF). Orthogonal frequencies are still unbiased, and
             their errors are smaller.
Nystrom.     $\phi(x) = \Lambda^{-1/2} U^\top k(Z, x)$ for landmarks $Z$ with $k(Z, Z) = U\Lambda U^\top$:
             exact at the landmarks, and $|k(x, x') - \phi(x)^\top\phi(x')| \le \sqrt{\rho(x)\rho(x')}$ with
             the residual $\rho(x) = k(x, x) - \|\phi(x)\|^2 \ge 0$.
Cost.        $O(nmd)$ for Fourier features; $O(m^3)$ once and $O(nm^2)$ for Nystrom; $O(nm^2)$ for the choice
             of $Z$.
References.  Rahimi and Recht (2007); Yu, Suresh, Choromanski, Holtmann-Rice and Kumar (2016); Williams and
             Seeger (2001); Harbrecht, Peters and Schneider (2012).
"""

from functools import singledispatch

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.keys import takes_key
from tractable.core.linalg import Pivots, pivoted_cholesky
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import points
from tractable.core.support import positive
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.kernels.base import Kernel, Scaled
from tractable.kernels.stationary import RBF, Matern, Matern12, RationalQuadratic, per_column

__all__ = [
    "FourierFeatures", "NystromFeatures", "pivoted_landmarks", "random_fourier_features",
    "spectral_factor",
]  # fmt: skip


class FourierFeatures(Module):
    r"""$\phi(x) = \sqrt{c/m}\,(\cos\omega_1^\top x, ..., \sin\omega_m^\top x)$, with $2m$ columns."""

    frequencies: Float[Array, "m d"]
    variance: Scalar = field(support=positive)

    def __call__(self, X: ArrayLike) -> Float[Array, "n features"]:
        """One row of features for each row."""
        phases = points(X, self.frequencies.shape[1]) @ self.frequencies.T
        scale = jnp.sqrt(self.variance / len(self.frequencies))
        return scale * jnp.concatenate([jnp.cos(phases), jnp.sin(phases)], axis=1)


@singledispatch
def spectral_factor(kernel: Kernel, key: Key, count: int) -> Array:
    """What a standard normal vector is multiplied by to be a frequency of `kernel` with length scale one.

    A new stationary kernel joins with `@spectral_factor.register(ItsClass)`.
    """
    known = ", ".join(
        sorted(c.__name__ for c in spectral_factor.registry if issubclass(c, Kernel) and c is not Kernel)
    )
    raise TypeError(f"`kernel` must have a known spectral density; got {kernel!r}. Known: {known}.")


@spectral_factor.register(RBF)
def _rbf_factor(kernel: RBF, key: Key, count: int) -> Array:
    return jnp.ones(count)


@spectral_factor.register(Matern12)
@spectral_factor.register(Matern)
def _matern_factor(kernel: Matern12 | Matern, key: Key, count: int) -> Array:
    return jnp.sqrt(kernel.nu / jr.gamma(key, kernel.nu, (count,)))  # Student: normal over a chi


@spectral_factor.register(RationalQuadratic)
def _rational_factor(kernel: RationalQuadratic, key: Key, count: int) -> Array:
    return jnp.sqrt(jr.gamma(key, kernel.alpha, (count,)) / kernel.alpha)


@takes_key
def random_fourier_features(
    kernel: Kernel, num_features: int, dim: int, key: Key, *, orthogonal: bool = False
) -> FourierFeatures:
    """Draw `num_features` frequencies (two columns of features each) of a stationary kernel, scaled or not.

    With `orthogonal`, the frequencies of each group of `dim` are at right angles.
    """
    variance = jnp.ones(())
    while isinstance(kernel, Scaled):
        variance, kernel = variance * kernel.variance, kernel.kernel
    count, dim = check_count("num_features", num_features), check_count("dim", dim)
    directions, radii = jr.split(key)
    normals = (
        _orthogonal_normals(directions, count, dim) if orthogonal else jr.normal(directions, (count, dim))
    )
    factor = spectral_factor(kernel, radii, count)[:, None]
    scale = per_column("length_scale", kernel.length_scale, dim)  # pyright: ignore[reportAttributeAccessIssue]
    return FourierFeatures(normals * factor / jnp.broadcast_to(scale, (1, dim)), variance)


class NystromFeatures(Module):
    r"""$\phi(x) = \Lambda^{-1/2} U^\top k(Z, x)$ from the eigenpairs of $k(Z, Z)$ that are not tiny.

    `rank` says how many were kept: those above `tol` times the largest.
    """

    kernel: Kernel
    landmarks: Float[Array, "m d"]
    projection: Float[Array, "m r"]

    def __init__(self, kernel: Kernel, landmarks: ArrayLike, *, tol: float = 1e-12):
        rows = kernel._rows("landmarks", landmarks)
        values, vectors = np.linalg.eigh(np.asarray(kernel.gram(rows)))
        got = f"eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        check(values[-1] > 0, "kernel", "positive somewhere on the landmarks", got)
        check(values[0] > -1e-8 * values[-1], "kernel", "positive semi-definite", got)
        kept = values > tol * values[-1]
        self.kernel, self.landmarks = kernel, rows
        self.projection = jnp.asarray(vectors[:, kept] / np.sqrt(values[kept])[None, :])

    @property
    def rank(self) -> int:
        """The number of features."""
        return self.projection.shape[1]

    def __call__(self, X: ArrayLike) -> Float[Array, "n r"]:
        """One row of features for each row."""
        return self.kernel.gram(X, self.landmarks) @ self.projection

    def residual(self, X: ArrayLike) -> Float[Array, " n"]:
        r"""$\rho(x) = k(x, x) - \|\phi(x)\|^2$: the variance that the landmarks do not explain."""
        return self.kernel.diagonal(X) - (self(X) ** 2).sum(1)


def pivoted_landmarks(kernel: Kernel, X: ArrayLike, num_landmarks: int) -> Pivots:
    r"""The rows that a pivoted Cholesky factor takes: each time the one with the largest residual variance.

    The trace of what remains, $\mathrm{tr}(K - \hat K)$, falls nearly as fast as the eigenvalues.
    """
    rows = kernel._rows("X", X)
    return _pivoted(kernel, rows, check_count("num_landmarks", num_landmarks, most=len(rows)))


@program
def _pivoted(kernel: Kernel, rows: Array, count: int) -> Pivots:
    def column(pivot: Array) -> Array:
        return kernel.gram(rows, jax.lax.dynamic_slice_in_dim(rows, pivot, 1))[:, 0]

    return pivoted_cholesky(column, kernel.diagonal(rows), count)


def _orthogonal_normals(key: Key, count: int, dim: int) -> Array:
    """Rows of normal length and uniform direction, orthogonal in groups of `dim`."""
    groups = -(-count // dim)
    turns, lengths = jr.split(key)
    bases, upper = jnp.linalg.qr(jr.normal(turns, (groups, dim, dim)))
    signs = jnp.sign(jnp.diagonal(upper, axis1=1, axis2=2))[:, None, :]  # uniform over rotations
    directions = jnp.swapaxes(bases * signs, 1, 2).reshape(groups * dim, dim)[:count]
    return directions * jnp.linalg.norm(jr.normal(lengths, (count, dim)), axis=1, keepdims=True)
