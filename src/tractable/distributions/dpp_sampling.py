r"""Samplers of determinantal point processes: four that are exact, and a Markov chain for large ground sets.

Spectral.    Keep eigenvector $n$ of $K$ with probability its eigenvalue; the kept ones $V$ span a projection
             process, whose items come one by one with probability $\propto \|V_i\|^2$ after projecting out
             the rows of those already taken.
Sequential.  For $i = 1..N$: take item $i$ with probability $p = A_{ii}$, then $A \leftarrow A - a a^\top / p$
             if taken and $A + a a^\top / (1 - p)$ if not, starting from $A = K$.
Dual.        $L = F F^\top$ for $N \times d$ features has the non-zero spectrum of the $d \times d$ matrix
             $F^\top F$.
Chain.       Metropolis on subsets with toggles and swaps; the inverse of $L_Y$ gives each ratio of
             determinants.
Cost.        Spectral: $O(N^3)$ once and $O(N k^2)$ a draw of $k$ items. Sequential: $O(N^3)$ a draw. Dual:
             $O(N d^2)$ once, then spectral. Chain: $O(N^2)$ a step, $O(N^3)$ a recorded draw.
References.  Hough, Krishnapur, Peres and Virag (2006); Kulesza and Taskar (2012) sections 2.4, 3.3; Poulson
             (2019); Anari, Oveis Gharan and Rezaei (2016) for the mixing of the chain.
"""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.accept import accept
from tractable.core.iterate import Run, run
from tractable.core.linalg import psd_factor
from tractable.core.module import Module
from tractable.core.numerics import safe_log
from tractable.core.types import Array, Bool, Float, Int, Key, Scalar
from tractable.distributions.dpp_determinants import eliminated_row, nonzero_spectrum, subset_masks

__all__ = [
    "SubsetTrace", "dual_draws", "enumerated_draws", "fixed_size_draws", "projection_draw",
    "sequential_draws", "spectral_draws", "subset_chain",
]  # fmt: skip

_CACHED = 32_768  # entries in the working matrices of draws made together: 256 kB, within one core's cache


class SubsetTrace(Module):
    """What a chain recorded: a mask for each draw, and the share of the steps before it that moved."""

    masks: Int[Array, "*draws n"]
    acceptance: Float[Array, " *draws"]


class _Subset(Module):
    """A subset with the inverse of its block of $L$, zero outside the subset."""

    mask: Bool[Array, " n"]
    inverse: Float[Array, "n n"]


def projection_draw(
    vectors: Float[Array, "n k"], size: Int[Array, ""], uniforms: Float[Array, " k"]
) -> Bool[Array, " n"]:
    r"""One draw from the projection process $K = V V^\top$ on the first `size` columns of `vectors`.

    The other columns must be zero. Items are drawn from the diagonal of the Schur complement of $K$ on the
    items taken.
    """
    count, places = vectors.shape

    def take(step, carry):
        mask, rows, pivots, residual = carry
        item = _pick(residual, uniforms[step])
        pivot = residual[item]
        row = eliminated_row(vectors @ vectors[item], item, rows, pivots)
        mask = mask.at[item].set(True)
        # Zero on the items taken and never negative, in exact arithmetic; rounding is not allowed to say
        # otherwise.
        residual = jnp.where(mask, 0.0, jnp.maximum(residual - row**2 / pivot, 0.0))
        return mask, rows.at[step].set(row), pivots.at[step].set(pivot), residual

    dtype = vectors.dtype
    start = (
        jnp.zeros(count, bool),
        jnp.zeros((places, count), dtype),
        jnp.ones(places, dtype),
        (vectors**2).sum(1),
    )
    return jax.lax.fori_loop(0, size, take, start)[0] if places else start[0]


@partial(jax.jit, static_argnames=("n",))
def spectral_draws(
    key: Key, probs: Float[Array, " r"], vectors: Float[Array, "n_items r"], n: int
) -> Int[Array, "n n_items"]:
    """`n` draws of the process with $K$ of eigenvalues `probs` and eigenvectors `vectors` (columns)."""
    count, rank = vectors.shape

    def draw(uniforms):
        return _kept_draw(vectors, uniforms[:rank] < probs, uniforms[rank:])

    return _each_draw(draw, key, n, 2 * rank, count * rank, probs.dtype)


@partial(jax.jit, static_argnames=("n",))
def fixed_size_draws(
    key: Key,
    values: Float[Array, " r"],
    vectors: Float[Array, "n_items r"],
    log_table: Float[Array, "rows sizes"],
    n: int,
) -> Int[Array, "n n_items"]:
    r"""`n` draws of $k$ items from the spectrum of $L$ and the table of $\log e_l(\lambda_1..\lambda_m)$.

    Going down from the last eigenvector with $l$ still wanted, number $m$ is kept with probability $\lambda_m
    e_{l-1}^{(m-1)} / e_l^{(m)}$.
    """
    rank, size = log_table.shape[0] - 1, log_table.shape[1] - 1
    log_values = jnp.log(values)

    def descend(wanted, inputs):
        uniform, log_value, below, here = inputs
        log_keep = log_value + below[jnp.maximum(wanted - 1, 0)] - here[wanted]
        keep = (wanted > 0) & (uniform < jnp.exp(log_keep))
        return wanted - keep, keep

    def draw(uniforms):
        inputs = (uniforms[:rank], log_values, log_table[:-1], log_table[1:])
        keep = run(descend, jnp.asarray(size), jax.tree.map(lambda a: a[::-1], inputs)).trace[::-1]
        return projection_draw(vectors[:, jnp.argsort(~keep)[:size]], jnp.asarray(size), uniforms[rank:])

    return _each_draw(draw, key, n, rank + size, vectors.shape[0] * size, values.dtype)


@partial(jax.jit, static_argnames=("n",))
def sequential_draws(key: Key, K: Float[Array, "n_items n_items"], n: int) -> Int[Array, "n n_items"]:
    """`n` draws of the process with marginal kernel `K`: a Bernoulli variable for each item in turn."""
    count = K.shape[0]

    def draw(uniforms):
        def decide(item, carry):
            mask, rows, pivots = carry
            row = eliminated_row(K[item], item, rows, pivots)
            taken = uniforms[item] < row[item]
            pivot = jnp.where(taken, row[item], row[item] - 1)
            return mask.at[item].set(taken), rows.at[item].set(row), pivots.at[item].set(pivot)

        start = (jnp.zeros(count, bool), jnp.zeros_like(K), jnp.ones(count, K.dtype))
        return jax.lax.fori_loop(0, count, decide, start)[0]

    return _each_draw(draw, key, n, count, count**2, K.dtype)


@partial(jax.jit, static_argnames=("n",))
def dual_draws(key: Key, features: Float[Array, "n_items d"], n: int) -> Int[Array, "n n_items"]:
    r"""`n` draws of the process $L = F F^\top$ (an item to a row) without forming the matrix $L$."""
    values, small = nonzero_spectrum(features.T @ features)
    scale = jnp.where(values > 0, 1 / jnp.sqrt(jnp.where(values > 0, values, 1.0)), 0.0)
    return spectral_draws(key, values / (1 + values), features @ (small * scale[None, :]), n)


@partial(jax.jit, static_argnames=("n", "count"))
def enumerated_draws(
    key: Key, log_probs: Float[Array, " sets"], count: int, n: int
) -> Int[Array, "n n_items"]:
    """`n` draws from the table of all subsets (in the order of `subset_masks`) by its cumulative sum."""
    weights = jnp.cumsum(jnp.exp(log_probs))
    points = jr.uniform(key, (n,), log_probs.dtype) * weights[-1]
    return subset_masks(count)[jnp.searchsorted(weights, points, side="right")]


@partial(jax.jit, static_argnames=("num_draws", "thin"))
def subset_chain(
    key: Key,
    L: Float[Array, "n n"],
    start: Bool[Array, " n"],
    num_draws: int,
    thin: int,
    swap_prob: float | Scalar = 0.5,
) -> Run:
    r"""A Metropolis chain with $\pi(Y) \propto \det(L_Y)$ from `start`, recorded every `thin` steps.

    A step proposes, with probability `swap_prob`, to exchange a random member for a random non-member, and
    else to toggle a random item. With `swap_prob` 1 the size never changes: a chain for the process of fixed
    size. The inverse is refreshed at each record.
    """

    def record(mask, key):
        inside = mask[:, None] & mask[None, :]
        identity = jnp.eye(L.shape[0], dtype=L.dtype)
        factor = psd_factor(jnp.where(inside, L, identity))
        state = _Subset(mask, jnp.where(inside, factor.solve(identity), 0.0))
        inner = run(lambda s, k: _metropolis(L, s, k, swap_prob), state, jr.split(key, thin))
        return inner.state.mask, SubsetTrace(inner.state.mask.astype(int), inner.trace.mean(dtype=L.dtype))

    return run(record, start, jr.split(key, num_draws))


def _metropolis(
    L: Array, state: _Subset, key: Key, swap_prob: float | Scalar
) -> tuple[_Subset, Bool[Array, ""]]:
    """One step: remove a member, add another item, or both; the ratio of determinants decides."""
    key_kind, key_out, key_in, key_accept = jr.split(key, 4)
    mask, inverse = state.mask, state.inverse
    noise = jr.uniform(key_out, mask.shape)
    toggled = jnp.argmax(noise)
    swap = jr.uniform(key_kind) < swap_prob
    out = jnp.argmax(jnp.where(mask, noise, -1.0))
    joining = jnp.where(swap, jnp.argmax(jnp.where(mask, -1.0, jr.uniform(key_in, mask.shape))), toggled)
    remove, add = swap | mask[toggled], swap | ~mask[toggled]
    possible = ~swap | (mask.any() & ~mask.all())

    gone = jnp.where(
        remove, inverse[out], 0.0
    )  # row of the inverse; its diagonal entry is the ratio of the removal
    share = jnp.where(remove, gone[out], 1.0)
    near = jnp.where(mask, L[joining], 0.0)
    coefficients, cross = inverse @ near, gone @ near
    residual = L[joining, joining] - near @ coefficients
    ratio = jnp.where(add, share * residual + cross**2, share)
    accepted, _ = accept(key_accept, jnp.where(possible, safe_log(ratio), -jnp.inf))

    def move(state):
        smaller = inverse - jnp.outer(gone, gone) / share
        step = coefficients - gone * (cross / share) - jax.nn.one_hot(joining, mask.shape[0], dtype=L.dtype)
        larger = smaller + jnp.where(add, share / ratio, 0.0) * jnp.outer(step, step)
        new = jnp.where(remove, mask.at[out].set(False), mask)
        new = jnp.where(add, new.at[joining].set(True), new)
        return _Subset(new, jnp.where(new[:, None] & new[None, :], larger, 0.0))

    return jax.lax.cond(accepted, move, lambda s: s, state), accepted


def _kept_draw(vectors: Array, keep: Array, uniforms: Array) -> Array:
    """A draw of the projection process on the columns in `keep`, in the least capacity that holds them."""
    count, rank = vectors.shape
    most = min(count, rank)
    capacities = [c for c in (most // 16, most // 4) if c >= 16] + [most]
    order, size = jnp.argsort(~keep), keep.sum()

    def draw_within(capacity):
        columns = jnp.where((jnp.arange(capacity) < size)[None, :], vectors[:, order[:capacity]], 0.0)
        return projection_draw(columns, size, uniforms[:capacity])

    branches = [partial(draw_within, capacity) for capacity in capacities]
    return jax.lax.switch(jnp.searchsorted(jnp.asarray(capacities), size), branches)


def _each_draw(draw, key: Key, n: int, numbers: int, entries: int, dtype) -> Array:
    """`draw(uniforms)` for `n` rows of `numbers` uniforms, as many together as fit the cache."""
    fitting = _CACHED // max(entries, 1)
    together = max(1, min(n, fitting)) if fitting > 8 else 1
    uniforms = jr.uniform(key, (-(-n // together), together, numbers), dtype)
    each = jax.vmap(draw) if together > 1 else lambda rows: draw(rows[0])[None]
    masks = jax.lax.map(each, uniforms)
    return masks.reshape((masks.shape[0] * together, masks.shape[2]))[:n].astype(jnp.result_type(int))


def _pick(weights: Array, uniform: Array) -> Array:
    """An index with probability proportional to `weights`; never one of weight zero, for any rounding."""
    cumulative = jnp.cumsum(weights)
    total = jnp.where(weights > 0, cumulative, 0.0).max()
    return jnp.argmax((cumulative > uniform * total) & (weights > 0))
