"""Weights in log space: definitions in NumPy, unbiased resampling, bad input by name."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given

from tractable.core.estimate import Estimate
from tractable.inference.weighted.weights import (
    effective_sample_size,
    log_mean_weight,
    mean_estimate,
    normalise,
    resample,
    resampling_schemes,
    weighted_mean,
)

LOGS = np.log(
    np.array([0.05, 0.0, 0.31, 0.4, 0.24]), where=np.array([1, 0, 1, 1, 1], bool), out=np.full(5, -np.inf)
)
FINITE = hnp.arrays(float, 6, elements=st.floats(-400, 400))


@given(FINITE, st.floats(-300, 300))
def test_normalised_weights_sum_to_one_whatever_their_scale(logs, shift):
    w = np.exp(np.asarray(normalise(logs + shift)))
    np.testing.assert_allclose(w.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(
        w, np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum(), rtol=1e-9, atol=1e-300
    )


@given(FINITE)
def test_effective_sample_size_is_its_definition(logs):
    w = np.exp(logs - logs.max())
    np.testing.assert_allclose(effective_sample_size(logs), w.sum() ** 2 / (w**2).sum(), rtol=1e-10)
    assert 1 - 1e-9 <= float(effective_sample_size(logs)) <= 6 + 1e-9


def test_effective_sample_size_of_equal_weights_is_their_number():
    np.testing.assert_allclose(effective_sample_size(jnp.full(5, -750.0)), 5, rtol=1e-12)
    np.testing.assert_allclose(effective_sample_size([[0.0, -np.inf], [3.0, 3.0]]), [1, 2], rtol=1e-12)


def test_weights_that_are_all_zero_inside_a_program_are_worth_nothing():
    assert float(jax.jit(effective_sample_size)(jnp.full(3, -jnp.inf))) == 0
    assert float(jax.jit(log_mean_weight)(jnp.full(3, -jnp.inf)).value) == -np.inf
    assert np.isnan(float(jax.jit(effective_sample_size)(jnp.array([0.0, jnp.nan]))))


@given(FINITE)
def test_log_mean_weight_and_its_error_are_the_delta_method(logs):
    w = np.exp(logs - logs.max())
    found = log_mean_weight(logs)
    np.testing.assert_allclose(found.value, np.log(w.mean()) + logs.max(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found.standard_error, w.std(ddof=1) / np.sqrt(6) / w.mean(), rtol=1e-6, atol=1e-12
    )


def test_the_standard_error_of_the_log_mean_is_the_spread_over_repetitions():
    logs = jr.normal(jr.key(0), (400, 500)) * 0.8
    found = log_mean_weight(logs)
    np.testing.assert_allclose(found.value.std(), found.standard_error.mean(), rtol=5 / np.sqrt(2 * 400))
    z = (found.value.mean() - 0.32) / (found.value.std() / 20)
    assert abs(z) < 5


def test_weighted_mean_ignores_values_of_weight_zero():
    values = jnp.array([1.0, jnp.nan, 2.0, 3.0, 4.0])
    found = weighted_mean(values, LOGS)
    w, v = np.exp(LOGS), np.array([1.0, 0, 2, 3, 4])
    np.testing.assert_allclose(found.value, (w * v).sum(), rtol=1e-12)
    np.testing.assert_allclose(
        found.standard_error, np.sqrt((w**2 * (v - (w * v).sum()) ** 2).sum()), rtol=1e-12
    )


def test_mean_estimate_is_the_mean_and_its_error():
    x = np.random.default_rng(0).normal(size=(30, 2))
    found = mean_estimate(x)
    np.testing.assert_allclose(found.value, x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, x.std(0, ddof=1) / np.sqrt(30), rtol=1e-12)
    assert repr(Estimate(jnp.asarray(1.5), jnp.asarray(0.25))) == "1.5 ± 0.25"
    assert Estimate(jnp.asarray(1.5), jnp.asarray(0.25)).interval(2) == (1.0, 2.0)


@pytest.mark.parametrize("method", resampling_schemes)
@pytest.mark.parametrize("num_draws", [5, 8])
def test_resampling_counts_are_unbiased_and_scatter_no_more_than_multinomial(method, num_draws):
    keys = jr.split(jr.key(3), 4000)
    chosen = jax.vmap(lambda k: resample(k, jnp.asarray(LOGS), num_draws, method=method))(keys)
    counts = np.stack([(np.asarray(chosen) == i).sum(1) for i in range(5)], 1)
    w = np.exp(LOGS)
    error = np.sqrt(num_draws * w * (1 - w) / 4000)
    np.testing.assert_array_less(np.abs(counts.mean(0) - num_draws * w), 5 * error + 1e-12)
    assert counts[:, 1].max() == 0
    assert (np.diff(np.asarray(chosen), axis=1) >= 0).all()
    assert counts.var(0).sum() <= 1.1 * (num_draws * w * (1 - w)).sum()
    if method in ("systematic", "residual"):
        assert (counts >= np.floor(num_draws * w)[None] - 1e-9).all()
    if method == "systematic":
        assert (counts <= np.ceil(num_draws * w)[None]).all()


def test_whole_counts_are_kept_exactly_by_residual_resampling():
    logs = jnp.log(jnp.array([0.25, 0.5, 0.25]))
    np.testing.assert_array_equal(resample(jr.key(0), logs, 4, method="residual"), [0, 1, 1, 2])


def test_gradient_of_the_log_mean_is_the_normalised_weights():
    gradient = jax.grad(lambda logs: log_mean_weight(logs).value)(jnp.asarray(LOGS))
    np.testing.assert_allclose(gradient, np.exp(LOGS), rtol=1e-12)


def test_single_precision_stays_single():
    logs = jnp.asarray(LOGS, jnp.float32)
    found = log_mean_weight(logs)
    kinds = {found.value.dtype, found.standard_error.dtype, effective_sample_size(logs).dtype}
    assert kinds == {np.dtype("float32")}
    for method in resampling_schemes:
        assert int(resample(jr.key(0), logs, 8, method=method).max()) <= 4


def test_bad_weights_are_refused_by_name():
    with pytest.raises(ValueError, match=r"`log_weights` must be logarithms of weights.*got nan"):
        normalise([0.0, np.nan])
    with pytest.raises(ValueError, match=r"`log_weights` must be .*got minus infinity everywhere"):
        effective_sample_size([-np.inf, -np.inf])
    with pytest.raises(ValueError, match=r"`log_weights` must be at least one weight"):
        log_mean_weight(np.zeros(0))
    with pytest.raises(ValueError, match=r"`method` must be one of .*'systematic'"):
        resample(jr.key(0), [0.0, 1.0], method="magic")
    with pytest.raises(ValueError, match=r"`values` must be one per weight \(2\)"):
        weighted_mean([1.0, 2.0, 3.0], [0.0, 0.0])
