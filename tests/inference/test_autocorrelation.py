"""Autocovariances by loops, and the time of chains whose time is known."""

import numpy as np
import pytest

from tractable.inference.trust.autocorrelation import autocorrelation_time, autocovariance


def autoregressive(rho, shape, seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros(shape)
    x[..., 0] = rng.normal(size=shape[:-1]) / np.sqrt(1 - rho**2)
    noise = rng.normal(size=shape)
    for i in range(1, shape[-1]):
        x[..., i] = rho * x[..., i - 1] + noise[..., i]
    return x


def test_autocovariance_is_the_sum_of_products():
    x = np.random.default_rng(0).normal(size=17)
    c = x - x.mean()
    expected = [(c[: 17 - t] * c[t:]).sum() / 17 for t in range(17)]
    np.testing.assert_allclose(autocovariance(x), expected, atol=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_the_time_of_an_autoregression(rho):
    times = [float(autocorrelation_time(autoregressive(rho, (4, 5000), seed))) for seed in range(3)]
    np.testing.assert_allclose(np.mean(times), (1 + rho) / (1 - rho), rtol=0.2)


def test_anticorrelated_and_constant_draws():
    assert float(autocorrelation_time(np.tile([1.0, -1.0], 500))) == pytest.approx(1 / np.log10(1000))
    assert float(autocorrelation_time(np.ones(1000))) == 1


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"`series` must be four draws or more"):
        autocorrelation_time([1.0, 2.0])
    with pytest.raises(ValueError, match=r"`series` must be draws \(n,\) or chains \(chains, n\)"):
        autocorrelation_time(np.zeros((2, 3, 4)))
