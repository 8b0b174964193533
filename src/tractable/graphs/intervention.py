r"""Interventions: graph surgery, and effects from observational probabilities by adjustment.

Surgery.     $P(x \mid do(a)) = [x_a = a] \prod_{i \neq a} P(x_i \mid x_{pa(i)})$.
Back door.   $P(y \mid do(x)) = \sum_z P(y \mid x, z) P(z)$ where $Z$ has no descendant of $x$ and blocks
             every trail from $x$ to $y$ that starts with an arrow into $x$.
Front door.  $P(y \mid do(x)) = \sum_m P(m \mid x) \sum_{x'} P(y \mid m, x') P(x')$ where $M$ cuts every
             directed way, and no open back door leads from $x$ to $M$, nor from $M$ to $y$ given $x$.
Cost.        That of the queries; sets are searched by size.
References.  Pearl (2009), "Causality", chapter 3.
"""

from itertools import chain, combinations

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check
from tractable.distributions.contraction import conditional, contract
from tractable.distributions.table_axes import Names, as_names
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.graphs.dag import DAG

__all__ = [
    "back_door_adjustment", "back_door_sets", "blocks_back_doors", "front_door_adjustment", "is_front_door",
]  # fmt: skip


def blocks_back_doors(dag: DAG, cause: str, effect: str, adjust: Names = ()) -> bool:
    """The back-door criterion: no descendants of the cause, and all back doors blocked."""
    names = as_names(adjust)
    if set(names) & {*dag.descendants(cause), cause, effect}:
        return False
    cut = DAG({name: [p for p in dag.parents(name) if p != cause] for name in dag.names})
    return cut.d_separated(cause, effect, given=names)


def back_door_sets(
    dag: DAG, cause: str, effect: str, observable: Names | None = None
) -> list[tuple[str, ...]]:
    """All minimal sets of observable variables that meet the back-door criterion, smallest first."""
    allowed = dag.names if observable is None else as_names(observable)
    barred = {*dag.descendants(cause), cause, effect}
    pool = [name for name in dag.names if name in allowed and name not in barred]
    found: list[tuple[str, ...]] = []
    for names in chain.from_iterable(combinations(pool, size) for size in range(len(pool) + 1)):
        smaller = any(set(known) <= set(names) for known in found)
        if not smaller and blocks_back_doors(dag, cause, effect, names):
            found.append(names)
    return found


def back_door_adjustment(joint: JointTable, cause: str, effect: str, adjust: Names = ()) -> ConditionalTable:
    r"""$P(y \mid do(x)) = \sum_z P(y \mid x, z) P(z)$ from a table of observations.

    Where some $z$ is possible but never seen with $x$, the effect cannot be told from observations: an error.
    """
    names = as_names(adjust)
    table = joint.marginal((cause, effect, *names))
    cells = conditional(table.probs, (1,))  # P(y | x, z), undefined where P(x, z) = 0
    weights = table.probs.sum((0, 1))
    unseen = np.asarray(jnp.isnan(cells).any(1) & (weights > 0)[None])
    if unseen.any():
        where = table.axes.select((cause, *names)).describe([int(i) for i in np.argwhere(unseen)[0]])
        must = "of positive probability with each state of the cause"
        check(False, "adjust", must, f"P({where}) = 0", error=ImpossibleEvidence)
    known = jnp.where(jnp.isnan(cells), 0.0, cells)
    probs = contract([((cause, effect, *names), known), (names, weights)], (cause, effect))
    axes = table.axes.select((cause, effect))
    return ConditionalTable(effect, cause, probs, axes.states, validate=False)


def is_front_door(dag: DAG, cause: str, effect: str, between: Names) -> bool:
    """The front-door criterion for the variables `between`."""
    names = as_names(between)
    rest = DAG({name: [p for p in dag.parents(name) if p not in names] for name in dag.names})
    cuts = effect not in rest.descendants(cause)
    into = all(blocks_back_doors(dag, cause, name) for name in names)
    out = all(_open_only_through(dag, name, effect, cause, names) for name in names)
    return cuts and into and out


def front_door_adjustment(joint: JointTable, cause: str, effect: str, between: Names) -> ConditionalTable:
    r"""$P(y \mid do(x)) = \sum_m P(m \mid x) \sum_{x'} P(y \mid m, x') P(x')$ from observations."""
    names = as_names(between)
    table = joint.marginal((cause, *names, effect))
    last = table.probs.ndim - 1
    means = conditional(table.probs.sum(last), tuple(range(1, last)))  # P(m | x)
    outcomes = conditional(table.probs, (last,))  # P(y | m, x')
    defined = not bool(jnp.isnan(means).any() | jnp.isnan(outcomes).any())
    must = "seen in every joint state of cause and variables between"
    check(defined, "joint", must, "a joint state of probability zero", error=ImpossibleEvidence)
    share = table.probs.sum(tuple(range(1, last + 1)))
    other = "another " + cause
    parts = [((cause, *names), means), ((other, *names, effect), outcomes), ((other,), share)]
    probs = contract(parts, (cause, effect))
    axes = table.axes.select((cause, effect))
    return ConditionalTable(effect, cause, probs, axes.states, validate=False)


def _open_only_through(dag: DAG, name: str, effect: str, cause: str, between: tuple[str, ...]) -> bool:
    """Whether the cause blocks every back door from one variable between to the effect."""
    cut = DAG({n: [p for p in dag.parents(n) if p not in between] for n in dag.names})
    return cut.d_separated(name, effect, given=[cause])
