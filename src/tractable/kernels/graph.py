r"""Kernels on the nodes of a graph: heat that spreads along its edges.

Model.       Laplacian $L = D - W$ of non-negative symmetric weights $W$ with degrees $D$, or normalised
             $I - D^{-1/2} W D^{-1/2}$. The diffusion kernel is $K = e^{-\beta L}$, positive definite for any
             graph; the regularised Laplacian kernel is $(I + \beta L)^{-1}$.
Points.      A point is the number of a node, from 0: `k(0, 3)`, `k.gram([0, 3, 5])`; `k.matrix()` is all of
             it.
Cost.        One symmetric eigendecomposition, $O(N^3)$, when the kernel is made.
References.  Kondor and Lafferty (2002); Smola and Kondor (2003).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_entries
from tractable.core.module import field
from tractable.core.support import positive
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.kernels.base import Kernel

__all__ = [
    "Diffusion",
    "RegularisedLaplacian",
    "SpectralGraphKernel",
    "check_nodes",
    "laplacian",
    "weights_of",
]


class SpectralGraphKernel(Kernel):
    """$K = U\\,r(\\Lambda)\\,U^\\top$ for the eigenpairs of a Laplacian; `response` gives $r$.

    The eigenpairs are data: hold them fixed with `unconstrain(kernel, {"values": None, "vectors": None})`.
    """

    values: Float[Array, " N"]
    vectors: Float[Array, "N N"]
    beta: Scalar = field(support=positive)

    def __init__(self, graph: Any, beta: ArrayLike = 1.0, *, normalised: bool = False):
        values, vectors = np.linalg.eigh(laplacian(graph, normalised=normalised))
        self.beta = beta  # pyright: ignore[reportAttributeAccessIssue]
        self.values, self.vectors = jnp.asarray(np.maximum(values, 0.0)), jnp.asarray(vectors)

    def response(self, values: Array) -> Array:
        """What an eigenvector of the Laplacian is multiplied by."""
        raise TypeError(f"`{type(self).__name__}` must define `response`.")

    def matrix(self) -> Float[Array, "N N"]:
        """The kernel of all nodes."""
        return (self.vectors * self.response(self.values)[None, :]) @ self.vectors.T

    def pair(self, x: Array, y: Array) -> Array:
        rows = self._features(x), self._features(y)
        return (rows[0] * rows[1])[0] @ self.response(self.values)

    def _gram(self, x: Array, y: Array | None) -> Array:
        left = self._features(x[:, 0])
        right = left if y is None else self._features(y[:, 0])
        return (left * self.response(self.values)[None, :]) @ right.T

    def _diagonal(self, x: Array) -> Array:
        return self._features(x[:, 0]) ** 2 @ self.response(self.values)

    def _features(self, nodes: Array) -> Array:
        return self.vectors[nodes.astype(int)]

    def _check_points(self, name: str, x: np.ndarray) -> None:
        check_nodes(name, x, len(self.values))


class Diffusion(SpectralGraphKernel):
    r"""$e^{-\beta L}$: the heat at one node after a time $\beta$, of one unit begun at another.

    >>> import networkx as nx
    >>> k = Diffusion(nx.path_graph(2), beta=0.5)
    >>> round(float(k(0, 0)), 6), round(float(k(0, 1)), 6)
    (0.68394, 0.31606)
    """

    def response(self, values: Array) -> Array:
        return jnp.exp(-self.beta * values)


class RegularisedLaplacian(SpectralGraphKernel):
    r"""$(I + \beta L)^{-1}$: heat at an exponentially distributed time of mean $\beta$."""

    def response(self, values: Array) -> Array:
        return 1 / (1 + self.beta * values)


def laplacian(graph: Any, *, normalised: bool = False) -> np.ndarray:
    r"""$D - W$, or $I - D^{-1/2} W D^{-1/2}$ of an undirected graph.

    The row of a node without edges is zero.

    >>> laplacian(np.array([[0, 2.0], [2.0, 0]])).tolist()
    [[2.0, -2.0], [-2.0, 2.0]]
    """
    weights = weights_of(graph)
    skew = np.abs(weights - weights.T).max()
    fix = "Average it with its transpose, or see `kernels.asymmetric` for directed graphs."
    check(skew == 0, "graph", "undirected, with symmetric weights", f"weights that differ by {skew}", fix)
    degrees = weights.sum(1)
    if not normalised:
        return np.diag(degrees) - weights
    linked = degrees > 0
    root = np.where(linked, 1 / np.sqrt(np.where(linked, degrees, 1.0)), 0.0)
    return np.diag(linked.astype(float)) - root[:, None] * weights * root[None, :]


def weights_of(graph: Any) -> np.ndarray:
    """The matrix of edge weights of a `networkx` graph, or a square matrix of them, checked."""
    if hasattr(graph, "adjacency") and hasattr(graph, "nodes"):
        place = {node: i for i, node in enumerate(graph.nodes)}
        weights = np.zeros((len(place), len(place)))
        for node, neighbours in graph.adjacency():
            for other, data in neighbours.items():
                several = graph.is_multigraph()
                edges = data.values() if several else [data]
                weights[place[node], place[other]] = sum(edge.get("weight", 1.0) for edge in edges)
    else:
        weights = np.asarray(as_float("graph", graph))
    square = weights.ndim == 2 and weights.shape[0] == weights.shape[1] and weights.size > 0
    check(square, "graph", "a graph or a square matrix of weights", f"shape {weights.shape}")
    check_entries("graph", weights, lambda v: (v >= 0) & np.isfinite(v), "of finite, non-negative weights")
    return weights


def check_nodes(name: str, x: np.ndarray, count: int) -> None:
    """Refuse points that are not numbers of nodes."""
    check(x.shape[1] == 1, name, "numbers of nodes, one column", f"{x.shape[1]} columns")
    must = f"numbers of nodes from 0 to {count - 1}"
    check_entries(name, x, lambda v: (v == np.round(v)) & (v >= 0) & (v < count), must)
