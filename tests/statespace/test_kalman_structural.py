"""Structural series: the diffuse limit, scores, known decompositions, forecasts, and the Nile."""

import numpy as np
import pytest
import scipy.stats

from tractable.statespace.kalman.components import ARIMA, Cycle, Level, Regression, Seasonal, Trend
from tractable.statespace.kalman.structural import Structural, _Search, _series
from tractable.statespace.kalman.system import LinearGaussianSystem

NILE = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180,
    799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833,
    701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845,
    864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649,
    846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975, 815,
    1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
], float)  # fmt: skip
KINDS = {
    "level": (Level(),),
    "damped": (Trend(damped=True), Seasonal(4)),
    "cycle": (Trend(smooth=True), Seasonal(6, "trigonometric"), Cycle(3.0, 20.0)),
    "arima": (ARIMA(2, 1, 1),),
    "regression": (Level(), Regression(np.sin(np.arange(60.0)))),
}


def series(seed=0, times=40):
    rng = np.random.default_rng(seed)
    y = np.cumsum(rng.normal(size=times)) + 2 * np.sin(np.arange(times) * np.pi / 2) + rng.normal(size=times)
    y[5], y[20:23] = np.nan, np.nan
    return y


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_likelihood_is_the_limit_of_wide_starts_and_its_score_is_exact(kind):
    model = Structural(KINDS[kind], noise=kind != "arima")
    search = _Search(model, _series(series()))
    theta = np.linspace(-0.6, 0.4, len(search.kinds))
    value, slope = search.value_and_score(theta)
    chain, q, wide = search.chain(theta), int(search.flat.sum()), 1e7
    cov = chain.cov + np.diag(np.where(search.flat, wide, 0.0))
    C = chain.C if len(chain.C) > 1 else chain.C[0]
    system = LinearGaussianSystem(chain.A[0], chain.Q[0], C, chain.R[0], chain.mean[0], cov)
    limit = float(system.log_likelihood(search.series, method="scan", form="square-root"))
    assert value == pytest.approx(limit + q / 2 * np.log(wide), abs=2e-4)
    h = 1e-5
    for i in range(len(theta)):
        step = h * np.eye(len(theta))[i]
        difference = (search.value(theta + step) - search.value(theta - step)) / (2 * h)
        assert slope[i] == pytest.approx(difference, abs=2e-6)


def test_the_nile_has_the_published_variances():
    """Durbin and Koopman (2012) section 2.10: noise 15099, level 1469.1, by the diffuse likelihood (which is
    -632.5456 without the constant of the reading that the flat start takes)."""
    fitted = Structural((Level(),)).fit(NILE, tol=1e-12)
    assert fitted.parameters["noise"] == pytest.approx(15099, rel=2e-4)
    assert fitted.parameters["level"] == pytest.approx(1469.1, rel=2e-3)
    assert fitted.log_likelihood + 0.5 * np.log(2 * np.pi) == pytest.approx(-632.5456, abs=1e-4)
    assert fitted.verdict.ok
    assert (fitted.standard_errors > 0).all()
    ahead = fitted.forecast(3)
    assert ahead.cov[2, 0, 0] > ahead.cov[0, 0, 0] > 15099
    np.testing.assert_allclose(ahead.mean[:, 0], ahead.mean[0, 0])


def test_one_step_scores_add_to_the_likelihood_of_what_the_start_leaves():
    """A flat start takes the first reading; the others have densities that add up to the likelihood."""
    fitted = Structural((Level(),)).fit(NILE)
    scores = fitted.log_scores()
    assert np.isnan(scores[0])
    total = np.nansum(scores) - 0.5 * np.log(2 * np.pi)  # the first reading is flat: its constant alone
    assert total == pytest.approx(fitted.log_likelihood, abs=1e-8)
    mean, variance = fitted.one_step()
    shorter = fitted.forecast(1, NILE[:60])
    assert mean[60] == pytest.approx(float(shorter.mean[0, 0]))
    assert variance[60] == pytest.approx(float(shorter.cov[0, 0, 0]))


def test_components_that_were_added_are_found_again():
    rng = np.random.default_rng(3)
    t = np.arange(120)
    season = np.tile([2.0, -1.0, 0.5, -1.5], 30)
    x = rng.normal(size=132)
    y = 5 + 0.1 * t + season + 1.5 * x[:120] + 0.1 * rng.normal(size=120)
    fitted = Structural((Trend(), Seasonal(4), Regression(x))).fit(y)
    parts = fitted.decompose()
    assert parts.names == ("trend", "seasonal 4", "regression")
    bound = 4.5 * parts.deviations
    for mean, truth, width in zip(parts.means, (5 + 0.1 * t, season, 1.5 * x[:120]), bound):
        assert (np.abs(mean - truth) < width + 1e-9).all()
    np.testing.assert_allclose(parts.means.sum(0), parts.signal, atol=1e-8)
    ahead = fitted.forecast(12)
    truth = 5 + 0.1 * np.arange(120, 132) + np.tile([2.0, -1.0, 0.5, -1.5], 3) + 1.5 * x[120:]
    assert (np.abs(ahead.mean[:, 0] - truth) < 5 * ahead.deviation[:, 0]).all()
    with pytest.raises(ValueError, match="`columns` must be of at least 133 times"):
        fitted.forecast(13)


def test_an_autoregression_is_that_of_its_dense_normal():
    y = np.random.default_rng(4).normal(size=9)
    model = Structural((ARIMA(1, 0, 1),), noise=False)
    variance, phi, psi = 1.3, 0.6, -0.4  # psi is the partial of the moving average with its sign
    order = np.arange(9)
    weights = np.concatenate([[1.0], (phi + psi) * phi ** np.arange(400)])
    cov = np.array(
        [[variance * (weights[: 401 - k] * weights[k:]).sum() for k in np.abs(i - order)] for i in order]
    )
    dense = scipy.stats.multivariate_normal(np.zeros(9), cov).logpdf(y)
    assert model.log_likelihood(y, [variance, phi, psi]) == pytest.approx(dense, rel=1e-9)


def test_both_forms_of_a_fixed_season_are_the_same_pattern():
    y = np.tile([3.0, -1.0, 0.0, -2.0], 10) + 0.3 * np.random.default_rng(5).normal(size=40)
    parts = [
        Structural((Level(), Seasonal(4, form))).fit(y).decompose()["seasonal 4"]
        for form in ("dummy", "trigonometric")
    ]
    np.testing.assert_allclose(parts[0], parts[1], atol=0.2)


def test_mistakes_and_short_series_are_named():
    with pytest.raises(ValueError, match="`y` must be at least 13 readings"):
        Structural((Trend(), Seasonal(11))).fit(np.arange(5.0))
    with pytest.raises(ValueError, match="inf at time 2"):
        Structural((Level(),)).fit([1.0, 2.0, np.inf, 3.0])
    with pytest.raises(ValueError, match="`period` must be"):
        Seasonal(1)
    with pytest.raises(ValueError, match="`components` must be"):
        Structural(())
    flat = Structural((Level(), Regression(np.ones(20))))
    with pytest.raises(ValueError, match="readings that tell every state"):
        flat.fit(np.random.default_rng(0).normal(size=20))
    same = Structural((Level(),)).fit(np.full(12, 3.0))
    np.testing.assert_allclose(same.forecast(2).mean, 3.0, atol=1e-6)


@pytest.mark.parametrize("shift", [1e9, -1e9])
def test_a_level_far_away_changes_no_digit_that_counts(shift):
    """The diffuse likelihood knows differences only; as a difference of squares it lost all its digits."""
    walk = np.cumsum(np.random.default_rng(0).normal(size=40))
    near, far = (Structural((Trend(), Seasonal(4))).fit(series) for series in (walk, walk + shift))
    np.testing.assert_allclose(far.log_likelihood, near.log_likelihood, rtol=1e-7)
    # Readings of 1e9 have 1e-7 of rounding, which leaves the likelihood 2e-6, and where it is largest
    # sqrt(2 * 2e-6) of the parameters' errors; a forecast moves by no more of its own deviation.
    before, after = near.forecast(3), far.forecast(3)
    deviation = np.sqrt(np.diagonal(before.cov, axis1=1, axis2=2))
    np.testing.assert_array_less(np.abs(after.mean - shift - before.mean), 2e-3 * deviation)
    np.testing.assert_allclose(after.cov, before.cov, rtol=4e-3)
