r"""Whether a stationary point is a minimum: the least curvature there, from differences of gradients.

Curvature.   $H v \approx (\nabla f(x + \delta v) - \nabla f(x - \delta v))/2\delta$, with $\delta$ in the
             units of each unknown: what it has moved by, or a part of its size. All columns for few unknowns;
             Lanczos' method with twenty products for many.
Units.       Rows and columns are divided so that the largest entry of each is one: the sign of the least
             eigenvalue does not change, and its size means the same in all units.
Sign.        Below minus $10^{-6}$, and beyond the asymmetry that rounding leaves in $H$, the point is a
             saddle or a maximum. Flatter points count as minima: no derivative of second order tells.
Cost.        Two gradients for each product; one program, which holds the gradient once.
References.  Nocedal and Wright (2006) section 2.1; Lanczos (1950).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["least_curvature", "least_eigenvalue"]

Slopes = Callable[[np.ndarray], Any]

_FEW = 32
_PRODUCTS = 20
_FLOOR = 1e-7  # of the largest curvature: below it a row is noise
_NEGATIVE = 1e-6


def least_curvature(slopes: Slopes, point: np.ndarray, moved: np.ndarray) -> float | None:
    """The least curvature relative to the largest, negative only beyond rounding; None where it is unknown.

    `slopes(points)` are the gradients at rows of points; `moved` is how far each unknown has come.

    >>> saddle = lambda x: np.stack([2 * x[:, 0], -2e6 * x[:, 1]], 1)
    >>> round(least_curvature(saddle, np.zeros(2), np.ones(2)), 6)
    -1.0
    """
    tiny = float(np.finfo(point.dtype).eps) ** (1 / 3)
    units = np.maximum(np.abs(moved), 1e-4 * np.abs(point)).astype(float)
    units = np.where(units > 0, units, units.max(initial=0.0) or 1.0)

    def product(directions: np.ndarray) -> np.ndarray:
        steps = tiny * units[None] * directions
        ends = np.concatenate([point[None] + steps, point[None] - steps]).astype(point.dtype)
        up, down = np.split(np.asarray(slopes(ends), float), 2)
        return units[None] * (up - down) / (2 * tiny)

    if point.size <= _FEW:
        return least_eigenvalue(product(np.eye(point.size)))
    return _lanczos(lambda v: product(v[None])[0], point.size)


def least_eigenvalue(matrix: np.ndarray) -> float | None:
    """Of a symmetric matrix, in units in which the largest entry of each row is one; zero where it is only
    rounding that makes it negative.

    >>> round(least_eigenvalue(np.diag([1e6, 1.0])), 6)
    1.0
    """
    if not np.isfinite(matrix).all():
        return None
    even, odd = 0.5 * (matrix + matrix.T), 0.5 * (matrix - matrix.T)
    rows = np.abs(even).max(1, initial=0.0)
    rows = np.maximum(rows, _FLOOR * rows.max(initial=0.0))
    unit = 1 / np.sqrt(np.where(rows > 0, rows, 1.0))
    least = float(np.linalg.eigvalsh(even * unit[:, None] * unit[None])[0])
    noise = np.abs(odd * unit[:, None] * unit[None]).max(initial=0.0) * len(matrix)
    return least if least >= 0 or least < -max(_NEGATIVE, noise) else 0.0


def _lanczos(product: Callable[[np.ndarray], np.ndarray], size: int) -> float | None:
    """The least Ritz value over the largest in size, from a start that no eigenvector is orthogonal to."""
    v = np.random.default_rng(0).normal(size=size)
    basis, diagonal, beside = [v / np.linalg.norm(v)], [], []
    for _ in range(_PRODUCTS):
        w = product(basis[-1])
        if not np.isfinite(w).all():
            return None
        diagonal.append(float(basis[-1] @ w))
        for _ in range(2):  # twice is enough
            w = w - np.stack(basis).T @ (np.stack(basis) @ w)
        beside.append(float(np.linalg.norm(w)))
        if beside[-1] <= 1e-8 * max(map(abs, diagonal + beside)):
            break
        basis.append(w / beside[-1])
    off = beside[: len(diagonal) - 1]
    values = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    least = float(values[0] / (np.abs(values).max() or 1.0))
    return least if least >= 0 or least < -1e-5 else 0.0
