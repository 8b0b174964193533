r"""Neural ordinary differential equations: a network as a vector field, solved in fixed or adaptive steps.

Model.       $\dot h = f_\theta(t, h)$, $h(t_0) = x$; the output is $h(t_1)$.
Fixed.       Euler, midpoint, Heun and RK4 steps (`core.runge_kutta`); a residual network $h_{k+1} = h_k +
             \Delta f_k(h_k)$ is Euler's rule for a field that may change at each step (`residual`).
Adaptive.    Dormand and Prince's rule of order 5 whose steps are chosen by its embedded error (`diffrax`).
Gradients.   "backpropagation" differentiates the steps that were made: exact for the numbers computed, memory
             by checkpoints. "adjoint" solves $\dot a = -a^\top \partial f/\partial h$ and $dL/d\theta =
             \int_{t_0}^{t_1} a^\top \partial f/\partial\theta\,dt$ backward with constant memory: that of the
             equation, which differs by the solver's error and fails where the way back is unstable.
Cost.        One value of $f$ per stage and step; the adjoint solves twice.
References.  Chen et al. (2018); Dormand and Prince (1980); Kidger (2022).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_count, check_entries, check_finite, check_option
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.runge_kutta import TABLEAUS, runge_kutta_step
from tractable.core.types import Array, ArrayLike, Float, Key

__all__ = ["NeuralODE", "TimeField", "solve_ode"]

VectorField = Callable[[Array, Any], Any]

_GRADIENTS = ("backpropagation", "adjoint")


def solve_ode(
    field: VectorField,
    start: Any,
    times: ArrayLike,
    *,
    method: str = "rk45",
    steps: int = 10,
    tol: float = 1e-6,
    gradient: str = "backpropagation",
    max_steps: int = 4096,
) -> Any:
    """The solution of $dh/dt$ = `field(t, h)` at `times`, up or down; `start` is at the first.

    "rk45" chooses its steps so that each errs by about `tol`, relative and absolute; "euler", "midpoint",
    "heun" and "rk4" make `steps` equal ones between two times. `start` is an array or a tree of arrays. What
    is to be differentiated in `field` must be its leaves: a module, not a closure.

    >>> growth = solve_ode(lambda t, y: y, jnp.ones(1), [0.0, 0.1, 0.2], method="euler", steps=1)
    >>> [round(float(y), 6) for y in growth[:, 0]]
    [1.0, 1.1, 1.21]
    """
    check_option("method", method, (*TABLEAUS, "rk45"))
    check_option("gradient", gradient, _GRADIENTS)
    start = jax.tree.map(lambda leaf: as_float("start", leaf), start)
    jax.tree.map(lambda leaf: check_finite("start", leaf), start)
    dtype = jnp.result_type(*jax.tree.leaves(start))
    moments = _moments(times).astype(dtype)
    if method == "rk45":
        check(tol > 0, "tol", "positive", tol)
        return _adaptive(field, start, moments, tol, gradient, check_count("max_steps", max_steps))
    fix = "Ask for method='rk45', or for gradient='backpropagation'."
    check(gradient == "backpropagation", "gradient", "backpropagation for fixed steps", repr(gradient), fix)
    return _fixed(field, start, moments, method, check_count("steps", steps))


class TimeField(eqx.Module):
    """A multilayer perceptron of the state and, if asked for, of the time: $f_\\theta(t, h)$ as a network."""

    network: eqx.nn.MLP
    with_time: bool = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        dim: int,
        width: int = 32,
        depth: int = 2,
        *,
        with_time: bool = False,
        dtype: Any = jnp.float32,
        key: Key,
    ):
        dim = check_count("dim", dim)
        self.network = eqx.nn.MLP(dim + with_time, dim, width, depth, jnp.tanh, dtype=dtype, key=key)
        self.with_time = with_time

    def __call__(self, t: Any, state: Float[Array, " d"]) -> Float[Array, " d"]:
        if not self.with_time:
            return self.network(state)
        return self.network(jnp.concatenate([state, jnp.full(1, t, state.dtype)]))


class NeuralODE(eqx.Module):
    """A layer whose output is the state at time `end` of the solution that begins at its input.

    >>> layer = NeuralODE(TimeField(2, 8, 1, key=jax.random.key(0)), method="rk4", steps=4)
    >>> layer(jnp.ones(2, "float32")).shape
    (2,)
    """

    field: VectorField
    end: float = eqx.field(static=True, default=1.0)
    method: str = eqx.field(static=True, default="rk45")
    steps: int = eqx.field(static=True, default=10)
    tol: float = eqx.field(static=True, default=1e-6)
    gradient: str = eqx.field(static=True, default="backpropagation")

    def __call__(self, start: Any, *, key: Key | None = None) -> Any:
        return jax.tree.map(lambda leaf: leaf[-1], self.path(start, jnp.asarray([0.0, self.end])))

    def path(self, start: Any, times: ArrayLike) -> Any:
        """The solution at `times`, the first of which is that of `start`."""
        options = {"method": self.method, "steps": self.steps, "tol": self.tol, "gradient": self.gradient}
        return solve_ode(self.field, start, times, **options)


def _moments(times: ArrayLike) -> Array:
    moments = as_float("times", times)
    fits = moments.ndim == 1 and moments.shape[0] > 1
    check(fits, "times", "a list of at least two numbers", f"shape {moments.shape}")
    check_finite("times", moments)
    gaps = jnp.diff(moments)
    check_entries(
        "times", gaps, lambda v: v * v[0] > 0, "strictly increasing or decreasing", got="a step of {}"
    )
    return moments


def _fixed(field: VectorField, start: Any, moments: Array, method: str, steps: int) -> Any:
    def between(state: Any, ends: tuple[Array, Array]) -> tuple[Any, Any]:
        begin, end = ends
        h = (end - begin) / steps

        def step(state: Any, k: Array) -> tuple[Any, None]:
            return runge_kutta_step(field, begin + k * h, state, h, method), None

        state = run(step, state, jnp.arange(steps, dtype=moments.dtype)).state
        return state, state

    path = run(between, start, (moments[:-1], moments[1:])).trace
    return jax.tree.map(lambda first, later: jnp.concatenate([first[None], later]), start, path)


def _adaptive(
    field: VectorField, start: Any, moments: Array, tol: float, gradient: str, max_steps: int
) -> Any:
    import diffrax

    ways = {"adjoint": diffrax.BacksolveAdjoint, "backpropagation": diffrax.RecursiveCheckpointAdjoint}
    with jax.numpy_rank_promotion("allow"):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(_called),  # pyright: ignore[reportArgumentType]
            diffrax.Dopri5(),
            moments[0],
            moments[-1],
            None,
            start,
            args=field,
            saveat=diffrax.SaveAt(ts=moments),
            stepsize_controller=diffrax.PIDController(rtol=tol, atol=tol),
            adjoint=ways[gradient](),
            max_steps=max_steps,
            throw=False,
        )
        said = (
            f"`field` must have a solution up to the last of `times`; got none in {max_steps} steps of rk45. "
        )
        fix = "Look for a singularity before it; raise `tol` or `max_steps`."
        return eqx.error_if(found.ys, found.result != diffrax.RESULTS.successful, said + fix)


def _called(t: Any, state: Any, field: VectorField) -> Any:
    return field(t, state)
