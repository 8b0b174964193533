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
from tractable.estimators.units import Units, unscaled
from tractable.supervised.logistic.bayes import fit_bayes_logistic, sample_logistic
from tractable.supervised.logistic.bayes_softmax import fit_bayes_softmax
from tractable.supervised.logistic.bayes_variational import variational_logistic
from tractable.supervised.logistic.binary import fit_logistic
from tractable.supervised.logistic.probit import fit_probit
from tractable.supervised.logistic.softmax import fit_softmax

__all__ = ["BayesianLogisticClassifier", "LogisticClassifier", "ProbitClassifier"]

_STRENGTH = {
    "C": [Interval(Real, 0, None, closed="right")],
    "fit_intercept": ["boolean"],
    "standardise": ["boolean"],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
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

    def _unit_columns(self, rows: Rows) -> tuple[Rows, np.ndarray]:
        """Columns of standard deviation one, and what they were divided by."""
        size = Units.of(rows, standardise=self.standardise, centre=self.fit_intercept).size
        return replace(rows, X=rows.X / size), size

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


class LogisticClassifier(_Weighted):
    r"""Logistic regression, softmax regression for more than two classes, with a penalty on coefficients.

    Minimises $C\sum_i w_i\,(-\log p(y_i \mid x_i)) + \tfrac12\|W\|^2$ over columns of unit standard deviation
    (`standardise`; coefficients are in the units of the data either way); intercepts are not penalised. With
    `C=inf` there is no penalty, and classes that can be separated are an error that names the columns.
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
                 max_iter=1000, tol=1e-9, random_state=None):  # fmt: skip
        self.C = C
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.class_weight = class_weight
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Fit the coefficients."""
        rows, size = self._unit_columns(self._weighted_classes(X, y, sample_weight))
        options = {"penalty": 1 / self.C, "intercept": self.fit_intercept, "names": self._names,
                   "max_steps": self.max_iter, "tol": self.tol}  # fmt: skip
        if len(self.classes_) == 2:
            solver = "newton" if self.solver == "auto" else self.solver
            key = key_from(self.random_state) if solver == "sgd" else None
            self.model_ = unscaled(fit_logistic(rows, solver=solver, key=key, **options), size)
            self.coef_ = np.asarray(self.model_.coefficients)[None]
            self.intercept_ = np.asarray(self.model_.intercept).reshape(1)
        else:
            check(self.solver != "sgd", "solver", "another than 'sgd' for more than two classes", "'sgd'")
            found = fit_softmax(rows, num_classes=len(self.classes_), solver=self.solver, **options)
            self.model_ = unscaled(found, size)
            self.coef_ = np.asarray(self.model_.coefficients)
            self.intercept_ = np.asarray(self.model_.intercepts)
        self.n_iter_ = max(1, int(self.model_.num_steps))
        return self

    def decision_function(self, X):
        """The log-odds of the second class, or the logit of each class."""
        rows = self._new_table(X)
        logits = rows.X @ self.coef_.T + self.intercept_
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X):
        """The probability of each class, in the order of `classes_`."""
        rows = self._new_table(X)
        if len(self.classes_) > 2:
            return self.model_.predict_proba(rows)
        eta = rows.X @ self.coef_[0] + self.intercept_[0]
        return np.column_stack([expit(-eta), expit(eta)])


class ProbitClassifier(_Weighted):
    r"""Probit regression of two classes, $p(y = 1 \mid x) = \Phi(b + w^\top x)$, with a penalty as
    for `C` in `LogisticClassifier`.

    >>> ProbitClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]).predict([[-1.0], [4.0]]).tolist()
    [0, 1]
    """

    _parameter_constraints: ClassVar[dict] = _STRENGTH

    def __init__(self, C=1.0, *, fit_intercept=True, standardise=True, class_weight=None, max_iter=100):
        self.C = C
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.class_weight = class_weight
        self.max_iter = max_iter

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X, y, sample_weight=None):
        """Fit the coefficients."""
        rows, size = self._unit_columns(self._weighted_classes(X, y, sample_weight))
        if len(self.classes_) > 2:
            kind = type_of_target(y, input_name="y")
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        options = {"intercept": self.fit_intercept, "names": self._names, "max_steps": self.max_iter}
        self.model_ = unscaled(fit_probit(rows, penalty=1 / self.C, **options), size)
        self.coef_ = np.asarray(self.model_.coefficients)[None]
        self.intercept_ = np.asarray(self.model_.intercept).reshape(1)
        self.n_iter_ = max(1, int(self.model_.num_steps))
        return self

    def decision_function(self, X):
        r"""$b + w^\top x$ of each row."""
        return self._new_table(X).X @ self.coef_[0] + self.intercept_[0]

    def predict_proba(self, X):
        """The probability of each class, in the order of `classes_`."""
        eta = self.decision_function(X)
        return np.column_stack([ndtr(-eta), ndtr(eta)])


class BayesianLogisticClassifier(_Weighted):
    r"""Bayesian logistic regression (softmax for more classes): probabilities averaged over the posterior.

    The coefficients of standardised columns are $N(0, \alpha^{-1})$ with `prior_precision` $\alpha$ given or
    of largest evidence. `method` is "laplace", "variational" (a lower bound as `log_evidence_`) or "mcmc"
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
