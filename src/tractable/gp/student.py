r"""Gaussian processes with Student-t noise: outliers are weighed down instead of bending the function.

Model.       $y_i = f(x_i) + \sigma\,t_\nu$, which is $y_i \mid u_i \sim N(f(x_i), \sigma^2/u_i)$ with
             $u_i \sim \mathrm{Gamma}(\nu/2, \nu/2)$.
Algorithm.   Variational: $q(f)\,q(u)$. Given $\bar u$, $q(f)$ is the exact posterior with noise
             $\sigma^2/\bar u_i$; given $q(f)$, $\bar u_i = (\nu + 1)/(\nu + E[(y_i - f_i)^2]/\sigma^2)$, and
             if it is learnt $\sigma^2 = \frac1n\sum_i \bar u_i E[(y_i - f_i)^2]$. Each step raises the bound
             $\log p(y) \ge \log Z_G + \sum_i\{\frac12(E\log u_i - \log\bar u_i) - KL(q(u_i)\,\|\,p(u_i))\}$.
Weights.     A row of weight $w$ is the row $w$ times. All copies have the same $q(u)$: together their noise
             is $\sigma^2/(w\,\bar u)$, and they count $w$ times in the sums.
Cost.        One factor and one inverse per step: $O(n^3)$, a few dozen steps.
References.  Tipping and Lawrence (2005); Jylanki, Vanhatalo and Vehtari (2011).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from scipy.special import roots_genlaguerre

from tractable.core.checks import check, check_count
from tractable.core.iterate import Run, run_until
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.continuous import Normal
from tractable.distributions.divergence import kl
from tractable.distributions.mixture import Mixture
from tractable.distributions.positive import Gamma
from tractable.gp.ascent import Searched
from tractable.gp.evidence import inverse_from
from tractable.gp.exact import ExactPosterior
from tractable.gp.noise import RowNoise
from tractable.gp.points import Observed, Table, observe
from tractable.gp.regression import GaussianProcess, fitted

__all__ = ["StudentPosterior", "student_posterior"]


class StudentPosterior(Searched, Module):
    """The variational posterior: `weights` near zero mark outliers, `bound` is below the log-evidence."""

    gaussian: ExactPosterior  # with the noise that the weights leave to each row
    degrees: Scalar
    scale: Scalar
    row_weights: Float[Array, " n"]
    run: Run

    _shown = ("num_rows", "num_outliers", "degrees", "scale", "bound")

    @property
    def num_rows(self) -> int:
        """How many rows were seen."""
        return self.gaussian.num_rows

    @property
    def num_outliers(self) -> int:
        """How many rows have a weight below 0.3."""
        return int((np.asarray(self.weights) < 0.3).sum())

    @property
    def bound(self) -> Scalar:
        """The lower bound of the log-evidence."""
        return self.run.state[2]

    @property
    def weights(self) -> Array:
        r"""$\bar u_i$ of each row."""
        return self.gaussian.observed.unpadded(self.row_weights)

    def latent(self, X: Table) -> Normal:
        """The function at each row."""
        return self.gaussian.latent(X)

    def predict_dist(self, X: Table, num_nodes: int = 16) -> Mixture:
        """A new target at each row: the scale mixture by Gauss-Laguerre quadrature over $u$, heavy tails and
        all.
        """
        half = float(self.degrees) / 2
        nodes, masses = roots_genlaguerre(check_count("num_nodes", num_nodes), half - 1)
        latent = self.latent(X)
        spread = latent.variance[None] + self.scale**2 * jnp.asarray(half / nodes)[:, None]
        loc = jnp.broadcast_to(latent.mean[None], spread.shape)
        return Mixture(masses / masses.sum(), Normal(loc, jnp.sqrt(spread)))


def student_posterior(
    process: GaussianProcess,
    X: Table,
    y: Any = None,
    weights: Any = None,
    *,
    degrees: float | int = 4.0,
    scale: float | int | None = None,
    max_steps: int = 200,
    tol: float = 1e-7,
) -> StudentPosterior:
    r"""The posterior of `process` (its own noise is not used) under Student-t noise of `degrees` $\nu$ and
    `scale` $\sigma$, which is learnt if it is not given; a row of weight two is the row twice.
    """
    check(degrees > 0, "degrees", "positive", degrees)
    check(scale is None or scale > 0, "scale", "positive", scale)
    observed = observe(X, y, weights)
    start = _spread(observed) / 2 if scale is None else float(scale)
    start = start if start > 0 else 1.0
    values = jnp.asarray(float(degrees)), jnp.asarray(start)
    run = _search(process, observed, *values, scale is None, max_steps, jnp.asarray(tol))
    precisions, sigma, _ = run.state
    gaussian = _gaussian(process, observed, precisions, sigma)
    return StudentPosterior(gaussian, values[0], sigma, precisions, run)


def _spread(observed: Observed) -> float:
    """The standard deviation of the targets."""
    y, weights = np.asarray(observed.y), np.asarray(observed.weights)
    return float(np.sqrt(np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)))


@program
def _gaussian(process: GaussianProcess, observed: Observed, weights: Array, sigma: Array) -> ExactPosterior:
    """The exact posterior with noise $\\sigma^2/\\bar u_i$."""
    noisy = GaussianProcess(process.kernel, RowNoise(sigma**2 / weights), process.mean, jitter=process.jitter)
    return fitted(noisy, observed)


@program
def _search(
    process: GaussianProcess, observed: Observed, degrees: Array, scale: Array, learnt: bool, max_steps: int,
    tol: Any
) -> Run:  # fmt: skip
    present = observed.present
    shape = (degrees + 1) / 2

    def step(state: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array, Array], Array]:
        weights, sigma, _ = state
        post = _gaussian(process, observed, weights, sigma)
        noise = sigma**2 / weights / observed.safe_weights()  # of the copies of a row together
        bound = post.log_evidence + _scales(weights, degrees, observed.weights)
        left = noise - noise**2 * jnp.diag(
            inverse_from(post.learned.factor.lower)
        )  # the variance of f at each row
        squares = jnp.where(present, (noise * post.learned.weights) ** 2 + left, 0.0)
        after = jnp.where(present, shape / (0.5 * (degrees + squares / sigma**2)), 1.0)
        total = (observed.weights * after * squares).sum() / observed.weights.sum()
        return (after, jnp.sqrt(total) if learnt else sigma, bound), bound

    start = (jnp.ones_like(observed.y), scale, jnp.asarray(-jnp.inf))
    return run_until(step, start, max_steps=max_steps, tol=tol)


def _scales(weights: Array, degrees: Array, counts: Array) -> Scalar:
    r"""$\sum_i w_i\{\frac12(E\log u_i - \log\bar u_i) - KL(q(u_i) \| p(u_i))\}$ for $q(u_i) =
    \mathrm{Gamma}(a, a/\bar u_i)$ and the weights $w$ of the rows, `counts`.

    At the start $\bar u = 1$ is no mean of an update, and $q$ is taken of the same shape.
    """
    a, half = (degrees + 1) / 2, degrees / 2
    prior = Gamma(half, half)
    divergence = jax.vmap(lambda rate: kl(Gamma(a, rate), prior))(a / weights)
    log_mean = digamma(a) - jnp.log(a / weights)
    return jnp.where(counts > 0, counts * (0.5 * (log_mean - jnp.log(weights)) - divergence), 0.0).sum()
