r"""Linear factors with Gaussian noise: density, posterior, draws and statistics of EM, with gaps or without.

Model.       $z \sim N(0, I_k)$, $x \mid z \sim N(\mu + W z, \Psi)$ with $\Psi$ diagonal; so
             $x \sim N(\mu, W W^\top + \Psi)$ and $z \mid x \sim N(G\,W^\top\Psi^{-1}(x - \mu), G)$ with
             $G = (I + W^\top\Psi^{-1}W)^{-1}$.
Bound.       $E_q[\log p(x \mid z)] - \mathrm{KL}(q\,\|\,p(z)) \le \log p(x)$, equal at $q = p(z \mid x)$.
Missing.     Entries that are NaN are marginalised exactly: the row's own $G$ has only the columns that were
             seen, and those that were not enter the statistics by their conditional moments.
Statistics.  $\sum w$, $\sum w\,E[r]$, $\sum w\,E[z]$, $\sum w\,E[r z^\top]$, $\sum w\,E[zz^\top]$ and
             $\sum w\,E[r_j^2]$ with $r = x - \mu$ at the present mean: they add over rows, and are
             $O(dk)$ numbers, never $d^2$.
M-step.      $(W, \delta)$ regresses $r$ on $(z, 1)$; $\mu \leftarrow \mu + \delta$; noise is what is left.
Cost.        $O(ndk)$ a step; $O(ndk^2)$ where entries are missing.
References.  Rubin and Thayer (1982); Tipping and Bishop (1999); Ghahramani and Hinton (1996).
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import as_float, check, check_shape, has_values, namespace
from tractable.core.chunks import pad_rows
from tractable.core.factors import DiagonalPlusLowRank, normal_log_density
from tractable.core.keys import takes_key
from tractable.core.linalg import psd_factor, symmetrise
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import points
from tractable.core.support import positive, real
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar, Shape, Values
from tractable.distributions.divergence import kl
from tractable.distributions.gaussian import Gaussian

__all__ = ["FactorStatistics", "LinearFactors"]


class FactorStatistics(NamedTuple):
    """Sums over rows, about the mean of the model that made them."""

    count: Scalar
    rest: Float[Array, " d"]
    latent: Float[Array, " k"]
    cross: Float[Array, "d k"]
    second: Float[Array, "k k"]
    squares: Float[Array, " d"]


class LinearFactors(Module):
    """What probabilistic PCA and factor analysis share; `noise` has one variance, or one per column."""

    mean: Float[Array, " d"] = field(support=real, rank=1)
    loadings: Float[Array, "d k"] = field(support=real, rank=2)
    noise: Float[Array, "..."] = field(support=positive)

    def __check_init__(self) -> None:
        check_shape("loadings", self.loadings, (*self.mean.shape, None))
        one_each = self.noise.shape in ((), self.mean.shape)
        check(one_each, "noise", f"a number, or of shape {self.mean.shape}", f"shape {self.noise.shape}")

    @abstractmethod
    def _with(self, mean: Array, loadings: Array, left: Array) -> Any:
        """The model with the residual variance `left` of each column as its noise."""

    @property
    def dim(self) -> int:
        return self.mean.shape[0]

    @property
    def num_components(self) -> int:
        return self.loadings.shape[1]

    @property
    def variances(self) -> Float[Array, " d"]:
        """The noise of each column."""
        return jnp.broadcast_to(self.noise, self.mean.shape)

    @property
    def factor(self) -> DiagonalPlusLowRank:
        r"""$\Psi + W W^\top$, solved in $O(dk)$."""
        return DiagonalPlusLowRank(self.variances, self.loadings)

    @property
    def cov(self) -> Float[Array, "d d"]:
        r"""$W W^\top + \Psi$."""
        return self.factor.dense()

    @property
    def num_parameters(self) -> int:
        """Free numbers: the mean, the loadings up to a rotation of the factors, and the noise."""
        d, k = self.loadings.shape
        return d + d * k - k * (k - 1) // 2 + self.noise.size

    def log_prob(self, X: Any) -> Values:
        """The exact log-density of each row; entries that are NaN are marginalised."""
        return self._of_rows(_log_prob, X)

    def posterior(self, X: Any) -> Gaussian:
        r"""$p(z \mid x)$ of each row, given the entries that are not NaN."""
        mean, cov = self._of_rows(_posterior, X)
        return Gaussian(mean, cov)

    def transform(self, X: Any) -> Values:
        """The posterior mean of the factors of each row."""
        x = points(X, self.dim, gaps=True)
        if not has_values((self, x)) or np.isnan(x.sum()):
            return self._of_rows(_posterior, x)[0]
        gain = np.asarray(_gain(self))  # the same for every row without gaps
        return (x - np.asarray(self.mean)) @ gain

    def reconstruct(self, X: Any) -> Values:
        """Each row without its noise: $\\mu + W E[z \\mid x]$."""
        return self.inverse(self.transform(X))

    def inverse(self, Z: Any) -> Values:
        """The expected row for these factors."""
        z = points(Z, self.num_components, name="Z")
        xp = namespace(self, z)
        return xp.asarray(self.mean)[None] + z @ xp.asarray(self.loadings).T

    def impute(self, X: Any) -> Values:
        """The rows with NaN replaced by the conditional mean of the entry."""
        x = points(X, self.dim, gaps=True)
        xp = namespace(self, x)
        return xp.where(xp.isnan(x), self.reconstruct(x), x)

    @takes_key
    def sample(self, key: Key, shape: Shape = ()) -> Array:
        """Draws of rows."""
        key_z, key_noise = jr.split(key)
        count = int(np.prod(shape))
        z = jr.normal(key_z, (count, self.num_components), self.mean.dtype)
        noise = jr.normal(key_noise, (count, self.dim), self.mean.dtype) * jnp.sqrt(self.variances)[None]
        return (self.mean[None] + z @ self.loadings.T + noise).reshape(*shape, self.dim)

    def log_joint(self, x: ArrayLike, z: ArrayLike) -> Scalar:
        r"""$\log p(x, z)$ of one row and its factors."""
        x, z = as_float("x", x), as_float("z", z)
        rest = x - self.mean - self.loadings @ z
        seen = normal_log_density((rest**2 / self.variances).sum(), jnp.log(self.variances).sum(), self.dim)
        return seen + normal_log_density(z @ z, 0.0, z.size)

    def elbo(self, x: ArrayLike, q: Gaussian) -> Scalar:
        r"""$E_q[\log p(x \mid z)] - \mathrm{KL}(q\,\|\,N(0, I)) \le \log p(x)$ of one row."""
        x = as_float("x", x)
        rest = x - self.mean - self.loadings @ q.mean
        spread = jnp.einsum("dk,kl,dl->d", self.loadings, q.cov, self.loadings)
        squares = ((rest**2 + spread) / self.variances).sum()
        expected = normal_log_density(squares, jnp.log(self.variances).sum(), self.dim)
        prior = Gaussian(jnp.zeros(self.num_components), jnp.eye(self.num_components))
        return expected - kl(q, prior)

    def e_step(self, rows: Values, weights: Values) -> tuple[FactorStatistics, Scalar]:
        """Expected statistics and log-evidence of rows, which add; NaN is a missing entry."""
        rows, weights = jnp.asarray(rows), jnp.asarray(weights)
        rest = jnp.where(weights[:, None] > 0, rows - self.mean[None], 0.0)
        gaps = jnp.isnan(rest).any()
        return jax.lax.cond(gaps, _expected_with_gaps, _expected, self, rest, weights)

    def m_step(self, stats: FactorStatistics) -> Any:
        """The model that maximises the expected log-density of rows and factors."""
        count, rest, latent, cross, second, squares = stats
        top = jnp.concatenate([second, latent[:, None]], 1)
        gram = jnp.concatenate([top, jnp.concatenate([latent, count[None]])[None]], 0)
        right = jnp.concatenate([cross, rest[:, None]], 1)
        weights = psd_factor(gram / count).solve(right.T / count).T
        left = squares / count - (weights * right / count).sum(1)
        return self._with(self.mean + weights[:, -1], weights[:, :-1], left)

    def _of_rows(self, function: Any, X: Any) -> Any:
        """`function(model, rows)` of padded rows, so that another number of them compiles nothing."""
        x = points(X, self.dim, gaps=True)
        if not has_values((self, x)):
            return function(self, jnp.asarray(x))
        padded, _ = pad_rows(x)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(x)], _apply(function, self, padded))


@program
def _apply(function: Any, model: LinearFactors, rows: Array) -> Any:
    return function(model, rows)


@jax.jit
def _gain(model: LinearFactors) -> Array:
    r"""$\Psi^{-1}W\,\mathrm{Cov}[z]$, which takes a row about the mean to the mean of its factors."""
    scaled = model.loadings / model.variances[:, None]
    return model.factor.middle.solve(scaled.T).T


def _log_prob(model: LinearFactors, x: Array) -> Array:
    rest = x - model.mean[None]

    def complete() -> Array:
        factor = model.factor
        half = factor.half_solve(rest.T)
        return normal_log_density((half**2).sum(0), factor.log_det(), model.dim)

    return jax.lax.cond(jnp.isnan(rest).any(), lambda: _seen(model, rest).log_evidence, complete)


def _posterior(model: LinearFactors, x: Array) -> tuple[Array, Array]:
    found = _seen(model, x - model.mean[None])
    return found.mean, found.cov


class _Seen(NamedTuple):
    mean: Array  # (n, k), of the factors
    cov: Array  # (n, k, k)
    log_evidence: Array  # (n,)


def _seen(model: LinearFactors, rest: Array) -> _Seen:
    """What the entries that were seen say of the factors of each row."""
    seen = ~jnp.isnan(rest)
    rest = jnp.where(seen, rest, 0.0)
    w, noise = model.loadings, model.variances
    k = w.shape[1]
    precision = seen / noise[None]
    products = (w[:, :, None] * w[:, None]).reshape(len(w), k * k)
    inner = (precision @ products).reshape(-1, k, k) + jnp.eye(k, dtype=w.dtype)[None]
    lower = jnp.linalg.cholesky(inner)
    shift = (precision * rest) @ w
    half = jsl.solve_triangular(lower, shift[..., None], lower=True)[..., 0]
    inverse = jsl.solve_triangular(
        lower, jnp.broadcast_to(jnp.eye(k, dtype=w.dtype), inner.shape), lower=True
    )
    cov = jnp.swapaxes(inverse, -1, -2) @ inverse
    log_det = (seen * jnp.log(noise)[None]).sum(1)
    log_det = log_det + 2 * jnp.log(jnp.diagonal(lower, axis1=-2, axis2=-1)).sum(1)
    squares = (precision * rest**2).sum(1) - (half**2).sum(1)
    mean = (cov @ shift[..., None])[..., 0]
    return _Seen(mean, cov, normal_log_density(squares, log_det, seen.sum(1)))


def _expected(model: LinearFactors, rest: Array, weights: Array) -> tuple[FactorStatistics, Scalar]:
    factor = model.factor
    k = model.num_components
    scaled = model.loadings / model.variances[:, None]
    z = factor.middle.solve(scaled.T @ rest.T).T
    cov = factor.middle.solve(jnp.eye(k, dtype=z.dtype))
    weighted = rest * weights[:, None]
    squares = weights @ rest**2
    cross = weighted.T @ z
    second = symmetrise((z * weights[:, None]).T @ z + weights.sum() * cov)
    # x' S^-1 x = x' Psi^-1 x - z' (W' Psi^-1 x), summed over rows
    quadratic = (squares / model.variances).sum() - (cross * scaled).sum()
    evidence = normal_log_density(quadratic, weights.sum() * factor.log_det(), weights.sum() * model.dim)
    return FactorStatistics(weights.sum(), weighted.sum(0), weights @ z, cross, second, squares), evidence


def _expected_with_gaps(model: LinearFactors, rest: Array, weights: Array) -> tuple[FactorStatistics, Scalar]:
    found = _seen(model, rest)
    w, k = model.loadings, model.num_components
    gap = jnp.isnan(rest)
    full = jnp.where(gap, found.mean @ w.T, rest)
    second = found.mean[:, :, None] * found.mean[:, None] + found.cov
    absent = gap * weights[:, None]
    # of a missing entry, Cov[r_j, z] = w_j' Cov[z] and Var[r_j] = w_j' Cov[z] w_j + psi_j
    spread = (absent.T @ found.cov.reshape(-1, k * k)).reshape(-1, k, k)
    extra = jnp.einsum("dk,dkl->dl", w, spread)
    squares = weights @ full**2 + (extra * w).sum(1) + absent.sum(0) * model.variances
    cross = (full * weights[:, None]).T @ found.mean + extra
    stats = FactorStatistics(
        weights.sum(), weights @ full, weights @ found.mean, cross,
        symmetrise(jnp.einsum("n,nkl->kl", weights, second)), squares,
    )  # fmt: skip
    return stats, weights @ found.log_evidence
