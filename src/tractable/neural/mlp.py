r"""The multi-layer perceptron: dense layers of any sizes, an activation between them.

Model.       $z_0 = x$, $a_l = W_l z_{l-1} + b_l$, $z_l = g(a_l)$ for $l < L$, output $h(a_L)$; $h$ is the
             identity where losses take logits.
Size.        $\sum_l (n_{l-1} + 1)\,n_l$ numbers: 784-16-16-10 has 13002.
Cost.        One matrix-vector product per layer and example; `vmap` makes one matrix product of a batch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from tractable.core.checks import check
from tractable.core.keys import takes_key
from tractable.core.types import Array, ArrayLike, Key
from tractable.neural.activations import activation_of
from tractable.neural.layers import count_parameters, dense_stack

__all__ = ["MLP"]


class MLP(eqx.Module):
    """Layers of the given sizes, inputs first; weights are drawn to suit the activation unless named.

    >>> import jax.random as jr
    >>> network = MLP((784, 16, 16, 10), key=jr.key(0))
    >>> network.num_parameters, network(jnp.zeros(784)).shape
    (13002, (10,))
    """

    layers: tuple[eqx.nn.Linear, ...]
    activation: Callable[[Array], Array]
    output: Callable[[Array], Array]

    @takes_key
    def __init__(
        self,
        sizes: Sequence[int],
        activation: str | Callable[[Array], Array] = "relu",
        output: str | Callable[[Array], Array] = "identity",
        *,
        key: Key,
        initial: str | None = None,
        bias: bool = True,
        dtype: Any = jnp.float32,
    ):
        chosen = (
            ("he" if activation in ("relu", "gelu", "softplus") else "glorot") if initial is None else initial
        )
        self.layers = dense_stack(sizes, key=key, initial=chosen, bias=bias, dtype=dtype)
        self.activation, self.output = activation_of(activation), activation_of(output)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of inputs, of each hidden layer, and of outputs."""
        return (self.layers[0].weight.shape[1], *(layer.weight.shape[0] for layer in self.layers))

    @property
    def num_parameters(self) -> int:
        """How many numbers it learns."""
        return count_parameters(self)

    def __call__(self, x: ArrayLike) -> Array:
        z = jnp.asarray(x)
        fix = "A network takes one example; use `jax.vmap` or `predict_rows` for many."
        check(z.shape == (self.sizes[0],), "x", f"of shape ({self.sizes[0]},)", f"shape {z.shape}", fix)
        for layer in self.layers[:-1]:
            z = self.activation(layer(z))
        return self.output(self.layers[-1](z))
