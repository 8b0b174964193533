r"""A network as a model with hidden parts: evidence and expected counts of rows with any gaps, for EM.

Counts.      Expected counts are derivatives of the evidence $L = \sum_n w_n \log p(e_n)$: for every cell,
             $\sum_n w_n\,P(x_i = k, x_P = j \mid e_n) = \partial L / \partial \log\theta_{jk}$. One pass back
             through the elimination of a row gives all families. All in logarithms; zeros stay zeros.
M-step.      $\theta_{jk} \propto$ expected counts; a row of a table that no data reach keeps its value, since
             the evidence does not depend on it.
Rows.        Variables seen in every row are looked up; only those missing somewhere are summed, in an order
             chosen for the graph among them.
Cost.        Per step: rows times the cells of the elimination order over the sometimes-missing variables.
References.  Lauritzen (1995); Darwiche (2003), on derivatives; Dempster, Laird and Rubin (1977).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.module import Module, field
from tractable.core.numerics import xlogy
from tractable.core.support import simplex
from tractable.core.types import Array, Float, Int, Scalar
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.dag import DAG
from tractable.messages.elimination import elimination_order
from tractable.messages.variable_elimination import eliminate

__all__ = ["FreeTable", "HiddenNetwork", "Layout", "Tables", "hidden_network"]

Tables = tuple[Array, ...]


@dataclass(frozen=True)
class Layout:
    """What is known before any number: names, states, families, and which variables may be missing."""

    names: tuple[str, ...]
    states: tuple[tuple[Any, ...], ...]
    scopes: tuple[tuple[int, ...], ...]  # parents, then the variable
    order: tuple[int, ...]  # the sometimes-missing variables, as they are summed out

    @classmethod
    def of(cls, dag: DAG, states: Mapping[str, Sequence[Any]], missing: Sequence[str]) -> "Layout":
        place = {name: i for i, name in enumerate(dag.names)}
        scopes = tuple(tuple(place[n] for n in (*dag.parents(name), name)) for name in dag.names)
        free = [place[name] for name in dag.names if name in missing]
        number = {v: i for i, v in enumerate(free)}
        inner = [tuple(number[v] for v in scope if v in number) for scope in scopes]
        sizes = [len(states[dag.names[v]]) for v in free]
        order = elimination_order([scope for scope in inner if scope], sizes).order if free else ()
        return cls(
            dag.names, tuple(tuple(states[n]) for n in dag.names), scopes, tuple(free[i] for i in order)
        )


class FreeTable(Module):
    """One conditional table: a distribution in every row."""

    probs: Float[Array, "..."] = field(support=simplex)


class HiddenNetwork(Module):
    """A network as a model with additive statistics; rows hold codes, -1 where a value is missing."""

    tables: tuple[FreeTable, ...]
    layout: Layout = field(static=True)

    def e_step(
        self, rows: Int[Array, "rows variables"], weights: Float[Array, " rows"]
    ) -> tuple[Tables, Scalar]:
        """Expected counts of all families, and the log-evidence."""

        def total(logs: Tables) -> Scalar:
            return weights @ jax.vmap(lambda row: _row_evidence(self.layout, logs, row))(rows)

        evidence, counts = jax.value_and_grad(total)(self.logs)
        return counts, evidence

    def m_step(self, stats: Tables) -> "HiddenNetwork":
        """Counts divided by their sum over the variable's states."""

        def normalised(table: Array, counts: Array) -> FreeTable:
            totals = jnp.broadcast_to(counts.sum(-1, keepdims=True), counts.shape)
            return FreeTable(jnp.where(totals > 0, counts / jnp.where(totals > 0, totals, 1.0), table))

        return HiddenNetwork(tuple(map(normalised, self.probs, stats)), self.layout)

    def expected_log_joint(self, stats: Tables) -> Scalar:
        r"""$\sum N_{jk} \log \theta_{jk}$ for counts of all families."""
        return jnp.stack([xlogy(n, p).sum() for n, p in zip(stats, self.probs)]).sum()

    def row_evidence(self, rows: Int[Array, "rows variables"]) -> Float[Array, " rows"]:
        """The log-probability of what is seen in each row."""
        return jax.vmap(lambda row: _row_evidence(self.layout, self.logs, row))(rows)

    def posteriors(self, rows: Int[Array, "rows variables"]) -> dict[str, Float[Array, "rows states"]]:
        """The distribution of each sometimes-missing variable in each row, given what is seen there."""
        logs = self.logs

        def one(row: Array) -> dict[str, Array]:
            likelihoods = _log_likelihoods(self.layout, logs, row)
            found = jax.grad(lambda each: _log_total(self.layout, logs, row, each))(likelihoods)
            return {self.layout.names[v]: posterior for v, posterior in found.items()}

        return jax.vmap(one)(rows)

    @property
    def probs(self) -> Tables:
        return tuple(table.probs for table in self.tables)

    @property
    def logs(self) -> Tables:
        return tuple(jnp.log(table.probs) for table in self.tables)

    def network(self) -> BayesNet:
        """The network with these tables."""
        made, names, states = [], self.layout.names, self.layout.states
        for scope, probs in zip(self.layout.scopes, self.probs):
            chosen = [names[v] for v in scope]
            made.append(ConditionalTable(chosen[-1], chosen[:-1], probs, [states[v] for v in scope]))
        return BayesNet(made)


def hidden_network(net: BayesNet, missing: Sequence[str]) -> HiddenNetwork:
    """The model behind the fit, for `inference.em` and its variants; `missing` may be missing in some row."""
    layout = Layout.of(net.dag, net.states, missing)
    tables = tuple(FreeTable(net.tables[name].probs) for name in layout.names)
    return HiddenNetwork(tables, layout)


def _row_evidence(layout: Layout, logs: Tables, row: Int[Array, " variables"]) -> Scalar:
    return _log_total(layout, logs, row, _log_likelihoods(layout, logs, row))


def _log_likelihoods(layout: Layout, logs: Tables, row: Int[Array, " variables"]) -> dict[int, Array]:
    """Of each sometimes-missing variable: zero for its state, or for all states where it is missing."""
    found = {}
    for v in layout.order:
        places = jnp.arange(len(layout.states[v]))
        found[v] = jnp.where((row[v] < 0) | (places == row[v]), 0.0, -jnp.inf).astype(logs[v].dtype)
    return found


def _log_total(
    layout: Layout, logs: Tables, row: Int[Array, " variables"], likelihoods: dict[int, Array]
) -> Scalar:
    """The log-evidence of one row: tables looked up at what is always seen, the rest summed out in order."""
    factors: list[tuple[tuple[int, ...], Array]] = [((v,), each) for v, each in likelihoods.items()]
    for scope, table in zip(layout.scopes, logs):
        index = tuple(slice(None) if v in likelihoods else row[v] for v in scope)
        factors.append((tuple(v for v in scope if v in likelihoods), table[index]))
    left, _ = eliminate(factors, layout.order)
    return jnp.stack([value for _, value in left]).sum()
