r"""Linear maps of Gaussians with Gaussian noise: marginal, joint, Bayes' theorem, products.

Model.       $x \sim N(\mu, A^{-1})$, $y \mid x \sim N(Mx + b, L^{-1})$.
Identities.  $y \sim N(M\mu + b,\, L^{-1} + M A^{-1} M^\top)$;
             $x \mid y \sim N(C[M^\top L (y - b) + A\mu],\, C)$ with $C = (A + M^\top L M)^{-1}$; the joint
             precision is $\begin{pmatrix} A + M^\top L M & -M^\top L \\ -L M & L \end{pmatrix}$.
Cost.        Covariance form: one Cholesky of the size of $y$; precision form: one of $y$'s and one of $x$'s.
References.  Bishop (2006) section 2.3.3.
"""

from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_shape
from tractable.core.factors import positive_definite_factor, psd_inverse
from tractable.core.linalg import symmetrise
from tractable.core.module import Module, field, plates
from tractable.core.support import psd, real
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.gaussian import Gaussian, condition
from tractable.distributions.gaussian_forms import (
    GaussianInformation,
    GaussianPrecision,
    to_information,
    to_precision,
)
from tractable.distributions.gaussian_parts import one_unit

__all__ = ["LinearGaussian", "joint", "product"]


class LinearGaussian(Module):
    r"""The conditional $y \mid x \sim N(Hx + c, R)$: a regression, a transition, an emission.

    >>> observe = LinearGaussian(jnp.ones((1, 2)), jnp.zeros(1), jnp.eye(1))
    >>> posterior = observe.posterior(Gaussian(jnp.zeros(2), jnp.eye(2)), jnp.array([3.0]))
    >>> [round(float(m), 6) for m in posterior.mean]
    [1.0, 1.0]
    """

    weights: Float[Array, "..."] = field(support=real, rank=2)
    bias: Float[Array, "..."] = field(support=real, rank=1)
    cov: Float[Array, "..."] = field(support=psd)

    def __check_init__(self) -> None:
        rows = self.weights.shape[-2]
        must = f"as long as `weights` has rows ({rows})"
        check(self.bias.shape[-1] == rows, "bias", must, self.bias.shape[-1])
        square = self.cov.shape[-2:] == (rows, rows)
        must = f"a matrix of shape ({rows}, {rows}), to match `weights`"
        check(square, "cov", must, f"shape {self.cov.shape}")
        plates(self)

    def __call__(self, x: ArrayLike) -> Gaussian:
        r"""$p(y \mid x)$ at one point $x$."""
        x = as_float("x", x)
        check_shape("x", x, self.weights.shape[-1:])
        return Gaussian(self.weights @ x + self.bias, self.cov)

    def marginal(self, x: Gaussian) -> tuple[Gaussian, Float[Array, "x y"]]:
        r"""$p(y) = N(Hm + c, H P H^\top + R)$ and $\mathrm{Cov}[x, y] = P H^\top$ when $x \sim N(m, P)$."""
        self._matches(x)
        return _marginal(self, x)

    def posterior(self, prior: Any, y: ArrayLike) -> Any:
        r"""$p(x \mid y)$ in the prior's form: by `condition` for a covariance, else by adding precisions."""
        self._matches(prior)
        y = as_float("y", y)
        check_shape("y", y, self.bias.shape)
        if isinstance(prior, Gaussian):
            predicted, cross = _marginal(self, prior)
            return condition(prior, cross, predicted, y)
        return _add_information(self, prior, y)

    def _matches(self, x: Any) -> None:
        one_unit(x)
        one_unit(self)
        columns = self.weights.shape[-1]
        must = f"over {columns} coordinates, as many as `weights` has columns"
        check(x.shape == (columns,), "x", must, f"shape {x.shape}")


def joint(prior: Gaussian | GaussianPrecision, likelihood: LinearGaussian) -> Any:
    r"""$p(x, y)$ over the coordinates $(x, y)$, in the form of the prior: by covariance or by precision."""
    likelihood._matches(prior)
    return (_joint_covariance if isinstance(prior, Gaussian) else _joint_precision)(prior, likelihood)


def product(a: Any, b: Any) -> tuple[Any, Scalar]:
    r"""$p_a(x)\,p_b(x) = K\,N(x \mid \mu, \Sigma)$: the Gaussian and $\log K$; two Gaussians of one form.

    With $S = \Sigma_a + \Sigma_b$: $\Sigma = \Sigma_a S^{-1} \Sigma_b$, $K = N(\mu_a \mid \mu_b, S)$ and
    $\mu = \Sigma_a S^{-1} \mu_b + \Sigma_b S^{-1} \mu_a$. It is Bayes' theorem for a reading $\mu_b$ of $x$
    with noise $\Sigma_b$.
    """
    same = type(a) is type(b) and a.shape == b.shape
    must = f"a {type(a).__name__} of shape {a.shape}, like `a`"
    check(same, "b", must, f"{type(b).__name__} of shape {b.shape}")
    one_unit(a)
    if isinstance(a, GaussianInformation):
        both = GaussianInformation(a.precision + b.precision, a.shift + b.shift)
        return both, both.log_integral() - a.log_integral() - b.log_integral()
    if isinstance(a, GaussianPrecision):
        both, log_scale = product(to_information(a), to_information(b))
        return to_precision(both), log_scale
    reading = LinearGaussian(jnp.eye(a.shape[0], dtype=a.cov.dtype), jnp.zeros_like(a.mean), b.cov)
    predicted, cross = reading.marginal(a)
    return condition(a, cross, predicted, b.mean), predicted.log_prob(b.mean)


@jax.jit
def _marginal(likelihood: LinearGaussian, x: Gaussian) -> tuple[Gaussian, Array]:
    H = likelihood.weights
    cross = x.cov @ H.T
    return Gaussian(H @ x.mean + likelihood.bias, symmetrise(H @ cross + likelihood.cov)), cross


@jax.jit
def _add_information(likelihood: LinearGaussian, prior: Any, y: Array) -> Any:
    noise = positive_definite_factor(likelihood.cov)
    half = noise.half_solve(likelihood.weights)  # so that M^T L M = half^T half
    precision = symmetrise(prior.precision + half.T @ half)
    start = prior.shift if isinstance(prior, GaussianInformation) else prior.precision @ prior.mean
    shift = start + half.T @ noise.half_solve(y - likelihood.bias)
    both = GaussianInformation(precision, shift)
    return both if isinstance(prior, GaussianInformation) else to_precision(both)


@jax.jit
def _joint_covariance(prior: Gaussian, likelihood: LinearGaussian) -> Gaussian:
    y, cross = _marginal(likelihood, prior)
    return Gaussian(jnp.concatenate([prior.mean, y.mean]), jnp.block([[prior.cov, cross], [cross.T, y.cov]]))


@jax.jit
def _joint_precision(prior: GaussianPrecision, likelihood: LinearGaussian) -> GaussianPrecision:
    M = likelihood.weights
    L = psd_inverse(likelihood.cov)
    corner = symmetrise(prior.precision + M.T @ L @ M)
    mean = jnp.concatenate([prior.mean, M @ prior.mean + likelihood.bias])
    return GaussianPrecision(mean, jnp.block([[corner, -M.T @ L], [-L @ M, L]]))
