"""Workloads that several libraries do, each library in a process of its own, and the table of their times.

A topic is a file `benchmarks/_<family>_<topic>.py` with `WORKLOADS`, a dictionary of `Workload` by name; it
is found by its name, and needs no entry anywhere else.
"""

import argparse
import importlib
import json
import pkgutil
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

import benchmarks


@dataclass(frozen=True)
class Workload:
    """Data, and what each library does with them.

    `fits` maps a library ("tractable" first) to a function that imports it and returns the fit: a function of
    the data that returns the objective, one number that means the same for every library. `slow` are the
    libraries that take a minute; `objective` names the number.
    """

    data: Callable[[], Any]
    fits: dict[str, Callable[[], Callable[[Any], float]]]
    objective: str = "objective"
    slow: tuple[str, ...] = ()


def workloads(family: str, only: str = "") -> dict[str, Workload]:
    """The workloads of all topics of a family, or of those whose name begins with `only`."""
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__))
    topics = [name for name in names if name.startswith(f"_{family}_{only}") and name != f"_{family}_child"]
    found: dict[str, Workload] = {}
    for topic in topics:
        found |= getattr(importlib.import_module(f"benchmarks.{topic}"), "WORKLOADS", {})
    return found


def run(family: str, workload: str, library: str) -> None:
    """Do it twice; the first time includes what is compiled, not the import of the library."""
    chosen = workloads(family)[workload]
    data, fit = chosen.data(), chosen.fits[library]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, work, value = [], [], float("nan")
    for _ in range(2):
        start, begun = time.perf_counter(), time.process_time()
        value = float(fit(data))
        seconds.append(time.perf_counter() - start)
        work.append(time.process_time() - begun)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found = {"first": seconds[0], "again": seconds[1], "cpu": work[1], "objective": value}
    print(json.dumps(found | {"megabytes": grown}))


def measure(child: str, workload: str, library: str, limit: float) -> dict:
    """What `python -m benchmarks.CHILD WORKLOAD LIBRARY` reports as its last line of JSON."""
    command = [sys.executable, "-m", f"benchmarks.{child}", workload, library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"verdict": f"over {limit:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    reason = (done.stderr.strip().splitlines() or ["ended early"])[-1][:60]
    return json.loads(lines[-1]) if lines else {"verdict": reason}


def compare(family: str, description: str | None, options: Sequence[str]) -> None:
    """Measure the workloads of a family and print the table."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {family}", description=description)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--only", default="", help="the beginning of the name of a topic")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0)
    chosen = parser.parse_args(list(options))
    known = workloads(family, chosen.only)
    if chosen.list:
        print("\n".join(f"{name}: {', '.join(known[name].fits)}" for name in known))
        return
    table = Table("workload", "library", "first s", "x", "again s", "x", "cpu s", "x", "objective", "MB")
    for workload in chosen.names or known:
        ours: dict = {}
        for library in known[workload].fits:
            if chosen.quick and library in known[workload].slow:
                continue
            found = measure(f"_{family}_child", workload, library, chosen.limit)
            ours = ours or found
            cells = _row(workload, library, found, ours)
            table.add_row(*cells)
            print(*cells, file=sys.stderr, flush=True)  # a long run shows where it is
    Console(width=130).print(table)


def _row(workload: str, library: str, found: dict, ours: dict) -> list[str]:
    """Seconds, ratios to tractable, the objective and memory."""
    if "verdict" in found:
        return [workload, library, found["verdict"], *[""] * 7]
    cells = [workload, library]
    for key in ("first", "again", "cpu"):
        cells += [f"{found[key]:.3f}", f"{found[key] / ours[key]:.2f}" if key in ours else ""]
    return [*cells, f"{found['objective']:.8g}", f"{found['megabytes']:.0f}"]
