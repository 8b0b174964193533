r"""The log-density of targets under a covariance, with its gradient written down.

Identity.    $\log N(r; 0, K_y) = -\frac12 r^\top K_y^{-1} r - \frac12\log|K_y| - \frac n2\log 2\pi$: how well
             the function fits, how flexible it is, a constant.
Gradient.    $\partial = \frac12\mathrm{tr}\{(\alpha\alpha^\top - K_y^{-1})\,\partial K_y\}$ with
             $\alpha = K_y^{-1} r$; the matrix is pulled back through the kernel, and nothing is ever
             differentiated through a factorisation (but higher derivatives are, where asked for).
Singular.    Rows that repeat without noise leave a pivot that is rounding alone: the factor, and all that
             follows, is then NaN, because a number would be nonsense.
Cost.        $n^3/3$ for a value; $n^3$ with the gradient, whatever the number of hyperparameters.
References.  Rasmussen and Williams (2006) sections 2.3 and 5.4.1.
"""

import jax
import jax.numpy as jnp

from tractable.core.factors import normal_log_density, positive_definite_factor
from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar

__all__ = ["EvidenceReport", "evidence_terms", "inverse_from"]

_BLOCK = 256  # rows of a triangle that are inverted at once


class EvidenceReport(Module):
    r"""The log-evidence in three parts: `fit` $-\frac12 r^\top K_y^{-1} r$, `complexity` $-\frac12\log|K_y|$,
    and `constant` $-\frac n2\log 2\pi$ (with what weights add).
    """

    fit: Scalar
    complexity: Scalar
    constant: Scalar

    _shown = ("total", "fit", "complexity", "constant")

    @property
    def total(self) -> Scalar:
        """The log-evidence."""
        return self.fit + self.complexity + self.constant


@jax.custom_jvp
def evidence_terms(cov: Float[Array, "n n"], residual: Float[Array, " n"]) -> tuple[Scalar, Scalar]:
    r"""$-\frac12 r^\top K^{-1} r$ and $-\frac12\log|K|$ for $K$ = `cov`, $r$ = `residual`."""
    factor = positive_definite_factor(cov)
    half = factor.half_solve(residual)
    return normal_log_density(half @ half, 0, 0), normal_log_density(0, factor.log_det(), 0)


@evidence_terms.defjvp
def _evidence_terms_jvp(primals, tangents):
    (cov, residual), (dcov, dresidual) = primals, tangents
    factor = positive_definite_factor(cov)
    alpha = factor.solve(residual)
    inverse = inverse_from(factor.lower)
    fit = 0.5 * (jnp.outer(alpha, alpha) * dcov).sum() - alpha @ dresidual
    value = normal_log_density(residual @ alpha, 0, 0), normal_log_density(0, factor.log_det(), 0)
    return value, (fit, -0.5 * (inverse * dcov).sum())


def inverse_from(lower: Float[Array, "n n"]) -> Float[Array, "n n"]:
    r"""$(L L^\top)^{-1}$ in $2n^3/3$ operations: $L$ is inverted by blocks, and only what is not zero is
    multiplied.
    """
    return _crossed(_inverted(lower))


def _inverted(lower: Array) -> Array:
    """The inverse of a lower triangle."""
    n = lower.shape[0]
    if n <= _BLOCK:
        return jax.lax.linalg.triangular_solve(
            lower, jnp.eye(n, dtype=lower.dtype), left_side=True, lower=True
        )
    h = n // 2
    first, last = _inverted(lower[:h, :h]), _inverted(lower[h:, h:])
    corner = -last @ (lower[h:, :h] @ first)
    return jnp.block([[first, jnp.zeros((h, n - h), lower.dtype)], [corner, last]])


def _crossed(lower: Array) -> Array:
    r"""$M^\top M$ for a lower triangle $M$."""
    n = lower.shape[0]
    if n <= _BLOCK:
        return lower.T @ lower
    h = n // 2
    corner, last = lower[h:, :h], lower[h:, h:]
    side = last.T @ corner
    return jnp.block([[_crossed(lower[:h, :h]) + corner.T @ corner, side.T], [side, _crossed(last)]])
