"""Gibbs sampling on factors: conditionals are those of the joint table, marginals meet exact answers."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tractable.core.iterate import run
from tractable.distributions.tables import ConditionalTable, JointTable, product
from tractable.inference.gibbs.draws import FactorDraws
from tractable.inference.gibbs.factors import FactorGibbs, factor_gibbs
from tractable.inference.weighted.ancestral import ancestral

SPRINKLER = [
    JointTable("cloudy", [0.5, 0.5]),
    ConditionalTable("sprinkler", "cloudy", [[0.5, 0.5], [0.9, 0.1]]),
    ConditionalTable("rain", "cloudy", [[0.8, 0.2], [0.2, 0.8]]),
    ConditionalTable("wet", ["sprinkler", "rain"], [[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]]),
]
EVIDENCE = {"sprinkler": 1, "wet": 1}


def close(found, exact, most=0.1):
    return abs(float(found.value) - exact) < 5 * float(found.standard_error) < most


def random_factors(seed, sizes, scopes):
    rng = np.random.default_rng(seed)
    return [(scope, rng.normal(size=[sizes[name] for name in scope])) for scope in scopes]


def enumerated(factors, sizes):
    """The joint distribution by loops over all states."""
    names = list(sizes)
    cells = np.zeros([sizes[name] for name in names])
    for index in itertools.product(*(range(n) for n in cells.shape)):
        state = dict(zip(names, index))
        cells[index] = np.exp(sum(logs[tuple(state[name] for name in scope)] for scope, logs in factors))
    return names, cells / cells.sum()


SIZES = {"a": 2, "b": 3, "c": 2, "d": 4, "e": 2}
SCOPES = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("e",), ("d", "e", "b")]


def test_conditionals_are_those_of_the_joint_distribution():
    factors = random_factors(0, SIZES, SCOPES)
    names, joint = enumerated(factors, SIZES)
    sampler = FactorGibbs(factors)
    states = np.array(list(itertools.product(*(range(SIZES[name]) for name in names))))
    order = [names.index(name) for name in sampler.free]
    for name in names:
        found = jax.jit(jax.vmap(lambda x, name=name: sampler.conditional(name, x)))(states[:, order])
        axis = names.index(name)
        rows = joint / joint.sum(axis, keepdims=True)
        expected = [np.moveaxis(rows, axis, -1)[tuple(np.delete(state, axis))] for state in states]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_density_is_the_product_of_the_factors():
    factors = random_factors(1, SIZES, SCOPES)
    names, joint = enumerated(factors, SIZES)
    sampler = FactorGibbs(factors)
    states = np.array(list(itertools.product(*(range(SIZES[name]) for name in names))))
    logs = np.asarray(
        jax.jit(jax.vmap(sampler.log_density))(states[:, [names.index(n) for n in sampler.free]])
    )
    np.testing.assert_allclose(np.exp(logs) / np.exp(logs).sum(), joint.reshape(-1), rtol=1e-12)


def test_colours_separate_neighbours():
    sampler = FactorGibbs(random_factors(0, SIZES, SCOPES))
    place = dict(zip(sampler.free, sampler.layout.slots))
    for name in sampler.free:
        assert all(place[name][0] != place[other][0] for other in sampler.markov_blanket(name))
    assert sampler.markov_blanket("e") == {"b", "d"}
    assert sampler.markov_blanket("a") == {"b", "d"}
    chain = FactorGibbs(random_factors(0, SIZES, list(itertools.pairwise("abcde"))))
    assert chain.num_colours == 2


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_a_conditional_depends_on_the_markov_blanket_alone(seed):
    sampler = FactorGibbs(random_factors(2, SIZES, SCOPES))
    rng = np.random.default_rng(seed)
    state = {name: int(rng.integers(SIZES[name])) for name in SIZES}
    for name in SIZES:
        blanket = sampler.markov_blanket(name)
        other = {n: v if n in blanket else int(rng.integers(SIZES[n])) for n, v in state.items()}
        np.testing.assert_array_equal(sampler.conditional(name, state), sampler.conditional(name, other))


def test_a_conditional_does_depend_on_its_blanket():
    sampler = FactorGibbs(random_factors(2, SIZES, SCOPES))
    state = dict.fromkeys(SIZES, 0)
    for name in SIZES:
        for other in sampler.markov_blanket(name):
            gap = sampler.conditional(name, state) - sampler.conditional(name, state | {other: 1})
            assert float(np.abs(gap).max()) > 1e-4


def test_the_blanket_of_a_network_has_parents_children_and_their_parents():
    sampler = FactorGibbs(SPRINKLER)
    assert sampler.markov_blanket("rain") == {"cloudy", "wet", "sprinkler"}
    assert sampler.markov_blanket("cloudy") == {"sprinkler", "rain"}


def test_a_sweep_leaves_the_joint_distribution_invariant_exactly():
    """The transition matrix of a sweep, colour by colour, from the conditionals of the sampler."""
    sizes = {"a": 2, "b": 3, "c": 2}
    factors = random_factors(3, sizes, [("a", "b"), ("b", "c")])
    _, joint = enumerated(factors, sizes)
    sampler = FactorGibbs(factors)
    states = list(itertools.product(range(2), range(3), range(2)))
    assert sampler.free == ("a", "b", "c")
    slots = sampler.layout.slots
    assert slots[0][0] == slots[2][0]  # a and c move together
    whole = np.eye(len(states))
    for colour in range(sampler.num_colours):
        movers = [i for i in range(3) if slots[i][0] == colour]
        matrix = np.zeros((len(states), len(states)))
        for i, x in enumerate(states):
            rows = [np.asarray(sampler.conditional("abc"[v], np.array(x))) for v in movers]
            for j, y in enumerate(states):
                if all(x[v] == y[v] for v in range(3) if v not in movers):
                    matrix[i, j] = np.prod([row[y[v]] for row, v in zip(rows, movers)])
        whole = whole @ matrix
    p = joint.reshape(-1)
    np.testing.assert_allclose(p @ whole, p, rtol=1e-12)
    np.testing.assert_allclose(whole.sum(1), 1, rtol=1e-12)
    assert not np.allclose(p[:, None] * whole, (p[:, None] * whole).T)  # a systematic scan is not reversible


def test_the_sprinkler():
    joint = product(SPRINKLER)
    np.testing.assert_allclose(joint.prob(rain=1, given=EVIDENCE), 0.3203883, atol=5e-8)
    np.testing.assert_allclose(joint.prob(cloudy=1, given=EVIDENCE), 0.1747573, atol=5e-8)
    found = factor_gibbs(SPRINKLER, EVIDENCE, key=jr.key(0), num_sweeps=4000)
    assert close(found.prob(rain=1), 0.3203883)
    assert close(found.prob(cloudy=1), 0.1747573)
    assert close(found.prob(rain=1, cloudy=0), float(joint.prob(rain=1, cloudy=0, given=EVIDENCE)))
    assert close(found.prob(rain={0}), 1 - 0.3203883)
    for name, estimate in found.marginals().items():
        exact = np.asarray(joint.query(name, EVIDENCE).probs)
        assert (np.abs(np.asarray(estimate.value) - exact) < 5 * np.asarray(estimate.standard_error)).all()
        np.testing.assert_allclose(estimate.value.sum(), 1, rtol=1e-12)
    assert "effective draws; the chains agree" in repr(found)
    assert "P(rain | sprinkler, wet)" in repr(found)
    np.testing.assert_array_equal(found.states("rain"), np.asarray(found.places)[:, :, 1])


def test_evidence_may_be_a_set_of_states():
    factors = random_factors(4, SIZES, SCOPES)
    names, joint = enumerated(factors, SIZES)
    table = JointTable(names, joint)
    evidence = {"d": {1, 3}, "a": 1}
    found = factor_gibbs(factors, evidence, key=jr.key(1), num_sweeps=3000)
    assert set(np.unique(found.states("d"))) == {1, 3}
    for name in ("b", "c", "d", "e"):
        exact = np.asarray(table.query(name, evidence).probs)
        estimate = found.marginal(name)
        error = 5 * np.asarray(estimate.standard_error) + 1e-15
        assert (np.abs(np.asarray(estimate.value) - exact) <= error).all(), name


def test_a_field_of_spins_without_its_normaliser():
    """A 3 by 4 grid with couplings and fields: all 4096 states against the sampler, in two colours."""
    rng = np.random.default_rng(0)
    sites = [(i, j) for i in range(3) for j in range(4)]
    spin = np.array([-1.0, 1.0])
    factors = [((f"{s}",), 0.3 * rng.normal() * spin) for s in sites]
    edges = [(s, u) for s in sites for u in ((s[0] + 1, s[1]), (s[0], s[1] + 1)) if u in sites]
    factors += [((f"{s}", f"{u}"), 0.4 * rng.normal() * np.outer(spin, spin)) for s, u in edges]
    sizes = {f"{s}": 2 for s in sites}
    names, joint = enumerated(factors, sizes)
    sampler = FactorGibbs(factors)
    assert sampler.num_colours == 2
    found = factor_gibbs(factors, key=jr.key(2), num_sweeps=4000)
    for name in names:
        axes = tuple(i for i, other in enumerate(names) if other != name)
        assert close(found.prob({name: 1}), joint.sum(axes)[1])


def test_standard_errors_cover():
    """Over many independent runs z-scores have variance about one: errors are neither small nor large."""
    many = factor_gibbs(SPRINKLER, EVIDENCE, key=jr.key(0), num_sweeps=400, num_warmup=50, num_chains=160)
    runs = [FactorDraws(many.places[i : i + 4], many.axes, many.free, ()) for i in range(0, 160, 4)]
    found = [each.prob(rain=1) for each in runs]
    scores = [(float(each.value) - 0.3203883) / float(each.standard_error) for each in found]
    # taking the larger of two errors makes z-scores a little small
    assert 0.3 < np.var(scores) < 1.8
    assert abs(np.mean(scores)) < 5 / np.sqrt(40)


def test_chains_that_cannot_meet_do_not_look_sure():
    """Two bits that must agree: Gibbs never leaves its start, and the verdict says so."""
    islands = [(("x", "y"), np.array([[0.0, -np.inf], [-np.inf, 0.0]]))]
    found = factor_gibbs(islands, key=jr.key(5), num_chains=8)
    assert (np.asarray(found.states("x")) == np.asarray(found.states("x"))[:, :1]).all()
    assert float(found.prob(x=1).standard_error) > 0.1
    assert found.verdict.sentence.startswith("Do not trust these numbers")


def test_positions_as_dicts_or_vectors_make_the_same_chain():
    sampler = FactorGibbs(SPRINKLER, EVIDENCE)
    start = {"cloudy": 1, "rain": 1}

    @eqx.filter_jit
    def go(start, key):
        key_init, key_run = jr.split(key)
        state = sampler.init(sampler.log_density, start, key_init)

        def step(state, key):
            state, info = sampler.step(sampler.log_density, state, key)
            return state, (state, info)

        return run(step, state, jr.split(key_run, 50)).trace

    named, info = go(start, jr.key(0))
    plain, _ = go(jnp.array([1, 1]), jr.key(0))
    np.testing.assert_array_equal(np.stack(list(named.position.values()), 1), plain.position)
    exact = jax.vmap(sampler.log_density)(plain.position)
    np.testing.assert_allclose(plain.log_density, exact, rtol=1e-12)
    assert (np.asarray(info.acceptance) == 1).all()
    assert not np.asarray(info.undefined).any()


def test_an_impossible_state_is_reported():
    sampler = FactorGibbs([(("x", "y", "z"), np.where(np.arange(8).reshape(2, 2, 2) == 7, 0.0, -np.inf))])

    @jax.jit
    def go(start, key):
        state = sampler.init(sampler.log_density, start, key)
        return sampler.step(sampler.log_density, state, jr.key(1))

    state, info = go(jnp.array([0, 0, 0]), jr.key(0))
    assert bool(info.undefined)
    np.testing.assert_array_equal(state.position, [0, 0, 0])
    with pytest.raises(ValueError, match=r"`start` must be possible under the factors; got probability zero"):
        sampler.init(sampler.log_density, {"x": 0, "y": 0, "z": 0}, jr.key(0))


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`factors` must be at least one factor; got none"):
        FactorGibbs([])
    with pytest.raises(TypeError, match=r"`factors\[1\]` must be a `Table`, a probability table, or a pair"):
        FactorGibbs([SPRINKLER[0], 3.0])
    with pytest.raises(ValueError, match=r"`factors\[0\]` must be finite, or -inf .*; got nan"):
        FactorGibbs([(("x",), [0.0, np.nan])])
    with pytest.raises(ValueError, match=r"`variable` must be one of cloudy, .*; got 'snow'"):
        FactorGibbs(SPRINKLER, {"snow": 1})
    with pytest.raises(ValueError, match=r"`wet` must be one of its states \(0, 1\); got 2"):
        FactorGibbs(SPRINKLER, {"wet": 2})
    with pytest.raises(ValueError, match=r"`evidence` must be met by a state of 'wet'; got none"):
        FactorGibbs(SPRINKLER, {"wet": lambda state: state > 1})
    with pytest.raises(ValueError, match=r"`evidence` must be silent about at least one variable"):
        FactorGibbs(SPRINKLER[:1], {"cloudy": 1})
    sampler = FactorGibbs(SPRINKLER, EVIDENCE)
    with pytest.raises(ValueError, match=r"`name` must be among the free variables .*; got 'wet'"):
        sampler.conditional("wet", {"cloudy": 0, "rain": 0})
    with pytest.raises(ValueError, match=r"`rain` must be a place from 0 to 1 among its states; got 2"):
        sampler.init(sampler.log_density, {"cloudy": 0, "rain": 2}, jr.key(0))
    with pytest.raises(ValueError, match=r"`start` must be a place among its states for each of"):
        sampler.init(sampler.log_density, {"cloudy": 0}, jr.key(0))
    with pytest.raises(ValueError, match=r"`start` must be a dict, or a vector of 2 places"):
        sampler.init(sampler.log_density, np.zeros(3, int), jr.key(0))
    contradiction = [(("x",), [0.0, -np.inf]), (("x",), [-np.inf, 0.0])]
    with pytest.raises(
        ValueError, match=r"`start` must be possible at one of the tries; got probability zero"
    ):
        factor_gibbs(contradiction, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`x` must be a variable with the same states in both tables"):
        FactorGibbs([(("x",), [0.0, 0.0]), (("x",), [0.0, 0.0, 0.0])])


def assert_joint(num_chains, num_sweeps, seed):
    """Geweke: chains that start from exact draws of the joint must still be draws of it after sweeps."""
    sampler = FactorGibbs(SPRINKLER)
    key_start, key_run = jr.split(jr.key(seed))
    drawn = ancestral(SPRINKLER, key=key_start, num_draws=num_chains)
    starts = jnp.stack([drawn[name] for name in sampler.free], 1)

    @jax.jit
    def go(starts, key):
        key_init, key_run = jr.split(key)
        init = jax.vmap(lambda start, key: sampler.init(sampler.log_density, start, key))
        step = jax.vmap(lambda s, k: sampler.step(sampler.log_density, s, k))
        state = init(starts, jr.split(key_init, num_chains))
        return run(step, state, jr.split(key_run, (num_sweeps, num_chains))).state.position

    ends = np.asarray(go(starts, key_run))
    cells = np.zeros((2,) * 4)
    np.add.at(cells, tuple(ends.T), 1)
    exact = np.asarray(product(SPRINKLER).marginal(sampler.free).probs)
    possible = exact > 0
    assert cells[~possible].sum() == 0
    scores = (cells - num_chains * exact)[possible] / np.sqrt(num_chains * (exact * (1 - exact))[possible])
    return np.abs(scores).max()


def test_exact_draws_stay_exact():
    assert assert_joint(20_000, 3, 0) < 5


@pytest.mark.slow
def test_exact_draws_stay_exact_long():
    assert assert_joint(100_000, 10, 1) < 5
