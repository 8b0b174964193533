r"""Switching linear systems: a linear system whose matrices are chosen by a hidden Markov chain.

Model.       $z_0 \sim \pi$, $z_t \sim \Pi_{z_{t-1}\cdot}$; $x_0 \sim N(m, P)$, $x_t = A_{z_t} x_{t-1} +
             b_{z_t} + q_t$, $q_t \sim N(0, Q_{z_t})$; $y_t = C_{z_t} x_t + c_{z_t} + r_t$, $r_t \sim N(0,
             R_{z_t})$.
Exact.       The belief is a mixture of $K^{t+1}$ Gaussians, one for each path of modes: all of them, where
             they are few.
Merged.      "kim" (GPB2) keeps one Gaussian per mode: $K^2$ are made by a step and merged by their moments;
             "imm" merges before the step and makes $K$. Both are approximations; the share of variance that
             lies between what was merged says how rough.
Particles.   `particle_filter` draws modes and keeps the states exact (Rao-Blackwell): each particle looks at
             all $K$ next modes, is weighted by the sum of their predictions and draws one of them.
Smoothing.   `smooth` goes back over the merged Gaussians or over all paths; `particle_smoother` draws paths.
Cost.        $O(T K^2 d^3)$ merged, $O(T K d^3)$ per particle, $O(T K^T d^3)$ exact.
References.  Kim (1994); Blom and Bar-Shalom (1988); Doucet, Gordon and Krishnamurthy (2001); Murphy (1998).
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries, check_option, has_values
from tractable.core.factors import psd_root
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import light, program
from tractable.core.support import psd, real, simplex
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.messages.gaussian_steps import Belief, Step
from tractable.statespace.kalman.passes import check_densities
from tractable.statespace.nonlinear.switching_particles import SwitchingParticles, filter_by_modes
from tractable.statespace.nonlinear.switching_passes import Modes, enumerated, merged
from tractable.statespace.nonlinear.switching_smoothing import (
    DrawnSmoothed,
    SwitchingSmoothed,
    averages,
    distance,
    draw_back,
    smoothed_by_mode,
    smoothed_mixture,
)

__all__ = ["SwitchingFiltered", "SwitchingLinearSystem"]

METHODS = ("kim", "imm", "exact")
_MOST_PATHS = 20_000
_MEASURED = 1024  # paths of modes that are followed to measure a merged smoother


class SwitchingFiltered(Module):
    """Beliefs of modes and states from the readings so far, and the likelihood."""

    modes: Float[Array, "t k"]
    mean: Float[Array, "t d"]
    cov: Float[Array, "t d d"] = field(show=False)
    log_densities: Float[Array, " t"]
    between: Float[Array, " t"]  # what merging lost, as a share of a variance; zero where nothing was merged
    method: str = field(static=True)
    _shown = ("modes", "log_likelihood", "method")

    @property
    def log_likelihood(self) -> Scalar:
        r"""$\log p(y)$: exact by enumeration, else under the merged Gaussians."""
        return self.log_densities.sum()

    @property
    def verdict(self) -> Verdict:
        """Whether anything was merged that differs."""
        worst, t = float(self.between.max()), int(np.asarray(self.between).argmax())
        if not np.isfinite(np.asarray(self.log_densities)).all():
            return Verdict(False, "Do not use: a reading has no density under any mode.")
        if self.method == "exact":
            return Verdict(True, "Exact: all paths of modes were followed.", {"between": 0.0})
        if worst < 1e-9:
            said = "Exact to rounding: the Gaussians that were merged do not differ."
            return Verdict(True, said, {"between": worst})
        said = f"Not certified: Gaussians that differ by {worst:.1%} of a variance were merged (time {t})."
        fix = "Compare the log-likelihood with that of `particle_filter`."
        return Verdict(False, f"{said} {fix}", {"between": worst})


class SwitchingLinearSystem(Module):
    r"""A linear system for each of $K$ modes: all matrices have a leading axis of $K$, or are shared.

    `mode_initial` is $\pi$, `mode_transition` $\Pi$ with the earlier mode along its rows.

    >>> system = SwitchingLinearSystem(
    ...     [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[1.0]], [[[0.01]], [[1.0]]],
    ...     [[1.0]], [[0.1]], [0.0], [[1.0]],
    ... )
    >>> found = system.filter([0.0, 0.1, 3.0, 5.0], method="exact")  # a quiet mode and a lively one
    >>> found.modes[:, 1].round(2).tolist()
    [0.5, 0.3, 1.0, 1.0]
    """

    mode_initial: Float[Array, " k"] = field(support=simplex)
    mode_transition: Float[Array, "k k"] = field(support=simplex, rank=2)
    transition: Float[Array, "*k d d"] = field(support=real, rank=2)
    transition_cov: Float[Array, "*k d d"] = field(support=psd)
    observation: Float[Array, "*k m d"] = field(support=real, rank=2)
    observation_cov: Float[Array, "*k m m"] = field(support=psd)
    initial_mean: Float[Array, " d"] = field(support=real, rank=1)
    initial_cov: Float[Array, "d d"] = field(support=psd)
    transition_offset: Any = None
    observation_offset: Any = None

    def __check_init__(self) -> None:
        k, d, m = self.num_modes, self.initial_mean.shape[-1], self.observation.shape[-2]
        shapes = {
            "transition": (d, d), "transition_cov": (d, d), "observation": (m, d), "observation_cov": (m, m),
            "transition_offset": (d,), "observation_offset": (m,),
        }  # fmt: skip
        check(
            self.mode_transition.shape == (k, k),
            "mode_transition",
            f"of shape ({k}, {k})",
            self.mode_transition.shape,
        )
        check(self.initial_cov.shape == (d, d), "initial_cov", f"of shape ({d}, {d})", self.initial_cov.shape)
        for name, shape in shapes.items():
            value = getattr(self, name)
            got = np.shape(value)
            fits = value is None or got in (shape, (k, *shape))
            check(fits, name, f"of shape {shape}, or {(k, *shape)} for {k} modes", f"shape {got}")

    @property
    def num_modes(self) -> int:
        """How many modes there are."""
        return self.mode_initial.shape[-1]

    def filter(self, y: ArrayLike, *, method: str = "kim") -> SwitchingFiltered:
        """Modes and states from the readings so far: "kim", "imm", or "exact" for $K^T$ paths of modes."""
        check_option("method", method, METHODS)
        rows, modes = self._readings(y), self.modes()
        if method == "exact":
            kept = enumerated(modes, rows, jnp.asarray(self._paths(len(rows))))
        else:
            kept = merged(modes, rows, method)
        belief, told = kept.belief, kept.log_densities
        if has_values(told):
            check_densities(told)
        return SwitchingFiltered(kept.modes, belief.mean, belief.spread, told, kept.losses, method)

    def smooth(self, y: ArrayLike, *, method: str = "corrected") -> SwitchingSmoothed:
        """Modes and states from all readings: "kim", "corrected" (Kim's pass with what the states tell of
        the modes), or "exact" for $K^T$ paths of modes. The merged ones are measured beside the exact one on
        as many of the first readings as it can follow in short time."""
        check_option("method", method, ("kim", "corrected", "exact"))
        rows, modes = self._readings(y), self.modes()
        short = max(1, int(np.log(_MEASURED) / np.log(max(self.num_modes, 2)) + 1e-9))
        size = len(rows) if method == "exact" else min(len(rows), short)
        paths = self._paths(size)
        followed = enumerated(modes, rows[:size], jnp.asarray(paths))
        check_densities(followed.log_densities)
        exact = smoothed_mixture(modes, followed, paths)
        if method == "exact":
            total = float(followed.log_densities.sum())
            return SwitchingSmoothed(*exact, total, np.zeros(size), np.zeros(2), size, method)
        kept, corrected = merged(modes, rows, "kim"), method == "corrected"
        check_densities(kept.log_densities)
        shares, mean, cov, losses = smoothed_by_mode(modes, kept, corrected)
        first = jax.tree.map(lambda leaf: leaf[:size], kept)
        part = (shares, mean, cov)
        if size < len(rows):
            part = smoothed_by_mode(modes, first, corrected)[:3]
        gap, total = distance(part, exact), float(kept.log_densities.sum())
        return SwitchingSmoothed(shares, mean, cov, total, losses, gap, size, method)

    @takes_key
    def particle_smoother(
        self, y: ArrayLike, *, key: Key, num_paths: int = 100, **options: Any
    ) -> DrawnSmoothed:
        """Modes and states from all readings by `num_paths` paths of modes drawn backward from the particles
        of each replicate, the states exact given them; `options` are those of `particle_filter`."""
        rows, modes, count = self._readings(y), self.modes(), check_count("num_paths", num_paths)
        key_filter, key_paths = jr.split(key)
        found = filter_by_modes(modes, rows, key_filter, options | {"history": True})
        paths, distinct = draw_back(modes, found.found.full_history(), generator(key_paths), count)
        kept = enumerated(modes, rows, jnp.asarray(paths.reshape(-1, len(rows))))
        return DrawnSmoothed(*averages(modes, kept, paths), distinct)

    def log_likelihood(self, y: ArrayLike, *, method: str = "kim") -> Scalar:
        r"""$\log p(y)$: exact by enumeration, else with merged Gaussians; `particle_filter` estimates it."""
        return self.filter(y, method=method).log_likelihood

    @takes_key
    def particle_filter(self, y: ArrayLike, *, key: Key, **options: Any) -> SwitchingParticles:
        """Modes by particles, states exact given them; `options` are those of `inference.particle_filter`."""
        return filter_by_modes(self.modes(), self._readings(y), key, options)

    @takes_key
    def sample(
        self, key: Key, length: int, num_paths: int = 1
    ) -> tuple[Int[Array, "paths t"], Float[Array, "paths t d"], Float[Array, "paths t m"]]:
        """Paths of the modes, of the states and of the readings."""
        return _sampled(self.modes(), key, check_count("length", length), check_count("num_paths", num_paths))

    def modes(self) -> Modes:
        """The parts of each mode, and the chain in logarithms."""
        k, d, m = self.num_modes, self.initial_mean.shape[-1], self.observation.shape[-2]
        b = jnp.zeros(d) if self.transition_offset is None else as_float("offset", self.transition_offset)
        c = jnp.zeros(m) if self.observation_offset is None else as_float("offset", self.observation_offset)
        move = _stacked(k, (self.transition, 2), (b, 1), (self.transition_cov, 2))
        look = _stacked(k, (self.observation, 2), (c, 1), (self.observation_cov, 2))
        start = Belief(self.initial_mean, self.initial_cov)
        return Modes(jnp.log(self.mode_initial), jnp.log(self.mode_transition), start, move, look)

    def _readings(self, y: ArrayLike) -> Array:
        rows, size = as_float("y", y), self.observation.shape[-2]
        rows = rows[:, None] if rows.ndim == 1 and size == 1 else rows
        fits = rows.ndim == 2 and rows.shape[1] == size and len(rows) > 0
        check(fits, "y", f"of shape (times, {size}), at least one time", f"shape {rows.shape}")
        fix = "Write NaN for what is missing."
        check_entries("y", rows, lambda v: ~np.isinf(v), "finite, or NaN", fix)
        return rows

    def _paths(self, length: int) -> np.ndarray:
        count = self.num_modes**length
        fix = 'Use method="kim", or `particle_filter`.'
        must = f"so short that there are at most {_MOST_PATHS} paths of modes"
        check(count <= _MOST_PATHS, "y", must, f"{self.num_modes}**{length} = {count}", fix)
        return np.array(list(itertools.product(range(self.num_modes), repeat=length)))


def _stacked(k: int, *parts: tuple[Array, int]) -> Step:
    """One step for each mode, of arrays that may be shared."""
    return Step(*(jnp.broadcast_to(leaf, (k, *leaf.shape[leaf.ndim - rank :])) for leaf, rank in parts))


@program
@light
def _sampled(modes: Modes, key: Key, length: int, num: int) -> tuple[Array, Array, Array]:
    roots = jax.lax.map(psd_root, modes.moves.spread), jax.lax.map(psd_root, modes.looks.spread)

    def read(key: Key, mode: Array, x: Array) -> Array:
        look = jax.tree.map(lambda leaf: leaf[mode], modes.looks)
        return look.weights @ x + look.bias + roots[1][mode] @ jr.normal(key, look.bias.shape, x.dtype)

    def one(key: Key, keys_rest: Array) -> tuple[Array, Array, Array]:
        key_mode, key_state, key_read = jr.split(key, 3)
        first = jr.categorical(key_mode, modes.log_initial)
        x = modes.start.mean + psd_root(modes.start.spread) @ jr.normal(key_state, modes.start.mean.shape)

        def step(carry: tuple[Array, Array], key: Key) -> tuple[tuple, tuple]:
            keys = jr.split(key, 3)
            mode = jr.categorical(keys[0], modes.log_transition[carry[0]])
            move = jax.tree.map(lambda leaf: leaf[mode], modes.moves)
            noise = roots[0][mode] @ jr.normal(keys[1], carry[1].shape, carry[1].dtype)
            x = move.weights @ carry[1] + move.bias + noise
            return (mode, x), (mode, x, read(keys[2], mode, x))

        _, later = jax.lax.scan(step, (first, x), keys_rest)
        begun = first, x, read(key_read, first, x)
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), begun, later)

    key_start, key_run = jr.split(key)
    return jax.vmap(one, (0, 1))(jr.split(key_start, num), jr.split(key_run, (length - 1, num)))
