r"""Noise of a Gaussian process: the variance of a target about the function, written for one point.

Models.      $y = f(x) + \epsilon$, $\epsilon \sim N(0, \sigma^2(x))$: one variance, one that grows
             log-linearly with the inputs, or one for each row of the data.
Cost.        Elementwise.
References.  Rasmussen and Williams (2006) section 2.2; Goldberg, Williams and Bishop (1998).
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module, field
from tractable.core.support import nonnegative, positive, real
from tractable.core.types import Array, Float, Values

__all__ = ["ConstantNoise", "LogLinearNoise", "Noise", "RowNoise", "as_noise"]


class Noise(Module):
    """The variance of the noise at each row."""

    def variances(self, X: Values) -> Array:
        """The variance at each training row, and anything for the rows of padding behind them."""
        return self.at(X)

    @abstractmethod
    def at(self, X: Values) -> Array:
        """The variance at rows that may be new."""


class ConstantNoise(Noise):
    r"""$\sigma^2$ = `variance` + `floor` everywhere; zero for targets that are the function itself.

    A `floor` keeps an optimiser away from the singular covariance of data without noise.
    """

    variance: Float[Array, ""] = field(support=nonnegative, default=0.0)
    floor: float = field(static=True, default=0.0)

    def at(self, X: Values) -> Array:
        return jnp.full(X.shape[0], self.variance + self.floor, X.dtype)


class LogLinearNoise(Noise):
    r"""$\log\sigma^2(x) = \log v + s^\top x$ with $v$ = `variance`, $s$ = `slopes`."""

    variance: Float[Array, ""] = field(support=positive)
    slopes: Float[Array, " d"] = field(support=real, rank=1)

    def at(self, X: Values) -> Array:
        return self.variance * jnp.exp(X @ self.slopes)


class RowNoise(Noise):
    """A known variance for each row of the data; new rows need theirs at prediction (`noise=`)."""

    known: Float[Array, " n"] = field(support=nonnegative, rank=1)

    def variances(self, X: Values) -> Array:
        count = self.known.shape[0]
        check(count <= X.shape[0], "noise", f"one variance per row (at most {X.shape[0]})", count)
        padded = jnp.concatenate([self.known, jnp.ones(X.shape[0] - count, self.known.dtype)])
        return jax.lax.stop_gradient(padded)

    def at(self, X: Values) -> Array:
        fix = "Pass `noise=` to the prediction, or ask for `latent`."
        check(False, "noise", "known at the new rows", "one variance per training row only", fix)
        return self.known


def as_noise(noise: Any) -> Noise:
    """A `Noise` from a variance, a vector with one per row, or a `Noise`."""
    if isinstance(noise, Noise):
        return noise
    return RowNoise(noise) if np.ndim(noise) == 1 else ConstantNoise(noise)
