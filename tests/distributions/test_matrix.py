"""Matrix normal and LKJ: bridges to vectors and to correlations, limits, bad input."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats as stats

from tractable.distributions.matrix import LKJCholesky, MatrixNormal

ROWS = np.array([[2.0, 0.6], [0.6, 1.0]])
COLUMNS = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.4], [0.0, -0.4, 0.7]])
SIZE = 20_000  # as in the laws: the same compiled program draws
CENTRE = np.array([[0.5, -1.0, 2.0], [0.0, 1.0, -0.5]])


def test_matrix_normal_is_a_gaussian_vector_with_a_kronecker_covariance():
    d, x = MatrixNormal(CENTRE, ROWS, COLUMNS), CENTRE + np.arange(6.0).reshape(2, 3) ** 2
    law = stats.multivariate_normal(CENTRE.ravel(), np.kron(ROWS, COLUMNS))
    np.testing.assert_allclose(d.log_prob(x), law.logpdf(x.ravel()), rtol=1e-12)
    np.testing.assert_allclose(d.entropy(), law.entropy(), rtol=1e-12)
    np.testing.assert_allclose(d.variance.ravel(), np.diag(law.cov), rtol=1e-14)
    np.testing.assert_array_equal(d.mode, CENTRE)


def test_matrix_normal_draws_have_the_kronecker_covariance():
    draws = np.asarray(MatrixNormal(CENTRE, ROWS, COLUMNS).sample(jr.key(0), (SIZE,))) - CENTRE
    products = np.einsum("nij,nkl->nikjl", draws, draws)
    expected = np.einsum("ik,jl->ikjl", ROWS, COLUMNS)
    error = products.std(0) / np.sqrt(len(draws))
    assert (np.abs(products.mean(0) - expected) < 5 * error).all()


def test_matrix_normal_of_one_column_is_gaussian():
    d, x = MatrixNormal(CENTRE[:, :1], ROWS, np.eye(1)), np.array([1.0, -3.0])
    law = stats.multivariate_normal(CENTRE[:, 0], ROWS)
    np.testing.assert_allclose(d.log_prob(x[:, None]), law.logpdf(x), rtol=1e-13)


def test_only_the_product_of_the_two_scales_matters():
    x = CENTRE + 1
    swapped = MatrixNormal(CENTRE, 5 * ROWS, COLUMNS / 5)
    np.testing.assert_allclose(
        swapped.log_prob(x), MatrixNormal(CENTRE, ROWS, COLUMNS).log_prob(x), rtol=1e-13
    )


def test_two_by_two_correlation_is_a_beta_variable():
    r = np.array([-0.9, 0.0, 0.5, 0.999])
    factors = np.zeros((4, 2, 2))
    factors[:, 0, 0], factors[:, 1, 0], factors[:, 1, 1] = 1, r, np.sqrt(1 - r**2)
    for eta in (0.5, 1.0, 3.0):
        law = stats.beta(eta, eta, -1, 2)
        np.testing.assert_allclose(LKJCholesky(2, eta).log_prob(factors), law.logpdf(r), rtol=1e-11)
        np.testing.assert_allclose(LKJCholesky(2, eta).entropy(), law.entropy(), rtol=1e-12)


def test_large_concentration_is_the_identity():
    draws = np.asarray(LKJCholesky(3, 1e6).sample(jr.key(1), (SIZE,)))
    z = (draws @ draws.swapaxes(1, 2))[:, [1, 2, 2], [0, 0, 1]] * np.sqrt(2e6)
    assert (np.abs((z**2).mean(0) - 1) < 5 * np.sqrt(2 / SIZE)).all()


def test_small_concentration_keeps_a_positive_diagonal():
    """At 0.01 correlations are near one, and 1 - |w|^2 rounds to zero where its logarithm does not."""
    draws = np.asarray(LKJCholesky(3, 0.01).sample(jr.key(2), (SIZE,)))
    assert (np.diagonal(draws, axis1=1, axis2=2) > 0).mean() > 0.99
    assert (draws[:, 2, 2] < 1e-9).any()
    assert stats.kstest((1 + draws[:, 1, 0]) / 2, stats.beta(0.51, 0.51).cdf).pvalue > 1e-4
    np.testing.assert_allclose((draws**2).sum(-1), 1, rtol=1e-12)


def test_draws_are_lower_triangular_and_modes_need_a_peak():
    draws = np.asarray(LKJCholesky(3, 2.0).sample(jr.key(3), (SIZE,)))
    np.testing.assert_array_equal(draws, np.tril(draws))
    np.testing.assert_array_equal(LKJCholesky(3, 2.0).mode, np.eye(3))
    assert np.isnan(LKJCholesky(3, 1.0).mode).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: MatrixNormal(CENTRE, COLUMNS, COLUMNS),
            r"`row_cov` must be 2 by 2, one row for each row of `loc`",
        ),
        (
            lambda: MatrixNormal(CENTRE, ROWS, ROWS),
            r"`column_cov` must be 3 by 3, one row for each column of `loc`",
        ),
        (
            lambda: MatrixNormal(CENTRE, -ROWS, COLUMNS),
            r"`row_cov` must be a symmetric positive definite matrix",
        ),
        (lambda: MatrixNormal(CENTRE[0], ROWS, COLUMNS), r"`loc` must be an array with at least 2 axes"),
        (lambda: LKJCholesky(1, 2.0), r"`dim` must be a whole number of at least 2; got 1"),
        (lambda: LKJCholesky(2, 0.0), r"`concentration` must be positive and finite; got 0.0"),
        (
            lambda: LKJCholesky(3, 1.0).log_prob(jnp.eye(2)),
            r"`x` must be an array whose last axes have shape \(3, 3\)",
        ),
    ],
)
def test_bad_input_is_refused_by_name(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()
