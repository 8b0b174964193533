"""The model language: values, shapes, densities, interventions, and what is said where a model is wrong."""

import os
import re

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.distributions import Bernoulli, Categorical, Dirichlet, Gaussian, HalfNormal, Normal
from tractable.programs import deterministic, factor, model, param, plate, sample, scan

RISKS = np.array([15.0, 10.0, 16.0])
EFFECTS = np.array([28.0, 8.0, -3.0])


@model
def schools(sigma, y=None):
    mean = sample("mean", Normal(0.0, 5.0))
    spread = sample("spread", HalfNormal(5.0))
    with plate("school", len(sigma)):
        effect = sample("effect", Normal(mean, spread))
        sample("y", Normal(effect, sigma), obs=y)


@model
def walk(length, y=None):
    scale = sample("scale", HalfNormal(1.0))

    def step(x, seen):
        x = sample("x", Normal(x, scale))
        sample("y", Normal(x, 0.5), obs=seen)
        return x, 2 * x

    last, doubled = scan("t", step, jnp.zeros(()), y, length=length)
    deterministic("last", last)
    deterministic("doubled", doubled)


def test_the_log_joint_is_the_sum_over_sites():
    values = {"mean": 1.0, "spread": 2.0, "effect": np.array([1.0, 0.0, -2.0])}
    parts = [
        Normal(0.0, 5.0).log_prob(1.0),
        HalfNormal(5.0).log_prob(2.0),
        Normal(np.ones(3), 2.0).log_prob(values["effect"]),
        Normal(values["effect"], RISKS).log_prob(EFFECTS),
    ]
    trace = schools.bind(RISKS, y=EFFECTS).trace(values)
    np.testing.assert_allclose(trace.log_joint, sum(parts), rtol=1e-14)
    rows = Normal(0.0, 1.0).log_prob((EFFECTS - values["effect"]) / RISKS) - np.log(RISKS)
    np.testing.assert_allclose(trace.log_likelihoods["y"], rows, rtol=1e-12)


def test_a_chain_is_the_product_of_its_steps():
    x, y = np.linspace(0.2, 1.0, 5), np.arange(5.0)
    found = walk.bind(5, y=y).log_joint({"scale": 0.7, "x": x})
    before = np.concatenate([[0.0], x[:-1]])
    want = HalfNormal(1.0).log_prob(0.7) + Normal(before, 0.7).log_prob(x) + Normal(x, 0.5).log_prob(y)
    np.testing.assert_allclose(found, want, rtol=1e-13)
    trace = walk.bind(5, y=y).trace({"scale": 0.7, "x": x})
    np.testing.assert_allclose(trace["doubled"], 2 * x)
    assert float(trace["last"]) == 1.0


def test_draws_have_the_moments_of_the_model():
    draws = schools.bind(RISKS).sample(jr.key(0), 20_000)
    assert draws["y"].shape == (20_000, 3)
    # Var[y] = 25 + E[spread^2] + sigma^2, all parts independent of each other given nothing
    want = 25.0 + 25.0 + RISKS**2
    error = 4 * want * np.sqrt(3.0 / 20_000)  # tails a little heavier than normal ones
    np.testing.assert_array_less(abs(draws["y"].var(0) - want), error)


def test_a_site_keeps_its_random_numbers_when_others_come_and_go():
    @model
    def one():
        sample("a", Normal(0.0, 1.0))

    @model
    def two():
        sample("b", Normal(0.0, 1.0))
        sample("a", Normal(0.0, 1.0))

    first, second = (each.bind().sample(jr.key(3), 4)["a"] for each in (one, two))
    np.testing.assert_array_equal(first, second)


def test_plates_nest_and_vectors_keep_their_axes():
    @model
    def nested():
        with plate("row", 3):
            weights = sample("weights", Dirichlet(np.ones(4)))
            with plate("column", 2):
                sample("label", Categorical(weights[:, None, :]))
        sample("vector", Gaussian(np.zeros(2), np.eye(2)))

    found = nested.bind().trace(key=jr.key(0))
    shapes = {name: site.value.shape for name, site in found.sites.items()}
    assert shapes == {"weights": (3, 4), "label": (3, 2), "vector": (2,)}
    assert found.sites["label"].log_probs.shape == (3, 2)
    assert found.sites["weights"].log_probs.shape == (3,)
    names = [each.name for each in found.sites["label"].plates]
    assert names == ["row", "column"]


def test_conditioning_keeps_the_density_and_an_intervention_drops_it():
    @model
    def pair():
        a = sample("a", Normal(0.0, 1.0))
        sample("b", Normal(a, 1.0))

    seen = pair.condition({"a": 2.0}).bind().log_joint({"b": 1.0})
    np.testing.assert_allclose(seen, Normal(0.0, 1.0).log_prob(2.0) + Normal(2.0, 1.0).log_prob(1.0))
    done = pair.do({"a": 2.0}).bind().log_joint({"b": 1.0})
    np.testing.assert_allclose(done, Normal(2.0, 1.0).log_prob(1.0))


def test_sites_inside_a_scan_are_conditioned_and_set_too():
    x, y = np.linspace(0.2, 1.0, 5), np.arange(5.0)
    whole = walk.bind(5, y=y).log_joint({"scale": 0.7, "x": x})
    seen = walk.condition({"x": x}).bind(5, y=y).log_joint({"scale": 0.7})
    np.testing.assert_allclose(seen, whole, rtol=1e-14)
    done = walk.do({"x": x}).bind(5, y=y).log_joint({"scale": 0.7})
    np.testing.assert_allclose(done, HalfNormal(1.0).log_prob(0.7) + Normal(x, 0.5).log_prob(y), rtol=1e-13)


def test_arguments_are_the_same_by_place_and_by_name():
    values = {"mean": 1.0, "spread": 2.0, "effect": np.array([1.0, 0.0, -2.0])}
    by_place, by_name = schools.bind(RISKS, EFFECTS), schools.bind(sigma=RISKS, y=EFFECTS)
    assert float(by_place.log_joint(values)) == float(by_name.log_joint(values))
    assert not by_place.args
    with pytest.raises(TypeError, match="multiple values for argument 'sigma'"):
        schools.bind(RISKS, sigma=RISKS).trace(values)


def test_factors_params_and_models_in_models():
    @model
    def part():
        return sample("x", Normal(0.0, 1.0))

    @model
    def whole():
        x, shift = part(), param("shift", 1.5)
        factor("odds", -jnp.abs(x - shift))

    found = whole.bind().trace({"x": 0.5})
    np.testing.assert_allclose(found.log_joint, Normal(0.0, 1.0).log_prob(0.5) - 1.0)
    assert found.sites["shift"].kind == "param"


def test_noise_gives_an_affine_run():
    noises = {"x": np.array([1.0, -1.0, 2.0])}
    trace = walk.bind(3, y=np.zeros(3)).trace({"scale": 0.5}, noises=noises)
    np.testing.assert_allclose(trace["x"], 0.5 * np.cumsum(noises["x"]))


def test_new_data_use_the_same_trace_of_the_function():
    count = []

    @model
    def counted(y):
        count.append(1)
        mean = sample("mean", Normal(0.0, 1.0))
        with plate("row", len(y)):
            sample("y", Normal(mean, 1.0), obs=y)

    for shift in (0.0, 1.0, 2.0):
        counted.bind(np.arange(4.0) + shift).sample(jr.key(0), 3)
    assert len(count) == 1


def _twice():
    sample("a", Normal(0.0, 1.0))
    sample("a", Normal(0.0, 1.0))


def _misfit():
    with plate("row", 3), plate("column", 4):
        sample("x", Normal(np.zeros(3), 1.0))


def _branches():
    if sample("coin", Bernoulli(0.5)) > 0:
        sample("x", Normal(0.0, 1.0))


def _wrong_shape():
    with plate("row", 3):
        sample("x", Normal(0.0, 1.0), obs=np.zeros(2))


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (_twice, ValueError, "used once in a model; got 'a'"),
        (_misfit, ValueError, "leading axes (3,)"),
        (_branches, TypeError, "free of `if`"),
        (_wrong_shape, ValueError, "of shape (3,); got shape (2,)"),
    ],
)
def test_faults_name_the_site_and_the_line(function, kind, words):
    with pytest.raises(kind, match=re.escape(words)) as caught:
        jax.eval_shape(lambda key: model(function).bind().trace(key=key), jr.key(0))
    assert "test_language.py:" in str(caught.value)


def test_a_value_outside_the_support_is_refused():
    @model
    def positive(y):
        sample("y", HalfNormal(1.0), obs=y)

    with pytest.raises(ValueError, match=r"`y` must be .*; got -1.0 at index 1.*test_language"):
        positive.bind(np.array([1.0, -1.0])).trace()


@pytest.mark.skipif("TRACTABLE_CHECKED" in os.environ, reason="the type checker speaks first")
def test_a_number_is_no_distribution():
    with pytest.raises(TypeError, match=r"`x` must be a distribution.*test_language"):
        model(lambda: sample("x", 3.0)).bind().trace()


def test_words_outside_a_model_say_so():
    with pytest.raises(RuntimeError, match="while a model runs"):
        sample("x", Normal(0.0, 1.0))


def test_a_missing_key_is_asked_for():
    with pytest.raises(ValueError, match="`key` must be given: 'mean' is drawn"):
        schools.bind(RISKS).trace()


def test_a_model_inside_another_brings_along_what_it_observes():
    @model
    def inner(mean):
        sample("x", Normal(mean, 1.0))

    @model
    def outer():
        inner.condition({"x": 2.0})(sample("mean", Normal(0.0, 1.0)))

    trace = outer.bind().trace({"mean": 0.5})
    assert trace.sites["x"].kind == "observed"
    assert np.isclose(trace.log_likelihoods["x"], Normal(0.5, 1.0).log_prob(2.0))
    changed = outer.condition({"x": 3.0}).bind().trace({"mean": 0.5})  # the outer one decides
    assert changed["x"] == 3.0


def test_numbers_in_a_tuple_are_data():
    @model
    def rows(y):
        with plate("row", len(y)):
            sample("y", Normal(0.0, 1.0), obs=y)

    assert rows.bind((1.5, 2, 3)).trace()["y"].tolist() == [1.5, 2.0, 3.0]
