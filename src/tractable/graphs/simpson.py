r"""Simpson's paradox: a treatment that is better in every group and worse in all together.

Reversal.    $P(y \mid a, z) - P(y \mid b, z)$ has one sign for every group $z$, and
             $P(y \mid a) - P(y \mid b)$ the other.
Adjusted.    $P(y \mid do(a)) = \sum_z P(y \mid a, z) P(z)$, if $z$ blocks every back door; in a randomised
             trial the treatment has no causes, and the plain difference is the effect.
Cost.        Linear in the cells of the table.
References.  Simpson (1951); Charig et al. (1986), kidney stones; Pearl (2009) section 6.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.description import Described
from tractable.distributions.tables import JointTable
from tractable.graphs.intervention import back_door_adjustment

__all__ = ["SimpsonReport", "kidney_stones", "simpson_report"]


@dataclass(frozen=True, repr=False)
class SimpsonReport(Described):
    """Success of two treatments: in all, in each group, and adjusted for the groups."""

    treatments: tuple[Any, Any]
    groups: tuple[Any, ...]
    total: np.ndarray  # one per treatment
    grouped: np.ndarray  # one row per group, one column per treatment
    adjusted: np.ndarray  # one per treatment

    @property
    def total_effect(self) -> float:
        """The difference of the first treatment and the second in all together."""
        return float(self.total[0] - self.total[1])

    @property
    def grouped_effects(self) -> np.ndarray:
        """The difference in each group."""
        return self.grouped[:, 0] - self.grouped[:, 1]

    @property
    def adjusted_effect(self) -> float:
        """The difference after adjustment: the causal effect, if the groups block every back door."""
        return float(self.adjusted[0] - self.adjusted[1])

    @property
    def reversal(self) -> bool:
        """Whether every group has an effect of one sign, and the total one of the other."""
        signs = set(np.sign(self.grouped_effects).tolist())
        return len(signs) == 1 and signs == {-float(np.sign(self.total_effect))} and signs != {0.0}

    def _columns(self) -> dict[str, Any]:
        first, second = np.vstack([self.grouped, self.total, self.adjusted]).T
        names = [*map(str, self.groups), "in all", "adjusted"]
        shown = {str(t): [f"{p:.6f}" for p in column] for t, column in zip(self.treatments, (first, second))}
        return {"group": names, **shown, "difference": [f"{d:+.6f}" for d in first - second]}

    def _note(self) -> str:
        return "Reversed: the total misleads." if self.reversal else "No reversal."


def simpson_report(
    table: JointTable,
    treatment: str,
    outcome: str,
    group: str,
    *,
    success: Any,
    treatments: Sequence[Any] | None = None,
) -> SimpsonReport:
    """Compare two treatments (by default the only two) on the probability of an outcome's state `success`."""
    states = table.states
    pair = tuple(states[treatment] if treatments is None else treatments)
    check(len(pair) == 2, "treatments", "two states to compare", pair)
    success_at = table.axes.mask(outcome, [success]).argmax()
    at = [int(table.axes.mask(treatment, [each]).argmax()) for each in pair]
    total = np.asarray(table.conditional_table(outcome, treatment).probs)[at, success_at]
    cells = np.asarray(table.conditional_table(outcome, (group, treatment)).probs)[:, at, success_at]
    adjusted = np.asarray(back_door_adjustment(table, treatment, outcome, group).probs)[at, success_at]
    seen = np.logical_not(np.isnan(cells).any(1))  # a group that nobody belongs to has no effect
    groups = tuple(state for state, kept in zip(states[group], seen) if kept)
    return SimpsonReport((pair[0], pair[1]), groups, total, cells[seen], adjusted)


def kidney_stones() -> JointTable:
    """700 operations: open surgery (A) or puncture (B), small stones or large, success or not."""
    counts = np.zeros((2, 2, 2))  # treatment, size, success
    counts[0] = [[87 - 81, 81], [263 - 192, 192]]
    counts[1] = [[270 - 234, 234], [80 - 55, 55]]
    states = {"treatment": ["A", "B"], "size": ["small", "large"], "success": ["no", "yes"]}
    return JointTable.from_counts(["treatment", "size", "success"], counts, states)
