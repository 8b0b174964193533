r"""Logistic and softmax regression on many machines: Newton's method whose sums are made where the rows are.

Step.        Loss, gradient and Hessian of `supervised.logistic` add over rows: each partition gives its own,
             a tree joins them without loss, and the one Newton search of the library (`newton`) asks for
             them at each point. Rows are standardised by the moments of all of them, found in a first pass.
Separation.  Without a penalty, rows that are apart have no fit. The search sees that it runs away, and one
             more pass proves it along the direction in which it ran.
Cost.        One pass for the moments and about seven for the search; $O(p^2)$ numbers travel, for softmax
             $O(p^2K^2)$.
"""

from typing import Any

import numpy as np

from tractable.core import sums
from tractable.core.checks import check, check_count
from tractable.core.iterate import Status
from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.scale.one_pass import num_classes_of
from tractable.scale.rows import Foldable
from tractable.supervised.generative.columns import GaussianColumns
from tractable.supervised.logistic.binary import LogisticModel, assembled
from tractable.supervised.logistic.newton import StandardRows, newton
from tractable.supervised.logistic.separation import Margins, Separation, check_options, margins_along
from tractable.supervised.logistic.softmax import SoftmaxModel, softmax_model, softmax_sweep, zero_sum_basis

__all__ = ["logistic_regression", "softmax_regression"]


def logistic_regression(
    rows: Foldable,
    *,
    penalty: float | int = 0.0,
    intercept: bool = True,
    separated: str = "raise",
    names: Any = None,
    max_steps: int = 200,
    standardise: bool = False,
) -> LogisticModel:
    """`fit_logistic` over all partitions, for targets 0 and 1.

    With `standardise` the penalty is on coefficients of columns of unit standard deviation.
    """
    check_options(penalty, separated)
    unit = _Units.of(rows, intercept, 2)
    prior = unit.penalty(float(penalty), standardise)
    found = newton(
        lambda beta: _sweep(rows, unit, beta, None), np.zeros(prior.size), prior, unit.total,
        max_steps=max_steps,
    )  # fmt: skip
    settled = bool(penalty) or found.status is Status.converged
    apart = None if settled else _separation(rows, unit, found.direction, separated, names)
    return assembled(LogisticModel, unit.stub, found, penalty, apart)


def softmax_regression(
    rows: Foldable,
    *,
    num_classes: int | None = None,
    penalty: float | int = 0.0,
    intercept: bool = True,
    separated: str = "raise",
    names: Any = None,
    max_steps: int = 200,
    standardise: bool = False,
) -> SoftmaxModel:
    """`fit_softmax` over all partitions, for codes 0, 1, ... of classes; options as above."""
    check_options(penalty, separated)
    k = check_count("num_classes", num_classes_of(rows) if num_classes is None else num_classes, 2)
    unit, basis = _Units.of(rows, intercept, k), zero_sum_basis(k)
    absent = np.flatnonzero(np.asarray(unit.counts) == 0)
    fix = "Its intercept would be minus infinity: leave the class out."
    check(not absent.size or not intercept, "y", "with rows of every class", f"none of {absent[:1]}", fix)
    prior = np.repeat(unit.penalty(float(penalty), standardise), k - 1)
    found = newton(
        lambda beta: _sweep(rows, unit, beta, basis), np.zeros(prior.size), prior, unit.total,
        max_steps=max_steps,
    )  # fmt: skip
    settled = bool(penalty) or found.status is Status.converged
    direction = found.direction.reshape(unit.stub.size, -1) @ basis.T
    apart = None if settled else _separation(rows, unit, direction, separated, names)
    return softmax_model(unit.stub, found, basis, penalty, apart)


class _Summary(Module):
    """What a first pass tells: weight, mean, squares and ends of each column, and weights of classes."""

    moments: tuple
    low: np.ndarray
    high: np.ndarray
    counts: np.ndarray

    def __add__(self, other: "_Summary") -> "_Summary":
        both = GaussianColumns().add(self.moments, other.moments)
        ends = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return _Summary(both, *ends, self.counts + other.counts)


class _First(Module):
    """The first pass."""

    num_classes: int = field(static=True)

    def __call__(self, X: Any, y: Any, weights: Any) -> _Summary:
        table = _table(X, y, weights, self.num_classes)
        counts = np.bincount(np.asarray(table.y, int), table.weights, self.num_classes)
        moments = GaussianColumns().statistics(table.X, table.weights)
        return _Summary(moments, table.X.min(0), table.X.max(0), counts)


class _Units(Module):
    """By what every pass standardises the rows, and the weight of the rows of each class."""

    centre: np.ndarray
    scale: np.ndarray
    constant: np.ndarray
    counts: np.ndarray
    intercept: bool = field(static=True)

    @staticmethod
    def of(rows: Foldable, intercept: bool, num_classes: int) -> "_Units":
        seen = rows.fold(_First(num_classes))
        total, mean, squares = seen.moments
        flat = seen.low == seen.high
        centre = np.where(flat, seen.low, mean) if intercept else np.zeros_like(mean)
        spread = np.where(flat, 0.0, squares / total) + (mean - centre) ** 2
        scale = np.where(flat & intercept, 0.0, np.sqrt(spread))
        return _Units(centre, np.where(scale > 0, scale, 1.0), scale == 0, seen.counts, intercept)

    @property
    def total(self) -> float:
        return float(np.sum(self.counts))

    @property
    def stub(self) -> StandardRows:
        """The units as they are with no rows."""
        return self.standard(np.zeros((0, len(self.centre))), np.zeros(0), np.zeros(0))

    def penalty(self, strength: float, standardise: bool) -> np.ndarray:
        """The precision of standardised coefficients; the units are standard deviations already."""
        return self.stub._replace(scale=np.ones_like(self.scale)).penalty(strength) if standardise else (
            self.stub.penalty(strength)
        )  # fmt: skip

    def standard(self, x: Any, y: Any, weights: Any) -> StandardRows:
        centre, scale, constant = (np.asarray(part) for part in (self.centre, self.scale, self.constant))
        return StandardRows(x, y, weights, centre, scale, constant, self.intercept)

    def rows(self, X: Any, y: Any, weights: Any) -> StandardRows:
        table = _table(X, y, weights, len(self.counts))
        return self.standard(table.X, np.asarray(table.y, float), table.weights)


class _At(Module):
    """One point of the search, where each partition computes its part of the sums."""

    unit: _Units
    beta: np.ndarray
    basis: np.ndarray | None

    def __call__(self, X: Any, y: Any, weights: Any) -> sums.Sum:
        rows, beta = self.unit.rows(X, y, weights), np.asarray(self.beta)
        if self.basis is None:
            return sums.Sum.of(rows.logistic(beta))
        return sums.Sum.of(softmax_sweep(rows, rows.y.astype(int), np.asarray(self.basis))(beta))


class _Along(Module):
    """Margins along a direction that may separate the classes."""

    unit: _Units
    direction: np.ndarray

    def __call__(self, X: Any, y: Any, weights: Any) -> Margins:
        rows = self.unit.rows(X, y, weights)
        return Margins.of(margins_along(rows.design(), rows.y.astype(int), np.asarray(self.direction))[1])


def _sweep(rows: Foldable, unit: _Units, beta: np.ndarray, basis: np.ndarray | None) -> tuple:
    loss, gradient, hessian = rows.fold(_At(unit, beta, basis), _joined).value
    return float(loss), np.asarray(gradient), np.asarray(hessian)


def _separation(
    rows: Foldable, unit: _Units, direction: np.ndarray, separated: str, names: Any
) -> Separation | None:
    margins = rows.fold(_Along(unit, direction), Margins.joined)
    columns = direction if direction.ndim == 2 else np.column_stack([-direction, direction]) / 2
    apart = margins.separation(columns, unit.stub, names)
    if apart is not None and separated == "raise":
        apart.raise_if_separated()
    return apart


def _joined(first: sums.Sum, second: sums.Sum) -> sums.Sum:
    return sums.join([first, second])


def _table(X: Any, y: Any, weights: Any, num_classes: int) -> Rows:
    if num_classes == 2:
        return Rows.of(X, y, weights, target="binary")
    return Rows.of(X, y, weights, target="class", num_classes=num_classes)
