r"""Rules that replace a function of a Gaussian by an affine map with noise: the heart of every filter here.

Model.       $y = g(x) + \epsilon$ with $x \sim N(m, P)$; a rule gives $y \approx Ax + b + e$, $e \sim N(0,
             \Lambda)$.
Taylor.      $A = g'(m)$, $b = g(m) - Am$, $\Lambda = 0$ (the extended filter); to second order
             $b \mathrel{+}= \frac12 \mathrm{tr}(G_i P)$ and $\Lambda_{ij} = \frac12 \mathrm{tr}(G_i P G_j P)$
             with the Hessians $G_i$.
Points.      $x_k = m + P^{1/2} z_k$ with weights: $\hat y = \sum_k w_k g(x_k)$, $A = \mathrm{Cov}[y, x]
             P^{-1}$ (the best affine map) and $\Lambda$ the covariance of what it leaves. Unscented,
             cubature, Gauss-Hermite and fixed draws differ in $z_k$ and $w_k$ alone.
Linear.      Every rule is exact for affine $g$, with $\Lambda = 0$.
Cost.        One Jacobian (Hessian), or 2d + 1, 2d, $k^d$ or $n$ values of $g$; one solve with $P$.
References.  Julier and Uhlmann (1997); Arasaratnam and Haykin (2009); Sarkka (2013) chapters 5 and 6;
             Garcia-Fernandez et al. (2015), posterior linearisation.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.factors import psd_root
from tractable.core.module import Module, field
from tractable.core.types import Array, Float

__all__ = ["RULES", "Cubature", "Draws", "Hermite", "SigmaPoints", "Taylor", "Unscented", "as_rule"]

_MOST_POINTS = 100_000


class Affine(Module):
    r"""$y \approx Ax + b + e$ with $e \sim N(0, \Lambda)$, without the noise of the model."""

    weights: Float[Array, "y x"]
    bias: Float[Array, " y"]
    residual: Float[Array, "y y"]


class Taylor(Module):
    """The tangent at the mean (`order=1`: the extended Kalman filter), or moments to second order.

    >>> tangent = Taylor()(lambda x: x**2, jnp.ones(1), 0.5 * jnp.eye(1))
    >>> tangent.weights.tolist(), tangent.bias.tolist()
    ([[2.0]], [-1.0])
    """

    order: int = field(static=True, default=1)

    def __check_init__(self) -> None:
        check_count("order", self.order, 1, 2)

    def __call__(
        self, function: Callable[[Array], Array], mean: Array, cov: Array, root: Array | None = None
    ) -> Affine:
        slope, value = jax.jacfwd(function)(mean), function(mean)
        residual = jnp.zeros((value.size, value.size), value.dtype)
        if self.order == 2:
            curved = jax.jacfwd(jax.jacfwd(function))(mean) @ cov  # G_i P for each entry i
            value = value + 0.5 * jnp.trace(curved, axis1=1, axis2=2)
            residual = 0.5 * jnp.einsum("iab,jba->ij", curved, curved)
        return Affine(slope, value - slope @ mean, residual)


class SigmaPoints(Module):
    """Weighted points that stand for a standard normal vector: what the rules below have in common."""

    @abstractmethod
    def points(self, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The points, (n, d), their weights for means, and those for covariances."""

    def __call__(
        self, function: Callable[[Array], Array], mean: Array, cov: Array, root: Array | None = None
    ) -> Affine:
        """`root` is one of `cov`, where it is known: triangular, or of orthogonal columns."""
        z, weights, spread_weights = (jnp.asarray(part, mean.dtype) for part in self.points(mean.size))
        root = psd_root(cov) if root is None else root
        steps = z @ root.T
        values = jax.vmap(function)(mean[None] + steps)
        centre = weights @ values
        apart = values - centre[None]
        slope = _slope(root, (spread_weights[:, None] * apart).T @ z)
        left = apart - steps @ slope.T
        residual = (spread_weights[:, None] * left).T @ left
        return Affine(slope, centre - slope @ mean, residual)


class Unscented(SigmaPoints):
    r"""The centre and one pair of points on each axis, at $\pm\sqrt{d + \lambda}$, $\lambda = \alpha^2(d +
    \kappa) - d$.

    The defaults keep all weights from being negative, so that every covariance is one. Small $\alpha$, as in
    much code, gives weights of $\pm\alpha^{-2}$, whose rounding is lost.

    >>> square = Unscented()(lambda x: x**2, jnp.zeros(1), jnp.eye(1))  # exact: mean 1, variance 2
    >>> square.bias.tolist(), square.residual.round(12).tolist()
    ([1.0], [[2.0]])
    """

    alpha: float | int = field(static=True, default=1.0)
    beta: float | int = field(static=True, default=2.0)
    kappa: float | int = field(static=True, default=0.0)

    def __check_init__(self) -> None:
        check(self.alpha > 0, "alpha", "positive", self.alpha)

    def points(self, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        reach = self.alpha**2 * (dim + self.kappa)
        check(reach > 0, "kappa", f"larger than -{dim}, for a state of {dim} numbers", self.kappa)
        axes = np.sqrt(reach) * np.eye(dim)
        weights = np.full(2 * dim + 1, 1 / (2 * reach))
        weights[0] = (reach - dim) / reach
        spread = weights.copy()
        spread[0] += 1 - self.alpha**2 + self.beta
        return np.concatenate([np.zeros((1, dim)), axes, -axes]), weights, spread


class Cubature(SigmaPoints):
    """One pair of points on each axis at the square root of the dimension, all of one weight: exact for
    polynomials of degree three."""

    def points(self, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        axes = np.sqrt(dim) * np.eye(dim)
        weights = np.full(2 * dim, 1 / (2 * dim))
        return np.concatenate([axes, -axes]), weights, weights


class Hermite(SigmaPoints):
    """Products of Gauss-Hermite rules of `num` points on each axis: exact to degree `2 num - 1` in each."""

    num: int = field(static=True, default=5)

    def __check_init__(self) -> None:
        check_count("num", self.num, 2, 150)

    def points(self, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        fix = "Use `Unscented()`, `Cubature()` or `Draws()` in many dimensions."
        count = self.num**dim
        check(count <= _MOST_POINTS, "num", f"such that num**dim is at most {_MOST_POINTS}", count, fix)
        nodes, shares = np.polynomial.hermite_e.hermegauss(self.num)
        grid = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), -1).reshape((-1, dim))
        weights = np.stack(np.meshgrid(*[shares / shares.sum()] * dim, indexing="ij")).prod(0).reshape(-1)
        return grid, weights, weights


class Draws(SigmaPoints):
    """Monte Carlo: `num` normal draws in pairs of opposite signs, fixed by `seed`, moved so that their
    covariance is exactly the identity. Linear functions are then exact whatever was drawn."""

    num: int = field(static=True, default=200)
    seed: int = field(static=True, default=0)

    def points(self, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pairs = check_count("num", self.num) // 2
        must = f"at least {2 * dim}, twice the dimension of the state"
        check(pairs >= dim, "num", must, self.num)
        z = np.random.default_rng(self.seed).standard_normal((pairs, dim))
        z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / pairs)).T
        weights = np.full(2 * pairs, 1 / (2 * pairs))
        return np.concatenate([z, -z]), weights, weights


RULES: dict[str, Any] = {
    "extended": Taylor(),
    "second-order": Taylor(2),
    "unscented": Unscented(),
    "cubature": Cubature(),
    "hermite": Hermite(),
    "draws": Draws(),
}


def as_rule(rule: Any) -> Any:
    """A rule by its name, or as it is."""
    if isinstance(rule, Taylor | SigmaPoints):
        return rule
    check_option("rule", rule, tuple(RULES))
    return RULES[rule]


def _slope(root: Array, half: Array) -> Array:
    r"""$A$ with $A L = B$ for a triangular root $L$, or for one of orthogonal columns, some of them zero.

    A direction in which $x$ does not vary has no slope; what varies there by rounding stays in the residual.
    """
    size, dtype = len(root), root.dtype
    diagonal = jnp.diag(root)
    regular = (jnp.triu(root, 1) == 0).all() & (diagonal > 0).all()
    safe = jnp.where(regular, root, jnp.eye(size, dtype=dtype))
    lengths = (root**2).sum(0)
    kept = lengths > 10 * size * jnp.finfo(dtype).eps * lengths.sum()
    scaled = jnp.where(kept, 1 / jnp.where(kept, lengths, 1.0), 0.0)
    # an inverse of the root, which is one for all particles, not a solution for each
    inverse = jsl.solve_triangular(safe, jnp.eye(size, dtype=dtype), lower=True)
    return half @ jnp.where(regular, inverse, scaled[:, None] * root.T)


def reference_rule(dim: int) -> SigmaPoints:
    """Points that see products of entries and odd bends, by which the other rules are judged.

    Three on an axis would not do: a line passes through any odd function there.
    """
    return Hermite(4) if dim <= 4 else Draws(20 * dim)
