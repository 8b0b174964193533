"""Claims of the solvers against random problems whose answers are known: `python -m benchmarks solvers`.

Quadratic and linear programs that are solvable, infeasible or unbounded by construction; every claim must be
the right one, and every claim that there is no solution must carry its proof. Smooth functions with a known
minimum, saddle or maximum in random units, with random constants added; every "converged" must be near a
minimum, and no other point may be called one. The counts are printed, with each failure by its number, which
gives the problem back.
"""

import argparse
import collections

import jax.numpy as jnp
import numpy as np

from tests.oracles.programs import KINDS, SHAPES, proves_infeasible, proves_unbounded, random_program
from tractable.core.iterate import Status
from tractable.optim.linear_program import linear_program
from tractable.optim.minimise import minimise
from tractable.optim.newton import Newton
from tractable.optim.quadratic_program import quadratic_program
from tractable.optim.quasi_newton import BFGS, LBFGS

__all__ = ["judge_linear", "judge_quadratic", "judge_smooth", "main"]

_METHODS = (LBFGS(), BFGS(), Newton())

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


def judge_smooth(number):
    """What was wrong with the verdict on one smooth function; nothing if it was right."""
    rng, method = np.random.default_rng(number), _METHODS[number % 3]
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    units, factor = 10.0 ** rng.uniform(-2, 2, 4), 10.0 ** rng.uniform(-8, 8)
    constant = rng.choice([0.0, 1e3, -1e10, 1e16])
    signs = np.ones(4) if number % 2 else np.where(np.arange(4) < rng.integers(1, 5), -1.0, 1.0)
    centre = units * rng.normal(size=4)
    start = centre + units * (rng.normal(size=4) if number % 2 else np.zeros(4))
    data = tuple(map(jnp.asarray, (turn, units, centre, signs, factor, constant)))
    found = minimise(_hills, start, method, args=data)
    away = np.abs((np.asarray(found.state) - centre) / units).max()
    if not number % 2:
        return "a maximum or saddle called a minimum" if found.status is Status.converged else None
    if found.status is not Status.converged:
        return None if constant == 1e16 else f"a minimum called {found.status.name}"
    return None if away < 1e-3 else "convergence far from the minimum"


def _hills(x, turn, units, centre, signs, factor, constant):
    z = turn @ ((x - centre) / units)
    return factor * (jnp.sum(signs * z**2) + jnp.sum(z**4) + constant)


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks solvers", description=__doc__)
    parser.add_argument("--count", type=int, default=1200, help="problems of each kind of program")
    count = parser.parse_args(options).count
    programs = {"quadratic programs": judge_quadratic, "linear programs": judge_linear}
    judges = programs | {"smooth functions": judge_smooth}
    for name, judge in judges.items():
        faults = {number: fault for number in range(count) if (fault := judge(number))}
        print(f"{name}: {count} judged, {len(faults)} wrong")
        for fault, times in collections.Counter(faults.values()).items():
            print(f"  {fault}: {times} ({', '.join(str(n) for n in faults if faults[n] == fault)})")
