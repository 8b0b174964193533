r"""Recursions along many chains as loops of sums and products, with a bound on what small numbers lost.

Forward.     $a_t(j) = \mu_t(j)\,b_t(j)$, $c_t = \sum_j a_t(j)$, $\mu_{t+1}(j) = \sum_i a_t(i)A_{ij}/c_t$:
             the product of all $c_t$ is the total. Backward: $\beta_t(i) = \sum_j A_{ij}\,b_{t+1}(j)\,
             \beta_{t+1}(j)$, scaled alike. The scale is found beside the product with $A$, not before it.
Loss.        A possible state never falls below `TINY`: it is raised to it, and a second vector carries a
             bound of the error from there on, by the same recursion, until it is negligible beside every
             entry. Where the bound reaches the digits of a sum, the chain is left to log space.
Zeros.       What is impossible stays exactly zero, so a sum of zero means that no path is possible.
Loops.       Sums and products in a fixed order, no libraries: interpreted or compiled they give the same
             bits. Short chains are interpreted until that has cost what a compiler costs; others are
             compiled at once (a second or two, once per machine).
Cost.        $O(nK^2)$; about $K^2/2$ nanoseconds per position.
References.  Rabiner (1989).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import no_type_check

import numba
import numpy as np
from numba.extending import register_jitable

__all__ = ["LOST", "TINY", "backward", "best", "draw", "forward", "join", "lift", "loop", "pays"]

TINY = 1e-200
LOST = 1e-14  # a part of a sum that may be wrong; more, and the chain goes to log space
_NEGLIGIBLE = 1e-30
_PAYS = 20_000  # products: to interpret them takes a fiftieth of a second, and a fit does so often
_ENOUGH = 500_000  # products that were interpreted, a few at a time, in the time of a compiler
_interpreted: dict[Callable, int] = {}  # products so far: when to compile, and no bit of any answer


def pays(work: int) -> bool:
    """Whether so many products repay a compiler."""
    return work >= _PAYS


def loop(function: Callable, work: int) -> Callable:
    """The loop compiled, where `work` products, or those of all calls so far, pay for it; otherwise as it is.
    The bits are the same."""
    if pays(work):
        return _compiled(function)
    done = _interpreted[function] = _interpreted.get(function, 0) + work
    return _compiled(function) if done > _ENOUGH else function


@lru_cache
def _compiled(function: Callable) -> Callable:
    return numba.njit(nogil=True, cache=True, error_model="numpy")(function)


# `no_type_check` keeps run-time type checkers from wrapping what numba has to read
@register_jitable
@no_type_check
def _weigh(message, doubt, shares, logs, t, dirty):
    """Multiply the message by the shares of position `t`; says whether errors are carried."""
    for j in range(message.size):
        value = message[j] * shares[t, j]
        if dirty:
            doubt[j] *= shares[t, j]
        if value < TINY and message[j] > 0.0 and logs[t, j] > -np.inf:
            value = TINY
            doubt[j] += TINY
            dirty = True
        message[j] = value
    return dirty


@register_jitable
@no_type_check
def _multiply(weighed, steps, one, after):
    """The product of a vector and a step matrix, four rows at a time: few loads and stores of the sums."""
    k = weighed.size
    i = k % 4
    if i == 0:
        for j in range(k):
            after[j] = 0.0
    elif i == 1:
        for j in range(k):
            after[j] = weighed[0] * steps[one, 0, j]
    elif i == 2:
        for j in range(k):
            after[j] = weighed[0] * steps[one, 0, j] + weighed[1] * steps[one, 1, j]
    else:
        for j in range(k):
            after[j] = (
                weighed[0] * steps[one, 0, j] + weighed[1] * steps[one, 1, j] + weighed[2] * steps[one, 2, j]
            )
    while i < k:
        a, b, c, d = weighed[i], weighed[i + 1], weighed[i + 2], weighed[i + 3]
        for j in range(k):
            after[j] += (a * steps[one, i, j] + b * steps[one, i + 1, j]) + (
                c * steps[one, i + 2, j] + d * steps[one, i + 3, j]
            )
        i += 4


@register_jitable
@no_type_check
def _send(message, doubt, spare, steps, one, scale, dirty):
    """Replace the message by its product with a step matrix times `scale`, and the error bound alike."""
    k, after = message.size, spare[0]
    _multiply(message, steps, one, after)
    for j in range(k):
        after[j] *= scale
    least = after[0]
    for j in range(1, k):
        least = min(least, after[j])
    if dirty or least < TINY:
        return _send_doubt(message, doubt, spare, steps, one, scale)
    for j in range(k):
        message[j] = after[j]
    return False


@register_jitable
@no_type_check
def _send_doubt(message, doubt, spare, steps, one, scale):
    """The rare part of a step: the error bound takes it too, and possible states stay above `TINY`."""
    k, dirty = message.size, False
    after, doubted = spare[0], spare[1]
    for j in range(k):
        doubted[j] = 0.0
    for i in range(k):
        for j in range(k):
            doubted[j] += doubt[i] * scale * steps[one, i, j]
    for j in range(k):
        if after[j] < TINY:
            possible = after[j] > 0.0
            for i in range(k):
                possible = possible or (message[i] > 0.0 and steps[one, i, j] > 0.0)
            if possible:
                after[j] = TINY
                doubted[j] += TINY
        dirty = dirty or doubted[j] > _NEGLIGIBLE * after[j]
    for j in range(k):
        message[j] = after[j]
        doubt[j] = doubted[j] if dirty else 0.0
    return dirty


@no_type_check
def lift(logs, tops, shares):
    """The largest of each row into `tops`, and the rest of the row beside it into `shares`."""
    n, k = logs.shape
    for t in range(n):
        top = logs[t, 0]
        for j in range(1, k):
            top = max(top, logs[t, j])
        tops[t] = top
        if top == -np.inf:
            top = 0.0
        for j in range(k):
            shares[t, j] = logs[t, j] - top


@no_type_check
def forward(shares, logs, steps, which, initial, starts, arrived, scales, errors, ended):
    """Messages from the left into `arrived` (n, k), sums into `scales` (n,), bounds into `errors` (n,).

    `ended[s]` is -1 where chain `s` is whole, the position at which it becomes impossible, or -2 where the
    bound says that digits are lost; what is left of the chain is zero.
    """
    k = shares.shape[1]
    message, doubt, spare, weighed = np.zeros(k), np.zeros(k), np.zeros((2, k)), np.zeros(k)
    after = spare[0]
    for s in range(starts.size - 1):
        ended[s], dirty, stop = -1, False, starts[s + 1]
        for j in range(k):
            arrived[starts[s], j], doubt[j] = initial[j], 0.0
        for t in range(starts[s], stop):
            total, least, errors[t] = 0.0, np.inf, 0.0
            for j in range(k):
                value = arrived[t, j] * shares[t, j]
                weighed[j] = value
                total += value
                least = min(least, value)
            if dirty or least < TINY:
                for j in range(k):
                    message[j] = arrived[t, j]
                dirty = _weigh(message, doubt, shares, logs, t, dirty)
                total, unsure = 0.0, 0.0
                for j in range(k):
                    weighed[j] = message[j]
                    total += message[j]
                    unsure += doubt[j]
                if total == 0.0:
                    ended[s] = t - starts[s]
                elif dirty:
                    errors[t] = unsure / total
                    if errors[t] > LOST:
                        ended[s] = -2
                if ended[s] != -1:
                    scales[t] = total
                    for u in range(t + 1, stop):
                        scales[u], errors[u] = 0.0, 0.0
                        for j in range(k):
                            arrived[u, j] = 0.0
                    break
            scales[t] = total
            if t + 1 == stop:
                break
            one = which[t + 1] if which.size > 1 else 0
            _multiply(weighed, steps, one, after)
            scale, least = 1.0 / total, np.inf
            for j in range(k):
                after[j] *= scale
                least = min(least, after[j])
                arrived[t + 1, j] = after[j]
            if dirty or least < TINY:
                for j in range(k):
                    message[j] = weighed[j]
                dirty = _send_doubt(message, doubt, spare, steps, one, scale)
                for j in range(k):
                    arrived[t + 1, j] = message[j]


@no_type_check
def backward(shares, logs, steps, which, starts, beta, errors, ended):
    """Messages from the right into `beta` (n, k), scaled to sum to one, with bounds of their error.

    `steps` holds the transposed step matrices; `ended[s]` becomes -2 where digits are lost.
    """
    k = shares.shape[1]
    message, doubt, spare, weighed = np.zeros(k), np.zeros(k), np.zeros((2, k)), np.zeros(k)
    after = spare[0]
    for s in range(starts.size - 1):
        if ended[s] != -1:
            continue
        dirty, errors[starts[s + 1] - 1] = False, 0.0
        for j in range(k):
            beta[starts[s + 1] - 1, j], doubt[j] = 1.0 / k, 0.0
        for t in range(starts[s + 1] - 1, starts[s], -1):
            least = np.inf
            for j in range(k):
                weighed[j] = beta[t, j] * shares[t, j]
                least = min(least, weighed[j])
            one = which[t] if which.size > 1 else 0
            if not dirty and least >= TINY:
                _multiply(weighed, steps, one, after)
                total, least = 0.0, np.inf
                for j in range(k):
                    total += after[j]
                    least = min(least, after[j])
                if least >= TINY:
                    scale, errors[t - 1] = 1.0 / total, 0.0
                    for j in range(k):
                        beta[t - 1, j] = after[j] * scale
                    continue
            for j in range(k):
                message[j] = beta[t, j]
            dirty = _weigh(message, doubt, shares, logs, t, dirty)
            top = 0.0
            for j in range(k):
                top = max(top, message[j])
            dirty = _send(message, doubt, spare, steps, one, 1.0 / top if top > 0.0 else 1.0, dirty)
            total, unsure = 0.0, 0.0
            for j in range(k):
                total += message[j]
            scale = 1.0 / total if total > 0.0 else 1.0
            for j in range(k):
                doubt[j] *= scale
                unsure += doubt[j]
                beta[t - 1, j] = message[j] * scale
            errors[t - 1] = unsure if total > 0.0 else 1.0
            if errors[t - 1] > LOST:
                ended[s] = -2
                for u in range(starts[s], t - 1):
                    errors[u] = 0.0
                    for j in range(k):
                        beta[u, j] = 0.0
                break


@no_type_check
def join(arrived, shares, beta, scales, which, starts, weights, counts):
    """The product of both sides: beliefs of each row in place of `beta`, and into `counts` the sums over rows
    of the pairs of messages beside each step matrix, each row as often as its chain's weight (0: not)."""
    k = shares.shape[1]
    right = np.zeros(k)
    for s in range(starts.size - 1):
        for t in range(starts[s], starts[s + 1]):
            total = 0.0
            for j in range(k):
                right[j] = shares[t, j] * beta[t, j]
                beta[t, j] = arrived[t, j] * right[j]
                total += beta[t, j]
            share = 1.0 / total if total > 0.0 else 0.0
            for j in range(k):
                beta[t, j] *= share
            if t > starts[s] and weights[s] > 0.0 and scales[t - 1] > 0.0:
                one = which[t] if which.size > 1 else 0
                share *= weights[s] / scales[t - 1]
                for i in range(k):
                    left = shares[t - 1, i] * arrived[t - 1, i] * share
                    for j in range(k):
                        counts[one, i, j] += left * right[j]


@no_type_check
def best(logs, steps, which, initial, starts, pointers, paths, scales, ended):
    """The best path of each chain into `paths`, its steps' scales into `scales`; `ended` as for `forward`.

    All in logarithms; `steps` is transposed: the later state along its rows.
    """
    k = logs.shape[1]
    value, after = np.zeros(k), np.zeros(k)
    for s in range(starts.size - 1):
        ended[s] = -1
        for t in range(starts[s], starts[s + 1]):
            one = which[t] if which.size > 1 else 0
            top = -np.inf
            for j in range(k):
                reached, place = initial[j], 0
                if t > starts[s]:
                    reached = value[0] + steps[one, j, 0]
                    for i in range(1, k):
                        way = value[i] + steps[one, j, i]
                        if way > reached:
                            reached, place = way, i
                pointers[t, j] = place
                after[j] = reached + logs[t, j]
                top = max(top, after[j])
            scales[t] = top
            if top == -np.inf:
                ended[s] = t - starts[s]
                break
            for j in range(k):
                value[j] = after[j] - top
        state = value.argmax() if ended[s] == -1 else -1
        for t in range(starts[s + 1] - 1, starts[s] - 1, -1):
            paths[t] = state
            state = pointers[t, state] if ended[s] == -1 else -1


@no_type_check
def draw(filtered, steps, which, starts, uniforms, paths):
    """A path of each chain drawn backwards from filtered beliefs, by one uniform number per position."""
    k = filtered.shape[1]
    mass = np.zeros(k)
    for s in range(starts.size - 1):
        state = -1
        for t in range(starts[s + 1] - 1, starts[s] - 1, -1):
            total = 0.0
            for i in range(k):
                mass[i] = filtered[t, i]
                if state >= 0:
                    mass[i] *= steps[which[t + 1] if which.size > 1 else 0, i, state]
                total += mass[i]
            left = uniforms[t] * total
            state = -1
            for i in range(k):
                if mass[i] > 0.0:
                    state = i
                    left -= mass[i]
                    if left < 0.0:
                        break
            paths[t] = state
