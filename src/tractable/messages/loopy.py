r"""Loopy belief propagation: messages repeated until they settle, with a verdict on whether they did.

Fixed point. The equations of a tree, on a graph with loops; a fixed point is a stationary point of the Bethe
             free energy $F = \sum_f \sum b_f \log(b_f / f) - \sum_x (d_x - 1) \sum b_x \log b_x$, and $-F$
             (`log_total`) estimates $\log Z$. On a tree beliefs and $-F$ are exact.
Damping.     A new message is $(1 - d)\,\mu_{new} + d\,\mu_{old}$: the same fixed points, fewer oscillations.
Schedules.   `flooding`: all messages at once. `residual`: only those that would change at least half as much
             as the one that would change most. `sequential`: factor by factor, forth and back, each using
             what the ones before it have just sent: exact on a tree after one sweep if listed root to leaf.
Verdict.     Nothing guarantees convergence, nor that a fixed point is near the truth. `status` says whether
             messages settled, `is_tree` whether the answer is then exact, and `error` what a belief can be
             off by at most (messages.loopy_bounds); the verdict is good only where that is at most $10^{-3}$.
Cost.        Per sweep, the cells of all factors times their number of variables; one compiled program per
             set of shapes, in which potentials and evidence are data.
References.  Yedidia, Freeman and Weiss (2005); Elidan, McGraw and Koller (2006); Murphy,
             Weiss and Jordan (1999).
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, check_count, check_option
from tractable.core.description import Described
from tractable.core.iterate import Run, Status, run_until
from tractable.core.programs import program
from tractable.core.types import Array
from tractable.core.verdict import Verdict
from tractable.distributions.table_axes import Event
from tractable.distributions.tables import JointTable
from tractable.messages.loopy_bounds import MarginalBounds
from tractable.messages.loopy_edges import (
    Edges,
    factor_beliefs,
    factor_messages,
    layout,
    log_bethe,
    split_impossible,
    variable_beliefs,
    variable_messages,
    variable_totals,
)
from tractable.messages.potentials import as_tables
from tractable.messages.searches import components
from tractable.messages.semirings import MaxSum, Semiring, SumProduct, as_semiring
from tractable.messages.tree import Factors, local_potentials

__all__ = ["LoopyBeliefs", "loopy"]

SCHEDULES = ("flooding", "sequential", "residual")
_SMALL = 1e-3  # an error that does not matter


class LoopyBeliefs(Described):
    """Beliefs where the messages stopped, how they stopped, and the Bethe estimate of the total."""

    _shown = ("is_tree", "num_steps", "log_total", "log_value")

    def __init__(
        self, tables: dict, states: dict, local: dict, edges: Edges, place: dict, run: Run, sums: bool
    ):
        self._local = local
        self.tables, self.states, self.place, self.run, self.sums = tables, states, place, run, sums
        self.is_tree = _is_forest(tables, states)
        self.probs, self._factor_probs, bethe = jax.tree.map(np.asarray, _conclusion(edges, run.state))
        self._log_bethe = float(bethe) + sum(float(t.log_values) for t in tables.values() if not t.names)

    @property
    def log_total(self) -> float:
        r"""The Bethe estimate of $\log Z$: minus the free energy. Exact on a tree; no bound otherwise."""
        check(self.sums, "semiring", "sum_product, to have a total", "max_sum", "See `most_probable`.")
        return self._log_bethe

    @property
    def status(self) -> Status:
        return self.run.status

    @property
    def num_steps(self) -> int:
        """Sweeps that were made."""
        return int(self.run.num_steps)

    @property
    def residuals(self) -> np.ndarray:
        """The largest change of a message (as a probability) in each sweep."""
        return self.run.values

    @property
    def exact(self) -> bool:
        """Whether the beliefs are the marginals: the graph is a tree and the messages have settled."""
        return self.is_tree and self.status is Status.converged

    @cached_property
    def error(self) -> float:
        """What any belief can be off by at most: zero where they are exact, one where nothing is known.

        Measured against the marginals where these are cheap, else by bounds that hold.
        """
        if self.exact:
            return 0.0
        known = self.sums and self.status is Status.converged
        beliefs = [row[: len(own)] for row, own in zip(self.probs, self.states.values())]
        return self._bounds.largest_error(beliefs) if known else 1.0

    def bounds(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The least and the most that the true probability of each state of a variable can be."""
        check(self.sums, "semiring", "sum_product, to have marginals", "max_sum")
        check(name in self.states, "name", f"among {tuple(self.states)}", repr(name))
        return self._bounds.bounds(list(self.states).index(name))

    @cached_property
    def _bounds(self) -> MarginalBounds:
        number = {name: i for i, name in enumerate(self.states)}
        scopes = [tuple(number[n] for n in table.names) for table in self.tables.values() if table.names]
        tables = [np.asarray(table.log_values) for table in self.tables.values() if table.names]
        alone = [(i,) for i in number.values()]
        sizes = tuple(len(own) for own in self.states.values())
        return MarginalBounds([*scopes, *alone], [*tables, *map(np.asarray, self._local.values())], sizes)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the beliefs: ok where none can be off by more than a thousandth."""
        last = float(self.residuals[-1]) if self.num_steps else np.nan
        kind = (
            "exact: the graph is a tree"
            if self.is_tree
            else f"approximate: the graph has loops, and {self._off}"
        )
        said = f"Converged after {self.num_steps} sweeps; {kind}."
        if self.status is not Status.converged:
            said = (
                f"Not converged after {self.num_steps} sweeps (last change {last:.1e}): "
                "do not use the beliefs. Raise `damping`, try another schedule, or infer exactly."
            )
        fine = self.status is Status.converged and self.error <= _SMALL
        return Verdict(fine, said, {"num_steps": self.num_steps, "last_change": last, "error": self.error})

    @property
    def _off(self) -> str:
        if not self.sums:
            return "max-marginals have no bound here"
        if self.error >= 1:
            return "how far beliefs are off is not known (`bounds` of a variable may say)"
        words = "is" if self._bounds.exact is not None else "can be"
        return f"a belief {words} off by up to {self.error:.2g}"

    @property
    def log_value(self) -> float:
        """The log of the product of the factors at `most_probable`."""
        return self.most_probable()[1]

    def marginal(self, name: str) -> JointTable:
        """The belief about one variable."""
        check(name in self.states, "name", f"among {tuple(self.states)}", repr(name))
        own = self.states[name]
        row = self.probs[list(self.states).index(name), : len(own)]
        return JointTable((name,), row, (own,), validate=False)

    def marginals(self) -> dict[str, JointTable]:
        """The belief about every variable."""
        return {name: self.marginal(name) for name in self.states}

    def factor_marginal(self, factor: str) -> JointTable:
        """The belief about the variables of one factor, consistent with `marginal` at a fixed point."""
        check(factor in self.place, "factor", f"among {tuple(self.place)}", repr(factor))
        group, row = self.place[factor]
        axes = self.tables[factor].axes
        return JointTable(axes.names, self._factor_probs[group][row], axes.states, validate=False)

    def most_probable(self) -> tuple[dict[str, Any], float]:
        """The best state of each variable by itself, and the log-value of the factors there.

        With `max_sum` the best state by the max-marginal; the value is a lower bound on the maximum.
        """
        best = {name: int(row.argmax()) for name, row in zip(self.states, self.probs)}
        cells = [t.log_values[tuple(best[n] for n in t.names)] for t in self.tables.values()]
        return {name: self.states[name][i] for name, i in best.items()}, float(np.sum(cells))


def loopy(
    factors: Factors,
    evidence: Event | None = None,
    *,
    likelihoods: Mapping[str, Any] | None = None,
    semiring: str | Semiring = "sum_product",
    schedule: str = "flooding",
    damping: float | int = 0.0,
    tol: float = 1e-9,
    max_steps: int = 1000,
) -> LoopyBeliefs:
    """Messages on any factor graph until none changes by more than `tol` (as a probability).

    `factors`, `evidence` and `likelihoods` as for `propagate`; `semiring` is `sum_product` or `max_sum`.
    Evidence that messages alone prove impossible raises `ImpossibleEvidence`.
    """
    check_option("schedule", schedule, SCHEDULES)
    check(0 <= damping < 1, "damping", "at least 0 and below 1", damping)
    chosen = as_semiring(semiring)
    fine = isinstance(chosen, SumProduct | MaxSum)
    check(fine, "semiring", "sum_product or max_sum", type(chosen).__name__)
    tables, states = as_tables(factors)
    local = local_potentials(tables, states, evidence or {}, likelihoods or {}, SumProduct())
    edges, place = layout(tables, local)
    order = _order(edges, place) if schedule == "sequential" else ()
    steps = check_count("max_steps", max_steps)
    numbers = jnp.asarray(float(damping)), jnp.asarray(float(tol))
    run = _iterate(edges, order, *numbers, chosen, schedule, steps)
    beliefs = LoopyBeliefs(tables, states, local, edges, place, run, isinstance(chosen, SumProduct))
    if np.isnan(beliefs.probs).any():
        name = list(states)[int(np.argwhere(np.isnan(beliefs.probs))[0, 0])]
        got = f"no possible state of {name!r}"
        check(False, "evidence", "of positive probability", got, error=ImpossibleEvidence)
    return beliefs


@program
def _iterate(
    edges: Edges, order: tuple, damping: Array, tol: Array, semiring: Semiring, schedule: str, max_steps: int
) -> Run:
    sizes = edges.inside.sum(1)[edges.variable]
    start = jnp.where(edges.inside[edges.variable], -jnp.log(sizes)[:, None], 0.0)

    def step(messages):
        if schedule == "sequential":
            new = _sweep(edges, order, messages, damping, semiring)
            return new, _changes(new, messages).max()
        fresh = _mixed(_all_messages(edges, messages, semiring), messages, damping)
        change = _changes(fresh, messages)
        if schedule == "residual":
            fresh = jnp.where((change >= change.max() / 2)[:, None], fresh, messages)
        return fresh, change.max()

    def settled(messages, value, before):
        return (value >= 0) & (value <= tol * (1 - damping))  # damping shortens each step by that factor

    return run_until(step, start, max_steps=max_steps, tol=tol, settled=settled)


@jax.jit
def _conclusion(edges: Edges, messages: Array) -> tuple[Array, list[Array], Array]:
    return variable_beliefs(edges, messages), factor_beliefs(edges, messages), log_bethe(edges, messages)


def _all_messages(edges: Edges, messages: Array, semiring: Semiring) -> Array:
    totals, width = variable_totals(edges, messages), messages.shape[1]
    sent = jnp.zeros_like(messages)
    for g in edges.groups:
        incoming = variable_messages(totals, g.variables, messages[g.edges])
        fresh = jax.vmap(lambda f, m: factor_messages(f, m, semiring, width))(g.log_values, incoming)
        sent = sent.at[g.edges].set(fresh)
    return sent


def _sweep(edges: Edges, order: tuple, messages: Array, damping: Array, semiring: Semiring) -> Array:
    """Each factor in turn, first to last and back; totals of variables follow along."""
    width, most = messages.shape[1], order[2].shape[1]

    def branch(group):
        def send(row, incoming):
            arity = group.edges.shape[1]
            sent = factor_messages(group.log_values[row], incoming[:arity], semiring, width)
            return jnp.concatenate([sent, jnp.zeros((most - arity, width), sent.dtype)])

        return send

    branches = [branch(group) for group in edges.groups]

    def visit(carry, place):
        # Only small arrays pass through the switch: the large ones are then updated in place.
        (messages, totals), (group, row, ids, variables) = carry, place
        old = messages[ids]
        incoming = variable_messages(totals, variables, old)
        fresh = _mixed(jax.lax.switch(group, branches, row, incoming), old, damping)
        removed, added = split_impossible(old), split_impossible(fresh)
        used = (ids < messages.shape[0])[:, None]
        totals = jax.tree.map(
            lambda t, a, r: t.at[variables].add(jnp.where(used, a - r, 0)), totals, added, removed
        )
        return (messages.at[ids].set(fresh, mode="drop"), totals), None

    for reverse in (False, True):
        carry = messages, variable_totals(edges, messages)  # made anew: rounding does not pile up
        (messages, _), _ = jax.lax.scan(visit, carry, order, reverse=reverse)
    return messages


def _order(edges: Edges, place: dict) -> tuple[Array, ...]:
    """For each factor in turn its group and row, and its edges and variables, padded to one length."""
    most = max(group.edges.shape[1] for group in edges.groups)
    beyond = len(edges.variable)

    def padded(values, fill):
        return np.pad(np.asarray(values), ((0, 0), (0, most - values.shape[1])), constant_values=fill)

    ids = [padded(group.edges, beyond) for group in edges.groups]
    variables = [padded(group.variables, 0) for group in edges.groups]
    groups, rows = (np.array(part) for part in zip(*place.values()))
    chosen = [np.stack([part[g][r] for g, r in zip(groups, rows)]) for part in (ids, variables)]
    return tuple(jnp.asarray(part) for part in (groups, rows, *chosen))


def _mixed(new: Array, old: Array, damping: Array) -> Array:
    mixed = jnp.logaddexp(new + jnp.log1p(-damping), old + jnp.log(damping))
    return jnp.where(damping > 0, mixed, new)


def _changes(new: Array, old: Array) -> Array:
    return jnp.abs(jnp.exp(new) - jnp.exp(old)).max(1)


def _is_forest(tables: dict, states: dict) -> bool:
    """No loop: as many edges as nodes less trees."""
    rows: dict[str, list[str]] = {node: [] for node in (*tables, *states)}
    for factor, table in tables.items():
        for name in table.names:
            rows[factor].append(name)
            rows[name].append(factor)
    return sum(len(table.names) for table in tables.values()) == len(rows) - len(components(rows))
