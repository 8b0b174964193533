r"""Supports: the sets in which parameters and outcomes live, each named once.

A support knows which values belong to it (`contains`), the rank of one member (`ndim`: 0 for a number, 1 for a vector, 2 for
a matrix; leading axes hold independent members), one member (`interior`), and the words for it (`words`).
`bijections.support` maps each continuous support to and from the real numbers.

Used by.     `core.module.field(support=...)`, `Distribution.support`, `bijections.unconstrain`.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.types import ArrayLike

__all__ = [
    "Correlation", "CorrelationCholesky", "IntegerRange", "Interval", "LowerCholesky", "NonNegative", "Ordered", "Positive",
    "PositiveOrdered", "PositiveSemidefinite", "Real", "Simplex", "Sphere", "Support", "bounded", "correlation",
    "correlation_cholesky", "counts", "integer_range", "lower_cholesky", "nonnegative", "ordered", "positive",
    "positive_ordered", "psd", "real", "simplex", "sphere", "unit_interval",
]  # fmt: skip

# A sum of k probabilities rounds to within k * 1e-16 of one in float64; anything past this is an input error.
_TOLERANCE = 1e-6


def _namespace(*values: Any) -> Any:
    """NumPy for concrete values (a check never compiles), `jax.numpy` for JAX arrays and tracers."""
    return jnp if any(isinstance(v, jax.Array) for v in values) else np


class Support(eqx.Module):
    """A set with a membership test."""

    ndim: ClassVar[int] = 0
    discrete: ClassVar[bool] = False

    @property
    @abstractmethod
    def words(self) -> str:
        """The set in words, to follow "must be"."""

    @abstractmethod
    def contains(self, x: ArrayLike) -> Any:
        """Whether each member (over the last `ndim` axes) belongs to the set; NaN never does."""

    @abstractmethod
    def interior(self, like: ArrayLike) -> Any:
        """A member well inside the set, of the shape of `like`: the safe value behind every `where`."""


class Real(Support):
    r"""$\mathbb{R}$."""

    @property
    def words(self) -> str:
        return "finite"

    def contains(self, x):
        return _namespace(x).isfinite(x)

    def interior(self, like):
        return _namespace(like).zeros_like(like)


class Positive(Support):
    r"""$(0, \infty)$."""

    @property
    def words(self) -> str:
        return "positive and finite"

    def contains(self, x):
        xp = _namespace(x)
        return (xp.asarray(x) > 0) & xp.isfinite(x)

    def interior(self, like):
        return _namespace(like).ones_like(like)


class NonNegative(Support):
    r"""$[0, \infty)$."""

    @property
    def words(self) -> str:
        return "zero or positive, and finite"

    def contains(self, x):
        xp = _namespace(x)
        return (xp.asarray(x) >= 0) & xp.isfinite(x)

    def interior(self, like):
        return _namespace(like).ones_like(like)


class Interval(Support):
    r"""$[a, b]$, either end possibly infinite (an infinite end itself does not belong)."""

    low: Any = 0.0
    high: Any = 1.0

    @property
    def words(self) -> str:
        return f"between {self.low} and {self.high}"

    def contains(self, x):
        xp = _namespace(x, self.low, self.high)
        return (xp.asarray(x) >= self.low) & (xp.asarray(x) <= self.high) & xp.isfinite(x)

    def interior(self, like):
        xp = _namespace(like, self.low, self.high)
        low, high = xp.broadcast_to(self.low, xp.shape(like)), xp.broadcast_to(self.high, xp.shape(like))
        middle = xp.where(xp.isfinite(low), xp.where(xp.isfinite(high), low / 2 + high / 2, low + 1), high - 1)
        return xp.where(xp.isfinite(middle), middle, 0.0)


class IntegerRange(Support):
    r"""$\{a, a+1, \dots, b\}$, either end possibly infinite; whole numbers stored as floats belong too."""

    low: Any = 0
    high: Any = np.inf
    discrete: ClassVar[bool] = True

    @property
    def words(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def contains(self, x):
        xp = _namespace(x, self.low, self.high)
        x = xp.asarray(x)
        return (x >= self.low) & (x <= self.high) & xp.isfinite(x) & (x == xp.floor(x))

    def interior(self, like):
        xp = _namespace(like, self.low, self.high)
        start = xp.where(xp.isfinite(xp.asarray(self.low)), self.low, xp.where(xp.isfinite(xp.asarray(self.high)), self.high, 0))
        return xp.broadcast_to(start, xp.shape(like)).astype(xp.asarray(like).dtype)


class Simplex(Support):
    r"""$\{p \in \mathbb{R}^k : p_i \ge 0, \sum_i p_i = 1\}$."""

    ndim: ClassVar[int] = 1

    @property
    def words(self) -> str:
        return "probabilities that are zero or positive and sum to 1 (to within 1e-6)"

    def contains(self, x):
        x = _namespace(x).asarray(x)
        return (x >= 0).all(-1) & (abs(x.sum(-1) - 1) <= _TOLERANCE)

    def interior(self, like):
        return _namespace(like).ones_like(like) / np.shape(like)[-1]


class Ordered(Support):
    r"""$x_1 < x_2 < \dots < x_k$."""

    ndim: ClassVar[int] = 1

    @property
    def words(self) -> str:
        return "finite and strictly increasing along the last axis"

    def contains(self, x):
        xp = _namespace(x)
        x = xp.asarray(x)
        return (x[..., 1:] > x[..., :-1]).all(-1) & xp.isfinite(x).all(-1)

    def interior(self, like):
        xp = _namespace(like)
        return xp.broadcast_to(xp.arange(1.0, np.shape(like)[-1] + 1), np.shape(like))


class PositiveOrdered(Ordered):
    r"""$0 < x_1 < x_2 < \dots < x_k$."""

    @property
    def words(self) -> str:
        return "positive, finite and strictly increasing along the last axis"

    def contains(self, x):
        return super().contains(x) & (_namespace(x).asarray(x) > 0).all(-1)


class Sphere(Support):
    r"""$\{x \in \mathbb{R}^d : \|x\| = 1\}$."""

    ndim: ClassVar[int] = 1

    @property
    def words(self) -> str:
        return "a vector of length 1"

    def contains(self, x):
        return abs((_namespace(x).asarray(x) ** 2).sum(-1) - 1) <= _TOLERANCE

    def interior(self, like):
        return _namespace(like).ones_like(like) / np.sqrt(np.shape(like)[-1])


class _Matrix(Support):
    ndim: ClassVar[int] = 2

    def interior(self, like):
        xp = _namespace(like)
        return xp.broadcast_to(xp.eye(np.shape(like)[-1]), np.shape(like))


class PositiveSemidefinite(_Matrix):
    r"""Symmetric $A$ with $v^\top A v \ge 0$; symmetry and eigenvalues are judged relative to the largest entry."""

    @property
    def words(self) -> str:
        return "a symmetric positive semi-definite matrix"

    def contains(self, x):
        xp = _namespace(x)
        x = xp.asarray(x)
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            return xp.zeros(x.shape[:-2], bool)
        scale = abs(x).max((-1, -2), initial=0.0)
        symmetric = abs(x - x.swapaxes(-1, -2)).max((-1, -2), initial=0.0) <= 1e-8 * scale
        finite = xp.isfinite(x).all((-1, -2))
        eigenvalues = xp.linalg.eigvalsh(xp.where(finite[..., None, None], x, xp.eye(x.shape[-1])))
        return symmetric & finite & (eigenvalues >= -1e-8 * scale[..., None]).all(-1)


class LowerCholesky(_Matrix):
    r"""Lower-triangular $L$ with a positive diagonal."""

    @property
    def words(self) -> str:
        return "lower triangular with a positive diagonal"

    def contains(self, x):
        xp = _namespace(x)
        x = xp.asarray(x)
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            return xp.zeros(x.shape[:-2], bool)
        positive_diagonal = (xp.diagonal(x, axis1=-2, axis2=-1) > 0).all(-1)
        return positive_diagonal & (xp.triu(x, 1) == 0).all((-1, -2)) & xp.isfinite(x).all((-1, -2))


class Correlation(PositiveSemidefinite):
    r"""Positive semi-definite with ones on the diagonal."""

    @property
    def words(self) -> str:
        return "a correlation matrix: symmetric, positive semi-definite, ones on the diagonal"

    def contains(self, x):
        xp = _namespace(x)
        diagonal = xp.diagonal(xp.asarray(x), axis1=-2, axis2=-1)
        return super().contains(x) & (abs(diagonal - 1) <= _TOLERANCE).all(-1)


class CorrelationCholesky(LowerCholesky):
    r"""Lower-triangular $L$ with a positive diagonal and rows of length one, so that $L L^\top$ is a correlation."""

    @property
    def words(self) -> str:
        return "lower triangular with a positive diagonal and rows of length 1"

    def contains(self, x):
        length = (_namespace(x).asarray(x) ** 2).sum(-1)
        return super().contains(x) & (abs(length - 1) <= _TOLERANCE).all(-1)


real = Real()
positive = Positive()
nonnegative = NonNegative()
unit_interval = Interval(0.0, 1.0)
simplex = Simplex()
ordered = Ordered()
positive_ordered = PositiveOrdered()
sphere = Sphere()
psd = PositiveSemidefinite()
lower_cholesky = LowerCholesky()
correlation = Correlation()
correlation_cholesky = CorrelationCholesky()
counts = IntegerRange(0, np.inf)


def bounded(low: ArrayLike, high: ArrayLike) -> Interval:
    """The closed interval from `low` to `high`."""
    return Interval(low, high)


def integer_range(low: ArrayLike, high: ArrayLike) -> IntegerRange:
    """The whole numbers from `low` to `high`, both included."""
    return IntegerRange(low, high)


