r"""Stochastic gradients from mini-batches: a sum over rows, minimised a few rows at a time.

Objective.   $F(\theta) = \sum_i w_i\,\ell(\theta, x_i) / \sum_i w_i + r(\theta)$ for rows $x_i$ with weights
             $w_i$ (two is the row twice, zero is absent) and a penalty $r$.
Estimate.    For a batch $B$ of the $n$ rows, drawn without replacement,
             $\frac{n}{|B|} \sum_{i \in B} w_i \nabla\ell(\theta, x_i) / \sum_j w_j + \nabla r(\theta)$ has
             expectation $\nabla F(\theta)$, for the last and smaller batch of an epoch too: it is filled up
             with rows of weight zero.
Order.       Every epoch shuffles the rows anew. Streams are shuffled inside each chunk only: shuffle a sorted
             file beforehand.
Held out.    The mean loss of rows that nothing was fitted to says when to stop; the best parameters are kept.
Cost.        One pass over the rows per epoch; one program for all epochs and, for rows in memory, for all
             numbers of rows in one bucket.
References.  Robbins and Monro (1951); Bottou, Curtis and Nocedal (2018).
"""

import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, check_count
from tractable.core.chunks import Chunks
from tractable.core.iterate import Run, Status
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.averaging import Averaging
from tractable.optim.batch_epochs import Epochs, MemoryEpochs, StreamedEpochs, fingerprint, first_state
from tractable.optim.batch_rows import held_out, split_floats
from tractable.optim.batch_state import RUNNING, BatchState, Player
from tractable.optim.batch_updates import Rule, mean_loss, words_of
from tractable.optim.gradient import Adam, FirstOrder
from tractable.optim.objective import Method

__all__ = ["BatchRun", "LearningCurves", "batch_gradient", "first_order", "minimise_batches", "run_players"]

Loss = Callable[..., Any]


class LearningCurves(Module):
    """The mean losses of each epoch: as met on the way, and on the held-out rows after it."""

    training: np.ndarray
    validation: np.ndarray


class BatchRun(Run):
    """The parameters, the mean loss of each epoch, and how the run ended.

    `memory` is what the methods remember (moments, counts). `best_epoch` counts from one, and is the epoch
    whose parameters are the state where held-out rows judged; else it is zero. `fault` are the epoch and
    its batch, counted from one, in which a loss or a step was not finite; else they are zero.
    """

    memory: Any = field(show=False)
    best_epoch: Int[Array, ""] = field(show=False)
    fault: Int[Array, "2"] = field(show=False)

    @property
    def verdict(self) -> Verdict:
        """How the run ended, and where, if it could not go on."""
        return Verdict(self.status.ok, self.ending)

    @property
    def ending(self) -> str:
        if self.status is not Status.not_finite:
            return super().ending
        epoch, batch = np.asarray(self.fault).tolist()
        return (
            f"Not finite: the loss or the step of batch {batch} of epoch {epoch} is NaN or infinite; the "
            "parameters before it are kept. Look at its rows, at the step size, or clip the gradient."
        )


@takes_key
def minimise_batches(
    loss: Loss,
    start: Any,
    data: Any,
    method: Method | None = None,
    *,
    key: Key,
    batch: int = 32,
    epochs: int = 10,
    weights: ArrayLike | None = None,
    shuffle: bool = True,
    args: tuple = (),
    penalty: Callable[[Any], Any] | None = None,
    tol: float | None = None,
    validation: Any = None,
    validation_loss: Loss | None = None,
    patience: int | None = None,
    clip: float | None = None,
    accumulate: int = 1,
    average: Averaging | None = None,
    chunk: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    seconds: float | int = 30.0,
    progress: bool = True,
) -> BatchRun:
    """Minimise the weighted mean of `loss(parameters, row, *args)` over the rows, plus `penalty(parameters)`.

    `run.state` is the parameters (any pytree; leaves that are not floats are left alone) and `run.trace` the
    mean loss of each epoch, as met on the way: each batch before its step. `data` is an array or a tuple of
    arrays in memory; with `chunk`, or if it is a `Chunks`, it is streamed. Any first-order `method` gives the
    update, its `learning_rate` may be a schedule in the number of steps; `Groups` gives parts of the
    parameters methods of their own, or none.

    - A loss whose signature names `key` is given a random key for each row, one that names `step` the number
      of updates so far.
    - `validation` rows are judged after each epoch, by `validation_loss` if given: the trace is then
      `LearningCurves`. After `patience` epochs without a fall of it the run ends, and its state is the best.
    - `clip` bounds the norm of the gradient; `accumulate` batches make one update, equal to one of a batch so
      many times larger; an `average` of the iterates takes the place of the last.
    - With `tol`, epochs end when the mean loss changes by less than that part of its fall since the first.
    - Ctrl-C keeps what was done; `checkpoint` is written every so many `seconds`, inside of epochs too, and
      resumes bit for bit. Where a loss is not finite, the run ends before that batch and names it.
    """
    check(tol is None or tol >= 0, "tol", "zero or positive, or None", tol)
    player = Player(first_order(method), loss, penalty, words=words_of(loss))
    return run_players(
        (player,), (start,), data, key=key, batch=batch, epochs=epochs, weights=weights, shuffle=shuffle,
        args=args, tol=tol, validation=validation, validation_loss=validation_loss, patience=patience,
        clip=clip, accumulate=accumulate, average=average, chunk=chunk, checkpoint=checkpoint,
        seconds=seconds, progress=progress,
    )  # fmt: skip


def batch_gradient(
    loss: Loss,
    params: Any,
    rows: Any,
    weights: Float[Array, " batch"],
    scale: Scalar,
    *,
    args: tuple = (),
    penalty: Callable[[Any], Any] | None = None,
) -> tuple[Scalar, Any]:
    r"""The estimate of $F$ and of its gradient from one batch: `scale` times the sum over its rows.

    For an unbiased estimate, `scale` is $n / (|B| \sum_j w_j)$ with $|B|$ the rows of the batch that are not
    padding.
    """

    # A row of weight zero is absent, even where its loss is infinite: a row that is there stands in for it.
    present = jnp.where(weights > 0, jnp.arange(weights.size), jnp.argmax(weights > 0))
    rows = jax.tree.map(lambda leaf: leaf[present], rows)

    def value(params):
        mean = mean_loss(loss, params, rows, weights, scale, args=args)
        return mean if penalty is None else mean + penalty(params)

    return jax.value_and_grad(value)(params)


def run_players(
    players: tuple[Player, ...], starts: tuple, data: Any, *, key: Key, batch: int, epochs: int,
    weights: Any = None, shuffle: bool = True, args: tuple = (), tol: float | None = None,
    validation: Any = None, validation_loss: Loss | None = None, patience: int | None = None,
    clip: float | None = None, accumulate: int = 1, average: Averaging | None = None,
    chunk: int | None = None, checkpoint: Any = None, seconds: float | int = 30.0, progress: bool = True,
    together: bool = False,
) -> BatchRun:  # fmt: skip
    """The loop itself, for one player or several; with `together`, losses take all players' parameters."""
    epochs = check_count("epochs", epochs)
    parted = [split_floats("start" if not together else f"starts[{i}]", s) for i, s in enumerate(starts)]
    params, rest = tuple(own for own, _ in parted), tuple(other for _, other in parted)
    single = all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    _check_options(clip, patience, validation, validation_loss)
    rule = Rule(
        players, rest, as_data(args), average, None if clip is None else jnp.asarray(float(clip)),
        None if tol is None else jnp.asarray(float(tol)),
        None if patience is None else jnp.asarray(check_count("patience", patience), jnp.int32),
        None if validation is None else held_out(validation, single),
        None if validation is None else validation_loss or players[0].loss,
        check_count("batch", batch), check_count("accumulate", accumulate), shuffle, together,
        str(jr.key_impl(key)),
    )  # fmt: skip
    streamed = chunk is not None or isinstance(data, Chunks)
    epoch: Epochs = (
        StreamedEpochs(rule, data, chunk, weights, single) if streamed
        else MemoryEpochs(rule, data, weights, single)
    )  # fmt: skip
    mark = fingerprint(rule, epoch.told, "") if checkpoint is not None else np.zeros(8, np.uint32)
    words = np.asarray(jr.key_data(jr.split(key, epochs)))

    def witness(state: BatchState, first: BatchState) -> tuple[Array, Array]:
        return state.opening, epoch.opening(first, words[0]) if int(state.step) else state.opening

    found = run_in_blocks(
        epoch, first_state(rule, params, jnp.asarray(mark)), words, judge=_judge, report=_report,
        checkpoint=checkpoint, seconds=seconds, progress=progress, label="Epochs", compiled=False,
        witness=witness,
    )  # fmt: skip
    return _answer(rule, found, tol, together)


def first_order(method: Method | None) -> FirstOrder:
    """A method that goes with batches; without one, Adam."""
    if method is None:
        return Adam()
    known, wanted = isinstance(method, FirstOrder), "a first-order method such as `Adam` or `GradientDescent`"
    fix = "Line searches and curvature need the whole sum: see `minimise`."
    check(known, "method", wanted, type(method).__name__, fix, TypeError)
    assert isinstance(method, FirstOrder)
    return method


def _check_options(clip: Any, patience: Any, validation: Any, validation_loss: Any) -> None:
    check(clip is None or 0 < clip < np.inf, "clip", "positive and finite, or None", clip)
    judged = validation is not None
    check(judged or patience is None, "patience", "left out without `validation`", patience)
    check(judged or validation_loss is None, "validation_loss", "left out without `validation`", "a function")


def _answer(rule: Rule, found: Run, tol: float | None, together: bool) -> BatchRun:
    state: BatchState = found.state
    kept = state.best if rule.patience is not None and int(state.best_epoch) else rule.answer(state)
    whole = tuple(eqx.combine(own, rest) for own, rest in zip(kept, rule.rest))
    trace = np.reshape(np.asarray(found.trace), (-1, rule.width))
    losses = trace[:, : len(rule.players)] if together else trace[:, 0]
    curves = losses if rule.held is None else LearningCurves(losses, trace[:, -1])
    ended = Status.exhausted if tol is not None and found.status is Status.completed else found.status
    failed = ended is Status.not_finite
    batches = int(state.turn) * rule.accumulate + 1
    fault = np.array([int(state.epoch) + 1, batches]) * failed
    return BatchRun(
        whole if together else whole[0], curves, found.num_steps, jnp.asarray(int(ended)),
        state.memory if together else state.memory[0], state.best_epoch, jnp.asarray(fault),
    )  # fmt: skip


def _judge(state: BatchState, _: Any) -> Status | None:
    code = int(state.code)
    return None if code == RUNNING else Status(code)


def _report(state: BatchState, _: Any) -> dict[str, Any]:
    shown = {} if np.isinf(state.lowest) else {"held-out": f"{float(state.lowest):.6g}"}
    return {"loss": f"{float(state.value):.6g}"} | shown
