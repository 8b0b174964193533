r"""Gaussian processes by conjugate gradients: tens of thousands of rows, and no factor of their covariance.

Solve.       $K_y\alpha = r$ by preconditioned conjugate gradients (`gp.conjugate_gradients`).
Evidence.    $\log|K_y| = \log|P| + \mathrm{tr}\log(P^{-1/2} K_y P^{-1/2})$; the trace by Lanczos quadrature
             of the same iterations on probes $z_j \sim N(0, P)$, with its standard error.
Gradient.    With $u_j = K_y^{-1} z_j$ and $w_j = P^{-1} z_j$,
             $\partial\log|K_y| = \partial\log|P| + E[u_j^\top\partial K_y w_j
             - w_j^\top\partial P\,w_j]$: unbiased, and almost without noise where $P$ is close to $K_y$.
Certified.   The result says the relative residual of the solve, the steps, and the error of the evidence.
Cost.        $O(n^2)$ per step, a few dozen steps, and $O(n)$ times the rank squared; memory $n^2$ numbers
             while they are held, else $O(n)$ times rank, probes and the rows of a block.
References.  Gardner, Pleiss, Bindel, Weinberger and Wilson (2018); Harbrecht, Peters and Schneider (2012).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check
from tractable.core.chunks import pad_rows
from tractable.core.estimate import Estimate
from tractable.core.factors import normal_log_density
from tractable.core.linalg import symmetrise
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.rows import Rows
from tractable.core.types import Array, Float, Int, Key, Scalar, Shape
from tractable.core.verdict import Verdict
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.gp.conjugate_gradients import (
    Iterative,
    Solved,
    System,
    conjugate_gradients,
    log_quadrature,
    preconditioned,
    system_of,
)
from tractable.gp.points import Observed, Table, log_copies, rowwise
from tractable.gp.prior import covariance, means, prior_variances, residuals

__all__ = ["IterativePosterior", "iterative_evidence", "iterative_posterior"]

_NEW_ROWS = 64  # new rows whose variances are solved for at once


class IterativePosterior(Module):
    """A Gaussian process after seeing many rows; it says how far its solve and its evidence can be
    trusted.
    """

    process: Any
    system: System
    alpha: Float[Array, " n"]
    residual: Scalar
    num_steps: Int[Array, ""]
    evidence: Estimate | None
    options: Iterative

    _shown = ("num_rows", "evidence", "process")

    @property
    def observed(self) -> Observed:
        """The rows seen."""
        return self.system.observed

    @property
    def num_rows(self) -> int:
        """How many rows were seen."""
        return self.observed.num_rows

    @property
    def dim(self) -> int:
        """The number of columns of a row."""
        return self.observed.X.shape[1]

    @property
    def log_evidence(self) -> Scalar:
        r"""The estimate of $\log p(y \mid X)$; `evidence.standard_error` is its error."""
        fix = "Pass `key=` to the posterior."
        check(self.evidence is not None, "key", "given for an estimate of the evidence", None, fix)
        return self.evidence.value  # pyright: ignore[reportOptionalMemberAccess]

    @property
    def verdict(self) -> Verdict:
        """Whether the solve reached its tolerance."""
        steps, residual = int(self.num_steps), float(self.residual)
        ok = residual <= self.options.tol
        how = "converged" if ok else "did NOT converge (raise `rank` or `max_steps`)"
        said = f"Conjugate gradients {how} in {steps} steps to a relative residual of {residual:.1e}."
        return Verdict(ok, said, {"residual": residual, "num_steps": steps})

    def mean(self, X: Table) -> Array:
        """The posterior mean at each row."""
        return rowwise(_mean, self, X, self.dim)

    def latent(self, X: Table) -> Normal:
        """The function at each row; each block of 64 rows is a solve of its own, to `tol`: a variance below
        `tol` times that of the prior is given as that.
        """
        return self._normal(X, lambda rows: 0.0)

    def predict_dist(self, X: Table) -> Normal:
        """A new target at each row."""
        return self._normal(X, self.process.noise.at)

    def joint(self, X: Table) -> Gaussian:
        """The joint distribution of the function at rows, all in one solve: for hundreds of them."""
        rows = Rows.of(X, num_columns=self.dim)
        cov, n = np.asarray(_covariance(self, pad_rows(rows.X)[0])), rows.num_rows
        return Gaussian(self.mean(rows), cov[:n, :n])

    def sample(self, key: Key, X: Table, shape: Shape = ()) -> Array:
        """Joint draws of the function at rows, of shape `shape + (n,)`."""
        return self.joint(X).sample(key, shape)

    def _normal(self, X: Table, noise: Callable) -> Normal:
        rows = Rows.of(X, num_columns=self.dim)
        variance = rowwise(_variance, self, rows, self.dim, _NEW_ROWS)
        return Normal(self.mean(rows), jnp.sqrt(variance + noise(rows.X)))


def iterative_posterior(
    process: Any, observed: Observed, key: Key | None = None, options: Iterative | None = None
) -> IterativePosterior:
    """The posterior by conjugate gradients; with a `key`, also the estimate of the evidence."""
    options = Iterative() if options is None else options
    smallest = float(np.min(np.asarray(process.noise.variances(observed.X))))
    fix = "Conjugate gradients need noise: raise it, or use fewer rows and `method='exact'`."
    check(smallest > 0, "noise", "positive for the iterative method", smallest, fix)
    return _posterior(process, observed, key, options)


def iterative_evidence(process: Any, observed: Observed, key: Key, options: Iterative) -> Estimate:
    """The estimate of the log-evidence, differentiable in the process: its gradient is the unbiased one."""
    system = system_of(jax.lax.stop_gradient(process), observed, options)
    estimate, solved, partners = _evidence(system, key, options)
    alpha, images = solved.X[:, 0], solved.X[:, 1:]
    count = images.shape[1]
    left = jnp.concatenate([alpha[:, None], images], axis=1)
    right = jnp.concatenate([alpha[:, None], -partners / count], axis=1)
    here = preconditioned(process, observed, system.pivots)
    approximate = (here.near.factor.T @ partners) ** 2, here.near.diagonal[:, None] * partners**2
    moved = here.product(right)
    slope = 0.5 * (left * moved).sum() - alpha @ residuals(process, observed) - 0.5 * here.near.log_det()
    slope = slope + 0.5 * sum(part.sum() for part in approximate) / count
    slope = slope + log_copies(process.noise.variances(observed.X), observed)
    return Estimate(estimate.value + slope - jax.lax.stop_gradient(slope), estimate.standard_error)


@program
def _posterior(process: Any, observed: Observed, key: Key | None, options: Iterative) -> IterativePosterior:
    system = system_of(process, observed, options)
    if key is None:
        evidence = None
        solved = conjugate_gradients(system, residuals(process, observed)[:, None], options)
    else:  # the targets and the probes in one solve
        evidence, solved, _ = _evidence(system, key, options)
    return IterativePosterior(
        process, system, solved.X[:, 0], solved.residual, solved.steps, evidence, options
    )


def _evidence(system: System, key: Key, options: Iterative) -> tuple[Estimate, Solved, Array]:
    """The estimate, the solution for the residual and then the probes, and the preconditioned probes."""
    n, rank = system.near.factor.shape
    first, second = jr.split(key)
    count = options.num_probes
    probes = system.near.factor @ jr.normal(first, (rank, count)) + jnp.sqrt(system.near.diagonal)[
        :, None
    ] * jr.normal(second, (n, count))
    probes = jnp.where(system.observed.present[:, None], probes, 0.0)
    residual = residuals(system.process, system.observed)
    solved = conjugate_gradients(system, jnp.concatenate([residual[:, None], probes], axis=1), options)
    partners = system.near.solve(probes)
    weights = (probes * partners).sum(0)
    logs = weights * jax.vmap(log_quadrature, (1, 1))(solved.lengths[:, 1:], solved.ratios[:, 1:])
    alpha = solved.X[:, 0]
    observed = system.observed
    copies = log_copies(system.process.noise.variances(observed.X), observed)
    log_det = system.near.log_det() + logs.mean()
    value = normal_log_density(residual @ alpha, log_det, observed.present.sum())
    error = 0.5 * logs.std(ddof=1) / jnp.sqrt(count)
    return Estimate(value + copies, error), solved, partners


@program
def _mean(post: IterativePosterior, X: Array) -> Array:
    weights = jnp.where(post.observed.present, post.alpha, 0.0)
    return means(post.process, X) + covariance(post.process, X, post.observed.X) @ weights


@program
def _variance(post: IterativePosterior, X: Array) -> Array:
    cross, solved = _solved(post, X)
    before = prior_variances(post.process, X)
    # a solve to `tol` knows a variance no better than this
    return jnp.maximum(before - (cross * solved).sum(0), post.options.tol * before)


@program
def _covariance(post: IterativePosterior, X: Array) -> Array:
    cross, solved = _solved(post, X)
    return symmetrise(covariance(post.process, X) - cross.T @ solved)


def _solved(post: IterativePosterior, X: Array) -> tuple[Array, Array]:
    """The covariance of the rows seen with new ones, before and after the solve."""
    cross = covariance(post.process, post.observed.X, X)
    cross = jnp.where(post.observed.present[:, None], cross, 0.0)
    return cross, conjugate_gradients(post.system, cross, post.options).X
