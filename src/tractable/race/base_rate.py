r"""The base rate: what is known of a target before a row is seen. Every model has to beat it.

Numbers.     Half a normal law, half a smooth histogram: $\frac12 N(\bar y, s^2) + \frac1{2K}\sum_k N(q_k,
             h^2)$ at $K$ quantiles, $h$ by Silverman's rule; of the logarithm where the target is positive
             and skewed, in cells of one where it is a count.
Classes.     $(N_c + 1)/(N + K)$.
Censored.    An exponential waiting time: events over the time at risk.
Cost.        One sort.
References.  Silverman (1986) section 3.4.
"""

from typing import Any

import numpy as np

from tractable.race.composed import ClassLaws, LogLaws, WholeLaws
from tractable.race.families import FamilyLaws
from tractable.race.laws import Laws, NormalLaws
from tractable.race.question import Question

__all__ = ["BASE", "BaseRate"]

BASE = "base rate"
_PLACES = 32


class BaseRate:
    """The law of a target without its row: `BaseRate.of(question)`, then `laws(count)`."""

    def __init__(self, task: str, numbers: np.ndarray, log: bool = False):
        self.task, self.numbers, self.log = task, np.asarray(numbers, float), bool(log)

    @classmethod
    def of(cls, question: Question) -> "BaseRate":
        """Of the rows of a question."""
        y, amounts = question.y, question.amounts
        if question.of_classes:
            counts = np.bincount(y, amounts, question.num_classes) + 1
            return cls(question.task, counts / counts.sum())
        if question.events is not None:
            ends = max(float((amounts * question.events).sum()), 0.5)
            return cls(question.task, np.array([float((amounts * y).sum()) / ends]))
        log = question.task == "positive" and bool((y > 0).all())
        z = np.log(y) if log else y
        centre = np.average(z, weights=amounts)
        spread = float(np.sqrt(np.average((z - centre) ** 2, weights=amounts)))
        spread = spread if spread > 0 else max(abs(float(centre)), 1.0) * 1e-3
        order = np.argsort(z, kind="stable")
        ends = np.cumsum(amounts[order]) / amounts.sum()
        levels = (np.arange(_PLACES) + 0.5) / _PLACES
        places = z[order][np.searchsorted(ends, levels).clip(max=len(z) - 1)]
        quarter = np.subtract(*places[[-(_PLACES // 4) - 1, _PLACES // 4]]) / 1.35
        width = 0.9 * (min(spread, quarter) if quarter > 0 else spread) * max(len(z), 2) ** -0.2
        if question.task == "count":
            width = max(width, 0.3)
        scales = np.r_[spread, np.full(_PLACES, width)]
        return cls(question.task, np.stack([np.r_[centre, places], scales]), log)

    def laws(self, count: int) -> Laws:
        """The same law for each of so many rows."""
        if self.numbers.ndim == 1 and self.task != "censored":
            return ClassLaws(np.tile(self.numbers, (count, 1)))
        if self.task == "censored":
            return FamilyLaws("Gamma", (np.ones(count), np.full(count, 1 / self.numbers[0])))
        loc, scale = (np.broadcast_to(row, (count, len(row))) for row in self.numbers)
        weights = np.r_[0.5, np.full(_PLACES, 0.5 / _PLACES)]
        inner: Laws = NormalLaws(weights, loc, scale)
        inner = LogLaws(inner) if self.log else inner
        return WholeLaws(inner) if self.task == "count" else inner

    def state(self) -> dict[str, Any]:
        """What a file keeps."""
        return {"task": self.task, "numbers": self.numbers, "log": self.log}
