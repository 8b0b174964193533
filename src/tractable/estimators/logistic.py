"""Logistic, softmax and probit regression as scikit-learn classifiers; the mathematics is in `supervised`."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, ndtr, ndtri
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import type_of_target

from tractable.core.checks import check
from tractable.core.rows import Rows
from tractable.estimators.base import Classifier, key_from
from tractable.estimators.calibrated import CALIBRATE, CalibratedClassifier
from tractable.estimators.units import STANDARDISE, Units
from tractable.supervised.logistic.bayes import fit_bayes_logistic, sample_logistic
from tractable.supervised.logistic.bayes_softmax import fit_bayes_softmax
from tractable.supervised.logistic.bayes_variational import variational_logistic
from tractable.supervised.logistic.binary import fit_logistic
from tractable.supervised.logistic.probit import fit_probit
from tractable.supervised.logistic.softmax import fit_softmax

__all__ = ["BayesianLogisticClassifier", "LogisticClassifier", "ProbitClassifier"]

_SPREAD = 3.0  # standard deviation of the logarithm of a precision that evidence chooses
_STRENGTH = {
    "C": [Interval(Real, 0, None, closed="right")],
    "fit_intercept": ["boolean"],
    **STANDARDISE,
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    **CALIBRATE,
}


class _Weighted(Classifier):
    """Weights per class, as factors of the weights of the rows."""

    fit_intercept: Any
    standardise: Any
    coef_: np.ndarray
    intercept_: np.ndarray

    def _weighted_classes(self, X, y, sample_weight) -> Rows:
        rows = self._training_classes(X, y, sample_weight)
        given = getattr(self, "class_weight", None)
        if given is None:
            return rows
        if isinstance(given, dict):
            factors = np.array([given.get(label, 1.0) for label in self.classes_.tolist()])
        else:
            counts = np.bincount(rows.y, rows.weights)
            factors = counts.sum() / (len(counts) * counts)
        weights = rows.weights * factors[rows.y]
        keep = weights > 0
        return replace(rows.take(keep), weights=weights[keep])

    def _coefficients(self, level: float) -> tuple[Any, Any, Any]:
        cov = getattr(getattr(self, "model_", None), "covariance", None)
        if cov is None:
            return super()._coefficients(level)
        values = np.r_[self.intercept_, self.coef_[0]] if self.fit_intercept else self.coef_[0]
        reach = ndtri(0.5 + level / 2) * np.sqrt(np.diag(np.asarray(cov)))
        return values, values - reach, values + reach

    @property
    def _names(self):
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]


class _Penalised(_Weighted, CalibratedClassifier):
    """Coefficients of a penalised likelihood, in the units of the data."""

    _parametric = True
    C: Any
    model_: Any

    def fit(self, X, y, sample_weight=None):
        """Fit the coefficients."""
        return self._fit_rows(self._weighted_classes(X, y, sample_weight))

    def _fit_rows(self, rows: Rows):
        super()._fit_rows(rows)
        self.n_iter_ = max(1, int(self.model_.num_steps))
        return self

    def _model_of(self, rows: Rows) -> Any:
        size = Units.of(rows, standardise=self.standardise, centre=self.fit_intercept).size
        options = {"penalty": 1 / self.C, "sizes": size, "intercept": self.fit_intercept}
        return self._penalised(rows, names=self._names, **options)

    def _penalised(self, rows: Rows, **options: Any) -> Any:
        """The model of rows whose penalty is that of columns of unit size."""
        raise AttributeError(f"{type(self).__name__} has no model.")

    def _scores(self, rows: Rows) -> np.ndarray:
        """What the coefficients make of rows: one number each, or one for each class."""
        raise AttributeError(f"{type(self).__name__} has no decisions.")

    def decision_function(self, X):
        """The log-odds of the second class, or the log-probability of each class; without `calibrate`, what
        the coefficients make of each row."""
        rows = self._new_table(X)
        if self.calibration_ is None:
            return self._scores(rows)
        logs = np.log(self.calibration_(self._shares(self.model_, rows)))
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs


class LogisticClassifier(_Penalised):
    r"""Logistic regression, softmax regression for more than two classes, with a penalty on coefficients.

    Minimises $C\sum_i w_i\,(-\log p(y_i \mid x_i)) + \tfrac12\|W\|^2$ over columns of unit standard deviation
    (`standardise`; coefficients are in the units of the data either way); intercepts are not penalised. With
    `C=inf` there is no penalty, and classes that can be separated are an error that names the columns.
    Probabilities and decisions are calibrated by folds (`calibrate=False`: those of the coefficients).
    Columns may have any scale; `solver` is "auto" (Newton while its Hessian is cheap), "newton", "lbfgs",
    "gradient", and for two classes also "sgd".

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"]
    >>> LogisticClassifier().fit(X, y).predict([[-1.0], [4.0]]).tolist()
    ['no', 'yes']
    """

    _parameter_constraints: ClassVar[dict] = _STRENGTH | {
        "solver": [StrOptions({"auto", "newton", "lbfgs", "gradient", "sgd"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, C=1.0, *, fit_intercept=True, standardise=True, class_weight=None, solver="auto",
                 max_iter=1000, tol=1e-9, calibrate=True, random_state=None):  # fmt: skip
        self.C = C
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.class_weight = class_weight
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.calibrate = calibrate
        self.random_state = random_state

    def _fit_rows(self, rows):
        super()._fit_rows(rows)
        many = len(self.classes_) > 2
        self.coef_ = (
            np.asarray(self.model_.coefficients) if many else np.asarray(self.model_.coefficients)[None]
        )
        self.intercept_ = np.asarray(self.model_.intercepts if many else self.model_.intercept).reshape(-1)
        return self

    def _penalised(self, rows: Rows, **options: Any) -> Any:
        options = {"max_steps": self.max_iter, "tol": self.tol, **options}
        if len(self.classes_) > 2:
            check(self.solver != "sgd", "solver", "another than 'sgd' for more than two classes", "'sgd'")
            return fit_softmax(rows, num_classes=len(self.classes_), solver=self.solver, **options)
        solver = "newton" if self.solver == "auto" else self.solver
        key = key_from(self.random_state) if solver == "sgd" else None
        return fit_logistic(rows, solver=solver, key=key, **options)

    def _shares(self, model, rows):
        if len(self.classes_) > 2:
            return model.predict_proba(rows)
        eta = _linear(model, rows)
        return np.column_stack([expit(-eta), expit(eta)])

    def _scores(self, rows: Rows) -> np.ndarray:
        logits = rows.X @ self.coef_.T + self.intercept_
        return logits[:, 0] if len(self.classes_) == 2 else logits


class ProbitClassifier(_Penalised):
    r"""Probit regression of two classes, $p(y = 1 \mid x) = \Phi(b + w^\top x)$, with a penalty as
    for `C` in `LogisticClassifier`.

    >>> ProbitClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]).predict([[-1.0], [4.0]]).tolist()
    [0, 1]
    """

    _parameter_constraints: ClassVar[dict] = _STRENGTH

    def __init__(self, C=1.0, *, fit_intercept=True, standardise=True, class_weight=None, max_iter=100,
                 calibrate=True):  # fmt: skip
        self.C = C
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.calibrate = calibrate

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X, y, sample_weight=None):
        """Fit the coefficients."""
        rows = self._weighted_classes(X, y, sample_weight)
        if len(self.classes_) > 2:
            kind = type_of_target(y, input_name="y")
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        return self._fit_rows(rows)

    def _fit_rows(self, rows):
        super()._fit_rows(rows)
        self.coef_ = np.asarray(self.model_.coefficients)[None]
        self.intercept_ = np.asarray(self.model_.intercept).reshape(1)
        return self

    def _penalised(self, rows: Rows, **options: Any) -> Any:
        return fit_probit(rows, max_steps=self.max_iter, **options)

    def _shares(self, model, rows):
        eta = _linear(model, rows)
        return np.column_stack([ndtr(-eta), ndtr(eta)])

    def _scores(self, rows: Rows) -> np.ndarray:
        return rows.X @ self.coef_[0] + self.intercept_[0]


class BayesianLogisticClassifier(_Weighted):
    r"""Bayesian logistic regression (softmax for more classes): probabilities averaged over the posterior.

    The coefficients of standardised columns are $N(0, \alpha^{-1})$ with `prior_precision` $\alpha$ given or
    of largest evidence, which has a weak prior besides ($\log\alpha \sim N(0, 3^2)$; not if variational).
    `method` is "laplace", "variational" (a lower bound as `log_evidence_`) or "mcmc"
    (draws of the exact posterior in `run_`); the last two are for two classes. Separated classes are fine.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> BayesianLogisticClassifier().fit(X, y).predict([[-1.0], [4.0]]).tolist()
    [0, 1]
    """

    _parameter_constraints: ClassVar[dict] = {
        "method": [StrOptions({"laplace", "variational", "mcmc"})],
        "prior_precision": [StrOptions({"evidence"}), Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "class_weight": _STRENGTH["class_weight"],
        "draws": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, method="laplace", *, prior_precision="evidence", fit_intercept=True, class_weight=None,
                 draws=1000, random_state=None):  # fmt: skip
        self.method = method
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.draws = draws
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Find the posterior of the coefficients and the evidence."""
        rows = self._weighted_classes(X, y, sample_weight)
        options = {"intercept": self.fit_intercept, "prior_precision": self.prior_precision}
        many = len(self.classes_) > 2
        check(
            self.method == "laplace" or not many, "method", "'laplace' for more than two classes", self.method
        )
        if self.method != "variational":
            options["spread"] = _SPREAD
        if many:
            self.model_ = fit_bayes_softmax(rows, num_classes=len(self.classes_), **options)
        elif self.method == "mcmc":
            key = key_from(self.random_state)
            self.model_, self.run_ = sample_logistic(rows, key=key, num_draws=self.draws, **options)
            self.draws_ = np.asarray(self.run_.draws).reshape(-1, self.model_.posterior.mean.size)
        else:
            fit = fit_bayes_logistic if self.method == "laplace" else variational_logistic
            self.model_ = fit(rows, **options)
        self.log_evidence_ = float(self.model_.log_evidence)
        self.prior_precision_ = float(self.model_.precision)
        return self

    def predict_proba(self, X):
        """The posterior mean of the probability of each class, in the order of `classes_`."""
        rows = self._new_table(X)
        if len(self.classes_) > 2:
            return self.model_.predict_proba(rows)
        if hasattr(self, "draws_"):
            model: Any = self.model_
            eta = model.design(rows) @ self.draws_.T
            return np.column_stack([expit(-eta).mean(1), expit(eta).mean(1)])
        second = self.model_.predict_proba(rows)
        return np.column_stack([1 - second, second])


def _linear(model: Any, rows: Rows) -> np.ndarray:
    return rows.X @ np.asarray(model.coefficients) + np.asarray(model.intercept)
