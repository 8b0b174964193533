"""Guides, sought parameters and batches of plates: closed forms, expectation-maximisation, sums."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import tractable as tr
from tractable.distributions import Bernoulli, Categorical, Gamma, HalfNormal, Normal, Poisson
from tractable.programs.batches import BatchDensity, check_units, find_batches
from tractable.programs.preparing import prepared
from tractable.programs.structure import find_structure
from tractable.programs.survey import survey

Y = np.array([1.2, 0.7, 2.1, 1.5, 0.2])


@tr.model
def normal(y):
    mu = tr.sample("mu", Normal(0.0, 2.0))
    with tr.plate("row", len(y)):
        tr.sample("y", Normal(mu, 1.0), obs=y)


@tr.model
def normal_guide():
    tr.sample("mu", Normal(tr.param("loc", 0.0), tr.param("spread", 1.0, "positive")))


@tr.model
def wrong_guide():
    tr.sample("mu", Normal(tr.param("loc", 0.0), 0.05))


def _normal_oracle():
    precision = 0.25 + len(Y)
    cov = np.eye(len(Y)) + 4.0
    evidence = -0.5 * (Y @ np.linalg.solve(cov, Y) + np.linalg.slogdet(2 * np.pi * cov)[1])
    return Y.sum() / precision, precision**-0.5, evidence


def test_a_written_guide_that_holds_the_posterior_finds_it():
    post = tr.infer(normal, Y, key=0, method="svi", guide=normal_guide, progress=False)
    mean, spread, evidence = _normal_oracle()
    # the gradient has no variance at the posterior: what is left is where the ladder ended
    np.testing.assert_allclose(float(post.params["loc"]), mean, atol=0.01 * spread)
    np.testing.assert_allclose(float(post.params["spread"]), spread, rtol=0.01)
    np.testing.assert_allclose(float(post.elbo.value), evidence, atol=1e-4)
    np.testing.assert_allclose(float(post.log_evidence.value), evidence, atol=1e-3)
    assert post.verdict.ok, post.verdict
    assert post.search.status.ok
    assert abs(post["mu"].mean() - mean) < 4 * spread / np.sqrt(post["mu"].size) + 0.01 * spread
    assert "lower bound" in repr(post.explain())
    assert post.predict(key=1).mean["y"].shape == (5,)


@pytest.mark.thorough
def test_a_poor_guide_is_not_called_good():
    post = tr.infer(normal, Y, key=0, method="svi", guide=wrong_guide, progress=False)
    mean, spread, evidence = _normal_oracle()
    # a climb that is tol = 0.01 nats short of the top is sqrt(0.02) spreads from it
    np.testing.assert_allclose(float(post.params["loc"]), mean, atol=2 * np.sqrt(0.02) * spread)
    # KL(N(m, 0.05^2) | N(m, spread^2)) is what the bound lacks
    gap = np.log(spread / 0.05) + 0.5 * (0.05 / spread) ** 2 - 0.5
    np.testing.assert_allclose(float(post.elbo.value), evidence - gap, atol=0.05)
    assert not post.verdict.ok


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["low_rank", "mean_field", "full_rank"])
def test_an_automatic_guide_finds_the_posterior(family):
    post = tr.infer(normal, Y, key=0, method="svi", guide=family, keep=["mu"], progress=False)
    mean, spread, evidence = _normal_oracle()
    np.testing.assert_allclose(float(post.elbo.value), evidence, atol=1e-3)
    assert abs(post["mu"].mean() - mean) < 4 * spread / np.sqrt(post["mu"].size) + 0.02 * spread
    assert post.verdict.ok


@pytest.mark.thorough
def test_a_gamma_guide_is_the_conjugate_posterior():
    @tr.model
    def rates(y):
        rate = tr.sample("rate", Gamma(3.0, 1.0))
        with tr.plate("row", len(y)):
            tr.sample("y", Poisson(rate), obs=y)

    @tr.model
    def guide(y):
        tr.sample("rate", Gamma(tr.param("a", 2.0, "positive"), tr.param("b", 1.0, "positive")))

    y = np.array([2, 4, 3, 5])
    post = tr.infer(rates, y, key=0, method="svi", guide=guide, progress=False)
    exact = tr.infer(rates, y, key=0)
    np.testing.assert_allclose([float(post.params[k]) for k in "ab"], [17.0, 5.0], rtol=0.02)
    np.testing.assert_allclose(float(post.elbo.value), float(exact.log_evidence.value), atol=1e-3)
    assert post.verdict.ok


def test_spreads_of_groups_are_set_where_the_evidence_is_largest():
    @tr.model
    def groups(y):
        mean, spread = tr.param("mean", 0.0), tr.param("spread", 1.0, "positive")
        with tr.plate("group", len(y)):
            effect = tr.sample("effect", Normal(mean, spread))
            tr.sample("y", Normal(effect, 1.0), obs=y)

    y = np.array([3.0, -2.0, 1.0, 5.0, -4.0, 0.5])
    post = tr.infer(groups, y, key=0)
    assert post.explain().after == 0
    # y ~ N(mean, spread^2 + 1): the mean, and the variance less one
    np.testing.assert_allclose(float(post.params["mean"]), y.mean(), atol=1e-6)
    np.testing.assert_allclose(float(post.params["spread"]), np.sqrt(y.var() - 1), rtol=1e-6)
    shrunk = y.mean() + (1 - 1 / y.var()) * (y - y.mean())
    error = 4 * post["effect"].std((0, 1)) / np.sqrt(post["effect"][..., 0].size)
    np.testing.assert_array_less(abs(post["effect"].mean((0, 1)) - shrunk), error)
    assert "set where the exact evidence is largest" in repr(post.explain())
    assert post.search.status.ok
    assert post.predict(key=1).mean["y"].shape == (6,)


@pytest.mark.thorough
def test_a_mixture_is_what_expectation_maximisation_finds():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(-2, 1, 30), rng.normal(1.5, 0.7, 20)])

    @tr.model
    def mixture(y):
        weights = tr.param("weights", np.ones(2) / 2, "simplex")
        means, spreads = tr.param("means", np.array([-1.0, 1.0])), tr.param("spreads", np.ones(2), "positive")
        with tr.plate("row", len(y)):
            z = tr.sample("z", Categorical(weights))
            tr.sample("y", Normal(means[z], spreads[z]), obs=y)

    post = tr.infer(mixture, y, key=0)
    w, m, s = np.ones(2) / 2, np.array([-1.0, 1.0]), np.ones(2)
    for _ in range(4000):
        logs = np.log(w) - 0.5 * ((y[:, None] - m) / s) ** 2 - np.log(s)
        r = np.exp(logs - np.logaddexp.reduce(logs, 1)[:, None])
        n = r.sum(0)
        w, m = n / len(y), r.T @ y / n
        s = np.sqrt((r * (y[:, None] - m) ** 2).sum(0) / n)
    for name, want in (("weights", w), ("means", m), ("spreads", s)):
        np.testing.assert_allclose(post.params[name], want, atol=1e-5)
    share = r[:, 1]
    error = 4 * np.sqrt(share * (1 - share) / 4000) + 1e-9
    np.testing.assert_array_less(abs(post["z"].mean((0, 1)) - share), error + 1e-3)


@pytest.mark.thorough
def test_a_model_without_latents_is_maximum_likelihood():
    @tr.model
    def rates(y):
        rate = tr.param("rate", 1.0, "positive")
        with tr.plate("row", len(y)):
            tr.sample("y", Poisson(rate), obs=y)

    y = np.array([2, 4, 3, 5])
    post = tr.infer(rates, y, key=0)
    np.testing.assert_allclose(float(post.params["rate"]), y.mean(), rtol=1e-6)
    assert post.predict(key=0).mean["y"].shape == (4,)


@pytest.mark.thorough
def test_parameters_with_latents_that_remain_are_set_by_the_bound():
    """The latent is normal given the data, so that the bound of a Gaussian guide is the evidence itself."""

    @tr.model
    def shifted(y):
        shift = tr.param("shift", 0.0)
        x = tr.sample("x", Normal(shift, 1.0))
        with tr.plate("row", len(y)):
            tr.sample("y", Normal(x, 1.0), obs=y)

    post = tr.infer(shifted, Y, key=0, keep=["x"], progress=False)
    np.testing.assert_allclose(float(post.params["shift"]), Y.mean(), atol=0.1)
    assert post.verdict.ok
    assert "a bound on the evidence" in repr(post.explain())


# --- batches -------------------------------------------------------------------------------------------


@tr.model
def clusters(x, y):
    slope = tr.sample("slope", Normal(0.0, 1.0))
    with tr.plate("row", len(y)):
        z = tr.sample("z", Bernoulli(0.3))
        tr.sample("y", Normal(slope * x + z, 1.0), obs=y)


def _batch_density(size, count):
    rng = np.random.default_rng(0)
    bound = clusters.bind(rng.normal(size=size), rng.normal(size=size))
    facts = survey(bound)
    batches = find_batches(bound, facts, {"row": count})
    part = batches.taken(np.arange(count))
    seen = survey(part)
    task, _ = prepared(part, seen, find_structure(seen, ["slope"]))
    rest = batches.taken(np.arange(size % count))
    others = survey(rest)
    last = prepared(rest, others, find_structure(others, ["slope"]))[0].reduced
    whole = prepared(bound, facts, find_structure(facts, ["slope"]))[0].reduced
    return BatchDensity(batches, task.reduced, last, (), ("z", "y")), whole


def test_batches_have_the_whole_density_as_their_mean():
    density, whole = _batch_density(5, 2)
    slope = {"slope": jnp.asarray(0.4)}
    rows = jnp.asarray(list(itertools.product(range(5), repeat=2)))
    found = jax.jit(jax.vmap(lambda each: density({}, slope, each)))(rows)
    want = float(whole(slope))
    assert np.std(found) > 0.1
    np.testing.assert_allclose(found.mean(), want, rtol=1e-12)
    np.testing.assert_allclose(float(density.whole({}, slope)), want, rtol=1e-12)


def test_units_that_differ_by_their_numbers_are_refused():
    @tr.model
    def trend(y):
        slope = tr.sample("slope", Normal(0.0, 1.0))
        with tr.plate("row", len(y)) as rows:
            tr.sample("y", Normal(slope * rows, 1.0), obs=y)

    bound = trend.bind(np.arange(5.0))
    batches = find_batches(bound, survey(bound), {"row": 2})
    with pytest.raises(ValueError, match="the density of y` must be the same in a batch of 'row'"):
        check_units(batches, ("y",), {"slope": jnp.asarray(1.0)}, jr.key(1))


@tr.model
def local(y):
    mean = tr.sample("mean", Normal(0.0, 1.0))
    with tr.plate("row", len(y)):
        x = tr.sample("x", HalfNormal(1.0))
        tr.sample("y", Normal(mean + x, 1.0), obs=y)


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": {"row": 2}}, "a plate without latents that remain; got x"),
        ({"batch": {"column": 2}}, r"by the name of a plate \(row\); got 'column'"),
        ({"batch": {"row": 9}}, "from 1 to 5; got 9"),
        (
            {"guide": normal_guide},
            r"every site is one of the model's latents \(mean, x\); got 'mu' at .*test_svi",
        ),
        ({"guide": tr.model(lambda: tr.sample("mean", Normal(0.0, 1.0)))}, "none for x.*test_svi"),
        ({"guide": "rich"}, "guide"),
        ({"method": "nuts", "guide": "full_rank"}, "'svi' with a guide"),
    ],
)
def test_what_guides_and_batches_cannot_do_is_said(options, words):
    with pytest.raises(ValueError, match=words):
        tr.infer(local, Y, key=0, progress=False, **options)


@pytest.mark.thorough
def test_batches_of_a_logistic_regression_reach_the_answer_of_all_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2003, 3))
    y = (rng.random(2003) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.3]))).astype(int)

    @tr.model
    def logistic(x, y):
        slopes = tr.sample("slopes", Normal(np.zeros(3), 2.0))
        with tr.plate("row", len(y)):
            tr.sample("y", Bernoulli(logits=x @ slopes), obs=y)

    post = tr.infer(logistic, x, y, key=0, method="svi", batch={"row": 400}, progress=False)
    full = tr.infer(logistic, x, y, key=0, method="laplace")
    spread = full["slopes"].std((0, 1))
    np.testing.assert_array_less(abs(post["slopes"].mean((0, 1)) - full["slopes"].mean((0, 1))), 0.5 * spread)
    np.testing.assert_allclose(post["slopes"].std((0, 1)), spread, rtol=0.25)
    error = float(post.log_evidence.standard_error) + float(full.log_evidence.standard_error)
    assert abs(float(post.log_evidence.value) - float(full.log_evidence.value)) < 4 * error + 0.05
    assert post.verdict.ok
    assert "count 5.0075 times" in repr(post.explain())


@pytest.mark.thorough
def test_a_guide_that_computes_local_laws_of_the_data_works_in_batches():
    @tr.model
    def model(y):
        mean = tr.sample("mean", Normal(0.0, 1.0))
        with tr.plate("row", len(y)):
            x = tr.sample("x", Normal(mean, 1.0))
            tr.sample("y", Normal(x, 1.0), obs=y)

    @tr.model
    def guide(y):
        tr.sample("mean", Normal(tr.param("loc", 0.0), tr.param("spread", 0.3, "positive")))
        slope, shift = tr.param("slope", 0.0), tr.param("shift", 0.0)
        with tr.plate("row", len(y)):
            tr.sample("x", Normal(slope * y + shift, tr.param("width", 1.0, "positive")))

    y = np.random.default_rng(0).normal(1.0, np.sqrt(2.0), size=200)
    post = tr.infer(model, y, key=0, method="svi", guide=guide, batch={"row": 20}, progress=False)
    # mean field: q(x_i) = N((y_i + m) / 2, 1 / 2) and q(mean) = N(m, 1 / 201), with the exact mean m
    m = y.sum() / 2 / (1 + 200 / 2)
    want = {"slope": 0.5, "shift": m / 2, "width": np.sqrt(0.5), "loc": m}
    for name, value in want.items():
        assert abs(float(post.params[name]) - value) < 0.05, (name, post.params[name], value)
    assert "x" not in post.draws


# --- the second call -----------------------------------------------------------------------------------


@tr.model
def grouped(y):
    spread = tr.param("spread", 1.0, "positive")
    with tr.plate("group", len(y)):
        tr.sample("y", Normal(tr.sample("effect", Normal(0.0, spread)), 1.0), obs=y)


@pytest.fixture
def compilations():
    """A list that grows by one with each program that is compiled."""
    found = []

    def listen(event, seconds, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (grouped, {}),
        (normal, {"method": "svi", "guide": normal_guide}),
        (normal, {"method": "svi", "guide": "full_rank", "keep": ["mu"], "batch": {"row": 2}}),
    ],
)
def test_new_numbers_compile_nothing(model, options, compilations):
    jax.jit(lambda x: x + 1.25)(0.5)
    assert len(compilations) > 0  # they are heard
    tr.infer(model, 2 * Y, key=0, progress=False, **options)
    compilations.clear()
    tr.infer(model, 2 * Y + 1, key=1, progress=False, **options)
    assert len(compilations) == 0
