"""The draws of a run: in rounds, kept and saved as they come, judged at the end.

Interrupted. A round gives chains and store together, or nothing: whenever a run is stopped, the two agree.
Files.       With `stream`, one NumPy file per array, `draws.tau.npy` and the like, of shape
             `(chains, draws, ...)`, written in place: what is on disk after a crash is whole up to the last
             block that was counted.
Cost.        That of the chains; a checkpoint rewrites all draws so far, unless they are streamed. Memory is
             the draws twice while they are joined; with `stream`, one block.
"""

import dataclasses
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.iterate import Status
from tractable.core.module import Module
from tractable.core.progress import progress_bar
from tractable.core.types import PyTree
from tractable.inference.chains.posterior import ChainPosterior
from tractable.inference.chains.threads import BLOCK, Chains, Records, Whitened, evaluate, stream
from tractable.inference.posterior import with_target
from tractable.inference.samplers.sampler import Info
from tractable.inference.trust.smoothness import find_jump

__all__ = ["Continuation", "DiskStore", "MemoryStore", "Plan", "Upkeep", "draw", "kept_of"]

_BEGINNINGS = ("scattered", "pathfinder", "laplace")
_METRICS = ("auto", "dense", "diagonal", "low_rank", "none")
_ROUND_SECONDS = 0.5  # between two looks at the clock and the keyboard


class Plan(Module):
    """What a run was asked for."""

    num_chains: int
    num_draws: int
    thin: int
    warmup: str | int
    metric: str
    begin: str
    spread: float | int

    def __check_init__(self) -> None:
        check_count("num_chains", self.num_chains)
        check_count("num_draws", self.num_draws)
        check_count("thin", self.thin)
        check_option("metric", self.metric, _METRICS)
        check_option("begin", self.begin, _BEGINNINGS)
        number = isinstance(self.warmup, int) and not isinstance(self.warmup, bool) and self.warmup >= 0
        known = self.warmup == "auto" or number
        check(known, "warmup", 'a number of steps or "auto"', repr(self.warmup))
        check(self.spread >= 0, "spread", "zero or positive", self.spread)


class Continuation(Module):
    """What a run needs to go on: all but the density and its data."""

    plan: Plan
    start: PyTree
    supports: Any
    chains: Chains
    warmup: Any  # how it went; nothing before its end
    stream: str | None
    mark: str


class Upkeep(NamedTuple):
    """What goes on beside the draws."""

    checkpoint: Any
    seconds: float
    progress: bool
    begun: float  # by the clock of `time.monotonic`


@dataclasses.dataclass(frozen=True)
class MemoryStore:
    """Blocks of draws in memory, each a pytree of arrays `(chains, steps, ...)`."""

    parts: tuple = ()

    def append(self, block: Any) -> "MemoryStore":
        """The store with another block."""
        return MemoryStore((*self.parts, block))

    def joined(self) -> Any:
        """All blocks as one."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *self.parts)


@dataclasses.dataclass(frozen=True)
class DiskStore:
    """Blocks in files below a folder; `total` draws per chain in all, of which `done` are there already."""

    path: str | os.PathLike
    total: int
    done: int = 0
    files: Any = None  # a pytree of memory maps, once there is a block

    def append(self, block: Any) -> "DiskStore":
        """The store after a block was written behind what is there."""
        files = self._opened(block) if self.files is None else self.files
        done = self.done + jax.tree.leaves(block)[0].shape[1]

        def write(file: np.memmap, leaf: np.ndarray) -> None:
            file[:, self.done : done] = leaf
            file.flush()

        jax.tree.map(write, files, block)
        return DiskStore(self.path, self.total, done, files)

    def joined(self) -> Any:
        """What has been written, as memory maps for reading."""
        return jax.tree.map(
            lambda file: np.load(str(file.filename), mmap_mode="r")[:, : self.done], self.files
        )

    def _opened(self, block: Any) -> Any:
        Path(self.path).mkdir(parents=True, exist_ok=True)
        return jax.tree_util.tree_map_with_path(self._file, block)

    def _file(self, place: tuple, leaf: np.ndarray) -> np.memmap:
        """A file with room for all draws; one that holds earlier draws keeps them."""
        name = jax.tree_util.keystr(place, simple=True, separator=".")
        path = Path(self.path) / f"{name}.npy"
        shape = (leaf.shape[0], self.total, *leaf.shape[2:])
        if self.done == 0:
            return np.lib.format.open_memmap(path, "w+", leaf.dtype, shape)
        got = f"{self.path} without {path.name}"
        check(path.exists(), "stream", "the folder of the run that goes on", got)
        old = np.load(path, mmap_mode="r+")
        if old.shape == shape:
            return old
        longer = path.with_suffix(".longer")
        made = np.lib.format.open_memmap(longer, "w+", leaf.dtype, shape)
        made[:, : self.done] = old[:, : self.done]
        made.flush()
        os.replace(longer, path)
        return np.load(path, mmap_mode="r+")


def draw(
    target: Any,
    kept: Continuation,
    store: MemoryStore | DiskStore,
    left: int,
    upkeep: Upkeep,
    status: Status = Status.completed,
) -> ChainPosterior:
    """Draw `left` times in rounds; between them look at the clock and the keyboard."""
    chains, size, divergences, saved_at, last = kept.chains, 25, 0, time.monotonic(), None
    count = chains.num_chains
    try:
        with progress_bar(left * count, "Sampling", progress=upkeep.progress) as bar:
            while left > 0:
                size, begun = min(size, left), time.monotonic()
                chains, store, records = _round(chains, target, store, size)
                left, last = left - size, records.position
                divergences += int(np.sum(records.info.diverging))
                step = {"step_size": float(chains.step_sizes.mean())} if chains.is_tuned else {}
                bar.advance(size * count, divergences=divergences, **step)
                now = time.monotonic()
                size = _next_size(size, now - begun)
                if upkeep.checkpoint is not None and now - saved_at >= upkeep.seconds:
                    here = dataclasses.replace(kept, chains=chains)
                    _save(_posterior(here, store, upkeep, Status.interrupted), upkeep.checkpoint)
                    saved_at = now
    except KeyboardInterrupt:
        status = Status.interrupted
    remarks = _jump_remarks(chains, target, last)
    post = _posterior(dataclasses.replace(kept, chains=chains), store, upkeep, status, remarks)
    if upkeep.checkpoint is not None:
        _save(post, upkeep.checkpoint)
    return with_target(post, target)


def kept_of(records: Records) -> dict[str, Any]:
    """What of a block goes into the posterior."""
    return {"draws": records.draws, "log_density": records.log_density, "info": records.info}


def _posterior(
    kept: Continuation,
    store: MemoryStore | DiskStore,
    upkeep: Upkeep,
    status: Status,
    remarks: tuple[str, ...] = (),
) -> ChainPosterior:
    """The draws so far, with what is needed to go on."""
    parts, chains = store.joined(), kept.chains
    shape = np.shape(parts["log_density"])
    info = jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape), parts["info"])
    tuned = chains.sampler
    if chains.is_tuned:
        tuned = tuned.with_step_size(np.asarray(chains.step_sizes.mean()))
    made = parts["draws"], parts["log_density"], info, tuned, kept.warmup
    return ChainPosterior(*made, time.monotonic() - upkeep.begun, status, _remarks(info) + remarks, kept)


def _round(
    chains: Chains, target: Any, store: MemoryStore | DiskStore, size: int
) -> tuple[Chains, MemoryStore | DiskStore, Records]:
    chains, records = chains.advance(target, size)
    return chains, store.append(kept_of(records)), records


def _next_size(size: int, seconds: float) -> int:
    """So many draws that a round takes about half a second, as far as a block reaches."""
    return int(np.clip(size * _ROUND_SECONDS / max(seconds, 1e-6), 1, BLOCK))


def _remarks(info: Info) -> tuple[str, ...]:
    """What no diagnostic of the draws can see."""
    undefined = np.asarray(info.undefined)
    if not undefined.any():
        return ()
    return (
        f"The density was not a number somewhere on {undefined.mean():.2%} of the trajectories: "
        "what lies there is not explored. Give its support, or return -inf where the density is zero.",
    )


def _jump_remarks(chains: Chains, target: Any, last: Any) -> tuple[str, ...]:
    """A jump of the density between the chains, which a sampler that follows gradients cannot see."""
    follows = getattr(chains.states[0], "gradient", None) is not None
    if last is None or chains.sampler.space != "real" or chains.sampler.ensemble or not follows:
        return ()
    whitening, key = chains.whitening, stream(chains.words, "looks")[0]
    behind = Whitened(target, whitening)
    rows = np.asarray(last).reshape((-1, np.shape(last)[-1]))
    points = rows if whitening is None else whitening.points(rows)

    def look(x: np.ndarray) -> tuple[float, np.ndarray]:
        # behind the map of the chains, for which the density is compiled already
        z = x if whitening is None else whitening.inverse(x)
        state = evaluate(behind, chains.sampler, z, key)
        slope = np.asarray(state.gradient)
        return float(state.log_density), slope if whitening is None else whitening.solve_transposed(slope)

    jump = find_jump(look, points)
    if jump is None:
        return ()
    where = (
        ", ".join(f"`{target.rebuild.names[i] or 'x'}`" for i in jump.coordinates) or "the variables together"
    )
    return (
        f"The log-density jumps by {jump.size:.3g} along {where}: gradients do not see it. "
        "Use a sampler without gradients (`SliceSampler`), or sum out what jumps.",
    )


def _save(post: ChainPosterior, path: Any) -> None:
    """A checkpoint: without draws that are on disk already."""
    if post.continuation.stream is not None:
        parts = jax.tree.map(lambda leaf: np.asarray(leaf[:, :0]), (post.draws, post.log_density, post.info))
        post = eqx.tree_at(lambda p: (p.draws, p.log_density, p.info), post, parts)
    post.save(path)
