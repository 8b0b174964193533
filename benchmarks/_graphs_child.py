"""One library on one network in its own process: `python -m benchmarks._graphs_child LIBRARY NETWORK FOLDER`.

Prints lines of JSON: seconds of the first query, the best of the later ones without and with evidence, and
the probability of the first state of every variable. Loading and imports are not timed.
"""

import json
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks._graphs_networks import Network, as_bayes_net, build

SECONDS = 3.0  # repeat for about as long as this
Marginals = dict[str, float]
Query = Callable[[dict[str, int]], Marginals]


def by_tractable(network: Network) -> Query:
    """All marginals by the engine, tables loaded once; the plan is made by the first query."""
    from tractable.messages.junction import junction_tree

    scopes = [(*given, i) for i, given in enumerate(network.parents)]
    with np.errstate(divide="ignore"):
        logs = [np.log(table) for table in network.tables]
    number = {name: i for i, name in enumerate(network.names)}
    planned: list = []

    def query(evidence):
        if not planned:
            tree = junction_tree(scopes, network.sizes)
            planned.extend((tree, tree.load(logs)))
        found = planned[0].calibrate(planned[1], {number[name]: state for name, state in evidence.items()})
        return {name: row[0] for name, row in zip(network.names, found.marginals())}

    return query


def by_bayes_net(network: Network) -> Query:
    """All marginals by `BayesNet.marginals`: names and labels in and out."""
    tiny = Network(("a", "b"), (2, 2), ((), (0,)), (np.full(2, 0.5), np.full((2, 2), 0.5)))
    as_bayes_net(tiny).marginals({"a": "s0"})  # whatever is compiled once
    net = as_bayes_net(network)

    def query(evidence):
        found = net.marginals({name: f"s{state}" for name, state in evidence.items()})
        known = {name: float(state == 0) for name, state in evidence.items()}
        return known | {name: row["s0"] for name, row in found.items()}

    return query


def by_pyagrum(network: Network) -> Query:
    """Lazy propagation: a new object without evidence, one object with changing evidence otherwise."""
    import pyagrum

    net = pyagrum.BayesNet()
    for name, size in zip(network.names, network.sizes):
        net.add(pyagrum.LabelizedVariable(name, "", size))
    for i, given in enumerate(network.parents):
        for p in given:
            net.addArc(network.names[p], network.names[i])
    for i, (name, given, table) in enumerate(zip(network.names, network.parents, network.tables)):
        wanted = list(net.cpt(name).names)[::-1]  # its arrays run from the last variable to the first
        own = [*(network.names[p] for p in given), network.names[i]]
        net.cpt(name)[:] = np.ascontiguousarray(np.transpose(table, [own.index(v) for v in wanted]))
    kept = pyagrum.LazyPropagation(net)

    def query(evidence):
        engine = kept if evidence else pyagrum.LazyPropagation(net)
        engine.setEvidence(evidence)
        engine.makeInference()
        return {name: engine.posterior(name)[0] for name in network.names}

    return query


def by_pgmpy(network: Network) -> Query:
    """A calibrated clique tree without evidence; with it, one query of belief propagation per variable."""
    import logging

    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import BeliefPropagation
    from pgmpy.models import DiscreteBayesianNetwork

    logging.disable(logging.CRITICAL)
    names = network.names
    net = DiscreteBayesianNetwork()
    net.add_nodes_from(names)
    net.add_edges_from((names[p], names[i]) for i, given in enumerate(network.parents) for p in given)
    for i, (given, table) in enumerate(zip(network.parents, network.tables)):
        rows = np.moveaxis(table, -1, 0).reshape(network.sizes[i], -1)
        net.add_cpds(
            TabularCPD(
                names[i], network.sizes[i], rows, [names[p] for p in given], [network.sizes[p] for p in given]
            )
        )

    def query(evidence):
        engine = BeliefPropagation(net)
        if evidence:
            free = [name for name in names if name not in evidence]
            found = {v: engine.query([v], evidence=evidence, show_progress=False).values[0] for v in free}
            return found | {name: float(state == 0) for name, state in evidence.items()}
        engine.calibrate()
        found = {}
        for clique, belief in engine.get_clique_beliefs().items():
            for v in set(clique) - set(found):
                row = belief.marginalize([u for u in clique if u != v], inplace=False).values
                found[v] = row[0] / row.sum()
        return found

    return query


LIBRARIES = {"tractable": by_tractable, "BayesNet": by_bayes_net, "pyAgrum": by_pyagrum, "pgmpy": by_pgmpy}


def main() -> None:
    """Measure and print."""
    library, name, *rest = sys.argv[1:]
    network = build(name, rest[0] if rest else None)
    try:
        query = LIBRARIES[library](network)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}))
        return
    start = time.perf_counter()
    found = query({})
    first = time.perf_counter() - start
    print(
        json.dumps({"first": first, "marginals": [float(found[name]) for name in network.names]}), flush=True
    )
    plain = _best(lambda variant: query({}))
    print(json.dumps({"plain": plain}), flush=True)
    given = query(network.evidence(0))
    best = _best(lambda variant: query(network.evidence(variant)))
    print(
        json.dumps({"given": best, "posteriors": [float(given[name]) for name in network.names]}), flush=True
    )


def _best(work: Callable[[int], object]) -> float:
    seconds, began, variant = [], time.perf_counter(), 0
    while not seconds or (time.perf_counter() - began < SECONDS and len(seconds) < 50):
        variant += 1
        start = time.perf_counter()
        work(variant)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
