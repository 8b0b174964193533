r"""Latents given by free numbers that a run moves: onto a support that depends on other latents, or by the
location and the scale of a normal law.

Identity.    Along a run, $x_s = T_s(u_s; x_{<s})$ with $T_s$ onto the support of $p(x_s \mid x_{<s})$. The
             map of all $u$ to all $x$ is triangular, so that $\log p(u) = \sum_s \log p(x_s \mid x_{<s}) +
             \log|\partial T_s / \partial u_s|$: each site adds its own slope. For a normal law $T_s(u) =
             \mu_s + \sigma_s u$: its noise.
Cost.        That of the maps.
"""

from typing import Any

import jax
import jax.numpy as jnp

from tractable.bijections.interval import OntoInterval
from tractable.bijections.support import bijection_onto
from tractable.core.support import Interval
from tractable.core.types import Array
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Normal

__all__ = ["from_support", "onto_support"]


def onto_support(distribution: Distribution, free: Array) -> tuple[Array, Array]:
    """The value of a site at these free numbers, and the logarithms of the slopes: one for each entry of an
    interval, else one in all."""
    if isinstance(distribution, Normal):  # its support never moves: it is here for its noise
        scale = jnp.broadcast_to(distribution.scale, free.shape)
        return distribution.loc + scale * free, jnp.log(scale)
    support = distribution.support
    if not isinstance(support, Interval):
        return bijection_onto(support).forward_and_log_det(free)

    def one(u: Array, low: Array, high: Array) -> tuple[Array, Any]:
        return OntoInterval(low, high).forward_and_log_det(u)

    ends = [jnp.broadcast_to(jnp.asarray(end, free.dtype), free.shape).reshape(-1) for end in _ends(support)]
    values, slopes = jax.vmap(one)(free.reshape(-1), *ends)
    return values.reshape(free.shape), slopes.reshape(free.shape)


def from_support(distribution: Distribution, value: Array) -> Array:
    """The free numbers of a value."""
    if isinstance(distribution, Normal):
        return (value - distribution.loc) / distribution.scale
    return bijection_onto(distribution.support).inverse(value)


def _ends(support: Interval) -> tuple[Any, Any]:
    return support.low, support.high
