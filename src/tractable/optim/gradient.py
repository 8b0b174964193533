r"""First-order methods, each the update rule as it is written, over optax's building blocks.

Rules.       With gradient $g_t$ and step size $a_t$:
             descent $w \leftarrow w - a_t g_t$; normalised $w \leftarrow w - a_t g_t/\|g_t\|$;
             momentum $v \leftarrow \beta v + (1-\beta) g_t$, $w \leftarrow w - a_t v$; Nesterov looks ahead
             along $v$;
             Adagrad $w \leftarrow w - a_t g_t / (\sqrt{\sum_s g_s^2} + \epsilon)$;
             RMSProp $r \leftarrow \beta r + (1-\beta) g_t^2$,
             $w \leftarrow w - a_t g_t/(\sqrt{r} + \epsilon)$;
             Adam $w \leftarrow w - a_t \hat v/(\sqrt{\hat r} + \epsilon)$ with bias-corrected averages
             $\hat v, \hat r$.
Cost.        One gradient per step; the line searches add the trials that they need.
References.  Duchi, Hazan and Singer (2011); Kingma and Ba (2015); Nesterov (1983).
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tractable.core.checks import check, check_option, is_concrete
from tractable.core.module import Module, field
from tractable.core.types import Array, Scalar
from tractable.optim.linesearch import backtracking, wolfe
from tractable.optim.objective import Iterate, Method, Objective

__all__ = [
    "Adagrad",
    "Adam",
    "ExponentialAverage",
    "FirstOrder",
    "GradientDescent",
    "LineSearchDescent",
    "Momentum",
    "Nesterov",
    "NormalisedGradient",
    "RMSProp",
]

Schedule = float | Array | Callable[[Any], Any]


class FirstOrder(Method):
    """A method that is a transformation of the gradient; `learning_rate` is a number or a function of the
    step."""

    learning_rate: Schedule = field(default=1e-2)

    def __check_init__(self) -> None:
        if not callable(self.learning_rate) and is_concrete(self.learning_rate):
            rate = np.asarray(self.learning_rate, float)
            fine = bool(np.all((rate >= 0) & np.isfinite(rate)))
            check(fine, "learning_rate", "zero or positive, and finite", self.learning_rate)

    @abstractmethod
    def direction(self) -> optax.GradientTransformation:
        """What the rule makes of the gradient, before the step size and the sign."""

    def transformation(self) -> optax.GradientTransformation:
        """The whole rule as an optax transformation, for use with any pytree of parameters."""
        return optax.chain(self.direction(), optax.scale_by_learning_rate(self.learning_rate))

    def init(self, objective: Objective, start: Array) -> Iterate:
        return Iterate.at(objective, start, self.transformation().init(start))

    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        update, memory = self.transformation().update(iterate.gradient, iterate.memory, iterate.point)
        point: Any = optax.apply_updates(iterate.point, update)
        value, gradient = objective.value_and_grad(point)
        return Iterate(point, value, gradient, memory, iterate.evaluations + 1, jnp.asarray(False))


class GradientDescent(FirstOrder):
    r"""$w \leftarrow w - a_t g_t$."""

    def direction(self) -> optax.GradientTransformation:
        return optax.identity()


class NormalisedGradient(FirstOrder):
    r"""$w \leftarrow w - a_t g_t / \|g_t\|$; a zero gradient moves nothing."""

    def direction(self) -> optax.GradientTransformation:
        def update(updates, state, params=None):
            norm = optax.tree.norm(updates)
            return jax.tree.map(lambda g: g / jnp.where(norm > 0, norm, 1.0), updates), state

        return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


class Momentum(FirstOrder):
    r"""$v \leftarrow \beta v + (1 - \beta) g$, $w \leftarrow w - a_t v$ (the average of past gradients)."""

    decay: float | Array = 0.9

    def direction(self) -> optax.GradientTransformation:
        return optax.ema(self.decay, debias=False)


class Nesterov(FirstOrder):
    r"""$v \leftarrow \beta v + g$, $w \leftarrow w - a_t (g + \beta v)$: momentum with the gradient taken
    ahead."""

    decay: float | Array = 0.9

    def direction(self) -> optax.GradientTransformation:
        return optax.trace(self.decay, nesterov=True)


class Adagrad(FirstOrder):
    r"""$w \leftarrow w - a_t g_t/(\sqrt{\sum_s g_s^2} + \epsilon)$."""

    eps: float | Array = 1e-8

    def direction(self) -> optax.GradientTransformation:
        def update(updates, state, params=None):
            state = jax.tree.map(lambda s, g: s + g**2, state, updates)
            return jax.tree.map(lambda g, s: g / (jnp.sqrt(s) + self.eps), updates, state), state

        return optax.GradientTransformation(lambda params: jax.tree.map(jnp.zeros_like, params), update)


class RMSProp(FirstOrder):
    r"""$r \leftarrow \beta r + (1 - \beta) g^2$, $w \leftarrow w - a_t g/(\sqrt{r} + \epsilon)$."""

    decay: float | Array = 0.9
    eps: float | Array = 1e-8

    def direction(self) -> optax.GradientTransformation:
        return optax.scale_by_rms(self.decay, self.eps, eps_in_sqrt=False)


class Adam(FirstOrder):
    r"""Bias-corrected averages of the gradient and of its square; $\epsilon$ stands outside the root."""

    first_decay: float | Array = 0.9
    second_decay: float | Array = 0.999
    eps: float | Array = 1e-8

    def direction(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.first_decay, self.second_decay, self.eps)


class LineSearchDescent(Method):
    """Gradient descent whose step size is searched at every step: `backtracking` or `wolfe`."""

    search: str = field(static=True, default="backtracking")

    def __check_init__(self) -> None:
        check_option("search", self.search, ("backtracking", "wolfe"))

    def init(self, objective: Objective, start: Array) -> Iterate:
        iterate = Iterate.at(objective, start, jnp.ones((), start.dtype))
        length = 1 / jnp.maximum(jnp.linalg.norm(iterate.gradient), 1.0)
        return Iterate(
            iterate.point, iterate.value, iterate.gradient, length, iterate.evaluations, iterate.stalled
        )

    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        # A third of the predicted decrease: less would accept steps near 2/L, which bounce across the valley.
        search = {"backtracking": partial(backtracking, decrease=1 / 3), "wolfe": wolfe}[self.search]
        trial = search(objective.value_and_grad, iterate.trial, -iterate.gradient, 2 * iterate.memory)
        return iterate.moved(trial, trial.length)


class ExponentialAverage(Module):
    r"""$v_t = \beta v_{t-1} + (1 - \beta) x_t$ from $v_0 = 0$; `corrected` is $v_t / (1 - \beta^t)$.

    >>> average = ExponentialAverage.start(0.9, 0.0)
    >>> for _ in range(3):
    ...     average = average.push(5.0)
    >>> float(round(average.corrected, 12))
    5.0
    """

    decay: Array
    average: Array
    count: Array

    @staticmethod
    def start(decay: float | Scalar, like: float | Array) -> "ExponentialAverage":
        """An average of nothing yet, of the shape of `like`."""
        return ExponentialAverage(
            jnp.asarray(decay), jnp.zeros_like(jnp.asarray(like, float)), jnp.asarray(0)
        )

    def push(self, x: float | Array) -> "ExponentialAverage":
        """The average after one more value."""
        average = self.decay * self.average + (1 - self.decay) * jnp.asarray(x)
        return ExponentialAverage(self.decay, average, self.count + 1)

    @property
    def corrected(self) -> Array:
        """The average without the pull of the zero that it started from; NaN before the first value."""
        return self.average / (1 - self.decay**self.count)
