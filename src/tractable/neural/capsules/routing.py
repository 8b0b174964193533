r"""Routing by expectation-maximisation: lower capsules vote for poses of upper ones, clusters win.

Model.       Upper capsule $j$ is a Gaussian with mean $\mu_j$ (its pose) and variances $\sigma_{jh}^2$ over
             the votes $V_{ij} \in R^H$; lower capsule $i$ has the weight $a_i$ and the shares $R_{ij}$,
             $\sum_jR_{ij} = 1$.
M-step.      With $r_{ij} = R_{ij}a_i$ and $S_j = \sum_ir_{ij}$: $\mu_{jh} = \sum_ir_{ij}V_{ijh}/S_j$,
             $\sigma_{jh}^2 = \sum_ir_{ij}(V_{ijh} - \mu_{jh})^2/S_j$, $\mathrm{cost}_j = \sum_h(\beta_u +
             \log\sigma_{jh})S_j$ and $a_j = \mathrm{sigmoid}(\lambda(\beta_a - \mathrm{cost}_j))$.
E-step.      $R_{ij} = a_jp_{ij}/\sum_ka_kp_{ik}$ with $p_{ij} = \prod_hN(V_{ijh}; \mu_{jh}, \sigma_{jh}^2)$.
Cost of bits. $\sum_ir_{ij}(-\log N(V_{ijh}; \mu_{jh}, \sigma_{jh}^2)) = (\log\sigma_{jh} + k)S_j$ exactly,
             with $k = \tfrac12 + \tfrac12\log 2\pi = 1.4189385$ (`COST_CONSTANT`), which $\beta_u$ absorbs.
Identity.    Where votes do not depend on $j$, the two steps are those of a mixture of diagonal Gaussians with
             mixing weights $a_j/\sum_ka_k$ and rows weighted by $a_i$.
Numbers.     Shares and activations are kept as logarithms, so that no vote is too far away to count. A
             variance is at least `floor`. An upper capsule without any share weighs all votes alike, for
             nothing.
Cost.        $O(nmH)$ per step for $n$ lower and $m$ upper capsules.
References.  Hinton, Sabour and Frosst (2018), "Matrix capsules with EM routing".
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_count, check_entries, check_finite, check_shape
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.numerics import log_sigmoid, log_softmax, safe_log
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.continuous import Normal

__all__ = [
    "COST_CONSTANT",
    "Capsules",
    "Routing",
    "capsule_e_step",
    "capsule_m_step",
    "em_routing",
    "inverse_temperatures",
]

COST_CONSTANT = 0.5 + 0.5 * math.log(2 * math.pi)


class Capsules(Module):
    """Upper capsules: a pose with variances for each, what its description costs, and how sure it is there.

    `mass` is the share of lower capsules that it explains and `logits` are those of its activation.
    """

    poses: Float[Array, "*steps m h"]
    variances: Float[Array, "*steps m h"]
    mass: Float[Array, "*steps m"]
    cost: Float[Array, "*steps m"]
    logits: Float[Array, "*steps m"]

    @property
    def activations(self) -> Float[Array, "*steps m"]:
        return jax.nn.sigmoid(self.logits)


class Routing(Module):
    """The upper capsules, the shares that the lower ones give them, and how both came about.

    `trace` holds the capsules after each M-step and the logarithms of the shares after each E-step.
    """

    capsules: Capsules
    log_shares: Float[Array, "n m"]
    log_densities: Float[Array, "n m"] = field(show=False)
    trace: tuple[Capsules, Float[Array, "steps n m"]] = field(show=False)

    @property
    def poses(self) -> Float[Array, "m h"]:
        return self.capsules.poses

    @property
    def activations(self) -> Float[Array, " m"]:
        return self.capsules.activations

    @property
    def shares(self) -> Float[Array, "n m"]:
        """$R_{ij}$ after the last E-step; each row sums to one."""
        return jnp.exp(self.log_shares)

    @property
    def agreement(self) -> Float[Array, "n m"]:
        r"""$\log p_{ij}$: how well each vote agrees with the pose that it is for."""
        return self.log_densities

    @property
    def entropies(self) -> Float[Array, "steps n"]:
        r"""$-\sum_jR_{ij}\log R_{ij}$ of each lower capsule after each step: zero where it has made up its
        mind."""
        logs = self.trace[1]
        shares = jnp.exp(logs)
        return -(shares * jnp.where(shares > 0, logs, 0.0)).sum(-1)

    @property
    def costs(self) -> Float[Array, "steps m"]:
        """The cost of each upper capsule after each step."""
        return self.trace[0].cost


def em_routing(
    votes: ArrayLike,
    activations: ArrayLike,
    *,
    offset: ArrayLike = 0.0,
    threshold: ArrayLike = 1.0,
    inverse_temperatures: ArrayLike | Sequence[float] = (1.0, 1.0, 1.0),
    shares: ArrayLike | None = None,
    floor: float = 1e-6,
) -> Routing:
    r"""Route `votes` (n, m, h) of lower capsules with `activations` (n,) in [0, 1] to upper ones.

    `offset` is $\beta_u$ and `threshold` $\beta_a$, numbers or one for each upper capsule. There is one step
    for each of the `inverse_temperatures`; `shares` (n, m) are those to begin with, by default equal.

    >>> votes = jnp.array([[0.0, 1.0], [0.2, 3.0], [0.1, -2.0]])[:, :, None]
    >>> found = em_routing(votes, jnp.ones(3), inverse_temperatures=[1.0, 1.0])
    >>> [f"{value:.8f}" for value in (*found.activations, *found.poses[:, 0])]
    ['0.99976532', '0.72558609', '0.10060405', '1.25363901']
    """
    votes, activations = as_float("votes", votes), as_float("activations", activations)
    check_shape("votes", votes, (None, None, None), "Lower capsules, upper capsules, entries of a pose.")
    check(0 not in votes.shape, "votes", "of at least one capsule on either side", f"shape {votes.shape}")
    check_finite("votes", votes)
    check_shape("activations", activations, votes.shape[:1])
    check_entries("activations", activations, lambda a: (a >= 0) & (a <= 1), "between 0 and 1")
    check(floor > 0, "floor", "positive", floor, "Identical votes have no variance of their own.")
    steps = as_float("inverse_temperatures", inverse_temperatures)
    check_shape("inverse_temperatures", steps, (None,), "One for each step.")
    check(steps.size > 0, "inverse_temperatures", "at least one number", "none")
    log_shares = _first_shares(votes, shares)
    num_upper = votes.shape[1]
    prices = [jnp.broadcast_to(jnp.asarray(x, votes.dtype), (num_upper,)) for x in (offset, threshold)]
    return _route(votes, activations, log_shares, *prices, steps.astype(votes.dtype), floor)


def inverse_temperatures(num_steps: int, largest: float = 1.0, rate: float = 0.95) -> tuple[float, ...]:
    r"""$\lambda_t = \lambda(1 - c^t)$ for $t = 1, \ldots$: the activations become sharper step by step.

    >>> inverse_temperatures(3, rate=0.5)
    (0.5, 0.75, 0.875)
    """
    check(0 <= rate < 1, "rate", "at least 0 and below 1", rate)
    check(largest > 0, "largest", "positive", largest)
    return tuple(largest * (1 - rate ** (step + 1)) for step in range(check_count("num_steps", num_steps)))


def capsule_m_step(
    votes: Float[Array, "n m h"],
    log_shares: Float[Array, "n m"],
    activations: Float[Array, " n"],
    offset: Float[Array, " m"],
    threshold: Float[Array, " m"],
    inverse_temperature: Scalar | float,
    floor: Scalar | float,
) -> Capsules:
    """The upper capsules that describe the votes in their shares best."""
    # the greatest share is taken out: weights of a capsule that all find unlikely do not underflow together
    counts = (activations > 0)[:, None]
    top = jax.lax.stop_gradient(jnp.where(counts, log_shares, -jnp.inf).max(0))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    below = log_shares - top[None]
    # not `minimum`, which halves the slope of the greatest share, where both are zero
    weights = jnp.exp(jnp.where(below > 0, 0.0, below)) * activations[:, None]
    total = weights.sum(0)
    alone = total == 0
    weights = jnp.where(alone[None], 1.0, weights)
    within = (weights / weights.sum(0)[None])[:, :, None]
    poses = (within * votes).sum(0)
    variances = jnp.maximum((within * (votes - poses[None]) ** 2).sum(0), floor)
    mass = jnp.exp(top) * total
    cost = (offset * votes.shape[-1] + 0.5 * jnp.log(variances).sum(-1)) * mass
    return Capsules(poses, variances, mass, cost, inverse_temperature * (threshold - cost))


def capsule_e_step(
    votes: Float[Array, "n m h"], capsules: Capsules
) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    """Logarithms of the shares that the capsules' activations and densities give, and of the densities."""
    scales = jnp.sqrt(capsules.variances)
    each = jax.vmap(lambda own, pose, scale: Normal(pose, scale).log_prob(own), (1, 0, 0), 1)
    densities = each(votes, capsules.poses, scales)
    return log_softmax(log_sigmoid(capsules.logits)[None] + densities), densities


@jax.jit
def _route(votes, activations, log_shares, offset, threshold, inverse_temperatures, floor) -> Routing:
    def step(log_shares, inverse_temperature):
        capsules = capsule_m_step(
            votes, log_shares, activations, offset, threshold, inverse_temperature, floor
        )
        log_shares, _ = capsule_e_step(votes, capsules)
        return log_shares, (capsules, log_shares)

    found = run(step, log_shares, inverse_temperatures)
    last = jax.tree.map(lambda leaf: leaf[-1], found.trace[0])
    return Routing(last, found.state, capsule_e_step(votes, last)[1], found.trace)


def _first_shares(votes: Array, shares: ArrayLike | None) -> Array:
    n, m, _ = votes.shape
    if shares is None:
        return jnp.full((n, m), -math.log(m), votes.dtype)
    shares = as_float("shares", shares)
    check_shape("shares", shares, (n, m))
    check_entries("shares", shares, lambda r: r >= 0, "zero or positive")
    return safe_log(shares)
