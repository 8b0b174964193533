r"""Index arithmetic and masks on the host: what indices and predicates are mostly made of, in NumPy.

Use.         What a program computes from its data before it indexes or chooses (a shift of negative indices,
             a test for finite values) is worth microseconds of NumPy, not a compiled program.
Cost.        That of the NumPy call.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["HOST"]


def _broadcast(params: dict[str, Any], x: np.ndarray) -> Any:
    kept = params["broadcast_dimensions"]
    new = tuple(axis for axis in range(len(params["shape"])) if axis not in kept)
    return np.broadcast_to(np.expand_dims(x, new), params["shape"])


def _iota(params: dict[str, Any], *_: np.ndarray) -> Any:
    shape, axis = params["shape"], params["dimension"]
    line = np.arange(shape[axis]).reshape([-1 if each == axis else 1 for each in range(len(shape))])
    return np.broadcast_to(line, shape)


def _select(params: dict[str, Any], which: np.ndarray, *cases: np.ndarray) -> Any:
    return np.choose(which.astype(np.int64), cases)


def _slice(params: dict[str, Any], x: np.ndarray) -> Any:
    starts, limits = params["start_indices"], params["limit_indices"]
    return x[tuple(map(slice, starts, limits, params["strides"] or (1,) * len(starts)))]


def _reshape(params: dict[str, Any], x: np.ndarray) -> Any:
    order = params["dimensions"]
    return (x if order is None else x.transpose(order)).reshape(params["new_sizes"])


def _convert(params: dict[str, Any], x: np.ndarray) -> Any:
    to = np.dtype(params["new_dtype"])
    # beyond the whole numbers that it can hold each compiler decides for itself
    if x.dtype.kind == "f" and to.kind in "iu" and not np.all(np.abs(x) < 2.0**31):
        return None
    return x.astype(to)


def _divide(params: dict[str, Any], x: np.ndarray, y: np.ndarray) -> Any:
    return np.divide(x, y) if x.dtype.kind == "f" else None  # whole numbers are cut off, not rounded down


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda params, *arrays: function(*arrays)


# each takes the parameters of the primitive and its operands, and may decline with None
HOST: dict[str, Callable[..., Any]] = {
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _divide,
    "sqrt": _plain(np.sqrt),
    "abs": _plain(np.abs),
    "square": _plain(np.square),
    "neg": _plain(np.negative),
    "max": _plain(np.maximum),
    "min": _plain(np.minimum),
    "rem": _plain(np.fmod),
    "sign": _plain(np.sign),
    "floor": _plain(np.floor),
    "clamp": _plain(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "eq": _plain(np.equal),
    "ne": _plain(np.not_equal),
    "lt": _plain(np.less),
    "le": _plain(np.less_equal),
    "gt": _plain(np.greater),
    "ge": _plain(np.greater_equal),
    "is_finite": _plain(np.isfinite),
    "stop_gradient": _plain(np.asarray),
    "copy": _plain(np.asarray),
    "convert_element_type": _convert,
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "not": _plain(np.invert),
    "select_n": _select,
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "reshape": _reshape,
    "slice": _slice,
    "squeeze": lambda params, x: np.squeeze(x, tuple(params["dimensions"])),
    "transpose": lambda params, x: x.transpose(params["permutation"]),
    "rev": lambda params, x: np.flip(x, params["dimensions"]),
    "concatenate": lambda params, *xs: np.concatenate(xs, params["dimension"]),
}
