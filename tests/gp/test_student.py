"""Student-t noise: the bound against quadrature, the Gaussian limit, outliers, and heavy-tailed
predictions.
"""

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from tractable.gp.regression import GaussianProcess
from tractable.gp.student import student_posterior
from tractable.kernels.stationary import RBF


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 6, 40)
    y = np.sin(x) + 0.1 * rng.normal(size=40)
    y[[7, 20, 33]] += np.array([4.0, -5.0, 3.0])
    return x, y


@pytest.fixture(scope="module")
def found(rows):
    return student_posterior(GaussianProcess(1.0 * RBF(1.0)), *rows)


def test_outliers_are_weighed_down_and_the_scale_is_learnt(rows, found):
    x, y = rows
    assert set(np.flatnonzero(np.asarray(found.weights) < 0.3)) == {7, 20, 33}
    assert 0.05 < float(found.scale) < 0.15
    robust = np.abs(np.asarray(found.latent(x).mean) - np.sin(x)).max()
    plain = np.abs(
        np.asarray(GaussianProcess(1.0 * RBF(1.0), 0.01).posterior(x, y).mean(x)) - np.sin(x)
    ).max()
    assert robust < 0.15 < plain
    assert "num_outliers  3" in repr(found)
    assert found.run.status.ok


def test_the_bound_rises_and_stays_below_the_evidence(rows, found):
    values = found.run.values
    assert (np.diff(values) > -1e-9 * np.abs(values[1:])).all()
    one = student_posterior(GaussianProcess(2.0 * RBF(1.0)), [0.0], [1.5], degrees=3.0, scale=0.5)

    def joint(f):
        return stats.norm.pdf(f, 0, np.sqrt(2.0)) * stats.t.pdf((1.5 - f) / 0.5, 3.0) / 0.5

    exact = np.log(integrate.quad(joint, -20, 20, points=[0.0, 1.5])[0])
    assert float(one.bound) < exact

    def minus_bound(theta):
        """Of any normal q(f) and any gamma q(u), from expectations of the joint and entropies."""
        m, (v, a, b) = theta[0], np.exp(theta[1:])
        log_u, u = special.digamma(a) - np.log(b), a / b
        target = 0.5 * (log_u - np.log(2 * np.pi * 0.25)) - 0.5 * u * ((1.5 - m) ** 2 + v) / 0.25
        function = -0.5 * np.log(4 * np.pi) - (m**2 + v) / 4
        scale = 1.5 * np.log(1.5) - special.gammaln(1.5) + 0.5 * log_u - 1.5 * u
        entropy = 0.5 * np.log(2 * np.pi * np.e * v) + stats.gamma.entropy(a, scale=1 / b)
        return -(target + function + scale + entropy)

    best = optimize.minimize(
        minus_bound,
        [1.0, -1.0, 0.5, 0.5],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    assert float(one.bound) == pytest.approx(-best.fun, abs=1e-5)


def test_many_degrees_are_gaussian_noise(rows):
    x, y = rows
    many = student_posterior(GaussianProcess(1.0 * RBF(1.0)), x, y, degrees=1e7, scale=0.3)
    plain = GaussianProcess(1.0 * RBF(1.0), 0.09).posterior(x, y)
    np.testing.assert_allclose(many.latent(x[:5]).mean, plain.latent(x[:5]).mean, atol=1e-4)
    assert float(many.bound) == pytest.approx(float(plain.log_evidence), abs=0.01)


def test_predictions_have_heavy_tails(rows, found):
    new = np.array([2.5])
    shown, latent = found.predict_dist(new), found.latent(new)
    scale = float(found.scale)

    def density(y):
        def joint(f):
            return (
                stats.norm.pdf(f, latent.mean[0], latent.std[0]) * stats.t.pdf((y - f) / scale, 4.0) / scale
            )

        centre, width = float(latent.mean[0]), 12 * float(latent.std[0])
        return integrate.quad(joint, centre - width, centre + width)[0]

    for gap in (0.0, 0.2, 0.6):
        y = float(latent.mean[0]) + gap
        assert float(shown.prob([y])[()]) == pytest.approx(density(y), rel=0.01)


def test_bad_options_are_named(rows):
    with pytest.raises(ValueError, match="`degrees` must be positive"):
        student_posterior(GaussianProcess(RBF(1.0)), *rows, degrees=0.0)
    with pytest.raises(ValueError, match="`scale` must be positive"):
        student_posterior(GaussianProcess(RBF(1.0)), *rows, scale=-1.0)
