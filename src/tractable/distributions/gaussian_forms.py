r"""The Gaussian by its precision and by its information: what conditioning and multiplying make cheap.

Forms.       Precision: $N(\mu, \Lambda^{-1})$. Information: $\exp\{-\frac12 x^\top \Lambda x + h^\top x\}$.
Identity.    Completing the square: mean $\Lambda^{-1} h$, covariance $\Lambda^{-1}$, and the integral of
             $\exp\{-\frac12 x^\top \Lambda x + h^\top x\}$ is
             $\sqrt{(2\pi)^d |\Lambda^{-1}|}\, \exp\{\frac12 h^\top \Lambda^{-1} h\}$.
             Conditioning selects blocks: $\Lambda_{a|b} = \Lambda_{aa}$, which is not $\Sigma_{aa}^{-1}$.
             Marginals are Schur complements: $\Lambda_{aa} - \Lambda_{ab} \Lambda_{bb}^{-1} \Lambda_{ba}$ and
             $h_a - \Lambda_{ab} \Lambda_{bb}^{-1} h_b$.
Cost.        $O(d^3)$ for a factor; products and conditioning are additions.
References.  Bishop (2006) section 2.3; Koller and Friedman (2009) section 7.3.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import check, is_concrete
from tractable.core.factors import normal_log_density, positive_definite_factor, psd_inverse, schur_complement
from tractable.core.module import field
from tractable.core.support import Support, psd, real
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar, Shape
from tractable.distributions.base import Distribution
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_parts import Indices, as_indices, matched, one_unit, split_known

__all__ = [
    "GaussianInformation", "GaussianPrecision", "integrate_out", "log_integral", "to_covariance",
    "to_information", "to_precision",
]  # fmt: skip

_LOG_2PI = float(np.log(2 * np.pi))


class GaussianPrecision(Distribution):
    r"""$N(\mu, \Lambda^{-1})$ with $\mu$ = `mean`, $\Lambda$ = `precision`."""

    # The default hides the property `mean` of the base class; the constructor has none.
    mean: Float[Array, "..."] = field(support=real, rank=1, default=None)
    precision: Float[Array, "..."] = field(support=psd, default=None)

    def __init__(self, mean: Any, precision: Any):
        self.mean, self.precision = matched("mean", mean, "precision", precision)

    @property
    def unit_shape(self) -> Shape:
        return self.mean.shape[-1:]

    @property
    def support(self) -> Support:
        return real

    def _log_prob(self, x):
        factor = positive_definite_factor(self.precision)
        z = factor.lower.T @ (x - self.mean)
        return normal_log_density(z @ z, -factor.log_det(), x.size)

    def _sample(self, key: Key, n: int) -> Array:
        z = jr.normal(key, (self.mean.size, n), self.mean.dtype)
        lower = positive_definite_factor(self.precision).lower
        return self.mean[None] + jsl.solve_triangular(lower.T, z, lower=False).T

    def _variance(self):
        return jnp.diag(psd_inverse(self.precision))

    def _entropy(self):
        return 0.5 * (self.mean.size * (1 + _LOG_2PI) - positive_definite_factor(self.precision).log_det())

    def marginal(self, indices: Indices) -> "GaussianPrecision":
        r"""$x_a$ alone: $\Lambda_{aa} - \Lambda_{ab} \Lambda_{bb}^{-1} \Lambda_{ba}$, mean $\mu_a$."""
        one_unit(self)
        kept = as_indices("indices", indices, self.mean.size)
        reduced = integrate_out(self.precision, self.mean, kept, _others(kept, self.mean.size))[0]
        return GaussianPrecision(self.mean[kept], reduced)

    def conditional(self, indices_known: Indices, values: ArrayLike) -> "GaussianPrecision":
        r"""$x_a \mid x_b = v$: $\Lambda_{aa}$ and $\mu_a - \Lambda_{aa}^{-1} \Lambda_{ab} (v - \mu_b)$."""
        known, rest, given = split_known(self, indices_known, values)
        return _given(self, known, rest, given)


class GaussianInformation(Distribution):
    r"""$p(x) \propto \exp\{-\frac12 x^\top \Lambda x + h^\top x\}$, $\Lambda$ = `precision`, $h$ = `shift`.

    A singular precision is allowed: it states what is known about some directions, and products may complete
    it. Until then it has no density, and `log_prob`, `mean` and `log_integral` are NaN.

    >>> GaussianInformation([[4.0]], [2.0]).mean
    Array([0.5], dtype=float64)
    """

    precision: Float[Array, "..."] = field(support=psd)
    shift: Float[Array, "..."] = field(support=real, rank=1)

    def __init__(self, precision: Any, shift: Any):
        self.shift, self.precision = matched("shift", shift, "precision", precision)

    @property
    def unit_shape(self) -> Shape:
        return self.shift.shape[-1:]

    @property
    def support(self) -> Support:
        return real

    def _mean(self):
        return positive_definite_factor(self.precision).solve(self.shift)

    def _by_precision(self) -> GaussianPrecision:
        return GaussianPrecision(self._mean(), self.precision)

    def _log_prob(self, x):
        return self._by_precision()._log_prob(x)

    def _sample(self, key: Key, n: int) -> Array:
        return self._by_precision()._sample(key, n)

    def _variance(self):
        return self._by_precision()._variance()

    def _entropy(self):
        return self._by_precision()._entropy()

    def log_integral(self) -> Scalar:
        r"""$\log \int \exp\{-\frac12 x^\top \Lambda x + h^\top x\}\,dx$.

        It is $\frac12 (d \log 2\pi - \log|\Lambda| + h^\top \Lambda^{-1} h)$.
        """
        one_unit(self)
        return log_integral(self.precision, self.shift)

    def marginal(self, indices: Indices) -> "GaussianInformation":
        r"""The integral over all coordinates but `indices`: two Schur complements."""
        one_unit(self)
        kept = as_indices("indices", indices, self.shift.size)
        dropped = _others(kept, self.shift.size)
        return GaussianInformation(*integrate_out(self.precision, self.shift, kept, dropped)[:2])

    def conditional(self, indices_known: Indices, values: ArrayLike) -> "GaussianInformation":
        r"""$x_a \mid x_b = v$: $\Lambda_{aa}$ and $h_a - \Lambda_{ab} v$; no solve is needed."""
        known, rest, given = split_known(self, indices_known, values)
        block = self.precision[rest[:, None], rest]
        return GaussianInformation(block, self.shift[rest] - self.precision[rest[:, None], known] @ given)


def to_covariance(g: Gaussian | GaussianPrecision | GaussianInformation) -> Gaussian:
    """The same Gaussian by mean and covariance."""
    if isinstance(g, Gaussian):
        return g
    return Gaussian(g.mean, _inverse("precision", g.precision))


def to_precision(g: Gaussian | GaussianPrecision | GaussianInformation) -> GaussianPrecision:
    """The same Gaussian by mean and precision."""
    if isinstance(g, GaussianPrecision):
        return g
    return GaussianPrecision(g.mean, _inverse("cov", g.cov) if isinstance(g, Gaussian) else g.precision)


def to_information(g: Gaussian | GaussianPrecision | GaussianInformation) -> GaussianInformation:
    """The same Gaussian by precision and shift."""
    if isinstance(g, GaussianInformation):
        return g
    known = to_precision(g)
    return GaussianInformation(known.precision, jnp.einsum("...ij,...j->...i", known.precision, known.mean))


def _inverse(name: str, a: Array) -> Array:
    inverse = _inverses(a)
    if is_concrete(inverse):
        check(bool(np.isfinite(inverse).all()), name, "positive definite, to have an inverse", np.asarray(a))
    return inverse


_inverses = jax.jit(jnp.vectorize(psd_inverse, signature="(d,d)->(d,d)"))


@jax.jit
def log_integral(precision: Array, shift: Array) -> Scalar:
    everything, none = np.arange(shift.size), np.zeros(0, int)
    return integrate_out(precision, shift, none, everything)[2]


@jax.jit
def _given(g: GaussianPrecision, known: Array, rest: Array, values: Array) -> GaussianPrecision:
    block = g.precision[rest[:, None], rest[None]]
    force = g.precision[rest[:, None], known[None]] @ (values - g.mean[known])
    return GaussianPrecision(g.mean[rest] - positive_definite_factor(block).solve(force), block)


@jax.jit
def integrate_out(precision: Array, shift: Array, kept: Array, dropped: Array) -> tuple[Array, Array, Scalar]:
    """Precision and shift of the coordinates `kept` after those `dropped` are integrated out, and the
    log-integral over these at zero of the others."""
    block, rest = precision[kept[:, None], kept[None]], shift[kept]
    if dropped.size == 0:
        return block, rest, jnp.zeros((), shift.dtype)
    cross = precision[dropped[:, None], kept[None]]
    factor = positive_definite_factor(precision[dropped[:, None], dropped[None]])
    z = factor.half_solve(shift[dropped])
    inner = normal_log_density(-z @ z, factor.log_det(), -dropped.size)
    return schur_complement(block, cross, factor), rest - factor.half_solve(cross).T @ z, inner


def _others(kept: np.ndarray, size: int) -> np.ndarray:
    return np.setdiff1d(np.arange(size), kept)
