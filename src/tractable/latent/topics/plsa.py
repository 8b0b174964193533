r"""Probabilistic latent semantic analysis, the aspect model: pairs of a document and a word, made by a topic.

Model.       $p(d, w) = \sum_z p(z)\,p(d \mid z)\,p(w \mid z)$ (symmetric) $= p(d)\sum_z p(z \mid d)\,p(w \mid
             z)$ (asymmetric): one model in two forms, with $p(z)p(d \mid z) = p(d)p(z \mid d)$.
E-step.      $p(z \mid d, w) \propto \{p(z)\,p(d \mid z)\,p(w \mid z)\}^{b}$; $b$ = `inverse_temperature`
             below one is tempered EM, which climbs $\frac1b\sum n_{dw}\log\sum_z\{\cdot\}^b$.
Statistics.  $c(z) = \sum n_{dw}p(z \mid d, w)$, $c(z, d)$ and $c(z, w)$, which add over pairs; the
             responsibilities are never stored. M-step: $p(z) = c(z)/N$, $p(d \mid z) = c(z, d)/c(z)$, $p(w
             \mid z) = c(z, w)/c(z)$.
Size.        $K + K(D + V)$ numbers in place of a table of $DV$.
Cost.        $O(K)$ for each pair that occurs, per step.
References.  Hofmann (1999, 2001).
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.support import simplex
from tractable.core.types import Key, Values
from tractable.latent.topics.corpus import Matrix, as_corpus, pair_masses

__all__ = ["AspectCounts", "ByDocument", "ProbabilisticLSA"]


class AspectCounts(NamedTuple):
    """Expected counts: of topics, of topics with documents, of topics with words."""

    topics: Any  # (topics,)
    documents: Any  # (topics, documents)
    words: Any  # (topics, words)


class ByDocument(NamedTuple):
    r"""The asymmetric form: $p(d)$, $p(z \mid d)$ (one row per document) and $p(w \mid z)$ (one per
    topic)."""

    documents: np.ndarray
    topics: np.ndarray
    words: np.ndarray


class ProbabilisticLSA(Module):
    r"""The aspect model in its symmetric form: `topics` $p(z)$, `documents` $p(d \mid z)$, `words` $p(w \mid
    z)$.

    Rows are pairs (document, word), and weights their counts: with `pairs, counts = corpus.pairs` a fit is
    `EM().fit(model, pairs, weights=counts)`.

    >>> start = ProbabilisticLSA.random(2, 3, 4, key=0)
    >>> start.num_parameters
    16
    """

    on_host: ClassVar[bool] = True

    topics: Values = field(support=simplex)
    documents: Values = field(support=simplex)
    words: Values = field(support=simplex)
    inverse_temperature: float = field(static=True, default=1.0)

    def __check_init__(self) -> None:
        b = self.inverse_temperature
        check(0 < b <= 1, "inverse_temperature", "above 0 and at most 1", b)

    @classmethod
    @takes_key
    def random(
        cls,
        num_topics: int,
        num_documents: int,
        num_words: int,
        *,
        key: Key,
        inverse_temperature: float = 1.0,
    ) -> "ProbabilisticLSA":
        """A start with topics of equal weight that differ a little."""
        numbers, k = generator(key), check_count("num_topics", num_topics)
        documents, words = (numbers.gamma(10.0, size=(k, n)) for n in (num_documents, num_words))
        shares = [table / table.sum(1, keepdims=True) for table in (documents, words)]
        return cls(np.full(k, 1 / k), shares[0], shares[1], inverse_temperature)

    @classmethod
    def from_asymmetric(cls, form: ByDocument, inverse_temperature: float = 1.0) -> "ProbabilisticLSA":
        joint = (np.asarray(form.documents)[:, None] * np.asarray(form.topics)).T
        topics = joint.sum(1)
        check(bool((topics > 0).all()), "topics", "all in use", "one of weight zero", "Leave it out.")
        return cls(topics, joint / topics[:, None], form.words, inverse_temperature)

    @property
    def asymmetric(self) -> ByDocument:
        r"""$p(d)$, $p(z \mid d)$, $p(w \mid z)$: the same distribution of pairs."""
        joint = np.asarray(self.topics)[:, None] * np.asarray(self.documents)
        marginal = joint.sum(0)
        uniform = np.full(joint.shape, 1 / len(joint))  # an empty document says nothing of its topics
        shares = np.divide(joint, marginal, out=uniform, where=marginal > 0)
        return ByDocument(marginal, shares.T, np.asarray(self.words))

    @property
    def num_parameters(self) -> int:
        """How many numbers describe the table of all pairs."""
        return self.topics.size + self.documents.size + self.words.size

    def e_step(self, rows: Any, weights: Any) -> tuple[AspectCounts, Values]:
        """Expected counts and log-likelihood of pairs (document, word), each as often as it weighs."""
        pairs, n = np.asarray(rows), np.asarray(weights, float)
        shape = (self.documents.shape[1], self.words.shape[1])
        inside = ((pairs >= 0) & (pairs < np.array(shape))).all(1) | (n == 0)
        check(
            bool(inside.all()), "rows", f"pairs of a document and a word of {shape}", pairs[inside.argmin()]
        )
        present = n > 0
        table = sp.csr_matrix((n[present], tuple(pairs[present].T)), shape=shape)
        return self._expect(table)

    def m_step(self, stats: AspectCounts) -> "ProbabilisticLSA":
        """The most probable parameters; a topic without pairs keeps what it was."""
        c, tables = np.asarray(stats.topics), (np.asarray(stats.documents), np.asarray(stats.words))
        old = (np.asarray(self.documents), np.asarray(self.words))
        used = c[:, None] > 0
        new = [np.divide(t, t.sum(1, keepdims=True), out=o.copy(), where=used) for t, o in zip(tables, old)]
        return type(self)(c / c.sum(), new[0], new[1], self.inverse_temperature)

    def expected_log_joint(self, stats: AspectCounts) -> float:
        r"""Q: $\sum_z c(z)\log p(z) + \sum_{z,d}c(z, d)\log p(d \mid z) + \sum_{z,w}c(z, w)\log p(w \mid
        z)$."""
        parts = ((stats.topics, self.topics), (stats.documents, self.documents), (stats.words, self.words))
        return float(sum(xlogy(np.asarray(c), np.asarray(p)).sum() for c, p in parts))

    def log_likelihood(self, documents: Any) -> float:
        r"""$\sum n_{dw}\log p(d, w)$ of the documents that were fitted."""
        plain = type(self)(self.topics, self.documents, self.words)
        return float(plain._expect(as_corpus(documents).matrix)[1])

    def joint(self) -> np.ndarray:
        r"""The table $P = A\,\mathrm{diag}(p_z)\,B^\top$ of rank $K$ of all documents and words, in full."""
        return (np.asarray(self.documents).T * np.asarray(self.topics)) @ np.asarray(self.words)

    def fold_in(self, documents: Any, *, max_steps: int = 500, tol: float = 1e-9) -> np.ndarray:
        r"""$p(z \mid d)$ of new documents with $p(w \mid z)$ kept: EM, whose objective has no second
        maximum."""
        matrix, size = as_corpus(documents).matrix, len(np.asarray(self.topics))
        num_words = self.words.shape[1]
        check(matrix.shape[1] == num_words, "documents", f"counts of {num_words} words", matrix.shape[1])
        shares = np.full((matrix.shape[0], size), 1 / size)
        words, lengths = np.asarray(self.words).T.copy(), np.asarray(matrix.sum(1))
        before = -np.inf
        for _ in range(max_steps):
            ratios, value = _ratios(matrix, shares, words)
            new = shares * (ratios @ words)
            shares = np.divide(new, lengths, out=shares.copy(), where=lengths > 0)
            if value - before <= tol * (1 + abs(value)):
                break
            before = value
        return shares

    def _expect(self, matrix: Matrix) -> tuple[AspectCounts, np.ndarray]:
        b = self.inverse_temperature
        left = np.asarray(self.documents).T ** b
        right = ((np.asarray(self.topics)[:, None] * np.asarray(self.words)) ** b).T.copy()
        ratios, value = _ratios(matrix, left, right)
        documents = (left * (ratios @ right)).T
        words = (right * (ratios.T @ left)).T
        return AspectCounts(documents.sum(1), documents, words), np.asarray(value / b)


def _ratios(matrix: Matrix, left: np.ndarray, right: np.ndarray) -> tuple[Matrix, float]:
    r"""$n_{dw} / m_{dw}$ where $n$ is not zero, with $m = LR^\top$ looked at only there, and $\sum n\log
    m$."""
    owners, masses = pair_masses(matrix, left, right)
    if (masses == 0).any():
        at = int(np.argmin(masses))
        where = f"document {owners[at]} with word {matrix.indices[at]}"
        check(False, "documents", "possible under the topics", f"{where}, of probability zero",
              "Begin with probabilities that are positive.")  # fmt: skip
    ratios = sp.csr_matrix((matrix.data / masses, matrix.indices, matrix.indptr), shape=matrix.shape)
    return ratios, float(matrix.data @ np.log(masses))
