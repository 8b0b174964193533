r"""HiPPO-LegS: a linear system whose state is the best polynomial approximation of all that it has read.

Memory.      $c_n(t) = \frac1t\int_0^t f(s)\,g_n(s/t)\,ds$ with $g_n(r) = \sqrt{2n+1}\,P_n(2r - 1)$,
             orthonormal on $[0, 1]$, so that $f(s) \approx \sum_n c_n(t)\,g_n(s/t)$ for all $s \le t$.
System.      $\dot c = \frac1t(Ac + Bf)$ with $A_{nk} = -\sqrt{(2n+1)(2k+1)}$ for $n > k$, $-(n+1)$ for $n =
             k$, zero above, and $B_n = \sqrt{2n+1}$. The eigenvalues are $-1, \dots, -N$: stable. (Without
             the minus sign, as it is often printed, it is not.)
Steps.       In $\tau = \log t$ the system is time-invariant, so the zero-order hold over $\log\frac{k+1}{k}$
             is exact for a function that is constant between readings; the bilinear rule is that of the
             paper.
Poles.       $A + \frac12 I + \frac12 BB^\top$ is skew: the normal part $A + \frac12 BB^\top$ has eigenvalues
             $-\frac12 \pm i\omega$, at which diagonal layers begin.
Cost.        $O(TN^3)$ for the memory of $T$ readings, on the host.
References.  Gu et al. (2020), HiPPO; Gu, Goel and Re (2022); Gu et al. (2022), S4D.
"""

import numpy as np

from tractable.core.checks import check, check_count, check_finite, check_option
from tractable.core.types import ArrayLike
from tractable.statespace.linear_systems.discretise import discretise
from tractable.statespace.linear_systems.system import LinearSystem

__all__ = ["hippo_legs", "legendre_memory", "legendre_reconstruction", "legs_frequencies"]


def hippo_legs(order: int) -> LinearSystem:
    """The system in $\\tau = \\log t$, of `order` states.

    >>> hippo_legs(4).A.round(7)[3].tolist()
    [-2.6457513, -4.5825757, -5.9160798, -4.0]
    """
    weights = np.sqrt(2 * np.arange(check_count("order", order)) + 1.0)
    A = -np.tril(np.outer(weights, weights), -1) - np.diag(np.arange(order) + 1.0)
    return LinearSystem(A, weights[:, None])


def legendre_memory(samples: ArrayLike, order: int, *, method: str = "zoh") -> np.ndarray:
    """The coefficients $c(k)$, `(T, order)`, after each of the samples; `method` is "zoh" or "bilinear".

    Sample $k$ is the value of the function from time $k$ to $k + 1$: "zoh" is exact.

    >>> legendre_memory([1.0, 3.0], 2).round(9).tolist()
    [[1.0, 0.0], [2.0, 0.866025404]]
    """
    check_option("method", method, ("zoh", "bilinear"))
    values = np.asarray(samples, float)
    check(values.ndim == 1 and values.size > 0, "samples", "a list of numbers", f"shape {values.shape}")
    check_finite("samples", values)
    system, found = hippo_legs(order), np.zeros((len(values), order))
    found[0, 0] = values[0]  # a constant so far
    for k in range(1, len(values)):
        gap = np.log1p(1 / k) if method == "zoh" else 1 / k
        held = discretise(system, gap, method)
        found[k] = held.A @ found[k - 1] + held.B[:, 0] * values[k]
    return found


def legendre_reconstruction(coefficients: ArrayLike, points: ArrayLike) -> np.ndarray:
    """The function at `points`, as parts of the time that has passed: from 0, the beginning, to 1, now.

    >>> legendre_reconstruction([2.0, 0.5 * 3**0.5], [0.0, 0.5, 1.0]).round(9).tolist()
    [0.5, 2.0, 3.5]
    """
    weights, places = np.asarray(coefficients, float), np.asarray(points, float)
    check(weights.ndim == 1 and weights.size > 0, "coefficients", "a vector", f"shape {weights.shape}")
    inside = ((places >= 0) & (places <= 1)).all()
    check(
        bool(inside), "points", "from 0 to 1", f"{places.min()} to {places.max()}" if places.size else "none"
    )
    scale = np.sqrt(2 * np.arange(len(weights)) + 1.0)
    return np.polynomial.legendre.legval(2 * places - 1, weights * scale)


def legs_frequencies(pairs: int) -> np.ndarray:
    """The positive imaginary parts of the eigenvalues of the normal part, for `2 pairs` states, ascending."""
    system = hippo_legs(2 * check_count("pairs", pairs))
    skew = system.A + 0.5 * np.eye(2 * pairs) + 0.5 * system.B @ system.B.T
    return np.linalg.eigvalsh(-1j * skew)[pairs:]
