r"""A factor graph as arrays of edges: all messages of one kind of factor in one operation.

Layout.      Factors of one shape are stacked. An edge joins one factor and one variable; messages are rows of
             an array with as many columns as the largest variable has states, the rest being impossible.
Others.      The product of all messages to $x$ but one is the total less that one. Impossible states are
             counted apart: $-\infty - (-\infty)$ would be NaN where a state is impossible for one reason.
Cost.        Linear in the cells of the factors times their number of variables.
References.  Yedidia, Freeman and Weiss (2005).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module
from tractable.core.numerics import xlogy
from tractable.core.types import Array, Bool, Float, Int
from tractable.messages.potentials import Table, aligned
from tractable.messages.semirings import Semiring, SumProduct

__all__ = [
    "Edges",
    "Group",
    "factor_beliefs",
    "factor_messages",
    "layout",
    "log_bethe",
    "split_impossible",
    "variable_beliefs",
    "variable_messages",
    "variable_totals",
]


class Group(Module):
    """Factors of one shape: their tables, and the edges and variables along each axis."""

    log_values: Float[Array, "m ..."]
    edges: Int[Array, "m l"]
    variables: Int[Array, "m l"]


class Edges(Module):
    """All factors of a model, the variable of each edge, and what is known of each variable alone."""

    groups: tuple[Group, ...]
    variable: Int[Array, " e"]
    log_local: Float[Array, "v c"]  # -inf outside the states of the variable, or outside the evidence
    inside: Bool[Array, "v c"]  # which columns are states


def layout(tables: dict[str, Table], local: dict[str, Any]) -> tuple[Edges, dict[str, tuple[int, int]]]:
    """The arrays of a model, and the group and row in which each factor is."""
    position = {name: i for i, name in enumerate(local)}
    sizes = [len(values) for values in local.values()]
    kinds: dict[tuple[int, ...], list[str]] = {}
    for factor, table in tables.items():
        if table.names:  # a constant sends no message
            kinds.setdefault(table.log_values.shape, []).append(factor)
    groups, variable, place = [], [], {}
    for g, factors in enumerate(kinds.values()):
        scope = np.array([[position[n] for n in tables[f].names] for f in factors], int)
        scope = scope.reshape((len(factors), len(tables[factors[0]].names)))
        edges = len(variable) + np.arange(scope.size).reshape(scope.shape)
        variable += scope.reshape(-1).tolist()
        place.update({factor: (g, row) for row, factor in enumerate(factors)})
        stacked = np.stack([tables[f].log_values for f in factors])
        groups.append(Group(jnp.asarray(stacked), jnp.asarray(edges), jnp.asarray(scope)))
    inside = np.arange(max(sizes))[None] < np.array(sizes)[:, None]
    log_local = np.full(inside.shape, -np.inf)
    for row, values in zip(log_local, local.values()):
        row[: len(values)] = np.asarray(values)
    return Edges(
        tuple(groups), jnp.asarray(np.array(variable, int)), jnp.asarray(log_local), jnp.asarray(inside)
    ), place


def variable_totals(edges: Edges, messages: Array) -> tuple[Array, Array]:
    """For each variable the sum of its finite log-messages, and how many make a state impossible."""
    num = edges.log_local.shape[0]
    finite, blocked = split_impossible(messages)
    sums = jax.ops.segment_sum(finite, edges.variable, num)
    counts = jax.ops.segment_sum(blocked, edges.variable, num)
    finite, blocked = split_impossible(edges.log_local)
    return sums + finite, counts + blocked


def variable_messages(totals: tuple[Array, Array], variables: Array, messages: Array) -> Array:
    """Rows of log-messages from `variables` that leave out the `messages` they got along the same edges."""
    sums, counts = totals
    finite, blocked = split_impossible(messages)
    open_ = counts[variables] - blocked == 0
    return jnp.where(open_, sums[variables] - finite, -jnp.inf)


def factor_messages(log_values: Array, incoming: Array, semiring: Semiring, width: int) -> Array:
    """The normalised log-messages of one factor to each of its variables, `(l, width)`; padding is zero."""
    axes = tuple(str(i) for i in range(log_values.ndim))
    spread = [aligned(axes, (a,), row[:size]) for a, row, size in zip(axes, incoming, log_values.shape)]
    rows = []
    for i, size in enumerate(log_values.shape):
        product = log_values
        for j, message in enumerate(spread):
            product = product if i == j else product + message
        sent = semiring.total(product, tuple(j for j in range(log_values.ndim) if j != i))
        total = SumProduct().total(sent, (0,))
        sent = sent - jnp.where(total > -jnp.inf, total, 0.0)
        rows.append(jnp.concatenate([sent, jnp.zeros(width - size, sent.dtype)]))
    return jnp.stack(rows)


def factor_beliefs(edges: Edges, messages: Array) -> list[Array]:
    """The normalised beliefs of the factors of each group, as probabilities."""
    totals = variable_totals(edges, messages)

    def one(log_values, incoming):
        axes = tuple(str(i) for i in range(log_values.ndim))
        for a, row, size in zip(axes, incoming, log_values.shape):
            log_values = log_values + aligned(axes, (a,), row[:size])
        return jnp.exp(log_values - SumProduct().total(log_values, tuple(range(log_values.ndim))))

    return [
        jax.vmap(one)(g.log_values, variable_messages(totals, g.variables, messages[g.edges]))
        for g in edges.groups
    ]


def variable_beliefs(edges: Edges, messages: Array) -> Array:
    """The normalised beliefs of the variables, as probabilities; NaN where no state is possible."""
    sums, counts = variable_totals(edges, messages)
    logs = jnp.where(counts == 0, sums, -jnp.inf)
    return jnp.exp(logs - SumProduct().total(logs, (1,))[:, None])


def log_bethe(edges: Edges, messages: Array) -> Array:
    r"""$-F = \sum_f \sum b_f \log(f / b_f) + \sum_x (d_x - 1) \sum b_x \log b_x$; $\log Z$ on a tree.

    What is known of a variable alone adds its expectation.
    """
    single = variable_beliefs(edges, messages)
    degree = jax.ops.segment_sum(jnp.ones(edges.variable.shape), edges.variable, single.shape[0])
    total = (_expected(single, edges.log_local)).sum() + ((degree - 1) * xlogy(single, single).sum(1)).sum()
    for group, belief in zip(edges.groups, factor_beliefs(edges, messages)):
        total += _expected(belief, group.log_values).sum() - xlogy(belief, belief).sum()
    return total


def _expected(probs: Array, log_values: Array) -> Array:
    used = probs != 0
    return jnp.where(used, probs * jnp.where(used, log_values, 0.0), 0.0)


def split_impossible(log_values: Array) -> tuple[Array, Array]:
    """Finite log-values, with zero for the impossible ones, and which those are, as 0 and 1."""
    blocked = log_values == -jnp.inf
    return jnp.where(blocked, 0.0, log_values), blocked.astype(int)
