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

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import digamma

from tractable.core.assignment import group_sums, nearest_centres
from tractable.core.checks import as_float, check, check_count, check_finite, check_shape, namespace
from tractable.core.chunks import weighted_rows
from tractable.core.host_random import seeds
from tractable.core.iterate import Run
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.numerics import softmax
from tractable.core.seeding import far_apart, usual_trials
from tractable.core.types import Array, ArrayLike, Float, Key, Values
from tractable.distributions.kl_conjugate import dirichlet_kl, normal_inverse_wishart_kl
from tractable.distributions.mixture import Mixture
from tractable.distributions.multivariate import Dirichlet, MultivariateStudentT
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.distributions.soft_moments import (
    Quadratics,
    SoftMoments,
    precision_roots,
    scores,
    soft_moments,
    weigh_moments,
)
from tractable.inference.expectation_maximisation.em import EM, best_of

__all__ = ["BayesianMixture", "bayesian_mixture", "default_prior", "prune"]

_STEPS = 5  # of k-means: the rest is for the sweeps
_LOG_2PI = float(np.log(2 * np.pi))


class BayesianMixture(Module):
    """The priors, and the variational posterior of weights and components; `fit` or `EM().fit` climbs."""

    on_host: ClassVar[bool] = True

    prior_weights: Dirichlet
    prior_component: NormalInverseWishart
    weights: Dirichlet
    components: NormalInverseWishart

    @staticmethod
    def start(
        key: Key | np.ndarray,
        rows: ArrayLike,
        prior_weights: Dirichlet,
        prior_component: NormalInverseWishart,
        weights: ArrayLike | None = None,
    ) -> "BayesianMixture":
        """The posterior when each row belongs to its cluster after a few steps of k-means, from `k` rows far
        apart, with columns in units of the prior's spread."""
        xs, amount = weighted_rows(rows, weights)
        k = prior_weights.concentration.shape[0]
        check_shape("rows", xs, (None, prior_component.loc.shape[0]))
        check(xs.shape[0] >= k, "rows", f"at least as many as components ({k})", xs.shape[0])
        labels = _clusters(key, xs, amount, k, prior_component)
        return BayesianMixture.labelled(xs, labels, prior_weights, prior_component, amount)

    @staticmethod
    def labelled(
        rows: ArrayLike,
        labels: ArrayLike,
        prior_weights: Dirichlet,
        prior_component: NormalInverseWishart,
        weights: ArrayLike | None = None,
    ) -> "BayesianMixture":
        """The posterior when each row belongs to the component of its label."""
        xs, amount = weighted_rows(rows, weights)
        k = prior_weights.concentration.shape[0]
        shares = np.eye(k)[np.asarray(labels)] * amount[:, None]
        repeated: Any = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], k, 0), prior_component)
        empty = BayesianMixture(prior_weights, prior_component, prior_weights, repeated)
        return empty.m_step(weigh_moments(xs, shares, prior_component.loc))

    @property
    def dim(self) -> int:
        """The length of a row."""
        return self.prior_component.loc.shape[0]

    @property
    def expected_counts(self) -> Float[Values, " k"]:
        """How many rows each component is expected to hold."""
        xp = namespace(self.weights, self.prior_weights)
        return xp.asarray(self.weights.concentration) - xp.asarray(self.prior_weights.concentration)

    def num_active(self, least: float = 1.0) -> int:
        """The number of components expected to hold at least `least` rows."""
        return int((np.asarray(self.expected_counts) >= least).sum())

    def reordered(self, order: ArrayLike) -> "BayesianMixture":
        """The same posterior with its components in another order."""
        place = np.asarray(order)
        moved: Any = jax.tree.map(lambda leaf: np.asarray(leaf)[place], (self.weights, self.components))
        prior = Dirichlet(as_float("concentration", np.asarray(self.prior_weights.concentration)[place]))
        return BayesianMixture(prior, self.prior_component, *moved)

    def quadratics(self) -> Quadratics:
        r"""$E\log\pi_k + E\log N(x; \mu_k, \Sigma_k)$ as quadratic scores of $x$."""
        xp = namespace(self)
        psi = scipy.special.digamma if xp is np else digamma
        a, d = xp.asarray(self.weights.concentration), self.dim
        loc, kappa, degrees, scale = (xp.asarray(leaf) for leaf in jax.tree.leaves(self.components))
        root, log_det = precision_roots(scale)
        halves = degrees[:, None] / 2 - xp.arange(d)[None, :] / 2
        expected = log_det - d * np.log(2.0) - psi(halves).sum(-1)
        offset = psi(a) - psi(a.sum()) - 0.5 * (d * _LOG_2PI + expected + d / kappa)
        return Quadratics(offset, loc, xp.sqrt(degrees)[:, None, None] * root)

    def log_joint(self, rows: Float[Values, "n d"]) -> Float[Values, "n k"]:
        r"""$E\log\pi_k + E\log N(x_n; \mu_k, \Sigma_k)$."""
        return scores(self.quadratics(), rows)

    def responsibilities(self, rows: Float[Values, "n d"]) -> Float[Array, "n k"]:
        r"""$q(z_n = k)$."""
        return softmax(jnp.asarray(self.log_joint(rows)))

    def e_step(self, rows: Float[Values, "n d"], weights: Float[Values, " n"]) -> tuple[SoftMoments, Any]:
        """Statistics weighted by responsibilities, and the part of the ELBO that adds over rows. Sums are
        about the prior mean, so that rows far from zero lose no digits."""
        return soft_moments(self.quadratics(), rows, weights, self.prior_component.loc)

    def m_step(self, stats: SoftMoments) -> "BayesianMixture":
        """The posterior of weights and components given the statistics."""
        xp, prior = namespace(self, stats), self.prior_component
        count, first, second = (xp.asarray(leaf) for leaf in jax.tree.leaves(stats))
        kappa = xp.asarray(prior.mean_scale) + count
        away = first / kappa[:, None]
        outer = kappa[:, None, None] * away[:, :, None] * away[:, None, :]
        scale = xp.asarray(prior.scale)[None] + second - outer
        scale = 0.5 * (scale + scale.swapaxes(1, 2))
        loc, degrees = xp.asarray(prior.loc)[None] + away, xp.asarray(prior.degrees) + count
        components = NormalInverseWishart(loc, kappa, degrees, scale)
        weights = Dirichlet(xp.asarray(self.prior_weights.concentration) + count)
        return BayesianMixture(self.prior_weights, prior, weights, components)

    def log_prior(self) -> Values:
        r"""Minus the divergences of the posteriors of weights and components from their priors."""
        xp, prior, each = namespace(self), self.prior_component, normal_inverse_wishart_kl
        if xp is not np:
            each = jax.vmap(each, (0, None))
        components = each(self.components, prior)
        return xp.asarray(-dirichlet_kl(self.weights, self.prior_weights) - components.sum())

    def predictive(self) -> Mixture:
        """The density of a new row, with weights, means and covariances integrated out: a mixture of t's."""
        c = self.components
        degrees = c.degrees - self.dim + 1
        scale = c.scale * ((1 + 1 / c.mean_scale) / degrees)[:, None, None]
        return Mixture(self.weights.mean, MultivariateStudentT(degrees, c.loc, scale))


@takes_key
def bayesian_mixture(
    rows: ArrayLike,
    num_components: int,
    *,
    key: Key,
    weights: ArrayLike | None = None,
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
    prior = default_prior(xs, k, weights) if prior_component is None else prior_component
    shares = Dirichlet(as_float("concentration", np.full(k, float(concentration))))
    words = seeds(key, check_count("num_restarts", num_restarts)).view(np.uint32).reshape(num_restarts, -1)
    starts = [BayesianMixture.start(each, xs, shares, prior, weights) for each in words]
    algorithm = EM(tol, max_steps)
    return prune(best_of(starts, xs, algorithm, weights=weights), xs, algorithm, weights)


def prune(found: Run, rows: ArrayLike, algorithm: EM, weights: ArrayLike | None = None) -> Run:
    """Empty components one at a time, the smallest first, as long as that raises the ELBO after a new climb:
    two components that share one cluster are a local optimum which no sweep leaves."""
    counts = np.asarray(found.state.expected_counts)
    for k in np.argsort(counts):
        if counts[k] < 1:
            continue
        shorter = algorithm.fit(_without(found.state, int(k)), rows, weights=weights)
        if shorter.status.ok and shorter.values[-1] > found.values[-1]:
            return prune(shorter, rows, algorithm, weights)
    return found


def default_prior(
    xs: ArrayLike, k: int, weights: ArrayLike | None = None, *, constant_spread: float = 0.0
) -> NormalInverseWishart:
    """Centred on the rows, with their spread: clusters are narrower than the whole, and k share its volume.
    A constant column is refused, or has this part of its square (at least of one) as its variance."""
    rows, shares = weighted_rows(xs, weights)
    d = rows.shape[1]
    centre = shares @ rows / shares.sum()
    spread = shares @ (rows - centre) ** 2 / shares.sum()
    spread = np.where(spread == 0, constant_spread * np.maximum(centre**2, 1.0), spread)
    constant = np.flatnonzero(spread == 0).tolist()
    check(not constant, "rows", "free of constant columns", f"columns {constant} constant", "Drop them.")
    parts: Any = centre, np.asarray(0.05), np.asarray(d + 2.0), np.diag(spread) * k ** (-2 / d)
    return NormalInverseWishart(*parts)


def _clusters(
    key: Any, xs: np.ndarray, amount: np.ndarray, k: int, prior: NormalInverseWishart
) -> np.ndarray:
    """Labels after a few steps of k-means: from seeds alone the sweeps often end in a poor optimum, and from
    means that have settled in one that is no better than from these."""
    rows = (np.asarray(xs) - np.asarray(prior.loc)) / np.sqrt(np.diag(np.asarray(prior.scale)))
    chosen = far_apart(key, rows, k, weights=amount, trials=usual_trials(k))
    centres = rows[np.asarray(chosen)]
    labels = nearest_centres(rows, centres).labels
    for _ in range(_STEPS):
        sums, counts = np.split(group_sums(rows, labels, amount, k), [-1], axis=1)
        centres = np.where(counts > 0, sums / np.where(counts > 0, counts, 1.0), centres)
        labels = nearest_centres(rows, centres).labels
    return labels


def _without(model: BayesianMixture, k: int) -> BayesianMixture:
    """The model with component `k` as its prior is, and with no weight but the prior's."""

    def forget(posterior: Any, prior: Any) -> np.ndarray:
        left = np.array(posterior)
        left[k] = prior
        return left

    weights: Any = forget(model.weights.concentration, np.asarray(model.prior_weights.concentration)[k])
    components: Any = jax.tree.map(forget, model.components, model.prior_component)
    return BayesianMixture(model.prior_weights, model.prior_component, Dirichlet(weights), components)
