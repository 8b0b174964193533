r"""Likelihoods of a label given the value of a function, for one label $s \in \{-1, +1\}$.

Logistic.    $p(s \mid f) = \sigma(s f)$.
Probit.      $p(s \mid f) = \Phi(s f)$; averaged over $f \sim N(\mu, v)$ it is $\Phi(s\mu/\sqrt{1 + v})$.
Averages.    The trapezoidal rule on the line, which converges geometrically for smooth functions: to rounding
             for standard deviations up to about 20.
Cost.        341 evaluations per average.
References.  Rasmussen and Williams (2006) section 3.3; Trefethen and Weideman (2014).
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from scipy.special import ndtr

from tractable.core.checks import check_option, has_values
from tractable.core.module import Module
from tractable.core.numerics import log_sigmoid
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.inference.curvature.moderated import moderated_probability

__all__ = ["Link", "Logistic", "Probit", "as_link", "average", "nodes"]

_STEP, _REACH = 0.05, 8.5
_PLACES = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
_WEIGHTS = _STEP * np.exp(-0.5 * _PLACES**2) / np.sqrt(2 * np.pi)


class Link(Module):
    """The log-probability of a sign given the function, and its average over a normal function."""

    @abstractmethod
    def log_prob(self, sign: Scalar, value: Scalar) -> Scalar:
        """The log-probability of one sign."""

    @abstractmethod
    def _probability(self, mean: np.ndarray, variance: np.ndarray) -> Any:
        """`probability` where there are values."""

    def probability(self, mean: ArrayLike, variance: ArrayLike) -> Any:
        """The probability of $+1$ for each normal value of the function."""
        if has_values((mean, variance)):
            return self._probability(np.asarray(mean), np.asarray(variance))
        one = jnp.ones((), jnp.asarray(mean).dtype)
        averaged = jax.vmap(lambda m, v: average(lambda f: jnp.exp(self.log_prob(one, f)), m, v))
        return averaged(jnp.asarray(mean), jnp.asarray(variance))

    def slope(self, sign: Scalar, value: Scalar) -> Scalar:
        """The first derivative of the log-probability by the function."""
        return jax.grad(self.log_prob, argnums=1)(sign, value)

    def curvature(self, sign: Scalar, value: Scalar) -> Scalar:
        """Minus the second derivative, which is positive: the log-probability is concave."""
        return -jax.grad(self.slope, argnums=1)(sign, value)


class Logistic(Link):
    r"""$p(s \mid f) = 1/(1 + e^{-sf})$."""

    def log_prob(self, sign: Scalar, value: Scalar) -> Scalar:
        return log_sigmoid(sign * value)

    def _probability(self, mean: np.ndarray, variance: np.ndarray) -> Any:
        return moderated_probability(mean, variance)


class Probit(Link):
    r"""$p(s \mid f) = \Phi(sf)$."""

    def log_prob(self, sign: Scalar, value: Scalar) -> Scalar:
        return log_ndtr(sign * value)

    def _probability(self, mean: np.ndarray, variance: np.ndarray) -> Any:
        return ndtr(mean / np.sqrt(1 + variance))


def as_link(link: Link | str) -> Link:
    """A `Link` from itself or its name, "logistic" or "probit"."""
    if isinstance(link, Link):
        return link
    check_option("link", link, ("logistic", "probit"))
    return Logistic() if link == "logistic" else Probit()


def nodes(mean: Scalar, variance: Scalar) -> tuple[Float[Array, " q"], Float[Array, " q"]]:
    """Values of a normal variable and the weights of an average over it."""
    return mean + jnp.sqrt(variance) * jnp.asarray(_PLACES, mean.dtype), jnp.asarray(_WEIGHTS, mean.dtype)


def average(function: Callable[[Scalar], Scalar], mean: Scalar, variance: Scalar) -> Scalar:
    """The mean of a function of a normal variable."""
    values, weights = nodes(mean, variance)
    return weights @ jax.vmap(function)(values)
