"""`tractable forecast`: forecasts that come back as they were made, several series, report, faults."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tractable.cli.app import app
from tractable.cli.forecast import read_series
from tractable.statespace import forecast_series

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two series of quarters in long format, out of order, and one that never changes."""
    rng = np.random.default_rng(3)
    dates = pd.date_range("2010-01-01", periods=40, freq="QS").strftime("%Y-%m-%d")
    parts = [
        pd.DataFrame({"when": dates, "shop": shop, "sold": 50 + np.cumsum(rng.normal(size=40))})
        for shop in "ab"
    ]
    parts.append(pd.DataFrame({"when": dates, "shop": "flat", "sold": 7.0}))
    path = tmp_path_factory.mktemp("series") / "sold.csv"
    pd.concat(parts).sample(frac=1, random_state=0).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def answer(table):
    out, report = table.with_suffix(".out.csv"), table.with_suffix(".html")
    arguments = [
        "forecast",
        str(table),
        "--time",
        "when",
        "--target",
        "sold",
        "--series",
        "shop",
        "--horizon",
        "3",
    ]
    result = RUNNER.invoke(
        app, [*arguments, "--json", "--out", str(out), "--paths", "2", "--report", str(report)]
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), out, report


@pytest.mark.thorough
def test_forecasts_come_back_as_they_were_made(table, answer):
    found, out, _ = answer
    assert set(found) >= {"winner", "season", "metrics", "forecast"}
    assert set(found["metrics"]) == {"mase", "crps", "coverage"}
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["series", "time", "mean", "median", "lower", "upper", "path_1", "path_2"]
    assert [row["time"] for row in rows[:3]] == ["2020-01-01", "2020-04-01", "2020-07-01"]
    times, readings, *_ = read_series(table, "when", "sold", "shop")["a"]
    want = forecast_series(readings, 3, times=times)
    own = [row for row in rows if row["series"] == "a"]
    for name in ("mean", "median", "lower", "upper"):
        assert np.allclose([float(row[name]) for row in own], getattr(want, name), rtol=1e-8)
    assert len(found["forecast"]) == len(rows) == 6


def test_a_series_that_cannot_be_forecast_is_named(answer):
    found, _, report = answer
    assert "the constant 7" in found["left_out"]["flat"]
    page = report.read_text("utf-8")
    assert page.count("<img") >= 2
    assert "flat" in page


def test_tables_on_the_screen(table, tmp_path):
    alone = tmp_path / "alone.csv"
    frame = pd.read_csv(table)
    frame[frame["shop"] == "a"].to_csv(alone, index=False)
    result = RUNNER.invoke(
        app, ["forecast", str(alone), "--time", "when", "--target", "sold", "--horizon", "2"]
    )
    assert result.exit_code == 0, result.output
    for word in ("one per quarter", "log-score", "2020-04-01", "origins"):
        assert word in result.stdout


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("text", "options", "code", "said"),
    [
        ("t,y\n1,1\n", ["--time", "tt"], 2, "there must be a column 'tt'"),
        ("t,y\n1,1\n2,x\n", [], 2, "'y' must hold finite numbers; got 'x' in row 2"),
        ("t,y\n1,1\n,2\n", [], 2, "a time in every row; got none in row 2"),
        ("t,y\n2020-01-01,1\nsoon,2\n", [], 2, "dates or numbers; got 'soon' in row 2"),
        ("t,y\n1,1\n3,2\n2,3\n1,4\n", [], 1, "different in every row; got 1 twice, in rows 1 and 4"),
        ("s,t,y\na,1,1\n,2,2\n", ["--series", "s"], 2, "name a series in every row; got none in row 2"),
        ("t,y\n1,1\n2,inf\n", [], 2, "finite numbers; got inf in row 2"),
        ("t,y\n1,1\n2,2\n", [], 1, "at least 4 readings"),
        ("t,y\n1,1\n2,2\n", ["--paths", "3"], 2, "must come with `--out`"),
        ("t,y\n1,1\n2,2\n", ["--out", "no/where.csv"], 2, "in a folder that is there"),
    ],
)
def test_faults_are_one_line(tmp_path, text, options, code, said):
    path = tmp_path / "table.csv"
    path.write_text(text)
    given = {"--time": "t", "--target": "y"} | dict(zip(options[::2], options[1::2]))
    result = RUNNER.invoke(app, ["forecast", str(path), *(word for pair in given.items() for word in pair)])
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_known_columns_holidays_and_models_that_are_kept(tmp_path):
    days = pd.date_range("2024-01-01", periods=63, freq="D").strftime("%Y-%m-%d")
    rng = np.random.default_rng(0)
    price = rng.normal(size=63)
    sold = 10 + 2 * price + 0.3 * rng.normal(size=63)
    sold[[5, 19, 40, 50]] += 4
    frame = pd.DataFrame({"day": days, "sold": sold, "price": price})
    frame.loc[60:, "sold"] = np.nan
    frame.to_csv(tmp_path / "sold.csv", index=False)
    feasts = [days[i] for i in (5, 19, 40, 50, 61)]
    pd.DataFrame({"date": feasts, "name": "feast"}).to_csv(tmp_path / "feasts.csv", index=False)
    common = ["forecast", str(tmp_path / "sold.csv"), "--time", "day", "--target", "sold", "--json"]
    known = ["--regressors", "price", "--holidays", str(tmp_path / "feasts.csv")]
    result = RUNNER.invoke(app, [*common, *known])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    effects = found["series"]["sold"]["effects"]
    assert abs(effects["column 1"]["size"] - 2) < 0.4
    assert abs(effects["feast"]["size"] - 4) < 1
    means = [row["mean"] for row in found["forecast"]]
    assert len(means) == 3
    assert np.allclose(means, 10 + 2 * price[60:] + [0, 4, 0], atol=1.5)

    kept = tmp_path / "sold.trc"
    frame.loc[:49].to_csv(tmp_path / "sold.csv", index=False)
    result = RUNNER.invoke(app, [*common, "--horizon", "4", "--model", str(kept)])
    assert result.exit_code == 0, result.output
    first = json.loads(result.stdout)
    result = RUNNER.invoke(app, [*common, "--horizon", "4", "--load", str(kept)])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["forecast"] == first["forecast"]
    frame.loc[:59].to_csv(tmp_path / "sold.csv", index=False)
    result = RUNNER.invoke(app, [*common, "--load", str(kept)])
    assert json.loads(result.stdout)["forecast"][0]["time"] == days[60]
    result = RUNNER.invoke(app, [*common, "--load", str(kept), *known])
    assert result.exit_code == 2
    assert "`--load` must come without" in result.stderr
