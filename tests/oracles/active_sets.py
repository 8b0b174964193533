"""Convex quadratic programs by trying every set of active constraints: slow, obvious, exact."""

import itertools

import numpy as np


def quadratic_minimum(P, q, G, h, A, b, tol=1e-9):
    """The minimiser and the multipliers of G x <= h and A x = b, for positive definite P; else None."""
    n, m = len(q), len(h)
    for count in range(m + 1):
        for chosen in itertools.combinations(range(m), count):
            rows = np.r_[A, G[list(chosen)]].reshape(-1, n)
            right = np.r_[b, h[list(chosen)]]
            if len(rows) > n or np.linalg.matrix_rank(rows) < len(rows):
                continue
            zeros = np.zeros((len(rows), len(rows)))
            solution = np.linalg.solve(np.block([[P, rows.T], [rows, zeros]]), np.r_[-q, right])
            x, multipliers = solution[:n], solution[n:]
            z = np.zeros(m)
            z[list(chosen)] = multipliers[len(b) :]
            if (z >= -tol).all() and (G @ x <= h + tol).all():
                return x, z, multipliers[: len(b)]
    return None
