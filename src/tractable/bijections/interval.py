r"""The real line onto an interval whose ends may be infinite, and may depend on parameters.

Map.         Both ends finite: $y = a + (b - a)\,\sigma(x)$. Only $a$: $y = a + e^x$. Only $b$: $y = b -
             e^{-x}$. Neither: $y = x$.
Cost.        $O(1)$ per entry.
"""

import jax.numpy as jnp
import numpy as np

from tractable.bijections.monotone import Elementwise
from tractable.core.checks import check, is_concrete, offender
from tractable.core.module import field
from tractable.core.numerics import log_sigmoid, sigmoid
from tractable.core.support import Interval, Support, extended_real
from tractable.core.types import Array, Float

__all__ = ["OntoInterval"]


class OntoInterval(Elementwise):
    r"""The real line onto the inside of $[a, b]$, rising; either end may be infinite.

    Both ends finite: $y = a + (b - a)\,\sigma(x)$, measured from the nearer end. Only $a$: $y = a + e^x$.
    Only $b$: $y = b - e^{-x}$. Neither: $y = x$. The ends are arrays, so they may depend on other parameters.
    """

    low: Float[Array, "..."] = field(support=extended_real, default=0.0)
    high: Float[Array, "..."] = field(support=extended_real, default=1.0)

    def __check_init__(self) -> None:
        if is_concrete(self.low) and is_concrete(self.high):
            ok = np.asarray(self.low) < np.asarray(self.high)
            if not ok.all():
                got = offender(np.broadcast_to(np.asarray(self.low), ok.shape), ok)
                check(False, "low", f"below `high` ({self.high})", got)

    def _value(self, x):
        low, high, below, above = self._finite_ends()
        both, start, stop = below & above, below & ~above, ~below & above
        width = jnp.where(both, high - low, 1.0)
        inside = jnp.where(x < 0, low + width * sigmoid(x), high - width * sigmoid(-x))
        one_sided = jnp.where(
            start, low + jnp.exp(jnp.where(start, x, 0.0)), high - jnp.exp(jnp.where(stop, -x, 0.0))
        )
        return jnp.where(both, inside, jnp.where(start | stop, one_sided, x))

    def _log_slope(self, x):
        low, high, below, above = self._finite_ends()
        both = below & above
        inside = jnp.log(jnp.where(both, high - low, 1.0)) + log_sigmoid(x) + log_sigmoid(-x)
        return jnp.where(both, inside, jnp.where(below, x, jnp.where(above, -x, 0.0)))

    def _argument(self, y):
        from_low, from_high, _ = self._log_distances(y)
        return jnp.where(self._bounded(), from_low - from_high, y)

    def _inverse_log_slope(self, y):
        from_low, from_high, log_width = self._log_distances(y)
        return log_width - from_low - from_high

    @property
    def codomain(self) -> Support:
        return Interval(self.low, self.high)

    def _bounded(self) -> Array:
        return jnp.isfinite(self.low) | jnp.isfinite(self.high)

    def _finite_ends(self) -> tuple[Array, Array, Array, Array]:
        below, above = jnp.isfinite(self.low), jnp.isfinite(self.high)
        return jnp.where(below, self.low, 0.0), jnp.where(above, self.high, 0.0), below, above

    def _log_distances(self, y: Array) -> tuple[Array, Array, Array]:
        """Logarithms of the distances to the two ends and between them, zero for an end that is not there."""
        low, high, below, above = self._finite_ends()
        from_low = jnp.log(jnp.where(below, y - low, 1.0))
        from_high = jnp.log(jnp.where(above, high - y, 1.0))
        return from_low, from_high, jnp.log(jnp.where(below & above, high - low, 1.0))
