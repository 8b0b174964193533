r"""Closed forms of $\mathrm{KL}(p \| q)$ of priors of shares and of covariances, of many units at once.

Dirichlets.  $\log\frac{\Gamma(A)}{\Gamma(B)} - \sum_i\log\frac{\Gamma(a_i)}{\Gamma(b_i)} + \sum_i(a_i - b_i)
             [\psi(a_i) - \psi(A)]$ with sums $A$, $B$.
Scatter.     With $M = L_p^{-1}L_q$ of the Cholesky factors of the scales and $\ell = \log|M M^\top|$:
             $\frac{\nu_p}{2}\{\sum_i(M_{ii}^2 - 1 - \log M_{ii}^2) + \sum_{i>j}M_{ij}^2\} +
             \log\frac{\Gamma_d(\nu_q/2)}{\Gamma_d(\nu_p/2)} + \frac{\nu_p - \nu_q}{2}[\psi_d(\nu_p/2) +
             \ell]$: for equal degrees a sum of squares, in which nothing cancels.
Contract.    Leading axes are units, whose divergences are returned one by one; arrays of NumPy are answered
             by NumPy, so that a bound which is climbed on the host compiles nothing.
Cost.        $O(d^3)$ per unit.
References.  Penny (2001), "KL-divergences of normal, gamma, Dirichlet and Wishart densities".
"""

from types import ModuleType
from typing import Any

import jax.scipy.special as jax_special
import numpy as np
import scipy.special

from tractable.core.checks import namespace
from tractable.distributions.kl_pairs import scale_excess
from tractable.distributions.kl_registry import register_kl
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.distributions.soft_moments import lower_factors, precision_roots
from tractable.distributions.wishart import InverseWishart

__all__ = ["dirichlet_kl", "inverse_wishart_kl", "normal_inverse_wishart_kl"]


@register_kl(Dirichlet, Dirichlet)
def dirichlet_kl(p: Any, q: Any, logs: Any = None) -> Any:
    """`logs` are the expected logarithms of `p`, where they are known.

    >>> from tractable.core.checks import to_device
    >>> pair = (Dirichlet(np.array(a)) for a in ([1.0, 1.0], [2.0, 1.0]))
    >>> round(float(dirichlet_kl(*pair)), 6)  # log 1/2 less the mean of log x
    0.306853
    """
    xp = namespace(p, q, logs)
    special, a, b = _special(xp), xp.asarray(p.concentration), xp.asarray(q.concentration)
    if logs is None:
        logs = special.digamma(a) - special.digamma(a.sum(-1, keepdims=True))
    own = special.gammaln(a.sum(-1)) - special.gammaln(a).sum(-1)
    other = special.gammaln(b.sum(-1)) - special.gammaln(b).sum(-1)
    return own - other + ((a - b) * logs).sum(-1)


@register_kl(InverseWishart, InverseWishart)
def inverse_wishart_kl(p: Any, q: Any) -> Any:
    r"""The same as of the Wishart laws of the inverses."""
    return _scatter(p, q)[0]


@register_kl(NormalInverseWishart, NormalInverseWishart)
def normal_inverse_wishart_kl(p: Any, q: Any) -> Any:
    r"""$\mathrm{KL}(\Sigma) + \frac12[d(r - 1 - \log r) + \kappa_q\nu_p\|m_p - m_q\|^2_{\Psi_p^{-1}}]$ with
    $r = \kappa_q/\kappa_p$: taken about the means, which the Bregman form would cancel."""
    xp = namespace(p, q)
    spread, root = _scatter(p, q)
    away = xp.asarray(p.loc) - xp.asarray(q.loc)
    gap = (root.swapaxes(-1, -2) @ away[..., None])[..., 0]
    ratio = xp.asarray(q.mean_scale) / xp.asarray(p.mean_scale)
    pull = xp.asarray(q.mean_scale) * xp.asarray(p.degrees) * (gap * gap).sum(-1)
    return spread + 0.5 * (away.shape[-1] * scale_excess(ratio) + pull)


def _scatter(p: Any, q: Any) -> tuple[Any, Any]:
    """The divergence of the scatter matrices, and the root of the inverse of the first scale."""
    xp = namespace(p, q)
    special = _special(xp)
    first, second, scale = xp.asarray(p.degrees) / 2, xp.asarray(q.degrees) / 2, xp.asarray(q.scale)
    root, log_det = precision_roots(xp.asarray(p.scale))
    lower = lower_factors(scale)
    moved = root.swapaxes(-1, -2) @ lower
    squares = xp.diagonal(moved, axis1=-2, axis2=-1) ** 2
    below = (xp.tril(moved, -1) ** 2).sum((-2, -1))
    gain = 2 * xp.log(xp.diagonal(lower, axis1=-2, axis2=-1)).sum(-1) - log_det
    steps = xp.arange(scale.shape[-1]) / 2
    a, b = first[..., None] - steps, second[..., None] - steps
    counts = (special.gammaln(b) - special.gammaln(a)).sum(-1)
    turned = (first - second) * (special.digamma(a).sum(-1) + gain)
    return first * (scale_excess(squares).sum(-1) + below) + counts + turned, root


def _special(xp: ModuleType) -> Any:
    return scipy.special if xp is np else jax_special
