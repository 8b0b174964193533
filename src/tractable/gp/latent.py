r"""Predictions of every Gaussian process whose posterior is Gaussian: exact, by inducing points, by sites.

Identity.    All of them have learnt $y$ (targets, inducing values, sites) with a factor of $S$ and $\alpha$
             (`distributions.gaussian.Learned`); new rows need only their $\mathrm{Cov}[f, y]$.
Cost.        $O(n)$ for a mean and $O(n^2)$ for a variance of $n$ numbers learnt; rows go through in blocks.
"""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp

from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Float
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.gp.points import Table, rowwise
from tractable.gp.prior import covariance, means, prior_variances

__all__ = ["LatentPosterior", "joint_moments"]


class LatentPosterior(Module):
    """A `process` (kernel and mean) after something was learnt about it: `learned`."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The number of columns of a row."""

    @abstractmethod
    def cross(self, X: Float[Array, "n d"]) -> Float[Array, "n y"]:
        """The covariance of the function at rows and what was learnt."""

    def mean(self, X: Table) -> Array:
        """The posterior mean at each row."""
        return rowwise(_mean, self, X, self.dim)

    def latent(self, X: Table) -> Normal:
        """The function at each row."""
        mean, variance = self.moments(X)
        return Normal(mean, jnp.sqrt(variance))

    def moments(self, X: Table) -> tuple[Array, Array]:
        """Mean and variance of the function at each row."""
        return rowwise(_moments, self, X, self.dim)


@program
def joint_moments(post: Any, X: Array) -> Gaussian:
    """The joint distribution of the function at rows."""
    prior = Gaussian(means(post.process, X), covariance(post.process, X))
    return post.learned.condition(prior, post.cross(X))


@program
def _mean(post: Any, X: Array) -> Array:
    return post.learned.mean(means(post.process, X), post.cross(X))


@program
def _moments(post: Any, X: Array) -> tuple[Array, Array]:
    return post.learned.marginals(means(post.process, X), prior_variances(post.process, X), post.cross(X))
