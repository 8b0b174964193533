r"""Variable elimination: sums pushed inside products, for one variable after another, over any semiring.

Identity.    $\sum_{x_v} \prod_f f(x_f) = \prod_{f \not\ni v} f(x_f) \sum_{x_v} \prod_{f \ni v} f(x_f)$;
             each sum leaves a new factor over the neighbours of $x_v$.
Enumeration. The same sum over all assignments at once: the obvious answer that everything else is tested by.
Cost.        The cells of the bags of the order, against $\prod_v K_v$ by brute force; refused above the
             budget before a table is made. In NumPy, or in JAX where the factors are traced.
References.  Zhang and Poole (1994); Dechter (1999), bucket elimination.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tractable.core.checks import check, check_count
from tractable.messages.cost import BUDGET, Budget, TooLarge
from tractable.messages.elimination import elimination_order, index_scopes
from tractable.messages.potentials import multiplied
from tractable.messages.semirings import Semiring, SumProduct, as_semiring

__all__ = ["Eliminated", "eliminate", "enumerate_assignments", "sum_out"]

Name = TypeVar("Name", bound=Hashable)
Factor = tuple[tuple[Name, ...], Any]  # variables, and an array of elements with one axis each
Bucket = tuple[Name, list[Factor[Name]]]


@dataclass(frozen=True)
class Eliminated:
    """The log of the sum over all variables but those kept, and the terms that were added up for it."""

    log_table: np.ndarray
    num_terms: int
    order: tuple[int, ...]

    @property
    def log_total(self) -> float:
        """The log of the sum over all variables: the probability of the evidence of a network."""
        return float(SumProduct().total(self.log_table, tuple(range(self.log_table.ndim))))

    @property
    def probs(self) -> np.ndarray:
        """The distribution of the kept variables given the evidence; NaN if the evidence is impossible."""
        total = self.log_total
        return np.asarray(np.exp(self.log_table - total) if total > -np.inf else self.log_table * np.nan)


def eliminate(
    factors: Iterable[Factor[Name]],
    order: Iterable[Name],
    semiring: str | Semiring = "sum_product",
    budget: Budget = BUDGET,
) -> tuple[list[Factor[Name]], list[Bucket[Name]]]:
    """Sum variables out of a product of factors: what is left, and the factors that met each variable.

    A factor is a pair of variables and an array of elements of the semiring (logs for `sum_product`).

    >>> step = np.log([[0.9, 0.1], [0.3, 0.7]])
    >>> [(scope, table)], buckets = eliminate([(("a", "b"), step), (("b", "c"), step)], ["b"])
    >>> scope, np.exp(table).round(4).tolist()
    (('a', 'c'), [[0.84, 0.16], [0.48, 0.52]])
    """
    chosen, left, buckets = as_semiring(semiring), list(factors), []
    for variable in order:
        held = [factor for factor in left if variable in factor[0]]
        rest = tuple(dict.fromkeys(v for scope, _ in held for v in scope if v != variable))
        left = [factor for factor in left if variable not in factor[0]]
        _check_size(held, budget)
        table = chosen.total(multiplied((*rest, variable), held, chosen), (len(rest),))
        left.append((rest, table if hasattr(table, "shape") else np.asarray(table)))
        buckets.append((variable, held))
    return left, buckets


def sum_out(
    scopes: Sequence[Sequence[int]],
    tables: Sequence[Any],
    sizes: Sequence[int],
    keep: Sequence[int] = (),
    evidence: Mapping[int, int] | None = None,
    order: Iterable[int] | None = None,
    budget: Budget = BUDGET,
) -> Eliminated:
    """Sum all variables but `keep` and `evidence` out of a product of log tables.

    `order` lists the variables to sum out (greedy by default); the axes of the answer follow `keep`.

    >>> step = np.log([[0.9, 0.1], [0.3, 0.7]])
    >>> found = sum_out([(0, 1), (1, 2)], [step, step], [2, 2, 2], keep=[2], evidence={0: 0})
    >>> np.exp(found.log_table).round(4).tolist()
    [0.84, 0.16]
    """
    factors, counts, clamped = _clamped(scopes, tables, sizes, keep, evidence or {})
    free = [v for v in range(counts.size) if v not in clamped and v not in set(keep)]
    if order is None:
        joined = [scope for scope, _ in factors] + [tuple(keep)]
        order = elimination_order(joined, counts.tolist(), keep={*keep, *clamped}).order
    order = tuple(int(v) for v in order)
    check(sorted(order) == free, "order", f"a permutation of the variables to sum out {free}", order)
    factors += [((v,), np.zeros(counts[v])) for v in free if not any(v in scope for scope, _ in factors)]
    left, buckets = eliminate(factors, order, budget=budget)
    terms = [math.prod(int(counts[v]) for v in {v for scope, _ in b for v in scope}) for _, b in buckets]
    return Eliminated(_onto(left, tuple(keep), counts, budget), sum(terms), order)


def enumerate_assignments(
    scopes: Sequence[Sequence[int]],
    tables: Sequence[Any],
    sizes: Sequence[int],
    keep: Sequence[int] = (),
    evidence: Mapping[int, int] | None = None,
) -> Eliminated:
    """The same by brute force: the product over all assignments is stored and summed once."""
    factors, counts, clamped = _clamped(scopes, tables, sizes, keep, evidence or {})
    free = tuple(v for v in range(counts.size) if v not in clamped and v not in set(keep))
    joint = _onto(factors, tuple(keep) + free, counts, BUDGET)
    summed = SumProduct().total(joint, tuple(range(len(keep), joint.ndim)))
    return Eliminated(np.asarray(summed), joint.size, free)


def _clamped(scopes, tables, sizes, keep, evidence) -> tuple[list[Factor[int]], np.ndarray, dict[int, int]]:
    """The factors with the variables of the evidence fixed and gone from them."""
    _, _, counts = index_scopes([*scopes, tuple(keep)], sizes)
    check(len(tables) == len(scopes), "tables", f"one per scope ({len(scopes)})", len(tables))
    clamped = {}
    for v, state in evidence.items():
        check(v in range(counts.size) and v not in keep, "evidence", "on variables that are not kept", v)
        clamped[v] = check_count(f"evidence[{v}]", state, 0, int(counts[v]) - 1)
    factors = []
    for number, (scope, table) in enumerate(zip(scopes, tables)):
        array, shape = np.asarray(table, dtype=float), tuple(int(counts[v]) for v in scope)
        check(array.shape == shape, f"tables[{number}]", f"of shape {shape}", f"shape {array.shape}")
        array = np.asarray(array[tuple(clamped.get(v, slice(None)) for v in scope)])
        factors.append((tuple(v for v in scope if v not in clamped), array))
    return factors, counts, clamped


def _onto(
    factors: list[Factor[int]], axes: tuple[int, ...], counts: np.ndarray, budget: Budget
) -> np.ndarray:
    """The product over all states of `axes`, also of those that no factor holds."""
    every = [*factors, *(((v,), np.zeros(counts[v])) for v in axes)]
    _check_size(every, budget)
    return np.asarray(multiplied(axes, every, SumProduct()))


def _check_size(factors: Sequence[Factor], budget: Budget) -> None:
    """Refuse a product above the budget before it is made."""
    sizes = {v: float(size) for scope, array in factors for v, size in zip(scope, array.shape)}
    num_bytes = 8.0 * math.prod(sizes.values())
    if num_bytes > budget.max_bytes:
        fix = "Keep fewer variables, or sum them out in another order."
        must = f"at least the table of {len(sizes)} variables, {budget.max_bytes:.4g} bytes"
        check(False, "budget", must, f"{num_bytes:.3g} bytes", fix, TooLarge)
