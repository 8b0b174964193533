r"""Bayesian networks of categorical tables: a directed graph, one table per variable, every query.

Model.       $P(x) = \prod_i P(x_i \mid x_{pa(i)})$ over a directed acyclic graph.
Counting.    $\sum_i (k_i - 1) \prod_{j \in pa(i)} k_j$ free numbers instead of $\prod_i k_i - 1$.
Cost.        Exact queries: exponential in the treewidth alone; `cost(evidence)` predicts it before running.
References.  Pearl (1988); Koller and Friedman (2009) chapters 3, 9 and 10; Darwiche (2009).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np

from tractable.core.checks import check, check_count, is_concrete
from tractable.core.description import shortened
from tractable.core.host_random import generator
from tractable.distributions.table_axes import Names, TableAxes, as_names
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.graphs.dag import DAG
from tractable.graphs.factorisation import Factor, print_dag
from tractable.graphs.potentials import Potentials
from tractable.graphs.queries import DiscreteQueries, Observations
from tractable.graphs.reasoning import Reasoning, Sensitivity, reasoning_kinds, sensitivity
from tractable.graphs.separation import IndependenceStatement
from tractable.messages.evidence import Evidence

__all__ = ["BayesNet", "num_parameters", "num_states", "root_table"]

_ROUNDING = 1e-12  # rows nearer to one than this are exact; others were printed with few digits


# Not a `Module`: a method of one flattens all of its tables at each call, longer than a query takes.
@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, init=False, eq=False, repr=False)
class BayesNet(DiscreteQueries):
    """A Bayesian network: one `ConditionalTable` per variable, given its parents.

    Evidence maps names to a state, a set of states, a predicate of one state, or a likelihood: a mapping from
    states to numbers, or an array with one number per state.

    >>> rain = ConditionalTable("rain", (), [0.8, 0.2])
    >>> wet = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]])
    >>> net = BayesNet([rain, wet])
    >>> round(net.marginals({"wet": 1})["rain"][1], 6)
    0.666667
    >>> net
    BayesNet(2 variables, 1 edges, 3 free parameters): P(rain) P(wet|rain)
    """

    directed: ClassVar[bool] = True

    factors: tuple[ConditionalTable, ...]  # in topological order

    def __init__(self, tables: Iterable[Any] | Mapping[str, Any]):
        """`tables` in any order (a mapping is taken for its values); a root may be a `JointTable`."""
        found = _by_name(list(tables.values()) if isinstance(tables, Mapping) else list(tables))
        _check_states(found)
        order = DAG({name: table.given for name, table in found.items()}).names
        object.__setattr__(self, "factors", tuple(found[name] for name in order))

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The tables are the leaves, for `jax.tree` functions."""
        return self.factors, None

    @classmethod
    def tree_unflatten(cls, _: None, factors: Iterable[Any]) -> "BayesNet":
        """The network of tables that were checked before."""
        net = object.__new__(cls)
        object.__setattr__(net, "factors", tuple(factors))
        return net

    @classmethod
    def fit(cls, frame: Any, structure: Any, **options: Any) -> "BayesNet":
        """The network of a given structure learned from the rows of a DataFrame: see `graphs.learning`."""
        from tractable.graphs.learning import fit_network  # it builds networks, so it imports this module

        return fit_network(frame, structure, **options)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables, parents before children."""
        return tuple(table.targets[0] for table in self.factors)

    @cached_property
    def tables(self) -> dict[str, ConditionalTable]:
        """The table of each variable, parents before children."""
        return dict(zip(self.names, self.factors))

    @cached_property
    def states(self) -> dict[str, tuple[Any, ...]]:
        """The states of each variable."""
        return {table.targets[0]: table.axes.states[-1] for table in self.factors}

    @cached_property
    def dag(self) -> DAG:
        """The graph."""
        return DAG({name: table.given for name, table in self.tables.items()})

    @cached_property
    def potentials(self) -> Potentials:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The tables as factors over numbered variables, in logarithms: what exact inference works on."""
        place = {name: i for i, name in enumerate(self.names)}
        scopes = tuple(tuple(place[name] for name in table.axes.names) for table in self.factors)
        tables = [np.asarray(table.probs, float) for table in self.factors]
        printed = {i: p for i, p in enumerate(tables) if (np.abs(p.sum(-1) - 1) > _ROUNDING).any()}
        for i, p in printed.items():  # sums over barren variables must be one
            tables[i] = p / p.sum(-1, keepdims=True)
        with np.errstate(divide="ignore"):
            logs = tuple(map(np.log, tables))
        return Potentials(TableAxes(self.names, tuple(self.states.values())), scopes, logs, printed)

    @property
    def num_parameters(self) -> int:
        """The free numbers in the tables."""
        return num_parameters(dict(zip(self.names, self.potentials.sizes)), self.dag)

    @property
    def factorisation(self) -> str:
        """The product of conditionals as text that `graphs.factorisation.parse_dag` reads."""
        return print_dag(self.dag)

    def log_prob(self, values: Any) -> Any:
        r"""$\sum_i \log P(x_i \mid x_{pa(i)})$ of a complete assignment, or of each row of a DataFrame."""
        missing = [name for name in self.names if name not in values]
        check(not missing, "values", "complete: a value for each variable", f"none for {missing}")
        one = isinstance(
            values, Mapping
        )  # states may be tuples or text: only a frame has columns for certain
        columns = [self._places(name, [values[name]] if one else values[name]) for name in self.names]
        pairs = zip(self.potentials.scopes, self.potentials.logs)
        total = np.sum([logs[tuple(columns[i] for i in scope)] for scope, logs in pairs], axis=0)
        return float(total[0]) if one else total

    def joint(self) -> JointTable:
        """The joint table of all variables, for small networks."""
        return self.query(self.names)

    def do(self, actions: Mapping[str, Any]) -> "BayesNet":
        r"""The network after an intervention: each variable acted on loses its parents and has its state.

        $P(x \mid do(x_a = s)) = [x_a = s] \prod_{i \neq a} P(x_i \mid x_{pa(i)})$; query it like any other.
        """
        tables = dict(self.tables)
        for name, state in actions.items():
            axes = self.potentials.select(self.potentials.numbers(name))
            tables[name] = ConditionalTable(name, (), axes.mask(name, [state]).astype(float), axes.states)
        return BayesNet(tables)

    def sample(self, key: Any, num_draws: int, evidence: Observations = None) -> Any:
        """Independent draws as a pandas DataFrame: ancestral, or given evidence of the exact posterior."""
        if evidence:
            return super().sample(key, num_draws, evidence)
        from tractable.inference.weighted.ancestral import forward_draws

        count = check_count("num_draws", num_draws)
        return self._frame(forward_draws(self.potentials.steps, Evidence({}, {}), generator(key), count)[0])

    def sensitivity(
        self, event: Mapping[str, Any], evidence: Observations = None, *, of: str, covary: bool = True
    ) -> Sensitivity:
        r"""$\partial P(\mathrm{event} \mid e)/\partial\theta$ by each entry $\theta$ of the table of `of`.

        With `covary` the rest of the row keeps its proportions and the row its sum; without, the entry alone
        moves.
        """
        self._exact(evidence)
        return sensitivity(self.potentials, event, evidence, of, covary)

    def reasoning(self, targets: Names, evidence: Mapping[str, Any]) -> Reasoning:
        """Prior and posterior of the targets, and the kinds of reasoning that connect them to evidence."""
        names = as_names(targets)
        self.potentials.read(evidence)
        before, after = (
            {name: dict(zip(self.states[name], self.query(name, e).probs.tolist())) for name in names}
            for e in (None, evidence)
        )
        kinds = {name: reasoning_kinds(self.dag, name, evidence) for name in names}
        return Reasoning(dict(evidence), before, after, kinds)

    def d_separated(self, x: Names, y: Names, given: Names = ()) -> bool:
        """Whether the graph alone makes `x` and `y` independent given the variables `given`."""
        return self.dag.d_separated(x, y, given)

    def markov_blanket(self, name: str) -> frozenset[str]:
        """Parents, children and the children's other parents."""
        return self.dag.markov_blanket(name)

    def independencies(self) -> tuple[IndependenceStatement, ...]:
        """What the graph states: each variable and its non-descendants, given its parents."""
        return self.dag.local_independencies()

    def __repr__(self) -> str:
        factors = (str(Factor("P", (name, *t.given), t.given)) for name, t in self.tables.items())
        counts = f"{len(self.names)} variables, {len(self.dag.edges)} edges"
        shown = " ".join(shortened(factors, 12))
        return f"BayesNet({counts}, {self.num_parameters} free parameters): {shown}"

    def _relevant(self, targets: Sequence[int], observed: Evidence) -> tuple[int, ...]:
        """The numbers of targets, evidence and their ancestors: all others sum to one."""
        names = [self.names[i] for i in {*targets, *observed.variables}]
        kept = {*names, *self.dag.ancestors(names)}
        return tuple(i for i, name in enumerate(self.names) if name in kept)

    def _places(self, name: str, column: Iterable[Any]) -> np.ndarray:
        """Where the states of a column are among those of the variable."""
        place = {state: i for i, state in enumerate(self.states[name])}
        unknown = next((value for value in column if value not in place), None)
        known = f"in its states {self.states[name]}"
        check(unknown is None, name, known, repr(unknown))
        return np.array([place[value] for value in column])


def num_parameters(sizes: Mapping[str, int] | Sequence[int], dag: DAG | None = None) -> int:
    r"""$\sum_i (k_i - 1) \prod_{j \in pa(i)} k_j$ for a graph; $\prod_i k_i - 1$ for a joint table.

    >>> num_parameters([2, 2, 2]), num_parameters({"a": 2, "b": 2, "c": 2}, DAG({"b": ["a"], "c": ["b"]}))
    (7, 5)
    """
    if dag is None:
        return num_states(sizes) - 1
    check(isinstance(sizes, Mapping), "sizes", "a mapping from names, to count along a graph", sizes)
    known: Mapping[str, int] = sizes  # pyright: ignore[reportAssignmentType]
    missing = [name for name in dag.names if name not in known]
    check(not missing, "sizes", "given for every node", f"none for {missing}")
    rows = {name: math.prod(known[parent] for parent in dag.parents(name)) for name in dag.names}
    return sum((known[name] - 1) * rows[name] for name in dag.names)


def num_states(sizes: Mapping[str, int] | Sequence[int]) -> int:
    r"""$\prod_i k_i$ joint states, as an exact whole number.

    >>> num_states([2] * 100)
    1267650600228229401496703205376
    """
    return math.prod(int(k) for k in (sizes.values() if isinstance(sizes, Mapping) else sizes))


def root_table(table: JointTable) -> ConditionalTable:
    """The distribution of variables without parents as the table of a node."""
    return ConditionalTable(table.names, (), table.probs, table.axes.states, validate=False)


def _by_name(tables: Sequence[Any]) -> dict[str, ConditionalTable]:
    """The table of each variable; a joint table of one variable is that of a root."""
    check(len(tables) > 0, "tables", "at least one table", "none")
    found: dict[str, ConditionalTable] = {}
    for table in tables:
        if isinstance(table, JointTable):
            table = root_table(table)
        is_table = isinstance(table, ConditionalTable)
        check(is_table, "tables", "of `ConditionalTable`s", type(table).__name__, error=TypeError)
        check(len(table.targets) == 1, "tables", "of one target each", f"the targets {table.targets}")
        name = table.targets[0]
        check(name not in found, "tables", "one per variable", f"two tables for {name!r}")
        found[name] = table
    return found


def _check_states(tables: dict[str, ConditionalTable]) -> None:
    """Parents that exist, with the same states everywhere, and rows without gaps."""
    for name, table in tables.items():
        unknown = [parent for parent in table.given if parent not in tables]
        known = f"among the variables {tuple(tables)}"
        check(not unknown, f"parents of {name!r}", known, unknown, "Give each of them a table.")
        for parent in table.given:
            own, used = tables[parent].axes.states[-1], table.axes.states_of(parent)
            must = f"those of its own table, {own}, in the table of {name!r}"
            check(own == used, f"states of {parent!r}", must, used)
        if is_concrete(table.probs) and np.isnan(np.asarray(table.probs)).any():
            index = np.argwhere(np.isnan(np.asarray(table.probs)).any(-1))[0].tolist()
            where = table.axes.select(table.given).describe(index)
            fix = "Give that row a distribution, even where its condition cannot occur."
            check(False, f"table of {name!r}", "defined in every row", f"NaN at {where}", fix)
