r"""Leading axes: the mathematics of one unit, at many points and for many units, in one program.

Points.      `at_points` answers at a bucket of points, whose program serves every number of points in it. A
             large table is answered as it is: there the work outweighs the compiler's.
Units.       Parameters with leading axes are independent units; `units` asks each.
Off support. `log_prob` evaluates at a point inside and says $-\infty$, so that gradients stay finite.
Cost.        One program per class and shape; copies of at most `_MOST` points.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.monotone import ends
from tractable.core.checks import check, has_values, is_concrete, to_device
from tractable.core.chunks import bucket_size
from tractable.core.module import plates
from tractable.core.support import IntegerRange, Support
from tractable.core.types import Array, Key, Shape

__all__ = [
    "at_points", "draws_of", "ends_of", "flatten_units", "log_prob", "map_fields", "num_bucketed", "quantile",
    "tail", "unit_log_probs", "units",
]  # fmt: skip

_MOST = 1 << 17  # points: beyond, computing them costs more than compiling for them


def num_bucketed(count: int) -> int:
    """The number of points or draws that are computed where `count` are asked for."""
    return bucket_size(count) if count > 8 else 1 << max(count - 1, 0).bit_length()


def at_points(function: Callable, distribution: Any, x: Array, *options: Any) -> Array:
    """`function(distribution, x, *options)`, which answers along the leading axes of `x`."""
    shape = distribution.shape
    lead = x.shape[: x.ndim - len(shape)]
    count = math.prod(lead)
    if not 1 < count <= _MOST or not has_values((distribution, x)):
        return function(distribution, x, *options)
    points = np.asarray(x).reshape(count, *shape)
    copies = np.broadcast_to(points[-1:], (num_bucketed(count) - count, *shape))
    found = function(distribution, np.concatenate([points, copies]) if len(copies) else points, *options)
    if not is_concrete(found):  # what has values may be asked for inside a trace
        return found[:count].reshape(lead + found.shape[1:])
    return to_device(np.asarray(found)[:count].reshape(lead + found.shape[1:]))


def map_fields(module: Any, function) -> Any:
    """`module` with `function(field, value)` in place of each value."""
    fields = [f for f in module.__dataclass_fields__.values() if "rank" in f.metadata]
    values = [function(f, getattr(module, f.name)) for f in fields]
    return eqx.tree_at(
        lambda m: [getattr(m, f.name) for f in fields], module, values, is_leaf=lambda v: v is None
    )


@jax.jit
def log_prob(distribution: Any, x: Array) -> Array:
    shape = distribution.shape
    lead = x.shape[: x.ndim - len(shape)]
    if distribution.elementwise:
        each = distribution._aligned(x.ndim)
        return _guarded(each, each._log_prob, x).sum(tuple(range(len(lead), x.ndim)))
    leading = plates(distribution)
    flat = x.reshape((math.prod(lead), math.prod(leading), *distribution.unit_shape))

    def unit(d, point):
        return _guarded(d, d._log_prob, point)

    if leading == ():
        return jax.vmap(unit, (None, 0))(distribution, flat[:, 0]).reshape(lead)
    each = flatten_units(distribution, leading)
    return jax.vmap(jax.vmap(unit), (None, 0))(each, flat).sum(-1).reshape(lead)


@jax.jit
def unit_log_probs(distribution: Any, x: Array) -> Array:
    """The log-density of each unit at one point `x`, whose shape is that of the distribution: `log_prob`
    before its sum."""
    leading = plates(distribution)
    point = jnp.broadcast_to(jnp.asarray(x, float), distribution.shape)
    if distribution.elementwise:
        each = distribution._aligned(point.ndim)
        return _guarded(each, each._log_prob, point)
    if leading == ():
        return _guarded(distribution, distribution._log_prob, point)
    flat = point.reshape((math.prod(leading), *distribution.unit_shape))
    each = flatten_units(distribution, leading)
    return jax.vmap(lambda d, one: _guarded(d, d._log_prob, one))(each, flat).reshape(leading)


def _guarded(distribution: Any, log_prob, x: Array) -> Array:
    support = distribution.support
    inside = support.contains(x)
    widened = jnp.asarray(inside).reshape(jnp.shape(inside) + (1,) * support.ndim)
    safe = jnp.where(widened, x, support.interior(x).astype(x.dtype))
    values = log_prob(safe)
    values = jnp.broadcast_to(values, x.shape) if distribution.elementwise else values
    ok = inside if jnp.shape(inside) == values.shape else jnp.all(inside)
    unknown = jnp.isnan(x) if values.shape == x.shape else jnp.isnan(x).any()
    return jnp.where(unknown, jnp.nan, jnp.where(ok, values, -jnp.inf))


@partial(jax.jit, static_argnums=2)
def draws_of(distribution: Any, key: Key, shape: Shape) -> Array:
    if distribution.elementwise:
        full = shape + distribution.shape
        draws = distribution._aligned(len(full))._sample(key, full)
        check(draws.shape == full, "_sample(key, n)", f"an array of shape {full}", f"shape {draws.shape}")
        return draws
    leading = plates(distribution)
    if leading == ():
        return distribution._sample(key, math.prod(shape)).reshape(shape + distribution.shape)
    each = flatten_units(distribution, leading)
    keys = jax.random.split(key, math.prod(leading))
    draws = jax.vmap(lambda d, k: d._sample(k, math.prod(shape)), out_axes=1)(each, keys)
    return draws.reshape(shape + distribution.shape)


@partial(jax.jit, static_argnums=1)
def units(distribution: Any, hook) -> Array:
    if distribution.elementwise:
        return jnp.broadcast_to(hook(distribution.expand(distribution.shape)), distribution.shape)
    leading = plates(distribution)
    if leading == ():
        return hook(distribution)
    out = jax.vmap(hook)(flatten_units(distribution, leading))
    return out.reshape(leading + out.shape[1:])


def flatten_units(distribution: Any, leading: Shape) -> Any:
    """The distribution with all its leading parameter axes as one: a stack that `vmap` takes apart."""

    def flatten(module_field, value):
        rank = module_field.metadata["rank"]
        return value.reshape((math.prod(leading), *value.shape[value.ndim - rank :]))

    return map_fields(distribution.expand(leading), flatten)


def ends_of(support: Support) -> tuple[Any, Any]:
    """The least and the greatest number of a support on the line."""
    found = ends(support)
    if found is None:  # whole numbers, and sets without ends
        return getattr(support, "low", -jnp.inf), getattr(support, "high", jnp.inf)
    return found.low, found.high


@partial(jax.jit, static_argnums=(2, 3, 4))
def tail(distribution: Any, x: Array, hook, below: float, above: float) -> Array:
    each = distribution._aligned(x.ndim)
    support = each.support
    low, high = ends_of(support)
    x = jnp.floor(x) if isinstance(support, IntegerRange) else x
    is_below, is_above = (x < low) | (x == -jnp.inf), (x >= high) | (x == jnp.inf)
    outside = is_below | is_above | jnp.isnan(x)
    values = hook(each, jnp.where(outside, support.interior(x).astype(x.dtype), x))
    return jnp.where(is_below, below, jnp.where(is_above, above, jnp.where(outside, jnp.nan, values)))


@partial(jax.jit, static_argnums=2)
def quantile(distribution: Any, p: Array, upper: bool) -> Array:
    each = distribution._aligned(p.ndim)
    low, high = ends_of(each.support)
    inner = (p > 0) & (p < 1)
    values = (each._inverse_survival if upper else each._icdf)(jnp.where(inner, p, 0.5))
    first, last = (high, low) if upper else (low, high)
    ends = jnp.where(p == 0, first, jnp.where(p == 1, last, jnp.nan))
    return jnp.where(inner, values, ends).astype(p.dtype)
