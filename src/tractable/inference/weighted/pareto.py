r"""Pareto-smoothed importance weights, and the shape of their tail as a verdict on the proposal.

Model.       Above a high threshold $u$, weights follow a generalised Pareto law,
             $P(w - u > x) = (1 + kx/\sigma)^{-1/k}$: moments of order below $1/k$ exist.
Fit.         Zhang and Stephens: with $b_j = 1/x_{(M)} + (1 - \sqrt{m/(j - 1/2)})/(3\,x_{(M/4)})$, profile
             $k(b) = \frac1M\sum_i\log(1 - b x_i)$ and weigh $b_j$ by $(-b/k)^M e^{-M(k + 1)}$;
             $\sigma = -k/b$; then $\hat k \leftarrow (Mk + 5)/(M + 10)$, ten weak observations of $1/2$.
Smoothing.   The $M$ largest weights become the quantiles $(i - 1/2)/M$ of the fit, none above the largest.
Verdict.     Good if $\hat k$ and its standard error $(1 + k)/\sqrt M$ are together at most
             $\min(1 - 1/\log_{10} S,\ 0.7)$; above 1 the weights have no mean.
Cost.        One sort; $O(M^{3/2})$ for the fit with $M = \min(S/5, 3\sqrt S)$.
References.  Vehtari, Simpson, Gelman, Yao and Gabry (2024), JMLR 25(72); Zhang and Stephens (2009).
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.numerics import softmax
from tractable.core.types import Array, ArrayLike, Float
from tractable.core.verdict import Verdict
from tractable.inference.weighted.weights import as_log_weights

__all__ = [
    "Smoothed", "fit_generalised_pareto", "k_error", "k_threshold", "k_verdict", "smooth", "tail_length",
    "tail_shape",
]  # fmt: skip

_FEWEST = 5  # tails shorter than this cannot be fitted
# weights that differ by no more than this are constant up to the rounding of their logarithms
_CONSTANT = 1e-9


class Smoothed(Module):
    """Smoothed log-weights on the scale of the raw ones, and the shape of their tail."""

    log_weights: Float[Array, "..."]
    k_hat: Float[Array, "..."]
    tail_length: int = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """What the largest `k_hat` says, in a sentence."""
        return k_verdict(float(np.max(np.asarray(self.k_hat))), self.log_weights.shape[-1])


def smooth(log_weights: ArrayLike, *, tail: int | None = None) -> Smoothed:
    r"""Pareto-smooth weights along the last axis; leading axes are separate sets of weights.

    `tail` is the number $M$ of weights that are fitted (default `tail_length(S)`; dependent draws deserve a
    longer one: `tail_length(S, relative_efficiency)`). A tail that is constant up to rounding is bounded:
    `k_hat` is $-\infty$ and nothing is changed. A tail that cannot be fitted (fewer than five weights, or a
    quarter of it tied with the threshold, as when most weights are zero) has `k_hat` $= \infty$.
    """
    logs = as_log_weights(log_weights)
    size = logs.shape[-1]
    length = tail_length(size) if tail is None else check_count("tail", tail)
    check(length < size or size < _FEWEST, "tail", f"below the number of weights ({size})", length)
    return _smooth(logs, min(length, size - 1))


def tail_shape(log_weights: np.ndarray) -> float:
    """`smooth(log_weights).k_hat` of one set of weights on the host: only the tail is worth a program."""
    length = tail_length(log_weights.size)
    if np.isnan(log_weights).any() or length < _FEWEST:
        return math.nan if np.isnan(log_weights).any() else math.inf
    ranked = np.sort(log_weights)
    return float(_shape(ranked[-length:] - ranked[-1], ranked[-length - 1] - ranked[-1]))


def tail_length(num_draws: int, relative_efficiency: float | int = 1.0) -> int:
    r"""$M = \lceil\min(S/5,\ 3\sqrt{S / r})\rceil$ for $S$ draws of relative efficiency $r$.

    >>> tail_length(1000), tail_length(100)
    (95, 20)
    """
    num_draws = check_count("num_draws", num_draws)
    check(relative_efficiency > 0, "relative_efficiency", "positive", relative_efficiency)
    return math.ceil(min(0.2 * num_draws, 3 * math.sqrt(num_draws / relative_efficiency)))


def k_threshold(num_draws: int) -> float:
    r"""$\min(1 - 1/\log_{10} S,\ 0.7)$: up to this $\hat k$, $S$ draws give estimates that can be trusted."""
    return min(1 - 1 / math.log10(max(num_draws, 2)), 0.7)


def k_error(k_hat: float | int, num_draws: int) -> float:
    r"""The standard error $(1 + k)/\sqrt M$ of a shape fitted to $M$ of so many draws; of bounded tails, that
    of $k = 0$."""
    return (1 + max(k_hat, 0.0)) / math.sqrt(tail_length(num_draws)) if math.isfinite(k_hat) else 0.0


def k_verdict(k_hat: float | int, num_draws: int) -> Verdict:
    """The verdict that belongs to a `k_hat` from `num_draws` weights."""
    limit = k_threshold(num_draws)
    error = k_error(k_hat, num_draws)
    numbers = {"k_hat": k_hat, "k_error": error, "limit": limit, "num_draws": num_draws}
    ok = tail_length(num_draws) >= _FEWEST and k_hat + error <= limit
    return Verdict(ok, _words(k_hat, num_draws, limit), numbers)


def _words(k_hat: float | int, num_draws: int, limit: float) -> str:
    if math.isnan(k_hat):
        return "Unknown: the weights are not numbers."
    if tail_length(num_draws) < _FEWEST:
        return f"Unknown: {num_draws} draws are too few to judge the tail of the weights; take 25 or more."
    if limit - k_error(k_hat, num_draws) < k_hat <= limit:
        return "Not certified: the weights' tail may be too heavy, as far as so few of them say. Draw more."
    if k_hat <= limit:
        return "Good: the weights' tail is light enough for the estimates and their standard errors."
    if k_hat <= 0.7:
        need = 10 ** (1 / (1 - k_hat))
        return f"Too few draws for this tail of weights (k_hat above {limit:.2f}): take {need:.0f} or more."
    if k_hat <= 1:
        return "Bad: the weights' variance does not exist; errors are understated. Improve the proposal."
    return "Very bad: the weights have no mean; do not use the estimates. Change the proposal."


def fit_generalised_pareto(excesses: Float[Array, " n"]) -> tuple[Array, Array]:
    r"""$(\hat k, \hat\sigma)$ of positive excesses in rising order, with the weak prior towards $1/2$.

    An exponential tail has $k = 0$, a uniform one $k = -1$, a Pareto tail of index $\alpha$ has
    $k = 1/\alpha$.
    """
    n = excesses.shape[0]
    quartile, largest = excesses[max(int(n / 4 + 0.5) - 1, 0)], excesses[-1]
    m = 30 + math.isqrt(n)
    steps = jnp.asarray(1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5)), excesses.dtype)
    b = steps / (3 * quartile) + 1 / largest
    log_likelihood = jax.vmap(lambda each: _profile(each, excesses)[1])(b)
    average = softmax(n * log_likelihood) @ b
    k, level = _profile(average, excesses)
    # log(-b/k) = -log sigma; it is read off the profile so that b = 0, the exponential, is no exception
    return (n * k + 5) / (n + 10), jnp.exp(-(level + k + 1))


def _profile(b: Array, x: Array) -> tuple[Array, Array]:
    r"""$k(b)$ and the log-likelihood per excess, $\log(-b/k) - k - 1$."""
    k = jnp.log1p(-b * x).mean()
    flat = k == 0
    rate = jnp.where(flat, 1 / x.mean(), -b / jnp.where(flat, 1.0, k))
    return k, jnp.log(rate) - k - 1


@jax.jit
def _shape(tail: Array, threshold: Array) -> Array:
    return _tail(tail, threshold)[1]


@partial(jax.jit, static_argnums=1)
def _smooth(logs: Array, length: int) -> Smoothed:
    flat = logs.reshape((-1, logs.shape[-1]))
    if length < _FEWEST:
        return Smoothed(logs, jnp.full(logs.shape[:-1], jnp.inf, logs.dtype), length)
    smoothed, k_hat = jax.vmap(partial(_smooth_one, length=length))(flat)
    return Smoothed(smoothed.reshape(logs.shape), k_hat.reshape(logs.shape[:-1]), length)


def _smooth_one(logs: Array, length: int) -> tuple[Array, Array]:
    order = jnp.argsort(logs)
    top = logs[order[-1]]
    places = order[-length:]
    smoothed, k_hat = _tail(logs[places] - top, logs[order[-length - 1]] - top)
    k_hat = jnp.where(jnp.isnan(logs).any(), jnp.nan, k_hat)
    return logs.at[places].set(jnp.where(jnp.isfinite(k_hat), smoothed + top, logs[places])), k_hat


def _tail(tail: Array, threshold: Array) -> tuple[Array, Array]:
    """The smoothed tail and its shape, from log-weights in rising order, the largest zero, and the next."""
    length = tail.shape[0]
    base = jnp.exp(threshold)
    # e^t - e^u without cancellation where there is a threshold above zero
    rise = jnp.where(base > 0, tail - jnp.where(base > 0, threshold, 0.0), 0.0)
    excess = jnp.where(base > 0, base * jnp.expm1(rise), jnp.exp(tail))
    constant = tail[-1] - tail[0] <= _CONSTANT
    fitted = (excess[max(int(length / 4 + 0.5) - 1, 0)] > 0) & ~constant
    safe = jnp.where(fitted, excess, jnp.arange(1.0, length + 1, dtype=tail.dtype))
    k, sigma = fit_generalised_pareto(safe)
    log_survival = jnp.log1p(-(jnp.arange(length, dtype=tail.dtype) + 0.5) / length)
    zero = k == 0
    quantile = jnp.where(zero, -log_survival, jnp.expm1(-k * log_survival) / jnp.where(zero, 1.0, k))
    smoothed = jnp.minimum(jnp.log(base + sigma * quantile), 0.0)
    return smoothed, jnp.where(fitted, k, jnp.where(constant, -jnp.inf, jnp.inf))
