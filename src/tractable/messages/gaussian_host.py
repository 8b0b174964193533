r"""Gaussian chains on the host: one pass of covariances serves every series that has the same gaps.

Model.       That of `messages.gaussian_chain`, for $N$ series of $T$ readings over one system.
Split.       Covariances, gains $K_t$ and innovation covariances $S_t$ do not depend on the readings. They
             are computed once (Joseph's form); the means of all series then follow an affine recursion
             $m_{t+1} = L_t m_t + u_t$ with $L_t = A_t(I - K_t C_t)$, one product of matrices per step.
Settled.     Where matrices are constant and the covariance repeats itself to rounding (and $L$ contracts,
             so that what is left of the way is rounding too), the same gain serves all later steps. For a
             few long series the recursion is then done by doubling: $u_t \leftarrow u_t + L^k u_{t-k}$ for
             $k = 1, 2, 4, \dots$, no loop over times.
Gaps.        Missing entries get no weight and unit noise; series with gaps of their own have covariances
             of their own.
Cost.        $O(T_0 d^3)$ for the $T_0$ distinct covariances and $O(N T d^2)$ for the means; nothing is
             compiled.
References.  Anderson and Moore (1979) chapter 4; Harvey (1989) section 3.3.
"""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Covariances", "HostChain", "Passed", "SingularReading", "covariances", "forward", "recursion"]

_EPS = float(np.finfo(np.float64).eps)
_LEAST_CONTRACTION = 1e-3  # of 1 - |L|^2: what is left of the way is then below 1e-12
_FEW = 4096  # numbers per time: above, a product per step is faster than doubling


class SingularReading(ValueError):
    """A reading has no density given those before it; `time` says which."""

    def __init__(self, time: int):
        super().__init__(f"no density at time {time}")
        self.time = time


class HostChain(NamedTuple):
    """A chain in NumPy: matrices with a leading axis of one (the same at all times) or one per time, and
    shifts `(1 or times, 1 or series, size)`."""

    mean: np.ndarray  # (1 or N, d)
    cov: np.ndarray
    A: np.ndarray
    b: np.ndarray
    Q: np.ndarray
    C: np.ndarray
    c: np.ndarray
    R: np.ndarray

    @property
    def is_constant(self) -> bool:
        """Whether all matrices are the same at all times."""
        return len(self.A) == len(self.Q) == len(self.C) == len(self.R) == 1


class Covariances(NamedTuple):
    """What does not depend on the readings; `slot[t]` says which of the stored matrices serve time `t`.
    Matrices of series with their own gaps have an axis for series after the first."""

    slot: np.ndarray  # (T,)
    predicted: np.ndarray  # (S, [N], d, d)
    filtered: np.ndarray
    gain: np.ndarray  # (S, [N], d, m)
    whitener: np.ndarray  # (S, [N], m, m): W with W' W the inverse of the innovation covariance
    log_det: np.ndarray  # (S, [N])
    closed: np.ndarray  # (S, [N], d, d): L, of the slot and the transition after it

    @property
    def is_shared(self) -> bool:
        """Whether all series have these covariances."""
        return self.predicted.ndim == 3


class Passed(NamedTuple):
    """A pass forward of many series, times first."""

    covariances: Covariances
    predicted: np.ndarray  # (T, N, d)
    filtered: np.ndarray
    gaps: np.ndarray  # (T, N, m): readings less predictions, zero where missing
    log_densities: np.ndarray  # (T, N)


def forward(chain: HostChain, ys: np.ndarray) -> Passed:
    """The pass forward over readings `(T, N, m)`, of which entries may be NaN."""
    seen = ~np.isnan(ys)
    shared = bool((seen == seen[:, :1]).all())
    found = covariances(chain, seen[:, 0] if shared else seen)
    centred = np.where(seen, ys - chain.c, 0.0)
    slot, A = found.slot, chain.A
    forced = apply(found.gain[slot], centred)
    pushed = apply(A if len(A) == 1 else A, forced[:-1]) + chain.b if len(ys) > 1 else forced[:0]
    start = np.broadcast_to(chain.mean, (ys.shape[1], chain.mean.shape[1]))
    predicted = recursion(found.closed, slot[:-1], np.broadcast_to(pushed, (len(ys) - 1, *start.shape)), start)
    gaps = np.where(seen, centred - apply(chain.C, predicted), 0.0)
    filtered = predicted + apply(found.gain[slot], gaps)
    white = apply(found.whitener[slot], gaps)
    log_det = found.log_det[slot]
    log_det = log_det[:, None] if found.is_shared else log_det
    densities = -0.5 * ((white**2).sum(2) + log_det + seen.sum(2) * np.log(2 * np.pi))
    return Passed(found, predicted, filtered, gaps, densities)


def apply(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The matrices `([T], d, e)` of each time, or `(T, N, d, e)` of each time and series, of `(T, N, e)`."""
    if matrices.ndim == 4:
        return (matrices @ vectors[..., None])[..., 0]
    if len(matrices) == 1:
        flat = vectors.reshape(-1, vectors.shape[-1]) @ matrices[0].T
        return flat.reshape(*vectors.shape[:-1], matrices.shape[1])
    return vectors @ np.swapaxes(matrices, 1, 2)


def covariances(chain: HostChain, seen: np.ndarray) -> Covariances:
    """The covariances, gains and innovation factors of every time, for readings seen `(T, [N], m)`."""
    times = len(seen)
    whole = seen.reshape(times, -1).all(1)
    ends = _run_ends(whole)
    slot, kept = np.empty(times, int), []
    cov, settled, before, t = chain.cov, -1, None, 0
    if seen.ndim == 3:
        cov = np.broadcast_to(cov, (seen.shape[1], *cov.shape))
    while t < times:
        if settled >= 0 and whole[t] and _repeats(cov, kept[settled][0]):
            slot[t : ends[t]], t = settled, ends[t]
            cov = kept[settled][0]
            continue
        parts = _step(chain, cov, seen[t], t)
        slot[t] = len(kept)
        kept.append((cov, *parts))
        A, Q = chain.A[_at(chain.A, t)], chain.Q[_at(chain.Q, t)]
        after = A @ parts[0] @ A.T + Q
        after = 0.5 * (after + np.swapaxes(after, -1, -2))
        if chain.is_constant and whole[t] and _repeats(after, cov) and _contracts(parts[4]):
            settled = len(kept) - 1
        cov, t = after, t + 1
    stacked = [np.stack([one[i] for one in kept]) for i in range(6)]
    return Covariances(slot, *stacked)


def recursion(closed: np.ndarray, slot: np.ndarray, pushed: np.ndarray, start: np.ndarray) -> np.ndarray:
    """$m_0$ = `start` and $m_{t+1} = L_t m_t + u_t$ for `pushed` $(T - 1, N, d)$, times first."""
    means = np.empty((len(pushed) + 1, *start.shape))
    means[0] = m = start
    shared = closed.ndim == 3
    turned = np.swapaxes(closed, -1, -2)
    t, steps = 0, len(pushed)
    while t < steps:
        end = _same_until(slot, t) if shared and start.size <= _FEW else t + 1
        if end - t >= 32:
            means[t + 1 : end + 1] = _doubled(closed[slot[t]], pushed[t:end], m)
            t, m = end, means[end]
            continue
        for t in range(t, end):
            now = m @ turned[slot[t]] if shared else (closed[slot[t]] @ m[..., None])[..., 0]
            means[t + 1] = m = now + pushed[t]
        t += 1
    return means


def _doubled(closed: np.ndarray, pushed: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The recursion under one matrix, by doubling."""
    total = pushed.copy()
    total[0] += start @ closed.T
    power, shift = closed, 1
    while shift < len(total) and np.abs(power).max(initial=0.0) > 1e-20:
        total[shift:] = total[shift:] + apply(power[None], total[:-shift])
        power, shift = power @ power, 2 * shift
    return total


def _step(chain: HostChain, cov: np.ndarray, seen: np.ndarray, t: int) -> tuple[Any, ...]:
    """Filtered covariance, gain, whitener, log-determinant and closed loop of one time."""
    C, R, A = chain.C[_at(chain.C, t)], chain.R[_at(chain.R, t)], chain.A[_at(chain.A, t)]
    if not seen.all():
        C = np.where(seen[..., None], C, 0.0)
        R = np.where(seen[..., None] & seen[..., None, :], R, np.eye(len(R)))
    cross = cov @ np.swapaxes(C, -1, -2)
    marginal = C @ cross + R
    if marginal.shape[-1] == 1:
        root = np.sqrt(np.maximum(marginal, 0.0))
        _check_regular(root, marginal, t)
        whitener = 1 / root
    else:
        try:
            root = np.linalg.cholesky(marginal)
        except np.linalg.LinAlgError:
            raise SingularReading(t) from None
        _check_regular(root, marginal, t)
        whitener = np.linalg.inv(root)
    gain = cross @ np.swapaxes(whitener, -1, -2) @ whitener
    rest = np.eye(cov.shape[-1]) - gain @ C
    filtered = rest @ cov @ np.swapaxes(rest, -1, -2) + gain @ R @ np.swapaxes(gain, -1, -2)
    log_det = 2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(-1)
    return filtered, gain, whitener, log_det, A @ rest


def _check_regular(root: np.ndarray, marginal: np.ndarray, t: int) -> None:
    """Each entry must vary given those before it in the reading, by more than rounding."""
    left = np.diagonal(root, axis1=-2, axis2=-1) ** 2
    whole = np.diagonal(marginal, axis1=-2, axis2=-1)
    if not (left > 10 * len(left.T) * _EPS * whole).all() or not np.isfinite(left).all():
        raise SingularReading(t)


def _at(matrices: np.ndarray, t: int) -> int:
    return min(t, len(matrices) - 1)


def _repeats(cov: np.ndarray, before: np.ndarray) -> bool:
    """Whether two covariances are equal to rounding, in units of their deviations."""
    if cov.ndim != 2:
        return False
    scale = np.sqrt(np.maximum(np.diagonal(cov), 0.0))
    return bool((np.abs(cov - before) <= 4 * _EPS * np.outer(scale, scale)).all())


def _contracts(closed: np.ndarray) -> bool:
    return bool(1 - np.abs(np.linalg.eigvals(closed)).max(initial=0.0) ** 2 > _LEAST_CONTRACTION)


def _run_ends(whole: np.ndarray) -> np.ndarray:
    """For each time the end of the run of whole readings that it lies in."""
    ends = np.arange(1, len(whole) + 1)
    breaks = np.flatnonzero(~whole)
    if whole.any():
        after = np.append(breaks, len(whole))
        place = np.searchsorted(after, np.arange(len(whole)))
        ends = np.where(whole, after[np.minimum(place, len(after) - 1)], ends)
    return ends


def _same_until(slot: np.ndarray, t: int) -> int:
    """The first step after `t` that uses another matrix."""
    ahead = slot[t : t + 64] != slot[t]
    if ahead.any():
        return t + int(ahead.argmax())
    ahead = slot[t:] != slot[t]
    return t + int(ahead.argmax()) if ahead.any() else len(slot)
