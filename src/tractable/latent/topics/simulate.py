r"""Documents drawn from latent Dirichlet allocation: a corpus whose topics are known.

Model.       $\beta_k \sim \mathrm{Dir}(\eta)$, $\theta_d \sim \mathrm{Dir}(\alpha)$, $N_d \sim
             \mathrm{Poisson}(m)$, $z_{dn} \sim \mathrm{Cat}(\theta_d)$, $w_{dn} \sim
             \mathrm{Cat}(\beta_{z_{dn}})$.
Cost.        $O(\sum_d N_d \log v)$: uniform numbers are looked up in cumulative probabilities.
References.  Blei, Ng and Jordan (2003).
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from tractable.core.checks import check, check_count, check_nonnegative
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.types import Key
from tractable.latent.topics.corpus import Corpus, as_corpus

__all__ = ["SimulatedCorpus", "simulate_corpus"]


class SimulatedCorpus(HostResult):
    """A corpus with what it was drawn from."""

    corpus: Corpus
    topics: np.ndarray = field(about="probabilities of words, one row per topic")
    shares: np.ndarray = field(about="shares of topics, one row per document")
    tokens: tuple[np.ndarray, ...] = field(show=False)  # (document, topic, word) of each token


@takes_key
def simulate_corpus(
    num_documents: int,
    num_topics: int = 10,
    num_words: int = 200,
    *,
    key: Key,
    length: Any = 50.0,
    document_prior: Any = 0.1,
    word_prior: Any = 0.05,
    topics: Any = None,
) -> SimulatedCorpus:
    """Documents of about `length` words (a Poisson number of that mean; or one whole number for each
    document).

    `topics` may be given as probabilities, one row per topic, instead of being drawn.

    >>> drawn = simulate_corpus(5, 2, 8, key=0, length=20)
    >>> drawn.corpus.num_documents, drawn.topics.shape
    (5, (2, 8))
    """
    numbers = generator(key)
    d, k, v = (check_count(n, x) for n, x in (("num_documents", num_documents), ("num_topics", num_topics),
                                              ("num_words", num_words)))  # fmt: skip
    if topics is None:
        topics = _dirichlet(numbers, np.broadcast_to(np.asarray(word_prior, float), (v,)), k)
    beta = np.asarray(topics, float)
    check(beta.ndim == 2 and np.allclose(beta.sum(1), 1) and (beta >= 0).all(), "topics",
          "probabilities of words, one row per topic", f"an array of shape {beta.shape}")  # fmt: skip
    shares = _dirichlet(numbers, np.broadcast_to(np.asarray(document_prior, float), (len(beta),)), d)
    check_nonnegative("length", length)
    lengths = numbers.poisson(length, d) if np.ndim(length) == 0 else np.asarray(length, np.int64)
    owners = np.repeat(np.arange(d), lengths)
    labels = _look_up(shares, owners, numbers.random(len(owners)))
    words = _look_up(beta, labels, numbers.random(len(owners)))
    names = tuple(f"w{j}" for j in range(beta.shape[1]))
    counts = sp.coo_matrix((np.ones(len(words)), (owners, words)), shape=(d, beta.shape[1]))
    return SimulatedCorpus(as_corpus(counts, names), beta, shares, (owners, labels, words))


def _dirichlet(numbers: np.random.Generator, concentration: np.ndarray, count: int) -> np.ndarray:
    r"""Draws by logarithms of gammas, $\log G_a = \log G_{a+1} + \log(U)/a$: none is zero in every entry."""
    a = np.broadcast_to(concentration, (count, len(concentration)))
    logs = np.log(numbers.standard_gamma(a + 1)) + np.log(numbers.random(a.shape)) / a
    weights = np.exp(logs - logs.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def _look_up(rows: np.ndarray, which: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """A draw from row `which[i]` of probabilities, for each i: rows are laid end to end on a line."""
    ends = np.cumsum(rows, axis=1)
    line = (ends / ends[:, -1:] + np.arange(len(rows))[:, None]).ravel()
    found = np.searchsorted(line, which + uniforms, side="right") - which * rows.shape[1]
    return np.minimum(found, rows.shape[1] - 1)
