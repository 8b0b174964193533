"""`tractable forecast`: the next readings of the series in a table, with intervals of measured coverage.

Output.      Tables of the models and of the forecasts, and the verdict; with `--out` the forecasts in CSV
             (and joint paths as columns), with `--report` a page of HTML with pictures, with `--json` all of
             it as JSON.
Series.      A table in long format has a column that names the series; one that cannot be forecast is named
             with the reason, and the others are.
Known.       `--regressors` are columns of the table, whose rows to come have an empty target; `--holidays` a
             table of dates and names. `--model` keeps the models, and `--load` forecasts a series that has
             gone on by them.
"""

import csv
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from tractable.cli.paths import stop
from tractable.core.checks import check
from tractable.core.storage import StorageError, load, save
from tractable.statespace.forecast.forecast import SeriesForecast, forecast_series
from tractable.statespace.forecast.series import as_series, with_rows
from tractable.tables.files import WrongTable
from tractable.tables.reading import check_columns, read_table

__all__ = ["Given", "Request", "as_json", "read_holidays", "read_series", "run_forecast"]

_SHOWN = 24  # rows of a table on the screen


class Request(NamedTuple):
    """What the command line asks for."""

    file: Path
    time: str
    target: str
    series: str | None
    horizon: int | None
    level: float
    out: Path | None
    paths: int
    seed: int
    report: Path | None
    json: bool
    regressors: tuple[str, ...] = ()
    holidays: Path | None = None
    model: Path | None = None
    load: Path | None = None


class Given(NamedTuple):
    """Times in order, readings (NaN where there is none) and columns `(rows, k)` of one series."""

    times: np.ndarray
    readings: np.ndarray
    columns: np.ndarray
    rows: np.ndarray  # of the file, from one on


def run_forecast(request: Request) -> None:
    """Read, forecast, print and write."""
    try:
        table = read_series(request.file, request.time, request.target, request.series, request.regressors)
        dates = None if request.holidays is None else read_holidays(request.holidays)
    except WrongTable as error:
        stop("forecast", error, 2)
    found, refused = _each(table, request, dates)
    if not found:
        name, reason = next(iter(refused.items()))
        which = f" (series {name!r})" if request.series is not None else ""
        stop("forecast", f"{request.file}{which}: {reason}", 1)
    if request.out is not None:
        write_forecasts(request.out, found, request.paths, request.seed)
    if request.model is not None:
        save(request.model, found)
    if request.report is not None:
        from tractable.cli.forecast_report import write_report

        write_report(request.report, request.file.name, found, refused)
    if request.json:
        print(json.dumps(as_json(found, refused), indent=2, allow_nan=False))
    else:
        _print(found, refused, request)


def read_series(
    path: Path, time: str, target: str, series: str | None, regressors: tuple[str, ...] = ()
) -> dict[str, Given]:
    """Times (sorted), readings and columns of each series by name; one series has the target's name."""
    frame: Any = read_table(path)
    check_columns(frame, (time, target, *(() if series is None else (series,)), *regressors), path)
    readings = _numbers(path, frame, target)
    columns = np.zeros((len(frame), len(regressors)))
    for j, name in enumerate(regressors):
        columns[:, j] = _numbers(path, frame, name)
        if np.isnan(columns[:, j]).any():
            row = int(np.isnan(columns[:, j]).argmax()) + 1
            raise WrongTable(f"{path}: {name!r} must hold a number in every row; got none in row {row}.")
    times = _times(path, time, frame[time])
    if series is not None and frame[series].isna().any():
        row = int(np.argmax(frame[series].isna())) + 1
        raise WrongTable(f"{path}: {series!r} must name a series in every row; got none in row {row}.")
    names: Any = frame[series].astype(str) if series is not None else pd.Series([target] * len(frame))
    found = {}
    for name in dict.fromkeys(names):
        own = np.flatnonzero((names == name).to_numpy())
        order = own[np.argsort(times[own], kind="stable")]
        found[str(name)] = Given(times[order], readings[order], columns[order], order + 1)
    return found


def _numbers(path: Path, frame: Any, name: str) -> np.ndarray:
    """A column of finite numbers, NaN where a cell is empty."""
    read: Any = pd.to_numeric(frame[name], errors="coerce")
    values = read.to_numpy(float)
    wrong = np.flatnonzero((read.isna() & frame[name].notna()).to_numpy() | np.isinf(values))
    if len(wrong):
        value, row = frame[name].iloc[wrong[0]], wrong[0] + 1
        said = value if isinstance(value, float) else repr(value)
        raise WrongTable(f"{path}: {name!r} must hold finite numbers; got {said} in row {row}.")
    return values


def read_holidays(path: Path) -> dict[str, np.ndarray]:
    """Dates by name: the column `date` (or the first), and `name` or `holiday` (or the second) if any."""
    frame: Any = read_table(path)
    names = [str(column) for column in frame.columns]
    date = next((n for n in names if n.lower() == "date"), names[0])
    rest = [n for n in names if n != date]
    label = next((n for n in rest if n.lower() in ("name", "holiday")), rest[0] if rest else None)
    days = _times(path, date, frame[date])
    if days.dtype.kind != "M":
        raise WrongTable(f"{path}: {date!r} must hold dates; got {frame[date].iloc[0]!r} in row 1.")
    if label is None:
        return {"holiday": days}
    said = frame[label].astype(str)
    return {str(name): days[(said == name).to_numpy()] for name in dict.fromkeys(said)}


def _times(path: Path, name: str, column: Any) -> np.ndarray:
    if column.isna().any():
        row = int(np.argmax(column.isna())) + 1
        raise WrongTable(f"{path}: {name!r} must hold a time in every row; got none in row {row}.")
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float)
    # a year and a month, or a quarter, are dates too
    quarters = column.astype(str).str.fullmatch(r"\d{4}-?Q[1-4]")
    if quarters.all():
        return (
            pd.PeriodIndex(column.astype(str).str.replace("-", ""), freq="Q")
            .to_timestamp()
            .to_numpy("datetime64[s]")
        )
    stamps = pd.to_datetime(column, errors="coerce", format="mixed", utc=True).dt.tz_localize(None)
    if stamps.isna().any():
        row = int(np.argmax(stamps.isna()))
        raise WrongTable(
            f"{path}: {name!r} must hold dates or numbers; got {column.iloc[row]!r} in row {row + 1}."
        )
    return stamps.to_numpy("datetime64[s]")


def _each(table: dict[str, Given], request: Request, dates: Any) -> tuple[dict[str, Any], dict[str, str]]:
    known = None if request.load is None else _loaded(request.load)
    found, refused = {}, {}
    for name, given in table.items():
        try:
            _check_times(given)
            if known is None:
                found[name] = _one(given, request, dates)
            elif name in known:
                found[name] = known[name].after(given.readings, request.horizon, times=given.times)
            else:
                refused[name] = f"`--load` has no model of it, only of {', '.join(known)}"
        except ValueError as error:  # a series that no model can be fitted to, said by the model
            refused[name] = str(error)
    return found, refused


def _check_times(given: Given) -> None:
    """Different times, by rows of the file: those of the sorted series are nobody's."""
    same = np.flatnonzero(given.times[1:] == given.times[:-1])
    if len(same):
        first, second = given.rows[same[0]], given.rows[same[0] + 1]
        fix = "Several series in one table have a column that names them: give it as `--series`."
        got = f"{_said(given.times[same[0]])} twice, in rows {first} and {second}"
        check(False, "time", "different in every row", got, fix)


def _one(given: Given, request: Request, dates: Any) -> SeriesForecast:
    """Rows behind the last reading are the future of the regressors."""
    options: Any = {"level": request.level, "holidays": dates}
    if not request.regressors:
        return forecast_series(given.readings, request.horizon, times=given.times, **options)
    whole = as_series(given.readings, given.times)
    columns = with_rows(whole, given.columns, "regressors")
    end = int(np.flatnonzero(~np.isnan(np.asarray(whole.values)))[-1]) + 1
    ahead, steps = len(whole) - end, request.horizon or len(whole) - end
    fix = "Append the rows to come, with their times and columns and an empty target."
    check(1 <= steps <= ahead, "regressors", f"known for {max(steps, 1)} steps to come", f"{ahead} rows", fix)
    known = whole.until(end)
    rows = np.asarray(known.places)
    return forecast_series(known, steps, X=columns[rows], future=columns[end : end + steps], **options)


def _loaded(path: Path) -> dict[str, SeriesForecast]:
    try:
        found = load(path)
    except (StorageError, OSError) as error:
        stop("forecast", error, 2)
    kind = type(found).__name__
    if not (isinstance(found, dict) and all(isinstance(v, SeriesForecast) for v in found.values())):
        stop("forecast", f"{path}: must be a file of `tractable forecast --model`; got {kind}.", 2)
    return found


def as_json(found: dict[str, SeriesForecast], refused: dict[str, str]) -> dict[str, Any]:
    """The whole answer; of several series `winner` and `season` are by name, and metrics are means."""
    single = len(found) + len(refused) == 1
    first = next(iter(found.values()))
    keys = ("mase", "crps", "coverage")
    with np.errstate(all="ignore"):
        means = {key: _mean([each.metrics[key] for each in found.values()]) for key in keys}
    rows = [
        {"series": name, "time": time, "mean": mean, "median": median, "lower": lower, "upper": upper}
        for name, each in found.items()
        for time, mean, median, lower, upper in _rows(each)
    ]
    return {
        "winner": first.winner if single else {name: each.winner for name, each in found.items()},
        "season": first.season if single else {name: each.season for name, each in found.items()},
        "metrics": means,
        "forecast": rows,
        "series": {name: _described(each) for name, each in found.items()},
        "left_out": refused,
    }


def _described(each: SeriesForecast) -> dict[str, Any]:
    events = [
        {"kind": e.kind, "time": _said(each.series.times(e.place, e.place + 1)[0]), "size": e.size,
         "statistic": e.statistic}
        for e in each.events
    ]  # fmt: skip
    return {
        "frequency": each.series.frequency, "log": each.is_log, "counts": each.is_count,
        "weights": each.weights,
        "coverage_by_step": [_finite(c) for c in each.metrics.get("coverage_by_step", ())], "events": events,
        "effects": {name: {"size": m, "deviation": s} for name, (m, s) in each.effects.items()},
        "left_out": each.left_out,
        "verdict": {"ok": each.verdict.ok, "sentence": each.verdict.sentence},
    }  # fmt: skip


def write_forecasts(path: Path, found: dict[str, SeriesForecast], paths: int, seed: int) -> None:
    """A row for each future time of each series; joint paths are columns."""
    from tractable.core.keys import as_key

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["series", "time", "mean", "median", "lower", "upper", *(f"path_{k + 1}" for k in range(paths))]
        )
        for name, each in found.items():
            drawn = each.sample(paths, key=as_key(seed)).T if paths else np.zeros((each.horizon, 0))
            for (time, *numbers), row in zip(_rows(each), drawn):
                writer.writerow([name, time, *(f"{x:.10g}" for x in (*numbers, *row))])


def _rows(each: SeriesForecast) -> list[tuple[Any, ...]]:
    columns = (np.asarray(column).tolist() for column in (each.mean, each.median, each.lower, each.upper))
    return list(zip((_said(time) for time in each.times), *columns))


def _said(time: Any) -> Any:
    """A time as in a table: a date without its midnight, or a number."""
    if isinstance(time, np.datetime64):
        return str(time.astype("datetime64[s]")).removesuffix("T00:00:00")
    return int(time) if float(time).is_integer() else float(time)


def _print(found: dict[str, SeriesForecast], refused: dict[str, str], request: Request) -> None:
    console = Console()
    for name, each in found.items():
        count = int((~np.isnan(np.asarray(each.series.values))).sum())
        facts = [f"{count} readings", f"one per {each.series.frequency}", f"season {each.season or 'none'}"]
        facts += ["log scale"] * each.is_log
        console.print(f"[bold]{name}[/bold]: {', '.join(facts)}.", highlight=False)
        if len(found) == 1:
            console.print(_models(each))
            console.print(_steps(each, request.level))
        for event in each.events:
            time = _said(each.series.times(event.place, event.place + 1)[0])
            console.print(f"{event.kind.capitalize()} at {time}: {event.size:+.3g}.", highlight=False)
        for column, (size, deviation) in each.effects.items():
            console.print(f"Effect of {column}: {size:+.3g} ± {deviation:.2g}.", highlight=False)
        word = "Verdict" if each.verdict.ok else "Warning"
        console.print(f"{word}: {each.verdict.sentence}\n", highlight=False)
    for name, reason in refused.items():
        console.print(f"Left out: {name} ({reason}).", highlight=False)
    for name, path in (("Forecasts", request.out), ("Report", request.report), ("Model", request.model)):
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True)


def _models(each: SeriesForecast) -> Table:
    table = Table(title="The models", title_justify="left")
    for name in ("model", "log-score", "weight"):
        table.add_column(name, justify="left" if name == "model" else "right")
    judged = each.evaluation
    pairs = [] if judged is None else sorted(zip(judged.names, judged.log_scores), key=lambda pair: -pair[1])
    for name, score in pairs:
        table.add_row(name, f"{score:.3f}", f"{each.weights.get(name, 0.0):.2f}")
    return table


def _steps(each: SeriesForecast, level: float) -> Table:
    table = Table(title="What follows", title_justify="left")
    for name in ("time", "mean", "median", f"lower {level:.0%}", f"upper {level:.0%}"):
        table.add_column(name, justify="left" if name == "time" else "right")
    for time, *numbers in _rows(each)[:_SHOWN]:
        table.add_row(str(time), *(f"{x:.5g}" for x in numbers))
    return table


def _mean(values: list[float]) -> float | None:
    kept = [value for value in values if math.isfinite(value)]
    return float(np.mean(kept)) if kept else None


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
