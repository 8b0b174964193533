r"""Networks of recurrent cells: layers over one sequence, read at every place or at the end.

Model.       Layer $l$ runs over the outputs of layer $l - 1$; the head is affine in the last layer's output.
             With `vocabulary`, inputs are tokens, and `start`, `step` decode one at a time.
Rows.        `network(sequence)`, `network(sequence, length)`, or the pair `network((sequence, length))`, as
             which rows of unequal length are trained.
Cost.        That of its cells, and one product for the head.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check, check_count, check_option, check_shape
from tractable.core.keys import takes_key
from tractable.core.types import Array, Float, Key
from tractable.neural.positions import TokenEmbedding, check_tokens
from tractable.neural.recurrent import Cell, GRUCell, LSTMCell, RNNCell, unroll

__all__ = ["RecurrentNetwork"]

_CELLS = {"lstm": LSTMCell, "gru": GRUCell, "rnn": RNNCell}


class RecurrentNetwork(eqx.Module):
    """Recurrent layers and an affine head; `read` is `"last"` (one output) or `"all"` (one for each place).

    >>> network = RecurrentNetwork(3, 8, 2, key=jr.key(0))
    >>> network(jnp.ones((5, 3), jnp.float32)).shape
    (2,)
    """

    cells: tuple[Cell, ...]
    head: Float[Array, "hidden out"]
    head_bias: Float[Array, " out"]
    embedding: TokenEmbedding | None
    read: str = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        output_size: int,
        *,
        cell: str = "lstm",
        num_layers: int = 1,
        read: str = "last",
        vocabulary: int | None = None,
        dtype: Any = jnp.float32,
        key: Key,
        **options: Any,
    ):
        check_option("cell", cell, tuple(_CELLS))
        check_option("read", read, ("last", "all"))
        keys = jr.split(key, check_count("num_layers", num_layers) + 2)
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        make = _CELLS[cell]
        self.cells = tuple(
            make(n, hidden_size, dtype=dtype, key=k, **options) for n, k in zip(sizes, keys[2:])
        )
        shape = hidden_size, check_count("output_size", output_size)
        self.head, self.head_bias = (
            jr.normal(keys[0], shape, dtype) * hidden_size**-0.5,
            jnp.zeros(shape[1], dtype),
        )
        self.embedding, self.read = None, read
        if vocabulary is not None:
            self.embedding = TokenEmbedding(vocabulary, input_size, dtype=dtype, key=keys[1])

    def __call__(self, inputs: Any, length: Any = None) -> Float[Array, "..."]:
        if isinstance(inputs, tuple):
            inputs, length = inputs
        outputs = self._embedded(inputs)
        last = self.cells[-1].start()
        for cell in self.cells:
            outputs, last = unroll(cell, outputs, length=length)
        if self.read == "last":
            return self.cells[-1].output(last) @ self.head + self.head_bias
        return outputs @ self.head + self.head_bias[None]

    def start(self) -> tuple[Any, ...]:
        """The states of all layers before the first input."""
        return tuple(cell.start() for cell in self.cells)

    def step(self, state: tuple[Any, ...], token: Any) -> tuple[tuple[Any, ...], Float[Array, " out"]]:
        """The states after one more input (a token, or a vector without `vocabulary`), and the output."""
        row = token
        if self.embedding is not None:
            row = self.embedding(check_tokens(token, len(self.embedding.weight), "token"))
        after = []
        for cell, old in zip(self.cells, state):
            new = cell(row, old)
            row = cell.output(new)
            after.append(new)
        return tuple(after), row @ self.head + self.head_bias

    def _embedded(self, inputs: Any) -> Any:
        if self.embedding is None:
            return as_float("inputs", inputs)
        check_shape("inputs", inputs, (None,), "One sequence of tokens at a time: `jax.vmap` for more.")
        check(jnp.issubdtype(jnp.result_type(inputs), jnp.integer), "inputs", "tokens", "floats")
        return self.embedding(inputs)
