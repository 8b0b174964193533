r"""The steady state of a Kalman filter: the stabilising solution of the discrete Riccati equation.

Equation.    $P = A P A^\top - A P C^\top (C P C^\top + R)^{-1} C P A^\top + Q$.
Exists.      If $(A, C)$ is detectable (every mode with $|\lambda| \ge 1$ is seen) and $(A, Q^{1/2})$ has no
             mode on the unit circle that noise does not reach, the filter settles from every start with
             $P_1 > 0$. Modes are tested by the rank of $[A - \lambda I;\ C]$ (Popov, Belevitch, Hautus).
Tolerance.   A rank is counted by singular values above $10^{-10}$ of the largest.
Cost.        $O(d^3)$, on the host.
References.  Anderson and Moore (1979) chapter 4; Laub (1979).
"""

import numpy as np

from tractable.core.checks import check
from tractable.statespace.kalman.results import SteadyState

__all__ = ["RANK_TOLERANCE", "steady_state"]

RANK_TOLERANCE = 1e-10


def steady_state(A: np.ndarray, Q: np.ndarray, C: np.ndarray, R: np.ndarray) -> SteadyState:
    """The steady state of a system with constant matrices; an error says which mode has none."""
    from scipy.linalg import LinAlgError, solve_discrete_are

    _check_modes(A, Q, C)
    try:
        P = solve_discrete_are(A.T, C.T, Q, R)
    except (LinAlgError, ValueError) as error:
        raise ValueError(
            "`transition_cov` and `observation_cov` must allow a steady state; got a Riccati equation "
            f"without a stabilising solution ({error})."
        ) from error
    P = 0.5 * (P + P.T)
    S = C @ P @ C.T + R
    gain = np.linalg.solve(S, C @ P).T
    rest = np.eye(len(A)) - gain @ C
    cov = rest @ P @ rest.T + gain @ R @ gain.T
    again = A @ cov @ A.T + Q
    error = np.abs(again - P).max() / max(np.abs(P).max(), np.finfo(float).tiny)
    check(
        error < 1e-6, "transition", "such that the steady state can be computed", f"an error of {error:.1g}"
    )
    radius = float(np.abs(np.linalg.eigvals(A @ rest)).max())
    return SteadyState(P, cov, gain, S, radius)


def _check_modes(A: np.ndarray, Q: np.ndarray, C: np.ndarray) -> None:
    values = np.linalg.eigvals(A)
    size = max(np.abs(A).max(), 1.0)
    for value in values[np.abs(values) >= 1 - 1e-12]:
        shifted = (A - value * np.eye(len(A))) / size
        unseen = _rank(np.vstack([shifted, C / max(np.abs(C).max(), 1e-300)])) < len(A)
        shown = f"{value.real:.6g}" if abs(value.imag) < 1e-12 else f"{value:.6g}"
        fix = "Its variance grows without bound: read it, or drop it from the state."
        got = f"an eigenvalue {shown} that no reading sees"
        check(not unseen, "observation", "such that modes that do not decay are seen", got, fix)
        on_circle = abs(abs(value) - 1) <= 1e-9
        largest = np.abs(Q).max(initial=0.0)
        unmoved = _rank(np.hstack([shifted, Q / largest if largest > 0 else Q])) < len(A)
        got = f"an eigenvalue {shown} on the unit circle that no noise moves"
        fix = "It is learnt ever more exactly, with a gain that goes to zero: there is no steady gain."
        check(not (on_circle and unmoved), "transition_cov", "noise in modes that persist", got, fix)


def _rank(matrix: np.ndarray) -> int:
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > RANK_TOLERANCE * max(values[0], 1.0)).sum())
