r"""Where a guide begins on many data: at the mode of one batch, in units of its widths.

Place.       $u = c + s \odot v$ with $c$ the mode of the density of one batch, counted as the whole, and
             $s_i^2 = (H^{-1})_{ii}$ its widths there. A posterior of a million rows is a thousand times
             narrower than its prior; in $v$ it is about as wide as one, so that one step size fits all.
Cost.        A search and a Hessian on one batch.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import Rebuild
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Scalar
from tractable.optim.minimise import minimise
from tractable.programs.batches import BatchDensity

__all__ = ["placed"]

_DENSE = 300  # free numbers, beyond which no Hessian is made


def placed(
    density: BatchDensity, rebuild: Rebuild, free: Array, params: Mapping[str, Array], rows: Array
) -> tuple[Array, Array]:
    """The centre and the widths of the density of one batch in free numbers."""
    args = (density, rebuild, dict(params), rows)
    found = minimise(_Negative(), free, args=args, max_steps=100, curvature=False)
    centre = found.state if bool(jnp.isfinite(found.state).all()) else free
    if free.size > _DENSE:
        return centre, jnp.ones_like(free)
    curvature = np.asarray(_hessian(centre, *args))
    if not np.isfinite(curvature).all():
        return free, jnp.ones_like(free)
    values, vectors = np.linalg.eigh(curvature)
    if values[0] > 1e-10 * abs(values[-1]):
        variances = (vectors**2 / values[None]).sum(1)
    else:  # flat or falling in some direction: each coordinate by itself, where it curves at all
        own = np.diag(curvature)
        variances = np.where(own > 0, 1 / np.where(own > 0, own, 1.0), 1.0)
    return centre, jnp.asarray(np.sqrt(variances))


class _Negative(Module):
    def __call__(
        self, free: Array, density: BatchDensity, rebuild: Rebuild, params: dict[str, Any], rows: Array
    ) -> Scalar:
        latents, log_det = rebuild(free)
        return -density(params, latents, rows) - log_det


@program
def _hessian(free: Array, density: Any, rebuild: Rebuild, params: dict, rows: Array) -> Array:
    return jax.hessian(lambda u: _Negative()(u, density, rebuild, params, rows))(free)
