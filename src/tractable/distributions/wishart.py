r"""Random scatter and random covariances: the Wishart and the inverse Wishart.

Model.       $W(n, V)$ is the law of $\sum_{i \le n} y_i y_i^\top$ with $y_i \sim N(0, V)$, also for a real
             $n > d - 1$; its inverse is the conjugate prior of a covariance.
Identity.    With $\psi_d(a) = \sum_{j<d} \psi(a - j/2)$ and $X \sim W(n, V)$:
             $E \log|X| = \psi_d(n/2) + d \log 2 + \log|V|$.
Cost.        $O(d^3)$ for each density and each draw.
References.  Gupta and Nagar (2000) chapter 3; Bartlett (1933).
"""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np
from jax.scipy.special import digamma, multigammaln

from tractable.core.checks import check, check_entries, is_concrete
from tractable.core.factors import psd_inverse
from tractable.core.iterate import run_until
from tractable.core.linalg import log_det, psd_factor, symmetrise
from tractable.core.module import field
from tractable.core.support import Support, positive
from tractable.core.types import Array, Float, Key, Scalar, Shape
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.leading_axes import units
from tractable.distributions.supports import positive_definite

__all__ = ["InverseWishart", "Wishart", "check_degrees", "degrees_from_gap", "multidigamma"]

_LOG_2 = float(np.log(2))


class _Scatter(ExponentialFamily):
    """What the pair shares: parameters, their checks, and the cone of positive definite matrices."""

    degrees: Float[Array, "..."] = field(support=positive)
    scale: Float[Array, "... d d"] = field(support=positive_definite)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_degrees(self.degrees, self.scale.shape[-1])

    @property
    def unit_shape(self) -> Shape:
        return self.scale.shape[-2:]

    @property
    def support(self) -> Support:
        return positive_definite

    def log_base(self, x):
        return jnp.zeros_like(x[0, 0])


class Wishart(_Scatter):
    r"""$p(X) = |X|^{(n-d-1)/2} e^{-\mathrm{tr}(V^{-1}X)/2} / (2^{nd/2} |V|^{n/2} \Gamma_d(n/2))$.

    Over positive definite $X$, with $n$ = `degrees` $> d - 1$ and $V$ = `scale`. The density is with respect
    to the entries on and below the diagonal.

    >>> float(Wishart(5.0, jnp.eye(2)).mean[0, 0])
    5.0
    """

    @property
    def mode(self) -> Array:
        r"""$(n - d - 1) V$ for $n \ge d + 1$; NaN for fewer degrees, where the density is unbounded."""
        return units(self, type(self)._mode)

    @property
    def natural(self):
        return (self.degrees - self.unit_shape[0] - 1) / 2, -0.5 * psd_inverse(self.scale)

    def stats(self, x):
        return log_det(x), x

    def log_normaliser(self, natural):
        power, slope = natural
        half = power + (slope.shape[0] + 1) / 2
        return multigammaln(half, slope.shape[0]) - half * log_det(-slope)

    def from_natural(self, natural) -> "Wishart":
        power, slope = natural
        return Wishart(2 * power + slope.shape[0] + 1, psd_inverse(-2 * slope))

    def from_stats(self, mean_stats) -> "Wishart":
        mean_log_det, mean = mean_stats
        degrees = degrees_from_gap(mean_log_det - log_det(mean), mean.shape[0])
        return Wishart(degrees, symmetrise(mean) / degrees)

    def _log_prob(self, x):
        n, d = self.degrees, x.shape[0]
        factor, point = psd_factor(self.scale), psd_factor(x)
        trace = (factor.half_solve(point.lower) ** 2).sum()  # tr(V^-1 X), a sum of squares: nothing cancels
        normaliser = n * d / 2 * _LOG_2 + n / 2 * factor.log_det() + multigammaln(n / 2, d)
        return (n - d - 1) / 2 * point.log_det() - trace / 2 - normaliser

    def _sample(self, key, n):
        half = psd_factor(self.scale).lower @ _bartlett(key, self.degrees, self.unit_shape[0], n)
        return jax.vmap(lambda b: symmetrise(b @ b.T))(half)

    def _mean(self):
        return self.degrees * self.scale

    def _mode(self):
        excess = self.degrees - self.unit_shape[0] - 1
        return jnp.where(excess >= 0, excess, jnp.nan) * self.scale

    def _variance(self):
        v = jnp.diag(self.scale)
        return self.degrees * (self.scale**2 + jnp.outer(v, v))

    def _entropy(self):
        n, d = self.degrees, self.unit_shape[0]
        kernel = -(n - d - 1) / 2 * multidigamma(n / 2, d) + n * d / 2
        return (d + 1) / 2 * (log_det(self.scale) + d * _LOG_2) + multigammaln(n / 2, d) + kernel


class InverseWishart(_Scatter):
    r"""$p(X) = |\Psi|^{n/2} |X|^{-(n+d+1)/2} e^{-\mathrm{tr}(\Psi X^{-1})/2} / (2^{nd/2} \Gamma_d(n/2))$.

    Over positive definite $X$, with $n$ = `degrees` $> d - 1$ and $\Psi$ = `scale`: the inverse of $X$ is
    $W(n, \Psi^{-1})$. The mean does not exist for $n \le d + 1$ nor the variance for $n \le d + 3$: NaN.

    >>> float(InverseWishart(5.0, jnp.eye(2)).mean[0, 0])
    0.5
    """

    @property
    def mode(self) -> Array:
        r"""$\Psi / (n + d + 1)$."""
        return units(self, type(self)._mode)

    @property
    def natural(self):
        return -(self.degrees + self.unit_shape[0] + 1) / 2, -0.5 * self.scale

    def stats(self, x):
        return log_det(x), psd_inverse(x)

    def log_normaliser(self, natural):
        power, slope = natural
        half = -power - (slope.shape[0] + 1) / 2
        return multigammaln(half, slope.shape[0]) - half * log_det(-slope)

    def from_natural(self, natural) -> "InverseWishart":
        power, slope = natural
        return InverseWishart(-2 * power - slope.shape[0] - 1, -2 * symmetrise(slope))

    def from_stats(self, mean_stats) -> "InverseWishart":
        mean_log_det, mean_inverse = mean_stats
        degrees = degrees_from_gap(-mean_log_det - log_det(mean_inverse), mean_inverse.shape[0])
        return InverseWishart(degrees, degrees * psd_inverse(mean_inverse))

    def _log_prob(self, x):
        n, d = self.degrees, x.shape[0]
        factor, point = psd_factor(self.scale), psd_factor(x)
        trace = (point.half_solve(factor.lower) ** 2).sum()  # tr(Psi X^-1), a sum of squares
        normaliser = n * d / 2 * _LOG_2 - n / 2 * factor.log_det() + multigammaln(n / 2, d)
        return -(n + d + 1) / 2 * point.log_det() - trace / 2 - normaliser

    def _sample(self, key, n):
        upper = psd_factor(self.scale).lower.T

        def invert(bartlett):
            half = jsl.solve_triangular(bartlett, upper, lower=True)
            return symmetrise(half.T @ half)

        return jax.vmap(invert)(_bartlett(key, self.degrees, self.unit_shape[0], n))

    def _mean(self):
        excess = self.degrees - self.unit_shape[0] - 1
        return self.scale / jnp.where(excess > 0, excess, jnp.nan)

    def _mode(self):
        return self.scale / (self.degrees + self.unit_shape[0] + 1)

    def _variance(self):
        m = self.degrees - self.unit_shape[0]
        v = jnp.diag(self.scale)
        above = (m + 1) * self.scale**2 + (m - 1) * jnp.outer(v, v)
        return above / jnp.where(m > 3, m * (m - 1) ** 2 * (m - 3), jnp.nan)

    def _expected_log_det(self) -> Scalar:
        n, d = self.degrees, self.unit_shape[0]
        return log_det(self.scale) - d * _LOG_2 - multidigamma(n / 2, d)

    def _entropy(self):
        n, d = self.degrees, self.unit_shape[0]
        constant = n / 2 * (d * _LOG_2 - log_det(self.scale)) + multigammaln(n / 2, d)
        return constant + (n + d + 1) / 2 * self._expected_log_det() + n * d / 2


def multidigamma(a: Array, dim: int) -> Scalar:
    r"""$\psi_d(a) = \frac{d}{da} \log\Gamma_d(a) = \sum_{j<d} \psi(a - j/2)$."""
    return digamma(a - jnp.arange(dim, dtype=a.dtype) / 2).sum()


def degrees_from_gap(gap: Array, dim: int) -> Scalar:
    r"""The $n$ with $\psi_d(n/2) - d\log(n/2) = $ `gap`; NaN where the gap is not negative.

    The gap is $E\log|X| - \log|E X|$ of a Wishart matrix, negative by Jensen's inequality. Newton on
    $\log(-\mathrm{gap})$ against $\log(n - d + 1)$, which is nearly a line at both ends. Differentiable.
    """
    if is_concrete(gap):
        must = "averages over two points or more: the mean log-determinant below that of the mean"
        check(bool(gap < 0), "mean_stats", must, f"a difference of {float(gap)}")
    return _degrees_from_gap(gap, dim)


def check_degrees(degrees: Array, dim: int) -> None:
    """Check that concrete degrees of freedom exceed `dim` - 1, which a density needs."""
    must = f"greater than d - 1 = {dim - 1}, where d = {dim} is the size of `scale`"
    check_entries("degrees", degrees, lambda v: v > dim - 1, must)


def _bartlett(key: Key, degrees: Array, dim: int, n: int) -> Array:
    r"""`n` lower-triangular $A$ with $A A^\top \sim W(\nu, I)$: normals below a diagonal of chi variables."""
    key_below, key_diagonal = jr.split(key)
    below = jnp.tril(jr.normal(key_below, (n, dim, dim), degrees.dtype), -1)
    order = (degrees - jnp.arange(dim, dtype=degrees.dtype)) / 2
    log_square = jr.loggamma(key_diagonal, order, (n, dim), degrees.dtype) + _LOG_2
    return below + jax.vmap(jnp.diag)(jnp.exp(log_square / 2))


@partial(jax.jit, static_argnums=1)
def _degrees_from_gap(gap: Array, dim: int) -> Scalar:
    aim = jnp.log(jnp.where(gap < 0, -gap, jnp.nan))
    constant = jax.lax.stop_gradient(aim)

    def log_gap(u):
        half = (jnp.exp(u) + dim - 1) / 2
        return jnp.log(dim * jnp.log(half) - multidigamma(half, dim))

    def newton(u, target):
        value, slope = jax.jvp(log_gap, (u,), (jnp.ones_like(u),))
        return u - jnp.clip((value - target) / slope, -3.0, 3.0)

    def step(u):
        following = newton(u, constant)
        return following, following

    start = jnp.log(dim * (dim + 1) / 2) - constant
    found = jax.lax.stop_gradient(run_until(step, start, max_steps=100, tol=1e-14).state)
    return jnp.exp(newton(found, aim)) + dim - 1  # one more step carries the derivative of the root
