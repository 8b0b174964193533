"""The contract of the base class: shapes, validation, leading axes."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import count_traces
from tractable.distributions import Gamma, Normal


def test_independent_coordinates_sum():
    joint, single = Normal(jnp.arange(3.0), 2.0), Normal(0.0, 2.0)
    x = jr.normal(jr.key(0), (5, 3))
    expected = sum(single.log_prob(x[:, i] - i) for i in range(3))
    np.testing.assert_allclose(joint.log_prob(x), expected, rtol=1e-13)


def test_negative_scale_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`scale` must be positive and finite; got -1.0"):
        Normal(0.0, -1.0)


def test_nan_point_stays_nan():
    assert np.isnan(Normal(0.0, 1.0).log_prob(jnp.nan))


def test_gradient_with_respect_to_parameters():
    slope = jax.grad(lambda scale: Normal(0.0, scale).log_prob(1.0))(2.0)
    np.testing.assert_allclose(slope, -1 / 2 + 1 / 8, rtol=1e-14)


def test_new_numbers_of_draws_use_the_program_of_their_bucket():
    """A rejection loop takes a second to compile; fewer draws of one bucket are the first of more."""
    counted = count_traces(Gamma._sample)

    class Counted(Gamma):
        def _sample(self, key, n):
            return counted(self, key, n)

    gamma = Counted(jnp.array([2.0, 0.5]), 1.0)
    whole = gamma.sample(jr.key(0), (64,))
    for shape in ((33,), (5, 8), (64,), (2, 4, 6)):
        draws = gamma.sample(jr.key(0), shape)
        assert draws.shape == (*shape, 2)
        np.testing.assert_array_equal(draws.reshape(-1, 2), whole[: np.prod(shape)])
    assert counted.count == 1
    inside = jax.jit(lambda key: gamma.sample(key, (5, 8)))(jr.key(0))
    np.testing.assert_allclose(inside, gamma.sample(jr.key(0), (5, 8)), rtol=1e-12)
    assert gamma.sample(jr.key(0), (0,)).shape == (0, 2)


def test_new_numbers_of_points_use_the_program_of_their_bucket():
    counted = count_traces(Gamma._log_prob)

    class Counted(Gamma):
        def _log_prob(self, x):
            return counted(self, x)

    gamma, x = Counted(jnp.array([2.0, 0.5]), 1.0), np.linspace(0.1, 3.0, 128).reshape(64, 2)
    whole = gamma.log_prob(x)
    for points in (x[:33], x[:40].reshape(5, 8, 2), x[:48].reshape(2, 4, 6, 2)):
        found = gamma.log_prob(points)
        assert found.shape == points.shape[:-1]
        np.testing.assert_array_equal(found.ravel(), whole[: found.size])
    assert counted.count == 1
    inside = jax.jit(lambda y: gamma.log_prob(x[:33]) + y)(0.0)  # another program: equal to rounding
    np.testing.assert_allclose(inside, whole[:33], rtol=1e-14)
