"""Forecasts: closed forms, scores by quadrature, the filter from every origin, seasons, events, bad input."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, t

from benchmarks._forecast_series import draw
from tractable.statespace import forecast_series
from tractable.statespace.forecast.candidates import StructuralMember, candidates
from tractable.statespace.forecast.evaluation import evaluate, spread_factors
from tractable.statespace.forecast.events import find_events
from tractable.statespace.forecast.laws import Law, crps_normal, mase_scale
from tractable.statespace.forecast.naive import Naive
from tractable.statespace.forecast.seasons import autocorrelation, is_count, prefers_log, seasons_of
from tractable.statespace.forecast.series import as_series
from tractable.statespace.kalman.components import Level, Seasonal, Trend
from tractable.statespace.kalman.structural import Structural

RNG = np.random.default_rng(5)
WALK = np.cumsum(RNG.normal(size=80))
MONTHS = np.datetime64("2015-01", "M") + np.arange(96)
WAVE = (
    3 * np.sin(2 * np.pi * np.arange(96) / 12)
    + np.cumsum(0.2 * RNG.normal(size=96))
    + RNG.normal(size=96) * 0.5
)


@pytest.fixture(scope="module")
def monthly():
    return forecast_series(WAVE, 6, times=MONTHS)


# --- the last reading, the last season, drift ---


def test_naive_intervals_are_those_of_a_walk():
    mean, sd = Naive().fit(WALK).origins(WALK, np.array([80]), 4)
    sigma = np.sqrt(np.mean(np.diff(WALK) ** 2))
    assert np.allclose(mean, WALK[-1])
    assert np.allclose(sd[0], sigma * np.sqrt([1, 2, 3, 4]), rtol=1e-12)


def test_drift_has_the_variance_of_its_slope():
    mean, sd = Naive(drift=True).fit(WALK).origins(WALK, np.array([80]), 5)
    slope, h = (WALK[-1] - WALK[0]) / 79, np.arange(1, 6)
    sigma = np.sqrt(np.sum((np.diff(WALK) - slope) ** 2) / 78)
    assert np.allclose(mean[0], WALK[-1] + slope * h)
    assert np.allclose(sd[0], sigma * np.sqrt(h + h**2 / 79), rtol=1e-12)


def test_seasonal_naive_repeats_the_season_and_counts_the_seasons():
    fit = Naive(4).fit(WALK)
    mean, sd = fit.origins(WALK, np.array([80]), 9)
    sigma = np.sqrt(np.mean((WALK[4:] - WALK[:-4]) ** 2))
    assert np.allclose(mean[0], [*WALK[-4:], *WALK[-4:], WALK[-4]])
    assert np.allclose(sd[0], sigma * np.sqrt([1, 1, 1, 1, 2, 2, 2, 2, 3]))


def test_gaps_are_steps_too():
    gappy = WALK.copy()
    gappy[[20, 21, 78, 79]] = np.nan
    mean, sd = Naive().fit(gappy).origins(gappy, np.array([80]), 2)
    seen = np.flatnonzero(~np.isnan(gappy))
    sigma = np.sqrt(np.mean(np.diff(gappy[seen]) ** 2 / np.diff(seen)))
    assert np.allclose(mean, WALK[77])
    assert np.allclose(sd[0], sigma * np.sqrt([3, 4]))


@pytest.mark.cheap
@pytest.mark.parametrize("model", [Naive(), Naive(drift=True), Naive(4)])
def test_paths_of_walks_have_their_moments(model):
    fit = model.fit(WALK)
    drawn = fit.paths(np.random.default_rng(0), WALK, 6, 20_000)
    mean, sd = fit.origins(WALK, np.array([80]), 6)
    assert np.all(np.abs(drawn.mean(0) - mean[0]) < 5 * sd[0] / np.sqrt(20_000))
    assert np.allclose(drawn.std(0), sd[0], rtol=5 / np.sqrt(2 * 20_000))


# --- scores ---


def test_the_score_of_a_gaussian_in_closed_form_and_by_quadrature():
    law = Law(np.array([1.0]), np.array([2.0]), np.array([np.inf]), np.ones(1))
    for y in (-3.0, 1.0, 4.5):
        low = quad(lambda x: norm.cdf(x, 1, 2) ** 2, -20, y)[0]
        high = quad(lambda x: norm.sf(x, 1, 2) ** 2, y, 22)[0]
        assert np.isclose(crps_normal(1.0, 2.0, y), low + high, rtol=1e-8)
        assert np.isclose(law.crps(y), low + high, rtol=1e-6)


def test_scores_of_mixtures_and_of_logarithms_by_quadrature():
    weights, df = np.array([0.3, 0.7]), np.array([np.inf, 6.0])
    law = Law(np.array([0.0, 1.0]), np.array([0.5, 0.8]), df, weights)
    heavy = t(6, 1.0, 0.8 * np.sqrt(4 / 6))

    def cdf(x):
        return 0.3 * norm.cdf(x, 0, 0.5) + 0.7 * heavy.cdf(x)

    y = 0.4
    want = (
        quad(lambda x: cdf(x) ** 2, -60, y, limit=200)[0]
        + quad(lambda x: (1 - cdf(x)) ** 2, y, 60, limit=200)[0]
    )
    assert np.isclose(law.crps(y), want, rtol=1e-5)
    assert np.isclose(law.cdf(y), cdf(y), rtol=1e-12)
    density = np.log(0.3 * norm.pdf(y, 0, 0.5) + 0.7 * heavy.pdf(y))
    assert np.isclose(law.log_density(y), density, rtol=1e-12)
    assert np.isclose(law.cdf(law.quantile(0.83)), 0.83, rtol=1e-10)
    logged = Law(np.array([0.2]), np.array([0.4]), np.array([np.inf]), np.ones(1), log=True)
    y = 1.7
    want = quad(lambda x: norm.cdf(np.log(x), 0.2, 0.4) ** 2, 1e-9, y)[0]
    want += quad(lambda x: norm.sf(np.log(x), 0.2, 0.4) ** 2, y, 60)[0]
    assert np.isclose(logged.crps(y), want, rtol=1e-6)
    assert np.isclose(np.exp(logged.log_density(y)), norm.pdf(np.log(y), 0.2, 0.4) / y)
    assert np.isclose(logged.expectation(), np.exp(0.2 + 0.08))


def test_a_stretched_law_keeps_its_centre():
    law = Law(np.array([[0.0, 2.0]]), np.array([[1.0, 1.0]]), np.full(2, np.inf), np.full(2, 0.5))
    wide = law.widened(np.array([3.0]))
    middle = law.quantile(0.5)
    assert np.allclose(wide.quantile(0.5), middle)
    assert np.allclose(wide.quantile(0.9) - middle, 3 * (law.quantile(0.9) - middle))


def test_the_scale_of_errors_by_hand():
    assert mase_scale([1.0, 3.0, 2.0, 7.0]) == (2 + 1 + 5) / 3
    assert mase_scale([1.0, 3.0, 2.0, 7.0], 2) == (1 + 4) / 2
    assert mase_scale([1.0, np.nan, 2.0, 7.0]) == 5


# --- rolling origins ---


@pytest.mark.cheap
@pytest.mark.parametrize("gap", [False, True])
def test_every_origin_has_the_forecast_of_the_filter(gap):
    z = WAVE.copy()
    if gap:
        z[[40, 85]] = np.nan
    model = Structural((Trend(), Seasonal(12)))
    member = StructuralMember("trend", model).fit(z[:70])
    mean, sd = member.origins(z, np.array([70, 83, 96]), 5)
    for row, origin in enumerate((70, 83, 96)):
        want = member.fit.forecast(5, z[:origin])
        assert np.allclose(mean[row], want.mean[:, 0], rtol=1e-9, atol=1e-9)
        assert np.allclose(sd[row] ** 2, np.asarray(want.cov)[:, 0, 0], rtol=1e-8)


def test_paths_of_structural_models_have_their_moments():
    fit = StructuralMember("level", Structural((Level(),))).fit(WAVE)
    drawn = fit.paths(np.random.default_rng(1), WAVE, 4, 20_000)
    mean, sd = fit.origins(WAVE, np.array([96]), 4)
    assert np.all(np.abs(drawn.mean(0) - mean[0]) < 5 * sd[0] / np.sqrt(20_000))
    assert np.allclose(drawn.std(0), sd[0], rtol=5 / np.sqrt(2 * 20_000))


def test_the_better_model_gets_the_weight_and_the_spread_its_level():
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.normal(size=200))
    narrow = Naive().fit(z)._replace(sd=0.4)
    worse = Naive(2).fit(z)
    found = evaluate([narrow, worse], z, np.arange(100, 200, 2), 3, "identity", 1, 0.9)
    law = found.law._replace(weights=np.array([1.0, 0.0]))
    factors = spread_factors(law, found.actual, 0.9, 200)
    assert np.all(factors > 1.3)  # four tenths of the truth, drawn to one
    assert found.log_scores[0] != found.log_scores[1]
    assert np.isclose(found.weights.sum(), 1)


# --- looks ---


def test_autocorrelations_with_gaps_by_hand():
    x = np.array([1.0, -1.0, 2.0, 0.0, -2.0])
    r = autocorrelation(x)
    assert np.isclose(r[1], (-1 - 2 + 0 + 0) / 10)
    assert np.isclose(r[2], (2 + 0 - 4) / 10)


def test_seasons_are_found_and_not_invented():
    assert seasons_of(as_series(WAVE, MONTHS)) == (12,)
    assert seasons_of(as_series(WAVE)) == (12,)
    noise = [seasons_of(as_series(np.random.default_rng(s).normal(size=90))) for s in range(40)]
    assert sum(map(bool, noise)) <= 3


def test_scales_and_counts():
    y, _ = draw("growth", 0)
    assert prefers_log(y, 12)
    assert not prefers_log(WAVE + 50, 12)
    assert not prefers_log(np.append(y, -1.0))
    assert is_count([1, 0, 3])
    assert not is_count([0.5, 1])


# --- times ---


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("start", "unit", "frequency"),
    [
        ("2020-01", "M", "month"),
        ("2020-01-06", "W", "week"),
        ("2020-01-01", "D", "day"),
        ("2020-01-01T00", "h", "hour"),
    ],
)
def test_frequencies_and_their_future(start, unit, frequency):
    times = np.datetime64(start, unit) + np.arange(30)
    series = as_series(np.arange(30.0), times.astype("datetime64[s]"))
    assert series.frequency == frequency
    assert np.all(series.times(0, 30) == times)
    assert series.times(30, 31)[0] == times[-1] + 1


def test_month_ends_quarters_business_days_and_gaps():
    ends = (np.datetime64("2020-01", "M") + np.arange(1, 14)).astype("datetime64[D]") - 1
    series = as_series(np.arange(13.0), ends)
    assert series.frequency == "month"
    assert str(series.times(13, 14)[0]) == "2021-02-28"
    quarters = (np.datetime64("2020-01", "M") + 3 * np.arange(8)).astype("datetime64[D]")
    assert as_series(np.arange(8.0), quarters).frequency == "quarter"
    days = np.busday_offset("2024-01-01", np.arange(20))
    series = as_series(np.arange(20.0), days)
    assert series.frequency == "business day"
    assert str(series.times(20, 21)[0]) == "2024-01-29"
    gappy = as_series([1.0, 2.0, 3.0, 4.0], [0.0, 0.5, 1.5, 2.0])
    assert gappy.step == 0.5
    assert np.isnan(gappy.values[2])


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("y", "times", "said"),
    [
        (
            [1.0, 2, 3, 4],
            [0, 1, 1, 2],
            "`times` must be different in every row; got 1 twice, in rows 1 and 2",
        ),
        ([1.0, 2, 3, 4], [0, 2, 1, 3], "`times` must be in order; got 1 after 2 in row 2"),
        ([1.0, 2, 3, 4], [0, 1, np.pi, 7], "grid of equal steps"),
        ([1.0, 2, 3, np.inf], None, "inf in row 3"),
        ([1.0, 2, 3], None, "at least 4 readings"),
        ([5.0] * 20, None, "the constant 5"),
        ([1.0, 2, 3, 4], [0, 1, 2], "as long as `y`"),
        ([1.0, 2, 3, 4], list("abcd"), "numbers or dates"),
    ],
)
def test_bad_series_are_refused_by_name(y, times, said):
    with pytest.raises(ValueError, match=said):
        forecast_series(y, 2, times=times)


# --- the whole way ---


def test_a_monthly_series(monthly):
    assert monthly.seasons == (12,)
    assert "season 12" in monthly.winner
    assert str(monthly.times[0]) == "2023-01-01"
    assert np.all(monthly.lower < monthly.median)
    assert np.all(monthly.median < monthly.upper)
    assert monthly.metrics["held_out"]
    assert monthly.metrics["mase"] < 1
    assert monthly.decomposition["seasonal 12"].shape == (96,)
    assert "origins" in monthly.verdict.sentence


def test_joint_paths_have_the_law_of_the_forecast(monthly):
    paths = monthly.sample(8000, key=3)
    share = ((paths >= monthly.lower) & (paths <= monthly.upper)).mean(0)
    assert np.all(np.abs(share - 0.9) < 5 * np.sqrt(0.09 / 8000))
    low, high = monthly.interval(0.5)
    assert np.all((low > monthly.lower) & (high < monthly.upper))


@pytest.mark.thorough
def test_positive_series_have_positive_forecasts():
    y, _ = draw("growth", 1, 60)
    found = forecast_series(y, 5, seasons=(), log=True)
    assert np.all(found.lower > 0)
    assert np.all(found.mean > found.median)
    counts = np.random.default_rng(0).poisson(0.7, 50).astype(float)
    found = forecast_series(counts, 3)
    assert found.is_count
    assert np.all(found.lower >= 0)
    assert "count" in found.verdict.sentence


def test_short_series_say_so():
    found = forecast_series([1.0, 2.0, 1.5, 2.5], 2)
    assert found.winner == "naive"
    assert not found.verdict.ok
    assert np.all(np.isfinite(found.upper))


@pytest.mark.cheap
@pytest.mark.parametrize("kind", ["many", "last"])
@pytest.mark.thorough
def test_gaps_inside_and_at_the_end(kind):
    y = WALK.copy()
    if kind == "many":
        y[np.random.default_rng(0).random(80) < 0.6] = np.nan
    else:
        y[70:] = np.nan
    found = forecast_series(y, 4)
    assert np.all(np.isfinite(found.upper - found.lower))
    assert np.isfinite(found.metrics["crps"])


@pytest.mark.thorough
def test_known_columns_move_the_forecast():
    x = np.sin(np.arange(70) * 1.7)
    y = 5 * x[:60] + np.cumsum(0.1 * np.random.default_rng(2).normal(size=60))
    found = forecast_series(y, 10, X=x[:60], future=x[60:], seasons=())
    assert np.corrcoef(found.mean, x[60:])[0, 1] > 0.99
    with pytest.raises(ValueError, match="`future` must be given with `X`"):
        forecast_series(y, 10, X=x[:60])
    with pytest.raises(ValueError, match=r"`future` must be of shape \(10, 1\)"):
        forecast_series(y, 10, X=x[:60], future=x[60:65])


def test_outliers_and_shifts_are_found_where_they_are():
    rng = np.random.default_rng(4)
    y = 10 + np.cumsum(0.1 * rng.normal(size=100)) + 0.5 * rng.normal(size=100)
    clean = StructuralMember("level", Structural((Level(),))).fit(y).fit
    assert find_events(clean) == []
    y[30] += 6
    y[60:] += 5
    fit = StructuralMember("level", Structural((Level(),))).fit(y).fit
    found = find_events(fit)
    assert ("outlier", 30) in [(e.kind, e.place) for e in found]
    assert ("level shift", 60) in [(e.kind, e.place) for e in found]
    sizes = {e.kind: e.size for e in found}
    assert abs(sizes["outlier"] - 6) < 2.5


def test_candidates_name_what_they_are():
    names = [member.name for member in candidates((12,))]
    assert names[:3] == ["naive", "drift", "seasonal naive 12"]
    assert "damped trend + season 12" in names
    assert len(set(names)) == len(names)


@pytest.mark.plain
@pytest.mark.thorough
def test_intervals_hold_their_level_on_series_with_known_truth():
    inside = []
    for family in ("walk", "level", "autoregression"):
        for seed in range(4):
            y, after = draw(family, 100 + seed, 90, 6)
            found = forecast_series(y, 6, seasons=())
            inside.append((after >= found.lower) & (after <= found.upper))
    shares = np.mean(inside, 1)  # steps of a series depend on each other: the error is between series
    assert abs(shares.mean() - 0.9) < 3 * shares.std() / np.sqrt(len(shares))


def test_a_series_without_chance_is_continued_by_the_models_that_leave_some():
    """Structural models without any noise have no density for readings to come, and are left out by name."""
    found = forecast_series(np.arange(30.0) % 7, 3)
    np.testing.assert_allclose(found.median, [2, 3, 4], atol=1)
    with pytest.raises(TypeError, match="`y` must be numbers"):
        forecast_series(["a"] * 10, 2)
