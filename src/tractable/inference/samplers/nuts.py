r"""The no-U-turn sampler: Hamiltonian trajectories that stop before they turn back.

Target.      $\pi(x, p) \propto \exp(-H)$, $H = -\log\tilde p(x) + \frac12 p^\top p$ (the warm-up has whitened
             $x$).
Trajectory.  From $(x, p)$ with a fresh $p \sim N(0, I)$ the path is doubled, forwards or backwards at random,
             by $2^j$ leapfrog steps, until some subtree turns: with $\rho = \sum p$ over it and
             $\rho' = \rho - \frac12(p_- + p_+)$, until $p_-^\top\rho' \le 0$ or $p_+^\top\rho' \le 0$.
Draw.        A point of the path with probability in proportion to $\exp(-H)$; between old path and new half
             with the odds of their weights, which favours the far half.
Tree.        Built by iteration: leaf $n$ of a subtree closes as many balanced subtrees as $n$ has trailing
             one-bits; the momenta and sums where they began are kept in `max_depth` rows.
Cost.        One gradient per leapfrog, a handful of vector operations beside it; memory O(d max_depth).
References.  Hoffman and Gelman (2014); Betancourt (2017), "A conceptual introduction to Hamiltonian Monte
             Carlo"; Phan, Pradhan and Jankowiak (2019), for the iteration.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tractable.core.module import Module, field
from tractable.core.streams import Stream
from tractable.core.types import Array, Bool, Float, Int, Key, Scalar
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler, chain_state

__all__ = ["NUTS"]


class NUTS(Sampler):
    """The no-U-turn sampler with multinomial draws from the trajectory.

    `step_size` is tuned by the warm-up until the mean acceptance is `target_acceptance`; a trajectory has at
    most $2^{\\mathtt{max\\_depth}} - 1$ steps. A trajectory whose energy error passes `max_energy_error` has
    diverged: its integrator is not stable there, and what lies beyond is not seen.
    """

    step_size: Any = 0.1
    target_acceptance: float = field(static=True, default=0.8)
    max_depth: int = field(static=True, default=10)
    max_energy_error: float = field(static=True, default=1000.0)

    def init(self, log_density: LogDensity, position: Float[Array, " d"], key: Key) -> ChainState:
        return chain_state(log_density, position)

    def step(self, log_density: LogDensity, state: ChainState, key: Key) -> tuple[ChainState, Info]:
        stream, dim = Stream.of(key), state.position.size
        momentum = stream.normal(jnp.arange(dim)).astype(state.position.dtype)
        energy = 0.5 * momentum @ momentum - state.log_density
        point = jnp.stack([state.position, momentum, state.gradient])
        numbers = _Numbers(stream, 2 * dim)
        tree = _double(self, log_density, _Tree.of(point, state.log_density), energy, numbers)
        info = Info(
            acceptance=tree.acceptance / tree.num_leaves,
            num_gradients=tree.num_leaves,
            diverging=tree.diverging,
            saturated=(tree.depth == self.max_depth) & ~tree.turning,
            undefined=tree.undefined,
            energy=energy,
        )
        return ChainState(tree.chosen[0], tree.log_density, tree.chosen[1]), info


class _Numbers(Module):
    """Uniform numbers of one step after those of its momentum, by the number of the leaf or of the
    doubling."""

    stream: Stream
    used: int = field(static=True)

    def leaf(self, n: Array) -> Scalar:
        return self.stream.uniform(self.used + 128 + n)

    def doubling(self, depth: Array) -> tuple[Scalar, Scalar]:
        """For the direction, and for the choice between the halves."""
        pair = self.stream.uniform(self.used + 2 * depth + jnp.arange(2))
        return pair[0], pair[1]


class _Branch(Module):
    """A path under construction, in one direction."""

    point: Float[Array, "3 d"]  # position, momentum, gradient of its last leaf
    ahead: Float[Array, "2 d"]  # position of the next leaf, momentum half-way to it
    chosen: Float[Array, "2 d"]  # position and gradient of the draw
    log_density: Scalar  # of the draw
    log_weight: Scalar
    momenta: Float[Array, " d"]  # their sum
    first_momenta: Float[Array, "k d"]  # where the open subtrees began
    first_sums: Float[Array, "k d"]
    acceptance: Scalar
    leaf: Int[Array, ""]
    turning: Bool[Array, ""]
    diverging: Bool[Array, ""]
    undefined: Bool[Array, ""]


class _Tree(Module):
    """The whole path so far."""

    ends: Float[Array, "2 3 d"]
    chosen: Float[Array, "2 d"]
    log_density: Scalar
    log_weight: Scalar
    momenta: Float[Array, " d"]
    acceptance: Scalar
    num_leaves: Int[Array, ""]
    depth: Int[Array, ""]
    turning: Bool[Array, ""]
    diverging: Bool[Array, ""]
    undefined: Bool[Array, ""]

    @staticmethod
    def of(point: Float[Array, "3 d"], log_density: Scalar) -> "_Tree":
        zero, no, none = jnp.zeros((), point.dtype), jnp.asarray(False), jnp.asarray(0, jnp.int32)
        ends, chosen = jnp.stack([point, point]), point[::2]
        return _Tree(ends, chosen, log_density, zero, point[1], zero, none, none, no, no, no)


def _double(sampler: NUTS, log_density: LogDensity, tree: _Tree, energy: Scalar, numbers: _Numbers) -> _Tree:
    """Double the path until it turns, diverges, or is as long as it may be."""

    def proceed(tree: _Tree) -> Bool[Array, ""]:
        return (tree.depth < sampler.max_depth) & ~tree.turning & ~tree.diverging

    def double(tree: _Tree) -> _Tree:
        side, choice = numbers.doubling(tree.depth)
        forwards = side < 0.5
        end = forwards.astype(jnp.int32)
        step = jnp.where(forwards, sampler.step_size, -sampler.step_size)
        branch = _grow(
            sampler,
            log_density,
            tree,
            lax.dynamic_index_in_dim(tree.ends, end, keepdims=False),
            step,
            energy,
            numbers,
        )
        return _merged(tree, branch, end, choice)

    return lax.while_loop(proceed, double, tree)


def _merged(tree: _Tree, branch: _Branch, end: Array, choice: Scalar) -> _Tree:
    """The path with a new half; the half gives the draw only if it is whole."""
    whole = ~branch.turning & ~branch.diverging
    take = whole & (jnp.log(choice) < branch.log_weight - tree.log_weight)
    ends = lax.dynamic_update_index_in_dim(tree.ends, branch.point, end, 0)
    momenta = tree.momenta + branch.momenta
    return _Tree(
        ends=ends,
        chosen=jnp.where(take, branch.chosen, tree.chosen),
        log_density=jnp.where(take, branch.log_density, tree.log_density),
        log_weight=jnp.logaddexp(tree.log_weight, branch.log_weight),
        momenta=momenta,
        acceptance=tree.acceptance + branch.acceptance,
        num_leaves=tree.num_leaves + branch.leaf,
        depth=tree.depth + 1,
        turning=branch.turning | _turns(ends[0, 1], ends[1, 1], momenta),
        diverging=branch.diverging,
        undefined=branch.undefined,
    )


def _grow(
    sampler: NUTS,
    log_density: LogDensity,
    tree: _Tree,
    point: Array,
    step: Scalar,
    energy: Scalar,
    numbers: _Numbers,
) -> _Branch:
    """A branch of $2^j$ leaves from `point`, or as many as there are before it turns or diverges."""
    size = jnp.left_shift(jnp.asarray(1, jnp.int32), tree.depth)

    def proceed(branch: _Branch) -> Bool[Array, ""]:
        return (branch.leaf < size) & ~branch.turning & ~branch.diverging

    def advance(branch: _Branch) -> _Branch:
        value, g = jax.value_and_grad(log_density)(branch.ahead[0])

        def add(branch: _Branch) -> _Branch:
            x, p_half = branch.ahead
            p = p_half + 0.5 * step * g
            log_leaf = energy - 0.5 * p @ p + value  # the log-weight of a leaf is minus its energy error
            choice = numbers.leaf(size + branch.leaf)
            return _added(branch, jnp.stack([x, p, g]), value, log_leaf, choice, step, sampler)

        return _as_one_kernel(add, branch, size)

    dim, zero, no = point.shape[1], jnp.zeros((), point.dtype), jnp.asarray(False)
    # one row more than there are subtrees: leaves that begin none write there
    rows = jnp.zeros((sampler.max_depth + 1, dim), point.dtype)
    none = jnp.full((), -jnp.inf, point.dtype)
    start = _Branch(
        point, _ahead(point, step), point[::2], zero, none, jnp.zeros(dim, point.dtype), rows, rows, zero,
        jnp.asarray(0, jnp.int32), no, no, no,
    )  # fmt: skip
    return lax.while_loop(proceed, advance, start)


def _added(
    branch: _Branch,
    point: Array,
    value: Scalar,
    log_leaf: Scalar,
    choice: Scalar,
    step: Scalar,
    sampler: NUTS,
) -> _Branch:
    """The branch with one more leaf."""
    p, n = point[1], branch.leaf
    undefined = ~(log_leaf < jnp.inf)  # NaN, or a density that is infinite
    log_leaf = jnp.where(undefined, -jnp.inf, log_leaf)
    log_weight = jnp.logaddexp(branch.log_weight, log_leaf)
    take = jnp.log(choice) < log_leaf - log_weight  # false for the NaN of two impossible leaves
    momenta = branch.momenta + p
    begins = (n & 1) == 0
    level = lax.population_count(n >> 1)
    row = jnp.where(begins, level, branch.first_momenta.shape[0] - 1)
    first_momenta = lax.dynamic_update_index_in_dim(branch.first_momenta, p, row, 0)
    first_sums = lax.dynamic_update_index_in_dim(branch.first_sums, momenta, row, 0)
    closed = jnp.where(begins, 0, lax.population_count(n ^ (n + 1)) - 1)
    turning = _any_turns(first_momenta, first_sums, p, momenta, level, closed)
    return _Branch(
        point=point,
        ahead=_ahead(point, step),
        chosen=jnp.where(take, point[::2], branch.chosen),
        log_density=jnp.where(take, value, branch.log_density),
        log_weight=log_weight,
        momenta=momenta,
        first_momenta=first_momenta,
        first_sums=first_sums,
        acceptance=branch.acceptance + jnp.exp(jnp.minimum(log_leaf, 0.0)),
        leaf=n + 1,
        turning=turning,
        diverging=-log_leaf > sampler.max_energy_error,
        undefined=undefined,
    )


def _ahead(point: Float[Array, "3 d"], step: Scalar) -> Float[Array, "2 d"]:
    """Half a kick and a drift: what the next gradient is needed for."""
    x, p, g = point
    p_half = p + 0.5 * step * g
    return jnp.stack([x + step * p_half, p_half])


def _as_one_kernel(function: Callable, carry: Any, size: Int[Array, ""]) -> Any:
    """`function(carry)`, in a loop that runs once.

    XLA compiles small loops whole, but starts other operations one by one: for densities that cannot be part
    of such a loop (they scatter, or factorise), the forty operations around the gradient would take several
    times its time. The bound of the loop, always one, must not be known to the compiler.
    """
    once = 1 + (size >> 30)
    return lax.while_loop(
        lambda c: c[0] < once, lambda c: (c[0] + 1, function(c[1])), (jnp.zeros_like(once), carry)
    )[1]


def _any_turns(
    first_momenta: Array, first_sums: Array, p: Array, momenta: Array, level: Array, closed: Array
) -> Bool[Array, ""]:
    """Whether one of the `closed` subtrees that end at the newest leaf turns."""

    def proceed(carry: tuple) -> Bool[Array, ""]:
        k, turning = carry
        return (k < closed) & ~turning

    def look(carry: tuple) -> tuple:
        k, _ = carry
        begun = lax.dynamic_index_in_dim(first_momenta, level - k, keepdims=False)
        total = momenta - lax.dynamic_index_in_dim(first_sums, level - k, keepdims=False) + begun
        return k + 1, _turns(begun, p, total)

    return lax.while_loop(proceed, look, (jnp.asarray(0, closed.dtype), jnp.asarray(False)))[1]


def _turns(one: Array, other: Array, total: Array) -> Bool[Array, ""]:
    """Whether a path with these momenta at its ends, which sum to `total`, would grow shorter at an end.

    Half of the end momenta is taken off: a path in a Gaussian would otherwise miss its own turn by resonance.
    """
    inner = total - 0.5 * (one + other)
    return (one @ inner <= 0) | (other @ inner <= 0)
