"""Gibbs sampling: exact conditionals, every kind of move, and the cases in which it fails as it should."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import integrate, stats

from tractable.core.iterate import run
from tractable.core.support import positive
from tractable.distributions.bounded import Uniform
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.positive import Gamma
from tractable.inference.gibbs.sampler import (
    ExactDraw,
    FromConditional,
    Gibbs,
    RejectionWithinGibbs,
    WithinGibbs,
    gibbs_log_ratio,
)
from tractable.inference.samplers.adaptive_metropolis import AdaptiveMetropolis
from tractable.inference.samplers.metropolis import Metropolis, RandomWalkMetropolis
from tractable.inference.samplers.sampler import ChainState, Info, Sampler
from tractable.inference.trust.autocorrelation import autocorrelation_time, autocovariance

RHO = 0.8


def chain(sampler, log_density, start, num_steps, seed=0):
    """One compiled chain: the positions and the reports of each step."""

    @jax.jit
    def go(start, key):
        key_init, key_run = jr.split(key)
        state = sampler.init(log_density, start, key_init)

        def step(state, key):
            state, info = sampler.step(log_density, state, key)
            return state, (state.position, state.log_density, info)

        return run(step, state, jr.split(key_run, num_steps)).trace

    return jax.tree.map(np.asarray, go(start, jr.key(seed)))


def z_score(series, exact):
    """How many standard errors the mean of dependent draws is off."""
    series = np.asarray(series, float)
    error = np.sqrt(series.var() * float(autocorrelation_time(series)) / series.size)
    return (series.mean() - exact) / error


def normal_pair(rho):
    def log_density(p):
        return -0.5 * (p["x"] ** 2 - 2 * rho * p["x"] * p["y"] + p["y"] ** 2) / (1 - rho**2)

    def given(other):
        return lambda p: Normal(rho * p[other], jnp.sqrt(1 - rho**2))

    return log_density, given("y"), given("x")


@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_a_pair_of_normals(scan):
    log_density, x_given_y, y_given_x = normal_pair(RHO)
    sampler = Gibbs({"x": x_given_y, "y": y_given_x}, scan)
    draws, values, info = chain(sampler, log_density, {"x": 3.0, "y": -3.0}, 20_000)
    x, y = draws["x"][100:], draws["y"][100:]
    assert abs(z_score(x, 0.0)) < 5
    assert abs(z_score(y, 0.0)) < 5
    assert abs(z_score(x**2, 1.0)) < 5
    assert abs(z_score(x * y, RHO)) < 5
    assert abs(z_score(np.abs(y) < 0.6744897501960817, 0.5)) < 5
    assert (info.acceptance == 1).all()
    assert (info.num_gradients == 1).all()
    np.testing.assert_allclose(values, log_density(draws), rtol=1e-12)


@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_lag_one_autocorrelation_per_sweep_is_the_squared_correlation(rho):
    log_density, x_given_y, y_given_x = normal_pair(rho)
    sampler = Gibbs({"x": x_given_y, "y": y_given_x})
    draws = chain(sampler, log_density, {"x": 0.0, "y": 0.0}, 40_000, seed=1)[0]
    # Bartlett: the variance of the lag-one autocorrelation of an AR(1) with coefficient r is (1 - r^2)/n
    for name in ("x", "y"):
        covariance = np.asarray(autocovariance(draws[name]))
        error = np.sqrt((1 - rho**4) / 40_000)
        assert abs(covariance[1] / covariance[0] - rho**2) < 5 * error


def test_a_block_of_both_mixes_at_once():
    log_density, _, _ = normal_pair(0.99)
    together = Gibbs({("x", "y"): lambda p: Gaussian(jnp.zeros(2), jnp.array([[1.0, 0.99], [0.99, 1.0]]))})
    draws = chain(together, log_density, {"x": 9.0, "y": -9.0}, 20_000)[0]
    covariance = np.asarray(autocovariance(draws["x"]))
    assert abs(covariance[1] / covariance[0]) < 5 / np.sqrt(20_000)
    assert abs(z_score(draws["x"] * draws["y"], 0.99)) < 5


def test_the_ratio_of_a_gibbs_move_is_one():
    log_density, x_given_y, _ = normal_pair(RHO)
    ratios = jax.jit(
        jax.vmap(
            lambda key: gibbs_log_ratio(
                log_density, "x", x_given_y, {"x": 3.0 * jr.normal(key), "y": -1.5}, key=jr.fold_in(key, 1)
            )
        )
    )(jr.split(jr.key(0), 100))
    np.testing.assert_allclose(np.exp(ratios), 1.0, rtol=1e-10)


def test_the_ratio_finds_a_wrong_conditional():
    log_density, _, _ = normal_pair(RHO)
    wrong = lambda p: Normal(RHO * p["y"], 1.0)  # noqa: E731  the marginal's scale
    key_a, key_b = jr.split(jr.key(0))
    position = {"x": 1.0, "y": -1.5}
    ratio = float(gibbs_log_ratio(log_density, "x", wrong, position, key=jr.clone(key_a)))
    drawn = float(wrong(position).sample(key_a))
    exact = lambda x: stats.norm.logpdf(x, -1.2, 0.6) - stats.norm.logpdf(x, -1.2, 1.0)  # noqa: E731
    assert abs(ratio) > 0.01
    np.testing.assert_allclose(ratio, exact(drawn) - exact(1.0), rtol=1e-9)
    both = lambda p: Gaussian(jnp.zeros(2), jnp.array([[1.0, RHO], [RHO, 1.0]]))  # noqa: E731
    assert abs(float(gibbs_log_ratio(log_density, ("y", "x"), both, position, key=key_b))) < 1e-9


def islands(p):
    x, y = p["x"], p["y"]
    inside = (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1) & ((x < 0.5) == (y < 0.5))
    return jnp.where(inside, jnp.log(2.0), -jnp.inf)


def on_island(other):
    """On the island of the other coordinate: [0, 1/2] or [1/2, 1], uniformly."""
    return lambda p: Uniform(jnp.where(p[other] < 0.5, 0.0, 0.5), jnp.where(p[other] < 0.5, 0.5, 1.0))


@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_islands_are_never_left(scan):
    mass = integrate.dblquad(lambda y, x: 2.0 * ((x < 0.5) == (y < 0.5)), 0, 1, 0, 1, epsabs=1e-3)[0]
    assert abs(mass - 1) < 1e-2  # a density, symmetric about (1/2, 1/2), which is thus its mean
    sampler = Gibbs({"x": on_island("y"), "y": on_island("x")}, scan)
    for start, mean in (({"x": 0.1, "y": 0.4}, 0.25), ({"x": 0.9, "y": 0.6}, 0.75)):
        draws = chain(sampler, islands, start, 5000)[0]
        for name in ("x", "y"):
            assert ((draws[name] < 0.5) == (start["x"] < 0.5)).all()
            assert abs(z_score(draws[name], mean)) < 5  # not the true mean, 1/2


def test_a_block_of_both_coordinates_leaves_the_islands():
    def both(key, p):
        key_island, key_x, key_y = jr.split(key, 3)
        low = 0.5 * jr.bernoulli(key_island)
        return {"x": low + 0.5 * jr.uniform(key_x), "y": low + 0.5 * jr.uniform(key_y)}

    draws = chain(Gibbs({("x", "y"): both}), islands, {"x": 0.1, "y": 0.4}, 5000)[0]
    assert abs(z_score(draws["x"], 0.5)) < 5
    assert abs(z_score(draws["y"], 0.5)) < 5


# A hierarchy with a conditional of every kind: rate ~ Gamma(3, 2), count ~ Poisson(rate),
# mark | count ~ N(count, 1); rate | count is Gamma(3 + count, 3), E[count] = 1.5 with variance 1.5 + 0.75.


def hierarchy(p):
    rate, count = p["rate"], p["count"]
    return (
        Gamma(3.0, 2.0).log_prob(rate)
        + Poisson(rate).log_prob(count)
        - 0.5 * (p["mark"] - count) ** 2
        - 0.5 * jnp.log(2 * jnp.pi)
    )


RATE_EXACT = lambda p: Gamma(3.0 + p["count"], 3.0)  # noqa: E731
RATE_MOVES = {
    "conditional": RATE_EXACT,
    "draw": lambda key, p: RATE_EXACT(p).sample(key),
    "random walk": WithinGibbs(RandomWalkMetropolis(0.4), {"rate": positive}, num_steps=2),
    # Gamma(3 + c, 3) under Gamma(3 + c, 2.5): the ratio of densities is at most 1.2^(3 + c), at zero
    "rejection": RejectionWithinGibbs(
        lambda p: Gamma(3.0 + p["count"], 2.5),
        lambda p: (
            hierarchy(p | {"rate": 1.0}) - RATE_EXACT(p).log_prob(1.0) + (3.0 + p["count"]) * jnp.log(1.2)
        ),
    ),
    # an envelope that is too low by a factor of 1.2^(3 + c): corrected by Metropolis steps
    "low envelope": RejectionWithinGibbs(
        lambda p: Gamma(3.0 + p["count"], 2.5),
        lambda p: hierarchy(p | {"rate": 1.0}) - RATE_EXACT(p).log_prob(1.0),
    ),
}


class UpDown(jax.tree_util.Partial):
    """A symmetric proposal on whole numbers."""

    symmetric = True

    def sample(self, key, x):
        return x + 2 * jr.bernoulli(key).astype(int) - 1


CASES = [(name, "systematic") for name in RATE_MOVES] + [("random walk", "random"), ("rejection", "random")]


@pytest.mark.parametrize(("rate_move", "scan"), CASES)
def test_every_kind_of_move_leaves_the_target_invariant(rate_move, scan):
    sampler = Gibbs(
        {
            "rate": RATE_MOVES[rate_move],
            "count": WithinGibbs(Metropolis(UpDown(lambda: None)), num_steps=3),
            "mark": lambda p: Normal(p["count"], 1.0),
        },
        scan,
    )
    draws, _, info = chain(sampler, hierarchy, {"rate": 1.0, "count": 1, "mark": 0.0}, 10_000)
    assert draws["count"].dtype.kind == "i"
    assert (draws["count"] >= 0).all()
    assert (draws["rate"] > 0).all()
    exact = {"rate": (1.5, 0.75 + 1.5**2), "count": (1.5, 2.25 + 1.5**2), "mark": (1.5, 3.25 + 1.5**2)}
    for name, (mean, square) in exact.items():
        assert abs(z_score(draws[name], mean)) < 5, name
        assert abs(z_score(draws[name].astype(float) ** 2, square)) < 5, name
    assert abs(z_score(draws["count"] == 0, (2 / 3) ** 3)) < 5
    assert abs(z_score(draws["rate"] < 1.2, stats.gamma(3, scale=0.5).cdf(1.2))) < 5
    assert not info.undefined.any()
    assert not info.diverging.any()
    assert not info.saturated.any()
    assert ((info.acceptance > 0) & (info.acceptance <= 1)).all()


def test_reports_add_evaluations_and_average_acceptance():
    inner = WithinGibbs(RandomWalkMetropolis(0.4), {"rate": positive}, num_steps=2)
    sampler = Gibbs(
        {"rate": inner, "count": lambda p: Poisson(p["rate"]), "mark": lambda p: Normal(0.0, 1.0)}
    )
    info = chain(
        sampler, lambda p: Gamma(3.0, 2.0).log_prob(p["rate"]), {"rate": 1.0, "count": 1, "mark": 0.0}, 50
    )[2]
    np.testing.assert_array_equal(info.num_gradients, 2 + 1 + 1)  # steps, a fresh start, the end of the sweep
    assert (info.acceptance >= 2 / 3).all()
    assert (info.acceptance < 1).any()


def test_overlapping_blocks_are_welcome():
    log_density, x_given_y, y_given_x = normal_pair(RHO)
    both = lambda p: Gaussian(jnp.zeros(2), jnp.array([[1.0, RHO], [RHO, 1.0]]))  # noqa: E731
    sampler = Gibbs({("y", "x"): both, "x": x_given_y, "y": y_given_x})
    draws = chain(sampler, log_density, {"x": 0.0, "y": 0.0}, 5000)[0]
    assert abs(z_score(draws["x"] * draws["y"], RHO)) < 5


def test_an_envelope_that_accepts_nothing_is_reported():
    stuck = RejectionWithinGibbs(Normal(0.0, 1.0), 100.0, max_proposals=5)
    draws, _, info = chain(Gibbs({"x": stuck}), lambda p: -0.5 * p["x"] ** 2, {"x": 0.5}, 20)
    assert info.saturated.all()
    assert (draws["x"] == 0.5).all()
    assert (info.acceptance == 0).all()


class Learner(Sampler):
    """A sampler that counts its own steps, to see that what a sampler learns is kept."""

    class State(ChainState):
        learnt: jax.Array = None

    def init(self, log_density, position, key):
        return Learner.State(position, log_density(position), None, jnp.asarray(0))

    def step(self, log_density, state, key):
        position = state.position + jr.normal(key, state.position.shape)
        return Learner.State(position, log_density(position), None, state.learnt + 1), Info(
            state.log_density, 1
        )


def test_inner_samplers_remember_and_see_the_moved_rest():
    sampler = Gibbs({"x": WithinGibbs(Learner()), "y": lambda p: Normal(p["x"], 1.0)})

    def log_density(p):
        return p["x"] + 100 * p["y"]

    @jax.jit
    def go(key):
        key_init, key_run = jr.split(key)
        state = sampler.init(log_density, {"x": 1.0, "y": 2.0}, key_init)
        return run(lambda s, k: sampler.step(log_density, s, k), state, jr.split(key_run, 10))

    made = go(jr.key(0))
    assert int(made.state.memories[0].learnt) == 10
    # the reported acceptance is the inner log-density before its step: that of the state before the sweep
    inner = 2 * np.asarray(made.trace.acceptance) - 1
    assert len(np.unique(inner.round(6))) == 10
    np.testing.assert_allclose(inner[0], 201.0)


def test_inner_samplers_learn_only_while_the_whole_adapts():
    log_density, _, y_given_x = normal_pair(RHO)
    blocks = {"x": WithinGibbs(AdaptiveMetropolis(scale=50.0)), "y": y_given_x}

    @jax.jit
    def go(adapting, key):
        sampler = Gibbs(blocks, adapting=adapting)
        key_init, key_run = jr.split(key)
        state = sampler.init(log_density, {"x": 1.0, "y": 2.0}, key_init)
        step = lambda s, k: sampler.step(log_density, s, k)  # noqa: E731
        return run(step, state, jr.split(key_run, 2000)).state.memories[0]

    learnt, fixed = go(True, jr.key(0)), go(False, jr.key(0))
    assert int(learnt.num_learnt) == 2000
    assert int(fixed.num_learnt) == 0
    assert float(jnp.exp(learnt.log_step) * learnt.lower[0, 0]) < 10
    assert float(fixed.lower[0, 0]) == 50


def test_samplers_and_starts_are_checked_by_name():
    _, x_given_y, y_given_x = normal_pair(RHO)
    density = lambda p: -(p["x"] ** 2)  # noqa: E731
    with pytest.raises(ValueError, match=r"`scan` must be one of 'systematic', 'random'; got 'both'"):
        Gibbs({"x": x_given_y}, scan="both")
    with pytest.raises(ValueError, match=r"`blocks` must be at least one block; got none"):
        Gibbs({})
    with pytest.raises(ValueError, match=r"`blocks` must be keyed by a name or a tuple of names; got 3"):
        Gibbs({3: x_given_y})
    with pytest.raises(ValueError, match=r"`blocks` must be keyed by distinct names; got \('x', 'x'\)"):
        Gibbs({("x", "x"): x_given_y})
    with pytest.raises(
        TypeError, match=r"`blocks\['x'\]` must be a function or a move; got RandomWalk.*WithinGibbs"
    ):
        Gibbs({"x": RandomWalkMetropolis(1.0)})
    with pytest.raises(TypeError, match=r"`blocks\['x'\]` must be a function of \(key, position\) or of"):
        Gibbs({"x": lambda a, b, c: a})
    sampler = Gibbs({"x": x_given_y, "y": y_given_x})
    with pytest.raises(ValueError, match=r"about variables of the start \(x\); got \['y'\]"):
        sampler.init(density, {"x": 0.0}, jr.key(0))
    with pytest.raises(ValueError, match=r"a cover of the start's variables; got no block with \['tau'\]"):
        sampler.init(density, {"x": 0.0, "y": 0.0, "tau": 1.0}, jr.key(0))
    with pytest.raises(TypeError, match=r"`start` must be a dict from names to values"):
        sampler.init(density, jnp.zeros(2), jr.key(0))


@pytest.mark.parametrize(
    ("move", "start", "error", "message"),
    [
        (lambda key, p: jnp.zeros(2), 0.0, ValueError, r"`x` must be redrawn with its shape \(\)"),
        (
            lambda p: Normal(0.0, 1.0),
            0,
            TypeError,
            r"`x` must be redrawn with its kind int64; got float64.*0\.0",
        ),
        (lambda key, p: {"x": 0.0}, 0.0, ValueError, r"`x` must be redrawn as"),
        (lambda p: 3.0, 0.0, TypeError, r"must be a function that returns a distribution; got float"),
        (
            WithinGibbs(RandomWalkMetropolis(1.0)),
            0,
            TypeError,
            r"`x` must be made of floats to be moved by RandomW",
        ),
    ],
)
def test_moves_that_do_not_fit_are_refused_by_name(move, start, error, message):
    sampler = Gibbs({"x": move})

    def one_step():
        state = sampler.init(lambda p: 0.0, {"x": start}, jr.key(0))
        return sampler.step(lambda p: 0.0, state, jr.key(1))

    with pytest.raises(error, match=message):
        one_step()


def test_bad_options_of_moves():
    with pytest.raises(TypeError, match=r"`sampler` must be a `Sampler`"):
        WithinGibbs(3.0)
    with pytest.raises(ValueError, match=r"`num_steps` must be a whole number of at least 1; got 0"):
        WithinGibbs(RandomWalkMetropolis(1.0), num_steps=0)
    with pytest.raises(ValueError, match=r"`supports` must be left out for Metropolis"):
        WithinGibbs(Metropolis(UpDown(lambda: None)), positive)
    with pytest.raises(TypeError, match=r"`proposal` must be a distribution, or a function"):
        RejectionWithinGibbs(3.0, 0.0)
    sampler = Gibbs({("x", "y"): lambda p: Gaussian(jnp.zeros(3), jnp.eye(3))})
    state = sampler.init(lambda p: 0.0, {"x": 0.0, "y": 0.0}, jr.key(0))
    with pytest.raises(ValueError, match=r"must be a vector of 2 numbers, those of \('x', 'y'\) in order"):
        sampler.step(lambda p: 0.0, state, jr.key(1))


def test_one_program_serves_every_chain():
    log_density, x_given_y, y_given_x = normal_pair(RHO)
    sampler = Gibbs(
        {"x": ExactDraw(lambda key, p: x_given_y(p).sample(key)), "y": FromConditional(y_given_x)}, "random"
    )

    @jax.jit
    def chains(x, key):
        key_init, key_run = jr.split(key)
        init = jax.vmap(lambda x, key: sampler.init(log_density, {"x": x, "y": -x}, key))
        step = jax.vmap(lambda s, k: sampler.step(log_density, s, k))
        state = init(x, jr.split(key_init, 2000))
        return run(step, state, jr.split(key_run, (100, 2000))).state.position["x"]

    ends = np.asarray(chains(jnp.linspace(-5.0, 5.0, 2000), jr.key(0)))
    assert abs(ends.mean()) < 5 / np.sqrt(2000)
    assert abs(ends.var() - 1) < 5 * np.sqrt(2 / 2000)


# Geweke's joint test: data and parameters are redrawn in turn; each must keep its prior distribution.


def geweke(num_steps, seed):
    prior_rate = Gamma(4.0, 3.0)

    def log_density(p):
        like = 0.5 * (5 * jnp.log(p["tau"]) - p["tau"] * ((p["data"] - p["mu"]) ** 2).sum())
        return like - 0.5 * p["mu"] ** 2 + prior_rate.log_prob(p["tau"])

    def mu_given(p):
        precision = 1.0 + 5 * p["tau"]
        return Normal(p["tau"] * p["data"].sum() / precision, 1 / jnp.sqrt(precision))

    sampler = Gibbs(
        {
            "mu": mu_given,
            "tau": WithinGibbs(RandomWalkMetropolis(0.4), {"tau": positive}),
            "data": lambda key, p: p["mu"] + jr.normal(key, (5,)) / jnp.sqrt(p["tau"]),
        }
    )
    draws = chain(sampler, log_density, {"mu": 0.0, "tau": 1.0, "data": np.zeros(5)}, num_steps, seed)[0]
    mu, tau = draws["mu"], draws["tau"]
    exact = {"mu": 0.0, "mu^2": 1.0, "tau": 4 / 3, "log tau": float(np.log(1 / 3) + stats.loggamma(4).mean())}
    found = {"mu": mu, "mu^2": mu**2, "tau": tau, "log tau": np.log(tau)}
    scores = {name: z_score(found[name], exact[name]) for name in exact}
    return scores | {
        "mu tau": z_score(mu * tau, 0.0),
        "sd": z_score(draws["data"][:, 0] * np.sqrt(tau) - mu * np.sqrt(tau), 0.0),
    }


@pytest.mark.slow
def test_geweke_long():
    assert max(abs(z) for z in geweke(200_000, 1).values()) < 5
