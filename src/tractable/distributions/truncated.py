r"""Any univariate distribution between two bounds.

Model.       $p(x) = p_0(x)/Z$ for $l \le x \le h$, both bounds included, with $Z = P_0(l \le X \le h)$;
             densities and counts alike.
Method.      $\log Z$ is found in the tail that holds the bounds, so that it exists where both distribution
             functions round to one. A draw is the quantile of a uniform number, from the same tail.
Moments.     In closed form for a normal or exponential base; else $E[g(X)] = \int_0^1 g(F^{-1}(u))\,du$ by
             the double exponential rule, or a sum over the whole numbers that carry mass.
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
from tractable.core.numerics import logdiffexp
from tractable.core.support import IntegerRange, Support, bounded, extended_real, integer_range
from tractable.core.types import Array, Float, Shape
from tractable.distributions.atoms import Atomic, Atoms
from tractable.distributions.base import Univariate, check_ordered, log_share
from tractable.distributions.continuous import Normal
from tractable.distributions.discrete import DiscreteUniform
from tractable.distributions.leading_axes import ends_of, tail
from tractable.distributions.samplers import whole
from tractable.distributions.sums import sum_over_counts
from tractable.distributions.tailed import Counts
from tractable.distributions.truncated_normal import TruncatedNormal
from tractable.distributions.waiting import Exponential

__all__ = ["Truncated"]

_T = np.arange(-110, 111) * 0.05
_BELOW = 1 / (
    1 + np.exp(-np.pi * np.sinh(_T))
)  # the share of the mass below a node; above it, the mirror image
_RULE = 0.05 * np.pi * np.cosh(_T) * _BELOW * _BELOW[::-1]
_LOG_HALF = -0.6931471805599453


class Truncated(Univariate):
    r"""$p(x) \propto p_0(x)$ for $l \le x \le h$ with $p_0$ = `base`, $l$ = `low`, $h$ = `high`.

    The bounds are infinite by default. A mean or variance that the tail makes infinite is reported so.
    Where the mass between the bounds is below $10^{-290}$ the density holds but quantiles and draws are NaN;
    `TruncatedNormal` has no such limit.

    >>> from tractable.distributions.counts import Poisson
    >>> positive_counts = Truncated(Poisson(1.0), low=1)
    >>> round(float(positive_counts.mean), 6)
    1.581977
    """

    base: Univariate
    low: Float[Array, "..."] = field(support=extended_real, default=-np.inf)
    high: Float[Array, "..."] = field(support=extended_real, default=np.inf)

    def __check_init__(self) -> None:
        check(
            isinstance(self.base, Univariate), "base", "a univariate distribution", type(self.base).__name__
        )
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
        first, last = ends_of(inner)
        low, high = jnp.maximum(self.low, first), jnp.minimum(self.high, last)
        counted = isinstance(inner, IntegerRange)
        return integer_range(jnp.ceil(low), jnp.floor(high)) if counted else bounded(low, high)

    def expand(self, shape: Shape) -> "Truncated":
        low, high = (jnp.broadcast_to(end, shape) for end in (self.low, self.high))
        return _with(self, self.base.expand(shape), low, high)

    def _aligned(self, ndim: int) -> Any:
        low, high = (jnp.reshape(e, (1,) * (ndim - e.ndim) + e.shape) for e in (self.low, self.high))
        return _with(self, self.base._aligned(ndim), low, high)

    @property
    def _outside(self) -> tuple[Array, Array, Array]:
        """Logarithms of the mass below `low`, above `high` and between them."""
        return _log_between(self.base, self._edge, self.high)

    @property
    def _edge(self) -> Array:
        """The greatest number below `low` that a mass can lie on; `low` itself for a density."""
        return jnp.nextafter(jax.lax.stop_gradient(self.low), -jnp.inf) if self.base.discrete else self.low

    def _log_prob(self, x):
        values = self.base._log_prob(x) - self._outside[2]
        return jnp.where((x >= self.low) & (x <= self.high), values, -jnp.inf)

    def _sample(self, key, n):
        dtype = jnp.result_type(*jax.tree.leaves(self))
        u = jr.uniform(key, n, dtype, jnp.finfo(dtype).tiny)
        draws = self._at_shares(u, 1 - u)
        return whole(draws) if isinstance(self.support, IntegerRange) else draws.astype(dtype)

    def _cdf(self, x):
        return jnp.exp(self._log_cdf(x))

    def _survival(self, x):
        return jnp.exp(self._log_survival(x))

    def _log_cdf(self, x):
        return jnp.where(x < self.low, -jnp.inf, log_share(*self._log_masses(x)))

    def _log_survival(self, x):
        return jnp.where(x >= self.high, -jnp.inf, log_share(*self._log_masses(x)[::-1]))

    def _log_masses(self, x):
        first, last = (jnp.broadcast_to(end, x.shape) for end in (self._edge, self.high))
        ends = jnp.stack([first, jnp.maximum(x, first)]), jnp.stack([jnp.minimum(x, last), last])
        below, above = _log_between(self.base._aligned(x.ndim + 1), *ends)[2] - self._outside[2][None]
        return below, above

    def _icdf(self, p):
        return self._at_shares(p, 1 - p)

    def _inverse_survival(self, q):
        return self._at_shares(1 - q, q)

    def _at_shares(self, p, q):
        below, above, total = (jnp.exp(v) for v in self._outside)
        x = self.base._at_shares(below + p * total, above + q * total)
        x = jnp.clip(x, self.low, self.high)  # the rounding of the shares can pass a bound
        return jnp.where(total > 1e-290, x, jnp.nan)

    def _mean(self):
        closed = _closed_form(self)
        if closed is not None:
            return closed[0]
        if isinstance(self.base.support, IntegerRange):  # a mean of 1e14 would multiply the rounding of a sum
            centre = jax.lax.stop_gradient(self._mode())
            centre = jnp.where(jnp.isnan(centre), self.base._mean(), centre)
            return centre + self._expectation(lambda x: x - centre[None])
        return self._expectation(lambda x: x)

    def _variance(self):
        closed = _closed_form(self)
        if closed is not None:
            return closed[1]
        if isinstance(self.base.support, IntegerRange):
            centre = self._mean()
            return self._expectation(lambda x: (x - centre[None]) ** 2)
        x, weights = self._rule
        centre = (weights * x).sum(0)
        return _converged(weights * (x - centre[None]) ** 2, self.base.discrete)

    def _entropy(self):
        def surprise(x):
            value = self.base._aligned(x.ndim)._log_prob(x)
            return jnp.where(value > -jnp.inf, -value, 0.0)

        return self._expectation(surprise) + self._outside[2]

    def _mode(self):
        if isinstance(self.base, Atomic):
            return self.base._mode_within(self.low[..., None], self.high[..., None])
        first, last = ends_of(self.support)  # from its peak on a density of one peak falls
        return jnp.clip(self.base._mode(), first, last)

    def _expectation(self, function: Callable[[Array], Array]) -> Array:
        if isinstance(self.base.support, IntegerRange):
            return _sum_of_counts(self, function)
        x, weights = self._rule
        return _converged(weights * function(x), self.base.discrete)

    @property
    def _rule(self) -> tuple[Array, Array]:
        """Points and weights, along a first axis, that integrate against this distribution."""
        if isinstance(self.base, Atomic):
            x = jnp.moveaxis(self.base.values, -1, 0)
            keep = (x >= self.low[None]) & (x <= self.high[None])
            weights = jnp.where(keep, jnp.moveaxis(self.base.probs, -1, 0), 0.0)
            return x, weights / weights.sum(0)
        shape = (_T.size, *self.shape)
        below, above, rule = (
            jnp.broadcast_to(jnp.asarray(v).reshape((-1,) + (1,) * len(self.shape)), shape)
            for v in (_BELOW, _BELOW[::-1], _RULE)
        )
        return self._aligned(len(shape))._at_shares(below, above), rule


def _with(truncated: Truncated, base: Any, low: Array, high: Array) -> Any:
    return eqx.tree_at(lambda t: (t.base, t.low, t.high), truncated, (base, low, high))


@jax.jit
def _units_log_mass(truncated: Truncated) -> Array:
    return truncated.expand(truncated.shape)._outside[2]


def _log_between(base: Univariate, start: Array, end: Array) -> tuple[Array, Array, Array]:
    """log P(X <= start), log P(X > end) and log P(start < X <= end).

    The last is a difference in the tail in which both lie, or what is left outside where they enclose the
    middle.
    """
    ends = jnp.stack(jnp.broadcast_arrays(start, end))
    base = base._aligned(ends.ndim)
    below, until = tail(base, ends, type(base)._log_cdf, -jnp.inf, 0.0)
    beyond, above = tail(base, ends, type(base)._log_survival, 0.0, -jnp.inf)
    upper, lower = below > _LOG_HALF, until < _LOG_HALF
    a = jnp.where(upper, beyond, jnp.where(lower, until, 0.0))
    b = jnp.where(upper, above, jnp.where(lower, below, jnp.logaddexp(below, above)))
    some = a > b
    between = logdiffexp(jnp.where(some, a, 0.0), jnp.where(some, b, -1.0))
    return below, above, jnp.where(some, between, -jnp.inf)


def _sum_of_counts(truncated: Truncated, function: Callable[[Array], Array]) -> Array:
    """E[g(X)] over the whole numbers between the quantiles of 1e-20 from either end.

    The mass of a count is smooth between them, so that the work is bounded; that of a table is not, and is
    summed in blocks of 256.
    """
    tiny = jnp.full(truncated.shape, 1e-20)
    first = truncated._at_shares(tiny, jnp.ones_like(tiny))
    last = truncated._at_shares(jnp.ones_like(tiny), tiny)
    base = truncated.base

    def term(k):
        return jnp.exp(truncated._aligned(k.ndim)._log_prob(k)) * function(k)

    if isinstance(base, Counts | DiscreteUniform):
        bell = (jnp.broadcast_to(v, truncated.shape) for v in (base._mean(), jnp.sqrt(base._variance())))
        return sum_over_counts(term, first, last, *bell)
    offsets = jnp.arange(256.0).reshape((-1,) + (1,) * tiny.ndim)

    def advance(state):
        start, total = state
        k = start[None] + offsets
        inside = k <= last[None]
        return start + 256, total + jnp.where(inside, term(jnp.where(inside, k, first[None])), 0.0).sum(0)

    start = (first, jnp.zeros_like(first))
    return jax.lax.while_loop(lambda state: jnp.any(state[0] <= last), advance, start)[1]


def _converged(terms: Array, finite: bool) -> Array:
    """The sum over the first axis; infinite where the terms at shares of 1e-167 still count: the tail has no
    end."""
    total = terms.sum(0)
    ends = jnp.abs(terms[0]) + jnp.abs(terms[-1])
    endless = ends > 1e-7 * jnp.abs(terms).sum(0)
    return total if finite else jnp.where(endless, jnp.sign(total) * jnp.inf, total)


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
    """Mean and variance of a standard exponential on [0, w]: 1 - w/(e^w - 1), 1 - (w/2 / sinh(w/2))^2."""
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
