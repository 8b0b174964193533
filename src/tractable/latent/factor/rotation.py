r"""Simple structure: the rotation of factors under which each column loads on few of them.

Criterion.   Varimax: $\sum_j[\frac1d\sum_i \ell_{ij}^4 - \gamma(\frac1d\sum_i \ell_{ij}^2)^2]$
             of $L = WR$ over orthogonal $R$; $\gamma = 1$, and $\gamma = 0$ is quartimax.
Step.        Two factors are turned by the angle that is best for them, in closed form: with $u = x^2 - y^2$
             and $v = 2xy$ of their loadings, $\tan 4\varphi = \frac{2\sum uv - 2\gamma\sum u\sum v/d}
             {\sum(u^2 - v^2) - \gamma[(\sum u)^2 - (\sum v)^2]/d}$.
             Each pair in turn: the criterion never falls.
Kaiser.      Rows are scaled to unit length first, so that every column of the table counts alike.
Cost.        $O(dk^2)$ a sweep over all pairs.
References.  Kaiser (1958).
"""

import itertools
from typing import Any

import numpy as np

from tractable.core.checks import as_float, check, check_count
from tractable.core.iterate import Ended, Status, is_close
from tractable.core.module import HostResult, field
from tractable.core.types import ArrayLike, Values

__all__ = ["Rotated", "varimax"]


class Rotated(Ended, HostResult):
    """Rotated `loadings` $WR$, the orthogonal `rotation` $R$, and the criterion of each step."""

    loadings: Values
    rotation: Values = field(show=False)
    trace: Values = field(show=False)
    num_steps: int
    code: Any = field(show=False)


def varimax(
    loadings: ArrayLike,
    *,
    gamma: float | int = 1.0,
    normalise: bool = True,
    max_steps: int = 500,
    tol: float | int = 1e-12,
) -> Rotated:
    """The rotation that makes large loadings larger and small ones smaller; signs make each column's sum of
    cubes positive, and the factors that explain most come first.

    >>> tilted = np.array([[1.0, 1.0], [1.0, -1.0]]) / 2**0.5
    >>> np.abs(varimax(tilted).loadings).round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    table = np.asarray(as_float("loadings", loadings), float)
    check(table.ndim == 2, "loadings", "a matrix (d, k)", f"shape {table.shape}")
    max_steps = check_count("max_steps", max_steps)
    length = np.sqrt((table**2).sum(1, keepdims=True)) if normalise else np.ones((len(table), 1))
    scaled = table / np.where(length > 0, length, 1.0)
    rotation, trace, code = _climb(scaled, float(gamma), max_steps, tol)
    turned = table @ rotation
    order = np.argsort(-(turned**2).sum(0), kind="stable")
    signs = np.where((turned[:, order] ** 3).sum(0) < 0, -1.0, 1.0)
    rotation = rotation[:, order] * signs
    return Rotated(table @ rotation, rotation, np.array(trace), len(trace), np.asarray(int(code)))


def _climb(
    table: np.ndarray, gamma: float | int, max_steps: int, tol: float | int
) -> tuple[np.ndarray, list, Status]:
    k = table.shape[1]
    turned, rotation = table.copy(), np.eye(k)
    trace = [_criterion(turned, gamma)]
    for _ in range(max_steps):
        for pair in itertools.combinations(range(k), 2):
            angle = _angle(turned[:, pair[0]], turned[:, pair[1]], gamma)
            cosine, sine = np.cos(angle), np.sin(angle)
            turn = np.array([[cosine, -sine], [sine, cosine]])
            turned[:, pair] = turned[:, pair] @ turn
            rotation[:, pair] = rotation[:, pair] @ turn
        trace.append(_criterion(turned, gamma))
        if is_close(trace[-1], trace[-2], tol):
            return rotation, trace, Status.converged
    return rotation, trace, Status.exhausted


def _angle(x: np.ndarray, y: np.ndarray, gamma: float | int) -> float:
    u, v = x**2 - y**2, 2 * x * y
    above = 2 * (u @ v) - 2 * gamma * u.sum() * v.sum() / len(x)
    below = u @ u - v @ v - gamma * (u.sum() ** 2 - v.sum() ** 2) / len(x)
    return float(np.arctan2(above, below)) / 4


def _criterion(loadings: np.ndarray, gamma: float | int) -> float:
    squares = loadings**2
    return float(((squares**2).mean(0) - gamma * squares.mean(0) ** 2).sum())
