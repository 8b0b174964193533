r"""Several chains of one sampler, each on its own thread, all running one compiled program.

Program.     A block of at most `BLOCK` steps of one chain: whiten, step, tune the step size while adapting,
             record. It is compiled once per model and serves warm-up and sampling, any number of draws and
             any metric.
Randomness.  Step $t$ of chain $c$ uses the $t$-th word of a counter-based stream of its own (Philox), made on
             the host: blocks may be cut anywhere, and a run that was stopped goes on bit for bit.
Cost.        Nothing per step beyond the sampler's; one dispatch per block and chain. Compiled programs
             release the interpreter, so chains use as many cores as there are; no chain waits for
             another's tree.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import is_key
from tractable.core.iterate import run
from tractable.core.module import Module
from tractable.core.types import Array, Key
from tractable.inference.chains.whitening import Whitening
from tractable.inference.samplers.dual_averaging import DualAveraging
from tractable.inference.samplers.sampler import Info, Sampler
from tractable.inference.target import FlatTarget

__all__ = [
    "BLOCK",
    "Chains",
    "NativeTarget",
    "Records",
    "Whitened",
    "as_arrays",
    "evaluate",
    "key_words",
    "random_words",
]

BLOCK = 250  # steps in a block


class NativeTarget(Module):
    """A log-density of the start as it is, for samplers that need no real vector."""

    log_density: Any
    args: tuple

    def __call__(self, position: Any) -> Any:
        return self.log_density(position, *self.args)


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


class Chains:
    """The chains of a run: where they are, how they move, and how far they have come."""

    def __init__(self, target: Whitened, sampler: Sampler, words: np.ndarray):
        self.target, self.sampler, self.words, self.thin = target, as_arrays(sampler), words, 1
        self.phase, self.count, self.adapting = 0, 0, False
        self.states: list = []
        self.tunings: list[DualAveraging] = []

    def begin(self, positions: Any, step_size: float | None = None) -> None:
        """Put the chains at `positions`, with a leading axis of chains, in the space in which they move."""
        self.num_chains = jax.tree.leaves(positions)[0].shape[0]
        self.states = self._begin(positions)
        own = np.mean(getattr(self.sampler, "step_size", 1.0))
        self.tunings = [DualAveraging.of(own if step_size is None else step_size) for _ in self.states]

    @property
    def num_lanes(self) -> int:
        """How many threads of work there are: one per chain, or one for an ensemble."""
        return 1 if self.sampler.ensemble else self.num_chains

    @property
    def is_tuned(self) -> bool:
        """Whether the step size is for the warm-up to find."""
        return (
            hasattr(self.sampler, "step_size")
            and getattr(self.sampler, "target_acceptance", None) is not None
        )

    def advance(self, steps: int) -> Records:
        """Move every chain by `steps` recorded steps, at most a block."""
        words = [self._words(lane, steps) for lane in range(self.num_lanes)]
        made = _in_threads(self._block, list(zip(self.states, self.tunings, words, [steps] * self.num_lanes)))
        self.states, self.tunings = [m[0] for m in made], [m[1] for m in made]
        self.count += steps * self.thin
        stack = self._join if self.sampler.ensemble else lambda *leaves: np.stack(leaves)
        return jax.tree.map(
            lambda *leaves: stack(*[np.asarray(leaf)[:steps] for leaf in leaves]), *[m[2] for m in made]
        )

    def compile(self, position: Any) -> None:
        """Compile the block for a chain at a `position` like this; a thread may do it beside other work."""
        shapes = eqx.filter_eval_shape(evaluate, self.target, self.sampler, position, self.words[:2])
        blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        self._block(blank, DualAveraging.of(1.0), np.zeros((BLOCK, self.thin, 2), np.uint32), 0)

    def restart(self, positions: Any, whitening: Whitening | None, step_size: float | None) -> None:
        """Go on from `positions` behind another map, and search the step size anew from `step_size`."""
        self.target = Whitened(self.target.target, whitening)
        self.states = self._begin(positions)
        self.search(step_size)

    def freeze(self, step_size: float | None) -> None:
        """End the warm-up: nothing is tuned any more, and the draws begin."""
        self.adapting, self.phase, self.count = False, 1, 0
        self.search(step_size)
        if hasattr(self.sampler, "adapting"):
            self.sampler = eqx.tree_at(lambda s: s.adapting, self.sampler, np.asarray(False))

    def search(self, step_size: float | None) -> None:
        """Begin the search of the step size anew, from `step_size` if there is one."""
        if step_size is not None:
            self.tunings = [DualAveraging.of(step_size) for _ in self.states]

    @property
    def step_sizes(self) -> np.ndarray:
        """The step size of each chain."""
        return np.exp([float(tuning.log_step) for tuning in self.tunings])

    def _block(self, state: Any, tuning: DualAveraging, words: np.ndarray, steps: int) -> Any:
        """One block of one lane, to its end."""
        counts = {"count": np.asarray(steps), "adapting": np.asarray(self.adapting), "tuned": self.is_tuned}
        return jax.block_until_ready(_advance(self.target, self.sampler, state, tuning, words, **counts))

    def _begin(self, positions: Any) -> list:
        words = self._words_at(2 + self.phase, self.count, self.num_lanes)
        if self.sampler.ensemble:
            return [evaluate(self.target, self.sampler, positions, words[0])]
        lanes = [jax.tree.map(lambda leaf, c=c: leaf[c], positions) for c in range(self.num_chains)]
        return [evaluate(self.target, self.sampler, lane, word) for lane, word in zip(lanes, words)]

    def _words(self, lane: int, steps: int) -> np.ndarray:
        words = random_words(self.words, (self.phase, lane), self.count, steps * self.thin)
        room = np.zeros((BLOCK * self.thin, 2), np.uint32)
        room[: len(words)] = words
        return room.reshape((BLOCK, self.thin, 2))

    def _words_at(self, purpose: int, low: int, count: int) -> np.ndarray:
        return random_words(self.words, (purpose, 0), low, count)

    def _join(self, *leaves: np.ndarray) -> np.ndarray:
        return np.swapaxes(leaves[0], 0, 1)  # (steps, chains, ...) of the one lane


def key_words(key: Key) -> np.ndarray:
    """The words of a key, on the host."""
    return np.asarray(jr.key_data(key) if is_key(key) else key, np.uint32).reshape(-1)


def random_words(words: np.ndarray, stream: tuple[int, int], low: int, count: int) -> np.ndarray:
    """Pairs of random words number `low` to `low + count` of a stream: keys for so many steps."""
    seed = np.random.SeedSequence([*(int(w) for w in words), *stream]).generate_state(2, np.uint64)
    generator = np.random.Philox(key=seed)
    generator.advance(low)  # one counter gives four words of 64 bits, of which the first is used
    return generator.random_raw(4 * count)[::4].copy().view(np.uint32).reshape((count, 2))


def _in_threads(work: Any, items: list[tuple]) -> list:
    if len(items) == 1:
        return [work(*items[0])]
    with ThreadPoolExecutor(min(len(items), os.cpu_count() or 1)) as pool:
        return list(pool.map(work, *zip(*items)))


def as_arrays(tree: Any) -> Any:
    """Options as arrays: another value is not another program."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, bool | int | float) else leaf, tree)


@eqx.filter_jit
def evaluate(target: Whitened, sampler: Sampler, position: Any, words: Any) -> Any:
    """The state of one chain at `position`."""
    return sampler.init(target, position, jr.wrap_key_data(words))


@eqx.filter_jit
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
        moving = eqx.tree_at(lambda s: s.step_size, sampler, jnp.exp(tuning.log_step)) if tuned else sampler
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
    infos = made.trace
    return made.state, Info(
        acceptance=infos.acceptance.mean(0),
        num_gradients=infos.num_gradients.sum(0, dtype=infos.num_gradients.dtype),
        diverging=jnp.any(infos.diverging, 0),
        saturated=jnp.any(infos.saturated, 0),
        undefined=jnp.any(infos.undefined, 0),
        energy=infos.energy[-1],
    )
