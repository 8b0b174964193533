"""The one error format: "`name` must be ...; got ... What to do."

Static faults (shape, dtype, option) raise at once. Values are checked at public edges and in constructors,
where they are concrete; under `jit` there are no values to check and nothing is raised.

Cost.        A pass over the values in NumPy; nothing is compiled.
"""

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tractable.core.types import Array, ArrayLike, Bool

__all__ = [
    "ImpossibleEvidence", "as_float", "check", "check_count", "check_entries", "check_finite", "check_length",
    "check_nonnegative", "check_option", "check_shape", "is_concrete", "is_key", "namespace", "offender",
    "to_device",
]  # fmt: skip


class ImpossibleEvidence(ValueError):
    """Evidence of probability zero was conditioned on: what follows from it is undefined."""


def check(
    ok: bool | np.bool_, name: str, must: str, got: Any, fix: str = "", error: type[Exception] = ValueError
) -> None:
    """Raise `error` in the one format unless `ok`.

    >>> check(False, "scale", "positive", -1.0, "Pass a standard deviation.")
    Traceback (most recent call last):
    ValueError: `scale` must be positive; got -1.0. Pass a standard deviation.
    """
    if not ok:
        raise error(f"`{name}` must be {must}; got {got}." + (f" {fix}" if fix else ""))


def is_concrete(x: Any) -> bool:
    """Whether `x` has values now (it is not a tracer of `jit`, `vmap` or `grad`)."""
    return not isinstance(x, Tracer)


def has_values(tree: Any) -> bool:
    """Whether every leaf of a result has values now, so that it can be printed."""
    return all(is_concrete(leaf) for leaf in jax.tree.leaves(tree))


def is_key(x: Any) -> bool:
    """Whether `x` holds typed random keys."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def offender(x: ArrayLike, ok: Bool[np.ndarray, "..."] | np.bool_ | bool) -> str:
    """The first entry of `x` (or sub-array, where `ok` judges sub-arrays) that is not ok, with its index."""
    values, ok = np.asarray(x), np.asarray(ok)
    if ok.ndim == 0:
        return _short(values)
    index = [int(i) for i in np.argwhere(~ok)[0]]
    return f"{_short(values[tuple(index)])} at index {tuple(index) if len(index) > 1 else index[0]}"


def _short(value: Any) -> str:
    if np.ndim(value) == 0:
        return repr(np.asarray(value).item())
    return np.array2string(np.asarray(value), threshold=9, precision=6, separator=", ").replace("\n", "")


def as_float(name: str, value: Any) -> Array:
    """`value` as an array of floats; text, objects and complex numbers are refused by name."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        return value
    if is_concrete(value) and not isinstance(value, jax.Array):
        try:
            traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))
            value = jnp.asarray(value) if traced else np.asarray(value)  # a list that holds tracers
        except (ValueError, TypeError) as error:
            raise TypeError(
                f"`{name}` must be a number or an array of numbers; got {value!r}. {error}"
            ) from error
    kind = jnp.result_type(value) if isinstance(value, jax.Array | Tracer) else value.dtype
    numeric = (
        np.issubdtype(kind, np.number) or np.issubdtype(kind, np.bool_) or jnp.issubdtype(kind, jnp.floating)
    )
    real = numeric and not np.issubdtype(kind, np.complexfloating)
    if not real:  # the message is made only then: printing a large array takes longer than using it
        got = f"{value!r} of dtype {kind}"
        check(False, name, "a real number or an array of real numbers", got, error=TypeError)
    dtype = kind if jnp.issubdtype(kind, jnp.floating) else jnp.result_type(float)
    return to_device(np.array(value, dtype)) if isinstance(value, np.ndarray) else jnp.asarray(value, dtype)


def to_device(array: np.ndarray) -> Array:
    """A NumPy array, which nobody may change, on the device; `jnp.asarray` compiles a program per shape."""
    return jax.device_put(array)


def check_shape(name: str, x: Any, shape: tuple[int | None, ...], fix: str = "") -> None:
    """Check a shape; `None` stands for any length."""
    got = tuple(jnp.shape(x))
    ok = len(got) == len(shape) and all(want in (None, have) for want, have in zip(shape, got))
    wanted = (
        "("
        + ", ".join("any" if n is None else str(n) for n in shape)
        + ("," if len(shape) == 1 else "")
        + ")"
    )
    check(ok, name, f"of shape {wanted}", f"shape {got}", fix)


def check_length(name: str, x: Any, other: str, y: Any) -> None:
    """Check that two arrays have as many rows as each other."""
    rows, wanted = jnp.shape(x)[:1], jnp.shape(y)[:1]
    must = f"as long as `{other}` ({wanted[0] if wanted else 'a scalar'})"
    check(rows == wanted, name, must, rows[0] if rows else "a scalar")


def check_finite(name: str, x: ArrayLike) -> None:
    """Check that concrete values are finite, naming the first that is not."""
    check_entries(name, x, np.isfinite, "finite")


def check_entries(
    name: str, x: Any, ok: Callable[[np.ndarray], Any], must: str, fix: str = "", got: str = "{}"
) -> None:
    """Check that `ok(values)` holds for every entry of concrete values; `got` frames the first that fails."""
    if is_concrete(x):
        values = np.asarray(x)
        fine = np.asarray(ok(values))
        if not fine.all():
            check(False, name, must, got.format(offender(values, fine)), fix)


def check_nonnegative(name: str, x: Any, fix: str = "") -> None:
    """Check that concrete values are zero or positive, and finite, naming the first that is not."""
    check_entries(name, x, lambda v: (v >= 0) & np.isfinite(v), "zero or positive, and finite", fix)


def check_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """`value` as an `int`, if it is a whole number from `least` to `most`."""
    span = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    try:
        count = operator.index(value)
    except TypeError as error:
        raise TypeError(f"`{name}` must be {span}; got {value!r}.") from error
    check(least <= count and (most is None or count <= most), name, span, count)
    return count


def check_option(name: str, value: Any, options: tuple[str, ...]) -> None:
    """Check that `value` is one of the named options."""
    check(value in options, name, "one of " + ", ".join(map(repr, options)), repr(value))


def namespace(*trees: Any) -> Any:
    """`numpy` where every leaf has values, `jax.numpy` where one is traced: host arrays compile nothing.

    A method written over it answers at once on the host, and passes through `jit`, `vmap` and `grad`.

    >>> namespace(np.ones(2)).__name__
    'numpy'
    """
    return np if has_values(trees) else jnp
