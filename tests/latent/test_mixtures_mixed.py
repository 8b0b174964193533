"""Mixtures of numbers and categories: densities by SciPy, gaps by enumeration, limits with one kind alone."""

import jax.random as jr
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tractable.datasets import iris
from tractable.inference.expectation_maximisation.em import EM
from tractable.latent.mixtures.discrete import DiscreteMixture
from tractable.latent.mixtures.fitting import gaussian_mixture
from tractable.latent.mixtures.gaussian import GaussianMixture
from tractable.latent.mixtures.mixed import MixedMixture, mixed_mixture

RNG = np.random.default_rng(0)
WEIGHTS = np.array([0.3, 0.7])
MEANS = np.array([[0.0, 0.0], [3.0, 1.0]])
COVS = np.array([[[1.0, 0.4], [0.4, 2.0]], [[0.5, 0.0], [0.0, 0.5]]])
TABLES = np.array([[0.8, 0.2, 0.1, 0.6, 0.3], [0.1, 0.9, 0.5, 0.25, 0.25]])  # two states, then three
SIZES = (2, 3)
MODEL = MixedMixture(
    GaussianMixture(WEIGHTS, MEANS, COVS), DiscreteMixture("categorical", WEIGHTS, TABLES, SIZES)
)
NUMBERS = RNG.normal(size=(40, 2)) * 2
CODES = np.stack([RNG.integers(0, 2, 40), RNG.integers(0, 3, 40)], axis=1).astype(float)
EMPTY = np.zeros((40, 0))


def log_density(numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """One row and one component at a time."""
    found = []
    for x, c in zip(numbers, codes):
        terms = [
            np.log(WEIGHTS[k])
            + multivariate_normal(MEANS[k], COVS[k]).logpdf(x)
            + np.log(TABLES[k, int(c[0])])
            + np.log(TABLES[k, 2 + int(c[1])])
            for k in range(2)
        ]
        found.append(np.logaddexp(*terms))
    return np.array(found)


def test_density_is_that_of_independent_columns_given_the_component():
    np.testing.assert_allclose(MODEL.log_prob((NUMBERS, CODES)), log_density(NUMBERS, CODES), rtol=1e-12)


def test_a_missing_category_is_the_sum_over_its_states():
    hidden = CODES.copy()
    hidden[:, 1] = np.nan
    every = [np.column_stack([CODES[:, 0], np.full(40, s)]) for s in range(3)]
    summed = np.logaddexp.reduce([log_density(NUMBERS, codes) for codes in every])
    np.testing.assert_allclose(MODEL.log_prob((NUMBERS, hidden)), summed, rtol=1e-12)


@pytest.mark.thorough
def test_a_missing_number_is_integrated_out():
    hidden = NUMBERS.copy()
    hidden[:, 1] = np.nan
    grid = np.linspace(-15, 15, 4001)
    for row in range(3):
        points = np.column_stack([np.full(grid.size, NUMBERS[row, 0]), grid])
        density = np.exp(log_density(points, np.tile(CODES[row], (grid.size, 1))))
        exact = np.log(np.trapezoid(density, grid))
        found = MODEL.log_prob((hidden[row : row + 1], CODES[row : row + 1]))[0]
        assert found == pytest.approx(exact, abs=1e-8)


def test_em_climbs_with_gaps_in_both_kinds_and_settles_where_the_gradient_is_zero():
    numbers, codes = NUMBERS.copy(), CODES.copy()
    numbers[::5, 0] = np.nan
    codes[::7, 1] = np.nan
    run = EM(tol=1e-12, max_steps=2000).fit(MODEL, (numbers, codes))
    assert (np.diff(run.values) >= -1e-10 * np.abs(run.values[1:])).all()
    best, value = run.state, run.values[-1]
    for k, direction in ((0, 1e-3), (1, -1e-3)):
        means = np.array(best.numbers.means)
        means[k, 0] += direction
        moved = MixedMixture(GaussianMixture(best.weights, means, best.numbers.covariances), best.categories)
        assert moved.log_prob((numbers, codes)).sum() < value


def test_numbers_alone_are_a_gaussian_mixture_and_categories_alone_a_latent_class():
    X = iris().features
    mixed = mixed_mixture((X, np.zeros((150, 0))), 2, key=jr.key(0))
    alone = gaussian_mixture(X, 2, key=jr.key(0))
    assert mixed.bic == pytest.approx(574.0178322698165, abs=0.01)  # as found here once: a guard
    assert mixed.bic == pytest.approx(alone.bic, abs=0.01)
    fit = mixed_mixture((EMPTY, CODES), 2, key=jr.key(1))
    table = fit.state.categories
    np.testing.assert_allclose(fit.log_likelihood, table.log_prob(CODES), rtol=1e-12)
    assert fit.state.num_parameters == 1 + 2 * (1 + 2)


def test_a_weight_of_two_is_the_row_twice_and_zero_is_absent():
    counts = RNG.integers(0, 3, 40).astype(float)
    index = np.repeat(np.arange(40), counts.astype(int))
    weighted = EM(tol=0.0, max_steps=5).fit(MODEL, (NUMBERS, CODES), weights=counts)
    repeated = EM(tol=0.0, max_steps=5).fit(MODEL, (NUMBERS[index], CODES[index]))
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-12)


def test_rows_in_chunks_give_the_fit_of_all_rows():
    whole = EM(tol=0.0, max_steps=5).fit(MODEL, (NUMBERS, CODES))
    parts = EM(tol=0.0, max_steps=5).fit(MODEL, (NUMBERS, CODES), chunk=7)
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-12)


def test_faults_are_named():
    with pytest.raises(ValueError, match="`rows` must be at least as many as components"):
        mixed_mixture((NUMBERS[:2], CODES[:2]), 3, key=jr.key(0))
    with pytest.raises(ValueError, match="`rows` must be two matrices with a column at least"):
        mixed_mixture((EMPTY, EMPTY), 1, key=jr.key(0))
    with pytest.raises(ValueError, match="`weights` must be positive for at least one row"):
        mixed_mixture((NUMBERS, CODES), 1, key=jr.key(0), weights=np.zeros(40))
