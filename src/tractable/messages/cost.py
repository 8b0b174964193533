r"""What an exact answer will take, known before anything is computed, and the one budget that refuses it.

Cells.       A junction tree holds $\sum_b \prod_{v \in b} K_v$ cells, eight bytes each, its separators beside
             them; variable elimination makes the same tables one after another.
Budget.      Two gigabytes and five minutes unless told otherwise; a prediction above it raises `TooLarge`.
Cost.        Linear in the variables of all bags.
References.  Kjaerulff (1990); Koller and Friedman (2009) section 9.4.
"""

from dataclasses import dataclass

import numpy as np

from tractable.core.checks import check
from tractable.messages.elimination_bags import Bags
from tractable.messages.junction_links import LARGE_TREE

__all__ = ["BUDGET", "Budget", "Cost", "TooLarge", "cost_of_bags", "require_fit"]

BYTES_AT_LEAST, BYTES_PER_VARIABLE, BYTES_PER_FACTOR = 3_900, 38, 64  # what Python itself needs
COPIES = 1.2  # of the cells of a small tree, while they are gathered
SECONDS_AT_LEAST, SECONDS_PER_BAG, SECONDS_PER_PASS = 1.5e-4, 1e-6, 1.2e-9
SECONDS_PER_NEW_BYTE, BYTES_AT_HAND = 5e-10, 4e6  # large tables live in pages that the system clears first


class TooLarge(MemoryError):
    """The tables of an exact answer would not fit into the budget."""


@dataclass(frozen=True)
class Budget:
    """The bytes and the seconds that an exact answer may take."""

    max_bytes: float | int = 2e9
    max_seconds: float | int = 300.0


BUDGET = Budget()


@dataclass(frozen=True)
class Cost:
    """What a calibration will take: cells of all bags, the largest bag, bytes and seconds."""

    treewidth: int
    num_cells: float
    largest_table: float
    predicted_bytes: float
    predicted_seconds: float

    def fits(self, budget: Budget) -> bool:
        """Whether the prediction is within a budget."""
        return self.predicted_bytes <= budget.max_bytes and self.predicted_seconds <= budget.max_seconds

    def __str__(self) -> str:
        return (
            f"treewidth {self.treewidth}, {self.num_cells:.3g} cells "
            f"(largest table {self.largest_table:.3g}), "
            f"{self.predicted_bytes / 1e6:.3g} MB, {self.predicted_seconds:.2g} s"
        )


ALTERNATIVES = (
    "Raise it, give evidence on more variables, ask for few variables after dropping barren ones "
    "(messages.elimination.relevant_factors), or approximate: messages.loopy, likelihood weighting, "
    "Gibbs sampling."
)


def require_fit(cost: Cost, budget: Budget, fix: str = ALTERNATIVES) -> None:
    """Raise `TooLarge`, which says what to do instead, unless the prediction is within the budget."""
    if not cost.fits(budget):
        must = (
            f"at least what the exact answer takes, {budget.max_bytes:.4g} bytes and {budget.max_seconds:g} s"
        )
        got = f"a prediction of {cost.predicted_bytes:.4g} bytes ({cost})"
        check(False, "budget", must, got, fix, TooLarge)


def cost_of_bags(bags: Bags, sizes: np.ndarray, factor_cells: float, num_factors: int) -> Cost:
    """The predicted cost of a calibration of `bags` when the variables have `sizes` states."""
    if not bags.parent.size:
        return Cost(-1, 0.0, 0.0, BYTES_AT_LEAST + 24.0 * factor_cells, SECONDS_AT_LEAST)
    numbers = sizes[bags.variables].astype(float)
    lengths = np.diff(bags.start)
    place = np.arange(numbers.size) - np.repeat(bags.start[:-1], lengths)
    shared = place < np.repeat(bags.separator, lengths)
    cells = np.multiply.reduceat(numbers, bags.start[:-1])
    above = np.multiply.reduceat(np.where(shared, numbers, 1.0), bags.start[:-1])
    live = np.add.reduceat((numbers > 1).astype(int), bags.start[:-1])
    below = bags.parent[bags.parent >= 0]
    passes = 4 * cells.sum() + 2 * cells[below].sum() + factor_cells
    num_bytes = (
        8 * (cells.sum() + above.sum() + above.max() + 2 * factor_cells) + BYTES_PER_FACTOR * num_factors
    )
    num_bytes += BYTES_AT_LEAST + BYTES_PER_VARIABLE * sizes.size
    num_bytes += 8 * COPIES * cells.sum() if cells.sum() < LARGE_TREE else 0.0
    seconds = SECONDS_AT_LEAST + SECONDS_PER_BAG * (cells.size + num_factors) + SECONDS_PER_PASS * passes
    seconds += SECONDS_PER_NEW_BYTE * max(num_bytes - BYTES_AT_HAND, 0.0)
    return Cost(
        treewidth=int(max(live.max() - 1, 0)),
        num_cells=float(cells.sum()),
        largest_table=float(cells.max()),
        predicted_bytes=float(num_bytes),
        predicted_seconds=float(seconds),
    )
