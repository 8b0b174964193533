"""Tables from complete rows: counts, priors, posterior draws and regressions; errors that name the gap."""

import itertools

import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.oracles import networks
from tractable.distributions.estimates import compare_estimates
from tractable.graphs.dag import DAG
from tractable.graphs.learning import DirichletPrior, fit_network, network_posterior
from tractable.graphs.learning_gaussian import fit_gaussian_network, fit_gaussian_node, fit_linear_gaussian
from tractable.graphs.scores import score_structure

COLLIDER = {"x1": [], "x2": [], "x3": ["x1", "x2"]}


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(2)
    x1, x2 = generator.integers(0, 2, 200), generator.integers(0, 2, 200)
    theta = np.array([[0.1, 0.5], [0.6, 0.9]])
    return pd.DataFrame({"x1": x1, "x2": x2, "x3": (generator.random(200) < theta[x1, x2]).astype(int)})


def test_collider_tables_are_ratios_of_counts(frame):
    net = fit_network(frame, COLLIDER)
    for i, j in itertools.product((0, 1), repeat=2):
        chosen = frame[(frame.x1 == i) & (frame.x2 == j)]
        theta = (chosen.x3 == 1).sum() / len(chosen)
        assert float(net.tables["x3"].probs[i, j, 1]) == pytest.approx(theta, rel=1e-14)
    assert float(net.tables["x1"].probs[1]) == pytest.approx(frame.x1.mean(), rel=1e-14)
    assert net.names == ("x1", "x2", "x3")
    assert net.states["x3"] == (0, 1)


def test_no_other_tables_have_a_higher_likelihood(frame):
    net = fit_network(frame, COLLIDER)
    generator = np.random.default_rng(0)

    def log_likelihood(tables):
        cells = [frame[[*COLLIDER[n], n]].to_numpy() for n in COLLIDER]
        return sum(np.log(tables[n][tuple(c.T)]).sum() for n, c in zip(COLLIDER, cells))

    best = {name: np.asarray(net.tables[name].probs) for name in COLLIDER}
    top = log_likelihood(best)
    assert top == pytest.approx(score_structure(frame, COLLIDER, "log_likelihood"), rel=1e-12)
    for _ in range(20):
        moved = {n: t * np.exp(0.05 * generator.normal(size=t.shape)) for n, t in best.items()}
        assert log_likelihood({n: t / t.sum(-1, keepdims=True) for n, t in moved.items()}) < top


def test_arrays_are_welcome(frame):
    array = fit_network(frame.to_numpy(), {"x0": [], "x1": [], "x2": ["x0", "x1"]})
    whole = fit_network(frame, DAG(COLLIDER))
    np.testing.assert_array_equal(array.tables["x2"].probs, whole.tables["x3"].probs)


def test_unseen_states_and_labels():
    frame = pd.DataFrame({"sky": ["sun", "rain", "sun"], "mood": ["good", "bad", "good"]})
    states = {"sky": ["sun", "rain", "snow"], "mood": ["bad", "good"]}
    with pytest.raises(
        ValueError, match=r"`rows for 'mood'` must be some for each joint state .* sky='snow'"
    ):
        fit_network(frame, {"mood": ["sky"]}, states=states)
    net = fit_network(frame, {"mood": ["sky"]}, prior=1.0, states=states)
    np.testing.assert_allclose(net.tables["sky"].probs, [3 / 6, 2 / 6, 1 / 6])
    np.testing.assert_allclose(net.tables["mood"].probs, [[1 / 4, 3 / 4], [2 / 3, 1 / 3], [1 / 2, 1 / 2]])
    assert net.states["sky"] == ("sun", "rain", "snow")


def test_priors_equal_the_estimates_of_each_row(frame):
    counts = np.zeros((2, 2, 2))
    for row in frame.to_numpy():
        counts[tuple(row)] += 1
    for name, point, size in [("uniform", "mean", 2.5), ("uniform", "mode", 2.5), ("bdeu", "mean", 12.0)]:
        prior = getattr(DirichletPrior, name)(size, point=point)
        table = np.asarray(fit_network(frame, COLLIDER, prior).tables["x3"].probs)
        alpha = size if name == "uniform" else size / 8
        for i, j in itertools.product((0, 1), repeat=2):
            known = compare_estimates(counts[i, j], np.full(2, alpha))
            np.testing.assert_allclose(
                table[i, j], (known.bayes if point == "mean" else known.map)[0], rtol=1e-12
            )
    own = DirichletPrior.of({"x1": 1.0, "x2": [3.0, 1.0], "x3": np.full((2, 2, 2), 0.5)})
    net = fit_network(frame, COLLIDER, own)
    ones = frame.x2.sum()
    assert float(net.tables["x2"].probs[1]) == pytest.approx((ones + 1) / (200 + 4), rel=1e-13)
    np.testing.assert_allclose(
        net.tables["x3"].probs, (counts + 0.5) / (counts.sum(-1, keepdims=True) + 1), rtol=1e-13
    )
    for short, long in (("bdeu", DirichletPrior.bdeu(10)), ("k2", DirichletPrior.uniform(1))):
        same = (fit_network(frame, COLLIDER, prior).tables["x3"].probs for prior in (short, long))
        np.testing.assert_array_equal(*same)


def test_evidence_of_the_posterior_is_the_score(frame):
    rows = [(dict(zip(frame.columns, map(int, row))), 1.0) for row in frame.to_numpy()]
    states = dict.fromkeys(COLLIDER, (0, 1))
    for kind, prior in (("bdeu", DirichletPrior.bdeu(7.0)), ("k2", "k2")):
        evidence = network_posterior(frame, COLLIDER, prior).log_evidence
        assert evidence == pytest.approx(networks.dag_score(kind, rows, COLLIDER, states, 7.0), rel=1e-12)
        assert evidence == pytest.approx(
            score_structure(frame, COLLIDER, kind, equivalent_sample_size=7.0), rel=1e-12
        )


def test_posterior_predictive_is_the_ratio_of_evidences(frame):
    """P(next row | rows) of the mean network equals evidence with the row over evidence without it."""
    new = pd.DataFrame({"x1": [1], "x2": [0], "x3": [1]})
    before = network_posterior(frame, COLLIDER, 0.7)
    after = network_posterior(pd.concat([frame, new]), COLLIDER, 0.7)
    net = before.mean()
    tables = {name: np.asarray(net.tables[name].probs) for name in net.names}
    predicted = np.log(tables["x1"][1] * tables["x2"][0] * tables["x3"][1, 0, 1])
    assert after.log_evidence - before.log_evidence == pytest.approx(predicted, rel=1e-10)


def test_draws_of_tables_have_the_moments_of_the_posterior(frame):
    posterior = network_posterior(frame[:30], COLLIDER, 1.0)
    draws = posterior.sample_tables(jr.key(3), 4000)["x3"]
    alpha = posterior.concentrations["x3"]
    exact = stats.beta(alpha[..., 1], alpha[..., 0])
    z = (np.asarray(draws[..., 1]).mean(0) - exact.mean()) / (exact.std() / np.sqrt(4000))
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(np.asarray(draws[..., 1]).std(0), exact.std(), rtol=0.1)
    one, two = posterior.sample(jr.key(1)), posterior.sample(jr.key(2))
    assert one.names == posterior.dag.names
    assert np.abs(np.asarray(one.tables["x1"].probs - two.tables["x1"].probs)).max() > 0


def test_fit_recovers_the_tables_as_rows_grow():
    generator = np.random.default_rng(9)
    x1, x2 = generator.integers(0, 2, 100_000), generator.integers(0, 2, 100_000)
    theta = np.array([[0.1, 0.5], [0.6, 0.9]])
    rows = {"x1": x1, "x2": x2, "x3": generator.random(100_000) < theta[x1, x2]}
    fitted = np.asarray(fit_network(rows, COLLIDER).tables["x3"].probs)[..., 1]
    z = (fitted - theta) / np.sqrt(theta * (1 - theta) / 25_000)
    assert np.abs(z).max() < 5


def test_linear_gaussian_is_least_squares():
    generator = np.random.default_rng(5)
    n = 80
    x, z = generator.normal(1000.0, 1.0, n), generator.normal(0.0, 1e-3, n)
    y = 2.0 * x - 500.0 * z + 3.0 + 0.3 * generator.normal(size=n)
    weights = generator.uniform(0.5, 2.0, n)
    fit = fit_linear_gaussian({"x": x, "y": y, "z": z}, "y", ["x", "z"], weights)
    design, root = np.stack([x - 1000.0, 1000 * z, np.ones(n)], axis=1), np.sqrt(weights)
    slopes, *_ = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)
    np.testing.assert_allclose(fit.weights[0], [slopes[0], 1000 * slopes[1]], rtol=1e-9)
    assert float(fit.bias[0]) == pytest.approx(slopes[2] - 1000 * slopes[0], rel=1e-8)
    residual = y - design @ slopes
    assert float(fit.cov[0, 0]) == pytest.approx(weights @ residual**2 / weights.sum(), rel=1e-8)
    root_only = fit_linear_gaussian({"x": x}, "x")
    assert float(root_only.bias[0]) == pytest.approx(x.mean(), rel=1e-14)
    assert float(root_only.cov[0, 0]) == pytest.approx(x.var(), rel=1e-9)
    assert root_only.weights.shape == (1, 0)


def test_gaussian_network_implies_the_covariance_of_the_rows():
    """A complete graph is saturated: the fitted network has the mean and covariance of the data."""
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(300, 3)) @ generator.normal(size=(3, 3)) + [1.0, -2.0, 5.0]
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    fitted = fit_gaussian_network(frame, {"a": [], "b": ["a"], "c": ["a", "b"]})
    np.testing.assert_allclose(fitted.joint.cov, np.cov(rows.T, ddof=0), rtol=1e-10)
    np.testing.assert_allclose(fitted.joint.mean, rows.mean(0), rtol=1e-10)
    dense = stats.multivariate_normal(rows.mean(0), np.cov(rows.T, ddof=0)).logpdf(rows).sum()
    free = stats.norm(rows.mean(0), rows.std(0)).logpdf(rows).sum()
    apart = fit_gaussian_network(frame, {"a": [], "b": [], "c": []})
    np.testing.assert_allclose(apart.joint.cov, np.diag(rows.var(0)), rtol=1e-10, atol=1e-14)
    assert free < dense


def test_a_regression_for_each_case():
    generator = np.random.default_rng(3)
    x, s = generator.normal(size=400), generator.choice(["no", "yes"], 400)
    y = np.where(s == "yes", 2 * x + 1, -x) + generator.normal(size=400) * np.where(s == "yes", 0.1, 0.5)
    weights = generator.uniform(0, 1, 400)
    frame = pd.DataFrame({"x": x, "s": s, "y": y})
    node = fit_gaussian_node(frame, "y", ["x"], ["s"], weights=weights)
    for i, case in enumerate(("no", "yes")):
        chosen = s == case
        slope, bias = np.polyfit(x[chosen], y[chosen], 1, w=np.sqrt(weights[chosen]))
        residual = y[chosen] - slope * x[chosen] - bias
        spread = weights[chosen] @ residual**2 / weights[chosen].sum()
        np.testing.assert_allclose([node.weights[i, 0], node.bias[i]], [slope, bias], rtol=1e-9)
        assert float(node.variance[i]) == pytest.approx(spread, rel=1e-9)
    assert node.given == ("s",)
    with pytest.raises(
        ValueError, match="`rows for 'y'` must be at least 3 for each case; got 0 with s='may'"
    ):
        fit_gaussian_node(frame, "y", ["x"], ["s"], states={"s": ["no", "yes", "may"]})


def test_bad_input_is_named(frame):
    with pytest.raises(ValueError, match="`frame` must be a table with the columns"):
        fit_network(frame[["x1", "x2"]], COLLIDER)
    with pytest.raises(ValueError, match="`x3` must be without missing values; got one in row 1"):
        fit_network({"x1": [0, 1], "x2": [0, 1], "x3": [0.0, np.nan]}, COLLIDER)
    with pytest.raises(ValueError, match="`prior` must be one of 'bdeu', 'k2'"):
        fit_network(frame, COLLIDER, prior="jeffreys")
    with pytest.raises(ValueError, match="`size` must be positive and finite; got -1"):
        fit_network(frame, COLLIDER, prior=-1)
    with pytest.raises(ValueError, match="`prior` must be given for every variable; got none for 'x2'"):
        fit_network(frame, COLLIDER, DirichletPrior.of({"x1": 1.0}))
    with pytest.raises(ValueError, match=r"`prior of 'x1'` must be a number or an array of shape \(2,\)"):
        fit_network(frame, COLLIDER, DirichletPrior.of({"x1": np.ones(3)}))
    with pytest.raises(ValueError, match=r"`prior of 'x1'` must be positive and finite; got 0.0 at index 1"):
        fit_network(frame, COLLIDER, DirichletPrior.of({"x1": [1.0, 0.0]}))
    few = {"x1": [0], "x2": [0], "x3": [0]}
    both = dict.fromkeys(COLLIDER, (0, 1))
    with pytest.raises(ValueError, match=r"`posterior of 'x3'` must be with a mode.* none with x1=0, x2=1"):
        fit_network(few, COLLIDER, DirichletPrior.uniform(1.0, point="mode"), states=both)
    with pytest.raises(ValueError, match="`weights` must be zero or positive"):
        fit_network(frame, COLLIDER, weights=-np.ones(200))
    with pytest.raises(ValueError, match="`parents of 'y'` must be linearly independent"):
        fit_linear_gaussian({"x": [0.1, 0.1, 0.1], "y": [1.0, 2.0, 4.0]}, "y", ["x"])
    with pytest.raises(ValueError, match="`y` must be finite; got nan at index 1"):
        fit_linear_gaussian({"y": [1.0, np.nan]}, "y")
    with pytest.raises(ValueError, match="`frame` must be a table with the column 'q'"):
        fit_linear_gaussian({"y": [1.0, 2.0]}, "y", ["q"])
