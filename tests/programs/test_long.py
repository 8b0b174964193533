"""Programs of many rows and long chains: answers of loops written out, and costs that do not grow faster."""

import jax.numpy as jnp
import numpy as np
import pytest

import tractable as tr
from tractable.distributions import Categorical, Normal

STEPS = jnp.array([[0.9, 0.1], [0.2, 0.8]])


@tr.model
def walk(y):
    def step(level, value):
        level = tr.sample("level", Normal(level, 0.3))
        tr.sample("y", Normal(level, 1.0), obs=value)
        return level, None

    tr.scan("time", step, jnp.asarray(0.0), y)


@tr.model
def switches(y):
    def step(state, value):
        state = tr.sample("state", Categorical(STEPS[state]))
        tr.sample("y", Normal(2.0 * state - 1.0, 1.0), obs=value)
        return state, None

    tr.scan("time", step, jnp.asarray(0), y)


@tr.model
def groups(group, y):
    with tr.plate("group", len(y) // 10):
        effect = tr.sample("effect", Normal(0.0, 1.0))
    with tr.plate("row", len(y)):
        tr.sample("y", Normal(effect[group], 1.0), obs=y)


def of_walk(y):
    """A filter of one number."""
    mean, variance, total = 0.0, 0.0, 0.0
    for value in y:
        variance += 0.09
        total += -0.5 * (value - mean) ** 2 / (variance + 1) - 0.5 * np.log(2 * np.pi * (variance + 1))
        gain = variance / (variance + 1)
        mean, variance = mean + gain * (value - mean), variance * (1 - gain)
    return total


def of_switches(y):
    """Forward messages, scaled."""
    belief, total = np.array([1.0, 0.0]), 0.0
    for value in y:
        belief = belief @ np.asarray(STEPS) * np.exp(-0.5 * (value - np.array([-1.0, 1.0])) ** 2)
        total += np.log(belief.sum()) - 0.5 * np.log(2 * np.pi)
        belief = belief / belief.sum()
    return total


def of_groups(group, y):
    """Each group has a covariance of its own."""
    count, sums = np.bincount(group, minlength=len(y) // 10), np.bincount(group, y, len(y) // 10)
    shrunk = (sums**2 / (1 + count) - np.log1p(count)).sum()
    return 0.5 * shrunk - 0.5 * y @ y - 0.5 * len(y) * np.log(2 * np.pi)


@pytest.mark.thorough
def test_a_hundred_thousand_rows_have_the_answers_of_loops():
    random = np.random.default_rng(0)
    y, group = random.normal(size=100_000), random.integers(0, 10_000, 100_000)
    for program, data, want in (
        (walk, (y,), of_walk(y)),
        (switches, (y,), of_switches(y)),
        (groups, (group, y), of_groups(group, y)),
    ):
        post = tr.infer(program, *data, key=0, num_draws=5)
        assert post.explain().after == 0
        np.testing.assert_allclose(float(post.log_evidence.value), want, rtol=1e-10)
