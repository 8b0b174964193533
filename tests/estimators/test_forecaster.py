"""`Forecaster`: the answers of `forecast_series`, longer horizons, columns, pictures."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import tractable as tr
from tractable.estimators import Forecaster
from tractable.statespace import forecast_series

WALK = np.cumsum(np.random.default_rng(1).normal(size=50))


@pytest.fixture(scope="module")
def fitted():
    return Forecaster(horizon=4, seasons=()).fit(WALK)


@pytest.mark.thorough
def test_the_answers_are_those_of_the_function(fitted):
    want = forecast_series(WALK, 4, seasons=())
    assert np.array_equal(fitted.predict(), want.mean)
    assert np.array_equal(fitted.predict_interval(2), np.stack([want.lower, want.upper], 1)[:2])
    assert fitted.sample(5, random_state=1).shape == (5, 4)
    assert np.all(np.diff(fitted.predict_interval(level=0.5)) < np.diff(fitted.predict_interval()))
    assert fitted.winner_ == want.winner
    assert fitted.verdict_.sentence == want.verdict.sentence


@pytest.mark.thorough
def test_a_longer_horizon_and_columns():
    x = np.cos(np.arange(56))
    made = Forecaster(seasons=()).fit(WALK[:50] + 4 * x[:50], X=x[:50])
    assert made.predict(6, X=x[50:]).shape == (6,)
    with pytest.raises(ValueError, match="`X` must be given where `fit` had it"):
        made.predict(6)


def test_it_is_an_estimator(fitted):
    assert clone(fitted).get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        Forecaster().predict()


def test_pictures(fitted):
    assert tr.plot(fitted).get_ylabel() == "reading"
    if fitted.forecast_.decomposition is not None:
        assert len(tr.plot(fitted, kind="decomposition")) >= 2
