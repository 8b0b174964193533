r"""Gaussian mixtures for the one EM driver: densities, responsibilities, draws, conditionals.

Model.       $z \sim \mathrm{Cat}(w)$, $x \mid z = k \sim N(\mu_k, \Sigma_k)$; $p(x) = \sum_k w_k N(x;
             \mu_k, \Sigma_k)$.
E-step.      $r_{nk} = w_kN(x_n; \mu_k, \Sigma_k)/\sum_j w_jN(x_n; \mu_j, \Sigma_j)$, and sums of $r_{nk}(1,
             x, xx^\top)$ about a fixed centre, which add over rows. Missing entries (NaN) are integrated
             out exactly.
M-step.      $w_k = N_k/N$, $\mu_k = \sum_n r_{nk}x_n/N_k$, $\Sigma_k = \sum_n r_{nk}(x_n - \mu_k)(x_n -
             \mu_k)^\top/N_k$ in the shape asked for (`spreads`), not below a floor.
Singularity. Without a floor or a prior the likelihood has no maximum: a component on one row has density
             $(2\pi\sigma^2)^{-d/2} \to \infty$ there. `guard` tells which components lie on the floor.
Cost.        $O(nkd^2)$ per step in blocks that fit the cache, on all processors.
References.  Dempster, Laird and Rubin (1977); Bishop (2006) section 9.2; Ghahramani and Jordan (1994).
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, check_shape, namespace
from tractable.core.chunks import weighted_rows
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import logsumexp, softmax
from tractable.core.support import real, simplex
from tractable.core.types import ArrayLike, Key, Scalar, Shape, Values
from tractable.core.verdict import Verdict
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_parts import as_indices
from tractable.distributions.mixture import Mixture
from tractable.distributions.soft_gaps import (
    has_gaps,
    moments_of_shares,
    observed_moments,
    observed_scores,
    regress,
)
from tractable.distributions.soft_moments import (
    Quadratics,
    SoftMoments,
    scores,
    soft_moments,
    weigh_moments,
)
from tractable.distributions.spreads import Spread, place_and_spread, spread_of

__all__ = ["GaussianMixture", "MixtureStatistics"]

_LOG_2PI = float(np.log(2 * np.pi))
_FLOOR = 1e-6


class MixtureStatistics(Module):
    r"""Sums over rows: `labels` for the weights, `divisor` for the covariances (both $N_k$ after an E-step)
    and `moments` about the centre. A prior adds a number of its own to each."""

    labels: Any
    divisor: Any
    moments: SoftMoments


class GaussianMixture(Module):
    r"""$p(x) = \sum_k w_k\,N(x; \mu_k, \Sigma_k)$: $w$ = `weights`, $\mu$ = `means` (k, d), $\Sigma$ =
    `covariances`.

    `covariances` are matrices (k, d, d), of which `covariance` keeps the shape asked for ("full", "tied",
    "diagonal", "spherical", "low_rank"), or a `Spread`. No variance of a fit falls below `floor` times that
    of its column; zero lets the likelihood run into its singularities.

    >>> two = GaussianMixture([0.5, 0.5], [[1.0], [4.0]], np.ones((2, 1, 1)))
    >>> two.responsibilities(np.array([[0.0]])).round(6).tolist()
    [[0.999447, 0.000553]]
    """

    on_host: ClassVar[bool] = True

    weights: Any = field(support=simplex)
    means: Any = field(support=real, rank=2)
    spread: Spread
    centre: Any = field(show=False)
    least: Any = field(show=False)

    def __init__(
        self, weights: Any, means: Any, covariances: Any, covariance: str = "full", *, floor: float = _FLOOR,
        rank: int = 1,
    ):  # fmt: skip
        self.weights = as_float("weights", weights)
        self.means = as_float("means", means)
        check(self.means.ndim == 2, "means", "a matrix, one row per component", f"shape {self.means.shape}")
        check(floor >= 0, "floor", "zero or positive", floor)
        k, dim = self.means.shape
        check_shape("weights", self.weights, (k,))
        if not isinstance(covariances, Spread):
            check_shape("covariances", covariances, (k, dim, dim))
            covariances = spread_of(covariance, covariances, np.asarray(self.weights), rank)
        self.spread = covariances
        weights, means = np.asarray(self.weights), np.asarray(self.means)
        centre = weights @ means
        variance = np.diagonal(np.asarray(covariances.dense(k, dim)), axis1=1, axis2=2)
        self.centre = as_float("centre", centre)
        self.least = as_float("least", floor * (weights @ (variance + (means - centre) ** 2)))

    @classmethod
    @takes_key
    def random(
        cls, key: Key, k: int, dim: int, covariance: str = "full", *, rank: int = 1
    ) -> "GaussianMixture":
        """Means drawn from a standard normal, unit covariances: a start for standardised rows."""
        means = jax.random.normal(key, (check_count("k", k), check_count("dim", dim)))
        return cls(np.full(k, 1 / k), means, np.tile(np.eye(dim), (k, 1, 1)), covariance, rank=rank)

    @classmethod
    @takes_key
    def from_rows(
        cls, key: Key, rows: ArrayLike, k: int, covariance: str = "full", *, weights: ArrayLike | None = None,
        floor: float = _FLOOR, rank: int = 1, seeding: str = "kmeans",
    ) -> "GaussianMixture":  # fmt: skip
        """A start from the rows: the clusters of k-means, or of the rows nearest to k-means++ seeds
        ("far"), or to random rows ("random")."""
        from tractable.latent.mixtures.starts import start_from_rows

        return start_from_rows(key, rows, k, covariance, weights, floor, rank, seeding)

    @property
    def num_components(self) -> int:
        return self.means.shape[0]

    @property
    def dim(self) -> int:
        """The length of a row."""
        return self.means.shape[1]

    @property
    def covariances(self) -> Values:
        """The covariance matrices, (k, d, d)."""
        return self.spread.dense(self.num_components, self.dim)

    @property
    def distribution(self) -> Mixture:
        """The same mixture as a `Distribution`, with moments, draws and entropies."""
        return Mixture(self.weights, Gaussian(self.means, jnp.asarray(self.covariances)))

    @property
    def num_parameters(self) -> int:
        """Free numbers: means, covariances, and weights that sum to one."""
        k, dim = self.num_components, self.dim
        return k - 1 + k * dim + self.spread.num_parameters(k, dim)

    @property
    def verdict(self) -> Verdict:
        """Whether the mixture may be used: no component lies on the floor or has lost its rows."""
        from tractable.latent.mixtures.guard import judge

        return judge(self)

    def quadratics(self) -> Quadratics:
        r"""$\log w_k + \log N(x; \mu_k, \Sigma_k)$ as quadratic scores."""
        xp = namespace(self)
        root, log_det = self.spread.roots(self.num_components, self.dim)
        with np.errstate(divide="ignore"):
            offset = xp.log(xp.asarray(self.weights)) - 0.5 * (log_det + self.dim * _LOG_2PI)
        return Quadratics(offset, xp.asarray(self.means), root)

    def log_joint(self, rows: ArrayLike) -> Values:
        r"""$\log w_k + \log N(x_n; \mu_k, \Sigma_k)$, (n, k), of the entries that are not missing."""
        xs = self._rows(rows)
        return observed_scores(self, xs) if has_gaps(xs) else scores(self.quadratics(), xs)

    def log_prob(self, rows: ArrayLike) -> Values:
        r"""$\log p(x)$ of each row."""
        joint = self.log_joint(rows)
        return np.logaddexp.reduce(joint, axis=-1) if namespace(joint) is np else logsumexp(joint, axis=-1)

    def responsibilities(self, rows: ArrayLike) -> Values:
        r"""$p(z = k \mid x_n)$, (n, k); for a row whose entries are all missing, the weights."""
        joint = self.log_joint(rows)
        if namespace(joint) is not np:
            return softmax(joint)
        return np.exp(joint - np.logaddexp.reduce(joint, axis=-1)[:, None])

    def labels(self, rows: ArrayLike) -> Values:
        """The most probable component of each row."""
        return self.log_joint(rows).argmax(-1)

    @takes_key
    def sample(self, key: Key, shape: Shape = ()) -> Any:
        """Draws of rows."""
        return self.distribution.sample(key, shape)

    def marginal(self, indices: Any) -> "GaussianMixture":
        """The mixture of some columns, in the order given."""
        kept = as_indices("indices", indices, self.dim)
        cov = np.asarray(self.covariances)[:, kept[:, None], kept]
        return GaussianMixture(self.weights, np.asarray(self.means)[:, kept], cov, floor=0.0)

    def conditional(self, indices_known: Any, values: ArrayLike) -> "GaussianMixture":
        r"""$p(x_a \mid x_b = v)$, again a mixture: $w_k' \propto w_kN(v; \mu_{k,b}, \Sigma_{k,bb})$, each
        component conditioned by itself.

        >>> two = GaussianMixture([0.5, 0.5], [[0.0, 0.0], [9.0, 9.0]], np.tile(np.eye(2), (2, 1, 1)))
        >>> two.conditional([0], [9.0]).weights.round(6).tolist()
        [0.0, 1.0]
        """
        known = as_indices("indices_known", indices_known, self.dim)
        rest = np.setdiff1d(np.arange(self.dim), known)
        must = f"fewer than all {self.dim} columns"
        check(rest.size > 0, "indices_known", must, known.tolist(), "Nothing is left to infer.")
        given = np.asarray(as_float("values", values))
        check_shape("values", given, known.shape, "One value per known column.")
        check_finite("values", given)
        shares = self.marginal(known).responsibilities(given[None])[0]
        means, cov = regress(np.asarray(self.means), np.asarray(self.covariances), known, rest)
        return GaussianMixture(shares, means(given[None])[:, 0], cov, floor=0.0)

    def e_step(self, rows: Any, weights: Any) -> tuple[MixtureStatistics, Any]:
        """Expected statistics and log-evidence, which add over rows."""
        xp = namespace(self, rows, weights)
        centre = xp.asarray(self.centre) if xp is np else jax.lax.stop_gradient(self.centre)
        rows = self._rows(rows)
        if has_gaps(rows):
            moments, evidence = observed_moments(self, rows, np.asarray(weights))
            return MixtureStatistics(moments.count, moments.count, moments), evidence
        moments, evidence = soft_moments(self.quadratics(), rows, weights, centre)
        return MixtureStatistics(moments.count, moments.count, moments), evidence

    def labelled_stats(self, rows: Any, shares: Any) -> MixtureStatistics:
        """The statistics of rows of which each component owns the given share."""
        if has_gaps(rows):
            moments = moments_of_shares(self, np.asarray(rows), np.asarray(shares))
        else:
            moments = weigh_moments(rows, shares, self.centre, self.spread.needs_full)
        return MixtureStatistics(moments.count, moments.count, moments)

    def m_step(self, stats: MixtureStatistics) -> "GaussianMixture":
        """The mixture of highest expected log-likelihood above the floor; a component that owns no row stays
        where it is, with weight zero."""
        labels = namespace(self, stats).asarray(stats.labels)
        means, spread = place_and_spread(
            stats.moments, stats.divisor, self.centre, self.means, self.spread, self.least
        )
        return self._moved(labels / labels.sum(), means, spread)

    def expected_log_joint(self, stats: MixtureStatistics) -> Scalar:
        r"""$Q = E[\log p(X, Z)]$ from statistics: $\sum_k N_k\log w_k - \frac12[N_k\log|\Sigma_k| +
        \mathrm{tr}\,\Sigma_k^{-1}\sum_n r_{nk}(x_n - \mu_k)(x_n - \mu_k)^\top + N_kd\log 2\pi]$."""
        weights, means, centre = (jnp.asarray(a) for a in (self.weights, self.means, self.centre))
        away = means - jax.lax.stop_gradient(centre)[None]
        root, log_det = self.spread.roots(self.num_components, self.dim)
        moments = stats.moments
        labels = jnp.where(
            stats.labels > 0, stats.labels * jnp.log(jnp.where(weights > 0, weights, 1.0)), 0.0
        )
        if root.ndim == 3:
            cross = moments.first[:, :, None] * away[:, None, :]
            outer = moments.count[:, None, None] * away[:, :, None] * away[:, None, :]
            scatter = moments.second - cross - cross.swapaxes(1, 2) + outer
            distance = ((root @ root.swapaxes(1, 2)) * scatter).sum((1, 2))
        else:
            scatter = moments.second - 2 * moments.first * away + moments.count[:, None] * away**2
            distance = (root**2 * scatter).sum(1)
        divided = stats.divisor * (log_det + self.dim * _LOG_2PI)
        return jnp.asarray(labels.sum() - 0.5 * (divided + distance).sum())

    def log_evidence(self, rows: ArrayLike, weights: ArrayLike | None = None) -> float:
        r"""$\sum_n w_n\log p(x_n)$, in one pass of small memory."""
        return float(self.e_step(*weighted_rows(rows, weights))[1])

    def bic(self, rows: ArrayLike, weights: ArrayLike | None = None) -> float:
        r"""$-2\log p(X) + p\log N$: lower is better."""
        xs, shares = weighted_rows(rows, weights)
        return -2 * self.log_evidence(xs, shares) + self.num_parameters * float(np.log(shares.sum()))

    def aic(self, rows: ArrayLike, weights: ArrayLike | None = None) -> float:
        r"""$-2\log p(X) + 2p$: lower is better."""
        return -2 * self.log_evidence(rows, weights) + 2 * self.num_parameters

    def _moved(self, weights: Any, means: Any, spread: Spread) -> "GaussianMixture":
        """Other parameters, with the same centre and floor."""
        parts = (as_float("weights", weights), as_float("means", means), spread)
        return eqx.tree_at(lambda m: (m.weights, m.means, m.spread), self, parts)

    def _rows(self, rows: Any) -> Any:
        xs = rows if namespace(rows) is not np else np.asarray(rows, float)
        fix = "One column: `rows[:, None]`."
        check(
            xs.ndim == 2 and xs.shape[1] == self.dim, "rows", f"a matrix of {self.dim} columns", xs.shape, fix
        )
        return xs
