r"""The Markov state of a Matern process on the line: how it moves, and its stationary law.

State.       A Matern process of order $p + \frac12$ is the first entry of a Markov state of $p + 1$ entries,
             the function and its derivatives. In units of $\lambda = \sqrt{2p + 1}/\ell$ and of the variance,
             the state a time $\Delta$ later is $N(A s, Q)$ with $A = e^{-x}\sum_{k \le p} x^k N^k/k!$, $x =
             \lambda\Delta$, $N$ nilpotent, and $Q = P_\infty - A P_\infty A^\top = \int_0^x e^{Fu} q
             e^{F^\top u}\,du$ (the integral where the difference would cancel).
Analytic.    Both are analytic in $x$ on either side of $x = \frac12$: a complex step gives derivatives.
Cost.        $O(p^3)$.
References.  Hartikainen and Sarkka (2010); Sarkka and Solin (2019) section 12.3.
"""

import math
from typing import Any

import numpy as np

from tractable.core.checks import namespace

__all__ = ["STATIONARY", "matern_transition"]

_COMPANION = (
    np.array([[-1.0]]),
    np.array([[0.0, 1], [-1, -2]]),
    np.array([[0.0, 1, 0], [0, 0, 1], [-1, -3, -3]]),
)
STATIONARY = (
    np.array([[1.0]]),
    np.array([[1.0, 0], [0, 1]]),
    np.array([[1.0, 0, -1 / 3], [0, 1 / 3, 0], [-1 / 3, 0, 1]]),
)
_DIFFUSION = (2.0, 4.0, 16 / 3)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_SHORT = 0.5


def matern_transition(order: int, gap: Any) -> tuple[Any, Any]:
    """$A$ and $Q$ a scaled time `gap` later, for the order `order` + 1/2.

    >>> A, Q = matern_transition(0, np.array(1.0))
    >>> np.allclose(A, np.exp(-1.0)), np.allclose(Q, 1 - np.exp(-2.0))
    (True, True)
    """
    xp = namespace(gap)
    near = xp.real(gap) < _SHORT
    short = xp.where(near, gap, _SHORT)
    columns = _move(xp, order, 0.5 * short * (1 + xp.asarray(_NODES)))[..., -1]
    integral = 0.5 * short * _DIFFUSION[order] * (columns.T * xp.asarray(_WEIGHTS)[None]) @ columns
    whole, stationary = _move(xp, order, gap), xp.asarray(STATIONARY[order])
    return whole, xp.where(near, integral, stationary - whole @ stationary @ whole.T)


def _move(xp: Any, order: int, u: Any) -> Any:
    """$e^{Fu}$ of each scaled time."""
    nilpotent, wide = _COMPANION[order] + np.eye(order + 1), u[..., None, None]
    lead = (1,) * xp.ndim(u)
    terms = [
        wide**k / math.factorial(k) * np.linalg.matrix_power(nilpotent, k).reshape(*lead, *nilpotent.shape)
        for k in range(order + 1)
    ]
    return xp.exp(-wide) * sum(terms[1:], start=terms[0])
