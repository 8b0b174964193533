"""What the project says about itself is true: coverage table, lists, imports."""

import csv
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tractable.estimators import all_estimators

ROOT = Path(__file__).resolve().parent.parent


def coverage() -> list[dict[str, str]]:
    with (ROOT / "docs" / "coverage.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def resolve(dotted: str):
    """The object behind a dotted name: the longest importable module, then attributes."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


@pytest.mark.parametrize("row", coverage(), ids=lambda row: row["capability"])
def test_coverage_row_names_real_things(row):
    assert resolve(row["public_name"]) is not None
    path, _, name = row["test"].partition("::")
    source = (ROOT / path).read_text()
    for part in name.split("::"):
        assert re.search(rf"^\s*(def|class) {re.escape(part)}\b", source, re.MULTILINE), row["test"]


def test_coverage_lists_each_capability_once():
    slugs = [row["capability"] for row in coverage()]
    assert len(slugs) == len(set(slugs))


def test_every_estimator_is_on_the_page_that_helps_to_choose():
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    assert [name for name, _ in all_estimators() if f"`{name}`" not in page] == []


def test_import_is_light():
    heavy = "matplotlib", "sklearn", "pandas", "numba", "jax"
    code = f"import sys, tractable; print([m for m in {heavy!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_float64_is_on_however_jax_was_imported():
    for first, second in (("jax", "tractable"), ("tractable", "jax")):
        code = f"import {first}, {second}; import jax.numpy as jnp; print(jnp.zeros(1).dtype)"
        environment = {"PATH": "", "HOME": "/nonexistent"}
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        assert run.stdout.strip() == "float64"
