"""Fits of estimators to Dask collections, by `scale`: validation, wiring, fitted attributes.

What starts from rows (k-means, mixtures) starts from a sample of them, evenly spaced within the partitions;
the fit itself reads all rows. Attributes with one entry for each row, such as `labels_`, are left out:
`predict` gives them, partition by partition.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax.random as jr
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets

from tractable.core.checks import check, to_device
from tractable.core.rows import Rows
from tractable.core.verdict import Verdict
from tractable.estimators.base import key_from
from tractable.inference.expectation_maximisation.em import EM, best_run
from tractable.latent.factor.analysis import FactorAnalysis
from tractable.latent.kmeans.model import KMeans
from tractable.latent.mixtures.gaussian import GaussianMixture
from tractable.latent.mixtures.guard import at_fault, judge
from tractable.scale.logistic import logistic_regression, softmax_regression
from tractable.scale.one_pass import discriminant, linear_regression, moments
from tractable.scale.rows import DistributedRows

__all__ = ["fit"]

_SAMPLE = 20_000  # rows that starts and calibrations are made from


def fit(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Fit an estimator where the rows are."""
    names = [cls.__name__ for cls in type(estimator).__mro__]
    name = next((name for name in names if name in _FITS), None)
    fix = "Call `.compute()` on collections that fit in memory."
    must = f"in memory for {names[0]}, which has no additive statistics here"
    check(name is not None, "X", must, f"a {type(X).__name__} of Dask", fix, TypeError)
    assert name is not None
    estimator._validate_params()
    _columns(estimator, X)
    recipe, target = _FITS[name]
    check(not target or y is not None, "y", "given", None)
    with DistributedRows((X, y) if target else X, sample_weight) as rows:
        recipe(estimator, rows)
        estimator.fitted_at_ = rows.place.words
    return estimator


def _columns(estimator: Any, X: Any) -> None:
    estimator.n_features_in_ = len(X.columns) if hasattr(X, "columns") else int(X.shape[1])
    if hasattr(X, "columns"):
        estimator.feature_names_in_ = np.array(list(X.columns), object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _naive_bayes(estimator: Any, rows: DistributedRows) -> None:
    _classes(estimator, rows)
    estimator.model_ = rows.fold(functools.partial(_class_model, estimator))
    _calibrate(estimator, rows)


def _discriminant(estimator: Any, rows: DistributedRows) -> None:
    _classes(estimator, rows)
    estimator.model_ = discriminant(
        _Coded(rows, estimator.classes_), num_classes=len(estimator.classes_), tied=estimator._tied,
        diagonal=estimator.diagonal, shrinkage=estimator.shrinkage, floor=estimator.variance_floor,
        class_probs=estimator.class_probs,
    )  # fmt: skip
    _calibrate(estimator, rows)


def _logistic(estimator: Any, rows: DistributedRows) -> None:
    check(estimator.class_weight is None, "class_weight", "None on Dask input", estimator.class_weight)
    known = estimator.solver in ("auto", "newton")
    check(known, "solver", "'auto' or 'newton' on Dask input", repr(estimator.solver))
    _classes(estimator, rows)
    options = {
        "penalty": 1 / estimator.C, "intercept": estimator.fit_intercept, "names": estimator._names,
        "max_steps": estimator.max_iter, "standardise": estimator.standardise,
    }  # fmt: skip
    coded, count = _Coded(rows, estimator.classes_), len(estimator.classes_)
    if count == 2:
        model = logistic_regression(coded, **options)
        estimator.coef_ = np.asarray(model.coefficients)[None]
        estimator.intercept_ = np.asarray(model.intercept).reshape(1)
    else:
        model = softmax_regression(coded, num_classes=count, **options)
        estimator.coef_, estimator.intercept_ = np.asarray(model.coefficients), np.asarray(model.intercepts)
    estimator.model_, estimator.n_iter_ = model, max(1, int(model.num_steps))
    _calibrate(estimator, rows)


def _linear(estimator: Any, rows: DistributedRows) -> None:
    estimator._adopt(linear_regression(rows, intercept=estimator.fit_intercept))


def _ridge(estimator: Any, rows: DistributedRows) -> None:
    alpha = estimator.alpha
    check(not isinstance(alpha, str), "alpha", "a number on Dask input", repr(alpha))
    options = {"intercept": estimator.fit_intercept, "standardise": estimator.standardise}
    estimator._adopt(linear_regression(rows, float(alpha), **options))
    estimator.alpha_ = alpha


def _components(estimator: Any, rows: DistributedRows) -> None:
    known = estimator.solver in ("auto", "eigen", "power")
    check(known, "solver", "'auto', 'eigen' or 'power' on Dask input", repr(estimator.solver))
    estimator.moments_ = None
    estimator._from_moments(moments(rows), None)


def _factors(estimator: Any, rows: DistributedRows) -> None:
    count = estimator.n_features_in_ if estimator.n_components is None else int(estimator.n_components)
    options = {"least_noise": estimator.least_noise, "max_steps": estimator.max_iter, "tol": estimator.tol}
    estimator._keep(FactorAnalysis.from_moments(moments(rows), count, **options))


def _k_means(estimator: Any, rows: DistributedRows) -> None:
    given = None if isinstance(estimator.init, str) else np.asarray(estimator.init, float)
    sample = _sample(rows)
    if given is None:
        start = KMeans.fit(
            sample.X, estimator.n_clusters, key=key_from(estimator.random_state), weights=sample.weights,
            start=estimator.init, num_starts=estimator.n_init, tol=1e-2, progress=False,
        ).model  # fmt: skip
    else:
        start = KMeans(to_device(given))
    # moves of the centres by `tol` of the variance change the cost by less than this part of it
    run = EM(0.1 * float(estimator.tol), estimator.max_iter).fit(start, rows)
    stats, evidence = rows.total(run.state.e_step)
    estimator.model_, estimator.inertia_ = run.state, -float(evidence)
    estimator.n_iter_, estimator.cost_trace_ = int(run.num_steps), -np.asarray(run.values)
    empty = int((np.asarray(stats[0]) == 0).sum())
    words = f"{run.status.sentence} {empty} clusters are empty." if empty else run.status.sentence
    estimator.verdict_ = Verdict(run.status.ok and not empty, words, {"cost": -float(evidence)})


def _gaussian_mixture(estimator: Any, rows: DistributedRows) -> None:
    from tractable.estimators.mixtures import _SHAPES, _as_fitted

    sample, key = _sample(rows, gaps=True), key_from(estimator.random_state)
    algorithm = EM(float(estimator.tol), estimator.max_iter)
    keys, runs = jr.split(key, estimator.n_init) if estimator.n_init > 1 else [key], []
    for own in keys:
        start = GaussianMixture.from_rows(
            own, sample.X, estimator.n_components,
            _SHAPES[estimator.covariance_type], weights=sample.weights, floor=estimator.floor,
            rank=estimator.rank, seeding=estimator.init_params,
        )  # fmt: skip
        runs.append(algorithm.fit(start, rows))
    run = best_run([run for run in runs if at_fault(run.state) == 0] or runs)
    stats, _ = rows.total(run.state.e_step)
    state, mixture, total = run.state, judge(run.state), float(np.sum(stats.labels))
    estimator.model_, estimator.converged_, estimator.n_iter_ = state, run.status.ok, int(run.num_steps)
    estimator.verdict_ = Verdict(
        run.status.ok and mixture.ok, f"{run.status.sentence} {mixture.sentence}", mixture.numbers
    )
    estimator.weights_, estimator.means_ = np.asarray(state.weights), np.asarray(state.means)
    estimator.covariances_ = _as_fitted(state, estimator.covariance_type)
    estimator.lower_bound_ = float(run.values[-1]) / total
    estimator.lower_bounds_ = np.asarray(run.values) / total
    if not estimator.verdict_.ok:
        warnings.warn(estimator.verdict_.sentence, ConvergenceWarning, stacklevel=6)


_FITS: dict[str, tuple[Callable, bool]] = {
    "NaiveBayesClassifier": (_naive_bayes, True),
    "_Discriminant": (_discriminant, True),
    "LogisticClassifier": (_logistic, True),
    "LinearRegressor": (_linear, True),
    "RidgeRegressor": (_ridge, True),
    "PCA": (_components, False),
    "FactorAnalysis": (_factors, False),
    "KMeans": (_k_means, False),
    "GaussianMixture": (_gaussian_mixture, False),
}


class _Coded:
    """Rows whose labels are codes of the sorted classes."""

    def __init__(self, rows: DistributedRows, classes: np.ndarray):
        self.rows, self.classes = rows, classes

    def fold(self, function: Callable, add: Callable | None = None) -> Any:
        return self.rows.fold(functools.partial(_coded, function, self.classes), add)


def _coded(function: Callable, classes: np.ndarray, X: Any, y: Any, weights: Any) -> Any:
    return function(X, np.searchsorted(classes, y), weights)


def _classes(estimator: Any, rows: DistributedRows) -> None:
    """The sorted labels, in a pass over them."""
    estimator.classes_ = rows.fold(_labels, np.union1d)
    least = estimator._least_classes
    got = f"one class, {estimator.classes_[0]!r}"
    check(len(estimator.classes_) >= least, "y", f"of at least {least} classes", got)


def _labels(X: Any, y: Any, weights: Any) -> np.ndarray:
    check_classification_targets(y)
    used = np.ones(len(y), bool) if weights is None else weights > 0
    return np.unique(np.asarray(y)[used])


def _counts(classes: np.ndarray, X: Any, y: Any, weights: Any) -> np.ndarray:
    return np.bincount(np.searchsorted(classes, y), weights, len(classes))


def _class_model(estimator: Any, X: Any, y: Any, weights: Any) -> Any:
    return estimator._model_of(_class_rows(estimator, X, y, weights))


def _class_rows(estimator: Any, X: Any, y: Any, weights: Any) -> Rows:
    codes, names = np.searchsorted(estimator.classes_, y), estimator._column_names()
    options = {"target": "class", "num_classes": len(estimator.classes_), "names": names}
    return Rows.of(np.asarray(X, float), codes, weights, gaps=estimator._accepts_missing, **options)


def _calibrate(estimator: Any, rows: DistributedRows) -> None:
    """By all rows where they are few, as in memory; else by a sample, of which a fit of so many knows nothing
    by heart."""
    estimator.calibration_ = None
    if not estimator.calibrate:
        return
    X, y, weights, whole = rows.fold(functools.partial(_some, _SAMPLE // rows.num_partitions + 1), _stacked)
    some = _class_rows(estimator, X, y, weights)
    if whole:
        estimator.calibration_ = estimator._calibration_of(some)
        return
    from tractable.supervised.selection.tempering import TemperedShares

    counts = rows.fold(functools.partial(_counts, estimator.classes_))
    shares = estimator._shares(estimator.model_, some)
    estimator.calibration_ = TemperedShares.of(counts).add(shares, some.y, some.weights)


def _sample(rows: DistributedRows, gaps: bool = False) -> Rows:
    """Rows evenly spaced within the partitions."""
    found = rows.fold(functools.partial(_some, _SAMPLE // rows.num_partitions + 1), _stacked)
    return Rows.of(found[0], None, found[-2], gaps=gaps)


def _some(most: int, *arrays: Any) -> tuple:
    step = max(1, -(-len(arrays[0]) // most))
    parts, weights = [np.asarray(array)[::step] for array in arrays[:-1]], arrays[-1]
    amounts = np.ones(len(parts[0])) if weights is None else np.asarray(weights)[::step]
    return (*parts, amounts, step == 1)


def _stacked(first: tuple, second: tuple) -> tuple:
    joined = (np.concatenate(pair) for pair in zip(first[:-1], second[:-1]))
    return (*joined, first[-1] and second[-1])
