r"""Gaussian algebra: the one place where Gaussians are marginalised and conditioned.

Joint.       $x \sim N(m, P)$, $E[y] = \hat y$, $\mathrm{Cov}[y] = S$, $\mathrm{Cov}[x, y] = C$.
Identity.    For a belief $y \sim N(\mu, \Sigma)$ (a value: $\Sigma = 0$), with $G = C S^{-1}$,
             $E[x] = m + G(\mu - \hat y)$ and $\mathrm{Cov}[x] = P - G (S - \Sigma) G^\top$.
Kept.        `learn(y, given)` keeps a factor of $S$ (dense, diagonal plus low rank, or sites) and $\alpha =
             S^{-1}(\mu - \hat y)$ for any number of $x$: `condition` is one use of it.
Singular.    A covariance without an inverse (to rounding) has no density: `log_prob` and `entropy` are NaN.
             Draws exist all the same.
Cost.        One Cholesky of $S$: $O(d_y^3 + d_y^2 d_x + d_y d_x^2)$; for rank $k$, $O(d_y k^2)$.
References.  Bishop (2006) section 2.3; Rasmussen and Williams (2006) A.2; Sarkka (2013) sections 4.3, 8.2.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_entries, check_shape, is_concrete
from tractable.core.factors import (
    Factor,
    normal_log_density,
    positive_definite_factor,
    psd_inverse,
    psd_root,
    schur_complement,
)
from tractable.core.linalg import symmetrise
from tractable.core.module import Module, field
from tractable.core.numerics import safe_where
from tractable.core.support import Support, psd, real
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar, Shape
from tractable.distributions.expfam import ExponentialFamily, Natural, row_weights
from tractable.distributions.gaussian_parts import Indices, as_indices, matched, one_unit, split_known

__all__ = ["Factored", "Gaussian", "Learned", "condition", "condition_observed", "learn"]

_LOG_2PI = float(np.log(2 * np.pi))


class Gaussian(ExponentialFamily):
    r"""The multivariate normal of mean $\mu$ = `mean` and covariance $\Sigma$ = `cov`.

    $p(x) = (2\pi)^{-d/2} |\Sigma|^{-1/2} \exp\{-\frac12 (x - \mu)^\top \Sigma^{-1} (x - \mu)\}$.

    >>> round(float(Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]).log_prob(jnp.zeros(2))), 6)
    -1.837877
    """

    # The default hides the property `mean` of the base class; the constructor has none.
    mean: Float[Array, "..."] = field(support=real, rank=1, default=None)
    cov: Float[Array, "..."] = field(support=psd, default=None)

    def __init__(self, mean: Any, cov: Any):
        self.mean, self.cov = matched("mean", mean, "cov", cov)

    @classmethod
    def fit(cls, xs: ArrayLike, weights: ArrayLike | None = None, *, ddof: float | int = 0) -> "Gaussian":
        r"""Maximum likelihood: the mean, and the mean of $(x_n - \mu)(x_n - \mu)^\top$ (over `n - ddof`).

        Rows are centred first, so a large mean costs no digits. A covariance without an inverse is an error
        that names the constant column; inside `jit`, where nothing can be raised, its `log_prob` is NaN.
        """
        rows = as_float("xs", xs)
        check(rows.ndim == 2, "xs", "a matrix of rows, shape (n, d)", f"shape {rows.shape}")
        weights = row_weights(rows, weights)
        fitted = _fit(rows, weights, ddof)
        if is_concrete(fitted.cov):
            _check_fit(np.asarray(rows), np.asarray(weights), ddof, fitted.cov)
        return fitted

    @property
    def unit_shape(self) -> Shape:
        return self.mean.shape[-1:]

    @property
    def support(self) -> Support:
        return real

    def _log_prob(self, x):
        return Factored(self.mean, positive_definite_factor(self.cov)).log_prob(x)

    def _sample(self, key: Key, n: int) -> Array:
        z = jr.normal(key, (n, *self.mean.shape), self.mean.dtype)
        return self.mean[None] + z @ psd_root(self.cov).T

    def _variance(self):
        return jnp.diag(self.cov)

    def _entropy(self):
        return 0.5 * (self.mean.size * (1 + _LOG_2PI) + positive_definite_factor(self.cov).log_det())

    def mahalanobis(self, x: ArrayLike) -> Array:
        r"""$\sqrt{(x - \mu)^\top \Sigma^{-1} (x - \mu)}$ at each point; Euclidean if $\Sigma = I$."""
        one_unit(self)
        return _mahalanobis(self, self._points("x", x))

    def log_prob_observed(self, x: ArrayLike) -> Array:
        """Log-density of the entries of each point that are not NaN; the others are marginalised exactly.

        A point of which nothing was observed has log-density 0. One factor per point: $O(n d^3)$.
        """
        one_unit(self)
        return _log_prob_observed(self, self._points("x", x))

    def marginal(self, indices: Indices) -> "Gaussian":
        r"""$x_a \sim N(\mu_a, \Sigma_{aa})$ for the coordinates `indices`, in their order."""
        kept = as_indices("indices", indices, self.mean.shape[-1])
        return Gaussian(self.mean[..., kept], self.cov[..., kept[:, None], kept])

    def conditional(self, indices_known: Indices, values: ArrayLike) -> "Gaussian":
        r"""$x_a \mid x_b = v$ for the coordinates $b$ = `indices_known`; the others keep their order.

        >>> Gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 2.0]]).conditional([1], jnp.ones(1)).mean
        Array([0.4], dtype=float64)
        """
        known, rest, given = split_known(self, indices_known, values)
        return condition(self.marginal(rest), self.cov[rest[:, None], known], self.marginal(known), given)

    @property
    def natural(self) -> Natural:
        factor = positive_definite_factor(self.cov)
        return factor.solve(self.mean), -0.5 * psd_inverse(self.cov)

    def stats(self, x: Array) -> Natural:
        return x, jnp.outer(x, x)

    def log_base(self, x: Array) -> Scalar:
        return jnp.asarray(-0.5 * x.size * _LOG_2PI, x.dtype)

    def log_normaliser(self, natural: Natural) -> Scalar:
        shift, quadratic = natural
        factor = positive_definite_factor(-2 * symmetrise(quadratic))
        z = factor.half_solve(shift)
        return 0.5 * (z @ z - factor.log_det())

    def from_natural(self, natural: Natural) -> "Gaussian":
        shift, quadratic = natural
        precision = -2 * symmetrise(quadratic)
        return Gaussian(positive_definite_factor(precision).solve(shift), psd_inverse(precision))

    def from_stats(self, mean_stats: Natural) -> "Gaussian":
        first, second = mean_stats
        return Gaussian(first, symmetrise(second - jnp.outer(first, first)))


class Factored(Module):
    r"""$N(\hat y, S)$ by a kept factor of $S$: what `learn` and `condition` take in place of a `Gaussian`."""

    mean: Float[Array, " y"]
    factor: Factor

    @property
    def shape(self) -> Shape:
        return self.mean.shape

    def log_prob(self, y: Float[Array, " y"]) -> Scalar:
        r"""$\log N(y; \hat y, S)$."""
        z = self.factor.half_solve(y - self.mean)
        return normal_log_density(z @ z, self.factor.log_det(), y.size)


class Learned(Module):
    r"""What a value of, or a belief about, $y$ has taught, for any $x$ by its $\mathrm{Cov}[x, y]$ = `cross`.

    `weights` is $\alpha = S^{-1}(\mu - \hat y)$; `belief` the covariance $\Sigma$ that is left, or a factor
    of its inverse; None for a value.
    """

    factor: Any  # a `Factor` of S
    weights: Float[Array, " y"]
    belief: Any = None

    def mean(self, mean: Array, cross: Float[Array, "*x y"]) -> Array:
        r"""$m + C\alpha$: without a solve."""
        return mean + cross @ self.weights

    def marginals(
        self, mean: Float[Array, " x"], variance: Float[Array, " x"], cross: Float[Array, "x y"]
    ) -> tuple[Array, Array]:
        """Mean and variance of each entry of $x$ alone.

        A variance is a difference, known to a unit of rounding of that before: none is given below it.
        """
        left = variance - (self.factor.half_solve(cross.T) ** 2).sum(0)
        if self.belief is not None:
            gain = self.factor.solve(cross.T)
            dense = isinstance(self.belief, jax.Array)
            back = gain * (self.belief @ gain) if dense else self.belief.half_solve(gain) ** 2
            left = left + back.sum(0)
        return self.mean(mean, cross), jnp.maximum(left, jnp.finfo(left.dtype).eps * variance)

    def condition(self, x: Gaussian, cross: Float[Array, "x y"]) -> Gaussian:
        """$p(x)$ after what was learnt."""
        cov = schur_complement(x.cov, cross.T, self.factor)
        if self.belief is not None:
            gain = self.factor.solve(cross.T)
            if isinstance(self.belief, jax.Array):
                cov = symmetrise(cov + gain.T @ self.belief @ gain)
            else:
                half = self.belief.half_solve(gain)
                cov = cov + half.T @ half
        return Gaussian(self.mean(x.mean, cross), cov)


def learn(y: Gaussian | Factored, given: Gaussian | Array, *, jitter: float | int = 0.0) -> Learned:
    r"""A factor of $S$ and $\alpha$, kept for any number of $x$; NaN where $S$ is singular."""
    factor = y.factor if isinstance(y, Factored) else positive_definite_factor(y.cov, jitter)
    value, belief = (given.mean, given.cov) if isinstance(given, Gaussian) else (given, None)
    return Learned(factor, factor.solve(value - y.mean), belief)


def condition(
    x: Gaussian,
    cross: ArrayLike,
    y: Gaussian | Factored,
    given: Gaussian | ArrayLike,
    *,
    jitter: float | int = 0.0,
) -> Gaussian:
    r"""$p(x)$ after learning a value of, or a new belief about, $y$; `cross` is $\mathrm{Cov}[x, y]$.

    `y` may be `Factored`: a factor of $S$ that is there already, or low rank. The covariance is symmetric,
    and positive semi-definite to rounding. `jitter`, relative to the mean of the diagonal of $S$, is added to
    it only if asked for. Where $S$ is singular the answer does not exist: an error, or NaN inside `jit`.
    """
    one_unit(x)
    one_unit(y)
    cross = as_float("cross", cross)
    fix = "It is Cov[x, y]: one row per entry of x, one column per entry of y."
    check_shape("cross", cross, x.shape + y.shape, fix)
    value = given if isinstance(given, Gaussian) else as_float("given", given)
    check_shape("given", value, y.shape)
    result = _condition(x, cross, y, value, jitter)
    if is_concrete(result.cov) and not np.isfinite(result.cov).all():
        fix = "Drop the redundant entries of y, add noise to it, or pass `jitter`."
        got = np.asarray(y.cov).tolist() if isinstance(y, Gaussian) else "a factor that is NaN"
        check(False, "y.cov", "positive definite", got, fix)
    return result


def condition_observed(
    x: Gaussian, cross: ArrayLike, y: Gaussian, value: ArrayLike, *, jitter: float | int = 0.0
) -> Gaussian:
    """`condition` on the entries of `value` that are not NaN; the others say nothing about `x`."""
    cross, value = as_float("cross", cross), as_float("value", value)
    check_shape("value", value, y.shape)
    check_shape("cross", cross, x.shape + y.shape)
    return condition(x, *observed_part(cross, y, value), jitter=jitter)


def observed_part(cross: Array, y: Gaussian, value: Array) -> tuple[Array, Gaussian, Array]:
    """What `condition` takes, with unit variance and no covariance for the entries of `value` that are
    NaN."""
    seen = ~jnp.isnan(value)
    reduced = Gaussian(y.mean, _masked(y.cov, seen))
    return jnp.where(seen[None], cross, 0.0), reduced, jnp.where(seen, value, y.mean)


@partial(jax.jit, static_argnums=4)
def _condition(
    x: Gaussian, cross: Array, y: Gaussian | Factored, given: Gaussian | Array, jitter: float | int
) -> Gaussian:
    return learn(y, given, jitter=jitter).condition(x, cross)


@jax.jit
def _mahalanobis(g: Gaussian, x: Array) -> Array:
    factor = positive_definite_factor(g.cov)

    def point(row):
        z = factor.half_solve(row - g.mean)
        return safe_where(z @ z > 0, jnp.sqrt, z @ z, z @ z)

    return jax.vmap(point)(x.reshape((-1, g.mean.size))).reshape(x.shape[:-1])


@jax.jit
def _log_prob_observed(g: Gaussian, x: Array) -> Array:
    def point(row):
        seen = ~jnp.isnan(row)
        difference = jnp.where(seen, jnp.where(seen, row, 0.0) - g.mean, 0.0)
        full = Gaussian(jnp.zeros_like(g.mean), _masked(g.cov, seen))._log_prob(difference)
        return full + 0.5 * _LOG_2PI * (~seen).sum()

    return jax.vmap(point)(x.reshape((-1, g.mean.size))).reshape(x.shape[:-1])


def _masked(cov: Array, seen: Array) -> Array:
    """`cov` with unit variance and no covariance in place of each entry that was not seen."""
    return jnp.where(seen[:, None] & seen[None], cov, jnp.eye(cov.shape[0], dtype=cov.dtype))


@jax.jit
def _fit(rows: Array, weights: Array, ddof: ArrayLike) -> Gaussian:
    used = weights[:, None] > 0
    mean = weights @ jnp.where(used, rows, 0.0) / weights.sum()
    centred = jnp.where(used, rows - mean[None], 0.0)
    return Gaussian(mean, symmetrise((centred * weights[:, None]).T @ centred / (weights.sum() - ddof)))


def _check_fit(rows: np.ndarray, weights: np.ndarray, ddof: float | int, cov: Array) -> None:
    used = weights > 0
    check(
        weights.sum() > ddof, "weights", f"more than ddof = {ddof} in total", weights.sum(), "Give more rows."
    )
    fix = "Drop that row; `log_prob_observed` takes missing entries."
    check_entries("xs", rows, lambda v: np.isfinite(v) | ~used[:, None], "finite", fix)
    constant = np.flatnonzero((rows[used] == rows[used][:1]).all(0)).tolist()
    fix = "Drop such a column, or build `Gaussian(mean, cov)` with a variance of your own."
    check(not constant, "xs", "free of constant columns", f"columns {constant} constant", fix)
    regular = bool(np.isfinite(positive_definite_factor(cov).lower).all())
    got = f"{used.sum()} rows of {rows.shape[1]} columns with a singular covariance"
    must = "rows that span all columns"
    check(regular, "xs", must, got, "Drop linearly dependent columns, or give more rows.")
