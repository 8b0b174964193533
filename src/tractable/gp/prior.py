r"""The prior of a Gaussian process at rows: mean, variances, covariance, covariance of the targets.

Model.       $f \sim GP(m, k)$: at any rows $X$, $f(X) \sim N(m(X), K)$ with $K_{ij} = k(x_i, x_j)$; a part of
             the rows has the corresponding part of the joint (consistency). A `process` is whatever has a
             `kernel` and a `mean`.
Padding.     `training_covariance` is $K + \mathrm{diag}(\sigma_n^2/w_n)$ on the rows that count, and the
             identity on the others.
Cost.        $O(n^2)$ kernel evaluations.
References.  Rasmussen and Williams (2006) section 2.2.
"""

from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.types import Array, Float
from tractable.gp.points import Observed

__all__ = ["covariance", "means", "prior_variances", "residuals", "training_covariance"]


def covariance(process: Any, X: Float[Array, "n d"], Y: Float[Array, "m d"] | None = None) -> Array:
    """The covariance of the function at two sets of rows (`Y` of None is `X`), the mean's uncertainty
    included.
    """
    extra = process.mean.covariance(X, X if Y is None else Y)
    gram = process.kernel.gram(X, Y)
    return gram if extra is None else gram + extra


def prior_variances(process: Any, X: Float[Array, "n d"]) -> Float[Array, " n"]:
    """The variance of the function at each row."""
    extra = process.mean.variances(X)
    diagonal = process.kernel.diagonal(X)
    return diagonal if extra is None else diagonal + extra


def means(process: Any, X: Float[Array, "n d"]) -> Float[Array, " n"]:
    """The mean at each row."""
    return jax.vmap(process.mean)(X)


def residuals(process: Any, observed: Observed) -> Float[Array, " n"]:
    """The targets less their prior means; zero for hidden rows."""
    return jnp.where(observed.present, observed.y - means(process, observed.X), 0.0)


def training_covariance(process: Any, observed: Observed) -> tuple[Float[Array, "n n"], Float[Array, " n"]]:
    """The covariance of the targets with hidden rows made harmless, and the variance of the noise per row.

    The `jitter` of the process, relative to the mean variance of the function, is added to the diagonal.
    """
    present = observed.present
    variances = process.noise.variances(observed.X)
    shared = covariance(process, observed.X)
    level = jnp.where(present, jnp.diag(shared), 0.0).sum() / present.sum()
    diagonal = jnp.where(present, variances / observed.safe_weights() + process.jitter * level, 1.0)
    both = present[:, None] & present[None]
    return jnp.where(both, shared, 0.0) + jnp.diag(diagonal), variances
