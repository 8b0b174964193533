r"""Columns of text for models: counts of words and of letters in a row, hashed, in few directions.

Counts.      scikit-learn's `HashingVectorizer` (words and pairs of words, without a vocabulary), weighted
             by the logarithm of one over the share of training rows that have the word.
Directions.  The leading right singular vectors of the training rows' counts; rows are their coordinates.
Besides.     The logarithms of the numbers of characters and of words.
Cost.        Linear in the words; a truncated singular value decomposition of the distinct texts.
References.  Deerwester and others (1990), Indexing by latent semantic analysis.
"""

from typing import Any

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.tables.cells import factorised

__all__ = ["TextPart"]

_BUCKETS = 1 << 12
_DIRECTIONS = 16
_MOST_ROWS = 20_000  # texts that the directions are found from


class TextPart:
    """One column of text."""

    def __init__(self, name: str, form: str):
        self.name, self.form = name, form

    def fit(self, frame: Any) -> "TextPart":
        codes, words = factorised(frame[self.name])
        self.has_gaps = bool((codes < 0).any())
        step = max(1, len(words) // _MOST_ROWS)
        counts = _counts(words[::step])
        seen = np.asarray((counts > 0).sum(0)).ravel()
        weights = np.log((1.0 + counts.shape[0]) / (1.0 + seen)) + 1.0
        self.directions = _directions(counts.multiply(weights).tocsr()) * weights[:, None]
        plain = (
            self._values(words)[codes[codes >= 0]] if words else np.zeros((1, self.directions.shape[1] + 2))
        )
        self.mean, spread = plain.mean(0), plain.std(0)
        self.scale = np.where(spread > 0, spread, np.inf)
        return self

    def _values(self, words: list[str]) -> np.ndarray:
        sizes = np.array([[len(word), word.count(" ") + 1] for word in words], float).reshape(-1, 2)
        return np.concatenate([_counts(words) @ self.directions, np.log1p(sizes)], axis=1)

    def transform(self, frame: Any) -> np.ndarray:
        codes, words = factorised(frame[self.name])
        values = (self._values(words) - self.mean) / self.scale
        empty = np.full((1, values.shape[1]), np.nan if self.form == "trees" else 0.0)
        values = np.concatenate([values, empty])[codes]
        if self.form == "linear" and self.has_gaps:
            values = np.column_stack([values, codes < 0])
        return values

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Name and source of each encoded column."""
        names = [f"{self.name} text{k + 1}" for k in range(self.directions.shape[1])]
        names += [f"{self.name} log characters", f"{self.name} log words"]
        names += [f"{self.name} missing"] * (self.form == "linear" and self.has_gaps)
        return [(name, self.name) for name in names]

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name, "form": self.form, "has_gaps": self.has_gaps, "mean": self.mean,
            "scale": self.scale, "directions": self.directions,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "TextPart":
        part = cls(state["name"], state["form"])
        part.has_gaps = state["has_gaps"]
        part.mean, part.scale = np.asarray(state["mean"]), np.asarray(state["scale"])
        part.directions = np.asarray(state["directions"])
        return part


def _counts(words: list[str]) -> Any:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import HashingVectorizer

    if not words:
        return csr_matrix((0, _BUCKETS))
    vectors = HashingVectorizer(
        n_features=_BUCKETS, ngram_range=(1, 2), alternate_sign=False, token_pattern=r"(?u)\b\w+\b"
    )
    return vectors.transform(words)


def _directions(counts: Any) -> np.ndarray:
    from sklearn.utils.extmath import randomized_svd

    number = min(_DIRECTIONS, counts.shape[0] - 1, counts.shape[1] - 1)
    if number < 1 or counts.nnz == 0:
        return np.zeros((_BUCKETS, 0))
    with one_blas_thread():  # the same bits with any number of threads
        _, sizes, found = randomized_svd(counts, n_components=number, random_state=0)
    return np.ascontiguousarray(found[sizes > 1e-9 * sizes[0]].T)
