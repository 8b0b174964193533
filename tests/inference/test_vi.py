"""Variational inference: exact in conjugate models, judged elsewhere, resumable, and refused by name."""

import json

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax import monitoring
from scipy.stats import multivariate_normal

import tractable.inference.variational.ascent as ascent_module
from tractable.bijections.coupling import Coupling
from tractable.core.iterate import Status
from tractable.core.module import Module, field
from tractable.core.support import positive
from tractable.core.types import Array, Float
from tractable.inference.target import FlatTarget
from tractable.inference.variational.ascent import moment_matched, natural_step
from tractable.inference.variational.families import Flow, FullRank, MeanField, Structured
from tractable.inference.variational.surrogates import surrogate
from tractable.inference.variational.variance_reduction import Factors
from tractable.inference.variational.vi import vi
from tractable.inference.weighted.weights import weighted_mean
from tractable.optim.schedules import PowerLaw, check_schedule

RANDOM = np.random.default_rng(0)
DESIGN = RANDOM.normal(size=(40, 3))
TARGETS = DESIGN @ [1.0, -0.5, 0.3] + 0.5 * RANDOM.normal(size=40)


def log_likelihood(w, x, y):
    return (-0.5 * ((y - x @ w) / 0.5) ** 2 - jnp.log(0.5) - 0.5 * jnp.log(2 * jnp.pi)).sum()


def log_prior(w):
    return (-0.5 * w**2 - 0.5 * jnp.log(2 * jnp.pi)).sum()


def exact():
    """Mean, covariance and log-evidence of the regression, by dense algebra."""
    precision = DESIGN.T @ DESIGN / 0.25 + np.eye(3)
    cov = np.linalg.inv(precision)
    marginal = DESIGN @ DESIGN.T + 0.25 * np.eye(40)
    quadratic = TARGETS @ np.linalg.solve(marginal, TARGETS)
    evidence = -0.5 * (quadratic + np.linalg.slogdet(marginal)[1] + 40 * np.log(2 * np.pi))
    return cov @ DESIGN.T @ TARGETS / 0.25, cov, evidence


def regression(**options):
    options = {"key": jr.key(0), "args": (DESIGN, TARGETS), "log_prior": log_prior} | options
    return vi(log_likelihood, jnp.zeros(3), **options)


@pytest.fixture(scope="module")
def full_rank():
    return regression()


def test_full_rank_recovers_the_exact_posterior_and_evidence(full_rank):
    mean, cov, evidence = exact()
    assert full_rank.status is Status.converged
    sd = np.sqrt(np.diag(cov))
    assert np.abs((np.asarray(full_rank.q.mean) - mean) / sd).max() < 0.02
    scale = np.outer(sd, sd)
    np.testing.assert_allclose(np.asarray(full_rank.q.cov) / scale, cov / scale, atol=0.03)
    np.testing.assert_allclose(float(full_rank.elbo), evidence, atol=0.005)
    assert float(full_rank.elbo) <= evidence + 5 * float(full_rank.elbo_standard_error)
    np.testing.assert_allclose(float(full_rank.log_evidence.value), evidence, atol=0.005)
    assert float(full_rank.k_hat) < 0.5
    assert "k_hat" in repr(full_rank)
    assert "Converged" in repr(full_rank)


def test_fixed_draws_are_exact_for_a_gaussian_posterior():
    mean, cov, evidence = exact()
    post = regression(method="lbfgs", tol=1e-4)
    assert post.status is Status.converged
    np.testing.assert_allclose(np.asarray(post.q.mean), mean, atol=1e-6)
    np.testing.assert_allclose(np.asarray(post.q.cov), cov, atol=1e-7)
    np.testing.assert_allclose(float(post.elbo), evidence, atol=1e-6)
    draws = np.asarray(post.sample(jr.key(3), (2000,)))
    z = (draws.mean(0) - mean) / np.sqrt(np.diag(cov) / 2000)
    assert np.abs(z).max() < 5
    at_mean = float(post.q.log_prob(post.q.mean))
    np.testing.assert_allclose(float(post.log_prob(jnp.asarray(mean))), at_mean, rtol=1e-9)


def test_mean_field_has_the_inverse_precisions_and_the_known_gap():
    mean, cov, evidence = exact()
    post = regression(family="mean_field", method="lbfgs", tol=1e-4)
    variances = 1 / np.diag(np.linalg.inv(cov))
    np.testing.assert_allclose(np.asarray(post.q.scale) ** 2, variances, rtol=1e-4)
    np.testing.assert_allclose(np.asarray(post.q.mean), mean, atol=1e-4)
    gap = 0.5 * (np.linalg.slogdet(cov)[1] - np.log(variances).sum())
    error = float(post.elbo_standard_error)
    assert abs(float(post.elbo) - (evidence - gap)) < 5 * error


def test_natural_gradient_reaches_the_posterior():
    mean, cov, evidence = exact()
    post = regression(method="natural", num_draws=4)
    np.testing.assert_allclose(float(post.elbo), evidence, atol=0.005)
    assert np.abs((np.asarray(post.q.mean) - mean) / np.sqrt(np.diag(cov))).max() < 0.05


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_one_whole_natural_step_on_a_quadratic_is_newtons_step_in_the_mean(kind):
    precision = np.array([[2.0, 0.4], [0.4, 1.0]])
    target = lambda x: -0.5 * (x - 1.0) @ jnp.asarray(precision) @ (x - 1.0)  # noqa: E731
    noise = moment_matched(jr.key(0), 50, 2)
    if kind == "full":
        start = FullRank(np.zeros(2), np.linalg.cholesky(np.linalg.inv(precision)))
        moved, _ = natural_step(target, start, noise, jnp.asarray(1.0))
        np.testing.assert_allclose(np.asarray(moved.loc), 1.0, rtol=1e-10)
        np.testing.assert_allclose(np.asarray(moved.cov), np.linalg.inv(precision), rtol=1e-10)
    else:
        start = MeanField(np.zeros(2), np.diag(precision) ** -0.5)
        moved, _ = natural_step(target, start, noise, jnp.asarray(1.0))
        np.testing.assert_allclose(np.asarray(moved.scale), np.diag(precision) ** -0.5, rtol=1e-10)
        expected = precision @ np.ones(2) / np.diag(precision)
        np.testing.assert_allclose(np.asarray(moved.loc), expected, rtol=1e-10)


def test_score_gradient_needs_no_derivative():
    mean, cov, evidence = exact()
    post = vi(
        lambda w, x, y: jax.lax.stop_gradient(log_likelihood(w, x, y)),
        jnp.zeros(3),
        key=jr.key(1),
        args=(DESIGN, TARGETS),
        log_prior=lambda w: jax.lax.stop_gradient(log_prior(w)),
        family="mean_field",
        gradient="score",
        num_draws=32,
    )
    gap = 0.5 * (np.linalg.slogdet(cov)[1] + np.log(np.diag(np.linalg.inv(cov))).sum())
    np.testing.assert_allclose(float(post.elbo), evidence - gap, atol=0.05)
    assert np.abs((np.asarray(post.q.mean) - mean) / np.sqrt(np.diag(cov))).max() < 0.2


@pytest.fixture(scope="module")
def large():
    x = RANDOM.normal(size=(2000, 3))
    return x, x @ [1.0, -0.5, 0.3] + 0.5 * RANDOM.normal(size=2000)


def test_mini_batches_count_for_all_rows(large):
    x, y = large
    post = regression(args=large, batch=100, family="mean_field", num_draws=2)
    precision = x.T @ x / 0.25 + np.eye(3)
    mean = np.linalg.solve(precision, x.T @ y / 0.25)
    sd = np.diag(precision) ** -0.5
    np.testing.assert_allclose(np.asarray(post.q.scale), sd, rtol=0.15)
    assert np.abs((np.asarray(post.q.mean) - mean) / sd).max() < 1.0
    assert post.status.ok


class Model(Module):
    rate: Float[Array, ""] = field(support=positive)
    shift: Float[Array, ""]


def gamma_like(model):
    """rate ~ Gamma(3, 2), unnormalised by its constant; shift ~ N(1, 0.5)."""
    return 2 * jnp.log(model.rate) - 2 * model.rate - 0.5 * ((model.shift - 1.0) / 0.5) ** 2


def test_constrained_modules_come_back_constrained_and_judged():
    post = vi(gamma_like, Model(1.0, jnp.asarray(0.0)), key=jr.key(2), method="lbfgs")
    draws = post.sample(jr.key(4), (5, 200))
    assert isinstance(draws, Model)
    assert draws.rate.shape == (5, 200)
    assert (np.asarray(draws.rate) > 0).all()
    exact_evidence = np.log(2 / 8) + np.log(0.5) + 0.5 * np.log(2 * np.pi)  # Gamma(3) / 2^3
    estimate = post.log_evidence
    assert abs(float(estimate.value) - exact_evidence) < 5 * float(estimate.standard_error) + 1e-3
    assert float(post.elbo) < exact_evidence
    corrected = post.resample(jr.key(5), 2000)
    assert abs(np.asarray(corrected.rate).mean() - 1.5) < 5 * np.sqrt(0.75 / 1000)


def banana(x):
    """x_0 ~ N(0, 4), x_1 | x_0 ~ N(-x_0^2 / 2, 1), without the constants: the evidence is log(2 pi 2)."""
    return -0.125 * x[0] ** 2 - 0.5 * (x[1] + 0.5 * x[0] ** 2) ** 2


def test_a_flow_bends_where_a_gaussian_cannot():
    bend = Coupling.random(jr.key(0), [True, False], width=8, depth=1)
    flow = vi(banana, jnp.zeros(2), key=jr.key(1), family=Flow(np.zeros(2), np.ones(2), bend), max_steps=6000)
    evidence = np.log(4 * np.pi)
    assert evidence - 0.15 < float(flow.elbo) < evidence + 5 * float(flow.elbo_standard_error)
    # the best Gaussian: E[-x_0^2/8 - (x_1 + x_0^2/2)^2/2] + H over mean (0, c) and any covariance
    grid = [
        -0.125 * v - 0.5 * (w + 0.5 * v**2) + 0.5 * np.log(v * w) + 1 + np.log(2 * np.pi)
        for v in np.linspace(0.05, 4, 400)
        for w in np.linspace(0.2, 2, 100)
    ]
    assert float(flow.elbo) > max(grid) + 0.2


def hierarchy(z, y, s):
    tau = jnp.exp(z["log_tau"])
    theta = z["mu"] + tau * z["raw"]
    lp = -0.5 * (z["raw"] ** 2).sum() - 0.5 * (z["mu"] / 5) ** 2
    lp = lp - jnp.log1p((tau / 5) ** 2) + z["log_tau"]
    return lp - 0.5 * (((y - theta) / s) ** 2).sum()


def test_eight_schools_corrected_by_weights_meets_the_reference(oracles):
    path = oracles / "posteriordb" / "eight_schools-eight_schools_noncentered.json"
    stored = json.loads(path.read_text())
    y, s = (np.asarray(stored["data"][name], float) for name in ("y", "sigma"))
    start = {"log_tau": 0.0, "mu": 0.0, "raw": jnp.zeros(8)}
    is_global = [True, True] + [False] * 8
    family = Structured.around(np.zeros(10), is_global)
    post = vi(hierarchy, start, key=jr.key(6), args=(y, s), family=family, method="lbfgs", num_eval=4000)
    assert float(post.k_hat) < 0.7
    values = {"mu": np.asarray(post.draws[:, 1]), "tau": np.exp(np.asarray(post.draws[:, 0]))}
    for name, value in values.items():
        reference = stored["reference"][name]
        found = weighted_mean(value, post.log_weights)
        error = np.hypot(float(found.standard_error), reference["mcse"])
        assert abs(float(found.value) - reference["mean"]) < 5 * error, name


def test_a_killed_run_resumes_bit_for_bit(tmp_path, monkeypatch, full_rank):
    path = tmp_path / "climb.safetensors"
    real, calls = ascent_module.run_in_blocks, []

    def stop_after(*arguments, judge, **options):
        def interrupting(state, values):
            calls.append(1)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return judge(state, values)

        return real(*arguments, judge=interrupting, **options)

    monkeypatch.setattr(ascent_module, "run_in_blocks", stop_after)
    partial = regression(checkpoint=path)
    assert partial.status is Status.interrupted
    assert int(partial.num_steps) == 300
    assert np.isfinite(float(partial.elbo))
    monkeypatch.setattr(ascent_module, "run_in_blocks", real)
    resumed = regression(checkpoint=path)
    np.testing.assert_array_equal(np.asarray(resumed.trace), np.asarray(full_rank.trace))
    np.testing.assert_array_equal(np.asarray(resumed.q.lower), np.asarray(full_rank.q.lower))


def test_new_data_of_the_same_shape_compile_nothing(full_rank):
    compiled = []
    monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
    )
    try:
        again = regression(key=jr.key(9), args=(DESIGN + 0.1, TARGETS - 0.2))
    finally:
        monitoring.clear_event_listeners()
    assert compiled == []
    assert np.abs(np.asarray(again.q.mean - full_rank.q.mean)).max() > 1e-4


def test_fixed_number_of_steps_is_completed_and_not_called_converged():
    post = regression(tol=None, max_steps=300, learning_rate=0.01, num_eval=100)
    assert post.status is Status.completed
    assert int(post.num_steps) == 300
    short = regression(max_steps=200)
    assert short.status is Status.exhausted


def test_densities_that_are_not_numbers_are_counted_and_reported():
    post = vi(
        lambda x: jnp.where(x > 0.5, jnp.nan, -0.5 * x**2).sum(), jnp.zeros(1), key=jr.key(0),
        family="mean_field", num_draws=1, tol=None, max_steps=200, num_eval=100,
    )  # fmt: skip
    assert int(post.refused) > 0
    assert "refused" in repr(post)
    assert np.isnan(float(post.k_hat))
    assert "Unknown" in post.verdict.sentence
    nowhere = vi(lambda x: jnp.nan * x.sum(), jnp.zeros(1), key=jr.key(0), family="mean_field", num_eval=100)
    assert nowhere.status is Status.not_finite


def test_bad_input_is_refused_by_name():
    quadratic = lambda x: -0.5 * (x**2).sum()  # noqa: E731
    with pytest.raises(ValueError, match="`log_density` must be a function that returns one number"):
        vi(lambda x: x, jnp.zeros(2), key=jr.key(0))
    with pytest.raises(ValueError, match="`method` must be one of 'adam', 'adagrad', 'sgd'"):
        vi(quadratic, jnp.zeros(2), key=jr.key(0), method="newton")
    with pytest.raises(ValueError, match="`log_prior` must be given with `batch`"):
        vi(log_likelihood, jnp.zeros(3), key=jr.key(0), args=(DESIGN, TARGETS), batch=10)
    with pytest.raises(ValueError, match="`args` must be as long as"):
        vi(
            log_likelihood,
            jnp.zeros(3),
            key=jr.key(0),
            args=(DESIGN, TARGETS[:5]),
            batch=3,
            log_prior=log_prior,
        )
    with pytest.raises(ValueError, match=r"`batch` must be a whole number from 1 to 40; got 50"):
        regression(batch=50)
    with pytest.raises(ValueError, match="`family` must be over 2 free numbers"):
        vi(quadratic, jnp.zeros(2), key=jr.key(0), family=MeanField(np.zeros(3), np.ones(3)))
    with pytest.raises(ValueError, match=r"`num_draws` must be above the length of the noise \(2\)"):
        vi(quadratic, jnp.zeros(2), key=jr.key(0), method="lbfgs", num_draws=2)
    with pytest.raises(ValueError, match=r"`learning_rate` must be positive, or a schedule; got -1\.0"):
        vi(quadratic, jnp.zeros(2), key=jr.key(0), learning_rate=-1.0)
    with pytest.raises(ValueError, match=r"`alpha` must be zero or positive; got -0\.5"):
        vi(quadratic, jnp.zeros(2), key=jr.key(0), alpha=-0.5)
    with pytest.raises(ValueError, match="`tol` must be positive"):
        vi(quadratic, jnp.zeros(2), key=jr.key(0), tol=0.0)
    with pytest.raises(ValueError, match="`start` must be a pytree with free numbers"):
        vi(quadratic, {}, key=jr.key(0))
    with pytest.raises(ValueError, match='`family` must be mean field or full rank with method="natural"'):
        vi(quadratic, jnp.zeros(2), key=jr.key(0), method="natural", family="low_rank")
    with pytest.raises(ValueError, match='`checkpoint` must be None with method="lbfgs"'):
        vi(quadratic, jnp.zeros(2), key=jr.key(0), method="lbfgs", checkpoint="here")


@pytest.mark.parametrize(
    ("method", "learning_rate"),
    [("sgd", PowerLaw(0.05, 0.6, 20.0)), ("adam", PowerLaw(0.5, 0.75, 10.0)), ("adagrad", None)],
)
def test_learning_rate_schedules_reach_the_exact_evidence(method, learning_rate):
    """Robbins and Monro with plain gradients and with Adam; and Adagrad, which schedules itself."""
    mean, cov, evidence = exact()
    if learning_rate is not None:
        assert check_schedule(learning_rate).robbins_monro
    post = regression(method=method, learning_rate=learning_rate, max_steps=20_000)
    assert post.status is Status.converged
    np.testing.assert_allclose(float(post.elbo), evidence, atol=0.02)
    assert np.abs((np.asarray(post.q.mean) - mean) / np.sqrt(np.diag(cov))).max() < 0.1


def test_schedules_are_resumed_where_they_stopped(tmp_path):
    options = {"method": "sgd", "learning_rate": PowerLaw(0.05, 0.6, 20.0), "tol": None}
    whole = regression(max_steps=400, **options)
    regression(max_steps=400, checkpoint=tmp_path / "climb", **options)
    again = regression(max_steps=400, checkpoint=tmp_path / "climb", **options)
    np.testing.assert_array_equal(again.q.mean, whole.q.mean)


CHAIN = Factors(
    [((0,), lambda a: -0.5 * a**2 - 0.5 * jnp.log(2 * jnp.pi))]
    + [((i, i + 1), lambda a, b: -0.5 * (b - a) ** 2 - 0.5 * jnp.log(2 * jnp.pi)) for i in range(4)]
    + [((i,), lambda a: -2.0 * (a - 1.0) ** 2 + 0.5 * jnp.log(2 / jnp.pi)) for i in range(5)]
)


def chain_evidence():
    """A random walk of five steps seen with noise of variance 1/4: log N(1; 0, C + I/4), and the best
    mean-field bound, below it by the divergence of the product from the posterior."""
    walk = np.minimum.outer(np.arange(1, 6), np.arange(1, 6)).astype(float)
    evidence = multivariate_normal(np.zeros(5), walk + 0.25 * np.eye(5)).logpdf(np.ones(5))
    precision = np.linalg.inv(walk) + 4 * np.eye(5)
    gap = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    return evidence, evidence - gap


@pytest.mark.parametrize("gradient", ["score", "score_control", "rao_blackwell"])
def test_score_gradients_reach_the_best_bound_of_a_conjugate_model(gradient):
    evidence, bound = chain_evidence()
    post = vi(
        CHAIN, jnp.zeros(5), key=jr.key(1), family="mean_field", gradient=gradient, num_draws=16, tol=0.02
    )
    assert post.status is Status.converged
    np.testing.assert_allclose(float(post.elbo), bound, atol=0.02)
    np.testing.assert_allclose(float(post.log_evidence.value), evidence, atol=0.05)


def test_each_means_of_variance_reduction_takes_variance_away():
    """The same mean, and less variance: by a control variate, more by the Markov blanket."""
    family = MeanField(jnp.linspace(0.0, 1.0, 5), jnp.full(5, 0.5))
    _, target = FlatTarget.of(CHAIN, jnp.zeros(5))
    noise = jr.normal(jr.key(0), (4000, 8, 5))

    def slopes(gradient):
        def one(eps):
            return jax.grad(lambda q: surrogate(target, q, eps, gradient=gradient)[0])(family)

        found = jax.jit(jax.vmap(one))(noise)
        return np.concatenate([np.asarray(found.loc), np.asarray(found.scale)], axis=1)

    names = ("score_plain", "score_control", "score", "rao_blackwell")
    found = {name: slopes(name) for name in names}
    exact_slope = slopes("entropy").mean(0)
    for name in names:
        error = found[name].std(0) / np.sqrt(4000)
        assert (np.abs(found[name].mean(0) - exact_slope) <= 5 * error).all(), name
    total = {name: found[name].var(0).sum() for name in names}
    assert total["score"] < 0.6 * total["score_plain"]
    assert total["score_control"] < 0.6 * total["score_plain"]
    assert total["rao_blackwell"] < 0.6 * total["score"]


def test_options_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match='mean field with gradient="rao_blackwell"'):
        vi(CHAIN, jnp.zeros(5), key=jr.key(0), gradient="rao_blackwell")
    with pytest.raises(ValueError, match="`Factors` of a real vector `start` alone"):
        vi(CHAIN, jnp.zeros(5), key=jr.key(0), family="mean_field", log_prior=log_prior)
    with pytest.raises(ValueError, match='a number with method="lbfgs"'):
        regression(method="lbfgs", learning_rate=PowerLaw(0.1, 0.7))
