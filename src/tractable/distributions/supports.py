r"""Supports of vectors of counts and of positive definite matrices.

Sets.        Counts of $k$ kinds that sum to $n$; symmetric $A$ with $v^\top A v > 0$ for $v \ne 0$.
Cost.        Elementwise; one symmetric eigendecomposition for a matrix.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.support import PositiveSemidefinite, Support, counts
from tractable.core.types import ArrayLike

__all__ = ["CountVector", "PositiveDefinite", "positive_definite"]


class CountVector(Support):
    r"""$\{m \in \{0, 1, \dots\}^k : \sum_i m_i = n\}$, $n$ = `total`; floats may hold them."""

    total: ArrayLike
    ndim: ClassVar[int] = 1
    discrete: ClassVar[bool] = True

    @property
    def words(self) -> str:
        return f"whole numbers from zero up that sum to `total` = {self.total} along the last axis"

    def contains(self, x):
        xp = jnp if isinstance(x, jax.Array) else np
        return xp.asarray(counts.contains(x)).all(-1) & (xp.asarray(x).sum(-1) == self.total)

    def interior(self, like):
        xp = jnp if isinstance(like, jax.Array) else np
        first = xp.broadcast_to(xp.arange(np.shape(like)[-1]) == 0, np.shape(like))
        return xp.where(first, xp.expand_dims(xp.asarray(self.total), -1), 0.0)


class PositiveDefinite(PositiveSemidefinite):
    r"""Symmetric $A$ with $v^\top A v > 0$, judged after scaling to a unit diagonal: units do not matter."""

    @property
    def words(self) -> str:
        return "a symmetric positive definite matrix"

    def contains(self, x):
        xp = jnp if isinstance(x, jax.Array) else np
        x = xp.asarray(x)
        d = x.shape[-1] if x.ndim else 0
        if x.ndim < 2 or x.shape[-2] != d:
            return xp.zeros(x.shape[:-2], bool)
        usable: Any = xp.isfinite(x).all((-1, -2)) & (xp.diagonal(x, axis1=-2, axis2=-1) > 0).all(-1)
        x = xp.where(usable[..., None, None], x, xp.broadcast_to(xp.eye(d, dtype=x.dtype), x.shape))
        root = xp.sqrt(xp.diagonal(x, axis1=-2, axis2=-1))
        unit = x / root[..., :, None] / root[..., None, :]
        rounding = d * (d + 1) * float(xp.finfo(x.dtype).eps)  # above it a Cholesky factor is sure to exist
        symmetric = (abs(unit - unit.swapaxes(-1, -2)) <= max(1e-8, rounding)).all((-1, -2))
        return usable & symmetric & (xp.linalg.eigvalsh(unit) > rounding).all(-1)


positive_definite = PositiveDefinite()
