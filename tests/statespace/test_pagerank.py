"""PageRank: the vectors of the notes, dense solutions, NetworkX, and bounds that hold."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csr_array

import tractable as tr
from tractable.statespace.pagerank import pagerank, simulate_surfer, surfer_chain

FOUR = [(0, 1), (0, 2), (1, 0), (1, 2), (1, 3), (2, 0), (2, 2), (3, 1), (3, 2)]
DANGLING = [(0, 2), (0, 3), (1, 1), (1, 3), (2, 3)]  # page 3 has no links
APART = [(0, 0), (0, 1), (1, 1), (2, 3), (3, 2), (3, 3)]  # two webs without a link between them


def dense(edges, size, p, v=None, dangling="uniform"):
    """The definition: the stationary vector of (1 - p) K + p v, by a linear system."""
    links = np.zeros((size, size))
    for i, j in edges:
        links[i, j] += 1
    v = np.full(size, 1 / size) if v is None else np.asarray(v) / np.sum(v)
    for i in np.flatnonzero(links.sum(1) == 0):
        own = np.eye(size)[i]
        links[i] = {"uniform": np.ones(size), "teleport": v, "others": 1.0 - own, "absorb": own}[dangling]
    links /= links.sum(1, keepdims=True)
    return np.linalg.solve(np.eye(size) - (1 - p) * links.T, p * v)


def test_four_pages():
    np.testing.assert_allclose(pagerank(FOUR, 0).scores, np.array([5, 3, 8, 1]) / 17, rtol=1e-13)
    found = tr.statespace.pagerank(FOUR)
    np.testing.assert_allclose(found, [0.27753969, 0.19485575, 0.43489544, 0.09270913], atol=5e-9)
    assert found.verdict.ok
    assert found.top(1)[0][0] == 2
    eigenvalues = np.sort(surfer_chain(FOUR, 0).spectrum().eigenvalues.real)
    np.testing.assert_allclose(eigenvalues, [-0.63188131, 0, 0.13188131, 1], atol=1e-8)


def test_a_page_without_links():
    """Mass leaks out of the bare matrix; every rule for it has the vector of the notes."""
    bare = np.zeros((4, 4))
    bare[tuple(np.array(DANGLING).T)] = [0.5, 0.5, 0.5, 0.5, 1.0]
    np.testing.assert_allclose(np.sort(np.abs(np.linalg.eigvals(bare))), [0, 0, 0, 0.5], atol=1e-8)
    np.testing.assert_allclose(pagerank(DANGLING, 0, dangling="absorb").scores, [0, 0, 0, 1], atol=1e-15)
    others = pagerank(DANGLING, 0, dangling="others")
    np.testing.assert_allclose(others.scores, np.array([2, 4, 3, 6]) / 15, rtol=1e-13)
    uniform = np.array([2, 4, 3, 8]) / 17
    np.testing.assert_allclose(pagerank(DANGLING, 0, dangling="uniform").scores, uniform, rtol=1e-13)
    np.testing.assert_allclose(pagerank(DANGLING, 0, dangling=[1, 1, 1, 1]).scores, uniform, rtol=1e-13)
    np.testing.assert_allclose(pagerank(DANGLING, 0, dangling=[2, 2, 2, 0]).scores, others.scores, rtol=1e-13)


@pytest.mark.cheap
@pytest.mark.parametrize("p", [0.15, 0.5])
def test_two_webs_apart(p):
    expected = np.array([p / (1 + p), 1 - p / (1 + p), 1 / (3 - p), 1 - 1 / (3 - p)]) / 2
    found = pagerank(APART, p)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert np.abs(found.scores - expected).sum() <= found.error_bound
    chain = surfer_chain(APART, p)
    assert np.abs(chain.spectrum().eigenvalues[1]) == pytest.approx(1 - p)
    np.testing.assert_allclose(chain.stationary(), expected, rtol=1e-13)
    if p == 0.15:
        np.testing.assert_allclose(found, [0.06521739, 0.43478261, 0.17543860, 0.32456140], atol=5e-9)


def test_without_teleportation_the_verdict_says_that_answers_are_many():
    found = pagerank(APART, 0)
    assert not found.verdict.ok
    assert "2 sets of pages are never left" in repr(found)
    np.testing.assert_allclose(found.scores, [0, 0.5, 1 / 6, 1 / 3], atol=1e-14)
    one = pagerank(APART, 0, personalisation={0: 1.0})
    np.testing.assert_allclose(one.scores, [0, 1, 0, 0], atol=1e-14)
    spectrum = surfer_chain(APART, 0).spectrum()
    np.testing.assert_allclose(np.sort(spectrum.eigenvalues.real), [-0.5, 0.5, 1, 1], atol=1e-12)
    np.testing.assert_allclose(pagerank(APART, 1).scores, 0.25)  # only teleportation


@st.composite
def webs(draw):
    size, seed = draw(st.integers(2, 12)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, size, (draw(st.integers(1, 3 * size)), 2))
    return size, [tuple(edge) for edge in edges.tolist()], rng.random(size)


@settings(max_examples=80)
@given(webs(), st.floats(0.01, 0.99), st.sampled_from(["uniform", "teleport", "others", "absorb"]))
def test_scores_are_the_dense_solution_within_the_bound(web, p, rule):
    size, edges, v = web
    sources, ends = np.array(edges).T
    found = pagerank((sources, ends), p, v, rule, num_pages=size)
    expected = dense(edges, size, p, v, rule)
    assert found.verdict.ok
    assert np.abs(found.scores - expected).sum() <= found.error_bound + 1e-13
    assert found.scores.sum() == pytest.approx(1, abs=1e-14)
    loose = pagerank((sources, ends), p, v, rule, num_pages=size, tol=1e-2)
    assert np.abs(loose.scores - expected).sum() <= loose.error_bound + 1e-13


@settings(max_examples=30)
@given(webs(), st.sampled_from(["uniform", "others", "absorb"]))
def test_without_teleportation_surfers_end_where_averages_do(web, rule):
    size, edges, v = web
    sources, ends = np.array(edges).T
    found = pagerank((sources, ends), 0, v, rule, num_pages=size)
    chain = surfer_chain(coo_array((np.ones(len(ends)), (sources, ends)), shape=(size, size)), 0, v, rule)
    assert found.num_closed == int(chain.classify().closed.sum())
    np.testing.assert_allclose(found.scores @ chain.transition, found.scores, atol=1e-13)


def test_all_inputs_are_one_web():
    expected = pagerank(FOUR).scores
    matrix = np.zeros((4, 4))
    matrix[tuple(np.array(FOUR).T)] = 1
    names = "wxyz"
    edges = [(names[i], names[j]) for i, j in FOUR]
    graph = nx.DiGraph(edges)
    for given_web in (matrix, csr_array(matrix), csc_array(matrix), coo_array(matrix), np.array(FOUR)):
        np.testing.assert_allclose(pagerank(given_web).scores, expected, rtol=1e-14)
    by_name = pagerank(edges)
    assert by_name.names == tuple("wxyz")
    np.testing.assert_allclose(by_name.scores, expected, rtol=1e-14)
    assert pagerank(graph)["y"] == pytest.approx(expected[2])
    assert pagerank(matrix, names=names)["y"] == pytest.approx(expected[2])
    weighted = pagerank((*np.array(FOUR).T, np.full(9, 7.0)))  # weights of a page matter by their ratios
    np.testing.assert_allclose(weighted.scores, expected, rtol=1e-12)
    twice = pagerank([*FOUR, FOUR[0]])  # a link that comes twice
    np.testing.assert_allclose(twice.scores, dense([*FOUR, FOUR[0]], 4, 0.15), atol=1e-10)


def test_as_networkx():
    graph = nx.gnp_random_graph(60, 0.03, seed=1, directed=True)
    favourites = {3: 1.0, 10: 2.0}
    for options, theirs in [({}, {}), ({"personalisation": favourites}, {"personalization": favourites})]:
        expected = nx.pagerank(graph, 0.85, tol=1e-14, max_iter=1000, **theirs)
        np.testing.assert_allclose(pagerank(graph, **options), [expected[i] for i in graph], atol=1e-10)
    social = nx.karate_club_graph()  # undirected, weighted
    expected = nx.pagerank(social, 0.85, tol=1e-14, max_iter=1000)
    np.testing.assert_allclose(pagerank(social), [expected[i] for i in social], atol=1e-10)


def test_several_readers_at_once():
    readers = np.array([[1.0, 0, 0, 0], [0, 0, 0, 2.0], [1, 1, 1, 1]])
    for rule in ("teleport", "uniform", "others", "absorb", [1.0, 0, 0, 1]):
        found = pagerank(DANGLING, 0.2, readers, rule)
        assert found.scores.shape == (3, 4)
        for row, reader in zip(found.scores, readers):
            np.testing.assert_allclose(row, pagerank(DANGLING, 0.2, reader, rule), atol=1e-10)
    apart = pagerank(APART, 0, readers)
    for row, reader in zip(apart.scores, readers):
        np.testing.assert_allclose(row, pagerank(APART, 0, reader).scores, atol=1e-14)
    # scores are linear in the personalisation where dangling pages do not follow it
    mixed = pagerank(DANGLING, 0.2, readers[0] / 1 + readers[1] / 2, "uniform").scores
    both = pagerank(DANGLING, 0.2, readers, "uniform").scores
    np.testing.assert_allclose(mixed, (both[0] + both[1]) / 2, atol=1e-10)


@pytest.mark.cheap
@pytest.mark.parametrize("rule", ["teleport", "others", "absorb"])
def test_surfers_are_as_often_on_a_page_as_it_scores(rule):
    found = simulate_surfer(DANGLING, 0.2, dangling=rule, key=0, num_steps=300, num_surfers=1000)
    expected = pagerank(DANGLING, 0.2, dangling=rule).scores
    # surfers are independent; within one, steps forget at 0.8 each: at most nine times the variance
    error = 3 * np.sqrt(expected * (1 - expected) / 300_000) + 5 / 300  # and the first steps
    assert (np.abs(found - expected) <= 3 * error).all()


def test_what_rounding_prevents_is_said():
    found = pagerank(FOUR, 0.15, tol=1e-18)
    assert not found.verdict.ok
    assert found.status.name == "stalled"
    assert found.error_bound < 1e-13
    cut = pagerank(FOUR, 0.01, max_steps=3)
    assert cut.status.name == "exhausted"
    assert not cut.verdict.ok


def test_many_pages_without_teleportation_are_not_certified():
    ring = (np.arange(1500), (np.arange(1500) + 1) % 1500)
    found = pagerank(ring, 0)  # begins at its equilibrium
    np.testing.assert_allclose(found.scores, 1 / 1500, rtol=1e-12)
    assert found.num_closed == 1
    assert "Not certified" in repr(found)


@pytest.mark.slow
def test_a_million_pages():
    rng = np.random.default_rng(0)
    n, m = 10**6, 10**7
    web = rng.integers(0, n, m, dtype=np.int32), (n * rng.random(m) ** 3).astype(np.int32)
    found = pagerank(web, num_pages=n)
    assert found.verdict.ok
    assert found.scores.sum() == pytest.approx(1)


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pagerank(FOUR, 1.2), "`teleport` must be a probability; got 1.2"),
        (lambda: pagerank(np.ones((2, 3))), r"square matrix of links, or edges; got shape \(2, 3\)"),
        (lambda: pagerank(-np.eye(3)), "zero or positive, and finite; got -1.0"),
        (lambda: pagerank(FOUR, dangling="nowhere"), "one of 'teleport', 'uniform', 'others', 'absorb'"),
        (lambda: pagerank(FOUR, personalisation={9: 1.0}), r"pages that there are; got \[9\]"),
        (lambda: pagerank(FOUR, personalisation=[0, 0, 0, 0.0]), "positive somewhere; got a total of 0"),
        (lambda: pagerank(FOUR, personalisation=[1.0]), r"4 weights, or rows of them; got shape \(1,\)"),
        (lambda: pagerank(FOUR, num_pages=3), "at least 4, as a link needs; got 3"),
        (lambda: pagerank((np.array([0, 1]), np.array([1]))), "one for each link"),
        (lambda: pagerank(FOUR, names="abc"), "one for each of 4 pages; got 3"),
        (lambda: pagerank(nx.DiGraph()), "a graph with pages"),
        (lambda: pagerank(np.array([[1.0]]) * 0, dangling="others"), "where there is one page"),
    ],
)
def test_faults_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
