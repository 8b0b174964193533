r"""Networks as networkx graphs and as pandas tables, there and back.

Graph.       A node per variable with `states`, `given` (its parents in the order of the axes) and `table` (an
             array: the parents first, the variable last); an edge from each parent. A field is a graph whose
             edges join the variables of each factor, with the list `factors` of names and log-potentials.
Tables.      One DataFrame per variable: a row per joint state of the parents, a column per state.
Cost.        Linear in the cells.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.markov_field import MarkovField

__all__ = ["from_frames", "from_networkx", "to_frames", "to_networkx"]


def to_networkx(model: BayesNet | MarkovField) -> Any:
    """A `DiGraph` of a network, or a `Graph` of a field, from which `from_networkx` makes it again."""
    import networkx as nx

    if isinstance(model, MarkovField):
        field = nx.Graph(factors=[(names, np.asarray(logs)) for names, logs in model.factors])
        field.add_nodes_from((name, {"states": states}) for name, states in model.states.items())
        field.add_edges_from(pair for names, _ in model.factors for pair in combinations(names, 2))
        return field
    graph = nx.DiGraph()
    for name, table in model.tables.items():
        graph.add_node(name, states=model.states[name], given=table.given, table=np.asarray(table.probs))
        graph.add_edges_from((parent, name) for parent in table.given)
    return graph


def from_networkx(graph: Any) -> BayesNet | MarkovField:
    """The network of a `DiGraph` whose nodes have a `table`, or the field of a `Graph` with `factors`.

    `states` of a node are 0, 1, ... by default; `given` is by default the order of `graph.predecessors`.
    """
    if not graph.is_directed():
        has_factors = "factors" in graph.graph
        check(has_factors, "graph", "a `DiGraph`, or a `Graph` with the attribute `factors`", graph)
        named = {name: data["states"] for name, data in graph.nodes(data=True) if "states" in data}
        return MarkovField(graph.graph["factors"], named)
    for name, data in graph.nodes(data=True):
        fix = f"Set `graph.nodes[{name!r}]['table']`; for the graph alone use `DAG.from_networkx`."
        check("table" in data, "graph", "one whose nodes have a `table`", f"none at {name!r}", fix)
    return BayesNet([_node_table(graph, name) for name in graph.nodes])


def to_frames(net: BayesNet) -> dict[str, Any]:
    """The table of each variable as a DataFrame: rows of the parents' states, columns of its own."""
    import pandas as pd

    frames = {}
    for name, table in net.tables.items():
        rows: Any = pd.RangeIndex(1)
        if len(table.given) == 1:
            rows = pd.Index(net.states[table.given[0]], name=table.given[0])
        elif table.given:
            parents = [net.states[parent] for parent in table.given]
            rows = pd.MultiIndex.from_product(parents, names=table.given)
        columns = pd.Index(net.states[name], name=name)
        cells = np.asarray(table.probs).reshape(-1, len(columns))
        frames[name] = pd.DataFrame(cells, rows, columns)
    return frames


def from_frames(frames: Mapping[str, Any] | Iterable[Any]) -> BayesNet:
    """The network of such DataFrames: `columns.name` is the variable, `index.names` are its parents.

    Rows may come in any order, each joint state of the parents once. The states of a parent are the columns
    of its own table.
    """
    chosen = list(frames.values()) if isinstance(frames, Mapping) else list(frames)
    for frame in chosen:
        named = isinstance(frame.columns.name, str)
        check(named, "frames", "tables whose `columns.name` is a variable", repr(frame.columns.name))
    states = {frame.columns.name: tuple(frame.columns) for frame in chosen}
    return BayesNet([_frame_table(frame, states) for frame in chosen])


def _node_table(graph: Any, name: str) -> ConditionalTable:
    data = graph.nodes[name]
    parents = tuple(graph.predecessors(name))
    given = tuple(data.get("given", parents))
    same = sorted(given) == sorted(parents)
    check(same, f"`given` of {name!r}", f"the parents in the graph, {parents}", given)
    cells = np.asarray(data["table"], float)
    states = {v: graph.nodes[v]["states"] for v in (*given, name) if "states" in graph.nodes[v]}
    return ConditionalTable(name, given, cells, states)


def _frame_table(frame: Any, states: Mapping[str, tuple[Any, ...]]) -> ConditionalTable:
    import pandas as pd

    name = frame.columns.name
    given = tuple(parent for parent in frame.index.names if parent is not None)
    unknown = [parent for parent in given if parent not in states]
    check(not unknown, f"parents of {name!r}", f"among the tables of {', '.join(states)}", unknown)
    if given:
        rows = pd.MultiIndex.from_product([states[parent] for parent in given], names=given)
        own = (
            frame.index
            if isinstance(frame.index, pd.MultiIndex)
            else pd.MultiIndex.from_arrays([frame.index])
        )
        complete = len(own) == len(rows) and own.is_unique and bool(rows.isin(own).all())
        must = f"a row for each of the {len(rows)} joint states of {', '.join(given)}, once"
        check(complete, f"table of {name!r}", must, f"{len(own)} rows, {own.tolist()[:4]} ...")
        frame = frame.iloc[own.get_indexer(rows)]
    else:
        check(len(frame) == 1, f"table of {name!r}", "one row, as it has no parents", len(frame))
    shape = [len(states[parent]) for parent in given]
    cells = frame.to_numpy(float).reshape(*shape, len(states[name]))
    return ConditionalTable(name, given, cells, [*(states[parent] for parent in given), states[name]])
