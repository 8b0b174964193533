"""Hidden Markov models as scikit-learn estimators: validation, wiring, fitted attributes; the mathematics is
in `statespace.hmm`."""

import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import jax.random as jr
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tractable.core.checks import check
from tractable.core.verdict import Verdict
from tractable.estimators.base import Clusterer, key_from
from tractable.inference.expectation_maximisation.em import EM, best_of
from tractable.statespace.hmm.learning import start_gaussian, start_symbols
from tractable.statespace.hmm.model import HiddenMarkov
from tractable.statespace.hmm.sequences import Sequences, as_sequences

__all__ = ["CategoricalHMM", "GaussianHMM"]

_SHAPES = {"full": "full", "tied": "tied", "diag": "diagonal", "spherical": "spherical"}
_POSITIVE = [Interval(Integral, 1, None, closed="left")]
_NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]


class _HiddenMarkov(Clusterer):
    """What both answer about sequences: paths, probabilities, likelihoods and draws, from `model_`.

    Sequences are rows one after the other with their `lengths` (without, one sequence), a list of arrays, or
    an array with one axis more, alone or in a pair with a mask of the rows that were observed.
    """

    _row_ndim: ClassVar[int] = 1
    model_: HiddenMarkov
    verdict_: Verdict
    n_init: int
    n_iter: int
    tol: float
    random_state: Any

    def fit(self, X, y=None, lengths=None):
        """Fit by Baum-Welch from `n_init` starts; in the place of targets there may be `lengths`."""
        sequences = self._held(X, _lengths(X, y, lengths), reset=True)
        keys = jr.split(key_from(self.random_state), self.n_init)
        starts = [self._start(key, sequences) for key in keys]
        run = best_of(starts, sequences, EM(float(self.tol), self.n_iter), progress=False)
        self.model_ = run.state
        self.startprob_, self.transmat_ = np.asarray(run.state.initial), np.asarray(run.state.transition)
        self.converged_, self.n_iter_ = run.status.ok, int(run.num_steps)
        self.lower_bounds_ = np.asarray(run.values)
        self.verdict_ = _verdict(run)
        self.labels_ = self._path(sequences)[0]
        self._fitted(run.state)
        if not self.converged_:
            warnings.warn(self.verdict_.sentence, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X, lengths=None) -> np.ndarray:
        """The most probable path of states through each sequence (Viterbi), one state per row."""
        return self.decode(X, lengths)[1]

    def decode(self, X, lengths=None) -> tuple[float, np.ndarray]:
        """The log-probability of the most probable paths with the rows, and the paths."""
        path, values = self._path(self._asked(X, lengths))
        return float(np.sum(values)), path

    def predict_proba(self, X, lengths=None) -> np.ndarray:
        """The probability of each state at each row, given its whole sequence."""
        sequences = self._asked(X, lengths)
        found = self.model_.smooth(sequences).marginals
        return np.concatenate(found) if isinstance(found, list) else found

    def score(self, X, y=None, lengths=None) -> float:
        """The log-likelihood of all sequences."""
        sequences = self._asked(X, _lengths(X, y, lengths))
        return float(np.sum(self.model_.log_likelihood(sequences)))

    def sample(self, n_samples: int = 1, random_state=None) -> tuple[np.ndarray, np.ndarray]:
        """One drawn sequence and its states."""
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        states, rows = self.model_.sample(key_from(seed), n_samples)
        return rows.reshape(n_samples, -1), states

    def _path(self, sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
        paths, values = self.model_.viterbi(sequences)
        return (np.concatenate(paths) if isinstance(paths, list) else paths), np.asarray(values)

    def _asked(self, X, lengths) -> Sequences:
        check_is_fitted(self)
        return self._held(X, lengths, reset=False)

    def _held(self, X: Any, lengths: Any, *, reset: bool) -> Sequences:
        if lengths is None and (isinstance(X, tuple) or _is_several(X)):
            held = as_sequences(X if isinstance(X, tuple) else _as_list(X), 1)
            X, lengths = held.rows, held.lengths
        table = self._features(X, reset=reset, ensure_min_samples=2 if reset else 1)
        return as_sequences(table.X if lengths is None else (table.X, np.asarray(lengths)), 1)

    @abstractmethod
    def _start(self, key: Any, sequences: Sequences) -> HiddenMarkov:
        """A model to begin with."""

    @abstractmethod
    def _fitted(self, model: Any) -> None:
        """Set the attributes that hmmlearn's users know."""


class GaussianHMM(_HiddenMarkov):
    """A hidden Markov model with Gaussian rows, by Baum-Welch; missing entries (NaN) are integrated out.

    Parameters
    ----------
    n_components : int
        How many states.
    covariance_type : str
        "full", "tied", "diag" or "spherical".
    n_iter, tol : int, float
        Baum-Welch ends when the log-likelihood changes by less than `tol` relative to its size, or after
        `n_iter` steps.
    n_init : int
        Starts; the best fit is kept.
    floor : float
        No variance falls below this part of its column's.
    """

    _accepts_missing: ClassVar[bool] = True
    _order = "a row's state depends on the rows before and after it"
    expected_failed_checks: ClassVar[dict[str, str]] = {
        "check_methods_subset_invariance": _order,
        "check_methods_sample_order_invariance": _order,
    }
    _parameter_constraints: ClassVar[dict] = {
        "n_components": _POSITIVE, "covariance_type": [StrOptions(set(_SHAPES))], "n_iter": _POSITIVE,
        "tol": _NOT_NEGATIVE, "n_init": _POSITIVE, "floor": _NOT_NEGATIVE, "random_state": ["random_state"],
    }  # fmt: skip

    def __init__(self, n_components=2, *, covariance_type="diag", n_iter=100, tol=1e-6, n_init=1, floor=1e-6,
                 random_state=None):  # fmt: skip
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.floor = floor
        self.random_state = random_state

    def _start(self, key, sequences):
        shape = _SHAPES[self.covariance_type]
        return start_gaussian(key, sequences, self.n_components, shape, floor=self.floor)

    def _fitted(self, model: Any) -> None:
        self.means_ = np.asarray(model.emissions.means)
        self.covars_ = np.asarray(model.emissions.covariances)


class CategoricalHMM(_HiddenMarkov):
    """A hidden Markov model with symbols 0, 1, ... in one column, by Baum-Welch; missing symbols are NaN.

    Parameters
    ----------
    n_components : int
        How many states.
    n_features : int or None
        How many symbols; by default, those up to the largest seen.
    n_iter, tol, n_init : int, float, int
        As of `GaussianHMM`.
    """

    _accepts_missing: ClassVar[bool] = True
    _tabular: ClassVar[bool] = False  # one column of symbols is no table of numbers
    _parameter_constraints: ClassVar[dict] = {
        "n_components": _POSITIVE, "n_features": [*_POSITIVE, None], "n_iter": _POSITIVE,
        "tol": _NOT_NEGATIVE, "n_init": _POSITIVE, "random_state": ["random_state"],
    }  # fmt: skip

    def __init__(self, n_components=2, *, n_features=None, n_iter=100, tol=1e-6, n_init=1, random_state=None):
        self.n_components = n_components
        self.n_features = n_features
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state

    def _held(self, X, lengths, *, reset):
        if lengths is None and isinstance(X, list) and len(X) and np.ndim(X[0]) == 1:
            X = [np.asarray(part)[:, None] for part in X]
        elif not isinstance(X, list | tuple) and np.ndim(X) == 1:
            X = np.asarray(X)[:, None]
        held = super()._held(X, lengths, reset=reset)
        columns = held.rows.shape[1]
        check(columns == 1, "X", "one column of symbols", f"{columns} columns")
        return Sequences(held.rows[:, 0], held.starts, held.weights)

    def _start(self, key, sequences):
        return start_symbols(key, sequences, self.n_components, self.n_features)

    def _fitted(self, model: Any) -> None:
        self.emissionprob_ = np.asarray(model.emissions.table)


def _lengths(X: Any, y: Any, lengths: Any) -> Any:
    """The lengths, also where they came in the place of targets: not one per row."""
    if lengths is not None or y is None or isinstance(X, tuple) or _is_several(X):
        return lengths
    return y if np.ndim(y) == 1 and len(y) != len(X) else None


def _is_several(X: Any) -> bool:
    if isinstance(X, list):
        return len(X) > 0 and np.ndim(X[0]) == 2
    return np.ndim(X) == 3


def _as_list(X: Any) -> list:
    return [np.asarray(part, float) for part in X]


def _verdict(run: Any) -> Verdict:
    steps = int(run.num_steps)
    words = f"Converged after {steps} steps." if run.status.ok else (
        f"Not converged after {steps} steps: raise `n_iter`, or `tol`."
    )  # fmt: skip
    return Verdict(run.status.ok, words, {"num_steps": steps, "log_likelihood": float(run.values[-1])})
