"""Generalised linear models as estimators: what they take beside rows and targets, and what they report."""

import numpy as np
import pytest

from tractable.estimators import (
    BetaRegressor,
    GammaRegressor,
    HeteroscedasticRegressor,
    OrdinalClassifier,
    PoissonRegressor,
    SurvivalRegressor,
)

RNG = np.random.default_rng(5)
X = RNG.normal(size=(200, 2))
DAYS = RNG.uniform(1, 10, 200)
COUNTS = RNG.poisson(DAYS * np.exp(0.2 + 0.6 * X[:, 0]))


def test_exposures_and_absent_rows_belong_together():
    weights = np.where(np.arange(200) % 4 == 0, 0.0, 1.0)
    keep = weights > 0
    first = PoissonRegressor().fit(X, COUNTS, weights, exposure=DAYS)
    second = PoissonRegressor().fit(X[keep], COUNTS[keep], exposure=DAYS[keep])
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=1e-10)
    assert abs(first.intercept_ - 0.2) < 0.15
    twice = first.predict(X[:5], exposure=2 * np.ones(5))
    np.testing.assert_allclose(twice, 2 * first.predict(X[:5]), rtol=1e-10)
    with pytest.raises(
        ValueError, match=r"`exposure` must be of shape \(200,\), one for each row; got shape"
    ):
        PoissonRegressor().fit(X, COUNTS, exposure=DAYS[:10])
    with pytest.raises(ValueError, match="`exposure` must be positive and finite"):
        PoissonRegressor().fit(X, COUNTS, exposure=0 * DAYS)


def test_summaries_hold_the_truth_and_name_their_columns():
    frame = PoissonRegressor().fit(X, COUNTS, exposure=DAYS).summary(0.99)
    assert list(frame.index) == ["intercept", "x0", "x1"]
    truth = np.array([0.2, 0.6, 0.0])
    assert ((frame["lower"] < truth) & (truth < frame["upper"])).all()
    y = X[:, 0] + np.exp(0.5 * X[:, 1]) * RNG.normal(size=200)
    model = HeteroscedasticRegressor().fit(X, y)
    scale = model.scale_summary(0.99)
    assert scale.loc["x1", "lower"] < 0.5 < scale.loc["x1", "upper"]
    split = model.predict_uncertainty(X)
    np.testing.assert_allclose(np.asarray(split.total), model.predict_dist(X).variance, rtol=0.05)


def test_censored_times_are_longer_than_they_look():
    time = np.exp(1 + 0.5 * X[:, 0]) * RNG.weibull(2.0, 200)
    end = np.full(200, 3.0)
    seen, event = np.minimum(time, end), time <= end
    for law in ("weibull", "log_normal"):
        model = SurvivalRegressor(law).fit(X, seen, event=event)
        blind = SurvivalRegressor(law).fit(X, seen)
        assert abs(model.coef_[0] - 0.5) < 0.2
        assert model.predict(X).mean() > 1.1 * blind.predict(X).mean()
    assert abs(SurvivalRegressor().fit(X, time).scale_ - 0.5) < 0.1
    with pytest.raises(ValueError, match="`event` must be 0"):
        SurvivalRegressor().fit(X, seen, event=np.full(200, 2))
    with pytest.raises(ValueError, match="times with at least one event"):
        SurvivalRegressor().fit(X, seen, event=np.zeros(200))


def test_bounds_stretch_proportions():
    share = RNG.beta(4.0, 2.0, 200)
    plain, scaled = BetaRegressor().fit(X, share), BetaRegressor((0, 50)).fit(X, 50 * share)
    np.testing.assert_allclose(scaled.predict(X), 50 * plain.predict(X), rtol=1e-8)
    np.testing.assert_allclose(scaled.predict_interval(X)[0], 50 * plain.predict_interval(X)[0], rtol=1e-6)
    assert scaled.log_score(X, 50 * share) == pytest.approx(plain.log_score(X, share) - np.log(50), abs=1e-8)
    assert scaled.log_evidence_ == pytest.approx(plain.log_evidence_ - 200 * np.log(50), rel=1e-6)


def test_classes_are_in_the_order_that_is_given():
    latent = 1.5 * X[:, 0] + RNG.logistic(size=200)
    grade = np.array(["low", "fair", "high"])[np.digitize(latent, [-1, 1])]
    model = OrdinalClassifier(order=["low", "fair", "high"]).fit(X, grade)
    assert model.classes_.tolist() == ["low", "fair", "high"]
    assert abs(model.coef_[0] - 1.5) < 0.5
    assert (np.diff(model.thresholds_) > 0).all()
    assert model.log_score(X, grade) > OrdinalClassifier().fit(X, grade).log_score(X, grade)
    with pytest.raises(ValueError, match="`order` must be a list of all classes"):
        OrdinalClassifier(order=["low", "fair"]).fit(X, grade)


def test_draws_predict_and_are_kept_in_files(tmp_path):
    few, rows = COUNTS[:10], X[:10, :1]
    options = {"prior_precision": 1.0, "method": "mcmc", "draws": 400, "random_state": 3}
    model = PoissonRegressor(**options).fit(rows, few)
    plain = PoissonRegressor(prior_precision=1.0).fit(rows, few)
    assert model.log_evidence_ == plain.log_evidence_
    assert model.run_.verdict.ok
    assert model.run_.draws["coefficients"].shape == (4, 400, 2)
    np.testing.assert_allclose(model.predict(rows), plain.predict(rows), rtol=0.2)
    again = PoissonRegressor(**options).fit(rows, few)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    model.save(tmp_path / "model")
    kept = PoissonRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(kept.predict(rows), model.predict(rows))
    assert kept.model_.verdict.sentence == model.model_.verdict.sentence
    assert not hasattr(model.set_params(method="laplace").fit(rows, few), "run_")


@pytest.mark.slow
def test_intervals_of_positive_numbers_hold_over_seeds():
    """Ninety per cent of new rows, within four standard errors over thirty tables of forty rows."""
    shares = []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        rows = generator.normal(size=(240, 3))
        y = generator.gamma(2.0, np.exp(0.5 * rows[:, 0]) / 2)
        low, high = GammaRegressor().fit(rows[:40], y[:40]).predict_interval(rows[40:])
        shares.append(np.mean((low <= y[40:]) & (y[40:] <= high)))
    error = np.std(shares) / 30**0.5
    assert abs(np.mean(shares) - 0.9) < 4 * error
