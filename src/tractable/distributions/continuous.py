r"""Densities on the line."""

import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import ndtr, ndtri

from tractable.core.module import field
from tractable.core.support import Support, positive, real
from tractable.core.types import Array, Float
from tractable.distributions.base import Univariate

__all__ = ["Normal"]


class Normal(Univariate):
    r"""$p(x) = (2\pi\sigma^2)^{-1/2} \exp\{-(x - \mu)^2 / 2\sigma^2\}$ with $\mu$ = `loc`, $\sigma$ = `scale`."""

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return real

    def _log_prob(self, x):
        z = (x - self.loc) / self.scale
        return -0.5 * z**2 - jnp.log(self.scale) - 0.5 * jnp.log(2 * jnp.pi)

    def _sample(self, key, n):
        return self.loc + self.scale * jr.normal(key, n, self.loc.dtype)

    def _mean(self):
        return self.loc

    def _variance(self):
        return self.scale**2

    def _entropy(self):
        return 0.5 + 0.5 * jnp.log(2 * jnp.pi) + jnp.log(self.scale)

    def _cdf(self, x):
        return ndtr((x - self.loc) / self.scale)

    def _icdf(self, p):
        return self.loc + self.scale * ndtri(p)
