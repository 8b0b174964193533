"""Draws of generalised linear models: densities beside those of the host, chains beside quadrature and
Laplace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tractable.supervised.generalised.chains import (
    Coordinates,
    LogJoint,
    log_likelihoods,
    sample_generalised,
)
from tractable.supervised.generalised.families import FAMILIES
from tractable.supervised.generalised.model import fit_generalised, fitted, prepared

RNG = np.random.default_rng(11)
X = RNG.normal(size=(120, 2))
ETA = 0.4 + 0.5 * X[:, 0]
TARGETS = {
    "gamma": RNG.gamma(2.0, np.exp(ETA) / 2),
    "poisson": RNG.poisson(np.exp(ETA)).astype(float),
    "negative_binomial": RNG.poisson(np.exp(ETA) * RNG.gamma(2.0, 0.5, 120)).astype(float),
    "beta": RNG.beta(3 / (1 + np.exp(-ETA)), 3 / (1 + np.exp(ETA))),
    "weibull": np.exp(ETA) * RNG.weibull(1.5, 120),
    "log_normal": np.exp(ETA + 0.6 * RNG.normal(size=120)),
}
CENSORED = np.where(np.arange(120) % 3, 1.0, -1.0)
families = pytest.mark.parametrize("family", TARGETS)


@families
@pytest.mark.cheap
def test_densities_of_chains_are_those_of_the_host(family):
    y = TARGETS[family] * (CENSORED if family in ("weibull", "log_normal") else 1.0)
    if family in ("poisson", "negative_binomial"):
        y = y + np.where(np.arange(120) % 5, 0.0, 0.5)  # fractions have the same formula
    generator = np.random.default_rng(2)
    for eta, theta in zip(generator.normal(size=(3, 120)), (-0.7, 0.3, 1.5)):
        shape = np.array([theta])[: len(FAMILIES[family].shape_mean)]
        found = log_likelihoods(family, jnp.asarray(y), jnp.asarray(eta), jnp.asarray(shape))
        wanted = FAMILIES[family].log_prob(y, eta, shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


def test_coordinates_count_their_determinant_and_the_prior():
    """The density of a point is that of the host's posterior there, times the volume of the map."""
    y, family = TARGETS["gamma"], FAMILIES["gamma"]
    task = prepared(X, y, None, "gamma", True, "evidence")
    where = Coordinates.about(task, fitted(task))
    density = LogJoint(where, task.hyper, family.intercept_spread**-2.0, "gamma")
    z, offset = task.problem.rows.design(), task.problem.offset
    args = tuple(map(jnp.asarray, (z, y, offset, np.ones(120))))

    def host(u):
        beta, phi, _ = where.place(u)
        alpha = np.exp(phi[0])
        prior = stats.norm(0, alpha**-0.5).logpdf(beta[1:]).sum()
        prior += stats.norm(0, family.intercept_spread).logpdf(beta[0])
        sigma = np.exp(-0.5 * phi[0])
        prior += stats.expon(scale=1 / 2.3).logpdf(sigma) + np.log(sigma / 2)  # of the deviation
        prior += stats.norm(family.shape_mean[0], family.shape_spread[0]).logpdf(phi[1])
        volume = jax.jacobian(lambda v: jnp.concatenate(where.place(v)[:2]))(jnp.asarray(u))
        return family.log_prob(y, z @ beta + offset, phi[1:]).sum() + prior + np.linalg.slogdet(volume)[1]

    points = 0.7 * np.random.default_rng(3).normal(size=(2, 5))
    gaps = [float(density(jnp.asarray(u), *args)) - host(u) for u in points]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-9)  # one constant
    near = float(density(jnp.zeros(5), *args) - density(jnp.asarray(points[0]), *args))
    assert near == pytest.approx(0.5 * points[0] @ points[0], abs=0.5)  # about standard normal


def test_draws_of_two_coefficients_have_the_moments_of_quadrature():
    """Ten counts, one column, a given prior: means and deviations within five standard errors."""
    x, y = X[:10, :1], TARGETS["poisson"][:10]
    model, run = sample_generalised(x, y, key=0, family="poisson", prior_precision=1.0)
    assert model.verdict.ok
    assert model.verdict.numbers["rhat"] < 1.02
    z = (x[:, 0] - x[:, 0].mean()) / x[:, 0].std()
    b, w = np.meshgrid(np.linspace(-3, 3, 301), np.linspace(-3, 3, 301), indexing="ij")
    eta = model.base + b[..., None] + w[..., None] * z
    logs = (y * eta - np.exp(eta)).sum(-1) - 0.5 * b**2 / 4.0 - 0.5 * w**2
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    slope = w / x[:, 0].std()
    for column, values in enumerate((model.base + b - slope * x[:, 0].mean(), slope)):
        mean = (mass * values).sum()
        sd = np.sqrt((mass * (values - mean) ** 2).sum())
        draws = np.asarray(run.draws["coefficients"])[..., column]
        worth = float(run.report.ess_bulk[column])
        assert abs(draws.mean() - mean) < 5 * sd / worth**0.5
        assert abs(draws.std() / sd - 1) < 5 / worth**0.5
        assert abs(model.coefficients()[0][column] - mean) < 5 * sd / 400**0.5
    wanted = (mass[..., None] * np.exp(eta)).sum((0, 1))
    spread = np.sqrt((mass[..., None] * np.exp(eta) ** 2).sum((0, 1)) - wanted**2)
    assert (np.abs(model.predict_dist(x).mean - wanted) < 5 * spread / 400**0.5).all()


@pytest.mark.parametrize("family", ["gamma", "negative_binomial", "beta", "weibull"])
def test_draws_agree_with_laplace_where_rows_are_many(family):
    """A hundred and twenty rows: within five errors of the draws, of which 400 are kept, and what Laplace's
    method is off by (some hundredths of a deviation)."""
    y, options = TARGETS[family], {"event": CENSORED > 0} if family == "weibull" else {}
    model, run = sample_generalised(X, y, key=1, family=family, num_draws=500, **options)
    laplace = fit_generalised(X, y, family=family, **options)
    assert model.verdict.ok
    assert "Mode: Converged. Draws: Trusted" in model.verdict.sentence
    assert model.log_evidence == laplace.log_evidence
    (mean, sd), (wanted, spread) = model.coefficients(), laplace.coefficients()
    assert (np.abs(mean - wanted) < 0.3 * spread).all()
    assert (np.abs(sd / spread - 1) < 0.2).all()
    draws = np.asarray(run.draws["coefficients"]).reshape(-1, 3)
    assert (np.abs(draws.mean(0) - wanted) < 0.2 * spread).all()  # a skewed posterior has its mean elsewhere
    shape = np.asarray(run.draws["shape"]).ravel()
    middle = float(laplace.weights @ laplace.shapes[:, 0])
    assert abs(shape.mean() - middle) < 0.2 * shape.std()
    first, second = model.predict_dist(X), laplace.predict_dist(X)
    np.testing.assert_allclose(first.cdf(y), second.cdf(y), atol=0.03)


@pytest.mark.thorough
def test_fewer_rows_than_columns_keep_what_rows_do_not_show():
    """Coordinates of eight rows in twelve columns: new rows are as uncertain as under Laplace's method."""
    wide, new = np.hstack([X[:8], *[X[8 * k : 8 * k + 8] for k in range(1, 6)]]), 3 * X[:24].reshape(4, 12)
    y = TARGETS["poisson"][:8]
    options = {"family": "poisson", "prior_precision": 2.0}
    model, _ = sample_generalised(wide, y, key=2, num_draws=300, **options)
    laplace = fit_generalised(wide, y, **options)
    np.testing.assert_allclose(model.coefficients()[1], laplace.coefficients()[1], rtol=0.15)
    moments = []
    for each in (model, laplace):
        mean, variance = each.predictors(new)
        middle = mean @ each.weights
        moments.append([middle, np.sqrt((variance + (mean - middle[:, None]) ** 2) @ each.weights)])
    np.testing.assert_allclose(moments[0][1], moments[1][1], rtol=0.1)
    assert (np.abs(moments[0][0] - moments[1][0]) < 0.2 * moments[1][1]).all()
