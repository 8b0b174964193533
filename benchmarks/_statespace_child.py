"""One workload of `benchmarks.statespace` with one library: prints seconds, memory and objective as JSON."""

import sys

from benchmarks._children import run

if __name__ == "__main__":
    run("statespace", *sys.argv[1:3])
