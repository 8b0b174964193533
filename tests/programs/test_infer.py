"""`infer`: exact parts found and integrated, the rest by quadrature or chains; independent answers."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal, norm

import tractable as tr
from tractable.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    DiscreteUniform,
    Gamma,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Normal,
    Poisson,
    log_evidence,
)
from tractable.programs import Flat
from tractable.programs.reduced import reduce
from tractable.programs.structure import find_structure
from tractable.programs.survey import survey

RISKS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


@tr.model
def schools(sigma, y=None):
    mu = tr.sample("mu", Normal(0.0, 5.0))
    tau = tr.sample("tau", HalfCauchy(5.0))
    with tr.plate("school", len(sigma)):
        theta = tr.sample("theta", Normal(mu, tau))
        tr.sample("y", Normal(theta, sigma), obs=y)


def _schools_oracle():
    """Evidence and moments of tau, mu and theta by a fine sum over log tau of closed forms."""
    grid = np.linspace(-14, 9, 24_001)
    tau, step = np.exp(grid), grid[1] - grid[0]
    ones = np.ones(8)
    logs, mus, thetas = [], [], []
    for t in tau[::40]:  # the integrand is smooth: 600 nodes are far more than enough
        cov = 25.0 * np.outer(ones, ones) + np.diag(t**2 + RISKS**2)
        logs.append(multivariate_normal(np.zeros(8), cov).logpdf(EFFECTS))
        solved = np.linalg.solve(cov, EFFECTS)
        mus.append(25.0 * solved.sum())
        thetas.append(25.0 * solved.sum() + t**2 * solved)
    nodes = tau[::40]
    prior = np.log(2 / (np.pi * 5.0 * (1 + (nodes / 5.0) ** 2))) + np.log(nodes)
    weights = np.exp(np.array(logs) + prior)
    total = weights.sum() * 40 * step
    mean = [weights @ np.array(each) / weights.sum() for each in (nodes, mus, thetas)]
    return np.log(total), *mean


def test_eight_schools_are_left_with_one_number():
    post = tr.infer(schools, sigma=RISKS, y=EFFECTS, key=0)
    evidence, tau, mu, theta = _schools_oracle()
    assert post.explain().before == 10
    assert post.explain().after == 1
    assert post.verdict.ok, post.verdict
    np.testing.assert_allclose(float(post.log_evidence.value), evidence, atol=1e-6)
    draws = post["theta"].size // 8
    assert abs(post["tau"].mean() - tau) < 4 * post["tau"].std() / np.sqrt(draws)
    assert abs(post["mu"].mean() - mu) < 4 * post["mu"].std() / np.sqrt(draws)
    np.testing.assert_array_less(
        abs(post["theta"].mean((0, 1)) - theta), 4 * post["theta"].std((0, 1)) / np.sqrt(draws)
    )
    again = post.predict(key=1)
    assert again.mean["y"].shape == (8,)
    assert "theta" in repr(post.explain())
    assert post.loo() is not None


@pytest.mark.thorough
def test_kept_latents_stay_and_chains_agree_with_quadrature():
    post = tr.infer(schools, sigma=RISKS, y=EFFECTS, key=0, method="nuts", keep=["mu"], progress=False)
    assert post.explain().after == 2
    _, tau, mu, _ = _schools_oracle()
    report = post.summary(["mu", "tau"])
    assert abs(report["mean"]["mu"] - mu) < 4 * report["mcse"]["mu"]
    assert abs(report["mean"]["tau"] - tau) < 4 * report["mcse"]["tau"]


@tr.model
def sprinkler(wet):
    cloudy = tr.sample("cloudy", Bernoulli(0.5))
    on = tr.sample("on", Bernoulli(jnp.where(cloudy == 1, 0.1, 0.5)))
    rain = tr.sample("rain", Bernoulli(jnp.where(cloudy == 1, 0.8, 0.2)))
    tr.sample("wet", Bernoulli(jnp.array([[0.0, 0.9], [0.9, 0.99]])[on, rain]), obs=wet)


def test_a_network_is_exact():
    post = tr.infer(sprinkler, wet=1, key=0)
    np.testing.assert_allclose(np.exp(float(post.log_evidence.value)), 0.6471, atol=1e-12)
    error = 4 * np.sqrt(0.25 / post["rain"].size)
    assert abs(post["rain"].mean() - 0.7079) < error
    assert abs(post["on"].mean() - 0.4298) < error
    assert post.log_evidence.method == "closed_form"


def test_a_hidden_chain_is_summed_in_order():
    rows, means, y = (
        np.array([[0.9, 0.1], [0.3, 0.7]]),
        np.array([-1.0, 1.5]),
        np.array([-1.2, 0.3, 1.0, 2.2]),
    )

    @tr.model
    def chain(y):
        def step(z, seen):
            z = tr.sample("z", Categorical(jnp.asarray(rows)[z]))
            tr.sample("y", Normal(jnp.asarray(means)[z], 1.0), obs=seen)
            return z, None

        tr.scan("t", step, jnp.asarray(0), y)

    post = tr.infer(chain, y, key=0)
    alpha = rows[0]
    for t, value in enumerate(y):
        alpha = (alpha @ rows if t else alpha) * np.exp(-0.5 * (value - means) ** 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(float(post.log_evidence.value), np.log(alpha.sum()), rtol=1e-12)
    last = alpha[1] / alpha.sum()
    assert abs(post["z"][..., -1].mean() - last) < 4 * np.sqrt(last * (1 - last) / 4000)


def test_a_flat_prior_gives_least_squares():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    y = x @ [1.0, -2.0] + rng.normal(size=30)

    @tr.model
    def line(x, y):
        slopes = tr.sample("slopes", Flat(shape=(2,)))
        with tr.plate("row", len(y)):
            tr.sample("y", Normal(x @ slopes, 1.0), obs=y)

    post = tr.infer(line, x, y, key=0)
    want, cov = np.linalg.lstsq(x, y, rcond=None)[0], np.linalg.inv(x.T @ x)
    error = 4 * np.sqrt(np.diag(cov) / post["slopes"][..., 0].size)
    np.testing.assert_array_less(abs(post["slopes"].mean((0, 1)) - want), error)
    assert post.explain().after == 0


def test_a_change_point_is_summed_over():
    y = np.array([5, 4, 6, 5, 1, 0, 2, 1])

    @tr.model
    def change(y):
        early, late = tr.sample("early", Gamma(2.0, 1.0)), tr.sample("late", Gamma(2.0, 1.0))
        place = tr.sample("place", DiscreteUniform(1, 7))
        with tr.plate("year", len(y)) as years:
            tr.sample("y", Poisson(jnp.where(years < place, early, late)), obs=y)

    post = tr.infer(change, y, key=0)
    assert post.verdict.ok

    def part(counts):  # the evidence of Poisson counts under Gamma(2, 1)
        n, s = len(counts), counts.sum()
        return gammaln(2 + s) - gammaln(2) - (2 + s) * np.log1p(n) - gammaln(counts + 1).sum()

    logs = np.array([part(y[:k]) + part(y[k:]) for k in range(1, 8)])
    np.testing.assert_allclose(
        float(post.log_evidence.value), np.logaddexp.reduce(logs) - np.log(7), atol=1e-6
    )
    share = np.exp(logs - np.logaddexp.reduce(logs))
    found = np.bincount(post["place"].ravel(), minlength=8)[1:] / post["place"].size
    np.testing.assert_array_less(
        abs(found - share), 4 * np.sqrt(share * (1 - share) / post["place"].size) + 1e-9
    )


def test_a_second_data_set_traces_nothing_anew():
    count = []

    @tr.model
    def counted(y):
        count.append(1)
        spread = tr.sample("spread", HalfNormal(1.0))
        with tr.plate("row", len(y)):
            tr.sample("y", Normal(tr.sample("x", Normal(0.0, spread)), 1.0), obs=y)

    tr.infer(counted, np.arange(4.0), key=0)
    first = len(count)
    tr.infer(counted, np.arange(4.0) + 1, key=0)
    assert len(count) - first <= 5  # the host looks at the structure again; nothing is compiled


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("law", "words"),
    [
        (Poisson(3.0), "of finitely many values known beforehand"),
        (Normal(0.0, 1.0), "'exact' with latents left"),
    ],
)
def test_what_cannot_be_done_is_said(law, words):
    @tr.model
    def hidden():
        x = tr.sample("x", law)
        tr.sample("y", Normal(jnp.exp(x), 1.0), obs=0.5)

    with pytest.raises(ValueError, match=words):
        tr.infer(hidden, key=0, method="exact")


@tr.model
def rates(y):
    rate = tr.sample("rate", Gamma(3.0, 1.0))
    with tr.plate("row", len(y)):
        tr.sample("y", Poisson(rate), obs=y)


@pytest.mark.parametrize(
    ("method", "num_draws"),
    [
        ("importance", None),
        ("nuts", None),
        ("vi", None),
        ("metropolis", 4000),
        ("laplace", None),
        ("pathfinder", 4000),
        ("smc", None),
        ("quadrature", None),
    ],
)
def test_every_method_gives_the_conjugate_answer(method, num_draws):
    y = np.array([2, 4, 3, 5])
    post = tr.infer(rates, y, key=0, method=method, num_draws=num_draws, keep=["rate"], progress=False)
    assert post.verdict.ok or method == "pathfinder", post.verdict  # it says that its tail is not certain
    a, b = 3.0 + y.sum(), 1.0 + len(y)
    spread, chains = np.sqrt(a) / b, method in ("nuts", "metropolis")
    size = post.report.ess_bulk.min() if chains else post["rate"].size / 4  # weights are not all alike
    bias = 0.05 * spread if method in ("vi", "laplace") else 0.0  # a Gaussian of log rates
    assert abs(post["rate"].mean() - a / b) < 4 * spread / np.sqrt(size) + bias


def test_observed_values_are_looked_at_first():
    @tr.model
    def positive(y):
        scale = tr.sample("scale", HalfNormal(1.0))
        with tr.plate("row", len(y)):
            tr.sample("y", HalfNormal(scale), obs=y)

    with pytest.raises(
        ValueError, match=r"`y` must be .*; got -2.0 at index 1. It is observed at .*test_infer"
    ):
        tr.infer(positive, np.array([1.0, -2.0]), key=0)


def test_the_same_key_gives_the_same_draws():
    first, second = (tr.infer(sprinkler, wet=1, key=jr.key(7)) for _ in range(2))
    np.testing.assert_array_equal(first["rain"], second["rain"])


# --- conjugate parts -----------------------------------------------------------------------------------


def test_a_coin_is_exact():
    @tr.model
    def coin(tosses):
        bias = tr.sample("bias", Beta(2.0, 3.0))
        with tr.plate("toss", len(tosses)):
            tr.sample("tosses", Bernoulli(bias), obs=tosses)

    post = tr.infer(coin, np.array([1, 1, 1, 0]), key=0)
    assert post.explain().after == 0
    want = log_evidence(Beta(2.0, 3.0), Bernoulli, np.array([1.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(float(post.log_evidence.value), float(want), rtol=1e-12)
    assert abs(post["bias"].mean() - 5 / 9) < 4 * post["bias"].std() / np.sqrt(post["bias"].size)


def test_rates_of_groups_with_exposures_leave_their_hyperparameters():
    rng = np.random.default_rng(0)
    group, exposure = rng.integers(0, 3, 12), rng.uniform(0.5, 2.0, 12)
    y = rng.poisson(2.0 * exposure)

    @tr.model
    def groups(group, exposure, y):
        shape = tr.sample("shape", Gamma(2.0, 1.0))
        with tr.plate("group", 3):
            rate = tr.sample("rate", Gamma(shape, 0.5))
        with tr.plate("row", len(y)):
            tr.sample("y", Poisson(rate[group] * exposure), obs=y)

    bound = groups.bind(group, exposure, y)
    facts = survey(bound)
    structure = find_structure(facts)
    assert structure.remaining == ("shape",)
    reduced = reduce(bound, facts, structure, {"shape": jnp.asarray(1.0)})
    a = 1.7
    want = stats.gamma(2.0).logpdf(a)
    for g in range(3):  # Gamma-Poisson with exposures, in closed form
        own = group == g
        count, time = y[own].sum(), exposure[own].sum()
        want += a * np.log(0.5) - (a + count) * np.log(0.5 + time) + gammaln(a + count) - gammaln(a)
        want += (y[own] * np.log(exposure[own]) - gammaln(y[own] + 1)).sum()
    np.testing.assert_allclose(float(reduced({"shape": jnp.asarray(a)})), want, rtol=1e-12)
    post = tr.infer(bound, key=0)
    assert post.verdict.ok
    assert post["rate"].shape[2:] == (3,)


def test_shares_and_variances_are_exact():
    labels, readings = np.array([0, 2, 2, 1, 2]), np.array([1.0, -0.5, 2.0])

    @tr.model
    def both(labels, readings):
        shares = tr.sample("shares", Dirichlet(np.array([1.0, 2.0, 0.5])))
        variance = tr.sample("variance", InverseGamma(3.0, 2.0))
        precision = tr.sample("precision", Gamma(2.0, 2.0))
        with tr.plate("label", len(labels)):
            tr.sample("labels", Categorical(shares), obs=labels)
        with tr.plate("reading", len(readings)):
            tr.sample("first", Normal(0.5, 2.0 * jnp.sqrt(variance)), obs=readings)
            tr.sample("second", Normal(0.0, 1 / jnp.sqrt(precision)), obs=readings)

    post = tr.infer(both, labels, readings, key=0)
    assert post.explain().after == 0
    want = log_evidence(Dirichlet(np.array([1.0, 2.0, 0.5])), Categorical, labels.astype(float))
    # scale 2 sqrt(v): readings halved about their mean, with the Jacobian of the halving
    want += log_evidence(InverseGamma(3.0, 2.0), Normal(0.0, 1.0), (readings - 0.5) / 2) - 3 * np.log(2.0)
    want += log_evidence(Gamma(2.0, 2.0), Normal(0.0, 1.0), readings)
    np.testing.assert_allclose(float(post.log_evidence.value), float(want), rtol=1e-11)
    mean = np.array([2.0, 3.0, 3.5]) / 8.5
    np.testing.assert_array_less(abs(post["shares"].mean((0, 1)) - mean), 4 * post["shares"].std((0, 1)) / 60)


@pytest.mark.parametrize("precise", [False, True])
def test_normal_inverse_gamma_regression_is_exact(precise):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 3))
    y = x @ [1.0, 0.0, -1.0] + rng.normal(size=12)

    @tr.model
    def regression(x, y):
        if precise:
            root = 1 / jnp.sqrt(tr.sample("precision", Gamma(2.0, 3.0)))
        else:
            root = jnp.sqrt(tr.sample("variance", InverseGamma(2.0, 3.0)))
        slopes = tr.sample("slopes", Normal(np.zeros(3), 2.0 * root))
        with tr.plate("row", len(y)):
            tr.sample("y", Normal(x @ slopes, 0.5 * root), obs=y)

    post = tr.infer(regression, x, y, key=0)
    assert post.explain().after == 0
    shape = 1.5 * (0.25 * np.eye(12) + 4.0 * x @ x.T)  # (b / a) times the covariance at v = 1
    want = stats.multivariate_t(np.zeros(12), shape, df=4).logpdf(y)
    np.testing.assert_allclose(float(post.log_evidence.value), want, rtol=1e-10)
    mean = np.linalg.solve(x.T @ x / 0.25 + np.eye(3) / 4.0, x.T @ y / 0.25)
    error = 4 * post["slopes"].std((0, 1)) / np.sqrt(post["slopes"][..., 0].size)
    np.testing.assert_array_less(abs(post["slopes"].mean((0, 1)) - mean), error)


def _clipped(p):
    return jnp.clip(p, 0.1, 0.9)


def _halved(p):
    return p / 2


@pytest.mark.cheap
@pytest.mark.parametrize("change", [_clipped, _halved, jnp.square])
def test_another_function_of_a_chance_is_not_taken_for_it(change):
    @tr.model
    def changed(y):
        p = tr.sample("p", Beta(2.0, 2.0))
        with tr.plate("row", len(y)):
            tr.sample("y", Bernoulli(change(p)), obs=y)

    structure = find_structure(survey(changed.bind(np.array([1, 0, 1]))))
    assert structure.remaining == ("p",)
    assert "another way" in structure.reasons["p"]


@pytest.mark.thorough
def test_a_level_that_hardly_moves_is_on_the_grid_but_for_a_corner():
    y = np.random.default_rng(1).normal(2.0, 1.0, 80)

    @tr.model
    def readings(y):
        move = tr.sample("move", HalfNormal(1.0))
        noise = tr.sample("noise", HalfNormal(1.0))

        def step(level, reading):
            level = tr.sample("level", Normal(level, move))
            tr.sample("y", Normal(level, noise), obs=reading)
            return level, None

        tr.scan("time", step, tr.sample("first", Normal(0.0, 5.0)), y)

    post = tr.infer(readings, y, key=0, progress=False)
    assert post.verdict.ok, post.verdict
    assert 0 < post.verdict.numbers["undefined"] < 1e-4  # the chain has no digits at spreads of 1e-8
    log_move, noise = np.meshgrid(np.linspace(-24, 2, 105), np.linspace(0.3, 2.3, 61), indexing="ij")
    total, mean, spread = np.zeros_like(noise), np.zeros_like(noise), np.full_like(noise, 25.0)
    for reading in y:  # Kalman's filter at every point of a grid
        spread = spread + np.exp(2 * log_move)
        variance = spread + noise**2
        total += stats.norm.logpdf(reading, mean, np.sqrt(variance))
        gain = spread / variance
        mean, spread = mean + gain * (reading - mean), (1 - gain) * spread
    total += stats.halfnorm.logpdf(np.exp(log_move)) + log_move + stats.halfnorm.logpdf(noise)
    want = total.max() + np.log(np.exp(total - total.max()).sum() * 26 / 104 * 2 / 60)
    assert abs(float(post.log_evidence.value) - want) < 1e-5


def test_particles_answer_where_chains_settle_in_different_modes():
    """Sixteen modes; the latents are independent, so that one integral for each is an oracle."""

    @tr.model
    def signs(y):
        with tr.plate("i", len(y)):
            x = tr.sample("x", Normal(0.0, 2.0))
            tr.sample("y", Normal(x**2 + 0.3 * x, 0.3), obs=y)

    y = np.array([0.5, 3.0, 1.0, 6.0])
    line, step = np.linspace(-12, 12, 40001, retstep=True)
    logs = norm.logpdf(y[:, None], line**2 + 0.3 * line, 0.3) + norm.logpdf(line, 0, 2)
    exact = (logsumexp(logs, axis=1) + np.log(step)).sum()
    means = (np.exp(logs - logsumexp(logs, axis=1)[:, None]) * line).sum(1)
    post = tr.infer(signs, y=y, key=1, progress=False)
    assert post.verdict.ok, post.verdict.sentence
    assert any("smc" in sentence for sentence in post.explain().sentences)
    found = post.log_evidence
    assert abs(found.value - exact) < 4 * found.standard_error < 0.4
    # the shares of modes are as uncertain as the evidence: no mean by more than that share of their distance
    allowed = 4 * found.standard_error * 2 * np.sqrt(y)
    np.testing.assert_array_less(np.abs(post["x"].mean((0, 1)) - means), allowed)
