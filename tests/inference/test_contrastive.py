"""Noise-contrastive estimation: worked numbers, free-form optima, consistency, ratios from classifiers."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.numerics import odds
from tractable.distributions.continuous import Normal
from tractable.distributions.f_divergence import jensen_shannon
from tractable.inference.unnormalised.contrastive import (
    density_ratio,
    improper_objective,
    nce_gradient,
    nce_gradient_variance,
    nce_logit,
    nce_objective,
    nce_objective_exact,
    nce_posterior,
    negative_sampling_objective,
    noise_contrastive_fit,
    optimal_ratio,
    softmax_gradient,
)
from tractable.inference.unnormalised.noise import check_noise_support, contrastive_set, frequency_noise
from tractable.optim.minimise import minimise

P, Q = np.array([0.5, 0.3, 0.2]), np.full(3, 1 / 3)
SCORES = np.asarray(jax.nn.log_softmax(jnp.asarray([0.1, -0.2, 0.3])))


def test_worked_posterior():
    expected = [0.42857143, 0.31034483, 0.23076923]
    np.testing.assert_allclose(nce_posterior(np.log(P), np.log(Q), 2), expected, atol=1e-8)
    np.testing.assert_allclose(nce_posterior(np.log(P), np.log(Q), 2), P / (P + 2 * Q), rtol=1e-12)
    np.testing.assert_allclose(nce_logit(np.log(P), np.log(Q), 2), np.log(P / (2 * Q)), rtol=1e-12)


def test_worked_maxima():
    np.testing.assert_allclose(nce_objective_exact(np.log(P), P, Q, 2), -1.86363346, atol=1e-8)
    one = nce_objective_exact(np.log(P), P, Q, 1)
    np.testing.assert_allclose(one, -1.35179240, atol=1e-8)
    np.testing.assert_allclose(one, 2 * jensen_shannon(P, Q) - np.log(4), rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2])
def test_free_maximum_is_the_normalised_density(k):
    ratio, run = optimal_ratio(P, Q, k)
    np.testing.assert_allclose(ratio, k * Q / P, rtol=1e-7)
    np.testing.assert_allclose((k * Q / np.asarray(ratio)).sum(), 1.0, rtol=1e-7)
    np.testing.assert_allclose(-run.value, nce_objective_exact(np.log(P), P, Q, k), rtol=1e-12)


def test_worked_gradients_tend_to_maximum_likelihood():
    few, many = nce_gradient(SCORES, P, Q, 1), nce_gradient(SCORES, P, Q, 1000)
    np.testing.assert_allclose(few, [0.0807, 0.0285, -0.0949], atol=5e-5)
    np.testing.assert_allclose(many, [0.16225, 0.04987, -0.21206], atol=5e-6)
    limit = softmax_gradient(SCORES, P)
    np.testing.assert_allclose(limit, [0.162415, 0.049911, -0.212327], atol=5e-7)
    np.testing.assert_allclose(nce_gradient(SCORES, P, Q, 1e8), limit, rtol=1e-7)
    by_autodiff = jax.jit(jax.grad(lambda s: nce_objective_exact(s, P, Q, 7)))(jnp.asarray(SCORES))
    np.testing.assert_allclose(nce_gradient(SCORES, P, Q, 7), by_autodiff, rtol=1e-10)


def test_variance_of_the_sampled_gradient_falls_with_k():
    def simulated(k, draws=40_000):
        generator = np.random.default_rng(k)
        delta = SCORES - np.log(k * Q)
        push, pull = 1 / (1 + np.exp(delta)), 1 / (1 + np.exp(-delta))
        data = generator.choice(3, size=draws, p=P)
        counts = generator.multinomial(k, Q, size=draws)
        return (np.eye(3)[data] * push - counts * pull).var(0).sum()

    exact = [float(nce_gradient_variance(SCORES, P, Q, k)) for k in (1, 5, 50)]
    np.testing.assert_allclose(exact, [simulated(k) for k in (1, 5, 50)], rtol=0.05)
    relative = np.array(exact) / [float((nce_gradient(SCORES, P, Q, k) ** 2).sum()) for k in (1, 5, 50)]
    assert relative[0] > relative[1] > relative[2]
    np.testing.assert_allclose(nce_gradient_variance(SCORES, P, Q, 1e9), 1 - P @ P, rtol=1e-6)


def test_cost_does_not_grow_with_the_vocabulary():
    def flops(size):
        def step(table, words, noise):
            return jax.grad(lambda t: nce_objective(t[words], -5.0, t[noise], -5.0, 4))(table)[words].sum()

        lowered = jax.jit(step).lower(jnp.zeros(size), jnp.arange(8), jnp.arange(32))
        return lowered.compile().cost_analysis()["flops"]

    # what is left is the zeroing of the table; scores, sigmoids and gradients touch 40 words only
    assert flops(50_000) < flops(500) + 2 * 50_000


def test_without_logarithms_the_optimum_is_at_infinity():
    scores = np.linspace(-30, 30, 241)
    proper = [float(nce_objective(s, np.log(0.5), s, np.log(0.5), 1.0)) for s in scores[::24]]
    assert int(np.argmax(proper)) not in (0, len(proper) - 1)

    def two_sided(s, share):  # data with probability `share` against even noise, on one word
        data = improper_objective(s, np.log(0.5), -1e3, np.log(0.5), 1.0) - 1.0
        noise = improper_objective(-1e3, np.log(0.5), s, np.log(0.5), 1.0)
        return share * float(data) + (1 - share) * float(noise)

    values = [two_sided(s, 0.8) for s in scores[::8]]
    assert (np.diff(values) >= -1e-15).all()  # (1 - p) + (2 p - 1) sigma(s) only ever rises


def test_objective_on_draws_is_the_exact_one_in_the_mean():
    key_data, key_noise = jr.split(jr.key(0))
    data = jr.choice(key_data, 3, (40_000,), p=jnp.asarray(P))
    noise = jr.choice(key_noise, 3, (80_000,), p=jnp.asarray(Q))
    table = jnp.asarray(SCORES)
    sampled = nce_objective(table[data], np.log(1 / 3), table[noise], np.log(1 / 3), 2)
    exact = nce_objective_exact(SCORES, P, Q, 2)
    positive = np.log(1 / (1 + np.exp(-(SCORES - np.log(2 * Q)))))
    negative = np.log(1 / (1 + np.exp(SCORES - np.log(2 * Q))))
    spread = P @ positive**2 - (P @ positive) ** 2, Q @ negative**2 - (Q @ negative) ** 2
    error = np.sqrt(spread[0] / 40_000 + 4 * spread[1] / 80_000)
    assert abs(float(sampled - exact)) < 5 * error


def test_negative_sampling_learns_the_shifted_ratio():
    def loss(s):
        data, noise = jnp.asarray(P), jnp.asarray(Q)
        return -(data @ jax.nn.log_sigmoid(s) + 3 * noise @ jax.nn.log_sigmoid(-s))

    found = minimise(loss, np.zeros(3), tol=1e-10)
    np.testing.assert_allclose(found.state, np.log(P / (3 * Q)), rtol=1e-6)
    s = jnp.asarray([0.3, -0.2])
    direct = jax.nn.log_sigmoid(s).mean() + 3 * jax.nn.log_sigmoid(-s).mean()
    np.testing.assert_allclose(negative_sampling_objective(s, s, 3), direct, rtol=1e-12)


def unnormalised(theta, x):
    return -0.5 * jnp.exp(theta[1]) * (x - theta[0]) ** 2


@pytest.fixture(scope="module")
def noise():
    return Normal(1.0, 1.5)


def test_log_normaliser_is_learnt_and_the_error_falls_with_n(noise):
    truth = np.array([1.5, -2 * np.log(0.7), np.log(0.7 * np.sqrt(2 * np.pi))])
    errors = []
    for n in (200, 3200):
        per_size = []
        for seed in range(6):
            key_data, key_noise = jr.split(jr.key(100 * n + seed))
            data = 1.5 + 0.7 * jr.normal(key_data, (n,))
            fit = noise_contrastive_fit(unnormalised, np.zeros(2), data, noise, k=10, key=key_noise)
            assert fit.run.status.ok
            per_size.append(np.r_[np.asarray(fit.parameters), float(fit.log_normaliser)] - truth)
        errors.append(np.sqrt(np.mean(np.square(per_size))))
    assert errors[1] < 0.05
    assert errors[0] / errors[1] > 2  # a factor of four in expectation


def test_normalised_model_with_z_held_at_one(noise):
    def normalised(theta, x):
        return unnormalised(theta, x) + 0.5 * theta[1] - 0.5 * jnp.log(2 * jnp.pi)

    key_data, key_noise = jr.split(jr.key(3))
    data = 1.5 + 0.7 * jr.normal(key_data, (3200,))
    fit = noise_contrastive_fit(normalised, np.zeros(2), data, noise, k=10, key=key_noise, normaliser="one")
    assert float(fit.log_normaliser) == 0.0
    np.testing.assert_allclose(fit.parameters[0], data.mean(), atol=5 * 0.7 / np.sqrt(3200))
    np.testing.assert_allclose(jnp.exp(-0.5 * fit.parameters[1]), 0.7, atol=0.05)
    assert "Converged" in repr(fit)


def test_ratio_of_two_normals_from_samples_alone():
    # N(1, 1) over N(0, 1): log ratio x - 1/2, D = p/(p + q)
    key_top, key_bottom = jr.split(jr.key(4))
    top, bottom = 1 + jr.normal(key_top, (4000,)), jr.normal(key_bottom, (12_000,))
    found = density_ratio(lambda w, x: w[0] + w[1] * x, np.zeros(2), top, bottom)
    x = np.array([-1.0, 0.5, 2.0])
    np.testing.assert_allclose(jax.vmap(found.log_ratio)(x), x - 0.5, atol=0.15)
    probability = np.asarray(jax.vmap(found.probability)(x))
    p, q = np.exp(-0.5 * (x - 1) ** 2), np.exp(-0.5 * x**2)
    np.testing.assert_allclose(probability, p / (p + q), atol=0.03)
    np.testing.assert_allclose(odds(probability), np.exp(jax.vmap(found.log_ratio)(x)), rtol=1e-10)
    np.testing.assert_allclose(nce_posterior(np.log(p), np.log(q)), p / (p + q), rtol=1e-12)


def test_noise_of_word_frequencies():
    counts = np.array([100.0, 10.0, 1.0, 0.0])
    for power, weights in ((1.0, counts), (0.75, counts**0.75), (0.0, np.ones(4))):
        noise = frequency_noise(counts, power)
        np.testing.assert_allclose(noise.prob(np.arange(4.0)), weights / weights.sum(), rtol=1e-12)
        drawn = np.bincount(np.asarray(noise.sample(jr.key(5), (60_000,))), minlength=4)
        expected = 60_000 * weights / weights.sum()
        gaps = (drawn - expected)[expected > 0] / np.sqrt(expected[expected > 0])
        assert np.abs(gaps).max() < 5
        assert drawn[expected == 0].sum() == 0
    assert float(frequency_noise(counts).log_prob(7)) == -np.inf


def test_training_set_has_k_noise_rows_per_observation():
    made = contrastive_set(
        jr.key(6), np.array([0, 1, 1]), frequency_noise([1.0, 1.0]), 4, np.array([7, 8, 9])
    )
    assert made.values.shape == (15,)
    np.testing.assert_array_equal(made.labels, [1] * 3 + [0] * 12)
    np.testing.assert_array_equal(made.values[:3], [0, 1, 1])
    np.testing.assert_array_equal(made.contexts.reshape(5, 3)[2], [7, 8, 9])
    np.testing.assert_allclose(made.labels.mean(), 1 / 5)


def test_bad_input_is_named():
    with pytest.raises(
        ValueError, match=r"`noise_probs` must be positive wherever the data are; got 0\.0 at index 2"
    ):
        check_noise_support(P, [0.5, 0.5, 0.0])
    with pytest.raises(
        ValueError, match=r"`counts` must be zero or positive, and finite; got -1\.0 at index 1"
    ):
        frequency_noise([1.0, -1.0])
    with pytest.raises(ValueError, match="`power` must be from 0"):
        frequency_noise([1.0], 2.0)
    with pytest.raises(ValueError, match="`probs` must be probabilities"):
        nce_objective_exact(SCORES, [0.5, 0.5, 0.5], Q, 1)
    with pytest.raises(ValueError, match="`noise_probs` must be of shape"):
        nce_gradient(SCORES, P, Q[:2], 1)
    with pytest.raises(ValueError, match="`normaliser` must be one of 'learnt', 'one'"):
        noise_contrastive_fit(
            unnormalised, np.zeros(2), [0.0, 1.0], Normal(0.0, 1.0), key=jr.key(0), normaliser="free"
        )
    with pytest.raises(ValueError, match="`denominator` must be rows of shape"):
        density_ratio(lambda w, x: w, 0.0, np.zeros((3, 2)), np.zeros((3, 1)))
