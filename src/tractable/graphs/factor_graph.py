r"""Factor graphs: variables on one side, factors on the other, an edge where a factor depends on a variable.

Model.       $p(x) \propto \prod_m f_m(x_m)$; a Bayesian network has one factor per conditional and $Z = 1$,
             a Markov field one per potential or one per maximal clique.
Identity.    Sum-product message passing is exact iff the factor graph has no cycle: edges = nodes -
             components. The dependency graph, with a clique per factor, forgets which factors there are.
Cost.        Linear in the edges; maximal cliques as in graphs.cliques.
References.  Kschischang, Frey and Loeliger (2001), "Factor graphs and the sum-product algorithm".
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax.numpy as jnp

from tractable.core.checks import as_float, check
from tractable.core.module import Module, field
from tractable.core.numerics import safe_log
from tractable.core.types import Array
from tractable.distributions.table_axes import Names, TableAxes, as_names
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.graphs.dag import DAG
from tractable.graphs.factorisation import Factor, parse_factors, print_factors
from tractable.graphs.markov_field import MarkovField
from tractable.graphs.undirected import UndirectedGraph, dependency_graph

__all__ = ["FactorGraph"]


class FactorGraph(Module):
    """Variables and factors; `logs` holds the tables of log-potentials, axes as in each scope, or is None.

    >>> graph = FactorGraph.parse("f1(x1,x2)f2(x2,x3,x4)f3(x3,x4)")
    >>> graph.is_tree, graph.cycle()
    (False, ('x3', 'f2', 'x4', 'f3'))
    >>> str(graph)
    'f1(x1,x2)f2(x2,x3,x4)f3(x3,x4)'
    """

    factors: tuple[Factor, ...] = field(static=True)
    variables: tuple[str, ...] = field(static=True)
    logs: tuple[Array, ...] | None = None
    states: tuple[tuple[Any, ...], ...] | None = field(static=True, default=None)

    def __init__(
        self,
        factors: Iterable[Factor],
        logs: Sequence[Any] | None = None,
        states: Mapping[str, Sequence[Any]] | None = None,
        variables: Names = (),
    ):
        self.factors = tuple(factors)
        used = (name for factor in self.factors for name in factor.scope)
        self.variables = tuple(dict.fromkeys([*as_names(variables), *used]))
        shared = sorted(set(self.labels) & set(self.variables))
        check(not shared, "factors", "named unlike the variables", shared)
        distinct = len(set(self.labels)) == len(self.labels)
        check(distinct, "factors", "different from each other", self.labels)
        self.logs = self.states = None
        if logs is not None:
            self.logs = tuple(as_float(label, table) for label, table in zip(self.labels, logs, strict=True))
            named = MarkovField(zip((f.scope for f in self.factors), self.logs), states).states
            self.states = tuple(named[name] for name in self.variables)

    @classmethod
    def parse(cls, text: str) -> "FactorGraph":
        """The graph of a product as text, such as `f1(x1,x2)f2(x2,x3)` or `p(a)p(b|a)`; without tables."""
        return cls(parse_factors(text))

    @classmethod
    def from_dag(cls, dag: DAG) -> "FactorGraph":
        """One factor per node, over its parents and itself; without tables.

        >>> str(FactorGraph.from_dag(DAG({"x1": [], "x2": [], "x3": ["x1", "x2"]})))
        'f1(x1)f2(x2)f3(x1,x2,x3)'
        """
        scopes = [(*dag.parents(name), name) for name in dag.names]
        return cls(_numbered(scopes), variables=dag.names)

    @classmethod
    def from_network(cls, network: Any) -> "FactorGraph":
        """One factor per conditional table of a Bayesian network (or of a list of tables): $Z = 1$."""
        tables = getattr(network, "tables", network)
        listed = list(tables.values()) if isinstance(tables, Mapping) else list(tables)
        for table in listed:
            proper = isinstance(table, ConditionalTable | JointTable)
            check(proper, "network", "made of tables", type(table).__name__, error=TypeError)
        axes = TableAxes((), ())
        for table in listed:
            axes = axes.join(table.axes)
        logs = [safe_log(table.probs) for table in listed]
        scopes = [table.axes.names for table in listed]
        return cls(_numbered(scopes), logs, dict(zip(axes.names, axes.states)))

    @classmethod
    def from_field(cls, model: MarkovField, *, cliques: bool = False) -> "FactorGraph":
        """One factor per factor of a Markov field; with `cliques`, one per maximal clique of its graph.

        Each factor of the field is multiplied into the first clique that holds its variables.
        """
        if not cliques:
            return cls(_numbered(model.scopes), model.logs, model.states)
        scopes = model.graph.maximal_cliques()
        logs = [jnp.zeros(model.axes.select(scope).shape) for scope in scopes]
        for names, table in model.factors:
            home = next(i for i, scope in enumerate(scopes) if set(names) <= set(scope))
            logs[home] = logs[home] + model.axes.select(scopes[home]).spread(names, table)
        return cls(_numbered(scopes), logs, model.states)

    @classmethod
    def from_graph(cls, graph: UndirectedGraph) -> "FactorGraph":
        """One factor per maximal clique of an undirected graph; without tables."""
        return cls(_numbered(graph.maximal_cliques()), variables=graph.names)

    def to_field(self) -> MarkovField:
        """The Markov field of the same factors."""
        fix = "Build the graph from a network or a field."
        check(self.logs is not None and self.states is not None, "graph", "one with tables", "none", fix)
        pairs = zip((factor.scope for factor in self.factors), self.logs or ())
        return MarkovField(pairs, dict(zip(self.variables, self.states or ())))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One label per factor: its name, or where several share it, the factor as text."""
        names = [factor.name for factor in self.factors]
        return tuple(str(f) if names.count(f.name) > 1 else f.name for f in self.factors)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """All pairs (variable, label of a factor that depends on it)."""
        return tuple((name, label) for label, f in zip(self.labels, self.factors) for name in f.scope)

    def scope(self, label: str) -> tuple[str, ...]:
        """The variables of a factor."""
        check(label in self.labels, "label", f"among the factors {self.labels}", repr(label))
        return self.factors[self.labels.index(label)].scope

    def touching(self, variable: str) -> tuple[str, ...]:
        """The labels of the factors that depend on a variable."""
        check(variable in self.variables, "variable", f"among {self.variables}", repr(variable))
        return tuple(label for label, f in zip(self.labels, self.factors) if variable in f.scope)

    @cached_property
    def bipartite(self) -> UndirectedGraph:
        """Variables and labels of factors as the nodes of one graph."""
        return UndirectedGraph.from_edges(self.edges, (*self.variables, *self.labels))

    @property
    def is_forest(self) -> bool:
        """Whether there is no cycle, so that message passing is exact."""
        return self.bipartite.is_forest

    @property
    def is_tree(self) -> bool:
        """Whether the graph is connected and has no cycle."""
        return self.bipartite.is_tree

    def cycle(self) -> tuple[str, ...] | None:
        """Variables and factors around one shortest cycle through some variable, or None in a forest."""
        if self.is_forest:
            return None
        rings = []
        for variable in self.variables:
            for first in self.touching(variable):
                others = [label for label in self.touching(variable) if label != first]
                ring = self.bipartite.path(first, others, variable) if others else None
                rings += [(variable, *ring)] if ring else []
        return min(rings, key=len)

    def dependency_graph(self) -> UndirectedGraph:
        """The undirected graph in which the variables of each factor are a clique."""
        return dependency_graph([factor.scope for factor in self.factors], self.variables)

    def blocked(self, targets: Names, observed: Names) -> "FactorGraph":
        """The factors that still matter for `targets` once the variables `observed` are known."""
        inside = self.bipartite.without(observed).reached(targets)
        kept = [i for i, label in enumerate(self.labels) if label in inside]
        logs = None if self.logs is None else [self.logs[i] for i in kept]
        named = dict(zip(self.variables, self.states)) if self.states is not None else {}
        scope = {name for i in kept for name in self.factors[i].scope}
        states = {name: named[name] for name in self.variables if name in scope and name in named}
        return FactorGraph([self.factors[i] for i in kept], logs, states or None)

    def to_networkx(self) -> Any:
        """A bipartite `networkx.Graph`: attribute `bipartite` is 0 for variables and 1 for factors."""
        graph = self.bipartite.to_networkx()
        for name in graph.nodes:
            graph.nodes[name]["bipartite"] = int(name in self.labels)
        return graph

    def __str__(self) -> str:
        return print_factors(self.factors)

    def __repr__(self) -> str:
        shape = "a tree" if self.is_tree else "a forest" if self.is_forest else "with cycles"
        return f"FactorGraph({len(self.variables)} variables, {len(self.factors)} factors, {shape})"


def _numbered(scopes: Iterable[Sequence[str]]) -> list[Factor]:
    return [Factor(f"f{i}", tuple(scope)) for i, scope in enumerate(scopes, start=1)]
