"""Laws of rows on the host: densities integrate, quantiles invert, scores agree with closed forms."""

import numpy as np
import pytest
import scipy.stats as st

import tractable.distributions
from tractable.distributions.continuous import Normal
from tractable.distributions.leading_axes import unit_log_probs
from tractable.distributions.student import StudentT
from tractable.race.composed import ClassLaws, LogLaws, MixedLaws, RankedLaws, WholeLaws, log_ranks, mixed
from tractable.race.families import FAMILIES, FamilyLaws
from tractable.race.laws import NormalLaws, laws_of
from tractable.supervised.selection.recalibration import RankMap

ONE, TWO = np.array([0.3, 1.0, 2.0]), np.array([0.7, 2.0, 5.0])
PARAMETERS = {
    "StudentT": (ONE + 3, ONE, TWO), "LogNormal": (ONE, TWO / 4), "Gamma": (TWO, ONE), "Beta": (ONE, TWO),
    "Weibull": (TWO, ONE), "Poisson": (TWO,), "NegativeBinomial": (TWO, ONE / 3),
}  # fmt: skip
MAP = RankMap(*(np.asarray(v) for v in (0.2, 0.8, 1.3, [0.3, 0.2, 0.5], 0.0, 0.0)))


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_those_of_the_package(name):
    own = getattr(tractable.distributions, name)(*PARAMETERS[name])
    laws = laws_of(own)
    assert isinstance(laws, FamilyLaws)
    y = np.asarray(own.icdf(0.3))
    np.testing.assert_allclose(laws.log_density(y), unit_log_probs(own, y), rtol=1e-10)
    np.testing.assert_allclose(laws.cdf(y), own.cdf(y), rtol=1e-10)
    np.testing.assert_allclose(laws.mean, own.mean, rtol=1e-10)
    np.testing.assert_allclose(laws.variance, own.variance, rtol=1e-10)
    for level in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(laws.quantile(level), own.icdf(level), rtol=1e-8, atol=1e-12)


def test_distributions_become_their_laws():
    y = np.array([0.1, 2.0])
    for made, oracle in ((Normal([0.0, 1.0], 2.0), st.norm([0, 1], 2)),
                         (StudentT([4.0, 5.0], [0.0, 1.0], 2.0), st.t([4, 5], [0, 1], 2))):  # fmt: skip
        np.testing.assert_allclose(laws_of(made).log_density(y), oracle.logpdf(y), rtol=1e-12)


def test_a_grid_of_normals_keeps_its_moments_and_nearly_its_density():
    from tractable.distributions.normal_mixture import NormalMixture

    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(400))
    size = np.exp(0.2 * rng.normal(size=400)) * np.array([[1.0], [2.0], [0.7]])
    loc, scale = 0.1 * rng.normal(size=(3, 400)), size
    found, whole = laws_of(NormalMixture(weights, loc, scale)), NormalLaws(weights, loc, scale)
    assert found.loc.shape[1] <= 24
    np.testing.assert_allclose(found.mean, whole.mean, atol=1e-12)
    np.testing.assert_allclose(found.variance, whole.variance, rtol=1e-10)
    y = np.array([-2.0, 0.3, 2.0])
    np.testing.assert_allclose(found.log_density(y), whole.log_density(y), atol=5e-3)


def _composed():
    normal = NormalLaws(1.0, np.array([0.0, 1.0]), np.array([1.0, 0.5]))
    student = FamilyLaws("StudentT", (np.full(2, 6.0), np.zeros(2), np.ones(2)))
    mixture = MixedLaws([0.3, 0.7], [normal, student])
    count = FamilyLaws("NegativeBinomial", (np.array([2.0, 5.0]), np.array([0.4, 0.6])))
    return {
        "mixture": mixture, "logarithm": LogLaws(normal), "ranked": RankedLaws(mixture, MAP),
        "whole": WholeLaws(normal), "ranked count": RankedLaws(count, MAP),
    }  # fmt: skip


@pytest.mark.cheap
@pytest.mark.parametrize("name", _composed())
def test_densities_of_composed_laws_have_mass_one_and_their_moments(name):
    laws = _composed()[name]
    for row in range(2):
        if laws.discrete:
            grid = np.arange(0.0, 400.0)
            weights = np.ones(len(grid))
        else:
            grid = np.geomspace(1e-6, 5e3, 60_001) if name == "logarithm" else np.linspace(-80, 80, 60_001)
            weights = np.gradient(grid)
        alone = laws.take(np.full(len(grid), row))
        mass = weights * np.exp(alone.log_density(grid))
        mean = (mass * grid).sum()
        assert mass.sum() == pytest.approx(1, abs=1e-4)
        assert laws.mean[row] == pytest.approx(mean, abs=2e-3)
        assert laws.variance[row] == pytest.approx((mass * (grid - mean) ** 2).sum(), rel=2e-2)
        np.testing.assert_allclose(np.cumsum(mass)[::100], alone.cdf(grid)[::100], atol=2e-2)


@pytest.mark.cheap
@pytest.mark.parametrize("name", _composed())
def test_quantiles_of_composed_laws_invert_the_distribution_function(name):
    laws = _composed()[name]
    for level in (0.05, 0.5, 0.9):
        found = laws.quantile(level)
        if laws.discrete:
            assert (laws.cdf(found) >= level - 1e-12).all()
            assert (laws.cdf(found - 1) < level).all()
        else:
            np.testing.assert_allclose(laws.cdf(found), level, atol=1e-9)


def test_the_ranked_probability_score_of_a_normal_has_its_closed_form():
    y, laws = np.array([0.5, -3.0]), NormalLaws(1.0, np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    z = (y - laws.mean) / laws.std
    expected = laws.std * (z * (2 * st.norm.cdf(z) - 1) + 2 * st.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(laws.crps(y), expected, rtol=1e-8)


def test_the_ranked_probability_score_of_counts_is_its_sum():
    laws, y = FamilyLaws("Poisson", (np.array([2.0, 9.0]),)), np.array([0.0, 12.0])
    k = np.arange(200)
    expected = [((st.poisson.cdf(k, m) - (k >= v)) ** 2).sum() for m, v in ((2, 0), (9, 12))]
    np.testing.assert_allclose(laws.crps(y), expected, rtol=1e-8)


def test_ranks_of_right_laws_are_uniform_and_mixtures_of_classes_are_shares():
    rng = np.random.default_rng(1)
    laws = NormalLaws(1.0, np.zeros(4000), np.ones(4000))
    low, up = log_ranks(laws, rng.normal(size=4000))
    assert st.kstest(np.exp(low), "uniform").pvalue > 0.01
    np.testing.assert_allclose(np.exp(low) + np.exp(up), 1)
    one, two = ClassLaws(np.array([[0.2, 0.8]])), ClassLaws(np.array([[0.6, 0.4]]))
    np.testing.assert_allclose(mixed([0.25, 0.75], [one, two]).shares, [[0.5, 0.5]])
