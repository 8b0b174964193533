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

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, has_values
from tractable.core.estimate import Estimate
from tractable.core.factors import normal_log_density
from tractable.core.linalg import symmetrise
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar, Shape
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.gp.blocks import rowwise
from tractable.gp.conjugate_gradients import (
    Iterative,
    Solved,
    System,
    conjugate_gradients,
    log_quadrature,
    preconditioned,
    system_of,
)
from tractable.gp.points import Observed, as_points, log_copies, pad_points
from tractable.gp.prior import covariance, means, prior_variances

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

    @property
    def observed(self) -> Observed:
        """The rows seen."""
        return self.system.observed

    @property
    def log_evidence(self) -> Scalar:
        r"""The estimate of $\log p(y \mid X)$; `evidence.standard_error` is its error."""
        fix = "Pass `key=` to the posterior."
        check(self.evidence is not None, "key", "given for an estimate of the evidence", None, fix)
        return self.evidence.value  # pyright: ignore[reportOptionalMemberAccess]

    def mean(self, X: ArrayLike) -> Array:
        """The posterior mean at each row."""
        return rowwise(_mean, self, X, self.observed.X.shape[1])

    def latent(self, X: ArrayLike) -> Normal:
        """The function at each row; each block of 64 rows is a solve of its own, to `tol`: a variance below
        `tol` times that of the prior is given as that.
        """
        mean, variance = self._moments(as_points("X", X, self.observed.X.shape[1]))
        return Normal(mean, jnp.sqrt(variance))

    def predict_dist(self, X: ArrayLike) -> Normal:
        """A new target at each row."""
        rows = as_points("X", X, self.observed.X.shape[1])
        mean, variance = self._moments(rows)
        return Normal(mean, jnp.sqrt(variance + self.process.noise.at(rows)))

    def joint(self, X: ArrayLike) -> Gaussian:
        """The joint distribution of the function at rows, all in one solve: for hundreds of them."""
        rows = as_points("X", X, self.observed.X.shape[1])
        cov, n = np.asarray(_covariance(self, pad_points(rows))), len(rows)
        return Gaussian(self.mean(rows), cov[:n, :n])

    def sample(self, key: Key, X: ArrayLike, shape: Shape = ()) -> Array:
        """Joint draws of the function at rows, of shape `shape + (n,)`."""
        return self.joint(X).sample(key, shape)

    def _moments(self, rows: Array) -> tuple[Array, Array]:
        blocks = [np.asarray(rows)[i : i + _NEW_ROWS] for i in range(0, len(rows), _NEW_ROWS)]
        found = [_variance(self, pad_points(block, _NEW_ROWS)) for block in blocks]
        variance = np.concatenate([np.asarray(block) for block in found])[: len(rows)]
        return self.mean(rows), jnp.asarray(variance)

    def __repr__(self) -> str:
        if not has_values((self.alpha, self.residual)):
            return "IterativePosterior(...)"
        ok = bool(self.residual <= self.options.tol)
        verdict = "converged" if ok else "NOT converged: raise `rank` or `max_steps`"
        evidence = "" if self.evidence is None else f", log-evidence {self.evidence!r}"
        return (
            f"IterativePosterior({self.observed.num_rows} rows{evidence}; conjugate gradients, {verdict} in "
            f"{int(self.num_steps)} steps to a relative residual of {float(self.residual):.1e})"
        )


def iterative_posterior(
    process: Any, observed: Observed, key: Key | None = None, options: Iterative | None = None
) -> IterativePosterior:
    """The posterior by conjugate gradients; with a `key`, also the estimate of the evidence."""
    options = Iterative() if options is None else options
    smallest = float(np.min(np.asarray(process.noise.variances(observed.X, observed.weights))))
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
    slope = 0.5 * (left * moved).sum() - alpha @ _residual(process, observed) - 0.5 * here.near.log_det()
    slope = slope + 0.5 * sum(part.sum() for part in approximate) / count
    slope = slope + log_copies(process.noise.variances(observed.X, observed.weights), observed)
    return Estimate(estimate.value + slope - jax.lax.stop_gradient(slope), estimate.standard_error)


@eqx.filter_jit
def _posterior(process: Any, observed: Observed, key: Key | None, options: Iterative) -> IterativePosterior:
    system = system_of(process, observed, options)
    if key is None:
        evidence = None
        solved = conjugate_gradients(system, _residual(process, observed)[:, None], options)
    else:  # the targets and the probes in one solve
        evidence, solved, _ = _evidence(system, key, options)
    return IterativePosterior(
        process, system, solved.X[:, 0], solved.residual, solved.steps, evidence, options
    )


def _residual(process: Any, observed: Observed) -> Array:
    return jnp.where(observed.present, observed.y - means(process.mean, observed.X), 0.0)


def _evidence(system: System, key: Key, options: Iterative) -> tuple[Estimate, Solved, Array]:
    """The estimate, the solution for the residual and then the probes, and the preconditioned probes."""
    n, rank = system.near.factor.shape
    first, second = jr.split(key)
    count = options.num_probes
    probes = system.near.factor @ jr.normal(first, (rank, count)) + jnp.sqrt(system.near.diagonal)[
        :, None
    ] * jr.normal(second, (n, count))
    probes = jnp.where(system.observed.present[:, None], probes, 0.0)
    residual = _residual(system.process, system.observed)
    solved = conjugate_gradients(system, jnp.concatenate([residual[:, None], probes], axis=1), options)
    partners = system.near.solve(probes)
    weights = (probes * partners).sum(0)
    logs = weights * jax.vmap(log_quadrature, (1, 1))(solved.lengths[:, 1:], solved.ratios[:, 1:])
    alpha = solved.X[:, 0]
    observed = system.observed
    copies = log_copies(system.process.noise.variances(observed.X, observed.weights), observed)
    log_det = system.near.log_det() + logs.mean()
    value = normal_log_density(residual @ alpha, log_det, observed.present.sum())
    error = 0.5 * logs.std(ddof=1) / jnp.sqrt(count)
    return Estimate(value + copies, error), solved, partners


@eqx.filter_jit
def _mean(post: IterativePosterior, X: Array) -> Array:
    cross = covariance(post.process.kernel, post.process.mean, X, post.observed.X)
    return means(post.process.mean, X) + cross @ jnp.where(post.observed.present, post.alpha, 0.0)


@eqx.filter_jit
def _variance(post: IterativePosterior, X: Array) -> Array:
    cross = covariance(post.process.kernel, post.process.mean, post.observed.X, X)
    cross = jnp.where(post.observed.present[:, None], cross, 0.0)
    solved = conjugate_gradients(post.system, cross, post.options)
    before = prior_variances(post.process.kernel, post.process.mean, X)
    # a solve to `tol` knows a variance no better than this
    return jnp.maximum(before - (cross * solved.X).sum(0), post.options.tol * before)


@eqx.filter_jit
def _covariance(post: IterativePosterior, X: Array) -> Array:
    cross = covariance(post.process.kernel, post.process.mean, post.observed.X, X)
    cross = jnp.where(post.observed.present[:, None], cross, 0.0)
    solved = conjugate_gradients(post.system, cross, post.options)
    before = covariance(post.process.kernel, post.process.mean, X, None)
    return symmetrise(before - cross.T @ solved.X)
