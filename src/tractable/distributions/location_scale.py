r"""Families on the line that are one standard density, moved by `loc` and stretched by `scale`.

Model.       $x = \mu + \sigma z$ with $z$ of a standard density $f$: $p(x) = f((x - \mu)/\sigma)/\sigma$.
Cost.        Elementwise.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp

from tractable.core.support import Support, real
from tractable.core.types import Array, Key, Shape
from tractable.distributions.base import Univariate

__all__ = ["LocationScale"]


class LocationScale(Univariate):
    """A standard density under the map $z \\mapsto$ `loc` + `scale` z; a family states the standard member.

    The standard member is symmetric about zero unless a family overrides the two functions of the upper tail.
    """

    loc: eqx.AbstractVar[Array]
    scale: eqx.AbstractVar[Array]

    @property
    def support(self) -> Support:
        return real

    @abstractmethod
    def _standard_log_prob(self, z: Array) -> Array: ...

    @abstractmethod
    def _standard_sample(self, key: Key, n: Shape, dtype) -> Array: ...

    @abstractmethod
    def _standard_log_cdf(self, z: Array) -> Array: ...

    @abstractmethod
    def _standard_icdf(self, p: Array) -> Array: ...

    @abstractmethod
    def _standard_moments(self) -> tuple[Array | float, Array | float, Array | float]:
        """Mean, variance and entropy of the standard member."""

    def _standard_cdf(self, z: Array) -> Array:
        return jnp.exp(self._standard_log_cdf(z))

    def _standard_log_survival(self, z: Array) -> Array:
        return self._standard_log_cdf(-z)

    def _standard_survival(self, z: Array) -> Array:
        return self._standard_cdf(-z)

    def _standard_inverse_survival(self, q: Array) -> Array:
        return -self._standard_icdf(q)

    def _log_prob(self, x):
        return self._standard_log_prob((x - self.loc) / self.scale) - jnp.log(self.scale)

    def _sample(self, key, n):
        dtype = jnp.result_type(self.loc, self.scale)
        return self.loc + self.scale * self._standard_sample(key, n, dtype)

    def _mean(self):
        return self.loc + self.scale * self._standard_moments()[0]

    def _variance(self):
        return self.scale**2 * self._standard_moments()[1]

    def _entropy(self):
        return jnp.log(self.scale) + self._standard_moments()[2]

    def _mode(self):
        return self.loc

    def _cdf(self, x):
        return self._standard_cdf((x - self.loc) / self.scale)

    def _survival(self, x):
        return self._standard_survival((x - self.loc) / self.scale)

    def _log_cdf(self, x):
        return self._standard_log_cdf((x - self.loc) / self.scale)

    def _log_survival(self, x):
        return self._standard_log_survival((x - self.loc) / self.scale)

    def _icdf(self, p):
        return self.loc + self.scale * self._standard_icdf(p)

    def _inverse_survival(self, q):
        return self.loc + self.scale * self._standard_inverse_survival(q)
