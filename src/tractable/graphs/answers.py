"""Answers that say how they were found: marginals as plain dictionaries, joint tables, with their report.

Cost.        None.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.module import field
from tractable.distributions.table_axes import TableAxes
from tractable.distributions.tables import JointTable
from tractable.graphs.queries import Cost

__all__ = ["Answer", "Marginals", "Report"]

_MOST_ROWS = 24


@dataclass(frozen=True)
class Report:
    """The algorithm of an answer, how far to trust it, and what it cost."""

    algorithm: str
    exact: bool
    verdict: str
    seconds: float
    cost: Cost | None = None

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.seconds:.2g} s: {self.verdict}"


class Marginals(dict):
    """`{variable: {state: probability}}` of the variables that were not observed, with `report`.

    The error of each probability, where the algorithm has one, is in `errors`; `log_evidence` is NaN where
    the algorithm does not tell it.
    """

    def __init__(
        self,
        marginals: Mapping[str, Mapping[Any, float]],
        report: Report,
        log_evidence: float,
        certain: Mapping[str, Mapping[Any, float]] | None = None,
        errors: Mapping[str, Mapping[Any, float]] | None = None,
    ):
        super().__init__(marginals)
        self.report, self.log_evidence = report, log_evidence
        self.certain, self.errors = dict(certain or {}), dict(errors or {})

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return self.report.algorithm

    @property
    def exact(self) -> bool:
        """Whether the numbers are exact, up to rounding."""
        return self.report.exact

    def to_pandas(self) -> Any:
        """One row per variable and state."""
        import pandas as pd

        rows = [(name, state, p) for name, states in self.items() for state, p in states.items()]
        return pd.DataFrame(rows, columns=["variable", "state", "probability"])

    def __missing__(self, name: Any) -> Mapping[Any, float]:
        """An observed variable has its state for certain."""
        known = ", ".join((*self, *self.certain))
        check(name in self.certain, "variable", f"one of {known}", repr(name), error=KeyError)
        return self.certain[name]

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0) + 2
        lines = [
            f"{name:<{width}}" + "  ".join(f"{state}: {p:.6f}" for state, p in states.items())
            for name, states in list(self.items())[:_MOST_ROWS]
        ]
        left = [f"... and {len(self) - _MOST_ROWS} more"] if len(self) > _MOST_ROWS else []
        return "\n".join([*lines, *left, str(self.report)])


class Answer(JointTable):
    """A joint table that knows how it was found."""

    report: Report = field(static=True, default=None)

    def __init__(self, axes: TableAxes, probs: np.ndarray, report: Report):
        super().__init__(axes.names, probs, axes.states, validate=False)
        self.report = report

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n{self.report}"
