"""Maximum entropy: uniform, loaded dice, Gaussian; averages that no distribution has."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from tractable.core.iterate import Status
from tractable.optim.maximum_entropy import maximum_entropy, maximum_entropy_density

FACES = np.arange(1.0, 7.0)


@pytest.mark.parametrize("k", [1, 2, 6])
def test_without_averages_it_is_uniform(k):
    free = maximum_entropy(np.empty((0, k)), np.empty(0))
    np.testing.assert_allclose(free.probs, np.full(k, 1 / k), rtol=1e-14)
    np.testing.assert_allclose(free.entropy(), np.log(k), atol=1e-14)
    assert free.run.status is Status.converged


@pytest.mark.parametrize("mean", [1.2, 3.5, 4.5, 5.9999])
def test_dice_of_a_given_mean(mean):
    """The multiplier is the root of one equation, found here by bracketing."""

    def excess(slope):
        weights = np.exp(slope * (FACES - 6 * (slope > 0)))
        return FACES @ weights / weights.sum() - mean

    slope = brentq(excess, -40, 40, xtol=1e-14)
    weights = np.exp(slope * FACES)
    dice = maximum_entropy(FACES[None], np.array([mean]))
    np.testing.assert_allclose(dice.multipliers, [slope], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(dice.probs, weights / weights.sum(), rtol=1e-8)
    np.testing.assert_allclose(dice.log_partition, np.log(weights.sum()), rtol=1e-9)
    own = dice.log_partition - dice.multipliers[0] * mean
    np.testing.assert_allclose(dice.entropy(), own, rtol=1e-9, atol=1e-12)
    assert dice.run.status is Status.converged


def test_no_other_distribution_with_the_same_averages_has_more_entropy():
    """Against a general constrained optimiser."""
    features, targets = np.stack([FACES, FACES**2]), np.array([4.0, 18.0])
    solved = maximum_entropy(features, targets)
    constraints = [{"type": "eq", "fun": lambda p: p.sum() - 1}]
    constraints.append({"type": "eq", "fun": lambda p: features @ p - targets})
    bounds = [(1e-12, 1)] * 6
    start = np.full(6, 1 / 6)
    best = minimize(lambda p: p @ np.log(p), start, bounds=bounds, constraints=constraints, tol=1e-14)
    np.testing.assert_allclose(features @ np.asarray(solved.probs), targets, rtol=1e-12)
    np.testing.assert_allclose(solved.entropy(), -best.fun, rtol=1e-7)
    np.testing.assert_allclose(solved.probs, best.x, atol=1e-5)


@hypothesis.given(st.integers(0, 10**6))
def test_averages_are_met_and_the_form_is_exponential(seed):
    rng = np.random.default_rng(seed)
    features, start = rng.normal(size=(2, 6)) * 10, rng.dirichlet(np.ones(6))
    targets = features @ start
    solved = maximum_entropy(features, targets)
    np.testing.assert_allclose(features @ np.asarray(solved.probs), targets, atol=1e-7)
    logits = np.asarray(solved.multipliers) @ features - float(solved.log_partition)
    np.testing.assert_allclose(np.log(solved.probs), logits, rtol=1e-7, atol=1e-7)
    assert float(solved.entropy()) >= -(start @ np.log(start)) - 1e-9


def test_an_average_given_twice_changes_nothing():
    once = maximum_entropy(FACES[None], np.array([4.5]))
    twice = maximum_entropy(np.stack([FACES, 2 * FACES]), np.array([4.5, 9.0]))
    np.testing.assert_allclose(twice.probs, once.probs, rtol=1e-10)


def test_an_average_at_the_edge_leaves_only_the_outcomes_on_it():
    edge = maximum_entropy(FACES[None], np.array([6.0]))
    np.testing.assert_array_equal(edge.probs, [0, 0, 0, 0, 0, 1])
    assert float(edge.entropy()) == 0.0
    even = np.array([[1.0, 1.0, 0.0, 0.0, 1.0, 1.0]])  # probability one on four faces
    np.testing.assert_allclose(maximum_entropy(even, np.ones(1)).probs, even[0] / 4, rtol=1e-12)


# The certificate


def test_the_conditions_prove_an_answer_with_equalities():
    features, targets = np.stack([FACES, FACES**2]), np.array([4.0, 18.0])
    report = maximum_entropy(features, targets).report(features, targets, tol=1e-8)
    assert report.ok, report
    assert float(report.stationarity) < 1e-9
    assert float(report.equality) < 1e-9
    wrong = maximum_entropy(features, targets + np.array([0.0, 0.1])).report(features, targets)
    assert not wrong.ok  # the averages of another problem


def test_bounds_that_hold_and_bounds_that_do_not_matter():
    """The mean is pressed to at least 4.5; the bound on large faces leaves room, so its price is zero."""
    features, targets = (FACES % 2)[None], np.array([0.4])
    at_most = (np.stack([-FACES, (FACES > 5).astype(float)]), np.array([-4.5, 0.9]))
    solved = maximum_entropy(features, targets, at_most=at_most)
    report = solved.report(features, targets, at_most, tol=1e-7)
    assert report.ok, report
    assert solved.run.status is Status.converged
    lam = np.asarray(solved.multipliers)
    assert lam[1] < -0.1  # the first bound is reached and has a price
    assert lam[2] == 0.0  # the second has none: complementary slackness
    probs = np.asarray(solved.probs)
    np.testing.assert_allclose(probs @ FACES, 4.5, atol=1e-8)
    assert probs[5] < 0.9
    equal = maximum_entropy(np.stack([features[0], FACES]), np.array([0.4, 4.5]))
    np.testing.assert_allclose(probs, equal.probs, atol=1e-8)
    # stated with the wrong prices the same point is refused
    swapped = eqx.tree_at(lambda s: s.multipliers, solved, solved.multipliers[jnp.array([0, 2, 1])])
    assert not swapped.report(features, targets, at_most).ok


@pytest.mark.parametrize("seed", range(4))
def test_random_bounds_against_a_general_optimiser(seed):
    rng = np.random.default_rng(seed)
    features, more, inside = rng.normal(size=(1, 6)), rng.normal(size=(3, 6)), rng.dirichlet(np.ones(6))
    targets, bounds = features @ inside, more @ inside + rng.uniform(0, 0.1, 3)
    solved = maximum_entropy(features, targets, at_most=(more, bounds))
    assert solved.report(features, targets, (more, bounds), tol=1e-6).ok
    constraints = [
        {"type": "eq", "fun": lambda p: np.r_[p.sum() - 1, features @ p - targets]},
        {"type": "ineq", "fun": lambda p: bounds - more @ p},
    ]
    options = {"bounds": [(1e-12, 1)] * 6, "constraints": constraints, "tol": 1e-13}
    best = minimize(lambda p: p @ np.log(p), inside, **options)
    np.testing.assert_allclose(solved.entropy(), -best.fun, rtol=1e-6)


def test_bounds_that_no_distribution_meets_are_an_error():
    with pytest.raises(ValueError, match="`targets` must be averages that some distribution has"):
        maximum_entropy(np.empty((0, 6)), np.empty(0), at_most=(FACES[None], np.array([0.5])))
    with pytest.raises(ValueError, match="over the same 6 outcomes"):
        maximum_entropy(FACES[None], np.array([3.0]), at_most=(np.ones((1, 5)), np.ones(1)))


# Densities on a grid


@pytest.mark.parametrize(("sd", "entropy"), [(1.0, 1.418939), (2.0, 1.418939 + np.log(2.0))])
def test_fixed_variance_gives_the_gaussian(sd, entropy):
    mean, grid = 0.3, np.linspace(-10, 10, 2001) * sd
    solved = maximum_entropy_density(grid, ((grid - mean) ** 2)[None], np.array([sd**2]))
    assert float(solved.multipliers[0]) == pytest.approx(-1 / (2 * sd**2), rel=1e-8)
    assert float(solved.entropy()) == pytest.approx(entropy, abs=5e-7)
    normal = np.exp(-0.5 * ((grid - mean) / sd) ** 2) / np.sqrt(2 * np.pi) / sd
    np.testing.assert_allclose(solved.density, normal, atol=1e-9)
    exact = np.log(np.sqrt(2 * np.pi) * sd)  # Z = sqrt(2 pi sd^2)
    assert float(solved.log_partition) == pytest.approx(exact, rel=1e-8)


def test_gaussian_has_more_entropy_than_laplace_and_uniform_of_the_same_variance():
    wide, narrow = np.linspace(-15, 15, 15_001), np.linspace(-np.sqrt(3), np.sqrt(3), 15_001)
    gaussian = maximum_entropy_density(wide, wide[None] ** 2, np.ones(1))
    laplace = maximum_entropy_density(wide, np.abs(wide)[None], np.array([1 / np.sqrt(2)]))
    uniform = maximum_entropy_density(narrow, np.empty((0, 15_001)), np.empty(0))
    for solved, grid in (gaussian, wide), (laplace, wide), (uniform, narrow):
        assert np.asarray(solved.probs) @ grid**2 == pytest.approx(1.0, abs=0.002**2)  # trapezoid
    entropies = [float(solved.entropy()) for solved in (gaussian, laplace, uniform)]
    np.testing.assert_allclose(entropies, [1.418939, 1.346574, 1.242453], atol=0.002**2)
    assert entropies[0] > entropies[1] > entropies[2]


def test_solution_under_jit_matches():
    by_jit = jax.jit(lambda c: maximum_entropy(jnp.asarray(FACES[None]), c).probs)(jnp.array([4.5]))
    np.testing.assert_allclose(by_jit, maximum_entropy(FACES[None], np.array([4.5])).probs, rtol=1e-12)


def test_the_verdict_is_printed():
    short = maximum_entropy(FACES[None], np.array([5.99]), max_steps=1)
    assert not short.run.status.ok
    assert "max_steps" in repr(short)
    assert "Converged" in repr(maximum_entropy(FACES[None], np.array([5.99])))


@pytest.mark.parametrize(
    ("features", "targets", "message"),
    [
        (
            FACES[None],
            [7.0],
            r"`targets` must be averages that some distribution has, .*within \[1, 6\]\); got \[7.0\]",
        ),
        (np.stack([FACES, FACES]), [4.5, 4.4], "`targets` must be averages that some distribution has"),
        (np.stack([FACES, FACES**2]), [3.0, 8.0], "`targets` must be averages that some distribution has"),
        (FACES, [3.0], "`features` must be a matrix: one row per average"),
        (
            FACES[None],
            [3.0, 1.0],
            r"`targets` must be one number per row of `features`, \(1,\); got shape \(2,\)",
        ),
        (FACES[None] * np.nan, [3.0], "`features` must be finite; got nan"),
        (FACES[None], [np.inf], "`targets` must be finite; got inf at index 0"),
        (np.empty((0, 0)), [], "`features` must be over at least one outcome"),
    ],
)
def test_problems_without_a_solution_are_refused(features, targets, message):
    with pytest.raises(ValueError, match=message):
        maximum_entropy(features, np.asarray(targets, float))


def test_a_bad_grid_or_base_is_refused():
    with pytest.raises(ValueError, match="`grid` must be strictly increasing"):
        maximum_entropy_density(np.array([0.0, 2.0, 1.0]), np.ones((1, 3)), np.ones(1))
    with pytest.raises(ValueError, match=r"`base` must be positive and finite; got 0\.0 at index 1"):
        maximum_entropy(np.ones((1, 2)), np.ones(1), np.array([1.0, 0.0]))
