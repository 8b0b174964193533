"""One member of a family, as the laws see it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Case"]


@dataclass(frozen=True)
class Case:
    """A constructor with what an independent source knows about the object that it makes."""

    name: str
    build: Callable[[], Any]
    inside: Any = None  # points of the support at which densities and gradients are compared
    outside: Any = None  # points off the support: log-density -inf
    scipy: Callable[[], Any] | None = None  # the frozen SciPy distribution with the same parameters
    tags: frozenset[str] = field(default_factory=frozenset)  # what a law must know

    def __str__(self) -> str:
        return self.name
