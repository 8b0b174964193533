"""Bayesian logistic regression: worked numbers, quadrature, evidence, the bound, draws, more classes."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit
from scipy.stats import multivariate_normal

from tractable.core.iterate import Status
from tractable.inference.curvature.laplace import laplace
from tractable.inference.curvature.moderated import moderated_probability
from tractable.supervised.logistic.bayes import (
    fit_bayes_logistic,
    laplace_logistic,
    log_joint,
    sample_logistic,
)
from tractable.supervised.logistic.bayes_softmax import fit_bayes_softmax
from tractable.supervised.logistic.bayes_variational import sigmoid_bound, variational_logistic
from tractable.supervised.logistic.binary import fit_logistic

ONE, VOTES = np.ones((3, 1)), np.array([1, 1, 0])
WORKED = [
    (1, 1, 0.6967347, 0.7000144, 0.7022935),
    (2, 4, 0.7752002, 0.7768447, 0.7827971),
    (0.5, 10, 0.5549698, 0.5560774, 0.5561279),
    (-1, 0.5, 0.2884268, 0.2861284, 0.2833463),
]


def table(num_rows=80, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num_rows, 2))
    return x, (x @ [1.5, -0.5] + 0.3 + generator.logistic(size=num_rows) > 0).astype(int)


@pytest.mark.parametrize(("mean", "variance", "exact", "kappa", "probit"), WORKED)
def test_worked_predictive_probabilities(mean, variance, exact, kappa, probit):
    for method, value in (("exact", exact), ("kappa", kappa), ("probit", probit)):
        np.testing.assert_allclose(moderated_probability(mean, variance, method), value, atol=6e-8)
    np.testing.assert_allclose(
        moderated_probability(mean, variance, "hermite", num_points=100), exact, atol=1e-5
    )
    draws = 40_000
    spread = 0.5 / np.sqrt(draws)  # a probability deviates by at most one half
    sampled = moderated_probability(mean, variance, "monte_carlo", num_points=draws, key=jr.key(0))
    assert abs(sampled - exact) < 5 * spread


@settings(max_examples=15)
@given(st.floats(-30, 30), st.floats(0.0, 60.0))
def test_the_exact_rule_meets_adaptive_quadrature(mean, deviation):
    def integrand(z):
        return expit(mean + deviation * z) * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)

    break_point = [-mean / deviation] if deviation > 0.8 else None
    inside = break_point is not None and abs(break_point[0]) < 10
    value = quad(integrand, -10, 10, points=break_point if inside else None, limit=400, epsabs=1e-13)[0]
    np.testing.assert_allclose(moderated_probability(mean, deviation**2), value, rtol=1e-9, atol=1e-12)


def test_limits_of_certainty_and_of_none():
    np.testing.assert_allclose(moderated_probability(1.3, 0.0), expit(1.3), rtol=1e-13)
    for method in ("exact", "kappa", "probit"):
        np.testing.assert_allclose(moderated_probability(1.3, 1e16, method), 0.5, atol=1e-7)
    assert moderated_probability(1.3, np.inf) == 0.5
    both = moderated_probability([-2.0, 2.0], [[1.0], [30.0]])
    np.testing.assert_allclose(both.sum(1), 1, rtol=1e-13)
    with pytest.raises(ValueError, match=r"`variance` must be zero or positive; got -1.0"):
        moderated_probability(0.0, -1.0)


def test_worked_posterior_of_three_votes():
    post = laplace_logistic(ONE, VOTES)
    np.testing.assert_allclose(post.posterior.mean, [0.2865477], atol=5e-8)
    np.testing.assert_allclose(post.posterior.cov, [[0.5764311]], atol=5e-8)
    np.testing.assert_allclose(post.log_evidence, -2.2833585, atol=5e-8)
    np.testing.assert_allclose(post.predict_proba([[1.0]], "kappa"), 0.5643300, atol=5e-8)
    exact = quad(lambda w: expit(w) ** 2 * expit(-w) * np.exp(-0.5 * w * w) / np.sqrt(2 * np.pi), -12, 12)[0]
    mean = quad(lambda w: expit(w) ** 3 * expit(-w) * np.exp(-0.5 * w * w) / np.sqrt(2 * np.pi), -12, 12)[0]
    np.testing.assert_allclose([np.log(exact), mean / exact], [-2.2700164, 0.5660049], atol=5e-8)


def test_the_general_laplace_agrees_with_any_gaussian_prior():
    x, y = table(25)
    prior, centre = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.3, -0.2])

    def joint(w, x, y):
        eta, away = x @ w, w - centre
        fit = y @ eta - jnp.logaddexp(0.0, eta).sum()
        return fit - 0.5 * away @ prior @ away + 0.5 * jnp.linalg.slogdet(prior / (2 * jnp.pi))[1]

    general = laplace(joint, np.zeros(2), args=(x, y.astype(float)))
    post = laplace_logistic(x, y, prior_precision=prior, prior_mean=centre)
    np.testing.assert_allclose(post.posterior.mean, general.mode, atol=1e-8)
    np.testing.assert_allclose(post.posterior.cov, general.gaussian.cov, rtol=1e-7)
    np.testing.assert_allclose(post.log_evidence, general.log_evidence.value, rtol=1e-9)


def test_evidence_chooses_the_prior_of_largest_evidence():
    x, y = table()
    best = laplace_logistic(x, y, prior_precision="evidence")

    def negative(log_alpha):
        return -float(laplace_logistic(x, y, prior_precision=float(np.exp(log_alpha))).log_evidence)

    found = minimize_scalar(negative, bracket=(-3, 0, 3), tol=1e-6)
    np.testing.assert_allclose(best.precision, np.exp(found.x), rtol=1e-3)
    np.testing.assert_allclose(best.log_evidence, -found.fun, rtol=1e-9)


def test_noise_is_shrunk_away_and_said_to_be():
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(60, 2)), np.tile([0, 1], 30)
    noise = fit_bayes_logistic(x, y)
    signal = fit_bayes_logistic(*table())
    assert float(noise.precision) > 10 * float(signal.precision)
    free = np.abs(fit_logistic(x, y).coefficients).max()
    assert np.abs(noise.coefficients).max() < 0.6 * free
    assert noise.edge == ("may say nothing" in noise.verdict.sentence)
    same = np.tile([[-1.0], [0.0], [1.0]], (6, 1))  # in every class the same rows
    for found in (
        fit_bayes_logistic(same, np.repeat([0, 1], 9)),
        fit_bayes_softmax(same, np.repeat([0, 1, 2], 6)),
    ):
        assert "may say nothing" in found.verdict.sentence
        assert "may say nothing" in repr(found)


def test_scales_and_shifts_of_columns_do_not_matter():
    x, y = table()
    plain, moved = fit_bayes_logistic(x, y), fit_bayes_logistic(x * [1e12, 1e-12] + [1e13, 1e-11], y)
    np.testing.assert_allclose(moved.log_evidence, plain.log_evidence, rtol=1e-8)
    np.testing.assert_allclose(
        moved.predict_proba(x[:5] * [1e12, 1e-12] + [1e13, 1e-11]), plain.predict_proba(x[:5]), rtol=1e-5
    )
    np.testing.assert_allclose(moved.deviations * [1e12, 1e-12], plain.deviations, rtol=1e-4)
    eta = x @ plain.coefficients + plain.intercept
    np.testing.assert_allclose(eta, plain.log_odds(x)[0], atol=1e-10)


def test_separated_classes_have_a_posterior():
    post = fit_bayes_logistic([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    p = post.predict_proba([[0.0], [1.5], [3.0]])
    assert p[0] < 0.45 < 0.55 < p[2]
    np.testing.assert_allclose(p[1], 0.5, atol=1e-6)
    assert post.status is Status.converged


def test_far_from_the_data_the_prediction_is_moderated():
    post = fit_bayes_logistic(*table())
    far = np.array([[30.0, 0.0], [0.0, 300.0]])
    plain = expit(post.log_odds(far)[0])
    assert (np.abs(post.predict_proba(far) - 0.5) < np.abs(plain - 0.5)).all()


@settings(max_examples=15)
@given(st.floats(-8, 8), st.floats(0.0, 8))
def test_the_bound_is_below_the_sigmoid_and_touches_it(a, xi):
    assert sigmoid_bound(a, xi) <= log_expit(a) + 1e-12
    np.testing.assert_allclose(
        [sigmoid_bound(xi, xi), sigmoid_bound(-xi, xi)], log_expit([xi, -xi]), atol=1e-12
    )


def test_variational_posterior_of_three_votes():
    post = variational_logistic(ONE, VOTES, intercept=None, prior_precision=1.0)
    xi = np.sqrt(float(post.posterior.cov[0, 0] + post.posterior.mean[0] ** 2))
    curvature = np.tanh(xi / 2) / (4 * xi)
    np.testing.assert_allclose(post.posterior.cov[0, 0], 1 / (1 + 6 * curvature), rtol=1e-5)
    np.testing.assert_allclose(post.posterior.mean[0], post.posterior.cov[0, 0] * 0.5, rtol=1e-9)

    def bounded(w):  # the integrand of the bound: the likelihood with each sigmoid replaced
        logs = 2 * sigmoid_bound(w, xi) + sigmoid_bound(-w, xi)
        return np.exp(logs - 0.5 * w * w) / np.sqrt(2 * np.pi)

    np.testing.assert_allclose(post.log_evidence, np.log(quad(bounded, -12, 12)[0]), atol=1e-9)
    assert float(post.log_evidence) < -2.2700164


def test_the_variational_bound_is_below_the_evidence_and_climbs_in_the_prior():
    x, y = table(30, 3)
    fixed = [variational_logistic(x, y, intercept=None, prior_precision=a) for a in (0.1, 1.0, 10.0)]

    def likelihood(b, a):
        return np.exp(log_expit((2 * y - 1) * (x @ [a, b])).sum() + 20.0)

    prior = multivariate_normal(np.zeros(2), np.eye(2))
    exact = dblquad(lambda b, a: likelihood(b, a) * prior.pdf([a, b]), -5, 7, -6, 6, epsabs=1e-10)[0]
    assert float(fixed[1].log_evidence) < np.log(exact) - 20.0 < float(fixed[1].log_evidence) + 0.5
    chosen = variational_logistic(x, y, intercept=None)
    assert all(float(chosen.log_evidence) >= float(one.log_evidence) - 1e-6 for one in fixed)
    assert chosen.status is Status.converged
    second = float((chosen.posterior.mean**2).sum() + jnp.trace(chosen.posterior.cov))
    np.testing.assert_allclose(chosen.precision, 2 / second, rtol=1e-3)


def test_draws_of_the_exact_posterior_agree_with_quadrature():
    x, y = table(20, 5)
    approximate, post = sample_logistic(x[:, :1], y, key=jr.key(3), prior_precision=1.0, num_draws=400)
    z = (x[:, 0] - np.asarray(approximate.centre)) / np.asarray(approximate.scale)
    grid = np.linspace(-6, 6, 241)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    eta = a[..., None] + b[..., None] * z
    logs = log_expit((2 * y - 1) * eta).sum(-1) - 0.5 * (a**2 / 100 + b**2)
    w = np.exp(logs - logs.max())
    mean = np.array([(w * a).sum(), (w * b).sum()]) / w.sum()
    deviation = np.sqrt(np.array([(w * a * a).sum(), (w * b * b).sum()]) / w.sum() - mean**2)
    drawn = np.asarray(post.draws).reshape(-1, 2)
    assert (np.abs(drawn.mean(0) - mean) < 5 * deviation / np.sqrt(200)).all()
    point = jnp.array([0.2, -0.1])
    args = (np.column_stack([np.ones(20), z]), y.astype(float), np.ones(20), np.array([0.01, 1.0]))
    value = log_expit((2 * y - 1) * (0.2 - 0.1 * z)).sum() - 0.5 * (0.04 * 0.01 + 0.01)
    np.testing.assert_allclose(log_joint(point, *map(jnp.asarray, args)), value, rtol=1e-10)


def test_two_classes_by_softmax_are_the_binary_posterior():
    # one weight V = (w, -w)/sqrt 2 of precision 2 alpha is one coefficient of precision alpha
    x, y = table(40)
    centred = x - x.mean(0)
    pair = fit_bayes_softmax(centred, y, intercept=False, prior_precision=2.0)
    single = fit_bayes_logistic(centred, y, intercept=False, prior_precision=1.0)
    np.testing.assert_allclose(pair.log_evidence, single.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(pair.predict_proba(x)[:, 1], single.predict_proba(x), atol=2e-3)


def test_three_classes_are_moderated_and_chosen_by_evidence():
    generator = np.random.default_rng(4)
    x = generator.normal(size=(90, 2))
    y = (np.column_stack([x, np.zeros(90)]) * 2 + generator.gumbel(size=(90, 3))).argmax(1)
    post = fit_bayes_softmax(x, y)
    others = [fit_bayes_softmax(x, y, prior_precision=float(post.precision) * f) for f in (0.7, 1.4)]
    assert all(float(post.log_evidence) > float(other.log_evidence) for other in others)
    probs = post.predict_proba(x * 20)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-12)
    mean, root = post.logits(x[:2])
    np.testing.assert_allclose(mean.sum(1), 0, atol=1e-10)
    draws = np.random.default_rng(0).normal(size=(20_000, 2))
    sampled = np.exp(mean[0] + draws @ root[0].T)
    sampled = (sampled / sampled.sum(1, keepdims=True)).mean(0)
    np.testing.assert_allclose(post.predict_proba(x[:1])[0], sampled, atol=5 * 0.5 / np.sqrt(20_000))


def test_bad_priors_are_named():
    with pytest.raises(ValueError, match=r"`prior_precision` must be positive definite"):
        laplace_logistic(ONE, VOTES, prior_precision=-1.0)
    with pytest.raises(ValueError, match=r"`prior_precision` must be 'evidence' or a number; got 'best'"):
        fit_bayes_logistic(*table(), prior_precision="best")
    with pytest.raises(ValueError, match=r"`prior_mean` must be of shape \(1,\)"):
        laplace_logistic(ONE, VOTES, prior_mean=[0.0, 1.0])
    with pytest.raises(ValueError, match=r"`y` must be 0 or 1; got 3 at index 2"):
        laplace_logistic(ONE, [0, 1, 3])
