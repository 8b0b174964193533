"""Classes in order as a scikit-learn estimator; the mathematics is in `supervised.generalised.ordinal`."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from tractable.core.checks import check
from tractable.core.rows import Rows
from tractable.estimators.base import Classifier
from tractable.estimators.generalised import PRIOR
from tractable.supervised.generalised.ordinal import fit_ordinal

__all__ = ["OrdinalClassifier"]


class OrdinalClassifier(Classifier):
    r"""Classes in order, $P(y \le k) = \sigma(t_k - w^\top x)$: one line, and a threshold between neighbours.

    `order` lists the classes from the lowest to the highest; without it they are sorted, which is right for
    numbers and seldom for names. `thresholds_` are $t$, `coef_` is $w$; the prior is that of
    `PoissonRegressor`.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], ["low", "low", "mid", "mid", "top", "top"]
    >>> model = OrdinalClassifier(order=["low", "mid", "top"]).fit(X, y)
    >>> model.predict([[-1.0], [6.0]]).tolist()
    ['low', 'top']
    """

    _parameter_constraints: ClassVar[dict] = {
        "order": [None, list, tuple, np.ndarray],
        "prior_precision": PRIOR["prior_precision"],
    }
    model_: Any

    def __init__(self, order=None, *, prior_precision="evidence"):
        self.order = order
        self.prior_precision = prior_precision

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of classes that are in no order
        return tags

    def fit(self, X, y, sample_weight=None):
        """Fit to rows and classes."""
        rows = self._in_order(self._training_classes(X, y, sample_weight))
        self.model_ = fit_ordinal(rows, num_classes=len(self.classes_), prior_precision=self.prior_precision)
        self.coef_, self.thresholds_ = self.model_.coefficients()[0], self.model_.gates()
        self.log_evidence_ = float(self.model_.log_evidence)
        self.prior_precision_ = float(np.exp(self.model_.weights @ np.log(self.model_.precisions)))
        return self

    def _in_order(self, rows: Rows) -> Rows:
        """The rows with codes in the given order; classes that no row has are left out."""
        if self.order is None:
            return rows
        found, wanted = self.classes_.tolist(), list(self.order)
        unknown = [label for label in found if label not in wanted]
        check(not unknown, "order", "a list of all classes", f"one without {unknown[:1]}")
        kept = [label for label in wanted if label in found]
        places = np.array([kept.index(label) for label in found])
        self.classes_ = np.array(kept, dtype=self.classes_.dtype)
        return replace(rows, y=places[rows.y], classes=tuple(kept))

    def _coefficients(self, level: float) -> tuple[Any, Any, Any]:
        values, errors = self.model_.coefficients()
        reach = ndtri(0.5 + level / 2) * errors
        return values, values - reach, values + reach

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        rows = self._new_table(X)
        return self.model_.predict_proba(rows)
