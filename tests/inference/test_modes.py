"""Climbs find modes that are apart, and nothing where there is one mode however narrow."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.inference.chains.mcmc import mcmc
from tractable.inference.trust.modes import find_modes, tells_more


def mixture(centres, sds, shares):
    """Value and slope of a mixture of spherical Gaussians, in NumPy alone."""
    centres, sds = np.asarray(centres, float), np.asarray(sds, float)

    def look(x):
        gaps = x - centres
        logs = np.log(shares) - centres.shape[1] * np.log(sds) - 0.5 * (gaps**2).sum(1) / sds**2
        weights = np.exp(logs - logs.max())
        slope = -(weights[:, None] * gaps / sds[:, None] ** 2).sum(0) / weights.sum()
        return float(logs.max() + np.log(weights.sum())), slope

    return look


@pytest.mark.cheap
@pytest.mark.parametrize("dim", [1, 2, 10])
@pytest.mark.parametrize("seed", range(5))
def test_two_far_modes_are_found_from_the_nearer_one(dim, seed):
    look = mixture([np.full(dim, -4.0), np.full(dim, 4.0)], [1.0, 1.0], [0.4, 0.6])
    found = find_modes(look, np.full(dim, 3.0), np.random.default_rng(seed))
    signs = [np.sign(mode.point).tolist() for mode in found]
    np.testing.assert_allclose(found[0].point, 4.0, atol=0.2)
    assert sorted(signs) == [[-1.0] * dim, [1.0] * dim]


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.999])
def test_one_mode_is_one(correlation):
    precision = np.linalg.inv((1 - correlation) * np.eye(5) + correlation)
    found = find_modes(
        lambda x: (-0.5 * x @ precision @ x, -precision @ x), np.ones(5), np.random.default_rng(0)
    )
    assert len(found) <= 1


def test_modes_that_have_no_mass_are_left_out():
    look = mixture([[-4.0], [4.0]], [1.0, 1.0], [1e-5, 1 - 1e-5])
    assert len(find_modes(look, np.array([3.0]), np.random.default_rng(0))) == 1


def test_a_density_that_grows_without_end_has_no_mode():
    assert find_modes(lambda x: (x.sum(), np.ones_like(x)), np.zeros(2), np.random.default_rng(0)) == []


def test_where_there_is_no_density_nothing_climbs():
    def look(x):  # a box: one side of it is not a number
        inside = bool((np.abs(x) < 2).all())
        return (-0.5 * float(x @ x) if inside else np.nan), -x

    found = find_modes(look, np.array([0.5]), np.random.default_rng(0))
    assert len(found) == 1
    np.testing.assert_allclose(found[0].point, 0.0, atol=0.2)


def test_a_spike_is_higher_than_the_slopes_around_it_say():
    look = mixture(np.zeros((2, 10)), [1.0, 0.05], [0.5, 0.5])
    (mode,) = find_modes(look, np.full(10, 0.5), np.random.default_rng(0))
    point = np.full(10, 0.5)
    assert tells_more(mode, point, *look(point))
    plain = mixture(np.zeros((1, 10)), [1.0], [1.0])
    (mode,) = find_modes(plain, point, np.random.default_rng(0))
    assert not tells_more(mode, point, *plain(point))


def test_looks_are_counted():
    looks = 0

    def look(x):
        nonlocal looks
        looks += 1
        return mixture([[-4.0], [4.0]], [1.0, 1.0], [0.5, 0.5])(x)

    find_modes(look, np.array([3.0]), np.random.default_rng(0), num_looks=57)
    assert looks == 57


def test_a_chain_that_leapt_out_of_its_mode_goes_back():
    """The map of both modes is long enough for a leap of 25 standard deviations in the warm-up."""

    def log_density(x):
        return jnp.logaddexp(
            -0.5 * ((x + 4) ** 2).sum() + jnp.log(0.4), -0.5 * ((x - 4) ** 2).sum() + jnp.log(0.6)
        )

    found = mcmc(log_density, np.full(10, 3.5), key=jr.key(0), num_draws=50, progress=False)
    assert sorted(np.sign(found.draws.mean((1, 2)))) == [-1, 1, 1, 1]
    assert not found.verdict.ok
