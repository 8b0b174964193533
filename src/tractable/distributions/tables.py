r"""Joint and conditional probability tables with named axes: the rules of probability on discrete variables.

Identities.  $P(x) = \sum_z P(x, z)$; $P(x \mid y) = P(x, y) / P(y)$ where $P(y) > 0$;
             $P(x, y) = P(x \mid y) P(y)$; $P(x \mid y) = P(y \mid x) P(x) / P(y)$;
             $P(x_1, \dots, x_n) = \prod_i P(x_i \mid x_{<i})$ in any order.
Cost.        Linear in the cells of the table: twenty binary variables are $2^{20}$ cells, 8 MB.
References.  Pearl (1988) chapter 2; Koller and Friedman (2009) chapter 2.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import ImpossibleEvidence, as_float, check, check_entries, is_concrete, offender
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.types import Array, Bool, Float, Key, Scalar, Shape
from tractable.distributions.contraction import conditional, contract
from tractable.distributions.information import as_probabilities
from tractable.distributions.table_axes import Event, Names, TableAxes, as_names, table_axes
from tractable.distributions.table_statistics import TableStatistics
from tractable.distributions.tabulation import tabulate

__all__ = ["ConditionalTable", "JointTable", "product"]


class JointTable(TableStatistics):
    """The joint distribution of discrete variables: one axis of `probs` per name, one cell per joint state.

    Events map names to a state, a set or list of states, or a predicate of one state:
    `{"level": {1, 2}, "age": lambda age: age > 30}`.

    >>> table = JointTable(["weather", "late"], [[0.4, 0.1], [0.2, 0.3]], {"weather": ["sun", "rain"]})
    >>> round(float(table.prob(late=1, given={"weather": "rain"})), 6)
    0.6
    """

    probs: Float[Array, "..."]
    axes: TableAxes = field(static=True)

    def __init__(self, names: Names, probs: Any, states: Any = None, *, validate: bool = True):
        """`states`: one sequence per axis, or a mapping from names to sequences; by default 0, 1, 2, ...

        Without `validate` the values are taken as they are: for results of exact steps, valid up to rounding.
        """
        self.probs = as_float("probs", probs)
        self.axes = table_axes(names, self.probs.shape, states)
        if validate:
            as_probabilities("probs", self.probs, self.axes.describe)

    @classmethod
    def from_counts(cls, names: Names, counts: Any, states: Any = None) -> "JointTable":
        """The empirical distribution of counts, or of any weights that are not all zero."""
        weights = as_float("counts", counts)
        if is_concrete(weights):
            cells = np.asarray(weights)
            must = "zero or positive, and finite"
            check_entries("counts", cells, lambda v: (v >= 0) & np.isfinite(v), must)
            check(cells.sum() > 0, "counts", "positive in at least one cell", "zero in all")
        return cls(names, weights / weights.sum(), states)

    @classmethod
    def from_samples(
        cls, data: Any, weights: Any = None, states: Mapping[str, Sequence[Any]] | None = None
    ) -> "JointTable":
        """The empirical distribution of rows: `data` maps names to columns (a dict or a pandas DataFrame).

        `weights` count rows; `states` fixes the states of some columns, so that unseen ones have probability
        zero.
        """
        axes, counts = tabulate(data, weights, states)
        return cls.from_counts(axes.names, counts, axes.states)

    @property
    def names(self) -> tuple[str, ...]:
        return self.axes.names

    @property
    def states(self) -> dict[str, tuple[Any, ...]]:
        """The states of each variable."""
        return dict(zip(self.axes.names, self.axes.states))

    def marginal(self, names: Names) -> "JointTable":
        r"""$P(x) = \sum_z P(x, z)$ over the variables left out; axes in the order of `names`."""
        return self.query(names)

    def condition(self, evidence: Event | None = None, /, **more: Any) -> "JointTable":
        """The distribution of the other variables given a possible event (else `ImpossibleEvidence`)."""
        event = {**(evidence or {}), **more}
        return self.query(self.axes.without(event), event)

    def query(self, targets: Names, given: Event | None = None) -> "JointTable":
        r"""$P(\mathrm{targets} \mid \mathrm{event})$, all other variables summed out."""
        axes = self.axes.select(targets)
        return JointTable(axes.names, self._probs_of(targets, given), axes.states, validate=False)

    def prob(self, event: Event | None = None, /, given: Event | None = None, **more: Any) -> Scalar:
        r"""$P(\mathrm{event} \mid \mathrm{given})$, such as `prob(late=1, given={"weather": "rain"})`."""
        wanted = {**(event or {}), **more}
        return self._restricted((), wanted, given or {}) / self._possible(given or {})

    def conditional_table(self, targets: Names, given: Names) -> "ConditionalTable":
        r"""$P(x \mid y)$ for every $y$; rows with $P(y) = 0$ are NaN, since nothing is defined there."""
        targets, given = as_names(targets), as_names(given)
        axes = self.axes.select(given + targets)
        rows = conditional(self._probs_of(axes.names), tuple(range(len(given), len(axes.names))))
        return ConditionalTable(targets, given, rows, axes.states, validate=False)

    def chain_rule(
        self, order: Names | None = None, memory: int | None = None
    ) -> "list[JointTable | ConditionalTable]":
        r"""Factors $P(x_1), P(x_2 \mid x_1), P(x_3 \mid x_1, x_2), \dots$ with the joint as their product.

        With `memory` $m$ each variable is conditioned on the $m$ before it: a Markov chain of that order,
        whose product is the joint only where the joint is one.
        """
        order = self.names if order is None else as_names(order)
        check(sorted(order) == sorted(self.names), "order", f"an order of {self.names}", order)
        start = [0 if memory is None else max(0, i - memory) for i in range(len(order))]
        rest = [self.conditional_table(order[i], order[start[i] : i]) for i in range(1, len(order))]
        return [self.marginal(order[:1]), *rest]

    def __mul__(self, other: Any) -> Any:
        """The product rule: `P(y) * P(x | y)`, or the joint of independent variables."""
        return _multiply(self, other) if isinstance(other, JointTable | ConditionalTable) else NotImplemented

    @takes_key
    def sample(self, key: Key, shape: Shape = ()) -> dict[str, Any]:
        """Independent joint draws: for each variable an array of states of the given shape (one for `()`)."""
        draws = self.sample_indices(key, shape)
        return {name: self.axes.state_array(name).take(np.asarray(index)) for name, index in draws.items()}

    @takes_key
    def sample_indices(self, key: Key, shape: Shape = ()) -> dict[str, Array]:
        """As `sample`, with positions among the states instead of states; works under `jit`."""
        return dict(zip(self.names, _draw(self.probs, key, tuple(shape))))

    def to_pandas(self) -> Any:
        """A pandas Series of probabilities, indexed by the joint states."""
        return self.axes.to_pandas(np.asarray(self.probs))

    def __repr__(self) -> str:
        return self.axes.render(f"P({', '.join(self.names)})", self.probs)

    def _probs_of(self, targets: Names, given: Event | None = None) -> Array:
        targets = as_names(targets)
        for name in targets:
            self.axes.position(name)
        if not given:
            return contract([(self.names, self.probs)], targets)
        return self._restricted(targets, given) / self._possible(given)

    def _restricted(self, targets: tuple[str, ...], *events: Event) -> Array:
        """The probability of the events together with each joint state of `targets`."""
        dtype = self.probs.dtype
        masks = [((name,), self.axes.mask(name, value)) for event in events for name, value in event.items()]
        return contract([(self.names, self.probs), *((n, jnp.asarray(m, dtype)) for n, m in masks)], targets)

    def _possible(self, event: Event) -> Scalar:
        """The probability of evidence, which must not be zero."""
        total = self._restricted((), event)
        if is_concrete(total) and float(total) == 0:
            got = ", ".join(f"{name}={value!r}" for name, value in event.items())
            check(False, "evidence", "of positive probability", f"P({got}) = 0", error=ImpossibleEvidence)
        return total


class ConditionalTable(Module):
    r"""$P(\mathrm{targets} \mid \mathrm{given})$: the given variables on the first axes.

    Cells sum to one over the targets for each joint state of the given variables; a row of NaN is undefined
    (its condition has probability zero). Called with a state for each given variable, it is a `JointTable` of
    the targets.

    >>> wet = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]])
    >>> round(float(wet(rain=1).prob(wet=1)), 6)
    0.8
    """

    probs: Float[Array, "..."]
    axes: TableAxes = field(static=True)
    num_given: int = field(static=True)

    def __init__(
        self, targets: Names, given: Names, probs: Any, states: Any = None, *, validate: bool = True
    ):
        """`states` and `validate` as for `JointTable`; the given variables come first."""
        targets, given = as_names(targets), as_names(given)
        self.probs = as_float("probs", probs)
        self.axes = table_axes(given + targets, self.probs.shape, states)
        self.num_given = len(given)
        if validate and is_concrete(self.probs):
            self._check_rows(np.asarray(self.probs, float))

    @property
    def given(self) -> tuple[str, ...]:
        return self.axes.names[: self.num_given]

    @property
    def targets(self) -> tuple[str, ...]:
        return self.axes.names[self.num_given :]

    @property
    def defined(self) -> Bool[Array, "..."]:
        """Which joint states of the given variables have a distribution."""
        return ~jnp.isnan(self.probs).any(self._target_axes)

    def __call__(self, evidence: Event | None = None, /, **more: Any) -> JointTable:
        """The distribution of the targets for one state of each given variable."""
        values = {**(evidence or {}), **more}
        check(set(values) == set(self.given), "evidence", f"one state for each of {self.given}", values)
        index = tuple(int(self.axes.mask(name, [values[name]]).argmax()) for name in self.given)
        row, axes = self.probs[index], self.axes.select(self.targets)
        if is_concrete(row) and bool(jnp.isnan(row).any()):
            got = f"P({self.axes.select(self.given).describe(index)}) = 0"
            check(False, "evidence", "of positive probability", got, error=ImpossibleEvidence)
        return JointTable(axes.names, row, axes.states, validate=False)

    def __mul__(self, other: Any) -> Any:
        r"""The product rule: $P(x \mid y)\,P(y)$, $P(x \mid y, z)\,P(y \mid z)$."""
        return _multiply(self, other) if isinstance(other, JointTable | ConditionalTable) else NotImplemented

    def to_pandas(self) -> Any:
        """A pandas Series of probabilities, indexed by the given and the target states."""
        return self.axes.to_pandas(np.asarray(self.probs))

    def __repr__(self) -> str:
        return self.axes.render(f"P({', '.join(self.targets)} | {', '.join(self.given)})", self.probs)

    @property
    def _target_axes(self) -> tuple[int, ...]:
        return tuple(range(self.num_given, len(self.axes.names)))

    def _check_rows(self, cells: np.ndarray) -> None:
        total, inner = cells.sum(self._target_axes), self._target_axes
        ok = (cells >= 0).all(inner) & (np.abs(total - 1) <= 1e-6) | np.isnan(cells).all(inner)
        if not ok.all():
            index = np.argwhere(~ok)[0].tolist()
            where = self.axes.select(self.given).describe(index)
            got = f"{offender(cells, ok)} ({where})" if self.given else f"a sum of {float(total):.9g}"
            check(False, "probs", "zero or positive with a sum of 1 for each given state", got)


def product(tables: Iterable[JointTable | ConditionalTable]) -> Any:
    """The product of tables, from first to last, such as the factors of `chain_rule`."""
    return reduce(_multiply, tables)


def _multiply(
    left: JointTable | ConditionalTable, right: JointTable | ConditionalTable
) -> JointTable | ConditionalTable:
    """The product of two tables as one: joint if nothing is left to condition on."""
    (left_targets, left_given), (right_targets, right_given) = _roles(left), _roles(right)
    targets = left_targets + right_targets
    distinct = len(set(targets)) == len(targets)
    check(distinct, "other", f"a table of variables other than {left_targets}", right_targets)
    cycle = set(left_given) & set(right_targets) and set(right_given) & set(left_targets)
    apart = f"independent of {left_targets}, which depend on it"
    check(not cycle, "other", apart, f"a table given {right_given}")
    given = tuple(name for name in dict.fromkeys(left_given + right_given) if name not in targets)
    axes = left.axes.join(right.axes).select(given + targets)
    cells = _product_cells(axes, left.axes.names, right.axes.names, left.probs, right.probs)
    if given:
        return ConditionalTable(targets, given, cells, axes.states, validate=False)
    if is_concrete(cells) and bool(jnp.isnan(cells).any()):
        index = np.argwhere(np.isnan(np.asarray(cells)))[0].tolist()
        got = f"positive probability at {axes.describe(index)}"
        check(False, "other", "impossible where this table is undefined", got, error=ImpossibleEvidence)
    return JointTable(targets, cells, axes.states, validate=False)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _product_cells(
    axes: TableAxes, left: tuple[str, ...], right: tuple[str, ...], left_probs: Array, right_probs: Array
) -> Array:
    a, b = axes.spread(left, left_probs), axes.spread(right, right_probs)
    # A condition of probability zero has an undefined row; its product with that zero is zero.
    return jnp.where(b == 0, 0.0, a) * jnp.where(a == 0, 0.0, b)


@partial(jax.jit, static_argnums=2)
def _draw(probs: Array, key: Key, shape: Shape) -> tuple[Array, ...]:
    flat = jr.choice(key, probs.size, shape, p=probs.reshape(-1))
    return jnp.unravel_index(flat, probs.shape)


def _roles(table: JointTable | ConditionalTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (table.names, ()) if isinstance(table, JointTable) else (table.targets, table.given)
