r"""Fingerprints: how a saved run is known again, by its structure and by values that it computed.

Structure.   A digest of what a run begins with (options, start, inputs, data), equal to the last bit.
Values.      Code cannot be compared, what it computes can: the numbers that a run left at some of its points
             are computed again there. They must agree to `TOLERANCE` of the largest of an array, and so must
             the differences within an array: a constant of $-10^7$ in a log-density hides nothing.
             That survives another machine and another order of sums; another density does not survive it.
Cost.        One pass over the bytes; the values cost one evaluation or one step where a run goes on.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check

__all__ = ["TOLERANCE", "check_same_values", "digest", "is_same"]

TOLERANCE = 1e-6  # relative, in double precision
_COARSE = 4096  # units of the last place: the tolerance in single precision
_ROUNDING = 1024  # the same: what the differences within an array may lose


def digest(structure: str, leaves: Iterable[Any]) -> str:
    """A text that changes with the structure and with every bit of the arrays and numbers in `leaves`.

    >>> digest("two", [1, 2.0]) == digest("two", [1, 2.0]), digest("two", [1, 2.0]) == digest("two", [1, 3.0])
    (True, False)
    """
    found = hashlib.sha256(structure.encode())
    for leaf in leaves:
        values = np.asarray(leaf)
        found.update(f"{values.dtype}{values.shape}".encode() + np.ascontiguousarray(values).tobytes())
    return found.hexdigest()


def is_same(saved: Any, here: Any) -> bool:
    """Whether arrays hold the same numbers up to rounding, what is not finite included.

    >>> is_same([-1e8 - 1.0, -1e8 - 2.0], [-1e8 - 1.5, -1e8 - 2.0])   # a tenth of a millionth of the values
    False
    """
    a, b = np.asarray(saved), np.asarray(here)
    if a.shape != b.shape:
        return False
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        return bool(np.array_equal(a, b))
    finite = np.isfinite(a)
    if not (
        np.array_equal(finite, np.isfinite(b)) and np.array_equal(a[~finite], b[~finite], equal_nan=True)
    ):
        return False
    a, b = a[finite], b[finite]
    largest, eps = np.abs(a).max(initial=0.0), float(jnp.finfo(a.dtype).eps)
    share = max(TOLERANCE, _COARSE * eps)
    within = np.abs(a - a[:1]).max(initial=0.0)
    level = np.abs(a - b).max(initial=0.0) <= share * largest
    differences = np.abs((a - a[:1]) - (b - b[:1])).max(initial=0.0)
    return bool(level and differences <= share * within + _ROUNDING * eps * largest)


def check_same_values(name: str, must: str, path: Any, saved: Any, here: Any) -> None:
    """Refuse the run at `path` where the values that it holds are not those that are computed `here`."""
    pairs = zip(jax.tree.leaves(saved), jax.tree.leaves(here))
    other = next((pair for pair in pairs if not is_same(*pair)), None)
    if other is not None:
        was, now = (np.array2string(np.ravel(part)[:3], precision=8) for part in other)
        fix = "Give another path, or go on with what the run was of."
        check(False, name, must, f"values {now} where {path} holds {was}", fix)
