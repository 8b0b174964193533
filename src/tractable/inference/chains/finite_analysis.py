r"""Algebra of finite Markov chains on the host: classes of states, periods, elimination, distances, powers.

Matrix.      $P_{ij}$ is the probability of $j$ after $i$: rows sum to one. Dense, or sparse where said so.
Classes.     States that reach each other form a class; a class that is never left is closed, and its states
             are recurrent. The period of a class is the common divisor of the lengths of all ways back.
Elimination. States are removed from the last to the first, $P_{ij} \leftarrow P_{ij} + P_{ik}P_{kj}/s_k$
             with $s_k = \sum_{j<k}P_{kj}$ in place of $1 - P_{kk}$: nothing is subtracted, so that every
             entry of the stationary distribution, and of times and probabilities of first passage, keeps
             its relative accuracy, however nearly the chain falls apart.
Cost.        $O(n^3)$ by matrix products (states go in blocks); classes and periods $O(n + \mathrm{steps})$.
References.  Grassmann, Taksar and Heyman (1985); O'Cinneide (1993) (entrywise accuracy); Denardo (1977).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.sparse.csgraph import connected_components, shortest_path

from tractable.core.blas import one_blas_thread
from tractable.core.checks import namespace
from tractable.core.types import Values

__all__ = [
    "Classes", "Elimination", "chain_period", "class_period", "communicating_classes", "distance_path",
    "eliminate", "stationary_of", "steps_until_near",
]  # fmt: skip

_BLOCK = 64  # states that are removed together
_MANY = 500  # states from which on several threads of a product pay
_BITS = 40  # mixing times are looked for up to 2^40 steps
_LARGE = 1e150  # weights beyond are scaled down before they overflow


class Classes(NamedTuple):
    """Communicating classes: the class of each state, and of each class whether it is never left."""

    labels: np.ndarray
    closed: np.ndarray

    def members(self, label: int) -> np.ndarray:
        return np.flatnonzero(self.labels == label)

    @property
    def closed_members(self) -> list[np.ndarray]:
        """The states of each closed class."""
        return [self.members(label) for label in np.flatnonzero(self.closed).tolist()]


class Elimination(NamedTuple):
    """Factors of $I - P$ below its first state: what is left of $P$, and the pivots $s_k$."""

    factors: np.ndarray
    pivots: np.ndarray

    def stationary(self) -> np.ndarray:
        """The stationary distribution; the first state must be one that is reached from everywhere."""
        weights = np.zeros(len(self.pivots))
        weights[0] = 1.0
        for k in range(1, len(weights)):
            weights[k] = weights[:k] @ self.factors[:k, k]
            if weights[k] > _LARGE:
                weights[: k + 1] /= weights[k]
        return weights / weights.sum()

    def passages(self, gains: np.ndarray) -> np.ndarray:
        r"""Expected sums of `gains` (one row per state but the first) until the first state is entered.

        The solution of $x_i = g_i + \sum_{j \ge 1}P_{ij}x_j$. Gains of one give expected times.
        """
        x = np.concatenate([np.zeros_like(gains[:1]), gains]).astype(float)
        for k in range(len(x) - 1, 0, -1):
            x[1:k] += self.factors[1:k, k, None] * x[k]
        for k in range(1, len(x)):
            x[k] = (x[k] + self.factors[k, 1:k] @ x[1:k]) / self.pivots[k]
        return x[1:]


def communicating_classes(steps: Any) -> Classes:
    """The classes of a matrix (dense or sparse) that is nonzero where $j$ may follow $i$, in the order of
    their first states.

    >>> communicating_classes(np.array([[1, 1, 0], [0, 0, 1], [0, 1, 0]])).closed.tolist()
    [False, True]
    """
    graph = steps if issparse(steps) else csr_array(np.asarray(steps) != 0)
    count, raw = connected_components(graph, connection="strong")
    _, first = np.unique(raw, return_index=True)
    number = np.empty(count, int)
    number[np.argsort(first, kind="stable")] = np.arange(count)
    labels = number[raw]
    sources, ends = graph.nonzero()
    closed = np.ones(count, bool)
    closed[labels[sources[labels[sources] != labels[ends]]]] = False
    return Classes(labels, closed)


def class_period(steps: Any) -> int:
    """The period of one class, from its own steps; 0 for a state that has no way back.

    Depths are counted from one state: each step changes the depth by one, up to a multiple of the period.
    """
    graph = steps if issparse(steps) else csr_array(np.asarray(steps) != 0)
    depth = shortest_path(graph.astype(float), unweighted=True, indices=0).astype(int)
    sources, ends = graph.nonzero()
    return int(np.gcd.reduce(depth[sources] + 1 - depth[ends])) if len(sources) else 0


def chain_period(steps: Any) -> int:
    """The least common multiple of the periods of the closed classes."""
    graph = steps if issparse(steps) else csr_array(np.asarray(steps) != 0)
    closed = communicating_classes(graph).closed_members
    return math.lcm(*(class_period(graph[states][:, states]) for states in closed))


def eliminate(matrix: np.ndarray) -> Elimination:
    r"""All states but the first removed, the last first.

    Every state must reach the first, whose own row does not matter. Inside a block single states change the
    rows and columns of the block only; the rest of the matrix follows by one product for the block.
    """
    p, n = np.array(matrix, float), len(matrix)
    pivots = np.zeros(n)
    with one_blas_thread(n < _MANY):
        for end in range(n, 1, -_BLOCK):
            start = max(end - _BLOCK, 1)
            for k in range(end - 1, start - 1, -1):
                pivots[k] = p[k, :k].sum()
                p[:k, k] /= pivots[k]
                p[:k, start:k] += np.outer(p[:k, k], p[k, start:k])
                p[start:k, :start] += np.outer(p[start:k, k], p[k, :start])
            p[:start, :start] += p[:start, start:end] @ p[start:end, :start]
    return Elimination(p, pivots)


def stationary_of(matrix: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The stationary distribution that lives on `states`, a closed class of a dense matrix."""
    found = np.zeros(len(matrix))
    found[states] = eliminate(matrix[np.ix_(states, states)]).stationary()
    return found


def distance_path(matrix: Any, starts: np.ndarray, target: np.ndarray, num_steps: int) -> np.ndarray:
    r"""$\frac12\|p_0P^t - \pi\|_1$ for $t = 0 \dots$ `num_steps`, the largest for all rows of `starts`.

    `matrix` may be sparse.
    """
    rows, found = np.asarray(starts, float), np.empty(num_steps + 1)
    for t in range(num_steps + 1):
        found[t] = 0.5 * np.abs(rows - target).sum(1).max()
        if t < num_steps:
            rows = np.asarray(rows @ matrix)
    return found


def steps_until_near(matrix: Values, target: Values, tol: Any) -> Any:
    r"""The first $t$ with $\max_i\frac12\|P^t_{i\cdot} - \pi\|_1 \le$ `tol`; infinite beyond $2^{40}$ steps.

    The distance never grows, so that $t$ is found by its binary digits from $P, P^2, P^4 \dots$
    """
    xp = namespace(matrix, target, tol)
    powers, current = [], matrix
    for _ in range(_BITS):
        powers.append(current)
        if xp is np and _farthest(np, current, target) <= tol:
            break
        current = current @ current
        current = current / current.sum(1, keepdims=True)
    reached, steps = xp.eye(len(matrix)), xp.zeros(())
    for digit in reversed(range(len(powers))):
        further = reached @ powers[digit]
        far = _farthest(xp, further, target) > tol
        steps, reached = xp.where(far, steps + 2.0**digit, steps), xp.where(far, further, reached)
    found = xp.where(steps >= 2.0**_BITS - 1, xp.inf, steps + 1)
    return xp.where(_farthest(xp, xp.eye(len(matrix)), target) <= tol, 0.0, found)


def _farthest(xp: Any, rows: Values, target: Values) -> Any:
    return 0.5 * xp.abs(rows - target[None, :]).sum(1).max()
