"""Claims of the solvers against random problems whose answers are known: `python -m benchmarks programs`.

Quadratic and linear programs that are solvable, infeasible or unbounded by construction; every claim must be
the right one, and every claim that there is no solution must carry its proof. The counts are printed, with
each failure by its number, which gives the problem back.
"""

import argparse
import collections

import numpy as np

from tests.oracles.programs import KINDS, SHAPES, proves_infeasible, proves_unbounded, random_program
from tractable.core.iterate import Status
from tractable.optim.linear_program import linear_program
from tractable.optim.quadratic_program import quadratic_program

__all__ = ["judge_linear", "judge_quadratic", "main"]

_CLAIMS = dict(zip(KINDS, (Status.converged, Status.infeasible, Status.unbounded)))


def judge_quadratic(number):
    """What was wrong with the answer to one quadratic program; nothing if it was right."""
    rng, kind, shape = np.random.default_rng(number), KINDS[number % 3], SHAPES[number // 3 % len(SHAPES)]
    program = random_program(rng, kind, shape)
    found = quadratic_program(*program)
    prices = np.asarray(found.inequality_multipliers), np.asarray(found.equality_multipliers)
    return _judged(kind, program, found, *prices, found.gap)


def judge_linear(number):
    """What was wrong with the answer to one linear program; nothing if it was right."""
    rng, kind, shape = np.random.default_rng(number), KINDS[number % 3], SHAPES[number // 3 % len(SHAPES)]
    program = random_program(rng, kind, shape, linear=True)
    _, q, G, h, A, b = program
    found = linear_program(q, upper=(G, h), equality=(A, b), low=None)
    return _judged(kind, program, found, np.asarray(found.dual), np.asarray(found.equality_dual), found.gap)


def _judged(kind, program, found, z, y, gap):
    P, q, G, h, A, b = program
    if found.status is not _CLAIMS[kind]:
        return f"{kind} called {found.status.name}"
    x = np.asarray(found.x)
    if kind == "infeasible":
        return None if proves_infeasible(program, z, y) else "infeasible without a proof"
    if kind == "unbounded":
        return None if proves_unbounded(program, x, np.asarray(found.ray)) else "unbounded without a proof"
    sides = max(np.abs(np.concatenate([h, b])).max(initial=0.0), np.abs(x).max())
    missed = np.concatenate([G @ x - h, np.abs(A @ x - b)]).max(initial=0.0) > 1e-6 * sides
    terms = np.abs(q) @ np.abs(x) + 0.5 * np.abs(x) @ np.abs(P) @ np.abs(x) + np.abs(h) @ np.abs(z)
    return "a point that is not feasible" if missed else "a gap" if abs(float(gap)) > 1e-6 * terms else None


def main(options):
    """Count the faults of both solvers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks programs", description=__doc__)
    parser.add_argument("--count", type=int, default=1200, help="problems of each kind of program")
    count = parser.parse_args(options).count
    for name, judge in (("quadratic", judge_quadratic), ("linear", judge_linear)):
        faults = {number: fault for number in range(count) if (fault := judge(number))}
        print(f"{name} programs: {count} solved, {len(faults)} wrong")
        for fault, times in collections.Counter(faults.values()).items():
            print(f"  {fault}: {times} ({', '.join(str(n) for n in faults if faults[n] == fault)})")
