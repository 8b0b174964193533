r"""Support vector regression: errors inside a tube cost nothing, errors outside cost their distance.

Primal.      $\min\tfrac12\|w\|^2 + \sum_i C_i(\xi_i + \hat\xi_i)$ with
             $-\varepsilon - \hat\xi_i \le t_i - f(x_i) \le \varepsilon + \xi_i$.
Dual.        With $\beta = \alpha - \hat\alpha$:
             $\max -\tfrac12\beta^\top K\beta + t^\top\beta - \varepsilon\sum_i|\beta_i|$, $|\beta_i| \le C_i$
             and, with a bias, $\sum_i\beta_i = 0$; $f(x) = \sum_i\beta_i k(x_i, x) + b$.
Limit.       $\varepsilon = 0$ and large $C$: least absolute deviations (not least squares).
Nu.          The width $\varepsilon$ is found instead so that at most a share $\nu$ of the rows is outside the
             tube and at least that share are support vectors; classes likewise, $\sum\alpha = \nu N$.
Cost.        As `supervised.svm.machine`.
References.  Drucker et al. (1997); Schölkopf et al. (2000).
"""

from dataclasses import replace

import numpy as np

from tractable.core.checks import check
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike, Values
from tractable.kernels.base import Kernel
from tractable.kernels.nonstationary import Linear
from tractable.optim.quadratic_program import quadratic_program
from tractable.supervised.perceptrons.separability import augmented
from tractable.supervised.svm.machine import Expansion, SupportVectorMachine
from tractable.supervised.svm.smo import DualSolution, solve_dual

__all__ = ["SupportVectorRegression", "fit_nu_classes", "fit_nu_regression", "tube_loss", "tube_program"]


class SupportVectorRegression(Expansion):
    """A fitted tube: a kernel expansion over the rows on its border and outside of it."""

    epsilon: float

    @classmethod
    def fit(
        cls,
        X: ArrayLike | Rows,
        y: ArrayLike | None = None,
        kernel: Kernel | None = None,
        C: float = 1.0,
        epsilon: float = 0.1,
        *,
        weights: ArrayLike | None = None,
        bias: bool = True,
        tol: float = 1e-3,
        gram: ArrayLike | None = None,
        max_steps: int | None = None,
    ) -> "SupportVectorRegression":
        """Fit the tube of half-width `epsilon` by sequential minimal optimisation.

        >>> tube = SupportVectorRegression.fit([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], C=10.0, epsilon=0.0)
        >>> tube.predict([3.0]).round(6).tolist()
        [3.0]
        """
        rows = Rows.of(X, y, weights, target="number", absent="keep")
        check(0 < C < np.inf, "C", "positive and finite", C)
        check(epsilon >= 0, "epsilon", "zero or positive", epsilon)
        kernel, bounds = Linear() if kernel is None else kernel, C * rows.weights
        table = None if gram is None else np.ascontiguousarray(np.asarray(gram, float))
        found = solve_dual(
            kernel, rows.X, rows.y, -bounds, bounds, epsilon=epsilon, ranges=None if bias else (), gram=table,
            tol=tol, max_steps=max_steps,
        )  # fmt: skip
        offset = -float(found.multipliers[0]) if bias else 0.0
        return cls.from_dual(kernel, rows, bounds, found, offset, epsilon)

    @classmethod
    def from_dual(
        cls, kernel: Kernel, rows: Rows, bounds: Values, found: DualSolution, bias: float, epsilon: float
    ) -> "SupportVectorRegression":
        """The tube of a solved dual, with primal and dual value."""
        beta = found.coefficients
        plain = found.gradient + rows.y
        outside = tube_loss(plain + bias - rows.y, epsilon)
        value = 0.5 * beta @ plain + bounds @ outside
        return cls.of(kernel, rows.X, found, bias, value, epsilon=float(epsilon))

    predict = Expansion.values


def tube_loss(residuals: ArrayLike, epsilon: float) -> np.ndarray:
    """$(|r| - \\varepsilon)_+$."""
    return np.maximum(np.abs(np.asarray(residuals, float)) - epsilon, 0.0)


def tube_program(
    X: ArrayLike, y: ArrayLike, C: float = 1.0, epsilon: float = 0.1, *, bias: bool = True
) -> tuple[np.ndarray, float, float]:
    """The linear tube as one quadratic program in $(w, b, \\xi, \\hat\\xi)$: weights, bias and least
    value."""
    rows = Rows.of(X, y, target="number")
    table, targets = augmented(rows) if bias else rows.X, rows.y
    (n, width), d = table.shape, rows.num_columns
    P = np.diag(np.r_[np.ones(d), np.zeros(width - d + 2 * n)])
    q = np.r_[np.zeros(width), np.full(2 * n, C)]
    none, eye = np.zeros((n, n)), np.eye(n)
    G = np.block([[-table, -eye, none], [table, none, -eye], [np.zeros((2 * n, width)), -np.eye(2 * n)]])
    h = np.r_[epsilon - targets, epsilon + targets, np.zeros(2 * n)]
    found = quadratic_program(P, q, G, h)
    x = np.asarray(found.x)
    return x[:d], float(x[d]) if bias else 0.0, float(found.value)


def fit_nu_regression(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    kernel: Kernel | None = None,
    nu: float = 0.5,
    C: float = 1.0,
    *,
    weights: ArrayLike | None = None,
    tol: float = 1e-3,
) -> SupportVectorRegression:
    """The tube whose width is found: at most a share `nu` of the rows is outside.

    $\\sum_i\\alpha_i = \\sum_i\\hat\\alpha_i = \\tfrac12\\nu\\sum_i C_i$; the slopes common to either side
    give $b$ and $\\varepsilon$.
    """
    rows = Rows.of(X, y, weights, target="number", absent="keep")
    kernel, bounds = Linear() if kernel is None else kernel, C * rows.weights
    n, targets, zeros = rows.num_rows, rows.y, np.zeros(rows.num_rows)
    first = _filled(bounds, 0.5 * _share(nu) * bounds.sum())
    found = solve_dual(
        kernel, np.vstack([rows.X, rows.X]), np.r_[targets, targets], np.r_[zeros, -bounds],
        np.r_[bounds, zeros], ranges=(0, n, 2 * n), start=np.r_[first, -first], tol=tol,
    )  # fmt: skip
    below, above = found.multipliers
    epsilon, bias = max(0.5 * (above - below), 0.0), -0.5 * (below + above)
    beta = found.coefficients[:n] + found.coefficients[n:]
    gradient = found.gradient[:n]
    objective = 0.5 * beta @ (gradient - targets) + epsilon * np.abs(beta).sum()
    folded = replace(
        found, coefficients=beta, gradient=gradient, multipliers=np.array([-bias]), objective=float(objective)
    )
    return SupportVectorRegression.from_dual(kernel, rows, bounds, folded, bias, epsilon)


def fit_nu_classes(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    kernel: Kernel | None = None,
    nu: float = 0.5,
    *,
    weights: ArrayLike | None = None,
    tol: float = 1e-3,
) -> SupportVectorMachine:
    """The machine with at most a share `nu` of margin errors; the result is that of $C = 1/\\rho$.

    $\\sum_{+}\\alpha = \\sum_{-}\\alpha = \\tfrac12\\nu N$, $0 \\le \\alpha_i \\le w_i$; the slopes of the
    classes give $\\rho$ and $b$.
    """
    rows, share = Rows.of(X, y, weights, target="sign", absent="keep"), _share(nu)
    signs, mass, kernel = rows.signs, rows.weights, Linear() if kernel is None else kernel
    order = np.argsort(-signs, kind="stable")
    count, half = int((signs > 0).sum()), 0.5 * share * mass.sum()
    least = 2 * min(mass[signs > 0].sum(), mass[signs < 0].sum()) / mass.sum()
    check(share <= least, "nu", f"at most {least:.4g} for classes of these sizes", nu)
    sorted_mass = mass[order]
    start = np.r_[_filled(sorted_mass[:count], half), -_filled(sorted_mass[count:], half)]
    low, high = np.where(signs[order] > 0, 0.0, -sorted_mass), np.where(signs[order] > 0, sorted_mass, 0.0)
    found = solve_dual(
        kernel, rows.X[order], np.zeros(len(signs)), low, high, ranges=(0, count, len(signs)), start=start,
        tol=tol,
    )  # fmt: skip
    upper, lower = found.multipliers
    rho, bias = 0.5 * (upper - lower), -0.5 * (upper + lower)
    check(rho > 0, "nu", "small enough to leave a margin", nu, "All rows would be inside the street.")
    beta, plain = np.empty(len(signs)), np.empty(len(signs))
    beta[order], plain[order] = found.coefficients / rho, found.gradient / rho
    objective = 0.5 * beta @ plain - np.abs(beta).sum()
    scaled = replace(
        found, coefficients=beta, gradient=plain - signs, multipliers=np.array([-bias / rho]),
        objective=float(objective), violation=found.violation / rho,
    )  # fmt: skip
    return SupportVectorMachine.from_dual(kernel, rows.X, signs, mass / rho, scaled)


def _share(nu: float) -> float:
    check(0 < nu <= 1, "nu", "above 0 and at most 1", nu)
    return float(nu)


def _filled(bounds: np.ndarray, total: float) -> np.ndarray:
    """Coefficients up to their bounds, one after the other, that sum to `total`."""
    before = np.cumsum(bounds) - bounds
    return np.clip(total - before, 0.0, bounds)
