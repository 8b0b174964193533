"""Linear-Gaussian networks against the dense algebra of their structural equations."""

import math

import jax
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from tractable.graphs.gaussian_network import GaussianNetwork
from tractable.graphs.nodes import GaussianNode

NODES = [
    GaussianNode("d", ["b", "c"], [0.5, -1.0], bias=0.3, variance=0.4),
    GaussianNode("b", ["a"], [2.0], bias=-1.0, variance=0.5),
    GaussianNode("c", ["a"], [-0.7], variance=1.5),
    GaussianNode("a", bias=1.0, variance=2.0),
]
NET = GaussianNetwork(NODES)


def dense():
    """Mean and covariance in the order a, b, c, d from x = W x + b + e, by a general inverse."""
    W = np.array([[0, 0, 0, 0], [2.0, 0, 0, 0], [-0.7, 0, 0, 0], [0, 0.5, -1.0, 0]])
    A = np.linalg.inv(np.eye(4) - W)
    return A @ np.array([1.0, -1.0, 0.0, 0.3]), A @ np.diag([2.0, 0.5, 1.5, 0.4]) @ A.T


def conditioned(wanted, known, values):
    mean, cov = dense()
    gain = cov[np.ix_(wanted, known)] @ np.linalg.inv(cov[np.ix_(known, known)])
    return mean[wanted] + gain @ (values - mean[known]), cov[np.ix_(wanted, wanted)] - gain @ cov[
        np.ix_(known, wanted)
    ]


def test_the_joint_solves_the_structural_equations():
    mean, cov = dense()
    found = NET.query(["a", "b", "c", "d"])
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-12)
    order = ["abcd".index(name) for name in NET.names]
    np.testing.assert_allclose(NET.joint.cov, cov[np.ix_(order, order)], rtol=1e-12)


def test_queries_equal_dense_conditioning():
    mean, cov = conditioned([2, 0], [1, 3], np.array([0.5, 2.0]))
    found = NET.query(["c", "a"], {"b": 0.5, "d": 2.0})
    np.testing.assert_allclose(found.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-10)


def test_densities_equal_products_of_conditionals():
    x = {"a": 0.2, "b": -0.4, "c": 1.0, "d": 0.7}
    terms = [
        (x["a"], 1.0, 2.0),
        (x["b"], 2 * 0.2 - 1, 0.5),
        (x["c"], -0.7 * 0.2, 1.5),
        (x["d"], 0.5 * -0.4 - 1.0 + 0.3, 0.4),
    ]
    exact = sum(scipy.stats.norm.logpdf(value, mean, math.sqrt(v)) for value, mean, v in terms)
    assert math.isclose(float(NET.log_prob(x)), exact, rel_tol=1e-12)
    mean, cov = dense()
    assert math.isclose(
        float(NET.log_evidence({"d": 0.7})),
        scipy.stats.norm.logpdf(0.7, mean[3], math.sqrt(cov[3, 3])),
        rel_tol=1e-12,
    )


def test_graph_separation_is_zero_partial_covariance():
    given = NET.query(["b", "c"], {"a": 1.3})
    assert NET.dag.d_separated("b", "c", given="a")
    assert abs(float(given.cov[0, 1])) < 1e-12
    opened = NET.query(["b", "c"], {"a": 1.3, "d": 0.0})
    assert not NET.dag.d_separated("b", "c", given=["a", "d"])
    assert abs(float(opened.cov[0, 1])) > 0.1


def test_intervention_is_not_conditioning():
    done = NET.do({"b": 1.0})
    assert set(done.names) == {"a", "c", "d"}
    found = done.query(["a", "d"])
    # a keeps its law; d = 0.5 - c + 0.3 + e with c = -0.7 a + e_c
    np.testing.assert_allclose(found.mean, [1.0, 0.5 + 0.7 + 0.3], rtol=1e-12)
    np.testing.assert_allclose(found.cov, [[2.0, 1.4], [1.4, 0.49 * 2 + 1.5 + 0.4]], rtol=1e-12)
    assert abs(float(NET.query("a", {"b": 1.0}).mean[0]) - 1.0) < 1e-12  # b = 1 is what its mean already was
    assert float(NET.query("a", {"b": 1.0}).cov[0, 0]) < 2.0


def test_draws_have_the_moments_of_the_posterior():
    frame, count = NET.sample(jr.key(0), 20_000, {"d": 2.0}), 20_000
    mean, cov = conditioned([0, 1, 2], [3], np.array([2.0]))
    assert (frame["d"] == 2.0).all()
    for i, name in enumerate("abc"):
        assert abs(frame[name].mean() - mean[i]) < 5 * math.sqrt(cov[i, i] / count)
        assert abs(frame[name].var() - cov[i, i]) < 5 * cov[i, i] * math.sqrt(2 / count)


def test_gradients_flow_through_queries():
    def posterior_mean(weight):
        b = GaussianNode("b", ["a"], weight[None], variance=1.0)
        return GaussianNetwork([GaussianNode("a", variance=1.0), b]).query("a", {"b": 1.0}).mean[0]

    # E[a | b = 1] = w / (1 + w^2)
    slope = jax.grad(posterior_mean)(jax.numpy.asarray(2.0))
    assert math.isclose(float(slope), (1 - 4) / 25, rel_tol=1e-10)


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([], ValueError, "at least one node"),
        ([NODES[3], NODES[3]], ValueError, "two nodes for 'a'"),
        ([NODES[1]], ValueError, r"`parents of 'b'` must be among the nodes .*\['a'\]"),
        ([3], TypeError, "Gaussian nodes; got int"),
        ([GaussianNode("x", bias=[0.0], variance=[1.0], given="z")], ValueError, "without discrete parents"),
    ],
)
def test_bad_networks_are_refused(nodes, error, message):
    with pytest.raises(error, match=message):
        GaussianNetwork(nodes)


def test_queries_check_their_names():
    with pytest.raises(ValueError, match=r"`names` must be among .*; got \['q'\]"):
        NET.query("q")
    with pytest.raises(ValueError, match="without the variables of the evidence"):
        NET.query(["a", "b"], {"b": 1.0})
    with pytest.raises(ValueError, match="complete: a value for each variable"):
        NET.log_prob({"a": 1.0})
    with pytest.raises(ValueError, match="silent about at least one variable"):
        NET.sample(jr.key(0), 3, dict.fromkeys("abcd", 0.0))
