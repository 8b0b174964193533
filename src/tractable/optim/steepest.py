r"""The steepest direction, by search and by formula.

Identity.    Among unit directions, $f(x + r d) \approx f(x) + r\,\nabla f(x)^\top d$ is lowest along
             $d = -\nabla f(x)/\|\nabla f(x)\|$ (Cauchy and Schwarz).
Trap.        Steepest is not straight: on $z = a x^2 + b y^2$ the line of steepest descent from $(x_0, y_0)$,
             $2 a x_0 (y - y_0) = 2 b y_0 (x - x_0)$, meets the minimum only if $a = b$, $x_0 = 0$ or
             $y_0 = 0$.
Cost.        One value for each direction that is tried.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check, check_count, check_shape
from tractable.core.module import Module
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar

__all__ = ["SteepestDirection", "distance_to_line", "steepest_direction"]


class SteepestDirection(Module):
    """The best direction that a search found, the one that the gradient predicts, and the angle between."""

    found: Float[Array, " n"]
    predicted: Float[Array, " n"]
    angle: Scalar


def steepest_direction(
    fun: Callable[..., Any],
    point: ArrayLike,
    *,
    args: tuple = (),
    radius: float = 1e-5,
    num_directions: int = 10_000,
    key: Key | None = None,
) -> SteepestDirection:
    """Try many unit directions from `point` and keep the one along which `fun` is lowest after `radius`.

    Without a `key`, in two dimensions, the directions are spaced evenly; with one they are drawn.
    """
    point = as_float("point", point)
    check_shape("point", point, (None,))
    check(point.size >= 2, "point", "of at least two entries", point.size)
    num_directions = check_count("num_directions", num_directions)
    if key is None:
        check(point.size == 2, "key", "given in more than two dimensions", None)
        angles = 2 * jnp.pi * jnp.arange(num_directions) / num_directions
        directions = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    else:
        drawn = jr.normal(key, (num_directions, point.size))
        directions = drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)
    return _search(fun, point, as_data(args), jnp.asarray(radius), directions)


def distance_to_line(point: ArrayLike, direction: ArrayLike, target: ArrayLike) -> Scalar:
    r"""The distance of `target` from the line $\{x + t d\}$: zero where the line meets it."""
    point, direction = as_float("point", point), as_float("direction", direction)
    unit = direction / jnp.linalg.norm(direction)
    offset = as_float("target", target) - point
    return jnp.linalg.norm(offset - (offset @ unit) * unit)


@program
def _search(fun, point: Array, args: tuple, radius: Array, directions: Array) -> SteepestDirection:
    values = jax.vmap(lambda d: fun(point + radius * d, *args))(directions)
    found = directions[jnp.argmin(values)]
    gradient = jax.grad(fun)(point, *args)
    predicted = -gradient / jnp.linalg.norm(gradient)
    # half the chord: exact for small angles, where the arc cosine of the product has lost its digits
    angle = 2 * jnp.arcsin(jnp.minimum(0.5 * jnp.linalg.norm(found - predicted), 1.0))
    return SteepestDirection(found, predicted, angle)
