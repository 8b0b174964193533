r"""`Flat`: an unknown about which nothing is said beforehand, every value as likely as any other.

Density.     One everywhere in the support: no probability, since it has no total. The posterior may be
             improper too, and evidences cannot be compared.
Draws.       There are none before data.
Cost.        None.
"""

from typing import Any

import jax.numpy as jnp

from tractable.core.module import field
from tractable.core.support import Support, as_support, real
from tractable.core.types import Array, Key, Scalar, Shape
from tractable.distributions.base import Distribution

__all__ = ["Flat"]


class Flat(Distribution):
    """No prior: `sample("mean", Flat())`, `sample("means", Flat("ordered", (3,)))`."""

    _support: Support = field(static=True)
    _shape: Shape = field(static=True)

    def __init__(self, support: Support | str = real, shape: Shape = ()):
        self._support, self._shape = as_support("support", support), tuple(shape)

    @property
    def unit_shape(self) -> Shape:
        return self._shape

    @property
    def support(self) -> Support:
        return self._support

    def expand(self, shape: Shape) -> "Flat":
        return Flat(self._support, tuple(shape) + self._shape)

    def _log_prob(self, x: Array) -> Scalar:
        return jnp.zeros(())

    def _sample(self, key: Key, n: Any) -> Array:
        raise ValueError("`Flat` must be given a value: it says nothing of its draws. Give the site a prior.")
