r"""Expectations over an index drawn from a softmax, and their gradients in the logits.

Exact.       $E[f] = \sum_k\mathrm{softmax}(\mu)_k f_k$ with $\partial_k E[f] = p_k(f_k - E[f])$: a sum over
             the values.
Gumbel.      $K = \arg\max_k(\mu_k + G_k)$ draws the index; $\frac1n\sum_s f_{K_s}$ estimates the sum.
REINFORCE.   $(f_K - b)(e_K - p)$: unbiased for the gradient.
Relaxed.     $\nabla_\mu f(\mathrm{softmax}((\mu + G)/\tau))$ (Gumbel-softmax), or $f$ at the one-hot code
             with the derivative of the relaxation (straight-through): little variance, some bias.
Cost.        $O(K)$ exactly, $O(K)$ per draw otherwise: draws pay where $f$ is costly and $K$ large.
References.  Maddison, Mnih and Teh (2017); Jang, Gu and Poole (2017); Williams (1992).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check, check_count
from tractable.core.estimate import Estimate
from tractable.core.module import Module, field
from tractable.core.numerics import log_softmax, one_hot, softmax
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.distributions.gumbel import gumbel_max
from tractable.distributions.relaxed import Concrete, straight_through
from tractable.inference.variational.gradients import (
    GradientEstimate,
    Race,
    pathwise_gradient,
    race,
    score_gradient,
)
from tractable.inference.weighted.weights import mean_estimate

__all__ = [
    "discrete_expectation", "discrete_expectation_gradient", "discrete_race", "gumbel_expectation",
    "reinforce_gradient", "relaxed_gradient",
]  # fmt: skip


def discrete_expectation(values: ArrayLike, logits: ArrayLike) -> Scalar:
    r"""$\sum_k\mathrm{softmax}(\mu)_k f_k$.

    >>> float(discrete_expectation([1.0, 5.0], [0.0, 0.0]))
    3.0
    """
    f, mu = _pair(values, logits)
    return softmax(mu) @ f


def discrete_expectation_gradient(values: ArrayLike, logits: ArrayLike) -> Float[Array, " k"]:
    r"""$\partial E[f]/\partial\mu_k = p_k (f_k - E[f])$."""
    f, mu = _pair(values, logits)
    p = softmax(mu)
    return p * (f - p @ f)


def gumbel_expectation(key: Key, values: ArrayLike, logits: ArrayLike, num_draws: int) -> Estimate:
    """The expectation from indices drawn by Gumbel noise, with its standard error."""
    f, mu = _pair(values, logits)
    return mean_estimate(f[gumbel_max(key, mu, (check_count("num_draws", num_draws, 2),))])


def reinforce_gradient(
    key: Key, values: ArrayLike, logits: ArrayLike, num_draws: int, *, baseline: str | float | int = "none"
) -> GradientEstimate:
    """The score gradient in the logits, with the baselines of `score_gradient`."""
    f, mu = _pair(values, logits)
    drawn = gumbel_max(key, mu, (check_count("num_draws", num_draws, 2),))
    codes = jnp.concatenate([one_hot(drawn, mu.shape[0]), f[drawn][:, None]], axis=1)
    return score_gradient(_value, _log_mass, mu, codes, baseline=baseline)


def relaxed_gradient(
    key: Key,
    function: Callable[[Array], Any],
    logits: ArrayLike,
    num_draws: int,
    *,
    temperature: float = 0.5,
    hard: bool = False,
) -> GradientEstimate:
    r"""The pathwise gradient of `function` at `Concrete` draws; with `hard` it sees one-hot codes and the
    gradient passes straight through. `function` must be smooth on the simplex; the estimate is biased for
    $\tau > 0$."""
    mu = as_float("logits", logits)
    Concrete(mu, jnp.asarray(temperature))  # checks both by name
    noise = jr.gumbel(key, (check_count("num_draws", num_draws, 2), mu.shape[0]), mu.dtype)
    heat = jnp.full((num_draws, 1), temperature, mu.dtype)
    rows = jnp.concatenate([noise, heat], axis=1)
    return pathwise_gradient(_OfDraw(function, hard), _relax, mu, rows)


def discrete_race(
    key: Key,
    function: Callable[[Array], Any],
    logits: ArrayLike,
    num_draws: int,
    *,
    temperature: float = 0.5,
) -> Race:
    """All estimators of the gradient of $E[f(e_K)]$ side by side; `function` takes one-hot codes and points
    between them. The relaxed ones are biased: their means differ from the exact one by more than noise."""
    mu = as_float("logits", logits)
    corners = _corners(function, mu)
    first, second, third, fourth = jr.split(key, 4)
    exact = discrete_expectation_gradient(corners, mu)
    estimates = {
        "exact sum": GradientEstimate(exact[None], jnp.ones(1)),
        "REINFORCE": reinforce_gradient(first, corners, mu, num_draws),
        "REINFORCE, leave-one-out": reinforce_gradient(
            second, corners, mu, num_draws, baseline="leave_one_out"
        ),
        "Gumbel-softmax": relaxed_gradient(third, function, mu, num_draws, temperature=temperature),
        "straight-through": relaxed_gradient(
            fourth, function, mu, num_draws, temperature=temperature, hard=True
        ),
    }
    return race(estimates)


class _OfDraw(Module):
    """A function of the draw alone, as a function of parameters and draw."""

    function: Callable = field(static=True)
    hard: bool = field(static=True)

    def __call__(self, _: Array, x: Array) -> Any:
        return self.function(straight_through(x) if self.hard else x)


def _relax(logits: Array, row: Array) -> Array:
    return softmax(logits + row[:-1], row[-1])


def _value(_: Array, code: Array) -> Array:
    return code[-1]


def _log_mass(logits: Array, code: Array) -> Array:
    return log_softmax(logits) @ code[:-1]


@program
def _corners(function: Callable[[Array], Any], logits: Array) -> Array:
    return jax.vmap(function)(jnp.eye(logits.shape[0], dtype=logits.dtype))


def _pair(values: Any, logits: Any) -> tuple[Array, Array]:
    f, mu = as_float("values", values), as_float("logits", logits)
    check(mu.ndim == 1 and mu.shape[0] > 1, "logits", "a vector of two or more", f"shape {mu.shape}")
    check(f.shape == mu.shape, "values", f"one per logit ({mu.shape[0]})", f"shape {f.shape}")
    return f, mu
