"""The Gaussian process regressor: scikit-learn's numbers, weights, files, and hyperparameters that
generalise.
"""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels as peers
from sklearn.model_selection import GridSearchCV

from tractable.distributions.continuous import Normal
from tractable.distributions.normal_mixture import NormalMixture
from tractable.estimators.gaussian_process import GaussianProcessRegressor
from tractable.kernels.stationary import RBF, Matern52


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (30, 2))
    return X, 5 + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=30)


def test_fixed_kernel_agrees_with_scikit_learn(rows):
    X, y = rows
    peer = Peer(1.7 * peers.RBF([0.8, 1.5]) + peers.WhiteKernel(0.05), optimizer=None, alpha=0.0)
    peer.fit(X, y)
    model = GaussianProcessRegressor(
        1.7 * RBF([0.8, 1.5]), noise=0.05, normalise_y=False, method="fixed"
    ).fit(X, y)
    new = np.random.default_rng(2).normal(size=(6, 2))
    for ours, theirs in zip(model.predict(new, return_std=True), peer.predict(new, return_std=True)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)
    assert model.log_evidence_ == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-8)


def test_normalised_targets_have_the_evidence_of_the_targets(rows):
    X, y = rows
    model = GaussianProcessRegressor(RBF(1.0), noise=0.1, method="fixed").fit(X, y)
    cov = (np.asarray(RBF(1.0).gram(X)) + 0.1 * np.eye(30)) * y.var()
    assert model.log_evidence_ == pytest.approx(multivariate_normal(np.full(30, y.mean()), cov).logpdf(y))


def test_evidence_learns_the_noise_and_the_relevant_column(rows):
    X, y = rows
    model = GaussianProcessRegressor(method="evidence").fit(X, y)
    assert model.score(X, y) > 0.95
    kernel = model.model_.process.kernel
    assert float(kernel.kernel.length_scale[1]) > 3 * float(kernel.kernel.length_scale[0])
    noise = float(model.model_.process.noise.variance) ** 0.5 * model.y_scale_
    assert 0.05 < noise < 0.2
    low, high = model.predict_interval(X, 0.9)
    assert 0.75 < np.mean((low <= y) & (y <= high)) <= 1
    shown = model.predict_dist(X)
    assert isinstance(shown, Normal)
    np.testing.assert_allclose(shown.mean, model.predict(X), rtol=1e-12)


def test_weights_are_copies(rows):
    X, y = rows
    weights = np.random.default_rng(0).integers(0, 3, 30)
    one = GaussianProcessRegressor().fit(X, y, weights)
    two = GaussianProcessRegressor().fit(np.repeat(X, weights, 0), np.repeat(y, weights))
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7)
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, rel=1e-9)


def test_priors_are_used_and_needed_for_map(rows):
    X, y = rows
    prior = {"length_scale": Normal(np.log(0.5), 1e-3)}
    model = GaussianProcessRegressor(method="map", priors=prior).fit(X, y)
    np.testing.assert_allclose(model.model_.process.kernel.kernel.length_scale, 0.5, rtol=0.01)
    with pytest.raises(ValueError, match="`priors` must be given for method='map'"):
        GaussianProcessRegressor(method="map").fit(X, y)


def test_joint_draws_are_smooth(rows):
    X, y = rows
    model = GaussianProcessRegressor(1.0 * RBF(2.0), noise=0.1, method="fixed").fit(X, y)
    line = np.stack([np.linspace(-4, 4, 60), np.zeros(60)], 1)
    draws = model.sample_y(line, 5, random_state=0)
    assert draws.shape == (60, 5)
    assert np.abs(np.diff(draws, axis=0)).max() < 0.5 * draws.std()
    np.testing.assert_array_equal(draws, model.sample_y(line, 5, random_state=0))


def test_scales_of_columns_and_targets_do_not_matter(rows):
    X, y = rows
    base = GaussianProcessRegressor().fit(X, y).predict(X[:5])
    for scale, height in ((1e12, 1e-12), (1e-12, 1e12)):
        other = GaussianProcessRegressor().fit(X * np.array([scale, 1.0]), y * height)
        np.testing.assert_allclose(other.predict(X[:5] * np.array([scale, 1.0])) / height, base, rtol=1e-4)


def test_constant_columns_constant_targets_and_one_row(rows):
    X, y = rows
    wider = np.column_stack([X, np.full(30, 7.0)])
    assert GaussianProcessRegressor().fit(wider, y).score(wider, y) > 0.95
    level = GaussianProcessRegressor().fit(X, np.full(30, 3.0))
    np.testing.assert_allclose(level.predict(X[:3]), 3.0, rtol=1e-6)
    alone = GaussianProcessRegressor().fit(X[:1], y[:1])
    np.testing.assert_allclose(alone.predict(X[:1]), y[:1], rtol=1e-6)


def test_files_clones_and_searches(rows, tmp_path):
    X, y = rows
    model = clone(GaussianProcessRegressor(1.0 * Matern52(1.0))).fit(X, y)
    search = GridSearchCV(
        GaussianProcessRegressor(method="fixed", noise=0.05), {"kernel": [RBF(1.0), RBF(0.01)]}, cv=3
    )
    assert repr(search.fit(X, y).best_params_["kernel"]) == "RBF(length_scale=1.0)"
    import pickle

    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.slow
def test_averaging_over_hyperparameters(rows):
    X, y = rows
    model = GaussianProcessRegressor(method="mcmc", random_state=0).fit(X, y)
    assert isinstance(model.predict_dist(X[:4]), NormalMixture)
    low, high = model.predict_interval(X)
    assert 0.75 < np.mean((low <= y) & (y <= high)) <= 1
    point = GaussianProcessRegressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), point.predict(X), atol=0.1)
    assert (model.predict(X, return_std=True)[1] > 0).all()
    assert model.sample_y(X[:4], 3, random_state=1).shape == (4, 3)
