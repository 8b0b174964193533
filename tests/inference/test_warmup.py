"""What the warm-up is made of: step sizes, windows, files of draws, jumps."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.inference.chains.mcmc import mcmc
from tractable.inference.chains.rounds import DiskStore, MemoryStore
from tractable.inference.chains.warmup import _windows
from tractable.inference.samplers.dual_averaging import DualAveraging
from tractable.inference.trust.smoothness import find_jump


@pytest.mark.parametrize("target", [0.65, 0.8, 0.95])
def test_dual_averaging_finds_the_step_with_the_wanted_acceptance(target):
    """Acceptance exp(-step) with noise: the step is -log(target)."""

    def step(tuning, noise):
        acceptance = jnp.clip(jnp.exp(-jnp.exp(tuning.log_step)) + 0.1 * noise, 0, 1)
        return tuning.update(acceptance, target), None

    start = jax.tree.map(jnp.asarray, DualAveraging.of(10.0))
    found = jax.lax.scan(step, start, jr.uniform(jr.key(0), (4000,), minval=-1, maxval=1))[0]
    assert float(jnp.exp(-jnp.exp(found.log_average))) == pytest.approx(target, abs=0.02)


@pytest.mark.parametrize(
    ("limit", "pace"), [(500, 1), (300, 1), (95, 1), (41, 1), (40, 1), (0, 1), (2500, 5)]
)
def test_windows_fill_the_warm_up_but_for_the_last(limit, pace):
    sizes = list(_windows(limit, pace))
    assert sum(sizes) == max(limit - 40 * pace, 0)
    assert all(size > 0 for size in sizes)


def test_warm_up_finds_scales_a_thousandfold_apart():
    scales = np.array([1e-3, 1.0, 1e3])
    post = mcmc(
        lambda x: -0.5 * jnp.sum((x / scales) ** 2), np.zeros(3), key=jr.key(0), num_draws=250, progress=False
    )
    assert post.warmup.agreed
    assert post.warmup.num_steps <= 300
    spread = post.draws.reshape(-1, 3).std(0) / scales
    np.testing.assert_allclose(spread, 1.0, rtol=5 / np.sqrt(2 * 500))
    assert (
        np.mean(post.info.num_gradients) < 8
    )  # round trajectories, not the thousand steps of a plain metric


def test_stores_give_back_what_was_put_in(tmp_path):
    blocks = [{"a": np.arange(12.0).reshape(2, 3, 2) + k, "b": np.ones((2, 3), int) * k} for k in range(4)]
    memory, disk = MemoryStore(), DiskStore(tmp_path, 12)
    for block in blocks:
        memory, disk = memory.append(block), disk.append(block)
    for name in "ab":
        np.testing.assert_array_equal(memory.joined()[name], disk.joined()[name])
    longer = DiskStore(tmp_path, 15, done=12).append(blocks[0])
    np.testing.assert_array_equal(longer.joined()["a"][:, :12], memory.joined()["a"])
    np.testing.assert_array_equal(longer.joined()["a"][:, 12:], blocks[0]["a"])


def test_a_store_that_is_gone_is_refused(tmp_path):
    with pytest.raises(ValueError, match="stream"):
        DiskStore(tmp_path, 10, done=5).append({"a": np.zeros((1, 1))})


def _look(log_density):
    both = jax.jit(jax.value_and_grad(log_density))

    def look(x):
        value, slope = both(x)
        return float(value), np.asarray(slope)

    return look


@pytest.mark.parametrize("size", [0.2, 3.0])
def test_jumps_are_measured_and_placed(size):
    draws = np.random.default_rng(0).normal(size=(50, 3))
    jump = find_jump(_look(lambda x: -0.5 * x @ x + size * (x[1] > 0.5)), draws, num_looks=1000)
    assert jump is not None
    assert jump.size == pytest.approx(size, rel=1e-3)
    assert jump.coordinates == (1,)
    assert jump.point[1] == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize(
    "log_density",
    [
        lambda x: -0.5 * x @ x,
        lambda x: -jnp.abs(x).sum(),
        lambda x: -jnp.sum(x**4),
        lambda x: -jnp.sum(jnp.exp(x) - x),
    ],
)
def test_smooth_densities_and_kinks_do_not_jump(log_density):
    draws = np.random.default_rng(1).normal(size=(50, 3))
    assert find_jump(_look(log_density), draws, num_looks=1000) is None


def test_many_short_chains_are_judged_by_groups_that_began_together():
    post = mcmc(
        lambda x: -0.5 * x @ x,
        np.zeros(2),
        key=jr.key(1),
        num_chains=32,
        num_draws=60,
        warmup=60,
        progress=False,
    )
    assert post.warmup.superchains == 8
    assert post.verdict.ok
    modes = lambda x: jnp.logaddexp(-0.5 * (x[0] - 9) ** 2, -0.5 * (x[0] + 9) ** 2)  # noqa: E731
    stuck = mcmc(
        modes,
        np.zeros(1),
        key=jr.key(1),
        num_chains=32,
        num_draws=60,
        warmup=60,
        spread=8.0,
        progress=False,
    )
    assert not stuck.verdict.ok
