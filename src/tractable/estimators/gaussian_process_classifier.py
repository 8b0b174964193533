"""Gaussian process classification as a scikit-learn estimator; the mathematics is in `tractable.gp`."""

import dataclasses
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.bijections.support import unconstrain
from tractable.core.blas import one_blas_thread
from tractable.core.checks import check
from tractable.core.rows import Rows
from tractable.estimators.base import Classifier
from tractable.gp.classification import ClassificationProcess, fit_classification
from tractable.gp.columns import narrowed_fit, resized, wide_rows, width_of
from tractable.gp.hyperparameters import default_process
from tractable.gp.multiclass import fit_multiclass, multiclass_posterior
from tractable.kernels.base import Kernel

__all__ = ["GaussianProcessClassifier"]

_FEW = 1024  # rows: below, threads of the linear algebra spend their time waiting for each other
_SPREAD = 3.0  # standard deviation of the logarithms of hyperparameters about the scale of the data
_TOL = 1e-2  # of the gradient, relative to the evidence


class GaussianProcessClassifier(Classifier):
    r"""$f \sim GP(0, k)$, $p(y = 1 \mid x) = \sigma(f(x))$; several classes: a function each and a softmax.

    `kernel=None` is a scaled RBF with one length scale per column. `method`: "laplace", "ep" or "variational"
    (several classes: "laplace"). Hyperparameters are learnt from the evidence of `learning_rows` rows, in
    even shares of the classes; with 0 the kernel is taken as it is. Those of the default kernel have a weak
    prior besides, log-normal about the scale of the data with a factor $e^3$ either way: without one, the
    variance of classes that can be separated grows without end. All rows speak in the posterior.

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
        if len(self.classes_) > 2:
            fix = "Use the default method and link for more than two classes."
            plain = self.method == "laplace" and self.link == "logistic"
            check(plain, "method", "laplace with the logistic link", (self.method, self.link), fix)
        dim, width = rows.X.shape[1], self._width(*rows.X.shape)
        kernel = self.kernel
        if kernel is None:  # a variance of one suits signs, and four the latent function behind them
            kernel = 4.0 * default_process(Rows(rows.X, 2.0 * (rows.y > 0) - 1, rows.weights)).kernel.kernel
        wide = dataclasses.replace(rows, X=wide_rows(rows.X, width))
        learn = self._learn_two if len(self.classes_) == 2 else self._learn_several
        with one_blas_thread(len(rows.X) <= _FEW):
            learn(resized(kernel, dim, width), wide)
        self.model_ = resized(self.model_, width, dim)
        self.log_evidence_ = float(self.model_.log_evidence)
        if self.learning_rows:
            found: Any = self.run_
            learnt = found.kernel if len(self.classes_) > 2 else found.process
            self.run_ = narrowed_fit(found, unconstrain(learnt)[1], width, dim)
        return self

    def _learn_two(self, kernel: Kernel, rows: Rows) -> None:
        process = ClassificationProcess(kernel, self.link)
        if self.learning_rows:
            few, spread = self._few(rows), self._spread()
            self.run_ = fit_classification(process, few, method=self.method, tol=_TOL, spread=spread)
            process = self.run_.process
        self.model_ = process.posterior(rows, method=self.method)

    def _learn_several(self, kernel: Kernel, rows: Rows) -> None:
        near = None
        if self.learning_rows:
            few = self._few(rows)
            near = fit_multiclass(kernel, few, tol=_TOL, spread=self._spread())
            self.run_ = near
            kernel = near.kernel
        self.model_ = multiclass_posterior(kernel, rows, near=near)

    def _width(self, num_rows: int, dim: int) -> int:
        return width_of(num_rows, dim) if self.kernel is None else dim

    def _spread(self) -> float | None:
        return _SPREAD if self.kernel is None else None

    def _few(self, rows: Rows) -> Rows:
        """Rows at even steps when they are ordered by class, so that each class has its share."""
        steps = np.linspace(0, rows.num_rows - 1, min(rows.num_rows, max(self.learning_rows, 1)))
        return rows.take(np.sort(np.argsort(rows.y, kind="stable")[np.unique(steps.astype(int))]))

    @property
    def kernel_(self) -> Kernel:
        """The learnt kernel of the latent functions."""
        model: Any = self.model_
        return model.process.kernel if len(self.classes_) == 2 else model.kernel

    def predict_proba(self, X):
        """The probability of each class, averaged over what is not known of the functions."""
        rows = self._new_table(X).X
        dim, width = rows.shape[1], self._width(self.model_.observed.num_rows, rows.shape[1])
        found = resized(self.model_, dim, width).probability(wide_rows(rows, width))
        return found if found.ndim == 2 else np.stack([1 - found, found], axis=1)
