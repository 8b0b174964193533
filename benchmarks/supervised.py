"""`python -m benchmarks supervised [NAME ...] [--quick]`: fits beside scikit-learn, LIBSVM and GPyTorch.

Each library fits the same rows in its own process, twice: the first time includes compilation, the second is
what a program pays that fits again. `score` is the accuracy, or for regressions the mean log predictive
density, on rows that were held out; `predict` is the time for them. Ratios are seconds of the peer over
seconds of tractable: above one, tractable is faster. `--quick` leaves out peers that take a minute.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks._children import measure
from benchmarks._supervised_child import SLOW, WORKLOADS


def row(workload: str, library: str, found: dict, ours: dict) -> list[str]:
    """Seconds, ratios to tractable and the score."""
    if "verdict" in found:
        return [workload, library, found["verdict"], "", "", "", "", "", ""]
    cells = [workload, library]
    for key in ("first", "again", "predict"):
        cells += [f"{found[key]:.3f}", f"{found[key] / ours[key]:.2f}" if key in ours else ""]
    return [*cells, f"{found['score']:.4f}"]


def main(options: Sequence[str] = ()) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks supervised", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0)
    chosen = parser.parse_args(list(options))
    heads = ("workload", "library", "first s", "x", "again s", "x", "predict s", "x", "score")
    table = Table(*heads)
    for workload in chosen.names:
        ours: dict = {}
        for library in WORKLOADS[workload].fits:
            if chosen.quick and (workload, library) in SLOW:
                continue
            found = measure("_supervised_child", workload, library, chosen.limit)
            ours = ours or found
            cells = row(workload, library, found, ours)
            table.add_row(*cells)
            print(*cells, file=sys.stderr, flush=True)  # a long run shows where it is
    Console(width=130).print(table)
