r"""Gaussian process regression: a prior over functions, its exact posterior and its evidence.

Model.       $f \sim GP(m, k)$, $y_n = f(x_n) + \epsilon_n$, $\epsilon_n \sim N(0, \sigma^2(x_n))$:
             $\mathrm{Cov}[y_i, y_j] = k(x_i, x_j) + \sigma^2\delta_{ij}$.
Bridges.     The mean is kernel ridge regression with penalty $\sigma^2$; a linear kernel is Bayesian linear
             regression; a Matern kernel in one dimension is a Kalman smoother (`gp.state_space`).
Singular.    Rows that repeat and no noise have no density unless their targets agree: an error that names the
             rows, never a number. `jitter` (relative to the variance of the function) is added if asked for,
             and printed.
Cost.        $O(n^3)$ once, $O(n^2)$ memory; above 6000 rows `gp.iterative` takes over and says so.
References.  Rasmussen and Williams (2006) chapter 2.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_option, has_values, is_concrete
from tractable.core.factors import normal_log_density, positive_definite_factor
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Key, Scalar, Shape
from tractable.distributions.gaussian import Factored, Gaussian, learn
from tractable.gp.evidence import EvidenceReport, constant_term, evidence_terms
from tractable.gp.exact import ExactPosterior
from tractable.gp.iterative import IterativePosterior, iterative_posterior
from tractable.gp.means import Mean, as_mean
from tractable.gp.noise import ConstantNoise, Noise, as_noise
from tractable.gp.points import Observed, log_copies, observe
from tractable.gp.prior import joint_prior, means, sample_prior, training_covariance

__all__ = ["MANY", "GaussianProcess", "evidence_of", "fitted"]

MANY = 6000  # rows: above, the matrix of all pairs is no longer held in memory


class GaussianProcess(Module):
    r"""$f \sim GP(m, k)$ seen through Gaussian noise.

    `noise` is a *variance*: one number, one for each row, or a `Noise`. `mean` is None (zero), a number, a
    function of one point, or a `Mean`. `jitter` is relative to the mean variance of the function.

    >>> from tractable.kernels.stationary import RBF
    >>> process = GaussianProcess(RBF(1.0), noise=0.1)
    >>> round(float(process.posterior([0.0], [1.0]).mean([1.0])[0]), 7)
    0.5513915
    """

    kernel: Any
    noise: Noise
    mean: Mean
    jitter: float = field(static=True)

    def __init__(self, kernel: Any, noise: Any = 0.0, mean: Any = None, *, jitter: float | int = 0.0):
        check(hasattr(kernel, "gram"), "kernel", "a Kernel", type(kernel).__name__, error=TypeError)
        check(jitter >= 0, "jitter", "zero or positive", jitter)
        self.kernel, self.noise, self.mean = kernel, as_noise(noise), as_mean(mean)
        self.jitter = float(jitter)

    def prior(self, X: ArrayLike) -> Gaussian:
        """The joint distribution of the function at rows, before any data."""
        return joint_prior(self.kernel, self.mean, X)

    def sample(self, key: Key, X: ArrayLike, shape: Shape = ()) -> Array:
        """Sample paths of the prior at rows, of shape `shape + (n,)`."""
        return sample_prior(self.kernel, self.mean, key, X, shape)

    def fit(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, **options: Any) -> Any:
        """The process at the hyperparameters of highest evidence: see `gp.hyperparameters`."""
        from tractable.gp.hyperparameters import fit_hyperparameters  # it fits processes, so it imports them

        return fit_hyperparameters(self, X, y, weights, **options)

    def posterior(
        self,
        X: ArrayLike,
        y: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        method: str = "auto",
        key: Key | None = None,
    ) -> ExactPosterior | IterativePosterior:
        """The process after seeing targets `y` at rows `X`; a row of weight two is the row twice.

        Up to 6000 rows it is exact (`method="exact"`); above, by conjugate gradients (`"iterative"`), whose
        estimate of the evidence needs a `key`. The result says which it is.
        """
        return self.posterior_of(self._observe(X, y, weights), method=method, key=key)

    def posterior_of(
        self, observed: Observed, *, method: str = "auto", key: Key | None = None
    ) -> ExactPosterior | IterativePosterior:
        """The posterior of rows that `gp.points.observe` prepared (and may have merged)."""
        check_option("method", method, ("auto", "exact", "iterative"))
        many = method == "auto" and is_concrete(observed.count) and observed.num_rows > MANY
        if many or method == "iterative":
            return iterative_posterior(self, observed, key)
        found = _fitted(self, observed)
        self._check_regular(found.learned.factor.lower, observed)
        return found

    def log_evidence(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Scalar:
        r"""$\log p(y \mid X) = -\frac12 r^\top K_y^{-1} r - \frac12\log|K_y| - \frac n2\log 2\pi$."""
        return self.evidence_report(X, y, weights).total

    def evidence_report(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> EvidenceReport:
        """The log-evidence as fit, complexity and constant."""
        observed = self._observe(X, y, weights)
        report = _report(self, observed)
        self._check_regular(report.complexity, observed)
        return report

    def _observe(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None) -> Observed:
        observed = observe(X, y, weights)
        count = getattr(self.noise, "known", None)
        if count is not None:
            rows = observed.num_rows
            check(len(count) == rows, "noise", f"one variance per row ({rows})", len(count))
        noise: Any = self.noise
        silent = isinstance(noise, ConstantNoise) and is_concrete(noise.variance)
        if silent and float(noise.variance) == 0 and weights is not None and is_concrete(weights):
            fix = "Give a noise variance, or drop the copies."
            whole = bool(np.isin(np.asarray(weights), (0.0, 1.0)).all())
            check(whole, "weights", "zero or one where there is no noise", "other weights", fix)
        return observed

    def _check_regular(self, values: Array, observed: Observed) -> None:
        """Refuse a covariance that is singular to rounding, naming the rows that repeat."""
        if not has_values((values, observed)) or np.isfinite(np.asarray(values)).all():
            return
        rows = np.asarray(observed.X)[np.asarray(observed.present)]
        _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        again = np.flatnonzero(first[place.reshape(-1)] != np.arange(len(rows)))
        got = "a covariance that is singular to rounding"
        if again.size:
            got += f": row {again[0]} repeats row {first[place.reshape(-1)[again[0]]]}"
        fix = "Raise `noise`, pass `jitter=1e-10`, or drop rows that repeat or nearly do."
        check(False, "X", "rows with a positive definite covariance", got, fix)


def evidence_of(process: GaussianProcess, observed: Observed) -> EvidenceReport:
    """The evidence of padded rows, pure: for optimisers and samplers; NaN where the covariance is
    singular.
    """
    cov, variances = training_covariance(
        process.kernel, process.mean, process.noise, observed, process.jitter
    )
    residual = jnp.where(observed.present, observed.y - means(process.mean, observed.X), 0.0)
    fit, complexity = evidence_terms(cov, residual)
    return EvidenceReport(fit, complexity, constant_term(observed.present) + log_copies(variances, observed))


@eqx.filter_jit
def _report(process: GaussianProcess, observed: Observed) -> EvidenceReport:
    return evidence_of(process, observed)


def fitted(process: GaussianProcess, observed: Observed) -> ExactPosterior:
    """The posterior of padded rows, pure; NaN where the covariance is singular to rounding."""
    cov, variances = training_covariance(
        process.kernel, process.mean, process.noise, observed, process.jitter
    )
    residual = jnp.where(observed.present, observed.y - means(process.mean, observed.X), 0.0)
    factor = positive_definite_factor(cov)
    learned = learn(Factored(jnp.zeros_like(residual), factor), residual)
    terms = residual @ learned.weights, factor.log_det()
    fit, complexity = normal_log_density(terms[0], 0, 0), normal_log_density(0, terms[1], 0)
    constant = constant_term(observed.present) + log_copies(variances, observed)
    return ExactPosterior(process, observed, learned, variances, EvidenceReport(fit, complexity, constant))


_fitted = eqx.filter_jit(fitted)
