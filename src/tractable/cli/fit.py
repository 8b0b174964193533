"""`tractable fit`: a column of a table predicted, models compared on rows they have not seen.

Output.      The folder of `--out` gets `model.tractable` and `report.html`, each whole or not at all; the
             screen the columns' notes, the leaderboard, the measures on rows never used, and the verdict.
             With `--json` all of it as JSON. The leader so far goes to the error stream.
Codes.       0, or 2 with one sentence for a table or request that cannot be used, or 130 after Ctrl-C, with
             the best so far written.
"""

import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import typer

from tractable.cli.paths import stop
from tractable.tables.files import WrongTable

__all__ = ["Request", "run_fit"]

_NUMBERS = ("log_score", "coverage_50", "coverage_80", "coverage_90", "coverage_95", "width_90", "crps",
            "rmse", "accuracy", "ece", "brier")  # fmt: skip


class Request(NamedTuple):
    """What the command line asks for."""

    file: Path
    target: str
    effort: str
    seconds: float | None
    seed: int
    out: Path
    kinds: dict[str, str]
    drop: tuple[str, ...]
    weights: str | None
    group: str | None
    time: str | None
    event: str | None
    json: bool


def run_fit(request: Request) -> None:
    """Read, race, write and print."""
    from tractable.race.asked import check_asked
    from tractable.tables.reading import read_table

    begun = time.monotonic()
    beside = (request.weights, request.group, request.time, request.event)
    try:  # what the file alone shows is told before the rest is imported
        table = read_table(request.file, kinds=request.kinds)
        check_asked(table, request.target, beside, request.drop)
        left = None if request.seconds is None else max(request.seconds - time.monotonic() + begun, 0.1)
        from tractable.race.fit import fit_table

        found = fit_table(
            table, request.target, effort=request.effort, seconds=left, seed=request.seed,
            kinds=request.kinds, drop=request.drop, weights=request.weights, group=request.group,
            time=request.time, event=request.event, tell=lambda said: typer.echo(said, err=True),
        )  # fmt: skip
    except WrongTable as error:
        stop("fit", _placed(request.file, error), 2)
    except ValueError as error:
        stop("fit", _placed(request.file, error), 2)
    except KeyboardInterrupt:
        stop("fit", "interrupted; nothing was written.", 130)
    request.out.mkdir(exist_ok=True)
    model = request.out / "model.tractable"
    found.save(model)
    report = _report(request, found)
    if request.json:
        paths = {"report": str(report), "model": str(model)}
        print(json.dumps(found.as_dict() | paths, indent=2, allow_nan=False))
    else:
        _print(found, model, report)
    if found.interrupted:
        raise typer.Exit(130)


def _placed(file: Path, error: ValueError) -> str:
    sentence = " ".join(str(error).split())
    return sentence if str(file) in sentence else f"{file}: {sentence}"


def _report(request: Request, found: Any) -> Path:
    path = request.out / "report.html"
    found.report(path)
    return path


def _print(found: Any, model: Path, report: Path) -> None:
    from rich.console import Console

    from tractable.race.measures import told
    from tractable.race.study_words import untried

    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True, markup=False)

    described = found.description
    say(f"{described.num_rows} rows, {len(described.features)} columns in use; the task is {found.task!r}.")
    for note in found.notes:
        say(f"- {note.sentence}")
    console.print(_table(found))
    for sentence in _noted(found):
        say(sentence)
    if found.evidence_sentence:
        say(found.evidence_sentence)
    for sentence in untried(found.left_out):
        say(sentence)
    shown = [f"{name} {told(found.metrics[name])}" for name in _NUMBERS if name in found.metrics]
    say(f"On {found.metrics['rows']} rows {'never used' if found.untouched else 'held out'}: "
        + ", ".join(shown) + ".")  # fmt: skip
    for sentences in found.study.get("words", {}).values():
        for sentence in sentences:
            say(f"- {sentence}")
    say(f"\n{'Verdict' if found.verdict.ok else 'Warning'}: {found.verdict.sentence}")
    say(f"Model: {model}")
    say(f"Report: {report}")


def _table(found: Any) -> Any:
    """The leaderboard, narrow enough for a terminal; what notes say is below it."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = "Models by log-score of rows held out, with standard errors"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    stated = any(math.isfinite(each.evidence) for each in found.standings)
    for name in ("model", "log-score", "behind the best", "weight", *(("evidence",) if stated else ())):
        table.add_column(name, justify="left" if name == "model" else "right")
    for each in found.standings:
        behind = _cell(-each.difference, each.difference_error) if each.difference < 0 else ""
        cells = [_cell(each.log_score, each.error), behind, f"{each.weight:.2f}" if each.weight else ""]
        table.add_row(each.name, *cells, *([_cell(each.evidence)] if stated else []))
    return table


def _noted(found: Any) -> list[str]:
    """What is said of models, one line for each note."""
    names: dict[str, list[str]] = {}
    for each in found.standings:
        if each.note:
            names.setdefault(each.note.rstrip("."), []).append(each.name)
    return [f"{note[0].upper()}{note[1:]}: {', '.join(own)}." for note, own in names.items()]


def _cell(value: float, error: float | None = None) -> str:
    if not math.isfinite(value):
        return ""
    return f"{value:.4f}" if error is None else f"{value:.4f} ± {error:.4f}"
