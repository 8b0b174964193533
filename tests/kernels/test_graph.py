"""Kernels on graphs, undirected and directed, and the neighbours of rows."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import expm

from tests.kernels.registry import ROWS, WEIGHTS
from tractable.kernels.asymmetric import (
    Attention,
    ConditionalProbability,
    NeighbourKernel,
    TKernel,
    Transition,
)
from tractable.kernels.graph import Diffusion, RegularisedLaplacian, laplacian
from tractable.kernels.nonstationary import Bilinear
from tractable.kernels.structured import Exponentiated


def test_diffusion_is_the_exponential_of_the_laplacian():
    graph = nx.karate_club_graph()
    L = nx.laplacian_matrix(graph).toarray().astype(float)
    np.testing.assert_allclose(laplacian(graph), L, rtol=1e-14)
    kernel = Diffusion(graph, beta=0.3)
    np.testing.assert_allclose(kernel.matrix(), expm(-0.3 * L), atol=1e-13)
    np.testing.assert_allclose(kernel.matrix().sum(1), np.ones(34), rtol=1e-12)  # heat is kept
    np.testing.assert_allclose(kernel.gram([0, 33, 5], [2]), expm(-0.3 * L)[[0, 33, 5]][:, [2]], atol=1e-13)
    normalised = nx.normalized_laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(laplacian(graph, normalised=True), normalised, atol=1e-14)
    np.testing.assert_allclose(
        Diffusion(graph, 1.5, normalised=True).matrix(), expm(-1.5 * normalised), atol=1e-13
    )
    np.testing.assert_allclose(
        RegularisedLaplacian(graph, 0.7).matrix(), np.linalg.inv(np.eye(34) + 0.7 * L), atol=1e-13
    )
    assert repr(kernel) == "Diffusion(values=float64[34], vectors=float64[34, 34], beta=0.3)"


def test_two_nodes_by_hand():
    """Eigenvalues 0 and 2: (1 +- e^(-2 beta)) / 2."""
    kernel = Diffusion(nx.path_graph(2), beta=0.5)
    np.testing.assert_allclose(kernel(0, 0), (1 + math.exp(-1)) / 2, rtol=1e-14)
    np.testing.assert_allclose(kernel(0, 1), (1 - math.exp(-1)) / 2, rtol=1e-14)


def test_parallel_edges_and_lonely_nodes():
    multi = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    assert laplacian(multi).tolist() == [[2, -2, 0], [-2, 3, -1], [0, -1, 1]]
    alone = np.zeros((3, 3))
    alone[0, 1] = alone[1, 0] = 2.0
    np.testing.assert_allclose(
        laplacian(alone, normalised=True), [[1, -1, 0], [-1, 1, 0], [0, 0, 0]], rtol=1e-14
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Diffusion(np.triu(WEIGHTS)), "`graph` must be undirected, with symmetric weights"),
        (lambda: Diffusion(-WEIGHTS), "`graph` must be of finite, non-negative weights"),
        (lambda: Diffusion(np.ones((2, 3))), "`graph` must be a graph or a square matrix of weights"),
        (lambda: Diffusion(WEIGHTS)(0, 5), r"`y` must be numbers of nodes from 0 to 4; got 5\.0"),
        (lambda: Diffusion(WEIGHTS).gram([0.5]), r"`X` must be numbers of nodes from 0 to 4; got 0\.5"),
        (lambda: Diffusion(WEIGHTS, beta=-1.0), "`beta` must be positive"),
        (lambda: Transition(np.triu(np.ones((3, 3)), 1)), "`graph` must be a graph with an edge out of each"),
        (lambda: Attention(np.ones((2, 3))), "`matrix` must be square"),
        (lambda: ConditionalProbability(ROWS).gram(ROWS[:, :2]), "`X` must be points of 3 columns"),
    ],
)  # fmt: skip
def test_wrong_graphs_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_transitions_of_a_directed_graph_are_probabilities():
    graph = nx.DiGraph([(0, 1), (0, 2), (1, 2), (2, 0)])
    gram = np.asarray(Transition(graph).gram([0, 1, 2]))
    np.testing.assert_array_equal(gram, [[0, 0.5, 0.5], [0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("kind", [ConditionalProbability, TKernel])
def test_neighbours_of_a_row_sum_to_one_and_are_not_symmetric(kind):
    kernel: NeighbourKernel = kind(ROWS, 0.6)
    gram = np.asarray(kernel.gram(ROWS))
    np.testing.assert_allclose(gram.sum(1), np.ones(len(ROWS)), rtol=1e-12)
    assert np.abs(gram - gram.T).max() > 1e-2
    assert not kernel.traits.symmetric
    far = kind(ROWS, 1e-3).gram(ROWS + 50.0, ROWS)  # each term underflows; their ratio does not
    assert np.isfinite(np.asarray(far)).all()


def test_attention_weights_are_a_softmax():
    W = np.array([[0.3, -0.2, 0.1], [0.4, 0.1, 0.0], [0.0, 0.5, -0.3]])
    gram = np.asarray(Attention(W).gram(ROWS, ROWS[:4]))
    scores = ROWS @ W @ ROWS[:4].T
    np.testing.assert_allclose(
        gram / gram.sum(1, keepdims=True), np.exp(scores) / np.exp(scores).sum(1)[:, None]
    )
    symmetric = W @ W.T
    np.testing.assert_allclose(
        Attention(symmetric).gram(ROWS), Exponentiated(Bilinear(symmetric)).gram(ROWS), rtol=1e-12
    )
