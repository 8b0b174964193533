"""Structured matrices: volumes against the Bartlett and the LKJ decompositions, extremes, bad input."""

import numpy as np
import pytest
from scipy import stats

from tractable.bijections.triangular import (
    CholeskyToCovariance,
    FillTriangular,
    OntoCorrelation,
    OntoCorrelationCholesky,
    OntoLowerCholesky,
    OntoPositiveDefinite,
)

FREE = np.array([0.3, -1.2, 0.5, 0.8, 0.1, -0.4])


def test_rows_fill_the_triangle():
    filled = FillTriangular().forward(np.arange(1.0, 7.0))
    np.testing.assert_array_equal(filled, [[1, 0, 0], [2, 3, 0], [4, 5, 6]])


def test_diagonal_of_a_cholesky_factor_is_an_exponential():
    lower, log_det = OntoLowerCholesky().forward_and_log_det(FREE)
    np.testing.assert_allclose(np.diag(lower), np.exp(FREE[[0, 2, 5]]), rtol=1e-15)
    np.testing.assert_allclose(log_det, FREE[[0, 2, 5]].sum(), rtol=1e-14)


def test_volume_of_covariances_is_that_of_the_wishart_density():
    # Bartlett: A = L L^T ~ W(nu, I) has independent L_ii^2 ~ chi^2(nu - i + 1) and L_ij ~ N(0, 1).
    lower, degrees = np.asarray(OntoLowerCholesky().forward(FREE)), 5.5
    cov, log_det = CholeskyToCovariance().forward_and_log_det(lower)
    diagonal = np.diag(lower)
    bartlett = stats.chi(degrees - np.arange(3)).logpdf(diagonal).sum()
    bartlett += stats.norm.logpdf(lower[np.tril_indices(3, -1)]).sum()
    wishart = stats.wishart(degrees, np.eye(3)).logpdf(np.asarray(cov))
    np.testing.assert_allclose(wishart + float(log_det), bartlett, rtol=1e-13)


def test_volume_of_correlations_is_that_of_the_uniform_density():
    # Uniform over 3 x 3 correlations, a set of volume pi^2 / 2: the partial correlations in column j are
    # 2 Beta(b, b) - 1 with b = 1 + (3 - 1 - j) / 2.
    x = np.array([0.7, -0.4, 1.1])  # rows of the strict triangle: (2,1), (3,1), (3,2)
    _, log_det = OntoCorrelation().forward_and_log_det(x)
    z, b = np.tanh(x), np.array([1.5, 1.5, 1.0])
    partial = stats.beta(b, b, loc=-1, scale=2).logpdf(z) + np.log(1 - z**2)
    np.testing.assert_allclose(np.log(2 / np.pi**2) + float(log_det), partial.sum(), rtol=1e-13)


def test_partial_correlations_are_those_of_the_regression():
    x = np.array([0.7, -0.4, 1.1])
    r = np.asarray(OntoCorrelation().forward(x))
    precision = np.linalg.inv(r)
    given_first = -precision[2, 1] / np.sqrt(precision[2, 2] * precision[1, 1])
    np.testing.assert_allclose([r[1, 0], r[2, 0], given_first], np.tanh(x), rtol=1e-13)


def test_strong_correlations_return():
    x = np.array([18.0, -9.0, 40.0])  # 1 - tanh(18)^2 is 1e-15
    lower, log_det = OntoCorrelationCholesky().forward_and_log_det(x)
    np.testing.assert_allclose((np.asarray(lower) ** 2).sum(1), 1.0, rtol=1e-14)
    back, inverse_log_det = OntoCorrelationCholesky().inverse_and_log_det(lower)
    np.testing.assert_allclose(back, x, rtol=1e-13)
    np.testing.assert_allclose(inverse_log_det, -log_det, rtol=1e-12)


def test_one_by_one():
    assert OntoCorrelation().forward(np.zeros(0)).tolist() == [[1.0]]
    assert OntoCorrelation().inverse(np.ones((1, 1))).shape == (0,)
    np.testing.assert_allclose(OntoPositiveDefinite().forward(np.array([np.log(3.0)])), [[9.0]], rtol=1e-15)


def test_a_covariance_is_exactly_symmetric():
    cov = np.asarray(OntoPositiveDefinite().forward(FREE))
    np.testing.assert_array_equal(cov, cov.T)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: FillTriangular().forward(np.zeros(4)),
            r"`x` must be of length d \(d \+ 1\) / 2 for a whole number d; got length 4",
        ),
        (lambda: OntoCorrelation().forward(np.zeros(2)), r"`x` must be of length d \(d - 1\) / 2"),
        (lambda: OntoPositiveDefinite().inverse(np.zeros((2, 3))), r"`y` must be of shape"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
