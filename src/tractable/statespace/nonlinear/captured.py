"""Functions that hold traced values, made into modules whose leaves these values are.

A system that is built inside `jax.grad` of its parameters has functions that captured tracers. A compiled
program takes arrays as arguments and functions as they are, so what they captured must become arguments too:
the function is kept by its code, and its captured values are leaves.

Cost.        Nothing where nothing traced was captured: the function stays as it is.
"""

import types
from collections.abc import Callable
from typing import Any

import jax

from tractable.core.checks import has_values
from tractable.core.module import Module, field

__all__ = ["Captured", "as_function"]


class _Code:
    """What of a function is not captured, compared by value."""

    def __init__(self, function: types.FunctionType):
        self.function = function
        self.key = (function.__code__, id(function.__globals__), function.__name__)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Code) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Captured(Module):
    """A function as its code, and the values that it captured or has as defaults."""

    code: _Code = field(static=True)
    cells: tuple
    defaults: tuple

    def __call__(self, *args: Any) -> Any:
        return self.rebuilt()(*args)

    def rebuilt(self) -> Callable[..., Any]:
        """The function with the captured values that the leaves are now."""
        like = self.code.function
        cells = tuple(types.CellType(value) for value in self.cells)
        return types.FunctionType(
            like.__code__, like.__globals__, like.__name__, self.defaults or None, cells
        )


def as_function(function: Any) -> Any:
    """`function`, or a module of its code and captured values where one of them is traced."""
    if not isinstance(function, types.FunctionType) or function.__kwdefaults__:
        return function
    try:
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    except ValueError:  # a cell that is not filled yet
        return function
    defaults = function.__defaults__ or ()
    if has_values(jax.tree.leaves((cells, defaults))):
        return function
    return Captured(_Code(function), cells, defaults)
