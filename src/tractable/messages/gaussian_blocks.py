r"""Chains of blocks with a border: Cholesky elimination, back substitution and the inverse where there are
blocks.

Matrix.      A bank of chains, each of $T$ blocks: $D_t$ on the diagonal, $E_t$ = block $(t + 1, t)$, $W_t$ =
             the coupling to the border, whose own block is $C$. The shift is one more column of $W$.
Forward.     $L_t L_t^\top = D_t$, $[U_t, V_t] = L_t^{-1}[E_t^\top, W_t]$; then $D_{t+1}$ loses $U_t^\top
             U_t$, $W_{t+1}$ loses $U_t^\top V_t$ and $C$ loses $\sum_t V_t^\top V_t$.
Fold.        Of each $r$ blocks the first $r - 1$ are eliminated, in all segments at once, with the separator
             before them as a further part of the border; the separators are a chain of $T/r$ blocks again.
             Folds by $r_1, r_2, \dots$ take $\sum_i r_i$ steps one after another; one fold by $T$ is the
             plain recursion.
Backward.    $x_t = L_t^{-\top}(u_t - V_t x_b - U_t x_{t+1})$ for the mean and, with noise beside $u$, for
             draws; the covariances of what shares a block follow from the same equation (Takahashi).
Cost.        $O(T k^2 (k + b))$ work for blocks of $k$ and a border of $b$.
References.  Golub and Van Loan (2013) section 4.3; Rue and Held (2005) sections 2.4 and 2.5; Takahashi, Fagan
             and Chin (1973); Heller (1976), cyclic reduction.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tractable.core.iterate import run
from tractable.core.types import Array

__all__ = [
    "Chains", "Reduced", "Selected", "back", "back_solve", "eliminate", "half_solve", "inverse",
    "lower_factor", "selected",
]  # fmt: skip


class Chains(NamedTuple):
    """$T$ blocks of $k$ in each of $B$ chains: `diag` and `sub` `(T, B, k, k)`, `wide` `(T, B, k, c)`.

    Of `diag` the lower triangles are read. `sub[t]` couples block $t + 1$ with block $t$; the last is zero.
    """

    diag: Array
    sub: Array
    wide: Array


class Fold(NamedTuple):
    """What one fold eliminated, `(r - 1, S, B, ...)` for $S$ segments: factors and half-solved couplings."""

    lower: Array
    after: Array  # to the next block
    before: Array  # to the separator before the segment; no columns where there is one segment
    side: Array  # to the border
    shift: Array


class Last(NamedTuple):
    """The last block of each chain `(B, ...)`, eliminated."""

    lower: Array
    side: Array
    shift: Array


class Reduced(NamedTuple):
    """A bank, eliminated."""

    folds: tuple[Fold, ...]
    last: Last

    def pivots(self) -> Array:
        r"""The diagonals of all factors `(T, B, k)`; twice the sum of their logarithms is $\log|\Lambda|$."""
        found = _diagonal(self.last.lower)[None]
        for fold in reversed(self.folds):
            found = _join(jnp.concatenate([_diagonal(fold.lower), found[None]]))
        return found


class Selected(NamedTuple):
    """Covariances in the places of the blocks: `diag`, `sub` and `side` (with the border)."""

    diag: Array
    sub: Array
    side: Array


def eliminate(chains: Chains, ratios: tuple[int, ...]) -> tuple[Reduced, Array]:
    r"""The bank eliminated by folds, and $\sum V^\top V$ `(c, c)`, which the border loses.

    >>> one = Chains(4 * jnp.ones((1, 2, 1, 1)), jnp.zeros((1, 2, 1, 1)), 2 * jnp.ones((1, 2, 1, 1)))
    >>> eliminate(one, ())[1].tolist()
    [[2.0]]
    """
    folds, lost = [], jnp.zeros((chains.wide.shape[-1],) * 2, chains.wide.dtype)
    for ratio in ratios:
        fold, chains = _fold(chains, ratio)
        folds.append(fold)
        lost = lost + _gram(jnp.concatenate([fold.side, fold.shift[..., None]], axis=-1))
    lower = lower_factor(chains.diag[0])
    wide = half_solve(lower, chains.wide[0])
    return Reduced(tuple(folds), Last(lower, wide[..., :-1], wide[..., -1])), lost + _gram(wide)


def back(reduced: Reduced, border: Array, noise: Array | None = None) -> Array:
    r"""$\Lambda^{-1} h$ of a bank `(T, B, k)`, given that of the border; a draw with standard `noise` of that
    shape."""
    last = reduced.last
    pieces = _pieces(reduced, noise)
    x = back_solve(last.lower, last.shift - _times(last.side, border) + pieces[-1])[None]
    for fold, piece in zip(reversed(reduced.folds), reversed(pieces[:-1])):
        x = _unfold(fold, fold.shift - _times(fold.side, border) + piece, x)
    return x


def selected(reduced: Reduced, border: Array) -> Selected:
    r"""Covariances of a bank where it has blocks, given the covariance of the border."""
    last = reduced.last
    side = back_solve(last.lower, last.side)
    with_border = -side @ _spread(border, side.ndim)
    own = inverse(last.lower) - with_border @ _turn(side)
    found = Selected(own[None], jnp.zeros_like(own)[None], with_border[None])
    for fold in reversed(reduced.folds):
        found = _selected_fold(fold, found, border)
    return found


def lower_factor(a: Array) -> Array:
    """Cholesky factors of matrices by their lower triangles; NaN where there is none."""
    return jnp.sqrt(a) if a.shape[-1] <= 1 else jax.lax.linalg.cholesky(a, symmetrize_input=False)


def half_solve(lower: Array, b: Array) -> Array:
    r"""$L^{-1} B$."""
    if lower.shape[-1] <= 1:
        return b / lower
    return jax.lax.linalg.triangular_solve(lower, b, left_side=True, lower=True)


# --- one fold ------------------------------------------------------------------------------------------


def _fold(chains: Chains, ratio: int) -> tuple[Fold, Chains]:
    """Eliminate all but the last of each `ratio` blocks."""
    diag, sub, wide = (_split(part, ratio) for part in chains)
    many, k = diag.shape[1] > 1, diag.shape[-1]
    if many:  # the separator before a segment stands first in the couplings
        first = jnp.roll(sub[-1], 1, axis=0)
        before = jnp.concatenate([first[None], jnp.zeros((ratio - 1, *first.shape), first.dtype)])
        wide = jnp.concatenate([before, wide], axis=-1)

    def step(state, given):
        own, coupling = state
        to_next, next_own, next_coupling = given
        lower = lower_factor(own)
        half = half_solve(lower, jnp.concatenate([_turn(to_next), coupling], axis=-1))
        lost = _turn(half[..., :k]) @ half
        return (next_own - lost[..., :k], next_coupling - lost[..., k:]), (lower, half)

    walked = run(step, (diag[0], wide[0]), (sub[:-1], diag[1:], wide[1:]))
    (own, coupling), (lower, half) = walked.state, walked.trace
    after, half = half[..., :k], half[..., k:]
    if not many:
        kept = Fold(lower, after, half[..., :0], half[..., :-1], half[..., -1])
        return kept, Chains(own, jnp.zeros_like(own), coupling)
    left, right = half[..., :k], half[..., k:]
    lost = jnp.roll(jnp.einsum("tsbij,tsbik->sbjk", left, half), -1, axis=0)  # to the separator before
    further = jnp.roll(coupling[..., :k], -1, axis=0)
    rest = Chains(own - lost[..., :k], further, coupling[..., k:] - lost[..., k:])
    return Fold(lower, after, left, right[..., :-1], right[..., -1]), rest


def _unfold(fold: Fold, shift: Array, separators: Array) -> Array:
    """All blocks of a fold, given its separators `(S, B, k)`."""
    if fold.before.shape[-1]:
        before = jnp.roll(separators, 1, axis=0)
        shift = shift - jnp.einsum("tsbij,sbj->tsbi", fold.before, before)
    alone, carried = back_solve(fold.lower, shift), back_solve(fold.lower, fold.after)

    def step(later, given):
        own, weights = given
        own = own - jnp.einsum("sbij,sbj->sbi", weights, later)
        return own, own

    blocks = jax.lax.scan(step, separators, (alone, carried), reverse=True)[1]
    return _join(jnp.concatenate([blocks, separators[None]]))


def _selected_fold(fold: Fold, outer: Selected, border: Array) -> Selected:
    """The covariances of a fold from those of its separators."""
    k, many = fold.lower.shape[-1], fold.before.shape[-1] > 0
    after = back_solve(fold.lower, fold.after)
    couplings = back_solve(fold.lower, jnp.concatenate([fold.before, fold.side], axis=-1))
    fixed = couplings[..., k * many :] @ _spread(border, couplings.ndim)
    start = outer.side
    if many:  # the border of a segment is the separator before it and the border itself
        own, side = jnp.roll(outer.diag, 1, axis=0), jnp.roll(outer.side, 1, axis=0)
        left, right = couplings[..., :k], couplings[..., k:]
        to_left = left @ own[None] + right @ _turn(side)[None]
        fixed = jnp.concatenate([to_left, left @ side[None] + fixed], axis=-1)
        start = jnp.concatenate([jnp.roll(outer.sub, 1, axis=0), outer.side], axis=-1)
    alone = inverse(fold.lower)

    def step(state, given):
        own, side = state  # of the next block
        weights, coupling, fixed, alone = given
        cross = -(weights @ own + coupling @ _turn(side))
        side = -(weights @ side + fixed)
        own = alone - cross @ _turn(weights) - side @ _turn(coupling)
        own = 0.5 * (own + _turn(own))
        return (own, side), (own, side, cross)

    inputs = after, couplings, fixed, alone
    own, side, cross = jax.lax.scan(step, (outer.diag, start), inputs, reverse=True)[1]
    own, cross = jnp.concatenate([own, outer.diag[None]]), _turn(cross)
    last = jnp.roll(side[0, ..., :k], -1, axis=0) if many else jnp.zeros_like(cross[0])
    side = jnp.concatenate([side[..., k:] if many else side, outer.side[None]])
    return Selected(_join(own), _join(jnp.concatenate([cross, last[None]])), _join(side))


def _pieces(reduced: Reduced, noise: Array | None) -> list:
    """Noise in the order in which blocks were eliminated; zero where there is none."""
    if noise is None:
        return [0.0] * (len(reduced.folds) + 1)
    pieces = []
    for fold in reduced.folds:
        parts = _split(noise, len(fold.lower) + 1)
        pieces.append(parts[:-1])
        noise = parts[-1]
    return [*pieces, noise[0]]


# --- small algebra -------------------------------------------------------------------------------------


def _split(a: Array, ratio: int) -> Array:
    """`(T, ...)` as `(r, S, ...)`: place in the segment first."""
    return jnp.swapaxes(a.reshape(-1, ratio, *a.shape[1:]), 0, 1)


def _join(a: Array) -> Array:
    swapped = jnp.swapaxes(a, 0, 1)
    return swapped.reshape(-1, *a.shape[2:])


def _turn(a: Array) -> Array:
    return jnp.swapaxes(a, -1, -2)


def _diagonal(a: Array) -> Array:
    return jnp.diagonal(a, axis1=-2, axis2=-1)


def _times(wide: Array, border: Array) -> Array:
    """Couplings times the border's vector."""
    return jnp.einsum("...j,j->...", wide, border)


def _gram(wide: Array) -> Array:
    flat = wide.reshape(-1, wide.shape[-1])
    return flat.T @ flat


def _spread(a: Array, ndim: int) -> Array:
    """A matrix with as many axes as the stack that it is multiplied with."""
    return a.reshape((1,) * (ndim - 2) + a.shape)


def back_solve(lower: Array, b: Array) -> Array:
    r"""$L^{-\top} b$ for stacks of vectors or matrices."""
    if b.ndim < lower.ndim:
        return back_solve(lower, b[..., None])[..., 0]
    if lower.shape[-1] <= 1:
        return b / lower
    return jax.lax.linalg.triangular_solve(lower, b, left_side=True, lower=True, transpose_a=True)


def inverse(lower: Array) -> Array:
    r"""$(L L^\top)^{-1}$."""
    eye = jnp.broadcast_to(jnp.eye(lower.shape[-1], dtype=lower.dtype), lower.shape)
    return back_solve(lower, half_solve(lower, eye))
