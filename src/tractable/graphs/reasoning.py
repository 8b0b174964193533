r"""What moves a belief: prior and posterior by kind of reasoning, and derivatives by the entries of tables.

Kinds.       Causal: from causes to effects. Evidential: from effects to causes. Intercausal: between causes
             of a common effect that is observed (explaining away). Common cause: between its effects.
Derivative.  $P(e)$ is linear in each entry $\theta$ of a table: $\partial P(e)/\partial\theta_{x \mid u}$ is
             the sum of all other factors with $x, u$ fixed, also where $\theta = 0$; for $P(q \mid e)$ by the
             quotient rule. With `covary` the other entries of the row shrink in proportion.
Cost.        Two calibrations per table of derivatives.
References.  Pearl (1988); Koller and Friedman (2009) section 3.2; Chan and Darwiche (2002).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.module import HostResult, field
from tractable.distributions.table_axes import TableAxes
from tractable.graphs.dag import DAG
from tractable.graphs.potentials import Potentials, posterior
from tractable.messages.evidence import Evidence

__all__ = ["Reasoning", "Sensitivity", "reasoning_kinds", "sensitivity"]


@dataclass(frozen=True)
class Reasoning:
    """Beliefs before and after evidence, and the kinds of reasoning that connect each target to it."""

    evidence: dict[str, Any]
    prior: dict[str, dict[Any, float]]
    posterior: dict[str, dict[Any, float]]
    kinds: dict[str, dict[str, str]]  # target, then evidence variable

    def change(self, name: str) -> dict[Any, float]:
        """Posterior minus prior of each state of a target."""
        return {state: self.posterior[name][state] - p for state, p in self.prior[name].items()}

    def __repr__(self) -> str:
        lines = ["evidence: " + ", ".join(f"{name}={value!r}" for name, value in self.evidence.items())]
        for name, states in self.prior.items():
            kinds = ", ".join(f"{kind} (from {source})" for source, kind in self.kinds[name].items())
            lines.append(f"{name}: {kinds}")
            lines += [
                f"  {state}: {p:.6f} -> {self.posterior[name][state]:.6f} ({self.change(name)[state]:+.6f})"
                for state, p in states.items()
            ]
        return "\n".join(lines)


class Sensitivity(HostResult):
    """The probability of an event given evidence, and its derivative by every entry of one table."""

    value: float
    derivatives: np.ndarray  # axes as in the table: the parents, then the variable
    axes: TableAxes = field(static=True)

    def entry(self, **states: Any) -> float:
        """The derivative by the entry at one state of each of the table's variables."""
        named = set(states) == set(self.axes.names)
        check(named, "states", f"one state for each of {self.axes.names}", states)
        return float(
            self.derivatives[tuple(int(self.axes.mask(n, [states[n]]).argmax()) for n in self.axes.names)]
        )


def reasoning_kinds(dag: DAG, target: str, evidence: Mapping[str, Any]) -> dict[str, str]:
    """For each evidence variable, how it speaks of the target, given the rest of the evidence."""
    return {source: _kind(dag, target, source, [n for n in evidence if n != source]) for source in evidence}


def sensitivity(
    potentials: Potentials,
    event: Mapping[str, Any],
    evidence: Mapping[str, Any] | None,
    of: str,
    covary: bool,
) -> Sensitivity:
    r"""$\partial P(\mathrm{event} \mid e) / \partial\theta$ for the table of `of`, the last of its factor."""
    table = next(m for m, scope in enumerate(potentials.scopes) if scope[-1] == potentials.axes.position(of))
    given, both = potentials.read(evidence), potentials.read({**(evidence or {}), **event})
    shared = [name for name in event if name in (evidence or {})]
    check(not shared, "event", "about variables without evidence", shared)
    log_given = posterior(potentials, given).require_possible().log_total
    value = float(np.exp(posterior(potentials, both).log_total - log_given))
    by_given = _derivatives(potentials, given, table, log_given)
    by_both = _derivatives(potentials, both, table, log_given)
    found = by_both - value * by_given
    if covary:
        found = _covaried(found, np.exp(potentials.logs[table]))
    return Sensitivity(value, found, potentials.select(potentials.scopes[table]))


def _derivatives(potentials: Potentials, observed: Evidence, table: int, log_scale: float) -> np.ndarray:
    """The sum of all other factors for each cell of one factor, over a common scale."""
    scope = potentials.scopes[table]
    logs = tuple(np.zeros_like(f) if m == table else f for m, f in enumerate(potentials.logs))
    found = posterior(potentials.with_logs(logs), observed)
    if found.log_total == -np.inf:
        return np.zeros(potentials.logs[table].shape)
    return found.joint(scope) * np.exp(found.log_total - log_scale)


def _covaried(derivatives: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """The derivative when the rest of the row keeps its proportions (equal ones, where it is all zero)."""
    size, rest = probs.shape[-1], 1 - probs
    check(size > 1, "of", "a variable of two or more states, to vary its row", size)
    even = rest <= 0
    along = (derivatives * probs).sum(-1, keepdims=True) - derivatives * probs
    spread = (derivatives.sum(-1, keepdims=True) - derivatives) / (size - 1)
    return derivatives - np.where(even, spread, along / np.where(even, 1.0, rest))


def _kind(dag: DAG, target: str, source: str, others: list[str]) -> str:
    """The kinds of the open trails between two variables, given others that were observed."""
    if target == source:
        return "observed itself"
    if target in others:
        return "none: the target is observed"
    if dag.d_separated(target, source, given=others):
        return "none: d-separated"
    # what flows along arrows alone, when nothing passes through the rest of the evidence
    free = dag.subgraph([name for name in dag.names if name not in others])
    kinds = ["causal"] if source in free.ancestors(target) else []
    kinds += ["evidential"] if target in free.ancestors(source) else []
    roots = _causes(free, target, source) & _causes(free, source, target)
    kinds += ["common cause"] if roots else []
    effects = dag.descendants(target) & dag.descendants(source) & set(others)
    kinds += ["intercausal"] if effects or not kinds else []
    return " and ".join(kinds)


def _causes(dag: DAG, name: str, without: str) -> frozenset[str]:
    """The ancestors of one variable by ways that avoid another."""
    kept = dag.subgraph([each for each in dag.names if each != without])
    return kept.ancestors(name)
