"""`tractable query`: numbers against enumeration, output as JSON and tables, errors in one line."""

import io
import itertools
import json
import math
import subprocess
import sys

import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tractable.cli.app import app
from tractable.cli.query import WrongRequest, parse_evidence
from tractable.graphs.files import read

RUNNER = CliRunner()
TEXT = """network unknown {
}
variable rain {
  type discrete [ 2 ] { yes, no };
}
variable level {
  type discrete [ 3 ] { <5, "[5, 10]", >=10 };
}
variable alarm=on {
  type discrete [ 2 ] { a=b, off };
}
probability ( rain ) {
  table 0.2, 0.8;
}
probability ( level | rain ) {
  (yes) 0.1, 0.3, 0.6;
  (no) 0.7, 0.3, 0.0;
}
probability ( alarm=on | level ) {
  (<5) 0.01, 0.99;
  ("[5, 10]") 0.2, 0.8;
  (>=10) 0.95, 0.05;
}
"""
RAIN = {"yes": 0.2, "no": 0.8}
LEVEL = {"yes": {"<5": 0.1, "[5, 10]": 0.3, ">=10": 0.6}, "no": {"<5": 0.7, "[5, 10]": 0.3, ">=10": 0.0}}
ALARM = {"<5": 0.01, "[5, 10]": 0.2, ">=10": 0.95}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "flood.bif").write_text(TEXT)
    return str(tmp_path / "flood.bif")


def ask(*options):
    result = RUNNER.invoke(app, ["query", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def joint(alarm="a=b"):
    """P(rain, level, alarm) for each rain and level, by hand."""
    return {
        (rain, level): RAIN[rain]
        * LEVEL[rain][level]
        * (ALARM[level] if alarm == "a=b" else 1 - ALARM[level])
        for rain, level in itertools.product(RAIN, ALARM)
    }


def test_json_equals_enumeration(path):
    found = json.loads(ask(path, "--evidence", "alarm=on=a=b", "--all", "--mpe", "--json"))
    cells = joint()
    total = sum(cells.values())
    assert found["log_evidence"] == pytest.approx(math.log(total), abs=1e-12)
    rain = {state: sum(p for (r, _), p in cells.items() if r == state) / total for state in RAIN}
    level = {state: sum(p for (_, v), p in cells.items() if v == state) / total for state in ALARM}
    assert found["marginals"] == {"rain": pytest.approx(rain), "level": pytest.approx(level)}
    best = max(cells, key=cells.get)
    assert found["mpe"]["assignment"] == {"rain": best[0], "level": best[1], "alarm=on": "a=b"}
    assert found["mpe"]["log_probability"] == pytest.approx(math.log(cells[best]), abs=1e-12)
    assert found["algorithm"] == "junction tree"
    assert found["exact"] is True
    assert found["seconds"] >= 0


def test_targets_are_answered_in_the_order_asked(path):
    found = json.loads(ask(path, "-t", "level", "-t", "rain", "-e", "level=>=10", "--json"))
    assert list(found["marginals"]) == ["level", "rain"]
    assert found["marginals"]["level"] == {"<5": 0.0, "[5, 10]": 0.0, ">=10": 1.0}
    assert found["marginals"]["rain"] == pytest.approx({"yes": 1.0, "no": 0.0})
    assert found["log_evidence"] == pytest.approx(math.log(0.12), abs=1e-12)
    assert set(found) == {"marginals", "log_evidence", "algorithm", "exact", "seconds"}


def test_without_options_all_variables_are_asked_for(path):
    found = json.loads(ask(path, "--json"))
    assert set(found["marginals"]) == {"rain", "level", "alarm=on"}
    assert found["log_evidence"] == pytest.approx(0.0, abs=1e-12)


def test_tables_hold_the_numbers_and_odd_labels(path):
    text = ask(path, "-e", "alarm=on=a=b", "--mpe", "--explain", "--all")
    cells = joint()
    total = sum(cells.values())
    assert f"{sum(p for (r, _), p in cells.items() if r == 'yes') / total:.6f}" in text
    assert "[5, 10]" in text  # not taken for markup
    assert f"log P(alarm=on=a=b) = {math.log(total):.6f}" in text
    assert f"with the evidence: {math.log(max(cells.values())):.6f}" in text
    assert "junction tree" in text
    assert "Exact." in text
    assert "predicted" in text
    assert "treewidth 1" in text


def test_explain_gives_both_costs(path):
    found = json.loads(ask(path, "--explain", "--json"))["explain"]
    assert found["treewidth"] == 1
    assert found["predicted"]["cells"] > 0
    assert found["predicted"]["bytes"] > 0
    assert found["actual"]["bytes"] > 0
    assert 0 < found["actual"]["seconds"] < 60


def test_samples_are_csv_with_the_posterior_frequencies(path):
    text = ask(path, "-e", "alarm=on=a=b", "--samples", "4000", "--seed", "3")
    rows = pd.read_csv(io.StringIO(text), keep_default_na=False)
    assert list(rows.columns) == ["rain", "level", "alarm=on"]
    assert (rows["alarm=on"] == "a=b").all()
    cells, total = joint(), sum(joint().values())
    p = sum(value for (rain, _), value in cells.items() if rain == "yes") / total
    z = ((rows["rain"] == "yes").mean() - p) / math.sqrt(p * (1 - p) / 4000)
    assert abs(z) < 5
    assert text == ask(path, "-e", "alarm=on=a=b", "--samples", "4000", "--seed", "3")
    again = read(path).sample(jr.key(3), 4000, {"alarm=on": "a=b"})
    assert text == again.to_csv(index=False)


def test_samples_of_the_targets_in_json(path):
    found = json.loads(ask(path, "-t", "rain", "--samples", "5", "--json"))
    assert list(found["samples"]) == ["rain"]
    assert len(found["samples"]["rain"]) == 5
    assert found["marginals"]["rain"] == pytest.approx(RAIN)


def test_a_field_with_evidence_from_a_file(tmp_path):
    (tmp_path / "field.uai").write_text("MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n\n2 1 3\n\n4 1 2 3 4\n")
    (tmp_path / "field.uai.evid").write_text("1 1 1\n")
    field = str(tmp_path / "field.uai")
    found = json.loads(ask(field, "--evidence-file", f"{field}.evid", "--mpe", "--json"))
    weights = np.array([[1, 2], [9, 12]])
    assert found["mpe"]["assignment"] == {"x0": "1", "x1": "1"}
    assert found["mpe"]["log_probability"] == pytest.approx(math.log(12 / 24), abs=1e-12)
    assert found["log_evidence"] == pytest.approx(math.log(14 / 24), abs=1e-12)
    found = json.loads(ask(field, "--evidence-file", f"{field}.evid", "--json"))
    assert found["marginals"]["x0"] == pytest.approx({"0": 2 / 14, "1": 12 / 14})
    assert found["log_evidence"] == pytest.approx(math.log(weights[:, 1].sum() / weights.sum()), abs=1e-12)


def test_rounded_tables_are_noted_on_the_error_stream(tmp_path):
    file = tmp_path / "net.bif"
    file.write_text(TEXT.replace("table 0.2, 0.8", "table 0.20001, 0.8"))
    result = RUNNER.invoke(app, ["query", str(file), "--json"])
    assert result.exit_code == 0
    assert result.stderr.startswith(f"note: {file}:13: `rain` has a row with sum 1.00001")
    assert json.loads(result.stdout)["marginals"]["rain"]["yes"] == pytest.approx(
        0.20001 / 1.00001, abs=1e-12
    )


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--target", "rainn"], 2, "`--target` must name a variable; got 'rainn'. Did you mean rain?"),
        (["--target", "q"], 2, "got 'q'. It has rain, level, alarm=on."),
        (["--evidence", "rain"], 2, "`--evidence` must be name=state; got 'rain'."),
        (["--evidence", "train=yes"], 2, "must name a variable; got 'train'. Did you mean rain?"),
        (["--evidence", "rain=maybe"], 2, "must give 'rain' one of its states: yes, no; got 'maybe'."),
        (["-e", "rain=yes", "-e", "rain=no"], 2, "must give 'rain' one state; got 'yes' and 'no'."),
        (["--evidence-file", "absent.evid"], 2, "must be a file that is there; got 'absent.evid'."),
        (["-e", "rain=no", "-e", "level=>=10"], 1, "P(rain='no', level='>=10') = 0"),
        (["-e", "rain=no", "-e", "level=>=10", "--mpe"], 1, "P(rain='no', level='>=10') = 0"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(path, options, code, message):
    result = RUNNER.invoke(app, ["query", path, *options, "--json"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("tractable query: ")
    assert message in result.stderr


def test_errors_of_files_are_one_line(tmp_path):
    result = RUNNER.invoke(app, ["query", str(tmp_path / "absent.bif")])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    bad = tmp_path / "bad.bif"
    bad.write_text(TEXT.replace("0.2, 0.8;", "0.2, 0.9;", 1))
    result = RUNNER.invoke(app, ["query", str(bad)])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"{bad}:13: `rain` must be" in result.stderr


def test_evidence_is_read_by_the_names_of_the_network():
    states = {"a": ("b=c", "d"), "a=b": ("c",), "n": (0, 1)}
    assert parse_evidence(["a=d"], states) == {"a": "d"}
    assert parse_evidence(["a=b=c"], states) == {"a": "b=c"}
    assert parse_evidence(["n=1"], states) == {"n": 1}
    assert parse_evidence([], states) == {}
    with pytest.raises(WrongRequest, match="one of its states: 0, 1; got 'x'"):
        parse_evidence(["n=x"], states)


def test_help_of_the_command_imports_no_jax():
    code = """import sys
from typer.testing import CliRunner
from tractable.cli.app import app
assert "--evidence" in CliRunner().invoke(app, ["query", "--help"], env={"COLUMNS": "120"}).stdout
assert "jax" not in sys.modules, "jax was imported"
assert "pandas" not in sys.modules, "pandas was imported"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
