r"""Steps of Gaussian chains turned round on the host, for many beliefs at once.

Step.        $y = Ax + b + \epsilon$, $\epsilon \sim N(0, Q)$, from the belief $x \sim N(m, P)$.
Turned.      $y \sim N(\hat y, S)$ and $x \mid y \sim N(m + G(y - \hat y),\ L)$ with $G = PA^\top S^{+}$ and
             Joseph's $L = (I - GA)P(I - GA)^\top + GQG^\top$.
Beside.      `gaussian_steps` is the same identity for one belief under a trace; it compiles a program for
             each number of modes, paths or particles. This one has leading axes and compiles nothing. Tests
             hold both to one answer.
Cost.        $O(d^3)$ for each belief.
References.  Rauch, Tung and Striebel (1965).
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Turned", "times", "turn"]


class Turned(NamedTuple):
    """Beliefs one step on, and the steps back from them; leading axes are those of the beliefs."""

    mean: np.ndarray
    cov: np.ndarray
    gain: np.ndarray
    bias: np.ndarray
    rest: np.ndarray

    def back(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What beliefs of the later states say of the earlier ones."""
        return times(self.gain, mean) + self.bias, _around(self.gain, cov) + self.rest


def turn(A: np.ndarray, b: np.ndarray, Q: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> Turned:
    """The steps of these matrices, turned round at beliefs."""
    predicted, ahead = times(A, mean) + b, _around(A, cov) + Q
    gain = cov @ np.swapaxes(A, -1, -2) @ _inverse(ahead)
    kept = np.eye(mean.shape[-1]) - gain @ A
    rest = _around(kept, cov) + _around(gain, Q)
    return Turned(predicted, ahead, gain, mean - times(gain, predicted), rest)


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Each matrix with its vector."""
    return np.einsum("...ij,...j->...i", matrices, vectors)


def _around(matrices: np.ndarray, cov: np.ndarray) -> np.ndarray:
    found = matrices @ cov @ np.swapaxes(matrices, -1, -2)
    return 0.5 * (found + np.swapaxes(found, -1, -2))


def _inverse(cov: np.ndarray) -> np.ndarray:
    """Inverses; where one is singular to rounding, pseudo-inverses in units of variances one."""
    variance = np.diagonal(cov, axis1=-2, axis2=-1)
    rounding = cov.shape[-1] * np.finfo(float).eps
    try:
        lower = np.linalg.inv(np.linalg.cholesky(cov))
    except np.linalg.LinAlgError:
        return _pseudo_inverse(cov, variance, rounding)
    inverse = np.swapaxes(lower, -1, -2) @ lower
    # A factor of a singular matrix may end with rounding that happens to be positive.
    # In units of variances one, the trace of the inverse is at least its largest eigenvalue.
    trace = np.einsum("...ii,...i->...", inverse, variance)
    return inverse if (2 * rounding * trace < 1).all() else _pseudo_inverse(cov, variance, rounding)


def _pseudo_inverse(cov: np.ndarray, variance: np.ndarray, rounding: float) -> np.ndarray:
    scale = 1 / np.sqrt(np.where(variance > 0, variance, 1.0))
    both = scale[..., :, None] * scale[..., None, :]
    values, vectors = np.linalg.eigh(cov * both)
    kept = values > 10 * rounding
    weights = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    return (vectors * weights[..., None, :]) @ np.swapaxes(vectors, -1, -2) * both
