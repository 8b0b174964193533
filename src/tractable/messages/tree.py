r"""Messages on factor trees and forests: marginals, totals and evidence by two passes, over any semiring.

Messages.    $\mu_{x \to f}(x) = \prod_{g \ni x, g \ne f} \mu_{g \to x}(x)$ and $\mu_{f \to x}(x) =
             \sum_{N(f) \setminus x} f \prod_{y \ne x} \mu_{y \to f}(y)$; a leaf variable sends one, a leaf
             factor itself. From the leaves to a root and back, each message is made once.
Beliefs.     $p(x) \propto \prod_{f \ni x} \mu_{f \to x}(x)$ and
             $p(x_f) \propto f \prod_{x \in f} \mu_{x \to f}$; the total of either is $Z$, at every node.
Evidence.    An event makes the states outside it impossible, so that $Z$ becomes the mass of
             the evidence; likelihoods multiply.
Cost.        At most $2(N + M)(k + l)\,c^l$ operations for $N$ variables in at most $k$ factors each and $M$
             factors of at most $l$ variables with at most $c$ states. In NumPy, with nothing compiled,
             unless the potentials are traced by `jit`, `vmap` or `grad`.
References.  Kschischang, Frey and Loeliger (2001); Koller and Friedman (2009) chapter 10.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, check_shape, is_concrete
from tractable.core.description import Described
from tractable.distributions.table_axes import Event, TableAxes
from tractable.distributions.tables import JointTable
from tractable.messages.evidence import read_evidence
from tractable.messages.potentials import Table, as_tables, multiplied, normalised, summed
from tractable.messages.semirings import Semiring, SumProduct, as_semiring, namespace

__all__ = [
    "Schedule",
    "TreeBeliefs",
    "joint_by_clamping",
    "local_potentials",
    "predicted_cost",
    "propagate",
    "schedule",
]

Factors = Mapping[str, Any] | Iterable[Any]
Edge = tuple[str, str]


@dataclass(frozen=True)
class Schedule:
    """Who sends to whom, and when: `towards` the roots in order, then `away` from them."""

    roots: tuple[str, ...]
    towards: tuple[Edge, ...]
    away: tuple[Edge, ...]
    component: dict[str, str]  # the root of each node's tree
    neighbours: dict[str, tuple[str, ...]]


class TreeBeliefs(Described):
    """Every message of both passes by name, and what follows from them.

    `messages[source, target]` holds elements of the semiring: logarithms for `sum_product`.
    """

    _shown = ("total", "messages", "num_operations")

    def __init__(self, tables: dict, states: dict, plan: Schedule, semiring: Semiring, local: dict):
        self.tables, self.states, self.plan, self.semiring = tables, states, plan, semiring
        self.local = local  # what evidence says of each variable: elements
        self.potentials = {f: semiring.lift(t.log_values) for f, t in tables.items()}
        self.num_operations = self._operations = 0
        self.messages: dict[Edge, Any] = {}

    def message(self, source: str, target: str) -> Any:
        r"""$\mu_{\mathrm{source} \to \mathrm{target}}$ as numbers: not logarithms, for `sum_product`."""
        known = (source, target) in self.messages
        check(known, "source, target", f"one of the {len(self.messages)} messages", (source, target))
        sent = self.messages[source, target]
        return namespace(sent).exp(sent) if isinstance(self.semiring, SumProduct) else sent

    def belief(self, node: str) -> Any:
        """The product at a variable or a factor: elements, not normalised."""
        if node in self.tables:
            return self._factor_product(node, self.plan.neighbours[node])
        check(node in self.states, "node", f"a variable or a factor among {tuple(self.plan.component)}", node)
        return self._product(
            [self.local[node], *(self.messages[f, node] for f in self.plan.neighbours[node])]
        )

    def total_at(self, node: str) -> Any:
        """The total of the tree that holds `node`, summed at that node: the same at every node."""
        belief = self.belief(node)
        axes = len(self.tables[node].names) if node in self.tables else 1
        return self.semiring.total(belief, tuple(range(axes)))

    @cached_property
    def total(self) -> Any:
        r"""The total of the whole forest; $\log Z$, or the log mass of the evidence, for `sum_product`."""
        return self._product([self.total_at(root) for root in self.plan.roots])

    def marginal(self, name: str) -> JointTable:
        """The distribution of one variable (`ImpossibleEvidence` if the evidence has no mass)."""
        self._check_possible()
        return normalised(TableAxes((name,), (self.states[name],)), self.belief(name))

    def marginals(self) -> dict[str, JointTable]:
        """The distribution of every variable."""
        return {name: self.marginal(name) for name in self.states}

    def factor_marginal(self, factor: str) -> JointTable:
        """The joint distribution of the variables of one factor."""
        check(factor in self.tables, "factor", f"among {tuple(self.tables)}", repr(factor))
        self._check_possible()
        return normalised(self.tables[factor].axes, self.belief(factor))

    def _check_possible(self) -> None:
        sums = isinstance(self.semiring, SumProduct)
        check(sums, "semiring", "sum_product, to have probabilities", type(self.semiring).__name__)
        if is_concrete(self.total) and not float(self.total) > -np.inf:
            fix = "Some factors or pieces of evidence contradict each other."
            check(False, "evidence", "of positive probability", "P = 0", fix, error=ImpossibleEvidence)

    def _product(self, elements: list) -> Any:
        product = elements[0]
        for element in elements[1:]:
            product = self.semiring.times(product, element)
            self._operations += math.prod(np.shape(product))
        return product

    def _factor_product(self, factor: str, senders: Iterable[str]) -> Any:
        axes = self.tables[factor].axes
        product = self.potentials[factor]
        for name in senders:
            arrived = [(axes.names, product), ((name,), self.messages[name, factor])]
            product = multiplied(axes.names, arrived, self.semiring)
            self._operations += math.prod(np.shape(product))
        return product

    def _from_factor(self, factor: str, target: str) -> Any:
        axes = self.tables[factor].axes
        product = self._factor_product(factor, [n for n in self.plan.neighbours[factor] if n != target])
        self._operations += math.prod(np.shape(product))
        return summed(axes, product, (target,), self.semiring)

    def _from_variable(self, name: str, targets: list[str]) -> None:
        """The messages to several factors: products of all others, from the left and from the right."""
        others = [self.messages[f, name] for f in self.plan.neighbours[name] if f not in targets]
        arrived = [self.messages.get((f, name)) for f in targets]
        left = [self._product([self.local[name], *others])]
        right = [None] * len(targets)
        for i in range(1, len(targets)):
            left.append(self._product([left[-1], arrived[i - 1]]))
            last = right[-i]
            right[-i - 1] = arrived[-i] if last is None else self._product([arrived[-i], last])
        for target, before, after in zip(targets, left, right):
            self.messages[name, target] = before if after is None else self._product([before, after])


def schedule(scopes: Mapping[str, Iterable[str]], root: str | None = None) -> Schedule:
    """Two passes over the forest of factors and variables; an error names the variables of a loop."""
    neighbours: dict[str, list[str]] = {}
    for factor, names in scopes.items():
        for name in names:
            neighbours.setdefault(name, []).append(factor)
    fixed = {node: tuple(known) for node, known in (*neighbours.items(), *scopes.items())}
    check(root is None or root in fixed, "root", f"a variable or a factor among {tuple(fixed)}", repr(root))
    parent: dict[str, str] = {}
    component: dict[str, str] = {}
    order: list[str] = []
    for start in [*([] if root is None else [root]), *fixed]:
        if start not in component:
            component[start] = start
            order += _breadth_first(start, fixed, parent, component)
    roots = tuple(node for node in order if node not in parent)
    towards = tuple((node, parent[node]) for node in reversed(order) if node in parent)
    away = tuple((parent[node], node) for node in order if node in parent)
    return Schedule(roots, towards, away, component, fixed)


def propagate(
    factors: Factors,
    evidence: Event | None = None,
    *,
    likelihoods: Mapping[str, Any] | None = None,
    semiring: str | Semiring = "sum_product",
    root: str | None = None,
) -> TreeBeliefs:
    """Both passes over a forest of factors, from the leaves to `root` (any variable or factor) and back.

    `factors`: `Table`s, probability tables or pairs of names and log-potentials, by name or in a list.
    `evidence` as for `read_evidence`: a state, a set of states, a predicate or a likelihood of each variable;
    `likelihoods` may also be traced, one number per state.

    >>> chain = {"f": (("a", "b"), np.log([[0.3, 0.2], [0.1, 0.4]])), "g": (("b",), np.log([0.5, 1.0]))}
    >>> beliefs = propagate(chain)
    >>> round(float(np.exp(beliefs.total)), 6), beliefs.message("f", "b").round(6).tolist()
    (0.8, [0.4, 0.6])
    """
    tables, states = as_tables(factors)
    chosen = as_semiring(semiring)
    plan = schedule({f: t.names for f, t in tables.items()}, root)
    local = local_potentials(tables, states, evidence or {}, likelihoods or {}, chosen)
    beliefs = TreeBeliefs(tables, states, plan, chosen, local)
    for source, target in plan.towards:
        if source in tables:
            beliefs.messages[source, target] = beliefs._from_factor(source, target)
        else:
            beliefs._from_variable(source, [target])
    done = set(beliefs.messages)
    for source, target in plan.away:
        if source in tables:
            beliefs.messages[source, target] = beliefs._from_factor(source, target)
        elif (source, target) not in beliefs.messages:
            to_root = [g for g in plan.neighbours[source] if (source, g) in done]
            beliefs._from_variable(source, [g for g in plan.neighbours[source] if g not in to_root])
    beliefs.num_operations = beliefs._operations
    return beliefs


def joint_by_clamping(
    factors: Factors, first: str, second: str, evidence: Event | None = None, **options: Any
) -> JointTable:
    r"""$P(x_i = a, x_j = b) \propto \prod_{f \ni x_j} \mu^{[x_i = a]}_{f \to j}(b)$: one run per state $a$.

    Only $x_i$ is clamped: the product of messages that were not clamped is $P(x_i)\,P(x_j)$.
    """
    tables, states = as_tables(factors)
    for name in (first, second):
        check(name in states, "names", f"among {tuple(states)}", repr(name))
    check(first != second, "second", f"another variable than {first!r}", repr(second))
    axes = TableAxes((first, second), (states[first], states[second]))
    known = _log_evidence(states, {first: (evidence or {}).get(first)}).get(first, np.zeros(axes.shape[0]))
    rows = []
    for state, log_value in zip(states[first], known.tolist()):
        run = propagate(tables, {**(evidence or {}), first: [state]}, root=second, **options)
        others = [run.total_at(r) for r in run.plan.roots if r != run.plan.component[second]]
        belief = run._product([run.belief(second), *others])
        rows.append(belief + log_value)
    return normalised(axes, namespace(*rows).stack(rows))


def predicted_cost(factors: Factors) -> int:
    r"""The bound $2(N + M)(k + l)\,c^l$ on the operations of both passes."""
    tables, states = as_tables(factors)
    plan = schedule({f: t.names for f, t in tables.items()})
    k = max(len(plan.neighbours[name]) for name in states)
    l = max(len(t.names) for t in tables.values())
    c = max(len(own) for own in states.values())
    return 2 * (len(states) + len(tables)) * (k + l) * c**l


def _breadth_first(start: str, neighbours: dict, parent: dict, component: dict) -> list[str]:
    order = [start]
    for node in order:
        for other in neighbours[node]:
            if other == parent.get(node):
                continue
            if other in component:
                loop = _loop(node, other, parent)
                fix = "Use `loopy` messages (approximate) or a junction tree (exact)."
                check(False, "factors", "a tree or a forest", f"the loop {' - '.join(loop)}", fix)
            parent[other], component[other] = node, start
            order.append(other)
    return order


def _loop(node: str, other: str, parent: dict) -> list[str]:
    def path(end):
        nodes = [end]
        while nodes[-1] in parent:
            nodes.append(parent[nodes[-1]])
        return nodes

    up, down = path(node), path(other)
    shared = set(up) & set(down)
    meeting = next(n for n in up if n in shared)
    return [*up[: up.index(meeting) + 1], *reversed(down[: down.index(meeting)]), node]


def local_potentials(
    tables: dict[str, Table], states: dict, evidence: Event, likelihoods: Mapping, semiring: Semiring
) -> dict[str, Any]:
    """What is known of each variable apart from the factors, as elements."""
    for given, known in (("evidence", evidence), ("likelihoods", likelihoods)):
        unknown = [name for name in known if name not in states]
        check(not unknown, given, f"about variables among {tuple(states)}", unknown)
    kind = namespace(*(t.log_values for t in tables.values()))
    dtype = np.result_type(*(t.log_values.dtype for t in tables.values()))
    seen = _log_evidence(states, evidence)
    local = {}
    for name, own in states.items():
        log_values = kind.asarray(seen.get(name, np.zeros(len(own))), dtype)
        if name in likelihoods:
            log_values = log_values + _log_likelihood(name, likelihoods[name], len(own))
        local[name] = semiring.lift(log_values)
    return local


def _log_evidence(states: dict, evidence: Event) -> dict[str, np.ndarray]:
    """The logarithm of what the evidence says of each variable that it names; None says nothing."""
    axes = TableAxes(tuple(states), tuple(states.values()))
    read = read_evidence(axes, {name: event for name, event in evidence.items() if event is not None})
    clamped = (((i,), np.where(np.arange(axes.shape[i]) == at, 0.0, -np.inf)) for i, at in read.hard.items())
    return {axes.names[i]: log_values for (i,), log_values in (*read.log_factors, *clamped)}


def _log_likelihood(name: str, values: Any, size: int) -> Any:
    log_values = Table.from_values((name,), values).log_values
    check_shape(f"likelihoods[{name!r}]", log_values, (size,), "One number per state.")
    return log_values
