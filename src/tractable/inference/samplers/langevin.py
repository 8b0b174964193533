r"""Langevin dynamics: gradient steps with noise, unadjusted, corrected (MALA), or through levels of noise.

Step.        $x' = x + \frac\epsilon2 s(x) + \sqrt\epsilon\,z$, $z \sim N(0, I)$, with the score
             $s = \nabla\log p$, from a log-density or given (learnt) as such.
Bias.        Unadjusted, the chain converges to another law: on $N(\mu, \sigma^2)$ to the variance
             $\sigma^2 / (1 - \epsilon/4\sigma^2)$, and to none at all for $\epsilon \ge 4\sigma^2$.
MALA.        The same step as a proposal, accepted by Metropolis and Hastings. It is one leapfrog step of size
             $\sqrt\epsilon$ with momentum $z$, and the ratio of its proposals is that of the kinetic
             energies: the code is that of HMC.
Annealed.    Levels $\sigma_1 > \dots > \sigma_K$ with scores of the target blurred by $N(0, \sigma_k^2 I)$;
             steps of $\epsilon_k = \epsilon\,\sigma_k^2$ at each. Blurred modes touch: draws find them all.
Certificate. Stein's identity $E[(x - \mu)^\top s(x)] = -d$ holds under the target; its value, over
             $-d$, in draws is the `stein` ratio: 1 if exact,
             $1/(1 - \epsilon/4\sigma^2)$ for `ULA` on a Gaussian.
Cost.        One score per step.
References.  Roberts and Tweedie (1996); Roberts and Rosenthal (1998), for the acceptance 0.574; Song and
             Ermon (2019), for levels of noise.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_finite,
    check_shape,
    is_concrete,
)
from tractable.core.estimate import Estimate
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data, program
from tractable.core.support import positive
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.core.verdict import Verdict
from tractable.inference.samplers.hmc import HMC
from tractable.inference.samplers.metropolis import check_acceptance
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler, chain_state
from tractable.inference.trust.autocorrelation import autocorrelation_time

__all__ = [
    "MALA", "ULA", "LangevinDraws", "annealed_langevin", "langevin", "stein_ratio",
    "unadjusted_variance",
]  # fmt: skip

Score = Callable[..., Array]


class ULA(Sampler):
    r"""Unadjusted Langevin: cheap, never rejects, and biased. Its draws are too wide.

    On $N(\mu, \sigma^2)$ their variance is $\sigma^2/(1 - \epsilon/4\sigma^2)$ (`unadjusted_variance`), and
    the bias is of order $\epsilon$ on other smooth targets; no number of draws removes it. Use `MALA`, whose
    cost is the same, where the density is at hand. Not tuned: there is no acceptance to tune it by.
    """

    step_size: Float[Array, ""] = field(support=positive, default=0.01)

    def init(self, log_density: LogDensity, position: Float[Array, " d"], key: Key) -> ChainState:
        """The point with its log-density and gradient."""
        return chain_state(log_density, position)

    def step(self, log_density: LogDensity, state: ChainState, key: Key) -> tuple[ChainState, Info]:
        """One gradient step with noise, always taken."""
        position = _noisy_ascent(key, state.position, state.gradient, self.step_size)
        moved = chain_state(log_density, position)
        finite = jnp.isfinite(position).all()
        info = Info(
            acceptance=jnp.ones((), position.dtype),
            num_gradients=jnp.asarray(1),
            diverging=~finite,
            undefined=finite & jnp.isnan(moved.log_density),
        )
        return moved, info


class MALA(Sampler):
    """The Metropolis-adjusted Langevin algorithm: Langevin steps that leave the target exactly invariant."""

    step_size: Float[Array, ""] = field(support=positive, default=0.1)
    target_acceptance: float = field(static=True, default=0.574)

    def __check_init__(self):
        check_acceptance(self.target_acceptance)

    def init(self, log_density: LogDensity, position: Float[Array, " d"], key: Key) -> ChainState:
        """The point with its log-density and gradient."""
        return chain_state(log_density, position)

    def step(self, log_density: LogDensity, state: ChainState, key: Key) -> tuple[ChainState, Info]:
        """One Langevin proposal, accepted or not."""
        return HMC(jnp.sqrt(self.step_size), 1).step(log_density, state, key)


class LangevinDraws(Module):
    """Draws of unadjusted dynamics, with the sign by which their bias shows."""

    draws: Float[Array, "n d"]
    stein: Estimate  # 1 where the draws agree with the score; above 1 they are too wide, below too narrow
    step_sizes: Float[Array, " levels"]
    noise: Any = field(static=True, default=0.0)  # the blur that is left in the draws
    num_gradients: int = field(static=True, default=0)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the draws."""
        bad = int((~np.isfinite(np.asarray(self.draws))).any(1).sum())
        if bad:
            return Verdict(
                False,
                f"{bad} of {len(self.draws)} draws are not finite: the steps are too large for the target.",
            )
        ratio, error = float(self.stein.value), float(self.stein.standard_error)
        numbers = {"stein": ratio, "standard_error": error}
        seen = f"Stein's ratio is {ratio:.3f} ± {error:.3f} where 1 is exact"
        blur = f" They carry noise of standard deviation {self.noise:.3g}." if self.noise else ""
        if abs(ratio - 1) > max(3 * error, 0.05):
            fault = "too wide: use smaller steps" if ratio > 1 else "too narrow: run longer from wider starts"
            biased = f"Biased: {seen}, so the draws are {fault}, or correct them with MALA."
            return Verdict(False, biased + blur, numbers)
        fine = f"Unadjusted, so biased in the order of the step; {seen}: no bias is visible."
        return Verdict(True, fine + blur, numbers)


def unadjusted_variance(step_size: ArrayLike, variance: ArrayLike = 1.0) -> Array:
    r"""$\sigma^2 / (1 - \epsilon/4\sigma^2)$, where `ULA` ends on $N(\mu, \sigma^2)$; infinite if nowhere.

    >>> round(float(unadjusted_variance(0.5)), 6)
    1.142857
    """
    step_size, variance = as_float("step_size", step_size), as_float("variance", variance)
    room = 1 - step_size / (4 * variance)
    return jnp.where(room > 0, variance / jnp.where(room > 0, room, 1.0), jnp.inf)


@takes_key
def langevin(
    score: Score, start: ArrayLike, *, key: Key, step_size: float | Array, num_steps: int, args: tuple = ()
) -> LangevinDraws:
    """The path of unadjusted Langevin steps under `score(x, *args)`, from one point: draws, and how biased.

    The first draws still know the start: drop what is not yet at rest.
    """
    start = as_float("start", start)
    check_shape("start", start, (None,))
    check_finite("start", start)
    num_steps = check_count("num_steps", num_steps, least=4)
    step_size = ULA(as_float("step_size", step_size)).step_size.astype(start.dtype)
    draws, scores = _langevin(score, start, key, step_size, num_steps, as_data(args))
    return LangevinDraws(draws, stein_ratio(draws, scores, True), step_size[None], 0.0, num_steps)


@takes_key
def annealed_langevin(
    score: Score,
    start: ArrayLike,
    sigmas: ArrayLike,
    *,
    key: Key,
    num_steps: int = 100,
    step_size: float | Array = 0.1,
    denoise: bool = True,
    args: tuple = (),
) -> LangevinDraws:
    r"""Many points, the rows of `start`, moved together through the falling noise levels `sigmas`.

    `score(x, sigma, *args)` is the score, at one point, of the target blurred by $N(0, \sigma^2 I)$. Each
    level takes `num_steps` steps of `step_size` $\sigma^2$. With `denoise`, the last blur is removed by
    $x + \sigma_K^2 s(x, \sigma_K)$, the mean of the clean point given the blurred one: a mean, so details
    below $\sigma_K$ are gone. Starts should be as wide as the target blurred by $\sigma_1$.
    """
    start, sigmas = as_float("start", start), as_float("sigmas", sigmas)
    check_shape("start", start, (None, None), "One row per draw.")
    check_finite("start", start)
    check(sigmas.ndim == 1 and sigmas.size > 0, "sigmas", "a vector of noise levels", f"shape {sigmas.shape}")
    if is_concrete(sigmas):
        values = np.asarray(sigmas)
        falling = bool((values > 0).all() and np.isfinite(values).all() and (np.diff(values) < 0).all())
        check(
            falling, "sigmas", "positive and falling", f"{values}", "Try `jnp.geomspace(large, small, 10)`."
        )
    num_steps = check_count("num_steps", num_steps)
    steps = (
        ULA(as_float("step_size", step_size)).step_size.astype(start.dtype) * sigmas.astype(start.dtype) ** 2
    )
    levels = (sigmas.astype(start.dtype), steps)
    draws, scores = _anneal(score, start, key, levels, num_steps, as_data(args))
    stein = stein_ratio(draws, scores, False)
    if denoise:
        draws = draws + levels[0][-1] ** 2 * scores
    noise = 0.0 if denoise or not is_concrete(sigmas) else float(sigmas[-1])
    return LangevinDraws(draws, stein, steps, noise, num_steps * sigmas.size)


def _noisy_ascent(key: Key, position: Array, score: Array, step_size: Any) -> Array:
    step_size = jnp.asarray(step_size, position.dtype)
    noise = jr.normal(key, position.shape, position.dtype)
    return position + 0.5 * step_size * score + jnp.sqrt(step_size) * noise


@program
def _langevin(score, start, key, step_size, num_steps, args):
    def step(state, key):
        position, slope = state
        position = _noisy_ascent(key, position, slope, step_size)
        state = (position, score(position, *args))
        return state, state

    return run(step, (start, score(start, *args)), jr.split(key, num_steps)).trace


@program
def _anneal(score, start, key, levels, num_steps, args):
    def slopes(points, sigma):
        return jax.vmap(lambda x: score(x, sigma, *args))(points)

    def step(points, each):
        key, sigma, step_size = each
        return _noisy_ascent(key, points, slopes(points, sigma), step_size), None

    sigmas, steps = (jnp.repeat(level, num_steps) for level in levels)
    points = run(step, start, (jr.split(key, sigmas.size), sigmas, steps)).state
    return points, slopes(points, levels[0][-1])


@program
def stein_ratio(draws: Float[Array, "n d"], scores: Float[Array, "n d"], in_order: bool) -> Estimate:
    r"""$-E[(x - \bar x)^\top s(x)]/d$ of draws with their scores: 1 for draws of the density; above 1 they
    are too wide, below too narrow."""
    each = -((draws - draws.mean(0, keepdims=True)) * scores).mean(1)
    time = autocorrelation_time(each) if in_order else 1.0  # the rows of a path are not independent
    return Estimate(each.mean(), each.std() * jnp.sqrt(time / each.size))
