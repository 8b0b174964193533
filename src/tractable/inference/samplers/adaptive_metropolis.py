r"""A random walk that learns its proposal from its own past.

Updates.     After each step, with $\gamma = 3/(n + 3 + 2d)$ after $n$ of them:
             $\Sigma \leftarrow (1 - \gamma)\Sigma + \gamma(x - m)(x - m)^\top$,
             $m \leftarrow m + \gamma(x - m)$ and
             $\log\epsilon \leftarrow \log\epsilon + (n + 1)^{-0.6}(\alpha - \alpha^*)$, where $\alpha$ is the
             probability of acceptance. Steps are $\epsilon\,(2.38/\sqrt d)\,\Sigma^{1/2} z$.
Validity.    The changes vanish as $1/n$, and end where `adapting` is false: from then on the chain is plain
             Metropolis and leaves the target invariant exactly.
Cost.        One density per step, and $O(d^2)$: the factor of $\Sigma$ changes by one rotation per column.
References.  Haario, Saksman and Tamminen (2001); Andrieu and Thoms (2008), algorithm 4.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.linalg import cholesky_update, tria
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Key, PyTree, Scalar
from tractable.inference.samplers.metropolis import RandomWalkMetropolis, as_scale, check_acceptance
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler

__all__ = ["AdaptiveMetropolis", "AdaptiveState"]


class AdaptiveState(Module):
    """A point of the chain with what was learnt on the way to it: `lower` is a factor of the covariance."""

    position: Float[Array, " d"]
    log_density: Scalar
    mean: Float[Array, " d"]
    lower: Float[Array, "d d"]
    log_step: Scalar
    num_learnt: Float[Array, ""]
    gradient: Any = None  # of the density: not followed

    @property
    def cov(self) -> Float[Array, "d d"]:
        """The covariance learnt so far."""
        return self.lower @ self.lower.T


class AdaptiveMetropolis(Sampler):
    r"""A random walk that learns the covariance of the target, and the length of its steps, as it goes.

    It learns while `adapting` is true. The first steps are forgotten as $n^{-3}$. `scale` is what it starts
    from, as in `RandomWalkMetropolis`.
    """

    scale: Any = field(converter=as_scale, default=None)
    target_acceptance: float = field(static=True, default=0.234)
    adapting: Any = field(default=True, converter=lambda value: jnp.asarray(value, bool))

    def __check_init__(self) -> None:
        check_acceptance(self.target_acceptance)

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> AdaptiveState:
        """The state at `position`, with nothing learnt; the key is not used."""
        start = RandomWalkMetropolis(scale=self.scale).init(log_density, position, key)
        x, zero = start.position, jnp.zeros((), start.position.dtype)
        scale = jnp.ones((), x.dtype) if self.scale is None else self.scale.astype(x.dtype)
        # any square root of a covariance will do as a scale; the updates need the triangular one
        lower = tria(scale) if scale.ndim == 2 else jnp.diag(scale * jnp.ones_like(x))
        return AdaptiveState(x, start.log_density, x, lower, zero, zero)

    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[Any, Info]:
        """Propose, accept or stay, and learn."""
        walk = RandomWalkMetropolis(jnp.exp(state.log_step), state.lower)
        point, info = walk.step(log_density, ChainState(state.position, state.log_density), key)
        places = (point.position, point.log_density)
        moved = eqx.tree_at(lambda s: (s.position, s.log_density), state, places)
        return jax.lax.cond(self.adapting, lambda: self._learn(moved, info.acceptance), lambda: moved), info

    def _learn(self, state: AdaptiveState, acceptance: Scalar) -> AdaptiveState:
        x, n = state.position, state.num_learnt
        gamma = 3 / (n + 3 + 2 * x.size)  # below 1: the covariance stays positive definite
        gap = x - state.mean
        lower = cholesky_update(jnp.sqrt(1 - gamma) * state.lower, jnp.sqrt(gamma) * gap)
        error = acceptance.astype(x.dtype) - self.target_acceptance
        log_step = state.log_step + (n + 1) ** -0.6 * error
        return AdaptiveState(x, state.log_density, state.mean + gamma * gap, lower, log_step, n + 1)
