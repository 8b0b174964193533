r"""Several chains of one sampler, each on its own thread, all running one compiled program.

Program.     A block of at most `BLOCK` steps of one chain: whiten, step, tune the step size while adapting,
             record. It is compiled once per model and serves warm-up and sampling, any number of draws and
             any metric.
State.       `Chains` is immutable: `advance` gives the chains further on and what they recorded, and the
             chains from which it began are still there. A run that is interrupted goes on from them.
Randomness.  Every random number of a run belongs to a stream of its key with a name (`stream`). Number $t$
             of the stream of a chain is the key of its step $t$, made on the host by a counter (Philox):
             blocks may be cut anywhere, and a run that was stopped goes on bit for bit.
Cost.        Nothing per step beyond the sampler's; one dispatch per block and chain. Compiled programs
             release the interpreter, so chains use as many cores as there are; no chain waits for
             another's tree.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.host_random import seeds
from tractable.core.interrupts import in_threads
from tractable.core.iterate import run
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array
from tractable.core.user_code import call_user
from tractable.inference.chains.whitening import Whitening
from tractable.inference.samplers.dual_averaging import DualAveraging
from tractable.inference.samplers.sampler import Info, Sampler
from tractable.inference.target import FlatTarget

__all__ = ["BLOCK", "Chains", "NativeTarget", "Records", "Whitened", "as_arrays", "evaluate", "stream"]

BLOCK = 250  # steps in a block

_STREAMS = {
    "warmup": 0,  # the steps of one chain while it is tuned
    "draws": 1,  # the steps of one chain after that
    "states": 2,  # what a sampler needs to begin at a point, by the step at which it begins there
    "modes": 6,  # the points from which other modes are looked for
    "approximation": 7,  # the draws of an approximation, from which chains begin
    "looks": 8,  # states that are only looked at
    "scatter": 9,  # the points about the start, from which chains begin
}


def stream(words: np.ndarray, name: str, chain: int = 0, low: int = 0, count: int = 1) -> np.ndarray:
    """Keys number `low` to `low + count` of a stream of the run whose key has these `words`, as pairs of
    words.

    A stream is known by its name, and for steps by the number of the chain; all are independent.
    """
    generator = np.random.Philox(key=seeds(words, 2, _STREAMS[name], chain))
    generator.advance(low)  # one counter gives four words of 64 bits, of which the first is used
    return generator.random_raw(4 * count)[::4].copy().view(np.uint32).reshape((count, 2))


class NativeTarget(Module):
    """A log-density of the start as it is, for samplers that need no real vector."""

    log_density: Any
    args: tuple

    def __call__(self, position: Any) -> Any:
        return call_user("log_density", self.log_density, position, *self.args)


class Whitened(Module):
    """A target in the space in which the chains move."""

    target: Any
    whitening: Whitening | None

    def __call__(self, z: Any) -> Any:
        return self.target(self.point(z))

    def point(self, z: Any) -> Any:
        """Where `z` is in the space of the target."""
        return z if self.whitening is None else self.whitening.forward(z)

    def draw(self, z: Any) -> Any:
        """What the user calls `z`."""
        return self.target.rebuild(self.point(z))[0] if isinstance(self.target, FlatTarget) else z


class Records(Module):
    """What a block leaves behind, with leading axes `(chains, steps)`."""

    draws: Any  # with the structure of the start
    position: Any  # in the space in which the chains move
    gradient: Any
    log_density: Any
    info: Info


class Chains(Module):
    """The chains of a run at one moment: where they are, how they move, and how far they have come.

    A *lane* is what one thread moves: a chain, or all of them where the sampler is an ensemble.
    """

    sampler: Sampler
    whitening: Whitening | None
    words: np.ndarray  # of the key of the run
    states: tuple  # of each lane
    tunings: tuple[DualAveraging, ...]  # of each lane
    num_chains: int
    phase: str = "warmup"  # or "draws": the name of the stream of the steps
    count: int = 0  # steps in this phase
    thin: int = 1  # steps between two records
    adapting: bool = False

    @staticmethod
    def at(
        target: Any,
        sampler: Sampler,
        words: np.ndarray,
        positions: Any,
        whitening: Whitening | None = None,
        step_size: float | None = None,
    ) -> "Chains":
        """Chains that begin at `positions`, with a leading axis of chains, in the space in which they
        move."""
        sampler, num_chains = as_arrays(sampler), jax.tree.leaves(positions)[0].shape[0]
        lanes = 1 if sampler.ensemble else num_chains
        own = np.mean(getattr(sampler, "step_size", 1.0)) if step_size is None else step_size
        made = Chains(sampler, whitening, words, (), (DualAveraging.of(own),) * lanes, num_chains)
        return made.restarted(target, positions, whitening, None)

    @property
    def is_tuned(self) -> bool:
        """Whether the step size is for the warm-up to find."""
        return is_tuned(self.sampler)

    @property
    def step_sizes(self) -> np.ndarray:
        """The step size of each lane."""
        return np.exp([float(tuning.log_step) for tuning in self.tunings])

    def advance(self, target: Any, steps: int) -> tuple["Chains", Records]:
        """The chains after `steps` recorded steps, at most a block, and the records."""
        behind, lanes = Whitened(target, self.whitening), zip(self.states, self.tunings, self._keys(steps))
        work = [(behind, self.sampler, *lane, steps, self.adapting) for lane in lanes]
        made = list(in_threads(lambda lane: run_block(*lane), work))
        states, tunings, records = zip(*made)
        join = _turned if self.sampler.ensemble else lambda *leaves: np.stack(leaves)
        whole = jax.tree.map(lambda *leaves: join(*[np.asarray(leaf)[:steps] for leaf in leaves]), *records)
        count = self.count + steps * self.thin
        return dataclasses.replace(self, states=states, tunings=tunings, count=count), whole

    def restarted(
        self, target: Any, positions: Any, whitening: Whitening | None, step_size: float | None
    ) -> "Chains":
        """The chains at `positions` behind another map; they search the step size anew from `step_size`."""
        behind, lanes = Whitened(target, whitening), [positions]
        if not self.sampler.ensemble:
            lanes = [jax.tree.map(lambda leaf, c=c: leaf[c], positions) for c in range(self.num_chains)]
        keys = stream(self.words, "states", 0, self.count, len(lanes))
        states = tuple(evaluate(behind, self.sampler, lane, key) for lane, key in zip(lanes, keys))
        return dataclasses.replace(self._searching(step_size), states=states, whitening=whitening)

    def frozen(self, step_size: float | None) -> "Chains":
        """The chains after their warm-up: nothing is tuned any more, and the draws begin."""
        sampler = self.sampler
        if hasattr(sampler, "adapting"):
            sampler = eqx.tree_at(lambda s: s.adapting, sampler, np.asarray(False))
        after = {"sampler": sampler, "phase": "draws", "count": 0, "adapting": False}
        return dataclasses.replace(self._searching(step_size), **after)

    def _searching(self, step_size: float | None) -> "Chains":
        """The search of the step size anew, from `step_size` if there is one."""
        if step_size is None:
            return self
        return dataclasses.replace(self, tunings=(DualAveraging.of(step_size),) * len(self.tunings))

    def _keys(self, steps: int) -> list[np.ndarray]:
        """The keys of the next steps of each lane, in a room of one size."""
        rooms = [np.zeros((BLOCK * self.thin, 2), np.uint32) for _ in self.states]
        for lane, room in enumerate(rooms):
            keys = stream(self.words, self.phase, lane, self.count, steps * self.thin)
            room[: len(keys)] = keys
        return [room.reshape((BLOCK, self.thin, 2)) for room in rooms]


def is_tuned(sampler: Sampler) -> bool:
    """Whether the step size of a sampler is for the warm-up to find."""
    return hasattr(sampler, "step_size") and getattr(sampler, "target_acceptance", None) is not None


def compile_block(target: Whitened, sampler: Sampler, position: Any) -> None:
    """Compile the block for a chain at a `position` like this; a thread may do it beside other work."""
    keys = np.zeros((BLOCK, 1, 2), np.uint32)
    shapes = eqx.filter_eval_shape(evaluate, target, sampler, position, keys[0, 0])
    blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    run_block(target, sampler, blank, DualAveraging.of(1.0), keys, 0, False)


def run_block(
    target: Whitened,
    sampler: Sampler,
    state: Any,
    tuning: DualAveraging,
    keys: np.ndarray,
    steps: int,
    adapting: bool,
) -> tuple[Any, DualAveraging, Records]:
    """One block of one lane, to its end."""
    counts = {"count": np.asarray(steps), "adapting": np.asarray(adapting), "tuned": is_tuned(sampler)}
    return jax.block_until_ready(_advance(target, sampler, state, tuning, keys, **counts))


def _turned(leaf: np.ndarray) -> np.ndarray:
    return np.swapaxes(leaf, 0, 1)  # (steps, chains, ...) of the one lane


def as_arrays(tree: Any) -> Any:
    """Options as arrays: another value is not another program."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, bool | int | float) else leaf, tree)


@program
def evaluate(target: Whitened, sampler: Sampler, position: Any, words: Any) -> Any:
    """The state of one chain at `position`."""
    return sampler.init(target, position, jr.wrap_key_data(words))


@program
def _advance(
    target: Whitened,
    sampler: Sampler,
    state: Any,
    tuning: DualAveraging,
    words: Any,
    *,
    count: Any,
    adapting: Any,
    tuned: bool,
) -> tuple[Any, DualAveraging, Records]:
    """`count` of the steps that `words` are for."""

    @jax.jit  # traced once, though its shapes are asked for as well
    def move(carry: tuple, word: Array) -> tuple[tuple, Info]:
        state, tuning = carry
        moving = sampler.with_step_size(jnp.exp(tuning.log_step)) if tuned else sampler
        state, info = moving.step(target, state, jr.wrap_key_data(word))
        if tuned:
            better = tuning.update(jnp.mean(info.acceptance), sampler.target_acceptance)  # type: ignore[attr-defined]
            tuning = jax.tree.map(lambda new, old: jnp.where(adapting, new, old), better, tuning)
        return (state, tuning), info

    def record(carry: tuple, word_and_index: tuple) -> tuple[tuple, tuple]:
        words, k = word_and_index
        shapes = jax.eval_shape(move, carry, words[0])[1]
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        carry, info = jax.lax.cond(k < count, lambda: _moves(move, carry, words), lambda: (carry, blank))
        state = carry[0]
        return carry, (state.position, getattr(state, "gradient", None), state.log_density, info)

    made = run(record, (state, tuning), (words, jnp.arange(BLOCK)))
    (state, tuning), (positions, gradients, values, infos) = made.state, made.trace
    at_once = jax.vmap(jax.vmap(target.draw)) if sampler.ensemble else jax.vmap(target.draw)
    return state, tuning, Records(at_once(positions), positions, gradients, values, infos)


def _moves(move: Any, carry: tuple, words: Array) -> tuple[tuple, Info]:
    """The steps between two records; their reports as one."""
    if words.shape[0] == 1:
        return move(carry, words[0])
    made = run(move, carry, words)
    return made.state, made.trace.joined()
