"""Counts, holidays, Matern members, series that go on, files: sums, closed forms, bridges."""

import numpy as np
import pytest
from scipy.stats import nbinom, norm, t

import tractable as tr
from tractable.gp import GaussianProcess
from tractable.gp.state_space import MarkovProcess
from tractable.kernels import Matern12, Matern32, Matern52
from tractable.kernels.matern_states import STATIONARY, matern_transition
from tractable.statespace import Structural, forecast_series
from tractable.statespace.forecast.candidates import candidates
from tractable.statespace.forecast.counts import CountLaw, CountLevel, from_scale, to_scale
from tractable.statespace.forecast.known import holiday_table, known_columns
from tractable.statespace.forecast.laws import Law
from tractable.statespace.forecast.seasons import scale_of, seasons_of
from tractable.statespace.forecast.series import as_series
from tractable.statespace.kalman.components import Constant, Matern

WHOLE = np.arange(600.0)
RARE = np.random.default_rng(3).negative_binomial(1.5, 0.5, 70).astype(float)
DAYS = np.datetime64("2021-01-01") + np.arange(240)


def mixed(df=np.inf):
    base = Law(np.array([2.0, 2.5]), np.array([0.5, 0.7]), np.array([np.inf, df]), np.array([0.3, 0.3]))
    return CountLaw(base, "root", np.array([4.0]), np.array([2.0]), np.array([0.3, 0.3, 0.4]))


def masses(law):
    return np.exp(np.array([law.log_densities(k) for k in WHOLE]))


# --- laws on the whole numbers ---


def test_members_have_the_mass_of_their_cells():
    law = mixed(6.0)
    edges = np.concatenate([[-np.inf], np.sqrt(WHOLE + 0.5 + 0.375)])
    heavy = t(6, 2.5, 0.7 * np.sqrt(4 / 6))
    want = np.stack(
        [np.diff(norm.cdf(edges, 2.0, 0.5)), np.diff(heavy.cdf(edges)), nbinom.pmf(WHOLE, 2, 1 / 3)], 1
    )
    assert np.allclose(masses(law)[:60], want[:60], rtol=1e-9, atol=1e-15)
    far = Law(np.zeros(1), np.ones(1), np.array([np.inf]), np.ones(1))
    assert np.isclose(far.log_masses(20.0, 21.0)[0], norm.logsf(20.0), rtol=1e-8)


@pytest.mark.parametrize("factor", [1.0, 1.4])
@pytest.mark.cheap
def test_scores_quantiles_and_means_by_sums(factor):
    law = mixed().widened(factor)
    F = norm.cdf(norm.ppf(np.clip(np.cumsum(masses(mixed()) @ law.weights), 0, 1)) / factor)
    assert np.allclose([law.cdf(k) for k in WHOLE[:40]], F[:40], rtol=1e-10)
    for y in (0.0, 5.0, 30.0):
        assert np.isclose(law.crps(y), ((F - (y <= WHOLE)) ** 2).sum(), rtol=1e-4)
        assert np.isclose(law.log_density(y), np.log(F[int(y)] - (F[int(y) - 1] if y else 0)), rtol=1e-8)
    for level in (0.01, 0.05, 0.5, 0.95, 0.999):
        assert law.quantile(level) == np.searchsorted(F, level)
    assert np.isclose(law.expectation(), (1 - F).sum(), rtol=1e-4)


def test_scales_go_there_and_back():
    for scale in ("identity", "log", "root"):
        y = np.array([1.0, 2.0, 9.0])
        assert np.allclose(from_scale(to_scale(y, scale), scale), y)
    rng = np.random.default_rng(0)
    level = np.exp(np.linspace(0, 3, 200))
    assert scale_of(rng.poisson(level).astype(float)) == "root"
    assert scale_of(rng.poisson(level) + 0.5) != "root"


def test_a_level_of_counts_without_discount_is_the_gamma_posterior():
    fit = CountLevel().fit(RARE)._replace(discount=1.0, size=np.inf)
    mean, size = fit.negative_binomials(RARE, np.array([len(RARE)]), 2)
    a, b = 0.5 * RARE[:12].mean() + RARE.sum(), 0.5 + len(RARE)
    assert np.allclose(mean, a / b)
    assert np.allclose(size, a, rtol=1e-10)


def test_paths_of_a_level_of_counts_have_its_moments():
    fit = CountLevel().fit(RARE)._replace(discount=0.9, size=4.0)
    drawn = fit.paths(np.random.default_rng(0), RARE, 4, 40_000)
    mean, sd = fit.origins(RARE, np.array([len(RARE)]), 4)
    assert np.all(np.abs(drawn.mean(0) - mean[0]) < 5 * sd[0] / np.sqrt(40_000))
    assert np.allclose(drawn.std(0), sd[0], rtol=0.05)


def test_forecasts_of_counts_are_whole_and_their_paths_have_their_law():
    found = forecast_series(RARE, 4)
    assert found.is_count
    assert "whole numbers" in found.verdict.sentence
    for values in (found.lower, found.median, found.upper):
        assert np.all((values >= 0) & (values == np.floor(values)))
    paths = found.sample(8000, key=1)
    assert np.all((paths >= 0) & (paths == np.floor(paths)))
    share = (paths <= found.upper).mean(0)
    want = found.law.cdf(found.upper)
    assert np.all(np.abs(share - want) < 5 * np.sqrt(want * (1 - want) / 8000) + 0.01)


# --- holidays ---


def test_holidays_lie_in_their_steps():
    months = np.datetime64("2020-01", "M") + np.arange(24)
    series = as_series(np.arange(24.0), months)
    table, names = holiday_table(series, 3, {"a": ["2020-02-10", "2020-02-11", "2020-05-01", "2022-02-28"]})
    assert names == ("a",)
    assert table[[1, 4, 25], 0].tolist() == [2, 1, 1]
    assert table.sum() == 4
    ends = (months + 1).astype("datetime64[D]") - 1
    again, _ = holiday_table(as_series(np.arange(24.0), ends), 3, {"a": ["2020-02-10", "2020-05-31"]})
    assert np.flatnonzero(again[:, 0]).tolist() == [1, 4]
    hours = np.datetime64("2020-01-01T00", "h") + np.arange(96)
    hourly, _ = holiday_table(as_series(np.arange(96.0), hours), 1, ["2020-01-02"])
    assert np.flatnonzero(hourly[:, 0]).tolist() == list(range(24, 48))


def test_rare_holidays_share_a_column_and_seasonal_ones_are_named():
    months = np.datetime64("2015-01", "M") + np.arange(60)
    series = as_series(np.arange(60.0), months)
    yearly = [f"{year}-12-25" for year in range(2015, 2021)]
    moving = ["2015-04-05", "2016-03-27", "2017-04-16", "2018-04-01", "2019-04-21", "2020-04-12"]
    given = {"christmas": yearly, "easter": moving, "x": ["2015-07-01"], "y": ["2016-09-01"]}
    table, names, left_out = known_columns(series, 2, (12,), None, None, given)
    assert names == ("easter", "other holidays")
    assert table.shape == (62, 2)
    assert left_out == {"holiday christmas": "the seasons tell it already"}
    with pytest.raises(ValueError, match="`holidays` must be left out where times are numbers"):
        holiday_table(as_series(np.arange(9.0)), 2, ["2020-01-01"])
    with pytest.raises(ValueError, match="`holidays` must be dates of which two or more"):
        holiday_table(series, 2, ["1999-01-01"])


@pytest.mark.thorough
def test_the_effect_of_holidays_is_found_and_forecast():
    rng = np.random.default_rng(0)
    dates = DAYS[0] + np.array([9, 40, 77, 111, 150, 190, 222, 243])
    y = 20 + 3 * np.sin(2 * np.pi * np.arange(240) / 7) + rng.normal(size=240)
    y[np.isin(DAYS, dates)] += 8
    found = forecast_series(y, 7, times=DAYS, holidays=dates, log=False)
    size, deviation = found.effects["holiday"]
    assert abs(size - 8) < 4 * deviation < 4
    plain = forecast_series(y, 7, times=DAYS, log=False)
    assert found.mean[3] - plain.mean[3] > 6


def test_members_know_a_column_that_is_zero_at_first():
    y = 10 + np.random.default_rng(0).normal(size=40)
    column = np.zeros((43, 1))
    column[[15, 22, 30]] = 1.0
    member = candidates((), column)[2].fit(y)
    assert member.name == "level"
    assert member.df > 4


# --- Matern members ---


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.cheap
def test_states_move_by_the_exponential_and_keep_their_law(order):
    from scipy.linalg import expm

    companion = [[[-1.0]], [[0, 1], [-1, -2.0]], [[0, 1, 0], [0, 0, 1], [-1, -3, -3.0]]][order]
    for gap in (1e-3, 0.3, 0.7, 4.0):
        A, Q = matern_transition(order, np.array(gap))
        assert np.allclose(A, expm(gap * np.array(companion)), rtol=1e-12, atol=1e-14)
        assert np.allclose(A @ STATIONARY[order] @ A.T + Q, STATIONARY[order], atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, 0, 2])
def test_a_structural_matern_is_the_gaussian_process(order):
    y = np.random.default_rng(1).normal(size=25)
    share, variance, noise = 0.4, 2.0, 0.3
    length = np.exp(np.log(0.5) * (1 - share) + np.log(100.0) * share)
    model = Structural((Matern(order),))
    kernel = (Matern12, Matern32, Matern52)[order](length)
    process = MarkovProcess(GaussianProcess(variance * kernel, noise=noise))
    want = float(process.log_evidence(np.arange(25.0), y))
    assert np.isclose(model.log_likelihood(y, [noise, variance, share]), want, rtol=1e-9)


def test_the_score_of_a_matern_model_is_its_difference():
    from tractable.statespace.kalman.structural import _Search

    y = np.random.default_rng(2).normal(size=30)[:, None]
    search = _Search(Structural((Constant(), Matern())), y)
    theta = np.array([-0.5, 0.3, 0.2])
    slope = search.value_and_score(theta)[1]
    for i in range(3):
        step = 1e-5 * np.eye(3)[i]
        assert np.isclose(
            slope[i], (search.value(theta + step) - search.value(theta - step)) / 2e-5, rtol=1e-5
        )


# --- seasons, series that go on, files ---


def test_a_season_in_noise_is_found_by_its_phases():
    rng = np.random.default_rng(0)
    months = np.datetime64("2012-01", "M") + np.arange(120)
    rate = np.exp(2.3 + 0.4 * np.sin(2 * np.pi * np.arange(120) / 12))
    assert seasons_of(as_series(rng.poisson(rate).astype(float), months)) == (12,)
    found = [seasons_of(as_series(np.cumsum(rng.normal(size=120)), months)) for _ in range(60)]
    assert sum(map(bool, found)) <= 5  # one in fifty


def test_a_series_that_goes_on_is_forecast_by_the_same_models(tmp_path):
    walk = 20 + np.cumsum(np.random.default_rng(4).normal(size=60))
    days = np.datetime64("2024-01-01") + np.arange(60)
    found = forecast_series(walk[:50], 3, times=days[:50], seasons=())
    tr.save(tmp_path / "found.trc", {"walk": found})
    loaded = tr.load(tmp_path / "found.trc")["walk"]
    again = loaded.after(walk[:50], times=days[:50])
    assert np.allclose(again.mean, found.mean, rtol=1e-10)
    assert np.allclose(again.upper, found.upper, rtol=1e-10)
    later = loaded.after(walk, 5, times=days)
    assert later.times[0] == np.datetime64("2024-03-01")
    assert abs(later.median[0] - walk[-1]) < 3
    with pytest.raises(ValueError, match="`times` must be one per day; got one per number"):
        loaded.after(walk)
