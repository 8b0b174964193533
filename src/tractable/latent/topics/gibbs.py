r"""Collapsed Gibbs sampling of latent Dirichlet allocation: shares and topics integrated out, words' topics
drawn.

Target.      $p(z, w) = \prod_d \frac{\Gamma(A)}{\Gamma(N_d + A)}\prod_k\frac{\Gamma(n_{dk} + \alpha_k)}
             {\Gamma(\alpha_k)} \cdot \prod_k \frac{\Gamma(H)}{\Gamma(n_k + H)}\prod_w\frac{\Gamma(n_{kw} +
             \eta_w)} {\Gamma(\eta_w)}$, with $A = \sum\alpha$, $H = \sum\eta$.
Estimates.   $\theta_{dk} = (n_{dk} + \alpha_k)/(N_d + A)$ and $\beta_{kw} = (n_{kw} + \eta_w)/(n_k + H)$,
             averaged over the draws that are kept.
Priors.      With `learn`, $\alpha$ ("documents"), a symmetric $\eta$ ("words") or both follow the counts by
             Minka's fixed point. "hierarchical" draws $\alpha = c\,b$, $b \sim \mathrm{Dir}(g/K)$, by the
             tables of the Chinese restaurant franchise: topics beyond those that the documents need stay
             empty, and with $K$ large the model is a hierarchical Dirichlet process.
Cost.        $O(k_d)$ per word and sweep with $k_d$ topics in its document, and $O(k)$ for the few words whose
             topic comes from the prior; about a tenth of a microsecond for a hundred topics.
References.  Griffiths and Steyvers (2004); Wallach, Mimno and McCallum (2009); Teh et al. (2006).
"""

from collections.abc import Callable
from typing import Any

import jax.random as jr
import numpy as np
from scipy.special import gammaln

from tractable.core.checks import check, check_count, check_option
from tractable.core.host_random import generator
from tractable.core.interrupts import heard
from tractable.core.iterate import Ended, Status
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.progress import progress_bar
from tractable.core.types import Key
from tractable.core.verdict import Verdict
from tractable.inference.trust.diagnostics import split_rhat
from tractable.latent.topics.corpus import Corpus, as_corpus
from tractable.latent.topics.dirichlets import learn_from_counts
from tractable.latent.topics.franchise import draw_document_prior
from tractable.latent.topics.lda import LatentDirichletAllocation

__all__ = ["TopicChain", "collapsed_gibbs", "log_joint"]

LEARN = ("nothing", "documents", "words", "both", "hierarchical")
MUCH_WORK = 60_000  # words drawn, from which on compiling pays
_EVERY = 10  # sweeps between two steps of the priors


class TopicChain(Ended, HostResult):
    """A chain of labellings: averages over the draws kept, and the log-joint of every sweep."""

    model: LatentDirichletAllocation
    shares: np.ndarray = field(about="mean shares of topics, one row per document")
    topics: np.ndarray = field(about="mean probabilities of words, one row per topic")
    labels: np.ndarray = field(show=False)  # of each word of the corpus's `tokens`, after the last sweep
    trace: np.ndarray = field(about="log p(words, topics) after each sweep")
    kept: int = field(static=True)
    code: int = field(static=True)

    @property
    def num_used(self) -> int:
        """How many topics hold a word after the last sweep."""
        return len(np.unique(self.labels))

    @property
    def verdict(self) -> Verdict:
        """Whether the log-joint of the kept sweeps wanders about one level: no proof, but its failure is
        one."""
        late = np.asarray(self.trace)[-max(self.kept, 1) :]
        if len(late) < 8 or not np.ptp(late):
            said = "Not judged: fewer than eight sweeps were kept, or nothing moves."
            return Verdict(bool(len(late) >= 8), said, {"kept": self.kept})
        worst = float(split_rhat(late[None]))
        numbers = {"rhat": worst, "kept": self.kept}
        level = f"(split R-hat {worst:.3g})"
        if worst < 1.1:
            said = (
                f"Settled: the log-joint of the kept sweeps has one level {level}; other modes are not seen."
            )
            return Verdict(True, said, numbers)
        said = f"Not settled: the log-joint still drifts {level}. Make more sweeps before keeping draws."
        return Verdict(False, said, numbers)


@takes_key
def collapsed_gibbs(
    documents: Any,
    num_topics: int,
    *,
    key: Key,
    num_sweeps: int = 200,
    num_kept: int | None = None,
    document_prior: Any = None,
    word_prior: Any = None,
    learn: str = "nothing",
    labels: Any = None,
    compiled: bool | None = None,
    progress: bool = False,
) -> TopicChain:
    """Redraw the topic of every word `num_sweeps` times; the last `num_kept` sweeps (half) are averaged.

    `labels` are the topics to begin with, one for each of the words of `Corpus.tokens`: to go on with a
    chain.

    >>> chain = collapsed_gibbs([[0, 1, 0, 1], [2, 3, 3], [1, 0], [3, 2, 2]], 2, key=1, num_sweeps=60)
    >>> bool((chain.shares[0].argmax() == chain.shares[2].argmax()) and chain.verdict.numbers["kept"] == 30)
    True
    """
    corpus = as_corpus(documents)
    check_option("learn", learn, LEARN)
    kept = max(num_sweeps // 2, 1) if num_kept is None else num_kept
    check_count("num_kept", kept, 1, check_count("num_sweeps", num_sweeps))
    priors = LatentDirichletAllocation.random(
        num_topics, corpus.num_words, key=jr.key(0), document_prior=document_prior, word_prior=word_prior
    )
    numbers = generator(key)
    state = _State.begin(corpus, priors, labels, numbers)
    work = state.words.size * num_sweeps
    sweep = _loops(state) if (work > MUCH_WORK if compiled is None else compiled) else sweep_words
    sums, trace, code, level = _Sums(state), [], Status.completed, state.log_joint()
    uniforms = np.empty(state.words.size)
    try:
        with progress_bar(num_sweeps, "Topics", progress=progress) as bar:
            for k in range(num_sweeps):
                if k and _learn(state, learn, k, numbers):
                    level = state.log_joint()
                level += heard(sweep, *state.arguments, numbers.random(out=uniforms))
                trace.append(level)
                if k >= num_sweeps - kept:
                    sums.add(state)
                bar.advance(1, log_joint=trace[-1])
    except KeyboardInterrupt:
        code = Status.interrupted
        if sums.count == 0:  # nothing to average yet
            raise
    return sums.chain(state, np.array(trace), code)


def log_joint(counts: np.ndarray, shares: np.ndarray, alpha: np.ndarray, eta: np.ndarray) -> float:
    r"""$\log p(z, w)$ from counts of words by topic (words by topics) and of topics by document."""
    documents = gammaln(shares + alpha).sum() - gammaln(shares.sum(1) + alpha.sum()).sum()
    constant = len(shares) * (gammaln(alpha.sum()) - gammaln(alpha).sum())
    words = gammaln(counts + eta[:, None]).sum() - gammaln(counts.sum(0) + eta.sum()).sum()
    return float(documents + constant + words + counts.shape[1] * (gammaln(eta.sum()) - gammaln(eta).sum()))


def sweep_words(words, offsets, labels, counts, totals, alpha, eta, uniforms) -> float:
    """Redraw `labels` in place, with `counts` (words by topics) and `totals` of topics (sum of eta within);
    returns by how much the log-joint rises."""
    floors, rise = _floors(totals), 0.0
    for d in range(len(offsets) - 1):
        low, high = int(offsets[d]), int(offsets[d + 1])
        own = np.bincount(labels[low:high], minlength=len(alpha)).astype(float)
        active = list(dict.fromkeys(labels[low:high].tolist()))  # in the order of the compiled loop
        for i in range(low, high):
            w, k = int(words[i]), int(labels[i])
            counts[w, k] -= 1
            own[k] -= 1
            totals[k] -= 1
            if totals[k] < floors[k]:
                floors[k] = _floors(totals[k])
            row = counts[w] + eta[w]
            each = row / totals
            before = (own[k] + alpha[k]) * each[k]
            k = _draw_topic((own * each)[active], alpha * each, active, (alpha / floors) @ row, uniforms[i])
            if k not in active:
                active.append(k)
            rise += np.log((own[k] + alpha[k]) * each[k] / before)
            labels[i] = k
            counts[w, k] += 1
            own[k] += 1
            totals[k] += 1
    return float(rise)


def _draw_topic(near, anywhere, active: list[int], bound: float, uniform: float) -> int:
    """One of the topics of a document by the masses `near`, or of all by `anywhere`, whose sum is below
    `bound`: beyond it the draw is made again from the exact sums, with what is left of the uniform."""
    near, anywhere = np.cumsum(near), np.cumsum(anywhere)
    aim = uniform * (near[-1] + bound) - near[-1]
    if aim >= anywhere[-1]:
        left = (aim - anywhere[-1]) / (bound - anywhere[-1])
        aim = left * (near[-1] + anywhere[-1]) - near[-1]
    if aim >= 0:
        return int(np.searchsorted(anywhere[:-1], aim, side="right"))
    return active[int(np.searchsorted(near[:-1], aim + near[-1], side="right"))]


def _floors(totals: Any) -> Any:
    """What totals of topics do not soon sink to."""
    return totals - np.minimum(2 * np.sqrt(totals), totals / 2)


class _State:
    """The labels of all words and what is counted of them; sweeps change it in place."""

    def __init__(self, words, offsets, labels, alpha, eta):
        self.words, self.offsets, self.labels, self.alpha = words, offsets, labels, alpha
        self.owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets.astype(np.int64)))
        self.counts = np.zeros((len(eta), len(alpha)), np.int32)
        np.add.at(self.counts, (words, labels), 1)
        self.set_word_prior(eta)

    @classmethod
    def begin(cls, corpus: Corpus, priors: LatentDirichletAllocation, labels: Any, numbers: Any) -> "_State":
        words, offsets = corpus.tokens()
        check(words.size > 0, "documents", "at least one word", "none")
        size = priors.num_topics
        first = numbers.integers(0, size, words.size) if labels is None else np.asarray(labels)
        fine = first.shape == words.shape and first.min() >= 0 and first.max() < size
        check(fine, "labels", f"{words.size} topics from 0 to {size - 1}", f"an array of shape {first.shape}")
        alpha, eta = np.array(priors.document_prior, float), np.array(priors.word_prior, float)
        return cls(words.astype(np.uint32), offsets.astype(np.uint64), first.astype(np.uint32), alpha, eta)

    def set_word_prior(self, eta: np.ndarray) -> None:
        self.eta = eta
        self.totals = self.counts.sum(0, dtype=np.int64) + eta.sum()

    @property
    def arguments(self) -> tuple:
        return self.words, self.offsets, self.labels, self.counts, self.totals, self.alpha, self.eta

    def shares(self) -> np.ndarray:
        """Counts of topics, one row per document."""
        shape = (len(self.offsets) - 1, len(self.alpha))
        flat = np.bincount(
            self.owners * shape[1] + self.labels.astype(np.int64), minlength=shape[0] * shape[1]
        )
        return flat.reshape(shape).astype(float)

    def log_joint(self) -> float:
        return log_joint(self.counts, self.shares(), self.alpha, self.eta)


class _Sums:
    """Running sums of the estimates over the draws that are kept."""

    def __init__(self, state: _State):
        self.count, self.topics, self.shares, self.counts = 0, 0.0, 0.0, np.zeros(state.counts.shape)

    def add(self, state: _State) -> None:
        own = state.shares() + state.alpha
        self.topics = self.topics + (state.counts + state.eta[:, None]) / state.totals
        self.shares = self.shares + own / own.sum(1, keepdims=True)
        self.counts += state.counts
        self.count += 1

    def chain(self, state: _State, trace: np.ndarray, code: Status) -> TopicChain:
        model = LatentDirichletAllocation(
            state.alpha, state.eta, (self.counts / self.count + state.eta[:, None]).T
        )
        shares, topics = np.asarray(self.shares) / self.count, np.asarray(self.topics).T / self.count
        return TopicChain(model, shares, topics, state.labels.astype(np.int64), trace, self.count, int(code))


def _learn(state: _State, learn: str, sweep: int, numbers: np.random.Generator) -> bool:
    """Whether there are new priors."""
    if learn == "hierarchical":
        state.alpha = draw_document_prior(state.alpha, state.shares(), numbers)
        return True
    if learn == "nothing" or sweep % _EVERY:
        return False
    if learn in ("documents", "both"):
        state.alpha = learn_from_counts(state.alpha, state.shares())
    if learn in ("words", "both"):
        state.set_word_prior(learn_from_counts(state.eta, state.counts.T.astype(float), symmetric=True))
    return True


def _loops(state: _State) -> Callable:
    """The compiled sweep, with its room."""
    from tractable.latent.topics import gibbs_loops  # numba: half a second, then what it compiles

    size = len(state.alpha)
    sweep: Any = gibbs_loops.sweep
    width = size + gibbs_loops.WIDTH
    room, places = np.empty((gibbs_loops.ROWS, width)), np.zeros((2, width), np.uint32)
    bounds = np.empty(len(state.eta))
    return lambda *arguments: sweep(*arguments, room, places, bounds)
