r"""The pass backward of Gaussian chains on the host: smoothed states, and the exact score of every matrix.

Adjoint.     With $\bar r_t = A_t^\top r_{t+1}$ and $\bar N_t = A_t^\top N_{t+1} A_t$, from $r_{T} = 0$,
             $N_{T} = 0$: $r_t = C^\top S^{-1} v_t + (I - KC)^\top \bar r_t$, $N_t = C^\top S^{-1} C + (I -
             KC)^\top \bar N_t (I - KC)$.
Smoothed.    $\hat x_t = m_t + P_t r_t$, $V_t = P_t - P_t N_t P_t$, $\mathrm{Cov}[x_{t+1}, x_t] = (I - P_{t+1}
             N_{t+1}) A_t F_t$ with $F_t$ the filtered covariance. No covariance is inverted.
Score.       $\partial \ell/\partial Q = \frac12 \sum (r_{t+1} r_{t+1}^\top - N_{t+1})$,
             $\partial\ell/\partial b = \sum r_{t+1}$, $\partial\ell/\partial A = \sum (r_{t+1} \hat x_t^\top
             - N_{t+1} A F_t)$; with $u = S^{-1} v - K^\top \bar r$ and $D = S^{-1} + K^\top \bar N K$:
             $\partial\ell/\partial R = \frac12 \sum(u u^\top - D)$, $\partial\ell/\partial c = \sum u$,
             $\partial\ell/\partial C = \sum (u \hat x^\top - K^\top (I - \bar N F))$; at the start $r_0$ and
             $\frac12(r_0 r_0^\top - N_0)$. They follow from Fisher's identity, and hold where $Q$ or $R$ is
             singular.
Cost.        That of the pass forward.
References.  de Jong (1989); Koopman and Shephard (1992); Durbin and Koopman (2012) chapter 4.
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.messages.gaussian_host import HostChain, Passed, over, repeats, stretches
from tractable.messages.gaussian_recursion import apply, recursion

__all__ = ["Adjoint", "Score", "adjoint", "score", "smoothed_covariances", "smoothed_means"]


class Adjoint(NamedTuple):
    """$r_t$ `(T, N, d)` of each time, and the distinct $N$ `(S, [N], d, d)`; `place` says which serves each
    time."""

    vectors: np.ndarray
    matrices: np.ndarray
    place: np.ndarray


class Score(NamedTuple):
    """The derivative of the log-evidence with respect to the matrices of each time, added over series; of
    shifts, for each series."""

    mean: np.ndarray
    cov: np.ndarray
    A: np.ndarray
    b: np.ndarray
    Q: np.ndarray
    C: np.ndarray
    c: np.ndarray
    R: np.ndarray


def adjoint(chain: HostChain, passed: Passed, seen: np.ndarray, *, matrices: bool = True) -> Adjoint:
    """The pass backward; without `matrices` only the vectors, which the means need."""
    found = passed.covariances
    slot = found.slot
    pulled = np.empty_like(passed.predicted)
    told = None if seen.all() else _looked(chain, seen, found.is_shared)  # C, zero where a reading is missing
    for here, one in stretches(slot, found.is_shared):
        C = chain.C[_times(chain.C, here)] if found.is_shared else chain.C[_times(chain.C, here)][:, None]
        half = found.whitener[one] @ (C if told is None else told[here])
        pulled[here] = apply(np.swapaxes(half, -1, -2), apply(found.whitener[one], passed.gaps[here]))
    turned = np.swapaxes(found.closed, -1, -2)
    back = recursion(turned, slot[:-1][::-1], pulled[:-1][::-1], pulled[-1])[::-1]
    if not matrices:
        return Adjoint(back, np.zeros(0), slot)
    return Adjoint(back, *_gathered(chain, passed, told))


def _gathered(chain: HostChain, passed: Passed, told: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The distinct matrices $N$ and which of them serves each time."""
    found = passed.covariances
    slot, kept = found.slot, []
    place = np.empty(len(slot), int)
    now: Any = 0.0
    t = len(slot) - 1
    looks = None
    if told is None and len(chain.C) == 1:  # of each slot at once
        half = found.whitener @ chain.C[0]
        looks = np.swapaxes(half, -1, -2) @ half
    while t >= 0:
        closed, before = found.closed[slot[t]], now
        if looks is not None:
            now = looks[slot[t]]
        else:
            half = found.whitener[slot[t]] @ (chain.C[min(t, len(chain.C) - 1)] if told is None else told[t])
            now = np.swapaxes(half, -1, -2) @ half
        if t < len(slot) - 1:
            now = now + np.swapaxes(closed, -1, -2) @ before @ closed
        now = 0.5 * (now + np.swapaxes(now, -1, -2))
        place[t] = len(kept)
        kept.append(now)
        same = t < len(slot) - 1 and chain.is_constant and now.ndim == 2 and slot[t] == slot[t + 1]
        t -= 1
        if same and repeats(now, before):
            # settled: the same as long as the gain is
            ahead = slot[: t + 1] != slot[t + 1]
            first = t + 1 - int(ahead[::-1].argmax()) if ahead.any() else 0
            place[first : t + 1] = len(kept) - 1
            t = first - 1
    return np.stack(kept), place


def smoothed_means(passed: Passed, back: Adjoint) -> np.ndarray:
    """The means given all readings, `(T, N, d)`."""
    found = passed.covariances
    return passed.predicted + over(found.predicted, found.slot, back.vectors)


def smoothed_covariances(chain: HostChain, passed: Passed, back: Adjoint) -> tuple[np.ndarray, np.ndarray]:
    """The covariances given all readings `(T, [N], d, d)`, and $\\mathrm{Cov}[x_{t+1}, x_t]$."""
    found = passed.covariances
    slot, place = found.slot, back.place
    pairs, which = _distinct(slot, place)
    P, N = found.predicted[pairs[0]], back.matrices[pairs[1]]
    cov = P - P @ N @ P
    cov = 0.5 * (cov + np.swapaxes(cov, -1, -2))
    steps = np.arange(len(slot) - 1) if len(chain.A) > 1 else np.zeros(len(slot) - 1, int)
    after, chosen = _distinct(slot[:-1], slot[1:], place[1:], steps)
    A = chain.A[after[3]] if found.is_shared else chain.A[after[3]][:, None]
    left = np.eye(P.shape[-1]) - found.predicted[after[1]] @ back.matrices[after[2]]
    cross = left @ A @ found.filtered[after[0]]
    return cov[which], cross[chosen]


def _times(matrices: np.ndarray, here: Any) -> Any:
    return slice(0, 1) if len(matrices) == 1 else here


def _distinct(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of index columns, and which one each row is."""
    table = np.stack(columns)
    if table.shape[1] == 0:
        return table, np.zeros(0, int)
    code = np.zeros(table.shape[1], np.int64)
    for column in table:
        code = code * (int(column.max()) + 1) + column
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return table[:, first], which.reshape(-1)


def score(
    chain: HostChain, passed: Passed, back: Adjoint, seen: np.ndarray, spread: np.ndarray, count: float = 1.0
) -> Score:
    """The score of series that share their covariances; `spread` `(N, N)` is the second moment of the weights
    with which they are added, and `count` how often the covariances count.

    For independent series of weights $w$ these are $\\mathrm{diag}(w)$ and their sum. For a series and its
    responses to an unknown start $\\delta$ they are $E[(1, \\delta)(1, \\delta)^\\top]$ and one.
    """
    found, slot = passed.covariances, passed.covariances.slot
    r, N = back.vectors, back.matrices[back.place]
    K, F, W = found.gain[slot], found.filtered[slot], found.whitener[slot]
    A = chain.A
    x = smoothed_means(passed, back)
    white = apply(W, passed.gaps)
    past = apply(np.swapaxes(A, 1, 2), r[1:]) if len(r) > 1 else r[:0]
    past = np.concatenate([past, np.zeros_like(r[:1])])
    barred = np.swapaxes(A, 1, 2) @ N[1:] @ A if len(r) > 1 else N[:0]
    barred = np.concatenate([barred, np.zeros_like(N[:1])])
    u = apply(np.swapaxes(W, 1, 2), white) - apply(np.swapaxes(K, 1, 2), past)
    u = np.where(seen, u, 0.0)
    D = np.swapaxes(W, 1, 2) @ W + np.swapaxes(K, 1, 2) @ barred @ K
    both = seen[:, 0, :, None] & seen[:, 0, None, :]
    D = np.where(both, D, 0.0)
    eye = np.eye(F.shape[-1])

    def outer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.einsum("tni,nk,tkj->tij", left, spread, right, optimize=True)

    return Score(
        r[0],
        0.5 * (outer(r[:1], r[:1])[0] - count * N[0]),
        outer(r[1:], x[:-1]) - count * N[1:] @ A @ F[:-1],
        r[1:],
        0.5 * (outer(r[1:], r[1:]) - count * N[1:]),
        outer(u, x) - count * np.where(seen[:, 0, :, None], np.swapaxes(K, 1, 2) @ (eye - barred @ F), 0.0),
        u,
        0.5 * (outer(u, u) - count * D),
    )


def _looked(chain: HostChain, seen: np.ndarray, shared: bool) -> np.ndarray:
    C = chain.C if shared else chain.C[:, None]
    return np.where((seen[:, 0] if shared else seen)[..., None], C, 0.0)
