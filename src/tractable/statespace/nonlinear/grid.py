r"""The Bayes filter on a grid: any transition and any observation in one or two dimensions, to quadrature.

Model.       $x_0 \sim p(x_0)$, $x_t \sim p(x_t \mid x_{t-1})$, $y_t \sim p(y_t \mid x_t)$.
Recursion.   $p(x_t \mid y_{<t}) = \int p(x_t \mid x_{t-1})\,p(x_{t-1} \mid y_{<t})\,dx_{t-1}$, then
             $p(x_t \mid y_{\le t}) \propto p(y_t \mid x_t)\,p(x_t \mid y_{<t})$, whose normaliser $p(y_t \mid
             y_{<t})$ is the increment of the likelihood. With nodes $x_i$ and weights $w_i$ this is a chain
             over the nodes: $\phi_t(i) = p(y_t \mid x_i)$, $\psi(i, j) = p(x_j \mid x_i)\,w_j$.
Lost.        $|1 - \sum_j p(x_j \mid x_i)\,w_j|$ under the filter's belief: what leaves the grid, or falls
             between its nodes. Nothing is normalised away; it is reported.
Cost.        $O(T K^2)$ for $K$ nodes, and $K^2$ densities (for each step where they depend on time).
References.  Kitagawa (1987), "Non-Gaussian state-space modeling"; Sarkka (2013) section 4.2.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check
from tractable.core.module import Module, field
from tractable.core.numerics import logsumexp
from tractable.core.programs import as_data, light, program
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.particles.filter import as_observations
from tractable.messages.chain import Chain, ChainBeliefs, forward_backward
from tractable.messages.gaussian_beliefs import Grid
from tractable.statespace.nonlinear.model import num_arguments

__all__ = ["GridFiltered", "grid_filter"]

_MOST_NODES = 10_000
_LOST = 1e-3  # of the mass, in all steps together
_FEW = 4.0  # nodes on each axis that a belief must rest on: a Gaussian whose deviation is one spacing


class GridFiltered(Module):
    """Beliefs on the nodes of a grid: of the filter, the prediction and the smoother, and the likelihood."""

    points: Float[Array, "k d"] = field(show=False)
    log_weights: Float[Array, " k"] = field(show=False)
    beliefs: ChainBeliefs = field(show=False)
    lost: Float[Array, " t"]  # of the mass, on the way to each time

    @property
    def log_likelihood(self) -> Scalar:
        r"""$\log p(y_{0:T-1})$."""
        return self.beliefs.log_total

    @property
    def log_increments(self) -> Float[Array, " t"]:
        r"""$\log p(y_t \mid y_{<t})$."""
        sums = logsumexp(self.beliefs.chain.log_nodes + self.beliefs.forward, axis=1)
        totals = sums + self.beliefs.forward_scales
        return jnp.diff(totals, prepend=jnp.zeros(1, totals.dtype))

    @property
    def filtered(self) -> Float[Array, "t k"]:
        """The mass of each node given the readings so far."""
        return self.beliefs.filtered

    @property
    def smoothed(self) -> Float[Array, "t k"]:
        """The mass of each node given all readings."""
        return self.beliefs.marginals

    def density(self, masses: Float[Array, "t k"]) -> Float[Array, "t k"]:
        """The density at the nodes, of masses."""
        return masses * jnp.exp(-self.log_weights)[None]

    def mean(self, masses: Float[Array, "t k"]) -> Float[Array, "t d"]:
        """The mean of each time under masses: `found.mean(found.filtered)`."""
        return masses @ self.points

    def cov(self, masses: Float[Array, "t k"]) -> Float[Array, "t d d"]:
        """The covariance of each time under masses."""
        apart = self.points[None] - self.mean(masses)[:, None]
        return jnp.einsum("tk,tka,tkb->tab", masses, apart, apart)

    @property
    def verdict(self) -> Verdict:
        """Whether the grid is wide and fine enough."""
        return _verdict(np.asarray(self.lost), np.asarray(self.filtered), self.points.shape[1])


def grid_filter(
    initial: Any,
    transition: Callable[..., Any],
    observation_log_density: Callable[..., Any],
    observations: ArrayLike,
    grid: Grid | tuple[Grid, ...],
    *,
    args: tuple = (),
) -> GridFiltered:
    r"""Filter and smooth `observations` on the nodes of one `messages.gaussian_beliefs.Grid`, or of several.

    `initial` has `log_prob`; `transition(x, *args)` or `transition(x, t, *args)` is the distribution of $x_t$
    given $x_{t-1} = x$; `observation_log_density(x, y, t, *args)` is $\log p(y_t = y \mid x_t = x)$. A state
    is a number on one grid, a vector on a tuple. A row of `observations` that is all NaN is missing.

    >>> from tractable.distributions.continuous import Normal
    >>> found = grid_filter(
    ...     Normal(0.0, 1.0), lambda x: Normal(0.9 * x, 1.0), lambda x, y, t: Normal(x, 1.0).log_prob(y),
    ...     [0.5, -1.0], Grid.uniform(-8.0, 8.0, 81),
    ... )
    >>> round(float(found.mean(found.filtered)[0, 0]), 6)  # exact: 0.5 / 2
    0.25
    """
    points, log_weights = _nodes(grid)
    ys, missing = as_observations(observations)
    args = as_data(args)
    timed = num_arguments(transition) - len(args) > 1
    scalar = isinstance(grid, Grid)
    functions = initial, transition, observation_log_density
    beliefs, lost = _passed(functions, ys, missing, points, log_weights, args, (scalar, timed))
    return GridFiltered(points, log_weights, beliefs, lost)


def _nodes(grid: Grid | tuple[Grid, ...]) -> tuple[Array, Array]:
    """The nodes, one row each, and their log-weights: products of all axes."""
    grids = (grid,) if isinstance(grid, Grid) else tuple(grid)
    check(1 <= len(grids) <= 3, "grid", "one grid, or a tuple of up to three", f"{len(grids)}")
    sizes = [len(axis.points) for axis in grids]
    fix = "Use fewer nodes, or `particle_filter`."
    check(np.prod(sizes) <= _MOST_NODES, "grid", f"of at most {_MOST_NODES} nodes", f"{sizes}", fix)
    axes = np.meshgrid(*(np.asarray(axis.points) for axis in grids), indexing="ij")
    weights = np.meshgrid(*(np.asarray(axis.log_weights) for axis in grids), indexing="ij")
    points = np.stack(axes, -1).reshape((-1, len(grids)))
    return as_float("grid", points), as_float("grid", np.sum(weights, axis=0).reshape(-1))


@program
@light
def _passed(
    functions: tuple, ys: Array, missing: Array, points: Array, log_weights: Array, args: tuple, kind: tuple
) -> tuple[ChainBeliefs, Array]:
    initial, transition, observation = functions
    scalar, timed = kind
    nodes = points[:, 0] if scalar else points

    def look(y: Array, absent: Array, t: Array) -> Array:
        logs = jax.vmap(lambda x: jnp.asarray(observation(x, y, t, *args)))(nodes)
        check(logs.ndim == 1, "observation_log_density", "one number", f"shape {logs.shape[1:]}")
        return jnp.where(absent, 0.0, logs)

    def moves(*when: Array) -> Array:
        def from_one(x: Array) -> Array:
            return transition(x, *when, *args).log_prob(nodes)

        return jax.lax.map(from_one, nodes) + log_weights[None]

    times = jnp.arange(len(ys))
    log_nodes = jax.vmap(look)(ys, missing, times)
    first = initial.log_prob(nodes) + log_weights
    log_pairs = jax.lax.map(moves, times[1:]) if timed else moves()
    beliefs = forward_backward(Chain(log_nodes.at[0].add(first), log_pairs))
    kept = jnp.exp(logsumexp(log_pairs, axis=-1))
    left = (beliefs.filtered[:-1] * jnp.abs(1 - kept if timed else 1 - kept[None])).sum(1)
    return beliefs, jnp.concatenate([jnp.abs(1 - jnp.exp(logsumexp(first)))[None], left])


def _verdict(lost: np.ndarray, filtered: np.ndarray, dim: int) -> Verdict:
    if np.isnan(filtered).any():
        t = int(np.isnan(filtered).any(1).argmax())
        return Verdict(False, f"Do not use: no node makes the readings possible, the first time at {t}.")
    total, worst = float(lost.sum()), int(lost.argmax())
    with np.errstate(divide="ignore", invalid="ignore"):
        entropies = -np.where(filtered > 0, filtered * np.log(filtered), 0.0).sum(1)
    fewest, t = float(np.exp(entropies.min())), int(entropies.argmin())
    numbers = {"lost": total, "fewest_nodes": fewest}
    if total > _LOST:
        said = (
            f"Do not use: {total:.2g} of the mass is off the grid or between its nodes, most at time {worst}."
        )
        return Verdict(False, f"{said} Make the grid wider or finer.", numbers)
    if fewest < _FEW**dim:
        said = f"Too coarse: at time {t} the belief rests on {fewest:.1f} nodes. Make the grid finer."
        return Verdict(False, said, numbers)
    said = (
        f"Good: {total:.1g} of the mass is lost in all, and every belief rests on {fewest:.0f} nodes or more."
    )
    return Verdict(True, said, numbers)
