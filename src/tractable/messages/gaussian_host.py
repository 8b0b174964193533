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

__all__ = [
    "Covariances", "HostChain", "Passed", "SingularReading", "apply", "covariances", "forward",
    "recursion", "repeats",
]  # fmt: skip

_EPS = float(np.finfo(np.float64).eps)
_LEAST_CONTRACTION = 1e-3  # of 1 - |L|^2: what is left of the way is then below 1e-12
_FEW = 32768  # numbers in a stretch of time that is done at once


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
    absent = np.isnan(ys)
    gappy = bool(absent.any())
    shared = not gappy or bool((absent == absent[:, :1]).all())
    found = covariances(chain, ~absent[:, 0] if shared else ~absent)
    centred = ys - chain.c if chain.c.any() else ys
    if gappy:
        centred = np.where(absent, 0.0, centred)
    size = chain.mean.shape[1]
    predicted = np.empty((*ys.shape[:2], size))
    filtered, gaps, densities = np.empty_like(predicted), np.empty_like(ys), np.empty(ys.shape[:2])
    m = np.broadcast_to(chain.mean, predicted.shape[1:])
    most = max(1, _FEW // m.size) if shared else 1
    t = 0
    while t < len(ys):
        end = min(_same_until(found.slot, t), t + most) if most > 1 else t + 1
        slot, x = found.slot[t], centred[t:end]
        K, W = found.gain[slot : slot + 1], found.whitener[slot : slot + 1]
        C, A, b = chain.C[_one(chain.C, t)], chain.A[_one(chain.A, t)], chain.b[_stretch(chain.b, t, end)]
        predicted[t] = m
        if end - t > 1:
            forced = apply(A, apply(K, x[:-1])) + chain.b[_stretch(chain.b, t, end - 1)]
            predicted[t + 1 : end] = _doubled(found.closed[slot], forced, m)
        gap = x - apply(C, predicted[t:end])
        if gappy:
            gap = np.where(absent[t:end], 0.0, gap)
        gaps[t:end] = gap
        filtered[t:end] = after = predicted[t:end] + apply(K, gap)
        densities[t:end] = (apply(W, gap) ** 2).sum(2) + found.log_det[slot]
        m, t = apply(A, after[-1:])[0] + b[-1] if end < len(ys) else m, end
    seen = ys.shape[2] if not gappy else ys.shape[2] - absent.sum(2)
    densities = -0.5 * (densities + seen * np.log(2 * np.pi))
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
        if settled >= 0 and whole[t] and repeats(cov, kept[settled][0]):
            slot[t : ends[t]], t = settled, ends[t]
            cov = kept[settled][0]
            continue
        parts = _step(chain, cov, seen[t], t)
        slot[t] = len(kept)
        kept.append((cov, *parts))
        A, Q = chain.A[_at(chain.A, t)], chain.Q[_at(chain.Q, t)]
        after = A @ parts[0] @ A.T + Q
        after = 0.5 * (after + np.swapaxes(after, -1, -2))
        if chain.is_constant and whole[t] and repeats(after, cov) and _contracts(parts[4]):
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
    most = max(1, _FEW // start.size) if shared else 1
    t, steps = 0, len(pushed)
    while t < steps:
        end = min(_same_until(slot, t), t + most) if most > 1 else t + 1
        if end - t >= 8:
            means[t + 1 : end + 1] = _doubled(closed[slot[t]], pushed[t:end], m)
            t, m = end, means[end]
            continue
        for now in range(t, end):
            moved = m @ turned[slot[now]] if shared else (closed[slot[now]] @ m[..., None])[..., 0]
            means[now + 1] = m = moved + pushed[now]
        t = end
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
    if cov.ndim == 2 and len(C) == 1:
        return _step_of_one(cov, C[0], R, A, t)
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


def _step_of_one(cov: np.ndarray, look: np.ndarray, R: np.ndarray, A: np.ndarray, t: int) -> tuple[Any, ...]:
    """The same for one entry read: no factors, and Joseph's form multiplied out."""
    cross = cov.dot(look)
    marginal = look.dot(cross) + R[0, 0]
    if not (marginal > 0 and np.isfinite(marginal)):
        raise SingularReading(t)
    gain = cross / marginal
    lost = np.multiply.outer(gain, cross)
    filtered = cov - lost - lost.T + np.multiply.outer(gain, gain * marginal)
    closed = A - np.multiply.outer(A.dot(gain), look)
    return filtered, gain[:, None], np.full((1, 1), marginal**-0.5), np.log(marginal), closed


def _check_regular(root: np.ndarray, marginal: np.ndarray, t: int) -> None:
    """Each entry must vary given those before it in the reading, by more than rounding."""
    left = np.diagonal(root, axis1=-2, axis2=-1) ** 2
    whole = np.diagonal(marginal, axis1=-2, axis2=-1)
    if not (left > 10 * len(left.T) * _EPS * whole).all() or not np.isfinite(left).all():
        raise SingularReading(t)


def _one(matrices: np.ndarray, t: int) -> slice:
    place = _at(matrices, t)
    return slice(place, place + 1)


def _stretch(shifts: np.ndarray, t: int, end: int) -> slice:
    """The shifts after the times from `t` to `end`; after the last time there is none."""
    return slice(0, 1) if len(shifts) == 1 else slice(t, end)


def _at(matrices: np.ndarray, t: int) -> int:
    return min(t, len(matrices) - 1)


def repeats(cov: np.ndarray, before: np.ndarray) -> bool:
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
