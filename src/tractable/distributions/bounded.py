r"""Densities on an interval: uniform and beta, with the truncated normal and von Mises families.

Models.      $\mathrm{Uniform}(a, b)$ and $\mathrm{Beta}(a, b)$. The truncated normal and von Mises' law on
             the circle have files of their own and are offered here too.
Boundary.    The ends belong to the support: there the log-density is its limit, finite or infinite.
Cost. Elementwise.The beta quantile takes about six evaluations of the distribution function.
References.  Johnson, Kotz and Balakrishnan (1995), chapter 25; Minka (2000), "Estimating a Dirichlet
             distribution".
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import digamma, ndtri, polygamma

from tractable.core.module import field
from tractable.core.numerics import sigmoid
from tractable.core.support import Support, bounded, positive, real, unit_interval
from tractable.core.types import Array, Float
from tractable.distributions.base import Univariate, check_ordered
from tractable.distributions.circular import VonMises
from tractable.distributions.expfam import ExponentialFamily
from tractable.distributions.incomplete import log_beta_tails
from tractable.distributions.quantile import invert_tails
from tractable.distributions.samplers import log_odds_draw
from tractable.distributions.special import (
    digamma_minus_log,
    log_beta,
    log_binomial,
    once,
    power_log,
    stirling_error,
)
from tractable.distributions.tailed import Tailed
from tractable.distributions.truncated_normal import TruncatedNormal

__all__ = ["Beta", "TruncatedNormal", "Uniform", "VonMises"]

_HALF_LOG_TWO_PI = 0.9189385332046727


class Uniform(Univariate):
    r"""$p(x) = 1/(b - a)$ for $a \le x \le b$ with $a$ = `low`, $b$ = `high`.

    Its mode is NaN, as every point ties.
    """

    low: Float[Array, "..."] = field(support=real, default=0.0)
    high: Float[Array, "..."] = field(support=real, default=1.0)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_ordered(self.low, self.high)

    @property
    def support(self) -> Support:
        return bounded(self.low, self.high)

    def _log_prob(self, x):
        return -jnp.log(self.high - self.low)

    def _sample(self, key, n):
        dtype = jnp.result_type(self.low, self.high)
        return self.low + (self.high - self.low) * jr.uniform(key, n, dtype)

    def _mean(self):
        return self.low / 2 + self.high / 2

    def _variance(self):
        return (self.high - self.low) ** 2 / 12

    def _entropy(self):
        return jnp.log(self.high - self.low)

    def _mode(self):
        return jnp.full_like(self.low + self.high, jnp.nan)

    def _cdf(self, x):
        return (x - self.low) / (self.high - self.low)

    def _survival(self, x):
        return (self.high - x) / (self.high - self.low)

    def _icdf(self, p):
        return self.low + (self.high - self.low) * p

    def _inverse_survival(self, q):
        return self.high - (self.high - self.low) * q


class Beta(Tailed, ExponentialFamily):
    r"""$p(x) = x^{a-1}(1 - x)^{b-1} / B(a, b)$ for $0 \le x \le 1$; mean $a/(a + b)$.

    The mode is $(a - 1)/(a + b - 2)$ where $a, b > 1$, else the end at which the density is largest; NaN
    where both ends tie ($a, b < 1$) or every point does ($a = b = 1$).
    """

    a: Float[Array, "..."] = field(support=positive)
    b: Float[Array, "..."] = field(support=positive)

    @property
    def support(self) -> Support:
        return unit_interval

    def _log_prob(self, x):
        a, b = self.a, self.b
        narrow = jnp.minimum(a, b) > 10
        last = jnp.where((b == 1) & (x == 1), 0.0, x)  # 0 log 0 at the end of a density that is finite there
        wide = power_log(a - 1, x) + (b - 1) * jnp.log1p(-last) - once(log_beta(a, b))

        def any_narrow():
            u, v = jnp.where(narrow, a - 1, 10.0), jnp.where(narrow, b - 1, 10.0)
            middle = jnp.where(narrow, x, 0.5)
            peaked = log_binomial(u, v, middle, 1 - middle) + jnp.log(u + v + 1)
            return jnp.where(narrow, peaked, wide)

        return jax.lax.cond(jnp.any(narrow), any_narrow, lambda: wide)

    def _sample(self, key, n):
        return sigmoid(log_odds_draw(key, self.a, self.b, n))

    def _mean(self):
        return self.a / (self.a + self.b)

    def _variance(self):
        total = self.a + self.b
        return self.a / total * (self.b / total) / (total + 1)

    def _entropy(self):
        a, b, total = self.a, self.b, self.a + self.b
        spread = 0.5 * (jnp.log(a) + jnp.log(b) - 3 * jnp.log(total)) + _HALF_LOG_TWO_PI
        errors = stirling_error(a) + stirling_error(b) - stirling_error(total)
        slopes = (a - 1) * digamma_minus_log(a) + (b - 1) * digamma_minus_log(b)
        return spread + errors - slopes + (total - 2) * digamma_minus_log(total)

    def _mode(self):
        a, b = self.a, self.b
        inside = (a > 1) & (b > 1)
        peak = (a - 1) / jnp.where(inside, a + b - 2, 1.0)
        ends = jnp.where((a < 1) & (b < 1) | (a == 1) & (b == 1), jnp.nan, jnp.where(a > b, 1.0, 0.0))
        return jnp.where(inside, peak, ends)

    def _tails(self, x):
        a, b = jnp.broadcast_to(self.a, x.shape), jnp.broadcast_to(self.b, x.shape)
        return log_beta_tails(a, b, x, 1 - x)

    def _icdf(self, p):
        return self._at_shares(p, 1 - p)

    def _inverse_survival(self, q):
        return self._at_shares(1 - q, q)

    def _at_shares(self, p, q):
        return _beta_quantile(self.a, self.b, p, q)

    @property
    def natural(self):
        return self.a - 1, self.b - 1

    def stats(self, x):
        return jnp.log(x), jnp.log1p(-x)

    def log_base(self, x):
        return jnp.zeros_like(x)

    def log_normaliser(self, natural):
        return log_beta(natural[0] + 1, natural[1] + 1)

    def from_natural(self, natural):
        return Beta(natural[0] + 1, natural[1] + 1)

    def from_stats(self, mean_stats):
        return Beta(*_shapes(*mean_stats))


def _beta_quantile(a: Array, b: Array, p: Array, q: Array) -> Array:
    a, b = jnp.broadcast_to(a, p.shape), jnp.broadcast_to(b, p.shape)
    normal = jnp.where(p < q, ndtri(p), -ndtri(q))
    start = digamma(a) - digamma(b) + normal * jnp.sqrt(polygamma(1, a) + polygamma(1, b))
    return sigmoid(invert_tails(_logit_tails, _logit_slope, (a, b), p, q, start))


def _logit_tails(y: Array, a: Array, b: Array) -> tuple[Array, Array]:
    return log_beta_tails(a, b, sigmoid(y), sigmoid(-y))


def _logit_slope(y: Array, a: Array, b: Array) -> Array:
    return log_binomial(a, b, sigmoid(y), sigmoid(-y)) - jnp.log(1 / a + 1 / b)


def _shapes(mean_log: Array, mean_log1m: Array) -> tuple[Array, Array]:
    """The a, b with psi(a) - psi(a + b) and psi(b) - psi(a + b) given, by Newton's method in log a, log b.

    A step is at most one in the logarithm; far from the root this is what keeps a and b positive.
    """
    left, right = jnp.exp(mean_log), jnp.exp(mean_log1m)
    rest = 2 * (1 - left - right)
    start = (jnp.log(0.5 + left / rest), jnp.log(0.5 + right / rest))

    def advance(state):
        k, logs, _ = state
        a, b = jnp.exp(logs[0]), jnp.exp(logs[1])
        common = digamma(a + b)
        residual = digamma(a) - common - mean_log, digamma(b) - common - mean_log1m
        own_a, own_b, shared = polygamma(1, a), polygamma(1, b), polygamma(1, a + b)
        determinant = own_a * own_b - shared * (own_a + own_b)
        step_a = (residual[0] * (own_b - shared) + residual[1] * shared) / (determinant * a)
        step_b = (residual[1] * (own_a - shared) + residual[0] * shared) / (determinant * b)
        steps = jnp.clip(step_a, -1.0, 1.0), jnp.clip(step_b, -1.0, 1.0)
        size = jnp.maximum(jnp.abs(steps[0]), jnp.abs(steps[1]))
        return k + 1, (logs[0] - steps[0], logs[1] - steps[1]), jnp.max(size, initial=0.0)

    def unfinished(state):
        return (state[0] < 100) & (state[2] > 1e-9)

    one = jnp.ones((), left.dtype)
    _, logs, _ = jax.lax.while_loop(unfinished, advance, (0, start, one))
    return jnp.exp(logs[0]), jnp.exp(logs[1])
