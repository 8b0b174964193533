r"""Rows as the searches see them: standardised columns, offsets, and no more coordinates than rows.

Columns.     $z = (x - c)/s$ with the mean and the deviation of the fitted rows, so that units do not
             matter; a leading one for the intercept.
Few rows.    With $n < d$ columns the likelihood sees $\beta$ only through $z_i^\top\beta$: $z = Vu$ with
             orthonormal $V$ of $n$ columns. Under a prior $N(0, \alpha^{-1}I)$ the coordinates $u$ have the
             same prior, what is orthogonal to all rows keeps it, and adds $\lVert z - VV^\top
             z\rVert^2/\alpha$ to the variance of a new row's predictor.
Cost.        $O(nd)$; $O(n^2d)$ with fewer rows than columns.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tractable.core.rows import Rows, points
from tractable.supervised.linear.products import over_rows
from tractable.supervised.logistic.newton import StandardRows
from tractable.supervised.logistic.sums import _is_plain, _standard

__all__ = ["Columns", "design_of", "predictor", "row_pass", "row_sum"]


class Columns(NamedTuple):
    """How columns become coordinates: centre, scale, and the turn $V$ where columns outnumber rows."""

    centre: np.ndarray
    scale: np.ndarray
    turn: np.ndarray | None
    intercept: bool

    def __call__(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of new rows, a leading one included, and what they have outside of all fitted rows."""
        z = (points(X, len(self.centre)) - self.centre) / self.scale
        rest = np.zeros(len(z))
        if self.turn is not None:
            u = z @ self.turn
            rest = np.maximum((z * z).sum(1) - (u * u).sum(1), 0.0)
            z = u
        return (np.column_stack([np.ones(len(z)), z]) if self.intercept else z), rest

    def back(self, beta: np.ndarray, cov: np.ndarray | None, alpha: Any) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the columns as they came, the intercept first, and their variances (without `cov`
        those of what the rows do not show)."""
        first = int(self.intercept)
        wide = np.eye(len(self.centre)) if self.turn is None else self.turn
        slopes = wide / self.scale[:, None]
        top = [np.r_[1.0, -self.centre @ slopes]] if first else []
        matrix = np.vstack([*top, np.column_stack([np.zeros((len(wide), first)), slopes])])
        variances = np.zeros(len(matrix)) if cov is None else ((matrix @ cov) * matrix).sum(1)
        if self.turn is not None:
            unseen = np.maximum(1 - (wide**2).sum(1), 0.0) / alpha / self.scale**2
            variances[first:] += unseen
            if first:
                c = self.centre / self.scale
                inside = c @ self.turn
                variances[0] += max(float(c @ c - inside @ inside), 0.0) / alpha
        return matrix @ beta, variances


def design_of(rows: Rows, intercept: bool) -> tuple[StandardRows, Columns]:
    """The rows of a search, and how new rows are seen."""
    seen = StandardRows.of(rows, intercept)
    n, d = rows.X.shape
    if d <= n:
        return seen, Columns(seen.centre, seen.scale, None, intercept)
    z = (seen.x - seen.centre) / seen.scale
    turn = np.linalg.qr(z.T)[0]
    plain = (np.zeros(n), np.ones(n), np.zeros(n, bool), intercept)
    turned = StandardRows(np.ascontiguousarray(z @ turn), seen.y, seen.weights, *plain)
    return turned, Columns(seen.centre, seen.scale, turn, intercept)


def predictor(rows: StandardRows, beta: np.ndarray) -> np.ndarray:
    r"""$z_i^\top\beta$ of every row; from the rows as they are where that keeps the digits."""
    if not _is_plain(rows.centre, 1 / rows.scale, rows.intercept):
        return rows.predictor(beta)
    slopes = beta[int(rows.intercept) :] / rows.scale
    return rows.x @ slopes + ((beta[0] if rows.intercept else 0.0) - rows.centre @ slopes)


def row_pass(
    rows: StandardRows, beta: np.ndarray, terms: Callable[[slice, np.ndarray], tuple]
) -> tuple[float, np.ndarray, np.ndarray]:
    r"""Loss, gradient and Hessian of $-\sum_iw_it_i(z_i^\top\beta)$ in one pass over blocks that stay in a
    cache.

    `terms(cut, eta)` gives value, slope and (negative, not below zero) curvature of the rows of a block.
    """
    args, weights, p = (rows.x, rows.centre, 1 / rows.scale, rows.size), rows.weights, rows.size

    def part(low: int, high: int) -> tuple[float, np.ndarray, np.ndarray]:
        loss, gradient, hessian = 0.0, np.zeros(p), np.zeros((p, p))
        with np.errstate(
            all="ignore"
        ):  # what is not finite is seen in the sums; threads have their own state
            for cut, z in _standard(*args, low, high):
                w = weights[cut]
                value, slope, curvature = terms(cut, z @ beta)
                loss, gradient = loss - float(w @ value), gradient - (w * slope) @ z
                z *= np.sqrt(w * curvature)[:, None]
                hessian += z.T @ z
        return loss, gradient, hessian

    parts = over_rows(part, len(rows.x))
    loss, gradient, hessian = (np.sum(each, axis=0) for each in zip(*parts))
    return float(loss), gradient, hessian


def row_sum(rows: StandardRows, function: Callable[[np.ndarray], Any]) -> float:
    r"""$\sum_iw_if(y_i)$."""

    def part(low: int, high: int) -> float:
        return float(np.sum(rows.weights[low:high] * function(rows.y[low:high])))

    return float(sum(over_rows(part, len(rows.x))))
