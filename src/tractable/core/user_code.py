"""The user's functions, called where they are traced: what goes wrong in them is said in their own terms.

Errors.      NumPy, SciPy or `math` on a traced value, a Python `if` on one, and the wrong number of
             arguments: the file and the line of the user's code, and what to use instead. Other errors pass.
Cost.        None: a `try` while a function is traced.
"""

import linecache
import re
from collections.abc import Callable
from types import FrameType
from typing import Any

from jax.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)

__all__ = ["TRACED", "call_user", "is_library", "traced_words", "user_line"]

TRACED = (TracerArrayConversionError, TracerIntegerConversionError, ConcretizationTypeError)

_LIBRARIES = {"contextlib", "equinox", "jax", "jaxlib", "jaxtyping", "numpy", "optax", "scipy", "tractable"}
_MISFIT = re.compile(r"missing \d+ required|takes .* positional argument|unexpected keyword argument")


def call_user(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)`; `name` is the argument by which the user gave it."""
    try:
        return function(*args)
    except TRACED as error:
        said = traced_words(name, error)
        if said is None:
            raise
        raise TypeError(said) from error
    except TypeError as error:
        inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
        if inside or not _MISFIT.search(str(error)):
            raise
        got = f"{len(args)} positional arguments, and the function says: {error}"
        fix = "The first is the point; the others are those of `args`, in their order."
        raise TypeError(f"`{name}` must take what it is called with; got {got}. {fix}") from error


def traced_words(name: str, error: BaseException) -> str | None:
    """What to say of a function whose code cannot be traced, with its line; nothing if no user's code ran."""
    where = user_line(error)
    if not where:
        return None
    if isinstance(error, TracerBoolConversionError):
        must = "free of `if`, `while`, `and` and `or` on traced values"
        return f"`{name}` must be {must}; got one at {where}. Use `jax.numpy.where(condition, a, b)`."
    got = f"NumPy, SciPy, `math` or `float` on a traced value at {where}"
    fix = "Use `jax.numpy`, `jax.scipy` or `tractable.distributions` there."
    if isinstance(error, TracerIntegerConversionError):
        got = f"a traced value where Python needs a whole number (`range`, a place in a list) at {where}"
        fix = "Use `jax.numpy` arrays in place of lists; a loop needs a number that is known beforehand."
    return f"`{name}` must be written with JAX; got {got}. {fix}"


def user_line(error: BaseException) -> str:
    """The last line outside the libraries that the error passed through: `file:line, code`, or nothing."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if not is_library(trace.tb_frame):
            file, number = trace.tb_frame.f_code.co_filename, trace.tb_lineno
            code = linecache.getline(file, number).strip()
            found = f"{file}:{number}" + (f", `{code}`" if code else "")
        trace = trace.tb_next
    return found


def is_library(frame: FrameType) -> bool:
    """Whether a frame runs code of this or of a numerical library, not of the user."""
    return str(frame.f_globals.get("__name__", "")).split(".")[0] in _LIBRARIES
