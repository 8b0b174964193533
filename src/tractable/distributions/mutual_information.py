r"""Mutual information of a joint array and of jointly Gaussian blocks.

Identity.    $I(X; Y \mid Z) = E[\log p(x, y, z)\,p(z) / (p(x, z)\,p(y, z))]$, the mean of the pointwise
             information, equal to $H(X \mid Z) - H(X \mid Y, Z)$ and to the divergence of the joint from the
             product of its margins.
Cost.        Linear in cells; one Cholesky for each Gaussian block.
References.  Cover and Thomas (2006) chapters 2 and 8.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, is_concrete, offender
from tractable.core.linalg import log_det
from tractable.core.numerics import safe_log
from tractable.core.support import psd
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.information import AxisNumbers, Base, Numbers, as_axes, as_probabilities, in_base

__all__ = ["gaussian_mutual_information", "mutual_information", "pointwise_mutual_information"]


def mutual_information(
    joint: Numbers,
    first: AxisNumbers = 0,
    second: AxisNumbers = 1,
    given: AxisNumbers = (),
    base: Base = None,
) -> Scalar:
    r"""$I(X; Y \mid Z)$ with $X$, $Y$, $Z$ on these axes of a joint array, other axes summed out.

    Zero when $X$ and $Y$ are independent given $Z$, up to rounding, which may leave a number like
    $-10^{-17}$.

    >>> float(mutual_information([[0.5, 0.0], [0.0, 0.5]], base=2))
    1.0
    """
    p = _three_blocks(as_probabilities("joint", joint), first, second, given)
    return in_base(_mean_pointwise(p), base)


def pointwise_mutual_information(joint: Numbers, base: Base = None) -> Float[Array, "x y"]:
    r"""$\log p(x, y) - \log p(x)\,p(y)$ per cell: $-\infty$ for an impossible pair, NaN for a value."""
    p = as_probabilities("joint", joint)
    check(p.ndim == 2, "joint", "an array with two axes", f"shape {p.shape}")
    return in_base(_pointwise(p[:, :, None])[:, :, 0], base)


def gaussian_mutual_information(
    cov: Numbers,
    first: AxisNumbers = 0,
    second: AxisNumbers = 1,
    given: AxisNumbers = (),
    base: Base = None,
) -> Scalar:
    r"""$I(X; Y \mid Z) = \frac12 \log |\Sigma_{xz}| |\Sigma_{yz}| / |\Sigma_{xyz}| |\Sigma_z|$ for Gaussians.

    For two numbers with correlation $\rho$ this is $-\frac12 \log(1 - \rho^2)$.

    >>> round(float(gaussian_mutual_information([[1.0, 0.9], [0.9, 1.0]])), 7)
    0.8303656
    """
    sigma = as_float("cov", cov)
    check(sigma.ndim == 2, "cov", "a square matrix", f"shape {sigma.shape}")
    if is_concrete(sigma):
        values = np.asarray(sigma)
        regular = bool(psd.contains(values)) and np.linalg.matrix_rank(values, hermitian=True) == len(values)
        fix = "Where one variable determines another, the information is infinite."
        check(regular, "cov", "a symmetric positive definite matrix", offender(values, regular), fix)
    return in_base(_gaussian(sigma, *_three_axes(first, second, given, len(sigma))), base)


@jax.jit
def _mean_pointwise(p: Float[Array, "x y z"]) -> Scalar:
    return (p * jnp.where(p == 0, 0.0, _pointwise(p))).sum()


def _pointwise(p: Float[Array, "x y z"]) -> Float[Array, "x y z"]:
    """The information in each pair given the third block."""
    p_xz, p_yz, p_z = p.sum(1, keepdims=True), p.sum(0, keepdims=True), p.sum((0, 1), keepdims=True)
    return safe_log(p) + safe_log(p_z) - safe_log(p_xz) - safe_log(p_yz)


@partial(jax.jit, static_argnums=(1, 2, 3))
def _gaussian(cov: Array, x: tuple[int, ...], y: tuple[int, ...], z: tuple[int, ...]) -> Scalar:
    def block(axes):
        return log_det(cov[np.ix_(axes, axes)]) if axes else jnp.zeros((), cov.dtype)

    return 0.5 * (block(x + z) + block(y + z) - block(x + y + z) - block(z))


def _three_axes(
    first: AxisNumbers, second: AxisNumbers, given: AxisNumbers, ndim: int
) -> tuple[tuple[int, ...], ...]:
    named = {"first": first, "second": second, "given": given}
    chosen = {name: as_axes(name, axes, ndim) for name, axes in named.items()}
    together = sum(chosen.values(), ())
    check(len(set(together)) == len(together), "first, second, given", "without a common axis", chosen)
    check(bool(chosen["first"] and chosen["second"]), "first, second", "at least one axis each", chosen)
    return tuple(chosen.values())


def _three_blocks(
    p: Array, first: AxisNumbers, second: AxisNumbers, given: AxisNumbers
) -> Float[Array, "x y z"]:
    """The joint of three blocks of axes, each block flattened, the rest summed out."""
    blocks = _three_axes(first, second, given, p.ndim)
    sizes = [int(np.prod([p.shape[i] for i in block], dtype=int)) for block in blocks]
    return jnp.einsum(p, list(range(p.ndim)), list(sum(blocks, ()))).reshape(sizes)
