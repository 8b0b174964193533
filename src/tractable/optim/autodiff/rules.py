r"""The derivative of each elementary operation, written once for dual numbers, tapes and expressions.

Rules.       Sum $(1, 1)$, product $(y, x)$, quotient $(1/y, -x/y^2)$, power $(y x^{y-1}, x^y \log x)$,
             $\sin' = \cos$, $\exp' = \exp$, $\log' = 1/x$, ...; the chain rule belongs to whoever applies
             them.
Design.      A rule is written in the operations themselves, so it gives a number for numbers and an
             expression for expressions. `Operand` overloads `+ - * / **`; a subclass says in `operate` what
             an operation on it makes.
Cost.        One Python call per scalar operation: for learning, checking and small problems. Real work goes
             through JAX (optim.autodiff.jacobian).
References.  Griewank and Walther (2008).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "PARTIALS", "VALUES", "Operand", "absolute", "apply", "cos", "exp", "log", "relu", "sigmoid", "sin",
    "sqrt", "tan", "tanh",
]  # fmt: skip


class Operand:
    """Anything that takes part in `+ - * / **` and the functions below."""

    # NumPy's scalars and arrays leave the operation to this class, whichever side they stand on.
    __array_ufunc__ = None

    @classmethod
    @abstractmethod
    def operate(cls, name: str, arguments: Sequence[Any]) -> "Operand":
        """What the named operation makes of these arguments, some of which are plain numbers."""

    def __add__(self, other: Any) -> Any:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return apply("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return apply("divide", other, self)

    def __pow__(self, other: Any) -> Any:
        return apply("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return apply("power", other, self)

    def __neg__(self) -> Any:
        return apply("negative", self)


def apply(name: str, *arguments: Any) -> Any:
    """The named operation on numbers, operands, or arrays of them (then entry by entry)."""
    if any(isinstance(a, np.ndarray) and a.ndim for a in arguments):
        return np.frompyfunc(lambda *entries: apply(name, *entries), len(arguments), 1)(
            *[np.asarray(a, object) for a in arguments]
        )
    for argument in arguments:
        if isinstance(argument, Operand):
            return type(argument).operate(name, arguments)
    return VALUES[name](*[float(a) for a in arguments])


def sin(x: Any) -> Any:
    return apply("sin", x)


def cos(x: Any) -> Any:
    return apply("cos", x)


def tan(x: Any) -> Any:
    return apply("tan", x)


def exp(x: Any) -> Any:
    return apply("exp", x)


def log(x: Any) -> Any:
    return apply("log", x)


def sqrt(x: Any) -> Any:
    return apply("sqrt", x)


def tanh(x: Any) -> Any:
    return apply("tanh", x)


def sigmoid(x: Any) -> Any:
    r"""$1/(1 + e^{-x})$."""
    return apply("sigmoid", x)


def relu(x: Any) -> Any:
    r"""$\max(x, 0)$, with slope zero at zero."""
    return apply("relu", x)


def absolute(x: Any) -> Any:
    r"""$|x|$, with slope zero at zero."""
    return apply("absolute", x)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _power_slope(x: Any, y: Any) -> Any:
    """$y x^{y-1}$; nothing changes where the exponent is the number zero, not even at $x = 0$."""
    return 0.0 if isinstance(y, int | float) and y == 0 else y * x ** (y - 1)


VALUES: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "negative": lambda x: -x,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "tanh": math.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: max(x, 0.0),
    "absolute": abs,
    "sign": lambda x: float(np.sign(x)),
    "step": lambda x: float(x > 0),
}

# One function for each argument, so that a slope in a plain number (the exponent of x**2) is not asked for.
PARTIALS: dict[str, tuple[Callable[..., Any], ...]] = {
    "add": (lambda x, y: 1.0, lambda x, y: 1.0),
    "subtract": (lambda x, y: 1.0, lambda x, y: -1.0),
    "multiply": (lambda x, y: y, lambda x, y: x),
    "divide": (lambda x, y: 1.0 / y, lambda x, y: -x / y**2),
    "power": (_power_slope, lambda x, y: x**y * log(x)),
    "negative": (lambda x: -1.0,),
    "sin": (cos,),
    "cos": (lambda x: -sin(x),),
    "tan": (lambda x: 1.0 / cos(x) ** 2,),
    "exp": (exp,),
    "log": (lambda x: 1.0 / x,),
    "sqrt": (lambda x: 0.5 / sqrt(x),),
    "tanh": (lambda x: 1.0 - tanh(x) ** 2,),
    "sigmoid": (lambda x: sigmoid(x) * sigmoid(-x),),
    "relu": (lambda x: apply("step", x),),
    "absolute": (lambda x: apply("sign", x),),
    "sign": (lambda x: 0.0,),
    "step": (lambda x: 0.0,),
}
