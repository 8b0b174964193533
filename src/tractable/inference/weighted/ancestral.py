r"""Sampling a network of tables from parents to children: ancestral, logic sampling, likelihood weighting.

Network.     Tables in order, each given variables before it: $P(x) = \prod_i P(x_i \mid x_{pa(i)})$.
Logic.       Ancestral draws that contradict the evidence are rejected; the accepted share estimates $P(e)$.
Weighting.   A table that speaks of evidence draws only what agrees with it, and multiplies the weight by
             $P(e_i \mid x_{pa(i)})$: nothing is rejected, and the mean weight estimates $P(e)$.
Cost.        One pass over the draws per table, on the host (a compiled program for each new network takes a
             second per three variables); no joint table is ever made.
References.  Henrion (1988); Fung and Chang (1990); Koller and Friedman (2009) chapter 12.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.estimate import Estimate
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.types import Array, Float, Int, Key
from tractable.distributions.table_axes import Event, TableAxes
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.inference.weighted.importance import Weighted
from tractable.inference.weighted.pareto import smooth
from tractable.inference.weighted.weights import weighted_mean
from tractable.messages.evidence import Evidence, read_evidence

__all__ = [
    "WeightedStates", "ancestral", "draw_rows", "forward_draws", "likelihood_weighting", "logic_sampling",
]  # fmt: skip

Table = JointTable | ConditionalTable
Step = tuple[tuple[int, ...], tuple[int, ...], np.ndarray]  # given, targets, and P(targets | given)
_NOTHING = Evidence({}, {})


class WeightedStates(Weighted):
    """Weighted draws of named variables: `draws[name]` holds positions among the variable's states."""

    axes: TableAxes = field(static=True, default=TableAxes((), ()))

    def prob(self, event: Event | None = None, /, **more: Any) -> Estimate:
        """The probability of an event under the target, such as `prob(rain=1)`, with its standard error."""
        hit = jnp.ones(self.num_draws, bool)
        for name, value in {**(event or {}), **more}.items():
            hit &= jnp.asarray(self.axes.mask(name, value))[self.draws[name]]
        return weighted_mean(hit.astype(self.log_weights.dtype), self.log_weights)

    def states(self, name: str) -> np.ndarray:
        """The drawn states of one variable, by their own names."""
        return self.axes.state_array(name).take(np.asarray(self.draws[name]))


def ancestral(
    network: Iterable[Table] | Mapping[Any, Table], *, key: Key, num_draws: int
) -> dict[str, Array]:
    """Independent joint draws: for each variable, positions among its states.

    `network` holds tables with parents before children (a mapping is taken in its order).
    """
    steps, axes = _as_network(network)
    rows, _ = forward_draws(steps, _NOTHING, generator(key), check_count("num_draws", num_draws))
    return _columns(axes, rows)


def logic_sampling(
    network: Iterable[Table] | Mapping[Any, Table], evidence: Event, *, key: Key, num_draws: int
) -> WeightedStates:
    r"""Ancestral draws with weight 1 where they agree with the evidence and 0 where they do not.

    `log_evidence` is the logarithm of the accepted share. Evidence that no draw agrees with is an error:
    draw more, or use `likelihood_weighting`.
    """
    steps, axes = _as_network(network)
    observed, count = read_evidence(axes, evidence), check_count("num_draws", num_draws)
    rows, logs = forward_draws(steps, _NOTHING, generator(key), count)
    for i, place in observed.hard.items():
        logs = np.where(rows[:, i] == place, logs, -np.inf)
    for (i,), log_likelihood in observed.log_factors:
        logs = logs + log_likelihood[rows[:, i]]
    fix, got = "Take more draws, or use `likelihood_weighting`.", f"none of {count} draws that agree"
    check(bool((logs > -np.inf).any()), "evidence", "met by a draw", got, fix)
    return _weighted(axes, rows, logs)


@takes_key
def likelihood_weighting(
    network: Iterable[Table] | Mapping[Any, Table], evidence: Event, *, key: Key, num_draws: int
) -> WeightedStates:
    r"""Draws of the variables given evidence, weighted by $\prod_i P(e_i \mid \text{parents})$.

    Evidence is what `messages.evidence` reads: states, sets of states, predicates, likelihoods. Where it is
    early it guides the draws after it; at the leaves it only weights them, so look at `ess`.

    >>> import jax.random as jr
    >>> rain = JointTable("rain", [0.8, 0.2])
    >>> wet = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]])
    >>> post = likelihood_weighting([rain, wet], {"wet": 1}, key=jr.key(0), num_draws=10_000)
    >>> round(float(post.prob(rain=1).value), 1)  # 2/3
    0.7
    """
    steps, axes = _as_network(network)
    observed, count = read_evidence(axes, evidence), check_count("num_draws", num_draws)
    rows, logs = forward_draws(steps, observed, generator(key), count)
    fix = "The evidence may be impossible; check it in the tables."
    check(bool((logs > -np.inf).any()), "evidence", "of positive weight in a draw", "zero in all", fix)
    return _weighted(axes, rows, logs)


def forward_draws(
    tables: Sequence[Step], evidence: Evidence, generator: np.random.Generator, count: int
) -> tuple[Int[np.ndarray, "draws variables"], Float[np.ndarray, " draws"]]:
    r"""Draws of numbered variables from parents to children, one row each, and their log-weights.

    Each step `(given, targets, probs)` draws its targets, and is weighed by what evidence says of these: by
    $P(e_i \mid x_{pa(i)})$ for a state, by $\sum_{x_i} P(x_i \mid x_{pa(i)}) \lambda(x_i)$ for a likelihood.
    """
    num_variables = 1 + max(i for _, targets, _ in tables for i in targets)
    rows, log_weights = np.zeros((count, num_variables), int), np.zeros(count)
    for given, targets, probs in tables:
        where = [evidence.hard.get(i, slice(None)) for i in targets]
        cells = probs[(*[slice(None)] * len(given), *where)]
        cells = cells[tuple(rows[:, i] for i in given)] if given else cells[None]
        free = [i for i in targets if i not in evidence.hard]
        for axis, i in enumerate(free, 1):
            if i in evidence.soft:
                cells = cells * evidence.soft[i].reshape([-1 if k == axis else 1 for k in range(cells.ndim)])
        flat = cells.reshape(len(cells), -1)
        rows[:, [i for i in targets if i in evidence.hard]] = [k for k in where if isinstance(k, int)]
        if free:
            rows[:, free] = np.stack(np.unravel_index(draw_rows(flat, generator, count), cells.shape[1:]), 1)
        if not evidence.variables.isdisjoint(targets):
            with np.errstate(divide="ignore"):
                found = np.log(flat.sum(-1))
            # after impossible evidence a draw has left the network's support: what follows does not matter
            log_weights = np.where(log_weights == -np.inf, -np.inf, log_weights + found)
    return rows, log_weights


def draw_rows(probs: np.ndarray, generator: np.random.Generator, count: int) -> Int[np.ndarray, " count"]:
    """One state for each of `count` rows of probabilities (up to a factor); one row serves them all."""
    levels = np.cumsum(probs, axis=-1)
    uniforms = generator.random((count, 1))
    # a number below the total lies below the first level that passes it: never at a state of probability zero
    drawn = (uniforms * levels[:, -1:] >= levels).sum(-1)
    return np.minimum(drawn, probs.shape[-1] - 1)  # a row of zeros: any state, of weight zero


def _roles(table: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that a table draws, and those that it is given."""
    return (table.names, ()) if isinstance(table, JointTable) else (table.targets, table.given)


def _as_network(network: Iterable[Table] | Mapping[Any, Table]) -> tuple[list[Step], TableAxes]:
    """The tables as steps over numbered variables, and the axes that number them."""
    tables = tuple(network.values()) if isinstance(network, Mapping) else tuple(network)
    check(len(tables) > 0, "network", "at least one table", "none")
    axes, known = TableAxes((), ()), set()
    for table in tables:
        is_table = isinstance(table, JointTable | ConditionalTable)
        check(is_table, "network", "tables in order", type(table).__name__, error=TypeError)
        targets, given = _roles(table)
        missing = [name for name in given if name not in known]
        check(not missing, "network", "in order, parents before children", f"{targets} before {missing}")
        repeated = [name for name in targets if name in known]
        check(not repeated, "network", "tables of different variables", f"{repeated} drawn twice")
        known |= set(targets)
        axes = axes.join(table.axes)
    steps = []
    for table in tables:
        targets, given = (tuple(axes.place[name] for name in names) for names in _roles(table))
        steps.append((given, targets, np.asarray(table.probs, float)))
    return steps, axes


def _weighted(axes: TableAxes, rows: np.ndarray, logs: np.ndarray) -> WeightedStates:
    log_weights = jnp.asarray(logs)
    return WeightedStates(_columns(axes, rows), log_weights, smooth(log_weights).k_hat, False, axes)


def _columns(axes: TableAxes, rows: np.ndarray) -> dict[str, Array]:
    return {name: jnp.asarray(rows[:, i]) for i, name in enumerate(axes.names)}
