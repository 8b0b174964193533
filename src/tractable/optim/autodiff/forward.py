r"""Forward mode: a number carries its derivative along (dual numbers).

Dual.        $x + \dot x\,\varepsilon$ with $\varepsilon^2 = 0$, so that
             $f(x + \dot x \varepsilon) = f(x) + f'(x)\,\dot x\,\varepsilon$: each operation propagates
             $\dot w_i = \sum_j (\partial w_i/\partial w_j)\,\dot w_j$ from the seed $\dot x$.
Cost.        About twice the function for each direction: ideal for few inputs and many outputs.
References.  Griewank and Walther (2008) chapter 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.optim.autodiff.rules import PARTIALS, VALUES, Operand

__all__ = ["Dual", "directional_derivative", "forward_gradient"]

Vector = Sequence[float] | np.ndarray


@dataclass(frozen=True, eq=False)
class Dual(Operand):
    r"""A value with its slope along one direction.

    >>> x = Dual(3.0, 1.0)
    >>> x * x + 1
    Dual(value=10.0, slope=6.0)
    """

    value: float
    slope: float = 0.0

    @classmethod
    def operate(cls, name: str, arguments: Sequence[Any]) -> "Dual":
        values = [a.value if isinstance(a, Dual) else float(a) for a in arguments]
        pairs = [(d, a) for d, a in zip(PARTIALS[name], arguments) if isinstance(a, Dual)]
        slope = sum(partial(*values) * dual.slope for partial, dual in pairs)
        return Dual(VALUES[name](*values), slope)


def directional_derivative(function: Callable[..., Any], point: Vector, direction: Vector) -> tuple[Any, Any]:
    r"""$f(x)$ and $J(x)\,\dot x$ in one sweep; `function` takes the entries of `point` one by one.

    The function may return one number or an array or list of them.
    """
    check(len(point) == len(direction), "direction", f"of length {len(point)}", f"length {len(direction)}")
    out = function(*[Dual(float(x), float(v)) for x, v in zip(point, direction)])
    if isinstance(out, Sequence | np.ndarray):
        duals = [_as_dual(entry) for entry in out]
        return np.array([d.value for d in duals]), np.array([d.slope for d in duals])
    dual = _as_dual(out)
    return dual.value, dual.slope


def forward_gradient(function: Callable[..., Any], point: Vector) -> np.ndarray:
    r"""$\nabla f$ (or the Jacobian, $m \times n$) by one forward sweep for each input."""
    columns = [directional_derivative(function, point, seed)[1] for seed in np.eye(len(point))]
    return np.stack(columns, axis=-1)


def _as_dual(entry: Any) -> Dual:
    return entry if isinstance(entry, Dual) else Dual(float(entry))
