r"""Variational linear regression with a Gamma hyperprior on the prior precision, for known noise.

Model.       $y \sim N(\Phi w, \beta^{-1}I)$ with $\beta$ known, $w \sim N(0, \alpha^{-1}I)$, $\alpha \sim
             \mathrm{Gamma}(a_0, b_0)$ (shape, rate).
Updates.     $q(w) = N(m_N, S_N)$ with $S_N^{-1} = E[\alpha]I + \beta\Phi^\top\Phi$, $m_N =
             \beta S_N\Phi^\top y$; $q(\alpha) = \mathrm{Gamma}(a_0 + \frac M2,\ b_0 +
             \frac12(m_N^\top m_N + \mathrm{tr}\,S_N))$.
ELBO.        $E\log p(y \mid w) + E\log p(w \mid \alpha) + H[q(w)] -
             \mathrm{KL}(q(\alpha)\,\|\,p(\alpha)) \le \log p(y)$, for the comparison of models. Noise of
             unknown precision is in `inference` (`variational_regression`).
Cost.        One decomposition of $O(d^3)$, then $O(d)$ per sweep.
References.  Bishop (2006) section 10.3.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma

from tractable.core.checks import check_count
from tractable.core.iterate import Ended, Run, run_until
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.divergence import kl
from tractable.distributions.positive import Gamma
from tractable.inference.variational.cavi import never_falls
from tractable.supervised.bayes_linear.posterior import BayesianLinear, bayesian_linear_from
from tractable.supervised.bayes_linear.spectrum import EvidenceTerms, spectrum_of
from tractable.supervised.bayes_linear.statistics import RegressionStatistics

__all__ = ["VariationalLinear", "variational_linear"]


class VariationalLinear(Ended, Module):
    r"""The factors $q(w)$, in `model`, and $q(\alpha)$ = `prior_precision`, with the bound `elbo`."""

    model: BayesianLinear
    prior_precision: Gamma
    elbo: Scalar
    num_steps: Array
    code: Array

    @property
    def verdict(self) -> Verdict:
        """What the bound is."""
        sentence = f"The evidence is at least {float(self.elbo):.6g}, a lower bound. {self.status.sentence}"
        return Verdict(self.status.ok, sentence, {"elbo": self.elbo})


def variational_linear(
    statistics: RegressionStatistics,
    noise_precision: float | Scalar,
    prior_precision: Gamma,
    *,
    intercept: bool = False,
    standardise: bool = False,
    max_steps: int = 1000,
    tol: float = 1e-14,
    basis: Any = None,
) -> VariationalLinear:
    r"""The best factorised posterior $q(w)\,q(\alpha)$, by coordinate ascent on its bound.

    >>> from tractable.supervised.bayes_linear.statistics import regression_statistics
    >>> rows = regression_statistics([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 3.0])
    >>> found = variational_linear(rows, 2.0, Gamma(1.0, 1.0))
    >>> round(float(found.prior_precision.mean), 7), round(float(found.elbo), 7)
    (0.9573451, -4.8852519)
    """
    spectrum = spectrum_of(statistics, intercept=intercept, standardise=standardise)
    steps, beta = check_count("max_steps", max_steps), jnp.asarray(float(noise_precision))
    run = _climb(spectrum, prior_precision, beta, jnp.asarray(float(tol)), steps)
    alpha = float(run.state.mean) * np.asarray(spectrum.scale) ** 2
    model = bayesian_linear_from(statistics, alpha, float(beta), intercept=intercept, basis=basis)
    elbo = jnp.asarray(run.values[-1])
    return VariationalLinear(model, run.state, elbo, run.num_steps, run.code)


@program
def _climb(terms: EvidenceTerms, prior: Gamma, beta: Scalar, tol: Scalar, max_steps: int) -> Run:
    dim = terms.squares.shape[0]

    def sweep(q: Gamma) -> tuple[Gamma, Scalar]:
        mean = q.concentration / q.rate
        precision = mean + beta * terms.squares
        second = (terms.rotated_mean(mean, beta) ** 2).sum() + (1 / precision).sum()
        q = Gamma(prior.concentration + 0.5 * dim, prior.rate + 0.5 * second)
        return q, _elbo(terms, prior, q, mean, beta, second)

    found = run_until(
        sweep, Gamma(*(1.0 * p for p in (prior.concentration, prior.rate))), max_steps=max_steps, tol=tol
    )
    return Run(found.state, found.trace, found.num_steps, never_falls(found.trace, found.code))


def _elbo(terms: EvidenceTerms, prior: Gamma, q: Gamma, mean: Scalar, beta: Scalar, second: Scalar) -> Scalar:
    r"""The bound for $q(w)$ made with $E[\alpha]$ = `mean` and the factor `q`; for $w$ the $2\pi$ cancel."""
    precision, dim = mean + beta * terms.squares, terms.squares.shape[0]
    residual = terms.misfit(mean, beta) + (terms.squares / precision).sum()
    likelihood = 0.5 * terms.degrees * (jnp.log(beta) - np.log(2 * np.pi)) - 0.5 * beta * residual
    log_alpha = digamma(q.concentration) - jnp.log(q.rate)
    weights = (
        0.5 * dim * (log_alpha + 1) - 0.5 * jnp.log(precision).sum() - 0.5 * q.concentration / q.rate * second
    )
    return likelihood - 0.5 * terms.log_count + weights - kl(q, prior)
