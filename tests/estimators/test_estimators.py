"""The laws of all estimators: scikit-learn's contract, errors by name, files, no programs for new rows."""

import inspect
import pickle
from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_clusterer, is_regressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from benchmarks.coverage import of_kind
from tractable.distributions.base import Distribution
from tractable.estimators import BayesianLinearRegressor, all_estimators
from tractable.estimators.base import Clusterer, Estimator, Transformer

ESTIMATORS = dict(all_estimators())
CLASSIFIERS = [name for name, c in ESTIMATORS.items() if is_classifier(c())]
REGRESSORS = [name for name, c in ESTIMATORS.items() if is_regressor(c())]
CLUSTERERS = [name for name, c in ESTIMATORS.items() if is_clusterer(c())]
TRANSFORMERS = [name for name, c in ESTIMATORS.items() if issubclass(c, Transformer)]
COUNTS = {
    "BernoulliNaiveBayesClassifier",
    "CategoricalNaiveBayesClassifier",
    "LatentDirichletAllocation",
    "MultinomialNaiveBayesClassifier",
}
REASONS = "class", "sample", "row", "constant", "two", "targets"
every = pytest.mark.parametrize("name", ESTIMATORS)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


COLUMNS = ["age", "height", "weight"]


def data(name: str, num_rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Three columns and a target that depends on two of them; counts where the model is one of counts."""
    generator = np.random.default_rng(3)
    X = generator.normal(size=(num_rows, 3))
    signal = X[:, 0] - 0.5 * X[:, 1] + 0.6 * generator.normal(size=num_rows)
    if name in COUNTS:
        X = (X > 0).astype(float)
    return X, np.where(signal > 0, "yes", "no") if name in CLASSIFIERS else of_kind(name, signal)


def answers(estimator, X) -> np.ndarray:
    """What an estimator says of new rows; one that says nothing of them, of those it was fitted to."""
    for method in ("predict_proba", "predict", "transform"):
        if hasattr(estimator, method):
            return np.asarray(getattr(estimator, method)(X))
    return estimator.labels_ if hasattr(estimator, "labels_") else estimator.embedding_


def seeded(name: str):
    made = ESTIMATORS[name]()
    return made.set_params(random_state=0) if "random_state" in made.get_params() else made


@cache
def fitted(name: str):
    """The estimator of default options, fitted to a table: a fit that many tests ask, and none changes."""
    X, y = data(name)
    return seeded(name).fit(pd.DataFrame(X, columns=COLUMNS), y)


def test_there_is_one_per_family():
    of_series = {"LinearGaussianStateSpace"}  # rows in order, without a target
    assert {*CLASSIFIERS, *REGRESSORS, *CLUSTERERS, *TRANSFORMERS, *of_series} == set(ESTIMATORS)
    assert not set(CLASSIFIERS) & set(REGRESSORS)
    assert not set(CLUSTERERS) & {*CLASSIFIERS, *REGRESSORS}
    assert all(issubclass(ESTIMATORS[name], Clusterer) for name in CLUSTERERS)
    assert len(ESTIMATORS) >= 25


# The contract is fifty fits: with less effort each, and one family of classifiers calibrates in all of them.
SMALLER = {
    "AdaBoostClassifier": {"n_estimators": 5}, "BaggingClassifier": {"n_estimators": 3},
    "BaggingRegressor": {"n_estimators": 3}, "BayesianGaussianMixture": {"n_components": 2, "n_init": 1},
    "ForestClassifier": {"n_estimators": 20}, "ForestRegressor": {"n_estimators": 20},
    "BoostingClassifier": {"n_estimators": 3}, "DistributionBoostingRegressor": {"n_estimators": 3},
    "CalibratedClassifier": {"method": "temperature"}, "CalibratedRegressor": {"n_folds": 2},
    "BetaRegressor": {"bounds": (-1e3, 1e3), "prior_precision": 100.0},
    "GammaRegressor": {"prior_precision": 100.0}, "OrdinalClassifier": {"prior_precision": 1.0},
    "HeteroscedasticRegressor": {"prior_precision": 100.0, "scale_precision": 100.0},
    "NegativeBinomialRegressor": {"fractions": True, "prior_precision": 100.0},
    "PoissonRegressor": {"fractions": True, "prior_precision": 100.0},
    "QuantileRegressor": {"levels": (0.2, 0.8)}, "SurvivalRegressor": {"prior_precision": 100.0},
    "BayesianNeuralClassifier": {"hidden_layer_sizes": (4,), "max_rounds": 5},
    "BayesianNeuralRegressor": {"hidden_layer_sizes": (4,), "max_rounds": 5},
    "NeuralClassifier": {"hidden_layer_sizes": (8,), "max_iter": 30, "learning_rate": 0.03},
    "NeuralRegressor": {"hidden_layer_sizes": (8,), "max_iter": 30, "learning_rate": 0.03},
    "GaussianProcessRegressor": {"method": "evidence"},
    "LinearGaussianStateSpace": {"n_iter": 3}, "PerceptronClassifier": {"max_iter": 100},
    "RotationForestClassifier": {"n_estimators": 3},
    "SparseGaussianProcessRegressor": {"n_inducing": 20, "max_iter": 10},
}  # fmt: skip
CALIBRATING = {"LogisticClassifier"}


def smaller(name: str):
    made = ESTIMATORS[name](**SMALLER.get(name, {}))
    plain = "calibrate" in made.get_params() and name not in CALIBRATING
    return made.set_params(calibrate=False) if plain else made


@pytest.mark.plain
@every
def test_scikit_learn_contract(name):
    made = smaller(name)
    found = check_estimator(made, on_skip=None, expected_failed_checks=made.expected_failed_checks)
    passed = {each["check_name"] for each in found if each["status"] == "passed"}
    weighed = "check_sample_weight_equivalence_on_dense_data"
    takes = "sample_weight" in inspect.signature(made.fit).parameters
    assert not takes or weighed in passed or weighed in made.expected_failed_checks  # not skipped


@every
def test_clone_pipeline_grid_and_cross_validation(name):
    X, y = data(name)
    made = seeded(name)
    parts = [made] if name in COUNTS else [StandardScaler(), made]
    if not hasattr(made, "score"):
        whole = make_pipeline(*clone(parts)).fit(X)
        assert np.isfinite(np.asarray(answers(whole[-1], StandardScaler().fit_transform(X)))).all()
        return
    found = GridSearchCV(make_pipeline(*clone(parts)), {}, cv=2, error_score="raise").fit(X, y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    *before, last = found.best_estimator_
    rows = make_pipeline(*before).transform(X) if before else X
    np.testing.assert_array_equal(answers(last, rows), answers(clone(made).fit(rows, y), rows))


@every
def test_files_and_pickles_keep_every_prediction(name, tmp_path):
    made, table = fitted(name), pd.DataFrame(data(name)[0][:9], columns=COLUMNS)
    wanted = answers(made, table)
    np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(made)), table), wanted)
    made.save(tmp_path / "model")
    again = ESTIMATORS[name].load(tmp_path / "model")
    assert repr(again) == repr(made)
    assert list(again.feature_names_in_) == COLUMNS
    np.testing.assert_array_equal(answers(again, table), wanted)
    with pytest.raises(ValueError, match="`path` must be a file with a"):
        ESTIMATORS[next(other for other in ESTIMATORS if other != name)].load(tmp_path / "model")


@every
def test_a_bad_entry_is_named_by_its_column(name):
    made, frame = fitted(name), pd.DataFrame(data(name)[0], columns=COLUMNS)
    frame.loc[4, "height"] = np.inf
    ask = next((m for m in ("predict", "transform") if hasattr(made, m)), "fit")
    made = clone(made) if ask == "fit" else made
    with pytest.raises(ValueError, match=r"inf.*column 'height', row 4"):
        getattr(made, ask)(frame)
    frame.loc[4, "height"] = np.nan
    if made._accepts_missing:
        assert np.isfinite(answers(made, frame)).all()
    else:
        with pytest.raises(ValueError, match=r"NaN in column 'height', row 4.*marginalise"):
            getattr(made, ask)(frame)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["x"] * 3 + [1.0] * 9, r"'x' in column 'height', row 0\. Encode names"),
        (pd.Categorical(["a", "b"] * 6), r"'a' in column 'height', row 0\. Encode names"),
        (pd.date_range("2020-01-01", periods=12), r"Timestamp\(.*\) in column 'height', row 0\. Turn dates"),
        ([1.0, 10**400] * 6, "a larger one in column 'height', row 1"),
    ],
)
def test_what_is_no_number_is_refused_by_column_and_row(column, message):
    frame = pd.DataFrame({"weight": np.arange(12.0), "height": column})
    with pytest.raises((TypeError, ValueError), match=f"`X` must be numbers.*; got {message}"):
        BayesianLinearRegressor().fit(frame, np.arange(12.0))
    fitted = BayesianLinearRegressor().fit(np.arange(24.0).reshape(12, 2), np.arange(12.0))
    with pytest.raises((TypeError, ValueError), match=r"`X` must be numbers.*; got .* row"):
        fitted.predict(frame.to_numpy(object))


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_sizes_whose_squares_are_no_numbers_are_refused_by_column(size):
    X, y = data("RidgeRegressor", 12)
    frame = pd.DataFrame(X * [1.0, size, 1.0], columns=["age", "height", "weight"])
    with pytest.raises(ValueError, match=r"`X` must be zero, or of sizes.*in column 'height'"):
        BayesianLinearRegressor().fit(frame, y)
    with pytest.raises(ValueError, match=r"`y` must be zero, or of sizes"):
        BayesianLinearRegressor().fit(X, y * size)


@every
def test_constant_columns_and_repeated_rows_are_harmless(name):
    X, y = data(name, 40)
    X = np.column_stack([X, np.ones(40)])
    X, y = np.concatenate([X, X[:10]]), np.concatenate([y, y[:10]])
    if name == "LinearGaussianStateSpace":  # a column without noise has no likelihood to climb
        with pytest.raises(ValueError, match="`X` must be columns that vary; got column 3 that does not"):
            seeded(name).fit(X)
        return
    assert np.isfinite(np.asarray(answers(seeded(name).fit(X, y), X))).all()


@every
def test_one_row_or_one_class_is_answered_or_refused(name):
    X, y = data(name, 8)
    for rows, targets in ((X[:1], y[:1]), (X, np.repeat(y[:1], 8))):
        refusal = ""
        try:
            found = answers(seeded(name).fit(rows, targets), rows)
            if name in CLASSIFIERS:
                found = seeded(name).fit(rows, targets).predict(rows)
            assert (found == targets).all() if name in CLASSIFIERS else np.isfinite(found).all()
        except ValueError as error:
            refusal = str(error)
        assert not refusal or any(word in refusal for word in REASONS)


@every
@pytest.mark.thorough
def test_a_new_number_of_rows_compiles_nothing(name):
    X, y = data(name, 64)
    for count in (60, 50):  # the first calls compile, and learn what else they need
        answers(seeded(name).fit(X[:count], y[:count]), X[:count])
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: (
            compiled.append(event) if event.endswith("backend_compile_duration") else None
        )
    )
    answers(seeded(name).fit(X[:55], y[:55]), X[:57])
    jax.monitoring.clear_event_listeners()
    assert not compiled


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.thorough
def test_predictions_of_regressors_are_distributions(name):
    made, (X, y) = fitted(name), data(name)
    X = pd.DataFrame(X, columns=COLUMNS)
    found = made.predict_dist(X)
    assert isinstance(found, Distribution)
    middle = found.icdf(0.5) if name == "QuantileRegressor" else found.mean
    np.testing.assert_allclose(np.asarray(middle), made.predict(X), rtol=1e-6, atol=1e-8)
    lower, upper = made.predict_interval(X, 0.8)
    inside = np.asarray(found.cdf(upper)) - np.asarray(found.cdf(lower - 1 if found.discrete else lower))
    np.testing.assert_allclose(np.maximum(inside, 0.8) if found.discrete else inside, inside, atol=1e-12)
    assert found.discrete or np.abs(inside - 0.8).max() < 1e-6
    assert 0.5 < np.mean((lower <= y) & (y <= upper)) <= 1
    draws = made.sample_y(X[:4], 4000, random_state=0)
    sd = np.sqrt(np.asarray(found.variance)[:4])
    assert np.abs((draws.mean(1) - np.asarray(found.mean)[:4]) / (sd / 4000**0.5)).max() < 5
    assert np.isfinite(made.log_score(X, y))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_predictions_of_classifiers_are_distributions(name):
    made, (X, y) = fitted(name), data(name)
    X = pd.DataFrame(X, columns=COLUMNS)
    probs = made.predict_proba(X)
    np.testing.assert_array_equal(made.classes_, ["no", "yes"])
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-12)
    np.testing.assert_array_equal(made.predict(X), made.classes_[probs.argmax(1)])
    np.testing.assert_allclose(np.asarray(made.predict_dist(X).probs), probs, atol=1e-12)
    draws = (made.sample_y(X[:5], 4000, random_state=0) == "yes").mean(1)
    error = np.sqrt(probs[:5, 1] * probs[:5, 0] / 4000) + 1e-12
    assert np.abs((draws - probs[:5, 1]) / error).max() < 5
    assert np.isfinite(made.log_score(X, y)) or (probs == 0).any()


@pytest.mark.parametrize("name", CLUSTERERS)
def test_clusterers_label_every_row(name):
    X, _ = data(name)
    made = seeded(name)
    labels = made.fit_predict(X)
    np.testing.assert_array_equal(labels, made.labels_)
    assert labels.shape == (60,)
    assert labels.dtype.kind == "i"
    if hasattr(made, "predict"):
        np.testing.assert_array_equal(made.predict(X), labels)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_name_their_columns_and_give_frames(name):
    X, _ = data(name)
    X = np.abs(X)  # for those of parts that add
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    made = seeded(name).fit(table)
    if not hasattr(made, "transform"):
        return
    names = list(made.get_feature_names_out())
    plain = made.transform(table)
    assert plain.shape == (60, len(names))
    assert len(set(names)) == len(names)
    framed = made.set_output(transform="pandas").transform(table)
    assert list(framed.columns) == names
    np.testing.assert_array_equal(framed.to_numpy(), plain)
    if hasattr(made, "inverse_transform"):
        assert np.shape(made.inverse_transform(plain)) == X.shape


def test_every_estimator_shares_the_base():
    assert all(issubclass(c, Estimator) for c in ESTIMATORS.values())
