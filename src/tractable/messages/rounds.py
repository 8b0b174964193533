r"""Exact answers for arrays of many factors at once, as rounds of equal operations: compiled, differentiable.

Model.       $p(x) \propto \prod_f f(x_f)$; factors of one shape lie along the leading axis of one array.
Rounds.      The bags of a junction tree that have the same height and shape are one array and one operation:
             $\psi_b = \prod_{f \in b} f \prod_c \mu_c$, $\mu_b(s) = \sum_r \psi_b(s, r)$. A thousand rows of
             a plate, or the thousand leaves of a star, take as many rounds as one of them.
Chains.      What is long and narrow (`rounds_component`) is a chain over the joint states of its levels, and
             goes through `chain.contract_chain`.
Answers.     Probabilities of bags are $\partial \log Z / \partial \log \psi_b$; draws and maximisers go back
             from the roots: $r \sim \psi_b(s, \cdot)$ at the $s$ that is known by then.
Cost.        The cells of all bags; to compile, the number of rounds. New index arrays of the same shapes are
             arguments, not programs.
References.  Lauritzen and Spiegelhalter (1988); Darwiche (2003), a differential approach to inference.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Int, Key, Scalar, Shape
from tractable.messages.chain import Chain, contract_chain
from tractable.messages.chain_paths import best_path, paths_from_noise
from tractable.messages.semirings import MaxSum, Semiring, SumProduct

__all__ = [
    "Feed", "Group", "Paths", "Placed", "Rounds", "best_states", "draw_states", "log_total", "state_probs",
]  # fmt: skip


class Feed(Module):
    """Tables that are multiplied into bags: which, along which axes, into which rows (None: all in order)."""

    source: int = field(static=True)  # of the tables, then of the messages of groups
    axes: Shape = field(static=True)  # the axis of the bag for each axis of the table
    rows: Int[Array, " n"] | None
    targets: Int[Array, " n"] | None


class Group(Module):
    """Bags of one shape that are made together: their variables, those shared with the parent first.

    A group that is not summed is the potential of nodes of chains, or of pairs, the earlier level first.
    """

    variables: Int[Array, "bags n"]
    sizes: Shape = field(static=True)
    num_shared: int = field(static=True)
    summed: bool = field(static=True)
    feeds: tuple[Feed, ...]


class Placed(Module):
    """A group whose bags lie at places of chains (None: one after the other)."""

    group: int = field(static=True)
    chain: Int[Array, " bags"] | None
    step: Int[Array, " bags"] | None


class Paths(Module):
    """Chains of one length (or padded to one) over the joint states of their levels."""

    shape: tuple[int, int, int] = field(static=True)  # chains, positions, states
    nodes: tuple[Placed, ...]
    pairs: tuple[Placed, ...]
    lengths: Int[Array, " chains"] | None


class Rounds(Module):
    """The plan; `slots[v]` is the place of variable `v` among those with as many states as it has."""

    groups: tuple[Group, ...]
    paths: tuple[Paths, ...]
    counts: tuple[tuple[int, int], ...] = field(static=True)  # (states, how many variables have them)
    slots: Int[Array, " variables"]

    @property
    def num_variables(self) -> int:
        return sum(count for _, count in self.counts)

    def __repr__(self) -> str:
        bags = sum(g.variables.shape[0] for g in self.groups)
        chains = sum(p.shape[0] for p in self.paths)
        return (
            f"Rounds({self.num_variables} variables, {bags} bags in {len(self.groups)} groups, "
            f"{chains} chains)"
        )


def log_total(rounds: Rounds, tables: Sequence[Float[Array, "..."]]) -> Scalar:
    r"""$\log \sum_x \prod_f f(x_f)$ of log tables (factors, states ...); $-\infty$ if nothing is possible."""
    return _passed(rounds, tables, SumProduct())[0]


def state_probs(rounds: Rounds, tables: Sequence[Float[Array, "..."]]) -> dict[int, Float[Array, "n k"]]:
    """The probabilities of the states of each variable, by number of states (`Rounds.slots`); NaN if nothing
    is possible."""

    def total(offsets: list[Array]) -> Scalar:
        return _passed(rounds, tables, SumProduct(), offsets)[0]

    kind = _kind(tables)
    zeros = [jnp.zeros((g.variables.shape[0], math.prod(g.sizes)), kind) for g in rounds.groups]
    log_value, probs = jax.value_and_grad(total)(zeros)
    answer = {size: jnp.zeros((count, size), kind) for size, count in rounds.counts}
    for group, table in zip(rounds.groups, probs):
        leaving = range(group.num_shared, len(group.sizes)) if group.summed or not group.num_shared else ()
        for axis in leaving:
            size, before = group.sizes[axis], math.prod(group.sizes[:axis])
            own = table.reshape((table.shape[0], before, size, -1)).sum((1, 3))
            answer[size] = answer[size].at[rounds.slots[group.variables[:, axis]]].set(own)
    return {size: jnp.where(log_value > -jnp.inf, p, jnp.nan) for size, p in answer.items()}


def draw_states(rounds: Rounds, tables: Sequence[Float[Array, "..."]], key: Key) -> Int[Array, " variables"]:
    """An exact joint draw of all variables; -1 throughout if nothing is possible."""
    counts = [g.variables.shape[0] * math.prod(g.sizes[g.num_shared :]) * g.summed for g in rounds.groups]
    counts += [math.prod(paths.shape) for paths in rounds.paths]
    ends = list(accumulate(counts))
    gumbels = jr.gumbel(key, (sum(counts),), _kind(tables))  # at once: its program takes long to compile

    def noise(number: int, shape: Shape) -> Array:
        return gumbels[ends[number] - counts[number] : ends[number]].reshape(shape)

    def choose(logits: Array, number: int) -> Array:
        return (logits + noise(number, logits.shape)).argmax(-1)

    def walk(nodes: Array, pairs: Array, lengths: Any, number: int) -> Array:
        own = noise(len(rounds.groups) + number, nodes.shape)
        path = lambda chain, gumbel: paths_from_noise(chain, gumbel[None])[0]  # noqa: E731
        return _each_chain(path, nodes, pairs, lengths, own)

    return _traced_back(rounds, tables, SumProduct(), choose, walk)[0]


def best_states(
    rounds: Rounds, tables: Sequence[Float[Array, "..."]]
) -> tuple[Int[Array, " variables"], Scalar]:
    """A joint state of largest product and the log of that; -1 throughout if nothing is possible."""

    def walk(nodes: Array, pairs: Array, lengths: Any, number: int) -> Array:
        return _each_chain(lambda chain: best_path(chain).paths, nodes, pairs, lengths)

    return _traced_back(rounds, tables, MaxSum(), lambda logits, number: logits.argmax(-1), walk)


# --- to the roots --------------------------------------------------------------------------------------


def _passed(
    rounds: Rounds, tables: Sequence[Array], semiring: Semiring, offsets: Sequence[Array] = ()
) -> tuple[Array, list[Array], list[tuple[Array, Array]]]:
    """The total, the bags with all that came into them, and the potentials of the chains."""
    sources: list[Any] = [table.reshape((table.shape[0], -1)) for table in tables]
    kind, bags, chains = _kind(tables), [], []
    total = jnp.zeros((), kind)
    for number, group in enumerate(rounds.groups):
        bag = _bag(group, sources, kind)
        bag = bag + offsets[number] if offsets else bag
        bags.append(bag)
        shared = math.prod(group.sizes[: group.num_shared])
        sent = semiring.total(bag.reshape((bag.shape[0], shared, -1)), (2,)) if group.summed else None
        sources.append(sent)
        if sent is not None and not group.num_shared:
            total = total + sent.sum()
    for paths in rounds.paths:
        nodes, pairs = _potentials(paths, rounds.groups, bags, kind)
        chains.append((nodes, pairs))
        contract = lambda chain: contract_chain(chain, semiring)  # noqa: E731
        total = total + _each_chain(contract, nodes, pairs, paths.lengths).sum()
    return total, bags, chains


def _bag(group: Group, sources: Sequence[Any], kind: Any) -> Array:
    """The product of what comes into each bag of a group: (bags, cells)."""
    num = group.variables.shape[0]
    bag = jnp.zeros((num, math.prod(group.sizes)), kind)
    for feed in group.feeds:
        part = sources[feed.source]
        part = part if feed.rows is None else part[feed.rows]
        part = part if feed.targets is None else jax.ops.segment_sum(part, feed.targets, num)
        order = sorted(range(len(feed.axes)), key=feed.axes.__getitem__)
        if order != list(range(len(order))):
            sizes = (group.sizes[axis] for axis in feed.axes)
            part = part.reshape((num, *sizes)).transpose((0, *(1 + i for i in order)))
        whole, own = _runs(group.sizes, feed.axes)
        bag = (bag.reshape((num, *whole)) + part.reshape((num, *own))).reshape(bag.shape)
    return bag


def _runs(sizes: Shape, axes: Shape) -> tuple[Shape, Shape]:
    """Neighbouring axes of a bag that a factor has, or has not, as one: the shape of the bag, and that of the
    factor, which broadcasts with it."""
    whole, own = [], []
    for inside, run in groupby(range(len(sizes)), lambda axis: axis in axes):
        whole.append(math.prod(sizes[axis] for axis in run))
        own.append(whole[-1] if inside else 1)
    return tuple(whole), tuple(own)


def _potentials(
    paths: Paths, groups: Sequence[Group], bags: Sequence[Array], kind: Any
) -> tuple[Array, Array]:
    """Log-potentials of nodes (chains, positions, states) and pairs; missing states are impossible."""
    num, length, size = paths.shape
    nodes = jnp.full((num, length, size), -jnp.inf, kind)
    pairs = jnp.zeros((num, length - 1, size, size), kind)
    return _laid(paths.nodes, groups, bags, nodes), _laid(paths.pairs, groups, bags, pairs)


def _laid(placed: Sequence[Placed], groups: Sequence[Group], bags: Sequence[Array], out: Array) -> Array:
    for part in placed:
        group, bag = groups[part.group], bags[part.group]
        if part.chain is None:
            return bag.reshape(out.shape)
        levels = (group.sizes[: group.num_shared], group.sizes[group.num_shared :])
        states = [math.prod(level) for level in levels if level]
        where = (part.chain, part.step, *(slice(0, k) for k in states))
        out = out.at[where].set(bag.reshape((bag.shape[0], *states)))
    return out


def _each_chain(function: Callable, nodes: Array, pairs: Array, lengths: Any, *more: Array) -> Array:
    """A function of each of many chains."""
    if lengths is None:
        return jax.vmap(lambda node, pair, *own: function(Chain(node, pair), *own))(nodes, pairs, *more)
    padded = lambda node, pair, n, *own: function(Chain(node, pair, n), *own)  # noqa: E731
    return jax.vmap(padded)(nodes, pairs, lengths, *more)


def _kind(tables: Sequence[Array]) -> Any:
    return jnp.result_type(*tables) if len(tables) else jnp.result_type(float)


# --- and back ------------------------------------------------------------------------------------------


def _traced_back(
    rounds: Rounds, tables: Sequence[Array], semiring: Semiring, choose: Callable, walk: Callable
) -> tuple[Array, Array]:
    """States from the roots to the leaves: `choose` takes one by log-weights, `walk` a path of each chain."""
    total, bags, chains = _passed(rounds, tables, semiring)
    states = jnp.zeros(rounds.num_variables, int)
    for number, (paths, (nodes, pairs)) in enumerate(zip(rounds.paths, chains)):
        walked = walk(nodes, pairs, paths.lengths, number)
        for part in paths.nodes:
            taken = walked.reshape(-1) if part.chain is None else walked[part.chain, part.step]
            states = _known(states, rounds.groups[part.group], taken)
    for number, group in reversed(list(enumerate(rounds.groups))):
        if group.summed:
            shared = group.sizes[: group.num_shared]
            rows = bags[number].reshape((-1, math.prod(shared), math.prod(group.sizes[group.num_shared :])))
            place = jnp.zeros(rows.shape[0], int)
            for axis, size in enumerate(shared):
                place = place * size + states[group.variables[:, axis]]
            logits = jnp.take_along_axis(rows, place[:, None, None], 1)[:, 0]
            states = _known(states, group, choose(logits, number))
    return jnp.where(total > -jnp.inf, states, -1), total


def _known(states: Array, group: Group, joint: Array) -> Array:
    """With the states of the variables that a group leaves, from their joint state."""
    for axis in reversed(range(group.num_shared, len(group.sizes))):
        states = states.at[group.variables[:, axis]].set(joint % group.sizes[axis])
        joint = joint // group.sizes[axis]
    return states
