"""The one error format: "`name` must be ...; got ... What to do."

Static faults (shape, dtype, option) raise at once. Values are checked at public edges and in constructors, where
they are concrete; under `jit` there are no values to check and nothing is raised.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.types import Array, ArrayLike, Bool

__all__ = ["as_float", "check", "check_length", "check_shape", "is_concrete", "offender"]


def check(ok: bool | np.bool_, name: str, must: str, got: Any, fix: str = "", error: type[Exception] = ValueError) -> None:
    """Raise `error` in the one format unless `ok`.

    >>> check(False, "scale", "positive", -1.0, "Pass a standard deviation.")
    Traceback (most recent call last):
    ValueError: `scale` must be positive; got -1.0. Pass a standard deviation.
    """
    if not ok:
        raise error(f"`{name}` must be {must}; got {got}." + (f" {fix}" if fix else ""))


def is_concrete(x: Any) -> bool:
    """Whether `x` has values now (it is not a tracer of `jit`, `vmap` or `grad`)."""
    return not isinstance(x, jax.core.Tracer)


def offender(x: ArrayLike, ok: Bool[np.ndarray, "..."] | np.bool_ | bool) -> str:
    """The first entry of `x` (or sub-array, where `ok` judges sub-arrays) that is not ok, with its index."""
    values, ok = np.asarray(x), np.asarray(ok)
    if ok.ndim == 0:
        return _short(values)
    index = tuple(int(i) for i in np.argwhere(~ok)[0])
    return f"{_short(values[index])} at index {index if len(index) > 1 else index[0]}"


def _short(value: np.ndarray) -> str:
    if np.ndim(value) == 0:
        return repr(np.asarray(value).item())
    return np.array2string(np.asarray(value), threshold=9, precision=6, separator=", ").replace("\n", "")


def as_float(name: str, value: Any) -> Array:
    """`value` as an array of floats; text, objects and complex numbers are refused by name."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        return value
    if is_concrete(value) and not isinstance(value, jax.Array):
        try:
            value = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise TypeError(f"`{name}` must be a number or an array of numbers; got {value!r}. {error}") from error
    kind = jnp.result_type(value) if isinstance(value, jax.Array | jax.core.Tracer) else value.dtype
    numeric = np.issubdtype(kind, np.number) or np.issubdtype(kind, np.bool_) or jnp.issubdtype(kind, jnp.floating)
    real = numeric and not np.issubdtype(kind, np.complexfloating)
    check(real, name, "a real number or an array of real numbers", f"{value!r} of dtype {kind}", error=TypeError)
    floating = jnp.issubdtype(kind, jnp.floating)
    return jnp.asarray(value) if floating else jnp.asarray(value, jnp.result_type(float))


def check_shape(name: str, x: Any, shape: tuple[int | None, ...], fix: str = "") -> None:
    """Check a shape; `None` stands for any length."""
    got = tuple(jnp.shape(x))
    ok = len(got) == len(shape) and all(want in (None, have) for want, have in zip(shape, got))
    wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
    check(ok, name, f"of shape {wanted}", f"shape {got}", fix)


def check_length(name: str, x: Any, other: str, y: Any) -> None:
    """Check that two arrays have as many rows as each other."""
    rows, wanted = jnp.shape(x)[:1], jnp.shape(y)[:1]
    check(rows == wanted, name, f"as long as `{other}` ({wanted[0] if wanted else 'a scalar'})", rows[0] if rows else "a scalar")
