"""`tractable predict` and `tractable report`: what a model that `tractable fit` wrote says.

Output.      CSV, a line for each row: `prediction, median, sd, lower, upper, unlike`, of classes `prediction,
             probability[<class>]..., unlike`; `deferred` marks the rows of most uncertainty with `--defer`,
             `log_density` is there where the table holds the target. With `--json` the measures too.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

from tractable.cli.paths import stop
from tractable.core.storage import StorageError
from tractable.tables.files import WrongTable

__all__ = ["Request", "run_predict", "run_report"]


class Request(NamedTuple):
    """What the command line asks for."""

    model: Path
    file: Path
    level: float
    defer: float | None
    out: Path | None
    json: bool


def run_predict(request: Request) -> None:
    """Load, predict, write and print."""
    from tractable.race.predictions import predictions
    from tractable.race.result import TableFit
    from tractable.tables.reading import read_table

    try:
        fit = TableFit.load(request.model)
        frame = read_table(request.file, kinds=fit.kinds)
        found = predictions(fit.model, frame, level=request.level, defer=request.defer, measured=fit.metrics)
    except WrongTable as error:
        said = " ".join(str(error).split())
        stop("predict", said if str(request.file) in said else f"{request.file}: {said}", 2)
    except (StorageError, ValueError) as error:
        stop("predict", " ".join(str(error).split()), 2)
    for warning in found.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    if request.out is not None:
        from tractable.core.atomic import write_atomically

        write_atomically(request.out, found.table.to_csv(index=False).encode())
    if request.json:
        print(json.dumps(_as_json(found, request), indent=2, allow_nan=False))
    elif request.out is None:
        typer.echo(found.table.to_csv(index=False), nl=False)
    else:
        typer.echo(f"Predictions: {request.out}")


def run_report(model: Path, out: Path, as_json: bool) -> None:
    """The report of a model from its file."""
    from tractable.race.result import TableFit

    try:
        fit = TableFit.load(model)
    except (StorageError, ValueError) as error:
        stop("report", " ".join(str(error).split()), 2)
    fit.report(out)
    if as_json:
        print(
            json.dumps(fit.as_dict() | {"report": str(out), "model": str(model)}, indent=2, allow_nan=False)
        )
    else:
        typer.echo(f"Report: {out}")


def _as_json(found: Any, request: Request) -> dict[str, Any]:
    from tractable.race.measures import shown

    table = found.table
    answer: dict[str, Any] = {
        "rows": len(table), "unlike": int(table["unlike"].sum()), "warnings": list(found.warnings),
        "metrics": None if found.metrics is None else shown(found.metrics),
        "out": None if request.out is None else str(request.out),
    }  # fmt: skip
    if "deferred" in table:
        answer["deferred"] = int(table["deferred"].sum())
    if found.kept_metrics is not None:
        answer["kept_metrics"] = shown(found.kept_metrics)
    if request.out is None:
        answer["predictions"] = [
            {name: _plain(value) for name, value in row.items()} for row in table.to_dict("records")
        ]
    return answer


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
