"""What the project says about itself is true: coverage table, lists, imports."""

import csv
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import ledger
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


@pytest.mark.cheap
@pytest.mark.parametrize("row", coverage(), ids=lambda row: row["capability"])
def test_coverage_row_names_real_things(row):
    assert resolve(row["public_name"]) is not None
    for test in row["test"].split(";"):  # one for each variant of a compound capability
        path, _, name = test.strip().partition("::")
        source = (ROOT / path).read_text()
        for part in name.split("::"):
            assert re.search(rf"^\s*(def|class) {re.escape(part)}\b", source, re.MULTILINE), test


def test_coverage_lists_each_capability_once():
    slugs = [row["capability"] for row in coverage()]
    assert len(slugs) == len(set(slugs))


def test_ledger_names_one_home_for_each_identity_and_its_callers():
    text = ledger.PAGE.read_text(encoding="utf-8")
    homes = [home.strip("`") for _, home, _, _ in ledger.rows(text)]
    assert len(homes) == len(set(homes))
    for home in homes:
        found = resolve(f"tractable.{home}")
        module = home if home in ledger.trees() else home.rpartition(".")[0]
        assert getattr(found, "__module__", found.__name__).removeprefix("tractable.") == module, home
    assert ledger.rewritten(text) == text, "run `python tools/ledger.py`"


@pytest.mark.parametrize(
    ("home", "caller"),
    [
        ("core.iterate.Ended", "inference.particles.smc"),  # an object, imported by its module's path
        ("core.linalg", "distributions.gaussian"),  # a module, by any of its names
    ],
)
def test_callers_are_found_from_imports(home, caller):
    assert caller in ledger.callers(home)


def test_every_estimator_is_on_the_page_that_helps_to_choose():
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    assert [name for name, _ in all_estimators() if f"`{name}`" not in page] == []


def test_import_is_light():
    heavy = "matplotlib", "sklearn", "pandas", "numba", "jax"
    code = f"import sys, tractable; print([m for m in {heavy!r} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.strip() == "[]"


def test_float64_is_on_however_jax_was_imported():
    for first, second in (("jax", "tractable"), ("tractable", "jax")):
        code = f"import {first}, {second}; import jax.numpy as jnp; print(jnp.zeros(1).dtype)"
        environment = {"PATH": "", "HOME": "/nonexistent"}
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            timeout=120,
        )
        assert run.stdout.strip() == "float64"
