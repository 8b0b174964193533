r"""BFGS and L-BFGS: curvature learnt from changes of the gradient.

Secant.      With $s_k = x_{k+1} - x_k$, $y_k = g_{k+1} - g_k$, $\rho_k = 1/y_k^\top s_k$, the inverse Hessian
             is updated by
             $H_{k+1} = (I - \rho_k s_k y_k^\top) H_k (I - \rho_k y_k s_k^\top) + \rho_k s_k s_k^\top$, so
             that $H_{k+1} y_k = s_k$. Pairs with $y^\top s$ not clearly positive are skipped: $H$ stays
             positive definite.
Cost.        $O(n^2)$ per step for BFGS; $O(mn)$ time and $2mn$ numbers for L-BFGS.
References.  Nocedal and Wright (2006) chapters 6 and 7; Liu and Nocedal (1989).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Scalar
from tractable.optim.linesearch import wolfe
from tractable.optim.objective import Iterate, Method, Objective

__all__ = ["BFGS", "LBFGS", "History", "inverse_update", "is_curved", "two_loop"]


class History(Module):
    """The last $m$ pairs, newest last; an empty slot has $\\rho = 0$ and changes nothing."""

    steps: Float[Array, "m n"]
    changes: Float[Array, "m n"]
    rho: Float[Array, " m"]
    scale: Scalar  # of the initial inverse Hessian $H_0 = \\gamma I$


def two_loop(history: History, gradient: Float[Array, " n"]) -> Float[Array, " n"]:
    r"""$H_k g$ without forming $H_k$: one sweep back through the pairs, one forward."""

    def back(q, pair):
        s, y, rho = pair
        alpha = rho * (s @ q)
        return q - alpha * y, alpha

    def forward(r, pair):
        s, y, rho, alpha = pair
        return r + s * (alpha - rho * (y @ r)), None

    pairs = (history.steps, history.changes, history.rho)
    q, alpha = jax.lax.scan(back, gradient, pairs, reverse=True)
    return jax.lax.scan(forward, history.scale * q, (*pairs, alpha))[0]


def inverse_update(inverse: Any, s: Any, y: Any) -> Any:
    r"""The BFGS update of the inverse Hessian: the closest positive definite matrix with $H y = s$; for NumPy
    and JAX arrays alike."""
    rho = 1 / (y @ s)
    left = np.eye(s.size, dtype=s.dtype) - rho * s[:, None] * y[None]
    return left @ inverse @ left.T + rho * s[:, None] * s[None]


def is_curved(s: Any, y: Any) -> Any:
    """Whether the pair shows positive curvature beyond rounding; for NumPy and JAX arrays alike."""
    return y @ s > 1e-12 * ((s @ s) * (y @ y)) ** 0.5


def _first_length(iterate: Iterate, fresh: Array) -> Array:
    """One, except for the very first step, when the scale of the problem is unknown."""
    return jnp.where(fresh, jnp.minimum(1.0, 1.0 / jnp.abs(iterate.gradient).sum()), 1.0)


class LBFGS(Method):
    """Limited-memory BFGS with a Wolfe line search."""

    history: int = field(static=True, default=10)

    def init(self, objective: Objective, start: Array) -> Iterate:
        empty = jnp.zeros((self.history, start.size), start.dtype)
        return Iterate.at(objective, start, History(empty, empty, empty[:, 0], jnp.ones((), start.dtype)))

    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        past = iterate.memory
        direction = -two_loop(past, iterate.gradient)
        fresh = past.rho[-1] == 0
        trial = wolfe(objective.value_and_grad, iterate.trial, direction, _first_length(iterate, fresh))
        s, y = trial.point - iterate.point, trial.gradient - iterate.gradient
        return iterate.moved(trial, _remember(past, s, y))


def _remember(past: History, s: Array, y: Array) -> History:
    keep = is_curved(s, y)
    inner = jnp.where(keep, y @ s, 1.0)

    def push(rows, row):
        return jnp.where(keep, jnp.concatenate([rows[1:], row[None]]), rows)

    scale = jnp.where(keep, inner / jnp.where(keep, y @ y, 1.0), past.scale)
    return History(push(past.steps, s), push(past.changes, y), push(past.rho, 1 / inner), scale)


class BFGS(Method):
    """Dense BFGS with a Wolfe line search; the memory is the inverse Hessian and whether it has been
    scaled."""

    def init(self, objective: Objective, start: Array) -> Iterate:
        return Iterate.at(objective, start, (jnp.eye(start.size, dtype=start.dtype), jnp.asarray(True)))

    def step(self, objective: Objective, iterate: Iterate) -> Iterate:
        inverse, fresh = iterate.memory
        first = _first_length(iterate, fresh)
        trial = wolfe(objective.value_and_grad, iterate.trial, -inverse @ iterate.gradient, first)
        s, y = trial.point - iterate.point, trial.gradient - iterate.gradient
        keep = is_curved(s, y)
        safe_s, safe_y = jnp.where(keep, s, 1.0), jnp.where(keep, y, 1.0)
        scaled = jnp.where(fresh, (safe_y @ safe_s) / (safe_y @ safe_y), 1.0) * inverse
        memory = jnp.where(keep, inverse_update(scaled, safe_s, safe_y), inverse)
        return iterate.moved(trial, (memory, fresh & ~keep))
