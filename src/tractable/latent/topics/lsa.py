r"""Latent semantic analysis: documents and words in the space of the largest singular vectors of their
counts.

Model.       $W \approx U_k S_k V_k^\top$ with $W$ the weighted counts: `counts`, or `tf_idf`
             $n_{dw}\log\frac{1 + D}{1 + D_w} + n_{dw}$, rows of length one, with $D_w$ the documents that
             have $w$.
Space.       Documents are the rows of $U_kS_k$, words those of $V_kS_k$; a new document is $\tilde w^\top
             V_k$.
Error.       $\lVert W - U_kS_kV_k^\top\rVert_F^2 = \lVert W\rVert_F^2 - \sum_{i \le k}s_i^2$, the least of
             rank $k$.
Cost.        Lanczos steps on the sparse table, or a dense decomposition where nearly all vectors are asked
             for.
References.  Deerwester et al. (1990).
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from tractable.core.checks import check, check_count, check_option
from tractable.core.module import HostResult, field
from tractable.latent.topics.corpus import Corpus, Matrix, as_corpus

__all__ = ["LatentSemanticAnalysis", "latent_semantic_analysis"]


class LatentSemanticAnalysis(HostResult):
    """The singular vectors of weighted counts, and what is near what in their space."""

    singular_values: np.ndarray
    documents: np.ndarray = field(about="coordinates of documents")
    words: np.ndarray = field(about="coordinates of words")
    word_weights: np.ndarray = field(show=False)
    explained: float = field(about="share of the squared length of the weighted counts")
    weighting: str = field(static=True)
    vocabulary: tuple[str, ...] | None = field(static=True, show=False, default=None)

    @property
    def components(self) -> np.ndarray:
        """The right singular vectors, one row each."""
        return (self.words / self.singular_values).T

    def transform(self, documents: Any) -> np.ndarray:
        """The coordinates of new documents."""
        corpus = as_corpus(documents)
        must = f"counts of {len(self.words)} words"
        check(corpus.num_words == len(self.words), "documents", must, corpus.num_words)
        return _weighted(corpus.matrix, self.word_weights, self.weighting) @ self.components.T

    def similar_words(self, word: int, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The words at the smallest angle to a word (itself left out), and the cosines."""
        return _nearest(
            self.words, self.words[check_count("word", word, 0, len(self.words) - 1)], count, word
        )

    def similar_documents(self, document: Any, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The documents at the smallest angle to one of them (a number) or to the coordinates of a new
        one."""
        if np.ndim(document) == 1:
            return _nearest(self.documents, np.asarray(document, float), count, None)
        place = check_count("document", document, 0, len(self.documents) - 1)
        return _nearest(self.documents, self.documents[place], count, place)


def latent_semantic_analysis(
    documents: Any, num_topics: int, *, weighting: str = "tf_idf"
) -> LatentSemanticAnalysis:
    """The `num_topics` largest singular vectors of the counts, each with its largest entry for words
    positive.

    >>> found = latent_semantic_analysis(np.array([[2, 2, 0], [1, 1, 0], [0, 0, 3]]), 2, weighting="counts")
    >>> found.singular_values.round(4).tolist()
    [3.1623, 3.0]
    """
    check_option("weighting", weighting, ("tf_idf", "counts"))
    corpus: Corpus = as_corpus(documents)
    size = check_count("num_topics", num_topics, 1, min(corpus.matrix.shape))
    having = np.bincount(corpus.words, minlength=corpus.num_words)
    weights = np.log((1 + corpus.num_documents) / (1 + having)) + 1
    weights = weights if weighting == "tf_idf" else np.ones(corpus.num_words)
    table = _weighted(corpus.matrix, weights, weighting)
    total = float((table.data**2).sum())
    check(total > 0, "documents", "at least one word", "none")
    u, s, vt = _largest(table, size)
    rank = int((s > s[0] * max(table.shape) * np.finfo(float).eps).sum())
    fix = f"Ask for at most {rank}."
    check(rank == size, "num_topics", f"at most the rank of the counts, {rank}", size, fix)
    sign = np.sign(vt[np.arange(size), np.abs(vt).argmax(1)])
    explained = float((s**2).sum() / total)
    left, right = u * (s * sign), vt.T * (s * sign)
    return LatentSemanticAnalysis(s, left, right, weights, explained, weighting, corpus.vocabulary)


def _weighted(matrix: Matrix, weights: np.ndarray, weighting: str) -> Matrix:
    table = sp.csr_matrix(matrix.multiply(weights))
    if weighting == "counts":
        return table
    lengths = np.sqrt(np.asarray(table.multiply(table).sum(1))).ravel()
    return sp.csr_matrix(
        sp.diags(np.divide(1, lengths, out=np.zeros(len(lengths)), where=lengths > 0)) @ table
    )


def _largest(table: Matrix, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    least = min(table.shape)
    if least <= 64 or size > least // 3:
        u, s, vt = np.linalg.svd(table.toarray(), full_matrices=False)
        return u[:, :size], s[:size], vt[:size]
    start = np.sqrt(np.arange(1.0, least + 1))  # the same bits in every process
    found: Any = svds(table, k=size, v0=start)
    u, s, vt = found
    order = np.argsort(-s)
    return u[:, order], s[order], vt[order]


def _nearest(
    rows: np.ndarray, one: np.ndarray, count: int, itself: int | None
) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    cosines = np.divide(rows @ one, lengths, out=np.full(len(rows), -np.inf), where=lengths > 0)
    if itself is not None:
        cosines[itself] = -np.inf
    order = np.argsort(-cosines, kind="stable")[: min(count, len(rows) - (itself is not None))]
    return order, cosines[order]
