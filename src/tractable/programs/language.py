r"""The words in which a model is stated: `sample`, `plate`, `scan`, `deterministic`, `factor`, `param`.

Model.       A Python function that names its unknowns in the order in which they come about; what it returns
             is of no consequence. It is stated once: draws, log-densities, predictions and interventions are
             runs of the same function.
Shapes.      Those of the mathematics: a site in a plate of $n$ has $n$ units along its first axis, and no
             inference ever adds axes to an array that the function sees.
Cost.        None of their own.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tractable.core.module import Module, field
from tractable.core.support import Support, as_support, real
from tractable.core.types import Array, ArrayLike, PyTree
from tractable.distributions.base import Distribution
from tractable.programs.run import Run, current, recording

__all__ = ["Model", "deterministic", "factor", "model", "param", "plate", "sample", "scan"]


def sample(name: str, distribution: Distribution, obs: ArrayLike | None = None) -> Array:
    """An unknown, or with `obs` something observed; inside plates, one for each place."""
    return current("sample").sample(name, distribution, obs)


def deterministic(name: str, value: PyTree) -> PyTree:
    """A name for something computed, which then is among the results."""
    return current("deterministic").deterministic(name, value)


def factor(name: str, log_factor: ArrayLike) -> None:
    """Multiply the density of the model by `exp(log_factor)`; an array holds one factor for each entry."""
    current("factor").factor(name, log_factor)


def param(name: str, start: ArrayLike, support: Support | str = real) -> Array:
    """A number without a prior, which inference sets to its most plausible value, beginning at `start`."""
    return current("param").param(name, start, as_support("support", support))


def plate(name: str, size: int | Sequence) -> AbstractContextManager[np.ndarray]:
    """Independent units: `size` of them, or one for each label. `with plate("row", n) as rows:` gives their
    numbers."""
    return current("plate").plate(name, size)


def scan(
    name: str,
    step: Callable[[PyTree, Any], tuple[PyTree, PyTree]],
    start: PyTree,
    xs: PyTree = None,
    *,
    length: int | None = None,
) -> tuple[PyTree, PyTree]:
    """A chain of equal steps, like `jax.lax.scan`: `step(carry, x) -> (carry, output)` may call `sample`.

    A site of the step has one unit for each step, along its first axis. It returns the last carry and the
    outputs, stacked.
    """
    return current("scan").scan(name, step, start, xs, length)


class Model(Module):
    """A function that states a model; `observed` and `fixed` are values that were set from outside.

    Called inside another model it is part of that one.
    """

    function: Callable[..., Any] = field(static=True)
    observed: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *args: Any, **options: Any) -> Any:
        with current("model").given(self.observed, self.fixed):
            return self.function(*args, **options)

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "model")

    def condition(self, values: Mapping[str, Any]) -> "Model":
        """The same model with these sites observed."""
        return Model(self.function, {**self.observed, **values}, self.fixed)

    def do(self, values: Mapping[str, Any]) -> "Model":
        """The same model with these sites set from outside: they no longer depend on what comes before."""
        return Model(self.function, self.observed, {**self.fixed, **values})

    def bind(self, *args: Any, **options: Any) -> Any:
        """The model with its arguments: a `Program`, of which draws and densities can be asked."""
        from tractable.programs.trace import bind

        return bind(self, args, options)

    def __repr__(self) -> str:
        given = "".join(f", {name}=..." for name in (*self.observed, *self.fixed))
        return f"{self.name}{inspect.signature(self.function)}{given}"

    def run(self, args: tuple, options: Mapping[str, Any], **how: Any) -> Run:
        """One run of the function, with the sites that it named."""
        run = Run(observed=self.observed, fixed=self.fixed, **how)
        with recording(run):
            self.function(*args, **options)
        return run


def model(function: Callable[..., Any]) -> Model:
    """State a model.

    >>> import jax.random as jr
    >>> from tractable.distributions import Beta, Bernoulli
    >>> @model
    ... def coin(tosses=None):
    ...     bias = sample("bias", Beta(2.0, 2.0))
    ...     with plate("toss", 3):
    ...         sample("tosses", Bernoulli(bias), obs=tosses)
    >>> coin
    coin(tosses=None)
    >>> coin.bind().sample(jr.key(1), 4)["tosses"].shape
    (4, 3)
    """
    return Model(function)
