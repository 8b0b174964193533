r"""Lipschitz constants: how much a function can change when its input does.

Definition.  $\|f(x) - f(y)\| \le K \|x - y\|$ for all $x, y$.
Estimates.   The largest quotient over pairs and the largest $\|J(x)\|_2$ over points are lower bounds on $K$
             (the second tends to it on a convex box). The product of the spectral norms of a network's layers
             and of the slopes of its activations is an upper bound on $K$ everywhere.
Trap.        A continuous derivative is not enough: $x^2$ has no constant on the whole line, because its
             derivative is not bounded, while $|x|$, which is not differentiable, has $K = 1$. `growth` asks
             whether the estimate levels off on boxes of growing size.
Cost.        One value for each point, one Jacobian for each sampled slope, one SVD for each layer.
References.  Szegedy et al. (2014) for the product of norms.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_shape
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Key, Scalar
from tractable.optim.convexity import box_points

__all__ = ["LipschitzGrowth", "LipschitzReport", "layer_bound", "lipschitz", "lipschitz_growth"]


class LipschitzReport(Module):
    """Two estimates of the constant on a box, both from below."""

    pairs: Scalar  # the largest quotient of changes
    slopes: Scalar  # the largest spectral norm of the Jacobian

    @property
    def estimate(self) -> Scalar:
        """The larger of the two: still a lower bound."""
        return jnp.maximum(self.pairs, self.slopes)

    def _note(self) -> str:
        return f"Lipschitz constant >= {float(self.estimate):.6g} on this box (from samples)"


class LipschitzGrowth(Module):
    """Estimates on boxes of doubling size, and whether they level off."""

    radii: Any = field(static=True)
    estimates: Any = field(static=True)

    @property
    def bounded(self) -> bool:
        """Whether the last two doublings raised the estimate by less than a hundredth."""
        last = self.estimates[-3:]
        return bool(np.isfinite(last).all() and last[-1] <= 1.01 * last[0])

    def _note(self) -> str:
        levels = "levels off: a global constant is plausible"
        return levels if self.bounded else "still grows: no global constant in sight"

    def _columns(self) -> dict[str, Any]:
        return {"radius": self.radii, "estimate": self.estimates}


@takes_key
def lipschitz(
    fun: Callable[..., Any],
    low: ArrayLike,
    high: ArrayLike,
    *,
    key: Key,
    args: tuple = (),
    num_points: int = 1000,
) -> LipschitzReport:
    """Estimate the Lipschitz constant of `fun(x, *args)` on the box from `low` to `high`.

    >>> lipschitz(jnp.abs, -2.0, 3.0, key=jr.key(0))
    LipschitzReport(pairs=1.0, slopes=1.0)
      Lipschitz constant >= 1 on this box (from samples)
    """
    low, high = as_float("low", low), as_float("high", high)
    check_shape("high", high, low.shape)
    check(bool((np.asarray(low) < np.asarray(high)).all()), "low", "below `high`", f"{low} and {high}")
    return _estimate(fun, as_data(args), low, high, key, check_count("num_points", num_points, least=2))


def lipschitz_growth(
    fun: Callable[..., Any],
    centre: ArrayLike,
    *,
    key: Key,
    radius: float = 1.0,
    doublings: int = 6,
    args: tuple = (),
    num_points: int = 1000,
) -> LipschitzGrowth:
    """The estimate on boxes around `centre` whose radius doubles: does it level off or grow for ever?"""
    centre = as_float("centre", centre)
    check(radius > 0, "radius", "positive", radius)
    radii = tuple(radius * 2.0**k for k in range(check_count("doublings", doublings, least=3) + 1))
    keys = jr.split(key, len(radii))
    reports = [
        lipschitz(fun, centre - r, centre + r, key=keys[k], args=args, num_points=num_points)
        for k, r in enumerate(radii)
    ]
    return LipschitzGrowth(radii, tuple(float(report.estimate) for report in reports))


def layer_bound(weights: Sequence[ArrayLike], slopes: Sequence[float] | float = 1.0) -> Scalar:
    r"""$\prod_i \|W_i\|_2 \prod_i s_i$: bounds $W_k\,\sigma_{k-1}(W_{k-1} \cdots \sigma_1(W_1 x))$.

    `slopes` are the constants of the activations between layers: 1 for ReLU and tanh, 1/4 for sigmoid.

    >>> float(layer_bound([[[3.0, 0.0], [0.0, 1.0]], [[0.0, 2.0]]]))
    6.0
    """
    check(len(weights) > 0, "weights", "at least one matrix", "none")
    norms = [jnp.linalg.norm(as_float("weights", w), ord=2) for w in weights]
    count = len(weights) - 1
    listed = [float(slopes)] * count if isinstance(slopes, float | int) else list(slopes)
    check(len(listed) == count, "slopes", f"one for each of the {count} activations", len(listed))
    return jnp.prod(jnp.stack(norms)) * float(np.prod(listed))


@program
def _estimate(fun, args: tuple, low: Array, high: Array, key: Key, num_points: int) -> LipschitzReport:
    first, second = jr.split(key)
    flat_low, flat_high = jnp.ravel(low), jnp.ravel(high)
    x, y = (box_points(k, flat_low, flat_high, num_points) for k in (first, second))

    def value(v):
        return jnp.ravel(jnp.asarray(fun(jnp.reshape(v, low.shape), *args)))

    def quotient(x, y):
        return jnp.linalg.norm(value(x) - value(y)) / jnp.linalg.norm(x - y)

    slopes = jax.vmap(lambda x: jnp.linalg.norm(jax.jacobian(value)(x), ord=2))(x)
    return LipschitzReport(jax.vmap(quotient)(x, y).max(), slopes.max())
