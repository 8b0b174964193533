r"""Can a plane separate two classes, how wide is the gap, and what that promises the perceptron.

Definition.  Separable: $y_n(u^\top x_n + b) \ge \delta > 0$ for all $n$, some unit $u$. Margin
             $\delta(u) = \min_n y_n u^\top x_n$, radius $R = \max_n\|x_n\|$.
Test.        The linear program $\max t$, $y_n(w^\top x_n + b) \ge t$, $|w_i|, |b|, t \le 1$ in scaled
             columns: positive exactly for separable data, and its dual, weights of both classes whose mixed
             means agree, proves the contrary.
Mistakes.    The perceptron through the origin makes at most $(R/\delta)^2$ mistakes.
Cost.        One linear program with $d + 2$ unknowns and one row per example.
References.  Novikoff (1962); Boyd and Vandenberghe (2004) section 8.6.
"""

import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike
from tractable.core.verdict import Verdict
from tractable.optim.linear_program import linear_program
from tractable.optim.quadratic_program import quadratic_program

__all__ = ["Separability", "augmented", "best_direction", "margin", "mistake_bound", "radius", "separability"]


class Separability(Module):
    """Whether a plane separates, and the plane (or the weights of the rows that prove that none does)."""

    separable: bool
    normal: np.ndarray
    bias: float
    proof: np.ndarray  # not separable: weights p with sum p_n y_n (x_n, 1) = 0, sum p = 1

    @property
    def verdict(self) -> Verdict:
        """Whether a plane separates the classes, and what shows it."""
        how = "separable (a plane is given)" if self.separable else "not separable (weights of rows prove it)"
        return Verdict(self.separable, how)


def separability(X: ArrayLike | Rows, y: ArrayLike | None = None, *, bias: bool = True) -> Separability:
    """Whether $\\mathrm{sign}(w^\\top x + b)$ can give all labels; without `bias`, planes through the origin.

    >>> separability([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [1, 1, -1, -1]).verdict
    not separable (weights of rows prove it)
    """
    checked = Rows.of(X, y, target="sign")
    rows, signs = checked.X, checked.signs
    scale = np.abs(rows).max(0)
    scale = np.where(scale > 0, scale, 1.0)
    centre = rows.mean(0) if bias else np.zeros(rows.shape[1])
    spread = np.abs(rows - centre).max(0)
    spread = np.where(spread > 0, spread, scale)
    table = augmented((rows - centre) / spread) if bias else (rows - centre) / spread
    width = table.shape[1]
    left = np.column_stack([-signs[:, None] * table, np.ones(len(table))])
    objective, low = np.r_[np.zeros(width), 1.0], np.r_[-np.ones(width), -np.inf]
    found = linear_program(objective, upper=(left, np.zeros(len(table))), low=low, high=1.0, maximise=True)
    check(found.status.ok, "X", "rows of moderate scale", found.status.sentence)
    plane = np.asarray(found.x)[:width]
    reach = float((signs * (table @ plane)).min())
    normal = plane[: rows.shape[1]] / spread
    offset = float(plane[-1] - normal @ centre) if bias else 0.0
    proof = np.maximum(np.asarray(found.dual), 0.0)
    separable = reach > 1e-9
    return Separability(separable, normal, offset, proof / proof.sum() if not separable else 0 * proof)


def augmented(X: ArrayLike | Rows) -> np.ndarray:
    """Rows with a last column of ones: $w^\\top x + b = [w, b]^\\top[x, 1]$."""
    rows = points(X)
    return np.column_stack([rows, np.ones(len(rows))])


def margin(X: ArrayLike | Rows, y: ArrayLike | None, direction: ArrayLike) -> float:
    """$\\delta(u) = \\min_n y_n u^\\top x_n$ of the direction $u$, made a unit vector; negative if it
    errs."""
    vector = np.asarray(direction, float)
    length = float(np.linalg.norm(vector))
    check(length > 0, "direction", "a vector other than zero", "zero")
    rows = Rows.of(X, y, target="sign")
    return float((rows.signs * (rows.X @ vector)).min() / length)


def radius(X: ArrayLike | Rows) -> float:
    """$R = \\max_n\\|x_n\\|$."""
    return float(np.linalg.norm(points(X), axis=1).max())


def best_direction(X: ArrayLike | Rows, y: ArrayLike | None = None) -> np.ndarray:
    """The unit vector of the largest margin through the origin: $\\min\\|w\\|^2$ with $y_n w^\\top x_n \\ge
    1$."""
    rows = Rows.of(X, y, target="sign")
    report = separability(rows, bias=False)
    fix = "Add a column of ones for a bias."
    check(report.separable, "y", "separable by a plane through the origin", report.verdict, fix)
    d, n, size = rows.num_columns, rows.num_rows, radius(rows)
    G = -rows.signs[:, None] * rows.X / size
    found = quadratic_program(np.eye(d), np.zeros(d), G, -np.ones(n), tol=1e-10)
    weights = np.asarray(found.x)
    return weights / np.linalg.norm(weights)


def mistake_bound(
    X: ArrayLike | Rows, y: ArrayLike | None = None, direction: ArrayLike | None = None
) -> float:
    """$(R/\\delta)^2$ with the given or the best direction: no more mistakes can the perceptron make.

    >>> round(mistake_bound([[1.0, 1.0], [-1.0, -1.0]], [1, -1]), 6)
    1.0
    """
    rows = Rows.of(X, y, target="sign")
    reach = margin(rows, None, best_direction(rows) if direction is None else direction)
    check(reach > 0, "direction", "one that separates the classes", f"margin {reach:.4g}")
    return (radius(rows) / reach) ** 2
