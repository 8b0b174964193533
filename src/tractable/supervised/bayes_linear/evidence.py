r"""Type-II maximum likelihood for Bayesian linear regression: prior and noise precision by their evidence.

Objective.   $\max_{\alpha, \beta} \log p(y \mid \alpha, \beta)$ (`spectrum`).
Profile.     For a ratio $\lambda = \alpha/\beta$ the best $\beta$ is $\nu/Q(\lambda)$ with $Q =
             \rho^2 + \sum_i \lambda z_i^2/(\lambda + \sigma_i^2)$; what is left has one variable, is
             looked at everywhere, and its highest point is the global one. Stationary points are
             those of the fixed point.
Fixed point. $\alpha \leftarrow \gamma/(m_N^\top m_N)$, $1/\beta \leftarrow \|y -
             \Phi m_N\|^2/(\nu - \gamma)$.
Gradient.    Any optimiser on $(\log\alpha, \log\beta)$.
Cost.        One decomposition of $O(d^3)$, then $O(d)$ per step, whatever the number of rows.
References.  MacKay (1992); Bishop (2006) section 3.5.2; Gull (1989).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check_count, check_option
from tractable.core.chunks import bucket_size
from tractable.core.iterate import Ended, Run, Status, run_until
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.minimise import minimise
from tractable.supervised.bayes_linear.posterior import BayesianLinear, bayesian_linear_from
from tractable.supervised.bayes_linear.spectrum import EvidenceTerms, Spectrum, spectrum_of
from tractable.supervised.bayes_linear.statistics import RegressionStatistics

__all__ = ["EvidenceFit", "evidence_fixed_point", "maximise_evidence", "profile_evidence"]

# log ratios relative to the largest eigenvalue: from the rounding of targets to where no weight is left
_LOWEST, _HIGHEST, _POINTS = -75.0, 25.0, 401


class EvidenceFit(Ended, Module):
    r"""The precisions of highest evidence, the posterior of the weights under them, and how they were found.

    $\alpha$ = `alpha`, of weights of the columns in units of `spectrum.scale`; $\beta$ = `noise_precision`;
    $\gamma$ = `effective_parameters`, the sum of `shrinkage` over the directions `spectrum.directions`.
    """

    alpha: Scalar
    noise_precision: Scalar
    model: BayesianLinear
    spectrum: Spectrum = field(show=False)
    num_steps: Array
    code: Array

    @property
    def log_evidence(self) -> Scalar:
        """The evidence at the precisions found, which is its maximum if the status says so."""
        return self.model.log_evidence

    @property
    def shrinkage(self) -> Float[Array, " d"]:
        r"""$\lambda_i/(\alpha + \lambda_i)$ of each direction."""
        return self.spectrum.shrinkage(self.alpha, self.noise_precision)

    @property
    def effective_parameters(self) -> Scalar:
        r"""$\gamma$, the number of weights that the data determine."""
        return self.shrinkage.sum()

    @property
    def verdict(self) -> Verdict:
        """What was found."""
        numbers = {"effective_parameters": self.effective_parameters, "log_evidence": self.log_evidence}
        if not self.status.ok:
            return Verdict(False, self.status.sentence, numbers)
        noise = float(self.spectrum.degrees) / float(self.noise_precision)
        sentence = "At a maximum of the evidence."
        if noise < 100 * float(self.model.statistics.noise_floor()):
            sentence = "The noise is at the rounding of the targets: the rows are interpolated."
        elif float(self.effective_parameters) < 0.01:
            sentence = "The evidence is highest without weights: the columns say nothing about the target."
        return Verdict(True, sentence, numbers)


def maximise_evidence(
    statistics: RegressionStatistics,
    *,
    intercept: bool = False,
    standardise: bool = False,
    method: str = "profile",
    start: tuple[float, float] = (1.0, 1.0),
    max_steps: int = 10_000,
    tol: float = 1e-12,
    basis: Any = None,
) -> EvidenceFit:
    r"""The $\alpha$ and $\beta$ of highest evidence: `"profile"` (global), `"fixed-point"` or `"gradient"`.

    The last two climb from `start` = $(\alpha, \beta)$. With `standardise`, $\alpha$ speaks of columns of
    unit standard deviation, so that units do not matter.

    >>> from tractable.supervised.bayes_linear.statistics import regression_statistics
    >>> rows = regression_statistics([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.1, 1.9, 3.2])
    >>> found = maximise_evidence(rows)
    >>> round(float(found.alpha), 7), round(float(found.noise_precision), 7)
    (0.9248952, 24.8655237)
    """
    check_option("method", method, ("profile", "fixed-point", "gradient"))
    spectrum = spectrum_of(statistics, intercept=intercept, standardise=standardise)
    if method == "profile":
        alpha, beta = profile_evidence(spectrum)
        steps, code = 1, int(Status.converged)
    else:
        climb = evidence_fixed_point if method == "fixed-point" else _by_gradient
        run = climb(spectrum, start, max_steps=max_steps, tol=tol)
        (alpha, beta), steps, code = run.state, int(run.num_steps), int(run.code)
    prior = float(alpha) * np.asarray(spectrum.scale) ** 2
    model = bayesian_linear_from(statistics, prior, float(beta), intercept=intercept, basis=basis)
    numbers = (jnp.asarray(float(number)) for number in (alpha, beta))
    parts: Any = (*numbers, model, spectrum, jnp.asarray(steps), jnp.asarray(code))
    return EvidenceFit(*parts)


def profile_evidence(spectrum: Spectrum) -> tuple[float, float]:
    r"""The $\alpha$ and $\beta$ of highest evidence, by a search over the ratio $\alpha/\beta$.

    Where ratios are equally good (one row), the largest: the simplest explanation.
    """
    import scipy.optimize

    grid: Any = spectrum.log_ratios(_LOWEST, _HIGHEST, _POINTS)
    heights, _ = spectrum.profile(grid)
    best = np.flatnonzero(heights >= heights.max() - 1e-10 * (1 + abs(heights.max())))[-1]
    log_ratio = grid[best]
    if 0 < best < _POINTS - 1:
        low, high = grid[best - 1], grid[best + 1]
        host = jax.tree.map(np.asarray, spectrum)
        if _slope(low, host) > 0 > _slope(high, host):
            log_ratio: Any = scipy.optimize.brentq(_slope, low, high, args=(host,), xtol=1e-14)
    beta = float(spectrum.profile(np.array([log_ratio]))[1][0])
    return float(np.exp(log_ratio) * beta), beta


def evidence_fixed_point(
    spectrum: Spectrum,
    start: tuple[float, float] = (1.0, 1.0),
    *,
    max_steps: int = 10_000,
    tol: float = 1e-12,
) -> Run:
    r"""MacKay's updates from `start` = $(\alpha, \beta)$ until both change by less than `tol`, relatively.

    `run.state` is $(\alpha, \beta)$, `run.trace` the log evidence after each step.
    """
    steps = check_count("max_steps", max_steps)
    first = tuple(jnp.asarray(float(number)) for number in start)
    run = _iterate(_padded(spectrum), first, jnp.asarray(float(tol)), steps)
    return Run(run.state[:2], run.trace, run.num_steps, run.code)


@program
def _iterate(terms: EvidenceTerms, start: tuple, tol: Array, max_steps: int) -> Run:
    def step(state):
        alpha, beta, _ = state
        gamma = terms.effective_parameters(alpha, beta)
        alpha_next = gamma / (terms.rotated_mean(alpha, beta) ** 2).sum()
        beta_next = (terms.degrees - gamma) / terms.misfit(alpha, beta)
        change = jnp.abs(alpha_next / alpha - 1) + jnp.abs(beta_next / beta - 1)
        return (alpha_next, beta_next, change), terms.log_evidence(alpha_next, beta_next)

    far = (*start, jnp.asarray(jnp.inf))
    return run_until(step, far, max_steps=max_steps, tol=tol, settled=lambda state, *_: state[2] <= tol)


def _by_gradient(spectrum: Spectrum, start: tuple[float, float], *, max_steps: int, tol: float) -> Run:
    logs = jnp.log(jnp.asarray(start, jnp.float64))
    found = minimise(
        _negative, logs, args=(_padded(spectrum),), max_steps=max_steps, tol=tol, curvature=False
    )
    values = np.exp(np.asarray(found.state))
    # rounding may end the search before so small a tolerance: a flat point is a maximum all the same
    flat = float(found.gradient_norm) <= 1e-6 * (1 + abs(float(found.value)))
    code = int(Status.converged) if flat and found.status is Status.stalled else int(found.code)
    return Run((float(values[0]), float(values[1])), found.trace, found.num_steps, jnp.asarray(code))


def _negative(logs: Array, terms: EvidenceTerms) -> Scalar:
    return -terms.log_evidence(jnp.exp(logs[0]), jnp.exp(logs[1]))


def _padded(spectrum: Spectrum) -> EvidenceTerms:
    """The terms in a shape that repeats: directions without data change nothing."""
    extra = (0, bucket_size(spectrum.dim) - spectrum.dim)
    squares, z = (np.pad(np.asarray(a), extra) for a in (spectrum.squares, spectrum.projections))
    rest = spectrum.residual, spectrum.degrees, spectrum.log_count
    return EvidenceTerms(jnp.asarray(squares), jnp.asarray(z), *rest)


def _slope(log_ratio: float, terms: EvidenceTerms) -> float:
    r"""The derivative of the profile in $\log\lambda$: zero where $\gamma = \alpha\,m_N^\top m_N$."""
    ratio, squares, z = np.exp(log_ratio), terms.squares, terms.projections
    total = ratio + squares
    misfit = terms.residual + (ratio * z**2 / total).sum()
    length = (ratio * squares * z**2 / total**2).sum()
    return float(0.5 * (squares / total).sum() - 0.5 * terms.degrees * length / misfit)
