r"""Potentials of discrete variables: non-negative tables that are multiplied and summed out.

Table.       $\log f$ of discrete variables with named axes; $f = 0$ is $-\infty$, an impossible state.
Cost.        Linear in the cells of the product.
References.  Koller and Friedman (2009) sections 4.2 and 9.3.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import (
    ImpossibleEvidence,
    as_float,
    check,
    check_entries,
    check_nonnegative,
    is_concrete,
)
from tractable.core.module import Module, field
from tractable.core.numerics import safe_log
from tractable.core.types import Array, Float
from tractable.distributions.table_axes import Event, Names, TableAxes, as_names, table_axes
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.messages.semirings import Semiring, as_semiring, namespace

__all__ = ["Table", "aligned", "as_table", "as_tables", "multiplied", "normalised", "numbers", "summed"]


class Table(Module):
    """A potential of discrete variables: the logarithm of a non-negative number for each joint state.

    >>> f = Table.from_values(["a", "b"], [[0.3, 0.2], [0.0, 0.5]])
    >>> np.exp(f.marginal("a").log_values).round(6).tolist()
    [0.5, 0.5]
    >>> round(float(np.exp(f.condition(a=1).log_total())), 6)
    0.5
    """

    log_values: Float[Array, "..."] | Float[np.ndarray, "..."]  # NumPy where there are values
    axes: TableAxes = field(static=True)

    def __init__(self, names: Names, log_values: Any, states: Any = None, *, validate: bool = True):
        """`states`: one sequence per axis, or a mapping from names to sequences; by default 0, 1, 2, ..."""
        plain = isinstance(log_values, np.ndarray) and log_values.dtype in (np.float64, np.float32)
        self.log_values = log_values if plain else numbers(as_float("log_values", log_values))
        self.axes = table_axes(names, self.log_values.shape, states)
        if validate:
            _check_logs("log_values", self.log_values)

    @classmethod
    def from_values(cls, names: Names, values: Any, states: Any = None) -> "Table":
        """The potential with these non-negative values."""
        numbers = as_float("values", values)
        check_nonnegative("values", numbers)
        if is_concrete(numbers):
            with np.errstate(divide="ignore"):
                return cls(names, np.log(np.asarray(numbers)), states, validate=False)
        return cls(names, safe_log(numbers), states, validate=False)

    @classmethod
    def from_table(cls, table: JointTable | ConditionalTable) -> "Table":
        """A probability table as a potential; a conditional one sums to one over its targets only."""
        return cls.from_values(table.axes.names, table.probs, table.axes.states)

    @property
    def names(self) -> tuple[str, ...]:
        return self.axes.names

    @property
    def states(self) -> dict[str, tuple[Any, ...]]:
        """The states of each variable."""
        return dict(zip(self.axes.names, self.axes.states))

    def __mul__(self, other: "Table") -> "Table":
        """The product, with the axes of both."""
        axes = self.axes.join(other.axes)
        factors = [(t.names, t.log_values) for t in (self, other)]
        return Table(axes.names, multiplied(axes.names, factors, "sum_product"), axes.states, validate=False)

    def contract(self, other: "Table", keep: Names = (), semiring: str | Semiring = "sum_product") -> Any:
        """The elements of the product, summed over all variables but `keep`."""
        chosen, axes = as_semiring(semiring), self.axes.join(other.axes)
        factors = [(t.names, chosen.lift(t.log_values)) for t in (self, other)]
        return summed(axes, multiplied(axes.names, factors, chosen), as_names(keep), chosen)

    def marginal(self, names: Names) -> "Table":
        """The sum over all other variables."""
        return self._reduced(names, "sum_product")

    def maximum(self, names: Names) -> "Table":
        """The maximum over all other variables."""
        return self._reduced(names, "max_sum")

    def condition(self, evidence: Event | None = None, /, **more: Any) -> "Table":
        """The potential of the other variables at one state of each of these."""
        event = {**(evidence or {}), **more}
        axes = self.axes.select(self.axes.without(event))
        where = {name: self.axes.mask(name, [value]).argmax() for name, value in event.items()}
        index = tuple(where.get(name, slice(None)) for name in self.names)
        return Table(axes.names, self.log_values[index], axes.states, validate=False)

    def log_total(self, semiring: str | Semiring = "sum_product") -> Any:
        r"""The sum over all joint states, $\log \sum_x f(x)$ by default; $-\infty$ if none is possible."""
        chosen = as_semiring(semiring)
        return summed(self.axes, chosen.lift(self.log_values), (), chosen)

    def normalised(self) -> JointTable:
        """The distribution in proportion to the potential (else `ImpossibleEvidence`)."""
        return normalised(self.axes, self.log_values)

    def __repr__(self) -> str:
        probs = jnp.exp(self.log_values) if is_concrete(self.log_values) else self.log_values
        return self.axes.render(f"f({', '.join(self.names)})", probs).replace("probability", "value", 1)

    def _reduced(self, names: Names, semiring: str) -> "Table":
        axes = self.axes.select(names)
        log_values = summed(self.axes, self.log_values, axes.names, as_semiring(semiring))
        return Table(axes.names, log_values, axes.states, validate=False)


def as_tables(
    factors: Mapping[str, Any] | Iterable[Any],
) -> tuple[dict[str, Table], dict[str, tuple[Any, ...]]]:
    """Factors by name (`f1`, `f2`, ... if they have none) and the states of every variable, in agreement."""
    items = factors.items() if isinstance(factors, Mapping) else enumerate(factors, 1)
    tables = {key if isinstance(key, str) else f"f{key}": as_table(value) for key, value in items}
    check(bool(tables), "factors", "at least one potential", "none")
    states: dict[str, tuple[Any, ...]] = {}
    for factor, table in tables.items():
        for name, own in table.states.items():
            known = states.setdefault(name, own)
            check(known == own, factor, f"a potential with the states {known} of {name!r}, as before", own)
    shared = sorted(set(states) & set(tables))
    check(not shared, "factors", "named differently from the variables", shared)
    return tables, states


def numbers(log_values: Any) -> Any:
    """Values in NumPy where there are values; tracers as they are."""
    return np.asarray(log_values) if is_concrete(log_values) else log_values


def multiplied(
    onto: Sequence[Hashable], factors: Sequence[tuple[Sequence[Hashable], Any]], semiring: str | Semiring
) -> Any:
    """The product of arrays of elements (pairs of variables and array) with its axes in the order of `onto`.

    Axes that no array has are of length one.
    """
    chosen = as_semiring(semiring)
    product = None
    for names, array in factors:
        moved = aligned(onto, names, array)
        product = moved if product is None else chosen.times(product, moved)
    return chosen.one.reshape((1,) * len(onto) + chosen.unit_shape) if product is None else product


def aligned(onto: Sequence[Hashable], names: Sequence[Hashable], array: Any) -> Any:
    """`array` with its table axes in the order of `onto`, padded with axes of length one."""
    order = [tuple(names).index(name) for name in onto if name in names]
    units = range(len(order), array.ndim)
    missing = tuple(i for i, name in enumerate(onto) if name not in names)
    return namespace(array).expand_dims(array.transpose((*order, *units)), missing)


def summed(axes: TableAxes, elements: Any, keep: tuple[str, ...], semiring: Semiring) -> Any:
    """The sum of elements over all variables but `keep`, whose axes come in that order."""
    kept = [axes.position(name) for name in keep]
    reduced = semiring.total(elements, tuple(i for i in range(len(axes.names)) if i not in kept))
    left = sorted(kept)
    units = range(len(kept), reduced.ndim)
    return reduced.transpose((*(left.index(i) for i in kept), *units)) if kept else reduced


def normalised(axes: TableAxes, log_values: Any) -> JointTable:
    """The distribution in proportion to $e^{\\mathrm{log\\_values}}$ (else `ImpossibleEvidence`)."""
    xp = namespace(log_values)
    total = as_semiring("sum_product").total(log_values, tuple(range(log_values.ndim)))
    if is_concrete(total) and not float(total) > -np.inf:
        names = ", ".join(axes.names)
        check(False, "factors", f"possible in some state of ({names})", "none", error=ImpossibleEvidence)
    return JointTable(axes.names, xp.exp(log_values - total), axes.states, validate=False)


def as_table(value: Any, name: str = "factors") -> Table:
    """A potential from a `Table`, a probability table, or a pair of names and log-potentials."""
    if isinstance(value, Table):
        return value
    if isinstance(value, JointTable | ConditionalTable):
        return Table.from_table(value)
    if isinstance(value, tuple) and len(value) == 2:
        table = Table(value[0], value[1], validate=False)
        _check_logs(name, table.log_values)
        return table
    must = "a `Table`, a probability table, or a pair (names, log_potentials)"
    raise TypeError(f"`{name}` must be {must}; got {type(value).__name__}.")


def _check_logs(name: str, log_values: Any) -> None:
    """Neither NaN nor infinite, where there are values."""
    check_entries(name, log_values, lambda v: v < np.inf, "finite, or -inf for an impossible state")
