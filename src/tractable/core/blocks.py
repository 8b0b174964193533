r"""Long iterations from Python: compiled blocks, progress, Ctrl-C, checkpoints that resume bit for bit.

Loop.        The steps of `core.iterate.run`, a block at a time; between blocks Python looks at the clock, the
             keyboard and the records. One program serves every block, the last one too.
Cost.        One dispatch and one copy of the records per block; a checkpoint rewrites all records so far.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core import storage
from tractable.core.checks import check, check_count, is_key, to_device
from tractable.core.fingerprint import check_same_values, digest
from tractable.core.iterate import Run, Status, is_close, num_steps_of, run
from tractable.core.programs import program
from tractable.core.progress import progress_bar
from tractable.core.types import Array

__all__ = ["run_in_blocks", "settles"]

State = TypeVar("State")

_ANY = jax.ShapeDtypeStruct((), float)  # stands for the one array, of any shape, that a plain step records


def run_in_blocks(
    step: Callable[..., tuple[State, Any]],
    start: State,
    inputs: Any = None,
    *,
    num_steps: int | None = None,
    block: int = 100,
    judge: Callable[[State, Any], Status | None] | None = None,
    report: Callable[[State, Any], dict[str, Any]] | None = None,
    label: str = "Running",
    progress: bool = True,
    checkpoint: str | os.PathLike | None = None,
    seconds: float | int = 30.0,
    compiled: bool = True,
    partial: bool = True,
    witness: Callable[[State, State], tuple[Any, Any]] | None = None,
) -> Run[State]:
    """`run`, driven from Python in compiled blocks of `block` steps, for work that takes minutes or days.

    - Ctrl-C ends it with the state after the last whole block and the status `interrupted`; with
      `partial=False`, for a search that is a part of something larger, it is raised.
    - After each block, `judge(state, records)` may end it by returning a `Status` (see `settles`), and
      `report(state, records)` gives the fields shown beside the progress bar.
    - With a path in `checkpoint`, the state is saved there every so many `seconds` and at the end. The same
      call with the same path goes on from it, and gives what the uninterrupted call would have given, bit for
      bit. A checkpoint of another start, other inputs, another number of steps or other numbers in a `step`
      that is a pytree is refused, and so is one of another `step`: the first step is made again, and must
      record what it recorded then.
    - With `compiled=False`, `step` is ordinary Python (it may read files), called once per step, and records
      one array.
    - With a `witness`, a call of `step(state, ahead, left)` makes as many of the `left` steps as it likes, or
      a part of one: `ahead(count)` are the inputs from here on, and the answer is the state with one array of
      records, of the steps that it ended. `witness(state, start)` gives two values, one kept by the state and
      one computed anew, by which a checkpoint of another step is known.
    """
    total, block = num_steps_of(inputs, num_steps), check_count("block", block)
    start, rows = jax.tree.map(_strong, start), _Rows.of(inputs)
    mark = "" if checkpoint is None else _mark(step, start, rows, total)

    def shapes() -> Any:
        """Of one record; asked for only where there are none to look at, since it traces the step."""
        asked = bool(total and compiled and witness is None)
        return jax.eval_shape(step, start, rows.take(0, 1, first=True))[1] if asked else _ANY

    size, made = min(block, total), step
    if witness is not None or not compiled:
        size, made = 1, _Pieces(step) if witness is not None else _Plain(step)
    point = _Point(start, [], 0, Status.completed)
    if checkpoint is not None and Path(checkpoint).exists():
        point = _resume(checkpoint, mark, start, shapes)
        if witness is not None:
            was, now = witness(point.state, start)
        elif point.done:
            now = _first_record(made, start, rows, size)
            was = jax.tree.map(lambda leaf: leaf[0], point.parts[0])
        if witness is not None or point.done:
            must = "a checkpoint of this run (the first step records the same)"
            check_same_values("checkpoint", must, checkpoint, was, now)
    saved = time.monotonic()
    try:
        with progress_bar(total, label, done=point.done, progress=progress) as bar:
            while point.done < total and point.status is Status.completed:
                advanced = _advance(point, made, rows, total, size, judge)
                last = advanced.parts[-1] if advanced.parts else None
                fields = report(advanced.state, last) if report is not None else {}
                bar.advance(advanced.done - point.done, **fields)
                point = advanced
                if checkpoint is not None and time.monotonic() - saved >= seconds:
                    _save(checkpoint, mark, point)
                    saved = time.monotonic()
    except KeyboardInterrupt:
        if not partial:
            raise
        point = point._replace(status=Status.interrupted)
    if checkpoint is not None:
        _save(checkpoint, mark, point)
    return Run(
        point.state, _join(point.parts, shapes), jnp.asarray(point.done), jnp.asarray(int(point.status))
    )


def settles(tol: float) -> Callable[[Any, Any], Status | None]:
    """A `judge` for steps that record one objective: the rule of `run_until` at the end of each block."""

    def judge(_: Any, values: Any) -> Status | None:
        values = np.asarray(values)
        if not np.isfinite(values).all():
            return Status.not_finite
        close = len(values) > 1 and bool(is_close(values[-1], values[-2], tol))
        return Status.converged if close else None

    return judge


class _Plain(NamedTuple):
    """A step that is not to be compiled."""

    step: Callable


class _Pieces(NamedTuple):
    """A step that says itself how far it went."""

    step: Callable


class _Point(NamedTuple):
    """Where a run in blocks stands; replaced as a whole, so that an interrupt never sees half of a step."""

    state: Any
    parts: list
    done: int
    status: Status


class _Rows(NamedTuple):
    """The inputs on the host, keys as their numbers: slicing them compiles nothing and uses no key up."""

    leaves: list
    implementations: list
    structure: Any

    @classmethod
    def of(cls, inputs: Any) -> "_Rows":
        leaves, structure = jax.tree.flatten(inputs)
        implementations = [str(jr.key_impl(leaf)) if is_key(leaf) else None for leaf in leaves]
        return cls([_numbers(leaf) for leaf in leaves], implementations, structure)

    def take(self, low: int, high: int, first: bool = False) -> Any:
        """Rows `low` to `high`; with `first`, the row `low` alone."""
        parts = [leaf[low] if first else leaf[low:high] for leaf in self.leaves]
        keyed = zip(parts, self.implementations)
        wrapped = [part if name is None else jr.wrap_key_data(part, impl=name) for part, name in keyed]
        return jax.tree.unflatten(self.structure, wrapped)

    def ahead(self, low: int, total: int) -> Callable[[int], Any]:
        """The inputs from `low` on, as many as asked for; beyond the end the last one again."""
        at = np.arange(low, total)

        def taken(count: int) -> Any:
            places = np.pad(at[:count], (0, max(count - at.size, 0)), mode="edge")
            return self._replace(leaves=[leaf[places] for leaf in self.leaves]).take(0, count)

        return taken


def _strong(leaf: Any) -> Any:
    """Without a weak type, which the first step would lose: the block would compile twice."""
    if isinstance(leaf, np.ndarray | np.generic):
        return to_device(np.asarray(leaf))
    return leaf if is_key(leaf) else jnp.asarray(leaf, jnp.result_type(leaf))


def _numbers(leaf: Any) -> np.ndarray:
    return np.asarray(jr.key_data(leaf) if is_key(leaf) else leaf)


@program
def _block(step: Callable, state: Any, rows: Any, skip: Array, block: int) -> tuple[Any, Any]:
    """`block` steps, of which the first `skip` do nothing: one program serves every block."""

    def guarded(state, row_and_index):
        row, k = row_and_index
        shapes = jax.eval_shape(step, state, row)[1]
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.cond(k >= skip, lambda: step(state, row), lambda: (state, blank))

    result = run(guarded, state, (rows, jnp.arange(block)))
    return result.state, result.trace


def _advance(point: _Point, step: Any, rows: _Rows, total: int, block: int, judge: Callable | None) -> _Point:
    if isinstance(step, _Pieces):
        return _advance_freely(point, step, rows, total, judge)
    low = min(
        point.done, total - block
    )  # the last block reaches back over rows that are done, and skips them
    skip = point.done - low
    taken = rows.take(low, low + block)
    if isinstance(step, _Plain):
        state, record = step.step(point.state, rows.take(low, low + 1, first=True))
        records = jax.tree.map(lambda leaf: np.asarray(leaf)[None], record)
    else:
        state, records = jax.block_until_ready(_block(step, point.state, taken, jnp.asarray(skip), block))
    records = jax.tree.map(lambda leaf: np.asarray(leaf)[skip:], records)
    verdict = judge(state, records) if judge is not None else None
    kept = point.state if verdict is Status.not_finite else state
    status = point.status if verdict is None else verdict
    return _Point(kept, [*point.parts, records], low + block, status)


def _advance_freely(point: _Point, step: _Pieces, rows: _Rows, total: int, judge: Callable | None) -> _Point:
    """Some steps, or a part of one; its state is valid whatever it is judged to be."""
    state, records = step.step(point.state, rows.ahead(point.done, total), total - point.done)
    records = np.asarray(records)
    verdict = judge(state, records) if judge is not None else None
    parts = [*point.parts, records] if len(records) else point.parts
    return _Point(state, parts, point.done + len(records), point.status if verdict is None else verdict)


def _first_record(step: Any, start: Any, rows: _Rows, block: int) -> Any:
    """What the first step records, by the program of all blocks: its row stands last, the others skip."""
    if isinstance(step, _Plain):
        return step.step(start, rows.take(0, 1, first=True))[1]
    taken = rows._replace(leaves=[np.repeat(leaf[:1], block, axis=0) for leaf in rows.leaves]).take(0, block)
    records = _block(step, start, taken, jnp.asarray(block - 1), block)[1]
    return jax.tree.map(lambda leaf: leaf[-1], records)


def _join(parts: list, shapes: Callable[[], Any]) -> Any:
    if parts:
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    return jax.tree.map(lambda leaf: np.zeros((0, *leaf.shape), leaf.dtype), shapes())


def _mark(step: Any, start: Any, rows: _Rows, total: int) -> str:
    """A digest of what a run begins with, and of the numbers in a step that is a pytree."""
    structure = f"{jax.tree.structure(start)} {rows.structure} {total}"
    held = [leaf for leaf in jax.tree.leaves(step) if not callable(leaf)]
    return digest(structure, (*map(_numbers, (*held, *jax.tree.leaves(start))), *rows.leaves))


def _save(path: str | os.PathLike, mark: str, point: _Point) -> None:
    joined = [np.concatenate(leaves) for leaves in zip(*map(jax.tree.leaves, point.parts))]
    content = {"mark": mark, "done": point.done, "status": point.status, "records": joined}
    storage.save(path, content | {"state": jax.tree.leaves(point.state)})


def _resume(path: str | os.PathLike, mark: str, start: Any, shapes: Callable[[], Any]) -> _Point:
    content = storage.load(path)
    same = isinstance(content, dict) and content.get("mark") == mark
    fix = "Give another path, or delete the file to begin anew."
    check(same, "checkpoint", "a checkpoint of this run (same start, inputs and length)", f"{path}", fix)
    status = content["status"]
    records = content["records"]
    parts = [jax.tree.unflatten(jax.tree.structure(shapes()), records)] if content["done"] else []
    state = jax.tree.unflatten(jax.tree.structure(start), content["state"])
    return _Point(state, parts, content["done"], Status.completed if status is Status.interrupted else status)
