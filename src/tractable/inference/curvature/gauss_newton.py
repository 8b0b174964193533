r"""The generalised Gauss-Newton precision of a network or any other model with a convex loss per output.

Matrix.      For $-\log p(y \mid x, \theta) = \ell(f(\theta, x), y)$ and a Gaussian prior of precision
             $\delta$, $A = \sum_n J_n^\top H_n J_n + \delta I$ with
             $J_n = \partial f(\theta, x_n)/\partial\theta$ and $H_n = \partial^2 \ell/\partial f^2$. It is
             the Hessian of the model made linear in $\theta$: positive definite wherever $\ell$ is convex,
             even where the Hessian itself is not.
Exact.       Equal to the Hessian for models linear in $\theta$, and where all residuals vanish.
Cost.        $n m$ reverse passes for $m$ outputs, then $O(n m p^2)$ for $p$ parameters.
References.  Schraudolph (2002); Martens (2020); Immer, Korzepa and Bauer (2021).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tractable.core.checks import as_float, check, check_length
from tractable.core.linalg import symmetrise
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.support import nonnegative
from tractable.core.types import Array, ArrayLike, Float, PyTree, Scalar
from tractable.inference.curvature.precision import DensePrecision

__all__ = ["GaussNewtonCurvature", "ggn", "ggn_curvature", "ggn_diagonal"]

Model = Callable[[Any, Array], Array]
Loss = Callable[[Array, Array], Scalar]


class GaussNewtonCurvature(Module):
    """What `laplace(curvature=...)` calls with the parameters at the mode, the inputs and the targets."""

    model: Model
    loss: Loss
    prior_precision: Float[Array, ""] = field(support=nonnegative)

    def __call__(self, parameters: PyTree, inputs: Array, targets: Array) -> DensePrecision:
        matrix = ggn(self.model, self.loss, parameters, inputs, targets)
        return DensePrecision.of(matrix + self.prior_precision * jnp.eye(len(matrix), dtype=matrix.dtype))


def ggn_curvature(model: Model, loss: Loss, prior_precision: ArrayLike = 0.0) -> GaussNewtonCurvature:
    """The Gauss-Newton precision of `model(parameters, x)` under `loss(output, y)`, for `laplace`.

    The log-density that goes with it is minus the sum of the losses, minus half of `prior_precision` times
    the squared parameters, as a function of `(parameters, inputs, targets)`.
    """
    return GaussNewtonCurvature(model, loss, as_float("prior_precision", prior_precision))


def ggn(
    model: Model, loss: Loss, parameters: PyTree, inputs: ArrayLike, targets: ArrayLike
) -> Float[Array, "p p"]:
    r"""$\sum_n J_n^\top H_n J_n$ over the flattened `parameters`; each row is one example.

    >>> rows, targets = jnp.array([[1.0, 2.0], [0.0, 1.0]]), jnp.zeros(2)
    >>> ggn(lambda w, x: w @ x, lambda f, y: 0.5 * (f - y) ** 2, jnp.ones(2), rows, targets).tolist()
    [[1.0, 2.0], [2.0, 5.0]]
    """
    inputs, targets = jnp.asarray(inputs), jnp.asarray(targets)
    check(inputs.ndim >= 1, "inputs", "an array with one row per example", f"shape {inputs.shape}")
    check_length("targets", targets, "inputs", inputs)
    return _ggn(model, loss, parameters, inputs, targets)


@program
def _ggn(model: Model, loss: Loss, parameters: PyTree, inputs: Array, targets: Array) -> Array:
    jacobians, curvatures = _linearised(model, loss, parameters, inputs, targets)
    left = jnp.einsum("nop,noq->nqp", jacobians, curvatures)
    size = jacobians.shape[-1]
    return symmetrise(left.reshape((-1, size)).T @ jacobians.reshape((-1, size)))


@program
def ggn_diagonal(
    model: Model, loss: Loss, parameters: PyTree, inputs: Array, targets: Array
) -> Float[Array, " p"]:
    """The diagonal of `ggn`, without the matrix."""
    jacobians, curvatures = _linearised(model, loss, parameters, inputs, targets)
    return jnp.einsum("nop,noq,nqp->p", jacobians, curvatures, jacobians)


def _linearised(
    model: Model, loss: Loss, parameters: PyTree, inputs: Array, targets: Array
) -> tuple[Float[Array, "n o p"], Float[Array, "n o o"]]:
    """The Jacobian of each example and the Hessian of its loss."""
    flat, unravel = ravel_pytree(parameters)

    def outputs(u, x):
        return jnp.ravel(model(unravel(u), x))

    def example(x, y):
        output = model(unravel(flat), x)
        curvature = jax.hessian(lambda f: loss(f.reshape(jnp.shape(output)), y))(jnp.ravel(output))
        return jax.jacrev(outputs)(flat, x), curvature

    return jax.vmap(example)(inputs, targets)
