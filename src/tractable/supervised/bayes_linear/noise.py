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

from tractable.core.checks import check
from tractable.core.iterate import Run
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.continuous import StudentT
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.positive import Gamma
from tractable.distributions.regression_conjugate import RegressionPrior
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.inference.variational.cavi_regression import VariationalRegression, variational_regression
from tractable.supervised.bayes_linear.statistics import RegressionStatistics, features

__all__ = ["UnknownNoiseLinear", "conjugate_linear", "variational_noise_linear"]


class UnknownNoiseLinear(Module):
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
    statistics: RegressionStatistics
    intercept: bool = field(static=True)
    basis: Any = None

    @property
    def mean(self) -> Float[Array, " d"]:
        """The posterior mean of the weights, in the units of the data."""
        return jnp.asarray(self._moments()[0] * float(self.target_scale) / np.asarray(self.scale))

    @property
    def cov(self) -> Float[Array, "d d"]:
        """The posterior covariance of the weights, in the units of the data."""
        units = float(self.target_scale) / np.asarray(self.scale)
        return jnp.asarray(self._moments()[1] * units[:, None] * units[None, :])

    @property
    def offset(self) -> Scalar:
        """The posterior mean of the intercept; zero where there is none."""
        value = float(self.target_centre) - np.asarray(self.centre) @ np.asarray(self.mean)
        return jnp.asarray(value if self.intercept else 0.0)

    @property
    def noise_precision(self) -> Scalar:
        """The posterior mean of the noise precision."""
        tau = self._noise()
        return jnp.asarray(float(tau.concentration) / float(tau.rate) / float(self.target_scale) ** 2)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The predictive mean of each row."""
        return float(self.offset) + features(self.basis, X) @ np.asarray(self.mean)

    def predictive(self, X: ArrayLike) -> StudentT:
        r"""$p(y \mid x)$ of each row, a Student's t."""
        standard = (features(self.basis, X) - np.asarray(self.centre)) / np.asarray(self.scale)
        if self.intercept:
            standard = np.column_stack([np.ones(len(standard)), standard])
        t, unit = self.posterior.predictive(standard), float(self.target_scale)
        location = float(self.target_centre) + unit * np.asarray(t.loc)
        parts: Any = np.asarray(t.degrees), location, unit * np.asarray(t.scale)
        return StudentT(*parts)

    def split(self, X: ArrayLike) -> UncertaintySplit:
        """The predictive variance of each row in its parts: noise, and what more data would settle."""
        t, tau, unit = self.predictive(X), self._noise(), float(self.target_scale)
        share = float(tau.rate) / float(tau.concentration) * unit**2 / np.asarray(t.scale) ** 2
        total = np.asarray(t.variance)
        return UncertaintySplit(jnp.asarray(share * total), jnp.asarray((1 - share) * total))

    def _noise(self) -> Gamma:
        noise: Any = self.posterior.noise_precision
        return noise() if isinstance(self.posterior, RegressionPrior) else noise

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(self.posterior, RegressionPrior):
            tau = self._noise()
            mean, shape = np.asarray(self.posterior.loc), np.linalg.inv(np.asarray(self.posterior.precision))
            a = float(tau.concentration)
            # a Student's t of two degrees or fewer has no covariance
            none = np.where(np.eye(len(mean), dtype=bool), np.inf, np.nan)
            cov = shape * float(tau.rate) / (a - 1) if a > 1 else none
        else:
            w = self.posterior.coefficients
            mean, cov = np.asarray(w.mean), np.asarray(w.cov)
        first = int(self.intercept)
        return mean[first:], cov[first:, first:]

    def __repr__(self) -> str:
        exact = isinstance(self.posterior, RegressionPrior)
        noise, evidence = 1 / np.sqrt(float(self.noise_precision)), float(self.log_evidence)
        verdict = (
            f"log evidence {evidence:.6g}: exact"
            if exact
            else f"log evidence at least {evidence:.6g}: a bound"
        )
        what = f"{self.scale.shape[0]} weights, {float(self.statistics.count):g} rows, noise sd {noise:.4g}"
        return f"UnknownNoiseLinear({what}, {verdict})"


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
    size = float(np.linalg.norm(statistics.triangle(intercept)[:, -1]) / np.sqrt(float(statistics.count)))
    target_scale = size if size > 0 else 1.0
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
