"""Random keys at the edge: what is taken for one, and the words where something else was given.

Rule.        Where `key` is given by name (`mcmc(..., key=0)`), a whole number `n` is `jax.random.key(n)`.
             Where it comes first (`sample(key, shape)`), a whole number could be a count that was meant for
             another place, so it is refused with what to write.
Cost.        None to speak of; a whole number becomes a key by a program of JAX's own.
"""

import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable._hints import call_words
from tractable.core.checks import check, is_key
from tractable.core.types import Key

__all__ = ["as_key", "check_key", "takes_key"]

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def as_key(key: Any) -> Key:
    """A random key as it is, a whole number as the key with that seed; other things are refused.

    >>> bool(as_key(3) == jr.key(3))
    True
    """
    if isinstance(key, Integral) and not isinstance(key, bool):
        fits = 0 <= int(key) < 2**63
        check(fits, "key", "a random key or a whole number from 0 to 2**63 - 1", key)
        return jr.key(int(key))
    return check_key(key, "a random key or a whole number", "Write `jax.random.key(0)`.")


def check_key(key: Any, must: str = "a random key, such as `jax.random.key(0)`", fix: str = "") -> Key:
    """A random key as it is, also one of the old style (two words); everything else is refused."""
    if is_key(key):
        return key
    words = isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.ndim > 0
    if not words:
        check(False, "key", must, _kind(key), fix, TypeError)
    return jr.wrap_key_data(jnp.asarray(key))


def takes_key(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """`function`, whose `key` is looked at first, by the rule above; to wrong keywords it says the right."""
    parameters = inspect.signature(function).parameters
    place, parameter = list(parameters).index("key"), parameters["key"]
    optional, name = parameter.default is None, function.__name__
    by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY

    def looked_at(key: Any, named: bool) -> Any:
        if optional and key is None:
            return key
        return as_key(key) if named else check_key(key, fix=_order(name, parameters))

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if "key" in options:
            options["key"] = looked_at(options["key"], True)
        elif len(args) > place:
            args = (*args[:place], looked_at(args[place], by_name), *args[place + 1 :])
        try:
            return function(*args, **options)
        except TypeError as error:
            inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            said = None if inside else call_words(name, function.__qualname__, lambda: parameters, str(error))
            if said is None:
                raise
            raise TypeError(said) from None

    call.__dict__["takes_key"] = True
    return call


def _order(name: str, parameters: Any) -> str:
    shown = [each for each in parameters if each != "self"]
    return f"The order is {name}({', '.join(shown)})."


def _kind(key: Any) -> str:
    if isinstance(key, np.random.Generator | np.random.RandomState):
        return "a NumPy generator, which keeps a state of its own"
    return repr(key) if np.ndim(key) == 0 or isinstance(key, tuple | str) else type(key).__name__
