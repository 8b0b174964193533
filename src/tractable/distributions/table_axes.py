"""Names and states of the axes of a table: looked up, selected, joined and printed; no probabilities here.

Cost.        Python, linear in the number of states; nothing is traced.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, is_concrete
from tractable.core.description import aligned
from tractable.core.types import Array, Bool, Float, Shape

__all__ = ["Event", "Names", "TableAxes", "as_names", "table_axes"]

Names = str | Iterable[str]
# An event: for each variable a state, a set or list of states, or a predicate of one state.
Event = Mapping[str, Any]
_MOST_ROWS = 16


@dataclass(frozen=True)
class TableAxes:
    """The names of the axes, and the states along each."""

    names: tuple[str, ...]
    states: tuple[tuple[Any, ...], ...]

    @property
    def shape(self) -> Shape:
        return tuple(len(states) for states in self.states)

    @cached_property
    def place(self) -> dict[str, int]:
        """The place of each name."""
        return {name: i for i, name in enumerate(self.names)}

    def position(self, name: str) -> int:
        if name not in self.place:
            check(False, "names", f"among {self.names}", repr(name))
        return self.place[name]

    def states_of(self, name: str) -> tuple[Any, ...]:
        return self.states[self.position(name)]

    def select(self, names: Names) -> "TableAxes":
        """The axes `names`, in that order."""
        names = as_names(names)
        return TableAxes(names, tuple(self.states_of(name) for name in names))

    def without(self, names: Names) -> tuple[str, ...]:
        """The other names, in the order of this table."""
        dropped = as_names(names)
        for name in dropped:
            self.position(name)
        return tuple(name for name in self.names if name not in dropped)

    def join(self, other: "TableAxes") -> "TableAxes":
        """The axes of both; a shared variable must have the same states in both."""
        for name in set(self.names) & set(other.names):
            same = self.states_of(name) == other.states_of(name)
            must = f"a variable with the same states in both tables, {self.states_of(name)}"
            check(same, name, must, other.states_of(name))
        extra = other.select(name for name in other.names if name not in self.names)
        return TableAxes(self.names + extra.names, self.states + extra.states)

    def mask(self, name: str, event: Any) -> Bool[np.ndarray, " states"]:
        """Which states of `name` belong to a state, a set or list of states, or a predicate."""
        states = self.states_of(name)
        if callable(event):
            return np.array([bool(event(state)) for state in states])
        wanted = list(event) if isinstance(event, set | frozenset | list) else [event]
        for value in wanted:
            check(value in states, name, f"one of its states {states}", repr(value))
        return np.array([state in wanted for state in states])

    def numbers(self, name: str) -> Float[np.ndarray, " states"]:
        """The states of `name` as numbers; a `TypeError` names the first that is not one."""
        for state in self.states_of(name):
            numeric = isinstance(state, int | float)
            fix = f"Map the states to numbers, e.g. `expectation({{{state!r}: 1.0, ...}}, {name!r})`."
            must = "a variable with numbers as states"
            check(numeric, name, must, f"the state {state!r}", fix, error=TypeError)
        return np.array(self.states_of(name), float)

    def state_array(self, name: str) -> np.ndarray:
        """The states of `name` as an array: of numbers, truth values or text, else of objects."""
        states = self.states_of(name)
        kinds = {type(state) for state in states}
        if kinds <= {int, float} or kinds in ({bool}, {str}):
            return np.array(states)
        objects = np.empty(len(states), object)
        for i, state in enumerate(states):
            objects[i] = state  # one by one: NumPy would take tuples apart
        return objects

    def spread(self, names: Sequence[str], array: Array) -> Array:
        """`array` with axes `names`, transposed and padded with axes of length one to broadcast here."""
        order = [name for name in self.names if name in names]
        moved = jnp.transpose(array, [tuple(names).index(name) for name in order])
        return jnp.expand_dims(moved, [i for i, name in enumerate(self.names) if name not in names])

    def describe(self, index: Sequence[int]) -> str:
        """One cell in words: `weather='rain', wind=1`."""
        return (
            ", ".join(f"{n}={states[i]!r}" for n, states, i in zip(self.names, self.states, index))
            or "the only cell"
        )

    def to_pandas(self, probs: np.ndarray) -> Any:
        """A pandas Series of the cells, indexed by the joint states."""
        import pandas as pd

        index = pd.MultiIndex.from_product(self.states, names=self.names)
        return pd.Series(probs.reshape(-1), index, name="probability")

    def render(self, title: str, probs: Any) -> str:
        """The first cells as lines of text; a stack of tables, or one without values, by its shape."""
        if not isinstance(probs, jax.Array) or not is_concrete(probs) or probs.shape != self.shape:
            return f"{title} of shape {np.shape(probs)}"
        shown = list(itertools.islice(itertools.product(*(range(n) for n in self.shape)), _MOST_ROWS))
        rows = [[*self.names, "probability"]]
        rows += [[*(str(s[i]) for s, i in zip(self.states, index)), f"{probs[index]:.6g}"] for index in shown]
        left = math.prod(self.shape) - len(shown)
        return "\n".join([title, *aligned(rows), *([f"... and {left} more"] if left else [])])


def as_names(names: Names) -> tuple[str, ...]:
    """One name or several, as a tuple of distinct names."""
    chosen = (names,) if isinstance(names, str) else tuple(names)
    texts = all(isinstance(name, str) for name in chosen)
    check(texts, "names", "text, or a sequence of text", chosen, error=TypeError)
    check(len(set(chosen)) == len(chosen), "names", "distinct", chosen)
    return chosen


def table_axes(names: Names, shape: Shape, states: Any = None) -> TableAxes:
    """Axes for an array of `shape`, with one sequence of states per axis, or a mapping from names to them."""
    names = as_names(names)
    check(len(names) == len(shape), "names", f"one per axis of `probs` {shape}", names)
    if isinstance(states, Mapping):
        unknown = [name for name in states if name not in names]
        check(not unknown, "states", f"given for variables among {names}", unknown)
        states = [states.get(name, range(size)) for name, size in zip(names, shape)]
    columns = [range(size) for size in shape] if states is None else list(states)
    check(len(columns) == len(shape), "states", f"one sequence per axis, {len(shape)} in all", len(columns))
    checked = (_as_states(name, column, size) for name, column, size in zip(names, columns, shape))
    return TableAxes(names, tuple(checked))


def _as_states(name: str, states: Iterable[Any], size: int) -> tuple[Any, ...]:
    plain = tuple(s.item() if isinstance(s, np.generic) else s for s in states)
    check(
        len(plain) == size, "states", f"{size} states of {name!r}, one per cell along that axis", len(plain)
    )
    missing = any(isinstance(state, float) and math.isnan(state) for state in plain)
    distinct = len(set(plain)) == len(plain)
    check(distinct and not missing, "states", f"distinct states of {name!r} without NaN", plain)
    return plain
