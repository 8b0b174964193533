r"""Kronecker-factored Gauss-Newton precision of a network of dense layers: one small pair of matrices each.

Block.       Layer $l$ maps $a \mapsto [W\, b]\,\bar a$ with $\bar a = (a, 1)$. Its block of the Gauss-Newton
             matrix is taken as
             $\big(\sum_n \bar a_n \bar a_n^\top\big) \otimes \tfrac1n\sum_n J_n^\top H_n J_n$, with $J_n$ the
             derivative of the outputs by the layer's sums and $H_n$ that of the loss; other blocks are zero.
Inverse.     Both factors are diagonalised once: the eigenvalues are $\alpha_i \gamma_j + \delta$, so that the
             prior precision $\delta$ is exact, and solving costs products of the small matrices.
Exact.       For one layer with a loss of constant curvature (linear regression), and for one example per
             block.
Cost.        $O(\sum_l n_l^3)$ for widths $n_l$, against $O((\sum_l n_l^2)^3)$ for the dense matrix.
References.  Martens and Grosse (2015); Ritter, Botev and Barber (2018).
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_length
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.support import nonnegative
from tractable.core.types import Array, ArrayLike, Bool, Float, Scalar
from tractable.inference.curvature.precision import Precision

__all__ = [
    "KroneckerBlock",
    "KroneckerCurvature",
    "KroneckerPrecision",
    "dense_network",
    "kronecker_curvature",
]

Layers = Sequence[tuple[Any, Any]]
Activation = Callable[[Array], Array]
Loss = Callable[[Array, Array], Scalar]


class KroneckerBlock(Module):
    r"""$A \otimes G + \delta I$ of one layer, by the eigenvectors of $A$ and $G$."""

    inner_values: Float[Array, " i"]
    inner: Float[Array, "i i"]
    outer_values: Float[Array, " o"]
    outer: Float[Array, "o o"]
    prior: Scalar
    has_bias: bool = field(static=True, default=True)

    @staticmethod
    def of(inner: Array, outer: Array, prior: Array, has_bias: bool = True) -> "KroneckerBlock":
        """The block of both matrices; the last row of `inner` is that of the bias."""
        inner_values, inner = jnp.linalg.eigh(inner)
        outer_values, outer = jnp.linalg.eigh(outer)
        return KroneckerBlock(inner_values, inner, outer_values, outer, prior, has_bias)

    @property
    def size(self) -> int:
        """How many parameters the layer has."""
        return self.outer_values.size * self.inner_values.size

    def variances(self) -> Float[Array, " n"]:
        """The diagonal of the inverse."""
        return self._flat(self.outer**2 @ (1 / self.spectrum) @ (self.inner**2).T)

    @property
    def spectrum(self) -> Float[Array, "o i"]:
        # the factors are sums of squares: an eigenvalue below zero is the rounding of zero
        inner, outer = jnp.maximum(self.inner_values, 0.0), jnp.maximum(self.outer_values, 0.0)
        return outer[:, None] * inner[None] + self.prior

    def spread(self, v: Float[Array, " n"]) -> Float[Array, "o i"]:
        """The layer's part of a flat vector, $[W\\, b]$, in the eigenbasis."""
        rows, columns = self.outer_values.size, self.inner_values.size - int(self.has_bias)
        matrix = v[: rows * columns].reshape((rows, columns))
        if self.has_bias:
            matrix = jnp.concatenate([matrix, v[rows * columns :][:, None]], axis=1)
        return self.outer.T @ matrix @ self.inner

    def gather(self, m: Float[Array, "o i"]) -> Float[Array, " n"]:
        """The way back from the eigenbasis."""
        return self._flat(self.outer @ m @ self.inner.T)

    def _flat(self, matrix: Float[Array, "o i"]) -> Float[Array, " n"]:
        """Weights row by row, then the biases."""
        if not self.has_bias:
            return matrix.ravel()
        return jnp.concatenate([matrix[:, :-1].ravel(), matrix[:, -1]])


class KroneckerPrecision(Precision):
    """A block per layer, over the flattened list of `(weight, bias)`."""

    blocks: tuple[KroneckerBlock, ...]

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)

    @property
    def smallest(self) -> Scalar:
        return jnp.stack([block.spectrum.min() for block in self.blocks]).min()

    @property
    def positive(self) -> Bool[Array, ""]:
        return self.smallest > 0

    def solve(self, v: Array) -> Array:
        return self._by_block(v, lambda spectrum: 1 / spectrum)

    def root(self, z: Array) -> Array:
        return self._by_block(z, lambda spectrum: 1 / jnp.sqrt(spectrum))

    def quadratic(self, v: Array) -> Scalar:
        return v @ self._by_block(v, lambda spectrum: spectrum)

    def log_det(self) -> Scalar:
        return jnp.stack([jnp.log(block.spectrum).sum() for block in self.blocks]).sum()

    def variances(self) -> Array:
        return jnp.concatenate([block.variances() for block in self.blocks])

    def _by_block(self, v: Array, change: Callable[[Array], Array]) -> Array:
        parts, start = [], 0
        for block in self.blocks:
            piece = v[start : start + block.size]
            parts.append(block.gather(change(block.spectrum) * block.spread(piece)))
            start += block.size
        return jnp.concatenate(parts)


class KroneckerCurvature(Module):
    """What `laplace(curvature=...)` calls with the layers at the mode, the inputs and the targets."""

    loss: Loss
    prior_precision: Float[Array, ""] = field(support=nonnegative)
    activation: Activation = jnp.tanh

    @program
    def __call__(self, layers: Layers, inputs: Array, targets: Array) -> KroneckerPrecision:
        check_length("targets", targets, "inputs", inputs)

        def example(x, y):
            return _factors(layers, x, y, self.activation, self.loss)

        factors = jax.vmap(example)(inputs, targets)
        prior = self.prior_precision
        blocks = [KroneckerBlock.of(inner.sum(0), outer.mean(0), prior) for inner, outer in factors]
        return KroneckerPrecision(tuple(blocks))


def kronecker_curvature(
    loss: Loss, prior_precision: ArrayLike = 0.0, activation: Activation = jnp.tanh
) -> KroneckerCurvature:
    """The Kronecker-factored precision of `dense_network` under `loss(output, y)`, for `laplace`."""
    return KroneckerCurvature(loss, as_float("prior_precision", prior_precision), activation)


def dense_network(layers: Layers, x: ArrayLike, activation: Activation = jnp.tanh) -> Array:
    r"""$W_L\,\phi(\dots\phi(W_1 x + b_1)\dots) + b_L$ for `layers` $(W_l, b_l)$; weights are (out, in)."""
    check(len(layers) > 0, "layers", "a list of (weight, bias)", "an empty list")
    return _sums(layers, jnp.asarray(x), activation, [0.0] * len(layers))[0]


def _sums(
    layers: Layers, x: Array, activation: Activation, shifts: Sequence[Any]
) -> tuple[Array, list[Array]]:
    """The outputs, with `shifts` added to the sums of each layer, and what each layer was given."""
    given, hidden = [], x
    for i, ((weight, bias), shift) in enumerate(zip(layers, shifts)):
        given.append(jnp.concatenate([hidden, jnp.ones(1, hidden.dtype)]))
        total = weight @ hidden + bias + shift
        hidden = activation(total) if i + 1 < len(layers) else total
    return hidden, given


def _factors(layers: Layers, x: Array, y: Array, activation: Activation, loss: Loss) -> list:
    """For each layer, $\\bar a \\bar a^\\top$ and $J^\\top H J$ of one example."""
    zeros = [jnp.zeros_like(bias) for _, bias in layers]
    output, given = _sums(layers, x, activation, zeros)
    curvature = jax.hessian(lambda f: loss(f, y))(output)
    jacobians = jax.jacrev(lambda shifts: _sums(layers, x, activation, shifts)[0])(zeros)
    return [(jnp.outer(a, a), j.T @ curvature @ j) for a, j in zip(given, jacobians)]
