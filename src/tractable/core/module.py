"""Immutable pytrees whose constrained leaves name their support once.

A `Module` is an `equinox.Module`: a frozen dataclass and a pytree. `field(support=positive)` converts the
value to floats and checks it where the object is made by hand; under `jit` there are no values and only
shapes are checked. `rank` is the rank of the field in one unit of the object (a mean vector: 1); the leading
axes of a field are independent units. `show=False` hides a field where the object is printed, and
`about="..."` says beside it what it is.
"""

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, dataclass_transform

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tractable._hints import call_words
from tractable.core.checks import as_float, check, check_entries
from tractable.core.description import Described
from tractable.core.support import Support, real
from tractable.core.types import Shape

__all__ = ["HostResult", "Module", "field", "plates", "supports"]


class _Parameter:
    """The converter behind `field(support=...)`: floats in, membership checked, errors by name."""

    name: str = "value"

    def __init__(self, support: Support, rank: int):
        self.support, self.rank = support, rank

    def __call__(self, value: Any) -> Any:
        array = as_float(self.name, value)
        must = f"an array with at least {self.rank} axes"
        check(array.ndim >= self.rank, self.name, must, f"shape {array.shape}")
        check_entries(self.name, array, self.support.contains, self.support.words)
        return array


def field(
    *,
    support: Support | None = None,
    rank: int = 0,
    static: bool = False,
    show: bool = True,
    about: str = "",
    **options: Any,
) -> Any:
    """A dataclass field; with `support`, a parameter: converted to floats and checked on construction."""
    metadata = {**options.pop("metadata", {}), "show": show, "about": about}
    if support is None:
        return eqx.field(static=static, metadata=metadata, **options)
    rank = max(rank, support.ndim)
    metadata |= {"support": support, "rank": rank}
    return eqx.field(converter=_Parameter(support, rank), metadata=metadata, **options)


@dataclass_transform(field_specifiers=(field, eqx.field, dataclasses.field))
class _Declared(type(eqx.Module)):
    """The metaclass of equinox, which tells type checkers that `field` declares a field, and users which
    keywords a constructor has."""

    if not TYPE_CHECKING:  # type checkers read the fields

        def __call__(cls, *args: Any, **options: Any) -> Any:
            try:
                return super().__call__(*args, **options)
            except TypeError as error:
                name = cls.__name__
                said = call_words(
                    name, f"{name}.__init__", lambda: inspect.signature(cls).parameters, str(error)
                )
                if said is None:
                    raise
                raise TypeError(said) from None


class Module(Described, eqx.Module, metaclass=_Declared):
    """The base of everything that has parameters: distributions, models, states, results."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in vars(cls).items():
            if isinstance(value, dataclasses.Field) and isinstance(
                value.metadata.get("converter"), _Parameter
            ):
                value.metadata["converter"].name = name


class HostResult(Module):
    """The mark of results that stay on the host on purpose: searches over trees of text, proofs, records of
    a study. They are pytrees, but their methods need values and do not pass through `jit`, `vmap` or
    `grad`; every other result does."""


def supports(module: Module) -> dict[str, Support]:
    """The support of each parameter field (fields without one are `real` if they hold floats)."""
    fields = dataclasses.fields(module)
    return {f.name: f.metadata.get("support", real) for f in fields if not f.metadata.get("static", False)}


def plates(module: Module) -> Shape:
    """The leading axes that the parameter fields share after broadcasting: the independent units in the
    object."""
    leading = []
    for f in dataclasses.fields(module):
        if "rank" in f.metadata:
            shape = jnp.shape(getattr(module, f.name))
            leading.append(shape[: len(shape) - f.metadata["rank"]])
    try:
        return np.broadcast_shapes(*leading)
    except ValueError as error:
        shapes = {
            f.name: jnp.shape(getattr(module, f.name))
            for f in dataclasses.fields(module)
            if "rank" in f.metadata
        }
        raise ValueError(
            f"`{type(module).__name__}` must have parameters whose shapes broadcast; got {shapes}."
        ) from error
