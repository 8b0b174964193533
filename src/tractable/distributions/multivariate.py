r"""Vectors of shares, and the multivariate t; the distributions of counts are re-exported here.

Model.       Dirichlet over probabilities; Student's t, a Gaussian whose precision has a Gamma factor.
Identity.    Gamma variables given their sum are Dirichlet: in this form a concentration of $10^6$ costs no
             digits. Maximum likelihood is Newton's method on a matrix that is diagonal plus rank one.
Cost.        $O(k)$ for $k$ shares; $O(d^3)$ for a density of the t.
References.  Minka (2000), "Estimating a Dirichlet distribution"; Johnson, Kotz and Balakrishnan (1997)
             chapter 49; Kotz and Nadarajah (2004).
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import digamma, gammaln, polygamma, xlogy

from tractable.core.checks import check, is_concrete
from tractable.core.iterate import run_until
from tractable.core.linalg import psd_factor
from tractable.core.module import field
from tractable.core.numerics import safe_log
from tractable.core.support import Support, positive, real, simplex
from tractable.core.types import Array, Float, Scalar, Shape
from tractable.distributions.base import Distribution
from tractable.distributions.counting import log_shares
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.leading_axes import units
from tractable.distributions.multinomial import (
    DirichletMultinomial,
    Multinomial,
    categorical_covariance,
    check_categories,
)
from tractable.distributions.special import log_beta, log_poisson
from tractable.distributions.supports import positive_definite

__all__ = ["Dirichlet", "DirichletMultinomial", "Multinomial", "MultivariateStudentT"]


class Dirichlet(ExponentialFamily):
    r"""$p(x) = \Gamma(\sum_k \alpha_k) \prod_k x_k^{\alpha_k - 1} / \Gamma(\alpha_k)$ over probabilities $x$.

    $\alpha$ = `concentration`: its sum says how peaked the density is, its ratios where. The density is with
    respect to the first $k - 1$ coordinates.

    >>> Dirichlet(jnp.array([100.0, 50.0])).mean.round(6).tolist()
    [0.666667, 0.333333]
    """

    concentration: Float[Array, "... k"] = field(support=positive, rank=1)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_categories("concentration", self.concentration)

    @property
    def unit_shape(self) -> Shape:
        return self.concentration.shape[-1:]

    @property
    def support(self) -> Support:
        return simplex

    @property
    def mode(self) -> Array:
        r"""$(\alpha_k - 1) / \sum_j (\alpha_j - 1)$ for $\alpha_k \ge 1$, not all 1; else NaN."""
        return units(self, type(self)._mode)

    @property
    def covariance(self) -> Array:
        r"""$(\mathrm{diag}(m) - mm^\top) / (1 + \sum_k \alpha_k)$ with $m$ the mean."""
        return units(self, type(self)._covariance)

    @property
    def natural(self):
        return (self.concentration - 1,)

    def stats(self, x):
        return (safe_log(x),)

    def log_base(self, x):
        return jnp.zeros_like(x[0])

    def log_normaliser(self, natural):
        (eta,) = natural
        return gammaln(eta + 1).sum() - gammaln(eta.sum() + eta.size)

    def from_natural(self, natural) -> "Dirichlet":
        return Dirichlet(natural[0] + 1)

    def from_stats(self, mean_stats) -> "Dirichlet":
        return Dirichlet(_concentration_from_logs(mean_stats[0]))

    def _log_prob(self, x):
        a = self.concentration
        total = a.sum()
        direct = xlogy(a - 1, x) - gammaln(a) + a * jnp.log(total) - total * x
        large = (a >= 10) & (x > 0)
        held = jnp.where(large, x, 0.5)
        terms = jnp.where(large, log_poisson(a, total * held) + jnp.log(a / held), direct)
        value = terms.sum() - log_poisson(total, total) - jnp.log(total) + total * (x.sum() - 1)
        # A factor zero decides even beside an infinite one: x = (0, 0, 1) under alpha = (2, 0.5, 1).
        return jnp.where(jnp.isneginf(terms).any(), -jnp.inf, value)

    def _sample(self, key, n):
        return jnp.exp(log_shares(key, self.concentration, n))

    def _mean(self):
        return self.concentration / self.concentration.sum()

    def _mode(self):
        excess = self.concentration - 1
        exists = (excess >= 0).all() & (excess > 0).any()
        return excess / jnp.where(exists, excess.sum(), jnp.nan)

    def _variance(self):
        return jnp.diag(self._covariance())

    def _covariance(self):
        return categorical_covariance(self._mean()) / (1 + self.concentration.sum())

    def _entropy(self):
        a = self.concentration
        total = a.sum()
        expected_log = digamma(a) - digamma(total)
        excess, of_total = _stirling_excess(a), _stirling_excess(total)
        each = excess[0] + excess[1] - jnp.log(a) + expected_log
        return each.sum() - of_total[0] - of_total[1] + jnp.log(total)


class MultivariateStudentT(Distribution):
    r"""$p(x) = c\,|S|^{-1/2} \big(1 + (x-\mu)^\top S^{-1} (x-\mu) / \nu\big)^{-(\nu+d)/2}$.

    $c = \Gamma((\nu+d)/2) / \{\Gamma(\nu/2)\,(\nu\pi)^{d/2}\}$, $\nu$ = `degrees`, $\mu$ = `loc` and
    $S$ = `scale`, a positive definite matrix (the covariance is $S \nu/(\nu-2)$). The mean does not exist for
    $\nu \le 1$ and is NaN there; the variance is infinite for $1 < \nu \le 2$.
    """

    degrees: Float[Array, "..."] = field(support=positive)
    loc: Float[Array, "... d"] = field(support=real, rank=1)
    scale: Float[Array, "... d d"] = field(support=positive_definite)

    def __check_init__(self) -> None:
        super().__check_init__()
        d = self.loc.shape[-1]
        wanted = f"{d} by {d}, one row for each entry of `loc`"
        check(self.scale.shape[-1] == d, "scale", wanted, f"shape {self.scale.shape}")

    @property
    def unit_shape(self) -> Shape:
        return self.loc.shape[-1:]

    @property
    def support(self) -> Support:
        return real

    @property
    def mode(self) -> Array:
        r"""$\mu$."""
        return units(self, type(self)._mode)

    @property
    def covariance(self) -> Array:
        r"""$S\,\nu / (\nu - 2)$."""
        return units(self, type(self)._covariance)

    def _log_prob(self, x):
        v, d = self.degrees, x.size
        factor = psd_factor(self.scale)
        distance = (factor.half_solve(x - self.loc) ** 2).sum()
        return self._log_constant() - 0.5 * factor.log_det() - (v + d) / 2 * jnp.log1p(distance / v)

    def _log_constant(self) -> Scalar:
        v, d = self.degrees, self.loc.size
        return gammaln(d / 2) - log_beta(d / 2, v / 2) - d / 2 * jnp.log(v * jnp.pi)

    def _sample(self, key, n):
        key_normal, key_factor = jr.split(key)
        z = jr.normal(key_normal, (n, self.loc.size), self.loc.dtype) @ psd_factor(self.scale).lower.T
        half = self.degrees / 2
        log_precision = jr.loggamma(key_factor, half, (n,), self.loc.dtype) - jnp.log(half)
        return self.loc[None] + z * jnp.exp(-log_precision / 2)[:, None]

    def _mean(self):
        return jnp.where(self.degrees > 1, self.loc, jnp.nan)

    def _mode(self):
        return self.loc

    def _variance(self):
        return jnp.diag(self._covariance())

    def _covariance(self):
        v = self.degrees
        ratio = jnp.where(v > 2, v / jnp.where(v > 2, v - 2, 1.0), jnp.inf)
        spread = jnp.where(self.scale == 0, 0.0, self.scale * ratio)
        return jnp.where(v > 1, spread, jnp.nan)

    def _entropy(self):
        x, h = self.degrees / 2, self.loc.size / 2
        # (x + h) (psi(x + h) - psi(x)), whose digammas would cancel at many degrees
        tail = (x + h) * jnp.log1p(h / x) - _stirling_excess(x + h)[1] + _stirling_excess(x)[1] * (1 + h / x)
        return 0.5 * psd_factor(self.scale).log_det() - self._log_constant() + tail


def _stirling_excess(a: Array) -> tuple[Array, Array]:
    r"""$s(a) = \log\Gamma(a+1) - a\log a + a$, and $a(\log a - \psi(a)) = 1 - a\,s'(a)$."""
    value, slope = jax.jvp(lambda t: -log_poisson(t, t), (a,), (jnp.ones_like(a),))
    return value, 1 - a * slope


def _concentration_from_logs(mean_log: Array) -> Array:
    r"""The $\alpha$ with $\psi(\alpha_k) - \psi(\sum_j \alpha_j)$ = `mean_log`; NaN where there is none.

    There is one where the exponentials sum to less than 1. Newton's matrix is diagonal plus rank one, so a
    step is $O(k)$; an entry may fall at most tenfold in a step. Differentiable.
    """
    if is_concrete(mean_log):
        weight = float(np.exp(np.asarray(mean_log)).sum())
        must = "mean logarithms of two points or more, whose exponentials sum to less than 1"
        check(weight < 1, "mean_stats", must, f"a sum of {weight}")
    return _newton_concentration(mean_log)


@jax.jit
def _newton_concentration(mean_log: Array) -> Array:
    constant = jax.lax.stop_gradient(mean_log)

    def newton(a, aim):
        residual = aim - digamma(a) + digamma(a.sum())
        diagonal, common = polygamma(1, a), polygamma(1, a.sum())
        shared = (residual / diagonal).sum() / (1 / common - (1 / diagonal).sum())
        return a + (residual + shared) / diagonal

    def step(a):
        following = jnp.maximum(newton(a, constant), a / 10)
        return following, jnp.log(following).sum()

    found = run_until(step, jnp.ones_like(mean_log), max_steps=100, tol=1e-13).state
    root = newton(jax.lax.stop_gradient(found), mean_log)  # one more step carries the derivative of the root
    return jnp.where(jnp.exp(constant).sum() < 1, root, jnp.nan)
