r"""Mixtures of Student t distributions: outliers count less, row by row, and do not stretch a component.

Model.       $x \mid z = k \sim t_{\nu_k}(\mu_k, \Sigma_k)$, that is $x \mid u, k \sim N(\mu_k, \Sigma_k/u)$
             with $u \sim \mathrm{Gamma}(\nu_k/2, \nu_k/2)$.
E-step.      With $\delta = (x - \mu_k)^\top\Sigma_k^{-1}(x - \mu_k)$: $E[u] = (\nu_k + d)/(\nu_k +
             \delta)$, $E[\log u] = \log E[u] + \psi(\frac{\nu_k + d}2) - \log\frac{\nu_k + d}2$. Sums of
             $r$, $rE[u](1, x, xx^\top)$ and $r(E[\log u] - E[u])$ add over rows.
M-step.      Means and covariances as in a Gaussian mixture with weights $rE[u]$ (the divisor stays $\sum
             r$); $\nu_k$ solves $\log\frac\nu2 - \psi(\frac\nu2) + 1 + \frac1{N_k}\sum r(E[\log u] - E[u])
             = 0$, or stays fixed.
Cost.        $O(nkd^2)$ per step.
References.  Peel and McLachlan (2000); Liu and Rubin (1995).
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import digamma, gammaln

from tractable.core.checks import check, check_entries, check_shape, namespace
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.support import positive
from tractable.core.types import ArrayLike, Key, Shape, Values
from tractable.core.verdict import Verdict
from tractable.distributions.mixture import Mixture
from tractable.distributions.multivariate import MultivariateStudentT
from tractable.distributions.soft_moments import Quadratics, scores, weigh_moments
from tractable.latent.mixtures.gaussian import GaussianMixture, MixtureStatistics

__all__ = ["StudentMixture", "StudentStatistics"]

_MOST = 1e4  # degrees of freedom: a Gaussian, to what the rows can tell
_BLOCK = 8192  # rows


class StudentStatistics(Module):
    r"""Those of a Gaussian mixture with scaled rows, and $\sum r(E[\log u] - E[u])$ per component."""

    gaussian: MixtureStatistics
    log_scale: Any


class StudentMixture(Module):
    r"""$p(x) = \sum_k w_k\,t_{\nu_k}(x; \mu_k, \Sigma_k)$: a `GaussianMixture` of weights, means and scale
    matrices, and $\nu$ = `degrees` (k,), which are fitted unless `fixed_degrees`.

    >>> model = StudentMixture(GaussianMixture([1.0], [[0.0]], np.ones((1, 1, 1))), [1.0])
    >>> round(float(model.log_prob(np.zeros((1, 1)))[0]), 6)  # Cauchy: -log(pi)
    -1.14473
    """

    on_host: ClassVar[bool] = True

    gaussian: GaussianMixture
    degrees: Any = field(support=positive, rank=1)
    fixed_degrees: bool = field(static=True, default=False)

    def __check_init__(self) -> None:
        check_shape("degrees", self.degrees, (self.gaussian.num_components,))

    @classmethod
    @takes_key
    def from_rows(cls, key: Key, rows: ArrayLike, k: int, covariance: str = "full", *, degrees: float = 10.0,
                  fixed_degrees: bool = False, **options: Any) -> "StudentMixture":  # fmt: skip
        """A start as for a Gaussian mixture, all with the same degrees of freedom."""
        start = GaussianMixture.from_rows(key, rows, k, covariance, **options)
        return cls(start, np.full(k, float(degrees)), fixed_degrees)

    @property
    def weights(self) -> Values:
        return self.gaussian.weights

    @property
    def means(self) -> Values:
        return self.gaussian.means

    @property
    def distribution(self) -> Mixture:
        """The same mixture as a `Distribution`."""
        scale = jnp.asarray(self.gaussian.covariances)
        return Mixture(self.weights, MultivariateStudentT(self.degrees, self.means, scale))

    @property
    def verdict(self) -> Verdict:
        """As of the Gaussian mixture of its means and scale matrices."""
        return self.gaussian.verdict

    def log_joint(self, rows: ArrayLike) -> Values:
        r"""$\log w_k + \log t_{\nu_k}(x_n; \mu_k, \Sigma_k)$, (n, k)."""
        return self._joint(self._rows(rows))[0]

    def log_prob(self, rows: ArrayLike) -> Values:
        r"""$\log p(x)$ of each row."""
        return np.logaddexp.reduce(self.log_joint(rows), axis=-1)

    def responsibilities(self, rows: ArrayLike) -> Values:
        r"""$p(z = k \mid x_n)$, (n, k)."""
        joint = self.log_joint(rows)
        return np.exp(joint - np.logaddexp.reduce(joint, axis=-1)[:, None])

    def labels(self, rows: ArrayLike) -> Values:
        """The most probable component of each row."""
        return self.log_joint(rows).argmax(-1)

    def row_scales(self, rows: ArrayLike) -> Values:
        r"""$E[u \mid x_n]$ averaged over components: far below one for an outlier."""
        joint, expected = self._joint(self._rows(rows))
        shares = np.exp(joint - np.logaddexp.reduce(joint, axis=-1)[:, None])
        return (shares * expected).sum(1)

    @takes_key
    def sample(self, key: Key, shape: Shape = ()) -> Any:
        """Draws of rows."""
        return self.distribution.sample(key, shape)

    def e_step(self, rows: Any, weights: Any) -> tuple[StudentStatistics, Any]:
        """Expected statistics and log-evidence, which add over rows."""
        xs, weights = self._rows(rows), np.asarray(weights)
        parts = [self._block(xs[i : i + _BLOCK], weights[i : i + _BLOCK]) for i in range(0, len(xs), _BLOCK)]
        return jax.tree.map(lambda *leaves: sum(leaves), *parts)

    def m_step(self, stats: StudentStatistics) -> "StudentMixture":
        """The mixture of highest expected log-likelihood above the floor."""
        gaussian = self.gaussian.m_step(stats.gaussian)
        if self.fixed_degrees:
            return StudentMixture(gaussian, self.degrees, True)
        counts = np.asarray(stats.gaussian.labels)
        means = np.asarray(stats.log_scale) / np.where(counts > 0, counts, 1.0)
        return StudentMixture(gaussian, np.where(counts > 0, _degrees(means), np.asarray(self.degrees)))

    def _block(self, xs: np.ndarray, weights: np.ndarray) -> tuple[StudentStatistics, Any]:
        joint, expected = self._joint(xs)
        heights = np.logaddexp.reduce(joint, axis=1)
        shares = weights[:, None] * np.exp(joint - heights[:, None])
        half = (np.asarray(self.degrees) + xs.shape[1]) / 2
        log_scale = np.log(expected) + digamma(half) - np.log(half)
        spread = self.gaussian.spread.needs_full
        moments = weigh_moments(xs, shares * expected, np.asarray(self.gaussian.centre), spread)
        count = shares.sum(0)
        stats = StudentStatistics(
            MixtureStatistics(count, count, moments), (shares * (log_scale - expected)).sum(0)
        )
        return stats, weights @ heights

    def _joint(self, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""The log-joint, and $E[u]$ given each component."""
        parts: Quadratics = self.gaussian.quadratics()
        distance = -2 * scores(parts._replace(offset=np.zeros(len(parts.offset))), xs)
        nu, dim = np.asarray(self.degrees), xs.shape[1]
        half = (nu + dim) / 2
        norm = (
            gammaln(half) - gammaln(nu / 2) - 0.5 * dim * np.log(nu / 2)
        )  # the Gaussian part has (2 pi)^(d/2)
        joint = parts.offset + norm - half * np.log1p(distance / nu)
        return joint, (nu + dim) / (nu + distance)

    def _rows(self, rows: Any) -> np.ndarray:
        check(namespace(rows) is np, "rows", "values: Student mixtures work on the host", "a tracer")
        xs = self.gaussian._rows(rows)
        check_entries("rows", xs, np.isfinite, "finite", "Gaussian mixtures integrate missing entries out.")
        return xs


def _degrees(means: np.ndarray) -> np.ndarray:
    r"""The root of $\log\frac\nu2 - \psi(\frac\nu2) + 1 + m = 0$ for each $m$, by bisection on the log
    scale: the left side falls from infinity to $1 + m$."""
    low, high = np.full(means.shape, np.log(1e-2)), np.full(means.shape, np.log(_MOST))
    for _ in range(60):
        middle = (low + high) / 2
        half = np.exp(middle) / 2
        above = np.log(half) - digamma(half) + 1 + means > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.exp((low + high) / 2)
