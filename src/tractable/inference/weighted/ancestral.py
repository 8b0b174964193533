r"""Sampling a network of tables from parents to children: ancestral, logic sampling, likelihood weighting.

Network.     Tables in order, each given variables before it: $P(x) = \prod_i P(x_i \mid x_{pa(i)})$.
Logic.       Ancestral draws that contradict the evidence are rejected; the accepted share estimates $P(e)$.
Weighting.   A table that speaks of evidence draws only what agrees with it, and multiplies the weight by
             $P(e_i \mid x_{pa(i)})$: nothing is rejected, and the mean weight estimates $P(e)$.
Cost.        One categorical draw per table and draw; no joint table is ever made.
References.  Henrion (1988); Fung and Chang (1990); Koller and Friedman (2009) chapter 12.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.estimate import Estimate
from tractable.core.module import field
from tractable.core.numerics import safe_log
from tractable.core.types import Array, Key
from tractable.distributions.table_axes import Event, TableAxes
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.inference.weighted.importance import Weighted
from tractable.inference.weighted.pareto import smooth
from tractable.inference.weighted.weights import weighted_mean

__all__ = ["WeightedStates", "ancestral", "likelihood_weighting", "logic_sampling"]

Table = JointTable | ConditionalTable


class WeightedStates(Weighted):
    """Weighted draws of named variables: `draws[name]` holds positions among the variable's states."""

    axes: TableAxes = field(static=True, default=TableAxes((), ()))

    def prob(self, event: Event | None = None, /, **more: Any) -> Estimate:
        """The probability of an event under the target, such as `prob(rain=1)`, with its standard error."""
        wanted = {**(event or {}), **more}
        hit = _agree({name: self.axes.mask(name, value) for name, value in wanted.items()}, self.draws)
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
    tables, _ = _as_network(network)
    return _forward(tables, tuple({} for _ in tables), key, check_count("num_draws", num_draws))[0]


def logic_sampling(
    network: Iterable[Table] | Mapping[Any, Table], evidence: Event, *, key: Key, num_draws: int
) -> WeightedStates:
    r"""Ancestral draws with weight 1 where they agree with the evidence and 0 where they do not.

    `log_evidence` is the logarithm of the accepted share. Evidence that no draw agrees with is an error:
    draw more, or use `likelihood_weighting`.
    """
    tables, axes = _as_network(network)
    draws = ancestral(tables, key=key, num_draws=num_draws)
    kept = _agree({name: axes.mask(name, value) for name, value in evidence.items()}, draws)
    fix = "Take more draws, or use `likelihood_weighting`."
    check(bool(kept.any()), "evidence", "met by a draw", f"none of {num_draws} draws that agree", fix)
    logs = jnp.where(kept, 0.0, -jnp.inf)
    return WeightedStates(draws, logs, smooth(logs).k_hat, False, axes)


def likelihood_weighting(
    network: Iterable[Table] | Mapping[Any, Table], evidence: Event, *, key: Key, num_draws: int
) -> WeightedStates:
    r"""Draws of the variables given evidence, weighted by $\prod_i P(e_i \mid \text{parents})$.

    Evidence maps names to a state, a set of states, or a predicate of one state. Early evidence guides the
    draws after it; evidence at the leaves only weights them, so look at `ess`.

    >>> rain = JointTable("rain", [0.8, 0.2])
    >>> wet = ConditionalTable("wet", "rain", [[0.9, 0.1], [0.2, 0.8]])
    >>> post = likelihood_weighting([rain, wet], {"wet": 1}, key=jr.key(0), num_draws=10_000)
    >>> round(float(post.prob(rain=1).value), 1)  # 2/3
    0.7
    """
    tables, axes = _as_network(network)
    masks = {name: axes.mask(name, value) for name, value in evidence.items()}
    chosen = tuple({name: masks[name] for name in _roles(table)[0] if name in masks} for table in tables)
    draws, logs = _forward(tables, chosen, key, check_count("num_draws", num_draws))
    fix = "The evidence may be impossible; check it in the tables."
    check(bool((logs > -jnp.inf).any()), "evidence", "of positive weight in a draw", "zero in all", fix)
    return WeightedStates(draws, logs, smooth(logs).k_hat, False, axes)


def _roles(table: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that a table draws, and those that it is given."""
    return (table.names, ()) if isinstance(table, JointTable) else (table.targets, table.given)


def _as_network(network: Iterable[Table] | Mapping[Any, Table]) -> tuple[tuple[Table, ...], TableAxes]:
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
    return tables, axes


def _agree(masks: Mapping[str, np.ndarray], draws: Mapping[str, Array]) -> Array:
    """Which draws lie in all the events."""
    unknown = [name for name in masks if name not in draws]
    check(not unknown, "event", f"about variables among {tuple(draws)}", unknown)
    hits = [jnp.asarray(mask)[draws[name]] for name, mask in masks.items()]
    count = next(iter(draws.values())).shape
    return jnp.stack(hits).all(0) if hits else jnp.ones(count, bool)


def _forward(tables: tuple, masks: tuple, key: Key, num_draws: int) -> tuple[dict[str, Array], Array]:
    return _forward_compiled(tables, masks, jr.split(key, len(tables)), num_draws)


def _forward_one(table: Table, mask: dict, draws: dict, key: Key, num_draws: int) -> tuple[dict, Array]:
    """The targets of one table for every draw, and the log-probability of what the evidence says of them."""
    targets, given = _roles(table)
    cells = table.probs[tuple(draws[name] for name in given)] if given else table.probs[None]
    shape = cells.shape[1:]
    allowed = jnp.ones(shape, bool)
    for name, states in mask.items():
        at = targets.index(name)
        allowed &= jnp.asarray(states).reshape([-1 if i == at else 1 for i in range(len(shape))])
    cells = jnp.where(allowed[None], cells, 0.0).reshape((cells.shape[0], -1))
    log_p = safe_log(cells.sum(1)) if mask else jnp.zeros(cells.shape[0], cells.dtype)
    flat = jr.categorical(key, jnp.broadcast_to(safe_log(cells), (num_draws, cells.shape[1])), axis=1)
    return dict(zip(targets, jnp.unravel_index(flat, shape))), jnp.broadcast_to(log_p, (num_draws,))


def _forward_all(tables: tuple, masks: tuple, keys: Array, num_draws: int) -> tuple[dict[str, Array], Array]:
    draws, logs = {}, jnp.zeros(num_draws, tables[0].probs.dtype)
    for i, (table, mask) in enumerate(zip(tables, masks)):
        drawn, log_p = _forward_one(table, mask, draws, keys[i], num_draws)
        draws |= drawn
        # after impossible evidence a draw has left the network's support: what follows does not matter
        logs = jnp.where(logs == -jnp.inf, -jnp.inf, logs + log_p)
    return draws, logs


_forward_compiled = jax.jit(_forward_all, static_argnums=3)
