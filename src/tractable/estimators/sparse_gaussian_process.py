"""Sparse Gaussian process regression as a scikit-learn estimator; the mathematics is in `tractable.gp`."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from tractable.distributions.continuous import Normal
from tractable.estimators.base import Regressor, key_from
from tractable.gp.hyperparameters import default_process, fit_hyperparameters
from tractable.gp.sparse import SparseProcess, fit_sparse, inducing_rows
from tractable.gp.svgp import fit_svgp
from tractable.kernels.base import Kernel

__all__ = ["SparseGaussianProcessRegressor"]

_SUBSET = 500  # rows whose exact evidence the search starts from
_WHOLE = 5_000  # rows up to which all of them are seen at each step
_FLOOR = 1e-6  # of the variance of the targets: the least noise that a search starts from


class SparseGaussianProcessRegressor(Regressor):
    r"""$f \sim GP(0, k)$ known through its values at `n_inducing` points; $y = f(x) + \epsilon$.

    Hyperparameters start at the evidence of 500 rows; then kernel, noise and inducing points rise on the
    lower bound of the evidence of all rows, by natural gradients on `batch_size` rows at a time above 5,000.

    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = SparseGaussianProcessRegressor(10, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.57]])[0] - 1) < 1e-2)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "kernel": [None, Kernel],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_inducing=200, *, kernel=None, max_iter=100, batch_size=1024, random_state=None):
        self.n_inducing = n_inducing
        self.kernel = kernel
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Hyperparameters and inducing points, then the best Gaussian of the inducing values."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        self.y_mean_ = float(np.average(rows.y, weights=rows.weights))
        spread = float(np.sqrt(np.average((rows.y - self.y_mean_) ** 2, weights=rows.weights)))
        self.y_scale_ = spread if spread > 0 else 1.0
        y = (rows.y - self.y_mean_) / self.y_scale_
        start = self._start(rows.X, y, rows.weights)
        if len(rows.X) <= _WHOLE:
            self.run_ = fit_sparse(start, rows.X, y, rows.weights, max_steps=self.max_iter)
            self.model_ = self.run_.process.posterior(rows.X, y, rows.weights)
        else:
            self.run_ = fit_svgp(
                start, rows.X, y, rows.weights, key=key_from(self.random_state), num_steps=self.max_iter,
                batch=self.batch_size,
            )  # fmt: skip
            self.model_ = self.run_.posterior
        self.log_evidence_ = float(self.model_.log_evidence) - rows.weights.sum() * np.log(self.y_scale_)
        return self

    def _start(self, X, y, weights) -> SparseProcess:
        chosen = np.unique(np.linspace(0, len(X) - 1, min(len(X), _SUBSET)).astype(int))
        few = X[chosen], y[chosen], weights[chosen]
        process = default_process(*few)
        if self.kernel is not None:
            process = type(process)(self.kernel, process.noise)
        found: Any = fit_hyperparameters(process, *few, tol=1e-2).process if y.any() else process
        noise = max(float(found.noise.variance), _FLOOR)
        return SparseProcess(found.kernel, inducing_rows(found.kernel, X, self.n_inducing), noise)

    def predict(self, X):
        """The predictive mean of each row."""
        rows = self._new_rows(X)
        return self.y_mean_ + self.y_scale_ * np.asarray(self.model_.mean(rows))

    def predict_dist(self, X) -> Normal:
        """A normal distribution of a new target at each row."""
        rows = self._new_rows(X)
        found = self.model_.predictive(rows)
        return Normal(self.y_mean_ + self.y_scale_ * found.loc, self.y_scale_ * found.scale)
