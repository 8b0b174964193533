"""Topics of 20,000 generated documents beside tomotopy, gensim and scikit-learn, with 100 topics.

All libraries get the same priors and make the same number of passes on one processor; the objective is the
perplexity of held-out words of other documents, computed by one function from the topics that each has found.
Seconds are those of the whole fit, the reading of the documents included.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks._children import Workload

NUM_DOCUMENTS, NUM_TOPICS, NUM_WORDS = 20_000, 100, 5_000
ALPHA, ETA = 0.1, 0.01
SWEEPS, STEPS = 50, 10


def documents() -> dict[str, Any]:
    """Two million words of training documents, and a thousand documents to judge by."""
    from tractable.latent import simulate_corpus

    options = {"document_prior": ALPHA, "word_prior": 0.02, "length": 100}
    drawn = simulate_corpus(NUM_DOCUMENTS + 1000, NUM_TOPICS, NUM_WORDS, key=0, **options)
    train, test = drawn.corpus.take(slice(0, NUM_DOCUMENTS)), drawn.corpus.take(slice(NUM_DOCUMENTS, None))
    return {"train": train, "test": test}


def perplexity(topics: np.ndarray, data: dict[str, Any]) -> float:
    """Of half of the words of each held-out document, given the other half."""
    from tractable.latent.topics.corpus import pair_masses
    from tractable.latent.topics.documents import document_posteriors

    seen, others = data["test"].split(key=1)
    topics = topics / topics.sum(1, keepdims=True)
    weights, alpha = np.ones(seen.num_documents), np.full(len(topics), ALPHA)
    shares = document_posteriors(seen.matrix, weights, np.log(topics), alpha).shares
    _, masses = pair_masses(others.matrix, shares / shares.sum(1, keepdims=True), topics.T.copy())
    return float(np.exp(-(others.counts @ np.log(masses)) / others.total))


Fit = Callable[[], Callable[[Any], float]]


def tractable_gibbs() -> Callable[[Any], float]:
    from tractable.latent.topics.gibbs import collapsed_gibbs

    options = {"document_prior": ALPHA, "word_prior": ETA, "num_sweeps": SWEEPS, "num_kept": 1}
    return lambda data: perplexity(collapsed_gibbs(data["train"], NUM_TOPICS, key=0, **options).topics, data)


def tomotopy_gibbs() -> Callable[[Any], float]:
    import tomotopy

    def fit(data: Any) -> float:
        model = tomotopy.LDAModel(k=NUM_TOPICS, alpha=ALPHA, eta=ETA, seed=0)
        model.optim_interval = 0
        words, offsets = data["train"].tokens()
        names = words.astype(str)
        for low, high in pairwise(offsets):
            model.add_doc(names[low:high].tolist())
        model.train(SWEEPS, workers=1, show_progress=False)
        order = np.array([int(word) for word in model.used_vocabs])
        topics = np.full((NUM_TOPICS, NUM_WORDS), 1e-12)
        topics[:, order] = [model.get_topic_word_dist(k) for k in range(NUM_TOPICS)]
        return perplexity(topics, data)

    return fit


def tractable_variational(online: bool) -> Fit:
    def load() -> Callable[[Any], float]:
        from tractable.inference import EM
        from tractable.latent import LatentDirichletAllocation
        from tractable.latent.topics.online import OnlineTopics

        def fit(data: Any) -> float:
            corpus, options = data["train"], {"document_prior": ALPHA, "word_prior": ETA}
            start = LatentDirichletAllocation.random(NUM_TOPICS, NUM_WORDS, key=0, **options)
            if online:
                run = OnlineTopics().fit(start, corpus.rows, chunk=2000)
            else:
                run = EM(tol=0.0, max_steps=STEPS).fit(start, corpus.rows)
            return perplexity(np.asarray(run.state.topics), data)

        return fit

    return load


def sklearn_variational(method: str, steps: int) -> Fit:
    def load() -> Callable[[Any], float]:
        from sklearn.decomposition import LatentDirichletAllocation

        def fit(data: Any) -> float:
            model = LatentDirichletAllocation(
                NUM_TOPICS, doc_topic_prior=ALPHA, topic_word_prior=ETA, learning_method=method,
                max_iter=steps, batch_size=2000, evaluate_every=-1, random_state=0,
                total_samples=NUM_DOCUMENTS,
            )  # fmt: skip
            return perplexity(model.fit(data["train"].matrix).components_, data)

        return fit

    return load


def gensim_online() -> Callable[[Any], float]:
    from gensim.models import LdaModel

    def fit(data: Any) -> float:
        words, counts, offsets = data["train"].words, data["train"].counts, data["train"].offsets
        bags = [list(zip(words[a:b].tolist(), counts[a:b].tolist())) for a, b in pairwise(offsets)]
        model = LdaModel(
            bags, NUM_TOPICS, id2word={j: str(j) for j in range(NUM_WORDS)}, chunksize=2000, passes=1,
            alpha=[ALPHA] * NUM_TOPICS, eta=ETA, eval_every=None, random_state=0, decay=0.7, offset=10.0,
        )  # fmt: skip
        return perplexity(model.get_topics().astype(float), data)

    return fit


WORKLOADS: dict[str, Workload] = {
    "topics-gibbs": Workload(
        documents, {"tractable": tractable_gibbs, "tomotopy": tomotopy_gibbs}, "held-out perplexity"
    ),
    "topics-batch": Workload(
        documents,
        {"tractable": tractable_variational(False), "scikit-learn": sklearn_variational("batch", STEPS)},
        "held-out perplexity",
        ("scikit-learn",),
    ),
    "topics-online": Workload(
        documents,
        {
            "tractable": tractable_variational(True),
            "scikit-learn": sklearn_variational("online", 1),
            "gensim": gensim_online,
        },
        "held-out perplexity",
    ),
}
