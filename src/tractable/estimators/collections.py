"""Estimators given Dask collections: fits go where the rows are, predictions wait until they are asked for.

Fit.         `fit(X, y)` of Dask arrays or data frames reads statistics where the partitions are
             (`estimators.spread`); an estimator without additive statistics says so.
Prediction.  `predict`, `transform` and their like of a Dask collection give a Dask array, in which each
             partition is predicted by itself; nothing is computed before it is asked for.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.scale.partitions import is_collection, required

__all__ = ["takes_collections"]

_LAZY = (
    "predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "inverse_transform",
    "score_samples",
)  # fmt: skip


def takes_collections(cls: type) -> None:
    """Let the methods that a class of estimators defines take Dask collections too."""
    for name, spread in [("fit", _fit), ("fit_predict", _fit_predict), *((name, _later) for name in _LAZY)]:
        method = vars(cls).get(name)
        if callable(method) and not hasattr(method, "of_collections"):
            setattr(cls, name, _either(name, method, spread))


def _either(name: str, method: Callable, spread: Callable) -> Callable:
    @functools.wraps(method)
    def call(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        if is_collection(X):
            return spread(name, self, X, *arguments, **options)
        return method(self, X, *arguments, **options)

    call.of_collections = True  # type: ignore[attr-defined]
    return call


def _fit(name: str, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    return importlib.import_module("tractable.estimators.spread").fit(estimator, X, y, sample_weight)


def _fit_predict(name: str, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    return _fit("fit", estimator, X, y, sample_weight).predict(X)


def _later(name: str, estimator: Any, X: Any) -> Any:
    """A Dask array of what the method gives for each partition."""
    arrays, delayed = required("dask.array"), required("dask").delayed
    named = hasattr(X, "columns")
    first = X._meta_nonempty.iloc[:1] if named else np.zeros((1, *X.shape[1:]))
    like = np.asarray(getattr(estimator, name)(first.astype(float) if named else first))
    if hasattr(X, "rechunk"):
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
        lengths = X.chunks[0]
    else:
        lengths = [np.nan] * X.npartitions
    work = delayed(functools.partial(_part, estimator, name, like[:0]), pure=False)
    parts = np.ravel(np.asarray(X.to_delayed(), object))
    pieces = [
        arrays.from_delayed(work(part), (length, *like.shape[1:]), like.dtype)
        for part, length in zip(parts, lengths)
    ]
    return arrays.concatenate(pieces, allow_unknown_chunksizes=True)


def _part(estimator: Any, name: str, none: np.ndarray, rows: Any) -> np.ndarray:
    return np.asarray(getattr(estimator, name)(rows)) if len(rows) else none
