r"""Stochastic gradients from mini-batches: a sum over rows, minimised a few rows at a time.

Objective.   $F(\theta) = \sum_i w_i\,\ell(\theta, x_i) / \sum_i w_i + r(\theta)$ for rows $x_i$ with weights
             $w_i$ (two is the row twice, zero is absent) and a penalty $r$.
Estimate.    For a batch $B$ of the $n$ rows, drawn without replacement,
             $\frac{n}{|B|} \sum_{i \in B} w_i \nabla\ell(\theta, x_i) / \sum_j w_j + \nabla r(\theta)$ has
             expectation $\nabla F(\theta)$, for the last and smaller batch of an epoch too: it is filled up
             with rows of weight zero.
Order.       Every epoch shuffles the rows anew. Streams are shuffled inside each chunk only: shuffle a sorted
             file beforehand.
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
import optax

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import as_float, check, check_count, check_finite
from tractable.core.chunks import Chunks, bucket_size, chunks, pad_rows
from tractable.core.fingerprint import digest
from tractable.core.iterate import Run, Status, run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.optim.gradient import Adam, FirstOrder
from tractable.optim.objective import Method
from tractable.optim.stopping import fall_in_units

__all__ = ["batch_gradient", "minimise_batches"]

Loss = Callable[..., Any]

_TOLD = bool | int | float | str


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
    chunk: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
    block: int = 1,
) -> Run:
    """Minimise the weighted mean of `loss(parameters, row, *args)` over the rows, plus `penalty(parameters)`.

    `run.state` is the parameters (any pytree; leaves that are not floats are left alone) and `run.trace` the
    mean loss of each epoch, as met on the way: each batch before its step. `data` is an array or a tuple of
    arrays in memory; with `chunk`, or if it is a `Chunks`, it is streamed. Any first-order `method` gives the
    update, its `learning_rate` may be a schedule in the number of steps. With `tol`, epochs end when the mean
    loss changes by less than that part of its fall since the first epoch; Ctrl-C keeps the last whole block
    of epochs, and `checkpoint` resumes bit for bit.
    """
    batch, epochs = check_count("batch", batch), check_count("epochs", epochs)
    check(tol is None or tol >= 0, "tol", "zero or positive, or None", tol)
    method = _first_order(method)
    params, rest = _split(start)
    rule = _Rule(method, rest, as_data(args), loss, penalty, batch, shuffle)
    nothing = jnp.asarray(jnp.nan)
    if chunk is not None or isinstance(data, Chunks):
        step, compiled = _streamed(rule, data, chunk, weights), False
    else:
        step, compiled = _in_memory(rule, data, weights, batch), True
    mark = _fingerprint(step if compiled else rule) if checkpoint is not None else np.zeros(8, np.uint32)
    first = _Epoch(params, _memory(method, params), nothing, nothing, nothing, jnp.asarray(mark))
    found = run_in_blocks(
        step, first, jr.split(key, epochs), block=block, judge=_judge(tol), report=_report,
        checkpoint=checkpoint, progress=progress, label="Epochs", compiled=compiled,
    )  # fmt: skip
    ended = Status.exhausted if tol is not None and found.status is Status.completed else found.status
    state = eqx.combine(found.state.params, rest)
    return Run(state, found.trace, found.num_steps, jnp.asarray(int(ended)))


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
        each = jax.vmap(lambda row: loss(params, row, *args))(rows)
        extra = 0.0 if penalty is None else penalty(params)
        return scale * (weights * each).sum() + extra

    return jax.value_and_grad(value)(params)


class _Epoch(Module):
    """Where the descent stands after an epoch."""

    params: Any
    memory: Any
    value: Array
    before: Array
    first: Array  # the mean of the first epoch: what later ones have fallen from
    mark: Array  # of the data and the options, so that a checkpoint of others is refused

    def after(self, carry: tuple[Any, Any], value: Array) -> "_Epoch":
        """The state one epoch later."""
        value = value.astype(self.value.dtype)
        first = jnp.where(jnp.isfinite(self.first), self.first, value)
        return _Epoch(carry[0], carry[1], value, self.value, first, self.mark)


class _Rule(Module):
    """What one step does; the arrays in it are leaves, so that new ones use the same program."""

    method: FirstOrder
    rest: Any
    args: tuple
    loss: Loss = field(static=True)
    penalty: Callable[[Any], Any] | None = field(static=True)
    batch: int = field(static=True)
    shuffle: bool = field(static=True)

    def __call__(self, carry: Any, rows: Any, weights: Array, mean_weight: Scalar) -> tuple[Any, Any]:
        """One batch; a batch that is all padding changes nothing, not even the count of steps."""
        count = (weights > 0).sum()

        def advance():
            params, memory = carry
            value, slope = batch_gradient(
                self._loss, params, rows, weights, 1 / (count * mean_weight), args=self.args,
                penalty=self._penalty,
            )  # fmt: skip
            update, memory = self.method.transformation().update(slope, memory, params)
            return (optax.apply_updates(params, update), memory), value

        shapes = jax.eval_shape(advance)[1]
        skip = carry, jnp.zeros(shapes.shape, shapes.dtype)
        (params, memory), value = jax.lax.cond(count > 0, advance, lambda: skip)
        return (params, memory), (value, count)

    def _loss(self, params: Any, row: Any, *args: Any) -> Any:
        return self.loss(eqx.combine(params, self.rest), row, *args)

    @property
    def _penalty(self) -> Callable[[Any], Any] | None:
        if self.penalty is None:
            return None
        penalty = self.penalty
        return lambda params: penalty(eqx.combine(params, self.rest))


class _MemoryStep(Module):
    """One epoch over rows in memory."""

    rule: _Rule
    rows: Any
    weights: Float[Array, " n"]
    mean_weight: Scalar

    def __call__(self, state: _Epoch, key: Key) -> tuple[_Epoch, Scalar]:
        carry, total, count = _pass(
            self.rule, (state.params, state.memory), self.rows, self.weights, self.mean_weight, key
        )
        value = total / count
        return state.after(carry, value), value


@program
def _pass(
    rule: _Rule, carry: Any, rows: Any, weights: Float[Array, " n"], mean_weight: Scalar, key: Key
) -> tuple[Any, Scalar, Int[Array, ""]]:
    """Every row once, in a new order (or its own): present rows first, then the padding."""
    ranks = jr.uniform(key, weights.shape) if rule.shuffle else jnp.arange(weights.size, dtype=float)
    places = jnp.reshape(jnp.argsort(jnp.where(weights > 0, ranks, jnp.inf)), (-1, rule.batch))

    def step(carry, place):
        return rule(carry, jax.tree.map(lambda leaf: leaf[place], rows), weights[place], mean_weight)

    passed = run(step, carry, places)
    values, counts = passed.trace
    return passed.state, (values * counts).sum(), counts.sum()


def _in_memory(rule: _Rule, data: Any, weights: ArrayLike | None, batch: int) -> _MemoryStep:
    data = np.asarray(data) if isinstance(data, list) else data
    leaves = jax.tree.leaves(data)
    num_rows = np.shape(leaves[0])[0] if leaves and np.ndim(leaves[0]) else 0
    check(num_rows > 0, "data", "at least one row", "none")
    size = -(-bucket_size(num_rows) // batch) * batch
    rows, padded = pad_rows(data, weights, size=size)
    present = np.asarray(padded)[np.asarray(padded) > 0]
    check(present.size > 0, "weights", "positive for at least one row", "zeros")
    return _MemoryStep(rule, rows, padded, jnp.asarray(present.mean(), padded.dtype))


def _streamed(rule: _Rule, data: Any, chunk: int | None, weights: ArrayLike | None) -> Callable:
    parts = data if isinstance(data, Chunks) else chunks(data, chunk or 1, weights)
    fix = "Every epoch reads the rows: pass a function that makes the generator."
    check(parts.reiterable, "data", "readable more than once", "a one-shot iterator", fix)
    fits = parts.size % rule.batch == 0
    check(fits, "batch", f"a divisor of the chunk size, {parts.size}", rule.batch, "Choose another chunk.")
    present = np.concatenate([np.asarray(part)[np.asarray(part) > 0] for _, part in parts])
    check(present.size > 0, "weights", "positive for at least one row", "zeros")
    mean_weight = jnp.asarray(present.mean())

    def step(state: _Epoch, key: Key) -> tuple[_Epoch, Array]:
        carry, total, seen = (state.params, state.memory), 0.0, 0
        for index, (rows, part) in enumerate(parts):
            place = jr.fold_in(key, index)
            carry, value, count = _pass(rule, carry, rows, part, mean_weight.astype(part.dtype), place)
            total, seen = total + float(value), seen + int(count)
        value = jnp.asarray(total / seen)
        return state.after(carry, value), value

    return step


def _first_order(method: Method | None) -> FirstOrder:
    if method is None:
        return Adam()
    known, wanted = isinstance(method, FirstOrder), "a first-order method such as `Adam` or `GradientDescent`"
    fix = "Line searches and curvature need the whole sum: see `minimise`."
    check(known, "method", wanted, type(method).__name__, fix, TypeError)
    assert isinstance(method, FirstOrder)
    return method


def _split(start: Any) -> tuple[Any, Any]:
    """The floats of the start, and everything else."""
    params, rest = eqx.partition(start, eqx.is_inexact_array_like)
    params = jax.tree.map(lambda leaf: as_float("start", leaf), params)
    leaves = jax.tree.leaves(params)
    check(bool(leaves), "start", "at least one array of floats", "none")
    for leaf in leaves:
        check_finite("start", leaf)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), params), rest


@program
def _memory(method: FirstOrder, params: Any) -> Any:
    return method.transformation().init(params)


def _fingerprint(step: Any) -> np.ndarray:
    """Eight numbers that change with the data, the method's numbers and the batch size."""
    rule = step if isinstance(step, _Rule) else step.rule
    told = [leaf for leaf in jax.tree.leaves(step) if eqx.is_array(leaf) or isinstance(leaf, _TOLD)]
    structure = f"{type(rule.method).__name__} {rule.batch} {rule.shuffle}"
    return np.frombuffer(bytes.fromhex(digest(structure, told)), np.uint32)


def _judge(tol: float | None) -> Callable[[_Epoch, Any], Status | None]:
    def judge(state: _Epoch, _: Any) -> Status | None:
        if not np.isfinite(state.value):
            return Status.not_finite
        if tol is None:
            return None
        change = abs(float(state.value) - float(state.before))
        fallen = float(fall_in_units(float(state.first), float(state.value)))
        return Status.converged if change <= tol * fallen else None

    return judge


def _report(state: _Epoch, _: Any) -> dict[str, Any]:
    return {"loss": f"{float(state.value):.6g}"}
