"""Joint tables against loops over outcomes: queries, moments, independence, errors by name."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import joint as oracle
from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.bayes_rule import bayes
from tractable.distributions.contraction import contract
from tractable.distributions.tables import ConditionalTable, JointTable, product

NAMES = ("weather", "wind", "late")
STATES = (("sun", "rain"), (0, 1, 3), (0, 1))
positive = st.lists(st.floats(0.01, 1), min_size=12, max_size=12)


def build(weights):
    p = np.asarray(weights).reshape(2, 3, 2)
    return JointTable(NAMES, p / p.sum(), STATES)


@pytest.fixture(scope="module")
def table():
    """Two impossible cells, and one impossible joint state of weather and wind."""
    p = np.random.default_rng(5).gamma(0.8, size=(2, 3, 2))
    p[0, 2, :] = 0
    return build(p)


@pytest.fixture(scope="module")
def cells(table):
    return oracle.outcomes(table.probs, STATES)


@pytest.fixture(scope="module")
def xor():
    """Two fair coins and whether they differ: each pair is independent, all three are not."""
    p = np.zeros((2, 2, 2))
    for a, b in itertools.product(range(2), range(2)):
        p[a, b, a ^ b] = 0.25
    return JointTable(["a", "b", "c"], p)


def as_dict(joint):
    return oracle.outcomes(joint.probs, list(joint.states.values()))


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-14)


@pytest.mark.parametrize("keep", [["late"], ["wind", "weather"], ["late", "weather", "wind"], []])
def test_marginal_matches_loops(table, cells, keep):
    assert_same(as_dict(table.marginal(keep)), oracle.marginal(cells, NAMES, keep))


@pytest.mark.parametrize(
    "evidence", [{"weather": "rain"}, {"wind": 1, "late": 0}, {"weather": "sun", "wind": 0, "late": 1}]
)
def test_condition_matches_loops(table, cells, evidence):
    rest = [name for name in NAMES if name not in evidence]
    assert_same(as_dict(table.condition(evidence)), oracle.conditional(cells, NAMES, rest, evidence))
    assert_same(as_dict(table.condition(**evidence)), oracle.conditional(cells, NAMES, rest, evidence))


def test_mixed_query_sums_out_and_conditions(table, cells):
    found = table.query("late", given={"weather": "rain"})
    assert_same(as_dict(found), oracle.conditional(cells, NAMES, ["late"], {"weather": "rain"}))
    assert_same(as_dict(found), as_dict(table.condition(weather="rain").marginal("late")))


def test_probability_of_events(table, cells):
    def exact(event):
        return oracle.probability(cells, NAMES, event)

    np.testing.assert_allclose(table.prob(late=1), exact(lambda o: o["late"] == 1), rtol=1e-14)
    np.testing.assert_allclose(table.prob({"wind": {1, 3}}), exact(lambda o: o["wind"] in (1, 3)), rtol=1e-14)
    both = exact(lambda o: o["wind"] > 0 and o["late"] == 1) / exact(lambda o: o["wind"] > 0)
    np.testing.assert_allclose(table.prob(late=1, given={"wind": lambda w: w > 0}), both, rtol=1e-14)
    nested = exact(lambda o: o["wind"] == 1) / exact(lambda o: o["wind"] <= 1)
    np.testing.assert_allclose(table.prob(wind=1, given={"wind": [0, 1]}), nested, rtol=1e-14)
    assert table.prob() == pytest.approx(1.0)
    assert table.prob(weather="sun", wind=3) == 0.0


@given(positive)
def test_axioms(weights):
    joint = build(weights)
    either = joint.prob({"wind": {0, 1}})
    np.testing.assert_allclose(either, joint.prob(wind=0) + joint.prob(wind=1), rtol=1e-13)
    np.testing.assert_allclose(joint.prob(late=1) + joint.prob(late=0), 1, rtol=1e-13)


def test_conditional_table_matches_loops_and_leaves_undefined_rows_nan(table, cells):
    found = table.conditional_table("late", ["weather", "wind"])
    assert found.probs.shape == (2, 3, 2)
    for i, weather in enumerate(STATES[0]):
        for j, wind in enumerate(STATES[1]):
            if (weather, wind) == ("sun", 3):
                assert np.isnan(found.probs[i, j]).all()
                assert not found.defined[i, j]
                continue
            row = oracle.conditional(cells, NAMES, ["late"], {"weather": weather, "wind": wind})
            np.testing.assert_allclose(found.probs[i, j], [row[0,], row[1,]], rtol=1e-13)
            assert_same(as_dict(found(weather=weather, wind=wind)), row)
    with pytest.raises(ImpossibleEvidence, match=r"got P\(weather='sun', wind=3\) = 0"):
        found(weather="sun", wind=3)


def test_product_rule_rebuilds_the_joint(table):
    back = table.marginal(["weather", "wind"]) * table.conditional_table("late", ["weather", "wind"])
    assert back.names == NAMES
    np.testing.assert_allclose(back.probs, table.probs, atol=1e-16)
    swapped = table.conditional_table("late", ["weather", "wind"]) * table.marginal(["weather", "wind"])
    np.testing.assert_allclose(swapped.marginal(NAMES).probs, table.probs, atol=1e-16)


def test_product_of_conditionals_is_conditional(table):
    first, second = (
        table.conditional_table("late", ["weather", "wind"]),
        table.conditional_table("wind", "weather"),
    )
    both = first * second
    assert isinstance(both, ConditionalTable)
    assert both.given == ("weather",)
    direct = table.conditional_table(["late", "wind"], "weather")
    np.testing.assert_allclose(both.probs, direct.probs, atol=1e-15)


def test_product_of_separate_tables_is_independent():
    joint = JointTable("a", [0.3, 0.7]) * JointTable("b", [0.1, 0.6, 0.3])
    np.testing.assert_allclose(joint.probs, np.outer([0.3, 0.7], [0.1, 0.6, 0.3]), rtol=1e-15)
    assert joint.independence("a", "b")


def test_products_that_make_no_sense_are_refused(table):
    late = table.marginal("late")
    with pytest.raises(ValueError, match=r"`other` must be a table of variables other than \('late',\)"):
        late * late
    with pytest.raises(ValueError, match=r"`other` must be independent of \('late',\), which depend on it"):
        table.conditional_table("late", "wind") * table.conditional_table("wind", "late")
    other = JointTable("wind", [0.5, 0.5], [["calm", "gale"]])
    with pytest.raises(
        ValueError, match=r"`wind` must be a variable with the same states in both tables, \(0, 1, 3\)"
    ):
        table.conditional_table("late", "wind") * other
    with pytest.raises(
        ImpossibleEvidence,
        match=r"impossible where this table is undefined; .* at late=0, weather='sun', wind=3",
    ):
        table.conditional_table("late", ["weather", "wind"]) * (
            table.marginal("weather") * table.marginal("wind")
        )
    with pytest.raises(TypeError, match="unsupported operand"):
        late * 2.0


def test_rounding_does_not_add_up_to_an_error():
    rows = np.array([[0.1, 0.9], [0.7, 0.3]], np.float32) * np.float32(1 + 8e-7)
    chain = JointTable("x0", np.array([0.5, 0.5], np.float32))
    for i in range(2):
        chain = chain * ConditionalTable(f"x{i + 1}", f"x{i}", rows)
    assert chain.probs.dtype == np.float32
    assert 1e-6 < float(chain.probs.sum()) - 1 < 3e-6  # past the tolerance for input, which each factor meets


@pytest.mark.parametrize("order", list(itertools.permutations(NAMES)))
def test_chain_rule_in_every_order_rebuilds_the_joint(table, order):
    factors = table.chain_rule(order)
    assert [factor.targets for factor in factors[1:]] == [(name,) for name in order[1:]]
    assert [factor.given for factor in factors[1:]] == [order[:i] for i in range(1, 3)]
    np.testing.assert_allclose(product(factors).marginal(NAMES).probs, table.probs, atol=1e-15)


def test_markov_chain_factorisation_needs_a_markov_chain(table):
    start, step = JointTable("a", [0.2, 0.8]), np.array([[0.9, 0.1], [0.3, 0.7]])
    chain = start * ConditionalTable("b", "a", step) * ConditionalTable("c", "b", step)
    short = chain.chain_rule(memory=1)
    assert short[2].given == ("b",)
    np.testing.assert_allclose(product(short).probs, chain.probs, atol=1e-15)
    other = table.chain_rule(memory=1)
    assert np.abs(product(other).probs - table.probs).max() > 1e-3
    with pytest.raises(ValueError, match=r"`order` must be an order of \('a', 'b', 'c'\); got \('a', 'b'\)"):
        chain.chain_rule(["a", "b"])


def test_bayes_rule_for_all_states_at_once(table):
    prior, likelihood = table.marginal("weather"), table.conditional_table("late", "weather")
    posterior = bayes(prior, likelihood)
    assert (posterior.targets, posterior.given) == (("weather",), ("late",))
    np.testing.assert_allclose(posterior.probs, table.conditional_table("weather", "late").probs, rtol=1e-13)
    with pytest.raises(ValueError, match=r"`likelihood` must be conditional on variables of the prior"):
        bayes(table.marginal("wind"), likelihood)


def test_bayes_rule_on_arrays():
    sick = bayes([0.01, 0.99], [0.9, 0.05])
    np.testing.assert_allclose(sick, [0.009 / 0.0585, 0.0495 / 0.0585], rtol=1e-14)
    all_at_once = jax.vmap(lambda row: bayes(jnp.array([0.3, 0.7]), row))(jnp.array([[0.2, 0.4], [1.0, 0.0]]))
    np.testing.assert_allclose(all_at_once, [[0.06 / 0.34, 0.28 / 0.34], [1.0, 0.0]], rtol=1e-14)
    with pytest.raises(ImpossibleEvidence, match=r"`likelihood` must be positive where `prior` is"):
        bayes([1.0, 0.0], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"`likelihood` must be zero or positive; got -1.0 at index 0"):
        bayes([0.5, 0.5], [-1.0, 1.0])
    with pytest.raises(
        TypeError, match=r"`likelihood` must be a `ConditionalTable` when `prior` is a `JointTable`"
    ):
        bayes(JointTable("a", [0.5, 0.5]), np.array([0.1, 0.2]))


def test_impossible_evidence_names_the_variables(table):
    with pytest.raises(
        ImpossibleEvidence,
        match=r"`evidence` must be of positive probability; got P\(weather='sun', wind=3\) = 0",
    ):
        table.condition(weather="sun", wind=3)
    with pytest.raises(ImpossibleEvidence, match=r"P\(weather='sun', wind=3\) = 0"):
        table.prob(late=1, given={"weather": "sun", "wind": 3})
    quiet = jax.jit(lambda t: t.condition(weather="sun", wind=3).probs)(table)
    assert np.isnan(quiet).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: JointTable(["a", "b"], [[0.5, 0.6], [-0.1, 0.0]]),
            r"each zero or positive; got -0.1 at a=1, b=0",
        ),
        (
            lambda: JointTable(["a", "b"], [[0.5, 0.5], [np.nan, 0]]),
            r"each zero or positive; got nan at a=1, b=0",
        ),
        (
            lambda: JointTable("a", [0.5, 0.6]),
            r"`probs` must be probabilities that sum to 1 .* got a sum of 1.1",
        ),
        (lambda: JointTable("a", [[1.0]]), r"`names` must be one per axis of `probs` \(1, 1\); got \('a',\)"),
        (lambda: JointTable(["a", "a"], [[1.0]]), r"`names` must be distinct; got \('a', 'a'\)"),
        (
            lambda: JointTable("a", [0.5, 0.5], [["x"]]),
            r"`states` must be 2 states of 'a', one per cell .* got 1",
        ),
        (lambda: JointTable("a", [0.5, 0.5], [["x", "x"]]), r"`states` must be distinct states of 'a'"),
        (
            lambda: JointTable("a", [0.5, 0.5], {"b": [1]}),
            r"`states` must be given for variables among \('a',\)",
        ),
        (
            lambda: JointTable.from_counts("a", [1, -1]),
            r"`counts` must be zero or positive, and finite; got -1.0 at index 1",
        ),
        (lambda: JointTable.from_counts("a", [0, 0]), r"`counts` must be positive in at least one cell"),
        (
            lambda: ConditionalTable("b", "a", [[0.5, 0.5], [0.5, 0.6]]),
            r"sum of 1 for each given state; got .*\(a=1\)",
        ),
        (lambda: JointTable("a", [0.5, 0.5]).marginal("b"), r"`names` must be among \('a',\); got 'b'"),
        (
            lambda: JointTable("a", [0.5, 0.5]).condition(a=7),
            r"`a` must be one of its states \(0, 1\); got 7",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_from_counts_and_samples_are_empirical():
    data = {"x": ["b", "a", "b", "b"], "y": [1, 0, 1, 0]}
    found = JointTable.from_samples(data)
    assert found.states == {"x": ("a", "b"), "y": (0, 1)}
    np.testing.assert_array_equal(found.probs, [[0.25, 0.0], [0.25, 0.5]])
    np.testing.assert_allclose(
        found.conditional_table("y", "x").probs, [[1.0, 0.0], [1 / 3, 2 / 3]], rtol=1e-14
    )
    np.testing.assert_array_equal(JointTable.from_counts(["x", "y"], [[1, 0], [1, 2]]).probs, found.probs)
    np.testing.assert_array_equal(JointTable.from_samples(pd.DataFrame(data)).probs, found.probs)
    weighted = JointTable.from_samples({"x": ["b", "a", "b"], "y": [1, 0, 0]}, weights=[2.0, 1.0, 1.0])
    np.testing.assert_array_equal(weighted.probs, found.probs)


def test_from_samples_knows_categories_and_given_states():
    frame = pd.DataFrame({"size": pd.Categorical(["S", "L", "S"], categories=["S", "M", "L"])})
    found = JointTable.from_samples(frame)
    assert found.states["size"] == ("S", "M", "L")
    np.testing.assert_allclose(found.probs, [2 / 3, 0, 1 / 3], rtol=1e-14)
    fixed = JointTable.from_samples({"y": [1, 1]}, states={"y": [0, 1]})
    np.testing.assert_array_equal(fixed.probs, [0.0, 1.0])
    mixed = JointTable.from_samples({"y": np.array(["b", 1, "b"], dtype=object)})
    assert mixed.states["y"] == ("b", 1)


def test_from_samples_refuses_missing_unknown_and_uneven():
    with pytest.raises(ValueError, match=r"`y` must be without missing values; got one in row 1"):
        JointTable.from_samples({"y": np.array([1.0, np.nan])})
    with pytest.raises(ValueError, match=r"`y` must be without missing values; got one in row 0"):
        JointTable.from_samples(pd.DataFrame({"y": pd.array([None, 1], dtype="Int64")}))
    with pytest.raises(ValueError, match=r"`y` must be one of its states \(0, 1\); got 2 in row 1"):
        JointTable.from_samples({"y": [1, 2]}, states={"y": [0, 1]})
    with pytest.raises(ValueError, match=r"`y` must be as long as `x` \(2\); got 1"):
        JointTable.from_samples({"x": [1, 2], "y": [1]})
    with pytest.raises(ValueError, match=r"`weights` must be positive for at least one row"):
        JointTable.from_samples({"x": [1, 2]}, weights=[0.0, 0.0])
    wide = {f"x{i}": np.arange(10) for i in range(10)}
    with pytest.raises(ValueError, match=r"`data` must be columns with at most 134217728 joint states"):
        JointTable.from_samples(wide)
    with pytest.raises(ValueError, match=r"`data` must be a mapping with at least one column"):
        JointTable.from_samples({})


def test_expectations_match_loops(table, cells):
    def exact(function):
        return oracle.expectation(cells, NAMES, function)

    np.testing.assert_allclose(table.expectation("wind"), exact(lambda weather, wind, late: wind), rtol=1e-13)
    square = table.expectation(lambda w, late: w**2 + late, "wind", "late")
    np.testing.assert_allclose(square, exact(lambda weather, wind, late: wind**2 + late), rtol=1e-13)
    mapped = table.expectation({"sun": 70.0, "rain": 71.0}, "weather")
    np.testing.assert_allclose(
        mapped, exact(lambda weather, wind, late: 70 + (weather == "rain")), rtol=1e-13
    )
    inside = exact(lambda weather, wind, late: wind * (weather == "rain")) / exact(
        lambda weather, wind, late: weather == "rain"
    )
    np.testing.assert_allclose(table.expectation("wind", given={"weather": "rain"}), inside, rtol=1e-13)


def test_expectation_of_a_group_mean():
    sex = JointTable("sex", [0.47, 0.53], [["male", "female"]])
    np.testing.assert_allclose(sex.expectation({"male": 70, "female": 71}, "sex"), 70.53, rtol=1e-14)


def test_symbols_have_no_expectation(table):
    message = r"`weather` must be a variable with numbers as states; got the state 'sun'\. Map"
    for call in (
        lambda: table.expectation("weather"),
        lambda: table.variance("weather"),
        lambda: table.covariance("weather", "wind"),
        lambda: table.expectation(lambda w: w, "weather"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(
        ValueError,
        match=r"`quantity` must be a mapping from every state of 'weather'; got none for \['rain'\]",
    ):
        table.expectation({"sun": 1.0}, "weather")
    with pytest.raises(
        ValueError, match=r"`quantity` must be a function from arrays to an array of their shape \(3,\)"
    ):
        table.expectation(lambda w: w[:2], "wind")


@given(positive)
def test_expectation_is_linear_for_dependent_variables(weights):
    joint = build(weights)
    both = joint.expectation(lambda w, late: 2 * w - late, "wind", "late")
    np.testing.assert_allclose(both, 2 * joint.expectation("wind") - joint.expectation("late"), atol=1e-13)


@given(positive)
def test_variance_and_covariance_identities_on_tables(weights):
    joint = build(weights)
    x, y, cov = joint.variance("wind"), joint.variance("late"), joint.covariance("wind", "late")
    np.testing.assert_allclose(
        joint.variance(lambda a, b: a + b, "wind", "late"), x + y + 2 * cov, atol=1e-12
    )
    np.testing.assert_allclose(joint.variance(lambda a: 3 * a, "wind"), 9 * x, rtol=1e-12)
    np.testing.assert_allclose(joint.covariance("wind", "wind"), x, rtol=1e-12)
    mixed = joint.expectation(lambda a, b: a * b, "wind", "late")
    np.testing.assert_allclose(cov, mixed - joint.expectation("wind") * joint.expectation("late"), atol=1e-12)


def test_independent_variables_have_covariance_zero_but_not_conversely():
    apart = JointTable("x", [0.2, 0.3, 0.5], [[-1.0, 0.0, 2.0]]) * JointTable("y", [0.4, 0.6])
    np.testing.assert_allclose(apart.covariance("x", "y"), 0, atol=1e-16)
    square = JointTable(["x", "y"], [[0, 1 / 3], [1 / 3, 0], [0, 1 / 3]], {"x": [-1, 0, 1]})
    np.testing.assert_allclose(square.covariance("x", "y"), 0, atol=1e-16)
    np.testing.assert_allclose(square.mutual_information("x", "y"), 0.636514, atol=5e-7)
    assert not square.independence("x", "y")


def test_sign_of_the_covariance_tells_the_direction():
    up = JointTable(["x", "y"], [[0.4, 0.1], [0.1, 0.4]])
    down = JointTable(["x", "y"], [[0.1, 0.4], [0.4, 0.1]])
    np.testing.assert_allclose(
        [up.covariance("x", "y"), down.covariance("x", "y")], [0.15, -0.15], rtol=1e-13
    )


def test_conditional_expectation_and_the_law_of_total_expectation(table, cells):
    means = table.conditional_expectation("wind", given="weather")
    for state, mean in zip(STATES[0], means):
        row = oracle.conditional(cells, NAMES, ["wind"], {"weather": state})
        np.testing.assert_allclose(mean, sum(k[0] * p for k, p in row.items()), rtol=1e-13)
    total = np.sum(np.asarray(table.marginal("weather").probs) * np.asarray(means))
    np.testing.assert_allclose(total, table.expectation("wind"), rtol=1e-13)
    undefined = table.conditional_expectation("late", given=["weather", "wind"])
    assert np.isnan(undefined[0, 2])
    assert np.isfinite(undefined).sum() == 5
    together = table.conditional_expectation(lambda w, late: w * late, "wind", "late", given="wind")
    late = table.conditional_expectation("late", given="wind")
    np.testing.assert_allclose(together, np.array(STATES[1]) * np.asarray(late), rtol=1e-13)


def test_law_of_total_variance_on_a_table(table):
    means = table.conditional_expectation("wind", given="weather")
    squares = table.conditional_expectation(jnp.square, "wind", given="weather")
    p = np.asarray(table.marginal("weather").probs)
    within, between = p @ (squares - means**2), p @ (means - p @ means) ** 2
    np.testing.assert_allclose(within + between, table.variance("wind"), rtol=1e-12)


def test_entropies_of_a_table_match_loops(table, cells):
    def exact(*names):
        return oracle.entropy(oracle.marginal(cells, NAMES, names))

    np.testing.assert_allclose(table.entropy(), oracle.entropy(cells), rtol=1e-13)
    np.testing.assert_allclose(table.entropy("wind"), exact("wind"), rtol=1e-13)
    conditional = exact("wind", "late", "weather") - exact("weather")
    np.testing.assert_allclose(table.entropy(["wind", "late"], given="weather"), conditional, rtol=1e-12)
    np.testing.assert_allclose(table.entropy("wind", given="wind"), 0, atol=1e-15)
    information = oracle.mutual_information(cells, NAMES, ["weather"], ["late"], ["wind"])
    np.testing.assert_allclose(
        table.mutual_information("weather", "late", given="wind"), information, rtol=1e-12
    )


def test_pairwise_but_not_mutually_independent(xor):
    for first, second in itertools.combinations("abc", 2):
        pair = xor.independence(first, second)
        assert pair
        assert float(pair.deviation) == 0.0
        np.testing.assert_allclose(pair.information, 0, atol=1e-16)
    together = xor.mutual_independence()
    assert not together
    np.testing.assert_allclose(together.deviation, 0.125, rtol=1e-14)
    np.testing.assert_allclose(together.information, np.log(2), rtol=1e-14)
    given_third = xor.independence("a", "b", given="c")  # explaining away
    assert not given_third
    np.testing.assert_allclose(given_third.deviation, 0.25, rtol=1e-14)
    np.testing.assert_allclose(given_third.information, np.log(2), rtol=1e-14)
    assert not xor.independence("a", ["b", "c"])
    assert xor.mutual_independence(["a", "b"])


def test_common_cause_is_independent_only_given_the_cause():
    cause = JointTable("c", [0.3, 0.7])
    joint = (
        cause
        * ConditionalTable("a", "c", [[0.9, 0.1], [0.2, 0.8]])
        * ConditionalTable("b", "c", [[0.6, 0.4], [0.1, 0.9]])
    )
    assert joint.independence("a", "b", given="c")
    assert not joint.independence("a", "b")
    # p(a | b, c) = p(a | c), the other form of the same statement
    rows = joint.conditional_table("a", ["b", "c"]).probs
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-13)


def test_independence_ignores_conditions_of_probability_zero():
    p = np.zeros((2, 2, 2))
    p[:, :, 0] = np.outer([0.3, 0.7], [0.4, 0.6])
    joint = JointTable(["x", "y", "z"], p)
    assert joint.independence("x", "y", given="z")
    with pytest.raises(ValueError, match=r"`first, second, given` must be without a common variable"):
        joint.independence("x", "x")


def test_samples_have_the_right_frequencies(table):
    n = 40_000
    draws = table.sample(jr.key(0), (n,))
    assert set(draws) == set(NAMES)
    assert draws["weather"].dtype.kind == "U"
    p = np.asarray(table.probs)
    for index in np.ndindex(2, 3, 2):
        hits = np.logical_and.reduce([draws[name] == STATES[k][index[k]] for k, name in enumerate(NAMES)])
        if p[index] == 0:
            assert not hits.any()
        else:
            assert abs(hits.mean() - p[index]) < 5 * np.sqrt(p[index] * (1 - p[index]) / n)


def test_samples_of_any_states_are_those_states():
    pairs = JointTable("pair", [0.5, 0.5], [[("a", 1), "b"]]).sample(jr.key(2), (50,))["pair"]
    assert set(pairs) == {("a", 1), "b"}
    assert JointTable("x", [1.0, 0.0], [[2.5, 3.5]]).sample(jr.key(3))["x"] == 2.5


def test_empirical_table_of_samples_recovers_conditionals(table):
    draws = table.sample(jr.key(1), (20_000,))
    found = JointTable.from_samples(draws, states=table.states).conditional_table("late", "weather").probs
    expected = np.asarray(table.conditional_table("late", "weather").probs)
    rows = np.asarray(table.marginal("weather").probs)[:, None] * 20_000
    assert (np.abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / rows)).all()


def test_tables_pass_through_jit_vmap_and_grad(table):
    jitted = jax.jit(lambda t: t.condition(weather="rain").expectation("wind"))(table)
    np.testing.assert_allclose(jitted, table.expectation("wind", given={"weather": "rain"}), rtol=1e-14)
    stack = jax.vmap(lambda p: JointTable("a", p))(jnp.array([[0.2, 0.8], [0.5, 0.5]]))
    np.testing.assert_allclose(jax.vmap(lambda t: t.prob(a=1))(stack), [0.8, 0.5], rtol=1e-14)
    assert repr(stack) == "P(a) of shape (2, 2)"

    def mean(logits):
        return JointTable("a", jax.nn.softmax(logits), [[1.0, 2.0, 4.0]]).expectation("a")

    p, x = np.full(3, 1 / 3), np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(jax.grad(mean)(jnp.zeros(3)), p * (x - p @ x), rtol=1e-13)


def test_gradient_past_an_undefined_row_is_finite():
    def back(p):
        joint = JointTable(["a", "b"], jnp.stack([p, jnp.zeros(2)]))
        return (joint.marginal("a") * joint.conditional_table("b", "a")).probs[0, 0]

    np.testing.assert_allclose(jax.grad(back)(jnp.array([0.25, 0.75])), [1.0, 0.0], atol=1e-15)


def test_print_and_pandas(table):
    text = repr(JointTable(["rain", "late"], [[0.4, 0.1], [0.2, 0.3]], {"rain": ["no", "yes"]}))
    assert text.splitlines() == [
        "P(rain, late)",
        "rain  late  probability",
        "no    0     0.4",
        "no    1     0.1",
        "yes   0     0.2",
        "yes   1     0.3",
    ]
    assert repr(table.conditional_table("late", "wind")).startswith("P(late | wind)\nwind  late  probability")
    assert repr(JointTable("n", np.full(20, 0.05))).endswith("... and 4 more")
    series = table.to_pandas()
    assert series.index.names == list(NAMES)
    assert series["rain", 3, 1] == float(table.probs[1, 2, 1])
    assert series.groupby("wind").sum().to_numpy() == pytest.approx(np.asarray(table.marginal("wind").probs))


def test_contraction_matches_einsum_and_never_builds_the_product():
    rng = np.random.default_rng(0)
    a, b, c = rng.random((2, 3)), rng.random((3, 4)), rng.random((4, 2))
    found = contract([(["i", "j"], a), (["j", "k"], b), (["k", "l"], c)], ["l", "i"])
    np.testing.assert_allclose(found, np.einsum("ij,jk,kl->li", a, b, c), rtol=1e-13)
    step = np.array([[0.9, 0.1], [0.4, 0.6]])
    chain = [((f"x{i}", f"x{i + 1}"), step) for i in range(60)]  # 2^61 joint states
    end = contract([(("x0",), np.array([1.0, 0.0])), *chain], ["x60"])
    np.testing.assert_allclose(end, np.linalg.matrix_power(step, 60)[0], rtol=1e-12)


def test_contraction_refuses_axes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"`factors\[1\]` must be of length 2 along 'a', as before; got 3"):
        contract([(("a",), np.ones(2)), (("a",), np.ones(3))], [])
    with pytest.raises(ValueError, match=r"`factors\[0\]` must be distinct names, one per axis"):
        contract([(("a", "b"), np.ones(2))], [])
    with pytest.raises(ValueError, match=r"`keep` must be among the axes \('a',\); got \('b',\)"):
        contract([(("a",), np.ones(2))], ["b"])


def test_twenty_binary_variables():
    names = [f"x{i}" for i in range(20)]
    flat = np.random.default_rng(0).random(2**20)
    joint = JointTable(names, (flat / flat.sum()).reshape((2,) * 20))
    pair = joint.query(["x3", "x17"], given={"x0": 1, "x19": 0})
    inside = np.asarray(joint.probs)[1, ..., 0]
    axes = tuple(i for i in range(18) if i not in (2, 16))
    np.testing.assert_allclose(pair.probs, inside.sum(axes) / inside.sum(), rtol=1e-12)
    assert float(joint.independence("x3", "x17").information) < 1e-4
