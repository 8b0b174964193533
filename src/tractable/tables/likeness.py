r"""Rows that no training row is like, and tables that are not like the training table.

Beyond.      A number or a date farther from the median than a new row would be in one case of a hundred,
             over all columns and sides. Of the $m$ farthest of $n$ rows on a side, a twentieth, $\log(d /
             u)$ is taken as exponential with the mean $\gamma$ that they have (Hill's index); with what is
             not known of the mean, $P(\log(d / u) > q) = (m / n) (1 + q / m \gamma)^{-m}$. The limit is at
             least 1.25 times the farthest.
Unseen.      A level that was never seen is unlike, unless such levels are to be expected: the chance that
             the next row has one is about the share of training rows whose level occurs once (Good and
             Turing).
Together.    $d^2 = z^T S^{-1} z$ of the standardised numbers, against that of the training rows, each left
             out of $S$ when it is judged: with $h = d^2 / n$ it is $(n - 1) h / (1 - h)$.
Drift.       Of a whole table: columns whose mean has moved, whose gaps have become more, or whose levels
             are new, by more than `_SURE` standard errors and by a size that matters.
Cost.        Linear in the rows; `d` numbers take `d^3` once, and more than `_MOST_TOGETHER` are not looked at
             together.
References.  Hill (1975), A simple general approach to inference about the tail of a distribution; Good
             (1953), The population frequencies of species and the estimation of population parameters.
"""

from typing import Any

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.tables.level_part import LevelPart
from tractable.tables.moment_part import MomentPart
from tractable.tables.number_part import NumberPart, beyond, matrix_of

__all__ = ["Likeness"]

_REACH = 1.25
_FEW_REACH = 4.0  # where a side has too few rows to know its tail
_LEAST_TAIL = 5
_ALARM = 0.01  # of rows like those of training, over all columns
_MOST_TOGETHER = 200
_RIDGE = 1e-3
_EXPECTED = 0.01  # share of rows with a level of their own, beyond which new levels are ordinary
_SURE = 5.0
_MOVED = 0.5  # standard deviations
_MORE_GAPS = 0.1


class Likeness:
    """What the training rows were like."""

    def fit(self, parts: list[Any], table: Any) -> "Likeness":
        values, self.names = _lines(parts, table)
        gaps = np.isnan(values)
        self.gap_share, self.num_rows = gaps.mean(0), len(values)
        filled = np.where(gaps.all(0), 0.0, values)
        with np.errstate(over="ignore", invalid="ignore"):  # limits beyond all numbers are limits too
            self.middle, self.mean = np.nanmedian(filled, axis=0), np.nanmean(filled, axis=0)
            below, above = _limits(filled, self.middle)
            self.low, self.high = self.middle - below, self.middle + above
            spread = np.nanstd(filled, axis=0)
        self.scale = np.where(spread > 0, spread, 1.0)
        self.ordinary = [p.name for p in parts if isinstance(p, LevelPart) and _is_open(p)]
        self._fit_together(values)
        return self

    def _fit_together(self, values: np.ndarray) -> None:
        rows, columns = values.shape
        self.factor, self.limit = np.zeros((0, 0)), np.inf
        if not 2 <= columns <= _MOST_TOGETHER or rows <= 3 * columns:
            return
        points = self._standardised(values)
        with one_blas_thread():  # the same bits with any number of threads
            spread = points.T @ points / rows + _RIDGE * np.eye(columns)
            self.factor = np.linalg.inv(np.linalg.cholesky(spread))
            share = ((points @ self.factor.T) ** 2).sum(1) / rows
        outside = (rows - 1) * share / np.maximum(1 - share, 1e-12)
        quantile = np.quantile(outside, 0.999) if rows >= 5000 else outside.max()
        self.limit = float(_REACH * quantile)

    def _standardised(self, values: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(values), 0.0, (values - self.mean) / self.scale)

    def unlike(self, parts: list[Any], table: Any) -> np.ndarray:
        """Whether each row is beyond, unseen, or far from all others together."""
        values, _ = _lines(parts, table)
        with np.errstate(invalid="ignore"):
            found = np.asarray(((values < self.low) | (values > self.high)).any(1))
        for part in parts:
            if isinstance(part, LevelPart) and part.name not in self.ordinary:
                found |= part.codes(table) == -2
            elif isinstance(part, NumberPart):
                found |= beyond(table, part.names)
        if len(self.factor):
            with one_blas_thread():
                found |= ((self._standardised(values) @ self.factor.T) ** 2).sum(1) > self.limit
        return found

    def drift(self, parts: list[Any], table: Any) -> list[tuple[str, str, str]]:
        """Code, column and sentence of what has changed since the training rows."""
        values, _ = _lines(parts, table)
        rows = len(values)
        share = np.isnan(values).mean(0)
        error = np.sqrt(np.maximum(self.gap_share * (1 - self.gap_share), 1e-3) / rows)
        moved = self._standardised(values).mean(0)
        notes = []
        for j, name in enumerate(self.names):
            more = share[j] - self.gap_share[j]
            if more > max(_MORE_GAPS, _SURE * error[j]):
                said = (
                    f"{name!r} is missing in {share[j]:.0%} of the rows, in training {self.gap_share[j]:.0%}."
                )
                notes.append(("drift_missing", name, said))
            if abs(moved[j]) > max(_MOVED, _SURE / np.sqrt(rows) + _SURE / np.sqrt(self.num_rows)):
                said = (
                    f"the mean of {name!r} has moved by {moved[j]:+.1f} standard deviations since training."
                )
                notes.append(("drift_mean", name, said))
        for part in parts:
            if isinstance(part, LevelPart):
                new = float((part.codes(table) == -2).mean())
                if new > max(0.05, 3 * _singles(part), _SURE / rows):
                    said = f"{part.name!r} has a level that training had not in {new:.0%} of the rows."
                    notes.append(("drift_levels", part.name, said))
        return notes

    def state(self) -> dict[str, Any]:
        return {**vars(self), "names": list(self.names)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Likeness":
        found = cls()
        vars(found).update(state)
        return found


def _limits(values: np.ndarray, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest distances below and above the median that are still like the training rows."""
    below, above = _tail(middle - values), _tail(values - middle)
    farthest = [
        np.nanmax(np.where(np.isnan(values), 0.0, d), axis=0) for d in (middle - values, values - middle)
    ]
    # where nothing lies on a side, a quarter of the other one is granted
    return np.maximum(below, 0.25 * farthest[1]), np.maximum(above, 0.25 * farthest[0])


def _tail(distances: np.ndarray) -> np.ndarray:
    """The distance that a new row exceeds with the chance `_ALARM` shared by all columns and sides."""
    rows, columns = distances.shape
    ends = np.where(np.isnan(distances), -np.inf, distances)
    count = min(max(_LEAST_TAIL, rows // 20), rows)
    top = np.partition(ends, rows - count, axis=0)[rows - count :]
    largest = np.maximum(top.max(0), 0.0)
    counts = (top > 0).sum(0)
    positive = np.where(top > 0, top, np.inf)
    start = np.where(counts > 0, positive.min(0), 1.0)
    slope = np.where(top > 0, np.log(np.where(top > 0, top, 1.0) / start), 0.0).sum(0) / np.maximum(counts, 1)
    beyond = np.maximum(counts / rows * 2 * columns / _ALARM, 1.0)
    enough = counts >= _LEAST_TAIL
    m = np.maximum(counts, 1)
    quantile = m * slope * (beyond ** (1 / m) - 1)
    found = np.where(enough, start * np.exp(np.where(enough, quantile, 0.0)), _FEW_REACH * largest)
    return np.maximum(found, _REACH * largest)


def _lines(parts: list[Any], table: Any) -> tuple[np.ndarray, list[str]]:
    """All columns that lie on a line, numbers and moments, as they are."""
    blocks, names = [np.zeros((len(table), 0))], []
    for part in parts:
        if isinstance(part, NumberPart):
            blocks.append(matrix_of(table, part.names))
            names += part.names
        elif isinstance(part, MomentPart):
            blocks.append(part.days(table)[:, None])
            names.append(part.name)
    return np.concatenate(blocks, axis=1), names


def _singles(part: LevelPart) -> float:
    """The share of rows whose level occurs once: about the chance that the next row's is new."""
    return float((part.counts == 1).sum()) / max(part.num_rows, 1)


def _is_open(part: LevelPart) -> bool:
    return _singles(part) > _EXPECTED
