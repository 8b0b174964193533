"""What all estimators share: checked rows, weights, classes, predictive distributions, files.

Rows.        `sample_weight` of two is the row twice; a row of weight zero is left out before a model sees it.
             Missing entries pass where a model marginalises them (`_accepts_missing`); elsewhere, and for
             infinities, the error names the column.
Prediction.  `predict_dist` gives a distribution per row; `predict_interval`, `sample_y`, `log_score` follow.
Files.       `save` and `load` go through `core.storage`: parameters and fitted attributes, no pickle.
"""

import dataclasses
import importlib
import os
from numbers import Real
from typing import Any, ClassVar

import jax.random as jr
import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tractable.core import storage
from tractable.core.checks import check, to_device
from tractable.core.rows import Rows, refuse_text
from tractable.core.types import Key
from tractable.distributions.base import Distribution
from tractable.distributions.categorical import Categorical
from tractable.distributions.student import StudentT
from tractable.estimators.collections import takes_collections

__all__ = [
    "Classifier", "Clusterer", "Estimator", "Regressor", "Transformer", "decoded", "encoded", "key_from",
    "student_rows",
]  # fmt: skip

_SMALLEST = 1e-150  # its square is about the smallest number, and that of its inverse the largest


def key_from(random_state: Any) -> Key:
    """A random key from scikit-learn's `random_state` (None, a seed or a `RandomState`)."""
    return jr.key(check_random_state(random_state).randint(2**31 - 1))


def student_rows(degrees: float, centre: Any, scale: Any) -> StudentT:
    """Student's t about the centre of each row, of one number of degrees of freedom."""
    shape = np.shape(centre)
    parts = np.full(shape, float(degrees)), np.asarray(centre), np.broadcast_to(scale, shape)
    return StudentT(*(to_device(np.array(part)) for part in parts))


class Estimator(BaseEstimator):
    """Validation by name, weights, and files."""

    n_features_in_: int
    _accepts_missing: ClassVar[bool] = False
    expected_failed_checks: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        takes_collections(cls)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._accepts_missing
        return tags

    def _training_rows(self, X, y, sample_weight=None, *, reset: bool = True, **options) -> Rows:
        """Checked rows of a fit with numbers as targets; rows of weight zero are gone."""
        target = "numbers" if options.get("multi_output") else "number"
        return self._rows(X, y, sample_weight, target, reset, **options)

    def _rows(self, X, y, sample_weight, target: str, reset: bool, **options) -> Rows:
        self._validate_params()
        refuse_text("X", X)
        checked: Any = validate_data(
            self, X, y, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset, **options
        )
        if target == "label":
            check_classification_targets(checked[1])
        for name, values in (("X", checked[0]), ("y", checked[1])):
            _check_sizes(name, values, self._column_names() if name == "X" else None)
        weights = _weights(sample_weight, len(checked[0]))
        gaps, names = self._accepts_missing, self._column_names()
        return Rows.of(checked[0], checked[1], weights, target=target, gaps=gaps, names=names)

    def _features(
        self, X, sample_weight=None, *, reset: bool = True, absent: str = "keep", **options
    ) -> Rows:
        """Checked rows of a fit without targets; rows of weight zero stay, since each gets a label or a
        place."""
        self._validate_params()
        refuse_text("X", X)
        table: Any = validate_data(
            self, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset, **options
        )
        _check_sizes("X", table, self._column_names())
        weights, gaps = _weights(sample_weight, len(table)), self._accepts_missing
        return Rows.of(table, None, weights, gaps=gaps, names=self._column_names(), absent=absent)

    def _new_table(self, X) -> Rows:
        """Checked rows for a prediction, which a model does not check again; asked for before `model_`, so
        that an estimator that is not fitted says so."""
        check_is_fitted(self)
        refuse_text("X", X)
        rows: Any = validate_data(self, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=False)
        table = Rows.of(rows, gaps=self._accepts_missing, names=self._column_names())
        units = getattr(self, "units_", None)  # those of a model of standardised columns
        return table if units is None else units(table)

    def _column_names(self) -> tuple[str, ...] | None:
        return None if (names := getattr(self, "feature_names_in_", None)) is None else tuple(names)

    def summary(self, level: float = 0.9, **which: Any) -> Any:
        """A table of the coefficients with central intervals of the given level, the intercept first; `which`
        names one set of them where an estimator has several."""
        import pandas as pd  # half a second, and only this needs it

        check(0 < level < 1, "level", "between 0 and 1", level)
        check_is_fitted(self)
        values, lower, upper = (np.asarray(a, float) for a in self._coefficients(level, **which))
        names = self._column_names() or tuple(f"x{j}" for j in range(self.n_features_in_))
        names = ("intercept", *names) if len(values) == len(names) + 1 else names
        names = names if len(names) == len(values) else tuple(f"w{j}" for j in range(len(values)))
        columns = {"coefficient": values, "lower": lower, "upper": upper}
        return pd.DataFrame(columns, index=pd.Index(names, name="column"))

    def _coefficients(self, level: float, **which: Any) -> tuple[Any, Any, Any]:
        """Coefficients (the intercept first) and the ends of their intervals."""
        raise AttributeError(f"{type(self).__name__} has no coefficients with intervals.")

    def save(self, path: str | os.PathLike) -> None:
        """Write parameters and fitted attributes to one file, which `load` reads back without pickle."""
        storage.save(path, encoded(self))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Any:
        """The estimator that `save` wrote; an estimator of another class is refused."""
        found = decoded(storage.load(path))
        check(isinstance(found, cls), "path", f"a file with a {cls.__name__}", f"a {type(found).__name__}")
        return found


class Regressor(RegressorMixin, Estimator):
    """A regressor whose prediction is a distribution per row."""

    def predict_dist(self, X) -> Distribution:
        """The predictive distribution of the target, one unit per row."""
        raise AttributeError(f"{type(self).__name__} has no predictive distribution.")

    def predict(self, X) -> np.ndarray:
        """The predictive mean of each row."""
        return np.asarray(self.predict_dist(X).mean)

    def predict_interval(self, X, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each row that holds the target with probability `level`."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        predicted: Any = self.predict_dist(X)
        return np.asarray(predicted.icdf((1 - level) / 2)), np.asarray(predicted.icdf((1 + level) / 2))

    def sample_y(self, X, n_samples: int = 1, random_state=None) -> np.ndarray:
        """Draws of the target, one row per row of `X`, one column per draw."""
        return np.asarray(self.predict_dist(X).sample(key_from(random_state), (n_samples,))).T

    def log_score(self, X, y) -> float:
        """The mean log predictive density of the targets: larger is better."""
        targets = np.asarray(y, float)
        return float(self.predict_dist(X).log_prob(targets)) / len(targets)


class Classifier(ClassifierMixin, Estimator):
    """A classifier with probabilities per class; subclasses give `predict_proba`."""

    _least_classes: ClassVar[int] = 2

    def _training_classes(self, X, y, sample_weight=None) -> Rows:
        """Checked rows of a fit with `y` as codes of the sorted `classes_`."""
        rows = self._rows(X, y, sample_weight, "label", True)
        self.classes_ = np.array(rows.classes, dtype=np.asarray(y).dtype)
        if len(self.classes_) < self._least_classes:
            raise ValueError(
                f"`y` must have at least {self._least_classes} classes; got one class, {self.classes_[0]!r} "
                "(among rows of positive weight). Add rows of another class."
            )
        return rows

    def _further_classes(self, X, y, classes, sample_weight) -> Rows:
        """Checked rows and class codes for `partial_fit`, whose first call lists all `classes`."""
        first = not hasattr(self, "model_")
        rows = self._rows(X, y, sample_weight, "label", first)
        if first:
            check(classes is not None, "classes", "given at the first call of partial_fit", None)
            self.classes_ = np.unique(np.asarray(classes))
        found = np.array(rows.classes)
        codes = np.searchsorted(self.classes_, found).clip(max=len(self.classes_) - 1)
        known = self.classes_[codes] == found
        if not known.all():
            check(False, "y", f"among the classes {self.classes_.tolist()}", found[~known][0])
        labels = tuple(self.classes_.tolist())
        return dataclasses.replace(rows, y=codes[rows.y], classes=labels)

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        raise AttributeError(f"{type(self).__name__} has no class probabilities.")

    def predict_log_proba(self, X) -> np.ndarray:
        """The log-probability of each class; an impossible class has -inf."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X) -> np.ndarray:
        """The most probable class; of equals the first."""
        codes = self.predict_proba(X).argmax(1)
        return self.classes_[codes]

    def predict_dist(self, X) -> Categorical:
        """The predictive distribution over the codes 0, 1, ... of `classes_`, one unit per row."""
        return Categorical(logits=self.predict_log_proba(X))

    def sample_y(self, X, n_samples: int = 1, random_state=None) -> np.ndarray:
        """Draws of the class, one row per row of `X`, one column per draw."""
        generator = check_random_state(random_state)
        cumulative = np.cumsum(self.predict_proba(X), axis=1)[:, None, :-1]
        draws = generator.uniform(size=(len(cumulative), n_samples, 1))
        return self.classes_[(draws > cumulative).sum(-1)]

    def log_score(self, X, y) -> float:
        """The mean log-probability of the true classes; a class never seen has -inf."""
        codes = {label: code for code, label in enumerate(self.classes_.tolist())}
        rows = self.predict_log_proba(X)
        found = [codes.get(label, -1) for label in np.asarray(y).tolist()]
        return float(np.mean([rows[i, c] if c >= 0 else -np.inf for i, c in enumerate(found)]))


class Clusterer(ClusterMixin, Estimator):
    """Rows in groups: `fit` leaves `labels_`, one for each row (of weight zero too); `fit_predict` gives
    them.

    A clusterer with `predict` labels new rows; `score` is larger for better fits. Targets are ignored.
    """

    labels_: np.ndarray

    def fit(self, X, y=None, sample_weight=None) -> Any:
        """Group the rows."""
        raise NotImplementedError(type(self).__name__)

    def fit_predict(self, X, y=None, sample_weight=None) -> np.ndarray:  # pyright: ignore
        """The label of each row that is fitted to."""
        return self.fit(X, **_given(sample_weight)).labels_


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Rows in new coordinates: `transform`, `fit_transform`, where it exists `inverse_transform`, with names
    of the columns and `set_output`.

    A subclass has `fit` and `transform`, and says in `_n_features_out` how many columns come out.
    """

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError(type(self).__name__)

    def fit(self, X, y=None, sample_weight=None) -> Any:
        """Find the coordinates."""
        raise NotImplementedError(type(self).__name__)

    def fit_transform(self, X, y=None, sample_weight=None) -> Any:  # pyright: ignore
        """The new coordinates of the rows that are fitted to."""
        return self.fit(X, **_given(sample_weight)).transform(X)


def _given(sample_weight: Any) -> dict[str, Any]:
    """Weights are passed on only where there are some: not every `fit` takes them."""
    return {} if sample_weight is None else {"sample_weight": sample_weight}


def _weights(given: Any, num_rows: int) -> Any:
    """One weight stands for all rows."""
    return np.full(num_rows, float(given)) if isinstance(given, Real) else given


def _check_sizes(name: str, values: np.ndarray, names: Any) -> None:
    """Refuse numbers whose squares are no numbers, by their column: sums of squares would be infinite or
    zero."""
    if values.dtype.kind != "f":
        return
    table = values if values.ndim == 2 else values[:, None]
    sizes = np.fmax(np.fmax.reduce(table, axis=0), -np.fmin.reduce(table, axis=0))
    bad = np.isfinite(sizes) & ((sizes > 1 / _SMALLEST) | ((sizes > 0) & (sizes < _SMALLEST)))
    if bad.any():
        column = int(np.argmax(bad))
        where = "" if name == "y" else f" in column {column if names is None else repr(names[column])}"
        must = f"zero, or of sizes between {_SMALLEST:g} and {1 / _SMALLEST:g}, whose squares are numbers"
        fix = "Give it in other units." if sizes[column] > 1 else "Give it in smaller units."
        check(False, name, must, f"at most {sizes[column]:g}{where}", fix)


def encoded(x: Any) -> Any:
    """Estimators and arrays of labels as what `core.storage` can write."""
    if isinstance(x, Estimator):
        fitted = {name: value for name, value in vars(x).items() if name.endswith("_")}
        content = {"parameters": x.get_params(deep=False), "fitted": fitted}
        return {"estimator": type(x).__name__, **{k: encoded(v) for k, v in content.items()}}
    if isinstance(x, np.ndarray) and x.dtype.kind in "OUS":
        return {"labels": x.tolist(), "kind": x.dtype.kind}
    if isinstance(x, dict):
        return {"entries": {key: encoded(value) for key, value in x.items()}}
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)(encoded(value) for value in x)
    return x.item() if isinstance(x, np.generic) else x


def decoded(x: Any) -> Any:
    """What `encoded` was given."""
    estimators = importlib.import_module("tractable.estimators")

    if isinstance(x, dict) and "estimator" in x:
        check(x["estimator"] in estimators.__all__, "path", "a file with an estimator", x["estimator"])
        made = getattr(estimators, x["estimator"])(**decoded(x["parameters"]))
        vars(made).update(decoded(x["fitted"]))
        return made
    if isinstance(x, dict) and "labels" in x:
        return np.array(x["labels"], dtype=object if x["kind"] == "O" else None)
    if isinstance(x, dict) and "entries" in x:
        return {key: decoded(value) for key, value in x["entries"].items()}
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)(decoded(value) for value in x)
    return x
