"""Generalised linear models as scikit-learn estimators; the mathematics is in `supervised.generalised`.

Cost.        About sixty fits of a few passes over the rows each; with more than 30,000 rows a part of them is
             searched, and all rows are passed about ten times.
"""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.core.rows import Rows
from tractable.estimators.base import Regressor
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.supervised.generalised.heteroscedastic import fit_heteroscedastic
from tractable.supervised.generalised.mixed import MixedLaw
from tractable.supervised.generalised.model import fit_generalised, log_offset

__all__ = [
    "BetaRegressor", "GammaRegressor", "HeteroscedasticRegressor", "NegativeBinomialRegressor",
    "PoissonRegressor", "SurvivalRegressor",
]  # fmt: skip

PRIOR: dict[str, list] = {
    "prior_precision": [StrOptions({"evidence"}), Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
}


class _Generalised(Regressor):
    """What all share: a posterior of one linear predictor, and laws of rows from it."""

    _family: ClassVar[str]
    _parameter_constraints: ClassVar[dict] = PRIOR
    model_: Any
    prior_precision: Any
    fit_intercept: bool

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _fit_family(self, X, y, sample_weight, family: str, **options: Any):
        """Fit to rows with `options` of one number for each row; those of absent rows are left out."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        count = np.shape(np.asarray(y))
        kept = _kept(sample_weight, count[0])
        given = {name: np.asarray(values) for name, values in options.items() if values is not None}
        for name, values in given.items():
            check(values.shape == count, name, f"of shape {count}, one for each row", f"shape {values.shape}")
        return self._set(rows, family, **{name: values[kept] for name, values in given.items()})

    def _set(self, rows: Rows, family: str, **options: Any):
        given = {"prior_precision": self.prior_precision, "intercept": self.fit_intercept}
        self.model_ = fit_generalised(rows, family=family, **given, **options)
        values = self.model_.coefficients()[0]
        self.coef_, self.intercept_ = values[int(self.fit_intercept) :], 0.0
        if self.fit_intercept:
            self.intercept_ = float(values[0])
        self.log_evidence_ = float(self.model_.log_evidence)
        self.prior_precision_ = float(np.exp(self.model_.weights @ np.log(self.model_.precisions)))
        return self

    def _coefficients(self, level: float) -> tuple[Any, Any, Any]:
        values, errors = self.model_.coefficients()
        reach = ndtri(0.5 + level / 2) * errors
        return values, values - reach, values + reach

    def _shape(self) -> float:
        """The (geometric) posterior mean of the shape number."""
        return float(np.exp(self.model_.weights @ self.model_.shapes[:, 0]))

    def predict_dist(self, X) -> MixedLaw:
        """The predictive law of each row, integrated over all that was estimated."""
        rows = self._new_table(X)
        return self.model_.predict_dist(rows)

    def log_scores(self, X, y) -> np.ndarray:
        """The log predictive density of each row's target."""
        return self.predict_dist(X).row_log_probs(np.asarray(y, float))


class _Counts(_Generalised):
    """Counts, each over its own exposure."""

    fractions: bool

    def fit(self, X, y, sample_weight=None, exposure=None):
        """Fit to rows and counts; `exposure` is the time or area over which each was counted."""
        return self._fit_family(X, y, sample_weight, self._family, exposure=exposure)

    def _set(self, rows: Rows, family: str, **options: Any):
        options["offset"] = log_offset(options.pop("exposure", None), rows.num_rows)
        if self.fractions:
            fix = "Counts and rates are not negative."
            check(bool((rows.y >= 0).all()), "y", "zero or positive", float(rows.y.min()), fix)
            options["check_targets"] = False
        return super()._set(rows, family, **options)

    def predict_dist(self, X, exposure=None) -> MixedLaw:
        """The predictive law of the count of each row, over `exposure` (one where not given)."""
        rows = self._new_table(X)
        return self.model_.predict_dist(rows, log_offset(exposure, rows.num_rows))

    def predict(self, X, exposure=None) -> np.ndarray:
        """The predictive mean of the count of each row, over `exposure` (one where not given)."""
        return np.asarray(self.predict_dist(X, exposure).mean)


class PoissonRegressor(_Counts):
    r"""Counts $y \sim \mathrm{Poisson}(e\,\exp(b + w^\top x))$ over the exposure $e$.

    The coefficients of standardised columns are $N(0, \alpha^{-1})$ with `prior_precision` $\alpha$ given or
    integrated over (`prior_precision_` is where). `fractions=True` takes targets that are no whole numbers:
    a quasi-likelihood, whose predictive laws are still those of counts.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [1, 2, 4, 9] * 5
    >>> model = PoissonRegressor().fit(X, y)
    >>> model.predict([[2.0]]).round(1).tolist(), model.predict_interval([[2.0]])[1].tolist()
    ([4.3], [8.0])
    """

    _family = "poisson"
    _parameter_constraints: ClassVar[dict] = {**PRIOR, "fractions": ["boolean"]}

    def __init__(self, *, prior_precision="evidence", fit_intercept=True, fractions=False):
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.fractions = fractions


class NegativeBinomialRegressor(_Counts):
    r"""More varied counts: mean $\mu = e\,\exp(b + w^\top x)$, variance $\mu + \kappa\mu^2$.

    `dispersion_` is $\kappa$, integrated over in predictions. The rest is as in `PoissonRegressor`.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [1, 0, 4, 9, 0, 5, 3, 20, 2, 1] * 2
    >>> model = NegativeBinomialRegressor().fit(X, y)
    >>> bool(model.dispersion_ > 0.1)
    True
    """

    _family = "negative_binomial"
    _parameter_constraints: ClassVar[dict] = {**PRIOR, "fractions": ["boolean"]}

    def __init__(self, *, prior_precision="evidence", fit_intercept=True, fractions=False):
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.fractions = fractions

    def _set(self, rows, family, **options):
        super()._set(rows, family, **options)
        self.dispersion_ = self._shape()
        return self


class GammaRegressor(_Generalised):
    r"""Positive numbers with mean $\mu = \exp(b + w^\top x)$ and variance $\mu^2/a$: errors in proportion.

    `concentration_` is $a$, integrated over in predictions; the prior is that of `PoissonRegressor`.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 4, [1.0, 2.5, 3.5, 9.0, 1.2, 1.9, 4.5, 7.0] * 2
    >>> GammaRegressor().fit(X, y).predict([[3.0]]).round(0).tolist()
    [8.0]
    """

    _family = "gamma"

    def __init__(self, *, prior_precision="evidence", fit_intercept=True):
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and positive targets."""
        self._fit_family(X, y, sample_weight, self._family)
        self.concentration_ = self._shape()
        return self


class BetaRegressor(_Generalised):
    r"""Proportions with mean $\mu = 1/(1 + e^{-b - w^\top x})$ and variance $\mu(1 - \mu)/(1 + \phi)$.

    Targets lie inside `bounds`, which no target may meet: a beta law has no density there. `concentration_`
    is $\phi$, integrated over in predictions; the prior is that of `PoissonRegressor`.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 3, [0.1, 0.2, 0.6, 0.9, 0.2, 0.3, 0.5, 0.8, 0.1, 0.4, 0.6, 0.7]
    >>> BetaRegressor().fit(X, y).predict([[0.0], [3.0]]).round(1).tolist()
    [0.1, 0.8]
    """

    _family = "beta"
    _parameter_constraints: ClassVar[dict] = {**PRIOR, "bounds": [tuple, list]}

    def __init__(self, bounds=(0.0, 1.0), *, prior_precision="evidence", fit_intercept=True):
        self.bounds = bounds
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and targets inside of the bounds."""
        low, high = (float(end) for end in self.bounds)
        check(np.isfinite([low, high]).all() and low < high, "bounds", "two numbers in order", self.bounds)
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        self._set(rows, self._family, bounds=(low, high))
        self.concentration_ = self._shape()
        return self


class SurvivalRegressor(_Generalised):
    r"""Times until an event, of which some are only known to be longer (censored): columns stretch time.

    $\log y = b + w^\top x + \sigma\epsilon$; `distribution` is that of $\epsilon$: "weibull" (the least
    extreme value) or "log_normal". `event` of `fit` says of each row whether the event was seen (1) or not
    (0); without it all were. `scale_` is $\sigma$.

    >>> X, y, event = [[0.0], [1.0]] * 6, [1.0, 3.0, 2.0, 5.0, 1.5, 6.0] * 2, [1, 1, 1, 0, 1, 0] * 2
    >>> model = SurvivalRegressor().fit(X, y, event=event)
    >>> early, late = model.predict_dist([[0.0], [1.0]]).survival(4.0)
    >>> bool(early < 0.1 and late > 0.4)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "distribution": [StrOptions({"weibull", "log_normal"})], **PRIOR,
    }  # fmt: skip

    def __init__(self, distribution="weibull", *, prior_precision="evidence", fit_intercept=True):
        self.distribution = distribution
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None, event=None):
        """Fit to rows and times; `event` is 1 where the event was seen and 0 where the time is censored."""
        self._fit_family(X, y, sample_weight, self.distribution, event=event)
        self.scale_ = self._shape()
        return self


class HeteroscedasticRegressor(Regressor):
    r"""$y = b + w^\top x + e^{c + g^\top x}\epsilon$ with normal $\epsilon$: noise that changes with $x$.

    Both sets of coefficients (`coef_`, `scale_coef_`) have normal priors whose precisions are given or
    integrated over; the mean's coefficients are integrated out exactly, so that few rows do not make the
    noise vanish.
    `summary()` is of the mean, `scale_summary()` of the log-scale.

    >>> x = np.linspace(0, 1, 200)
    >>> y = 3 * x + np.exp(2 * x - 2) * np.random.default_rng(0).normal(size=200)
    >>> model = HeteroscedasticRegressor().fit(x[:, None], y)
    >>> model.predict_dist([[0.0], [1.0]]).std.round(1).tolist()
    [0.1, 1.0]
    """

    _parameter_constraints: ClassVar[dict] = {
        "prior_precision": PRIOR["prior_precision"],
        "scale_precision": PRIOR["prior_precision"],
    }
    model_: Any

    def __init__(self, *, prior_precision="evidence", scale_precision="evidence"):
        self.prior_precision = prior_precision
        self.scale_precision = scale_precision

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and targets; a weight of two is the row twice."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        options: Any = {"prior_precision": self.prior_precision, "scale_precision": self.scale_precision}
        self.model_ = fit_heteroscedastic(rows, **options)
        mean, scale = self.model_.coefficients()[0], self.model_.coefficients("scale")[0]
        self.coef_, self.intercept_ = mean[1:], float(mean[0])
        self.scale_coef_, self.scale_intercept_ = scale[1:], float(scale[0])
        self.log_evidence_ = float(self.model_.log_evidence)
        return self

    def _coefficients(self, level: float, which: str = "mean") -> tuple[Any, Any, Any]:
        values, errors = self.model_.coefficients(which)
        reach = ndtri(0.5 + level / 2) * errors
        return values, values - reach, values + reach

    def scale_summary(self, level: float = 0.9) -> Any:
        """A table of the coefficients of the log-scale with central intervals, the intercept first."""
        frame = self.summary(level).copy()
        for column, values in zip(frame.columns, self._coefficients(level, "scale")):
            frame[column] = values
        return frame

    def predict_dist(self, X) -> MixedLaw:
        """The predictive law of each row: a mixture of normals."""
        rows = self._new_table(X)
        return self.model_.predict_dist(rows)

    def predict_uncertainty(self, X) -> UncertaintySplit:
        """The predictive variance of each row: noise (aleatoric) and coefficients (epistemic)."""
        rows = self._new_table(X)
        return self.model_.split(rows)

    log_scores = _Generalised.log_scores


def _kept(sample_weight: Any, num_rows: int) -> Any:
    """The rows that count: those of weight zero are absent."""
    if sample_weight is None:
        return slice(None)
    return np.broadcast_to(np.asarray(sample_weight, float), (num_rows,)) > 0
