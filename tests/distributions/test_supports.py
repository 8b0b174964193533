"""Membership of count vectors and of positive definite matrices, on NumPy and JAX values alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.bijections.support import bijection_onto
from tractable.distributions.normal_priors import MeanAndCovariance, MeanAndPrecision
from tractable.distributions.supports import CountVector, positive_definite

COUNTS = np.array([[1.0, 2.0], [3.0, 0.0], [1.0, 1.0], [1.5, 1.5], [4.0, -1.0], [np.nan, 3.0]])
MATRICES = np.array(
    [
        np.eye(2),
        [[1.0, 0.5], [0.4, 1.0]],
        [[1, 2.0], [2, 1.0]],
        [[1.0, np.nan], [np.nan, 1.0]],
        [[0.0, 0], [0, 1]],
    ]
)
STACKED = np.concatenate([np.zeros((5, 1, 2)), MATRICES], 1)
PAIRS = np.array([[0.0, 1.0], [0.0, 0.0], [np.inf, 1.0], [0.0, np.nan]])


def judge(counts, matrices, stacked, pairs):
    return [
        CountVector(3.0).contains(counts),
        positive_definite.contains(matrices),
        MeanAndCovariance().contains(stacked),
        MeanAndPrecision().contains(pairs),
    ]


def interiors(counts, matrices, stacked, pairs):
    return [
        CountVector(3.0).interior(counts),
        positive_definite.interior(matrices),
        MeanAndCovariance().interior(stacked),
        MeanAndPrecision().interior(pairs),
    ]


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["numpy", "jax"])
def test_members_and_interiors(run):
    members = run(judge)(COUNTS, MATRICES, STACKED, PAIRS)
    one_of_five = [True, False, False, False, False]
    expected = [
        [True, True, False, False, False, False],
        one_of_five,
        one_of_five,
        [True, False, False, False],
    ]
    for found, wanted in zip(members, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    inner = run(interiors)(COUNTS, MATRICES, STACKED, PAIRS)
    assert [np.shape(points) for points in inner] == [(6, 2), (5, 2, 2), (5, 3, 2), (4, 2)]
    assert all(np.all(found) for found in run(judge)(*inner))


def test_words_name_the_total():
    assert "sum to `total` = 3" in CountVector(3).words


def test_a_definite_matrix_is_reached_from_real_numbers():
    image = bijection_onto(positive_definite).forward(jnp.array([0.3, -1.0, 2.0]))
    assert positive_definite.contains(np.asarray(image))
