"""`tractable cluster`: numbers of clusters that are known, columns by kind, memberships, report, faults."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from tractable.cli.app import app
from tractable.cli.cluster_analysis import analyse
from tractable.cli.tables import read_columns

RUNNER = CliRunner()
RNG = np.random.default_rng(3)
TRUE = np.repeat([0, 1, 2], [60, 40, 20])
CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three clusters in two numbers and a category, with gaps, and columns that say nothing."""
    points = CENTRES[TRUE] + RNG.normal(size=(120, 2))
    colour = np.where(RNG.uniform(size=120) < 0.9, np.array(["red", "blue", "blue"])[TRUE], "green")
    frame = pd.DataFrame({"number": range(1, 121), "x": points[:, 0], "y": points[:, 1], "colour": colour})
    frame["same"], frame["when"] = 7, pd.date_range("2020-01-01", periods=120).strftime("%Y-%m-%d")
    frame.loc[::10, "x"] = np.nan
    frame.loc[5::10, "colour"] = None
    path = tmp_path_factory.mktemp("tables") / "points.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def answer(table):
    members, report = table.with_suffix(".members.csv"), table.with_suffix(".html")
    arguments = ["cluster", str(table), "--most", "5", "--starts", "2", "--json"]
    result = RUNNER.invoke(app, [*arguments, "--out", str(members), "--report", str(report)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), members, report


@pytest.mark.thorough
def test_the_true_number_is_found_and_the_verdict_is_good(answer):
    found, _, _ = answer
    assert found["num_clusters"] == 3
    assert found["probabilities"]["3"] > 0.99
    assert found["verdict"]["ok"], found["verdict"]["sentence"]
    assert [each["rows"] for each in found["clusters"]] == [60, 40, 20]


def test_columns_are_what_they_are_and_others_are_left_out_by_name(answer):
    columns = answer[0]["columns"]
    assert (columns["numbers"], columns["categories"]) == (["x", "y"], ["colour"])
    assert columns["left_out"] == {
        "number": "whole numbers in a row: an identifier",
        "same": "one value, 7",
        "when": "dates",
    }


def test_memberships_are_probabilities_of_the_true_clusters(answer):
    with answer[1].open() as file:
        rows = list(csv.DictReader(file))
    shares = np.array([[float(row[f"probability_{k}"]) for k in (1, 2, 3)] for row in rows])
    np.testing.assert_allclose(shares.sum(1), 1.0, atol=1e-5)
    assert [int(row["cluster"]) for row in rows] == (TRUE + 1).tolist()


def test_a_cluster_is_described_by_the_columns_that_distinguish_it(answer):
    second = answer[0]["clusters"][1]
    first = second["features"][0]
    assert first["column"] == "x"
    assert first["inside"] == pytest.approx(8.0, abs=4 * 1 / np.sqrt(36))
    colours = next(f for f in second["features"] if f["column"] == "colour")
    assert colours["state"] == "blue"
    assert "x much higher" in second["description"] or "x higher" in second["description"]


def test_the_report_stands_alone(answer):
    page = answer[2].read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "How many?" in page
    assert "http" not in page


def test_evidence_of_one_cluster_is_bic_of_the_normal_law(tmp_path):
    x = RNG.normal(2.0, 3.0, 50)
    path = tmp_path / "one.csv"
    path.write_text("x\n" + "\n".join(map(repr, x.tolist())))
    options = {"num_clusters": 1, "most": 8, "shape": None, "num_starts": 1, "seed": 0}
    found = analyse(read_columns(path), **options)
    exact = norm(x.mean(), x.std()).logpdf(x).sum() - np.log(50)
    assert found.candidates[0].log_evidence == pytest.approx(exact, abs=1e-6)
    assert found.clusters[0].sentence() == "like the rows as a whole"


def test_the_table_is_printed(table):
    result = RUNNER.invoke(app, ["cluster", str(table), "--clusters", "2", "--shape", "tied", "-c", "y"])
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "120 rows, 1 columns in use." in words
    assert "Cluster 1:" in words


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("text", "options", "code", "message"),
    [
        ("a,b\n", [], 2, "there must be at least one row below the names"),
        ("a,a\n1,2\n3,4\n", ["--column", "z"], 2, "there must be a column 'z'"),
        ("a\n1\n1\n", [], 2, "got {'a': 'one value, 1'}"),
        ("a\n1.5\ninf\n2.5\n", [], 2, "numbers must be finite; got inf in 'a', row 2"),
        ("a,b\n1,x\n2,y\n3,z\n", ["-c", "b"], 2, "the column 'b' must hold numbers or categories"),
        ("a\n1.5\n2.5\n3.7\n", ["--clusters", "5"], 1, "at least as many as components (5)"),
    ],
)
def test_faults_are_one_line(tmp_path, text, options, code, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    result = RUNNER.invoke(app, ["cluster", str(path), *options])
    assert result.exit_code == code, result.output
    assert message in " ".join(result.stderr.split())
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_missing_file_is_said_at_once():
    result = RUNNER.invoke(app, ["cluster", "nowhere.csv"])
    assert result.exit_code == 2
    assert "`file` must be a file that is there" in result.stderr
