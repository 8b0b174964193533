"""Quantile regression: lines against linear programs and sample quantiles, laws against quadrature, promises
against counts."""

import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from tractable.core.rows import Rows
from tractable.supervised.generalised.design import design_of
from tractable.supervised.quantile import search
from tractable.supervised.quantile.interior import least_check_loss
from tractable.supervised.quantile.law import QuantileLaw
from tractable.supervised.quantile.model import fit_quantiles, usual_levels
from tractable.supervised.selection.losses import pinball_loss

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 3))
Y = 1 + X[:, 0] + np.exp(0.4 * X[:, 1]) * RNG.gamma(1.5, size=90)
LEVELS = [0.1, 0.5, 0.8]


def least(z, y, w, level):
    """The least check loss, by a linear program in both signs of coefficients and residuals."""
    cost = np.r_[np.zeros(2 * z.shape[1]), level * w, (1 - level) * w]
    rows = np.hstack([z, -z, np.eye(len(y)), -np.eye(len(y))])
    return linprog(cost, A_eq=rows, b_eq=y, bounds=(0, None), method="highs").fun


@pytest.mark.parametrize("table", ["plain", "ties", "wide", "far"])
@pytest.mark.cheap
def test_lines_have_the_least_loss_and_their_duals_say_so(table):
    x, y = (np.round(X), np.round(Y)) if table == "ties" else (X, Y)
    if table == "wide":
        x, y = np.hstack([X[:9], X[9:18], X[18:27]]), Y[:9]
    y = y + 1e6 if table == "far" else y
    w = np.resize([1.0, 2.0, 0.5], len(y))
    z = np.column_stack([np.ones(len(y)), x])
    found = fit_quantiles(x, y, w, levels=LEVELS, prior_precision=0)
    assert found.verdict.ok
    assert found.gap < 1e-8
    for level, beta in zip(found.levels, found.coefficients()[0]):
        scale = w @ np.abs(y - np.median(y))
        assert w @ pinball_loss(y, z @ beta, level) == pytest.approx(least(z, y, w, level), abs=1e-8 * scale)
    straight = least_check_loss(z, y - np.median(y), w, 0.8, np.zeros(z.shape[1]))
    slopes = w * (straight.shares - 0.2)
    assert ((straight.shares > 0) & (straight.shares < 1)).all()
    np.testing.assert_allclose(slopes @ z, 0.0, atol=1e-7)


def test_a_line_of_penalised_loss_is_where_no_step_helps():
    z, ridge = np.column_stack([np.ones(90), X]), np.array([0.0, 3.0, 3.0, 3.0])
    beta = least_check_loss(z, Y, np.ones(90), 0.7, ridge).beta

    def loss(b):
        return pinball_loss(Y, z @ b, 0.7).sum() + 0.5 * ridge @ b**2

    best = loss(beta)
    for size in (1e-1, 1e-3, 1e-5):
        moved = beta + size * np.random.default_rng(0).normal(size=(200, 4))
        assert min(loss(b) for b in moved) >= best - 1e-12 * best


def test_without_columns_that_vary_lines_are_sample_quantiles():
    levels = [0.11, 0.5, 0.9]
    found = fit_quantiles(np.ones((91, 1)), np.append(Y, 40.0), levels=levels)
    wanted = np.quantile(np.append(Y, 40.0), levels, method="inverted_cdf")
    np.testing.assert_allclose(found.quantiles(np.ones((1, 1)))[0], wanted, rtol=1e-9)


@pytest.mark.parametrize("prior", ["evidence", 0.0])
@pytest.mark.cheap
def test_lines_move_with_their_targets_and_columns(prior):
    """Units do not matter; without a prior, nor do turns; below zero the levels are turned round."""
    plain = fit_quantiles(X, Y, levels=[0.1, 0.9], prior_precision=prior).quantiles(X)
    other = fit_quantiles(
        X * [1e3, 1e-4, 1] + [7, 0, -1e5], 50 * Y - 3, levels=[0.1, 0.9], prior_precision=prior
    )
    np.testing.assert_allclose(other.quantiles(X * [1e3, 1e-4, 1] + [7, 0, -1e5]), 50 * plain - 3, rtol=1e-6)
    down = fit_quantiles(X, -Y, levels=[0.1, 0.9], prior_precision=prior).quantiles(X)
    np.testing.assert_allclose(-down[:, ::-1], plain, atol=1e-6)
    if prior == 0:
        turn = np.random.default_rng(1).normal(size=(3, 3))
        turned = fit_quantiles(X @ turn, Y, levels=[0.1, 0.9], prior_precision=prior).quantiles(X @ turn)
        np.testing.assert_allclose(turned, plain, atol=1e-6)


@pytest.mark.parametrize("prior", ["evidence", 0.0])
@pytest.mark.cheap
def test_a_row_of_weight_two_is_the_row_twice(prior):
    counts = np.resize([2, 0, 1, 3], 90)
    once = fit_quantiles(X, Y, counts.astype(float), prior_precision=prior)
    twice = fit_quantiles(np.repeat(X, counts, 0), np.repeat(Y, counts), prior_precision=prior)
    np.testing.assert_allclose(once.coefficients(), twice.coefficients(), atol=1e-6)
    first, second = once.predict_dist(X), twice.predict_dist(X)
    np.testing.assert_allclose(first.icdf(0.97), second.icdf(0.97), atol=1e-5)


def test_many_rows_have_the_lines_of_all_of_them(monkeypatch):
    """Rows put aside, their sides known, against all rows at once."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(6000, 4)) + np.array([0, 0, 50, 0])
    y = x[:, 0] + np.exp(0.3 * x[:, 1]) * generator.standard_t(3, size=6000)
    rows, _ = design_of(Rows.of(x, y / y.std(), target="number"), True)
    whole = search.Table(rows)
    monkeypatch.setattr(search, "_MANY", 2000)
    monkeypatch.setattr(search, "_SEARCHED", 1000)
    monkeypatch.setattr(search, "_NEAR", (300, 0, 0))
    cut = search.Table(rows)
    assert cut.many
    for level, ridge in ((0.02, 0.0), (0.5, 30.0)):
        penalty = np.r_[0.0, np.full(4, ridge)]
        np.testing.assert_allclose(cut.line(level, penalty).beta, whole.line(level, penalty).beta, atol=1e-8)


def test_laws_are_proper():
    """Densities integrate to one, functions invert each other, moments are integrals; atoms are jumps."""
    places = np.array([[-2.0, -1.0, 0.0, 3.0], [5.0, 5.5, 5.6, 9.0]])
    law = QuantileLaw.of([0.1, 0.4, 0.5, 0.9], places, [0.5, 2.0], [1.0, 0.3])
    for row, (left, right) in enumerate([(0.5, 1.0), (2.0, 0.3)]):
        ends = places[row, 0] - left * np.arange(60, 0, -1), places[row, -1] + right * np.arange(1, 61)
        cuts = np.concatenate([ends[0], places[row], ends[1]])
        nodes, shares = np.polynomial.legendre.leggauss(12)
        half = 0.5 * np.diff(cuts)[:, None]
        x = (0.5 * (cuts[1:] + cuts[:-1])[:, None] + half * nodes).ravel()
        mass = np.exp(law.rows([row]).row_log_probs(x[:, None])[:, 0]) * (half * shares).ravel()
        mean = mass @ x
        assert mass.sum() == pytest.approx(1, abs=1e-12)
        assert mean == pytest.approx(law.mean[row], abs=1e-12)
        assert mass @ (x - mean) ** 2 == pytest.approx(law.variance[row], abs=1e-11)
    p = np.array([1e-6, 0.1, 0.3, 0.5, 0.77, 0.9, 1 - 1e-9])[:, None] * np.ones(2)
    np.testing.assert_allclose(law.cdf(law.icdf(p)), p, rtol=1e-9)
    np.testing.assert_allclose(law.survival(law.icdf(p)), 1 - p, rtol=1e-6)
    assert np.isnan(law.icdf(np.array([-0.1, np.nan]))).all()
    draws = law.sample(jr.key(0), (4000,))
    assert np.abs((draws.mean(0) - law.mean) / (law.std / 4000**0.5)).max() < 4
    assert stats.kstest(law.cdf(draws)[:, 0], "uniform").pvalue > 1e-3
    atom = QuantileLaw.of([0.2, 0.5, 0.7], [[1.0, 1.0, 2.0]], [0.0], [0.0])
    assert atom.cdf(1.0)[0] == 0.5
    assert atom.cdf(0.999)[0] == 0
    assert atom.cdf(2.0)[0] == 1
    assert atom.row_log_probs([1.0])[0] == np.inf
    assert atom.row_log_probs([0.9])[0] == -np.inf
    assert atom.icdf(0.3)[0] == 1


def test_even_noise_has_one_shape_and_noise_that_grows_has_not():
    """Slopes of lines differ by noise alone where the width is even: laws do not take them up."""
    generator = np.random.default_rng(9)
    x, noise = generator.uniform(0, 2, size=(400, 4)), generator.gamma(1.0, size=400)
    even = fit_quantiles(x, x[:, 0] + noise)
    widths = even.calm[-1, 1:] - even.calm[0, 1:]
    assert np.abs(widths).max() < 0.5 * np.abs(even.beta[-1, 1:] - even.beta[0, 1:]).max()
    np.testing.assert_array_equal(even.calm[even.levels == 0.5], even.beta[even.levels == 0.5])
    grown = fit_quantiles(x, x[:, 0] + (0.2 + x[:, 1]) * noise)
    change = (grown.calm[-1] - grown.calm[0])[2] / (grown.beta[-1] - grown.beta[0])[2]
    assert 0.7 < change < 1.2


def test_predictions_do_not_cross_and_are_wider_than_the_lines():
    few = fit_quantiles(X[:30], Y[:30], prior_precision=0)
    far = 5 * X
    assert (np.diff(few.quantiles(far), axis=1) >= 0).all()
    law, lines = few.predict_dist(far), few.predict_dist(far, errors=False)
    near, wide, plain = (each.icdf(0.95) - each.icdf(0.05) for each in (few.predict_dist(X), law, lines))
    assert wide.mean() > 1.3 * plain.mean()
    assert (wide > near)[np.abs(X).max(1) > 1].mean() > 0.95  # far away the lines are known less
    np.testing.assert_allclose(law.icdf(0.5), lines.icdf(0.5))
    assert np.isfinite(law.row_log_probs(np.zeros(len(far)))).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": [0.5, 1.0]}, r"`levels` must be 'auto' or numbers between 0 and 1; got \[0.5, 1.0\]"),
        ({"levels": 0.5}, r"`levels` must be others beside 0.5, which show a spread"),
        ({"levels": "many"}, r"`levels` must be 'auto' or numbers"),
        ({"prior_precision": -1.0}, r"`prior_precision` must be 'evidence', 0 for no prior"),
    ],
)
@pytest.mark.cheap
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        fit_quantiles(X, Y, **options)


def test_usual_levels_have_rows_beyond_them():
    assert usual_levels(10.0, 1) == (0.2, 0.35, 0.5, 0.65, 0.8)
    assert usual_levels(5000.0, 10)[0] == 0.01


@pytest.mark.plain
@pytest.mark.slow
def test_standard_errors_hold_what_they_promise():
    """Ninety per cent intervals of slopes over 100 tables of 300 rows, whose noise grows with a column: a
    little too careful, and no level by more than three standard errors of the count."""
    levels, hits = [0.1, 0.5, 0.9], []
    for seed in range(100):
        generator = np.random.default_rng(seed)
        x = np.column_stack([generator.uniform(0, 2, 300), generator.normal(size=(300, 2))])
        y = x @ [0.3, -0.2, 0.0] + (1 + 0.5 * x[:, 0]) * generator.gamma(2.0, size=300)
        found = fit_quantiles(x, y, levels=levels, prior_precision=0)
        values, errors = (part[:, 1:] for part in found.coefficients())
        truth = np.array([[0.3 + 0.5 * stats.gamma(2.0).ppf(level), -0.2, 0.0] for level in levels])
        hits.append(np.mean(np.abs(values - truth) <= 1.645 * errors, axis=1))
    shares, error = np.mean(hits, 0), np.std(hits, 0) / 100**0.5
    assert (shares > 0.9 - 3 * error).all()
    assert (shares < 0.95 + 3 * error).all()


@pytest.mark.plain
@pytest.mark.slow
def test_intervals_hold_new_targets():
    """Ninety per cent of new rows, within three per cent and three standard errors, over thirty tables."""
    shares = []
    for seed in range(30):
        generator = np.random.default_rng([seed, 60])
        x = generator.normal(size=(260, 3))
        y = x[:, 0] + np.exp(0.5 * x[:, 1]) * (generator.gamma(1.0, size=260) - 1)
        law = fit_quantiles(x[:60], y[:60]).predict_dist(x[60:])
        low, high = law.icdf(0.05), law.icdf(0.95)
        shares.append(np.mean((low <= y[60:]) & (y[60:] <= high)))
    assert abs(np.mean(shares) - 0.9) < 0.03 + 3 * np.std(shares) / 30**0.5
