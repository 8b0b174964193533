"""Hyperparameters by evidence, with priors and by MCMC, against scikit-learn, grids and quadrature."""

import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as peers

from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.gp import hyperparameters
from tractable.gp.hyperparameter_posterior import sample_hyperparameters
from tractable.gp.hyperparameters import default_process, evidence_surface, fit_hyperparameters, free_process
from tractable.gp.means import BasisMean, ConstantMean
from tractable.gp.regression import GaussianProcess
from tractable.kernels.stationary import RBF


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (30, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=30)


@pytest.fixture(scope="module")
def found(rows):
    return fit_hyperparameters(GaussianProcess(1.0 * RBF([1.0, 1.0]), 0.1), *rows, tol=1e-6)


def test_maximum_of_the_evidence_is_that_of_scikit_learn(rows, found):
    X, y = rows
    kernel = peers.ConstantKernel(1.0, (1e-3, 1e3)) * peers.RBF([1.0, 1.0], (1e-3, 1e3))
    peer = GaussianProcessRegressor(kernel + peers.WhiteKernel(0.1), alpha=0.0).fit(X, y)
    assert float(found.log_evidence) >= peer.log_marginal_likelihood_value_ - 1e-6
    kernel = found.process.kernel
    values = [kernel.variance, *kernel.kernel.length_scale, found.process.noise.variance]
    np.testing.assert_allclose(np.log(np.array(values)), peer.kernel_.theta, atol=2e-3)
    assert float(found.run.gradient_norm) < 1e-5
    assert "1 of 1 starts reached the best" in repr(found)


def test_the_gradient_vanishes_at_the_maximum(rows, found):
    best = float(found.log_evidence)
    kernel, noise = found.process.kernel, found.process.noise.variance
    for factor in (0.97, 1.03):
        for other in (
            GaussianProcess(factor * kernel.variance * kernel.kernel, noise),
            GaussianProcess(kernel.variance * RBF(factor * kernel.kernel.length_scale), noise),
            GaussianProcess(kernel, factor * noise),
        ):
            assert best - 0.1 < float(other.log_evidence(*rows)) < best


def test_restarts_find_the_better_of_two_maxima():
    x = np.linspace(-3, 3, 20)
    y = np.sin(2 * x) + 0.1 * np.random.default_rng(0).normal(size=20)
    poor = GaussianProcess(1.0 * RBF(5.0), 1.0)  # begins where everything is noise
    alone = fit_hyperparameters(poor, x, y, tol=1e-6, fixed=["kernel.variance"])
    several = fit_hyperparameters(
        poor, x, y, tol=1e-6, fixed=["kernel.variance"], num_restarts=6, key=jr.key(1)
    )
    assert float(alone.log_evidence) < -20
    assert float(several.log_evidence) > 0
    assert 0.5 < float(several.process.kernel.kernel.length_scale) < 1.2
    assert several.reached.shape == (7,)
    assert float(several.process.kernel.variance) == 1.0


def test_priors_move_the_maximum_as_they_should(rows):
    """With a prior of free numbers the gradient of evidence and prior cancel."""
    X, y = rows
    process = GaussianProcess(1.0 * RBF([1.0, 1.0]), 0.1)
    narrow = {"length_scale": Normal(np.log(0.3), 1e-3), "noise.variance": Normal(-4.0, 1e-3)}
    found = fit_hyperparameters(process, X, y, priors=narrow, tol=1e-7)
    np.testing.assert_allclose(found.process.kernel.kernel.length_scale, 0.3, rtol=1e-3)
    np.testing.assert_allclose(found.process.noise.variance, np.exp(-4.0), rtol=1e-3)
    evidence = float(GaussianProcess(found.process.kernel, found.process.noise).log_evidence(X, y))
    lengths = np.log(np.asarray(found.process.kernel.kernel.length_scale))
    prior = norm.logpdf(lengths, np.log(0.3), 1e-3).sum()
    prior += norm.logpdf(np.log(float(found.process.noise.variance)), -4.0, 1e-3)
    assert float(-found.run.value) == pytest.approx(evidence + prior, rel=1e-9)


def test_what_is_known_is_held(rows):
    X, y = rows
    known = GaussianProcess(
        1.0 * RBF(1.0), np.full(30, 0.1), BasisMean(lambda x: x, Gaussian([0.0, 0], np.eye(2)))
    )
    _, rebuild, _ = free_process(known)
    assert set(rebuild.names) == {"kernel.variance", "kernel.kernel.length_scale"}
    _, rebuild, _ = free_process(GaussianProcess(RBF(1.0), 0.0, ConstantMean(1.0)))
    assert rebuild.names == ["kernel.length_scale", "mean.value"]
    with pytest.raises(ValueError, match="`priors` must be keyed by free leaves"):
        fit_hyperparameters(known, X, y, priors={"period": Normal(0.0, 1.0)})
    with pytest.raises(ValueError, match="`key` must be given where there are `num_restarts`"):
        fit_hyperparameters(known, X, y, num_restarts=1)


def test_a_subset_of_the_rows_leads_to_the_same_maximum(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (120, 2))
    y = np.sin(X[:, 0]) + 0.2 * X[:, 1] + 0.1 * rng.normal(size=120)
    process = default_process(X, y)
    whole = fit_hyperparameters(process, X, y)
    monkeypatch.setattr(hyperparameters, "_LARGE", 100)
    monkeypatch.setattr(hyperparameters, "_SUBSET", 60)
    quick = fit_hyperparameters(process, X, y)
    assert quick.num_subset == 60
    assert float(quick.log_evidence) == pytest.approx(float(whole.log_evidence), abs=0.02)
    assert int(quick.run.evaluations) < int(whole.run.evaluations)


def test_default_process_is_at_the_scale_of_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * np.array([1e-6, 1.0, 1e9, 0.0]) + np.array([0.0, 5.0, 0.0, 3.0])
    process = default_process(X, 1e5 * X[:, 1])
    lengths = np.asarray(process.kernel.kernel.length_scale)
    np.testing.assert_allclose(lengths, 2 * np.array([*X[:, :3].std(0), 3.0]), rtol=1e-6)
    assert float(process.noise.variance) == pytest.approx(0.1e10 * X[:, 1].var(), rel=1e-9)


def test_surface_is_the_evidence_on_a_grid(rows):
    X, y = rows
    process = GaussianProcess(1.0 * RBF(1.0), 0.1)
    lengths, noises = np.array([0.5, 1.0, 2.0]), np.array([0.01, 0.1])
    surface = evidence_surface(process, X, y, ("length_scale", lengths), ("noise.variance", noises))
    for i, length in enumerate(lengths):
        for j, noise in enumerate(noises):
            expected = GaussianProcess(1.0 * RBF(length), noise).log_evidence(X, y)
            assert float(surface.values[i, j]) == pytest.approx(float(expected), rel=1e-10)
    assert surface.names == ("kernel.kernel.length_scale", "noise.variance")
    with pytest.raises(ValueError, match="one of the free numbers"):
        evidence_surface(process, X, y, ("period", lengths), ("noise.variance", noises))


def test_draws_of_hyperparameters_match_quadrature(rows):
    """One free number: the posterior on a fine grid is the exact answer, for it and for a prediction."""
    X, y = rows
    process, fixed = GaussianProcess(1.0 * RBF(1.0), 0.1), ["kernel.variance", "noise.variance"]
    prior = {"length_scale": Normal(0.0, 0.5)}
    post = sample_hyperparameters(
        process,
        X,
        y,
        key=jr.key(4),
        priors=prior,
        fixed=fixed,
        num_draws=300,
        num_chains=4,
        num_kept=400,
        progress=False,
    )
    grid = np.linspace(-1.5, 1.5, 61)
    surface = evidence_surface(process, X, y, ("length_scale", np.exp(grid)), ("noise.variance", [0.1]))
    density = np.exp(np.asarray(surface.values)[:, 0] + norm.logpdf(grid, 0, 0.5))
    density /= density.sum()
    mean = density @ grid
    deviation = np.sqrt(density @ (grid - mean) ** 2)
    draws = np.asarray(post.draws.draws["kernel.kernel.length_scale"])
    error = deviation / np.sqrt(float(np.min(post.draws.report.ess_bulk)))
    assert abs(draws.mean() - mean) < 5 * error
    assert post.draws.verdict.ok
    new = np.array([[0.3, 0.1], [3.0, 3.0]])
    shown = post.predict_dist(new)
    moments = [
        GaussianProcess(1.0 * RBF(np.exp(g)), 0.1).posterior(X, y).predict_dist(new) for g in grid[::4]
    ]
    weight = density[::4] / density[::4].sum()
    centre = sum(w * np.asarray(m.mean) for w, m in zip(weight, moments))
    spread = (
        sum(w * (np.asarray(m.variance) + np.asarray(m.mean) ** 2) for w, m in zip(weight, moments))
        - centre**2
    )
    np.testing.assert_allclose(shown.mean, centre, atol=0.01)
    np.testing.assert_allclose(shown.variance, spread, rtol=0.03)
    assert (np.asarray(post.latent(new).variance) < np.asarray(shown.variance)).all()


def test_a_real_leaf_needs_a_prior_of_its_own(rows):
    with pytest.raises(ValueError, match=r"`priors` must be given for `mean\.value`"):
        sample_hyperparameters(GaussianProcess(RBF(1.0), 0.1, 0.5), *rows, key=jr.key(0))
