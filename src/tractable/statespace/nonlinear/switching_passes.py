r"""Passes of switching systems: Gaussians merged by their moments, or one for each path of modes.

Merging.     $\sum_i w_i N(m_i, P_i) \approx N(\bar m, \sum_i w_i [P_i + (m_i - \bar m)(m_i - \bar
             m)^\top])$: of all Gaussians the one nearest in $\mathrm{KL}(p \,\|\, q)$.
Loss.        Of each entry, the variance between the means and the mean distance of the variances from their
             mean, as a share of the whole; the largest counts.
Cost.        $O(K^2 d^3)$ per time for "kim", $O(K d^3)$ for "imm"; $K^T$ filters for the exact mixture.
References.  Kim (1994); Blom and Bar-Shalom (1988); Murphy (1998).
"""

from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.module import Module
from tractable.core.numerics import logsumexp, softmax
from tractable.core.programs import light, program
from tractable.core.types import Array, Float
from tractable.messages.gaussian_steps import FORMS, Belief, Step, push

__all__ = ["Kept", "Modes", "enumerated", "learnt", "merge", "merged", "stepped"]

_FORM = FORMS["covariance"]


class Modes(Module):
    """The parts of a switching system as steps, one for each mode, and logarithms of its chain."""

    log_initial: Float[Array, " k"]
    log_transition: Float[Array, "k k"]
    start: Belief
    moves: Step
    looks: Step


def merge(log_weights: Array, beliefs: Belief) -> tuple[Belief, Array]:
    """One Gaussian for several, and what is lost by it."""
    possible = log_weights.max() > -jnp.inf
    shares = softmax(jnp.where(possible, log_weights, 0.0))
    mean = shares @ beliefs.mean
    apart = beliefs.mean - mean[None]
    within = jnp.einsum("k,kab->ab", shares, beliefs.spread)
    between = jnp.einsum("k,ka,kb->ab", shares, apart, apart)
    uneven = jnp.abs(jnp.diagonal(beliefs.spread, axis1=1, axis2=2) - jnp.diag(within)[None])
    total = jnp.diag(within + between)
    loss = (jnp.diag(between) + shares @ uneven) / jnp.where(total > 0, total, jnp.inf)
    return Belief(mean, within + between), jnp.where(possible, loss.max(), 0.0)


def learnt(look: Step, belief: Belief, y: Array) -> tuple[Belief, Array]:
    """The belief after a reading, and the log-density of that reading."""
    return _FORM.observe(look, belief, y)


def stepped(move: Step, look: Step, belief: Belief, y: Array) -> tuple[Belief, Array]:
    """One step by the matrices of a mode, and the reading after it."""
    return learnt(look, push(_FORM, move, belief), y)


class Kept(Module):
    """Beliefs of each time as they are kept: Gaussians with their weights, and what they say together."""

    log_weights: Float[Array, "t n"]
    beliefs: Belief
    modes: Float[Array, "t k"]
    belief: Belief
    log_densities: Float[Array, " t"]
    losses: Float[Array, " t"]


@program
@light
def merged(modes: Modes, ys: Array, method: str) -> Kept:
    """The pass forward that keeps one Gaussian per mode, merged at each step."""
    weights, beliefs, densities, losses = by_mode(modes, ys, method)
    whole = jax.vmap(merge)(weights, beliefs)[0]
    return Kept(weights, beliefs, jnp.exp(weights), whole, densities, losses)


def by_mode(modes: Modes, ys: Array, method: str) -> tuple[Array, Belief, Array, Array]:
    """Log-probabilities of modes, the belief of each, log-densities and losses, of each time."""

    def report(logs: Array, beliefs: Belief, loss: Array) -> tuple[tuple, tuple]:
        total = logsumexp(logs)
        weights = logs - total
        return (weights, beliefs), (weights, beliefs, total, loss)

    def kim(weights: Array, beliefs: Belief, y: Array) -> tuple[Array, Belief, Array]:
        def pair(belief: Belief) -> tuple[Belief, Array]:
            return jax.vmap(lambda move, look: stepped(move, look, belief, y))(modes.moves, modes.looks)

        after, densities = jax.vmap(pair)(beliefs)  # from each mode to each
        logs = weights[:, None] + modes.log_transition + densities
        kept, losses = jax.vmap(merge, (1, 1))(logs, after)
        return logsumexp(logs, axis=0), kept, losses.max()

    def imm(weights: Array, beliefs: Belief, y: Array) -> tuple[Array, Belief, Array]:
        logs = weights[:, None] + modes.log_transition
        mixed, losses = jax.vmap(merge, (1, None))(logs, beliefs)
        after, densities = jax.vmap(stepped, (0, 0, 0, None))(modes.moves, modes.looks, mixed, y)
        return logsumexp(logs, axis=0) + densities, after, losses.max()

    def step(carry: tuple, y: Array) -> tuple[tuple, tuple]:
        weights, beliefs = carry
        logs, after, loss = (kim if method == "kim" else imm)(weights, beliefs, y)
        return report(logs, after, loss)

    begun, densities = jax.vmap(lambda look: learnt(look, modes.start, ys[0]))(modes.looks)
    carry, first = report(modes.log_initial + densities, begun, jnp.zeros((), ys.dtype))
    _, later = jax.lax.scan(step, carry, ys[1:])
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later)


@program
@light
def enumerated(modes: Modes, ys: Array, paths: Array) -> Kept:
    """The pass forward that keeps one Gaussian for each of all `paths` of modes (n, t)."""
    beliefs, densities = jax.vmap(along, (None, None, 0), 1)(modes, ys, paths)
    prior = modes.log_initial[paths[:, 0]] + modes.log_transition[paths[:, :-1], paths[:, 1:]].sum(1)
    # the modes after a time sum to one, so that all paths together are the mixture of every time
    logs = prior[None] + jnp.cumsum(densities, axis=0)
    totals = logsumexp(logs, axis=1)
    marks = jax.nn.one_hot(paths, len(modes.log_initial), dtype=logs.dtype)
    shares = jnp.einsum("tn,ntk->tk", jnp.exp(logs - totals[:, None]), marks)
    increments = jnp.diff(totals, prepend=jnp.zeros(1, totals.dtype))
    whole = jax.vmap(merge)(logs, beliefs)[0]
    return Kept(logs, beliefs, shares, whole, increments, jnp.zeros_like(increments))


def along(modes: Modes, ys: Array, path: Array) -> tuple[Belief, Array]:
    """The filter of one path of modes: beliefs and log-densities of each time."""
    begun, density = learnt(chosen(modes.looks, path[0]), modes.start, ys[0])

    def step(belief: Belief, each: tuple[Array, Array]) -> tuple[Belief, tuple[Belief, Array]]:
        mode, y = each
        after, density = stepped(chosen(modes.moves, mode), chosen(modes.looks, mode), belief, y)
        return after, (after, density)

    _, later = jax.lax.scan(step, begun, (path[1:], ys[1:]))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), (begun, density), later)


def chosen(part: Any, mode: Array) -> Any:
    """The matrices of one mode."""
    return jax.tree.map(lambda leaf: leaf[mode], part)
