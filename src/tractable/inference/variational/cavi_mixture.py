r"""The Bayesian Gaussian mixture by coordinate ascent: components that the data do not need are emptied.

Model.       $\pi \sim \mathrm{Dir}(\alpha_0)$, $(\mu_k, \Sigma_k) \sim \mathrm{NIW}(m_0, \kappa_0, \nu_0,
             \Psi_0)$, $z_n \sim \pi$, $x_n \mid z_n = k \sim N(\mu_k, \Sigma_k)$; $q = \prod_n
             q(z_n)\,q(\pi)\prod_k q(\mu_k, \Sigma_k)$.
Updates.     $\log r_{nk} = E\log\pi_k + E\log N(x_n; \mu_k, \Sigma_k) + \mathrm{const}$ with $E\log N =
             -\frac12[d\log 2\pi + E\log|\Sigma_k| + d/\kappa_k + \nu_k\|x_n - m_k\|^2_{\Psi_k^{-1}}]$; then
             every posterior is its prior plus statistics weighted by $r$.
ELBO.        $\sum_n\log\sum_k e^{(\cdot)_{nk}} - \mathrm{KL}(q(\pi) \| p(\pi)) - \sum_k\mathrm{KL}(q(\mu_k,
             \Sigma_k) \| p)$: the statistics add over rows, so the EM driver climbs it (in memory, in chunks,
             streamed).
Sparsity.    With $\alpha_0 < 1$ the ELBO prefers an empty component to a superfluous one.
Cost.        $O(nkd^2 + kd^3)$ per sweep.
References.  Attias (1999); Bishop (2006) section 10.2; Corduneanu and Bishop (2001).
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import digamma

from tractable.core.checks import as_float, check, check_count, check_finite, check_shape
from tractable.core.iterate import Run
from tractable.core.keys import takes_key
from tractable.core.linalg import psd_factor, symmetrise
from tractable.core.module import Module
from tractable.core.numerics import logsumexp, one_hot, softmax
from tractable.core.seeding import far_apart, nearest_of
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.distributions.divergence import kl
from tractable.distributions.mixture import Mixture
from tractable.distributions.multivariate import Dirichlet, MultivariateStudentT
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.distributions.wishart import multidigamma
from tractable.inference.expectation_maximisation.em import EM, best_of

__all__ = ["BayesianMixture", "bayesian_mixture", "default_prior", "prune"]

_LOG_2PI = float(np.log(2 * np.pi))

Statistics = tuple[Float[Array, " k"], Float[Array, "k d"], Float[Array, "k d d"]]


class BayesianMixture(Module):
    """The priors, and the variational posterior of weights and components; `fit` or `EM().fit` climbs."""

    prior_weights: Dirichlet
    prior_component: NormalInverseWishart
    weights: Dirichlet
    components: NormalInverseWishart

    @staticmethod
    def start(
        key: Key, rows: ArrayLike, prior_weights: Dirichlet, prior_component: NormalInverseWishart
    ) -> "BayesianMixture":
        """The posterior when each row belongs to the nearest of `k` rows chosen far apart."""
        xs = as_float("rows", rows)
        k = prior_weights.concentration.shape[0]
        check_shape("rows", xs, (None, prior_component.loc.shape[0]))
        check(xs.shape[0] >= k, "rows", f"at least as many as components ({k})", xs.shape[0])
        shares = one_hot(nearest_of(xs, xs[far_apart(key, xs, k)]), k)
        repeated: Any = prior_component.expand((k,))
        empty = BayesianMixture(prior_weights, prior_component, prior_weights, repeated)
        return _absorb(empty, xs, shares)

    @property
    def dim(self) -> int:
        """The length of a row."""
        return self.prior_component.loc.shape[0]

    @property
    def expected_counts(self) -> Float[Array, " k"]:
        """How many rows each component is expected to hold."""
        return self.weights.concentration - self.prior_weights.concentration

    def num_active(self, least: float = 1.0) -> int:
        """The number of components expected to hold at least `least` rows."""
        return int((np.asarray(self.expected_counts) >= least).sum())

    def log_joint(self, rows: Float[Array, "n d"]) -> Float[Array, "n k"]:
        r"""$E\log\pi_k + E\log N(x_n; \mu_k, \Sigma_k)$."""
        a = self.weights.concentration
        expected = jax.vmap(lambda c: _expected_log_density(c, rows))(self.components)
        return (digamma(a) - digamma(a.sum()))[None] + expected.T

    def responsibilities(self, rows: Float[Array, "n d"]) -> Float[Array, "n k"]:
        r"""$q(z_n = k)$."""
        return softmax(self.log_joint(rows))

    def e_step(self, rows: Float[Array, "n d"], weights: Float[Array, " n"]) -> tuple[Statistics, Scalar]:
        """Statistics weighted by responsibilities, and the part of the ELBO that adds over rows."""
        joint = self.log_joint(rows)
        return self._statistics(rows, weights[:, None] * softmax(joint)), weights @ logsumexp(joint, axis=1)

    def m_step(self, stats: Statistics) -> "BayesianMixture":
        """The posterior of weights and components given the statistics."""
        count, first, second = stats
        prior = self.prior_component
        kappa = prior.mean_scale + count
        away = first / kappa[:, None]
        outer = kappa[:, None, None] * away[:, :, None] * away[:, None, :]
        scale = jax.vmap(symmetrise)(prior.scale[None] + second - outer)
        components = NormalInverseWishart(prior.loc[None] + away, kappa, prior.degrees + count, scale)
        weights = Dirichlet(self.prior_weights.concentration + count)
        return BayesianMixture(self.prior_weights, prior, weights, components)

    def log_prior(self) -> Scalar:
        r"""Minus the divergences of the posteriors of weights and components from their priors."""
        components = jax.vmap(lambda c: kl(c, self.prior_component))(self.components)
        return -kl(self.weights, self.prior_weights) - components.sum()

    def predictive(self) -> Mixture:
        """The density of a new row, with weights, means and covariances integrated out: a mixture of t's."""
        c = self.components
        degrees = c.degrees - self.dim + 1
        scale = c.scale * ((1 + 1 / c.mean_scale) / degrees)[:, None, None]
        return Mixture(self.weights.mean, MultivariateStudentT(degrees, c.loc, scale))

    def _statistics(self, rows: Array, shares: Array) -> Statistics:
        """Sums about the prior mean, so that rows far from zero lose no digits."""
        away = rows - self.prior_component.loc[None]
        second = jnp.einsum("nk,ni,nj->kij", shares, away, away)
        return shares.sum(0), shares.T @ away, second


@takes_key
def bayesian_mixture(
    rows: ArrayLike,
    num_components: int,
    *,
    key: Key,
    concentration: float = 1e-3,
    prior_component: NormalInverseWishart | None = None,
    num_restarts: int = 4,
    tol: float = 1e-8,
    max_steps: int = 1000,
) -> Run:
    """Fit from several starts, keep the highest ELBO, and `prune` it: `run.state` is a `BayesianMixture`,
    `run.trace` the ELBO of each sweep. By default the prior of a component is centred on the rows, with their
    spread."""
    xs = as_float("rows", rows)
    check(xs.ndim == 2, "rows", "a matrix, one row per point", f"shape {xs.shape}")
    check_finite("rows", xs)
    k = check_count("num_components", num_components, 2)
    check(concentration > 0, "concentration", "positive", concentration)
    prior = default_prior(xs, k) if prior_component is None else prior_component
    weights = Dirichlet(jnp.full(k, concentration))
    keys = jr.split(key, check_count("num_restarts", num_restarts))
    starts = [BayesianMixture.start(keys[i], xs, weights, prior) for i in range(num_restarts)]
    return prune(best_of(starts, xs, EM(tol, max_steps)), xs, EM(tol, max_steps))


def prune(found: Run, rows: ArrayLike, algorithm: EM) -> Run:
    """Empty components one at a time, the smallest first, as long as that raises the ELBO after a new climb:
    two components that share one cluster are a local optimum which no sweep leaves."""
    counts = np.asarray(found.state.expected_counts)
    for k in np.argsort(counts):
        if counts[k] < 1:
            continue
        shorter = algorithm.fit(_without(found.state, jnp.asarray(k)), rows)
        if shorter.status.ok and shorter.values[-1] > found.values[-1]:
            return prune(shorter, rows, algorithm)
    return found


def _expected_log_density(c: NormalInverseWishart, rows: Array) -> Array:
    d, factor = rows.shape[1], psd_factor(c.scale)
    distance = (factor.half_solve((rows - c.loc[None]).T) ** 2).sum(0)
    log_det = factor.log_det() - d * jnp.log(2.0) - multidigamma(c.degrees / 2, d)
    return -0.5 * (d * _LOG_2PI + log_det + d / c.mean_scale + c.degrees * distance)


def default_prior(xs: Array, k: int) -> NormalInverseWishart:
    d = xs.shape[1]
    spread = xs.var(0)
    constant = np.flatnonzero(np.asarray(spread) == 0).tolist()
    check(not constant, "rows", "free of constant columns", f"columns {constant} constant", "Drop them.")
    # clusters are narrower than the whole: k of them share its volume
    return NormalInverseWishart(
        xs.mean(0), jnp.asarray(0.05), jnp.asarray(d + 2.0), jnp.diag(spread) * k ** (-2 / d)
    )


@jax.jit
def _absorb(model: BayesianMixture, rows: Array, shares: Array) -> BayesianMixture:
    return model.m_step(model._statistics(rows, shares))


@jax.jit
def _without(model: BayesianMixture, k: Array) -> BayesianMixture:
    """The model with component `k` as its prior is, and with no weight but the prior's."""
    gone = jnp.arange(model.weights.concentration.shape[0]) == k

    def forget(posterior: Array, prior: Array) -> Array:
        mask = gone.reshape((-1,) + (1,) * (posterior.ndim - 1))
        return jnp.where(mask, jnp.broadcast_to(prior, posterior.shape), posterior)

    weights = jnp.where(gone, model.prior_weights.concentration, model.weights.concentration)
    components = jax.tree.map(forget, model.components, model.prior_component)
    return BayesianMixture(model.prior_weights, model.prior_component, Dirichlet(weights), components)
