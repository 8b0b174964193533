"""`tractable forecast`: the next readings of the series in a table, with intervals of measured coverage.

Output.      Tables of the models and of the forecasts, and the verdict; with `--out` the forecasts in CSV
             (and joint paths as columns), with `--report` a page of HTML with pictures, with `--json` all of
             it as JSON.
Series.      A table in long format has a column that names the series; one that cannot be forecast is named
             with the reason, and the others are.
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

from tractable._hints import nearest
from tractable.cli.paths import stop
from tractable.cli.tables import WrongTable, read_frame
from tractable.statespace.forecast.forecast import SeriesForecast, forecast_series

__all__ = ["Request", "as_json", "read_series", "run_forecast"]

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


def run_forecast(request: Request) -> None:
    """Read, forecast, print and write."""
    try:
        table = read_series(request.file, request.time, request.target, request.series)
    except WrongTable as error:
        stop("forecast", error, 2)
    found, refused = _each(table, request)
    if not found:
        name, reason = next(iter(refused.items()))
        which = f" (series {name!r})" if request.series is not None else ""
        stop("forecast", f"{request.file}{which}: {reason}", 1)
    if request.out is not None:
        write_forecasts(request.out, found, request.paths, request.seed)
    if request.report is not None:
        from tractable.cli.forecast_report import write_report

        write_report(request.report, request.file.name, found, refused)
    if request.json:
        print(json.dumps(as_json(found, refused), indent=2, allow_nan=False))
    else:
        _print(found, refused, request)


def read_series(
    path: Path, time: str, target: str, series: str | None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Times (sorted) and readings of each series by name; one series has the name of the target."""
    frame: Any = read_frame(path)
    for name in (time, target, *(() if series is None else (series,))):
        if name not in frame.columns:
            said = nearest(name, list(frame.columns))
            raise WrongTable(f"{path}: there must be a column {name!r}; got {list(frame.columns)}. {said}")
    readings: Any = pd.to_numeric(frame[target], errors="coerce")
    wrong = np.flatnonzero(
        (readings.isna() & frame[target].notna()).to_numpy() | np.isinf(readings.to_numpy(float))
    )
    if len(wrong):
        value, row = frame[target].iloc[wrong[0]], wrong[0] + 1
        raise WrongTable(f"{path}: {target!r} must hold finite numbers; got {value!r} in row {row}.")
    times = _times(path, time, frame[time])
    names: Any = frame[series].astype(str) if series is not None else pd.Series([target] * len(frame))
    found = {}
    for name in dict.fromkeys(names):
        own = np.flatnonzero((names == name).to_numpy())
        order = own[np.argsort(times[own], kind="stable")]
        found[str(name)] = times[order], readings.to_numpy(float)[order]
    return found


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


def _each(table: dict[str, Any], request: Request) -> tuple[dict[str, SeriesForecast], dict[str, str]]:
    found, refused = {}, {}
    for name, (times, readings) in table.items():
        try:
            found[name] = forecast_series(readings, request.horizon, times=times, level=request.level)
        except ValueError as error:  # a series that no model can be fitted to, said by the model
            refused[name] = str(error)
    return found, refused


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
        word = "Verdict" if each.verdict.ok else "Warning"
        console.print(f"{word}: {each.verdict.sentence}\n", highlight=False)
    for name, reason in refused.items():
        console.print(f"Left out: {name} ({reason}).", highlight=False)
    for name, path in (("Forecasts", request.out), ("Report", request.report)):
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
