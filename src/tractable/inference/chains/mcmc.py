r"""Markov chain Monte Carlo: draws from any log-density, with a verdict, that can be stopped and resumed.

Run.         Scattered starts, warm-up until the chains agree, then draws; each chain on its own thread, and
             one thread of the linear algebra for each.
Files.       In the order of a run: `mcmc` (here), `starts`, `warmup`, `threads` (a block of steps; the named
             random streams), `rounds` (draws, kept and saved), `posterior`, `trust.verdict` and
             `trust.summary_table`.
Exactness.   A run that was interrupted, saved and resumed gives the draws of the uninterrupted one, bit for
             bit: 500 draws and 500 more are the same as 1000; one that was stopped in its warm-up warms up
             anew.
Cost.        The sampler's; two programs are compiled (a gradient, a block of steps), once per model. With
             `stream`, memory is that of one block.
References.  Gelman et al. (2013), "Bayesian data analysis", chapter 11, for the protocol.
"""

import dataclasses
import importlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tractable.core import storage
from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_count
from tractable.core.fingerprint import check_same_values, digest
from tractable.core.host_random import key_words
from tractable.core.iterate import Status
from tractable.core.keys import takes_key
from tractable.core.programs import as_data
from tractable.core.progress import progress_bar
from tractable.core.types import Key, PyTree
from tractable.inference.chains.posterior import ChainPosterior
from tractable.inference.chains.rounds import (
    Continuation,
    DiskStore,
    MemoryStore,
    Plan,
    Upkeep,
    draw,
    kept_of,
)
from tractable.inference.chains.starts import among_modes, starts
from tractable.inference.chains.threads import (
    Chains,
    NativeTarget,
    Records,
    Whitened,
    as_arrays,
    compile_block,
    evaluate,
    is_tuned,
    stream,
)
from tractable.inference.chains.warmup import first_step, first_whitening, num_superchains, warm_up
from tractable.inference.chains.whitening import identity_whitening
from tractable.inference.samplers.nuts import NUTS
from tractable.inference.samplers.sampler import Sampler
from tractable.inference.target import FlatTarget

__all__ = ["go_on", "mcmc", "resume"]

_DENSE_UP_TO = 100  # coordinates: beyond, products with a dense matrix cost more than most gradients
_SCATTERED = 8  # points at least, for the first map


@takes_key
def mcmc(
    log_density: Callable[..., Any] | None = None,
    start: PyTree = None,
    sampler: Sampler | None = None,
    *,
    key: Key,
    prior: Any = None,
    likelihood: Callable[..., Any] | None = None,
    observed: Any = None,
    num_chains: int = 4,
    num_draws: int = 1000,
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
) -> ChainPosterior:
    """Draws of the density $\\propto$ `exp(log_density(x, *args))` of a pytree `x` with the structure of
    `start`.

    - Or of `prior` and `likelihood`, a pytree of distributions and a function of `x` and `args` that returns
      the log-likelihood of each row, or with `observed` the distribution of the rows (`inference.joint`);
      start and supports are those of the prior, and the posterior knows its rows (`loo`, `predict`).
    - `sampler` is `NUTS()` unless given. Leaves that are not any real number have their support in `supports`
      (`{"tau": positive}`); the log-determinants are added for you. Arrays in `args` are data: other arrays
      of the same shapes use the same program.
    - Chains begin at `start` and at points within `spread` of it in real space, or (`begin`) at draws of a
      `"pathfinder"` or `"laplace"` approximation. `warmup="auto"` goes on until
      the chains agree; a number fixes its steps; 0 takes the sampler as it is, with the identity as `metric`.
    - `metric` is `"dense"`, `"diagonal"`, `"low_rank"` or `"none"`; by itself dense up to 100 coordinates.
    - With `stream`, a folder, draws go to files there and memory stays small. With `checkpoint`, a file, the
      run is saved every so many `seconds`; the same call goes on from it. Ctrl-C ends with the draws so far.

    >>> import jax.random as jr
    >>> post = mcmc(lambda x: -0.5 * (x["a"] - 1.0) ** 2, {"a": 0.0}, key=jr.key(0), num_draws=500)
    >>> post.draws["a"].shape, bool(abs(post.draws["a"].mean() - 1) < 0.1)
    ((4, 500), True)
    """
    known = sampler is None or isinstance(sampler, Sampler)
    fix = "Pass an object of `tractable.inference`, such as `NUTS()`."
    check(known, "sampler", "a sampler", repr(sampler), fix, TypeError)
    begun, moving = time.monotonic(), as_arrays(NUTS() if sampler is None else sampler)
    plan = Plan(num_chains, num_draws, thin, warmup, metric, begin, spread)
    parts = (prior, likelihood, args, observed, supports)
    density, start, args, supports = _as_stated(log_density, start, *parts)
    _refuse_idle(moving, supports, plan)
    target, free = _target(density, start, args, supports, moving)
    words, upkeep = key_words(key), Upkeep(checkpoint, seconds, progress, begun)
    mark = _mark(start, free, moving, words, plan, args)
    if checkpoint is not None and Path(checkpoint).exists():
        saved = _load(checkpoint)
        fix = "Give another path, or delete the file to begin anew."
        check(saved.continuation.mark == mark, "checkpoint", "of this very run", f"{checkpoint}", fix)
        _check_density(checkpoint, saved.continuation.chains, target)
        return _go_on(saved, target, num_draws, upkeep)
    chains = _begun(target, moving, free, words, plan)
    folder = None if stream is None else str(stream)
    kept = Continuation(plan, start, supports, chains, None, folder, mark)
    store = MemoryStore() if folder is None else DiskStore(folder, num_draws)
    return _complete(target, kept, store, num_draws, upkeep)


def resume(
    path: str | os.PathLike,
    log_density: Callable[..., Any] | None = None,
    *,
    prior: Any = None,
    likelihood: Callable[..., Any] | None = None,
    observed: Any = None,
    num_draws: int | None = None,
    args: tuple = (),
    checkpoint: str | os.PathLike | None = None,
    seconds: float | int = 30.0,
    progress: bool = True,
) -> ChainPosterior:
    """Go on with a run from its checkpoint or its saved posterior: the same draws as if it had not stopped.

    A run that was stopped early completes the draws that it was asked for; a complete one makes as many
    again. `num_draws` asks for so many more instead. Another density, or other `args`, is refused.
    """
    begun, saved = time.monotonic(), _load(path)
    kept = saved.continuation
    parts = (prior, likelihood, args, observed, kept.supports)
    density, _, args, _ = _as_stated(log_density, kept.start, *parts)
    target, _ = _target(density, kept.start, args, kept.supports, kept.chains.sampler)
    _check_density(path, kept.chains, target)
    return _go_on(saved, target, _total(kept, num_draws), Upkeep(checkpoint, seconds, progress, begun))


def go_on(
    post: ChainPosterior,
    num_draws: int | None = None,
    *,
    checkpoint: str | os.PathLike | None = None,
    seconds: float | int = 30.0,
    progress: bool = True,
) -> ChainPosterior:
    """See `ChainPosterior.resume`."""
    whole = hasattr(post.continuation, "plan") and post._stated() is not None
    fix = "Use `tractable.resume(path, log_density, ...)` for a run that was read from a file."
    check(whole, "post", "a whole run with its density", "draws", fix)
    upkeep = Upkeep(checkpoint, seconds, progress, time.monotonic())
    return _go_on(post, post._stated(), _total(post.continuation, num_draws), upkeep)


def _total(kept: Continuation, num_draws: int | None) -> int:
    """How many draws there are to be in the end: those asked for, or as many again."""
    done, planned = _done(kept), kept.plan.num_draws
    more = (planned - done or planned) if num_draws is None else check_count("num_draws", num_draws)
    return done + more


def _as_stated(
    log_density: Any, start: PyTree, prior: Any, likelihood: Any, args: tuple, observed: Any, supports: Any
) -> tuple[Any, PyTree, tuple, Any]:
    """As `joint.as_stated`, without loading distributions where a plain density needs none."""
    if all(part is None for part in (prior, likelihood, observed)) and log_density is not None:
        return log_density, start, args, supports
    from tractable.inference.joint import as_stated

    return as_stated(log_density, start, prior, likelihood, args, observed, supports)


def _refuse_idle(sampler: Sampler, supports: Any, plan: Plan) -> None:
    """Options that this sampler would not heed are errors, not silence."""
    name = type(sampler).__name__
    if sampler.space == "native":
        idle = {"metric": "auto", "begin": "scattered", "spread": 1.0}
        changed = [option for option, default in idle.items() if getattr(plan, option) != default]
        changed += ["supports"] if supports is not None else []
        must = f"left out: {name} sees the start as it is, in its own space"
        check(not changed, changed[0] if changed else "", must, "a value", "Choose another sampler for it.")
    elif hasattr(sampler, "adapting"):
        fix = "Leave it out, or choose a sampler that the warm-up tunes, such as NUTS."
        idle = plan.metric in ("auto", "none")
        check(idle, "metric", f"left out: {name} tunes itself", plan.metric, fix)


def _target(
    log_density: Callable, start: PyTree, args: tuple, supports: Any, sampler: Sampler
) -> tuple[Any, Any]:
    """The density as the sampler wants it, and the start in that space."""
    if sampler.space == "native":
        data = as_data(args)
        return NativeTarget(log_density, data), jax.tree.map(np.asarray, start)
    free, target = FlatTarget.of(log_density, start, args, supports=supports)
    return target, np.asarray(free)


@one_blas_thread()  # chains have threads of their own; several more per factor only wait for each other
def _begun(target: Any, sampler: Sampler, free: Any, words: np.ndarray, plan: Plan) -> Chains:
    """The chains at their starts, behind the first map."""
    if sampler.space == "native":
        positions = jax.tree.map(lambda leaf: np.stack([leaf] * plan.num_chains), free)
        return Chains.at(target, sampler, words, positions)
    tunes_itself = hasattr(sampler, "adapting")  # a new map would make it forget
    learns = plan.warmup != 0 and plan.metric != "none" and not tunes_itself
    by_itself = "dense" if free.size <= _DENSE_UP_TO else "diagonal"
    kind = by_itself if plan.metric in ("auto", "none") else plan.metric
    identity = identity_whitening(free, kind) if learns else None
    distinct = num_superchains(plan.num_chains) or plan.num_chains
    count, behind = max(distinct, _SCATTERED) if learns else distinct, Whitened(target, identity)
    lane = np.stack([free] * plan.num_chains) if sampler.ensemble else free
    aside = ThreadPoolExecutor(2)  # the block compiles while the starts are looked at
    try:
        compiled = aside.submit(compile_block, behind, sampler, lane)
        aside.submit(importlib.import_module, "pandas")  # for the summary: half a second gained
        single = NUTS() if sampler.ensemble else sampler  # looks at one point
        points, slopes = starts(plan.begin, behind, single, free, words, count, float(plan.spread))
        own = points[:distinct]
        whitening = None if identity is None else first_whitening(identity, points, slopes)
        if _seeks_modes(plan) and whitening is not None and slopes is not None:
            round_ = Whitened(target, whitening)
            moved = among_modes(round_, single, whitening.inverse(own), words, float(plan.spread))
            own = whitening.points(moved)
        compiled.result()
    finally:
        aside.shutdown(wait=False)  # after Ctrl-C nobody waits for the compiler
    positions = np.repeat(own, plan.num_chains // distinct, axis=0)
    if whitening is None:
        return Chains.at(target, sampler, words, positions)
    step = first_step(free.size, slopes is not None) if is_tuned(sampler) else None
    return Chains.at(target, sampler, words, whitening.inverse(positions), whitening, step)


def _seeks_modes(plan: Plan) -> bool:
    """Whether chains may begin elsewhere than about the start."""
    return plan.begin == "scattered" and plan.spread > 0 and plan.num_chains > 1


@one_blas_thread()
def _complete(
    target: Any, kept: Continuation, store: MemoryStore | DiskStore, left: int, upkeep: Upkeep
) -> ChainPosterior:
    """Warm the chains up, if they are not warm, and draw `left` times."""
    status = Status.completed
    if kept.warmup is None:
        with progress_bar(None, "Warming up", progress=upkeep.progress) as bar:

            def report(steps: int, chains: Chains) -> None:
                bar.advance(steps, step_size=float(np.mean(chains.step_sizes)))

            try:
                chains, warm = warm_up(kept.chains, target, kept.plan.warmup, report=report)
                chains = dataclasses.replace(chains, thin=kept.plan.thin)
                kept = dataclasses.replace(kept, chains=chains, warmup=warm)
            except KeyboardInterrupt:
                left, status = 0, Status.interrupted
    store = store.append(kept_of(kept.chains.advance(target, 0)[1]))
    return draw(target, kept, store, left, upkeep, status)


def _go_on(saved: ChainPosterior, target: Any, total: int, upkeep: Upkeep) -> ChainPosterior:
    """Draw on from a saved posterior until there are `total` draws."""
    kept, done = saved.continuation, _done(saved.continuation)
    kept = dataclasses.replace(kept, plan=dataclasses.replace(kept.plan, num_draws=total))
    if kept.stream is None:
        store = MemoryStore((kept_of(Records(saved.draws, None, None, saved.log_density, saved.info)),))
    else:
        store = DiskStore(kept.stream, total, done)
    upkeep = upkeep._replace(begun=upkeep.begun - saved.seconds)
    return _complete(target, kept, store, total - done, upkeep)


def _done(kept: Continuation) -> int:
    """Draws of each chain so far."""
    return 0 if kept.warmup is None else kept.chains.count // kept.plan.thin


def _load(path: str | os.PathLike) -> ChainPosterior:
    saved = storage.load(path)
    ok = isinstance(saved, ChainPosterior) and isinstance(saved.continuation, Continuation)
    check(ok, "path", "a checkpoint or a posterior saved by `save`", f"{path} with {type(saved).__name__}")
    return saved


def _mark(start: PyTree, free: Any, sampler: Sampler, words: np.ndarray, plan: Plan, args: tuple) -> str:
    """A digest of what a run begins with; the density is compared where its chains stand."""
    options = [getattr(plan, field.name) for field in dataclasses.fields(plan) if field.name != "num_draws"]
    leaves = jax.tree.leaves((free, as_arrays(sampler), words, args))
    structure = f"{jax.tree.structure(start)} {type(sampler).__name__} {options}"
    return digest(structure, filter(eqx.is_array_like, leaves))


def _check_density(path: str | os.PathLike, chains: Chains, target: Any) -> None:
    """Refuse to go on with another density: where the chains stand, it must have the values that it had."""
    behind, keys = Whitened(target, chains.whitening), stream(chains.words, "looks", 0, 0, len(chains.states))
    here = [evaluate(behind, chains.sampler, s.position, key) for s, key in zip(chains.states, keys)]
    was, now = (np.ravel([state.log_density for state in states]) for states in (chains.states, here))
    check_same_values("log_density", "that of the saved run, with its `args`", path, was, now)
