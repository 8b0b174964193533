"""Right samplers pass the joint test and the ranks; each kind of wrong one is named."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm

from tractable.core.support import positive
from tractable.distributions.continuous import Normal
from tractable.distributions.gamma import Gamma
from tractable.inference.samplers.metropolis import RandomWalkMetropolis
from tractable.inference.trust.simulation_checks import (
    Calibration,
    JointTest,
    geweke,
    simulation_based_calibration,
    transition_of,
)


def prior(key):
    """A standard normal mean."""
    return {"m": jr.normal(key)}


def measure(key, x):
    """One measurement with unit noise."""
    return x["m"] + jr.normal(key)


def exact(key, x, y):
    """The posterior itself."""
    return {"m": y / 2 + jr.normal(key) * jnp.sqrt(0.5)}


def too_narrow(key, x, y):
    """The posterior with 0.8 of its spread."""
    return {"m": y / 2 + 0.8 * jr.normal(key) * jnp.sqrt(0.5)}


def off_centre(key, x, y):
    """The posterior shifted."""
    return {"m": y / 2 + 0.3 + jr.normal(key) * jnp.sqrt(0.5)}


def test_exact_transition_passes_the_joint_test():
    found = geweke(prior, measure, exact, key=jr.key(0))
    assert found.verdict.ok
    assert found.names == ("m", "m^2")
    assert np.abs(found.z_scores).max() < 4
    # the prior has mean 0 and mean square 1, both ways
    for mean, error in (
        (found.independent_means, found.independent_errors),
        (found.chain_means, found.chain_errors),
    ):
        assert (np.abs(np.asarray(mean) - [0.0, 1.0]) / np.asarray(error) < 5).all()
    # m_{t+1} = m_t/2 + noise: autocorrelation 1/2 triples the variance of a mean of 100 steps
    np.testing.assert_allclose(found.chain_errors[0], np.sqrt(3 / 20_000), rtol=0.25)
    assert "leaves the posterior invariant" in repr(found)


def test_wrong_transitions_fail_the_joint_test_by_name():
    narrow = geweke(prior, measure, too_narrow, key=jr.key(1))
    assert not narrow.verdict.ok
    assert "`m^2` is off by -" in narrow.verdict.sentence
    shifted = geweke(prior, measure, off_centre, key=jr.key(2))
    assert not shifted.verdict.ok
    assert "does not leave the posterior invariant" in repr(shifted)


def test_joint_test_takes_quantities_of_the_data():
    def both(x, y):
        return {"product": x["m"] * y, "data": jnp.stack([y, y**2])}

    found = geweke(prior, measure, exact, key=jr.key(3), quantities=both)
    assert found.names == ("data[0]", "data[1]", "product")
    assert (np.abs(found.independent_means - np.array([0.0, 2.0, 1.0])) < 0.1).all()
    assert found.verdict.ok


def test_score_and_p_value_are_those_of_the_normal():
    means, errors = jnp.array([0.0, 3.0]), jnp.array([0.6, 0.6])
    found = JointTest(jnp.zeros(2), errors, means, 4 / 3 * errors, ("a", "b"))
    np.testing.assert_allclose(found.z_scores, [0.0, 3.0])
    np.testing.assert_allclose(found.p_value, 4 * norm.sf(3.0), rtol=1e-10)
    assert not found.verdict.ok
    still = JointTest(jnp.zeros(2), jnp.zeros(2), jnp.zeros(2), jnp.zeros(2), ("a", "b"))
    assert not still.verdict.ok
    assert "No verdict: `a`" in still.verdict.sentence


@pytest.mark.parametrize("sampler", [RandomWalkMetropolis(1.0)])
def test_transition_of_a_sampler_on_a_constrained_model(sampler):
    def prior_scale(key):
        return {"rate": jr.gamma(key, 3.0)}

    def simulate(key, x):
        return jr.exponential(key, (4,)) / x["rate"]

    def log_joint(x, y):
        return Gamma(3.0, 1.0).log_prob(x["rate"]) + 4 * jnp.log(x["rate"]) - x["rate"] * y.sum()

    right = transition_of(sampler, log_joint, supports={"rate": positive}, num_steps=2)
    assert geweke(prior_scale, simulate, right, key=jr.key(4), num_steps=50).verdict.ok
    # a prior of another shape in the density than in the simulator
    wrong = transition_of(sampler, lambda x, y: log_joint(x, y) + jnp.log(x["rate"]), supports=positive)
    assert not geweke(prior_scale, simulate, wrong, key=jr.key(5), num_steps=50).verdict.ok


def test_ranks_of_right_and_wrong_posteriors():
    def posterior(scale, shift):
        return lambda key, y: {"m": y / 2 + shift + scale * jr.normal(key, (63,)) * jnp.sqrt(0.5)}

    right = simulation_based_calibration(prior, measure, posterior(1.0, 0.0), key=jr.key(6))
    assert right.verdict.ok
    assert right.names == ("m",)
    assert "uniform" in repr(right)
    cases = [(0.5, 0.0, "too narrow"), (2.0, 0.0, "too wide"), (1.0, 0.5, "too high"), (1.0, -0.5, "too low")]
    for scale, shift, words in cases:
        wrong = simulation_based_calibration(prior, measure, posterior(scale, shift), key=jr.key(7))
        assert not wrong.verdict.ok
        assert words in wrong.verdict.sentence, (words, wrong.verdict)


def test_ranks_are_those_that_counting_gives():
    draws = jr.normal(jr.key(8), (15,))
    found = simulation_based_calibration(
        lambda key: jr.normal(key), lambda key, x: x, lambda key, y: draws, key=jr.key(9), num_simulations=50
    )
    keys = jr.split(jr.split(jr.key(9))[0], 50)
    truth = np.asarray(jax.vmap(lambda key: jr.normal(jr.split(key, 3)[0]))(keys))
    counted = (np.asarray(draws)[:, None] < truth[None]).sum(0)
    np.testing.assert_array_equal(np.floor(np.asarray(found.ranks[0]) * 16), counted)


def test_tied_counts_are_ranked_at_random():
    found = simulation_based_calibration(
        lambda key: jr.poisson(key, 1.0),
        lambda key, x: jnp.zeros(()),
        lambda key, y: jr.poisson(key, 1.0, (31,)),
        key=jr.key(10),
    )
    assert isinstance(found, Calibration)
    assert found.verdict.ok


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="`num_chains` must be"):
        geweke(prior, measure, exact, key=jr.key(0), num_chains=2)
    with pytest.raises(ValueError, match="`num_simulations` must be"):
        simulation_based_calibration(prior, measure, lambda key, y: y, key=jr.key(0), num_simulations=2)
    with pytest.raises(ValueError, match="`num_steps` must be"):
        transition_of(RandomWalkMetropolis(1.0), lambda x, y: Normal(0.0, 1.0).log_prob(x), num_steps=0)
    with pytest.raises(ValueError, match="`quantities` must be"):
        geweke(prior, measure, exact, key=jr.key(0), quantities=lambda x, y: {})
