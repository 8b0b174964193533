r"""Sparse Bayesian learning: one prior precision per weight, by evidence; useless columns are switched off.

Model.       $y = b + w^\top\phi + \epsilon$, $w_j \sim N(0, 1/\alpha_j)$, noise $1/\beta$; all $\alpha_j$ and
             $\beta$ maximise the evidence (automatic relevance determination, relevance vector machine).
Coordinate.  With the other columns' posterior, $s_j$ and $q_j$ (the sparsity and quality of column
             $j$) give the best precision in closed form: $\alpha_j = s_j^2/(q_j^2 - s_j)$ if $q_j^2
             > s_j$, else infinite.
Noise.       With the ratios $\alpha_j/\beta$ held, $\beta = \nu/Q$; so no step lowers the evidence. Where
             it ends each kept weight has $\alpha_j m_j^2 = \gamma_j = 1 - \alpha_j S_{jj}$.
Cost.        $O(d^3)$ per sweep over the columns, whatever the number of rows.
References.  Tipping (2001); Faul and Tipping (2001); Tipping and Faul (2003).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.chunks import bucket_size
from tractable.core.factors import SiteFactor, normal_log_density
from tractable.core.iterate import Ended, Run, run_until
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Bool, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.variational.cavi import never_falls
from tractable.supervised.bayes_linear.evidence import profile_evidence
from tractable.supervised.bayes_linear.posterior import BayesianLinear, bayesian_linear_from
from tractable.supervised.bayes_linear.spectrum import spectrum_of
from tractable.supervised.bayes_linear.statistics import RegressionStatistics

__all__ = ["RelevanceFit", "relevance_regression"]

_FIRST_NOISE = 0.01  # share of the target's variance
# a column within this share of the span of the others brings nothing but rounding
_REDUNDANT = 1e-12


class RelevanceFit(Ended, Module):
    r"""The columns that are kept, their precisions $\alpha_j$ (infinite for the others) and the posterior.

    `alpha` speaks of columns in units of `scale`; `model` of the columns themselves.
    """

    alpha: Float[Array, " d"]
    noise_precision: Scalar
    model: BayesianLinear
    scale: Float[Array, " d"]
    largest_precision: Scalar
    num_steps: Array
    code: Array

    @property
    def kept(self) -> Bool[np.ndarray, " d"]:
        """Whether each column is relevant."""
        return np.isfinite(np.asarray(self.alpha))

    @property
    def determined(self) -> Float[np.ndarray, " d"]:
        r"""$\gamma_j = 1 - \alpha_j S_{jj}$: how far the data determine each weight; zero if dropped."""
        variance = (np.asarray(self.model.root) ** 2).sum(1) * np.asarray(self.scale) ** 2
        return np.where(self.kept, 1 - np.where(self.kept, np.asarray(self.alpha), 0.0) * variance, 0.0)

    @property
    def freedom(self) -> float:
        r"""$\nu - k(1 + \log(d/k))$: what $k$ columns chosen among $d$ leave of $\nu$ degrees of freedom. To
        choose costs about as much again as to fit; none are left where they interpolate."""
        kept, statistics = max(int(self.kept.sum()), 1), self.model.statistics
        total = float(statistics.degrees(self.model.intercept))
        return total - kept * (1 + np.log(len(self.kept) / kept)) if self.kept.any() else total

    @property
    def log_evidence(self) -> Scalar:
        return self.model.log_evidence

    @property
    def verdict(self) -> Verdict:
        """What was found: a local maximum, of columns that interpolate or not."""
        numbers = {"kept": int(self.kept.sum()), "log_evidence": self.log_evidence}
        how = self.status.sentence
        if self.status.ok and float(self.noise_precision) > 0.5 * float(self.largest_precision):
            how = "The noise is at its lower limit: the kept columns interpolate the rows."
        kept = f"{self.kept.sum()} of {len(self.kept)} columns kept, a local maximum. {how}"
        return Verdict(self.status.ok, kept, numbers)


class _Problem(Module):
    """Rows with the statistics of the data, in standard units, padded with columns of zeros."""

    rows: Float[Array, "k d"]
    targets: Float[Array, " k"]
    degrees: Scalar
    floor: Scalar


class _State(Module):
    """The inverse ratios $\\beta/\\alpha_j$ (zero for a column that is off) and the noise precision."""

    inverse_ratios: Float[Array, " d"]
    beta: Scalar


def relevance_regression(
    statistics: RegressionStatistics,
    *,
    intercept: bool = True,
    standardise: bool = True,
    least_noise: float = 1e-4,
    max_steps: int = 1000,
    tol: float = 1e-12,
    basis: Any = None,
) -> RelevanceFit:
    r"""Climb the evidence over one precision per column and the noise, from the best common precision.

    `least_noise` is a share of the target's standard deviation: the sum of squares that noise of this size
    leaves is always counted. Without it the evidence has no maximum where columns interpolate the rows, and
    which of them stay would be decided by rounding.
    """
    check(least_noise > 0, "least_noise", "positive", least_noise)
    count = statistics.degrees(intercept)
    spectrum = spectrum_of(statistics, intercept=intercept, standardise=standardise)
    alpha, beta = profile_evidence(spectrum)
    dim, scale = statistics.dim, np.asarray(spectrum.scale)
    extra = bucket_size(dim) - dim
    triangle = statistics.triangle(intercept)
    rows = np.pad(triangle[:, :-1] / scale, ((0, extra), (0, extra)))
    size = float(triangle[:, -1] @ triangle[:, -1])
    floor = max(least_noise**2 * size, statistics.noise_floor())
    arrays = rows, np.pad(triangle[:, -1], (0, extra)), count, floor
    # from plenty of noise down: columns beyond the rank of the rows leave while their sums still have digits
    beta = min(beta, count / max(_FIRST_NOISE * size, floor))
    problem = _Problem(*(jnp.asarray(a, jnp.float64) for a in arrays))
    start = _State(jnp.asarray(np.full(dim + extra, beta / alpha)), jnp.asarray(beta))
    run = _climb(problem, start, jnp.asarray(float(tol)), check_count("max_steps", max_steps))
    inverse = np.asarray(run.state.inverse_ratios)[:dim]
    beta = float(run.state.beta)
    with np.errstate(divide="ignore"):
        found = beta / inverse
    model = bayesian_linear_from(statistics, found * scale**2, beta, intercept=intercept, basis=basis)
    numbers = jnp.asarray(found), jnp.asarray(beta), model, jnp.asarray(scale), jnp.asarray(count / floor)
    return RelevanceFit(*numbers, run.num_steps, run.code)


@program
def _climb(problem: _Problem, start: _State, tol: Scalar, max_steps: int) -> Run:
    found = run_until(lambda state: _sweep(problem, state), start, max_steps=max_steps, tol=tol)
    return Run(found.state, found.trace, found.num_steps, never_falls(found.trace, found.code))


def _sweep(problem: _Problem, state: _State) -> tuple[_State, Scalar]:
    """Each column's precision in turn, then the noise; and the evidence."""
    gram, products = problem.rows.T @ problem.rows, problem.rows.T @ problem.targets
    posterior, _ = _posterior(gram, state.inverse_ratios)

    def update(j, carry):
        return _coordinate(problem, gram, products, state.beta, j, carry)

    count = gram.shape[0]
    inverse, _ = jax.lax.fori_loop(0, count, update, (state.inverse_ratios, posterior))
    posterior, half_log_det = _posterior(gram, inverse)
    weights = posterior @ products
    penalty = jnp.where(inverse > 0, weights**2 / jnp.where(inverse > 0, inverse, 1.0), 0.0).sum()
    misfit = ((problem.targets - problem.rows @ weights) ** 2).sum() + penalty + problem.floor
    beta = problem.degrees / misfit
    log_det = 2 * half_log_det - problem.degrees * jnp.log(beta)
    evidence = normal_log_density(problem.degrees, log_det, problem.degrees)
    return _State(inverse, beta), evidence


def _posterior(gram: Array, inverse_ratios: Array) -> tuple[Array, Scalar]:
    r"""$(\Lambda + G)^{-1}$ with $\Lambda_{jj}$ one over the inverse ratios, also where these are zero, and
    half of $\log|I + \Lambda^{-1/2}G\Lambda^{-1/2}|$."""
    factor = SiteFactor.of(gram, inverse_ratios)
    return factor.solve(jnp.eye(len(gram), dtype=gram.dtype)), 0.5 * factor.log_det()


def _coordinate(
    problem: _Problem, gram: Array, products: Array, beta: Scalar, j: Array, carry: tuple[Array, Array]
) -> tuple[Array, Array]:
    """The best precision of column `j` given the others, and the posterior that follows, in $O(d^2)$."""
    inverse, posterior = carry
    column, variance = posterior[:, j], posterior[j, j]
    active = variance > 0
    scaled = jnp.where(active, column / jnp.sqrt(jnp.where(active, variance, 1.0)), 0.0)
    without = (posterior - scaled[:, None] * scaled[None, :]).at[j].set(0.0).at[:, j].set(0.0)
    copy, weights = without @ gram[:, j], without @ products
    # s = G_jj - G_j' P G_j and q = c_j - G_j' P c as products of residuals: what rounding leaves of the
    # difference of nearly equal numbers would decide where columns nearly depend on each other
    ratios = jnp.where(inverse > 0, 1 / jnp.where(inverse > 0, inverse, 1.0), 0.0)
    beside = problem.rows[:, j] - problem.rows @ copy
    sparsity = beside @ beside + (ratios * copy**2).sum()
    quality = beside @ (problem.targets - problem.rows @ weights) + (ratios * copy * weights).sum()
    excess = beta * quality**2 - sparsity
    useful = (excess > 0) & (sparsity > _REDUNDANT * gram[j, j])
    new = jnp.where(useful, excess / jnp.where(useful, sparsity, 1.0) ** 2, 0.0)
    spread = jnp.where(useful, new / (1 + new * sparsity), 0.0)
    direction = (-copy).at[j].set(1.0)
    return inverse.at[j].set(new), without + spread * direction[:, None] * direction[None, :]
