r"""Stationary kernels: functions of the difference $x - x'$, mostly of its scaled length.

Model.       $r^2 = \sum_i (x_i - x'_i)^2 / \ell_i^2$ with one length scale, or one per column (automatic
             relevance determination). All have $k(x, x) = 1$; the amplitude is a factor, `2.0 * RBF()`.
Limits.      Matern tends to the RBF as $\nu \to \infty$, and the rational quadratic, a gamma mixture of RBFs,
             as $\alpha \to \infty$; spectral mixtures come near any stationary kernel.
Cost.        $O(nmd)$ for a Gram matrix, without an $n \times m \times d$ array.
References.  Rasmussen and Williams (2006) section 4.2; Wilson and Adams (2013).
"""

import math
from abc import abstractmethod
from typing import ClassVar

import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_shape
from tractable.core.module import field
from tractable.core.support import positive, real
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.kernels.base import Kernel, Traits
from tractable.kernels.distances import table_of_squares
from tractable.kernels.matern import matern

__all__ = [
    "RBF", "Cosine", "Matern", "Matern12", "Matern32", "Matern52", "Periodic", "RationalQuadratic",
    "SpectralMixture", "Stationary",
]  # fmt: skip


class Stationary(Kernel):
    """A function of the scaled squared distance $r^2$: `of_squared` gives it, one at zero."""

    length_scale: Float[Array, "..."] = field(support=positive, default=1.0)

    rough: ClassVar[bool] = False  # not differentiable in the squared distance at zero

    @abstractmethod
    def of_squared(self, squared: Array) -> Array:
        """The kernel from $r^2$, elementwise."""

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, isotropic=jnp.size(self.length_scale) == 1)

    def pair(self, x: Array, y: Array) -> Array:
        return self.of_squared((((x - y) / per_column("length_scale", self.length_scale, len(x))) ** 2).sum())

    def _gram(self, x: Array, y: Array | None) -> Array:
        return self.of_squared(self._squared(x, y))

    def _diagonal(self, x: Array) -> Array:
        return jnp.ones(len(x), x.dtype)

    def _squared(self, x: Array, y: Array | None) -> Array:
        scale = per_column("length_scale", self.length_scale, x.shape[1])
        if scale.ndim == 0:  # one division of the table: its gradient needs no matrix product
            return table_of_squares(x, y, exact=self.rough) / scale**2
        scale = scale[None, :]
        return table_of_squares(x / scale, None if y is None else y / scale, exact=self.rough)


class RBF(Stationary):
    r"""$\exp(-\tfrac12 r^2)$: the squared exponential, Gaussian or radial basis function kernel.

    A vector of length scales, one per column, is the form of automatic relevance determination.

    >>> 2.0 * RBF(length_scale=[1.0, 3.0])
    2.0 * RBF(length_scale=[1.0, 3.0])
    """

    @classmethod
    def from_width(cls, width: ArrayLike) -> "RBF":
        r"""$\exp(-\|x - x'\|^2 / \lambda^2)$, without the factor two: $\lambda^2 = 2\ell^2$."""
        return cls(as_float("width", width) / math.sqrt(2))

    @classmethod
    def from_gamma(cls, gamma: ArrayLike) -> "RBF":
        r"""$\exp(-\gamma\,\|x - x'\|^2)$: $\gamma = 1 / (2\ell^2)$."""
        return cls(1 / jnp.sqrt(2 * as_float("gamma", gamma)))

    @property
    def width(self) -> Array:
        r"""$\lambda = \sqrt2\,\ell$ of $\exp(-\|x - x'\|^2 / \lambda^2)$."""
        return math.sqrt(2) * self.length_scale

    @property
    def gamma(self) -> Array:
        r"""$1 / (2\ell^2)$ of $\exp(-\gamma\,\|x - x'\|^2)$."""
        return 0.5 / self.length_scale**2

    def of_squared(self, squared: Array) -> Array:
        return jnp.exp(-0.5 * squared)


class Matern12(Stationary):
    r"""$e^{-r}$: the exponential kernel of Ornstein-Uhlenbeck paths, continuous and not differentiable."""

    nu: ClassVar[float] = 0.5
    rough: ClassVar[bool] = True

    @property
    def traits(self) -> Traits:
        return super().traits._replace(derivatives=math.ceil(self.nu) - 1)

    def of_squared(self, squared: Array) -> Array:
        return matern(self.nu, 2 * self.nu * squared)


class Matern32(Matern12):
    r"""$(1 + \sqrt3 r)\,e^{-\sqrt3 r}$: paths with one mean-square derivative."""

    nu: ClassVar[float] = 1.5
    rough: ClassVar[bool] = False


class Matern52(Matern12):
    r"""$(1 + \sqrt5 r + \tfrac53 r^2)\,e^{-\sqrt5 r}$: paths with two mean-square derivatives."""

    nu: ClassVar[float] = 2.5
    rough: ClassVar[bool] = False


class Matern(Stationary):
    r"""$\frac{2^{1-\nu}}{\Gamma(\nu)}(\sqrt{2\nu}\,r)^\nu K_\nu(\sqrt{2\nu}\,r)$ for any fixed $\nu > 0$.

    Half-integers take the closed form; any other order is an integral for each entry, some hundred times as
    slow. Paths have $\lceil\nu\rceil - 1$ mean-square derivatives.

    >>> round(float(Matern(nu=0.8, length_scale=1.3)(0.0, 0.7)), 6)
    0.670997
    """

    nu: float = field(static=True, default=1.5)

    rough: ClassVar[bool] = True

    def __init__(self, nu: float = 1.5, length_scale: ArrayLike = 1.0):
        check(0 < nu < math.inf, "nu", "positive and finite", nu, "The limit of large `nu` is `RBF`.")
        self.nu, self.length_scale = float(nu), length_scale  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def traits(self) -> Traits:
        return super().traits._replace(derivatives=math.ceil(self.nu) - 1)

    def of_squared(self, squared: Array) -> Array:
        return matern(self.nu, 2 * self.nu * squared)


class RationalQuadratic(Stationary):
    r"""$(1 + r^2 / (2\alpha))^{-\alpha}$, the mean of RBFs whose $\ell^{-2}$ has a gamma distribution."""

    alpha: Scalar = field(support=positive, default=1.0)

    def of_squared(self, squared: Array) -> Array:
        return jnp.exp(-self.alpha * jnp.log1p(squared / (2 * self.alpha)))


class Periodic(Kernel):
    r"""$\exp\{-2\sum_i\sin^2(\pi(x_i - x'_i)/p_i)/\ell_i^2\}$: the RBF on $(\cos, \sin)(2\pi x_i / p_i)$."""

    length_scale: Float[Array, "..."] = field(support=positive, default=1.0)
    period: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True)

    def pair(self, x: Array, y: Array) -> Array:
        sines = jnp.sin(math.pi * (x - y) / per_column("period", self.period, len(x)))
        return jnp.exp(-2 * ((sines / per_column("length_scale", self.length_scale, len(x))) ** 2).sum())

    def _gram(self, x: Array, y: Array | None) -> Array:
        other = None if y is None else self._on_circles(y)
        return jnp.exp(-0.5 * table_of_squares(self._on_circles(x), other))

    def _diagonal(self, x: Array) -> Array:
        return jnp.ones(len(x), x.dtype)

    def _on_circles(self, x: Array) -> Array:
        """Rows on circles of radius $1/\\ell_i$: their squared distances are $4\\sin^2(\\cdot)/\\ell_i^2$."""
        angles = 2 * math.pi * x / _as_row(per_column("period", self.period, x.shape[1]))
        scale = _as_row(per_column("length_scale", self.length_scale, x.shape[1]))
        return jnp.concatenate([jnp.cos(angles) / scale, jnp.sin(angles) / scale], axis=1)


class Cosine(Kernel):
    r"""$\cos\{2\pi\sum_i (x_i - x'_i)/p_i\}$: paths are plane waves of one frequency and random phase.

    (A cosine of the distance is positive semi-definite in one dimension alone.)
    """

    period: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True)

    def pair(self, x: Array, y: Array) -> Array:
        return jnp.cos(2 * math.pi * ((x - y) / per_column("period", self.period, len(x))).sum())

    def _gram(self, x: Array, y: Array | None) -> Array:
        rate = 2 * math.pi / per_column("period", self.period, x.shape[1])
        return _cosine_table(x, y, jnp.broadcast_to(rate, x.shape[1:]))

    def _diagonal(self, x: Array) -> Array:
        return jnp.ones(len(x), x.dtype)


class SpectralMixture(Kernel):
    r"""$\sum_q w_q\,e^{-2\pi^2\sum_i v_{qi}^2\tau_i^2}\cos(2\pi\mu_q^\top\tau)$ with $\tau = x - x'$.

    Its spectral density is a mixture of Gaussians with weights $w$, mean `frequencies` $\pm\mu_q$ and
    standard deviations `bandwidths` $v_q$, each of shape (q, d), or (q,) for one column: with enough
    components it comes near any stationary kernel.
    """

    weights: Float[Array, " q"] = field(support=positive)
    frequencies: Float[Array, "q d"] = field(support=real)
    bandwidths: Float[Array, "q d"] = field(support=positive)

    def __init__(self, weights: ArrayLike, frequencies: ArrayLike, bandwidths: ArrayLike):
        weights = as_float("weights", weights)
        check(weights.ndim == 1 and weights.size > 0, "weights", "a vector", f"shape {weights.shape}")
        tables = {"frequencies": frequencies, "bandwidths": bandwidths}
        for name, value in tables.items():
            array = as_float(name, value)
            tables[name] = array[:, None] if array.ndim == 1 else array
            check_shape(name, tables[name], (len(weights), None))
        check_shape("bandwidths", tables["bandwidths"], jnp.shape(tables["frequencies"]))
        self.weights = weights
        self.frequencies, self.bandwidths = tables["frequencies"], tables["bandwidths"]  # pyright: ignore

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True)

    def pair(self, x: Array, y: Array) -> Array:
        self._check_columns(len(x))
        gap = (x - y)[None, :]
        fall = jnp.exp(-2 * math.pi**2 * ((self.bandwidths * gap) ** 2).sum(1))
        return (self.weights * fall * jnp.cos(2 * math.pi * (self.frequencies * gap).sum(1))).sum()

    def _gram(self, x: Array, y: Array | None) -> Array:
        self._check_columns(x.shape[1])
        total = jnp.zeros((), x.dtype)
        for weight, frequency, bandwidth in zip(self.weights, self.frequencies, self.bandwidths):
            scale = 2 * math.pi * bandwidth[None, :]
            squares = table_of_squares(x * scale, None if y is None else y * scale)
            total = total + weight * jnp.exp(-0.5 * squares) * _cosine_table(x, y, 2 * math.pi * frequency)
        return total

    def _diagonal(self, x: Array) -> Array:
        return jnp.full(len(x), self.weights.sum(), x.dtype)

    def _check_columns(self, columns: int) -> None:
        have = self.frequencies.shape[1]
        check(have == columns, "frequencies", f"{columns} columns wide, like the points", f"{have} columns")


def per_column(name: str, value: Array, columns: int) -> Array:
    """A hyperparameter that is one number, or one for each column of the points."""
    fits = jnp.ndim(value) == 0 or jnp.shape(value) == (columns,)
    check(fits, name, f"one number, or one for each of the {columns} columns", f"shape {jnp.shape(value)}")
    return value


def _as_row(value: Array) -> Array:
    return value if value.ndim == 0 else value[None, :]


def _cosine_table(x: Array, y: Array | None, rate: Array) -> Array:
    """The cosine of the difference of two phases, one on the diagonal exactly."""
    phase = x @ rate
    other = phase if y is None else y @ rate
    return jnp.cos(phase[:, None] - other[None, :])
