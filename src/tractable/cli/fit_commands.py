"""The commands about tables: `fit`, `predict`, `compare`; what they do is imported when they are called."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from tractable.cli.paths import existing, folder, stop, writable

__all__ = ["add_to"]


class Effort(enum.StrEnum):
    """How much work a race may be."""

    low = "low"
    normal = "normal"
    high = "high"


_JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
_Names = Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out; may be repeated.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (fit, predict, report, compare):
        app.command()(command)


def fit(
    file: Annotated[Path, typer.Argument(help="A table: CSV, TSV or Parquet.", show_default=False)],
    target: Annotated[str, typer.Option("--target", "-y", help="The column to predict.")],
    effort: Annotated[Effort, typer.Option(help="How much work the race may be.")] = Effort.normal,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="End the race early; what was left out is named.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same model.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of model and report.")] = Path(
        "tractable-fit"
    ),
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="COLUMN=KIND overrules what it is taken for.")
    ] = None,
    drop: _Names = None,
    weights: Annotated[str | None, typer.Option(help="The column of how often a row counts.")] = None,
    group: Annotated[str | None, typer.Option(help="The column of groups that stay together.")] = None,
    time: Annotated[str | None, typer.Option(help="The column of times: learnt from the past.")] = None,
    event: Annotated[str | None, typer.Option(help="The column that says whether the end was seen.")] = None,
    as_json: _JSON = False,
) -> None:
    """Predict a column of a table: models compared on unseen rows, honest intervals, a model file, a
    report."""
    existing("fit", "file", file)
    given = {}
    for pair in kinds or []:
        name, equals, kind = pair.rpartition("=")
        if not equals or not name:
            stop("fit", f"`--kind` must be COLUMN=KIND; got {pair!r}.", 2)
        given[name] = kind
    folder("fit", "out", out)
    from tractable.cli.fit import Request, run_fit

    beside = (weights, group, time, event)
    run_fit(
        Request(file, target, effort.value, seconds, seed, out, given, tuple(drop or ()), *beside, as_json)
    )


def predict(
    model: Annotated[Path, typer.Argument(help="What `tractable fit` wrote.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="A table with the same columns.", show_default=False)],
    level: Annotated[
        float, typer.Option(min=0.01, max=0.999, help="Probability inside each interval.")
    ] = 0.9,
    defer: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="The share of rows to leave to a person.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the predictions go, in CSV.")] = None,
    as_json: _JSON = False,
) -> None:
    """Predict the rows of another table with a model that `tractable fit` wrote."""
    existing("predict", "model", model)
    existing("predict", "file", file)
    if out is not None:
        writable("predict", "out", out)
    from tractable.cli.predict import Request, run_predict

    run_predict(Request(model, file, level, defer, out, as_json))


def report(
    model: Annotated[Path, typer.Argument(help="What `tractable fit` wrote.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report goes, in HTML.")] = Path(
        "report.html"
    ),
    as_json: _JSON = False,
) -> None:
    """Write the report of a model again, from its file alone."""
    existing("report", "model", model)
    writable("report", "out", out)
    from tractable.cli.predict import run_report

    run_report(model, out, as_json)


def compare(
    paths: Annotated[
        list[Path], typer.Argument(help="Models, and last a table with the target.", show_default=False)
    ],
    as_json: _JSON = False,
) -> None:
    """Compare models that `tractable fit` wrote on the rows of a table, row by row."""
    if len(paths) < 2:
        stop("compare", "there must be models and a table; got one path.", 2)
    for path in paths:
        existing("compare", "paths", path)
    from tractable.cli.compare import run_compare

    run_compare(paths[:-1], paths[-1], as_json)
