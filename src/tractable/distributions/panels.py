r"""Panels on the line that resolve one or two densities: where to cut, and which nodes to take in each panel.

Cuts.        Quantiles whose probabilities fall by factors of four down to rounding, the ends of the supports, and
             points further out by factors of four, where the tail shows whether it converges.
Nodes.       Gauss-Legendre in each panel, in the logarithm of the distance to the nearest end of a support (so that
             $x^{a-1}$ costs no digits), evenly where a panel touches that end.
Used by.     distributions.integrals, distributions.kl_fit.
Cost.        A hundred or two of panels; fixed shapes, so that everything compiles, batches and differentiates. Cuts
             are constants for differentiation, apart from the ends of supports.
References.  Davis and Rabinowitz (1984) section 2.12.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.monotone import ends
from tractable.core.support import IntegerRange, Support
from tractable.core.types import Array
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.mixture import Mixture, Union
from tractable.distributions.transformed import Transformed

__all__ = [
    "breakpoints", "cut_at_crossings", "expectation_rule", "panel_edges", "panel_rule", "real_dtype",
    "support_ends", "tail_levels", "tail_sum",
]  # fmt: skip


@singledispatch
def breakpoints(distribution: Distribution) -> Array:
    """Points that resolve where a distribution of one number puts its mass: its quantiles where it knows them."""
    spread = 2.0 ** np.arange(-4, 9)
    steps = jnp.asarray(np.concatenate([-spread[::-1], [0.0], spread]))
    return distribution.mean + distribution.std * steps


@breakpoints.register
def _(distribution: Univariate) -> Array:
    if type(distribution)._icdf is Univariate._icdf:
        return breakpoints.dispatch(Distribution)(distribution)
    tail = tail_levels(real_dtype(distribution))
    return jnp.concatenate([distribution.icdf(tail), distribution.inverse_survival(tail)])


@breakpoints.register
def _(distribution: Mixture) -> Array:
    return jax.vmap(breakpoints)(distribution.components).reshape(-1)


@breakpoints.register
def _(distribution: Transformed) -> Array:
    return distribution.bijection.forward(breakpoints(distribution.base))


def support_ends(support: Support) -> tuple[Any, Any]:
    """The lowest and the highest member of a set of numbers, possibly infinite."""
    if isinstance(support, Union):
        lows, highs = jax.vmap(lambda c: tuple(map(jnp.asarray, support_ends(c.support))))(support.components)
        return lows.min(0), highs.max(0)
    if isinstance(support, IntegerRange):
        return support.low, support.high
    found = ends(support)
    if found is None:
        words = f"`support` must be an interval or a range of whole numbers; got {type(support).__name__}."
        raise TypeError(words + ' Use `method="monte_carlo"` with a `key`.')
    return found.low, found.high


def tail_levels(dtype: Any, count: int | None = None) -> Array:
    """Probabilities from one half down by factors of four, to where they are lost beside 1 or `count` of them."""
    return jnp.asarray(0.5 * 0.25 ** np.arange(_num_levels(dtype) if count is None else count), dtype)


def real_dtype(distribution: Distribution) -> Any:
    """The type of floats in which a distribution's densities are computed."""
    return jnp.result_type(float, *[leaf.dtype for leaf in jax.tree.leaves(distribution)])


def panel_edges(p: Distribution, q: Distribution) -> tuple[Array, Array]:
    """The sorted ends of all panels, and the points towards which panels are graded (the centre first)."""
    dtype = real_dtype(p)
    limits = [[jnp.asarray(end, dtype) for end in support_ends(d.support)] for d in (p, q)]
    inner = jax.lax.stop_gradient(jnp.concatenate([breakpoints(p), breakpoints(q)])).astype(dtype)
    centre = jnp.nanmedian(jnp.where(jnp.isfinite(inner), inner, jnp.nan))
    inner = jnp.where(jnp.isfinite(inner), inner, centre)
    growth = jnp.asarray(4.0 ** np.arange(1, _num_levels(dtype) + 1), dtype)
    beyond = [centre + (inner.max() - centre) * growth, centre + (inner.min() - centre) * growth]
    finite = jnp.stack([jnp.where(jnp.isfinite(end), end, centre) for pair in limits for end in pair])
    low, high = jnp.minimum(limits[0][0], limits[1][0]), jnp.maximum(limits[0][1], limits[1][1])
    points = jnp.clip(jnp.concatenate([inner, *beyond, finite]), low, high)
    return jnp.sort(points), jnp.concatenate([centre[None], finite])


def panel_rule(edges: Array, anchors: Array, order: int) -> tuple[Array, Array]:
    """Nodes and weights, shape `(panels, order)`: geometric from the nearest anchor, even where it touches."""
    t, w = (jnp.asarray(v, edges.dtype)[None] for v in np.polynomial.legendre.leggauss(order))
    t, w = (1 + t) / 2, w / 2
    a, b = edges[:-1, None], edges[1:, None]
    gap = jnp.maximum(anchors[None] - b, a - anchors[None])
    nearest = jnp.argmin(jnp.where(gap >= 0, gap, jnp.inf), 1)
    anchor = anchors[nearest][:, None]
    near, far = a - anchor, b - anchor
    usable = (near * far > 0) & (b > a)
    ratio = jnp.where(usable, far, 1.0) / jnp.where(usable, near, 1.0)
    stretch = jnp.maximum(ratio, 1 / ratio)
    # The density is smooth at the centre, which is no end of a support: grading helps in the tails only.
    graded = usable & (stretch > 2) & ((nearest[:, None] > 0) | (stretch < 1000))
    log_ratio = jnp.log(jnp.where(graded, ratio, 2.0))
    power = near * jnp.exp(t * log_ratio)
    x = jnp.where(graded, anchor + power, a + (b - a) * t)
    return x, jnp.where(graded, power * log_ratio, b - a) * w


def expectation_rule(p: Distribution, order: int = 20) -> tuple[Array, Array]:
    r"""Nodes $x_i$ and weights $w_i$ with $E_p[h(x)] \approx \sum_i w_i h(x_i)$, for a density of one number.

    The weights contain the density and carry its gradient with respect to parameters; the nodes stay where they are.
    """
    edges, anchors = panel_edges(p, p)
    x, weights = panel_rule(edges, anchors, order)
    x, weights = x.reshape(-1), weights.reshape(-1)
    return x, jnp.where(weights > 0, jnp.exp(p.log_prob(x)) * weights, 0.0)


def cut_at_crossings(difference: Callable[[Array], Array], edges: Array, x: Array) -> Array:
    """The edges with one more in each panel: where `difference` changes sign between the nodes `x`, or the middle."""

    def sign(at):
        values = difference(at)
        return jnp.where(jnp.isnan(values), 0.0, jnp.sign(values))  # NaN: infinity less infinity, off both supports

    signs = sign(x)
    changes = signs[:, 1:] * signs[:, :-1] < 0
    first = jnp.argmax(changes, 1)[:, None]
    left, right = (jnp.take_along_axis(x, first + k, 1)[:, 0] for k in (0, 1))
    start = jnp.take_along_axis(signs, first, 1)[:, 0]

    def halve(_, bracket):
        left, right = bracket
        middle = (left + right) / 2
        same = sign(middle) == start
        return jnp.where(same, middle, left), jnp.where(same, right, middle)

    left, right = jax.lax.fori_loop(0, 60, halve, (left, right))
    cuts = jnp.where(changes.any(1), left, (edges[1:] + edges[:-1]) / 2)
    return jnp.sort(jnp.concatenate([edges, jax.lax.stop_gradient(cuts)]))


def tail_sum(last: Array, before: Array) -> Array:
    """What follows terms that shrink geometrically from `before` to `last`; infinite where they do not shrink."""
    last, before = jnp.abs(last), jnp.abs(before)
    ratio = last / jnp.where(before > 0, before, 1.0)
    shrinking = (before > 0) & (ratio < 0.9999)
    remainder = last * ratio / (1 - jnp.where(shrinking, ratio, 0.0))
    return jnp.where(last == 0, 0.0, jnp.where(shrinking, remainder, jnp.inf))


def _num_levels(dtype: Any) -> int:
    """How often a probability can be quartered before it is lost beside 1."""
    return int(jnp.finfo(dtype).nmant) // 2 - 1
