r"""One stage of sequential Monte Carlo: the next temperature, weights, resampling and moves of all groups.

Groups.      Arrays have leading axes (groups, particles of a group). Weights and resampling stay in a group;
             the temperature and the tuning of the moves are common.
Coordinates. A move from $\theta$ sees $z \mapsto \log p_\beta(\theta + Lz)$ from $z = 0$, with $L L^\top$ the
             covariance of all weighted particles, shrunk towards its diagonal by $d/(d + \mathrm{ESS})$:
             few particles in many dimensions still span the space.
Step size.   Each stage begins with one move of every chain, with step sizes from 1/16 to 2 times the last:
             the one that is accepted as often as the sampler likes is used for the rest of the stage.
Cost.        One move per chain and step, and one to choose the step size; $O(d^3)$ per stage.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check
from tractable.core.iterate import bisect, run
from tractable.core.module import Module, field
from tractable.core.numerics import log_mean_exp, log_softmax
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int, Key, PyTree, Scalar
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

_STRETCHES = (1.0, 0.5, 2.0, 0.25, 0.125, 0.0625)  # of the step size of the stage before, tried in each stage
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


class StageRecord(Module):
    """What a stage reports."""

    temperature: Scalar
    ess: Scalar
    acceptance: Scalar
    step_size: Scalar
    num_ancestors: Int[Array, ""]
    num_evaluations: Int[Array, ""]


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
        points, step_size, accepted, counts = self._move(
            key_move, starts, temperature, cloud.step_size, factor
        )
        kept = plan.size // chains
        ancestors = jnp.repeat(jnp.take_along_axis(cloud.ancestors, chosen, 1), kept, axis=1)
        likelihoods = jax.vmap(jax.vmap(self.target.log_likelihood))(points)
        ess = effective_sample_size(logs).mean() / plan.size
        record = StageRecord(temperature, ess, accepted, step_size, _distinct(ancestors, plan), counts)
        return Cloud(points, likelihoods, temperature, totals, ancestors, step_size), record

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

    def _move(
        self, key: Key, starts: Array, temperature: Scalar, step_size: Scalar, factor: Array | None
    ) -> tuple[Array, Scalar, Scalar, Array]:
        """The new particles, the step size, the mean acceptance, and the evaluations of the density."""
        groups, _, dim = starts.shape
        flat = starts.reshape((-1, dim))
        tuned = int(self.plan.tune and hasattr(self.sampler, "target_acceptance"))
        stretches = jnp.asarray(_STRETCHES[: len(flat)], starts.dtype)
        turn = jnp.arange(len(flat)) % stretches.size

        def begin(start, key):
            return self.sampler.init(
                _Local(self.target, start, temperature, factor), jnp.zeros_like(start), key
            )

        def one(start, state, step_size, key):
            density = _Local(self.target, start, temperature, factor)
            state, info = self.sampler.with_step_size(step_size).step(density, state, key)
            return state, (density.place(state.position), info.acceptance, info.num_gradients)

        def step(carry, each):
            states, size = carry
            keys, pilot = each
            sizes = size * jnp.where(pilot, stretches[turn], 1.0)
            states, report = jax.vmap(one)(flat, states, sizes, keys)
            if tuned:
                size = jnp.where(pilot, size * self._stretch(stretches, turn, report[1]), size)
            return (states, size), report

        key_start, key_run = jr.split(key)
        states = jax.vmap(begin)(flat, jr.split(key_start, len(flat)))
        pilots = jnp.arange(self.plan.moves + tuned) < tuned
        moved = run(step, (states, step_size), (jr.split(key_run, (pilots.size, len(flat))), pilots))
        visited, acceptance, counts = moved.trace
        kept = visited[tuned:] if self.plan.waste_free else visited[-1:]
        points = kept.swapaxes(0, 1).reshape((groups, -1, dim))
        return points, moved.state[1], acceptance[tuned:].mean(), counts.sum()

    def _stretch(self, stretches: Array, turn: Array, accepted: Array) -> Scalar:
        """By how much to change the step size, from the acceptance that each of several changes achieved.

        Acceptance falls with the step: the step of the target acceptance is found by interpolation.
        """
        totals = jnp.zeros_like(stretches).at[turn].add(accepted.astype(stretches.dtype))
        rates = totals / jnp.bincount(turn, length=stretches.size)
        order = jnp.argsort(-stretches)  # from the longest step, of the lowest rate
        # equal rates are told apart by a billionth: interpolation wants them to rise
        rising = jax.lax.cummax(rates[order]) + 1e-9 * jnp.arange(stretches.size)
        target = getattr(self.sampler, "target_acceptance", 0.5)
        return jnp.exp(jnp.interp(target, rising, jnp.log(stretches[order])))


class _Local(Module):
    """The tempered density in the coordinates of a move that begins at `start`."""

    target: TemperedTarget
    start: Array
    temperature: Scalar
    factor: Array | None

    def __call__(self, z: Array) -> Scalar:
        return self.target(self.place(z), self.temperature)

    def place(self, z: Array) -> Array:
        return self.start + (z if self.factor is None else self.factor @ z)


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
    return Cloud(points, likelihoods, zero, totals, ancestors, step_size), target


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
