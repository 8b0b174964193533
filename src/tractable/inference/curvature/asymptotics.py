r"""How fast a posterior becomes the normal distribution around the maximum-likelihood estimate.

Limit.       $p(\theta \mid D_N) \approx N(\hat\theta_N, (N I(\hat\theta_N))^{-1})$ as $N$ grows (Bernstein
             and von Mises), for a smooth model, a prior that is positive there, and a true parameter inside
             its set.
Distance.    Total variation falls as $N^{-1/2}$ and the divergence $\mathrm{KL}(p\,\|\,q)$ as $N^{-1}$, the
             leading term being skewness; a symmetric posterior under a flat prior is one power faster.
Cost.        One Laplace approximation and one grid per size.
References.  van der Vaart (1998) chapter 10; Gelman et al. (2013) chapter 4.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.bounded import Beta
from tractable.distributions.continuous import Normal
from tractable.distributions.divergence import kl
from tractable.distributions.f_divergence import total_variation
from tractable.distributions.gaussian import Gaussian
from tractable.inference.curvature.laplace import laplace
from tractable.inference.grid import grid_posterior

__all__ = ["NormalLimit", "beta_bernoulli_limit", "posterior_limit"]

_WIDTH = 9.0  # deviations on either side of the estimate: the rest of a normal is below 1e-18

Sizes = Sequence[int | float] | np.ndarray


class NormalLimit(Module):
    """The distance between posterior and normal limit at each number of observations."""

    sizes: Float[Array, " n"]
    total_variation: Float[Array, " n"]
    kl: Float[Array, " n"]

    @property
    def rate(self) -> tuple[float, float]:
        r"""The slopes of $\log$ distance against $\log N$: near $-1/2$ for total variation, $-1$ for KL."""
        x = np.log(np.asarray(self.sizes))
        slopes = [np.polyfit(x, np.log(np.asarray(y)), 1)[0] for y in (self.total_variation, self.kl)]
        return float(slopes[0]), float(slopes[1])

    def _columns(self) -> dict[str, Any]:
        parts = {"N": self.sizes, "total variation": self.total_variation, "KL": self.kl}
        return {name: np.asarray(values) for name, values in parts.items()}

    def _note(self) -> str:
        if len(self.sizes) < 2:
            return ""
        return f"distances fall as N^{self.rate[0]:.2f} and N^{self.rate[1]:.2f}"


def beta_bernoulli_limit(
    theta: float, sizes: Sizes, a: float | int = 1.0, b: float | int = 1.0
) -> NormalLimit:
    r"""A coin of probability `theta` after $N$ throws that came out as expected, under a Beta(a, b) prior.

    The posterior $\mathrm{Beta}(a + N\theta, b + N(1 - \theta))$ against $N(\theta, \theta(1 - \theta)/N)$.
    """
    fix = "At the ends the information is infinite and there is no normal limit."
    check(0 < theta < 1, "theta", "strictly between 0 and 1", theta, fix)
    counts = _sizes(sizes)
    distances = []
    for n in counts.tolist():
        posterior = Beta(jnp.asarray(a + n * theta), jnp.asarray(b + n * (1 - theta)))
        limit = Normal(jnp.asarray(theta), jnp.sqrt(jnp.asarray(theta * (1 - theta) / n)))
        distances.append((total_variation(posterior, limit), kl(posterior, limit)))
    variation, divergence = (jnp.stack([pair[i] for pair in distances]) for i in (0, 1))
    return NormalLimit(jnp.asarray(counts), variation, divergence)


def posterior_limit(
    log_likelihood: Callable[..., Any],
    log_prior: Callable[[Any], Any],
    start: ArrayLike,
    sizes: Sizes,
    *,
    low: ArrayLike = -np.inf,
    high: ArrayLike = np.inf,
) -> NormalLimit:
    """The same for any smooth model of one to three real parameters.

    `log_likelihood(parameters, size)` is that of `size` observations, found by `laplace` to have its maximum
    and information; `low` and `high` bound the parameters. The posterior is integrated on a grid.
    """
    start, counts = as_float("start", start), _sizes(sizes)
    check(start.ndim < 2 and start.size <= 3, "start", "a number or at most three", f"shape {start.shape}")

    def log_posterior(theta, n):
        return log_likelihood(theta, n) + log_prior(theta)

    distances = []
    for n in counts.tolist():
        limit = laplace(log_likelihood, start, args=(jnp.asarray(n),), num_eval=0).gaussian
        deviations = jnp.sqrt(jnp.diag(limit.cov)).reshape(start.shape)
        centre = limit.mean.reshape(start.shape)
        ends = jnp.maximum(centre - _WIDTH * deviations, low), jnp.minimum(centre + _WIDTH * deviations, high)
        posterior = grid_posterior(log_posterior, *ends, num_panels=12, args=(jnp.asarray(n),))
        distances.append(_distances(posterior, limit))
    variation, divergence = (jnp.stack([pair[i] for pair in distances]) for i in (0, 1))
    return NormalLimit(jnp.asarray(counts), variation, divergence)


def _distances(posterior: Any, limit: Gaussian) -> tuple[Scalar, Scalar]:
    """Total variation and divergence on the nodes; the limit's mass outside of the box counts as well."""
    gaps = limit.log_prob(posterior.points) - posterior.log_densities
    mass = jnp.exp(posterior.log_masses)
    covered = (mass * jnp.exp(gaps)).sum()
    outside = jnp.maximum(1 - covered, 0.0)
    return 0.5 * ((mass * jnp.abs(jnp.expm1(gaps))).sum() + outside), -(mass * gaps).sum()


def _sizes(sizes: Sizes) -> np.ndarray:
    counts = np.asarray(sizes, float)
    fine = counts.ndim == 1 and counts.size > 0 and bool((counts > 0).all())
    check(fine, "sizes", "a list of positive numbers", np.asarray(sizes).tolist())
    return counts
