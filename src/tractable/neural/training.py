r"""Training: a network, rows of inputs and targets, and the loop of the library.

Objective.   $\sum_i w_i\,\mathrm{loss}(f_\theta(x_i), y_i) / \sum_i w_i + r(\theta)$ by mini-batches, by
             Adam unless told otherwise: `optim.minimise_batches`, whose options these are.
Noise.       A network whose call names `key` (dropout) is given one for each row while it trains, and none on
             held-out rows, where it is in inference mode.
Cost.        One gradient per batch; one program per network and loss.
"""

import inspect
import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_entries, to_device
from tractable.core.chunks import Chunks, bucket_size, chunks
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Key
from tractable.optim.averaging import Averaging
from tractable.optim.batch_rows import cast_rows
from tractable.optim.gradient import Adam
from tractable.optim.objective import Method
from tractable.optim.stochastic import BatchRun, minimise_batches

__all__ = ["predict_rows", "train"]

_SLAB = 1024  # rows of a prediction at a time


@takes_key
def train(
    network: Any,
    data: Any,
    loss: Callable[[Any, Any], Any],
    *,
    key: Key,
    method: Method | None = None,
    batch: int = 32,
    epochs: int = 10,
    weights: ArrayLike | None = None,
    validation: Any = None,
    patience: int | None = None,
    penalty: Callable[[Any], Any] | None = None,
    clip: float | None = None,
    accumulate: int = 1,
    average: Averaging | None = None,
    tol: float | None = None,
    shuffle: bool = True,
    chunk: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    seconds: float | int = 30.0,
    progress: bool = True,
) -> BatchRun:
    """Fit `network(x)` to `data = (inputs, targets)` by `loss(output, target)` of one row.

    `run.state` is the network trained, `run.trace` the mean loss of each epoch (`LearningCurves` with
    `validation=(inputs, targets)`). The method is Adam with steps of $10^{-3}$ if none is given; other
    options are those of `minimise_batches`.
    """
    data = _pairs("data", data)
    validation = None if validation is None else _pairs("validation", validation)
    noisy = "key" in inspect.signature(network).parameters
    return minimise_batches(
        _NoisyRowLoss(loss) if noisy else _RowLoss(loss), network, data,
        Adam(1e-3) if method is None else method, key=key, batch=batch, epochs=epochs, weights=weights,
        shuffle=shuffle, penalty=penalty, tol=tol, validation=validation,
        validation_loss=None if validation is None else _CalmRowLoss(loss), patience=patience, clip=clip,
        accumulate=accumulate, average=average, chunk=chunk, checkpoint=checkpoint, seconds=seconds,
        progress=progress,
    )  # fmt: skip


def predict_rows(network: Any, inputs: Any) -> Array:
    """`network(x)` of every row, in inference mode, in slabs that use one program.

    >>> import equinox as eqx
    >>> import jax.random as jr
    >>> predict_rows(eqx.nn.Linear(2, 3, key=jr.key(0)), jnp.ones((5, 2))).shape
    (5, 3)
    """
    inputs = np.asarray(inputs) if isinstance(inputs, list) else inputs
    leaves = jax.tree.leaves(inputs)
    num_rows = np.shape(leaves[0])[0] if leaves and np.ndim(leaves[0]) else 0
    check(num_rows > 0, "inputs", "at least one row", "none")
    calm, arrays = eqx.nn.inference_mode(network), jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
    inputs = cast_rows(inputs, bool(arrays) and all(leaf.dtype == jnp.float32 for leaf in arrays))
    slabs = chunks(inputs, min(_SLAB, bucket_size(num_rows)))
    parts = [np.asarray(_forward(calm, rows))[np.asarray(there) > 0] for rows, there in slabs]
    return to_device(np.concatenate(parts))


@program
def _forward(network: Any, inputs: Any) -> Array:
    return jax.vmap(network)(inputs)


class _RowLoss(Module):
    """The loss of one row; equal losses are one program."""

    loss: Callable[[Any, Any], Any] = field(static=True)

    def __call__(self, network: Any, row: Any) -> Any:
        return self.loss(network(row[0]), row[1])


class _NoisyRowLoss(Module):
    """The same for a network that is given a key."""

    loss: Callable[[Any, Any], Any] = field(static=True)

    def __call__(self, network: Any, row: Any, *, key: Key) -> Any:
        return self.loss(network(row[0], key=key), row[1])


class _CalmRowLoss(Module):
    """The same without noise."""

    loss: Callable[[Any, Any], Any] = field(static=True)

    def __call__(self, network: Any, row: Any) -> Any:
        return self.loss(eqx.nn.inference_mode(network)(row[0]), row[1])


def _pairs(name: str, data: Any) -> Any:
    """Inputs and targets of one length without NaN, as arrays, where they are in memory."""
    if isinstance(data, Chunks) or callable(data):
        return data
    pair = isinstance(data, tuple) and len(data) == 2
    check(pair, name, "a pair `(inputs, targets)`", type(data).__name__)
    data = jax.tree.map(lambda leaf: _numbers(name, leaf), data)
    leaves = jax.tree.leaves(data)
    check(all(np.ndim(leaf) for leaf in leaves), name, "arrays with one row for each example", "a number")
    lengths = sorted({len(leaf) for leaf in leaves})
    check(len(lengths) == 1, name, "as many targets as inputs", f"arrays of {lengths} rows")
    for leaf in leaves:
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            fix = "Leave such rows out, or fill them in."
            check_entries(name, leaf, np.isfinite, "finite", fix)
    return data


def _numbers(name: str, leaf: Any) -> Any:
    """An array as it is, a column or a table as its numbers; text is refused."""
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    is_text = isinstance(array, np.ndarray) and array.dtype.kind not in "biuf"
    fix = "Turn names into codes."
    check(not is_text, name, "arrays of numbers", f"dtype {array.dtype}", fix, TypeError)
    return array
