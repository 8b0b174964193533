r"""How well topics predict words that they have not seen: perplexity by completion, and by left-to-right
sampling.

Completion.  Half of the words of each document say which topics it has; the other half is predicted,
             $\sum_w n_w\log\sum_k \hat\theta_k\beta_{kw}$. The split is by chance, the rest is not.
Evidence.    $p(w_d) = \prod_n p(w_n \mid w_{<n})$ by particles: each holds topics of the words so far, weighs
             $\sum_k\frac{m_k + \alpha_k}{n + A}\beta_{kw_n}$, and draws the next topic. The estimate of
             $p(w_d)$ has no bias; that of its logarithm is low by about half its variance, which is reported.
Perplexity.  $\exp\{-\sum_d \log p(w_d) / \sum_d N_d\}$, with the standard error over documents.
Cost.        One fold-in; particles times topics for each word.
References.  Wallach, Murray, Salakhutdinov and Mimno (2009); Buntine (2009).
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from tractable.core.checks import as_float, check, check_count
from tractable.core.estimate import Estimate
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.types import Key
from tractable.latent.topics.corpus import Corpus, as_corpus, pair_masses
from tractable.latent.topics.lda import LatentDirichletAllocation

__all__ = ["HeldOut", "completion", "left_to_right"]

_ROOM = 2_000_000  # numbers held at once


class HeldOut(HostResult):
    """The log-probability of the held-out words of each document, and how far chance moves it."""

    log_probs: np.ndarray
    lengths: np.ndarray = field(about="held-out words of each document")
    simulation_errors: np.ndarray = field(show=False)  # standard error of each log-probability, from sampling

    @property
    def log_likelihood(self) -> Estimate:
        """The sum over documents, with the error of the simulation alone."""
        error = np.sqrt((self.simulation_errors**2).sum())
        return Estimate(as_float("value", self.log_probs.sum()), as_float("error", error))

    @property
    def perplexity(self) -> Estimate:
        """The inverse of the mean probability of a word (geometric), with its error over such documents."""
        total = self.lengths.sum()
        rate = self.log_probs.sum() / total
        spread = np.sqrt(
            ((self.log_probs - rate * self.lengths) ** 2).sum() + (self.simulation_errors**2).sum()
        )
        value = np.exp(-rate)
        return Estimate(as_float("value", value), as_float("error", value * spread / total))

    _shown = ("perplexity", "lengths")


@takes_key
def completion(model: LatentDirichletAllocation, documents: Any, *, key: Key, share: float = 0.5) -> HeldOut:
    """Each document's words are divided by chance, `share` of them seen; the model predicts the others."""
    corpus = as_corpus(documents)
    seen, others = corpus.split(key=key, share=share)
    check(others.total > 0, "documents", "long enough to be divided", "no word held out")
    owners, masses = pair_masses(others.matrix, model.shares(seen), np.asarray(model.topics).T.copy())
    log_probs = np.bincount(owners, others.counts * np.log(masses), corpus.num_documents)
    return HeldOut(log_probs, others.lengths, np.zeros(corpus.num_documents))


@takes_key
def left_to_right(
    model: LatentDirichletAllocation, documents: Any, *, key: Key, num_particles: int = 20, num_runs: int = 4
) -> HeldOut:
    """The log-evidence of each document given the expected topics, with an error from independent runs."""
    corpus: Corpus = as_corpus(documents)
    check_count("num_runs", num_runs, 2)
    particles, numbers = check_count("num_particles", num_particles), generator(key)
    words, offsets = corpus.tokens()
    topics, alpha = np.asarray(model.topics), np.asarray(model.document_prior)
    block = max(1, _ROOM // (num_runs * particles * len(alpha)))
    log_probs, errors = np.zeros(corpus.num_documents), np.zeros(corpus.num_documents)
    for low in range(0, corpus.num_documents, block):
        span = np.arange(low, min(low + block, corpus.num_documents))
        lists = [words[offsets[d] : offsets[d + 1]] for d in span]
        runs = _particle_runs(lists, topics, alpha, (num_runs, particles), numbers)
        log_probs[span] = logsumexp(runs, axis=0) - np.log(num_runs)
        relative = np.exp(runs - log_probs[span])
        errors[span] = relative.std(0, ddof=1) / np.sqrt(num_runs)
    return HeldOut(log_probs, corpus.lengths, errors)


def _particle_runs(
    lists: list, topics: np.ndarray, alpha: np.ndarray, sizes: tuple[int, int], numbers: Any
) -> Any:
    """Estimates of the log-evidence of documents, one row per run."""
    (runs, particles), size = sizes, len(alpha)
    counts = np.zeros((runs, len(lists), particles, size))
    total = np.zeros((runs, len(lists)))
    lengths = np.array([len(each) for each in lists])
    for n in range(int(lengths.max(initial=0))):
        here = np.flatnonzero(lengths > n)
        word = np.array([lists[d][n] for d in here])
        joint = (counts[:, here] + alpha) * topics[:, word].T[:, None] / (n + alpha.sum())
        weights = joint.sum(-1)
        total[:, here] += np.log(weights.mean(-1))
        chosen = _systematic(weights, numbers)
        cumulative = np.cumsum(np.take_along_axis(joint, chosen[..., None], 2), axis=-1)
        aim = numbers.random(chosen.shape)[..., None] * cumulative[..., -1:]
        labels = np.minimum((cumulative <= aim).sum(-1), size - 1)
        moved = np.take_along_axis(counts[:, here], chosen[..., None], 2)
        np.put_along_axis(moved, labels[..., None], np.take_along_axis(moved, labels[..., None], -1) + 1, -1)
        counts[:, here] = moved
    return total


def _systematic(weights: np.ndarray, numbers: Any) -> np.ndarray:
    """Which particle each place is filled with, as often as it weighs, along the last axis."""
    size = weights.shape[-1]
    ends = np.cumsum(weights, axis=-1)
    ends = ends / ends[..., -1:] * size
    places = np.arange(size) + numbers.random((*weights.shape[:-1], 1))
    return np.minimum((ends[..., None, :] <= places[..., :, None]).sum(-1), size - 1)
