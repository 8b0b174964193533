"""Least squares in exact rational arithmetic: what the given floats determine, to the last digit."""

from fractions import Fraction

import numpy as np


def exact_least_squares(X, y, weights=None):
    """Coefficients, the diagonal of the inverse normal matrix and the residual sum, each correctly
    rounded."""
    n, p = np.shape(X)
    A = [[Fraction(float(v)) for v in row] for row in np.asarray(X)]
    b = [Fraction(float(v)) for v in np.asarray(y)]
    w = [Fraction(1)] * n if weights is None else [Fraction(float(v)) for v in weights]
    system = []
    for j in range(p):
        gram = [sum(w[i] * A[i][j] * A[i][k] for i in range(n)) for k in range(p)]
        shift = sum(w[i] * A[i][j] * b[i] for i in range(n))
        system.append([*gram, shift, *(Fraction(int(j == k)) for k in range(p))])
    for j in range(p):
        pivot = system[j][j]
        system[j] = [v / pivot for v in system[j]]
        for k in range(p):
            if k != j:
                factor = system[k][j]
                system[k] = [a - factor * c for a, c in zip(system[k], system[j])]
    theta = [system[j][p] for j in range(p)]
    total = sum(w[i] * (b[i] - sum(A[i][j] * theta[j] for j in range(p))) ** 2 for i in range(n))
    inverse = [float(system[j][p + 1 + j]) for j in range(p)]
    return np.array([float(v) for v in theta]), np.array(inverse), float(total)
