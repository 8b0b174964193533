r"""Recurrent cells in compact form, and their run over one sequence.

Cells.       With $u = [h_{t-1}; x_t]$: vanilla $h_t = \phi(uW + b)$; LSTM $[i; f; o; \tilde C] =
             [\sigma; \sigma; \sigma; \tanh](uW + b)$, $C_t = f \odot C_{t-1} + i \odot \tilde C$,
             $h_t = o \odot \tanh C_t$; GRU $[r; z] = \sigma(uW + b)$,
             $n = \tanh(xW_n + b_n + r \odot (hU_n + c_n))$, $h_t = (1 - z) \odot n + z \odot h_{t-1}$.
Forgetting.  The bias of $f$ starts at `forget_bias`: at 1, 3, 5 a cell keeps .731, .953, .993 a step.
Cost.        $O(T h (h + d))$; the part of the inputs is one product for the whole sequence, outside of the
             loop. `length` marks where a padded sequence ends: what follows is never read.
References.  Hochreiter and Schmidhuber (1997); Gers, Schmidhuber and Cummins (2000); Cho et al. (2014).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_entries, check_shape, is_concrete
from tractable.core.keys import takes_key
from tractable.core.numerics import sigmoid
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Values
from tractable.neural.lstm_backward import gates_of, lstm_states
from tractable.neural.rows_product import rows_product

__all__ = ["Cell", "GRUCell", "LSTMCell", "RNNCell", "pad_sequences", "unroll"]

Length = int | np.integer | Int[Array, ""] | Int[np.ndarray, ""]


class Cell(eqx.Module):
    """One step of a recurrence, `cell(x, state) -> state`; the rows of `weight` belong to $[h; x]$."""

    weight: eqx.AbstractVar[Float[Array, "hidden+input gates"]]
    bias: eqx.AbstractVar[Float[Array, " gates"]]
    hidden_size: eqx.AbstractVar[int]

    @property
    def input_size(self) -> int:
        """The length of one input."""
        return self.weight.shape[0] - self.hidden_size

    def start(self) -> Any:
        """The state before the first input: zeros."""
        return jnp.zeros(self.hidden_size, self.weight.dtype)

    def output(self, state: Any) -> Array:
        """What the cell shows of its state, $h_t$."""
        return state

    def project(self, inputs: Array) -> Array:
        """The part of the gates that the inputs give, for one step or for a whole sequence at once."""
        weight = self.weight[self.hidden_size :]
        along = inputs @ weight if inputs.ndim == 1 else rows_product(inputs, weight)
        return along + _row(self.bias, inputs.ndim)

    @abstractmethod
    def advance(self, state: Any, projected: Array) -> Any:
        """The next state from the projected input."""

    def states(self, start: Any, projected: Array) -> Any:
        """The states after each of the projected inputs, stacked."""

        def step(state, row):
            state = self.advance(state, row)
            return state, state

        return jax.lax.scan(step, start, projected)[1]

    def __call__(self, x: Array, state: Any) -> Any:
        return self.advance(state, self.project(x))

    @property
    def _recurrent(self) -> Array:
        return self.weight[: self.hidden_size]


class RNNCell(Cell):
    r"""The vanilla cell, $h_t = \phi([h_{t-1}; x_t]W + b)$.

    >>> cell = RNNCell(3, 4, key=jr.key(0))
    >>> cell(jnp.ones(3, jnp.float32), cell.start()).shape
    (4,)
    """

    weight: Float[Array, "hidden+input hidden"]
    bias: Float[Array, " hidden"]
    hidden_size: int = eqx.field(static=True)
    activation: Callable = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: Callable = jnp.tanh,
        dtype: Any = jnp.float32,
        key: Key,
    ):
        self.hidden_size, self.activation = check_count("hidden_size", hidden_size), activation
        self.weight, self.bias = _uniform(key, input_size, hidden_size, 1, dtype)

    def advance(self, state: Array, projected: Array) -> Array:
        return self.activation(projected + state @ self._recurrent)


class LSTMCell(Cell):
    r"""The cell with gates in the order $[i; f; o; \tilde C]$; its state is $(h, C)$.

    Over a sequence its gradient is the back-propagation through time of `lstm_backward`.

    >>> cell = LSTMCell(1, 2, key=jr.key(0), forget_bias=3.0)
    >>> cell.bias[2:4].tolist()
    [3.0, 3.0]
    """

    weight: Float[Array, "hidden+input gates"]
    bias: Float[Array, " gates"]
    hidden_size: int = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        forget_bias: float = 1.0,
        dtype: Any = jnp.float32,
        key: Key,
    ):
        self.hidden_size = check_count("hidden_size", hidden_size)
        self.weight, _ = _uniform(key, input_size, hidden_size, 4, dtype)
        self.bias = jnp.zeros(4 * hidden_size, dtype).at[hidden_size : 2 * hidden_size].set(forget_bias)

    def start(self) -> tuple[Array, Array]:
        return super().start(), super().start()

    def output(self, state: tuple[Array, Array]) -> Array:
        return state[0]

    def advance(self, state: tuple[Array, Array], projected: Array) -> tuple[Array, Array]:
        gates, new = gates_of(projected + state[0] @ self._recurrent)
        write, keep, show = jnp.split(gates, 3)
        memory = keep * state[1] + write * new
        return show * jnp.tanh(memory), memory

    def states(self, start: tuple[Array, Array], projected: Array) -> tuple[Array, Array]:
        return lstm_states(self._recurrent, *start, projected)


class GRUCell(Cell):
    r"""The gated recurrent unit; the columns of `weight` are $[r; z; n]$.

    >>> cell = GRUCell(3, 4, key=jr.key(0))
    >>> cell.weight.shape
    (7, 12)
    """

    weight: Float[Array, "hidden+input gates"]
    bias: Float[Array, " gates"]
    recurrent_bias: Float[Array, " hidden"]  # $c_n$, which the gate $r$ opens together with $h$
    hidden_size: int = eqx.field(static=True)

    @takes_key
    def __init__(self, input_size: int, hidden_size: int, *, dtype: Any = jnp.float32, key: Key):
        self.hidden_size = check_count("hidden_size", hidden_size)
        self.weight, self.bias = _uniform(key, input_size, hidden_size, 3, dtype)
        self.recurrent_bias = jnp.zeros(hidden_size, dtype)

    def advance(self, state: Array, projected: Array) -> Array:
        recurrent, size = state @ self._recurrent, 2 * self.hidden_size
        reset, keep = jnp.split(sigmoid(projected[:size] + recurrent[:size]), 2)
        new = jnp.tanh(projected[size:] + reset * (recurrent[size:] + self.recurrent_bias))
        return new + keep * (state - new)


def unroll(
    cell: Cell, inputs: Values, start: Any = None, *, length: Length | None = None
) -> tuple[Float[Array, "time hidden"], Any]:
    r"""The outputs after each input of one sequence, and the last state.

    With `length` the sequence ends there: later outputs are zero, the last state is that after `length`
    steps, and what stands in the padding, be it NaN, changes neither values nor gradients.

    >>> cell = LSTMCell(3, 4, key=jr.key(0))
    >>> outputs, last = unroll(cell, jnp.ones((5, 3), jnp.float32), length=2)
    >>> outputs.shape, bool((outputs[1] == last[0]).all()), float(abs(outputs[2:]).sum())
    ((5, 4), True, 0.0)
    """
    inputs = jnp.asarray(inputs, cell.weight.dtype)
    check_shape("inputs", inputs, (None, cell.input_size), "One sequence at a time: `jax.vmap` for more.")
    start = cell.start() if start is None else start
    steps = len(inputs)
    if length is None:
        check_entries("inputs", inputs, np.isfinite, "finite", "Mask what is missing, or fill it in.")
        states = cell.states(start, cell.project(inputs))
        return cell.output(states), jax.tree.map(lambda one, all: all[-1] if steps else one, start, states)
    inside = within(length, steps)
    inputs = jnp.where(inside[:, None], inputs, 0)
    check_entries("inputs", inputs, np.isfinite, "finite within `length`")
    # causality does the rest: states inside never see what follows, and are picked out afterwards
    states = cell.states(start, cell.project(inputs))
    everything = jax.tree.map(lambda one, all: jnp.concatenate([one[None], all]), start, states)
    place = jnp.where(length < 0, steps + 1, length)  # in compiled code a length beyond the places gives NaN
    last = jax.tree.map(lambda leaf: leaf.at[place].get(mode="fill", fill_value=jnp.nan), everything)
    return jnp.where(inside[:, None], cell.output(states), 0), last


def within(length: Length, steps: int) -> Array:
    """Which of `steps` places come before `length`."""
    whole = jnp.issubdtype(jnp.result_type(length), jnp.integer) and jnp.ndim(length) == 0
    check(whole, "length", "one whole number", length, "One sequence at a time: `jax.vmap` for more.")
    if is_concrete(length):
        check(0 <= int(length) <= steps, "length", f"from 0 to the {steps} places of the sequence", length)
    return jnp.arange(steps) < length


def pad_sequences(
    sequences: Iterable[ArrayLike], size: int | None = None
) -> tuple[np.ndarray, Int[np.ndarray, " n"]]:
    """Sequences of unequal length as one array, zeros after the end of each, and their lengths.

    >>> rows, lengths = pad_sequences([[1, 2, 3], [4]])
    >>> rows.tolist(), lengths.tolist()
    ([[1, 2, 3], [4, 0, 0]], [3, 1])
    """
    arrays = [np.asarray(each) for each in sequences]
    check(len(arrays) > 0, "sequences", "at least one sequence", "none")
    for number, each in enumerate(arrays):
        check(each.ndim > 0, f"sequences[{number}]", "a sequence, with time along its first axis", each)
        same = each.shape[1:] == arrays[0].shape[1:]
        check(same, f"sequences[{number}]", f"of entries of shape {arrays[0].shape[1:]}", each.shape[1:])
    lengths = np.array([len(each) for each in arrays])
    longest = int(lengths.max())
    size = longest if size is None else check_count("size", size, least=longest)
    kinds = [each for each in arrays if each.size] or arrays  # a list without entries says nothing of theirs
    padded = np.zeros((len(arrays), size, *arrays[0].shape[1:]), np.result_type(*kinds))
    for row, each in zip(padded, arrays):
        row[: len(each)] = each
    return padded, lengths


def _uniform(key: Key, input_size: int, hidden_size: int, gates: int, dtype: Any) -> tuple[Array, Array]:
    """Weights of all gates, uniform within $1/\\sqrt h$, and biases of zero."""
    shape = (hidden_size + check_count("input_size", input_size), gates * hidden_size)
    bound = hidden_size**-0.5
    return jr.uniform(key, shape, dtype, -bound, bound), jnp.zeros(gates * hidden_size, dtype)


def _row(vector: Array, ndim: int) -> Array:
    """A vector to be added to the last axis of an array of `ndim` axes."""
    return vector.reshape((1,) * (ndim - 1) + vector.shape)
