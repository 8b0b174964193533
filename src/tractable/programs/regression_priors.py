r"""Weakly informative priors, scaled by the data.

Unit.        $u$: the standard deviation of the response on the identity link, one on a log or logit link.
Rule.        With $c$ = 2.5: $\beta_j \sim N(0, (c u / s_j)^2)$ with $s_j$ the standard deviation of
             column $j$; the intercept of the centred columns $N(m, (c u)^2)$, with $m$ the mean of the
             response, its log, or zero log-odds; $\sigma \sim \mathrm{HalfNormal}(c u)$; the standard
             deviation of an effect of groups $\mathrm{HalfNormal}(c u / r)$ with $r$ the root mean square of
             its column (one for intercepts), correlations uniform (LKJ). Without an intercept nothing is
             centred, and root mean squares stand for standard deviations.
Cost.        One pass over the columns.
References.  Gelman, Jakulin, Pittau and Su (2008); Lewandowski, Kurowicka and Joe (2009).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.module import HostResult, field
from tractable.programs.formula import Formula
from tractable.programs.regression_families import family_of
from tractable.programs.regression_program import LinearProgram

__all__ = ["Priors", "described", "scaled_priors"]


class Priors(HostResult):
    """The priors of a regression by name; printed, one a line."""

    rows: tuple[tuple[str, str], ...] = field(static=True)

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.rows)
        return "\n".join(f"{name.ljust(width)} ~ {law}" for name, law in self.rows)

    def to_frame(self) -> Any:
        """The same as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=["name", "prior"]).set_index("name")


def scaled_priors(
    formula: Formula, family: str, y: np.ndarray, trials: np.ndarray | None, factor: float
) -> dict[str, Any]:
    """The numbers of the priors, and those by which columns are standardised."""
    columns, centred = formula.columns, formula.has_intercept
    link = family_of(family).link
    free = y - columns.offset
    unit = _spread(free, centred) if link == "identity" else 1.0
    fix = "There is nothing to explain: leave the table as it is."
    check(unit > 0, formula.response_name, "of values that differ", "one value in all rows", fix)
    means = columns.values.mean(0) if centred else np.zeros(len(formula.labels))
    sds = np.array([_column_spread(n, x, centred) for n, x in zip(formula.labels, columns.values.T)])
    scales = [
        np.array([_column_spread(n, x, False) for n, x in zip(each.effects, each.columns.T)])
        for each in columns.groups
    ]
    return {
        "centre": _centre(link, free, y, columns.offset), "scale": factor * unit,
        "means": means, "sds": sds.reshape(-1), "group_columns": scales,
        "groups": {each.factor: factor * unit / s for each, s in zip(columns.groups, scales)},
    }  # fmt: skip


def _centre(link: str, free: np.ndarray, y: np.ndarray, offset: np.ndarray) -> float:
    if link == "identity":
        return float(free.mean())
    # where all counts are zero, a rate of one event in all of the table
    events = max(float(y.sum()), 1.0)
    return (
        float(np.log(events) - np.log(np.exp(offset - offset.max()).sum()) - offset.max())
        if link == "log"
        else 0.0
    )


def _spread(values: np.ndarray, centred: bool) -> float:
    """The standard deviation, or without a centre the root mean square; zero if rounding alone moves it."""
    size = float(np.abs(values).max())
    if size == 0 or (centred and np.ptp(values) <= 1e-13 * size):
        return 0.0
    shares = values / size
    return size * float(np.std(shares) if centred else np.sqrt(np.mean(shares**2)))


def _column_spread(name: str, values: np.ndarray, centred: bool) -> float:
    found = _spread(values, centred)
    must = "a column that varies" if centred else "a column that is not zero throughout"
    fix = "It cannot be told from the intercept: leave it out of the formula, or write `0 + ...`."
    check(found > 0, name, must, f"{values[0]:g} in all rows", fix if centred else "Leave it out.")
    return found


def described(program: LinearProgram, priors: Mapping[str, Any]) -> Priors:
    """The priors in the units of the table."""
    scale, rows = float(priors["scale"]), []
    if program.has_intercept:
        at = "Intercept" + (" (at the means of the columns)" if program.labels else "")
        rows.append((at, f"Normal({priors['centre']:.4g}, {scale:.4g})"))
    rows += [(n, f"Normal(0, {scale / s:.4g})") for n, s in zip(program.labels, priors["sds"])]
    for effects in program.groups:
        sds = priors["groups"][effects.factor]
        rows += [(f"{name}[...]", f"Normal(0, sd({name}))") for name in effects.names]
        rows += [(f"sd({name})", f"HalfNormal({sd:.4g})") for name, sd in zip(effects.names, sds)]
        if effects.correlated:
            rows.append((f"correlation({effects.factor})", "LKJ(1)"))
    for name, law in family_of(program.family).own(np.asarray(scale)).items():
        parts = [part for part, each in law.__dataclass_fields__.items() if "rank" in each.metadata]
        numbers = ", ".join(f"{float(getattr(law, part)):.4g}" for part in parts)
        rows.append((name, f"{type(law).__name__}({numbers})"))
    return Priors(tuple(rows))
