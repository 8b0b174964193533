"""`tractable query --cases`: answers against enumeration, files that are wrong, impossible cases, names."""

import csv
import io
import itertools
import math
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tractable import datasets
from tractable.cli.app import app
from tractable.graphs import write

RUNNER = CliRunner()
# The earthquake of Korb and Nicholson, by hand: burglary, earthquake, alarm, John calls, Mary calls.
ALARM = {("no", "no"): 0.001, ("no", "yes"): 0.29, ("yes", "no"): 0.94, ("yes", "yes"): 0.95}
NAMES = ("burglary", "earthquake", "alarm", "john_calls", "mary_calls")


def joint(states):
    burglary, earthquake, alarm, john, mary = states
    chances = (
        (burglary, 0.01),
        (earthquake, 0.02),
        (alarm, ALARM[burglary, earthquake]),
        (john, 0.9 if alarm == "yes" else 0.05),
        (mary, 0.7 if alarm == "yes" else 0.01),
    )
    return math.prod(p if state == "yes" else 1 - p for state, p in chances)


CELLS = {states: joint(states) for states in itertools.product(("no", "yes"), repeat=5)}


def total(**seen):
    return sum(
        p for states, p in CELLS.items() if all(states[NAMES.index(n)] == s for n, s in seen.items() if s)
    )


def ask(tmp_path, text, *options, code=0, network="earthquake"):
    path = tmp_path / "cases.csv"
    path.write_text(text, encoding="utf-8")
    found = RUNNER.invoke(app, ["query", network, "--cases", str(path), *options])
    assert found.exit_code == code, found.output
    return found


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_each_case_is_answered_as_by_enumeration(tmp_path):
    cases = [("yes", ""), ("no", "yes"), ("", ""), ("yes", "")]
    text = "john_calls,mary_calls\n" + "".join(f"{a},{b}\n" for a, b in cases)
    rows = rows_of(ask(tmp_path, text, "-t", "burglary", "-t", "alarm").stdout)
    assert [row["case"] for row in rows] == ["1", "2", "3", "4"]
    assert list(rows[0])[2:] == ["burglary=no", "burglary=yes", "alarm=no", "alarm=yes"]
    for row, (john, mary) in zip(rows, cases):
        evidence = total(john_calls=john, mary_calls=mary)
        assert float(row["log_evidence"]) == pytest.approx(math.log(evidence), abs=1e-12)
        for name, state in itertools.product(("burglary", "alarm"), ("no", "yes")):
            exact = total(john_calls=john, mary_calls=mary, **{name: state}) / evidence
            assert float(row[f"{name}={state}"]) == pytest.approx(exact, abs=1e-12)


def test_the_most_probable_states_and_evidence_common_to_all(tmp_path):
    output = tmp_path / "answers.csv"
    found = ask(tmp_path, "alarm\nyes\n\n", "--mpe", "-e", "mary_calls=yes", "-o", str(output))
    assert found.stdout == ""
    rows = rows_of(output.read_text())
    assert len(rows) == 2  # an empty line of one column is a case of which nothing was seen
    for row, alarm in zip(rows, ("yes", None)):
        allowed = {s: p for s, p in CELLS.items() if s[4] == "yes" and alarm in (None, s[2])}
        best = max(allowed, key=allowed.get)
        assert tuple(row[name] for name in NAMES) == best
        assert float(row["log_probability"]) == pytest.approx(math.log(allowed[best]), abs=1e-12)


def test_impossible_cases_are_named_and_the_others_answered(tmp_path):
    text = "tuberculosis,either\nyes,no\nno,no\nyes,no\n"
    found = ask(tmp_path, text, "-t", "cancer", code=1, network="asia")
    first, second, third = rows_of(found.stdout)
    assert [first["log_evidence"], first["cancer=yes"]] == ["-inf", ""]
    assert float(second["cancer=no"]) == 1.0
    assert first | {"case": "3"} == third
    lines = found.stderr.splitlines()
    assert [line.split(":")[1] for line in lines] == [" case 1", " case 3"]
    assert "P(tuberculosis='yes', either='no') = 0" in lines[0]


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("alarn\nyes\n", [], "must have variables as columns; got 'alarn'. Did you mean alarm"),
        ("alarm,alarm\nyes,no\n", [], "`--cases` must have each variable once; got 'alarm' twice"),
        ("", [], "cases.csv:1: `--cases` must have a first line with names of variables; got nothing"),
        ("alarm\nyes\nmaybe\n", [], "cases.csv:3: `--cases` must give 'alarm' one of: no, yes; got 'maybe'"),
        ("alarm,burglary\nyes\n", [], "cases.csv:2: `--cases` must have 2 cells in a row; got 1"),
        ("alarm\nyes\n", ["-e", "alarm=no"], "must give 'alarm' one state; got no for all cases and yes"),
        ('alarm\n"yes\n', [], "must be CSV in UTF-8"),
        ("alarm\nyes\n", ["--json"], "`--json`; got another request"),
        ("alarm\nyes\n", ["-o", "/nonexist/x.csv"], "`out` must be in a folder that is there"),
    ],
)  # fmt: skip
def test_a_wrong_file_of_cases_is_one_line_and_code_two(tmp_path, text, options, says):
    found = ask(tmp_path, text, *options, code=2)
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1
    assert says in found.stderr


def test_a_file_goes_before_a_name_and_spreadsheets_mark_their_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(datasets.network("cancer"), tmp_path / "asia.bif")
    (tmp_path / "asia.bif").rename(tmp_path / "asia")
    found = ask(tmp_path, "\ufeffsmoker\nyes\n", "-t", "cancer", network="asia")
    (row,) = rows_of(found.stdout)
    assert float(row["cancer=yes"]) == pytest.approx(0.9 * 0.03 + 0.1 * 0.05, abs=1e-12)


def test_the_commands_of_the_page_run(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    Path("cases.csv").write_text(re.search(r"^```csv\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1])
    commands = re.findall(r"^tractable (query .*)$", page, re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        found = RUNNER.invoke(app, shlex.split(command.split(" > ")[0]))
        assert found.exit_code == 0, (command, found.output)
    assert len(rows_of(Path("answers.csv").read_text())) == 3
