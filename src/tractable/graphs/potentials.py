r"""A product of tables over named variables for the engine of exact inference: evidence in, posterior out.

Identity.    $P(x \mid e) = P(x, e) / P(e)$ with $P(x, e) = \sum_z \prod_m f_m(x, z, e)$: hard evidence slices
             the factors, likelihoods multiply them, and a junction tree sums out the rest.
Pruning.     $\sum_{x_i} P(x_i \mid pa(i)) = 1$: a variable that is no ancestor of targets or evidence drops
             out.
MAP.         $\arg\max_{x_A} \sum_{x_B} \prod_m f_m(x_A, x_B, e)$: sums and maxima do not commute, so the sums
             come first; what they leave over $x_A$ is maximised by a junction tree of its own.
Cost.        Planning once per pattern of evidence; then linear in the cells of the cliques. MAP: the width of
             the best order with all of $B$ before $A$, which may be far above the treewidth.
References.  Lauritzen and Spiegelhalter (1988); Shachter (1986), barren nodes; Lawler (1972), k best; Park
             and Darwiche (2004), MAP.
"""

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.distributions.table_axes import TableAxes, as_names
from tractable.messages.cost import BUDGET, Budget, Cost, require_fit
from tractable.messages.elimination import elimination_order
from tractable.messages.evidence import Evidence, read_evidence
from tractable.messages.junction import JunctionTree, junction_tree
from tractable.messages.variable_elimination import eliminate

__all__ = ["Posterior", "Potentials", "k_best", "marginal_map", "posterior", "predict_cost"]

# Below this predicted time all variables are kept: a plan of its own would take longer than it saves.
_CHEAP_SECONDS = 0.02
_MOST_PARTS = 32
_FEWER = "Observe more variables, or ask for the best state of fewer, or for `mpe`."
_NO_LIMIT = Budget(np.inf, np.inf)  # callers judge the cost before


@dataclass(frozen=True)
class Potentials:
    """A product of factors over the variables of `axes`, numbered in their order."""

    axes: TableAxes
    scopes: tuple[tuple[int, ...], ...]
    logs: tuple[np.ndarray, ...]
    printed: Mapping[int, np.ndarray] = field(default_factory=dict)  # tables with rounded rows, as given

    @property
    def names(self) -> tuple[str, ...]:
        return self.axes.names

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of states of each variable."""
        return self.axes.shape

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of the factors."""
        return junction_tree(self.scopes, self.sizes)

    @cached_property
    def loaded(self) -> Any:
        """The factors as the tree takes them, laid out once."""
        return self.tree.load(self.logs)

    @cached_property
    def steps(self) -> list[tuple[tuple[int, ...], tuple[int, ...], np.ndarray]]:
        """Conditional tables as steps of forward sampling: scopes hold the parents, then the child."""
        return [(scope[:-1], scope[-1:], np.exp(logs)) for scope, logs in zip(self.scopes, self.logs)]

    def read(self, evidence: Mapping[str, Any] | None) -> Evidence:
        """Evidence by number."""
        return read_evidence(self.axes, evidence)

    def numbers(self, names: str | Iterable[str]) -> tuple[int, ...]:
        """The numbers of distinct variables."""
        chosen = as_names(names)
        unknown = [name for name in chosen if name not in self.axes.place]
        check(not unknown, "variable", f"one of {', '.join(self.names)}", ", ".join(map(repr, unknown)))
        return tuple(self.axes.place[name] for name in chosen)

    def select(self, variables: Sequence[int]) -> TableAxes:
        """The names and states of some variables as the axes of a table."""
        return TableAxes(
            tuple(self.names[i] for i in variables), tuple(self.axes.states[i] for i in variables)
        )

    def is_above(self, i: int, variables: Iterable[int]) -> bool:
        """Whether variable `i` is one of the variables or an ancestor of one (scopes end with the child)."""
        below, pending = set(), [i]
        while pending:
            below.add(pending[0])
            children = [scope[-1] for scope in self.scopes if pending[0] in scope[:-1]]
            pending = [*pending[1:], *(child for child in children if child not in below)]
        return not below.isdisjoint(variables)

    def with_logs(self, logs: Sequence[np.ndarray]) -> "Potentials":
        """Other numbers in the same factors; they share the tree."""
        found = replace(self, logs=tuple(logs))
        found.__dict__["tree"] = self.tree
        return found

    @cached_property
    def _parts(self) -> dict[tuple[int, ...], "Potentials"]:
        return {}

    def restricted(self, kept: tuple[int, ...]) -> "Potentials":
        """The factors of some variables alone, numbered anew; the last few are kept with their trees."""
        if kept not in self._parts:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.pop(next(iter(self._parts)))
            self._parts[kept] = self._restricted(kept)
        return self._parts[kept]

    def _restricted(self, kept: tuple[int, ...]) -> "Potentials":
        place = {variable: i for i, variable in enumerate(kept)}
        chosen = [m for m, scope in enumerate(self.scopes) if all(i in place for i in scope)]
        scopes = tuple(tuple(place[i] for i in self.scopes[m]) for m in chosen)
        return Potentials(self.select(kept), scopes, tuple(self.logs[m] for m in chosen))


class Posterior:
    """The variables of a product of factors given evidence, after calibration."""

    errors: Mapping[int, np.ndarray] = {}  # exact: none

    def __init__(self, potentials: Potentials, observed: Evidence, kept: tuple[int, ...] | None):
        """`kept` are the variables that matter; None for all."""
        part, self._number = _part(potentials, kept)
        self.potentials, self.observed = potentials, observed
        evidence = {self._at(i): value for i, value in observed.by_variable.items()}
        self.calibrated = part.tree.calibrate(part.loaded, evidence, _NO_LIMIT)
        self.log_total = float(self.calibrated.log_total)

    def require_possible(self) -> "Posterior":
        """This posterior, or `ImpossibleEvidence` that names the evidence."""
        self.observed.require_possible(self.log_total)
        return self

    def marginals(self, variables: Iterable[int]) -> dict[int, np.ndarray]:
        r"""$P(x_i \mid e)$ for each of the variables."""
        every = self.calibrated.marginals()
        return {i: self._as_printed(i) if self._is_rounded(i) else every[self._at(i)] for i in variables}

    def joint(self, variables: Sequence[int]) -> np.ndarray:
        r"""$P(x_A \mid e)$, one axis per variable in their order."""
        if len(variables) == 1 and self._is_rounded(variables[0]):
            return self._as_printed(variables[0])
        return self.calibrated.joint([self._at(i) for i in variables])

    def most_probable(self) -> tuple[dict[int, int], float]:
        r"""$\arg\max_x P(x, e)$ over all variables, and its logarithm."""
        places, value = self.calibrated.most_probable()
        return dict(enumerate(places.tolist())), float(value)

    def sample(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Independent draws of all variables, one row per draw."""
        return self.calibrated.sample(generator, count)

    def _is_rounded(self, i: int) -> bool:
        """Whether the rows of the variable are rounded, and nothing was observed that depends on it."""
        potentials = self.potentials
        return i in potentials.printed and not potentials.is_above(i, self.observed.variables)

    def _as_printed(self, i: int) -> np.ndarray:
        r"""$P(x_i \mid e) \propto \sum_{pa} P(pa \mid e)\,t(x_i \mid pa)$ with the rows $t$ as given.

        The sum is divided once, at the end: three thirds of seven digits stay what they are.
        """
        table = self.potentials.printed[i]
        parents = next(scope[:-1] for scope in self.potentials.scopes if scope[-1] == i)
        weights = self.joint(parents) if parents else np.ones(())
        cells = (weights[..., None] * table).reshape(-1, table.shape[-1]).sum(0)
        return cells / cells.sum()

    def _at(self, i: int) -> int:
        return i if self._number is None else self._number[i]


def posterior(potentials: Potentials, observed: Evidence, relevant: Iterable[int] | None = None) -> Posterior:
    """The calibrated posterior; with `relevant`, of these variables and the evidence at least.

    Only an ancestral set may be named `relevant`: then the factors left out sum to one.
    """
    return Posterior(potentials, observed, _kept(potentials, relevant))


def predict_cost(potentials: Potentials, observed: Evidence, relevant: Iterable[int] | None = None) -> Cost:
    """The predicted cost of `posterior` with the same arguments."""
    part, number = _part(potentials, _kept(potentials, relevant))
    return part.tree.cost(i if number is None else number[i] for i in observed.hard)


def k_best(potentials: Potentials, observed: Evidence, num_best: int) -> list[tuple[dict[int, int], float]]:
    r"""The `num_best` most probable joint states given evidence, best first, with $\log P(x, e)$.

    The rest of a set of joint states after its best $x$ is split by the first variable that differs from $x$,
    and each part is searched by itself.
    """
    ties = itertools.count()

    def search(allowed: dict[int, np.ndarray]) -> tuple[float, int, dict[int, int], dict[int, np.ndarray]]:
        found = posterior(potentials, observed.restricted(allowed))
        best, value = found.most_probable() if found.log_total > -np.inf else ({}, -np.inf)
        return -value, next(ties), best, allowed

    heap, answers = [search({})], []
    while heap and len(answers) < num_best:
        negative, _, best, allowed = heapq.heappop(heap)
        if negative == np.inf:
            break
        answers.append((best, -negative))
        if len(answers) < num_best:
            for part in _split(potentials, observed, best, allowed):
                heapq.heappush(heap, search(part))
    return answers


def marginal_map(
    potentials: Potentials, observed: Evidence, targets: Sequence[int], relevant: Iterable[int] | None
) -> tuple[dict[int, int], float]:
    """The best state of each target by number, and the logarithm of its probability with the evidence.

    A target that was observed keeps the state of the evidence.
    """
    hard, sizes = observed.hard, potentials.sizes
    kept = set(range(len(sizes)) if relevant is None else relevant)
    factors = observed.log_factors
    for scope, logs in zip(potentials.scopes, potentials.logs):
        if kept.issuperset(scope):
            at = tuple(hard.get(i, slice(None)) for i in scope)
            factors.append((tuple(i for i in scope if i not in hard), np.asarray(logs[at])))
    free = [i for i in targets if i not in hard]
    hidden = kept.difference(free, hard)
    plan = elimination_order([scope for scope, _ in factors], sizes, "min_weight", keep=free)
    require_fit(plan.cost, BUDGET, _FEWER)
    left, _ = eliminate(factors, [i for i in plan.order if i in hidden])
    value = sum(float(logs) for scope, logs in left if not scope)
    best: dict[int, int] = {}
    if free:
        place = {variable: i for i, variable in enumerate(free)}
        parts = [(tuple(place[i] for i in scope), logs) for scope, logs in left if scope]
        tree = junction_tree([scope for scope, _ in parts], [sizes[i] for i in free])
        places, top = tree.calibrate([logs for _, logs in parts]).most_probable()
        best, value = dict(zip(free, places.tolist())), value + float(top)
    observed.require_possible(value)
    return {i: hard[i] if i in hard else best[i] for i in targets}, value


def _split(
    potentials: Potentials, observed: Evidence, best: dict[int, int], allowed: dict[int, np.ndarray]
) -> Iterable[dict[int, np.ndarray]]:
    """Sets of joint states that together are `allowed` without `best`."""
    fixed = dict(allowed)
    for i, size in enumerate(potentials.sizes):
        if i in observed.hard:
            continue
        mask = fixed.get(i, np.ones(size))
        own = (np.arange(size) == best[i]).astype(float)
        if (mask * (1 - own)).any():
            yield {**fixed, i: mask * (1 - own)}
        fixed[i] = own


def _kept(potentials: Potentials, relevant: Iterable[int] | None) -> tuple[int, ...] | None:
    """The variables to keep; all of them where that is cheap, so that one plan serves every query."""
    if relevant is None or potentials.tree.order.cost.predicted_seconds <= _CHEAP_SECONDS:
        return None
    return tuple(sorted(relevant))


def _part(potentials: Potentials, kept: tuple[int, ...] | None) -> tuple[Potentials, dict[int, int] | None]:
    if kept is None:
        return potentials, None
    return potentials.restricted(kept), {variable: i for i, variable in enumerate(kept)}
