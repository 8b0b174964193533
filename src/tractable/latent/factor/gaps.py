r"""Factor models of rows with missing entries: units, a start, and the one driver of EM.

Start.       Columns about their means in units of their spread, gaps at the mean, and isotropic factors of
             that covariance. EM (`inference.EM`) then marginalises the gaps exactly.
Cost.        $O(nd^2 + d^3)$ to begin, $O(ndk^2)$ a step.
References.  Little and Rubin (2002) chapter 8.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.rows import Rows
from tractable.latent.factor.fits import FactorFit
from tractable.latent.factor.low_rank import isotropic_factors

__all__ = ["fit_with_gaps"]


class _Seen(NamedTuple):
    level: np.ndarray
    spread: np.ndarray
    mass: np.ndarray  # by how much weight each column was seen


def fit_with_gaps(
    cls: Any, rows: Rows, k: int, algorithm: Any, *, own_units: bool, least_noise: float | int = 0.0
) -> FactorFit:
    """The model of class `cls` that EM finds; `own_units` where each column has a noise of its own."""
    X, weights = np.asarray(rows.X), np.asarray(rows.weights)
    d, seen = X.shape[1], _seen(rows)
    unit = seen.spread if own_units else np.full(d, np.sqrt((seen.spread**2).mean()) or 1.0)
    flat = np.flatnonzero(unit == 0)
    where = rows.where(int(flat[0])) if flat.size else ""
    check(
        not flat.size, "X", "of columns that vary, where others have gaps", f"a constant {where}", "Drop it."
    )
    standard = (X - seen.level) / unit
    filled = np.where(np.isnan(standard), 0.0, standard)
    cov = (filled * weights[:, None]).T @ filled / weights.sum()
    loadings, noise = isotropic_factors(cov, min(k, d - 1)) if d > 1 else (np.ones((1, 1)), 0.5)
    loadings = np.column_stack([loadings, np.zeros((d, k - loadings.shape[1]))])
    noise = np.full(d if own_units else (), max(float(noise), 0.05))
    run = algorithm.fit(cls(np.zeros(d), loadings, noise), standard, weights=weights)
    found, back = run.state, jnp.asarray(unit)
    variance = back**2 if own_units else back[0] ** 2
    model = cls(found.mean * back + seen.level, found.loadings * back[:, None], found.noise * variance)
    evidence = float(run.values[-1]) - float(seen.mass @ np.log(unit))
    low = np.flatnonzero(np.asarray(found.variances) <= least_noise)
    heywood = tuple(int(j) if rows.names is None else rows.names[int(j)] for j in low)
    return FactorFit(model, evidence, weights.sum(), run.num_steps, run.code, run.values, heywood)


def _seen(rows: Rows) -> _Seen:
    """Mean and spread of what was seen of each column."""
    X, weights = np.asarray(rows.X), np.asarray(rows.weights)
    there = ~np.isnan(X)
    mass = np.where(there, weights[:, None], 0.0)
    empty = np.flatnonzero(mass.sum(0) == 0)
    where = rows.where(int(empty[0])) if empty.size else ""
    check(not empty.size, "X", "seen at least once in each column", f"only NaN in {where}", "Drop it.")
    first = X[there.argmax(0), np.arange(X.shape[1])]  # a constant has no rounding about itself
    rest = np.where(there, X - first, 0.0)
    level = (mass * rest).sum(0) / mass.sum(0)
    spread = np.sqrt((mass * np.where(there, rest - level, 0.0) ** 2).sum(0) / mass.sum(0))
    return _Seen(first + level, spread, mass.sum(0))
