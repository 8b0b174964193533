r"""Prior and noise by the evidence, and the evidence itself, from a Gaussian at a mode.

Updates.     $\alpha_g \leftarrow (\gamma_g + \nu)/(\|u_g\|^2 + \nu)$ with $\gamma_g = k_g - \alpha_g
             \mathrm{tr}\,(A^{-1})_{gg}$; $\beta \leftarrow (N - \gamma)/2L$ with $N = \sum_n c_n$ rows and
             $L$ the sum of the unit loss; where the rows determine more than half of $N$ numbers the step of
             EM, $\beta \leftarrow N/(2L + \gamma/\beta)$, which has the same fixed point and is positive.
             `pseudo_rows` rows of noise `pseudo_noise` are added to $N$ and to the sum of squares: a Gamma
             prior of $\beta$, without which targets that are met exactly have no noise at all.
Evidence.    $\log p(y \mid w_0, \beta) + \frac12\sum_i (\log\alpha_i - \alpha_i u_i^2) - \frac12\log|A|$.
Host.        The dense form is computed in NumPy, by `linearisation.HostRows`: nothing of it is compiled.
Cost.        $O(p^3)$, an eigenvalue decomposition.
References.  MacKay (1992), "A practical Bayesian framework for backpropagation networks".
"""

import dataclasses
from typing import Any

import numpy as np

from tractable.core.checks import namespace, to_device
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Scalar
from tractable.inference.curvature.precision import DensePrecision
from tractable.neural.bayes.linearisation import HostRows, dense_precision
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.statement import BayesianNetwork

__all__ = [
    "Pseudo",
    "dense_gaussian",
    "dense_reestimated",
    "updated_noise",
    "updated_prior",
]


class Pseudo(Module):
    """What is added to the rows where prior and noise are tuned."""

    weights: float = field(default=10.0)
    rows: float = field(default=0.0)
    noise: float = field(default=0.0)


def updated_prior(gamma: Any, squares: Any, pseudo: Pseudo) -> Any:
    r"""The next $\alpha$ of each layer."""
    return (gamma + pseudo.weights) / (squares + pseudo.weights)


def updated_noise(total: Any, gamma: Any, loss: Any, beta: Any, pseudo: Pseudo) -> Any:
    r"""The next $\beta$, from $N$, the sum of all $\gamma_g$, and $L$."""
    count, squares = total + pseudo.rows, 2 * loss + pseudo.rows * pseudo.noise**2
    few = gamma < 0.5 * count
    xp = namespace(total, gamma, loss, beta)
    return xp.where(few, count - gamma, count) / xp.where(few, squares, squares + gamma / beta)


def dense_reestimated(
    rows: HostRows, stated: BayesianNetwork, weights: Float[Array, " p"], pseudo: Pseudo
) -> tuple[BayesianNetwork, float]:
    """The model with new factors and noise, and the largest change of their logarithms."""
    prior, density = stated.prior, stated.likelihood
    assert isinstance(prior, NormalWeights)
    sums = rows.sums(np.asarray(weights), density)
    layer, factor, beta = np.asarray(prior.layer), np.asarray(prior.factor), float(density.precision)
    spread = np.asarray(dense_precision(stated, sums.matrix).on_host().variances())
    squares = np.bincount(layer, np.asarray(weights) ** 2 * np.asarray(prior.base), factor.size)
    gamma = np.bincount(layer, minlength=factor.size) - factor * np.bincount(layer, spread, factor.size)
    change = 0.0
    if prior.tuned:
        new = updated_prior(gamma, squares, pseudo)
        change = float(np.abs(np.log(new / factor)).max())
        prior = dataclasses.replace(prior, factor=to_device(new))
    if density.tuned:
        noise = updated_noise(rows.counts.sum(), gamma.sum(), sums.loss, beta, pseudo)
        change = max(change, float(np.abs(np.log(noise / beta))))
        density = dataclasses.replace(density, log_scale=to_device(np.asarray(-0.5 * np.log(noise))))
    return dataclasses.replace(stated, prior=prior, likelihood=density), change


def dense_gaussian(
    rows: HostRows, stated: BayesianNetwork, weights: Float[Array, " p"]
) -> tuple[DensePrecision, Array, Scalar, Scalar]:
    """The precision, the mode, what is left of the way to it in posterior deviations, and the evidence."""
    prior: Any = stated.prior
    base, alpha = np.asarray(prior.base), np.asarray(prior.factor)[np.asarray(prior.layer)]
    u = np.asarray(weights) * np.sqrt(base)
    sums = rows.sums(np.asarray(weights), stated.likelihood)
    precision = dense_precision(stated, sums.matrix)
    slope = float(stated.likelihood.precision) * sums.slope + alpha * u
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where not positive definite
        host = precision.on_host()
        offset = np.sqrt(slope @ np.asarray(host.solve(slope)))
        height = sums.log_likelihood + 0.5 * (np.log(alpha) - alpha * u**2).sum()
        evidence = height - 0.5 * np.asarray(host.log_det())
    return precision, weights, to_device(np.asarray(offset)), to_device(np.asarray(evidence))
