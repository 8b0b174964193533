r"""The moves of a stage of sequential Monte Carlo: many short chains at one temperature, tuned as they go.

Coordinates. A move from $\theta$ sees $z \mapsto \log p_\beta(\theta + Lz)$ from $z = 0$, with $L L^\top$ the
             covariance of all weighted particles, shrunk towards its diagonal by $d/(d + \mathrm{ESS})$:
             few particles in many dimensions still span the space.
Step size.   Each stage begins with one move of every chain, with step sizes from 1/16 to 2 times the last:
             the one that is accepted as often as the sampler likes is used for the rest of the stage. Of a
             random walk every fourth step is four times shorter, and every fourth three times longer: necks
             and tails want other steps than the middle.
Refreshed.   What a chain remembers of its start is the largest correlation of its first and last state, over
             whitened coordinates squashed to $y/(1 + |y|)$. So many steps are made between kept states that
             the next stage should remember `_FORGOTTEN`, if the rate of forgetting stays as it is.
Cost.        `thin` moves per chain and kept state, and one to choose the step size.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.linalg import solve_triangular

from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Int, Key, Scalar
from tractable.inference.samplers.metropolis import RandomWalkMetropolis
from tractable.inference.samplers.sampler import Sampler

__all__ = ["Moved", "Moves", "memory", "next_thin"]

_STRETCHES = (1.0, 0.5, 2.0, 0.25, 0.125, 0.0625)  # of the step size of the stage before, tried in each stage
_FACTORS = (1.0, 0.25, 1.0, 3.0)  # of the step size of a random walk, in turn
_FORGOTTEN = 0.2  # the correlation of the ends of a chain that is asked for
_FASTEST = 8.0  # the factor by which `thin` grows at most from stage to stage
_MOST_THIN = 16


class Moved(Module):
    """What the chains of a stage have seen."""

    visited: Float[Array, "moves n d"]
    step_size: Scalar
    acceptance: Scalar
    num_evaluations: Int[Array, ""]


class Moves(Module):
    """Chains from given starts that leave the target at one temperature invariant."""

    target: Any
    sampler: Sampler
    temperature: Scalar
    factor: Float[Array, "d d"] | None
    thin: Int[Array, ""]
    tune: bool = field(static=True)

    def __call__(self, key: Key, starts: Float[Array, "n d"], step_size: Scalar, num_moves: int) -> Moved:
        """`num_moves` kept states of a chain from each start."""
        tuned = int(self.tune and hasattr(self.sampler, "target_acceptance"))
        key_start, key_run = jr.split(key)
        states = jax.vmap(self._begin)(starts, jr.split(key_start, len(starts)))
        pilots = jnp.arange(num_moves + tuned) < tuned
        stretches = jnp.asarray(_STRETCHES[: len(starts)], starts.dtype)
        turn = jnp.arange(len(starts)) % stretches.size

        def move(carry, each):
            states, size = carry
            key, pilot = each
            repeats = jnp.where(pilot, 1, self.thin)
            tried = jnp.where(pilot, stretches[turn], 1.0)
            states, accepted, count = self._steps(key, starts, states, size * tried, repeats, pilot)
            if tuned:
                size = jnp.where(pilot, size * self._stretch(stretches, turn, accepted), size)
            points = jax.vmap(lambda x, z: self._local(x).place(z))(starts, states.position)
            return (states, size), (points, accepted / repeats, count)

        moved = run(move, (states, step_size), (jr.split(key_run, pilots.size), pilots))
        visited, acceptance, counts = moved.trace
        return Moved(visited[tuned:], moved.state[1], acceptance[tuned:].mean(), counts.sum())

    def _steps(
        self, key: Key, starts: Array, states: Any, sizes: Array, repeats: Array, pilot: Array
    ) -> tuple[Any, Array, Array]:
        """So many steps of every chain: the states, the sums of their acceptances, and the evaluations."""
        walks = self.tune and isinstance(self.sampler, RandomWalkMetropolis)
        factors = jnp.asarray(_FACTORS if walks else (1.0,), starts.dtype)
        place = jnp.arange(len(starts))

        def one(start, state, size, key):
            state, info = self.sampler.with_step_size(size).step(self._local(start), state, key)
            return state, info.acceptance, info.num_gradients

        def again(i, carry):
            states, accepted, count = carry
            turned = jnp.where(pilot, 1.0, factors[(place + i) % factors.size])
            keys = jr.split(jr.fold_in(key, i), len(starts))
            states, rates, counts = jax.vmap(one)(starts, states, sizes * turned, keys)
            return states, accepted + rates, count + jnp.sum(counts, dtype=count.dtype)

        nothing = jnp.zeros(len(starts), starts.dtype), jnp.zeros((), int)
        return jax.lax.fori_loop(0, repeats, again, (states, *nothing))

    def _begin(self, start: Array, key: Key) -> Any:
        return self.sampler.init(self._local(start), jnp.zeros_like(start), key)

    def _local(self, start: Array) -> "_Local":
        return _Local(self.target, start, self.temperature, self.factor)

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

    target: Any
    start: Array
    temperature: Scalar
    factor: Array | None

    def __call__(self, z: Array) -> Scalar:
        return self.target(self.place(z), self.temperature)

    def place(self, z: Array) -> Array:
        return self.start + (z if self.factor is None else self.factor @ z)


def memory(before: Array, after: Array, factor: Array | None) -> Scalar:
    """The largest correlation of a squashed coordinate at both ends of the chains, less what chance makes of
    the largest of so many; one where nothing moved."""
    count, dim = before.shape
    scale = jnp.diag(jnp.where(before.std(0) > 0, before.std(0), 1.0)) if factor is None else factor

    def squashed(rows):
        y = solve_triangular(scale, (rows - before.mean(0)[None]).T, lower=True).T
        y = y / (1 + jnp.abs(y))
        y = y - y.mean(0)[None]
        return y / jnp.sqrt((y**2).mean(0))[None]

    correlations = (squashed(before) * squashed(after)).mean(0)
    chance = jnp.sqrt(2 * jnp.log(1.0 + dim) / count)
    return jnp.where(jnp.isnan(correlations).any(), 1.0, jnp.maximum(correlations.max() - chance, 0.0))


def next_thin(thin: Array, remembered: Scalar) -> Array:
    """As many steps as should make the chains forget, which they do geometrically."""
    rate = jnp.log(_FORGOTTEN) / jnp.log(jnp.clip(remembered, 0.02, 0.98))
    wanted = jnp.ceil(thin * jnp.minimum(rate, _FASTEST) - 1e-6).astype(thin.dtype)
    return jnp.clip(wanted, 1, _MOST_THIN)
