r"""Linear models with Gaussian noise: ordinary, weighted, generalised and least-norm least squares.

Model.       $y = X\theta + \epsilon$, $\epsilon \sim N(0, \sigma^2 W^{-1})$, or $N(0, R)$ with $R$ known.
Estimate.    $\hat\theta = (X^\top W X)^{-1} X^\top W y$, never computed that way (see `linear.solvers`); with
             noise $R$: $(X^\top R^{-1} X)^{-1} X^\top R^{-1} y$ with covariance $(X^\top R^{-1} X)^{-1}$. Of
             many solutions the one of least norm, $X^\top (X X^\top)^{-1} y = X^+ y$.
Likelihood.  Maximum likelihood is least squares, with
             $1/\beta_{ML} = \frac1N \sum_n (y_n - x_n^\top\theta)^2$;
             $-\log N(y \mid f, \sigma^2) = (y - f)^2 / 2\sigma^2 + \frac12\log 2\pi\sigma^2$.
Prediction.  Student's t with $N - p$ degrees, location $x^\top\hat\theta$, scale
             $s\sqrt{1 + x^\top (X^\top W X)^{-1} x}$.
Cost.        That of `least_squares`: $O(n p^2)$.
References.  Bjorck (1996); Seber and Lee (2003).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.linalg as sl
from scipy.special import stdtrit

from tractable.core.checks import check, check_finite, check_shape, has_values, namespace
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Float, Scalar, Values
from tractable.distributions.student import StudentT
from tractable.supervised.basis import Basis
from tractable.supervised.linear.solvers import LeastSquares, least_squares

__all__ = ["LinearModel", "generalised_least_squares", "minimum_norm", "ordinary_least_squares", "with_basis"]


class LinearModel(Module):
    r"""A fitted linear model $x^\top\theta + \theta_0$ (of features, where there is a `basis`).

    `solution` has all coefficients (the intercept first) with rank and condition; `scale` is $s$, the
    standard deviation of the noise, from `degrees` $= \sum_n w_n - p$ degrees of freedom (NaN where none are
    left); `cov` is the covariance of the coefficients. With several targets `scale` has one entry for each,
    and `cov` is that of unit noise.
    """

    solution: LeastSquares
    scale: Float[Array, "*k"]
    degrees: Scalar
    count: Scalar
    basis: Basis | None
    has_intercept: bool = field(static=True)
    title: str = field(static=True, default="Least squares")

    @property
    def coefficients(self) -> Array:
        return self.solution.coefficients[1:] if self.has_intercept else self.solution.coefficients

    @property
    def intercept(self) -> Array:
        zeros = jnp.zeros(self.solution.coefficients.shape[1:])
        return self.solution.coefficients[0] if self.has_intercept else zeros

    @property
    def cov(self) -> Array:
        unit = self.scale.ndim > 0
        return self.solution.inverse if unit else self.scale**2 * self.solution.inverse

    @property
    def standard_errors(self) -> Values:
        """One per coefficient, the intercept first; a column per target."""
        xp = namespace(self)
        roots = xp.sqrt(xp.diag(xp.asarray(self.solution.inverse)))
        return xp.multiply.outer(roots, xp.asarray(self.scale))

    @property
    def noise_variance(self) -> Values:
        r"""Maximum likelihood: $1/\beta_{ML} = \frac1N\sum_n (y_n - f(x_n))^2$, divided by $N$, not
        $N - p$."""
        xp = namespace(self)
        return xp.asarray(xp.asarray(self.solution.residual_sum) / self.count)

    @property
    def r_squared(self) -> Values:
        """The share of the (centred, with an intercept) sum of squares that is explained; NaN for
        constants."""
        xp = namespace(self)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = xp.asarray(self.solution.residual_sum) / xp.asarray(self.solution.target_sum)
        return xp.asarray(1 - share)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the t-interval of each coefficient, the intercept first."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        reach = stdtrit(float(self.degrees), 0.5 + level / 2) * np.asarray(self.standard_errors)
        middle = np.asarray(self.solution.coefficients)
        return middle - reach, middle + reach

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The mean of the target at each row."""
        return self._design(X) @ namespace(self, X).asarray(self.solution.coefficients)

    def predict_dist(self, X: ArrayLike | Rows) -> StudentT:
        """The distribution of a new target at each row: Student's t, noise and coefficients both unknown."""
        A = self._design(X)
        return student_around(A, self.predict(X), self.solution.inverse, self.scale, self.degrees)

    def leverage(self, X: ArrayLike, weights: ArrayLike | None = None) -> Values:
        r"""$w_i x_i^\top (X^\top W X)^{-1} x_i$ of the rows that were fitted; they add up to the rank."""
        A = self._design(X)
        found = quadratic_forms(A, self.solution.inverse)
        return found if weights is None else namespace(A).asarray(weights, float) * found

    def _design(self, X: ArrayLike | Rows) -> Values:
        xp, width = namespace(self, X), self.solution.coefficients.shape[0] - self.has_intercept
        rows = xp.asarray(points(points(X) if self.basis is None else self.basis(points(X)), width))
        return xp.column_stack([xp.ones(len(rows)), rows]) if self.has_intercept else rows

    def _columns(self) -> dict[str, Any]:
        if self.scale.ndim:
            return {}
        names = ["intercept"] * self.has_intercept + [f"x{j}" for j in range(len(self.coefficients))]
        values, (low, high) = np.asarray(self.solution.coefficients), self.interval()
        errors = np.asarray(self.standard_errors)
        return {"": names, "coefficient": values, "error": errors, "95% from": low, "to": high}

    def _note(self) -> str:
        fit = ", ".join(f"{value:.4g}" for value in np.atleast_1d(self.r_squared))
        noise = ", ".join(f"{value:.4g}" for value in np.atleast_1d(self.scale))
        size = f"{float(self.count):.6g} rows, rank {int(self.solution.rank)}"
        freedom = f"{float(self.degrees):.6g} degrees of freedom"
        condition = f"condition {float(self.solution.condition):.2e}"
        lines = [f"{self.title}: {size}, {freedom}, {condition}", f"noise {noise}; R-squared {fit}"]
        return "\n".join([*lines, self.solution.verdict.sentence])


def ordinary_least_squares(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    intercept: bool | None = None,
    basis: Basis | None = None,
) -> LinearModel:
    r"""$\hat\theta = \arg\min_\theta \sum_n w_n (y_n - x_n^\top\theta)^2$: also maximum likelihood.

    A weight of two is the row twice. An intercept is added unless there is a `basis` (which has its own
    constant) or `intercept` says otherwise; `y` may have several columns.

    >>> ordinary_least_squares([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0]).coefficients
    Array([2.], dtype=float64)
    """
    rows, constant = with_basis(X, y, weights, basis, intercept)
    solution = least_squares(rows, intercept=constant)
    return fitted_model(solution, rows.total, float(solution.rank), basis, constant, "Least squares")


def generalised_least_squares(
    X: ArrayLike,
    y: ArrayLike,
    noise: ArrayLike,
    *,
    intercept: bool | None = None,
    basis: Basis | None = None,
) -> LinearModel:
    r"""$\hat\theta = (X^\top R^{-1} X)^{-1} X^\top R^{-1} y$ for noise $N(0, R)$; `noise` is
    $R$ or its diagonal.

    The noise is known, so that `scale` is one, `cov` is $(X^\top R^{-1} X)^{-1}$ exactly, and intervals are
    normal ones (infinite degrees). A singular $R$ is refused.
    """
    features, constant = with_basis(X, y, None, basis, intercept)
    rows, targets, _ = features
    R = np.asarray(noise, float)
    check_finite("noise", R)
    n = len(rows)
    design = np.column_stack([np.ones(n), rows]) if constant else rows
    if R.ndim == 1:
        check_shape("noise", R, (n,), "One variance per row, or their covariance matrix.")
        check(bool((R > 0).all()), "noise", "positive variances", float(R.min()))
        solution = least_squares(design, targets, 1 / R)
    else:
        lower = _noise_factor(R, n)
        whiten = lambda a: sl.solve_triangular(lower, a, lower=True, check_finite=False)  # noqa: E731
        solution = least_squares(whiten(design), whiten(targets))
    one = jnp.ones(targets.shape[1:])
    title = "Generalised least squares, noise known"
    return LinearModel(solution, one, jnp.asarray(np.inf), jnp.asarray(float(n)), basis, constant, title)


def minimum_norm(X: ArrayLike, y: ArrayLike) -> LinearModel:
    r"""$X^+ y$: of all best fits the one of least norm; $X^\top (X X^\top)^{-1} y$ where the rows are
    independent.

    `model.solution` reports the rank and the number of exact solutions.

    >>> minimum_norm([[1.0, 1.0]], [2.0]).solution.num_solutions
    inf
    """
    return ordinary_least_squares(X, y, intercept=False)


def with_basis(
    X: Any, y: Any, weights: Any, basis: Basis | None, intercept: bool | None
) -> tuple[Rows, bool]:
    """The features of the rows with their targets and weights, and whether to add a constant to them."""
    rows = Rows.of(X, y, weights, target="numbers")
    if basis is not None:
        rows = Rows(points(np.asarray(basis(rows.X))), rows.y, rows.weights, is_weighted=rows.is_weighted)
    return rows, basis is None if intercept is None else intercept


def quadratic_forms(A: Values, matrix: Any) -> Values:
    r"""$a_i^\top M a_i$ of each row."""
    xp = namespace(A, matrix)
    return xp.einsum("ij,jk,ik->i", A, xp.asarray(matrix), A)


def student_around(A: Values, centre: Values, inverse: Any, scale: Any, degrees: Any) -> StudentT:
    r"""Student's t around each centre, of scale $s\sqrt{1 + a_i^\top M a_i}$ for rows $a_i$ of the design."""
    if has_values(degrees):
        check(float(degrees) > 0, "rows", "more than coefficients", f"{float(degrees):g} left over")
    xp = namespace(A, centre, inverse, scale, degrees)
    spread = xp.sqrt(1 + xp.maximum(quadratic_forms(A, inverse), 0))
    scales = xp.multiply.outer(spread, xp.asarray(scale))
    parts = (xp.full(scales.shape, xp.asarray(degrees)), centre, scales)
    return StudentT(*(jnp.asarray(part) for part in parts))


def fitted_model(
    solution: LeastSquares, count: Any, used: float, basis: Basis | None, intercept: bool, title: str
) -> LinearModel:
    """The model whose noise is estimated from `count - used` degrees of freedom."""
    count = float(count)
    degrees = count - used
    sums = np.asarray(solution.residual_sum)
    scale = np.sqrt(sums / degrees) if degrees > 1e-12 * count else np.full(sums.shape, np.nan)
    noise, left, rows = (jnp.asarray(part) for part in (scale, max(degrees, 0.0), count))
    return LinearModel(solution, noise, left, rows, basis, intercept, title)


def _noise_factor(R: np.ndarray, n: int) -> np.ndarray:
    check_shape("noise", R, (n, n), "One variance per row, or their covariance matrix.")
    check(
        bool(np.abs(R - R.T).max() <= 1e-10 * np.abs(R).max()), "noise", "symmetric", "a matrix that is not"
    )
    smallest = float(np.linalg.eigvalsh(R)[0])
    positive = smallest > n * np.finfo(float).eps * float(np.abs(R).max())
    check(
        positive, "noise", "positive definite", f"smallest eigenvalue {smallest:.3g}", "Drop noiseless rows."
    )
    return sl.cholesky(R, lower=True, check_finite=False)
