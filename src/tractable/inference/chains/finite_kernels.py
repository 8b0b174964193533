r"""Exact transition matrices of Metropolis-Hastings and Gibbs samplers on finite spaces.

Matrix.      $T_{x'x}$ is the probability of $x'$ after $x$: columns sum to one.
Metropolis.  $T_{x'x} = \min\{Q_{x'x},\, Q_{xx'}\,p_{x'}/p_x\}$ for $x' \ne x$; what is rejected stays on the
             diagonal.
Gibbs.       For a block $B$ of coordinates $T_{x'x} = p(x'_B \mid x_{-B})\,1[x'_{-B} = x_{-B}]$; a scan in
             order is the product of these, a random scan their mean.
Cost.        $O(n^2)$ for $n$ states, $O(n^3)$ for a product of scans.
References.  Hastings (1970); Geman and Geman (1984).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_entries, check_finite, check_option, is_concrete
from tractable.core.iterate import run
from tractable.core.numerics import safe_log
from tractable.core.types import Array, ArrayLike, Float

__all__ = ["gibbs_kernel", "gibbs_matrix", "metropolis_matrix"]


def metropolis_matrix(target: ArrayLike, proposal: ArrayLike) -> Float[Array, "n n"]:
    r"""The Metropolis-Hastings matrix for weights `target` and a proposal $Q_{x'x}$, columns summing to one.

    The rule is that of `core.accept.accept`: from a state of probability zero every
    possible state is accepted, and a ratio $0/0$ never.

    >>> metropolis_matrix([1.0, 2.0], [[0.5, 0.5], [0.5, 0.5]]).round(6).tolist()
    [[0.5, 0.25], [0.5, 0.75]]
    """
    p, q = as_weights("target", target), as_transitions("proposal", proposal)
    check(q.shape == p.shape * 2, "proposal", f"of shape {p.shape * 2}", f"shape {q.shape}")
    return _metropolis_matrix(p, q)


def gibbs_kernel(joint: Any, block: int | Sequence[int]) -> Float[Array, "n n"]:
    """The matrix that redraws the coordinates in `block` (an axis of `joint`, or several) given the others.

    `joint` is an array of weights with one axis per coordinate, or a `JointTable`; states are its cells in
    the order of `joint.ravel()`. Where the other coordinates have probability zero nothing is redrawn.
    """
    cells = _as_joint(joint)
    axes = (block,) if isinstance(block, int) else tuple(block)
    ok = len(axes) > 0 and len(set(axes)) == len(axes) and all(0 <= axis < cells.ndim for axis in axes)
    check(ok, "block", f"different axes from 0 to {cells.ndim - 1}", axes)
    return _gibbs_kernel(cells, axes)


def gibbs_matrix(
    joint: Any, blocks: Sequence[int | Sequence[int]] | None = None, *, scan: str = "systematic"
) -> Float[Array, "n n"]:
    """The matrix of one sweep: the kernels of `blocks` in order (`systematic`), or one at `random`.

    `blocks` defaults to every coordinate by itself. A systematic sweep leaves the distribution stationary but
    is not reversible; a random scan is, and so is a sweep there and back.
    """
    check_option("scan", scan, ("systematic", "random"))
    cells = _as_joint(joint)
    parts = list(range(cells.ndim)) if blocks is None else list(blocks)
    check(len(parts) > 0, "blocks", "at least one block", "none")
    kernels = jnp.stack([gibbs_kernel(cells, block) for block in parts])
    if scan == "random":
        return kernels.mean(0)
    return run(lambda matrix, kernel: (kernel @ matrix, None), jnp.eye(cells.size), kernels).state


def as_weights(name: str, value: ArrayLike) -> Array:
    """Probabilities from weights, which are checked by name."""
    weights = as_float(name, value)
    check(weights.ndim == 1 and weights.size > 0, name, "a vector of weights", f"shape {weights.shape}")
    check_weights(name, weights)
    return weights / weights.sum()


def check_weights(name: str, weights: Array) -> None:
    """Finite, nowhere negative, and positive somewhere."""
    check_finite(name, weights)
    check_entries(name, weights, lambda v: v >= 0, "zero or positive")
    check(
        not is_concrete(weights) or bool(np.asarray(weights).sum() > 0), name, "positive somewhere", "zeros"
    )


def as_transitions(name: str, value: ArrayLike) -> Array:
    """A transition matrix, whose columns are checked to sum to one."""
    matrix = as_float(name, value)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.size > 0
    check(square, name, "a square matrix", f"shape {matrix.shape}")
    check_finite(name, matrix)
    check_entries(name, matrix, lambda v: v >= 0, "zero or positive")
    if is_concrete(matrix):
        must, got = "a matrix whose columns sum to one", "a column with sum {}"
        fix = "Entry (i, j) is the probability of i after j; transpose it if yours is the other way."
        rounding = 1e3 * float(jnp.finfo(matrix.dtype).eps) * len(matrix)
        totals = np.asarray(matrix).sum(0)
        check_entries(name, totals, lambda v: np.abs(v - 1) <= rounding, must, fix, got)
    return matrix


@jax.jit
def _metropolis_matrix(p: Array, q: Array) -> Array:
    identity = jnp.eye(p.size, dtype=bool)
    log_p, log_q = safe_log(p), safe_log(q)
    log_ratio = (log_p[:, None] + log_q.T) - (log_p[None, :] + log_q)
    accepted = jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
    moves = jnp.where(identity, 0.0, q * accepted)
    stays = jnp.where(identity, q, q * (1 - accepted)).sum(0)
    return moves + jnp.diag(stays)


@partial(jax.jit, static_argnums=1)
def _gibbs_kernel(cells: Array, axes: tuple[int, ...]) -> Array:
    shape, rest = cells.shape, tuple(axis for axis in range(cells.ndim) if axis not in axes)
    total = cells.sum(axes, keepdims=True)
    conditional = jnp.where(total > 0, cells / jnp.where(total > 0, total, 1.0), 0.0).ravel()
    index = np.stack(np.unravel_index(np.arange(cells.size), shape))[list(rest)]
    same = (index[:, :, None] == index[:, None, :]).all(0)
    stays = jnp.diag(jnp.where(jnp.broadcast_to(total > 0, shape), 0.0, 1.0).ravel())
    return jnp.where(same, conditional[:, None], 0.0) + stays


def _as_joint(joint: Any) -> Array:
    cells = as_float("joint", getattr(joint, "probs", joint))
    check(cells.ndim > 0 and cells.size > 0, "joint", "an array with cells", f"shape {cells.shape}")
    check_weights("joint", cells)
    return cells
