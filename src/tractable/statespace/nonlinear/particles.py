r"""Particle filters of nonlinear systems: bootstrap, guided by a Gaussian rule, and auxiliary.

Bootstrap.   Particles move by the transition and are weighted by the reading.
Guided.      From each particle the transition is a Gaussian, in which a rule makes $h$ affine; conditioned
             on $y_t$ it is the proposal, close to the best one, $p(x_t \mid x_{t-1}, y_t)$, and equal to it
             where $h$ is linear.
Auxiliary.   The same affine map also predicts the reading, $\hat p(y_t \mid x_{t-1})$, by which parents are
             chosen; where $h$ is linear all weights are then equal.
Missing.     An entry that is NaN is marked, and its density left out.
Cost.        $O(TN)$ values of $f$ and $h$; a Gaussian conditioning per particle where it is guided.
References.  Doucet, Godsill and Andrieu (2000); Pitt and Shephard (1999).
"""

from typing import Any

import jax.numpy as jnp

from tractable.core.checks import check, check_option
from tractable.core.factors import normal_log_density, positive_definite_factor
from tractable.core.module import Module
from tractable.core.types import Array, Float, Key, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.inference.particles.filter import Filtered, particle_filter
from tractable.messages.gaussian_steps import FORMS, Belief, Step
from tractable.statespace.nonlinear.model import Dynamics

__all__ = ["Mover", "filter_by_particles"]

PROPOSALS = ("bootstrap", "guided", "auxiliary")
_UNSEEN = 1e300  # stands for an entry that is missing: rows of NaN alone are missing as a whole


class Mover(Module):
    """The transition to time `t`, as a Gaussian."""

    model: Dynamics
    inputs: Any
    covs: Float[Array, "s d d"]

    def __call__(self, x: Array, t: Array) -> Gaussian:
        u = None if self.inputs is None else self.inputs[t - 1]
        return Gaussian(self.model.move(x, t - 1, u), self.covs[t - 1])

    def at_first(self) -> "Still":
        """The transition of a system that is the same at all times."""
        return Still(self)


class Still(Module):
    """A transition that does not depend on time."""

    mover: Mover

    def __call__(self, x: Array) -> Gaussian:
        first = self.mover.model
        noise = first.transition_cov  # also where there is one time alone, and no step
        return Gaussian(first.move(x, jnp.asarray(0)), noise)


class Looker(Module):
    """The log-density of a reading, of which entries may be marked as missing."""

    model: Dynamics
    inputs: Any
    covs: Float[Array, "t m m"]

    def __call__(self, x: Array, y: Array, t: Array) -> Scalar:
        u = None if self.inputs is None else self.inputs[t]
        y = jnp.where(y == _UNSEEN, jnp.nan, y)
        seen = ~jnp.isnan(y)
        gap = jnp.where(seen, jnp.where(seen, y, 0.0) - self.model.look(x, t, u), 0.0)
        both = seen[:, None] & seen[None]
        factor = positive_definite_factor(jnp.where(both, self.covs[t], jnp.eye(y.size, dtype=y.dtype)))
        z = factor.half_solve(gap)
        return normal_log_density(z @ z, factor.log_det(), seen.sum())


class Guide(Module):
    """The transition conditioned on the reading, by an affine map of the observation; and its prediction."""

    mover: Mover
    looker: Looker
    rule: Any

    def __call__(self, x: Array, y: Array, t: Array) -> Gaussian:
        after, _ = self._learnt(x, y, t)
        return Gaussian(after.mean, after.spread)

    def promise(self, x: Array, y: Array, t: Array) -> Scalar:
        r"""$\log\hat p(y_t \mid x_{t-1})$."""
        return self._learnt(x, y, t)[1]

    def _learnt(self, x: Array, y: Array, t: Array) -> tuple[Belief, Scalar]:
        law, form = self.mover(x, t), FORMS["covariance"]
        u = None if self.looker.inputs is None else self.looker.inputs[t]
        found = self.rule(lambda x: self.looker.model.look(x, t, u), law.mean, law.cov)
        look = Step(found.weights, found.bias, self.looker.covs[t] + found.residual)
        return form.observe(look, Belief(law.mean, law.cov), jnp.where(y == _UNSEEN, jnp.nan, y))


class Promise(Module):
    """What a guide predicts, as a function of its own."""

    guide: Guide

    def __call__(self, x: Array, y: Array, t: Array) -> Scalar:
        return self.guide.promise(x, y, t)


def filter_by_particles(
    model: Dynamics, ys: Array, inputs: Any, key: Key, proposal: str, rule: Any, options: dict
) -> Filtered:
    """`particle_filter` of a nonlinear system."""
    check_option("proposal", proposal, PROPOSALS)
    taken = {"num_particles", "num_replicates", "resampling", "ess_threshold", "history"}
    unknown = sorted(set(options) - taken)
    check(not unknown, "options", f"among {sorted(taken)}", unknown, error=TypeError)
    move_covs, look_covs = model.covs(len(ys))
    mover, looker = Mover(model, inputs, move_covs), Looker(model, inputs, look_covs)
    guide = Guide(mover, looker, rule)
    if proposal != "bootstrap":
        options = options | {"proposal": guide}
    if proposal == "auxiliary":
        options = options | {"lookahead": Promise(guide)}
    return particle_filter(model.initial(), mover, looker, marked(ys), key=key, **options)


def marked(ys: Array) -> Array:
    """The readings with a mark for each entry that is missing in a row of which others are seen."""
    unknown = jnp.isnan(ys)
    return jnp.where(unknown & ~unknown.all(1, keepdims=True), _UNSEEN, ys)
