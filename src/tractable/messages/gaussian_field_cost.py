r"""What the elimination of a sparse Gaussian will take: the seconds of a bank of chains, and of the border.

Bank.        $B$ chains of $T$ blocks of $k$, with $c$ further columns (border and shift).
Seconds.     A step costs a start, and each block in it a start and its operations; blocks of up to four are
             part of one compiled loop, larger ones are calls of LAPACK.
Cost.        Constants measured on one core; they need to be right to a factor of two.
"""

from typing import NamedTuple

from tractable.messages.gaussian_blocks import SMALL

__all__ = ["Bank", "bank_seconds", "border_seconds", "round_size"]

_STEP, _CALLS, _LARGE = 1.5e-7, 2.5e-6, 16  # seconds of a step: in a loop, with calls; size that fills a core
_SLOW, _FLOP, _FAST = 2e-9, 1e-9, 2.5e-10  # seconds of an operation: small, in calls, in large calls
_START = 2e-5  # seconds that every bank takes


class Bank(NamedTuple):
    """`length` blocks of `size` in each of `count` chains.

    >>> print(Bank(1000, 1, 2)), print(Bank(1, 85, 1))
    chain of 1000 blocks of 2
    85 blocks of 1
    (None, None)
    """

    length: int
    count: int
    size: int

    @property
    def num_places(self) -> int:
        return self.length * self.count * self.size

    def __str__(self) -> str:
        chains = "" if self.count == 1 else f"{self.count} "
        if self.length == 1:
            return f"{chains}block{'s' * (self.count > 1)} of {self.size}"
        return f"{chains}chain{'s' * (self.count > 1)} of {self.length} blocks of {self.size}"


def bank_seconds(bank: Bank, columns: int) -> float:
    """Predicted seconds of the elimination of a bank."""
    small = bank.size <= SMALL
    work = bank.size**2 * (bank.size / 3 + 3 * (bank.size + columns))
    block = _SLOW * work if small else 5e-7 + (_FAST if bank.size > _LARGE else _FLOP) * work
    steps = bank.length * (_STEP if small else _CALLS) if bank.length > 1 else 0.0
    return _START + steps + bank.length * bank.count * block + bank.num_places * columns**2 * _FAST


def border_seconds(size: int) -> float:
    """Predicted seconds of the dense factor of the border."""
    return _CALLS + size**3 * _FAST


def round_size(size: int) -> int:
    """The next size of a block in 1, 2, 3, 4, 6, 8, 12, 16, ...: few shapes for many patterns."""
    if size <= 4:
        return size
    power = 1 << (size - 1).bit_length()
    return power * 3 // 4 if size <= power * 3 // 4 else power
