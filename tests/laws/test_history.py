"""No state of the process changes a result: each engine gives the same bits fresh, after heavy use, and with
one thread or two."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.laws.history import ENGINES, digest
from tractable.core import interrupts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fresh():
    """The digests of a new process that does nothing else, engine by engine in reverse order."""
    command = [sys.executable, "-m", "tests.laws.history", *reversed(ENGINES)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    found = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    return dict(line.split() for line in found.stdout.splitlines())


@pytest.mark.parametrize("name", ENGINES)
def test_bits_do_not_depend_on_what_the_process_did_before(name, fresh):
    for other in ENGINES:
        digest(other)
    assert digest(name) == fresh[name]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("workers", [1, 2])
def test_bits_do_not_depend_on_the_number_of_threads(name, workers, fresh, monkeypatch):
    monkeypatch.setattr(interrupts, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(workers))
    assert digest(name) == fresh[name]
