"""Three notions of positivity, with the classical counter-examples, and what a matrix of values says."""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.kernels.base import Kernel
from tractable.kernels.checks import (
    falsify_psd,
    is_entrywise_nonnegative,
    is_psd,
    is_symmetric,
    leading_minors,
    noisy_gram,
    principal_minors,
    psd_report,
    quadratic_form,
)
from tractable.kernels.nonstationary import Linear
from tractable.kernels.stationary import RBF

METHODS = ("eigenvalues", "cholesky", "minors", "random")


class OneMinusCosine(Kernel):
    """Non-negative and symmetric, and not positive semi-definite."""

    def pair(self, x, y):
        return 1 - jnp.cos((x - y).sum())


def test_semidefinite_with_a_negative_entry():
    """x x' on {-1, 1}: eigenvalues 0 and 2, an entry -1."""
    gram = np.asarray(Linear().gram([-1.0, 1.0]))
    np.testing.assert_array_equal(gram, [[1, -1], [-1, 1]])
    np.testing.assert_allclose(np.linalg.eigvalsh(gram), [0, 2], atol=1e-15)
    assert is_psd(gram)
    assert not is_entrywise_nonnegative(gram)
    f = np.array([0.3, 2.0])  # f'Kf = (sum f_i x_i)^2
    np.testing.assert_allclose(quadratic_form(Linear(), [-1.0, 1.0], f), (f @ [-1.0, 1.0]) ** 2, rtol=1e-13)


def test_nonnegative_without_being_semidefinite():
    """1 - cos(x - x') on {0, pi}: eigenvalues 2 and -2; the witness (1, -1) gives -4."""
    kernel, points = OneMinusCosine(), [0.0, math.pi]
    gram = np.asarray(kernel.gram(points))
    np.testing.assert_allclose(gram, [[0, 2], [2, 0]], atol=1e-15)
    np.testing.assert_allclose(np.linalg.eigvalsh(gram), [-2, 2], rtol=1e-14)
    assert is_symmetric(gram)
    assert is_entrywise_nonnegative(gram)
    np.testing.assert_allclose(quadratic_form(kernel, points, [1.0, -1.0]), -4.0, rtol=1e-14)
    for method in METHODS:
        report = psd_report(gram, method=method, key=jr.key(0))
        assert not report
        assert report.witness @ gram @ report.witness < 0
        np.testing.assert_allclose(report.witness @ gram @ report.witness, report.value, rtol=1e-12)
        assert "Is not positive semi-definite" in repr(report)
    found = falsify_psd(kernel, jr.key(0))
    assert found.found
    np.testing.assert_allclose(quadratic_form(kernel, found.points, found.witness), found.value, rtol=1e-9)
    assert "Not positive semi-definite" in repr(found)


def test_leading_minors_do_not_suffice():
    """diag(0, -1): the leading minors are 0 and 0, and the last principal minor is -1."""
    matrix = np.diag([0.0, -1.0])
    np.testing.assert_array_equal(leading_minors(matrix), [0, 0])
    assert principal_minors(matrix) == {(0,): 0.0, (1,): -1.0, (0, 1): 0.0}
    for method in METHODS:
        assert not psd_report(matrix, method=method, key=jr.key(1))
    np.testing.assert_array_equal(psd_report(matrix, method="minors").witness, [0, 1])


@given(st.integers(0, 10**6), st.sampled_from([1, 3, 5]), st.booleans(), st.sampled_from([1e-8, 1.0, 1e8]))
def test_all_methods_agree_on_random_matrices(seed, size, definite, scale):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    values = rng.uniform(0.1, 1.0, size)
    values[0] = values[0] if definite else -0.3
    matrix = scale * (q * values) @ q.T
    for method in ("eigenvalues", "cholesky", "minors"):
        report = psd_report((matrix + matrix.T) / 2, method=method)
        assert bool(report) == definite
        if not definite:
            assert report.witness @ matrix @ report.witness < 0
        assert (report.witness is None) == definite


def test_rank_deficient_tables_pass_by_eigenvalues_and_with_jitter():
    gram = np.asarray(RBF(2.0).gram(np.linspace(0, 1, 12)))
    assert psd_report(gram)
    assert psd_report(gram, method="cholesky", jitter=1e-10)
    singular = np.ones((3, 3))
    assert psd_report(singular, method="minors")
    assert is_psd(singular)
    random = psd_report(singular, method="random", key=jr.key(2))
    assert random.verdict.sentence.startswith("Not disproved as positive semi-definite")


def test_asymmetry_is_no_kernel():
    matrix = np.array([[1.0, 0.3], [0.1, 1.0]])
    assert not is_symmetric(matrix)
    assert not is_psd(matrix)
    assert psd_report(matrix)  # of the symmetric part


def test_noise_belongs_to_each_row():
    points = [0.0, 0.0, 1.0]  # two observations at one place
    gram = RBF().gram(points)
    np.testing.assert_allclose(noisy_gram(RBF(), points, 0.25), gram + 0.25 * np.eye(3), rtol=1e-14)
    each = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(noisy_gram(RBF(), points, each), gram + np.diag(each), rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: psd_report(np.ones((2, 3))), "`matrix` must be a square matrix"),
        (lambda: psd_report([[np.nan]]), "`matrix` must be finite"),
        (lambda: psd_report(np.eye(2), method="guess"), "`method` must be one of 'eigenvalues'"),
        (lambda: psd_report(np.eye(2), method="random"), "`key` must be given"),
        (lambda: principal_minors(np.eye(20)), "`matrix` must be at most 14 rows wide"),
        (lambda: quadratic_form(RBF(), [0.0, 1.0], [1.0]), "`f` must be a vector of 2 weights"),
        (lambda: noisy_gram(RBF(), [0.0, 1.0], [1.0, 2.0, 3.0]), "`noise_variance` must be a number or"),
    ],
)  # fmt: skip
def test_wrong_matrices_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
