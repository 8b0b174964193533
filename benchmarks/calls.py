"""Two hundred calls of each public function with fresh closures, sizes and numbers: what they leave behind.

`python -m benchmarks calls [--count 200] [--only NAME]` prints, per call, kilobytes of resident memory,
memory mappings and seconds of the processor, each function in a process of its own.
"""

import argparse
import json
import subprocess
import sys

from tests.laws.calls import CASES


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="calls", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", choices=list(CASES))
    options = parser.parse_args(arguments)
    print(f"{'function':20} {'kB a call':>10} {'mappings':>10} {'s a call':>10}")
    for name in [options.only] if options.only else CASES:
        command = [sys.executable, "-m", "tests.laws.calls", str(options.count), name]
        child = subprocess.run(command, capture_output=True, text=True)
        if child.returncode != 0:
            print(f"{name:20} ended with {child.returncode}: {child.stderr[-300:]}", flush=True)
            continue
        found = json.loads(child.stdout)
        each = found["bytes"] / 1e3, found["mappings"], found["seconds"]
        kilobytes, mappings, seconds = (value / options.count for value in each)
        print(f"{name:20} {kilobytes:10.1f} {mappings:10.2f} {seconds:10.3f}", flush=True)


if __name__ == "__main__":
    main()
