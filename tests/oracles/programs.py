"""Random quadratic and linear programs whose class is known by construction: solvable, infeasible, unbounded.

A solvable program is built around a point and multipliers that meet its conditions; an infeasible one around
a Farkas certificate; an unbounded one around a feasible point and a ray.
"""

import numpy as np

KINDS = ("solvable", "infeasible", "unbounded")
SHAPES = ((1, 2, 0), (4, 2, 1), (6, 8, 2), (6, 3, 5))  # unknowns, inequalities, equalities


def random_program(rng, kind, shape, linear=False):
    """`(P, q, G, h, A, b)` of a kind; the units of the point and of the objective are drawn too."""
    n, m, p = shape
    rank = 0 if linear else int(rng.integers(0, n + 1))
    factor, unit, cost = rng.normal(size=(n, rank)), 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-3, 3)
    P, q = factor @ factor.T, rng.normal(size=n)
    G, A, x = rng.normal(size=(m, n)), rng.normal(size=(p, n)), unit * rng.normal(size=n)
    if kind == "solvable":
        z = rng.uniform(0.1, 1, m) * (rng.random(m) < 0.5 + (np.arange(m) == 0))
        h, b = G @ x + unit * np.where(z > 0, 0.0, rng.uniform(0, 1, m)), A @ x
        q = -(P @ x + G.T @ z + A.T @ rng.normal(size=p))
    elif kind == "infeasible":
        z, y = rng.uniform(0.1, 1, m), rng.normal(size=p)
        G[-1] -= (G.T @ z + A.T @ y) / z[-1]
        h, b = unit * rng.normal(size=m), unit * rng.normal(size=p)
        h[-1] -= (h @ z + b @ y + unit * rng.uniform(0.1, 1)) / z[-1]
    else:
        d = rng.normal(size=n) / n**0.5
        across = np.eye(n) - np.outer(d, d) / (d @ d)
        P, A = across @ P @ across, A @ across
        G = G - np.outer(np.maximum(G @ d, 0) / (d @ d), d)
        G[np.abs(G) < 1e-12] = 0.0  # what rounding leaves of a row would be a bound far away
        q = q - (max(q @ d, 0) / (d @ d) + 0.1) * d
        h, b = G @ x + unit * rng.uniform(0, 1, m) * (rng.random(m) < 0.7), A @ x
    return cost * (P + P.T) / 2, cost * q, G, h, A, b


def proves_infeasible(program, z, y, slack=1e-6):
    """Whether multipliers are a Farkas certificate, by products alone."""
    _, _, G, h, A, b = program
    strength, left = -(h @ z + b @ y), np.abs(G.T @ z + A.T @ y).max()
    return bool((z >= 0).all() and strength > 0 and left * max(np.abs(h).max(), 1e-300) <= slack * strength)


def proves_unbounded(program, x, d, slack=1e-6):
    """Whether a point is feasible and a direction a ray of descent, by products alone."""
    P, q, G, h, A, b = program
    sides = max(np.abs(np.concatenate([h, b])).max(initial=0.0), np.abs(x).max())
    met = np.concatenate([G @ x - h, np.abs(A @ x - b)]).max(initial=0.0) <= slack * sides
    fall = -(q @ d) / np.abs(q).max()
    flat = np.abs(P @ d).max() <= slack * np.abs(P).max(initial=1e-300) * fall
    kept = np.concatenate([G @ d, np.abs(A @ d)]).max(initial=0.0) <= slack * fall
    return bool(met and fall > 0 and flat and kept)
