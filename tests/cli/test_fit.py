"""`tractable fit`, `predict` and `compare`: what is written, what is printed, and faults in one sentence."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tractable.cli.app import app

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of numbers and words, and a model of it."""
    rng = np.random.default_rng(0)
    x, colour = rng.normal(size=120), rng.choice(["red", "blue"], 120)
    frame = pd.DataFrame({"x": x, "colour": colour, "y": 2 * x + (colour == "red") + rng.normal(size=120)})
    place = tmp_path_factory.mktemp("fit")
    frame.to_csv(place / "rows.csv", index=False)
    return place


@pytest.fixture(scope="module")
def answer(folder):
    result = RUNNER.invoke(
        app, ["fit", str(folder / "rows.csv"), "--target", "y", "--effort", "low", "--out",
              str(folder / "out"), "--json"]
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_fit_prints_what_it_found_and_writes_the_model(answer, folder):
    assert answer["task"] == "number"
    assert answer["target"] == "y"
    assert {"log_score", "coverage_90", "width_90", "crps", "rmse"} <= set(answer["metrics"])
    assert any(model["name"] == "base rate" for model in answer["models"])
    assert answer["model"] == str(folder / "out" / "model.tractable")
    assert (folder / "out" / "model.tractable").is_file()
    assert sorted(path.name for path in (folder / "out").iterdir() if path.name.startswith(".")) == []


def test_report_writes_the_page_of_the_fit_again(answer, folder):
    page = folder / "again.html"
    result = RUNNER.invoke(app, ["report", answer["model"], "--out", str(page)])
    assert result.exit_code == 0, result.output
    assert answer["report"] == str(folder / "out" / "report.html")
    assert page.read_bytes() == (folder / "out" / "report.html").read_bytes()
    assert isinstance(answer["warnings"], list)
    broken = RUNNER.invoke(app, ["report", str(folder / "rows.csv"), "--out", str(page)])
    assert broken.exit_code == 2
    assert len(broken.stderr.strip().splitlines()) == 1


def test_predict_writes_a_line_for_each_row(answer, folder):
    result = RUNNER.invoke(
        app, ["predict", answer["model"], str(folder / "rows.csv"), "--defer", "0.1", "--out",
              str(folder / "p.csv"), "--json"]
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    told, table = json.loads(result.stdout), pd.read_csv(folder / "p.csv")
    names = ["prediction", "median", "sd", "lower", "upper", "unlike", "deferred", "log_density"]
    assert list(table) == names
    assert len(table) == 120
    assert told["deferred"] == 12
    assert told["metrics"]["rmse"] < 1.3
    assert ((table["lower"] < table["median"]) & (table["median"] < table["upper"])).all()


def test_compare_is_paired(answer, folder):
    other = folder / "other.tractable"
    other.write_bytes((folder / "out" / "model.tractable").read_bytes())
    result = RUNNER.invoke(app, ["compare", answer["model"], str(other), str(folder / "rows.csv"), "--json"])
    told = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [model["difference"] for model in told["models"]] == [0, 0]
    assert "cannot be told apart" in told["verdict"]["sentence"]


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "rows.csv", "--target", "z"], "'z'"),
        (["fit", "none.csv", "--target", "y"], "must be a file"),
        (["fit", "rows.csv", "--target", "y", "--kind", "x"], "COLUMN=KIND"),
        (["fit", "rows.csv", "--target", "y", "--kind", "x=fish"], "fish"),
        (["fit", "empty.csv", "--target", "y"], "empty.csv"),
        (["predict", "rows.csv", "rows.csv"], "rows.csv"),
        (["compare", "rows.csv"], "models and a table"),
    ],
)
def test_faults_are_one_sentence_and_exit_code_two(folder, monkeypatch, arguments, said):
    monkeypatch.chdir(folder)
    (folder / "empty.csv").write_text("")
    result = RUNNER.invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_table_without_the_columns_is_refused_by_their_name(answer, folder):
    pd.read_csv(folder / "rows.csv").drop(columns="colour").to_csv(folder / "less.csv", index=False)
    result = RUNNER.invoke(app, ["predict", answer["model"], str(folder / "less.csv")])
    assert result.exit_code == 2
    assert "'colour'" in result.stderr
