r"""Structures from independencies: tests on counts, the PC algorithm, the most parsimonious factorisation.

Test.        $G^2 = 2 N\,I(x; y \mid z)$ is about $\chi^2$ under independence, with degrees of freedom
             $\sum_z (r_z - 1)(c_z - 1)$ for $r_z, c_z$ the numbers of states of $x, y$ that occur with $z$.
PC.          Edges whose ends some subset of the neighbours separates are removed, smallest subsets first (all
             removals of one size at once, so that the order of columns does not matter);
             $x - z - y$ with $x, y$ not adjacent becomes $x \to z \leftarrow y$ iff not separated by $z$;
             Meek's rules direct what follows. Right answers (d-separation) give back the class of the graph.
Parsimony.   Over all orders, each variable keeps the cheapest parents $U$ among those before it, $S$, with
             $x \perp S \setminus U \mid U$; the order with the fewest numbers wins.
Cost.        PC: $O(n^{d+2})$ tests at degree $d$. Parsimony: $n 3^{n-1}$ tests, so at most 10 variables.
References.  Spirtes, Glymour and Scheines (2000); Colombo and Maathuis (2014); Dor and Tarsi (1992).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from tractable.core.checks import check, check_count, check_option
from tractable.core.progress import track
from tractable.distributions.table_axes import Names, as_names
from tractable.distributions.tables import JointTable
from tractable.graphs.dag import DAG
from tractable.graphs.equivalence import CPDAG, meek_closure
from tractable.graphs.exact_search import best_order
from tractable.graphs.scores import FamilyScores
from tractable.graphs.undirected import UndirectedGraph

__all__ = [
    "Factorisation", "IndependenceTest", "IndependenceTests", "PatternSearch", "extend_pattern",
    "parsimonious_factorisation", "pc",
]  # fmt: skip

_MOST_VARIABLES = 10
_ROWS_PER_DEGREE = 5  # fewer rows than this per degree of freedom, and the test has little power


class IndependenceTest(NamedTuple):
    """A likelihood-ratio test of independence; `information` is in nats per row."""

    independent: bool
    statistic: float
    degrees: int
    p_value: float
    information: float


class IndependenceTests:
    r"""Tests on complete rows at a `level`; from a `JointTable`, exact answers: $I(x; y \mid z) \le$ `tol`.

    >>> tests = IndependenceTests(JointTable(["a", "b"], [[0.25, 0.25], [0.25, 0.25]]))
    >>> tests("a", "b")
    True
    """

    def __init__(self, source: Any, level: float | int = 0.05, *, tol: float = 1e-12, **options: Any):
        check(0 < level < 1, "level", "between 0 and 1", level)
        self.exact = isinstance(source, JointTable)
        given = isinstance(source, FamilyScores)
        self.scores: FamilyScores = source if given else FamilyScores(source, "log_likelihood", **options)
        self.level, self.tol = level, tol
        self.num_tests = self.num_weak = 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.scores.names

    def __call__(self, x: Names, y: Names, given: Names = ()) -> bool:
        """Whether independence is not rejected (or, from a table, whether it holds)."""
        return self.test(x, y, given).independent

    def test(self, x: Names, y: Names, given: Names = ()) -> IndependenceTest:
        """The test of two variables or groups given a third; without degrees of freedom, independence."""
        groups = [[self.scores.rows.axes.position(n) for n in as_names(group)] for group in (x, y, given)]
        flat = [i for group in groups for i in group]
        check(len(set(flat)) == len(flat), "x, y, given", "without a common variable", (x, y, given))
        information = max(0.0, self.scores.information(*(sum(1 << i for i in group) for group in groups)))
        total = self.scores.rows.total
        degrees = self._degrees(*groups)
        p_value = float(chdtrc(degrees, 2 * information)) if degrees else 1.0
        self.num_tests += 1
        self.num_weak += not self.exact and degrees * _ROWS_PER_DEGREE > total
        independent = information <= self.tol * total if self.exact else p_value > self.level
        return IndependenceTest(independent, 2 * information, degrees, p_value, information / total)

    def _degrees(self, x: list[int], y: list[int], z: list[int]) -> int:
        """The sum over the strata of (states of x seen - 1)(states of y seen - 1)."""
        rows = self.scores.rows
        stratum, num_strata = rows.strata(z)
        seen = []
        for group in (x, y):
            place, size = rows.strata(group)
            pairs = np.unique(stratum * size + place)
            seen.append(np.bincount(pairs // size, minlength=num_strata))
        return int(((seen[0] - 1) * (seen[1] - 1)).sum())


@dataclass(frozen=True)
class PatternSearch:
    """What PC found: the class of graphs, what separated each pair, and how many answers disagree."""

    pattern: CPDAG
    separators: dict[frozenset[str], tuple[str, ...]] = field(repr=False)
    num_tests: int
    num_conflicts: int  # v-structures that contradict an earlier one; zero where every answer is right

    def __repr__(self) -> str:
        verdict = "consistent" if not self.num_conflicts else f"{self.num_conflicts} v-structures contradict"
        return f"{self.pattern}\n{self.num_tests} tests; {verdict}."


def pc(
    independent: Callable[[str, str, tuple[str, ...]], bool], names: Names, max_given: int | None = None
) -> PatternSearch:
    """The PC algorithm on any answers to `independent(x, y, given)`: tests on rows, a table or d-separation.

    >>> dag = DAG({"c": ["a", "b"], "d": ["c"]})
    >>> pc(dag.d_separated, dag.names).pattern
    CPDAG(4 nodes: a -> c, b -> c, c -> d)
    """
    names = as_names(names)
    most = len(names) - 2 if max_given is None else check_count("max_given", max_given, least=0)
    near, separators, asked = _skeleton(independent, names, most)
    edges = [(a, b) for a, b in itertools.combinations(names, 2) if b in near[a]]
    arrows, conflicts = _colliders(names, near, separators)
    pattern = meek_closure(UndirectedGraph.from_edges(edges, names), arrows)
    return PatternSearch(pattern, separators, asked, conflicts)


def extend_pattern(pattern: CPDAG) -> DAG | None:
    """A member of the class: its directions, and no new v-structures. None where no graph has this pattern.

    A variable without children whose open neighbours are adjacent to all its neighbours can come last.
    """
    near = {name: set() for name in pattern.names}
    for a, b in pattern.directed | pattern.undirected:
        near[a].add(b)
        near[b].add(a)
    out = {name: {b for a, b in pattern.directed if a == name} for name in pattern.names}
    parents: dict[str, list[str]] = {}
    for _ in pattern.names:
        left = [name for name in pattern.names if name not in parents]
        last = next((name for name in reversed(left) if _can_be_last(name, near, out)), None)
        if last is None:
            return None
        parents[last] = [name for name in pattern.names if name in near[last]]
        for other in near.pop(last):
            near[other].discard(last)
            out[other].discard(last)
    return DAG({name: parents[name] for name in pattern.names})


@dataclass(frozen=True)
class Factorisation:
    """The cheapest factorisation over all orders of the variables."""

    dag: DAG
    num_parameters: int
    num_full: int  # free numbers of the whole joint table
    num_tests: int
    exact: bool

    def __repr__(self) -> str:
        parts = ((name, self.dag.parents(name)) for name in self.dag.names)
        text = " ".join(f"p({name} | {', '.join(given)})" if given else f"p({name})" for name, given in parts)
        trust = "independencies are exact" if self.exact else f"right if all {self.num_tests} tests are"
        return f"{text}\n{self.num_parameters} free numbers instead of {self.num_full}; {trust}."


def parsimonious_factorisation(
    source: Any, level: float | int = 0.05, cost: str = "parameters", **options: Any
) -> Factorisation:
    """The factorisation with the fewest free numbers (or `edges`), from a `JointTable` or from rows.

    >>> chain = JointTable(["a", "b"], [[0.1, 0.4], [0.1, 0.4]])
    >>> parsimonious_factorisation(chain)
    p(a) p(b)
    2 free numbers instead of 3; independencies are exact.
    """
    check_option("cost", cost, ("parameters", "edges"))
    tests = IndependenceTests(source, level, **options)
    n, sizes = len(tests.names), tests.scores.rows.sizes
    check(
        n <= _MOST_VARIABLES, "source", f"of at most {_MOST_VARIABLES} variables", n, "Use `learn_structure`."
    )

    def price(i: int, parents: int) -> int:
        free = (sizes[i] - 1) * tests.scores.num_states(parents)
        return free if cost == "parameters" else parents.bit_count()

    best, choice = np.full((n, 1 << n), -math.inf), np.zeros((n, 1 << n), int)
    for i, before in itertools.product(range(n), range(1 << n)):
        if not before >> i & 1:
            choice[i, before] = _cheapest(tests, i, before, price)
            best[i, before] = -price(i, int(choice[i, before]))
    order, before, parents = best_order(best) or [], 0, {}
    for i in order:
        parents[tests.names[i]] = _named(tests.names, int(choice[i, before]))
        before |= 1 << i
    places = {name: i for i, name in enumerate(tests.names)}
    masks = {name: sum(1 << places[p] for p in chosen) for name, chosen in parents.items()}
    free = sum((sizes[places[name]] - 1) * tests.scores.num_states(mask) for name, mask in masks.items())
    return Factorisation(DAG(parents), free, math.prod(sizes) - 1, tests.num_tests, tests.exact)


def _cheapest(tests: IndependenceTests, i: int, before: int, price: Callable[[int, int], int]) -> int:
    """The cheapest subset of `before` that separates variable `i` from the rest of it."""
    subsets = (mask for mask in range(before + 1) if mask & before == mask)
    for mask in sorted(subsets, key=lambda mask: (price(i, mask), mask.bit_count(), mask)):
        rest = _named(tests.names, before ^ mask)
        if not rest or tests(tests.names[i], rest, _named(tests.names, mask)):
            return mask
    return before


def _skeleton(
    independent: Callable[[str, str, tuple[str, ...]], bool], names: tuple[str, ...], most: int
) -> tuple[dict[str, set[str]], dict[frozenset[str], tuple[str, ...]], int]:
    """Neighbours, separators of the pairs that are not neighbours, and the number of questions asked."""
    near = {name: set(names) - {name} for name in names}
    separators: dict[frozenset[str], tuple[str, ...]] = {}
    asked = 0
    for size in range(most + 1):
        frozen = {name: [other for other in names if other in near[name]] for name in names}
        pairs = math.comb(len(names), 2)
        for x, y in track(itertools.combinations(names, 2), pairs, f"Asking about {size} others"):
            if y not in near[x]:
                continue
            sides = ([n for n in frozen[x] if n != y], [n for n in frozen[y] if n != x])
            for given in dict.fromkeys(g for side in sides for g in itertools.combinations(side, size)):
                asked += 1
                if independent(x, y, given):
                    near[x].discard(y)
                    near[y].discard(x)
                    separators[frozenset((x, y))] = given
                    break
        if all(len(each) <= size + 1 for each in near.values()):
            break
    return near, separators, asked


def _colliders(
    names: Sequence[str], near: dict[str, set[str]], separators: dict[frozenset[str], tuple[str, ...]]
) -> tuple[set[tuple[str, str]], int]:
    """The arrows of the v-structures; one that contradicts an earlier one is left out and counted."""
    arrows: set[tuple[str, str]] = set()
    conflicts = 0
    for x, y in itertools.combinations(names, 2):
        for z in names if y not in near[x] else ():
            if z in near[x] and z in near[y] and z not in separators.get(frozenset((x, y)), ()):
                if (z, x) in arrows or (z, y) in arrows:
                    conflicts += 1
                else:
                    arrows |= {(x, z), (y, z)}
    return arrows, conflicts


def _can_be_last(name: str, near: dict[str, set[str]], out: dict[str, set[str]]) -> bool:
    if name not in near or out[name]:
        return False
    open_ends = [other for other in near[name] if name not in out[other]]
    return all(near[name] - {other} <= near[other] for other in open_ends)


def _named(names: tuple[str, ...], mask: int) -> tuple[str, ...]:
    return tuple(name for i, name in enumerate(names) if mask >> i & 1)
