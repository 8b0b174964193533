"""Naive Bayes as scikit-learn estimators: validation, wiring, fitted attributes; the mathematics is in
`supervised.generative.naive_bayes`."""

import dataclasses
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tractable.core.checks import check
from tractable.core.rows import Rows
from tractable.estimators.calibrated import CALIBRATE, GenerativeClassifier
from tractable.supervised.generative.columns import GaussianColumns
from tractable.supervised.generative.counts import CategoricalColumns
from tractable.supervised.generative.naive_bayes import fit_naive_bayes

__all__ = [
    "BernoulliNaiveBayesClassifier", "CategoricalNaiveBayesClassifier", "GaussianNaiveBayesClassifier",
    "MultinomialNaiveBayesClassifier", "NaiveBayesClassifier",
]  # fmt: skip

_NON_NEGATIVE = [Interval(Real, 0, None, closed="left")]


class NaiveBayesClassifier(GenerativeClassifier):
    r"""$p(c \mid x) \propto \pi_c\prod_j p(x_j \mid c)$ with a family of its own for each column.

    Parameters
    ----------
    families : str, list or dict
        "gaussian", "bernoulli", "categorical", "poisson" or "multinomial" for all columns, one per column, or
        a dictionary from columns (numbers, or names of a data frame); the others are Gaussian.
    smoothing : float
        Pseudo-counts of count families; 0 is maximum likelihood.
    class_smoothing : float
        Pseudo-counts of the classes.
    class_probs : array-like, optional
        Probabilities of the classes, in place of their shares.
    calibrate : bool
        Whether rows that were held out say how far to believe the product.

    Missing entries (NaN) are left out of the product. `partial_fit` adds statistics: many small fits are one
    large one.

    >>> NaiveBayesClassifier().fit([[0.0], [1.0], [8.0], [9.0]], ["a", "a", "b", "b"]).predict([[2.0]]).item()
    'a'
    """

    _accepts_missing = True
    _parameter_constraints: ClassVar[dict] = {
        "families": "no_validation",
        "smoothing": _NON_NEGATIVE,
        "class_smoothing": _NON_NEGATIVE,
        "class_probs": ["array-like", None],
        **CALIBRATE,
    }

    def __init__(
        self, families="gaussian", *, smoothing=1.0, class_smoothing=0.0, class_probs=None, calibrate=True
    ):
        self.families = families
        self.smoothing = smoothing
        self.class_smoothing = class_smoothing
        self.class_probs = class_probs
        self.calibrate = calibrate

    @property
    def class_prior_(self) -> np.ndarray:
        """The probability of each class."""
        check_is_fitted(self)
        return self.model_.class_probs

    def _model_of(self, rows):
        return fit_naive_bayes(
            self._seen(rows), families=self._column_families(),
            smoothing=self.smoothing, class_smoothing=self.class_smoothing, class_probs=self.class_probs,
            num_classes=len(self.classes_),
        )  # fmt: skip

    def _updated(self, rows):
        return self.model_.update(self._seen(rows))

    def _shares(self, model, rows):
        return super()._shares(model, self._seen(rows))

    def _column_families(self) -> Any:
        names = getattr(self, "feature_names_in_", None)
        if isinstance(self.families, dict) and names is not None:
            places = {name: j for j, name in enumerate(names)}
            return {
                tuple(places.get(c, c) for c in (key if isinstance(key, tuple) else (key,))): family
                for key, family in self.families.items()
            }
        return self.families

    def _seen(self, rows: Rows) -> Rows:
        """The rows as the families see them."""
        return dataclasses.replace(rows, X=self._entries(rows.X))

    def _entries(self, X: np.ndarray) -> np.ndarray:
        return X


class GaussianNaiveBayesClassifier(NaiveBayesClassifier):
    r"""Naive Bayes with $N(\mu_{jc}, \sigma_{jc}^2)$ for each column.

    `variance_floor` is relative to the variance of each column; with `prior_strength` the parameters are
    integrated out under a prior worth so many rows: Student's t columns, careful with small classes.
    """

    _parameter_constraints: ClassVar[dict] = {
        "variance_floor": _NON_NEGATIVE,
        "prior_strength": [Interval(Real, 0, None, closed="neither"), None],
        "class_smoothing": _NON_NEGATIVE,
        "class_probs": ["array-like", None],
        **CALIBRATE,
    }

    smoothing = 0.0

    def __init__(
        self,
        *,
        variance_floor=1e-9,
        prior_strength=None,
        class_smoothing=0.0,
        class_probs=None,
        calibrate=True,
    ):
        self.variance_floor = variance_floor
        self.prior_strength = prior_strength
        self.class_smoothing = class_smoothing
        self.class_probs = class_probs
        self.calibrate = calibrate

    def _column_families(self):
        return GaussianColumns(self.variance_floor, self.prior_strength)


class BernoulliNaiveBayesClassifier(NaiveBayesClassifier):
    r"""Naive Bayes with $P(x_j = 1 \mid c) = (N_{jc} + \alpha)/(N_c + 2\alpha)$.

    Entries above `threshold` are ones; with None they must be 0 or 1.
    """

    _parameter_constraints: ClassVar[dict] = {
        "smoothing": _NON_NEGATIVE,
        "threshold": [Real, None],
        "class_smoothing": _NON_NEGATIVE,
        "class_probs": ["array-like", None],
        **CALIBRATE,
    }

    def __init__(
        self, *, smoothing=1.0, threshold=0.0, class_smoothing=0.0, class_probs=None, calibrate=True
    ):
        self.smoothing = smoothing
        self.threshold = threshold
        self.class_smoothing = class_smoothing
        self.class_probs = class_probs
        self.calibrate = calibrate

    def _column_families(self):
        return "bernoulli"

    def _entries(self, X):
        return X if self.threshold is None else np.where(np.isnan(X), np.nan, self.threshold < X)


class CategoricalNaiveBayesClassifier(NaiveBayesClassifier):
    r"""Naive Bayes with $P(x_j = k \mid c) = (N_{jkc} + \alpha)/(N_{jc} + K_j\alpha)$ for codes 0, 1, ...

    `num_categories` gives $K_j$ (a number, or one per column); None takes them from the rows of the fit.
    """

    expected_failed_checks: ClassVar[dict] = {
        "check_sample_weight_equivalence_on_dense_data": "its rows are fractions, which are no codes",
    }
    _parameter_constraints: ClassVar[dict] = {
        "smoothing": _NON_NEGATIVE,
        "num_categories": ["array-like", Real, None],
        "class_smoothing": _NON_NEGATIVE,
        "class_probs": ["array-like", None],
        **CALIBRATE,
    }

    def __init__(
        self, *, smoothing=1.0, num_categories=None, class_smoothing=0.0, class_probs=None, calibrate=True
    ):
        self.smoothing = smoothing
        self.num_categories = num_categories
        self.class_smoothing = class_smoothing
        self.class_probs = class_probs
        self.calibrate = calibrate

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        return tags

    def _entries(self, X):
        return _refuse_negative(X)

    def _column_families(self):
        sizes = self.num_categories
        if sizes is not None and np.ndim(sizes):
            sizes = tuple(int(k) for k in sizes)
        return CategoricalColumns(self.smoothing, sizes)


class MultinomialNaiveBayesClassifier(NaiveBayesClassifier):
    r"""Naive Bayes for counts of words: $p(x \mid c) \propto \prod_k\theta_{kc}^{x_k}$ with
    $\theta_{kc} = (N_{kc} + \alpha)/(N_c + K\alpha)$."""

    _accepts_missing = False
    _parameter_constraints: ClassVar[dict] = {
        "smoothing": _NON_NEGATIVE,
        "class_smoothing": _NON_NEGATIVE,
        "class_probs": ["array-like", None],
        **CALIBRATE,
    }

    def __init__(self, *, smoothing=1.0, class_smoothing=0.0, class_probs=None, calibrate=True):
        self.smoothing = smoothing
        self.class_smoothing = class_smoothing
        self.class_probs = class_probs
        self.calibrate = calibrate

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True  # on real numbers, which are no counts
        return tags

    def _entries(self, X):
        return _refuse_negative(X)

    def _column_families(self):
        return "multinomial"


def _refuse_negative(X: np.ndarray) -> np.ndarray:
    negative = X < 0
    if negative.any():
        row, column = np.argwhere(negative)[0]
        must = "zero or positive (Negative values in data are neither codes nor counts)"
        check(False, "X", must, f"{X[row, column]:g} in column {column}, row {row}")
    return X
