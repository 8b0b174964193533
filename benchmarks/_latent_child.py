"""One workload of `benchmarks.latent` with one library: prints seconds, memory and objective as JSON."""

import sys

from benchmarks._children import run

if __name__ == "__main__":
    run("latent", *sys.argv[1:3])
