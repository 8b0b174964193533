"""`python -m benchmarks statespace [NAME ...] [--only TOPIC] [--quick]`: models of sequences beside peers.

Each library does the same work on the same data in its own process, twice. Ratios are seconds of the peer
over seconds of tractable: above one, tractable is faster (`cpu` are processor seconds of the second time, for
machines that others use too); read them beside the objective, which means the same for both. `--only hmm`,
`kalman` or `pagerank` runs one topic; `--quick` leaves out peers that take a minute; `--list` only names the
workloads.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks._children import measure
from benchmarks._statespace_child import workloads
from benchmarks.latent import row


def main(options: Sequence[str] = ()) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks statespace", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0)
    chosen = parser.parse_args(list(options))
    known = workloads(chosen.only)
    if chosen.list:
        print("\n".join(f"{name}: {', '.join(known[name].fits)}" for name in known))
        return
    table = Table("workload", "library", "first s", "x", "again s", "x", "cpu s", "x", "objective", "MB")
    for workload in chosen.names or known:
        ours: dict = {}
        for library in known[workload].fits:
            if chosen.quick and library in known[workload].slow:
                continue
            found = measure("_statespace_child", workload, library, chosen.limit)
            ours = ours or found
            cells = row(workload, library, found, ours)
            table.add_row(*cells)
            print(*cells, file=sys.stderr, flush=True)  # a long run shows where it is
    Console(width=130).print(table)
