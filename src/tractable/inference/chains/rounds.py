"""The draws of a run: in rounds, kept and saved as they come, judged at the end.

Cost.        That of the chains; a checkpoint rewrites all draws so far, unless they are streamed.
"""

import dataclasses
import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from tractable.core.iterate import Status
from tractable.core.module import Module
from tractable.core.progress import progress_bar
from tractable.core.types import PyTree
from tractable.inference.chains.posterior import Posterior
from tractable.inference.chains.threads import BLOCK, Chains, Records, evaluate
from tractable.inference.chains.whitening import Whitening
from tractable.inference.samplers.dual_averaging import DualAveraging
from tractable.inference.samplers.sampler import Info, Sampler
from tractable.inference.trust.smoothness import find_jump

__all__ = ["Continuation", "Upkeep", "draw", "kept_of"]

_ROUND_SECONDS = 0.5  # between two looks at the clock and the keyboard


class Upkeep(NamedTuple):
    """What goes on beside the draws."""

    checkpoint: Any
    seconds: float
    progress: bool
    begun: float  # by the clock of `time.monotonic`
    cut_short: bool = False  # interrupted before the first draw


class Continuation(Module):
    """What a run needs to go on: all but the density and its data."""

    start: PyTree
    supports: Any
    sampler: Sampler
    whitening: Whitening | None
    states: list
    tunings: list[DualAveraging]
    words: np.ndarray
    warmup: Any
    count: int
    thin: int
    planned: int
    stream: str | None
    mark: str


def draw(group: Chains, store: Any, kept: Continuation, left: int, upkeep: Upkeep) -> Posterior:
    """Draw `left` times in rounds; between them look at the clock and the keyboard."""
    size, divergences, saved_at, last, status = 25, 0, time.monotonic(), None, Status.completed
    try:
        with progress_bar(left * group.num_chains, "Sampling", progress=upkeep.progress) as bar:
            while left > 0:
                size, begun = min(size, left), time.monotonic()
                records = group.advance(size)
                last = records.position
                store.append(kept_of(records))
                left -= size
                divergences += int(np.sum(records.info.diverging))
                bar.advance(size * group.num_chains, divergences=divergences, **_step_field(group))
                now = time.monotonic()
                size = _next_size(size, now - begun)
                if upkeep.checkpoint is not None and now - saved_at >= upkeep.seconds:
                    _save(_posterior(group, store, kept, upkeep.begun, Status.interrupted), upkeep.checkpoint)
                    saved_at = now
    except KeyboardInterrupt:
        status = Status.interrupted
    remarks = _jump_remarks(group, last)
    post = _posterior(
        group, store, kept, upkeep.begun, Status.interrupted if upkeep.cut_short else status, remarks
    )
    if upkeep.checkpoint is not None:
        _save(post, upkeep.checkpoint)
    return post


def kept_of(records: Records) -> dict[str, Any]:
    """What of a block goes into the posterior."""
    return {"draws": records.draws, "log_density": records.log_density, "info": records.info}


def _step_field(group: Chains) -> dict[str, float]:
    """The step size, for the progress bar, where there is one."""
    return {"step_size": float(group.step_sizes.mean())} if group.is_tuned else {}


def _next_size(size: int, seconds: float) -> int:
    """So many draws that a round takes about half a second, as far as a block reaches."""
    return int(np.clip(size * _ROUND_SECONDS / max(seconds, 1e-6), 1, BLOCK))


def _posterior(
    group: Chains,
    store: Any,
    kept: Continuation,
    begun: float,
    status: Status,
    remarks: tuple[str, ...] = (),
) -> Posterior:
    parts = store.joined()
    shape = np.shape(parts["log_density"])
    info = jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape), parts["info"])
    here = {"states": group.states, "tunings": group.tunings, "count": group.count}
    goes_on = dataclasses.replace(kept, **here)
    tuned = group.sampler
    if group.is_tuned:
        tuned = eqx.tree_at(lambda s: s.step_size, tuned, np.asarray(group.step_sizes.mean()))
    return Posterior(
        parts["draws"], parts["log_density"], info, tuned, kept.warmup, time.monotonic() - begun, status,
        _remarks(info) + remarks, goes_on,
    )  # fmt: skip


def _remarks(info: Info) -> tuple[str, ...]:
    """What no diagnostic of the draws can see."""
    undefined = np.asarray(info.undefined)
    if not undefined.any():
        return ()
    return (
        f"The density was not a number somewhere on {undefined.mean():.2%} of the trajectories: "
        "what lies there is not explored. Give its support, or return -inf where the density is zero.",
    )


def _jump_remarks(group: Chains, last: Any) -> tuple[str, ...]:
    """A jump of the density between the chains, which a sampler that follows gradients cannot see."""
    follows = getattr(group.states[0], "gradient", None) is not None
    if last is None or group.sampler.space != "real" or group.sampler.ensemble or not follows:
        return ()
    target, whitening, word = group.target.target, group.target.whitening, group.words[:2]
    rows = np.asarray(last).reshape((-1, np.shape(last)[-1]))
    points = rows if whitening is None else whitening.points(rows)

    def look(x: np.ndarray) -> tuple[float, np.ndarray]:
        # behind the map of the chains, for which the density is compiled already
        state = evaluate(group.target, group.sampler, x if whitening is None else whitening.inverse(x), word)
        slope = np.asarray(state.gradient)
        return float(state.log_density), slope if whitening is None else whitening.solve_transposed(slope)

    jump = find_jump(look, points)
    if jump is None:
        return ()
    where = ", ".join(f"`{target.rebuild.names[i]}`" for i in jump.coordinates) or "the variables together"
    return (
        f"The log-density jumps by {jump.size:.3g} along {where}: gradients do not see it. "
        "Use a sampler without gradients (`SliceSampler`), or sum out what jumps.",
    )


def _save(post: Posterior, path: Any) -> None:
    """A checkpoint: without draws that are on disk already."""
    if post.continuation.stream is not None:
        parts = jax.tree.map(lambda leaf: np.asarray(leaf[:, :0]), (post.draws, post.log_density, post.info))
        post = eqx.tree_at(lambda p: (p.draws, p.log_density, p.info), post, parts)
    post.save(path)
