r"""Models whose statistics take one pass, wherever the rows are: naive Bayes, Gaussian classes, linear ones.

Rule.        What rows say to such a model adds: $s(A \cup B) = s(A) + s(B)$, and the model is a function of
             $s$ alone. So each partition gives its $s$, a tree adds them, and the model is made once. Blocks
             about their own means add as Chan, Golub and LeVeque do, factors of rows by orthogonal steps:
             no digits are lost to means far from zero.
Least squares. With $n$, the means and $F^\top F = \sum_i w_i(z_i - \bar z)(z_i - \bar z)^\top$ of
             $z = (x, y)$, the rows of $F$ are a regression with the coefficients of all rows;
             $b = \bar y - \bar x^\top\theta$ and
             $\mathrm{Cov}(b, \theta)$ follow from $G = (F_x^\top F_x + \lambda I)^{-1}$.
Cost.        One pass; statistics of $O(d^2)$ numbers ($O(Cd^2)$ for classes) travel.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.moments import Moments, moments_of
from tractable.core.rows import Rows
from tractable.scale.rows import Foldable
from tractable.supervised.bayes_linear.posterior import bayesian_linear_from
from tractable.supervised.bayes_linear.statistics import RegressionStatistics, regression_statistics
from tractable.supervised.generative.discriminant import GaussianDiscriminant, discriminant_from
from tractable.supervised.generative.moments import ClassScatters, class_scatters
from tractable.supervised.generative.naive_bayes import NaiveBayes, fit_naive_bayes
from tractable.supervised.linear.least_squares import LinearModel, fitted_model
from tractable.supervised.linear.solvers import LeastSquares, least_squares

__all__ = ["bayesian_linear", "discriminant", "linear_regression", "moments", "naive_bayes", "num_classes_of"]


def naive_bayes(rows: Foldable, *, num_classes: int | None = None, **options: Any) -> NaiveBayes:
    """`fit_naive_bayes` over all partitions."""
    classes = num_classes_of(rows) if num_classes is None else num_classes
    return rows.fold(functools.partial(_naive_bayes, options | {"num_classes": classes}))


def discriminant(rows: Foldable, *, num_classes: int | None = None, **options: Any) -> GaussianDiscriminant:
    """`fit_gaussian_discriminant` over all partitions; rows must be complete."""
    classes = num_classes_of(rows) if num_classes is None else check_count("num_classes", num_classes)
    return discriminant_from(rows.fold(functools.partial(_scatters, classes)), **options)


def linear_regression(
    rows: Foldable, penalty: float | int = 0.0, *, intercept: bool = True, standardise: bool = False
) -> LinearModel:
    r"""`ordinary_least_squares`, or with a `penalty` $\lambda$ `ridge`, over all partitions; one target.

    With `standardise` the penalty is on coefficients of columns of unit standard deviation.
    """
    check(penalty >= 0, "penalty", "zero or positive", penalty)
    statistics = rows.fold(_regression)
    units = statistics.scale(intercept) if standardise else np.ones(statistics.dim)
    return _linear_from(statistics, float(penalty), units, intercept)


def bayesian_linear(rows: Foldable, *arguments: Any, basis: Any = None, **options: Any) -> Any:
    """`supervised.bayesian_linear` over all partitions."""
    statistics = rows.fold(functools.partial(_regression, basis=basis))
    return bayesian_linear_from(statistics, *arguments, basis=basis, **options)


def moments(rows: Foldable) -> Moments:
    """Weight, mean and scatter of all rows: what principal components need."""
    return rows.fold(_moments)


def num_classes_of(rows: Foldable) -> int:
    """One more than the largest code of a class, in a pass over the targets."""
    return int(rows.fold(_largest, max)) + 1


def _naive_bayes(options: dict, X: Any, y: Any, weights: Any) -> NaiveBayes:
    return fit_naive_bayes(X, y, weights=weights, **options)


def _scatters(num_classes: int, X: Any, y: Any, weights: Any) -> ClassScatters:
    table = Rows.of(X, y, weights, target="class", num_classes=num_classes)
    return class_scatters(table.X, table.y, table.weights, num_classes)


def _regression(X: Any, y: Any, weights: Any, basis: Any = None) -> RegressionStatistics:
    return regression_statistics(X, y, weights, basis=basis)


def _moments(X: Any, weights: Any) -> Moments:
    table = Rows.of(X, None, weights)
    return moments_of(table.X, table.weights if table.is_weighted else None)


def _largest(X: Any, y: Any, weights: Any) -> int:
    codes = np.asarray(y)
    whole = codes.ndim == 1 and codes.dtype.kind in "iufb" and bool((codes >= 0).all())
    check(whole and bool((codes == np.floor(codes)).all()), "y", "codes of classes 0, 1, ...", codes.dtype)
    return int(codes.max())


def _linear_from(
    statistics: RegressionStatistics, penalty: float, units: np.ndarray, intercept: bool
) -> LinearModel:
    triangle, ridge = statistics.triangle(intercept), penalty * units**2
    found = least_squares(triangle[:, :-1], triangle[:, -1], penalty=ridge)
    count, inverse = float(statistics.count), np.asarray(found.inverse)
    used = float(found.rank) - float(ridge @ np.diag(inverse)) + intercept
    if intercept:
        found = _with_intercept(found, np.asarray(statistics.mean), count)
    title = f"Ridge, penalty {penalty:.4g}" if penalty else "Least squares"
    return fitted_model(found, count, used, None, intercept, title)


def _with_intercept(found: LeastSquares, mean: np.ndarray, count: float) -> LeastSquares:
    slopes, inverse, centre = np.asarray(found.coefficients), np.asarray(found.inverse), mean[:-1]
    side = inverse @ centre
    corner = 1 / count + centre @ side
    whole = np.block([[np.full((1, 1), corner), -side[None]], [-side[:, None], inverse]])
    coefficients = np.concatenate([[mean[-1] - centre @ slopes], slopes])
    numbers = {"coefficients": coefficients, "inverse": whole, "rank": np.asarray(found.rank) + 1}
    return replace(found, **{name: jnp.asarray(value) for name, value in numbers.items()})


RECIPES: dict[str, Callable[..., Any]] = {
    "fit_naive_bayes": naive_bayes,
    "fit_gaussian_discriminant": discriminant,
    "ordinary_least_squares": linear_regression,
    "ridge": linear_regression,
    "bayesian_linear": bayesian_linear,
    "moments_of": moments,
}
