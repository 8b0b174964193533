r"""Kernels on strings: how many pieces two texts share.

Spectrum.    $k(s, t) = \sum_u c_u(s)\,c_u(t)$ over all words $u$ of $p$ letters, with $c_u$ the number of
             places at which $u$ stands in the string.
Subsequence. $k(s, t) = \sum_u\sum_{i: u = s[i]}\sum_{j: u = t[j]}\lambda^{l(i) + l(j)}$ over words of $p$
             letters with gaps, $l(i)$ the length that an occurrence spans: the decay $\lambda$ makes gaps
             count less.
Recursion.   $K'_0 = 1$; $K''_q(sa, tb) = \lambda K''_q(sa, t) + [a = b]\lambda^2 K'_{q-1}(s, t)$;
             $K'_q(sa, t) = \lambda K'_q(s, t) + K''_q(sa, t)$;
             $k = \sum_{i, j: s_i = t_j}\lambda^2 K'_{p-1}(s_{<i}, t_{<j})$.
Cost.        Spectrum: linear in the letters, then shared words. Subsequence: $O(p\,|s|\,|t|)$ for a pair.
References.  Leslie, Eskin and Noble (2002); Lodhi, Saunders, Shawe-Taylor, Cristianini and Watkins (2002).
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.types import Float

__all__ = ["Spectrum", "StringKernel", "Subsequence"]

Text = str | Sequence[Hashable]


class StringKernel(Module):
    """A positive semi-definite function of two strings, or of two sequences of hashable letters.

    With `normalised`, $k(s, t) / \\sqrt{k(s, s)\\,k(t, t)}$; a string without any piece has no such value.
    """

    def __call__(self, s: Text, t: Text) -> float:
        """The kernel of two strings."""
        return float(self.gram([s], [t])[0, 0])

    def gram(self, texts: Sequence[Text], others: Sequence[Text] | None = None) -> Float[np.ndarray, "n m"]:
        """The kernel of all pairs; `others` is `texts` if it is not given."""
        rows = _checked("texts", texts)
        columns = None if others is None else _checked("others", others)
        table = self._table(rows, columns)
        if not getattr(self, "normalised", False):
            return table
        left = self._roots("texts", rows)
        right = left if columns is None else self._roots("others", columns)
        return table / (left[:, None] * right[None, :])

    def diagonal(self, texts: Sequence[Text]) -> Float[np.ndarray, " n"]:
        """The kernel of each string with itself."""
        rows = _checked("texts", texts)
        if getattr(self, "normalised", False):
            self._roots("texts", rows)
            return np.ones(len(rows))
        return self._squares(rows)

    @abstractmethod
    def _table(self, rows: list, columns: list | None) -> np.ndarray:
        """All pairs, not normalised."""

    def _squares(self, rows: list) -> np.ndarray:
        return np.array([self._table([row], None)[0, 0] for row in rows])

    def _roots(self, name: str, rows: list) -> np.ndarray:
        squares = self._squares(rows)
        short = f"{rows[int(np.argmin(squares))]!r} at index {int(np.argmin(squares))}"
        check((squares > 0).all(), name, "strings with at least one piece to be normalised", short)
        return np.sqrt(squares)


class Spectrum(StringKernel):
    r"""$\sum_u c_u(s)\,c_u(t)$ over the words $u$ of `length` letters.

    >>> Spectrum(2)("banana", "bandana")  # ba 1*1, an 2*2, na 2*1
    7.0
    """

    length: int = field(static=True, default=3)
    normalised: bool = field(static=True, default=False)

    def __check_init__(self) -> None:
        check_count("length", self.length)

    def words(self, text: Text) -> Counter:
        """How often each word of `length` letters stands in `text`."""
        letters = text if isinstance(text, str) else tuple(text)
        return Counter(letters[i : i + self.length] for i in range(len(letters) - self.length + 1))

    def _table(self, rows: list, columns: list | None) -> np.ndarray:
        places: dict = {}
        left = self._counts(rows, places)
        right = left if columns is None else self._counts(columns, places)
        width = max(len(places), 1)
        left.resize((len(rows), width))  # words that only the second list has are new columns
        right.resize((len(columns or rows), width))
        return np.asarray((left @ right.T).toarray())

    def _squares(self, rows: list) -> np.ndarray:
        return np.array([float(sum(c * c for c in self.words(row).values())) for row in rows])

    def _counts(self, texts: list, places: dict) -> Any:
        from scipy.sparse import csr_array

        row, column, count = [], [], []
        for i, text in enumerate(texts):
            for word, times in self.words(text).items():
                row.append(i)
                column.append(places.setdefault(word, len(places)))
                count.append(float(times))
        return csr_array((count, (row, column)), shape=(len(texts), max(len(places), 1)))


class Subsequence(StringKernel):
    r"""Words of `length` letters that both strings hold, gaps allowed: $\lambda$ for each letter spanned.

    >>> round(Subsequence(2, decay=0.5)("cat", "car"), 6)  # only "ca", spanning two letters in each
    0.0625
    """

    length: int = field(static=True, default=2)
    decay: float = field(static=True, default=0.5)
    normalised: bool = field(static=True, default=False)

    def __check_init__(self) -> None:
        check_count("length", self.length)
        check(0 < self.decay <= 1, "decay", "in (0, 1]", self.decay)

    def _table(self, rows: list, columns: list | None) -> np.ndarray:
        codes: dict = {}
        left = [_encoded(text, codes) for text in rows]
        if columns is None:
            table = np.zeros((len(left), len(left)))
            for i, s in enumerate(left):
                table[i, : i + 1] = [self._pair(s, t) for t in left[: i + 1]]
            return table + np.tril(table, -1).T
        right = [_encoded(text, codes) for text in columns]
        return np.array([[self._pair(s, t) for t in right] for s in left])

    def _pair(self, s: np.ndarray, t: np.ndarray) -> float:
        from scipy.signal import lfilter

        if min(len(s), len(t)) < self.length:
            return 0.0
        equal = (s[:, None] == t[None, :]).astype(float)
        before = np.ones(equal.shape)  # K'_{q-1} of the prefixes s[:i], t[:j]
        for _ in range(self.length - 1):
            # K'' runs along t and K' along s: two linear recurrences in the decay
            along = lfilter([1.0], [1.0, -self.decay], self.decay**2 * equal * before, axis=1)
            after = np.asarray(lfilter([1.0], [1.0, -self.decay], along, axis=0))
            before = np.zeros(equal.shape)
            before[1:, 1:] = after[:-1, :-1]
        return float(self.decay**2 * (equal * before).sum())


def _checked(name: str, texts: Any) -> list:
    strings = not isinstance(texts, str) and len(texts) > 0
    check(strings, name, "a list of strings", repr(texts), "Put a single string into a list.")
    return list(texts)


def _encoded(text: Text, codes: dict) -> np.ndarray:
    return np.array([codes.setdefault(letter, len(codes)) for letter in text], dtype=np.int64)
