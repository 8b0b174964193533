r"""Sums of pytrees that lose nothing to rounding, and that can be made in parts and joined.

Sum.         `total` holds the rounded sum and `lost` what rounding took from it: $s = t + l$ to twice the
             digits. Parts that others summed are joined with what they lost, so that the value does not
             depend on where rows are cut; joined in one order, it does not change by a bit.
Cost.        Six additions for each entry and part.
References.  Neumaier (1974); Ogita, Rump and Oishi (2005).
"""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array

__all__ = ["Sum", "join", "sum_parts"]


class Sum(Module):
    """A sum as it stands, and what rounding has taken from it.

    >>> whole = join([Sum.of(1e16), Sum.of(1.0), Sum.of(-1e16)])
    >>> float(whole.value)
    1.0
    """

    total: Any
    lost: Any

    @classmethod
    def of(cls, part: Any) -> "Sum":
        """The sum of one part; floats are widened to double precision."""
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, _wide(leaf)), part)
        return cls(wide, jax.tree.map(np.zeros_like, wide))

    @property
    def value(self) -> Any:
        """The sum, rounded once."""
        return jax.tree.map(lambda a, b: jnp.asarray(a) + jnp.asarray(b), self.total, self.lost)

    def as_numpy(self) -> "Sum":
        """The same in NumPy arrays, to be sent elsewhere."""
        return jax.tree.map(np.asarray, self)


def sum_parts(function: Callable[[Any, Array], Any], parts: Iterable[tuple[Any, Array]]) -> Sum:
    """The sum of `function(rows, weights)` over parts of one shape, by one program.

    A method of a module with `on_host = True` is not compiled: it is given NumPy arrays.
    """
    total = lost = None
    host = getattr(getattr(function, "__self__", None), "on_host", False)
    for rows, weights in parts:
        here = jax.tree.map(np.asarray, (rows, weights)) if host else (rows, weights)
        part = function(*here) if host else _apply(function, *here)
        if total is None:
            total = lost = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), _wide(leaf)), part)
        total, lost = _add(total, lost, part)
    check(total is not None, "parts", "at least one chunk", "none")
    return Sum(total, lost)


def join(sums: Iterable[Sum]) -> Sum:
    """The sum of sums, in their order, on the host."""
    first, *others = sums
    total, lost = first.total, first.lost
    with np.errstate(invalid="ignore", over="ignore"):  # infinities stay what they are
        for other in others:
            total, lost = _unzip(total, jax.tree.map(_two_sum, total, lost, other.total))
            lost = jax.tree.map(np.add, lost, other.lost)
    return Sum(total, lost)


@program
def _apply(function: Callable, rows: Any, weights: Array) -> Any:
    return function(rows, weights)


@jax.jit
def _add(total: Any, lost: Any, part: Any) -> tuple[Any, Any]:
    return _unzip(total, jax.tree.map(_two_sum, total, lost, part))


def _two_sum(total: Any, lost: Any, part: Any) -> tuple[Any, Any]:
    """One step of Neumaier's sum: `lost` collects what rounding takes; infinities lose nothing."""
    xp = jnp if isinstance(total, jax.Array) else np
    part = xp.asarray(part, total.dtype)
    new = total + part
    rounded = xp.where(abs(total) >= abs(part), (total - new) + part, (part - new) + total)
    return new, xp.where(xp.isfinite(new), lost + rounded, 0).astype(total.dtype)


def _unzip(like: Any, pairs: Any) -> tuple[Any, Any]:
    return jax.tree.transpose(jax.tree.structure(like), jax.tree.structure((0, 0)), pairs)


def _wide(leaf: Any) -> Any:
    dtype = jnp.result_type(leaf)
    return jnp.result_type(float) if jnp.issubdtype(dtype, jnp.floating) else dtype
