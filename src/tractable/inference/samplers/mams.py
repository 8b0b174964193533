r"""Metropolis-adjusted microcanonical sampling: motion at constant speed, turned by the gradient.

Motion.      $\dot x = v$ with $\|v\| = \sqrt d$, the typical length of a momentum $N(0, I)$;
             $\dot u = (I - u u^\top)\,g\sqrt d/(d - 1)$ for $u = v/\sqrt d$ and $g = \nabla\log\tilde p(x)$.
             It leaves $\tilde p(x)$ times the uniform law of directions invariant.
Kick.        For a time $\epsilon$ at fixed $x$, with $e = g/\|g\|$, $c = e^\top u$ and
             $\delta = \epsilon\sqrt d\,\|g\|/(d - 1)$: $u' = (u + e\sinh\delta + ec(\cosh\delta - 1))/\zeta$,
             $\zeta = \cosh\delta + c\sinh\delta$. The map has the Jacobian $\zeta^{-(d - 1)}$ on the sphere.
Step.        A fresh direction; $n$ steps of half a kick, a drift $x + \epsilon v$, half a kick; accepted with
             probability $\min\{1, \tilde p(x')/\tilde p(x) \prod\zeta^{-(d - 1)}\}$: the Metropolis test for
             a map that can be reversed ($u \to -u$) but does not keep volume. $(d - 1)\log\zeta$ is the
             change of a kinetic energy, its sum with that of $-\log\tilde p$ the energy error.
Stability.   $\log\zeta = \delta + \mathrm{log1p}(\frac{1 - c}2\,\mathrm{expm1}(-2\delta))$, and $u'$ is
             computed from $e^{-\delta}$: no overflow where the gradient is large.
Why.         The speed is bounded, so steep places do not throw it off, and a whitened target needs a few
             gradients per nearly independent draw.
Cost.        One gradient per step.
References.  Robnik, De Luca, Silverstein and Seljak (2023), "Microcanonical Hamiltonian Monte Carlo"; Robnik,
             Cohn-Gordon and Seljak (2025), "Metropolis adjusted microcanonical Hamiltonian Monte Carlo".
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.streams import Stream
from tractable.core.support import positive, unit_interval
from tractable.core.types import Array, Float, Key, Scalar
from tractable.inference.samplers.hmc import conclude
from tractable.inference.samplers.leapfrog import Differentiated, Phase, follow
from tractable.inference.samplers.manychain import EnsembleState, ManyChains, rounded, van_der_corput
from tractable.inference.samplers.metropolis import check_acceptance
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler, chain_state

__all__ = ["MAMS", "EnsembleMAMS", "Glide", "GlideState", "glide", "kick"]


class Glide(Module):
    """A point moving in a unit direction (its `momentum`), and the kinetic energy that it has gained."""

    phase: Phase
    work: Scalar


class GlideState(ChainState):
    """A point of a chain, and how many paths have led to it: the place in the sequence of lengths."""

    count: Any = 0


class MAMS(Sampler):
    r"""One chain of Metropolis-adjusted microcanonical sampling, with fresh directions.

    `step_size` and `length` are in units of the target's scale, whatever the dimension: on $N(0, I)$ steps of
    about 1 are stable, and a length of $\pi/2$ leads to an unrelated point; somewhat more, the default, gives
    the most effective draws of means per gradient. Lengths fill `length` times $[1 - j, 1 + j]$,
    $j$ the `jitter`, evenly and in turn: after a short path comes a long one, which is worth a quarter more
    than lengths at random. A path has at most `max_steps` steps.
    """

    step_size: Float[Array, ""] = field(support=positive, default=0.5)
    length: Float[Array, ""] = field(support=positive, default=2.2)
    jitter: Float[Array, ""] = field(support=unit_interval, default=0.5)
    target_acceptance: float = field(static=True, default=0.9)
    max_steps: int = field(static=True, default=1000, converter=lambda n: check_count("max_steps", n))
    max_energy_error: float = field(static=True, default=1000.0)

    def __check_init__(self):
        check_acceptance(self.target_acceptance)

    def init(self, log_density: LogDensity, position: Float[Array, " d"], key: Key) -> GlideState:
        """The point with its log-density and gradient, before the first path."""
        check_dimension(position.shape[-1])
        point = chain_state(log_density, position)
        return GlideState(point.position, point.log_density, point.gradient, jnp.asarray(0, jnp.int32))

    def step(self, log_density: LogDensity, state: GlideState, key: Key) -> tuple[GlideState, Info]:
        """One path in a fresh direction, accepted or not."""
        key_numbers, key_accept = jr.split(key)
        density, dtype, dim = jax.value_and_grad(log_density), state.position.dtype, state.position.size
        numbers = Stream.of(key_numbers)
        step_size, length, jitter = (
            leaf.astype(dtype) for leaf in (self.step_size, self.length, self.jitter)
        )
        spread = 1 + jitter * (2 * van_der_corput(state.count, dtype) - 1)
        uniform = numbers.uniform(jnp.asarray(2 * dim)).astype(dtype)
        num_steps = rounded(uniform, spread * length / step_size)

        def advance(motion):
            return glide(density, motion, step_size)

        start = set_off(numbers.normal(jnp.arange(dim)).astype(dtype), state)
        end = follow(advance, start, num_steps, self.max_steps)
        error = end.work + start.phase.log_density - end.phase.log_density
        taken, saturated = jnp.minimum(num_steps, self.max_steps), num_steps > self.max_steps
        nothing = jnp.full((), jnp.nan, dtype)
        limit = self.max_energy_error
        point, info = conclude(key_accept, state, end.phase, error, nothing, taken, limit, saturated)
        return GlideState(point.position, point.log_density, point.gradient, state.count + 1), info


class EnsembleMAMS(ManyChains):
    """Many chains of microcanonical sampling that tune themselves (`inference.samplers.manychain` says
    how)."""

    initial_length: Float[Array, ""] = field(support=positive, default=2.0)

    def init(self, log_density: LogDensity, position: Float[Array, "chains d"], key: Key) -> EnsembleState:
        """The chains at the rows of `position`, which should differ: their spread is the first scale."""
        check_dimension(position.shape[-1])
        return super().init(log_density, position, key)

    def _begin(self, key: Key, point: ChainState, scale: Array) -> Glide:
        return set_off(jr.normal(key, point.position.shape, point.position.dtype), point)

    def _advance(self, density: Differentiated, motion: Glide, step_size: Scalar, scale: Array) -> Glide:
        return glide(density, motion, step_size, scale)

    def _finish(self, start: Glide, end: Glide, scale: Array) -> tuple[Phase, Array, Scalar, Scalar]:
        error = end.work + start.phase.log_density - end.phase.log_density
        speed = jnp.sqrt(1.0 * scale.size).astype(scale.dtype)
        return end.phase, speed * scale * end.phase.momentum, error, jnp.full((), jnp.nan, error.dtype)


def set_off(noise: Float[Array, " d"], point: ChainState) -> Glide:
    """A chain's point in the direction of standard normal `noise`, uniform on the sphere."""
    return Glide(Phase.of(point, noise / jnp.linalg.norm(noise)), jnp.zeros((), noise.dtype))


def glide(
    density: Differentiated, motion: Glide, step_size: Scalar, scale: Float[Array, " d"] | None = None
) -> Glide:
    """Half a kick, a drift, half a kick; with `scale`, as if each coordinate were divided by it."""
    phase = motion.phase
    speed = phase.position.size**0.5

    def kicked(direction, gradient):
        return kick(direction, gradient if scale is None else scale * gradient, 0.5 * step_size)

    direction, first = kicked(phase.momentum, phase.gradient)
    drift = step_size * speed * direction
    moved = phase.moved(density, phase.position + (drift if scale is None else scale * drift), direction)
    direction, second = kicked(direction, moved.gradient)
    moved = eqx.tree_at(lambda new: new.momentum, moved, direction)
    return Glide(moved, motion.work + (first + second))


def kick(
    direction: Float[Array, " d"], gradient: Float[Array, " d"], time: Scalar
) -> tuple[Float[Array, " d"], Scalar]:
    r"""The direction after `time` under a constant gradient, and $(d - 1)\log\zeta$."""
    dim, size = direction.size, jnp.linalg.norm(gradient)
    pull = gradient / jnp.where(size > 0, size, 1.0)  # no gradient: no turn
    along, angle = pull @ direction, time * size * (dim**0.5 / (dim - 1))
    decay = jnp.exp(-angle)
    turned = pull * ((1 - decay) * (1 + decay + along * (1 - decay))) + 2 * decay * direction
    log_zeta = angle + jnp.log1p(0.5 * (1 - along) * jnp.expm1(-2 * angle))
    return turned / jnp.linalg.norm(turned), (dim - 1) * log_zeta


def check_dimension(dim: int) -> None:
    """Microcanonical motion turns a direction: on a line there is nothing to turn to."""
    fix = "On a line a direction cannot turn; use HMC, NUTS or slice sampling."
    check(dim > 1, "position", "a vector of two or more coordinates", f"{dim}", fix)
