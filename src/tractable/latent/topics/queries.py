r"""Questions to an aspect model: what is alike, and what goes with what.

Topics.      $p(z \mid w) \propto p(z)p(w \mid z)$, $p(z \mid d) \propto p(z)p(d \mid z)$,
             $p(z \mid d, w) \propto p(z)p(d \mid z)p(w \mid z)$.
Alike.       Words (documents, topics) are compared by the cosine of the roots of their distributions over
             topics (topics: over words): the Bhattacharyya coefficient, 1 for equal ones, 0 for disjoint
             ones.
Together.    $p(w' \mid w) = \sum_z p(w' \mid z)p(z \mid w)$: words that co-occur, smoothed by the topics.
Cost.        One product of two thin tables.
References.  Hofmann (1999).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check_count
from tractable.latent.topics.plsa import ProbabilisticLSA

__all__ = [
    "cooccurring_words", "similar_documents", "similar_topics", "similar_words", "topics_of_document",
    "topics_of_pair", "topics_of_words",
]  # fmt: skip


def topics_of_words(model: ProbabilisticLSA) -> np.ndarray:
    r"""$p(z \mid w)$, one row per word; NaN for a word of probability zero."""
    return _normalised(np.asarray(model.topics) * np.asarray(model.words).T)


def topics_of_document(model: ProbabilisticLSA) -> np.ndarray:
    r"""$p(z \mid d)$, one row per document; NaN for a document of probability zero."""
    return _normalised(np.asarray(model.topics) * np.asarray(model.documents).T)


def topics_of_pair(model: ProbabilisticLSA, document: int, word: int) -> np.ndarray:
    r"""$p(z \mid d, w)$: which topic made this word in this document."""
    joint = (
        np.asarray(model.topics) * np.asarray(model.documents)[:, document] * np.asarray(model.words)[:, word]
    )
    return _normalised(joint[None])[0]


def cooccurring_words(model: ProbabilisticLSA, word: int, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
    r"""The words of highest $p(w' \mid w)$, and these probabilities."""
    with_it = topics_of_words(model)[word] @ np.asarray(model.words)
    return _top(with_it, count)


def similar_words(model: ProbabilisticLSA, word: int, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """The words whose topics are most alike those of `word` (itself left out), and how much."""
    return _alike(topics_of_words(model), word, count)


def similar_documents(
    model: ProbabilisticLSA, document: Any, count: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """The documents whose topics are most alike those of `document`: a number, or shares from `fold_in`."""
    return _alike(topics_of_document(model), document, count)


def similar_topics(model: ProbabilisticLSA, topic: int, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """The topics whose words are most alike those of `topic`."""
    return _alike(np.asarray(model.words), topic, count)


def _alike(shares: np.ndarray, which: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries by the cosine of the roots with one of them, which is left out, or with given shares."""
    if np.ndim(which) == 1:
        return _top(np.sqrt(shares) @ np.sqrt(np.asarray(which, float)), count)
    place = check_count("which", which, 0, len(shares) - 1)
    values = np.sqrt(shares) @ np.sqrt(shares[place])
    values[place] = -np.inf
    order, sizes = _top(values, min(count, len(shares) - 1))
    return order, sizes


def _top(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    # what has no value (a document without words) comes last
    order = np.argsort(np.where(np.isnan(values), np.inf, -values), kind="stable")[:count]
    return order, values[order]


def _normalised(joint: np.ndarray) -> np.ndarray:
    total = joint.sum(1, keepdims=True)
    return np.divide(joint, total, out=np.full(joint.shape, np.nan), where=total > 0)
