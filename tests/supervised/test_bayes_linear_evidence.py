"""Type-II maximum likelihood, effective parameters, full Bayes and variational bounds by quadrature."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import gamma, halfcauchy, multivariate_normal
from sklearn.linear_model import BayesianRidge

from tractable.core.iterate import Status
from tractable.distributions.positive import Gamma
from tractable.supervised.bayes_linear.evidence import (
    evidence_fixed_point,
    maximise_evidence,
    profile_evidence,
)
from tractable.supervised.bayes_linear.full import HalfCauchyScales, full_bayes_linear, sample_precisions
from tractable.supervised.bayes_linear.noise import conjugate_linear, variational_noise_linear
from tractable.supervised.bayes_linear.posterior import bayesian_linear
from tractable.supervised.bayes_linear.spectrum import spectrum_of
from tractable.supervised.bayes_linear.statistics import RegressionStatistics, regression_statistics
from tractable.supervised.bayes_linear.variational import variational_linear

DESIGN = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
ROWS = regression_statistics(DESIGN, [1.0, 2.0, 3.0])
NOISY = regression_statistics(DESIGN, [1.1, 1.9, 3.2])
RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(40, 3))
Y = X @ [1.0, -2.0, 0.0] + 3.0 + RANDOM.normal(size=40)
DATA = regression_statistics(X, Y)


@pytest.mark.parametrize("method", ["profile", "fixed-point", "gradient"])
def test_worked_example_of_the_maximum(method):
    found = maximise_evidence(NOISY, method=method)
    assert found.status is Status.converged
    np.testing.assert_allclose(float(found.alpha), 0.9248952, atol=5e-8)
    np.testing.assert_allclose(float(found.noise_precision), 24.8655237, atol=5e-8)
    np.testing.assert_allclose(float(found.effective_parameters), 1.9523200, atol=5e-8)
    np.testing.assert_allclose(found.model.mean, [1.0050269, 1.0491789], atol=5e-8)
    assert "At a maximum" in repr(found)


def test_effective_parameters_worked_example():
    spectrum = spectrum_of(ROWS)
    np.testing.assert_allclose(np.sort(2 * np.asarray(spectrum.squares)), [1.6754447, 14.3245553], atol=5e-8)
    np.testing.assert_allclose(spectrum.effective_parameters(1.0, 2.0), 1.5609756, atol=5e-8)
    lam = 2 * np.asarray(spectrum.squares)
    np.testing.assert_allclose(spectrum.shrinkage(1.0, 2.0), lam / (1 + lam), rtol=1e-13)
    limits = [float(spectrum.effective_parameters(alpha, 2.0)) for alpha in (1e-12, 1e12)]
    np.testing.assert_allclose(limits, [2.0, 0.0], atol=1e-10)


def test_evidence_from_the_spectrum_is_the_dense_one_and_its_gradient_the_closed_form():
    spectrum = spectrum_of(ROWS)
    np.testing.assert_allclose(spectrum.log_evidence(1.0, 2.0), -4.5007101, atol=5e-8)
    spectrum = spectrum_of(DATA)
    alpha, beta = 0.7, 1.9
    cov = np.eye(40) / beta + X @ X.T / alpha
    dense = multivariate_normal.logpdf(Y, np.zeros(40), cov)
    np.testing.assert_allclose(spectrum.log_evidence(alpha, beta), dense, rtol=1e-12)
    slopes = jax.grad(spectrum.log_evidence, (0, 1))(alpha, beta)
    precision = alpha * np.eye(3) + beta * X.T @ X
    mean = beta * np.linalg.solve(precision, X.T @ Y)
    eigenvalues = np.linalg.eigvalsh(beta * X.T @ X)
    gamma_ = (eigenvalues / (alpha + eigenvalues)).sum()
    by_alpha = 3 / (2 * alpha) - 0.5 * mean @ mean - 0.5 * (1 / (alpha + eigenvalues)).sum()
    by_beta = 40 / (2 * beta) - 0.5 * ((Y - X @ mean) ** 2).sum() - gamma_ / (2 * beta)
    np.testing.assert_allclose(slopes, [by_alpha, by_beta], rtol=1e-10)
    np.testing.assert_allclose(spectrum.weights(alpha, beta), mean, rtol=1e-12)


def test_every_method_finds_the_maximum_that_a_search_finds():
    spectrum = spectrum_of(DATA, intercept=True, standardise=True)

    def negative(logs):
        return -float(spectrum.log_evidence(*np.exp(logs)))

    searched = minimize(negative, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13})
    for method in ("profile", "fixed-point", "gradient"):
        found = maximise_evidence(DATA, intercept=True, standardise=True, method=method)
        np.testing.assert_allclose(float(found.log_evidence), -searched.fun, rtol=1e-12)
        np.testing.assert_allclose(
            np.log([float(found.alpha), float(found.noise_precision)]), searched.x, atol=1e-6
        )


def test_profile_finds_the_higher_of_two_maxima():
    # a strong direction with a small effect, and a weak one with a large effect
    y = np.concatenate([[0.3, 3.0], np.full(6, 0.1)])
    design = np.zeros((8, 2))
    design[0, 0], design[1, 1] = 1e3, 1e-2
    spectrum = spectrum_of(regression_statistics(design, y))
    alpha, beta = profile_evidence(spectrum)
    logs = np.stack(np.meshgrid(np.linspace(-25, 30, 221), np.linspace(-8, 12, 161)), -1).reshape(-1, 2)
    values = jax.vmap(lambda log: spectrum.log_evidence(jnp.exp(log[0]), jnp.exp(log[1])))(jnp.asarray(logs))
    assert float(spectrum.log_evidence(alpha, beta)) >= float(values.max())


def scikit_learn(design, y):
    peer = BayesianRidge(
        fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-14, max_iter=10_000
    )
    return peer.fit(design, y)


@pytest.mark.parametrize("scale", [[1.0, 1.0, 1.0], [1.0, 3.0, 0.5]])
def test_maximum_agrees_with_scikit_learn(scale):
    peer = scikit_learn(X * scale, Y)
    found = maximise_evidence(regression_statistics(X * scale, Y))
    np.testing.assert_allclose(float(found.alpha), peer.lambda_, rtol=1e-6)
    np.testing.assert_allclose(float(found.noise_precision), peer.alpha_, rtol=1e-6)
    np.testing.assert_allclose(found.model.mean, peer.coef_, rtol=1e-6)
    np.testing.assert_allclose(found.model.cov, peer.sigma_, rtol=1e-6, atol=1e-12)


def test_profile_is_global_where_the_fixed_point_stops_at_a_lower_maximum():
    rows = regression_statistics(X * [1.0, 30.0, 0.2], Y)
    peer = scikit_learn(X * [1.0, 30.0, 0.2], Y)
    local = maximise_evidence(rows, method="fixed-point")
    np.testing.assert_allclose(float(local.alpha), peer.lambda_, rtol=1e-6)
    assert float(maximise_evidence(rows).log_evidence) > float(local.log_evidence) + 0.3


def test_flat_intercept_is_the_regression_of_contrasts():
    # orthonormal contrasts remove any level and one row: the exact way to integrate the intercept out
    contrasts = np.linalg.qr(np.column_stack([np.ones(40), np.eye(40)[:, 1:]]))[0][:, 1:].T
    peer = scikit_learn(contrasts @ X, contrasts @ Y)
    found = maximise_evidence(DATA, intercept=True)
    np.testing.assert_allclose(found.model.mean, peer.coef_, rtol=1e-6)
    np.testing.assert_allclose(float(found.noise_precision), peer.alpha_, rtol=1e-6)


def test_large_data_regime():
    random = np.random.default_rng(2)
    rows = random.normal(size=(50_000, 4))
    spectrum = spectrum_of(
        regression_statistics(rows, rows @ [1.0, 2.0, -1.0, 0.5] + random.normal(size=50_000))
    )
    alpha, beta = profile_evidence(spectrum)
    np.testing.assert_allclose(spectrum.large_data(), [alpha, beta], rtol=2e-4)
    np.testing.assert_allclose(spectrum.effective_parameters(alpha, beta), 4, rtol=1e-4)


def test_units_do_not_matter_when_standardised():
    scale = np.array([1e12, 1.0, 1e-12])
    plain = maximise_evidence(DATA, intercept=True, standardise=True)
    scaled = maximise_evidence(regression_statistics(X * scale, 1e6 * Y), intercept=True, standardise=True)
    np.testing.assert_allclose(np.asarray(scaled.model.mean) * scale / 1e6, plain.model.mean, rtol=1e-9)
    np.testing.assert_allclose(
        float(scaled.effective_parameters), float(plain.effective_parameters), rtol=1e-9
    )


def test_exact_data_are_interpolated_and_said_so():
    found = maximise_evidence(
        regression_statistics(X, X @ [1.0, 2.0, 3.0] + 1), intercept=True, standardise=True
    )
    np.testing.assert_allclose(found.model.mean, [1.0, 2.0, 3.0], rtol=1e-12)
    assert "interpolated" in repr(found)


def test_noise_alone_leaves_no_weights():
    y = np.tile([1.0, -1.0], 20)
    x = np.repeat(np.tile([1.0, -1.0], 10), 2)
    found = maximise_evidence(regression_statistics(x, y), intercept=True)
    assert float(found.effective_parameters) < 1e-6
    assert "say nothing" in repr(found)
    np.testing.assert_allclose(1 / float(found.noise_precision), 40 / 39, rtol=1e-6)


def test_constant_targets_and_columns():
    for y in (np.full(40, 7.0), np.zeros(40)):
        found = maximise_evidence(regression_statistics(X, y), intercept=True, standardise=True)
        np.testing.assert_allclose(found.model.predict(X), y, atol=1e-14)
    flat = maximise_evidence(regression_statistics(np.ones((40, 2)), Y), intercept=True, standardise=True)
    np.testing.assert_allclose(flat.model.predict(np.ones((3, 2))), np.full(3, Y.mean()), rtol=1e-13)
    np.testing.assert_allclose(1 / float(flat.noise_precision), Y.var(ddof=1), rtol=1e-12)


def test_one_row_is_an_error_or_right():
    one = regression_statistics(X[:1], Y[:1])
    with pytest.raises(ValueError, match="n_samples = 1"):
        maximise_evidence(one, intercept=True)
    with pytest.raises(ValueError, match="of more rows"):
        maximise_evidence(RegressionStatistics.none(3))
    found = maximise_evidence(one)
    best = multivariate_normal.logpdf(Y[0], 0.0, Y[0] ** 2)  # only the variance of the one target matters
    np.testing.assert_allclose(float(found.log_evidence), best, rtol=1e-9)


def test_fixed_point_that_runs_out_says_so():
    run = evidence_fixed_point(spectrum_of(DATA), (1e6, 1.0), max_steps=2)
    assert run.status is Status.exhausted
    stopped = maximise_evidence(DATA, method="fixed-point", start=(1e6, 1.0), max_steps=2)
    assert "max_steps" in repr(stopped)


def test_unknown_method_is_refused():
    with pytest.raises(ValueError, match="`method` must be one of"):
        maximise_evidence(DATA, method="guess")


def test_variational_worked_example_is_below_the_evidence():
    found = variational_linear(ROWS, 2.0, Gamma(1.0, 1.0))
    q = found.prior_precision
    np.testing.assert_allclose(float(q.mean), 0.9573451, atol=5e-8)
    np.testing.assert_allclose([float(q.concentration), float(q.rate)], [2.0, 2.0891109], atol=5e-8)
    np.testing.assert_allclose(found.model.mean, [0.8820429, 0.9772205], atol=5e-8)
    np.testing.assert_allclose(found.model.cov, [[0.2723402, -0.1491275], [-0.1491275, 0.1729219]], atol=5e-8)
    np.testing.assert_allclose(float(found.elbo), -4.8852519, atol=5e-8)
    spectrum = spectrum_of(ROWS)
    exact = quad(lambda a: np.exp(float(spectrum.log_evidence(a, 2.0)) - a), 0, np.inf, epsabs=1e-12)[0]
    np.testing.assert_allclose(np.log(exact), -4.8410409, atol=5e-8)
    assert float(found.elbo) <= np.log(exact)
    assert "a lower bound" in repr(found)


def test_variational_bound_compares_models():
    # the second column is noise: the bound prefers the model without it, like the evidence
    x = RANDOM.normal(size=(30, 2))
    y = 2 * x[:, 0] + 0.5 * RANDOM.normal(size=30)
    small, large = (
        variational_linear(regression_statistics(x[:, :k], y), 4.0, Gamma(1.0, 1.0)) for k in (1, 2)
    )
    assert float(small.elbo) > float(large.elbo)


def test_full_bayes_is_the_quadrature_of_the_hyperposterior():
    small = regression_statistics(X[:8], Y[:8])
    found = full_bayes_linear(small, intercept=True)
    spectrum, prior = spectrum_of(small, intercept=True, standardise=True), HalfCauchyScales(Y[:8].std())
    grid_a, grid_b = np.linspace(-30, 25, 331), np.linspace(-9, 9, 181)

    @jax.jit
    def surface(a, b):
        each = jax.vmap(
            jax.vmap(lambda u, v: spectrum.log_evidence(jnp.exp(u), jnp.exp(v)), (None, 0)), (0, None)
        )
        return each(a, b)

    heights = np.asarray(surface(jnp.asarray(grid_a), jnp.asarray(grid_b)))
    alpha, beta = np.exp(grid_a)[:, None], np.exp(grid_b)[None, :]
    heights = heights + prior(alpha, beta) + grid_a[:, None] + grid_b[None, :]
    mass = np.exp(heights)
    cell = (grid_a[1] - grid_a[0]) * (grid_b[1] - grid_b[0])
    fine = full_bayes_linear(small, num_ratios=300, num_noises=101)
    np.testing.assert_allclose(float(fine.log_evidence), np.log(mass.sum() * cell), atol=1e-5)
    np.testing.assert_allclose(float(found.log_evidence), float(fine.log_evidence), atol=1e-4)
    probs = mass / mass.sum()
    np.testing.assert_allclose(float(found.noise_precision), (probs * beta).sum(), rtol=1e-4)
    shrink = np.asarray(spectrum.squares)
    gammas = (beta[..., None] * shrink / (alpha[..., None] + beta[..., None] * shrink)).sum(-1)
    np.testing.assert_allclose(float(found.effective_parameters), (probs * gammas).sum(), rtol=1e-4)
    new = X[20:22]
    dist, split = found.predict_dist(new), found.split(new)
    np.testing.assert_allclose(dist.mean, found.predict(new), rtol=1e-12)
    np.testing.assert_allclose(dist.variance, split.total, rtol=1e-10)
    fitted = maximise_evidence(small, intercept=True, standardise=True).model
    assert (
        np.asarray(split.total) > np.asarray(fitted.split(new).total)
    ).all()  # precisions are uncertain too
    assert "grid of 544" in repr(found)


def test_full_bayes_weights_have_the_mixture_moments():
    found = full_bayes_linear(regression_statistics(X[:8], Y[:8]), intercept=False, standardise=False)
    probs, means, seconds = np.asarray(found.probs).reshape(-1), [], []
    for a, b in zip(np.asarray(found.alphas).reshape(-1), np.asarray(found.betas).reshape(-1)):
        precision = a * np.eye(3) + b * X[:8].T @ X[:8]
        mean = b * np.linalg.solve(precision, X[:8].T @ Y[:8])
        means.append(mean)
        seconds.append(np.linalg.inv(precision) + np.outer(mean, mean))
    mean = probs @ np.array(means)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    cov = np.einsum("k,kij->ij", probs, seconds) - np.outer(mean, mean)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-8, atol=1e-12)


def test_half_cauchy_density_is_that_of_the_standard_deviations():
    prior, alpha, beta = HalfCauchyScales(2.0), 0.3, 5.0
    exact = [halfcauchy.logpdf(p**-0.5, scale=2.0) + np.log(0.5 * p**-1.5) for p in (alpha, beta)]
    np.testing.assert_allclose(float(prior(alpha, beta)), sum(exact), rtol=1e-13)
    traced = eqx.filter_jit(prior)(jnp.asarray(alpha), jnp.asarray(beta))
    np.testing.assert_allclose(float(traced), sum(exact), rtol=1e-13)


def test_chains_draw_from_the_grid_posterior():
    found = full_bayes_linear(DATA)
    post = sample_precisions(DATA, jr.key(0), num_draws=1000, num_chains=4, progress=False)
    table = post.summary()
    for name, values in (("alpha", found.alphas), ("beta", found.betas)):
        probs = np.asarray(found.probs)
        exact = (probs * np.log(np.asarray(values))).sum()
        draws = np.log(np.asarray(post.draws[name]))
        error = draws.std() / np.sqrt(float(table.loc[name, "ess_bulk"]))
        assert abs(draws.mean() - exact) < 5 * error


def test_conjugate_evidence_is_the_integral_over_the_noise():
    found = conjugate_linear(DATA, prior_rows=2.0, noise_prior=(1.5, 0.7), intercept=False, standardise=False)
    unit = np.sqrt((Y**2).mean())

    def density(tau):  # of the target in units of its root mean square
        log = float(bayesian_linear(X, Y / unit, 2.0 * tau, tau).log_evidence)
        return np.exp(log + 45) * gamma.pdf(tau, 1.5, scale=1 / 0.7)

    exact = np.log(quad(density, 0, 30, epsabs=1e-14, limit=200)[0]) - 45 - 40 * np.log(unit)
    np.testing.assert_allclose(float(found.log_evidence), exact, rtol=1e-7)
    assert "exact" in repr(found)


def test_conjugate_with_intercept_is_the_limit_of_a_wide_one():
    found = conjugate_linear(DATA, prior_rows=2.0, noise_prior=(1.5, 0.7))
    z = (X - X.mean(0)) / X.std(0)
    t = (Y - Y.mean()) / Y.std()
    precision = z.T @ z + 2 * np.eye(3)
    w = np.linalg.solve(precision, z.T @ t)
    a, b = 1.5 + 39 / 2, 0.7 + 0.5 * (t @ t - w @ precision @ w)
    new = np.array([0.3, -0.5, 1.0])
    leverage = new @ np.linalg.solve(precision, new) + 1 / 40
    predicted = found.predict_dist((new * X.std(0) + X.mean(0))[None])
    np.testing.assert_allclose(predicted.degrees, 2 * a)
    np.testing.assert_allclose(predicted.loc, [Y.mean() + Y.std() * new @ w], rtol=1e-11)
    np.testing.assert_allclose(predicted.scale, [Y.std() * np.sqrt(b / a * (1 + leverage))], rtol=1e-10)
    np.testing.assert_allclose(found.mean, w * Y.std() / X.std(0), rtol=1e-10)
    back = np.diag(Y.std() / X.std(0))
    np.testing.assert_allclose(
        found.cov, b / (a - 1) * back @ np.linalg.inv(precision) @ back, rtol=1e-9, atol=1e-12
    )
    split = found.split((new * X.std(0) + X.mean(0))[None])
    np.testing.assert_allclose(split.total, predicted.variance, rtol=1e-12)
    np.testing.assert_allclose(split.epistemic / split.aleatoric, [leverage], rtol=1e-9)


def test_variational_noise_agrees_with_the_evidence_fit_on_many_rows():
    found, run = variational_noise_linear(DATA)
    assert run.status is Status.converged
    fitted = maximise_evidence(DATA, intercept=True, standardise=True)
    np.testing.assert_allclose(found.mean, fitted.model.mean, atol=0.02)
    np.testing.assert_allclose(float(found.noise_precision), float(fitted.noise_precision), rtol=0.1)
    twice, _ = variational_noise_linear(regression_statistics(np.repeat(X, 2, 0), np.repeat(Y, 2)))
    weighted, _ = variational_noise_linear(regression_statistics(X, Y, np.full(40, 2.0)))
    np.testing.assert_allclose(twice.mean, weighted.mean, rtol=1e-8)
    np.testing.assert_allclose(float(twice.log_evidence), float(weighted.log_evidence), rtol=1e-8)
    assert "a lower bound" in repr(found)
