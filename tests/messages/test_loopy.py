"""Loopy messages: exact on trees, near enumeration on loops, and a verdict in every case."""

import itertools
import sys

import numpy as np
import pytest

from tests.oracles.factors import joint, loopy_fixed_point, marginal, random_forest
from tractable.core.checks import ImpossibleEvidence
from tractable.core.iterate import Status, count_traces
from tractable.core.programs import program
from tractable.distributions.tables import ConditionalTable
from tractable.messages import loopy_bounds
from tractable.messages.cost import Budget
from tractable.messages.loopy import _iterate, loopy
from tractable.messages.potentials import Table
from tractable.messages.tree import propagate

SCHEDULES = ("flooding", "sequential", "residual")
GENERATOR = np.random.default_rng(3)
LOOP_SCOPES = [(0, 1), (1, 2, 3), (2, 3)]
LOOP_TABLES = [GENERATOR.uniform(0.5, 1.5, size=[(2, 3, 2, 3)[v] for v in scope]) for scope in LOOP_SCOPES]
LOOP = {
    f"f{i}": Table.from_values([f"x{v + 1}" for v in scope], table)
    for i, (scope, table) in enumerate(zip(LOOP_SCOPES, LOOP_TABLES), 1)
}
LOOP_JOINT = joint(LOOP_SCOPES, LOOP_TABLES, (2, 3, 2, 3))
SPRINKLER = {
    "pc": ConditionalTable("cloudy", (), [0.5, 0.5]),
    "ps": ConditionalTable("sprinkler", "cloudy", [[0.5, 0.5], [0.9, 0.1]]),
    "pr": ConditionalTable("rain", "cloudy", [[0.8, 0.2], [0.2, 0.8]]),
    "pw": ConditionalTable(
        "wet", ["sprinkler", "rain"], [[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]]
    ),
}
WET_SCOPES = [(0,), (0, 1), (0, 2), (1, 2, 3)]
WET_TABLES = [np.asarray(t.probs) for t in SPRINKLER.values()]
WET = joint(WET_SCOPES, WET_TABLES, (2, 2, 2, 2))


def cycle(coupling, num=3):
    edge = np.exp(coupling * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    return [Table.from_values([f"x{i}", f"x{(i + 1) % num}"], edge) for i in range(num)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_exact_on_forests_with_zeros(schedule):
    scopes, tables, sizes = random_forest(np.random.default_rng(12), 6, zeros=0.2)
    full = joint(scopes, tables, sizes)
    assert full.sum() > 0
    factors = [Table.from_values([f"v{v}" for v in scope], t) for scope, t in zip(scopes, tables)]
    beliefs = loopy(factors, schedule=schedule)
    assert beliefs.exact
    assert beliefs.status is Status.converged
    assert beliefs.verdict.ok
    assert "exact: the graph is a tree" in repr(beliefs)
    for i in range(6):
        np.testing.assert_allclose(beliefs.marginal(f"v{i}").probs, marginal(full, (i,)), atol=1e-12)
    for k, scope in enumerate(scopes, 1):
        np.testing.assert_allclose(beliefs.factor_marginal(f"f{k}").probs, marginal(full, scope), atol=1e-12)
    assert beliefs.log_total == pytest.approx(np.log(full.sum()), abs=1e-11)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_loop_of_two_shared_variables_against_enumeration(schedule):
    beliefs = loopy(LOOP, schedule=schedule, damping=0.2)
    assert beliefs.status is Status.converged
    assert not beliefs.exact
    assert not beliefs.verdict.ok
    assert "approximate: the graph has loops" in repr(beliefs)
    found = [np.asarray(beliefs.marginal(f"x{i}").probs) for i in range(1, 5)]
    errors = [np.abs(found[i] - marginal(LOOP_JOINT, (i,))).max() for i in range(4)]
    assert 1e-8 < max(errors) < 0.02  # near, but not exact
    assert beliefs.log_total == pytest.approx(np.log(LOOP_JOINT.sum()), abs=0.02)
    for i, belief in enumerate(loopy_fixed_point(LOOP_SCOPES, LOOP_TABLES, (2, 3, 2, 3), {})):
        np.testing.assert_allclose(beliefs.marginal(f"x{i + 1}").probs, belief, atol=1e-8)
    reference = loopy(LOOP)  # the fixed point does not depend on how it was reached
    for name in ("x1", "x2", "x3", "x4"):
        np.testing.assert_allclose(beliefs.marginal(name).probs, reference.marginal(name).probs, atol=1e-8)
    pair = np.asarray(beliefs.factor_marginal("f3").probs)
    np.testing.assert_allclose(pair.sum(1), beliefs.marginal("x3").probs, atol=1e-8)


def test_the_sprinkler_network():
    assert WET[..., 1].sum() == pytest.approx(0.6471)
    prior = loopy(SPRINKLER)
    wet = prior.marginal("wet").prob(wet=1)
    assert float(wet) == pytest.approx(0.6471, abs=0.05)
    np.testing.assert_allclose(prior.marginal("rain").probs, [0.5, 0.5], atol=1e-8)
    posterior = loopy(SPRINKLER, {"wet": 1})
    assert posterior.status is Status.converged
    assert float(posterior.marginal("sprinkler").prob(sprinkler=1)) == pytest.approx(0.4297636, abs=0.1)
    assert float(posterior.marginal("rain").prob(rain=1)) == pytest.approx(0.7079277, abs=0.1)
    assert posterior.log_total == pytest.approx(np.log(0.6471), abs=0.15)  # biased: that is what loops do
    slow = loopy_fixed_point(WET_SCOPES, WET_TABLES, (2, 2, 2, 2), {3: 1})
    for name, belief in zip(("cloudy", "sprinkler", "rain", "wet"), slow):
        np.testing.assert_allclose(posterior.marginal(name).probs, belief, atol=1e-8)
    cut = loopy(SPRINKLER, {"wet": 1, "sprinkler": 1})  # evidence cuts the loop: exact
    assert float(cut.marginal("rain").prob(rain=1)) == pytest.approx(0.3203883, abs=1e-7)
    assert float(cut.marginal("cloudy").prob(cloudy=1)) == pytest.approx(0.1747573, abs=1e-7)
    given_rain = loopy(SPRINKLER, {"wet": 1, "rain": 1})
    assert float(given_rain.marginal("sprinkler").prob(sprinkler=1)) == pytest.approx(0.1944990, abs=1e-7)


def test_the_bethe_total_of_a_cycle():
    beliefs = loopy(cycle(1.0))  # by symmetry the fixed point is uniform: Z_Bethe = (2 cosh 1)^3
    assert beliefs.log_total == pytest.approx(3 * np.log(2 * np.cosh(1.0)), abs=1e-12)
    exact = np.log((2 * np.cosh(1.0)) ** 3 + (2 * np.sinh(1.0)) ** 3)
    assert exact == pytest.approx(np.log(42.3783505), abs=1e-9)
    assert exact - beliefs.log_total == pytest.approx(np.log1p(np.tanh(1.0) ** 3), abs=1e-12)  # the loop


def test_non_convergence_is_said_and_damping_cures_it():
    field = [Table.from_values("x0", [1.0, 1.5]), Table.from_values("x1", [1.3, 1.0])]
    edge = -2.0 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    frustrated = field + [Table([f"x{a}", f"x{b}"], edge) for a, b in itertools.combinations(range(4), 2)]
    restless = loopy(frustrated, max_steps=500)
    assert restless.status is Status.exhausted
    assert "Not converged after 500 sweeps" in repr(restless)
    short = loopy(LOOP, max_steps=2)
    assert short.status is Status.exhausted
    assert not short.exact
    assert "Not converged after 2 sweeps" in repr(short)
    assert len(short.residuals) == 2
    calm = loopy(frustrated, damping=0.5, max_steps=2000)
    assert calm.status is Status.converged


def test_max_sum_finds_the_maximum_of_a_tree_and_a_value_on_loops():
    tree = [LOOP["f1"], LOOP["f2"]]
    full = np.einsum("ab,bcd->abcd", *LOOP_TABLES[:2])
    beliefs = loopy(tree, semiring="max_sum")
    assignment, log_value = beliefs.most_probable()
    assert tuple(assignment[f"x{i}"] for i in range(1, 5)) == np.unravel_index(full.argmax(), full.shape)
    assert log_value == pytest.approx(np.log(full.max()), abs=1e-12)
    looped, value = loopy(LOOP, semiring="max_sum", damping=0.3).most_probable()
    states = tuple(looped[f"x{i}"] for i in range(1, 5))
    assert value == pytest.approx(np.log(LOOP_JOINT[states]), abs=1e-12)
    assert value <= np.log(LOOP_JOINT.max()) + 1e-12
    with pytest.raises(ValueError, match="`semiring` must be sum_product, to have a total"):
        beliefs.log_total
    assert f"log_value={log_value:.6g}" in repr(beliefs)
    assert "log_total" not in repr(beliefs)


def test_likelihoods_constants_and_evidence():
    tree = {"f1": LOOP["f1"], "f2": LOOP["f2"], "c": Table((), np.log(3.0))}
    options = {"evidence": {"x2": [0, 2]}, "likelihoods": {"x4": [0.5, 1.0, 2.0]}}
    beliefs, exact = loopy(tree, **options), propagate(tree, **options)
    assert beliefs.log_total == pytest.approx(float(exact.total), abs=1e-12)
    for name in ("x1", "x2", "x3", "x4"):
        np.testing.assert_allclose(beliefs.marginal(name).probs, exact.marginal(name).probs, atol=1e-12)
    with pytest.raises(ImpossibleEvidence, match="no possible state of"):
        loopy(SPRINKLER, {"sprinkler": 0, "rain": 0, "wet": 1})


@pytest.mark.cheap
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_new_potentials_do_not_compile_again(schedule, monkeypatch):
    counted = count_traces(_iterate.__wrapped__)
    monkeypatch.setattr(sys.modules[loopy.__module__], "_iterate", program(counted))
    loopy(LOOP, schedule=schedule)
    changed = {f: Table(t.names, t.log_values * 0.5) for f, t in LOOP.items()}
    loopy(changed, {"x1": 0}, schedule=schedule)
    assert counted.count == 1


def test_a_grid_of_spins_keeps_its_symmetry():
    spins = [f"s{i}{j}" for i, j in itertools.product(range(4), repeat=2)]
    edge = 0.3 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    pairs = [(f"s{i}{j}", f"s{i + 1}{j}") for i in range(3) for j in range(4)]
    pairs += [(f"s{i}{j}", f"s{i}{j + 1}") for i in range(4) for j in range(3)]
    beliefs = loopy([Table(p, edge) for p in pairs])
    for name in spins:
        np.testing.assert_allclose(beliefs.marginal(name).probs, [0.5, 0.5], atol=1e-12)
    scopes = [(spins.index(a), spins.index(b)) for a, b in pairs]
    states = np.array(list(itertools.product((1, -1), repeat=16)))
    energy = sum(states[:, a] * states[:, b] for a, b in scopes)
    assert beliefs.log_total == pytest.approx(np.log(np.exp(0.3 * energy).sum()), abs=0.15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "random"}, "`schedule` must be one of 'flooding', 'sequential', 'residual'"),
        ({"damping": 1.0}, "`damping` must be at least 0 and below 1; got 1.0"),
        ({"semiring": "counting"}, "`semiring` must be sum_product or max_sum; got Counting"),
        ({"max_steps": 0}, "`max_steps` must be a whole number of at least 1"),
        ({"evidence": {"x9": 0}}, "`evidence` must be about variables among"),
    ],
)
def test_bad_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        loopy(LOOP, **options)


def random_field(seed, strength, num=8):
    """Three-state variables on a ring with chords, and their joint table; some pairs of states impossible."""
    generator = np.random.default_rng(seed)
    pairs = [(i, (i + 1) % num) for i in range(num)] + [(i, i + num // 2) for i in range(0, num // 2, 2)]
    scopes = [*pairs, *((i,) for i in range(num))]
    tables = [np.exp(strength * generator.normal(size=(3,) * len(scope))) for scope in scopes]
    if seed % 2:
        tables[0][0, 1] = tables[1][2, 0] = 0.0
    factors = [Table.from_values([f"x{v}" for v in scope], table) for scope, table in zip(scopes, tables)]
    return factors, joint(scopes, tables, (3,) * num)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cheap", [True, False])
def test_bounds_hold_and_the_verdict_is_good_only_where_they_are_tight(seed, cheap, monkeypatch):
    if not cheap:  # as if no exact answer were at hand, and regions were small
        monkeypatch.setattr(loopy_bounds, "_CHEAP", Budget(0, 0))
        monkeypatch.setattr(loopy_bounds, "_CELLS", 3**3)
    factors, full = random_field(seed, strength=(0.02, 0.3, 1.5)[seed % 3])
    beliefs, worst, wide = loopy(factors, damping=0.3), 0.0, 0.0
    for i in range(8):
        truth, (low, high) = marginal(full, (i,)), beliefs.bounds(f"x{i}")
        assert (low <= truth + 1e-12).all()
        assert (truth <= high + 1e-12).all()
        assert (low >= 0).all()
        assert (high <= 1).all()
        worst = max(worst, np.abs(beliefs.marginal(f"x{i}").probs - truth).max())
        wide = max(wide, (high - low).max())
    if beliefs.status is Status.converged:
        assert beliefs.error >= worst - 1e-12
        assert not cheap or beliefs.error == pytest.approx(worst, abs=1e-12)
        assert cheap or 0 < wide < 1  # a bound that says something
    assert beliefs.verdict.ok == (beliefs.status is Status.converged and beliefs.error <= 1e-3)


def test_a_fixed_point_that_is_wrong_is_not_trusted():
    """Two states that attract each other strongly around a loop, with a weak pull: beliefs near one."""
    pull = Table.from_values(["x0"], np.exp([0.2, -0.2]))
    beliefs = loopy([*cycle(1.5, num=4), pull], damping=0.3)
    assert beliefs.status is Status.converged
    assert beliefs.error > 0.1
    assert not beliefs.verdict.ok
    assert f"a belief is off by up to {beliefs.error:.2g}" in repr(beliefs)
    assert beliefs.verdict.numbers["error"] == beliefs.error


def test_nothing_is_claimed_where_nothing_is_known():
    pull = Table.from_values(["x0"], np.exp([0.2, -0.2]))
    assert loopy([*cycle(1.0), pull], max_steps=2, damping=0.5).error == 1.0
    largest = loopy(cycle(0.5), semiring="max_sum")
    assert largest.error == 1.0
    assert not largest.verdict.ok
    with pytest.raises(ValueError, match="to have marginals"):
        largest.bounds("x0")
