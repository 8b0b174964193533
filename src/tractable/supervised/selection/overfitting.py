r"""Overfitting, measured: flexible learners follow the rows that they see, and pay on those that they do not.

Degrees.     Least-squares polynomials of growing degree: the training error never rises, the test error
             turns. The log evidence of the Bayesian fit turns too, and needs no test rows.
Flexibility. One nearest neighbour repeats every training row, noise included; a straight line cannot.
             Both for numbers (a noisy line) and for classes (height and weight by sex, a "winding" border
             or a straight one).
Cost.        One fit per degree or learner.
References.  Bishop (2006) sections 1.1 and 3.4; Cover and Hart (1967): at most twice the least possible
             error.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.random as jr
import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module
from tractable.core.types import ArrayLike, Key
from tractable.supervised.basis import Polynomial
from tractable.supervised.bayes_linear.evidence import maximise_evidence
from tractable.supervised.bayes_linear.statistics import regression_statistics
from tractable.supervised.generative.discriminant import fit_gaussian_discriminant
from tractable.supervised.linear.least_squares import ordinary_least_squares
from tractable.supervised.neighbours.search import NearestNeighbours
from tractable.supervised.selection.validation import Curve, Learner, cross_validate, validation_curve

__all__ = [
    "DegreeSweep", "FlexibilityStudy", "compare_learners", "degree_sweep", "heights_and_weights",
    "line_learner", "linear_classifier", "nearest_neighbour_classifier", "nearest_neighbour_learner",
    "polynomial_learner",
]  # fmt: skip


class DegreeSweep(Module):
    """Errors by degree on fitted rows and on rows left out, and the log evidence of each degree."""

    _shown = ("best", "best_by_evidence", "curve")

    curve: Curve
    log_evidence: np.ndarray

    @property
    def best(self) -> int:
        """The degree of least error on rows left out."""
        return int(self.curve.best)

    @property
    def best_by_evidence(self) -> int:
        """The degree of highest evidence given the fitted rows alone."""
        return int(self.curve.values[self.log_evidence.argmax()])


class FlexibilityStudy(Module):
    """The mean loss of each learner on the rows that it saw and on new ones."""

    names: tuple[str, ...]
    train: np.ndarray
    test: np.ndarray

    @property
    def gaps(self) -> np.ndarray:
        """How much worse each learner is on new rows."""
        return self.test - self.train


def degree_sweep(
    X: ArrayLike, y: ArrayLike, X_new: ArrayLike, y_new: ArrayLike, degrees: Sequence[int] = tuple(range(10))
) -> DegreeSweep:
    """Polynomials of each degree in one variable, fitted to the first rows and tried on the new ones."""
    x, new = (np.asarray(rows, float).reshape(len(np.asarray(rows)), -1) for rows in (X, X_new))
    check(x.shape[1] == 1, "X", "one variable", f"{x.shape[1]} columns")
    split = np.arange(len(x)), len(x) + np.arange(len(new))
    targets = np.concatenate([np.asarray(y, float), np.asarray(y_new, float)])
    everything = np.concatenate([x, new])
    curve = validation_curve(
        polynomial_learner, list(degrees), everything, targets, [split], loss=_squared, name="degree"
    )
    return DegreeSweep(curve, np.array([_evidence(degree, x, targets[: len(x)]) for degree in degrees]))


def compare_learners(
    learners: Mapping[str, Learner], X: ArrayLike, y: ArrayLike, X_new: ArrayLike, y_new: ArrayLike
) -> FlexibilityStudy:
    """Fit each learner to the first rows, try it on the new ones: squared loss for numbers, 0-1 for classes.

    >>> x, new = np.arange(4.0)[:, None], np.arange(4.0)[:, None] + 0.4
    >>> learners = {"line": line_learner, "neighbour": nearest_neighbour_learner}
    >>> compare_learners(learners, x, x[:, 0] + 0.5, new, new[:, 0] + 0.5).test.round(6).tolist()
    [0.0, 0.16]
    """
    rows, new = np.asarray(X, float), np.asarray(X_new, float)
    targets = np.concatenate([np.asarray(y), np.asarray(y_new)])
    everything = np.concatenate([rows, new])
    split = np.arange(len(rows)), len(rows) + np.arange(len(new))
    results = [cross_validate(fit, everything, targets, [split]) for fit in learners.values()]
    train, test = (
        np.array([getattr(r, part)[0] for r in results]) for part in ("train_losses", "test_losses")
    )
    return FlexibilityStudy(tuple(learners), train, test)


def polynomial_learner(degree: int) -> Learner:
    """Least squares on the powers up to `degree`; of several best fits the one of least norm."""
    return lambda X, y: ordinary_least_squares(X, y, basis=Polynomial(int(degree))).predict


def line_learner(X: Any, y: Any) -> Any:
    """A straight line by least squares."""
    return ordinary_least_squares(X, y).predict


def nearest_neighbour_learner(X: Any, y: Any) -> Any:
    """The target of the one nearest row."""
    return NearestNeighbours.fit(X, y, 1).regression


def linear_classifier(X: Any, y: Any) -> Any:
    """A straight border between classes 0, 1, ...: Gaussians that share their covariance."""
    return fit_gaussian_discriminant(X, y, tied=True).predict


def nearest_neighbour_classifier(X: Any, y: Any) -> Any:
    """The class of the one nearest row: a border that winds around every training row."""
    model = NearestNeighbours.fit(X, y, 1)
    return lambda new: model.shares(new).argmax(1)


def heights_and_weights(key: Key, num_rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Heights (cm) and weights (kg) of simulated adults, and their sex (0 female, 1 male), which overlap."""
    key_sex, key_height, key_weight = jr.split(key, 3)
    sex = np.asarray(jr.bernoulli(key_sex, 0.5, (num_rows,))).astype(int)
    height = np.where(sex == 1, 177.0, 164.0) + 7.0 * np.asarray(jr.normal(key_height, (num_rows,)))
    weight = np.where(sex == 1, 79.0, 66.0) + 0.8 * (height - np.where(sex == 1, 177.0, 164.0))
    return np.column_stack([height, weight + 9.0 * np.asarray(jr.normal(key_weight, (num_rows,)))]), sex


def _squared(targets: Any, predictions: Any) -> np.ndarray:
    return (np.asarray(targets, float) - np.asarray(predictions, float)) ** 2


def _evidence(degree: int, x: np.ndarray, y: np.ndarray) -> float:
    """The evidence of the Bayesian polynomial; of the constant, that of its rows about any level."""
    if degree == 0:
        return float(
            maximise_evidence(regression_statistics(np.zeros_like(x), y), intercept=True).log_evidence
        )
    basis = Polynomial(int(degree), bias=False)
    statistics = regression_statistics(x, y, basis=basis)
    return float(maximise_evidence(statistics, intercept=True, standardise=True).log_evidence)
