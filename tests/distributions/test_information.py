"""Entropies against loops over outcomes, SciPy and mpmath; bounds, invariances, errors by name."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import joint as oracle
from tractable.distributions.bounded import Uniform
from tractable.distributions.continuous import Laplace, Normal
from tractable.distributions.density_entropy import differential_entropy
from tractable.distributions.divergence import kl, kl_probs
from tractable.distributions.information import (
    conditional_entropy,
    cross_entropy,
    entropy,
    perplexity,
    self_information,
)

weights4 = st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda w: sum(w) > 1e-3)


def normalised(weights):
    w = np.asarray(weights)
    return w / w.sum()


@pytest.mark.parametrize(
    ("probs", "base", "expected"),
    [
        ([9 / 14, 5 / 14], 2, 0.9402859587),
        ([0.5, 0.25, 0.25], None, 1.0397208),
        ([1 / 3, 1 / 3, 1 / 3], None, 1.0986123),
        ([1.0, 0.0], 2, 0.0),
        ([0.5, 0.5], 2, 1.0),
        ([1 / 8] * 8, 2, 3.0),
        ([1 / 32] * 32, 2, 5.0),
    ],
)
def test_entropy_of_known_distributions(probs, base, expected):
    np.testing.assert_allclose(entropy(probs, base), expected, atol=5e-8 if base is None else 5e-11)


@given(weights4)
def test_entropy_lies_between_zero_and_log_k_and_agrees_with_scipy(weights):
    p = normalised(weights)
    value = float(entropy(p))
    assert -1e-12 <= value <= np.log(4) + 1e-12
    np.testing.assert_allclose(value, scipy.stats.entropy(p), rtol=1e-12, atol=1e-14)


@given(weights4, st.permutations(range(8)))
def test_gaps_of_probability_zero_and_order_change_nothing(weights, places):
    p = normalised(weights)
    apart = np.zeros(8)
    apart[places[:4]] = p
    np.testing.assert_allclose(entropy(apart), entropy(p), rtol=1e-13, atol=1e-15)


def test_spreading_the_values_changes_the_variance_but_not_the_entropy():
    p, near, far = np.array([0.2, 0.5, 0.3]), np.array([1.0, 2.0, 3.0]), np.array([1.0, 20.0, 300.0])
    spread = [np.sum(p * x**2) - np.sum(p * x) ** 2 for x in (near, far)]
    assert spread[1] > 1000 * spread[0]
    gaps = np.zeros(301)
    gaps[[1, 20, 300]] = p
    np.testing.assert_allclose(entropy(gaps), entropy(p), rtol=1e-13)


def test_uniform_is_the_only_maximum():
    gradient = jax.grad(lambda logits: entropy(jax.nn.softmax(logits)))(jnp.zeros(4))
    np.testing.assert_allclose(gradient, 0, atol=1e-15)
    assert float(entropy([0.26, 0.24, 0.25, 0.25])) < np.log(4)


def test_gradient_is_finite_where_a_probability_is_zero():
    gradient = jax.grad(lambda logits: entropy(jax.nn.softmax(logits)))(jnp.array([0.0, 0.0, 0.0, -jnp.inf]))
    np.testing.assert_array_equal(np.isfinite(gradient), True)


def test_batches_are_vmap():
    rows = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]])
    np.testing.assert_allclose(jax.vmap(entropy)(rows), scipy.stats.entropy(rows, axis=1), rtol=1e-14)


def test_float32_stays_float32():
    assert entropy(jnp.array([0.5, 0.5], jnp.float32)).dtype == jnp.float32


def test_self_information_of_certain_likely_and_impossible_events():
    np.testing.assert_array_equal(self_information([1.0, 0.5, 0.0], base=2), [0.0, 1.0, np.inf])
    with pytest.raises(ValueError, match=r"`probs` must be between 0 and 1; got 1.5 at index 1"):
        self_information([0.5, 1.5])


def test_entropy_is_the_mean_self_information():
    p = np.array([0.1, 0.2, 0.7])
    np.testing.assert_allclose(entropy(p), np.sum(p * np.asarray(self_information(p))), rtol=1e-14)


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([0.5, 0.6], r"`probs` must be probabilities that sum to 1 .* got a sum of 1.1\. Divide by the sum"),
        ([1.5, -0.5], r"`probs` must be probabilities, each zero or positive; got -0.5 at index 1"),
        ([0.5, np.nan], r"`probs` must be probabilities, each zero or positive; got nan at index 1"),
        ([], r"`probs` must be an array with at least one cell; got shape \(0,\)"),
    ],
)
def test_what_is_no_distribution_is_refused(probs, message):
    with pytest.raises(ValueError, match=message):
        entropy(probs)


def test_text_and_bad_bases_are_refused():
    with pytest.raises(TypeError, match=r"`probs` must be a real number or an array of real numbers"):
        entropy(["a", "b"])
    with pytest.raises(ValueError, match=r"`base` must be a positive number other than 1; got 1"):
        entropy([0.5, 0.5], base=1)


@given(weights4, weights4)
def test_cross_entropy_is_entropy_plus_divergence(first, second):
    p, q = normalised(first), normalised(second)
    np.testing.assert_allclose(cross_entropy(p, q), entropy(p) + kl_probs(p, q), rtol=1e-11, atol=1e-13)


def test_cross_entropy_of_known_codes():
    p, q = np.array([0.5, 0.25, 0.25]), np.array([1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(cross_entropy(p, q), np.log(3), rtol=1e-14)
    np.testing.assert_allclose(
        cross_entropy(p, q) - entropy(p), 0.0588915, atol=5e-8
    )  # what the wrong code wastes
    np.testing.assert_allclose(cross_entropy(q, p) - entropy(q), 0.0566330, atol=5e-8)


def test_cross_entropy_is_infinite_where_the_code_excludes_an_outcome():
    assert cross_entropy([0.5, 0.5], [1.0, 0.0]) == np.inf
    assert cross_entropy([1.0, 0.0], [0.5, 0.5]) == pytest.approx(np.log(2))
    assert cross_entropy([1.0, 0.0], [1.0, 0.0]) == 0.0


def test_cross_entropy_of_distributions_matches_quadrature():
    p, q = Normal(0.5, 0.8), Normal(-0.2, 1.5)
    log_q = scipy.stats.norm(-0.2, 1.5).logpdf
    expected = scipy.integrate.quad(lambda x: -scipy.stats.norm(0.5, 0.8).pdf(x) * log_q(x), -np.inf, np.inf)[
        0
    ]
    np.testing.assert_allclose(cross_entropy(p, q), expected, rtol=1e-9)
    np.testing.assert_allclose(cross_entropy(p, q), p.entropy() + kl(p, q), rtol=1e-14)


def test_cross_entropy_refuses_unlike_arguments():
    with pytest.raises(ValueError, match=r"`q` must be of the shape of `p`, \(2,\); got shape \(3,\)"):
        cross_entropy([0.5, 0.5], [0.5, 0.25, 0.25])
    with pytest.raises(
        TypeError, match=r"`q` must be a distribution when `p` is one, and only then; got Normal"
    ):
        cross_entropy([0.5, 0.5], Normal(0.0, 1.0))


def test_perplexity_counts_equally_likely_outcomes():
    np.testing.assert_allclose(perplexity(np.full(6, 1 / 6)), 6.0, rtol=1e-14)
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    np.testing.assert_allclose(perplexity(p, q), np.exp(-0.5 * np.log(0.09)), rtol=1e-14)


@pytest.fixture(scope="module")
def xyz():
    """A joint array of three variables with some impossible cells."""
    p = np.random.default_rng(3).gamma(0.7, size=(2, 3, 2))
    p[0, 1, :] = 0
    p[1, 2, 0] = 0
    return p / p.sum()


def test_joint_and_conditional_entropy_match_loops(xyz):
    names = ["x", "y", "z"]
    table = oracle.outcomes(xyz, [range(2), range(3), range(2)])
    np.testing.assert_allclose(entropy(xyz), oracle.entropy(table), rtol=1e-13)
    for given_axes, kept in [((1,), "y"), ((0, 2), "xz"), ((2,), "z")]:
        margin = oracle.marginal(table, names, list(kept))
        direct = 0.0  # E[log 1 / p(rest | kept)]
        for outcome, p in table.items():
            if p > 0:
                direct += p * np.log(margin[tuple(outcome[names.index(n)] for n in kept)] / p)
        np.testing.assert_allclose(conditional_entropy(xyz, given_axes), direct, rtol=1e-12)


def test_chain_rule_and_conditioning_reduces_entropy(xyz):
    xy = xyz.sum(2)
    np.testing.assert_allclose(entropy(xy), entropy(xy.sum(0)) + conditional_entropy(xy, given=1), rtol=1e-13)
    assert conditional_entropy(xy, given=1) <= entropy(xy.sum(1))
    assert conditional_entropy(xy, given=0) <= entropy(xy.sum(0))
    # One condition may raise the entropy; its average may not.
    cell = np.array([[0.0, 0.5], [0.25, 0.25]])
    assert entropy(cell[1] / 0.5) > entropy(cell.sum(0))


def test_conditional_entropy_is_zero_for_a_function_and_full_for_independent_variables():
    assert conditional_entropy([[0.5, 0.0], [0.0, 0.5]], given=0) == 0.0
    p, q = np.array([0.2, 0.8]), np.array([0.1, 0.6, 0.3])
    np.testing.assert_allclose(conditional_entropy(np.outer(p, q), given=1), entropy(p), rtol=1e-13)
    with pytest.raises(ValueError, match=r"`given` must be axes of an array with 2 axes; got \(2,\)"):
        conditional_entropy(np.outer(p, q), given=2)


@pytest.mark.parametrize(
    ("distribution", "closed"),
    [
        (Normal(0.3, 2.0), lambda: 0.5 * mpmath.log(2 * mpmath.pi * mpmath.e * 4)),
        (Normal(0.0, 0.1), lambda: 0.5 * mpmath.log(2 * mpmath.pi * mpmath.e * mpmath.mpf("0.01"))),
        (Uniform(-1.0, 2.0), lambda: mpmath.log(3)),
        (Uniform(0.0, 0.25), lambda: -mpmath.log(4)),
        (Laplace(1.0, 0.5), lambda: 1 + mpmath.log(1)),
    ],
)
def test_differential_entropy_closed_form_equals_quadrature(distribution, closed):
    expected = float(closed())
    np.testing.assert_allclose(entropy(distribution), expected, rtol=1e-13, atol=1e-13)
    numeric = differential_entropy(distribution)
    np.testing.assert_allclose(numeric.value, expected, atol=1e-9)
    assert bool(numeric.certified)


def test_differential_entropy_of_a_function():
    triangle = differential_entropy(lambda x: jnp.log(2 * x), 0.0, 1.0)  # 1/2 - log 2, by parts
    np.testing.assert_allclose(triangle.value, 0.5 - np.log(2), atol=1e-9)
    assert float(triangle.value) < 0
    halves = differential_entropy(
        lambda x: jnp.where(x < 1, jnp.log(0.25), jnp.log(0.75)), 0.0, 2.0, points=[1.0], base=2
    )
    np.testing.assert_allclose(halves.value, scipy.stats.entropy([0.25, 0.75], base=2), atol=1e-9)


def test_differential_entropy_falls_without_bound_as_the_density_narrows():
    values = [float(entropy(Normal(0.0, scale))) for scale in (1e-2, 1e-4, 1e-100)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < -200


def test_gaussian_has_the_largest_entropy_of_its_variance():
    scale = 1.3
    others = Uniform(-scale * 3**0.5, scale * 3**0.5), Laplace(0.0, scale / 2**0.5)
    assert all(float(other.variance) == pytest.approx(scale**2) for other in others)
    assert all(float(entropy(other)) < float(entropy(Normal(0.0, scale))) for other in others)


def test_differential_entropy_refuses_what_is_no_density():
    with pytest.raises(
        ValueError,
        match=r"`density` must be the logarithm of a density that integrates to 1 .* got an integral of 2",
    ):
        differential_entropy(lambda x: jnp.zeros_like(x), 0.0, 2.0)
    with pytest.raises(ValueError, match=r"`points` must be left out when an end is infinite"):
        differential_entropy(lambda x: -x, 0.0, points=[1.0])
