r"""Whether the words of a topic stand together in documents, and which topics of two models are the same.

UMass.       The mean over pairs of top words, $j$ more probable than $i$, of $\log\frac{D(w_i, w_j) +
             1}{D(w_j)}$, with $D$ the number of documents that hold the words.
NPMI.        The mean of $\log\frac{p_{ij}}{p_ip_j} / (-\log p_{ij})$ with $p = D/\text{documents}$: 1 for
             words that are never apart, 0 for independent ones, -1 for words that never meet.
Matching.    The assignment of topics to topics with the least sum of squared distances between the roots of
             their probabilities (twice one less the Bhattacharyya coefficient).
Cost.        A product of the documents' sparse columns of top words; $O(k^2v)$ for matching.
References.  Mimno et al. (2011); Bouma (2009); Lau, Newman and Baldwin (2014).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, check_option
from tractable.inference.trust.labels import match_components
from tractable.latent.topics.corpus import as_corpus

__all__ = ["TopicMatch", "coherence", "match_topics"]


class TopicMatch(NamedTuple):
    """`order[k]` is the topic of the second model that is the topic k of the first; `overlap` from 0 to 1."""

    order: np.ndarray
    overlap: np.ndarray


def coherence(topics: Any, documents: Any, *, measure: str = "npmi", count: int = 10) -> np.ndarray:
    """The coherence of the `count` most probable words of each topic (rows of probabilities) in documents.

    NaN where a top word is in none of the documents (UMass): take the documents that were fitted.

    >>> apart = np.array([[1, 1, 0, 0], [2, 1, 0, 0], [0, 0, 1, 1]])
    >>> coherence(np.array([[0.5, 0.4, 0.1, 0.0], [0.4, 0.0, 0.5, 0.1]]), apart, count=2).round(9).tolist()
    [1.0, -1.0]
    """
    check_option("measure", measure, ("npmi", "umass"))
    corpus, rows = as_corpus(documents), np.asarray(topics, float)
    check(rows.ndim == 2 and rows.shape[1] == corpus.num_words, "topics",
          f"rows of {corpus.num_words} probabilities", f"shape {rows.shape}")  # fmt: skip
    check(2 <= count <= corpus.num_words, "count", f"from 2 to {corpus.num_words}", count)
    top = np.argsort(-rows, axis=1, kind="stable")[:, :count]
    has = corpus.matrix.tocsc()
    has.data[:] = 1.0
    return np.array([_measure(has, words, measure) for words in top])


def match_topics(first: Any, second: Any) -> TopicMatch:
    """Which topics of two fits (rows of probabilities) belong together.

    >>> match_topics([[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.9, 0.1]]).order.tolist()
    [1, 0]
    """
    a, b = np.sqrt(np.asarray(first, float)), np.sqrt(np.asarray(second, float))
    order = match_components(a, b)
    return TopicMatch(order, (a * b[order]).sum(1))


def _measure(has: Any, words: np.ndarray, measure: str) -> float:
    columns = has[:, words]
    together = (columns.T @ columns).toarray()
    alone = np.diag(together)
    later, earlier = np.tril_indices(len(words), -1)
    both = together[later, earlier]
    if measure == "umass":
        with np.errstate(divide="ignore"):
            values = np.log(both + 1) - np.log(alone[earlier])
        return float(np.where(alone[earlier] > 0, values, np.nan).mean())
    num = has.shape[0]
    values = np.full(len(both), -1.0)
    some, always = (both > 0) & (both < num), both == num
    p = both[some] / num
    values[some] = np.log(p * num * num / (alone[later] * alone[earlier])[some]) / -np.log(p)
    values[always] = 0.0  # words of every document say nothing of each other
    return float(values.mean())
