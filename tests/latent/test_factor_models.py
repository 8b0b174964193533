"""Probabilistic PCA and factor analysis against dense normals, scikit-learn, each other and direct search."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
import sklearn.decomposition

import tractable as tr
from tractable.core.iterate import Status
from tractable.core.moments import moments_of
from tractable.distributions.gaussian import Gaussian, condition_observed
from tractable.inference import EM
from tractable.latent.factor.analysis import FactorAnalysis
from tractable.latent.factor.low_rank import factor_step, isotropic_factors
from tractable.latent.factor.principal import PrincipalComponents
from tractable.latent.factor.probabilistic import ProbabilisticPCA

RNG = np.random.default_rng(1)
LOADINGS = RNG.normal(size=(6, 2)) * [2.0, 1.0]
NOISE = np.array([0.5, 1.0, 0.3, 0.8, 0.6, 0.4])
X = RNG.normal(size=(200, 2)) @ LOADINGS.T + RNG.normal(size=(200, 6)) * np.sqrt(NOISE) + 3.0
W = RNG.integers(0, 3, 200).astype(float)
GAPS = np.where(RNG.uniform(size=X.shape) < 0.2, np.nan, X)
MODELS = {
    "ppca": ProbabilisticPCA(np.arange(6.0), LOADINGS, 0.7),
    "fa": FactorAnalysis(np.arange(6.0), LOADINGS, NOISE),
}
both = pytest.mark.parametrize("name", MODELS)


@pytest.mark.cheap
@both
@pytest.mark.thorough
def test_density_and_posterior_are_those_of_the_dense_joint_normal(name):
    model = MODELS[name]
    cov = LOADINGS @ LOADINGS.T + np.diag(np.broadcast_to(model.noise, 6))
    np.testing.assert_allclose(model.cov, cov, rtol=1e-12)
    dense = scipy.stats.multivariate_normal(np.arange(6.0), cov)
    np.testing.assert_allclose(model.log_prob(X), dense.logpdf(X), rtol=1e-10)
    z, x = Gaussian(jnp.zeros(2), jnp.eye(2)), Gaussian(model.mean, jnp.asarray(cov))
    rows = np.concatenate([X[:2], GAPS[:3]])
    found = model.posterior(rows)
    for i, row in enumerate(rows):
        wanted = condition_observed(z, LOADINGS.T, x, row)
        np.testing.assert_allclose(found.mean[i], wanted.mean, atol=1e-10)
        np.testing.assert_allclose(found.cov[i], wanted.cov, atol=1e-10)
    np.testing.assert_allclose(model.transform(rows), found.mean, atol=1e-10)
    np.testing.assert_allclose(model.transform(X[:2]), found.mean[:2], atol=1e-10)
    np.testing.assert_allclose(model.log_prob(GAPS), x.log_prob_observed(GAPS), rtol=1e-9)
    row = np.where(np.arange(6) < 2, np.nan, X[0])
    filled = x.conditional([2, 3, 4, 5], X[0, 2:])
    np.testing.assert_allclose(model.impute(row[None])[0], [*filled.mean, *X[0, 2:]], rtol=1e-10)


@pytest.mark.cheap
@both
def test_bound_is_below_the_evidence_and_tight_at_the_posterior(name):
    model = MODELS[name]
    exact = model.log_prob(X[:1])[0]
    best = model.posterior(X[:1])
    encoder = Gaussian(best.mean[0], best.cov[0])
    np.testing.assert_allclose(model.elbo(X[0], encoder), exact, rtol=1e-10)
    for shift, stretch in ((0.3, 1.0), (0.0, 2.0), (-1.0, 0.2)):
        other = Gaussian(encoder.mean + shift, stretch * encoder.cov)
        assert model.elbo(X[0], other) < exact
    z = encoder.mean  # log p(x, z) - log p(z | x) = log p(x) at any z
    np.testing.assert_allclose(model.log_joint(X[0], z) - encoder.log_prob(z), exact, rtol=1e-10)


def test_closed_form_is_the_maximum_and_em_reaches_it():
    fitted = ProbabilisticPCA.fit(X, 2)
    spectrum = np.linalg.eigvalsh(np.cov(X.T, ddof=0))
    np.testing.assert_allclose(fitted.model.noise, spectrum[:4].mean(), rtol=1e-12)
    np.testing.assert_allclose(fitted.log_evidence, fitted.model.log_prob(X).sum(), rtol=1e-12)
    peer = sklearn.decomposition.PCA(2).fit(X)  # divides by n - 1: a little below the maximum
    assert 0 < fitted.log_evidence - peer.score(X) * len(X) < 0.1
    run = tr.fit(ProbabilisticPCA.random(jr.key(0), 2, dim=6), X, EM(tol=1e-13, max_steps=3000))
    np.testing.assert_allclose(run.values[-1], fitted.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(run.state.cov, fitted.model.cov, atol=2e-4)
    assert (np.diff(run.values) > -1e-8).all()


def test_noise_to_zero_is_principal_components():
    found = PrincipalComponents.fit(X, 2)
    fitted = ProbabilisticPCA.from_components(found)
    np.testing.assert_allclose(fitted.cov, ProbabilisticPCA.fit(X, 2).model.cov, rtol=1e-10)
    np.testing.assert_allclose(abs(np.asarray(fitted.components) @ found.components.T), np.eye(2), atol=1e-10)
    gaps = []
    for noise in (1e-2, 1e-4, 1e-6):
        limit = ProbabilisticPCA(found.mean, found.components.T * np.sqrt(found.variances), noise)
        gaps.append(np.abs(np.asarray(limit.reconstruct(X)) - found.reconstruct(X)).max())
    np.testing.assert_allclose(np.divide(gaps[1:], gaps[:-1]), 1e-2, rtol=0.1)  # in proportion to the noise
    assert gaps[-1] < 1e-5


def test_direct_maximum_beats_the_peer_and_em_climbs_to_it():
    fitted = FactorAnalysis.fit(X, 2)
    assert fitted.status is Status.converged
    assert fitted.verdict.ok
    np.testing.assert_allclose(fitted.log_evidence, fitted.model.log_prob(X).sum(), rtol=1e-10)
    peer = sklearn.decomposition.FactorAnalysis(2, tol=1e-10, max_iter=20000, svd_method="lapack").fit(X)
    np.testing.assert_allclose(fitted.log_evidence, peer.score(X) * len(X), rtol=1e-8)
    np.testing.assert_allclose(fitted.model.noise, peer.noise_variance_, rtol=2e-3)
    run = tr.fit(
        FactorAnalysis.random(jr.key(0), 2, dim=6), X, EM(tol=1e-12, max_steps=5000, accelerate=True)
    )
    np.testing.assert_allclose(run.values[-1], fitted.log_evidence, rtol=1e-8)
    stationary = run.state.e_step(jnp.asarray(X), jnp.ones(200))[0]
    np.testing.assert_allclose(run.state.m_step(stationary).noise, run.state.noise, atol=1e-4)


def test_units_do_not_matter_to_factor_analysis():
    unit = np.array([1e-6, 1.0, 1e12, 3.0, 1e3, 1.0])
    a, b = FactorAnalysis.fit(X, 2), FactorAnalysis.fit(X * unit, 2)
    np.testing.assert_allclose(b.model.noise / unit**2, a.model.noise, rtol=1e-5)
    np.testing.assert_allclose(b.log_evidence, a.log_evidence - 200 * np.log(unit).sum(), rtol=1e-9)


@pytest.mark.cheap
@both
def test_statistics_add_and_weights_count_rows(name):
    model = MODELS[name]
    for rows in (X, GAPS):
        together = model.e_step(jnp.asarray(rows), jnp.asarray(W))
        parts = [model.e_step(jnp.asarray(rows[i::2]), jnp.asarray(W[i::2])) for i in range(2)]
        copies = model.e_step(jnp.asarray(np.repeat(rows, W.astype(int), 0)), jnp.ones(int(W.sum())))
        for other in (jax.tree.map(jnp.add, *parts), copies):
            for a, b in zip(jax.tree.leaves(other), jax.tree.leaves(together)):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.e_step(X, jnp.ones(200))[1], model.log_prob(X).sum(), rtol=1e-10)


@pytest.mark.cheap
@pytest.mark.parametrize("cls", [ProbabilisticPCA, FactorAnalysis])
def test_missing_entries_climb_the_observed_likelihood(cls):
    fitted = cls.fit(GAPS, 2)
    assert fitted.status is Status.converged
    assert (np.diff(fitted.trace) > -1e-7).all()
    np.testing.assert_allclose(fitted.model.log_prob(GAPS).sum(), fitted.log_evidence, rtol=1e-7)
    free, rebuild = tr.bijections.support.unconstrain(fitted.model)
    slope = jax.grad(lambda free: rebuild(free)[0].e_step(jnp.asarray(GAPS), jnp.ones(200))[1])(free)
    assert np.abs(slope).max() < 0.05  # of about 1000 in all: a stationary point
    full = cls.fit(X, 2)
    assert fitted.model.log_prob(X).sum() < full.log_evidence
    truth = FactorAnalysis(np.full(6, 3.0), LOADINGS, NOISE)
    errors = [(np.asarray(m.impute(GAPS)) - X)[np.isnan(GAPS)].std() for m in (fitted.model, truth)]
    assert errors[0] < 1.1 * errors[1]  # as well as the model that made the rows, nearly
    weighted, copies = cls.fit(GAPS, 2, weights=W), cls.fit(np.repeat(GAPS, W.astype(int), 0), 2)
    np.testing.assert_allclose(weighted.log_evidence, copies.log_evidence, rtol=1e-7)


def test_chunks_are_as_memory():
    start = ProbabilisticPCA.random(jr.key(1), 2, dim=6)
    whole = EM(max_steps=5).fit(start, X, weights=W)
    parts = EM(max_steps=5).fit(start, X, weights=W, chunk=64)
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-9)


def test_heywood_cases_constant_columns_and_few_rows_are_named():
    odd = X.copy()
    odd[:, 1] = odd[:, 0] + 1e-9 * X[:, 1]
    fitted = FactorAnalysis.fit(tr.core.rows.Rows.of(odd, names=list("abcdef")), 2)
    assert not fitted.verdict.ok
    assert set(fitted.heywood) & {"a", "b"}
    assert "Heywood case: the noise of column" in fitted.verdict.sentence
    flat = FactorAnalysis.fit(np.column_stack([X, np.full(200, 0.1)]), 2)
    assert flat.constant == (6,)
    assert flat.verdict.ok
    np.testing.assert_allclose(flat.log_evidence, FactorAnalysis.fit(X, 2).log_evidence, rtol=1e-9)
    np.testing.assert_allclose(flat.model.transform(np.column_stack([X, np.zeros(200)])),
                               FactorAnalysis.fit(X, 2).model.transform(X), atol=1e-5)  # fmt: skip
    with pytest.raises(ValueError, match="at least two distinct rows"):
        FactorAnalysis.fit(X[:1], 1)
    with pytest.raises(ValueError, match="rows with variance outside 3 directions"):
        ProbabilisticPCA.fit(X[:3], 3)
    with pytest.raises(ValueError, match="only NaN in column 2"):
        ProbabilisticPCA.fit(np.where(np.arange(6) == 2, np.nan, X), 2)
    with pytest.raises(ValueError, match=r"`num_components` must be .* from 1 to 5; got 6"):
        ProbabilisticPCA.fit(X, 6)
    with pytest.raises(ValueError, match="infinity"):
        FactorAnalysis.fit(np.where(X.max() == X, np.inf, X), 2)


def test_components_of_mixtures_from_a_covariance():
    cov = moments_of(X).cov()
    loadings, noise = isotropic_factors(cov, 2)
    found = jax.vmap(lambda cov: isotropic_factors(cov, 2))(jnp.asarray(np.stack([cov, 2 * cov])))
    np.testing.assert_allclose(found[1], [noise, 2 * noise], rtol=1e-10)
    np.testing.assert_allclose(np.abs(found[0][0]), np.abs(loadings), atol=1e-10)
    model = FactorAnalysis(X.mean(0), LOADINGS, NOISE)
    step = factor_step(cov, LOADINGS, NOISE)
    wanted = model.m_step(model.e_step(jnp.asarray(X), jnp.ones(200))[0])
    np.testing.assert_allclose(step[0], wanted.loadings, rtol=1e-9)
    np.testing.assert_allclose(step[1], wanted.noise, rtol=1e-9)


@both
def test_draws_have_the_moments_of_the_model(name):
    model = MODELS[name]
    draws = np.asarray(model.sample(jr.key(0), (20000,)))
    error = np.sqrt(np.diag(model.cov) / 20000)
    assert np.abs((draws.mean(0) - model.mean) / error).max() < 4
    cov = np.asarray(model.cov)
    spread = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / 20000)
    assert np.abs((np.cov(draws.T) - cov) / spread).max() < 4.5
