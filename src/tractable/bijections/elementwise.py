r"""Elementwise maps: affine, exponential, logistic and their relatives, exact far into both tails.

Identity.    $y = f(x)$ entry by entry, with $\log|f'(x)|$ in the form that neither overflows nor cancels.
Used by.     bijections.support, bijections.coupling, distributions.transformed, location-scale and Gumbel
             draws as maps of noise.
Cost.        $O(1)$ per entry.
References.  Machler (2012), "Accurately computing log(1 - exp(-|a|))".
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.bijections.base import Inverse
from tractable.bijections.monotone import Elementwise
from tractable.core.checks import check, is_concrete, offender
from tractable.core.module import field
from tractable.core.numerics import inverse_softplus, log1mexp, log_sigmoid, logit, sigmoid, softplus
from tractable.core.support import Interval, Support, extended_real, positive, real, unit_interval
from tractable.core.types import Array, Float

__all__ = [
    "Affine", "Exp", "GumbelMap", "Identity", "Log", "Logit", "Negate", "NegativeLog", "OntoInterval",
    "Power", "Sigmoid", "Softplus", "Tanh",
]  # fmt: skip


class Identity(Elementwise):
    r"""$y = x$."""

    def _value(self, x):
        return x

    def _argument(self, y):
        return y

    def _log_slope(self, x):
        return jnp.zeros_like(x)

    @property
    def is_affine(self) -> bool:
        return True


class Negate(Elementwise):
    r"""$y = -x$."""

    def _value(self, x):
        return -x

    def _argument(self, y):
        return -y

    def _log_slope(self, x):
        return jnp.zeros_like(x)

    @property
    def increasing(self) -> bool:
        return False

    @property
    def is_affine(self) -> bool:
        return True


class Affine(Elementwise):
    r"""$y = \mathrm{loc} + \mathrm{scale}\, x$ for a scale that is not zero: the location-scale map, falling
    where the scale is negative.
    """

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=real, default=1.0)

    def __check_init__(self) -> None:
        _check_nonzero("scale", self.scale)

    def _value(self, x):
        return self.loc + self.scale * x

    def _argument(self, y):
        return (y - self.loc) / self.scale

    def _log_slope(self, x):
        return jnp.log(jnp.abs(self.scale))

    @property
    def increasing(self) -> Any:
        return self.scale > 0

    @property
    def is_affine(self) -> bool:
        return True


class Exp(Elementwise):
    r"""$y = e^x$, onto the positive numbers; $\log f' = x$."""

    def _value(self, x):
        return jnp.exp(x)

    def _argument(self, y):
        return jnp.log(y)

    def _log_slope(self, x):
        return x

    @property
    def codomain(self) -> Support:
        return positive

    @property
    def has_affine_log_det(self) -> bool:
        return True


class NegativeLog(Elementwise):
    r"""$y = -\log x$, falling: it takes a uniform number to a standard exponential one."""

    def _value(self, x):
        return -jnp.log(x)

    def _argument(self, y):
        return jnp.exp(-y)

    def _log_slope(self, x):
        return -jnp.log(x)

    def _inverse_log_slope(self, y):
        return -y

    @property
    def domain(self) -> Support:
        return positive

    @property
    def increasing(self) -> bool:
        return False


class Sigmoid(Elementwise):
    r"""$y = 1/(1 + e^{-x})$, with $\log f' = \log\sigma(x) + \log\sigma(-x)$."""

    def _value(self, x):
        return sigmoid(x)

    def _argument(self, y):
        return logit(y)

    def _log_slope(self, x):
        return log_sigmoid(x) + log_sigmoid(-x)

    def _inverse_log_slope(self, y):
        return -jnp.log(y) - jnp.log1p(-y)

    @property
    def codomain(self) -> Support:
        return unit_interval


class Softplus(Elementwise):
    r"""$y = \log(1 + e^x)$, onto the positive numbers; like $e^x$ far below zero and like $x$ far above."""

    def _value(self, x):
        return softplus(x)

    def _argument(self, y):
        return inverse_softplus(y)

    def _log_slope(self, x):
        return log_sigmoid(x)

    def _inverse_log_slope(self, y):
        return -log1mexp(y)

    @property
    def codomain(self) -> Support:
        return positive


class Tanh(Elementwise):
    r"""$y = \tanh x$, onto $(-1, 1)$; $\log f' = -2\log\cosh x = 2(\log 2 - x - \log(1 + e^{-2x}))$."""

    def _value(self, x):
        return jnp.tanh(x)

    def _argument(self, y):
        return jnp.arctanh(y)

    def _log_slope(self, x):
        return 2 * (math.log(2) - x - softplus(-2 * x))

    def _inverse_log_slope(self, y):
        return -jnp.log1p(-y) - jnp.log1p(y)

    @property
    def codomain(self) -> Support:
        return Interval(-1.0, 1.0)


class Power(Elementwise):
    r"""$y = x^p$ on the positive numbers, for an exponent $p$ that is not zero."""

    exponent: Float[Array, "..."] = field(support=real)

    def __check_init__(self) -> None:
        _check_nonzero("exponent", self.exponent)

    def _value(self, x):
        return x**self.exponent

    def _argument(self, y):
        return y ** (1 / self.exponent)

    def _log_slope(self, x):
        return jnp.log(jnp.abs(self.exponent)) + (self.exponent - 1) * jnp.log(x)

    def _inverse_log_slope(self, y):
        return -jnp.log(jnp.abs(self.exponent)) + (1 / self.exponent - 1) * jnp.log(y)

    @property
    def domain(self) -> Support:
        return positive

    @property
    def codomain(self) -> Support:
        return positive

    @property
    def increasing(self) -> Any:
        return self.exponent > 0


class GumbelMap(Elementwise):
    r"""$y = \mu - \beta\log(-\log u)$ with $\mu$ = `loc`, $\beta$ = `scale`: it takes a uniform number to a
    Gumbel one.
    """

    loc: Float[Array, "..."] = field(support=real, default=0.0)
    scale: Float[Array, "..."] = field(support=positive, default=1.0)

    def _value(self, x):
        return self.loc - self.scale * jnp.log(-jnp.log(x))

    def _argument(self, y):
        return jnp.exp(-jnp.exp(-(y - self.loc) / self.scale))

    def _log_slope(self, x):
        return jnp.log(self.scale) - jnp.log(x) - jnp.log(-jnp.log(x))

    def _inverse_log_slope(self, y):
        t = (y - self.loc) / self.scale
        return -jnp.log(self.scale) - t - jnp.exp(-t)

    @property
    def domain(self) -> Support:
        return unit_interval


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
                check(
                    False,
                    "low",
                    f"below `high` ({self.high})",
                    offender(np.broadcast_to(np.asarray(self.low), ok.shape), ok),
                )

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


class Log(Inverse):
    r"""$y = \log x$ for positive $x$."""

    def __init__(self):
        self.original = Exp()


class Logit(Inverse):
    r"""$y = \log x - \log(1 - x)$ for $x$ between 0 and 1."""

    def __init__(self):
        self.original = Sigmoid()


def _check_nonzero(name: str, value: Array) -> None:
    if is_concrete(value):
        ok = np.asarray(value) != 0
        if not ok.all():
            check(False, name, "different from zero", offender(value, ok))
