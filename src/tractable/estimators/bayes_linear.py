"""Bayesian linear regression as scikit-learn estimators; the mathematics is in `supervised.bayes_linear`.

Cost.        One pass over the rows ($2nd^2$ operations, memory for one chunk), then $O(d^3)$.
"""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.distributions.base import Distribution
from tractable.distributions.student import StudentT
from tractable.estimators.base import Regressor, student_rows
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.supervised.bayes_linear.evidence import maximise_evidence
from tractable.supervised.bayes_linear.full import full_bayes_linear
from tractable.supervised.bayes_linear.noise import conjugate_linear, variational_noise_linear
from tractable.supervised.bayes_linear.relevance import relevance_regression
from tractable.supervised.bayes_linear.statistics import regression_statistics

__all__ = ["BayesianLinearRegressor", "RelevanceRegressor"]


class _LinearBayes(Regressor):
    """What both share: statistics that add, and predictions from `model_`."""

    model_: Any
    basis: Any
    fit_intercept: Any
    standardise: Any

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and targets; a weight of two is the row twice."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        self.statistics_ = self._statistics(rows)
        return self._refit()

    def partial_fit(self, X, y, sample_weight=None):
        """Add rows to those seen before: the same fit as on all rows at once, whatever the parts."""
        first = not hasattr(self, "statistics_")
        rows = self._training_rows(X, y, sample_weight, reset=first, y_numeric=True)
        more = self._statistics(rows)
        self.statistics_ = more if first else self.statistics_ + more
        return self._refit()

    def _options(self) -> dict[str, Any]:
        return {"intercept": self.fit_intercept, "standardise": self.standardise, "basis": self.basis}

    def _statistics(self, rows):
        return regression_statistics(rows, basis=self.basis)

    def _refit(self):
        raise AttributeError(f"{type(self).__name__} has no fit.")

    def _set(self, model):
        self.model_ = model
        self.coef_, self.intercept_ = np.asarray(model.mean), float(model.offset)
        self.sigma_, self.noise_precision_ = np.asarray(model.cov), float(model.noise_precision)
        self.log_evidence_ = float(model.log_evidence)
        return self

    def _coefficients(self, level: float) -> tuple[Any, Any, Any]:
        reach, errors = ndtri(0.5 + level / 2), np.sqrt(np.diag(self.sigma_))
        values = self.coef_
        if self.fit_intercept and self.basis is None:  # the intercept is the function at zero
            spread = self.model_.split(np.zeros((1, len(values)))).epistemic
            values, errors = np.r_[self.intercept_, values], np.r_[np.sqrt(np.asarray(spread)), errors]
        return values, values - reach * errors, values + reach * errors

    def predict(self, X, return_std=False):
        """The predictive mean of each row; with `return_std` also the predictive standard deviation."""
        rows = self._new_table(X)
        mean = self.model_.predict(rows)
        return (mean, np.sqrt(np.asarray(self.model_.split(rows).total))) if return_std else mean

    def predict_dist(self, X) -> Distribution:
        """The predictive distribution of the target, one unit per row."""
        rows = self._new_table(X)
        return self.model_.predict_dist(rows)

    def predict_uncertainty(self, X) -> UncertaintySplit:
        """The predictive variance of each row in its parts: noise (aleatoric) and weights (epistemic)."""
        rows = self._new_table(X)
        return self.model_.split(rows)


class BayesianLinearRegressor(_LinearBayes):
    r"""$y = b + w^\top\phi(x) + \epsilon$, $w \sim N(0, I/\alpha)$, $\epsilon \sim N(0, 1/\beta)$, flat $b$.

    - `method="full"`: $\alpha, \beta$ integrated out on a grid; a mixture of normals, true with few rows.
    - `"evidence"`: $\alpha, \beta$ of highest evidence, taken for the truth; the predictive is normal.
    - `"conjugate"`: $w \mid \beta \sim N(0, (\beta r)^{-1}I)$ with $r$ = `prior_rows`; Student's t, exact.
    - `"variational"`: $q(w)\,q(\alpha)\,q(\beta)$; `log_evidence_` is a lower bound.

    `basis` maps rows to features, `standardise` makes $\alpha$ speak of columns of unit standard deviation
    (so units do not matter). Missing entries are refused by the name of their column.

    >>> from tractable.estimators.bayes_linear import BayesianLinearRegressor
    >>> model = BayesianLinearRegressor().fit([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.1, 2.9])
    >>> float(model.predict([[4.0]])[0].round(2))
    3.76
    """

    _parameter_constraints: ClassVar[dict] = {
        "method": [StrOptions({"evidence", "full", "conjugate", "variational"})],
        "basis": [None, callable, list, tuple],
        "fit_intercept": ["boolean"],
        "standardise": ["boolean"],
        "prior_rows": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, method="full", *, basis=None, fit_intercept=True, standardise=True, prior_rows=1.0):
        self.method = method
        self.basis = basis
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.prior_rows = prior_rows

    def _refit(self):
        options = self._options()
        if self.method == "full":
            model = full_bayes_linear(self.statistics_, **options)
            self.effective_parameters_ = float(model.effective_parameters)
        elif self.method == "conjugate":
            model = conjugate_linear(self.statistics_, prior_rows=self.prior_rows, **options)
        elif self.method == "variational":
            model, self.run_ = variational_noise_linear(self.statistics_, **options)
        else:
            self.run_ = maximise_evidence(self.statistics_, **options)
            model, self.alpha_ = self.run_.model, float(self.run_.alpha)
            self.effective_parameters_ = float(self.run_.effective_parameters)
        return self._set(model)


class RelevanceRegressor(_LinearBayes):
    r"""Sparse Bayesian regression: $w_j \sim N(0, 1/\alpha_j)$, each $\alpha_j$ and the noise by evidence.

    Columns whose $\alpha_j$ is best infinite are switched off: `kept_` says which remain. With a `basis` of
    one bump per row this is the relevance vector machine. The prediction is Student's t with the degrees of
    freedom that the choice of columns leaves.

    >>> import numpy as np
    >>> from tractable.estimators.bayes_linear import RelevanceRegressor
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> RelevanceRegressor().fit(X, 3 * X[:, 2]).kept_.tolist()
    [False, False, True, False]
    """

    _parameter_constraints: ClassVar[dict] = {
        "basis": [None, callable, list, tuple],
        "fit_intercept": ["boolean"],
        "standardise": ["boolean"],
    }

    def __init__(self, *, basis=None, fit_intercept=True, standardise=True):
        self.basis = basis
        self.fit_intercept = fit_intercept
        self.standardise = standardise

    def _refit(self):
        options = self._options()
        self.run_ = relevance_regression(self.statistics_, **options)
        self.alpha_, self.kept_ = np.asarray(self.run_.alpha), self.run_.kept
        return self._set(self.run_.model)

    def predict_dist(self, X) -> StudentT:
        """Student's t of each row; with too few rows for the columns that were chosen there is none."""
        rows = self._new_table(X)
        total, degrees = float(self.statistics_.degrees(self.fit_intercept)), float(self.run_.freedom)
        must = "of more rows than the choice among its columns takes for a distribution"
        kept = f"{len(self.kept_)} columns, of which {self.kept_.sum()} were kept, and {total:g} degrees"
        fix = "Give more rows; `predict` has the mean, and BayesianLinearRegressor has intervals here."
        check(degrees >= 0.5, "X", must, kept, fix)
        found = self.model_.predict_dist(rows)
        scale = np.asarray(found.scale) * np.sqrt(total / degrees)
        return student_rows(degrees, found.loc, scale)
