"""The estimator of linear-Gaussian systems: forms of series, predictions, slips, scikit-learn's checks."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from tractable.estimators import LinearGaussianStateSpace

RNG = np.random.default_rng(0)
WAVE = np.stack([np.sin(np.arange(90) / 5), np.cos(np.arange(90) / 5)], 1) + 0.2 * RNG.normal(size=(90, 2))


def made(**options):
    return LinearGaussianStateSpace(2, n_iter=40, tol=1e-3, random_state=0, **options)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.thorough
def test_predictions_beat_the_last_row_and_all_forms_agree():
    model = made().fit(WAVE[:60])
    ahead = model.predict(WAVE)[60:]
    assert ((ahead - WAVE[60:]) ** 2).mean() < 0.8 * ((WAVE[59:-1] - WAVE[60:]) ** 2).mean()
    assert model.score(WAVE[60:]) > -60
    assert model.forecast(WAVE[:60], 3).mean.shape == (3, 2)
    assert model.smooth(WAVE).shape == (90, 2)
    several = made().fit([WAVE[:50], WAVE[50:]])
    flat = made().fit(WAVE, lengths=[50, 40])
    np.testing.assert_allclose(several.model_.transition, flat.model_.transition)
    assert several.forecast([WAVE[:50], WAVE[50:]], 2).mean.shape == (2, 2, 2)
    gaps = WAVE.copy()
    gaps[10, 0], gaps[20:22] = np.nan, np.nan
    assert np.isfinite(made().fit(gaps).predict(gaps)).all()


def test_slips_are_named():
    with pytest.raises(ValueError, match="`lengths` must be positive numbers that add up to 90"):
        made().fit(WAVE, lengths=[50, 30])
    with pytest.raises(ValueError, match="column 1 that does not"):
        made().fit(np.stack([WAVE[:, 0], np.ones(90)], 1))
    with pytest.warns(ConvergenceWarning):
        LinearGaussianStateSpace(1, n_iter=1, random_state=0).fit(WAVE)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_it():
    model = LinearGaussianStateSpace(1, n_iter=3, random_state=0)
    check_estimator(model, expected_failed_checks=model.expected_failed_checks)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_far_from_zero_are_fitted_as_those_about_it():
    rows = np.cumsum(np.random.default_rng(0).normal(size=(60, 2)), 0)
    near, far = (LinearGaussianStateSpace(2, n_iter=20, random_state=0).fit(x) for x in (rows, rows + 1e9))
    np.testing.assert_allclose(far.score(rows + 1e9), near.score(rows), rtol=1e-4)
