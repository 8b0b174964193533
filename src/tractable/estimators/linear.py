r"""Linear regression as scikit-learn estimators: ordinary, ridge, lasso, robust, recursive.

Model.       $y = x^\top\theta + \theta_0 + \epsilon$; the mathematics is in `supervised.linear`.
Cost.        That of the models; nothing is compiled for the first two.
"""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import stdtrit
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.distributions.base import Distribution
from tractable.distributions.student import StudentT
from tractable.estimators.base import Regressor, student_rows
from tractable.estimators.units import STANDARDISE, Units, unscaled
from tractable.supervised.linear.lasso import lasso
from tractable.supervised.linear.least_squares import ordinary_least_squares
from tractable.supervised.linear.recursive import FORMS, RecursiveModel
from tractable.supervised.linear.ridge import choose_penalty, ridge, ridge_path
from tractable.supervised.linear.robust import LOSSES, robust_regression

__all__ = ["LassoRegressor", "LinearRegressor", "RecursiveRegressor", "RidgeRegressor", "RobustRegressor"]

_POSITIVE = Interval(Real, 0, None, closed="neither")
_NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
_STEPS = Interval(Integral, 1, None, closed="left")


class _Linear(Regressor):
    """What the fitted linear models share: `model_` predicts, `coef_` and `intercept_` show it."""

    model_: Any

    def _adopt(self, model: Any) -> "_Linear":
        self.model_ = model
        self.coef_ = np.asarray(model.coefficients).T
        self.intercept_ = np.asarray(model.intercept) if np.ndim(model.intercept) else float(model.intercept)
        return self

    def _coefficients(self, level: float) -> tuple[Any, Any, Any]:
        must, got = "one target for a summary", f"{np.shape(self.coef_)[0]} of them"
        check(np.ndim(self.coef_) == 1, "y", must, got, "`model_` has the errors of each.")
        values = self.coef_ if not self._has_intercept() else np.r_[self.intercept_, self.coef_]
        return (values, *self.model_.interval(level))

    def _has_intercept(self) -> bool:
        return bool(getattr(self, "fit_intercept", True))

    def predict(self, X) -> np.ndarray:
        """The mean of the target at each row."""
        rows = self._new_table(X)
        return np.asarray(self.model_.predict(rows))

    def predict_dist(self, X) -> Distribution:
        """The distribution of a new target at each row."""
        rows = self._new_table(X)
        return self.model_.predict_dist(rows)


class _ManyTargets(_Linear):
    """A linear model of one target or several."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class LinearRegressor(_ManyTargets):
    r"""Least squares, to the last digit that the data hold: $\min \sum_n w_n (y_n - x_n^\top\theta -
    \theta_0)^2$.

    Scaled pivoted QR with refinement; `model_` prints a table with errors, intervals, rank and condition. The
    prediction is Student's t with $N - p$ degrees. Of dependent columns the solution of least norm is taken.

    >>> LinearRegressor().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]).coef_.round(12)
    array([2.])
    """

    _parameter_constraints: ClassVar[dict] = {"fit_intercept": ["boolean"]}

    def __init__(self, *, fit_intercept=True):
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None):
        rows = self._training_rows(X, y, sample_weight, multi_output=True, y_numeric=True)
        return self._adopt(ordinary_least_squares(rows, intercept=self.fit_intercept))


class RidgeRegressor(_ManyTargets):
    r"""Ridge: $\min \sum_n w_n (y_n - x_n^\top\theta - \theta_0)^2 + \alpha\|\theta\|^2$, over columns of
    unit standard deviation (`standardise`; coefficients are in the units of the data either way).

    `alpha` is a number, or how to choose it: "evidence" (of $\theta \sim N(0, \sigma^2/\alpha)$; then there
    is `log_evidence_`), "loo" (leave one out) or "gcv". The one used is `alpha_`. The prediction is Student's
    t with $N$ minus the effective degrees of freedom.

    >>> plain = RidgeRegressor(0.5, fit_intercept=False, standardise=False)
    >>> plain.fit([[1, 0], [1, 1], [1, 2]], [1, 2, 3]).coef_.round(7)
    array([0.8780488, 0.9756098])
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [_NOT_NEGATIVE, StrOptions({"evidence", "loo", "gcv"})],
        "fit_intercept": ["boolean"],
        **STANDARDISE,
    }

    def __init__(self, alpha=1.0, *, fit_intercept=True, standardise=True):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.standardise = standardise

    def fit(self, X, y, sample_weight=None):
        rows = self._training_rows(X, y, sample_weight, multi_output=True, y_numeric=True)
        units = Units.of(rows, standardise=self.standardise, centre=self.fit_intercept)
        rows = replace(rows, X=rows.X / units.size)
        self.alpha_ = self.alpha
        if isinstance(self.alpha, str):
            self.alpha_ = choose_penalty(rows, criterion=self.alpha, intercept=self.fit_intercept)
        if self.alpha == "evidence":
            self.log_evidence_ = float(
                ridge_path(rows, intercept=self.fit_intercept).log_evidence(self.alpha_)
            )
        found = ridge(rows, penalty=self.alpha_, intercept=self.fit_intercept)
        return self._adopt(unscaled(found, units.size))


class LassoRegressor(_Linear):
    r"""The lasso, or with `l1_ratio` $\rho < 1$ the elastic net, certified by its duality gap (`dual_gap_`).

    $\min \frac1{2N}\sum_n w_n (y_n - x_n^\top\theta - \theta_0)^2 + \alpha\rho\|\theta\|_1 +
    \frac12\alpha(1 - \rho)\|\theta\|^2$ with $N = \sum_n w_n$, over columns and targets of unit standard
    deviation (`standardise`; coefficients are in the units of the data either way): columns whose correlation
    with the residuals stays below $\alpha$ are left out. The prediction is Student's t given the columns that
    were chosen.

    >>> LassoRegressor(0.5, fit_intercept=False, standardise=False).fit(np.eye(2), [4, 1]).coef_.round(9)
    array([3., 0.])
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [_NOT_NEGATIVE],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "fit_intercept": ["boolean"],
        **STANDARDISE,
        "max_iter": [_STEPS],
        "tol": [_POSITIVE],
    }

    def __init__(self, alpha=0.1, *, l1_ratio=1.0, fit_intercept=True, standardise=True, max_iter=10_000,
                 tol=1e-11):  # fmt: skip
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X, y, sample_weight=None):
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        units = Units.of(rows, standardise=self.standardise, centre=self.fit_intercept, target=True)
        rows = replace(rows, X=rows.X / units.size, y=rows.y / units.target_size)
        strength, ridge_strength = self.alpha * self.l1_ratio, self.alpha * (1 - self.l1_ratio)
        model = lasso(
            rows, penalty=strength, ridge=ridge_strength, intercept=self.fit_intercept,
            convention="mean", tol=self.tol, max_steps=self.max_iter,
        )  # fmt: skip
        model = unscaled(model, units.size, units.target_size)
        self.run_, self.dual_gap_ = model.run, float(model.gap)
        self.n_iter_ = max(1, int(model.run.num_steps))
        return self._adopt(model)


class RobustRegressor(_Linear):
    r"""A line that outliers hardly move: Huber's loss, the absolute loss, or Student's t with `degrees` by
    EM.

    $\min \sum_n w_n \rho((y_n - x_n^\top\theta - \theta_0)/s)$ with the scale $s$ (`scale_`) estimated
    robustly. The prediction is Student's t, or Laplace for the absolute loss, wider for what is not known of
    line and scale; with no more rows than coefficients there is none.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [0.0, 1.0, 2.0, 3.0, 400.0]
    >>> RobustRegressor("absolute").fit(X, y).coef_.round(9)
    array([1.])
    """

    _parameter_constraints: ClassVar[dict] = {
        "loss": [StrOptions(set(LOSSES))],
        "tuning": [_POSITIVE],
        "degrees": [_POSITIVE],
        "fit_intercept": ["boolean"],
        "max_iter": [_STEPS],
        "tol": [_POSITIVE],
    }

    def __init__(
        self, loss="huber", *, tuning=1.345, degrees=4.0, fit_intercept=True, max_iter=1000, tol=1e-10
    ):
        self.loss = loss
        self.tuning = tuning
        self.degrees = degrees
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X, y, sample_weight=None):
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        model = robust_regression(
            rows, loss=self.loss, intercept=self.fit_intercept, tuning=float(self.tuning),
            degrees=float(self.degrees), tol=self.tol, max_steps=self.max_iter,
        )  # fmt: skip
        self.scale_, self.n_iter_ = float(model.scale), max(1, int(model.num_steps))
        return self._adopt(model)


class RecursiveRegressor(_Linear):
    r"""Recursive least squares: each row updates $\theta$ and its covariance; `partial_fit` goes on for ever.

    $K = P x/(x^\top P x + 1)$, $\theta \leftarrow \theta + K(y - x^\top\theta)$, $P \leftarrow (I -
    K x^\top)P$ from $P_0 = I/\alpha$ over columns and targets less the mean of the first rows and in units of
    their standard deviation, which is ridge regression; `forgetting` below one lets old rows fade. The
    prediction is Student's t with the number of rows minus the effective parameters as its degrees; before
    one is left there is none.

    >>> model = RecursiveRegressor().fit([[0.0], [1.0]], [1.0, 3.0])
    >>> model.partial_fit([[2.0], [3.0]], [5.0, 7.0]).coef_.round(2)
    array([2.])
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [_POSITIVE],
        "forgetting": [Interval(Real, 0, 1, closed="right")],
        "form": [StrOptions(set(FORMS))],
        "fit_intercept": ["boolean"],
    }

    def __init__(self, alpha=1e-3, *, forgetting=1.0, form="joseph", fit_intercept=True):
        self.alpha = alpha
        self.forgetting = forgetting
        self.form = form
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None):
        return self._absorb(X, y, sample_weight, fresh=True)

    def partial_fit(self, X, y, sample_weight=None):
        """Learn from more rows, keeping what was learnt."""
        return self._absorb(X, y, sample_weight, fresh=not hasattr(self, "model_"))

    def _absorb(self, X, y, sample_weight, fresh: bool) -> "RecursiveRegressor":
        rows = self._training_rows(X, y, sample_weight, reset=fresh, y_numeric=True)
        options = {"penalty": self.alpha, "forgetting": float(self.forgetting), "form": self.form}
        first: Any = (
            RecursiveModel.start(rows.X, rows.weights, rows.y, intercept=self.fit_intercept, **options)
            if fresh
            else self.model_
        )
        self._adopt(first.update(*rows))
        return self

    def predict_dist(self, X) -> StudentT:
        """A new target at each row: the weak prior of the coefficients lends no degrees of freedom."""
        found: Any = super().predict_dist(X)
        noise, degrees = self._noise()
        factor = noise / np.sqrt(float(self.model_.energy) / float(self.model_.count))
        return student_rows(degrees, found.loc, np.asarray(found.scale) * factor)

    def _noise(self) -> tuple[float, float]:
        """The standard deviation of the noise, and the degrees of freedom that it is known with."""
        count = float(self.model_.count)
        degrees = count - float(self.model_.effective_parameters)
        fix = "Learn more rows, or raise `alpha`; `predict` gives the line."
        must = "of more rows than effective parameters for a distribution"
        check(degrees >= 0.5, "X", must, f"{count:g} rows", fix)
        return float(np.sqrt(float(self.model_.energy) / degrees)), degrees

    def _coefficients(self, level: float) -> tuple[Any, Any, Any]:
        (noise, degrees), model = self._noise(), self.model_
        back = np.diag(1 / np.asarray(model.column_scale))
        values = self.coef_
        if self.fit_intercept:
            back[0, 1:] = -np.asarray(model.column_centre / model.column_scale)[1:]
            values = np.r_[self.intercept_, values]
        reach = stdtrit(degrees, 0.5 + level / 2) * noise * np.sqrt(np.diag(back @ model.belief.cov @ back.T))
        return values, values - reach, values + reach
