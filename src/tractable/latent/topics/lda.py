r"""Latent Dirichlet allocation: each document mixes topics, and each topic is a distribution over words.

Model.       Topics $\beta_k \sim \mathrm{Dir}(\eta)$; in document $d$ shares $\theta_d \sim
             \mathrm{Dir}(\alpha)$; for each of its $N_d$ words a topic $z_{dn} \sim \mathrm{Cat}(\theta_d)$
             and the word $w_{dn} \sim \mathrm{Cat}(\beta_{z_{dn}})$.
Belief.      $q(\beta_k) = \mathrm{Dir}(\lambda_k)$, with $\lambda$ = `topic_counts`: what a fit finds.
Statistics.  Expected counts of words by topic, $s_{kw} = \sum_d n_{dw}\phi_{dwk}$, which add over documents:
             $\lambda = \eta + s$. So `EM` climbs $\log p(D) \ge \sum_d \mathrm{bound}_d - \sum_k
             \mathrm{KL}(\mathrm{Dir}(\lambda_k)\,\|\,\mathrm{Dir}(\eta))$ over documents in memory, in
             chunks, from a stream or on a cluster; `OnlineTopics` takes natural-gradient steps,
             `collapsed_gibbs` samples.
Learning.    With `learn`, the M-step also moves $\alpha$ ("documents"), a symmetric $\eta$ ("words") or both
             to their best values under the same bound.
Cost.        $O(\mathrm{words} \times k)$ per update of all documents, some ten to fifty updates per step.
References.  Blei, Ng and Jordan (2003); Hoffman, Blei and Bach (2010).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_option, check_shape, has_values
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.support import positive
from tractable.core.types import Array, Key, Values
from tractable.distributions.kl_conjugate import dirichlet_kl
from tractable.distributions.multivariate import Dirichlet
from tractable.inference.variational.cavi_topics import expected_log_topics, topic_shares
from tractable.latent.topics.corpus import Corpus, as_corpus, rows_as_matrix
from tractable.latent.topics.dirichlets import expected_log, learn_symmetric
from tractable.latent.topics.documents import DocumentPosteriors, document_posteriors
from tractable.latent.topics.starts import seeded_counts

__all__ = ["LatentDirichletAllocation", "TopicStatistics"]

LEARN = ("nothing", "documents", "words", "both")


class TopicStatistics(NamedTuple):
    """What documents add: expected counts of words by topic, expected logarithms of shares, and how many."""

    words: Any  # (topics, words)
    log_shares: Any  # (topics,)
    documents: Any  # ()


class LatentDirichletAllocation(Module):
    r"""Topics of words and what is known of them; see the module for the model.

    `document_prior` is $\alpha$, `word_prior` $\eta$ and `topic_counts` $\lambda$, one row per topic. Begin
    with `LatentDirichletAllocation.random`, and fit with `tractable.fit(model, corpus.rows)`.

    >>> import tractable as tr
    >>> texts = ["cat dog cat", "stock bond", "dog cat", "bond stock"]
    >>> corpus = tr.latent.as_corpus([text.split() for text in texts])
    >>> start = LatentDirichletAllocation.seeded(corpus, 2, key=0)
    >>> model = tr.fit(start, corpus.rows).state
    >>> sorted(sorted(words) for words in model.top_words(2, corpus.vocabulary))
    [['bond', 'stock'], ['cat', 'dog']]
    """

    on_host: ClassVar[bool] = True
    slack: ClassVar[float] = 1e-4  # documents settle anew at each step, now and then at another fixed point

    document_prior: Values = field(support=positive, rank=1)
    word_prior: Values = field(support=positive, rank=1, show=False)
    topic_counts: Values = field(support=positive, rank=2)
    learn: str = field(static=True, default="nothing")
    max_updates: int = field(static=True, default=200, show=False)
    tol: float = field(static=True, default=1e-4, show=False)

    def __check_init__(self) -> None:
        check_option("learn", self.learn, LEARN)
        size = self.document_prior.shape[-1]
        check_shape("topic_counts", self.topic_counts, (size, self.word_prior.shape[-1]))

    @classmethod
    @takes_key
    def random(cls, num_topics: int, num_words: int, *, key: Key, document_prior: Any = None,
               word_prior: Any = None, **options: Any) -> "LatentDirichletAllocation":  # fmt: skip
        """A start whose topics differ a little. The priors are numbers or vectors; by default each sums to
        one for documents, and is 0.01 for each word."""
        k, v = check_count("num_topics", num_topics), check_count("num_words", num_words)
        alpha = np.broadcast_to(np.asarray(1 / k if document_prior is None else document_prior, float), (k,))
        eta = np.broadcast_to(np.asarray(0.01 if word_prior is None else word_prior, float), (v,))
        return cls(np.array(alpha), np.array(eta), generator(key).gamma(100.0, 0.01, (k, v)), **options)

    @classmethod
    @takes_key
    def seeded(
        cls, documents: Any, num_topics: int, *, key: Key, **options: Any
    ) -> "LatentDirichletAllocation":
        """A start from documents that are far apart, with the options of `random`: for few topics that differ
        much; `starts` says what was measured."""
        corpus = as_corpus(documents)
        plain = cls.random(num_topics, corpus.num_words, key=key, **options)
        counts = np.asarray(plain.word_prior) + seeded_counts(corpus, plain.num_topics, key)
        return cls(plain.document_prior, plain.word_prior, counts, plain.learn, plain.max_updates, plain.tol)

    @property
    def num_topics(self) -> int:
        return self.topic_counts.shape[0]

    @property
    def num_words(self) -> int:
        return self.topic_counts.shape[1]

    @property
    def topics(self) -> Values:
        """The expected probability of each word in each topic, one row per topic."""
        return self.topic_counts / self.topic_counts.sum(-1, keepdims=True)

    def e_step(self, rows: Any, weights: Any) -> tuple[TopicStatistics, Values]:
        """Statistics and bound of documents: a table of counts, or the pair of tables `Corpus.rows`."""
        if not has_values((rows, weights, self.topic_counts)):
            return self._traced_step(rows, weights)
        matrix = rows_as_matrix(rows, weights, self.num_words)
        found = self._posteriors(matrix, np.asarray(weights, float))
        w = np.asarray(weights, float)
        stats = TopicStatistics(found.statistics, w @ found.logs, w.sum())
        return stats, np.asarray(w @ np.where(w > 0, found.bounds, 0.0))

    def m_step(self, stats: TopicStatistics) -> "LatentDirichletAllocation":
        """The best belief about topics, and the best priors among those to be learnt."""
        xp = np if has_values((stats, self)) else jnp
        counts = xp.asarray(self.word_prior) + xp.asarray(stats.words)
        alpha, eta = self.document_prior, self.word_prior
        if self.learn in ("documents", "both"):
            alpha = (
                Dirichlet(alpha).from_stats((jnp.asarray(stats.log_shares / stats.documents),)).concentration
            )
        if self.learn in ("words", "both"):
            logs = expected_log(np.asarray(counts))
            eta = np.full(
                self.num_words, learn_symmetric(float(eta.mean()), float(logs.mean()), self.num_words)
            )
        return type(self)(alpha, eta, counts, self.learn, self.max_updates, self.tol)

    def log_prior(self) -> Values:
        r"""$-\sum_k \mathrm{KL}(\mathrm{Dir}(\lambda_k) \,\|\, \mathrm{Dir}(\eta))$: the part of the bound
        that no document sees."""
        if self.word_prior.shape[0] < 2:  # every topic is the one word there is
            return np.zeros(())
        prior = Dirichlet(self.word_prior)
        if not has_values(self):
            return -jax.vmap(lambda counts: dirichlet_kl(Dirichlet(counts), prior))(self.topic_counts).sum()
        return np.asarray(-dirichlet_kl(Dirichlet(self.topic_counts), prior).sum())

    def infer(self, documents: Any) -> DocumentPosteriors:
        """The topics of each document (fold-in): `shares` are concentrations, `bounds` bound each
        evidence."""
        corpus = self._corpus(documents)
        return self._posteriors(corpus.matrix, np.ones(corpus.num_documents))

    def shares(self, documents: Any) -> np.ndarray:
        """The expected share of each topic in each document; an empty document has those of the prior."""
        found = self.infer(documents).shares
        return found / found.sum(1, keepdims=True)

    def bound(self, documents: Any) -> float:
        """The lower bound of the log-evidence of documents as those that the topics are learnt from."""
        return float(self.infer(documents).bounds.sum() + self.log_prior())

    def top_words(self, count: int = 10, vocabulary: Sequence[str] | None = None) -> list[list]:
        """The most probable words of each topic, by name where a vocabulary is given, else by number."""
        topics = np.asarray(self.topics)
        check(vocabulary is None or len(vocabulary) == self.num_words, "vocabulary",
              f"the names of {self.num_words} words", len(vocabulary or ()))  # fmt: skip
        order = np.argsort(-topics, axis=1, kind="stable")[:, :count]
        return [[int(w) if vocabulary is None else vocabulary[w] for w in row] for row in order]

    def _corpus(self, documents: Any) -> Corpus:
        corpus = as_corpus(documents)
        must = f"counts of {self.num_words} words, as the model has"
        check(corpus.num_words == self.num_words, "documents", must, corpus.num_words)
        return corpus

    def _posteriors(self, matrix: Any, weights: np.ndarray) -> DocumentPosteriors:
        logs = expected_log(np.asarray(self.topic_counts))
        return document_posteriors(
            matrix, weights, logs, np.asarray(self.document_prior), max_steps=self.max_updates, tol=self.tol
        )

    def _traced_step(self, rows: Any, weights: Any) -> tuple[TopicStatistics, Array]:
        """The same by `topic_shares` of one document at a time, which passes through `jit`."""
        logs, alpha = expected_log_topics(self.topic_counts), self.document_prior
        if not isinstance(rows, tuple):
            rows = (jnp.broadcast_to(jnp.arange(self.num_words), jnp.shape(rows)), rows)

        def one(words: Array, counts: Array) -> tuple[Array, Array, Array]:
            found = topic_shares(counts, logs[:, words], alpha, max_steps=self.max_updates)
            return (
                found.statistics,
                found.bound,
                expected_log_topics(found.proportions.concentration[None])[0],
            )

        parts, bounds, shares = jax.vmap(one)(jnp.asarray(rows[0]), jnp.asarray(rows[1], float))
        parts = jnp.moveaxis(parts * weights[:, None, None], 1, 0).reshape(self.num_topics, -1)
        words = jnp.zeros_like(self.topic_counts).at[:, rows[0].reshape(-1)].add(parts)
        return TopicStatistics(words, weights @ shares, weights.sum()), weights @ bounds
