r"""Neighbour graphs of a manifold: joined or refused, geodesics, and the smooth functions on them.

Graph.       Each row with its $k$ nearest others. In two parts it says nothing of how they lie to each other:
             that is an error, which names the parts; left to itself, $k$ grows from 12 until there is one.
Isomap.      Distances along the manifold are lengths of shortest paths; classical scaling (of all rows, or of
             landmarks) embeds them. A new row's paths begin at its neighbours.
Eigenmaps.   $\min \sum_{ij} w_{ij}\|y_i - y_j\|^2$ subject to $\sum_i d_i y_i = 0$ and
             $\frac{1}{\sum d}\sum_i d_i y_i y_i^\top = I$ for degrees $d_i = \sum_j w_{ij}$: the eigenvectors
             $2, \dots, p + 1$ of $L y = \lambda D y$. New rows (Nystrom):
             $y = \sum_j w_j y_j / ((1 - \lambda)\sum_j w_j)$.
Cost.        $O(n \log n)$ per source of shortest paths; one sparse factor for eigenmaps.
References.  Tenenbaum, de Silva and Langford (2000); Belkin and Niyogi (2003).
"""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components, dijkstra

from tractable.core.checks import check, check_count, check_option
from tractable.core.dissimilarity import cross_distances
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.neighbours import Neighbours, nearest, neighbour_graph
from tractable.core.rows import Rows
from tractable.core.seeding import far_apart
from tractable.core.types import Key
from tractable.core.verdict import Verdict
from tractable.latent.manifold.classical import ClassicalEmbedding, embed_squares
from tractable.latent.manifold.eigen import smallest_eigenpairs

__all__ = ["Eigenmaps", "GeodesicEmbedding", "isomap", "joined_graph", "laplacian_eigenmaps"]


class GeodesicEmbedding(HostResult):
    """Classical scaling of distances along a manifold."""

    points: np.ndarray
    scaling: ClassicalEmbedding = field(show=False)
    residual_variance: float = field(about="1 - the squared correlation of paths and distances")
    num_neighbours: int = field(static=True)
    rows: np.ndarray = field(show=False)
    paths: np.ndarray = field(show=False)  # from each row to those that were scaled

    @property
    def verdict(self) -> Verdict:
        """How much of the distances along the graph the embedding tells."""
        told = 1 - self.residual_variance
        said = f"Distances in the embedding tell {told:.4g} of the variance of those along the graph."
        return Verdict(told >= 0.95, said, {"residual_variance": self.residual_variance})

    def transform(self, X: Any) -> np.ndarray:
        """The places of new rows, whose paths begin at their neighbours."""
        new = Rows.of(X, num_columns=self.rows.shape[1]).X
        found = nearest(self.rows, new, self.num_neighbours)
        lengths = np.full((len(new), self.paths.shape[1]), np.inf)
        for column in range(self.num_neighbours):
            step = found.distances[:, column, None] + self.paths[found.indices[:, column]]
            np.minimum(lengths, step, out=lengths)
        return self.scaling.place(lengths)


class Eigenmaps(HostResult):
    """Coordinates that change least along the edges of a neighbour graph."""

    points: np.ndarray
    eigenvalues: np.ndarray = field(about="of the kept coordinates, from 0 (smooth) to 2")
    next_eigenvalue: float = field(about="the first that is left out")
    bandwidth: float
    num_neighbours: int = field(static=True)
    kind: str = field(static=True)
    rows: np.ndarray = field(show=False)

    @property
    def verdict(self) -> Verdict:
        """Whether the coordinates are set apart from those left out."""
        return gap_verdict(self.eigenvalues, self.next_eigenvalue)

    def transform(self, X: Any) -> np.ndarray:
        """The places of new rows, as averages over their neighbours (Nystrom)."""
        new = Rows.of(X, num_columns=self.rows.shape[1]).X
        found = nearest(self.rows, new, self.num_neighbours)
        weights = _affinity(found.distances, self.kind, self.bandwidth)
        shares = weights / weights.sum(1, keepdims=True)
        places = np.einsum("ij,ijk->ik", shares, self.points[found.indices]) / (1 - self.eigenvalues)
        return at_rows(places, found, self.points)


@takes_key
def isomap(
    X: Any, dim: int = 2, num_neighbours: int | None = None, *, num_landmarks: int | None = None,
    key: Key | None = None,
) -> GeodesicEmbedding:  # fmt: skip
    """Points whose distances are those along the manifold; with `num_landmarks`, from paths to these alone.

    >>> circle = np.c_[np.cos(np.linspace(0, 3, 20)), np.sin(np.linspace(0, 3, 20))]
    >>> isomap(circle, 1, 2).residual_variance < 1e-3
    True
    """
    rows = Rows.of(X, least=2)
    graph, num_neighbours = joined_graph(rows, num_neighbours)
    sources = np.arange(rows.num_rows)
    if num_landmarks is not None:
        chosen: Any = key
        check(chosen is not None, "key", "given with `num_landmarks`", None)
        count = check_count("num_landmarks", num_landmarks, dim + 1, rows.num_rows)
        sources = np.asarray(far_apart(chosen, rows.X, count, power=np.inf))
    paths = dijkstra(graph, directed=True, indices=sources).T
    squares = paths[sources] ** 2
    scaling = embed_squares((squares + squares.T) / 2, check_count("dim", dim), np.ones(len(sources)))
    places = scaling.points if num_landmarks is None else scaling.place(paths)
    told = cross_distances(places, places[sources])
    varied = np.ptp(told) > 0 and np.ptp(paths) > 0
    residual = 1 - float(np.corrcoef(paths.ravel(), told.ravel())[0, 1]) ** 2 if varied else 0.0
    scaling = dataclasses.replace(scaling, points=places)
    return GeodesicEmbedding(places, scaling, max(residual, 0.0), num_neighbours, rows.X, paths)


def laplacian_eigenmaps(
    X: Any,
    dim: int = 2,
    num_neighbours: int | None = None,
    *,
    kind: str = "heat",
    bandwidth: float | None = None,
) -> Eigenmaps:
    r"""Coordinates from the smoothest functions on the graph of neighbours.

    Edges weigh $e^{-d^2/t}$ (`kind="heat"`, $t$ the `bandwidth`, by default the mean of $d^2$) or one
    (`"binary"`).

    >>> line = laplacian_eigenmaps(np.arange(9.0), 1, 2).points[:, 0]
    >>> bool((np.diff(line) > 0).all() or (np.diff(line) < 0).all())
    True
    """
    check_option("kind", kind, ("heat", "binary"))
    rows = Rows.of(X, least=3)
    dim = check_count("dim", dim, 1, rows.num_rows - 2)
    graph, num_neighbours = joined_graph(rows, num_neighbours)
    scale = float((graph.data**2).mean()) if bandwidth is None else float(bandwidth)
    check(bandwidth is None or scale > 0, "bandwidth", "positive", bandwidth)
    scale = scale if scale > 0 else 1.0
    weights = scipy.sparse.csr_array(
        (_affinity(graph.data, kind, scale), graph.indices, graph.indptr), shape=graph.shape
    )
    degrees = np.asarray(weights.sum(1)).ravel()
    fix = "Raise `bandwidth` or `num_neighbours`."
    check(bool((degrees > 0).all()), "bandwidth", "such that every row has an edge of weight", scale, fix)
    root = scipy.sparse.diags_array(1 / np.sqrt(degrees))
    normalised = scipy.sparse.eye_array(len(degrees)) - root @ weights @ root
    values, vectors = smallest_eigenpairs(normalised, dim + 1, np.sqrt(degrees))
    places = vectors[:, :dim] * np.sqrt(degrees.sum() / degrees)[:, None]
    return Eigenmaps(places, values[:dim], float(values[dim]), scale, num_neighbours, kind, rows.X)


def joined_graph(rows: Rows, num_neighbours: int | None, kind: str = "union") -> tuple[Any, int]:
    """The graph of distances to neighbours, in one piece, and their number; None is the first of 12, 18, 27,
    ... that joins all rows."""
    most = rows.num_rows - 1
    k = min(12, most) if num_neighbours is None else check_count("num_neighbours", num_neighbours, 1, most)
    graph = neighbour_graph(rows.X, k, kind=kind)
    parts, labels = connected_components(graph, directed=False)
    while parts > 1 and num_neighbours is None:
        k = min(k + k // 2, most)
        graph = neighbour_graph(rows.X, k, kind=kind)
        parts, labels = connected_components(graph, directed=False)
    if parts > 1:
        sizes = np.sort(np.bincount(labels))[::-1]
        first = np.flatnonzero(labels != labels[0])[0]
        got = f"{k}, which leaves {parts} parts of {', '.join(map(str, sizes[:5].tolist()))} rows"
        fix = f"Raise it, or embed the parts one by one (rows 0 and {first} are in different ones)."
        check(False, "num_neighbours", "large enough to join all rows", got, fix)
    return graph, k


def at_rows(places: np.ndarray, found: Neighbours, known: np.ndarray) -> np.ndarray:
    """Places of new rows; a copy of a row of the fit has that of the row."""
    return np.where(found.distances[:, :1] == 0, known[found.indices[:, 0]], places)


def gap_verdict(kept: np.ndarray, following: float) -> Verdict:
    """Whether eigenvectors are determined: the next eigenvalue is another one."""
    last = float(kept[-1])
    apart = following - last
    numbers = {"last_eigenvalue": last, "next_eigenvalue": following}
    if apart > 1e-6 * max(abs(following), np.finfo(float).tiny):
        said = f"The next eigenvalue, {following:.3g}, is above the last that is kept, {last:.3g}."
        return Verdict(True, said, numbers)
    said = f"Not determined: the next eigenvalue equals the last that is kept, {last:.3g}. "
    return Verdict(False, said + "Take another `dim`, or other neighbours.", numbers)


def _affinity(distances: np.ndarray, kind: str, bandwidth: float) -> np.ndarray:
    return np.exp(-(distances**2) / bandwidth) if kind == "heat" else np.ones_like(distances)
