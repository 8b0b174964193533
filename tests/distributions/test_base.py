"""The contract of the base class: shapes, validation, leading axes."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.distributions import Normal


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
