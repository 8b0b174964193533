"""The aspect model (pLSA) in both forms, streamed and stored, its questions; latent semantic analysis."""

import numpy as np
import pytest

from tractable.core.iterate import Status
from tractable.inference import EM
from tractable.latent.topics import queries
from tractable.latent.topics.corpus import as_corpus
from tractable.latent.topics.lsa import latent_semantic_analysis
from tractable.latent.topics.plsa import ByDocument, ProbabilisticLSA
from tractable.latent.topics.simulate import simulate_corpus

CORPUS = simulate_corpus(25, 3, 15, key=8, length=30, word_prior=1.0).corpus  # every word occurs
PAIRS, COUNTS = CORPUS.pairs
START = ProbabilisticLSA.random(3, 25, 15, key=2)


def stored_step(model, table):
    """One step of EM that stores every responsibility p(z | d, w): the slow oracle."""
    z, d, w = (np.asarray(each) for each in (model.topics, model.documents, model.words))
    joint = z[:, None, None] * d[:, :, None] * w[:, None, :]
    share = joint / joint.sum(0)
    counts = table * share
    c = counts.sum((1, 2))
    value = (table * np.log(joint.sum(0))).sum()
    return ProbabilisticLSA(c / c.sum(), counts.sum(2) / c[:, None], counts.sum(1) / c[:, None]), value


def test_streamed_iterates_are_the_stored_ones():
    table, stored, values = CORPUS.matrix.toarray(), START, []
    for _ in range(12):
        stored, value = stored_step(stored, table)
        values.append(value)
    for options in ({}, {"chunk": 40}):
        run = EM(tol=0.0, max_steps=12).fit(START, PAIRS, weights=COUNTS, **options)
        np.testing.assert_allclose(run.values, values, rtol=1e-12)
        for name in ("topics", "documents", "words"):
            np.testing.assert_allclose(getattr(run.state, name), getattr(stored, name), rtol=1e-8, atol=1e-13)


def test_a_pair_twice_is_a_pair_of_weight_two():
    single = np.repeat(PAIRS, COUNTS.astype(int), axis=0)
    a, b = (START.e_step(*data)[0] for data in ((PAIRS, COUNTS), (single, np.ones(len(single)))))
    for x, y in zip(a, b):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_the_likelihood_never_falls_and_both_forms_have_the_same():
    run = EM(tol=1e-8, max_steps=500).fit(START, PAIRS, weights=COUNTS)
    assert run.status is Status.converged
    assert (np.diff(run.values) > -1e-9).all()
    model, form = run.state, run.state.asymmetric
    by_document = form.documents[:, None] * (form.topics @ form.words)
    np.testing.assert_allclose(by_document, model.joint(), rtol=1e-12)
    value = (CORPUS.matrix.toarray() * np.log(np.where(CORPUS.matrix.toarray() > 0, by_document, 1))).sum()
    assert model.log_likelihood(CORPUS) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(form.documents, CORPUS.lengths / CORPUS.total, rtol=1e-9)  # p(d) is its share
    again = ProbabilisticLSA.from_asymmetric(form)
    np.testing.assert_allclose(again.joint(), model.joint(), rtol=1e-12)


def test_em_of_the_asymmetric_form_takes_the_same_steps():
    form, table = START.asymmetric, CORPUS.matrix.toarray()
    model = START
    for _ in range(5):
        joint = form.documents[:, None, None] * form.topics[:, :, None] * form.words[None]
        counts = table[:, None, :] * joint / joint.sum(1, keepdims=True)
        by_topic = counts.sum(0)
        lengths = counts.sum((1, 2))
        words = by_topic / by_topic.sum(1, keepdims=True)
        form = ByDocument(lengths / lengths.sum(), counts.sum(2) / lengths[:, None], words)
        model = model.m_step(model.e_step(PAIRS, COUNTS)[0])
    np.testing.assert_allclose((form.documents[:, None] * form.topics) @ form.words, model.joint(), rtol=1e-9)


def test_q_is_highest_at_the_next_model_and_bounds_the_gain():
    stats, value = START.e_step(PAIRS, COUNTS)
    better = START.m_step(stats)
    gain = better.expected_log_joint(stats) - START.expected_log_joint(stats)
    assert gain > 0
    assert better.log_likelihood(CORPUS) - float(value) >= gain
    for key in range(5):
        other = ProbabilisticLSA.random(3, 25, 15, key=key)
        assert other.expected_log_joint(stats) < better.expected_log_joint(stats)
    shares = np.asarray(stats.words) / np.asarray(stats.words).sum(1, keepdims=True)
    np.testing.assert_allclose(better.words, shares, rtol=1e-12)


def test_a_table_of_ten_thousand_squared_takes_few_numbers():
    """Ten thousand documents and words: K + 2 * 10^4 K numbers in place of 10^8."""
    model = ProbabilisticLSA.random(4, 10_000, 10_000, key=0)
    assert model.num_parameters == 4 + 2 * 10**4 * 4
    pairs = np.array([[0, 0], [0, 1], [999, 0]])  # (1, "the"), (1, "green"), (1000, "the")
    stats, value = model.e_step(pairs, np.ones(3))
    each = [
        np.log(sum(float(model.topics[k] * model.documents[k, d] * model.words[k, w]) for k in range(4)))
        for d, w in pairs
    ]
    assert float(value) == pytest.approx(sum(each), rel=1e-12)
    assert stats.topics.sum() == pytest.approx(3)
    assert stats.words[:, 0].sum() == pytest.approx(2)


def test_tempered_steps_climb_their_own_objective_and_end_at_em():
    cool = ProbabilisticLSA.random(3, 25, 15, key=2, inverse_temperature=0.7)
    run = EM(tol=1e-8, max_steps=300).fit(cool, PAIRS, weights=COUNTS)
    assert (np.diff(run.values) > -1e-9).all()
    z, d, w = (np.asarray(each) for each in (cool.topics, cool.documents, cool.words))
    powers = (z[:, None, None] * d[:, :, None] * w[:, None, :]) ** 0.7
    shares = powers / powers.sum(0) * CORPUS.matrix.toarray()
    stats, value = cool.e_step(PAIRS, COUNTS)
    np.testing.assert_allclose(stats.words, shares.sum(1), rtol=1e-10)
    assert float(value) == pytest.approx(
        (CORPUS.matrix.toarray() * np.log(powers.sum(0))).sum() / 0.7, rel=1e-12
    )


def test_fold_in_finds_the_documents_that_were_fitted():
    model = EM(tol=1e-10, max_steps=800).fit(START, PAIRS, weights=COUNTS).state
    found = model.fold_in(CORPUS, max_steps=3000, tol=1e-13)
    np.testing.assert_allclose(
        found @ np.asarray(model.words), model.asymmetric.topics @ np.asarray(model.words), atol=2e-3
    )
    assert np.allclose(model.fold_in(np.zeros((1, 15))), 1 / 3)
    with pytest.raises(ValueError, match="`documents` must be counts of 15 words"):
        model.fold_in(np.ones((1, 4)))


def test_questions_to_the_model():
    model = EM(max_steps=50).fit(START, PAIRS, weights=COUNTS).state
    z, d, w = (np.asarray(each) for each in (model.topics, model.documents, model.words))
    joint = z[:, None, None] * d[:, :, None] * w[:, None, :]
    np.testing.assert_allclose(
        queries.topics_of_words(model), (joint.sum(1) / joint.sum((0, 1))).T, rtol=1e-9
    )
    np.testing.assert_allclose(
        queries.topics_of_document(model), (joint.sum(2) / joint.sum((0, 2))).T, rtol=1e-9
    )
    np.testing.assert_allclose(
        queries.topics_of_pair(model, 2, 4), joint[:, 2, 4] / joint[:, 2, 4].sum(), rtol=1e-9
    )
    words, chances = queries.cooccurring_words(model, 3, 15)
    assert chances.sum() == pytest.approx(1)
    both = np.einsum("z,za,zb->ab", z, w, w)
    np.testing.assert_allclose(chances, (both[3] / both[3].sum())[words], rtol=1e-9)
    near, cosines = queries.similar_words(model, 3, 4)
    assert 3 not in near
    assert (np.diff(cosines) <= 0).all()
    assert queries.similar_documents(model, queries.topics_of_document(model)[7], 1)[1][0] == pytest.approx(1)
    assert len(queries.similar_topics(model, 0)[0]) == 2


def test_faults_of_the_aspect_model_are_named():
    with pytest.raises(ValueError, match="`rows` must be pairs of a document and a word"):
        START.e_step(np.array([[0, 99]]), np.ones(1))
    with pytest.raises(ValueError, match="`inverse_temperature` must be above 0"):
        ProbabilisticLSA.random(2, 3, 4, key=0, inverse_temperature=1.5)
    sure = ProbabilisticLSA(np.ones(1), np.full((1, 2), 0.5), np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError, match="document 0 with word 1, of probability zero"):
        sure.e_step(np.array([[0, 1]]), np.ones(1))


# --- latent semantic analysis --------------------------------------------------------------------------


@pytest.mark.cheap
@pytest.mark.parametrize("weighting", ["counts", "tf_idf"])
def test_lsa_is_the_truncated_decomposition(weighting):
    table = CORPUS.matrix.toarray()
    if weighting == "tf_idf":
        table = table * (np.log(26 / (1 + (table > 0).sum(0))) + 1)
        table /= np.linalg.norm(table, axis=1, keepdims=True)
    u, s, vt = np.linalg.svd(table)
    found = latent_semantic_analysis(CORPUS, 3, weighting=weighting)
    np.testing.assert_allclose(found.singular_values, s[:3], rtol=1e-10)
    low_rank = (u[:, :3] * s[:3]) @ vt[:3]
    np.testing.assert_allclose(found.documents @ found.components, low_rank, atol=1e-9)
    assert found.explained == pytest.approx((s[:3] ** 2).sum() / (s**2).sum())
    np.testing.assert_allclose(found.transform(CORPUS), found.documents, atol=1e-9)
    cosines = (low_rank.T @ low_rank)[4] / np.linalg.norm(low_rank, axis=0) / np.linalg.norm(low_rank[:, 4])
    _near, values = found.similar_words(4, 3)
    np.testing.assert_allclose(values, np.sort(np.delete(cosines, 4))[::-1][:3], rtol=1e-9)
    assert found.similar_documents(found.documents[6], 1)[0].tolist() == [6]
    assert 6 not in found.similar_documents(6, 5)[0]


def test_lanczos_and_dense_decompositions_agree_and_faults_are_named():
    corpus = simulate_corpus(150, 5, 90, key=1, length=40).corpus
    found = latent_semantic_analysis(corpus, 4)
    again = latent_semantic_analysis(corpus, 60)
    np.testing.assert_allclose(found.singular_values, again.singular_values[:4], rtol=1e-9)
    np.testing.assert_allclose(found.words, again.words[:, :4], atol=1e-7)
    with pytest.raises(ValueError, match="at most the rank of the counts, 1"):
        latent_semantic_analysis(np.ones((4, 3)), 2, weighting="counts")
    with pytest.raises(ValueError, match="at least one word"):
        latent_semantic_analysis(as_corpus(np.zeros((2, 2))), 1)
