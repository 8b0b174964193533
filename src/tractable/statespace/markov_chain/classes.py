r"""Which states of a chain reach each other, which are left for good, and with what period.

Classes.     $i$ and $j$ communicate if each can be reached from the other. A state is recurrent if its class
             is never left, else transient; one class for all states makes the chain irreducible.
Period.      The common divisor of the lengths of all ways back; one makes a class aperiodic.
Ergodic.     Irreducible and aperiodic: the distribution converges to one equilibrium from every start.
             Irreducible alone is not enough: the chain that flips between two states never settles.
Primitive.   A power of $P$ has no zero. The same as ergodic: non-negative entries are not enough, of which
             the identity and the flip are examples.
Cost.        $O(K + \mathrm{steps})$.
References.  Norris (1997) chapter 1.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from tractable.core.module import HostResult, field
from tractable.core.verdict import Verdict
from tractable.inference.chains.finite_analysis import class_period, communicating_classes

__all__ = ["StateClasses", "classify"]


class StateClasses(HostResult):
    """Classes of states in the order of their first states, with what is known of each."""

    labels: np.ndarray = field(about="the class of each state")
    closed: np.ndarray = field(about="of each class, whether it is never left")
    periods: np.ndarray = field(about="of each class; 0 for a state without a way back")
    names: tuple[Hashable, ...] = field(static=True, show=False)

    @property
    def classes(self) -> list[tuple[Hashable, ...]]:
        """The names of the states of each class."""
        return [self._named(label) for label in range(len(self.closed))]

    @property
    def recurrent_classes(self) -> list[tuple[Hashable, ...]]:
        """The classes that are never left."""
        return [self._named(label) for label in np.flatnonzero(self.closed)]

    @property
    def recurrent(self) -> np.ndarray:
        """Of each state, whether it is come back to with probability one."""
        return self.closed[self.labels]

    @property
    def transient_states(self) -> tuple[Hashable, ...]:
        """The states that are left for good."""
        return tuple(self.names[i] for i in np.flatnonzero(~self.recurrent))

    @property
    def is_irreducible(self) -> bool:
        return len(self.closed) == 1

    @property
    def is_aperiodic(self) -> bool:
        """Whether every closed class has period one."""
        return bool((self.periods[self.closed] == 1).all())

    @property
    def is_ergodic(self) -> bool:
        """Irreducible and aperiodic, which is the same as primitive: some power has no zero."""
        return self.is_irreducible and self.is_aperiodic

    @property
    def verdict(self) -> Verdict:
        """Whether the distribution converges to the same equilibrium from every start."""
        closed, period = int(self.closed.sum()), int(np.lcm.reduce(self.periods[self.closed]))
        transient = int((~self.recurrent).sum())
        numbers = {"closed_classes": closed, "period": period, "transient_states": transient}
        if closed > 1:
            said = f"Not ergodic: {closed} sets of states are never left; where the chain ends depends on"
            return Verdict(False, f"{said} its start.", numbers)
        if period > 1:
            said = f"Periodic ({period}): there is one equilibrium, but the distribution never settles; "
            return Verdict(False, said + "averages over time do.", numbers)
        if transient:
            said = f"One closed class is reached from everywhere ({transient} states are left for good): "
            return Verdict(True, said + "one equilibrium from every start.", numbers)
        return Verdict(True, "Ergodic: one equilibrium, reached from every start.", numbers)

    def _columns(self) -> dict[str, list]:
        kinds = ["recurrent" if closed else "transient" for closed in self.closed]
        listed = [
            ", ".join(map(str, states[:8])) + (" ..." if len(states) > 8 else "") for states in self.classes
        ]
        return {"class": listed, "kind": kinds, "period": self.periods.tolist()}

    def _named(self, label: Any) -> tuple[Hashable, ...]:
        return tuple(self.names[i] for i in np.flatnonzero(self.labels == label))


def classify(transition: Any, names: tuple[Hashable, ...] | None = None) -> StateClasses:
    """The classes of a transition matrix, dense or sparse.

    >>> classify(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), ("a", "b", "c"))
    class       kind  period
    a      transient       1
    b, c   recurrent       2
    Periodic (2): there is one equilibrium, but the distribution never settles; averages over time do.
    """
    matrix: Any = csr_array(transition) if not issparse(transition) else transition
    found = communicating_classes(matrix)
    order = np.argsort(found.labels, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(found.labels))[:-1])
    periods = [
        class_period(matrix[part][:, part]) if len(part) > 1 else int(matrix[part[0], part[0]] > 0)
        for part in parts
    ]
    known = tuple(range(matrix.shape[0])) if names is None else names
    return StateClasses(found.labels, found.closed, np.array(periods), known)
