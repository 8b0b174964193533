"""Gaussian messages against dense conditioning, and grids against closed forms and the Gaussian case."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from tractable.distributions.gaussian import Gaussian
from tractable.messages.gaussian_beliefs import Grid, gaussian_propagate, grid_propagate
from tractable.messages.quadratic import Quadratic

GENERATOR = np.random.default_rng(5)
# a -> b, a -> c, c -> d: y = w x + bias + noise
EDGES = {"b": ("a", 1.5, 0.2, 2.0), "c": ("a", -0.7, 0.0, 1.0), "d": ("c", 0.9, -1.0, 4.0)}
NAMES = ("a", "b", "c", "d")


def network():
    factors = {"p": Quadratic.from_gaussian("a", Gaussian([0.5], [[2.0]]))}
    for child, (parent, weight, bias, precision) in EDGES.items():
        factors[f"p_{child}"] = Quadratic.linear(child, parent, [weight], precision, bias)
    return factors


def dense():
    """Mean and covariance of the network, built one variable at a time."""
    mean, cov = np.zeros(4), np.zeros((4, 4))
    mean[0], cov[0, 0] = 0.5, 2.0
    for child, (parent, weight, bias, precision) in EDGES.items():
        i, j = NAMES.index(child), NAMES.index(parent)
        mean[i] = weight * mean[j] + bias
        cov[i, :i] = cov[:i, i] = weight * cov[j, :i]
        cov[i, i] = weight**2 * cov[j, j] + 1 / precision
    return mean, cov


MEAN, COV = dense()


@pytest.mark.parametrize("root", ["a", "d", "p_c"])
def test_a_tree_of_numbers_equals_the_dense_gaussian(root):
    beliefs = gaussian_propagate(network(), root=root)
    assert float(beliefs.log_total) == pytest.approx(0.0, abs=1e-12)
    for i, name in enumerate(NAMES):
        np.testing.assert_allclose(beliefs.marginal(name).mean, MEAN[i : i + 1], rtol=1e-12)
        np.testing.assert_allclose(beliefs.marginal(name).cov, COV[i : i + 1, i : i + 1], rtol=1e-12)
    pair = beliefs.marginal("p_d")  # of c and d
    np.testing.assert_allclose(pair.mean, MEAN[2:], rtol=1e-12)
    np.testing.assert_allclose(pair.cov, COV[2:, 2:], rtol=1e-12)


def test_values_condition_as_in_dense_algebra():
    beliefs = gaussian_propagate(network(), {"b": 1.0, "d": -2.0})
    given = Gaussian(MEAN, COV).conditional([1, 3], [1.0, -2.0])
    for name, i in (("a", 0), ("c", 1)):
        np.testing.assert_allclose(beliefs.marginal(name).mean, given.mean[i : i + 1], rtol=1e-10)
        np.testing.assert_allclose(beliefs.marginal(name).cov, given.cov[i : i + 1, i : i + 1], rtol=1e-10)
    expected = multivariate_normal(MEAN[[1, 3]], COV[np.ix_([1, 3], [1, 3])]).logpdf([1.0, -2.0])
    assert float(beliefs.log_total) == pytest.approx(expected, abs=1e-11)


def test_vectors_of_different_lengths_on_a_random_tree():
    dims = {"u": 2, "v": 1, "w": 3}
    start = np.cumsum([0, *dims.values()])
    full = np.zeros((6, 6))
    shift = GENERATOR.normal(size=6)
    factors = []
    for pair in (("u", "v"), ("w", "u")):
        at = np.concatenate(
            [np.arange(start[i], start[i] + dims[n]) for n in pair for i in [list(dims).index(n)]]
        )
        root = GENERATOR.normal(size=(len(at), len(at)))
        precision = root @ root.T + np.eye(len(at))
        full[np.ix_(at, at)] += precision
        factors.append(Quadratic(pair, precision, np.zeros(len(at)), dims=[dims[n] for n in pair]))
    for i, (name, dim) in enumerate(dims.items()):
        factors.append(Quadratic(name, np.zeros((dim, dim)), shift[start[i] : start[i + 1]], dims=(dim,)))
    beliefs = gaussian_propagate(factors)
    cov = np.linalg.inv(full)
    for i, name in enumerate(dims):
        part = slice(start[i], start[i + 1])
        np.testing.assert_allclose(beliefs.marginal(name).mean, (cov @ shift)[part], rtol=1e-9)
        np.testing.assert_allclose(beliefs.marginal(name).cov, cov[part, part], rtol=1e-9)
    total = 0.5 * (6 * np.log(2 * np.pi) - np.linalg.slogdet(full)[1] + shift @ cov @ shift)
    assert float(beliefs.log_total) == pytest.approx(total, abs=1e-10)


def test_the_evidence_has_a_gradient():
    def log_evidence(weight):
        prior = Quadratic("a", jnp.eye(1), jnp.zeros(1), -0.5 * jnp.log(2 * jnp.pi))
        return gaussian_propagate(
            [prior, Quadratic.linear("b", "a", weight[None], 1.0)], {"b": 1.5}
        ).log_total

    value, slope = jax.jit(jax.value_and_grad(log_evidence))(jnp.asarray(0.7))
    assert float(value) == pytest.approx(norm(0, np.sqrt(1 + 0.49)).logpdf(1.5), abs=1e-12)
    variance = 1.49
    assert float(slope) == pytest.approx(0.7 / variance * (1.5**2 / variance - 1), abs=1e-11)


def test_improper_and_looped_models_are_refused():
    link = Quadratic.linear("y", "x", [1.0], 1.0)
    with pytest.raises(ValueError, match=r"`factors` must be integrable where .*; got .*'x'"):
        gaussian_propagate([link, Quadratic.linear("z", "y", [0.0], 1.0), Quadratic("x", [[-1.0]], [0.0])])
    with pytest.raises(ValueError, match="`factors` must be a tree or a forest"):
        gaussian_propagate([link, link])
    with pytest.raises(ValueError, match=r"`values` must be of variables that .*; got \['q'\]"):
        gaussian_propagate([link], {"q": 1.0})


def normal(loc, scale):
    return lambda x: -0.5 * ((x - loc) / scale) ** 2 - jnp.log(scale * jnp.sqrt(2 * jnp.pi))


def step(x, y):
    return normal(1.5 * x + 0.2, 1 / jnp.sqrt(2.0))(y)


FACTORS = [("a", normal(0.5, jnp.sqrt(2.0))), (("a", "b"), step)]
WIDE = {"a": Grid.uniform(-12, 13, 301), "b": Grid.uniform(-16, 18, 401)}


def test_grids_agree_with_gaussian_messages():
    beliefs = grid_propagate(FACTORS, WIDE)
    assert float(beliefs.log_total) == pytest.approx(0.0, abs=1e-12)
    for i, name in enumerate("ab"):
        assert float(beliefs.mean(name)) == pytest.approx(MEAN[i], abs=1e-10)
        assert float(beliefs.variance(name)) == pytest.approx(COV[i, i], abs=1e-10)
        exact = norm(MEAN[i], np.sqrt(COV[i, i])).pdf(np.asarray(WIDE[name].points))
        np.testing.assert_allclose(beliefs.density(name), exact, atol=1e-12)
    given = grid_propagate(FACTORS, WIDE, {"b": 1.0})
    exact = gaussian_propagate({k: f for k, f in network().items() if k in ("p", "p_b")}, {"b": 1.0})
    assert float(given.log_total) == pytest.approx(float(exact.log_total), abs=1e-12)
    assert float(given.mean("a")) == pytest.approx(float(exact.marginal("a").mean[0]), abs=1e-11)


def test_quadrature_rules_on_a_model_that_is_not_gaussian():
    def link(x, y):
        return -jnp.abs(y - jnp.sin(x)) * 2.0  # a Laplace density about sin x, up to a constant

    grids = {"x": Grid.hermite(0.0, 1.0, 60), "y": Grid.legendre(-1.0, 1.5, 400)}
    beliefs = grid_propagate([("x", normal(0.0, 1.0)), (("x", "y"), link)], grids)

    def inner(x):  # the integral over y in closed form
        s = np.sin(x)
        return norm.pdf(x) * (2 - np.exp(-2 * (s + 1)) - np.exp(-2 * (1.5 - s))) / 2

    expected = np.log(quad(inner, -8, 8, epsabs=1e-12)[0])
    assert float(beliefs.log_total) == pytest.approx(expected, abs=1e-4)  # a kink: the rule is not exact


def test_a_discrete_variable_on_a_grid_is_a_mixture():
    def component(z, x):
        return normal(4.0 * z, 1.0)(x)

    grids = {"z": Grid.states([0.0, 1.0]), "x": Grid.uniform(-9, 13, 301)}
    weights = ("z", lambda z: jnp.where(z == 0, jnp.log(0.25), jnp.log(0.75)))
    beliefs = grid_propagate([weights, (("z", "x"), component)], grids, {"x": 1.0})
    terms = np.array([0.25 * norm.pdf(1.0), 0.75 * norm.pdf(1.0, 4.0)])
    np.testing.assert_allclose(beliefs.density("z"), terms / terms.sum(), rtol=1e-12)
    assert float(beliefs.log_total) == pytest.approx(np.log(terms.sum()), abs=1e-12)


def test_bad_grids_are_refused_by_name():
    with pytest.raises(ValueError, match="`high` must be larger than `low` = 1"):
        Grid.uniform(1, 1, 10)
    with pytest.raises(ValueError, match="`scale` must be positive; got 0"):
        Grid.hermite(0, 0, 10)
    with pytest.raises(ValueError, match=r"`grids` must be given for every variable of 'f2'; got none"):
        grid_propagate(FACTORS, {"a": WIDE["a"]})
    with pytest.raises(ValueError, match="`f1` must be a log-density: finite, or -inf where it is"):
        grid_propagate([("a", lambda x: x * jnp.nan)], WIDE)
