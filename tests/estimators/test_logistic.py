"""Logistic, probit and Bayesian classifiers as scikit-learn estimators."""

import pickle

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tractable.estimators.logistic import BayesianLogisticClassifier, LogisticClassifier, ProbitClassifier
from tractable.supervised.logistic.separation import SeparatedDataError

ALL = [LogisticClassifier, ProbitClassifier, BayesianLogisticClassifier]


def table(num_rows=200, dim=5, classes=2, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num_rows, dim))
    scores = x @ generator.normal(size=(dim, classes)) + generator.gumbel(size=(num_rows, classes))
    return x, np.array(["a", "b", "c"])[scores.argmax(1)]


@pytest.mark.parametrize("classes", [2, 3])
def test_scikit_learn_has_the_same_optimum(classes):
    x, y = table(classes=classes)
    w = np.random.default_rng(1).uniform(0.2, 2, len(y))
    peer = LogisticRegression(C=1.0, tol=1e-12, solver="newton-cholesky").fit(x, y, w)
    ours = LogisticClassifier(C=1.0, standardise=False, calibrate=False).fit(x, y, w)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(x), peer.predict_proba(x), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(x), peer.predict(x))
    gap = ours.decision_function(x) - peer.decision_function(x)
    np.testing.assert_allclose(
        gap, 0 if classes == 2 else np.broadcast_to(gap.mean(1, keepdims=True), gap.shape), atol=1e-6
    )


@pytest.mark.parametrize("given", ["balanced", {"a": 1.0, "b": 3.0}])
def test_class_weights_are_those_of_scikit_learn(given):
    x, y = table(120, 3)
    peer = LogisticRegression(class_weight=given, tol=1e-12, solver="newton-cholesky").fit(x, y)
    ours = LogisticClassifier(class_weight=given, standardise=False).fit(x, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-6)


@pytest.mark.parametrize("solver", ["lbfgs", "gradient", "sgd"])
def test_solvers_reach_the_same_classifier(solver):
    x, y = table()
    exact, other = LogisticClassifier().fit(x, y), LogisticClassifier(solver=solver, random_state=0).fit(x, y)
    tol = 0.1 if solver == "sgd" else 1e-6
    np.testing.assert_allclose(other.coef_, exact.coef_, atol=tol)


def test_no_penalty_on_separated_classes_is_an_error_with_the_column():
    x = np.column_stack([np.linspace(0, 1, 20), np.random.default_rng(0).normal(size=20)])
    y = np.repeat(["no", "yes"], 10)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, columns=["dose", "noise"])
    for kind in (LogisticClassifier, ProbitClassifier):
        with pytest.raises(SeparatedDataError, match="Separating columns: dose"):
            kind(C=np.inf).fit(frame, y)
        kind(C=100.0).fit(frame, y)


@pytest.mark.parametrize("kind", ALL)
def test_tools_of_scikit_learn(kind, tmp_path):
    x, y = table(90, 3)
    fitted = kind().fit(x, y)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(x), fitted.predict_proba(x))
    assert clone(fitted).get_params() == fitted.get_params()
    pipeline = make_pipeline(StandardScaler(), kind())
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.6
    name = "prior_precision" if kind is BayesianLogisticClassifier else "C"
    search = GridSearchCV(kind(), {name: [0.1, 1.0]}, cv=2).fit(x, y)
    assert search.best_params_[name] in (0.1, 1.0)


@pytest.mark.parametrize("kind", ALL)
def test_columns_of_any_scale_and_constant_ones(kind):
    x, y = table(100, 3)
    scales = np.array([1e12, 1e-12, 1.0])
    free = {} if kind is BayesianLogisticClassifier else {"C": np.inf}
    plain = kind(**free).fit(x, y).predict_proba(x)
    scaled = kind(**free).fit(x * scales, y).predict_proba(x * scales)
    np.testing.assert_allclose(scaled, plain, atol=1e-6)
    more = np.column_stack([x, np.full(100, 3.0)])
    np.testing.assert_allclose(
        kind().fit(more, y).predict_proba(more), kind().fit(x, y).predict_proba(x), atol=1e-6
    )


def test_probit_probabilities_are_the_normal_cdf():
    x, y = table(100, 2)
    fitted = ProbitClassifier(calibrate=False).fit(x, y)
    np.testing.assert_allclose(
        fitted.predict_proba(x)[:, 1], norm.cdf(fitted.decision_function(x)), rtol=1e-12
    )
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        ProbitClassifier().fit(*table(classes=3))


@pytest.mark.parametrize("method", ["laplace", "variational", "mcmc"])
def test_bayesian_methods_agree_on_a_regular_posterior(method):
    x, y = table(150, 2)
    options = {"draws": 300} if method == "mcmc" else {}
    fitted = BayesianLogisticClassifier(method, prior_precision=1.0, random_state=0, **options).fit(x, y)
    reference = BayesianLogisticClassifier(prior_precision=1.0).fit(x, y)
    np.testing.assert_allclose(fitted.predict_proba(x), reference.predict_proba(x), atol=0.03)
    bound = reference.log_evidence_ + (0.05 if method == "variational" else 1e-9)
    assert fitted.log_evidence_ <= bound
    assert fitted.prior_precision_ == 1.0


def test_bayesian_probabilities_are_moderated_and_evidence_prefers_signal():
    x, y = table(60, 2, seed=3)
    fitted = BayesianLogisticClassifier().fit(x, y)
    far = np.array([[40.0, 0.0]])
    plain = LogisticClassifier(C=1 / fitted.prior_precision_, calibrate=False).fit(x, y)
    assert fitted.predict_proba(far).max() < plain.predict_proba(far).max()
    shuffled = BayesianLogisticClassifier().fit(x, np.random.default_rng(0).permutation(y))
    assert fitted.log_evidence_ > shuffled.log_evidence_ + 3
    np.testing.assert_allclose(fitted.predict_dist(x).probs, fitted.predict_proba(x), rtol=1e-10)
    with pytest.raises(ValueError, match=r"`method` must be 'laplace' for more than two classes; got mcmc"):
        BayesianLogisticClassifier("mcmc").fit(*table(classes=3))
