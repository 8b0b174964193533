r"""Constraint satisfaction and satisfiability as products of 0/1 factors, over the right semirings.

Model.       $\bigwedge_m f_m(x_m)$ with $f_m \in \{0, 1\}$: (or, and) decides whether a solution exists, the
             counting semiring says how many, and the tables of the elimination lead to each of them.
Clauses.     A clause such as $x_1 \vee \neg x_2 \vee x_3$ is a factor with a single zero.
Elimination. $\bigvee_{x_v} \bigwedge_{f \ni v} f$ for one variable after another. Followed backwards, every
             partial assignment can be completed: solutions come one by one with no dead ends.
Cost.        Exponential in the width of the elimination order, refused before it starts if its largest table
             is too large: the decision is NP-complete. Solutions take time linear in their number.
References.  Dechter (1999), bucket elimination; Cook (1971).
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.distributions.table_axes import TableAxes
from tractable.messages.cost import Budget, require_fit
from tractable.messages.elimination import elimination_order
from tractable.messages.potentials import Table, multiplied
from tractable.messages.semirings import as_semiring
from tractable.messages.variable_elimination import eliminate

__all__ = ["Constraints", "from_clauses"]

SMALL_BUDGET = Budget(max_bytes=2**27)  # whole numbers of any size take longer than doubles
Rule = Callable[..., Any] | Iterable[Sequence[Any]]


class Constraints:
    """Variables with their states, and rules about some of them: a predicate, or the combinations allowed.

    >>> colours = {country: ["red", "green", "blue"] for country in ("a", "b", "c")}
    >>> borders = [(("a", "b"), lambda x, y: x != y), (("b", "c"), lambda x, y: x != y)]
    >>> Constraints(colours, borders).count()
    12
    """

    def __init__(self, states: Mapping[str, Iterable[Any]], rules: Iterable[tuple[Sequence[str], Rule]]):
        self.states = {name: tuple(own) for name, own in states.items()}
        check(bool(self.states), "states", "given for at least one variable", "none")
        for name, own in self.states.items():
            check(len(own) > 0, name, "a variable with at least one state", "none")
        self.tables = {f"r{i}": self._table(i, names, rule) for i, (names, rule) in enumerate(rules, 1)}

    def satisfiable(self) -> bool:
        """Whether any assignment meets every rule."""
        return bool(self._eliminated("boolean")[0])

    def count(self) -> int:
        """The number of assignments that meet every rule, exactly, however large."""
        return int(self._eliminated("counting")[0])

    def solutions(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The assignments that meet every rule, at most `limit` of them, one by one."""
        _, buckets = self._eliminated("boolean")
        found = _extensions(buckets[::-1], {})
        for positions in itertools.islice(found, limit):
            yield {name: self.states[name][positions[name]] for name in self.states}

    def solve(self) -> dict[str, Any] | None:
        """One assignment that meets every rule, or None."""
        return next(self.solutions(1), None)

    def is_solution(self, assignment: Mapping[str, Any]) -> bool:
        """Whether an assignment of all variables meets every rule."""
        check(set(assignment) == set(self.states), "assignment", f"of {tuple(self.states)}", assignment)
        at = {name: self.states[name].index(state) for name, state in assignment.items()}
        return all(t.log_values[tuple(at[n] for n in t.names)] == 0 for t in self.tables.values())

    def brute_force(self) -> Iterator[dict[str, Any]]:
        """The same assignments by trying all: for checks."""
        for values in itertools.product(*self.states.values()):
            assignment = dict(zip(self.states, values))
            if self.is_solution(assignment):
                yield assignment

    def __repr__(self) -> str:
        size = math.prod(len(own) for own in self.states.values())
        return f"Constraints({len(self.states)} variables, {len(self.tables)} rules, {size:.4g} assignments)"

    def _table(self, number: int, names: Sequence[str], rule: Rule) -> Table:
        unknown = [name for name in names if name not in self.states]
        check(not unknown, f"rules[{number - 1}]", f"about variables among {tuple(self.states)}", unknown)
        axes = TableAxes(tuple(names), tuple(self.states[name] for name in names))
        cells = itertools.product(*axes.states)
        if callable(rule):
            values = [bool(rule(*states)) for states in cells]
        else:
            allowed = [tuple(states) for states in rule]
            possible = list(cells)
            wrong = [states for states in allowed if states not in possible]
            check(not wrong, f"rules[{number - 1}]", f"combinations of states of {tuple(names)}", wrong)
            values = [states in allowed for states in possible]
        return Table.from_values(names, np.array(values, float).reshape(axes.shape), axes.states)

    def _eliminated(self, name: str) -> tuple[Any, list[tuple[str, list]]]:
        """The total, and for each variable in order the factors over it and over variables that go later."""
        names, semiring = list(self.states), as_semiring(name)
        sizes = [len(own) for own in self.states.values()]
        scopes = [tuple(names.index(n) for n in t.names) for t in self.tables.values()]
        plan = elimination_order([*scopes, *((i,) for i in range(len(names)))], sizes)
        require_fit(plan.cost, SMALL_BUDGET)
        factors = [(t.names, semiring.lift(t.log_values)) for t in self.tables.values()]
        factors += [((n,), semiring.lift(np.zeros(len(own)))) for n, own in self.states.items()]
        left, buckets = eliminate(factors, [names[v] for v in plan.order], semiring)
        return multiplied((), left, semiring), buckets


def from_clauses(clauses: Iterable[Iterable[int]], num_variables: int | None = None) -> Constraints:
    r"""A formula in conjunctive normal form, as in DIMACS files: `[1, -2]` is $x_1 \vee \neg x_2$.

    >>> formula = from_clauses([[1, 2], [-1, 3], [-2, -3]])
    >>> formula.satisfiable(), formula.count()
    (True, 2)
    """
    rows = [list(clause) for clause in clauses]
    whole = all(isinstance(i, int | np.integer) and i != 0 for row in rows for i in row)
    check(whole, "clauses", "lists of whole numbers other than 0", rows)
    largest = max((abs(i) for row in rows for i in row), default=0)
    num = largest if num_variables is None else num_variables
    check(num >= max(largest, 1), "num_variables", f"at least {max(largest, 1)}", num)
    states = {f"x{i}": (False, True) for i in range(1, num + 1)}
    # A literal and its opposite in one clause make it true: nothing to require.
    kept = [sorted(set(row), key=abs) for row in rows if not any(-i in row for i in row)]
    return Constraints(states, [([f"x{abs(i)}" for i in row], _clause(row)) for row in kept])


def _clause(literals: list[int]) -> Callable[..., bool]:
    return lambda *values: any(value == (literal > 0) for value, literal in zip(values, literals))


def _extensions(buckets: list, start: dict[str, int]) -> Iterator[dict[str, int]]:
    """Every way to complete a partial assignment, last eliminated variable first: depth first, on a stack."""
    stack = [start]
    while stack:
        partial = stack.pop()
        if len(partial) == len(buckets):
            yield partial
            continue
        name, factors = buckets[len(partial)]
        rows = [table[tuple(partial.get(n, slice(None)) for n in names)] for names, table in factors]
        allowed = np.logical_and.reduce(rows)
        stack += [{**partial, name: int(i)} for i in np.flatnonzero(allowed)[::-1]]
