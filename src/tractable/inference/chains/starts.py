"""Where chains begin: scattered about the start, at points where the density is positive, or an error by
name.

Scatter.     The first chain begins at the start itself, the others at points uniform in a cube about it, in
             real space; a point where the density is zero or not a number is drawn anew, nearer to the start.
Modes.       Short climbs from near and far look for other modes (`inference.trust.modes`); the last chains
             begin at those, so that chains which cannot change the mode disagree, and the verdict says so.
Approximate. Or at draws of a Pathfinder or Laplace approximation, for densities that are hard to find.
Cost.        A few evaluations of the density per chain, some hundreds for the climbs, by a program that is
             there already; an approximation compiles a program of its own.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.core.module import Module
from tractable.inference.chains.threads import Whitened, evaluate, stream
from tractable.inference.samplers.sampler import Sampler
from tractable.inference.target import FlatTarget
from tractable.inference.trust.modes import find_modes, tells_more

__all__ = ["among_modes", "starts"]

_TRIES = 20
_MOST_NAMED = 8


def starts(
    kind: str,
    target: Whitened,
    sampler: Sampler,
    free: np.ndarray,
    words: np.ndarray,
    count: int,
    spread: float,
) -> tuple[np.ndarray, np.ndarray | None]:
    """`count` points and the gradients there, by the `kind` of beginning (`scattered`, `pathfinder` or
    `laplace`); `target` must not move them (a map that changes nothing)."""
    look = _Look(target, sampler, words)
    first = look(free)
    if not _is_usable(first):
        _refuse_start(target.target, free, first, look)
    if kind == "scattered":
        found = [(free, first), *_scattered((free, first), words, count - 1, spread, look)]
    else:
        found = [(point, look(point)) for point in _approximate(kind, target, free, words, count)]
    usable = [pair if _is_usable(pair[1]) else (free, first) for pair in found]
    slopes = None if _slope(first) is None else np.stack([np.asarray(_slope(state)) for _, state in usable])
    return np.stack([point for point, _ in usable]), slopes


def among_modes(
    target: Whitened, sampler: Sampler, points: np.ndarray, words: np.ndarray, spread: float
) -> np.ndarray:
    """The `points` (of which the first is the home), the last of them moved to other modes, if there are any.

    At most half of them move. `target` is behind a map that makes it about as wide as one.
    """
    seen = _Look(target, sampler, words)

    def look(z: np.ndarray) -> tuple[float, np.ndarray]:
        state = seen(z)
        return float(state.log_density), np.asarray(state.gradient)

    modes = find_modes(look, points[0], generator(stream(words, "modes")[0]), spread)
    near = [(z, *look(z)) for z in points]
    spikes = [m for m in modes[:1] if all(tells_more(m, *each) for each in near)]
    elsewhere = [mode.point for mode in [*modes[1:], *spikes]][: len(points) // 2]
    kept = points[: len(points) - len(elsewhere)]
    return np.concatenate([kept, np.stack(elsewhere)]) if elsewhere else points


def _scattered(
    first: tuple[np.ndarray, Any], words: np.ndarray, count: int, spread: float, look: "_Look"
) -> Iterator[tuple[np.ndarray, Any]]:
    """Points about the `first`, each nearer to it until the density is positive there."""
    free = first[0]
    numbers = generator(stream(words, "scatter")[0])
    for _ in range(count):
        noise = numbers.uniform(-spread, spread, free.shape)
        tries = ((point, look(point)) for point in (free + noise * 0.5**k for k in range(_TRIES)))
        yield next((pair for pair in tries if _is_usable(pair[1])), first)


def _approximate(kind: str, target: Whitened, free: np.ndarray, words: np.ndarray, count: int) -> np.ndarray:
    """Draws of an approximation of the density."""
    key = jr.wrap_key_data(stream(words, "approximation")[0])
    if kind == "pathfinder":
        from tractable.inference.variational.pathfinder import pathfinder

        key_path, key_draw = jr.split(key)
        found = pathfinder(target.target, jnp.asarray(free), key=key_path, num_paths=4)
        return np.asarray(found.resample(key_draw, count))
    from tractable.inference.curvature.laplace import laplace

    return np.asarray(laplace(target.target, jnp.asarray(free), num_eval=0).sample(key, (count,)))


class _Look(Module):
    """What a sampler sees at a point."""

    target: Whitened
    sampler: Sampler
    words: np.ndarray

    def __call__(self, point: np.ndarray) -> Any:
        return evaluate(self.target, self.sampler, point, stream(self.words, "looks")[0])


def _is_usable(state: Any) -> bool:
    slope = _slope(state)
    smooth = slope is None or bool(np.isfinite(np.asarray(slope)).all())
    return bool(np.isfinite(state.log_density)) and smooth


def _slope(state: Any) -> Any:
    return getattr(state, "gradient", None)


def _refuse_start(target: FlatTarget, free: np.ndarray, state: Any, look: _Look) -> None:
    """Say which variables are to blame, with the values and supports that they have."""
    slots, names = target.rebuild.slots, target.rebuild.names
    value = float(state.log_density)
    bad = np.zeros(free.size, bool) if _slope(state) is None else ~np.isfinite(np.asarray(_slope(state)))
    blamed = [names[i] for i in np.flatnonzero(bad)] or _cured_by_moving(slots, free, look)
    words = [_words_of(target, free, name) for name in (blamed or names)[:_MOST_NAMED]]
    what = "a finite log-density" if not np.isfinite(value) else "a finite gradient"
    got = f"log-density {value:.6g} with " + ", ".join(words)
    fix = "Start these variables elsewhere." if blamed else "Start where the density is positive."
    check(False, "start", f"a point with {what}", got, fix)


def _cured_by_moving(slots: tuple, free: np.ndarray, look: _Look) -> list[str]:
    """The variables of which one alone, moved a little or a lot, makes the density positive."""
    cured, low = [], 0
    for slot in slots:
        for shift in (-4.0, -1.0, -0.25, 0.25, 1.0, 4.0):
            moved = free.copy()
            moved[low : low + slot.size] += shift
            if _is_usable(look(moved)):
                cured.append(slot.path)
                break
        low += slot.size
    return cured


def _words_of(target: FlatTarget, free: np.ndarray, name: str) -> str:
    """`tau = 0.5 (positive)`."""
    rebuild = target.rebuild
    leaves = jax.tree.leaves(rebuild(free)[0])
    slot, bijection = next(
        (s, b)
        for s, b in zip(rebuild.slots, rebuild.bijections)
        if name == s.path or name.startswith(f"{s.path}[")
    )
    value = np.array2string(np.asarray(leaves[slot.leaf]), precision=4, threshold=6)
    return f"{slot.path or 'x'} = {value} ({bijection.codomain.words})"
