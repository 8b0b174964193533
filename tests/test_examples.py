"""The examples run to their assertions."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.plain
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs_to_its_assertions(name, tmp_path, monkeypatch):
    path = ROOT / "examples" / name
    assert re.search(r"^\s*assert ", path.read_text(), re.MULTILINE), "an example ends in an assertion"
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
