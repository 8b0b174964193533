"""What a run checks: sizes of plates, lengths of chains, shapes of values; and the line that is at fault.

Line.        The innermost one outside of the libraries: of the user's model.
Cost.        None but a walk up the stack.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, is_concrete
from tractable.core.types import Array, PyTree
from tractable.core.user_code import is_library
from tractable.distributions.base import Distribution

__all__ = [
    "check_names", "check_shape_of", "here", "is_known", "is_traced", "parts_of_steps",
    "plate_size", "scan_length",
]  # fmt: skip


def check_names(names: Iterable[str], sites: Mapping[str, Any]) -> None:
    """Refuse values that are set from outside for sites that the model does not have."""
    unknown = [name for name in names if name not in sites]
    must = f"of sites of the model ({', '.join(sites)})"
    check(not unknown, "values", must, ", ".join(map(repr, unknown)))


def plate_size(name: str, size: Any) -> tuple[int, tuple | None]:
    """How many units a plate has, and their labels."""
    fix = f"At {here()}. A number that is drawn can be that of no plate: shapes are known beforehand."
    what = f"size of plate {name!r}"
    check(is_concrete(size), what, "known beforehand", "a traced value", fix, TypeError)
    labels = None if np.ndim(size) == 0 else tuple(np.asarray(size).tolist())
    try:
        return check_count(what, size if labels is None else len(labels)), labels
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} At {here()}. Leave out a plate without units.") from None


def parts_of_steps(name: str, value: Any, count: int) -> Array:
    """A value with one part for each step; a single number stands for all of them."""
    value = jnp.asarray(value)
    if value.ndim == 0:
        return jnp.broadcast_to(value, (count,))
    check(value.shape[0] == count, name, f"one value for each of {count} steps", f"shape {value.shape}")
    return value


def scan_length(name: str, xs: PyTree, length: int | None) -> int:
    sizes = {np.shape(leaf)[0] for leaf in jax.tree.leaves(xs)} | (set() if length is None else {length})
    fix = "Give `length=`, or arrays in `xs` whose first axis is the steps."
    check(len(sizes) == 1, f"scan {name!r}", "of one length", sorted(sizes) or "none", fix)
    return check_count("length", sizes.pop())


def check_shape_of(name: str, distribution: Distribution, value: Array) -> None:
    fix = f"At {here()}."
    check(
        value.shape == distribution.shape, name, f"of shape {distribution.shape}", f"shape {value.shape}", fix
    )


def is_traced(leaf: Any) -> bool:
    return not is_concrete(leaf)


def is_known(tree: Any) -> bool:
    return all(is_concrete(leaf) for leaf in jax.tree.leaves(tree))


def here() -> str:
    """The line of the user's code that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_library(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
