"""A linear-Gaussian state-space model as a scikit-learn estimator: validation, wiring, fitted attributes; the
mathematics is in `statespace.kalman`."""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.core.verdict import Verdict
from tractable.estimators.base import Estimator, key_from
from tractable.inference.expectation_maximisation.em import EM
from tractable.statespace.kalman.results import Forecast
from tractable.statespace.kalman.system import LinearGaussianSystem

__all__ = ["LinearGaussianStateSpace"]

_COUNT = [Interval(Integral, 1, None, closed="left")]


class LinearGaussianStateSpace(Estimator):
    """Series of rows that follow a hidden linear system with Gaussian noises, fitted by EM; NaN is a gap.

    `X` is one series of rows, rows of several one after the other with their `lengths`, or a list of series.

    Parameters
    ----------
    n_components : int
        How many entries the hidden state has.
    n_iter, tol : int, float
        EM ends when the log-likelihood changes by less than `tol` relative to its size, or after `n_iter`
        steps.

    >>> wave = np.sin(np.arange(80) / 4.0)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(80, 1))
    >>> model = LinearGaussianStateSpace(2, tol=0.01, random_state=0).fit(wave)
    >>> model.forecast(wave, 5).mean.shape
    (5, 1)
    """

    _accepts_missing: ClassVar[bool] = True
    _order = "a prediction depends on the rows before it"
    expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_methods_subset_invariance": _order,
        "check_methods_sample_order_invariance": _order,
    }
    _parameter_constraints: ClassVar[dict] = {
        "n_components": _COUNT,
        "n_iter": _COUNT,
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }
    model_: LinearGaussianSystem
    verdict_: Verdict

    def __init__(self, n_components=2, *, n_iter=100, tol=1e-6, random_state=None):
        self.n_components = n_components
        self.n_iter = n_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X, y=None, lengths=None):
        """Fit by EM; the level of the columns is taken from their means."""
        series = self._series(X, lengths, reset=True)
        table = np.concatenate(series)
        level = _levels(table)
        # about the means: second moments of columns far from zero would lose the digits of what varies
        start = _start(table - level, int(self.n_components), key_from(self.random_state))
        run = EM(float(self.tol), int(self.n_iter)).fit(
            start, start.rows([one - level for one in series]), progress=False
        )
        self.model_ = eqx.tree_at(lambda system: system.observation_offset, run.state, jnp.asarray(level))
        self.converged_, self.n_iter_ = run.status.ok, int(run.num_steps)
        self.lower_bounds_ = np.asarray(run.values)
        sentence = run.status.sentence
        self.verdict_ = Verdict(run.status.ok, sentence, {"log_likelihood": float(self.lower_bounds_[-1])})
        if not self.converged_:
            warnings.warn(sentence, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X, lengths=None) -> np.ndarray:
        """The mean of each row given those before it in its series."""
        found = [self.model_.filter(one).predicted_mean for one in self._asked(X, lengths)]
        C, c = np.asarray(self.model_.observation), np.asarray(self.model_.observation_offset)
        return np.concatenate(found) @ C.T + c

    def forecast(self, X, steps: int = 1) -> Forecast:
        """The `steps` rows after the last one of a series, or of each in a list of them."""
        series = self._asked(X, None)
        return self.model_.forecast(series if _is_several(X) else series[0], steps)

    def smooth(self, X) -> np.ndarray:
        """The mean of the state at each row given all rows of its series."""
        return np.concatenate([self.model_.smooth(one).mean for one in self._asked(X, None)])

    def score(self, X, y=None, lengths=None) -> float:
        """The log-likelihood of all series."""
        return float(sum(self.model_.log_likelihood(one) for one in self._asked(X, lengths)))

    def _asked(self, X: Any, lengths: Any) -> list[np.ndarray]:
        check_is_fitted(self)
        return self._series(X, lengths, reset=False)

    def _series(self, X: Any, lengths: Any, *, reset: bool) -> list[np.ndarray]:
        if lengths is None and _is_several(X):
            parts = [np.asarray(one, float) for one in X]
            X, lengths = np.concatenate(parts), [len(one) for one in parts]
        table = np.asarray(self._features(X, reset=reset, ensure_min_samples=2 if reset else 1).X)
        if lengths is None:
            return [table]
        sizes = np.asarray(lengths, int)
        fits = (sizes > 0).all() and sizes.sum() == len(table)
        check(bool(fits), "lengths", f"positive numbers that add up to {len(table)}", sizes.tolist())
        return np.split(table, np.cumsum(sizes)[:-1])


def _is_several(X: Any) -> bool:
    return np.ndim(X[0]) == 2 if isinstance(X, list | tuple) and len(X) else getattr(X, "ndim", 2) == 3


def _levels(table: np.ndarray) -> np.ndarray:
    """The means of the columns, of which each must vary."""
    for j, column in enumerate(table.T):
        seen = column[~np.isnan(column)]
        check(
            len(seen) > 0 and np.ptp(seen) > 0,
            "X",
            "columns that vary",
            f"column {j} that does not",
            "Drop it.",
        )
    return np.nanmean(table, 0)


def _start(table: np.ndarray, size: int, key: Any) -> LinearGaussianSystem:
    """Slow states along the directions of largest variance, and half of each column's variance as noise."""
    variance = np.nanvar(table, 0)
    scaled = np.where(np.isnan(table), 0.0, table / np.sqrt(variance))
    vectors = np.linalg.svd(scaled, full_matrices=False)[2][:size]
    rest = 0.3 * generator(key).standard_normal((max(size - len(vectors), 0), len(variance)))
    look = np.concatenate([vectors, rest]).T * np.sqrt(variance)[:, None]
    rates = np.linspace(0.9, 0.5, size)
    move = np.diag(rates) + 0.1 * np.eye(size, k=1) - 0.1 * np.eye(size, k=-1)
    return LinearGaussianSystem(
        move, np.diag(1 - rates**2), look, np.diag(variance) / 2, np.zeros(size), np.eye(size),
        observation_offset=np.zeros(len(variance)),
    )  # fmt: skip
