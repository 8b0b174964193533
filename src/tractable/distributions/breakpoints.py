r"""Points that resolve where a distribution of one number puts its mass, for panels of quadrature.

Points.      Quantiles whose probabilities fall by factors of two and then of four down to rounding. Families
             whose quantiles take long to compile (Student's t, Gamma, Beta, von Mises) give points with the
             same spacing from their parameters: towards an end where the density behaves as $x^{a-1}$, by
             factors of $4^{1/a}$. A mixture has the points of all its components, an image those of its base.
Cost.        Fifty to a hundred points.
"""

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.types import Array
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.bounded import Beta
from tractable.distributions.circular import VonMises
from tractable.distributions.continuous import StudentT
from tractable.distributions.gamma import ChiSquared, Gamma, InverseGamma
from tractable.distributions.mixture import Mixture
from tractable.distributions.transformed import Transformed

__all__ = ["breakpoints", "num_levels", "real_dtype", "tail_levels"]

_SPREAD = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 128, 256])
_AROUND = np.concatenate([-_SPREAD[::-1], [0.0], _SPREAD])


@singledispatch
def breakpoints(distribution: Distribution) -> Array:
    """Where to cut the line for a density of one number; points may repeat, and need no order."""
    return distribution.mean + distribution.std * jnp.asarray(_AROUND)


@breakpoints.register
def _(distribution: Univariate) -> Array:
    if type(distribution)._icdf is Univariate._icdf:
        return breakpoints.dispatch(Distribution)(distribution)
    tail = tail_levels(real_dtype(distribution))
    return jnp.concatenate([distribution.icdf(tail), distribution.inverse_survival(tail)])


@breakpoints.register
def _(distribution: Mixture) -> Array:
    return jax.vmap(breakpoints)(distribution.components).reshape(-1)


@breakpoints.register
def _(distribution: Transformed) -> Array:
    return distribution.bijection.forward(breakpoints(distribution.base))


@breakpoints.register
def _(distribution: StudentT) -> Array:
    dtype = real_dtype(distribution)
    light, heavy = jnp.asarray(_AROUND[8:-8], dtype), 1 / tail_levels(dtype) ** (1 / distribution.degrees)
    return distribution.loc + distribution.scale * jnp.concatenate([light, 6 * heavy, -6 * heavy])


@breakpoints.register
def _(distribution: Gamma) -> Array:
    return _gamma_points(distribution.concentration, distribution.rate)


@breakpoints.register
def _(distribution: ChiSquared) -> Array:
    return _gamma_points(distribution.degrees / 2, jnp.full_like(distribution.degrees, 0.5))


@breakpoints.register
def _(distribution: InverseGamma) -> Array:
    return 1 / _gamma_points(distribution.concentration, distribution.scale)


@breakpoints.register
def _(distribution: Beta) -> Array:
    a, b = distribution.a, distribution.b
    mean, std = distribution.mean, distribution.std
    around = mean + std * jnp.asarray(_AROUND, mean.dtype)
    inside = jnp.where((around > 0) & (around < 1), around, mean)
    return jnp.concatenate([inside, mean * _towards_end(a), 1 - (1 - mean) * _towards_end(b)])


@breakpoints.register
def _(distribution: VonMises) -> Array:
    width = 1 / jnp.sqrt(1 + distribution.concentration)
    around = distribution.loc + width * jnp.asarray(_AROUND, width.dtype)
    around = jnp.where(jnp.abs(around - distribution.loc) < jnp.pi, around, distribution.loc)
    wrapped = jnp.mod(around + jnp.pi, 2 * jnp.pi) - jnp.pi
    return jnp.concatenate([wrapped, jnp.linspace(-3.0, 3.0, 13, dtype=width.dtype)])


def real_dtype(distribution: Distribution) -> Any:
    """The type of floats in which a distribution's densities are computed."""
    return jnp.result_type(float, *[leaf.dtype for leaf in jax.tree.leaves(distribution)])


def num_levels(dtype: Any) -> int:
    """How often a probability can be quartered before it is lost beside 1."""
    return int(jnp.finfo(dtype).nmant) // 2 - 1


def tail_levels(dtype: Any, count: int | None = None) -> Array:
    """Probabilities from one half down, by factors of two, then of four, to where they are lost beside 1."""
    exponents = np.r_[1, 3, np.arange(2, 2 * (count or num_levels(dtype)), 2)]
    return jnp.asarray(0.5 ** np.sort(exponents), dtype)


def _towards_end(power: Array) -> Array:
    r"""Factors below 1 that divide a mass proportional to $x^a$ by four each time, and never $x$ by less."""
    steps = jnp.arange(1, num_levels(power.dtype) + 2, dtype=power.dtype)
    return jnp.exp(-steps * np.log(4.0) / jnp.minimum(power, 1.0))


def _gamma_points(concentration: Array, rate: Array) -> Array:
    mean, std = concentration / rate, jnp.sqrt(concentration) / rate
    around = mean + std * jnp.asarray(_AROUND, mean.dtype)
    tail = mean + jnp.asarray([0.5, 1, 2, 4, 8, 12, 16, 24, 32, 40], mean.dtype) / rate
    return jnp.concatenate([jnp.where(around > 0, around, mean), tail, mean * _towards_end(concentration)])
