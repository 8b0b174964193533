r"""Sets of elements, numbered: an array of numbers says, entry by entry, which elements an array depends on.

Form.        Set 0 is empty and set $j + 1$ is $\{j\}$; a union gets the next number, unless it equals its
             largest member. What moves entries about moves their numbers; only unions look inside.
Cost.        A union of $m$ numbers with $e$ elements in all: $O(m \log m + e \log e)$, for whole arrays at
             once. Beyond `limit` elements at a time owners share one set of all that is theirs: never too
             small.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

__all__ = ["ElementSets", "ascending"]

LIMIT = 2**23


class ElementSets:
    """A growing table of sets of the elements $0, \\dots, $`num_elements`$ - 1$.

    >>> sets = ElementSets(3)
    >>> both = sets.union(np.array([1, 2]), np.array([3, 0]))
    >>> both, sets.rows(both).toarray().astype(int).tolist()
    (array([4, 2]), [[1, 0, 1], [0, 1, 0]])
    """

    def __init__(self, num_elements: int, limit: int = LIMIT):
        self.num_elements, self.limit = num_elements, limit
        self.elements = np.arange(num_elements)
        self.ends = np.arange(num_elements + 1)
        self.num_sets, self.used = num_elements + 1, num_elements

    def singles(self, start: int, shape: Sequence[int]) -> np.ndarray:
        """The numbers of the sets of one element each, from element `start` on."""
        return np.arange(start + 1, start + 1 + int(np.prod(shape))).reshape(shape)

    def members(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The elements of the given sets one after the other, and how many each has."""
        ends = self.ends[numbers]
        starts = np.where(numbers > 0, self.ends[numbers - 1], 0)
        lengths = ends - starts
        before = np.cumsum(lengths) - lengths
        return self.elements[np.arange(lengths.sum()) + np.repeat(starts - before, lengths)], lengths

    def union(self, first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
        """Entry by entry, under NumPy's rules of broadcasting."""
        if first is second or second is None:
            return first
        if first is None:
            return second
        shape = np.broadcast_shapes(first.shape, second.shape)
        a, b = (np.broadcast_to(each, shape) for each in (first, second))
        once = tuple(slice(0, 1) if not (s or t) else slice(None) for s, t in zip(a.strides, b.strides))
        a, b = a[once], b[once]
        out = np.where(a == 0, b, a)
        mixed = (a != b) & (a != 0) & (b != 0)
        if mixed.any():
            pairs, which = np.unique(a[mixed] * self.num_sets + b[mixed], return_inverse=True)
            couples = np.stack(np.divmod(pairs, self.num_sets), axis=1).ravel()
            out[mixed] = self._append(np.repeat(np.arange(len(pairs)), 2), couples, len(pairs))[which]
        return np.broadcast_to(out, shape)

    def union_of(self, arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
        """Entry by entry of any number of arrays."""
        total = None
        for each in arrays:
            total = self.union(total, each)
        return total

    def reduce(self, numbers: np.ndarray | None, axes: Sequence[Any]) -> np.ndarray | None:
        """The union along `axes`, which are dropped."""
        if numbers is None:
            return None
        kept = [axis for axis in range(numbers.ndim) if axis not in axes]
        shape = tuple(numbers.shape[axis] for axis in kept)
        once = numbers[tuple(slice(None) if stride else slice(0, 1) for stride in numbers.strides)]
        moved = once.transpose([*kept, *axes])
        small = moved.shape[: len(kept)]
        flat = moved.reshape(int(np.prod(small)), -1)
        owners = np.repeat(np.arange(flat.shape[0]), flat.shape[1])
        return np.broadcast_to(self.unite(owners, flat.ravel(), flat.shape[0]).reshape(small), shape)

    def everything(self, arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
        """One number without axes: the union of all entries of all arrays."""
        parts = [ascending(each.ravel()) for each in arrays if each is not None]
        return self.reduce(np.concatenate(parts), (0,)) if parts else None

    def unite(self, owners: np.ndarray, numbers: np.ndarray, num_owners: int) -> np.ndarray:
        """For each owner the number of the union of its `numbers`; the pairs come in any order."""
        result = np.zeros(num_owners, np.int64)
        held = numbers > 0
        pairs = ascending(owners[held] * self.num_sets + numbers[held])
        if not pairs.size:
            return result
        owners, numbers = np.divmod(pairs, self.num_sets)
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        counts = np.diff(first, append=len(owners))
        result[owners[first]] = numbers[first]
        many = counts > 1
        if many.any():
            group = np.repeat(np.arange(many.sum()), counts[many])
            result[owners[first[many]]] = self._append(group, numbers[np.repeat(many, counts)], many.sum())
        return result

    def _append(self, groups: np.ndarray, numbers: np.ndarray, count: Any) -> np.ndarray:
        """The unions of the numbers of each group (ascending, none empty), new where they are new."""
        lengths = self.ends[numbers] - self.ends[numbers - 1]
        if lengths.sum() > self.limit:
            return np.full(count, self._together(ascending(numbers)))
        elements, _ = self.members(numbers)
        keys = ascending(np.repeat(groups, lengths) * self.num_elements + elements)
        owner, elements = np.divmod(keys, self.num_elements)
        sizes = np.bincount(owner, minlength=count)
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        width, widest = np.divmod(
            np.maximum.reduceat(lengths * self.num_sets + numbers, starts), self.num_sets
        )
        new = sizes > width
        result = np.where(new, self.num_sets + np.cumsum(new) - 1, widest)
        self._push(elements[new[owner]], sizes[new])
        return result

    def _together(self, numbers: np.ndarray) -> int:
        """One set with the elements of all `numbers`, found a part at a time."""
        inside = np.zeros(self.num_elements, bool)
        lengths = self.ends[numbers] - self.ends[numbers - 1]
        parts = np.cumsum(lengths) // self.limit
        for part in np.unique(parts):
            inside[self.members(numbers[parts == part])[0]] = True
        self._push(np.flatnonzero(inside), np.array([inside.sum()]))
        return self.num_sets - 1

    def _push(self, elements: np.ndarray, sizes: np.ndarray) -> None:
        self.elements = _room(self.elements, self.used, len(elements))
        self.ends = _room(self.ends, self.num_sets, len(sizes))
        self.elements[self.used : self.used + len(elements)] = elements
        self.ends[self.num_sets : self.num_sets + len(sizes)] = self.used + np.cumsum(sizes)
        self.used, self.num_sets = self.used + len(elements), self.num_sets + len(sizes)

    def rows(self, numbers: np.ndarray) -> csr_array:
        """One row per entry of `numbers`, true at its elements."""
        elements, lengths = self.members(numbers.ravel())
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shape = (numbers.size, self.num_elements)
        return csr_array((np.ones(len(elements), bool), elements, starts), shape=shape)


def ascending(values: np.ndarray) -> np.ndarray:
    """Each value once, in order: by sorting, several times faster here than the hashing of `np.unique`."""
    values = np.sort(values)
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if values.size else values


def _room(array: np.ndarray, used: int, more: int) -> np.ndarray:
    """The array, at least twice as long if `more` do not fit behind the first `used`."""
    if used + more <= len(array):
        return array
    grown = np.zeros(2 * (used + more), array.dtype)
    grown[:used] = array[:used]
    return grown
