r"""Supports: the sets in which parameters and outcomes live, each named once.

A support knows which values belong to it (`contains`), the rank of one member (`ndim`: 0 for a number, 1 for
a vector, 2 for a matrix; leading axes hold independent members), one member (`interior`), and the words for
it (`words`). `bijections.support` maps each continuous support to and from the real numbers.

Cost.        Elementwise; one symmetric eigendecomposition for a positive semi-definite matrix.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.types import ArrayLike

__all__ = [
    "Correlation", "CorrelationCholesky", "ExtendedReal", "IntegerRange", "Interval", "LogWeights",
    "LowerCholesky", "NonNegative", "Ordered", "Positive", "PositiveOrdered", "PositiveSemidefinite",
    "Real", "Simplex", "Sphere", "Support", "as_support", "bounded", "correlation", "correlation_cholesky",
    "counts", "extended_real", "integer_range", "log_weights", "lower_cholesky", "nonnegative", "ordered",
    "positive", "positive_ordered", "psd", "real", "simplex", "sphere", "unit_interval",
]  # fmt: skip

# A sum of k probabilities rounds to within k * 1e-16 of one in float64; anything past this is an input error.
_TOLERANCE = 1e-6


def _namespace(*values: Any) -> Any:
    """NumPy for concrete values (a check never compiles), `jax.numpy` for JAX arrays and tracers."""
    return jnp if any(isinstance(v, jax.Array) for v in values) else np


def _members(contains: Callable) -> Callable:
    """A test of vectors or matrices: too few axes, or a matrix that is not square, and there is no member."""

    @functools.wraps(contains)
    def guarded(self: "Support", x: Any) -> Any:
        xp, shape = _namespace(x), np.shape(x)
        if len(shape) < self.ndim or (self.ndim == 2 and shape[-1] != shape[-2]):
            return xp.zeros(shape[: max(len(shape) - self.ndim, 0)], bool)
        with _quiet():
            return contains(self, xp.asarray(x))

    return guarded


def _rounding(x: Any) -> float:
    """The relative error that a computed matrix may carry: 1e-8, or more where the dtype is coarser."""
    return max(1e-8, 64 * float(jnp.finfo(x.dtype).eps)) if jnp.issubdtype(x.dtype, jnp.floating) else 1e-8


def _quiet() -> np.errstate:
    """An infinite entry meets inf - inf or an overflow on the way to "no": the answer is right as it is."""
    return np.errstate(over="ignore", invalid="ignore")


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

    words: ClassVar[str] = "finite"

    def contains(self, x):
        return _namespace(x).isfinite(x)

    def interior(self, like):
        return _namespace(like).zeros_like(like)


class ExtendedReal(Support):
    r"""$[-\infty, \infty]$: log-odds, whose infinite ends are certainties."""

    words: ClassVar[str] = "a number or an infinity, not NaN"

    def contains(self, x):
        return ~_namespace(x).isnan(x)

    def interior(self, like):
        return _namespace(like).zeros_like(like)


class LogWeights(Support):
    r"""Logarithms of weights along the last axis, $-\infty$ for an impossible state, not all impossible."""

    ndim: ClassVar[int] = 1
    words: ClassVar[str] = (
        "logarithms of weights: below infinity, not NaN, and not all minus infinity along the last axis"
    )

    @_members
    def contains(self, x: Any) -> Any:
        return (x < np.inf).all(-1) & (x > -np.inf).any(-1)

    def interior(self, like):
        return _namespace(like).zeros_like(like)


class Positive(Support):
    r"""$(0, \infty)$."""

    words: ClassVar[str] = "positive and finite"

    def contains(self, x):
        xp = _namespace(x)
        return (xp.asarray(x) > 0) & xp.isfinite(x)

    def interior(self, like):
        return _namespace(like).ones_like(like)


class NonNegative(Support):
    r"""$[0, \infty)$."""

    words: ClassVar[str] = "zero or positive, and finite"

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
        with _quiet():
            both = xp.where(xp.isfinite(high), low / 2 + high / 2, low + 1)
        middle = xp.where(xp.isfinite(low), both, high - 1)
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
        low, high = xp.asarray(self.low), xp.asarray(self.high)
        start = xp.where(xp.isfinite(low), low, xp.where(xp.isfinite(high), high, 0))
        return xp.broadcast_to(start, xp.shape(like)).astype(xp.asarray(like).dtype)


class Simplex(Support):
    r"""$\{p \in \mathbb{R}^k : p_i \ge 0, \sum_i p_i = 1\}$."""

    ndim: ClassVar[int] = 1
    words: ClassVar[str] = "probabilities that are zero or positive and sum to 1 (to within 1e-6)"

    @_members
    def contains(self, x: Any) -> Any:
        return (x >= 0).all(-1) & (abs(x.sum(-1) - 1) <= _TOLERANCE)

    def interior(self, like):
        return _namespace(like).ones_like(like) / np.shape(like)[-1]


class Ordered(Support):
    r"""$x_1 < x_2 < \dots < x_k$."""

    ndim: ClassVar[int] = 1
    words: ClassVar[str] = "finite and strictly increasing along the last axis"

    @_members
    def contains(self, x: Any) -> Any:
        return (x[..., 1:] > x[..., :-1]).all(-1) & _namespace(x).isfinite(x).all(-1)

    def interior(self, like):
        xp = _namespace(like)
        return xp.broadcast_to(xp.arange(1.0, np.shape(like)[-1] + 1), np.shape(like))


class PositiveOrdered(Ordered):
    r"""$0 < x_1 < x_2 < \dots < x_k$."""

    words: ClassVar[str] = "positive, finite and strictly increasing along the last axis"

    @_members
    def contains(self, x: Any) -> Any:
        return super().contains(x) & (x > 0).all(-1)


class Sphere(Support):
    r"""$\{x \in \mathbb{R}^d : \|x\| = 1\}$."""

    ndim: ClassVar[int] = 1
    words: ClassVar[str] = "a vector of length 1"

    @_members
    def contains(self, x: Any) -> Any:
        return abs((x**2).sum(-1) - 1) <= _TOLERANCE

    def interior(self, like):
        return _namespace(like).ones_like(like) / np.sqrt(np.shape(like)[-1])


class _Matrix(Support):
    ndim: ClassVar[int] = 2

    def interior(self, like):
        xp = _namespace(like)
        return xp.broadcast_to(xp.eye(np.shape(like)[-1]), np.shape(like))


class PositiveSemidefinite(_Matrix):
    r"""Symmetric $A$ with $v^\top A v \ge 0$; symmetry and eigenvalues are judged by the largest entry."""

    words: ClassVar[str] = "a symmetric positive semi-definite matrix"

    @_members
    def contains(self, x: Any) -> Any:
        xp = _namespace(x)
        allowed = _rounding(x) * abs(x).max((-1, -2), initial=0.0)
        symmetric = abs(x - x.swapaxes(-1, -2)).max((-1, -2), initial=0.0) <= allowed
        finite = xp.isfinite(x).all((-1, -2))
        identity = xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape)
        eigenvalues = xp.linalg.eigvalsh(xp.where(finite[..., None, None], x, identity))
        return symmetric & finite & (eigenvalues >= -allowed[..., None]).all(-1)


class LowerCholesky(_Matrix):
    r"""Lower-triangular $L$ with a positive diagonal."""

    words: ClassVar[str] = "lower triangular with a positive diagonal"

    @_members
    def contains(self, x: Any) -> Any:
        xp = _namespace(x)
        positive_diagonal = (xp.diagonal(x, axis1=-2, axis2=-1) > 0).all(-1)
        return positive_diagonal & (xp.triu(x, 1) == 0).all((-1, -2)) & xp.isfinite(x).all((-1, -2))


class Correlation(PositiveSemidefinite):
    r"""Positive semi-definite with ones on the diagonal."""

    words: ClassVar[str] = "a correlation matrix: symmetric, positive semi-definite, ones on the diagonal"

    @_members
    def contains(self, x: Any) -> Any:
        diagonal = _namespace(x).diagonal(x, axis1=-2, axis2=-1)
        return super().contains(x) & (abs(diagonal - 1) <= _TOLERANCE).all(-1)


class CorrelationCholesky(LowerCholesky):
    r"""Lower-triangular $L$ with a positive diagonal and rows of length one: $L L^\top$ is a correlation."""

    words: ClassVar[str] = "lower triangular with a positive diagonal and rows of length 1"

    @_members
    def contains(self, x: Any) -> Any:
        return super().contains(x) & (abs((x**2).sum(-1) - 1) <= _TOLERANCE).all(-1)


real = Real()
extended_real = ExtendedReal()
log_weights = LogWeights()
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


_NAMED: dict[str, Support] = {
    "real": real, "positive": positive, "nonnegative": nonnegative, "unit_interval": unit_interval,
    "simplex": simplex, "ordered": ordered, "positive_ordered": positive_ordered, "sphere": sphere,
    "psd": psd, "lower_cholesky": lower_cholesky, "correlation": correlation,
    "correlation_cholesky": correlation_cholesky,
}  # fmt: skip


def as_support(name: str, support: Any) -> Support:
    """A support as it is, or the one of that name (`"positive"`); other things are refused.

    >>> as_support("tau", "positive") is positive
    True
    """
    if isinstance(support, Support):
        return support
    fix = f"Write `tractable.positive`, or a name: {', '.join(_NAMED)}."
    known = isinstance(support, str) and support in _NAMED
    got = getattr(support, "__name__", repr(support))
    check(known, f"supports of {name!r}" if name else "supports", "a support", got, fix, TypeError)
    return _NAMED[support]


def bounded(low: ArrayLike, high: ArrayLike) -> Interval:
    """The closed interval from `low` to `high`."""
    return Interval(low, high)


def integer_range(low: ArrayLike, high: ArrayLike) -> IntegerRange:
    """The whole numbers from `low` to `high`, both included."""
    return IntegerRange(low, high)
