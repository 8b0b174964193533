r"""Gibbs sampling on factor graphs, Markov fields and Bayesian networks: only touching factors are looked at.

Model.       $p(x) = \frac1Z\prod_m f_m(x_m)$ over variables with finitely many states; a network of
             conditional tables is the case $Z = 1$, and evidence fixes some of the variables.
Identity.    $p(x_k \mid x_{-k}) \propto \prod_{m \ni k} f_m(x_m)$: the factors that touch $k$, and so the
             other variables in them, its Markov blanket, are all that matters; $Z$ is never needed.
Colours.     Variables without a common factor are independent given the rest: they are redrawn at once.
Cost.        Per sweep, linear in the pairs of factor and variable, times the number of states.
References.  Geman and Geman (1984); Pearl (1987); Gonzalez et al. (2011), "Parallel Gibbs sampling".
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, check_count, is_concrete
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.numerics import softmax
from tractable.core.programs import program
from tractable.core.types import Array, Bool, Float, Int, Key, PyTree, Scalar
from tractable.distributions.table_axes import Event, TableAxes
from tractable.inference.gibbs.draws import FactorDraws
from tractable.inference.gibbs.layout import FactorLayout, colour, lay_out
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler
from tractable.messages.evidence import read_evidence
from tractable.messages.potentials import as_table

__all__ = ["FactorDraws", "FactorGibbs", "factor_gibbs"]

Factors = Iterable[Any] | Mapping[Any, Any]


class FactorGibbs(Sampler):
    r"""Gibbs sampling of the free variables of factors, given evidence.

    `factors` holds `JointTable`s, `ConditionalTable`s and pairs `(names, log_potentials)`, in any order (a
    mapping is taken for its values). `evidence` is what `messages.evidence` reads. A
    position is a dict from the names of the free variables to places among their states, or one vector of
    these places in the order of `free`. `log_density` is the density that goes with it.

    >>> from tractable.distributions.tables import ConditionalTable, JointTable
    >>> coin, copy = JointTable("a", [0.2, 0.8]), ConditionalTable("b", "a", [[0.9, 0.1], [0.3, 0.7]])
    >>> FactorGibbs([coin, copy], {"b": 1}).conditional("a", {"a": 0}).round(6).tolist()
    [0.034483, 0.965517]
    """

    space: ClassVar[str] = "native"

    cells: Float[Array, " cells"]
    observed: Int[Array, " n"]  # the evidence in its place, zero for free variables and for the padding
    allowed: Bool[Array, "n states"]  # the states that each variable has, and that evidence leaves to it
    layout: FactorLayout
    axes: TableAxes = field(static=True)
    free: tuple[str, ...] = field(static=True)
    blankets: tuple[frozenset[str], ...] = field(static=True)

    def __init__(self, factors: Factors, evidence: Event | None = None):
        given = list(factors.values()) if isinstance(factors, Mapping) else list(factors)
        check(len(given) > 0, "factors", "at least one factor", "none")
        tables = [as_table(each, f"factors[{i}]") for i, each in enumerate(given)]
        axes = TableAxes((), ())
        for table in tables:
            axes = axes.join(table.axes)
        known = read_evidence(axes, evidence)
        parts = [(tuple(axes.place[n] for n in table.names), table.log_values) for table in tables]
        for i, likelihood in known.soft.items():
            possible = bool((likelihood > 0).any())
            must = f"met by a state of {axes.names[i]!r}"
            check(possible, "evidence", must, "none", error=ImpossibleEvidence)
        parts += known.log_factors  # a restriction is a factor too: the density is then zero outside of it
        free = [i for i in range(len(axes.names)) if i not in known.hard]
        self.axes, self.free = axes, tuple(axes.names[i] for i in free)
        check(len(free) > 0, "evidence", "silent about at least one variable", "a state for each")
        self.cells = jnp.concatenate([jnp.reshape(logs, -1) for _, logs in parts])
        self.observed = jnp.asarray([*(known.hard.get(i, 0) for i in range(len(axes.names))), 0])
        members = [scope for scope, _ in parts]
        neighbours, groups = colour(members, free)
        self.blankets = tuple(frozenset(axes.names[v] for v in each) for each in neighbours)
        self.layout = lay_out(axes.shape, members, groups, free)
        states = np.arange(max(axes.shape))
        rows = [np.where(states < size, True, False) for size in (*axes.shape, 1)]
        for i, likelihood in known.soft.items():
            rows[i][: likelihood.size] = likelihood > 0
        self.allowed = jnp.asarray(np.stack(rows))

    def log_density(self, position: PyTree) -> Scalar:
        r"""$\sum_m \log f_m(x_m)$ with the evidence in its place: the density up to $Z$."""
        x, at = self._whole(position), self.layout.of_factors
        return self.cells[at["first"] + (at["strides"] * x[at["members"]]).sum(1)].sum()

    def conditional(self, name: str, position: PyTree) -> Float[Array, " states"]:
        r"""$p(x_k \mid x_{-k})$ over the states of one free variable."""
        check(name in self.free, "name", f"among the free variables {self.free}", repr(name))
        group, slot = self.layout.slots[self.free.index(name)]
        probs = _conditional(self, jnp.asarray([group, slot]), self._whole(position))
        return probs[: len(self.axes.states_of(name))]

    def markov_blanket(self, name: str) -> frozenset[str]:
        """The variables that share a factor with a free one: given these, it depends on no others."""
        check(name in self.free, "name", f"among the free variables {self.free}", repr(name))
        return self.blankets[self.free.index(name)]

    @property
    def num_colours(self) -> int:
        """How many groups of variables are redrawn in turn."""
        return self.layout.of_colours["variable"].shape[0]

    def start(self, key: Key, *, num_tries: int = 1000, flat: bool = False) -> PyTree:
        """The most probable of `num_tries` positions at random; an error if none of them is possible."""
        (point,) = _best_starts(self, key, 1, check_count("num_tries", num_tries))
        return point if flat else dict(zip(self.free, point))

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> ChainState:
        """The state at `position`; the key is not used."""
        _check_position(self, position)
        position = jax.tree.map(lambda leaf: jnp.array(leaf, int), position)
        value = self.log_density(position)
        if is_concrete(value):
            fix = "Use `start(key)` to look for one."
            check(float(value) > -np.inf, "start", "possible under the factors", "probability zero", fix)
        return ChainState(position, jnp.asarray(log_density(position), value.dtype))

    def step(self, log_density: LogDensity, state: ChainState, key: Key) -> tuple[ChainState, Info]:
        """One sweep over all free variables, colour by colour."""
        start, colours = self._whole(state.position), self.layout.of_colours
        shape = (*colours["variable"].shape, self.allowed.shape[1])
        noise = jr.gumbel(key, shape, self.cells.dtype)  # the largest of logs plus noise is a draw
        swept = run(lambda x, each: self._redraw(x, *each), start, (colours, noise))
        values = swept.state[self._places]
        position = dict(zip(self.free, values)) if isinstance(state.position, Mapping) else values
        value = jnp.asarray(log_density(position), state.log_density.dtype)
        undefined = swept.trace.any() | jnp.isnan(value)
        return ChainState(position, value), Info(jnp.ones(()), jnp.asarray(1), undefined=undefined)

    def _redraw(self, x: Array, row: dict[str, Array], noise: Array) -> tuple[Array, Array]:
        """All variables of one colour, and whether one of them has no possible state."""
        logs, variables = self._log_conditionals(row, x), row["variable"]
        possible = logs.max(1) > -jnp.inf  # else the state was impossible before: stay, and say so
        drawn = jnp.where(possible, (logs + noise).argmax(1), x[variables])
        stuck = ~possible & (variables < x.shape[0] - 1)
        return x.at[variables].set(drawn), stuck.any()

    def _log_conditionals(self, row: dict[str, Array], x: Array) -> Float[Array, "slots states"]:
        slots, states = row["variable"].shape[0], self.allowed.shape[1]
        base = row["first"] + (row["strides"] * x[row["members"]]).sum(1)
        cells = base[:, None] + row["own"][:, None] * jnp.arange(states)[None]
        terms = self.cells.at[cells].get(mode="clip")  # of states that a variable does not have: masked below
        logs = jax.ops.segment_sum(terms, row["slot"], slots + 1)[:slots]
        return jnp.where(self.allowed[row["variable"]], logs, -jnp.inf)

    @property
    def _places(self) -> np.ndarray:
        return np.array([self.axes.place[name] for name in self.free])

    def _whole(self, position: PyTree) -> Int[Array, " n"]:
        """All variables in the order of the axes, and one place for padding."""
        if isinstance(position, Mapping):
            position = jnp.stack([jnp.asarray(position[name], int) for name in self.free])
        return self.observed.at[self._places].set(jnp.asarray(position, int))


@takes_key
def factor_gibbs(
    factors: Factors,
    evidence: Event | None = None,
    *,
    key: Key,
    num_sweeps: int = 2000,
    num_warmup: int = 200,
    num_chains: int = 4,
    start: PyTree = None,
) -> FactorDraws:
    """Draws of the free variables given evidence: `num_sweeps` from each chain, after a warm-up.

    Chains start from different random positions (or all from `start`).

    >>> from tractable.distributions.tables import ConditionalTable, JointTable
    >>> coin, copy = JointTable("a", [0.2, 0.8]), ConditionalTable("b", "a", [[0.9, 0.1], [0.3, 0.7]])
    >>> found = factor_gibbs([coin, copy], {"b": 1}, key=jr.key(0))
    >>> abs(float(found.prob(a=1).value) - 28 / 29) < 0.02
    True
    """
    sampler = FactorGibbs(factors, evidence)
    counts = check_count("num_warmup", num_warmup, least=0), check_count("num_sweeps", num_sweeps, least=4)
    key_start, key_run = jr.split(key)
    num_chains = check_count("num_chains", num_chains)
    if start is None:
        starts = _best_starts(sampler, key_start, num_chains, 200)
    else:
        _check_position(sampler, start)
        starts = jnp.tile(sampler._whole(start)[sampler._places][None], (num_chains, 1))
    places = _draws(sampler, starts, key_run, counts)
    return FactorDraws(places, sampler.axes, sampler.free, tuple(evidence or {}))


@program
def _draws(sampler: FactorGibbs, starts: Array, key: Key, counts: tuple[int, int]) -> Array:
    """Places among states of all chains side by side, shape (chains, sweeps, free)."""
    key_init, key_warmup, key_sweeps = jr.split(key, 3)
    chains = starts.shape[0]
    init = jax.vmap(lambda start, key: sampler.init(sampler.log_density, start, key))
    sweep = jax.vmap(lambda state, key: sampler.step(lambda _: jnp.zeros(()), state, key)[0])

    def step(state, keys):
        state = sweep(state, keys)
        return state, state.position

    state = init(starts, jr.split(key_init, chains))
    warm = run(lambda s, k: (sweep(s, k), None), state, jr.split(key_warmup, (counts[0], chains)))
    return run(step, warm.state, jr.split(key_sweeps, (counts[1], chains))).trace.swapaxes(0, 1)


@program
def _conditional(sampler: FactorGibbs, at: Array, x: Array) -> Array:
    row = jax.tree.map(lambda leaf: leaf[at[0]], sampler.layout.of_colours)
    return softmax(sampler._log_conditionals(row, x)[at[1]])


def _best_starts(sampler: FactorGibbs, key: Key, count: int, tries: int) -> Int[Array, "count free"]:
    """For each chain the most probable of `tries` positions at random."""
    points, values = _scattered(sampler, key, (count, tries))
    fix = "Take more tries, or give a start, such as a draw of `ancestral.likelihood_weighting`."
    must, got = "possible at one of the tries", f"probability zero at all {tries}"
    check(float(values.min()) > -np.inf, "start", must, got, fix, ImpossibleEvidence)
    return points


@program
def _scattered(sampler: FactorGibbs, key: Key, shape: tuple[int, int]) -> tuple[Array, Array]:
    """The best of several positions uniform over what is allowed, and its log-density, for each row."""
    logs = jnp.where(sampler.allowed[sampler._places], 0.0, -jnp.inf)
    points = jr.categorical(key, jnp.broadcast_to(logs[None, None], (*shape, *logs.shape)), axis=3)
    values = jax.vmap(jax.vmap(sampler.log_density))(points)
    best = values.argmax(1)
    return jnp.take_along_axis(points, best[:, None, None], 1)[:, 0], values.max(1)


def _check_position(sampler: FactorGibbs, position: PyTree) -> None:
    names = sampler.free
    if isinstance(position, Mapping):
        same = set(position) == set(names)
        check(same, "start", f"a place among its states for each of {names}", sorted(position))
        values = [position[name] for name in names]
    else:
        got = jnp.shape(position)
        must = f"a dict, or a vector of {len(names)} places among states"
        check(got == (len(names),), "start", must, f"shape {got}")
        values = position
    if all(is_concrete(leaf) for leaf in jax.tree.leaves(values)):
        for name, value in zip(names, np.asarray(values)):
            most = len(sampler.axes.states_of(name)) - 1
            whole = bool(value == np.floor(value) and 0 <= value <= most)
            check(whole, name, f"a place from 0 to {most} among its states", value)
