r"""The prior of a Gaussian process at rows: mean, covariance, joint distribution, sample paths.

Model.       $f \sim GP(m, k)$: at any rows $X$, $f(X) \sim N(m(X), K)$ with $K_{ij} = k(x_i, x_j)$; a part of
             the rows has the corresponding part of the joint (consistency).
Padding.     `training_covariance` is $K + \mathrm{diag}(\sigma_n^2/w_n)$ on the rows that count, and the
             identity on the others.
Cost.        $O(n^2)$ kernel evaluations; $O(n^3)$ for a joint draw.
References.  Rasmussen and Williams (2006) section 2.2.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.types import Array, ArrayLike, Float, Key, Shape
from tractable.distributions.gaussian import Gaussian
from tractable.gp.means import Mean
from tractable.gp.noise import Noise
from tractable.gp.points import Observed, as_points

__all__ = ["covariance", "joint_prior", "means", "prior_variances", "sample_prior", "training_covariance"]


def covariance(kernel: Any, mean: Mean, X: Float[Array, "n d"], Y: Float[Array, "m d"] | None) -> Array:
    """The covariance of the function at two sets of rows (`Y` of None is `X`), the mean's uncertainty
    included.
    """
    extra = mean.covariance(X, X if Y is None else Y)
    gram = kernel.gram(X, Y)
    return gram if extra is None else gram + extra


def prior_variances(kernel: Any, mean: Mean, X: Float[Array, "n d"]) -> Float[Array, " n"]:
    """The variance of the function at each row."""
    extra = mean.variances(X)
    diagonal = kernel.diagonal(X)
    return diagonal if extra is None else diagonal + extra


def means(mean: Mean, X: Float[Array, "n d"]) -> Float[Array, " n"]:
    """The mean at each row."""
    return jax.vmap(mean)(X)


def training_covariance(
    kernel: Any, mean: Mean, noise: Noise, observed: Observed, jitter: float = 0.0
) -> tuple[Float[Array, "n n"], Float[Array, " n"]]:
    """The covariance of the targets with hidden rows made harmless, and the variance of the noise per row.

    `jitter`, relative to the mean variance of the function, is added to the diagonal if asked for.
    """
    present = observed.present
    variances = noise.variances(observed.X, observed.weights)
    shared = covariance(kernel, mean, observed.X, None)
    level = jnp.where(present, jnp.diag(shared), 0.0).sum() / present.sum()
    diagonal = jnp.where(present, variances / observed.safe_weights() + jitter * level, 1.0)
    both = present[:, None] & present[None]
    return jnp.where(both, shared, 0.0) + jnp.diag(diagonal), variances


def joint_prior(kernel: Any, mean: Mean, X: ArrayLike) -> Gaussian:
    """The joint distribution of the function at rows."""
    return Gaussian(*_moments(kernel, mean, as_points("X", X)))


def sample_prior(kernel: Any, mean: Mean, key: Key, X: ArrayLike, shape: Shape = ()) -> Array:
    """Sample paths at rows, of shape `shape + (n,)`; rows may repeat, or lie so close that $K$ is
    singular.
    """
    return joint_prior(kernel, mean, X).sample(key, shape)


@eqx.filter_jit
def _moments(kernel: Any, mean: Mean, X: Array) -> tuple[Array, Array]:
    return means(mean, X), covariance(kernel, mean, X, None)
