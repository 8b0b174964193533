r"""Gaussian chains on the host: one pass of covariances serves every series that has the same gaps.

Model.       That of `messages.gaussian_chain`, for $N$ series of $T$ readings over one system.
Split.       Covariances, gains $K_t$ and innovation covariances $S_t$ do not depend on the readings. They
             are computed once (Joseph's form); the means of all series then follow an affine recursion
             $m_{t+1} = L_t m_t + u_t$ with $L_t = A_t(I - K_t C_t)$, one product of matrices per step.
Settled.     Where matrices are constant and the covariance repeats itself to rounding (and $L$ contracts,
             so that what is left of the way is rounding too), the same gain serves all later steps. For few
             long series these are products of matrices, with no loop over times (`gaussian_recursion`).
Gaps.        Missing entries get no weight and unit noise; series with gaps of their own have covariances
             of their own.
Beside.      `gaussian_chain` is the same identities under a trace: differentiable, in parallel over time, in
             square-root and information form. It compiles a program for each shape and does the covariances
             of every series again; this pass does neither, and cannot be traced, since where covariances
             repeat decides how long its loops are. Tests hold both to one answer.
Cost.        $O(T_0 d^3)$ for the $T_0$ distinct covariances, $O(N T d^2)$ for means; nothing is compiled.
References.  Anderson and Moore (1979) chapter 4; Harvey (1989) section 3.3.
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.messages.gaussian_recursion import apply, recursion

__all__ = [
    "Covariances", "HostChain", "Passed", "SingularReading", "covariances", "forward", "log_densities",
    "over", "repeats", "stretches",
]  # fmt: skip

_EPS = float(np.finfo(np.float64).eps)
_LEAST_CONTRACTION = 1e-3  # of 1 - |L|^2: what is left of the way is then below 1e-12
_FEW = 2048  # numbers in the states of all series, for which all times are done at once


class SingularReading(ValueError):
    """A reading has no density given those before it; `time` says which, `grown` whether by overflow."""

    def __init__(self, time: int, grown: bool = False):
        super().__init__(f"no density at time {time}")
        self.time, self.grown = time, grown


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
    """The pass over readings `(T, N, m)`, of which entries may be NaN."""
    return Passed(*_forward(chain, ys, True))


def log_densities(chain: HostChain, ys: np.ndarray) -> np.ndarray:
    """The log-density of each reading given those before it, `(T, N)`: the same pass keeps no states."""
    return _forward(chain, ys, False)[-1]


def _forward(chain: HostChain, ys: np.ndarray, keeps: bool) -> tuple:
    absent = np.isnan(ys)
    gappy = bool(absent.any())
    shared = not gappy or bool((absent == absent[:, :1]).all())
    found = covariances(chain, ~absent[:, 0] if shared else ~absent)
    centred = ys - chain.c if chain.c.any() else ys
    if gappy:
        centred = np.where(absent, 0.0, centred)
    start = np.broadcast_to(chain.mean, (ys.shape[1], chain.mean.shape[1]))
    ways = _all_times if shared and start.size <= _FEW else _each_time
    *states, gaps, squares = ways(chain, found, centred, absent if gappy else None, start, keeps)
    log_det = found.log_det[found.slot]
    seen = ys.shape[2] - absent.sum(2) if gappy else ys.shape[2]
    squares += (log_det[:, None] if shared else log_det) + seen * np.log(2 * np.pi)
    return found, *states, gaps, -0.5 * squares


def _all_times(
    chain: HostChain, found: Covariances, centred: np.ndarray, absent: Any, start: np.ndarray, keeps: bool
) -> tuple:
    """Means and innovations of few series: all times at once."""
    slot, push, look = found.slot, None, None
    if not chain.b.any():
        pushed = centred[:-1]
        push = chain.A[0] @ found.gain if len(chain.A) == 1 else chain.A @ found.gain[: len(chain.A)]
    else:
        pushed = np.empty((len(slot) - 1, *start.shape))
        if len(slot) > 1:
            pushed[:] = apply(chain.A, over(found.gain, slot[:-1], centred[:-1])) + chain.b
    if not keeps and len(chain.C) == 1:
        look = chain.C[0]
    asked = recursion(found.closed, slot[:-1], pushed, start, push, look)
    gaps = centred - (apply(chain.C, asked) if look is None else asked)
    if absent is not None:
        gaps[absent] = 0.0
    filtered = asked + over(found.gain, slot, gaps) if keeps else None
    return asked if keeps else None, filtered, gaps, _squares(over(found.whitener, slot, gaps))


def _each_time(
    chain: HostChain, found: Covariances, centred: np.ndarray, absent: Any, start: np.ndarray, keeps: bool
) -> tuple:
    """Means and innovations of many series: time by time, while a time is in the cache."""
    predicted = np.empty((len(centred) if keeps else 0, *start.shape))
    filtered, gaps, squares = np.empty_like(predicted), np.empty_like(centred), np.empty(centred.shape[:2])
    m = start[None]
    for t, slot in enumerate(found.slot):
        gap = centred[t : t + 1] - apply(chain.C[_one(chain.C, t)], m)
        if absent is not None:
            gap[absent[t : t + 1]] = 0.0
        after = m + apply(found.gain[slot : slot + 1], gap)
        gaps[t], squares[t] = gap[0], _squares(apply(found.whitener[slot : slot + 1], gap))[0]
        if keeps:
            predicted[t], filtered[t] = m[0], after[0]
        if t + 1 < len(centred):
            m = apply(chain.A[_one(chain.A, t)], after) + chain.b[_one(chain.b, t)]
    return predicted, filtered, gaps, squares


def _squares(white: np.ndarray) -> np.ndarray:
    """Sums of squares over the last axis."""
    return white[..., 0] ** 2 if white.shape[-1] == 1 else (white**2).sum(-1)


def over(matrices: np.ndarray, slot: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The matrices of each time, of vectors `(T, N, e)`: those that serve many times in one product."""
    made = np.empty((*vectors.shape[:2], matrices.shape[-2]))
    for here, one in stretches(slot, matrices.ndim == 3):
        made[here] = apply(matrices[one], vectors[here])
    return made


def stretches(slot: np.ndarray, shared: bool) -> Any:
    """Times that use one slot, with it, and the other times together with theirs."""
    if not shared:
        for t in range(len(slot)):
            yield slice(t, t + 1), slice(slot[t], slot[t] + 1)
        return
    counts = np.bincount(slot)
    for one in np.flatnonzero(counts > 16):
        here = np.flatnonzero(slot == one)
        runs = here[0] + len(here) == here[-1] + 1
        yield (slice(here[0], here[-1] + 1) if runs else here), slice(one, one + 1)
    rest = np.flatnonzero(counts[slot] <= 16)
    if len(rest):
        yield rest, slot[rest]


def covariances(chain: HostChain, seen: np.ndarray) -> Covariances:
    """The covariances, gains and innovation factors of every time, for readings seen `(T, [N], m)`."""
    times = len(seen)
    whole: Any = seen.reshape(times, -1).all(1)
    ends = _run_ends(whole)
    slot, kept = np.empty(times, int), []
    cov, settled, constant, t = chain.cov, -1, chain.is_constant, 0
    if seen.ndim == 3:
        cov = np.broadcast_to(cov, (seen.shape[1], *cov.shape))
    A, Q, look, R = chain.A[0], chain.Q[0], chain.C[0, 0], chain.R[0]
    single = constant and seen.ndim == 2 and seen.shape[1] == 1  # matrices are looked up once
    while t < times:
        if settled >= 0 and whole[t] and repeats(cov, kept[settled][0]):
            slot[t : ends[t]], t = settled, int(ends[t])
            cov = kept[settled][0]
            continue
        short = single and whole[t]
        parts = _step_of_one(cov, look, R, A, t) if short else _step(chain, cov, seen[t], t)
        slot[t] = len(kept)
        kept.append((cov, *parts))
        if not constant:
            A, Q = chain.A[_at(chain.A, t)], chain.Q[_at(chain.Q, t)]
        after = A @ parts[0] @ A.T + Q
        after = (after + np.swapaxes(after, -1, -2)) * 0.5
        if constant and t % 4 == 0 and whole[t] and repeats(after, cov) and _contracts(parts[4]):
            settled = len(kept) - 1
        cov, t = after, t + 1
    stacked = [np.stack([one[i] for one in kept]) for i in range(6)]
    return Covariances(slot, *stacked)


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
        raise SingularReading(t, not np.isfinite(marginal))
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
        raise SingularReading(t, not np.isfinite(whole).all())


def _one(matrices: np.ndarray, t: int) -> slice:
    place = _at(matrices, t)
    return slice(place, place + 1)


def _at(matrices: np.ndarray, t: int) -> int:
    return min(t, len(matrices) - 1)


def repeats(cov: np.ndarray, before: np.ndarray) -> bool:
    """Whether two covariances are equal to rounding, in units of their deviations."""
    if cov.ndim != 2 or (len(cov) and abs(cov[0, 0] - before[0, 0]) > 4 * _EPS * cov[0, 0]):
        return False
    scale = np.sqrt(np.maximum(np.diagonal(cov), 0.0))
    return bool((np.abs(cov - before) <= 4 * _EPS * np.outer(scale, scale)).all())


def _contracts(closed: np.ndarray) -> bool:
    return bool(1 - np.abs(np.linalg.eigvals(closed)).max(initial=0.0) ** 2 > _LEAST_CONTRACTION)


def _run_ends(whole: np.ndarray) -> np.ndarray:
    """For each time the end of the run of whole readings that it lies in."""
    if whole.all():
        return np.full(len(whole), len(whole))
    ends = np.arange(1, len(whole) + 1)
    breaks = np.flatnonzero(~whole)
    if whole.any():
        after = np.append(breaks, len(whole))
        place = np.searchsorted(after, np.arange(len(whole)))
        ends = np.where(whole, after[np.minimum(place, len(after) - 1)], ends)
    return ends
