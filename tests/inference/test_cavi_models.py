"""Conjugate coordinate ascent: bounds against the textbook, evidence by brute force, scikit-learn."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.mixture import BayesianGaussianMixture

from tests.oracles.variational import document_log_evidence, mixture_elbo
from tractable.core.iterate import Status
from tractable.distributions.divergence import kl
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.distributions.positive import Gamma
from tractable.inference.expectation_maximisation.em import EM, em, objective
from tractable.inference.variational.cavi_mixture import BayesianMixture, bayesian_mixture
from tractable.inference.variational.cavi_regression import variational_regression
from tractable.inference.variational.cavi_topics import expected_log_topics, topic_shares

RANDOM = np.random.default_rng(0)
CLUSTERS = np.concatenate(
    [
        RANDOM.normal([5.0, 0.0], 1.0, (60, 2)),
        RANDOM.normal([-3.0, 2.0], 0.5, (50, 2)),
        RANDOM.normal([0.0, -5.0], 1.0, (40, 2)),
    ]
)
PRIOR = NormalInverseWishart(np.array([1.0, -1.0]), 0.1, 4.0, np.array([[1.0, 0.2], [0.2, 1.5]]))
WEIGHTS = Dirichlet(np.full(6, 0.01))


@pytest.fixture(scope="module")
def fitted():
    return em(BayesianMixture.start(jr.key(0), CLUSTERS, WEIGHTS, PRIOR), CLUSTERS, max_steps=300)


@pytest.fixture(scope="module")
def best_mixture():
    return bayesian_mixture(CLUSTERS, 6, key=jr.key(1), concentration=0.01, prior_component=PRIOR)


def test_mixture_bound_is_the_textbook_sum_of_seven_terms(fitted):
    start = BayesianMixture.start(jr.key(0), CLUSTERS, WEIGHTS, PRIOR)
    for model in (start, fitted.state):
        r = np.asarray(model.responsibilities(jnp.asarray(CLUSTERS)))
        c = model.components
        w = np.linalg.inv(np.asarray(c.scale))
        expected = mixture_elbo(
            CLUSTERS, r, np.full(6, 0.01), np.asarray(model.weights.concentration),
            np.asarray(PRIOR.loc), 0.1, 4.0, np.linalg.inv(np.asarray(PRIOR.scale)),
            np.asarray(c.loc), np.asarray(c.mean_scale), np.asarray(c.degrees), w,
        )  # fmt: skip
        np.testing.assert_allclose(float(objective(model, CLUSTERS)), expected, rtol=1e-10)


def test_mixture_bound_never_falls_and_superfluous_components_are_emptied(fitted, best_mixture):
    assert fitted.status is Status.converged
    assert (np.diff(fitted.values) > -1e-9 * (1 + np.abs(fitted.values[:-1]))).all()
    best = best_mixture
    assert best.values[-1] >= fitted.values[-1] - 1e-6
    assert best.state.num_active() == 3
    counts = np.sort(np.asarray(best.state.expected_counts))
    np.testing.assert_allclose(counts, [0, 0, 0, 40, 50, 60], atol=1.0)


def test_mixture_agrees_with_scikit_learn():
    peer = BayesianGaussianMixture(
        n_components=3, weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=0.01, mean_precision_prior=0.1, mean_prior=np.asarray(PRIOR.loc),
        degrees_of_freedom_prior=4.0, covariance_prior=np.asarray(PRIOR.scale), reg_covar=0.0, tol=1e-9,
        max_iter=200, random_state=0,
    ).fit(CLUSTERS)  # fmt: skip
    weights = Dirichlet(np.full(3, 0.01))
    ours = em(BayesianMixture.start(jr.key(3), CLUSTERS, weights, PRIOR), CLUSTERS, tol=1e-12).state
    order, other = np.argsort(np.asarray(ours.components.loc)[:, 0]), np.argsort(peer.means_[:, 0])
    np.testing.assert_allclose(np.asarray(ours.components.loc)[order], peer.means_[other], rtol=1e-5)
    # their covariances are Psi / nu
    cov = np.asarray(ours.components.scale / ours.components.degrees[:, None, None])
    np.testing.assert_allclose(cov[order], peer.covariances_[other], rtol=1e-5)


def test_mixture_predictive_is_a_density_with_the_right_t(fitted):
    predictive = fitted.state.predictive()
    j = int(np.argmax(np.asarray(fitted.state.expected_counts)))
    c = fitted.state.components
    degrees = float(c.degrees[j]) - 1
    shape = np.asarray(c.scale[j]) * (1 + 1 / float(c.mean_scale[j])) / degrees
    expected = stats.multivariate_t(np.asarray(c.loc[j]), shape, df=degrees).logpdf(CLUSTERS[:5])
    found = np.asarray(jax.vmap(predictive.log_joint)(jnp.asarray(CLUSTERS[:5])))[:, j]
    weight = np.log(np.asarray(fitted.state.weights.mean)[j])
    np.testing.assert_allclose(found, weight + expected, rtol=1e-10)


def test_mixture_statistics_add_over_chunks():
    start = BayesianMixture.start(jr.key(0), CLUSTERS, WEIGHTS, PRIOR)
    whole = EM(max_steps=5, tol=0.0).fit(start, CLUSTERS)
    parts = EM(max_steps=5, tol=0.0).fit(start, CLUSTERS, chunk=64)
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-10)


def test_divergence_of_priors_of_mean_and_covariance():
    p = NormalInverseWishart(np.array([0.3, 1.0]), 2.0, 6.0, np.array([[2.0, 0.3], [0.3, 1.0]]))
    draws = np.asarray(p.sample(jr.key(2), (20_000,)))
    ratios = np.asarray(p.log_prob(draws) - PRIOR.log_prob(draws))
    error = ratios.std() / np.sqrt(len(ratios))
    assert abs(float(kl(p, PRIOR)) - ratios.mean()) < 5 * error
    np.testing.assert_allclose(float(kl(p, p)), 0.0, atol=1e-12)


DESIGN = RANDOM.normal(size=(25, 2))
TARGETS = DESIGN @ [1.5, -0.7] + 0.5 * RANDOM.normal(size=25)
SHRINK, NOISE = Gamma(2.0, 2.0), Gamma(3.0, 1.0)


def regression_log_evidence():
    """log p(y) by quadrature over the logarithms of both precisions, the coefficients in closed form."""

    values, vectors = np.linalg.eigh(DESIGN @ DESIGN.T)
    rotated = (vectors.T @ TARGETS) ** 2

    def log_joint(u, v):
        spread = values / np.exp(u) + np.exp(-v)
        value = -0.5 * (rotated / spread + np.log(2 * np.pi * spread)).sum()
        value += stats.gamma.logpdf(np.exp(u), 2.0, scale=0.5) + u
        return value + stats.gamma.logpdf(np.exp(v), 3.0, scale=1.0) + v

    us, vs = np.linspace(-6, 4, 61), np.linspace(-1, 3.5, 61)
    table = np.array([[log_joint(u, v) for v in vs] for u in us])
    top = table.max()
    mass = integrate.simpson(integrate.simpson(np.exp(table - top), x=vs, axis=1), x=us)
    return np.log(mass) + top


def test_regression_bound_is_below_and_close_to_the_evidence_by_quadrature():
    run = variational_regression(DESIGN, TARGETS, prior_precision=SHRINK, noise_precision=NOISE)
    assert run.status is Status.converged
    assert (np.diff(run.values) > -1e-10 * (1 + np.abs(run.values[:-1]))).all()
    gap = regression_log_evidence() - run.values[-1]
    assert 0 < gap < 0.1


def test_regression_factors_solve_their_own_equations():
    state = variational_regression(DESIGN, TARGETS, prior_precision=SHRINK, noise_precision=NOISE).state
    w, alpha, tau = state.coefficients, state.prior_precision, state.noise_precision
    precision = float(tau.mean) * DESIGN.T @ DESIGN + float(alpha.mean[0]) * np.eye(2)
    np.testing.assert_allclose(np.asarray(w.cov), np.linalg.inv(precision), rtol=1e-5)
    ridge = np.linalg.solve(precision, float(tau.mean) * DESIGN.T @ TARGETS)
    np.testing.assert_allclose(np.asarray(w.mean), ridge, rtol=1e-5)
    residual = TARGETS - DESIGN @ np.asarray(w.mean)
    rate = 1.0 + 0.5 * (residual @ residual + np.trace(DESIGN.T @ DESIGN @ np.asarray(w.cov)))
    np.testing.assert_allclose([float(tau.concentration), float(tau.rate)], [15.5, rate], rtol=1e-6)
    second = (np.asarray(w.mean) ** 2 + np.diag(np.asarray(w.cov))).sum()
    np.testing.assert_allclose(float(alpha.rate[0]), 2.0 + 0.5 * second, rtol=1e-6)
    wide = state.predict_dist(DESIGN[:3])
    np.testing.assert_allclose(np.asarray(wide.loc), DESIGN[:3] @ np.asarray(w.mean), rtol=1e-12)


def test_relevance_switches_off_a_useless_column():
    random = np.random.default_rng(4)
    x = random.normal(size=(200, 3))
    y = x @ [2.0, 0.0, -1.0] + 0.1 * random.normal(size=200)
    state = variational_regression(x, y, relevance=True).state
    precisions = np.asarray(state.prior_precision.mean)
    assert precisions[1] > 20 * max(precisions[0], precisions[2])
    assert abs(float(state.coefficients.mean[1])) < 0.02


TOPICS = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4], [0.25, 0.25, 0.25, 0.25]])
ALPHA = np.array([0.5, 0.8, 0.3])


def test_document_bound_is_below_the_evidence_and_never_falls():
    found = topic_shares([3.0, 0.0, 2.0, 1.0], np.log(TOPICS), ALPHA)
    assert int(found.code) == int(Status.converged)
    values = np.asarray(found.trace)[: int(found.num_steps)]
    assert (np.diff(values) > -1e-11).all()
    evidence = document_log_evidence([0, 0, 0, 2, 2, 3], TOPICS, ALPHA)
    assert 0 < evidence - float(found.bound) < 1.0
    np.testing.assert_allclose(np.asarray(found.statistics.sum(0)), [3.0, 0.0, 2.0, 1.0], rtol=1e-12)
    gamma = ALPHA + np.asarray(found.statistics).sum(1)
    np.testing.assert_allclose(np.asarray(found.proportions.concentration), gamma, rtol=1e-4)


def test_one_topic_is_exact():
    found = topic_shares([3.0, 0.0, 2.0, 1.0], np.log(TOPICS[[0, 0]]), ALPHA[:2])
    exact = 3 * np.log(0.6) + 2 * np.log(0.1) + np.log(0.1)  # both topics are the same
    assert float(found.bound) <= exact + 1e-12
    np.testing.assert_allclose(document_log_evidence([0, 0, 0, 2, 2, 3], TOPICS[[0, 0]], ALPHA[:2]), exact)


def test_documents_are_vectorised_and_topics_expected():
    counts = np.array([[3.0, 0.0, 2.0, 1.0], [0.0, 5.0, 0.0, 1.0]])
    both = jax.vmap(lambda n: topic_shares(n, np.log(TOPICS), ALPHA).bound)(jnp.asarray(counts))
    single = [float(topic_shares(n, np.log(TOPICS), ALPHA).bound) for n in counts]
    np.testing.assert_allclose(np.asarray(both), single, rtol=1e-8)
    logs = np.asarray(expected_log_topics(jnp.asarray([[2.0, 5.0]])))
    draws = np.random.default_rng(1).dirichlet([2.0, 5.0], 100_000)
    np.testing.assert_allclose(logs[0], np.log(draws).mean(0), atol=0.01)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`rows` must be free of constant columns; got columns \[1\]"):
        bayesian_mixture(np.c_[CLUSTERS[:, 0], np.ones(150)], 3, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`rows` must be at least as many as components \(6\); got 3"):
        BayesianMixture.start(jr.key(0), CLUSTERS[:3], WEIGHTS, PRIOR)
    with pytest.raises(ValueError, match="`targets` must be as long as `design`"):
        variational_regression(DESIGN, TARGETS[:3])
    with pytest.raises(ValueError, match="`design` must be finite; got nan"):
        variational_regression(np.full((2, 1), np.nan), np.zeros(2))
    with pytest.raises(ValueError, match="`counts` must be zero or positive"):
        topic_shares([-1.0, 0.0, 0.0, 0.0], np.log(TOPICS), ALPHA)
