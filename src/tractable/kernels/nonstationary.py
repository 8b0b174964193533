r"""Kernels that are not functions of the difference: of inner products, of products of columns, of times.

Products.    Functions of $x^\top x'$ or of $x^\top A x'$, and products over columns.
Cost.        One matrix product for a Gram matrix; $O(nmd)$ for products of columns.
References.  Rasmussen and Williams (2006) section 4.2; Williams (1998); Schölkopf and Smola (2002) section
             2.3.
"""

import math
from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_entries
from tractable.core.module import field
from tractable.core.support import nonnegative, positive, psd, real
from tractable.core.types import Array, Float, Scalar
from tractable.kernels.base import Kernel, Traits
from tractable.kernels.stationary import per_column

__all__ = [
    "Bilinear", "CosineSimilarity", "HomogeneousPolynomial", "Linear", "NeuralNetwork", "Polynomial",
    "ProductFeature", "Sigmoid", "Wiener",
]  # fmt: skip

_MANY_COLUMNS = 32


class DotProduct(Kernel):
    """A function of $x^\\top x'$ alone: `of_inner` gives it."""

    def of_inner(self, inner: Array) -> Array:
        """The kernel from $x^\\top x'$, elementwise."""
        return inner

    @property
    def traits(self) -> Traits:
        return Traits(dot_product=True)

    def pair(self, x: Array, y: Array) -> Array:
        return self.of_inner(x @ y)

    def _gram(self, x: Array, y: Array | None) -> Array:
        return self.of_inner(x @ (x if y is None else y).T)

    def _diagonal(self, x: Array) -> Array:
        return self.of_inner((x**2).sum(1))


class Linear(DotProduct):
    r"""$x^\top x'$: the covariance of $w^\top x$ with $w \sim N(0, I)$; add a constant for an intercept.

    >>> float(Linear()([1.0, 2.0], [3.0, 4.0])), Linear() + 1.0
    (11.0, Linear() + 1.0)
    """


class MatrixProduct(Kernel):
    """A function of $x^\\top A x'$ alone: `of_product` gives it."""

    matrix: eqx.AbstractVar[Array]

    def __check_init__(self) -> None:
        shape = jnp.shape(self.matrix)
        check(len(shape) == 2 and shape[0] == shape[1], "matrix", "square", f"shape {shape}")

    def of_product(self, product: Array) -> Array:
        """The kernel from $x^\\top A x'$, elementwise."""
        return product

    def pair(self, x: Array, y: Array) -> Array:
        return self._gram(x[None], y[None])[0, 0]

    def _gram(self, x: Array, y: Array | None) -> Array:
        return self.of_product(self._turned(x) @ (x if y is None else y).T)

    def _diagonal(self, x: Array) -> Array:
        return self.of_product((self._turned(x) * x).sum(1))

    def _turned(self, x: Array) -> Array:
        shape, columns = self.matrix.shape, x.shape[1]
        check(shape == (columns, columns), "matrix", f"of shape ({columns}, {columns})", f"shape {shape}")
        return x @ self.matrix


class Bilinear(MatrixProduct):
    r"""$x^\top A x'$ with $A \succeq 0$: the covariance of $w^\top x$ with $w \sim N(0, A)$."""

    matrix: Float[Array, "d d"] = field(support=psd)


class Polynomial(DotProduct):
    r"""$(c + x^\top x')^p$ with $c \ge 0$: all monomials of degree at most $p$.

    With a slope: $(\gamma x^\top x' + c)^p$ is `gamma**p * Polynomial(p, c / gamma)`.

    >>> float(Polynomial(2, offset=0.0)([1.0, 2.0], [3.0, 4.0]))
    121.0
    """

    degree: int = field(static=True, default=2)
    offset: Scalar = field(support=nonnegative, default=1.0)

    def __check_init__(self) -> None:
        check_count("degree", self.degree)

    def of_inner(self, inner: Array) -> Array:
        return (inner + self.offset) ** self.degree


class HomogeneousPolynomial(DotProduct):
    r"""$(x^\top x')^p$: all monomials of degree exactly $p$; no hyperparameter but the degree."""

    degree: int = field(static=True, default=2)

    def __check_init__(self) -> None:
        check_count("degree", self.degree)

    def of_inner(self, inner: Array) -> Array:
        return inner**self.degree


class CosineSimilarity(Kernel):
    r"""$x^\top x' / (\|x\|\,\|x'\|)$, the cosine of the angle, from the features $x / \|x\|$."""

    def pair(self, x: Array, y: Array) -> Array:
        return (x / jnp.linalg.norm(x)) @ (y / jnp.linalg.norm(y))

    def _gram(self, x: Array, y: Array | None) -> Array:
        units = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        other = units if y is None else y / jnp.linalg.norm(y, axis=1, keepdims=True)
        return units @ other.T

    def _diagonal(self, x: Array) -> Array:
        return jnp.ones(len(x), x.dtype)

    def _check_points(self, name: str, x: np.ndarray) -> None:
        must = "without rows of zeros, which have no direction"
        check_entries(name, x, lambda v: (v != 0).any(1), must)


class ProductFeature(Kernel):
    r"""$\prod_i (1 + x_i x'_i)$: the inner product of all $2^d$ products of distinct columns, in $O(d)$."""

    def pair(self, x: Array, y: Array) -> Array:
        return (1 + x * y).prod()

    def _gram(self, x: Array, y: Array | None) -> Array:
        other = x if y is None else y
        return _product_table(lambda a, b: 1 + a[:, None] * b[None, :], x, other)

    def _diagonal(self, x: Array) -> Array:
        return (1 + x**2).prod(1)


class NeuralNetwork(Kernel):
    r"""The covariance of a wide network with error-function units, whose weights are independent and normal.

    $\frac2\pi\arcsin\frac{2 s(x, x')}{\sqrt{(1 + 2 s(x, x))(1 + 2 s(x', x'))}}$ with $s(x, x') = \sigma_0^2 +
    \sum_i\sigma_i^2 x_i x'_i$.
    """

    weight_variance: Float[Array, "..."] = field(support=positive, default=1.0)
    bias_variance: Scalar = field(support=positive, default=1.0)

    def pair(self, x: Array, y: Array) -> Array:
        weights = per_column("weight_variance", self.weight_variance, len(x))
        cross, own, other = (
            self.bias_variance + (weights * a * b).sum() for a, b in ((x, y), (x, x), (y, y))
        )
        return self._of_products(cross, own, other)

    def _gram(self, x: Array, y: Array | None) -> Array:
        cross = self.bias_variance + self._weighted(x) @ (x if y is None else y).T
        own = self._own(x)
        other = own if y is None else self._own(y)
        return self._of_products(cross, own[:, None], other[None, :])

    def _diagonal(self, x: Array) -> Array:
        own = self._own(x)
        return self._of_products(own, own, own)

    def _weighted(self, x: Array) -> Array:
        weights = per_column("weight_variance", self.weight_variance, x.shape[1])
        return x * jnp.broadcast_to(weights, (1, x.shape[1]))

    def _own(self, x: Array) -> Array:
        return self.bias_variance + (self._weighted(x) * x).sum(1)

    @staticmethod
    def _of_products(cross: Array, own: Array, other: Array) -> Array:
        return 2 / math.pi * jnp.arcsin(2 * cross / (jnp.sqrt(1 + 2 * own) * jnp.sqrt(1 + 2 * other)))


class Wiener(Kernel):
    r"""$\prod_i\min(x_i, x'_i)$ for $x \ge 0$: Brownian motion from zero; with more columns, the sheet.

    Continuous paths, nowhere differentiable.
    """

    @property
    def traits(self) -> Traits:
        return Traits(derivatives=0)

    def pair(self, x: Array, y: Array) -> Array:
        return jnp.minimum(x, y).prod()

    def _gram(self, x: Array, y: Array | None) -> Array:
        return _product_table(lambda a, b: jnp.minimum(a[:, None], b[None, :]), x, x if y is None else y)

    def _diagonal(self, x: Array) -> Array:
        return x.prod(1)

    def _check_points(self, name: str, x: np.ndarray) -> None:
        check_entries(name, x, lambda v: v >= 0, "times from zero on for the Wiener kernel")


class Sigmoid(DotProduct):
    r"""$\tanh(a\,x^\top x' + b)$, which is **not** positive semi-definite; offered because it is in use.

    On the one point 0 it is $\tanh b$, negative for $b < 0$; with $b \ge 0$ other points give negative
    eigenvalues. A Gaussian process refuses it, a support vector machine only finds a stationary point.
    """

    slope: Scalar = field(support=positive, default=1.0)
    offset: Scalar = field(support=real, default=0.0)

    @property
    def traits(self) -> Traits:
        return Traits(psd=False, dot_product=True)

    def of_inner(self, inner: Array) -> Array:
        return jnp.tanh(self.slope * inner + self.offset)


def _product_table(of_columns, x: Array, y: Array) -> Array:
    """The product over columns of a table for each: one fused program, or a scan where columns are many."""
    if x.shape[1] <= _MANY_COLUMNS:
        return reduce(jnp.multiply, [of_columns(x[:, i], y[:, i]) for i in range(x.shape[1])])
    start = jnp.ones((len(x), len(y)), x.dtype)
    return jax.lax.scan(lambda total, pair: (total * of_columns(*pair), None), start, (x.T, y.T))[0]
