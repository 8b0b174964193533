r"""The most probable joint state of a factor tree: max-sum messages to a root, then back-tracking.

Messages.    $\mu_{f \to x}(x) = \max_{N(f) \setminus x} [\log f + \sum_{y \ne x} \mu_{y \to f}(y)]$, with the
             pointers $\Phi_{f \to x}(x)$ to the states that reach the maximum.
Maximum.     $\max_x \log \prod f = \max_{x_r} \sum_{f \ni x_r} \mu_{f \to x_r}(x_r)$ at any root $r$; it is
             the logarithm of the unnormalised maximum, from which $\log Z$ is subtracted.
Ties.        Back-tracking gives one consistent maximiser where taking the best state of each variable alone
             may mix two. Of equal values, the first in the order of the states and of each factor's axes.
Cost.        One pass: half of `propagate`.
References.  Bishop (2006) section 8.4.5; Dawid (1992).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, is_concrete
from tractable.core.description import Described
from tractable.distributions.table_axes import Event
from tractable.messages.tree import Factors, TreeBeliefs, propagate

__all__ = ["MostProbable", "most_probable"]


@dataclass(frozen=True, repr=False)
class MostProbable(Described):
    r"""A joint state of largest probability, and the pointers that led to it.

    `pointers[factor, variable]` gives, for each state of the variable, the positions of the best states of
    the factor's other variables.
    """

    _shown = ("assignment", "log_value", "probability")

    assignment: dict[str, Any]
    log_value: float  # of the product of the factors, not normalised
    log_total: float  # log Z, or the log mass of the evidence
    pointers: dict[tuple[str, str], dict[str, np.ndarray]]

    @property
    def probability(self) -> float:
        """The probability of the state, given the evidence."""
        return math.exp(self.log_value - self.log_total)


def most_probable(
    factors: Factors,
    evidence: Event | None = None,
    *,
    likelihoods: Mapping[str, Any] | None = None,
    root: str | None = None,
) -> MostProbable:
    """The joint state of largest probability given the evidence (`ImpossibleEvidence` if none is possible).

    >>> first, second = np.log([[0.3, 0.2], [0.1, 0.4]]), np.log([[0.1, 0.5], [0.2, 0.2]])
    >>> most_probable([(("x1", "x2"), first), (("x2", "x3"), second)])
    MostProbable(assignment={x1: 0, x2: 0, x3: 1}, log_value=-1.89712, probability=0.3125)
    """
    run = propagate(factors, evidence, likelihoods=likelihoods, semiring="max_sum", root=root)
    known = is_concrete(run.total)
    check(known, "factors", "values, not traced ones: the states have names", "a tracer", error=TypeError)
    if not float(run.total) > -np.inf:
        check(False, "evidence", "of positive probability", "P = 0", error=ImpossibleEvidence)
    pointers = {edge: _pointers(run, *edge) for edge in run.plan.towards if edge[0] in run.tables}
    chosen: dict[str, int] = {}
    for start in run.plan.roots:
        if start in run.tables:
            best = np.unravel_index(run.belief(start).argmax(), run.tables[start].log_values.shape)
            chosen.update(zip(run.tables[start].names, map(int, best)))
        else:
            chosen[start] = int(run.belief(start).argmax())
    for factor, variable in reversed([edge for edge in run.plan.towards if edge[0] in run.tables]):
        for name, positions in pointers[factor, variable].items():
            chosen[name] = int(positions[chosen[variable]])
    assignment = {name: run.states[name][chosen[name]] for name in run.states}
    total = propagate(factors, evidence, likelihoods=likelihoods, root=root).total
    return MostProbable(assignment, float(run.total), float(total), pointers)


def _pointers(run: TreeBeliefs, factor: str, variable: str) -> dict[str, np.ndarray]:
    names = run.tables[factor].names
    others = [name for name in names if name != variable]
    axis = names.index(variable)
    product = np.moveaxis(run._factor_product(factor, others), axis, 0)
    best = product.reshape((product.shape[0], -1)).argmax(1)
    return dict(zip(others, np.unravel_index(best, product.shape[1:]))) if others else {}
