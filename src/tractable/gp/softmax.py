r"""Several functions behind a softmax, for Laplace's method: sites, factor, and the slope of the evidence.

Curvature.   $W = D - D R (R^\top D R)^{-1} R^\top D$ with $D = \mathrm{diag}(w\pi)$, $R$ a sum over classes:
             $(K + W^{-1})^{-1} = E - E R^\top M^{-1} R E$ needs one factor of size $n$ per class and one for
             all, $E_c = (K + D_c^{-1})^{-1}$ and $M = \sum_c E_c$;
             $\log|I + K W| = \sum_c\log|I + K D_c| + \log|M| - \sum_n\log w_n$.
Slope.       By $K$ in closed form, the movement of the mode included.
Cost.        $O(C n^3)$.
References.  Rasmussen and Williams (2006) section 3.5, algorithm 3.3; Williams and Barber (1998).
"""

import jax
import jax.numpy as jnp

from tractable.core.factors import SiteFactor
from tractable.core.linalg import PsdFactor
from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar
from tractable.gp.laplace import Likelihood, Sites, dual_weights

__all__ = ["Classes", "SoftmaxFactor", "slope_of_gram"]


class SoftmaxFactor(Module):
    r"""$K + W^{-1}$ of all classes; a row in which all precisions are zero is not seen."""

    blocks: Float[Array, "c n n"]  # $E_c$
    whole: PsdFactor  # of $M$, the identity on rows that are not seen
    volume: Scalar  # $\log|I + K W|$

    @classmethod
    def of(cls, gram: Float[Array, "n n"], precision: Float[Array, "c n"]) -> "SoftmaxFactor":
        """The factor for the covariance `gram` and $D$ = `precision`."""
        eye = jnp.eye(gram.shape[0], dtype=gram.dtype)

        def one(own: Array) -> tuple[Array, Scalar]:  # one by one: LAPACK solves no triangles in a stack
            factor = SiteFactor.of(gram, own)
            return factor.solve(eye), factor.log_det()

        blocks, volumes = jax.lax.map(one, precision)
        counts = precision.sum(0)
        lower = jnp.linalg.cholesky(blocks.sum(0) + jnp.diag(jnp.where(counts > 0, 0.0, 1.0)))
        whole = PsdFactor(lower, jnp.zeros((), gram.dtype))
        scale = jnp.log(jnp.where(counts > 0, counts, 1.0)).sum()
        return cls(blocks, whole, volumes.sum() + whole.log_det() - scale)

    def solve(self, b: Float[Array, "c n"]) -> Float[Array, "c n"]:
        r"""$(K + W^{-1})^{-1} b$."""
        own = jnp.einsum("cij,cj->ci", self.blocks, b)
        return own - self.blocks @ self.whole.solve(own.sum(0))

    def log_det(self) -> Scalar:
        r"""$\log|I + K W|$."""
        return self.volume


class Classes(Likelihood):
    """One of several classes for each row: `codes` are one in the row of the class, and zero elsewhere."""

    codes: Float[Array, "c n"]
    weights: Float[Array, " n"]

    def log_prob(self, value: Float[Array, "c n"]) -> Scalar:
        return self.weights @ (self.codes * jax.nn.log_softmax(value, axis=0)).sum(0)

    def sites(self, value: Float[Array, "c n"]) -> Sites:
        probs = jax.nn.softmax(value, axis=0)
        pulled = probs * (value - (probs * value).sum(0)[None])
        return Sites(self.weights[None] * probs, self.weights[None] * (pulled + self.codes - probs))

    def factor(self, gram: Float[Array, "n n"], precision: Float[Array, "c n"]) -> SoftmaxFactor:
        return SoftmaxFactor.of(gram, precision)


def slope_of_gram(gram: Array, classes: Classes, dual: Array, factor: SoftmaxFactor) -> Float[Array, "n n"]:
    r"""$\partial/\partial K$ of the evidence, with $R = (W^{-1} + K)^{-1}$ and $\Sigma = K - K R K$:
    $\frac12\sum_c (a_c a_c^\top - R_{cc}) + \sum_c z_c a_c^\top$ for $z = (I + W K)^{-1} s$, where
    $s = -\frac12\partial_f \log|I + K W|$ is what moving the mode does to the volume.
    """

    def one(block: Array) -> tuple[Array, Array, Array]:
        shared = factor.whole.half_solve(block)
        before = jnp.diag(gram) - (gram * (block @ gram)).sum(0)
        return block - shared.T @ shared, shared @ gram, before

    own, across, before = jax.lax.map(one, factor.blocks)
    eye = jnp.eye(len(dual), dtype=gram.dtype)
    cov = jnp.einsum("aij,bij->abj", across, across) + eye[:, :, None] * before[:, None]
    s = _volume_slope(cov, jax.nn.softmax(dual @ gram, axis=0), classes.weights)
    return 0.5 * (dual.T @ dual - own.sum(0)) + dual_weights(gram, factor, s).T @ dual


def _volume_slope(cov: Float[Array, "c c n"], probs: Array, weights: Array) -> Float[Array, "c n"]:
    r"""$-\frac12\partial_{f_c}\mathrm{tr}(\Sigma_n W_n)$ with $\Sigma_n$ held, for each row, in closed form:
    $W_n = w(\mathrm{diag}\,\pi - \pi\pi^\top)$ and $\partial_{f_c}\pi = \pi_c(e_c - \pi)$.
    """
    mixed = jnp.einsum("abn,bn->an", cov, probs)
    inner = jnp.diagonal(cov).T - 2 * mixed  # the derivative of the trace by each probability
    return -0.5 * weights[None] * probs * (inner - (probs * inner).sum(0)[None])
