r"""The states of an LSTM over a sequence, with back-propagation through time written out.

Forward.     $z_t = p_t + h_{t-1} U$ with the projected input $p_t$;
             $C_t = f_t \odot C_{t-1} + i_t \odot \tilde C_t$, $h_t = o_t \odot \tanh C_t$.
Backward.    From the last step, with $\bar h_t, \bar C_t$ the slopes of the loss by what is seen of step $t$
             and carried from step $t + 1$: $\bar C_t \mathrel{+}= \bar h_t \odot o_t (1 - \tanh^2 C_t)$,
             $\delta_t = [\bar C_t \tilde C_t i_t(1 - i_t);\ \bar C_t C_{t-1} f_t(1 - f_t);\
             \bar h_t \tanh C_t\, o_t(1 - o_t);\ \bar C_t i_t(1 - \tilde C_t^2)]$, and what is carried on is
             $\bar h_{t-1} = \delta_t U^\top$, $\bar C_{t-1} = \bar C_t \odot f_t$. The slope by the weights
             is $\sum_t h_{t-1}^\top\delta_t$: one product for the whole sequence, after the loop.
Cost.        Two loops of $T$ products of $h \times 4h$; reverse mode only, of any order.
References.  Hochreiter and Schmidhuber (1997); Werbos (1990).
"""

from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.numerics import sigmoid
from tractable.core.types import Array, Float

__all__ = ["gates_of", "lstm_states"]


def gates_of(sums: Float[Array, " gates"]) -> tuple[Array, Array]:
    r"""$[i; f; o]$ and $\tilde C$ from their sums: one sigmoid of three gates, a fifth of the time of three.

    >>> [part.tolist() for part in gates_of(jnp.zeros(4))]
    [[0.5, 0.5, 0.5], [0.0]]
    """
    size = 3 * (sums.size // 4)
    return sigmoid(sums[:size]), jnp.tanh(sums[size:])


@jax.custom_vjp
def lstm_states(
    recurrent: Float[Array, "hidden gates"],
    output: Float[Array, " hidden"],
    memory: Float[Array, " hidden"],
    projected: Float[Array, "time gates"],
) -> tuple[Float[Array, "time hidden"], Float[Array, "time hidden"]]:
    """Outputs $h_t$ and memories $C_t$ after each step, from a start and the projected inputs."""
    return _forward(recurrent, output, memory, projected)[0]


def _forward(recurrent: Array, output: Array, memory: Array, projected: Array) -> tuple[Any, Any]:
    def step(state, row):
        gates, new = gates_of(row + state[0] @ recurrent)
        write, keep, show = jnp.split(gates, 3)
        memory = keep * state[1] + write * new
        shown = jnp.tanh(memory)
        state = show * shown, memory
        return state, (state, (write, keep, show, new, shown))

    _, (states, gates) = jax.lax.scan(step, (output, memory), projected)
    return states, (recurrent, output, memory, states, gates)


def _backward(kept: Any, slopes: tuple[Array, Array]) -> tuple[Array, Array, Array, Array]:
    recurrent, output, memory, (outputs, memories), gates = kept
    outputs, memories = _before(output, outputs), _before(memory, memories)
    transposed = jax.lax.optimization_barrier(recurrent.T)  # laid out once, not in each step

    def step(carried, inputs):
        (slope_output, slope_memory), (seen, memory, (write, keep, show, new, shown)) = carried, inputs
        slope_output = slope_output + seen[0]
        slope_memory = slope_memory + seen[1] + slope_output * show * (1 - shown * shown)
        delta = jnp.concatenate(
            [
                slope_memory * new * write * (1 - write),
                slope_memory * memory * keep * (1 - keep),
                slope_output * shown * show * (1 - show),
                slope_memory * write * (1 - new * new),
            ]
        )
        return (delta @ transposed, slope_memory * keep), delta

    zero = jnp.zeros_like(output), jnp.zeros_like(memory)
    first, deltas = jax.lax.scan(step, zero, (slopes, memories, gates), reverse=True)
    # laid out anew: left to the compiler, the transposed product takes three times as long
    return jax.lax.optimization_barrier(outputs.T) @ deltas, *first, deltas


def _before(start: Array, after: Array) -> Array:
    """The states before each step."""
    return jnp.concatenate([start[None], after[:-1]]) if len(after) else after


lstm_states.defvjp(_forward, _backward)
