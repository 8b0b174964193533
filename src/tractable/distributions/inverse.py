r"""Inverse-transform sampling: $x = F^{-1}(u)$ with $u$ uniform, from a formula, a function, or a table.

Identity.    With $F^{-1}(u) = \inf\{x : F(x) \ge u\}$ and $u \sim U(0, 1)$, $P(F^{-1}(u) \le x) = F(x)$ for
             every $F$, with jumps and flat stretches too.
Routes.      Analytic: any `icdf`. Numeric: halving the range of floating-point numbers, which reaches the
             last bit of every quantile in 64 evaluations, whatever its size. Tabulated: a cdf between given
             points. Discrete: a search in the cumulative sums.
Cost.        One quantile per draw.
References.  Devroye (1986), "Non-uniform random variate generation", chapter 2.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_entries, is_concrete
from tractable.core.module import field
from tractable.core.numerics import safe_log, xlogy
from tractable.core.support import Support, bounded, ordered, unit_interval
from tractable.core.types import Array, ArrayLike, Float, Key, Shape
from tractable.distributions.atoms import generalised_inverse
from tractable.distributions.base import Univariate
from tractable.distributions.quantile import follow

__all__ = ["Tabulated", "generalised_inverse", "inverse_transform", "invert_cdf", "tabulate"]


def inverse_transform(
    source: Univariate | Callable[[Array], Array], key: Key, shape: Shape = (), dtype=None
) -> Array:
    r"""Draws $F^{-1}(u)$, where `source` is a distribution with a quantile function, or $F^{-1}$ itself.

    >>> draws = inverse_transform(lambda u: -jnp.log1p(-u), jr.key(0), (1000,))  # exponential
    >>> bool(abs(draws.mean() - 1) < 0.1)
    True
    """
    if isinstance(source, Univariate):
        shape, source = tuple(shape) + source.shape, source.icdf
    dtype = jnp.result_type(float) if dtype is None else dtype
    return source(jr.uniform(key, shape, dtype, jnp.finfo(dtype).tiny))


def invert_cdf(
    cdf: Callable[[Array], Array], p: ArrayLike, low: ArrayLike = -np.inf, high: ArrayLike = np.inf
) -> Array:
    r"""The least float $x$ in [`low`, `high`] with $F(x) \ge p$, elementwise; `high` where there is none.

    `cdf` is elementwise and never falls. Floats are halved by rank, not by size, so that a quantile of
    $10^{-300}$ costs the same 64 evaluations as one of 3. Derivatives are those of the implicit function
    where the slope of $F$ is positive.

    >>> float(invert_cdf(lambda x: 1 - jnp.exp(-x), 0.5, low=0.0))  # log 2
    0.6931471805599453
    """
    p = as_float("p", p)
    ends = [
        jnp.broadcast_to(as_float(name, end), p.shape).astype(p.dtype)
        for name, end in zip(("low", "high"), (low, high))
    ]
    bits = 8 * p.dtype.itemsize

    def halve(_, bracket):
        below, reached = bracket
        middle = (below >> 1) + (reached >> 1) + (below & reached & 1)
        hit = cdf(_from_rank(middle, p.dtype)) >= p
        return jnp.where(hit, below, middle), jnp.where(hit, middle, reached)

    start = _rank(ends[0]) - 1, _rank(ends[1])
    x = jax.lax.stop_gradient(_from_rank(jax.lax.fori_loop(0, bits, halve, start)[1], p.dtype))
    x = jnp.where(jnp.isnan(p), jnp.nan, x)
    value, slope = jax.jvp(cdf, (x,), (jnp.ones_like(x),))
    return follow(x, p - value, slope)


class Tabulated(Univariate):
    r"""A distribution function known at `points`, straight between them: a density constant on each cell.

    `cumulative` is $F$ at the points: it starts at 0, never falls, and ends at 1.
    """

    points: Float[Array, "... n"] = field(support=ordered)
    cumulative: Float[Array, "... n"] = field(support=unit_interval, rank=1)

    def __check_init__(self) -> None:
        super().__check_init__()
        lengths = self.points.shape[-1], self.cumulative.shape[-1]
        must = f"as long as `points` ({lengths[0]}), two or more"
        check(lengths[0] == lengths[1] >= 2, "cumulative", must, lengths[1])

        def rises(table):
            return (np.diff(table) >= 0).all(-1) & (table[..., 0] == 0) & (abs(table[..., -1] - 1) < 1e-6)

        must = "0 at first, 1 at last, and never falling"
        check_entries("cumulative", self.cumulative, rises, must)

    @property
    def support(self) -> Support:
        return bounded(self.points[..., 0], self.points[..., -1])

    @property
    def _cells(self) -> tuple[Array, Array]:
        return jnp.diff(self.points), jnp.diff(self.cumulative)

    def _log_prob(self, x):
        width, mass = self._cells

        def one(points, logs, at):
            index = jnp.searchsorted(points, at, side="right") - 1
            return logs[jnp.clip(index, 0, logs.size - 1)]

        return jnp.vectorize(one, signature="(n),(m),()->()")(self.points, safe_log(mass / width), x)

    def _sample(self, key, n):
        return self._icdf(jr.uniform(key, n, self.points.dtype, jnp.finfo(self.points.dtype).tiny))

    def _mean(self):
        centre = (self.points[..., 1:] + self.points[..., :-1]) / 2
        return (self._cells[1] * centre).sum(-1)

    def _variance(self):
        width, mass = self._cells
        centre = (self.points[..., 1:] + self.points[..., :-1]) / 2 - self._mean()[..., None]
        return (mass * (centre**2 + width**2 / 12)).sum(-1)

    def _entropy(self):
        width, mass = self._cells
        return -xlogy(mass, mass / width).sum(-1)

    def _cdf(self, x):
        return jnp.vectorize(jnp.interp, signature="(),(n),(n)->()")(x, self.points, self.cumulative)

    def _icdf(self, p):
        def one(share, points, table):
            index = jnp.clip(jnp.searchsorted(table, share), 1, table.size - 1)
            rise = table[index] - table[index - 1]
            part = (share - table[index - 1]) / jnp.where(rise > 0, rise, 1.0)
            return points[index - 1] + (points[index] - points[index - 1]) * part

        return jnp.vectorize(one, signature="(),(n),(n)->()")(p, self.points, self.cumulative)


def tabulate(density: Callable[[Array], Array], points: ArrayLike | Sequence) -> Tabulated:
    r"""The table of $F$ at `points` of an elementwise `density`, known up to a factor: each cell is
    integrated by Gauss-Legendre."""
    grid = as_float("points", points)
    check(
        grid.ndim == 1 and grid.size >= 2, "points", "a vector of two or more numbers", f"shape {grid.shape}"
    )
    nodes, weights = np.polynomial.legendre.leggauss(16)
    width = jnp.diff(grid)
    x = grid[:-1, None] + width[:, None] * jnp.asarray((nodes + 1) / 2)[None]
    mass = (density(x) * jnp.asarray(weights / 2)[None]).sum(1) * width
    must = "zero or positive, and finite"
    check_entries("density", mass, lambda v: np.isfinite(v) & (v >= 0), must, got="a cell of mass {}")
    somewhere = not is_concrete(mass) or float(mass.sum()) > 0
    check(somewhere, "density", "positive somewhere between the points", "zeros")
    cumulative = jnp.concatenate([jnp.zeros(1, mass.dtype), jnp.cumsum(mass)])
    return Tabulated(grid, jnp.minimum(cumulative / cumulative[-1], 1.0))


def _rank(x: Array) -> Array:
    """The position of a floating-point number among all of them, an integer that rises with it."""
    whole = jnp.int64 if x.dtype == jnp.float64 else jnp.int32
    bits = jax.lax.bitcast_convert_type(x, whole)
    return jnp.where(bits < 0, jnp.iinfo(whole).min - bits, bits)


def _from_rank(rank: Array, dtype) -> Array:
    bits = jnp.where(rank < 0, jnp.iinfo(rank.dtype).min - rank, rank)
    return jax.lax.bitcast_convert_type(bits, dtype)
