r"""The contract of every distribution: one `shape`, mathematics for one point, leading axes vectorised here.

Contract.    `log_prob(x)` for `x` of shape `lead + shape` has shape `lead`; `sample(key, lead)` has shape
             `lead + shape`. Parameters with leading axes are independent units: `Normal(zeros(3), 1.0)` has
             shape `(3,)`, and its log-density is the sum over the three coordinates.
Off support. Log-density $-\infty$, with a finite gradient; NaN stays NaN.
Cost.        One compiled program per class and shape.
"""

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np

from tractable._hints import method_hint
from tractable.core.checks import as_float, check, is_concrete, offender, to_device
from tractable.core.keys import takes_key
from tractable.core.module import Module, plates
from tractable.core.numerics import log1mexp, safe_log
from tractable.core.support import Support
from tractable.core.types import Array, ArrayLike, Key, Scalar, Shape
from tractable.distributions.leading_axes import (
    at_points,
    draws_of,
    log_prob,
    map_fields,
    num_bucketed,
    quantile,
    tail,
    units,
)

__all__ = ["Distribution", "Univariate", "check_ordered", "log_share"]


class Distribution(Module):
    """A probability distribution over arrays of one `shape`.

    A subclass states the mathematics of one unit: `unit_shape`, `support`, `_log_prob(x)`, `_sample(key, n)`
    and, where they exist, `_mean`, `_variance`, `_entropy`. Leading axes of parameters and of points are
    handled by `leading_axes`, once.
    """

    elementwise: ClassVar[bool] = False  # whether the hooks take arrays of points: those of `Univariate` do

    def __check_init__(self) -> None:
        plates(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Only of what is not there: the error itself, and what the thing is called here."""
            try:
                return super().__getattribute__(name)
            except AttributeError as error:
                hint = method_hint(name, type(self))
                if not hint:
                    raise
                raise AttributeError(f"{error}. {hint}", name=name, obj=self) from None

    @property
    @abstractmethod
    def unit_shape(self) -> Shape:
        """The shape of one unit, which the parameters' leading axes repeat."""

    @property
    @abstractmethod
    def support(self) -> Support:
        """The set of possible values of one unit."""

    @abstractmethod
    def _log_prob(self, x: Array) -> Scalar:
        """Log-density of one point of one unit; `x` lies in the support."""

    @abstractmethod
    def _sample(self, key: Key, n: int) -> Array:
        """`n` draws of one unit, shape `(n,) + unit_shape`."""

    def _mean(self) -> Array:
        raise self._missing("mean")

    def _variance(self) -> Array:
        raise self._missing("variance")

    def _entropy(self) -> Scalar:
        raise self._missing("entropy")

    @property
    def shape(self) -> Shape:
        """The shape of one draw."""
        return plates(self) + self.unit_shape

    @property
    def discrete(self) -> bool:
        """Whether `log_prob` is the logarithm of a mass rather than of a density."""
        return self.support.discrete

    def log_prob(self, x: ArrayLike) -> Array:
        """Log-density at each point of `x`, whose last axes have this distribution's `shape`."""
        return at_points(log_prob, self, self._points("x", x))

    def prob(self, x: ArrayLike) -> Array:
        """Density (or mass) at each point of `x`."""
        return jnp.exp(self.log_prob(x))

    @takes_key
    def sample(self, key: Key, shape: Shape = ()) -> Array:
        """Independent draws, of shape `shape + self.shape`.

        They are the first of a bucket of draws, whose program serves every number of draws in it.
        """
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        count = math.prod(shape)
        draws = draws_of(self, key, shape if count <= 1 else (num_bucketed(count),))
        if not is_concrete(draws):
            return draws if count <= 1 else draws[:count].reshape(shape + self.shape)
        if jnp.issubdtype(draws.dtype, jnp.integer):
            self._check_held(np.asarray(draws)[:count] if count > 1 else np.asarray(draws))
        if count <= 1:
            return draws
        return to_device(np.asarray(draws)[:count].reshape(shape + self.shape))  # compiles nothing

    def _check_held(self, draws: np.ndarray) -> None:
        """Refuse counts past the greatest integer: the samplers mark them by the least one."""
        integers = np.iinfo(draws.dtype)
        held = draws.size == 0 or draws.min() > integers.min
        must = f"a law whose counts fit into integers of {integers.bits} bits"
        fix = "Scale the counts down, or draw from the normal law with its mean and variance."
        check(held, type(self).__name__, must, f"a draw past {float(integers.max):.1e}", fix)

    @property
    def mean(self) -> Array:
        """The expectation of a draw."""
        return units(self, type(self)._mean)

    @property
    def variance(self) -> Array:
        """The variance of each entry of a draw."""
        return units(self, type(self)._variance)

    @property
    def std(self) -> Array:
        """The standard deviation of each entry of a draw."""
        return jnp.sqrt(self.variance)

    def entropy(self) -> Scalar:
        r"""$-E[\log p(x)]$ in nats, summed over independent units; differential for densities."""
        return units(self, type(self)._entropy).sum()

    def expand(self, shape: Shape) -> "Distribution":
        """The same distribution with its parameters repeated to the leading axes `shape`, one unit each."""
        leading = plates(self)
        extra = tuple(shape)
        ok = jnp.broadcast_shapes(leading, extra) == extra
        check(ok, "shape", f"a shape to which {leading} broadcasts", shape)

        def spread(module_field, value):
            rank = module_field.metadata.get("rank")
            if rank is None:
                return value
            return jnp.broadcast_to(value, extra + jnp.shape(value)[jnp.ndim(value) - rank :])

        return map_fields(self, spread)

    def _points(self, name: str, x: ArrayLike) -> Array:
        x = as_float(name, x)
        shape = self.shape
        ok = x.shape[x.ndim - len(shape) :] == shape if x.ndim >= len(shape) else False
        fix = "Its last axes are one draw; axes before them are separate points."
        check(ok, name, f"an array whose last axes have shape {shape}", f"shape {x.shape}", fix)
        return x

    def _coordinates(self, name: str, x: ArrayLike) -> Array:
        x = as_float(name, x)
        return jnp.broadcast_to(x, self.shape) if x.ndim == 0 else self._points(name, x)

    def _missing(self, what: str) -> AttributeError:
        name = type(self).__name__
        return AttributeError(
            f"{name} has no closed-form {what}; estimate it from draws: `sample(key, (10_000,))`."
        )


class Univariate(Distribution):
    """A distribution of one number, with elementwise hooks.

    The parameters arrive with as many axes as `x`, of length one where they do not vary, so that what depends
    on parameters alone is computed once and not at every point.
    """

    elementwise: ClassVar[bool] = True

    @property
    def unit_shape(self) -> Shape:
        return ()

    @abstractmethod
    def _sample(self, key: Key, n: Any) -> Array:
        """Independent draws of shape `n`, against which the parameters broadcast."""

    def _cdf(self, x: Array) -> Array:
        raise self._missing("distribution function")

    def _icdf(self, p: Array) -> Array:
        raise self._missing("quantile function")

    def _mode(self) -> Array:
        raise self._missing("mode")

    def _survival(self, x: Array) -> Array:
        return 1 - self._cdf(x)

    def _log_cdf(self, x: Array) -> Array:
        return _log_of_share(self._cdf(x), self._survival(x))

    def _log_survival(self, x: Array) -> Array:
        return _log_of_share(self._survival(x), self._cdf(x))

    def _inverse_survival(self, q: Array) -> Array:
        return self._icdf(1 - q)

    def _at_shares(self, p: Array, q: Array) -> Array:
        """The quantile with mass `p` up to it and `q` beyond it.

        They add to one, each with its own digits.
        """
        lower = p < q
        below, above = jnp.where(lower, p, 0.5), jnp.where(lower, 0.5, q)
        return jnp.where(lower, self._icdf(below), self._inverse_survival(above))

    def _aligned(self, ndim: int) -> Any:
        """The same distribution with parameters of `ndim` axes: what the hooks see."""

        def align(module_field, value):
            missing = ndim + module_field.metadata["rank"] - jnp.ndim(value)
            return jnp.reshape(value, (1,) * missing + jnp.shape(value))

        return map_fields(self, align)

    @property
    def mode(self) -> Array:
        """The most probable value of each coordinate; NaN where several values tie."""
        return units(self, type(self)._mode)

    def cdf(self, x: ArrayLike) -> Array:
        r"""$P(X \le x)$ for each coordinate."""
        return at_points(tail, self, self._coordinates("x", x), type(self)._cdf, 0.0, 1.0)

    def survival(self, x: ArrayLike) -> Array:
        r"""$P(X > x)$ for each coordinate, exact where `1 - cdf(x)` has lost its digits."""
        return at_points(tail, self, self._coordinates("x", x), type(self)._survival, 1.0, 0.0)

    def log_cdf(self, x: ArrayLike) -> Array:
        r"""$\log P(X \le x)$ for each coordinate."""
        return at_points(tail, self, self._coordinates("x", x), type(self)._log_cdf, -jnp.inf, 0.0)

    def log_survival(self, x: ArrayLike) -> Array:
        r"""$\log P(X > x)$ for each coordinate."""
        return at_points(tail, self, self._coordinates("x", x), type(self)._log_survival, 0.0, -jnp.inf)

    def icdf(self, p: ArrayLike) -> Array:
        r"""The quantile: the smallest $x$ with $P(X \le x) \ge p$, for each coordinate.

        NaN outside [0, 1].
        """
        return at_points(quantile, self, self._coordinates("p", p), False)

    def inverse_survival(self, q: ArrayLike) -> Array:
        r"""The smallest $x$ with $P(X > x) \le q$, for each coordinate: exact where $1 - q$ rounds to one."""
        return at_points(quantile, self, self._coordinates("q", q), True)


def check_ordered(low: Array, high: Array, strict: bool = True) -> None:
    """Check that `low` lies below `high` (or may equal it) wherever both have values."""
    if is_concrete(low) and is_concrete(high):
        first, last = np.broadcast_arrays(np.asarray(low), np.asarray(high))
        ok = np.less(first, last) if strict else np.less_equal(first, last)
        if not ok.all():
            words = "below" if strict else "at most"
            check(False, "low", f"{words} `high` = {last[~ok][0]}", offender(first, ok))


def log_share(own: Array, other: Array) -> Array:
    """The logarithm of one of two probabilities that add to one, from the other's where that is the smaller:
    `own` and `other` are logarithms, each with rounding errors near the size of one."""
    large = own > other
    return jnp.where(large, log1mexp(jnp.where(large, -other, 1.0)), own)


def _log_of_share(share: Array, rest: Array) -> Array:
    """The logarithm of a probability, from the other side where it nears one: `-rest` at 1e-30, not zero."""
    large = share > 0.5
    return jnp.where(large, jnp.log1p(-jnp.where(large, rest, 0.0)), safe_log(jnp.where(large, 1.0, share)))
