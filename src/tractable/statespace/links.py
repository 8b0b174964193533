r"""The links of pages as one sparse matrix, whatever they came as, and one step of a surfer along them.

Links.       $A_{ij}$ is the weight of the links from page $i$ to page $j$; a surfer on $i$ follows one with
             probability $A_{ij}/\sum_jA_{ij}$.
Dangling.    A page without links sends its visitors somewhere: as the teleportation does ("teleport"), to
             all pages alike ("uniform"), to all but itself ("others"), nowhere ("absorb"), or by weights.
Cost.        $O(\text{links})$ per step.
References.  Langville and Meyer (2006), Google's PageRank and Beyond, chapters 4 and 5.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from tractable.core.checks import check, check_count, check_entries, check_option
from tractable.inference.chains.finite_analysis import communicating_classes

__all__ = ["DANGLING", "Surfer", "Web", "as_web"]

DANGLING = ("teleport", "uniform", "others", "absorb")


class Web(NamedTuple):
    """Links of `n` pages: row `i` of `across` are those that lead to page `i`, the sums of one step."""

    across: Any
    strengths: np.ndarray  # total weight of the links from each page
    names: tuple[Hashable, ...] | None

    @property
    def num_pages(self) -> int:
        return self.across.shape[0]

    @property
    def dangling(self) -> np.ndarray:
        """The pages without links."""
        return np.flatnonzero(self.strengths == 0)


class Surfer:
    """One step of the surfer's distribution, without teleportation, for columns of `x`."""

    def __init__(self, web: Web, dangling: Any, teleport_to: np.ndarray):
        self.web, self.dangling, self.pages = web, dangling, web.dangling
        strengths = np.where(web.strengths > 0, web.strengths, 1.0)
        self.inverse = 1 / strengths
        self.target = _dangling_target(dangling, web, teleport_to)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        inverse = self.inverse if x.ndim == 1 else self.inverse[:, None]
        y = self.web.across @ (x * inverse)
        if len(self.pages):
            stuck = x[self.pages]
            if self.target is None:  # absorb
                y[self.pages] += stuck
            else:
                alike = self.target.ndim == x.ndim
                y += (self.target if alike else self.target[:, None]) * stuck.sum(0)
                if isinstance(self.dangling, str) and self.dangling == "others":
                    y[self.pages] -= stuck / (self.web.num_pages - 1)
        return y

    @property
    def matrix(self) -> np.ndarray:
        """The whole matrix, rows summing to one: for few pages."""
        return self(np.eye(self.web.num_pages)).T

    @property
    def rounding(self) -> np.ndarray:
        """Terms of the sum behind each page, which bound its rounding error in units of the last place."""
        return np.diff(self.web.across.indptr) + 6.0

    def num_closed(self) -> int:
        """How many sets of pages are never left; one more page stands for all targets of the dangling."""
        size, links = self.web.num_pages, self.web.across.tocoo()
        sources, ends = [links.col[links.data > 0]], [links.row[links.data > 0]]
        if len(self.pages) and self.target is not None:
            targets = np.flatnonzero(np.asarray(self.target).reshape(size, -1).any(1))
            sources += [self.pages, np.full(len(targets), size)]
            ends += [np.full(len(self.pages), size), targets]
        rows, columns = np.concatenate(sources), np.concatenate(ends)
        count = size + (len(sources) > 1)
        graph = csr_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(count, count))
        return int(communicating_classes(graph).closed.sum())


def as_web(adjacency: Any, num_pages: int | None = None, names: Sequence[Hashable] | None = None) -> Web:
    """Links from a square matrix (dense or SciPy sparse), a NetworkX graph, or edges.

    Edges are a tuple of arrays (sources, targets[, weights]), an array of shape (m, 2), or pairs of names.
    """
    if hasattr(adjacency, "adjacency") and hasattr(adjacency, "nodes"):
        import networkx

        names = tuple(adjacency.nodes) if names is None else names
        check(len(adjacency) > 0, "adjacency", "a graph with pages", "none")
        matrix: Any = networkx.to_scipy_sparse_array(adjacency, dtype=float, format="csr")
    elif issparse(adjacency):
        matrix = adjacency
    else:
        matrix, names = _from_arrays(adjacency, num_pages, names)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.shape[0] > 0
    check(square, "adjacency", "a square matrix of links, or edges", f"shape {matrix.shape}")
    fix = "Weights of links are amounts of traffic."
    must = "zero or positive, and finite"
    across: Any = csr_array(matrix.T).astype(float, copy=False)  # links that come twice add up in each sum
    check_entries("adjacency", across.data, lambda v: (v >= 0) & np.isfinite(v), must, fix)
    if names is not None:
        check(len(names) == matrix.shape[0], "names", f"one for each of {matrix.shape[0]} pages", len(names))
    strengths = np.bincount(across.indices, across.data, across.shape[0])
    return Web(across, strengths, None if names is None else tuple(names))


def _from_arrays(adjacency: Any, num_pages: int | None, names: Any) -> tuple[Any, Any]:
    if isinstance(adjacency, tuple):
        check(len(adjacency) in (2, 3), "adjacency", "(sources, targets) or with weights", len(adjacency))
        return _from_edges(*adjacency, num_pages=num_pages), names
    values = np.asarray(adjacency)
    if (
        values.ndim == 2
        and values.shape[1] == 2
        and (values.shape[0] != 2 or values.dtype.kind not in "iufb")
    ):
        if values.dtype.kind in "iu":
            return _from_edges(*values.T, num_pages=num_pages), names
        found, codes = np.unique(values.ravel(), return_inverse=True)
        known = {name: k for k, name in enumerate(found.tolist() if names is None else names)}
        places = np.array([known.get(name, -1) for name in found.tolist()])
        check((places >= 0).all(), "adjacency", "edges between named pages", found[places < 0].tolist()[:3])
        return _from_edges(*places[codes].reshape(-1, 2).T, num_pages=len(known)), tuple(known)
    check(values.dtype.kind in "iufb", "adjacency", "numbers", f"entries of type {values.dtype}")
    return csr_array(values.astype(float)) if values.ndim == 2 else values, names


def _from_edges(sources: Any, targets: Any, weights: Any = None, num_pages: int | None = None) -> Any:
    rows, columns = np.asarray(sources), np.asarray(targets)
    for name, ends in (("sources", rows), ("targets", columns)):
        fine = ends.ndim == 1 and ends.dtype.kind in "iu" and len(ends) == len(rows) and len(ends) > 0
        check(fine, name, "whole numbers, one for each link", f"shape {ends.shape} of {ends.dtype}")
        check(bool(ends.min() >= 0), name, "zero or positive", int(ends.min()))
    largest = int(max(rows.max(), columns.max()))
    size = largest + 1 if num_pages is None else check_count("num_pages", num_pages)
    check(largest < size, "num_pages", f"at least {largest + 1}, as a link needs", size)
    values = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
    check(
        values.shape == rows.shape, "weights", f"one for each of {len(rows)} links", f"shape {values.shape}"
    )
    return _by_target(rows, columns, values, size).T


def _by_target(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, size: int) -> Any:
    """Links as rows of their targets: sorted by counting, in a pass, where SciPy would also sort each row."""
    count = len(rows)
    each = csr_array((values, columns, np.arange(count + 1)), shape=(count, size)).tocsc()
    sources = rows[each.indices].astype(each.indices.dtype, copy=False)
    return csr_array((each.data, sources, each.indptr), shape=(size, size))


def _dangling_target(dangling: Any, web: Web, teleport_to: np.ndarray) -> Any:
    if isinstance(dangling, str):
        check_option("dangling", dangling, DANGLING)
        if dangling in ("absorb", "teleport"):
            return None if dangling == "absorb" else teleport_to
        others = dangling == "others"
        check(not others or web.num_pages > 1, "dangling", "another option where there is one page", "others")
        share = 1 / (web.num_pages - others)
        return np.full((web.num_pages,) + (1,) * (teleport_to.ndim - 1), share)
    weights = np.asarray(dangling, float)
    check(weights.shape == (web.num_pages,), "dangling", "an option, or one weight per page", weights.shape)
    check_entries("dangling", weights, lambda v: (v >= 0) & np.isfinite(v), "zero or positive, and finite")
    check(bool(weights.sum() > 0), "dangling", "positive somewhere", "zeros")
    share = weights / weights.sum()
    return share if teleport_to.ndim == 1 else share[:, None]
