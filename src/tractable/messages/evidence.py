r"""What was observed: the one reader of evidence, from names and states to numbers.

Evidence.    Maps names to a state, a set or list of states, a predicate of one state, or a likelihood: a
             mapping from states to numbers (zero where not named), or an array with one number per state.
Meaning.     A state clamps its variable; everything else multiplies the product of factors by
             $\lambda(x_i) \ge 0$, a set of states by its indicator.
Cost.        Linear in the states of the variables that were observed.
References.  Pearl (1988) section 2.2, virtual evidence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check
from tractable.distributions.table_axes import TableAxes

__all__ = ["Evidence", "read_evidence"]


@dataclass(frozen=True)
class Evidence:
    """Evidence by number of the variable: the place of its state, or one likelihood per state."""

    hard: dict[int, int]
    soft: dict[int, np.ndarray]
    words: str = ""

    @property
    def variables(self) -> set[int]:
        """The variables that something is known of."""
        return {*self.hard, *self.soft}

    @property
    def by_variable(self) -> dict[int, Any]:
        """The place or the likelihood of each of these variables."""
        return {**self.soft, **self.hard}

    @property
    def log_factors(self) -> list[tuple[tuple[int, ...], np.ndarray]]:
        """What is not a state, as factors of one variable each: scopes and logarithms."""
        with np.errstate(divide="ignore"):
            return [((i,), np.log(likelihood)) for i, likelihood in self.soft.items()]

    def restricted(self, allowed: Mapping[int, np.ndarray]) -> "Evidence":
        """With a likelihood more for some variables."""
        more = {i: self.soft.get(i, 1.0) * np.asarray(mask, float) for i, mask in allowed.items()}
        return Evidence(self.hard, {**self.soft, **more}, self.words)

    def require_possible(self, log_total: float) -> None:
        """Raise `ImpossibleEvidence` that names the evidence where its log-probability is minus infinity."""
        got, fix = f"P({self.words}) = 0", "No joint state of the network agrees with it."
        check(log_total > -np.inf, "evidence", "of positive probability", got, fix, ImpossibleEvidence)


def read_evidence(axes: TableAxes, evidence: Mapping[str, Any] | None) -> Evidence:
    """Evidence about the variables of `axes`; unknown names and states are errors that list the known ones.

    >>> axes = TableAxes(("sky", "wind"), (("clear", "rain"), (0, 1, 2)))
    >>> read_evidence(axes, {"sky": "rain", "wind": {0, 1}})
    Evidence(hard={0: 1}, soft={1: array([1., 1., 0.])}, words="sky='rain', wind={0, 1}")
    """
    hard: dict[int, int] = {}
    soft: dict[int, np.ndarray] = {}
    words = []
    known, fix = evidence is None or isinstance(evidence, Mapping), 'Write `{"rain": "yes"}`.'
    check(known, "evidence", "a mapping from names to states", repr(evidence), fix, TypeError)
    for name, value in (evidence or {}).items():
        i = axes.place.get(name) if isinstance(name, str) else None
        if i is None:
            check(False, "variable", f"one of {', '.join(axes.names)}", repr(name))
            continue
        if _is_likelihood(value):
            soft[i] = _likelihood(name, axes.states[i], value)
            words.append(f"likelihood of {name}")
            continue
        mask = axes.mask(name, value)
        if mask.sum() == 1:
            hard[i] = int(mask.argmax())
        else:
            soft[i] = mask.astype(float)
        words.append(f"{name}={value!r}")
    return Evidence(hard, soft, ", ".join(words))


def _is_likelihood(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, np.ndarray | jax.Array) and np.ndim(value) > 0)


def _likelihood(name: str, states: tuple[Any, ...], value: Any) -> np.ndarray:
    if isinstance(value, Mapping):
        unknown = [state for state in value if state not in states]
        check(not unknown, name, f"a likelihood over its states {states}", f"the states {unknown}")
        value = [value.get(state, 0.0) for state in states]
    likelihood = np.asarray(value, float)
    must = f"a likelihood of {len(states)} numbers, one per state {states}"
    check(likelihood.shape == (len(states),), name, must, f"shape {likelihood.shape}")
    ok = bool((np.isfinite(likelihood) & (likelihood >= 0)).all())
    check(ok, name, "a likelihood of finite numbers, zero or positive", likelihood.tolist())
    return likelihood
