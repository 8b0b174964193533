r"""Ridge regression: primal, dual, the whole path from one factorisation, and the penalty
chosen from the data.

Objective.   $\|y - X\theta\|_W^2 + \lambda\|\theta\|^2$; an intercept is not penalised.
Primal.      $(X^\top W X + \lambda I)\theta = X^\top W y$. Dual: $\theta = X^\top \alpha$ with
             $(X X^\top + \lambda I)\alpha = y$: equal, and as $\lambda \to 0$ the least-norm solution.
Spectrum.    With $X = U D V^\top$: $\theta(\lambda) = V\,\mathrm{diag}(d/(d^2 +
             \lambda))\,U^\top y$, effective degrees of freedom $\sum d^2/(d^2 + \lambda)$, so
             that the path costs $O(p^2)$ per penalty.
Choice.      Leave-one-out $\sum_i (r_i/(1 - h_i))^2$; GCV $N\,\mathrm{RSS}/(N - \mathrm{df})^2$; folds; or
             the evidence of $\theta \sim N(0, \sigma^2/\lambda)$ at its best $\sigma^2$.
Cost.        $O(n p \min(n, p))$; the path as above.
References.  Hoerl and Kennard (1970); Golub, Heath and Wahba (1979); MacKay (1992).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from tractable.core.checks import check, check_count, check_nonnegative, check_option, namespace
from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.core.types import Array, ArrayLike, Float, Scalar, Values
from tractable.supervised.basis import Basis
from tractable.supervised.linear.least_squares import LinearModel, fitted_model, with_basis
from tractable.supervised.linear.solvers import LeastSquares, least_squares
from tractable.supervised.linear.tall import triangle_of_rows

__all__ = ["RidgePath", "choose_penalty", "ridge", "ridge_path"]

sl: Any = scipy.linalg  # its stubs cannot tell what its options return


class RidgePath(Module):
    """Ridge solutions for every penalty, from one singular value decomposition of the (centred) rows."""

    singular_values: Float[Array, " m"]
    directions: Float[Array, "p m"]
    projections: Float[Array, "m k"]
    left_over: Float[Array, " k"]
    middle: Float[Array, " p"]
    level: Float[Array, " k"]
    count: Scalar
    has_intercept: bool = field(static=True)

    def coefficients(self, penalty: Any) -> Values:
        r"""$V\,\mathrm{diag}(d/(d^2 + \lambda))\,U^\top y$, a column per target."""
        own, d = self._arrays(penalty), self._arrays(penalty).singular_values
        return own.directions @ ((d / (d**2 + penalty))[:, None] * own.projections)

    def intercept(self, penalty: Any) -> Values:
        own = self._arrays(penalty)
        return own.level - own.middle @ self.coefficients(penalty)

    def path(self, penalties: ArrayLike) -> Values:
        """The coefficients of each penalty, shape (number of penalties, columns, targets)."""
        xp = namespace(self, penalties)
        return xp.stack([self.coefficients(value) for value in xp.asarray(penalties, float)])

    def effective_dof(self, penalty: Any) -> Any:
        r"""$\sum_j d_j^2/(d_j^2 + \lambda)$, plus one for an intercept."""
        squares = self._arrays(penalty).singular_values ** 2
        return (squares / (squares + penalty)).sum() + self.has_intercept

    def residual_sum(self, penalty: Any) -> Values:
        own = self._arrays(penalty)
        return own.left_over + (penalty / (own.singular_values**2 + penalty)) ** 2 @ own.projections**2

    def gcv(self, penalty: Any) -> Any:
        """Generalised cross-validation: the leave-one-out error with the mean leverage in place of each."""
        count = self._arrays(penalty).count
        return count * self.residual_sum(penalty).sum() / (count - self.effective_dof(penalty)) ** 2

    def log_evidence(self, penalty: Any) -> Any:
        r"""$\log p(y)$ for $\theta \sim N(0, \sigma^2/\lambda)$ at the best $\sigma^2$, a flat intercept left
        out."""
        own, xp = self._arrays(penalty), namespace(self, penalty)
        squares, rows = own.singular_values**2, own.count - self.has_intercept
        energy = own.left_over + penalty / (squares + penalty) @ own.projections**2
        spread = xp.log1p(squares / penalty).sum()
        return (-0.5 * rows * (xp.log(2 * np.pi * energy / rows) + 1) - 0.5 * spread).sum()

    def penalties(self, num: int = 60) -> np.ndarray:
        r"""A grid relative to the data's scale: from $10^{-10}$ to $10^3$ times the largest $d^2$."""
        largest = float(np.asarray(self.singular_values).max(initial=0.0)) ** 2
        return (largest if largest > 0 else 1.0) * np.logspace(-10, 3, check_count("num", num, least=2))

    def _arrays(self, *others: Any) -> "RidgePath":
        """The same in NumPy where everything has values: nothing is compiled."""
        return jax.tree.map(namespace(self, others).asarray, self)


def ridge(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    penalty: float | int = 1.0,
    weights: ArrayLike | None = None,
    *,
    intercept: bool | None = None,
    basis: Basis | None = None,
    form: str = "auto",
) -> LinearModel:
    r"""$\arg\min_\theta \sum_n w_n (y_n - x_n^\top\theta)^2 + \lambda\|\theta\|^2$, by its
    `primal` or `dual` form.

    Half of each term gives the same solution. `auto` takes the smaller system. `degrees` is $N$ minus the
    effective degrees of freedom.

    >>> X, y = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 3.0]
    >>> ridge(X, y, 0.5, intercept=False).coefficients.round(7)
    Array([0.8780488, 0.9756098], dtype=float64)
    """
    check_option("form", form, ("auto", "primal", "dual"))
    check_nonnegative("penalty", penalty)
    features, constant = with_basis(X, y, weights, basis, intercept)
    rows, targets, count = features
    wide = form == "dual" or (form == "auto" and rows.shape[1] > rows.shape[0])
    if wide and penalty > 0:
        solution = _dual(rows, targets, count, float(penalty), constant)
    else:
        solution = least_squares(features, intercept=constant, penalty=float(penalty))
    shrunk = penalty * float(np.diag(np.asarray(solution.inverse))[int(constant) :].sum())
    used = float(solution.rank) - shrunk
    return fitted_model(solution, float(count.sum()), used, basis, constant, f"Ridge, penalty {penalty:.4g}")


def ridge_path(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    intercept: bool = True,
) -> RidgePath:
    """The spectral view of a ridge regression: solutions, degrees of freedom and criteria for any penalty."""
    rows, targets, count = Rows.of(X, y, weights, target="numbers")
    return _path(*_centred(rows, targets.reshape(len(rows), -1), count, intercept), count, intercept)


def choose_penalty(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    criterion: str = "loo",
    penalties: ArrayLike | None = None,
    intercept: bool = True,
    num_folds: int = 5,
) -> float:
    """The penalty that is best by leave-one-out (`loo`), `gcv`, `cv` (fold of row i is i modulo the
    number of folds) or the `evidence`: the best of a grid, polished between its neighbours unless
    the grid was given."""
    check_option("criterion", criterion, ("loo", "gcv", "cv", "evidence"))
    rows, targets, count = Rows.of(X, y, weights, target="numbers")
    columns = targets.reshape(len(rows), -1)
    centred = _centred(rows, columns, count, intercept)
    path = _path(*centred, count, intercept)
    scores: dict[str, Callable[[float], float]] = {
        "gcv": path.gcv,
        "evidence": lambda value: -path.log_evidence(value),
        "loo": _leave_one_out(path, centred[0], centred[1], count),
    }
    if criterion == "cv":
        folds = check_count("num_folds", num_folds, least=2, most=len(rows))
        scores["cv"] = _cross_validation(rows, columns, count, intercept, folds)
    score = scores[criterion]
    grid = path.penalties() if penalties is None else np.sort(np.asarray(penalties, float))
    check(bool((grid > 0).all()) and grid.size > 0, "penalties", "positive", grid.tolist())
    best = int(np.argmin([score(float(value)) for value in grid]))
    if penalties is not None or best in (0, len(grid) - 1):
        return float(grid[best])
    bounds = (np.log(grid[best - 1]), np.log(grid[best + 1]))
    from scipy.optimize import minimize_scalar  # a third of a second, and only this choice needs it

    found: Any = minimize_scalar(lambda t: score(float(np.exp(t))), bounds=bounds, method="bounded")
    return float(np.exp(found.x))


def _dual(
    rows: np.ndarray, targets: np.ndarray, count: np.ndarray, penalty: float, intercept: bool
) -> LeastSquares:
    r"""$\theta = X^\top (X X^\top + \lambda I)^{-1} y$, refined once; its inverse by Woodbury's identity."""
    n, p = rows.shape
    columns = targets.reshape(n, -1)
    shifted, centred, middle, level = _centred(rows, columns, count, intercept)
    roots = np.sqrt(count)[:, None]
    A, b = roots * shifted, roots * centred
    system = A @ A.T + penalty * np.eye(n)
    factor = sl.cho_factor(system, lower=True, check_finite=False)
    alpha = sl.cho_solve(factor, b, check_finite=False)
    alpha = alpha + sl.cho_solve(factor, b - A @ (A.T @ alpha) - penalty * alpha, check_finite=False)
    theta = A.T @ alpha
    half = sl.solve_triangular(factor[0], A, lower=True, check_finite=False)
    inverse = (np.eye(p) - half.T @ half) / penalty
    values = np.linalg.eigvalsh(system)
    if intercept:
        side = -inverse @ middle
        corner = 1 / count.sum() + middle @ inverse @ middle
        inverse = np.block([[np.full((1, 1), corner), side[None]], [side[:, None], inverse]])
        theta = np.concatenate([(level - middle @ theta)[None], theta])
    sums, total = ((penalty * alpha) ** 2).sum(0), (b**2).sum(0)
    pick = (lambda a: a[..., 0]) if targets.ndim == 1 else (lambda a: a)
    numbers: Any = [jnp.asarray(pick(a)) for a in (theta, sums, total)]
    condition = jnp.asarray(float(np.sqrt(values[-1] / values[0])))
    rank = jnp.asarray(p + intercept)
    tail: Any = (rank, condition, jnp.asarray(0.0), "the dual")
    return LeastSquares(numbers[0], jnp.asarray(inverse), numbers[1], numbers[2], *tail)


def _centred(
    rows: np.ndarray, columns: np.ndarray, count: np.ndarray, intercept: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows and targets without their weighted means, and the means; with no intercept the means are zero."""
    if not intercept:
        return rows, columns, np.zeros(rows.shape[1]), np.zeros(columns.shape[1])
    middle, level = count @ rows / count.sum(), count @ columns / count.sum()
    return rows - middle, columns - level, middle, level


def _path(
    rows: np.ndarray,
    columns: np.ndarray,
    middle: np.ndarray,
    level: np.ndarray,
    count: np.ndarray,
    intercept: bool,
) -> RidgePath:
    p = rows.shape[1]
    triangle = triangle_of_rows(rows, columns, count, np.zeros(p), False)
    left, values, right = sl.svd(triangle[:p, :p], full_matrices=False, check_finite=False)
    arrays = (
        values,
        right.T,
        left.T @ triangle[:p, p:],
        (triangle[p:, p:] ** 2).sum(0),
        middle,
        level,
        count.sum(),
    )
    fields: Any = [*(jnp.asarray(a) for a in arrays), intercept]
    return RidgePath(*fields)


def _leave_one_out(
    path: RidgePath, rows: np.ndarray, columns: np.ndarray, count: np.ndarray
) -> Callable[[float], float]:
    """The mean squared error of each row (each copy, where it counts more than once) when it is left out."""
    turned = rows @ np.asarray(path.directions)
    squares, base = np.asarray(path.singular_values) ** 2, path.has_intercept / count.sum()

    def score(penalty: float) -> float:
        leverage = turned**2 @ (1 / (squares + penalty)) + base
        residual = columns - rows @ path.coefficients(penalty)
        return float(
            count @ (residual / (1 - leverage)[:, None]) ** 2 @ np.ones(columns.shape[1]) / count.sum()
        )

    return score


def _cross_validation(
    rows: np.ndarray, columns: np.ndarray, count: np.ndarray, intercept: bool, num_folds: int
) -> Callable[[float], float]:
    fold = np.arange(len(rows)) % num_folds
    parts = []
    for k in range(num_folds):
        away, held = fold != k, fold == k
        parts.append((ridge_path(rows[away], columns[away], count[away], intercept=intercept), held))

    def score(penalty: float) -> float:
        errors = (
            count[held]
            @ (columns[held] - rows[held] @ path.coefficients(penalty) - path.intercept(penalty)) ** 2
            for path, held in parts
        )
        return float(sum(error.sum() for error in errors) / count.sum())

    return score
