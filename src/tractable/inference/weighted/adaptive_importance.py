r"""Adaptive importance sampling: proposals that learn from the draws, and rare events reached level by level.

AMIS.        Round $t$ draws from $q_t$, a Gaussian or a Student-t with the weighted mean and covariance of
             all draws so far; every draw of every round is weighted by the mixture of all proposals,
             $w(x) = \tilde p(x) / \frac1T\sum_t q_t(x)$, so that an early bad proposal does no harm.
Tempering.   Moments are taken with weights $w^\gamma$, $\gamma \le 1$ the largest power that leaves an
             effective size of $4(d + 1)$ at least: few good draws do not collapse the covariance.
Rare events. $P(s(x) \ge c)$: the proposal is shifted to where $s$ reaches its upper quantile, again and
             again, until it reaches $c$ (cross-entropy method); fresh draws then give an unbiased estimate.
Cost.        $T^2 n$ proposal densities for $T$ rounds of $n$ draws, and $T n$ target densities.
References.  Cornuet, Marin, Mira and Robert (2012); Rubinstein and Kroese (2004).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count
from tractable.core.estimate import Estimate
from tractable.core.iterate import Run, Status, bisect, run, run_until
from tractable.core.keys import takes_key
from tractable.core.linalg import symmetrise
from tractable.core.module import Module
from tractable.core.numerics import log_mean_exp, log_softmax
from tractable.core.programs import as_data, program
from tractable.core.types import Array, Float, Key, Scalar
from tractable.core.user_code import call_user
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.multivariate import MultivariateStudentT
from tractable.inference.weighted.importance import Weighted, as_log_density, importance
from tractable.inference.weighted.weights import effective_sample_size

__all__ = ["Adapted", "RareEvent", "adaptive_importance", "rare_event"]

_HALVINGS = 40  # of the tempering power, to the last digits of a single-precision number and beyond


class Adapted(Weighted):
    """The draws of all rounds under mixture weights; `proposal` is the last one, `trace` each round's ESS."""

    proposal: Any = None
    trace: Float[Array, " rounds"] | None = None


class RareEvent(Module):
    """The probability of an event, the shifted proposal that reached it, and how the search for it ended."""

    probability: Estimate
    proposal: Gaussian
    weighted: Weighted
    search: Run
    _shown = ("probability",)

    @property
    def status(self) -> Status:
        return self.search.status

    @property
    def verdict(self) -> Verdict:
        """Whether the event was reached, and how good the relative error is."""
        error = float(self.probability.standard_error / self.probability.value)
        levels = int(self.search.num_steps)
        said = f"Reached the event in {levels} levels; relative error {error:.1%}."
        if not self.status.ok:
            said = "The levels did not reach the threshold: raise `max_levels` or `num_draws`."
        return Verdict(self.status.ok, said, {"relative_error": error, "levels": levels})


@takes_key
def adaptive_importance(
    log_density: Callable[..., Any] | Distribution,
    start: Gaussian,
    *,
    key: Key,
    num_draws: int = 1000,
    num_rounds: int = 10,
    degrees: float | int | None = 5.0,
    args: tuple = (),
) -> Adapted:
    r"""AMIS from a Gaussian `start` (wide rather than narrow), `num_draws` per round.

    With `degrees` the proposals are Student-t of that many degrees (heavier tails than a Gaussian target:
    bounded weights); None takes Gaussians. Draws of different rounds are dependent through the proposals, and
    the standard errors take them as independent: exact in the limit of many draws per round.
    """
    check(start.mean.ndim == 1, "start", "one Gaussian over vectors", f"leading axes {start.mean.shape[:-1]}")
    num_draws, num_rounds = (
        check_count("num_draws", num_draws, least=10),
        check_count("num_rounds", num_rounds),
    )
    heavy = None if degrees is None else jnp.asarray(float(degrees))
    keys = jr.split(key, num_rounds)
    draws, logs, mean, cov, trace = _amis(
        as_log_density(log_density), start, keys, num_draws, heavy, as_data(args)
    )
    found = Weighted.of(draws, logs)
    return Adapted(draws, found.log_weights, found.k_hat, False, _proposal(mean, cov, heavy), trace)


def rare_event(
    score: Callable[[Array], Any],
    threshold: float | int,
    target: Gaussian,
    *,
    key: Key,
    num_draws: int = 2000,
    share: float = 0.1,
    widen: float | int = 1.0,
    max_levels: int = 50,
) -> RareEvent:
    r"""$P(s(x) \ge c)$ for $x \sim$ `target`, $s$ = `score` of one point and $c$ = `threshold`.

    Each level shifts the mean of the proposal to that of the best `share` of the draws, reweighted to the
    target, and keeps the target's covariance times `widen`. Events in several directions at once need a
    mixture: one shift finds one of them, and `weighted.k_hat` cannot know of the others.

    >>> event = rare_event(lambda x: x[0], 4.0, Gaussian([0.0], [[1.0]]), key=jr.key(0))
    >>> low, high = event.probability.interval(4)  # 3.167e-05
    >>> bool(low < 3.16712418e-05 < high)
    True
    """
    check(
        target.mean.ndim == 1, "target", "one Gaussian over vectors", f"leading axes {target.mean.shape[:-1]}"
    )
    check(0 < share < 1, "share", "between 0 and 1", share)
    check(widen > 0, "widen", "positive", widen)
    num_draws = check_count("num_draws", num_draws, least=10)
    key_search, key_final = jr.split(key)
    cov = widen * target.cov
    search = _climb(
        score, jnp.asarray(float(threshold)), target, cov, key_search, num_draws, share, max_levels
    )
    proposal = Gaussian(search.state[0], cov)
    weighted = importance(target, proposal, key=key_final, num_draws=num_draws)
    found = weighted.expectation(lambda x: jnp.asarray(score(x)) >= threshold)
    return RareEvent(found, proposal, weighted, search)


def _proposal(mean: Array, cov: Array, degrees: Array | None) -> Gaussian | MultivariateStudentT:
    return Gaussian(mean, cov) if degrees is None else MultivariateStudentT(degrees, mean, cov)


def _moments(draws: Array, logs: Array) -> tuple[Array, Array]:
    """The mean and covariance of draws with (unnormalised) log-weights."""
    w = jnp.exp(log_softmax(logs))
    mean = w @ draws
    centred = draws - mean[None]
    return mean, symmetrise((w[:, None] * centred).T @ centred)


def _tempered(logs: Array, least: float) -> Array:
    r"""$\gamma\log w$ with the largest $\gamma \le 1$ that leaves an effective size of at least `least`."""
    finite = jnp.where(jnp.isneginf(logs), 0.0, logs)

    def scaled(power):
        return jnp.where(jnp.isneginf(logs), -jnp.inf, power * finite)

    def too_few(power):
        return effective_sample_size(scaled(power)) < least

    ends = jnp.zeros((), logs.dtype), jnp.ones((), logs.dtype)
    low, _ = bisect(too_few, *ends, num_steps=_HALVINGS)
    return scaled(jnp.where(effective_sample_size(logs) >= least, 1.0, low))


@program
def _amis(
    log_density: Callable, start: Gaussian, keys: Array, num_draws: int, degrees: Array | None, args: tuple
) -> tuple[Array, ...]:
    rounds, d = keys.shape[0], start.mean.size

    def mixture_log(points, means, covs, used):
        """The log-density of the equal mixture of the proposals `used` so far, at each point."""
        each = jax.vmap(lambda m, c: _proposal(m, c, degrees).log_prob(points))(means, covs)
        return log_mean_exp(each, jnp.broadcast_to(used[:, None], each.shape), axis=0)

    def step(state, key_and_index):
        draws, log_p, means, covs = state
        key, t = key_and_index
        points = _proposal(means[t], covs[t], degrees).sample(key, (num_draws,))
        draws = draws.at[t].set(points)
        values = jax.vmap(lambda x: jnp.asarray(call_user("log_density", log_density, x, *args)))(points)
        log_p = log_p.at[t].set(values)
        used = (jnp.arange(rounds) <= t).astype(draws.dtype)
        flat = draws.reshape((-1, d))
        known = jnp.repeat(used, num_draws, total_repeat_length=rounds * num_draws) > 0
        logs = jnp.where(known, log_p.reshape(-1) - mixture_log(flat, means, covs, used), -jnp.inf)
        mean, cov = _moments(flat, _tempered(logs, 4.0 * (d + 1)))
        following = jnp.minimum(t + 1, rounds - 1)
        kept = t + 1 < rounds
        means = means.at[following].set(jnp.where(kept, mean, means[following]))
        covs = covs.at[following].set(jnp.where(kept, cov, covs[following]))
        return (draws, log_p, means, covs), (effective_sample_size(logs), logs)

    means = jnp.tile(start.mean[None], (rounds, 1))
    covs = jnp.tile(start.cov[None], (rounds, 1, 1))
    empty = jnp.zeros((rounds, num_draws, d), means.dtype), jnp.zeros((rounds, num_draws), means.dtype)
    finished = run(step, (*empty, means, covs), (keys, jnp.arange(rounds)))
    draws, _, means, covs = finished.state
    sizes, logs = finished.trace
    return draws.reshape((-1, d)), logs[-1], means[-1], covs[-1], sizes


@program
def _climb(
    score: Callable,
    threshold: Scalar,
    target: Gaussian,
    cov: Array,
    key: Key,
    num_draws: int,
    share: float,
    max_levels: int,
) -> Run:
    def step(state):
        mean, _, key = state
        key, key_draw = jr.split(key)
        proposal = Gaussian(mean, cov)
        draws = proposal.sample(key_draw, (num_draws,))
        scores = jax.vmap(lambda x: jnp.asarray(score(x), draws.dtype))(draws)
        level = jnp.minimum(jnp.quantile(scores, 1 - share), threshold)
        logs = jnp.where(scores >= level, target.log_prob(draws) - proposal.log_prob(draws), -jnp.inf)
        return (jnp.exp(log_softmax(logs)) @ draws, level, key), level

    start = target.mean, jnp.asarray(-jnp.inf, target.mean.dtype), key
    reached = lambda state, value, before: state[1] >= threshold  # noqa: E731
    return run_until(step, start, max_steps=max_levels, tol=0.0, settled=reached)
