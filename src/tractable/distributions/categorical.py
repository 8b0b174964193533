r"""The categorical distribution and its maximum likelihood.

Model.       $P(x = k) = \theta_k$. Log-weights are stored, in which a probability of $e^{-800}$ is a number
             like any other.
Likelihood.  $\prod_n \theta_{x_n} = \prod_k \theta_k^{c_k}$; on $\sum_k\theta_k = 1$ its maximum is at
             $\theta_k = c_k/N$, where the gradient $c_k/\theta_k$ is $N$ for every $k$ that was seen (the
             multiplier is $-N$).
Cost.        Elementwise; a draw is one uniform number and a search.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_entries, is_concrete
from tractable.core.module import Module, field
from tractable.core.numerics import log_softmax, logsumexp, xlogy
from tractable.core.support import Support, integer_range, log_weights, nonnegative, simplex
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.atoms import generalised_inverse, log_of, one_of_probs_or_logits
from tractable.distributions.base import Univariate
from tractable.distributions.expfam import ExponentialFamily

__all__ = ["Categorical", "CategoricalFit", "categorical_mle", "grouped_log_likelihood"]


class Categorical(Univariate, ExponentialFamily):
    r"""$P(x = k) = \theta_k$ for $k = 0, \dots, K - 1$; `Categorical(theta)` or
    `Categorical(logits=log_weights)`.

    The log-weights need not be normalised. `mean` and `variance` are those of the label as a number. The
    statistics are the one-hot code of the label, along one more axis.
    """

    logits: Float[Array, "... k"] = field(support=log_weights)

    def __init__(
        self, probs: ArrayLike | Sequence | None = None, *, logits: ArrayLike | Sequence | None = None
    ):
        self.logits = one_of_probs_or_logits(probs, logits, simplex, log_of)

    @property
    def log_probs(self) -> Array:
        r"""$\log\theta$ along the last axis."""
        return log_softmax(self.logits)

    @property
    def probs(self) -> Array:
        r"""$\theta$ along the last axis."""
        return jnp.exp(self.log_probs)

    @property
    def num_categories(self) -> int:
        """The number $K$ of labels."""
        return self.logits.shape[-1]

    @property
    def support(self) -> Support:
        return integer_range(0, self.num_categories - 1)

    def _log_prob(self, x):
        return jnp.take_along_axis(self.log_probs, x[..., None].astype(int), -1)[..., 0]

    def _sample(self, key, n):
        u = jr.uniform(key, n, self.logits.dtype, jnp.finfo(self.logits.dtype).tiny)
        return generalised_inverse(jnp.cumsum(self.probs, -1), u)

    def _labels(self):
        return jnp.arange(self.num_categories, dtype=self.logits.dtype).reshape(
            (1,) * (self.logits.ndim - 1) + (-1,)
        )

    def _mean(self):
        return (self.probs * self._labels()).sum(-1)

    def _variance(self):
        return (self.probs * (self._labels() - self._mean()[..., None]) ** 2).sum(-1)

    def _entropy(self):
        possible = self.log_probs > -jnp.inf
        return -(self.probs * jnp.where(possible, self.log_probs, 0.0)).sum(-1)

    def _mode(self):
        best = self.logits == self.logits.max(-1, keepdims=True)
        return jnp.where(best.sum(-1) == 1, self.logits.argmax(-1), jnp.nan)

    def _at(self, values, x):
        return jnp.take_along_axis(values, x[..., None].astype(int), -1)[..., 0]

    def _cdf(self, x):
        return self._at(jnp.cumsum(self.probs, -1), x)

    def _survival(self, x):
        beyond = jnp.cumsum(self.probs[..., ::-1], -1)[..., ::-1]
        return self._at(beyond, x + 1)  # never at the last label, which the base answers

    def _icdf(self, p):
        return generalised_inverse(jnp.cumsum(self.probs, -1), p).astype(p.dtype)

    @property
    def natural(self):
        return (self.logits,)

    def stats(self, x):
        return (jax.nn.one_hot(x.astype(int), self.num_categories, dtype=self.logits.dtype),)

    def log_base(self, x):
        return jnp.zeros_like(x)

    def log_normaliser(self, natural):
        return logsumexp(natural[0], axis=-1)

    def from_natural(self, natural):
        return Categorical(logits=natural[0])

    def from_stats(self, mean_stats):
        return Categorical(mean_stats[0])


class CategoricalFit(Module):
    """Maximum likelihood of a categorical: the fit, and the labels that it makes impossible."""

    distribution: Categorical
    counts: Float[Array, "..."]
    log_likelihood: Scalar

    @property
    def unseen(self) -> tuple[int, ...]:
        r"""The labels with a count of zero: $\theta_k = 0$, so that new data which hold one have
        log-likelihood $-\infty$."""
        return tuple(int(k) for k in np.flatnonzero(np.asarray(self.counts) == 0))

    @property
    def verdict(self) -> Verdict:
        """Whether every label was seen."""
        said = f"Labels {list(self.unseen)} were never seen and are impossible." if self.unseen else "Exact."
        return Verdict(not self.unseen, said, {"unseen": self.unseen})


def categorical_mle(counts: ArrayLike | Sequence) -> CategoricalFit:
    r"""Maximum likelihood $\theta_k = c_k/N$ from the count of each label.

    >>> fit = categorical_mle([3, 1, 0])
    >>> fit.distribution.probs.round(9).tolist(), fit.unseen
    ([0.75, 0.25, 0.0], (2,))
    """
    counts = _counts(counts)
    distribution = Categorical(counts / counts.sum())
    return CategoricalFit(distribution, counts, grouped_log_likelihood(distribution, counts))


def grouped_log_likelihood(distribution: Categorical, counts: ArrayLike | Sequence) -> Scalar:
    r"""$\sum_k c_k \log\theta_k$ with $0\log 0 = 0$: the log-likelihood of a sequence from its counts."""
    counts = _counts(counts)
    labels = distribution.num_categories
    must = f"of shape ({labels},), one for each label"
    check(counts.shape == (labels,), "counts", must, f"shape {counts.shape}")
    return xlogy(counts, distribution.probs).sum()


def _counts(counts: Any) -> Array:
    counts = as_float("counts", counts)
    must = "a vector with one entry per label"
    check(counts.ndim == 1 and counts.size > 0, "counts", must, f"shape {counts.shape}")
    if is_concrete(counts):
        check_entries("counts", counts, nonnegative.contains, nonnegative.words)
        check(
            float(counts.sum()) > 0, "counts", "positive in total", "zeros", "Give at least one observation."
        )
    return counts
