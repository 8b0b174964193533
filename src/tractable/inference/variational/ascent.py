r"""How variational parameters climb: stochastic steps with a step-size ladder, or fixed draws and L-BFGS.

Ladder.      Blocks of steps at one step size. With $m_1, m_2$ the trimmed means of the bound over five blocks
             and over the next five and $s$ the standard error of their difference, the rung has settled when
             $m_2 - m_1 \le \max(\mathrm{tol}, 2s)$ and, where noise hides what `tol` asks for ($2s >
             \mathrm{tol}$), the iterates do not drift either (or forty blocks have passed). Then the
             parameters move to the average of these iterates and the step size is divided by four. The climb
             has converged when the averages of two rungs differ in their bounds, for the same noise and rows,
             by no more than $\max(\mathrm{tol}, 2s)$.
Schedule.    A learning rate that is a function of the step (Robbins and Monro: $\sum_t a_t = \infty$,
             $\sum_t a_t^2 < \infty$) replaces the ladder's division by four, and nothing moves the iterates;
             the climb still ends when the averages of two windows agree.
Natural.     $S \leftarrow S + \rho G + \frac{\rho^2}{2} G S^{-1} G$, $m \leftarrow m + \rho
             S_{\mathrm{new}}^{-1} E[\nabla\log p]$ with $G = E[-\nabla^2\log p] - S$: a step along the
             natural gradient of the ELBO that keeps the precision $S$ positive definite at every $\rho$.
Fixed draws. $\frac1n\sum_i \log w(z_i)$ with $z_i$ of mean 0 and covariance $I$ exactly: for quadratic $\log
             p$ this is the ELBO itself.
Cost.        One dispatch per block.
References.  Welandawe et al. (2022), "Robust, automated, and accurate black-box variational inference"; Lin,
             Schmidt and Khan (2020), "Handling the positive-definite constraint in the Bayesian learning
             rule"; Giordano, Ingram and Broderick (2024).
"""

import math
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check
from tractable.core.iterate import Run, Status, run
from tractable.core.linalg import psd_factor, symmetrise
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int, Key, Scalar
from tractable.inference.target import FlatTarget
from tractable.inference.variational.families import FullRank, MeanField, VariationalFamily
from tractable.inference.variational.surrogates import surrogate
from tractable.optim.gradient import Adagrad, Adam, GradientDescent
from tractable.optim.minimise import Minimum, minimise

__all__ = ["Ascent", "Climb", "climb", "moment_matched", "natural_step", "solve"]

_HALF = 5  # blocks on each side of the comparison that settles a rung
_DRIFT = 3.0  # mean squared drift of iterates in standard errors; white noise gives 4/3, a straight line 25
_PATIENCE = 8 * _HALF  # blocks after which a rung whose bound is flat settles, whatever its iterates do
_PAIRS = 200  # draws that compare the averages of two rungs
_RULES = {"adam": Adam(), "adagrad": Adagrad(), "sgd": GradientDescent(), "natural": GradientDescent()}


class Climb(Module):
    """Where an ascent stands; everything that the next block needs, so that a checkpoint resumes it."""

    free: Float[Array, " p"]
    memory: Any
    rate: Scalar
    points: Float[Array, "h p"]  # the average iterate of each of the last ten blocks; NaN where there is none
    bounds: Float[Array, " h"]  # the mean bound of each
    blocks: Int[Array, ""]  # made on this rung
    rungs: Int[Array, ""]  # settled so far
    landings: Float[Array, "2 p"]  # the averages at which the last two rungs settled
    refused: Int[Array, ""]  # steps not taken, because the bound or its gradient was not finite
    made: Int[Array, ""]  # steps in all, which a schedule counts

    @staticmethod
    def start(free: Array, rate: float, method: str = "adam") -> "Climb":
        """Before the first block."""
        points = jnp.full((2 * _HALF, free.size), jnp.nan, free.dtype)
        rates, zero = jnp.asarray(rate, free.dtype), jnp.asarray(0)
        memory = _RULES[method].direction().init(free)
        return Climb(free, memory, rates, points, points[:, 0], zero, zero, points[:2], zero, zero)

    @property
    def answer(self) -> Float[Array, " p"]:
        """The average of the iterates of the last blocks; before the first block of a rung, its start."""
        made = jnp.isfinite(self.points).all(1)
        total = jnp.where(made[:, None], self.points, 0.0).sum(0)
        return jnp.where(made.any(), total / jnp.maximum(made.sum(), 1), self.free)


class Ascent(Module):
    """One block of stochastic ascent: a pytree, so that new data of the same shapes use the same program."""

    target: FlatTarget
    family: Rebuild
    tol: Scalar | None
    schedule: Callable[[Any], Any] | None
    method: str = field(static=True)
    gradient: str = field(static=True)
    alpha: float = field(static=True)
    num_draws: int = field(static=True)
    batch: int | None = field(static=True)
    block: int = field(static=True)

    def __call__(self, state: Climb, key: Key) -> tuple[Climb, Scalar]:
        """The state after `block` steps, and the mean of the bound over them."""
        noise, rows = self.inputs(key, self.block, self.num_draws, state.free)
        first = (state.free, state.memory, jnp.zeros_like(state.free), state.refused)
        times = state.made + jnp.arange(self.block)
        rates = jnp.full(self.block, state.rate) if self.schedule is None else self.schedule(times)
        rates = jnp.broadcast_to(jnp.asarray(rates, state.free.dtype), times.shape)
        made = run(lambda carry, inputs: self._step(carry, *inputs), first, (rates, noise, rows))
        free, memory, total, refused = made.state
        value = jnp.nanmean(made.trace)
        points = jnp.concatenate([state.points[1:], total[None] / self.block])
        bounds = jnp.concatenate([state.bounds[1:], value[None]])
        blocks, steps = state.blocks + 1, state.made + self.block
        moved = Climb(
            free, memory, state.rate, points, bounds, blocks, state.rungs, state.landings, refused, steps
        )
        if self.tol is None:
            return moved, value
        settled = (blocks % _HALF == 0) & self._settled(moved, self.tol)
        rung = self._next_rung(moved)
        return jax.tree.map(lambda a, b: jnp.where(settled, a, b), rung, moved), value

    def inputs(self, key: Key, steps: int, draws: int, free: Array) -> tuple[Array, Array | None]:
        """The noise of each step and, for mini-batches, its rows."""
        key_noise, key_rows = jr.split(key)
        family = jax.eval_shape(lambda u: self.family(u)[0], free)
        noise = jr.normal(key_noise, (steps, draws, family.noise_dim), free.dtype)
        if self.batch is None:
            return noise, None
        return noise, jr.randint(key_rows, (steps, self.batch), 0, self.target.num_rows)

    def bound(self, free: Array, noise: Array, rows: Array | None) -> Scalar:
        """The bound at `free` for given noise and rows."""
        return surrogate(self._density(rows), self.family(free)[0], noise, alpha=self.alpha)[1]

    def _step(self, carry: tuple, rate: Array, noise: Array, rows: Array | None) -> tuple[tuple, Scalar]:
        free, memory, total, refused = carry
        step = self._natural if self.method == "natural" else self._first_order
        free_next, memory_next, value = step(free, memory, rate, noise, rows)
        ok = jnp.isfinite(value) & jnp.isfinite(free_next).all()
        free, memory = jax.tree.map(
            lambda a, b: jnp.where(ok, a, b), (free_next, memory_next), (free, memory)
        )
        return (free, memory, total + free, refused + ~ok), jnp.where(ok, value, jnp.nan)

    def _first_order(self, free: Array, memory: Any, rate: Array, noise: Array, rows: Array | None):
        def loss(free):
            family = self.family(free)[0]
            options = {"gradient": self.gradient, "alpha": self.alpha}
            handle, bound = surrogate(self._density(rows), family, noise, **options)
            return -handle, bound

        (_, bound), slope = jax.value_and_grad(loss, has_aux=True)(free)
        update: Any
        update, memory = _RULES[self.method].direction().update(slope, memory)
        return free - rate * update, memory, bound

    def _natural(self, free: Array, memory: Any, rate: Array, noise: Array, rows: Array | None):
        family, bound = natural_step(self._density(rows), self.family(free)[0], noise, rate)
        return unconstrain(family)[0], memory, bound

    def _density(self, rows: Array | None):
        return self.target if rows is None else lambda x: self.target.on_rows(x, rows)

    def _settled(self, state: Climb, tol: Array) -> Array:
        halves = state.bounds.reshape((2, _HALF))  # NaN before there are two halves: then nothing is true
        # without the largest and the smallest: as robust as a median of five, and no sort to compile
        middles = (halves.sum(1) - halves.max(1) - halves.min(1)) / (_HALF - 2)
        noise = 2 * jnp.sqrt(halves.var(axis=1, ddof=1).sum() / _HALF)
        flat = middles[1] - middles[0] <= jnp.maximum(tol, noise)
        sides = state.points.reshape((2, _HALF, -1))
        means, spread = sides.mean(1), sides.var(1, ddof=1).sum(0) / _HALF
        moved = (means[1] - means[0]) ** 2
        drift = jnp.where(spread > 0, moved / jnp.where(spread > 0, spread, 1.0), 0.0).mean()
        return flat & ((noise <= tol) | (drift <= _DRIFT) | (state.blocks >= _PATIENCE))

    def _next_rung(self, state: Climb) -> Climb:
        landing = state.answer
        points, bounds = jnp.full_like(state.points, jnp.nan), jnp.full_like(state.bounds, jnp.nan)
        landings, zero = jnp.stack([state.landings[1], landing]), jnp.zeros_like(state.blocks)
        rate, rungs, free = state.rate / 4, state.rungs + 1, landing
        if self.schedule is not None:  # which alone decides on the steps: the iterates go on where they are
            rate, free = state.rate, state.free
        return Climb(
            free, state.memory, rate, points, bounds, zero, rungs, landings, state.refused, state.made
        )


def climb(
    ascent: Ascent,
    free: Float[Array, " p"],
    key: Key,
    *,
    rate: float,
    max_steps: int,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
) -> Run:
    """Blocks of ascent until the ladder has converged; `run.trace` holds the mean bound of each block."""

    key_blocks, key_pairs = jr.split(key)
    pairs = jr.key_data(key_pairs)  # the judge draws the same pairs each time it is asked

    def judge(state: Climb, values: Any) -> Status | None:
        if not np.isfinite(np.asarray(values)).all():
            return Status.not_finite
        if ascent.tol is None or int(state.blocks) > 0 or int(state.rungs) < 2:
            return None
        gain, error = (float(x) for x in _gain(ascent, state.landings, jr.wrap_key_data(pairs)))
        return Status.converged if abs(gain) <= max(float(ascent.tol), 2 * error) else None

    run = run_in_blocks(
        ascent,
        Climb.start(free, rate, ascent.method),
        jr.split(key_blocks, math.ceil(max_steps / ascent.block)),
        block=1,
        judge=judge,
        report=lambda state, values: {"bound": f"{float(np.asarray(values)[-1]):.5g}"},
        label="Variational inference",
        progress=progress,
        checkpoint=checkpoint,
    )
    ended = Status.exhausted if run.status is Status.completed and ascent.tol is not None else run.status
    return Run(run.state, run.trace, run.num_steps * ascent.block, jnp.asarray(int(ended)))


def natural_step(target: Any, family: Any, noise: Array, rate: Array) -> tuple[VariationalFamily, Scalar]:
    """One step along the natural gradient of the ELBO for a mean-field or a full-rank Gaussian.

    The expected Hessian is that of the draws for full rank; for mean field its diagonal is
    $E[\\epsilon_i\\,\\partial_i\\log p]/s_i$, which needs gradients alone.
    """
    draws = jax.vmap(family.forward)(noise)
    values, slopes = jax.vmap(jax.value_and_grad(target))(draws)
    bound, slope = values.mean() + family.entropy(), slopes.mean(0)
    if isinstance(family, MeanField):
        precision = family.scale**-2
        gap = -(noise * slopes).mean(0) / family.scale - precision
        moved = precision + rate * gap + 0.5 * rate**2 * gap**2 / precision
        return MeanField(family.loc + rate * slope / moved, moved**-0.5), bound
    identity = jnp.eye(family.dim, dtype=noise.dtype)
    precision = jsl.cho_solve((family.lower, True), identity)
    gap = symmetrise(-jax.vmap(jax.hessian(target))(draws).mean(0)) - precision
    moved = symmetrise(precision + rate * gap + 0.5 * rate**2 * gap @ family.cov @ gap)
    factor = psd_factor(moved)
    lower = psd_factor(symmetrise(factor.solve(identity))).lower
    return FullRank(family.loc + rate * factor.solve(slope), lower), bound


def moment_matched(key: Key, num_draws: int, dim: int, dtype: Any = float) -> Float[Array, "n d"]:
    """Standard normal draws moved to mean zero and covariance one exactly; they need `num_draws > dim`."""
    fix = "Use more draws, or the method `adam`."
    check(
        num_draws > dim, "num_draws", f"above the length of the noise ({dim}) for fixed draws", num_draws, fix
    )
    return _moment_matched(jr.normal(key, (num_draws, dim), dtype))


def solve(
    target: FlatTarget,
    family: Rebuild,
    free: Array,
    noise: Array,
    *,
    alpha: float,
    max_steps: int,
    tol: float,
) -> Minimum:
    """Maximise the bound over fixed draws by L-BFGS (the result minimises minus the bound)."""
    options = {"max_steps": max_steps, "tol": tol, "curvature": False}
    return minimise(_NegativeBound(float(alpha)), free, args=(target, family, noise), **options)


@program
def _gain(ascent: Ascent, landings: Float[Array, "2 p"], key: Key) -> tuple[Scalar, Scalar]:
    """How much higher the bound of the second landing is, from the same noise and rows, and its error."""
    noise, rows = ascent.inputs(key, _PAIRS, ascent.num_draws, landings[0])

    def pair(inputs: tuple) -> Scalar:
        return ascent.bound(landings[1], *inputs) - ascent.bound(landings[0], *inputs)

    gains = jax.lax.map(pair, (noise, rows))
    return gains.mean(), gains.std(ddof=1) / math.sqrt(_PAIRS)


class _NegativeBound(Module):
    """Minus the bound of one order, for given noise."""

    alpha: float = field(static=True)

    def __call__(self, free: Array, target: FlatTarget, family: Rebuild, noise: Array) -> Scalar:
        return -surrogate(target, family(free)[0], noise, gradient="pathwise", alpha=self.alpha)[0]


@jax.jit
def _moment_matched(noise: Array) -> Array:
    centred = noise - noise.mean(0, keepdims=True)
    lower = psd_factor(centred.T @ centred / noise.shape[0]).lower
    return jsl.solve_triangular(lower, centred.T, lower=True).T
