r"""A distribution seen through a bijection: the change of variables.

Identity.    $y = f(x)$ with $x \sim p$: $\log p_Y(y) = \log p(f^{-1}(y)) + \log|\det\partial f^{-1}/\partial
             y|$. For one number and a rising $f$, $F_Y(y) = F_X(f^{-1}(y))$; for a falling one, $F_Y(y) = 1 -
             F_X(f^{-1}(y))$.
Entropy.     $H[y] = H[x] + E[\log|\det\partial f/\partial x|]$, in closed form where the log-determinant is
             affine in $x$.
Cost.        One pass of the bijection and one density of the base.
References.  Papamakarios et al. (2021), section 2.
"""

from functools import partial

import jax
import jax.numpy as jnp

from tractable.bijections.base import Bijection, Image
from tractable.bijections.monotone import ends
from tractable.core.checks import check
from tractable.core.support import Support
from tractable.core.types import Array, ArrayLike, Shape
from tractable.distributions.base import Distribution, Univariate

__all__ = ["Transformed"]


class Transformed(Distribution):
    r"""The distribution of `bijection.forward(x)` for $x$ drawn from `base`, a density.

    >>> from tractable.bijections.elementwise import Exp
    >>> from tractable.distributions.continuous import Normal
    >>> round(float(Transformed(Normal(0.0, 1.0), Exp()).log_prob(1.0)), 6)  # the standard lognormal
    -0.918939

    A map onto a lower-dimensional set (the simplex, covariances) gives a density in that set's free
    coordinates.
    """

    base: Distribution
    bijection: Bijection

    def __check_init__(self) -> None:
        super().__check_init__()
        got, fix = (
            f"{type(self.base).__name__}, which has masses",
            "Map the values of a discrete base by hand.",
        )
        check(not self.base.discrete, "base", "a density", got, fix, TypeError)
        try:
            _image_shape(self)
        except (ValueError, TypeError) as error:
            shape = self.base.shape
            raise ValueError(
                f"`bijection` must take draws of `base`, of shape {shape}; got this: {error}"
            ) from error

    @property
    def unit_shape(self) -> Shape:
        return self.base.shape if self.bijection.increasing is not None else _image_shape(self)

    @property
    def support(self) -> Support:
        found = self.bijection.image(self.base.support)
        if isinstance(found, Image):  # judged for a whole draw, by going all the way back
            return Image(self.base.support, self.bijection, len(self.unit_shape))
        return found

    def _log_prob(self, x):
        original, log_det = self.bijection.inverse_and_log_det(x)
        value = self.base.log_prob(original)
        impossible = (
            value == -jnp.inf
        )  # an open end of the support: the log-determinant there may be infinite too
        return jnp.where(impossible, -jnp.inf, value + jnp.where(impossible, 0.0, log_det))

    def _sample(self, key, n):
        return jax.vmap(self.bijection.forward)(self.base.sample(key, (n,)))

    def _mean(self):
        if not self.bijection.is_affine:
            raise self._missing("mean")
        return self.bijection.forward(self.base.mean)

    def _variance(self):
        entrywise = self.bijection.increasing is not None
        if not (self.bijection.is_affine and (entrywise or isinstance(self.base, Univariate))):
            raise self._missing("variance")
        # A base of independent numbers has the covariance diag(v), and the map A takes it to A diag(v) A^T.
        variance = jnp.broadcast_to(self.base.variance, self.base.shape)
        slopes = jax.jacfwd(self.bijection.forward)(jnp.zeros_like(variance))
        return jnp.tensordot(slopes**2, variance, variance.ndim)

    def _entropy(self):
        if not self.bijection.has_affine_log_det:
            raise self._missing("entropy")
        # A constant log-determinant needs no mean, which the base may not have.
        point = jnp.zeros(self.base.shape) if self.bijection.is_affine else self.base.mean
        return self.base.entropy() + self.bijection.forward_and_log_det(point)[1]

    def cdf(self, x: ArrayLike) -> Array:
        r"""$P(Y \le y)$ for each coordinate, where the map takes each number by itself."""
        return self._tail(x, "cdf", "survival", 0.0, 1.0)

    def survival(self, x: ArrayLike) -> Array:
        r"""$P(Y > y)$ for each coordinate, exact where `1 - cdf(x)` has lost its digits."""
        return self._tail(x, "survival", "cdf", 1.0, 0.0)

    def log_cdf(self, x: ArrayLike) -> Array:
        r"""$\log P(Y \le y)$ for each coordinate."""
        return self._tail(x, "log_cdf", "log_survival", -jnp.inf, 0.0)

    def log_survival(self, x: ArrayLike) -> Array:
        r"""$\log P(Y > y)$ for each coordinate."""
        return self._tail(x, "log_survival", "log_cdf", 0.0, -jnp.inf)

    def icdf(self, p: ArrayLike) -> Array:
        r"""The quantile of each coordinate; NaN where `p` is not in [0, 1]."""
        return self._quantile("p", p, "icdf", "inverse_survival")

    def inverse_survival(self, q: ArrayLike) -> Array:
        r"""The number that each coordinate exceeds with probability `q`; NaN where `q` is not in [0, 1]."""
        return self._quantile("q", q, "inverse_survival", "icdf")

    def _tail(self, x: ArrayLike, rising: str, falling: str, below: float, above: float) -> Array:
        self._check_monotone(rising)
        return _tail(self, self._coordinates("x", x), rising, falling, below, above)

    def _quantile(self, name: str, p: ArrayLike, rising: str, falling: str) -> Array:
        self._check_monotone(rising)
        return _quantile(self, self._coordinates(name, p), rising, falling)

    def _check_monotone(self, what: str) -> None:
        if self.bijection.increasing is None or not hasattr(self.base, what):
            raise self._missing(f"`{what}`")


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _tail(
    distribution: Transformed, x: Array, rising: str, falling: str, below: float, above: float
) -> Array:
    support = distribution.support
    found = ends(support)
    low, high = (-jnp.inf, jnp.inf) if found is None else (found.low, found.high)
    is_below, is_above = x <= jnp.broadcast_to(low, x.shape), x >= jnp.broadcast_to(high, x.shape)
    outside = is_below | is_above | jnp.isnan(x)
    original = distribution.bijection.inverse(jnp.where(outside, support.interior(x), x))
    values = _by_direction(distribution, original, rising, falling)
    return jnp.where(is_below, below, jnp.where(is_above, above, jnp.where(outside, jnp.nan, values)))


@partial(jax.jit, static_argnums=(2, 3))
def _quantile(distribution: Transformed, p: Array, rising: str, falling: str) -> Array:
    return distribution.bijection.forward(_by_direction(distribution, p, rising, falling))


def _by_direction(distribution: Transformed, x: Array, rising: str, falling: str) -> Array:
    """The base's function of `x`: one where the map rises, the one of the other tail where it falls."""
    base, rises = distribution.base, distribution.bijection.increasing
    if isinstance(rises, bool):
        return getattr(base, rising if rises else falling)(x)
    return jnp.where(jnp.broadcast_to(rises, x.shape), getattr(base, rising)(x), getattr(base, falling)(x))


def _image_shape(distribution: Transformed) -> Shape:
    draw = jax.ShapeDtypeStruct(distribution.base.shape, jnp.result_type(float))
    return jax.eval_shape(distribution.bijection.forward, draw).shape
