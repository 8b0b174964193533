r"""One marginal or conditional by summing variables out, and by brute force: log tables in, a log table out.

Identity.    $\sum_{x_v} \prod_f f(x_f) = \prod_{f \not\ni v} f(x_f) \sum_{x_v} \prod_{f \ni v} f(x_f)$,
             for one variable after another; each sum leaves a new factor over the neighbours of $x_v$.
Enumeration. The same sum over all assignments at once: the obvious answer that everything else is tested by.
Cost.        The cells of the bags of the order, against $\prod_v K_v$ by brute force.
References.  Zhang and Poole (1994); Dechter (1999), bucket elimination.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.messages.elimination import elimination_order, index_scopes
from tractable.messages.semirings import SumProduct

__all__ = ["Eliminated", "enumerate_assignments", "sum_out"]

MOST_CELLS = 2**27  # a gigabyte
Factor = tuple[tuple[int, ...], np.ndarray]


@dataclass(frozen=True)
class Eliminated:
    """The log of the sum over all variables but those kept, and the terms that were added up for it."""

    log_table: np.ndarray
    num_terms: int
    order: tuple[int, ...]

    @property
    def log_total(self) -> float:
        """The log of the sum over all variables: the probability of the evidence of a network."""
        return float(_log_sum(self.log_table, tuple(range(self.log_table.ndim))))

    @property
    def probs(self) -> np.ndarray:
        """The distribution of the kept variables given the evidence; NaN if the evidence is impossible."""
        total = self.log_total
        return np.asarray(np.exp(self.log_table - total) if total > -np.inf else self.log_table * np.nan)


def sum_out(
    scopes: Sequence[Sequence[int]],
    tables: Sequence[Any],
    sizes: Sequence[int],
    keep: Sequence[int] = (),
    evidence: Mapping[int, int] | None = None,
    order: Iterable[int] | None = None,
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
        order = [v for v in elimination_order(joined, counts.tolist()).order if v in set(free)]
    order = tuple(int(v) for v in order)
    check(sorted(order) == free, "order", f"a permutation of the variables to sum out {free}", order)
    num_terms = 0
    for variable in order:
        held = [factor for factor in factors if variable in factor[0]]
        axes = (*sorted({v for scope, _ in held for v in scope} - {variable}), variable)
        product = _product(held, axes, counts)
        num_terms += product.size
        factors = [factor for factor in factors if variable not in factor[0]]
        factors.append((axes[:-1], _log_sum(product, (len(axes) - 1,))))
    return Eliminated(_product(factors, tuple(keep), counts), num_terms, order)


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
    axes = tuple(keep) + free
    product = _product(factors, axes, counts)
    return Eliminated(_log_sum(product, tuple(range(len(keep), len(axes)))), product.size, free)


def _clamped(scopes, tables, sizes, keep, evidence) -> tuple[list[Factor], np.ndarray, dict[int, int]]:
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


def _product(factors: Sequence[Factor], axes: tuple[int, ...], counts: np.ndarray) -> np.ndarray:
    shape = tuple(int(counts[v]) for v in axes)
    cells = float(np.prod(np.asarray(shape, dtype=float)))
    fix = "Keep fewer variables, or sum them out in another order."
    check(
        cells <= MOST_CELLS, "table", f"of at most {MOST_CELLS} cells", f"{cells:.3g} cells", fix, MemoryError
    )
    total = np.zeros(shape)
    for scope, array in factors:
        ranked = sorted(range(len(scope)), key=lambda k: axes.index(scope[k]))
        held = set(scope)
        aligned = array.transpose(ranked).reshape([int(counts[v]) if v in held else 1 for v in axes])
        total += aligned
    return total


def _log_sum(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The log of the sum of exponentials along axes; a sum of zeros is minus infinity."""
    return np.asarray(SumProduct().total(table, axes))
