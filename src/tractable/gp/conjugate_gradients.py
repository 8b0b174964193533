r"""Solves with the covariance of many rows by preconditioned conjugate gradients.

Solve.       $K_y X = B$, all columns together; products with $K_y$ go by blocks of rows, which are held
             during the solve up to 4 GB (20,000 rows), and computed anew above.
Nearby.      The preconditioner is $P = K_{:S} K_{SS}^{-1} K_{S:} + D$ with the rows $S$ that a pivoted
             Cholesky factor of $K$ chooses: one for each 32 rows, since a rough kernel (Matern 3/2) takes
             fewer steps the more there are.
Lanczos.     The lengths and ratios of the steps are a tridiagonal matrix $T$ with the spectrum of
             $P^{-1/2} K_y P^{-1/2}$ as a column sees it; $e_1^\top\log(T)\,e_1$ is quadrature of its
             logarithm.
Cost.        $O(n^2)$ per step, a few dozen steps, and $O(n)$ times the rank squared; memory $n^2$ numbers
             while they are held, else $O(n)$ times rank, columns and the rows of a block.
References.  Gardner, Pleiss, Bindel, Weinberger and Wilson (2018); Harbrecht, Peters and Schneider (2012).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.factors import DiagonalPlusLowRank
from tractable.core.iterate import run_until
from tractable.core.linalg import pivoted_cholesky, psd_factor
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Int, Scalar
from tractable.gp.points import Observed
from tractable.gp.prior import covariance, prior_variances

__all__ = [
    "Iterative", "Solved", "System", "conjugate_gradients", "log_quadrature", "preconditioned", "system_of",
]  # fmt: skip

_BLOCK = 256  # rows of the covariance that are computed at a time
_CANDIDATES = 2048  # rows of which the preconditioner may take any


class Iterative(Module):
    """Options: rank of the preconditioner (None: one for each 32 rows, from 128 to 1024), relative residual,
    most steps, number of probes, and the memory in GB up to which the covariance is held during a solve.
    """

    rank: int | None = field(static=True, default=None)
    tol: float = field(static=True, default=1e-6)
    max_steps: int = field(static=True, default=400)
    num_probes: int = field(static=True, default=16)
    memory: float = field(static=True, default=4.0)


class System(Module):
    """$K_y$ as products by blocks, with its preconditioner."""

    process: Any
    observed: Observed
    pivots: Int[Array, " r"]
    near: DiagonalPlusLowRank  # $P$, factorised once for all steps

    def product(self, V: Float[Array, "n k"], held: Array | None = None) -> Float[Array, "n k"]:
        """$K_y V$; rows that do not count keep their values. `held` is $K$ where there is memory for it."""
        return _kernel_product(self.process, self.observed, V, held) + self.near.diagonal[:, None] * V


class Solved(Module):
    """Where conjugate gradients stand: solutions, and the coefficients of their tridiagonal matrices."""

    X: Float[Array, "n k"]
    R: Float[Array, "n k"]
    P: Float[Array, "n k"]
    rz: Float[Array, " k"]
    steps: Int[Array, ""]
    lengths: Float[Array, "m k"]
    ratios: Float[Array, "m k"]
    residual: Scalar


def system_of(process: Any, observed: Observed, options: Iterative) -> System:
    n = observed.X.shape[0]
    rank = min(max(n // 32, 128), 1024) if options.rank is None else options.rank
    pivots = _pivots(process, observed, min(rank, n))
    return preconditioned(process, observed, pivots)


def preconditioned(process: Any, observed: Observed, pivots: Int[Array, " r"]) -> System:
    """The system with the preconditioner of some rows; differentiable in the process."""
    noise = process.noise.variances(observed.X) / observed.safe_weights()
    diagonal = jnp.where(observed.present, noise, 1.0)
    chosen = observed.X[pivots]
    among = covariance(process, chosen)
    # the jitter is the preconditioner's: it changes the number of steps, and no answer
    factor = psd_factor(among, jitter=1e-9)
    cross = covariance(process, chosen, observed.X)
    low_rank = jnp.where(observed.present[:, None], factor.half_solve(cross).T, 0.0)
    return System(process, observed, pivots, DiagonalPlusLowRank(diagonal, low_rank))


def conjugate_gradients(system: System, B: Float[Array, "n k"], options: Iterative) -> Solved:
    """$K_y^{-1} B$, all columns together; a column that is solved to rounding rests."""
    scale = jnp.linalg.norm(B, axis=0)
    safe = jnp.where(scale > 0, scale, 1.0)
    Z = system.near.solve(B)
    held = _held(system.process, system.observed, options)
    empty = jnp.zeros((options.max_steps, B.shape[1]), B.dtype)
    first = Solved(
        jnp.zeros_like(B), B, Z, (B * Z).sum(0), jnp.asarray(0), empty, empty, jnp.asarray(1.0, B.dtype)
    )

    def step(state: Solved) -> tuple[Solved, Scalar]:
        moving = jnp.linalg.norm(state.R, axis=0) > 1e-13 * safe
        image = system.product(state.P, held)
        curved = (state.P * image).sum(0)
        length = jnp.where(moving, state.rz / jnp.where(moving, curved, 1.0), 0.0)
        X, R = state.X + length[None] * state.P, state.R - length[None] * image
        Z = system.near.solve(R)
        rz = (R * Z).sum(0)
        ratio = jnp.where(moving, rz / jnp.where(moving, state.rz, 1.0), 0.0)
        residual = (jnp.linalg.norm(R, axis=0) / safe).max()
        after = Solved(
            X, R, Z + ratio[None] * state.P, rz, state.steps + 1,
            state.lengths.at[state.steps].set(length), state.ratios.at[state.steps].set(ratio), residual,
        )  # fmt: skip
        return after, residual

    def settled(state: Solved, value: Scalar, before: Scalar) -> Array:
        return state.residual <= options.tol

    return run_until(step, first, max_steps=options.max_steps, tol=options.tol, settled=settled).state


def log_quadrature(lengths: Float[Array, " m"], ratios: Float[Array, " m"]) -> Scalar:
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


def _pivots(process: Any, observed: Observed, rank: int) -> Int[Array, " r"]:
    """The rows that a pivoted Cholesky factor of $K$ takes first, the largest remaining variance each time:
    of all rows, or of four times as many as it takes, at even steps.
    """
    n = observed.X.shape[0]
    among = jnp.asarray(np.linspace(0, n - 1, min(n, max(4 * rank, _CANDIDATES))).astype(int))
    X, present = observed.X[among], observed.present[among]

    def column(pivot: Array) -> Array:
        return jnp.where(present, covariance(process, X, X[pivot][None])[:, 0], 0.0)

    variances = jnp.where(present, prior_variances(process, X), 0.0)
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
    return jax.lax.map(lambda rows: covariance(process, rows, X), _strips(observed))


def _kernel_product(
    process: Any, observed: Observed, V: Float[Array, "n k"], held: Array | None
) -> Float[Array, "n k"]:
    """$K V$ by blocks of rows: those `held`, or computed and forgotten (in gradients too)."""
    X, n = observed.X, observed.X.shape[0]
    hidden = jnp.where(observed.present[:, None], V, 0.0)

    @jax.checkpoint
    def block(rows: Array) -> Array:
        return covariance(process, rows, X) @ hidden

    strips = _strips(observed) if held is None else held
    product = jax.lax.map(block if held is None else lambda table: table @ hidden, strips)
    return jnp.where(observed.present[:, None], product.reshape(-1, V.shape[1])[:n], 0.0)
