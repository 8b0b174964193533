"""Pictures of particles: what is drawn is what was found."""

import dataclasses

import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.core.iterate import Status
from tractable.inference.particles.filter import Filtered, History
from tractable.inference.particles.smc import TemperedParticles
from tractable.plots.particles import plot_ess, plot_filter, plot_temperatures


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def filtered():
    """Three times, two replicates of 101 equally weighted particles at -1, ..., 1 plus the time."""
    spread = jnp.linspace(-1.0, 1.0, 101)
    particles = jnp.broadcast_to(jnp.arange(3.0)[:, None] + spread[None], (2, 3, 101))
    logs = jnp.full((2, 3, 101), -np.log(101))
    history = History(particles, logs, jnp.zeros((2, 3, 101), int))
    ess = jnp.array([[101.0, 50.0, 20.0], [101.0, 60.0, 10.0]])
    means, flags = particles.mean(2), jnp.zeros((2, 3), bool)
    return Filtered(means, particles.var(2), ess, jnp.zeros((2, 3)), flags, history, 101)


def test_the_band_is_made_of_quantiles(filtered):
    ax = plot_filter(filtered, [0.5, 1.5, 2.5], mass=0.5)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [0, 1, 2], atol=1e-9)
    edges = ax.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose([edges[:, 1].min(), edges[:, 1].max()], [-0.5, 2.5], atol=0.02)
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), [0.5, 1.5, 2.5])
    plane = jnp.zeros((2, 3, 101, 2))
    history = dataclasses.replace(filtered.history, particles=plane)
    with pytest.raises(ValueError, match=r"`filtered` must be of a state that is one number; got shape"):
        plot_filter(dataclasses.replace(filtered, history=history))
    with pytest.raises(ValueError, match=r"`mass` must be between 0 and 1; got 1"):
        plot_filter(filtered, mass=1)


def test_effective_shares_are_those_of_the_replicates(filtered):
    ax = plot_ess(filtered)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.array([101, 50, 20]) / 101)
    np.testing.assert_allclose(ax.lines[2].get_ydata(), np.array([101, 55, 15]) / 101)
    assert ax.get_title() == "least at time 2: 14.9%"


def test_stages_show_temperature_and_acceptance():
    found = TemperedParticles(
        jr.normal(jr.key(0), (20,)), jnp.zeros(20), jnp.asarray(0.0), False,
        jnp.array([0.0, 0.01, 0.2, 1.0]), jnp.array([0.5, 0.3, 0.2]),
        stage_ess=jnp.full(3, 0.5), step_sizes=jnp.ones(3), num_ancestors=jnp.array([18, 12, 9]),
        thin=jnp.ones(3, int), memory=jnp.zeros(3), drift=jnp.zeros(3), tails=jnp.zeros(3),
        group_log_evidences=jnp.zeros(2), num_evaluations=60, code=jnp.asarray(int(Status.converged)),
    )  # fmt: skip
    ax = plot_temperatures(found)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.01, 0.2, 1.0])
    assert ax.get_yscale() == "log"
    beside = ax.figure.axes[1]
    np.testing.assert_array_equal(beside.lines[0].get_ydata(), [0.5, 0.3, 0.2])
    assert ax.get_title() == "3 stages to 1"
