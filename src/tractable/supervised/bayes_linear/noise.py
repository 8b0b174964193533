r"""Bayesian linear regression with unknown noise: conjugate (exact) or variational, in standard units.

Model.       $y = b + w^\top\phi(x) + \epsilon$ with columns and target in units of their standard
             deviations, a flat intercept, and $\tau$ the precision of the noise.
Conjugate.   $w \mid \tau \sim N(0, (\tau r)^{-1}I)$, $\tau \sim \mathrm{Gamma}(a, b)$: the prior weighs
             as much as $r$ rows. Posterior, predictive (Student's t) and evidence are exact.
Variational. $w \sim N(0, \alpha^{-1}I)$, $\alpha, \tau \sim \mathrm{Gamma}(a, b)$: the shrinkage is
             learnt, the evidence is bounded from below.
Cost.        $O(d^3)$ once the rows are summarised: both see $d + 1$ rows with the same statistics.
References.  Bishop (2006) sections 3.3 and 10.3; Gelman et al. (2013) section 14.2.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, namespace
from tractable.core.iterate import Run
from tractable.core.module import field
from tractable.core.rows import Rows
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.continuous import StudentT
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.positive import Gamma
from tractable.distributions.regression_conjugate import RegressionPrior
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.inference.variational.cavi_regression import VariationalRegression, variational_regression
from tractable.supervised.bayes_linear.posterior import LinearPosterior
from tractable.supervised.bayes_linear.statistics import RegressionStatistics

__all__ = ["UnknownNoiseLinear", "conjugate_linear", "variational_noise_linear"]


class UnknownNoiseLinear(LinearPosterior):
    r"""A posterior of weights and noise in standard units: $(\phi - c)/s$ = (row - `centre`) / `scale`.

    `posterior` is a `RegressionPrior` or a `VariationalRegression` of the standardised target; with an
    intercept its first coefficient is that of the constant. `log_evidence` is exact, or a lower bound.
    """

    centre: Float[Array, " d"]
    scale: Float[Array, " d"]
    target_centre: Scalar
    target_scale: Scalar
    posterior: Any
    log_evidence: Scalar
    statistics: RegressionStatistics = field(show=False)
    intercept: bool = field(static=True)
    basis: Any = None

    @property
    def mean(self) -> Float[Array, " d"]:
        """The posterior mean of the weights, in the units of the data."""
        return jnp.asarray(self._moments()[0] * self._units())

    @property
    def cov(self) -> Float[Array, "d d"]:
        """The posterior covariance of the weights, in the units of the data."""
        units = self._units()
        return jnp.asarray(self._moments()[1] * units[:, None] * units[None, :])

    @property
    def noise_precision(self) -> Scalar:
        """The posterior mean of the noise precision."""
        xp, tau = namespace(self), self._noise()
        return jnp.asarray(1 / self._noise_variance(tau) / xp.asarray(self.target_scale) ** 2)

    @property
    def verdict(self) -> Verdict:
        """Whether the evidence is exact or a bound."""
        exact = isinstance(self.posterior, RegressionPrior)
        kind = "The evidence is exact." if exact else "The evidence is a lower bound."
        return Verdict(True, kind, {"log_evidence": self.log_evidence})

    def predict_dist(self, X: ArrayLike | Rows) -> StudentT:
        r"""$p(y \mid x)$ of each row, a Student's t."""
        xp = namespace(self, X)
        standard = (self._design(X) - xp.asarray(self.centre)[None]) / xp.asarray(self.scale)[None]
        if self.intercept:
            standard = xp.column_stack([xp.ones(len(standard)), standard])
        t, unit = self.posterior.predict_dist(standard), xp.asarray(self.target_scale)
        location = xp.asarray(self.target_centre) + unit * xp.asarray(t.loc)
        return StudentT(xp.asarray(t.degrees), location, unit * xp.asarray(t.scale))

    def split(self, X: ArrayLike | Rows) -> UncertaintySplit:
        """The predictive variance of each row in its parts: noise, and what more data would settle."""
        xp, t = namespace(self, X), self.predict_dist(X)
        noise = self._noise_variance(self._noise()) * xp.asarray(self.target_scale) ** 2
        share, total = noise / xp.asarray(t.scale) ** 2, xp.asarray(t.variance)
        return UncertaintySplit(jnp.asarray(share * total), jnp.asarray((1 - share) * total))

    def _units(self) -> Any:
        xp = namespace(self)
        return xp.asarray(self.target_scale) / xp.asarray(self.scale)

    def _noise(self) -> Gamma:
        noise: Any = self.posterior.noise_precision
        return noise() if isinstance(self.posterior, RegressionPrior) else noise

    def _noise_variance(self, tau: Gamma) -> Any:
        xp = namespace(tau)
        return xp.asarray(tau.rate) / xp.asarray(tau.concentration)

    def _moments(self) -> tuple[Any, Any]:
        xp = namespace(self)
        if isinstance(self.posterior, RegressionPrior):
            tau = self._noise()
            mean, a = xp.asarray(self.posterior.loc), xp.asarray(tau.concentration)
            shape = xp.linalg.inv(xp.asarray(self.posterior.precision)) * xp.asarray(tau.rate)
            # a Student's t of two degrees or fewer has no covariance
            none = xp.where(xp.eye(len(mean), dtype=bool), xp.inf, xp.nan)
            cov = xp.where(a > 1, shape / xp.where(a > 1, a - 1, 1.0), none)
        else:
            w = self.posterior.coefficients
            mean, cov = xp.asarray(w.mean), xp.asarray(w.cov)
        first = int(self.intercept)
        return mean[first:], cov[first:, first:]


def conjugate_linear(
    statistics: RegressionStatistics,
    *,
    prior_rows: float = 1.0,
    noise_prior: tuple[float, float] = (0.01, 0.01),
    intercept: bool = True,
    standardise: bool = True,
    basis: Any = None,
) -> UnknownNoiseLinear:
    r"""Exact posterior under $w \mid \tau \sim N(0, (\tau\,r)^{-1}I)$, $\tau \sim \mathrm{Gamma}(a, b)$, in
    standard units: $r$ = `prior_rows`, $(a, b)$ = `noise_prior`."""
    check(prior_rows > 0, "prior_rows", "positive", prior_rows)
    units, (rows, targets, weights) = _standard(statistics, intercept, standardise)
    dim = statistics.dim
    given: Any = np.zeros(dim), prior_rows * np.eye(dim), *noise_prior
    prior = RegressionPrior(*given)
    after = prior.posterior(rows, targets, weights)
    evidence = float(prior.log_evidence(rows, targets, weights))
    if intercept:
        precision = np.zeros((dim + 1, dim + 1))
        precision[0, 0], precision[1:, 1:] = float(statistics.count), np.asarray(after.precision)
        loc = np.concatenate([[0.0], np.asarray(after.loc)])
        joined: Any = loc, precision, after.concentration, after.rate
        after = RegressionPrior(*joined)
    return _wrapped(statistics, units, after, evidence, intercept, basis)


def variational_noise_linear(
    statistics: RegressionStatistics,
    *,
    hyperprior: tuple[float, float] = (0.01, 0.01),
    relevance: bool = False,
    intercept: bool = True,
    standardise: bool = True,
    basis: Any = None,
) -> tuple[UnknownNoiseLinear, Run]:
    r"""Factorised posterior with $\alpha$ and $\tau$ learnt, both $\mathrm{Gamma}(a, b)$ a priori in standard
    units, and the run that found it. With `relevance` each weight has its own $\alpha$."""
    units, (rows, targets, weights) = _standard(statistics, intercept, standardise)
    vague = Gamma(*(jnp.asarray(float(number)) for number in hyperprior))
    run = variational_regression(
        rows, targets, weights, prior_precision=vague, noise_precision=vague, relevance=relevance
    )
    after: VariationalRegression = run.state
    if intercept:
        w, tau = after.coefficients, after.noise_precision
        cov = np.zeros((statistics.dim + 1, statistics.dim + 1))
        cov[0, 0] = float(tau.rate) / float(tau.concentration) / float(statistics.count)
        cov[1:, 1:] = np.asarray(w.cov)
        joined = Gaussian(np.concatenate([[0.0], np.asarray(w.mean)]), cov)
        after = VariationalRegression(joined, after.prior_precision, tau)
    return _wrapped(statistics, units, after, float(run.values[-1]), intercept, basis), run


def _standard(statistics: RegressionStatistics, intercept: bool, standardise: bool) -> tuple[tuple, tuple]:
    """Units of columns and target, and rows in these units that have the statistics of the data."""
    rows, targets, weights = statistics.rows(intercept)
    scale = statistics.scale(intercept) if standardise else np.ones(statistics.dim)
    target_scale = statistics.target_scale(intercept)
    centre = np.asarray(statistics.mean) * intercept
    units = centre[:-1], scale, centre[-1], target_scale
    return units, (rows / scale[None, :], targets / target_scale, weights)


def _wrapped(
    statistics: RegressionStatistics, units: tuple, after: Any, evidence: float, intercept: bool, basis: Any
) -> UnknownNoiseLinear:
    # the density of the target itself, not of the target in standard units
    evidence -= statistics.degrees(intercept) * np.log(units[3])
    evidence -= 0.5 * np.log(float(statistics.count)) if intercept else 0.0
    arrays = (jnp.asarray(unit, jnp.float64) for unit in units)
    parts: Any = (*arrays, after, jnp.asarray(evidence), statistics, bool(intercept), basis)
    return UnknownNoiseLinear(*parts)
