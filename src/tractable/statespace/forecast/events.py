r"""Outliers and level shifts: where the smoother is surprised, tested as a regression at fixed parameters.

Suspects.    Times with the largest auxiliary residuals: of the readings, $y_t - E[s_t \mid y]$ over its
             deviation $\sqrt{\sigma^2 - \mathrm{var}(s_t \mid y)}$; of the level, steps of the smoothed
             signal without seasons.
Test.        A column with a pulse (or a step) at the suspect joins the model; its coefficient over its
             posterior deviation is the exact generalised least-squares statistic. Reported where it is above
             4; one after the other, each given those found before.
Cost.        A pass for each suspect.
References.  Harvey and Koopman (1992); de Jong and Penzer (1998).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.statespace.kalman.components import Regression
from tractable.statespace.kalman.diffuse import ahead, started
from tractable.statespace.kalman.structural import StructuralFit

__all__ = ["Event", "find_events", "looking_at"]

_CLEAR = 4.0
_SUSPECTS = 3  # of each kind in each round
_MOST = 8


class Event(NamedTuple):
    """A reading that stands alone ("outlier") or from which on the level is another ("level shift")."""

    kind: str
    place: int
    size: float
    statistic: float


def find_events(fit: StructuralFit) -> list[Event]:
    """The events of a fitted series, on the scale of the model, in the order of time."""
    found: list[Event] = []
    series = np.asarray(fit.series)[:, 0].copy()
    for _ in range(_MOST):
        tried = [_tested(fit, series, kind, place, found) for kind, place in _suspects(fit, series, found)]
        best = max(tried, key=lambda event: abs(event.statistic), default=None)
        if best is None or abs(best.statistic) < _CLEAR:
            break
        found.append(best)
    return sorted(found, key=lambda event: event.place)


def _suspects(fit: StructuralFit, series: np.ndarray, found: list[Event]) -> list[tuple[str, int]]:
    cleared = series.copy()
    for event in found:
        cleared -= event.size * _column(event.kind, event.place, len(series))
    decomposed = looking_at(fit, cleared).decompose()
    noise = fit.parameters.get("noise", 0.0)
    room = noise - np.asarray(decomposed.signal_deviation) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        alone = np.abs(cleared - decomposed.signal) / np.sqrt(np.where(room > 1e-9 * noise, room, np.nan))
    waves = sum((decomposed[name] for name in decomposed.names if "seasonal" in name), np.zeros(len(series)))
    smooth = np.asarray(decomposed.signal) - waves
    jumps = np.abs(np.diff(smooth) - np.median(np.diff(smooth)))
    second = np.abs(2 * cleared[1:-1] - cleared[:-2] - cleared[2:]) if noise == 0 else np.zeros(0)
    taken = {(event.kind, event.place) for event in found}
    listed = [("outlier", int(t)) for t in _largest(alone)] + [
        ("level shift", int(t) + 1) for t in _largest(jumps)
    ]
    listed += [("outlier", int(t) + 1) for t in _largest(second)]
    # a step at the first or second reading is a pulse
    return [
        (kind, t)
        for kind, t in listed
        if (kind, t) not in taken and (kind == "outlier" or 2 <= t < len(series) - 2)
    ]


def looking_at(fit: StructuralFit, series: np.ndarray) -> StructuralFit:
    """The same parameters with another series to look at."""
    return StructuralFit(
        fit.model, series[:, None], fit.values, fit.theta, fit.unit, fit.log_likelihood, fit.names, fit.status
    )


def _largest(sizes: np.ndarray) -> np.ndarray:
    known = np.flatnonzero(sizes > 0)  # beside a gap there is no number
    return known[np.argsort(-sizes[known], kind="stable")][:_SUSPECTS]


def _tested(fit: StructuralFit, series: np.ndarray, kind: str, place: int, found: list[Event]) -> Event:
    """The coefficient of the suspect's column, with those of the events found before."""
    listed = [(event.kind, event.place) for event in found] + [(kind, place)]
    columns = np.stack([_column(k, t, len(series) + 1) for k, t in listed], 1)
    model = type(fit.model)((*fit.model.components, Regression(columns)), fit.model.noise)
    chain = model.chain(fit.values, len(series) + 1, fit.unit)
    try:
        mean, cov = ahead(started(chain, model.flat, np.append(series, np.nan)[:, None]))
    except ValueError:  # the readings do not tell this column from the start
        return Event(kind, place, 0.0, 0.0)
    size, variance = float(mean[-1, -1]), float(cov[-1, -1, -1])
    return Event(kind, place, size, size / np.sqrt(variance) if variance > 0 else 0.0)


def _column(kind: str, place: int, size: int) -> Any:
    at = np.arange(size)
    return (at == place if kind == "outlier" else at >= place).astype(float)
