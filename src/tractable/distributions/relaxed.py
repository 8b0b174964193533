r"""Relaxed discrete draws: points inside the simplex that can be differentiated, and what that costs.

Concrete.    $X = \mathrm{softmax}((\mu + G)/\tau)$, $G$ independent Gumbel noise. Its largest entry is entry
             $k$ with probability $\mathrm{softmax}(\mu)_k$ at every temperature; as $\tau \to 0$ it is a
             one-hot draw. Its density is $(K - 1)!\, \tau^{K-1} \prod_k \alpha_k x_k^{-\tau-1} / (\sum_k
             \alpha_k x_k^{-\tau})^K$ with $\alpha = e^\mu$.
Binary.      $\sigma((\mu + \Lambda)/\tau)$ with logistic $\Lambda$: the first of two entries, its log-odds
             being $\mu$.
Gradients.   $X$ is a smooth function of $\mu$ and $\tau$ for fixed noise (pathwise gradient), biased for the
             discrete draw when $\tau > 0$, with a variance that grows as $\tau \to 0$.
Cost.        $O(K)$ a draw or density.
References.  Maddison, Mnih and Teh (2017), "The concrete distribution"; Jang, Gu and Poole (2017),
             "Categorical reparameterization with Gumbel-softmax"; Bengio, Leonard and Courville (2013) for
             the straight-through gradient.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check, check_count
from tractable.core.module import Module, field
from tractable.core.numerics import log_gamma, log_sigmoid, logit, logsumexp, sigmoid, softmax
from tractable.core.support import Support, positive, real, simplex, unit_interval
from tractable.core.types import Array, ArrayLike, Float, Key, Shape
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.gumbel import perturbed

__all__ = [
    "BinaryConcrete",
    "Concrete",
    "RelaxationStudy",
    "annealed_temperature",
    "relaxation_study",
    "straight_through",
]


class Concrete(Distribution):
    r"""$\mathrm{softmax}((\mu + G)/\tau)$ with $\mu$ = `logits` and $\tau$ = `temperature` (Gumbel-softmax).

    The density is with respect to the first $K - 1$ entries. On the boundary it is its limit as the entries
    at zero approach it together: draws underflow to the boundary at low temperature, and then get 0 or
    infinity, never NaN.
    """

    logits: Float[Array, "... k"] = field(support=real, rank=1)
    temperature: Float[Array, "..."] = field(support=positive)

    def __check_init__(self) -> None:
        super().__check_init__()
        must = "an array with at least two entries on its last axis"
        check(self.logits.shape[-1] >= 2, "logits", must, self.logits.shape)

    @property
    def unit_shape(self) -> Shape:
        return self.logits.shape[-1:]

    @property
    def support(self) -> Support:
        return simplex

    def _log_prob(self, x):
        return _log_density(x, self.logits, self.temperature)

    def _sample(self, key, n):
        return softmax(perturbed(key, self.logits, (n,)), self.temperature)

    @property
    def probs(self) -> Float[Array, "... k"]:
        r"""$\mathrm{softmax}(\mu)$: how likely each entry of a draw is the largest, at any temperature."""
        return softmax(self.logits)


class BinaryConcrete(Univariate):
    r"""$\sigma((\mu + \Lambda)/\tau)$, $\Lambda$ logistic: a relaxed Bernoulli draw of log-odds `logits`."""

    logits: Float[Array, "..."] = field(support=real)
    temperature: Float[Array, "..."] = field(support=positive)

    @property
    def support(self) -> Support:
        return unit_interval

    def _log_prob(self, x):
        pairs = jnp.stack([x, 1 - x], -1)
        density = jnp.vectorize(_log_density, signature="(k),(k),()->()")
        return density(pairs, jnp.stack([self.logits, jnp.zeros_like(self.logits)], -1), self.temperature)

    def _sample(self, key, n):
        return sigmoid((self.logits + jr.logistic(key, n, self.logits.dtype)) / self.temperature)

    def _noise(self, x):
        """The logistic noise behind `x`."""
        return self.temperature * logit(x) - self.logits

    def _cdf(self, x):
        return sigmoid(self._noise(x))

    def _survival(self, x):
        return sigmoid(-self._noise(x))

    def _log_cdf(self, x):
        return log_sigmoid(self._noise(x))

    def _log_survival(self, x):
        return log_sigmoid(-self._noise(x))

    def _icdf(self, p):
        return sigmoid((logit(p) + self.logits) / self.temperature)

    def _inverse_survival(self, q):
        return sigmoid((self.logits - logit(q)) / self.temperature)

    @property
    def probs(self) -> Float[Array, "..."]:
        r"""$\sigma(\mu)$: the probability that a draw is above one half, at any temperature."""
        return sigmoid(self.logits)


class RelaxationStudy(Module):
    r"""The gradient in the logits of the mean of $f$ at one-hot draws, and an estimator of it."""

    temperatures: Float[Array, " t"]
    exact: Float[Array, " k"]
    mean: Float[Array, "t k"]
    variance: Float[Array, "t k"]
    num_draws: int = field(static=True)

    @property
    def bias(self) -> Float[Array, "t k"]:
        return self.mean - self.exact[None, :]

    @property
    def standard_error(self) -> Float[Array, "t k"]:
        """The standard error of `mean`, and so of `bias`."""
        return jnp.sqrt(self.variance / self.num_draws)


@jax.custom_jvp
def straight_through(x: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """The one-hot code of the largest entry along the last axis; its derivative is that of `x` itself.

    >>> straight_through(jnp.array([0.2, 0.7, 0.1])).tolist()
    [0.0, 1.0, 0.0]
    """
    return jax.nn.one_hot(jnp.argmax(x, axis=-1), x.shape[-1], dtype=x.dtype)


@straight_through.defjvp
def _straight_through_jvp(primals, tangents):
    return straight_through(*primals), tangents[0]


def annealed_temperature(
    step: ArrayLike, num_steps: int, start: float = 1.0, end: float = 0.1
) -> Float[Array, "..."]:
    r"""$\tau_t = \tau_0 (\tau_1 / \tau_0)^{t/T}$: from `start` to `end` in `num_steps`, then `end`."""
    check(min(start, end) > 0, "start and end", "positive", (start, end))
    done = jnp.clip(as_float("step", step) / check_count("num_steps", num_steps), 0.0, 1.0)
    return start * (end / start) ** done


@partial(jax.jit, static_argnames=("function", "num_draws", "hard"))
def relaxation_study(
    key: Key,
    function: Callable[[Array], Array],
    logits: Float[Array, " k"],
    temperatures: Float[Array, " t"],
    num_draws: int,
    *,
    hard: bool = False,
) -> RelaxationStudy:
    r"""Mean and variance of the pathwise gradient of `function` at relaxed draws, with what it should be.

    The truth is $\nabla_\mu \sum_k \mathrm{softmax}(\mu)_k f(e_k)$. With `hard`, `function` sees one-hot
    draws and the gradient passes straight through. All temperatures share their noise.
    """
    corners = jax.vmap(function)(jnp.eye(logits.shape[0], dtype=logits.dtype))
    noise = jr.gumbel(key, (num_draws, logits.shape[0]), logits.dtype)

    def value(logits, temperature, noise):
        relaxed = softmax(logits + noise, temperature)
        return function(straight_through(relaxed) if hard else relaxed)

    def moments(temperature):
        slopes = jax.vmap(jax.grad(value), (None, None, 0))(logits, temperature, noise)
        return slopes.mean(0), slopes.var(0, ddof=1)

    mean, variance = jax.lax.map(moments, temperatures)
    exact = jax.grad(lambda mu: softmax(mu) @ corners)(logits)
    return RelaxationStudy(temperatures, exact, mean, variance, num_draws)


def _log_density(x: Array, logits: Array, temperature: Array) -> Array:
    """The density of one point; entries at zero take over the sum, and their rate decides the limit."""
    size, zero = x.shape[0], x == 0
    zeros = zero.sum()
    log_x = jnp.log(jnp.where(zero, 1.0, x))
    terms = logits - temperature * log_x
    total = logsumexp(jnp.where(zero | (zeros == 0), terms, -jnp.inf))
    constant = log_gamma(jnp.asarray(size, x.dtype)) + (size - 1) * jnp.log(temperature)
    rate = (
        size - zeros
    ) * temperature - zeros  # the density goes as the rate-th power of the entries at zero
    limit = jnp.where((zeros == 0) | (rate == 0), 0.0, jnp.where(rate > 0, -jnp.inf, jnp.inf))
    return constant + (terms - log_x).sum() - size * total + limit
