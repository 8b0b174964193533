"""Each fault is found, named and placed; good chains are trusted."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.inference.test_diagnostics import autoregressive
from tractable.core.iterate import Status
from tractable.core.module import Module
from tractable.inference.chains.posterior import ChainPosterior as Posterior
from tractable.inference.samplers.sampler import Info
from tractable.inference.trust.verdict import movement, needed_effective_size, rhat_limit, where_diverging

SHAPE = (4, 1000)


class Tuned(Module):
    target_acceptance: float = 0.8


class Warmed(Module):
    superchains: int = 4


def records(**changes):
    rng = np.random.default_rng(99)
    plain = {
        "acceptance": np.full(SHAPE, 0.85),
        "num_gradients": np.full(SHAPE, 7),
        "diverging": np.zeros(SHAPE, bool),
        "saturated": np.zeros(SHAPE, bool),
        "undefined": np.zeros(SHAPE, bool),
        "energy": rng.normal(size=SHAPE),
    }
    return Info(**(plain | changes))


def posterior(
    draws=None,
    seed=0,
    log_density=None,
    sampler=None,
    warmup=None,
    code=Status.completed,
    remarks=(),
    **changes,
):
    rng = np.random.default_rng(seed)
    good = {"mu": rng.normal(size=SHAPE), "tau": rng.gamma(2.0, size=SHAPE), "one": np.ones(SHAPE)}
    logs = rng.normal(size=SHAPE) if log_density is None else log_density
    return Posterior(good | (draws or {}), logs, records(**changes), sampler, warmup, 1.0, code, remarks)


def kinds(post):
    return [fault.kind for fault in post.faults]


def test_good_chains_are_trusted():
    verdict = posterior().verdict
    assert verdict.ok
    assert bool(verdict)
    assert posterior().faults == ()
    assert verdict.sentence.startswith("Trusted: the chains agree (R-hat at most 1.00")
    assert verdict.numbers["rhat"] < 1.01
    assert verdict.numbers["ess_bulk"] > 3000
    assert verdict.numbers["divergences"] == 0
    assert verdict.numbers["energy_information"] > 1


def test_one_chain_is_trusted_with_a_reservation():
    post = posterior()
    one = Posterior({"mu": post.draws["mu"][:1]}, post.log_density[:1])
    assert one.verdict.ok
    assert "One chain cannot show other modes: run four." in one.verdict.sentence
    assert math.isnan(one.verdict.numbers["energy_information"])


def test_values_that_are_not_finite_come_first():
    draws = np.ones(SHAPE)
    draws[2, 17] = np.nan
    post = posterior({"lost": draws}, remarks=("The density was odd.",))
    assert kinds(post)[:2] == ["not finite", "remark"]
    assert "draws that are not finite, in `lost`; look at the density" in post.verdict.sentence
    assert "Also: the density was odd." in post.verdict.sentence
    assert "`log_density`" in posterior(log_density=np.full(SHAPE, -np.inf)).verdict.sentence


def test_remarks_refuse():
    post = posterior(remarks=("The density was not a number in 3 % of the steps.",))
    assert not post.verdict.ok
    expected = "Do not trust these draws: the density was not a number in 3 % of the steps."
    assert post.verdict.sentence == expected
    undefined = np.zeros(SHAPE, bool)
    undefined[:, :30] = True
    found = posterior(undefined=undefined).verdict
    assert "the density was not a number in 3 % of the steps; make it -inf" in found.sentence
    assert not posterior(code=Status.not_finite).verdict.ok


def test_divergences_are_placed():
    rng = np.random.default_rng(1)
    tau = rng.gamma(2.0, size=SHAPE)
    small = (tau < np.quantile(tau, 0.08)) & (rng.random(SHAPE) < 0.5)
    post = posterior({"tau": tau}, diverging=small)
    assert not post.verdict.ok
    assert post.verdict.numbers["divergences"] == small.sum()
    assert (
        f"diverged ({small.sum()}), most of them where `tau` is small; reparametrise" in post.verdict.sentence
    )
    mu = post.draws["mu"]
    large = mu > np.quantile(mu, 0.97)
    assert where_diverging(post.draws, post.report, large) == ("mu", "large")


def test_place_is_by_binomial_probability():
    """Three of three in the lower twentieth of one of two variables: 20 looks, each (1/20)^3."""
    post = posterior()
    draws = {"mu": post.draws["mu"], "tau": post.draws["tau"]}
    small = Posterior(draws, post.log_density)
    low = np.argwhere(draws["tau"] < np.quantile(draws["tau"], 0.04))
    three, two = np.zeros(SHAPE, bool), np.zeros(SHAPE, bool)
    three[tuple(low[:3].T)] = True
    two[tuple(low[:2].T)] = True
    looks = 2 * 2 * len(small.report.probs)
    assert looks * stats.binom.sf(2, 3, 0.05) > 1e-3  # not enough looks can be excused yet
    assert where_diverging(draws, small.report, three) is None
    four = three.copy()
    four[tuple(low[3])] = True
    assert looks * stats.binom.sf(3, 4, 0.05) < 1e-3
    assert where_diverging(draws, small.report, four) == ("tau", "small")


def test_few_divergences_without_a_place_are_noted():
    some = np.zeros(SHAPE, bool)
    some[0, 5], some[2, 700] = True, True
    post = posterior(diverging=some)
    assert post.verdict.ok
    assert "Note: 0.05 % of the steps diverged (2), in no particular place" in post.verdict.sentence
    many = np.random.default_rng(2).random(SHAPE) < 0.02
    found = posterior(diverging=many).verdict
    assert not found.ok
    assert "in no particular place; raise target_acceptance" in found.sentence


def test_chains_that_never_move_are_stuck():
    rng = np.random.default_rng(3)
    stuck = {name: rng.normal(size=SHAPE) for name in ("mu", "tau")}
    logs = rng.normal(size=SHAPE)
    for values in (*stuck.values(), logs):
        values[1] = values[1, 0]
    post = Posterior(stuck, logs)
    assert kinds(post)[0] == "stuck"
    assert "chain 1 never moved" in post.verdict.sentence
    flat = posterior(log_density=np.zeros(SHAPE))  # a flat density is no standing still
    assert "stuck" not in kinds(flat)
    refused = np.full(SHAPE, 0.8)
    refused[3] = 1e-4
    assert "chain 3 refused nearly every proposal" in posterior(acceptance=refused).verdict.sentence


def test_acceptance_far_below_its_target():
    post = posterior(sampler=Tuned(), acceptance=np.full(SHAPE, 0.2))
    assert kinds(post) == ["refused"]
    assert "only 0.20 of the proposals were accepted where 0.80 was wanted" in post.verdict.sentence
    assert posterior(sampler=Tuned(), acceptance=np.full(SHAPE, 0.7)).verdict.ok


def test_separate_modes_are_told_from_chains_that_move():
    rng = np.random.default_rng(4)
    modes = rng.normal(size=SHAPE) + np.array([0, 0, 6, 6.0])[:, None]
    walk = rng.normal(size=SHAPE).cumsum(1)
    drift = 0.01 * np.arange(1000)[None] + rng.normal(size=SHAPE)
    slow = autoregressive(0.98, SHAPE, 5)
    assert [movement(x) for x in (modes, walk, drift, slow)] == ["modes", "moving", "moving", "slow"]
    assert "settled in different places of `x` (R-hat" in posterior({"x": modes}).verdict.sentence
    assert "separate modes" in posterior({"x": modes}).verdict.sentence
    moving = posterior({"x": walk}).verdict
    assert "still moving in `x`" in moving.sentence
    assert "posterior is proper" in moving.sentence


@pytest.mark.parametrize("seed", range(10))
def test_a_random_walk_is_always_moving(seed):
    walk = np.random.default_rng(seed).normal(size=SHAPE).cumsum(1) + 100 * np.random.default_rng(
        seed
    ).normal(size=(4, 1))
    assert movement(walk) == "moving"


def test_too_few_draws_say_how_many_more():
    slow = autoregressive(0.97, SHAPE, 6)
    post = posterior({"slow": slow})
    assert not post.verdict.ok
    few = next(fault for fault in post.faults if fault.kind == "few")
    assert "the draws of `slow` are worth only" in few.finding
    assert "400 needed" in few.finding
    more = float(few.fix.split("about ")[1].split()[0])
    worst = min(post.verdict.numbers["ess_bulk"], post.verdict.numbers["ess_tail"])
    assert 1000 * (400 / worst - 1) <= more <= 1.1 * 1000 * (400 / worst - 1) + 10
    assert needed_effective_size(4) == 400
    assert needed_effective_size(64) == 800


def test_two_draws_cannot_be_judged():
    post = Posterior({"mu": np.random.default_rng(7).normal(size=(4, 2))}, np.arange(8.0).reshape(4, 2))
    assert not post.verdict.ok
    assert "no variable can be judged (fewer than 4 draws per chain)" in post.verdict.sentence


def test_no_draws_are_said_to_be_none():
    post = Posterior(
        {"mu": np.zeros((4, 0)), "b": np.zeros((4, 0, 2))}, np.zeros((4, 0)), code=Status.interrupted
    )
    assert not post.verdict.ok
    assert repr(post).endswith("Do not trust these draws: there are none; resume the run.")
    assert np.isnan(post.summary()["mean"]).all()


def test_timid_energies():
    post = posterior(energy=autoregressive(0.95, SHAPE, 8))
    assert kinds(post) == ["energy"]
    assert "energies hardly change from step to step" in post.verdict.sentence


def test_saturation_is_noted_and_at_last_refused():
    rng = np.random.default_rng(9)
    note = posterior(saturated=rng.random(SHAPE) < 0.1)
    assert note.verdict.ok
    assert "were cut short by their limit of work" in note.verdict.sentence
    assert not posterior(saturated=np.ones(SHAPE, bool)).verdict.ok


def test_interrupted_runs_say_that_they_are_partial():
    verdict = posterior(code=Status.interrupted).verdict
    assert verdict.ok
    assert verdict.sentence.startswith("Partial (interrupted after 1000 draws per chain). Trusted")


def test_many_short_chains_are_judged_by_their_groups():
    rng = np.random.default_rng(10)
    x = rng.normal(size=(256, 20))
    # each chain keeps a part of its own: chains of 20 draws differ, groups of 64 do not
    post = Posterior({"x": x + rng.normal(size=(256, 1))}, rng.normal(size=(256, 20)), warmup=Warmed())
    assert post.report.rhat[0] > 1.1
    assert post.verdict.numbers["rhat"] < 1.02


def test_the_limit_of_rhat_knows_how_many_variables_it_is_for():
    """The largest of p chi-squares passes its limit as often as one passes 1.01's."""
    rng, count, level = np.random.default_rng(0), 1000, 0.01
    excess = rng.chisquare(7, (2000, count)).max(1) / stats.chi2.ppf(1 - level, 7) * (1.01**2 - 1)
    share = (np.sqrt(1 + excess) > rhat_limit(count, 4)).mean()
    error = np.sqrt(level * (1 - level) / 2000)
    assert abs(share - level) < 4 * error
    assert rhat_limit(1, 4) == 1.01
