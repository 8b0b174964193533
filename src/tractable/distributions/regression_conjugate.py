r"""Conjugate linear regression: Gaussian coefficients, noise known or with a Gamma prior on its precision.

Model.       $y_n \sim N(x_n^\top \beta, 1/\tau)$; $\beta \mid \tau \sim N(m, (\tau\Lambda)^{-1})$,
             $\tau \sim \mathrm{Gamma}(a, b)$; or $\tau$ known and $\beta \sim N(m, P)$.
Identity.    $\Lambda' = \Lambda + X^\top W X$; $m'$ solves the least-squares problem of the rows
             $\sqrt{w_n}\,(x_n, y_n)$ stacked on a root of $\Lambda$; $a' = a + \frac12\sum_n w_n$ and
             $b' - b$ is half its residual. The predictive is Student's t with $2a'$ degrees.
Cost.        $O((n + d) d^2)$, one QR of the stacked rows: the condition number is never squared.
References.  Bishop (2006) section 3.3; Gelman et al. (2013) section 14.2; Bjorck (1996) section 2.4.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import as_float, check, check_finite, is_concrete
from tractable.core.factors import normal_log_density, positive_definite_factor, psd_inverse, psd_root
from tractable.core.keys import takes_key
from tractable.core.module import Module, field, plates
from tractable.core.numerics import log_gamma
from tractable.core.support import positive, psd, real
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.distributions.continuous import Normal, StudentT
from tractable.distributions.expfam import row_weights
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.positive import Gamma

__all__ = [
    "RegressionPrior", "linear_regression_log_evidence", "linear_regression_posterior",
    "linear_regression_predictive",
]  # fmt: skip


class RegressionPrior(Module):
    r"""$\tau \sim \mathrm{Gamma}(a, b)$, $\beta \mid \tau \sim N(m, (\tau\Lambda)^{-1})$; also the posterior.

    $m$ = `loc`, $\Lambda$ = `precision`, $a$ = `concentration`, $b$ = `rate`. A singular precision is a flat
    prior in some directions: the posterior exists once the rows span them, the evidence does not (NaN).

    >>> prior = RegressionPrior(jnp.zeros(1), jnp.eye(1), 1.0, 1.0)
    >>> after = prior.posterior(jnp.array([[1.0], [1.0]]), jnp.array([2.0, 4.0]))
    >>> round(float(after.loc[0]), 6), float(after.concentration), round(float(after.rate), 6)
    (2.0, 2.0, 5.0)
    """

    loc: Float[Array, "..."] = field(support=real, rank=1)
    precision: Float[Array, "..."] = field(support=psd)
    concentration: Float[Array, "..."] = field(support=positive)
    rate: Float[Array, "..."] = field(support=positive)

    def __check_init__(self) -> None:
        d = self.loc.shape[-1]
        square = self.precision.shape[-2:] == (d, d)
        check(square, "precision", f"of shape ({d}, {d}), to match `loc`", f"shape {self.precision.shape}")
        check(
            plates(self) == (), "loc", "of one regression", f"leading axes {plates(self)}", "Use `jax.vmap`."
        )

    def posterior(
        self, design: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None
    ) -> "RegressionPrior":
        """The posterior of coefficients and noise; weight two is the row twice, no rows give the prior."""
        return _absorb(self, *_rows(self.loc, design, targets, weights))

    def log_evidence(self, design: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None) -> Scalar:
        r"""$\log p(y \mid X)$ with coefficients and noise integrated out."""
        return _log_evidence(self, *_rows(self.loc, design, targets, weights))

    def predict_dist(self, design: ArrayLike) -> StudentT:
        r"""$p(y \mid x)$ row by row: $t_{2a}(x^\top m,\ \frac{b}{a}(1 + x^\top \Lambda^{-1} x))$."""
        rows = _design(self.loc, design)
        return StudentT(*_predict(self, rows))

    def coefficients(self) -> StudentT:
        r"""The marginal of each coefficient: $t_{2a}(m_i,\ \frac{b}{a}(\Lambda^{-1})_{ii})$."""
        degrees, scale = _coefficient_scale(self)
        return StudentT(degrees, self.loc, scale)

    def noise_precision(self) -> Gamma:
        r"""The marginal of the precision $\tau$ of the noise."""
        return Gamma(self.concentration, self.rate)

    @takes_key
    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
        """Draws of the coefficients and of the precision of the noise."""
        key_noise, key_coefficients = jr.split(key)
        tau = self.noise_precision().sample(key_noise, shape)
        z = jr.normal(key_coefficients, (*shape, self.loc.size), self.loc.dtype)
        lower = positive_definite_factor(self.precision).lower
        spread = jsl.solve_triangular(lower.T, z.reshape((-1, self.loc.size)).T, lower=False).T.reshape(
            z.shape
        )
        return jnp.broadcast_to(self.loc, z.shape) + spread / jnp.sqrt(tau)[..., None], tau


def linear_regression_posterior(
    prior: Any, design: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None, *, noise: Any = None
) -> Any:
    """The posterior of a `RegressionPrior`, or of a `Gaussian` of coefficients if the `noise` sd is known."""
    if isinstance(prior, RegressionPrior):
        check(noise is None, "noise", "left out: the prior speaks of it", noise)
        return prior.posterior(design, targets, weights)
    return _absorb_known(prior, *_rows(prior.mean, design, targets, weights), _noise(noise))[0]


def linear_regression_log_evidence(
    prior: Any, design: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None, *, noise: Any = None
) -> Scalar:
    r"""$\log p(y \mid X)$ under a `RegressionPrior`, or under a `Gaussian` if the `noise` sd is known."""
    if isinstance(prior, RegressionPrior):
        check(noise is None, "noise", "left out: the prior speaks of it", noise)
        return prior.log_evidence(design, targets, weights)
    return _absorb_known(prior, *_rows(prior.mean, design, targets, weights), _noise(noise))[1]


def linear_regression_predictive(prior: Any, design: ArrayLike, *, noise: Any = None) -> Any:
    r"""$p(y \mid x)$ row by row: `StudentT`; for known noise `Normal` of variance $\sigma^2 + x^\top P x$."""
    if isinstance(prior, RegressionPrior):
        check(noise is None, "noise", "left out: the prior speaks of it", noise)
        return prior.predict_dist(design)
    rows = _design(prior.mean, design)
    variance = jnp.einsum("ni,ij,nj->n", rows, prior.cov, rows)
    return Normal(rows @ prior.mean, jnp.sqrt(_noise(noise) ** 2 + variance))


@jax.jit
def _coefficient_scale(prior: RegressionPrior) -> tuple[Array, Array]:
    variance = jnp.diag(psd_inverse(prior.precision))
    return 2 * prior.concentration, jnp.sqrt(prior.rate / prior.concentration * variance)


@jax.jit
def _predict(prior: RegressionPrior, rows: Array) -> tuple[Array, Array, Array]:
    mean, leverage = _project(prior.loc, prior.precision, rows)
    return 2 * prior.concentration, mean, jnp.sqrt(prior.rate / prior.concentration * (1 + leverage))


def _noise(noise: Any) -> Array:
    check(noise is not None, "noise", "the known standard deviation", None, "Or use a `RegressionPrior`.")
    value = as_float("noise", noise)
    ok = value.ndim == 0 and (not is_concrete(value) or bool(positive.contains(np.asarray(value))))
    check(ok, "noise", "one positive and finite number", noise)
    return value


def _design(loc: Array, design: ArrayLike) -> Array:
    rows = as_float("design", design)
    ok = rows.ndim == 2 and rows.shape[1] == loc.shape[0]
    check(ok, "design", f"rows of {loc.shape[0]} columns, one per coefficient", f"shape {rows.shape}")
    check_finite("design", rows)
    return rows


def _rows(loc: Array, design: ArrayLike, targets: ArrayLike, weights: Any) -> tuple[Array, Array, Array]:
    rows, y = _design(loc, design), as_float("targets", targets)
    check(y.shape == rows.shape[:1], "targets", f"one number per row ({rows.shape[0]},)", f"shape {y.shape}")
    check_finite("targets", y)
    return rows, y, row_weights(rows, weights)


def _least_squares(root: Array, loc: Array, rows: Array, y: Array) -> tuple[Array, Array, Scalar]:
    r"""The minimiser of $\|y - X\beta\|^2 + \|R(\beta - m)\|^2$, the triangular factor, and the minimum."""
    matrix, right = jnp.concatenate([rows, root]), jnp.concatenate([y, root @ loc])
    frame, upper = jnp.linalg.qr(matrix)
    solution = jsl.solve_triangular(upper, frame.T @ right, lower=False)
    return solution, upper, ((right - matrix @ solution) ** 2).sum()


@jax.jit
def _absorb(prior: RegressionPrior, rows: Array, y: Array, weights: Array) -> RegressionPrior:
    half = jnp.sqrt(weights)
    loc, upper, residual = _least_squares(
        psd_root(prior.precision).T, prior.loc, half[:, None] * rows, half * y
    )
    return RegressionPrior(
        loc, upper.T @ upper, prior.concentration + weights.sum() / 2, prior.rate + residual / 2
    )


@jax.jit
def _log_evidence(prior: RegressionPrior, rows: Array, y: Array, weights: Array) -> Scalar:
    after = _absorb(prior, rows, y, weights)
    a, b, a_after, b_after = prior.concentration, prior.rate, after.concentration, after.rate
    widths = (
        positive_definite_factor(prior.precision).log_det()
        - positive_definite_factor(after.precision).log_det()
    )
    gammas = log_gamma(a_after) - log_gamma(a) + a * jnp.log(b) - a_after * jnp.log(b_after)
    return normal_log_density(0, -widths, weights.sum()) + gammas


@jax.jit
def _absorb_known(
    prior: Gaussian, rows: Array, y: Array, weights: Array, noise: Array
) -> tuple[Gaussian, Scalar]:
    half = jnp.sqrt(weights) / noise
    lower = positive_definite_factor(prior.cov).lower
    root = jsl.solve_triangular(lower, jnp.eye(prior.mean.size, dtype=lower.dtype), lower=True)
    mean, upper, residual = _least_squares(root, prior.mean, half[:, None] * rows, half * y)
    inverse = jsl.solve_triangular(upper, jnp.eye(prior.mean.size, dtype=lower.dtype), lower=False)
    shrink = jnp.log(jnp.abs(jnp.diag(upper))).sum() + jnp.log(jnp.diag(lower)).sum()
    log_det = 2 * (weights.sum() * jnp.log(noise) + shrink)
    evidence = normal_log_density(residual, log_det, weights.sum())
    return Gaussian(mean, inverse @ inverse.T), evidence


@jax.jit
def _project(loc: Array, precision: Array, rows: Array) -> tuple[Array, Array]:
    r"""$x^\top m$ and $x^\top \Lambda^{-1} x$ for each row."""
    half = positive_definite_factor(precision).half_solve(rows.T)
    return rows @ loc, (half**2).sum(0)
