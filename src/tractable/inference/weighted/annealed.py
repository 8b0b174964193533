r"""Annealed importance sampling: from a distribution that can be drawn to one that cannot, in small steps.

Path.        $\log p_\beta(x) = (1 - \beta)\log p_0(x) + \beta\log\tilde p(x)$ for
             $0 = \beta_0 < \dots < \beta_K = 1$.
Weights.     Each draw starts at $x \sim p_0$ and moves by kernels that leave $p_{\beta_k}$ invariant;
             $\log w = \sum_k (\beta_k - \beta_{k-1})\,(\log\tilde p - \log p_0)(x_{k-1})$, so that
             $E[w] = Z$ exactly, however badly the kernels mix; bad mixing shows as a spread of the weights.
Cost.        $K$ kernel applications per draw, all draws at once.
References.  Neal (2001), "Annealed importance sampling".
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.accept import accept
from tractable.core.checks import as_float, check, check_count, check_entries, check_finite, is_concrete
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.user_code import call_user
from tractable.distributions.base import Distribution
from tractable.inference.weighted.importance import Weighted, as_log_density

__all__ = ["Annealed", "RandomWalk", "annealed_importance", "temperature_ladder"]

LogDensity = Callable[[Array], Scalar]
Transition = Callable[[Key, Array, LogDensity], tuple[Array, Array]]


class RandomWalk(Module):
    r"""A Metropolis move $x' = x + e^{u} s\,z$, $z \sim N(0, I)$, $u$ uniform over the logs of `lengths`.

    Steps of many lengths at random: some of them fit, at every temperature, without tuning. `scale` is the
    length per coordinate; $2.4/\sqrt d$ of it is used, the optimal length for a Gaussian in $d$ dimensions.
    """

    scale: Float[Array, "..."]
    lengths: tuple[float, float] = field(static=True, default=(0.02, 1.0))

    def __call__(self, key: Key, x: Array, log_density: LogDensity) -> tuple[Array, Array]:
        """The point after one move, and whether it moved."""
        key_length, key_step, key_accept = jr.split(key, 3)
        low, high = np.log(self.lengths)
        stretch = jnp.exp(jr.uniform(key_length, (), x.dtype, low, high)) * (2.4 / np.sqrt(max(x.size, 1)))
        proposal = x + stretch * self.scale * jr.normal(key_step, x.shape, x.dtype)
        accepted, _ = accept(key_accept, log_density(proposal) - log_density(x))  # never for NaN
        return jnp.where(accepted, proposal, x), accepted


class Annealed(Weighted):
    """Weighted draws at the end of the path, with the share of moves accepted at each temperature."""

    temperatures: Float[Array, " k"] | None = None
    acceptance: Float[Array, " steps"] | None = None


@takes_key
def annealed_importance(
    log_density: Callable[..., Any] | Distribution,
    base: Distribution,
    *,
    key: Key,
    num_draws: int,
    temperatures: int | ArrayLike = 50,
    num_moves: int = 4,
    transition: Transition | None = None,
    args: tuple = (),
) -> Annealed:
    r"""Weighted draws of $\tilde p$ = `exp(log_density(x, *args))`, and its log-evidence, from `base`.

    `temperatures` is an array from 0 to 1, or a number of steps $K$ of the ladder $(k/K)^4$.
    `transition(key, x, log_density) -> (x, accepted)` moves one point and must leave `log_density` invariant;
    it is applied `num_moves` times at each temperature. The default is a `RandomWalk` with the standard
    deviations of `base` as its scale. The standard error of `log_evidence` counts whole paths, which are
    independent: it is honest however slowly they mix.
    """
    num_draws = check_count("num_draws", num_draws, least=2)
    ladder = as_ladder(temperatures)
    kernel = RandomWalk(base.std) if transition is None else transition
    num_moves = check_count("num_moves", num_moves)
    target = as_log_density(log_density)
    draws, logs, acceptance = _anneal(
        target, base, kernel, ladder, key, (num_draws, num_moves), as_data(args)
    )
    check_entries("log_density", logs, lambda v: ~np.isnan(v), "not NaN on the way", got="log-weight {}")
    found = Weighted.of(draws, logs)
    return Annealed(draws, found.log_weights, found.k_hat, False, ladder, acceptance)


def temperature_ladder(num_steps: int, power: float | int = 4.0) -> Array:
    r"""$\beta_k = (k/K)^p$ for $k = 0 \dots K$: most steps near 0, where the likelihood first bites."""
    num_steps = check_count("num_steps", num_steps)
    check(power > 0, "power", "positive", power)
    return jnp.linspace(0.0, 1.0, num_steps + 1) ** power


def as_ladder(temperatures: int | ArrayLike) -> Array:
    if isinstance(temperatures, int):
        return temperature_ladder(temperatures)
    ladder = as_float("temperatures", temperatures)
    must = "a vector of two or more"
    check(ladder.ndim == 1 and ladder.size > 1, "temperatures", must, f"shape {ladder.shape}")
    check_finite("temperatures", ladder)
    if is_concrete(ladder):
        values = np.asarray(ladder)
        rising = values[0] == 0 and values[-1] == 1 and bool((np.diff(values) > 0).all())
        check(rising, "temperatures", "rising from 0 to 1", f"{values}")
    return ladder


def _scaled(share: Array, log_p: Array) -> Array:
    """`share * log_p`, where no share of an impossible point is nothing."""
    return jnp.where(share == 0, 0.0, share * jnp.where(share == 0, 0.0, log_p))


@program
def _anneal(
    log_density: Callable,
    base: Distribution,
    kernel: Transition,
    ladder: Array,
    key: Key,
    sizes: tuple[int, int],
    args: tuple,
) -> tuple[Array, Array, Array]:
    num_draws, num_moves = sizes

    def log_p(x):
        return jnp.asarray(call_user("log_density", log_density, x, *args), ladder.dtype)

    def path(x, beta):
        return _scaled(1 - beta, base.log_prob(x)) + _scaled(beta, log_p(x))

    def step(state, each):
        xs, logs = state
        key, before, beta = each
        gain = jax.vmap(lambda x: log_p(x) - base.log_prob(x))(xs)
        logs = logs + _scaled(jnp.broadcast_to(beta - before, gain.shape), gain)
        move = jax.vmap(lambda key, x: kernel(key, x, lambda point: path(point, beta)))
        xs, accepted = move(jr.split(key, num_draws), xs)
        return (xs, logs), jnp.mean(accepted, dtype=ladder.dtype)

    key_start, key_path = jr.split(key)
    start = base.sample(key_start, (num_draws,)), jnp.zeros(num_draws, ladder.dtype)
    # moves after the first at a temperature come with an increment of zero
    before = jnp.stack([ladder[:-1]] + [ladder[1:]] * (num_moves - 1), 1).reshape(-1)
    keys = jr.split(key_path, before.size)
    annealed = run(step, start, (keys, before, jnp.repeat(ladder[1:], num_moves)))
    return *annealed.state, annealed.trace.reshape((-1, num_moves)).mean(1)
