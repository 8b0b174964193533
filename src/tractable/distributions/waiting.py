r"""Waiting times with a cumulative hazard in closed form: exponential, Weibull, Pareto.

Identity.    The cumulative hazard $H(x) = -\log P(X > x)$ of a draw is standard exponential: $x = H^{-1}(e)$
             is a draw, $P(X \le x) = 1 - e^{-H(x)}$, and the quantile is $H^{-1}(-\log(1 - p))$.
Boundary.    Zero belongs to the support of the first two: there the log-density is its limit.
Cost.        Elementwise.
"""

from abc import abstractmethod

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.module import field
from tractable.core.numerics import log1mexp, log_gamma
from tractable.core.support import Support, bounded, nonnegative, positive
from tractable.core.types import Array, Float
from tractable.distributions.base import Univariate
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.special import power_log

__all__ = ["Exponential", "Pareto", "WaitingTime", "Weibull"]

_EULER = 0.5772156649015329


class WaitingTime(Univariate):
    r"""A density known through its cumulative hazard $H(x) = -\log P(X > x)$."""

    @abstractmethod
    def _hazard(self, x: Array) -> Array:
        """H(x)."""

    @abstractmethod
    def _from_hazard(self, h: Array) -> Array:
        """The x with H(x) = h."""

    def _sample(self, key, n):
        dtype = jnp.result_type(*jax.tree.leaves(self))
        return self._from_hazard(jr.exponential(key, n, dtype))

    def _cdf(self, x):
        return -jnp.expm1(-self._hazard(x))

    def _survival(self, x):
        return jnp.exp(-self._hazard(x))

    def _log_cdf(self, x):
        return log1mexp(self._hazard(x))

    def _log_survival(self, x):
        return -self._hazard(x)

    def _icdf(self, p):
        return self._from_hazard(-jnp.log1p(-p))

    def _inverse_survival(self, q):
        return self._from_hazard(-jnp.log(q))


class Exponential(WaitingTime, ExponentialFamily):
    r"""$p(x) = \lambda e^{-\lambda x}$ for $x \ge 0$ with $\lambda$ = `rate`."""

    rate: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return nonnegative

    def _log_prob(self, x):
        return jnp.log(self.rate) - self.rate * x

    def _mean(self):
        return 1 / self.rate

    def _variance(self):
        return 1 / self.rate**2

    def _entropy(self):
        return 1 - jnp.log(self.rate)

    def _mode(self):
        return jnp.zeros_like(self.rate)

    def _hazard(self, x):
        return self.rate * x

    def _from_hazard(self, h):
        return h / self.rate

    @property
    def natural(self):
        return (-self.rate,)

    def stats(self, x):
        return (x,)

    def log_base(self, x):
        return jnp.zeros_like(x)

    def log_normaliser(self, natural):
        return -jnp.log(-natural[0])

    def from_natural(self, natural):
        return Exponential(-natural[0])

    def from_stats(self, mean_stats):
        return Exponential(1 / mean_stats[0])


class Weibull(WaitingTime, ExponentialFamily):
    r"""$p(x) = \frac{k}{s}(x/s)^{k-1}e^{-(x/s)^k}$ for $x \ge 0$ with $k$ = `concentration`, $s$ = `scale`.

    An exponential family for a given `concentration`.
    """

    concentration: Float[Array, "..."] = field(support=positive)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return nonnegative

    def _log_prob(self, x):
        k, z = self.concentration, x / self.scale
        return jnp.log(k) - jnp.log(self.scale) + power_log(k - 1, z) - z**k

    def _mean(self):
        return self.scale * jnp.exp(log_gamma(1 + 1 / self.concentration))

    def _variance(self):
        first = log_gamma(1 + 1 / self.concentration)
        excess = log_gamma(1 + 2 / self.concentration) - 2 * first
        return self.scale**2 * jnp.exp(2 * first) * jnp.expm1(excess)

    def _entropy(self):
        return 1 + _EULER * (1 - 1 / self.concentration) + jnp.log(self.scale) - jnp.log(self.concentration)

    def _mode(self):
        k = self.concentration
        rises = k > 1
        return jnp.where(rises, self.scale * (1 - 1 / jnp.where(rises, k, 2.0)) ** (1 / k), 0.0)

    def _hazard(self, x):
        return (x / self.scale) ** self.concentration

    def _from_hazard(self, h):
        return self.scale * h ** (1 / self.concentration)

    @property
    def natural(self):
        return (-(self.scale**-self.concentration),)

    def stats(self, x):
        return (x**self.concentration,)

    def log_base(self, x):
        return jnp.log(self.concentration) + power_log(self.concentration - 1, x)

    def log_normaliser(self, natural):
        return -jnp.log(-natural[0])

    def from_natural(self, natural):
        return Weibull(self.concentration, (-natural[0]) ** (-1 / self.concentration))

    def from_stats(self, mean_stats):
        return Weibull(self.concentration, mean_stats[0] ** (1 / self.concentration))


class Pareto(WaitingTime, ExponentialFamily):
    r"""$p(x) = \alpha m^\alpha x^{-\alpha-1}$ for $x \ge m$ with $\alpha$ = `concentration`, $m$ = `scale`.

    The mean is infinite for $\alpha \le 1$, the variance for $\alpha \le 2$. An exponential family for a
    given `scale`.
    """

    concentration: Float[Array, "..."] = field(support=positive)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return bounded(self.scale, jnp.inf)

    def _log_prob(self, x):
        return jnp.log(self.concentration) - self.concentration * jnp.log(x / self.scale) - jnp.log(x)

    def _mean(self):
        finite = self.concentration > 1
        a = jnp.where(finite, self.concentration, 2.0)
        return jnp.where(finite, self.scale * a / (a - 1), jnp.inf)

    def _variance(self):
        finite = self.concentration > 2
        a = jnp.where(finite, self.concentration, 3.0)
        return jnp.where(finite, self.scale**2 * a / ((a - 1) ** 2 * (a - 2)), jnp.inf)

    def _entropy(self):
        return jnp.log(self.scale) - jnp.log(self.concentration) + 1 + 1 / self.concentration

    def _mode(self):
        return self.scale

    def _hazard(self, x):
        return self.concentration * jnp.log(x / self.scale)

    def _from_hazard(self, h):
        return self.scale * jnp.exp(h / self.concentration)

    @property
    def natural(self):
        return (-self.concentration,)

    def stats(self, x):
        return (jnp.log(x),)

    def log_base(self, x):
        return -jnp.log(x)

    def log_normaliser(self, natural):
        return -jnp.log(-natural[0]) + natural[0] * jnp.log(self.scale)

    def from_natural(self, natural):
        return Pareto(-natural[0], self.scale)

    def from_stats(self, mean_stats):
        return Pareto(1 / (mean_stats[0] - jnp.log(self.scale)), self.scale)
