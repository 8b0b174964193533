r"""Exact queries of discrete networks: evidence by name, a plan per pattern of evidence, one calibration.

Identity.    $P(x \mid e) = P(x, e) / P(e)$ with $P(x, e) = \sum_z \prod_m f_m(x, z, e)$: hard evidence slices
             the factors, likelihoods multiply them, and a junction tree sums out the rest.
Pruning.     $\sum_{x_i} P(x_i \mid pa(i)) = 1$: a variable that is no ancestor of targets or evidence drops
             out.
Cost.        Planning once per pattern of evidence; then linear in the cells of the cliques.
References.  Lauritzen and Spiegelhalter (1988); Shachter (1986), barren nodes; Lawler (1972), k best.
"""

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import jax
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check
from tractable.distributions.table_axes import TableAxes
from tractable.messages.cost import Budget
from tractable.messages.junction import JunctionTree, junction_tree

__all__ = [
    "Cost", "Observed", "Posterior", "Potentials", "k_best", "posterior", "predict_cost", "read_evidence",
]  # fmt: skip

# Below this predicted time all variables are kept: a plan of its own would take longer than it saves.
_CHEAP_SECONDS = 0.02


@dataclass(frozen=True)
class Potentials:
    """A product of factors over numbered variables: what the engine of exact inference works on."""

    names: tuple[str, ...]
    states: tuple[tuple[Any, ...], ...]
    scopes: tuple[tuple[int, ...], ...]
    logs: tuple[np.ndarray, ...]
    printed: Mapping[int, np.ndarray] = field(default_factory=dict)  # tables with rounded rows, as given

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of states of each variable."""
        return tuple(map(len, self.states))

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of the factors; networks of the same structure share it."""
        return _tree(self.scopes, self.sizes)

    @cached_property
    def loaded(self) -> Any:
        """The factors as the tree takes them, laid out once."""
        return self.tree.load(self.logs)

    @cached_property
    def place(self) -> dict[str, int]:
        """The number of each variable."""
        return {name: i for i, name in enumerate(self.names)}

    def index(self, name: Any) -> int:
        """The number of a variable; the error for an unknown one lists those that are known."""
        if not isinstance(name, str) or name not in self.place:
            check(False, "variable", f"one of {', '.join(self.names)}", repr(name))
        return self.place[name]

    def numbers(self, names: str | Iterable[str]) -> tuple[int, ...]:
        """The numbers of distinct variables."""
        chosen = (names,) if isinstance(names, str) else tuple(names)
        found = tuple(self.index(name) for name in chosen)
        check(len(set(found)) == len(found), "names", "distinct", chosen)
        return found

    def axes(self, variables: Sequence[int]) -> TableAxes:
        """The names and states of some variables as the axes of a table."""
        return TableAxes(tuple(self.names[i] for i in variables), tuple(self.states[i] for i in variables))

    def is_above(self, i: int, variables: Iterable[int]) -> bool:
        """Whether variable `i` is one of the variables or an ancestor of one (scopes end with the child)."""
        below, pending = set(), [i]
        while pending:
            below.add(pending[0])
            children = [scope[-1] for scope in self.scopes if pending[0] in scope[:-1]]
            pending = [*pending[1:], *(child for child in children if child not in below)]
        return not below.isdisjoint(variables)

    def restricted(self, kept: Sequence[int]) -> "Potentials":
        """The factors of some variables alone, numbered anew."""
        place = {variable: i for i, variable in enumerate(kept)}
        chosen = [m for m, scope in enumerate(self.scopes) if all(i in place for i in scope)]
        scopes = tuple(tuple(place[i] for i in self.scopes[m]) for m in chosen)
        axes = self.axes(kept)
        return Potentials(axes.names, axes.states, scopes, tuple(self.logs[m] for m in chosen))


@dataclass(frozen=True)
class Observed:
    """Evidence by number: one state, or one likelihood per state."""

    hard: dict[int, int]
    soft: dict[int, np.ndarray]
    words: str

    @property
    def variables(self) -> set[int]:
        return {*self.hard, *self.soft}


@dataclass(frozen=True)
class Cost:
    """What an exact answer is predicted to need."""

    seconds: float
    bytes: float
    treewidth: int
    cells: float

    def fits(self, max_bytes: float | int, max_seconds: float | int) -> bool:
        """Whether the prediction is within a budget."""
        return self.bytes <= max_bytes and self.seconds <= max_seconds

    def __repr__(self) -> str:
        return (
            f"Cost(treewidth {self.treewidth}, {self.cells:.4g} cells, {_bytes(self.bytes)}, "
            f"about {self.seconds:.2g} s)"
        )


class Posterior:
    """The variables of a product of factors given evidence, after calibration."""

    errors: Mapping[int, np.ndarray] = {}  # exact: none

    def __init__(self, potentials: Potentials, observed: Observed, kept: Sequence[int] | None):
        """`kept` are the variables that matter; None for all."""
        part, self._number = _part(potentials, kept)
        self.potentials, self.observed = potentials, observed
        evidence = {self._at(i): value for i, value in {**observed.soft, **observed.hard}.items()}
        self.calibrated = part.tree.calibrate(
            part.loaded, evidence, Budget(np.inf, np.inf)
        )  # the cost was judged before
        self.log_total = float(self.calibrated.log_total)

    def require_possible(self) -> "Posterior":
        """This posterior, or `ImpossibleEvidence` that names the evidence."""
        if self.log_total == -np.inf:
            got = f"P({self.observed.words}) = 0"
            fix = "No joint state of the network agrees with it."
            check(False, "evidence", "of positive probability", got, fix, ImpossibleEvidence)
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


def read_evidence(potentials: Potentials, evidence: Mapping[str, Any] | None) -> Observed:
    """Evidence as numbers; unknown names and states are errors that list the known ones."""
    hard: dict[int, int] = {}
    soft: dict[int, np.ndarray] = {}
    words = []
    for name, value in (evidence or {}).items():
        i = potentials.index(name)
        found = _reading(potentials, i, value)
        if isinstance(found, int):
            hard[i] = found
            words.append(f"{name}={value!r}")
        else:
            soft[i] = found
            words.append(f"likelihood of {name}" if _is_likelihood(value) else f"{name}={value!r}")
    return Observed(hard, soft, ", ".join(words))


def posterior(potentials: Potentials, observed: Observed, relevant: Iterable[int] | None = None) -> Posterior:
    """The calibrated posterior; with `relevant`, of these variables and the evidence at least.

    Only an ancestral set may be named `relevant`: then the factors left out sum to one.
    """
    return Posterior(potentials, observed, _kept(potentials, relevant))


def predict_cost(potentials: Potentials, observed: Observed, relevant: Iterable[int] | None = None) -> Cost:
    """The predicted cost of `posterior` with the same arguments."""
    kept = _kept(potentials, relevant)
    part, number = _part(potentials, kept)
    found = part.tree.cost(i if number is None else number[i] for i in observed.hard)
    return Cost(found.predicted_seconds, found.predicted_bytes, found.treewidth, found.num_cells)


def k_best(potentials: Potentials, observed: Observed, count: int) -> list[tuple[dict[int, int], float]]:
    r"""The `count` most probable joint states given evidence, best first, with $\log P(x, e)$.

    The rest of a set of joint states after its best $x$ is split by the first variable that differs from $x$,
    and each part is searched by itself.
    """
    ties = itertools.count()

    def search(allowed: dict[int, np.ndarray]) -> tuple[float, int, dict[int, int], dict[int, np.ndarray]]:
        found = posterior(potentials, _restrict(observed, allowed))
        best, value = found.most_probable() if found.log_total > -np.inf else ({}, -np.inf)
        return -value, next(ties), best, allowed

    heap, answers = [search({})], []
    while heap and len(answers) < count:
        negative, _, best, allowed = heapq.heappop(heap)
        if negative == np.inf:
            break
        answers.append((best, -negative))
        if len(answers) < count:
            for part in _split(potentials, observed, best, allowed):
                heapq.heappush(heap, search(part))
    return answers


def _restrict(observed: Observed, allowed: dict[int, np.ndarray]) -> Observed:
    soft = dict(observed.soft)
    for i, mask in allowed.items():
        soft[i] = soft.get(i, np.ones(mask.size)) * mask
    return Observed(observed.hard, soft, observed.words)


def _split(potentials, observed, best, allowed) -> Iterable[dict[int, np.ndarray]]:
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


def _reading(potentials: Potentials, i: int, value: Any) -> int | np.ndarray:
    """One state by its place, or a likelihood."""
    name, states = potentials.names[i], potentials.states[i]
    if _is_likelihood(value):
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
    mask = potentials.axes([i]).mask(name, value)
    return int(mask.argmax()) if mask.sum() == 1 else mask.astype(float)


def _is_likelihood(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, np.ndarray | jax.Array) and np.ndim(value) > 0)


def _kept(potentials: Potentials, relevant: Iterable[int] | None) -> tuple[int, ...] | None:
    """The variables to keep; all of them where that is cheap, so that one plan serves every query."""
    if relevant is None or potentials.tree.order.cost.predicted_seconds <= _CHEAP_SECONDS:
        return None
    return tuple(sorted(relevant))


def _part(potentials: Potentials, kept: Sequence[int] | None) -> tuple[Potentials, dict[int, int] | None]:
    if kept is None:
        return potentials, None
    return potentials.restricted(kept), {variable: i for i, variable in enumerate(kept)}


@lru_cache(maxsize=64)
def _tree(scopes: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]) -> JunctionTree:
    return junction_tree(scopes, sizes)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} B"
