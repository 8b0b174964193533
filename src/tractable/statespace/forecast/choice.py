r"""The choice of a forecast: members fitted to the first part and judged after it, then to the whole series.

Kept.        Members that have readings enough and leave uncertainty about the next reading; others are named
             with the reason.
Whole.       The leading member is fitted again to the whole series; of short series, all with weight.
Cost.        A fit of each member, and one or a few more.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.statespace.forecast.evaluation import Evaluation, evaluate, origins_of
from tractable.statespace.forecast.events import looking_at

__all__ = ["judged_members", "told", "whole_fits"]

_SHORT = 60  # readings: up to here every member is fitted again


def judged_members(
    z: np.ndarray, members: list[Any], steps: int, scale: str, season: int, level: float, count: bool
) -> Any:
    """The members that could be fitted to the first part, and how they did after it."""
    least = max(2 * season + 3, 6)
    at = origins_of(z, least, steps)
    known = int((~np.isnan(z[: at[0]])).sum()) if len(at) else 0
    left_out: dict[str, str] = {}
    if len(at) < 3 or known < 5:
        return [(members[0], None)], None, left_out
    kept, fits, near = [], [], None
    for member in members:
        fit = _fitted(member, z[: at[0]], left_out, near, (z, at[[0, -1]]))
        if fit is not None:
            kept.append((member, fit))
            fits.append(fit)
            near = fit if hasattr(fit, "fit") else None
    return kept, evaluate(fits, z, at, steps, scale, season, level, count), left_out


def _fitted(member: Any, z: np.ndarray, left_out: dict[str, str], near: Any = None, asked: Any = None) -> Any:
    """The member, if it leaves uncertainty at the end of its readings, or at the places that are asked."""
    whole, at = asked if asked is not None else (z, np.array([len(z)]))
    count = int((~np.isnan(z)).sum())
    if count < member.least:
        left_out[member.name] = f"{count} readings, {member.least} are needed"
        return None
    try:
        fit = member.fit(z, near)
        sds = fit.origins(whole, at, 1)[1]
    except (ValueError, np.linalg.LinAlgError) as error:
        left_out[member.name] = str(error)
        return None
    if not (np.isfinite(sds).all() and sds.min() > 1e-9 * np.nanstd(z)):
        left_out[member.name] = "it leaves no uncertainty"
        return None
    return fit


def whole_fits(z: np.ndarray, kept: list[Any], judged: Evaluation | None, left_out: dict[str, str]) -> Any:
    """The members with weight; the leading one (of short series, all) is fitted to the whole series."""
    weights = judged.weights if judged is not None else np.full(len(kept), 1 / len(kept))
    pairs = []
    for (member, fit), weight in zip(kept, weights):
        if weight > 0:
            again = weight == weights.max() or fit is None or len(z) <= _SHORT or not hasattr(fit, "fit")
            renewed = _fitted(member, z, left_out, fit) if again else None
            pairs.append((renewed if renewed is not None else told(fit, z), weight))
    pairs = [(fit, weight) for fit, weight in pairs if fit is not None]
    check(
        len(pairs) > 0,
        "y",
        "a series with uncertainty about its next reading",
        "none that a model can express",
    )
    shares = np.array([weight for _, weight in pairs])
    return [fit for fit, _ in pairs], shares / shares.sum()


def told(fit: Any, z: np.ndarray) -> Any:
    """The fit to the first part, with the whole series to look at."""
    return fit._replace(fit=looking_at(fit.fit, z)) if hasattr(fit, "fit") else fit
