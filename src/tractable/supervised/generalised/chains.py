r"""Generalised linear models by Markov chains: draws of the exact posterior, under the prior of `model`.

Density.     $\sum_iw_i\log p(y_i \mid \eta_i, \theta) + \log N(\beta \mid 0, P(\alpha)^{-1}) +
             \log p(\log\alpha) + \log p(\theta)$ with the laws of `distributions`; of censored times the
             survival.
Coordinates. Chains move in coordinates in which Laplace's posterior is standard normal *for every precision*
             $\alpha$ of the prior: with the eigenvalues $h_j$ of the curvature of the likelihood at the mode
             (the intercept eliminated), along each eigenvector $\gamma_j = \frac{h_j + \hat\alpha}{h_j +
             \alpha}\hat\gamma_j + u_j/\sqrt{h_j + \alpha}$, whose determinant is counted. Where the rows say
             little this is the prior's own coordinate, where they say much the likelihood's: no funnel.
Nodes.       Draws are nodes of equal weight without covariance: predictions and coefficients are those of
             `model`. About 400 of them are kept, evenly; the run has all.
Evidence.    That of Laplace's method.
Cost.        Some seconds to compile, once for a family and a bucket of rows; then some $10^4$ passes over
             the rows.
References.  Hoffman and Gelman (2014); Papaspiliopoulos, Roberts and Skold (2007).
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check_count, namespace
from tractable.core.chunks import pad_rows
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import sigmoid
from tractable.core.rows import Rows
from tractable.core.types import Array, ArrayLike, Key, Scalar
from tractable.supervised.generalised.engine import Hyper, axes_of
from tractable.supervised.generalised.model import GeneralisedLinear, Prepared, fitted, prepared

__all__ = ["Coordinates", "log_likelihoods", "sample_generalised"]

_KEPT = 400


def law_of(family: str, eta: Array, shape: Array) -> Any:
    """The distribution of each row at its linear predictor, from the package's own."""
    from tractable import distributions as laws  # what Laplace's method does not need

    if family == "poisson":
        return laws.Poisson(jnp.exp(eta))
    number = jnp.broadcast_to(jnp.exp(shape[0]), eta.shape)
    if family == "negative_binomial":
        return laws.NegativeBinomial(1 / number, sigmoid(-eta - shape[0]))
    if family == "gamma":
        return laws.Gamma(number, number * jnp.exp(-eta))
    if family == "beta":
        return laws.Beta(number * sigmoid(eta), number * sigmoid(-eta))
    if family == "weibull":
        return laws.Weibull(1 / number, jnp.exp(eta))
    return laws.LogNormal(eta, number)


def log_likelihoods(family: str, y: Array, eta: Array, shape: Array) -> Array:
    """The log-density of each row's target, or for a time below zero that it is longer; fractions of counts
    have the same formula.

    >>> log_likelihoods("poisson", jnp.array([0.0]), jnp.array([0.0]), jnp.zeros(0)).tolist()
    [-1.0]
    """
    law = law_of(family, eta, shape)
    if family in ("gamma", "beta"):  # a quarter of the program of densities for all shapes
        natural = law.natural
        inner = natural[0] * law.stats(y)[0] + natural[1] * law.stats(y)[1]
        return inner + law.log_base(y) - law.log_normaliser(natural)
    if family not in ("weibull", "log_normal"):
        return law._log_prob(y)  # targets are in the support, or fractions
    time = jnp.abs(y)
    return jnp.where(y > 0, law._log_prob(time), law._log_survival(time))


class Coordinates(Module):
    """Standard coordinates of coefficients and hyperparameters about a mode (the header has the formulas)."""

    mode: Any  # (p,)
    vectors: Any  # of the curvature of the slopes, in columns
    curvatures: Any
    crossed: Any  # how the intercept gives way to slopes
    lead: Any  # one over the root of the intercept's curvature
    peak: Any  # of the hyperparameters
    axes: Any
    alpha: Any  # the prior's precision at the peak
    intercept: bool = field(static=True)
    searched: bool = field(static=True)

    @classmethod
    def about(cls, task: Prepared, model: GeneralisedLinear) -> "Coordinates":
        """Those of the node of largest weight of Laplace's posterior."""
        best, problem = int(np.argmax(model.weights)), task.problem
        alpha, searched = float(model.precisions[best]), problem.alpha is None
        peak = np.r_[[np.log(alpha)] * searched, model.shapes[best]]
        found = problem.solve(peak)[0]
        first = int(problem.rows.intercept)
        curvature = found.hessian - np.diag(np.r_[[0.0] * first, [alpha] * (len(found.beta) - first)])
        block, crossed, lead = curvature[first:, first:], np.zeros(len(found.beta) - first), 1.0
        if first:
            crossed, lead = curvature[0, 1:] / curvature[0, 0], curvature[0, 0] ** -0.5
            block = block - curvature[0, 0] * np.outer(crossed, crossed)
        values, vectors = np.linalg.eigh(block)

        def value(phi: np.ndarray) -> float:
            return problem.evidence(phi) + float(task.hyper.log_prior(phi))

        axes = axes_of(value, peak, task.hyper) if len(peak) else np.zeros((0, 0))
        numbers = (found.beta, vectors, np.maximum(values, 0.0), crossed, lead, peak, axes, alpha)
        parts: Any = (*map(np.asarray, numbers), bool(first), searched)
        return cls(*parts)

    def place(self, u: Any) -> tuple[Any, Any, Any]:
        """Coefficients, hyperparameters and the log-determinant, but for a constant, of points."""
        xp, first, p = namespace(self, u), int(self.intercept), len(self.mode)
        phi = self.peak + u[..., p:] @ self.axes.T
        alpha = xp.exp(phi[..., :1]) if self.searched else self.alpha + 0 * u[..., :1]
        total = self.curvatures + alpha
        middle = self.vectors.T @ self.mode[first:] * (self.curvatures + self.alpha) / total
        slopes = (middle + u[..., first:p] / xp.sqrt(total)) @ self.vectors.T
        determinant = -0.5 * xp.log(total).sum(-1)
        if not first:
            return slopes, phi, determinant
        base = self.mode[:1] - ((slopes - self.mode[1:]) @ self.crossed)[..., None] + self.lead * u[..., :1]
        return xp.concatenate([base, slopes], -1), phi, determinant


class LogJoint(Module):
    """The log-density of a point in `Coordinates`; the rows are its arguments."""

    coordinates: Coordinates
    hyper: Hyper
    intercept_precision: Any
    family: str = field(static=True)

    def __call__(self, u: Array, z: Array, y: Array, offset: Array, w: Array) -> Scalar:
        beta, phi, determinant = self.coordinates.place(u)
        first, searched = int(self.coordinates.intercept), self.coordinates.searched
        alpha = jnp.exp(phi[0]) if searched else jnp.asarray(self.coordinates.alpha)
        each = log_likelihoods(self.family, y, z @ beta + offset, phi[int(searched) :])
        slopes = beta[first:]
        prior = 0.5 * slopes.size * jnp.log(alpha) - 0.5 * alpha * (slopes @ slopes)
        prior -= 0.5 * self.intercept_precision * (beta[:first] @ beta[:first])
        return w @ each + prior + self.hyper.log_prior(phi) + determinant


@takes_key
def sample_generalised(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    key: Key,
    family: str,
    intercept: bool = True,
    prior_precision: float | int | str = "evidence",
    num_draws: int = 1000,
    num_chains: int = 4,
    **options: Any,
) -> tuple[GeneralisedLinear, Any]:
    """The posterior of `fit_generalised`, with the same `options`, as draws of NUTS; and the run.

    The run's draws are of `coefficients` for the columns as they came (intercept first; where columns
    outnumber rows, of the part of them that rows show), of the `shape` numbers, and of `log_precision`.
    """
    from tractable.inference.chains.mcmc import mcmc  # what a Laplace approximation does not need

    check_count("num_draws", num_draws)
    task = prepared(X, y, weights, family, intercept, prior_precision, **options)
    model = fitted(task)
    where = Coordinates.about(task, model)
    rows, problem = task.problem.rows, task.problem
    density = LogJoint(where, task.hyper, np.asarray(problem.family.intercept_spread**-2.0), family)
    (z, targets, offset), w = pad_rows((rows.design(), rows.y, problem.offset), rows.weights)
    start = np.zeros(len(where.mode) + len(where.peak))
    chains: Any = {"num_draws": num_draws, "num_chains": num_chains, "progress": False}
    run = mcmc(density, start, key=key, args=(z, targets, offset, w), **chains)
    return _answer(task, model, where, run)


def _answer(
    task: Prepared, model: GeneralisedLinear, where: Coordinates, run: Any
) -> tuple[GeneralisedLinear, Any]:
    """The draws as nodes, and the run in words of the model."""
    beta, phi, _ = where.place(np.asarray(run.draws))
    zero = np.zeros(beta.shape[-1])
    matrix = np.stack([task.columns.back(unit, None, 1.0)[0] for unit in np.eye(len(zero))], 1)
    coefficients = beta @ matrix.T
    if where.intercept:
        coefficients[..., 0] += task.base
    shapes = phi[..., int(where.searched) :]
    told = {"coefficients": coefficients} | ({"shape": shapes} if shapes.shape[-1] else {})
    told |= {"log_precision": phi[..., 0]} if where.searched else {}
    run = dataclasses.replace(run, draws=told, continuation=None)
    total = beta.shape[0] * beta.shape[1]
    kept = np.unique(np.linspace(0, total - 1, min(_KEPT, total)).round().astype(int))
    flat = [part.swapaxes(0, 1).reshape(total, -1)[kept] for part in (beta, shapes, phi[..., :1])]
    alpha = np.exp(flat[2][:, 0]) if where.searched else np.full(len(kept), float(where.alpha))
    drawn = dataclasses.replace(
        model, weights=np.full(len(kept), 1 / len(kept)), means=flat[0], covs=None, shapes=flat[1],
        precisions=alpha, num_points=1 if model.turn is None else 3, chains=run.verdict,
    )  # fmt: skip
    return drawn, run
