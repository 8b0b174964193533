"""Intervals by numbers, deferral by hand, guarantees by simulation, and a monitor that rejects its errors."""

import numpy as np
import pytest
from scipy import stats

from tractable.inference.trust.uncertainty import risk_coverage
from tractable.supervised.generative.discriminant import fit_gaussian_discriminant
from tractable.supervised.selection.losses import confusion_matrix, zero_one_loss
from tractable.supervised.selection.uncertainty import (
    Prediction,
    class_uncertainty,
    conformal_interval,
    conformal_sets,
    conformal_threshold,
    ensemble_classes,
    ensemble_numbers,
    selective_prediction,
    threshold_for_coverage,
    threshold_for_risk,
)

RNG = np.random.default_rng(0)


def test_predictions_with_uncertainty():
    sharp, vague = Prediction.normal(5.0, 0.1), Prediction.normal(5.0, 5.0)
    np.testing.assert_allclose(sharp.interval(0.95), [4.804, 5.196], atol=5e-4)
    np.testing.assert_allclose(vague.interval(0.95), [-4.800, 14.800], atol=5e-4)
    assert bool(sharp.surer_than(vague))
    assert not bool(vague.surer_than(sharp))
    assert repr(vague) == "5 ± 5, 95% in [-4.8, 14.8]"
    assert (sharp.value, sharp.std) == (5.0, pytest.approx(0.1))
    rows = Prediction.normal(np.zeros(3), np.ones(3))
    assert rows.interval(0.5).upper == pytest.approx(stats.norm.ppf(0.75) * np.ones(3))


def test_uncertainty_of_classes():
    p = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(class_uncertainty(p), stats.entropy(p, axis=1), atol=1e-15)
    np.testing.assert_allclose(class_uncertainty(p, "error"), [0.3, 0.0], atol=1e-15)
    np.testing.assert_allclose(class_uncertainty(p, "margin"), [0.5, 0.0], atol=1e-15)


def test_coverage_and_risk_at_a_threshold():
    u, losses = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    found = selective_prediction(u, losses, 0.3)
    assert found.answered.tolist() == [True, True, True, False, False]
    assert (found.coverage, found.risk) == (0.6, pytest.approx(1 / 3))
    assert threshold_for_coverage(u, 0.6) == 0.3
    assert threshold_for_coverage(u, 0.61) == 0.4
    assert threshold_for_risk(u, losses, 0.25).threshold == 0.4
    assert threshold_for_risk(u, losses, 0.0).coverage == 0.4
    none = threshold_for_risk(u[2:3], losses[2:3], 0.5)
    assert (none.coverage, none.threshold) == (0.0, -np.inf)
    assert np.isnan(none.risk)
    curve = risk_coverage(-u, losses)
    np.testing.assert_allclose([selective_prediction(u, losses, t).risk for t in u], curve.risk, rtol=1e-12)
    tied = threshold_for_risk(np.zeros(4), np.array([0.0, 0.0, 0.0, 1.0]), 0.1)
    assert tied.coverage == 0.0  # equal uncertainties are answered together or not at all


def test_bounds_on_the_risk_hold():
    exact = stats.beta.ppf(0.95, 3 + 1, 40 - 3)
    losses = np.r_[np.ones(3), np.zeros(37)]
    assert selective_prediction(np.zeros(40), losses, 0.5, failure=0.05).bound == pytest.approx(exact)
    assert stats.binom.cdf(3, 40, exact) == pytest.approx(0.05)
    assert selective_prediction(np.zeros(2), np.ones(2), 0.5, failure=0.05).bound == 1.0
    answered, wrong, generator = 0, 0, np.random.default_rng(1)
    for _ in range(400):  # the error of a case of uncertainty u has probability u / 2
        u = generator.random(300)
        chosen = threshold_for_risk(u, generator.random(300) < u / 2, 0.2, failure=0.1)
        true_risk = max(chosen.threshold, 0.0) / 4
        wrong += true_risk > 0.2
        answered += chosen.coverage > 0
        assert np.isnan(chosen.bound) or chosen.bound <= 0.2
    assert answered > 200  # it does answer
    assert wrong <= 0.1 * 400 + 5 * np.sqrt(400 * 0.09)
    with pytest.raises(ValueError, match=r"`losses` must be 0 or 1 for a bound; got 0.5"):
        selective_prediction([0.0], [0.5], 1.0, failure=0.1)


def test_conformal_intervals_cover_whatever_the_model():
    assert conformal_threshold([3.0, 1.0, 2.0], 0.75) == 3.0
    assert conformal_threshold([3.0, 1.0, 2.0], 0.5) == 2.0
    assert conformal_threshold([3.0, 1.0, 2.0], 0.9) == np.inf
    inside, generator = [], np.random.default_rng(2)
    for _ in range(1500):  # a model that is wrong, and noise with heavy tails
        x = generator.uniform(size=20)
        y = x**2 + generator.standard_t(2, size=20) * (0.1 + x)
        low, high = conformal_interval(y[:19], x[:19], x[19:], 0.8, scale=1 + x[:19], new_scale=1 + x[19:])
        inside.append(low[0] <= y[19] <= high[0])
    exact = np.ceil(20 * 0.8) / 20  # continuous scores: exactly k / (n + 1)
    assert abs(np.mean(inside) - exact) <= 5 * np.sqrt(exact * (1 - exact) / 1500)


def test_conformal_sets_cover():
    inside, generator = [], np.random.default_rng(3)
    for _ in range(1500):
        p = generator.dirichlet(np.ones(4), 30)
        y = np.array([generator.choice(4, p=q) for q in p])
        sets = conformal_sets(p[:29], y[:29], p[29:], 0.9)
        inside.append(sets[0, y[29]])
    exact = np.ceil(30 * 0.9) / 30
    assert abs(np.mean(inside) - exact) <= 5 * np.sqrt(exact * (1 - exact) / 1500)


def test_ensembles_keep_both_moments():
    means, variances = RNG.normal(size=(6, 4)), RNG.uniform(0.1, 1.0, (6, 4))
    found = ensemble_numbers(means, variances)
    np.testing.assert_allclose(found.prediction.mean, means.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.prediction.variance, variances.mean(0) + means.var(0), rtol=1e-12)
    probs = RNG.dirichlet(np.ones(3), (6, 4))
    classes = ensemble_classes(probs)
    np.testing.assert_allclose(classes.prediction, probs.mean(0))
    np.testing.assert_allclose(classes.split.total, stats.entropy(probs.mean(0), axis=1), rtol=1e-10)
    assert "more data" in repr(classes)


def test_predictive_monitoring_rejects_likely_errors():
    """A damped pendulum, pushed: does it pass the upright position? Seen through noise, learnt, monitored."""

    def reaches_unsafe(state):
        angle, speed = state.T.copy()
        unsafe = np.zeros(len(state), bool)
        for _ in range(400):
            speed = speed - 0.02 * (np.sin(angle) + 0.1 * speed)
            angle = angle + 0.02 * speed
            unsafe |= np.abs(angle) > np.pi
        return unsafe.astype(int)

    generator = np.random.default_rng(4)
    start = generator.uniform([-2.0, -3.0], [2.0, 3.0], (3000, 2))
    truth = reaches_unsafe(start)
    seen = np.c_[start, start[:, :1] * start[:, 1:], start**2] + 0.05 * generator.normal(size=(3000, 5))
    fit, tune, test = np.split(np.arange(3000), [1000, 2000])
    model = fit_gaussian_discriminant(seen[fit], truth[fit], shrinkage=0.01)
    probs = model.posterior(seen)
    errors, u = zero_one_loss(truth, probs.argmax(1)), class_uncertainty(probs)
    assert 0.02 < errors[test].mean() < 0.3
    rule = threshold_for_risk(u[tune], errors[tune], errors[tune].mean() / 3)
    kept = u[test] <= rule.threshold
    assert rule.coverage > 0.4
    assert errors[test][kept].mean() < errors[test].mean() / 2
    before = confusion_matrix(truth[test], probs[test].argmax(1))
    after = confusion_matrix(truth[test][kept], probs[test][kept].argmax(1), 2)
    assert after[1, 0] < before[1, 0]  # fewer unsafe states called safe
    assert after[0, 1] < before[0, 1]  # and fewer false alarms


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Prediction.normal(0.0, -1.0), "`scale` must be positive"),
        (lambda: Prediction.normal(0.0, 1.0).interval(1.0), "`level` must be between 0 and 1"),
        (lambda: selective_prediction([0.0, 1.0], [0.0], 0.5), r"`losses` must be one per case \(2,\)"),
        (lambda: selective_prediction([np.nan], [0.0], 0.5), "`uncertainty` must be numbers; got NaN"),
        (lambda: threshold_for_coverage([0.1], 0.0), "`coverage` must be above 0, at most 1"),
        (lambda: class_uncertainty([0.5, 0.5]), r"`probs` must be of shape \(rows, classes\)"),
        (lambda: conformal_threshold([], 0.9), "`scores` must be a vector of numbers"),
        (
            lambda: conformal_interval([1.0], [1.0], [1.0], scale=[1.0]),
            "`new_scale` must be given",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
