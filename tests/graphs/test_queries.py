"""Queries of networks against enumeration: marginals, explanations, draws, sensitivity, fallbacks."""

import math

import hypothesis.strategies as st
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import assume, given, settings

from tests.oracles import bayes_net as oracle
from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.bayes_net import BayesNet, num_states
from tractable.graphs.example_networks import chest_clinic, random_network, sprinkler, student
from tractable.messages.cost import Budget, TooLarge

SPRINKLER = sprinkler()
LIKELIHOODS = [0.0, 0.3, 1.0, 2.5]
NUMBERS = [
    ({}, "wet", 0.6471),
    ({"wet": "yes"}, "sprinkler", 0.4297636),
    ({"wet": "yes"}, "rain", 0.7079277),
    ({"wet": "yes", "rain": "yes"}, "sprinkler", 0.1944990),
    ({"sprinkler": "yes", "wet": "yes"}, "rain", 0.3203883),
    ({"sprinkler": "yes", "wet": "yes"}, "cloudy", 0.1747573),
]


def nodes_of(net):
    return [
        (name, table.given, np.asarray(table.probs), net.states[name]) for name, table in net.tables.items()
    ]


def networks(most=8):
    """Numbers from which `made` builds a network and evidence."""
    likelihoods = st.lists(st.sampled_from(LIKELIHOODS), min_size=4, max_size=4)
    observed = st.tuples(st.integers(0, 11), st.integers(-1, 3), likelihoods)
    sizes = (st.integers(0, 3), st.integers(2, 4), st.sampled_from([0.0, 0.4]))
    return st.tuples(st.integers(0, 2**31), st.integers(1, most), *sizes, st.lists(observed, max_size=3))


def made(case):
    """A random network (perhaps disconnected, with zeros) and evidence of all kinds for it."""
    seed, count, parents, states, zeros, observed = case
    net = random_network(jr.key(seed), count, max_parents=parents, max_states=states, zeros=zeros)
    evidence = {}
    for place, state, likelihood in observed:
        name = net.names[place % count]
        own = net.states[name]
        evidence[name] = dict(zip(own, likelihood)) if state < 0 else own[state % len(own)]
    return net, evidence


def enumerated(net, evidence):
    names, table = oracle.joint(nodes_of(net))
    return names, oracle.weigh(names, table, evidence)


@pytest.mark.parametrize(("evidence", "name", "value"), NUMBERS)
def test_sprinkler_numbers(evidence, name, value):
    assert abs(SPRINKLER.marginals(evidence)[name]["yes"] - value) < 5e-8
    assert abs(float(SPRINKLER.query(name, evidence).prob({name: "yes"})) - value) < 5e-8


def test_explaining_away():
    before = SPRINKLER.marginals({"wet": "yes"})["sprinkler"]["yes"]
    after = SPRINKLER.marginals({"wet": "yes", "rain": "yes"})["sprinkler"]["yes"]
    assert after < before


@settings(max_examples=40)
@given(networks())
def test_marginals_and_evidence_equal_enumeration(case):
    assert_marginals(*made(case))


def assert_marginals(net, evidence):
    names, table = enumerated(net, evidence)
    total = oracle.total(table)
    if total == 0:
        assert net.log_evidence(evidence) == -math.inf
        with pytest.raises(ImpossibleEvidence, match=next(iter(evidence))):
            net.marginals(evidence)
        return
    assert math.isclose(net.log_evidence(evidence), math.log(total), rel_tol=1e-9, abs_tol=1e-11)
    found = net.marginals(evidence)
    hard = {name for name, value in evidence.items() if not isinstance(value, dict)}
    assert set(found) == set(names) - hard
    for name in names:
        exact = oracle.marginal(names, table, [name])
        for state in net.states[name]:
            assert abs(found[name][state] - exact[(state,)] / total) < 1e-11


@pytest.mark.slow
@settings(max_examples=25)
@given(networks(most=12))
def test_marginals_of_larger_networks_equal_enumeration(case):
    net, evidence = made(case)
    assume(num_states([len(states) for states in net.states.values()]) < 200_000)
    assert_marginals(net, evidence)


@settings(max_examples=25)
@given(networks(), st.data())
def test_joint_queries_equal_enumeration(case, data):
    net, evidence = made(case)
    names, table = enumerated(net, evidence)
    total = oracle.total(table)
    assume(total > 0)
    targets = data.draw(st.lists(st.sampled_from(net.names), min_size=1, max_size=3, unique=True))
    found = net.query(targets, evidence)
    exact = oracle.marginal(names, table, targets)
    assert found.names == tuple(targets)
    probs = np.asarray(found.probs)
    for outcome, p in exact.items():
        index = tuple(net.states[name].index(state) for name, state in zip(targets, outcome))
        assert abs(float(probs[index]) - p / total) < 1e-11


@settings(max_examples=25)
@given(networks(most=6), st.data())
def test_explanations_equal_enumeration(case, data):
    net, evidence = made(case)
    names, table = enumerated(net, evidence)
    assume(oracle.total(table) > 0)
    found, value = net.mpe(evidence)
    assert tuple(found) == net.names
    assert math.isclose(value, math.log(oracle.best(table)), rel_tol=1e-9, abs_tol=1e-11)
    assert math.isclose(table[tuple(found.values())], oracle.best(table), rel_tol=1e-9)
    targets = data.draw(st.lists(st.sampled_from(net.names), min_size=1, max_size=3, unique=True))
    best, value = net.map(targets, evidence)
    exact = oracle.marginal(names, table, targets)
    assert math.isclose(value, math.log(max(exact.values())), rel_tol=1e-9, abs_tol=1e-11)
    assert math.isclose(exact[tuple(best[name] for name in targets)], max(exact.values()), rel_tol=1e-9)


@settings(max_examples=15)
@given(networks(most=5))
def test_k_best_equal_sorted_enumeration(case):
    net, evidence = made(case)
    _, table = enumerated(net, evidence)
    assume(oracle.total(table) > 0)
    found = net.k_best(6, evidence)
    exact = sorted((p for p in table.values() if p > 0), reverse=True)[:6]
    np.testing.assert_allclose([value for _, value in found], np.log(exact), rtol=1e-9, atol=1e-11)
    states = [tuple(each.values()) for each, _ in found]
    assert len(set(states)) == len(states)
    for each, value in zip(states, (value for _, value in found)):
        assert math.isclose(table[each], math.exp(value), rel_tol=1e-9)


def test_marginal_map_is_not_the_projection_of_the_best_joint_state():
    a = ConditionalTable("a", (), [0.45, 0.55])
    b = ConditionalTable("b", "a", [[1.0, 0.0, 0.0], [0.4, 0.3, 0.3]])
    net = BayesNet([a, b])
    assert net.mpe()[0] == {"a": 0, "b": 0}
    best, value = net.map("a")
    assert best == {"a": 1}
    assert math.isclose(value, math.log(0.55))


def test_map_of_observed_variables_keeps_the_evidence():
    best, value = SPRINKLER.map(["wet", "rain"], {"wet": "yes"})
    assert best == {"wet": "yes", "rain": "yes"}
    assert math.isclose(value, math.log(0.7079277 * 0.6471), rel_tol=1e-6)
    with pytest.raises(ImpossibleEvidence, match="P\\(wet='yes', rain='no', sprinkler='no'\\) = 0"):
        SPRINKLER.map("cloudy", {"wet": "yes", "rain": "no", "sprinkler": "no"})


def test_evidence_as_sets_predicates_likelihoods_and_arrays():
    net = student()
    joint = net.joint()
    exact = joint.prob(intelligence="high", given={"grade": {"B", "C"}})
    for value in ({"B", "C"}, ["B", "C"], lambda g: g > "A", {"B": 2.0, "C": 2.0}, np.array([0, 3.0, 3.0])):
        found = net.marginals({"grade": value})["intelligence"]["high"]
        assert math.isclose(found, float(exact), rel_tol=1e-12)
    assert math.isclose(net.log_evidence({"grade": jnp.ones(3)}), 0.0, abs_tol=1e-12)
    assert net.marginals({"grade": {"A"}})["grade"] == {"A": 1.0, "B": 0.0, "C": 0.0}


def test_a_likelihood_is_an_observed_child():
    likelihood = np.array([0.2, 0.7])
    sensor = ConditionalTable("sensor", "rain", np.stack([1 - likelihood, likelihood], -1),
                              [("no", "yes"), ("off", "on")])  # fmt: skip
    larger = BayesNet([*SPRINKLER.factors, sensor])
    soft, hard = {"wet": "yes", "rain": likelihood}, {"wet": "yes", "sensor": "on"}
    assert math.isclose(SPRINKLER.log_evidence(soft), larger.log_evidence(hard), rel_tol=1e-12)
    expected = larger.marginals(hard)
    for name, states in SPRINKLER.marginals(soft).items():
        assert states == pytest.approx(expected[name], abs=1e-13)


def test_errors_list_what_is_known():
    with pytest.raises(ValueError, match="`variable` must be one of cloudy, sprinkler, rain, wet; got 'wt'"):
        SPRINKLER.marginals({"wt": "yes"})
    with pytest.raises(ValueError, match=r"`wet` must be one of its states \('no', 'yes'\); got 'soaked'"):
        SPRINKLER.marginals({"wet": "soaked"})
    with pytest.raises(ValueError, match="one of cloudy, sprinkler, rain, wet; got 'lung'"):
        SPRINKLER.query(["rain", "lung"])
    with pytest.raises(ValueError, match="`names` must be distinct"):
        SPRINKLER.query(["rain", "rain"])
    with pytest.raises(ValueError, match=r"a likelihood of 2 numbers.*shape \(3,\)"):
        SPRINKLER.marginals({"wet": np.ones(3)})
    with pytest.raises(ValueError, match=r"finite numbers, zero or positive; got \[-1.0, 1.0\]"):
        SPRINKLER.marginals({"wet": np.array([-1.0, 1.0])})
    with pytest.raises(ValueError, match=r"over its states .* the states \['soaked'\]"):
        SPRINKLER.marginals({"wet": {"soaked": 1.0}})
    with pytest.raises(ValueError, match="`method` must be one of 'auto', 'exact'"):
        SPRINKLER.marginals(method="magic")


def test_impossible_evidence_names_the_variables():
    impossible = {"wet": "yes", "rain": "no", "sprinkler": "no"}
    for ask in (
        SPRINKLER.marginals,
        SPRINKLER.mpe,
        lambda e: SPRINKLER.query("cloudy", e),
        lambda e: SPRINKLER.k_best(2, e),
        lambda e: SPRINKLER.sample(jr.key(0), 5, e),
        lambda e: SPRINKLER.sensitivity({"cloudy": "yes"}, e, of="rain"),
    ):
        with pytest.raises(ImpossibleEvidence, match="P\\(wet='yes', rain='no', sprinkler='no'\\) = 0"):
            ask(impossible)
    assert SPRINKLER.log_evidence(impossible) == -math.inf


def test_posterior_draws_have_the_posterior_probabilities():
    net, count = chest_clinic(), 20_000
    evidence = {"xray": "yes", "dyspnoea": "yes"}
    frame, exact = net.sample(jr.key(4), count, evidence), net.marginals(evidence)
    assert (frame["xray"] == "yes").all()
    for name, states in exact.items():
        for state, p in states.items():
            assert abs((frame[name] == state).mean() - p) <= 5 * math.sqrt(p * (1 - p) / count)
    pair = net.query(["cancer", "bronchitis"], evidence)
    both = ((frame["cancer"] == "yes") & (frame["bronchitis"] == "yes")).mean()
    p = float(pair.probs[1, 1])
    assert abs(both - p) <= 5 * math.sqrt(p * (1 - p) / count)


def test_expectations_of_functions_of_states():
    net, evidence = student(), {"passed": "yes"}
    points = {"A": 4.0, "B": 3.0, "C": 2.0}
    grade = net.marginals(evidence)["grade"]
    exact = sum(points[state] * p for state, p in grade.items())
    assert math.isclose(float(net.expectation(points, "grade", evidence=evidence)), exact, rel_tol=1e-12)
    numbers = random_network(jr.key(2), 4)
    joint = numbers.joint()
    found = numbers.expectation(lambda x, y: x * y, "x1", "x3", evidence={"x0": 1})
    assert math.isclose(
        float(found), float(joint.expectation(lambda x, y: x * y, "x1", "x3", given={"x0": 1})), rel_tol=1e-10
    )


@pytest.mark.parametrize("name", ["cloudy", "rain", "wet", "sprinkler"])
def test_sensitivity_equals_finite_differences(name):
    evidence, event, step = {"wet": "yes"}, {"rain": "yes"}, 1e-6
    table = SPRINKLER.tables[name]
    probs = np.asarray(table.probs)
    found = SPRINKLER.sensitivity(event, evidence, of=name)
    assert math.isclose(found.value, 0.7079277, rel_tol=1e-7)

    def posterior(row, index, change):
        moved = probs.copy()
        old = moved[row]
        rest = 1 - old[index]
        new = old * (1 - change / rest) if rest > 0 else old - change
        new[index] = old[index] + change
        moved[row] = new
        other = BayesNet(
            {**SPRINKLER.tables, name: ConditionalTable(name, table.given, moved, table.axes.states)}
        )
        return other.marginals(evidence)["rain"]["yes"]

    for row in np.ndindex(probs.shape[:-1]):
        for index in range(2):
            low = -step if 0 < probs[row][index] < 1 else 0.0
            if probs[row][index] < 1:
                slope = (posterior(row, index, step) - posterior(row, index, low)) / (step - low)
                np.testing.assert_allclose(found.derivatives[(*row, index)], slope, rtol=2e-5, atol=1e-8)


def test_sensitivity_without_covariation_is_the_derivative_of_one_entry():
    found = SPRINKLER.sensitivity({"rain": "yes"}, {"wet": "yes"}, of="rain", covary=False)
    given, value = 0.6471, 0.4581 / 0.6471
    # P(rain, wet) and P(wet) are linear in P(rain | cloudy): their slopes are P(cloudy) P(wet | rain, cloudy)
    slope = 0.5 * (0.9 * 0.9 + 0.1 * 0.99)
    expected = (slope - value * slope) / given
    assert math.isclose(found.entry(cloudy="yes", rain="yes"), expected, rel_tol=1e-12)
    with pytest.raises(ValueError, match="one state for each of"):
        found.entry(rain="yes")
    with pytest.raises(ValueError, match=r"`event` must be about variables without evidence; got \['wet'\]"):
        SPRINKLER.sensitivity({"wet": "yes"}, {"wet": "yes"}, of="rain")


def test_reasoning_of_the_student():
    net = student()
    causal = net.reasoning("grade", {"difficulty": "easy"})
    assert causal.kinds["grade"] == {"difficulty": "causal"}
    assert causal.change("grade")["A"] > 0
    evidential = net.reasoning(["difficulty", "intelligence"], {"grade": "C"})
    assert evidential.kinds["intelligence"] == {"grade": "evidential"}
    assert evidential.change("intelligence")["high"] < 0 < evidential.change("difficulty")["hard"]
    away = net.reasoning("intelligence", {"grade": "C", "difficulty": "hard"})
    assert away.kinds["intelligence"] == {"grade": "evidential", "difficulty": "intercausal"}
    assert away.posterior["intelligence"]["high"] > evidential.posterior["intelligence"]["high"]
    around = net.reasoning("difficulty", {"grade": "C", "passed": "yes"})
    assert around.kinds["difficulty"]["passed"] == "intercausal"
    assert around.posterior["difficulty"]["hard"] > evidential.posterior["difficulty"]["hard"]
    nothing = net.reasoning("difficulty", {"passed": "yes"})
    assert nothing.kinds["difficulty"] == {"passed": "none: d-separated"}
    assert abs(nothing.change("difficulty")["hard"]) < 1e-12
    assert "intercausal (from difficulty)" in repr(away)


def test_reasoning_can_be_of_two_kinds_at_once():
    found = SPRINKLER.reasoning("rain", {"wet": "yes", "sprinkler": "yes"})
    assert found.kinds["rain"]["sprinkler"] == "common cause and intercausal"
    assert SPRINKLER.reasoning("rain", {"sprinkler": "yes"}).kinds["rain"] == {"sprinkler": "common cause"}
    observed = SPRINKLER.reasoning("rain", {"rain": "yes", "wet": "yes"}).kinds["rain"]
    assert observed == {"rain": "observed itself", "wet": "none: the target is observed"}


@pytest.fixture(scope="module")
def wide():
    """Fifty causes and many effects of three of them each: far too wide for exact inference on all."""
    generator = np.random.default_rng(0)
    tables = [ConditionalTable(f"cause{i}", (), [0.7, 0.3]) for i in range(50)]
    for i in range(130):
        given = [f"cause{j}" for j in generator.choice(50, 3, replace=False)]
        tables.append(ConditionalTable(f"effect{i}", given, generator.dirichlet([3.0, 3.0], (2, 2, 2))))
    return BayesNet(tables)


def test_cost_is_known_before_and_falls_with_evidence(wide):
    small, large = SPRINKLER.cost(), wide.cost()
    assert small.treewidth == 2
    assert large.treewidth > 20
    assert large.predicted_bytes > 2e9
    assert large.predicted_seconds > small.predicted_seconds
    assert "treewidth 2" in str(small)
    observed = {f"cause{i}": 0 for i in range(42)}
    assert wide.cost(observed).treewidth < 12
    assert math.isclose(wide.log_evidence(observed), 42 * math.log(0.7), rel_tol=1e-12)


def test_what_does_not_fit_is_refused_with_alternatives(wide):
    evidence = {f"effect{i}": 0 for i in range(130)}
    for ask in (wide.log_evidence, wide.mpe, lambda e: wide.marginals(e, method="exact")):
        with pytest.raises(TooLarge, match=r"treewidth .*'likelihood_weighting', 'gibbs'"):
            ask(evidence)
    with pytest.raises(ValueError, match="`names` must be few enough for one table"):
        wide.query(wide.names)
    with pytest.raises(TooLarge, match="best state of fewer"):
        wide.map(wide.names[:3], evidence)


def test_a_query_needs_only_the_ancestors_even_where_the_whole_does_not_fit(wide):
    found = wide.query("effect0", {"effect1": 1})
    family = BayesNet([wide.tables[name] for name in wide.dag.ancestral(["effect0", "effect1"]).names])
    np.testing.assert_allclose(found.probs, family.joint().query("effect0", {"effect1": 1}).probs, atol=1e-13)
    assert found.report.exact


@pytest.mark.parametrize("method", ["likelihood_weighting", "gibbs", "loopy"])
def test_fallbacks_come_close_and_say_what_they_are(method):
    net = random_network(jr.key(12), 6, max_states=2)
    evidence = {"x5": 1, "x4": np.array([0.2, 0.9])}
    exact = net.marginals(evidence)
    found = net.marginals(
        evidence, method=method, key=None if method == "loopy" else jr.key(1), num_draws=4000
    )
    assert not found.exact
    assert found.algorithm.replace(" ", "_").lower().startswith(method)
    assert found.report.verdict.sentence in repr(found)
    for name, states in exact.items():
        for state, p in states.items():
            bound = 5 * found.errors[name][state] + 1e-12 if method != "loopy" else 0.05
            assert abs(found[name][state] - p) <= bound < 0.2
    if method == "likelihood_weighting":
        assert abs(found.log_evidence - exact.log_evidence) < 0.1


def test_the_fallback_is_chosen_by_cost_and_reported():
    net, evidence = SPRINKLER, {"wet": "yes"}
    assert net.marginals(evidence).algorithm == "junction tree"
    drawn = net.marginals(evidence, key=jr.key(0), budget=Budget(1.0), num_draws=4000)
    assert drawn.algorithm == "likelihood weighting"
    assert abs(drawn["rain"]["yes"] - 0.7079277) < 5 * drawn.errors["rain"]["yes"]
    table = net.query(["rain", "sprinkler"], evidence, key=jr.key(0), budget=Budget(64.0), num_draws=4000)
    assert table.report.algorithm == "likelihood weighting"
    assert "likelihood weighting" in repr(table)
    assert abs(float(table.prob(rain="yes")) - 0.7079277) < 0.05
    silent = net.marginals(evidence, budget=Budget(1.0))
    assert silent.algorithm == "loopy propagation"
    with pytest.raises(
        ValueError, match=r"one variable for loopy propagation.*'likelihood_weighting' or 'gibbs'"
    ):
        net.query(["rain", "sprinkler"], evidence, budget=Budget(64.0))
    with pytest.raises(ValueError, match="`key` must be a random key for 'gibbs'"):
        net.marginals(evidence, method="gibbs")


def test_weighting_that_finds_nothing_names_the_evidence():
    with pytest.raises(ImpossibleEvidence, match="wet='yes', rain='no', sprinkler='no'"):
        SPRINKLER.marginals({"wet": "yes", "rain": "no", "sprinkler": "no"},
                            method="likelihood_weighting", key=jr.key(0), num_draws=50)  # fmt: skip


def test_one_plan_serves_other_evidence_values():
    net = random_network(jr.key(99), 7)
    tree = net.potentials.tree
    steps = tree._whole.steps
    for evidence in ({"x3": 0}, {"x3": 1}, {"x3": 1, "x5": 0}):
        net.marginals(evidence)
    assert net.potentials.tree is tree
    assert tree._whole.steps is steps
    assert not tree._plans  # only large trees are planned anew


def test_marginals_are_a_dictionary_and_a_frame():
    found = SPRINKLER.marginals({"wet": "yes"})
    assert isinstance(found, dict)
    assert found["wet"] == {"no": 0.0, "yes": 1.0}
    assert "wet" not in found
    with pytest.raises(KeyError, match="one of cloudy, sprinkler, rain, wet"):
        found["lung"]
    frame = found.to_pandas()
    assert list(frame.columns) == ["variable", "state", "probability"]
    assert len(frame) == 6
    assert math.isclose(found.log_evidence, math.log(0.6471))


def test_a_chain_query_is_an_entry_of_a_power_of_the_transition_matrix():
    T = np.array([[0.9, 0.1], [0.4, 0.6]])
    tables = [ConditionalTable("x2", (), [0.5, 0.5])]
    tables += [ConditionalTable(f"x{i}", f"x{i - 1}", T) for i in range(3, 8)]
    net = BayesNet(tables)
    for state in (0, 1):
        found = net.query("x7", {"x2": state}).probs
        np.testing.assert_allclose(found, np.linalg.matrix_power(T, 5)[state], rtol=1e-12)


def test_given_its_blanket_a_variable_depends_on_nothing_else():
    net = chest_clinic()
    rest = {"asia": "yes", "smoking": "no", "tuberculosis": "no", "bronchitis": "yes", "either": "yes",
            "xray": "yes", "dyspnoea": "no"}  # fmt: skip
    blanket = {name: state for name, state in rest.items() if name in net.markov_blanket("cancer")}
    assert len(blanket) < len(rest)
    assert net.marginals(rest)["cancer"] == pytest.approx(net.marginals(blanket)["cancer"], abs=1e-13)


def test_everything_observed_and_nothing_asked():
    evidence = {"cloudy": "yes", "sprinkler": "no", "rain": "yes", "wet": "yes"}
    exact = math.log(0.5 * 0.9 * 0.8 * 0.9)
    found = SPRINKLER.marginals(evidence)
    assert found == {}
    assert math.isclose(found.log_evidence, exact, rel_tol=1e-12)
    assert SPRINKLER.mpe(evidence) == (evidence, pytest.approx(exact))
    assert SPRINKLER.map([], evidence) == ({}, pytest.approx(exact))
    assert SPRINKLER.k_best(3, evidence) == [(evidence, pytest.approx(exact))]
    assert (SPRINKLER.sample(jr.key(0), 3, evidence) == list(evidence.values())).all(axis=None)
    assert float(SPRINKLER.query([], evidence).probs) == 1.0


def test_networks_of_one_variable_and_of_one_state():
    single = BayesNet([ConditionalTable("a", (), [0.2, 0.8])])
    assert single.marginals()["a"] == pytest.approx({0: 0.2, 1: 0.8})
    sure = BayesNet([ConditionalTable("a", (), [1.0]), ConditionalTable("b", "a", [[0.3, 0.7]])])
    assert sure.marginals({"b": 0})["a"] == {0: 1.0}
    assert sure.mpe()[0] == {"a": 0, "b": 1}
    assert math.isclose(sure.log_evidence({"b": 1}), math.log(0.7), rel_tol=1e-12)


def test_no_evidence_has_probability_one_even_where_the_whole_does_not_fit(wide):
    assert abs(wide.log_evidence()) < 1e-12
    assert wide.query("cause3").probs.tolist() == pytest.approx([0.7, 0.3])


def test_tiny_probabilities_stay_logarithms():
    tables = [ConditionalTable("x0", (), [1 - 1e-12, 1e-12])]
    tables += [ConditionalTable(f"x{i}", f"x{i - 1}", [[1.0, 0.0], [1 - 1e-12, 1e-12]]) for i in range(1, 60)]
    net = BayesNet(tables)
    evidence = {f"x{i}": 1 for i in range(0, 60, 2)}
    assert math.isclose(net.log_evidence(evidence | {"x59": 1}), 60 * math.log(1e-12), rel_tol=1e-10)
    assert net.marginals(evidence)["x31"] == pytest.approx({0: 0.0, 1: 1.0}, abs=1e-12)
