"""Power iteration: worked numbers of a link matrix, rates, sparse and functional products, failures."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from tractable.core import Status
from tractable.core.spectral import dominant_eigenpair, dominant_singular_triple

# links 1 -> 2, 3; 2 -> 1, 3, 4; 3 -> 1, 3; 4 -> 2, 3; columns sum to one
LINKS = np.array([[0, 1 / 3, 1 / 2, 0], [1 / 2, 0, 0, 1 / 2], [1 / 2, 1 / 3, 1 / 2, 1 / 2], [0, 1 / 3, 0, 0]])
STATIONARY = np.array([5, 3, 8, 1]) / 17


def error_after(steps):
    vector = dominant_eigenpair(LINKS, np.ones(4), max_steps=steps, tol=0.0).state.vector
    return np.abs(np.asarray(vector / vector.sum()) - STATIONARY).sum()


def test_link_matrix_from_ones():
    run = dominant_eigenpair(LINKS, np.ones(4))
    assert run.status is Status.converged
    vector = np.asarray(run.state.vector)
    np.testing.assert_allclose(vector * 4 / vector.sum(), np.array([20, 12, 32, 4]) / 17, rtol=1e-11)
    np.testing.assert_allclose(run.state.value, 1.0, rtol=1e-12)
    np.testing.assert_allclose(run.state.rate, 0.63188131, atol=5e-7)
    np.testing.assert_allclose(np.linalg.norm(vector), 1.0, rtol=1e-14)


def test_link_matrix_takes_37_steps_to_eight_digits():
    assert error_after(36) >= 1e-8
    assert error_after(37) < 1e-8


def test_the_error_falls_by_the_reported_rate():
    run = dominant_eigenpair(LINKS, np.ones(4))
    ratios = run.values[30:50] / run.values[29:49]
    np.testing.assert_allclose(ratios, run.state.rate, rtol=1e-4)


def test_sparse_dense_and_functional_products_agree():
    dense = dominant_eigenpair(LINKS, np.ones(4))
    for matrix in (
        scipy.sparse.csr_array(LINKS),
        scipy.sparse.coo_matrix(LINKS),
        lambda x: jnp.asarray(LINKS) @ x,
    ):
        other = dominant_eigenpair(matrix, np.ones(4))
        np.testing.assert_allclose(other.state.vector, dense.state.vector, rtol=1e-11)
        assert int(other.num_steps) == int(dense.num_steps)


def test_a_large_sparse_matrix_stays_sparse():
    size = 20_000
    ring = scipy.sparse.diags_array([np.full(size - 1, 0.25)] * 2, offsets=[-1, 1]) + scipy.sparse.eye_array(
        size
    )
    ring = scipy.sparse.csr_array(ring)
    ring[0, 0] = 3.0
    value = dominant_eigenpair(ring, tol=1e-10).state.value
    oracle = scipy.sparse.linalg.eigsh(ring, k=1, which="LM", return_eigenvectors=False)[0]
    np.testing.assert_allclose(value, oracle, rtol=1e-10)


def test_largest_modulus_may_be_negative():
    a = np.array([[-3.0, 1.0], [1.0, 2.0]])
    run = dominant_eigenpair(a)
    np.testing.assert_allclose(run.state.value, np.linalg.eigvalsh(a)[0], rtol=1e-11)
    np.testing.assert_allclose(a @ run.state.vector, run.state.value * run.state.vector, atol=1e-10)


def test_default_start_is_not_orthogonal_to_an_antisymmetric_answer():
    run = dominant_eigenpair(np.array([[2.0, -1.0], [-1.0, 2.0]]))  # from ones the answer would be 1
    np.testing.assert_allclose(run.state.value, 3.0, rtol=1e-12)


def test_two_eigenvalues_of_one_modulus_do_not_converge():
    run = dominant_eigenpair(np.diag([1.0, -1.0]), max_steps=50)
    assert run.status is Status.exhausted
    assert run.state.residual > 0.1
    rotation = np.array([[0.0, -1.0], [1.0, 0.0]])
    assert dominant_eigenpair(rotation, max_steps=50).status is Status.exhausted


def test_nilpotent_matrix_is_not_finite():
    run = dominant_eigenpair(np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert run.status is Status.not_finite


def test_dangling_page_loses_the_mass():
    leaking = np.array([[0, 0, 0, 0], [0, 0.5, 0, 0], [0.5, 0, 0, 0], [0.5, 0.5, 1, 0]])
    run = dominant_eigenpair(leaking, np.ones(4))
    np.testing.assert_allclose(run.state.value, 0.5, rtol=1e-11)


def test_largest_singular_triple():
    a = np.random.default_rng(0).normal(size=(6, 4))
    left, values, right = np.linalg.svd(a)
    run = dominant_singular_triple(a)
    assert run.status is Status.converged
    np.testing.assert_allclose(run.state.value, values[0], rtol=1e-12)
    np.testing.assert_allclose(run.state.left @ a @ run.state.right, values[0], rtol=1e-11)
    np.testing.assert_allclose(np.abs(run.state.right @ right[0]), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.abs(run.state.left @ left[:, 0]), 1.0, rtol=1e-12)
    np.testing.assert_allclose(run.state.rate, (values[1] / values[0]) ** 2, rtol=1e-3)
    sparse = dominant_singular_triple(scipy.sparse.csr_array(a))
    pair = dominant_singular_triple(
        (lambda x: jnp.asarray(a) @ x, lambda y: jnp.asarray(a).T @ y), np.ones(4)
    )
    np.testing.assert_allclose([sparse.state.value, pair.state.value], values[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dominant_eigenpair(np.ones((2, 3))), "`matrix` must be square"),
        (lambda: dominant_eigenpair(np.ones(3)), r"`matrix` must be a matrix with entries; got shape \(3,\)"),
        (lambda: dominant_eigenpair(np.array([[np.nan]])), "`matrix` must be finite"),
        (lambda: dominant_eigenpair(np.eye(2), np.zeros(2)), "`start` must be a vector other than zero"),
        (lambda: dominant_eigenpair(np.eye(2), np.ones(3)), r"`start` must be of shape \(2,\)"),
        (lambda: dominant_eigenpair(lambda x: x), "`start` must be given where `matrix` is a function"),
        (lambda: dominant_singular_triple(lambda x: x, np.ones(2)), "pair of functions"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
