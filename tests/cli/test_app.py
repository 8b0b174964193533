"""The command line: version, help, and a demonstration whose numbers are checked by an independent route."""

import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from tractable import __version__, datasets
from tractable.cli.app import app
from tractable.cli.demo import analyse

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
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "demo" in done.stdout
    assert done.stderr.strip() == ""


def test_demo_prints_and_writes(tmp_path):
    picture = tmp_path / "demo.png"
    result = RUNNER.invoke(app, ["demo", "--picture", str(picture), "--seed", "1"])
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = " ".join(result.stdout.split())
    assert re.search(r"Coverage: \d+ of 110 held-out values", text)
    assert "as it should be" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["demo", "--picture", "/nonexist/x.png"],
            "`picture` must be in a folder that is there; got '/nonexist",
        ),
        (["demo", "--picture", "/tmp"], "`picture` must be a file; got the folder '/tmp'"),
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
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_demo_refuses_a_level_outside_its_range():
    result = RUNNER.invoke(app, ["demo", "--level", "1.5"])
    assert result.exit_code != 0


def test_demo_evidence_is_that_of_the_marginal_student_t():
    # Integrating coefficients and noise out of y leaves a multivariate t: SciPy's density of all targets at
    # once.
    result = analyse(0)
    train, _ = datasets.diabetes().split(0.25, 0)
    columns = (train.features - train.features.mean(0)) / train.features.std(0)
    design = np.c_[np.ones(len(train)), columns]
    targets = (train.target - train.target.mean()) / train.target.std()
    shape = np.eye(len(train)) + design @ design.T
    oracle = stats.multivariate_t(np.zeros(len(train)), shape, df=2).logpdf(targets) - len(train) * np.log(
        train.target.std()
    )
    np.testing.assert_allclose(result.log_evidence, oracle, rtol=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_demo_intervals_are_calibrated_over_splits(level):
    covered = [analyse(seed).covered(level) for seed in range(5)]
    total = 5 * 110
    assert abs(sum(covered) - level * total) < 4 * np.sqrt(total * level * (1 - level))
