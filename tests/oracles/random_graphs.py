"""Random directed graphs, random tables along them, and independence read off an enumerated joint table."""

import itertools

import numpy as np
from hypothesis import strategies as st

LETTERS = "abcdefgh"


@st.composite
def parent_maps(draw, least=1, most=6):
    """A mapping from names to parents, acyclic, its names in any order."""
    n = draw(st.integers(least, most))
    bits = draw(st.lists(st.booleans(), min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2))
    order = draw(st.permutations(LETTERS[:n]))
    chosen = [pair for pair, bit in zip(itertools.combinations(range(n), 2), bits) if bit]
    listed = draw(st.permutations(range(n)))
    return {order[k]: [order[i] for i, j in chosen if j == k] for k in listed}


def random_conditionals(parents, rng, sizes=None):
    """For each name a table with the axes (parents, name) whose rows sum to one."""
    sizes = sizes or dict.fromkeys(parents, 2)
    tables = {}
    for name, given in parents.items():
        shape = [sizes[g] for g in given]
        tables[name] = rng.dirichlet(np.ones(sizes[name]), size=shape)
    return tables


def enumerate_joint(names, sizes, scopes, tables):
    """The product of tables for every joint state, cell by cell."""
    joint = np.ones([sizes[n] for n in names])
    for index in np.ndindex(joint.shape):
        for scope, table in zip(scopes, tables):
            joint[index] *= table[tuple(index[names.index(n)] for n in scope)]
    return joint


def network_joint(parents, tables, sizes=None):
    """The joint table of a network, axes in the order of `parents`."""
    names = list(parents)
    sizes = sizes or dict.fromkeys(parents, 2)
    return enumerate_joint(names, sizes, [(*parents[n], n) for n in names], [tables[n] for n in names])


def dependence(joint, names, x, y, given):
    r"""The largest $|P(x, y, z) P(z) - P(x, z) P(y, z)|$."""

    def marginal(keep):
        return joint.sum(tuple(i for i, n in enumerate(names) if n not in keep), keepdims=True)

    both = marginal({x, y, *given}) * marginal(set(given))
    return float(np.abs(both - marginal({x, *given}) * marginal({y, *given})).max())
