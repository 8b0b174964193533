"""Changed tables through `tractable fit` and `tractable predict`: a model and a report, or one sentence.

Few and quick candidates race; pictures are drawn in a fifth of the cases.
"""

import traceback
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks._fuzz_changes import mutated

__all__ = ["fitted_file"]

_PLAIN = ("Bayesian linear", "Bayesian linear of the logarithm", "Poisson regression", "logistic",
          "naive Bayes", "Weibull survival")  # fmt: skip


def fitted_file(numbers: np.random.Generator, folder: Path) -> tuple[str, str]:
    """`fit` of a changed table writes a model and a report that `predict` can use, or says one sentence."""
    from tractable.race import candidates, report

    path, new, out = folder / "table.csv", folder / "new.csv", folder / "out"
    text = _orders(numbers)
    separator = ",;\t"[numbers.integers(3)]
    raw = text.replace(",", separator).encode(("utf-8", "latin-1", "utf-16")[numbers.integers(3)])
    path.write_bytes(mutated(numbers, raw) if numbers.random() < 0.6 else _odd_cells(numbers, text).encode())
    new.write_bytes(mutated(numbers, raw))
    target = ("cost", "size", "count", "when", "share", "late")[numbers.integers(6)]
    words = ["fit", str(path), "--target", target, "--out", str(out), "--json"]
    for name, column in (("group", "town"), ("time", "when"), ("event", "late"), ("weights", "count")):
        words += [f"--{name}", column] if numbers.random() < 0.08 else []
    few = tuple(each for each in candidates.CANDIDATES if each.name in _PLAIN)
    plain = numbers.random() < 0.8  # pictures are what a report costs
    pictures = (lambda fit: {"leaderboard": ""}) if plain else report.pictures_of
    with patch.object(candidates, "CANDIDATES", few), patch.object(report, "pictures_of", pictures):
        end, reason = _one_sentence(words)
    if end != "answered":
        return end, reason
    for name in ("model.tractable", "report.html"):
        if not 0 < (out / name).stat().st_size < 2 << 20:
            return "fault", f"{words}: {name} of {(out / name).stat().st_size} bytes"
    for asked in (path, new):
        end, reason = _one_sentence(["predict", str(out / "model.tractable"), str(asked), "--defer", "0.1"])
        if end == "fault" or (end == "refused" and asked == path):
            return "fault", f"{path.read_bytes()!r}, {new.read_bytes()!r}: {words}: {reason}"
    return "answered", ""


def _orders(numbers: np.random.Generator) -> str:
    """A table of forty rows with most of what tables have."""
    lines = ["id,when,town,size,cost,share,count,late,note"]
    for row in range(40):
        weight, town = numbers.gamma(2.0), ("Köln", "Ulm", "Bonn", "")[numbers.integers(4)]
        size = ("low", "medium", "high")[min(int(weight), 2)]
        cost = f"{weight * 10 + numbers.normal():.2f}" if numbers.random() < 0.95 else ""
        cells = (f"a{row}", f"2020-{row % 12 + 1:02}-{row % 28 + 1:02}", town, size, cost)
        cells += (f"{numbers.integers(100)}%", f"{numbers.poisson(weight)}", ("no", "yes")[row % 2])
        lines.append(",".join((*cells, f"word{numbers.integers(9)} x")))
    return "\n".join(lines) + "\n"


def _odd_cells(numbers: np.random.Generator, text: str) -> str:
    """Whole cells or columns exchanged for odd ones: tables that can be read."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(numbers.integers(1, 4)):
        row, column = int(numbers.integers(len(rows))), int(numbers.integers(len(rows[0])))
        word = ("", "nan", "inf", "-1", "0", "1e308", "1e-320", "999999999999", "é", "True")[
            numbers.integers(10)
        ]
        below = numbers.random() < 0.3
        for place in range(row, len(rows)) if below else [row]:
            rows[place][column] = word
    return "\n".join(map(",".join, rows)) + "\n"


def _one_sentence(words: list[str]) -> tuple[str, str]:
    """A command ends with code 0, or with 2 and one line that says why."""
    from typer.testing import CliRunner

    from tractable.cli.app import app

    found = CliRunner().invoke(app, words)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        text = "".join(traceback.format_exception(found.exception)[-4:])
        return "fault", f"{words}:\n{text}"
    if found.exit_code == 0:
        return "answered", ""
    last = found.stderr.strip().splitlines()[-1:]
    ok = found.exit_code == 2 and last and last[0].startswith(f"tractable {words[0]}: ") and "must" in last[0]
    return ("refused", last[0]) if ok else ("fault", f"{words}: {found.stderr}")
