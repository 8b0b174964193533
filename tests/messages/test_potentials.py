"""Tables and quadratics as potentials: products, sums, conditions, and impossible states that stay so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tractable.core.checks import ImpossibleEvidence
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_forms import GaussianPrecision
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.messages.potentials import Table, as_tables
from tractable.messages.quadratic import Quadratic

GENERATOR = np.random.default_rng(0)
A, B = GENERATOR.exponential(size=(2, 3)), GENERATOR.exponential(size=(4, 3))
F, G = Table.from_values(["x", "y"], A), Table.from_values(["z", "y"], B)


def test_products_and_sums_are_those_of_arrays():
    product = np.einsum("xy,zy->xyz", A, B)
    np.testing.assert_allclose(np.exp((F * G).log_values), product)
    np.testing.assert_allclose(np.exp((F * G).marginal(["z", "x"]).log_values), product.sum(1).T)
    np.testing.assert_allclose(np.exp((F * G).maximum("z").log_values), product.max((0, 1)))
    np.testing.assert_allclose(np.exp(F.contract(G, keep=["z"])), product.sum((0, 1)))
    np.testing.assert_allclose(F.contract(G, keep=["x"], semiring="max_product"), product.max((1, 2)))
    assert F.contract(G, semiring="counting") == 24
    assert float(F.log_total()) == pytest.approx(np.log(A.sum()))


def test_conditions_and_distributions():
    np.testing.assert_allclose(np.exp(F.condition(y=2).log_values), A[:, 2])
    np.testing.assert_allclose(F.normalised().probs, A / A.sum())


def test_a_table_of_zeros_is_impossible_and_never_nan():
    none = Table.from_values(["x", "y"], np.zeros((2, 3)))
    assert float(none.log_total()) == -np.inf
    assert np.array_equal((none * F).log_values, np.full((2, 3), -np.inf))
    assert np.array_equal(none.marginal("x").log_values, [-np.inf, -np.inf])
    with pytest.raises(ImpossibleEvidence, match=r"possible in some state of \(x, y\); got none"):
        none.normalised()


def test_tables_pass_through_transformations():
    def log_total(log_values):
        return (Table(["x", "y"], log_values) * G).log_total()

    slope = jax.jit(jax.grad(log_total))(jnp.log(A))
    joint = np.einsum("xy,zy->xyz", A, B)
    np.testing.assert_allclose(slope, joint.sum(2) / joint.sum(), rtol=1e-12)
    both = jax.vmap(log_total)(jnp.log(jnp.stack([A, 2 * A])))
    np.testing.assert_allclose(both, np.log([joint.sum(), 2 * joint.sum()]), rtol=1e-12)


def test_probability_tables_are_potentials():
    rain = JointTable("rain", [0.8, 0.2], {"rain": ["no", "yes"]})
    wet = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]], {"rain": ["no", "yes"]})
    tables, states = as_tables({"prior": rain, "link": wet})
    assert states == {"rain": ("no", "yes"), "wet": (0, 1)}
    product = tables["prior"] * tables["link"]
    np.testing.assert_allclose(np.exp(product.marginal("wet").log_values), [0.76, 0.24])
    assert repr(tables["prior"]).splitlines()[0] == "f(rain)"
    with pytest.raises(ValueError, match=r"`b` must be a potential with the states .* of 'rain', as before"):
        as_tables({"a": rain, "b": Table.from_values("rain", [1.0, 2.0])})
    with pytest.raises(ValueError, match="`factors` must be named differently from the variables"):
        as_tables({"rain": rain})
    with pytest.raises(TypeError, match="`factors` must be a `Table`, a probability table"):
        as_tables([3.0])
    with pytest.raises(ValueError, match="`factors` must be at least one potential; got none"):
        as_tables([])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table("x", [0.0, np.nan]), "`log_values` must be finite, or -inf .*; got nan at index 1"),
        (lambda: Table("x", [0.0, np.inf]), "`log_values` must be finite, or -inf .*; got inf at index 1"),
        (
            lambda: Table.from_values("x", [0.1, -0.1]),
            "`values` must be zero or positive, and finite; got -0.1",
        ),
        (lambda: Table(["x", "x"], np.zeros((2, 2))), "`names` must be distinct"),
        (lambda: Table("x", np.zeros((2, 2))), "`names` must be one per axis"),
        (lambda: F * Table("y", np.zeros(2)), "`y` must be a variable with the same states in both tables"),
    ],
)
def test_bad_tables_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


ROOT = GENERATOR.normal(size=(4, 4))
COV = ROOT @ ROOT.T + np.eye(4)
MEAN = GENERATOR.normal(size=4)
FULL = Quadratic.from_gaussian(["a", "b", "c"], Gaussian(MEAN, COV), dims=(1, 2, 1))


def test_a_gaussian_as_a_quadratic_is_its_density():
    x = GENERATOR.normal(size=4)
    log_value = -0.5 * x @ FULL.precision @ x + FULL.shift @ x + FULL.constant
    assert float(log_value) == pytest.approx(multivariate_normal(MEAN, COV).logpdf(x), abs=1e-12)
    assert float(FULL.log_total()) == pytest.approx(0.0, abs=1e-12)
    same = Quadratic.from_gaussian("abc", GaussianPrecision(MEAN[:3], np.eye(3)))
    np.testing.assert_allclose(same.normalised().mean, MEAN[:3], rtol=1e-12)


def test_marginals_and_conditions_are_those_of_dense_gaussians():
    kept = FULL.marginal(["c", "b"]).normalised()
    np.testing.assert_allclose(kept.mean, MEAN[[3, 1, 2]], rtol=1e-10)
    np.testing.assert_allclose(kept.cov, COV[np.ix_([3, 1, 2], [3, 1, 2])], rtol=1e-10)
    given = FULL.condition({"b": [0.3, -1.0]})
    dense = Gaussian(MEAN, COV).conditional([1, 2], [0.3, -1.0])
    np.testing.assert_allclose(given.normalised().mean, dense.mean, rtol=1e-10)
    np.testing.assert_allclose(given.normalised().cov, dense.cov, rtol=1e-10)
    expected = multivariate_normal(MEAN[1:3], COV[1:3, 1:3]).logpdf([0.3, -1.0])
    assert float(given.log_total()) == pytest.approx(expected, abs=1e-11)


def test_products_of_quadratics_add():
    prior = Quadratic.from_gaussian("x", Gaussian([1.0], [[4.0]]))
    link = Quadratic.linear("y", "x", [2.0], noise_precision=0.5, bias=0.3)
    joint = (prior * link).normalised()
    np.testing.assert_allclose(joint.mean, [1.0, 2.3], rtol=1e-12)
    np.testing.assert_allclose(joint.cov, [[4.0, 8.0], [8.0, 18.0]], rtol=1e-12)
    assert float(prior.contract(link).log_total()) == pytest.approx(0.0, abs=1e-12)
    assert prior.contract(link, keep="y").names == ("y",)


def test_what_cannot_be_integrated_is_nan_and_bad_quadratics_are_refused():
    flat = Quadratic(["x", "y"], [[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0])
    assert np.isnan(flat.marginal("x").precision).all()
    with pytest.raises(ValueError, match="`precision` must be finite and symmetric"):
        Quadratic(["x", "y"], [[1.0, 0.5], [0.0, 1.0]], [0.0, 0.0])
    with pytest.raises(ValueError, match="`precision` must be of shape"):
        Quadratic(["x", "y"], [[1.0]], [0.0, 0.0])
    with pytest.raises(ValueError, match="`x` must be of length 2 in both potentials; got 1"):
        Quadratic("x", np.eye(2), np.zeros(2), dims=(2,)) * flat
    with pytest.raises(ValueError, match="`name` must be among"):
        flat.marginal("z")
