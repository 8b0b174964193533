r"""Classical and landmark scaling: points from distances by one eigendecomposition.

Problem.     $\min_Y \|G - YY^\top\|_F^2$ over $Y \in \mathbb R^{n \times p}$ with $G = -\frac12 P D P$,
             $D$ the squared distances: the strain. Rows of weight $w_i$ count $w_i$ times.
Answer.      $Y = Q_p\Lambda_p^{1/2}$ of the $p$ largest eigenvalues (none below zero). Of Euclidean distances
             between rows it is their principal component scores, and found from the rows.
New rows.    $y = \Lambda_p^{-1} Y^\top b$ with $b_i = -\frac12(\delta_i^2 - \overline{D_i})$ for distances
             $\delta$ to the rows (Gower): exact where they are Euclidean. Landmarks: the same map from
             distances to $m$ rows far apart.
Other $D$.   Negative eigenvalues say that no points have these distances. A constant added to all distances
             (Cailliez) or squares (Lingoes), the least that will do, makes them Euclidean.
Cost.        $O(nd\min(n, d))$ from rows, $O(n^2)$ memory and Lanczos from distances, $O(nm)$ by landmarks.
References.  Torgerson (1952); Gower (1968); Cailliez (1983); de Silva and Tenenbaum (2004).
"""

import dataclasses
from typing import Any

import numpy as np
import scipy.linalg

from tractable.core.checks import check, check_count, check_option
from tractable.core.dissimilarity import METRICS, cross_distances, square_distances
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.rows import Rows, row_weights
from tractable.core.seeding import far_apart
from tractable.core.types import Key
from tractable.core.verdict import Verdict
from tractable.latent.manifold.eigen import largest_eigenpairs, signs_of
from tractable.latent.manifold.gram import double_centred, is_semidefinite

__all__ = ["ClassicalEmbedding", "classical_mds", "embed_squares", "landmark_mds"]

_ROUNDING = 1e-9


class ClassicalEmbedding(HostResult):
    r"""Points of a classical scaling; `transform` and `place` put new rows among them."""

    points: np.ndarray
    eigenvalues: np.ndarray = field(about="of the kept dimensions")
    strain: float = field(about="what is left of the squared inner products")
    goodness: float = field(about="the share of them that is kept")
    least_eigenvalue: float = field(about="negative where distances are not Euclidean")
    added: float = field(about="to every distance (or square), to make them Euclidean")
    means: np.ndarray = field(show=False)  # of the squared distances of each row
    pull: np.ndarray = field(show=False)  # a row's share in the place of a new one
    rows: np.ndarray | None = field(show=False, default=None)  # those that new ones are compared with
    axes: np.ndarray | None = field(show=False, default=None)  # of rows with Euclidean distances
    metric: str = field(static=True, show=False, default="precomputed")
    correction: str | None = field(static=True, show=False, default=None)

    @property
    def verdict(self) -> Verdict:
        """Whether points with these distances exist, and how much of them the dimensions hold."""
        kept, numbers = f"{self.goodness:.3g} of the squared inner products", {"goodness": self.goodness}
        numbers |= {"least_eigenvalue": self.least_eigenvalue, "added": self.added}
        if self.least_eigenvalue < -_ROUNDING * max(self.eigenvalues.max(initial=0.0), 0.0):
            said = f"No points have these distances (eigenvalue {self.least_eigenvalue:.3g}): "
            return Verdict(False, f"{said}the embedding keeps {kept}.", numbers)
        if self.added:
            where = "squares" if self.correction == "squared" else "distances"
            said = f"With {self.added:.4g} added to all {where} they are Euclidean; "
            return Verdict(True, f"{said}the embedding keeps {kept}.", numbers)
        return Verdict(True, f"The distances are Euclidean; the embedding keeps {kept}.", numbers)

    def transform(self, X: Any) -> np.ndarray:
        """The places of new rows."""
        fix = "Use `place` with the distances to the rows of the fit."
        check(self.rows is not None, "X", "rows, which a fit to distances has none of", "a table", fix)
        rows: Any = self.rows
        if self.axes is not None:
            return (Rows.of(X, num_columns=rows.shape[1]).X - rows[0]) @ self.axes
        return self.place(cross_distances(X, rows, self.metric))

    def place(self, distances: Any) -> np.ndarray:
        """The places of points with these distances to the rows (or landmarks) of the fit."""
        table = np.atleast_2d(np.asarray(distances, float))
        count = len(self.means)
        check(table.shape[1] == count, "distances", f"{count} to each point", f"shape {table.shape}")
        squares = _corrected(table, self.added, self.correction, table == 0)
        return (self.means - squares) @ self.pull / 2


def classical_mds(
    X: Any,
    dim: int = 2,
    *,
    metric: str = "euclidean",
    weights: Any = None,
    correction: str | None = None,
) -> ClassicalEmbedding:
    """Points in `dim` dimensions whose inner products are as close as can be to those of the data.

    `X` are rows, or with `metric="precomputed"` a table of distances. `correction` is "additive" (a constant
    added to distances) or "squared" (to their squares), for distances that are not Euclidean.

    >>> classical_mds([[0.0, 0.0], [3.0, 4.0]], 1).points.round(6).tolist()
    [[2.5], [-2.5]]
    """
    check_option("metric", metric, METRICS)
    check(
        correction in (None, "additive", "squared"), "correction", "'additive', 'squared' or None", correction
    )
    check(correction is None or weights is None, "weights", "left out with a `correction`", "weights")
    dim = check_count("dim", dim)
    if metric == "euclidean" and correction is None:
        return _from_rows(Rows.of(X, weights=weights), dim)
    rows = None if metric == "precomputed" else Rows.of(X, weights=weights)
    weighted = rows is not None and rows.is_weighted and bool((rows.weights != 1).any())
    check(correction is None or not weighted, "weights", "left out with a `correction`", "weights")
    distances = square_distances(X if rows is None else rows, metric)
    counts = row_weights(weights, len(distances)) if rows is None else rows.weights
    if rows is None:
        distances, counts = distances[np.ix_(counts > 0, counts > 0)], counts[counts > 0]
    added = _constant(distances, correction)
    squares = _corrected(distances, added, correction, np.eye(len(distances), dtype=bool))
    table = None if rows is None else rows.X
    return embed_squares(squares, dim, counts, rows=table, metric=metric, added=added, correction=correction)


@takes_key
def landmark_mds(
    X: Any, dim: int = 2, num_landmarks: int = 100, *, key: Key, metric: str = "euclidean"
) -> ClassicalEmbedding:
    """Classical scaling of rows far apart, among which all others are placed by their distances to them.

    >>> square = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.5, 0.5]]
    >>> landmark_mds(square, 2, 4, key=0).points.shape
    (5, 2)
    """
    rows = Rows.of(X)
    least = min(dim + 1, rows.num_rows)
    count = check_count("num_landmarks", num_landmarks, least, rows.num_rows)
    chosen = np.asarray(far_apart(key, rows.X, count, power=np.inf))
    squares = square_distances(rows.X[chosen], metric) ** 2
    found = embed_squares(squares, dim, np.ones(count), rows=rows.X[chosen], metric=metric)
    return dataclasses.replace(found, points=found.transform(rows))


def embed_squares(
    squares: np.ndarray, dim: int, weights: np.ndarray, *, rows: np.ndarray | None = None,
    metric: str = "precomputed", added: float = 0.0, correction: str | None = None,
) -> ClassicalEmbedding:  # fmt: skip
    """Classical scaling of a checked table of squared distances."""
    root = np.sqrt(weights)
    gram = double_centred(squares, weights / weights.sum()) * root[:, None] * root
    kept = min(dim, len(gram))
    values, vectors = largest_eigenpairs(gram, kept)
    values = np.where(values > _ROUNDING * np.abs(values).max(), values, 0.0)
    places = vectors * np.sqrt(values) / root[:, None]
    pull = np.divide(places * weights[:, None], values, out=np.zeros_like(places), where=values > 0)
    _, least = is_semidefinite(gram, float(values[0]))
    total = float((gram**2).sum())
    left = max(total - float((values**2).sum()), 0.0)
    places, pull, values = (_padded(part, dim) for part in (places, pull, values))
    means = squares @ (weights / weights.sum())
    goodness = 1 - left / total if total > 0 else 1.0
    return ClassicalEmbedding(
        places, values, left, goodness, least, added, means, pull, rows, None, metric, correction
    )


def _from_rows(rows: Rows, dim: int) -> ClassicalEmbedding:
    """The same from rows with Euclidean distances, by their singular vectors."""
    centre = rows.weights @ rows.X / rows.total
    spread = rows.X - centre
    left, sizes, axes = np.linalg.svd(np.sqrt(rows.weights)[:, None] * spread, full_matrices=False)
    values, axes = sizes**2, axes.T * signs_of(left)
    gone, total = float((values[dim:] ** 2).sum()), float((values**2).sum())
    axes, values = _padded(axes[:, :dim], dim), _padded(values[:dim], dim)
    places = spread @ axes
    pull = np.divide(places * rows.weights[:, None], values, out=np.zeros_like(places), where=values > 0)
    squares = (spread**2).sum(1)
    means = squares + rows.weights @ squares / rows.total
    goodness = 1 - gone / total if total > 0 else 1.0
    return ClassicalEmbedding(
        places, values, gone, goodness, 0.0, 0.0, means, pull, centre[None], axes, "euclidean"
    )


def _constant(distances: np.ndarray, correction: str | None) -> float:
    """The least constant that makes distances (or their squares) Euclidean."""
    if correction is None or len(distances) < 3:
        return 0.0
    gram = double_centred(distances**2)
    if correction == "squared":
        return max(-2 * float(scipy.linalg.eigvalsh(gram)[0]), 0.0)
    zero, size = np.zeros_like(gram), len(gram)
    blocks = np.block([[zero, 2 * gram], [-np.eye(size), -4 * double_centred(distances)]])
    return max(float(np.linalg.eigvals(blocks).real.max()), 0.0)


def _corrected(distances: np.ndarray, added: float, correction: str | None, own: Any) -> np.ndarray:
    """Squared distances with the constant, except those of a point to itself (`own`)."""
    if correction == "squared":
        return distances**2 + np.where(own, 0.0, added)
    return (distances + np.where(own, 0.0, added)) ** 2


def _padded(part: np.ndarray, dim: int) -> np.ndarray:
    """Columns of zeros where there are fewer dimensions than asked for."""
    missing = dim - part.shape[-1]
    return np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, missing)]) if missing > 0 else part
