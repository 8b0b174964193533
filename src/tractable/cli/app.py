"""The `tractable` command."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from tractable._version import __version__
from tractable.cli.fit_commands import add_to
from tractable.cli.paths import existing, folder, network_place, stop, writable

__all__ = ["app", "main"]

app = typer.Typer(
    help="Probabilistic machine learning: exact where it can be, certified where it cannot.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


class Shape(enum.StrEnum):
    """Shapes of the covariances of clusters."""

    spherical = "spherical"
    diagonal = "diagonal"
    tied = "tied"
    full = "full"


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"tractable {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    """Options that come before a command."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of table, model and report.")] = Path(
        "tractable-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same model.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """`tractable fit` on a bundled table: models compared on unseen rows, honest intervals, a report."""
    folder("demo", "out", out)
    from tractable.cli.demo import run_demo

    run_demo(out, seed, as_json)


@app.command()
def query(
    file: Annotated[
        Path, typer.Argument(help="A network: BIF, XMLBIF or UAI; or a name: asia.", show_default=False)
    ],
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", help="A variable to ask for; may be repeated.")
    ] = None,
    evidence: Annotated[
        list[str] | None, typer.Option("--evidence", "-e", help="What was seen, name=state; may be repeated.")
    ] = None,
    evidence_file: Annotated[Path | None, typer.Option(help="Evidence in a UAI .evid file.")] = None,
    cases: Annotated[
        Path | None, typer.Option(help="Evidence of many cases in CSV: a column for each variable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the answers to the cases go, in CSV.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Ask for all variables not observed.")] = False,
    mpe: Annotated[bool, typer.Option("--mpe", help="The most probable joint state.")] = False,
    samples: Annotated[int, typer.Option(min=0, help="Draws given the evidence, printed as CSV.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The random seed of the draws.")] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="The algorithm, and its predicted and actual cost.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Ask a network in a file: probabilities given evidence, the most probable state, draws."""
    network_place("query", "file", file)
    for name, path in (("evidence_file", evidence_file), ("cases", cases)):
        if path is not None:
            existing("query", name, path)
    if out is not None:
        writable("query", "out", out)
    alone = cases is None or not (samples or explain or as_json)
    if not alone or (out is not None and cases is None):
        must = "the answers to `--cases`, without `--samples`, `--explain` and `--json`"
        stop("query", f"`--out` must be for {must}; got another request.", 2)
    from tractable.cli.query import Source, run_query

    source = Source(file, evidence or [], evidence_file, cases, out)
    run_query(source, target or [], everything, mpe, samples, seed, explain, as_json)


@app.command()
def cluster(
    file: Annotated[Path, typer.Argument(help="A table: CSV, TSV or Parquet.", show_default=False)],
    columns: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column to use; may be repeated.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="A column to leave out; may be repeated.")
    ] = None,
    clusters: Annotated[int | None, typer.Option(min=1, help="The number; by default it is found.")] = None,
    most: Annotated[int, typer.Option(min=1, help="The largest number that is tried.")] = 8,
    shape: Annotated[
        Shape | None, typer.Option(help="Of the covariances; by default the best is found.")
    ] = None,
    starts: Annotated[int, typer.Option(min=1, help="Starts of each fit.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The random seed of the starts.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the memberships go, in CSV.")] = None,
    report: Annotated[Path | None, typer.Option(help="Where a report with pictures goes, in HTML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Find and describe the clusters of a table: how many, what distinguishes them, which row is where."""
    existing("cluster", "file", file)
    for name, path in (("out", out), ("report", report)):
        if path is not None:
            writable("cluster", name, path)
    from tractable.cli.cluster import Request, run_cluster

    chosen = None if shape is None else shape.value
    found = Request(file, columns or [], drop or [], clusters, most, chosen, starts, seed, out, report,
                    as_json)  # fmt: skip
    run_cluster(found)


@app.command()
def forecast(
    file: Annotated[Path, typer.Argument(help="A table: CSV, TSV or Parquet.", show_default=False)],
    time: Annotated[str, typer.Option("--time", "-t", help="The column of times: dates or numbers.")],
    target: Annotated[str, typer.Option("--target", "-y", help="The column of readings.")],
    series: Annotated[
        str | None, typer.Option(help="The column that names the series, where several.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="Steps; by default a season, or ten.")] = None,
    level: Annotated[
        float, typer.Option(min=0.01, max=0.999, help="Probability inside each interval.")
    ] = 0.9,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the forecasts go, in CSV.")] = None,
    paths: Annotated[int, typer.Option(min=0, help="Joint sample paths, as columns of `--out`.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The random seed of the paths.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Where a report with pictures goes, in HTML.")] = None,
    regressors: Annotated[
        list[str] | None, typer.Option(help="A column that is known in the rows to come; repeat for more.")
    ] = None,
    holidays: Annotated[Path | None, typer.Option(help="A table of dates (and names) of holidays.")] = None,
    model: Annotated[Path | None, typer.Option(help="Where the fitted models go.")] = None,
    load: Annotated[Path | None, typer.Option(help="Models of an earlier `--model`: none is fitted.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Forecast the series of a table: models judged on readings they had not seen, with honest intervals."""
    for name, path in (("file", file), ("holidays", holidays), ("load", load)):
        if path is not None:
            existing("forecast", name, path)
    for name, path in (("out", out), ("report", report), ("model", model)):
        if path is not None:
            writable("forecast", name, path)
    if load is not None and (regressors or holidays is not None):
        stop("forecast", "`--load` must come without `--regressors` and `--holidays`; got both.", 2)
    if paths and out is None:
        stop("forecast", "`--paths` must come with `--out`, where the paths go; got no file.", 2)
    from tractable.cli.forecast import Request, run_forecast

    known = (tuple(regressors or ()), holidays, model, load)
    run_forecast(
        Request(file, time, target, series, horizon, level, out, paths, seed, report, as_json, *known)
    )


@app.command()
def sample(
    file: Annotated[Path, typer.Argument(help="A program: Python with an `@tr.model`.", show_default=False)],
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="A table: its columns become arguments by name.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Which model, where the file has several.")] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="An argument, name=value; may be repeated.")
    ] = None,
    method: Annotated[str, typer.Option(help="As in `tr.infer`: auto, exact, nuts, laplace, ...")] = "auto",
    num_draws: Annotated[int | None, typer.Option(min=1, help="How many draws to make.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The random seed.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the draws go: .parquet, .csv or .nc.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Where a report with pictures goes, in HTML.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="A checkpoint: written while it runs, gone on from if it is there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Run a probabilistic program: its posterior, with what was done and how far to trust it."""
    existing("sample", "file", file)
    if data is not None:
        existing("sample", "data", data)
    for name, path in (("out", out), ("report", report), ("resume", resume)):
        if path is not None:
            writable("sample", name, path)
    from tractable.cli.sample import Request, run_sample

    found = Request(file, data, model, values or [], method, num_draws, seed, out, report, resume, as_json)
    run_sample(found)


add_to(app)


def main() -> None:
    """Entry point of the console script."""
    app()
