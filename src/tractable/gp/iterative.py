r"""Gaussian processes by conjugate gradients: tens of thousands of rows, and no factor of their covariance.

Solve.       $K_y\alpha = r$ by preconditioned conjugate gradients; products with $K_y$ go by blocks of rows,
             which are held during the solve up to 4 GB (20,000 rows), and computed anew above.
             The preconditioner is $P = K_{:S} K_{SS}^{-1} K_{S:} + D$ with the rows $S$ that a pivoted
             Cholesky factor of $K$ chooses: one for each 32 rows, since a rough kernel (Matern 3/2) takes
             fewer steps the more there are.
Evidence.    $\log|K_y| = \log|P| + \mathrm{tr}\log(P^{-1/2} K_y P^{-1/2})$; the trace by Lanczos quadrature
             of the same iterations on probes $z_j \sim N(0, P)$, with its standard error.
Gradient.    With $u_j = K_y^{-1} z_j$ and $w_j = P^{-1} z_j$,
             $\partial\log|K_y| = \partial\log|P| + E[u_j^\top\partial K_y w_j
             - w_j^\top\partial P\,w_j]$: unbiased, and almost without noise where $P$ is close to $K_y$.
Certified.   The result says the relative residual of the solve, the steps, and the error of the evidence.
Used by.     gp.regression above 6000 rows, gp.hyperparameters.
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
from tractable.core.iterate import run_until
from tractable.core.linalg import PsdFactor, pivoted_cholesky, psd_factor, symmetrise
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar, Shape
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.gp.evidence import constant_term
from tractable.gp.points import Observed, as_points, log_copies, pad_points
from tractable.gp.prior import covariance, means, prior_variances

__all__ = ["Iterative", "IterativePosterior", "iterative_evidence", "iterative_posterior"]

_BLOCK = 256  # rows of the covariance that are computed at a time
_CANDIDATES = 2048  # rows of which the preconditioner may take any
_NEW_ROWS = 64  # new rows whose variances are solved for at once


class Iterative(Module):
    """Options: rank of the preconditioner (None: one for each 32 rows, from 128 to 1024), relative residual,
    most steps, number of probes, and the memory in GB up to which the covariance is held during a solve.
    """

    rank: int | None = field(static=True, default=None)
    tol: float = field(static=True, default=1e-6)
    max_steps: int = field(static=True, default=400)
    num_probes: int = field(static=True, default=16)
    memory: float = field(static=True, default=4.0)


class _System(Module):
    """$K_y$ as products by blocks, with its preconditioner."""

    process: Any
    observed: Observed
    pivots: Int[Array, " r"]
    diagonal: Float[Array, " n"]
    low_rank: Float[Array, "n r"]
    middle: PsdFactor  # of I + L^T D^-1 L, made once for all steps

    def product(self, V: Float[Array, "n k"], held: Array | None = None) -> Float[Array, "n k"]:
        """$K_y V$; rows that do not count keep their values. `held` is $K$ where there is memory for it."""
        return _kernel_product(self.process, self.observed, V, held) + self.diagonal[:, None] * V

    def precondition(self, V: Float[Array, "n k"]) -> Float[Array, "n k"]:
        r"""$P^{-1} V$."""
        scaled = V / self.diagonal[:, None]
        inner = self.middle.solve(self.low_rank.T @ scaled)
        return scaled - (self.low_rank @ inner) / self.diagonal[:, None]

    def log_det(self) -> Scalar:
        r"""$\log|P|$."""
        return jnp.log(self.diagonal).sum() + self.middle.log_det()


class _Solved(Module):
    """Where conjugate gradients stand: solutions, and the coefficients of their tridiagonal matrices."""

    X: Float[Array, "n k"]
    R: Float[Array, "n k"]
    P: Float[Array, "n k"]
    rz: Float[Array, " k"]
    steps: Int[Array, ""]
    lengths: Float[Array, "m k"]
    ratios: Float[Array, "m k"]
    residual: Scalar


class IterativePosterior(Module):
    """A Gaussian process after seeing many rows; it says how far its solve and its evidence can be
    trusted.
    """

    process: Any
    system: _System
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
        rows = as_points("X", X, self.observed.X.shape[1])
        return jnp.asarray(np.asarray(_mean(self, pad_points(rows)))[: len(rows)])

    def latent(self, X: ArrayLike) -> Normal:
        """The function at each row; each block of 64 rows is a solve of its own."""
        mean, variance = self._moments(as_points("X", X, self.observed.X.shape[1]))
        return Normal(mean, jnp.sqrt(variance))

    def predictive(self, X: ArrayLike) -> Normal:
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
    system = _system(jax.lax.stop_gradient(process), observed, options)
    estimate, solved, partners = _evidence(system, key, options)
    alpha, images = solved.X[:, 0], solved.X[:, 1:]
    count = images.shape[1]
    left = jnp.concatenate([alpha[:, None], images], axis=1)
    right = jnp.concatenate([alpha[:, None], -partners / count], axis=1)
    here = _preconditioned(process, observed, system.pivots)
    approximate = (here.low_rank.T @ partners) ** 2, here.diagonal[:, None] * partners**2
    moved = here.product(right)
    slope = 0.5 * (left * moved).sum() - alpha @ _residual(process, observed) - 0.5 * here.log_det()
    slope = slope + 0.5 * sum(part.sum() for part in approximate) / count
    slope = slope + log_copies(process.noise.variances(observed.X, observed.weights), observed)
    return Estimate(estimate.value + slope - jax.lax.stop_gradient(slope), estimate.standard_error)


@eqx.filter_jit
def _posterior(process: Any, observed: Observed, key: Key | None, options: Iterative) -> IterativePosterior:
    system = _system(process, observed, options)
    if key is None:
        evidence = None
        solved = _conjugate_gradients(system, _residual(process, observed)[:, None], options)
    else:  # the targets and the probes in one solve
        evidence, solved, _ = _evidence(system, key, options)
    return IterativePosterior(
        process, system, solved.X[:, 0], solved.residual, solved.steps, evidence, options
    )


def _residual(process: Any, observed: Observed) -> Array:
    return jnp.where(observed.present, observed.y - means(process.mean, observed.X), 0.0)


def _system(process: Any, observed: Observed, options: Iterative) -> _System:
    n = observed.X.shape[0]
    rank = min(max(n // 32, 128), 1024) if options.rank is None else options.rank
    pivots = _pivots(process, observed, min(rank, n))
    return _preconditioned(process, observed, pivots)


def _preconditioned(process: Any, observed: Observed, pivots: Int[Array, " r"]) -> _System:
    """The system with the preconditioner of some rows; differentiable in the process."""
    noise = process.noise.variances(observed.X, observed.weights) / observed.safe_weights()
    diagonal = jnp.where(observed.present, noise, 1.0)
    chosen = observed.X[pivots]
    among = covariance(process.kernel, process.mean, chosen, None)
    # the jitter is the preconditioner's: it changes the number of steps, and no answer
    factor = psd_factor(among, jitter=1e-9)
    cross = covariance(process.kernel, process.mean, chosen, observed.X)
    low_rank = jnp.where(observed.present[:, None], factor.half_solve(cross).T, 0.0)
    middle = jnp.eye(len(pivots)) + low_rank.T @ (low_rank / diagonal[:, None])
    return _System(process, observed, pivots, diagonal, low_rank, psd_factor(middle))


def _pivots(process: Any, observed: Observed, rank: int) -> Int[Array, " r"]:
    """The rows that a pivoted Cholesky factor of $K$ takes first, the largest remaining variance each time:
    of all rows, or of four times as many as it takes, at even steps.
    """
    n = observed.X.shape[0]
    among = jnp.asarray(np.linspace(0, n - 1, min(n, max(4 * rank, _CANDIDATES))).astype(int))
    X, present = observed.X[among], observed.present[among]

    def column(pivot: Array) -> Array:
        return jnp.where(present, covariance(process.kernel, process.mean, X, X[pivot][None])[:, 0], 0.0)

    variances = jnp.where(present, prior_variances(process.kernel, process.mean, X), 0.0)
    return among[pivoted_cholesky(column, variances, rank, tol=1e-12).indices]


def _strips(observed: Observed) -> Float[Array, "c b d"]:
    """The rows by blocks, the last one filled with copies."""
    X, n = observed.X, observed.X.shape[0]
    size = min(_BLOCK, n)
    count = -(-n // size)
    padded = jnp.concatenate([X, jnp.broadcast_to(X[-1:], (count * size - n, X.shape[1]))])
    return padded.reshape(count, size, -1)


def _held(process: Any, observed: Observed, options: Iterative) -> Array | None:
    """$K$ by blocks of rows, if there is `memory` for it; else None, and each product computes it anew."""
    X = observed.X
    if X.shape[0] ** 2 * X.dtype.itemsize > options.memory * 1e9:
        return None
    return jax.lax.map(lambda rows: covariance(process.kernel, process.mean, rows, X), _strips(observed))


def _kernel_product(
    process: Any, observed: Observed, V: Float[Array, "n k"], held: Array | None
) -> Float[Array, "n k"]:
    """$K V$ by blocks of rows: those `held`, or computed and forgotten (in gradients too)."""
    X, n = observed.X, observed.X.shape[0]
    hidden = jnp.where(observed.present[:, None], V, 0.0)

    @jax.checkpoint
    def block(rows: Array) -> Array:
        return covariance(process.kernel, process.mean, rows, X) @ hidden

    strips = _strips(observed) if held is None else held
    product = jax.lax.map(block if held is None else lambda table: table @ hidden, strips)
    return jnp.where(observed.present[:, None], product.reshape(-1, V.shape[1])[:n], 0.0)


def _conjugate_gradients(system: _System, B: Float[Array, "n k"], options: Iterative) -> _Solved:
    """$K_y^{-1} B$, all columns together; a column that is solved to rounding rests."""
    scale = jnp.linalg.norm(B, axis=0)
    safe = jnp.where(scale > 0, scale, 1.0)
    Z = system.precondition(B)
    held = _held(system.process, system.observed, options)
    empty = jnp.zeros((options.max_steps, B.shape[1]), B.dtype)
    first = _Solved(
        jnp.zeros_like(B), B, Z, (B * Z).sum(0), jnp.asarray(0), empty, empty, jnp.asarray(1.0, B.dtype)
    )

    def step(state: _Solved) -> tuple[_Solved, Scalar]:
        moving = jnp.linalg.norm(state.R, axis=0) > 1e-13 * safe
        image = system.product(state.P, held)
        curved = (state.P * image).sum(0)
        length = jnp.where(moving, state.rz / jnp.where(moving, curved, 1.0), 0.0)
        X, R = state.X + length[None] * state.P, state.R - length[None] * image
        Z = system.precondition(R)
        rz = (R * Z).sum(0)
        ratio = jnp.where(moving, rz / jnp.where(moving, state.rz, 1.0), 0.0)
        residual = (jnp.linalg.norm(R, axis=0) / safe).max()
        after = _Solved(
            X, R, Z + ratio[None] * state.P, rz, state.steps + 1,
            state.lengths.at[state.steps].set(length), state.ratios.at[state.steps].set(ratio), residual,
        )  # fmt: skip
        return after, residual

    def settled(state: _Solved, value: Scalar, before: Scalar) -> Array:
        return state.residual <= options.tol

    return run_until(step, first, max_steps=options.max_steps, tol=options.tol, settled=settled).state


def _evidence(system: _System, key: Key, options: Iterative) -> tuple[Estimate, _Solved, Array]:
    """The estimate, the solution for the residual and then the probes, and the preconditioned probes."""
    n, rank = system.low_rank.shape
    first, second = jr.split(key)
    count = options.num_probes
    probes = system.low_rank @ jr.normal(first, (rank, count)) + jnp.sqrt(system.diagonal)[
        :, None
    ] * jr.normal(second, (n, count))
    probes = jnp.where(system.observed.present[:, None], probes, 0.0)
    residual = _residual(system.process, system.observed)
    solved = _conjugate_gradients(system, jnp.concatenate([residual[:, None], probes], axis=1), options)
    partners = system.precondition(probes)
    weights = (probes * partners).sum(0)
    logs = weights * jax.vmap(_log_quadrature, (1, 1))(solved.lengths[:, 1:], solved.ratios[:, 1:])
    alpha = solved.X[:, 0]
    observed = system.observed
    copies = log_copies(system.process.noise.variances(observed.X, observed.weights), observed)
    value = -0.5 * (residual @ alpha + system.log_det() + logs.mean()) + constant_term(observed.present)
    error = 0.5 * logs.std(ddof=1) / jnp.sqrt(count)
    return Estimate(value + copies, error), solved, partners


def _log_quadrature(lengths: Float[Array, " m"], ratios: Float[Array, " m"]) -> Scalar:
    r"""$e_1^\top\log(T)\,e_1$ for the tridiagonal matrix of a run of conjugate gradients; unused steps are
    ones.
    """
    used = lengths > 0
    inverse = jnp.where(used, 1 / jnp.where(used, lengths, 1.0), 0.0)
    before = jnp.concatenate([jnp.zeros(1), (ratios * inverse)[:-1]])
    diagonal = jnp.where(used, inverse + before, 1.0)
    linked = used[:-1] & used[1:]
    side = jnp.where(linked, jnp.sqrt(jnp.where(linked, ratios[:-1], 1.0)) * inverse[:-1], 0.0)
    values, vectors = jnp.linalg.eigh(jnp.diag(diagonal) + jnp.diag(side, 1) + jnp.diag(side, -1))
    return (vectors[0] ** 2 * jnp.log(values)).sum()


@eqx.filter_jit
def _mean(post: IterativePosterior, X: Array) -> Array:
    cross = covariance(post.process.kernel, post.process.mean, X, post.observed.X)
    return means(post.process.mean, X) + cross @ jnp.where(post.observed.present, post.alpha, 0.0)


@eqx.filter_jit
def _variance(post: IterativePosterior, X: Array) -> Array:
    cross = covariance(post.process.kernel, post.process.mean, post.observed.X, X)
    cross = jnp.where(post.observed.present[:, None], cross, 0.0)
    solved = _conjugate_gradients(post.system, cross, post.options)
    before = prior_variances(post.process.kernel, post.process.mean, X)
    return jnp.maximum(before - (cross * solved.X).sum(0), post.options.tol * before)


@eqx.filter_jit
def _covariance(post: IterativePosterior, X: Array) -> Array:
    cross = covariance(post.process.kernel, post.process.mean, post.observed.X, X)
    cross = jnp.where(post.observed.present[:, None], cross, 0.0)
    solved = _conjugate_gradients(post.system, cross, post.options)
    before = covariance(post.process.kernel, post.process.mean, X, None)
    return symmetrise(before - cross.T @ solved.X)
