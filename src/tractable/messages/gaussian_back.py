r"""The pass backward of Gaussian chains on the host: smoothed states, and the exact score of every matrix.

Adjoint.     With $\bar r_t = A_t^\top r_{t+1}$ and $\bar N_t = A_t^\top N_{t+1} A_t$, from $r_{T} = 0$, $N_{T}
             = 0$: $r_t = C^\top S^{-1} v_t + (I - KC)^\top \bar r_t$, $N_t = C^\top S^{-1} C + (I - KC)^\top
             \bar N_t (I - KC)$.
Smoothed.    $\hat x_t = m_t + P_t r_t$, $V_t = P_t - P_t N_t P_t$, $\mathrm{Cov}[x_{t+1}, x_t] = (I - P_{t+1}
             N_{t+1}) A_t F_t$ with $F_t$ the filtered covariance. No covariance is inverted.
Score.       $\partial \ell/\partial Q = \frac12 \sum (r_{t+1} r_{t+1}^\top - N_{t+1})$, $\partial\ell/\partial b
             = \sum r_{t+1}$, $\partial\ell/\partial A = \sum (r_{t+1} \hat x_t^\top - N_{t+1} A F_t)$; with
             $u = S^{-1} v - K^\top \bar r$ and $D = S^{-1} + K^\top \bar N K$: $\partial\ell/\partial R =
             \frac12 \sum(u u^\top - D)$, $\partial\ell/\partial c = \sum u$, $\partial\ell/\partial C = \sum (u
             \hat x^\top - K^\top (I - \bar N F))$; at the start $r_0$ and $\frac12(r_0 r_0^\top - N_0)$.
             They follow from Fisher's identity, and hold where $Q$ or $R$ is singular.
Cost.        That of the pass forward.
References.  de Jong (1989); Koopman and Shephard (1992); Durbin and Koopman (2012) chapter 4.
"""

from typing import NamedTuple

import numpy as np

from tractable.messages.gaussian_host import HostChain, Passed, apply, recursion

__all__ = ["Adjoint", "Score", "adjoint", "score", "smoothed_covariances", "smoothed_means"]


class Adjoint(NamedTuple):
    """$r_t$ `(T, N, d)` and $N_t$ `(T, [N], d, d)` of each time."""

    vectors: np.ndarray
    matrices: np.ndarray


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
    slot, times = found.slot, len(found.slot)
    white = apply(found.whitener[slot], passed.gaps)
    told = _looked(chain, seen, found.is_shared)  # C, zero where a reading is missing
    half = found.whitener[slot] @ told
    pulled = apply(np.swapaxes(half, -1, -2), white)
    turned = np.swapaxes(found.closed, -1, -2)
    back = recursion(turned, slot[:-1][::-1], pulled[:-1][::-1], pulled[-1])[::-1]
    if not matrices:
        return Adjoint(back, np.zeros(0))
    gathered = np.swapaxes(half, -1, -2) @ half
    whole = np.empty_like(gathered)
    whole[-1] = now = gathered[-1]
    t = times - 2
    while t >= 0:
        closed = found.closed[slot[t]]
        now = gathered[t] + turned[slot[t]] @ now @ closed
        whole[t] = now = 0.5 * (now + np.swapaxes(now, -1, -2))
        t -= 1
        if t >= 0 and now.ndim == 2 and slot[t] == slot[t + 1] and np.array_equal(now, whole[t + 2]):
            first = t  # settled: the same until another gain comes
            while first > 0 and slot[first - 1] == slot[t]:
                first -= 1
            whole[first : t + 1] = now
            t = first - 1
    return Adjoint(back, whole)


def smoothed_means(passed: Passed, back: Adjoint) -> np.ndarray:
    """The means given all readings, `(T, N, d)`."""
    found = passed.covariances
    return passed.predicted + apply(found.predicted[found.slot], back.vectors)


def smoothed_covariances(chain: HostChain, passed: Passed, back: Adjoint) -> tuple[np.ndarray, np.ndarray]:
    """The covariances given all readings `(T, [N], d, d)`, and $\\mathrm{Cov}[x_{t+1}, x_t]$."""
    found = passed.covariances
    P, F = found.predicted[found.slot], found.filtered[found.slot]
    cov = P - P @ back.matrices @ P
    A = chain.A if found.is_shared else chain.A[:, None]
    eye = np.eye(P.shape[-1])
    cross = (eye - P[1:] @ back.matrices[1:]) @ A @ F[:-1]
    return 0.5 * (cov + np.swapaxes(cov, -1, -2)), cross


def score(chain: HostChain, passed: Passed, back: Adjoint, seen: np.ndarray, spread: np.ndarray) -> Score:
    """The score; `spread` `(N, N)` is the second moment of the weights with which the series are added.

    For independent series of weights $w$ it is $\\mathrm{diag}(w)$. For a series and its responses to an
    unknown start $\\delta$ it is $E[(1, \\delta)(1, \\delta)^\\top]$; the covariances count once then.
    """
    found, slot = passed.covariances, passed.covariances.slot
    r, N = back.vectors, back.matrices
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
    eye, count = np.eye(F.shape[-1]), float(spread[0, 0])

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
