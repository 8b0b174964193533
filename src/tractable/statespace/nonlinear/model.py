r"""A state-space model whose transition and observation are any functions, with additive Gaussian noise.

Model.       $x_0 \sim N(m, P)$, $x_{t+1} = f(x_t, t, u_t) + q_t$, $q_t \sim N(0, Q_t)$, $y_t = h(x_t, t, u_t)
             + r_t$, $r_t \sim N(0, R_t)$, for $t = 0 \dots T - 1$. A function takes as many of $(x, t, u)$
             as it has arguments. An entry of $y$ that is NaN is missing.
Cost.        Drawing a path takes one value of each function per time.
References.  Sarkka (2013) chapter 5.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries
from tractable.core.factors import psd_root
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.programs import light, program
from tractable.core.support import psd, real
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.core.user_code import call_user
from tractable.distributions.gaussian import Gaussian
from tractable.statespace.nonlinear.captured import Captured, as_function

__all__ = ["Dynamics"]


class Dynamics(Module):
    """The model itself: its two functions, its noises, and where it begins."""

    transition: Callable[..., Any] = field(converter=as_function)
    transition_cov: Float[Array, "..."] = field(support=psd)
    observation: Callable[..., Any] = field(converter=as_function)
    observation_cov: Float[Array, "..."] = field(support=psd)
    initial_mean: Float[Array, "..."] = field(support=real, rank=1)
    initial_cov: Float[Array, "..."] = field(support=psd)

    def __check_init__(self) -> None:
        check(self.initial_mean.ndim == 1, "initial_mean", "a vector", f"shape {self.initial_mean.shape}")
        d = self.dim
        for name in ("transition", "observation"):
            given = callable(getattr(self, name))
            check(given, name, "a function of the state", type(getattr(self, name)).__name__, error=TypeError)
        check(self.initial_cov.shape == (d, d), "initial_cov", f"of shape ({d}, {d})", self.initial_cov.shape)
        cov = self.transition_cov.shape
        check(
            cov[-2:] == (d, d) and len(cov) < 4,
            "transition_cov",
            f"of shape ({d}, {d}), or one per step",
            cov,
        )
        cov = self.observation_cov.shape
        check(len(cov) < 4, "observation_cov", "a matrix, or one per time", f"shape {cov}")

    @property
    def dim(self) -> int:
        """How many numbers the state has."""
        return self.initial_mean.shape[0]

    @property
    def num_readings(self) -> int:
        """How many numbers are read at each time."""
        return self.observation_cov.shape[-1]

    def move(self, x: Array, t: Array, u: Any = None) -> Array:
        r"""$f(x, t, u)$, checked."""
        return self._called("transition", self.dim, x, t, u)

    def look(self, x: Array, t: Array, u: Any = None) -> Array:
        r"""$h(x, t, u)$, checked."""
        return self._called("observation", self.num_readings, x, t, u)

    def covs(self, length: int) -> tuple[Array, Array]:
        """The noise of each of `length - 1` steps, and of each reading."""
        d, m = self.dim, self.num_readings
        self.check_covs(length)
        moves = jnp.broadcast_to(self.transition_cov, (length - 1, d, d))
        return moves, jnp.broadcast_to(self.observation_cov, (length, m, m))

    def check_covs(self, length: int) -> None:
        """Whether there is one matrix for all of `length` times, or one for each."""
        for name, cov, count in (
            ("transition_cov", self.transition_cov, length - 1),
            ("observation_cov", self.observation_cov, length),
        ):
            must = f"one matrix, or {count} for {length} times"
            check(cov.ndim == 2 or len(cov) == count, name, must, f"shape {cov.shape}")

    def readings(self, y: ArrayLike) -> Array:
        """`y` as (times, entries), checked; a vector is one number at each time."""
        rows = as_float("y", y)
        rows = rows.reshape((-1, 1)) if rows.ndim == 1 and self.num_readings == 1 else rows
        fits = rows.ndim == 2 and rows.shape[1] == self.num_readings and len(rows) > 0
        must = f"of shape (times, {self.num_readings}), at least one time"
        check(fits, "y", must, f"shape {rows.shape}")
        fix = "Write NaN for what is missing."
        check_entries("y", rows, lambda v: ~np.isinf(v), "finite, or NaN", fix)
        self.check_covs(len(rows))
        return rows

    def inputs_of(self, inputs: ArrayLike | None, length: int) -> Any:
        """What is known of each time, one row each; None where no function takes it."""
        wanted = max(num_arguments(self.transition), num_arguments(self.observation)) > 2
        if inputs is None:
            must = f"given, one row for each of {length} times: a function takes three arguments"
            check(not wanted, "inputs", must, None)
            return None
        rows = as_float("inputs", inputs)
        check(rows.ndim > 0 and len(rows) == length, "inputs", f"of {length} rows, one per time", rows.shape)
        return rows

    def initial(self) -> Gaussian:
        """The law of the first state."""
        return Gaussian(self.initial_mean, self.initial_cov)

    def _called(self, name: str, size: int, x: Array, t: Array, u: Any) -> Array:
        function = getattr(self, name)
        value = call_user(name, function, *(x, t, u)[: num_arguments(function)])
        value = jnp.asarray(value)
        fix = "Join its entries by `jax.numpy.stack` or `array`." if value.ndim != 1 else ""
        must = f"a function that returns a vector of {size}"
        check(value.shape == (size,), name, must, f"shape {value.shape}", fix)
        return value.astype(x.dtype)


def num_arguments(function: Callable[..., Any]) -> int:
    """How many of (x, t, u) a function takes: those without a default."""
    function = function.rebuilt() if isinstance(function, Captured) else function
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions of C
        return 1
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 3
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(each.kind in places and each.default is each.empty for each in parameters)
    check(1 <= count <= 3, "function", "a function of (x), (x, t) or (x, t, u)", f"{count} arguments")
    return count


def simulate(model: Dynamics, key: Key, length: int, num_paths: int, inputs: Any) -> tuple[Array, Array]:
    """Paths of the states, `(paths, length, d)`, and of their readings, `(paths, length, m)`."""
    length, num_paths = check_count("length", length), check_count("num_paths", num_paths)
    model.check_covs(length)
    return _simulated(model, key, length, num_paths, model.inputs_of(inputs, length))


@program
@light
def _simulated(model: Dynamics, key: Key, length: int, num: int, inputs: Any) -> tuple[Array, Array]:
    move_covs, look_covs = model.covs(length)
    roots, errors = jax.lax.map(psd_root, move_covs), jax.lax.map(psd_root, look_covs)
    key_states, key_readings = jr.split(key)
    noise = jr.normal(key_states, (length, num, model.dim), model.initial_mean.dtype)
    first = model.initial_mean[None] + noise[0] @ psd_root(model.initial_cov).T

    def step(x: Array, each: tuple) -> tuple[Array, Array]:
        t, u, root, z = each
        x = jax.vmap(lambda one: model.move(one, t, u))(x) + z @ root.T
        return x, x

    times = jnp.arange(length)
    before = jax.tree.map(lambda leaf: leaf[:-1], inputs)
    later = run(step, first, (times[:-1], before, roots, noise[1:])).trace
    states = jnp.concatenate([first[None], later])
    z = jr.normal(key_readings, (length, num, model.num_readings), states.dtype)
    seen = jax.vmap(lambda x, t, u: jax.vmap(lambda one: model.look(one, t, u))(x))(states, times, inputs)
    readings = seen + z @ jnp.swapaxes(errors, 1, 2)
    return jnp.swapaxes(states, 0, 1), jnp.swapaxes(readings, 0, 1)
