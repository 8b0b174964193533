r"""Dense layers over `equinox.nn.Linear`: initial weights by name, stacks that collapse, numbers counted.

Layer.       $a = g(Wx + b)$; a neuron that is to fire above a threshold $t$ has $b = -t$.
Initial.     `he` $N(0, 2/n)$ for ReLU, `glorot` $U(\pm\sqrt{6/(n + m)})$ for tanh and sigmoid, `lecun`
             $N(0, 1/n)$, `orthogonal` $W W^\top = I$ (or $W^\top W$), `uniform` $U(\pm 1/\sqrt n)$, `zeros`,
             for $n$ inputs and $m$ outputs; biases are zero.
Collapse.    Layers without activations between them are one layer:
             $W_2(W_1 x + b_1) + b_2 = (W_2 W_1) x + (W_2 b_1 + b_2)$.
Cost.        All weights of a network are drawn by one program.
References.  Glorot and Bengio (2010); He et al. (2015); Saxe, McClelland and Ganguli (2014).
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count, check_option
from tractable.core.keys import takes_key
from tractable.core.programs import light, program
from tractable.core.types import Array, Key

__all__ = ["INITIALS", "collapse", "count_parameters", "dense", "dense_stack", "draw_weights"]

INITIALS = ("he", "glorot", "lecun", "orthogonal", "uniform", "zeros")


@takes_key
def dense(
    num_inputs: int, num_outputs: int, *, key: Key, initial: str = "he", bias: bool = True,
    dtype: Any = jnp.float32,
) -> eqx.nn.Linear:  # fmt: skip
    """A layer $Wx + b$ with initial weights by name.

    >>> dense(3, 2, key=jr.key(0)).weight.shape
    (2, 3)
    """
    return dense_stack((num_inputs, num_outputs), key=key, initial=initial, bias=bias, dtype=dtype)[0]


@takes_key
def dense_stack(
    sizes: Sequence[int], *, key: Key, initial: str = "he", bias: bool = True, dtype: Any = jnp.float32
) -> tuple[eqx.nn.Linear, ...]:
    """A layer between each two neighbours among the sizes."""
    sizes = tuple(check_count("sizes", size) for size in sizes)
    check(len(sizes) > 1, "sizes", "at least two numbers: inputs and outputs", sizes)
    shapes = tuple((m, n) for n, m in pairwise(sizes))
    weights = draw_weights(key, shapes, initial, dtype)
    return tuple(_linear(weight, jnp.zeros(len(weight), dtype) if bias else None) for weight in weights)


def draw_weights(
    key: Key, shapes: tuple[tuple[int, ...], ...], initial: str, dtype: Any
) -> tuple[Array, ...]:
    """Weights of these shapes: outputs first, then whatever feeds one output."""
    check_option("initial", initial, INITIALS)
    floats = jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    check(floats, "dtype", "a type of floats", jnp.dtype(dtype).name)
    return _drawn(key, shapes, initial, jnp.dtype(dtype).name)


def collapse(layers: Sequence[eqx.nn.Linear]) -> eqx.nn.Linear:
    """The one layer that a stack of layers is, if nothing stands between them.

    >>> stack = dense_stack((3, 8, 2), key=jr.key(0))
    >>> collapse(stack).weight.shape
    (2, 3)
    """
    check(len(layers) > 0, "layers", "at least one layer", "none")
    weight, bias = layers[0].weight, layers[0].bias
    for layer in layers[1:]:
        fits = layer.weight.shape[1] == weight.shape[0]
        got = f"{layer.weight.shape[1]} inputs after {weight.shape[0]} outputs"
        check(fits, "layers", "layers of which each takes what the one before it gives", got)
        weight = layer.weight @ weight
        moved = None if bias is None else layer.weight @ bias
        bias = layer.bias if moved is None else moved if layer.bias is None else moved + layer.bias
    return _linear(weight, bias)


def count_parameters(network: Any) -> int:
    """How many numbers of a network are arrays of floats.

    >>> count_parameters(dense(3, 2, key=jr.key(0)))
    8
    """
    leaves = jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
    return sum(int(leaf.size) for leaf in leaves)


def _linear(weight: Array, bias: Array | None) -> eqx.nn.Linear:
    """A layer with these numbers; Equinox would draw some first."""
    outputs, inputs = weight.shape
    blank = eqx.filter_eval_shape(eqx.nn.Linear, inputs, outputs, use_bias=bias is not None, key=jr.key(0))
    layer = eqx.tree_at(lambda layer: layer.weight, blank, weight)
    return layer if bias is None else eqx.tree_at(lambda layer: layer.bias, layer, bias)


@program
@light
def _drawn(key: Key, shapes: tuple[tuple[int, ...], ...], initial: str, dtype: str) -> tuple[Array, ...]:
    """All numbers are drawn at once: the compiler takes longer for each draw than the draw itself."""
    sizes = [math.prod(shape) for shape in shapes]
    is_normal = initial in ("he", "lecun", "orthogonal")
    flat = (jr.normal if is_normal else jr.uniform)(key, (sum(sizes),), dtype)
    ends = list(accumulate(sizes))
    parts = [flat[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes)]
    return tuple(_scaled(part, initial) for part in parts)


def _scaled(numbers: Array, initial: str) -> Array:
    outputs, inputs = numbers.shape[0], math.prod(numbers.shape[1:])
    if initial == "zeros":
        return jnp.zeros_like(numbers)
    if initial == "orthogonal":
        wide = numbers.reshape(outputs, inputs)
        q, r = jnp.linalg.qr(wide if outputs >= inputs else wide.T)
        q = q * jnp.sign(jnp.diagonal(r))[None]  # uniform over the orthogonal matrices
        return (q if outputs >= inputs else q.T).reshape(numbers.shape)
    if initial in ("he", "lecun"):
        return numbers * jnp.asarray(((2 if initial == "he" else 1) / inputs) ** 0.5, numbers.dtype)
    reach = (6 / (inputs + outputs)) ** 0.5 if initial == "glorot" else inputs**-0.5
    return (2 * numbers - 1) * jnp.asarray(reach, numbers.dtype)
