"""Joint distributions, information and codes by loops over outcomes: slow, obvious, no library code.

A distribution is a dict from tuples of states to probabilities; `names` are the variables in the tuple.
"""

import itertools
import math

import numpy as np


def outcomes(probs, states):
    """Every joint state with its probability, from an array and the states along each axis."""
    probs = np.asarray(probs)
    table = {}
    for index in itertools.product(*(range(len(s)) for s in states)):
        table[tuple(s[i] for s, i in zip(states, index))] = float(probs[index])
    return table


def marginal(table, names, keep):
    found = {}
    for outcome, p in table.items():
        key = tuple(outcome[names.index(name)] for name in keep)
        found[key] = found.get(key, 0.0) + p
    return found


def conditional(table, names, targets, evidence):
    """P(targets | evidence) as a dict, by restriction and renormalisation."""
    inside = {o: p for o, p in table.items() if all(o[names.index(n)] == v for n, v in evidence.items())}
    total = sum(inside.values())
    return {key: p / total for key, p in marginal(inside, names, targets).items()}


def probability(table, names, event):
    """The probability that a predicate of the assignment (a dict from names) holds."""
    return sum(p for outcome, p in table.items() if event(dict(zip(names, outcome))))


def expectation(table, names, function):
    return sum(p * function(**dict(zip(names, outcome))) for outcome, p in table.items() if p > 0)


def entropy(table):
    return -sum(p * math.log(p) for p in table.values() if p > 0)


def mutual_information(table, names, first, second, given=()):
    """The sum of p log(p(x, y | z) / p(x | z) p(y | z)) over outcomes."""
    total = 0.0
    xyz = marginal(table, names, [*first, *second, *given])
    xz, yz, z = (marginal(table, names, [*block, *given]) for block in (first, second, ()))
    for outcome, p in xyz.items():
        a, b, c = (
            outcome[: len(first)],
            outcome[len(first) : len(first) + len(second)],
            outcome[len(first) + len(second) :],
        )
        if p > 0:
            total += p * (math.log(p) + math.log(z[c]) - math.log(xz[a + c]) - math.log(yz[b + c]))
    return total


def shortest_expected_length(probs):
    """The least expected length of a prefix code, over all lengths that satisfy Kraft's inequality."""
    k = len(probs)
    best = math.inf
    for lengths in itertools.product(range(1, k), repeat=k):
        if sum(2.0**-n for n in lengths) <= 1:
            best = min(best, sum(p * n for p, n in zip(probs, lengths)))
    return best


def neighbour_information(x, y, k):
    """The neighbour estimator of mutual information with all distances in loops."""
    n, terms = len(x), []
    harmonic = np.concatenate(
        [[0.0], np.cumsum(1 / np.arange(1, n + 1))]
    )  # digamma(m) = harmonic[m - 1] - 0.577...
    for i in range(n):
        dx = [max(abs(x[i] - x[j])) for j in range(n)]
        dy = [max(abs(y[i] - y[j])) for j in range(n)]
        radius = sorted(max(a, b) for a, b in zip(dx, dy))[k]
        nx = sum(d < radius for d in dx) - 1
        ny = sum(d < radius for d in dy) - 1
        terms.append(harmonic[nx] + harmonic[ny])
    return harmonic[k - 1] + harmonic[n - 1] - float(np.mean(terms))
