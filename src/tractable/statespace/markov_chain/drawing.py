r"""Draws from the rows of a transition matrix: one search in all rows at once.

Table.       The cumulative sums of row $i$, plus $i$, one row after the other: one sorted list, dense or
             sparse. The next state of $i$ for a uniform $u$ is the first entry beyond $i + u$; what has
             probability zero is never drawn.
Cost.        $O(\log K)$ per draw, for any number of draws at once.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

__all__ = ["RowSampler", "draw_from"]


class RowSampler(NamedTuple):
    """The sorted list, and the state that each of its entries stands for."""

    edges: np.ndarray
    states: np.ndarray

    @classmethod
    def of(cls, transition: Any) -> "RowSampler":
        matrix: Any = csr_array(transition)
        matrix.eliminate_zeros()
        starts, count = matrix.indptr[:-1], matrix.shape[0]
        row = np.repeat(np.arange(count), np.diff(matrix.indptr))
        sums = np.cumsum(matrix.data)
        before = np.concatenate([[0.0], sums])[starts]
        inside = np.minimum(sums - before[row], 1.0)
        inside[matrix.indptr[1:] - 1] = 1.0  # rounding leaves nothing beyond the last possible state
        return cls(row + inside, matrix.indices)

    def follow(self, states: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """The next state of each."""
        at = np.minimum(states + uniforms, np.nextafter(states + 1.0, 0.0))
        return self.states[np.searchsorted(self.edges, at, "right")]


def draw_from(probs: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """States from one distribution."""
    return RowSampler.of(probs[None, :]).follow(np.zeros(len(uniforms), np.int64), uniforms)
