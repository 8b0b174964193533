"""Networks by enumeration: every joint state with its probability, in plain loops; no library code.

A network is a list of (name, given, array, states of the name), parents before children.
"""

import itertools
import math


def joint(nodes):
    """A dict from joint states (in the order of the nodes) to probabilities."""
    states = {name: own for name, _, _, own in nodes}
    names = [name for name, *_ in nodes]
    table = {}
    for outcome in itertools.product(*(states[name] for name in names)):
        at = dict(zip(names, outcome))
        p = 1.0
        for name, given, array, own in nodes:
            index = (*(states[g].index(at[g]) for g in given), own.index(at[name]))
            p *= float(array[index])
        table[outcome] = p
    return names, table


def weigh(names, table, evidence):
    """The table with each outcome multiplied by the evidence: a state, or a dict of likelihoods."""
    weighed = {}
    for outcome, p in table.items():
        at = dict(zip(names, outcome))
        for name, value in evidence.items():
            p *= value[at[name]] if isinstance(value, dict) else float(at[name] == value)
        weighed[outcome] = p
    return weighed


def total(table):
    return math.fsum(table.values())


def marginal(names, table, keep):
    found = {}
    for outcome, p in table.items():
        key = tuple(outcome[names.index(name)] for name in keep)
        found[key] = found.get(key, 0.0) + p
    return found


def best(table):
    return max(table.values())
