r"""Explicit Runge-Kutta steps: Euler, two rules of second order and the classic fourth, by their tableaus.

Step.        $k_i = f(t + c_i h,\; y + h \sum_{j < i} a_{ij} k_j)$ and $y^+ = y + h \sum_i b_i k_i$.
Order.       A rule of order $p$ errs by $O(h^{p+1})$ in one step and by $O(h^p)$ over a fixed time.
Stability.   On $\dot y = \lambda y$ a step multiplies by $R(z) = 1 + z\,b^\top (I - zA)^{-1} 1$ with $z =
             h\lambda$, the exponential's series to degree $p$ where there are $p$ stages: decaying systems
             stay decaying where $|R(z)| \le 1$ (for Euler the disc $|1 + z| \le 1$).
Cost.        One value of $f$ per stage.
References.  Hairer, Norsett and Wanner (1993) chapter II; Hairer and Wanner (1996) section IV.2.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from tractable.core.checks import check_option
from tractable.core.types import Values

__all__ = ["TABLEAUS", "Tableau", "runge_kutta_step", "stability_factor", "tableau"]


class Tableau(NamedTuple):
    """The coefficients of an explicit rule: rows of `stages` are $a_{ij}$, $j < i$, and begin with none."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    order: int

    @property
    def nodes(self) -> tuple[float, ...]:
        r"""$c_i = \sum_j a_{ij}$."""
        return tuple(sum(row, 0.0) for row in self.stages)


TABLEAUS: dict[str, Tableau] = {
    "euler": Tableau(((),), (1.0,), 1),
    "midpoint": Tableau(((), (0.5,)), (0.0, 1.0), 2),
    "heun": Tableau(((), (1.0,)), (0.5, 0.5), 2),
    "rk4": Tableau(((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6), 4),
}


def tableau(method: str) -> Tableau:
    """The rule of this name: "euler", "midpoint", "heun" (both of second order) or "rk4"."""
    check_option("method", method, tuple(TABLEAUS))
    return TABLEAUS[method]


def runge_kutta_step(field: Callable[[Any, Any], Any], t: Any, y: Any, h: Any, method: str = "rk4") -> Any:
    r"""One step of $\dot y = f(t, y)$ = `field`, of any tree of NumPy or JAX arrays.

    >>> [round(float(runge_kutta_step(lambda t, y: y, 0.0, np.ones(()), 0.1, name)), 10) for name in TABLEAUS]
    [1.1, 1.105, 1.105, 1.1051708333]
    """
    rule = tableau(method)
    slopes: list = []
    for row, node in zip(rule.stages, rule.nodes):
        slopes.append(field(t + node * h, _moved(y, h, row, slopes)))
    return _moved(y, h, rule.weights, slopes)


def stability_factor(z: Any, method: str = "rk4") -> Values:
    r"""$R(z)$, by which one step multiplies what solves $\dot y = \lambda y$, with $z = h\lambda$; an array
    of any shape, complex or real.

    >>> stability_factor(np.array([-2.0, -1.0, 0.1]), "euler").tolist()
    [-1.0, 0.0, 1.1]
    """
    z = np.asarray(z)
    one = np.ones_like(z, np.result_type(z, float))
    return np.asarray(runge_kutta_step(lambda _, y: z * y, 0.0, one, 1.0, method))


def _moved(y: Any, h: Any, weights: tuple[float, ...], slopes: list) -> Any:
    """$y + h \\sum_i w_i k_i$, without the slopes that weigh nothing."""
    used = [(weight, slope) for weight, slope in zip(weights, slopes) if weight != 0]
    if not used:
        return y

    def move(leaf: Any, *each: Any) -> Any:
        total = used[0][0] * each[0]
        for (weight, _), slope in zip(used[1:], each[1:]):
            total = total + weight * slope
        return leaf + h * total

    return jax.tree.map(move, y, *(slope for _, slope in used))
