r"""Maps of each entry by itself: one strictly monotone function, its slope, and what it does to an interval.

Identity.    $y_i = f(x_i)$, so that $\log|\det \partial y/\partial x| = \sum_i \log|f'(x_i)|$, and an
             interval goes to the interval of its ends.
Cost.        Elementwise.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.base import Bijection, Image, Inverse
from tractable.core.checks import check, is_concrete
from tractable.core.module import plates
from tractable.core.support import (
    ExtendedReal,
    Interval,
    NonNegative,
    Positive,
    Real,
    Support,
    nonnegative,
    positive,
    real,
)
from tractable.core.types import Array, Shape

__all__ = ["Elementwise", "Ends", "ends"]


class Ends(NamedTuple):
    """The ends of an interval, and whether the lower and the upper one belong to it (an infinite end never
    does)."""

    low: Any
    high: Any
    closed_low: bool
    closed_high: bool


def ends(support: Support) -> Ends | None:
    """The ends of a set of numbers that is an interval; `None` for any other set."""
    if isinstance(support, Interval):
        return Ends(support.low, support.high, True, True)
    if isinstance(support, Real | ExtendedReal):
        return Ends(-np.inf, np.inf, False, False)
    if isinstance(support, Positive | NonNegative):
        return Ends(0.0, np.inf, isinstance(support, NonNegative), False)
    return None


class Elementwise(Bijection):
    """A strictly monotone function of each entry. Its parameters broadcast to the argument's shape.

    Hooks are elementwise, every array of one common shape: `_value(x)`, `_argument(y)` and `_log_slope(x)`;
    `_inverse_log_slope(y)` is stated by itself where a formula in $y$ is exact for longer than one in $x$.
    """

    @abstractmethod
    def _value(self, x: Array) -> Array:
        r"""$f(x)$."""

    @abstractmethod
    def _argument(self, y: Array) -> Array:
        r"""$f^{-1}(y)$."""

    @abstractmethod
    def _log_slope(self, x: Array) -> Array:
        r"""$\log|f'(x)|$."""

    def _inverse_log_slope(self, y: Array) -> Array:
        r"""$\log|(f^{-1})'(y)|$."""
        return -self._log_slope(self._argument(y))

    @property
    def increasing(self) -> Any:
        return True

    def _forward(self, x):
        map_ = self._spread("x", x.shape)
        return map_._value(x), jnp.sum(map_._log_slope(x))

    def _inverse(self, y):
        map_ = self._spread("y", y.shape)
        return map_._argument(y), jnp.sum(map_._inverse_log_slope(y))

    def image(self, support: Support) -> Support:
        return self._moved(support, self.domain, self.codomain, lambda map_, x: map_._value(x), self)

    def preimage(self, support: Support) -> Support:
        return self._moved(
            support, self.codomain, self.domain, lambda map_, y: map_._argument(y), Inverse(self)
        )

    def _spread(self, name: str, shape: Shape) -> "Elementwise":
        """This map with its parameters repeated to `shape`."""
        own = plates(self)
        fits = len(own) <= len(shape) and all(a in (1, b) for a, b in zip(own[::-1], shape[::-1]))
        check(fits, name, f"an array to whose shape the parameters' {own} broadcasts", f"shape {shape}")
        fields = [f for f in dataclasses.fields(self) if "rank" in f.metadata]
        if not fields:
            return self
        values = [getattr(self, f.name) for f in fields]
        wide = [
            jnp.broadcast_to(v, shape + v.shape[v.ndim - f.metadata["rank"] :])
            for f, v in zip(fields, values)
        ]
        return eqx.tree_at(lambda m: [getattr(m, f.name) for f in fields], self, wide)

    def _moved(
        self, support: Support, start: Support, whole: Support, function: Callable, map_: Bijection
    ) -> Support:
        found, limits = ends(support), ends(start)
        if found is None or limits is None:
            return Image(support, map_)
        if _same(found, limits):
            return whole
        leaves = [found.low, found.high, *jax.tree.leaves(self)]
        if all(is_concrete(leaf) for leaf in leaves):  # the ends stay constants inside a compiled program
            with jax.ensure_compile_time_eval():
                return self._stretched(found, function)
        return self._stretched(found, function)

    def _stretched(self, found: Ends, function: Callable) -> Support:
        shape = jnp.broadcast_shapes(plates(self), jnp.shape(found.low), jnp.shape(found.high))
        spread = self._spread("support", shape)
        first = function(spread, jnp.broadcast_to(jnp.asarray(found.low, float), shape))
        last = function(spread, jnp.broadcast_to(jnp.asarray(found.high, float), shape))
        rises = self.increasing
        low, high = jnp.where(rises, first, last), jnp.where(rises, last, first)
        upward = is_concrete(rises) and bool(np.all(rises))
        return _interval(low, high, found.closed_low if upward else found.closed_high)


def _same(a: Ends, b: Ends) -> bool:
    pairs = [(a.low, b.low), (a.high, b.high)]
    return all(
        jnp.shape(u) == jnp.shape(v) == () and is_concrete(u) and is_concrete(v) and float(u) == float(v)
        for u, v in pairs
    )


def _interval(low: Any, high: Any, closed_low: bool) -> Support:
    """The plainest support with these ends."""
    if not (is_concrete(low) and is_concrete(high)):
        return Interval(low, high)
    low, high = np.asarray(low), np.asarray(high)
    if (high == np.inf).all() and (low == -np.inf).all():
        return real
    if (high == np.inf).all() and (low == 0).all():
        return nonnegative if closed_low else positive
    return Interval(low[()], high[()])
