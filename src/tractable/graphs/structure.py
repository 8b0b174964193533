r"""The structure of a network from data: one verb, with the best score proved where that is affordable.

Methods.     `exact`: the DAG of highest score, by dynamic programming over sets (graphs.exact_search).
             `chow-liu`: the tree of highest likelihood. `hill`, `tabu`: one edge at a time
             (graphs.local_search). `pc`: tests of independence (graphs.constraint_search).
Limits.      `forbidden` and `required` edges and `max_parents` restrict the graphs that are searched.
Cost.        exact $O(n 2^n)$ after $2^n$ counts: 15 variables in seconds; tabu $O(n)$ new counts per step.
References.  Koller and Friedman (2009) chapter 18; Silander and Myllymaki (2006); Chow and Liu (1968).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.description import Described
from tractable.core.iterate import Run, Status
from tractable.core.keys import takes_key
from tractable.core.types import Key
from tractable.core.verdict import Verdict
from tractable.graphs.constraint_search import IndependenceTests, extend_pattern, pc
from tractable.graphs.dag import DAG
from tractable.graphs.equivalence import CPDAG, completed
from tractable.graphs.exact_search import chow_liu, dag_of, exact_structure
from tractable.graphs.local_search import climb
from tractable.graphs.scores import FamilyScores

__all__ = ["LearnedStructure", "learn_structure"]

_METHODS = ("auto", "exact", "hill", "tabu", "pc", "chow-liu")
_EXACT_BY_DEFAULT = 12  # variables: under a second


@dataclass(frozen=True, repr=False)
class LearnedStructure(Described):
    """A structure, its score and how far to trust it."""

    dag: DAG
    method: str
    score_name: str
    score: float
    families: dict[str, float]  # the score of each variable with its parents
    verdict: Verdict  # ok where no other structure of the kind that was searched scores higher
    pattern: CPDAG  # which directions follow from the independencies; the others may be turned
    run: Run | None = None  # of the local searches: the score at each step

    @property
    def certified(self) -> bool:
        """Whether no other structure of the kind that was searched scores higher."""
        return self.verdict.ok

    def _columns(self) -> dict[str, Any]:
        parents = [", ".join(self.dag.parents(name)) or "-" for name in self.dag.names]
        scores = [f"{self.families[name]:.4f}" for name in self.dag.names]
        return {"variable": self.dag.names, "parents": parents, self.score_name: scores}

    def _note(self) -> str:
        found = f"{len(self.dag.edges)} edges by {self.method}, {self.score_name} {self.score:.4f}."
        return f"{found}\n{self.verdict.sentence}"


@takes_key
def learn_structure(
    frame: Any,
    score: str = "bic",
    method: str = "auto",
    *,
    states: Mapping[str, Sequence[Any]] | None = None,
    weights: Any = None,
    equivalent_sample_size: float | int = 10.0,
    max_parents: int | None = None,
    forbidden: Iterable[tuple[str, str]] = (),
    required: Iterable[tuple[str, str]] = (),
    key: Key | None = None,
    num_restarts: int = 0,
    max_steps: int = 1000,
    level: float | int = 0.05,
    root: str | None = None,
) -> LearnedStructure:
    """A directed graph learned from complete discrete rows.

    `auto` is `exact` for up to 12 variables and `tabu` beyond. `forbidden` and `required` are edges (parent,
    child), for the methods that maximise a score. Local searches take `num_restarts` (with a `key`) from
    random changes of the best graph so far; `level` is that of the tests of `pc`; `root` that of the tree.
    """
    check_option("method", method, _METHODS)
    scores = FamilyScores(
        frame, score, equivalent_sample_size=equivalent_sample_size, states=states, weights=weights
    )
    many = len(scores.names) > _EXACT_BY_DEFAULT
    chosen = ("tabu" if many else "exact") if method == "auto" else method
    limits = _Limits.of(scores.names, forbidden, required, max_parents)
    free = chosen not in ("pc", "chow-liu") or limits.open
    check(free, "forbidden, required, max_parents", "left out for this method", f"{chosen!r}")
    if chosen == "pc":
        return _by_tests(scores, level)
    if chosen == "chow-liu":
        return _report(scores, chow_liu(scores, root), "chow-liu", _TREE)
    if chosen == "exact":
        dag = exact_structure(scores, limits.allowed, limits.needed, max_parents)
        return _report(scores, dag, "exact", _EXACT)
    run = climb(
        scores, limits.allowed, limits.needed, limits.most, tabu=chosen == "tabu", num_restarts=num_restarts,
        key=key, max_steps=max_steps,
    )  # fmt: skip
    dag = dag_of(scores.names, np.asarray(run.state.best))
    stopped = Verdict(False, f"Not certified. {run.status.sentence}", {"num_steps": int(run.num_steps)})
    return _report(scores, dag, chosen, _SETTLED if run.status is Status.converged else stopped, run=run)


@dataclass(frozen=True)
class _Limits:
    """Which edges a search may and must use."""

    allowed: np.ndarray | None
    needed: np.ndarray | None
    most: int | None

    @property
    def open(self) -> bool:
        return self.allowed is None and self.needed is None and self.most is None

    @classmethod
    def of(cls, names: tuple[str, ...], forbidden: Any, required: Any, max_parents: int | None) -> "_Limits":
        out, needed = (
            _edges(names, label, e) for label, e in (("forbidden", forbidden), ("required", required))
        )
        if max_parents is not None:
            check_count("max_parents", max_parents, least=0)
        both = np.argwhere(out & needed)
        if len(both):
            edge = tuple(names[i] for i in both[0])
            check(False, "required", "edges that are not forbidden", edge)
        if needed.any():
            DAG.from_edges([(names[i], names[j]) for i, j in np.argwhere(needed)])  # a cycle is an error
        most = needed.sum(0).max(initial=0)
        fits = max_parents is None or most <= max_parents
        check(fits, "max_parents", f"at least {most}, as many as the `required` parents", max_parents)
        return cls(~out if out.any() else None, needed if needed.any() else None, max_parents)


def _edges(names: tuple[str, ...], label: str, edges: Iterable[tuple[str, str]]) -> np.ndarray:
    matrix = np.zeros((len(names), len(names)), bool)
    for edge in edges:
        known = len(edge) == 2 and all(name in names for name in edge) and edge[0] != edge[1]
        check(known, label, f"pairs (parent, child) of the columns {names}", tuple(edge))
        matrix[names.index(edge[0]), names.index(edge[1])] = True
    return matrix


_EXACT = Verdict(True, "Certified: no acyclic graph scores higher (all orders and parent sets were covered).")
_TREE = Verdict(
    True,
    "Certified: no tree has a higher likelihood. Directions are from the root; the data do not tell them.",
)
_SETTLED = Verdict(
    False, "Not certified: no single change of an edge improves it, but other graphs may score higher."
)


def _by_tests(scores: FamilyScores, level: float | int) -> LearnedStructure:
    tests = IndependenceTests(scores, level)
    found = pc(tests, scores.names)
    told = f"Not certified: right if each of {found.num_tests} tests at level {level:g} is."
    if tests.num_weak:
        told += f" {tests.num_weak} of them have fewer than five rows per degree of freedom."
    told += f" The data leave {len(found.pattern.undirected)} of the directions open."
    dag = extend_pattern(found.pattern)
    if found.num_conflicts or dag is None:
        told += " The tests contradict each other."
    if dag is None:
        dag = _acyclic_part(found.pattern)
        told += " No graph has the pattern; arrows that close a cycle were turned."
    numbers = {"num_tests": found.num_tests, "num_weak": tests.num_weak}
    return _report(scores, dag, "pc", Verdict(False, told, numbers), pattern=found.pattern)


def _acyclic_part(pattern: CPDAG) -> DAG:
    """The edges of a pattern that no graph has, as directed there unless that closes a cycle."""
    dag = DAG(dict.fromkeys(pattern.names, ()))
    for a, b in (*sorted(pattern.directed), *sorted(pattern.undirected)):
        edge = (b, a) if a in dag.descendants(b) else (a, b)
        dag = DAG.from_edges([*dag.edges, edge], pattern.names)
    return dag


def _in_column_order(pattern: CPDAG, names: tuple[str, ...]) -> CPDAG:
    """The same class whatever graph it was found from, so that results of several methods compare."""
    place = {name: i for i, name in enumerate(names)}
    undirected = ((a, b) if place[a] < place[b] else (b, a) for a, b in pattern.undirected)
    return CPDAG(names, pattern.directed, frozenset(undirected))


def _report(scores: FamilyScores, dag: DAG, method: str, verdict: Verdict, **parts: Any) -> LearnedStructure:
    parts.setdefault("pattern", _in_column_order(completed(dag), scores.names))
    families = {name: scores.family(name, dag.parents(name)) for name in dag.names}
    total = math.fsum(families.values())
    return LearnedStructure(dag, method, scores.score, total, families, verdict, **parts)
