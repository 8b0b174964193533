r"""Asymmetric kernels: $k(x, x') = \langle\phi_s(x), \phi_t(x')\rangle$ with two feature maps.

Neighbours.  $p(x' \mid x)$, normalised over given rows $z$, as in stochastic neighbour embedding.
Cost.        $O(nmd)$, and as much again for the sums over the given rows.
References.  He, He, Shi, Huang and Suykens (2023), "Learning with asymmetric kernels"; Hinton and Roweis
             (2002).
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.module import field
from tractable.core.rows import points
from tractable.core.support import positive, real
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.kernels.base import Kernel, Traits
from tractable.kernels.distances import table_of_squares
from tractable.kernels.graph import check_nodes, weights_of
from tractable.kernels.nonstationary import MatrixProduct

__all__ = ["Attention", "ConditionalProbability", "NeighbourKernel", "TKernel", "Transition"]

_ASYMMETRIC = Traits(symmetric=False, psd=False)


class Transition(Kernel):
    r"""$P_{ij} = W_{ij} / \sum_k W_{ik}$: one step of a walk on a directed graph; points are node numbers.

    A node without edges out of it is refused, since no step leads on. The table is data: hold it fixed with
    `unconstrain(kernel, {"probs": None})`.

    >>> float(Transition(np.array([[0, 1.0, 3.0], [1.0, 0, 0], [0, 1.0, 0]]))(0, 2))
    0.75
    """

    probs: Float[Array, "N N"]

    def __init__(self, graph: Any):
        weights = weights_of(graph)
        totals = weights.sum(1)
        fix = "Give it an edge to itself to stay there."
        lonely = f"none from node {int(np.argmin(totals))}"
        check((totals > 0).all(), "graph", "a graph with an edge out of each node", lonely, fix)
        self.probs = jnp.asarray(weights / totals[:, None])

    @property
    def traits(self) -> Traits:
        return _ASYMMETRIC

    def pair(self, x: Array, y: Array) -> Array:
        return self.probs[x[0].astype(int), y[0].astype(int)]

    def _check_points(self, name: str, x: np.ndarray) -> None:
        check_nodes(name, x, len(self.probs))


class NeighbourKernel(Kernel):
    r"""$p(x' \mid x) \propto s(\|x - x'\|^2/\sigma^2)$, normalised over the given rows; `log_similarity` is
    $\log s$.

    The rows are data: hold them fixed with `unconstrain(kernel, {"rows": None})`.
    """

    rows: Float[Array, "n d"]
    width: Scalar = field(support=positive)

    def __init__(self, rows: ArrayLike, width: ArrayLike = 1.0):
        self.rows = jnp.asarray(points(rows, name="rows"))
        self.width = width  # pyright: ignore[reportAttributeAccessIssue]

    @abstractmethod
    def log_similarity(self, squared: Array) -> Array:
        """The logarithm of the similarity from the scaled squared distance."""

    @property
    def traits(self) -> Traits:
        return _ASYMMETRIC

    def pair(self, x: Array, y: Array) -> Array:
        return self._gram(x[None, :], y[None, :])[0, 0]

    def _gram(self, x: Array, y: Array | None) -> Array:
        columns = self.rows.shape[1]
        check(
            x.shape[1] == columns, "X", f"points of {columns} columns, as in `rows`", f"{x.shape[1]} columns"
        )
        totals = jax.nn.logsumexp(self._logs(x, self.rows), axis=1, keepdims=True)
        return jnp.exp(self._logs(x, y) - totals)

    def _diagonal(self, x: Array) -> Array:
        totals = jax.nn.logsumexp(self._logs(x, self.rows), axis=1)
        return jnp.exp(self.log_similarity(jnp.zeros_like(totals)) - totals)

    def _logs(self, x: Array, y: Array | None) -> Array:
        return self.log_similarity(table_of_squares(x, y) / self.width**2)


class ConditionalProbability(NeighbourKernel):
    r"""$e^{-\|x - x'\|^2/\sigma^2} / \sum_z e^{-\|x - z\|^2/\sigma^2}$: the probability that
    $x$ picks $x'$ as its neighbour.

    Over the given rows the values of one $x$ sum to one; $z = x$ is among them.
    """

    def log_similarity(self, squared: Array) -> Array:
        return -squared


class TKernel(NeighbourKernel):
    r"""$(1 + \|x - x'\|^2/\sigma^2)^{-1} / \sum_z (1 + \|x - z\|^2/\sigma^2)^{-1}$, with a heavy tail."""

    def log_similarity(self, squared: Array) -> Array:
        return -jnp.log1p(squared)


class Attention(MatrixProduct):
    r"""$e^{x^\top W x'}$ for any square $W$ (queries $x$, keys $x'$); symmetric only if $W$ is.

    With $W = W_Q W_K^\top/\sqrt{h}$ its rows, divided by their sums, are the weights of attention.
    """

    matrix: Float[Array, "d d"] = field(support=real, rank=2)

    @property
    def traits(self) -> Traits:
        return _ASYMMETRIC

    def of_product(self, product: Array) -> Array:
        return jnp.exp(product)
