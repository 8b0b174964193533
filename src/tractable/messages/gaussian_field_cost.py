r"""What the elimination of a sparse Gaussian will take: the folds of a chain, and the seconds of a bank.

Bank.        $B$ chains of $T$ blocks of $k$, with $c$ further columns (border and shift).
Seconds.     One step of a fold costs a start, and each block in it a start and its operations.
Folds.       $T$ blocks in folds by $r_1, \dots, r_m$ take $\sum_i (r_i - 1)$ steps; all folds but the last
             carry $k$ more columns.
Cost.        Constants measured on one core; they need to be right to a factor of two.
"""

import functools
import math
from typing import NamedTuple

__all__ = ["Bank", "bank_seconds", "best_bank", "border_seconds", "round_size"]

STEP, BLOCK, FLOP, DENSE_FLOP = 4e-6, 4e-7, 6e-10, 1.5e-10  # seconds
SLOW_STEP = 2e-5  # a step of many operations in a program that is started for it


class Bank(NamedTuple):
    """`length` blocks of `size` in each of `count` chains, eliminated by folds of `ratios`."""

    length: int
    count: int
    size: int
    ratios: tuple[int, ...]

    @property
    def num_blocks(self) -> int:
        return self.length * self.count

    @property
    def num_places(self) -> int:
        return self.num_blocks * self.size

    def __str__(self) -> str:
        chains = "" if self.count == 1 else f"{self.count} "
        if self.length == 1:
            return f"{chains}block{'s' * (self.count > 1)} of {self.size}"
        folds = "" if len(self.ratios) == 1 else f" (folded by {', '.join(map(str, self.ratios))})"
        return f"{chains}chain{'s' * (self.count > 1)} of {self.length} blocks of {self.size}{folds}"


@functools.lru_cache(maxsize=4096)
def best_bank(length: int, count: int, size: int, columns: int) -> Bank:
    """The bank with the cheapest folds; its length is rounded up to their product.

    >>> str(best_bank(1000, 1, 2, 1)), str(best_bank(1, 85, 1, 4))
    ('chain of 1000 blocks of 2 (folded by 10, 10, 10)', '85 blocks of 1')
    """
    if length == 1:
        return Bank(1, count, size, ())
    choices = []
    for depth in range(1, max(2, length.bit_length())):
        ratio = max(2, math.ceil(length ** (1 / depth) - 1e-9))
        ratios = (ratio,) * (depth - 1)
        last = -(-length // math.prod(ratios))
        if last < 2 and depth > 1:
            continue
        bank = Bank(math.prod(ratios) * last, count, size, (*ratios, last))
        choices.append((bank_seconds(bank, columns), bank))
    return min(choices)[1]


def bank_seconds(bank: Bank, columns: int) -> float:
    """Predicted seconds of the elimination of a bank."""
    blocks, total = bank.length, 0.0
    for place, ratio in enumerate(bank.ratios):
        further = columns + (bank.size if place + 1 < len(bank.ratios) else 0)
        segments = blocks // ratio
        total += SLOW_STEP + (ratio - 1) * (STEP + segments * bank.count * _block(bank.size, further))
        blocks = segments
    return total + STEP + bank.count * _block(bank.size, columns) + bank.num_places * columns**2 * DENSE_FLOP


def border_seconds(size: int) -> float:
    """Predicted seconds of the dense factor of the border."""
    return STEP + size**3 * DENSE_FLOP


def round_size(size: int) -> int:
    """The next size of a block in 1, 2, 3, 4, 6, 8, 12, 16, ...: few shapes for many patterns."""
    if size <= 4:
        return size
    power = 1 << (size - 1).bit_length()
    return power * 3 // 4 if size <= power * 3 // 4 else power


def _block(size: int, columns: int) -> float:
    return (
        BLOCK * (size > 1)
        + 2e-9
        + FLOP * size * size * (size / 3 + 3 * (size + columns)) / (4 if size > 16 else 1)
    )
