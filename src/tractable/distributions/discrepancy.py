r"""Distances without normalised densities: kernel discrepancy, energy distance, Fisher divergence.

Kernel.      $\mathrm{MMD}^2 = E k(x, x') + E k(y, y') - 2 E k(x, y)$ with independent copies $x'$, $y'$: the
             distance between the means of two distributions in the kernel's space. Unbiased without the
             diagonal terms, biased (and at least 0) with them.
Energy.      $D^2 = 2 E\|x - y\| - E\|x - x'\| - E\|y - y'\|$, the same with $k = -\|\cdot\|$; on the line
             $D^2 = 2 \int (F - G)^2$.
Fisher.      $E_p \|\nabla \log p - \nabla \log q\|^2$, in which normalising constants do not appear.
Test.        Permuting which points are x and which are y gives the distribution of the statistic if the two
             are alike.
Cost.        $O((n + m)^2)$ kernel values, in blocks of rows (no matrix is kept); $O(n \log n)$ for energy on
             the line; a test keeps the matrix of all pairs.
References.  Gretton et al. (2012); Szekely and Rizzo (2013); Hyvarinen (2005).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, is_concrete
from tractable.core.estimate import Estimate
from tractable.core.geometry import condensed, euclidean, euclidean_distances, pairwise, squared_euclidean
from tractable.core.module import Module
from tractable.core.numerics import safe_where
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.distributions.base import Distribution
from tractable.distributions.integrals import monte_carlo
from tractable.distributions.panels import expectation_rule

__all__ = [
    "PermutationTest", "energy_distance", "energy_test", "fisher_divergence", "gaussian_kernel",
    "kernel_test", "median_bandwidth", "squared_mmd",
]  # fmt: skip

KernelFunction = Callable[[Array, Array], Array]
LogDensity = Callable[[Array], Array]


class PermutationTest(Module):
    """A statistic of two samples, and the share of relabelled samples whose statistic is at least as
    large."""

    statistic: Scalar
    p_value: Scalar
    permuted: Float[Array, " permutations"]


def squared_mmd(
    x: ArrayLike,
    y: ArrayLike,
    kernel: KernelFunction | None = None,
    *,
    unbiased: bool = True,
    block: int = 512,
) -> Scalar:
    r"""$\mathrm{MMD}^2$ between the rows of two samples; the unbiased estimate may fall below 0 when the two
    are alike.

    `kernel(x, y)` takes two points and returns a number; without one, a Gaussian kernel of
    `median_bandwidth`. Kernel values are made `block` rows at a time and never kept: 10,000 points need no
    matrix of 10,000 by 10,000.

    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(squared_mmd(x, x, unbiased=False))
    0.0
    """
    x, y = _two_samples(x, y, 2 if unbiased else 1)
    return _squared_mmd(x, y, _kernel_for(kernel, x, y), unbiased, check_count("block", block))


def kernel_test(
    x: ArrayLike, y: ArrayLike, kernel: KernelFunction | None = None, *, key: Key, num_permutations: int = 500
) -> PermutationTest:
    """Whether two samples come from one distribution: unbiased `squared_mmd` against relabelled samples."""
    x, y = _two_samples(x, y, 2)
    count = check_count("num_permutations", num_permutations)
    return _permutation_test(x, y, _kernel_for(kernel, x, y), key, count)


def energy_distance(x: ArrayLike, y: ArrayLike, *, squared: bool = False) -> Scalar:
    r"""$D = \sqrt{2 E\|x - y\| - E\|x - x'\| - E\|y - y'\|}$ between two samples of numbers or of rows: 0
    only for equal samples.

    Numbers are sorted, $D^2 = 2 \int (F - G)^2$; rows are compared in pairs.

    >>> float(energy_distance(jnp.array([0.0]), jnp.array([2.0]), squared=True))
    4.0
    """
    if jnp.ndim(x) == 1 and jnp.ndim(y) == 1:
        total = _energy_on_line(*(sample[:, 0] for sample in _two_samples(x, y, 1)))
    else:
        total = _squared_mmd(*_two_samples(x, y, 1), _negative_distance, False, 512)
    return total if squared else safe_where(total > 0, jnp.sqrt, total, 0.0)


def energy_test(x: ArrayLike, y: ArrayLike, *, key: Key, num_permutations: int = 500) -> PermutationTest:
    """Whether two samples come from one distribution: the energy statistic against relabelled samples."""
    x, y = _two_samples(x, y, 2)
    return _permutation_test(x, y, _negative_distance, key, check_count("num_permutations", num_permutations))


def fisher_divergence(
    p: Distribution | LogDensity,
    q: Distribution | LogDensity,
    points: ArrayLike | None = None,
    *,
    key: Key | None = None,
    num_samples: int = 10_000,
) -> Estimate:
    r"""$E_p \|\nabla\log p(x) - \nabla\log q(x)\|^2$; either may be a function of one point, normalised or
    not.

    The expectation is over `points` drawn from `p` (the first axis counts them), over new draws with `key`,
    or, for a density of one number, by quadrature.
    """
    at_p, at_q = _log_density("p", p), _log_density("q", q)
    if points is None and key is None and isinstance(p, Distribution) and p.shape == ():
        check(not p.discrete, "p", "a density", type(p).__name__)
        value, coarse = (_fisher_quadrature(p, at_p, at_q, order) for order in (20, 12))
        return Estimate(value, jnp.abs(value - coarse), method="quadrature")
    if points is None:
        drawable = isinstance(p, Distribution) and key is not None
        check(drawable, "points", "given, or a `key` with which to draw them from a distribution `p`", points)
        points = p.sample(key, (check_count("num_samples", num_samples, 2),))  # pyright: ignore
    rows = as_float("points", points)
    check(rows.ndim >= 1 and rows.shape[0] >= 2, "points", "at least two points", f"shape {rows.shape}")
    return monte_carlo(jax.vmap(partial(_squared_score_gap, at_p, at_q))(rows))


def gaussian_kernel(bandwidth: ArrayLike) -> KernelFunction:
    r"""$k(x, y) = \exp\{-\|x - y\|^2 / 2h^2\}$ with $h$ = `bandwidth`."""
    h = as_float("bandwidth", bandwidth)
    if is_concrete(h):
        check(h.ndim == 0 and bool(h > 0), "bandwidth", "a positive number", np.asarray(h))
    return jax.tree_util.Partial(_gaussian, h)


def median_bandwidth(x: ArrayLike, y: ArrayLike, *, most: int = 1000) -> Scalar:
    """The median distance between two different points of the pooled samples (evenly spaced rows if more than
    `most`)."""
    pooled = jnp.concatenate(_two_samples(x, y, 1))
    rows = pooled[np.linspace(0, pooled.shape[0] - 1, min(most, pooled.shape[0])).round().astype(int)]
    width = jnp.median(condensed(euclidean_distances(rows)))
    if is_concrete(width):
        fix = "Most points coincide; give a `kernel`, such as `gaussian_kernel(1.0)`."
        check(bool(width > 0), "x", "points of which most differ", "a median distance of 0", fix)
    return width


def _two_samples(x: ArrayLike, y: ArrayLike, least: int) -> tuple[Array, Array]:
    """Both samples as rows; numbers are rows of one column."""
    samples: list[Array] = []
    for name, sample in (("x", x), ("y", y)):
        rows = as_float(name, sample)
        rows = rows[:, None] if rows.ndim == 1 else rows
        ok = rows.ndim == 2 and rows.shape[0] >= least and rows.shape[1] > 0
        check(ok, name, f"at least {least} points in rows", f"shape {rows.shape}")
        check_finite(name, rows)
        samples.append(rows)
    first, second = samples
    columns = first.shape[1]
    must = f"points of {columns} columns, like `x`"
    check(second.shape[1] == columns, "y", must, f"{second.shape[1]} columns")
    return first, second


def _kernel_for(kernel: KernelFunction | None, x: Array, y: Array) -> KernelFunction:
    return gaussian_kernel(median_bandwidth(x, y)) if kernel is None else kernel


def _gaussian(bandwidth: Array, x: Array, y: Array) -> Array:
    return jnp.exp(-0.5 * squared_euclidean(x / bandwidth, y / bandwidth))


def _negative_distance(x: Array, y: Array) -> Array:
    return -euclidean(x, y)


def _sum_of_pairs(kernel: KernelFunction, x: Array, y: Array, block: int) -> Scalar:
    """The sum of the kernel over all pairs, a block of rows at a time."""
    spare = -x.shape[0] % block
    rows = jnp.pad(x, ((0, spare), (0, 0)), mode="edge").reshape(-1, block, x.shape[1])
    used = (jnp.arange(x.shape[0] + spare) < x.shape[0]).reshape(-1, block)
    sums = jax.lax.map(
        lambda each: jnp.where(each[1], pairwise(kernel, each[0], y).sum(1), 0.0).sum(), (rows, used)
    )
    return sums.sum()


@program
def _squared_mmd(x: Array, y: Array, kernel: KernelFunction, unbiased: bool, block: int) -> Scalar:
    n, m = x.shape[0], y.shape[0]
    own_x, own_y = (_sum_of_pairs(kernel, s, s, min(block, s.shape[0])) for s in (x, y))
    cross = _sum_of_pairs(kernel, x, y, min(block, n))
    if not unbiased:
        return own_x / n**2 + own_y / m**2 - 2 * cross / (n * m)
    same_x, same_y = (jax.vmap(lambda a: kernel(a, a))(s).sum() for s in (x, y))
    return (own_x - same_x) / (n * (n - 1)) + (own_y - same_y) / (m * (m - 1)) - 2 * cross / (n * m)


@program
def _permutation_test(x: Array, y: Array, kernel: KernelFunction, key: Key, count: int) -> PermutationTest:
    n, m = x.shape[0], y.shape[0]
    pooled = jnp.concatenate([x, y])
    gram = pairwise(kernel, pooled, pooled)
    gram = gram - jnp.diag(jnp.diag(gram))
    first = (jnp.arange(n + m) < n).astype(gram.dtype)
    shuffled = jax.random.permutation(key, jnp.broadcast_to(first, (count, n + m)), axis=1, independent=True)
    labels = jnp.concatenate([first[None], shuffled])

    def statistic(in_x, row_sums):
        own_x, cross = in_x @ row_sums, (1 - in_x) @ row_sums
        own_y = gram.sum() - own_x - 2 * cross
        return own_x / (n * (n - 1)) + own_y / (m * (m - 1)) - 2 * cross / (n * m)

    values = jax.vmap(statistic)(labels, labels @ gram)
    observed, permuted = values[0], values[1:]
    # Equal up to rounding counts as equal: relabelling may change only the order of a sum.
    reached = permuted >= observed - 1e-12 * jnp.abs(gram).max()
    return PermutationTest(observed, (1 + reached.sum()) / (1 + count), permuted)


@jax.jit
def _energy_on_line(x: Array, y: Array) -> Scalar:
    points = jnp.sort(jnp.concatenate([x, y]))

    def cdf(sample):
        return (
            jnp.searchsorted(jnp.sort(sample), points[:-1], side="right").astype(points.dtype) / sample.size
        )

    return 2 * ((cdf(x) - cdf(y)) ** 2 * jnp.diff(points)).sum()


def _log_density(name: str, value: Any) -> Any:
    ok = isinstance(value, Distribution) or callable(value)
    check(ok, name, "a distribution or a function of one point", type(value).__name__, error=TypeError)
    return value.log_prob if isinstance(value, Distribution) else value


def _squared_score_gap(at_p: LogDensity, at_q: LogDensity, x: Array) -> Scalar:
    return ((jax.grad(at_p)(x) - jax.grad(at_q)(x)) ** 2).sum()


def _fisher_quadrature(p: Distribution, at_p: LogDensity, at_q: LogDensity, order: int) -> Scalar:
    x, weights = expectation_rule(p, order)
    gaps = jax.vmap(partial(_squared_score_gap, at_p, at_q))(x)
    return (jnp.where(weights > 0, gaps, 0.0) * weights).sum()
