r"""Densities on the positive numbers: half-normal, half-Cauchy, log-normal; the gamma and waiting families.

Models.      A normal or Cauchy variable without its sign; $e^z$ with $z$ normal. Waiting times and the gamma
             family have files of their own and are offered here too.
Cost.        Elementwise.
References.  Johnson, Kotz and Balakrishnan (1994), "Continuous univariate distributions".
"""

import math

import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import erf, erfc, erfinv, ndtri

from tractable.core.module import field
from tractable.core.support import Support, nonnegative, positive, real
from tractable.core.types import Array, Float
from tractable.distributions.base import Univariate
from tractable.distributions.continuous import Normal
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.gamma import ChiSquared, Gamma, InverseGamma
from tractable.distributions.special import log1p_square, log_ndtr
from tractable.distributions.waiting import Exponential, Pareto, Weibull

__all__ = [
    "ChiSquared", "Exponential", "Gamma", "HalfCauchy", "HalfNormal", "InverseGamma", "LogNormal", "Pareto",
    "Weibull",
]  # fmt: skip


class HalfNormal(Univariate, ExponentialFamily):
    r"""$p(x) = \sqrt{2/\pi}\,\sigma^{-1} e^{-x^2/2\sigma^2}$ for $x \ge 0$ with $\sigma$ = `scale`: a normal
    without sign."""

    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return nonnegative

    def _log_prob(self, x):
        return 0.5 * math.log(2 / math.pi) - jnp.log(self.scale) - 0.5 * (x / self.scale) ** 2

    def _sample(self, key, n):
        return self.scale * jnp.abs(jr.normal(key, n, self.scale.dtype))

    def _mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    def _variance(self):
        return self.scale**2 * (1 - 2 / math.pi)

    def _entropy(self):
        return 0.5 + 0.5 * math.log(math.pi / 2) + jnp.log(self.scale)

    def _mode(self):
        return jnp.zeros_like(self.scale)

    def _cdf(self, x):
        return erf(x / (self.scale * math.sqrt(2)))

    def _survival(self, x):
        return erfc(x / (self.scale * math.sqrt(2)))

    def _log_survival(self, x):
        near = x < self.scale  # there log 2 + log(1/2) would cancel
        far = math.log(2) + log_ndtr(-jnp.where(near, self.scale, x) / self.scale)
        return jnp.where(near, jnp.log1p(-self._cdf(jnp.where(near, x, 0.0))), far)

    def _icdf(self, p):
        return self.scale * jnp.where(p < 0.5, math.sqrt(2) * erfinv(p), -ndtri((1 - p) / 2))

    def _inverse_survival(self, q):
        return -self.scale * ndtri(q / 2)

    @property
    def natural(self):
        return (-0.5 / self.scale**2,)

    def stats(self, x):
        return (x**2,)

    def log_base(self, x):
        return jnp.full_like(x, 0.5 * math.log(2 / math.pi))

    def log_normaliser(self, natural):
        return -0.5 * jnp.log(-2 * natural[0])

    def from_natural(self, natural):
        return HalfNormal(jnp.sqrt(-0.5 / natural[0]))

    def from_stats(self, mean_stats):
        return HalfNormal(jnp.sqrt(mean_stats[0]))


class HalfCauchy(Univariate):
    r"""$p(x) = \frac{2}{\pi\gamma}(1 + x^2/\gamma^2)^{-1}$, $x \ge 0$, with $\gamma$ = `scale`.

    Its mean is infinite.
    """

    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return nonnegative

    def _log_prob(self, x):
        return math.log(2 / math.pi) - jnp.log(self.scale) - log1p_square(x / self.scale)

    def _sample(self, key, n):
        return self.scale * jnp.abs(jr.cauchy(key, n, self.scale.dtype))

    def _mean(self):
        return jnp.full_like(self.scale, jnp.inf)

    def _variance(self):
        return jnp.full_like(self.scale, jnp.nan)

    def _entropy(self):
        return jnp.log(2 * math.pi * self.scale)

    def _mode(self):
        return jnp.zeros_like(self.scale)

    def _cdf(self, x):
        return 2 / math.pi * jnp.arctan(x / self.scale)

    def _survival(self, x):
        return 2 / math.pi * jnp.arctan2(jnp.broadcast_to(self.scale, x.shape), x)

    def _icdf(self, p):
        return self._at_shares(p, 1 - p)

    def _inverse_survival(self, q):
        return self._at_shares(1 - q, q)

    def _at_shares(self, p, q):
        near = p < q
        slope = jnp.tan(0.5 * math.pi * jnp.where(near, p, q))
        return self.scale * jnp.where(near, slope, 1 / slope)


class LogNormal(Univariate, ExponentialFamily):
    r"""$p(x) = \frac{1}{x\sigma\sqrt{2\pi}} e^{-(\log x - \mu)^2/2\sigma^2}$ with $\mu$ = `loc`, $\sigma$ =
    `scale`.

    The logarithm of a draw is normal.
    """

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    @property
    def support(self) -> Support:
        return positive

    @property
    def _logarithm(self) -> Normal:
        return Normal(self.loc, self.scale)

    def _log_prob(self, x):
        return self._logarithm._log_prob(jnp.log(x)) - jnp.log(x)

    def _sample(self, key, n):
        return jnp.exp(self._logarithm._sample(key, n))

    def _mean(self):
        return jnp.exp(self.loc + 0.5 * self.scale**2)

    def _variance(self):
        return jnp.expm1(self.scale**2) * jnp.exp(2 * self.loc + self.scale**2)

    def _entropy(self):
        return self.loc + self._logarithm._entropy()

    def _mode(self):
        return jnp.exp(self.loc - self.scale**2)

    def _cdf(self, x):
        return self._logarithm._cdf(jnp.log(x))

    def _survival(self, x):
        return self._logarithm._survival(jnp.log(x))

    def _log_cdf(self, x):
        return self._logarithm._log_cdf(jnp.log(x))

    def _log_survival(self, x):
        return self._logarithm._log_survival(jnp.log(x))

    def _icdf(self, p):
        return jnp.exp(self._logarithm._icdf(p))

    def _inverse_survival(self, q):
        return jnp.exp(self._logarithm._inverse_survival(q))

    @property
    def natural(self):
        return self._logarithm.natural

    def stats(self, x):
        return self._logarithm.stats(jnp.log(x))

    def log_base(self, x):
        return -jnp.log(x) - 0.5 * math.log(2 * math.pi)

    def log_normaliser(self, natural):
        return self._logarithm.log_normaliser(natural)

    def from_natural(self, natural):
        normal = self._logarithm.from_natural(natural)
        return LogNormal(normal.loc, normal.scale)

    def from_stats(self, mean_stats):
        normal = self._logarithm.from_stats(mean_stats)
        return LogNormal(normal.loc, normal.scale)
