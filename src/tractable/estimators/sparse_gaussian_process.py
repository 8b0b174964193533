"""Sparse Gaussian process regression as a scikit-learn estimator; the mathematics is in `tractable.gp`."""

from numbers import Integral
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from sklearn.utils._param_validation import Interval

from tractable.bijections.support import unconstrain
from tractable.core.checks import to_device
from tractable.core.rows import Rows
from tractable.distributions.continuous import Normal
from tractable.distributions.normal_mixture import NormalMixture
from tractable.estimators.base import Regressor, key_from
from tractable.estimators.gaussian_process import in_data_units
from tractable.gp.ascent import ProcessFit
from tractable.gp.columns import narrowed_fit, resized, wide_rows, width_of
from tractable.gp.hyperparameter_average import average_hyperparameters, wide_priors
from tractable.gp.hyperparameters import HyperparameterFit, default_process, fit_hyperparameters
from tractable.gp.points import Observed, observe
from tractable.gp.regression import GaussianProcess
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
    With no more distinct rows than `n_inducing`, they are the inducing points, the bound is the evidence, and
    predictions are averages over hyperparameters (`average_`) as those of `GaussianProcessRegressor`.

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
        dim, width = rows.X.shape[1], self._width(*rows.X.shape)
        observed = self._levelled(observe(Rows(wide_rows(rows.X, width), rows.y, rows.weights), merge=True))
        few = _even(observed, _SUBSET)
        process = resized(self._process(few, dim), dim, width)
        level = np.asarray(few.y)[: few.num_rows].any()
        exact = observed.num_rows <= min(self.n_inducing, _SUBSET)
        priors = wide_priors(process) if exact else None
        learnt = fit_hyperparameters(process, few, tol=1e-2, priors=priors) if level else None
        found = process if learnt is None else learnt.process
        self.average_ = average_hyperparameters(learnt, few, priors) if priors and learnt else None
        if exact:
            self._stay(learnt, found, observed)
        else:
            self._ascend(found, observed)
        if isinstance(self.run_, HyperparameterFit | ProcessFit):
            self.run_ = narrowed_fit(self.run_, unconstrain(self.run_.process)[1], width, dim)
        self.model_ = resized(self.model_, width, dim)
        self.log_evidence_ = float(self.model_.log_evidence) - rows.weights.sum() * np.log(self.y_scale_)
        return self

    @property
    def kernel_(self) -> Kernel:
        """The learnt kernel in the units of the targets as given."""
        return in_data_units(self.model_.process.kernel, self.y_scale_)

    def _stay(self, learnt: HyperparameterFit | None, process: Any, observed: Observed) -> None:
        self.run_: Any = learnt  # None for constant targets, from which there is nothing to learn
        self.n_iter_ = 1 if learnt is None else max(1, int(learnt.run.num_steps))
        self.model_ = _on_all_rows(process, observed).posterior(observed)

    def _ascend(self, start: Any, observed: Observed) -> None:
        count = observed.num_rows
        X = np.asarray(observed.X)[:count]
        noise = max(float(start.noise.variance), _FLOOR)
        sparse = SparseProcess(start.kernel, inducing_rows(start.kernel, X, self.n_inducing), noise)
        if count <= _WHOLE:
            self.run_ = fit_sparse(sparse, observed, max_steps=self.max_iter)
            self.n_iter_ = max(1, int(self.run_.run.num_steps))
            self.model_ = self.run_.process.posterior(observed)
        else:
            self.run_ = fit_svgp(
                sparse, observed, key=key_from(self.random_state), num_steps=self.max_iter,
                batch=self.batch_size,
            )  # fmt: skip
            self.n_iter_, self.model_ = self.max_iter, self.run_.posterior

    def _levelled(self, observed: Observed) -> Observed:
        """Merged rows with targets of mean 0 and variance 1, which `y_mean_` and `y_scale_` undo."""
        y, weights, within = (np.asarray(v) for v in (observed.y, observed.weights, observed.within))
        self.y_mean_ = float(np.average(y, weights=weights))
        spread = float(np.sqrt((weights @ (y - self.y_mean_) ** 2 + within.sum()) / weights.sum()))
        self.y_scale_ = spread if spread > 0 else 1.0
        scaled = (y - self.y_mean_) / self.y_scale_, within / self.y_scale_**2
        return eqx.tree_at(lambda o: (o.y, o.within), observed, tuple(map(to_device, scaled)))

    def _process(self, few: Observed, dim: int) -> GaussianProcess:
        X, y, weights = (np.asarray(v)[: few.num_rows] for v in (few.X, few.y, few.weights))
        process = default_process(Rows(X[:, :dim], y, weights))
        return process if self.kernel is None else GaussianProcess(self.kernel, process.noise)

    def _width(self, num_rows: int, dim: int) -> int:
        return width_of(num_rows, dim) if self.kernel is None else dim

    def _model_and_rows(self, X) -> tuple[Any, np.ndarray]:
        """What predicts, and the checked rows, both as wide as the programs are."""
        rows = self._new_table(X).X
        dim, width = rows.shape[1], self._width(self.n_inducing, rows.shape[1])
        return resized(self.model_, dim, width), wide_rows(rows, width)

    def predict(self, X):
        """The predictive mean of each row."""
        model, rows = self._model_and_rows(X)
        if self.average_ is not None:
            found = self.average_.predict_dist(rows)
            return self.y_mean_ + self.y_scale_ * (np.asarray(found.loc) @ np.asarray(found.weights))
        return self.y_mean_ + self.y_scale_ * np.asarray(model.mean(rows))

    def predict_dist(self, X) -> Normal | NormalMixture:
        """A normal distribution of a new target at each row, or a mixture over hyperparameters."""
        model, rows = self._model_and_rows(X)
        if self.average_ is not None:
            return self.average_.predict_dist(rows).moved(self.y_mean_, self.y_scale_)
        found = model.predict_dist(rows)
        return Normal(self.y_mean_ + self.y_scale_ * found.loc, self.y_scale_ * found.scale)


def _even(observed: Observed, most: int) -> Observed:
    """Rows at even steps, at most so many, with what they were merged from."""
    if observed.num_rows <= most:
        return observed
    chosen = np.unique(np.linspace(0, observed.num_rows - 1, most).astype(int))
    return observed.take(chosen)


def _on_all_rows(process: Any, observed: Observed) -> SparseProcess:
    """The process with all rows as its inducing points, in the shape of the padded rows."""
    noise = max(float(process.noise.variance), _FLOOR)
    return SparseProcess(process.kernel, observed.X, noise, shown=observed.present)
