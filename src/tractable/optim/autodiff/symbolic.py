r"""Symbolic differentiation: the derivative of a formula is a formula.

Rules.       $(f + g)' = f' + g'$, $(fg)' = f'g + fg'$, $(f/g)' = (f'g - fg')/g^2$ and
             $(f \circ g)' = (f' \circ g)\,g'$: all are sums over the arguments of partial derivative times
             inner derivative, with the partial derivatives of optim.autodiff.rules.
Swell.       Without sharing, the derivative of a product of $n$ factors has $n^2$ of them: that is why
             programs are differentiated by tapes. `simplify` folds constants, removes zeros and ones, and
             gathers the numbers of a product.
Cost.        Linear in the tree for each node of the derivative.
References.  Griewank and Walther (2008) section 1.1.
"""

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tractable.core.checks import check
from tractable.optim.autodiff import rules
from tractable.optim.autodiff.rules import PARTIALS, VALUES, Operand

__all__ = [
    "Constant", "Expression", "Operation", "Variable", "differentiate", "evaluate", "simplify", "to_sympy",
    "variables",
]  # fmt: skip

_INFIX = {"add": (1, " + "), "subtract": (1, " - "), "multiply": (2, " * "), "divide": (2, " / ")}
_POWER = 4


class Expression(Operand):
    """A formula: a constant, a variable, or an operation on formulas; printed as one would write it."""

    @classmethod
    def operate(cls, name: str, arguments: Sequence[Any]) -> "Expression":
        return Operation(name, tuple(_as_expression(a) for a in arguments))

    def __call__(self, **values: Any) -> float:
        """The value of the formula."""
        return evaluate(self, values)

    def derivative(self, variable: "Variable") -> "Expression":
        """The simplified derivative in one variable."""
        return simplify(differentiate(self, variable))


@dataclass(frozen=True)
class Constant(Expression):
    value: float

    def __repr__(self) -> str:
        return f"{self.value:.12g}"


@dataclass(frozen=True)
class Variable(Expression):
    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Operation(Expression):
    name: str
    arguments: tuple[Expression, ...]

    def __repr__(self) -> str:
        parts = self.arguments
        if self.name == "power":
            return f"{_bracket(parts[0], _POWER + 1)} ** {_bracket(parts[1], _POWER)}"
        if self.name == "negative":
            return f"-{_bracket(parts[0], 3)}"
        if self.name in _INFIX:
            level, sign = _INFIX[self.name]
            # the right side of - and / needs brackets at its own level: a - (b - c)
            right = level + (self.name in ("subtract", "divide"))
            return f"{_bracket(parts[0], level)}{sign}{_bracket(parts[1], right)}"
        return f"{self.name}({', '.join(map(repr, parts))})"


def variables(names: str) -> tuple[Variable, ...]:
    """Variables from their names.

    >>> x, y = variables("x y")
    >>> f = (x + 2 * y**3) ** 2
    >>> f.derivative(x), f.derivative(y)
    (2 * (x + 2 * y ** 3), 12 * (x + 2 * y ** 3) * y ** 2)
    """
    return tuple(Variable(name) for name in names.split())


def differentiate(expression: Expression, variable: Variable) -> Expression:
    r"""$\partial f/\partial v$ by the chain rule, as it comes: see `simplify`."""
    if isinstance(expression, Operation):
        total: Expression = Constant(0.0)
        for partial, argument in zip(PARTIALS[expression.name], expression.arguments):
            inner = differentiate(argument, variable)
            if inner != Constant(0.0):  # so that the exponent of x**2 asks for no logarithm
                total = total + _as_expression(partial(*_plain(expression.arguments))) * inner
        return total if total != Constant(0.0) else Constant(0.0)
    return Constant(1.0 if expression == variable else 0.0)


def evaluate(expression: Expression, values: Mapping[str, Any]) -> float:
    """The value of a formula where each variable has a value."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Variable):
        known = expression.name in values
        check(known, "values", f"a value for `{expression.name}`", sorted(values), "Give every variable.")
        return float(values[expression.name])
    assert isinstance(expression, Operation)
    return VALUES[expression.name](*[evaluate(a, values) for a in expression.arguments])


def simplify(expression: Expression) -> Expression:
    """The same formula with constants folded, zeros and ones removed, numbers of a product in front."""
    if not isinstance(expression, Operation):
        return expression
    parts = tuple(simplify(a) for a in expression.arguments)
    if all(isinstance(p, Constant) for p in parts):
        return _fold(expression.name, parts)
    rewrite = _REWRITES.get(expression.name)
    return Operation(expression.name, parts) if rewrite is None else rewrite(*parts)


def to_sympy(expression: Expression) -> Any:
    """The formula as a SymPy expression, where SymPy is installed."""
    try:
        sympy = importlib.import_module("sympy")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("`to_sympy` needs SymPy: pip install sympy.") from error
    if isinstance(expression, Constant):
        return sympy.nsimplify(expression.value)
    if isinstance(expression, Variable):
        return sympy.Symbol(expression.name)
    assert isinstance(expression, Operation)
    parts = [to_sympy(a) for a in expression.arguments]
    special = {
        "sigmoid": lambda x: 1 / (1 + sympy.exp(-x)),
        "relu": lambda x: sympy.Max(x, 0),
        "absolute": sympy.Abs,
        "step": lambda x: sympy.Heaviside(x, 0),
    }
    arithmetic = {**special, **{name: VALUES[name] for name in (*_INFIX, "power", "negative")}}
    rule = arithmetic[expression.name] if expression.name in arithmetic else getattr(sympy, expression.name)
    return rule(*parts)


def _as_expression(value: Any) -> Expression:
    return value if isinstance(value, Expression) else Constant(float(value))


def _plain(arguments: Sequence[Expression]) -> list[Any]:
    """Constants as numbers, so that a rule can see that an exponent is one."""
    return [a.value if isinstance(a, Constant) else a for a in arguments]


def _fold(name: str, parts: Sequence[Expression]) -> Expression:
    """A number, where the operation has one; 1/0 and log(-1) are left as they stand."""
    try:
        value = rules.apply(name, *_plain(parts))
    except (ArithmeticError, ValueError):
        return Operation(name, tuple(parts))
    return (
        Constant(value)
        if isinstance(value, float) and math.isfinite(value)
        else Operation(name, tuple(parts))
    )


def _factors(expression: Expression) -> tuple[float, list[Expression]]:
    """A product as a number and its other factors."""
    if isinstance(expression, Constant):
        return expression.value, []
    if isinstance(expression, Operation) and expression.name == "multiply":
        (a, left), (b, right) = map(_factors, expression.arguments)
        return a * b, left + right
    if isinstance(expression, Operation) and expression.name == "negative":
        number, others = _factors(expression.arguments[0])
        return -number, others
    if isinstance(expression, Operation) and expression.name == "divide":
        above, below = expression.arguments
        number, others = _factors(above)
        return number, [Operation("divide", (_product(others), below))]
    return 1.0, [expression]


def _multiply(x: Expression, y: Expression) -> Expression:
    (a, left), (b, right) = _factors(x), _factors(y)
    number, others = a * b, left + right
    if number == 0 or not others:
        return Constant(number)
    below = [divisor for f in others if (divisor := _reciprocal_of(f)) is not None]
    above = [f for f in others if _reciprocal_of(f) is None]
    sign = number == -1 and above
    chain = (
        above if abs(number) == 1 and above else [Constant(number), *above]
    )  # the number leads: 12 * a * b
    product = chain[0]
    for factor in chain[1:]:
        product = Operation("multiply", (product, factor))
    for divisor in below:
        product = Operation("divide", (product, divisor))
    return Operation("negative", (product,)) if sign else product


def _reciprocal_of(expression: Expression) -> Expression | None:
    """$y$, where the formula is $1/y$."""
    if isinstance(expression, Operation) and expression.name == "divide":
        above, below = expression.arguments
        return below if above == Constant(1.0) else None
    return None


def _add(x: Expression, y: Expression) -> Expression:
    if x == Constant(0.0):
        return y
    if y == Constant(0.0):
        return x
    number, others = _factors(y)
    if number < 0:
        return Operation("subtract", (x, _multiply(Constant(-number), _product(others))))
    return _multiply(Constant(2.0), x) if x == y else Operation("add", (x, y))


def _subtract(x: Expression, y: Expression) -> Expression:
    if x == y:
        return Constant(0.0)
    return _add(x, _multiply(Constant(-1.0), y))


def _divide(x: Expression, y: Expression) -> Expression:
    if y == Constant(1.0):
        return x
    return Constant(0.0) if x == Constant(0.0) else Operation("divide", (x, y))


def _power(x: Expression, y: Expression) -> Expression:
    if y == Constant(1.0):
        return x
    return Constant(1.0) if y == Constant(0.0) else Operation("power", (x, y))


def _product(factors: Sequence[Expression]) -> Expression:
    total: Expression = Constant(1.0)
    for factor in factors:
        total = _multiply(total, factor)
    return total


_REWRITES: dict[str, Callable[..., Expression]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "power": _power,
    "negative": lambda x: _multiply(Constant(-1.0), x),
}


def _level(expression: Expression) -> int:
    """How tightly a formula holds together when printed."""
    if isinstance(expression, Constant):
        return 3 if expression.value < 0 else 9
    if isinstance(expression, Variable):
        return 9
    assert isinstance(expression, Operation)
    fixed = {"power": _POWER, "negative": 3}
    return _INFIX[expression.name][0] if expression.name in _INFIX else fixed.get(expression.name, 9)


def _bracket(expression: Expression, level: int) -> str:
    text = repr(expression)
    return f"({text})" if _level(expression) < level else text
