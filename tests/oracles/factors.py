"""Products of factors summed over every joint state, one by one: slow, obvious, exact."""

import itertools
import math

import numpy as np


def joint(scopes, tables, sizes):
    """The product of factors at every joint state of variables 0 to n - 1, not normalised."""
    out = np.zeros(sizes)
    for states in itertools.product(*(range(size) for size in sizes)):
        out[states] = math.prod(
            float(table[tuple(states[v] for v in scope)]) for scope, table in zip(scopes, tables)
        )
    return out


def marginal(array, keep):
    """The sum over all axes but `keep`, which come in that order, divided by the total."""
    kept = array.sum(tuple(i for i in range(array.ndim) if i not in keep))
    order = sorted(keep)
    return np.transpose(kept, [order.index(i) for i in keep]) / array.sum()


def random_forest(generator, num_variables, most_states=4, most_scope=3, zeros=0.0):
    """Scopes, tables and sizes of a random forest: each new factor holds one old variable at most."""
    sizes = [int(generator.integers(1, most_states + 1)) for _ in range(num_variables)]
    scopes, tables, placed = [], [], []
    waiting = list(range(num_variables))
    while waiting:
        new = [waiting.pop() for _ in range(min(len(waiting), int(generator.integers(1, most_scope))))]
        old = [int(generator.choice(placed))] if placed and generator.random() < 0.8 else []
        scopes.append([int(v) for v in generator.permutation(new + old)])
        placed += new
    scopes += [[int(generator.integers(num_variables))] for _ in range(2)]
    for scope in scopes:
        table = generator.exponential(size=[sizes[v] for v in scope])
        tables.append(np.where(generator.random(table.shape) < zeros, 0.0, table))
    return scopes, tables, sizes


def loopy_fixed_point(scopes, tables, sizes, clamped, sweeps=60):
    """Beliefs after many sweeps of undamped messages, all at once, by loops over cells."""
    local = [np.ones(size) for size in sizes]
    for v, state in clamped.items():
        local[v] = np.eye(sizes[v])[state]
    sent = {(f, v): np.ones(sizes[v]) for f, scope in enumerate(scopes) for v in scope}

    def product(v, without=None):
        out = local[v].copy()
        for (f, w), message in sent.items():
            if w == v and f != without:
                out = out * message
        return out

    for _ in range(sweeps):
        new = {}
        for f, scope in enumerate(scopes):
            for v in scope:
                total = np.zeros(sizes[v])
                for cell in np.ndindex(tables[f].shape):
                    terms = [product(w, f)[s] for w, s in zip(scope, cell) if w != v]
                    total[cell[scope.index(v)]] += tables[f][cell] * math.prod(terms)
                new[f, v] = total / total.sum()
        sent.update(new)
    return [product(v) / product(v).sum() for v in range(len(sizes))]
