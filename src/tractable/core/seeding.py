r"""Rows that are far apart, to begin a clustering with: k-means++.

Rule.        The first row in proportion to its weight $w_i$; each next one in proportion to $w_i\,D_i^p$,
             with $D_i$ the distance to the nearest row chosen so far. $p = 2$ is k-means++; $p = 0$ draws
             rows without regard to distance, $p = \infty$ takes the farthest row.
Bound.       With $p = 2$ the expected sum of squared distances is at most $8(\log k + 2)$ times the least.
Cost.        $O(nkd)$.
References.  Arthur and Vassilvitskii (2007); Gonzalez (1985) (farthest first).
"""

from typing import Any

import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check, check_count, check_shape, is_concrete
from tractable.core.geometry import squared_distances
from tractable.core.iterate import run
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar

__all__ = ["far_apart", "nearest_of"]


def far_apart(
    key: Key, rows: ArrayLike, count: int, *, weights: ArrayLike | None = None, power: float | Scalar = 2.0
) -> Int[Array, " count"]:
    """The indices of `count` rows far apart, drawn by k-means++; copies are chosen only when nothing else is
    left.

    >>> sorted(far_apart(jr.key(0), [[0.0], [0.0], [5.0]], 2, power=jnp.inf).tolist())[1]
    2
    """
    xs = as_float("rows", rows)
    check(xs.ndim == 2, "rows", "a table with 2 axes", f"shape {xs.shape}")
    count = check_count("count", count, most=len(xs))
    check(not is_concrete(power) or bool(power >= 0), "power", "zero or positive", power)
    shares = jnp.ones(len(xs), xs.dtype) if weights is None else as_float("weights", weights)
    check_shape("weights", shares, (len(xs),))
    return _far_apart(key, xs, count, shares, jnp.asarray(power, xs.dtype))


def nearest_of(rows: ArrayLike, centres: ArrayLike) -> Int[Array, " n"]:
    """The index of the centre nearest to each row."""
    return squared_distances(rows, centres).argmin(1)


@program
def _far_apart(key: Key, xs: Float[Array, "n d"], count: int, weights: Array, power: Array) -> Array:
    key_first, key_rest = jr.split(key)

    def choose(state: Any, key: Key) -> tuple[Any, Array]:
        distance, chosen = state
        # a row chosen before comes last: where only copies are left they are drawn by weight
        left = jnp.where(chosen, -jnp.inf, jnp.log(weights))
        spread = jnp.where(jnp.isinf(power), 1.0, power / 2) * jnp.log(distance)
        usable = (distance > 0).any()
        logits = left + jnp.where(usable, jnp.where(power == 0, 0.0, spread), 0.0)
        far = jnp.where(jnp.isneginf(left), -1.0, distance).argmax()
        index = jnp.where(jnp.isinf(power), far, jr.categorical(key, logits))
        near = jnp.minimum(distance, squared_distances(xs, xs[index][None])[:, 0])
        return (near, chosen.at[index].set(True)), index

    first = jr.categorical(key_first, jnp.log(weights))
    apart = squared_distances(xs, xs[first][None])[:, 0]
    start = (apart, jnp.zeros(len(xs), bool).at[first].set(True))
    others = run(choose, start, jr.split(key_rest, count - 1)).trace if count > 1 else jnp.zeros(0, int)
    return jnp.concatenate([first[None], others])
