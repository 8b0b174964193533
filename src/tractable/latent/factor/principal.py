r"""Principal components: the orthonormal directions that keep most variance, and lose least.

Model.       $\bar x$ and $\Sigma = \frac1n\sum_i (x_i - \bar x)(x_i - \bar x)^\top$; $u_1, u_2, \dots$ are
             the eigenvectors of $\Sigma$, $\lambda_1 \ge \lambda_2 \ge \dots$ their variances.
Coordinates. $z_i = u_i^\top(x - \bar x)$ for $i \le m$, and $\tilde x = \bar x + \sum_{i \le m} z_i u_i$.
Two views.   $\|x - \bar x\|^2 = \|\tilde x - \bar x\|^2 + \|x - \tilde x\|^2$: most variance kept is least
             error, $E_m = \frac12\sum_n\|x_n - \tilde x_n\|^2 = \frac n2\sum_{i > m}\lambda_i$, which no
             other subspace of $m$ dimensions beats, and any basis of this one attains.
Statistics.  Weight, mean and scatter, which add over rows (`core.moments`): in memory, in chunks, and under
             `inference.EM` or on a cluster (`e_step`, `m_step`: two passes, one more to see that it is over).
Cost.        $O(nd^2 + d^3)$; for other solvers see `latent.factor.solvers`.
References.  Pearson (1901); Hotelling (1933); Jolliffe (2002).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_option, namespace
from tractable.core.chunks import Chunks, chunks
from tractable.core.iterate import Status
from tractable.core.keys import takes_key
from tractable.core.linalg import symmetrise
from tractable.core.module import Module, field
from tractable.core.moments import (
    ColumnMoments,
    Moments,
    column_moments,
    moments_of,
    moments_of_chunks,
    shifted_products,
)
from tractable.core.rows import Rows, points
from tractable.core.types import Array, Key, Values
from tractable.core.verdict import Verdict
from tractable.latent.factor.solvers import (
    Directions,
    by_eigen,
    by_power,
    by_randomised,
    by_svd,
    leading_eigen,
)

__all__ = ["PrincipalComponents", "VarianceSplit", "moments_from", "num_directions", "split_variance"]

_CHUNK = 1 << 17
_SOLVERS = ("auto", "eigen", "svd", "power", "randomised")


class VarianceSplit(NamedTuple):
    """Mean squares about the mean: in a subspace, outside it, and in all."""

    captured: Any
    residual: Any
    total: Any


class PrincipalComponents(Module):
    r"""The mean $\bar x$, directions $u_i$ (rows of `components`) and variances $\lambda_i$ of a table.

    `scale` is the unit of each column: ones, or standard deviations where columns were standardised.

    >>> rows = np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0], [6.0, 6.0]])
    >>> found = PrincipalComponents.fit(rows, 1)
    >>> found.components.round(4).tolist(), found.variances.round(4).tolist()
    ([[0.7071, 0.7071]], [10.0])
    """

    mean: Values = field(show=False)
    scale: Values = field(show=False)
    components: Values = field(show=False)  # (k, d), orthonormal rows
    variances: Values = field(about="along each direction, the largest first")
    total_variance: Any = field(about="of all columns")
    count: Any = field(about="rows, by weight")
    ddof: float | int = field(static=True, show=False, default=0.0)
    code: Any = field(show=False, default=int(Status.converged))  # how power iteration ended

    @classmethod
    @takes_key
    def fit(
        cls, X: Any, num_components: int | None = None, *, weights: Any = None, standardise: bool = False,
        solver: str = "auto", ddof: float | int = 0, key: Key | None = None, max_steps: int = 10_000,
        tol: float | int = 1e-10,
    ) -> "PrincipalComponents":  # fmt: skip
        """The components of rows in memory (an array, a data frame, a memory map) or of `Chunks`.

        `solver` is "eigen" (from the covariance), "svd", "power" (with deflation, to `tol` in at most
        `max_steps` each), "randomised" (which needs a `key`) or "auto": "eigen", where there are at least as
        many rows as columns and for chunks, else "svd". All give the same directions and signs.
        """
        check_option("solver", solver, _SOLVERS)
        options = {"standardise": standardise, "ddof": ddof}
        iteration = {"max_steps": max_steps, "tol": tol}
        if isinstance(X, np.memmap) and solver in ("auto", "eigen", "power"):
            X = chunks(X, _CHUNK, weights)  # a table in a file is read once, and never in memory as a whole
        if isinstance(X, Chunks):
            must = "'eigen' or 'power' where rows are streamed"
            check(solver in ("auto", "eigen", "power"), "solver", must, repr(solver))
            chosen = "eigen" if solver == "auto" else solver
            return cls.from_moments(
                moments_of_chunks(X), num_components, solver=chosen, **options, **iteration
            )
        rows = Rows.of(X, None, weights)
        count = num_directions(rows.X) if num_components is None else num_components
        count = check_count("num_components", count, 1, rows.num_columns)
        if solver == "auto":
            solver = "svd" if count <= rows.num_rows < rows.num_columns else "eigen"
        if solver in ("eigen", "power"):
            return cls.from_moments(moments_from(rows), count, solver=solver, **options, **iteration)
        return _from_rows(rows, count, solver, standardise, float(ddof), key)

    @classmethod
    def from_moments(
        cls, moments: Moments, num_components: int | None = None, *, standardise: bool = False,
        ddof: float | int = 0, solver: str = "eigen", max_steps: int = 10_000, tol: float | int = 1e-10,
    ) -> "PrincipalComponents":  # fmt: skip
        """The components of rows of which only weight, mean and scatter are known, which add."""
        count = check_count("num_components", num_components or moments.dim, 1, moments.dim)
        check(moments.count > ddof, "weights", f"more than ddof = {ddof} in total", moments.count)
        scale = _units(moments, standardise)
        cov = moments.cov(ddof) / np.outer(scale, scale)
        code = Status.converged
        if solver == "power":
            found, code = by_power(cov, count, max_steps=max_steps, tol=tol)
        else:
            found = by_eigen(cov, count)
        return _made(found, moments, scale, np.trace(cov), float(ddof), code)

    @classmethod
    def start(cls, dim: int, num_components: int) -> "PrincipalComponents":
        """Any `num_components` directions: where `inference.EM` (in chunks, or on a cluster) begins."""
        dim = check_count("dim", dim)
        eye = jnp.eye(dim)[: check_count("num_components", num_components, 1, dim)]
        one = jnp.ones(())
        return cls(jnp.zeros(dim), jnp.ones(dim), eye, jnp.ones(len(eye)), one * dim, one)

    def transform(self, X: Any) -> Values:
        """The coordinates of each row along the directions."""
        x = points(X, self.mean.shape[0])
        return self._rest(x) @ self.components.T

    def inverse(self, Z: Any) -> Values:
        """The point of the subspace that has these coordinates, in the units of the columns."""
        z = points(Z, self.components.shape[0], name="Z")
        return self.mean[None] + (z @ self.components) * self.scale[None]

    def reconstruct(self, X: Any) -> Values:
        """The point of the subspace nearest to each row."""
        return self.inverse(self.transform(X))

    def whiten(self, X: Any) -> Values:
        """Coordinates of unit variance."""
        xp = namespace(self, X)
        least = 1e-14 * self.variances[0]
        ok = self.variances > least
        if xp is np:
            check(
                bool(np.all(ok)),
                "variances",
                "positive to be whitened",
                f"{np.asarray(self.variances).min()}",
            )
        return self.transform(X) / xp.sqrt(self.variances)[None]

    def split(self, X: Any, weights: Any = None) -> VarianceSplit:
        """How much of the mean squares of rows about the mean is in the subspace, and how much is not."""
        rows = Rows.of(X, None, weights, num_columns=self.mean.shape[0])
        return split_variance(self._rest(rows.X), self.components, rows.weights)

    @property
    def explained_ratio(self) -> Values:
        """The share of each direction in the variance of all columns (zero where there is none)."""
        xp = namespace(self)
        return self.variances / xp.where(self.total_variance > 0, self.total_variance, 1.0)

    @property
    def residual_variance(self) -> Any:
        r"""$\sum_{i > m}\lambda_i$: what is outside the subspace."""
        xp = namespace(self)
        left = self.total_variance - self.variances.sum()
        # a difference of sums of as many terms, none of them known better than to their rounding
        rounding = 4 * self.mean.shape[0] * np.finfo(float).eps * self.total_variance
        return xp.where(left > rounding, left, 0.0)

    @property
    def reconstruction_error(self) -> Any:
        r"""$E_m = \frac12\sum_n\|x_n - \tilde x_n\|^2 = \frac n2\sum_{i > m}\lambda_i$."""
        return 0.5 * (self.count - self.ddof) * self.residual_variance

    @property
    def verdict(self) -> Verdict:
        """What the directions keep."""
        status, share = Status(int(self.code)), float(np.sum(self.explained_ratio))
        kept = (
            f"{len(self.variances)} of {len(self.mean)} directions keep {100 * share:.4g} % of the variance."
        )
        return Verdict(status.ok, kept if status.ok else status.sentence, {"explained": share})

    def e_step(self, rows: Values, weights: Values) -> tuple[Any, Array]:
        r"""Sums about the present mean, and $-\frac12\sum_n w_n\|x_n - \tilde x_n\|^2$: both add."""
        rest = jnp.where(weights[:, None] > 0, (rows - self.mean[None]) / self.scale[None], 0.0)
        lost = rest - (rest @ self.components.T) @ self.components
        return shifted_products(rows, weights, jnp.asarray(self.mean)), -0.5 * (weights @ (lost**2).sum(1))

    def m_step(self, stats: Any) -> "PrincipalComponents":
        """The components of all rows that were added up."""
        count, first, second = stats
        gap = first / count
        cov = symmetrise(second / count - gap[:, None] * gap[None]) / (self.scale[:, None] * self.scale[None])
        found = leading_eigen(cov, self.components.shape[0])
        return PrincipalComponents(self.mean + gap, self.scale, *found, jnp.trace(cov), count)

    def _rest(self, x: Values) -> Values:
        return (x - self.mean[None]) / self.scale[None]


def split_variance(rest: Values, basis: Values, weights: Any = None) -> VarianceSplit:
    """The mean squares of centred rows inside the span of orthonormal `basis` rows, outside it, and in all.

    >>> split_variance(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]))
    VarianceSplit(captured=9.0, residual=16.0, total=25.0)
    """
    xp = namespace(rest, basis, weights)
    shares = xp.ones(len(rest)) / len(rest) if weights is None else weights / weights.sum()
    inside = (rest @ basis.T) @ basis
    parts = [shares @ (table**2).sum(1) for table in (inside, rest - inside, rest)]
    return VarianceSplit(*(float(part) if xp is np else part for part in parts))


def num_directions(rows: Values) -> int:
    """How many directions rows can vary along: one less than there are distinct rows, from one to all
    columns."""
    table = np.asarray(rows)
    most = table.shape[1]
    few = np.unique(table[: 4 * (most + 1)], axis=0)
    distinct = len(few) if len(few) > most else len(np.unique(table, axis=0))
    return min(max(distinct - 1, 1), most)


def moments_from(rows: Rows) -> Moments:
    """The moments of checked rows."""
    X, weights = np.asarray(rows.X), np.asarray(rows.weights)
    found = moments_of(X, weights if rows.is_weighted else None)
    ok = np.isfinite(found.squares)
    fix = "Give it in other units."
    if not ok.all():
        check(
            False,
            "X",
            "numbers whose squares have a sum",
            f"larger ones in {rows.where(int(ok.argmin()))}",
            fix,
        )
    return found


def _from_rows(
    rows: Rows, count: int, solver: str, standardise: bool, ddof: float | int, key: Any
) -> PrincipalComponents:
    """Without the covariance, which is large where there are many columns."""
    X, weights = np.asarray(rows.X), np.asarray(rows.weights) if rows.is_weighted else None
    level = column_moments(X, weights)
    check(level.count > ddof, "weights", f"more than ddof = {ddof} in total", level.count)
    scale, total = _units(level, standardise), float(level.count) - ddof
    if solver == "randomised":
        check(key is not None, "key", "given where the solver is 'randomised'", None, "Write `key=0`.")
        table = X if not standardise else X / scale
        found = by_randomised(table, level.mean / scale, weights, total, count, key)
    else:
        rest = (X - level.mean) / scale
        found = by_svd(rest if weights is None else rest * np.sqrt(weights)[:, None], total, count)
    return _made(found, level, scale, (level.squares / scale**2).sum() / total, ddof, Status.converged)


def _made(
    found: Directions,
    moments: Moments | ColumnMoments,
    scale: np.ndarray,
    total: Any,
    ddof: float | int,
    code: Status,
) -> PrincipalComponents:
    return PrincipalComponents(
        moments.mean, scale, *found, np.asarray(total), np.asarray(moments.count), ddof, np.asarray(int(code))
    )


def _units(moments: Moments | ColumnMoments, standardise: bool) -> np.ndarray:
    """Standard deviations; one for a column that is constant, which then says nothing."""
    spread = np.sqrt(moments.squares / moments.count)
    return np.where(spread > 0, spread, 1.0) if standardise else np.ones(len(spread))
