r"""One sweep of collapsed Gibbs sampling over the words of all documents, as a compiled loop.

Topic.       $P(z_i = k \mid \cdot) \propto (n_{dk} + \alpha_k)\,\phi_{kw}$, $\phi_{kw} = (n_{kw} + \eta_w) /
             (n_k + \sum_v \eta_v)$, the word itself not counted. It is drawn from two parts:
             $n_{dk}\phi_{kw}$ over the few topics of the document, and $\alpha_k\phi_{kw}$ over all.
Bound.       The second part is not summed for each word: with floors $f_k \le n_k + \sum_v\eta_v$, the sum
             $\sum_k \alpha_k(n_{kw} + \eta_w)/f_k$ is no less, and changes with one count. A draw beyond what
             there is, as rare as the floors are close, is made again from the exact masses; where it fell is
             uniform and serves anew. A topic that sinks below its floor gets another.
Gain.        The log-joint rises by $\log p(z_i' \mid \cdot) - \log p(z_i \mid \cdot)$ with each word.
Twin.        `latent.topics.gibbs` has the same function in NumPy: same arguments, same topics.
Numbers.     Places are unsigned: an index that cannot be negative is not tested for it. Topics of a
             document are searched by counting, without a branch that cannot be foretold.
Cost.        $O(k_d)$ steps per word with $k_d$ topics in its document; $O(k)$ where the second part is hit.
References.  Griffiths and Steyvers (2004); Yao, Mimno and McCallum (2009).
"""

import math
from typing import Any, no_type_check

import numba
import numpy as np

__all__ = ["ROWS", "WIDTH", "sweep"]

ROWS = 7  # of the room that a sweep needs, one number for each topic and `WIDTH` more
WIDTH = 4  # topics of a document that are summed at once
_AT_ONCE = 16  # topics that are summed at once where all are searched
_options: Any = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
@numba.njit(**_options)
@no_type_check
def _floor(total):
    """What the total of a topic does not soon sink to."""
    return total - min(2 * math.sqrt(total), total / 2)


@numba.njit(**_options)
@no_type_check
def _bound_all(counts, totals, alpha, eta, floors, steps, bounds):
    """Floors of all topics, and of each word the bound of its mass by them."""
    for k in range(alpha.size):
        floors[k] = _floor(totals[k])
        steps[k] = alpha[k] / floors[k]
    for w in range(eta.size):
        mass = 0.0
        for k in range(alpha.size):
            mass += steps[k] * (counts[w, k] + eta[w])
        bounds[w] = mass


@numba.njit(**_options)
@no_type_check
def _sink(k, counts, totals, alpha, eta, floors, steps, bounds):
    """A lower floor for topic `k`, and what that adds to the bounds of all words."""
    floors[k] = _floor(totals[k])
    added = alpha[k] / floors[k] - steps[k]
    steps[k] += added
    for w in range(eta.size):
        bounds[w] += added * (counts[w, k] + eta[w])


@numba.njit(**_options)
@no_type_check
def _search_all(row, prior, alpha, inverse, aim):
    """The topic at which the masses of the second part exceed `aim`, and what is left; or none (their
    number)."""
    j, one, size, width = np.uint64(0), np.uint64(1), np.uint64(alpha.size), np.uint64(_AT_ONCE)
    while j < size:
        end, mass = min(j + width, size), 0.0
        for k in range(j, end):
            mass += alpha[k] * inverse[k] * (row[k] + prior)
        if aim < mass:
            while j < end - one:
                aim -= alpha[j] * inverse[j] * (row[j] + prior)
                if aim < 0:
                    break
                j += one
            break
        aim -= mass
        j = end
    return j, aim


@numba.njit(**_options)
@no_type_check
def _search_near(masses, sums, blocks, aim):
    """The place at which the masses of the first part exceed `aim`: its block, then within."""
    zero, one, width = np.uint64(0), np.uint64(1), np.uint64(WIDTH)
    block, within = zero, 0.0
    for b in range(one, blocks):
        block += np.uint64(sums[b] <= aim)
    aim -= sums[block]
    place = block * width
    for j in range(block * width, block * width + width - one):
        within += masses[j]
        place += np.uint64(within <= aim)
    return place


@numba.njit(
    "float64(uint32[::1], uint64[::1], uint32[::1], int32[:, ::1], float64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[:, ::1], uint32[:, ::1], float64[::1])",
    **_options,
)
@no_type_check
def sweep(words, offsets, labels, counts, totals, alpha, eta, uniforms, room, places, bounds):
    """As `gibbs.sweep_words`, with room for topics, topics of a document (`places`) and words (`bounds`)."""
    one, size, width = np.uint64(1), np.uint64(alpha.size), np.uint64(WIDTH)
    own, inverse, weight, masses, sums = room[0], room[1], room[2], room[3], room[4]
    floors, steps, active, place = room[5], room[6], places[0], places[1]
    _bound_all(counts, totals, alpha, eta, floors, steps, bounds)
    for k in range(size):
        inverse[k], own[k] = 1 / totals[k], -1.0  # not among the document's topics
    weight[:], sums[0] = 0.0, 0.0
    gain, ratio = 0.0, 1.0
    for d in range(np.uint64(offsets.size) - one):
        used = np.uint64(0)
        for i in range(offsets[d], offsets[d + one]):
            k = labels[i]
            if own[k] < 0:
                active[used], place[k], own[k] = k, used, 0.0
                used += one
            own[k] += 1
        for j in range(used):
            weight[j] = own[active[j]] * inverse[active[j]]
        for i in range(offsets[d], offsets[d + one]):
            w, k = words[i], labels[i]
            row, prior = counts[w], eta[w]
            row[k] -= 1
            own[k] -= 1
            totals[k] -= 1
            inverse[k] = 1 / totals[k]
            weight[place[k]] = own[k] * inverse[k]
            bounds[w] -= steps[k]
            if totals[k] < floors[k]:
                _sink(k, counts, totals, alpha, eta, floors, steps, bounds)
            before = (own[k] + alpha[k]) * inverse[k] * (row[k] + prior)
            near, blocks = 0.0, (used + width - one) // width
            for b in range(blocks):
                mass = 0.0
                for j in range(b * width, b * width + width):  # beyond `used` the weights are zero
                    masses[j] = weight[j] * (row[active[j]] + prior)
                    mass += masses[j]
                near += mass
                sums[b + one] = near
            aim, new = uniforms[i] * (near + bounds[w]) - near, size
            if aim >= 0:
                new, beyond = _search_all(row, prior, alpha, inverse, aim)
                if new == size:
                    anywhere = aim - beyond
                    aim = beyond / (bounds[w] - anywhere) * (near + anywhere) - near
                    if aim >= 0:
                        new, beyond = _search_all(row, prior, alpha, inverse, aim)
            k = np.uint32(new) if new < size else active[_search_near(masses, sums, blocks, aim + near)]
            labels[i] = k
            if own[k] < 0:
                active[used], place[k], own[k] = k, used, 0.0
                used += one
            ratio *= (own[k] + alpha[k]) * inverse[k] * (row[k] + prior) / before
            if not 1e-100 < ratio < 1e100:
                gain += math.log(ratio)
                ratio = 1.0
            row[k] += 1
            own[k] += 1
            totals[k] += 1
            inverse[k] = 1 / totals[k]
            weight[place[k]] = own[k] * inverse[k]
            bounds[w] += steps[k]
        for j in range(used):
            own[active[j]], weight[j] = -1.0, 0.0
    return gain + math.log(ratio)
