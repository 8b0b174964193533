"""Sampling in a network of tables: the sprinkler's exact answers, evidence anywhere."""

import jax.random as jr
import numpy as np
import pytest

from tractable.distributions.tables import ConditionalTable, JointTable, product
from tractable.inference.weighted.ancestral import ancestral, likelihood_weighting, logic_sampling

SPRINKLER = [
    JointTable("cloudy", [0.5, 0.5]),
    ConditionalTable("sprinkler", "cloudy", [[0.5, 0.5], [0.9, 0.1]]),
    ConditionalTable("rain", "cloudy", [[0.8, 0.2], [0.2, 0.8]]),
    ConditionalTable("wet", ["sprinkler", "rain"], [[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]]),
]
METHODS = {"logic": logic_sampling, "weighting": likelihood_weighting}


def close(found, exact):
    return abs(float(found.value) - exact) < 5 * float(found.standard_error) < 0.2


def test_the_numbers_below_are_those_of_the_joint_table():
    joint = product(SPRINKLER)
    np.testing.assert_allclose(joint.prob(wet=1), 0.6471, atol=1e-12)
    np.testing.assert_allclose(joint.prob(sprinkler=1, given={"wet": 1}), 0.4297636, atol=5e-8)
    np.testing.assert_allclose(joint.prob(rain=1, given={"wet": 1}), 0.7079277, atol=5e-8)
    np.testing.assert_allclose(joint.prob(sprinkler=1, given={"wet": 1, "rain": 1}), 0.1944990, atol=5e-8)
    np.testing.assert_allclose(joint.prob(rain=1, given={"sprinkler": 1, "wet": 1}), 0.3203883, atol=5e-8)
    np.testing.assert_allclose(joint.prob(cloudy=1, given={"sprinkler": 1, "wet": 1}), 0.1747573, atol=5e-8)


def test_ancestral_draws_have_the_joint_probabilities():
    draws = ancestral(SPRINKLER, key=jr.key(0), num_draws=20_000)
    cells = np.zeros((2, 2, 2, 2))
    np.add.at(
        cells, tuple(np.asarray(draws[name]) for name in ("cloudy", "sprinkler", "rain", "wet")), 1 / 20_000
    )
    exact = np.asarray(product(SPRINKLER).marginal(["cloudy", "sprinkler", "rain", "wet"]).probs)
    np.testing.assert_array_less(np.abs(cells - exact), 5 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_given_wet_grass(method):
    post = METHODS[method](SPRINKLER, {"wet": 1}, key=jr.key(1), num_draws=20_000)
    assert close(post.prob(sprinkler=1), 0.4297636)
    assert close(post.prob(rain=1), 0.7079277)
    assert close(
        post.prob(rain=1, sprinkler=0), float(product(SPRINKLER).prob(rain=1, sprinkler=0, given={"wet": 1}))
    )
    error = float(post.log_evidence.standard_error)
    assert abs(float(post.log_evidence.value) - np.log(0.6471)) < 5 * error < 0.1


def test_the_accepted_share_is_the_probability_of_the_evidence():
    post = logic_sampling(SPRINKLER, {"wet": 1}, key=jr.key(2), num_draws=20_000)
    kept = np.isfinite(np.asarray(post.log_weights))
    assert abs(kept.mean() - 0.6471) < 5 * np.sqrt(0.6471 * 0.3529 / 20_000)
    np.testing.assert_array_equal(kept, post.states("wet") == 1)


@pytest.mark.parametrize("method", METHODS)
def test_given_the_sprinkler_and_wet_grass(method):
    evidence = {"sprinkler": 1, "wet": {1}}
    post = METHODS[method](SPRINKLER, evidence, key=jr.key(3), num_draws=20_000)
    assert close(post.prob(rain=1), 0.3203883)
    assert close(post.prob(cloudy=1), 0.1747573)
    assert float(post.prob(sprinkler=1).value) == pytest.approx(1)


def test_weighting_wastes_less_than_rejection():
    weighed = likelihood_weighting(SPRINKLER, {"sprinkler": 1, "wet": 1}, key=jr.key(3), num_draws=20_000)
    kept = logic_sampling(SPRINKLER, {"sprinkler": 1, "wet": 1}, key=jr.key(3), num_draws=20_000)
    assert float(weighed.ess) > 1.5 * float(kept.ess)


def test_tables_of_two_variables_with_evidence_about_one():
    pair = JointTable(["a", "b"], [[0.1, 0.2, 0.1], [0.3, 0.1, 0.2]], {"b": ["x", "y", "z"]})
    child = ConditionalTable("c", "b", [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], {"b": ["x", "y", "z"]})
    post = likelihood_weighting(
        {1: pair, 2: child}, {"b": ["x", "z"], "c": 1}, key=jr.key(4), num_draws=20_000
    )
    joint = product([pair, child])
    exact = float(joint.prob(a=1, given={"b": ["x", "z"], "c": 1}))
    assert close(post.prob(a=1), exact)
    np.testing.assert_allclose(post.log_evidence.value, np.log(joint.prob(b=["x", "z"], c=1)), atol=0.05)
    assert set(post.states("b").tolist()) == {"x", "z"}


def test_bad_networks_and_evidence_are_refused_by_name():
    with pytest.raises(ValueError, match=r"`network` must be in order, parents before children"):
        ancestral(SPRINKLER[::-1], key=jr.key(0), num_draws=10)
    with pytest.raises(ValueError, match=r"`network` must be tables of different variables"):
        ancestral([SPRINKLER[0], SPRINKLER[0]], key=jr.key(0), num_draws=10)
    with pytest.raises(ValueError, match=r"`wet` must be one of its states \(0, 1\); got 2"):
        likelihood_weighting(SPRINKLER, {"wet": 2}, key=jr.key(0), num_draws=10)
    impossible = {"sprinkler": 0, "rain": 0, "wet": 1}
    with pytest.raises(ValueError, match=r"`evidence` must be met by a draw; got none of 100 draws"):
        logic_sampling(SPRINKLER, impossible, key=jr.key(0), num_draws=100)
    with pytest.raises(ValueError, match=r"`evidence` must be of positive weight in a draw; got zero in all"):
        likelihood_weighting(SPRINKLER, impossible, key=jr.key(0), num_draws=100)
