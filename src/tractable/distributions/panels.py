r"""Panels on the line that resolve one or two densities: where to cut, and which nodes to take in each panel.

Cuts.        The break points of both distributions, the ends of the supports, and between the last quantile
             and an end (or infinity) points by factors of four, where the integrand shows whether its
             integral converges.
Nodes.       Gauss-Legendre in each panel, in the logarithm of the distance to the nearest end of a support
             (so that $x^{a-1}$ costs no digits), evenly where a panel touches that end.
Cost.        A hundred or two of panels; fixed shapes, so that everything compiles, batches and
             differentiates. Cuts are constants for differentiation, apart from the ends of supports.
References.  Davis and Rabinowitz (1984) section 2.12.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.monotone import ends
from tractable.core.iterate import run
from tractable.core.support import IntegerRange, Support
from tractable.core.types import Array, ArrayLike
from tractable.distributions.base import Distribution
from tractable.distributions.breakpoints import breakpoints, num_levels, real_dtype
from tractable.distributions.mixture import Union

__all__ = [
    "expectation_rule", "for_both", "integrate_panels", "outer_error", "panel_edges", "panel_rule",
    "support_ends", "tail_sum",
]  # fmt: skip

Evaluate = Callable[[Array], tuple[Array, Array]]


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


def panel_edges(p: Distribution, q: Distribution) -> tuple[Array, Array]:
    """The sorted ends of all panels, and the points towards which panels are graded (the centre first)."""
    dtype = real_dtype(p)
    inner = for_both(_breakpoints, p, q)
    return _edges([v.astype(dtype) for v in inner], [_limits(d.support, dtype) for d in (p, q)])


@jax.jit
def panel_rule(edges: Array, anchors: Array, t: ArrayLike, w: ArrayLike) -> tuple[Array, Array]:
    """Nodes and weights, shape `(panels, order)`, of a rule on [0, 1]: graded from the nearest anchor."""
    a, b = edges[:-1, None], edges[1:, None]
    gap = jnp.maximum(anchors[None] - b, a - anchors[None])
    is_end = anchors != anchors[0]  # the centre stands for ends that are infinite: used only if all are
    usable_anchor = is_end | ~is_end.any()
    nearest = jnp.argmin(jnp.where((gap >= 0) & usable_anchor[None], gap, jnp.inf), 1)
    anchor = anchors[nearest][:, None]
    near, far = a - anchor, b - anchor
    usable = (near * far > 0) & (b > a)
    ratio = jnp.where(usable, far, 1.0) / jnp.where(usable, near, 1.0)
    stretch = jnp.maximum(ratio, 1 / ratio)
    # The density is smooth at the centre, which is no end of a support: grading helps in the tails only.
    graded = usable & (stretch > 2) & (is_end[nearest][:, None] | (stretch < 1000))
    log_ratio = jnp.log(jnp.where(graded, ratio, 2.0))
    at, weight = jnp.asarray(t, edges.dtype)[None], jnp.asarray(w, edges.dtype)[None]
    power = near * jnp.exp(at * log_ratio)
    x = jnp.where(graded, anchor + power, a + (b - a) * at)
    return _inside(x, a, anchors[1:]), jnp.where(graded, power * log_ratio, b - a) * weight


def expectation_rule(p: Distribution, order: int = 20) -> tuple[Array, Array]:
    r"""Nodes $x_i$ and weights $w_i$ with $E_p[h(x)] \approx \sum_i w_i h(x_i)$, for a density of one number.

    The weights contain the density and carry its gradient with respect to parameters; the nodes stay where
    they are.
    """
    edges, anchors = panel_edges(p, p)
    x, weights = panel_rule(edges, anchors, *_gauss_legendre(order))
    x, weights = x.reshape(-1), weights.reshape(-1)
    return x, jnp.where(weights > 0, jnp.exp(p.log_prob(x)) * weights, 0.0)


def integrate_panels(
    evaluate: Evaluate, edges: Array, anchors: Array, crossings: bool
) -> tuple[Array, Array]:
    """The integrals of `evaluate(x)[1]` over each panel by 20 nodes, and how far 12 nodes are from them.

    `evaluate` returns, at nodes of shape `(panels, order)`, a function with kinks at its zeros, and the
    integrands along a last axis. With `crossings` each panel is cut near the zero in it, which two rounds of
    interpolation find.
    """
    (t, w), (other_t, other_w) = _gauss_legendre(20), _gauss_legendre(12)

    def integrals(all_edges):
        x, weights = panel_rule(
            all_edges, anchors, np.concatenate([t, other_t]), np.concatenate([w, other_w])
        )
        difference, values = evaluate(x)
        return x[:, :20], difference[:, :20], _totals(values, weights)

    if not crossings:
        value, check = integrals(edges)[2]
        return value, jnp.abs(value - check)

    def refine(cuts, _):
        x, difference, (value, check) = integrals(jnp.sort(jnp.concatenate([edges, cuts])))
        value, check = (v.reshape(-1, 2, v.shape[-1]) for v in (value, check))
        new = _zero_in_panel(x.reshape(-1, 40), difference.reshape(-1, 40), cuts)
        return jax.lax.stop_gradient(new), (value.sum(1), jnp.abs(value - check).sum(1))

    middles = jax.lax.stop_gradient((edges[1:] + edges[:-1]) / 2)
    value, error = run(refine, middles, num_steps=3).trace
    return value[-1], error[-1]


def for_both(function: Callable[[Any], Array], p: Any, q: Any) -> tuple[Array, Array]:
    """`function(p)` and `function(q)`; traced once where both are of one class and shape, which compiles
    faster."""
    shapes = [[leaf.shape for leaf in jax.tree.leaves(d)] for d in (p, q)]
    if jax.tree.structure(p) != jax.tree.structure(q) or shapes[0] != shapes[1]:
        return function(p), function(q)
    each = jax.vmap(function)(jax.tree.map(lambda *leaves: jnp.stack(leaves), p, q))
    return each[0], each[1]


def outer_error(values: Array, edges: Array, anchors: Array) -> Array:
    """What the integral over the outermost panels says about the part that is left out; infinite if it
    diverges."""
    lower = _side_error(values, edges, anchors)
    return lower + _side_error(values[::-1], edges[::-1], anchors)


def tail_sum(last: Array, before: Array) -> Array:
    """What follows terms that shrink geometrically from `before` to `last`; infinite where they do not
    shrink."""
    last, before = jnp.abs(last), jnp.abs(before)
    ratio = last / jnp.where(before > 0, before, 1.0)
    shrinking = (before > 0) & (ratio < 0.9999)
    remainder = last * ratio / (1 - jnp.where(shrinking, ratio, 0.0))
    return jnp.where(last == 0, 0.0, jnp.where(shrinking, remainder, jnp.inf))


_breakpoints = jax.jit(breakpoints)  # one compiled program per class, shared by all its partners


def _limits(support: Support, dtype: Any) -> list[Array]:
    return [jnp.asarray(end, dtype) for end in support_ends(support)]


@jax.jit
def _edges(quantiles: list[Array], limits: list[list[Array]]) -> tuple[Array, Array]:
    inner = jax.lax.stop_gradient(jnp.concatenate(quantiles))
    centre = jnp.nanmedian(jnp.where(jnp.isfinite(inner), inner, jnp.nan))
    inner = jnp.where(jnp.isfinite(inner), inner, centre)
    low, high = jnp.minimum(limits[0][0], limits[1][0]), jnp.maximum(limits[0][1], limits[1][1])
    beyond = [_probes(inner.min(), low, centre), _probes(inner.max(), high, centre)]
    finite = jnp.stack([jnp.where(jnp.isfinite(end), end, centre) for pair in limits for end in pair])
    return jnp.sort(jnp.concatenate([inner, *beyond, finite])), jnp.concatenate([centre[None], finite])


def _inside(x: Array, left: Array, ends: Array) -> Array:
    """The nodes, with those that rounding has put on the end of a support moved back by one rounding."""
    on_end = (x[..., None] == ends[None, None]).any(-1)
    fixed = jax.lax.stop_gradient(x)
    inwards = jnp.nextafter(fixed, jnp.where(fixed > jax.lax.stop_gradient(left), -jnp.inf, jnp.inf))
    return x + jnp.where(on_end, inwards - fixed, 0.0)


@jax.jit
def _totals(values: Array, weights: Array) -> tuple[Array, Array]:
    """The sums over the 20 nodes and over the 12 nodes of each panel."""
    terms = jnp.where(weights[..., None] > 0, values * weights[..., None], 0.0)
    return terms[:, :20].sum(1), terms[:, 20:].sum(1)


def _side_error(values: Array, edges: Array, anchors: Array) -> Array:
    # Panels without length: both supports end here, or rounding has put points on the end.
    empty = (edges == edges[0]).sum() - 1
    first, second, third = jax.lax.dynamic_slice(values, (empty,), (3,))
    touches = (edges[0] == anchors[1:]).any()
    # Where rounding leaves no points between the last quantile and the end, divergence cannot be judged.
    at_end = jnp.abs(first) + jnp.where(empty > 1, jnp.abs(second), tail_sum(second, third))
    return jnp.where(touches, at_end, tail_sum(first, second))


def _probes(outermost: Array, end: Array, centre: Array) -> Array:
    """Points from the outermost quantile on: to the end of the support, or out to infinity, by factors of
    four."""
    powers = jnp.asarray(4.0 ** np.arange(1, num_levels(outermost.dtype) + 1), outermost.dtype)
    safe = jnp.where(jnp.isfinite(end), end, centre)
    return jnp.where(
        jnp.isfinite(end), safe + (outermost - safe) / powers, centre + (outermost - centre) * powers
    )


def _zero_in_panel(x: Array, values: Array, otherwise: Array) -> Array:
    """Where `values` first change sign along each row, by linear interpolation between two nodes."""
    signs = jnp.where(
        jnp.isnan(values), 0.0, jnp.sign(values)
    )  # NaN: infinity less infinity, off both supports
    changes = signs[:, 1:] * signs[:, :-1] < 0
    at = jnp.argmax(changes, 1)[:, None]
    (left, right), (below, above) = (
        [jnp.take_along_axis(v, at + k, 1)[:, 0] for k in (0, 1)] for v in (x, values)
    )
    share = below / (below - above)
    share = jnp.where((share > 0) & (share < 1), share, 0.5)
    return jnp.where(changes.any(1), left + share * (right - left), otherwise)


def _gauss_legendre(order: int) -> tuple[np.ndarray, np.ndarray]:
    t, w = np.polynomial.legendre.leggauss(order)
    return (1 + t) / 2, w / 2
