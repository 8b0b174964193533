r"""Positive semi-definite matrices: one factor, one jitter policy, and what follows from them.

Factor.      $A + \epsilon\,\bar a I = L L^\top$ with $\bar a$ the mean of the diagonal. The jitter $\epsilon$ is zero unless the caller
             asks for more, and what was added is kept in the result: nothing is hidden.
Used by.     distributions.gaussian, gp, statespace.kalman, supervised, latent.
Cost.        $O(d^3/3)$ for a factor, $O(d^2)$ for each solve.
References.  Golub and Van Loan (2013) sections 4.2 and 6.5.
"""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl

from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar

__all__ = ["PsdFactor", "log_det", "psd_factor", "psd_solve", "symmetrise"]


class PsdFactor(Module):
    r"""$L$ with $L L^\top = A + \mathrm{jitter}\, I$; `jitter` says how much was added to the diagonal."""

    lower: Float[Array, "d d"]
    jitter: Scalar

    def solve(self, b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
        r"""$A^{-1} b$."""
        return jsl.cho_solve((self.lower, True), b)

    def half_solve(self, b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
        r"""$L^{-1} b$, so that $\|L^{-1} b\|^2 = b^\top A^{-1} b$."""
        return jsl.solve_triangular(self.lower, b, lower=True)

    def log_det(self) -> Scalar:
        r"""$\log |A|$."""
        return 2 * jnp.log(jnp.diag(self.lower)).sum()


def symmetrise(a: Float[Array, "d d"]) -> Float[Array, "d d"]:
    r"""$(A + A^\top)/2$: removes the rounding that two orders of multiplication leave."""
    return 0.5 * (a + a.T)


def psd_factor(a: Float[Array, "d d"], *, jitter: float = 0.0, largest_jitter: float | None = None) -> PsdFactor:
    r"""Cholesky factor of $A$ plus `jitter` times its mean diagonal.

    With `largest_jitter`, the jitter is raised tenfold (from at least $10^{-14}$) until the factor exists, and never past
    `largest_jitter`. A factor that does not exist is NaN: an honest answer inside a compiled program.
    """
    identity = jnp.eye(a.shape[0], dtype=a.dtype)
    scale = jnp.trace(a) / a.shape[0]

    def attempt(relative):
        return jnp.linalg.cholesky(a + relative * scale * identity)

    relative = jnp.asarray(jitter, a.dtype)
    if largest_jitter is None:
        return PsdFactor(attempt(relative), relative * scale)

    def failed(carry):
        relative, lower = carry
        return ~jnp.isfinite(lower).all() & (relative < largest_jitter)

    def raise_jitter(carry):
        relative = jnp.clip(10 * carry[0], 1e-14, largest_jitter)
        return relative, attempt(relative)

    relative, lower = jax.lax.while_loop(failed, raise_jitter, (relative, attempt(relative)))
    return PsdFactor(lower, relative * scale)


def psd_solve(a: Float[Array, "d d"], b: Float[Array, "d *k"]) -> Float[Array, "d *k"]:
    r"""$A^{-1} b$ for positive definite $A$."""
    return psd_factor(a).solve(b)


def log_det(a: Float[Array, "d d"]) -> Scalar:
    r"""$\log |A|$ for positive definite $A$."""
    return psd_factor(a).log_det()
