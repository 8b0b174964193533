r"""Constrained and real: the map onto each support, and any model as one vector of free numbers.

Identity.    With $\theta = T(u)$ for all constrained leaves at once, a density of $\theta$ becomes one of the
             real vector $u$ by adding $\log|\det\partial T/\partial u|$, the sum over leaves and over their
             independent members.
Volume.      On lower-dimensional sets: the simplex by its first $k - 1$ coordinates, covariances and Cholesky
             factors by their lower triangle, correlations and their factors by the strict lower triangle,
             unit vectors by surface.
Cost.        That of the maps; one pass over the leaves.
"""

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.base import Bijection, Image
from tractable.bijections.compose import Concatenate, Members, Parts
from tractable.bijections.elementwise import Exp, Identity
from tractable.bijections.interval import OntoInterval
from tractable.bijections.simplex import OntoOrdered, OntoPositiveOrdered, OntoSphere, StickBreaking
from tractable.bijections.triangular import (
    OntoCorrelation,
    OntoCorrelationCholesky,
    OntoLowerCholesky,
    OntoPositiveDefinite,
)
from tractable.core import support as sets
from tractable.core.checks import as_float, check, check_entries, is_concrete, offender
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.support import Support, as_support, real
from tractable.core.types import Array, ArrayLike, Float, PyTree, Scalar, Shape

__all__ = ["Rebuild", "bijection_onto", "unconstrain"]

Supports = Support | str | Mapping[str, Support | str | None]


@singledispatch
def bijection_onto(support: Support) -> Bijection:
    """The map from free numbers onto (the inside of) `support`; leading axes hold independent members.

    A new support joins with `@bijection_onto.register(ItsClass)`.

    >>> float(bijection_onto(sets.positive).inverse(1.0))
    0.0
    """
    known = ", ".join(sorted(cls.__name__ for cls in bijection_onto.registry if cls is not object))
    fix = f"Register one with `bijection_onto.register({type(support).__name__})`; known: {known}."
    raise TypeError(
        f"`support` must be one with a map from the real numbers; got {type(support).__name__}. {fix}"
    )


_ONTO: dict[type[Support], Bijection] = {
    sets.Real: Identity(),
    sets.ExtendedReal: Identity(),
    sets.LogWeights: Identity(),
    sets.Positive: Exp(),
    sets.NonNegative: Exp(),
    sets.Simplex: Members(StickBreaking()),
    sets.Ordered: Members(OntoOrdered()),
    sets.PositiveOrdered: Members(OntoPositiveOrdered()),
    sets.Sphere: Members(OntoSphere()),
    sets.LowerCholesky: Members(OntoLowerCholesky()),
    sets.PositiveSemidefinite: Members(OntoPositiveDefinite()),
    sets.CorrelationCholesky: Members(OntoCorrelationCholesky()),
    sets.Correlation: Members(OntoCorrelation()),
}

for _class, _map in _ONTO.items():
    bijection_onto.register(_class, lambda support, map_=_map: map_)


@bijection_onto.register(sets.Interval)
def _onto_interval(support: sets.Interval) -> Bijection:
    return OntoInterval(support.low, support.high)


@bijection_onto.register(sets.IntegerRange)
def _onto_integers(support: sets.IntegerRange) -> Bijection:
    fix = "No smooth map reaches whole numbers: sum them out, or hold them fixed."
    raise TypeError(f"`support` must be continuous; got {support.words}. {fix}")


@bijection_onto.register(Image)
def _onto_image(support: Image) -> Bijection:
    return bijection_onto(support.original) >> support.bijection


@bijection_onto.register(Parts)
def _onto_parts(support: Parts) -> Bijection:
    maps = [bijection_onto(part) for part in support.supports]
    parts = [jax.ShapeDtypeStruct((n,), jnp.result_type(float)) for n in support.sizes]
    return Concatenate(maps, [jax.eval_shape(m.inverse, part).shape[0] for m, part in zip(maps, parts)])


class _Slot(NamedTuple):
    """Where one leaf lives: its name, its place among the leaves, the shape and type of its free numbers."""

    path: str
    leaf: int
    shape: Shape
    dtype: Any

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Rebuild(Module):
    """The way back from free numbers: `rebuild(real)` gives the model and the log-determinant. A pytree like
    any other."""

    bijections: tuple[Bijection, ...]
    kept: tuple[Any, ...]
    slots: tuple[_Slot, ...] = field(static=True)
    structure: Any = field(static=True)

    def __call__(self, real: ArrayLike) -> tuple[PyTree, Scalar]:
        """The model whose free numbers are `real`, and the log-determinant of the map that makes it; no
        values are checked."""
        vector = as_float("real", real)
        check(
            vector.shape == (self.size,), "real", f"a vector of length {self.size}", f"shape {vector.shape}"
        )
        leaves: dict[int, Any] = {}
        total, start = jnp.zeros((), vector.dtype), 0
        for slot, bijection in zip(self.slots, self.bijections):
            free = vector[start : start + slot.size].reshape(slot.shape).astype(slot.dtype)
            leaves[slot.leaf], log_det = bijection.forward_and_log_det(free)
            total, start = total + log_det, start + slot.size
        kept = iter(self.kept)
        every = [leaves[i] if i in leaves else next(kept) for i in range(len(leaves) + len(self.kept))]
        return jax.tree.unflatten(self.structure, every), total

    @property
    def size(self) -> int:
        """How many free numbers there are."""
        return sum(slot.size for slot in self.slots)

    @property
    def names(self) -> list[str]:
        """The dotted path of the leaf behind each free number, with its index where the leaf has several."""
        return [name for slot in self.slots for name in _numbered(slot)]


def unconstrain(
    module: PyTree, supports: Supports | None = None, *, name: str = "module"
) -> tuple[Float[Array, " n"], Rebuild]:
    """The float leaves of `module` as one real vector, and `rebuild(real) -> (module, log_det)` for the way
    back.

    Fields declare their support with `field(support=...)`; other float arrays are real. Integers, truth
    values, keys and static fields stay as they are, and so do Python floats in a field without a support
    (they are options); in dicts, lists and tuples they are parameters. `supports` gives or replaces the
    support of leaves by name (`"tau"`) or dotted path (`"prior.0.tau"`); `None` holds a leaf, or everything
    below the path, fixed. Errors call the whole by `name`.

    >>> free, rebuild = unconstrain({"mu": 0.5, "tau": 1.0}, supports={"tau": sets.positive})
    >>> free.tolist(), rebuild.names
    ([0.5, 0.0], ['mu', 'tau'])
    >>> {name: float(value) for name, value in rebuild(free)[0].items()}
    {'mu': 0.5, 'tau': 1.0}
    """
    found, structure = jax.tree_util.tree_flatten_with_path(module)
    paths = [_dotted(keys) for keys, _ in found]
    if supports is not None and not isinstance(supports, Mapping):
        floats = [path for path, (_, value) in zip(paths, found) if _is_float(value)]
        supports = dict.fromkeys(floats, as_support("", supports))
    given = _matched(supports or {}, paths)
    chosen, kept = [], []
    for i, (path, (keys, value)) in enumerate(zip(paths, found)):
        support = _support_of(module, path or name, path, keys, value, given)
        if support is None:
            kept.append(value)
        else:
            chosen.append((i, path, support, _inside(path or name, support, value)))
    bijections = tuple(bijection_onto(support) for _, _, support, _ in chosen)
    free, vector = _freed(bijections, tuple(array for *_, array in chosen))
    for (_, path, support, array), numbers in zip(chosen, free):
        _check_interior(path or name, support, array, numbers)
    slots = tuple(_Slot(c[1], c[0], numbers.shape, c[3].dtype) for c, numbers in zip(chosen, free))
    return vector, Rebuild(bijections, tuple(kept), slots, structure)


@program
def _freed(bijections: tuple[Bijection, ...], arrays: tuple) -> tuple[list, Float[Array, " n"]]:
    """The free numbers of each leaf, and of all: one program, where one per operation would take seconds."""
    free = [bijection.inverse(array) for bijection, array in zip(bijections, arrays)]
    dtype = jnp.result_type(*[numbers.dtype for numbers in free]) if free else jnp.result_type(float)
    parts = [numbers.reshape(-1).astype(dtype) for numbers in free]
    return free, jnp.concatenate([jnp.zeros(0, dtype), *parts])


def _hold(path: str) -> str:
    return f'hold the leaf fixed with `supports={{"{path}": None}}`'


def _inside(name: str, support: Support, value: Any) -> Any:
    """A leaf as an array of floats, refused by name where it is not inside its support."""
    got, fix = f"a leaf that is {support.words}", f"Sum it out, or {_hold(name)}."
    check(not support.discrete, name, "continuous to be a free number", got, fix, TypeError)
    array = np.asarray(value, jnp.result_type(value)) if is_concrete(value) else as_float(name, value)
    axes = f"an array with at least {support.ndim} axes"
    check(array.ndim >= support.ndim, name, axes, f"shape {array.shape}")
    check_entries(name, array, support.contains, support.words)
    return array


def _check_interior(name: str, support: Support, array: Any, free: Any) -> None:
    """Refuse a leaf whose free numbers are infinite."""
    if not is_concrete(free):
        return
    finite = np.isfinite(np.asarray(free))
    inside = finite.all(-1) if support.ndim and free.ndim else finite
    if not inside.all():
        fix = f"The free number there is infinite: give an interior value, or {_hold(name)}."
        must = f"strictly inside its support ({support.words})"
        check(False, name, must, offender(array, inside), fix)


def _support_of(
    module: PyTree, name: str, path: str, keys: tuple, value: Any, given: Mapping[str, Support | None]
) -> Support | None:
    """The support of one leaf; `None` for a leaf that stays as it is."""
    if path in given:
        able = given[path] is None or _is_float(value)
        check(able, name, "an array of floats to have a support", _kind(value), error=TypeError)
        return given[path]
    if not _is_float(value):
        complex_leaf = jnp.issubdtype(getattr(value, "dtype", np.dtype(int)), jnp.complexfloating)
        check(not complex_leaf, name, "real", _kind(value), "Split it into two arrays.", TypeError)
        return None
    declared, in_field = _declared(module, keys)
    if declared is None and in_field and isinstance(value, float):
        return None
    return real if declared is None else declared


def _declared(module: PyTree, keys: tuple) -> tuple[Support | None, bool]:
    """The support that the field of a leaf declares, and whether a module holds the leaf itself."""
    node, support, in_field = module, None, False
    for key in keys:
        in_field = isinstance(node, eqx.Module)
        if isinstance(key, jax.tree_util.GetAttrKey):
            fields = getattr(type(node), "__dataclass_fields__", {})
            support = fields[key.name].metadata.get("support") if key.name in fields else None
            node = getattr(node, key.name)
        elif isinstance(key, jax.tree_util.DictKey):
            node, support = node[key.key], None
        elif isinstance(key, jax.tree_util.SequenceKey):
            node, support = node[key.idx], None
        else:  # a foreign pytree: nothing below it can declare a support
            return None, False
    return support, in_field


def _matched(supports: Mapping[str, Support | str | None], paths: list[str]) -> dict[str, Support | None]:
    """The given support of each leaf that a name or a dotted path reaches; the longest name wins."""
    given: dict[str, Support | None] = {}
    for key in sorted(supports, key=len):
        reached = [
            p
            for p in paths
            if p == key or p.endswith(f".{key}") or (supports[key] is None and p.startswith(f"{key}."))
        ]
        check(bool(reached), "supports", f"keyed by leaves of the module ({', '.join(paths)})", repr(key))
        support = supports[key]
        given.update(dict.fromkeys(reached, None if support is None else as_support(key, support)))
    return given


def _dotted(keys: tuple) -> str:
    names = [getattr(key, "name", getattr(key, "key", getattr(key, "idx", key))) for key in keys]
    return ".".join(str(name) for name in names)


def _is_float(value: Any) -> bool:
    if isinstance(value, float):
        return True
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)


def _kind(value: Any) -> str:
    return (
        f"{type(value).__name__} of dtype {value.dtype}" if hasattr(value, "dtype") else type(value).__name__
    )


def _numbered(slot: _Slot) -> list[str]:
    if slot.shape == ():
        return [slot.path]
    return [f"{slot.path}[{', '.join(map(str, index))}]" for index in np.ndindex(*slot.shape)]
