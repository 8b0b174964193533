r"""How good predictions are on rows that nothing was chosen by.

Numbers.     Coverage and width of central intervals, log-score, CRPS, root mean squared error, and the
             Kolmogorov distance of the ranks $F(y)$ from uniform. Coverage by thirds of the width shows where
             intervals fail.
Classes.     Log-score, accuracy, Brier score, and the expected calibration error of the most probable class
             over 15 bins.
Counts.      The rank of a count is the middle of its jump; an interval of whole numbers holds at least its
             share, so what that of 90 % promised is measured beside.
Cost.        Quantiles at eight levels.
References.  Gneiting, Balabdaoui and Raftery (2007); Guo et al. (2017).
"""

from typing import Any

import numpy as np

from tractable.race.composed import ClassLaws
from tractable.race.laws import Laws
from tractable.race.question import Question, log_scores

__all__ = ["LEVELS", "averaged", "measures", "shown", "told"]

LEVELS = (0.5, 0.8, 0.9, 0.95)
_BINS = 15
_LARGE = 1e9
_MOST = 5000  # rows of which the CRPS is computed


def measures(laws: Laws, question: Question) -> dict[str, Any]:
    """By name; means over rows by their weights."""
    amounts = question.amounts / question.amounts.sum()
    scores = log_scores(laws, question)
    with np.errstate(invalid="ignore"):
        mean = float(np.sum(np.where(amounts > 0, amounts * scores, 0.0)))
        error = float(np.sqrt(np.sum(amounts**2 * (scores - mean) ** 2))) if np.isfinite(mean) else np.nan
    found: dict[str, Any] = {"rows": len(question.y), "log_score": mean, "log_score_error": error}
    if isinstance(laws, ClassLaws):
        return found | _of_classes(laws.shares, question.y, amounts)
    return found if question.events is not None else found | _of_numbers(laws, question.y, amounts)


def _of_numbers(laws: Laws, y: np.ndarray, amounts: np.ndarray) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for level in LEVELS:
        low, high = laws.interval(level)
        name = f"{100 * level:.0f}"
        inside, width = (low <= y) & (y <= high), high - low
        found[f"coverage_{name}"] = float(amounts @ inside)
        found[f"width_{name}"] = float(amounts @ width)
        if level == 0.9:
            found |= _by_thirds(inside, width, amounts)
            if laws.discrete:
                found["promised_90"] = float(amounts @ (laws.cdf(high) - laws.cdf(low - 1)))
    few = slice(None, None, -(-len(y) // _MOST))
    share = amounts[few] / amounts[few].sum()
    found["crps"] = float(share @ laws.take(few).crps(y[few]))
    found["rmse"] = float(np.sqrt(amounts @ (laws.mean - y) ** 2))
    ranks = np.sort(laws.pit(y))
    steps = np.arange(len(ranks) + 1) / len(ranks)
    found["rank_distance"] = float(max(np.max(steps[1:] - ranks), np.max(ranks - steps[:-1])))
    return found


def _by_thirds(inside: np.ndarray, width: np.ndarray, amounts: np.ndarray) -> dict[str, Any]:
    parts = np.array_split(np.argsort(width, kind="stable"), 3)
    names = ("narrowest", "middle", "widest")
    return {
        f"coverage_90_{name}": float(np.average(inside[part], weights=amounts[part]))
        for name, part in zip(names, parts)
        if len(part) and amounts[part].sum() > 0
    }


def _of_classes(shares: np.ndarray, codes: np.ndarray, amounts: np.ndarray) -> dict[str, Any]:
    said, sure = shares.argmax(1), shares.max(1)
    right = (said == codes).astype(float)
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, amounts * (right - sure), _BINS)
    truth = np.eye(shares.shape[1])[codes]
    return {
        "accuracy": float(amounts @ right),
        "ece": float(np.abs(gaps).sum()),
        "brier": float(amounts @ ((shares - truth) ** 2).sum(1)),
    }


def averaged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The measures of rows of several folds: means by their numbers of rows."""
    rows = np.array([part["rows"] for part in parts], float)
    found: dict[str, Any] = {}
    for name in parts[0]:
        values = np.array([part.get(name, np.nan) for part in parts])
        squares = name in ("rmse",)
        mean = float(np.average(values**2 if squares else values, weights=rows))
        found[name] = float(np.sqrt(mean)) if squares else mean
    errors = np.array([part["log_score_error"] for part in parts])
    found["log_score_error"] = float(np.sqrt(np.sum((rows * errors) ** 2)) / rows.sum())
    return found | {"rows": int(rows.sum())}


def told(value: float, digits: int = 4) -> str:
    """A number for people: so many digits, and powers of ten only where zeros would be many.

    >>> told(10893.4), told(0.123456), told(2.5e12)
    ('10890', '0.1235', '2.5e+12')
    """
    short = f"{value:.{digits}g}"
    return f"{float(short):.0f}" if "e+" in short and abs(value) < _LARGE else short


def shown(numbers: dict[str, Any]) -> dict[str, Any]:
    """As JSON may hold them: what is not finite is null."""
    return {name: value if np.isfinite(value) else None for name, value in numbers.items()}
