"""Distributions through scikit-learn's wrappers: pipelines, searches, transformed targets, stacks.

Wrappers.    A `Pipeline` transforms rows and asks its last step; a search asks its best estimator; a stack
             asks its final estimator about the predictions of the others. `TransformedTargetRegressor` has a
             monotone inverse: quantiles go through it, and a density is divided by its slope (by central
             differences).
"""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tractable.core.checks import check
from tractable.distributions.base import Distribution

__all__ = ["log_score", "predict_dist", "predict_interval"]

_STEP = 1e-5  # of the scale of a target, for the slope of its transformation


def predict_dist(model: Any, X: Any) -> Distribution:
    """The predictive distribution of an estimator of this package, or of one inside scikit-learn's wrappers.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from tractable.estimators import RidgeRegressor
    >>> piped = make_pipeline(StandardScaler(), RidgeRegressor()).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.5])
    >>> predict_dist(piped, [[1.0]]).shape
    (1,)
    """
    owner, rows = _inner(model, X)
    fix = "Use `predict_interval` or `log_score`, which go through the transformation."
    got = "a TransformedTargetRegressor, whose distribution has no name"
    check(not _transforms(owner), "model", "one without a transformed target", got, fix)
    return owner.predict_dist(rows)


def predict_interval(model: Any, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """The central interval of each row that holds the target with probability `level`."""
    owner, rows = _inner(model, X)
    if not _transforms(owner):
        return owner.predict_interval(rows, level)
    ends = [_back(owner, end) for end in predict_interval(owner.regressor_, rows, level)]
    return np.minimum(*ends), np.maximum(*ends)


def log_score(model: Any, X: Any, y: Any) -> float:
    """The mean log predictive density (or probability) of what happened: larger is better."""
    owner, rows = _inner(model, X)
    if not _transforms(owner):
        return owner.log_score(rows, _codes_of(owner, model, y))
    targets = np.asarray(y, float)
    step = _STEP * (np.abs(targets) + targets.std())
    rise = _forth(owner, targets + step) - _forth(owner, targets - step)
    slope = float(np.log(np.abs(rise / (2 * step))).mean())
    return log_score(owner.regressor_, rows, _forth(owner, targets)) + slope


def _inner(model: Any, X: Any) -> tuple[Any, Any]:
    """The estimator that answers and the rows that it is asked about."""
    check_is_fitted(model)
    if isinstance(model, Pipeline):
        return _inner(model.steps[-1][1], model[:-1].transform(X) if len(model) > 1 else X)
    if hasattr(model, "best_estimator_"):
        return _inner(model.best_estimator_, X)
    if hasattr(model, "final_estimator_"):
        return _inner(model.final_estimator_, model.transform(X))
    known = _transforms(model) or hasattr(model, "predict_dist")
    must = "an estimator with `predict_dist`, or a pipeline, search, stack or transformed target around one"
    check(known, "model", must, type(model).__name__, error=TypeError)
    return model, X


def _codes_of(owner: Any, model: Any, y: Any) -> Any:
    """Labels as the estimator that answers knows them: a stack gives its final one their codes."""
    known, shown = getattr(owner, "classes_", None), getattr(model, "classes_", None)
    if known is None or shown is None or np.array_equal(known, shown):
        return y
    codes = {label: code for code, label in enumerate(np.asarray(shown).tolist())}
    return [codes.get(label, -1) for label in np.asarray(y).tolist()]


def _transforms(model: Any) -> bool:
    return hasattr(model, "regressor_") and hasattr(model, "transformer_")


def _back(model: Any, y: Any) -> np.ndarray:
    return model.transformer_.inverse_transform(np.asarray(y)[:, None])[:, 0]


def _forth(model: Any, y: np.ndarray) -> np.ndarray:
    return model.transformer_.transform(y[:, None])[:, 0]
