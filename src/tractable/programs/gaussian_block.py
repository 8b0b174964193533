r"""Gaussian latents of a program integrated exactly, from the residuals that are affine in them.

Dense.       $z \sim N(0, I_D)$ and standardised residuals $e(z) = e_0 + J z$ of the $n$ observed numbers:
             $\log \int N(z; 0, I)\, e^{-|e(z)|^2/2} dz = -\frac12(|e(\hat z)|^2 + |\hat z|^2 +
             \log|\Lambda|)$, $\Lambda = I + J^\top J$, $\hat z = -\Lambda^{-1} J^\top e_0$. With fewer numbers
             than latents the other side, $K = I + J J^\top$: $-\frac12(e_0^\top K^{-1} e_0 + \log|K|)$.
Sparse.      Residuals of all sites that touch the latents $x$, their own priors too, with a known pattern:
             $\log \int e^{-|e(x)|^2/2} dx$ by `messages.gaussian_field`. $J$ by column colouring: columns
             that share no row are pushed through together.
Constants.   The caller adds what a standardised residual leaves out, over the residuals that he gave: $-\sum
             \log|L| - \frac{n}{2} \log 2\pi$. It is the same for both routes.
Gradient.    Fisher's identity, $d \log Z = -E[e^\top\,de]$: $-\hat e^\top de_0 - \mathrm{tr}\{(\hat e \hat
             z^\top + J \Lambda^{-1})^\top dJ\}$; no derivative of a factor is taken.
Cost.        Dense $D$ or $n$ derivatives of $e$ and $O(n D \min(n, D))$; sparse one derivative for each
             colour.
References.  Rasmussen and Williams (2006) chapter 2; Doucet (2010), draws by conditioning; Curtis, Powell and
             Reid (1974), colouring.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import check
from tractable.core.factors import normal_log_density
from tractable.core.keys import takes_key
from tractable.core.linalg import PsdFactor, psd_factor
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Int, Key, Scalar

__all__ = ["Whitened", "whitened"]

Residuals = Callable[[Array], Array]


class Whitened(Module):
    r"""The belief about $z$: `log_integral` $= \log \int N(z; 0, I)\, e^{-|e(z)|^2/2} dz$, `mean`, draws.

    `factor` is that of $I + J^\top J$, or of $I + J J^\top$ where `wide` says that $J$ has more columns than
    rows.
    """

    log_integral: Scalar
    mean: Float[Array, " d"]
    offset: Float[Array, " n"]  # e(0)
    jacobian: Float[Array, "n d"]
    factor: PsdFactor
    wide: bool = field(static=True)

    @takes_key
    def draw(self, key: Key) -> Float[Array, " d"]:
        """One exact draw of $z$; `jax.vmap` over keys gives many."""
        own, other = jr.split(key)
        z = jr.normal(own, self.mean.shape, self.mean.dtype)
        if not self.wide:
            return self.mean + jsl.solve_triangular(self.factor.lower, z, lower=True, trans=1)
        noise = jr.normal(other, self.offset.shape, self.mean.dtype)
        return z - self.jacobian.T @ self.factor.solve(self.offset + self.jacobian @ z + noise)


def whitened(e: Residuals, size: int) -> Whitened:
    r"""The dense route, for an affine `e` of a vector of `size` numbers.

    >>> found = whitened(lambda z: (jnp.array([3.0, 1.0]) - z[0]) / 1.0, 1)  # N(0, 1) and two readings of it
    >>> round(float(found.log_integral), 6), found.mean.round(6).tolist()
    (-2.882639, [1.333333])
    """
    offset, jacobian = _affine(e, size)
    factor, mean, _ = _solve(offset, jacobian)
    wide = jacobian.shape[0] < jacobian.shape[1]
    return Whitened(_log_integral(offset, jacobian), mean, offset, jacobian, factor, wide)


def _affine(e: Residuals, size: int) -> tuple[Array, Array]:
    """$e_0$ and $J$: columns by derivatives forward, or rows backward where there are fewer by far."""
    zero = jnp.zeros(size)
    offset, push = jax.linearize(e, zero)
    check(offset.ndim == 1, "e", "a function to a vector", f"shape {offset.shape}")
    if 2 * offset.size < size:
        pull = jax.linear_transpose(push, zero)
        return offset, jax.vmap(lambda row: pull(row)[0])(jnp.eye(offset.size, dtype=offset.dtype))
    return offset, jax.vmap(push, out_axes=1)(jnp.eye(size, dtype=zero.dtype))


def _solve(offset: Array, jacobian: Array) -> tuple[PsdFactor, Array, Array]:
    """The factor of the smaller side, the mean, and the residuals there."""
    n, d = jacobian.shape
    if n < d:
        factor = psd_factor(jnp.eye(n, dtype=jacobian.dtype) + jacobian @ jacobian.T)
        rest = factor.solve(offset)
        return factor, -jacobian.T @ rest, rest
    factor = psd_factor(jnp.eye(d, dtype=jacobian.dtype) + jacobian.T @ jacobian)
    mean = -factor.solve(jacobian.T @ offset)
    return factor, mean, offset + jacobian @ mean


@jax.custom_jvp
def _log_integral(offset: Array, jacobian: Array) -> Scalar:
    factor, mean, rest = _solve(offset, jacobian)
    return normal_log_density(rest @ rest + mean @ mean, factor.log_det(), 0)


@_log_integral.defjvp
def _log_integral_jvp(at: tuple, moved: tuple) -> tuple[Scalar, Scalar]:
    (offset, jacobian), (by, turned) = at, moved
    factor, mean, rest = _solve(offset, jacobian)
    value = normal_log_density(rest @ rest + mean @ mean, factor.log_det(), 0)
    n, d = jacobian.shape
    half = factor.solve(jacobian) if n < d else factor.solve(jacobian.T).T  # J Lambda^{-1}
    return value, -rest @ by - jnp.vdot(jnp.outer(rest, mean) + half, turned)
