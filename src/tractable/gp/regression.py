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

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_option, has_values, is_concrete
from tractable.core.factors import normal_log_density, positive_definite_factor
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import Rows
from tractable.core.types import Array, Key, Scalar, Shape
from tractable.distributions.gaussian import Factored, Gaussian, learn
from tractable.gp.evidence import EvidenceReport, evidence_terms
from tractable.gp.exact import ExactPosterior
from tractable.gp.iterative import IterativePosterior, iterative_posterior
from tractable.gp.means import Mean, as_mean
from tractable.gp.noise import ConstantNoise, Noise, RowNoise, as_noise
from tractable.gp.points import Observed, Table, log_copies, observe
from tractable.gp.prior import covariance, means, residuals, training_covariance

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

    def prior(self, X: Table) -> Gaussian:
        """The joint distribution of the function at rows, before any data."""
        return Gaussian(*_moments(self, Rows.of(X).X))

    @takes_key
    def sample(self, key: Key, X: Table, shape: Shape = ()) -> Array:
        """Sample paths of the prior at rows, of shape `shape + (n,)`; rows may repeat, or lie so close that
        $K$ is singular."""
        return self.prior(X).sample(key, shape)

    def fit(self, X: Table, y: Any = None, weights: Any = None, **options: Any) -> Any:
        """The process at the hyperparameters of highest evidence: see `gp.hyperparameters`."""
        from tractable.gp.hyperparameters import fit_hyperparameters  # it fits processes, so it imports them

        return fit_hyperparameters(self, X, y, weights, **options)

    @takes_key
    def posterior(
        self, X: Table, y: Any = None, weights: Any = None, *, method: str = "auto", key: Key | None = None
    ) -> ExactPosterior | IterativePosterior:
        """The process after seeing targets `y` at rows `X` (or rows that `gp.points.observe` prepared); a row
        of weight two is the row twice.

        Up to 6000 rows it is exact (`method="exact"`); above, by conjugate gradients (`"iterative"`), whose
        estimate of the evidence needs a `key`. The result says which it is.
        """
        check_option("method", method, ("auto", "exact", "iterative"))
        observed = self._observe(X, y, weights)
        many = method == "auto" and is_concrete(observed.count) and observed.num_rows > MANY
        if many or method == "iterative":
            return iterative_posterior(self, observed, key)
        found = _fitted(self, observed)
        self._check_regular(found.learned.factor.lower, observed)
        return found

    def log_evidence(self, X: Table, y: Any = None, weights: Any = None) -> Scalar:
        r"""$\log p(y \mid X) = -\frac12 r^\top K_y^{-1} r - \frac12\log|K_y| - \frac n2\log 2\pi$."""
        return self.evidence_report(X, y, weights).total

    def evidence_report(self, X: Table, y: Any = None, weights: Any = None) -> EvidenceReport:
        """The log-evidence as fit, complexity and constant."""
        observed = self._observe(X, y, weights)
        report = _report(self, observed)
        self._check_regular(report.complexity, observed)
        return report

    def _observe(self, X: Table, y: Any, weights: Any) -> Observed:
        observed, noise = observe(X, y, weights), self.noise
        if isinstance(noise, RowNoise):
            count = observed.num_rows
            check(len(noise.known) == count, "noise", f"one variance per row ({count})", len(noise.known))
        if isinstance(noise, ConstantNoise) and has_values((noise, observed)) and not isinstance(X, Observed):
            whole = bool(np.isin(np.asarray(observed.weights), (0.0, 1.0)).all())
            fix = "Give a noise variance, or drop the copies."
            silent = float(noise.variance) == 0
            check(whole or not silent, "weights", "zero or one where there is no noise", "other weights", fix)
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
    cov, variances = training_covariance(process, observed)
    fit, complexity = evidence_terms(cov, residuals(process, observed))
    return EvidenceReport(fit, complexity, _constant(observed, variances))


def fitted(process: GaussianProcess, observed: Observed) -> ExactPosterior:
    """The posterior of padded rows, pure; NaN where the covariance is singular to rounding."""
    cov, variances = training_covariance(process, observed)
    factor, residual = positive_definite_factor(cov), residuals(process, observed)
    learned = learn(Factored(jnp.zeros_like(residual), factor), residual)
    fit = normal_log_density(residual @ learned.weights, 0, 0)
    complexity = normal_log_density(0, factor.log_det(), 0)
    report = EvidenceReport(fit, complexity, _constant(observed, variances))
    return ExactPosterior(process, observed, learned, report)


def _constant(observed: Observed, variances: Array) -> Scalar:
    return normal_log_density(0, 0, observed.present.sum()) + log_copies(variances, observed)


@program
def _moments(process: GaussianProcess, X: Array) -> tuple[Array, Array]:
    return means(process, X), covariance(process, X)


_report = program(evidence_of)
_fitted = program(fitted)
