"""EM for networks: worked numbers, expected counts by two other routes, gaps, evidence that never falls."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from tests.oracles import networks
from tractable.core.checks import ImpossibleEvidence
from tractable.core.interfaces import HasEM
from tractable.core.iterate import Status
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.learning import DirichletPrior, fit_network
from tractable.graphs.learning_em import fit_network_em, hidden_network, missing_posteriors
from tractable.inference.expectation_maximisation.em import EM
from tractable.messages.junction import junction_tree

SEEN = pd.DataFrame({"v": [1, 1, 0, 0, 1], "w": [1, 0, 1, 0, 1]})
HIDDEN = {"z": [], "v": [], "w": ["z", "v"]}


@pytest.fixture(scope="module")
def start():
    theta = np.array([[0.2, 0.5], [0.4, 0.9]])  # P(w = 1 | z, v)
    return BayesNet(
        [
            ConditionalTable("z", (), [0.4, 0.6]),
            ConditionalTable("v", (), [0.4, 0.6]),
            ConditionalTable("w", ("z", "v"), np.stack([1 - theta, theta], -1)),
        ]
    )


def random_model(seed, missing=True):
    """Five variables of mixed sizes with a loop, some zeros in the tables, and rows with gaps."""
    generator = np.random.default_rng(seed)
    parents = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d", "a"]}
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 3}
    tables = []
    for name, given in parents.items():
        probs = generator.dirichlet(np.ones(sizes[name]), [sizes[p] for p in given])
        if name == "d":
            probs[0, 1] = [1.0, 0.0]
        tables.append(ConditionalTable(name, given, probs))
    net = BayesNet(tables)
    codes = np.array([[generator.choice(sizes[n]) for n in net.names] for _ in range(40)])
    d, b, c = (net.names.index(n) for n in "dbc")
    codes[(codes[:, b] == 0) & (codes[:, c] == 1), d] = 0  # what the zero forbids
    if missing:
        gaps = generator.random(codes.shape) < 0.35
        gaps[:, net.names.index("a")] = False  # one variable is always seen
        codes[gaps] = -1
    return net, codes, generator.uniform(0.5, 2.0, 40)


def frame_of(net, codes):
    return pd.DataFrame(np.where(codes < 0, np.nan, codes), columns=list(net.names))


def test_one_step_of_the_hidden_cause_by_hand(start):
    q = missing_posteriors(start, SEEN)["z"][:, 1]
    np.testing.assert_allclose(q, [0.7297297, 0.2307692, 0.75, 0.5294118, 0.7297297], atol=5e-8)
    fitted = fit_network_em(SEEN, HIDDEN, start=start, max_steps=1, tol=0.0)
    assert float(fitted.run.values[0]) == pytest.approx(-6.8394389, abs=5e-8)
    assert fitted.log_evidence == pytest.approx(-6.6626711, abs=5e-8)
    tables = fitted.net.tables
    np.testing.assert_allclose(tables["z"].probs[1], 0.5939281, atol=5e-8)
    np.testing.assert_allclose(tables["v"].probs[1], 0.6, rtol=1e-14)
    wanted = [[0.3469388, 0.4126984], [0.5862069, 0.8634686]]
    np.testing.assert_allclose(tables["w"].probs[..., 1], wanted, atol=5e-8)


def test_evidence_never_falls_and_the_run_says_how_it_ended(start):
    fitted = fit_network_em(SEEN, HIDDEN, start=start, tol=1e-12)
    assert fitted.run.status is Status.converged
    assert (np.diff(fitted.run.values) > -1e-12).all()
    assert fitted.num_distinct == 4
    text = repr(fitted)
    assert text.startswith("FittedNetwork")
    for shown in ("BayesNet(3 variables", "-6.66", "num_distinct", "('z',)"):
        assert shown in text
    assert text.endswith("Converged: the objective changed by less than the tolerance.")
    # z can carry all that w leaves open, so that the fit reaches the empirical distribution of (v, w)
    best = 3 * np.log(3 / 5) + 2 * np.log(2 / 5) + 2 * np.log(2 / 3) + np.log(1 / 3) + 2 * np.log(1 / 2)
    assert fitted.log_evidence == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize("seed", [0, 1])
def test_expected_counts_equal_enumeration_and_the_junction_tree(seed):
    net, codes, weights = random_model(seed)
    missing = [n for n, column in zip(net.names, codes.T) if (column < 0).any()]
    model = hidden_network(net, missing)
    assert isinstance(model, HasEM)
    step = jax.jit(lambda m, r, w: m.e_step(r, w))
    stats, evidence = step(model, jnp.asarray(codes), jnp.asarray(weights))
    tables, scopes = [np.asarray(p) for p in model.probs], model.layout.scopes
    sizes = [len(net.states[n]) for n in net.names]
    counts, total = [np.zeros(t.shape) for t in tables], 0.0
    for row, weight in zip(codes, weights):
        value, found = networks.expected_counts(tables, scopes, sizes, row)
        total += weight * np.log(value)
        for table, cells in zip(counts, found):
            for cell, n in cells.items():
                table[cell] += weight * n
    assert float(evidence) == pytest.approx(total, rel=1e-12)
    for table, oracle in zip(stats, counts):
        np.testing.assert_allclose(table, oracle, rtol=1e-10, atol=1e-12)
    tree = junction_tree(scopes, sizes)
    with np.errstate(divide="ignore"):
        logs = [np.log(t) for t in tables]
    row = codes[3]
    seen = {v: int(code) for v, code in enumerate(row) if code >= 0}
    calibrated = tree.calibrate(logs, seen)
    alone, value = step(model, jnp.asarray(codes), jnp.asarray(np.arange(40) == 3, float))
    assert float(value) == pytest.approx(calibrated.log_total, rel=1e-12)
    posteriors = missing_posteriors(net, frame_of(net, codes))
    for v, name in enumerate(net.names):
        if v not in seen:
            np.testing.assert_allclose(posteriors[name][3], calibrated.marginal(v), rtol=1e-10, atol=1e-14)
            np.testing.assert_allclose(
                alone[v].reshape(-1, sizes[v]).sum(0), calibrated.marginal(v), rtol=1e-10, atol=1e-14
            )


def test_statistics_add_over_rows():
    net, codes, weights = random_model(2)
    model = hidden_network(net, net.names)
    step = jax.jit(lambda r, w: model.e_step(r, w))
    whole = step(jnp.asarray(codes), jnp.asarray(weights))
    parts = [step(jnp.asarray(codes), jnp.asarray(np.where(half, weights, 0.0))) for half in _halves(40)]
    for table, first, second in zip(*(jax.tree.leaves(part) for part in (whole, *parts))):
        np.testing.assert_allclose(table, first + second, rtol=1e-11, atol=1e-12)


def _halves(count):
    first = np.arange(count) < 17
    return first, ~first


def test_without_gaps_it_is_counting():
    net, codes, weights = random_model(4, missing=False)
    frame = frame_of(net, codes)
    states = {name: [0.0, 1.0, 2.0][: len(s)] for name, s in net.states.items()}
    for prior in (0.5, DirichletPrior.uniform(1.5, point="mode"), DirichletPrior.bdeu(4.0)):
        counted = fit_network(frame, net, prior, states, weights)
        climbed = fit_network_em(frame, net, prior=prior, states=states, weights=weights)
        for name in net.names:
            np.testing.assert_allclose(climbed.net.tables[name].probs, counted.tables[name].probs, rtol=1e-11)
    assert climbed.missing == ()


def test_prior_and_gaps_climb_the_posterior():
    net, codes, weights = random_model(5)
    frame = frame_of(net, codes)
    states = {name: [0.0, 1.0, 2.0][: len(s)] for name, s in net.states.items()}
    fitted = fit_network_em(frame, net, prior=0.3, states=states, weights=weights, tol=1e-10)
    assert fitted.run.status is Status.converged
    assert (np.diff(fitted.run.values) > -1e-9).all()
    priors = [0.3 * np.log(np.asarray(fitted.net.tables[n].probs)).sum() for n in fitted.net.names]
    assert float(fitted.run.values[-1]) == pytest.approx(fitted.log_evidence + sum(priors), rel=1e-8)
    streamed = fit_network_em(frame, net, prior=0.3, states=states, weights=weights, tol=1e-10, chunk=16)
    np.testing.assert_allclose(streamed.run.values, fitted.run.values, rtol=1e-10)


def test_missing_at_random_is_better_than_dropping_rows():
    """x -> y, y missing more often where x is 1: the rows with gaps still count for x."""
    generator = np.random.default_rng(0)
    x = generator.random(20_000) < 0.5
    y = (generator.random(20_000) < np.where(x, 0.9, 0.2)).astype(float)
    y[generator.random(20_000) < np.where(x, 0.8, 0.1)] = np.nan
    frame = pd.DataFrame({"x": x.astype(int), "y": y})
    fitted = fit_network_em(frame, {"x": ["y"], "y": []}, tol=1e-12).net.tables
    p = np.asarray(fitted["y"].probs)[1]
    truth = 0.5 * 0.9 + 0.5 * 0.2
    assert abs(p - truth) < 5 * np.sqrt(0.25 / 4000)
    assert abs(frame.y.mean() - truth) > 0.1  # of the complete rows
    exact = fit_network(frame.dropna(), {"y": ["x"]}).tables["y"].probs[:, 1]
    both = x.mean() * float(exact[1]) + (1 - x.mean()) * float(exact[0])
    assert p == pytest.approx(both, abs=1e-5)  # the equivalent graph x -> y has a closed form


def test_latent_class_is_recovered_from_random_starts():
    generator = np.random.default_rng(1)
    z = generator.random(6000) < 0.4
    flips = [(0.9, 0.2), (0.8, 0.1), (0.15, 0.7), (0.85, 0.3)]
    seen = {
        f"y{i}": (generator.random(6000) < np.where(z, a, b)).astype(int) for i, (a, b) in enumerate(flips)
    }
    structure = {"z": [], **{name: ["z"] for name in seen}}
    fitted = fit_network_em(
        seen, structure, states={"z": ["off", "on"]}, key=jr.key(0), num_starts=3, tol=1e-10, accelerate=True
    )
    on = int(np.asarray(fitted.net.tables["y0"].probs)[:, 1].argmax())
    share = float(fitted.net.tables["z"].probs[on])
    assert abs(share - 0.4) < 0.05
    for i, (a, _) in enumerate(flips):
        assert float(fitted.net.tables[f"y{i}"].probs[on, 1]) == pytest.approx(a, abs=0.05)
    assert fitted.num_distinct <= 16
    assert fitted.net.states["z"] == ("off", "on")


def test_many_variables_do_not_underflow():
    """A hidden cause of 60 effects, each of probability 1e-12 or less: the first half speak for one state and
    the others for the other, far beyond the smallest float.
    """
    likely, rare = [1 - 1e-12, 1e-12], [1 - 1e-24, 1e-24]
    effects = [
        ConditionalTable(f"y{i}", "z", [likely, rare] if i < 30 else [rare, likely]) for i in range(60)
    ]
    net = BayesNet([ConditionalTable("z", (), [0.25, 0.75]), *effects])
    frame = {f"y{i}": [1, 0] for i in range(60)}
    np.testing.assert_allclose(missing_posteriors(net, frame)["z"], [[0.25, 0.75]] * 2, rtol=1e-9)
    model = hidden_network(net, ["z"])
    codes = np.ones((8, 61), int)
    codes[:, net.names.index("z")] = -1
    evidence = jax.jit(lambda m, r: m.row_evidence(r))(model, jnp.asarray(codes))
    np.testing.assert_allclose(evidence, 30 * np.log(1e-36), rtol=1e-12)


def test_rows_of_tables_that_no_data_reach_keep_their_values(start):
    frame = pd.DataFrame({"z": [1, 1], "v": [1, 1], "w": [1.0, np.nan]})
    fitted = fit_network_em(frame, HIDDEN, start=start)
    np.testing.assert_allclose(fitted.net.tables["w"].probs[0], start.tables["w"].probs[0], rtol=1e-14)
    assert float(fitted.net.tables["w"].probs[1, 1, 1]) == pytest.approx(1.0, abs=1e-6)


def test_the_model_runs_under_every_driver(start):
    rows = np.array([[-1, 1, 1], [-1, 1, 0], [-1, 0, 1], [-1, 0, 0], [-1, 1, 1]])
    order = [("z", "v", "w").index(name) for name in start.names]
    run = EM(tol=0.0, max_steps=1).fit(hidden_network(start, ["z"]), rows[:, order])
    assert float(run.values[0]) == pytest.approx(-6.8394389, abs=5e-8)


def test_bad_input_is_named(start):
    with pytest.raises(ValueError, match=r"`frame` must be a table with the columns .* none called \['z'\]"):
        fit_network_em(SEEN, HIDDEN)
    with pytest.raises(ValueError, match=r"`key` must be given for random starts \(hidden: \['z'\]\)"):
        fit_network_em(SEEN, HIDDEN, states={"z": [0, 1]})
    certain = BayesNet(
        [ConditionalTable("a", (), [1.0, 0.0]), ConditionalTable("b", "a", [[0.5, 0.5], [0.5, 0.5]])]
    )
    with pytest.raises(ImpossibleEvidence, match="got a row of probability zero: a=1"):
        fit_network_em({"a": [0, 1], "b": [0.0, np.nan]}, certain, start=certain)
    with pytest.raises(ImpossibleEvidence, match="a row of probability zero"):
        missing_posteriors(certain, {"a": [1]})
    with pytest.raises(ValueError, match="`start` must be a network with the structure to be fitted"):
        fit_network_em(SEEN, {"z": [], "v": ["z"], "w": ["v"]}, start=start)
    with pytest.raises(ValueError, match="`prior` must be of concentrations of at least one"):
        fit_network_em(SEEN, HIDDEN, start=start, prior=DirichletPrior.uniform(0.5, point="mode"))
    with pytest.raises(ValueError, match="`v` must be one of its states"):
        fit_network_em({"v": [0, 5], "w": [0, 1]}, HIDDEN, start=start)
