r"""Random numbers on the host: one way from a random key to NumPy's generators.

Scheme.      The words of a key, followed by the numbers of a stream, are the entropy of a `SeedSequence`;
             other numbers are another, independent stream. So work on the host takes keys like work on the
             device, and the same key gives the same numbers on every machine.
Cost.        About twenty microseconds per generator.
References.  O'Neill (2015), "Developing a seed_seq alternative" (the mixing of entropy); NumPy, NEP 19.
"""

from numbers import Integral
from typing import Any

import jax.random as jr
import numpy as np

from tractable.core.checks import check, is_key
from tractable.core.types import Key

__all__ = ["generator", "key_words", "seeds"]


def generator(key: Key | int | np.ndarray, *stream: int) -> np.random.Generator:
    """A NumPy generator that begins at a random key, or at the stream of it that has these numbers.

    A whole number in place of the key is a choice that never changes, such as the order of a fixed split; an
    array of `uint32` is the words of a key.

    >>> import jax.random as jr
    >>> bool(generator(jr.key(0)).random() == generator(jr.key(0)).random())
    True
    """
    return np.random.default_rng(_sequence(key, stream))


def seeds(key: Key | int | np.ndarray, count: int, *stream: int) -> np.ndarray:
    """Independent seeds of 64 bits from a random key, for `count` pieces of work."""
    return _sequence(key, stream).generate_state(count, np.uint64)


def key_words(key: Any) -> np.ndarray:
    """The words of a key as `uint32`; words pass unchanged."""
    return np.asarray(jr.key_data(key) if is_key(key) else key, np.uint32).reshape(-1)


def _sequence(key: Key | int | np.ndarray, stream: tuple[int, ...]) -> np.random.SeedSequence:
    if isinstance(key, Integral):
        return np.random.SeedSequence([int(key), *stream])
    words = isinstance(key, np.ndarray) and key.dtype == np.uint32
    if not (words or is_key(key)):  # what a key looks like takes longer to say than a generator to make
        check(False, "key", "a random key, such as `jax.random.key(0)`", repr(key), error=TypeError)
    return np.random.SeedSequence([*key_words(key).tolist(), *stream])
