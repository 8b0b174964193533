r"""Full Bayes for linear regression: the posterior of both precisions, and the mixture that it predicts.

Posterior.   $p(\alpha, \beta \mid y) \propto p(y \mid \alpha, \beta)\,p(\alpha, \beta)$, on a grid
             or by Markov chains.
Grid.        Points of $\log\lambda = \log\alpha/\beta$ where the profile of the posterior is not
             negligible, and for each the $\beta$ around its best value $\nu/Q(\lambda)$: the trapezoidal
             rule converges exponentially.
Predictive.  $\sum_{ij} \pi_{ij}\,N(m_i^\top\phi,\ (1 + h_i(\phi))/\beta_{ij})$: a mixture, wider than
             with any one pair.
Prior.       Half-Cauchy on the standard deviations of weights and noise, $\alpha^{-1/2}$ and
             $\beta^{-1/2}$, with the scale of the target: proper and weak; any log-density of $(\alpha,
             \beta)$ may be given.
Cost.        One decomposition of $O(d^3)$; $O(d)$ per grid point, $O(n d)$ per ratio for a prediction.
References.  Bishop (2006) section 3.5; Gelman (2006) for the half-Cauchy.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammainccinv, gammaincinv

from tractable.core.checks import check_count, namespace
from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.core.support import positive
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.normal_mixture import NormalMixture
from tractable.inference.chains.mcmc import mcmc
from tractable.inference.chains.posterior import ChainPosterior
from tractable.inference.trust.uncertainty import UncertaintySplit
from tractable.supervised.bayes_linear.posterior import LinearPosterior
from tractable.supervised.bayes_linear.spectrum import EvidenceTerms, Spectrum, spectrum_of
from tractable.supervised.bayes_linear.statistics import RegressionStatistics

__all__ = ["FullBayesLinear", "HalfCauchyScales", "full_bayes_linear", "sample_precisions"]

LogPrior = Callable[..., Any]

_LOWEST, _HIGHEST, _POINTS = -75.0, 40.0, 1151
_NEGLIGIBLE = 16.0  # nats below the highest point of the posterior


class FullBayesLinear(LinearPosterior):
    r"""The posterior of $(\alpha, \beta)$ on a grid: `probs[i, j]` for `alphas[i, j]` and `betas[i, j]`."""

    alphas: Float[Array, "i j"]
    betas: Float[Array, "i j"]
    probs: Float[Array, "i j"]
    log_evidence: Scalar
    spectrum: Spectrum = field(show=False)
    statistics: RegressionStatistics = field(show=False)
    basis: Any = None

    @property
    def intercept(self) -> bool:
        return self.spectrum.intercept

    @property
    def mean(self) -> Float[Array, " d"]:
        """The posterior mean of the weights."""
        xp = namespace(self)
        along = xp.asarray(self.probs).sum(1) @ self._rotated()
        return jnp.asarray(xp.asarray(self.spectrum.directions) @ along / xp.asarray(self.spectrum.scale))

    @property
    def cov(self) -> Float[Array, "d d"]:
        r"""The posterior covariance of the weights: $E[S_N] + \mathrm{Cov}[m_N]$."""
        xp = namespace(self)
        probs, means = xp.asarray(self.probs), self._rotated()
        within = (probs / xp.asarray(self.betas)).sum(1) @ (1 / self._totals())
        around = means - (probs.sum(1) @ means)[None]
        cov = xp.diag(within) + (around * probs.sum(1)[:, None]).T @ around
        back = xp.asarray(self.spectrum.directions) / xp.asarray(self.spectrum.scale)[:, None]
        return jnp.asarray(back @ cov @ back.T)

    @property
    def noise_precision(self) -> Scalar:
        r"""$E[\beta \mid y]$."""
        xp = namespace(self)
        return jnp.asarray((xp.asarray(self.probs) * xp.asarray(self.betas)).sum())

    @property
    def effective_parameters(self) -> Scalar:
        r"""$E[\gamma \mid y]$."""
        xp = namespace(self)
        shrinkage = xp.asarray(self.spectrum.squares)[None] / self._totals()
        return jnp.asarray(xp.asarray(self.probs).sum(1) @ shrinkage.sum(1))

    @property
    def verdict(self) -> Verdict:
        """Whether the grid is wide enough: little probability at the ends of its ratios."""
        probs = np.asarray(self.probs)
        edge = float(probs[[0, -1]].sum())
        sentence = (
            f"On a grid of {probs.size} pairs of precisions, with {edge:.1g} of the posterior at its edge."
        )
        return Verdict(edge < 0.01, sentence, {"edge": edge, "log_evidence": self.log_evidence})

    def predict_dist(self, X: ArrayLike | Rows) -> NormalMixture:
        r"""$p(y \mid x) = \int N(m_N^\top\phi, \sigma_N^2)\,p(\alpha, \beta \mid y)$ of each row."""
        xp, (means, leverage) = namespace(self, X), self._conditional(X)
        scale = xp.sqrt((1 + leverage).T[:, :, None] / xp.asarray(self.betas)[None])
        location = xp.broadcast_to(means.T[:, :, None], scale.shape)
        flat = (len(scale), -1)
        return NormalMixture(xp.asarray(self.probs).reshape(-1), location.reshape(flat), scale.reshape(flat))

    def split(self, X: ArrayLike | Rows) -> UncertaintySplit:
        r"""$E[1/\beta]$, and the variance of $f(x)$ over weights and precisions."""
        xp, (means, leverage) = namespace(self, X), self._conditional(X)
        probs = xp.asarray(self.probs)
        noise, ratios = (probs / xp.asarray(self.betas)).sum(1), probs.sum(1)
        within, centre = noise @ leverage, ratios @ means
        between = ratios @ (means - centre[None]) ** 2
        return UncertaintySplit(
            jnp.asarray(xp.full(means.shape[1], noise.sum())), jnp.asarray(within + between)
        )

    def _totals(self) -> Any:
        r"""$\lambda + \sigma_d^2$ for each ratio and direction."""
        xp = namespace(self)
        ratios = xp.asarray(self.alphas)[:, 0] / xp.asarray(self.betas)[:, 0]
        return ratios[:, None] + xp.asarray(self.spectrum.squares)[None, :]

    def _rotated(self) -> Any:
        xp, s = namespace(self), self.spectrum
        return (xp.sqrt(xp.asarray(s.squares)) * xp.asarray(s.projections))[None, :] / self._totals()

    def _conditional(self, X: Any) -> tuple[Any, Any]:
        r"""For each ratio and row, the mean of $f(x)$ and its variance in units of the noise's."""
        xp, s, intercept = namespace(self, X), self.spectrum, self.spectrum.intercept
        centre = xp.asarray(self.statistics.mean) * intercept
        along = (self._design(X) - centre[None, :-1]) / xp.asarray(s.scale)[None] @ xp.asarray(s.directions)
        leverage = (1 / self._totals()) @ (along**2).T
        extra = 1 / xp.asarray(self.statistics.count) if intercept else 0.0
        return centre[-1] + self._rotated() @ along.T, leverage + extra


def full_bayes_linear(
    statistics: RegressionStatistics,
    *,
    log_prior: LogPrior | None = None,
    intercept: bool = True,
    standardise: bool = True,
    num_ratios: int = 32,
    num_noises: int = 17,
    basis: Any = None,
) -> FullBayesLinear:
    r"""The posterior of both precisions on a grid that fits it; `log_prior(alpha, beta)` is a log-density of
    $(\alpha, \beta)$ which works on arrays (half-Cauchy scales if it is not given)."""
    spectrum = spectrum_of(statistics, intercept=intercept, standardise=standardise)
    prior = _default_prior(statistics, intercept) if log_prior is None else log_prior
    log_ratios = _ratio_grid(spectrum, prior, check_count("num_ratios", num_ratios, least=3))
    heights, best = spectrum.profile(log_ratios)
    steps = _noise_steps(float(spectrum.degrees), check_count("num_noises", num_noises, least=3))
    log_betas = np.log(best)[:, None] + steps[None, :]
    log_alphas = log_ratios[:, None] + log_betas
    # log p(y | a, b) is its maximum over b at this ratio + nu/2 (t - e^t + 1) with t = log(b / best b)
    heights = heights[:, None] + 0.5 * float(spectrum.degrees) * (steps - np.expm1(steps))[None, :]
    heights = heights + np.asarray(prior(np.exp(log_alphas), np.exp(log_betas))) + log_alphas + log_betas
    cells = np.log(log_ratios[1] - log_ratios[0]) + np.log(steps[1] - steps[0])
    top = heights.max()
    mass = np.exp(heights - top)
    evidence = top + np.log(mass.sum()) + cells
    arrays = np.exp(log_alphas), np.exp(log_betas), mass / mass.sum(), evidence
    parts: Any = (*(jnp.asarray(a) for a in arrays), spectrum, statistics, basis)
    return FullBayesLinear(*parts)


def sample_precisions(
    statistics: RegressionStatistics,
    key: Key,
    *,
    log_prior: LogPrior | None = None,
    intercept: bool = True,
    standardise: bool = True,
    **options: Any,
) -> ChainPosterior:
    r"""Draws of `{"alpha": ..., "beta": ...}` from their posterior by Markov chains, with their verdict.

    `options` go to `inference.mcmc` (`num_chains`, `num_draws`, `progress`, ...).
    """
    spectrum = spectrum_of(statistics, intercept=intercept, standardise=standardise)
    prior = _default_prior(statistics, intercept) if log_prior is None else log_prior
    terms = EvidenceTerms(*(getattr(spectrum, name) for name in EvidenceTerms.__dataclass_fields__))
    ratios = _ratio_grid(spectrum, prior, 3)
    beta = float(spectrum.profile(ratios)[1][1])
    start = {"alpha": float(np.exp(ratios[1])) * beta, "beta": beta}
    supports = {"alpha": positive, "beta": positive}
    return mcmc(_Target(prior), start, key=key, supports=supports, args=(terms,), **options)


class HalfCauchyScales(Module):
    r"""The log-density of $(\alpha, \beta)$: $\alpha^{-1/2}$, $\beta^{-1/2}$ half-Cauchy of `scale`."""

    scale: Scalar

    def __init__(self, scale: Any):
        self.scale = jnp.asarray(scale, jnp.float64)

    def __call__(self, alpha: Any, beta: Any) -> Any:
        xp = jnp if isinstance(alpha, jax.Array) else np
        scale = self.scale if xp is jnp else float(self.scale)

        def one(precision):
            # p(precision) = p(sd) |d sd / d precision| with sd = precision^(-1/2)
            return xp.log(scale / xp.pi) - 0.5 * xp.log(precision) - xp.log1p(scale**2 * precision)

        return one(alpha) + one(beta)


class _Target(Module):
    prior: Any

    def __call__(self, point: dict, terms: EvidenceTerms) -> Scalar:
        return terms.log_evidence(point["alpha"], point["beta"]) + self.prior(point["alpha"], point["beta"])


def _default_prior(statistics: RegressionStatistics, intercept: bool) -> HalfCauchyScales:
    return HalfCauchyScales(statistics.target_scale(intercept))


def _ratio_grid(spectrum: Spectrum, prior: LogPrior, count: int) -> np.ndarray:
    """Log ratios that cover the profile of the posterior; the middle of three is near its highest point."""
    wide = spectrum.log_ratios(_LOWEST, _HIGHEST, _POINTS)
    heights, beta = spectrum.profile(wide)
    alpha = np.exp(wide) * beta
    heights = heights + np.asarray(prior(alpha, beta)) + np.log(alpha) + np.log(beta)
    if count == 3:
        best = wide[heights.argmax()]
        return np.array([best - 1, best, best + 1])
    near = np.flatnonzero(heights > heights.max() - _NEGLIGIBLE)
    return np.linspace(wide[max(near[0] - 1, 0)], wide[min(near[-1] + 1, _POINTS - 1)], count)


def _noise_steps(degrees: float, count: int) -> np.ndarray:
    r"""Steps in $\log\beta$ about its best value: nearly the law of $\log\mathrm{Gamma}(\nu/2)$."""
    shape = 0.5 * degrees + 0.5
    low, high = gammaincinv(shape, 1e-8), gammainccinv(shape, 1e-8)
    return np.linspace(np.log(low / shape), np.log(high / shape), count)
