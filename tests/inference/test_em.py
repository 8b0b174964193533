"""EM: worked numbers, the law that the evidence never falls, and the same numbers however the rows arrive."""

import signal
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tractable.core import Module, Status, field, simplex
from tractable.core.iterate import count_traces
from tractable.distributions import Normal
from tractable.inference.expectation_maximisation.em import EM, best_of, em, objective
from tractable.inference.fit import fit


class TwoNormals(Module):
    r"""$w_1 N(\mu_1, \sigma_1^2) + w_2 N(\mu_2, \sigma_2^2)$, the smallest model with hidden labels."""

    weights: jax.Array = field(support=simplex)
    components: Normal

    def e_step(self, rows, weights):
        def log_joint(x):
            return jnp.log(self.weights) + jax.vmap(lambda c: c.log_prob(x))(self.components)

        joint = jax.vmap(log_joint)(rows)
        evidence = jax.nn.logsumexp(joint, axis=1)
        shares = weights[:, None] * jnp.exp(joint - evidence[:, None])
        return (shares.sum(0), shares.T @ rows, shares.T @ rows**2), weights @ evidence

    def m_step(self, stats):
        count, first, second = stats
        mean = first / count
        return TwoNormals(count / count.sum(), Normal(mean, jnp.sqrt(second / count - mean**2)))


class Descending(TwoNormals):
    """A model whose steps disagree with its objective."""

    def m_step(self, stats):
        return Descending(self.weights, Normal(self.components.loc + 1.0, self.components.scale))


def start(left=1.0, right=4.0, kind=TwoNormals):
    return kind(jnp.array([0.5, 0.5]), Normal(jnp.array([left, right]), jnp.ones(2)))


@pytest.fixture(scope="module")
def overlapping():
    generator = np.random.default_rng(0)
    return np.r_[generator.normal(0, 1, 700), generator.normal(2.5, 1, 300)]


def test_four_points_by_hand():
    run = EM(tol=0.0, max_steps=3).fit(start(), np.array([0.0, 1.0, 4.0, 5.0]))
    np.testing.assert_allclose(run.values, [-7.4251415, -5.7355138, -5.6757541], atol=5e-8)
    first = EM(tol=0.0, max_steps=1).fit(start(), np.array([0.0, 1.0, 4.0, 5.0])).state
    np.testing.assert_allclose(first.components.loc, [0.51786236, 4.48213764], atol=5e-9)
    np.testing.assert_allclose(first.components.scale**2, 0.32113038, atol=5e-9)
    np.testing.assert_allclose(run.state.components.scale**2, 0.25, atol=1e-4)


def test_objective_is_the_log_likelihood(overlapping):
    model = start()
    oracle = np.log(0.5 * stats.norm(1, 1).pdf(overlapping) + 0.5 * stats.norm(4, 1).pdf(overlapping)).sum()
    np.testing.assert_allclose(objective(model, overlapping), oracle, rtol=1e-12)


@pytest.mark.parametrize("accelerate", [False, True])
def test_evidence_never_falls(overlapping, accelerate):
    run = EM(tol=1e-10, max_steps=2000, accelerate=accelerate).fit(start(-1.0, 1.0), overlapping)
    assert run.status is Status.converged
    assert (np.diff(run.values) > -1e-9).all()


def test_acceleration_reaches_the_same_height_in_fewer_passes(overlapping):
    plain = EM(tol=1e-10, max_steps=2000).fit(start(-1.0, 1.0), overlapping)
    fast = EM(tol=1e-10, max_steps=2000, accelerate=True).fit(start(-1.0, 1.0), overlapping)
    assert 3 * int(fast.num_steps) < int(plain.num_steps)
    assert fast.values[-1] >= plain.values[-1] - 1e-6


@pytest.mark.parametrize("chunk", [None, 250])
def test_stopping_on_the_parameters_goes_on_where_the_objective_is_flat(overlapping, chunk):
    """The bound settles to eight digits while the components still walk; the parameters tell."""
    by_height = EM(tol=1e-6, max_steps=3000).fit(start(-1.0, 1.0), overlapping, chunk=chunk)
    by_place = EM(tol=1e-6, max_steps=3000, stop="parameters").fit(start(-1.0, 1.0), overlapping, chunk=chunk)
    assert by_height.status is by_place.status is Status.converged
    assert int(by_place.num_steps) > 2 * int(by_height.num_steps)
    after = EM(tol=0.0, max_steps=1).fit(by_place.state, overlapping).state
    before = by_place.state.components.loc
    moved = np.abs(np.asarray(after.components.loc - before)) / (1 + np.abs(np.asarray(before)))
    assert moved.max() <= 1e-6
    best = EM(tol=1e-14, max_steps=20_000, accelerate=True).fit(start(-1.0, 1.0), overlapping).state
    near, nearer = (np.abs(np.asarray(run.state.components.loc - best.components.loc)).max()
                    for run in (by_height, by_place))  # fmt: skip
    assert nearer < 0.1 * near


def test_a_start_that_stays_where_it_is_settles_at_once():
    rows = np.array([0.0, 1.0, 4.0, 5.0])
    there = EM(tol=1e-14, max_steps=2000).fit(start(), rows).state
    again = EM(tol=1e-6, stop="parameters").fit(there, rows)
    assert (again.status, int(again.num_steps)) == (Status.converged, 1)
    with pytest.raises(ValueError, match="`stop` must be one of"):
        EM(stop="time")


def test_steps_that_lower_the_objective_are_reported():
    run = EM(max_steps=20).fit(start(5.0, 6.0, Descending), np.zeros(10))
    assert run.status is Status.decreased
    assert "fell" in repr(run)


def test_chunks_and_streams_give_the_same_numbers(overlapping, tmp_path):
    whole = EM(tol=0.0, max_steps=12).fit(start(-1.0, 1.0), overlapping)
    path = tmp_path / "rows.npy"
    np.save(path, overlapping)
    ways = {
        "chunks": overlapping,
        "memory map": np.load(path, mmap_mode="r"),
        "stream": lambda: iter(overlapping),
    }
    for name, data in ways.items():
        run = EM(tol=0.0, max_steps=12).fit(start(-1.0, 1.0), data, chunk=128)
        assert int(run.num_steps) == int(whole.num_steps), name
        np.testing.assert_allclose(run.values, whole.values, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(run.state.components.loc, whole.state.components.loc, atol=1e-10)


def test_one_shot_iterators_are_refused(overlapping):
    with pytest.raises(ValueError, match="`data` must be readable more than once"):
        EM().fit(start(), iter(np.array_split(overlapping, 4)), chunk=100)


def test_weight_two_is_the_row_twice(overlapping):
    weights = np.ones(len(overlapping))
    weights[:5] = 2.0
    doubled = EM(tol=1e-9).fit(start(-1.0, 1.0), np.r_[overlapping, overlapping[:5]])
    weighted = EM(tol=1e-9).fit(start(-1.0, 1.0), overlapping, weights=weights)
    np.testing.assert_allclose(weighted.state.components.loc, doubled.state.components.loc, rtol=1e-8)


def test_new_row_counts_do_not_compile_again(overlapping):
    class Counted(TwoNormals):
        def e_step(self, rows, weights):
            return counted(self, rows, weights)

        def m_step(self, stats):
            fitted = TwoNormals.m_step(self, stats)
            return Counted(fitted.weights, fitted.components)

    counted = count_traces(TwoNormals.e_step)
    em(start(kind=Counted), overlapping[:990])
    traced = counted.count
    em(start(kind=Counted), overlapping[:600])
    assert counted.count == traced


def test_checkpoint_resumes_bit_for_bit(overlapping, tmp_path):
    algorithm = EM(tol=0.0, max_steps=12)
    whole = algorithm.fit(start(-1.0, 1.0), overlapping, checkpoint=tmp_path / "whole")

    passes = iter(range(100))

    def rows():
        if next(passes) == 4:
            raise KeyboardInterrupt  # what Ctrl-C does, in the middle of the fifth pass over the rows
        yield from overlapping

    path = tmp_path / "stopped"
    stopped = algorithm.fit(start(-1.0, 1.0), rows, chunk=256, checkpoint=path)
    assert stopped.status is Status.interrupted
    assert 0 < int(stopped.num_steps) < 12
    resumed = algorithm.fit(start(-1.0, 1.0), rows, chunk=256, checkpoint=path)
    unbroken = algorithm.fit(start(-1.0, 1.0), overlapping, chunk=256)
    np.testing.assert_array_equal(resumed.values, unbroken.values)
    np.testing.assert_array_equal(resumed.state.components.loc, unbroken.state.components.loc)
    np.testing.assert_allclose(whole.values, unbroken.values, rtol=1e-12)


def test_long_runs_in_memory_hear_ctrl_c_and_give_the_same_numbers(overlapping, monkeypatch):
    quick = EM(tol=0.0, max_steps=12).fit(start(-1.0, 1.0), overlapping)
    monkeypatch.setattr(sys.modules["tractable.inference.expectation_maximisation.em"], "_LONG", 1)
    slow = EM(tol=0.0, max_steps=12).fit(start(-1.0, 1.0), overlapping)
    np.testing.assert_allclose(slow.values, quick.values, rtol=1e-13)
    many = np.tile(overlapping, 500)  # steps so long that the signal comes before the end
    EM(tol=0.0, max_steps=12).fit(start(-1.0, 1.0), many)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,))
    try:
        timer.start()
        stopped = EM(tol=0.0, max_steps=1_000_000).fit(start(-1.0, 1.0), many)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert stopped.status is Status.interrupted
    assert 0 < int(stopped.num_steps) < 1_000_000
    assert np.isfinite(stopped.values).all()


def test_best_of_keeps_the_highest(overlapping):
    starts = [start(0.0, 0.0), start(-1.0, 3.0)]
    run = best_of(starts, overlapping, EM(tol=1e-9, max_steps=500))
    alone = [EM(tol=1e-9, max_steps=500).fit(s, overlapping).values[-1] for s in starts]
    assert run.values[-1] == max(alone)


def test_fit_is_the_verb(overlapping):
    run = fit(start(-1.0, 1.0), overlapping, EM(max_steps=5))
    assert int(run.num_steps) == 5
    with pytest.raises(TypeError, match="`algorithm` must be an option object"):
        fit(start(), overlapping, "em")
    assert float(fit(Normal(0.0, 1.0), overlapping).loc) == pytest.approx(np.mean(overlapping), abs=1e-12)
    with pytest.raises(TypeError, match="`model` must be one with `fit`, with `e_step` and `m_step`"):
        fit(3.0, overlapping)
