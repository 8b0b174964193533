"""`tractable compare`: models that `tractable fit` wrote, on the rows of one table, row by row.

All must predict the same target in the same measure; the table holds it. Differences are paired.
"""

import json
from pathlib import Path

import typer

from tractable.cli.paths import stop
from tractable.core.storage import StorageError
from tractable.tables.files import WrongTable

__all__ = ["run_compare"]


def run_compare(models: list[Path], file: Path, as_json: bool) -> None:
    """Load, score and print."""
    from tractable.race.comparison import compare_models
    from tractable.race.result import TableFit

    try:
        fits = {str(path): TableFit.load(path) for path in dict.fromkeys(models)}
        found = compare_models(fits, file)
    except WrongTable as error:
        said = " ".join(str(error).split())
        stop("compare", said if str(file) in said else f"{file}: {said}", 2)
    except (StorageError, ValueError) as error:
        stop("compare", " ".join(str(error).split()), 2)
    if as_json:
        print(json.dumps(found.as_dict(), indent=2, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{found.rows} rows of {file.name}", title_justify="left")
    for name in ("model", "winner", "log-score", "behind the best"):
        table.add_column(name, justify="left" if name in ("model", "winner") else "right", overflow="fold")
    for line in found.lines:
        behind = f"{-line.difference:.4f} ± {line.difference_error:.4f}" if line.difference < 0 else ""
        table.add_row(line.name, line.note, f"{line.log_score:.4f} ± {line.error:.4f}", behind)
    Console().print(table)
    typer.echo(found.verdict.sentence)
