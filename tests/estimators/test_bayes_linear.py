"""Bayesian linear regressors: scikit-learn's checks, parts that add, predictions, files, odd tables."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from tractable.core import storage
from tractable.estimators.bayes_linear import BayesianLinearRegressor, RelevanceRegressor
from tractable.supervised.basis import GaussianBumps, Polynomial

METHODS = ["evidence", "full", "conjugate", "variational"]
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 4))
Y = X @ [1.0, -2.0, 0.0, 0.5] + 3.0 + 0.7 * RANDOM.normal(size=60)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks_of_full_bayes():
    check_estimator(BayesianLinearRegressor("full"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("method", ["conjugate", "variational"])
def test_scikit_learn_checks_of_other_methods(method):
    check_estimator(BayesianLinearRegressor(method))


@pytest.mark.parametrize("method", METHODS)
def test_predictions_are_consistent_and_calibrated(method):
    model = BayesianLinearRegressor(method).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, rtol=1e-12)
    dist = model.predict_dist(X)
    np.testing.assert_allclose(dist.mean, model.predict(X), rtol=1e-10)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(std**2, dist.variance, rtol=1e-9)
    np.testing.assert_allclose(model.predict_uncertainty(X).total, dist.variance, rtol=1e-9)
    lower, upper = model.predict_interval(X, 0.9)
    np.testing.assert_allclose(dist.cdf(lower), np.full(60, 0.05), rtol=1e-6)
    assert 0.8 <= ((lower < Y) & (upper > Y)).mean() <= 0.98
    draws = model.sample_y(X[:5], 2000, random_state=0)
    assert draws.shape == (5, 2000)
    z = (draws.mean(1) - mean[:5]) / (std[:5] / np.sqrt(2000))
    assert np.abs(z).max() < 5
    assert np.isfinite(model.log_evidence_)
    np.testing.assert_allclose(model.coef_, [1.0, -2.0, 0.0, 0.5], atol=0.4)
    assert model.sigma_.shape == (4, 4)
    assert np.linalg.eigvalsh(model.sigma_).min() > 0


def test_agreement_with_scikit_learn():
    peer = BayesianRidge(
        fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-14, max_iter=10_000
    ).fit(X, Y)
    ours = BayesianLinearRegressor("evidence", fit_intercept=False, standardise=False).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-6)
    np.testing.assert_allclose([ours.alpha_, ours.noise_precision_], [peer.lambda_, peer.alpha_], rtol=1e-6)
    mean, std = ours.predict(X, return_std=True)
    mean_peer, std_peer = peer.predict(X, return_std=True)
    np.testing.assert_allclose(mean, mean_peer, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(std, std_peer, rtol=1e-6)


@pytest.mark.parametrize("estimator", [*map(BayesianLinearRegressor, METHODS), RelevanceRegressor()])
def test_parts_give_the_fit_of_all_rows(estimator):
    whole = clone(estimator).fit(X, Y)
    parts = clone(estimator)
    for rows in np.array_split(RANDOM.permutation(60), 4):
        parts.partial_fit(X[rows], Y[rows])
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(parts.log_evidence_, whole.log_evidence_, rtol=1e-8)


def test_basis_and_uncertainty_parts():
    x = np.linspace(0, 1, 30)[:, None]
    y = np.sin(6 * x[:, 0]) + 0.1 * RANDOM.normal(size=30)
    model = BayesianLinearRegressor(basis=GaussianBumps(np.linspace(0, 1, 8), 0.15)).fit(x, y)
    assert model.score(x, y) > 0.95
    assert model.coef_.shape == (8,)
    parts = model.predict_uncertainty([[0.5], [3.0]])
    assert float(parts.epistemic[1]) > 10 * float(parts.epistemic[0])
    lists = BayesianLinearRegressor(basis=[Polynomial(2, bias=False), np.sin]).fit(x, y)
    assert lists.coef_.shape == (3,)


def test_pipeline_grid_search_clone_pickle_and_pandas():
    table = pd.DataFrame(X, columns=list("abcd"))
    search = GridSearchCV(BayesianLinearRegressor(), {"method": ["evidence", "full"]}, cv=3).fit(table, Y)
    assert search.best_score_ > 0.8
    piped = make_pipeline(StandardScaler(), BayesianLinearRegressor()).fit(table, Y)
    again = pickle.loads(pickle.dumps(piped))
    np.testing.assert_array_equal(again.predict(table), piped.predict(table))
    with pytest.raises(ValueError, match="column 'b'"):
        BayesianLinearRegressor().fit(table.assign(b=np.nan), Y)


@pytest.mark.parametrize("estimator", [*map(BayesianLinearRegressor, METHODS), RelevanceRegressor()])
def test_models_are_stored_without_pickle(tmp_path, estimator):
    fitted = clone(estimator).set_params(basis=Polynomial(2, bias=False)).fit(X, Y)
    storage.save(tmp_path / "model", fitted.model_)
    np.testing.assert_array_equal(storage.load(tmp_path / "model").predict(X), fitted.predict(X))


@pytest.mark.parametrize("estimator", [*map(BayesianLinearRegressor, METHODS), RelevanceRegressor()])
def test_scales_constant_columns_duplicates_and_few_rows(estimator):
    scale = np.array([1e12, 1e-12, 1.0, 1e6])
    plain = clone(estimator).fit(X, Y)
    scaled = clone(estimator).fit(X * scale, Y * 1e5)
    np.testing.assert_allclose(scaled.predict(X * scale) / 1e5, plain.predict(X), rtol=1e-6, atol=1e-6)
    more = np.column_stack([X, np.full(60, 1e9 / 3), X[:, 0]])
    wide = clone(estimator).fit(more, Y)
    assert wide.coef_[4] == 0.0
    assert np.isfinite(wide.predict(more)).all()
    few = clone(estimator).fit(X[:3], Y[:3])
    assert np.isfinite(few.predict(X)).all()
    if isinstance(few, RelevanceRegressor):
        with pytest.raises(ValueError, match="`X` must be of more rows than the choice among its columns"):
            few.predict_dist(X)
        return
    assert np.isfinite(np.asarray(few.predict_dist(X).log_prob(Y))).all()


def test_relevance_drops_and_reports():
    model = RelevanceRegressor().fit(X, Y)
    assert model.kept_[[0, 1]].all()
    assert np.isinf(model.alpha_[~model.kept_]).all()
    assert (model.coef_[~model.kept_] == 0).all()
    assert "columns kept" in repr(model.run_)


def test_one_row_with_an_intercept_is_refused_and_proper_priors_accept_it():
    with pytest.raises(ValueError, match="n_samples = 1"):
        BayesianLinearRegressor().fit(X[:1], Y[:1])
    one = BayesianLinearRegressor("conjugate").fit(X[:1], Y[:1])
    np.testing.assert_allclose(one.predict(X[:1]), Y[:1], rtol=1e-12)


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="'method' parameter"):
        BayesianLinearRegressor("guess").fit(X, Y)
    with pytest.raises(ValueError, match="'prior_rows' parameter"):
        BayesianLinearRegressor("conjugate", prior_rows=-1.0).fit(X, Y)
