r"""Factors and evidence as the flat arrays that the passes over a junction tree read.

Scaling.     $f = e^{m_f} \tilde f$ with $\max \tilde f = 1$; the logs $m_f$ add to the log of the total.
             The range $\max - \min$ of the finite logs of a factor says whether linear tables are exact.
Evidence.    A state clamps its variable, or is a likelihood of one state; an array of likelihoods multiplies
             the table of one bag.
Cost.        One pass over the factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check, offender
from tractable.messages.evidence import Evidence

__all__ = ["Potentials", "as_evidence", "load_tables"]


@dataclass(frozen=True, eq=False)
class Potentials:
    """All factors of a model, checked and laid out once: pass them to `calibrate` again and again."""

    logs: np.ndarray  # one after another, then a zero
    linear: np.ndarray  # the same with maximum one each, then a one
    start: np.ndarray
    spread: np.ndarray  # the range of the logs of each factor
    log_peaks: float  # of all factors together
    constant: float  # the factors without variables
    base: np.ndarray | None = None  # the product of the factors of each bag of a small tree


def load_tables(tables: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Potentials:
    """Check the shapes and the numbers of log tables, and lay them out."""
    check(len(tables) == len(shapes), "tables", f"one per scope ({len(shapes)})", len(tables))
    arrays = [np.asarray(table, dtype=np.float64) for table in tables]
    for number, (array, shape) in enumerate(zip(arrays, shapes)):
        if array.shape != shape:
            check(False, f"tables[{number}]", f"of shape {shape} as its scope says", f"shape {array.shape}")
    start = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([array.size for array in arrays], out=start[1:])
    logs = np.concatenate([*(array.ravel() for array in arrays), np.zeros(1)])
    good = logs < np.inf
    if not good.all():
        bad = int(np.argmin(good))
        number = int(np.searchsorted(start, bad, side="right")) - 1
        fix = "Pass logs; an impossible state is -inf."
        check(False, f"tables[{number}]", "finite or -inf everywhere", offender(logs[bad], False), fix)
    peaks = np.maximum.reduceat(logs, start)
    possible = peaks > -np.inf
    peaks = np.where(possible, peaks, 0.0)
    least = np.minimum.reduceat(np.where(logs > -np.inf, logs, np.inf), start)
    spread = np.where(possible, peaks - np.where(possible, least, 0.0), 0.0)
    linear = logs - np.repeat(peaks, np.diff(np.append(start, logs.size)))
    np.exp(linear, out=linear)
    shaped = np.fromiter((bool(shape) for shape in shapes), bool, len(arrays))
    constant = float(sum(float(array) for array, shape in zip(arrays, shapes) if not shape))
    return Potentials(logs, linear, start, spread[:-1], float(peaks[:-1][shaped].sum()), constant)


def as_evidence(evidence: Evidence | Mapping[int, Any] | None, sizes: np.ndarray) -> Evidence:
    """Check evidence by number: a state (a whole number) or likelihoods (one non-negative per state)."""
    if isinstance(evidence, Evidence):
        return evidence
    hard, soft = {}, {}
    for v, given in (evidence or {}).items():
        check(0 <= v < sizes.size, "evidence", f"on variables from 0 to {sizes.size - 1}", v)
        if np.ndim(given) == 0:
            whole = np.asarray(given).dtype.kind in "iu" and 0 <= int(given) < sizes[v]
            check(whole, f"evidence[{v}]", f"a state from 0 to {sizes[v] - 1}, or likelihoods", repr(given))
            hard[int(v)] = int(given)
        else:
            row = np.asarray(given, dtype=np.float64)
            fits = row.shape == (sizes[v],) and bool(np.isfinite(row).all()) and bool((row >= 0).all())
            check(fits, f"evidence[{v}]", f"{sizes[v]} non-negative likelihoods", row.tolist())
            soft[int(v)] = row
    return Evidence(hard, soft)
