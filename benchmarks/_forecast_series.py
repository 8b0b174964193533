"""Series to forecast, each with the readings that follow it: generated ones with known truth, and real ones.

Structural.  Drawn from models that are among the candidates of `tractable`.
Foreign.     Drawn from models that are in no library's candidates: a multiplied season with noise that grows,
             regimes, a trend with breaks and an autoregression, a threshold autoregression, volatility that
             clusters, two seasons of other lengths, counts with a season, and counts that are mostly zero.
Real.        The series that statsmodels carries, from several ends, `horizon` steps apart.
"""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["FAMILIES", "FOREIGN", "STRUCTURAL", "Task", "draw", "generated", "real"]

STRUCTURAL = ("walk", "level", "trend", "autoregression", "season", "growth")
FOREIGN = (
    "multiplied", "regimes", "breaks", "threshold", "volatility", "two-seasons", "counts", "rare-counts",
)  # fmt: skip
FAMILIES = STRUCTURAL + FOREIGN


class Task(NamedTuple):
    """Readings with their times, what followed, and the season that all methods are told or may find."""

    kind: str
    name: str
    y: np.ndarray
    after: np.ndarray
    season: int
    times: Any


def draw(family: str, seed: int, size: int = 120, horizon: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """A series and what came after it."""
    rng = np.random.default_rng((FAMILIES.index(family), seed))
    y = (_structural if family in STRUCTURAL else _foreign)(family, rng, size + horizon)
    return y[:size], y[size:]


def generated(family: str, seed: int, size: int = 120, horizon: int = 12) -> Task:
    """A series of months."""
    y, after = draw(family, seed, size, horizon)
    return Task(family, f"{family} {seed}", y, after, 12, np.datetime64("2010-01", "M") + np.arange(size))


def _structural(family: str, rng: np.random.Generator, n: int) -> np.ndarray:
    t, noise, steps = np.arange(n), rng.normal(size=n), rng.normal(size=n)
    if family == "walk":
        return np.cumsum(steps)
    if family == "level":
        return 50 + np.cumsum(0.3 * steps) + noise
    if family == "trend":
        return 10 + np.cumsum(0.2 + np.cumsum(0.03 * rng.normal(size=n)) + 0.2 * steps) + noise
    if family == "autoregression":
        steps[0] /= np.sqrt(1 - 0.7**2)
        return 5 + _echo(0.7, steps)
    if family == "season":
        wave = 3 * np.sin(2 * np.pi * t / 12) + np.cos(4 * np.pi * t / 12)
        return 20 + np.cumsum(0.05 + 0.2 * steps) + wave + 0.7 * noise
    return np.exp(4 + 0.012 * t + 0.2 * np.sin(2 * np.pi * t / 12) + np.cumsum(0.02 * steps) + 0.04 * noise)


def _foreign(family: str, rng: np.random.Generator, n: int) -> np.ndarray:
    t, noise, steps = np.arange(n), rng.normal(size=n), rng.normal(size=n)
    year = 2 * np.pi * t / 12
    if family == "multiplied":
        level = 100 + 0.8 * t + np.cumsum(1.5 * steps)
        return level * (1 + 0.25 * np.sin(year) + 0.1 * np.cos(2 * year) + 0.05 * noise)
    if family == "regimes":
        moved = rng.random(n) < 1 / 25
        places = np.concatenate([[0.0], rng.normal(0, 4, n)])[np.cumsum(moved)]
        return 30 + places + _echo(0.4, noise)
    if family == "breaks":
        slopes = np.where(rng.random(n) < 1 / 40, rng.normal(0, 0.3, n), np.nan)
        slopes[0] = 0.2
        held = slopes[np.maximum.accumulate(np.where(np.isnan(slopes), 0, t))]
        return 40 + np.cumsum(held) + _echo(0.6, noise)
    if family == "threshold":
        y = np.zeros(n)
        for i in range(1, n):
            y[i] = (2 + 0.2 * y[i - 1] if y[i - 1] < 1 else -1 + 0.9 * y[i - 1]) + noise[i]
        return 20 + y
    if family == "volatility":
        shock, variance = np.zeros(n), 1.0
        for i in range(n):
            shock[i] = np.sqrt(variance) * rng.standard_t(8) * np.sqrt(6 / 8)
            variance = 0.05 + 0.15 * shock[i] ** 2 + 0.8 * variance
        return 100 + np.cumsum(shock)
    if family == "two-seasons":
        return 60 + 5 * np.sin(year) + 3 * np.sin(2 * np.pi * t / 5) + np.cumsum(0.3 * steps) + noise
    if family == "counts":
        return rng.poisson(np.exp(2.3 + 0.4 * np.sin(year) + _echo(0.9, 0.12 * steps))).astype(float)
    return rng.negative_binomial(1.2, 1 / (1 + 0.5 * np.exp(_echo(0.95, 0.2 * steps)))).astype(float)


def _echo(share: float, shocks: np.ndarray) -> np.ndarray:
    """An autoregression of order one."""
    y = np.empty(len(shocks))
    y[0] = shocks[0]
    for i in range(1, len(y)):
        y[i] = share * y[i - 1] + shocks[i]
    return y


def real(ends: int = 3) -> list[Task]:
    """Series that come with statsmodels, from their last ends."""
    found = []
    for name, values, season, start, steps in _bundled():
        y = np.asarray(values, float)
        for back in range(ends, 0, -1):
            cut = len(y) - back * steps
            unit = {1: 12, 4: 3, 12: 1}[season]
            times = np.datetime64(start, "M") + unit * np.arange(cut)
            found.append(Task("real", f"{name} -{back}", y[:cut], y[cut : cut + steps], season, times))
    return found


def _bundled() -> list[tuple[str, Any, int, str, int]]:
    """Name, readings, season, first month and horizon."""
    from importlib import import_module

    tables = {
        name: import_module(f"statsmodels.datasets.{name}").load_pandas().data
        for name in (
            "nile",
            "sunspots",
            "elnino",
            "macrodata",
            "copper",
            "co2",
            "fertility",
            "elec_equip",
            "danish_data",
        )
    }
    yearly = {
        "nile volume": ("nile", "volume", "1871-01"),
        "sunspots": ("sunspots", "SUNACTIVITY", "1700-01"),
    }
    listed = [(name, tables[t][c].to_numpy(), 1, start, 6) for name, (t, c, start) in yearly.items()]
    heat = tables["elnino"].drop(columns="YEAR").to_numpy().reshape(-1)
    listed.append(("elnino", heat, 12, "1950-01", 12))
    carbon = tables["co2"]["co2"].resample("MS").mean().interpolate().to_numpy()
    listed.append(("co2", carbon, 12, "1958-03", 12))
    columns = ("realgdp", "realcons", "realinv", "realgovt", "cpi", "m1", "tbilrate", "unemp", "infl")
    listed += [(name, tables["macrodata"][name].to_numpy(), 4, "1959-01", 8) for name in columns]
    machines = tables["elec_equip"].select_dtypes("number").iloc[:, 0].to_numpy()
    listed.append(("elec_equip", machines, 12, "1996-01", 12))
    listed += [(c, tables["danish_data"][c].to_numpy(), 4, "1974-01", 6) for c in ("lrm", "lry", "ibo")]
    metals = ("WORLDCONSUMPTION", "COPPERPRICE", "INCOMEINDEX")
    listed += [(f"copper {c.lower()}", tables["copper"][c].to_numpy(), 1, "1951-01", 3) for c in metals]
    births = tables["fertility"].set_index("Country Code")
    for code in ("FRA", "IND", "BRA", "JPN", "EGY", "USA"):
        row = births.loc[code].filter(regex=r"^\d{4}$").to_numpy(float)
        listed.append((f"fertility {code}", row[~np.isnan(row)], 1, "1960-01", 5))
    return listed
