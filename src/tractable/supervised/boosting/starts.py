r"""Where boosting begins: a Bayesian linear model of the columns, with the prior of highest evidence.

Numbers.     $\theta_0(x) = b + w^\top x$ by `supervised.bayes_linear.evidence`; trees add what is not linear,
             and the straight line goes on where trees are flat.
Classes.     Log-odds by `supervised.logistic.bayes`, their mean under Laplace's posterior.
Missing.     A missing entry is the mean of its column; trees see that it is missing.
Cost.        $O(n d^2)$ for each fold.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.core.types import Float, Values
from tractable.supervised.boosting.law import Law

__all__ = ["LinearStart", "column_means", "linear_start"]

_LEAST = 3  # rows: fewer say nothing of a line and of its noise


class LinearStart(Module):
    """A straight line of the columns."""

    weights: Float[Values, " d"]
    offset: Float[Values, ""]
    fill: Float[Values, " d"] = field(about="what stands for a missing entry")

    def __call__(self, X: Any) -> np.ndarray:
        fill = np.asarray(self.fill)
        return np.where(np.isnan(X), fill[None], X) @ np.asarray(self.weights) + np.asarray(self.offset)

    @classmethod
    def mean_of(cls, lines: list["LinearStart"]) -> "LinearStart":
        """The mean of lines that fill missing entries alike."""
        weights, offset, fill = (
            np.mean([np.asarray(getattr(line, name)) for line in lines], axis=0)
            for name in ("weights", "offset", "fill")
        )
        return cls(weights, np.asarray(offset), fill)


def column_means(rows: Rows) -> np.ndarray:
    """The mean of the known entries of each column; zero where none is."""
    known = ~np.isnan(rows.X)
    mass = rows.weights @ known
    total = rows.weights @ np.where(known, rows.X, 0.0)
    return np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), 0.0)


def linear_start(law: Law, rows: Rows, fill: np.ndarray) -> LinearStart:
    """The line of a fold's rows, with `fill` for missing entries."""
    filled = replace(rows, X=np.where(np.isnan(rows.X), fill[None], rows.X), has_gaps=False)
    if rows.num_rows < _LEAST or np.ptp(rows.y) == 0:
        mean = np.average(rows.y, weights=rows.weights)
        level = mean if law.identity else law.start(rows.y, rows.weights)[0]
        return LinearStart(np.zeros(rows.num_columns), np.asarray(level), fill)
    if not law.identity:
        return _log_odds(filled, fill)
    from tractable.supervised.bayes_linear.evidence import maximise_evidence
    from tractable.supervised.bayes_linear.statistics import regression_statistics

    found = maximise_evidence(regression_statistics(filled), intercept=True, standardise=True).model
    return LinearStart(np.asarray(found.mean), np.asarray(found.offset), fill)


def _log_odds(rows: Rows, fill: np.ndarray) -> LinearStart:
    from tractable.supervised.logistic.bayes import fit_bayes_logistic

    found = fit_bayes_logistic(replace(rows, y=rows.y.astype(int)))
    return LinearStart(np.asarray(found.coefficients), np.asarray(found.intercept), fill)
