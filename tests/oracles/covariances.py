"""Kernels of one pair of points in plain NumPy, as the textbooks write them."""

import itertools
import math

import numpy as np
from scipy import special

__all__ = ["FORMULAS", "matern", "subsequence_kernel", "table"]


def _scaled(x, y, scale):
    return math.sqrt((((x - y) / scale) ** 2).sum())


def matern(nu, r):
    """The definition by the Bessel function, one at zero."""
    z = math.sqrt(2 * nu) * r
    return 1.0 if z == 0 else 2 ** (1 - nu) / special.gamma(nu) * z**nu * special.kv(nu, z)


def _arcsine(x, y, weights, bias):
    def s(a, b):
        return bias + (weights * a * b).sum()

    return 2 / math.pi * math.asin(2 * s(x, y) / math.sqrt((1 + 2 * s(x, x)) * (1 + 2 * s(y, y))))


def _mixture(x, y, weights, frequencies, bandwidths):
    gap, total = x - y, 0.0
    for w, mu, v in zip(weights, frequencies, bandwidths):
        total += w * math.exp(-2 * math.pi**2 * ((v * gap) ** 2).sum()) * math.cos(2 * math.pi * mu @ gap)
    return total


FORMULAS = {
    "rbf": lambda x, y, l: math.exp(-0.5 * _scaled(x, y, l) ** 2),
    "exponential": lambda x, y, l: math.exp(-_scaled(x, y, l)),
    "matern32": lambda x, y, l: (1 + math.sqrt(3) * (r := _scaled(x, y, l))) * math.exp(-math.sqrt(3) * r),
    "matern52": lambda x, y, l: (
        (1 + math.sqrt(5) * (r := _scaled(x, y, l)) + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r)
    ),
    "matern": lambda x, y, nu, l: matern(nu, _scaled(x, y, l)),
    "rational": lambda x, y, l, a: (1 + _scaled(x, y, l) ** 2 / (2 * a)) ** -a,
    "periodic": lambda x, y, l, p: math.exp(-2 * (np.sin(math.pi * (x - y) / p) ** 2 / l**2).sum()),
    "cosine": lambda x, y, p: math.cos(2 * math.pi * ((x - y) / p).sum()),
    "mixture": _mixture,
    "linear": lambda x, y: float(x @ y),
    "bilinear": lambda x, y, a: float(x @ a @ y),
    "polynomial": lambda x, y, p, c: float((c + x @ y) ** p),
    "angle": lambda x, y: float(x @ y) / math.sqrt((x @ x) * (y @ y)),
    "product": lambda x, y: math.prod(1 + a * b for a, b in zip(x, y)),
    "arcsine": _arcsine,
    "wiener": lambda x, y: math.prod(min(a, b) for a, b in zip(x, y)),
    "sigmoid": lambda x, y, a, b: math.tanh(a * (x @ y) + b),
}


def table(formula, xs, ys, *parameters):
    """All pairs, one by one."""
    return np.array([[formula(x, y, *parameters) for y in ys] for x in xs])


def subsequence_kernel(s, t, length, decay):
    """By listing every choice of places in both strings."""
    total = 0.0
    for i in itertools.combinations(range(len(s)), length):
        for j in itertools.combinations(range(len(t)), length):
            if [s[a] for a in i] == [t[b] for b in j]:
                total += decay ** (i[-1] - i[0] + 1 + j[-1] - j[0] + 1)
    return total
