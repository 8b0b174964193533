"""Runs of chains: exact answers, bit-exact resumption, streams, interruption, errors that name the fault."""

import sys

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import threadpoolctl

import tractable as tr
from tractable.core.iterate import count_traces
from tractable.core.storage import StorageError
from tractable.core.support import positive
from tractable.distributions.gaussian import Gaussian
from tractable.inference.chains.mcmc import mcmc, resume
from tractable.inference.chains.threads import Chains, run_block, stream
from tractable.inference.samplers.adaptive_metropolis import AdaptiveMetropolis
from tractable.inference.samplers.elliptical import EllipticalSlice
from tractable.inference.samplers.nuts import NUTS

START = {"mean": 0.0, "scale": 1.0}
SUPPORTS = {"scale": positive}
ROWS = np.random.default_rng(0).normal(2.0, 1.5, 30)


def log_density(x, rows):
    """A normal with an inverse-gamma-like prior on its variance: the posterior of the mean is Student's t."""
    return (
        -rows.size * jnp.log(x["scale"])
        - 0.5 * jnp.sum(((rows - x["mean"]) / x["scale"]) ** 2)
        - jnp.log(x["scale"])
    )


def sample(**options):
    settings = {
        "key": jr.key(0),
        "supports": SUPPORTS,
        "args": (ROWS,),
        "num_draws": 200,
        "progress": False,
    } | options
    return mcmc(log_density, START, **settings)


@pytest.fixture(scope="module")
def whole():
    return sample(num_draws=400)


def test_draws_meet_the_exact_posterior(whole):
    """Mean: Student's t with n - 1 degrees of freedom; variance: scaled inverse chi-squared."""
    long = sample(num_draws=2000)
    n, mean, variance = ROWS.size, ROWS.mean(), ROWS.var(ddof=1)
    table = long.summary()
    assert abs(table.loc["mean", "mean"] - mean) < 4 * table.loc["mean", "mcse"]
    exact_sd = np.sqrt(variance / n * (n - 1) / (n - 3))
    assert table.loc["mean", "sd"] == pytest.approx(
        exact_sd, rel=5 / np.sqrt(2 * table.loc["mean", "ess_bulk"])
    )
    squared = long.map(lambda x: x["scale"] ** 2).expectation(lambda v: v)
    assert abs(float(squared.value) - (n - 1) * variance / (n - 3)) < 4 * float(squared.standard_error)
    assert long.verdict.ok
    assert long.draws["scale"].shape == (4, 2000)


def test_half_and_half_is_the_whole(whole, tmp_path):
    half = sample(num_draws=200)
    half.save(tmp_path / "half")
    both = resume(tmp_path / "half", log_density, args=(ROWS,), progress=False)
    assert both.num_draws == 400
    for name in START:
        np.testing.assert_array_equal(both.draws[name], whole.draws[name])
    np.testing.assert_array_equal(both.info.energy, whole.info.energy)
    assert both.num_gradients == whole.num_gradients
    more = tr.resume(tmp_path / "half", log_density, args=(ROWS,), num_draws=57, progress=False)
    np.testing.assert_array_equal(more.draws["mean"], whole.draws["mean"][:, :257])


def test_thinning_keeps_every_second_draw(whole):
    thinned = sample(num_draws=200, thin=2)
    np.testing.assert_array_equal(thinned.draws["mean"], whole.draws["mean"][:, 1::2])
    assert thinned.num_gradients == whole.num_gradients


def test_streamed_draws_are_the_same_and_live_on_disk(whole, tmp_path):
    streamed = sample(num_draws=400, stream=tmp_path / "draws")
    np.testing.assert_array_equal(streamed.draws["scale"], whole.draws["scale"])
    assert isinstance(streamed.draws["scale"], np.memmap)
    assert (tmp_path / "draws" / "draws.scale.npy").exists()


class _Interrupting:
    """`Chains.advance` that is interrupted when it is called for the `turn`-th time while drawing."""

    def __init__(self, turn):
        self.turn, self.calls, self.real = turn, 0, Chains.advance

    def __call__(self, chains, target, steps):
        if chains.phase == "draws" and steps > 0:
            self.calls += 1
            if self.calls == self.turn:
                raise KeyboardInterrupt
        return self.real(chains, target, steps)


@pytest.mark.parametrize("streams", [False, True])
def test_an_interrupted_run_is_partial_and_goes_on_from_its_checkpoint(whole, tmp_path, monkeypatch, streams):
    options = {"num_draws": 400, "checkpoint": tmp_path / "run", "seconds": 0.0}
    if streams:
        options["stream"] = tmp_path / "draws"
    with monkeypatch.context() as patch:
        interrupting = _Interrupting(3)
        patch.setattr(Chains, "advance", lambda chains, target, steps: interrupting(chains, target, steps))
        part = sample(**options)
    assert 0 < part.num_draws < 400
    np.testing.assert_array_equal(part.draws["mean"], whole.draws["mean"][:, : part.num_draws])
    assert "artial" in part.verdict.sentence
    again = sample(**options)
    np.testing.assert_array_equal(again.draws["mean"], whole.draws["mean"])
    resumed = resume(tmp_path / "run", log_density, args=(ROWS,), num_draws=20, progress=False)
    assert resumed.num_draws == 420
    np.testing.assert_array_equal(resumed.draws["mean"][:, :400], whole.draws["mean"])


def test_interrupted_in_warm_up_there_are_no_draws_and_it_begins_anew(whole, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[mcmc.__module__], "warm_up", stop)
        post = sample(num_draws=400, checkpoint=tmp_path / "run")
    assert post.num_draws == 0
    assert not post.verdict.ok
    again = resume(tmp_path / "run", log_density, args=(ROWS,), progress=False)
    np.testing.assert_array_equal(again.draws["mean"], whole.draws["mean"])


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    sample(num_draws=20, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match=r"checkpoint.*of this very run"):
        sample(num_draws=20, checkpoint=tmp_path / "run", key=jr.key(1))
    (tmp_path / "run").write_bytes(b"nonsense")
    with pytest.raises(StorageError):
        sample(num_draws=20, checkpoint=tmp_path / "run")


def test_another_density_is_refused_by_name(tmp_path):
    """Also one that differs by a weak prior, behind a constant that is large."""
    shifted = lambda x, rows: log_density(x, rows) - 1e7  # noqa: E731
    other = lambda x, rows: shifted(x, rows) - 0.01 * x["mean"] ** 2  # noqa: E731
    options = {"key": jr.key(3), "supports": SUPPORTS, "args": (ROWS,), "num_draws": 20, "warmup": 30}
    options |= {"checkpoint": tmp_path / "run", "progress": False}
    mcmc(shifted, START, **options)
    for go_on in (lambda f: mcmc(f, START, **options), lambda f: resume(tmp_path / "run", f, args=(ROWS,))):
        with pytest.raises(ValueError, match=r"`log_density` must be that of the saved run.*holds"):
            go_on(other)
    with pytest.raises(ValueError, match="`log_density` must be that of the saved run"):
        resume(tmp_path / "run", shifted, args=(ROWS + 1.0,))
    assert resume(tmp_path / "run", shifted, args=(ROWS,), num_draws=5, progress=False).num_draws == 25


def test_chains_use_one_thread_of_linear_algebra_each(monkeypatch):
    seen = []

    def look(*given):
        seen.append(
            {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"}
        )
        return run_block(*given)

    monkeypatch.setattr("tractable.inference.chains.threads.run_block", look)
    sample(num_draws=20, warmup=10)
    assert seen
    assert all(threads == {1} for threads in seen)


def test_new_data_of_the_same_shape_compile_nothing():
    counted = count_traces(log_density)
    for seed, rows in enumerate([ROWS, ROWS + 1.0]):
        mcmc(
            counted,
            START,
            key=jr.key(seed),
            supports=SUPPORTS,
            args=(rows,),
            num_draws=20 + 7 * seed,
            warmup=30,
            progress=False,
        )
        traces = counted.count if seed == 0 else traces
    assert counted.count == traces


@pytest.mark.parametrize(
    "options",
    [{"num_chains": 1}, {"metric": "diagonal"}, {"metric": "low_rank"}, {"metric": "none"}, {"warmup": 60}],
)
def test_options_leave_the_answer(options):
    post = sample(num_draws=500, **options)
    report = post.summary()
    assert abs(report.loc["mean", "mean"] - ROWS.mean()) < 4.5 * report.loc["mean", "mcse"]
    assert post.num_chains == options.get("num_chains", 4)


@pytest.mark.parametrize("begin", ["pathfinder", "laplace"])
def test_chains_may_begin_at_an_approximation(begin):
    post = sample(num_draws=300, begin=begin, supports=SUPPORTS)
    report = post.summary()
    assert abs(report.loc["mean", "mean"] - ROWS.mean()) < 4.5 * report.loc["mean", "mcse"]


def test_without_warm_up_the_sampler_is_taken_as_it_is():
    post = sample(num_draws=50, warmup=0, sampler=NUTS(0.05))
    assert post.warmup.num_steps == 0
    assert float(post.sampler.step_size) == pytest.approx(0.05)


def test_words_of_a_stream_do_not_depend_on_the_cut():
    words = np.array([1, 2], np.uint32)
    whole = stream(words, "warmup", 3, 0, 50)
    np.testing.assert_array_equal(stream(words, "warmup", 3, 20, 30), whole[20:])
    assert not np.array_equal(stream(words, "warmup", 4, 0, 50), whole)
    assert not np.array_equal(stream(words, "draws", 3, 0, 50), whole)


def test_a_start_outside_its_support_is_refused_by_name():
    with pytest.raises(ValueError, match="`scale` must be positive"):
        mcmc(log_density, {"mean": 0.0, "scale": -1.0}, key=jr.key(0), supports=SUPPORTS, args=(ROWS,))


def test_a_start_of_zero_density_names_the_variable_its_value_and_support():
    density = lambda x: jnp.where(x["a"] > 3, -x["a"], -jnp.inf) - x["b"]  # noqa: E731
    with pytest.raises(
        ValueError, match=r"finite log-density; got log-density -inf with a = 1.*positive"
    ) as caught:
        mcmc(density, {"a": 1.0, "b": 1.0}, key=jr.key(0), supports={"a": positive, "b": positive})
    assert "b =" not in str(caught.value)
    with pytest.raises(ValueError, match="start"):
        mcmc(lambda x: x["a"] * jnp.nan, {"a": 1.0}, key=jr.key(0))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_chains", 0),
        ("num_draws", 0),
        ("thin", 0),
        ("warmup", "long"),
        ("warmup", -1),
        ("metric", "round"),
        ("begin", "north"),
        ("spread", -1.0),
    ],
)
def test_bad_options_are_named(option, value):
    with pytest.raises(ValueError, match=f"`{option}` must be"):
        sample(**{option: value})


@pytest.mark.parametrize(
    "option", [{"metric": "dense"}, {"begin": "laplace"}, {"spread": 2.0}, {"supports": {"x": positive}}]
)
def test_options_without_effect_are_refused(option):
    sampler = EllipticalSlice(Gaussian(np.zeros(1), np.eye(1)))
    (name,) = option
    with pytest.raises(ValueError, match=f"`{name}` must be left out: EllipticalSlice sees the start"):
        mcmc(lambda x: 0.0 * x.sum(), jnp.zeros(1), sampler, key=jr.key(0), **option)


def test_a_metric_for_a_sampler_that_tunes_itself_is_refused():
    with pytest.raises(ValueError, match="`metric` must be left out: AdaptiveMetropolis tunes itself"):
        mcmc(lambda x: -x @ x, jnp.zeros(2), AdaptiveMetropolis(), key=jr.key(0), metric="dense")


def test_a_file_that_is_no_run_is_refused(tmp_path):
    tr.save(tmp_path / "x", {"a": 1})
    with pytest.raises(ValueError, match="a checkpoint or a posterior"):
        resume(tmp_path / "x", log_density)


def test_jumps_are_found_and_named():
    density = lambda x: -0.5 * (x["a"] ** 2 + x["b"] ** 2) + 1.0 * (x["a"] > 0.3)  # noqa: E731
    post = mcmc(density, {"a": 0.0, "b": 0.0}, key=jr.key(3), num_draws=100, progress=False)
    assert not post.verdict.ok
    assert "jumps by 1 along `a`" in post.verdict.sentence


@pytest.mark.slow
def test_many_draws_on_disc_stay_small_in_memory(tmp_path):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    post = mcmc(
        lambda x: -0.5 * x @ x,
        np.zeros(10),
        key=jr.key(0),
        num_draws=50_000,
        stream=tmp_path,
        progress=False,
    )
    assert post.verdict.ok
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kilobytes
    assert post.draws.shape == (4, 50_000, 10)
