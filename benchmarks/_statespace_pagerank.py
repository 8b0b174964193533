"""PageRank beside NetworkX and scikit-network; `benchmarks.statespace` finds these workloads by the name.

The objective is the proven bound of the error in the 1-norm, computed alike for all: what is left of the
equation, divided by the probability of teleportation. All are asked for 1e-10.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from benchmarks._children import Workload

TELEPORT = 0.15


def web(num_pages: int, num_links: int) -> Any:
    """Few pages that many link to, and one in twenty without links of its own."""
    numbers = np.random.default_rng(0)
    sources = numbers.integers(0, num_pages, num_links, dtype=np.int32)
    sources[sources % 20 == 0] += 1
    places = numbers.permutation(num_pages).astype(np.int32)
    targets = places[(num_pages * numbers.random(num_links) ** 3).astype(np.int32)]
    edges = np.unique(np.stack([sources % num_pages, targets]), axis=1)  # peers count a link once
    return csr_array((np.ones(edges.shape[1]), edges), shape=(num_pages, num_pages))


def error_bound(links: Any, scores: np.ndarray) -> float:
    """What is left of the equation, over the probability of teleportation."""
    strengths = links.sum(1)
    shares = scores / np.where(strengths > 0, strengths, 1.0)
    moved = links.T @ shares + scores[strengths == 0].sum() / len(scores)
    return float(np.abs((1 - TELEPORT) * moved + TELEPORT / len(scores) - scores).sum() / TELEPORT)


def ours() -> Callable[[Any], float]:
    from tractable.statespace.pagerank import pagerank

    return lambda links: error_bound(links, pagerank(links, TELEPORT).scores)


def networkx() -> Callable[[Any], float]:
    """The graph is built before, as NetworkX has it: its own structure costs more than the scores."""
    import networkx

    graphs: dict[int, Any] = {}

    def fit(links: Any) -> float:
        graph = graphs.setdefault(id(links), None)
        if graph is None:
            graph = graphs[id(links)] = networkx.from_scipy_sparse_array(links, create_using=networkx.DiGraph)
        found = networkx.pagerank(graph, 1 - TELEPORT, max_iter=1000, tol=1e-10 / links.shape[0])
        return error_bound(links, np.array([found[i] for i in range(links.shape[0])]))

    return fit


def scikit_network(solver: str) -> Callable[[], Callable[[Any], float]]:
    """Its diffusion works in single precision; its power iteration has another rule for pages without links,
    and so solves another equation."""

    def load() -> Callable[[Any], float]:
        from sknetwork.ranking import PageRank

        options: dict[str, Any] = {"solver": solver, "n_iter": 1000, "tol": 1e-11}
        return lambda links: error_bound(
            links, PageRank(1 - TELEPORT, **options).fit_predict(csr_matrix(links)).astype(float)
        )

    return load


PEERS = {
    "tractable": ours,
    "scikit-network diffusion": scikit_network("diteration"),
    "scikit-network power": scikit_network("piteration"),
    "networkx": networkx,
}
LARGE = {name: PEERS[name] for name in PEERS if name != "networkx"}
WORKLOADS: dict[str, Workload] = {
    "pagerank-small": Workload(lambda: web(1000, 10_000), PEERS, "error bound"),
    "pagerank-middle": Workload(lambda: web(100_000, 1_000_000), PEERS, "error bound", ("networkx",)),
    "pagerank-large": Workload(lambda: web(1_000_000, 10_000_000), LARGE, "error bound"),
}
