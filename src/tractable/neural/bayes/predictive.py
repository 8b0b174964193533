r"""What a network with uncertain weights predicts: a distribution for each row, and where its width is from.

Draws.       $p(y \mid x, D) \approx \frac1S\sum_s p(y \mid f_{w_s}(x))$: a mixture of normals, or mean
             probabilities.
Linearised.  $f(x) \sim N(f_{w_0}(x), J A^{-1} J^\top)$: numbers get $\sigma^2$ added; for two classes the
             sigmoid is integrated to rounding, for more by 512 even points of the Gaussian (to about .002).
Shares.      Aleatoric: what noise leaves open, $E_w \mathrm{Var}[y \mid w]$ or $E_w H[p(y \mid w)]$.
             Epistemic: the rest, which more data would settle; its share is the score of rows out of
             distribution.
Cost.        $S$ passes of the network per row, or $m$ gradients and solves with $A$.
References.  Depeweg et al. (2018); Immer, Korzepa and Bauer (2021) for the linearised predictive.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import entr, ndtri, softmax

from tractable.core.checks import as_float, check, to_device
from tractable.core.chunks import pad_rows
from tractable.core.module import field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float
from tractable.distributions.categorical import Categorical
from tractable.distributions.continuous import Normal
from tractable.distributions.normal_mixture import NormalMixture
from tractable.inference.curvature.moderated import moderated_probability
from tractable.inference.trust.uncertainty import UncertaintySplit, split_entropy, split_variance
from tractable.neural.bayes.likelihoods import LogitClasses, NormalHead, OutputDensity
from tractable.supervised.selection.uncertainty import Interval, Prediction

__all__ = ["NetworkPrediction", "mixture_prediction", "normal_prediction"]

_POINTS = 512  # that stand for a Gaussian of outputs


class NetworkPrediction(Prediction):
    """The distribution of each row's target, and the aleatoric and epistemic parts of its uncertainty.

    They are variances for numbers, entropies for classes; both add to the total.
    """

    split: UncertaintySplit = field(show=False)

    @property
    def aleatoric(self) -> np.ndarray:
        return np.asarray(self.split.aleatoric)

    @property
    def epistemic(self) -> np.ndarray:
        return np.asarray(self.split.epistemic)

    @property
    def novelty(self) -> np.ndarray:
        """The epistemic share of the uncertainty, between 0 and 1: high for rows unlike those of the fit."""
        total = np.asarray(self.split.total)
        return np.where(total > 0, self.epistemic / np.where(total > 0, total, 1.0), 0.0)

    @property
    def probs(self) -> np.ndarray:
        """The probability of each class."""
        known = isinstance(self.distribution, Categorical)
        check(known, "probs", "asked of classes", type(self.distribution).__name__)
        return softmax(np.asarray(self.distribution.logits), axis=-1)

    @property
    def num_rows(self) -> int:
        return self.split.aleatoric.shape[0]

    def log_prob(self, targets: ArrayLike) -> np.ndarray:
        """The log-density of a target for each row."""
        y = as_float("targets", targets)
        shape = (self.num_rows,)
        check(y.shape == shape, "targets", f"one per row {shape}", f"shape {y.shape}")
        (law, values), _ = pad_rows((self.distribution, y))
        return np.asarray(_by_row(law, values))[: y.size]

    def interval(self, level: float = 0.95) -> Interval:
        check(0 < level < 1, "level", "between 0 and 1", level)
        law, count = pad_rows(self.distribution)[0], self.num_rows
        return Interval(*(np.asarray(law.icdf(p))[:count] for p in ((1 - level) / 2, (1 + level) / 2)))


@program
def _by_row(distribution: Any, y: Float[Array, " n"]) -> Float[Array, " n"]:
    """The log-density of each row by itself."""
    return jax.vmap(lambda own, value: own.log_prob(value))(distribution, y)


def mixture_prediction(density: OutputDensity, outputs: Float[Array, "s n m"]) -> NetworkPrediction:
    """The average over draws of the weights, from the outputs of each."""
    if isinstance(density, LogitClasses):
        return _of_probs(_probs(density, outputs))
    means = outputs[..., 0]
    if isinstance(density, NormalHead):
        scales = jnp.exp(0.5 * outputs[..., 1])
    else:
        scales = jnp.broadcast_to(density.precision**-0.5, means.shape)
    shares = jnp.full((means.shape[1], means.shape[0]), 1 / means.shape[0])
    return NetworkPrediction(NormalMixture(shares, means.T, scales.T), split_variance(means, scales**2))


def normal_prediction(density: OutputDensity, mean: Any, cov: Any) -> NetworkPrediction:
    """The average over a Gaussian of the outputs of each row: means `(n, m)`, covariances `(n, m, m)`."""
    mean, cov = np.asarray(mean), np.asarray(cov)
    if not isinstance(density, LogitClasses):
        noise, spread = 1 / float(density.precision), cov[:, 0, 0]
        split = UncertaintySplit(to_device(np.full(spread.shape, noise)), to_device(spread))
        return NetworkPrediction(Normal(to_device(mean[:, 0]), to_device(np.sqrt(noise + spread))), split)
    (means, covs), _ = pad_rows((mean, cov))
    found = _of_probs(_probs(density, _points(means, covs, to_device(_rule(mean.shape[1])))), len(mean))
    if mean.shape[1] > 1:
        return found
    one = np.asarray(moderated_probability(mean[:, 0], cov[:, 0, 0]))
    probs = np.stack([1 - one, one], axis=1)
    aleatoric = np.asarray(found.split.aleatoric)
    split = UncertaintySplit(found.split.aleatoric, to_device(entr(probs).sum(1) - aleatoric))
    return NetworkPrediction(_labels(probs), split)


def _labels(probs: np.ndarray) -> Categorical:
    with np.errstate(divide="ignore"):  # an impossible class has minus infinity
        return Categorical(logits=to_device(np.log(probs)))


def _of_probs(probs: Float[Array, "s n k"], count: int | None = None) -> NetworkPrediction:
    """From the probabilities of each draw, of the first `count` rows."""
    split = jax.tree.map(lambda part: to_device(np.asarray(part)[:count]), split_entropy(probs))
    return NetworkPrediction(_labels(np.asarray(probs).mean(0)[:count]), split)


@program
def _probs(density: LogitClasses, outputs: Float[Array, "s n m"]) -> Float[Array, "s n k"]:
    return jnp.exp(jax.vmap(jax.vmap(density.log_probs))(outputs))


def _rule(size: int) -> np.ndarray:
    """Points of equal weight for a standard normal: quantiles of one number, else a Sobol sequence."""
    if size == 1:
        return ndtri((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
    from scipy.stats import qmc

    return ndtri(qmc.Sobol(size, rng=0).random(_POINTS))


@program
def _points(
    mean: Float[Array, "n m"], cov: Float[Array, "n m m"], z: Float[Array, "s m"]
) -> Float[Array, "s n m"]:
    """Points of equal weight for each row's Gaussian."""
    values, vectors = jnp.linalg.eigh(cov)
    # a covariance is a sum of squares: an eigenvalue below zero is the rounding of zero
    root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]
    return mean[None] + jnp.einsum("nij,sj->sni", root, z)
