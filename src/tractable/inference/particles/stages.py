r"""One stage of sequential Monte Carlo: the next temperature, weights, resampling and moves of all groups.

Groups.      Arrays have leading axes (groups, particles of a group). Weights and resampling stay in a group;
             the temperature and the tuning of the moves are common.
Moves.       `particles.moves`: they are as many as the particles need to forget where they began.
Settled.     Once the temperature is 1, a last stage makes four times as many steps. If the particles were
             those of the posterior, no mean would move: the change of each squashed coordinate, of its square
             and of the log-density along the chains, over its scatter between groups, has a $t$ distribution.
Cost.        The moves, and $O(d^3)$ per stage.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check
from tractable.core.iterate import bisect
from tractable.core.module import Module, field
from tractable.core.numerics import log_mean_exp, log_softmax
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int, Key, PyTree, Scalar
from tractable.inference.particles.moves import Moves, memory, next_thin
from tractable.inference.samplers.sampler import Sampler
from tractable.inference.weighted.weights import effective_sample_size, resample

__all__ = [
    "Cloud",
    "Plan",
    "Stage",
    "StageRecord",
    "TemperedTarget",
    "first_cloud",
]

_LONGER = 4  # times as many steps in the stage that shows whether the particles have settled
_RANGE = 40.0  # bisection looks for steps of the temperature down to exp(-40) of what is left


class Plan(NamedTuple):
    """What is fixed for a run: it shapes the program."""

    groups: int
    size: int  # particles of a group
    moves: int
    waste_free: bool
    adaptive: bool
    tune: bool
    scheme: str
    thin: int | None  # steps from one kept state to the next; found where it is not given

    @property
    def adapts_thin(self) -> bool:
        return self.thin is None and self.tune


class TemperedTarget(Module):
    r"""$\log p(\theta) + \beta\log p(D \mid \theta) + \log|\det T'|$ of the free numbers $T^{-1}(\theta)$."""

    likelihood: Callable[..., Any]
    prior: Any
    rebuild: Rebuild
    args: tuple

    def __call__(self, free: Float[Array, " d"], temperature: Scalar) -> Scalar:
        x, log_det = self.rebuild(free)
        return self.prior.log_prob(x) + log_det + temperature * self._likelihood(x)

    def log_likelihood(self, free: Float[Array, " d"]) -> Scalar:
        """The log-likelihood alone."""
        return self._likelihood(self.rebuild(free)[0])

    def _likelihood(self, x: PyTree) -> Scalar:
        value = jnp.asarray(self.likelihood(x, *self.args))
        check(value.ndim < 2, "likelihood", "one number, or one per row", f"shape {value.shape}")
        value = value.sum()
        return value.astype(jnp.result_type(float)) if jnp.issubdtype(value.dtype, jnp.integer) else value


class Cloud(Module):
    """The particles of all groups after a stage, equally weighted in each group."""

    points: Float[Array, "groups n d"]
    log_likelihoods: Float[Array, "groups n"]
    temperature: Scalar
    totals: Float[Array, " groups"]  # the log-evidence of each group so far
    ancestors: Int[Array, "groups n"]  # the draw of the prior from which each particle descends
    step_size: Scalar
    thin: Int[Array, ""]  # steps from one kept state to the next, in the coming stage


class StageRecord(Module):
    """What a stage reports."""

    temperature: Scalar
    ess: Scalar
    acceptance: Scalar
    step_size: Scalar
    num_ancestors: Int[Array, ""]
    num_evaluations: Int[Array, ""]
    thin: Int[Array, ""]
    memory: Scalar  # what the chains remember of their starts
    drift: Scalar  # the largest change of a mean along the chains, in its errors between the groups
    log_weights: Float[Array, "groups n"]


class Stage(Module):
    """The step from one temperature to the next; its arrays are data, its functions shape the program."""

    target: TemperedTarget
    sampler: Sampler
    ess_target: Scalar
    plan: Plan = field(static=True)

    def __call__(self, cloud: Cloud, each: tuple[Key, Scalar]) -> tuple[Cloud, StageRecord]:
        key, wanted = each
        plan = self.plan
        key_resample, key_move = jr.split(key)
        temperature = self._next(cloud) if plan.adaptive else wanted
        logs = (temperature - cloud.temperature) * cloud.log_likelihoods
        totals = cloud.totals + log_mean_exp(logs, axis=1)
        chains = plan.size // plan.moves if plan.waste_free else plan.size
        choose = jax.vmap(lambda key, logs: resample(key, logs, chains, method=plan.scheme))
        chosen = choose(jr.split(key_resample, plan.groups), logs)
        starts = jax.vmap(lambda points, index: points[index])(cloud.points, chosen)
        factor = _factor(cloud.points, logs + totals[:, None]) if plan.tune else None
        moves = Moves(self.target, self.sampler, temperature, factor, cloud.thin, plan.tune)
        begun = starts.reshape((-1, starts.shape[-1]))
        moved = moves(key_move, begun, cloud.step_size, plan.moves)
        ends = moved.visited[-1]
        visited = moved.visited if plan.waste_free else moved.visited[-1:]
        points = visited.swapaxes(0, 1).reshape(cloud.points.shape)
        kept = plan.size // chains
        ancestors = jnp.repeat(jnp.take_along_axis(cloud.ancestors, chosen, 1), kept, axis=1)
        likelihoods = jax.vmap(jax.vmap(self.target.log_likelihood))(points)
        ess = effective_sample_size(logs).mean() / plan.size
        remembered = memory(begun, ends, factor)
        drift = self._drift(begun, ends, temperature)
        record = StageRecord(
            temperature, ess, moved.acceptance, moved.step_size, _distinct(ancestors, plan),
            moved.num_evaluations, cloud.thin, remembered, drift, logs,
        )  # fmt: skip
        thin = next_thin(cloud.thin, remembered) if plan.adapts_thin else cloud.thin
        thin = jnp.where(temperature >= 1, _LONGER * thin, thin)
        return Cloud(points, likelihoods, temperature, totals, ancestors, moved.step_size, thin), record

    def _next(self, cloud: Cloud) -> Scalar:
        """The temperature at which the weights are worth `ess_target` of the particles, at most 1."""
        left = 1 - cloud.temperature
        # impossible particles are lost at any temperature: the share is one of those that are possible
        goal = self.ess_target * (cloud.log_likelihoods > -jnp.inf).mean()

        def share(step):
            return effective_sample_size(step * cloud.log_likelihoods).mean() / self.plan.size

        def too_few(log_step):
            return share(left * jnp.exp(log_step)) < goal

        low, _ = bisect(too_few, jnp.full_like(left, -_RANGE), jnp.zeros_like(left), num_steps=50)
        return jnp.where(share(left) >= goal, 1.0, cloud.temperature + left * jnp.exp(low))

    def _drift(self, before: Array, after: Array, temperature: Scalar) -> Scalar:
        """How far the means of squashed statistics moved along the chains, in errors between the groups."""
        heights = [jax.vmap(lambda x: self.target(x, temperature))(rows) for rows in (before, after)]
        first, last = (jnp.concatenate([x, h[:, None]], 1) for x, h in zip((before, after), heights))
        scale = jnp.where(first.std(0) > 0, first.std(0), 1.0)

        def statistics(rows):
            y = (rows - jnp.median(first, 0)[None]) / scale[None]
            return jnp.concatenate([y / (1 + jnp.abs(y)), y**2 / (1 + y**2)], 1)

        moved = statistics(last) - statistics(first)
        each = moved.reshape((self.plan.groups, -1, moved.shape[1])).mean(1)
        error = each.std(0) / jnp.sqrt(max(self.plan.groups - 1, 1))
        return jnp.where(error > 0, jnp.abs(each.mean(0)) / jnp.where(error > 0, error, 1.0), 0.0).max()


@program
def first_cloud(
    likelihood: Callable, prior: Any, supports: Any, args: tuple, sampler: Sampler, plan: Plan, key: Key
) -> tuple[Cloud, TemperedTarget]:
    """Draws of the prior as free numbers, with their likelihoods, and the target."""
    draws = prior.sample(key, (plan.groups * plan.size,))
    rebuild = unconstrain(jax.tree.map(lambda leaf: leaf[0], draws), supports)[1]
    target = TemperedTarget(likelihood, prior, rebuild, args)
    points = jax.vmap(lambda x: unconstrain(x, supports)[0])(draws)
    points = points.reshape((plan.groups, plan.size, -1))
    likelihoods = jax.vmap(jax.vmap(target.log_likelihood))(points)
    zero, totals = jnp.zeros((), points.dtype), jnp.zeros(plan.groups, points.dtype)
    ancestors = jnp.arange(plan.groups * plan.size).reshape((plan.groups, plan.size))
    step_size = jnp.asarray(getattr(sampler, "step_size", 1.0), points.dtype)
    first = 1 + points.shape[-1] // 3 if plan.adapts_thin else 1  # a random walk needs about as many steps
    thin = jnp.asarray(first if plan.thin is None else plan.thin)
    return Cloud(points, likelihoods, zero, totals, ancestors, step_size, thin), target


def _factor(points: Array, logs: Array) -> Array:
    """A factor of the weighted covariance of all particles, shrunk towards its diagonal."""
    dim = points.shape[-1]
    logs = logs.reshape(-1)
    weights, rows = jnp.exp(log_softmax(logs)), points.reshape((-1, dim))
    centred = rows - (weights @ rows)[None]
    cov = (weights[:, None] * centred).T @ centred
    shrink = dim / (dim + effective_sample_size(logs))
    return jnp.linalg.cholesky((1 - shrink) * cov + shrink * jnp.diag(jnp.diag(cov)))


def _distinct(ancestors: Array, plan: Plan) -> Array:
    seen = jnp.zeros(plan.groups * plan.size, bool).at[ancestors.reshape(-1)].set(True)
    return seen.sum()
