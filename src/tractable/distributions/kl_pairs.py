r"""Closed forms of $\mathrm{KL}(p \| q)$ for distributions of one number.

Form.        Most are sums of $x - 1 - \log x \ge 0$ at a ratio of scales and of squares, so that they neither
             cancel nor turn negative where the two distributions nearly agree.
Cost.        A few special functions per unit.
References.  Gil, Alajaji and Linder (2013), "Renyi divergence measures for commonly used univariate
             continuous distributions"; Chyzak and Nielsen (2019) for the Cauchy.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln, i0e, i1e

from tractable.core.checks import is_concrete
from tractable.core.numerics import log_sigmoid, log_softmax, safe_log
from tractable.core.types import Array, Values
from tractable.distributions.bounded import Beta, Uniform
from tractable.distributions.circular import VonMises
from tractable.distributions.continuous import Cauchy, Gumbel, Laplace, Normal
from tractable.distributions.counts import Binomial, Geometric, NegativeBinomial, Poisson
from tractable.distributions.discrete import Bernoulli, Categorical, DiscreteUniform
from tractable.distributions.gamma import ChiSquared, Gamma, InverseGamma
from tractable.distributions.kl_registry import register_kl
from tractable.distributions.positive import HalfCauchy, HalfNormal, LogNormal
from tractable.distributions.special import deviance, log1p_minus, log_beta
from tractable.distributions.waiting import Exponential, Pareto, Weibull

__all__ = ["mass_terms", "scale_excess"]


def scale_excess(x: Any) -> Values:
    r"""$x - 1 - \log x \ge 0$ for $x \ge 0$, exact near 1; infinite at 0."""
    xp: Any = np if isinstance(x, (np.ndarray, np.generic)) else jnp  # arrays of NumPy compile nothing
    away = xp.subtract(x, 1)
    near = xp.abs(away) < 0.2  # elsewhere x - 1 would round away the digits of a small x
    far: Any = xp.where(near, 1.0, x)
    return xp.where(near, -log1p_minus(xp.where(near, away, 0.0)), far - 1 - xp.log(far))


def mass_terms(log_p: Array, log_q: Array) -> Array:
    r"""$p \log(p/q) - p + q \ge 0$, elementwise from logarithms; summed over all states it is the
    divergence."""
    p, q = jnp.exp(log_p), jnp.exp(log_q)
    gap = jnp.where(p > 0, log_q, 0.0) - jnp.where(p > 0, log_p, 0.0)
    near = jnp.abs(gap) < 0.1
    close = -p * log1p_minus(jnp.expm1(jnp.where(near, gap, 0.0)))
    far = q - p - p * jnp.where(near, 0.0, gap)
    return jnp.where(p > 0, jnp.where(near, close, far), q)


@register_kl(Normal, Normal)
@register_kl(LogNormal, LogNormal)
def normal_kl(p, q):
    r"""$\frac12 [r - 1 - \log r + (\mu_1 - \mu_2)^2 / \sigma_2^2]$ with $r = \sigma_1^2 / \sigma_2^2$."""
    return 0.5 * (scale_excess((p.scale / q.scale) ** 2) + ((p.loc - q.loc) / q.scale) ** 2)


@register_kl(HalfNormal, HalfNormal)
def half_normal_kl(p, q):
    r"""$\frac12 (r - 1 - \log r)$ with $r = \sigma_1^2 / \sigma_2^2$."""
    return 0.5 * scale_excess((p.scale / q.scale) ** 2)


@register_kl(Laplace, Laplace)
def laplace_kl(p, q):
    r"""$r - 1 - \log r + r (t + e^{-t} - 1)$ with $r = b_1/b_2$ and $t = |\mu_1 - \mu_2| / b_1$."""
    ratio, t = p.scale / q.scale, jnp.abs(p.loc - q.loc) / p.scale
    return scale_excess(ratio) + ratio * (t + jnp.expm1(-t))


@register_kl(Cauchy, Cauchy)
def cauchy_kl(p, q):
    r"""$\log\{1 + [(s_1 - s_2)^2 + (\mu_1 - \mu_2)^2] / 4 s_1 s_2\}$, the same both ways."""
    return jnp.log1p(((p.scale - q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4 * p.scale * q.scale))


@register_kl(HalfCauchy, HalfCauchy)
def half_cauchy_kl(p, q):
    r"""$\log\{1 + (s_1 - s_2)^2 / 4 s_1 s_2\}$."""
    return jnp.log1p((p.scale - q.scale) ** 2 / (4 * p.scale * q.scale))


@register_kl(Gumbel, Gumbel)
def gumbel_kl(p, q):
    r"""$\log\frac{b_2}{b_1} + \gamma (r - 1) + d + e^{-d}\,\Gamma(1 + r) - 1$ with $r = b_1/b_2$, $d = (\mu_1
    - \mu_2)/b_2$.
    """
    return _gumbel_kl(p.scale / q.scale, (p.loc - q.loc) / q.scale)


@register_kl(Exponential, Exponential)
def exponential_kl(p, q):
    r"""$r - 1 - \log r$ with $r = \lambda_2 / \lambda_1$."""
    return scale_excess(q.rate / p.rate)


@register_kl(Gamma, Gamma)
def gamma_kl(p, q):
    r"""$\log\frac{\Gamma(a_2)}{\Gamma(a_1)} + (a_1 - a_2)\psi(a_1) - a_2 \log r + a_1 (r - 1)$ with $r = b_2
    / b_1$."""
    return _gamma_kl(p.concentration, p.rate, q.concentration, q.rate)


@register_kl(InverseGamma, InverseGamma)
def inverse_gamma_kl(p, q):
    """That of the reciprocals, which are Gamma with the scale as rate."""
    return _gamma_kl(p.concentration, p.scale, q.concentration, q.scale)


@register_kl(ChiSquared, ChiSquared)
def chi_squared_kl(p, q):
    """Gamma with half the degrees and rate one half."""
    return _gamma_kl(p.degrees / 2, 0.5, q.degrees / 2, 0.5)


@register_kl(Exponential, Gamma)
def exponential_gamma_kl(p, q):
    """An exponential is a Gamma of concentration 1."""
    return _gamma_kl(jnp.ones_like(p.rate), p.rate, q.concentration, q.rate)


@register_kl(Gamma, Exponential)
def gamma_exponential_kl(p, q):
    """An exponential is a Gamma of concentration 1."""
    return _gamma_kl(p.concentration, p.rate, jnp.ones_like(q.rate), q.rate)


@register_kl(Weibull, Weibull)
def weibull_kl(p, q):
    r"""That of $-\log x$, which is Gumbel with location $-\log\lambda$ and scale $1/k$."""
    shift = q.concentration * (jnp.log(q.scale) - jnp.log(p.scale))
    return _gumbel_kl(q.concentration / p.concentration, shift)


@register_kl(Pareto, Pareto)
def pareto_kl(p, q):
    r"""$r - 1 - \log r + \alpha_2 \log(m_1/m_2)$ with $r = \alpha_2/\alpha_1$; infinite for $m_1 < m_2$."""
    value = scale_excess(q.concentration / p.concentration) + q.concentration * jnp.log(p.scale / q.scale)
    return jnp.where(p.scale < q.scale, jnp.inf, value)


@register_kl(Beta, Beta)
def beta_kl(p, q):
    r"""$\log\frac{B(a_2, b_2)}{B(a_1, b_1)} + (a_1 - a_2)\psi(a_1) + (b_1 - b_2)\psi(b_1) + (a_2 - a_1 + b_2
    - b_1)\psi(a_1 + b_1)$.
    """
    total = digamma(p.a + p.b)
    expected = (p.a - q.a) * (digamma(p.a) - total) + (p.b - q.b) * (digamma(p.b) - total)
    return log_beta(q.a, q.b) - log_beta(p.a, p.b) + expected


@register_kl(Uniform, Uniform)
def uniform_kl(p, q):
    """The logarithm of the ratio of lengths, if the first interval lies in the second; else infinite."""
    inside = (p.low >= q.low) & (p.high <= q.high)
    return jnp.where(inside, jnp.log((q.high - q.low) / (p.high - p.low)), jnp.inf)


@register_kl(VonMises, VonMises)
def von_mises_kl(p, q):
    r"""$\log\frac{I_0(\kappa_2)}{I_0(\kappa_1)} + \frac{I_1(\kappa_1)}{I_0(\kappa_1)} (\kappa_1 - \kappa_2
    \cos(\mu_1 - \mu_2))$."""
    a, b = p.concentration, q.concentration
    log_ratio = jnp.log(i0e(b)) + b - jnp.log(i0e(a)) - a
    return log_ratio + i1e(a) / i0e(a) * (a - b * jnp.cos(p.loc - q.loc))


@register_kl(Bernoulli, Bernoulli)
def bernoulli_kl(p, q):
    r"""$p \log\frac{p}{q} + (1 - p)\log\frac{1 - p}{1 - q}$."""
    return _bernoulli_kl(
        log_sigmoid(p.logits), log_sigmoid(-p.logits), log_sigmoid(q.logits), log_sigmoid(-q.logits)
    )


def _same_number_of_states(p, q) -> bool:
    return p.logits.shape[-1] == q.logits.shape[-1]


@register_kl(Categorical, Categorical, applies=_same_number_of_states)
def categorical_kl(p, q):
    r"""$\sum_k p_k \log(p_k / q_k)$."""
    return mass_terms(log_softmax(p.logits), log_softmax(q.logits)).sum()


def _same_total(p, q) -> bool:
    """Whether both count the same number of trials; taken for granted where there are no values yet."""
    known = is_concrete(p.total) and is_concrete(q.total)
    return not known or bool((np.asarray(p.total) == np.asarray(q.total)).all())


@register_kl(Binomial, Binomial, applies=_same_total)
def binomial_kl(p, q):
    """As many times that of one trial; NaN for different totals, which have no closed form."""
    return jnp.where(p.total == q.total, p.total, jnp.nan) * bernoulli_kl(p, q)


@register_kl(Geometric, Geometric)
def geometric_kl(p, q):
    """That of one trial, times the expected number of trials."""
    return _trials_kl(p.probs, q.probs)


@register_kl(NegativeBinomial, NegativeBinomial, applies=_same_total)
def negative_binomial_kl(p, q):
    """As many geometric waits as successes; NaN for different totals, which have no closed form."""
    return jnp.where(p.total == q.total, p.total, jnp.nan) * _trials_kl(p.probs, q.probs)


@register_kl(Poisson, Poisson)
def poisson_kl(p, q):
    r"""$\lambda_1 \log(\lambda_1/\lambda_2) - \lambda_1 + \lambda_2$."""
    some = p.rate > 0
    return jnp.where(some, deviance(jnp.where(some, p.rate, 1.0), q.rate), q.rate)


@register_kl(DiscreteUniform, DiscreteUniform)
def discrete_uniform_kl(p, q):
    """The logarithm of the ratio of counts, if the first range lies in the second; else infinite."""
    inside = (p.low >= q.low) & (p.high <= q.high)
    return jnp.where(inside, jnp.log((q.high - q.low + 1) / (p.high - p.low + 1)), jnp.inf)


def _gumbel_kl(ratio, shift) -> Array:
    return -jnp.log(ratio) + np.euler_gamma * (ratio - 1) + shift + jnp.expm1(gammaln(1 + ratio) - shift)


def _gamma_kl(a, rate, b, other_rate) -> Array:
    ratio = other_rate / rate
    return gammaln(b) - gammaln(a) + (a - b) * digamma(a) - b * jnp.log(ratio) + a * (ratio - 1)


def _bernoulli_kl(log_p, log_not_p, log_q, log_not_q) -> Array:
    return mass_terms(log_p, log_q) + mass_terms(log_not_p, log_not_q)


def _trials_kl(a, b) -> Array:
    one = _bernoulli_kl(safe_log(a), safe_log(1 - a), safe_log(b), safe_log(1 - b))
    return one / a
