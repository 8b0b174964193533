r"""Averages and votes of the nearest neighbours.

Prediction.  $\sum_i v_i y_i / \sum_i v_i$ over the neighbours, or the shares of the classes among them; a row
             of weight two is two neighbours, and $k$ counts weights.
Uncertainty. The error of predicting each training row from the others: honest on average, also for $k = 1$.
Cost.        $O(nd)$ per query by blocks, about $O(\log n)$ by tree.
References.  Cover and Hart (1967); Hastie, Tibshirani and Friedman (2009) section 13.3.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_option, namespace
from tractable.core.module import Module, field
from tractable.core.neighbours import Neighbours, nearest
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Values

__all__ = ["NearestNeighbours"]


class NearestNeighbours(Module):
    """Training rows that answer by their neighbours: `regression` by averages, `shares` by votes.

    >>> NearestNeighbours.fit([[0.0], [1.0], [5.0]], [2.0, 4.0, 9.0], 2).regression([[0.4]]).tolist()
    [3.0]
    """

    rows: np.ndarray
    targets: np.ndarray  # numbers, or codes of classes
    weights: np.ndarray
    num_neighbours: int = field(static=True)
    closeness: str = field(static=True, default="uniform")  # or "distance": a vote of 1 / distance

    @classmethod
    def fit(
        cls,
        X: ArrayLike | Rows,
        y: ArrayLike | None = None,
        num_neighbours: int = 5,
        closeness: str = "uniform",
        *,
        weights: ArrayLike | None = None,
    ) -> "NearestNeighbours":
        """Keep the rows with their targets: numbers, or codes 0, 1, ... of classes."""
        rows = X if isinstance(X, Rows) else Rows.of(X, y, weights, target="number")
        return cls(rows.X, rows.y, rows.weights, num_neighbours, closeness)

    def __check_init__(self) -> None:
        check_option("closeness", self.closeness, ("uniform", "distance"))
        check_count("num_neighbours", self.num_neighbours)
        total = self.weights.sum()
        fix = "Ask for fewer neighbours or give more rows."
        must = f"at most the weight of all rows ({total:g})"
        got = f"{self.num_neighbours} neighbours of {len(self.rows)} sample(s)"
        check(self.num_neighbours <= total * (1 + 1e-12), "num_neighbours", must, got, fix)

    def votes(self, X: ArrayLike | Rows, *, leave_one_out: bool = False) -> tuple[Values, Values]:
        """Indices of the neighbours of each row and their shares, which sum to one.

        With `leave_one_out` the rows of `X` are the training rows, and one unit of weight of each is kept
        from itself.
        """
        queries = points(X, self.rows.shape[1])
        xp = namespace(self, queries)
        found, weights = self._search(queries, leave_one_out) if xp is np else self._sorted(queries)
        before = xp.cumsum(weights, 1) - weights
        shares = xp.minimum(weights, xp.maximum(self.num_neighbours - before, 0.0))
        if self.closeness == "distance":
            same = found.distances == 0
            votes = xp.where(same.any(1, keepdims=True), same, 1 / xp.where(same, 1.0, found.distances))
            shares = shares * votes
        return found.indices, shares / shares.sum(1, keepdims=True)

    def regression(self, X: ArrayLike | Rows, *, leave_one_out: bool = False) -> Values:
        """The average of the neighbours' targets."""
        indices, shares = self.votes(X, leave_one_out=leave_one_out)
        return (shares * namespace(shares).asarray(self.targets)[indices]).sum(1)

    def shares(self, X: ArrayLike | Rows, num_classes: int | None = None) -> Values:
        """The share of each class 0, 1, ... among the neighbours."""
        codes = self.targets.astype(np.int64)
        num_classes = int(codes.max()) + 1 if num_classes is None else num_classes
        indices, shares = self.votes(X)
        cells = np.arange(len(indices))[:, None] * num_classes + codes[indices]
        counted = np.bincount(cells.ravel(), shares.ravel(), len(indices) * num_classes)
        return counted.reshape(-1, num_classes)

    def residual_scale(self) -> float:
        r"""The root mean square error of predicting each row from the others; never below the rounding of the
        targets. Infinite for a single row, of which nothing can be left out."""
        if self.weights.sum() < self.num_neighbours + 1:
            return float(self._spread()) if len(self.rows) > 1 else np.inf
        errors = self.targets - self.regression(self.rows, leave_one_out=True)
        return float(max(np.sqrt(self.weights @ errors**2 / self.weights.sum()), self._rounding()))

    def _rounding(self) -> float:
        return float(np.spacing(np.abs(self.targets).max()))

    def _spread(self) -> float:
        """The spread of all targets with the sampling error of their mean: all rows are the neighbours."""
        total = self.weights.sum()
        variance = self.weights @ (self.targets - self.weights @ self.targets / total) ** 2 / (total - 1)
        return float(max(np.sqrt(variance * (1 + 1 / total)), self._rounding()))

    def _sorted(self, queries: Any) -> tuple[Neighbours, Any]:
        """All rows in the order of their distances, under a transformation of JAX."""
        squares = ((queries[:, None] - jnp.asarray(self.rows)[None]) ** 2).sum(-1)
        indices = jnp.argsort(squares, axis=1, stable=True)
        ordered = jnp.take_along_axis(squares, indices, 1)
        lengths = jnp.where(ordered > 0, jnp.sqrt(jnp.where(ordered > 0, ordered, 1.0)), 0.0)
        parts: Any = (lengths, indices)
        return Neighbours(*parts), jnp.asarray(self.weights)[indices]

    def _search(self, queries: Values, leave_one_out: bool) -> tuple[Neighbours, Values]:
        """Enough neighbours for the weight asked for, with the weights that they bring."""
        own = np.arange(len(queries))[:, None]
        count = min(self.num_neighbours + leave_one_out, len(self.rows))
        while True:
            found = nearest(self.rows, queries, count)
            weights = self.weights[found.indices]
            if leave_one_out:
                weights = np.where(found.indices == own, np.maximum(weights - 1, 0.0), weights)
            short = weights.sum(1).min() < self.num_neighbours
            if not short or count == len(self.rows):
                return found, weights
            count = min(2 * count, len(self.rows))
