"""`python -m benchmarks programs [NAME ...] [--peers PYTHON] [--limit SECONDS]`: from start to verdict.

Each library infers each program in a fresh process with empty caches of compiled programs: tractable with all
latents written naturally, NumPyro (its enumeration where something is discrete) and PyMC with nutpie
non-centred, as their users write them; four chains, a thousand draws, float64. Seconds run from the start of
the process to the draws; `cpu` are those of the processor, for machines that others use too, and it is of
them that a library may take `--limit`; effective draws are the least of the quantities that a reader looks
at. Means are compared in standard errors with ours: they are the same posterior. `--peers` names a Python
that has the peers, where this one has not.
"""

import argparse
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks._programs_data import DATA

PEERS = ("numpyro", "pymc")
ELIMINATED = {"schools", "groups", "crossed", "mixture", "chain", "series", "process"}
_PATIENCE = 6  # seconds by the clock for each of the processor, on a machine that others use too


def measure(python: str, library: str, name: str, limit: float) -> dict[str, Any]:
    """What the child reports, or why it did not."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "JAX_ENABLE_X64": "1",
            "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
            "NUMBA_CACHE_DIR": f"{folder}/numba",
            "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
            "BENCHMARK_START": str(time.time()),
        }
        command = [python, "-W", "ignore", "-m", "benchmarks._programs_child", library, name]
        environment = {**os.environ, **settings}
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": _PATIENCE * limit}
        try:
            done = subprocess.run(command, env=environment, preexec_fn=lambda: _allow(limit), **options)
        except subprocess.TimeoutExpired:
            return {"failed": f"over {_PATIENCE * limit:g} s"}
    if done.returncode == -signal.SIGXCPU:
        return {"failed": f"over {limit:g} cpu s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    reason = (done.stderr.strip().splitlines() or ["no output"])[-1][:60]
    return json.loads(lines[-1]) if lines else {"failed": reason}


def _allow(seconds: float) -> None:
    """Seconds of the processor that this process may use."""
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))


def gap(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest difference of means, in standard errors of both."""
    pairs = [(value, theirs["means"][key]) for key, value in ours["means"].items()]
    return max(abs(a[0] - b[0]) / (a[1] ** 2 + b[1] ** 2) ** 0.5 for a, b in pairs)


def main(options: Sequence[str]) -> None:
    """Measure, print the table, and the median of the ratios against the best peer."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks programs", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*DATA, []], default=[])
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--limit", type=float, default=600.0)
    chosen = parser.parse_args(options)
    table = Table("program", "library", "s", "cpu", "effective draws", "draws / cpu s", "ratio", "gap", "")
    ratios: dict[str, float] = {}
    for name in chosen.names or DATA:
        ours = measure(sys.executable, "tractable", name, chosen.limit)
        _row(table, name, "tractable", ours, ours)
        _tell(name, "tractable", ours)
        for library in PEERS:
            theirs = measure(chosen.peers, library, name, chosen.limit)
            _row(table, name, library, theirs, ours)
            _tell(name, library, theirs)
            if "failed" not in theirs and "failed" not in ours:
                ratios[name] = min(ratios.get(name, float("inf")), _rate(ours) / _rate(theirs))
    Console(width=130).print(table)
    for label, values in (
        ("all", ratios),
        ("eliminated", {k: v for k, v in ratios.items() if k in ELIMINATED}),
    ):
        if values:
            median = statistics.median(values.values())
            print(f"median ratio to the best peer, {label}: {median:.1f}")


def _tell(name: str, library: str, found: dict[str, Any]) -> None:
    """A line at once: a run that is stopped has lost nothing."""
    shown = found.get("failed")
    if not shown:
        shown = (
            f"{found['seconds']:.1f} s, {found['cpu']:.1f} cpu s, {found['ess']:.0f} draws {found['said']}"
        )
    print(f"{name}, {library}: {shown}", file=sys.stderr, flush=True)


def _rate(found: dict[str, Any]) -> float:
    return found["ess"] / found["cpu"]


def _row(table: Table, name: str, library: str, found: dict[str, Any], ours: dict[str, Any]) -> None:
    if "failed" in found:
        table.add_row(name, library, "", "", "", "", "", "", found["failed"])
        return
    both = "failed" not in ours
    numbers = (f"{found['seconds']:.1f}", f"{found['cpu']:.1f}", f"{found['ess']:.0f}", f"{_rate(found):.1f}")
    against = (f"{_rate(ours) / _rate(found):.1f}", f"{gap(ours, found):.1f}") if both else ("", "")
    table.add_row(name, library, *numbers, *against, found["said"])
