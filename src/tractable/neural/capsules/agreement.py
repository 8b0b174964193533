r"""Routing by agreement: upper capsules are vectors whose lengths say whether their object is there.

Squash.      $\mathrm{squash}(s) = \frac{\|s\|^2}{1 + \|s\|^2}\frac{s}{\|s\|}$: the same direction, shorter
             than one.
Step.        $c_i = \mathrm{softmax}(b_i)$ over the upper capsules, $v_j = \mathrm{squash}(\sum_ic_{ij}
             \hat u_{ij})$, and $b_{ij}$ grows by $\hat u_{ij}\cdot v_j$, from zeros on.
Cost.        $O(nmH)$ per step.
References.  Sabour, Frosst and Hinton (2017), "Dynamic routing between capsules".
"""

from functools import partial

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_count, check_finite, check_shape
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.numerics import softmax
from tractable.core.types import Array, ArrayLike, Float

__all__ = ["AgreementRouting", "dynamic_routing", "squash"]


class AgreementRouting(Module):
    """Upper capsules as vectors, and the couplings (n, m) with which they were made.

    `trace` holds the couplings of each step.
    """

    outputs: Float[Array, "m h"]
    couplings: Float[Array, "n m"]
    trace: Float[Array, "steps n m"] = field(show=False)

    @property
    def lengths(self) -> Float[Array, " m"]:
        """How sure each upper capsule is that its object is there: what the margin loss takes."""
        squares = (self.outputs**2).sum(-1)
        return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)


def squash(vector: ArrayLike) -> Array:
    r"""$\frac{\|s\|^2}{1 + \|s\|^2}\frac{s}{\|s\|}$ along the last axis; zero at zero, with gradient zero.

    >>> squash(jnp.array([0.0, 3.0])).tolist()
    [0.0, 0.9]
    """
    vector = as_float("vector", vector)
    check(vector.ndim > 0, "vector", "an array with at least one axis", "a number")
    squares = (vector**2).sum(-1, keepdims=True)
    length = jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)
    return vector * length / (1 + squares)


def dynamic_routing(predictions: ArrayLike, *, num_steps: int = 3) -> AgreementRouting:
    r"""Route predictions $\hat u_{ij}$ (n, m, h) of the upper capsules by the lower ones.

    >>> predictions = jnp.zeros((3, 2, 1)).at[:, 0].set(1.0).at[:, 1, 0].set(jnp.array([1.0, -1.0, 0.1]))
    >>> dynamic_routing(predictions).lengths.round(3).tolist()
    [0.857, 0.0]
    """
    predictions = as_float("predictions", predictions)
    fix = "Lower capsules, upper capsules, entries of a vector."
    check_shape("predictions", predictions, (None, None, None), fix)
    check_finite("predictions", predictions)
    return _route(predictions, check_count("num_steps", num_steps))


@partial(jax.jit, static_argnames="num_steps")
def _route(predictions: Array, num_steps: int) -> AgreementRouting:
    def step(carry, _):
        logits, _, _ = carry
        couplings = softmax(logits)
        outputs = squash((couplings[:, :, None] * predictions).sum(0))
        logits = logits + (predictions * outputs[None]).sum(-1)
        return (logits, outputs, couplings), couplings

    n, m, h = predictions.shape
    logits = jnp.zeros((n, m), predictions.dtype)
    found = run(step, (logits, jnp.zeros((m, h), predictions.dtype), logits), num_steps=num_steps)
    _, outputs, couplings = found.state
    return AgreementRouting(outputs, couplings, found.trace)
