"""One workload of `benchmarks.statespace` with one library: prints seconds, memory and objective as JSON.

A topic is a file `benchmarks/_statespace_<topic>.py` with `WORKLOADS`, a dictionary of `Workload` by name; it
is found by its name, and needs no entry anywhere else.
"""

import importlib
import json
import pkgutil
import resource
import sys
import time

import benchmarks
from benchmarks._latent_child import Workload


def workloads(only: str = "") -> dict[str, Workload]:
    """The workloads of all topics, or of those whose name begins with `only`."""
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__))
    topics = [
        name for name in names if name.startswith(f"_statespace_{only}") and name != "_statespace_child"
    ]
    found: dict[str, Workload] = {}
    for topic in topics:
        found |= getattr(importlib.import_module(f"benchmarks.{topic}"), "WORKLOADS", {})
    return found


def main(workload: str, library: str) -> None:
    """Run twice; the first time includes what is compiled, not the import of the library."""
    chosen = workloads()[workload]
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


if __name__ == "__main__":
    main(*sys.argv[1:3])
