r"""`forecast_series`: the next readings, from candidates that were judged on readings they had not seen.

Way.         Look (`seasons`), fit the candidates to the first part, judge them at rolling origins
             (`evaluation`), fit those with weight to the whole series, and mix their laws with the measured
             factors of the spread.
Law.         A mixture for each step; means, medians and intervals are its own. Readings that are never
             negative have forecasts that are never negative: what the law puts below zero stands at zero.
Paths.       Joint draws: a member by its weight, then its own path, spread by the factor of each step.
Cost.        Fits of about seven small systems, on the host: nothing is compiled for a new length.
References.  Hyndman and Athanasopoulos (2021); Yao, Vehtari, Simpson and Gelman (2018).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.types import Key, Values
from tractable.core.verdict import Verdict
from tractable.statespace.forecast.candidates import candidates
from tractable.statespace.forecast.choice import judged_members, told, whole_fits
from tractable.statespace.forecast.counts import CountLevel, from_scale, mixture, to_scale
from tractable.statespace.forecast.events import Event, find_events
from tractable.statespace.forecast.known import known_columns
from tractable.statespace.forecast.seasons import is_count, scale_of, seasons_of
from tractable.statespace.forecast.series import Series, as_series

__all__ = ["SeriesForecast", "forecast_series"]

_LONGEST = 3000  # readings that are looked at: the last ones


class Choice(NamedTuple):
    """What was chosen: fits, their weights, the factors of the spread, and what they were made for."""

    fits: list[Any]
    weights: np.ndarray
    factors: np.ndarray
    seasons: tuple[int, ...]
    scale: str
    is_count: bool
    columns: tuple[str, ...]
    level: float


class SeriesForecast(HostResult):
    """The forecast of one series: its law at each step, how it was chosen and how well that did before."""

    winner: str = field(static=True)
    seasons: tuple[int, ...] = field(static=True)
    horizon: int = field(static=True)
    level: float = field(static=True)
    mean: Values = field(show=False)
    median: Values = field(show=False)
    lower: Values = field(show=False)
    upper: Values = field(show=False)
    series: Series = field(show=False)
    law: Any = field(show=False)
    factors: Values = field(show=False)
    fits: Any = field(show=False)
    evaluation: Any = field(show=False)
    left_out: Any = field(show=False)
    scale: str = field(static=True)
    is_count: bool = field(static=True)
    columns: tuple[str, ...] = field(static=True)

    @property
    def is_log(self) -> bool:
        """Whether the models look at logarithms."""
        return self.scale == "log"

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the models in the mixture, the largest first."""
        pairs = zip((fit.name for fit in self.fits), self.law.weights)
        return dict(sorted(((name, float(w)) for name, w in pairs), key=lambda pair: -pair[1]))

    @property
    def season(self) -> int | None:
        """The shortest season, or None."""
        return self.seasons[0] if self.seasons else None

    @property
    def times(self) -> np.ndarray:
        """The times of the forecasts."""
        return self.series.times(len(self.series), len(self.series) + self.horizon)

    @property
    def metrics(self) -> dict[str, Any]:
        """Scores on held-out readings; NaN where the series was too short for any."""
        if self.evaluation is None:
            return {
                "mase": np.nan,
                "crps": np.nan,
                "log_score": np.nan,
                "coverage": np.nan,
                "held_out": False,
            }
        return self.evaluation.metrics

    @property
    def verdict(self) -> Verdict:
        """What a reader must know before using the intervals."""
        return _verdict(self)

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each step at another level."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        return self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2)

    def quantile(self, level: float) -> np.ndarray:
        """The quantile of each step."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        return self._bounded(self.law.quantile(level))

    @takes_key
    def sample(self, count: int, *, key: Key) -> np.ndarray:
        """Joint paths of the next readings, `(count, horizon)`."""
        rng = generator(key)
        z = _looked_at(self.series, self.scale)
        chosen = rng.multinomial(check_count("count", count), self.law.weights)
        pairs = [(fit, int(own)) for fit, own in zip(self.fits, chosen) if own]
        if self.is_count:
            paths = np.concatenate([_counted(self, rng, fit, z, own) for fit, own in pairs])
            return self.law.matched(rng, rng.permutation(paths))
        parts, middle = [], self.law.centre
        for fit, own in pairs:
            mean = fit.origins(z, np.array([len(z)]), self.horizon)[0]
            drawn = _heavy(rng, fit, self.scale, fit.paths(rng, z, self.horizon, own) - mean)
            parts.append(middle + self.factors * (mean - middle + drawn))
        return self._bounded(from_scale(rng.permutation(np.concatenate(parts)), self.scale))

    def after(self, y: Any, horizon: int | None = None, *, times: Any = None) -> "SeriesForecast":
        """The forecast from the end of another series, or of this one when it has gone on, by the same
        models, weights and factors: nothing is fitted."""
        check(not self.columns, "y", "forecast without columns", f"{len(self.columns)} columns")
        series = y if isinstance(y, Series) else as_series(y, times)
        same = (series.unit, series.step) == (self.series.unit, self.series.step)
        check(same, "times", f"one per {self.series.frequency}", f"one per {series.frequency}")
        low = np.nanmin(series.values)
        check(self.scale != "log" or low > 0, "y", "positive, as the series that was fitted", low)
        check(not self.is_count or is_count(series.values), "y", "counts, as the series fitted", "others")
        z = _looked_at(series, self.scale)
        fits, weights = [told(fit, z) for fit in self.fits], np.asarray(self.law.weights)
        choice = Choice(
            fits, weights, np.asarray(self.factors), self.seasons, self.scale, self.is_count, (), self.level
        )
        steps = self.horizon if horizon is None else check_count("horizon", horizon)
        return _answer(choice, series, steps, self.evaluation, self.left_out)

    @property
    def effects(self) -> dict[str, tuple[float, float]]:
        """The coefficient of each known column and its deviation, on the scale of the model with weight."""
        fit = self._structural()
        if fit is None or not self.columns:
            return {}
        mean, cov = (leaf[-len(self.columns) :] for leaf in fit.last_state())
        sizes = np.sqrt(np.diagonal(cov[:, -len(self.columns) :]))
        return {name: (float(m), float(s)) for name, m, s in zip(self.columns, mean, sizes)}

    @property
    def decomposition(self) -> Any:
        """The components of the structural model with the largest weight, on its scale; None without one."""
        fit = self._structural()
        return None if fit is None else fit.decompose()

    @property
    def events(self) -> list[Event]:
        """Outliers and level shifts; places count from the first time of the series."""
        fit = self._structural()
        shift = 0 if fit is None else len(self.series) - len(np.asarray(fit.series))
        return (
            [] if fit is None else [event._replace(place=event.place + shift) for event in find_events(fit)]
        )

    def _structural(self) -> Any:
        held = [(w, i) for i, (fit, w) in enumerate(zip(self.fits, self.law.weights)) if hasattr(fit, "fit")]
        return self.fits[max(held)[1]].fit if held else None

    def _bounded(self, values: np.ndarray) -> np.ndarray:
        return np.maximum(values, 0.0) if np.nanmin(self.series.values) >= 0 else values


def forecast_series(
    y: Any, horizon: int | None = None, *, times: Any = None, level: float = 0.9, seasons: Any = None,
    log: bool | None = None, X: Any = None, future: Any = None, holidays: Any = None,
) -> SeriesForecast:  # fmt: skip
    """The next `horizon` readings of a series: by default a season, or ten.

    `seasons` and `log` are found unless given. Columns `X`, known at the readings' times, need their values
    at the times of the forecast in `future`. `holidays` are dates, or dates by name, past and to come.

    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=60))
    >>> forecast_series(walk, 3).mean.shape
    (3,)
    """
    series = y if isinstance(y, Series) else as_series(y, times)
    check(0 < level < 1, "level", "between 0 and 1", level)
    _check_changes(np.asarray(series.values))
    periods = seasons_of(series) if seasons is None else tuple(check_count("seasons", m, 2) for m in seasons)
    steps = check_count("horizon", horizon if horizon is not None else max((10, *periods[:1])))
    columns, names, dropped = known_columns(series, steps, periods, X, future, holidays)
    counts, scale = is_count(series.values), scale_of(series.values, (periods or (1,))[0], log)
    if scale == "log":
        low = np.nanmin(series.values)
        check(low > 0, "y", "positive for `log=True`", low)
    z = _looked_at(series, scale)
    columns = None if columns is None else columns[len(series) - len(z) :]
    members = candidates(periods, columns) + ([CountLevel(scale)] if counts else [])
    kept, judged, left_out = judged_members(z, members, steps, scale, (periods or (1,))[0], level, counts)
    fits, weights = whole_fits(z, kept, judged, left_out)
    factors = np.ones(1) if judged is None else judged.factors
    choice = Choice(fits, weights, factors, periods, scale, counts, names, float(level))
    return _answer(choice, series, steps, judged, left_out | dropped)


def _answer(choice: Choice, series: Series, steps: int, judged: Any, left_out: Any) -> SeriesForecast:
    """The forecast of a series by members that were chosen."""
    z, level = _looked_at(series, choice.scale), choice.level
    law = mixture(
        choice.fits, choice.weights, z, np.array([len(z)]), steps, choice.scale, choice.is_count
    ).rows(0)
    measured = choice.factors[:steps]
    factors = np.append(measured, np.full(steps - len(measured), measured[-1]))
    law = law.widened(factors)
    made = [law.expectation(), *(law.quantile(q) for q in (0.5, 0.5 - level / 2, 0.5 + level / 2))]
    floor = 0.0 if np.nanmin(series.values) >= 0 else -np.inf
    mean, median, lower, upper = (np.maximum(values, floor) for values in made)
    winner = choice.fits[int(np.argmax(choice.weights))].name
    return SeriesForecast(
        winner, choice.seasons, steps, level, mean, median, lower, upper, series, law, factors, choice.fits,
        judged, left_out, choice.scale, choice.is_count, choice.columns,
    )  # fmt: skip


def _looked_at(series: Series, scale: str) -> np.ndarray:
    return to_scale(np.asarray(series.values)[-_LONGEST:], scale)


def _heavy(rng: np.random.Generator, fit: Any, scale: str, away: np.ndarray) -> np.ndarray:
    """Departures of paths with the tails of the member."""
    if scale != "identity" or np.isinf(fit.df):
        return away
    return away * np.sqrt((fit.df - 2) / rng.chisquare(fit.df, (len(away), 1)))


def _counted(found: SeriesForecast, rng: np.random.Generator, fit: Any, z: np.ndarray, own: int) -> Any:
    """Paths of counts: of a level of counts its own, of others the cells in which they lie."""
    drawn = fit.paths(rng, z, found.horizon, own)
    if hasattr(fit, "negative_binomials"):
        return drawn
    mean = fit.origins(z, np.array([len(z)]), found.horizon)[0]
    heavy = mean + _heavy(rng, fit, found.scale, drawn - mean)
    return np.maximum(np.ceil(from_scale(heavy, found.scale) - 0.5), 0.0)


def _check_changes(values: np.ndarray) -> None:
    seen = values[~np.isnan(values)]
    check(np.ptp(seen) > 0, "y", "a series that changes", f"the constant {seen[0]:g}")


def _verdict(found: SeriesForecast) -> Verdict:
    judged, metrics = found.evaluation, found.metrics
    if judged is None:
        return Verdict(
            False, "Too few readings to judge any model: the last reading, with the spread of past steps."
        )
    coverage, mase = metrics["coverage"], metrics["mase"]
    said = f"{found.winner} leads; held-out {found.level:.0%} intervals held {coverage:.0%}"
    said += f" from {judged.num_origins} origins"
    said += f", errors {mase:.2f} of a naive step" if np.isfinite(mase) else ""
    # overlapping steps: about as many independent looks as origins
    slack = 3 * np.sqrt(found.level * (1 - found.level) / max(judged.num_origins / 2, 1))
    # intervals of counts hold more than their level: they end at whole numbers
    high = 1.0 if found.is_count else found.level + slack
    ok = bool(metrics["held_out"] and found.level - slack <= coverage <= high)
    if not metrics["held_out"]:
        said += "; too few origins for scores apart from the fit"
    elif not ok:
        said += "; the intervals did not hold their level: use them with care"
    said += ". The readings count things: forecasts are laws on the whole numbers" if found.is_count else ""
    return Verdict(ok, said + ".", {"coverage": coverage, "mase": mase, "origins": judged.num_origins})
