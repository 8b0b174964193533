r"""Gaussian latents of a program integrated exactly, from the residuals that are affine in them.

Dense.       $z \sim N(0, I_D)$ and standardised residuals $e(z) = e_0 + J z$ of the $n$ observed numbers:
             $\log \int N(z; 0, I)\, e^{-|e(z)|^2/2} dz = -\frac12(|e(\hat z)|^2 + |\hat z|^2 +
             \log|\Lambda|)$, $\Lambda = I + J^\top J$, $\hat z = -\Lambda^{-1} J^\top e_0$. With fewer
             numbers than latents the other side, $K = I + J J^\top$:
             $-\frac12(e_0^\top K^{-1} e_0 + \log|K|)$.
Sparse.      Residuals of all sites that touch the latents $x$, their own priors too, with a known pattern:
             $\log \int e^{-|e(x)|^2/2} dx$ by `messages.gaussian_field`. $J$ by column colouring: columns
             that share no row are pushed through together.
Constants.   The caller adds what a standardised residual leaves out, over the residuals that he gave: $-\sum
             \log|L| - \frac{n}{2} \log 2\pi$. It is the same for both routes.
Gradient.    Fisher's identity, $d \log Z = -E[e^\top\,de]$: $-\hat e^\top de_0 - \mathrm{tr}\{(\hat e \hat
             z^\top + J \Lambda^{-1})^\top dJ\}$; no derivative of a factor is taken.
Cost.        Dense $D$ or $n$ derivatives of $e$ and $O(n D \min(n, D))$; sparse one derivative for each
             colour.
References.  Rasmussen and Williams (2006) chapter 2; Doucet (2010), draws by conditioning; Curtis, Powell and
             Reid (1974), colouring.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import check
from tractable.core.factors import normal_log_density
from tractable.core.keys import takes_key
from tractable.core.linalg import PsdFactor, psd_factor
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.messages.gaussian_field import FieldPlan, GaussianField, plan_field

__all__ = ["Sparse", "Whitened", "choose_route", "colour_columns", "plan_sparse", "whitened"]

Residuals = Callable[[Array], Array]

_PUSHED, _FLOP = (
    2e-9,
    3e-10,
)  # seconds for a number pushed through `e`, and for one operation of dense algebra
_GAIN = 0.5  # the sparse route must take less than this part of the time of the dense one, which is safer


class Whitened(Module):
    r"""The belief about $z$: `log_integral` $= \log \int N(z; 0, I)\, e^{-|e(z)|^2/2} dz$, `mean`, draws.

    `factor` is that of $I + J^\top J$, or of $I + J J^\top$ where `wide` says that $J$ has more columns than
    rows.
    """

    log_integral: Scalar
    mean: Float[Array, " d"]
    offset: Float[Array, " n"]  # e(0)
    jacobian: Float[Array, "n d"]
    factor: PsdFactor
    wide: bool = field(static=True)

    @takes_key
    def draw(self, key: Key) -> Float[Array, " d"]:
        """One exact draw of $z$; `jax.vmap` over keys gives many."""
        own, other = jr.split(key)
        z = jr.normal(own, self.mean.shape, self.mean.dtype)
        if not self.wide:
            return self.mean + jsl.solve_triangular(self.factor.lower, z, lower=True, trans=1)
        noise = jr.normal(other, self.offset.shape, self.mean.dtype)
        return z - self.jacobian.T @ self.factor.solve(self.offset + self.jacobian @ z + noise)


def whitened(e: Residuals, size: int) -> Whitened:
    r"""The dense route, for an affine `e` of a vector of `size` numbers.

    >>> found = whitened(lambda z: (jnp.array([3.0, 1.5]) - z[0]) / 1.0, 1)  # N(0, 1) and two readings of it
    >>> round(float(found.log_integral), 6), found.mean.round(6).tolist()
    (-2.799306, [1.5])
    """
    offset, jacobian = _affine(e, size)
    factor, mean, _ = _solve(offset, jacobian)
    wide = jacobian.shape[0] < jacobian.shape[1]
    return Whitened(_log_integral(offset, jacobian), mean, offset, jacobian, factor, wide)


def _affine(e: Residuals, size: int) -> tuple[Array, Array]:
    """$e_0$ and $J$: columns by derivatives forward, or rows backward where there are fewer by far."""
    zero = jnp.zeros(size)
    offset, push = jax.linearize(e, zero)
    check(offset.ndim == 1, "e", "a function to a vector", f"shape {offset.shape}")
    if 2 * offset.size < size:
        pull = jax.linear_transpose(push, zero)
        return offset, jax.vmap(lambda row: pull(row)[0])(jnp.eye(offset.size, dtype=offset.dtype))
    return offset, jax.vmap(push, out_axes=1)(jnp.eye(size, dtype=zero.dtype))


def _solve(offset: Array, jacobian: Array) -> tuple[PsdFactor, Array, Array]:
    """The factor of the smaller side, the mean, and the residuals there."""
    n, d = jacobian.shape
    if n < d:
        factor = psd_factor(jnp.eye(n, dtype=jacobian.dtype) + jacobian @ jacobian.T)
        rest = factor.solve(offset)
        return factor, -jacobian.T @ rest, rest
    factor = psd_factor(jnp.eye(d, dtype=jacobian.dtype) + jacobian.T @ jacobian)
    mean = -factor.solve(jacobian.T @ offset)
    return factor, mean, offset + jacobian @ mean


@jax.custom_jvp
def _log_integral(offset: Array, jacobian: Array) -> Scalar:
    factor, mean, rest = _solve(offset, jacobian)
    return normal_log_density(rest @ rest + mean @ mean, factor.log_det(), 0)


@_log_integral.defjvp
def _log_integral_jvp(at: tuple, moved: tuple) -> tuple[Scalar, Scalar]:
    (offset, jacobian), (by, turned) = at, moved
    factor, mean, rest = _solve(offset, jacobian)
    value = normal_log_density(rest @ rest + mean @ mean, factor.log_det(), 0)
    n, d = jacobian.shape
    half = factor.solve(jacobian) if n < d else factor.solve(jacobian.T).T  # J Lambda^{-1}
    return value, -rest @ by - jnp.vdot(jnp.outer(rest, mean) + half, turned)


# --- the sparse route ----------------------------------------------------------------------------------


class Sparse(Module):
    """The plan of the sparse route; give it to compiled functions as an argument."""

    plan: FieldPlan
    colour: Int[Array, " d"] | Int[np.ndarray, " d"]  # of each column
    num_colours: int = field(static=True)

    def of(self, e: Residuals) -> GaussianField:
        r"""The belief about $x$ by the affine residuals `e` of all sites that touch it, their priors too:
        `log_integral` $= \log \int e^{-|e(x)|^2/2} dx$, `mean`, `draw(key)`, `variances()`."""
        offset, values = self.affine(e)
        return GaussianField.of(self.plan, values, offset)

    def affine(self, e: Residuals) -> tuple[Array, Array]:
        """$e_0$ and the entries of $J$, by one derivative for each colour."""
        offset, push = jax.linearize(e, jnp.zeros(self.plan.dim))
        check(offset.shape == self.plan.shape[:1], "e", f"{self.plan.shape[0]} residuals", offset.shape)
        colours = jnp.arange(self.num_colours, dtype=self.colour.dtype)
        seeds = (jnp.asarray(self.colour)[None] == colours[:, None]).astype(offset.dtype)
        pushed = jax.vmap(push)(seeds)
        return offset, pushed[jnp.asarray(self.colour)[self.plan.cols], self.plan.rows]

    def __str__(self) -> str:
        return f"{self.plan}; {self.num_colours} colour{'s' * (self.num_colours > 1)}"


def plan_sparse(rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int]) -> Sparse:
    """The plan for residuals with entries of $J$ at `rows` and `cols`, found on the host.

    >>> route = plan_sparse([0, 1, 1, 2], [0, 0, 1, 1], (3, 2))  # x_0; x_1 - x_0; a reading of x_1
    >>> found = route.of(lambda x: jnp.array([x[0], x[1] - x[0], x[1] - 3.0]))
    >>> found.mean.round(6).tolist(), route.num_colours
    ([1.0, 2.0], 2)
    """
    colour = colour_columns(rows, cols, shape[1])
    return Sparse(plan_field(rows, cols, shape), colour, int(colour.max()) + 1)


def colour_columns(rows: ArrayLike, cols: ArrayLike, num_columns: int) -> np.ndarray:
    """Colours of the columns, such that no row has entries in two columns of one colour (greedy, full columns
    first).

    >>> colour_columns([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 3], 4).tolist()
    [1, 0, 1, 0]
    """
    at, of = np.asarray(rows, np.int64), np.asarray(cols, np.int64)
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=num_columns)
    ends, entries = np.cumsum(counts), at[order].tolist()
    used = [0] * (int(at.max(initial=-1)) + 1)  # the colours in each row, as bits
    colour = np.zeros(num_columns, np.int32)
    for column in np.argsort(-counts, kind="stable").tolist():
        own = entries[ends[column] - counts[column] : ends[column]]
        taken = 0
        for row in own:
            taken |= used[row]
        free = ~taken & (taken + 1)  # the lowest bit that is not taken
        for row in own:
            used[row] |= free
        colour[column] = free.bit_length() - 1
    return colour


def choose_route(num_observed: int, route: Sparse) -> str:
    """ "sparse" or "dense", by predicted time; in doubt dense, which is right for any prior covariance.

    `num_observed` is the number of residuals of observed values alone, which the dense route has.
    """
    (all_rows, dim), plan = route.plan.shape, route.plan
    small = min(num_observed, dim)
    pushed = small * (num_observed + dim) * _PUSHED
    dense = pushed + _FLOP * (num_observed * dim * small * 3 + small**3)
    columns = route.num_colours * (all_rows + dim) * _PUSHED
    assembly = 1e-8 * len(plan.target) + _FLOP * plan.by_product * all_rows * plan.border**2
    return "sparse" if columns + assembly + 3 * plan.seconds < _GAIN * dense else "dense"
