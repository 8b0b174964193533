r"""Renyi divergences, the Bhattacharyya distance and the Hellinger metric.

Identities.  $D_\alpha(p \| q) = \frac{1}{\alpha - 1} \log \int p^\alpha q^{1-\alpha}$: rising in $\alpha$, KL
             at $\alpha = 1$, additive over independent coordinates. $-\log\int\sqrt{pq} = \frac12 D_{1/2}$;
             $H^2 = 1 - \int\sqrt{pq}$.
Families.    $\int p^\alpha q^{1-\alpha} = \exp\{A(\alpha\eta_p + (1-\alpha)\eta_q) - \alpha A(\eta_p) -
             (1-\alpha) A(\eta_q)\}$ for two members of one exponential family and $0 < \alpha < 1$, where the
             mixed parameter is always a member's.
Gaussians.   With $r_i$ the eigenvalues of $\Sigma_2^{-1}\Sigma_1$ and $\Sigma_* = \alpha\Sigma_2 +
             (1-\alpha)\Sigma_1$: $D_\alpha = \frac{\alpha}{2}\,\delta^\top\Sigma_*^{-1}\delta + \frac12\sum_i
             \{\frac{\log(1 + (1-\alpha)(r_i - 1))}{1-\alpha} - \log r_i\}$.
Cost.        As `kl`; one eigendecomposition for Gaussians.
References.  van Erven and Harremoes (2014); Gil, Alajaji and Linder (2013).
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, is_concrete
from tractable.core.factors import positive_definite_factor
from tractable.core.linalg import symmetrise
from tractable.core.numerics import logsumexp, safe_log, safe_where
from tractable.core.types import Array, Scalar
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Normal
from tractable.distributions.divergence import kl
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.f_generators import log_power
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.integrals import integrate
from tractable.distributions.kl_pairs import scale_excess
from tractable.distributions.kl_registry import same_family
from tractable.distributions.pairs import Comparable, check_pair, over_units, pair_of_probabilities

__all__ = ["bhattacharyya", "hellinger", "renyi"]


def renyi(p: Comparable, q: Comparable, alpha: float) -> Array:
    r"""$D_\alpha(p \| q)$ for $\alpha \ge 0$, in nats, between distributions or arrays of probabilities.

    $\alpha = 0$ is $-\log q(p > 0)$, $\alpha = 1$ is KL, $\alpha = \infty$ is $\log\sup p/q$ (for arrays).
    NaN if quadrature does not reach eight digits.

    >>> round(float(renyi(jnp.array([0.5, 0.5]), jnp.array([0.25, 0.75]), 2.0)), 6)
    0.287682
    """
    check(alpha >= 0, "alpha", "zero or positive", alpha)
    if alpha == 1:
        return kl(p, q)
    if not isinstance(p, Distribution) and not isinstance(q, Distribution):
        return _renyi_probs(*pair_of_probabilities(p, q), alpha)
    check_pair(p, q)
    check(alpha < np.inf, "alpha", "finite for distributions", alpha)
    if p.discrete != q.discrete:
        return jnp.asarray(jnp.inf)
    family = type(p) is type(q) and isinstance(p, ExponentialFamily) and 0 < alpha < 1
    if family:
        same = same_family(p, q)
        family = not is_concrete(same) or bool(same)
    return over_units(partial(_one_renyi, alpha=alpha, family=family), p, q).sum()


def bhattacharyya(p: Comparable, q: Comparable) -> Array:
    r"""$-\log\int\sqrt{pq}$: symmetric, and additive over independent coordinates."""
    return renyi(p, q, 0.5) / 2


def hellinger(p: Comparable, q: Comparable) -> Array:
    r"""$\sqrt{1 - \int\sqrt{pq}}$, a metric between 0 (equal) and 1 (disjoint supports)."""
    if isinstance(p, Distribution) or isinstance(q, Distribution):
        return _root(-jnp.expm1(-bhattacharyya(p, q)))
    p, q = pair_of_probabilities(p, q)
    return _root(((_root(p) - _root(q)) ** 2).sum(-1) / 2)


def _renyi_probs(p: Array, q: Array, alpha: float) -> Array:
    log_p, log_q = safe_log(p), safe_log(q)
    if alpha == np.inf:
        return jnp.where(p > 0, log_p - log_q, -jnp.inf).max(-1)
    if alpha == 0:
        return -safe_log(jnp.where(p > 0, q, 0.0).sum(-1))
    return logsumexp(log_power(log_p, log_q, alpha), axis=-1) / (alpha - 1)


def _one_renyi(p: Any, q: Any, alpha: float, family: bool) -> Scalar:
    """The divergence of one unit: closed forms first."""
    if isinstance(p, Normal) and isinstance(q, Normal):
        return _normal_renyi(p, q, alpha)
    if isinstance(p, Gaussian) and isinstance(q, Gaussian):
        return _gaussian_renyi(p, q, alpha)
    if family:
        return _family_renyi(p, q, alpha)
    fix = "Compare `kl_estimate` from draws."
    check(p.unit_shape == (), "p", "Gaussian, of one family with `q`, or over numbers", type(p).__name__, fix)
    estimate = integrate(_power_density(alpha), p, q)
    limit = jnp.sqrt(jnp.finfo(estimate.value.dtype).eps) * estimate.value  # relative: a logarithm follows
    return jnp.where(estimate.standard_error <= limit, safe_log(estimate.value), jnp.nan) / (alpha - 1)


@lru_cache
def _power_density(alpha: float) -> Any:
    """One function object per order, so that compiled programs are found again."""
    return lambda log_p, log_q: jnp.exp(log_power(log_p, log_q, alpha))


def _normal_renyi(p: Normal, q: Normal, alpha: float) -> Array:
    ratio, shift = (p.scale / q.scale) ** 2, (p.loc - q.loc) / q.scale
    mixed = alpha + (1 - alpha) * ratio
    safe = jnp.where(mixed > 0, mixed, 1.0)
    return jnp.where(mixed > 0, alpha / 2 * shift**2 / safe + _spread(ratio, alpha), jnp.inf)


def _gaussian_renyi(p: Gaussian, q: Gaussian, alpha: float) -> Scalar:
    factor = positive_definite_factor(q.cov)
    half = factor.half_solve(positive_definite_factor(p.cov).lower)
    relative = symmetrise(half @ half.T)  # the covariance of p where that of q is the identity
    ratios, shift = jnp.linalg.eigvalsh(relative), factor.half_solve(p.mean - q.mean)
    inside = (alpha + (1 - alpha) * ratios > 0).all()
    identity = jnp.eye(ratios.size, dtype=ratios.dtype)
    mixed = jnp.where(inside, alpha * identity + (1 - alpha) * relative, identity)
    distance = shift @ positive_definite_factor(mixed).solve(shift)
    unknown = jnp.isnan(ratios).any()
    value = alpha / 2 * distance + _spread(ratios, alpha).sum()
    return jnp.where(inside | unknown, value, jnp.inf)


def _spread(ratio: Array, alpha: float) -> Array:
    r"""$\frac12\{\frac{\log m}{1-\alpha} - \log r\}$ with $m = \alpha + (1-\alpha)r$; nothing cancels."""
    mixed = alpha + (1 - alpha) * ratio
    return 0.5 * (scale_excess(ratio) - scale_excess(jnp.where(mixed > 0, mixed, 1.0)) / (1 - alpha))


def _family_renyi(p: Any, q: Any, alpha: float) -> Scalar:
    mixed = jax.tree.map(lambda a, b: alpha * a + (1 - alpha) * b, p.natural, q.natural)
    ends = alpha * p.log_normaliser(p.natural) + (1 - alpha) * q.log_normaliser(q.natural)
    return jnp.where(same_family(p, q), ends - p.log_normaliser(mixed), jnp.nan) / (1 - alpha)


def _root(x: Array) -> Array:
    """The square root, with gradient 0 at 0 rather than NaN."""
    return safe_where(x > 0, jnp.sqrt, x, x)
