"""A real cluster of two processes: the same numbers as in memory, to the last bit whoever dies."""

import logging
import os
import signal
import threading
import warnings

import dask
import dask.array as da
import jax.numpy as jnp
import numpy as np
import pytest

import tractable as tr
from tests.scale.workers import Counted, mean_of, process, square, traces
from tractable.distributions import Gaussian, Mixture
from tractable.inference import EM
from tractable.latent import GaussianMixture
from tractable.scale.rows import DistributedRows
from tractable.supervised.generative.naive_bayes import fit_naive_bayes
from tractable.supervised.logistic.binary import fit_logistic

RNG = np.random.default_rng(2)
BLOBS = np.concatenate([RNG.normal(size=(900, 2)), RNG.normal([2.0, 1.0], size=(811, 2))])
LABELS = np.repeat([0, 1], [900, 811])
ORDER = RNG.permutation(len(BLOBS))
BLOBS, LABELS = BLOBS[ORDER], LABELS[ORDER]
MEANS, UNIT = np.array([[0.0, 1.0], [2.0, 0.0]]), np.stack([np.eye(2)] * 2)
START = GaussianMixture([0.5, 0.5], MEANS, UNIT)  # on the host
TRACED = Mixture([0.5, 0.5], Gaussian(jnp.asarray(MEANS), jnp.asarray(UNIT)))  # compiled
STEPS = EM(max_steps=12, tol=0.0)
CUT = 128


@pytest.fixture(scope="module")
def client():
    """Two processes of one thread each; lost workers are replaced by their nannies."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with warnings.catch_warnings(), dask.config.set({"distributed.worker.use-file-locking": False}):
        warnings.simplefilter("ignore")
        cluster = LocalCluster(**options, silence_logs=logging.CRITICAL)
        with cluster, Client(cluster, set_as_default=False) as client:
            yield client


def _rows(*arrays):
    found = tuple(da.from_array(a, chunks=(CUT, *a.shape[1:])) for a in arrays)
    return found if len(found) > 1 else found[0]


@pytest.fixture(scope="module")
def undisturbed(client):
    return tr.scale.fit(START, _rows(BLOBS), STEPS, client=client)


def test_two_workers_find_what_memory_finds(undisturbed):
    memory = STEPS.fit(START, BLOBS)
    np.testing.assert_allclose(undisturbed.values, memory.values, rtol=1e-12)
    np.testing.assert_allclose(undisturbed.state.weights, memory.state.weights, rtol=1e-9)
    assert undisturbed.place.startswith("2 Dask workers at tcp://")
    assert undisturbed.num_partitions == 14


@pytest.mark.thorough
def test_threads_give_the_numbers_of_the_cluster(undisturbed):
    here = tr.scale.fit(START, _rows(BLOBS), STEPS)
    np.testing.assert_allclose(here.values, undisturbed.values, rtol=1e-13)


@pytest.mark.thorough
def test_rows_may_be_read_anew_in_each_pass(client, undisturbed):
    short = EM(max_steps=3, tol=0.0)
    anew = tr.scale.fit(START, _rows(BLOBS), short, client=client, persist=False)
    np.testing.assert_array_equal(anew.values, undisturbed.values[:3])


def test_a_worker_compiles_once_for_all_steps(client):
    short = EM(max_steps=5, tol=0.0)
    run = tr.scale.fit(Counted(TRACED), _rows(BLOBS), short, client=client)
    np.testing.assert_allclose(run.values, short.fit(TRACED, BLOBS).values, rtol=1e-12)
    seen = client.run(traces)
    assert len(seen) == 2
    # two shapes: full partitions, and the shorter last one, which one worker has
    for shapes in seen.values():
        assert len(shapes) == len(set(shapes)) <= 2


class _Murder(DistributedRows):
    """Rows that kill a worker in the middle of the fourth pass."""

    passes = 0
    victim: int | None = None

    def total(self, function):
        self.passes += 1
        if self.passes == 4:
            self.victim = next(iter(self.place.client.run(process).values()))
            threading.Timer(0.01, os.kill, (self.victim, signal.SIGKILL)).start()
        return super().total(function)


@pytest.mark.thorough
def test_a_killed_worker_changes_no_bit(client, undisturbed):
    with _Murder(_rows(BLOBS), client=client) as rows:
        run = STEPS.fit(START, rows)
        assert rows.victim is not None
    np.testing.assert_array_equal(run.values, undisturbed.values)
    np.testing.assert_array_equal(run.state.means, undisturbed.state.means)
    client.wait_for_workers(2, timeout=60)
    assert rows.victim not in client.run(process).values()


@pytest.mark.thorough
def test_all_workers_may_go_at_once(client, undisturbed):
    with DistributedRows(_rows(BLOBS), client=client) as rows:
        half = EM(max_steps=2, tol=0.0).fit(START, rows)
        for pid in client.run(process).values():
            os.kill(pid, signal.SIGKILL)
        rest = EM(max_steps=2, tol=0.0).fit(half.state, rows)
    np.testing.assert_array_equal([*half.values, *rest.values], undisturbed.values[:4])
    client.wait_for_workers(2, timeout=60)


@pytest.mark.thorough
def test_a_fit_goes_on_from_its_checkpoint(client, undisturbed, tmp_path):
    class Stop(DistributedRows):
        passes = 0

        def total(self, function):
            self.passes += 1
            if self.passes == 6:
                raise OSError("the driver dies")
            return super().total(function)

    path = tmp_path / "fit"
    with Stop(_rows(BLOBS), client=client) as rows, pytest.raises(OSError, match="dies"):
        STEPS.fit(START, rows, checkpoint=path, seconds=0)
    whole = tr.scale.fit(START, _rows(BLOBS), STEPS, client=client, checkpoint=path)
    np.testing.assert_array_equal(whole.values, undisturbed.values)


@pytest.mark.thorough
def test_one_pass_and_newton_on_workers_by_address(client):
    address = client.scheduler.address
    found = tr.scale.fit(fit_naive_bayes, _rows(BLOBS, LABELS), client=address).state
    np.testing.assert_allclose(found.posterior(BLOBS), fit_naive_bayes(BLOBS, LABELS).posterior(BLOBS))
    fitted = tr.scale.fit(fit_logistic, _rows(BLOBS, LABELS), client=client).state
    np.testing.assert_allclose(fitted.coefficients, fit_logistic(BLOBS, LABELS).coefficients, rtol=1e-7)


@pytest.mark.thorough
def test_errors_of_the_rows_are_raised_here_at_once(client):
    bad = BLOBS.copy()
    bad[700, 1] = np.inf
    with pytest.raises(ValueError, match="In partition 5"):
        tr.scale.fit(fit_naive_bayes, _rows(bad, LABELS), client=client)


@pytest.mark.thorough
def test_restarts_and_folds_are_tasks(client):
    from sklearn.model_selection import KFold

    from tractable.supervised.selection.validation import cross_validate

    other = GaussianMixture([0.5, 0.5], MEANS + 5.0, UNIT)
    short = EM(max_steps=5)
    here = tr.inference.best_of([other, START], BLOBS, short)
    there = tr.scale.best_of([other, START], BLOBS, short, client=client)
    np.testing.assert_allclose(there.values, here.values, rtol=1e-12)
    assert "2 Dask workers" in there.place
    folds = KFold(3)
    one = tr.scale.cross_validate(mean_of, BLOBS, BLOBS[:, 0], folds, client=client)
    np.testing.assert_array_equal(one.losses, cross_validate(mean_of, BLOBS, BLOBS[:, 0], folds).losses)
    assert tr.scale.map_tasks(square, [1.0, 2.0, 3.0], 1.0, client=client) == [2.0, 5.0, 10.0]
