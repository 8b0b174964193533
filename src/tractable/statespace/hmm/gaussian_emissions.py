r"""Gaussian emissions of all shapes of covariance, mixtures of Gaussians, and Student t emissions.

Gaussian.    $x_t \mid z_t = k \sim N(\mu_k, \Sigma_k)$ with $\Sigma_k$ full, tied, diagonal, spherical or
             low-rank (`distributions.spreads`), never below a floor. Entries that are missing (NaN) are
             integrated out exactly (`distributions.soft_gaps`).
Mixtures.    $\sum_m w_{km}N(\mu_{km}, \Sigma_{km})$: the shares of a state are divided among its components.
Student.     $t_\nu(\mu_k, \Sigma_k)$ by weights $u = (\nu + d)/(\nu + \delta)$ of rows at squared distance
             $\delta$; the degrees of freedom stay as given.
Cost.        $O(nKd^2)$; $O(nKd)$ for diagonals.
References.  Rabiner (1989); Peel and McLachlan (2000); Ghahramani and Jordan (1994).
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_shape, namespace
from tractable.core.module import Module, field
from tractable.core.numerics import logsumexp
from tractable.core.support import positive, real, simplex
from tractable.core.types import Values
from tractable.distributions.soft_gaps import has_gaps, moments_of_shares, observed_scores
from tractable.distributions.soft_moments import Quadratics, SoftMoments, scores, weigh_moments
from tractable.distributions.spreads import Spread, place_and_spread, spread_of
from tractable.statespace.hmm.emissions import Emissions

__all__ = ["GaussianMixtures", "GaussianSums", "Gaussians", "StudentTs"]

_LOG_2PI = float(np.log(2 * np.pi))


class GaussianSums(Module):
    """`divisor` for the covariances ($N_k$ after an E-step) and `moments` about the centre."""

    divisor: Any
    moments: SoftMoments


class Gaussians(Emissions):
    r"""$N(\mu_k, \Sigma_k)$: `means` (k, d), `covariances` (k, d, d) of which `covariance` keeps the shape
    asked for, or a `Spread`. No variance of a fit falls below `floor` times that of its column.

    >>> Gaussians([[0.0], [3.0]], np.ones((2, 1, 1))).dim
    1
    """

    row_ndim: ClassVar[int] = 1

    means: Any = field(support=real, rank=2)
    spread: Spread
    centre: Any = field(show=False)
    least: Any = field(show=False)

    def __init__(
        self, means: Any, covariances: Any, covariance: str = "full", *, floor: float = 1e-6, rank: int = 1
    ):
        self.means = as_float("means", means)
        check(self.means.ndim == 2, "means", "a matrix, one row per state", f"shape {self.means.shape}")
        check(floor >= 0, "floor", "zero or positive", floor)
        k, dim = self.means.shape
        if not isinstance(covariances, Spread):
            covariances = as_float("covariances", covariances)
            check_shape("covariances", covariances, (k, dim, dim))
            covariances = spread_of(covariance, covariances, np.ones(k), rank)
        self.spread = covariances
        xp = namespace(self.means, covariances)
        means = xp.asarray(self.means)
        self.centre = as_float("centre", means.mean(0))
        variance = xp.diagonal(xp.asarray(covariances.dense(k, dim)), axis1=1, axis2=2)
        self.least = as_float("least", floor * (variance + (means - means.mean(0)[None]) ** 2).mean(0))

    @property
    def num_states(self) -> int:
        return self.means.shape[0]

    @property
    def num_components(self) -> int:
        """The number of Gaussians: what `soft_gaps` asks for."""
        return self.means.shape[0]

    @property
    def dim(self) -> int:
        """The length of a row."""
        return self.means.shape[1]

    @property
    def weights(self) -> np.ndarray:
        """Ones: the scores of rows are densities."""
        return np.ones(self.num_components)

    @property
    def covariances(self) -> Values:
        """The covariance matrices, (k, d, d)."""
        return self.spread.dense(self.num_components, self.dim)

    def log_prob(self, sequences):
        return self.densities(sequences.rows)

    def densities(self, rows: Any) -> Values:
        r"""$\log N(x_n; \mu_k, \Sigma_k)$ of the entries that are not missing, (n, k)."""
        check(rows.shape[1:] == (self.dim,), "sequences", f"rows of {self.dim} columns", rows.shape)
        xp = namespace(self, rows)
        if xp is np and has_gaps(rows):
            return observed_scores(self, np.asarray(rows, float))
        return scores(self._quadratics(), xp.asarray(rows))

    def stats(self, sequences, shares):
        return self.sums(sequences.rows, shares)

    def sums(self, rows: Any, shares: Any) -> GaussianSums:
        """Moments of rows of which each Gaussian owns the given share."""
        rows = np.asarray(rows, float)
        if has_gaps(rows):
            moments = moments_of_shares(self, rows, shares)
        else:
            moments = weigh_moments(rows, shares, np.asarray(self.centre), self.spread.needs_full)
        return GaussianSums(moments.count, moments)

    def from_stats(self, stats):
        means, spread = place_and_spread(
            stats.moments, stats.divisor, self.centre, self.means, self.spread, self.least
        )
        return eqx.tree_at(lambda e: (e.means, e.spread), self, (as_float("means", means), spread))

    def expected_log_prob(self, stats):
        away = jnp.asarray(self.means) - jnp.asarray(self.centre)[None]
        root, log_det = (jnp.asarray(a) for a in self.spread.roots(self.num_states, self.dim))
        count, first, second = (jnp.asarray(a) for a in jax.tree.leaves(stats.moments))
        if root.ndim == 3:
            cross = first[:, :, None] * away[:, None, :]
            outer = count[:, None, None] * away[:, :, None] * away[:, None, :]
            scatter = second - cross - cross.swapaxes(1, 2) + outer
            distance = ((root @ root.swapaxes(1, 2)) * scatter).sum((1, 2))
        else:
            distance = (root**2 * (second - 2 * first * away + count[:, None] * away**2)).sum(1)
        return -0.5 * (jnp.asarray(stats.divisor) * (log_det + self.dim * _LOG_2PI) + distance).sum()

    def draw(self, generator, states, inputs=None):
        lower = np.linalg.cholesky(np.asarray(self.covariances))
        noise = generator.normal(size=(len(states), self.dim))
        return np.asarray(self.means)[states] + np.einsum("nij,nj->ni", lower[states], noise)

    def moments(self):
        return np.asarray(self.means), np.diagonal(np.asarray(self.covariances), axis1=1, axis2=2)

    def _quadratics(self) -> Quadratics:
        root, log_det = self.spread.roots(self.num_components, self.dim)
        xp = namespace(self)
        return Quadratics(-0.5 * (log_det + self.dim * _LOG_2PI), xp.asarray(self.means), root)


class GaussianMixtures(Emissions):
    """A mixture for each state: `shares` (k, m) and `components`, k times m `Gaussians`, state by state."""

    row_ndim: ClassVar[int] = 1

    shares: Any = field(support=simplex, rank=2)
    components: Gaussians

    def __check_init__(self) -> None:
        k, m = self.shares.shape
        got = self.components.num_components
        check(got == k * m, "components", f"{k * m} Gaussians, {m} for each of {k} states", got)

    @property
    def num_states(self) -> int:
        return self.shares.shape[0]

    def log_prob(self, sequences):
        joint = self._joint(sequences)
        return np.logaddexp.reduce(joint, axis=2) if namespace(joint) is np else logsumexp(joint, axis=2)

    def stats(self, sequences, shares):
        joint = self._joint(sequences)
        inside = np.exp(joint - np.logaddexp.reduce(joint, axis=2)[:, :, None])
        owned = (shares[:, :, None] * inside).reshape(len(joint), -1)
        return owned.sum(0), self.components.sums(sequences.rows, owned)

    def from_stats(self, stats):
        labels, sums = np.asarray(stats[0]).reshape(self.shares.shape), stats[1]
        totals = labels.sum(1, keepdims=True)
        shares = np.where(totals > 0, labels / np.where(totals > 0, totals, 1.0), np.asarray(self.shares))
        return GaussianMixtures(shares, self.components.from_stats(sums))

    def expected_log_prob(self, stats):
        labels = jnp.asarray(stats[0]).reshape(self.shares.shape)
        chosen = jnp.where(labels > 0, labels * jnp.log(jnp.where(labels > 0, self.shares, 1.0)), 0.0)
        return chosen.sum() + self.components.expected_log_prob(stats[1])

    def draw(self, generator, states, inputs=None):
        m = self.shares.shape[1]
        ends = np.cumsum(np.asarray(self.shares), 1)
        inside = (generator.random(len(states))[:, None] >= ends[states] / ends[states, -1:]).sum(1)
        return self.components.draw(generator, states * m + inside)

    def moments(self):
        k, m = self.shares.shape
        means, variances = (part.reshape(k, m, -1) for part in self.components.moments())
        shares = np.asarray(self.shares)[:, :, None]
        mean = (shares * means).sum(1)
        return mean, (shares * (variances + (means - mean[:, None]) ** 2)).sum(1)

    def _joint(self, sequences: Any) -> Any:
        k, m = self.shares.shape
        xp = namespace(self, sequences)
        with np.errstate(divide="ignore"):
            return self.components.densities(sequences.rows).reshape(-1, k, m) + xp.log(
                xp.asarray(self.shares)
            )


class StudentTs(Emissions):
    r"""$t_\nu(\mu_k, \Sigma_k)$: places and scale matrices as `gaussians`, and `degrees` (k,) that stay."""

    row_ndim: ClassVar[int] = 1

    gaussians: Gaussians
    degrees: Any = field(support=positive, rank=1)

    def __check_init__(self) -> None:
        check_shape("degrees", self.degrees, (self.gaussians.num_states,))

    @property
    def num_states(self) -> int:
        return self.gaussians.num_states

    def log_prob(self, sequences):
        xp, dim = namespace(self, sequences), self.gaussians.dim
        distance, log_det = self._distances(sequences.rows)
        degrees = xp.asarray(self.degrees)
        constant = _student_constant(xp, degrees, dim) - 0.5 * log_det
        found = constant[None] - 0.5 * (degrees + dim)[None] * xp.log1p(distance / degrees[None])
        return xp.where(xp.isnan(xp.asarray(sequences.rows)).all(1)[:, None], 0.0, found)

    def stats(self, sequences, shares):
        gone = sequences.missing[:, None]
        distance, _ = self._distances(sequences.rows)
        degrees = np.asarray(self.degrees)[None]
        owned = np.where(gone, 0.0, shares)
        weight = owned * np.where(gone, 0.0, (degrees + self.gaussians.dim) / (degrees + distance))
        rows = np.where(gone, 0.0, np.asarray(sequences.rows, float))
        moments = self.gaussians.sums(rows, weight).moments
        return GaussianSums(owned.sum(0), moments)

    def from_stats(self, stats):
        return StudentTs(self.gaussians.from_stats(stats), self.degrees)

    def draw(self, generator, states, inputs=None):
        scale = np.sqrt(
            generator.chisquare(np.asarray(self.degrees)[states]) / np.asarray(self.degrees)[states]
        )
        means = np.asarray(self.gaussians.means)[states]
        return means + (self.gaussians.draw(generator, states) - means) / scale[:, None]

    def moments(self):
        mean, scale = self.gaussians.moments()
        degrees = np.asarray(self.degrees)[:, None]
        wide = np.where(degrees > 2, degrees / np.where(degrees > 2, degrees - 2, 1.0), np.inf)
        return np.where(degrees > 1, mean, np.nan), scale * wide

    def _distances(self, rows: Any) -> tuple[Any, Any]:
        xp = namespace(self, rows)
        if xp is np:
            partly = np.isnan(rows).any(1) & ~np.isnan(rows).all(1)
            fix = "Only Gaussian emissions marginalise some entries of a row."
            check(
                not partly.any(), "sequences", "rows that are whole or missing", f"row {partly.argmax()}", fix
            )
        quadratics = self.gaussians._quadratics()
        plain = Quadratics(xp.zeros(self.num_states), quadratics.mean, quadratics.root)
        log_det = -2 * quadratics.offset - self.gaussians.dim * _LOG_2PI
        return -2 * scores(plain, xp.asarray(rows)), log_det


def _student_constant(xp: Any, degrees: Any, dim: int) -> Any:
    from jax.scipy.special import gammaln as traced
    from scipy.special import gammaln

    lgamma = gammaln if xp is np else traced
    return lgamma(0.5 * (degrees + dim)) - lgamma(0.5 * degrees) - 0.5 * dim * xp.log(degrees * np.pi)
