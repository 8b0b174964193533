r"""Finite distributions over labels and given numbers: Bernoulli, discrete uniform, categorical, atoms.

Models.      $P(x) = \mu^x(1 - \mu)^{1-x}$, stored as log-odds; $P(x) = 1/(b - a + 1)$. The categorical is in
             `categorical`; `PointMass`, `Finite` and `Empirical` are in `atoms`.
Likelihood.  Of $m$ ones in $N$: $m\log\mu + (N - m)\log(1 - \mu)$, with its maximum at $\mu = m/N$
             (`from_stats`).
Cost.        Elementwise.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check_entries
from tractable.core.module import field
from tractable.core.numerics import log_sigmoid, sigmoid, softplus
from tractable.core.support import IntegerRange, Support, extended_real, integer_range, unit_interval
from tractable.core.types import Array, ArrayLike, Float
from tractable.distributions.atoms import Empirical, Finite, PointMass, log_odds, one_of_probs_or_logits
from tractable.distributions.base import Univariate, check_ordered
from tractable.distributions.categorical import (
    Categorical,
    CategoricalFit,
    categorical_mle,
    grouped_log_likelihood,
)
from tractable.distributions.expfam import ExponentialFamily

__all__ = [
    "Bernoulli", "Categorical", "CategoricalFit", "DiscreteUniform", "Empirical", "Finite", "PointMass",
    "categorical_mle", "grouped_log_likelihood",
]  # fmt: skip

_WHOLE = IntegerRange(-np.inf, np.inf)


class Bernoulli(Univariate, ExponentialFamily):
    r"""$P(x) = \mu^x(1 - \mu)^{1-x}$ for $x \in \{0, 1\}$.

    `Bernoulli(mu)` or `Bernoulli(logits=log(mu / (1 - mu)))`.
    """

    logits: Float[Array, "..."] = field(support=extended_real)

    def __init__(
        self, probs: ArrayLike | Sequence | None = None, *, logits: ArrayLike | Sequence | None = None
    ):
        self.logits = one_of_probs_or_logits(probs, logits, unit_interval, log_odds)

    @property
    def probs(self) -> Array:
        r"""$\mu = P(x = 1)$."""
        return sigmoid(self.logits)

    @property
    def support(self) -> Support:
        return integer_range(0, 1)

    def _log_prob(self, x):
        if self.logits.size < x.size:  # both logarithms are found once, not at every point
            return jnp.where(x == 1, log_sigmoid(self.logits), log_sigmoid(-self.logits))
        return log_sigmoid(jnp.where(x == 1, self.logits, -self.logits))

    def _sample(self, key, n):
        return jr.bernoulli(key, self.probs, n).astype(int)

    def _mean(self):
        return self.probs

    def _variance(self):
        return self.probs * sigmoid(-self.logits)

    def _entropy(self):
        size = jnp.abs(self.logits)
        certain = jnp.isinf(size)
        size = jnp.where(certain, 0.0, size)
        return jnp.where(certain, 0.0, softplus(-size) + size * sigmoid(-size))

    def _mode(self):
        return jnp.where(self.logits == 0, jnp.nan, (self.logits > 0).astype(self.logits.dtype))

    def _cdf(self, x):
        return sigmoid(-self.logits)

    def _survival(self, x):
        return self.probs

    def _log_cdf(self, x):
        return log_sigmoid(-self.logits)

    def _log_survival(self, x):
        return log_sigmoid(self.logits)

    def _icdf(self, p):
        slack = 1 - 8 * jnp.finfo(p.dtype).eps
        return (sigmoid(-self.logits) < p * slack).astype(p.dtype)

    def _inverse_survival(self, q):
        slack = 1 + 8 * jnp.finfo(q.dtype).eps
        return (self.probs > q * slack).astype(q.dtype)

    @property
    def natural(self):
        return (self.logits,)

    def stats(self, x):
        return (x,)

    def log_base(self, x):
        return jnp.zeros_like(x)

    def log_normaliser(self, natural):
        return softplus(natural[0])

    def from_natural(self, natural):
        return Bernoulli(logits=natural[0])

    def from_stats(self, mean_stats):
        return Bernoulli(mean_stats[0])


class DiscreteUniform(Univariate):
    r"""$P(x) = 1/(b - a + 1)$ for the whole numbers $a \le x \le b$, $a$ = `low`, $b$ = `high`: a die is (1,
    6)."""

    low: Float[Array, "..."] = field(support=_WHOLE)
    high: Float[Array, "..."] = field(support=_WHOLE)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_ordered(self.low, self.high, strict=False)
        integers = jnp.iinfo(jnp.result_type(int))

        def drawn(value):
            return abs(value) < 2.0 ** (integers.bits - 1)

        for name, end in (("low", self.low), ("high", self.high)):
            check_entries(name, end, drawn, f"a whole number that {integers.bits} bits hold")

    @property
    def support(self) -> Support:
        return integer_range(self.low, self.high)

    @property
    def _count(self):
        return self.high - self.low + 1

    def _log_prob(self, x):
        return -jnp.log(self._count)

    def _sample(self, key, n):
        return jr.randint(key, n, self.low.astype(int), self.high.astype(int) + 1, jnp.asarray(0).dtype)

    def _mean(self):
        return self.low / 2 + self.high / 2

    def _variance(self):
        return (self._count - 1) * (self._count + 1) / 12

    def _entropy(self):
        return jnp.log(self._count)

    def _mode(self):
        return jnp.where(self._count == 1, self.low, jnp.nan)

    def _cdf(self, x):
        return (x - self.low + 1) / self._count

    def _survival(self, x):
        return (self.high - x) / self._count

    def _icdf(self, p):
        slack = 1 - 8 * jnp.finfo(p.dtype).eps
        return jnp.clip(self.low + jnp.ceil(p * self._count * slack) - 1, self.low, self.high)
