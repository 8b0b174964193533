r"""Maps with a carried state, `(carry, x) -> (carry, y)`: recurrent cells with a readout, or functions.

Recurrent.   $s_t = \mathrm{cell}(x_t, s_{t-1})$, $y_t = W h_t + b$, or $x_t + W h_t + b$ around the input.
Memoryless.  $y_t = f(x_t)$; `Constant` does not even look.
Cost.        That of the cell.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check_count
from tractable.core.keys import takes_key
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.neural.recurrent import Cell, LSTMCell

__all__ = ["Constant", "Memoryless", "Recurrent"]


class Recurrent(eqx.Module):
    """A recurrent cell (an LSTM if none is given) and an affine readout; with `residual`, what it adds to its
    input. It computes in its own precision, and answers in that of its input.

    >>> grow = Recurrent(2, 2, residual=True, key=jr.key(0))
    >>> carry, y = grow(grow.start(), jnp.ones(2))
    >>> y.shape, str(y.dtype)
    ((2,), 'float64')
    """

    cell: Cell
    head: eqx.nn.Linear
    residual: bool = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: int = 16,
        *,
        residual: bool = False,
        bias: float = 0.0,
        cell: Cell | None = None,
        dtype: Any = jnp.float32,
        key: Key,
    ):
        key_cell, key_head = jr.split(key)
        inputs, outputs = check_count("inputs", inputs), check_count("outputs", outputs)
        self.cell = LSTMCell(inputs, hidden, dtype=dtype, key=key_cell) if cell is None else cell
        head = eqx.nn.Linear(self.cell.hidden_size, outputs, dtype=dtype, key=key_head)
        # it begins near a constant: `bias`, or with `residual` the input moved by it
        begun = 0.1 * head.weight, jnp.full(outputs, bias, dtype)
        self.head = eqx.tree_at(lambda one: (one.weight, one.bias), head, begun)
        self.residual = residual

    def start(self) -> Any:
        """What is carried before the first input."""
        return self.cell.start()

    def __call__(self, carry: Any, x: Float[Array, " d"]) -> tuple[Any, Array]:
        carry = self.cell(x.astype(self.head.weight.dtype), carry)
        y = self.head(self.cell.output(carry)).astype(x.dtype)
        return carry, x + y if self.residual else y


class Memoryless(eqx.Module):
    """Any function of the input, without a memory."""

    function: Callable[[Array], Array]

    def start(self) -> tuple:
        """Nothing."""
        return ()

    def __call__(self, carry: tuple, x: Array) -> tuple[tuple, Array]:
        return carry, self.function(x).astype(x.dtype)


class Constant(eqx.Module):
    """The same numbers whatever the input is: they are learnt, but not from it."""

    value: Array

    def __init__(self, value: ArrayLike):
        self.value = as_float("value", value)

    def start(self) -> tuple:
        """Nothing."""
        return ()

    def __call__(self, carry: tuple, x: Array) -> tuple[tuple, Array]:
        return carry, self.value.astype(x.dtype)
