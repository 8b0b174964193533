"""Relaxed draws: densities by quadrature, arg-max probabilities, gradients and their bias."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.distributions.relaxed import (
    BinaryConcrete,
    Concrete,
    annealed_temperature,
    relaxation_study,
    straight_through,
)

MU = np.array([1.0, 2.0, 3.0])
PROBS = np.array([0.09003057, 0.24472847, 0.66524096])
DRAWS = 40_000


def _log_odds_grid(width: float, count: int):
    """Points x = sigmoid(u) at equal steps of u, with 1 - x and the weights of the trapezoid rule for dx."""
    u, step = np.linspace(-width, width, count, retstep=True)
    x = 1 / (1 + np.exp(-u))
    weights = step * x * x[::-1]
    weights[[0, -1]] /= 2
    return x, x[::-1], weights


def _mass_between(logits, temperature, width):
    """P(|log-odds of the draw| < width) from the logistic law of the noise."""
    return np.diff(stats.logistic.cdf(np.array([-width, width]) * temperature - logits))[0]


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_density_of_two_integrates_to_one(temperature):
    x, rest, weights = _log_odds_grid(35.0, 4001)
    density = np.asarray(Concrete(np.array([0.3, -0.5]), temperature).prob(np.stack([x, rest], -1)))
    np.testing.assert_allclose(density @ weights, _mass_between(0.8, temperature, 35.0), rtol=1e-8)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_density_of_three_integrates_to_one_and_has_the_mean_of_the_draws(temperature):
    """Over x = (a, (1 - a) b, (1 - a)(1 - b)), whose volume element is (1 - a) da db."""
    a, rest, weights = _log_odds_grid(60.0, 601)
    first = np.broadcast_to(a[:, None], (601, 601))
    points = np.stack([first, np.outer(rest, a), np.outer(rest, rest)], -1)
    law = Concrete(MU, temperature)
    mass = np.asarray(law.prob(points)) * np.outer(rest * weights, weights)
    np.testing.assert_allclose(mass.sum(), 1.0, rtol=1e-9)
    mean = np.einsum("ij,ijk->k", mass, points)
    draws = np.asarray(law.sample(jr.key(0), (DRAWS,)))
    z = (draws.mean(0) - mean) / (draws.std(0, ddof=1) / np.sqrt(DRAWS))
    assert np.abs(z).max() < 5
    if temperature == 1.0:
        np.testing.assert_allclose(mean, [0.142, 0.289, 0.569], atol=6e-4)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 5.0])
def test_the_largest_entry_is_a_categorical_draw_at_every_temperature(temperature):
    law = Concrete(MU, temperature)
    draws = np.asarray(law.sample(jr.key(1), (DRAWS,)))
    np.testing.assert_allclose(law.probs, PROBS, atol=5e-9)
    share = np.bincount(draws.argmax(1), minlength=3) / DRAWS
    assert np.abs((share - PROBS) / np.sqrt(PROBS * (1 - PROBS) / DRAWS)).max() < 5
    np.testing.assert_allclose(draws.sum(1), 1.0, rtol=1e-12)
    if temperature == 5.0:  # the mean of the draws is not the probabilities
        np.testing.assert_allclose(draws.mean(0), [0.271, 0.329, 0.400], atol=2e-3)


def test_cold_draws_are_one_hot():
    draws = np.asarray(Concrete(MU, 1e-4).sample(jr.key(2), (2000,)))
    assert (draws.max(1) > 0.999).mean() > 0.995


def test_boundary_points_are_limits_never_nan():
    """Near the face x_0 = 0 of three entries the density goes as x_0^(2 tau - 1)."""
    edge = np.array([0.0, 0.4, 0.6])
    near = np.array([1e-200, 0.4, 0.6])
    assert Concrete(MU, 0.4).log_prob(edge) == jnp.inf
    assert Concrete(MU, 0.6).log_prob(edge) == -jnp.inf
    np.testing.assert_allclose(Concrete(MU, 0.5).log_prob(edge), Concrete(MU, 0.5).log_prob(near), rtol=1e-12)
    corner = np.array([0.0, 0.0, 1.0])
    assert Concrete(MU, 1.0).log_prob(corner) == jnp.inf
    assert Concrete(MU, 3.0).log_prob(corner) == -jnp.inf
    assert Concrete(MU, 1.0).log_prob(np.array([0.5, 0.6, 0.1])) == -jnp.inf
    assert np.isnan(Concrete(MU, 1.0).log_prob(np.array([np.nan, 0.5, 0.5])))


def test_two_entries_are_the_binary_law():
    x = np.array([1e-6, 0.1, 0.5, 0.97])
    pair, binary = Concrete(np.array([0.7, 0.2]), 0.8), BinaryConcrete(0.5, 0.8)
    np.testing.assert_allclose(binary.log_prob(x), pair.log_prob(np.stack([x, 1 - x], -1)), rtol=1e-12)
    many = BinaryConcrete(np.array([0.5, -1.0]), 0.8)
    separate = binary.log_prob(0.1) + BinaryConcrete(-1.0, 0.8).log_prob(0.3)
    np.testing.assert_allclose(many.log_prob(np.array([0.1, 0.3])), separate, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_binary_law_and_its_tails(temperature):
    law = BinaryConcrete(0.5, temperature)
    x, _, weights = _log_odds_grid(20.0, 4001)
    np.testing.assert_allclose(law.prob(x) @ weights, _mass_between(0.5, temperature, 20.0), rtol=1e-5)
    grid = np.array([0.01, 0.3, 0.9])
    np.testing.assert_allclose(
        law.cdf(grid), stats.logistic.cdf(temperature * np.log(grid / (1 - grid)) - 0.5), rtol=1e-12
    )
    np.testing.assert_allclose(law.survival(grid) + law.cdf(grid), 1.0, rtol=1e-14)
    np.testing.assert_allclose(law.icdf(law.cdf(grid)), grid, rtol=1e-10)
    np.testing.assert_allclose(law.inverse_survival(law.survival(grid)), grid, rtol=1e-10)
    np.testing.assert_allclose(np.exp(law.log_cdf(grid)), law.cdf(grid), rtol=1e-12)
    np.testing.assert_allclose(np.exp(law.log_survival(grid)), law.survival(grid), rtol=1e-12)
    slope = jax.vmap(jax.grad(lambda v: law.cdf(v)))(grid)
    np.testing.assert_allclose(slope, law.prob(grid), rtol=1e-10)
    draws = np.asarray(law.sample(jr.key(3), (DRAWS,)))
    assert stats.kstest(draws, lambda v: np.asarray(law.cdf(v))).pvalue > 1e-6
    share = (draws > 0.5).mean()
    assert abs(share - float(law.probs)) < 5 * np.sqrt(0.25 / DRAWS)


def test_pathwise_gradient_of_the_sampler():
    """For a fixed key a draw is a smooth function of the logits and the temperature."""
    key = jr.key(4)

    def value(mu, temperature):
        return (Concrete(mu, temperature).sample(jr.clone(key), (64,)) @ jnp.array([1.0, -2.0, 0.5])).sum()

    slope, slope_temperature = jax.grad(value, (0, 1))(jnp.asarray(MU), 0.7)
    h = 1e-6
    for i in range(3):
        step = h * np.eye(3)[i]
        numeric = (value(MU + step, 0.7) - value(MU - step, 0.7)) / (2 * h)
        np.testing.assert_allclose(slope[i], numeric, rtol=1e-6)
    numeric = (value(MU, 0.7 + h) - value(MU, 0.7 - h)) / (2 * h)
    np.testing.assert_allclose(slope_temperature, numeric, rtol=1e-6)


def test_straight_through_is_hard_forward_and_soft_backward():
    x = jnp.array([[0.2, 0.7, 0.1], [0.4, 0.35, 0.25]])
    assert straight_through(x).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    weights = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(jax.grad(lambda v: (straight_through(v) * weights).sum())(x), weights)


def _square_loss(x):
    return ((x - jnp.array([0.1, 0.3, 0.6])) ** 2).sum()


def _linear_loss(x):
    return x @ jnp.array([1.0, -2.0, 0.5])


def test_bias_falls_and_variance_grows_with_lower_temperature():
    temperatures = jnp.array([0.02, 0.1, 0.3, 1.0, 3.0])
    study = relaxation_study(jr.key(5), _square_loss, jnp.asarray(MU), temperatures, DRAWS)
    p, corners = PROBS, np.array([float(_square_loss(e)) for e in np.eye(3)])
    exact = p * (corners - p @ corners)
    np.testing.assert_allclose(study.exact, exact, rtol=1e-6)
    bias, error = np.linalg.norm(study.bias, axis=1), np.linalg.norm(study.standard_error, axis=1)
    variance = np.asarray(study.variance).sum(1)
    assert (np.diff(variance) < 0).all()
    np.testing.assert_allclose(
        variance[0] * 0.02, variance[1] * 0.1, rtol=0.25
    )  # as one over the temperature
    assert bias[0] < 5 * error[0]  # cold: no bias that these draws could show
    assert (np.diff(bias[1:]) > 3 * error[1:-1]).all()
    assert bias[4] > 100 * error[4]  # hot: biased beyond doubt


def test_straight_through_study():
    """For a linear loss the hard and the soft gradients are the same, draw by draw."""
    mu, temperatures = jnp.asarray(MU), jnp.array([0.3, 1.0])
    soft = relaxation_study(jr.key(6), _linear_loss, mu, temperatures, 2000)
    hard = relaxation_study(jr.key(6), _linear_loss, mu, temperatures, 2000, hard=True)
    np.testing.assert_allclose(hard.mean, soft.mean, rtol=1e-12)
    np.testing.assert_allclose(hard.variance, soft.variance, rtol=1e-12)
    assert np.abs(soft.bias).max() > 1e-3


def test_annealing_is_geometric_and_then_holds():
    steps = np.array([0, 5, 10, 50])
    np.testing.assert_allclose(annealed_temperature(steps, 10, 1.0, 0.01), [1.0, 0.1, 0.01, 0.01], rtol=1e-12)
    with pytest.raises(ValueError, match=r"`start and end` must be positive; got \(1.0, 0.0\)"):
        annealed_temperature(0, 10, 1.0, 0.0)


def test_leading_axes_and_bad_input():
    stack = Concrete(np.stack([MU, -MU]), np.array([0.5, 2.0]))
    x = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    separate = Concrete(MU, 0.5).log_prob(x[0]) + Concrete(-MU, 2.0).log_prob(x[1])
    np.testing.assert_allclose(stack.log_prob(x), separate, rtol=1e-12)
    with pytest.raises(ValueError, match=r"`temperature` must be positive and finite; got 0\.0"):
        Concrete(MU, 0.0)
    with pytest.raises(ValueError, match="`logits` must be finite"):
        Concrete(np.array([0.0, np.inf]), 1.0)
    with pytest.raises(ValueError, match="`logits` must be an array with at least two entries"):
        Concrete(np.zeros(1), 1.0)
    with pytest.raises(AttributeError, match="Concrete has no closed-form mean; estimate it from draws"):
        Concrete(MU, 1.0).mean
