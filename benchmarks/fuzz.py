"""`python -m benchmarks fuzz --minutes 10 [--seed 0] [--only KIND]`: mutated files, tables and command lines.

A child process runs the cases one after the other and says how each ends; the parent kills it where one takes
more than ten seconds of its processor (a race of models a minute), six times as many of the clock, or two
gigabytes, counts that as a fault, and begins another. Any fault prints its kind and seed:
`python -m benchmarks fuzz --only KIND --seed N --cases 1` repeats it.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks._fuzz_cases import KINDS, Outcome, run_case

__all__ = ["fuzz", "main"]

_SECONDS = 10.0  # of the processor: others may work on the machine
_LONGER = {"fitted tables": 60.0}  # a race may use its budget
_FIRST_SECONDS = 60.0  # of a child's first case of a kind, which imports and compiles
_CLOCK = 6.0  # times as many seconds of the clock: a case that waits for ever uses no processor
_BYTES = 2 << 30


def main(options: list[str]) -> None:
    """Fuzz for so many minutes, and print the counts; the exit code is 1 where there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--only", choices=list(KINDS))
    chosen = parser.parse_args(options)
    kinds = [chosen.only] if chosen.only else list(KINDS)
    counts, faults = fuzz(kinds, 60 * chosen.minutes, chosen.seed, chosen.cases)
    print(f"{'':16} answered  refused  faults")
    for kind in kinds:
        print(f"{kind:16} {counts[kind, 'answered']:8} {counts[kind, 'refused']:8} {counts[kind, 'fault']:7}")
    for kind, seed, reason in faults[:20]:
        print(f"\n{kind}, seed {seed}:\n{reason}")
    sys.exit(1 if faults else 0)


def fuzz(
    kinds: list[str], seconds: float, seed: int = 0, cases: int = 10**9
) -> tuple[Counter, list[tuple[str, int, str]]]:
    """The counts by kind and end, and the faults with their seeds."""
    counts: Counter = Counter()
    faults = []
    stop = time.monotonic() + seconds
    child = _Child()
    for number in range(cases * len(kinds)):
        if time.monotonic() > stop:
            break
        kind, place = kinds[number % len(kinds)], seed + number // len(kinds)
        found = child.run(kind, place)
        counts[kind, found.end] += 1
        if found.end == "fault":
            faults.append((kind, place, found.reason))
    child.end()
    return counts, faults


class _Child:
    """A process that runs cases, replaced when it has to be killed."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.seen: set[str] = set()

    def run(self, kind: str, seed: int) -> Outcome:
        """The outcome of one case; too long, too large and dead are faults."""
        limit = _LONGER.get(kind, _SECONDS) if kind in self.seen else _FIRST_SECONDS
        self.seen.add(kind)
        self.pipe.send((kind, seed))
        before, stop = _processor_seconds(self.process.pid), time.monotonic() + _CLOCK * limit
        while time.monotonic() < stop and _processor_seconds(self.process.pid) - before < limit:
            if self.pipe.poll(0.05):
                try:
                    return self.pipe.recv()
                except EOFError:
                    return self._replaced(f"the process died with code {self.process.exitcode}")
            if _resident(self.process.pid) > _BYTES:
                return self._replaced("more than two gigabytes")
        return self._replaced(f"more than {limit:.0f} seconds")

    def _replaced(self, reason: str) -> Outcome:
        self.process.kill()
        self.process.join()
        self._begin()
        return Outcome("fault", reason)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection) -> None:
    while True:
        pipe.send(run_case(*pipe.recv()))


def _processor_seconds(pid: int | None) -> float:
    """Seconds of the processor so far, where the system says it."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int | None) -> int:
    """Bytes in memory, where the system says it."""
    path = Path(f"/proc/{pid}/statm")
    try:
        return int(path.read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0
