r"""Sums over whole numbers with bounded work, however many there are: entropies and moments of counts.

Sums.        $-\sum_k P(k)\log P(k)$; $\sum_k f(k)$ for $f$ smooth between the whole numbers.
Lattice.     A function that varies slowly over $h$ numbers is summed over every $h$-th: $\sum_k f(k) =
             h\sum_j f(hj)$ up to the trapezoidal rule's error, $e^{-2\pi^2 s^2/h^2}$ for a bell of standard
             deviation $s$; with $h \le s/8$ it is nothing.
Panels.      Else the range is cut into panels that grow fourfold from both ends, where a mass may have a
             spike, and are one deviation long around the mean. A sum over $m$ numbers is Gauss quadrature for
             the uniform measure on them, from the Jacobi matrix of Gram's polynomials, $b_k^2 =
             \frac{k^2(m^2 - k^2)}{4(4k^2 - 1)}$: with 16 nodes it is the sum itself for $m \le 16$, and right
             to rounding where $f$ is a polynomial of degree 31 on the panel, to that precision.
Cost.        513 terms for a window, some 2,000 for panels. Both can be differentiated in both modes.
References.  Gautschi (2004), "Orthogonal polynomials", section 1.5.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.types import Array

__all__ = ["entropy_of_counts", "entropy_of_window", "sum_over_counts"]

_HALF_WIDTH = 256
_NODES = 16
_SHRINKING = 0.25 ** np.arange(50.0)  # from 1 to 1e-30 of the range
_AROUND = np.arange(-16.0, 17.0)


def entropy_of_window(log_prob: Callable[[Array], Array], mean: Array, variance: Array, high: Array) -> Array:
    """The entropy of a bell-shaped law on 0, ..., `high` from 513 numbers within 16 deviations."""
    step = jax.lax.stop_gradient(jnp.maximum(1.0, jnp.ceil(jnp.sqrt(variance) / 16)))
    offsets = jnp.arange(-_HALF_WIDTH, _HALF_WIDTH + 1.0).reshape((-1,) + (1,) * mean.ndim)
    k = jax.lax.stop_gradient(jnp.round(mean)[None] + step[None] * offsets)
    inside = (k >= 0) & (k <= high[None])
    log_p = jnp.where(inside, log_prob(jnp.where(inside, k, 0.0)), -jnp.inf)
    return step * _surprise(log_p).sum(0)


def entropy_of_counts(
    log_prob: Callable[[Array], Array], mean: Array, deviation: Array, last: Array
) -> Array:
    """The entropy of a law on 0, ..., `last` whose log-mass is smooth between the whole numbers."""
    return sum_over_counts(lambda k: _surprise(log_prob(k)), jnp.zeros_like(mean), last, mean, deviation)


def sum_over_counts(
    term: Callable[[Array], Array], first: Array, last: Array, mean: Array, deviation: Array
) -> Array:
    r"""$\sum_{k = l}^{h} f(k)$ with $l$ = `first` and $h$ = `last`, elementwise; `term` gets a first axis.

    `term` is smooth between the whole numbers except near both ends, and has its bell, if any, at `mean`.
    """
    first, last, mean, deviation = jax.lax.stop_gradient((first, last, mean, deviation))
    span = last + 1 - first

    def along(values):
        return jnp.asarray(values, span.dtype).reshape((-1,) + (1,) * span.ndim)

    cuts = [
        first[None] + span[None] * along(_SHRINKING),
        last[None] + 1 - span[None] * along(_SHRINKING),
        mean[None] + deviation[None] * along(_AROUND),
    ]
    edges = jnp.clip(jnp.ceil(jnp.concatenate(cuts)), first[None], last[None] + 1)
    edges = jnp.sort(jnp.concatenate([first[None], edges]), axis=0)
    start, length = edges[:-1], jnp.diff(edges, axis=0)
    places, weights = _gram_rule(length)
    places = places + start[..., None]
    places = jnp.where(length[..., None] <= _NODES, jnp.round(places), places)  # there each is a whole number
    used = weights > 0
    nodes = jnp.moveaxis(jnp.where(used, places, start[..., None]), -1, 0).reshape((-1, *span.shape))
    weights = jnp.moveaxis(jnp.where(used, weights, 0.0), -1, 0).reshape((-1, *span.shape))
    nodes = jnp.clip(nodes, first[None], last[None])  # the start of an empty panel may lie past the end
    return jnp.where(weights > 0, weights * term(nodes), 0.0).sum(0)


def _gram_rule(length: Array) -> tuple[Array, Array]:
    """Nodes and weights, along a last axis, that sum polynomials of degree 31 over 0, ..., `length` - 1."""
    m = jnp.maximum(length, 1.0)[..., None]
    k = jnp.arange(1.0, _NODES, dtype=length.dtype).reshape((1,) * length.ndim + (-1,))
    beside = 0.5 * k * jnp.sqrt(jnp.maximum(1 - (k / m) ** 2, 0.0) / (4 * k**2 - 1))
    matrix = jnp.vectorize(lambda b: jnp.diag(b, 1) + jnp.diag(b, -1), signature="(k)->(n,n)")(beside)
    values, vectors = jnp.linalg.eigh(matrix, symmetrize_input=False)
    return (m - 1) / 2 + m * values, length[..., None] * vectors[..., 0, :] ** 2


def _surprise(log_p: Array) -> Array:
    """-P log P, zero where P is."""
    possible = log_p > -jnp.inf
    return -jnp.exp(log_p) * jnp.where(possible, log_p, 0.0)
