"""Sparse Gaussian processes against the exact process, dense algebra and each other; limits of processes."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.gp.classification import ClassificationProcess
from tractable.gp.points import observe
from tractable.gp.regression import GaussianProcess
from tractable.gp.sparse import SparseProcess, fit_sparse, inducing_rows
from tractable.gp.svgp import fit_svgp
from tractable.kernels.stationary import RBF

GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(-2, 2, size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * GENERATOR.normal(size=60)
NEW = GENERATOR.uniform(-2, 2, size=(7, 2))
KERNEL, NOISE = 2.0 * RBF(jnp.array([0.8, 1.5])), 0.05


def gram(A, B):
    return 2.0 * np.exp(-0.5 * (((A[:, None] - B[None]) / np.array([0.8, 1.5])) ** 2).sum(-1))


def test_the_bound_is_that_of_dense_algebra():
    Z = inducing_rows(KERNEL, X, 12)
    cross = gram(Z, X)
    Q = cross.T @ np.linalg.solve(gram(Z, Z), cross)
    sigma = Q + NOISE * np.eye(60)
    density = -0.5 * (Y @ np.linalg.solve(sigma, Y) + np.linalg.slogdet(sigma)[1] + 60 * np.log(2 * np.pi))
    wanted = density - 0.5 * (120 - np.trace(Q)) / NOISE
    found = SparseProcess(KERNEL, Z, NOISE).posterior(X, Y)
    assert float(found.log_evidence) == pytest.approx(wanted, rel=1e-6)
    inner = gram(Z, Z) + cross @ cross.T / NOISE
    new = gram(Z, NEW)
    mean = new.T @ np.linalg.solve(inner, cross @ Y) / NOISE
    np.testing.assert_allclose(found.mean(NEW), mean, atol=1e-5)
    spread = 2 - (new * np.linalg.solve(gram(Z, Z), new)).sum(0) + (new * np.linalg.solve(inner, new)).sum(0)
    np.testing.assert_allclose(found.latent(NEW).variance, spread, atol=1e-5)


def test_with_all_rows_inducing_it_is_the_exact_process():
    exact = GaussianProcess(KERNEL, noise=NOISE).posterior(X, Y)
    found = SparseProcess(KERNEL, X, NOISE).posterior(X, Y)
    assert float(found.log_evidence) == pytest.approx(float(exact.log_evidence), abs=1e-4)
    np.testing.assert_allclose(found.predict_dist(NEW).mean, exact.predict_dist(NEW).mean, atol=1e-5)
    np.testing.assert_allclose(found.predict_dist(NEW).variance, exact.predict_dist(NEW).variance, atol=1e-5)


def test_more_inducing_points_raise_the_bound_towards_the_evidence():
    exact = float(GaussianProcess(KERNEL, noise=NOISE).log_evidence(X, Y))
    bounds = [
        float(SparseProcess(KERNEL, inducing_rows(KERNEL, X, m), NOISE).log_evidence(X, Y))
        for m in (10, 20, 40)
    ]
    assert bounds[0] < bounds[1] < bounds[2] <= exact + 1e-4
    first = float(SparseProcess(KERNEL, X[:20], NOISE).log_evidence(X, Y))
    assert first < bounds[1]  # the greedy rows are better than the first ones


def test_weights_count_rows_and_blocks_do_not_matter():
    many = GENERATOR.uniform(-2, 2, size=(5000, 2))
    targets = np.sin(2 * many[:, 0]) + 0.1 * GENERATOR.normal(size=5000)
    process = SparseProcess(KERNEL, X[:10], NOISE)
    weights = np.ones(5000)
    weights[:9], weights[9:12] = 2, 0
    rows = np.concatenate([np.arange(9), np.arange(9), np.arange(12, 5000)])
    once, twice = process.posterior(many, targets, weights), process.posterior(many[rows], targets[rows])
    assert float(once.log_evidence) == pytest.approx(float(twice.log_evidence), rel=1e-9)
    np.testing.assert_allclose(once.mean(NEW), twice.mean(NEW), atol=1e-8)


def test_hidden_inducing_points_change_nothing():
    Z = inducing_rows(KERNEL, X, 12)
    plain = SparseProcess(KERNEL, Z, NOISE).posterior(X, Y)
    more = SparseProcess(KERNEL, np.concatenate([Z, Z[:4]]), NOISE, shown=np.arange(16) < 12).posterior(X, Y)
    assert float(more.log_evidence) == pytest.approx(float(plain.log_evidence), abs=1e-8)
    np.testing.assert_allclose(more.latent(NEW).mean, plain.latent(NEW).mean, atol=1e-9)
    np.testing.assert_allclose(more.latent(NEW).variance, plain.latent(NEW).variance, atol=1e-9)
    assert "num_inducing  12" in repr(more)


def test_merged_rows_keep_the_bound():
    process = SparseProcess(KERNEL, X[:10], NOISE)
    again, targets = np.concatenate([X, X[:9]]), np.concatenate([Y, Y[:9] + 0.1])
    merged = process.posterior(observe(again, targets, merge=True))
    plain = process.posterior(again, targets)
    assert float(merged.log_evidence) == pytest.approx(float(plain.log_evidence), rel=1e-10)
    np.testing.assert_allclose(merged.mean(NEW), plain.mean(NEW), atol=1e-9)


def test_learning_raises_the_bound():
    start = SparseProcess(KERNEL, inducing_rows(KERNEL, X, 15), NOISE)
    found = fit_sparse(start, X, Y, max_steps=20)
    assert float(found.log_evidence) > float(start.log_evidence(X, Y)) + 10
    again = found.process.log_evidence(X, Y)
    assert float(again) == pytest.approx(float(found.log_evidence), rel=1e-6)


def test_natural_gradients_reach_the_collapsed_optimum():
    """With all rows in a batch, rate one and nothing else learnt, the optimum is found at once."""
    start = SparseProcess(KERNEL, inducing_rows(KERNEL, X, 15), NOISE)
    found = fit_svgp(start, X, Y, key=jr.key(0), num_steps=2, batch=60, learning_rate=0.0, natural_rate=1.0)
    # the bound that the second step reports is at the Gaussian that the first one found
    assert float(found.trace[1]) == pytest.approx(float(start.log_evidence(X, Y)), abs=1e-6)
    assert float(found.posterior.log_evidence) == pytest.approx(float(start.log_evidence(X, Y)), abs=1e-6)


def test_labels_by_batches_agree_with_the_variational_process():
    labels = (Y > 0).astype(float)
    exact = ClassificationProcess(KERNEL).posterior(X, labels, method="variational")
    start = SparseProcess(KERNEL, X, link="logistic")
    found = fit_svgp(
        start, X, labels, key=jr.key(1), num_steps=60, batch=60, learning_rate=0.0, natural_rate=0.8
    )
    np.testing.assert_allclose(found.posterior.probability(NEW), exact.probability(NEW), atol=1e-4)
    assert float(found.trace[-1]) == pytest.approx(float(exact.log_evidence), abs=1e-3)


def test_batches_of_rows_follow_the_whole():
    start = SparseProcess(KERNEL, inducing_rows(KERNEL, X, 15), 0.5)
    found = fit_svgp(start, X, Y, key=jr.key(0), num_steps=150, batch=30, learning_rate=0.05)
    assert float(found.posterior.log_evidence) > float(start.log_evidence(X, Y)) + 20
    assert "steps" in repr(found)


def test_the_variance_does_not_see_the_targets():
    """A limit of Gaussian noise: an outlier moves the mean and leaves every variance as it was."""
    process = GaussianProcess(KERNEL, noise=NOISE)
    outlier = Y.copy()
    outlier[3] += 50
    plain, moved = process.posterior(X, Y), process.posterior(X, outlier)
    np.testing.assert_array_equal(plain.latent(NEW).variance, moved.latent(NEW).variance)
    near = X[3:4] + 0.01
    assert float(moved.mean(near)[0] - plain.mean(near)[0]) > 5


def test_unknown_noise_and_length_scale_explain_the_same_data():
    """A limit of few data: a smooth function with noise and a rough one without have similar evidence."""
    x = np.linspace(0, 1, 6)
    y = np.array([0.1, -0.2, 0.15, -0.1, 0.2, -0.15])
    smooth = float(GaussianProcess(0.03 * RBF(3.0), noise=0.03).log_evidence(x, y))
    rough = float(GaussianProcess(0.03 * RBF(0.05), noise=0.001).log_evidence(x, y))
    assert abs(smooth - rough) < 1.0


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`noise` must be positive"):
        SparseProcess(KERNEL, X[:3], -1.0)
    with pytest.raises(ValueError, match="`link` must be none for the collapsed bound"):
        SparseProcess(KERNEL, X[:3], link="probit").posterior(X, Y)
    with pytest.raises(ValueError, match=r"`y` must be 0 or 1; got 0.5 at index \d"):
        fit_svgp(SparseProcess(KERNEL, X[:3], link="probit"), X[:2], [0.5, 1.0], key=jr.key(0))
    with pytest.raises(ValueError, match="`X` must be rows of 2 columns"):
        SparseProcess(KERNEL, X[:3], 0.1).posterior(X, Y).mean(np.zeros((4, 3)))


def test_single_precision_has_a_jitter_of_its_own():
    inducing = np.linspace(-2, 2, 40)[:, None]
    double = SparseProcess(RBF(), inducing, 0.05, jitter=1e-4)
    with jax.enable_x64(False):
        single = SparseProcess(RBF(), inducing.astype(np.float32), np.float32(0.05))
        found = float(single.posterior(X[:, :1].astype(np.float32), Y.astype(np.float32)).log_evidence)
        assert single.jitter == 1e-4
    assert found == pytest.approx(float(double.log_evidence(X[:, :1], Y)), rel=1e-3)
