"""Models and samplers of state that workers of a cluster import by name."""

import os
from typing import Any

from tractable.core.module import Module

__all__ = ["Counted", "mean_of", "process", "square", "traces"]

_TRACES: list[tuple] = []


class Counted(Module):
    """A model that records each time that its E-step runs as Python: once for each program."""

    model: Any

    def e_step(self, rows, weights):
        _TRACES.append(rows.shape)
        return self.model.e_step(rows, weights)

    def m_step(self, stats):
        return Counted(self.model.m_step(stats))


def traces() -> list[tuple]:
    """What this process has traced so far."""
    return list(_TRACES)


def process(_: Any = None) -> int:
    """The number of this process."""
    return os.getpid()


def square(x: float, shared: Any = None) -> float:
    """A task."""
    return x * x + (0 if shared is None else shared)


def mean_of(X, y):
    """A learner that always says the mean."""
    return lambda new: [y.mean()] * len(new)
