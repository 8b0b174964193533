"""One type of posterior: the same questions of exact, sampled, variational, Laplace and particle answers."""

import sys
import types
from functools import cache

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import tractable as tr
from tractable.distributions import Gamma, HalfNormal, Normal, Poisson
from tractable.inference import (
    Posterior,
    bayes_factor,
    bridge_evidence,
    compare,
    importance,
    laplace,
    loo,
    mcmc,
    model_posterior,
    pathfinder,
    smc,
    vi,
    waic,
)
from tractable.inference.trust.evidence import Evidence, Grounds

# y_n ~ N(mu, 1), mu ~ N(0, 2^2): everything is known in closed form
ROWS = np.random.default_rng(0).normal(1.0, 1.0, 12)
COV = np.eye(12) + 4.0 * np.ones((12, 12))
LOG_EVIDENCE = stats.multivariate_normal(np.zeros(12), COV).logpdf(ROWS)
VARIANCE = 1 / (12 + 1 / 4)
MEAN = VARIANCE * ROWS.sum()


def normal_rows(x):
    return Normal(x["mu"], 1.0)


def numbers(x, y):
    return -0.5 * (y - x["mu"]) ** 2 - 0.5 * jnp.log(2 * jnp.pi)


STATED = {"prior": {"mu": Normal(0.0, 2.0)}, "likelihood": normal_rows, "observed": ROWS}
KINDS = {
    "mcmc": lambda: mcmc(**STATED, key=0, progress=False),
    "exact": lambda: tr.posterior(Normal(0.0, 2.0), Normal(0.0, 1.0), ROWS),
    "laplace": lambda: laplace(**STATED),
    "vi": lambda: vi(**STATED, key=0, method="lbfgs"),
    "smc": lambda: smc(**STATED, key=0),
}


@cache
def posterior(kind):
    return KINDS[kind]()


def log_predictive(seen):
    """The exact predictive of a row given others."""
    variance = 1 / (len(seen) + 1 / 4)
    return stats.norm(variance * np.sum(seen), np.sqrt(1 + variance))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_posterior_with_the_exact_evidence(kind):
    post = posterior(kind)
    assert isinstance(post, Posterior)
    found = post.log_evidence
    assert isinstance(found, Evidence)
    assert abs(float(found.value) - LOG_EVIDENCE) <= 4 * float(found.standard_error) + 1e-6
    assert float(found.standard_error) < 0.2
    assert found.grounds == Grounds("proper", 12, found.grounds.rows, "density")


@pytest.mark.parametrize("kind", KINDS)
def test_summaries_are_those_of_the_closed_form(kind):
    post = posterior(kind)
    (name,) = post.names
    table = post.summary()
    assert ("rhat" in table.columns) == (kind == "mcmc")
    row, draws = table.loc[name], post[name]
    worth = 400 if kind in ("mcmc", "smc") else 1500
    assert abs(row["mean"] - MEAN) < 4 * np.sqrt(VARIANCE / worth)
    assert abs(row["sd"] / np.sqrt(VARIANCE) - 1) < 4 / np.sqrt(2 * worth)
    assert draws.ndim == 2
    assert draws.shape == (draws.shape[0], post.to_frame().shape[0] // draws.shape[0])
    np.testing.assert_array_equal(post.to_frame()[name], draws.reshape(-1))
    assert post.verdict.sentence in repr(post)
    assert "<table" in post._repr_html_()


@pytest.mark.parametrize("kind", KINDS)
def test_leave_one_out_is_the_exact_one(kind):
    found = posterior(kind).loo()
    exact = [log_predictive(np.delete(ROWS, i)).logpdf(ROWS[i]) for i in range(12)]
    # a log-likelihood spreads by at most |y - mean| / sqrt(12) over the draws, which are worth 400 or more
    tolerance = 4 * np.abs(ROWS - MEAN).max() * np.sqrt(VARIANCE / 400)
    np.testing.assert_allclose(found.pointwise, exact, atol=tolerance)
    np.testing.assert_allclose(found.elpd.value, sum(exact), atol=0.1)
    np.testing.assert_allclose(posterior(kind).waic().elpd.value, found.elpd.value, atol=0.1)
    assert found.verdict.ok


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_the_closed_form(kind):
    post = posterior(kind)
    found, exact = post.predict(key=1), log_predictive(ROWS)
    variance = exact.var()
    np.testing.assert_allclose(found.mean, MEAN, atol=4 * np.sqrt(variance / 400))
    np.testing.assert_allclose(found.variance, variance, rtol=4 * np.sqrt(2 / 400))
    double = post.predict(lambda x: 2 * (x["mu"] if isinstance(x, dict) else x))
    np.testing.assert_allclose(double.mean, 2 * MEAN, atol=8 * np.sqrt(VARIANCE / 400))
    if kind != "exact":
        low, high = found.interval(0.9)
        np.testing.assert_allclose(low, exact.ppf(0.05), atol=0.3)
        np.testing.assert_allclose(high, exact.ppf(0.95), atol=0.3)
        share = found.check(jnp.mean)
        assert 0.3 < float(share.value) < 0.7


@pytest.mark.thorough
def test_a_likelihood_of_numbers_is_the_same_model():
    post = laplace(prior=STATED["prior"], likelihood=numbers, args=(ROWS,))
    np.testing.assert_allclose(post.log_evidence.value, LOG_EVIDENCE, rtol=1e-9)
    np.testing.assert_allclose(loo(post).pointwise, posterior("laplace").loo().pointwise, rtol=1e-9)
    assert compare({"numbers": post, "rows": posterior("laplace")}).differences.value[1] == pytest.approx(0)
    with pytest.raises(ValueError, match="`model` must be given, for a likelihood of numbers"):
        post.predict(key=0)


@pytest.mark.thorough
def test_functions_take_a_posterior_as_it_is():
    post = posterior("mcmc")
    asked = tr.posterior(STATED["prior"], normal_rows, observed=ROWS, key=0, progress=False)
    np.testing.assert_array_equal(asked["mu"], post["mu"])
    np.testing.assert_array_equal(loo(post).pointwise, post.loo().pointwise)
    np.testing.assert_array_equal(waic(post).pointwise, post.waic().pointwise)
    found = bridge_evidence(
        lambda x, y: numbers(x, y).sum() + Normal(0.0, 2.0).log_prob(x["mu"]), post, key=0, args=(ROWS,)
    )
    np.testing.assert_allclose(found.value, post.log_evidence.value, rtol=1e-12)
    assert set(post.compare(posterior("laplace")).names) == {"this", "other"}
    both = model_posterior({"chains": post, "Gaussian": posterior("laplace")})
    np.testing.assert_allclose(both.probs, 0.5, atol=0.02)


@pytest.mark.thorough
def test_constrained_parameters_and_bridges():
    # Gamma(3, 2) rate of Poisson counts: the evidence is exact by conjugacy
    counts = np.array([2, 0, 3, 1, 2, 4])
    exact = tr.posterior(Gamma(3.0, 2.0), Poisson, counts)
    stated = {
        "prior": {"rate": Gamma(3.0, 2.0)},
        "likelihood": lambda x: Poisson(x["rate"]),
        "observed": counts,
    }
    post = mcmc(**stated, key=1, num_draws=500, progress=False)
    found = post.log_evidence
    assert abs(float(found.value) - float(exact.log_evidence.value)) < 4 * float(found.standard_error)
    assert found.grounds.measure == "mass"
    paths = pathfinder(**stated, key=0)
    found = paths.log_evidence
    assert abs(float(found.value) - float(exact.log_evidence.value)) < 4 * float(found.standard_error)
    assert found.grounds == post.log_evidence.grounds
    assert abs(float(paths["rate"].mean()) - 15 / 8) < 0.2  # draws of the paths, by their weights
    with pytest.raises(ValueError, match="`prior, observed` must be left out beside a log-density"):
        pathfinder(lambda x: -0.5 * x**2, 0.0, key=0, prior=Normal(0.0, 1.0))


@pytest.mark.thorough
def test_leave_one_out_of_an_approximation_counts_its_weights():
    """Few Poisson counts: the Gaussian at the mode leans away from the posterior, and its weights mend it."""
    counts = np.array([0, 1, 0, 2, 0, 3])
    stated = {
        "prior": {"rate": Gamma(1.0, 1.0)},
        "likelihood": lambda x: Poisson(x["rate"]),
        "observed": counts,
    }

    def exact(i):  # negative binomial: Gamma(1 + sum, 1 + n) without row i
        shape, rate = 1 + counts.sum() - counts[i], 1 + len(counts) - 1
        return stats.nbinom(shape, rate / (rate + 1)).logpmf(counts[i])

    post = laplace(**stated)
    found, truth = post.loo(), np.array([exact(i) for i in range(6)])
    np.testing.assert_allclose(found.pointwise, truth, atol=0.05)
    assert found.num_draws == post.look.draws.shape[0]
    assert found.verdict.ok == (post.verdict.ok and not len(found.suspects))
    if not post.verdict.ok:
        assert post.verdict.sentence in found.verdict.sentence


def test_a_saved_posterior_asks_for_its_model_and_goes_on(tmp_path):
    post = mcmc(**STATED, key=0, num_draws=250, progress=False)
    post.save(tmp_path / "half")
    again = tr.load(tmp_path / "half")
    np.testing.assert_allclose(again.loo(numbers, ROWS).pointwise, post.loo().pointwise, rtol=1e-9)
    with pytest.raises(ValueError, match="`likelihood` must be known, or given; got a run without its model"):
        again.loo()
    with pytest.raises(ValueError, match="`log_evidence` must be asked of a run that carries its density"):
        again.log_evidence
    whole = mcmc(**STATED, key=0, num_draws=500, progress=False)
    np.testing.assert_array_equal(post.resume(progress=False)["mu"], whole["mu"])
    read = tr.resume(tmp_path / "half", **STATED, progress=False)
    np.testing.assert_array_equal(read["mu"], whole["mu"])
    with pytest.raises(TypeError, match="`resume` must be asked of a run of chains; got LaplacePosterior"):
        posterior("laplace").resume()


@pytest.mark.thorough
def test_evidences_that_cannot_be_compared_are_refused_by_name():
    fair = posterior("laplace")
    rows = {"likelihood": normal_rows, "observed": ROWS}
    flat = laplace(**rows, start={"mu": 0.0})
    looked = laplace(**rows, prior=lambda: {"mu": Normal(float(ROWS.mean()), 1.0)})
    fewer = laplace(**(STATED | {"observed": ROWS[:6]}))
    other = laplace(**(STATED | {"observed": ROWS[::-1]}))
    counted = Evidence(jnp.zeros(()), jnp.zeros(()), jnp.asarray(1), grounds=Grounds(measure="mass"))
    cases = [
        (flat, "must be comparable; got second, with an improper prior"),
        (looked, "must be comparable; got second, with a prior that was made of the data"),
        (fewer, "must be of the same rows; got {'first': 12, 'second': 6}"),
        (other, "must be of the same observed rows; got \\['first', 'second'\\]"),
        (counted, "must be of the same measure; got {'first': 'density', 'second': 'mass'}"),
    ]
    for second, message in cases:
        with pytest.raises(ValueError, match=message):
            model_posterior({"first": fair, "second": second})
        with pytest.raises(
            ValueError, match=message.replace("second", "the second").replace("first", "the first")
        ):
            bayes_factor(fair, second)
    bare = laplace(lambda mu: -0.5 * mu**2, 0.0)
    message = "must be comparable; got second, with unknown grounds: it is the mass of a log-density"
    weights = importance(lambda x: -0.5 * x**2, Normal(0.0, 2.0), key=jr.key(0), num_draws=100)
    for second in (bare, bare.log_evidence, weights):
        with pytest.raises(ValueError, match=message):
            model_posterior({"first": fair, "second": second})
    with pytest.raises(ValueError, match="got the second, with unknown grounds"):
        bayes_factor(-3.0, bare)
    vouched = bayes_factor(-3.0, bare, unknown_grounds=True)
    np.testing.assert_allclose(vouched.value, -3.0 - float(bare.log_evidence.value))
    assert model_posterior([bare, bare], unknown_grounds=True).probs[0] == 0.5
    assert "Not to be compared" in flat.log_evidence.verdict.sentence
    with pytest.raises(ValueError, match="`fits` must be of the same rows"):
        compare({"all": fair, "few": fewer})


def test_sums_over_rows_are_refused():
    with pytest.raises(ValueError, match=r"one number per row.*got shape \(4, 1000\). Sums over the rows"):
        loo(np.zeros((4, 1000)))
    summed = laplace(prior=STATED["prior"], likelihood=lambda x, y: numbers(x, y).sum(), args=(ROWS,))
    for ask in (summed.loo, summed.waic):
        with pytest.raises(ValueError, match=r"`likelihood` must be one number per row.*Do not sum"):
            ask()
    plain = laplace(lambda x: -0.5 * x**2, 0.0)
    with pytest.raises(
        ValueError, match="`likelihood` must be known, or given; got a run of one log-density"
    ):
        plain.loo()


def test_a_model_is_stated_one_way():
    with pytest.raises(ValueError, match="`log_density` must be left out beside `likelihood`"):
        laplace(lambda x: -(x**2), 0.0, likelihood=normal_rows)
    with pytest.raises(ValueError, match="`start` must be given where there is no `prior`"):
        laplace(likelihood=normal_rows, observed=ROWS)
    with pytest.raises(ValueError, match="`likelihood` must be a distribution with `observed`"):
        laplace(prior=STATED["prior"], likelihood=lambda x: x["mu"], observed=ROWS)
    with pytest.raises(ValueError, match="`prior, observed` must be left out beside a log-density"):
        mcmc(lambda x: -(x**2), 0.0, prior=HalfNormal(1.0), key=0)


@pytest.mark.thorough
def test_mini_batches_take_the_prior_once():
    post = vi(prior=STATED["prior"], likelihood=numbers, args=(ROWS,), batch=4, key=0, max_steps=4000)
    assert abs(float(post["mu"].mean()) - MEAN) < 0.1


def test_export_to_arviz_is_complete(monkeypatch):
    seen = {}
    fake = types.ModuleType("arviz")
    fake.__dict__.update(__version__="1.0.0", from_dict=lambda groups, **rest: seen.update(groups, **rest))
    monkeypatch.setitem(sys.modules, "arviz", fake)
    post = posterior("mcmc")
    post.to_arviz(coords={"row": np.arange(100, 112)}, key=3)
    groups = {"posterior", "sample_stats", "log_likelihood", "posterior_predictive", "observed_data"}
    assert set(seen) == groups | {"coords", "dims"}
    assert seen["log_likelihood"]["y"].shape == seen["posterior_predictive"]["y"].shape == (4, 1000, 12)
    np.testing.assert_array_equal(seen["observed_data"]["y"], ROWS)
    np.testing.assert_allclose(
        seen["log_likelihood"]["y"][0, 0], stats.norm(post["mu"][0, 0], 1).logpdf(ROWS), rtol=1e-12
    )
    assert seen["dims"] == {"y": ["row"]}
    assert seen["coords"]["row"][0] == 100
    seen.clear()
    posterior("laplace").to_arviz()
    assert set(seen) == {"posterior", "log_likelihood", "observed_data", "coords", "dims"}
