"""Boosting of laws: slopes and information by sums, copies and weights, units, honest spreads."""

import numpy as np
import pytest
from scipy import stats

from tractable.supervised.boosting.class_laws import BernoulliLaw, ClassesLaw
from tractable.supervised.boosting.laws import LAWS, StudentLaw
from tractable.supervised.boosting.model import fit_boosting
from tractable.supervised.trees.tree import FEW_WALKS

THETAS = {
    "normal": [[0.3, -0.4], [-2.0, 1.1]],
    "student": [[0.3, -0.4], [-2.0, 1.1]],
    "lognormal": [[0.3, -0.4], [-1.0, 0.2]],
    "gamma": [[0.3, -0.7], [-2.0, 3.1], [0.4, 12.0]],
    "poisson": [[-1.0], [2.5]],
    "negative_binomial": [[1.0, 0.5], [-1.0, -2.0], [3.0, 4.0], [0.2, 2.0]],
}


def points_of(law, theta):
    """Targets and their masses under the law: the oracle is SciPy's."""
    ranks = 1 / (1 + np.exp(-np.linspace(-30, 30, 4001)))
    masses = ranks * (1 - ranks) * 60 / 4000
    if law.name in ("normal", "lognormal"):  # in the coordinates of the logarithm
        return stats.norm.ppf(ranks, theta[0], np.exp(theta[1])), masses
    if law.name == "student":
        return stats.t.ppf(ranks, law.degrees, theta[0], np.exp(theta[1])), masses
    if law.name == "gamma":
        shape = np.exp(theta[1])
        return stats.gamma.ppf(ranks, shape, scale=np.exp(theta[0]) / shape), masses
    counts = np.arange(6000.0)
    if law.name == "poisson":
        return counts, stats.poisson.pmf(counts, np.exp(theta[0]))
    mean, size = np.exp(theta)
    return counts, stats.nbinom.pmf(counts, size, size / (size + mean))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.cheap
def test_slopes_are_derivatives_and_information_is_their_variance(name):
    law = LAWS[name]()
    for theta in np.array(THETAS[name]):
        y, masses = points_of(law, theta)
        kept = (
            (masses > 1e-18)
            & np.isfinite(y)
            & ((y > 0) | (name in ("normal", "student", "lognormal", "poisson", "negative_binomial")))
        )
        y, masses = y[kept], masses[kept] / masses[kept].sum()
        at = np.tile(theta, (len(y), 1))
        slopes = []
        for k in range(law.num_parameters):
            step = np.zeros(law.num_parameters)
            step[k] = 1e-5
            central = (law.log_prob(at + step, y) - law.log_prob(at - step, y)) / 2e-5
            slope, information = law.slope(k, at, y)
            np.testing.assert_allclose(
                slope, central, rtol=2e-5, atol=2e-5 * (1 + np.abs(slope).max() * 1e-4)
            )
            assert masses @ slope == pytest.approx(0.0, abs=1e-5 * np.sqrt(information[0]))
            assert information[0] == pytest.approx(masses @ slope**2, rel=2e-3)
            slopes.append(slope)
        if len(slopes) == 2:  # the coordinates are orthogonal: natural steps go one by one
            scale = np.sqrt(np.prod([masses @ slope**2 for slope in slopes]))
            assert masses @ (slopes[0] * slopes[1]) == pytest.approx(0.0, abs=1e-3 * scale)


@pytest.mark.parametrize("law", [BernoulliLaw(), ClassesLaw(3)], ids=["two", "three"])
@pytest.mark.cheap
def test_slopes_of_classes_are_derivatives_and_information_is_their_variance(law):
    theta = np.array([[0.4]] if law.num_parameters == 1 else [[0.4, -0.3, 1.2]])
    probs = law.probabilities(theta)[0]
    codes = np.arange(len(probs)).astype(float)
    at = np.tile(theta, (len(codes), 1))
    np.testing.assert_allclose(np.exp(law.log_prob(at, codes)), probs, rtol=1e-12)
    for k in range(law.num_parameters):
        step = np.zeros(law.num_parameters)
        step[k] = 1e-6
        slope, information = law.slope(k, at, codes)
        central = (law.log_prob(at + step, codes) - law.log_prob(at - step, codes)) / 2e-6
        np.testing.assert_allclose(slope, central, atol=1e-8)
        assert information[0] == pytest.approx(probs @ slope**2, rel=1e-10)


@pytest.mark.parametrize("name", LAWS)
def test_laws_are_the_distributions_that_they_name(name):
    law, theta = LAWS[name](), np.array(THETAS[name][:2])
    made = law.distribution(theta)
    y = np.array([2.0, 3.0])
    assert law.log_density(theta, y).sum() == pytest.approx(float(made.log_prob(y)), rel=1e-10)
    mean, variance = law.moments(theta)
    np.testing.assert_allclose(mean, made.mean, rtol=1e-8)
    np.testing.assert_allclose(variance, made.variance, rtol=1e-8)
    np.testing.assert_allclose(law.quantile(theta, 0.9), made.icdf(0.9), rtol=1e-8)


def test_degrees_of_freedom_follow_held_out_residuals():
    draw = np.random.default_rng(0)
    theta, w = np.zeros((4000, 2)), np.ones(4000)
    assert StudentLaw().tuned(theta, draw.standard_t(3, 4000), w).degrees <= 4
    assert StudentLaw().tuned(theta, draw.normal(size=4000), w).degrees >= 25


def noisy(count: int, seed: int = 0):
    """A bent centre, and a spread that grows with the first column."""
    draw = np.random.default_rng(seed)
    X = draw.uniform(-1, 1, (count, 3))
    scale = 0.2 + 0.6 * (X[:, 0] > 0)
    return X, np.sin(3 * X[:, 1]) + scale * draw.normal(size=count), scale


SMALL = {"max_rounds": 40, "learning_rate": 0.2, "patience": 10}


def test_a_weight_of_two_is_the_row_twice_in_any_order_and_any_units():
    X, y, _ = noisy(80)
    X[::7, 2] = np.nan
    w = np.random.default_rng(1).integers(1, 4, 80).astype(float)
    one = fit_boosting(X, y, w, key=0, **SMALL)
    order = np.random.default_rng(2).permutation(int(w.sum()))
    copies = np.repeat(np.arange(80), w.astype(int))[order]
    two = fit_boosting(X[copies], y[copies], key=0, **SMALL)
    np.testing.assert_array_equal(one.coordinates(X), two.coordinates(X))
    np.testing.assert_array_equal(one.held_out[copies], two.held_out)
    moved = fit_boosting(X, 1e6 * y + 5e6, w, key=0, **SMALL)
    np.testing.assert_allclose(moved.coordinates(X)[:, 0], 1e6 * one.coordinates(X)[:, 0] + 5e6, rtol=1e-6)
    flat = fit_boosting(X, y, w, key=0, start="constant", **SMALL)
    bent = fit_boosting(np.exp(X), y, w, key=0, start="constant", **SMALL)  # ranks stay as they are
    np.testing.assert_array_equal(flat.held_out, bent.held_out)


def test_what_a_tree_says_of_raw_entries_is_what_it_said_of_bins():
    X, y, _ = noisy(300)
    X[::5, 0] = np.nan
    made = fit_boosting(X, y, key=0, num_folds=2, max_rounds=15, learning_rate=0.3, patience=20)
    assert made.num_rounds > 0
    other = fit_boosting(X, y, key=1, num_folds=2, max_rounds=15, learning_rate=0.3, patience=20)
    assert not np.array_equal(made.held_out, other.held_out)  # the key draws rows
    # boosters of both folds answer together: what each says apart is in `disagreement`
    theta = made.coordinates(X)
    assert np.isfinite(theta).all()
    assert (made.disagreement(X) >= 0).all()
    assert len(X) * sum(map(len, made.roots)) < FEW_WALKS


def test_the_spread_is_found_and_held_out_rows_choose_the_rounds():
    X, y, scale = noisy(600)
    made = fit_boosting(X, y, key=0, law="normal", learning_rate=0.1)
    found = np.exp(made.coordinates(X)[:, 1])
    ratio = np.log(found[scale > 0.5].mean() / found[scale < 0.5].mean())
    assert ratio == pytest.approx(np.log(4), abs=0.35)
    assert made.verdict.ok
    assert int(np.argmax(made.scores)) == made.num_rounds
    z = (y - made.held_out[:, 0]) / np.exp(made.held_out[:, 1])
    assert np.mean(z**2) == pytest.approx(1.0, abs=5 * np.sqrt(2 / 600))  # honest on rows it has not seen
    assert made.held_out_score == pytest.approx(
        np.mean(stats.norm.logpdf(y, made.held_out[:, 0], np.exp(made.held_out[:, 1]))), abs=1e-9
    )


def test_no_signal_gives_no_rounds_or_none_that_matter():
    draw = np.random.default_rng(5)
    X, y = draw.normal(size=(200, 4)), draw.normal(size=200)
    made = fit_boosting(X, y, key=0, law="normal", learning_rate=0.1)
    assert made.held_out_score > np.mean(stats.norm.logpdf(y, y.mean(), y.std())) - 0.03


@pytest.mark.parametrize("law", ["poisson", "negative_binomial", "gamma", "lognormal"])
@pytest.mark.cheap
def test_laws_of_counts_and_positive_numbers_follow_their_targets(law):
    draw = np.random.default_rng(4)
    X = draw.uniform(-1, 1, (400, 2))
    mean = np.exp(1.0 + np.where(X[:, 0] > 0, 1.0, 0.0))
    y = (
        draw.poisson(mean).astype(float)
        if law in ("poisson", "negative_binomial")
        else draw.gamma(4, mean / 4)
    )
    made = fit_boosting(X, y, key=0, law=law, learning_rate=0.2, max_rounds=60)
    found = made.law.moments(made.coordinates(X))[0]
    high = X[:, 0] > 0
    ratio, wanted = found[high].mean() / found[~high].mean(), y[high].mean() / y[~high].mean()
    assert np.log(ratio) == pytest.approx(np.log(wanted), rel=0.2)  # few rounds stay below it
    with pytest.raises(ValueError, match="`y` must be"):
        fit_boosting(X, -y - 0.5, key=0, law=law)


def test_small_and_odd_tables():
    one = fit_boosting([[1.0, np.nan]], [3.0], key=0)
    assert one.coordinates([[0.0, 0.0]])[0, 0] == 3.0
    assert not one.verdict.ok
    same = fit_boosting(np.arange(9.0)[:, None], np.full(9, 7.0), key=0)
    np.testing.assert_array_equal(same.coordinates([[2.0]])[:, 0], [7.0])
    X, y, _ = noisy(50)
    X[:, 1] = np.nan
    assert np.isfinite(fit_boosting(X, y, key=0, **SMALL).coordinates(X)).all()
    assert np.isfinite(fit_boosting(X[:2], y[:2], key=0, **SMALL).coordinates(X)).all()
    outlier = np.append(y[:-1], 1e9)
    assert np.isfinite(fit_boosting(X, outlier, key=0, **SMALL).coordinates(X)).all()
    codes = np.append(np.arange(49) % 2, 2)  # a class of one row
    lone = fit_boosting(X, codes, key=0, law="classes", num_classes=3, **SMALL)
    assert np.isnan(lone.held_out[-1]).all()
    assert np.isfinite(lone.held_out[:-1]).all()
    with pytest.raises(ValueError, match="`start` must be 'constant' for the law 'gamma'"):
        fit_boosting(X, np.abs(y) + 1, key=0, law="gamma", start="linear")
    with pytest.raises(ValueError, match="`law` must be"):
        fit_boosting(X, y, key=0, law="cauchy")
