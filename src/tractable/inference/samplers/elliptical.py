r"""Elliptical slice sampling: a Gaussian prior and any likelihood, without a gradient or a step size.

Target.      $p(f) \propto N(f; m, \Sigma)\,L(f)$; the function that is given is $\log L$, not $\log p$.
Ellipse.     With $\nu \sim N(0, \Sigma)$, $f(\theta) = m + (f - m)\cos\theta + \nu\sin\theta$ has the law of
             the prior for every $\theta$ if $f$ has it: only the likelihood decides. Angles are drawn in an
             interval that shrinks towards $\theta = 0$ until $L(f(\theta)) \ge u L(f)$, $u$ uniform.
Cost.        $O(d^2)$ for $\nu$ and a few likelihoods per step; one factor of $\Sigma$ when it is made.
References.  Murray, Adams and MacKay (2010), "Elliptical slice sampling".
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_count
from tractable.core.factors import psd_root
from tractable.core.module import Module, field
from tractable.core.streams import Stream
from tractable.core.types import Array, Bool, Float, Int, Key, PyTree, Scalar
from tractable.inference.samplers.metropolis import vector_state
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler
from tractable.inference.samplers.slice import shrink

__all__ = ["EllipticalSlice"]


class EllipticalSlice(Sampler):
    """The sampler of a Gaussian `prior` times the likelihood whose logarithm is given as `log_density`.

    `prior` has a `mean` (a vector) and a factor `lower` with `lower @ lower.T` its covariance, or else a
    covariance `cov` (as a `Gaussian`); it may be singular. Positions are vectors in the coordinates of the
    prior, and the `log_density` of a state is the log-likelihood there.
    """

    space: ClassVar[str] = "native"
    mean: Float[Array, " d"]
    lower: Float[Array, "d d"]
    max_shrinks: int = field(static=True, default=100)

    def __init__(self, prior: Any, max_shrinks: int = 100):
        parts = hasattr(prior, "mean") and (hasattr(prior, "lower") or hasattr(prior, "cov"))
        must = "a Gaussian with a `mean` and a `lower` or `cov`"
        check(parts, "prior", must, type(prior).__name__, error=TypeError)
        self.mean = as_float("prior.mean", prior.mean)
        check(self.mean.ndim == 1, "prior", "one Gaussian over vectors", f"mean of shape {self.mean.shape}")
        given = hasattr(prior, "lower")
        self.lower = (
            as_float("prior.lower", prior.lower) if given else _root(as_float("prior.cov", prior.cov))
        )
        square = self.mean.shape * 2
        check(
            self.lower.shape == square, "prior", f"of shapes {self.mean.shape} and {square}", self.lower.shape
        )
        self.max_shrinks = check_count("max_shrinks", max_shrinks)

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> ChainState:
        """The state at `position`; the key is not used."""
        state = vector_state(log_density, position)
        shape = state.position.shape
        check(shape == self.mean.shape, "position", f"of shape {self.mean.shape}", f"shape {shape}")
        return state

    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[Any, Info]:
        """Move along one ellipse through the point."""
        x, size, numbers = state.position, state.position.size, Stream.of(key)
        mean, lower = self.mean.astype(x.dtype), self.lower.astype(x.dtype)
        other = lower @ numbers.normal(jnp.arange(size)).astype(x.dtype)
        height, turn = numbers.uniform(2 * size + jnp.arange(2)).astype(x.dtype)
        level = state.log_density + jnp.log(height).astype(state.log_density.dtype)
        angle = 2 * jnp.pi * turn

        def advance(arc: _Arc) -> _Arc:
            point = mean + (x - mean) * jnp.cos(arc.angle) + other * jnp.sin(arc.angle)
            value = jnp.asarray(log_density(point), state.log_density.dtype)
            low, high = shrink(arc.low, arc.high, arc.angle)
            uniform = numbers.uniform(2 * size + 2 + arc.count).astype(x.dtype)
            chosen = ChainState(point, value), arc.count + 1, value >= level
            return _Arc(*chosen, low + uniform * (high - low), low, high, arc.undefined | jnp.isnan(value))

        def unfinished(arc: _Arc) -> Bool[Array, ""]:
            return ~arc.inside & (arc.count < self.max_shrinks)

        no = jnp.asarray(False)
        before = ChainState(x, state.log_density)
        start = _Arc(before, jnp.asarray(0), no, angle, angle - 2 * jnp.pi, angle, no)
        end = jax.lax.while_loop(unfinished, advance, start)
        after = jax.tree.map(lambda new, old: jnp.where(end.inside, new, old), end.state, before)
        acceptance = (end.inside / end.count).astype(x.dtype)
        return after, Info(acceptance, end.count, saturated=~end.inside, undefined=end.undefined)


class _Arc(Module):
    """The point tried last, and the arc on which the next one is drawn."""

    state: ChainState
    count: Int[Array, ""]
    inside: Bool[Array, ""]
    angle: Scalar
    low: Scalar
    high: Scalar
    undefined: Bool[Array, ""]


_root = jax.jit(psd_root)
