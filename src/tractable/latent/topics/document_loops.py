r"""The topics of documents, one document after another, as a compiled loop.

Twin.        `latent.topics.documents` has the same function in NumPy: same arguments, the same numbers up to
             rounding.
Updates.     With $t_k = e^{\psi(\gamma_k)}$: $\gamma_k \leftarrow \alpha_k + t_k\sum_w n_w\beta_{wk} /
             \sum_j t_j\beta_{wj}$, until the sum of changes is a small part of the document.
Numbers.     $e^{\psi(x)} = e^{-\sum_{j<10} 1/(x+j)}\,(y + \frac{1}{24y} - \frac{37}{5760y^3} + \dots)$ with
             $y = x + 9.5$, to twelve digits; the largest exponent is taken off before.
Cost.        $O(vk)$ per update of a document with $v$ different words, whose topics stay in the cache.
References.  Blei, Ng and Jordan (2003); Hoffman, Blei and Bach (2010).
"""

import math
from typing import Any, no_type_check

import numba

__all__ = ["settle_documents"]

_options: Any = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
@numba.njit(**_options)
@no_type_check
def _exp_digamma(gamma, strength, power):
    """Fill `strength` with exp(digamma(gamma) + lowest); returns `lowest`, which keeps the largest in
    range."""
    lowest = math.inf
    for k in range(gamma.size):
        x, above, below = gamma[k], 0.0, 1.0
        for j in range(10):
            above = above * (x + j) + below
            below = below * (x + j)
        power[k] = above / below
    for k in range(gamma.size):
        lowest = min(lowest, power[k])
    for k in range(gamma.size):
        y = gamma[k] + 9.5
        z = 1.0 / (y * y)
        series = 1.0 + z * (1 / 24 + z * (-37 / 5760 + z * (10313 / 2903040 - z * 5509121 / 1393459200)))
        strength[k] = math.exp(lowest - power[k]) * y * series
    return lowest


@numba.njit(
    "void(int64[::1], int32[::1], float64[::1], float64[::1], float64[:, ::1], float64[::1], int64, float64, "
    "float64[:, ::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])",
    **_options,
)
@no_type_check
def settle_documents(
    offsets, words, counts, weights, topics, alpha, max_steps, tol, gamma, log_mass, stats, held, room
):
    """As `documents.settle_documents`, with room for the topics of a document's words (`held`) and sums."""
    size = alpha.size
    strength, added, power = room[0], room[1], room[2]
    for d in range(offsets.size - 1):
        first, num = offsets[d], offsets[d + 1] - offsets[d]
        length = 0.0
        for i in range(num):
            length += counts[first + i]
            for k in range(size):
                held[i, k] = topics[words[first + i], k]
        for k in range(size):
            gamma[d, k] = alpha[k] + length / size
        lowest, change, steps = 0.0, length, 0
        while change > tol * length and steps < max_steps:
            lowest = _exp_digamma(gamma[d], strength, power)
            for k in range(size):
                added[k] = 0.0
            for i in range(num):
                mass = 0.0
                for k in range(size):
                    mass += strength[k] * held[i, k]
                ratio = counts[first + i] / mass
                for k in range(size):
                    added[k] += ratio * held[i, k]
            change = 0.0
            for k in range(size):
                new = alpha[k] + strength[k] * added[k]
                change += abs(new - gamma[d, k])
                gamma[d, k] = new
            steps += 1
        lowest = _exp_digamma(gamma[d], strength, power)
        log_mass[d] = -lowest * length
        for i in range(num):
            mass, word = 0.0, words[first + i]
            for k in range(size):
                mass += strength[k] * held[i, k]
            log_mass[d] += counts[first + i] * math.log(mass)
            ratio = weights[d] * counts[first + i] / mass
            for k in range(size):
                stats[word, k] += ratio * strength[k] * held[i, k]
