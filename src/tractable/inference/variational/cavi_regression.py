r"""Linear regression whose noise and shrinkage are unknown, by coordinate ascent.

Model.       $y \mid w, \tau \sim N(Xw, \tau^{-1}I)$, $w_j \mid \alpha \sim N(0, \alpha_j^{-1})$ with one
             $\alpha$ for all coefficients, or one each (automatic relevance); $\alpha \sim
             \mathrm{Gamma}(a_0, b_0)$, $\tau \sim \mathrm{Gamma}(c_0, d_0)$.
Updates.     $q(w) = N(m, S)$ with $S^{-1} = E[\tau]X^\top X + \mathrm{diag}\,E[\alpha]$ and $m =
             E[\tau]SX^\top y$; $q(\alpha) = \mathrm{Gamma}(a_0 + \frac d2, b_0 + \frac12 E\|w\|^2)$; $q(\tau)
             = \mathrm{Gamma}(c_0 + \frac n2, d_0 + \frac12 E\|y - Xw\|^2)$.
ELBO.        $E\log p(y \mid w, \tau) + E\log p(w \mid \alpha) + H[q(w)] - \mathrm{KL}(q(\alpha) \| p) -
             \mathrm{KL}(q(\tau) \| p)$.
Cost.        One pass over the rows, then $O(d^3)$ per sweep whatever their number.
References.  Bishop (2006) section 10.3; Drugowitsch (2013), "Variational Bayesian inference for linear and
             logistic regression".
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma

from tractable.core.checks import as_float, check, check_count, check_finite, check_length
from tractable.core.factors import normal_log_density
from tractable.core.iterate import Run, run_until
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.continuous import StudentT
from tractable.distributions.divergence import kl
from tractable.distributions.expfam import row_weights
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_forms import GaussianInformation, to_covariance
from tractable.distributions.positive import Gamma
from tractable.inference.variational.cavi import never_falls

__all__ = ["VariationalRegression", "variational_regression"]


class VariationalRegression(Module):
    """The factors of the posterior: coefficients, their precision (one or one each), noise precision."""

    coefficients: Gaussian
    prior_precision: Gamma
    noise_precision: Gamma

    def predict_dist(self, design: ArrayLike) -> StudentT:
        r"""$p(y \mid x)$ row by row, approximately: a t of $2c$ degrees whose squared scale is that of the
        noise plus the variance of $x^\top w$ (exact in the limit of many rows, where both are normal)."""
        rows = as_float("design", design)
        d = self.coefficients.mean.shape[0]
        check(rows.ndim == 2 and rows.shape[1] == d, "design", f"a matrix with {d} columns", rows.shape)
        tau = self.noise_precision
        spread = jnp.einsum("ni,ij,nj->n", rows, self.coefficients.cov, rows)
        scale = jnp.sqrt(tau.rate / tau.concentration + spread)
        return StudentT(2 * tau.concentration, rows @ self.coefficients.mean, scale)


class _Sums(Module):
    """What the rows say: everything that the updates need of them."""

    squares: Float[Array, "d d"]
    products: Float[Array, " d"]
    target: Scalar
    count: Scalar


def variational_regression(
    design: ArrayLike,
    targets: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    prior_precision: Gamma | None = None,
    noise_precision: Gamma | None = None,
    relevance: bool = False,
    max_steps: int = 1000,
    tol: float = 1e-12,
) -> Run:
    """Climb the ELBO: `run.state` is a `VariationalRegression`, `run.trace` the ELBO of each sweep.

    The hyperpriors are Gamma distributions, by default of shape and rate 0.01; with `relevance` each
    coefficient has its own precision, which grows without need and switches it off. A weight of two is the
    row twice.
    """
    x, y = as_float("design", design), as_float("targets", targets)
    check(x.ndim == 2 and x.size > 0, "design", "a matrix with rows and columns", f"shape {x.shape}")
    check(y.ndim == 1, "targets", "a vector", f"shape {y.shape}")
    check_length("targets", y, "design", x)
    check_finite("design", x)
    check_finite("targets", y)
    vague = Gamma(jnp.asarray(0.01), jnp.asarray(0.01))
    alpha: Any = (vague if prior_precision is None else prior_precision).expand(
        (x.shape[1],) if relevance else (1,)
    )
    tau = vague if noise_precision is None else noise_precision
    steps = check_count("max_steps", max_steps)
    return _climb(_sums(x, y, row_weights(x, weights)), alpha, tau, jnp.asarray(tol), steps)


@jax.jit
def _sums(x: Array, y: Array, weights: Array) -> _Sums:
    weighted = weights[:, None] * x
    return _Sums(weighted.T @ x, weighted.T @ y, weights @ y**2, weights.sum())


@program
def _climb(sums: _Sums, alpha: Gamma, tau: Gamma, tol: Array, max_steps: int) -> Run:
    def sweep(q: VariationalRegression) -> tuple[VariationalRegression, Scalar]:
        q = _update(sums, alpha, tau, q)
        return q, _elbo(sums, alpha, tau, q)

    d = sums.products.shape[0]
    blank = Gaussian(jnp.zeros(d, sums.products.dtype), jnp.eye(d, dtype=sums.products.dtype))
    # the noise starts as if the coefficients were zero
    first = Gamma(tau.concentration + 0.5 * sums.count, tau.rate + 0.5 * sums.target)
    start = VariationalRegression(blank, Gamma(*_refresh(alpha, blank)), first)
    found = run_until(sweep, start, max_steps=max_steps, tol=tol)
    return Run(found.state, found.trace, found.num_steps, never_falls(found.trace, found.code))


def _update(sums: _Sums, alpha: Gamma, tau: Gamma, q: VariationalRegression) -> VariationalRegression:
    d = sums.products.shape[0]
    noise = q.noise_precision.concentration / q.noise_precision.rate
    shrink = jnp.broadcast_to(q.prior_precision.concentration / q.prior_precision.rate, (d,))
    coefficients = to_covariance(
        GaussianInformation(noise * sums.squares + jnp.diag(shrink), noise * sums.products)
    )
    residual = _expected_residual(sums, coefficients)
    noise_precision = Gamma(tau.concentration + 0.5 * sums.count, tau.rate + 0.5 * residual)
    return VariationalRegression(coefficients, Gamma(*_refresh(alpha, coefficients)), noise_precision)


def _refresh(alpha: Gamma, w: Gaussian) -> tuple[Array, Array]:
    """The parameters of the precision's posterior: shared by all coefficients, or one each."""
    second = w.mean**2 + jnp.diagonal(w.cov)
    groups = alpha.concentration.shape[0]
    per_group = second.reshape((groups, -1))
    size = per_group.shape[1]
    return alpha.concentration + 0.5 * size, alpha.rate + 0.5 * per_group.sum(1)


def _expected_residual(sums: _Sums, w: Gaussian) -> Scalar:
    fit = sums.target - 2 * w.mean @ sums.products + w.mean @ sums.squares @ w.mean
    return fit + (sums.squares * w.cov).sum()


def _elbo(sums: _Sums, alpha: Gamma, tau: Gamma, q: VariationalRegression) -> Scalar:
    d = sums.products.shape[0]
    noise, shrink = q.noise_precision, q.prior_precision
    log_noise = digamma(noise.concentration) - jnp.log(noise.rate)
    residual = _expected_residual(sums, q.coefficients)
    mean_noise = noise.concentration / noise.rate
    likelihood = normal_log_density(mean_noise * residual, -sums.count * log_noise, sums.count)
    second = q.coefficients.mean**2 + jnp.diagonal(q.coefficients.cov)
    log_shrink = jnp.broadcast_to(digamma(shrink.concentration) - jnp.log(shrink.rate), (d,))
    mean_shrink = jnp.broadcast_to(shrink.concentration / shrink.rate, (d,))
    prior = normal_log_density(mean_shrink @ second, -log_shrink.sum(), d)
    return likelihood + prior + q.coefficients.entropy() - kl(shrink, alpha) - kl(noise, tau)
