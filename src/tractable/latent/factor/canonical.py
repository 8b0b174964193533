r"""Canonical correlation: the pairs of directions in two tables that are correlated most.

Problem.     $\max_{a, b}\mathrm{corr}(a^\top x, b^\top y)$, then again uncorrelated with those before. With
             $\Sigma_{xx} = R_x R_x^\top$, the singular values of $R_x^{-1}\Sigma_{xy}R_y^{-\top}$ are the
             correlations $\rho_i$ and its vectors, unwhitened, the directions.
Regularised. $\Sigma_{xx} + \gamma\bar\sigma_x^2 I$, where columns are many or dependent; $\gamma = 0$ leaves
             out directions without variance instead.
Model.       $x = \mu_x + W_x z + \epsilon_x$, $y = \mu_y + W_y z + \epsilon_y$ with free noises has its
             maximum at $W_x = \Sigma_{xx}A\,\mathrm{diag}(\rho)^{1/2}$, and $y$'s likewise.
Test.        Bartlett: $-(n - 1 - \frac{p + q + 1}2)\sum_{j > i}\log(1 - \rho_j^2)$ is about $\chi^2$ with
             $(p - i)(q - i)$ degrees of freedom where no more than $i$ pairs are correlated.
Statistics.  Those of the joined rows, which add (`core.moments`).
Cost.        $O(n(p + q)^2 + (p + q)^3)$.
References.  Hotelling (1936); Bartlett (1941); Bach and Jordan (2005).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.moments import Moments, moments_of
from tractable.core.rows import Rows, points
from tractable.core.types import Values
from tractable.latent.factor.solvers import signed

__all__ = ["CanonicalCorrelation"]

_LEAST = 1e-12  # of the largest variance: below, a direction is rounding


class CanonicalCorrelation(Module):
    """Directions `x_weights` (p, k) and `y_weights` (q, k) whose variates have unit variance."""

    x_mean: Values = field(show=False)
    y_mean: Values = field(show=False)
    x_weights: Values = field(show=False)
    y_weights: Values = field(show=False)
    correlations: Values
    p_values: Values = field(about="of no further correlation from each pair on")
    x_loadings: Values = field(show=False)  # W of the shared factors
    y_loadings: Values = field(show=False)
    count: Any

    @classmethod
    def fit(
        cls,
        X: Any,
        Y: Any,
        num_components: int | None = None,
        *,
        weights: Any = None,
        penalty: float | int = 0.0,
    ) -> "CanonicalCorrelation":
        """The pairs of two tables of the same rows.

        >>> x = np.array([[1.0], [2.0], [3.0], [4.0]])
        >>> CanonicalCorrelation.fit(x, -2 * x + 1).correlations.round(6).tolist()
        [1.0]
        """
        left, right = Rows.of(X, None, weights, absent="keep", least=2), Rows.of(Y, least=2)
        check(left.num_rows == right.num_rows, "Y", f"as long as `X` ({left.num_rows})", right.num_rows)
        both = np.column_stack([left.X, right.X])
        moments = moments_of(both, np.asarray(left.weights) if left.is_weighted else None)
        return cls.from_moments(moments, left.num_columns, num_components, penalty=penalty)

    @classmethod
    def from_moments(
        cls, moments: Moments, split: int, num_components: int | None = None, *, penalty: float | int = 0.0
    ) -> "CanonicalCorrelation":
        """From the moments of joined rows, whose first `split` columns are those of $x$."""
        check(penalty >= 0, "penalty", "zero or positive", penalty)
        cov = moments.cov()
        first, second = _whitener(cov[:split, :split], penalty), _whitener(cov[split:, split:], penalty)
        most = min(first.shape[1], second.shape[1])
        check(most >= 1, "X", "tables that vary, both of them", "one of constants")
        k = most if num_components is None else check_count("num_components", num_components, 1, most)
        left, values, right = np.linalg.svd(first.T @ cov[:split, split:] @ second, full_matrices=False)
        a, b = first @ left, second @ right.T
        turn = np.sign((signed(a.T) * a.T).sum(1))
        a, b, values = a * turn, b * turn, np.minimum(values, 1.0)
        root = np.sqrt(values[:k])
        p_values = _bartlett(values, float(moments.count), first.shape[1], second.shape[1])[:k]
        loadings = cov[:split, :split] @ a[:, :k] * root, cov[split:, split:] @ b[:, :k] * root
        return cls(
            moments.mean[:split], moments.mean[split:], a[:, :k], b[:, :k], values[:k], p_values, *loadings,
            np.asarray(moments.count),
        )  # fmt: skip

    def transform(self, X: Any) -> Values:
        """The variates of rows of the first table."""
        return (points(X, self.x_mean.shape[0]) - self.x_mean[None]) @ self.x_weights

    def transform_other(self, Y: Any) -> Values:
        """The variates of rows of the second table."""
        return (points(Y, self.y_mean.shape[0], name="Y") - self.y_mean[None]) @ self.y_weights


def _whitener(cov: np.ndarray, penalty: float | int) -> np.ndarray:
    """A matrix with one column for each direction that varies, of unit variance and uncorrelated."""
    unit = np.sqrt(np.diag(cov))
    unit = np.where(unit > 0, unit, 1.0)
    scaled = cov / np.outer(unit, unit) if penalty == 0 else cov
    scaled = scaled + penalty * np.diag(cov).mean() * np.eye(len(cov))
    values, vectors = np.linalg.eigh(scaled)
    kept = values > len(cov) * _LEAST * max(values[-1], 0.0)
    found = vectors[:, kept] / np.sqrt(values[kept])
    return found / unit[:, None] if penalty == 0 else found


def _bartlett(correlations: np.ndarray, n: float, p: int, q: int) -> np.ndarray:
    from scipy.stats import chi2

    with np.errstate(divide="ignore"):
        logs = np.log1p(-(correlations**2))
    statistic = -(n - 1 - (p + q + 1) / 2) * np.cumsum(logs[::-1])[::-1]
    places = np.arange(len(correlations))
    return np.asarray(chi2.sf(np.maximum(statistic, 0.0), (p - places) * (q - places)))
