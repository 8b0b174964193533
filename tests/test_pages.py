"""The code on the pages of the documentation runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.plain
@pytest.mark.parametrize("page", PAGES)
def test_code_on_the_page_runs(page, tmp_path, monkeypatch):
    blocks = BLOCK.findall((ROOT / page).read_text())
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    for block in blocks:
        exec(compile(block, page, "exec"), space)
    assert "exit" not in space
