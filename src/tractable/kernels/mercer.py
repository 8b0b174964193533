r"""Mercer's theorem in numbers: eigenfunctions, expansions, random functions, and the space of a kernel.

Operator.    $(T f)(x) = \int k(x, y)\,f(y)\,d\mu(y)$, with
             $\int k(x, y)\,\phi_i(y)\,d\mu(y) = \lambda_i\phi_i(x)$, $\lambda_1 \ge \lambda_2 \ge ... \ge 0$
             and $\int\phi_i\phi_j\,d\mu = \delta_{ij}$. By quadrature with points $x_j$ and weights $w_j$
             (equal ones: a sample of $\mu$) these are the eigenpairs of $W^{1/2} K W^{1/2}$, and
             $\phi_i(x) = \lambda_i^{-1}\sum_j w_j k(x, x_j)\,\phi_i(x_j)$ elsewhere.
Expansion.   $k(x, x') = \sum_i\lambda_i\phi_i(x)\phi_i(x')$; the random function
             $\sum_i\sqrt{\lambda_i}\,z_i\,\phi_i$ with normal $z_i$ has covariance $k$.
Space.       $\langle f, g\rangle = \sum_i f_i g_i/\lambda_i$ for $f = \sum_i f_i\phi_i$; for
             $f = \sum_i a_i k(\cdot, x_i)$ and $g = \sum_j b_j k(\cdot, y_j)$ it is $a^\top k(X, Y)\,b$.
             Hence $\langle f, k(\cdot, x)\rangle = f(x)$, $\|k(\cdot, x)\|^2 = k(x, x)$,
             $\|f\|^2 = a^\top K a$.
Cost.        $O(n^3)$ for the eigenpairs, $O(nm)$ for each eigenfunction at $m$ points.
References.  Rasmussen and Williams (2006) sections 4.3 and 6.1; Baker (1977) section 3; Aronszajn (1950).
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_length
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar, Shape
from tractable.kernels.base import Kernel

__all__ = ["Mercer", "RKHSFunction", "integral_operator", "mercer_expansion"]


class Mercer(Module):
    """A truncated expansion of a kernel in eigenfunctions of its integral operator."""

    kernel: Kernel
    points: Float[Array, "n d"]
    weights: Float[Array, " n"]
    eigenvalues: Float[Array, " r"]
    values: Float[Array, "n r"]  # of the eigenfunctions at the points
    _shown = ("kernel", "eigenvalues", "share")

    def eigenfunctions(self, X: ArrayLike) -> Float[Array, "m r"]:
        r"""$\phi_i(x) = \lambda_i^{-1}\sum_j w_j\,k(x, x_j)\,\phi_i(x_j)$ at each row."""
        return (
            self.kernel.gram(X, self.points)
            @ (self.weights[:, None] * self.values)
            / self.eigenvalues[None, :]
        )

    def gram(self, X: ArrayLike, Y: ArrayLike | None = None) -> Float[Array, "n m"]:
        r"""$\sum_i\lambda_i\phi_i(x)\phi_i(x')$ over the terms that were kept."""
        left = self.eigenfunctions(X)
        right = left if Y is None else self.eigenfunctions(Y)
        return (left * self.eigenvalues[None, :]) @ right.T

    def error(self, X: ArrayLike) -> Scalar:
        """The largest error of the truncated expansion among the pairs of rows."""
        return jnp.abs(self.kernel.gram(X) - self.gram(X)).max()

    @takes_key
    def sample(self, key: Key, X: ArrayLike, shape: Shape = ()) -> Float[Array, "*shape n"]:
        r"""Random functions $\sum_i\sqrt{\lambda_i}\,z_i\,\phi_i$ at the rows (Karhunen and Loeve)."""
        features = self.eigenfunctions(X) * jnp.sqrt(self.eigenvalues)[None, :]
        return jr.normal(key, (*shape, len(self.eigenvalues))) @ features.T

    @property
    def share(self) -> Scalar:
        """The share of the variance at the points that the kept terms hold."""
        return self.eigenvalues.sum() / (self.weights * self.kernel.diagonal(self.points)).sum()

    def coefficients(self, f: ArrayLike) -> Float[Array, " r"]:
        r"""$f_i = \int f\phi_i\,d\mu$ from the values of $f$ at the points."""
        f = as_float("f", f)
        check_length("f", f, "points", self.points)
        return self.values.T @ (self.weights * f)

    def inner(self, f: ArrayLike, g: ArrayLike) -> Scalar:
        r"""$\langle f, g\rangle = \sum_i f_i g_i/\lambda_i$ in the space of the kernel, from coefficients."""
        f, g = as_float("f", f), as_float("g", g)
        check_length("f", f, "eigenvalues", self.eigenvalues)
        check_length("g", g, "eigenvalues", self.eigenvalues)
        return (f * g / self.eigenvalues).sum()

    def norm(self, f: ArrayLike) -> Scalar:
        r"""$\|f\| = \sqrt{\langle f, f\rangle}$ from coefficients: large for rough functions."""
        return jnp.sqrt(self.inner(f, f))


class RKHSFunction(Module):
    r"""$f = \sum_i a_i\,k(\cdot, x_i)$, a member of the space of a kernel."""

    kernel: Kernel
    points: Float[Array, "n d"]
    coefficients: Float[Array, " n"]

    def __init__(self, kernel: Kernel, points: ArrayLike, coefficients: ArrayLike):
        self.kernel, self.points = kernel, kernel._rows("points", points)
        self.coefficients = as_float("coefficients", coefficients)
        check(self.coefficients.ndim == 1, "coefficients", "a vector", f"shape {self.coefficients.shape}")
        check_length("coefficients", self.coefficients, "points", self.points)

    def __call__(self, X: ArrayLike) -> Float[Array, " m"]:
        """The values at the rows."""
        return self.kernel.gram(X, self.points) @ self.coefficients

    def inner(self, other: "RKHSFunction") -> Scalar:
        r"""$\langle f, g\rangle = a^\top k(X, Y)\,b$; both are taken to belong to this kernel."""
        return self.coefficients @ self.kernel.gram(self.points, other.points) @ other.coefficients

    def norm(self) -> Scalar:
        r"""$\|f\| = \sqrt{a^\top K a}$."""
        return jnp.sqrt(self.inner(self))


def mercer_expansion(
    kernel: Kernel, X: ArrayLike, num_terms: int, *, weights: ArrayLike | None = None, tol: float = 1e-13
) -> Mercer:
    """The first `num_terms` eigenfunctions for the measure of the rows `X` with `weights` (by default `1/n`).

    Fewer are kept where eigenvalues fall below `tol` times the first, and rounding would be all there is.
    """
    rows = kernel._rows("X", X)
    count = check_count("num_terms", num_terms, most=len(rows))
    given = np.full(len(rows), 1 / len(rows)) if weights is None else np.asarray(as_float("weights", weights))
    check(
        given.shape == (len(rows),),
        "weights",
        f"a vector of {len(rows)}, one per row",
        f"shape {given.shape}",
    )
    check((given > 0).all(), "weights", "positive", f"{given.min()}", "Leave out rows of weight zero.")
    root = np.sqrt(given)
    table = root[:, None] * np.asarray(kernel.gram(rows)) * root[None, :]
    values, vectors = np.linalg.eigh(table)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    kept = values > tol * values[0]
    signs = np.where(
        vectors[np.abs(vectors).argmax(0), np.arange(count)] < 0, -1.0, 1.0
    )  # one of two, always
    functions = (vectors * signs[None, :] / root[:, None])[:, kept]
    return Mercer(kernel, rows, jnp.asarray(given), jnp.asarray(values[kept]), jnp.asarray(functions))


def integral_operator(
    kernel: Kernel, f: ArrayLike, points: ArrayLike, weights: ArrayLike, at: ArrayLike | None = None
) -> Float[Array, " m"]:
    r"""$(T f)(x) = \sum_j w_j\,k(x, x_j)\,f(x_j)$, a quadrature, at the rows `at` or at the points."""
    f, weights = as_float("f", f), as_float("weights", weights)
    gram = kernel.gram(points if at is None else at, points)
    for name, value in (("f", f), ("weights", weights)):
        check(
            value.shape == gram.shape[1:],
            name,
            f"a vector of {gram.shape[1]}, one per point",
            f"shape {value.shape}",
        )
    return gram @ (weights * f)
