"""Generalised linear models: derivatives, laws, evidence and posteriors against oracles that know none of
them."""

import jax.random as jr
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import minimize

from tractable.supervised.generalised.families import FAMILIES
from tractable.supervised.generalised.heteroscedastic import fit_heteroscedastic
from tractable.supervised.generalised.mixed import MixedLaw
from tractable.supervised.generalised.model import fit_generalised

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 2))
ETA = 0.5 + 0.8 * X[:, 0]
SHAPE = np.array([0.4])
ORACLES = {
    "poisson": lambda eta, t: stats.poisson(np.exp(eta)),
    "negative_binomial": lambda eta, t: stats.nbinom(np.exp(-t), 1 / (1 + np.exp(eta + t))),
    "gamma": lambda eta, t: stats.gamma(np.exp(t), scale=np.exp(eta - t)),
    "beta": lambda eta, t: stats.beta(np.exp(t) / (1 + np.exp(-eta)), np.exp(t) / (1 + np.exp(eta))),
    "normal": lambda eta, t: stats.norm(eta, np.exp(t)),
    "weibull": lambda eta, t: stats.weibull_min(np.exp(-t), scale=np.exp(eta)),
    "log_normal": lambda eta, t: stats.lognorm(np.exp(t), scale=np.exp(eta)),
}
TARGETS = {name: law(ETA, 0.4).rvs(random_state=0) for name, law in ORACLES.items()}
each = pytest.mark.parametrize("name", ORACLES)


@each
@pytest.mark.cheap
def test_slopes_and_curvatures_are_derivatives(name):
    family, y, h = FAMILIES[name], TARGETS[name], 1e-4
    if name in ("weibull", "log_normal"):
        y = np.where(np.arange(60) % 3, y, -y)  # a third is censored
    value, slope, curvature = family.terms(y, ETA, SHAPE)
    up, down = (family.terms(y, ETA + s, SHAPE)[0] for s in (h, -h))
    np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-5, atol=1e-5)
    if name == "beta":  # the expected curvature: over draws, the mean of the squared slope
        draws = ORACLES[name](ETA[0], 0.4).rvs(size=200_000, random_state=1)
        squares = family.terms(draws, ETA[0], SHAPE)[1] ** 2
        assert abs(squares.mean() - curvature[0]) < 4 * squares.std() / 200_000**0.5
        return
    np.testing.assert_allclose(curvature, (2 * value - up - down) / h**2, rtol=1e-4, atol=1e-4)


@each
@pytest.mark.cheap
def test_laws_of_rows_are_those_of_scipy(name):
    y, oracle = TARGETS[name], ORACLES[name](ETA, 0.4)
    shapes = None if name == "poisson" else np.full((1, 1, 1), 0.4)
    law = MixedLaw.of(name, np.ones(1), ETA[:, None], shapes)
    log_mass = oracle.logpmf if law.discrete else oracle.logpdf
    np.testing.assert_allclose(law.row_log_probs(y), log_mass(y), rtol=1e-9, atol=1e-9)
    assert law.log_prob(y) == pytest.approx(log_mass(y).sum())
    np.testing.assert_allclose(law.cdf(y), oracle.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(law.survival(y), oracle.sf(y), rtol=1e-9)
    np.testing.assert_allclose(law.mean, oracle.mean(), rtol=1e-9)
    np.testing.assert_allclose(law.variance, oracle.var(), rtol=1e-9)
    for p in (1e-5, 0.3, 0.999):
        np.testing.assert_allclose(law.icdf(p), oracle.ppf(p), rtol=1e-8)
    draws = law.sample(jr.key(0), (2000,))
    assert np.abs((draws.mean(0) - law.mean) / (law.std / 2000**0.5)).max() < 4.5


@each
@pytest.mark.cheap
def test_quantiles_of_mixtures_invert_their_distribution_functions(name):
    weights, eta = np.array([0.2, 0.5, 0.3]), ETA[:, None] + np.array([-1.0, 0.0, 0.7])
    shapes = None if name == "poisson" else np.array([0.1, 0.4, 0.9])[None, None]
    shapes = (
        shapes + 3.0 if shapes is not None and name == "beta" else shapes
    )  # else a quantile rounds to one
    law = MixedLaw.of(name, weights, eta, shapes)
    for p in (1e-8, 0.05, 0.5, 1 - 1e-9):
        q = law.icdf(p)
        if law.discrete:
            assert (law.survival(q) <= (1 - p) * (1 + 1e-9)).all()
            assert (law.cdf(q - 1) < p).all()
        else:
            np.testing.assert_allclose(law.cdf(q) if p < 0.5 else law.survival(q), min(p, 1 - p), rtol=1e-7)
    outside = law.row_log_probs(np.full(60, -1.0 if name != "normal" else np.inf))
    assert (outside == -np.inf).all()


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "gamma", "weibull", "log_normal"])
@pytest.mark.cheap
def test_the_evidence_is_the_integral_over_one_coefficient(name):
    """Laplace's evidence with everything else fixed, against quadrature; the error falls with the rows."""
    y, family = TARGETS[name], FAMILIES[name]
    z = X[:, 0] / np.sqrt((X[:, 0] ** 2).mean())

    def density(beta):
        return np.exp(family.log_prob(y, beta * z, SHAPE).sum() - peak) * stats.norm.pdf(beta, scale=0.5)

    peak = max(family.log_prob(y, b * z, SHAPE).sum() for b in np.linspace(-1, 2, 61))
    exact = np.log(integrate.quad(density, -2, 3, points=[0.5, 1.0], epsabs=1e-12)[0]) + peak
    from tractable.core.rows import Rows
    from tractable.supervised.generalised.design import design_of
    from tractable.supervised.generalised.model import _Problem

    rows, _ = design_of(Rows.of(X[:, :1], y, target="number"), False)
    problem = _Problem(family, rows, np.zeros(60), 0.0, 4.0)
    shape = SHAPE[: len(family.shape_mean)]
    assert problem.evidence(shape) == pytest.approx(exact, abs=0.02)


def test_coefficients_are_those_of_maximum_likelihood_under_a_wide_prior():
    """A million times wider than the answer: SciPy's minimum of the written-out likelihood."""
    y = TARGETS["gamma"]
    found = fit_generalised(X, y, family="gamma", prior_precision=1e-6)

    def loss(p):
        eta, a = p[0] + X @ p[1:3], np.exp(p[3])
        return -stats.gamma(a, scale=np.exp(eta) / a).logpdf(y).sum()

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(found.coefficients()[0], best.x[:3], atol=2e-3)
    z = np.column_stack([np.ones(60), X])
    curvature = np.exp(best.x[3]) * y / np.exp(z @ best.x[:3])  # of each row in its linear predictor
    errors = np.sqrt(np.diag(np.linalg.inv(z.T @ (curvature[:, None] * z))))
    np.testing.assert_allclose(found.coefficients()[1], errors, rtol=0.05)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "gamma", "beta", "weibull"])
def test_a_row_of_weight_two_is_the_row_twice(name):
    y, counts = TARGETS[name], np.resize([2, 0, 1, 3], 60)
    once = fit_generalised(X, y, counts.astype(float), family=name)
    twice = fit_generalised(np.repeat(X, counts, 0), np.repeat(y, counts), family=name)
    np.testing.assert_allclose(once.coefficients(), twice.coefficients(), rtol=1e-5, atol=1e-7)
    assert once.log_evidence == pytest.approx(twice.log_evidence, abs=1e-5)


def test_an_exposure_is_an_offset_and_zeros_alone_have_a_rate():
    y = TARGETS["poisson"]
    plain = fit_generalised(X, y, family="poisson")
    scaled = fit_generalised(X, y, family="poisson", offset=np.full(60, np.log(10.0)))
    np.testing.assert_allclose(scaled.coefficients()[0][1:], plain.coefficients()[0][1:], rtol=1e-8)
    assert scaled.coefficients()[0][0] == pytest.approx(plain.coefficients()[0][0] - np.log(10))
    zeros = fit_generalised(X, np.zeros(60), family="poisson").predict_dist(X)
    assert 0.05 / 60 < zeros.mean.mean() < 5 / 60
    assert (zeros.icdf(0.95) == 0).all()


def test_more_columns_than_rows_are_the_same_model_in_fewer_coordinates():
    """Twelve columns of eight rows, against the full problem in all its coordinates."""
    from tractable.core.rows import Rows
    from tractable.supervised.generalised.design import Columns
    from tractable.supervised.generalised.model import _Problem
    from tractable.supervised.logistic.newton import StandardRows

    generator = np.random.default_rng(3)
    wide, y, new = generator.normal(size=(8, 12)), generator.poisson(3.0, 8), generator.normal(size=(5, 12))
    found = fit_generalised(wide, y, family="poisson", prior_precision=2.0)
    family = FAMILIES["poisson"]
    rows = StandardRows.of(Rows.of(wide, y.astype(float), target="number"), True)
    problem = _Problem(family, rows, np.zeros(8), family.start(y, np.ones(8), np.zeros(8)), 2.0)
    mode, evidence, cov = problem.solve(np.zeros(0))
    z, _ = Columns(rows.centre, rows.scale, None, True)(new)
    mean, variance = found.predictors(new)
    np.testing.assert_allclose(mean[:, 0] - found.base, z @ mode.beta, atol=1e-8)
    np.testing.assert_allclose(variance[:, 0], ((z @ cov) * z).sum(1), rtol=1e-8)
    assert found.log_evidence == pytest.approx(evidence, abs=1e-8)


def test_huge_counts_and_constant_columns_are_fitted():
    y = np.round(1e12 * np.exp(ETA))
    found = fit_generalised(np.column_stack([X, np.ones(60)]), y, family="poisson")
    assert found.verdict.ok
    np.testing.assert_allclose(found.coefficients()[0][1:], [0.8, 0.0, 0.0], atol=1e-6)
    law = found.predict_dist(np.column_stack([X, np.ones(60)]))
    assert np.abs(law.cdf(law.icdf(0.9)) - 0.9).max() < 1e-5


def test_scales_that_grow_are_found_with_the_mean_integrated_out():
    """The evidence given the scales is that of a dense normal law, and its slope that of differences."""
    from tractable.core.rows import Rows
    from tractable.supervised.generalised.design import design_of
    from tractable.supervised.generalised.heteroscedastic import _Problem

    y = ETA + np.exp(0.3 * X[:, 1]) * RNG.normal(size=60)
    rows, _ = design_of(Rows.of(X, y, target="number"), True)
    problem, gamma = _Problem(rows), np.array([0.1, 0.0, 0.3])
    prior = problem.prior(0.7, 10.0)
    z = rows.design()
    cov = z @ np.diag(1 / prior) @ z.T + np.diag(np.exp(2 * z @ gamma) + 1e-8)
    exact = stats.multivariate_normal(np.zeros(60), cov).logpdf(y)
    assert problem.given(gamma, prior).log_evidence == pytest.approx(exact, abs=1e-8)
    found = fit_heteroscedastic(X, y)
    values, errors = found.coefficients("scale")
    assert abs(values[2] - 0.3) < 3.5 * errors[2]
    assert found.verdict.ok


@pytest.mark.parametrize(
    ("name", "y", "words"),
    [
        ("poisson", [1.0, 2.5, 3.0], r"`y` must be whole numbers from zero; got 2.5 in row 1.*exposure"),
        ("gamma", [1.0, 0.0, 3.0], r"`y` must be positive; got 0 in row 1"),
        ("gamma", [2.0, 2.0, 2.0], r"got constant targets \(2 in all rows\)"),
        ("beta", [0.5, 1.0, 0.2], r"`y` must be inside the bounds, and not on them; got 1 in row 1"),
    ],
)
@pytest.mark.cheap
def test_targets_that_cannot_be_are_refused_by_row(name, y, words):
    with pytest.raises(ValueError, match=words):
        fit_generalised(X[:3], y, family=name)


def ordinal_table(num_rows=120):
    generator = np.random.default_rng(2)
    z = generator.normal(size=(num_rows, 2))
    latent = 1.2 * z[:, 0] + generator.logistic(size=num_rows)
    return z, np.digitize(latent, [-1.0, 0.5, 2.0])


def test_thresholds_and_slopes_of_classes_in_order_are_derivatives():
    from tractable.core.rows import Rows
    from tractable.supervised.generalised.design import design_of
    from tractable.supervised.generalised.ordinal import _Problem

    z, y = ordinal_table()
    rows, _ = design_of(Rows.of(z, y.astype(float), target="number"), True)
    problem, at, h = _Problem(rows, np.array([-1.0, 0.3, 1.5]), 1.0), np.array([0.1, 0, 0.2, 0.7, -0.3]), 1e-5
    value, gradient, hessian = problem.sweep(at)
    gates = np.r_[-np.inf, [-0.9, 0.3, 1.7], np.inf]
    eta = rows.design()[:, 1:] @ at[3:]
    probs = stats.logistic.cdf(gates[y + 1] - eta) - stats.logistic.cdf(gates[y] - eta)
    assert value == pytest.approx(-np.log(probs).sum(), abs=1e-9)
    moved = [(problem.sweep(at + h * e), problem.sweep(at - h * e)) for e in np.eye(5)]
    np.testing.assert_allclose(gradient, [(u[0] - d[0]) / (2 * h) for u, d in moved], atol=1e-5)
    np.testing.assert_allclose(hessian, [(u[1] - d[1]) / (2 * h) for u, d in moved], atol=1e-4)


def test_classes_in_order_are_found_and_two_of_them_are_logistic():
    from tractable.supervised.generalised.ordinal import fit_ordinal
    from tractable.supervised.logistic.bayes import fit_bayes_logistic

    z, y = ordinal_table()
    found = fit_ordinal(z, y)
    values, errors = found.coefficients()
    assert (np.abs(values - [1.2, 0.0]) < 3.5 * errors).all()
    probs = found.predict_proba(z)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-12)
    assert (probs > 0).all()
    np.testing.assert_allclose(probs.mean(0), np.bincount(y) / 120, atol=0.02)  # thresholds are nearly free
    two = fit_ordinal(z, y > 1, prior_precision=1.0)
    logistic = fit_bayes_logistic(z, y > 1, prior_precision=1.0)
    np.testing.assert_allclose(two.predict_proba(z)[:, 1], logistic.predict_proba(z), atol=2e-3)
    counts = np.resize([2, 0, 1, 3], 120)
    once, twice = (
        fit_ordinal(z, y, counts.astype(float)),
        fit_ordinal(np.repeat(z, counts, 0), np.repeat(y, counts)),
    )
    np.testing.assert_allclose(once.predict_proba(z), twice.predict_proba(z), atol=1e-7)


def test_separable_classes_in_order_have_a_finite_answer():
    from tractable.supervised.generalised.ordinal import fit_ordinal

    x = np.arange(30.0)
    found = fit_ordinal(x, x.astype(int) // 10)
    probs = found.predict_proba(x)
    assert found.verdict.ok
    assert (probs.argmax(1) == x // 10).all()
    assert probs.max() < 0.9999
