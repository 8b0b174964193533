"""`tractable cluster`: the clusters of a table, described in words, with probabilities of membership.

Output.      Tables of the numbers of clusters and of the clusters found, and the verdict; with `--out` the
             memberships of all rows in CSV, with `--report` a page of HTML with pictures, with `--json` all
             of it as JSON.
"""

import csv
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tractable.cli.cluster_analysis import Analysis, analyse
from tractable.cli.paths import stop
from tractable.cli.tables import read_columns
from tractable.tables.files import WrongTable

__all__ = ["Request", "as_json", "run_cluster"]


class Request(NamedTuple):
    """What the command line asks for."""

    file: Path
    columns: list[str]
    drop: list[str]
    num_clusters: int | None
    most: int
    shape: str | None
    num_starts: int
    seed: int
    out: Path | None
    report: Path | None
    json: bool


def run_cluster(request: Request) -> None:
    """Read, analyse, print and write."""
    try:
        columns = read_columns(request.file, request.columns, request.drop)
        found = analyse(
            columns, num_clusters=request.num_clusters, most=request.most, shape=request.shape,
            num_starts=request.num_starts, seed=request.seed,
        )  # fmt: skip
    except WrongTable as error:
        stop("cluster", error, 2)
    except ValueError as error:  # a table that no mixture can be fitted to, said by the model
        stop("cluster", f"{request.file}: {error}", 1)
    if request.out is not None:
        write_memberships(request.out, found)
    if request.report is not None:
        from tractable.cli.cluster_report import write_report

        write_report(request.report, request.file.name, found)
    if request.json:
        print(json.dumps(as_json(found), indent=2, allow_nan=False))
    else:
        _print(found, request)


def as_json(found: Analysis) -> dict[str, Any]:
    """The whole answer; numbers that are not finite are null."""
    candidates = [
        {
            "clusters": each.num_clusters, "shape": each.shape, "log_evidence": _finite(each.log_evidence),
            "probability": each.probability, "behind": _finite(each.behind),
            "standard_error": _finite(each.standard_error), "sound": each.verdict.ok,
        }
        for each in found.candidates
    ]  # fmt: skip
    clusters = [
        {
            "cluster": k + 1, "share": each.share, "rows": each.num_rows,
            "certainty": _finite(each.certainty), "description": each.sentence(),
            "features": [
                {"column": f.column, "bits": _finite(f.bits), "inside": _finite(f.inside),
                 "overall": _finite(f.outside), "state": f.state}
                for f in each.features
            ],
        }
        for k, each in enumerate(found.clusters)
    ]  # fmt: skip
    return {
        "num_clusters": len(found.clusters),
        "probabilities": {str(each.num_clusters): each.probability for each in found.candidates},
        "candidates": candidates,
        "clusters": clusters,
        "columns": {
            "numbers": list(found.columns.number_names),
            "categories": list(found.columns.category_names),
            "left_out": found.columns.left_out,
        },
        "rows": found.columns.num_rows,
        "verdict": {"ok": found.verdict.ok, "sentence": found.verdict.sentence},
    }


def write_memberships(path: Path, found: Analysis) -> None:
    """A row for each row of the table: its number, its cluster, and the probability of each cluster."""
    names = [f"probability_{k + 1}" for k in range(len(found.clusters))]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "cluster", *names])
        for row, (label, shares) in enumerate(zip(found.labels.tolist(), found.shares), start=1):
            writer.writerow([row, label, *(f"{share:.6g}" for share in shares)])


def _print(found: Analysis, request: Request) -> None:
    console = Console()
    columns = found.columns
    count = len(columns.number_names) + len(columns.category_names)
    console.print(f"{columns.num_rows} rows, {count} columns in use.", highlight=False)
    for name, reason in columns.left_out.items():
        console.print(f"Left out: {name} ({reason}).", highlight=False)
    if found.num_used < columns.num_rows:
        console.print(f"Chosen with {found.num_used} rows drawn at random, fitted to all.", highlight=False)
    if len(found.candidates) > 1:
        console.print(_candidate_table(found))
    console.print(_cluster_table(found))
    for k, each in enumerate(found.clusters, start=1):
        console.print(f"Cluster {k}: {each.sentence()}.", highlight=False)
    console.print(
        f"\n{'Verdict' if found.verdict.ok else 'Warning'}: {found.verdict.sentence}", highlight=False
    )
    for name, path in (("Memberships", request.out), ("Report", request.report)):
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True)


def _candidate_table(found: Analysis) -> Table:
    table = Table(title="How many clusters?", title_justify="left")
    for name in ("clusters", "shape", "log-evidence", "behind the best", "probability"):
        table.add_column(name, justify="left" if name == "shape" else "right")
    for each in found.candidates:
        behind = "" if each.behind == 0 else f"{each.behind:.1f} ± {each.standard_error:.1f}"
        height = f"{each.log_evidence:.1f}" if math.isfinite(each.log_evidence) else "collapsed"
        table.add_row(str(each.num_clusters), each.shape, height, behind, f"{each.probability:.3f}")
    return table


def _cluster_table(found: Analysis) -> Table:
    table = Table(title="The clusters", title_justify="left")
    for name in ("cluster", "share", "rows", "certainty"):
        table.add_column(name, justify="right")
    for k, each in enumerate(found.clusters, start=1):
        table.add_row(str(k), f"{each.share:.1%}", str(each.num_rows), f"{each.certainty:.2f}")
    return table


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
