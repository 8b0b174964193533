"""Whatever takes `checkpoint=` refuses that of another function, and goes on with its own."""

import functools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.inference.test_em import start
from tractable.distributions.continuous import Normal
from tractable.inference.expectation_maximisation.em import EM
from tractable.inference.expectation_maximisation.streams import OnlineEM
from tractable.inference.particles.smc import smc
from tractable.inference.variational.vi import vi
from tractable.optim.stochastic import minimise_batches

ROWS = np.asarray(jr.normal(jr.key(0), (64,)))


@functools.cache  # the same function is the same program
def well(power):
    return lambda x: -power * ((x - 1.0) ** 2).sum()


def tempered(power, path):
    post = smc(well(power), Normal(0.0, 2.0), key=jr.key(1), num_particles=100, checkpoint=path)
    return post.group_log_evidences


def climbed(power, path):
    post = vi(well(power), jnp.zeros(2), key=jr.key(1), max_steps=200,
              num_eval=100, checkpoint=path)  # fmt: skip
    return post.family.mean


def expected(power, path):
    run = EM(max_steps=3).fit(start(), np.abs(ROWS) ** (2 * power), checkpoint=path)
    return run.trace


def streamed(power, path):
    return EM(max_steps=3).fit(start(), np.abs(ROWS) ** (2 * power), chunk=32, checkpoint=path).trace


def online(power, path):
    return OnlineEM(passes=2).fit(start(), np.abs(ROWS) ** (2 * power), chunk=32, checkpoint=path).trace


def descended(power, path):
    return minimise_batches(
        lambda m, x: power * (m - x) ** 2, jnp.zeros(()), ROWS, key=jr.key(1), epochs=2, checkpoint=path
    ).trace


@pytest.mark.parametrize("run", [tempered, descended, climbed, expected, streamed, online])
@pytest.mark.thorough
def test_a_checkpoint_of_another_function_is_refused(tmp_path, run):
    whole = run(0.5, tmp_path / "run")
    np.testing.assert_array_equal(run(0.5, tmp_path / "run"), whole)
    with pytest.raises(ValueError, match="`checkpoint` must be a checkpoint of this run"):
        run(0.501, tmp_path / "run")
