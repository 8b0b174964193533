r"""A number with how it was computed and how far it may be off: what every inexact answer is returned as.

Error.       The standard error of the mean for draws; an estimate of the absolute error for `quadrature` and
             `sum`;
             zero for `closed_form`.
Cost.        None.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import is_concrete
from tractable.core.module import Module
from tractable.core.types import Array, Float

__all__ = ["Estimate"]

_EXACT = ("quadrature", "sum", "closed_form")  # methods whose error is not one of chance


class Estimate(Module):
    """A number (or an array of them), the error of each, and the method that gave them."""

    value: Float[Array, "..."]
    standard_error: Float[Array, "..."]
    method: str = eqx.field(static=True, default="monte_carlo", kw_only=True)

    @property
    def certified(self) -> Array:
        r"""Whether the error is below $\sqrt{\mathrm{eps}}\,(1 + |\mathrm{value}|)$; never for draws."""
        small = self.standard_error <= jnp.sqrt(jnp.finfo(self.value.dtype).eps) * (1 + jnp.abs(self.value))
        return small if self.method in _EXACT else jnp.zeros(jnp.shape(self.value), bool)

    def interval(self, width: float | int = 2.0) -> tuple[Array, Array]:
        """The values `width` errors below and above."""
        return self.value - width * self.standard_error, self.value + width * self.standard_error

    def __repr__(self) -> str:
        if not is_concrete(self.value):
            return f"Estimate({self.method})"
        if np.ndim(self.value) > 0:
            return f"{np.asarray(self.value)} ± {np.asarray(self.standard_error)}"
        value, error = float(self.value), float(self.standard_error)
        if self.method in _EXACT:
            return f"{value:.9g} ± {error:.1e} ({self.method})"
        return f"{value:.6g} ± {error:.2g}"
