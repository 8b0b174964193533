r"""Predictions of every Gaussian process whose posterior is Gaussian: exact, by inducing points, by sites.

Identity.    All of them have learnt $y$ (targets, inducing values, sites) with a factor of $S$ and $\alpha$
             (`distributions.gaussian.Learned`); new rows need only their $\mathrm{Cov}[f, y]$.
Cost.        $O(n)$ for a mean and $O(n^2)$ for a variance of $n$ numbers learnt; rows go through in blocks.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float
from tractable.core.verdict import Verdict
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.gp.blocks import rowwise
from tractable.gp.prior import covariance, means, prior_variances

__all__ = ["LatentPosterior", "joint_moments"]


class Searched:
    """What a result with the `run` of a search has: how that ended."""

    run: Any

    @property
    def verdict(self) -> Verdict:
        status = self.run.status
        return Verdict(status.ok, status.sentence, {"num_steps": self.run.num_steps})


class LatentPosterior(Module):
    """A `process` (kernel and mean) after something was learnt about it: `learned`."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The number of columns of a row."""

    @abstractmethod
    def cross(self, X: Float[Array, "n d"]) -> Float[Array, "n y"]:
        """The covariance of the function at rows and what was learnt."""

    def mean(self, X: ArrayLike) -> Array:
        """The posterior mean at each row."""
        return rowwise(_mean, self, X, self.dim)

    def latent(self, X: ArrayLike) -> Normal:
        """The function at each row."""
        mean, variance = self.moments(X)
        return Normal(mean, jnp.sqrt(variance))

    def moments(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the function at each row."""
        return rowwise(_moments, self, X, self.dim)


@eqx.filter_jit
def joint_moments(post: Any, X: Array) -> Gaussian:
    """The joint distribution of the function at rows."""
    kernel, mean = post.process.kernel, post.process.mean
    prior = Gaussian(means(mean, X), covariance(kernel, mean, X, None))
    return post.learned.condition(prior, post.cross(X))


@eqx.filter_jit
def _mean(post: Any, X: Array) -> Array:
    return post.learned.mean(means(post.process.mean, X), post.cross(X))


@eqx.filter_jit
def _moments(post: Any, X: Array) -> tuple[Array, Array]:
    kernel, mean = post.process.kernel, post.process.mean
    return post.learned.marginals(means(mean, X), prior_variances(kernel, mean, X), post.cross(X))
