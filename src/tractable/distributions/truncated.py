r"""Any univariate distribution between two bounds.

Model.       $p(x) = p_0(x)/Z$ for $l \le x \le h$, both bounds included, with $Z = P_0(l \le X \le h)$; densities and
             counts alike.
Method.      $\log Z$ is found in the tail that holds the bounds, so that it exists where both distribution functions
             round to one. A draw is the quantile of a uniform number, from the same tail.
Moments.     In closed form for a normal or exponential base; else $E[g(X)] = \int_0^1 g(F^{-1}(u))\,du$ by the double
             exponential rule, or a sum over the whole numbers that carry mass.
Used by.     Censored and bounded data, priors with hard limits.
Cost.        The tails and quantile of the base; 221 quantiles for a moment.
References.  Takahasi and Mori (1974), double exponential quadrature.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, is_concrete
from tractable.core.module import field
from tractable.core.numerics import log1mexp, logdiffexp
from tractable.core.support import IntegerRange, Support, bounded, extended_real, integer_range
from tractable.core.types import Array, Float, Shape
from tractable.distributions.atoms import Atomic, Atoms
from tractable.distributions.base import Univariate, _ends, _tail, check_ordered
from tractable.distributions.continuous import Normal
from tractable.distributions.inverse import invert_cdf
from tractable.distributions.truncated_normal import TruncatedNormal
from tractable.distributions.waiting import Exponential

__all__ = ["Truncated"]

_T = np.arange(-110, 111) * 0.05
_BELOW = 1 / (1 + np.exp(-np.pi * np.sinh(_T)))  # the share of the mass below a node; above it, the mirror image
_RULE = 0.05 * np.pi * np.cosh(_T) * _BELOW * _BELOW[::-1]
_LOG_HALF = -0.6931471805599453
_DEEP = -600.0  # below this log-probability a tail's quantiles are found from its logarithm


class Truncated(Univariate):
    r"""$p(x) \propto p_0(x)$ for $l \le x \le h$ with $p_0$ = `base`, $l$ = `low`, $h$ = `high` (infinite by default).

    A mean or variance that the tail makes infinite is reported as infinite.

    >>> from tractable.distributions.counts import Poisson
    >>> positive_counts = Truncated(Poisson(1.0), low=1)
    >>> round(float(positive_counts.mean), 6)
    1.581977
    """

    base: Univariate
    low: Float[Array, "..."] = field(support=extended_real, default=-np.inf)
    high: Float[Array, "..."] = field(support=extended_real, default=np.inf)

    def __check_init__(self) -> None:
        check(isinstance(self.base, Univariate), "base", "a univariate distribution", type(self.base).__name__)
        check_ordered(self.low, self.high, strict=not self.base.discrete)
        if all(map(is_concrete, jax.tree.leaves(self))):
            some = np.asarray(_units_log_mass(self) > -np.inf)
            fix = "Move the bounds to where `base` has mass."
            check(bool(some.all()), "low", "a bound that leaves mass of `base` below `high`", "no mass", fix)

    @property
    def shape(self) -> Shape:
        return np.broadcast_shapes(self.base.shape, jnp.shape(self.low), jnp.shape(self.high))

    @property
    def support(self) -> Support:
        inner = self.base.support
        if isinstance(inner, Atoms):
            return inner
        first, last = _ends(inner)
        low, high = jnp.maximum(self.low, first), jnp.minimum(self.high, last)
        whole = isinstance(inner, IntegerRange)
        return integer_range(jnp.ceil(low), jnp.floor(high)) if whole else bounded(low, high)

    def expand(self, shape: Shape) -> "Truncated":
        low, high = (jnp.broadcast_to(end, shape) for end in (self.low, self.high))
        return _with(self, self.base.expand(shape), low, high)

    def _aligned(self, ndim: int) -> Any:
        low, high = (jnp.reshape(e, (1,) * (ndim - e.ndim) + e.shape) for e in (self.low, self.high))
        return _with(self, self.base._aligned(ndim), low, high)

    @property
    def _edge(self) -> Array:
        """The greatest number below `low` that a mass can lie on; `low` itself for a density."""
        return jnp.nextafter(self.low, -jnp.inf) if self.base.discrete else self.low

    @property
    def _log_total(self) -> Array:
        return _log_between(self.base, self._edge, self.high)

    def _log_prob(self, x):
        values = self.base._log_prob(x) - self._log_total
        return jnp.where((x >= self.low) & (x <= self.high), values, -jnp.inf)

    def _sample(self, key, n):
        dtype = jnp.result_type(*jax.tree.leaves(self))
        u = jr.uniform(key, n, dtype, jnp.finfo(dtype).tiny)
        return self._at_shares(u, 1 - u).astype(int if isinstance(self.support, IntegerRange) else dtype)

    def _cdf(self, x):
        return jnp.exp(self._log_cdf(x))

    def _survival(self, x):
        return jnp.exp(self._log_survival(x))

    def _log_cdf(self, x):
        inside = _log_between(self.base, jnp.broadcast_to(self._edge, x.shape), jnp.minimum(x, self.high))
        return jnp.where(x < self.low, -jnp.inf, inside - self._log_total)

    def _log_survival(self, x):
        inside = _log_between(self.base, jnp.maximum(x, self._edge), jnp.broadcast_to(self.high, x.shape))
        return jnp.where(x >= self.high, -jnp.inf, inside - self._log_total)

    def _icdf(self, p):
        return self._at_shares(p, 1 - p)

    def _inverse_survival(self, q):
        return self._at_shares(1 - q, q)

    def _at_shares(self, below: Array, above: Array) -> Array:
        """The quantile with the share `below` of the mass below it; the shares add to one, each with its own digits."""
        base, total = self.base, jnp.exp(self._log_total)
        p = _cdf(base, self._edge) + below * total
        q = _survival(base, self.high) + above * total
        lower = p < q
        x = jnp.where(lower, base._icdf(jnp.where(lower, p, 0.5)), base._inverse_survival(jnp.where(lower, 0.5, q)))
        if not base.discrete:
            deep = jnp.broadcast_to(self._log_total < _DEEP, x.shape)
            x = jax.lax.cond(jnp.any(deep), lambda: jnp.where(deep, self._deep(below, above), x), lambda: x)
        return jnp.clip(x, self.low, self.high)  # the rounding of p and q can pass a bound

    def _deep(self, below: Array, above: Array) -> Array:
        """Quantiles where the whole mass is below e^-600: the logarithm of a tail is inverted by halving."""
        upper = jnp.broadcast_to(_log_cdf(self.base, self._edge) > _LOG_HALF, below.shape)

        def rises(x):
            return jnp.where(upper, -_log_survival(self.base, x), _log_cdf(self.base, x))

        tails = _log_survival(self.base, self._edge), _log_survival(self.base, self.high)
        log_q = jnp.logaddexp(jnp.log(above) + tails[0], jnp.log(below) + tails[1])
        tails = _log_cdf(self.base, self._edge), _log_cdf(self.base, self.high)
        log_p = jnp.logaddexp(jnp.log(above) + tails[0], jnp.log(below) + tails[1])
        return invert_cdf(rises, jnp.where(upper, -log_q, log_p), self.low, self.high)

    def _mean(self):
        closed = _closed_form(self)
        return self._expectation(lambda x: x) if closed is None else closed[0]

    def _variance(self):
        closed = _closed_form(self)
        centre = self._mean()
        return self._expectation(lambda x: (x - centre[None]) ** 2) if closed is None else closed[1]

    def _entropy(self):
        def surprise(x):
            value = self.base._aligned(x.ndim)._log_prob(x)
            return jnp.where(value > -jnp.inf, -value, 0.0)

        return self._expectation(surprise) + self._log_total

    def _mode(self):
        peak = self.base._mode()
        inside = (peak >= self.low) & (peak <= self.high)
        return jnp.where(inside, peak, jnp.nan)

    def _expectation(self, function: Callable[[Array], Array]) -> Array:
        if isinstance(self.base, Atomic):
            x = jnp.moveaxis(self.base.values, -1, 0)
            keep = (x >= self.low[None]) & (x <= self.high[None])
            weights = jnp.where(keep, jnp.moveaxis(self.base.probs, -1, 0), 0.0)
            return (weights * function(x)).sum(0) / weights.sum(0)
        if self.base.discrete:
            return _sum_of_counts(self, function)
        lead = (-1,) + (1,) * len(self.shape)
        below, above, rule = (jnp.asarray(v).reshape(lead) for v in (_BELOW, _BELOW[::-1], _RULE))
        shape = (_T.size, *self.shape)
        x = self._aligned(len(shape))._at_shares(*(jnp.broadcast_to(v, shape) for v in (below, above)))
        terms = rule * function(x)
        total = terms.sum(0)
        ends = jnp.abs(terms[0]) + jnp.abs(terms[-1])  # shares of 1e-167: a tail that counts there has no end
        return jnp.where(ends > 1e-7 * jnp.abs(terms).sum(0), jnp.sign(total) * jnp.inf, total)


def _with(truncated: Truncated, base: Any, low: Array, high: Array) -> Any:
    return eqx.tree_at(lambda t: (t.base, t.low, t.high), truncated, (base, low, high))


def _cdf(base: Univariate, x: Array) -> Array:
    return _tail(base, x, type(base)._cdf, 0.0, 1.0)


def _survival(base: Univariate, x: Array) -> Array:
    return _tail(base, x, type(base)._survival, 1.0, 0.0)


def _log_cdf(base: Univariate, x: Array) -> Array:
    return _tail(base, x, type(base)._log_cdf, -jnp.inf, 0.0)


def _log_survival(base: Univariate, x: Array) -> Array:
    return _tail(base, x, type(base)._log_survival, 0.0, -jnp.inf)


@jax.jit
def _units_log_mass(truncated: Truncated) -> Array:
    return truncated.expand(truncated.shape)._log_total


def _log_between(base: Univariate, start: Array, end: Array) -> Array:
    """log P(start < X <= end), from the tail in which both lie; from what is left outside where they enclose the middle."""
    below, above = _log_cdf(base, start), _log_survival(base, end)
    upper, lower = below > _LOG_HALF, _log_cdf(base, end) < _LOG_HALF
    a = jnp.where(upper, _log_survival(base, start), jnp.where(lower, _log_cdf(base, end), 0.0))
    b = jnp.where(upper, above, jnp.where(lower, below, jnp.logaddexp(below, above)))
    some = a > b
    return jnp.where(some, logdiffexp(jnp.where(some, a, 0.0), jnp.where(some, b, -1.0)), -jnp.inf)


def _sum_of_counts(truncated: Truncated, function: Callable[[Array], Array]) -> Array:
    """E[g(X)] over the whole numbers between the quantiles of 1e-20 from either end, in blocks of 256."""
    tiny = jnp.full(truncated.shape, 1e-20)
    first = truncated._at_shares(tiny, jnp.ones_like(tiny))
    last = truncated._at_shares(jnp.ones_like(tiny), tiny)
    offsets = jnp.arange(256.0).reshape((-1,) + (1,) * tiny.ndim)

    def advance(state):
        start, total = state
        k = start[None] + offsets
        inside = k <= last[None]
        k = jnp.where(inside, k, first[None])
        mass = jnp.where(inside, jnp.exp(truncated._aligned(k.ndim)._log_prob(k)), 0.0)
        return start + 256, total + (mass * function(k)).sum(0)

    start = (first, jnp.zeros_like(first))
    return jax.lax.while_loop(lambda state: jnp.any(state[0] <= last), advance, start)[1]


def _closed_form(truncated: Truncated) -> tuple[Array, Array] | None:
    """Mean and variance where the base has them."""
    base, low, high = truncated.base, truncated.low, truncated.high
    if isinstance(base, Normal):
        normal = TruncatedNormal(base.loc, base.scale, low, high)
        return normal._mean(), normal._variance()
    if isinstance(base, Exponential):
        start = jnp.maximum(low, 0.0)
        mean, variance = _exponential_moments(base.rate * (high - start))
        return start + mean / base.rate, variance / base.rate**2
    return None


def _exponential_moments(width: Array) -> tuple[Array, Array]:
    """Mean and variance of a standard exponential on [0, width]: 1 - w/(e^w - 1) and 1 - (w/2 / sinh(w/2))^2."""
    short, endless = width < 0.5, width > 700
    w = jnp.where(short | endless, 1.0, width)
    mean, variance = 1 - w / jnp.expm1(w), 1 - (0.5 * w / jnp.sinh(0.5 * w)) ** 2
    s = jnp.where(short, width, 0.0)
    bernoulli = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6]
    factorials = np.cumprod(np.arange(1.0, 15.0))[1::2]  # 2!, 4!, ..., 14!
    terms = [(b / f, 2 * n + 2) for n, (b, f) in enumerate(zip(bernoulli, factorials))]
    near_mean = s / 2 - sum(c * s**k for c, k in terms)
    near_variance = sum(c * (k - 1) * s**k for c, k in terms)
    mean, variance = jnp.where(endless, 1.0, mean), jnp.where(endless, 1.0, variance)
    return jnp.where(short, near_mean, mean), jnp.where(short, near_variance, variance)
