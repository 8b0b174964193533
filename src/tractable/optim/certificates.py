r"""Proofs that a convex program has no solution: a Farkas certificate, or a feasible point and a ray.

Infeasible.  $z \ge 0$ and $y$ with $G^\top z + A^\top y = 0$ and $h^\top z + b^\top y < 0$: no $x$ can have
             $G x \le h$ and $A x = b$, since $z^\top(G x - h) + y^\top(A x - b)$ would be positive and not.
Unbounded.   A feasible $x$ and a $d$ with $P d = 0$, $G d \le 0$, $A d = 0$, $q^\top d < 0$: along $x + t d$
             the objective $\tfrac12 x^\top P x + q^\top x$ falls without end. Either alone proves nothing.
Rounding.    Candidates come from linear programs with a tolerance; each is moved onto the equations that it
             almost meets, and then judged by products alone.
Cost.        A linear program each, by HiGHS; only where a solver has not found a solution.
References.  Farkas (1902); Boyd and Vandenberghe (2004) section 5.8; Huangfu and Hall (2018).
"""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Rows", "descent_ray", "farkas", "feasible_point"]

_ALMOST = 1e-6  # of rows of length one: what a linear program leaves of an equation
_PROOF = 1e-9  # the rounding that a proof may have, relative to what it proves


class Rows(NamedTuple):
    """$G x \\le h$ and $A x = b$ as NumPy arrays (or sparse matrices) with rows of length one."""

    G: Any
    h: np.ndarray
    A: Any
    b: np.ndarray
    lengths: tuple[np.ndarray, np.ndarray]  # of the rows as they were given

    @classmethod
    def of(cls, G: Any, h: Any, A: Any, b: Any) -> "Rows":
        (above, high), (level, equal) = _unit(G), _unit(A)
        return cls(above, np.asarray(h, float) / high, level, np.asarray(b, float) / equal, (high, equal))

    @property
    def size(self) -> float:
        """The largest number on the right-hand side."""
        return max(np.abs(self.h).max(initial=0.0), np.abs(self.b).max(initial=0.0))


def farkas(rows: Rows) -> tuple[np.ndarray, np.ndarray] | None:
    """Multipliers of the rows as they were given that prove them contradictory; None if none were found.

    >>> z, _ = farkas(Rows.of(np.array([[1.0], [-1.0]]), [1.0, -2.0], np.zeros((0, 1)), []))
    >>> z.round(9).tolist()
    [0.5, 0.5]
    """
    m, p = len(rows.h), len(rows.b)
    scale = rows.size
    if not scale:
        return None  # zero is feasible
    cost = np.concatenate([rows.h, rows.b, -rows.b]) / scale
    balance = _beside([rows.G.T, rows.A.T, -rows.A.T])
    found = _highs(cost, np.ones((1, m + 2 * p)), [1.0], balance, np.zeros(rows.G.shape[1]))
    if found is None:
        return None
    used = found[:m] > _ALMOST
    free = np.concatenate([np.flatnonzero(used), m + np.arange(p)])
    weights = np.concatenate([np.where(used, found[:m], 0.0), found[m : m + p] - found[m + p :]])
    weights[free] = _onto(_beside([rows.G.T, rows.A.T])[:, free], weights[free])
    z, y = weights[:m], weights[m:]
    strength, left = -(rows.h @ z + rows.b @ y), rows.G.T @ z + rows.A.T @ y
    proved = strength > _PROOF * scale and np.abs(left).max(initial=0.0) * scale <= _PROOF * strength
    return (z / rows.lengths[0], y / rows.lengths[1]) if proved and (z >= 0).all() else None


def feasible_point(rows: Rows) -> np.ndarray | None:
    """A point that meets all rows within rounding, inside the inequalities where that is possible.

    >>> float(feasible_point(Rows.of(np.array([[1.0], [-1.0]]), [3.0, -1.0], np.zeros((0, 1)), []))[0])
    2.0
    """
    n, scale = rows.G.shape[1], rows.size or 1.0
    cost = np.concatenate([np.zeros(n), [-1.0]])
    above = _beside([rows.G, np.ones((len(rows.h), 1))])
    level = _beside([rows.A, np.zeros((len(rows.b), 1))])
    box = [(None, None)] * n + [(None, 1.0)]
    found = _highs(cost, above, rows.h / scale, level, rows.b / scale, box)
    if found is None:
        return None
    point = scale * found[:n]
    excess = np.maximum(rows.G @ point - rows.h, 0.0).max(initial=0.0)
    missed = np.abs(rows.A @ point - rows.b).max(initial=0.0)
    near = _ALMOST * max(scale, np.abs(point).max(initial=0.0))
    return point if max(excess, missed) <= near else None


def descent_ray(P: Any, q: np.ndarray, rows: Rows) -> np.ndarray | None:
    """A direction along which the objective falls for ever and no row stops it; None if none was found.

    >>> nothing = Rows.of(np.zeros((0, 2)), [], np.zeros((0, 2)), [])
    >>> abs(descent_ray(np.diag([1.0, 0.0]), np.array([0.0, -3.0]), nothing).round(6)).tolist()
    [0.0, 1.0]
    """
    size = np.abs(q).max(initial=0.0)
    if not size:
        return None
    flat = _beside([rows.A.T, _unit(P)[0].T]).T
    zero = np.zeros(len(rows.h)), np.zeros(flat.shape[0])
    d = _highs(q / size, rows.G, zero[0], flat, zero[1], [(-1.0, 1.0)] * len(q))
    if d is None:
        return None
    held = np.flatnonzero(rows.G @ d > -_ALMOST)
    d = _onto(_beside([flat.T, rows.G[held].T]).T, d)
    fall = -(q @ d) / size
    rises = np.maximum(rows.G @ d, 0.0).max(initial=0.0)
    drift = np.abs(flat @ d).max(initial=0.0)
    return d if fall > _ALMOST and max(rises, drift) <= _PROOF * fall else None


def _highs(cost: Any, above: Any, high: Any, equal: Any, level: Any, box: Any = (0, None)) -> Any:
    from scipy.optimize import linprog

    found = linprog(cost, above, high, equal, level, bounds=box, method="highs")
    return found.x if found.status == 0 else None


def _unit(matrix: Any) -> tuple[Any, np.ndarray]:
    """Rows of length one, and the lengths that they had (one where a row is zero)."""
    from scipy.sparse import diags, issparse

    sparse = issparse(matrix)
    matrix = matrix if sparse else np.asarray(matrix, float)
    squares = np.asarray(matrix.multiply(matrix).sum(1)).ravel() if sparse else (matrix**2).sum(1)
    lengths = np.where(squares > 0, np.sqrt(squares), 1.0)
    return (diags(1 / lengths) @ matrix).tocsr() if sparse else matrix / lengths[:, None], lengths


def _beside(parts: list[Any]) -> Any:
    from scipy.sparse import hstack, issparse

    return hstack(parts, format="csr") if any(map(issparse, parts)) else np.concatenate(parts, 1)


def _onto(equations: Any, point: np.ndarray) -> np.ndarray:
    """The nearest solution of `equations @ x = 0`."""
    dense = equations.toarray() if hasattr(equations, "toarray") else equations
    return point - np.linalg.lstsq(dense, dense @ point)[0]
