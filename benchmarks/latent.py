"""`python -m benchmarks latent [NAME ...] [--quick]`: clusters, mixtures, factors and topics beside peers.

Each library fits the same data in its own process, twice: the first time includes compilation, the second is
what a program pays that fits again. Ratios are seconds of the peer over seconds of tractable: above one,
tractable is faster (`cpu` are processor seconds of the second fit, for machines that others use too); read
them beside the objective, which means the same for both. `MB` is how far the peak
of memory grew. `--quick` leaves out peers that take a minute; `--list` only names the workloads.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks._children import measure
from benchmarks._latent_child import workloads


def row(workload: str, library: str, found: dict, ours: dict) -> list[str]:
    """Seconds, ratios to tractable, the objective and memory."""
    if "verdict" in found:
        return [workload, library, found["verdict"], *[""] * 7]
    cells = [workload, library]
    for key in ("first", "again", "cpu"):
        cells += [f"{found[key]:.3f}", f"{found[key] / ours[key]:.2f}" if key in ours else ""]
    return [*cells, f"{found['objective']:.8g}", f"{found['megabytes']:.0f}"]


def main(options: Sequence[str] = ()) -> None:
    """Measure and print the table."""
    known = workloads()
    parser = argparse.ArgumentParser(prog="python -m benchmarks latent", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(known))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0)
    chosen = parser.parse_args(list(options))
    if chosen.list:
        print("\n".join(f"{name}: {', '.join(known[name].fits)}" for name in known))
        return
    table = Table("workload", "library", "first s", "x", "again s", "x", "cpu s", "x", "objective", "MB")
    for workload in chosen.names:
        ours: dict = {}
        for library in known[workload].fits:
            if chosen.quick and library in known[workload].slow:
                continue
            found = measure("_latent_child", workload, library, chosen.limit)
            ours = ours or found
            cells = row(workload, library, found, ours)
            table.add_row(*cells)
            print(*cells, file=sys.stderr, flush=True)  # a long run shows where it is
    Console(width=130).print(table)
