r"""Plans of sparse Gaussians: for the pattern of $J$, where each number of $\Lambda = J^\top J$ goes.

Places.      The variables stand in banks of chains of blocks, one bank after another, then the border; what
             only fills a shape has a one on the diagonal.
Storage.     "Inner": of each bank the blocks on the diagonal and below it. "Outer": a row for each place, a
             column for each variable of the border; its last rows are the border's own block.
Assembly.    By pairs: two entries of a row of $J$ add their product to one number of the storage. Or, where
             the border fills its rows, by a matrix product for all that concerns the border.
Cost.        Linear in the pairs. All indices are arrays of the plan and only shapes are fixed: a new pattern
             of the same shapes runs the same program.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Int
from tractable.messages.cost import BUDGET, Budget, TooLarge
from tractable.messages.gaussian_field_cost import Bank, bank_seconds, border_seconds
from tractable.messages.gaussian_field_layout import Layout, lay_out, rounded

__all__ = ["FieldPlan", "plan_field"]

Indices = Int[Array, "..."] | Int[np.ndarray, "..."]

_PAIR, _ROW, _FLOP = 1e-8, 3e-9, 2e-10  # seconds


class FieldPlan(Module):
    """How a sparse Gaussian of one pattern is computed; made by `plan_field`."""

    rows: Indices  # of each entry of J
    cols: Indices
    place: Indices  # of each variable
    variable: Indices  # of each place; `dim` where it only fills a shape
    left: Indices  # pairs of entries, padded with an entry that is zero
    right: Indices
    target: Indices
    inside: Indices  # entries outside the border, for assembly by a product
    at_border: Indices  # (rows, border): the entry there
    shape: tuple[int, int] = field(static=True)
    banks: tuple[Bank, ...] = field(static=True)
    border: int = field(static=True)
    by_product: bool = field(static=True)

    @property
    def dim(self) -> int:
        return self.shape[1]

    @property
    def seconds(self) -> float:
        """Predicted for one integral, without the assembly."""
        columns = self.border + 1
        return border_seconds(self.border) + sum(bank_seconds(bank, columns) for bank in self.banks)

    @property
    def num_inner(self) -> int:
        return sum(2 * bank.num_places * bank.size for bank in self.banks)

    @property
    def num_places(self) -> int:
        return sum(bank.num_places for bank in self.banks) + self.border

    def __str__(self) -> str:
        """In words, such as "chain of 1000 blocks of 2, border of 3"."""
        words = [str(bank) for bank in self.banks]
        if self.border:
            count = int(np.sum(np.asarray(self.variable)[-self.border :] < self.dim))
            words.append(f"border of {count}" if words else f"dense, {count} variable{'s' * (count > 1)}")
        return ", ".join(words)

    def locate(self, first: ArrayLike, second: ArrayLike) -> np.ndarray:
        """Where the storage, inner and outer in one, holds pairs of variables; -1 for those it does not."""
        place = np.asarray(self.place)
        return _locate(self.banks, self.border, place[np.asarray(first)], place[np.asarray(second)])


def plan_field(
    rows: ArrayLike,
    cols: ArrayLike,
    shape: tuple[int, int],
    *,
    border: ArrayLike | None = None,
    budget: Budget = BUDGET,
) -> FieldPlan:
    """The plan for the pattern of a sparse matrix, given by the places of its entries.

    `border` names the variables that form the dense border; by default they are found.

    >>> steps = np.arange(99)
    >>> rows, cols = np.r_[steps, steps, np.arange(99, 199)], np.r_[steps, steps + 1, np.arange(100)]
    >>> print(plan_field(rows, cols, (199, 100)))  # a random walk, and a reading of each state
    chain of 50 blocks of 2
    """
    shape = (int(shape[0]), int(shape[1]))
    rows, cols = _checked(rows, cols, shape)
    layout = lay_out(rows, cols, shape, None if border is None else np.asarray(border, int))
    _check_memory(layout, shape, budget)
    place = _places(layout)
    variable = np.full(sum(bank.num_places for bank in layout.banks) + layout.border, shape[1], np.int32)
    variable[place] = np.arange(shape[1])
    at = np.argsort(rows, kind="stable")
    by_product = _product_pays(layout, rows, cols, shape[0])
    inner = at[layout.bank[cols[at]] >= 0] if by_product else at
    left, right = _pairs(inner, rows)
    target = _locate(layout.banks, layout.border, place[cols[left]], place[cols[right]])
    inside, at_border = _product_indices(layout, rows, cols, shape[0], by_product)
    filled = (_padded(left, len(rows)), _padded(right, len(rows)), _padded(target, 0))
    return FieldPlan(
        rows, cols, place, variable, *filled, inside, at_border, shape, layout.banks, layout.border,
        by_product,
    )  # fmt: skip


def _checked(rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    found = np.asarray(rows, np.int64).reshape(-1), np.asarray(cols, np.int64).reshape(-1)
    check(shape[1] > 0, "shape", "at least one column", shape)
    check(len(found[0]) == len(found[1]), "cols", f"of length {len(found[0])}, like `rows`", len(found[1]))
    for name, at, size in zip(("rows", "cols"), found, shape):
        inside = bool(((at >= 0) & (at < size)).all())
        check(inside, name, f"whole numbers from 0 to {size - 1}", f"up to {at.max(initial=0)}")
    absent = np.setdiff1d(np.arange(shape[1]), found[1])
    fix = "A variable that no row holds has no density: give it a prior."
    check(
        absent.size == 0, "cols", "every column at least once", f"none of column {absent[:5].tolist()}", fix
    )
    flat = found[0] * shape[1] + found[1]
    check(len(np.unique(flat)) == len(flat), "rows, cols", "different places", "one place twice")
    return found[0].astype(np.int32), found[1].astype(np.int32)


def _check_memory(layout: Layout, shape: tuple[int, int], budget: Budget) -> None:
    places = sum(bank.num_places for bank in layout.banks)
    numbers = 4 * sum(2 * bank.num_places * bank.size for bank in layout.banks)
    numbers += 4 * (places + layout.border) * layout.border
    if 8 * numbers > budget.max_bytes or layout.seconds > budget.max_seconds:
        needs = f"{8e-9 * numbers:.3g} GB and {layout.seconds:.2g} s for each evaluation"
        limit = f"{budget.max_bytes / 1e9:.3g} GB and {budget.max_seconds:.3g} s"
        raise TooLarge(
            f"The precision of these {shape[1]} Gaussian variables leaves a dense border of {layout.border} "
            f"and needs {needs}; the budget is {limit}."
        )


# --- places --------------------------------------------------------------------------------------------


def _places(layout: Layout) -> np.ndarray:
    place = np.zeros(len(layout.bank), np.int32)
    start = 0
    for number, bank in enumerate(layout.banks):
        own = layout.bank == number
        block = layout.block[own] * bank.count + layout.chain[own]
        place[own] = start + block * bank.size + layout.slot[own]
        start += bank.num_places
    outside = layout.bank < 0
    place[outside] = start + layout.slot[outside]
    return place


def _locate(banks: tuple[Bank, ...], border: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Where the storage holds the number of two places; -1 where it does not."""
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second).astype(np.int64)
    found, start, inner = np.full(len(low), -1, np.int64), 0, 0
    for bank in banks:
        end, k, count = start + bank.num_places, bank.size, bank.count
        own = (low >= start) & (high < end)
        (block, slot), (later, high_slot) = np.divmod(low - start, k), np.divmod(high - start, k)
        same, next_one = own & (block == later), own & (block + count == later)
        found = np.where(same, inner + (high - start) * k + slot, found)
        below = inner + bank.num_places * k  # block `t` there couples `t + 1` with `t`
        found = np.where(next_one, below + (block * k + high_slot) * k + slot, found)
        start, inner = end, inner + 2 * bank.num_places * k
    at_border = high >= start
    # rows of the outer storage are places, columns the border; its own block is read below the diagonal
    row, col = np.where(low >= start, high, low), np.where(low >= start, low, high) - start
    return np.where(at_border, inner + row * border + col, found)


# --- assembly ------------------------------------------------------------------------------------------


def _pairs(entries: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of entries (an entry with itself too) of one row; `entries` are in the order of rows."""
    if not len(entries):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    row = rows[entries]
    ends = np.searchsorted(row, row, side="right")
    follow = ends - np.arange(len(entries))  # this and those after it in its row
    left = np.repeat(np.arange(len(entries)), follow)
    right = left + np.arange(len(left)) - np.repeat(np.cumsum(follow) - follow, follow)
    return entries[left], entries[right]


def _product_pays(layout: Layout, rows: np.ndarray, cols: np.ndarray, num_rows: int) -> bool:
    """Whether all that concerns the border is cheaper by a matrix product than by pairs."""
    inside = layout.bank[cols] >= 0
    all_widths = np.bincount(rows, minlength=num_rows).astype(float)
    inner_widths = np.bincount(rows[inside], minlength=num_rows).astype(float)
    pairs = 0.5 * (all_widths * (all_widths + 1) - inner_widths * (inner_widths + 1)).sum()
    product = num_rows * layout.border**2 * _FLOP + (num_rows + inside.sum()) * layout.border * _ROW
    return bool(layout.border > 0 and product < pairs * _PAIR)


def _product_indices(
    layout: Layout, rows: np.ndarray, cols: np.ndarray, num_rows: int, wanted: bool
) -> tuple[np.ndarray, np.ndarray]:
    if not wanted:
        return np.zeros(0, np.int32), np.zeros((0, layout.border), np.int32)
    inner = layout.bank[cols] >= 0
    at_border = np.full((num_rows, layout.border), len(rows), np.int32)
    at_border[rows[~inner], layout.slot[cols[~inner]]] = np.flatnonzero(~inner)
    return _padded(np.flatnonzero(inner), len(rows)), at_border


def _padded(indices: np.ndarray, fill: int) -> np.ndarray:
    """Indices in a length that repeats."""
    length = rounded(len(indices))
    full: Any = np.full(length, fill, np.int64 if indices.max(initial=0) > 2**31 - 1 else np.int32)
    full[: len(indices)] = indices
    return full
