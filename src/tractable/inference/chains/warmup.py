r"""Warm-up: bring chains to where the density lives, and learn the map and the step size with which they
move.

Windows.     Short blocks of growing length, all chains pooled. After each, the map $x = m + Lz$ is learnt
             anew from the draws and gradients of the later windows (`inference.chains.whitening`) and the
             step size is searched anew by dual averaging; the last window only settles the step size.
End.         Windows go on until the chains agree: split $\hat R$ between and within chains over the later
             windows is small for the log-density and for nearly all coordinates. So an easy posterior costs
             140 steps, not a thousand.
Return.      A long step may leap from one mode to another while the map is still that of both. A chain that
             began at a place about as high as where the chains are now, and far from all of them, goes back
             before the last window: whether it stays there is for the draws to show.
Begin.       The first map comes from the gradients at the scattered starts: on a Gaussian with a
             diagonal covariance it is already right.
Cost.        The steps; learning is NumPy between blocks.
References.  Margossian et al. (2024), for stopping by nested $\hat R$; Seyboldt, Carlson and Carpenter
             (2024).
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from tractable.core.module import Module
from tractable.inference.chains.threads import BLOCK, Chains, Records
from tractable.inference.chains.whitening import Whitening
from tractable.inference.trust.diagnostics import split_rhat

__all__ = ["WarmUp", "first_step", "first_whitening", "num_superchains", "warm_up"]

_FIRST_WINDOWS = (10, 15, 25, 50)
_LAST_WINDOW = 40
_AGREE = 1.1  # the largest R-hat of chains that agree, this early
_TYPICAL_STEP = 1.5  # times d^(-1/4): the step with which a round Gaussian is accepted four times in five

_WALKING_STEP = 2.4
_FARTHEST = 1e100
_ALOOF = 2.0  # times as far from every step of the last window as such steps are from each other
_COMPARED = 64  # steps of it
_AS_HIGH = 6.0  # nats below the median of the last window
_MANY, _GROUPS = 32, 8
_PLACE = "position", "log_density"


class WarmUp(Module):
    """How the warm-up went."""

    num_steps: int
    num_gradients: int
    step_size: Any  # of each chain
    seconds: float
    agreed: bool
    superchains: int | None = None  # groups that began at one point each: compared instead of many chains

    @property
    def sentence(self) -> str:
        """What happened, in words."""
        if self.num_steps == 0:
            return "There was no warm-up."
        end = "when the chains agreed" if self.agreed else "at its limit, before the chains agreed"
        return f"Warm-up ended after {self.num_steps} steps, {end}."


def warm_up(
    chains: Chains,
    target: Any,
    steps: int | str,
    *,
    max_steps: int = 500,
    report: Callable[[int, Chains], None] | None = None,
) -> tuple[Chains, WarmUp]:
    """The chains tuned and ready to draw; `steps` is a number, or `"auto"` to go on until they agree."""
    begun, history = time.monotonic(), _History()
    slow = getattr(chains.states[0], "gradient", None) is None or hasattr(chains.sampler, "adapting")
    pace = 5 if slow else 1  # random walks see less per step; what tunes itself learns step by step
    limit = max_steps * pace if steps == "auto" else int(steps)
    chains, agreed = dataclasses.replace(chains, adapting=True), steps != "auto"
    began = _places(chains)
    for size in _windows(limit, pace):
        chains, history = _window(chains, target, size, history, report)
        chains = _taught(chains, target, history)
        if steps == "auto" and history.num_steps >= sum(_FIRST_WINDOWS) * pace and history.agrees():
            agreed = True
            break
    last = min(_LAST_WINDOW * pace, limit)
    if last:
        chains = _returned(chains, target, began, history)
        chains, history = _window(chains, target, last, history, report)
    found = np.exp([float(tuning.log_average) for tuning in chains.tunings])
    chains = chains.frozen(float(np.exp(np.log(found).mean())) if chains.is_tuned and limit else None)
    work, groups = (history.num_steps, history.num_gradients), num_superchains(chains.num_chains)
    return chains, WarmUp(*work, chains.step_sizes, time.monotonic() - begun, agreed, groups)


class _Window(NamedTuple):
    """The steps of one window, in the space of the density."""

    draws: np.ndarray
    slopes: np.ndarray | None
    values: np.ndarray

    @staticmethod
    def of(records: Records, whitening: Whitening | None) -> "_Window":
        draws, slopes, values = records.position, records.gradient, np.asarray(records.log_density)
        if whitening is not None:
            draws = whitening.points(np.asarray(draws))
            slopes = None if slopes is None else whitening.solve_transposed(np.asarray(slopes))
        elif not isinstance(draws, np.ndarray):
            draws = values[..., None]  # of a structure of its own kind only the log-density is compared
        return _Window(draws, slopes, values)


class _History(NamedTuple):
    """What the windows have shown so far."""

    windows: tuple[_Window, ...] = ()
    num_steps: int = 0
    num_gradients: int = 0

    def later(self) -> _Window:
        """The windows that make up the later half of all steps so far."""
        kept, total = [], 0
        for window in reversed(self.windows):
            kept.insert(0, window)
            total += window.draws.shape[1]
            if total >= self.num_steps / 2:
                break
        draws, slopes, values = zip(*kept)
        joined = None if slopes[0] is None else np.concatenate(slopes, 1)
        return _Window(np.concatenate(draws, 1), joined, np.concatenate(values, 1))

    def agrees(self) -> bool:
        """Whether the chains have forgotten their starts, as far as so few draws can say."""
        draws, _, values = self.later()
        flat = draws.reshape((*values.shape, -1)).astype(float)
        r_hats = np.append(split_rhat(flat), split_rhat(values[..., None]))
        r_hats = np.where(np.isnan(r_hats), 1.0, r_hats)  # of what never moves nothing is to be said
        return bool(np.quantile(r_hats, 0.9) < _AGREE and r_hats[-1] < _AGREE)


def _taught(chains: Chains, target: Any, history: _History) -> Chains:
    """The chains behind the map that fits the later windows."""
    whitening = chains.whitening
    if whitening is None:
        return chains
    draws, slopes, _ = history.later()
    dim = draws.shape[-1]
    flat = draws.reshape((-1, dim))
    slopes = None if slopes is None else slopes.reshape((-1, dim))
    known = _within_reach(flat) if slopes is None else _within_reach(flat) & _within_reach(slopes)
    if known.sum() > 1:  # chains of an improper density run away: nothing is learnt there
        some = None if slopes is None else slopes[known]
        settled = history.num_steps >= sum(_FIRST_WINDOWS[:3])
        whitening = whitening.learn(flat[known], some, settled=settled)
    last = whitening.inverse(history.windows[-1].draws[:, -1])
    step = first_step(dim, slopes is not None) if chains.is_tuned else None
    return chains.restarted(target, last, whitening, step)


def _places(chains: Chains) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the chains are, in the space of the density, and how high; nothing where they have no map."""
    if chains.whitening is None:
        return None
    each = (np.stack([np.asarray(getattr(s, name)) for s in chains.states]) for name in _PLACE)
    position, value = (leaf[0] if chains.sampler.ensemble else leaf for leaf in each)
    return chains.whitening.points(position), value


def _returned(chains: Chains, target: Any, began: Any, history: _History) -> Chains:
    """The chains, those that have lost the mode that they began at there again."""
    if began is None or chains.whitening is None or not history.windows:
        return chains
    (points, values), window, whitening = began, history.windows[-1], chains.whitening
    steps = window.draws.reshape((-1, points.shape[-1]))
    steps = steps[:: 1 + len(steps) // _COMPARED]
    with np.errstate(over="ignore", invalid="ignore"):  # chains of an improper density run away
        size = np.maximum(steps.std(0), np.finfo(float).tiny)
        apart = [np.linalg.norm((steps - step) / size, axis=1) for step in steps]
        away = [np.linalg.norm((steps - point) / size, axis=1).min() for point in points]
    aloof = np.array(away) > _ALOOF * np.median(apart)
    lost = aloof & (values > np.median(window.values) - _AS_HIGH)
    if not lost.any():
        return chains
    places = np.where(lost[:, None], points, window.draws[:, -1])
    return chains.restarted(target, whitening.inverse(places), whitening, None)


def _within_reach(rows: np.ndarray) -> np.ndarray:
    """Which rows have squares that are numbers."""
    return np.all(np.abs(rows) < _FARTHEST, axis=1)


def num_superchains(num_chains: int) -> int | None:
    """How many groups many chains begin in: short chains cannot agree one by one, but their groups can."""
    return _GROUPS if num_chains >= _MANY and num_chains % _GROUPS == 0 else None


def first_step(dim: int, follows_gradients: bool) -> float:
    """The step size from which the search begins, in a space that has been made round."""
    return _TYPICAL_STEP * dim**-0.25 if follows_gradients else _WALKING_STEP * dim**-0.5


def first_whitening(identity: Whitening, points: np.ndarray, gradients: np.ndarray | None) -> Whitening:
    """The map before the first window, from the gradients at scattered points."""
    if gradients is None or len(points) < 2:
        return identity
    return identity.learn(points, gradients, settled=False)


def _windows(limit: int, pace: int) -> Iterator[int]:
    """Window sizes that leave room for the last one."""
    left, sizes = limit - _LAST_WINDOW * pace, iter(_FIRST_WINDOWS)
    while left > 0:
        size = min(next(sizes, BLOCK) * pace, left)
        size = left if left - size < 10 * pace else size
        yield size
        left -= size


def _window(
    chains: Chains, target: Any, steps: int, history: _History, report: Callable | None
) -> tuple[Chains, _History]:
    """A window of any length, in blocks."""
    parts, left = [], steps
    while left > 0:
        size = min(BLOCK, left)
        chains, records = chains.advance(target, size)
        parts.append(records)
        left -= size
        if report is not None:
            report(size, chains)
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *parts)
    seen = (*history.windows, _Window.of(whole, chains.whitening))
    gradients = history.num_gradients + int(np.sum(whole.info.num_gradients))
    return chains, _History(seen, history.num_steps + steps, gradients)
