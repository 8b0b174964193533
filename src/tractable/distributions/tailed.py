r"""Families known by the logarithms of their two tails: distribution functions and, for counts, quantiles.

Contract.    A family states $\log P(X \le k)$ and $\log P(X > k)$; the quantile is the least $k$ with $P(X
             \le k) \ge p$.
Cost.        A quantile takes about eight evaluations of the tails.
"""

from abc import abstractmethod

import jax.numpy as jnp
from jax.scipy.special import ndtri

from tractable.core.checks import check, is_concrete
from tractable.core.support import Support, counts
from tractable.core.types import Array, ArrayLike
from tractable.distributions.base import Univariate
from tractable.distributions.quantile import invert_counts

__all__ = ["Counts", "Tailed", "check_success_possible"]


class Tailed(Univariate):
    """A distribution on the line known by the logarithms of its two tails."""

    @abstractmethod
    def _tails(self, x: Array) -> tuple[Array, Array]:
        """log P(X <= x) and log P(X > x) for x below the greatest value."""

    def _cdf(self, x):
        return jnp.exp(self._tails(x)[0])

    def _survival(self, x):
        return jnp.exp(self._tails(x)[1])

    def _log_cdf(self, x):
        return self._tails(x)[0]

    def _log_survival(self, x):
        return self._tails(x)[1]


class Counts(Tailed):
    """A distribution on whole numbers from zero."""

    @property
    def support(self) -> Support:
        return counts

    @property
    def _greatest(self) -> ArrayLike:
        return jnp.inf

    def _icdf(self, p):
        return self._solve(p, 1 - p, (0.0, 4 * float(jnp.finfo(p.dtype).eps)))

    def _inverse_survival(self, q):
        return self._solve(1 - q, q, (4 * float(jnp.finfo(q.dtype).eps), 0.0))

    def _at_shares(self, p, q):
        return self._solve(p, q, (0.0, 0.0))

    def _solve(self, p, q, rounding):
        normal = jnp.where(p < q, ndtri(p), -ndtri(q))
        start = self._mean() + jnp.sqrt(self._variance()) * normal
        return invert_counts(self._tails, p, q, rounding, self._greatest, start)


def check_success_possible(probs: Array) -> None:
    """Check that a probability of success is positive."""
    if is_concrete(probs):
        check(bool((probs > 0).all()), "probs", "positive", "0.0", "A success must be possible.")
