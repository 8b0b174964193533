"""Corpora, latent Dirichlet allocation by EM, online steps, and how it is judged on words not seen."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp

import tractable as tr
from tractable.core.chunks import chunks
from tractable.core.iterate import Status
from tractable.inference import EM
from tractable.inference.variational.cavi_topics import topic_shares
from tractable.latent.topics import documents as local
from tractable.latent.topics.coherence import coherence, match_topics
from tractable.latent.topics.corpus import as_corpus
from tractable.latent.topics.dirichlets import expected_log, learn_from_counts
from tractable.latent.topics.held_out import completion, left_to_right
from tractable.latent.topics.lda import LatentDirichletAllocation
from tractable.latent.topics.online import OnlineTopics, natural_step
from tractable.latent.topics.simulate import simulate_corpus
from tractable.latent.topics.starts import far_documents

PRIORS = {"document_prior": 0.2, "word_prior": 0.1}
DRAWN = simulate_corpus(60, 4, 30, key=5, length=25)
CORPUS = DRAWN.corpus
START = LatentDirichletAllocation.random(4, 30, key=1, **PRIORS)


def fitted(**options):
    return EM(tol=1e-7, **options).fit(START, CORPUS.rows)


# --- corpora -------------------------------------------------------------------------------------------


def test_every_form_of_documents_is_the_same_corpus():
    table = CORPUS.matrix.toarray()
    lists = [np.repeat(np.arange(30), row.astype(int)).tolist() for row in table]
    names = [f"w{j}" for j in range(30)]
    words = [[names[w] for w in document] for document in lists]
    forms = [table, sp.coo_matrix(table), jnp.asarray(table), pd.DataFrame(table, columns=names)]
    for form in forms:
        np.testing.assert_array_equal(as_corpus(form).matrix.toarray(), table)
    np.testing.assert_array_equal(as_corpus(lists, names).matrix.toarray(), table)
    np.testing.assert_array_equal(as_corpus(words, names).matrix.toarray(), table)
    words_of_rows, counts = CORPUS.rows
    again = np.zeros(table.shape)
    np.add.at(again, (np.arange(60)[:, None], words_of_rows), counts)
    np.testing.assert_array_equal(again, table)
    tokens, offsets = CORPUS.tokens()
    assert len(tokens) == CORPUS.total
    assert offsets[-1] == len(tokens)


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (
            np.array([[1.0, -2.0]]),
            r"`counts` must be zero or positive, and finite; got -2 for word '1' of document 0",
        ),
        (np.array([[1.0, 2.0], [np.nan, 1.0]]), "got nan for word '0' of document 1"),
        (["a text"], "`documents` must be lists of words; got the text"),
        ([[0, 1], [0.5]], "lists of words or of whole numbers"),
        ([[0, -1]], r"made of words of the vocabulary; got -1 in document 0"),
        (np.zeros((0, 3)), "at least one document"),
        (np.array([["a", "b"]]), "counts of words"),
        ([[]], "at least one word, or a `vocabulary`"),
    ],
)
def test_what_is_no_corpus_is_refused_by_place(documents, message):
    with pytest.raises((ValueError, TypeError), match=message):
        as_corpus(documents)


def test_words_outside_the_vocabulary_are_refused_or_ignored():
    with pytest.raises(ValueError, match=r"got 'dog' in document 1\. With `unknown='ignore'`"):
        as_corpus([["cat"], ["dog"]], ["cat"])
    found = as_corpus([["cat"], ["dog"]], ["cat", "cow"], unknown="ignore")
    assert found.empty_documents.tolist() == [1]
    assert found.words_never_seen.tolist() == [1]
    with pytest.raises(
        ValueError, match=r"whole numbers, to sample each word's topic; got 0\.5 for word '1'"
    ):
        as_corpus(np.array([[1, 0.5]])).tokens()


def test_halves_of_a_corpus_add_to_it():
    seen, others = CORPUS.split(key=0)
    np.testing.assert_array_equal((seen.matrix + others.matrix).toarray(), CORPUS.matrix.toarray())
    assert abs(seen.total - CORPUS.total / 2) < 4 * np.sqrt(CORPUS.total) / 2


def test_simulated_words_follow_their_topics_and_shares():
    drawn = simulate_corpus(4000, 3, 6, key=1, length=10, document_prior=[0.5, 1.0, 2.0])
    assert abs(drawn.corpus.total / 4000 - 10) < 4 * np.sqrt(10 / 4000)
    expected = np.array([0.5, 1, 2]) / 3.5
    np.testing.assert_allclose(drawn.shares.mean(0), expected, atol=4 * np.sqrt(0.25 / 4000))
    owners, labels, words = drawn.tokens
    for k in range(3):
        share = np.bincount(words[labels == k], minlength=6) / (labels == k).sum()
        error = 4 * np.sqrt(drawn.topics[k] * (1 - drawn.topics[k]) / (labels == k).sum())
        assert (np.abs(share - drawn.topics[k]) <= error + 1e-12).all()
    in_topic = np.bincount(owners[labels == 2], minlength=4000)
    lengths = np.bincount(owners, minlength=4000)
    residual = in_topic - lengths * drawn.shares[:, 2]
    assert abs(residual.sum()) < 4 * np.sqrt((lengths * drawn.shares[:, 2] * (1 - drawn.shares[:, 2])).sum())


# --- one document, both engines ------------------------------------------------------------------------


def test_documents_are_those_of_one_document_at_a_time():
    logs, alpha = expected_log(np.asarray(START.topic_counts)), np.asarray(START.document_prior)
    table = CORPUS.take(slice(0, 6)).matrix
    found = local.document_posteriors(table, np.ones(6), logs, alpha, max_steps=2000, tol=1e-13)
    one = [topic_shares(row, logs, alpha, max_steps=2000, tol=1e-15) for row in table.toarray()]
    gammas = np.stack([each.proportions.concentration for each in one])
    np.testing.assert_allclose(found.shares, gammas, rtol=1e-5)
    np.testing.assert_allclose(found.bounds, [float(each.bound) for each in one], rtol=1e-9)
    np.testing.assert_allclose(found.statistics, sum(np.asarray(each.statistics) for each in one), atol=1e-5)


def test_the_compiled_engine_is_the_same():
    logs, alpha = expected_log(np.asarray(fitted().state.topic_counts)), np.array([1e-3, 0.1, 1.0, 30.0])
    weights = np.arange(60) % 3.0
    plain, compiled = (
        local.document_posteriors(CORPUS.matrix, weights, logs, alpha, compiled=each)
        for each in (False, True)
    )
    for a, b in zip(plain, compiled):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_much_work_is_compiled_with_the_same_fit(monkeypatch):
    plain = EM(tol=0.0, max_steps=3).fit(START, CORPUS.rows, chunk=20)
    monkeypatch.setattr(local, "MUCH_WORK", 0)
    compiled = EM(tol=0.0, max_steps=3).fit(START, CORPUS.rows, chunk=20)
    np.testing.assert_allclose(compiled.values, plain.values, rtol=1e-9)


def test_learning_has_its_maxima():
    counts = np.array([[4.0, 0, 1], [3, 1, 0], [0, 4, 2], [1, 1, 1]])

    def height(alpha):
        n, total = counts.sum(1), alpha.sum()
        return (gammaln(total) - gammaln(n + total) + (gammaln(counts + alpha) - gammaln(alpha)).sum(1)).sum()

    best = learn_from_counts(np.ones(3), counts, num_steps=3000)
    even = learn_from_counts(np.ones(3), counts, num_steps=3000, symmetric=True)
    for k in range(3):
        move = np.eye(3)[k] * 1e-3
        assert height(best) >= max(height(best + move), height(best - move))
    assert height(even) >= max(height(even + 1e-3), height(even - 1e-3))
    assert np.ptp(even) == 0


# --- the model by EM -----------------------------------------------------------------------------------


@pytest.mark.cheap
@pytest.mark.parametrize("learn", ["nothing", "both"])
def test_the_bound_never_falls_and_its_parts_add_up(learn):
    start = LatentDirichletAllocation.random(4, 30, key=1, learn=learn, **PRIORS)
    run = EM(tol=1e-6).fit(start, CORPUS.rows)
    assert run.status is Status.converged
    assert (np.diff(run.values) > -1e-6).all()
    assert run.values[-1] == pytest.approx(run.state.bound(CORPUS), rel=1e-5)
    if learn == "both":
        assert run.values[-1] > fitted().values[-1]


def test_memory_chunks_weights_and_tables_give_the_same_fit():
    whole = EM(tol=0.0, max_steps=10).fit(START, CORPUS.rows)
    table = CORPUS.matrix.toarray()
    for data, options in ((table, {}), (CORPUS.rows, {"chunk": 16}), (table, {"chunk": 25})):
        run = EM(tol=0.0, max_steps=10).fit(START, data, **options)
        assert run.values[-1] == pytest.approx(whole.values[-1], rel=1e-9)
    weights = np.arange(60) % 3
    twice = np.repeat(np.arange(60), weights)
    a = EM(tol=0.0, max_steps=10).fit(START, CORPUS.rows, weights=weights.astype(float))
    b = EM(tol=0.0, max_steps=10).fit(START, CORPUS.take(twice).rows)
    np.testing.assert_allclose(a.state.topic_counts, b.state.topic_counts, rtol=1e-6)


def test_steps_pass_through_jit_with_the_same_numbers():
    exact = LatentDirichletAllocation.random(4, 30, key=1, max_updates=300, tol=1e-12, **PRIORS)
    rows, weights = tuple(table[:8] for table in CORPUS.rows), np.array([1.0, 2, 0, 1, 1, 1, 1, 1])
    stats, value = exact.e_step(rows, weights)
    traced, bound = jax.jit(lambda m, r, w: m.e_step(r, w))(
        exact, jax.tree.map(jnp.asarray, rows), jnp.asarray(weights)
    )
    np.testing.assert_allclose(stats.words, traced.words, atol=1e-4)
    assert float(bound) == pytest.approx(float(value), rel=1e-7)
    assert float(jax.jit(lambda m: m.log_prior())(exact)) == pytest.approx(float(exact.log_prior()), rel=1e-9)


def test_seeds_are_documents_far_apart():
    table = np.array([[3.0, 0, 0], [6, 0, 0], [0, 2, 0], [0, 0, 0], [0, 0, 4]])
    for key in range(5):
        chosen = far_documents(as_corpus(table), 3, jr.key(key)).tolist()
        assert {min(each, 1) if each < 2 else each for each in chosen} - {0, 1} == {2, 4}
    start = LatentDirichletAllocation.seeded(table, 3, key=0)
    assert float(start.topic_counts.sum()) == pytest.approx(table.sum() + 9 * 0.01)
    copies = LatentDirichletAllocation.seeded(np.ones((4, 3)), 3, key=0)  # nothing is far apart
    assert np.isfinite(EM().fit(copies, np.ones((4, 3))).values).all()


def test_true_topics_are_found():
    drawn = simulate_corpus(400, 4, 40, key=2, length=60, word_prior=0.1, document_prior=0.1)
    start = LatentDirichletAllocation.seeded(drawn.corpus, 4, key=3, document_prior=0.1, word_prior=0.1)
    run = EM(tol=1e-6).fit(start, drawn.corpus.rows)
    assert run.status is Status.converged
    model = run.state
    matched = match_topics(drawn.topics, model.topics)
    assert matched.overlap.min() > 0.98
    shares = model.shares(drawn.corpus)[:, matched.order]
    assert np.abs(shares - drawn.shares).mean() < 0.05


def test_online_steps_are_those_of_em_and_find_the_topics():
    stats, _ = START.e_step(CORPUS.rows, np.ones(60))
    whole = natural_step(START, stats, 60.0, 1.0)
    np.testing.assert_allclose(whole.topic_counts, START.m_step(stats).topic_counts, rtol=1e-12)
    drawn = simulate_corpus(400, 4, 40, key=2, length=60, word_prior=0.1, document_prior=0.1)
    start = LatentDirichletAllocation.random(4, 40, key=3, document_prior=0.1, word_prior=0.1)
    run = tr.fit(start, drawn.corpus.rows, OnlineTopics(passes=4), chunk=40)
    assert match_topics(drawn.topics, run.state.topics).overlap.min() > 0.97
    assert len(run.values) == 40
    assert run.values[-10:].mean() > run.values[:10].mean()
    with pytest.raises(ValueError, match="`total` must be given where a stream"):
        OnlineTopics().fit(START, chunks(lambda: iter(CORPUS.matrix.toarray()), 8))


def test_empty_documents_and_words_never_seen_are_harmless():
    table = np.zeros((5, 6))
    table[0, :2], table[1, 2:4], table[2, :2] = 3, 2, 1
    model = EM().fit(LatentDirichletAllocation.random(2, 6, key=0), as_corpus(table).rows).state
    assert np.isfinite(model.bound(table))
    np.testing.assert_allclose(model.shares(table)[3:], 0.5)
    tiny = LatentDirichletAllocation.random(2, 6, key=0, document_prior=1e-4, word_prior=1e-4)
    assert np.isfinite(EM().fit(tiny, as_corpus(table).rows).values).all()
    assert np.isfinite(EM().fit(tiny, as_corpus(table * 1e12).rows).values).all()
    with pytest.raises(ValueError, match="`documents` must be counts of 6 words"):
        model.shares(np.ones((2, 5)))


# --- words not seen ------------------------------------------------------------------------------------


def exact_evidence(words, topics, alpha) -> float:
    """Log p(words) by a sum over all labellings."""
    terms = []
    for z in itertools.product(range(len(alpha)), repeat=len(words)):
        n = np.bincount(z, minlength=len(alpha))
        shares = (
            gammaln(alpha.sum())
            - gammaln(len(words) + alpha.sum())
            + (gammaln(n + alpha) - gammaln(alpha)).sum()
        )
        terms.append(shares + sum(np.log(topics[k, w]) for k, w in zip(z, words)))
    return float(logsumexp(terms))


TINY = LatentDirichletAllocation(
    np.array([0.5, 1.5]), np.full(3, 0.5), np.array([[5.0, 1.0, 0.5], [0.5, 2.0, 6.0]])
)
LISTS = [[0, 0, 2, 1, 0], [2, 2, 1], [1], [0, 2, 0, 2, 0, 2]]


def test_left_to_right_is_the_evidence_with_its_error():
    exact = [exact_evidence(each, np.asarray(TINY.topics), np.asarray(TINY.document_prior)) for each in LISTS]
    found = left_to_right(TINY, as_corpus(LISTS, ["a", "b", "c"]), key=0, num_particles=200, num_runs=16)
    z = (found.log_probs - exact) / np.maximum(found.simulation_errors, 1e-12)
    assert (np.abs(np.where(found.lengths > 1, z, 0)) < 4).all(), z
    assert found.log_probs[2] == pytest.approx(exact[2], rel=1e-12)  # one word needs no chance
    assert found.simulation_errors.max() < 0.02
    assert float(found.perplexity.value) == pytest.approx(np.exp(-sum(found.log_probs) / 15))
    bounds = TINY.infer(as_corpus(LISTS, ["a", "b", "c"])).bounds
    assert (bounds <= np.array(exact) + 1e-9).all()


@pytest.mark.slow
def test_errors_of_left_to_right_are_honest():
    corpus = as_corpus(LISTS, ["a", "b", "c"])
    exact = sum(
        exact_evidence(each, np.asarray(TINY.topics), np.asarray(TINY.document_prior)) for each in LISTS
    )
    runs = [
        left_to_right(TINY, corpus, key=k, num_particles=50, num_runs=16).log_likelihood for k in range(200)
    ]
    z = np.array([(float(run.value) - exact) / float(run.standard_error) for run in runs])
    assert abs(z.mean()) < 0.5
    assert 0.8 < z.std() < 1.3


def test_completion_predicts_the_other_half():
    model = fitted().state
    found = completion(model, CORPUS, key=3)
    seen, others = CORPUS.split(key=3)
    mixed = model.shares(seen) @ np.asarray(model.topics)
    exact = (others.matrix.toarray() * np.log(mixed)).sum(1)
    np.testing.assert_allclose(found.log_probs, exact, rtol=1e-10)
    words = np.bincount(CORPUS.words, CORPUS.counts, 30) / CORPUS.total
    assert float(found.perplexity.value) < np.exp(
        -(words[words > 0] * np.log(words[words > 0])).sum()
    )  # better than no topics
    assert 0 < float(found.perplexity.standard_error) < 2


def test_coherence_by_counting_documents():
    table = (CORPUS.matrix.toarray() > 0).astype(float)
    topics = DRAWN.topics
    for measure in ("umass", "npmi"):
        found = coherence(topics, CORPUS, measure=measure, count=4)
        for k, words in enumerate(np.argsort(-topics, axis=1, kind="stable")[:, :4]):
            values = []
            for i, j in itertools.combinations(range(4), 2):
                both, first, second = (
                    (table[:, words[j]] * table[:, words[i]]).sum(),
                    *table[:, words[[i, j]]].sum(0),
                )
                p = both / 60
                npmi = np.log(p / (first * second / 3600)) / -np.log(p) if both else -1.0
                values.append(np.log((both + 1) / first) if measure == "umass" else npmi)
            assert found[k] == pytest.approx(np.mean(values))


def test_topics_print_and_name_their_words():
    model = fitted().state
    assert [len(words) for words in model.top_words(3, CORPUS.vocabulary)] == [3] * 4
    assert "Converged" in repr(fitted())
    assert "num_documents=60" in repr(CORPUS)
    assert CORPUS.word_number("w7") == 7
    assert CORPUS.word_name(7) == "w7"
