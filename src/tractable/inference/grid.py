r"""Posteriors in one to three dimensions by quadrature on a box: everything, with an error that is measured.

Rule.        Gauss-Legendre on panels of each axis, and their products; $\log Z$ is computed twice, with fewer
             nodes the second time, and the difference is its error.
Identities.  $p(D) = \int p(D \mid \theta) p(\theta) d\theta$,
             $p(\theta \mid D) = p(D \mid \theta) p(\theta)/p(D)$,
             $p(y \mid D) = \int p(y \mid \theta) p(\theta \mid D) d\theta$, the mode
             $\arg\max_\theta p(\theta \mid D)$, marginals and their quantiles.
Cost.        (nodes per axis) to the power of the dimension: $96^3$ is a million evaluations.
References.  Davis and Rabinowitz (1984) sections 2.7 and 5.6.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, to_device
from tractable.core.estimate import Estimate
from tractable.core.numerics import logsumexp
from tractable.core.programs import as_data, light, program
from tractable.core.quadrature import panels
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.inverse import Tabulated
from tractable.inference.posterior import Posterior, as_one_chain

__all__ = ["GridPosterior", "grid_posterior", "values_at"]

_ORDER, _CHECK = 12, 9  # nodes per panel, and nodes of the rule that it is checked against
_DRAWS = 4000  # that stand for the posterior where draws are asked for
_BATCH = (128, 1024, 4096)  # points that are evaluated together, by dimension
_TOGETHER = 32  # of which so many at once: what a density needs for a thousand points may not fit the cache
_WINDOW = (65, 25, 9, 5)  # points along an axis of a window about the mode
_FINE = 1024  # pieces per panel in which a marginal is tabulated: quantiles to a millionth of a panel


class GridPosterior(Posterior):
    """A posterior on the nodes of a quadrature rule, its evidence, and how far both can be trusted."""

    points: Float[Array, "n d"]
    log_masses: Float[Array, " n"]  # of each node, normalised: they include the rule's weights
    log_densities: Float[Array, " n"]  # of the posterior at each node
    log_marginal: Estimate  # its standard error is the difference of two rules
    mode: Float[Array, " d"]
    edge: Scalar  # the largest density on the rim of the box, as a share of the largest of all
    edges: tuple[np.ndarray, ...] = eqx.field(converter=tuple)
    _shown = ("points", "log_evidence", "mode", "mean")

    def _chains(self) -> Array:
        return as_one_chain(self.sample(jr.key(0), (_DRAWS,)))

    @property
    def log_evidence(self) -> Estimate:
        """The integral of the density over the box; its error is the difference of two rules."""
        return self.log_marginal

    @property
    def dim(self) -> int:
        return self.points.shape[1]

    def expectation(self, function: Callable[[Array], Any]) -> Array:
        r"""$E[f(\theta) \mid D]$ for `function` of one point."""
        return _expectation(function, self.points, self.log_masses)

    @property
    def mean(self) -> Array:
        return self.expectation(lambda point: point)

    @property
    def cov(self) -> Array:
        mean = self.mean
        return self.expectation(lambda point: jnp.outer(point - mean, point - mean))

    def predictive_log_prob(self, log_likelihood: Callable[[Any, Array], Any], y: Any) -> Array:
        r"""$\log p(y \mid D)$ for `log_likelihood(y, point)`, for each entry along the first axis of `y`."""
        return _predictive(log_likelihood, y, self.points, self.log_masses)

    def marginal(self, axis: int = 0) -> Tabulated:
        """The marginal of one coordinate, tabulated finely: its `cdf`, `icdf` and draws."""
        axis = check_count("axis", axis, least=0, most=self.dim - 1)
        lengths = [(len(edge) - 1) * _ORDER for edge in self.edges]
        others = tuple(i for i in range(self.dim) if i != axis)
        masses = np.exp(np.asarray(self.log_masses)).reshape(lengths).sum(others)
        return _tabulated(masses.reshape((-1, _ORDER)), self.edges[axis])

    def interval(self, mass: float = 0.95, axis: int = 0) -> tuple[Scalar, Scalar]:
        """The central interval of one coordinate that holds `mass` of the posterior."""
        check(0 < mass < 1, "mass", "between 0 and 1", mass)
        low, high = self.marginal(axis).icdf(jnp.asarray([(1 - mass) / 2, (1 + mass) / 2]))
        return low, high

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Array:
        """Draws of the nodes by their masses: as fine as the grid."""
        index = jr.categorical(key, self.log_masses, shape=tuple(shape))
        return self.points[index]

    @property
    def verdict(self) -> Verdict:
        """How far to trust the grid."""
        error, edge = float(self.log_evidence.standard_error), float(self.edge)
        if not error < 1e-3:
            said = f"Too coarse: two rules differ by {error:.2g} in the log evidence. Use more panels."
        elif edge > 1e-6:
            rim = f"the density on the rim is {edge:.2g} of its largest value"
            said = f"Accurate inside the box; {rim}: widen the box unless the support ends there."
        else:
            said = "Accurate: two rules agree, and the box holds all of the mass."
        return Verdict(error < 1e-3, said, {"error": error, "edge": edge})


def grid_posterior(
    log_density: Callable[..., Any],
    low: ArrayLike,
    high: ArrayLike,
    *,
    num_panels: int = 8,
    args: tuple = (),
) -> GridPosterior:
    r"""The posterior $\propto$ `exp(log_density(point, *args))` on the box from `low` to `high`.

    `log_density` is $\log p(D \mid \theta) + \log p(\theta)$ at one point: a vector, or a number if `low` and
    `high` are numbers.

    >>> post = grid_posterior(lambda p: 3 * jnp.log(p) + jnp.log1p(-p), 0.0, 1.0)  # three of four, flat prior
    >>> round(float(jnp.exp(post.log_evidence.value)), 6), round(float(post.mode[0]), 3)  # B(4, 2), 3/4
    (0.05, 0.75)
    """
    lows, highs = as_float("low", low), as_float("high", high)
    must = f"of the shape of `low` {lows.shape}"
    check(lows.shape == highs.shape and lows.ndim < 2, "high", must, highs.shape)
    check_finite("low", lows)
    check_finite("high", highs)
    num_panels, dim = check_count("num_panels", num_panels), max(lows.size, 1)
    check(dim <= 4, "low", "of at most four dimensions", dim, "Use `importance`, `vi` or a chain.")
    box = list(zip(np.asarray(lows).reshape(-1).tolist(), np.asarray(highs).reshape(-1).tolist()))
    edges = tuple(panels(a, b, parts=num_panels) for a, b in box)
    scalar, args = lows.ndim == 0, as_data(args)

    def values(points: np.ndarray) -> np.ndarray:
        return values_at(log_density, points, args, scalar)

    points, weights = _product(edges, _ORDER)
    log_p = values(points)
    check(not np.isnan(log_p).any(), "log_density", "a number or minus infinity in the box", "NaN")
    log_z = _total(log_p, weights)
    check(log_z > -np.inf, "log_density", "above minus infinity somewhere in the box", "nowhere")
    others, other_weights = _product(edges, _CHECK)
    error = abs(log_z - _total(values(others), other_weights))
    edge = np.exp(min(values(_rim(edges)).max() - log_p.max(), 0.0))
    mode = _climbed(values, points[log_p.argmax()], edges)
    found = Estimate(_device(log_z), _device(error), method="quadrature")
    masses, densities = _device(log_p + np.log(weights) - log_z), _device(log_p - log_z)
    return GridPosterior(_device(points), masses, densities, found, _device(mode), _device(edge), edges)


def values_at(
    log_density: Callable, points: np.ndarray, args: tuple = (), scalar: bool = False
) -> np.ndarray:
    """The density at each of the points, in batches of one size: one program for any number of them."""
    count, dim = points.shape
    size = _BATCH[min(dim, len(_BATCH)) - 1]
    parts = [points[start : start + size] for start in range(0, count, size)]
    found = [_at_batch(log_density, _device(_padded(part, size)), args, scalar) for part in parts]
    return np.concatenate([np.asarray(part) for part in found])[:count]


def _device(value: Any) -> Array:
    return to_device(np.asarray(value))


def _padded(points: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([points, np.broadcast_to(points[-1:], (size - len(points), points.shape[1]))])


def _total(log_p: np.ndarray, weights: np.ndarray) -> float:
    r"""$\log \sum_i w_i p_i$."""
    top = log_p.max()
    with np.errstate(divide="ignore"):
        return float(top if top == -np.inf else top + np.log(weights @ np.exp(log_p - top)))


def _axis(edges: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre on each panel of one axis."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return (middle + half * nodes).ravel(), (half * weights).ravel()


def _product(edges: tuple[np.ndarray, ...], order: int) -> tuple[np.ndarray, np.ndarray]:
    axes = [_axis(edge, order) for edge in edges]
    points = np.stack(np.meshgrid(*(nodes for nodes, _ in axes), indexing="ij"), -1)
    weights = np.stack(np.meshgrid(*(weight for _, weight in axes), indexing="ij")).prod(0)
    return points.reshape((-1, len(edges))), weights.reshape(-1)


def _rim(edges: tuple[np.ndarray, ...]) -> np.ndarray:
    """Points near the faces of the box: the outermost nodes of one axis, all nodes of the others."""
    nodes = [_axis(edge, 3)[0] for edge in edges]
    faces = []
    for axis in range(len(edges)):
        pinned = [line[[0, -1]] if i == axis else line for i, line in enumerate(nodes)]
        faces.append(np.stack(np.meshgrid(*pinned, indexing="ij"), -1).reshape((-1, len(edges))))
    return np.concatenate(faces)


def _at(log_density: Callable, point: Array, args: tuple, scalar: bool) -> Array:
    return jnp.asarray(log_density(point[0] if scalar else point, *args), point.dtype)


@program
@light
def _at_batch(log_density: Callable, points: Array, args: tuple, scalar: bool) -> Array:
    log_p = jax.lax.map(lambda point: _at(log_density, point, args, scalar), points, batch_size=_TOGETHER)
    check(log_p.ndim == 1, "log_density", "one number per point", f"shape {log_p.shape[1:]}")
    return log_p


def _climbed(values: Callable, start: np.ndarray, edges: tuple[np.ndarray, ...]) -> np.ndarray:
    """The mode: from the best node upwards by narrowing windows of points, which needs no gradient."""
    dim, num = len(edges), _WINDOW[len(edges) - 1]
    width = np.array([np.diff(edge).max() for edge in edges])
    low, high = (np.array([edge[i] for edge in edges]) for i in (0, -1))
    axis = np.linspace(-1, 1, num)
    cube = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), -1).reshape((-1, dim))
    centre, share = start, 1.0
    while share > 1e-12:  # of a panel: far below the rounding of a smooth maximum, the root of the precision
        points = np.clip(centre + cube * width * share, low, high)
        centre = points[values(points).argmax()]
        share *= 3 / (num - 1)
    return centre


@program
def _expectation(function: Callable, points: Array, log_masses: Array) -> Array:
    values = jax.vmap(lambda point: jnp.asarray(function(point), points.dtype))(points)
    masses = jnp.exp(log_masses)
    return jnp.tensordot(
        masses, jnp.where((masses > 0).reshape((-1,) + (1,) * (values.ndim - 1)), values, 0.0), 1
    )


@program
def _predictive(log_likelihood: Callable, y: Any, points: Array, log_masses: Array) -> Array:
    def one(value):
        return logsumexp(jax.vmap(lambda point: log_likelihood(value, point))(points) + log_masses)

    return jax.vmap(one)(jax.tree.map(jnp.asarray, y))


def _tabulated(masses: np.ndarray, edges: np.ndarray) -> Tabulated:
    """The distribution function on a fine grid: the integral of the polynomial through each panel's nodes."""
    nodes, _ = np.polynomial.legendre.leggauss(_ORDER)
    ends = np.linspace(-1, 1, _FINE + 1)
    # Legendre coefficients of the density from its values at the nodes, then their antiderivative from -1
    degrees = np.arange(_ORDER)
    values = np.polynomial.legendre.legvander(nodes, _ORDER - 1)
    transform = (degrees[:, None] + 0.5) * values.T  # times masses: the weights are inside them
    primitive = np.stack([np.polynomial.legendre.Legendre.basis(k).integ(lbnd=-1)(ends) for k in degrees])
    inside = (masses @ transform.T) @ primitive
    before = np.concatenate([[0.0], np.cumsum(masses.sum(1))])[:-1]
    table = np.append((before[:, None] + inside[:, :-1]).ravel(), masses.sum())
    points = np.append((edges[:-1, None] + np.diff(edges)[:, None] * (ends[:-1] + 1) / 2).ravel(), edges[-1])
    # where the density is zero to rounding, the polynomial may dip below it
    rising = np.clip(np.maximum.accumulate(table) / table[-1], 0.0, 1.0)
    rising[0] = 0.0
    return Tabulated(jnp.asarray(points), jnp.asarray(rising))
