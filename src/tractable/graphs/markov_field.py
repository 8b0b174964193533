r"""Markov random fields: products of factors over discrete variables, with exact and approximate inference.

Model.       $p(x) = \frac1Z \prod_m \psi_m(x_m) = \frac1Z e^{-E(x)}$, $E(x) = -\sum_m \log\psi_m(x_m)$,
             $Z = \sum_x \prod_m \psi_m(x_m)$, the sum over all $x$.
Gradient.    $\partial \log Z / \partial \log\psi_m(x_m) = p(x_m)$: $\nabla\log Z$ is the expected statistics.
Identities.  $p(x_v \mid x_{-v}) \propto \prod_{m \ni v} \psi_m(x_m)$: only the neighbours of $v$ matter, not
             $Z$. $C$ separates $A$ from $B$ in the graph $\Rightarrow A \perp B \mid C$; where all
             $\psi > 0$, whatever obeys these independencies factorises along the cliques.
Cost.        Exact queries: exponential in the treewidth alone, predicted by `cost`. A Gibbs or mean-field
             sweep: linear in the pairs of factor and variable.
References.  Hammersley and Clifford (1971); Besag (1974); Koller and Friedman (2009), chapter 4.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, is_concrete
from tractable.core.module import Module, field
from tractable.core.numerics import softmax
from tractable.core.types import Array, Int, Key, Scalar
from tractable.distributions.contraction import contract
from tractable.distributions.table_axes import Event, Names, TableAxes, table_axes
from tractable.distributions.tables import JointTable
from tractable.graphs.potentials import Potentials
from tractable.graphs.queries import DiscreteQueries, Observations
from tractable.graphs.undirected import UndirectedGraph, dependency_graph
from tractable.messages.potentials import Table, as_table

if TYPE_CHECKING:
    from tractable.inference.gibbs.draws import FactorDraws
    from tractable.inference.variational.cavi import MeanFieldRun
    from tractable.messages.loopy import LoopyBeliefs

__all__ = ["MarkovField"]

# Beyond this many cells a table of all joint states is refused.
_MOST_CELLS = 2**24


class MarkovField(Module, DiscreteQueries):
    r"""A product of non-negative factors over discrete variables.

    `factors` holds pairs `(names, log_potentials)`, one axis per name, and tables (`JointTable`,
    `ConditionalTable`), in any order. `states` names the states of variables (by default 0, 1, 2, ...), puts
    these variables first, and may hold some that no factor touches. Evidence maps names to a state, a set of
    states, a predicate, or a likelihood with one number per state.

    >>> import numpy as np
    >>> pair = np.log([[3.0, 1.0], [1.0, 3.0]])
    >>> field = MarkovField([(("a", "b"), pair), (("b", "c"), pair)])
    >>> round(float(np.exp(field.log_partition())), 6)
    32.0
    >>> round(field.marginals({"c": 1})["a"][1], 6)
    0.625
    """

    logs: tuple[Array, ...]
    scopes: tuple[tuple[str, ...], ...] = field(static=True)
    axes: TableAxes = field(static=True)

    def __init__(self, factors: Iterable[Any], states: Mapping[str, Any] | None = None):
        known: dict[str, tuple[Any, ...]] = {name: tuple(each) for name, each in (states or {}).items()}
        listed = factors.values() if isinstance(factors, Mapping) else factors
        parts = [as_table(each, f"factors[{i}]") for i, each in enumerate(listed)]
        for part in parts:
            _agree(known, part.axes, states or {})
        check(len(known) > 0, "factors", "at least one factor", "none")
        touched = {name for part in parts for name in part.names}
        alone = [name for name in known if name not in touched]
        self.scopes = (*(part.names for part in parts), *((name,) for name in alone))
        self.logs = (
            *(jnp.asarray(part.log_values) for part in parts),
            *(jnp.zeros(len(known[name])) for name in alone),
        )
        self.axes = table_axes(list(known), tuple(map(len, known.values())), known)

    @classmethod
    def from_energies(
        cls, factors: Iterable[Any], states: Mapping[str, Any] | None = None, temperature: float = 1.0
    ) -> "MarkovField":
        r"""The Boltzmann distribution $\exp(-\sum_m E_m(x_m) / T)$ of pairs `(names, energies)`."""
        check(temperature > 0, "temperature", "positive", temperature)
        return cls([(names, -jnp.asarray(table) / temperature) for names, table in factors], states)

    @classmethod
    def from_graph(
        cls,
        graph: UndirectedGraph,
        log_potential: Callable[[tuple[str, ...]], Any],
        states: Mapping[str, Any] | None = None,
    ) -> "MarkovField":
        """One factor per maximal clique of a graph: `log_potential(names)` is its table of logarithms."""
        return cls([(clique, log_potential(clique)) for clique in graph.maximal_cliques()], states)

    @property
    def names(self) -> tuple[str, ...]:
        return self.axes.names

    @property
    def states(self) -> dict[str, tuple[Any, ...]]:
        """The states of each variable."""
        return dict(zip(self.axes.names, self.axes.states))

    @property
    def factors(self) -> tuple[tuple[tuple[str, ...], Array], ...]:
        """Pairs of names and log-potentials."""
        return tuple(zip(self.scopes, self.logs))

    @cached_property
    def potentials(self) -> Potentials:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The factors over numbered variables, for the engine of exact inference."""
        scopes = tuple(tuple(self.axes.place[name] for name in names) for names in self.scopes)
        return Potentials(self.axes, scopes, tuple(np.asarray(logs) for logs in self.logs))

    @property
    def is_positive(self) -> bool:
        """Whether no state of a factor is impossible: then separation and factorisation say the same."""
        return all(bool((np.asarray(logs) > -np.inf).all()) for logs in self.logs)

    @cached_property
    def graph(self) -> UndirectedGraph:
        """The graph in which the variables of each factor are a clique."""
        return dependency_graph(self.scopes, self.names)

    def markov_blanket(self, name: str) -> frozenset[str]:
        """The neighbours: given these, a variable is independent of all others."""
        return frozenset(self.graph.neighbours(name))

    def separated(self, x: Names, y: Names, given: Names = ()) -> bool:
        """Whether every path from `x` to `y` meets `given`, so that they are independent given it."""
        return self.graph.separated(x, y, given)

    def log_weight(self, assignment: Mapping[str, Any] | Int[Array, " n"] | np.ndarray) -> Scalar:
        r"""$\sum_m \log\psi_m(x_m)$ of a state for each variable, or of their places among the states."""
        x = self._places(assignment) if isinstance(assignment, Mapping) else jnp.asarray(assignment)
        check(x.shape == (len(self.names),), "assignment", f"a place for each of {self.names}", x.shape)
        place = {name: i for i, name in enumerate(self.names)}
        return sum(
            (logs[tuple(x[place[name]] for name in names)] for names, logs in self.factors), jnp.zeros(())
        )

    def energy(self, assignment: Mapping[str, Any] | Int[Array, " n"] | np.ndarray) -> Scalar:
        r"""$E(x) = -\sum_m \log\psi_m(x_m)$: low where the state is probable."""
        return -self.log_weight(assignment)

    def log_prob(self, assignment: Mapping[str, Any] | Int[Array, " n"] | np.ndarray) -> Scalar:
        r"""$-E(x) - \log Z$."""
        return self.log_weight(assignment) - self.log_partition()

    def log_partition(self, evidence: Observations = None) -> Scalar:
        r"""$\log Z$, or with evidence the logarithm of the part of $Z$ that agrees with it ($-\infty$: none).

        Where the potentials are traced, by one contraction: $\nabla \log Z$ is the expected statistics.
        """
        if all(map(is_concrete, self.logs)):
            return jnp.asarray(self._exact(evidence).log_total)
        check(not evidence, "evidence", "left out where the potentials are traced", evidence)
        tops = [jnp.max(logs) for logs in self.logs]
        tops = [jnp.where(top > -jnp.inf, top, 0.0) for top in tops]
        scaled = [(names, jnp.exp(logs - top)) for (names, logs), top in zip(self.factors, tops)]
        return jnp.log(contract(scaled, ())) + jnp.stack(tops).sum()

    def _log_scale(self) -> float:
        return float(self.log_partition())

    def gibbs(self, key: Key, evidence: Event | None = None, **options: Any) -> "FactorDraws":
        """Draws by Gibbs sampling, for fields too wide for exact answers; options of `factor_gibbs`."""
        from tractable.inference.gibbs.factors import factor_gibbs

        return factor_gibbs(self._tables, evidence, key=key, **options)

    def loopy(self, evidence: Event | None = None, **options: Any) -> "LoopyBeliefs":
        """Loopy belief propagation: exact on trees, else an estimate that says whether it settled.

        Options of `messages.loopy.loopy`, such as `damping` and `schedule`.
        """
        from tractable.messages.loopy import loopy

        return loopy({f"factor {i}": each for i, each in enumerate(self._tables, 1)}, evidence, **options)

    @property
    def _tables(self) -> list[Table]:
        return [Table(names, logs, self.axes.select(names).states) for names, logs in self.factors]

    def joint(self) -> JointTable:
        """The table of all joint states, by enumeration: the check of everything else on small fields."""
        cells = math.prod(self.axes.shape)
        fix = "Use `query`, which sums out the others."
        check(cells <= _MOST_CELLS, "names", f"few: a table of at most {_MOST_CELLS} cells", cells, fix)
        logs = sum(
            (self.axes.spread(names, logs) for names, logs in self.factors), jnp.zeros(self.axes.shape)
        )
        if is_concrete(logs):
            possible = bool(jnp.isfinite(logs).any())
            check(possible, "factors", "possible together", "Z = 0", error=ImpossibleEvidence)
        return JointTable(
            self.names,
            softmax(logs.reshape(-1)).reshape(self.axes.shape),
            self.axes.states,
            validate=False,
        )

    def conditional(self, name: str, rest: Mapping[str, Any]) -> JointTable:
        r"""$p(x_v \mid x_{-v})$ from the factors that touch `name`; `rest` holds states of its neighbours."""
        missing = sorted(self.markov_blanket(name) - set(rest))
        check(not missing, "rest", f"a state for each neighbour of {name!r}", f"none for {missing}")
        states, logs = self.axes.states_of(name), jnp.zeros(len(self.axes.states_of(name)))
        for names, table in self.factors:
            if name in names:
                index = tuple(slice(None) if n == name else self._place(n, rest[n]) for n in names)
                logs = logs + table[index]
        if is_concrete(logs):
            possible = bool(logs.max() > -jnp.inf)
            got = f"no possible state of {name!r}"
            check(possible, "rest", "of positive probability", got, error=ImpossibleEvidence)
        return JointTable(name, softmax(logs), [states], validate=False)

    def condition(self, evidence: Mapping[str, Any]) -> "MarkovField":
        """The field of the other variables once each of `evidence` has its state: its Z is that part of Z."""
        self.axes.select(evidence)
        parts, constant = [], jnp.zeros(())
        for names, logs in self.factors:
            index = tuple(self._place(n, evidence[n]) if n in evidence else slice(None) for n in names)
            kept = tuple(n for n in names if n not in evidence)
            if kept:
                parts.append((kept, logs[index]))
            else:
                constant = constant + logs[index]
        check(len(parts) > 0, "evidence", "silent about at least one variable", "a state for each")
        parts[0] = (parts[0][0], parts[0][1] + constant)
        states = {name: states for name, states in self.states.items() if name not in evidence}
        return MarkovField(parts, states)

    def pruned(self, targets: Names, evidence: Mapping[str, Any]) -> "MarkovField":
        """What matters for `targets` once `evidence` is in its place: the part not cut off by it."""
        kept = self.condition(evidence)
        inside = kept.graph.reached(targets)
        parts = [(names, logs) for names, logs in kept.factors if names[0] in inside]
        return MarkovField(parts, {name: kept.states[name] for name in kept.names if name in inside})

    def mean_field(self, evidence: Mapping[str, Any] | None = None, **options: Any) -> "MeanFieldRun":
        r"""Mean field $q(x) = \prod_i q_i(x_i)$ of the variables without evidence, in their order.

        The ELBO is a lower bound of $\log Z$ (with evidence: of its part). Options of `factor_cavi`.
        """
        from tractable.inference.variational.cavi import factor_cavi

        part = self.condition(evidence) if evidence else self
        place = {name: i for i, name in enumerate(part.names)}
        return factor_cavi([([place[n] for n in names], logs) for names, logs in part.factors], **options)

    def _place(self, name: str, state: Any) -> int:
        return int(self.axes.mask(name, [state]).argmax())

    def _places(self, assignment: Mapping[str, Any]) -> Array:
        same = set(assignment) == set(self.names)
        check(same, "assignment", f"a state for each of {self.names}", sorted(assignment))
        return jnp.asarray([self._place(name, assignment[name]) for name in self.names])

    def __repr__(self) -> str:
        return f"MarkovField({len(self.names)} variables, {len(self.logs)} factors)"


def _agree(known: dict[str, tuple[Any, ...]], axes: TableAxes, named: Mapping[str, Any]) -> None:
    """Enter the states of a factor's variables, which must be those known; names given apart rule."""
    for name, states in zip(axes.names, axes.states):
        before = known.setdefault(name, states)
        check(
            len(before) == len(states),
            name,
            f"a variable with {len(before)} states in every factor",
            len(states),
        )
        same = name in named or before == states
        check(same, name, f"a variable with the states {before} in every factor", states)
