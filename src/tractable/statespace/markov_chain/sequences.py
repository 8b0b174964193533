r"""Sequences of symbols as codes, and the counts that every fit of a Markov chain needs.

Counts.      $c_{uj}$, how often symbol $j$ follows the context $u$ of $k$ symbols; they add over sequences,
             chunks and machines. A sequence of weight two counts twice.
Cost.        One pass: $O(N)$ for $N$ symbols in all, $O(K^{k+1})$ memory.
References.  Anderson and Goodman (1957); Billingsley (1961).
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, check_count, check_nonnegative

__all__ = ["Coded", "coded", "context_counts", "contexts"]

_MOST_CELLS = 2**26


class Coded(NamedTuple):
    """Sequences end to end as whole numbers, with their lengths, weights, and the names of the symbols."""

    codes: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray
    names: tuple[Hashable, ...]

    @property
    def num_states(self) -> int:
        return len(self.names)

    @property
    def positions(self) -> np.ndarray:
        """The time of each symbol in its sequence."""
        starts = np.cumsum(self.lengths) - self.lengths
        return np.arange(len(self.codes)) - np.repeat(starts, self.lengths)

    @property
    def row_weights(self) -> np.ndarray:
        """The weight of each symbol: that of its sequence."""
        return np.repeat(self.weights, self.lengths)


def coded(
    sequences: Any,
    names: Sequence[Hashable] | None = None,
    weights: Any = None,
    num_states: int | None = None,
) -> Coded:
    """One sequence, a list of them, or a matrix with one in each row, as codes.

    Whole numbers are codes $0, 1, \\dots$ unless `names` hold numbers; other symbols are sorted and numbered.

    >>> coded(["abba", "b"]).codes.tolist()
    [0, 1, 1, 0, 1]
    """
    parts = [_vector(part) for part in _parts(sequences)]
    check(len(parts) > 0, "sequences", "at least one sequence", "none")
    for place, part in enumerate(parts):
        check(part.ndim == 1, "sequences", "vectors of symbols", f"shape {part.shape} in sequence {place}")
    lengths = np.array([len(part) for part in parts])
    check(bool(lengths.sum() > 0), "sequences", "at least one symbol", "only empty sequences")
    together = np.concatenate([part for part in parts if len(part)])
    chosen = np.ones(len(parts)) if weights is None else np.asarray(weights, float)
    check(chosen.shape == (len(parts),), "weights", f"one for each of {len(parts)} sequences", chosen.shape)
    check_nonnegative("weights", chosen)
    codes, known = _codes(together, lengths, names, num_states)
    return Coded(codes, lengths, chosen, known)


def contexts(data: Coded, order: int) -> tuple[np.ndarray, np.ndarray]:
    """The context before each symbol that has one, as a number in base $K$, and the places of the symbols."""
    check(data.num_states ** (order + 1) <= _MOST_CELLS, "order", _fewer(data.num_states), order)
    places = np.flatnonzero(data.positions >= order)
    code = np.zeros(len(places), np.int64)
    for back in range(order, 0, -1):
        code = code * data.num_states + data.codes[places - back]
    return code, places


def context_counts(data: Coded, order: int = 1, keep: np.ndarray | None = None) -> np.ndarray:
    """$c_{uj}$ with one row per context, in the order of its symbols; of the symbols that `keep` marks."""
    code, places = contexts(data, order)
    if keep is not None:
        code, places = code[keep[places]], places[keep[places]]
    size = data.num_states**order
    cells = code * data.num_states + data.codes[places]
    found = np.bincount(cells, data.row_weights[places], size * data.num_states)
    return found.reshape(size, data.num_states)


def _parts(sequences: Any) -> list[Any]:
    if isinstance(sequences, str):
        return [sequences]
    if isinstance(sequences, np.ndarray) or hasattr(sequences, "__array__"):
        rows = np.asarray(sequences)
        check(rows.ndim in (1, 2), "sequences", "one sequence, or one in each row", f"shape {rows.shape}")
        return [rows] if rows.ndim == 1 else list(rows)
    listed = list(sequences)
    first: Any = next(iter(listed), None)
    nested = isinstance(first, list | tuple | np.ndarray) or (hasattr(first, "__array__") and np.ndim(first))
    words = isinstance(first, str) and any(len(word) != 1 for word in listed)
    return listed if nested or words else [listed]


def _vector(part: Any) -> np.ndarray:
    """One sequence as a vector, also of symbols that are tuples."""
    listed = list(part) if isinstance(part, str) else part
    if isinstance(listed, list) and listed and isinstance(listed[0], tuple):
        found = np.empty(len(listed), object)
        found[:] = listed
        return found
    return np.asarray(listed)


def _codes(
    symbols: np.ndarray, lengths: np.ndarray, names: Any, num_states: int | None
) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    whole_names = names is not None and any(isinstance(name, int) for name in names)
    numbers = symbols.dtype.kind in "iu" or (symbols.dtype.kind == "f" and names is None)
    if numbers and not whole_names:
        fine = (symbols == np.floor(symbols)) & (symbols >= 0)
        _check_symbols(fine, symbols, lengths, "whole numbers 0, 1, 2, ...")
        most = int(symbols.max()) + 1 if num_states is None else check_count("num_states", num_states)
        known = tuple(range(most)) if names is None else tuple(names)
        _check_symbols(symbols < len(known), symbols, lengths, f"below {len(known)}, the number of states")
        return symbols.astype(np.int64), known
    if names is None:
        known, codes = np.unique(symbols, return_inverse=True)
        return codes.astype(np.int64), tuple(known.tolist())
    place = {name: code for code, name in enumerate(names)}
    check(len(place) == len(names), "names", "different from each other", tuple(names))
    found = np.array([place.get(symbol, -1) for symbol in symbols.tolist()])
    _check_symbols(found >= 0, symbols, lengths, "one of the names of the states")
    return found, tuple(names)


def _check_symbols(fine: np.ndarray, symbols: np.ndarray, lengths: np.ndarray, must: str) -> None:
    if not fine.all():
        at = int(np.flatnonzero(~fine)[0])
        ends = np.cumsum(lengths)
        sequence = int(np.searchsorted(ends, at, "right"))
        time = at - int(ends[sequence] - lengths[sequence])
        got = f"{symbols[at].item()!r} at time {time} of sequence {sequence}"
        fix = "Cut a sequence in two where a symbol is missing."
        check(False, "sequences", f"symbols that are {must}", got, fix)


def _fewer(num_states: int) -> str:
    return f"so small that {num_states}^(order + 1) is at most {_MOST_CELLS} cells"
