r"""Expectation-maximisation, once, for every model that has additive statistics.

Bound.       $\log p(X \mid \theta) \ge E_q[\log p(X, Z \mid \theta)] + H[q]$, tight at
             $q = p(Z \mid X, \theta)$.
Contract.    `e_step(rows, weights)` returns statistics and log-evidence that **add over rows**;
             `m_step(stats)` returns the model that maximises the bound (or the bound plus a log-prior, which
             the model then reports as `log_prior()`). So rows may come at once, in chunks, or from a stream.
Stopping.    On the objective, $|v_k - v_{k-1}| \le \mathrm{tol}(1 + |v_k|)$, or on the parameters in free
             coordinates, $\max_i|\theta_{k,i} - \theta_{k-1,i}|/(1 + |\theta_{k,i}|) \le \mathrm{tol}$. On a
             plateau the objective settles long before the parameters do.
Promise.     The objective never falls by more than rounding: a fall ends the run with status `decreased`. A
             model whose E-step is itself an iteration may name a larger `slack`, relative to the objective.
Host.        A model with `on_host = True` answers NumPy rows with NumPy statistics: its steps are ordinary
             Python over linear algebra, nothing is compiled, and rows need no padding.
Cost.        One pass over the rows per step; three with acceleration, which usually needs far fewer steps.
References.  Dempster, Laird and Rubin (1977); Neal and Hinton (1998); Varadhan and Roland (2008).
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import unconstrain
from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, check_option, has_values, namespace
from tractable.core.chunks import Chunks, chunks, pad_rows, weighted_rows
from tractable.core.interfaces import HasEM, HasTotals
from tractable.core.iterate import Run, Status, is_close, run_until
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Scalar, Values

__all__ = ["EM", "best_of", "best_run", "em", "expected_statistics", "gathered", "objective"]

# Sums over rows round differently from one model to the next; a true ascent never falls further than this.
_ROUNDING = 1e-10
# From this many numbers on, a step costs far more than returning to Python, where Ctrl-C is heard.
_LONG = 1_000_000


class EM(Module):
    """Options of expectation-maximisation; `fit` runs it.

    `accelerate` extrapolates along the path of the parameters (SQUAREM); wherever that would lower the
    objective, the plain steps are taken instead. `stop` says what must settle: the "objective" or the
    "parameters" (stricter where the objective is flat).
    """

    tol: float = 1e-8
    max_steps: int = field(static=True, default=200)
    accelerate: bool = field(static=True, default=False)
    stop: str = field(static=True, default="objective")

    def __check_init__(self) -> None:
        check_option("stop", self.stop, ("objective", "parameters"))

    def fit(
        self,
        model: Any,
        data: Any,
        *,
        weights: ArrayLike | None = None,
        chunk: int | None = None,
        checkpoint: str | os.PathLike | None = None,
        seconds: float | int = 30.0,
        progress: bool = True,
    ) -> Run:
        """The fitted model as `run.state`, with the objective of each step as `run.trace`.

        `data` is an array (or a tuple of arrays) in memory, or anything that `core.chunks.chunks` reads: with
        `chunk` rows at a time it is streamed, and never in memory as a whole. It may also be rows that add up
        by themselves, wherever they are (`HasTotals`: `Chunks`, or partitions on a cluster). A `checkpoint`
        is written every so many `seconds`.
        """
        check(isinstance(model, HasEM), "model", "one with `e_step` and `m_step`", type(model).__name__)
        data, weights, chunk = gathered(model, data, weights, chunk)
        if chunk is not None or isinstance(data, HasTotals):
            held = isinstance(data, HasTotals)
            fix = "They belong to the rows: give them to `chunks`."
            check(
                not held or weights is None, "weights", "left out beside rows that have theirs", "some", fix
            )
            parts: HasTotals = data if held else chunks(data, chunk or 1, weights)
            fix = "EM reads the rows once per step: pass a function that makes the generator."
            check(parts.reiterable, "data", "readable more than once", "a one-shot iterator", fix)
            check(not self.accelerate, "accelerate", "off when rows are streamed", True)
            return self._stream(model, parts, checkpoint, seconds, progress)
        if getattr(model, "on_host", False) and not self.accelerate and has_values(data):
            return self._on_host(model, *weighted_rows(data, weights), checkpoint, seconds, progress)
        rows, weights = pad_rows(data, weights)
        if checkpoint is None and not _is_long(rows):
            start = _Climb.start(model)
            step = _Step(rows, weights, self.accelerate, self.stop)
            return _in_memory(step, start, jnp.asarray(self.tol), self.max_steps)
        return self._in_blocks(model, rows, weights, checkpoint, seconds, progress)

    def _on_host(
        self, model: Any, rows: Any, weights: np.ndarray, checkpoint: Any, seconds: Any, progress: Any
    ) -> Run:
        def step(state, _):
            stats, value = _e_step(state.model, rows, weights)
            return _moved(state, state.model.m_step(stats), value, self.stop), value

        nothing: Any = np.asarray(np.nan)
        start = _Climb(_strong(model), nothing, nothing, nothing)
        return self._host_run(step, start, checkpoint, seconds, progress, compiled=False)

    def _stream(self, model: Any, parts: HasTotals, checkpoint: Any, seconds: Any, progress: bool) -> Run:
        def step(state, _):
            stats, evidence = expected_statistics(state.model, parts)
            value = evidence + log_prior(state.model)
            host = getattr(model, "on_host", False)
            better = state.model.m_step(stats) if host else _maximise(state.model, stats)
            return _moved(state, better, value, self.stop), value

        return self._host_run(step, _Climb.start(model), checkpoint, seconds, progress, compiled=False)

    def _in_blocks(
        self, model: Any, rows: Any, weights: Array, checkpoint: Any, seconds: Any, progress: bool
    ) -> Run:
        step, start = _Step(rows, weights, self.accelerate, self.stop), _Climb.start(model)
        return self._host_run(step, start, checkpoint, seconds, progress, compiled=True)

    def _host_run(
        self,
        step: Callable,
        start: "_Climb",
        checkpoint: Any,
        seconds: Any,
        progress: bool,
        *,
        compiled: bool,
    ) -> Run:
        def judge(state: _Climb, _: Any) -> Status | None:
            if not np.isfinite(state.value):
                return Status.not_finite
            code = int(state.code(self.tol))
            return None if code == int(Status.exhausted) else Status(code)

        run = run_in_blocks(
            step,
            start,
            num_steps=self.max_steps,
            block=1,
            judge=judge,
            checkpoint=checkpoint,
            seconds=seconds,
            progress=progress,
            label="EM",
            compiled=compiled,
        )
        code = Status.exhausted if run.status is Status.completed else run.status
        return Run(run.state.model, run.trace, run.num_steps, jnp.asarray(int(code)))


def em(
    model: Any, data: Any, *, weights: ArrayLike | None = None, max_steps: int = 200, tol: float = 1e-8
) -> Run:
    """Maximise the log-evidence of rows in memory; `EM(...).fit` has the other ways to hold the rows."""
    return EM(tol, max_steps).fit(model, data, weights=weights)


def best_of(starts: Sequence[Any], data: Any, algorithm: Any = None, **options: Any) -> Run:
    """Fit from each start and keep the run whose last objective is highest; a run that failed never wins.

    Ctrl-C is raised: the best of a part of the starts is no answer.
    """
    check(len(starts) > 0, "starts", "at least one model", "none")
    return best_run([_whole((algorithm or EM()).fit(start, data, **options)) for start in starts])


def best_run(runs: Sequence[Any]) -> Any:
    """The run whose last objective is highest; of equals the first, and one that failed never wins."""

    def height(run: Run) -> float:
        last = float(run.values[-1])
        return last if run.status not in (Status.not_finite, Status.decreased) else -jnp.inf

    return max(runs, key=height)


def _whole(run: Run) -> Run:
    if run.status is Status.interrupted:
        raise KeyboardInterrupt
    return run


def objective(model: Any, data: Any, weights: ArrayLike | None = None) -> Scalar:
    r"""$\log p(X \mid \theta)$, plus the log-prior where the model has one: what EM climbs."""
    rows, weights = pad_rows(data, weights)
    return _objective(model, rows, weights)


def gathered(model: Any, data: Any, weights: Any, chunk: int | None) -> tuple[Any, Any, int | None]:
    """Data as the model holds them: one whose rows are no arrays (sequences of different lengths) has a
    method `gathered(data, weights)`, which makes of them what adds up by itself, in `chunks` if need be."""
    gather = getattr(model, "gathered", None)
    if gather is None or isinstance(data, Chunks):
        return data, weights, chunk
    whole: Any = data if isinstance(data, HasTotals) and weights is None else gather(data, weights)
    return (whole if chunk is None else whole.chunks(chunk)), None, None


def expected_statistics(model: Any, parts: HasTotals) -> tuple[Any, Any]:
    """Expected statistics and log-evidence of rows that add up by themselves, in one pass over them."""
    return parts.total(model.e_step)


def log_prior(model: Any) -> Values:
    """The model's log-prior density at its own parameters; zero for a model without a prior."""
    value = model.log_prior() if hasattr(model, "log_prior") else 0.0
    return value if isinstance(value, np.ndarray) else jnp.asarray(value)


class _Climb(Module):
    """Where EM stands: the model, the last two values of the objective, and how far the parameters moved
    (NaN where nobody asks)."""

    model: Any
    value: Values  # on the host where the model is
    before: Values
    moved: Values

    @staticmethod
    def start(model: Any) -> "_Climb":
        """Before the first step there are no values: NaN settles nothing."""
        nothing = jnp.asarray(jnp.nan)
        return _Climb(_strong(model), nothing, nothing, nothing)

    def code(self, tol: float | Array) -> Values:
        """The status that the last two values amount to; `exhausted` while neither end is reached."""
        xp = namespace(self.value, self.before, self.moved, tol)  # on the host nothing is compiled for it
        value, before, moved = (xp.asarray(x) for x in (self.value, self.before, self.moved))
        fell = value < before - getattr(self.model, "slack", _ROUNDING) * (1 + abs(before))
        settled = xp.where(xp.isnan(moved), is_close(value, before, tol), moved <= tol)
        return xp.where(
            fell, int(Status.decreased), xp.where(settled, int(Status.converged), int(Status.exhausted))
        )


class _Step(Module):
    """One step on rows in memory: a pytree, so that new rows of the same shape use the same program."""

    rows: Any
    weights: Array
    accelerate: bool = field(static=True)
    stop: str = field(static=True)

    def __call__(self, state: _Climb, _: Any = None) -> tuple[_Climb, Scalar]:
        stats, value = _e_step(state.model, self.rows, self.weights)
        model = state.model.m_step(stats)
        if self.accelerate:
            model = self._leap(state.model, model)
        return _moved(state, model, value, self.stop), value

    def _leap(self, model: Any, first: Any) -> Any:
        """Two plain steps or, where that is higher still, a step from where their path points."""
        stats, lower = _e_step(first, self.rows, self.weights)
        second = first.m_step(stats)
        guess = _extrapolate(model, first, second)
        stats, height = _e_step(guess, self.rows, self.weights)
        third = guess.m_step(stats)
        use = height >= lower  # false for NaN
        return jax.tree.map(lambda a, b: jnp.where(use, a, b) if eqx.is_array(a) else b, third, second)


def _moved(state: _Climb, model: Any, value: Values, stop: str) -> _Climb:
    """The next state; where the parameters decide, with the largest relative change of a free coordinate."""
    change = state.moved
    if stop == "parameters":
        old, new = unconstrain(state.model)[0], unconstrain(model)[0]
        change = jnp.asarray(jnp.max(jnp.abs(new - old) / (1 + jnp.abs(new))), change.dtype)
    return _Climb(model, value, state.value, change)


def _extrapolate(model: Any, first: Any, second: Any) -> Any:
    r"""SQUAREM: with $r = \theta_1 - \theta_0$ and $v = (\theta_2 - \theta_1) - r$ in free coordinates, go to
    $\theta_0 - 2\alpha r + \alpha^2 v$ with $\alpha = -\|r\|/\|v\|$, at least as far as EM itself."""
    (a, rebuild), (b, _), (c, _) = unconstrain(model), unconstrain(first), unconstrain(second)
    r, v = b - a, (c - b) - (b - a)
    still = v @ v == 0
    alpha = jnp.minimum(-jnp.linalg.norm(r) / jnp.sqrt(jnp.where(still, 1.0, v @ v)), -1.0)
    return rebuild(jnp.where(still, c, a - 2 * alpha * r + alpha**2 * v))[0]


def _e_step(model: Any, rows: Any, weights: Values) -> tuple[Any, Any]:
    stats, evidence = model.e_step(rows, weights)
    if hasattr(model, "log_prior"):
        evidence = evidence + log_prior(model)
    host = isinstance(evidence, np.ndarray | np.generic)  # where nothing is compiled for one number
    return stats, np.asarray(evidence) if host else jnp.asarray(evidence)


@program
def _objective(model: Any, rows: Any, weights: Array) -> Scalar:
    return _e_step(model, rows, weights)[1]


@program
def _maximise(model: Any, stats: Any) -> Any:
    return model.m_step(stats)


@program
def _in_memory(step: _Step, start: _Climb, tol: Array, max_steps: int) -> Run:
    dynamic, static = eqx.partition(start, eqx.is_array)

    def advance(dynamic):
        state, value = step(eqx.combine(dynamic, static))
        return eqx.filter(state, eqx.is_array), value

    def settled(dynamic, value, before):
        return eqx.combine(dynamic, static).code(tol) != int(Status.exhausted)

    run = run_until(advance, dynamic, max_steps=max_steps, tol=tol, settled=settled)
    last = eqx.combine(run.state, static)
    code = jnp.where(run.code == int(Status.not_finite), run.code, last.code(tol))
    return Run(last.model, run.trace, run.num_steps, code)


def _is_long(rows: Any) -> bool:
    """Whether a step takes so long that Python should look at the keyboard between steps."""
    return sum(leaf.size for leaf in jax.tree.leaves(rows)) >= _LONG


def _strong(tree: Any) -> Any:
    """Arrays without weak types, so that a loop's state keeps its type from step to step."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype) if eqx.is_array(leaf) else leaf, tree)
