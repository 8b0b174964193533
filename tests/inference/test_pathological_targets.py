"""Targets that no sampler can do right end with a verdict that says so, or with an error by name."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.support import positive
from tractable.inference.chains.mcmc import mcmc
from tractable.inference.samplers.nuts import NUTS


def sample(log_density, start, **options):
    """A short run."""
    settings = {"key": jr.key(0), "num_draws": 200, "progress": False, **options}
    return mcmc(log_density, start, NUTS(), **settings)


def test_a_region_that_is_not_a_number():
    def log_density(x):  # the square root has no value below -1
        return -0.5 * x["a"] ** 2 + jnp.sqrt(x["a"] + 1.0)

    post = sample(log_density, {"a": 0.5})
    assert not post.verdict.ok
    assert "not a number" in post.verdict.sentence
    assert np.isfinite(post.draws["a"]).all()


def test_a_flat_direction():
    post = sample(lambda x: -0.5 * x["a"] ** 2 + 0.0 * x["b"], {"a": 0.0, "b": 0.0})
    assert not post.verdict.ok
    assert "`b`" in post.verdict.sentence


@pytest.mark.parametrize("height", [2.0, 40.0])
def test_a_discontinuous_density(height):
    def log_density(x):  # a step through a Gaussian
        return -0.5 * (x["a"] ** 2 + x["b"] ** 2) - height * (x["a"] > 0.3)

    post = sample(log_density, {"a": -1.0, "b": 0.0}, num_draws=1000)
    assert not post.verdict.ok
    assert "jump" in post.verdict.sentence


def test_an_improper_posterior():
    # a scale with likelihood that falls as 1/tau and a flat prior: no finite integral
    post = sample(lambda x: -jnp.log1p(x["tau"]), {"tau": 1.0}, supports={"tau": positive})
    assert not post.verdict.ok
    assert "tau" in post.verdict.sentence


def test_a_density_that_grows_without_end():
    post = sample(lambda x: x["a"], {"a": 0.0})
    assert not post.verdict.ok
    assert "a" in post.verdict.sentence


@pytest.mark.parametrize("value", [-jnp.inf, jnp.nan, jnp.inf])
def test_a_start_without_a_density(value):
    with pytest.raises(ValueError, match="a"):
        sample(lambda x: jnp.where(x["a"] > 100.0, 0.0, value) - x["a"] ** 2, {"a": 0.0})


def test_a_start_outside_its_support_is_named():
    with pytest.raises(ValueError, match="`tau` must be positive and finite; got -1"):
        sample(lambda x: -x["tau"], {"tau": -1.0}, supports={"tau": positive})


def test_modes_that_no_chain_crosses():
    def log_density(x):
        return jnp.logaddexp(-0.5 * (x["a"] - 15.0) ** 2, -0.5 * (x["a"] + 15.0) ** 2)

    post = sample(log_density, {"a": 0.0}, spread=10.0)
    assert not post.verdict.ok
