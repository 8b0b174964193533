"""Factors, the jitter policy, low-rank changes and square roots, against dense NumPy algebra."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core import factors
from tractable.core import linalg as la


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def spd(rng):
    a = rng.normal(size=(4, 6))
    return a @ a.T


@pytest.fixture(scope="module")
def singular(rng):
    a = rng.normal(size=(4, 2))
    return a @ a.T


def test_factor_solves_and_measures(rng, spd):
    b = rng.normal(size=(4, 2))

    @jax.jit
    def answers(a, b):
        factor = la.psd_factor(a)
        return factor, factor.solve(b), la.psd_solve(a, b[:, 0]), factor.half_solve(b[:, 0]), la.log_det(a)

    factor, both, first, half, log_det = answers(spd, b)
    np.testing.assert_allclose(np.asarray(factor.lower) @ np.asarray(factor.lower).T, spd, rtol=1e-13)
    np.testing.assert_allclose(both, np.linalg.solve(spd, b), rtol=1e-10)
    np.testing.assert_allclose(first, np.linalg.solve(spd, b[:, 0]), rtol=1e-10)
    np.testing.assert_allclose(
        np.sum(np.asarray(half) ** 2), b[:, 0] @ np.linalg.solve(spd, b[:, 0]), rtol=1e-11
    )
    np.testing.assert_allclose(log_det, np.linalg.slogdet(spd)[1], rtol=1e-13)
    assert factor.jitter == 0.0


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_jitter_is_relative_reported_and_no_larger_than_asked(singular, scale):
    a = jnp.asarray(scale * singular)
    assert np.isnan(la.psd_factor(a - 1e-9 * scale * jnp.eye(4)).lower).any()
    factor = la.psd_factor(a - 1e-9 * scale * jnp.eye(4), largest_jitter=1e-6)
    added = np.asarray(factor.lower @ factor.lower.T - a) + 1e-9 * scale * np.eye(4)
    mean_diagonal = scale * np.trace(singular) / 4
    np.testing.assert_allclose(added, factor.jitter * np.eye(4), atol=1e-14 * mean_diagonal)
    assert 1e-9 * scale < factor.jitter <= 1.0001e-6 * mean_diagonal
    fixed = la.psd_factor(a, jitter=1e-3)
    np.testing.assert_allclose(fixed.jitter, 1e-3 * mean_diagonal, rtol=1e-13)


def test_no_jitter_is_added_where_none_is_needed(spd):
    factor = la.psd_factor(jnp.asarray(spd), largest_jitter=1e-6)
    assert factor.jitter == 0.0
    np.testing.assert_array_equal(factor.lower, la.psd_factor(jnp.asarray(spd)).lower)


def test_jitter_rises_tenfold_and_only_as_far_as_needed():
    a = jnp.asarray(np.diag([2.0, -1e-9]))  # needs more than 1e-9 on a mean diagonal of about 1
    factor = la.psd_factor(a, largest_jitter=1e-2)
    np.testing.assert_allclose(factor.jitter, 1e-8, rtol=1e-6)


@pytest.mark.parametrize(
    "matrix", [np.diag([1.0, -1.0]), -np.eye(2), np.zeros((2, 2)), np.full((2, 2), np.nan)]
)
def test_what_has_no_factor_is_nan(matrix):
    factor = la.psd_factor(jnp.asarray(matrix), largest_jitter=1e-3)
    assert np.isnan(factor.lower).any()
    assert np.isnan(factor.log_det())


def test_factor_with_jitter_differentiates_compiles_and_batches(spd, singular):
    stack = jnp.asarray(np.stack([spd, singular]))
    log_dets = jax.jit(jax.vmap(lambda a: la.psd_factor(a, jitter=1e-8, largest_jitter=1e-4).log_det()))(
        stack
    )
    assert np.isfinite(log_dets).all()
    gradient = jax.grad(lambda a: la.psd_factor(a, largest_jitter=1e-6).log_det())(jnp.asarray(spd))
    np.testing.assert_allclose(gradient, np.linalg.inv(spd), rtol=1e-9)


def test_checked_factor_names_the_smallest_eigenvalue(spd):
    np.testing.assert_array_equal(la.psd_factor_checked(spd).lower, la.psd_factor(jnp.asarray(spd)).lower)
    with pytest.raises(
        ValueError, match=r"`cov` must be positive definite; got smallest eigenvalue -0\.25\. Remove"
    ):
        la.psd_factor_checked(np.diag([1.0, -0.25]), "cov")
    with pytest.raises(ValueError, match=r"`matrix` must be a square matrix; got shape \(2, 3\)"):
        la.psd_factor_checked(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"`matrix` must be finite; got nan at index \(0, 1\)"):
        la.psd_factor_checked(np.array([[1.0, np.nan], [np.nan, 1.0]]))
    with pytest.raises(
        ValueError, match=r"`matrix` must be symmetric; got entries that differ by 0\.5 across"
    ):
        la.psd_factor_checked(np.array([[1.0, 0.5], [0.0, 1.0]]))
    traced = jax.jit(lambda a: la.psd_factor_checked(a).lower)(jnp.asarray(-np.eye(2)))
    assert np.isnan(traced).any()


def test_nearest_psd_is_the_projection(rng):
    a = rng.normal(size=(5, 5))
    symmetric = (a + a.T) / 2
    nearest = np.asarray(la.nearest_psd(jnp.asarray(a)))
    values = np.linalg.eigvalsh(symmetric)
    assert values[0] < 0
    assert np.linalg.eigvalsh(nearest)[0] > -1e-12
    residual = symmetric - nearest
    # the optimality conditions of a projection onto a cone: the residual is orthogonal and in the polar cone
    np.testing.assert_allclose((residual * nearest).sum(), 0.0, atol=1e-12)
    assert np.linalg.eigvalsh(residual)[-1] < 1e-12
    np.testing.assert_allclose(np.linalg.norm(residual), np.linalg.norm(values[values < 0]), rtol=1e-12)


def test_rank_one_update_and_downdate(rng, spd):
    lower, v = np.linalg.cholesky(spd), rng.normal(size=4)
    up, down = jax.jit(lambda lower, v: (u := la.cholesky_update(lower, v), la.cholesky_downdate(u, v)))(
        lower, v
    )
    np.testing.assert_allclose(up, np.linalg.cholesky(spd + np.outer(v, v)), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(down, lower, rtol=1e-10, atol=1e-12)


def test_update_from_a_singular_factor_and_impossible_downdate(spd):
    v = jnp.array([1.0, 2.0])
    np.testing.assert_allclose(la.cholesky_update(jnp.zeros((2, 2)), v), [[1.0, 0.0], [2.0, 0.0]], atol=1e-15)
    beyond = la.cholesky_downdate(jnp.asarray(np.linalg.cholesky(spd)), 100 * jnp.ones(4))
    assert np.isnan(beyond).any()


def test_update_has_the_gradient_of_the_dense_factor(spd):
    v = jnp.array([1.0, -0.5, 0.2, 2.0])
    lower = jnp.asarray(np.linalg.cholesky(spd))
    fast = jax.jit(jax.grad(lambda v: jnp.log(jnp.diag(la.cholesky_update(lower, v))).sum()))(v)
    np.testing.assert_allclose(fast, np.linalg.solve(spd + np.outer(v, v), v), rtol=1e-9)


@pytest.mark.parametrize("columns", [2, 3, 7])
def test_tria_and_sum_of_square_roots(rng, columns):
    first, second = rng.normal(size=(3, columns)), rng.normal(size=(3, 3))
    lower, total = map(np.asarray, jax.jit(lambda a, b: (la.tria(a), la.sqrt_sum(a, b)))(first, second))
    np.testing.assert_allclose(lower @ lower.T, first @ first.T, atol=1e-12)
    np.testing.assert_array_equal(np.triu(lower, 1), 0.0)
    assert (np.diag(lower) >= 0).all()
    np.testing.assert_allclose(total, np.linalg.cholesky(first @ first.T + second @ second.T), rtol=1e-9)


def test_square_roots_keep_what_the_sum_of_squares_loses():
    tiny = 1e-9 * np.eye(2)
    lower = la.sqrt_sum(jnp.ones((2, 1)), jnp.asarray(tiny))
    np.testing.assert_allclose(lower[1, 1], np.sqrt(2) * 1e-9, rtol=1e-6)
    np.testing.assert_array_equal(np.ones((2, 2)) + tiny @ tiny, np.ones((2, 2)))  # the sum has rank one


def test_woodbury_identity_on_random_matrices(rng):
    a, b, c = rng.normal(size=(5, 5)) + 5 * np.eye(5), rng.normal(size=(5, 2)), rng.normal(size=(2, 5))
    d, right = rng.normal(size=(2, 2)) + 3 * np.eye(2), rng.normal(size=5)

    @jax.jit
    def answers(a, b, c, d, right):
        solve = partial(jnp.linalg.solve, a)
        inverse = la.woodbury_solve(solve, b, d, c, jnp.eye(5))
        log_det = la.woodbury_log_det(solve, jnp.linalg.slogdet(a)[1], b, d, c)
        return inverse, la.woodbury_solve(solve, b, d, c, right), log_det

    inverse, solution, log_det = answers(a, b, c, d, right)
    dense = a - b @ np.linalg.inv(d) @ c
    np.testing.assert_allclose(inverse, np.linalg.inv(dense), rtol=1e-10)
    a_inverse = np.linalg.inv(a)
    identity = a_inverse + a_inverse @ b @ np.linalg.inv(d - c @ a_inverse @ b) @ c @ a_inverse
    np.testing.assert_allclose(inverse, identity, rtol=1e-10)
    np.testing.assert_allclose(solution, np.linalg.solve(dense, right), rtol=1e-10)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(dense)[1], rtol=1e-11)


def test_rank_one_case_is_sherman_morrison(rng, spd):
    u, v, right = rng.normal(size=(3, 4))
    solve = jax.jit(lambda a, u, v, r: la.sherman_morrison_solve(la.psd_factor(a).solve, u, v, r))
    answer = solve(spd, u, v, right)
    inverse = np.linalg.inv(spd)
    formula = inverse - np.outer(inverse @ u, v @ inverse) / (1 + v @ inverse @ u)
    np.testing.assert_allclose(answer, formula @ right, rtol=1e-9)
    np.testing.assert_allclose(answer, np.linalg.solve(spd + np.outer(u, v), right), rtol=1e-9)


def test_diagonal_plus_low_rank(rng):
    matrix = factors.DiagonalPlusLowRank(
        jnp.asarray(rng.uniform(0.5, 2, 6)), jnp.asarray(rng.normal(size=(6, 2)))
    )
    right = rng.normal(size=(6, 3))
    answers = jax.jit(lambda m, r: (m.dense(), m.solve(r), m.solve(r[:, 0]), m.log_det()))
    full, solutions, first, log_det = answers(matrix, right)
    dense = np.diag(np.asarray(matrix.diagonal)) + np.asarray(matrix.factor) @ np.asarray(matrix.factor).T
    np.testing.assert_allclose(full, dense, rtol=1e-14)
    np.testing.assert_allclose(solutions, np.linalg.solve(dense, right), rtol=1e-11)
    np.testing.assert_allclose(first, np.linalg.solve(dense, right[:, 0]), rtol=1e-11)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(dense)[1], rtol=1e-12)


def test_symmetrise():
    np.testing.assert_array_equal(
        la.symmetrise(jnp.array([[1.0, 2.0], [4.0, 3.0]])), [[1.0, 3.0], [3.0, 3.0]]
    )


def test_pivoted_cholesky_takes_the_largest_residual_variance_each_time():
    root = np.random.default_rng(5).normal(size=(7, 4))
    matrix = root @ root.T  # of rank four
    found = la.pivoted_cholesky(lambda pivot: jnp.asarray(matrix)[:, pivot], jnp.diag(matrix), 5, tol=1e-12)
    rest, chosen, left = matrix.copy(), [], []
    for _ in range(4):
        chosen.append(int(np.argmax(np.diag(rest))))
        column = rest[:, chosen[-1]]
        rest = rest - np.outer(column, column) / column[chosen[-1]]
        left.append(np.trace(rest))
    np.testing.assert_array_equal(found.indices[:4], chosen)
    np.testing.assert_allclose(found.residuals[:4], left, rtol=1e-10, atol=1e-12 * np.trace(matrix))
    assert found.residuals[4] <= 1e-12 * np.trace(matrix)


@pytest.mark.parametrize("shape", ["dense", "low-rank", "sites"])
def test_every_factor_solves_halves_and_measures_the_same_matrix(rng, shape):
    root, diagonal = rng.normal(size=(6, 2)), rng.uniform(0.5, 2, 6)
    matrix, b = np.diag(diagonal) + root @ root.T, rng.normal(size=(6, 3))

    @jax.jit
    def answers(matrix, root, diagonal, b):
        if shape == "dense":
            factor = factors.positive_definite_factor(matrix)
        elif shape == "low-rank":
            factor = factors.DiagonalPlusLowRank(diagonal, root)
        else:
            factor = factors.SiteFactor.of(root @ root.T, 1 / diagonal)
        half, less = factor.half_solve(b), factors.schur_complement(10 * jnp.eye(3), b, factor)
        return factor.solve(b), factor.solve(b[:, 0]), half.T @ half, less, factor.log_det()

    solved, first, squares, less, log_det = answers(matrix, root, diagonal, b)
    inside = b.T @ np.linalg.solve(matrix, b)
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, b), rtol=1e-11)
    np.testing.assert_allclose(first, np.linalg.solve(matrix, b[:, 0]), rtol=1e-11)
    np.testing.assert_allclose(squares, inside, rtol=1e-11)
    np.testing.assert_allclose(less, 10 * np.eye(3) - inside, rtol=1e-11)
    np.testing.assert_allclose(
        less, factors.schur_complement(10 * jnp.eye(3), *map(jnp.asarray, (b, matrix))), rtol=1e-11
    )
    extra = np.log(diagonal).sum() if shape == "sites" else 0.0  # the sites' own volume
    np.testing.assert_allclose(log_det + extra, np.linalg.slogdet(matrix)[1], rtol=1e-11)


def test_a_site_of_no_precision_says_nothing(rng, spd):
    factor = factors.SiteFactor.of(jnp.asarray(spd), jnp.array([2.0, 0.0, 1.0, 0.0]))
    b = rng.normal(size=4)
    seen = np.array([0, 2])
    expected = np.zeros(4)
    expected[seen] = np.linalg.solve(spd[np.ix_(seen, seen)] + np.diag([0.5, 1.0]), b[seen])
    np.testing.assert_allclose(factor.solve(jnp.asarray(b)), expected, rtol=1e-11, atol=1e-15)
    slope = jax.grad(lambda t: factors.SiteFactor.of(jnp.asarray(spd), t).log_det())(
        jnp.array([2.0, 0, 1, 0])
    )
    assert np.isfinite(slope).all()


def test_the_factor_notices_rank_deficiency_at_every_scale(rng):
    regular, rank_two = rng.normal(size=(4, 4)), rng.normal(size=(4, 2))
    scale = np.array([1e-8, 1.0, 1e5, 1e8])
    for root, fine in ((regular, True), (rank_two, False)):
        matrix = (root @ root.T) * np.outer(scale, scale)
        assert np.isfinite(factors.positive_definite_factor(jnp.asarray(matrix)).lower).all() == fine
