"""`tractable fit`, `predict` and `compare`: what is written, what is printed, and faults in one sentence."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tractable.cli.app import app
from tractable.race import candidates
from tractable.race.candidates import candidates_for

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
    """Of two models; `demo` races with all of them."""
    words = ["fit", str(folder / "rows.csv"), "--target", "y", "--out", str(folder / "out"), "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            candidates, "CANDIDATES", candidates_for("number", ("Bayesian linear", "robust linear"))
        )
        result = RUNNER.invoke(app, words)
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
        (["fit", "folder.csv", "--target", "y"], "must be a file"),
        (["fit", "one.csv", "--target", "y"], "at least 10 rows"),
        (["fit", "constant.csv", "--target", "y"], "two values; got 1 in every row"),
        (["fit", "open.csv", "--target", "y"], "quotes must be closed"),
        (["fit", "large.csv", "--target", "y"], "at most"),
        (["fit", "rows.csv", "--target", "y", "--group", "z"], "'z'"),
    ],
)
def test_faults_are_one_sentence_and_exit_code_two(folder, monkeypatch, arguments, said):
    monkeypatch.chdir(folder)
    _write_faults(folder)
    result = RUNNER.invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def _write_faults(folder):
    (folder / "folder.csv").mkdir(exist_ok=True)
    (folder / "empty.csv").write_text("")
    (folder / "one.csv").write_text("x,y\n1,2\n")
    (folder / "constant.csv").write_text("x,y\n" + "".join(f"{k},1\n" for k in range(20)))
    (folder / "open.csv").write_text('x,y\n1,"2\n' + "3,4\n" * 20)
    with open(folder / "large.csv", "wb") as file:
        file.truncate(2 << 30)  # takes no room


def test_what_the_file_alone_shows_is_told_before_the_library_is_imported(folder):
    _write_faults(folder)
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from tractable.cli.app import app\n"
        "for name in sys.argv[1:]:\n"
        "    assert CliRunner().invoke(app, ['fit', name, '-y', 'y', '--out', 'none']).exit_code == 2, name\n"
        "assert not {'jax', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
    )
    names = ("empty", "one", "constant", "open", "large")
    command = [sys.executable, "-c", program, *(f"{name}.csv" for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=240)
    assert done.returncode == 0, done.stderr
    assert not (folder / "none").exists()


def test_gaps_dates_copies_and_thousands_of_levels_are_named(folder, monkeypatch):
    monkeypatch.setattr(candidates, "CANDIDATES", candidates_for("number", ("Bayesian linear",)))
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    frame = pd.DataFrame({
        "x": np.where(rng.random(300) < 0.3, np.nan, x), "again": x, "copy": x, "same": 1,
        "when": pd.date_range("2020-01-01", periods=300).strftime("%d.%m.%Y"),
        "id": [f"k{k:05d}" for k in range(300)], "level": rng.integers(0, 250, 300).astype(str),
        "y": x + 0.5 * rng.normal(size=300),
    })  # fmt: skip
    frame["level"] = "level " + frame["level"]
    frame.loc[290:, "y"] = np.nan
    pd.concat([frame, frame.head(20)]).to_csv(folder / "real.csv", index=False)
    words = ["fit", str(folder / "real.csv"), "-y", "y", "--out", str(folder / "real"), "--json"]
    result = RUNNER.invoke(app, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["columns"]["when"] == "datetime"
    assert told["columns"]["id"] == "identifier"
    assert told["columns"]["same"] == "constant"
    named = {(note["code"], note["column"]) for note in told["notes"]}
    assert {"copy", "same", "id", "y"} <= {column for _, column in named}
    assert told["metrics"]["rmse"] < 0.8
    page = (folder / "real" / "report.html").read_text()
    assert len(page) < 2 << 20
    assert all(note["sentence"].split("'")[0][:20] in page for note in told["notes"])


def test_a_table_without_the_columns_is_refused_by_their_name(answer, folder):
    pd.read_csv(folder / "rows.csv").drop(columns="colour").to_csv(folder / "less.csv", index=False)
    result = RUNNER.invoke(app, ["predict", answer["model"], str(folder / "less.csv")])
    assert result.exit_code == 2
    assert "'colour'" in result.stderr


@pytest.mark.thorough
def test_a_new_process_predicts_the_same_bits_in_any_order_with_new_levels(answer, folder):
    frame = pd.read_csv(folder / "rows.csv")
    changed = frame[["y", "colour", "x"]].assign(more="?")
    changed.loc[0, "colour"] = "green"
    changed.to_csv(folder / "changed.csv", index=False)
    words = ["predict", answer["model"], str(folder / "changed.csv"), "--out"]
    assert RUNNER.invoke(app, [*words, str(folder / "here.csv")]).exit_code == 0
    done = subprocess.run(
        [sys.executable, "-m", "tractable", *words, str(folder / "there.csv")], check=False, timeout=240
    )
    assert done.returncode == 0
    assert (folder / "here.csv").read_bytes() == (folder / "there.csv").read_bytes()
