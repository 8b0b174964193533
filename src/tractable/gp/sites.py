r"""Gaussian approximations of a latent function, one site per row: Laplace, EP, variational.

Posterior.   $q(f) \propto N(f; m, K)\prod_i e^{\nu_i f_i - \tau_i f_i^2/2}$; with $T = \mathrm{diag}(\tau)$
             and $B = I + T^{1/2} K T^{1/2}$ the mean is $m + K a$, and nothing needs $K^{-1}$.
Laplace.     $\tau = -\ell''(\mu)$, $\nu = \ell'(\mu) + \tau\mu$ at the mean: Newton's step to the mode
             (`gp.laplace`).
Variational. The same with $E_q[\ell']$ and $E_q[\ell'']$: a natural-gradient step; its fixed point is the
             Gaussian nearest in $KL(q \| p)$.
EP.          Expectation propagation: a site times the marginal without it (the cavity) has the moments of
             the true factor times the cavity.
Weights.     A row of weight $w$ is $w$ copies with a $w$-th of the site each; of weight zero it has none.
Cost.        One Cholesky factor of $B$ per step; Laplace needs about six, the others about twenty; two or
             three from the sites of hyperparameters close by.
References.  Rasmussen and Williams (2006) sections 3.4-3.6; Opper and Archambeau (2009); Khan and Lin (2017).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from tractable.core.factors import SiteFactor
from tractable.core.iterate import Run, run_until
from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.gaussian import Learned
from tractable.gp.laplace import Likelihood, Sites, dual_weights, evidence_at, find_mode
from tractable.gp.links import Link, average, nodes

__all__ = ["METHODS", "Labels", "SiteGaussian", "find_sites", "posterior_of_sites", "site_evidence"]

METHODS = ("laplace", "ep", "variational")


class SiteGaussian(Module):
    """The approximate posterior: marginals, and what predictions need."""

    mean: Float[Array, " n"]  # less the prior mean
    variance: Float[Array, " n"]
    learned: Learned  # from the sites as noisy readings: its weights $a$ have mean $K a$


class Labels(Likelihood):
    """Signs, weights and prior means of the rows, with the link."""

    link: Link
    sign: Float[Array, " n"]
    weights: Float[Array, " n"]
    offset: Float[Array, " n"]

    def log_prob(self, value: Float[Array, " n"]) -> Scalar:
        return self.weights @ jax.vmap(self.link.log_prob)(self.sign, self.offset + value)

    def sites(self, value: Float[Array, " n"]) -> Sites:
        slope = jax.vmap(self.link.slope)(self.sign, self.offset + value)
        precision = jax.vmap(self.link.curvature)(self.sign, self.offset + value)
        return Sites(self.weights * precision, self.weights * (slope + precision * value))

    def factor(self, gram: Float[Array, "n n"], precision: Float[Array, " n"]) -> SiteFactor:
        return SiteFactor.of(gram, precision)


class _Search(Module):
    sites: Sites
    q: SiteGaussian
    damping: Scalar
    change: Scalar


def posterior_of_sites(gram: Float[Array, "n n"], sites: Sites) -> SiteGaussian:
    """The Gaussian that the prior and the sites make."""
    factor = SiteFactor.of(gram, sites.precision)
    weights = dual_weights(gram, factor, sites.shift)
    variance = jnp.diag(gram) - (factor.half_solve(gram) ** 2).sum(0)
    return SiteGaussian(gram @ weights, variance, Learned(factor, weights))


def find_sites(
    method: str,
    gram: Float[Array, "n n"],
    labels: Labels,
    start: Sites | None = None,
    *,
    max_steps: int = 200,
    tol: float = 1e-9,
) -> Run[Any]:
    """The sites at the fixed point of a method, from those of `start` (of none): Newton's method for
    "laplace"; for the others the steps shorten where they stop getting closer.
    """
    none = jnp.zeros_like(labels.offset)
    sites = Sites(none, none) if start is None else start
    if method == "laplace":  # whoever uses them makes one step more, which squares what is left of the error
        found = find_mode(gram, labels, sites, max_steps=max_steps, tol=tol**0.5)
        return Run(labels.sites(gram @ found.state), found.trace, found.num_steps, found.code)

    def step(search: _Search) -> tuple[_Search, Scalar]:
        wanted = _wanted(method, labels, search.q, search.sites)
        sites = jax.tree.map(lambda old, new: old + search.damping * (new - old), search.sites, wanted)
        q = posterior_of_sites(gram, sites)
        change = jnp.abs(q.mean - search.q.mean).max()
        slower = jnp.maximum(0.5 * search.damping, 0.05)
        return _Search(sites, q, jnp.where(change > search.change, slower, search.damping), change), change

    def settled(search: _Search, value: Scalar, before: Scalar) -> Array:
        return (value >= 0) & (value <= tol * (1 + jnp.abs(search.q.mean).max()))

    first = _Search(sites, posterior_of_sites(gram, sites), jnp.ones(()), jnp.asarray(jnp.inf))
    found = run_until(step, first, max_steps=max_steps, tol=0.0, settled=settled)
    return Run(found.state.sites, found.trace, found.num_steps, found.code)


def site_evidence(method: str, gram: Float[Array, "n n"], labels: Labels, sites: Sites) -> Scalar:
    r"""The approximate log-evidence (for "variational" a lower bound) at the fixed point.

    It is differentiable in `gram` and `labels.offset` with `sites` held: bound and EP evidence are stationary
    in them, and the mode moves as one Newton step from the sites says.
    """
    if method == "laplace":
        factor = labels.factor(gram, sites.precision)
        return evidence_at(gram, labels, dual_weights(gram, factor, sites.shift))[0]
    q = posterior_of_sites(gram, sites)
    if method == "variational":
        expected = jax.vmap(lambda s, m, v: average(lambda f: labels.link.log_prob(s, f), m, v))
        fit = labels.weights @ expected(labels.sign, q.mean + labels.offset, q.variance)
        inverse = q.learned.factor.inner.half_solve(jnp.eye(gram.shape[0], dtype=gram.dtype))
        spread = (inverse**2).sum() - gram.shape[0]
        return fit - 0.5 * (spread + q.learned.weights @ q.mean + q.learned.factor.log_det())
    return _ep_evidence(labels, q, sites)


def _wanted(method: str, labels: Labels, q: SiteGaussian, sites: Sites) -> Sites:
    """The sites that "ep" or "variational" asks for, given the present Gaussian."""
    if method == "ep":
        _, mean, variance, cavity = _tilted(labels, q, sites)
        # a concave log-factor narrows its cavity: below zero by rounding alone
        precision = jnp.maximum(1 / variance - 1 / cavity[1], 0.0)
        shift = mean / variance - cavity[0] / cavity[1]
        return Sites(labels.weights * precision, labels.weights * shift)

    def one(sign, offset, mean, variance):
        slope = average(lambda f: labels.link.slope(sign, f), offset + mean, variance)
        return slope, average(lambda f: labels.link.curvature(sign, f), offset + mean, variance)

    slope, precision = jax.vmap(one)(labels.sign, labels.offset, q.mean, q.variance)
    return Sites(labels.weights * precision, labels.weights * (slope + precision * q.mean))


def _tilted(labels: Labels, q: SiteGaussian, sites: Sites) -> tuple[Array, Array, Array, tuple[Array, Array]]:
    """Log-normaliser, mean and variance of each factor times its cavity, and the cavity."""
    copies = jnp.where(labels.weights > 0, labels.weights, 1.0)
    spread = 1 / (1 / q.variance - sites.precision / copies)
    centre = spread * (q.mean / q.variance - sites.shift / copies)

    def one(sign, offset, mean, variance):
        places, weights = nodes(mean, variance)
        logs = jax.vmap(lambda f: labels.link.log_prob(sign, offset + f))(places)
        total = logsumexp(logs, b=weights)
        shares = weights * jnp.exp(logs - total)
        first = shares @ places
        return total, first, shares @ (places - first) ** 2

    total, mean, variance = jax.vmap(one)(labels.sign, labels.offset, centre, spread)
    return total, mean, variance, (centre, spread)


def _ep_evidence(labels: Labels, q: SiteGaussian, sites: Sites) -> Scalar:
    r"""$\sum_i w_i(\log\hat Z_i - \log\int N_{-i}\,t_i) - \frac12\log|B| + \frac12\nu^\top E_q[f]$."""
    total, _, _, (centre, spread) = _tilted(labels, q, sites)
    gaussian = 0.5 * jnp.log(q.variance / spread) + 0.5 * (q.mean**2 / q.variance - centre**2 / spread)
    own = jnp.where(labels.weights > 0, labels.weights * (total - gaussian), 0.0).sum()
    return own - 0.5 * q.learned.factor.log_det() + 0.5 * sites.shift @ q.mean
