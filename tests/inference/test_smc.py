"""Sequential Monte Carlo: exact evidences, two modes, constraints, and when it must not be trusted."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student

from tractable.core.iterate import Status, count_traces, run
from tractable.core.numerics import logsumexp
from tractable.distributions.bounded import Beta
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.gamma import Gamma
from tractable.inference.particles.replicates import evidence_of_replicates, widening
from tractable.inference.particles.smc import smc
from tractable.inference.samplers.hmc import HMC
from tractable.inference.samplers.metropolis import IndependenceMetropolis, RandomWalkMetropolis

YS = np.array([1.5, -0.5, 3.0])
PRIOR = Normal(jnp.zeros(3), 2.0)
EXACT = multivariate_normal(np.zeros(3), 5.0 * np.eye(3)).logpdf(YS)


def likelihood(mean, ys):
    return Normal(mean, 1.0).log_prob(ys)


def score(estimate, truth):
    return (np.asarray(estimate.value) - truth) / np.asarray(estimate.standard_error)


@pytest.fixture(scope="module")
def conjugate():
    return smc(likelihood, PRIOR, key=jr.key(0), args=(YS,))


@pytest.mark.parametrize("waste_free", [True, False])
def test_evidence_and_means_of_a_conjugate_model_over_seeds(waste_free):
    found = [smc(likelihood, PRIOR, key=jr.key(s), args=(YS,), waste_free=waste_free) for s in range(6)]
    # an error from twenty groups is widened at four errors; the probability is that of five normal errors
    limit = student.isf(norm.sf(5), 19) / widening(20)
    assert np.abs([score(post.log_evidence, EXACT) for post in found]).max() < limit
    # the groups of all seeds together leave no such freedom
    groups = jnp.concatenate([post.group_log_evidences for post in found])
    pooled = evidence_of_replicates(groups, "all groups")
    assert abs(float(score(pooled, EXACT))) < 4
    assert float(pooled.standard_error) < 0.06
    assert max(float(post.log_evidence.standard_error) for post in found) < 0.2
    for function, truth in ((lambda x: x, 0.8 * YS), (lambda x: x**2, 0.8 + (0.8 * YS) ** 2)):
        values = [post.expectation(function) for post in found]
        assert np.abs([score(value, truth) for value in values]).max() < limit
        mean = np.mean([value.value for value in values], 0)
        error = np.sqrt(np.mean([value.standard_error**2 for value in values], 0) / len(values))
        assert np.abs((mean - truth) / error).max() < 4.5


@pytest.mark.thorough
def test_the_temperatures_keep_the_effective_share(conjugate):
    shares = np.asarray(conjugate.stage_ess)
    np.testing.assert_allclose(shares[:-2], 0.5, atol=1e-6)
    assert shares[-2] >= 0.5
    ladder = np.asarray(conjugate.temperatures)
    assert ladder[0] == 0
    assert (np.diff(ladder[:-1]) > 0).all()
    # the last stage tempers no more: it shows that the particles have settled
    assert (ladder[-2:] == 1).all()
    np.testing.assert_allclose(shares[-1], 1.0)
    assert conjugate.status is Status.converged
    # waste-free: `thin` moves per particle and stage, and one per chain to choose the step size
    assert conjugate.num_evaluations == 2000 * int(conjugate.thin.sum()) + 400 * len(shares)
    assert conjugate.thin[-1] >= 4
    assert conjugate.memory[-1] < 0.2
    assert repr(conjugate).endswith(conjugate.verdict.sentence)
    # the weights are those of the groups, so what is inherited agrees with what is overridden
    np.testing.assert_allclose(
        jax.nn.logsumexp(conjugate.log_weights) - np.log(2000), conjugate.log_evidence.value, rtol=1e-12
    )


@pytest.mark.parametrize("waste_free", [True, False])
def test_the_evidence_is_unbiased_for_a_fixed_ladder_and_kernel(waste_free):
    """1500 groups of twelve particles: the mean of their evidences themselves is the evidence."""
    post = smc(
        likelihood, PRIOR, key=jr.key(1), args=(YS,), num_groups=1500, num_particles=18_000, num_moves=3,
        temperatures=[0.0, 0.1, 0.4, 1.0], tune=False, waste_free=waste_free, resampling="multinomial",
    )  # fmt: skip
    ratio = np.exp(np.asarray(post.group_log_evidences) - EXACT)
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert ratio.std() > 0.1


def two_modes(x, share):
    """Two Gaussians of width 0.5 at -4 and 4 in both coordinates; `share` is that of the first."""
    gaps = jnp.stack([jnp.sum((x + 4) ** 2), jnp.sum((x - 4) ** 2)])
    return logsumexp(jnp.log(jnp.stack([share, 1 - share])) - gaps / (2 * 0.25))


@pytest.mark.thorough
def test_two_modes_where_one_chain_stays_in_one():
    share = jnp.asarray(0.25)
    start = RandomWalkMetropolis(step_size=0.5)

    def density(x):
        return two_modes(x, share) + Normal(jnp.zeros(2), 5.0).log_prob(x)

    @jax.jit
    def chain(key):
        state = start.init(density, jnp.full(2, -4.0), jr.key(0))
        walk = run(lambda s, k: start.step(density, s, k), state, jr.split(key, 2000))
        return walk.trace.acceptance.mean(), walk.state.position

    accepted, position = chain(jr.key(2))
    assert float(accepted) > 0.1
    assert (np.asarray(position) < 0).all()  # it moves, and has not seen the other mode
    post = smc(
        two_modes,
        Normal(jnp.zeros(2), 5.0),
        key=jr.key(3),
        args=(share,),
        num_particles=2000,
        waste_free=False,
    )
    left = post.expectation(lambda x: x[0] < 0)
    assert abs(float(score(left, 0.25))) < 5
    assert float(left.standard_error) < 0.05
    # each mode is a product of Gaussians: 2 pi 0.25 times the density of N(0, 25 + 0.25) at 4, per coordinate
    truth = np.log(2 * np.pi * 0.25) + 2 * norm.logpdf(4.0, 0.0, np.sqrt(25.25))
    assert abs(float(score(post.log_evidence, truth))) < 5


@pytest.mark.thorough
def test_constrained_parts_of_a_pytree_meet_conjugate_evidences():
    counts, heads, tosses = np.array([3.0, 5.0, 2.0, 4.0]), 7.0, 10.0

    def log_likelihood(theta, counts, heads):
        rates = (counts * jnp.log(theta["rate"]) - theta["rate"] - jax.lax.lgamma(counts + 1)).sum()
        return rates + heads * jnp.log(theta["share"]) + (tosses - heads) * jnp.log1p(-theta["share"])

    prior = {"rate": Gamma(2.0, 0.5), "share": Beta(1.5, 1.0)}
    post = smc(log_likelihood, prior, key=jr.key(4), args=(counts, heads))
    total, n = counts.sum(), len(counts)
    poisson = 2 * np.log(0.5) - gammaln(2.0) + gammaln(2 + total) - (2 + total) * np.log(0.5 + n)
    poisson -= gammaln(counts + 1).sum()
    binomial = betaln(1.5 + heads, 1 + tosses - heads) - betaln(1.5, 1.0)
    assert abs(float(score(post.log_evidence, poisson + binomial))) < 4
    assert abs(float(score(post.expectation(lambda t: t["rate"]), (2 + total) / (0.5 + n)))) < 4
    assert abs(float(score(post.expectation(lambda t: t["share"]), (1.5 + heads) / (2.5 + tosses)))) < 4
    assert (np.asarray(post.draws["rate"]) > 0).all()


@pytest.mark.thorough
def test_a_sampler_that_follows_gradients(conjugate):
    kernel = HMC(step_size=0.3, num_steps=3, jitter=0.2)
    post = smc(likelihood, PRIOR, key=jr.key(5), args=(YS,), kernel=kernel)
    assert abs(float(score(post.log_evidence, EXACT))) < 4
    assert np.abs(score(post.expectation(lambda x: x), 0.8 * YS)).max() < 5
    # the step size follows the acceptance of 0.8, and the particles come closer to independence
    assert float(post.step_sizes[-1]) > 0.3
    assert float(post.acceptance[-1]) > float(conjugate.acceptance[-1])


@pytest.mark.thorough
def test_impossible_regions_are_cut_off():
    """Half of the prior is impossible: the share that the temperatures keep is one of the possible half."""
    post = smc(
        lambda x: jnp.where(x > 0, -0.5 * (x - 1) ** 2 / 0.01, -jnp.inf), Normal(0.0, 1.0), key=jr.key(6)
    )
    sd = np.sqrt(0.01 / 1.01)
    truth = 0.5 * np.log(2 * np.pi * 0.01) + norm.logpdf(1.0, 0, np.sqrt(1.01)) + norm.logcdf(1 / 1.01 / sd)
    assert abs(float(score(post.log_evidence, truth))) < 4
    assert (np.asarray(post.draws) > 0).all()
    assert float(post.stage_ess[0]) < 0.3


def test_new_data_do_not_compile_again():
    counted = count_traces(likelihood)
    smc(counted, PRIOR, key=jr.key(7), args=(YS,))
    first = counted.count
    smc(counted, Normal(jnp.ones(3), 3.0), key=jr.key(8), args=(YS + 1,))
    assert counted.count == first


def test_unfinished_runs_say_so(monkeypatch, tmp_path, conjugate):
    short = smc(likelihood, PRIOR, key=jr.key(0), args=(YS,), max_stages=1)
    assert short.status is Status.exhausted
    assert short.verdict.sentence.startswith("Do not use: the last temperature was 0.")
    assert not short.log_evidence.status.ok
    np.testing.assert_array_equal(short.temperatures, conjugate.temperatures[:2])

    module = sys.modules[smc.__module__]  # the package exports the function of that name
    report, seen = module._report, []

    def interrupt(cloud, records):
        seen.append(report(cloud, records))
        if len(seen) == 2:
            raise KeyboardInterrupt
        return seen[-1]

    monkeypatch.setattr(module, "_report", interrupt)
    path = tmp_path / "particles"
    stopped = smc(likelihood, PRIOR, key=jr.key(0), args=(YS,), checkpoint=path)
    assert stopped.status is Status.interrupted
    assert len(stopped.acceptance) == 1  # the stage that was interrupted does not count
    assert "Interrupted" in stopped.verdict.sentence
    resumed = smc(likelihood, PRIOR, key=jr.key(0), args=(YS,), checkpoint=path)
    np.testing.assert_array_equal(resumed.draws, conjugate.draws)
    np.testing.assert_array_equal(resumed.group_log_evidences, conjugate.group_log_evidences)


def test_what_goes_wrong_is_in_the_verdict(conjugate):
    stuck = smc(
        likelihood, PRIOR, key=jr.key(9), args=(YS,), kernel=RandomWalkMetropolis(step_size=100.0), tune=False
    )
    assert stuck.verdict.sentence.startswith("Doubtful: at temperature")
    assert "moves were accepted" in stuck.verdict.sentence
    coarse = dataclasses.replace(conjugate, stage_ess=conjugate.stage_ess.at[1].set(0.05))
    assert coarse.verdict.sentence.startswith("Doubtful: the temperatures are too far apart")
    apart = dataclasses.replace(conjugate, group_log_evidences=4.0 * jnp.arange(20))
    assert apart.verdict.sentence.startswith("Doubtful: the groups disagree on the evidence")
    few = dataclasses.replace(conjugate, num_ancestors=conjugate.num_ancestors.at[-1].set(11))
    assert few.verdict.sentence.startswith("Fair: all particles descend from 11 draws of the prior")
    moving = dataclasses.replace(conjugate, drift=conjugate.drift.at[-1].set(6.0))
    assert moving.verdict.sentence.startswith("Not certified: further moves at the last temperature change")
    heavy = dataclasses.replace(conjugate, tails=conjugate.tails.at[0].set(0.45))
    assert heavy.verdict.sentence.startswith("Not certified: a few particles have most of the weight")
    alone = dataclasses.replace(conjugate, group_log_evidences=jnp.zeros(1))
    assert alone.verdict.sentence.startswith("Unknown: one group has no standard error")
    assert np.isinf(alone.log_evidence.standard_error)


@pytest.mark.thorough
def test_particles_that_miss_a_neck_are_seen_to_drift():
    """Neal's funnel from a wide prior: nearly all of what is below zero is missed on the way."""

    def log_likelihood(x):
        rest = -0.5 * (x[1:] ** 2).sum() * jnp.exp(-x[0]) - 2.0 * x[0]
        return -0.5 * (x[0] / 1.5) ** 2 + rest - Normal(jnp.zeros(5), 5.0).log_prob(x).sum()

    post = smc(log_likelihood, Normal(jnp.zeros(5), 5.0), key=jr.key(1))
    below = post.expectation(lambda x: (x[0] <= 0.0).astype(float))
    assert abs(float(score(below, 0.5))) > 2
    assert post.drift[-1] > 5
    assert not post.verdict.ok


@pytest.mark.thorough
def test_a_likelihood_that_becomes_nan_ends_the_run():
    """Nothing is wrong at draws of the prior; the moves then meet a region without numbers."""
    post = smc(lambda x: jnp.where(x > 4.0, jnp.nan, 50 * x), Normal(0.0, 1.0), key=jr.key(12))
    assert np.isfinite(np.asarray(post.draws)).all()
    assert (np.asarray(post.draws) <= 4.0).all()  # a move to what is not a number is never accepted


def test_bad_input_is_refused_by_name():
    def call(**options):
        settings = {"log_likelihood": likelihood, "prior": PRIOR, "key": jr.key(0), "args": (YS,)} | options
        return smc(settings.pop("log_likelihood"), settings.pop("prior"), **settings)

    with pytest.raises(ValueError, match=r"`num_particles` must be a multiple of .* = 50, at least 100"):
        call(num_particles=70)
    with pytest.raises(ValueError, match=r"`ess_target` must be a share between 0 and 1; got 1"):
        call(ess_target=1)
    with pytest.raises(TypeError, match=r"`kernel` must be a sampler of one chain in real space"):
        call(kernel=IndependenceMetropolis(PRIOR))
    with pytest.raises(TypeError, match=r"`prior` must be a distribution, a pytree of them"):
        call(prior={"mean": 3.0})
    with pytest.raises(TypeError, match=r"`prior` must be continuous|continuous to be a free number"):
        call(prior=Poisson(2.0), log_likelihood=lambda x: -x, args=())
    with pytest.raises(ValueError, match=r"`likelihood` must be a number or minus infinity at draws"):
        call(log_likelihood=lambda x: jnp.nan * x.sum(), args=())
    with pytest.raises(ValueError, match=r"`likelihood` must be above minus infinity at some draw"):
        call(log_likelihood=lambda x: -jnp.inf, args=())
    with pytest.raises(ValueError, match=r"`likelihood` must be one number, or one per row; got"):
        call(log_likelihood=lambda x: x[None], args=())
    with pytest.raises(ValueError, match=r"`temperatures` must be rising from 0 to 1"):
        call(temperatures=[0.0, 0.5])


@pytest.mark.slow
@pytest.mark.parametrize("waste_free", [True, False])
def test_stated_errors_cover_the_truth(waste_free):
    """Z-scores of the evidence and of the means over 40 seeds have the spread of a t distribution."""
    evidence, means = [], []
    for seed in range(40):
        post = smc(likelihood, PRIOR, key=jr.key(100 + seed), args=(YS,), waste_free=waste_free)
        evidence.append(score(post.log_evidence, EXACT))
        means.append(score(post.expectation(lambda x: x), 0.8 * YS))
    wide = widening(20)  # and the t distribution with nineteen degrees of freedom has a deviation of 1.06
    assert abs(np.mean(evidence)) < 5 * 1.06 / wide / np.sqrt(40)
    # the deviation of 40 scores has an error of about .13
    assert 0.66 < np.std(evidence) * wide < 1.6
    assert 0.8 < np.std(means) * wide < 1.5
