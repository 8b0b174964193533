r"""Least-squares support vector machines: equalities instead of inequalities, one linear system.

Classes.     $\min\tfrac12\|w\|^2 + \tfrac\gamma2\sum_i e_i^2$ with $y_i(w^\top\phi(x_i) + b) = 1 - e_i$ gives
             $y^\top\alpha = 0$ and $b y + (\Omega + I/\gamma)\alpha = 1$ with
             $\Omega_{kl} = y_k y_l k(x_k, x_l)$; $\alpha_i = \gamma e_i$.
Regression.  $1^\top\beta = 0$ and $b + (K + I/\gamma)\beta = t$: kernel ridge with $\lambda = 1/\gamma$ and a
             free bias. Classes are the regression on $t = y$ with $\beta_i = \alpha_i y_i$. A row of weight
             $w_i$ has $\gamma w_i$.
Leave one.   $t_i - f^{(-i)}(x_i) = \beta_i/(H^{-1})_{ii}$ exactly, $H$ the bordered matrix.
Asymmetric.  With $k(x, z) \ne k(z, x)$ there are two feature maps and two functions,
             $f_s(x) = \sum_i\beta_i y_i k(x, x_i) + b_1$ and $f_t(x) = \sum_i\alpha_i y_i k(x_i, x) + b_2$,
             from the stationary point of $\omega^\top\nu + \tfrac\gamma2\sum_i(e_i^2 + h_i^2)$: a saddle, not
             a minimum.
Cost.        One Cholesky factor of $n^3/3$; the asymmetric form one LU of $2n + 2$ unknowns.
References.  Suykens and Vandewalle (1999); Cawley and Talbot (2004); He et al. (2023).
"""

import numpy as np
import scipy.linalg as sl

from tractable.core.checks import check
from tractable.core.module import Module
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Values
from tractable.kernels.base import Kernel
from tractable.kernels.stationary import RBF
from tractable.supervised.svm.gram import expand_kernel, kernel_matrix

__all__ = ["AsymmetricMachine", "LeastSquaresMachine", "solve_bordered"]


class LeastSquaresMachine(Module):
    """A fitted least-squares machine: every row supports it."""

    kernel: Kernel
    rows: np.ndarray
    coefficients: np.ndarray
    bias: float
    left_out: np.ndarray  # f(x_i) of the machine without row i
    residual: float  # of the linear system, relative

    @classmethod
    def fit(
        cls,
        X: ArrayLike | Rows,
        y: ArrayLike | None = None,
        kernel: Kernel | None = None,
        gamma: float = 1.0,
        *,
        weights: ArrayLike | None = None,
    ) -> "LeastSquaresMachine":
        """Fit to targets, or to labels -1 and +1, with penalty `gamma` on squared errors.

        >>> LeastSquaresMachine.fit([0.0, 1.0, 2.0], [1.0, 1.0, 1.0]).predict([5.0]).round(6).tolist()
        [1.0]
        """
        rows, targets, mass = Rows.of(X, y, weights, target="number")
        check(0 < gamma < np.inf, "gamma", "positive and finite", gamma)
        kernel = RBF() if kernel is None else kernel
        table = kernel_matrix(kernel, rows)
        table[np.diag_indices(len(rows))] += 1.0 / (gamma * mass)
        beta, bias, inverse_diagonal = solve_bordered(table, targets)
        error = np.abs(table @ beta + bias - targets).max() / max(np.abs(targets).max(), 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):  # nothing predicts the one row there is
            left_out = targets - beta / inverse_diagonal
        return cls(kernel, rows, beta, bias, left_out, float(error))

    def multipliers(self, y: ArrayLike) -> Values:
        """$\\alpha_i = \\beta_i y_i = \\gamma e_i$ of a machine fitted to the labels `y`; of either sign."""
        return np.asarray(self.coefficients) * Rows.of(self.rows, y, target="sign").signs

    def decision(self, X: ArrayLike | Rows) -> Values:
        """$\\sum_i\\beta_i k(x_i, x) + b$."""
        rows = points(X, self.rows.shape[1])
        return expand_kernel(self.kernel, rows, self.rows, self.coefficients) + self.bias

    predict = decision


class AsymmetricMachine(Module):
    """A least-squares machine of two functions for a kernel that is not symmetric (AsK-LS)."""

    kernel: Kernel
    rows: np.ndarray
    source_coefficients: np.ndarray  # beta_i y_i: of f_s
    target_coefficients: np.ndarray  # alpha_i y_i: of f_t
    source_bias: float
    target_bias: float

    @classmethod
    def fit(cls, X: ArrayLike, y: ArrayLike, kernel: Kernel, gamma: float = 1.0) -> "AsymmetricMachine":
        """Fit both functions to labels -1 and +1."""
        rows = Rows.of(X, y, target="sign")
        check(0 < gamma < np.inf, "gamma", "positive and finite", gamma)
        alpha, beta, b1, b2 = solve_asymmetric(np.asarray(kernel.gram(rows.X, rows.X)), rows.signs, gamma)
        return cls(kernel, rows.X, beta * rows.signs, alpha * rows.signs, b1, b2)

    def source_decision(self, X: ArrayLike) -> Values:
        """$f_s(x) = \\sum_i\\beta_i y_i k(x, x_i) + b_1$: the point first."""
        table = np.asarray(self.kernel.gram(points(X, self.rows.shape[1]), np.asarray(self.rows)))
        return table @ np.asarray(self.source_coefficients) + self.source_bias

    def target_decision(self, X: ArrayLike) -> Values:
        """$f_t(x) = \\sum_i\\alpha_i y_i k(x_i, x) + b_2$: the point second."""
        table = np.asarray(self.kernel.gram(np.asarray(self.rows), points(X, self.rows.shape[1])))
        return np.asarray(self.target_coefficients) @ table + self.target_bias

    def predict(self, X: ArrayLike) -> Values:
        """The sign of the mean of the two functions."""
        return np.where(self.source_decision(X) + self.target_decision(X) >= 0, 1, -1)


def solve_bordered(table: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """$A\\beta + b = t$, $\\sum\\beta = 0$ for a positive definite $A$; and the diagonal of the bordered
    inverse.

    With $u = A^{-1}1$ and $s = 1^\\top u$: $b = u^\\top t/s$, and the inverse has the diagonal of
    $A^{-1} - uu^\\top/s$.
    """
    factor = sl.cho_factor(table, lower=True)
    both = sl.cho_solve(factor, np.column_stack([np.ones(len(table)), targets]))
    total = both[:, 0].sum()
    bias = float(both[:, 0] @ targets / total)
    beta = both[:, 1] - bias * both[:, 0]
    inverse, _ = sl.get_lapack_funcs(("potri",), (factor[0],))[0](factor[0], lower=1)
    return beta, bias, np.diagonal(inverse) - both[:, 0] ** 2 / total


def solve_asymmetric(
    table: np.ndarray, signs: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """$(\\alpha, \\beta, b_1, b_2)$ of the saddle: with $H_{ij} = y_i k(x_i, x_j) y_j$,

    $y^\\top\\alpha = y^\\top\\beta = 0$, $b_1 y + \\alpha/\\gamma + H\\beta = 1$ and $b_2 y + H^\\top\\alpha
    + \\beta/\\gamma = 1$.
    """
    n, y = len(signs), signs[:, None]
    H, eye, none = y * table * signs[None], np.eye(n) / gamma, np.zeros((n, 1))
    top = np.zeros((2, 2 * n + 2))
    top[0, 2 : n + 2], top[1, n + 2 :] = signs, signs
    system = np.vstack([top, np.hstack([y, none, eye, H]), np.hstack([none, y, H.T, eye])])
    found = sl.solve(system, np.r_[0.0, 0.0, np.ones(2 * n)])
    return found[2 : n + 2], found[n + 2 :], float(found[0]), float(found[1])
