r"""Documents as counts of words: the one front door of all topic models.

Corpus.      $n_{dw} \ge 0$, how often word $w$ stands in document $d$, in compressed rows: the words of
             document $d$ are `words[offsets[d]:offsets[d + 1]]`, in order and each once, with their `counts`.
Read.        Sparse matrices, arrays, data frames (one row per document, one column per word), lists of lists
             of words, or of numbers of words.
Rows.        `rows` are the same counts in two tables with one row per document (`words`, `counts`, filled up
             with count 0): what `EM`, chunks and Dask hand to a model. Counts add, and so do their
             statistics.
Refused.     Negative, infinite and missing counts, and words outside of the vocabulary, by document and word.
             Fractions are weights, and fine wherever statistics add; samplers of single words refuse them.
Cost.        One pass; memory for the words that occur.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from tractable.core.checks import check, check_count, check_option
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.types import Key

__all__ = ["Corpus", "as_corpus", "pair_masses", "rows_as_matrix"]

Matrix = Any  # a sparse matrix in compressed rows, whose types SciPy does not say
_ROOM = 1_000_000  # numbers held at once


class Corpus(HostResult):
    """Counts of words in documents, and the words' names where they have some; see `as_corpus`."""

    words: np.ndarray = field(show=False)
    counts: np.ndarray = field(show=False)
    offsets: np.ndarray = field(show=False)
    num_words: int = field(static=True)
    vocabulary: tuple[str, ...] | None = field(static=True, show=False, default=None)

    _shown = ("num_documents", "num_words", "total")

    @property
    def num_documents(self) -> int:
        return len(self.offsets) - 1

    @property
    def total(self) -> float:
        """The number of words in all documents, each as often as it stands there."""
        return float(self.counts.sum())

    @property
    def lengths(self) -> np.ndarray:
        """The number of words of each document; empty documents have none."""
        return np.asarray(self.matrix.sum(1)).ravel()

    @property
    def matrix(self) -> Matrix:
        """The counts as a sparse matrix, one row per document."""
        shape = (self.num_documents, self.num_words)
        return sp.csr_matrix((self.counts, self.words, self.offsets), shape=shape)

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Word numbers and counts, one row per document: what a model's `e_step` reads."""
        present = np.diff(self.offsets)
        words = np.zeros((self.num_documents, max(int(present.max(initial=1)), 1)), np.int32)
        counts = np.zeros(words.shape)
        filled = np.arange(words.shape[1]) < present[:, None]
        words[filled], counts[filled] = self.words, self.counts
        return words, counts

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Every (document, word) that occurs, and how often: rows and weights of the aspect model."""
        documents = np.repeat(np.arange(self.num_documents, dtype=np.int32), np.diff(self.offsets))
        return np.stack([documents, self.words], 1), self.counts

    @property
    def empty_documents(self) -> np.ndarray:
        """The numbers of the documents without a word."""
        return np.flatnonzero(np.diff(self.offsets) == 0)

    @property
    def words_never_seen(self) -> np.ndarray:
        """The numbers of the words that stand in no document."""
        return np.flatnonzero(np.bincount(self.words, minlength=self.num_words) == 0)

    def tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """Each word as often as it stands, and where each document begins; counts must be whole numbers."""
        whole = self.counts == np.round(self.counts)
        if not whole.all():
            where = _place(self, int(np.argmin(whole)))
            check(False, "counts", "whole numbers, to sample each word's topic", where,
                  "Use the variational fit, to which fractions are weights.")  # fmt: skip
        repeats = self.counts.astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(repeats)])
        return np.repeat(self.words, repeats), ends[self.offsets]

    def take(self, documents: Any) -> "Corpus":
        """The chosen documents, by numbers, a mask or a slice."""
        return _from_matrix(self.matrix[documents], self.vocabulary)

    @takes_key
    def split(self, *, key: Key, share: float = 0.5) -> tuple["Corpus", "Corpus"]:
        """Each word goes, by a toss of a coin, to one of two corpora of the same documents (`share` is the
        chance of the first): what is seen of each document, and what is held out of it."""
        check(0 < share < 1, "share", "between 0 and 1", share)
        self.tokens()  # refuses fractions
        first = generator(key).binomial(self.counts.astype(np.int64), share).astype(float)
        shape = (self.num_documents, self.num_words)
        halves = (
            sp.csr_matrix((n, self.words, self.offsets), shape=shape) for n in (first, self.counts - first)
        )
        seen, held_out = (_from_matrix(half, self.vocabulary) for half in halves)
        return seen, held_out

    def word_name(self, word: int) -> str:
        """The name of a word, or its number."""
        return str(int(word)) if self.vocabulary is None else self.vocabulary[int(word)]

    def word_number(self, word: int | str) -> int:
        """The number of a word given by name or number."""
        if isinstance(word, str):
            known = self.vocabulary or ()
            check(word in known, "word", "in the vocabulary", repr(word))
            return known.index(word)
        return check_count("word", word, 0, self.num_words - 1)


def as_corpus(documents: Any, vocabulary: Sequence[str] | None = None, *, unknown: str = "refuse") -> Corpus:
    """Documents in any of the forms above as a `Corpus`.

    Lists of words need no `vocabulary`: it is then the sorted words that occur. With `unknown="ignore"`,
    words that are not in it are left out, as is right for new documents.

    >>> corpus = as_corpus([["red", "green", "red"], ["blue"]])
    >>> corpus.vocabulary, corpus.matrix.toarray().tolist()
    (('blue', 'green', 'red'), [[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]])
    """
    check_option("unknown", unknown, ("refuse", "ignore"))
    names = None if vocabulary is None else tuple(str(word) for word in vocabulary)
    check(names is None or len(set(names)) == len(names), "vocabulary", "words that differ", "a word twice")
    if isinstance(documents, Corpus):
        same = names is None or names == documents.vocabulary
        check(same, "vocabulary", "that of the corpus, or left out", "another one")
        return documents
    if hasattr(documents, "columns") and hasattr(documents, "to_numpy"):
        names = names or tuple(str(column) for column in documents.columns)
        documents = documents.to_numpy()
    if sp.issparse(documents):
        return _from_matrix(documents, names)
    if isinstance(documents, Sequence):
        return _from_lists(documents, names, unknown)
    return _from_matrix(_as_table(documents), names)


def rows_as_matrix(rows: Any, weights: Any, num_words: int) -> Matrix:
    """Counts of words from what `EM` hands to a model: a table of counts, or the tables of `Corpus.rows`.

    Documents of weight zero are left empty: they only fill a shape.
    """
    present = (np.asarray(weights) > 0)[:, None]
    if isinstance(rows, tuple):
        words, counts = np.asarray(rows[0]), np.asarray(rows[1], float)
        filled = (counts != 0) & present
        offsets = np.concatenate([[0], np.cumsum(filled.sum(1))])
        matrix: Matrix = sp.csr_matrix(
            (counts[filled], words[filled], offsets), shape=(len(words), num_words)
        )
    else:
        matrix = sp.csr_matrix(np.where(present, np.asarray(rows, float), 0.0))
    check(
        matrix.shape[1] == num_words,
        "rows",
        f"counts of {num_words} words, as the model has",
        matrix.shape[1],
    )
    return matrix


def pair_masses(matrix: Matrix, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The document of every pair that occurs, and $(LR^\top)_{dw}$ there alone, in blocks.

    >>> counts = sp.csr_matrix([[0.0, 2.0], [1.0, 0.0]])
    >>> pair_masses(counts, np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))[1].tolist()
    [4.0, 6.0]
    """
    owners = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    masses, size = np.empty(matrix.nnz), max(1, _ROOM // left.shape[1])
    for low in range(0, matrix.nnz, size):
        part = slice(low, low + size)
        masses[part] = np.einsum("ik,ik->i", left[owners[part]], right[matrix.indices[part]])
    return owners, masses


def _as_table(documents: Any) -> np.ndarray:
    table = np.asarray(documents)
    numeric = table.dtype.kind in "biuf"
    must = "counts of words, one row per document, or lists of words"
    check(numeric and table.ndim == 2, "documents", must, f"an array of {table.dtype} of shape {table.shape}",
          error=ValueError if numeric else TypeError)  # fmt: skip
    return table


def _from_matrix(matrix: Any, names: tuple[str, ...] | None) -> Corpus:
    counts: Matrix = sp.csr_matrix(matrix, dtype=np.float64, copy=sp.issparse(matrix))
    counts.sum_duplicates()
    num_documents, num_words = counts.shape
    check(
        num_documents > 0 and num_words > 0, "documents", "at least one document and one word", counts.shape
    )
    right = names is None or len(names) == num_words
    check(right, "vocabulary", f"one name for each of the {num_words} words", len(names or ()))
    fine = (counts.data >= 0) & np.isfinite(counts.data)
    found = Corpus(counts.indices, counts.data, counts.indptr, num_words, names)
    if not fine.all():
        check(False, "counts", "zero or positive, and finite", _place(found, int(np.argmin(fine))))
    counts.eliminate_zeros()
    return Corpus(
        counts.indices.astype(np.int32), counts.data, counts.indptr.astype(np.int64), num_words, names
    )


def _from_lists(documents: Sequence, names: tuple[str, ...] | None, unknown: str) -> Corpus:
    plain = next((text for text in documents if isinstance(text, str)), None)
    check(
        plain is None,
        "documents",
        "lists of words",
        f"the text {plain!r:.40}",
        "Split it: `text.split()`.",
        TypeError,
    )
    lengths = [len(document) for document in documents]
    flat = [word for document in documents for word in document]
    check(len(lengths) > 0, "documents", "at least one document", "none")
    text = any(isinstance(word, str) for word in flat)
    numbers, names = _word_numbers(flat, names) if text else (np.asarray(flat), names)
    whole = numbers.size == 0 or numbers.dtype.kind in "iu"
    check(
        whole, "documents", "lists of words or of whole numbers", f"{numbers.dtype}", "Counts go in an array."
    )
    size = len(names) if names is not None else int(numbers.max(initial=-1)) + 1
    check(size > 0, "documents", "at least one word, or a `vocabulary`", "none")
    numbers = numbers.astype(np.int64)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    known = (numbers >= 0) & (numbers < size)
    if unknown == "refuse" and not known.all():
        at = int(np.argmin(known))
        fix = "With `unknown='ignore'` such words are left out."
        check(
            False,
            "documents",
            "made of words of the vocabulary",
            f"{flat[at]!r} in document {owners[at]}",
            fix,
        )
    values = np.ones(int(known.sum()))
    return _from_matrix(
        sp.coo_matrix((values, (owners[known], numbers[known])), shape=(len(lengths), size)), names
    )


def _word_numbers(flat: list, names: tuple[str, ...] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    words = [str(word) for word in flat]
    names = tuple(sorted(set(words))) if names is None else names
    numbers: Mapping[str, int] = {word: number for number, word in enumerate(names)}
    return np.array([numbers.get(word, -1) for word in words], np.int64), names


def _place(corpus: Corpus, at: int) -> str:
    """A count with its document and its word."""
    document = int(np.searchsorted(corpus.offsets, at, side="right")) - 1
    return (
        f"{corpus.counts[at]:g} for word {corpus.word_name(int(corpus.words[at]))!r} of document {document}"
    )
