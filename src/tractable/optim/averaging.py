r"""Averages of the parameters along a run: a better point than the last one where steps are noisy.

Exponential. $\bar\theta_t = \beta \bar\theta_{t-1} + (1 - \beta)\theta_t$ from zero, divided by
             $1 - \beta^t$: the start has no pull, and $\beta = 0$ is the last iterate.
Uniform.     $\bar\theta = \frac1m \sum \theta_t$ over every `every`-th iterate after the first `after`: the
             average of Polyak and Ruppert, and the stochastic weight average of networks. Before there is
             any, the iterate itself.
Variance.    Of independent iterates around $\theta^*$ the uniform average has $1/m$ of the variance, the
             exponential one $(1 - \beta)/(1 + \beta)$.
Cost.        One copy of the parameters and one pass over them at each update.
References.  Polyak and Juditsky (1992); Izmailov et al. (2018).
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import check, check_count, is_concrete
from tractable.core.module import Module, field
from tractable.core.types import Array

__all__ = ["Averaging", "ExponentialWeights", "UniformWeights"]


class Averaging(Module):
    """A rule by which parameters are averaged: what it remembers, one more iterate, and the average."""

    @abstractmethod
    def begin(self, params: Any) -> Any:
        """What is remembered of no iterate yet."""

    @abstractmethod
    def push(self, memory: Any, params: Any) -> Any:
        """What is remembered after one more iterate."""

    @abstractmethod
    def value(self, memory: Any) -> Any:
        """The average."""


class ExponentialWeights(Averaging):
    r"""Recent iterates count most: about the last $1/(1 - \beta)$.

    >>> rule = ExponentialWeights(0.5)
    >>> memory = rule.begin(jnp.zeros(()))
    >>> for x in (4.0, 7.0):
    ...     memory = rule.push(memory, jnp.asarray(x))
    >>> float(rule.value(memory))                       # (4 / 4 + 7 / 2) / (1 / 4 + 1 / 2)
    6.0
    """

    decay: float | Array = 0.999

    def __check_init__(self) -> None:
        if is_concrete(self.decay):
            check(bool(0 <= self.decay < 1), "decay", "from 0 to below 1", self.decay)

    def begin(self, params: Any) -> Any:
        return params, jax.tree.map(jnp.zeros_like, params), jnp.asarray(0, jnp.int32)

    def push(self, memory: Any, params: Any) -> Any:
        _, sums, count = memory

        def mix(old: Array, new: Array) -> Array:
            return (self.decay * old + (1 - self.decay) * new).astype(old.dtype)

        return params, jax.tree.map(mix, sums, params), count + 1

    def value(self, memory: Any) -> Any:
        last, sums, count = memory
        mass = 1 - jnp.asarray(self.decay) ** jnp.maximum(count, 1)
        return jax.tree.map(lambda s, x: jnp.where(count > 0, (s / mass).astype(x.dtype), x), sums, last)


class UniformWeights(Averaging):
    """All iterates count alike: every `every`-th one after the first `after`."""

    after: int = field(static=True, default=0)
    every: int = field(static=True, default=1)

    def __check_init__(self) -> None:
        check_count("after", self.after, least=0)
        check_count("every", self.every)

    def begin(self, params: Any) -> Any:
        return params, jnp.asarray(0, jnp.int32)

    def push(self, memory: Any, params: Any) -> Any:
        mean, count = memory
        past = count + 1 - self.after
        number = past // self.every  # of iterates in the mean, this one included

        def mix(old: Array, new: Array) -> Array:
            step = (new - old) / jnp.maximum(number, 1).astype(old.dtype)
            taken = jnp.where((number > 0) & (past % self.every == 0), old + step, old)
            return jnp.where(number > 0, taken, new)

        return jax.tree.map(mix, mean, params), count + 1

    def value(self, memory: Any) -> Any:
        return memory[0]
