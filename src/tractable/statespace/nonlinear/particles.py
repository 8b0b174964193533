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

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import check, check_option, has_values, namespace, to_device
from tractable.core.factors import normal_log_density, positive_definite_factor, psd_root
from tractable.core.module import Module
from tractable.core.types import Array, Float, Key, Scalar
from tractable.inference.particles.filter import Filtered, particle_filter
from tractable.messages.gaussian_steps import Step
from tractable.statespace.nonlinear.model import Dynamics

__all__ = ["Mover", "filter_by_particles", "first_state", "marked", "moves_and_looks", "roots_of"]

PROPOSALS = ("bootstrap", "guided", "auxiliary")
_UNSEEN = 1e300  # stands for an entry that is missing: rows of NaN alone are missing as a whole


class Informed(Module):
    r"""A Gaussian $N(m, UU^\top)$ that has seen $y = Hx + c + e$, $e \sim N(0, N)$, without a factor of its
    covariance: in the coordinates of $U$ it is $(I + V N^{-1} V^\top)^{-1}$, $V^\top = HU$. Its log-density
    exceeds that of $N(m, UU^\top)$ by $\log N(y; Hx + c, N) - \log N(y; Hm + c, S)$."""

    law: "Moved"
    look: Step
    y: Float[Array, "*n m"]

    def sample(self, key: Key) -> Array:
        """One draw; as many normal numbers as the state has entries, as for all draws of a filter."""
        law, half = self.law, self.look.weights @ self.law.root
        z = jr.normal(key, law.mean.shape, law.mean.dtype)
        shift = half.T @ _solve(_root(self.marginal()), self.y - self.predicted(law.mean))
        if self.y.size == 1:  # Potter's root
            noise, total, v = self.look.spread[0, 0], self.marginal()[0, 0], half[0]
            z = z - v * ((v @ z) / (total + jnp.sqrt(noise * total)))
        else:
            inside = half.T @ _solve(_root(self.look.spread), half)
            lower = jnp.linalg.cholesky(jnp.eye(z.size, dtype=z.dtype) + inside)
            z = jsl.solve_triangular(lower.T, z, lower=False)
        return law.mean + law.root @ (shift + z)

    def log_ratio(self, x: Array) -> Scalar:
        """The log-density of the law before the reading, less that of this one; also of singular laws."""
        return self.promise() - _normal(self.y - self.predicted(x), _root(self.look.spread))

    def promise(self) -> Scalar:
        """The log-density of the reading."""
        return _normal(self.y - self.predicted(self.law.mean), _root(self.marginal()))

    def predicted(self, x: Array) -> Array:
        """What the reading would be without its noise."""
        return self.look.weights @ x + self.look.bias

    def marginal(self) -> Array:
        """The covariance of the reading."""
        half = self.look.weights @ self.law.root
        return half @ half.T + self.look.spread


class Moved(Module):
    """A Gaussian by its mean and by a root of its covariance that was taken once for all particles."""

    mean: Float[Array, "*n d"]
    root: Float[Array, "*n d d"]
    whiten: Float[Array, "*n d d"]  # the inverse of the triangle, or NaN where the covariance is singular

    def sample(self, key: Key) -> Array:
        """One draw; there are draws where the covariance is singular."""
        return self.mean + self.root @ jr.normal(key, self.mean.shape, self.mean.dtype)

    def log_prob(self, x: Array) -> Array:
        """The log-density at one point, or at many; NaN where the covariance is singular."""
        mean = self.mean if x.ndim == 1 else self.mean[None]
        z = (x - mean) @ self.whiten.T  # one product for all particles, not a solution for each
        return normal_log_density((z**2).sum(-1), -2 * jnp.log(jnp.diag(self.whiten)).sum(), x.shape[-1])


class Mover(Module):
    """The transition to time `t`; roots are one for all steps, or one each."""

    model: Dynamics
    inputs: Any
    roots: Float[Array, "*s d d"]
    whitens: Float[Array, "*s d d"]

    def __call__(self, x: Array, t: Array) -> Moved:
        u = None if self.inputs is None else self.inputs[t - 1]
        both = self.roots, self.whitens
        root, whiten = (part if part.ndim == 2 else part[t - 1] for part in both)
        return Moved(self.model.move(x, t - 1, u), root, whiten)


class Still(Module):
    """A transition that does not depend on time."""

    mover: Mover

    def __call__(self, x: Array) -> Moved:
        return Moved(self.mover.model.move(x, jnp.asarray(0)), self.mover.roots, self.mover.whitens)


class Looker(Module):
    """The log-density of a reading, of which entries may be marked as missing."""

    model: Dynamics
    inputs: Any
    covs: Float[Array, "*t m m"]

    def __call__(self, x: Array, y: Array, t: Array) -> Scalar:
        y = jnp.where(y == _UNSEEN, jnp.nan, y)
        seen = ~jnp.isnan(y)
        gap = jnp.where(seen, jnp.where(seen, y, 0.0) - self.model.look(x, t, self.input_at(t)), 0.0)
        both = seen[:, None] & seen[None]
        if y.size == 1:  # no factor, which would take the compiler a second
            cov = jnp.where(seen[0], self.cov_at(t)[0, 0], 1.0)
            return normal_log_density(gap[0] ** 2 / cov, jnp.log(cov), seen.sum())
        # of the time alone: one triangle for all particles
        lower = jnp.linalg.cholesky(jnp.where(both, self.cov_at(t), jnp.eye(y.size, dtype=y.dtype)))
        z = jsl.solve_triangular(lower, gap, lower=True)
        return normal_log_density(z @ z, 2 * jnp.log(jnp.diag(lower)).sum(), seen.sum())

    def cov_at(self, t: Array) -> Array:
        """The covariance of the reading at time `t`."""
        return self.covs if self.covs.ndim == 2 else self.covs[t]

    def input_at(self, t: Array) -> Any:
        """What is known of time `t`."""
        return None if self.inputs is None else self.inputs[t]


def _root(cov: Array) -> Array:
    """The triangle; of one number, its root."""
    return jnp.sqrt(cov) if cov.shape == (1, 1) else jnp.linalg.cholesky(cov)


def _solve(lower: Array, b: Array) -> Array:
    if lower.shape == (1, 1):  # no factor, which would take the compiler a second
        return b / lower[0] ** 2
    return jsl.cho_solve((lower, True), b)


def _normal(gap: Array, lower: Array) -> Scalar:
    z = gap / lower[0] if lower.shape == (1, 1) else jsl.solve_triangular(lower, gap, lower=True)
    return normal_log_density(z @ z, 2 * jnp.log(jnp.diag(lower)).sum(), gap.size)


def moves_and_looks(model: Dynamics, inputs: Any) -> tuple[Mover, Looker]:
    """The two laws of a system as particles use them."""
    looker = Looker(model, inputs, model.observation_cov)
    return Mover(model, inputs, roots_of(model.transition_cov), whitens_of(model.transition_cov)), looker


def roots_of(covs: Array) -> Array:
    """Roots of one matrix or of many; on the host where there are values, which compiles nothing."""
    if not has_values(covs):
        return psd_root(covs) if covs.ndim == 2 else jax.lax.map(psd_root, covs)
    values, vectors = np.linalg.eigh(np.asarray(covs))
    return to_device(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


def whitens_of(covs: Array) -> Array:
    """Inverse triangles of one matrix or of many, NaN where one is singular to rounding; likewise."""
    if not has_values(covs):
        factors = jax.lax.map(positive_definite_factor, covs.reshape((-1, *covs.shape[-2:])))
        identity = jnp.eye(covs.shape[-1], dtype=covs.dtype)
        return jax.vmap(lambda factor: factor.half_solve(identity))(factors).reshape(covs.shape)
    made = np.asarray(covs).copy()
    for one in made.reshape((-1, *made.shape[-2:])):
        scale = np.sqrt(np.diagonal(one))
        sizes = np.linalg.eigvalsh(one / np.outer(scale, scale)) if (scale > 0).all() else np.zeros(1)
        regular = len(one) == 0 or sizes[0] > 2 * len(one) * np.finfo(one.dtype).eps
        one[:] = np.tril(np.linalg.inv(np.linalg.cholesky(one))) if regular else np.nan
    return to_device(made)


class Guide(Module):
    """The transition conditioned on the reading, by an affine map of the observation; and its prediction."""

    mover: Mover
    looker: Looker
    rule: Any

    def __call__(self, x: Array, y: Array, t: Array) -> Informed:
        law, u = self.mover(x, t), self.looker.input_at(t)
        cov = law.root @ law.root.T
        found = self.rule(lambda x: self.looker.model.look(x, t, u), law.mean, cov, law.root)
        weights, bias, noise = found.weights, found.bias, self.looker.cov_at(t) + found.residual
        if y.size > 1:  # what is missing has no weights, unit noise and no gap
            seen = y != _UNSEEN
            weights = jnp.where(seen[:, None], weights, 0.0)
            bias, y = jnp.where(seen, bias, 0.0), jnp.where(seen, y, 0.0)
            noise = jnp.where(seen[:, None] & seen[None], noise, jnp.eye(y.size, dtype=y.dtype))
        return Informed(law, Step(weights, bias, noise), y)


class Promise(Module):
    """What a guide predicts, as a function of its own."""

    guide: Guide

    def __call__(self, x: Array, y: Array, t: Array) -> Scalar:
        unseen = (y == _UNSEEN).sum() if y.size > 1 else 0
        return self.guide(x, y, t).promise() - normal_log_density(0.0, 0.0, unseen)


def filter_by_particles(
    model: Dynamics, ys: Array, inputs: Any, key: Key, proposal: str, rule: Any, options: dict
) -> Filtered:
    """`particle_filter` of a nonlinear system."""
    check_option("proposal", proposal, PROPOSALS)
    taken = {"num_particles", "num_replicates", "resampling", "ess_threshold", "history"}
    unknown = sorted(set(options) - taken)
    check(not unknown, "options", f"among {sorted(taken)}", unknown, error=TypeError)
    mover, looker = moves_and_looks(model, inputs)
    guide = Guide(mover, looker, rule)
    if proposal != "bootstrap":
        options = options | {"proposal": guide}
    if proposal == "auxiliary":
        options = options | {"lookahead": Promise(guide)}
    return particle_filter(first_state(model), mover, looker, marked(ys), key=key, **options)


def first_state(model: Dynamics) -> Moved:
    """The law of the first state."""
    return Moved(model.initial_mean, roots_of(model.initial_cov), whitens_of(model.initial_cov))


def marked(ys: Array) -> Array:
    """The readings with a mark for each entry that is missing in a row of which others are seen."""
    xp = namespace(ys)  # on the host nothing is compiled for it
    rows = xp.asarray(ys)
    unknown = xp.isnan(rows)
    found = xp.where(unknown & ~unknown.all(1, keepdims=True), xp.asarray(_UNSEEN, rows.dtype), rows)
    return to_device(found) if xp is np else found
