"""A second look sees mass that draws of an approximation never meet; where these are right, it agrees."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.inference.variational.gaussian_families import MeanField
from tractable.inference.weighted.pareto import smooth, tail_shape
from tractable.inference.weighted.second_look import second_look

STANDARD = MeanField(jnp.zeros(2), jnp.ones(2))
POINTS = jr.normal(jr.key(0), (1500, 2))


def looked(target):
    """The second look at a standard normal of two dimensions."""
    return second_look(target, STANDARD, POINTS, jnp.zeros(2))


def test_the_approximation_itself_is_certified_and_its_evidence_exact():
    found = looked(lambda x: -0.5 * (x**2).sum())
    assert found.verdict.ok
    np.testing.assert_allclose(float(found.log_evidence.value), np.log(2 * np.pi), rtol=1e-10)
    assert float(found.log_evidence.standard_error) < 1e-10
    assert found.efficiency > 0.999
    np.testing.assert_allclose(float(found.missed), 0.0)


@pytest.mark.parametrize("df", [1.0, 3.0])
def test_tails_are_weighed_by_draws_that_reach_them(df):
    def target(x):  # a spherical Student in the plane: its mass is 2 pi
        return -0.5 * (df + 2) * jnp.log1p((x**2).sum() / df)

    found = looked(target)
    assert not found.verdict.ok
    assert "mass" in found.verdict.sentence
    gap = float(found.log_evidence.value) - np.log(2 * np.pi)
    assert abs(gap) < 4 * float(found.log_evidence.standard_error) < 0.3
    truth = 1 - (1 + 9 / df) ** (-df / 2)  # of a radius below 3
    inside = (np.asarray(found.draws) ** 2).sum(1) < 9
    weights = np.asarray(jax.nn.softmax(found.log_weights))
    error = np.sqrt((weights**2 * (inside - truth) ** 2).sum())
    assert abs(weights @ inside - truth) < 4 * error


def test_a_separate_mode_is_counted():
    def target(x):
        return jnp.logaddexp(-0.5 * (x**2).sum(), -0.5 * ((x - 30.0) ** 2).sum())

    found = looked(target)
    assert not found.verdict.ok
    assert int(found.num_modes) == 2 or float(found.missed) > 0.02


def test_an_infinite_mass_is_not_certified():
    found = looked(lambda x: -0.5 * x[0] ** 2 + 0.0 * x[1])
    assert not found.verdict.ok


def test_where_the_density_is_not_a_number_nothing_is_certified():
    found = looked(lambda x: -0.5 * (x**2).sum() + 0.0 * jnp.sqrt(x[0] + 6.0))
    assert not found.verdict.ok
    assert "not a number" in found.verdict.sentence


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_the_shape_of_a_tail_is_that_of_smoothing(scale):
    logs = np.asarray(scale * jr.exponential(jr.key(1), (1000,)))
    np.testing.assert_allclose(tail_shape(logs), float(smooth(logs).k_hat), rtol=1e-10)


def test_the_shape_of_no_tail():
    assert tail_shape(np.zeros(1000)) == -np.inf
    assert np.isnan(tail_shape(np.full(1000, np.nan)))
    assert tail_shape(np.zeros(10)) == np.inf
