"""`python -m benchmarks graphs [FOLDER] [--only NAME ...] [--limit SECONDS]`: exact queries beside peers.

FOLDER holds BIF files (`alarm.bif`, ...) that are measured besides the generated networks. Each library
answers the same queries in its own process, loading excluded: all marginals without evidence, then with it
for every twentieth variable, the best of the repeats, and the first query, which includes making the plan.
Ratios are seconds of the peer over seconds of tractable. A peer that is not installed, takes longer than the
limit or runs out of memory is reported as such. `BayesNet` is tractable with names and labels in and out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._graphs_networks import GENERATED

LIBRARIES = ("tractable", "BayesNet", "pyAgrum", "pgmpy")


def measure(library: str, network: str, folder: str | None, limit: float) -> dict:
    """What the child printed before it ended or the limit was reached."""
    command = [
        sys.executable,
        "-m",
        "benchmarks._graphs_child",
        library,
        network,
        *([folder] if folder else []),
    ]
    # loops compiled by this environment's numba are kept apart: another version would replace them
    kept = {"NUMBA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "tractable-benchmarks")} | os.environ
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=kept)
        printed, verdict = done.stdout, "" if done.returncode == 0 else _last_line(done.stderr)
    except subprocess.TimeoutExpired as late:
        printed = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        verdict = f"over {limit:g} s"
    found: dict = {"verdict": verdict}
    for line in printed.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    if "absent" in found:
        found["verdict"] = "not installed"
    return found


def _last_line(text: str) -> str:
    lines = text.strip().splitlines() or ["ended early"]
    return lines[-1][:40]


def row(network: str, library: str, found: dict, ours: dict) -> list[str]:
    """Times, ratios to tractable and the largest difference of a marginal."""

    def seconds(key):
        return f"{found[key] * 1e3:.3f}" if key in found else found["verdict"]

    def ratio(key):
        return f"{found[key] / ours[key]:.1f}" if key in found and key in ours else ""

    gaps = [
        np.abs(np.subtract(found[key], ours[key])).max()
        for key in ("marginals", "posteriors")
        if key in found and key in ours
    ]
    times = [cell for key in ("first", "plain", "given") for cell in (seconds(key), ratio(key))]
    return [network, library, *times, f"{max(gaps):.0e}" if gaps else ""]


def main(options: Sequence[str] = ()) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks graphs", description=__doc__)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--library", nargs="*", default=LIBRARIES)
    parser.add_argument("--limit", type=float, default=60.0)
    chosen = parser.parse_args(list(options))
    files = sorted(path.stem for path in Path(chosen.folder).glob("*.bif")) if chosen.folder else []
    heads = ("network", "library", "first ms", "x", "plain ms", "x", "evidence ms", "x", "difference")
    table, console = Table(*heads), Console(width=130)
    measure("BayesNet", "random100", None, 300.0)  # compiles what is kept
    for network in chosen.only or (*files, *GENERATED):
        ours: dict = {}
        for library in chosen.library:
            found = measure(library, network, chosen.folder, chosen.limit)
            ours = ours or found
            cells = row(network, library, found, ours)
            table.add_row(*cells)
            print(*cells, file=sys.stderr, flush=True)  # a long run shows where it is
    console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
