r"""Backpropagation written out: every layer's numbers on the way forward, and its slopes on the way back.

Forward.     $z_0 = x$, $a_l = W_l z_{l-1} + b_l$, $z_l = g_l(a_l)$, $C = \mathrm{loss}(z_L, y)$.
Backward.    $\delta_L = g_L'(a_L)^\top\,\partial C/\partial z_L$,
             $\delta_l = g_l'(a_l)^\top W_{l+1}^\top \delta_{l+1}$;
             $\partial C/\partial W_l = \delta_l z_{l-1}^\top$, $\partial C/\partial b_l = \delta_l$,
             $\partial C/\partial x = W_1^\top \delta_1$. The transposed Jacobian is a product with the slopes
             where $g$ is elementwise, and a matrix for a softmax.
Use.         To look inside; training takes the same slopes from `jax.grad`.
Cost.        Twice the forward pass, and all $a_l$, $z_l$ in memory.
References.  Rumelhart, Hinton and Williams (1986).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import check
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Scalar
from tractable.neural.activations import Activation
from tractable.neural.mlp import MLP

__all__ = ["Backpropagation", "backpropagate"]


class Backpropagation(Module):
    """What passed through each layer, and how the loss depends on it; layers in their order."""

    _shown = ("loss", "weight_slopes", "bias_slopes", "input_slope")

    loss: Scalar
    pre_activations: tuple[Array, ...]
    activations: tuple[Array, ...]  # the input first
    deltas: tuple[Array, ...]
    weight_slopes: tuple[Array, ...]
    bias_slopes: tuple[Array, ...]
    input_slope: Array


def backpropagate(
    network: MLP, x: ArrayLike, target: Any, loss: Callable[[Any, Any], Scalar]
) -> Backpropagation:
    """The slopes of `loss(network(x), target)` by all weights, biases and inputs, layer by layer.

    >>> import jax.random as jr
    >>> from tractable.neural import half_squared
    >>> chain = MLP((1, 1, 1), "tanh", key=jr.key(0))
    >>> [slope.shape for slope in backpropagate(chain, jnp.ones(1), jnp.zeros(1), half_squared).weight_slopes]
    [(1, 1), (1, 1)]
    """
    gates = [network.activation] * (len(network.layers) - 1) + [network.output]
    for gate in gates:
        fix = "Its derivatives are stated there."
        check(isinstance(gate, Activation), "network", "an MLP whose activations are named", str(gate), fix)
    passed, before = [jnp.asarray(x)], []
    for layer, gate in zip(network.layers, gates):
        before.append(layer(passed[-1]))
        passed.append(gate(before[-1]))
    value, slope = jax.value_and_grad(loss)(passed[-1], target)
    deltas = []
    for layer, gate, a in reversed(list(zip(network.layers, gates, before))):
        assert isinstance(gate, Activation)
        deltas.insert(0, gate.pull(a, slope))
        slope = layer.weight.T @ deltas[0]
    weights = tuple(jnp.outer(delta, z) for delta, z in zip(deltas, passed))
    return Backpropagation(value, tuple(before), tuple(passed), tuple(deltas), weights, tuple(deltas), slope)
