r"""What a joint table says in numbers: moments, entropies, mutual information, independence.

Identities.  $E[f(X)] = \sum_x P(x) f(x)$, conditional on an event or on each state of other variables;
             $X \perp Y \mid Z$ iff $P(x, y \mid z) = P(x \mid z) P(y \mid z)$ wherever $P(z) > 0$,
             iff $I(X; Y \mid Z) = 0$.
Cost.        One contraction to the variables in question, then linear in their joint states.
References.  Cover and Thomas (2006) chapter 2; Koller and Friedman (2009) chapter 2.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module
from tractable.core.types import Array, Bool, Float, Scalar
from tractable.distributions import information, moments
from tractable.distributions.contraction import conditional
from tractable.distributions.information import Base
from tractable.distributions.mutual_information import mutual_information
from tractable.distributions.table_axes import Event, Names, TableAxes, as_names

__all__ = ["Independence", "TableStatistics"]

# A variable itself, a mapping from its states to numbers, or a function of the values of named variables.
Quantity = str | Mapping[Any, Any] | Callable[..., Any]


class Independence(Module):
    """A verdict on independence, and two measures of how far from it the table is."""

    holds: Bool[Array, ""]
    deviation: Scalar  # largest difference between the joint probability and the product
    information: Scalar  # mutual information (for several variables, total correlation) in nats

    def __bool__(self) -> bool:
        return bool(self.holds)


class TableStatistics(Module):
    """Moments, entropies and tests of independence of a joint table with named axes."""

    axes: eqx.AbstractVar[TableAxes]
    probs: eqx.AbstractVar[Array]

    @abstractmethod
    def _probs_of(self, targets: Names, given: Event | None = None) -> Array:
        """The probabilities of the joint states of `targets`, given an event."""

    def expectation(self, quantity: Quantity, *names: str, given: Event | None = None) -> Scalar:
        r"""$E[f(X) \mid \mathrm{event}]$.

        `expectation("x")` is $E[X]$; `expectation(lambda x, y: x * y, "x", "y")` calls the function once on
        arrays of the variables' values; `expectation({"low": 1.0, "high": 5.0}, "level")` maps states to
        numbers. Variables whose states are not numbers need the mapping: anything else is a `TypeError`.
        """
        names, values = self._values(quantity, names)
        return moments.expectation(values, self._probs_of(names, given))

    def variance(self, quantity: Quantity, *names: str, given: Event | None = None) -> Scalar:
        r"""$\mathrm{Var}[f(X) \mid \mathrm{event}]$, with `quantity` as in `expectation`."""
        names, values = self._values(quantity, names)
        return moments.variance(values, self._probs_of(names, given))

    def covariance(self, first: str, second: str, given: Event | None = None) -> Scalar:
        r"""$\mathrm{Cov}[X, Y \mid \mathrm{event}]$, the variance where both are one variable."""
        if first == second:
            return self.variance(first, given=given)
        x, y = np.meshgrid(self.axes.numbers(first), self.axes.numbers(second), indexing="ij")
        return moments.covariance(x, y, self._probs_of((first, second), given))

    def conditional_expectation(self, quantity: Quantity, *names: str, given: Names) -> Float[Array, "..."]:
        r"""$E[f(X) \mid Y = y]$ for every state of the variables `given`; NaN where $P(y) = 0$."""
        names, values = self._values(quantity, names)
        outer = as_names(given)
        axes = self.axes.select((*outer, *(name for name in names if name not in outer)))
        joint = self._probs_of(axes.names)
        inner = tuple(range(len(outer), joint.ndim))
        values = jnp.where(joint == 0, 0.0, axes.spread(names, values))
        return (conditional(joint, inner) * values).sum(inner)

    def entropy(self, names: Names | None = None, given: Names = (), base: Base = None) -> Scalar:
        r"""$H(X \mid Y) = H(X, Y) - H(Y)$ of the variables `names` (by default all) given others."""
        outer = as_names(given)
        inner = self.axes.names if names is None else as_names(names)
        both = information.entropy(self._probs_of(dict.fromkeys(inner + outer)), base)
        return both - information.entropy(self._probs_of(outer), base)

    def mutual_information(self, first: Names, second: Names, given: Names = (), base: Base = None) -> Scalar:
        r"""$I(X; Y \mid Z)$ between two variables or groups of variables, given a third group."""
        return mutual_information(self._blocks(first, second, given), 0, 1, 2, base)

    def independence(self, first: Names, second: Names, given: Names = (), tol: float = 1e-9) -> Independence:
        r"""Whether $P(x, y \mid z) = P(x \mid z) P(y \mid z)$ to within `tol` wherever $P(z) > 0$."""
        joint = self._blocks(first, second, given)
        p = conditional(joint, (0, 1))
        difference = jnp.abs(p - p.sum(1, keepdims=True) * p.sum(0, keepdims=True))
        deviation = jnp.where(joint.sum((0, 1), keepdims=True) == 0, 0.0, difference).max()
        return Independence(deviation <= tol, deviation, mutual_information(joint, 0, 1, 2))

    def mutual_independence(self, names: Names | None = None, tol: float = 1e-9) -> Independence:
        r"""Whether $P(x_1, \dots, x_n) = \prod_i P(x_i)$: more than independence of every pair."""
        axes = self.axes if names is None else self.axes.select(names)
        joint = self._probs_of(axes.names)
        product = jnp.ones_like(joint)
        for name in axes.names:
            product = product * axes.spread((name,), self._probs_of(name))
        deviation = jnp.abs(joint - product).max()
        total_correlation = sum(self.entropy(name) for name in axes.names) - self.entropy(axes.names)
        return Independence(deviation <= tol, deviation, jnp.asarray(total_correlation))

    def _values(self, quantity: Quantity, names: tuple[str, ...]) -> tuple[tuple[str, ...], Array]:
        """The variables that a quantity depends on, and its value for each of their joint states."""
        if isinstance(quantity, str):
            check(not names, "names", "left out when the quantity is a variable", names)
            return (quantity,), jnp.asarray(self.axes.numbers(quantity))
        names = as_names(names)
        if isinstance(quantity, Mapping):
            check(len(names) == 1, "names", "one variable for a mapping from states to numbers", names)
            missing = [state for state in self.axes.states_of(names[0]) if state not in quantity]
            check(
                not missing, "quantity", f"a mapping from every state of {names[0]!r}", f"none for {missing}"
            )
            return names, jnp.stack([jnp.asarray(quantity[s], float) for s in self.axes.states_of(names[0])])
        check(len(names) > 0, "names", "the variables that the function takes", "none")
        grids = np.meshgrid(*(self.axes.numbers(name) for name in names), indexing="ij")
        values = jnp.asarray(quantity(*(jnp.asarray(grid) for grid in grids)), float)
        fits = values.shape in ((), grids[0].shape)
        must = f"a function from arrays to an array of their shape {grids[0].shape}"
        check(fits, "quantity", must, f"shape {values.shape}")
        return names, jnp.broadcast_to(values, grids[0].shape)

    def _blocks(self, first: Names, second: Names, given: Names) -> Float[Array, "x y z"]:
        """The joint probabilities of three groups of variables, each group as one axis."""
        groups = as_names(first), as_names(second), as_names(given)
        together = sum(groups, ())
        check(
            len(set(together)) == len(together), "first, second, given", "without a common variable", groups
        )
        sizes = [int(np.prod(self.axes.select(group).shape, dtype=int)) for group in groups]
        return self._probs_of(together).reshape(sizes)
