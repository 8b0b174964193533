r"""A network that reads whole sequences and says a class: fitted with some of them held out.

Model.       Recurrent cells whose last state goes to an affine head, or state-space blocks read at the last
             row; logits of classes.
Shapes.      Sequences are filled up at the end to a power of two; what is filled in changes nothing.
Cost.        Linear in the longest sequence, per sequence and epoch.
"""

from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.types import Array, Key
from tractable.neural.losses import cross_entropy
from tractable.neural.recurrent_network import RecurrentNetwork
from tractable.neural.state_space_network import StateSpaceNetwork
from tractable.neural.tabular import WeightedLoss, held_rows, learning_curves, with_arrays
from tractable.neural.training import predict_rows, train
from tractable.optim.gradient import Adam

__all__ = ["LAYERS", "SequenceReader", "fit_sequence_reader"]

LAYERS = ("gru", "lstm", "rnn", "state_space", "selective")
_LEAST_LENGTH = 8


class SequenceReader(Module):
    """A fitted reader as its numbers: what is written to a file and read back."""

    arrays: tuple[Array, ...] = field(show=False)
    layer: str = field(static=True)
    sizes: tuple[int, int, int, int] = field(static=True)  # columns, hidden, classes, layers
    training: np.ndarray = field(show=False)
    validation: np.ndarray = field(show=False)
    best_epoch: int

    def outputs(self, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The logits of each sequence."""
        network = with_arrays(lambda: _made(self.layer, self.sizes, jr.key(0)), self.arrays)
        return np.asarray(predict_rows(network, _padded(rows, starts)))


@takes_key
def fit_sequence_reader(
    rows: np.ndarray, starts: np.ndarray, codes: np.ndarray, num_classes: int, *, key: Key,
    layer: str = "gru", hidden: int = 32, num_layers: int = 1, learning_rate: float = 1e-2, batch: int = 16,
    epochs: int = 100, patience: int = 15, share: float = 0.2,
) -> SequenceReader:  # fmt: skip
    """The reader of least held-out loss on its way, of standardised rows one sequence after the other."""
    key_start, key_split, key_train = jr.split(key, 3)
    sizes = (rows.shape[1], hidden, num_classes, num_layers)
    table, lengths = _padded(rows, starts)
    inputs = (table.astype(np.float32), lengths)
    kept, options = held_rows(key_split, inputs, codes, np.ones(len(codes)), share, epochs, patience)
    found = train(
        _made(layer, sizes, key_start), kept, WeightedLoss(cross_entropy), key=key_train,
        method=Adam(learning_rate), batch=batch, clip=1.0, progress=False, **options,
    )  # fmt: skip
    leaves = tuple(jax.tree.leaves(eqx.filter(found.state, eqx.is_array)))
    return SequenceReader(leaves, layer, sizes, *learning_curves(found))


class _ReadLast(eqx.Module):
    """State-space blocks, read at the last row of a sequence."""

    network: StateSpaceNetwork

    def __call__(self, pair: tuple[Array, Array]) -> Array:
        return self.network(pair[0])[pair[1] - 1]


def _made(layer: str, sizes: tuple[int, int, int, int], key: Key) -> Any:
    columns, hidden, classes, layers = sizes
    if layer in ("state_space", "selective"):
        kind = "diagonal" if layer == "state_space" else "selective"
        blocks = {"blocks": layers, "kind": kind, "tokens": False}
        return _ReadLast(StateSpaceNetwork(columns, classes, hidden, key=key, **blocks))
    return RecurrentNetwork(columns, hidden, classes, cell=layer, num_layers=layers, key=key)


def _padded(rows: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sequences side by side, filled up with zeros, and their lengths."""
    lengths = np.diff(starts)
    longest = max(_LEAST_LENGTH, 1 << (int(lengths.max()) - 1).bit_length())
    table = np.zeros((len(lengths), longest, rows.shape[1]))
    inside = np.arange(longest) < lengths[:, None]
    table[inside] = rows
    return table, lengths.astype(np.int32)
