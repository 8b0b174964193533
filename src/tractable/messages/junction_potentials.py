r"""Factors and evidence as the flat arrays that the passes over a junction tree read.

Scaling.     $f = e^{m_f} \tilde f$ with $\max \tilde f = 1$; the logs $m_f$ add to the log of the total.
             The range $\max - \min$ of the finite logs of a factor says whether linear tables are exact.
Evidence.    A state clamps its variable, which then has one state in all tables; an array of likelihoods
             multiplies the table of one bag.
Cost.        One pass over the factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check, offender

__all__ = ["Evidence", "Potentials", "load_tables", "read_evidence"]


@dataclass(frozen=True, eq=False)
class Potentials:
    """All factors of a model, checked and laid out once: pass them to `calibrate` again and again."""

    logs: np.ndarray
    linear: np.ndarray
    start: np.ndarray
    spread: np.ndarray
    log_peaks: float  # of all factors together
    constant: float  # the factors without variables


@dataclass(frozen=True, eq=False)
class Evidence:
    """Clamped states, the sizes that they leave, and likelihoods; arrays by variable."""

    clamped: tuple[int, ...]
    states: np.ndarray
    sizes: np.ndarray
    soft_logs: np.ndarray
    soft_linear: np.ndarray
    soft_start: np.ndarray
    soft_spread: np.ndarray
    log_peaks: float


def load_tables(tables: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Potentials:
    """Check the shapes and the numbers of log tables, and lay them out."""
    check(len(tables) == len(shapes), "tables", f"one per scope ({len(shapes)})", len(tables))
    arrays = [np.asarray(table, dtype=np.float64) for table in tables]
    for number, (array, shape) in enumerate(zip(arrays, shapes)):
        if array.shape != shape:
            check(False, f"tables[{number}]", f"of shape {shape} as its scope says", f"shape {array.shape}")
    start = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([array.size for array in arrays], out=start[1:])
    logs = np.concatenate([array.ravel() for array in arrays]) if arrays else np.zeros(0)
    linear, peaks, spread, bad = _scaled(logs, start)
    if bad >= 0:
        number = int(np.searchsorted(start, bad, side="right")) - 1
        fix = "Pass logs; an impossible state is -inf."
        check(False, f"tables[{number}]", "finite or -inf everywhere", offender(logs[bad], False), fix)
    constant = float(sum(float(array) for array, shape in zip(arrays, shapes) if not shape))
    shaped = np.fromiter((bool(shape) for shape in shapes), bool, len(arrays))
    return Potentials(logs, linear, start, spread, float(peaks[shaped].sum()), constant)


def read_evidence(evidence: Mapping[int, Any], sizes: np.ndarray) -> Evidence:
    """Check evidence: a state (a whole number) or likelihoods (one non-negative number per state)."""
    states, left = np.zeros(sizes.size, np.int64), sizes.copy()
    soft_start, soft_spread = np.full(sizes.size, -1, np.int64), np.zeros(sizes.size)
    clamped, soft, rows = [], [], []
    for v, given in evidence.items():
        check(0 <= v < sizes.size, "evidence", f"on variables from 0 to {sizes.size - 1}", v)
        if np.ndim(given) == 0:
            whole = np.issubdtype(np.asarray(given).dtype, np.integer) and 0 <= int(given) < sizes[v]
            check(whole, f"evidence[{v}]", f"a state from 0 to {sizes[v] - 1}, or likelihoods", repr(given))
            states[v], left[v] = int(given), 1
            clamped.append(int(v))
        else:
            row = np.asarray(given, dtype=np.float64)
            fits = row.shape == (sizes[v],) and bool(np.isfinite(row).all()) and bool((row >= 0).all())
            check(fits, f"evidence[{v}]", f"{sizes[v]} non-negative likelihoods", row.tolist())
            soft_start[v] = sum(map(len, rows))
            soft.append(int(v))
            rows.append(row)
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate(rows)) if rows else np.zeros(0)
    start = np.cumsum([0, *map(len, rows)])
    linear, peaks, spread, _ = _scaled(logs, start.astype(np.int64))
    soft_spread[np.asarray(soft, np.int64)] = spread
    return Evidence(
        tuple(sorted(clamped)), states, left, logs, linear, soft_start, soft_spread, float(peaks.sum())
    )


def _scaled(logs: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Linear numbers with maximum one, log-maxima, log-ranges of the non-zero ones, and a bad cell or -1."""
    if not logs.size:
        return logs, np.zeros(start.size - 1), np.zeros(start.size - 1), -1
    good = logs < np.inf
    if not good.all():
        return logs, logs, logs, int(np.argmin(good))
    peaks = np.maximum.reduceat(logs, start[:-1])
    possible = peaks > -np.inf
    least = np.minimum.reduceat(np.where(logs > -np.inf, logs, np.inf), start[:-1])
    spread = np.where(possible, peaks, 0.0) - np.where(possible, least, 0.0)
    peaks = np.where(possible, peaks, 0.0)
    linear = np.exp(logs - np.repeat(peaks, np.diff(start)))
    return linear, peaks, spread, -1
