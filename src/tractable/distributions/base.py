r"""The contract of every distribution: one `shape`, mathematics for one point, leading axes vectorised here.

Contract.    `log_prob(x)` for `x` of shape `lead + shape` has shape `lead`; `sample(key, lead)` has shape `lead + shape`.
             Parameters with leading axes are independent units: `Normal(zeros(3), 1.0)` has shape `(3,)`, and its log-density
             is the sum over the three coordinates.
Off support. Log-density $-\infty$, with a finite gradient; NaN stays NaN.
Used by.     Everything above this layer.
Cost.        One compiled program per class and shape.
"""

import math
from abc import abstractmethod
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check
from tractable.core.module import Module, plates
from tractable.core.support import Support
from tractable.core.types import Array, ArrayLike, Key, Scalar, Shape

__all__ = ["Distribution", "Univariate"]


class Distribution(Module):
    """A probability distribution over arrays of one `shape`.

    A subclass states the mathematics of one unit: `unit_shape`, `support`, `_log_prob(x)`, `_sample(key, n)` and, where they exist,
    `_mean`, `_variance`, `_entropy`. Leading axes of parameters and of points are handled here, once.
    """

    def __check_init__(self) -> None:
        plates(self)

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
        return _log_prob(self, self._points("x", x))

    def prob(self, x: ArrayLike) -> Array:
        """Density (or mass) at each point of `x`."""
        return jnp.exp(self.log_prob(x))

    def sample(self, key: Key, shape: Shape = ()) -> Array:
        """Independent draws, of shape `shape + self.shape`."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return _sample(self, key, shape)

    @property
    def mean(self) -> Array:
        """The expectation of a draw."""
        return _units(self, type(self)._mean)

    @property
    def variance(self) -> Array:
        """The variance of each entry of a draw."""
        return _units(self, type(self)._variance)

    @property
    def std(self) -> Array:
        """The standard deviation of each entry of a draw."""
        return jnp.sqrt(self.variance)

    def entropy(self) -> Scalar:
        r"""$-E[\log p(x)]$ in nats, summed over independent units; differential for densities."""
        return _units(self, type(self)._entropy).sum()

    def expand(self, shape: Shape) -> "Distribution":
        """The same distribution with its parameters repeated to the leading axes `shape` (independent units)."""
        leading = plates(self)
        extra = tuple(shape)
        ok = jnp.broadcast_shapes(leading, extra) == extra
        check(ok, "shape", f"a shape to which {leading} broadcasts", shape)

        def spread(module_field, value):
            rank = module_field.metadata.get("rank")
            if rank is None:
                return value
            return jnp.broadcast_to(value, extra + jnp.shape(value)[jnp.ndim(value) - rank :])

        return _map_fields(self, spread)

    def _points(self, name: str, x: ArrayLike) -> Array:
        x = as_float(name, x)
        shape = self.shape
        ok = x.shape[x.ndim - len(shape) :] == shape if x.ndim >= len(shape) else False
        fix = "Its last axes are one draw; axes before them are separate points."
        check(ok, name, f"an array whose last axes have shape {shape}", f"shape {x.shape}", fix)
        return x

    def _missing(self, what: str) -> AttributeError:
        return AttributeError(f"{type(self).__name__} has no closed-form {what}; estimate it from draws: `sample(key, (10_000,))`.")


class Univariate(Distribution):
    """A distribution of one number. Hooks are elementwise: `x` and every parameter arrive with one common shape."""

    @property
    def unit_shape(self) -> Shape:
        return ()

    @abstractmethod
    def _sample(self, key: Key, n: Any) -> Array:
        """One draw for each entry of the parameters, which have shape `n`."""

    def _cdf(self, x: Array) -> Array:
        raise self._missing("distribution function")

    def _icdf(self, p: Array) -> Array:
        raise self._missing("quantile function")

    def cdf(self, x: ArrayLike) -> Array:
        r"""$P(X \le x)$ for each coordinate."""
        return _cdf(self, self._coordinates("x", x))

    def icdf(self, p: ArrayLike) -> Array:
        r"""The quantile: the smallest $x$ with $P(X \le x) \ge p$, for each coordinate; NaN where `p` is not in [0, 1]."""
        return _icdf(self, self._coordinates("p", p))

    def _coordinates(self, name: str, x: ArrayLike) -> Array:
        x = as_float(name, x)
        return jnp.broadcast_to(x, self.shape) if x.ndim == 0 else self._points(name, x)


def _map_fields(module: Distribution, function) -> Any:
    """`module` with `function(field, value)` in place of each value."""
    fields = [f for f in module.__dataclass_fields__.values() if "rank" in f.metadata]
    values = [function(f, getattr(module, f.name)) for f in fields]
    return eqx.tree_at(lambda m: [getattr(m, f.name) for f in fields], module, values, is_leaf=lambda v: v is None)


@jax.jit
def _log_prob(distribution: Distribution, x: Array) -> Array:
    shape = distribution.shape
    lead = x.shape[: x.ndim - len(shape)]
    if isinstance(distribution, Univariate):
        full = distribution.expand(x.shape)
        return _guarded(full, full._log_prob, x).sum(tuple(range(len(lead), x.ndim)))
    units = plates(distribution)
    flat = x.reshape((math.prod(lead), math.prod(units), *distribution.unit_shape))

    def unit(d, point):
        return _guarded(d, d._log_prob, point)

    if units == ():
        return jax.vmap(unit, (None, 0))(distribution, flat[:, 0]).reshape(lead)
    each = _flatten_units(distribution, units)
    return jax.vmap(jax.vmap(unit), (None, 0))(each, flat).sum(-1).reshape(lead)


def _guarded(distribution: Distribution, log_prob, x: Array) -> Array:
    support = distribution.support
    inside = support.contains(x)
    widened = jnp.asarray(inside).reshape(jnp.shape(inside) + (1,) * support.ndim)
    safe = jnp.where(widened, x, support.interior(x).astype(x.dtype))
    values = log_prob(safe)
    ok = inside if jnp.shape(inside) == values.shape else jnp.all(inside)
    unknown = jnp.isnan(x) if values.shape == x.shape else jnp.isnan(x).any()
    return jnp.where(unknown, jnp.nan, jnp.where(ok, values, -jnp.inf))


@partial(jax.jit, static_argnums=2)
def _sample(distribution: Distribution, key: Key, shape: Shape) -> Array:
    if isinstance(distribution, Univariate):
        full = shape + distribution.shape
        return distribution.expand(full)._sample(key, full)
    units = plates(distribution)
    if units == ():
        return distribution._sample(key, math.prod(shape)).reshape(shape + distribution.shape)
    each = _flatten_units(distribution, units)
    keys = jax.random.split(key, math.prod(units))
    draws = jax.vmap(lambda d, k: d._sample(k, math.prod(shape)), out_axes=1)(each, keys)
    return draws.reshape(shape + distribution.shape)


@partial(jax.jit, static_argnums=1)
def _units(distribution: Distribution, hook) -> Array:
    units = plates(distribution)
    if isinstance(distribution, Univariate):
        return hook(distribution.expand(units))
    if units == ():
        return hook(distribution)
    out = jax.vmap(hook)(_flatten_units(distribution, units))
    return out.reshape(units + out.shape[1:])


def _flatten_units(distribution: Distribution, units: Shape) -> Any:
    """The distribution with all its leading parameter axes as one: a stack that `vmap` takes apart."""

    def flatten(module_field, value):
        rank = module_field.metadata["rank"]
        return value.reshape((math.prod(units), *value.shape[value.ndim - rank :]))

    return _map_fields(distribution.expand(units), flatten)


@jax.jit
def _cdf(distribution: Univariate, x: Array) -> Array:
    full = distribution.expand(x.shape)
    return full._cdf(x)


@jax.jit
def _icdf(distribution: Univariate, p: Array) -> Array:
    full = distribution.expand(p.shape)
    valid = (p >= 0) & (p <= 1)
    return jnp.where(valid, full._icdf(jnp.where(valid, p, 0.5)), jnp.nan)
