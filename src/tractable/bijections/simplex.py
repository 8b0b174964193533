r"""Maps onto vectors with a constraint: probabilities, increasing sequences, unit vectors.

Volume.      Probabilities are measured by their first $k - 1$ coordinates (as the Dirichlet density is), unit
             vectors by the surface of the sphere.
Softmax.     $\theta = \mathrm{softmax}(\lambda)$ keeps $\theta$ on the simplex under any step in $\lambda$,
             and $\partial L/\partial\lambda_k = \theta_k\,(\partial L/\partial\theta_k - \sum_j
             \theta_j\,\partial L/\partial\theta_j)$. For a mixture, where $\partial L/\partial\theta_k =
             \sum_n p(z = k \mid x_n)/\theta_k$, this is $\sum_n p(z = k \mid x_n) - N\theta_k$.
Cost.        $O(k)$.
References.  Aitchison (1986), chapter 6; Sethuraman (1994).
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.base import Bijection
from tractable.core.checks import as_float, check
from tractable.core.numerics import log_sigmoid, log_softmax
from tractable.core.support import Support, ordered, positive_ordered, simplex, sphere
from tractable.core.types import Array, ArrayLike, Float

__all__ = ["OntoOrdered", "OntoPositiveOrdered", "OntoSphere", "Softmax", "StickBreaking", "softmax_gradient"]


class StickBreaking(Bijection):
    r"""$\mathbb{R}^{k-1}$ onto the simplex: $p_i = v_i \prod_{j<i}(1 - v_j)$ with $v_i = \sigma(x_i - \log(k
    - i))$, so that zero goes to the centre.

    $\log|\det| = \sum_i \{\log v_i + \log(1 - v_i) + \sum_{j<i}\log(1 - v_j)\}$ for the first $k-1$
    coordinates.

    >>> [round(float(p), 12) for p in StickBreaking().forward(jnp.zeros(3))]
    [0.25, 0.25, 0.25, 0.25]
    """

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    def _forward(self, x):
        logits = x - _log_pieces_left(x)
        taken, kept = log_sigmoid(logits), log_sigmoid(-logits)
        left = jnp.concatenate([jnp.zeros(1, x.dtype), jnp.cumsum(kept)])
        probs = jnp.exp(left + jnp.concatenate([taken, jnp.zeros(1, x.dtype)]))
        return probs, jnp.sum(taken + kept + left[:-1])

    def _inverse(self, y):
        later = jnp.cumsum(y[::-1])[::-1][1:]  # what is left after each piece, added up from the small end
        logits = jnp.log(y[:-1]) - jnp.log(later)
        taken, kept = log_sigmoid(logits), log_sigmoid(-logits)
        left = jnp.concatenate([jnp.zeros(1, y.dtype), jnp.cumsum(kept)])
        return logits + _log_pieces_left(logits), -jnp.sum(taken + kept + left[:-1])

    @property
    def codomain(self) -> Support:
        return simplex


class Softmax(Bijection):
    r"""$\mathbb{R}^{k-1}$ onto the simplex: $\theta = \mathrm{softmax}(\lambda_1, \dots, \lambda_{k-1}, 0)$,
    the last state being the reference.

    $\log|\det| = \sum_{i=1}^{k}\log\theta_i$ for the first $k - 1$ coordinates; the inverse is the log-ratio
    $\lambda_i = \log\theta_i - \log\theta_k$.
    """

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    def _forward(self, x):
        log_probs = log_softmax(jnp.concatenate([x, jnp.zeros(1, x.dtype)]))
        return jnp.exp(log_probs), log_probs.sum()

    def _inverse(self, y):
        log_probs = jnp.log(y)
        return log_probs[:-1] - log_probs[-1], -log_probs.sum()

    @property
    def codomain(self) -> Support:
        return simplex


class OntoOrdered(Bijection):
    r"""$y_1 = x_1$, $y_i = y_{i-1} + e^{x_i}$: increasing vectors; $\log|\det| = \sum_{i>1} x_i$."""

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    def _forward(self, x):
        return jnp.cumsum(jnp.concatenate([x[:1], jnp.exp(x[1:])])), x[1:].sum()

    def _inverse(self, y):
        x = jnp.concatenate([y[:1], jnp.log(jnp.diff(y))])
        return x, -x[1:].sum()

    @property
    def codomain(self) -> Support:
        return ordered


class OntoPositiveOrdered(Bijection):
    r"""$y_i = \sum_{j \le i} e^{x_j}$: increasing vectors of positive numbers; $\log|\det| = \sum_i x_i$."""

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    def _forward(self, x):
        return jnp.cumsum(jnp.exp(x)), x.sum()

    def _inverse(self, y):
        x = jnp.log(jnp.diff(y, prepend=jnp.zeros(1, y.dtype)))
        return x, -x.sum()

    @property
    def codomain(self) -> Support:
        return positive_ordered


class OntoSphere(Bijection):
    r"""$\mathbb{R}^{d-1}$ onto the unit sphere without its pole $(0, \dots, 0, 1)$, by stereographic
    projection.

    $y = (2x, \|x\|^2 - 1)/(\|x\|^2 + 1)$. Surface is stretched by $(2/(1 + \|x\|^2))^{d-1}$, the
    log-determinant with respect to surface measure.
    """

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    def _forward(self, x):
        length = _length_with_one(x)
        side = 2 * (x / length) / length  # the square of the length overflows for |x| past 1e154
        top = 1 - 2 * (1 / length) ** 2
        return jnp.concatenate([side, top[None]]), x.size * (math.log(2) - 2 * jnp.log(length))

    def _inverse(self, y):
        side, top = y[:-1], y[-1]
        # side / (1 - top); near the pole, where 1 - top cancels, it is side (1 + top) / |side|^2, scaled
        # because |side|^2 underflows for |x| past 1e154.
        scale = jax.lax.stop_gradient(jnp.abs(side).max(initial=0.0))
        upper = (top > 0) & (scale > 0)
        unit = side / jnp.where(upper, scale, 1.0)
        square = jnp.where(upper, (unit**2).sum() * scale, 1.0)
        x = jnp.where(upper, unit * (1 + top) / square, side / jnp.where(upper, 1.0, 1 - top))
        return x, -x.size * (math.log(2) - 2 * jnp.log(_length_with_one(x)))

    @property
    def codomain(self) -> Support:
        return sphere


def softmax_gradient(theta: ArrayLike, gradient: ArrayLike) -> Array:
    r"""$\partial L/\partial\lambda$ from $\partial L/\partial\theta$ at $\theta = \mathrm{softmax}(\lambda)$:
    $\theta_k\,(g_k - \sum_j\theta_j g_j)$.

    Two states with $\theta = (1/4, 3/4)$ and four rows, each as likely under both: responsibilities 1 and 3,
    which is $N\theta$.

    >>> softmax_gradient(jnp.array([0.25, 0.75]), jnp.array([1 / 0.25, 3 / 0.75])).tolist()
    [0.0, 0.0]
    """
    theta, gradient = as_float("theta", theta), as_float("gradient", gradient)
    fix = "Use `jax.vmap` for many."
    check(theta.ndim == 1, "theta", "one vector of probabilities", f"shape {theta.shape}", fix)
    must = f"of the shape of `theta` {theta.shape}"
    check(gradient.shape == theta.shape, "gradient", must, f"shape {gradient.shape}")
    return theta * (gradient - theta @ gradient)


def _log_pieces_left(x: Array) -> Array:
    """log(k - i) for the pieces i = 1 .. k - 1: with it every piece is as large as the rest on average."""
    return jnp.asarray(np.log(np.arange(x.size, 0, -1)), x.dtype)


def _length_with_one(x: Array) -> Float[Array, ""]:
    r"""$(1 + \|x\|^2)^{1/2}$ without overflow: the value does not depend on the scale, so neither does the
    gradient."""
    scale = jax.lax.stop_gradient(jnp.maximum(1.0, jnp.abs(x).max(initial=0.0)))
    return scale * jnp.sqrt((1 / scale) ** 2 + ((x / scale) ** 2).sum())
