r"""Two distributions, or two arrays of probabilities, made comparable.

Contract.    Both distributions are over draws of one unit shape, and their leading axes (independent units)
             broadcast. Arrays hold probabilities along the last axis; their other axes are separate pairs.
Cost.        None beside the checks.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_entries
from tractable.core.module import plates
from tractable.core.support import simplex
from tractable.core.types import Array, ArrayLike
from tractable.distributions.base import Distribution

__all__ = ["Comparable", "check_pair", "over_units", "pair_of_probabilities"]

Comparable = Any  # a distribution, or an array whose last axis holds probabilities


def check_pair(p: Any, q: Any) -> None:
    """Refuse, by name, what are not two distributions over draws of one shape."""
    for name, value in (("p", p), ("q", q)):
        fix = "Arrays of probabilities are compared with arrays of probabilities."
        check(isinstance(value, Distribution), name, "a distribution", type(value).__name__, fix, TypeError)
    check(
        p.unit_shape == q.unit_shape, "q", f"over draws of unit shape {p.unit_shape}, like `p`", q.unit_shape
    )
    try:
        jnp.broadcast_shapes(plates(p), plates(q))
    except ValueError as error:
        raise ValueError(
            f"`q` must be of a shape that broadcasts with that of `p`, {p.shape}; got {q.shape}."
        ) from error


def pair_of_probabilities(p: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    """Two arrays of probabilities along the last axis, checked and broadcast against each other."""
    p, q = _probabilities("p", p), _probabilities("q", q)
    must = f"probabilities of {p.shape[-1]} states, like `p`"
    check(p.shape[-1] == q.shape[-1], "q", must, f"{q.shape[-1]} states")
    shape = jnp.broadcast_shapes(p.shape, q.shape)
    return jnp.broadcast_to(p, shape), jnp.broadcast_to(q, shape)


def over_units(function: Callable[[Any, Any], Any], p: Distribution, q: Distribution) -> Any:
    """`function(p, q)` of each pair of units: leading axes broadcast against each other, one `vmap` per
    axis."""
    units = jnp.broadcast_shapes(plates(p), plates(q))
    for _ in units:
        function = jax.vmap(function)
    return function(p.expand(units), q.expand(units))


def _probabilities(name: str, value: ArrayLike) -> Array:
    probs = as_float(name, value)
    check(probs.ndim >= 1 and probs.size > 0, name, "an array of probabilities", f"shape {probs.shape}")
    check_entries(name, probs, simplex.contains, simplex.words, "Divide by the sum.")
    return probs
