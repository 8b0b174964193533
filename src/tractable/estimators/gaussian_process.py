"""Gaussian processes as scikit-learn estimators; the mathematics is in `tractable.gp`."""

from numbers import Integral, Real
from typing import Any, ClassVar

import jax.random as jr
import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, to_device
from tractable.core.rows import Rows
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Normal
from tractable.distributions.mixture import Mixture
from tractable.distributions.normal_mixture import NormalMixture
from tractable.estimators.base import Regressor, key_from
from tractable.gp.columns import narrowed_fit, resized, wide_rows, width_of
from tractable.gp.hyperparameter_average import average_hyperparameters, wide_priors
from tractable.gp.hyperparameter_posterior import sample_hyperparameters
from tractable.gp.hyperparameters import default_process, fit_hyperparameters, free_process
from tractable.gp.noise import ConstantNoise, Noise, RowNoise
from tractable.gp.points import Observed, observe
from tractable.gp.regression import GaussianProcess
from tractable.kernels.base import Kernel

__all__ = ["GaussianProcessRegressor", "in_data_units"]

_FEW = 1024  # rows: below, threads of the linear algebra spend their time waiting for each other
_FLOOR = 1e-8  # of the variance of the targets: noise that is learnt stays above it


class GaussianProcessRegressor(Regressor):
    r"""$f \sim GP(0, k)$, $y = f(x) + \epsilon$, $\epsilon \sim N(0, \sigma^2)$, exact.

    `kernel=None` is a scaled RBF with a length scale per column. `noise` is the variance of the noise, of
    `normalise_y` targets (mean 0, variance 1) where those are asked for; None learns it, above 1e-8.
    `method="full"` averages over the hyperparameters (`average_`, of up to 1024 distinct rows; more of them
    determine their own), with `priors` of their logarithms, or log-normal ones about the scale of the data
    with a factor $e^{1.5}$ either way; `model_` is the process at their mode. `"evidence"` (with `restarts`)
    and `"map"` take a maximum for the truth, `"mcmc"` averages over chains, `"fixed"` takes kernel and noise
    as they are. Above 6000 distinct rows conjugate gradients take over, and `model_` says so.

    >>> X = np.linspace(0, 6, 12)[:, None]
    >>> model = GaussianProcessRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.57]])[0] - 1) < 1e-2)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "kernel": [None, Kernel],
        "noise": [None, Noise, "array-like", Interval(Real, 0, None, closed="left")],
        "normalise_y": ["boolean"],
        "method": [StrOptions({"full", "evidence", "map", "mcmc", "fixed"})],
        "priors": [None, dict],
        "restarts": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, kernel=None, *, noise=None, normalise_y=True, method="full", priors=None,
                 restarts=0, random_state=None):  # fmt: skip
        self.kernel = kernel
        self.noise = noise
        self.normalise_y = normalise_y
        self.method = method
        self.priors = priors
        self.restarts = restarts
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Hyperparameters, then the exact posterior of the function."""
        rows = self._training_rows(X, y, sample_weight, y_numeric=True)
        self.y_mean_, self.y_scale_ = _level(rows.y, rows.weights) if self.normalise_y else (0.0, 1.0)
        y = (rows.y - self.y_mean_) / self.y_scale_
        dim, width = rows.X.shape[1], self._width(*rows.X.shape)
        process = resized(self._process(Rows(rows.X, y, rows.weights)), dim, width)
        merge = not isinstance(process.noise, RowNoise)
        observed = observe(Rows(wide_rows(rows.X, width), y, rows.weights), merge=merge)
        with one_blas_thread(observed.num_rows <= _FEW):
            self._learn(process, observed)
        if width > dim:
            self._narrow(width, dim)
        if self.method != "mcmc":
            # of the targets as given: the density of scaled ones, times the Jacobian of the scaling
            scaling = rows.weights.sum() * np.log(self.y_scale_)
            self.log_evidence_ = float(self.model_.log_evidence) - scaling
        return self

    def _learn(self, process: GaussianProcess, observed: Observed) -> None:
        key, priors = key_from(self.random_state), self.priors
        if self.method == "mcmc":
            self.run_ = sample_hyperparameters(process, observed, key=key, priors=priors, progress=False)
            return
        if self.method != "fixed":
            check(self.method != "map" or bool(priors), "priors", "given for method='map'", priors)
            few = self.method == "full" and observed.num_rows <= _FEW
            few = few and not isinstance(process.noise, RowNoise)  # which new rows do not have
            used = wide_priors(process) | (priors or {}) if few else priors
            used = None if self.method == "evidence" else used
            self.run_ = fit_hyperparameters(
                process, observed, num_restarts=self.restarts, key=key, priors=used
            )
            process = self.run_.process
            self.average_ = average_hyperparameters(self.run_, observed, used) if few and used else None
        self.model_ = process.posterior(observed, key=jr.fold_in(key_from(self.random_state), 1))

    def _width(self, num_rows: int, dim: int) -> int:
        """Columns of the programs: more than there are, where the kernel cannot tell and nothing is drawn."""
        plain = (
            self.kernel is None
            and self.method in ("full", "evidence", "fixed")
            and not self.priors
            and self.restarts == 0
        )
        return width_of(num_rows, dim) if plain else dim

    def _narrow(self, width: int, dim: int) -> None:
        self.model_ = resized(self.model_, width, dim)
        if self.method != "fixed":
            found: Any = self.run_
            self.run_ = narrowed_fit(found, free_process(found.process)[1], width, dim)

    def _model_and_rows(self, X) -> tuple[Any, np.ndarray]:
        """What predicts, and the checked rows, both as wide as the programs are."""
        rows = self._new_table(X).X
        if self.method == "mcmc":
            return self.run_, rows
        model: Any = self.model_
        dim, width = rows.shape[1], self._width(model.observed.num_rows, rows.shape[1])
        return resized(model, dim, width), wide_rows(rows, width)

    @property
    def _averages(self) -> bool:
        """Whether predictions are averages over hyperparameters."""
        return self.method == "mcmc" or getattr(self, "average_", None) is not None

    def predict_dist(self, X) -> Distribution:
        """A new target at each row: Normal, or a mixture of normals where hyperparameters are averaged."""
        model, rows = self._model_and_rows(X)
        found: Any = (getattr(self, "average_", None) or model).predict_dist(rows)
        if isinstance(found, NormalMixture):
            return found.moved(self.y_mean_, self.y_scale_)
        if isinstance(found, Mixture):
            normal: Any = found.components
            loc, scale = (to_device(np.asarray(a).T) for a in (normal.loc, normal.scale))
            return NormalMixture(found.weights, loc, scale).moved(self.y_mean_, self.y_scale_)
        return self._rescaled(found)

    def predict(self, X, return_std: bool = False):
        """The predictive mean of each row, and the standard deviation of a new target if asked for."""
        if not self._averages and not return_std:
            model, rows = self._model_and_rows(X)
            return np.asarray(model.mean(rows)) * self.y_scale_ + self.y_mean_
        shown: Any = self.predict_dist(X)
        if isinstance(shown, NormalMixture) and not return_std:  # on the host: nothing is compiled
            return np.asarray(shown.loc) @ np.asarray(shown.weights)
        return (np.asarray(shown.mean), np.asarray(shown.std)) if return_std else np.asarray(shown.mean)

    @property
    def kernel_(self) -> Kernel:
        """The learnt kernel in the units of the targets as given; `model_` sees scaled ones."""
        if self.method == "mcmc":
            raise AttributeError("`kernel_` is one kernel; after MCMC there are many, in `run_.processes`.")
        return in_data_units(self.model_.process.kernel, self.y_scale_)

    def sample_y(self, X, n_samples: int = 1, random_state=None) -> np.ndarray:
        """Joint draws of the function at the rows, one column per draw; of targets, row by row, where
        hyperparameters are averaged."""
        if self._averages:
            return super().sample_y(X, n_samples, random_state)
        model, rows = self._model_and_rows(X)
        paths = model.sample(key_from(random_state), rows, (n_samples,))
        return np.asarray(paths).T * self.y_scale_ + self.y_mean_

    def _process(self, rows: Rows) -> GaussianProcess:
        scaled = default_process(rows)
        kernel = scaled.kernel if self.kernel is None else self.kernel
        learnt: Any = scaled.noise
        noise = ConstantNoise(learnt.variance, _FLOOR) if self.noise is None else self.noise
        return GaussianProcess(kernel, noise)

    def _rescaled(self, found: Any) -> Normal:
        return Normal(found.loc * self.y_scale_ + self.y_mean_, found.scale * self.y_scale_)


def in_data_units(kernel: Any, scale: float) -> Kernel:
    """The kernel of `scale` times a process."""
    return kernel if scale == 1 else scale**2 * kernel


def _level(y: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The weighted mean and standard deviation of the targets; constant ones keep their size."""
    centre = float(np.average(y, weights=weights))
    spread = float(np.sqrt(np.average((y - centre) ** 2, weights=weights)))
    level = abs(centre) if centre != 0 else 1.0
    return centre, spread if spread > 1e-14 * level else level
