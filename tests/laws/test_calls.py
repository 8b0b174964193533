"""Calls with fresh closures, sizes and numbers leave nothing behind: memory and mappings do not grow."""

import json
import subprocess
import sys

import pytest

from tests.laws.calls import CHEAP

COUNT = 25
BYTES_A_CALL, NOISE = 100_000, 8_000_000  # the heap keeps what it got from a compiler for a while


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_calls_leave_nothing_behind():
    command = [sys.executable, "-m", "tests.laws.calls", str(COUNT)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    found = [json.loads(line) for line in child.stdout.splitlines()]
    assert [each["case"] for each in found] == [case.__name__ for case in CHEAP]
    for each in found:
        assert each["bytes"] < COUNT * BYTES_A_CALL + NOISE, each
        assert each["mappings"] <= COUNT, each
