"""The change of variables: closed forms on both sides, both directions, both tails, and what is refused."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.bijections.base import Chain, Image
from tractable.bijections.compose import Concatenate, Permute
from tractable.bijections.coupling import Coupling
from tractable.bijections.elementwise import (
    Affine,
    Exp,
    GumbelMap,
    Identity,
    Logit,
    Negate,
    NegativeLog,
    Power,
    Sigmoid,
)
from tractable.bijections.matrix import LowerTriangular, MatrixMap
from tractable.bijections.simplex import Softmax
from tractable.bijections.support import bijection_onto
from tractable.core.module import field
from tractable.core.support import Support, bounded, counts, nonnegative, positive, real, simplex
from tractable.core.types import Array, Float
from tractable.distributions.base import Univariate
from tractable.distributions.continuous import Cauchy, Normal
from tractable.distributions.transformed import Transformed


class Flat(Univariate):
    """The uniform density between `low` and `high`, as a base that does not depend on other families."""

    low: Float[Array, "..."] = field(support=real, default=0.0)
    high: Float[Array, "..."] = field(support=real, default=1.0)

    @property
    def support(self) -> Support:
        return bounded(self.low, self.high)

    def _log_prob(self, x):
        return -jnp.log(self.high - self.low) + 0 * x

    def _sample(self, key, n):
        return self.low + (self.high - self.low) * jr.uniform(key, n)

    def _cdf(self, x):
        return (x - self.low) / (self.high - self.low)

    def _icdf(self, p):
        return self.low + p * (self.high - self.low)

    def _entropy(self):
        return jnp.log(self.high - self.low)


class Coin(Univariate):
    probs: Float[Array, "..."] = field(support=real, default=0.5)

    @property
    def support(self) -> Support:
        return counts

    def _log_prob(self, x):
        return jnp.log(self.probs) + 0 * x

    def _sample(self, key, n):
        return jr.bernoulli(key, self.probs, n)


# Each pair: the transformed distribution and the same law under its own name.
PAIRS = {
    "exp of a normal is lognormal": (Transformed(Normal(0.0, 1.0), Exp()), stats.lognorm(1.0)),
    "exp of any normal": (Transformed(Normal(0.5, 0.3), Exp()), stats.lognorm(0.3, scale=np.exp(0.5))),
    "minus a normal": (Transformed(Normal(1.0, 2.0), Negate()), stats.norm(-1.0, 2.0)),
    "minus log of a uniform is exponential": (Transformed(Flat(), NegativeLog()), stats.expon()),
    "log-odds of a uniform are logistic": (Transformed(Flat(), Logit()), stats.logistic()),
    "Gumbel map of a uniform": (Transformed(Flat(), GumbelMap(1.0, 2.0)), stats.gumbel_r(1.0, 2.0)),
    "a falling line": (Transformed(Flat(0.0, 2.0), Affine(1.0, -3.0)), stats.uniform(-5.0, 6.0)),
    "a chain with two falls": (
        Transformed(Flat(), Chain(NegativeLog(), Power(0.5), Affine(0.0, -1.0), Negate())),
        stats.weibull_min(2.0),
    ),
    "nested": (Transformed(Transformed(Flat(), NegativeLog()), Power(0.5)), stats.weibull_min(2.0)),
}

pairs = pytest.mark.parametrize("name", PAIRS)


@pairs
def test_density_distribution_and_quantiles_are_those_of_the_known_law(name):
    transformed, oracle = PAIRS[name]
    p = np.array([1e-3, 0.2, 0.5, 0.9, 0.999])
    x = oracle.ppf(p)
    np.testing.assert_allclose(transformed.log_prob(x), oracle.logpdf(x), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(transformed.cdf(x), p, rtol=1e-11)
    np.testing.assert_allclose(transformed.icdf(p), x, rtol=1e-11, atol=1e-13)


@pairs
def test_draws_follow_the_known_law(name):
    transformed, oracle = PAIRS[name]
    draws = np.asarray(transformed.sample(jr.key(11), (4000,)))
    assert stats.kstest(draws, oracle.cdf).pvalue > 1e-6


@pairs
def test_off_the_support_and_at_infinity(name):
    transformed, oracle = PAIRS[name]
    low, high = (float(end) for end in oracle.support())
    x = np.array([-np.inf, low - 1, high + 1, np.inf, np.nan])
    np.testing.assert_array_equal(transformed.cdf(x), [0.0, 0.0, 1.0, 1.0, np.nan])
    np.testing.assert_array_equal(transformed.log_prob(x), [-np.inf, -np.inf, -np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(
        transformed.icdf(np.array([-0.1, 0.0, 1.0, 1.1, np.nan])), [np.nan, low, high, np.nan, np.nan]
    )


def test_gradient_off_the_support_is_finite():
    transformed, _ = PAIRS["exp of a normal is lognormal"]
    slopes = jax.grad(lambda d, x: jnp.where(x > 0, d.log_prob(x), 0.0), (0, 1))(transformed, -1.0)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


@pytest.mark.parametrize("name", ["exp of a normal is lognormal", "minus a normal"])  # one rises, one falls
def test_both_tails_and_their_logarithms(name):
    transformed, oracle = PAIRS[name]
    p = np.array([1e-3, 0.2, 0.5, 0.9, 0.999])
    x = oracle.ppf(p)
    np.testing.assert_allclose(transformed.survival(x), oracle.sf(x), rtol=1e-11)
    np.testing.assert_allclose(transformed.log_cdf(x), oracle.logcdf(x), rtol=1e-10)
    np.testing.assert_allclose(transformed.log_survival(x), oracle.logsf(x), rtol=1e-10)
    np.testing.assert_allclose(transformed.inverse_survival(p), oracle.isf(p), rtol=1e-11)
    ends = np.array([-np.inf, 0.0, 1.0, np.inf, np.nan])
    np.testing.assert_allclose(transformed.survival(ends), oracle.sf(ends), rtol=1e-12)


def test_falling_maps_keep_the_digits_of_the_tail():
    minus, far = (
        PAIRS["minus a normal"][0],
        np.array([-21.0, -41.0, -1.0, 19.0, 79.0]),
    )  # in standard deviations of 2 about -1
    oracle = stats.norm(-1.0, 2.0)
    np.testing.assert_allclose(minus.cdf(far), oracle.cdf(far), rtol=1e-12)
    np.testing.assert_allclose(minus.log_survival(far), oracle.logsf(far), rtol=1e-12)
    p = np.array([1e-300, 1e-30, 1e-3, 0.5, 0.9])
    np.testing.assert_allclose(minus.icdf(p), oracle.ppf(p), rtol=1e-12)


def test_an_open_end_has_density_zero_and_no_nan():
    squashed = Transformed(Normal(0.0, 1.0), Sigmoid())
    np.testing.assert_array_equal(squashed.log_prob(np.array([0.0, 1.0])), [-np.inf, -np.inf])
    assert float(Transformed(Normal(0.0, 1.0), Exp()).log_prob(0.0)) == -np.inf


def test_supports_are_images():
    assert Transformed(Normal(0.0, 1.0), Exp()).support is positive
    assert Transformed(Normal(0.0, 1.0), Affine(0.0, -2.0)).support is real
    assert type(Transformed(Flat(), NegativeLog()).support) is type(nonnegative)
    assert Transformed(Normal(np.zeros(2), 1.0), Softmax()).support is simplex
    free = bijection_onto(Transformed(Normal(0.0, 1.0), Exp()).support)
    assert float(free.forward(0.0)) == 1.0


def test_affine_map_of_independent_normals_is_a_gaussian():
    matrix = np.array([[1.0, 2.0, 0.0], [-0.5, 3.0, 1.0], [0.3, 0.0, -2.0]])
    shift, cov = np.array([1.0, -1.0, 0.5]), matrix @ matrix.T
    transformed = Transformed(Normal(np.zeros(3), 1.0), MatrixMap(matrix, shift))
    oracle = stats.multivariate_normal(shift, cov)
    x = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_allclose(transformed.log_prob(x), oracle.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(transformed.mean, shift, rtol=1e-14)
    np.testing.assert_allclose(transformed.variance, np.diag(cov), rtol=1e-13)
    np.testing.assert_allclose(transformed.entropy(), oracle.entropy(), rtol=1e-13)
    draws = np.asarray(transformed.sample(jr.key(2), (20_000,)))
    z = (draws.mean(0) - shift) / np.sqrt(np.diag(cov) / 20_000)
    assert np.abs(z).max() < 5
    centred = draws - shift
    second = centred[:, :, None] * centred[:, None, :]
    z = (second.mean(0) - cov) / (second.std(0) / np.sqrt(20_000))
    assert np.abs(z).max() < 5


def test_moments_and_entropy_where_they_are_closed():
    line = Transformed(Normal([1.0, 2.0], [0.5, 0.1]), Affine(3.0, [-2.0, 4.0]))
    np.testing.assert_allclose(line.mean, [1.0, 11.0], rtol=1e-14)
    np.testing.assert_allclose(line.variance, [1.0, 0.16], rtol=1e-13)
    lognormal = Transformed(Normal(0.5, 0.3), Exp())
    np.testing.assert_allclose(
        lognormal.entropy(), stats.lognorm(0.3, scale=np.exp(0.5)).entropy(), rtol=1e-12
    )
    cauchy = Transformed(Cauchy(0.0, 1.0), Affine(0.0, 3.0))  # no mean, but a constant log-determinant
    np.testing.assert_allclose(cauchy.entropy(), np.log(12 * np.pi), rtol=1e-13)


def test_independent_coordinates():
    base = Normal([0.0, 1.0], [1.0, 2.0])
    joint = Transformed(base, Exp())
    x = np.array([[0.5, 2.0], [1.0, 3.0]])
    oracle = [stats.lognorm(1.0), stats.lognorm(2.0, scale=np.e)]
    np.testing.assert_allclose(
        joint.log_prob(x), sum(o.logpdf(x[:, i]) for i, o in enumerate(oracle)), rtol=1e-13
    )
    np.testing.assert_allclose(
        joint.cdf(x), np.stack([o.cdf(x[:, i]) for i, o in enumerate(oracle)], 1), rtol=1e-13
    )
    mixed = Transformed(base, Affine(0.0, [1.0, -1.0]))
    np.testing.assert_allclose(
        mixed.cdf(x), np.stack([stats.norm.cdf(x[:, 0]), stats.norm(-1, 2).cdf(x[:, 1])], 1), rtol=1e-13
    )


def test_a_density_on_the_simplex_has_total_one():
    logistic_normal = Transformed(Normal([0.3, -0.2], [0.8, 0.5]), Softmax())

    nodes, weights = np.polynomial.legendre.leggauss(80)
    u, w = (nodes + 1) / 2, weights / 2
    first, share = np.meshgrid(u, u, indexing="ij")  # (a, b, c) = (u, (1 - u) v, (1 - u)(1 - v))
    points = np.stack([first, (1 - first) * share, (1 - first) * (1 - share)], -1).reshape(-1, 3)
    total = (np.asarray(logistic_normal.prob(points)).reshape(80, 80) * (1 - first) * np.outer(w, w)).sum()
    assert total == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_array_equal(logistic_normal.log_prob(np.array([0.5, 0.5, 0.5])), -np.inf)
    assert logistic_normal.shape == (3,)


def test_parts_with_their_own_supports():
    joint = Transformed(Normal(np.zeros(2), 1.0), Concatenate([Exp(), Identity()], [1, 1]))
    expected = stats.lognorm(1.0).logpdf(2.0) + stats.norm.logpdf(-1.0)
    np.testing.assert_allclose(joint.log_prob(np.array([2.0, -1.0])), expected, rtol=1e-13)
    assert float(joint.log_prob(np.array([-2.0, -1.0]))) == -np.inf


def test_support_without_a_name_is_judged_by_going_back():
    box = Transformed(
        Flat(np.zeros(2), np.array([1.0, 2.0])), MatrixMap([[1.0, 1.0], [0.0, 1.0]], [0.0, 0.0])
    )
    assert isinstance(box.support, Image)
    x = np.array([[2.0, 1.5], [2.0, 0.5]])  # back to (0.5, 1.5), and to (1.5, 0.5) outside
    np.testing.assert_allclose(box.log_prob(x), [-np.log(2.0), -np.inf], rtol=1e-14)
    swapped = Transformed(Flat(np.zeros(2), np.array([1.0, 2.0])), Permute([1, 0]))
    np.testing.assert_allclose(swapped.log_prob(np.array([[1.5, 0.5], [0.5, 1.5]])), [-np.log(2.0), -np.inf])


def test_a_flow_with_a_neural_conditioner_is_differentiated_in_its_weights():
    flow = Transformed(Normal(np.zeros(2), 1.0), Coupling.random(jr.key(0), [True, False], width=4, depth=1))
    x = jnp.asarray([0.3, -0.4])
    z, log_det = flow.bijection.inverse_and_log_det(x)
    value, slopes = jax.value_and_grad(lambda d: d.log_prob(x))(flow)
    np.testing.assert_allclose(value, stats.norm.logpdf(z).sum() + float(log_det), rtol=1e-13)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(slopes.bijection))


def test_reparametrised_draws_have_gradients():
    # E[y^2] for y = mu + sigma e has the gradient (2 mu, 2 sigma).
    def second_moment(loc, scale):
        noise = Normal(jnp.zeros(()), 1.0).sample(jr.key(4), (20_000,))
        return (Affine(loc, scale).forward(noise) ** 2).mean()

    slopes = np.asarray(jax.jit(jax.grad(second_moment, (0, 1)))(0.5, 1.5))
    spread = np.array([2.0 * 1.5, 2.0 * np.sqrt(0.5**2 + 2 * 1.5**2)]) / np.sqrt(20_000)
    assert (np.abs(slopes - [1.0, 3.0]) < 5 * spread).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Transformed(Coin(), Negate()), r"`base` must be a density; got Coin, which has masses"),
        (
            lambda: Transformed(Normal(0.0, 1.0), Softmax()),
            r"`bijection` must take draws of `base`, of shape \(\)",
        ),
        (
            lambda: Transformed(Normal(0.0, 1.0), Affine(np.zeros(3), 1.0)),
            r"`bijection` must take draws of `base`",
        ),
        (
            lambda: Transformed(Normal(np.zeros(3), 1.0), LowerTriangular(np.eye(2), np.zeros(2))),
            r"of shape \(3,\)",
        ),
        (lambda: Transformed(Normal(0.0, 1.0), Exp()).mean, r"Transformed has no closed-form mean"),
        (lambda: Transformed(Normal(0.0, 1.0), Exp()).variance, r"no closed-form variance"),
        (lambda: Transformed(Normal(0.0, 1.0), Sigmoid()).entropy(), r"no closed-form entropy"),
        (
            lambda: Transformed(Normal(np.zeros(2), 1.0), Permute([1, 0])).cdf(np.zeros(2)),
            r"no closed-form `cdf`",
        ),
        (
            lambda: Transformed(Normal(np.zeros(2), 1.0), Exp()).log_prob(np.zeros(3)),
            r"`x` must be an array whose last axes",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises((ValueError, TypeError, AttributeError), match=message):
        call()
