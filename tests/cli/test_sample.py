"""`tractable sample`: programs from files, columns as arguments, files of draws, reports, and faults."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tractable.cli.app import app

RUNNER = CliRunner()
PROGRAM = """
import tractable as tr
from tractable.distributions import Beta, Bernoulli, HalfNormal, Normal


@tr.model
def coin(tosses, a=2.0):
    bias = tr.sample("bias", Beta(a, 2.0))
    with tr.plate("toss", len(tosses)):
        tr.sample("tosses", Bernoulli(bias), obs=tosses)


@tr.model
def groups(height, school, school_labels):
    spread = tr.sample("spread", HalfNormal(5.0))
    with tr.plate("school", school_labels):
        mean = tr.sample("mean", Normal(0.0, 3.0))
    with tr.plate("row", len(height)):
        tr.sample("height", Normal(mean[school], spread), obs=height)


@tr.model
def broken(tosses):
    rate = tr.sample("rate", Beta(2.0, 2.0))
    tr.sample("rate", Beta(2.0, 2.0))


@tr.model
def wrong(tosses):
    raise KeyError("nothing")
"""
COIN = ["--model", "coin"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    (folder / "program.py").write_text(PROGRAM)
    frame = pd.DataFrame({"tosses": [True, True, True, False], "school": ["b", "a", "b", "a"]})
    frame["height"] = [1.0, -2.0, 1.5, -2.5]
    frame.to_csv(folder / "data.csv", index=False)
    frame["tosses"] = [1, np.nan, 0, 1]
    frame.to_csv(folder / "gaps.csv", index=False)
    return folder


def invoke(files, *arguments, data="data.csv"):
    return RUNNER.invoke(
        app, ["sample", str(files / "program.py"), "--data", str(files / data), *map(str, arguments)]
    )


@pytest.fixture(scope="module")
def grouped(files):
    out, report = files / "draws.parquet", files / "report.html"
    result = invoke(files, "--model", "groups", "--json", "--out", out, "--report", report, "--seed", 3)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), out, report


def test_columns_become_arguments_and_words_codes(grouped, files):
    found, out, _ = grouped
    assert found["verdict"]["ok"]
    assert found["unknowns"] == {"before": 3, "after": 1}
    names = [row["name"] for row in found["summary"]]
    assert set(names) == {"mean[a]", "mean[b]", "spread"}
    rows = {row["name"]: row["mean"] for row in found["summary"]}
    assert rows["mean[a]"] < -1 < 0 < rows["mean[b]"]  # a is low, b is high
    frame = pd.read_parquet(out)
    assert frame.shape == (4000, 5)
    np.testing.assert_allclose(frame["spread"].mean(), rows["spread"], rtol=1e-9)


def test_the_report_has_everything(grouped):
    text = grouped[2].read_text("utf-8")
    assert text.count("data:image/png") == 4  # graph, intervals, marginals, checks
    for word in ("What was done", "Predictive checks", "mean[school] ~ Normal", "Accurate"):
        assert word in text, word


def test_the_table_ends_with_the_verdict(files):
    out = files / "coin.csv"
    result = invoke(files, *COIN, "--set", "a=3.0", "--out", out, "--num-draws", 2000)
    assert result.exit_code == 0, result.output
    assert "bias" in result.stdout
    assert "Verdict: Exact" in result.stdout
    draws = pd.read_csv(out)["bias"]
    assert len(draws) == 2000
    exact = 6 / 9  # Beta(3 + 3, 2 + 1)
    assert abs(draws.mean() - exact) < 4 * draws.std() / np.sqrt(2000)


@pytest.mark.thorough
def test_netcdf_and_checkpoints(files):
    pytest.importorskip("arviz")
    out, mark = files / "draws.nc", files / "run.safetensors"
    arguments = ("--model", "groups", "--method", "nuts", "--num-draws", 100, "--json")
    first = invoke(files, *arguments, "--out", out, "--resume", mark)
    assert first.exit_code == 0, first.output
    assert out.stat().st_size > 0
    assert mark.exists()
    again = invoke(files, *arguments, "--resume", mark)
    assert json.loads(again.stdout)["summary"] == json.loads(first.stdout)["summary"]


FAULTS = [
    ((), r"there must be one model; got coin, groups, broken, wrong. Choose one with `--model`"),
    (("--model", "con"), r"`--model` must be a model of .*got 'con'. Did you mean coin"),
    (("--model", "broken"), r"program.py:25, `tr.sample.*`name` must be used once in a model; got 'rate'"),
    (("--model", "wrong"), r"program.py:30, `raise KeyError\(.nothing.\)`: KeyError: 'nothing'"),
    ((*COIN, "--set", "b=3"), r"`--set` must name an argument of the model; got 'b'"),
    ((*COIN, "--set", "b"), r"`--set` must be like name=value; got 'b'"),
    ((*COIN, "--out", "x.txt"), r"`--out` must end in .parquet, .csv, .nc; got 'x.txt'"),
    ((*COIN, "--out", "no/x.csv"), r"`out` must be in a folder that is there"),
    ((*COIN, "--resume", "x"), r"`--resume` must come with `--method` nuts"),
    ((*COIN, "--method", "gibbs"), r"`method` must be one of"),
]


@pytest.mark.cheap
@pytest.mark.parametrize(("arguments", "words"), FAULTS)
def test_faults_are_one_line(files, arguments, words):
    result = invoke(files, *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert re.search(words, " ".join(result.output.split())), result.output


def test_faults_of_files(files):
    gaps = invoke(files, *COIN, data="gaps.csv")
    assert "the column 'tosses' must be filled; got nothing in row 2" in " ".join(gaps.output.split())
    (files / "bad.py").write_text("import tractable as tr\nx = (1,\n")
    bad = RUNNER.invoke(app, ["sample", str(files / "bad.py")])
    assert bad.exit_code == 2
    assert "bad.py:2: '(' was never closed" in " ".join(bad.output.split())
    alone = RUNNER.invoke(app, ["sample", str(files / "program.py"), "--model", "coin"])
    assert "`coin` must have its argument 'tosses'; got no table" in " ".join(alone.output.split())
