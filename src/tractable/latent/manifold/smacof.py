r"""Metric and ordinal scaling: least stress by majorisation (SMACOF).

Problem.     $\min_Y \sum_{i<j} w_{ij}(\delta_{ij} - d_{ij}(Y))^2$. Ordinal scaling replaces $\delta$ by
             disparities $\hat d$, any numbers in the order of $\delta$ (ties may be broken) of fixed size.
Step.        Guttman's $\Gamma(Y) = V^+ B(Y) Y$, $b_{ij} = -w_{ij}\delta_{ij}/d_{ij}$, $V$ the Laplacian of
             the weights, minimises a quadratic $q \ge$ stress that touches it at $Y$. By symmetry $q$ at
             $2\Gamma(Y) - Y$ is what it is at $Y$: the double step never raises the stress either, and halves
             the number of steps. First $Y$ is scaled by $c = \sum w\delta d/\sum w d^2$, which $\Gamma$ does
             not see.
Disparities. Isotonic regression of $d$ in the order of $\delta$, scaled to the size of $\delta$: the least
             angle to $d$ in the cone, so the normalised stress cannot rise.
Cost.        $O(n^2 p)$ per step in blocks that stay in the cache; each pair is looked at once.
References.  de Leeuw (1977); de Leeuw and Heiser (1980); Kruskal (1964).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_count, check_nonnegative
from tractable.core.dissimilarity import square_distances
from tractable.core.host_random import generator
from tractable.core.iterate import Ended, Status
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.progress import progress_bar
from tractable.core.rows import row_weights
from tractable.core.types import Key
from tractable.latent.manifold.classical import embed_squares

__all__ = ["StressEmbedding", "metric_mds"]

_BLOCK = 256  # pairs of so many rows stay in the cache
_LEAST = 1e-15  # of the squared distances: below it nothing is left to gain


class StressEmbedding(Ended, HostResult):
    """Points of least stress, the stress after each step, and what is needed for a Shepard diagram."""

    points: np.ndarray
    stress: float = field(about="sum of squared errors of the distances")
    kruskal: float = field(about="its root, relative to the size of the distances")
    num_steps: int
    trace: np.ndarray = field(show=False)
    given: np.ndarray = field(show=False)  # condensed, as are the disparities
    disparities: np.ndarray = field(show=False)
    code: int


class _Pass(NamedTuple):
    """One look at all pairs: sums of w delta d and of w d^2, and the product B(Y) Y."""

    cross: float
    squares: float
    product: np.ndarray


@takes_key
def metric_mds(
    X: Any,
    dim: int = 2,
    *,
    metric: str = "euclidean",
    ordinal: bool = False,
    weights: Any = None,
    pair_weights: Any = None,
    start: Any = None,
    num_restarts: int = 0,
    key: Key | None = None,
    max_steps: int = 1000,
    tol: float = 1e-6,
    progress: bool = True,
) -> StressEmbedding:
    """Points in `dim` dimensions whose distances are as close as can be to those of the data.

    It begins at `start` (points), by default at classical scaling, and again at `num_restarts` random ones;
    the best is kept. `weights` count rows, `pair_weights` is a table of weights of pairs, zero where a
    distance is not known. It ends when a step lowers the stress by less than `tol` of itself.

    >>> metric_mds([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], 2).kruskal < 1e-6
    True
    """
    dim, max_steps = check_count("dim", dim), check_count("max_steps", max_steps)
    check(tol >= 0, "tol", "zero or positive", tol)
    given = square_distances(X, metric)
    check(len(given) >= 2, "X", "at least two rows", len(given))
    counts = row_weights(weights, len(given))
    pairs = _pairs(pair_weights, counts, weights is not None)
    if not counts.all():  # rows of weight zero are absent
        there = np.ix_(counts > 0, counts > 0)
        given, pairs, counts = given[there], None if pairs is None else pairs[there], counts[counts > 0]
    begin = _classical(given, counts, dim) if start is None else _checked(start, len(given), dim)
    fits = [_descend(given, counts, pairs, begin, ordinal, max_steps, tol, progress)]
    if check_count("num_restarts", num_restarts, 0):
        chosen: Any = key
        check(chosen is not None, "key", "given for random restarts", None)
        scale = np.sqrt((given**2).mean() / (2 * dim))
        for restart in range(num_restarts):
            begin = generator(chosen, restart).normal(size=(len(given), dim)) * scale
            fits.append(_descend(given, counts, pairs, begin, ordinal, max_steps, tol, progress))
    return min(fits, key=lambda fit: fit.kruskal)


def _descend(
    given: np.ndarray, counts: np.ndarray, pairs: np.ndarray | None, places: np.ndarray, ordinal: bool,
    max_steps: int, tol: float, progress: bool,
) -> StressEmbedding:  # fmt: skip
    divide, wanted = _inverse(pairs, counts), given
    flat = squareform(given, checks=False)
    each = None if pairs is None else squareform(pairs, checks=False)
    size = float((flat**2 if each is None else each * flat**2).sum())
    trace, status, scale = [], Status.exhausted, 1.0
    with one_blas_thread(), progress_bar(max_steps, "Scaling", progress=progress) as bar:
        for _ in range(max_steps if size > 0 else 0):
            if ordinal:
                wanted = squareform(_disparities(flat, pdist(places), each, size), checks=False)
            found = _look(places, wanted, pairs)
            if found.squares == 0:
                break
            scale = found.cross / found.squares
            trace.append(max(size - scale * found.cross, 0.0))
            bar.advance(stress=trace[-1])
            gain = trace[-2] - trace[-1] if len(trace) > 1 else np.inf
            if gain <= tol * trace[-1] or trace[-1] <= _LEAST * size:
                status = Status.converged
                break
            places = 2 * divide(found.product) - scale * places
            scale = 1.0
    places = scale * places if size > 0 else np.zeros_like(places)
    places = places - counts @ places / counts.sum()
    status = status if size > 0 else Status.converged
    return _result(places, flat, squareform(wanted, checks=False), each, trace, status)


def _result(places, flat, wanted, each, trace, status) -> StressEmbedding:
    found = pdist(places)
    each = np.ones_like(found) if each is None else each
    error, total = float((each * (wanted - found) ** 2).sum()), float((each * found**2).sum())
    kruskal = float(np.sqrt(error / total)) if total > 0 else float(error > 0)
    return StressEmbedding(places, error, kruskal, len(trace), np.asarray(trace), flat, wanted, int(status))


def _look(places: np.ndarray, wanted: np.ndarray, pairs: np.ndarray | None) -> _Pass:
    cross = squares = 0.0
    product = np.zeros_like(places)
    for low in range(0, len(places), _BLOCK):
        rows = slice(low, low + _BLOCK)
        for left in range(low, len(places), _BLOCK):
            columns = slice(left, left + _BLOCK)
            apart = _between(places[rows], places[columns])
            target = wanted[rows, columns]
            if pairs is not None:
                target = target * pairs[rows, columns]
            share = 0.5 if low == left else 1.0  # pairs inside a block are seen twice
            cross += share * float(np.vdot(target, apart))
            weighed = apart if pairs is None else apart * pairs[rows, columns]
            squares += share * float(np.vdot(weighed, apart))
            np.copyto(apart, np.inf, where=apart == 0)
            np.divide(target, apart, out=apart)
            product[rows] += apart.sum(1)[:, None] * places[rows] - apart @ places[columns]
            if low != left:
                product[columns] += apart.sum(0)[:, None] * places[columns] - apart.T @ places[rows]
    return _Pass(cross, squares, product)


def _between(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Distances from differences, column by column."""
    total = np.subtract.outer(one[:, 0], other[:, 0])
    np.square(total, out=total)
    for column in range(1, one.shape[1]):
        gap = np.subtract.outer(one[:, column], other[:, column])
        total += np.square(gap, out=gap)
    return np.sqrt(total, out=total)


def _disparities(given: np.ndarray, found: np.ndarray, each: np.ndarray | None, size: float) -> np.ndarray:
    """The numbers in the order of `given` nearest in angle to `found`; ties in the order of `found`."""
    from scipy.optimize import isotonic_regression

    order = np.lexsort((found, given))
    used = order if each is None else order[each[order] > 0]
    best = isotonic_regression(found[used], weights=None if each is None else each[used]).x
    total = float((best**2 if each is None else each[used] * best**2).sum())
    answer = found.copy()
    answer[used] = best * np.sqrt(size / total) if total > 0 else 0.0
    return answer


def _pairs(pair_weights: Any, counts: np.ndarray, weighted: bool) -> np.ndarray | None:
    """The weights of all pairs, None where they are one."""
    if pair_weights is None:
        return np.outer(counts, counts) if weighted else None
    table = np.array(pair_weights, float)
    shape = (len(counts), len(counts))
    check(table.shape == shape, "pair_weights", f"of shape {shape}", f"shape {table.shape}")
    check_nonnegative("pair_weights", table)
    check(bool((table == table.T).all()), "pair_weights", "symmetric", "a table that is not")
    np.fill_diagonal(table, 0.0)
    table = table * np.outer(counts, counts)
    parts = connected_components((table > 0)[np.ix_(counts > 0, counts > 0)], directed=False)[0]
    fix = "Rows that no known distance joins can be anywhere."
    check(parts == 1, "pair_weights", "such that known pairs join all rows", f"{parts} separate parts", fix)
    return table


def _inverse(pairs: np.ndarray | None, counts: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The product with the pseudo-inverse of the Laplacian of the weights."""
    if pairs is None:
        return lambda product: product / len(counts)
    ones = np.ones_like(pairs) / len(pairs)
    weights = pairs - np.diag(np.diag(pairs))
    laplacian = np.diag(weights.sum(1)) - weights
    factor = scipy.linalg.cho_factor(laplacian + laplacian.diagonal().mean() * ones)
    return lambda product: scipy.linalg.cho_solve(factor, product)


def _classical(given: np.ndarray, counts: np.ndarray, dim: int) -> np.ndarray:
    """The start: classical scaling, a little moved where rows that differ would lie on one point."""
    places = embed_squares(given**2, dim, counts).points
    lost = (pdist(places) == 0) & (squareform(given, checks=False) > 0)
    if lost.any():
        places = places + 1e-3 * given.max() * generator(0).normal(size=places.shape)
    return places


def _checked(start: Any, count: int, dim: int) -> np.ndarray:
    places = np.array(start, float)
    check(places.shape == (count, dim), "start", f"of shape ({count}, {dim})", f"shape {places.shape}")
    check(bool(np.isfinite(places).all()), "start", "finite", "NaN or infinity")
    return places
