"""Products of tables by loops over all assignments, in plain numbers. Slow and obvious."""

import itertools
import math

import numpy as np


def assignments(scopes, log_tables, sizes, evidence=None):
    """Every assignment that agrees with the evidence (states or likelihoods), with the log of its value."""
    evidence = evidence or {}
    found = {}
    for states in itertools.product(*map(range, sizes)):
        value = sum(float(table[tuple(states[v] for v in scope)]) for scope, table in zip(scopes, log_tables))
        for v, given in evidence.items():
            if np.ndim(given) == 0:
                value += 0.0 if states[v] == given else -math.inf
            else:
                value += math.log(given[states[v]]) if given[states[v]] > 0 else -math.inf
        found[states] = value
    return found


def log_total(values):
    """The log of the sum of all values."""
    peak = max(values.values())
    if peak == -math.inf:
        return -math.inf
    return peak + math.log(math.fsum(math.exp(value - peak) for value in values.values()))


def joint(values, variables, sizes):
    """The normalised table of some variables."""
    total, table = log_total(values), np.zeros([sizes[v] for v in variables])
    for states, value in values.items():
        table[tuple(states[v] for v in variables)] += math.exp(value - total)
    return table
