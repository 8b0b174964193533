r"""The log evidence of Bayesian linear regression as a function of its two precisions, in $O(d)$.

Spectrum.    $\sigma_i^2$, $v_i$: eigenvalues and eigenvectors of $\Phi^\top\Phi$, and $z_i$ the part of
             $y$ along the $i$-th direction; $\rho^2$ what no direction explains. One decomposition serves
             all $\alpha, \beta$: $\lambda_i = \beta\sigma_i^2$.
Evidence.    $\log p(y) = \frac12\sum_i\log\frac{\alpha}{\alpha + \lambda_i} +
             \frac\nu2\log\frac{\beta}{2\pi} - \frac\beta2\bigl(\rho^2 + \sum_i\frac{\alpha z_i^2}{\alpha
             + \lambda_i}\bigr)$, with $\nu = n$; with a flat intercept integrated out, $\nu = n - 1$ and
             $-\frac12\log n$ is added.
Gradient.    $\partial_\alpha = \frac{M}{2\alpha} - \frac12 m_N^\top m_N -
             \frac12\sum_i\frac1{\alpha + \lambda_i}$, $\partial_\beta = \frac{\nu}{2\beta} -
             \frac12\|y - \Phi m_N\|^2 - \frac{\gamma}{2\beta}$.
Parameters.  $\gamma = \sum_i \lambda_i/(\alpha + \lambda_i)$, the number of weights that the data
             determine: a small $\lambda_i$ is a flat likelihood, and the prior decides that direction.
Cost.        One singular value decomposition of a triangle, $O(d^3)$; $O(d)$ for each evaluation.
References.  MacKay (1992); Bishop (2006) section 3.5.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.factors import normal_log_density
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Scalar, Values
from tractable.supervised.bayes_linear.statistics import RegressionStatistics, directions_of

__all__ = ["EvidenceTerms", "Spectrum", "spectrum_of"]


class EvidenceTerms(Module):
    """What the evidence depends on besides the two precisions; directions without data may be left out."""

    squares: Float[Array, " d"]
    projections: Float[Array, " d"]
    residual: Scalar
    degrees: Scalar
    log_count: Scalar

    def log_evidence(self, alpha: ArrayLike, beta: ArrayLike) -> Scalar:
        r"""$\log p(y \mid \alpha, \beta)$; under `jit`, `grad` and `vmap`."""
        lam = beta * self.squares
        kept = alpha / (alpha + lam)
        misfit = self.residual + (kept * self.projections**2).sum()
        log_det = self.log_count - self.degrees * jnp.log(beta) - jnp.log(kept).sum()
        return normal_log_density(beta * misfit, log_det, self.degrees)

    def rotated_mean(self, alpha: ArrayLike, beta: ArrayLike) -> Array:
        r"""$m_N$ along the directions: $\beta\sigma_i z_i / (\alpha + \lambda_i)$."""
        return jnp.asarray(beta) * jnp.sqrt(self.squares) * self.projections / (alpha + beta * self.squares)

    def misfit(self, alpha: ArrayLike, beta: ArrayLike) -> Scalar:
        r"""$\|y - \Phi m_N\|^2$."""
        kept = alpha / (alpha + beta * self.squares)
        return self.residual + ((kept * self.projections) ** 2).sum()

    def shrinkage(self, alpha: ArrayLike, beta: ArrayLike) -> Array:
        r"""$\lambda_i/(\alpha + \lambda_i)$ of each direction: 0 if the prior decides, 1 if the data do."""
        lam = jnp.asarray(beta) * self.squares
        return lam / (alpha + lam)

    def effective_parameters(self, alpha: ArrayLike, beta: ArrayLike) -> Scalar:
        r"""$\gamma = \sum_i \lambda_i/(\alpha + \lambda_i)$."""
        return self.shrinkage(alpha, beta).sum()


class Spectrum(EvidenceTerms):
    """The terms of the evidence, with the way back to weights of the columns.

    Column $j$ is divided by `scale[j]` first (ones where nothing is standardised); `directions[:, i]` is the
    $i$-th eigenvector. So the prior precision of weight $j$ is $\\alpha$ times `scale[j]` squared.

    >>> from tractable.supervised.bayes_linear.statistics import regression_statistics
    >>> rows = regression_statistics([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 3.0])
    >>> found = spectrum_of(rows)
    >>> (2 * found.squares).round(7).tolist(), round(float(found.effective_parameters(1.0, 2.0)), 7)
    ([14.3245553, 1.6754447], 1.5609756)
    """

    directions: Float[Array, "d d"]
    scale: Float[Array, " d"]
    intercept: bool = field(static=True)

    @property
    def dim(self) -> int:
        return self.squares.shape[0]

    def weights(self, alpha: float | Scalar, beta: float | Scalar) -> np.ndarray:
        r"""$m_N$, in the units of the columns."""
        along = np.asarray(self.rotated_mean(float(alpha), float(beta)))
        return np.asarray(self.directions) @ along / np.asarray(self.scale)

    def log_ratios(self, low: float, high: float, count: int) -> np.ndarray:
        r"""A grid of $\log\lambda$ = $\log\alpha/\beta$ relative to the largest eigenvalue."""
        largest = np.asarray(self.squares).max(initial=0.0)
        return np.linspace(low, high, count) + (np.log(largest) if largest > 0 else 0.0)

    def profile(self, log_ratios: Values) -> tuple[Values, Values]:
        r"""$\max_\beta \log p(y \mid \lambda\beta, \beta)$ for each $\log\lambda$, and that $\beta$."""
        kept = 1 / (1 + np.asarray(self.squares)[None, :] * np.exp(-log_ratios)[:, None])
        nu, misfit = float(self.degrees), float(self.residual) + kept @ np.asarray(self.projections) ** 2
        constant = nu * (np.log(nu / (2 * np.pi)) - 1) - float(self.log_count)
        return 0.5 * (np.log(kept).sum(1) - nu * np.log(misfit) + constant), nu / misfit

    def large_data(self) -> tuple[float, float]:
        r"""$\alpha = M/(m^\top m)$ and $\beta = n/\|y - \Phi m\|^2$ of many rows, where $\gamma$ is near $M$.

        There $m$ is the least-squares solution; along directions without data it is zero.
        """
        squares, z = np.asarray(self.squares), np.asarray(self.projections)
        seen = squares > 0
        size = (z[seen] ** 2 / squares[seen]).sum()
        return self.dim / size, float(self.degrees) / float(self.residual)


def spectrum_of(
    statistics: RegressionStatistics, *, intercept: bool = False, standardise: bool = False
) -> Spectrum:
    """The spectrum of the rows behind `statistics`: about their means with an intercept, and in units of the
    columns' standard deviations with `standardise`.

    What rounding of the targets leaves is counted as residual: no finite noise precision is beyond it.
    """
    degrees, count = statistics.degrees(intercept), float(statistics.count)
    fix = "With an intercept one row says nothing of the noise (n_samples = 1): add rows, or fix the noise."
    check(degrees > 0, "statistics", "of more rows", f"{count:g}", fix)
    triangle = statistics.triangle(intercept)
    scale = statistics.scale(intercept) if standardise else np.ones(statistics.dim)
    found = directions_of(triangle[:, :-1] / scale[None, :], triangle[:, -1])
    numbers = found.beside + statistics.noise_floor(), degrees, np.log(count) if intercept else 0.0
    arrays = (found.values**2, found.along, *numbers, found.vectors, scale)
    parts: Any = (*(jnp.asarray(part, jnp.float64) for part in arrays), bool(intercept))
    return Spectrum(*parts)
