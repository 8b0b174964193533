"""d-separation by two routes, its steps, and the same statement in numbers."""

import itertools

import numpy as np

from tractable.distributions.tables import ConditionalTable, product
from tractable.graphs.dag import DAG
from tractable.graphs.equivalence import check_independencies, completed, moralise

PARENTS = {"burglary": [], "quake": [], "alarm": ["burglary", "quake"], "radio": ["quake"], "call": ["alarm"]}


def random_network(rng: np.random.Generator) -> list[ConditionalTable]:
    """A table of random conditionals for each node."""
    return [ConditionalTable(n, p, rng.dirichlet([1.0, 1.0], size=(2,) * len(p))) for n, p in PARENTS.items()]


def main() -> None:
    dag = DAG(PARENTS)
    print(dag)
    print("burglary, quake:", dag.d_separated("burglary", "quake"))
    print("given the call: ", dag.active_trail("burglary", "quake", given="call"))
    print(dag.moral_separation("burglary", "radio", given=["call", "quake"]))
    print(completed(dag))
    print(moralise(dag))

    agreed = 0
    for x, y in itertools.combinations(dag.names, 2):
        rest = [n for n in dag.names if n not in (x, y)]
        for seen in itertools.chain.from_iterable(itertools.combinations(rest, k) for k in range(4)):
            assert dag.d_separated(x, y, seen) == bool(dag.moral_separation(x, y, seen))
            agreed += 1
    print(f"Bayes ball and the moral graph agree on all {agreed} questions.")

    joint = product(random_network(np.random.default_rng(0)))
    local = check_independencies(joint, dag.local_independencies())
    for statement, verdict in local.items():
        print(f"{statement!s:<44}{verdict}")
    assert all(local.values())
    assert not joint.independence("burglary", "quake", "call")


if __name__ == "__main__":
    main()
