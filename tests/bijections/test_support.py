"""Any model as one vector of free numbers: what is free, what stays, what is refused, and densities of free
numbers.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tractable.bijections.base import Image
from tractable.bijections.compose import Chain, Parts
from tractable.bijections.elementwise import Affine, Exp
from tractable.bijections.support import bijection_onto, unconstrain
from tractable.core import support as sets
from tractable.core.module import Module, field
from tractable.core.support import Support
from tractable.core.types import Array, Float, Int
from tractable.distributions.continuous import Normal


class Mixture(Module):
    """Fields of every kind that the walk meets."""

    weights: Float[Array, "..."] = field(support=sets.simplex)
    components: list[Normal]
    cov: Float[Array, "..."] = field(support=sets.psd)
    extra: dict
    labels: Int[Array, " n"]
    ridge: float = 1e-6
    size: int = field(static=True, default=3)


COV = np.array([[2.0, 0.6], [0.6, 1.0]])


def _mixture():
    extra = {"flag": jnp.asarray(True), "key": jr.key(5), "tau": jnp.asarray(0.3)}
    components = [Normal(0.0, 1.5), Normal(jnp.arange(2.0), 0.1)]
    return Mixture(jnp.asarray([0.2, 0.8]), components, jnp.stack([COV, np.eye(2)]), extra, jnp.arange(3))


def test_free_numbers_of_a_nested_module():
    model = _mixture()
    real, rebuild = unconstrain(model, {"tau": sets.positive})
    low = np.linalg.cholesky(COV)
    expected = [np.log(0.25), 0.0, np.log(1.5), 0.0, 1.0, np.log(0.1)]
    expected += [np.log(low[0, 0]), low[1, 0], np.log(low[1, 1]), 0.0, 0.0, 0.0, np.log(0.3)]
    np.testing.assert_allclose(real, expected, rtol=1e-13, atol=1e-15)
    assert rebuild.names[:4] == [
        "weights[0]",
        "components.0.loc",
        "components.0.scale",
        "components.1.loc[0]",
    ]
    assert rebuild.names[-2:] == ["cov[1, 2]", "extra.tau"]
    assert rebuild.size == real.size == 13


def test_the_model_returns_with_what_was_not_free():
    model = _mixture()
    real, rebuild = unconstrain(model, {"tau": sets.positive})
    again, log_det = rebuild(real)
    assert isinstance(again, Mixture)
    for old, new in zip(
        jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)),
        jax.tree.leaves(eqx.filter(again, eqx.is_inexact_array)),
    ):
        np.testing.assert_allclose(new, old, rtol=1e-12)
    assert again.labels is model.labels
    assert again.ridge == 1e-6
    assert again.size == 3
    assert again.extra["key"] is model.extra["key"]
    low = np.linalg.cholesky(COV)
    simplex = np.log(0.2 * 0.8)
    psd = 2 * 2 * np.log(2.0) + 3 * np.log(low[0, 0]) + 2 * np.log(low[1, 1])  # the identity adds log 2 twice
    scales = np.log(1.5) + np.log(0.1) + np.log(0.3)
    np.testing.assert_allclose(log_det, simplex + psd + scales, rtol=1e-12)


def test_density_of_a_free_number_by_the_change_of_variables():
    # tau ~ Gamma(2, rate 3): the density of u = log tau is that of tau at e^u, times e^u.
    real, rebuild = unconstrain({"tau": 0.7}, {"tau": sets.positive})

    def log_density(u):
        values, log_det = rebuild(u)
        return jnp.log(9.0) + jnp.log(values["tau"]) - 3 * values["tau"] + log_det

    oracle = stats.loggamma(2.0, loc=-np.log(3.0))
    np.testing.assert_allclose(log_density(real), oracle.logpdf(np.log(0.7)), rtol=1e-13)
    np.testing.assert_allclose(jax.jit(jax.grad(log_density))(real), [2 - 3 * 0.7], rtol=1e-13)


def test_compiled_differentiated_and_vectorised():
    model = Normal(jnp.asarray([1.0, 2.0]), 0.5)
    real, rebuild = unconstrain(model)

    def loss(u, rebuild):
        return rebuild(u)[0].log_prob(jnp.asarray([0.3, 0.4]))

    many = real[None, :] + jnp.asarray([0.0, 0.1, -0.2])[:, None]
    values = jax.jit(jax.vmap(loss, (0, None)))(many, rebuild)
    expected = [
        stats.norm(np.add([1.0, 2.0], d), 0.5 * np.exp(d)).logpdf([0.3, 0.4]).sum() for d in (0.0, 0.1, -0.2)
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    z = (np.array([0.3, 0.4]) - [1.0, 2.0]) / 0.5
    np.testing.assert_allclose(jax.grad(loss)(real, rebuild), [*(z / 0.5), (z**2 - 1).sum()], rtol=1e-12)


def test_inside_a_compiled_function_there_are_no_values_to_check():
    @jax.jit
    def round_trip(model):
        real, rebuild = unconstrain(model)
        return real, rebuild(real)[0]

    real, model = round_trip(Normal(1.0, 2.0))
    np.testing.assert_allclose(real, [1.0, np.log(2.0)], rtol=1e-15)
    np.testing.assert_allclose(model.scale, 2.0, rtol=1e-15)


def test_rebuilding_checks_no_values():
    _, rebuild = unconstrain(Normal(0.0, 1.0))
    model, log_det = rebuild(np.array([0.0, 800.0]))  # e^800 overflows; an optimiser must be able to see that
    assert np.isinf(model.scale)
    assert float(log_det) == 800.0


def test_bounds_may_depend_on_parameters():
    @jax.jit
    def middle(low, high):
        bijection = bijection_onto(sets.bounded(low, high))
        return bijection.forward_and_log_det(jnp.zeros(()))

    value, log_det = middle(2.0, 5.0)
    assert float(value) == 3.5
    np.testing.assert_allclose(log_det, np.log(3.0 / 4), rtol=1e-14)
    value, log_det = middle(2.0, np.inf)
    assert float(value) == 3.0
    assert float(log_det) == 0.0
    real, rebuild = unconstrain(
        {"x": jnp.asarray([0.5, 9.0])}, {"x": sets.bounded(np.zeros(2), np.array([1.0, 10.0]))}
    )
    np.testing.assert_allclose(real, [0.0, np.log(9.0)], atol=1e-15)
    np.testing.assert_allclose(rebuild(real)[0]["x"], [0.5, 9.0], rtol=1e-15)


class Pair(NamedTuple):
    mean: object
    spread: object


def test_plain_containers_and_foreign_modules():
    tree = {
        "pair": Pair(0.5, jnp.asarray(2.0)),
        "layers": [eqx.nn.Linear(2, 1, key=jr.key(0))],
        "steps": 10,
        "name": None,
    }
    real, rebuild = unconstrain(tree, {"pair.spread": sets.positive})
    assert rebuild.names[-2:] == ["pair.mean", "pair.spread"]
    np.testing.assert_allclose(real[-2:], [0.5, np.log(2.0)], rtol=1e-15)
    again = rebuild(real)[0]
    assert again["steps"] == 10
    np.testing.assert_array_equal(again["layers"][0].weight, tree["layers"][0].weight)


def test_one_support_for_everything_and_one_array():
    real, rebuild = unconstrain(np.array([1.0, 2.0]), sets.positive)
    np.testing.assert_allclose(real, np.log([1.0, 2.0]), rtol=1e-15)
    np.testing.assert_allclose(rebuild(real)[0], [1.0, 2.0], rtol=1e-15)
    mixed, rebuild = unconstrain({"n": np.arange(2), "x": 2.0}, sets.positive)
    np.testing.assert_allclose(mixed, [np.log(2.0)], rtol=1e-15)


def test_none_holds_a_leaf_or_a_branch():
    model = {"prior": Normal(0.0, 1.0), "tau": jnp.asarray(0.0)}  # zero has no free number as a positive
    real, rebuild = unconstrain(model, {"prior": None, "tau": None})
    assert real.shape == (0,)
    assert rebuild(real)[0]["prior"].scale == 1.0
    assert unconstrain(model, {"prior.scale": None})[1].names == ["prior.loc", "tau"]


def test_the_longer_name_wins():
    tree = {"a": {"tau": 1.0}, "b": {"tau": 1.0}}
    real, _ = unconstrain(tree, {"b.tau": sets.real, "tau": sets.positive})
    np.testing.assert_allclose(real, [0.0, 1.0])


def test_nothing_free():
    real, rebuild = unconstrain({"n": 3})
    model, log_det = rebuild(real)
    assert model == {"n": 3}
    assert float(log_det) == 0.0


def test_each_leaf_keeps_its_precision():
    tree = {"single": jnp.asarray([1.0, 2.0], jnp.float32), "double": jnp.asarray(3.0)}
    real, rebuild = unconstrain(tree)
    again = rebuild(real)[0]
    assert real.dtype == again["double"].dtype == jnp.float64
    assert again["single"].dtype == jnp.float32


@given(arrays(float, (3,), elements=st.floats(1e-12, 1.0)))
def test_probabilities_return_to_twelve_digits(weights):
    probs = weights / weights.sum()
    real, rebuild = unconstrain({"p": probs}, {"p": sets.simplex})
    np.testing.assert_allclose(rebuild(real)[0]["p"], probs, rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "supports", "message"),
    [
        (
            {"p": np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])},
            {"p": sets.simplex},
            r"`p` must be strictly inside its support \(probabilities.*\); got \[0.5, 0.5, 0. \] at "
            r"index 0\. .*interior value.*supports=\{\"p\": None\}",
        ),
        (
            {"a": {"tau": 0.0}},
            {"tau": sets.nonnegative},
            r"`a.tau` must be strictly inside its support.*got 0.0",
        ),
        (
            {"x": np.array([0.5, 1.0])},
            {"x": sets.unit_interval},
            r"`x` must be strictly inside.*got 1.0 at index 1",
        ),
        ({"s": np.ones((2, 2))}, {"s": sets.psd}, r"`s` must be strictly inside its support \(a symmetric"),
        ({"u": np.array([0.0, 0.0, 1.0])}, {"u": sets.sphere}, r"`u` must be strictly inside"),
        (
            {"w": np.array([0.0, -np.inf])},
            {"w": sets.log_weights},
            r"`w` must be strictly inside its support",
        ),
        ({"tau": -1.0}, {"tau": sets.positive}, r"`tau` must be positive and finite; got -1.0"),
        ({"mu": np.array([0.0, np.nan])}, None, r"`mu` must be finite; got nan at index 1"),
        (
            {"p": np.array([0.5, 0.6])},
            {"p": sets.simplex},
            r"`p` must be probabilities that are zero or positive",
        ),
        ({"p": 0.5}, {"p": sets.simplex}, r"`p` must be an array with at least 1 axes; got shape \(\)"),
        (
            {"n": 2.0},
            {"n": sets.counts},
            r"`n` must be continuous to be a free number; got a leaf that is a whole number",
        ),
        (
            {"n": np.arange(3)},
            {"n": sets.positive},
            r"`n` must be an array of floats to have a support; got ndarray of dtype int64",
        ),
        ({"z": np.ones(2, complex)}, None, r"`z` must be real; got ndarray of dtype complex128"),
        (
            {"mu": 0.0},
            {"tau": sets.positive},
            r"`supports` must be keyed by leaves of the module \(mu\); got 'tau'",
        ),
    ],
)
def test_bad_leaves_are_refused_by_name(model, supports, message):
    with pytest.raises((ValueError, TypeError), match=message):
        unconstrain(model, supports)


class Counted(Module):
    total: Float[Array, ""] = field(support=sets.counts)


def test_a_declared_discrete_leaf_is_refused_or_held():
    with pytest.raises(TypeError, match=r"`total` must be continuous.*supports=\{\"total\": None\}"):
        unconstrain(Counted(3.0))
    assert unconstrain(Counted(3.0), {"total": None})[0].shape == (0,)


def test_wrong_length_is_refused():
    _, rebuild = unconstrain(Normal(0.0, 1.0))
    with pytest.raises(ValueError, match=r"`real` must be a vector of length 2; got shape \(3,\)"):
        rebuild(np.zeros(3))


class Even(Support):
    """A support that the library does not know."""

    words = "unknown"

    def contains(self, x):
        return np.asarray(x) > 0

    def interior(self, like):
        return like


def test_an_unknown_support_says_how_to_join():
    with pytest.raises(
        TypeError, match=r"`support` must be one with a map.*got Even.*bijection_onto.register\(Even\)"
    ):
        bijection_onto(Even())
    bijection_onto.register(Even, lambda support: Exp())
    assert float(bijection_onto(Even()).forward(0.0)) == 1.0


def test_whole_numbers_are_refused():
    with pytest.raises(TypeError, match=r"`support` must be continuous; got a whole number from 0 to inf"):
        bijection_onto(sets.counts)


def test_images_and_parts_are_reached_through_their_originals():
    halved = Image(sets.simplex, Affine(0.0, 0.5), 1)
    onto = bijection_onto(halved)
    assert isinstance(onto, Chain)
    np.testing.assert_allclose(onto.forward(np.zeros(2)), [1 / 6, 1 / 6, 1 / 6], rtol=1e-14)
    parts = Parts((sets.positive, sets.simplex), (1, 3))
    np.testing.assert_allclose(
        bijection_onto(parts).forward(np.zeros(3)), [1.0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-14
    )
