r"""The Kronecker factors of any network of dense layers: what each layer is given, and what its sums do.

Block.       Layer $l$ maps $a \mapsto [W\,b]\,\bar a$, $\bar a = (a, 1)$: its block of the Gauss-Newton
             matrix is taken as $\sum_n \bar a_n\bar a_n^\top \otimes \frac1n\sum_n J_n^\top H_n J_n$
             (`inference.curvature.kronecker`), with $J_n$ the derivative of the outputs by the layer's sums.
Taps.        Each `equinox.nn.Linear` is replaced by one that writes down what it is given and adds a shift
             to its sums: the derivative by the shift, at zero, is $J_n$.
Cost.        One pass and $m$ reverse passes per row, then $O(\sum_l n_l^3)$.
References.  Martens and Grosse (2015); Ritter, Botev and Barber (2018).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.checks import check
from tractable.core.programs import program
from tractable.core.types import Array, Float
from tractable.neural.bayes.statement import BayesianNetwork

__all__ = ["check_dense_layers", "kronecker_factors"]


class _Tapped(eqx.Module):
    """A dense layer whose sums are shifted, and which tells `given` what it was given."""

    layer: eqx.nn.Linear
    shift: Array
    given: Any = eqx.field(static=True)

    @property
    def weight(self) -> Array:
        """That of the layer: networks may ask their layers for sizes."""
        return self.layer.weight

    def __call__(self, x: Array, *, key: Any = None) -> Array:
        if self.given is not None:
            self.given.append(jnp.ravel(x))
        return self.layer(x) + self.shift


def check_dense_layers(stated: BayesianNetwork, weights: Float[Array, " p"]) -> None:
    """Refuse a network some of whose weights belong to no dense layer."""
    network = stated.network(weights)
    held = sum(
        leaf.size for layer in _layers(network) for leaf in jax.tree.leaves(eqx.filter(layer, eqx.is_array))
    )
    fix = "Take the curvature 'full', 'diagonal' or 'last_layer'."
    must = "made of `equinox.nn.Linear` layers alone for Kronecker factors"
    check(held == weights.size, "network", must, f"{weights.size - held} other weights", fix)


@program
def kronecker_factors(
    stated: BayesianNetwork, weights: Float[Array, " p"]
) -> tuple[tuple[Float[Array, "i i"], Float[Array, "o o"]], ...]:
    """For each dense layer the sum of $\\bar a\\bar a^\\top$ and the mean of $J^\\top H J$, at unit noise."""
    network = stated.network(weights)
    layers = _layers(network)
    zeros = [jnp.zeros(layer.weight.shape[0]) for layer in layers]

    def example(x, y):
        given: list[Array] = []
        output = jnp.ravel(_tapped(network, zeros, given)(x))
        twice = "a network that uses each dense layer once"
        check(len(given) == len(layers), "network", twice, f"{len(given)} uses of {len(layers)} layers")
        hessian = jax.hessian(lambda f: stated.likelihood.unit_loss(f, y))(output)
        slopes = jax.jacrev(lambda shifts: jnp.ravel(_tapped(network, shifts, None)(x)))(zeros)
        return [
            (_outer(a, layer.use_bias), slope.T @ hessian @ slope)
            for a, layer, slope in zip(given, layers, slopes)
        ]

    counts = stated.counts
    shares = counts / counts.sum()
    found = jax.vmap(example)(stated.inputs, stated.targets)
    return tuple((jnp.tensordot(counts, inner, 1), jnp.tensordot(shares, outer, 1)) for inner, outer in found)


def _outer(a: Array, has_bias: bool) -> Array:
    a = jnp.concatenate([a, jnp.ones(1, a.dtype)]) if has_bias else a
    return jnp.outer(a, a)


def _is_layer(node: Any) -> bool:
    return isinstance(node, eqx.nn.Linear)


def _layers(network: Any) -> list[eqx.nn.Linear]:
    return [node for node in jax.tree.leaves(network, is_leaf=_is_layer) if _is_layer(node)]


def _tapped(network: Any, shifts: list[Array], given: list | None) -> Any:
    supply = iter(shifts)
    return jax.tree.map(
        lambda node: _Tapped(node, next(supply), given) if _is_layer(node) else node,
        network,
        is_leaf=_is_layer,
    )
