"""Estimators with margins: agreement with scikit-learn, honest probabilities, weights, files, hard inputs."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from tractable.estimators.kernel_ridge import KernelRidgeRegressor
from tractable.estimators.perceptron import PerceptronClassifier
from tractable.estimators.svm import (
    LeastSquaresSupportVectorClassifier,
    LeastSquaresSupportVectorRegressor,
    LinearSupportVectorClassifier,
    SupportVectorClassifier,
    SupportVectorRegressor,
)
from tractable.kernels.stationary import RBF
from tractable.supervised.svm.calibration import fit_temperature

CLASSIFIERS = (SupportVectorClassifier, LinearSupportVectorClassifier, LeastSquaresSupportVectorClassifier,
               PerceptronClassifier)  # fmt: skip
REGRESSORS = (SupportVectorRegressor, LeastSquaresSupportVectorRegressor, KernelRidgeRegressor)


def classes(n=200, seed=0, count=2):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 5))
    return X, np.argmax(X[:, :count] + 0.6 * generator.normal(size=(n, count)), 1)


def curve(n=200, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-3, 3, size=(n, 1))
    return X, np.sin(X[:, 0]) + 0.2 * generator.normal(size=n)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_decisions_are_those_of_scikit_learn(kernel):
    X, y = classes()
    ours = SupportVectorClassifier(C=2.0, kernel=kernel, coef0=0.5, standardise=False).fit(X, y)
    theirs = SVC(C=2.0, kernel=kernel, coef0=0.5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-5)
    assert sorted(ours.support_) == sorted(theirs.support_)
    x, t = curve()
    ours, theirs = (
        SupportVectorRegressor(kernel=kernel, epsilon=0.2, standardise=False),
        SVR(kernel=kernel, epsilon=0.2, tol=1e-8),
    )
    np.testing.assert_allclose(ours.fit(x, t).predict(x), theirs.fit(x, t).predict(x), atol=2e-5)
    ridge, peer = (
        KernelRidgeRegressor(0.5, kernel=kernel, gamma=0.3, standardise=False),
        KernelRidge(alpha=0.5, kernel=kernel, gamma=0.3),
    )
    np.testing.assert_allclose(ridge.fit(x, t).predict(x), peer.fit(x, t).predict(x), atol=1e-8)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_probabilities_agree_with_predictions_and_are_calibrated(cls, count):
    X, y = classes(400, count=count)
    X_test, y_test = classes(1000, seed=1, count=count)
    fitted = cls().fit(X, y)
    probs = fitted.predict_proba(X_test)
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(fitted.classes_[probs.argmax(1)], fitted.predict(X_test))
    values = fitted.decision_function(X_test)
    np.testing.assert_array_equal(
        (values > 0).astype(int) if count == 2 else values.argmax(1), fitted.predict(X_test)
    )
    confidence, right = probs.max(1), fitted.predict(X_test) == y_test
    error = np.sqrt((confidence * (1 - confidence)).sum()) / 1000
    if count == 2 or cls is not PerceptronClassifier:
        # the slopes themselves come from 400 rows; perceptrons against the rest are only ranked right
        assert abs(confidence.mean() - right.mean()) < 5 * error + 0.03
    assert log_loss(y_test, probs) < log_loss(y_test, np.full_like(probs, 1 / count))


def calibration_error(probs, right):
    """The mean distance between confidence and accuracy over ten bins of the confidence."""
    confidence = probs.max(1)
    bins = np.minimum((10 * confidence).astype(int), 9)
    gaps = [abs((confidence - right)[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return sum(gaps)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_planes_against_the_rest_are_calibrated(count):
    """Over tables of 400 rows: within 0.03 in the median, never by 0.1; slopes without a lean."""
    X_test, y_test = classes(5000, seed=1, count=count)
    gaps, errors, ratios = [], [], []
    for seed in range(100, 108):
        fitted = LinearSupportVectorClassifier().fit(*classes(400, seed=seed, count=count))
        probs, right = fitted.predict_proba(X_test), fitted.predict(X_test) == y_test
        gaps.append(abs(probs.max(1).mean() - right.mean()))
        errors.append(calibration_error(probs, right))
        if count > 2:  # the slope of one who has seen the answers
            best = fit_temperature(fitted.decision_function(X_test), y_test)
            ratios.append(np.log(fitted.calibration_.slope / best.slope))
    assert np.median(gaps) < 0.03
    assert np.median(errors) < 0.03
    assert max(gaps) < 0.1
    if ratios:
        assert abs(np.mean(ratios)) < 5 * np.std(ratios) / np.sqrt(len(ratios)) + 0.02
        assert np.abs(ratios).max() < 0.4  # with the span rule: a factor of two


def test_planes_are_calibrated_where_classes_have_one_row():
    fitted = LinearSupportVectorClassifier().fit([[0.0], [1.0], [3.0]], ["a", "b", "c"])
    probs = fitted.predict_proba([[0.0], [1.0], [3.0]])
    np.testing.assert_allclose(probs.sum(1), 1.0)
    assert LinearSupportVectorClassifier().fit([[0.0], [3.0]], [0, 1]).predict([[0.0], [3.0]]).tolist() == [
        0,
        1,
    ]


def test_probabilities_by_folds_and_without():
    X, y = classes()
    spans, folds = SupportVectorClassifier().fit(X, y), SupportVectorClassifier(folds=5).fit(X, y)
    np.testing.assert_allclose(spans.predict_proba(X), folds.predict_proba(X), atol=0.12)
    bare = SupportVectorClassifier(probability=False).fit(X, y)
    with pytest.raises(AttributeError, match=r"`probability` must be True to have probabilities"):
        bare.predict_proba(X)


@pytest.mark.parametrize("cls", REGRESSORS)
def test_intervals_cover_what_they_promise(cls):
    X, t = curve()
    X_test, t_test = curve(2000, seed=1)
    fitted = cls().fit(X, t)
    lower, upper = fitted.predict_interval(X_test, 0.9)
    cover = ((lower <= t_test) & (t_test <= upper)).mean()
    assert 0.82 < cover <= 0.999
    assert fitted.log_score(X_test, t_test) > -0.4
    np.testing.assert_allclose(np.asarray(fitted.predict_dist(X_test).mean), fitted.predict(X_test))


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
def test_files_clones_and_pipelines(cls, tmp_path, monkeypatch):
    from tractable import estimators

    X, y = curve(60) if cls in REGRESSORS else classes(60)
    fitted = cls().fit(X, y)
    for other in (pickle.loads(pickle.dumps(fitted)), clone(fitted).fit(X, y)):
        np.testing.assert_array_equal(other.predict(X), fitted.predict(X))
    if cls.__name__ in estimators.__all__:
        fitted.save(tmp_path / "model")
        np.testing.assert_array_equal(cls.load(tmp_path / "model").predict(X), fitted.predict(X))
    piped = make_pipeline(StandardScaler(), cls()).fit(X, y)
    assert piped.score(X, y) > 0.5


def test_grids_over_penalties_and_kernel_objects():
    X, y = classes(120)
    grid = {"C": [0.1, 1.0], "kernel": ["rbf", RBF(2.0)]}
    found = GridSearchCV(SupportVectorClassifier(probability=False), grid, cv=3).fit(X, y)
    assert found.best_score_ > 0.7


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
def test_hard_inputs_have_an_answer_or_a_named_error(cls):
    X, y = curve(80) if cls in REGRESSORS else classes(80)
    constant = np.column_stack([X, np.full(80, 3.0)])
    assert np.isfinite(cls().fit(constant, y).predict(constant).astype(float)).all()
    twice = cls().fit(np.vstack([X, X]), np.r_[y, y])
    weighted = cls().fit(X, y, sample_weight=np.full(80, 2.0))
    np.testing.assert_allclose(twice.predict(X).astype(float), weighted.predict(X).astype(float), rtol=1e-7)
    for unit in (1e-12, 1e12):
        assert np.isfinite(cls().fit(X * unit, y).predict(X * unit).astype(float)).all()
    hole = X.copy()
    hole[3, 0] = np.nan
    with pytest.raises(ValueError, match=r"got NaN in column 0, row 3"):
        cls().fit(hole, y)


def test_one_class_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`y` must have at least 2 classes; got one class"):
        SupportVectorClassifier().fit([[0.0], [1.0]], [1, 1])


def test_the_digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    ours = SupportVectorClassifier(standardise=False).fit(X[:1200], y[:1200])
    theirs = SVC().fit(X[:1200], y[:1200])
    assert (ours.predict(X[1200:]) == theirs.predict(X[1200:])).mean() > 0.995
    assert log_loss(y[1200:], ours.predict_proba(X[1200:])) < 0.15
    duals = dual_values(X[:1200], y[:1200], SVC(tol=1e-6).fit(X[:1200], y[:1200]))
    np.testing.assert_allclose(ours.model_.dual_values, duals, rtol=1e-6)
    assert ours.model_.violation <= 2e-9  # all 45 duals are solved to rounding


def dual_values(X, y, theirs):
    """The dual objective of every pair of classes of LIBSVM's machine, from its coefficients alone."""
    gram = np.exp(-theirs._gamma * ((X[theirs.support_][:, None] - X[theirs.support_]) ** 2).sum(-1))
    labels, found = y[theirs.support_], []
    for a in range(10):
        for b in range(a + 1, 10):
            beta = np.where(labels == a, theirs.dual_coef_[b - 1], 0.0)
            beta += np.where(labels == b, theirs.dual_coef_[a], 0.0)
            found.append(np.abs(beta).sum() - 0.5 * beta @ gram @ beta)
    return np.array(found)
