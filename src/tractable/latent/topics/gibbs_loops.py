r"""One sweep of collapsed Gibbs sampling over the words of all documents, as a compiled loop.

Topic.       $P(z_i = k \mid \cdot) \propto (n_{dk} + \alpha_k)\,\frac{n_{kw} + \eta_w}{n_k + \sum_v \eta_v}$,
             the word itself not counted. It is drawn from two parts: $n_{dk}$ times the fraction, over the
             few topics that the document has, and $\alpha_k$ times it, one vectorised sum over all; a search
             among all topics is needed only where the second part is hit.
Twin.        `latent.topics.gibbs` has the same function in NumPy: same arguments, same topics.
Numbers.     Places are unsigned: an index that cannot be negative is not tested for it.
Cost.        $O(k)$ vectorised and $O(k_d)$ scalar steps per word.
References.  Griffiths and Steyvers (2004); Yao, Mimno and McCallum (2009).
"""

from typing import Any, no_type_check

import numba
import numpy as np

__all__ = ["sweep"]

_options: Any = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
@numba.njit(
    "void(uint32[::1], uint64[::1], uint32[::1], int32[:, ::1], float64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[:, ::1], uint32[:, ::1])",
    **_options,
)
@no_type_check
def sweep(words, offsets, labels, counts, totals, alpha, eta, uniforms, room, places):
    """Redraw `labels` in place, with `counts` (words by topics) and `totals` of topics (sum of eta
    within)."""
    one, size = np.uint64(1), np.uint64(alpha.size)
    own, inverse, share, sums = room[0], room[1], room[2], room[3]
    active, place = places[0], places[1]
    for k in range(size):
        inverse[k], own[k] = 1 / totals[k], 0.0
        share[k] = alpha[k] * inverse[k]
    for d in range(np.uint64(offsets.size) - one):
        used = np.uint64(0)
        for i in range(offsets[d], offsets[d + one]):
            k = labels[i]
            if own[k] == 0:
                active[used], place[k] = k, used
                used += one
            own[k] += 1
        for i in range(offsets[d], offsets[d + one]):
            w, k = words[i], labels[i]
            row, prior = counts[w], eta[w]
            row[k] -= 1
            own[k] -= 1
            totals[k] -= 1
            inverse[k] = 1 / totals[k]
            share[k] = alpha[k] * inverse[k]
            if own[k] == 0:
                used -= one
                last = active[used]
                active[place[k]] = last
                place[last] = place[k]
            anywhere, near = 0.0, 0.0
            for k in range(size):
                anywhere += share[k] * (row[k] + prior)
            for j in range(used):
                k = active[j]
                near += own[k] * inverse[k] * (row[k] + prior)
                sums[j] = near
            aim, j = uniforms[i] * (near + anywhere), np.uint64(0)
            if aim < near:
                while sums[j] <= aim:
                    j += one
                k = active[j]
            else:
                aim -= near
                while j < size - one:
                    aim -= share[j] * (row[j] + prior)
                    if aim < 0:
                        break
                    j += one
                k = np.uint32(j)
            labels[i] = k
            if own[k] == 0:
                active[used], place[k] = k, used
                used += one
            own[k] += 1
            row[k] += 1
            totals[k] += 1
            inverse[k] = 1 / totals[k]
            share[k] = alpha[k] * inverse[k]
        for j in range(used):
            own[active[j]] = 0.0
