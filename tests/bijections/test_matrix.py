"""Linear maps and whitening against dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tractable.bijections.matrix import LowerTriangular, MatrixMap, Orthogonal, Whitening

COV = np.array([[2.0, 1.0], [1.0, 2.0]])  # eigenvalues 1 and 3, eigenvectors (1, -1) and (1, 1) over sqrt 2
MEAN = np.array([1.0, -1.0])


def test_triangular_map_of_noise_has_the_gaussian_density():
    map_ = LowerTriangular(np.linalg.cholesky(COV), MEAN)
    x = np.array([0.4, 0.9])
    z, log_det = map_.inverse_and_log_det(x)
    log_p = stats.norm.logpdf(z).sum() + float(log_det)
    np.testing.assert_allclose(log_p, stats.multivariate_normal(MEAN, COV).logpdf(x), rtol=1e-14)


def test_general_map_of_noise_has_covariance_a_a_transposed():
    matrix = np.array(
        [[0.0, 2.0, 1.0], [1.0, -1.0, 0.5], [3.0, 0.2, 0.0]]
    )  # a zero pivot: LU must exchange rows
    map_ = MatrixMap(matrix, [1.0, 2.0, 3.0])
    x = np.array([0.4, 0.9, -2.0])
    z, log_det = map_.inverse_and_log_det(x)
    np.testing.assert_allclose(z, np.linalg.solve(matrix, x - [1.0, 2.0, 3.0]), rtol=1e-13)
    log_p = stats.norm.logpdf(z).sum() + float(log_det)
    oracle = stats.multivariate_normal([1.0, 2.0, 3.0], matrix @ matrix.T).logpdf(x)
    np.testing.assert_allclose(log_p, oracle, rtol=1e-12)
    np.testing.assert_allclose(map_.forward_and_log_det(z)[1], np.log(abs(np.linalg.det(matrix))), rtol=1e-13)


def test_whitened_coordinates_measure_the_mahalanobis_distance():
    whitening, x = Whitening(MEAN, COV), np.array([2.0, 0.5])
    y = whitening.forward(x)
    offset = x - MEAN
    expected = offset @ np.linalg.solve(COV, offset)  # (1, 1.5): 2/3 (1 - 1.5 + 2.25) = 7/6
    np.testing.assert_allclose(y @ y, expected, rtol=1e-14)
    np.testing.assert_allclose(whitening.squared_distance(x), 7 / 6, rtol=1e-14)
    np.testing.assert_allclose(whitening.inverse(y), x, rtol=1e-14)


def test_whitening_makes_the_covariance_the_identity():
    jacobian = np.asarray(jax.jacfwd(Whitening(MEAN, COV).forward)(jnp.zeros(2)))
    np.testing.assert_allclose(jacobian @ COV @ jacobian.T, np.eye(2), atol=1e-15)
    np.testing.assert_allclose(
        Whitening(MEAN, COV).forward_and_log_det(MEAN)[1], -0.5 * np.log(3.0), rtol=1e-14
    )


def test_axes_of_the_level_set_are_scaled_eigenvectors():
    axes = np.asarray(Whitening(MEAN, COV).axes)
    expected = np.array([[1.0, np.sqrt(3.0)], [-1.0, np.sqrt(3.0)]]) / np.sqrt(
        2.0
    )  # in columns, shortest first
    np.testing.assert_allclose(np.abs(axes), np.abs(expected), rtol=1e-14)
    np.testing.assert_allclose(axes @ axes.T, COV, rtol=1e-14)
    assert axes[0, 0] * axes[1, 0] < 0 < axes[0, 1] * axes[1, 1]


def test_reflections_are_orthogonal():
    map_ = Orthogonal([[1.0, 2.0, 2.0], [0.5, -1.0, 0.0]])
    q = np.asarray(jax.jacfwd(map_.forward)(jnp.zeros(3)))
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=1e-15)
    v = np.array([1.0, 2.0, 2.0])
    w = np.array([0.5, -1.0, 0.0])
    dense = (np.eye(3) - 2 * np.outer(w, w) / (w @ w)) @ (np.eye(3) - 2 * np.outer(v, v) / (v @ v))
    np.testing.assert_allclose(q, dense, atol=1e-15)


def test_widely_different_scales_keep_the_log_det():
    scales = np.array([1e-150, 1.0, 1e150, 1e-200])  # their product underflows
    assert float(
        LowerTriangular(np.diag(scales), np.zeros(4)).forward_and_log_det(np.zeros(4))[1]
    ) == pytest.approx(np.log(scales).sum(), rel=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: MatrixMap([[1.0, 2.0], [2.0, 4.0]], [0.0, 0.0]),
            r"`matrix` must be invertible; got rank 1 of 2",
        ),
        (lambda: MatrixMap(np.ones((2, 3)), [0.0, 0.0]), r"(`matrix` must be of shape|matrix)"),
        (lambda: LowerTriangular([[1.0, 2.0], [0.0, 1.0]], MEAN), r"`lower` must be lower triangular"),
        (lambda: LowerTriangular(np.eye(3), MEAN), r"(`shift` must be of shape \(3,\)|shift)"),
        (
            lambda: LowerTriangular(np.eye(2), MEAN).forward(np.zeros(3)),
            r"`x` must be of shape \(2,\); got shape \(3,\)",
        ),
        (
            lambda: Whitening(MEAN, np.ones((2, 2))),
            r"`cov` must be positive definite; got smallest eigenvalue",
        ),
        (lambda: Whitening(MEAN, -np.eye(2)), r"`cov` must be a symmetric positive semi-definite matrix"),
        (lambda: Orthogonal(np.zeros((1, 2))), r"`vectors` must be rows different from zero"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
