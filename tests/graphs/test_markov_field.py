"""Markov fields against enumeration, and the Markov properties in numbers."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.random_graphs import dependence, enumerate_joint
from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.graphs.ising import grid_edges, ising_field
from tractable.graphs.markov_field import MarkovField
from tractable.graphs.undirected import UndirectedGraph
from tractable.messages.junction import TooLarge

SQUARE = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}
STATES = {name: tuple(f"{name}{i}" for i in range(size)) for name, size in SIZES.items()}


def _random_field(seed, scopes=SQUARE, zeros=False):
    rng = np.random.default_rng(seed)
    tables = [rng.uniform(0.2, 2.0, [SIZES[n] for n in scope]) for scope in scopes]
    if zeros:
        tables[0][0, 1] = tables[1][2, 0] = 0.0
    with np.errstate(divide="ignore"):
        logs = [np.log(t) for t in tables]
    return MarkovField(list(zip(scopes, logs)), STATES), tables


def _joint(tables, scopes=SQUARE):
    return enumerate_joint(list(SIZES), SIZES, scopes, tables)


@pytest.mark.parametrize("zeros", [False, True])
def test_every_query_equals_enumeration(zeros):
    field, tables = _random_field(0, zeros=zeros)
    joint = _joint(tables)
    total = joint.sum()
    np.testing.assert_allclose(field.log_partition(), np.log(total), rtol=1e-13)
    np.testing.assert_allclose(field.joint().probs, joint / total, rtol=1e-12)
    np.testing.assert_allclose(field.query(["d", "b"]).probs, joint.sum((0, 2)).T / total, rtol=1e-12)
    seen = joint[:, 2]
    np.testing.assert_allclose(field.log_partition({"b": "b2"}), np.log(seen.sum()), rtol=1e-13)
    np.testing.assert_allclose(field.log_evidence({"b": "b2"}), np.log(seen.sum() / total), rtol=1e-12)
    found = field.marginals({"b": "b2"})
    np.testing.assert_allclose(list(found["c"].values()), seen.sum((0, 2)) / seen.sum(), rtol=1e-12)
    assert found["b"] == {"b0": 0.0, "b1": 0.0, "b2": 1.0}
    best, value = field.mpe({"b": "b2"})
    index = np.unravel_index(seen.argmax(), seen.shape)
    assert best == {"a": f"a{index[0]}", "b": "b2", "c": f"c{index[1]}", "d": f"d{index[2]}"}
    np.testing.assert_allclose(value, np.log(seen.max() / total), rtol=1e-12)
    likelihood = np.array([0.2, 0.5, 0.3])
    soft = joint * likelihood[None, :, None, None]
    got = list(field.marginals({"b": likelihood})["d"].values())
    np.testing.assert_allclose(got, soft.sum((0, 1, 2)) / soft.sum(), rtol=1e-12)


def test_energy_weight_and_probability_of_each_state():
    field, tables = _random_field(1)
    joint = _joint(tables)
    states = np.array(list(np.ndindex(joint.shape)))
    energies = jax.jit(jax.vmap(field.energy))(jnp.asarray(states))
    np.testing.assert_allclose(np.exp(-energies), joint.reshape(-1), rtol=1e-12)
    named = {"a": "a1", "b": "b2", "c": "c0", "d": "d1"}
    np.testing.assert_allclose(field.log_prob(named), np.log(joint[1, 2, 0, 1] / joint.sum()), rtol=1e-12)
    assert states[np.argmin(energies)].tolist() == list(np.unravel_index(joint.argmax(), joint.shape))


def test_boltzmann_form_and_temperature():
    energy = np.array([[0.0, 1.0], [2.0, 0.5]])
    field = MarkovField.from_energies([(("a", "b"), energy)], temperature=2.0)
    weights = np.exp(-energy / 2)
    np.testing.assert_allclose(field.joint().probs, weights / weights.sum(), rtol=1e-13)
    with pytest.raises(ValueError, match="`temperature` must be positive"):
        MarkovField.from_energies([(("a", "b"), energy)], temperature=0.0)


def test_conditionals_come_from_touching_factors():
    field, tables = _random_field(2)
    joint = _joint(tables)
    for index in itertools.product(*(range(s) for s in (2, 2, 2))):
        a, c, d = index
        expected = joint[a, :, c, d] / joint[a, :, c, d].sum()
        rest = {"a": f"a{a}", "c": f"c{c}"}  # the neighbours of b: nothing is asked of d
        np.testing.assert_allclose(field.conditional("b", rest).probs, expected, rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"`rest` must be a state for each neighbour of 'b'; got none for \['c'\]"
    ):
        field.conditional("b", {"a": "a0"})


def test_separation_pairwise_property_and_blanket_in_numbers():
    field, tables = _random_field(3)
    joint, names = _joint(tables) / _joint(tables).sum(), list(SIZES)
    assert field.separated("a", "c", ["b", "d"])
    assert dependence(joint, names, "a", "c", ("b", "d")) < 1e-15
    assert not field.separated("a", "c", ["b"])
    assert dependence(joint, names, "a", "c", ("b",)) > 1e-5
    assert field.markov_blanket("a") == {"b", "d"}
    for x, y in itertools.combinations(names, 2):
        rest = tuple(n for n in names if n not in (x, y))
        independent = dependence(joint, names, x, y, rest) < 1e-15
        assert independent is (not field.graph.adjacent(x, y))


def test_gradient_of_log_partition_is_the_marginal():
    field, tables = _random_field(4)
    joint = _joint(tables)

    def log_partition(logs):
        return MarkovField(list(zip(SQUARE, logs)), STATES).log_partition()

    logs = [jnp.log(t) for t in tables]
    value, slopes = jax.jit(jax.value_and_grad(log_partition))(logs)
    np.testing.assert_allclose(value, field.log_partition(), rtol=1e-13)
    np.testing.assert_allclose(slopes[0], joint.sum((2, 3)) / joint.sum(), rtol=1e-12)


def test_a_network_is_a_field_with_unit_partition_function():
    rain = ConditionalTable("rain", (), [0.8, 0.2], {"rain": ["no", "yes"]})
    wet = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]], {"rain": ["no", "yes"]})
    field = MarkovField([rain, wet])
    np.testing.assert_allclose(field.log_partition(), 0.0, atol=1e-14)
    np.testing.assert_allclose(field.marginals({"wet": 1})["rain"]["yes"], 2 / 3, rtol=1e-13)


def test_one_potential_per_maximal_clique():
    graph = UndirectedGraph.from_edges([("x1", "x2"), ("x1", "x3"), ("x2", "x3"), ("x3", "x4")])
    field = MarkovField.from_graph(graph, lambda clique: np.full((2,) * len(clique), float(len(clique))))
    assert field.scopes == (("x1", "x2", "x3"), ("x3", "x4"))
    np.testing.assert_allclose(field.log_partition(), np.log(16) + 5, rtol=1e-13)


def test_pruning_by_blocking_evidence_changes_nothing():
    field = ising_field(grid_edges(3, 4), 0.3, coupling=0.4)
    wall = {"x0_1": 1, "x1_1": -1, "x2_1": 1}
    inside = field.pruned("x1_0", wall)
    assert set(inside.names) == {"x0_0", "x1_0", "x2_0"}
    whole = field.query(["x0_0", "x1_0"], wall)
    np.testing.assert_allclose(inside.query(["x0_0", "x1_0"]).probs, whole.probs, rtol=1e-12)
    assert inside.mpe()[0] == {k: v for k, v in field.mpe(wall)[0].items() if k in inside.names}
    part = field.condition(wall)
    np.testing.assert_allclose(part.log_partition(), field.log_partition(wall), rtol=1e-13)


def test_draws_follow_the_field():
    field, tables = _random_field(5, zeros=True)
    joint = _joint(tables)
    frame = field.sample(jr.key(0), 4000, {"c": "c1"})
    assert set(frame["c"]) == {"c1"}
    expected = joint[:, :, 1].sum((1, 2)) / joint[:, :, 1].sum()
    share = (frame["a"] == "a1").mean()
    assert abs(share - expected[1]) < 5 * np.sqrt(expected[1] * expected[0] / 4000)


def test_gibbs_mean_field_and_loopy_beside_the_exact_answer():
    field, tables = _random_field(6)
    joint = _joint(tables)
    exact = joint[:, :, 1].sum((1, 2)) / joint[:, :, 1].sum()
    draws = field.gibbs(jr.key(1), {"c": "c1"}, num_sweeps=1000)
    estimate = draws.prob(a="a1")
    assert abs(estimate.value - exact[1]) < 5 * estimate.standard_error
    run = field.mean_field({"c": "c1"})
    assert run.elbo <= float(field.log_partition({"c": "c1"}))
    assert float(field.log_partition({"c": "c1"})) - run.elbo < 0.2
    assert len(run.state) == 3
    beliefs = field.loopy({"c": "c1"})  # what is left is a chain: exact
    np.testing.assert_allclose(beliefs.marginal("a").probs, exact, atol=1e-8)
    by_loops = field.marginals({"c": "c1"}, method="loopy")
    np.testing.assert_allclose(list(by_loops["a"].values()), exact, atol=1e-6)
    assert by_loops.exact is False


def test_what_does_not_fit_is_refused_with_alternatives():
    wide = ising_field(grid_edges(28, 28), coupling=0.1)
    with pytest.raises(
        TooLarge, match=r"`budget` must be at least .* ask `marginals` or `query` with method"
    ):
        wide.log_partition()
    assert wide.cost().treewidth >= 28


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_random_fields_with_zeros(seed):
    rng = np.random.default_rng(seed)
    names = list(SIZES)
    scopes = [tuple(rng.choice(names, size=rng.integers(1, 4), replace=False).tolist()) for _ in range(4)]
    tables = [
        rng.uniform(0, 1, [SIZES[n] for n in s]) * (rng.uniform(size=[SIZES[n] for n in s]) < 0.8)
        for s in scopes
    ]
    with np.errstate(divide="ignore"):
        field = MarkovField([(s, np.log(t)) for s, t in zip(scopes, tables)], STATES)
        joint = enumerate_joint(names, SIZES, scopes, tables)
        assert field.names == tuple(names)
        np.testing.assert_allclose(field.log_partition(), np.log(joint.sum()), rtol=1e-12)
    if joint.sum() > 0:
        got = field.query(names).probs
        np.testing.assert_allclose(got, joint / joint.sum(), rtol=1e-10, atol=1e-15)


def test_impossible_states_and_evidence():
    field = MarkovField([(("a", "b"), np.log([[1.0, 1.0], [1e-300, 1e-300]]))])
    hard = MarkovField([(("a", "b"), np.array([[0.0, -np.inf], [-np.inf, -np.inf]]))])
    assert field.is_positive
    assert not hard.is_positive
    assert float(hard.log_partition({"a": 1})) == -np.inf
    assert float(hard.log_weight({"a": 1, "b": 0})) == -np.inf
    with pytest.raises(ImpossibleEvidence, match="a=1"):
        hard.marginals({"a": 1})
    with pytest.raises(ImpossibleEvidence, match="Z = 0"):
        MarkovField([("a", np.full(2, -np.inf))]).joint()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`factors` must be at least one factor"):
        MarkovField([])
    with pytest.raises(ValueError, match="-inf for an impossible state; got nan"):
        MarkovField([("a", np.array([0.0, np.nan]))])
    with pytest.raises(ValueError, match="`a` must be a variable with 2 states in every factor; got 3"):
        MarkovField([("a", np.zeros(2)), (("a", "b"), np.zeros((3, 2)))])
    with pytest.raises(ValueError, match=r"with the states \('x', 'y'\) in every factor"):
        MarkovField([JointTable("a", [0.5, 0.5], [["x", "y"]]), JointTable("a", [0.5, 0.5], [["u", "v"]])])
    field = MarkovField([(("a", "b"), np.zeros((2, 2)))])
    with pytest.raises(ValueError, match="`assignment` must be a state for each of"):
        field.log_weight({"a": 0})
    with pytest.raises(ValueError, match="`a` must be one of its states"):
        field.log_weight({"a": 7, "b": 0})
    with pytest.raises(ValueError, match="silent about at least one"):
        field.condition({"a": 0, "b": 0})
    assert MarkovField([], {"a": ["x", "y"]}).marginals() == {"a": {"x": 0.5, "y": 0.5}}
