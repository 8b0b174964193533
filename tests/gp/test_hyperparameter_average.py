"""Averages over hyperparameters, against quadrature."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from tractable.distributions.continuous import Normal
from tractable.gp import hyperparameter_average as average
from tractable.gp.hyperparameter_average import average_hyperparameters, wide_priors
from tractable.gp.hyperparameters import fit_hyperparameters
from tractable.gp.points import observe
from tractable.gp.regression import GaussianProcess
from tractable.kernels.stationary import RBF

GENERATOR = np.random.default_rng(0)
X = np.sort(GENERATOR.uniform(-3, 3, 12))[:, None]
Y = np.sin(X[:, 0]) + 0.3 * GENERATOR.normal(size=12)
NEW = np.array([[-4.0], [0.3], [5.0]])


@pytest.fixture(scope="module")
def found():
    process = GaussianProcess(RBF([1.0]), 0.09)
    known = Normal(jnp.log(jnp.array([0.09])), jnp.array([1e-4]))  # so that the length scale alone is free
    priors = wide_priors(process) | {"noise.variance": known}
    rows = observe(X, Y)
    fit = fit_hyperparameters(process, rows, priors=priors)
    return average_hyperparameters(fit, rows, priors, num_points=256)


@pytest.mark.thorough
def test_the_average_is_that_of_quadrature(found):
    grid = np.linspace(-6, 6, 241)
    processes = [GaussianProcess(RBF(jnp.exp(jnp.array([u]))), 0.09) for u in grid]
    heights = np.array([float(p.log_evidence(X, Y)) for p in processes]) + norm.logpdf(grid, 0, 1.5)
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    moments = [p.posterior(X, Y).predict_dist(NEW) for p in processes]
    means = np.stack([np.asarray(m.mean) for m in moments])
    second = np.stack([np.asarray(m.variance) for m in moments]) + means**2
    mean, spread = weights @ means, np.sqrt(weights @ second - (weights @ means) ** 2)
    shown = found.predict_dist(NEW)
    error = spread / np.sqrt(found.verdict.numbers["effective_points"])
    assert (np.abs(np.asarray(shown.mean) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.sqrt(np.asarray(shown.variance)), spread, rtol=0.15)


def test_the_verdict_counts_points(found):
    assert found.verdict.ok
    assert "points" in found.verdict.sentence
    assert float(np.asarray(found.weights).sum()) == pytest.approx(1.0)
    assert found.verdict.numbers["failed_points"] == 0


def test_points_without_an_evidence_are_counted(monkeypatch):
    process, rows = GaussianProcess(RBF([1.0]), 0.09), observe(X, Y)
    priors = wide_priors(process)
    fit, true, calls = fit_hyperparameters(process, rows, priors=priors), average.evaluated, []

    def failing(*args):
        calls.append(len(calls))
        value, *more = true(*args)
        return (jnp.nan if calls[-1] % 4 == 0 else value), *more

    monkeypatch.setattr(average, "evaluated", failing)
    some = average_hyperparameters(fit, rows, priors)
    assert not some.verdict.ok
    assert some.verdict.numbers["failed_points"] == int((np.asarray(some.weights) == 0).sum()) == 8
    assert "8 of them" in some.verdict.sentence
    monkeypatch.setattr(average, "evaluated", lambda *args: (jnp.nan, *true(*args)[1:]))
    with pytest.raises(ValueError, match="`process` must be one with an evidence"):
        average_hyperparameters(fit, rows, priors)
