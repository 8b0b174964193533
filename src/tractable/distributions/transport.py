r"""Optimal transport: Wasserstein distances on the line, between Gaussians and between clouds of points.

Distance.    $W_p^p(P, Q) = \inf_\pi E_\pi \|x - y\|^p$ over couplings $\pi$ of $P$ and $Q$.
On the line. $W_p^p = \int_0^1 |F^{-1}(u) - G^{-1}(u)|^p\,du$: for samples, sorting.
Gaussians.   $W_2^2 = \|\mu_1 - \mu_2\|^2 + \min_U \|S_1 - S_2 U\|_F^2$ over rotations $U$, with $S_i S_i^\top
             = \Sigma_i$ (the Bures distance): a sum of squares, exact also where the two nearly agree.
Finite.      A linear program; its dual is $\max\, \langle f, a \rangle + \langle g, b \rangle$ subject to
             $f_i + g_j \le C_{ij}$ (Kantorovich; for $p = 1$ the best 1-Lipschitz critic).
Cost.        $O(n \log n)$ on the line, $O(d^3)$ for Gaussians, $O(n^3)$ for an assignment of $n$ to $n$
             points.
References.  Peyre and Cuturi (2019), "Computational optimal transport", chapters 2-3.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_finite, check_nonnegative, is_concrete
from tractable.core.factors import psd_root
from tractable.core.geometry import pairwise, squared_euclidean
from tractable.core.module import Module
from tractable.core.numerics import safe_where
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.integrals import certified, integrate_quantiles, tabulate
from tractable.distributions.pairs import Comparable, over_units

__all__ = [
    "TransportPlan", "optimal_transport", "transport_cost", "transport_problem", "wasserstein",
    "wasserstein_gaussian", "wasserstein_samples",
]  # fmt: skip


class TransportPlan(Module):
    r"""The cheapest way to move mass `a` to mass `b`, and the prices that prove it.

    `plan[i, j]` is moved from $i$ to $j$; `cost` is $\langle P, C \rangle$; the potentials satisfy $f_i + g_j
    \le C_{ij}$ and $\langle f, a \rangle + \langle g, b \rangle$ is `dual_cost`, equal to `cost` at the
    optimum.
    """

    plan: Float[Array, "n m"]
    cost: Scalar
    dual_cost: Scalar
    row_potential: Float[Array, " n"]
    column_potential: Float[Array, " m"]

    @property
    def gap(self) -> Scalar:
        """`cost - dual_cost`: an upper bound on how far the plan is from the best."""
        return self.cost - self.dual_cost


def wasserstein(p: Comparable, q: Comparable, order: float = 1.0) -> Scalar:
    r"""$W_p(P, Q)$ of order $p$ = `order` between two distributions, or between two samples of equal weights.

    Samples of shape `(n,)` are sorted, clouds of shape `(n, d)` matched by a linear program. Distributions of
    one number are compared by quantiles; NaN if that integral does not reach eight digits (tails too heavy).
    Gaussians have a closed form for `order=2`, where also the squares of independent coordinates add.

    >>> float(wasserstein(jnp.array([0.0, 1.0, 3.0]), jnp.array([5.0, 6.0, 8.0])))
    5.0
    """
    check(order >= 1, "order", "a number of at least 1", order)
    if not isinstance(p, Distribution) and not isinstance(q, Distribution):
        return _between_samples(as_float("p", p), as_float("q", q), order)
    both = isinstance(p, Distribution) and isinstance(q, Distribution)
    check(both, "q", "a distribution exactly if `p` is", type(q).__name__, error=TypeError)
    check(p.shape == q.shape, "q", f"of the shape of `p`, {p.shape}", q.shape)
    if isinstance(p, Gaussian) and isinstance(q, Gaussian) and order == 2:
        return wasserstein_gaussian(p, q)
    if p.shape == () and p.discrete and q.discrete:
        return _between_tables(p, q, order)
    known = isinstance(p, Univariate) and isinstance(q, Univariate)
    fix = "For others compare samples: `wasserstein(p.sample(key, (n,)), q.sample(other_key, (n,)))`."
    got = f"{type(p).__name__} and {type(q).__name__} with order {order}"
    check(known, "p", "Gaussian (with order 2) or a distribution of one number, as `q`", got, fix)
    check(p.shape == () or order == 2, "order", f"2 for distributions of shape {p.shape}", order)
    total = over_units(lambda a, b: certified(integrate_quantiles(a, b, order)), p, q).sum()
    return _root(total, order)


def wasserstein_samples(
    x: ArrayLike,
    y: ArrayLike,
    order: float = 1.0,
    *,
    x_weights: ArrayLike | None = None,
    y_weights: ArrayLike | None = None,
) -> Scalar:
    r"""$W_p$ between two weighted samples of numbers: both are sorted, and equal shares of mass are matched
    in order.

    Differentiable in the points: for `order=1` the gradient is the sign of the direction in which mass has to
    move.
    """
    x, y = as_float("x", x), as_float("y", y)
    for name, values in (("x", x), ("y", y)):
        must = "a vector with at least one number"
        check(values.ndim == 1 and values.size > 0, name, must, f"shape {values.shape}")
    check(order >= 1, "order", "a number of at least 1", order)
    a, b = (
        _weights("x_weights", x_weights, x.size),
        _weights("y_weights", y_weights, y.size),
    )
    return _root(_matched_cost(x, a, y, b, order), order)


def wasserstein_gaussian(p: Gaussian, q: Gaussian, *, squared: bool = False) -> Scalar:
    r"""$W_2$ between Gaussians; its square is differentiable also where the two are equal.

    >>> p, q = Gaussian(jnp.zeros(2), jnp.eye(2)), Gaussian(jnp.array([3.0, 4.0]), jnp.eye(2))
    >>> float(wasserstein_gaussian(p, q))
    5.0
    """
    check(p.shape == q.shape, "q", f"of the shape of `p`, {p.shape}", q.shape)
    total = over_units(_bures_squared, p, q).sum()
    return total if squared else _root(total, 2.0)


def optimal_transport(
    cost: ArrayLike, a: ArrayLike | None = None, b: ArrayLike | None = None
) -> TransportPlan:
    r"""The plan $P \ge 0$ with row sums `a` and column sums `b` (equal by default) that minimises $\langle P,
    C \rangle$.

    Solved exactly by a linear program (HiGHS) outside JAX, also from within `jit`; `cost` carries the
    gradient $P$ with respect to $C$ and the potentials with respect to the weights.

    >>> abs(optimal_transport(jnp.array([[0.0, 1.0], [1.0, 0.0]])).plan)
    Array([[0.5, 0. ],
           [0. , 0.5]], dtype=float64)
    """
    c, a, b = transport_problem(cost, a, b)
    n, m = c.shape
    fixed = jax.lax.stop_gradient((c, a, b))
    if all(is_concrete(v) for v in fixed):
        solved = [jnp.asarray(v, c.dtype) for v in _solve_program(*fixed)]
    else:
        shapes = [jax.ShapeDtypeStruct(shape, c.dtype) for shape in ((n, m), (n,), (m,))]
        solved = jax.pure_callback(_solve_program, shapes, *fixed, vmap_method="sequential")
    plan, f, g = solved
    # The added terms are zero; they give the envelope's gradient with respect to the weights.
    value = (plan * c).sum() + f @ (a - fixed[1]) + g @ (b - fixed[2])
    return TransportPlan(plan, value, f @ a + g @ b, f, g)


def transport_cost(x: ArrayLike, y: ArrayLike, order: float = 2.0) -> Float[Array, "n m"]:
    r"""$C_{ij} = \|x_i - y_j\|^p$ with $p$ = `order` between the rows of two clouds of points."""
    x, y = as_float("x", x), as_float("y", y)
    rows = x.ndim == 2 and y.ndim == 2 and x.shape[1] == y.shape[1] and x.size > 0 and y.size > 0
    check(rows, "x", "points in rows, with the columns of `y`", f"shapes {x.shape} and {y.shape}")
    return _distances(x, y) if order == 2 else _root(_distances(x, y), 2.0 / order)


def transport_problem(
    cost: ArrayLike, a: ArrayLike | None, b: ArrayLike | None
) -> tuple[Array, Array, Array]:
    """The matrix of costs and the weights of its rows and columns, checked."""
    c = as_float("cost", cost)
    check(c.ndim == 2 and c.size > 0, "cost", "a matrix with at least one entry", f"shape {c.shape}")
    check_finite("cost", c)
    return c, _weights("a", a, c.shape[0]), _weights("b", b, c.shape[1])


def _weights(name: str, weights: ArrayLike | None, n: int) -> Float[Array, " n"]:
    """One weight per point, equal if none are given, divided by their sum."""
    if weights is None:
        return jnp.full(n, 1.0 / n)
    w = as_float(name, weights)
    check(w.shape == (n,), name, f"one number per point, shape ({n},)", f"shape {w.shape}")
    if is_concrete(w):
        check_nonnegative(name, w)
        check(float(w.sum()) > 0, name, "positive in total", float(w.sum()))
    return w / w.sum()


def _between_tables(p: Distribution, q: Distribution, order: float) -> Scalar:
    (x, a), (y, b) = tabulate(p), tabulate(q)
    return wasserstein_samples(x, y, order, x_weights=a, y_weights=b)


def _between_samples(x: Array, y: Array, order: float) -> Scalar:
    if x.ndim == 1 and y.ndim == 1:
        return wasserstein_samples(x, y, order)
    cost = transport_cost(x, y, order)
    if x.shape != y.shape:
        return _root(optimal_transport(cost).cost, order)
    check_finite("p", x)
    check_finite("q", y)
    partner = _assignment(jax.lax.stop_gradient(cost))
    return _root(jnp.take_along_axis(cost, partner[:, None], 1).mean(), order)


def _root(total: Array, order: float) -> Array:
    r"""$t^{1/p}$ with gradient 0 rather than NaN at 0, where there is none."""
    return total if order == 1 else safe_where(total > 0, lambda t: t ** (1 / order), total, total)


@jax.jit
def _distances(x: Array, y: Array) -> Array:
    return pairwise(squared_euclidean, x, y)


@jax.jit
def _matched_cost(x: Array, a: Array, y: Array, b: Array, order: Any) -> Scalar:
    """The cost of the monotone coupling: between two successive levels of either step function, one x meets
    one y."""
    i, j = jnp.argsort(x), jnp.argsort(y)
    x_levels, y_levels = jnp.cumsum(a[i]), jnp.cumsum(b[j])
    levels = jnp.sort(jnp.concatenate([jnp.zeros(1, a.dtype), x_levels, y_levels]))
    share, middle = levels[1:] - levels[:-1], (levels[1:] + levels[:-1]) / 2
    at_x = jnp.clip(jnp.searchsorted(x_levels, middle), 0, x.size - 1)
    at_y = jnp.clip(jnp.searchsorted(y_levels, middle), 0, y.size - 1)
    distance = jnp.abs(x[i][at_x] - y[j][at_y])
    return (share * distance**order).sum()


def _bures_squared(p: Gaussian, q: Gaussian) -> Scalar:
    s, t = psd_root(p.cov), psd_root(q.cov)
    left, _, right = jnp.linalg.svd(jax.lax.stop_gradient(t.T @ s))
    rotation = left @ right  # optimal, so that its own derivative does not matter
    return ((p.mean - q.mean) ** 2).sum() + ((s - t @ rotation) ** 2).sum()


def _assignment(cost: Array) -> Array:
    """The column matched to each row at least total cost: equal weights make the linear program an
    assignment."""

    def match(values):
        from scipy.optimize import linear_sum_assignment

        return linear_sum_assignment(np.asarray(values))[1].astype(np.int32)

    if is_concrete(cost):
        return jnp.asarray(match(cost))
    return jax.pure_callback(
        match, jax.ShapeDtypeStruct(cost.shape[:1], np.int32), cost, vmap_method="sequential"
    )


def _solve_program(cost: Any, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Plan and potentials from HiGHS, on the host and in float64."""
    import scipy.optimize
    import scipy.sparse

    cost, a, b = (np.asarray(v, float) for v in (cost, a, b))
    n, m = cost.shape
    rows = scipy.sparse.kron(scipy.sparse.eye_array(n), np.ones((1, m)))
    columns = scipy.sparse.kron(np.ones((1, n)), scipy.sparse.eye_array(m))
    solution = scipy.optimize.linprog(
        cost.ravel(),
        A_eq=scipy.sparse.vstack([rows, columns], format="csr"),
        b_eq=np.concatenate([a / a.sum(), b / b.sum()]),
        method="highs",
    )
    check(solution.status == 0, "cost", "solvable by a linear program", solution.message, error=RuntimeError)
    potentials = solution.eqlin.marginals
    return solution.x.reshape(n, m), potentials[:n], potentials[n:]
