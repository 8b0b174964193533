"""Gaussian process classification as a scikit-learn estimator; the mathematics is in `tractable.gp`."""

from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.checks import check
from tractable.estimators.base import Classifier, TrainingRows
from tractable.gp.classification import ClassificationProcess, fit_classification
from tractable.gp.hyperparameters import default_process
from tractable.gp.multiclass import fit_multiclass, multiclass_posterior
from tractable.kernels.base import Kernel

__all__ = ["GaussianProcessClassifier"]


class GaussianProcessClassifier(Classifier):
    r"""$f \sim GP(0, k)$, $p(y = 1 \mid x) = \sigma(f(x))$; several classes: a function each and a softmax.

    `kernel=None` is a scaled RBF with one length scale per column. `method`: "laplace", "ep" or "variational"
    (several classes: "laplace"). Hyperparameters are learnt from the evidence of `learning_rows` rows, in
    even shares of the classes; with 0 the kernel is taken as it is. All rows speak in the posterior.

    >>> X = np.linspace(-3, 3, 20)[:, None]
    >>> model = GaussianProcessClassifier(learning_rows=0).fit(X, X[:, 0] > 0)
    >>> bool(model.predict_proba([[2.5]])[0, 1] > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "kernel": [None, Kernel],
        "method": [StrOptions({"laplace", "ep", "variational"})],
        "link": [StrOptions({"logistic", "probit"})],
        "learning_rows": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, kernel=None, *, method="laplace", link="logistic", learning_rows=128):
        self.kernel = kernel
        self.method = method
        self.link = link
        self.learning_rows = learning_rows

    def fit(self, X, y, sample_weight=None):
        """Hyperparameters by the approximate evidence, then the posterior of the functions."""
        rows = self._training_classes(X, y, sample_weight)
        kernel = self.kernel
        if kernel is None:  # a variance of one suits signs, and four the latent function behind them
            kernel = 4.0 * default_process(rows.X, 2.0 * (rows.y > 0) - 1, rows.weights).kernel.kernel
        few = TrainingRows(*(part[self._chosen(rows.y)] for part in rows))
        if len(self.classes_) == 2:
            process = ClassificationProcess(kernel, self.link)
            if self.learning_rows:
                self.run_ = fit_classification(process, *few, method=self.method, tol=1e-2)
                process = self.run_.process
            self.model_ = process.posterior(*rows, method=self.method)
        else:
            fix = "Use the default method and link for more than two classes."
            plain = self.method == "laplace" and self.link == "logistic"
            check(plain, "method", "laplace with the logistic link", (self.method, self.link), fix)
            count = len(self.classes_)
            if self.learning_rows:
                self.run_ = fit_multiclass(kernel, few.X, few.y, count, few.weights)
                kernel = self.run_.kernel
            self.model_ = multiclass_posterior(kernel, rows.X, rows.y, count, rows.weights)
        self.log_evidence_ = float(self.model_.log_evidence)
        return self

    def _chosen(self, codes: np.ndarray) -> np.ndarray:
        """Rows at even steps when they are ordered by class, so that each class has its share."""
        steps = np.linspace(0, len(codes) - 1, min(len(codes), max(self.learning_rows, 1)))
        return np.sort(np.argsort(codes, kind="stable")[np.unique(steps.astype(int))])

    def predict_proba(self, X):
        """The probability of each class, averaged over what is not known of the functions."""
        rows = self._new_rows(X)
        found = np.asarray(self.model_.probability(rows))
        return found if found.ndim == 2 else np.stack([1 - found, found], axis=1)
