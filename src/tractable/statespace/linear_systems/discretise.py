r"""Continuous systems in steps: Euler, bilinear, zero-order hold, and the noise between readings.

Euler.       $A_d = I + \Delta A$, $B_d = \Delta B$.
Bilinear.    $A_d = (I - \frac\Delta2 A)^{-1}(I + \frac\Delta2 A)$, $B_d = (I - \frac\Delta2 A)^{-1}\Delta B$
             (the trapezoidal rule): stable systems stay stable.
Hold.        $\exp\Delta\begin{pmatrix} A & B \\ 0 & 0\end{pmatrix} = \begin{pmatrix} A_d & B_d \\ 0 & I
             \end{pmatrix}$: exact for inputs that are constant over a step, also for singular $A$.
Noise.       $dx = Ax\,dt + L\,d\beta$ with $LL^\top$ = `diffusion`: $Q_d = \int_0^\Delta e^{As} LL^\top
             e^{A^\top s}ds$, by one exponential of twice the size (Van Loan); long gaps by halving,
             $Q(2\Delta) = Q + A_d Q A_d^\top$, where the blocks would overflow.
Cost.        $O(n^3)$ per distinct gap.
References.  Van Loan (1978); Franklin, Powell and Workman (1998) chapter 4.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_option
from tractable.statespace.kalman.system import LinearGaussianSystem
from tractable.statespace.linear_systems.system import LinearSystem

__all__ = ["discretise", "discretise_noise", "sampled_system", "zero_order_hold"]


def discretise(system: LinearSystem, step: float | int, method: str = "zoh") -> LinearSystem:
    """The discrete system of steps of this length; `method` is "euler", "bilinear" or "zoh".

    >>> held = discretise(LinearSystem([[-1.0]], [[1.0]]), 0.1)
    >>> round(float(held.A[0, 0]), 7), round(float(held.B[0, 0]), 7)
    (0.9048374, 0.0951626)
    """
    check_option("method", method, ("euler", "bilinear", "zoh"))
    check(not system.is_discrete, "system", "continuous", f"one of steps of {system.step}")
    check(step > 0, "step", "positive", step)
    A, B, n = system.A, system.B, len(system.A)
    if method == "euler":
        moved = np.eye(n) + step * A, step * B
    elif method == "bilinear":
        left = np.eye(n) - step / 2 * A
        moved = np.linalg.solve(left, np.eye(n) + step / 2 * A), np.linalg.solve(left, step * B)
    else:
        moved = zero_order_hold(A, B, float(step))
    return LinearSystem(*moved, system.C, system.D, step)


def zero_order_hold(A: np.ndarray, B: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """$A_d$ and $B_d$ of a gap over which inputs are constant."""
    from scipy.linalg import expm

    n, k = B.shape
    whole = expm(gap * np.block([[A, B], [np.zeros((k, n + k))]]))
    return whole[:n, :n], whole[:n, n:]


def discretise_noise(drift: Any, diffusion: Any, gap: float | int) -> tuple[np.ndarray, np.ndarray]:
    """$A_d$ and $Q_d$ of a gap of a linear stochastic differential equation.

    >>> move, cov = discretise_noise([[-1.0]], [[2.0]], 0.5)  # an Ornstein-Uhlenbeck process of variance one
    >>> round(float(cov[0, 0] + move[0, 0] ** 2), 12)
    1.0
    """
    from scipy.linalg import expm

    A, L, gap = np.asarray(drift, float), np.asarray(diffusion, float), float(gap)
    n = len(A)
    check(A.shape == (n, n) and L.shape == (n, n), "diffusion", f"of shape ({n}, {n})", f"shape {L.shape}")
    check(gap >= 0, "gap", "zero or positive", gap)
    halvings = max(0, int(np.ceil(np.log2(max(np.abs(A).sum(1).max() * gap, 1e-300)))))
    short = gap / 2**halvings
    blocks = expm(short * np.block([[-A, L], [np.zeros((n, n)), A.T]]))
    move = blocks[n:, n:].T
    cov = move @ blocks[:n, n:]
    for _ in range(halvings):
        cov = cov + move @ cov @ move.T
        move = move @ move
    return move, 0.5 * (cov + cov.T)


def sampled_system(
    times: Any,
    drift: Any,
    diffusion: Any,
    observation: Any,
    observation_cov: Any,
    initial_mean: Any,
    initial_cov: Any,
) -> LinearGaussianSystem:
    """The linear-Gaussian system of a stochastic differential equation that is read at `times`, with gaps of
    any lengths; `initial_mean` and `initial_cov` are of the state at the first time.

    >>> system = sampled_system([0.0, 0.5, 2.0], [[-1.0]], [[2.0]], [[1.0]], [[0.1]], [0.0], [[1.0]])
    >>> np.asarray(system.transition)[:, 0, 0].round(6).tolist()
    [0.606531, 0.22313]
    """
    moments = np.asarray(times, float)
    check(moments.ndim == 1 and len(moments) > 0, "times", "a list of numbers", f"shape {moments.shape}")
    gaps = np.diff(moments)
    bad = np.flatnonzero(~(gaps >= 0))
    check(not len(bad), "times", "sorted", f"a fall after index {bad[0] if len(bad) else 0}")
    distinct, which = np.unique(gaps, return_inverse=True)
    pairs = [discretise_noise(drift, diffusion, gap) for gap in distinct]
    if len(pairs) == 0:
        pairs, which = [discretise_noise(drift, diffusion, 0.0)], np.zeros(1, int)
    moves: Any
    covs: Any
    moves, covs = (np.stack([pair[i] for pair in pairs])[which.reshape(-1)] for i in range(2))
    if len(pairs) == 1:
        moves, covs = moves[0], covs[0]
    return LinearGaussianSystem(moves, covs, observation, observation_cov, initial_mean, initial_cov)
