r"""Activations with their derivatives, dead ones and their stand-ins among them.

Elementwise. $\tanh' = 1 - \tanh^2$; sigmoid $s' = s(1 - s)$; ReLU $1[x > 0]$ (zero at the kink).
Softmax.     $p = \mathrm{softmax}(x)$ mixes entries: $\partial p/\partial x = \mathrm{diag}(p) - pp^\top$.
Dead.        The hard threshold, $+1$ for $x \ge 0$ and $-1$ below, has derivative zero: nothing before it
             learns. The straight-through threshold has its values, and the slope $1[|x| \le 1]$ of
             the clipped identity in place of its own.
References.  Bengio, Leonard and Courville (2013); Hubara et al. (2016).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import check, check_option
from tractable.core.module import Module, field
from tractable.core.numerics import sigmoid, sigmoid_derivative, softmax, softplus
from tractable.core.types import Array, ArrayLike

__all__ = ["ACTIVATIONS", "Activation", "activation_of"]


def _hard(x: Array) -> Array:
    return jnp.where(x >= 0, 1.0, -1.0).astype(x.dtype)


def _straight_through(x: Array) -> Array:
    clipped = jnp.clip(x, -1.0, 1.0)
    return clipped + jax.lax.stop_gradient(_hard(x) - clipped)


def _within(x: Array) -> Array:
    return (jnp.abs(x) <= 1).astype(x.dtype)


# value and derivative; softmax, whose derivative is a matrix, stands apart
ACTIVATIONS: dict[str, tuple[Callable[..., Array], Callable[..., Array] | None]] = {
    "identity": (lambda x: x, jnp.ones_like),
    "tanh": (jnp.tanh, lambda x: 1 - jnp.tanh(x) ** 2),
    "sigmoid": (sigmoid, sigmoid_derivative),
    "relu": (jax.nn.relu, lambda x: (x > 0).astype(x.dtype)),
    "softplus": (softplus, sigmoid),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), None),
    "hard_threshold": (_hard, jnp.zeros_like),
    "straight_through": (_straight_through, _within),
    "softmax": (lambda x: softmax(x), None),
}


class Activation(Module):
    """An activation by its name: one of `ACTIVATIONS`.

    >>> relu = Activation("relu")
    >>> relu(jnp.array([-1.0, 2.0])).tolist(), relu.slope(jnp.array([-1.0, 2.0])).tolist()
    ([0.0, 2.0], [0.0, 1.0])
    """

    name: str = field(static=True)

    def __check_init__(self) -> None:
        check_option("name", self.name, tuple(ACTIVATIONS))

    def __call__(self, x: ArrayLike) -> Array:
        return ACTIVATIONS[self.name][0](jnp.asarray(x))

    def slope(self, x: ArrayLike) -> Array:
        """The derivative of each entry by its own input; that of the straight-through threshold stands in."""
        mixes = self.name == "softmax"
        fix = "Its derivative is a matrix: see `jacobian`."
        check(not mixes, "name", "an elementwise activation", repr(self.name), fix)
        stated, x = ACTIVATIONS[self.name][1], jnp.asarray(x)
        if stated is not None:
            return stated(x)
        return jax.jvp(ACTIVATIONS[self.name][0], (x,), (jnp.ones_like(x),))[1]

    def jacobian(self, x: ArrayLike) -> Array:
        """The matrix of derivatives, outputs down the rows."""
        if self.name != "softmax":
            return jnp.diag(self.slope(x))
        p = self(x)
        return jnp.diag(p) - jnp.outer(p, p)

    def pull(self, x: Array, cotangent: Array) -> Array:
        """What a derivative by the output makes of the input: the transposed Jacobian times it."""
        if self.name != "softmax":
            return self.slope(x) * cotangent
        p = self(x)
        return p * (cotangent - p @ cotangent)


def activation_of(given: Any) -> Callable[[Array], Array]:
    """A name as its activation, a function as it is."""
    if isinstance(given, str):
        return Activation(given)
    check(callable(given), "activation", "a name or a function", type(given).__name__, error=TypeError)
    return given
