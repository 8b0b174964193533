"""Models from elsewhere: NumPyro models mean what they meant there, Stan's words name the right supports."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.bijections.support import unconstrain
from tractable.core import support as sets
from tractable.core.iterate import count_traces
from tractable.distributions.continuous import Normal
from tractable.distributions.positive import HalfCauchy
from tractable.inference.chains.adapters import from_numpyro, from_stan
from tractable.inference.target import FlatTarget

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def numpyro_schools(effect, error):
    """Eight schools, non-centred, with a deterministic site."""
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", 8):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("effect", dist.Normal(theta, error), obs=effect)


def schools(x, effect, error):
    """The same in the words of this library."""
    prior = Normal(0.0, 5.0).log_prob(x["mu"]) + HalfCauchy(5.0).log_prob(x["tau"])
    prior += Normal(0.0, 1.0).log_prob(x["z"]).sum()
    return prior + Normal(x["mu"] + x["tau"] * x["z"], error).log_prob(effect).sum()


def test_numpyro_model_has_the_same_density():
    pytest.importorskip("numpyro")
    log_density, start, supports = from_numpyro(numpyro_schools, EFFECT, error=ERROR)
    assert set(start) == {"mu", "tau", "z"}
    assert supports["tau"] is sets.positive
    assert supports["mu"] is sets.real
    assert start["z"].shape == (8,)
    rng = np.random.default_rng(0)
    points = {"mu": rng.normal(size=5), "tau": rng.gamma(2.0, size=5), "z": rng.normal(size=(5, 8))}
    there = jax.jit(jax.vmap(log_density))(points)
    here = jax.vmap(lambda x: schools(x, EFFECT, ERROR))(points)
    np.testing.assert_allclose(there, here, rtol=1e-12)
    derived = jax.vmap(log_density.deterministic)(points)
    np.testing.assert_allclose(
        derived["theta"], points["mu"][:, None] + points["tau"][:, None] * points["z"], rtol=1e-12
    )


def test_numpyro_free_density_is_the_potential_of_numpyro():
    pytest.importorskip("numpyro")
    from numpyro.infer.util import potential_energy

    log_density, start, supports = from_numpyro(numpyro_schools, EFFECT, ERROR)
    free, target = FlatTarget.of(log_density, start, supports=supports)
    rng = np.random.default_rng(1)
    for _ in range(3):
        u = rng.normal(size=free.size)
        parts = {"mu": u[0], "tau": u[1], "z": u[2:]}  # both take the logarithm of tau
        np.testing.assert_allclose(
            target(jnp.asarray(u)), -potential_energy(numpyro_schools, (EFFECT, ERROR), {}, parts), rtol=1e-12
        )


def test_numpyro_data_are_leaves_and_do_not_compile_again():
    pytest.importorskip("numpyro")
    first = from_numpyro(numpyro_schools, EFFECT, ERROR)
    second = from_numpyro(numpyro_schools, EFFECT + 1.0, ERROR)
    counted = count_traces(lambda density, x: density(x))
    compiled = jax.jit(counted)
    values = [compiled(model.log_density, first.start) for model in (first, second)]
    assert counted.count == 1
    np.testing.assert_allclose(values[1], schools(first.start, EFFECT + 1.0, ERROR), rtol=1e-12)


def test_every_numpyro_support():
    pytest.importorskip("numpyro")
    import numpyro
    import numpyro.distributions as dist

    expected = {
        "simplex": (dist.Dirichlet(jnp.ones(3)), sets.Simplex),
        "unit": (dist.Beta(2.0, 2.0), sets.Interval),
        "between": (dist.Uniform(-1.0, 3.0), sets.Interval),
        "above": (dist.Pareto(2.0, 1.0), sets.Interval),
        "positive": (dist.Gamma(2.0).expand([2]).to_event(1), sets.Positive),
        "cholesky": (dist.LKJCholesky(3, 1.0), sets.CorrelationCholesky),
        "correlation": (dist.LKJ(3, 1.0), sets.Correlation),
        "covariance": (dist.Wishart(5.0, jnp.eye(3)), sets.PositiveSemidefinite),
        "vector": (dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), sets.Real),
        "circular": (dist.VonMises(0.0, 1.0), sets.Interval),
        "ordered": (dist.ImproperUniform(dist.constraints.ordered_vector, (), (4,)), sets.Ordered),
    }

    def model():
        for name, (distribution, _) in expected.items():
            numpyro.sample(name, distribution)

    log_density, start, supports = from_numpyro(model)
    assert {name: type(support) for name, support in supports.items()} == {
        name: kind for name, (_, kind) in expected.items()
    }
    assert (supports["between"].low, supports["between"].high) == (-1.0, 3.0)
    assert (supports["above"].low, supports["above"].high) == (2.0, np.inf)
    free, rebuild = unconstrain(start, supports)
    assert np.isfinite(log_density(rebuild(free)[0]))


def test_numpyro_models_that_have_no_density_are_refused_by_name():
    pytest.importorskip("numpyro")
    import numpyro
    import numpyro.distributions as dist

    def discrete():
        numpyro.sample("label", dist.Bernoulli(0.3))

    def moving():
        top = numpyro.sample("top", dist.Gamma(2.0))
        numpyro.sample("share", dist.Uniform(0.0, top))

    def batched():
        with numpyro.plate("rows", 10, subsample_size=2):
            numpyro.sample("z", dist.Normal(0.0, 1.0))

    def optimised():
        numpyro.sample("z", dist.Normal(numpyro.param("loc", 0.0), 1.0))

    with pytest.raises(TypeError, match="`label` must be continuous"):
        from_numpyro(discrete)
    with pytest.raises(ValueError, match="`share` must be in a support that does not depend"):
        from_numpyro(moving)
    # NumPyro's own shuffle of the rows uses a key twice
    with jax.debug_key_reuse(False), pytest.raises(ValueError, match=r"`rows` must be .* got 2 of 10"):
        from_numpyro(batched)
    with pytest.raises(ValueError, match="`loc` must be sampled"):
        from_numpyro(optimised)
    with pytest.raises(ValueError, match="`model` must be one with latent sites"):
        from_numpyro(lambda: None)


STAN = [
    ({}, "real", sets.Real, ()),
    ({"lower": 0}, "real<lower=0>", sets.Positive, ()),
    ({"lower": 1.5}, "real<lower=1.5>", sets.Interval, ()),
    ({"upper": 2}, "real<upper=2>", sets.Interval, ()),
    ({"lower": -1, "upper": 1, "shape": [3]}, "vector<lower=-1, upper=1>[3]", sets.Interval, (3,)),
    ({"shape": [2, 3]}, "matrix[2, 3]", sets.Real, (2, 3)),
    ({"shape": 4}, "row_vector<offset=1, multiplier=2>[4]", sets.Real, (4,)),
    ({"simplex": 3}, "simplex[3]", sets.Simplex, (3,)),
    ({"simplex": 3, "shape": [2]}, "array[2] simplex[3]", sets.Simplex, (2, 3)),
    ({"ordered": 2}, "ordered[2]", sets.Ordered, (2,)),
    ({"positive_ordered": 2}, "positive_ordered[2]", sets.PositiveOrdered, (2,)),
    ({"unit_vector": 3}, "unit_vector[3]", sets.Sphere, (3,)),
    ({"cov_matrix": 3}, "cov_matrix[3]", sets.PositiveSemidefinite, (3, 3)),
    ({"corr_matrix": 3}, "corr_matrix[3]", sets.Correlation, (3, 3)),
    ({"cholesky_factor_cov": 3}, "cholesky_factor_cov[3]", sets.LowerCholesky, (3, 3)),
    ({"cholesky_factor_corr": 3}, "cholesky_factor_corr[3]", sets.CorrelationCholesky, (3, 3)),
]


@pytest.mark.parametrize(("words", "declaration", "kind", "shape"), STAN)
def test_every_constraint_of_stan(words, declaration, kind, shape):
    for declared in (words, declaration):
        start, supports = from_stan({"p": declared})
        assert type(supports["p"]) is kind
        assert start["p"].shape == shape
        assert np.all(supports["p"].contains(start["p"]))
    if kind is sets.Interval:
        limits = (words.get("lower", -np.inf), words.get("upper", np.inf))
        assert (supports["p"].low, supports["p"].high) == limits


def test_parameters_of_stan_are_free_numbers_of_a_density():
    start, supports = from_stan({"sigma": {"lower": 0}, "theta": {"simplex": 3}, "beta": {"shape": [3]}})
    free, target = FlatTarget.of(lambda x: -x["sigma"] + x["beta"].sum(), start, supports=supports)
    assert free.size == 1 + 2 + 3
    # sigma = e^u has log-determinant u; the centre of the simplex has determinant 1/27
    place = {name.split("[")[0]: i for i, name in enumerate(target.rebuild.names)}
    u = jnp.zeros(6).at[place["sigma"]].set(0.7)
    moved = float(target(u) - target(jnp.zeros(6)))
    np.testing.assert_allclose(moved, 0.7 - np.exp(0.7) + 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"least": 0}, "`p` must be declared with words of lower"),
        ({"lower": 2, "upper": 1}, "`p` must be declared with `lower` below `upper`"),
        ({"lower": 0, "simplex": 3}, "`p` must be declared with one constraint"),
        ({"simplex": 0}, "`size of p` must be a whole number of at least 1"),
        ("int<lower=0>", "`p` must be of a type in real, vector"),
        ("vector", "`p` must be `vector` with 1 sizes"),
        ("simplex(3)", "`p` must be a declaration such as"),
        ("real<least=0>", "`p` must be declared with words of lower"),
    ],
)
def test_bad_declarations_are_refused_by_name(declared, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        from_stan({"p": declared})
