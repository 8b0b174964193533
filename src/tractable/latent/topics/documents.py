r"""Which topics the documents of a block use, given the topics: the local part of variational inference.

Model.       $\theta_d \sim \mathrm{Dir}(\alpha)$, each word's topic $z \sim \theta_d$, the word $w \mid z = k
             \sim \beta_k$; $q(\theta_d) = \mathrm{Dir}(\gamma_d)$. One document: `cavi_topics.topic_shares`.
Bound.       $\sum_w n_{dw}\log\sum_k e^{E\log\theta_{dk} + E\log\beta_{kw}} -
             \mathrm{KL}(\mathrm{Dir}(\gamma_d) \,\|\,\mathrm{Dir}(\alpha))$; with $\log\beta$ in place of its
             expectation, a bound of $\log p(w_d)$.
Engine.      One primitive, `settle_documents`, in NumPy or compiled: numba takes two seconds at first, which
             much work repays. Two blocks of documents, always the same, may run on two processors.
Cost.        $O(vk)$ per update of a document with $v$ different words; memory for the shares of the block.
References.  Blei, Ng and Jordan (2003); Hoffman, Blei and Bach (2010).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma

from tractable.core.checks import check
from tractable.core.interrupts import heard, in_threads
from tractable.distributions.kl_conjugate import dirichlet_kl
from tractable.distributions.multivariate import Dirichlet
from tractable.latent.topics.corpus import Matrix
from tractable.latent.topics.dirichlets import expected_log

__all__ = ["DocumentPosteriors", "document_posteriors"]

MUCH_WORK = (
    3e7  # words times topics times updates of one pass, from which on compiling pays within some passes
)
_ROOM = 2_000_000  # numbers that NumPy holds at once
_UPDATES = 20.0  # of a document, as a rule


class DocumentPosteriors(NamedTuple):
    """The Dirichlet of each document's topics, its bound, and expected counts of words by topic."""

    shares: np.ndarray  # (documents, topics): concentrations
    logs: np.ndarray  # (documents, topics): expected logarithms of the shares
    bounds: np.ndarray  # (documents,)
    statistics: np.ndarray  # (topics, words), each document as often as it weighs


def document_posteriors(
    matrix: Matrix,
    weights: np.ndarray,
    log_topics: np.ndarray,
    concentration: np.ndarray,
    *,
    max_steps: int = 100,
    tol: float = 1e-5,
    compiled: bool | None = None,
) -> DocumentPosteriors:
    r"""The local posterior of each row of counts, given $E\log\beta$ = `log_topics` (topics by words).

    `tol` is the change of a document's expected counts, as a part of its length, at which it is settled;
    `compiled` chooses the engine, which otherwise the amount of work does.
    """
    # arrays of JAX are read-only on the host, which compiled loops do not take
    weights, concentration = np.array(weights, float), np.array(concentration, float)
    highest = log_topics.max(0)
    finite = np.isfinite(highest)
    topics = np.exp(log_topics - np.where(finite, highest, 0.0)).T.copy()  # the best topic of each word has 1
    work = matrix.nnz * len(concentration) * _UPDATES
    settle = _loops() if (work > MUCH_WORK if compiled is None else compiled) else settle_documents
    found = _in_blocks(settle, matrix, weights, topics, concentration, max_steps, tol)
    gamma, log_mass, stats = found
    logs, lengths = expected_log(gamma), np.asarray(matrix.sum(1)).ravel()
    offset = matrix @ np.where(finite, highest, -np.inf) if not finite.all() else matrix @ highest
    mass = log_mass - lengths * digamma(gamma.sum(1)) + offset
    apart: Any = 0.0  # of one topic, whose share is known
    if gamma.shape[1] > 1:
        each: Any = (gamma, concentration)
        first, second = (Dirichlet(shares) for shares in each)
        apart = dirichlet_kl(first, second, logs)
    bounds = np.where(lengths > 0, mass - apart, 0.0)
    fix = "A word that no topic has is impossible: give every word a positive prior."
    check(not np.isnan(bounds).any(), "topics", "possible sources of every word", "a bound of NaN", fix)
    return DocumentPosteriors(gamma, logs, bounds, stats.T)


def settle_documents(
    offsets: np.ndarray, words: np.ndarray, counts: np.ndarray, weights: np.ndarray, topics: np.ndarray,
    alpha: np.ndarray, max_steps: int, tol: float, gamma: np.ndarray, log_mass: np.ndarray, stats: np.ndarray,
) -> None:  # fmt: skip
    """Fill `gamma` and `log_mass` of all documents, and add to `stats` (words by topics), in NumPy."""
    size = max(1, _ROOM // len(alpha))
    low = 0
    while low < len(offsets) - 1:  # as many documents as there is room for, at least one
        high = max(low + 1, int(np.searchsorted(offsets, offsets[low] + size, side="right")) - 1)
        span = slice(offsets[low], offsets[high])
        part = (offsets[low : high + 1] - offsets[low], words[span], counts[span])
        gamma[low:high], log_mass[low:high], each = _settle(*part, topics, alpha, max_steps, tol)
        owners = np.repeat(weights[low:high], np.diff(part[0]))[:, None]
        np.add.at(stats, part[1], owners * each)
        low = high


def _settle(
    offsets, words, counts, topics, alpha, max_steps, tol
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    whole = _Cells(np.diff(offsets), counts, topics[words])
    lengths = whole.sums(np.ones(len(words)))
    gamma = alpha + np.repeat(lengths[:, None] / len(alpha), len(alpha), axis=1)
    part, places = whole, np.arange(len(lengths))
    moving = lengths > 0
    for _ in range(max_steps):
        if 2 * np.count_nonzero(moving) <= len(places):  # what has settled is looked at no more
            part, places, moving = part.of(moving), places[moving], moving[moving]
        if not len(places):
            break
        before = gamma[places]
        strength, _ = _strengths(before)
        new = np.where(moving[:, None], alpha + strength * part.added(strength), before)
        moving = moving & (np.abs(new - before).sum(1) > tol * lengths[places])
        gamma[places] = new
    strength, highest = _strengths(gamma)
    spread, mass = whole.masses(strength)
    log_mass = whole.sums(np.log(mass)) + lengths * highest
    return gamma, log_mass, (counts / mass)[:, None] * spread * whole.held


def _strengths(gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exponentials of expected logarithms, the largest of each document taken off, and that."""
    logs = digamma(gamma)
    highest = logs.max(1, keepdims=True)
    return np.exp(logs - highest), highest[:, 0]


class _Cells:
    """Words of some documents, one after another: how many each document has, their counts and topics."""

    def __init__(self, sizes: np.ndarray, counts: np.ndarray, held: np.ndarray):
        self.sizes, self.counts, self.held = sizes, counts, held
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.table = sp.csr_matrix(
            (counts.copy(), np.arange(len(counts)), offsets), (len(sizes), len(counts))
        )

    def of(self, chosen: np.ndarray) -> "_Cells":
        """Those of the chosen documents."""
        cells = np.repeat(chosen, self.sizes)
        return _Cells(self.sizes[chosen], self.counts[cells], self.held[cells])

    def masses(self, strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The strengths of each word's document, and the mass that they give to it."""
        spread = np.repeat(strength, self.sizes, axis=0)
        return spread, np.einsum("ik,ik->i", spread, self.held)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums of values over the words of each document, as often as they stand there."""
        owners = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return np.bincount(owners, self.counts * values, len(self.sizes))

    def added(self, strength: np.ndarray) -> np.ndarray:
        """What the words of each document add to its topics."""
        np.divide(self.counts, self.masses(strength)[1], out=self.table.data)
        return self.table @ self.held


def _in_blocks(
    settle: Callable, matrix: Any, weights: np.ndarray, topics: np.ndarray, *options: Any
) -> tuple:
    """Two blocks of about as many words each, whatever the machine: the same sums with any number of
    threads."""
    num, size = matrix.shape[0], topics.shape[1]
    offsets, words = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    gamma, log_mass = np.empty((num, size)), np.empty(num)
    middle = int(np.searchsorted(offsets, offsets[-1] // 2)) if settle is not settle_documents else num
    spans = [span for span in ((0, middle), (middle, num)) if span[0] < span[1]]
    alpha, max_steps, tol = options

    def block(span: tuple[int, int]) -> np.ndarray:
        low, high = span
        stats, cells = np.zeros(topics.shape), slice(offsets[low], offsets[high])
        part = (offsets[low : high + 1] - offsets[low], words[cells], matrix.data[cells], weights[low:high])
        settle(*part, topics, alpha, max_steps, tol, gamma[low:high], log_mass[low:high], stats)
        return stats

    found = heard(lambda: list(in_threads(block, spans)))
    return gamma, log_mass, found[0] if len(found) == 1 else found[0] + found[1]


def _loops() -> Callable:
    """The compiled primitive, with its room."""
    from tractable.latent.topics import document_loops  # numba: half a second, then what it compiles

    loop: Any = document_loops.settle_documents

    def settle(offsets: np.ndarray, *arguments: Any) -> None:
        size = arguments[3].shape[1]
        most = int(np.diff(offsets).max(initial=1))
        loop(offsets, *arguments, np.empty((most, size)), np.empty((3, size)))

    return settle
