r"""Elementwise maps: affine, exponential, logistic and their relatives, exact far into both tails.

Identity.    $y = f(x)$ entry by entry, with $\log|f'(x)|$ in the form that neither overflows nor cancels.
Cost.        $O(1)$ per entry.
References.  Machler (2012), "Accurately computing log(1 - exp(-|a|))".
"""

import math
from typing import Any

import jax.numpy as jnp

from tractable.bijections.base import Inverse
from tractable.bijections.interval import OntoInterval
from tractable.bijections.monotone import Elementwise
from tractable.core.checks import check_entries
from tractable.core.module import field
from tractable.core.numerics import inverse_softplus, log1mexp, log_sigmoid, logit, sigmoid, softplus
from tractable.core.support import Interval, Support, positive, real, unit_interval
from tractable.core.types import Array, Float

__all__ = [
    "Affine", "Exp", "GumbelMap", "Identity", "Log", "Logit", "Negate", "NegativeLog",
    "OntoInterval", "Power", "Sigmoid", "Softplus", "Tanh",
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
    where the scale is negative."""

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
    Gumbel one."""

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


class Log(Inverse):
    r"""$y = \log x$ for positive $x$."""

    def __init__(self):
        self.original = Exp()


class Logit(Inverse):
    r"""$y = \log x - \log(1 - x)$ for $x$ between 0 and 1."""

    def __init__(self):
        self.original = Sigmoid()


def _check_nonzero(name: str, value: Array) -> None:
    check_entries(name, value, lambda v: v != 0, "different from zero")
