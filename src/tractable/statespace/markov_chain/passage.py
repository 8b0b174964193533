r"""First passages: when a set of states is reached, whether at all, and where transient states end.

Times.       $h_i = 0$ on the target, else $h_i = 1 + \sum_jP_{ij}h_j$; infinite where the target can be
             missed for good.
Ends.        $b_{ik} = P(\text{the chain ends in closed class } k \mid x_0 = i) = \sum_{j \in k}P_{ij} +
             \sum_{j\ \mathrm{transient}}P_{ij}b_{jk}$; the fundamental matrix $(I - Q)^{-1}$ counts visits.
Numbers.     By elimination without subtractions: right to all digits even where a way out has probability
             $10^{-300}$. Sparse chains of many states by a sparse factorisation.
Cost.        $O(m^3)$ for $m$ states outside the target.
References.  Norris (1997) section 1.3; Kemeny and Snell (1960).
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.sparse.csgraph import breadth_first_order

from tractable.core.checks import check
from tractable.core.module import HostResult, field
from tractable.inference.chains.finite_analysis import communicating_classes, eliminate

if TYPE_CHECKING:
    from tractable.statespace.markov_chain.chain import MarkovChain

__all__ = ["Absorption", "absorption", "hitting_probabilities", "hitting_times"]

_DENSE = 4000


class Absorption(HostResult):
    """Where transient states end: one row per transient state, one column per closed class."""

    probabilities: np.ndarray
    times: np.ndarray = field(about="expected steps until a closed class is entered")
    states: tuple[Hashable, ...] = field(static=True)
    classes: tuple[tuple[Hashable, ...], ...] = field(static=True)

    def _columns(self) -> dict[str, list]:
        heads = [
            ", ".join(map(str, names[:4])) + (" ..." if len(names) > 4 else "") for names in self.classes
        ]
        ends = {f"ends in {head}": column.tolist() for head, column in zip(heads, self.probabilities.T)}
        return {"from": [str(state) for state in self.states], **ends, "steps": self.times.tolist()}


def hitting_times(chain: "MarkovChain", target: Any) -> np.ndarray:
    """Expected steps from each state to the target: a state by name or number, or a list of them."""
    wanted = _marked(chain, target)
    surely = _reaches(chain, ~_reaches(chain, wanted, through=~wanted), through=~wanted)
    times = np.where(wanted, 0.0, np.inf)
    inside = np.flatnonzero(~wanted & ~surely)  # from here the target cannot be missed
    if len(inside):
        times[inside] = _passages(chain.transition, inside, np.ones((len(inside), 1)))[:, 0]
    return times


def hitting_probabilities(chain: "MarkovChain", target: Any) -> np.ndarray:
    """The probability from each state that the target is ever reached; one on the target itself."""
    wanted = _marked(chain, target)
    able = _reaches(chain, wanted) & ~wanted
    found = wanted.astype(float)
    inside = np.flatnonzero(able)
    if len(inside):
        gains = _into(chain.transition, inside, [np.flatnonzero(wanted)])
        found[inside] = np.minimum(_passages(chain.transition, inside, gains)[:, 0], 1.0)
    return found


def absorption(chain: "MarkovChain") -> Absorption:
    """Probabilities of ending in each closed class from each transient state, and the expected time."""
    found = communicating_classes(chain.transition)
    closed = found.closed_members
    inside = np.flatnonzero(~found.closed[found.labels])
    names = tuple(range(chain.num_states)) if chain.names is None else chain.names
    classes = tuple(tuple(names[i] for i in states) for states in closed)
    if not len(inside):
        return Absorption(np.zeros((0, len(closed))), np.zeros(0), (), classes)
    gains = np.column_stack([_into(chain.transition, inside, closed), np.ones(len(inside))])
    sums = _passages(chain.transition, inside, gains)
    shares = sums[:, :-1] / sums[:, :-1].sum(1, keepdims=True)
    return Absorption(shares, sums[:, -1], tuple(names[i] for i in inside), classes)


def _passages(transition: Any, inside: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """Expected sums of `gains` until the states `inside` are left."""
    if issparse(transition) and len(inside) > _DENSE:
        from scipy.sparse import eye_array
        from scipy.sparse.linalg import splu

        inner = transition[inside][:, inside]
        return splu((eye_array(len(inside)) - inner).tocsc()).solve(gains)
    rows = transition[inside].toarray() if issparse(transition) else np.asarray(transition)[inside]
    lumped = np.zeros((len(inside) + 1,) * 2)
    lumped[1:, 1:] = rows[:, inside]
    lumped[1:, 0] = np.delete(rows, inside, 1).sum(1)
    return eliminate(lumped).passages(gains)


def _into(transition: Any, inside: np.ndarray, sets: list[np.ndarray]) -> np.ndarray:
    """The probability of one step from each state `inside` into each set."""
    marks = np.zeros((transition.shape[0], len(sets)))
    for k, states in enumerate(sets):
        marks[states, k] = 1.0
    return np.asarray(transition[inside] @ marks)


def _reaches(chain: "MarkovChain", target: np.ndarray, through: np.ndarray | None = None) -> np.ndarray:
    """Which states can come to a marked one, by states `through` which a way may lead on."""
    size, goal = chain.num_states, chain.num_states
    back = csr_array(chain.transition).T.tocoo()
    kept = np.ones(len(back.row), bool) if through is None else through[back.col]
    marked = np.flatnonzero(target)
    rows = np.concatenate([back.row[kept], np.full(len(marked), goal)])
    columns = np.concatenate([back.col[kept], marked])
    graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(size + 1, size + 1))
    found = np.zeros(size + 1, bool)
    found[breadth_first_order(graph, goal, return_predecessors=False)] = True
    return found[:size]


def _marked(chain: "MarkovChain", target: Any) -> np.ndarray:
    single = isinstance(target, str) or np.ndim(target) == 0
    states = [chain.index(each) for each in ([target] if single else list(target))]
    check(len(states) > 0, "target", "at least one state", "none")
    marks = np.zeros(chain.num_states, bool)
    marks[states] = True
    return marks
