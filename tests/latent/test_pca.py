"""Principal components: every solver against scikit-learn, both views, worked numbers, degenerate rows."""

import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.decomposition

import tractable as tr
from tractable.core.chunks import chunks
from tractable.core.iterate import Status
from tractable.core.moments import moments_of
from tractable.inference import EM
from tractable.latent.factor.principal import PrincipalComponents, split_variance
from tractable.latent.factor.solvers import by_randomised, leading_eigen

RNG = np.random.default_rng(0)
MIX = RNG.normal(size=(6, 6)) * [4.0, 3.0, 2.0, 1.0, 0.5, 0.2]
X = RNG.normal(size=(300, 6)) @ MIX.T + [3.0, -1.0, 0.0, 10.0, 2.0, 5.0]
W = RNG.integers(0, 3, 300).astype(float)
SOLVERS = ("eigen", "svd", "power", "randomised")


def random_basis(k, d=6):
    return np.linalg.qr(RNG.normal(size=(d, k)))[0].T


@pytest.mark.cheap
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_agrees_with_the_peer(solver):
    peer = sklearn.decomposition.PCA(3, svd_solver="full").fit(X)
    found = PrincipalComponents.fit(X, 3, solver=solver, ddof=1, key=0)
    np.testing.assert_allclose(found.variances, peer.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(found.explained_ratio, peer.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(found.components @ peer.components_.T), np.eye(3), atol=1e-7)
    largest = np.abs(found.components).argmax(1)
    assert (found.components[np.arange(3), largest] > 0).all()
    signs = np.sign((found.components * peer.components_).sum(1))
    np.testing.assert_allclose(found.transform(X), peer.transform(X) * signs, atol=1e-6)
    np.testing.assert_allclose(found.inverse(found.transform(X)), found.reconstruct(X))
    assert found.verdict.ok


@pytest.mark.cheap
@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_count_rows_and_units_are_standard_deviations(solver):
    repeated = np.repeat(X, W.astype(int), axis=0)
    found = PrincipalComponents.fit(X, 2, weights=W, standardise=True, solver=solver, key=0)
    units = (repeated - repeated.mean(0)) / repeated.std(0)
    wanted = PrincipalComponents.fit(units, 2, solver="svd")
    np.testing.assert_allclose(found.variances, wanted.variances, rtol=1e-9)
    np.testing.assert_allclose(found.components, wanted.components, atol=1e-7)
    np.testing.assert_allclose(found.total_variance, 6.0, rtol=1e-12)
    assert found.count == W.sum()


def test_worked_covariance():
    r"""Four points whose covariance is [[2, 1], [1, 2]]: variances 3 and 1, along (1, 1) and (1, -1)."""
    rows = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]) * np.sqrt([[3], [3], [1], [1]])
    found = PrincipalComponents.fit(rows)
    np.testing.assert_allclose(found.variances, [3.0, 1.0])
    np.testing.assert_allclose(np.abs(found.components), np.full((2, 2), 0.5**0.5))
    one = PrincipalComponents.fit(rows, 1)
    np.testing.assert_allclose(one.reconstruction_error, 4 / 2 * 1.0)  # N/2 times what is discarded
    lost = rows - one.reconstruct(rows)
    np.testing.assert_allclose(0.5 * (lost**2).sum(), one.reconstruction_error)


@pytest.mark.cheap
@pytest.mark.parametrize("m", [1, 2, 5])
def test_error_is_half_n_times_the_discarded_variances_and_no_subspace_beats_it(m):
    found = PrincipalComponents.fit(X, m)
    spectrum = np.linalg.eigvalsh(np.cov(X.T, ddof=0))[::-1]
    error = 0.5 * ((X - found.reconstruct(X)) ** 2).sum()
    np.testing.assert_allclose(error, len(X) / 2 * spectrum[m:].sum(), rtol=1e-10)
    np.testing.assert_allclose(found.reconstruction_error, error, rtol=1e-10)
    rest = X - X.mean(0)
    for _ in range(50):
        assert split_variance(rest, random_basis(m)).residual >= 2 * error / len(X)


def test_captured_and_residual_are_the_total_and_both_views_agree():
    found = PrincipalComponents.fit(X, 2)
    captured, residual, total = found.split(X)
    np.testing.assert_allclose(captured + residual, total, rtol=1e-12)
    np.testing.assert_allclose(captured, found.variances.sum())
    np.testing.assert_allclose(residual, found.residual_variance, rtol=1e-10)
    rest = X - X.mean(0)
    directions = [random_basis(1) for _ in range(20)]
    parts = [split_variance(rest, u) for u in directions]
    for part in parts:
        np.testing.assert_allclose(part.captured + part.residual, total, rtol=1e-12)
    assert np.argmax([p.captured for p in parts]) == np.argmin([p.residual for p in parts])
    weighted, copies = found.split(X, W), found.split(np.repeat(X, W.astype(int), axis=0))
    np.testing.assert_allclose(weighted, copies, rtol=1e-12)


def test_any_basis_of_the_subspace_has_the_same_error_and_is_stationary():
    cov = np.cov(X.T, ddof=0)
    kept, rest = PrincipalComponents.fit(X, 6).components[:2], X - X.mean(0)
    rotation = np.linalg.qr(RNG.normal(size=(2, 2)))[0]
    turned = rotation @ kept
    np.testing.assert_allclose(split_variance(rest, turned), split_variance(rest, kept), rtol=1e-12)
    discarded = PrincipalComponents.fit(X, 6).components[2:]
    basis = np.linalg.qr(RNG.normal(size=(4, 4)))[0] @ discarded
    np.testing.assert_allclose(np.trace(basis @ cov @ basis.T), np.linalg.eigvalsh(cov)[:4].sum())
    middle = basis @ cov @ basis.T  # Sigma U = U M
    np.testing.assert_allclose(cov @ basis.T, basis.T @ middle, atol=1e-10)


def test_spectral_reconstruction_and_whitening():
    found = PrincipalComponents.fit(X)
    cov = np.cov(X.T, ddof=0)
    np.testing.assert_allclose((found.components.T * found.variances) @ found.components, cov, atol=1e-10)
    np.testing.assert_allclose(found.components @ found.components.T, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(np.cov(found.whiten(X).T, ddof=0), np.eye(6), atol=1e-9)


def test_chunks_streams_and_sums_of_moments_are_as_in_memory(tmp_path):
    whole = PrincipalComponents.fit(X, 3, weights=W)
    np.save(tmp_path / "rows.npy", X)
    streamed = PrincipalComponents.fit(chunks(tmp_path / "rows.npy", 64, W), 3)
    added = PrincipalComponents.from_moments(moments_of(X[:99], W[:99]) + moments_of(X[99:], W[99:]), 3)
    run = tr.fit(PrincipalComponents.start(6, 3), X, EM(), weights=W, chunk=64)
    assert run.status is Status.converged
    mapped = PrincipalComponents.fit(np.load(tmp_path / "rows.npy", mmap_mode="r"), 3, weights=W)
    for found in (streamed, added, run.state, mapped):
        np.testing.assert_allclose(found.variances, whole.variances, rtol=1e-9)
        np.testing.assert_allclose(found.components, whole.components, atol=1e-9)
        np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.reconstruction_error, whole.reconstruction_error, rtol=1e-9)
    np.testing.assert_allclose(-run.values[-1], whole.reconstruction_error, rtol=1e-9)
    assert (np.diff(run.values) >= -1e-9).all()


def test_degenerate_tables():
    one = PrincipalComponents.fit(X[:1])
    assert one.variances.tolist() == [0.0]
    assert one.explained_ratio.tolist() == [0.0]
    np.testing.assert_allclose(one.reconstruct(X[:1]), X[:1])
    few = PrincipalComponents.fit(X[:4])  # fewer rows than columns: three directions
    assert few.variances.shape == (3,)
    assert few.variances.min() > 0
    more = PrincipalComponents.fit(X[:4], 5)
    assert more.variances[3] < 1e-12 * more.variances[0]
    np.testing.assert_allclose(more.components @ more.components.T, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(few.reconstruct(X[:4]), X[:4])
    constant = PrincipalComponents.fit(np.column_stack([X, np.full(300, 0.1)]), standardise=True)
    assert np.isfinite(constant.components).all()
    assert constant.variances[-1] < 1e-14
    line = PrincipalComponents.fit(np.outer(X[:, 0], [1.0, 2.0, 3.0]), 1)
    assert line.reconstruction_error == 0
    np.testing.assert_allclose(line.explained_ratio, 1.0)
    huge = PrincipalComponents.fit(1e12 * X + 1e14, 3)
    np.testing.assert_allclose(huge.variances, 1e24 * PrincipalComponents.fit(X, 3).variances, rtol=1e-6)
    wide = PrincipalComponents.fit(RNG.normal(size=(5, 40)), 3)
    assert wide.components.shape == (3, 40)


def test_errors_name_what_and_where():
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN in column 2, row 7"):
        PrincipalComponents.fit(bad)
    with pytest.raises(ValueError, match=r"`num_components` must be .* from 1 to 6; got 7"):
        PrincipalComponents.fit(X, 7)
    with pytest.raises(ValueError, match="`key` must be given"):
        PrincipalComponents.fit(X, 2, solver="randomised")
    with pytest.raises(ValueError, match="`solver` must be 'eigen' or 'power' where rows are streamed"):
        PrincipalComponents.fit(chunks(X, 64), 2, solver="svd")
    with pytest.raises(ValueError, match="rows of 6 columns"):
        PrincipalComponents.fit(X, 2).transform(X[:, :3])
    with pytest.raises(ValueError, match="positive to be whitened"):
        PrincipalComponents.fit(X[:3], 3).whiten(X)
    slow = PrincipalComponents.fit(RNG.normal(size=(300, 6)), 2, solver="power", max_steps=2)
    assert not slow.verdict.ok


def test_sparse_tables_are_never_centred():
    import scipy.sparse

    table = scipy.sparse.random(200, 50, 0.1, random_state=0, format="csr")
    mean = np.asarray(table.mean(0)).ravel()
    found = by_randomised(table, mean, None, 200.0, 3, tr.core.keys.as_key(0))
    wanted = PrincipalComponents.fit(table.toarray(), 3)
    np.testing.assert_allclose(found.variances, wanted.variances, rtol=1e-4)
    assert leading_eigen(np.eye(3), 2).components.shape == (2, 3)


def test_models_pass_through_transformations():
    import jax

    model = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), PrincipalComponents.fit(X, 2))
    np.testing.assert_allclose(jax.jit(lambda m, x: m.transform(x))(model, X[:5]), model.transform(X[:5]))
    slope = jax.grad(lambda m: m.reconstruct(jnp.asarray(X[:5])).sum())(model)
    assert np.isfinite(slope.mean).all()
