r"""Many chains in one program: they move in step, and learn step size, scale and length from each other.

Ensemble.    All chains take the same number of steps, $n \approx \tau_i/\epsilon$ with $\tau_i$ spread evenly
             over $[(1 - j)\tau, (1 + j)\tau]$ by van der Corput's sequence: no chain waits for another, and
             no fixed length resonates. Neither depends on where the chains are, so each step is exact.
Step size.   Dual averaging of $\log\epsilon$ until the harmonic mean of the chains' acceptance is on target:
             one chain that is stuck counts.
Scale.       $s^2 = \sqrt{\mathrm{Var}[x]/\mathrm{Var}[\nabla\log p]}$ per coordinate, over chains and time:
             the standard deviation for a Gaussian, exact as soon as two chains differ.
Length.      Ascent (Adam in $\log\tau$) of $\frac14 E[(\|z'\|^2 - \|z\|^2)^2]$, $z = (x - \mu)/s$: the change
             in the estimate of the expected square (ChEES). Its derivative is
             $E[(\|z'\|^2 - \|z\|^2)\, z'^\top\dot z']$, with chains weighted by their acceptance.
Cost.        One gradient per chain and step; the learning is a few sums over chains.
References.  Hoffman, Radul and Sountsov (2021), "An adaptive-MCMC scheme for setting trajectory lengths in
             Hamiltonian Monte Carlo".
"""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from tractable.core.checks import check, check_count, check_shape
from tractable.core.module import Module, field
from tractable.core.support import positive, unit_interval
from tractable.core.types import Array, Float, Int, Key, Scalar
from tractable.inference.samplers.dual_averaging import DualAveraging
from tractable.inference.samplers.hmc import choose, conclude
from tractable.inference.samplers.leapfrog import Differentiated, Phase, follow
from tractable.inference.samplers.metropolis import check_acceptance
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler, chain_state

__all__ = ["EnsembleState", "ManyChains", "Tuning", "van_der_corput"]

_LENGTHS = optax.adam(0.025, b1=0.0, b2=0.95)


class Tuning(Module):
    """What the chains have learnt so far."""

    step: DualAveraging
    log_length: Scalar
    log_length_average: Scalar
    ascent: Any  # the state of Adam
    moments: tuple[Float[Array, "two d"], Float[Array, "two d"]]  # means, variances; of positions, gradients

    @property
    def scale(self) -> Float[Array, " d"]:
        """The length of each coordinate; 1 where nothing is known yet."""
        position, gradient = self.moments[1]
        known = (position > 0) & (gradient > 0) & jnp.isfinite(position) & jnp.isfinite(gradient)
        ratio = jnp.where(known, position, 1.0) / jnp.where(known, gradient, 1.0)
        return ratio**0.25

    def current(self, adapting: Any) -> tuple[Scalar, Scalar]:
        """Step size and mean length: while adapting those on trial, then the averages."""
        step = jnp.where(adapting, self.step.log_step, self.step.log_average)
        return jnp.exp(step), jnp.exp(jnp.where(adapting, self.log_length, self.log_length_average))


class EnsembleState(Module):
    """All chains, and their tuning."""

    points: ChainState  # with a leading axis of chains
    tuning: Tuning
    count: Int[Array, ""]  # of all steps: the place in the sequence of lengths

    @property
    def position(self) -> Any:
        return self.points.position

    @property
    def log_density(self) -> Any:
        return self.points.log_density

    @property
    def gradient(self) -> Any:
        return self.points.gradient


class ManyChains(Sampler):
    """Chains that move together, whatever their law of motion; `adapting` says whether they still learn."""

    ensemble: ClassVar[bool] = True

    initial_step_size: Float[Array, ""] = field(support=positive, default=0.5)
    initial_length: Float[Array, ""] = field(support=positive, default=1.5)
    adapting: Any = field(default=True, converter=lambda value: jnp.asarray(value, bool))
    jitter: Float[Array, ""] = field(support=unit_interval, default=0.5)
    target_acceptance: float = field(static=True, default=0.8)
    max_steps: int = field(static=True, default=1000, converter=lambda n: check_count("max_steps", n))
    max_energy_error: float = field(static=True, default=1000.0)

    def __check_init__(self):
        check_acceptance(self.target_acceptance)

    def init(self, log_density: LogDensity, position: Float[Array, "chains d"], key: Key) -> EnsembleState:
        """The chains at the rows of `position`, which should differ: their spread is the first scale."""
        check_shape("position", position, (None, None), "One row per chain.")
        fix = "Chains learn from each other; a single one may use HMC or MAMS."
        check(position.shape[0] > 1, "position", "two chains or more", position.shape[0], fix)
        points = jax.vmap(lambda each: chain_state(log_density, each))(position)
        dtype = position.dtype
        log_length = jnp.log(self.initial_length.astype(dtype))
        log_step, zero = jnp.log(self.initial_step_size.astype(dtype)), jnp.zeros((), dtype)
        both = jnp.stack([points.position, points.gradient])
        tuning = Tuning(
            DualAveraging(log_step, log_step, zero, zero, log_step),
            log_length,
            log_length,
            _LENGTHS.init(log_length),
            (both.mean(1), both.var(1)),
        )
        return EnsembleState(points, tuning, jnp.asarray(0, jnp.int32))

    def step(self, log_density: LogDensity, state: EnsembleState, key: Key) -> tuple[EnsembleState, Info]:
        """All chains follow a path of the same number of steps; each accepts its end, or stays."""
        key_start, key_round, key_accept = jr.split(key, 3)
        chains = state.position.shape[0]
        density, scale = jax.value_and_grad(log_density), state.tuning.scale
        step_size, mean_length = state.tuning.current(self.adapting)
        spread = 1 + self.jitter.astype(mean_length.dtype) * (
            2 * van_der_corput(state.count, mean_length.dtype) - 1
        )
        uniform = jr.uniform(key_round, (), step_size.dtype)
        num_steps = rounded(uniform, spread * mean_length / step_size)

        def begin(key, point):
            return self._begin(key, point, scale)

        points = state.points
        start = jax.vmap(begin)(jr.split(key_start, chains), points)
        advance = jax.vmap(lambda motion: self._advance(density, motion, step_size, scale))
        end = follow(advance, start, num_steps, self.max_steps)
        phases, velocities, errors, energies = jax.vmap(lambda a, b: self._finish(a, b, scale))(start, end)
        taken = jnp.minimum(num_steps, self.max_steps)

        def judge(key, point, phase, error, energy):
            full = num_steps > self.max_steps
            return conclude(key, point, phase, error, energy, taken, self.max_energy_error, full)

        keys = jr.split(key_accept, chains)
        points, info = jax.vmap(judge)(keys, points, phases, errors, energies)
        learnt = self._learn(state, points, phases, velocities, info.acceptance, taken * step_size)
        tuning = choose(jnp.asarray(self.adapting, bool), learnt, state.tuning)
        return EnsembleState(points, tuning, state.count + 1), info

    def _learn(self, state, points, phases, velocities, acceptance, time) -> Tuning:
        """The tuning after a step from `state` to `points`, with paths that ended at `phases`."""
        tuning = state.tuning
        harmonic = 1 / (1 / acceptance).mean()
        step = tuning.step.update(harmonic, self.target_acceptance)
        centre, scale = tuning.moments[0][0], tuning.scale
        slope = _chees_slope(state.position, phases.position, velocities, acceptance, centre, scale)
        move: Any
        move, ascent = _LENGTHS.update(-slope * time, tuning.ascent)
        # a path has at least one step and at most `max_steps`: beyond these the length has no effect
        num_steps = tuning.log_length - tuning.step.log_step
        idle = jnp.where(move < 0, num_steps < 0, num_steps > jnp.log(self.max_steps / 2.0))
        log_length = tuning.log_length + jnp.where(idle, 0.0, move)
        average = tuning.log_length_average + step.count**-0.5 * (log_length - tuning.log_length_average)
        moments = _forgetting_moments(tuning.moments, points, (step.count + 1) ** -0.6)
        return Tuning(step, log_length, average, ascent, moments)

    @abc.abstractmethod
    def _begin(self, key: Key, point: ChainState, scale: Array) -> Any:
        """A chain's point, set in motion."""

    @abc.abstractmethod
    def _advance(self, density: Differentiated, motion: Any, step_size: Scalar, scale: Array) -> Any:
        """One step of one chain."""

    @abc.abstractmethod
    def _finish(self, start: Any, end: Any, scale: Array) -> tuple[Phase, Array, Scalar, Scalar]:
        """The last phase, its velocity, the energy error and the first energy of one chain."""


def van_der_corput(index: Int[Array, ""], dtype: Any = float) -> Scalar:
    """The binary digits of `index` mirrored at the point: numbers that fill (0, 1) evenly, in any order.

    >>> [float(van_der_corput(jnp.asarray(i))) for i in range(4)]
    [0.5, 0.25, 0.75, 0.125]
    """
    places = jnp.arange(31)
    digits = (index.astype(jnp.int32) + 1 >> places) & 1
    return (digits * 0.5 ** (places + 1.0)).sum().astype(dtype)


def rounded(uniform: Scalar, number: Scalar) -> Int[Array, ""]:
    """A whole number of at least one whose mean over `uniform` is `number`, where that is at least one."""
    return jnp.maximum(jnp.floor(number + uniform), 1.0).astype(jnp.int32)


def _chees_slope(
    before: Float[Array, "chains d"],
    after: Float[Array, "chains d"],
    velocity: Float[Array, "chains d"],
    acceptance: Float[Array, " chains"],
    centre: Float[Array, " d"],
    scale: Float[Array, " d"],
) -> Scalar:
    """The derivative of the criterion by the length of the paths; zero where no chain would accept."""

    def each(before, after, velocity, weight):
        z, z_after, z_velocity = (before - centre) / scale, (after - centre) / scale, velocity / scale
        slope = (z_after @ z_after - z @ z) * (z_after @ z_velocity)
        return jnp.where(weight > 0, weight * slope, 0.0)  # a diverged path has no end to speak of

    total = acceptance.sum()
    slopes = jax.vmap(each)(before, after, velocity, acceptance)
    return jnp.where(total > 0, slopes.sum() / jnp.where(total > 0, total, 1.0), 0.0)


def _forgetting_moments(moments: tuple[Array, Array], points: ChainState, share: Scalar):
    """Means and variances in which the chains of this step count for `share`."""
    mean, variance = moments
    both = jnp.stack([points.position, points.gradient])
    gap = both.mean(1) - mean
    return mean + share * gap, (1 - share) * (variance + share * gap**2) + share * both.var(1)
