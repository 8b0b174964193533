"""Annealed importance sampling: two far modes, its own kernel, the ladder."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.numerics import logsumexp
from tractable.distributions.continuous import Normal
from tractable.inference.weighted.annealed import annealed_importance, temperature_ladder

BASE = Normal(0.0, 5.0)


def two_modes(x, weight):
    """A quarter or so of the mass at -6, the rest at 6, total mass one."""
    each = jnp.stack([Normal(-6.0, 0.3).log_prob(x), Normal(6.0, 0.5).log_prob(x)])
    return logsumexp(each + jnp.log(jnp.stack([weight, 1 - weight]))) - 3.0


def test_both_modes_get_their_share_and_the_evidence_is_right():
    post = annealed_importance(
        two_modes, BASE, key=jr.key(0), num_draws=2000, temperatures=30, args=(jnp.asarray(0.25),)
    )
    assert abs(float(post.log_evidence.value) + 3) < 5 * float(post.log_evidence.standard_error) < 0.5
    left = post.expectation(lambda x: x < 0)
    assert abs(float(left.value) - 0.25) < 5 * float(left.standard_error) < 0.25
    assert post.acceptance.shape == (30,)
    assert float(post.acceptance[0]) > float(post.acceptance[-1]) > 0.05


def test_one_step_is_plain_importance_sampling_even_with_impossible_draws():
    """From 0 to 1 at once the kernel does not matter: the weights are those of the base's own draws."""

    def half_normal(x):
        return jnp.where(x > 0, -0.5 * x**2, -jnp.inf)

    def nowhere(key, x, log_density):
        return jnp.where(log_density(x) > 0, x, x + jr.normal(key)), jnp.asarray(1.0)

    post = annealed_importance(
        half_normal, BASE, key=jr.key(1), num_draws=4000, temperatures=[0.0, 1.0], transition=nowhere
    )
    exact = 0.5 * np.log(2 * np.pi) - np.log(2)
    assert abs(float(post.log_evidence.value) - exact) < 5 * float(post.log_evidence.standard_error) < 0.2
    assert 0.45 < float((post.log_weights == -jnp.inf).mean()) < 0.55


def test_the_ladder_rises_from_zero_to_one():
    np.testing.assert_allclose(temperature_ladder(4, 2.0), [0, 1 / 16, 1 / 4, 9 / 16, 1])
    with pytest.raises(ValueError, match=r"`temperatures` must be rising from 0 to 1"):
        annealed_importance(BASE, BASE, key=jr.key(0), num_draws=10, temperatures=[0.0, 0.5])
    with pytest.raises(ValueError, match=r"`log_density` must be not NaN on the way"):
        annealed_importance(lambda x: x * jnp.nan, BASE, key=jr.key(0), num_draws=10, temperatures=[0.0, 1.0])
