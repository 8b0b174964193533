r"""Hamiltonian motion in small steps that can be reversed and keep volume, so that one test corrects them.

Energy.      $H(x, p) = U(x) + K(p)$, $U = -\log\tilde p(x)$, $K = \frac12 p^\top M^{-1} p$;
             $\dot x = M^{-1} p$, $\dot p = \nabla\log\tilde p(x)$ keep $H$.
Leapfrog.    $p \mathrel{+}= \frac\epsilon2\nabla\log\tilde p(x)$, $x \mathrel{+}= \epsilon M^{-1} p$,
             $p \mathrel{+}= \frac\epsilon2\nabla\log\tilde p(x)$. Each line shears phase space: its Jacobian
             is 1. With $p \to -p$ the steps run backwards. The error of $H$ is $O(\epsilon^2)$ and does not
             grow, while $\epsilon\omega < 2$ for the fastest frequency $\omega$.
Euler.       Both updates from the old point: on the unit oscillator the Jacobian and the growth of $H$ are
             $1 + \epsilon^2$ per step. Not for sampling; here to be compared.
Cost.        One gradient per step: that of the last kick is the first of the next step.
References.  Duane, Kennedy, Pendleton and Roweth (1987); Neal (2011), "MCMC using Hamiltonian dynamics".
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_entries,
    check_finite,
    check_shape,
)
from tractable.core.iterate import run, run_until
from tractable.core.linalg import PsdFactor, psd_factor_checked
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.inference.samplers.sampler import ChainState, LogDensity

__all__ = ["Mass", "Phase", "euler", "follow", "leapfrog", "trajectory"]

State = TypeVar("State")
Differentiated = Callable[[Array], tuple[Array, Array]]  # a point to the log-density and its gradient


class Mass(Module):
    """The matrix of the kinetic energy: identity (`None`), diagonal (a vector) or dense (its factor)."""

    factor: Float[Array, " d"] | PsdFactor | None = None

    @staticmethod
    def of(mass: Any) -> "Mass":
        """From nothing, a vector of positive numbers, or a symmetric positive definite matrix."""
        if mass is None or isinstance(mass, Mass):
            return Mass() if mass is None else mass
        mass = as_float("mass", mass)
        fix = "Pass a vector for a diagonal matrix."
        check(mass.ndim in (1, 2), "mass", "a vector or a square matrix", f"shape {mass.shape}", fix)
        if mass.ndim == 2:
            return Mass(psd_factor_checked(mass, "mass"))
        check_finite("mass", mass)
        check_entries("mass", mass, lambda v: v > 0, "positive")
        return Mass(mass)

    def sample(self, key: Key, like: Float[Array, " d"]) -> Float[Array, " d"]:
        """A momentum $p \\sim N(0, M)$."""
        noise = jr.normal(key, like.shape, like.dtype)
        if isinstance(self.factor, PsdFactor):
            return self.factor.lower @ noise
        return noise if self.factor is None else jnp.sqrt(self.factor) * noise

    def velocity(self, momentum: Float[Array, " d"]) -> Float[Array, " d"]:
        """$M^{-1} p$."""
        if isinstance(self.factor, PsdFactor):
            return self.factor.solve(momentum)
        return momentum if self.factor is None else momentum / self.factor

    def energy(self, momentum: Float[Array, " d"]) -> Scalar:
        r"""$\frac12 p^\top M^{-1} p$."""
        return 0.5 * momentum @ self.velocity(momentum)


_UNIT = Mass()


class Phase(Module):
    """A point in motion, with what is known there."""

    position: Float[Array, "*n d"]
    momentum: Float[Array, "*n d"]
    log_density: Float[Array, "*n"]
    gradient: Float[Array, "*n d"]
    undefined: Any = False  # whether the density was not a number at some finite point of the path

    @staticmethod
    def of(state: ChainState, momentum: Float[Array, " d"]) -> "Phase":
        """A chain's point, set in motion."""
        return Phase(state.position, momentum, state.log_density, state.gradient, jnp.asarray(False))

    def moved(self, density: Differentiated, position: Float[Array, " d"], momentum: Array) -> "Phase":
        """The phase at another point: the one place where the density is evaluated."""
        value, gradient = density(position)
        undefined = self.undefined | (jnp.isnan(value) & jnp.isfinite(position).all())
        return Phase(position, momentum, value, gradient, undefined)

    def rest(self) -> ChainState:
        """The point without its motion."""
        return ChainState(self.position, self.log_density, self.gradient)


def leapfrog(density: Differentiated, phase: Phase, step_size: ArrayLike, mass: Mass = _UNIT) -> Phase:
    """One step of kick, drift, kick; `density` gives the log-density and its gradient.

    >>> density = jax.value_and_grad(lambda x: -0.5 * x @ x)
    >>> still = Phase(jnp.ones(1), jnp.zeros(1), jnp.asarray(-0.5), -jnp.ones(1))
    >>> moved = leapfrog(density, still, 0.1)
    >>> [round(float(moved.position[0]), 6), round(float(moved.momentum[0]), 6)]
    [0.995, -0.09975]
    """
    half = 0.5 * step_size
    momentum = phase.momentum + half * phase.gradient
    moved = phase.moved(density, phase.position + step_size * mass.velocity(momentum), momentum)
    return eqx.tree_at(lambda new: new.momentum, moved, momentum + half * moved.gradient)


def euler(density: Differentiated, phase: Phase, step_size: ArrayLike, mass: Mass = _UNIT) -> Phase:
    """One explicit Euler step, for comparison: neither reversible nor volume preserving."""
    position = phase.position + step_size * mass.velocity(phase.momentum)
    return phase.moved(density, position, phase.momentum + step_size * phase.gradient)


def follow(
    step: Callable[[State], State], start: State, num_steps: int | Array, max_steps: int | None = None
) -> State:
    """The state after `num_steps` of `step`; a number that is an array needs a limit `max_steps` on it."""
    if isinstance(num_steps, int):
        return run(lambda state, _: (step(state), None), start, num_steps=num_steps).state

    def advance(carry):
        state, count = carry
        return (step(state), count + 1), jnp.zeros(())

    def arrived(carry, value, before):
        return carry[1] >= num_steps

    limit = check_count("max_steps", max_steps)
    return run_until(advance, (start, jnp.asarray(0)), max_steps=limit, tol=0.0, settled=arrived).state[0]


def trajectory(
    log_density: LogDensity,
    position: ArrayLike,
    momentum: ArrayLike,
    *,
    step_size: float | Array,
    num_steps: int,
    mass: Any = None,
    integrator: Callable[..., Phase] = leapfrog,
) -> tuple[Phase, Float[Array, " n"]]:
    """The path from a point in phase space, its start included, and the energy $H$ along it: for pictures.

    >>> path, energy = trajectory(lambda x: -0.5 * x @ x, [1.0], [0.0], step_size=0.1, num_steps=20)
    >>> [round(float(v), 7) for v in (path.position[-1, 0], path.momentum[-1, 0], energy[-1])]
    [-0.4169053, -0.907813, 0.4989673]
    """
    position, momentum = as_float("position", position), as_float("momentum", momentum)
    check_shape("position", position, (None,))
    check_shape("momentum", momentum, position.shape, "It has one number per coordinate of `position`.")
    num_steps = check_count("num_steps", num_steps)
    step_size = as_float("step_size", step_size)
    return _trajectory(log_density, integrator, position, momentum, step_size, num_steps, Mass.of(mass))


@program
def _trajectory(log_density, integrator, position, momentum, step_size, num_steps, mass):
    density = jax.value_and_grad(log_density)

    def step(phase, _):
        moved = integrator(density, phase, step_size, mass)
        return moved, moved

    start = Phase(position, momentum, *density(position), jnp.asarray(False))
    path = run(step, start, num_steps=num_steps).trace
    path = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, path)
    return path, jax.vmap(mass.energy)(path.momentum) - path.log_density
