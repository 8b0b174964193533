"""Agreement and effective size against loops, worked numbers, and chains whose answers are known."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import chains as oracle
from tractable.inference.trust.autocorrelation import (
    autocorrelation_time,
    autocovariance,
    mean_autocovariance,
)
from tractable.inference.trust.chain_report import column, examine, named_leaves
from tractable.inference.trust.diagnostics import (
    chain_variances,
    classic_rhat,
    faults_of,
    nested_rhat,
    rhat,
    split_chains,
    split_rhat,
)
from tractable.inference.trust.effective_size import (
    bulk_effective_size,
    effective_size,
    energy_information,
    mcse_mean,
    mcse_quantile,
    mcse_sd,
    quantile_effective_size,
    tail_effective_size,
    variogram,
    variogram_effective_size,
)

WORKED = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]])


def autoregressive(phi, shape, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=shape)
    x = np.empty(shape)
    x[:, 0] = noise[:, 0] / np.sqrt(1 - phi**2)
    for i in range(1, shape[1]):
        x[:, i] = phi * x[:, i - 1] + noise[:, i]
    return x


SHAPES = {
    "plain": autoregressive(0.5, (3, 40), 1),
    "odd and slow": autoregressive(0.9, (2, 51), 2),
    "anticorrelated": autoregressive(-0.7, (4, 32), 3),
    "one chain": autoregressive(0.3, (1, 45), 4),
    "ties": np.round(autoregressive(0.6, (3, 37), 5)),
    "shifted": autoregressive(0.2, (4, 24), 6) + 0.5 * np.arange(4)[:, None],
    "heavy": np.tan(1.5 * np.sin(autoregressive(0.5, (2, 40), 7))),
    "tiny": autoregressive(0.1, (2, 5), 8),
}


def test_worked_variances_and_rhat():
    found = chain_variances(WORKED)
    np.testing.assert_allclose([found.within, found.between, found.pooled], [5 / 3, 2, 1.75], rtol=1e-14)
    np.testing.assert_allclose(classic_rhat(WORKED), 1.0246951, atol=5e-8)


def test_identical_chains_have_a_value_below_one():
    x = np.tile(np.arange(10.0), (3, 1))
    np.testing.assert_allclose(classic_rhat(x), np.sqrt(9 / 10), rtol=1e-14)


def test_independent_normal_chains_agree():
    x = np.random.default_rng(0).normal(size=(4, 1000))
    assert abs(float(classic_rhat(x)) - 1) < 0.003
    assert abs(float(rhat(x)) - 1) < 0.006


@pytest.mark.parametrize("name", SHAPES)
def test_every_number_is_that_of_the_loops(name):
    x = SHAPES[name]
    halves = oracle.split(x)
    np.testing.assert_array_equal(split_chains(x), halves)
    expected = {
        "split_rhat": oracle.rhat(halves),
        "rhat": oracle.rank_rhat(x),
        "size": oracle.size(halves),
        "bulk": oracle.size(oracle.scores(halves)),
        "tail": oracle.tail_size(x),
        "third": oracle.quantile_size(x, 0.3),
        "mcse": np.std(x, ddof=1) / np.sqrt(oracle.size(halves)),
        "mcse_sd": oracle.mcse_sd(x),
        "mcse_third": oracle.mcse_quantile(x, 0.3),
    }
    found = {
        "split_rhat": split_rhat(x),
        "rhat": rhat(x),
        "size": effective_size(x),
        "bulk": bulk_effective_size(x),
        "tail": tail_effective_size(x),
        "third": quantile_effective_size(x, 0.3),
        "mcse": mcse_mean(x),
        "mcse_sd": mcse_sd(x),
        "mcse_third": mcse_quantile(x, 0.3),
    }
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "one chain"])
def test_variogram_is_that_of_the_loops(name):
    x = SHAPES[name]
    np.testing.assert_allclose(variogram(x), oracle.variogram(x), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(variogram_effective_size(x), oracle.variogram_size(x), rtol=1e-9)


def test_numbers_of_another_implementation():
    """ArviZ 0.23.4 on two chains of twenty draws (k * 7919 mod 101)/50."""
    x = (np.arange(40) * 7919 % 101 / 50.0).reshape(2, 20)
    np.testing.assert_allclose(rhat(x), 0.9679896904172947, rtol=1e-12)
    np.testing.assert_allclose(split_rhat(x), 0.962301363305529, rtol=1e-12)
    np.testing.assert_allclose(bulk_effective_size(x), 64.0823996531185, rtol=1e-12)
    np.testing.assert_allclose(tail_effective_size(x), 49.572649572649595, rtol=1e-12)
    np.testing.assert_allclose(effective_size(x), 64.0823996531185, rtol=1e-12)
    np.testing.assert_allclose(mcse_mean(x), 0.07505395377428982, rtol=1e-12)
    np.testing.assert_allclose(mcse_sd(x), 0.0332174964278155, rtol=1e-12)
    np.testing.assert_allclose(mcse_quantile(x, 0.3), 0.16, rtol=1e-12)


@pytest.mark.parametrize(("phi", "ratio"), [(0.5, 1 / 3), (0.9, 0.0526316)])
def test_autoregressions_are_worth_what_they_should(phi, ratio):
    x = autoregressive(phi, (4, 100_000))
    assert ratio == pytest.approx((1 - phi) / (1 + phi), abs=5e-8)
    # the truncated sum has an error of about sqrt(2 (2 M + 1)/N), M lags: some percent
    np.testing.assert_allclose(effective_size(x) / x.size, ratio, rtol=0.05)
    np.testing.assert_allclose(variogram_effective_size(x) / x.size, ratio, rtol=0.05)
    # normal scores of a Gaussian chain are nearly the chain itself
    np.testing.assert_allclose(bulk_effective_size(x) / x.size, ratio, rtol=0.05)


def test_error_of_the_mean_is_its_spread_over_repetitions():
    x = autoregressive(0.6, (400, 1000), 11)
    errors = mcse_mean(np.moveaxis(x.reshape(100, 4, 1000), 0, 2))
    spread = x.reshape(100, 4000).mean(1).std(ddof=1)
    np.testing.assert_allclose(errors.mean(), spread, rtol=5 / np.sqrt(2 * 99))


def test_error_of_sd_and_quantile_are_their_spread_over_repetitions():
    x = np.random.default_rng(5).normal(size=(4, 500, 200))
    flat = x.reshape(2000, 200)
    np.testing.assert_allclose(mcse_sd(x).mean(), flat.std(0).std(ddof=1), rtol=5 / np.sqrt(2 * 199))
    spread = np.quantile(flat, 0.9, axis=0).std(ddof=1)
    np.testing.assert_allclose(mcse_quantile(x, 0.9).mean(), spread, rtol=5 / np.sqrt(2 * 199))


def test_tail_and_scale_disagreement_is_seen_by_the_folded_part():
    x = np.random.default_rng(1).normal(size=(4, 1000)) * np.array([1, 1, 1, 3.0])[:, None]
    assert split_rhat(x) < 1.01
    assert rhat(x) > 1.1


def test_ranks_do_not_care_for_moments():
    x = np.random.default_rng(2).standard_cauchy((4, 1000))
    assert rhat(x) < 1.01
    assert bulk_effective_size(x) > 3000


def test_nested_rhat_is_that_of_the_loops_and_sees_groups():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(12, 7))
    np.testing.assert_allclose(nested_rhat(x, 4), oracle.nested_rhat(x, 4), rtol=1e-12)
    # single draws of many chains: only the chains of a superchain vary inside it
    many = rng.normal(size=(1024, 1))
    assert abs(float(nested_rhat(many, 16)) - 1) < 0.02
    assert nested_rhat(many + np.repeat(np.arange(16.0), 64)[:, None], 16) > 3


@given(st.floats(-5, 5), st.floats(0.1, 10), st.integers(0, 100))
def test_affine_maps_change_nothing(shift, scale, seed):
    x = np.random.default_rng(seed).normal(size=(2, 30))
    for diagnostic in (rhat, split_rhat, bulk_effective_size, effective_size):
        np.testing.assert_allclose(diagnostic(scale * x + shift), diagnostic(x), rtol=1e-7)
    np.testing.assert_allclose(mcse_mean(scale * x + shift), scale * mcse_mean(x), rtol=1e-7)
    # any rising function leaves ranks alone
    np.testing.assert_allclose(bulk_effective_size(np.exp(x)), bulk_effective_size(x), rtol=1e-9)


def test_host_and_compiled_rules_are_one():
    x = SHAPES["plain"]
    np.testing.assert_allclose(
        mean_autocovariance(x), np.mean([autocovariance(row) for row in x], 0), atol=1e-12
    )
    # one chain with n rather than n - 1 in the variance: the two times are near each other
    long = autoregressive(0.5, (1, 2000), 9)
    size = float(effective_size(np.concatenate([long, long[:, ::-1]])))
    np.testing.assert_allclose(4000 / size, float(autocorrelation_time(long)), rtol=0.1)
    assert mean_autocovariance(jnp.asarray(x), jnp).dtype == jnp.float64


def test_variables_without_an_answer_are_nan_with_a_reason():
    x = np.random.default_rng(4).normal(size=(2, 50, 5))
    x[:, :, 1] = 0.1
    x[1, 7, 2] = np.nan
    x[0, 3, 3] = -np.inf
    assert faults_of(x).tolist() == ["", "constant", "not finite", "not finite", ""]
    for diagnostic in (rhat, split_rhat, effective_size, bulk_effective_size, tail_effective_size, mcse_mean):
        found = diagnostic(x)
        np.testing.assert_array_equal(np.isnan(found), [False, True, True, True, False])
        np.testing.assert_allclose(found[[0, 4]], [diagnostic(x[..., 0]), diagnostic(x[..., 4])], rtol=1e-12)
    assert faults_of(x[:, :3, :1]).tolist() == ["fewer than 4 draws per chain"]
    assert np.isnan(rhat(x[:, :3, 0]))


def test_chains_that_stand_still_apart_disagree_without_bound():
    x = np.repeat([[0.0], [1.0]], 20, 1)
    assert rhat(x) == np.inf
    assert effective_size(x) < 4


def test_an_indicator_without_variation_counts_fully():
    x = np.random.default_rng(6).integers(0, 2, (4, 100))
    assert quantile_effective_size(x, 0.95) == 400  # all draws are at most 1
    assert tail_effective_size(x) == min(quantile_effective_size(x, 0.05), 400)


def test_energy_information():
    energy = np.array([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0]])
    np.testing.assert_allclose(energy_information(energy), [3 / 1, 3 / 5])
    fresh = np.random.default_rng(7).normal(size=(2, 5000))
    np.testing.assert_allclose(energy_information(fresh), 2, rtol=0.1)
    assert (energy_information(autoregressive(0.95, (3, 2000), 8)) < 0.3).all()
    assert np.isnan(energy_information(np.full((2, 9), np.nan))).all()


def test_report_holds_each_number_by_name(tmp_path):
    x = np.stack([SHAPES["plain"], SHAPES["plain"] ** 3], -1)
    on_disk = np.memmap(tmp_path / "a", float, "w+", shape=x.shape)
    on_disk[:] = x
    draws = {"tau": np.abs(SHAPES["plain"]), "a": {"b": on_disk}}
    report = examine(draws, (0.1, 0.5))
    assert report.names == ("a.b[0]", "a.b[1]", "tau")
    np.testing.assert_allclose(report.quantiles[:2], np.quantile(x, [0.1, 0.5], axis=(0, 1)).T, rtol=1e-12)
    np.testing.assert_allclose(report.rhat[:2], rhat(x), rtol=1e-12)
    np.testing.assert_allclose(report.ess_bulk[:2], bulk_effective_size(x), rtol=1e-12)
    np.testing.assert_allclose(report.ess_tail[:2], tail_effective_size(x), rtol=1e-12)
    np.testing.assert_allclose(report.mcse[:2], mcse_mean(x), rtol=1e-12)
    np.testing.assert_allclose([report.mean[0], report.sd[0]], [x[..., 0].mean(), x[..., 0].std(ddof=1)])
    np.testing.assert_array_equal(column(draws, "a.b[1]"), x[..., 1])
    odd = examine({"x": SHAPES["odd and slow"]})
    np.testing.assert_allclose(odd.quantiles[0], np.quantile(SHAPES["odd and slow"], odd.probs), rtol=1e-12)
    np.testing.assert_allclose(odd.ess_tail, oracle.tail_size(SHAPES["odd and slow"]), rtol=1e-9)


def test_blocks_do_not_change_the_answer():
    x = np.random.default_rng(8).normal(size=(2, 1000, 150))  # three blocks
    report = examine(x)
    assert report.names[149] == "x[149]"
    np.testing.assert_allclose(report.rhat[[0, 70, 149]], rhat(x[..., [0, 70, 149]]), rtol=1e-12)
    np.testing.assert_allclose(rhat(x)[[0, 70, 149]], rhat(x[..., [0, 70, 149]]), rtol=1e-12)


def test_bad_input_is_refused():
    with pytest.raises(
        ValueError, match=r"`chains` must be of shape \(chains, draws, ...\); got shape \(5,\)"
    ):
        rhat(np.zeros(5))
    with pytest.raises(TypeError, match=r"`chains` must be an array of real numbers; got dtype <U1"):
        effective_size([["a", "b"]])
    with pytest.raises(ValueError, match=r"`chains` must be at least one draw"):
        rhat(np.zeros((2, 0)))
    with pytest.raises(ValueError, match=r"`chains` must be two chains or more; got 1. Use `split_rhat`"):
        classic_rhat(np.zeros((1, 9)))
    with pytest.raises(ValueError, match=r"`num_superchains` must be a number that divides the 6 chains"):
        nested_rhat(np.zeros((6, 9)), 4)
    with pytest.raises(ValueError, match=r"`prob` must be strictly between 0 and 1; got 1.0"):
        mcse_quantile(WORKED, 1.0)
    with pytest.raises(ValueError, match=r"`draws` must be arrays that share their first two axes"):
        named_leaves({"a": np.zeros((2, 3)), "b": np.zeros((2, 4))})
    with pytest.raises(ValueError, match=r"`variable` must be one of a; got 'b'"):
        column({"a": np.zeros((2, 3))}, "b")
    with pytest.raises(ValueError, match=r"`energy` must be of shape \(chains, draws\)"):
        energy_information(np.zeros((2, 3, 4)))
