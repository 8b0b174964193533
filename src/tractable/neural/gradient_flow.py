r"""How gradients flow through time: products of Jacobians, and the memory of an LSTM as a highway.

Product.     $\frac{\partial s_T}{\partial s_t} = J_T J_{T-1} \cdots J_{t+1}$ with $J_t = \partial s_t /
             \partial s_{t-1}$ along the path. Where $J_t$ is about a constant matrix, its norm goes as
             $\rho^{T-t}$ with the spectral radius $\rho$: it vanishes below one and explodes above.
LSTM.        With $h_{t-1} = o_{t-1} \odot \tanh C_{t-1}$ and $\xi_t = i_t \odot \tilde C_t$,
             $\frac{\partial C_t}{\partial C_{t-1}} = \mathrm{diag}(f_t) + \mathrm{diag}(C_{t-1})
             \frac{\partial f_t}{\partial C_{t-1}} + \frac{\partial \xi_t}{\partial C_{t-1}}$: the last term
             has no factor $C_{t-1}$, and $o_{t-1}$ is fixed, for it knows $h_{t-2}$ and $x_{t-1}$ only.
Cost.        $T$ Jacobians and products of $s \times s$ matrices; norms are kept as logarithms.
References.  Bengio, Simard and Frasconi (1994); Pascanu, Mikolov and Bengio (2013).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tractable.core.checks import check, check_shape
from tractable.core.module import Module, field
from tractable.core.numerics import sigmoid, sigmoid_derivative
from tractable.core.programs import program
from tractable.core.types import Array, Float, Values
from tractable.neural.recurrent import Cell, LSTMCell

__all__ = ["GradientFlow", "MemoryJacobian", "gradient_flow", "memory_jacobian"]


class GradientFlow(Module):
    r"""`log_norms[k]` is $\log\lVert\partial s_T/\partial s_{T-k}\rVert_2$ for $k = 0 \dots T$."""

    log_norms: Float[Array, " lags"] = field(about="of the slope of the last state, k steps back")
    spectral_radii: Float[Array, " steps"] = field(about="of the Jacobian of each step")

    @property
    def rate(self) -> Array:
        """The mean growth of the gradient in one step back: below zero it vanishes, above it explodes."""
        return self.log_norms[-1] / (len(self.log_norms) - 1)


class MemoryJacobian(NamedTuple):
    r"""The three terms of $\partial C_t/\partial C_{t-1}$."""

    kept: Array
    through_forgetting: Array
    through_writing: Array

    @property
    def total(self) -> Array:
        """Their sum."""
        return self.kept + self.through_forgetting + self.through_writing


def gradient_flow(cell: Cell, inputs: Values) -> GradientFlow:
    """The growth of gradients along one sequence, from zeros as the first state.

    >>> import jax.random as jr
    >>> from tractable.neural.recurrent import RNNCell
    >>> flow = gradient_flow(RNNCell(1, 4, key=jr.key(0)), jnp.zeros((50, 1)))
    >>> bool(flow.rate < 0)
    True
    """
    inputs = jnp.asarray(inputs, cell.weight.dtype)
    check_shape("inputs", inputs, (None, cell.input_size), "One sequence.")
    check(len(inputs) > 0, "inputs", "at least one step", "none")
    return _gradient_flow(cell, inputs)


@program
def _gradient_flow(cell: Cell, inputs: Array) -> GradientFlow:
    start, rebuild = ravel_pytree(cell.start())

    def advance(state, row):
        return ravel_pytree(cell.advance(rebuild(state), row))[0]

    def forward(state, row):
        return advance(state, row), jax.jacfwd(advance)(state, row)

    _, jacobians = jax.lax.scan(forward, start, cell.project(inputs))

    def back(carry, jacobian):
        product, log_scale = carry
        product = product @ jacobian
        norm = jnp.linalg.norm(product, 2)
        # scaled to norm one in each step: a thousand steps neither underflow nor overflow
        log_scale = log_scale + jnp.log(norm)
        return (product / jnp.where(norm > 0, norm, 1), log_scale), log_scale

    nothing = jnp.zeros((), start.dtype)
    _, log_norms = jax.lax.scan(back, (jnp.eye(start.size, dtype=start.dtype), nothing), jacobians[::-1])
    radii = jnp.abs(jnp.linalg.eigvals(jacobians)).max(-1)
    return GradientFlow(jnp.concatenate([nothing[None], log_norms]), radii)


def memory_jacobian(
    cell: LSTMCell,
    shown: Values,
    memory: Values,
    x: Values,
) -> MemoryJacobian:
    r"""$\partial C_t/\partial C_{t-1}$ at the output gate $o_{t-1}$ (`shown`), $C_{t-1}$ and $x_t$."""
    size = cell.hidden_size
    tanh = jnp.tanh(memory)
    gates = cell.project(x) + (shown * tanh) @ cell.weight[:size]
    write, forget, _, new = jnp.split(gates, 4)
    # rows of the weights belong to h: their transpose times dh/dC is the slope of the gates by the memory
    slope = (cell.weight[:size].T * (shown * (1 - tanh**2))[None]).reshape(4, size, size)
    candidate = jnp.tanh(new)
    by_forgetting = (memory * sigmoid_derivative(forget))[:, None] * slope[1]
    by_writing = (candidate * sigmoid_derivative(write))[:, None] * slope[0]
    by_candidate = (sigmoid(write) * (1 - candidate**2))[:, None] * slope[3]
    return MemoryJacobian(jnp.diag(sigmoid(forget)), by_forgetting, by_writing + by_candidate)
