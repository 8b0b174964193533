"""Topics of documents: simulate, fit by EM and by Gibbs sampling, match, and judge on words not seen."""

import numpy as np

import tractable as tr
from tractable.inference import EM
from tractable.latent import LatentDirichletAllocation, simulate_corpus
from tractable.latent.topics.coherence import coherence, match_topics
from tractable.latent.topics.gibbs import collapsed_gibbs
from tractable.latent.topics.held_out import completion
from tractable.latent.topics.plsa import ProbabilisticLSA


def main():
    drawn = simulate_corpus(300, 5, 60, key=0, length=50, document_prior=0.1, word_prior=0.1)
    train, new = drawn.corpus.take(slice(0, 250)), drawn.corpus.take(slice(250, None))
    print(train)

    pairs, counts = train.pairs
    aspects = ProbabilisticLSA.random(5, train.num_documents, train.num_words, key=1)
    print("aspect model:", EM(tol=1e-6).fit(aspects, pairs, weights=counts).values[[0, -1]].round(1))

    priors = {"document_prior": 0.1, "word_prior": 0.1}
    start = LatentDirichletAllocation.seeded(train, 5, key=2, **priors)
    run = tr.fit(start, train.rows, EM(tol=1e-6))
    chain = collapsed_gibbs(train, 5, key=3, num_sweeps=200, **priors)
    print(run, chain, sep="\n")

    for name, model in (("variational", run.state), ("Gibbs", chain.model)):
        overlap = match_topics(drawn.topics, model.topics).overlap
        print(name, completion(model, new, key=4).perplexity, "overlap with the truth", overlap.round(3))
        print("  coherence", coherence(model.topics, train, count=5).round(2))
    for words in chain.model.top_words(4, train.vocabulary):
        print(" ", *words)

    best = match_topics(drawn.topics, chain.topics)
    shares = chain.shares[:, best.order]
    assert best.overlap.min() > 0.95
    assert np.abs(shares - drawn.shares[:250]).mean() < 0.05


if __name__ == "__main__":
    main()
