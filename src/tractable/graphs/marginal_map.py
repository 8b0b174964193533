r"""Marginal MAP: the best state of some variables with the others summed out first.

Identity.    $\arg\max_{x_A} \sum_{x_B} \prod_m f_m(x_A, x_B, e)$; sums and maxima do not commute, so the sums
             come first, and what they leave over $x_A$ is maximised by a junction tree of its own.
Cost.        Exponential in the width of the best order with all of $B$ before $A$, which may be far above the
             treewidth.
References.  Park and Darwiche (2004), "Complexity results and approximation strategies for MAP explanations".
"""

from collections.abc import Iterable, Sequence

import numpy as np

from tractable.core.checks import ImpossibleEvidence, check
from tractable.graphs.queries import Observed, Potentials
from tractable.messages.junction import TooLarge, junction_tree
from tractable.messages.variable_elimination import sum_out

__all__ = ["marginal_map"]

Factor = tuple[tuple[int, ...], np.ndarray]
_MOST_CELLS = 10**8


def marginal_map(
    potentials: Potentials, observed: Observed, targets: Sequence[int], relevant: Iterable[int]
) -> tuple[dict[int, int], float]:
    """The best state of each target by number, and the logarithm of its probability with the evidence.

    A target that was observed keeps the state of the evidence.
    """
    kept, sizes = set(relevant), potentials.sizes
    factors = [
        _sliced(s, f, observed) for s, f in zip(potentials.scopes, potentials.logs) if kept.issuperset(s)
    ]
    with np.errstate(divide="ignore"):
        factors += [((i,), np.log(likelihood)) for i, likelihood in observed.soft.items()]
    free = [i for i in targets if i not in observed.hard]
    hidden = {i for i in kept if i not in observed.hard and i not in free}
    for _ in range(len(hidden)):
        chosen = min(hidden, key=lambda i: (_cells(_union(i, factors), sizes), i))
        factors = _summed_out(chosen, factors, sizes)
        hidden.remove(chosen)
    constant = sum(float(f) for scope, f in factors if not scope)
    best, value = _maximised(free, [each for each in factors if each[0]], sizes)
    got = f"P({observed.words}) = 0"
    check(value + constant > -np.inf, "evidence", "of positive probability", got, error=ImpossibleEvidence)
    return {i: observed.hard.get(i, best.get(i, 0)) for i in targets}, value + constant


def _maximised(free: list[int], factors: list[Factor], sizes: Sequence[int]) -> tuple[dict[int, int], float]:
    if not free:
        return {}, 0.0
    place = {variable: i for i, variable in enumerate(free)}
    scopes = tuple(tuple(place[i] for i in scope) for scope, _ in factors)
    tree = junction_tree(scopes, tuple(sizes[i] for i in free))
    places, value = tree.calibrate(tuple(f for _, f in factors), {}).most_probable()
    return {variable: int(places[i]) for i, variable in enumerate(free)}, float(value)


def _sliced(scope: tuple[int, ...], logs: np.ndarray, observed: Observed) -> Factor:
    at = tuple(observed.hard.get(i, slice(None)) for i in scope)
    return tuple(i for i in scope if i not in observed.hard), np.asarray(logs[at])


def _union(variable: int, factors: list[Factor]) -> tuple[int, ...]:
    """All variables that share a factor with one, itself last."""
    others = {i for scope, _ in factors if variable in scope for i in scope if i != variable}
    return (*sorted(others), variable)


def _cells(scope: Sequence[int], sizes: Sequence[int]) -> float:
    return float(np.prod([float(sizes[i]) for i in scope]))


def _summed_out(variable: int, factors: list[Factor], sizes: Sequence[int]) -> list[Factor]:
    """The factors with one variable summed out of the product of those that touch it."""
    scope = _union(variable, factors)
    cells = _cells(scope, sizes)
    fix = "Observe more variables, or ask for the best state of fewer, or for `mpe`."
    check(
        cells <= _MOST_CELLS,
        "names",
        "within reach of exact sums",
        f"a table of {cells:.3g} cells",
        fix,
        TooLarge,
    )
    place = {each: i for i, each in enumerate(scope)}
    touching = [([place[i] for i in own], logs) for own, logs in factors if variable in own]
    local, keep = [sizes[i] for i in scope], range(len(scope) - 1)
    left = sum_out([own for own, _ in touching], [logs for _, logs in touching], local, keep)
    return [each for each in factors if variable not in each[0]] + [(scope[:-1], left.log_table)]
