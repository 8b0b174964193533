r"""Markov chain Monte Carlo: draws from any log-density, with a verdict, that can be stopped and resumed.

Run.         Scattered starts, warm-up until the chains agree, then draws; each chain on its own thread.
Exactness.   A run that was interrupted, saved and resumed gives the draws of the uninterrupted one, bit for
             bit: 500 draws and 500 more are the same as 1000.
Cost.        The sampler's; two programs are compiled (a gradient, a block of steps), once per model. With
             `stream`, memory is that of one block.
References.  Gelman et al. (2013), "Bayesian data analysis", chapter 11, for the protocol.
"""

import dataclasses
import hashlib
import importlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core import storage
from tractable.core.checks import check, check_count, check_option
from tractable.core.progress import Bar, progress_bar
from tractable.core.types import Key, PyTree
from tractable.inference.chains.draw_store import DiskStore, MemoryStore
from tractable.inference.chains.posterior import Posterior
from tractable.inference.chains.rounds import Continuation, Upkeep, draw, kept_of
from tractable.inference.chains.starts import approximate_starts, scattered_starts
from tractable.inference.chains.threads import (
    Chains,
    NativeTarget,
    Records,
    Whitened,
    as_arrays,
    key_words,
)
from tractable.inference.chains.warmup import WarmUp, first_step, first_whitening, num_superchains, warm_up
from tractable.inference.chains.whitening import identity_whitening
from tractable.inference.samplers.nuts import NUTS
from tractable.inference.samplers.sampler import Sampler
from tractable.inference.target import FlatTarget

__all__ = ["mcmc", "resume"]

_BEGINNINGS = ("scattered", "pathfinder", "laplace")
_METRICS = ("auto", "dense", "diagonal", "low_rank", "none")
_DENSE_UP_TO = 100  # coordinates: beyond, products with a dense matrix cost more than most gradients
_SCATTERED = 8  # points at least, for the first map


def mcmc(
    log_density: Callable[..., Any],
    start: PyTree,
    sampler: Sampler | None = None,
    *,
    key: Key,
    chains: int = 4,
    draws: int = 1000,
    warmup: str | int = "auto",
    supports: Any = None,
    args: tuple = (),
    thin: int = 1,
    metric: str = "auto",
    begin: str = "scattered",
    spread: float | int = 1.0,
    checkpoint: str | os.PathLike | None = None,
    seconds: float | int = 30.0,
    stream: str | os.PathLike | None = None,
    progress: bool = True,
) -> Posterior:
    """Draws of the density $\\propto$ `exp(log_density(x, *args))` of a pytree `x` with the structure of
    `start`.

    - `sampler` is `NUTS()` unless given. Leaves that are not any real number have their support in `supports`
      (`{"tau": positive}`); the log-determinants are added for you. Arrays in `args` are data: other arrays
      of
      the same shapes use the same program.
    - Chains begin at `start` and at points within `spread` of it in real space, or (`begin`) at draws of a
      `"pathfinder"` or `"laplace"` approximation. `warmup="auto"` goes on until
      the chains agree; a number fixes its steps; 0 takes the sampler as it is, with the identity as `metric`.
    - `metric` is `"dense"`, `"diagonal"`, `"low_rank"` or `"none"`; by itself dense up to 100 coordinates.
    - With `stream`, a folder, draws go to files there and memory stays small. With `checkpoint`, a file, the
      run is saved every so many `seconds`; the same call goes on from it. Ctrl-C ends with the draws so far.

    >>> import jax.random as jr
    >>> post = mcmc(lambda x: -0.5 * (x["a"] - 1.0) ** 2, {"a": 0.0}, key=jr.key(0), draws=500)
    >>> post.draws["a"].shape, bool(abs(post.draws["a"].mean() - 1) < 0.1)
    ((4, 500), True)
    """
    begun, sampler = time.monotonic(), NUTS() if sampler is None else sampler
    plan = _checked(chains, draws, thin, warmup, metric, begin, spread)
    _refuse_idle(sampler, supports, plan)
    target, free = _target(log_density, start, args, supports, sampler)
    words = key_words(key)
    mark = _mark(start, free, sampler, words, plan, args)
    if checkpoint is not None and Path(checkpoint).exists():
        saved = _load(checkpoint)
        fix = "Give another path, or delete the file to begin anew."
        check(saved.continuation.mark == mark, "checkpoint", "of this very run", f"{checkpoint}", fix)
        return _go_on(saved, target, draws, Upkeep(checkpoint, seconds, progress, begun))
    group = Chains(Whitened(target, None), sampler, words)
    interrupted = False
    with progress_bar(None, "Warming up", progress=progress) as bar:
        try:
            warm = _warmed(group, free, plan, bar)
        except KeyboardInterrupt:
            interrupted, warm = True, WarmUp(0, 0, group.step_sizes, 0.0, False)
    group.thin = thin
    store = MemoryStore() if stream is None else DiskStore(stream, draws)
    store.append(kept_of(group.advance(0)))
    kept = Continuation(
        start, supports, group.sampler, group.target.whitening, group.states, group.tunings, words, warm, 0,
        thin, draws, store.path, mark,
    )  # fmt: skip
    upkeep = Upkeep(checkpoint, seconds, progress, begun, interrupted)
    return draw(group, store, kept, 0 if interrupted else draws, upkeep)


def resume(
    path: str | os.PathLike,
    log_density: Callable[..., Any],
    *,
    draws: int | None = None,
    args: tuple = (),
    checkpoint: str | os.PathLike | None = None,
    seconds: float | int = 30.0,
    progress: bool = True,
) -> Posterior:
    """Go on with a run from its checkpoint or its saved posterior: the same draws as if it had not stopped.

    A run that was stopped early completes the draws that it was asked for; a complete one makes as many
    again. `draws` asks for so many more instead. The density and its `args` must be those of the run.
    """
    begun, saved = time.monotonic(), _load(path)
    kept = saved.continuation
    done = saved.continuation.count // kept.thin
    more = (kept.planned - done or kept.planned) if draws is None else check_count("draws", draws)
    target, _ = _target(log_density, kept.start, args, kept.supports, kept.sampler)
    return _go_on(saved, target, done + more, Upkeep(checkpoint, seconds, progress, begun))


def _checked(
    chains: Any, draws: Any, thin: Any, warmup: Any, metric: Any, begin: Any, spread: Any
) -> dict[str, Any]:
    chains, thin = check_count("chains", chains), check_count("thin", thin)
    check_count("draws", draws)
    check_option("metric", metric, _METRICS)
    check_option("begin", begin, _BEGINNINGS)
    known = warmup == "auto" or (isinstance(warmup, int) and not isinstance(warmup, bool) and warmup >= 0)
    check(known, "warmup", 'a number of steps or "auto"', repr(warmup))
    check(spread >= 0, "spread", "zero or positive", spread)
    plan = {"chains": chains, "thin": thin, "warmup": warmup, "metric": metric}
    return plan | {"begin": begin, "spread": float(spread)}


def _refuse_idle(sampler: Sampler, supports: Any, plan: dict[str, Any]) -> None:
    """Options that this sampler would not heed are errors, not silence."""
    name = type(sampler).__name__
    if sampler.space == "native":
        idle = {"metric": "auto", "begin": "scattered", "spread": 1.0}
        changed = [option for option, default in idle.items() if plan[option] != default]
        changed += ["supports"] if supports is not None else []
        must = f"left out: {name} sees the start as it is, in its own space"
        check(not changed, changed[0] if changed else "", must, "a value", "Choose another sampler for it.")
    elif hasattr(sampler, "adapting"):
        fix = "Leave it out, or choose a sampler that the warm-up tunes, such as NUTS."
        check(
            plan["metric"] in ("auto", "none"),
            "metric",
            f"left out: {name} tunes itself",
            plan["metric"],
            fix,
        )


def _target(
    log_density: Callable, start: PyTree, args: tuple, supports: Any, sampler: Sampler
) -> tuple[Any, Any]:
    """The density as the sampler wants it, and the start in that space."""
    if sampler.space == "native":
        data = jax.tree.map(lambda leaf: jnp.asarray(leaf) if eqx.is_array_like(leaf) else leaf, args)
        return NativeTarget(log_density, data), jax.tree.map(np.asarray, start)
    free, target = FlatTarget.of(log_density, start, args, supports=supports)
    return target, np.asarray(free)


def _warmed(group: Chains, free: Any, plan: dict[str, Any], bar: Bar) -> WarmUp:
    """Put the chains at their starts and warm them up."""

    def report(steps: int, chains: Chains, _: Records) -> None:
        bar.advance(steps, step_size=float(np.mean(chains.step_sizes)))

    if group.sampler.space == "native":
        group.begin(jax.tree.map(lambda leaf: np.stack([leaf] * plan["chains"]), free))
        return warm_up(group, plan["warmup"], report=report)
    together, tunes_itself = (
        group.sampler.ensemble,
        hasattr(group.sampler, "adapting"),
    )  # a new map would make it forget
    learns = plan["warmup"] != 0 and plan["metric"] != "none" and not tunes_itself
    by_itself = "dense" if free.size <= _DENSE_UP_TO else "diagonal"
    kind = by_itself if plan["metric"] in ("auto", "none") else plan["metric"]
    identity = identity_whitening(free, kind) if learns else None
    groups = num_superchains(plan["chains"])
    distinct = groups or plan["chains"]
    count = max(distinct, _SCATTERED) if learns else distinct
    target = Whitened(group.target.target, identity)
    group.target = target
    with ThreadPoolExecutor(2) as aside:  # the block compiles while the starts are looked at
        compiled = aside.submit(group.compile, np.stack([free] * plan["chains"]) if together else free)
        aside.submit(importlib.import_module, "pandas")  # for the summary: half a second gained
        single = NUTS() if together else group.sampler  # looks at one point
        if plan["begin"] == "scattered":
            points, slopes = scattered_starts(target, single, free, group.words, count, plan["spread"])
        else:
            points, slopes = approximate_starts(plan["begin"], target, single, free, group.words, count)
        compiled.result()
    positions, step = np.repeat(points[:distinct], plan["chains"] // distinct, axis=0), None
    if identity is not None:
        whitening = first_whitening(identity, points, slopes)
        group.target = Whitened(target.target, whitening)
        positions, step = whitening.inverse(positions), first_step(free.size, slopes is not None)
    group.begin(positions, step if group.is_tuned else None)
    return warm_up(group, plan["warmup"], report=report)


def _go_on(saved: Posterior, target: Any, total: int, upkeep: Upkeep) -> Posterior:
    """Restore the chains of a saved posterior and draw until there are `total` draws."""
    kept = dataclasses.replace(saved.continuation, planned=total)
    group = Chains(Whitened(target, kept.whitening), kept.sampler, np.asarray(kept.words))
    group.phase, group.count, group.states, group.tunings = 1, kept.count, kept.states, kept.tunings
    group.num_chains, group.thin = saved.num_chains, kept.thin
    done = kept.count // kept.thin
    if kept.stream is None:
        store = MemoryStore(kept_of(Records(saved.draws, None, None, saved.log_density, saved.info)))
    else:
        store = DiskStore(kept.stream, total, done)
        store.append(kept_of(group.advance(0)))
    return draw(group, store, kept, total - done, upkeep._replace(begun=upkeep.begun - saved.seconds))


def _load(path: str | os.PathLike) -> Posterior:
    saved = storage.load(path)
    ok = isinstance(saved, Posterior) and isinstance(saved.continuation, Continuation)
    check(ok, "path", "a checkpoint or a posterior saved by `save`", f"{path} with {type(saved).__name__}")
    return saved


def _mark(
    start: PyTree, free: Any, sampler: Sampler, words: np.ndarray, plan: dict[str, Any], args: tuple
) -> str:
    """A digest of what a run begins with; the density itself cannot be compared."""
    digest = hashlib.sha256(f"{jax.tree.structure(start)} {type(sampler).__name__} {plan}".encode())
    for leaf in jax.tree.leaves((free, as_arrays(sampler), words, args)):
        if eqx.is_array_like(leaf):
            digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()
