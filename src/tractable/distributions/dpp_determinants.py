r"""Determinants of sub-matrices: the arithmetic under determinantal point processes.

Minors.      $\sum_Y \det(L_Y) = \det(L + I)$, and over the supersets of $A$, $\sum_{Y \supseteq A} \det(L_Y)
             = \det(L + I_{\bar A})$.
Elimination. $\det(L_{Y \cup i}) = \det(L_Y)\,(L_{ii} - L_{iY} L_Y^{-1} L_{Yi})$: what an item adds is its
             Schur complement. As squared volumes, $\mathrm{Vol}^2(u_1..u_{k+1}) =
             \mathrm{Vol}^2(u_1..u_k)\,\|\tilde u_{k+1}\|^2$, $\tilde u_{k+1} \perp u_1..u_k$.
Symmetric.   $e_k(\lambda) = \sum_{|S| = k} \prod_{n \in S} \lambda_n = \sum_{|Y| = k} \det(L_Y)$ for the
             eigenvalues of $L$.
Cost.        All $2^N$ minors: $O(2^N)$. The polynomials $e_k$: $O(Nk)$. A greedy path of $k$ items:
             $O(Nk^2)$.
References.  Kulesza and Taskar (2012); Griffin and Tsatsomeros (2006), "Principal minors"; Chen, Zhang and
             Zhou (2018), "Fast greedy MAP inference for determinantal point process".
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_shape
from tractable.core.module import Module
from tractable.core.numerics import logsumexp, safe_log
from tractable.core.types import Array, Bool, Float, Int, Scalar
from tractable.distributions.dpp_kernels import Items, Matrix, item_indices, rounding_of

__all__ = [
    "GreedyPath", "eliminated_row", "exact_set_prob", "greedy_path", "log_elementary_symmetric",
    "log_leave_one_out", "log_set_weights", "log_size_table", "log_superset_sum", "nonzero_spectrum",
    "squared_residuals", "squared_volume", "subset_masks",
]  # fmt: skip

_LARGEST = 20  # 2^20 subsets fill tens of megabytes; each further item doubles them


class GreedyPath(Module):
    """The order in which a greedy search takes items; past the last one, -1 with gain minus infinity."""

    items: Int[Array, " k"]
    log_gains: Float[Array, " k"]
    mask: Bool[Array, " n"]


@partial(jax.jit, static_argnums=0)
def subset_masks(count: int) -> Int[Array, "sets n"]:
    """All subsets of `count` items as 0/1 rows; the first item is the highest bit of the row number.

    >>> subset_masks(2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    _check_small(count)
    return (jnp.arange(2**count)[:, None] >> jnp.arange(count)[::-1][None, :]) & 1


@partial(jax.jit, static_argnames=("marginal",))
def log_set_weights(kernel: Float[Array, "n n"], *, marginal: bool = False) -> Float[Array, " sets"]:
    r"""$\log\det(L_Y)$ for all $Y$ in the order of `subset_masks`; with `marginal`, $\log P(Y)$ from $K$.

    A tree of Schur complements. Taking an item with pivot $p = A_{00}$ leaves $A - a a^\top / p$. Leaving it
    out drops its row; for a marginal kernel it has probability $1 - p$ and leaves $A + a a^\top / (1 - p)$.
    """
    _check_small(kernel.shape[0])
    blocks, logs = kernel[None], jnp.zeros(1, kernel.dtype)
    for _ in range(kernel.shape[0]):
        pivot, column, rest = blocks[:, 0, 0], blocks[:, 1:, 0], blocks[:, 1:, 1:]
        taken = _eliminate(rest, column, pivot)
        left = _eliminate(rest, column, pivot - 1) if marginal else rest
        log_left = _log_pivot(1 - pivot) if marginal else jnp.zeros_like(pivot)
        blocks = jnp.stack([left, taken], 1).reshape((2 * len(pivot), *rest.shape[1:]))
        logs = jnp.stack([logs + log_left, logs + _log_pivot(pivot)], 1).reshape(-1)
    return logs


@partial(jax.jit, static_argnums=2)
def exact_set_prob(K: Float[Array, "n n"], inside: Float[Array, " n"], method: str) -> Scalar:
    r"""$P(Y = A)$ for the 0/1 vector of $A$, by "determinant" or "inclusion_exclusion"."""
    if method == "determinant":
        return jnp.abs(jnp.linalg.det(K - jnp.diag(1 - inside)))
    masks = subset_masks(inside.shape[0])
    supersets = (masks >= inside[None, :]).all(1)
    signs = jnp.where(supersets, (-1.0) ** (masks.sum(1) - inside.sum()), 0.0)
    return signs @ jnp.exp(log_set_weights(K))


def log_superset_sum(L: Matrix, items: Items) -> Scalar:
    r"""$\log \sum_{Y \supseteq A} \det(L_Y) = \log\det(L + I_{\bar A})$ for the item indices $A$."""
    L = as_float("L", L)
    check(L.ndim == 2 and L.shape[0] == L.shape[1], "L", "a square matrix", f"shape {L.shape}")
    outside = np.ones(L.shape[0], L.dtype)
    outside[item_indices("items", items, L.shape[0])] = 0
    return _log_superset_sum(L, outside)


def squared_residuals(vectors: Matrix) -> Float[Array, " k"]:
    r"""$\|\tilde u_k\|^2$ for each row: its part orthogonal to the rows before it, by a QR factor."""
    vectors = as_float("vectors", vectors)
    check_shape("vectors", vectors, (None, None), "One vector to a row.")
    return _squared_residuals(vectors)


def squared_volume(vectors: Matrix) -> Scalar:
    r"""$\det(U U^\top)$, the squared volume on the rows of $U$: the product of `squared_residuals`.

    >>> round(float(squared_volume([[3.0, 0.0], [1.0, 2.0]])), 12)
    36.0
    """
    return jnp.prod(squared_residuals(vectors))


def eliminated_row(
    row: Float[Array, " n"], item: Int[Array, ""], rows: Float[Array, "k n"], pivots: Float[Array, " k"]
) -> Float[Array, " n"]:
    r"""Row `item` of the Schur complement $A - \sum_j r_j r_j^\top / p_j$: `rows` $r_j$, `pivots` $p_j$.

    Places that are not yet used hold zero rows and pivots of one.
    """
    return row - (rows[:, item] / pivots) @ rows


@partial(jax.jit, static_argnames=("size", "least"))
def greedy_path(L: Float[Array, "n n"], size: int, least: float = 0.0) -> GreedyPath:
    r"""Up to `size` items, each multiplying $\det(L_Y)$ most, while the factor is above `least`.

    A factor within rounding of zero ($10 N \epsilon L_{ii}$) is zero: the item depends on those taken.
    """
    count = L.shape[0]
    rounding = rounding_of(L) * jnp.diagonal(L)

    def proceed(carry):
        step, path, _, _, residual = carry
        return (step < size) & (jnp.where(path.mask, -jnp.inf, residual).max() > least)

    def take(carry):
        step, path, rows, pivots, residual = carry
        item = jnp.argmax(jnp.where(path.mask, -jnp.inf, residual))
        pivot = residual[item]
        row = eliminated_row(L[item], item, rows, pivots)
        items, gains = path.items.at[step].set(item), path.log_gains.at[step].set(jnp.log(pivot))
        path = GreedyPath(items, gains, path.mask.at[item].set(True))
        residual = residual - row**2 / pivot
        residual = jnp.where(residual <= rounding, 0.0, residual)
        return step + 1, path, rows.at[step].set(row), pivots.at[step].set(pivot), residual

    path = GreedyPath(jnp.full(size, -1), jnp.full(size, -jnp.inf, L.dtype), jnp.zeros(count, bool))
    start = (
        jnp.asarray(0),
        path,
        jnp.zeros((size, count), L.dtype),
        jnp.ones(size, L.dtype),
        jnp.diagonal(L),
    )
    return jax.lax.while_loop(proceed, take, start)[1] if size else path


def nonzero_spectrum(a: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    r"""Eigenvalues and vectors of a positive semi-definite matrix, zero where within rounding of zero.

    Rounding is $10 N \epsilon$ of the largest. A kernel of rank $r$ then has $N - r$ zeros where the
    eigenvalues as computed have either sign. Derivatives are those of the eigenvalues as computed.
    """
    values, vectors = jnp.linalg.eigh(a)
    zero = values <= rounding_of(a) * jnp.abs(values).max()
    return values - jax.lax.stop_gradient(jnp.where(zero, values, 0.0)), vectors


def log_size_table(
    log_in: Float[Array, " n"], log_out: Float[Array, " n"], size: int
) -> Float[Array, "rows sizes"]:
    r"""Row $m$, column $l$: $\log \sum_S \prod_{n \in S} a_n \prod_{n \notin S} b_n$, $|S| = l$."""
    first = jnp.full(size + 1, -jnp.inf, log_in.dtype).at[0].set(0)

    def extend(row, logs):
        inside, outside = logs
        with_item = jnp.concatenate([jnp.full(1, -jnp.inf, row.dtype), row[:-1] + inside])
        row = jnp.logaddexp(row + outside, with_item)
        return row, row

    return jnp.concatenate([first[None], jax.lax.scan(extend, first, (log_in, log_out))[1]])


@partial(jax.jit, static_argnums=1)
def log_elementary_symmetric(values: Float[Array, " n"], order: int) -> Scalar:
    r"""$\log e_k(\lambda)$ for $\lambda \ge 0$: $e_k^{(m)} = e_k^{(m-1)} + \lambda_m e_{k-1}^{(m-1)}$.

    Differentiable at zeros too: $\partial e_k / \partial \lambda_n = e_{k-1}(\lambda_{\setminus n})$.

    >>> round(float(jnp.exp(log_elementary_symmetric(jnp.array([1.0, 2.0, 3.0]), 2))), 12)
    11.0
    """
    return _log_elementary_symmetric(values, order)


@partial(jax.jit, static_argnums=1)
def log_leave_one_out(values: Float[Array, " n"], order: int) -> Float[Array, " n"]:
    r"""$\log e_{k-1}(\lambda_{\setminus n})$ for each $n$, from the tables before and after it."""
    logs, zeros = safe_log(values), jnp.zeros_like(values)
    before = log_size_table(logs, zeros, order - 1)[:-1]
    after = log_size_table(logs[::-1], zeros, order - 1)[:-1][::-1]
    return logsumexp(before + after[:, ::-1], axis=1)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _log_elementary_symmetric(values: Array, order: int) -> Array:
    return log_size_table(safe_log(values), jnp.zeros_like(values), order)[-1, order]


@_log_elementary_symmetric.defjvp
def _log_elementary_symmetric_jvp(order, primals, tangents):
    (values,), (change,) = primals, tangents
    log = _log_elementary_symmetric(values, order)
    slope = jnp.exp(log_leave_one_out(values, order) - log) if order > 0 else jnp.zeros_like(values)
    return log, slope @ change


@jax.jit
def _log_superset_sum(L: Array, outside: Array) -> Array:
    sign, log = jnp.linalg.slogdet(L + jnp.diag(outside))
    return jnp.where(sign <= 0, -jnp.inf, log)


@jax.jit
def _squared_residuals(vectors: Array) -> Array:
    diagonal = jnp.diagonal(jnp.linalg.qr(vectors.T, mode="r")) ** 2
    return jnp.concatenate([diagonal, jnp.zeros(vectors.shape[0] - diagonal.shape[0], vectors.dtype)])


def _eliminate(rest: Array, column: Array, pivot: Array) -> Array:
    # A zero pivot belongs to an impossible branch; its weight is minus infinity whatever the block below it
    # holds.
    safe = jnp.where(pivot == 0, 1.0, pivot)[:, None, None]
    return rest - column[:, :, None] * column[:, None, :] / safe


def _log_pivot(pivot: Array) -> Array:
    # A pivot of a positive semi-definite matrix that comes out negative is a zero with rounding.
    return safe_log(jnp.where(pivot < 0, 0.0, pivot))


def _check_small(count: int) -> None:
    fix = "Each further item doubles the number of subsets; estimate from draws instead."
    check(
        count <= _LARGEST, "the number of items", f"at most {_LARGEST} to enumerate all subsets", count, fix
    )
