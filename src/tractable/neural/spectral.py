r"""Spectral normalisation: layers that stretch nothing, and a bound on how much a network can.

Norm.        $\sigma(A) = \max_{\|x\| = 1} \|Ax\|$, the largest singular value; $A/\sigma(A)$ has norm one.
Bound.       $\mathrm{Lip}(g_L \circ A_L \circ \dots \circ A_1) \le \prod_l \mathrm{Lip}(g_l)\,\sigma(A_l)$:
             with activations of slope at most one, the product of the norms.
Slope.       $\partial\sigma/\partial A = u v^\top$ (left and right singular vectors).
Cost.        One singular value decomposition per layer: nothing is iterated, nothing remembered.
References.  Miyato et al. (2018); Golub and Van Loan (2013).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.checks import check, check_shape
from tractable.core.types import Array, Float, Scalar
from tractable.neural.activations import Activation
from tractable.neural.mlp import MLP

__all__ = ["SpectralDense", "lipschitz_bound", "normalise_spectra", "spectral_norm"]

_LIPSCHITZ = {"gelu": 1.1289042, "sigmoid": 0.25}  # of the others: one


def spectral_norm(matrix: Float[Array, "m n"]) -> Scalar:
    """The largest singular value.

    >>> round(float(spectral_norm(jnp.array([[3.0, 0.0], [4.0, 5.0]]))), 6)      # 3 sqrt 5
    6.708204
    """
    check_shape("matrix", matrix, (None, None))
    return jnp.linalg.norm(matrix, ord=2)


class SpectralDense(eqx.Module):
    """A dense layer whose weights are divided by their norm wherever it is used, in training too."""

    linear: eqx.nn.Linear

    def __call__(self, x: Array) -> Array:
        weight = self.linear.weight / _nonzero(spectral_norm(self.linear.weight))
        moved = weight @ x
        return moved if self.linear.bias is None else moved + self.linear.bias


def normalise_spectra(network: Any, norm: float = 1.0) -> Any:
    """The network with each dense layer's weights divided by their norm, times `norm`."""
    check(norm > 0, "norm", "positive", norm)

    def scaled(node: Any) -> Any:
        if not isinstance(node, eqx.nn.Linear):
            return node
        size = _nonzero(spectral_norm(node.weight))
        return eqx.tree_at(
            lambda layer: layer.weight, node, node.weight * (norm / size).astype(node.weight.dtype)
        )

    return jax.tree.map(scaled, network, is_leaf=lambda node: isinstance(node, eqx.nn.Linear))


def lipschitz_bound(network: MLP) -> Scalar:
    """No two inputs are taken further apart than this many times their distance."""
    gates = [network.activation] * (len(network.layers) - 1) + [network.output]
    bound = jnp.ones(())
    for layer, gate in zip(network.layers, gates):
        name = gate.name if isinstance(gate, Activation) else ""
        fix = "For other activations multiply the norms of the layers by their largest slopes."
        steep = name in ("", "hard_threshold", "straight_through")
        check(not steep, "network", "an MLP with named, continuous activations", name or str(gate), fix)
        bound = bound * spectral_norm(layer.weight) * _LIPSCHITZ.get(name, 1.0)
    return bound


def _nonzero(size: Scalar) -> Scalar:
    """A matrix of zeros stays one."""
    return jnp.where(size > 0, size, 1.0)
