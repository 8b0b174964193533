"""The result of chains: table, derived quantities, expectations, files, exports."""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import tractable
from tests.inference.test_diagnostics import autoregressive
from tractable.core.iterate import Status, count_traces
from tractable.core.module import Module
from tractable.core.storage import StorageError
from tractable.inference import posterior as module
from tractable.inference.chains.posterior import ChainPosterior as Posterior
from tractable.inference.samplers.sampler import Info
from tractable.inference.trust.effective_size import bulk_effective_size, mcse_mean

SHAPE = (4, 500)


class Report(Module):
    num_gradients: np.ndarray
    sentence: str = "Done."


class WithFunction(Module):
    function: object


def make(**changes):
    rng = np.random.default_rng(0)
    info = Info(np.full(SHAPE, 0.8), np.full(SHAPE, 7), np.zeros(SHAPE, bool), energy=rng.normal(size=SHAPE))
    fields = {
        "draws": {"theta": rng.normal(size=(*SHAPE, 3)), "tau": rng.gamma(2.0, size=SHAPE)},
        "log_density": rng.normal(size=SHAPE),
        "info": info,
        "warmup": Report(np.array([100, 200, 300, 400])),
        "seconds": 1.5,
    }
    return Posterior(**(fields | changes))


def test_summary_has_the_columns_and_numbers():
    post = make()
    table = post.summary()
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == ["mean", "sd", "q5", "q50", "q95", "mcse", "ess_bulk", "ess_tail", "rhat"]
    assert list(table.index) == ["tau", "theta[0]", "theta[1]", "theta[2]"]
    tau = post.draws["tau"]
    row = table.loc["tau"]
    np.testing.assert_allclose(row["mean"], tau.mean(), rtol=1e-12)
    np.testing.assert_allclose(row["sd"], tau.std(ddof=1), rtol=1e-12)
    np.testing.assert_allclose(row[["q5", "q50", "q95"]], np.quantile(tau, [0.05, 0.5, 0.95]), rtol=1e-12)
    np.testing.assert_allclose(row["ess_bulk"], bulk_effective_size(tau), rtol=1e-12)
    np.testing.assert_allclose(row["mcse"], mcse_mean(tau), rtol=1e-12)


def test_printed_forms_end_with_the_verdict():
    post = make()
    assert repr(post.summary()).endswith(post.verdict.sentence)
    assert repr(post).startswith("Posterior of 4 x 500 draws, 15000 gradients, 1.5 s\n")
    assert repr(post).endswith(post.verdict.sentence)
    assert f"<p>{post.verdict.sentence[:20]}" in post.summary()._repr_html_()
    # what is cut out of the table is a plain frame
    assert type(post.summary()[["mean"]]) is pd.DataFrame


def test_rows_and_quantiles_are_chosen_by_name():
    post = make()
    table = post.summary(["theta", "tau"], probs=(0.025, 0.5))
    assert list(table.index) == ["theta[0]", "theta[1]", "theta[2]", "tau"]
    expected = np.quantile(post.draws["theta"][..., 1], 0.025)
    np.testing.assert_allclose(table.loc["theta[1]", "q2.5"], expected, rtol=1e-12)
    assert list(post.summary(["theta[2]"]).index) == ["theta[2]"]
    with pytest.raises(ValueError, match=r"`names` must be among the variables \(tau, theta\); got 'mu'"):
        post.summary(["mu"])
    with pytest.raises(ValueError, match=r"`names` must be a list of names; got 'tau'. Pass \['tau'\]"):
        post.summary("tau")
    with pytest.raises(ValueError, match=r"`probs` must be between 0 and 1"):
        post.summary(probs=(5,))


def test_counts():
    post = make()
    assert (post.num_chains, post.num_draws) == SHAPE
    assert post.num_gradients == 7 * 2000 + 1000
    assert make(info=None, warmup=None).num_gradients == 0
    assert post.status is Status.completed
    np.testing.assert_array_equal(post.stacked()["theta"][500], post.draws["theta"][1, 0])
    np.testing.assert_array_equal(post["theta[2]"], post.draws["theta"][..., 2])


def test_derived_quantities_are_computed_once_per_draw():
    post = make()
    counted = count_traces(lambda draw: {"sum": draw["theta"].sum(), "scaled": draw["theta"] * draw["tau"]})
    derived = post.map(counted)
    np.testing.assert_allclose(derived.draws["sum"], post.draws["theta"].sum(-1), rtol=1e-12)
    np.testing.assert_allclose(
        derived.draws["scaled"], post.draws["theta"] * post.draws["tau"][..., None], rtol=1e-12
    )
    post.map(counted)
    assert counted.count == 1
    assert derived.names == ["scaled[0]", "scaled[1]", "scaled[2]", "sum"]
    assert derived.num_gradients == post.num_gradients


def test_blocks_of_a_long_chain_cover_it_once(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 200)
    post = make()
    np.testing.assert_allclose(
        post.map(lambda draw: 2 * draw["tau"]).draws, 2 * post.draws["tau"], rtol=1e-14
    )


def test_expectation_knows_the_autocorrelation():
    phi, length = 0.8, 4000
    x = autoregressive(phi, (4, length), 3)
    post = Posterior({"x": x}, np.zeros((4, length)) + x)
    found = post.expectation(lambda draw: draw["x"])
    # the variance of the mean of an AR(1): sigma^2 (1 + phi)/(1 - phi)/N
    expected = np.sqrt((1 + phi) / (1 - phi) / (1 - phi**2) / (4 * length))
    np.testing.assert_allclose(found.standard_error, expected, rtol=0.1)
    assert abs(float(found.value)) < 5 * expected
    both = post.expectation(lambda draw: jnp.stack([draw["x"], jnp.ones(())]))
    np.testing.assert_array_equal(both.standard_error[1], 0.0)
    with pytest.raises(ValueError, match=r"`function` must be one that returns an array; got dict"):
        post.expectation(lambda draw: draw)


def test_thinning_keeps_records_beside_draws():
    post = make()
    thin = post.thin(3)
    np.testing.assert_array_equal(thin.draws["theta"], post.draws["theta"][:, ::3])
    np.testing.assert_array_equal(thin.info.energy, post.info.energy[:, ::3])
    np.testing.assert_array_equal(thin.log_density, post.log_density[:, ::3])
    assert thin.verdict.sentence != ""
    with pytest.raises(ValueError, match=r"`step` must be a whole number from 1 to 500; got 501"):
        post.thin(501)


def test_files_give_the_same_posterior_back(tmp_path):
    post = make(remarks=("A remark.",), code=Status.interrupted, continuation={"key": jax.random.key(1)})
    post.save(tmp_path / "post")
    back = tractable.load(tmp_path / "post", types=[Report])
    np.testing.assert_array_equal(back.draws["theta"], post.draws["theta"])
    assert back.verdict.sentence == post.verdict.sentence
    assert (back.remarks, back.status, back.seconds) == (("A remark.",), Status.interrupted, 1.5)
    with pytest.raises(StorageError, match=r"`obj.sampler.function` must be an array"):
        make(sampler=WithFunction(len)).save(tmp_path / "post")


def test_draws_of_any_type_have_a_table():
    rng = np.random.default_rng(1)
    draws = {
        "count": rng.integers(0, 9, SHAPE),
        "flag": rng.random(SHAPE) < 0.3,
        "small": rng.normal(size=SHAPE).astype(np.float32),
        "device": jnp.asarray(rng.normal(size=SHAPE)),
    }
    post = make(draws=draws)
    assert post.verdict.ok
    means = [np.asarray(draws[name], float).mean() for name in ("count", "device", "flag", "small")]
    np.testing.assert_allclose(post.summary()["mean"], means, rtol=1e-12)
    with pytest.raises(TypeError, match=r"`z` must be an array of real numbers; got dtype complex128"):
        make(draws={"z": np.zeros(SHAPE, complex)}).summary()


def test_no_values_no_table():
    shown = []
    jax.jit(lambda draws: shown.append(repr(Posterior(draws, draws))) or 0)(np.zeros((2, 8)))
    assert shown == ["Posterior(...)"]


def test_draws_on_disk_are_read_as_they_are(tmp_path):
    post = make()
    on_disk = np.memmap(tmp_path / "theta", float, "w+", shape=(*SHAPE, 3))
    on_disk[:] = post.draws["theta"]
    mapped = make(draws={"theta": on_disk, "tau": post.draws["tau"]})
    pd.testing.assert_frame_equal(pd.DataFrame(mapped.summary()), pd.DataFrame(post.summary()))


def test_answers_are_computed_once_and_are_not_part_of_the_tree():
    post, other = make(), make()
    assert post.report is post.report
    assert post.verdict is post.verdict
    assert jax.tree.structure(post) == jax.tree.structure(other)


@pytest.mark.parametrize(
    ("name", "version"), [("arviz", "0.23.4"), ("arviz", "1.0.0"), ("arviz_base", "1.0.0")]
)
def test_export_to_either_generation_of_arviz(monkeypatch, name, version):
    seen = {}

    def old(**groups):
        seen.update(groups)
        return "InferenceData"

    def new(groups):
        seen.update(groups)
        return "DataTree"

    fake = types.ModuleType(name)
    fake.__dict__.update(__version__=version, from_dict=old if version.startswith("0.") else new)
    monkeypatch.setitem(sys.modules, "arviz", None)
    monkeypatch.setitem(sys.modules, name, fake)
    post = make()
    assert post.to_arviz() == ("InferenceData" if version.startswith("0.") else "DataTree")
    np.testing.assert_array_equal(seen["posterior"]["theta"], post.draws["theta"])
    stats = seen["sample_stats"]
    np.testing.assert_array_equal(stats["lp"], post.log_density)
    np.testing.assert_array_equal(stats["energy"], post.info.energy)
    assert set(stats) == {"lp", "acceptance_rate", "n_steps", "diverging", "reached_max_treedepth", "energy"}
    assert all(np.shape(value) == SHAPE for value in stats.values())


def test_export_without_arviz_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install tractable\[arviz\]"):
        make().to_arviz()
