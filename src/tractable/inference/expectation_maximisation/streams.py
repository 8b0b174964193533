r"""EM that does not wait for a whole pass: incremental, block by block, and online, over streams.

Incremental. Each block's old statistics are replaced by new ones and the model is updated at once; the
             bound $Q + H$ never falls.
Online.      Average statistics $\bar s \leftarrow (1 - \gamma_t)\,\bar s + \gamma_t\, s_t$ with
             $\gamma_t = (t + d)^{-\kappa}$, $\kappa \in (\frac12, 1]$, so that $\sum \gamma_t = \infty$ and
             $\sum \gamma_t^2 < \infty$.
Cost.        One M-step per block or chunk; memory for one chunk and one set of statistics (incremental: one
             per block).
References.  Neal and Hinton (1998); Cappé and Moulines (2009).
"""

import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, check_count
from tractable.core.chunks import Chunks, chunks, pad_rows
from tractable.core.iterate import Run, Status, run, run_until
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Scalar
from tractable.inference.expectation_maximisation.em import gathered

__all__ = ["IncrementalEM", "OnlineEM"]


class IncrementalEM(Module):
    """Updates the model after each of `num_blocks` blocks of rows.

    The trace is the bound after each pass; once the run has settled, the evidence itself. The model needs
    `expected_log_joint`.
    """

    num_blocks: int = field(static=True, default=10)
    tol: float = 1e-8
    max_steps: int = field(static=True, default=200)

    def fit(self, model: Any, data: Any, *, weights: ArrayLike | None = None) -> Run:
        """The fitted model as `run.state`."""
        count = check_count("num_blocks", self.num_blocks)
        must = "one with `expected_log_joint`"
        check(hasattr(model, "expected_log_joint"), "model", must, type(model).__name__)
        size = -(-len(data) // count)
        rows, weights = pad_rows(jnp.asarray(data), weights, size=size * count)
        blocks = (rows.reshape((count, size, *rows.shape[1:])), weights.reshape(count, size))
        return _incremental(model, blocks, jnp.asarray(self.tol), check_count("max_steps", self.max_steps))


class OnlineEM(Module):
    """Reads rows in chunks and updates the model after each.

    The trace is the log-evidence per row of each chunk under the model before it saw that chunk: an honest
    score.
    """

    power: float = 0.6
    delay: float = 1.0
    passes: int = field(static=True, default=1)

    def fit(
        self,
        model: Any,
        data: Any,
        *,
        chunk: int = 256,
        weights: ArrayLike | None = None,
        checkpoint: str | os.PathLike | None = None,
        progress: bool = True,
    ) -> Run:
        """The model after the last chunk as `run.state`. With `checkpoint`, a killed run goes on after its
        last whole pass; a one-shot stream can be read only once."""
        check(0.5 < self.power <= 1, "power", "above 1/2 and at most 1", self.power)
        check(self.delay >= 0, "delay", "zero or positive", self.delay)
        held, *_ = gathered(model, data, weights, chunk)
        own = held is not data  # the model says how its data are held
        parts = held if own or isinstance(data, Chunks) else chunks(data, chunk, weights)
        if not parts.reiterable:
            fix = "Pass a function that makes the generator, or `passes=1` without `checkpoint`."
            once = self.passes == 1 and checkpoint is None
            check(once, "data", "readable more than once", "a one-shot iterator", fix)
            state, values = self._pass(_Average(model, None, jnp.zeros(()), jnp.zeros(())), parts)
            return Run(state.model, values, jnp.asarray(len(values)), jnp.asarray(int(Status.completed)))
        rows, row_weights = next(iter(parts))
        start = _Average(model, _zeros(model, rows, row_weights), jnp.zeros(()), jnp.zeros(()))
        found = run_in_blocks(
            lambda state, _: self._pass(state, parts), start, num_steps=self.passes, block=1, compiled=False,
            checkpoint=checkpoint, progress=progress, label="Online EM",
        )  # fmt: skip
        values = jnp.ravel(jnp.asarray(found.trace))
        return Run(found.state.model, values, jnp.asarray(len(values)), found.code)

    def _pass(self, state: "_Average", parts: Any) -> tuple["_Average", Array]:
        values = []
        step = _advance if getattr(state.model, "on_host", False) else _online
        for rows, weights in parts:
            state, value = step(state, rows, weights, jnp.asarray(self.power), jnp.asarray(self.delay))
            values.append(value)
        return state, jnp.stack(values)


class _Average(Module):
    """Where online EM stands: the model, statistics per unit of weight, the weight and the chunks seen."""

    model: Any
    stats: Any
    seen: Scalar
    num_chunks: Scalar


@program
def _online(
    state: _Average, rows: Any, weights: Array, power: Scalar, delay: Scalar
) -> tuple[_Average, Scalar]:
    return _advance(state, rows, weights, power, delay)


def _advance(state: _Average, rows: Any, weights: Any, power: Any, delay: Any) -> tuple[_Average, Any]:
    new, evidence = state.model.e_step(rows, weights)
    amount = weights.sum()
    t = state.num_chunks
    # The first chunk replaces the empty average; statistics are per unit of weight, so chunks count alike.
    rate = jnp.where(t == 0, 1.0, (t + delay) ** -power)
    old = jax.tree.map(jnp.zeros_like, new) if state.stats is None else state.stats
    stats = jax.tree.map(lambda a, b: a + rate * (b / amount - a), old, new)
    seen = state.seen + amount
    model = state.model.m_step(jax.tree.map(lambda leaf: seen * leaf, stats))
    return _Average(model, stats, seen, t + 1), evidence / amount


def _zeros(model: Any, rows: Any, weights: Any) -> Any:
    if getattr(model, "on_host", False):
        return jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf)), model.e_step(rows, weights)[0])
    shapes = eqx.filter_eval_shape(lambda m, r, w: m.e_step(r, w)[0], model, rows, weights)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


@program
def _incremental(model: Any, blocks: tuple[Array, Array], tol: Scalar, max_steps: int) -> Run:
    dynamic, static = eqx.partition(model, eqx.is_array)

    def visit(model, rows, weights):
        """New statistics of one block, and the entropy of its labels: evidence less expected log-joint."""
        stats, evidence = model.e_step(rows, weights)
        return stats, evidence - model.expected_log_joint(stats)

    def block_step(state, inputs):
        dynamic, total = state
        rows, weights, old = inputs
        new, entropy = visit(eqx.combine(dynamic, static), rows, weights)
        total = jax.tree.map(lambda s, a, b: s - a + b, total, old, new)
        better = eqx.combine(dynamic, static).m_step(total)
        return (eqx.filter(better, eqx.is_array), total), (new, entropy)

    def sweep(state):
        dynamic, held = state
        total = jax.tree.map(lambda leaf: leaf.sum(0), held)  # summed afresh: differences do not pile up
        last, total = (swept := run(block_step, (dynamic, total), (*blocks, held))).state
        held, entropies = swept.trace
        return (last, held), eqx.combine(last, static).expected_log_joint(total) + entropies.sum()

    first = jax.vmap(lambda rows, weights: visit(model, rows, weights)[0])(*blocks)
    found = run_until(sweep, (dynamic, first), max_steps=max_steps, tol=tol)
    return Run(eqx.combine(found.state[0], static), found.trace, found.num_steps, found.code)
