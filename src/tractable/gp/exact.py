r"""The exact posterior of a Gaussian process: one factor, kept for every prediction.

Posterior.   $f_* \mid y \sim N\big(m_* + K_*^\top\alpha,\ K_{**} - K_*^\top K_y^{-1} K_*\big)$ with
             $\alpha = K_y^{-1}(y - m)$ the representer weights and $K_y = K + \mathrm{diag}(\sigma_n^2)$; a
             new target adds its noise. Without noise the posterior passes through the data.
Left out.    $\mu_{-i} = y_i - \alpha_i / [K_y^{-1}]_{ii}$ and $\sigma^2_{-i} = 1/[K_y^{-1}]_{ii}$: all $n$
             predictions without their own row, from the one inverse.
Cost.        $O(n)$ for a mean, $O(n^2)$ for a variance; new rows go through in blocks.
References.  Rasmussen and Williams (2006) sections 2.2 and 5.4.2; Sundararajan and Keerthi (2001).
"""

from typing import Any

import jax.numpy as jnp

from tractable.core.checks import as_float, check, namespace
from tractable.core.chunks import pad_rows
from tractable.core.factors import normal_log_density
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.rows import Rows
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar, Shape
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian, Learned
from tractable.gp.evidence import EvidenceReport, inverse_from
from tractable.gp.latent import LatentPosterior, joint_moments
from tractable.gp.means import BasisMean
from tractable.gp.points import Observed, Table
from tractable.gp.prior import covariance

__all__ = ["ExactPosterior", "LeaveOneOut"]


class LeaveOneOut(Module):
    """The prediction of each row from all others: means, variances of a new target, log-densities."""

    mean: Float[Array, " n"]
    variance: Float[Array, " n"]
    log_density: Float[Array, " n"]

    @property
    def total(self) -> Scalar:
        """The sum of the log predictive densities: a score that needs no second fit."""
        return self.log_density.sum()


class ExactPosterior(LatentPosterior):
    """A Gaussian process after seeing rows; `predict_dist` is of targets, `latent` of the function."""

    process: Any
    observed: Observed
    learned: Learned  # from the padded rows
    report: EvidenceReport

    _shown = ("num_rows", "log_evidence", "process")

    @property
    def num_rows(self) -> int:
        """How many rows were seen."""
        return self.observed.num_rows

    @property
    def log_evidence(self) -> Scalar:
        r"""$\log p(y \mid X)$."""
        return self.report.total

    @property
    def representer_weights(self) -> Array:
        r"""$\alpha$ with $E[f(x)] = m(x) + \sum_i \alpha_i k(x, x_i)$."""
        return self.observed.unpadded(self.learned.weights)

    @property
    def dim(self) -> int:
        return self.observed.X.shape[1]

    def cross(self, X: Float[Array, "m d"]) -> Float[Array, "m n"]:
        """The covariance of the function at rows and the targets; zero for hidden rows."""
        return jnp.where(self.observed.present[None], covariance(self.process, X, self.observed.X), 0.0)

    def predict_dist(self, X: Table, noise: ArrayLike | None = None) -> Normal:
        """A new target at each row; `noise` replaces the variance of the model's noise there."""
        rows = Rows.of(X, num_columns=self.dim)
        mean, variance = self.moments(rows)
        return Normal(mean, jnp.sqrt(variance + self._new_noise(rows.X, noise)))

    def joint(self, X: Table, *, noisy: bool = False) -> Gaussian:
        """The joint distribution of the function (`noisy`: of new targets) at rows."""
        rows = Rows.of(X, num_columns=self.dim).X
        found, n = joint_moments(self, pad_rows(rows)[0]), len(rows)
        xp = namespace(found)
        mean, cov = xp.asarray(found.mean)[:n], xp.asarray(found.cov)[:n, :n]
        return Gaussian(mean, cov + xp.diag(xp.asarray(self.process.noise.at(rows))) if noisy else cov)

    def sample(self, key: Key, X: Table, shape: Shape = (), *, noisy: bool = False) -> Array:
        """Joint draws of the function (`noisy`: of new targets) at rows, of shape `shape + (n,)`."""
        return self.joint(X, noisy=noisy).sample(key, shape)

    def leave_one_out(self) -> LeaveOneOut:
        """The prediction of each row from the others; a row of weight two leaves with both its copies."""
        return self.observed.unpadded(_leave_one_out(self))

    def coefficients(self) -> Gaussian:
        """The posterior of the coefficients of a `BasisMean` with a Gaussian prior."""
        mean = self.process.mean
        known = isinstance(mean, BasisMean) and isinstance(mean.coefficients, Gaussian)
        fix = "Give `mean=BasisMean(basis, Gaussian(b, B))`."
        check(known, "mean", "a basis with a Gaussian prior", type(mean).__name__, fix)
        return _coefficients(self)

    def _new_noise(self, rows: Any, noise: ArrayLike | None) -> Array:
        if noise is None:
            return self.process.noise.at(rows)
        values = as_float("noise", noise)
        must = f"a variance, or one for each of the {len(rows)} rows"
        check(values.shape in ((), rows.shape[:1]), "noise", must, f"shape {values.shape}")
        return jnp.broadcast_to(values, rows.shape[:1])


@program
def _leave_one_out(post: ExactPosterior) -> LeaveOneOut:
    precision = jnp.diag(inverse_from(post.learned.factor.lower))
    mean = post.observed.y - post.learned.weights / precision
    # the noise of all copies of a row leaves with it, and that of one new target comes
    noise = post.process.noise.variances(post.observed.X)
    variance = 1 / precision + noise - noise / post.observed.safe_weights()
    gap = post.observed.y - mean
    density = normal_log_density(gap**2 / variance, jnp.log(variance), 1)
    return LeaveOneOut(mean, variance, density)


@program
def _coefficients(post: ExactPosterior) -> Gaussian:
    prior = post.process.mean.coefficients
    design = jnp.where(post.observed.present[:, None], post.process.mean.design(post.observed.X), 0.0)
    return post.learned.condition(prior, prior.cov @ design.T)
