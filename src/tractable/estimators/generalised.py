"""Generalised linear models as scikit-learn estimators; the mathematics is in `supervised.generalised`.

Cost.        About sixty fits of a few passes over the rows each; with more than 30,000 rows a part of them is
             searched, and all rows are passed about ten times.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.core.rows import Rows
from tractable.estimators.base import Regressor, key_from
from tractable.supervised.generalised.chains import sample_generalised
from tractable.supervised.generalised.mixed import MixedLaw
from tractable.supervised.generalised.model import fit_generalised, log_offset

__all__ = [
    "BetaRegressor", "GammaRegressor", "NegativeBinomialRegressor", "PoissonRegressor", "SurvivalRegressor",
]  # fmt: skip

PRIOR: dict[str, list] = {
    "prior_precision": [StrOptions({"evidence"}), Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "method": [StrOptions({"laplace", "mcmc"})],
    "draws": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}


class _Generalised(Regressor):
    """What all share: a posterior of one linear predictor, and laws of rows from it.

    `method` is "laplace" (normal laws at nodes of the precision and the shape) or "mcmc": draws of the exact
    posterior by NUTS, `draws` for each of four chains, all of them in `run_`; 400 of them predict.
    `log_evidence_` is Laplace's.
    """

    _family: ClassVar[str]
    _parameter_constraints: ClassVar[dict] = PRIOR
    model_: Any
    prior_precision: Any
    fit_intercept: bool
    method: str
    draws: int
    random_state: Any

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
        if self.method == "mcmc":
            draws: Any = {"key": key_from(self.random_state), "num_draws": self.draws}
            self.model_, self.run_ = sample_generalised(rows, family=family, **given, **options, **draws)
        else:
            vars(self).pop("run_", None)
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
    integrated over (`prior_precision_` is where), by Laplace's `method` or by draws ("mcmc", in `run_`).
    `fractions=True` takes targets that are no whole numbers: a quasi-likelihood, whose predictive laws are
    still those of counts.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 5, [1, 2, 4, 9] * 5
    >>> model = PoissonRegressor().fit(X, y)
    >>> model.predict([[2.0]]).round(1).tolist(), model.predict_interval([[2.0]])[1].tolist()
    ([4.3], [8.0])
    """

    _family = "poisson"
    _parameter_constraints: ClassVar[dict] = {**PRIOR, "fractions": ["boolean"]}

    def __init__(self, *, prior_precision="evidence", fit_intercept=True, fractions=False, method="laplace",
                 draws=1000, random_state=None):  # fmt: skip
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.fractions = fractions
        self.method = method
        self.draws = draws
        self.random_state = random_state


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

    def __init__(self, *, prior_precision="evidence", fit_intercept=True, fractions=False, method="laplace",
                 draws=1000, random_state=None):  # fmt: skip
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.fractions = fractions
        self.method = method
        self.draws = draws
        self.random_state = random_state

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

    def __init__(self, *, prior_precision="evidence", fit_intercept=True, method="laplace",
                 draws=1000, random_state=None):  # fmt: skip
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.method = method
        self.draws = draws
        self.random_state = random_state

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

    def __init__(self, bounds=(0.0, 1.0), *, prior_precision="evidence", fit_intercept=True, method="laplace",
                 draws=1000, random_state=None):  # fmt: skip
        self.bounds = bounds
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.method = method
        self.draws = draws
        self.random_state = random_state

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

    def __init__(self, distribution="weibull", *, prior_precision="evidence", fit_intercept=True,
                 method="laplace", draws=1000, random_state=None):  # fmt: skip
        self.distribution = distribution
        self.prior_precision = prior_precision
        self.fit_intercept = fit_intercept
        self.method = method
        self.draws = draws
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None, event=None):
        """Fit to rows and times; `event` is 1 where the event was seen and 0 where the time is censored."""
        self._fit_family(X, y, sample_weight, self.distribution, event=event)
        self.scale_ = self._shape()
        return self


def _kept(sample_weight: Any, num_rows: int) -> Any:
    """The rows that count: those of weight zero are absent."""
    if sample_weight is None:
        return slice(None)
    return np.broadcast_to(np.asarray(sample_weight, float), (num_rows,)) > 0
