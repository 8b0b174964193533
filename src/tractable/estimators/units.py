r"""Units of columns and targets, so that penalties and kernels speak of data of size one.

Columns.     $z_j = (x_j - c_j)/s_j$ with the weighted mean $c$ and standard deviation $s$ of the fitted rows;
             without a centre, $s$ is the root mean square. A constant column keeps its size.
Common.      Columns of one unit (pixels, words of a text, the same quantity at several times) may keep it:
             all are divided by $\sqrt{\overline{s^2}}$, so that a column next to constant stays one.
Tails.       For distances a column that is next to constant must not be blown up by its few other values:
             $s_j(\kappa_j/3)^{1/4}$ with the kurtosis $\kappa$, a size by fourth moments that is $s_j$ for a
             normal column, and the same in any units as $s$ is.
Targets.     $(y - c)/s$ in the same way.
Back.        A linear model of $x/s$ with a free intercept is one of $x$ with coefficients divided by $s$.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
from sklearn.utils._param_validation import StrOptions

from tractable.core.checks import to_device
from tractable.core.module import Module
from tractable.core.rows import Rows, level_and_size
from tractable.supervised.linear.lasso import LassoModel
from tractable.supervised.linear.least_squares import LinearModel

__all__ = ["STANDARDISE", "Units", "unscaled"]

_BLOCK = 1 << 11  # rows whose intermediate values stay in the cache
STANDARDISE: dict[str, list] = {"standardise": ["boolean", StrOptions({"common"})]}


class Units(Module):
    """The centre and the size of each column, and of the target where it is a number."""

    centre: np.ndarray
    size: np.ndarray
    target_centre: float = 0.0
    target_size: float = 1.0

    @classmethod
    def of(
        cls, rows: Rows, *, standardise: bool | str = True, centre: bool = True, target: bool = False,
        tails: bool = False,
    ) -> "Units":  # fmt: skip
        """Those of the rows; with `standardise="common"` one size for all columns; with False, ones that
        change nothing."""
        count = rows.X.shape[1]
        if not standardise:
            return cls(np.zeros(count), np.ones(count))
        found = level_and_size(rows.X, rows.weights, centre)
        if standardise == "common":
            found = found[0], _common_size(rows, *found)
        elif tails:
            found = found[0], found[1] * _tail_factor(rows, *found)
        if not target:
            return cls(*found)
        level, size = level_and_size(rows.y[:, None], rows.weights, centre)
        return cls(*found, float(level[0]), float(size[0]))

    def __call__(self, rows: Rows) -> Rows:
        """The rows in these units, and their targets where those have any."""
        X = rows.X - self.centre
        X /= self.size
        if rows.y is None or (self.target_centre, self.target_size) == (0.0, 1.0):
            return replace(rows, X=X)
        return replace(rows, X=X, y=(rows.y - self.target_centre) / self.target_size)

    def back(self, y: Any) -> Any:
        """Targets in the units of the data."""
        return y * self.target_size + self.target_centre


def _tail_factor(rows: Rows, level: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The fourth root of the kurtosis over that of a normal column; one for a column that does not vary."""
    total, fourth = rows.weights.sum(), np.zeros(len(size))
    for low in range(0, rows.num_rows, _BLOCK):
        z = (rows.X[low : low + _BLOCK] - level) / size
        z *= z
        z *= z
        fourth += rows.weights[low : low + _BLOCK] @ z
    return np.where(fourth > 0, (fourth / (3 * total)) ** 0.25, 1.0)


def _common_size(rows: Rows, level: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The root mean square of the sizes of all columns; those that do not vary have none."""
    flat = (np.ptp(rows.X, axis=0) == 0) if level.any() else ~rows.X.any(0)
    mean = np.sqrt(np.mean(np.where(flat, 0.0, size) ** 2))
    return np.full(len(size), mean if mean > 0 else 1.0)


def unscaled(model: Any, size: np.ndarray, target_size: float = 1.0) -> Any:
    """A linear model of columns divided by `size` and a target by `target_size`, as one of the data."""
    if isinstance(model, LinearModel):
        found, factor = model.solution, _factor(len(model.solution.coefficients), size)
        coefficients = (factor * np.asarray(found.coefficients).T).T
        arrays = coefficients, _turned(found.inverse, size)
        return _with(model, lambda m: (m.solution.coefficients, m.solution.inverse), arrays)
    coefficients = np.asarray(model.coefficients) * (target_size / size)
    if isinstance(model, LassoModel):
        numbers = (np.asarray(model.intercept) * target_size, np.asarray(model.scale) * target_size)
        squares = (np.asarray(v) * target_size**2 for v in (model.value, model.gap, model.total))
        arrays = coefficients, _turned(model.inverse, size), *numbers, *squares
        return _with(
            model,
            lambda m: (m.coefficients, m.inverse, m.intercept, m.scale, m.value, m.gap, m.total),
            arrays,
        )
    if not hasattr(model, "covariance"):
        return _with(model, lambda m: (m.coefficients,), (coefficients,))
    arrays = coefficients, _turned(model.covariance, size)
    return _with(model, lambda m: (m.coefficients, m.covariance), arrays)


def _factor(length: int, size: np.ndarray) -> np.ndarray:
    """One for an intercept, which comes first, and one over the size of each column."""
    return np.concatenate([np.ones(length - len(size)), 1 / size])


def _turned(matrix: Any, size: np.ndarray) -> np.ndarray:
    factor = _factor(len(matrix), size)
    return np.asarray(matrix) * np.outer(factor, factor)


def _with(model: Any, where: Any, arrays: Any) -> Any:
    return eqx.tree_at(where, model, tuple(to_device(np.asarray(a)) for a in arrays))
