r"""Gaussian variational families: moved standard normal noise with a closed-form density and entropy.

Model.       $z \sim N(0, I)$ and $x = g_\lambda(z)$: mean field $x = m + s \odot z$; full rank $x = m + Lz$
             with $LL^\top = \Sigma$; low rank $x = m + s \odot z_1 + W z_2$, so that $\Sigma =
             \mathrm{diag}(s^2) + WW^\top$; structured, with global entries $\theta$ and local entries $u_i$,
             $q(\theta)\prod_i N(u_i;\ m_i + b_i^\top(\theta - m_\theta),\ s_i^2)$.
Parameters.  Each is a module whose fields name their supports, so `unconstrain(family)` gives the free
             numbers that an optimiser moves.
Cost.        $O(d)$, $O(d^2)$, $O(dk^2)$ and $O(dg + g^2)$ per draw and density.
References.  Kucukelbir et al. (2017), "Automatic differentiation variational inference"; Ong, Nott and Smith
             (2018), "Gaussian variational approximation with a factor covariance structure".
"""

import math
from abc import abstractmethod
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_shape
from tractable.core.factors import DiagonalPlusLowRank
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.support import lower_cholesky, positive, real
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.distributions.gaussian import Gaussian

__all__ = ["FullRank", "GaussianFamily", "LowRank", "MeanField", "Structured", "VariationalFamily"]

_LOG_2PI = math.log(2 * math.pi)


class VariationalFamily(Module):
    """A distribution over vectors of length `dim`, made of standard normal noise of length `noise_dim`."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The length of a draw."""

    @property
    def noise_dim(self) -> int:
        """The length of the noise behind a draw."""
        return self.dim

    @property
    def has_cheap_density(self) -> bool:
        """Whether `log_prob` at any point costs about as much as a draw."""
        return True

    @abstractmethod
    def forward(self, noise: Float[Array, " k"]) -> Float[Array, " d"]:
        r"""$x = g_\lambda(z)$ for one $z$."""

    @abstractmethod
    def log_prob(self, x: Float[Array, " d"]) -> Scalar:
        r"""$\log q_\lambda(x)$ at one point."""

    def forward_and_log_prob(self, noise: Float[Array, " k"]) -> tuple[Float[Array, " d"], Scalar]:
        r"""$x = g_\lambda(z)$ with $\log q_\lambda(x)$."""
        x = self.forward(noise)
        return x, self.log_prob(x)

    def sample_and_log_prob(self, key: Key, n: int) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """`n` draws with their log-densities."""
        return _sample_and_log_prob(self, key, check_count("n", n))


class GaussianFamily(VariationalFamily):
    """A family whose members are Gaussian: mean, covariance and entropy in closed form."""

    @property
    @abstractmethod
    def cov(self) -> Float[Array, "d d"]:
        """The covariance matrix."""

    @property
    @abstractmethod
    def log_det(self) -> Scalar:
        r"""$\frac12\log|\Sigma|$."""

    @property
    @abstractmethod
    def mean(self) -> Float[Array, " d"]:
        """The mean vector."""

    def entropy(self) -> Scalar:
        r"""$\frac d2 (1 + \log 2\pi) + \frac12\log|\Sigma|$."""
        return 0.5 * self.dim * (1 + _LOG_2PI) + self.log_det

    @property
    def distribution(self) -> Gaussian:
        """The member as a `Gaussian`."""
        return Gaussian(self.mean, self.cov)


class MeanField(GaussianFamily):
    r"""$x = m + s \odot z$: independent normal entries with $m$ = `loc` and $s$ = `scale`."""

    loc: Float[Array, " d"] = field(support=real, rank=1)
    scale: Float[Array, " d"] = field(support=positive, rank=1)

    @property
    def dim(self) -> int:
        return self.loc.shape[0]

    def forward(self, noise):
        return self.loc + self.scale * noise

    def log_prob(self, x):
        z = (x - self.loc) / self.scale
        return -0.5 * (z @ z) - self.log_det - 0.5 * self.dim * _LOG_2PI

    def log_probs(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        r"""$\log q(x_i)$ of each entry."""
        return -0.5 * ((x - self.loc) / self.scale) ** 2 - jnp.log(self.scale) - 0.5 * _LOG_2PI

    @property
    def mean(self) -> Float[Array, " d"]:
        return self.loc

    @property
    def cov(self) -> Float[Array, "d d"]:
        return jnp.diag(self.scale**2)

    @property
    def log_det(self) -> Scalar:
        return jnp.log(self.scale).sum()


class FullRank(GaussianFamily):
    r"""$x = m + Lz$: a Gaussian with $m$ = `loc` and covariance $LL^\top$, $L$ = `lower`."""

    loc: Float[Array, " d"] = field(support=real, rank=1)
    lower: Float[Array, "d d"] = field(support=lower_cholesky)

    @property
    def dim(self) -> int:
        return self.loc.shape[0]

    def forward(self, noise):
        return self.loc + self.lower @ noise

    def log_prob(self, x):
        z = jsl.solve_triangular(self.lower, x - self.loc, lower=True)
        return -0.5 * (z @ z) - self.log_det - 0.5 * self.dim * _LOG_2PI

    @property
    def mean(self) -> Float[Array, " d"]:
        return self.loc

    @property
    def cov(self) -> Float[Array, "d d"]:
        return self.lower @ self.lower.T

    @property
    def log_det(self) -> Scalar:
        return jnp.log(jnp.diagonal(self.lower)).sum()


class LowRank(GaussianFamily):
    r"""$x = m + s \odot z_1 + W z_2$: covariance $\mathrm{diag}(s^2) + WW^\top$ with $W$ = `factor`."""

    loc: Float[Array, " d"] = field(support=real, rank=1)
    scale: Float[Array, " d"] = field(support=positive, rank=1)
    factor: Float[Array, "d k"] = field(support=real, rank=2)

    @property
    def dim(self) -> int:
        return self.loc.shape[0]

    @property
    def noise_dim(self) -> int:
        return self.dim + self.factor.shape[1]

    def forward(self, noise):
        return self.loc + self.scale * noise[: self.dim] + self.factor @ noise[self.dim :]

    def log_prob(self, x):
        gap, spread = x - self.loc, self._spread
        return -0.5 * (gap @ spread.solve(gap) + spread.log_det() + self.dim * _LOG_2PI)

    @property
    def mean(self) -> Float[Array, " d"]:
        return self.loc

    @property
    def cov(self) -> Float[Array, "d d"]:
        return self._spread.dense()

    @property
    def log_det(self) -> Scalar:
        return 0.5 * self._spread.log_det()

    @property
    def _spread(self) -> DiagonalPlusLowRank:
        return DiagonalPlusLowRank(self.scale**2, self.factor)


class Structured(GaussianFamily):
    r"""$q(\theta)\prod_i q(u_i \mid \theta)$: full rank over the global entries, local ones lean on them.

    `is_global` says which entries are global. $u_i \mid \theta \sim N(m_i + b_i^\top(\theta - m_\theta),
    s_i^2)$ with `slope` the rows $b_i$: the arrow-shaped covariance of a hierarchical model.
    """

    common: FullRank
    loc: Float[Array, " l"] = field(support=real, rank=1)
    slope: Float[Array, "l g"] = field(support=real, rank=2)
    scale: Float[Array, " l"] = field(support=positive, rank=1)
    is_global: tuple[bool, ...] = field(static=True)

    @staticmethod
    def around(loc: ArrayLike, is_global: Sequence[bool], scale: float = 0.1) -> "Structured":
        """The member with independent entries of standard deviation `scale` around `loc`."""
        loc, mask = as_float("loc", loc), np.asarray(is_global, bool)
        check_shape("is_global", mask, loc.shape, "One truth value per entry of `loc`.")
        check(mask.any() and not mask.all(), "is_global", "true for some entries, not for all", mask.tolist())
        g = int(mask.sum())
        common = FullRank(loc[mask], scale * jnp.eye(g, dtype=loc.dtype))
        local, marks = loc[~mask], tuple(bool(m) for m in mask)
        slope = jnp.zeros((local.size, g), loc.dtype)
        return Structured(common, local, slope, jnp.full_like(local, scale), marks)

    @property
    def dim(self) -> int:
        return len(self.is_global)

    def forward(self, noise):
        mask = np.asarray(self.is_global)
        lead = self.common.forward(noise[mask])
        local = self._expected(lead) + self.scale * noise[~mask]
        return self._placed(lead, local)

    def log_prob(self, x):
        mask = np.asarray(self.is_global)
        z = (x[~mask] - self._expected(x[mask])) / self.scale
        local = -0.5 * (z @ z + z.size * _LOG_2PI) - jnp.log(self.scale).sum()
        return self.common.log_prob(x[mask]) + local

    @property
    def mean(self) -> Float[Array, " d"]:
        return self._placed(self.common.loc, self.loc)

    @property
    def cov(self) -> Float[Array, "d d"]:
        columns = jax.vmap(self.forward)(jnp.eye(self.dim, dtype=self.loc.dtype)) - self.mean[None]
        return columns.T @ columns

    @property
    def log_det(self) -> Scalar:
        return self.common.log_det + jnp.log(self.scale).sum()

    def _expected(self, lead: Array) -> Array:
        return self.loc + self.slope @ (lead - self.common.loc)

    def _placed(self, lead: Array, local: Array) -> Array:
        mask = np.asarray(self.is_global)
        blank = jnp.zeros(self.dim, lead.dtype)
        return blank.at[np.flatnonzero(mask)].set(lead).at[np.flatnonzero(~mask)].set(local)


@program
def _sample_and_log_prob(family: VariationalFamily, key: Key, n: int) -> tuple[Array, Array]:
    return jax.vmap(family.forward_and_log_prob)(jr.normal(key, (n, family.noise_dim)))
