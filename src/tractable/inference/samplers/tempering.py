r"""Parallel tempering: copies of a chain at rising temperatures that trade places, so that modes are crossed.

Targets.     Replica $k$ follows $p(x)^{1/T_k}$, $1 = T_0 < \dots < T_{K-1}$; the cold one is the answer.
Swap.        Neighbours trade positions with probability
             $\min\{1, \exp[(1/T_k - 1/T_{k+1})(\ell(x_{k+1}) - \ell(x_k))]\}$, $\ell = \log p$: even pairs in
             one step, odd pairs in the next, by turns and not at random, so that a position moves through
             the ladder in a straight line and not by diffusion.
Ladder.      Rejections $r_k$ of the pairs add up to the barrier $\Lambda(1/T)$; while `adapting`, inverse
             temperatures are moved to where its increments are equal, after rounds of doubling length. With
             $r$ the common rejection, a position crosses the ladder at a rate that no number of replicas
             raises beyond $1/(2 + 2\Lambda)$: about $2\Lambda$ replicas are enough.
Cost.        $K$ steps of the inner sampler per step, side by side.
References.  Geyer (1991); Okabe et al. (2001); Syed, Bouchard-Cote, Deligiannidis and Doucet (2022),
             "Non-reversible parallel tempering".
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.accept import accept
from tractable.core.checks import as_float, check, check_count, is_concrete
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Int, Key, PyTree, Scalar
from tractable.inference.samplers.sampler import Info, LogDensity, Sampler

__all__ = ["ParallelTempering", "TemperingState", "temperatures_up_to"]

_FIRST_ROUND = 32  # steps before the ladder is looked at for the first time


class TemperingState(Module):
    """The cold replica as a point of a chain, all replicas, and what was learnt about the ladder."""

    position: PyTree
    log_density: Scalar
    gradient: Any
    replicas: Any  # states of the inner sampler, leading axis K, the cold one first
    inverse_temperatures: Float[Array, " k"]
    step_sizes: Float[Array, " k"]
    rejections: Float[Array, " pairs"]  # summed over this round
    attempts: Float[Array, " pairs"]
    num_steps: Int[Array, ""]
    next_round: Int[Array, ""]  # the step at which the ladder is looked at again

    @property
    def swap_rates(self) -> Float[Array, " pairs"]:
        """The share of accepted swaps of each pair of neighbours, since the ladder last changed."""
        return 1 - self.rejections / jnp.maximum(self.attempts, 1)

    @property
    def barrier(self) -> Scalar:
        r"""$\Lambda$, the sum of the rejections: about twice as many replicas are enough."""
        return (1 - self.swap_rates).sum()


class ParallelTempering(Sampler):
    """`sampler` at several temperatures, with swaps; while `adapting` it tunes the ladder and the step sizes.

    `temperatures` is a number of replicas, spread geometrically up to `hottest`, or an array from 1 upwards.
    At the hottest temperature one chain must reach everything; the target to the power `1 / hottest` must
    still have a finite integral.
    """

    sampler: Sampler
    temperatures: Float[Array, " k"]
    adapting: Any = True

    def __init__(
        self,
        sampler: Sampler,
        temperatures: int | ArrayLike = 8,
        *,
        hottest: float | int = 100.0,
        adapting: Any = True,
    ):
        real = isinstance(sampler, Sampler) and sampler.space == "real" and not sampler.ensemble
        check(
            real, "sampler", "a sampler of one chain in real space", type(sampler).__name__, error=TypeError
        )
        self.sampler, self.adapting = sampler, adapting
        self.temperatures = _as_temperatures(temperatures, hottest)

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> TemperingState:
        """All replicas at `position`."""
        betas = 1 / self.temperatures
        count = betas.size

        def start(beta, key):
            return self.sampler.init(lambda x: beta * log_density(x), position, key)

        replicas = jax.vmap(start)(betas, jr.split(key, count))
        steps = jnp.full(count, getattr(self.sampler, "step_size", 1.0), betas.dtype)
        if hasattr(self.sampler, "step_size"):
            steps = steps * jnp.sqrt(self.temperatures)  # a Gaussian is this much wider at a temperature
        none = jnp.zeros(count - 1, betas.dtype)
        zero, first = jnp.asarray(0), jnp.asarray(_FIRST_ROUND)
        return _gathered(replicas, betas, steps, none, none, zero, first)

    def step(self, log_density: LogDensity, state: TemperingState, key: Key) -> tuple[TemperingState, Info]:
        """Every replica moves at its temperature, then neighbours trade places, then the ladder is tuned."""
        key_move, key_swap = jr.split(key)
        replicas, infos = self._move(log_density, state, key_move)
        replicas, rejected, tried = _swap(key_swap, replicas, state)
        moved = _gathered(
            replicas, state.inverse_temperatures, self._tuned(state, infos.acceptance),
            state.rejections + rejected, state.attempts + tried, state.num_steps + 1, state.next_round,
        )  # fmt: skip
        due = jnp.asarray(self.adapting, bool) & (moved.num_steps >= moved.next_round)
        state = jax.lax.cond(due, _relocated, lambda state: state, moved)
        cold = jax.tree.map(lambda leaf: leaf[0], infos)
        return state, eqx.tree_at(lambda info: info.num_gradients, cold, infos.num_gradients.sum())

    def _move(self, log_density: LogDensity, state: TemperingState, key: Key) -> tuple[Any, Info]:
        def one(replica, beta, step_size, key):
            inner = self.sampler.with_step_size(step_size)
            learning = getattr(inner, "adapting", None)
            if learning is not None:
                learning = jnp.asarray(learning) & jnp.asarray(self.adapting)
                inner = eqx.tree_at(lambda s: s.adapting, inner, learning)
            replica, info = inner.step(lambda x: beta * log_density(x), replica, key)
            return replica, jax.tree.map(jnp.asarray, info)

        keys = jr.split(key, state.step_sizes.size)
        return jax.vmap(one)(state.replicas, state.inverse_temperatures, state.step_sizes, keys)

    def _tuned(self, state: TemperingState, acceptance: Array) -> Array:
        """Step sizes after a step of stochastic approximation towards the target acceptance."""
        target = getattr(self.sampler, "target_acceptance", None)
        if target is None or not hasattr(self.sampler, "step_size"):
            return state.step_sizes
        gain = (state.num_steps + 1.0) ** -0.6
        better = state.step_sizes * jnp.exp(gain * (acceptance - target))
        return jnp.where(jnp.asarray(self.adapting, bool), better, state.step_sizes)


def temperatures_up_to(hottest: float | int, count: int) -> Array:
    """`count` temperatures from 1 to `hottest`, each the same multiple of the one before."""
    count = check_count("count", count, 2)
    check(hottest > 1, "hottest", "above 1", hottest)
    return jnp.asarray(np.geomspace(1.0, hottest, count))


def _as_temperatures(temperatures: int | ArrayLike, hottest: float | int) -> Array:
    if isinstance(temperatures, int):
        return temperatures_up_to(hottest, check_count("temperatures", temperatures, 2))
    values = as_float("temperatures", temperatures)
    must = "a vector of two or more that rises from 1"
    check(values.ndim == 1 and values.size > 1, "temperatures", must, f"shape {values.shape}")
    if is_concrete(values):
        found = np.asarray(values)
        rising = found[0] == 1 and bool((np.diff(found) > 0).all()) and bool(np.isfinite(found).all())
        check(rising, "temperatures", must, f"{found}")
    return values


def _gathered(replicas: Any, *rest: Any) -> TemperingState:
    """A state whose own point is that of the cold replica, at temperature 1."""
    cold = jax.tree.map(lambda leaf: leaf[0], replicas)
    return TemperingState(cold.position, cold.log_density, getattr(cold, "gradient", None), replicas, *rest)


def _replaced(replicas: Any, source: Array, ratio: Array) -> Any:
    """Replica k takes the point of replica `source[k]`, its density and slope times `ratio[k]`.

    What a replica has learnt stays where it is: it belongs to the temperature.
    """

    def scaled(leaf):
        return leaf[source] * ratio.reshape((-1,) + (1,) * (leaf.ndim - 1))

    position = jax.tree.map(lambda leaf: leaf[source], replicas.position)
    new = eqx.tree_at(
        lambda r: (r.position, r.log_density), replicas, (position, scaled(replicas.log_density))
    )
    if getattr(replicas, "gradient", None) is None:
        return new
    return eqx.tree_at(lambda r: r.gradient, new, jax.tree.map(scaled, replicas.gradient))


def _swap(key: Key, replicas: Any, state: TemperingState) -> tuple[Any, Array, Array]:
    """Even pairs or odd pairs trade places; the rejection of each pair that was tried, and which were."""
    betas = state.inverse_temperatures
    logs = replicas.log_density / betas
    pairs = jnp.arange(betas.size - 1)
    tried = pairs % 2 == state.num_steps % 2
    accepted, probability = accept(key, (betas[:-1] - betas[1:]) * (logs[1:] - logs[:-1]))
    traded = accepted & tried
    index = jnp.arange(betas.size)
    # pairs that are tried do not overlap: a replica trades with one neighbour at most
    source = index.at[:-1].add(traded.astype(index.dtype)).at[1:].add(-traded.astype(index.dtype))
    swapped = _replaced(replicas, source, betas / betas[source])
    return swapped, jnp.where(tried, 1 - probability, 0.0), tried.astype(betas.dtype)


def _relocated(state: TemperingState) -> TemperingState:
    """The ladder with equal rejections, by linear interpolation of the barrier; a new round begins."""
    betas = state.inverse_temperatures
    # a pair that was never rejected keeps a sliver, so that the barrier rises strictly
    rejection = jnp.maximum(1 - state.swap_rates, 1e-3)
    barrier = jnp.concatenate([jnp.zeros(1, betas.dtype), jnp.cumsum(rejection)])
    levels = jnp.linspace(0.0, 1.0, betas.size, dtype=betas.dtype) * barrier[-1]
    moved = jnp.interp(levels, barrier, betas).at[0].set(betas[0]).at[-1].set(betas[-1])
    # the logarithm of a step size is close to linear in that of the temperature
    steps = jnp.exp(jnp.interp(-jnp.log(moved), -jnp.log(betas), jnp.log(state.step_sizes)))
    replicas = _replaced(state.replicas, jnp.arange(betas.size), moved / betas)
    none = jnp.zeros_like(state.rejections)
    return _gathered(replicas, moved, steps, none, none, state.num_steps, 2 * state.num_steps)
