r"""`NonlinearSystem`: the model with its questions, answered by moments, by particles or by draws.

Model.       $x_{t+1} = f(x_t, t, u_t) + q_t$, $y_t = h(x_t, t, u_t) + r_t$, Gaussian noise (`model`).
Moments.     Every rule of `rules`, by one engine (`filtering`); a linear system gives the Kalman filter to
             rounding.
Cost.        See `filtering` and `inference.particles.filter`.
References.  Sarkka (2013).
"""

from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_count, check_option, has_values
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.inference.particles.filter import Filtered
from tractable.inference.particles.smoothing import SmoothedPaths, backward_sample
from tractable.messages.gaussian_beliefs import Grid
from tractable.messages.gaussian_steps import FORMS
from tractable.statespace.kalman.passes import check_densities
from tractable.statespace.nonlinear.ensemble import EnsembleFiltered, ensemble_filter
from tractable.statespace.nonlinear.filtering import (
    NonlinearFiltered,
    NonlinearSmoothed,
    filter_by_moments,
    smooth_by_moments,
)
from tractable.statespace.nonlinear.grid import GridFiltered, grid_filter
from tractable.statespace.nonlinear.model import Dynamics, num_arguments, simulate
from tractable.statespace.nonlinear.particles import (
    Still,
    filter_by_particles,
    first_state,
    marked,
    moves_and_looks,
)
from tractable.statespace.nonlinear.rules import as_rule

__all__ = ["NonlinearForecast", "NonlinearSystem"]


class NonlinearForecast(Module):
    """The states and the readings of the times after the last reading."""

    states: Gaussian
    readings: Gaussian
    filtered: NonlinearFiltered

    @property
    def verdict(self) -> Any:
        """That of the filter and of the steps ahead."""
        return self.filtered.verdict


class NonlinearSystem(Dynamics):
    r"""$x_{t+1} = f(x_t) + q_t$, $y_t = h(x_t) + r_t$ with functions $f$ = `transition`, $h$ = `observation`.

    Both are written with `jax.numpy`, take (x), (x, t) or (x, t, u), and return vectors. Covariances are one
    matrix for all times, or one for each of $T - 1$ steps and of $T$ readings.

    >>> swing = lambda x: jnp.array([x[0] + 0.1 * x[1], x[1] - 0.98 * jnp.sin(x[0])])
    >>> system = NonlinearSystem(
    ...     swing, 0.01 * jnp.eye(2), lambda x: jnp.sin(x[:1]), [[0.1]], jnp.zeros(2), 0.1 * jnp.eye(2)
    ... )
    >>> found = system.filter(jnp.array([0.1, 0.2, jnp.nan, 0.1]), rule="unscented")
    >>> found.filtered.mean.shape, round(float(found.log_likelihood), 3)
    ((4, 2), -0.16)
    """

    def filter(
        self,
        y: ArrayLike,
        inputs: ArrayLike | None = None,
        *,
        rule: Any = "unscented",
        iterations: int = 1,
        form: str = "covariance",
    ) -> NonlinearFiltered:
        """Beliefs of each time from the readings so far, with each function made affine by `rule`.

        "extended" (tangents), "second-order", "unscented", "cubature", "hermite", "draws", or an object of
        `rules`. With more `iterations` each reading's map is made again about what the reading taught.
        """
        rows, known = self._asked(y, inputs, form)
        return filter_by_moments(
            self, rows, known, as_rule(rule), check_count("iterations", iterations), form
        )

    def smooth(
        self,
        y: ArrayLike,
        inputs: ArrayLike | None = None,
        *,
        rule: Any = "unscented",
        iterations: int = 1,
        passes: int = 1,
        form: str = "covariance",
    ) -> NonlinearSmoothed:
        """Beliefs of each time from all readings; further `passes` make all maps about these beliefs."""
        rows, known = self._asked(y, inputs, form)
        counts = check_count("iterations", iterations), check_count("passes", passes)
        return smooth_by_moments(self, rows, known, as_rule(rule), counts[0], form, counts[1])

    def log_likelihood(
        self,
        y: ArrayLike,
        inputs: ArrayLike | None = None,
        *,
        rule: Any = "unscented",
        iterations: int = 1,
        form: str = "covariance",
    ) -> Scalar:
        r"""$\log p(y)$ as the rule has it: exact for a linear system. The verdict of `filter` says how near
        to one the system is; `particle_filter` estimates the true one."""
        found = self.filter(y, inputs, rule=rule, iterations=iterations, form=form)
        if has_values(found.log_densities):
            check_densities(found.log_densities, "system")
        return found.log_likelihood

    def forecast(
        self, y: ArrayLike, steps: int, inputs: ArrayLike | None = None, *, rule: Any = "unscented"
    ) -> NonlinearForecast:
        """States and readings of the next `steps` times; `inputs` are of the past and the future."""
        rows = self.readings_alone(y)
        fits = rows.ndim == 2 and rows.shape[1] == self.num_readings
        check(fits, "y", f"of shape (times, {self.num_readings})", f"shape {rows.shape}")
        steps = check_count("steps", steps)
        ahead = jnp.full((steps, self.num_readings), jnp.nan, rows.dtype)
        found = self.filter(jnp.concatenate([rows, ahead]), inputs, rule=rule)
        states, readings = _ahead(found, steps)
        return NonlinearForecast(states, readings, found)

    @takes_key
    def sample(
        self, key: Key, length: int, num_paths: int = 1, inputs: ArrayLike | None = None
    ) -> tuple[Float[Array, "paths t d"], Float[Array, "paths t m"]]:
        """Paths of the states, `(paths, length, d)`, and of their readings, `(paths, length, m)`."""
        return simulate(self, key, length, num_paths, inputs)

    @takes_key
    def particle_filter(
        self,
        y: ArrayLike,
        inputs: ArrayLike | None = None,
        *,
        key: Key,
        proposal: str = "bootstrap",
        rule: Any = "unscented",
        **options: Any,
    ) -> Filtered:
        """The filter by particles, whose likelihood is unbiased whatever the functions are.

        `proposal` is "bootstrap" (the transition), "guided" (moved by a Gaussian that has seen the reading,
        by `rule`) or "auxiliary" (guided, and parents chosen by how well they predict the reading).
        `options` are those of `inference.particle_filter`: `num_particles`, `num_replicates`, ...
        """
        rows = self.readings(y)
        known = self.inputs_of(inputs, len(rows))
        return filter_by_particles(self, rows, known, key, proposal, as_rule(rule), options)

    @takes_key
    def sample_paths(
        self, found: Filtered, inputs: ArrayLike | None = None, *, key: Key, num_paths: int = 100
    ) -> SmoothedPaths:
        """Paths of the states given all readings, drawn backward through the particles of `found`."""
        mover, _ = moves_and_looks(self, self.inputs_of(inputs, found.ess.shape[1]))
        return backward_sample(found, mover, key=key, num_paths=num_paths)

    @takes_key
    def ensemble_filter(
        self,
        y: ArrayLike,
        inputs: ArrayLike | None = None,
        *,
        key: Key,
        num_members: int = 200,
        method: str = "stochastic",
        inflation: float | int = 1.0,
        localisation: ArrayLike | None = None,
    ) -> EnsembleFiltered:
        """The ensemble Kalman filter, "stochastic" or "square-root", for states of many entries."""
        options = num_members, method, inflation, localisation
        return ensemble_filter(self, y, key, inputs, *options)

    def grid_filter(self, y: ArrayLike, grid: Any, inputs: ArrayLike | None = None) -> GridFiltered:
        """The filter and smoother on the nodes of a `Grid` (or of a tuple, one for each entry of the state):
        exact to quadrature in one or two dimensions."""
        grids = (grid,) if isinstance(grid, Grid) else tuple(grid)
        must = f"one grid for each of the {self.dim} entries of the state"
        check(len(grids) == self.dim, "grid", must, f"{len(grids)} grids")
        rows = self.readings(y)
        changes = self.transition_cov.ndim > 2 or num_arguments(self.transition) > 1
        mover, looker = moves_and_looks(self, self.inputs_of(inputs, len(rows)))
        moves = mover if changes else Still(mover)
        return grid_filter(first_state(self), moves, looker, marked(rows), grids)

    def readings_alone(self, y: ArrayLike) -> Array:
        """`y` as rows; covariances of each time are those of a longer series."""
        rows = as_float("y", y)
        return rows[:, None] if rows.ndim == 1 and self.num_readings == 1 else rows

    def _asked(self, y: ArrayLike, inputs: ArrayLike | None, form: str) -> tuple[Array, Any]:
        check_option("form", form, tuple(FORMS))
        rows = self.readings(y)
        return rows, self.inputs_of(inputs, len(rows))


@program
def _ahead(found: NonlinearFiltered, steps: int) -> tuple[Gaussian, Gaussian]:
    """Beliefs of the last `steps` times, and of their readings."""
    states, looks = jax.tree.map(lambda leaf: leaf[-steps:], (found.predicted, found.chain.observation))
    readings, _ = jax.vmap(lambda look, state: look.marginal(state))(looks, states)
    return states, readings
