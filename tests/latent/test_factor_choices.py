"""Number of components, rotation and sparsity: against scikit-learn, brute force and monotone objectives."""

import numpy as np
import pytest
import sklearn.decomposition
from sklearn.decomposition import _pca

from tractable.core.chunks import chunks
from tractable.core.iterate import Status
from tractable.core.moments import moments_of
from tractable.latent.factor.dimension import dimension_evidence
from tractable.latent.factor.principal import PrincipalComponents
from tractable.latent.factor.probabilistic import ProbabilisticPCA
from tractable.latent.factor.rotation import varimax
from tractable.latent.factor.sparse import SparseComponents

RNG = np.random.default_rng(2)
MIX = np.linalg.qr(RNG.normal(size=(8, 8)))[0]
X = (RNG.normal(size=(400, 8)) * [4.0, 3.0, 2.5, 1.0, 1.0, 1.0, 1.0, 1.0]) @ MIX.T + 2.0
BLOCKS = np.kron(np.eye(2), np.ones((3, 1))) + 0.05 * RNG.normal(size=(6, 2))


def test_evidence_agrees_with_the_peer_and_finds_the_number():
    found = dimension_evidence(X)
    n, spectrum = 400, found.spectrum
    constant = -0.5 * n * 8 * (np.log(2 * np.pi) + 1)  # which the peer leaves out
    peer = [_pca._assess_dimension(spectrum, k, n) for k in range(1, 7)]
    np.testing.assert_allclose(found.log_evidence[1:7] - constant, peer, rtol=1e-10)
    assert found.best == 3
    assert found.verdict.ok
    np.testing.assert_allclose(found.probabilities.sum(), 1.0)
    bic = dimension_evidence(chunks(X, 64), method="bic")
    assert bic.best == 3
    for k in (1, 3, 5):
        fitted = ProbabilisticPCA.fit(X, k)
        np.testing.assert_allclose(bic.log_likelihood[k], fitted.log_evidence, rtol=1e-12)
        np.testing.assert_allclose(bic.bic[k], -0.5 * fitted.bic, rtol=1e-12)


def test_noise_alone_has_no_component_and_copies_are_refused():
    assert (
        dimension_evidence(moments_of(np.random.default_rng(4).normal(size=(500, 5))), method="bic").best == 0
    )
    assert dimension_evidence(RNG.normal(size=(4, 10))).num_components.max() < 4
    with pytest.raises(ValueError, match="rows that differ"):
        dimension_evidence(np.ones((5, 3)))


def test_varimax_is_the_best_angle_and_undoes_a_rotation():
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    found = varimax(BLOCKS @ turn)
    assert found.status is Status.converged
    assert (np.diff(found.trace) >= -1e-15).all()
    np.testing.assert_allclose(found.rotation.T @ found.rotation, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(np.sort(np.abs(found.loadings), 1), np.sort(np.abs(BLOCKS), 1), atol=0.06)

    scaled = BLOCKS / np.linalg.norm(BLOCKS, axis=1, keepdims=True)
    angles = np.linspace(0, np.pi, 20001)
    cosine, sine = np.cos(angles), np.sin(angles)
    turned = [scaled @ np.array([[c, -s], [s, c]]) for c, s in zip(cosine[::10], sine[::10])]
    heights = [((t**4).mean(0) - (t**2).mean(0) ** 2).sum() for t in turned]
    assert max(heights) <= found.trace[-1] + 1e-12
    np.testing.assert_allclose(found.trace[-1], max(heights), rtol=1e-5)


def test_varimax_reaches_the_peer():
    loadings = RNG.normal(size=(10, 4))
    ours = varimax(loadings, normalise=False).loadings
    from sklearn.decomposition._factor_analysis import _ortho_rotation

    peer = _ortho_rotation(loadings, tol=1e-12, max_iter=5000).T

    def height(table):
        return ((table**4).mean(0) - (table**2).mean(0) ** 2).sum()

    assert height(ours) >= height(peer) - 1e-9


def test_sparse_components_are_monotone_and_without_penalty_principal():
    dense = SparseComponents.fit(X, 3, penalty=0.0, tol=1e-13)
    wanted = PrincipalComponents.fit(X, 3)
    np.testing.assert_allclose(dense.components, wanted.components, atol=1e-5)
    np.testing.assert_allclose(dense.variances, wanted.variances, rtol=1e-6)
    zeros, captured = [], []
    for penalty in (0.0, 0.5, 1.0, 2.0):
        found = SparseComponents.fit(X, 3, penalty=penalty)
        assert (np.diff(found.trace) <= 1e-12).all()
        assert found.status is Status.converged
        zeros.append((found.components == 0).sum())
        captured.append(found.variances.sum())
    assert np.all(np.diff(zeros) >= 0)
    assert zeros[-1] >= 8
    assert np.all(np.diff(captured) < 0)
    assert captured[0] <= wanted.variances.sum() * (1 + 1e-9)


def test_sparse_components_recover_blocks_and_explain_as_projections_do():
    own = np.random.default_rng(3)
    z = own.normal(size=(500, 2)) * [3.0, 2.0]
    rows = z @ np.kron(np.eye(2), np.ones((1, 4))) + 0.3 * own.normal(size=(500, 8))
    found = SparseComponents.fit(chunks(rows, 128), 2, penalty=0.4)
    np.testing.assert_array_equal(found.components != 0, np.kron(np.eye(2), np.ones((1, 4))) > 0)
    rest = rows - rows.mean(0)
    added = np.diag(np.linalg.qr(rest @ found.components.T)[1]) ** 2 / 500
    np.testing.assert_allclose(found.variances, added, rtol=1e-9)
    np.testing.assert_allclose(found.transform(rows), rest @ found.components.T, atol=1e-10)
    empty = SparseComponents.fit(rows, 2, penalty=1e3)
    assert (empty.components == 0).all()
    peer = sklearn.decomposition.SparsePCA(2, alpha=1.0, random_state=0).fit(rows)
    assert (np.abs(peer.components_) > 1e-6).sum() >= 8
