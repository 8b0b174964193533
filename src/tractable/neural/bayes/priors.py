r"""Priors of the weights of a network, whose negative logarithms are the penalties of a regularised fit.

Normal.      $w_i \sim N(0, 1/(\alpha_g b_i))$: $b_i$ is the fan-in of a weight and one for a bias, so that at
             $\alpha = 1$ a layer neither widens nor narrows what it is given; one factor $\alpha_g$ for each
             layer $g$, by default that of the highest evidence. $-\log p$ is the L2 penalty.
Laplace.     $w_i \sim \mathrm{Laplace}(0, 1/\lambda)$; $-\log p$ is the L1 penalty $\lambda\sum_i|w_i|$.
Mixture.     $\pi N(0, \sigma_1^2) + (1 - \pi) N(0, \sigma_2^2)$, a wide and a narrow normal: most weights
             are close to zero, some are not.
Cost.        One pass over the weights.
References.  MacKay (1992); Neal (1996) for the scale of wide layers; Blundell et al. (2015) for the mixture.
"""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import Rebuild
from tractable.core.checks import as_float, check, check_option
from tractable.core.module import Module, field
from tractable.core.support import positive, unit_interval
from tractable.core.types import Array, Float, Int, Scalar

__all__ = ["LaplaceWeights", "NormalWeights", "ScaleMixtureWeights", "WeightPrior", "as_prior", "layers_of"]

_LOG_2PI = float(np.log(2 * np.pi))


class WeightPrior(Module):
    """A density of the flat weights, independent over them."""

    tuned: bool = field(static=True, default=False, kw_only=True)

    @abstractmethod
    def log_probs(self, weights: Float[Array, " p"]) -> Float[Array, " p"]:
        """The log-density of each weight."""

    def log_prob(self, weights: Float[Array, " p"]) -> Scalar:
        """The log-density of all of them; its negative is the penalty of a fit."""
        return self.log_probs(weights).sum()


class NormalWeights(WeightPrior):
    r"""$N(0, 1/(\alpha_g b_i))$: $\alpha$ = `factor`, $b$ = `base`, `layer` is the $g$ of each weight."""

    factor: Float[Array, " g"] = field(support=positive, rank=1)
    base: Float[Array, " p"] = field(show=False)
    layer: Int[Array, " p"] = field(show=False)

    @property
    def precision(self) -> Float[Array, " p"]:
        """The precision of each weight."""
        return self.factor[self.layer] * self.base

    def log_probs(self, weights):
        precision = self.precision
        return 0.5 * (jnp.log(precision) - precision * weights**2 - _LOG_2PI)


class LaplaceWeights(WeightPrior):
    r"""$\frac\lambda2 e^{-\lambda|w|}$ with $\lambda$ = `rate`.

    >>> LaplaceWeights(2.0).log_probs(jnp.array([0.0, -1.0])).tolist()
    [0.0, -2.0]
    """

    rate: Float[Array, ""] = field(support=positive)

    def log_probs(self, weights):
        return jnp.log(self.rate / 2) - self.rate * jnp.abs(weights)


class ScaleMixtureWeights(WeightPrior):
    r"""$\pi N(0, \sigma_1^2) + (1 - \pi)N(0, \sigma_2^2)$ with $\pi$ = `share` of the `wide` one."""

    share: Float[Array, ""] = field(support=unit_interval, default=0.5)
    wide: Float[Array, ""] = field(support=positive, default=1.0)
    narrow: Float[Array, ""] = field(support=positive, default=0.0025)

    def log_probs(self, weights):
        def part(share, scale):
            return jnp.log(share) - 0.5 * (weights / scale) ** 2 - jnp.log(scale) - 0.5 * _LOG_2PI

        return jnp.logaddexp(part(self.share, self.wide), part(1 - self.share, self.narrow))


def layers_of(rebuild: Rebuild) -> tuple[np.ndarray, np.ndarray]:
    """The layer of each weight (what holds its array) and its fan-in.

    The fan-in of an array of two or more axes `(out, in, ...)` is the product of all but the first.
    """
    names: list[str] = []
    layer, fan_in = [], []
    for slot in rebuild.slots:
        name = slot.path.rpartition(".")[0]
        if name not in names:
            names.append(name)
        layer.append(np.full(slot.size, names.index(name)))
        fan_in.append(np.full(slot.size, float(np.prod(slot.shape[1:])) if len(slot.shape) > 1 else 1.0))
    return np.concatenate(layer), np.concatenate(fan_in)


def as_prior(prior: Any, rebuild: Rebuild) -> WeightPrior:
    """The prior that a word or a number stands for: "layers" and "equal" are tuned by the evidence, a number
    is the precision of every weight."""
    if isinstance(prior, WeightPrior):
        if isinstance(prior, NormalWeights):
            check(prior.base.size == rebuild.size, "prior", f"of {rebuild.size} weights", prior.base.size)
        return prior
    layer, fan_in = layers_of(rebuild)
    if isinstance(prior, str):
        check_option("prior", prior, ("fan_in", "layers", "equal"))
        layer = layer if prior == "layers" else np.zeros(layer.size, int)
        base = np.ones(layer.size) if prior == "equal" else fan_in
        return NormalWeights(jnp.ones(layer.max() + 1), jnp.asarray(base), jnp.asarray(layer), tuned=True)
    factor = as_float("prior", prior)
    check(factor.ndim == 0, "prior", "a word, a precision or a prior of weights", f"shape {factor.shape}")
    return NormalWeights(factor[None], jnp.ones(layer.size), jnp.zeros(layer.size, int))
