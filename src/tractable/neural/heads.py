r"""What the outputs of a network say of a number: a normal law, a mixture of them, or quantiles.

Normal.      Two outputs, $\mu$ and $\log\sigma^2$: noise that changes with the row.
Mixture.     $3K$ outputs: logits, means and log-variances of $K$ normals, which start apart: laws of several
             modes.
Quantiles.   $m$ outputs: the least quantile, and softplus steps up to the others, so that none cross. The
             loss is the mean of $\max(\tau r, (\tau - 1)r)$ over the levels, $r = y - q_\tau$; beyond the
             last levels the law has exponential tails through the last two quantiles.
Least.       No variance is below $\sigma_0^2$ = `least` (in units of the target's own): a row that is met
             exactly would have an infinite density.
Cost.        $O(K)$ or $O(m)$ per row.
References.  Nix and Weigend (1994); Bishop (1994), "Mixture density networks"; Koenker and Bassett (1978).
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from tractable.core.checks import check, check_count, namespace, to_device
from tractable.core.module import Module, field
from tractable.core.numerics import softplus
from tractable.core.types import Array, Float, Scalar, Values
from tractable.distributions.continuous import Normal
from tractable.distributions.normal_mixture import NormalMixture
from tractable.neural.bayes.likelihoods import NormalHead
from tractable.supervised.quantile.law import QuantileLaw

__all__ = ["MixtureOutputs", "NormalOutputs", "NumberOutputs", "QuantileOutputs"]

_LEVELS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)


class NumberOutputs(Module):
    """The outputs of a network for one number: their loss, and the law of each row."""

    @property
    @abstractmethod
    def num_outputs(self) -> int:
        """How many outputs the network has."""

    @abstractmethod
    def loss(self, output: Float[Array, " m"], target: Scalar) -> Scalar:
        """The loss of one row."""

    def means(self, outputs: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " n"]:
        """The mean of each row's law, on the host."""
        return np.asarray(self.law(outputs, 0.0, 1.0).mean)

    @abstractmethod
    def law(self, outputs: Float[np.ndarray, "n m"], centre: float, size: float) -> Any:
        """The law of `centre + size y` for each row, from outputs for $y$."""


class NormalOutputs(NumberOutputs):
    """A mean and a log-variance."""

    least: float = field(static=True, default=0.01)

    @property
    def num_outputs(self) -> int:
        return 2

    def loss(self, output, target):
        return -NormalHead().log_prob(jnp.stack([output[0], _raised(output[1], self.least)]), target)

    def means(self, outputs):
        return outputs[:, 0]

    def law(self, outputs, centre, size):
        scale = np.exp(0.5 * np.asarray(_raised(outputs[:, 1], self.least)))
        return Normal(to_device(centre + size * outputs[:, 0]), to_device(size * scale))


class MixtureOutputs(NumberOutputs):
    """Logits, means and log-variances of a mixture of normals."""

    num_components: int = field(static=True, default=3)
    least: float = field(static=True, default=0.01)

    def __check_init__(self) -> None:
        check_count("num_components", self.num_components)

    @property
    def num_outputs(self) -> int:
        return 3 * self.num_components

    def loss(self, output, target):
        return -NormalMixture(*self._parts(output))._log_prob(target)

    def means(self, outputs):
        weights, loc, _ = self._parts(outputs)
        return (weights * loc).sum(1)

    def law(self, outputs, centre, size):
        weights, loc, scale = self._parts(outputs)
        return NormalMixture(*(to_device(part) for part in (weights, centre + size * loc, size * scale)))

    def _parts(self, outputs: Values) -> tuple[Values, Values, Values]:
        xp = namespace(outputs)
        logits, loc, raw = xp.split(outputs, 3, axis=-1)
        shares = scipy.special.softmax(logits, axis=-1) if xp is np else jax.nn.softmax(logits)
        k = self.num_components
        apart = scipy.special.ndtri((np.arange(k) + 0.5) / k)  # equal components would learn the same
        return shares, loc + xp.asarray(apart, outputs.dtype), xp.exp(0.5 * _raised(raw, self.least))


class QuantileOutputs(NumberOutputs):
    """Quantiles at some levels, in order."""

    levels: tuple[float, ...] = field(static=True, default=_LEVELS)

    def __check_init__(self) -> None:
        tau = np.asarray(self.levels)
        rising = len(tau) > 1 and tau[0] > 0 and tau[-1] < 1 and (np.diff(tau) > 0).all()
        check(bool(rising), "levels", "at least two rising numbers between 0 and 1", self.levels)

    @property
    def num_outputs(self) -> int:
        return len(self.levels)

    def loss(self, output, target):
        tau = jnp.asarray(self.levels, output.dtype)
        residual = target - self._places(output)
        return jnp.maximum(tau * residual, (tau - 1) * residual).mean()

    def law(self, outputs, centre, size):
        places = centre + size * self._places(outputs)
        places = np.maximum.accumulate(places, axis=1)  # steps below rounding
        tau = np.asarray(self.levels)
        left = (places[:, 1] - places[:, 0]) / np.log(tau[1] / tau[0])
        right = (places[:, -1] - places[:, -2]) / np.log((1 - tau[-2]) / (1 - tau[-1]))
        return QuantileLaw.of(tau, places, left, right)

    def _places(self, outputs: Values) -> Values:
        """About the middle one, to which the first output belongs: it starts at the centre of the target."""
        xp = namespace(outputs)
        raw = outputs[..., 1:] - 1.0
        steps = xp.cumsum(np.logaddexp(0.0, raw) if xp is np else softplus(raw), axis=-1)
        whole = xp.concatenate([xp.zeros_like(steps[..., :1]), steps], axis=-1)
        middle = whole[..., len(self.levels) // 2][..., None]
        return outputs[..., :1] + whole - middle


def _raised(log_variance: Any, least: float) -> Any:
    """The logarithm of the variance and the least one together."""
    xp = namespace(log_variance)
    return xp.logaddexp(log_variance, xp.asarray(2 * np.log(least), log_variance.dtype))
