"""Collapsed Gibbs sampling of topics against the enumerated posterior, and the franchise behind its prior."""

import itertools

import numpy as np
import pytest

from tractable.core.iterate import Status
from tractable.latent.topics import gibbs
from tractable.latent.topics.coherence import match_topics
from tractable.latent.topics.corpus import as_corpus
from tractable.latent.topics.franchise import draw_document_prior, draw_tables
from tractable.latent.topics.gibbs import collapsed_gibbs, log_joint
from tractable.latent.topics.lda import LatentDirichletAllocation
from tractable.latent.topics.simulate import simulate_corpus

DRAWN = simulate_corpus(80, 3, 20, key=4, length=20, document_prior=0.1, word_prior=0.2)
LISTS = [[0, 1, 0], [2, 1]]
ALPHA, ETA = np.array([0.4, 0.9]), np.array([0.3, 0.5, 0.8])


def posterior() -> dict[tuple[int, ...], float]:
    """The probability of each labelling of the five words, by the product of predictive probabilities."""
    found = {}
    for z in itertools.product(range(2), repeat=5):
        shares, topics, total, value = np.zeros((2, 2)), np.zeros((2, 3)), np.zeros(2), 1.0
        for (d, w), k in zip([(d, w) for d, words in enumerate(LISTS) for w in sorted(words)], z):
            value *= (shares[d, k] + ALPHA[k]) / (shares[d].sum() + ALPHA.sum())
            value *= (topics[k, w] + ETA[w]) / (total[k] + ETA.sum())
            shares[d, k] += 1
            topics[k, w] += 1
            total[k] += 1
        found[z] = value
    return {z: value / sum(found.values()) for z, value in found.items()}


def test_the_log_joint_is_the_chain_of_predictions():
    exact = posterior()
    words = [(d, w) for d, words in enumerate(LISTS) for w in sorted(words)]
    heights = {}
    for z in exact:
        counts, shares = np.zeros((3, 2)), np.zeros((2, 2))
        for (d, w), k in zip(words, z):
            counts[w, k] += 1
            shares[d, k] += 1
        heights[z] = log_joint(counts, shares, ALPHA, ETA)
    gaps = np.array([heights[z] - np.log(exact[z]) for z in exact])
    assert np.ptp(gaps) < 1e-10


@pytest.mark.parametrize("compiled", [True, False])
def test_labellings_come_as_often_as_they_are_probable(compiled):
    """The share of each of 32 labellings, judged by its effective number of independent draws."""
    exact, draws = posterior(), (40_000 if compiled else 4_000)
    priors = LatentDirichletAllocation(ALPHA, ETA, np.ones((2, 3)))
    numbers = np.random.default_rng(3)
    state = gibbs._State.begin(as_corpus(LISTS, ["a", "b", "c"]), priors, None, numbers)
    sweep = gibbs._loops(state) if compiled else gibbs.sweep_words
    seen = np.empty((draws, 5), np.int64)
    for i in range(draws):
        sweep(*state.arguments, numbers.random(5))
        seen[i] = state.labels
    codes = seen @ (2 ** np.arange(5)[::-1])
    for code, (_z, p) in enumerate(exact.items()):
        hits = (codes == code).astype(float)
        batches = hits.reshape(40, -1).mean(1)
        error = batches.std(ddof=1) / np.sqrt(40)
        assert abs(hits.mean() - p) < 4.5 * max(error, np.sqrt(p * (1 - p) / draws)), (code, hits.mean(), p)


def test_both_engines_draw_the_same_topics():
    chains = [collapsed_gibbs(DRAWN.corpus, 6, key=2, num_sweeps=6, compiled=each) for each in (False, True)]
    np.testing.assert_array_equal(chains[0].labels, chains[1].labels)
    np.testing.assert_allclose(chains[0].trace, chains[1].trace, rtol=1e-12)
    words, offsets = DRAWN.corpus.tokens()
    counts, shares, labels = np.zeros((20, 6)), np.zeros((80, 6)), chains[1].labels
    np.add.at(counts, (words, labels), 1)
    np.add.at(shares, (np.repeat(np.arange(80), np.diff(offsets)), labels), 1)
    model = chains[1].model
    exact = log_joint(counts, shares, np.asarray(model.document_prior), np.asarray(model.word_prior))
    np.testing.assert_allclose(chains[1].trace[-1], exact, rtol=1e-12)  # the sum of what each word has gained


def test_a_chain_finds_the_topics_and_says_whether_it_has_settled():
    options = {"document_prior": 0.1, "word_prior": 0.2}
    chain = collapsed_gibbs(DRAWN.corpus, 3, key=3, num_sweeps=300, **options)
    assert chain.status is Status.completed
    assert chain.verdict.ok, chain.verdict
    assert match_topics(DRAWN.topics, chain.topics).overlap.min() > 0.95
    np.testing.assert_allclose(chain.shares.sum(1), 1)
    np.testing.assert_allclose(chain.model.topics, chain.topics, atol=0.01)
    short = collapsed_gibbs(DRAWN.corpus, 3, key=3, num_sweeps=12, num_kept=12, **options)
    assert not short.verdict
    assert "Not settled" in repr(short)
    onward = collapsed_gibbs(DRAWN.corpus, 3, key=2, num_sweeps=40, labels=chain.labels, **options)
    assert abs(onward.trace[0] - chain.trace[-100:].mean()) < 6 * chain.trace[-100:].std()


def test_priors_are_learnt_from_the_counts():
    drawn = simulate_corpus(600, 3, 20, key=9, length=30, document_prior=[0.1, 0.3, 0.9], word_prior=0.2)
    chain = collapsed_gibbs(drawn.corpus, 3, key=0, num_sweeps=300, learn="both")
    order = match_topics(drawn.topics, chain.topics).order
    alpha = np.asarray(chain.model.document_prior)[order]
    np.testing.assert_allclose(alpha, [0.1, 0.3, 0.9], rtol=0.35)
    assert 0.1 < float(chain.model.word_prior[0]) < 0.4


def test_faults_are_named():
    with pytest.raises(ValueError, match="`labels` must be 5 topics from 0 to 1"):
        collapsed_gibbs(LISTS, 2, key=0, labels=[0, 1])
    with pytest.raises(ValueError, match="`documents` must be at least one word"):
        collapsed_gibbs(np.zeros((2, 3)), 2, key=0)
    with pytest.raises(ValueError, match="`num_kept`"):
        collapsed_gibbs(LISTS, 2, key=0, num_sweeps=3, num_kept=4)
    with pytest.raises(ValueError, match="`learn` must be one of"):
        collapsed_gibbs(LISTS, 2, key=0, learn="all")


def test_tables_of_a_restaurant_are_as_many_as_expected():
    numbers, alpha = np.random.default_rng(0), np.array([0.7, 2.0])
    counts = np.tile([[6.0, 3.0]], (20_000, 1))
    tables = draw_tables(alpha, counts, numbers)
    for k, n in enumerate((6, 3)):
        p = alpha[k] / (alpha[k] + np.arange(n))
        assert abs(tables[:, k].mean() - p.sum()) < 4 * np.sqrt((p * (1 - p)).sum() / 20_000)
        assert tables[:, k].min() >= 1


@pytest.mark.slow
def test_the_prior_of_the_franchise_is_drawn_from_its_posterior():
    """Geweke: with labels redrawn from the prior in between, the concentrations have their prior."""
    numbers, size, lengths = np.random.default_rng(1), 3, (4, 6)
    kept = []
    alpha = np.full(size, 0.3)
    for i in range(6_000):
        shares = [numbers.dirichlet(alpha) for _ in lengths]
        counts = np.stack([numbers.multinomial(n, p / p.sum()) for n, p in zip(lengths, shares)]).astype(
            float
        )
        alpha = draw_document_prior(alpha, counts, numbers)
        if i >= 500:
            kept.append((alpha.sum(), (alpha / alpha.sum()).max(), np.log(alpha.sum())))
    values = np.array(kept)
    prior_shares = numbers.dirichlet(np.full(size, 1 / size), 200_000).max(1)
    expected = np.array([1.0, prior_shares.mean(), -np.euler_gamma])
    batches = values[: len(values) // 50 * 50].reshape(50, -1, 3).mean(1)
    z = (values.mean(0) - expected) / (batches.std(0, ddof=1) / np.sqrt(50))
    assert (np.abs(z) < 4).all(), z


def test_unneeded_topics_stay_empty_under_the_hierarchical_prior():
    options = {"key": 0, "num_sweeps": 400, "word_prior": 0.2}
    flat = collapsed_gibbs(DRAWN.corpus, 15, **options)
    chain = collapsed_gibbs(DRAWN.corpus, 15, learn="hierarchical", **options)
    assert chain.num_used < flat.num_used
    largest = np.argsort(-np.bincount(chain.labels, minlength=15))[:3]
    assert match_topics(DRAWN.topics, chain.topics[largest]).overlap.min() > 0.8
    assert (np.asarray(chain.model.document_prior) > 0).all()
