r"""Finite discrete latents, summed over exactly: evidence, probabilities, draws and the most probable values.

Model.       $p(z, y \mid \theta) = \prod_s \prod_u f_{su}(z_{A(s, u)}; \theta)$ over the elements of discrete
             latents; $\log f_{su}$ is the log-density of unit $u$ of site $s$ and $A(s, u)$ its scope.
Sum.         $\log \sum_z \prod f$: tables by replays (`discrete_replays`), then elimination in rounds
             (`messages.rounds`): independent elements and replicated networks side by side, chains in
             $O(TK^2)$, the rest along a junction tree.
Transforms.  Pure functions of the plan and of whatever `log_factors` takes: `jit`, `vmap` and `grad` pass
             through them. New numbers, and new indices that lead to the same shapes, compile nothing.
Impossible.  $\log 0 = -\infty$; probabilities are then NaN, and values -1.
References.  Obermeyer et al. (2019), tensor variable elimination for plated factor graphs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from tractable.core.types import Array, Float, Int, Key, Scalar
from tractable.messages.rounds import best_states, draw_states, log_total, state_probs
from tractable.programs.discrete_plan import DiscretePlan, plan_discrete
from tractable.programs.discrete_replays import assignment_of, tables_of

__all__ = ["DiscretePlan", "draw", "log_evidence", "marginals", "most_probable", "plan_discrete"]

LogFactors = Callable[..., Sequence[Array]]  # (assignment, *args) -> log-densities of units, by site


def log_evidence(plan: DiscretePlan, log_factors: LogFactors, *args: Any) -> Scalar:
    r"""$\log \sum_z \prod_{su} f_{su}(z; \theta)$, with `args` the $\theta$.

    >>> from scipy.sparse import eye_array
    >>> plan = plan_discrete([(2,)], [2], [eye_array(2, format="csr")])
    >>> weights = jnp.array([[0.5, 0.25], [0.5, 1.5]])
    >>> factors = lambda assignment, w: [jnp.log(w[jnp.arange(2), assignment[0]])]
    >>> round(float(jnp.exp(log_evidence(plan, factors, weights))), 6)
    1.5
    """
    tables, constant = _tables(plan, log_factors, args)
    return constant + log_total(plan.rounds, tables)


def marginals(plan: DiscretePlan, log_factors: LogFactors, *args: Any) -> list[Float[Array, "..."]]:
    """The probabilities of the values of each element: of each latent, its shape and one axis of values."""
    tables, constant = _tables(plan, log_factors, args)
    probs = {
        k: jnp.where(constant > -jnp.inf, p, jnp.nan) for k, p in state_probs(plan.rounds, tables).items()
    }
    slots = assignment_of(plan.rounds.slots, plan.shapes)
    return [
        probs[card][own] if own.size else jnp.zeros((*own.shape, card))
        for card, own in zip(plan.cards, slots)
    ]


def draw(plan: DiscretePlan, log_factors: LogFactors, key: Key, *args: Any) -> list[Int[Array, "..."]]:
    """An exact joint draw of all latents, in their natural shapes."""
    tables, constant = _tables(plan, log_factors, args)
    states = draw_states(plan.rounds, tables, key)
    return assignment_of(jnp.where(constant > -jnp.inf, states, -1), plan.shapes)


def most_probable(
    plan: DiscretePlan, log_factors: LogFactors, *args: Any
) -> tuple[list[Int[Array, "..."]], Scalar]:
    """The joint values of largest probability, and the log of the product there (not normalised)."""
    tables, constant = _tables(plan, log_factors, args)
    states, log_value = best_states(plan.rounds, tables)
    return assignment_of(jnp.where(constant > -jnp.inf, states, -1), plan.shapes), constant + log_value


def _tables(plan: DiscretePlan, log_factors: LogFactors, args: tuple[Any, ...]) -> tuple[list[Array], Array]:
    """The tables of all units that depend on an element, and the sum of the others."""
    found = [
        (read, table)
        for replays in plan.replays
        for read, table in zip(
            replays.reads, tables_of(replays, plan.shapes, plan.tops, log_factors, args), strict=True
        )
    ]
    constant = sum((table.sum() for read, table in found if not read.cards), jnp.zeros(()))
    return [table for read, table in found if read.cards], jnp.asarray(constant)
