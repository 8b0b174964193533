r"""A log-density of any pytree as a log-density of one real vector, whole or on some of its rows.

Identity.    $\log \tilde p(u) = \log p(T(u), \mathrm{args}) + \log p_0(T(u)) + \log|\det\partial T/\partial
             u|$ with $T$ from `bijections.unconstrain`; on a batch $B$ of $N$ rows the first term counts
             $N/|B|$ times, which is unbiased where it is a sum over rows.
Cost.        That of the density.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check, check_finite
from tractable.core.module import Module
from tractable.core.programs import as_data, program
from tractable.core.types import Array, Float, PyTree, Scalar
from tractable.core.user_code import call_user, user_line

__all__ = ["FlatTarget", "freed", "rebuilt"]


class FlatTarget(Module):
    """`log_density(x, *args)` plus `log_prior(x)`, as a function of the free numbers of `x`.

    Data, and the arrays of a density that is a module, are leaves: new ones of the same shapes use the same
    program.
    """

    log_density: Callable[..., Any]
    log_prior: Callable[..., Any] | None
    rebuild: Rebuild
    args: tuple

    @staticmethod
    def of(
        log_density: Callable[..., Any],
        start: Any,
        args: tuple = (),
        log_prior: Callable[..., Any] | None = None,
        supports: Any = None,
    ) -> tuple[Float[Array, " d"], "FlatTarget"]:
        """The free numbers of `start`, and the target on them, after looking at both."""
        fix, kind = "The density comes first, then the start.", type(log_density).__name__
        check(callable(log_density), "log_density", "a function", kind, fix, TypeError)
        _refuse_whole_numbers(start, supports)
        free, rebuild = unconstrain(start, supports, name="start")
        fix = "Give it a float array, a dict of floats, or a module with float fields."
        check(free.size > 0, "start", "a pytree with free numbers", "none", fix)
        check_finite("start", free)
        data = as_data(args)
        return free, FlatTarget(log_density, log_prior, rebuild, data)

    def __call__(self, free: Float[Array, " d"]) -> Scalar:
        """The log-density of the free numbers, on all rows."""
        return self._value(free, self.args, 1.0)

    def on_rows(self, free: Float[Array, " d"], rows: Array) -> Scalar:
        """The same with the likelihood of `rows` (indices) standing for that of all rows."""
        chosen = jax.tree.map(lambda leaf: leaf[rows], self.args)
        return self._value(free, chosen, self.num_rows / rows.shape[0])

    @property
    def num_rows(self) -> int:
        """How many rows the data have."""
        return jax.tree.leaves(self.args)[0].shape[0]

    def _value(self, free: Array, args: tuple, scale: float) -> Scalar:
        x, log_det = self.rebuild(free)
        value = scale * _number("log_density", self.log_density, x, *args) + log_det
        return value if self.log_prior is None else value + _number("log_prior", self.log_prior, x)


@program
def rebuilt(rebuild: Rebuild, points: Float[Array, "n d"]) -> PyTree:
    """Points of the real vector in the space of the start."""
    return jax.vmap(lambda free: rebuild(free)[0])(points)


def freed(rebuild: Rebuild, x: PyTree) -> Float[Array, " d"]:
    """The free numbers of one `x` in the space of the start: the inverse of `rebuild`."""
    leaves = jax.tree.leaves(x)
    slots = zip(rebuild.slots, rebuild.bijections)
    parts = [bijection.inverse(jnp.asarray(leaves[slot.leaf])).reshape(-1) for slot, bijection in slots]
    return jnp.concatenate(parts)


def _number(name: str, function: Callable[..., Any], x: Any, *args: Any) -> Array:
    """The value of the user's function, which must be one number."""
    try:
        value = call_user(name, function, x, *args)
    except KeyError as error:
        if not any(isinstance(each, Mapping) for each in args):  # else it may be the data that lack it
            _name_the_missing(name, x, error)
        raise
    check(value is not None, name, "a function that returns one number", "None", "Has it a `return`?")
    value = jnp.asarray(value)
    fix = "Sum over the rows inside it."
    check(value.shape == (), name, "a function that returns one number", f"shape {value.shape}", fix)
    return value


def _name_the_missing(name: str, x: Any, error: KeyError) -> None:
    """A leaf that the function reads and the start does not have."""
    wanted = error.args[0] if error.args else None
    known = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in _paths(x)]
    if isinstance(x, Mapping) and wanted not in x:
        got, where = f"none for {wanted!r}; it has {', '.join(known)}", user_line(error)
        must = f"a pytree with all leaves that `{name}` reads"
        raise ValueError(f"`start` must be {must}; got {got}. It is read at {where}.") from error


def _refuse_whole_numbers(start: Any, supports: Any) -> None:
    """Whole numbers in a dict, list or tuple would stay as they are, though they were meant to move."""
    held = {name for name, each in supports.items() if each is None} if isinstance(supports, Mapping) else {}
    for path, leaf in _paths(start):
        if any(not isinstance(key, _CONTAINERS) for key in path) or not _is_whole(leaf):
            continue
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if not any(name == each or name.endswith(f".{each}") or name.startswith(f"{each}.") for each in held):
            hold = f', or hold it fixed with `supports={{"{name}": None}}`' if name else ""
            fix = f"Write {_short(leaf)}{hold}."
            check(False, name or "start", "a float to be moved", f"{leaf!r}", fix, TypeError)


_CONTAINERS = (jax.tree_util.DictKey, jax.tree_util.SequenceKey)


def _paths(tree: Any) -> list:
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def _is_whole(leaf: Any) -> bool:
    if isinstance(leaf, int):
        return not isinstance(leaf, bool)
    return jnp.issubdtype(getattr(leaf, "dtype", bool), jnp.integer)


def _short(leaf: Any) -> str:
    return f"{float(leaf)}" if jnp.ndim(leaf) == 0 else "it with `dtype=float`"
