"""`tractable demo`: the main job on the bundled table of 442 patients, which is written beside the answers.

Model.       What `tractable fit` chooses, by the log-score of rows that the models have not seen.
"""

from pathlib import Path

import typer

from tractable import datasets
from tractable.cli.fit import Request, run_fit
from tractable.core.atomic import write_atomically

__all__ = ["run_demo"]


def run_demo(out: Path, seed: int, as_json: bool = False) -> None:
    """Write the table, run `fit` on it, and say how to go on."""
    table = datasets.diabetes()
    out.mkdir(exist_ok=True)
    file = out / f"{table.name}.csv"
    write_atomically(file, _csv(table).encode())
    if not as_json:
        typer.echo(f"tractable fit {file} --target {table.target_name} --effort low --out {out}\n")
    run_fit(Request(file, table.target_name, "low", None, seed, out, {}, (), None, None, None, None, as_json))
    if not as_json:
        typer.echo(f"\nNext: tractable predict {out / 'model.tractable'} {file} --defer 0.1")


def _csv(table: datasets.Table) -> str:
    """A line of names, then a line for each row."""
    lines = [",".join((*table.feature_names, table.target_name))]
    lines += [",".join(f"{x:g}" for x in (*row, y)) for row, y in zip(table.features, table.target)]
    return "\n".join(lines) + "\n"
