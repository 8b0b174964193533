"""Draws of binomial counts: exact laws, extreme parameters, and the ends of the ranges."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats as stats

from tractable.distributions.samplers import binomial_draw

SIZE = 100_000


@jax.jit
def binomial(key, total, probs):
    return binomial_draw(key, total, probs, 1 - probs, (SIZE,))


@pytest.mark.parametrize(
    ("total", "probs"),
    [(7.0, 0.3), (19.0, 0.52), (20.0, 0.5), (200.0, 0.0525), (500.0, 0.97), (1e6, 3e-6), (1e8, 0.4)],
)
def test_binomial_counts_follow_their_law(total, probs):
    draws = np.asarray(binomial(jr.key(1), total, probs))
    law = stats.binom(total, probs)
    edges = np.unique(law.ppf(np.linspace(0, 1, 25)[1:-1]))
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * SIZE
    kept = expected > 5
    counts = np.bincount(np.searchsorted(edges, draws), minlength=len(expected))
    statistic = ((counts - expected) ** 2 / np.where(kept, expected, 1))[kept].sum()
    assert stats.chi2(kept.sum() - 1).sf(statistic) > 1e-4
    assert (draws == np.floor(draws)).all()
    assert draws.min() >= 0
    assert draws.max() <= total


def test_certain_outcomes_are_certain():
    for total, probs, expected in [(9.0, 0.0, 0.0), (9.0, 1.0, 9.0), (0.0, 0.3, 0.0), (1e8, 1.0, 1e8)]:
        np.testing.assert_array_equal(binomial(jr.key(2), total, probs), expected)


def test_unknown_parameters_give_nan_and_end():
    assert np.isnan(binomial(jr.key(3), jnp.nan, 0.5)).all()
    assert np.isnan(binomial(jr.key(3), 100.0, jnp.nan)).all()
