r"""Priors of a Gaussian's own parameters: the normal-Gamma and the normal-inverse-Wishart.

Model.       $\tau \sim \mathrm{Gamma}(a, b)$, $\mu \mid \tau \sim N(m, 1/(\kappa\tau))$;
             $\Sigma \sim W^{-1}(\nu, \Psi)$, $\mu \mid \Sigma \sim N(m, \Sigma/\kappa)$.
Identity.    Their statistics are those of a Gaussian likelihood in its parameters, so the posterior given
             data stays in the family; both supports have a map from the real numbers, so that they can be
             priors of a program. The marginal of $\mu$ is a t with $2a$ (resp. $\nu - d + 1$) degrees.
Cost.        $O(1)$; $O(d^3)$ for the matrix version.
References.  Bernardo and Smith (1994) section 5.2; Murphy (2012) section 4.6.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import digamma, gammaln, multigammaln

from tractable.bijections.base import Bijection
from tractable.bijections.compose import Concatenate, Members
from tractable.bijections.elementwise import Exp, Identity
from tractable.bijections.support import bijection_onto
from tractable.bijections.triangular import OntoPositiveDefinite
from tractable.core.checks import check
from tractable.core.factors import psd_inverse
from tractable.core.linalg import log_det, psd_factor, symmetrise
from tractable.core.module import field
from tractable.core.support import Support, positive, real
from tractable.core.types import Array, Float, Shape
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.leading_axes import units
from tractable.distributions.supports import positive_definite
from tractable.distributions.wishart import InverseWishart, check_degrees, degrees_from_gap

__all__ = ["MeanAndCovariance", "MeanAndPrecision", "NormalGamma", "NormalInverseWishart"]

_LOG_2PI = float(np.log(2 * np.pi))


class MeanAndPrecision(Support):
    r"""$\mathbb{R} \times (0, \infty)$: the mean and the precision of a Gaussian on the line."""

    ndim: ClassVar[int] = 1

    @property
    def words(self) -> str:
        return "a mean and a positive precision along the last axis, both finite"

    def contains(self, x):
        xp = jnp if isinstance(x, jax.Array) else np
        x = xp.asarray(x)
        return xp.isfinite(x).all(-1) & (x[..., 1] > 0)

    def interior(self, like):
        xp = jnp if isinstance(like, jax.Array) else np
        shape = np.shape(like)
        return xp.broadcast_to(xp.asarray([0.0, 1.0]).reshape((1,) * (len(shape) - 1) + (2,)), shape)


class MeanAndCovariance(Support):
    """A mean in row 0 and a positive definite covariance in the rows below."""

    ndim: ClassVar[int] = 2

    @property
    def words(self) -> str:
        return "a finite mean (row 0) above a symmetric positive definite covariance (the other rows)"

    def contains(self, x):
        xp = jnp if isinstance(x, jax.Array) else np
        x = xp.asarray(x)
        return xp.isfinite(x[..., 0, :]).all(-1) & positive_definite.contains(x[..., 1:, :])

    def interior(self, like):
        xp = jnp if isinstance(like, jax.Array) else np
        return xp.broadcast_to(xp.eye(np.shape(like)[-2], np.shape(like)[-1], -1), np.shape(like))


class OntoMeanAndCovariance(Bijection):
    """The first d of d + d(d + 1)/2 free numbers as row 0, the rest onto the covariance below it; volume is
    that of the mean and of the covariance's lower triangle."""

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 2)

    def _forward(self, x):
        d = (math.isqrt(9 + 8 * x.size) - 3) // 2
        check(d > 0 and d * (d + 3) == 2 * x.size, "x", "a vector of d (d + 3) / 2 numbers", f"{x.size}")
        cov, log_det = OntoPositiveDefinite().forward_and_log_det(x[d:])
        return jnp.concatenate([x[None, :d], cov]), log_det

    def _inverse(self, y):
        check(y.shape[0] == y.shape[1] + 1, "y", "of d + 1 rows and d columns", f"shape {y.shape}")
        free, log_det = OntoPositiveDefinite().inverse_and_log_det(y[1:])
        return jnp.concatenate([y[0], free]), log_det

    @property
    def codomain(self) -> Support:
        return MeanAndCovariance()


bijection_onto.register(MeanAndPrecision, lambda _: Members(Concatenate([Identity(), Exp()], [1, 1])))
bijection_onto.register(MeanAndCovariance, lambda _: Members(OntoMeanAndCovariance()))


class NormalGamma(ExponentialFamily):
    r"""$p(\mu, \tau) = N(\mu \mid m, 1/(\kappa\tau))\ b^a \tau^{a-1} e^{-b\tau} / \Gamma(a)$ over pairs.

    $m$ = `loc`, $\kappa$ = `precision_scale`, $a$ = `concentration`, $b$ = `rate`. Of $\mu$ there is no mean
    for $a \le 1/2$ (NaN), and an infinite variance for $1/2 < a \le 1$.

    >>> NormalGamma(1.0, 2.0, 3.0, 6.0).mean.tolist()
    [1.0, 0.5]
    """

    loc: Float[Array, "..."] = field(support=real)
    precision_scale: Float[Array, "..."] = field(support=positive)
    concentration: Float[Array, "..."] = field(support=positive)
    rate: Float[Array, "..."] = field(support=positive)

    @property
    def unit_shape(self) -> Shape:
        return (2,)

    @property
    def support(self) -> Support:
        return MeanAndPrecision()

    @property
    def mode(self) -> Array:
        r"""$(m, (a - 1/2)/b)$ for $a \ge 1/2$; NaN for less, where the density is unbounded."""
        return units(self, type(self)._mode)

    @property
    def natural(self):
        m, k = self.loc, self.precision_scale
        return self.concentration - 0.5, -self.rate - 0.5 * k * m**2, k * m, -0.5 * k

    def stats(self, x):
        mean, precision = x[0], x[1]
        return jnp.log(precision), precision, precision * mean, precision * mean**2

    def log_base(self, x):
        return jnp.full_like(x[0], -0.5 * _LOG_2PI)

    def log_normaliser(self, natural):
        power, slope, shift, quadratic = natural
        a, k = power + 0.5, -2 * quadratic
        b = -slope - 0.5 * shift**2 / k
        return gammaln(a) - a * jnp.log(b) - 0.5 * jnp.log(k)

    def from_natural(self, natural) -> "NormalGamma":
        power, slope, shift, quadratic = natural
        k = -2 * quadratic
        return NormalGamma(shift / k, k, power + 0.5, -slope - 0.5 * shift**2 / k)

    def from_stats(self, mean_stats) -> "NormalGamma":
        mean_log, precision, product, square = mean_stats
        m = product / precision
        a = degrees_from_gap(mean_log - jnp.log(precision), 1) / 2  # a Gamma variable is a 1 by 1 Wishart
        return NormalGamma(m, 1 / (square - m * product), a, a / precision)

    def _log_prob(self, x):
        mean, precision = x[0], x[1]
        a, b, k = self.concentration, self.rate, self.precision_scale
        spread = 0.5 * (jnp.log(k) + jnp.log(precision) - _LOG_2PI - k * precision * (mean - self.loc) ** 2)
        return spread + a * jnp.log(b) - gammaln(a) + (a - 1) * jnp.log(precision) - b * precision

    def _sample(self, key, n):
        key_mean, key_precision = jr.split(key)
        dtype = self.loc.dtype
        log_precision = jr.loggamma(key_precision, self.concentration, (n,), dtype) - jnp.log(self.rate)
        spread = jnp.exp(-0.5 * (log_precision + jnp.log(self.precision_scale)))
        means = self.loc + spread * jr.normal(key_mean, (n,), dtype)
        return jnp.stack([means, jnp.exp(log_precision)], axis=-1)

    def _mean(self):
        centre = jnp.where(self.concentration > 0.5, self.loc, jnp.nan)
        return jnp.stack([centre, self.concentration / self.rate])

    def _mode(self):
        excess = self.concentration - 0.5
        return jnp.where(excess >= 0, jnp.stack([self.loc, excess / self.rate]), jnp.nan)

    def _variance(self):
        a, b = self.concentration, self.rate
        finite = b / (self.precision_scale * jnp.where(a > 1, a - 1, 1.0))
        of_mean = jnp.where(a > 1, finite, jnp.where(a > 0.5, jnp.inf, jnp.nan))
        return jnp.stack([of_mean, a / b**2])

    def _entropy(self):
        a, b = self.concentration, self.rate
        mean_log = digamma(a) - jnp.log(b)
        of_precision = a - jnp.log(b) + gammaln(a) + (1 - a) * digamma(a)
        return of_precision + 0.5 * (1 + _LOG_2PI - jnp.log(self.precision_scale) - mean_log)


class NormalInverseWishart(ExponentialFamily):
    r"""$p(\mu, \Sigma) = N(\mu \mid m, \Sigma/\kappa)\ W^{-1}(\Sigma \mid \nu, \Psi)$ over $(\mu, \Sigma)$.

    A draw is $d + 1$ by $d$: row 0 is $\mu$, the others are $\Sigma$. $m$ = `loc`, $\kappa$ = `mean_scale`,
    $\nu$ = `degrees` $> d - 1$, $\Psi$ = `scale`. Moments that do not exist are NaN: the mean of $\mu$ for
    $\nu \le d$, mean and variance of $\Sigma$ for $\nu \le d + 1$ and $\nu \le d + 3$. The variance of $\mu$
    is infinite for $d < \nu \le d + 1$.
    """

    loc: Float[Array, "... d"] = field(support=real, rank=1)
    mean_scale: Float[Array, "..."] = field(support=positive)
    degrees: Float[Array, "..."] = field(support=positive)
    scale: Float[Array, "... d d"] = field(support=positive_definite)

    def __check_init__(self) -> None:
        super().__check_init__()
        d = self.loc.shape[-1]
        wanted = f"{d} by {d}, one row for each entry of `loc`"
        check(self.scale.shape[-1] == d, "scale", wanted, f"shape {self.scale.shape}")
        check_degrees(self.degrees, d)

    @property
    def unit_shape(self) -> Shape:
        return (self.loc.shape[-1] + 1, self.loc.shape[-1])

    @property
    def support(self) -> Support:
        return MeanAndCovariance()

    @property
    def mode(self) -> Array:
        r"""$(m, \Psi / (\nu + d + 2))$."""
        return units(self, type(self)._mode)

    @property
    def natural(self):
        m, k, d = self.loc, self.mean_scale, self.loc.size
        return -(self.degrees + d + 2) / 2, -0.5 * (self.scale + k * jnp.outer(m, m)), k * m, -0.5 * k

    def stats(self, x):
        factor, inverse = psd_factor(x[1:]), psd_inverse(x[1:])
        return factor.log_det(), inverse, factor.solve(x[0]), (factor.half_solve(x[0]) ** 2).sum()

    def log_base(self, x):
        return jnp.full_like(x[0, 0], -0.5 * x.shape[1] * _LOG_2PI)

    def log_normaliser(self, natural):
        degrees, scale, _, k = self._fields(natural)
        d = scale.shape[0]
        return multigammaln(degrees / 2, d) - degrees / 2 * log_det(scale / 2) - d / 2 * jnp.log(k)

    def from_natural(self, natural) -> "NormalInverseWishart":
        degrees, scale, loc, k = self._fields(natural)
        return NormalInverseWishart(loc, k, degrees, scale)

    def _fields(self, natural) -> tuple[Array, Array, Array, Array]:
        power, slope, shift, quadratic = natural
        k = -2 * quadratic
        return -2 * power - shift.size - 2, -2 * symmetrise(slope) - jnp.outer(shift, shift) / k, shift / k, k

    def from_stats(self, mean_stats) -> "NormalInverseWishart":
        mean_log_det, mean_inverse, product, square = mean_stats
        d = product.size
        degrees = degrees_from_gap(-mean_log_det - log_det(mean_inverse), d)
        scale = psd_inverse(mean_inverse)
        m = scale @ product
        return NormalInverseWishart(m, d / (square - m @ product), degrees, degrees * scale)

    def _covariance_prior(self) -> InverseWishart:
        return InverseWishart(self.degrees, self.scale)

    def _log_prob(self, x):
        d, k = self.loc.size, self.mean_scale
        factor = psd_factor(x[1:])
        distance = (factor.half_solve(x[0] - self.loc) ** 2).sum()
        of_mean = 0.5 * (d * (jnp.log(k) - _LOG_2PI) - factor.log_det() - k * distance)
        return of_mean + self._covariance_prior()._log_prob(x[1:])

    def _sample(self, key, n):
        key_mean, key_cov = jr.split(key)
        covs = self._covariance_prior()._sample(key_cov, n)
        z = jr.normal(key_mean, (n, self.loc.size), self.loc.dtype) / jnp.sqrt(self.mean_scale)
        means = self.loc[None] + jax.vmap(lambda cov, v: psd_factor(cov).lower @ v)(covs, z)
        return jnp.concatenate([means[:, None], covs], axis=1)

    def _mean(self):
        centre = jnp.where(self.degrees > self.loc.size, self.loc, jnp.nan)
        return jnp.concatenate([centre[None], self._covariance_prior()._mean()])

    def _mode(self):
        return jnp.concatenate([self.loc[None], self.scale / (self.degrees + self.loc.size + 2)])

    def _variance(self):
        prior, excess = self._covariance_prior(), self.degrees - self.loc.size - 1
        finite = jnp.diag(self.scale) / (self.mean_scale * jnp.where(excess > 0, excess, 1.0))
        of_mean = jnp.where(excess > 0, finite, jnp.where(excess > -1, jnp.inf, jnp.nan))
        return jnp.concatenate([of_mean[None], prior._variance()])

    def _entropy(self):
        prior, d = self._covariance_prior(), self.loc.size
        of_mean = 0.5 * (d * (1 + _LOG_2PI - jnp.log(self.mean_scale)) + prior._expected_log_det())
        return of_mean + prior._entropy()
