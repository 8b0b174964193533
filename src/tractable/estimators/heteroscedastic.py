"""A line whose noise changes with the columns, as a scikit-learn estimator; the mathematics is in
`supervised.generalised.heteroscedastic`."""

from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from tractable.estimators.base import Regressor
from tractable.estimators.generalised import PRIOR
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.supervised.generalised.heteroscedastic import fit_heteroscedastic
from tractable.supervised.generalised.mixed import MixedLaw

__all__ = ["HeteroscedasticRegressor"]


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
        return self.summary(level, which="scale")

    def predict_dist(self, X) -> MixedLaw:
        """The predictive law of each row: a mixture of normals."""
        rows = self._new_table(X)
        return self.model_.predict_dist(rows)

    def predict_uncertainty(self, X) -> UncertaintySplit:
        """The predictive variance of each row: noise (aleatoric) and coefficients (epistemic)."""
        rows = self._new_table(X)
        return self.model_.split(rows)

    def log_scores(self, X, y) -> np.ndarray:
        """The log predictive density of each row's target."""
        return self.predict_dist(X).row_log_probs(np.asarray(y, float))
