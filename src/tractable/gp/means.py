r"""Mean functions of a Gaussian process, written for one point.

Means.       $m(x) = 0$, a constant, $w^\top x + b$, any function, or $h(x)^\top\beta$ with explicit basis
             functions $h$.
Identity.    With $\beta \sim N(b, B)$ the process is $GP(h^\top b,\ k + h^\top B h')$: the coefficients are
             integrated out by a covariance of finite rank. Equal to $\bar f_* + R^\top\bar\beta$ with
             $R = H_* - H K_y^{-1} K_*$, and to universal kriging as $B \to \infty$.
Cost.        That of the function for each row; $O(n^2 p)$ for $p$ uncertain coefficients.
References.  Rasmussen and Williams (2006) section 2.7.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check
from tractable.core.module import Module, field
from tractable.core.support import real
from tractable.core.types import Array, Float
from tractable.distributions.gaussian import Gaussian

__all__ = ["BasisMean", "ConstantMean", "FunctionMean", "LinearMean", "Mean", "ZeroMean", "as_mean"]


class Mean(Module):
    """A function of one point; `covariance` is what uncertain coefficients add to the kernel."""

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """The mean at one point."""

    def covariance(self, X: Array, Y: Array) -> Array | None:
        """The covariance that the mean's own uncertainty adds between rows; None where it has none."""
        return None

    def variances(self, X: Array) -> Array | None:
        """The diagonal of `covariance(X, X)`."""
        return None


class ZeroMean(Mean):
    """$m(x) = 0$: centre the targets first."""

    def __call__(self, x: Array) -> Array:
        return jnp.zeros((), x.dtype)


class ConstantMean(Mean):
    """$m(x) = c$."""

    value: Float[Array, ""] = field(support=real, default=0.0)

    def __call__(self, x: Array) -> Array:
        return self.value


class LinearMean(Mean):
    r"""$m(x) = w^\top x + b$ with $w$ = `slopes`, $b$ = `offset`."""

    slopes: Float[Array, " d"] = field(support=real, rank=1)
    offset: Float[Array, ""] = field(support=real, default=0.0)

    def __call__(self, x: Array) -> Array:
        return self.slopes @ x + self.offset


class FunctionMean(Mean):
    """Any function of one point (a vector); it has no parameters."""

    function: Callable = field(static=True)

    def __call__(self, x: Array) -> Array:
        return jnp.asarray(self.function(x), x.dtype)


class BasisMean(Mean):
    r"""$m(x) = h(x)^\top\beta$ with $h$ = `basis`; $\beta$ known (a vector) or uncertain (a `Gaussian`).

    >>> mean = BasisMean(lambda x: jnp.array([1.0, x[0]]), jnp.array([0.2, -0.1]))
    >>> round(float(mean(jnp.array([2.0]))), 6)
    0.0
    """

    basis: Callable = field(static=True)
    coefficients: Any = field()

    def __init__(self, basis: Callable, coefficients: Any):
        known = isinstance(coefficients, Gaussian)
        self.basis = basis
        self.coefficients = coefficients if known else as_float("coefficients", coefficients)
        rank = self.coefficients.mean.ndim if known else self.coefficients.ndim
        check(rank == 1, "coefficients", "a vector or one Gaussian", f"{rank} axes")

    def __call__(self, x: Array) -> Array:
        beta = self.coefficients
        return self.basis(x) @ (beta.mean if isinstance(beta, Gaussian) else beta)

    def design(self, X: Array) -> Array:
        """The basis functions of each row."""
        return jax.vmap(self.basis)(X)

    def covariance(self, X: Array, Y: Array) -> Array | None:
        if not isinstance(self.coefficients, Gaussian):
            return None
        return self.design(X) @ self.coefficients.cov @ self.design(Y).T

    def variances(self, X: Array) -> Array | None:
        if not isinstance(self.coefficients, Gaussian):
            return None
        rows = self.design(X)
        return ((rows @ self.coefficients.cov) * rows).sum(1)


def as_mean(mean: Any) -> Mean:
    """A `Mean` from None (zero), a number, a function of one point, or a `Mean`."""
    if isinstance(mean, Mean):
        return mean
    if mean is None:
        return ZeroMean()
    if callable(mean):
        return FunctionMean(mean)
    return ConstantMean(mean)
