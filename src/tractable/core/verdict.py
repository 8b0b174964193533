"""The one form of a judgement: whether a result may be used, a sentence, and the numbers behind it.

Whatever checks or certifies returns a `Verdict`, or a result whose `verdict` is one. It is true where the
result is fit for use, prints as its sentence, and is hashable, so that it passes through `jit` as a constant.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tractable.core.checks import check, is_concrete
from tractable.core.module import Module, field

__all__ = ["Verdict"]


class Verdict(Module):
    """Whether a result may be used (`ok`), what a person should read (`sentence`), and `numbers` by name.

    >>> verdict = Verdict(True, "Converged: the gradient is small.", {"gradient_norm": 1e-9})
    >>> verdict
    Converged: the gradient is small.
    >>> bool(verdict), verdict.numbers["gradient_norm"]
    (True, 1e-09)
    """

    ok: bool = field(static=True)
    sentence: str = field(static=True)
    items: tuple[tuple[str, Any], ...] = field(static=True)

    def __init__(self, ok: Any, sentence: str, numbers: Mapping[str, Any] | None = None):
        numbers = numbers or {}
        check(is_concrete(ok), "ok", "known: a verdict is given outside `jit`", "a tracer")
        self.ok = bool(ok)
        self.sentence = sentence
        self.items = tuple((name, _plain(name, value)) for name, value in numbers.items())

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers behind the sentence, by name."""
        return dict(self.items)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return self.sentence


def _plain(name: str, value: Any) -> Any:
    """A number, or nested tuples of numbers, of Python: hashable, and the same in every process."""
    check(is_concrete(value), name, "known: a verdict is given outside `jit`", "a tracer")
    if hasattr(value, "dtype"):
        value = np.asarray(value).tolist()
    return tuple(_plain(name, entry) for entry in value) if isinstance(value, list | tuple) else value
