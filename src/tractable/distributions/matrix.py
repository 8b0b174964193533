r"""Gaussian matrices, and the factors of random correlations; the Wishart pair is re-exported here.

Model.       Matrix normal: $\mathrm{Cov}[X_{ij}, X_{kl}] = U_{ik} V_{jl}$. LKJ: $p(R) \propto |R|^{\eta - 1}$
             over correlations $R = LL^\top$.
Identity.    A row of $L$ left of its diagonal has a uniform direction and a Beta-distributed squared length,
             independent of other rows: draws, moments and entropy follow.
Cost.        $O(r^3 + c^3)$ for a matrix normal; $O(d^2)$ for a factor of a correlation.
References.  Gupta and Nagar (2000) chapter 2; Lewandowski, Kurowicka and Joe (2009).
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import digamma, gammaln

from tractable.core.checks import check, check_count
from tractable.core.linalg import log_det, psd_factor
from tractable.core.module import field
from tractable.core.support import Support, correlation_cholesky, positive, real
from tractable.core.types import Array, Float, Shape
from tractable.distributions.base import Distribution
from tractable.distributions.leading_axes import units
from tractable.distributions.special import log_beta
from tractable.distributions.supports import positive_definite
from tractable.distributions.wishart import InverseWishart, Wishart

__all__ = ["InverseWishart", "LKJCholesky", "MatrixNormal", "Wishart"]

_LOG_2PI = float(np.log(2 * np.pi))


class MatrixNormal(Distribution):
    r"""$p(X) = (2\pi)^{-rc/2} |U|^{-c/2} |V|^{-r/2} e^{-\mathrm{tr}[V^{-1}(X-M)^\top U^{-1}(X-M)]/2}$.

    $M$ = `loc` ($r \times c$), $U$ = `row_cov` and $V$ = `column_cov`. Only the product of the two scales
    matters, so the parameters are not unique and there are no natural parameters here.
    """

    loc: Float[Array, "... r c"] = field(support=real, rank=2)
    row_cov: Float[Array, "... r r"] = field(support=positive_definite)
    column_cov: Float[Array, "... c c"] = field(support=positive_definite)

    def __check_init__(self) -> None:
        super().__check_init__()
        r, c = self.unit_shape
        for name, size, along in (("row_cov", r, "row"), ("column_cov", c, "column")):
            shape = getattr(self, name).shape
            wanted = f"{size} by {size}, one row for each {along} of `loc`"
            check(shape[-1] == size, name, wanted, f"shape {shape}")

    @property
    def unit_shape(self) -> Shape:
        return self.loc.shape[-2:]

    @property
    def support(self) -> Support:
        return real

    @property
    def mode(self) -> Array:
        r"""$M$."""
        return self.mean

    def _log_prob(self, x):
        r, c = x.shape
        rows, columns = psd_factor(self.row_cov), psd_factor(self.column_cov)
        z = columns.half_solve(rows.half_solve(x - self.loc).T)
        return -0.5 * ((z**2).sum() + r * c * _LOG_2PI + c * rows.log_det() + r * columns.log_det())

    def _sample(self, key, n):
        z = jr.normal(key, (n, *self.unit_shape), self.loc.dtype)
        rows, columns = psd_factor(self.row_cov).lower, psd_factor(self.column_cov).lower
        return self.loc[None] + rows @ z @ columns.T

    def _mean(self):
        return self.loc

    def _variance(self):
        return jnp.outer(jnp.diag(self.row_cov), jnp.diag(self.column_cov))

    def _entropy(self):
        r, c = self.unit_shape
        return 0.5 * (r * c * (1 + _LOG_2PI) + c * log_det(self.row_cov) + r * log_det(self.column_cov))


class LKJCholesky(Distribution):
    r"""The factor $L$ of a `dim` by `dim` correlation $R = LL^\top$ with $p(R) \propto |R|^{\eta-1}$.

    $\eta$ = `concentration`. As a density of the entries below the diagonal it is $p(L) = \prod_{k=2}^d
    L_{kk}^{2b_k - 2}\, \Gamma(a_k + b_k) / (\pi^{a_k} \Gamma(b_k))$ with $a_k = (k-1)/2$ and $b_k = \eta +
    (d-k)/2$: the squared length of row $k$ left of the diagonal is $\mathrm{Beta}(a_k, b_k)$. At $\eta = 1$
    all correlations are equally probable:

    >>> round(float(LKJCholesky(2, 1.0).prob(jnp.eye(2))), 6)
    0.5
    """

    dim: int = field(static=True)
    concentration: Float[Array, "..."] = field(support=positive)

    def __check_init__(self) -> None:
        super().__check_init__()
        check_count("dim", self.dim, least=2)

    @property
    def unit_shape(self) -> Shape:
        return (self.dim, self.dim)

    @property
    def support(self) -> Support:
        return correlation_cholesky

    @property
    def mode(self) -> Array:
        r"""The identity for $\eta > 1$; NaN for $\eta \le 1$, where no single point is most probable."""
        return units(self, type(self)._mode)

    def _shapes(self) -> tuple[Array, Array]:
        """$a_k$ and $b_k$ for the rows below the first."""
        k = jnp.arange(2, self.dim + 1, dtype=self.concentration.dtype)
        return (k - 1) / 2, self.concentration + (self.dim - k) / 2

    def _log_prob(self, x):
        a, b = self._shapes()
        constants = gammaln(a) - log_beta(a, b) - a * jnp.log(jnp.pi)
        return ((2 * b - 2) * jnp.log(jnp.diag(x)[1:]) + constants).sum()

    def _sample(self, key, n):
        a, b = self._shapes()
        key_direction, key_inside, key_outside = jr.split(key, 3)
        z = jnp.tril(jr.normal(key_direction, (n, self.dim - 1, self.dim), a.dtype))
        direction = z / jnp.linalg.norm(z, axis=-1, keepdims=True)
        inside = jr.loggamma(key_inside, a, (n, self.dim - 1), a.dtype)
        outside = jr.loggamma(key_outside, b, (n, self.dim - 1), a.dtype)
        total = jnp.logaddexp(inside, outside)  # logarithms keep a diagonal that is near zero exact
        rows = jnp.exp((inside - total) / 2)[..., None] * direction
        below = jnp.concatenate([jnp.zeros((n, 1, self.dim), a.dtype), rows], axis=1)
        diagonal = jnp.concatenate([jnp.ones((n, 1), a.dtype), jnp.exp((outside - total) / 2)], axis=1)
        return below + jax.vmap(jnp.diag)(diagonal)

    def _diagonal_mean(self) -> Array:
        a, b = self._shapes()
        return jnp.concatenate([jnp.ones(1, a.dtype), jnp.exp(log_beta(a, b + 0.5) - log_beta(a, b))])

    def _mean(self):
        return jnp.diag(self._diagonal_mean())

    def _mode(self):
        eta = self.concentration
        return jnp.where(eta > 1, jnp.eye(self.dim, dtype=eta.dtype), jnp.nan)

    def _variance(self):
        a, b = self._shapes()
        each = jnp.concatenate([jnp.zeros(1, a.dtype), 0.5 / (a + b)])  # a/(a+b), shared by 2a entries
        square = jnp.concatenate([jnp.ones(1, a.dtype), b / (a + b)])
        spread = jnp.broadcast_to(each[:, None], self.unit_shape)
        return jnp.tril(spread, -1) + jnp.diag(square - self._diagonal_mean() ** 2)

    def _entropy(self):
        a, b = self._shapes()
        constants = gammaln(a) - log_beta(a, b) - a * jnp.log(jnp.pi)
        return -((b - 1) * (digamma(b) - digamma(a + b)) + constants).sum()
