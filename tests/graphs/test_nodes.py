"""Kinds of nodes: noisy-or by its definition, functions as tables, Gaussian nodes and their checks."""

import itertools
import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.hybrid_network import HybridNetwork
from tractable.graphs.nodes import CallableNode, GaussianNode, deterministic, noisy_or
from tractable.inference.gibbs.noisy_or import NoisyOrNetwork

Z = ConditionalTable("z", (), [0.3, 0.7], [("low", "high")])
X = GaussianNode("x", bias=[-1.0, 2.0], variance=[1.0, 4.0], given="z")
Y = GaussianNode("y", ["x"], [[0.5], [-1.0]], bias=[0.0, 1.0], variance=[0.25, 1.0], given="z")
W = ConditionalTable("w", "z", [[0.9, 0.1], [0.2, 0.8]], [("low", "high"), ("off", "on")])
NET = HybridNetwork([Y, W, X, Z])


def test_noisy_or_is_the_chance_that_some_cause_succeeds():
    strengths, leak = {"flu": 0.8, "cold": 0.4, "allergy": 0.0}, 0.1
    table = noisy_or("fever", strengths, leak=leak)
    assert table.given == ("flu", "cold", "allergy")
    for present in itertools.product((0, 1), repeat=3):
        absent = (1 - leak) * math.prod(1 - w for w, x in zip(strengths.values(), present) if x)
        np.testing.assert_allclose(table.probs[present], [absent, 1 - absent], rtol=1e-14)


def test_noisy_or_network_has_the_posterior_of_its_enumeration():
    priors, strengths = [0.2, 0.1, 0.3], [[0.8, 0.4, 0.0], [0.0, 0.6, 0.9]]
    tables = [ConditionalTable(f"d{j}", (), [1 - p, p]) for j, p in enumerate(priors)]
    for i, row in enumerate(strengths):
        causes = {f"d{j}": w for j, w in enumerate(row) if w > 0}
        tables.append(noisy_or(f"s{i}", causes, leak=0.05))
    edges = tuple((i, j) for i, row in enumerate(strengths) for j, w in enumerate(row) if w > 0)
    flat = [strengths[i][j] for i, j in edges]
    network = NoisyOrNetwork(jnp.array(priors), jnp.array([0.05, 0.05]), jnp.array(flat), edges)
    exact, log_evidence = network.exact_posterior([1, 0])
    found = BayesNet(tables).marginals({"s0": 1, "s1": 0})
    np.testing.assert_allclose([found[f"d{j}"][1] for j in range(3)], exact, rtol=1e-12)
    assert math.isclose(found.log_evidence, float(log_evidence), rel_tol=1e-12)


def test_noisy_or_refuses_what_is_no_probability_and_too_many_causes():
    with pytest.raises(ValueError, match=r"`flu` must be a probability; got 1.5"):
        noisy_or("fever", {"flu": 1.5})
    with pytest.raises(ValueError, match=r"`leak` must be a probability; got -0.1"):
        noisy_or("fever", {"flu": 0.5}, leak=-0.1)
    with pytest.raises(ValueError, match="`causes` must be at most 20; got 21"):
        noisy_or("fever", {f"c{i}": 0.1 for i in range(21)})


def test_a_function_of_states_is_a_table():
    table = deterministic("sum", {"a": [0, 1], "b": [1, 2]}, lambda a, b: a + b, [1, 2, 3])
    np.testing.assert_array_equal(table.probs, [[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]]])
    with pytest.raises(ValueError, match=r"one of the states \(1, 2\); got 3 at \[1, 2\]"):
        deterministic("sum", {"a": [0, 1], "b": [1, 2]}, lambda a, b: a + b, [1, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance": 0.0}, "`variance` must be positive; got 0.0"),
        ({"variance": np.nan}, "`variance` must be finite"),
        ({"variance": 1.0, "parents": ["x"]}, "`weights` must be given for parents"),
        ({"variance": 1.0, "parents": ["x"], "weights": [1.0, 2.0]}, r"`weights` must be of shape \(1,\)"),
        ({"variance": 1.0, "parents": ["y"], "weights": [1.0]}, "distinct, and without itself"),
        ({"variance": 1.0, "given": "z"}, r"`variance` must be one axis per discrete parent \('z',\)"),
        ({"variance": [1.0, 1.0], "given": "z"}, r"`bias` must be of the shape of `variance`"),
    ],
)
def test_gaussian_nodes_check_their_numbers(options, message):
    with pytest.raises(ValueError, match=message):
        GaussianNode("y", **options)


def density(z, x, y):
    """p(z, x, y) from the definition; z is a place."""
    p = [0.3, 0.7][z] * scipy.stats.norm.pdf(x, [-1.0, 2.0][z], [1.0, 2.0][z])
    return p * scipy.stats.norm.pdf(y, [0.0, 1.0][z] + [0.5, -1.0][z] * x, [0.5, 1.0][z])


def test_log_prob_of_mixed_nodes():
    for z, state in enumerate(("low", "high")):
        value = NET.log_prob({"z": state, "x": 0.4, "y": -0.2, "w": "on"})
        assert math.isclose(value, math.log(density(z, 0.4, -0.2) * [0.1, 0.8][z]), rel_tol=1e-12)


def test_continuous_evidence_speaks_of_discrete_variables():
    both = [density(z, 0.4, -0.2) for z in range(2)]
    found = NET.query("z", {"x": 0.4, "y": -0.2})
    np.testing.assert_allclose(found.probs, np.array(both) / sum(both), rtol=1e-10)
    assert math.isclose(NET.log_evidence({"x": 0.4, "y": -0.2}), math.log(sum(both)), rel_tol=1e-10)
    with_w = np.array(both) * [0.1, 0.8]
    found = NET.query(["w", "z"], {"x": 0.4, "y": -0.2, "w": "on"})
    np.testing.assert_allclose(found.probs, [[0, 0], with_w / with_w.sum()], rtol=1e-10)


def test_hidden_continuous_variables_are_integrated_out():
    grid = np.linspace(-30, 30, 20_001)
    exact = np.array([np.trapezoid(density(z, grid, -0.2), grid) for z in range(2)])
    np.testing.assert_allclose(NET.query("z", {"y": -0.2}).probs, exact / exact.sum(), rtol=1e-8)
    assert math.isclose(NET.log_evidence({"y": -0.2}), math.log(exact.sum()), rel_tol=1e-8)
    mixture = NET.density("x", {"y": -0.2, "w": "on"})
    shares = sum(np.array([0.1, 0.8])[z] * density(z, grid, -0.2) for z in range(2))
    shares = shares / np.trapezoid(shares, grid)
    for place in (9000, 10_100, 10_900):
        assert math.isclose(float(jnp.exp(mixture.log_prob(grid[place]))), shares[place], rel_tol=1e-7)
    assert math.isclose(float(NET.density("x").mean), 0.3 * -1.0 + 0.7 * 2.0, rel_tol=1e-12)


def test_mixed_draws_have_the_right_moments():
    frame, count = NET.sample(jr.key(0), 40_000), 40_000
    assert set(frame["z"]) == {"low", "high"}
    assert abs((frame["w"] == "on").mean() - (0.3 * 0.1 + 0.7 * 0.8)) < 5 * math.sqrt(0.25 / count)
    mean = {"x": 1.1, "y": 0.3 * -0.5 + 0.7 * -1.0}
    for name, value in mean.items():
        assert abs(frame[name].mean() - value) < 5 * frame[name].std() / math.sqrt(count)
    high = frame[frame["z"] == "high"]
    residual = high["y"] - (1.0 - high["x"])
    assert abs(residual.var() - 1.0) < 5 * math.sqrt(2 / len(high))


def test_functions_are_drawn_and_evaluated():
    def draw(key, z, x):
        return x * jnp.where(z == 1, 2.0, 1.0) + jr.exponential(key)

    def log_prob(value, z, x):
        return -(value - x * jnp.where(z == 1, 2.0, 1.0))

    net = HybridNetwork([Z, X, CallableNode("t", ["z", "x"], draw, log_prob)])
    frame = net.sample(jr.key(3), 20_000)
    rest = frame["t"] - frame["x"] * np.where(frame["z"] == "high", 2.0, 1.0)
    assert (rest > 0).all()
    assert abs(rest.mean() - 1) < 5 / math.sqrt(20_000)
    value = net.log_prob({"z": "high", "x": 1.0, "t": 2.5})
    assert math.isclose(value, math.log(0.7) + scipy.stats.norm.logpdf(1.0, 2.0, 2.0) - 0.5, rel_tol=1e-12)
    with pytest.raises(ValueError, match=r"`t` must be a Gaussian node.*not conditioned on"):
        net.query("z", {"t": 1.0})
    silent = HybridNetwork([Z, CallableNode("t", "z", draw)])
    with pytest.raises(ValueError, match="`node 't'` must be given with a `log_prob`"):
        silent.log_prob({"z": "low", "t": 1.0})


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([], ValueError, "at least one node"),
        ([X], ValueError, "at least one table among them.*Use `GaussianNetwork`"),
        ([Z, Z], ValueError, "two nodes for 'z'"),
        ([Z, 3], TypeError, "tables, Gaussian nodes or functions; got int"),
        ([Z, GaussianNode("y", ["z"], [1.0], variance=1.0)], ValueError, "no tables.*Name them in `given`"),
        ([Z, GaussianNode("y", ["q"], [1.0], variance=1.0)], ValueError, r"among the nodes .*\['q'\]"),
        (
            [Z, GaussianNode("y", bias=[0.0] * 3, variance=[1.0] * 3, given="z")],
            ValueError,
            r"`variance of 'y'` must be of shape \(2,\)",
        ),
        ([JointTable(["a", "b"], np.full((2, 2), 0.25))], ValueError, "tables of one target each"),
    ],
)
def test_bad_mixed_networks_are_refused(nodes, error, message):
    with pytest.raises(error, match=message):
        HybridNetwork(nodes)


def test_mixed_queries_name_what_is_unknown():
    with pytest.raises(ValueError, match=r"`evidence` must be about variables among .*\['q'\]"):
        NET.query("z", {"q": 1.0})
    with pytest.raises(ValueError, match="`name` must be a variable that was not observed"):
        NET.density("x", {"x": 1.0})
    with pytest.raises(ValueError, match="complete: a value for each variable"):
        NET.log_prob({"z": "low"})
