r"""A perceptron fitted to a table: some rows held out to say when to stop, weights in float32.

Loss.        $\sum_iw_i\,\mathrm{loss}(f(z_i), y_i)/\sum_iw_i + \tfrac12\lambda\|W\|^2$ for standardised
             columns $z$, by Adam on mini-batches (`neural.train`). A share of the rows is held out; training
             ends when their loss has not fallen for some epochs, at the weights where it was least. Few rows
             are all learned from, for a tenth of the epochs.
Shapes.      Columns are filled up with zeros to a power of two, and rows to a bucket: another table uses the
             same program.
Prediction.  In float64: a row has the same prediction alone and among others.
Cost.        One gradient per batch and epoch.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from tractable.core.chunks import bucket_size
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.types import Array, Key
from tractable.neural.bayes.statement import in_double
from tractable.neural.mlp import MLP
from tractable.neural.training import predict_rows, train
from tractable.optim.gradient import Adam
from tractable.optim.stochastic import LearningCurves

__all__ = [
    "TableNetwork",
    "WeightedLoss",
    "fit_table_network",
    "held_rows",
    "learning_curves",
    "widened",
    "with_arrays",
]

_FEW = 30  # rows: with fewer, none are held out
_LEAST_WIDTH = 8


class TableNetwork(Module):
    """A fitted perceptron as its numbers: what is written to a file and read back.

    `training` and `validation` are the mean losses of the epochs, `best_epoch` the one that was kept.
    """

    arrays: tuple[Array, ...] = field(show=False)
    sizes: tuple[int, ...] = field(static=True)
    activation: str = field(static=True)
    training: np.ndarray = field(show=False)
    validation: np.ndarray = field(show=False)
    best_epoch: int

    @property
    def network(self) -> MLP:
        """The perceptron, in float64."""
        return with_arrays(lambda: MLP(self.sizes, self.activation, key=jr.key(0)), self.arrays)

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """The outputs for each row of standardised columns."""
        return np.asarray(predict_rows(self.network, widened(X)))


@takes_key
def fit_table_network(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    loss: Any,
    num_outputs: int,
    *,
    key: Key,
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "relu",
    decay: float = 1e-4,
    learning_rate: float = 3e-3,
    batch: int = 32,
    epochs: int = 200,
    patience: int = 20,
    share: float = 0.2,
) -> TableNetwork:
    """The perceptron of least held-out `loss(output, target)` on its way; `weights` count rows."""
    key_start, key_split, key_train = jr.split(key, 3)
    table = widened(X).astype(np.float32)
    sizes = (table.shape[1], *hidden, num_outputs)
    start = MLP(sizes, activation, key=key_start)
    start = eqx.tree_at(lambda n: n.layers[-1].weight, start, 0.1 * start.layers[-1].weight)
    inputs, options = held_rows(key_split, table, y, weights, share, epochs, patience)
    found = train(
        start, inputs, WeightedLoss(loss), key=key_train, method=Adam(learning_rate), batch=batch,
        penalty=_Decay(decay), progress=False, **options,
    )  # fmt: skip
    leaves = tuple(jax.tree.leaves(eqx.filter(found.state, eqx.is_array)))
    return TableNetwork(leaves, sizes, activation, *learning_curves(found))


def learning_curves(run: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """The losses of training and of held-out rows after each epoch, and the epoch that was kept."""
    values = run.values
    if isinstance(values, LearningCurves):
        return np.asarray(values.training), np.asarray(values.validation), int(run.best_epoch)
    return np.asarray(values), np.zeros(0), int(run.num_steps)


def held_rows(
    key: Key, inputs: Any, y: np.ndarray, weights: np.ndarray, share: float, epochs: int, patience: int
) -> tuple[Any, dict[str, Any]]:
    """Rows to learn from (inputs, (targets, weights)), and the options of training with the others held out.

    Few rows are all learned from, for a tenth of the epochs.
    """
    num_rows = len(y)
    targets = (_narrowed(y), (weights / weights.mean()).astype(np.float32))
    count = round(share * num_rows) if num_rows >= _FEW else 0
    order = np.asarray(jr.permutation(key, bucket_size(num_rows)))
    order = order[order < num_rows]  # another number of rows uses the same program
    rows = (inputs, targets)
    kept = jax.tree.map(lambda leaf: leaf[order[count:]], rows)
    if not count:
        return kept, {"epochs": max(1, epochs // 10)}
    place = np.resize(order[:count], bucket_size(count))  # filled up by rows of weight zero
    held_inputs, (held_y, held_weights) = jax.tree.map(lambda leaf: leaf[place], rows)
    held_weights = np.where(np.arange(len(place)) < count, held_weights, np.float32(0))
    held_weights /= held_weights.mean()  # their weighted mean is then the mean over all that fill the shape
    held = (held_inputs, (held_y, held_weights))
    return kept, {"epochs": epochs, "patience": patience, "validation": held}


class WeightedLoss(Module):
    """The loss of a row times its weight, which comes with its target."""

    loss: Any = field(static=True)

    def __call__(self, output: Any, target: Any) -> Any:
        return target[1] * self.loss(output, target[0])


class _Decay(Module):
    r"""$\tfrac12\lambda\sum W^2$ over the matrices."""

    strength: float = field(static=True)

    def __call__(self, network: Any) -> Any:
        return 0.5 * self.strength * sum((layer.weight**2).sum() for layer in network.layers)


def widened(X: np.ndarray) -> np.ndarray:
    """Columns of zeros up to a power of two: they change nothing but the shape."""
    width = max(_LEAST_WIDTH, 1 << (X.shape[1] - 1).bit_length())
    return np.pad(np.asarray(X), [(0, 0), (0, width - X.shape[1])])


def _narrowed(y: np.ndarray) -> np.ndarray:
    return y.astype(np.float32) if y.dtype.kind == "f" else y.astype(np.int32)


def with_arrays(make: Callable[[], Any], arrays: tuple[Array, ...]) -> Any:
    """The network that `make` makes with other arrays, their floats in float64; nothing is drawn."""
    empty, rest = eqx.partition(
        eqx.filter_eval_shape(make), lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)
    )
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(empty), [in_double(a) for a in arrays]), rest)
