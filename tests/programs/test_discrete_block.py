"""The sum over finite discrete latents: against enumeration of all assignments on random models."""

import itertools
import math
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from tractable.core.iterate import count_traces
from tractable.messages.cost import Budget, TooLarge
from tractable.programs.discrete_block import draw, log_evidence, marginals, most_probable, plan_discrete


class Model:
    """Latents, and sites whose units have explicit random tables; one table entry is `theta`-dependent.

    `sites` lists, for each site, the scope of each unit. Tables are read by index, in plain JAX.
    """

    def __init__(self, shapes, cards, sites, seed=0, zeros=0.0):
        self.shapes, self.cards, self.sites = shapes, cards, sites
        self.sizes = np.repeat(cards, [math.prod(s) for s in shapes])
        self.num = len(self.sizes)
        rng = np.random.default_rng(seed)
        self.tables, self.slopes, self.scopes = [], [], []
        for units in sites:
            longest = max(map(len, units), default=0)
            members = np.full((len(units), longest), self.num)  # one more element, that is always zero
            cells = np.ones((len(units), longest), int)
            for u, scope in enumerate(units):
                members[u, : len(scope)] = scope
                cells[u, : len(scope)] = self.sizes[list(scope)]
            strides = np.cumprod(np.concatenate([np.ones((len(units), 1), int), cells[:, :-1]], 1), 1)[:, :longest]
            width = int(cells.prod(1).max(initial=1))
            table = rng.normal(size=(len(units), width))
            table = np.where(rng.random(table.shape) < zeros, -np.inf, table)
            self.tables.append(table)
            self.slopes.append(rng.normal(size=table.shape))
            rows = [(u, e) for u, scope in enumerate(units) for e in scope]
            data = ([True] * len(rows), tuple(np.array(rows, int).reshape(-1, 2).T))
            self.scopes.append((sp.csr_array(data, shape=(len(units), self.num)), members, strides))
        self.matrices = [scope for scope, _, _ in self.scopes]

    def plan(self, **options):
        return plan_discrete(self.shapes, self.cards, self.matrices, **options)

    def arrays(self):
        return [
            tuple(map(jnp.asarray, (table, slope, members, strides)))
            for table, slope, (_, members, strides) in zip(self.tables, self.slopes, self.scopes)
        ]

    def assignments(self):
        for states in itertools.product(*(range(k) for k in self.sizes)):
            yield np.array(states, int)

    def log_product(self, states, theta):
        total = 0.0
        extended = np.append(states, 0)
        for table, slope, (_, members, strides) in zip(self.tables, self.slopes, self.scopes):
            at = (extended[members] * strides).sum(1)
            total += (table + theta * slope)[np.arange(len(table)), at].sum()
        return total

    def enumerate(self, theta):
        """The evidence, its derivative, the marginals and the largest value."""
        states = list(self.assignments())
        logs = np.array([self.log_product(s, theta) for s in states])
        slopes = np.array([(self.log_product(s, theta + 1) - logs[i]) if logs[i] > -np.inf else 0.0 for i, s in enumerate(states)])
        total = logsumexp(logs)
        probs = np.exp(logs - total) if total > -np.inf else np.full(len(logs), np.nan)
        stacked = np.array(states).reshape(len(states), -1)
        single = [np.array([probs[stacked[:, e] == v].sum() for v in range(k)]) for e, k in enumerate(self.sizes)]
        return total, (probs * slopes).sum(), single, logs.max(initial=-np.inf)


def factors(assignment, arrays, theta):
    """The log-densities of all units, by site."""
    flat = jnp.concatenate([a.reshape(-1) for a in assignment] + [jnp.zeros(1, int)])
    out = []
    for table, slope, members, strides in arrays:
        at = (flat[members] * strides).sum(1)
        out.append((table + theta * slope)[jnp.arange(len(table)), at])
    return out


evidence_and_slope = jax.jit(jax.value_and_grad(lambda theta, plan, arrays: log_evidence(plan, factors, arrays, theta)))
probabilities = jax.jit(lambda plan, arrays, theta: marginals(plan, factors, arrays, theta))
best = jax.jit(lambda plan, arrays, theta: most_probable(plan, factors, arrays, theta))
drawn = jax.jit(lambda plan, arrays, theta, keys: jax.vmap(lambda key: draw(plan, factors, key, arrays, theta))(keys))


def compare(model, theta=0.3, evidence_only=False):
    plan, arrays = model.plan(), model.arrays()
    total, slope, single, largest = model.enumerate(theta)
    value, derivative = evidence_and_slope(theta, plan, arrays)
    np.testing.assert_allclose(value, total, rtol=1e-11, atol=1e-11)
    if total > -np.inf:
        np.testing.assert_allclose(derivative, slope, rtol=1e-8, atol=1e-9)
    assert np.isfinite(derivative)
    if evidence_only:
        return plan
    found = probabilities(plan, arrays, theta)
    assert [p.shape for p in found] == [(*shape, k) for shape, k in zip(model.shapes, model.cards)]
    flat = [row for p in found for row in np.asarray(p).reshape(-1, p.shape[-1])]
    for row, exact in zip(flat, single, strict=True):
        np.testing.assert_allclose(row, exact, atol=1e-10)
    states, log_value = best(plan, arrays, theta)
    np.testing.assert_allclose(log_value, largest, rtol=1e-11, atol=1e-11)
    joint = np.concatenate([np.asarray(s).reshape(-1) for s in states]) if states else np.zeros(0, int)
    if largest > -np.inf:
        np.testing.assert_allclose(model.log_product(joint, theta), largest, rtol=1e-11, atol=1e-11)
    else:
        assert (joint == -1).all()
    return plan


def random_model(seed):
    """Latents of several shapes and numbers of values; units with scopes of up to three elements."""
    rng = np.random.default_rng(seed)
    shapes, cards = [], []
    while not shapes or (math.prod(k ** math.prod(s) for s, k in zip(shapes, cards)) < 200 and len(shapes) < 4):
        shapes.append([(), (2,), (3,), (2, 2)][rng.integers(4)])
        cards.append(int(rng.integers(1, 4)))
    while math.prod(k ** math.prod(s) for s, k in zip(shapes, cards)) > 3000:
        shapes.pop(), cards.pop()
    num = sum(math.prod(s) for s in shapes)
    sites = [[(e,) for e in range(num)]]
    for _ in range(rng.integers(1, 4)):
        sizes = rng.integers(0, min(3, num) + 1, size=rng.integers(1, 5))
        sites.append([tuple(rng.permutation(num)[:k].tolist()) for k in sizes])
    return Model(shapes, cards, sites, seed, zeros=[0.0, 0.1, 0.4][seed % 3])


NAMED = {
    "mixture": lambda: Model([(6,)], [3], [[(i,) for i in range(6)]] * 2),
    "chain": lambda: Model([(6,)], [3], [[(0,)], [(i, i + 1) for i in range(5)]]),
    "hidden chain": lambda: Model([(7,)], [2], [[(0,)] + [(i, i + 1) for i in range(6)], [(i,) for i in range(7)]]),
    "two kinds along a chain": lambda: Model([(3,), (3,)], [2, 3], [[(0, 3), (3, 1), (1, 4), (4, 2), (2, 5)]]),
    "tree": lambda: Model([(7,)], [2], [[(0,)], [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]]),
    "star": lambda: Model([(), (6,)], [3, 2], [[(0,)], [(0, i + 1) for i in range(6)], [(i + 1,) for i in range(6)]]),
    "loop": lambda: Model([(6,)], [3], [[(i, (i + 1) % 6) for i in range(6)]]),
    "grid": lambda: Model([(3, 3)], [2], [[(3 * i + j, 3 * i + j + 1) for i in range(3) for j in range(2)],
                                          [(3 * i + j, 3 * i + j + 3) for i in range(2) for j in range(3)]]),
    "three at a time": lambda: Model([(6,)], [2], [[(i, i + 1, i + 2) for i in range(4)]]),
    "sprinkler rows": lambda: Model([(2,), (2,), (2,)], [2, 2, 2], [[(0,), (1,)], [(0, 2), (1, 3)], [(0, 2, 4), (1, 3, 5)]]),
    "free units": lambda: Model([(3,)], [2], [[(), ()], [(0,), (1,), (2,)], [(), (0, 1), ()]]),
    "unused element": lambda: Model([(3,)], [3], [[(0,), (2, 0)]]),
    "one value": lambda: Model([(2,), (2,)], [1, 3], [[(0, 2), (1, 3)], [(2, 3)]]),
    "impossible": lambda: Model([(4,)], [2], [[(i,) for i in range(4)], [(0, 1)]], zeros=1.0),
}  # fmt: skip


@pytest.mark.cheap
@pytest.mark.parametrize("name", NAMED)
def test_answers_equal_those_of_enumeration(name):
    compare(NAMED[name]())


@pytest.mark.parametrize("block", range(12))
def test_random_models_equal_enumeration(block):
    for seed in range(10 * block, 10 * (block + 1)):
        compare(random_model(seed), evidence_only=seed % 5 > 0)
