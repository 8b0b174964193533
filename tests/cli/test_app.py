"""The command line: version, help, a demonstration, wrong paths."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from tractable import __version__, datasets
from tractable.cli.app import app

RUNNER = CliRunner()


def test_version():
    result = RUNNER.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.strip() == f"tractable {__version__}"


def test_help_lists_the_commands_without_heavy_imports():
    code = """if True:
        import runpy, sys
        sys.argv = ["tractable", "--help"]
        try:
            runpy.run_module("tractable", run_name="__main__")
        finally:
            heavy = {"jax", "scipy", "numba", "pandas", "sklearn", "matplotlib"}
            print(*heavy & set(sys.modules), file=sys.stderr)
        """
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=240
    )
    assert "demo" in done.stdout
    assert done.stderr.strip() == ""


@pytest.mark.thorough
def test_demo_is_the_fit_of_the_bundled_table(tmp_path):
    """The table that it writes is the bundled one, and its answers are those of `fit` on that file."""
    first, again = (tmp_path / name for name in ("demo", "again"))
    shown = RUNNER.invoke(app, ["demo", "--out", str(first), "--json"])
    assert shown.exit_code == 0, shown.output
    table = datasets.diabetes()
    written = np.loadtxt(first / "diabetes.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(written, np.c_[table.features, table.target])
    RUNNER.invoke(
        app, ["fit", str(first / "diabetes.csv"), "-y", "progression", "--effort", "low", "-o", str(again)]
    )
    for name in ("model.tractable", "report.html"):
        assert (first / name).read_bytes() == (again / name).read_bytes()
    numbers = json.loads(shown.stdout)["metrics"]
    rows = numbers["rows"]
    assert abs(numbers["coverage_90"] - 0.9) < 4 * np.sqrt(0.09 / rows)
    assert numbers["log_score"] > -5.6  # the base rate has -5.75, the best known -5.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--out", "/nonexist/x"], "`out` must be in a folder that is there; got '/nonexist"),
        (["demo", "--out", __file__], "`out` must be a folder; got the file"),
        (["query", "missing.bif"], "`file` must be a file that is there; got 'missing.bif'"),
        (["query", __file__, "--evidence-file", "no.evid"], "`evidence_file` must be a file that is there"),
        (["query", "asia", "--cases", "no.csv"], "`cases` must be a file that is there"),
        (["query", "asai"], "Did you mean asia"),
    ],
)
def test_a_wrong_path_is_refused_before_anything_is_loaded(arguments, message):
    code = (
        "import sys; from tractable.cli.app import app\n"
        "try: app(sys.argv[1:])\n"
        "finally: assert 'jax' not in sys.modules"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=240
    )
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr
