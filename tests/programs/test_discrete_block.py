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
from tractable.messages.junction import junction_tree
from tractable.programs import discrete_replays
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
            strides = np.cumprod(np.concatenate([np.ones((len(units), 1), int), cells[:, :-1]], 1), 1)[
                :, :longest
            ]
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
        slopes = np.array(
            [
                (self.log_product(s, theta + 1) - logs[i]) if logs[i] > -np.inf else 0.0
                for i, s in enumerate(states)
            ]
        )
        total = logsumexp(logs)
        probs = np.exp(logs - total) if total > -np.inf else np.full(len(logs), np.nan)
        stacked = np.array(states).reshape(len(states), -1)
        single = [
            np.array([probs[stacked[:, e] == v].sum() for v in range(k)]) for e, k in enumerate(self.sizes)
        ]
        return total, (probs * slopes).sum(), single, logs.max(initial=-np.inf)


def factors(assignment, arrays, theta):
    """The log-densities of all units, by site."""
    flat = jnp.concatenate([a.reshape(-1) for a in assignment] + [jnp.zeros(1, int)])
    out = []
    for table, slope, members, strides in arrays:
        at = (flat[members] * strides).sum(1)
        out.append((table + theta * slope)[jnp.arange(len(table)), at])
    return out


evidence_and_slope = jax.jit(
    jax.value_and_grad(lambda theta, plan, arrays: log_evidence(plan, factors, arrays, theta))
)
probabilities = jax.jit(lambda plan, arrays, theta: marginals(plan, factors, arrays, theta))
best = jax.jit(lambda plan, arrays, theta: most_probable(plan, factors, arrays, theta))
drawn = jax.jit(
    lambda plan, arrays, theta, keys: jax.vmap(lambda key: draw(plan, factors, key, arrays, theta))(keys)
)


def assert_enumerated(model, theta=0.3, evidence_only=False):
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


def random_models(seed):
    """Latents of several shapes and numbers of values; units with scopes of up to three elements; three
    sets of tables, with no, some and many impossible entries."""
    rng = np.random.default_rng(seed)
    shapes, cards = [], []
    while not shapes or (
        math.prod(k ** math.prod(s) for s, k in zip(shapes, cards)) < 200 and len(shapes) < 4
    ):
        shapes.append([(), (2,), (3,), (2, 2)][rng.integers(4)])
        cards.append(int(rng.integers(1, 4)))
    while math.prod(k ** math.prod(s) for s, k in zip(shapes, cards)) > 3000:
        shapes.pop(), cards.pop()
    num = sum(math.prod(s) for s in shapes)
    sites = [[(e,) for e in range(num)]]
    for _ in range(rng.integers(1, 4)):
        sizes = rng.integers(0, min(3, num) + 1, size=rng.integers(1, 5))
        sites.append([tuple(rng.permutation(num)[:k].tolist()) for k in sizes])
    return [Model(shapes, cards, sites, 7 * seed + i, zeros) for i, zeros in enumerate((0.0, 0.1, 0.4))]


NAMED = {
    "mixture": lambda: Model([(6,)], [3], [[(i,) for i in range(6)]] * 2),
    "chain": lambda: Model([(6,)], [3], [[(0,)], [(i, i + 1) for i in range(5)]]),
    "hidden chain": lambda: Model([(7,)], [2], [[(0,), *((i, i + 1) for i in range(6))],
                                                [(i,) for i in range(7)]]),
    "two kinds along a chain": lambda: Model([(3,), (3,)], [2, 3],
                                             [[(0, 3), (3, 1), (1, 4), (4, 2), (2, 5)]]),
    "tree": lambda: Model([(7,)], [2], [[(0,)], [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]]),
    "star": lambda: Model([(), (6,)], [3, 2], [[(0,)], [(0, i + 1) for i in range(6)],
                                               [(i + 1,) for i in range(6)]]),
    "loop": lambda: Model([(6,)], [3], [[(i, (i + 1) % 6) for i in range(6)]]),
    "grid": lambda: Model([(3, 3)], [2], [[(3 * i + j, 3 * i + j + 1) for i in range(3) for j in range(2)],
                                          [(3 * i + j, 3 * i + j + 3) for i in range(2) for j in range(3)]]),
    "three at a time": lambda: Model([(6,)], [2], [[(i, i + 1, i + 2) for i in range(4)]]),
    "sprinkler rows": lambda: Model([(2,), (2,), (2,)], [2, 2, 2],
                                    [[(0,), (1,)], [(0, 2), (1, 3)], [(0, 2, 4), (1, 3, 5)]]),
    "free units": lambda: Model([(3,)], [2], [[(), ()], [(0,), (1,), (2,)], [(), (0, 1), ()]]),
    "unused element": lambda: Model([(3,)], [3], [[(0,), (2, 0)]]),
    "one value": lambda: Model([(2,), (2,)], [1, 3], [[(0, 2), (1, 3)], [(2, 3)]]),
    "impossible": lambda: Model([(4,)], [2], [[(i,) for i in range(4)], [(0, 1)]], zeros=1.0),
}  # fmt: skip


@pytest.mark.cheap
@pytest.mark.parametrize("name", NAMED)
def test_answers_equal_those_of_enumeration(name):
    assert_enumerated(NAMED[name]())


@pytest.mark.parametrize("block", range(4))
def test_random_models_equal_enumeration(block):
    """Sixty models of twenty structures, each of which compiles once."""
    for seed in range(5 * block, 5 * (block + 1)):
        for model in random_models(seed):
            assert_enumerated(model, evidence_only=seed % 5 > 0)


# --- what cannot be enumerated: against the junction tree on the host ----------------------------------

PAIRS = [(i, i + 1) for i in range(29)]
LARGE = {
    "chain": (lambda: Model([(30,)], [3], [[(0,)], PAIRS, [(i,) for i in range(30)]]), 1),
    "chain in a shuffled order": (
        lambda: Model([(30,)], [3], [[tuple((7 * np.array(pair) % 30).tolist()) for pair in PAIRS]]),
        1,
    ),
    "second order": (lambda: Model([(30,)], [2], [[(i, i + 1, i + 2) for i in range(28)]]), 1),
    "ring": (lambda: Model([(30,)], [2], [[*PAIRS, (29, 0)]]), 1),
    "ladder": (
        lambda: Model([(15, 2)], [2], [[(i, i + 2) for i in range(28)],
                                       [(2 * i, 2 * i + 1) for i in range(15)]]),
        1,
    ),
    "chain with leaves": (
        lambda: Model([(20,), (20, 2)], [3, 2], [[(i, i + 1) for i in range(19)],
                                                 [(j // 2, 20 + j) for j in range(40)]]),
        1,
    ),
    "two kinds along a chain": (
        lambda: Model([(15,), (15,)], [2, 3], [[(i, 15 + i) for i in range(15)],
                                               [(15 + i, i + 1) for i in range(14)]]),
        1,
    ),
    "chains of several lengths": (
        lambda: Model([(70,)], [2], [[(i, i + 1) for i in range(69) if i not in (17, 37)]]),
        3,
    ),
    "deep tree": (lambda: Model([(63,)], [2], [[(i, (i - 1) // 2) for i in range(1, 63)]]), 0),
    "star": (lambda: Model([(), (60,)], [3, 2], [[(0,)], [(0, i + 1) for i in range(60)]]), 0),
    "grid": (
        lambda: Model([(5, 5)], [2], [[(5 * i + j, 5 * i + j + 1) for i in range(5) for j in range(4)],
                                      [(5 * i + j, 5 * i + j + 5) for i in range(4) for j in range(5)]]),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_large_models_equal_the_junction_tree(name):
    build, num_chains = LARGE[name]
    model, theta = build(), 0.3
    scopes, tables = [], []
    for units, table, slope in zip(model.sites, model.tables, model.slopes):
        for u, scope in enumerate(units):
            sizes = [int(model.sizes[e]) for e in scope]
            cells = (table + theta * slope)[u, : math.prod(sizes)]
            scopes.append(tuple(int(e) for e in scope))
            tables.append(cells.reshape(sizes[::-1]).transpose())
    exact = junction_tree(scopes, model.sizes.tolist()).calibrate(tables)
    plan, arrays = model.plan(), model.arrays()
    if num_chains is not None:
        assert sum(paths.shape[0] for paths in plan.rounds.paths) == num_chains
    value, _ = evidence_and_slope(theta, plan, arrays)
    np.testing.assert_allclose(value, exact.log_total, rtol=1e-12)
    found = [p.reshape(-1, p.shape[-1]) for p in probabilities(plan, arrays, theta)]
    rows = [row for part in found for row in np.asarray(part)]
    for e, row in enumerate(rows):
        np.testing.assert_allclose(row, exact.marginal(e), atol=1e-11)
    states, log_value = best(plan, arrays, theta)
    joint = np.concatenate([np.asarray(s).reshape(-1) for s in states])
    np.testing.assert_allclose(model.log_product(joint, theta), log_value, rtol=1e-11)
    many = drawn(plan, arrays, theta, jr.split(jr.key(1), 2000))
    flat = np.concatenate([np.asarray(part).reshape(2000, -1) for part in many], 1)
    for e, row in enumerate(rows):
        shares = np.bincount(flat[:, e], minlength=len(row)) / 2000
        assert (np.abs(shares - row) < 4.5 * np.sqrt(row * (1 - row) / 2000) + 1e-12).all()


@pytest.mark.parametrize(
    "name", ["loop", "hidden chain", "tree", "sprinkler rows", "three at a time", "star"]
)
def test_draws_have_the_joint_distribution(name):
    model, num = NAMED[name](), 20_000
    logs = np.array([model.log_product(s, 0.3) for s in model.assignments()])
    expected = num * np.exp(logs - logsumexp(logs))
    many = drawn(model.plan(), model.arrays(), 0.3, jr.split(jr.key(2), num))
    assert [(part.shape[1:], part.dtype.kind) for part in many] == [(shape, "i") for shape in model.shapes]
    flat = np.concatenate([np.asarray(part).reshape(num, -1) for part in many], 1)
    counts = np.bincount(np.ravel_multi_index(tuple(flat.T), tuple(model.sizes)), minlength=len(logs))
    rare = expected < 5
    counts, expected = (np.append(part[~rare], part[rare].sum()) for part in (counts, expected))
    kept = expected > 0
    chi = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    degrees = kept.sum() - 1
    assert abs(chi - degrees) < 4 * np.sqrt(2 * degrees)


def test_draws_of_an_impossible_model_are_marked():
    model = NAMED["impossible"]()
    assert all(
        (np.asarray(part) == -1).all()
        for part in drawn(model.plan(), model.arrays(), 0.3, jr.split(jr.key(0), 3))
    )


# --- transforms, programs and cost ---------------------------------------------------------------------


@pytest.mark.thorough
def test_draws_of_continuous_values_go_through_vmap():
    model = NAMED["hidden chain"]()
    plan, arrays, thetas = model.plan(), model.arrays(), jnp.linspace(-1.0, 1.0, 5)
    values = jax.vmap(lambda theta: log_evidence(plan, factors, arrays, theta))(thetas)
    np.testing.assert_allclose(values, [model.enumerate(float(t))[0] for t in thetas], rtol=1e-12)
    probs = jax.vmap(lambda theta: marginals(plan, factors, arrays, theta)[0])(thetas)
    np.testing.assert_allclose(probs[1], np.array(model.enumerate(float(thetas[1]))[2]), atol=1e-12)


def test_new_numbers_and_new_indices_compile_nothing():
    """A mixture whose rows are assigned to groups: other data, other parameters, other groups."""
    counted = count_traces(lambda theta, plan, group, y: log_evidence(plan, by_group, theta, group, y))
    run = jax.jit(counted)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        group = np.concatenate([np.arange(8), rng.integers(0, 8, 12)])
        scope = sp.csr_array((np.ones(20, bool), (np.arange(20), group)), shape=(20, 8))
        plan = plan_discrete([(8,)], [3], [sp.eye_array(8, format="csr"), scope])
        theta, y = rng.normal(size=3), rng.normal(size=20)
        logs = np.array([[-((y[group == g] - theta[k]) ** 2).sum() for k in range(3)] for g in range(8)])
        exact = logsumexp(logs - np.log(3), axis=1).sum()
        np.testing.assert_allclose(run(theta, plan, jnp.asarray(group), y), exact, rtol=1e-12)
    assert counted.count == 1


def by_group(assignment, theta, group, y):
    z = assignment[0]
    return [jnp.full(z.shape, -jnp.log(3.0)), -((y - theta[z[group]]) ** 2)]


def test_sites_share_replays_where_that_is_cheap():
    small, large = NAMED["hidden chain"](), Model([(40_000,)], [4], [[(i,) for i in range(40_000)]] * 2)
    assert [part.digits for part in small.plan().replays] == [(2, 2)]
    assert [part.digits for part in large.plan().replays] == [(4,)]


def test_replays_in_chunks_give_the_same(monkeypatch):
    model = NAMED["loop"]()
    plan, arrays = model.plan(), model.arrays()
    whole = evidence_and_slope(0.3, plan, arrays)
    monkeypatch.setattr(discrete_replays, "MOST_BYTES", 4 * 8 * (6 * 6 + 6))  # four of nine at a time
    again = jax.jit(jax.value_and_grad(lambda theta: log_evidence(plan, factors, arrays, theta)))
    assert "scan" in str(jax.make_jaxpr(again)(0.3))
    np.testing.assert_allclose(again(0.3), whole, rtol=1e-13)


def test_what_is_too_large_is_refused_by_name():
    pairs = [(30 * i + j, 30 * i + j + 1) for i in range(30) for j in range(29)]
    pairs += [(30 * i + j, 30 * i + j + 30) for i in range(29) for j in range(30)]
    grid = Model([(30, 30)], [4], [[(i,) for i in range(900)], pairs])
    with pytest.raises(TooLarge, match=r"predict.*'bond' ties the discrete latents 'spin' \(900 elements\)"):
        grid.plan(names=["spin"], sites=["field", "bond"])
    scope = sp.csr_array(np.ones((1, 60), bool))
    with pytest.raises(TooLarge, match=r"site 'total'.*10\^19.0 bytes.*'z' \(60 elements\)"):
        plan_discrete([(60,)], [2], [scope], names=["z"], sites=["total"])
    with pytest.raises(TooLarge, match=r"1.6e\+05 assignments of 5 units"):
        plan_discrete([(20,)], [20], [sp.csr_array(np.kron(np.eye(5), np.ones(4)))], Budget(max_bytes=4e6))


def test_scopes_must_name_all_elements():
    with pytest.raises(ValueError, match=r"`scopes\[0\]` must be of shape \(units, 3\); got shape \(2, 4\)"):
        plan_discrete([(3,)], [2], [sp.csr_array((2, 4), dtype=bool)])


def test_a_program_without_discrete_elements_is_a_sum():
    plan = plan_discrete([], [], [sp.csr_array((3, 0), dtype=bool)])
    np.testing.assert_allclose(log_evidence(plan, lambda assignment, x: [x], jnp.arange(3.0)), 3.0)
    assert draw(plan, lambda assignment, x: [x], jr.key(0), jnp.arange(3.0)) == []


def hidden(assignment, theta, y):
    """A hidden Markov model with as many states as `theta` has rows."""
    z, steps = assignment[0], jax.nn.log_softmax(theta, 1)
    before = jnp.concatenate([jnp.zeros(1, z.dtype), z[:-1]])
    return [steps[before, z], -0.5 * (y - z) ** 2]


def hidden_plan(length, size):
    chain = sp.csr_array(sp.eye_array(length) + sp.diags_array(np.ones(length - 1), offsets=-1))
    return plan_discrete([(length,)], [size], [chain, sp.eye_array(length, format="csr")])


def scaled_forward(theta, y):
    steps = np.exp(theta) / np.exp(theta).sum(1, keepdims=True)
    seen, message, total = (
        np.exp(-0.5 * (y[:, None] - np.arange(len(theta))) ** 2),
        np.eye(len(theta))[0],
        0.0,
    )
    for row in seen:
        message = (message @ steps) * row
        total += np.log(message.sum())
        message /= message.sum()
    return total


@pytest.mark.thorough
def test_a_long_chain_costs_in_proportion_to_its_length():
    run = jax.jit(jax.value_and_grad(lambda theta, plan, y: log_evidence(plan, hidden, theta, y)))
    seconds, rng = {}, np.random.default_rng(0)
    theta = jnp.asarray(rng.normal(size=(5, 5)))
    for length in (2_000, 16_000):
        plan, y = hidden_plan(length, 5), jnp.asarray(rng.normal(size=length))
        value, _ = jax.block_until_ready(run(theta, plan, y))
        np.testing.assert_allclose(value, scaled_forward(np.asarray(theta), np.asarray(y)), rtol=1e-10)
        times = []
        for _ in range(7):
            begun = time.process_time()
            jax.block_until_ready(run(theta, plan, y))
            times.append(time.process_time() - begun)
        seconds[length] = min(times)
    assert seconds[16_000] < 3 * 8 * seconds[2_000]


def test_a_large_mixture_is_one_array():
    num, size = 100_000, 5
    plan = plan_discrete([(num,)], [size], [sp.eye_array(num, format="csr")] * 2)
    assert [group.sizes for group in plan.rounds.groups] == [(size,)]
    assert all(feed.rows is None and feed.targets is None for feed in plan.rounds.groups[0].feeds)
    y, theta = np.random.default_rng(0).normal(size=num), np.linspace(-2.0, 2.0, size)
    run = jax.jit(lambda theta, plan, y: log_evidence(plan, mixture, theta, y))
    exact = logsumexp(-0.5 * (y[:, None] - theta) ** 2 - np.log(size), axis=1).sum()
    np.testing.assert_allclose(run(theta, plan, y), exact, rtol=1e-12)


def mixture(assignment, theta, y):
    z = assignment[0]
    return [jnp.full(z.shape, -jnp.log(len(theta))), -0.5 * (y - theta[z]) ** 2]
