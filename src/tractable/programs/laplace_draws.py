r"""Draws of Gaussian latents below any likelihood, with the weights that make Laplace's method exact.

Weight.      $w(x) = p(x, y \mid \theta)\,/\,\{q(x)\, e^{V(\theta)}\}$ for any density $q$ of the draws:
             $E_q[w]$ is what Laplace's value $V$ leaves out, and draws weighted so are of the posterior.
Proposal.    $x = \hat x + L^{-\top} z$ with $H = L L^\top$ at the mode. The noise of the border is standard
             normal or, one time in ten, Student's of four degrees: the weights stay bounded where tails are
             heavier, and are $1/0.9$ at most where they are not.
Groups.      Given the border, groups of latents are independent. So each has $M$ candidates of its own, its
             weight is their mean $\bar w_g$, one of them is chosen by its weight, and $w = w_b \prod_g
             \bar w_g$: unbiased for every $M$. The candidates of a small group are a lattice with a random
             shift, in the quantiles of Student's $t_4$: for smooth densities nearly a quadrature, so that
             a thousand groups spoil the weight no more than one. Those of a large group (a chain) are pairs
             $\pm z$ of normals.
Cost.        $M$ runs of the program for each draw.
References.  Geweke (1989); Durbin and Koopman (1997), antithetic pairs at a mode; Owen (2013) chapter 17.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import to_device
from tractable.core.host_random import generator
from tractable.core.module import Module
from tractable.core.numerics import log_mean_exp
from tractable.core.types import Array, Float, Key, Scalar
from tractable.programs.laplace_curvature import SMALL_GROUP
from tractable.programs.laplace_part import LaplacePart
from tractable.programs.trace import Program

__all__ = ["Drawn", "Noise", "num_candidates", "student_quantile", "weighted_draw"]

_LOG_2PI = float(np.log(2 * np.pi))
_LATTICE = {1: (16, 1), 2: (34, 21), 3: (67, 13)}  # points and multiplier by the size of the largest group
_PAIRS = 8  # candidates of large groups
_DEFENSIVE = 0.1  # the share of Student's noise
_LOG_T4 = float(np.log(3 / 8))


def num_candidates(part: LaplacePart) -> tuple[int, int]:
    """How many candidates each draw has, and the multiplier of their lattice."""
    if not part.groups.num_groups:
        return 1, 1
    return _LATTICE.get(part.groups.largest, (_PAIRS, 1))


class Noise(Module):
    """The random numbers of draws, along a first axis: made on the host, for all at once."""

    border: Float[Array, "*n b"]
    stretch: Float[Array, "*n"]  # of the border's noise: one, or Student's
    shift: Float[Array, "*n half places"]  # uniform for lattices, normal for pairs
    choice: Float[Array, "*n groups"]  # uniform

    @staticmethod
    def of(part: LaplacePart, key: Key, count: int) -> "Noise":
        random, groups = generator(key), part.groups
        places, (many, _) = len(groups.of_place), num_candidates(part)
        border = random.standard_normal((count, groups.num_border))
        wide = np.sqrt(2.0 / random.standard_exponential((count, 2)).sum(1))  # 4 over a chi-square of four
        stretch = np.where(random.random(count) < _DEFENSIVE, wide, 1.0)
        if groups.largest > SMALL_GROUP:
            shift = random.standard_normal((count, many // 2, places))
        else:
            shift = 1.0 - random.random((count, 1, places))
        choice = random.random((count, groups.num_groups))
        return Noise(*(to_device(each) for each in (border, stretch, shift, choice)))


class Drawn(Module):
    """Latents by name and as coordinates `x`, the logarithm of their weight, the share of candidates at which
    the density was not a number (they weigh nothing), and the mode with
    $\\phi$ there (NaN where the search did not come to an end)."""

    values: dict[str, Array]
    x: Float[Array, "*n d"]
    log_weight: Float[Array, "*n"]
    undefined: Float[Array, "*n"]
    mode: Float[Array, "*n d"]
    phi: Float[Array, "*n"]


def weighted_draw(part: LaplacePart, noise: Noise, bound: Program, remaining: Mapping[str, Array]) -> Drawn:
    """The latents given the rest, one draw with its weight."""
    groups, found, plan = part.groups, part.at_mode(bound, remaining), part.curvature.precision.plan
    border, log_border = _border_noise(noise)
    first = plan.num_places - plan.border
    shared = jnp.zeros(plan.num_places).at[first : first + groups.num_border].set(border)
    own, log_own = _group_noise(part, noise.shift)
    inside = jnp.asarray(groups.of_place) < groups.num_groups
    candidates = jnp.where(inside[None], own, shared[None])
    x = found.x[None] + jax.vmap(found.field.spread)(candidates)
    terms = jax.vmap(lambda each: part.units(bound, remaining, each))(x)
    lost = jnp.isnan(terms).any(1)
    terms = jnp.where(jnp.isnan(terms), -jnp.inf, terms)
    total = jnp.zeros((len(x), groups.num_groups + 1)).at[:, groups.of_unit].add(terms)
    total = total - jnp.zeros((len(x), groups.num_groups + 2)).at[:, groups.of_place].add(log_own)[:, :-1]
    taken = jnp.append(_chosen(total[:, :-1], noise.choice), 0)[groups.of_variable]
    value = found.phi - 0.5 * part.size * _LOG_2PI - log_border
    weight = value + total[0, -1] + log_mean_exp(total[:, :-1], axis=0).sum()
    drawn = x[taken, jnp.arange(part.size)]
    values = part.valued(bound, remaining, drawn)
    phi = jnp.where(found.settled, found.phi, jnp.nan)
    return Drawn(values, drawn, weight, lost.mean(), found.x, phi)


def _chosen(logs: Array, uniform: Array) -> Array:
    """For each column the first row at which the share of the weights up to it passes a uniform number."""
    if not logs.shape[1]:
        return jnp.zeros(0, int)
    sums = jnp.cumsum(jnp.exp(logs - logs.max(0)[None]), axis=0)
    return (sums <= uniform[None] * sums[-1][None]).sum(0)


def _border_noise(noise: Noise) -> tuple[Array, Scalar]:
    """Noise of the border, and its log-density."""
    count = noise.border.size
    own = noise.border * noise.stretch
    square = own @ own
    normal = -0.5 * (square + count * _LOG_2PI)
    student = math.lgamma(0.5 * (4 + count)) - 0.5 * count * math.log(4 * math.pi)
    student = student - 0.5 * (4 + count) * jnp.log1p(square / 4)
    return own, jnp.logaddexp(math.log(1 - _DEFENSIVE) + normal, math.log(_DEFENSIVE) + student)


def _group_noise(part: LaplacePart, shift: Array) -> tuple[Array, Array]:
    """Candidates `(M, places)` of the noise of all groups, and the log-density of each number."""
    (count, multiplier), groups = num_candidates(part), part.groups
    inside: Any = (jnp.asarray(groups.of_place) < groups.num_groups)[None]
    if groups.largest > SMALL_GROUP:
        noise = jnp.concatenate([shift, -shift])
        return noise, jnp.where(inside, -0.5 * (noise**2 + _LOG_2PI), 0.0)
    powers = multiplier ** jnp.minimum(jnp.asarray(groups.slot), SMALL_GROUP) % count
    steps = jnp.arange(count)[:, None] * powers[None] % count
    noise = student_quantile((steps / count + shift) % 1.0)
    return jnp.where(inside, noise, 0.0), jnp.where(inside, _LOG_T4 - 2.5 * jnp.log1p(noise**2 / 4), 0.0)


def student_quantile(p: Array) -> Array:
    """The quantile function of Student's t of four degrees, in closed form.

    >>> student_quantile(jnp.array([0.5, 0.975])).round(6).tolist()
    [0.0, 2.776445]
    """
    root = jnp.sqrt(4 * p * (1 - p))
    size = jnp.cos(jnp.arccos(jnp.minimum(root, 1.0)) / 3) / root - 1
    return jnp.sign(p - 0.5) * 2 * jnp.sqrt(jnp.maximum(size, 0.0))
