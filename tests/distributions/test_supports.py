"""Membership of count vectors and of positive definite matrices, on NumPy and JAX values alike."""

import jax.numpy as jnp
import numpy as np
import pytest

from tractable.bijections.support import bijection_onto
from tractable.distributions.normal_priors import MeanAndCovariance, MeanAndPrecision
from tractable.distributions.supports import CountVector, positive_definite

MATRICES = np.array(
    [
        np.eye(2),
        [[1.0, 0.5], [0.4, 1.0]],
        [[1.0, 2.0], [2.0, 1.0]],
        [[1.0, np.nan], [np.nan, 1.0]],
        [[0.0, 0], [0, 1]],
    ]
)


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray])
def test_members(convert):
    counts = convert([[1.0, 2.0], [3.0, 0.0], [1.0, 1.0], [1.5, 1.5], [4.0, -1.0], [np.nan, 3.0]])
    np.testing.assert_array_equal(CountVector(3.0).contains(counts), [True, True, False, False, False, False])
    np.testing.assert_array_equal(
        positive_definite.contains(convert(MATRICES)), [True, False, False, False, False]
    )
    stacked = convert(np.concatenate([np.zeros((5, 1, 2)), MATRICES], 1))
    np.testing.assert_array_equal(MeanAndCovariance().contains(stacked), [True, False, False, False, False])
    pairs = convert([[0.0, 1.0], [0.0, 0.0], [np.inf, 1.0], [0.0, np.nan]])
    np.testing.assert_array_equal(MeanAndPrecision().contains(pairs), [True, False, False, False])


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray])
def test_interiors_are_members(convert):
    for support, shape in [
        (CountVector(3.0), (4,)),
        (positive_definite, (3, 3)),
        (MeanAndPrecision(), (5, 2)),
        (MeanAndCovariance(), (3, 2)),
    ]:
        inner = support.interior(convert(np.zeros(shape)))
        assert inner.shape == shape
        assert np.all(support.contains(inner))


def test_words_name_the_total():
    assert "sum to `total` = 3" in CountVector(3).words


def test_a_definite_matrix_is_reached_from_real_numbers():
    image = bijection_onto(positive_definite).forward(jnp.array([0.3, -1.0, 2.0]))
    assert positive_definite.contains(image)
