r"""Selective state-space layers (Mamba): a diagonal system whose steps and maps depend on what it reads.

Model.       For each channel $h$ and state $n$, with $A_{hn} = -e^{\alpha_{hn}} < 0$ and the input held over
             a step of length $\Delta_{kh}$: $x_k = e^{\Delta_k A} x_{k-1} + \frac{e^{\Delta_k A} - 1}{A} B_k
             u_k$, $y_{kh} = \sum_n C_{kn} x_{khn} + D_h u_{kh}$, where $\Delta$, $B$, $C$ are functions of
             the input. $\Delta \to 0$ passes an input over (nothing moves), $\Delta \to \infty$ forgets all
             before it: what a convolution cannot do, whose weights depend on the distance alone.
Scan.        Steps $(a, b)$ compose, $(a_2 a_1,\; a_2 b_1 + b_2)$, so that prefix products give all states at
             once (`messages.prefixes`); the same steps one after the other need no memory but the state.
Constant.    With constant $\Delta, B, C$ it is the time-invariant system under a zero-order hold.
Cost.        $O(LHN)$ work in every mode; memory $O(LHN)$ in parallel, $O(HN)$ step by step.
References.  Gu and Dao (2023); Blelloch (1990).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.messages.prefixes import prefixes
from tractable.neural.structured_ssm import mean_growth, read_sequence

__all__ = ["SelectiveSSM", "selective_scan"]


def selective_scan(
    poles: Float[Array, "h n"],
    steps: Float[Array, "..."],
    drive: Float[Array, "..."],
    readout: Float[Array, "..."],
    x: Float[Array, "..."],
    start: Float[Array, "h n"] | None = None,
    *,
    method: str = "parallel",
) -> tuple[Float[Array, "h n"], Float[Array, "t h"]]:
    r"""The last state and $C_k x_k$ of every time, from $A$ = `poles`, $\Delta$ = `steps` and
    inputs `x`, `(t, h)`, $B$ = `drive` and $C$ = `readout`, `(t, n)`; `method` is "parallel" or "sequential".

    >>> ones = jnp.ones((3, 1))
    >>> state, y = selective_scan(-jnp.ones((1, 1)), jnp.array([[1.0], [0.0], [99.0]]), ones, ones, 2 * ones)
    >>> y[:, 0].round(6).tolist()  # learns a part, passes over, forgets the past
    [1.264241, 1.264241, 2.0]
    """
    check_option("method", method, ("parallel", "sequential"))
    lengths = [len(part) for part in (steps, drive, readout, x)]
    same = len(set(lengths)) == 1 and lengths[0] > 0
    check(same, "steps, drive, readout, x", "of one length of at least one time", lengths)
    first = jnp.zeros_like(poles) if start is None else start
    if method == "sequential":
        each = steps, drive, readout, x
        found = run(lambda state, now: _moved(poles, state, *now), first, each)
        return found.state, found.trace
    factor, gain = _held(poles[None], steps[..., None])
    moved = gain * drive[:, None, :] * x[..., None]
    moved = moved.at[0].add(factor[0] * first)
    _, states = prefixes(_joined, (factor, moved))
    return states[-1], jnp.einsum("thn,tn->th", states, readout)


class SelectiveSSM(eqx.Module):
    r"""A layer of sequences, `(length, channels)` to the same, that chooses what to remember.

    $\Delta = \mathrm{softplus}(b + W u)$ through a bottleneck of `rank`, $B$ and $C$ are linear in the input,
    $A = -(n + 1)$ at first. Called, it scans in parallel; `recur` goes step by step, with the last state;
    `step` is one of these.

    >>> layer = SelectiveSSM(4, 8, key=jax.random.key(0), dtype=jnp.float64)
    >>> x = jnp.sin(jnp.arange(80.0)).reshape((20, 4))
    >>> bool(jnp.abs(layer(x) - layer.recur(x)[1]).max() < 1e-12)
    True
    """

    log_decay: Float[Array, "h n"]
    narrow: eqx.nn.Linear
    widen: eqx.nn.Linear
    drive: eqx.nn.Linear
    readout: eqx.nn.Linear
    skip: Float[Array, " h"]

    @takes_key
    def __init__(
        self,
        channels: int,
        states: int = 16,
        *,
        rank: int = 1,
        steps: tuple[float, float] = (1e-3, 1e-1),
        dtype: Any = jnp.float32,
        key: Key,
    ):
        shape = check_count("channels", channels), check_count("states", states)
        shortest, longest = steps
        check(0 < shortest <= longest < np.inf, "steps", "two positive numbers, ascending", steps)
        keys, rank = jr.split(key, 5), check_count("rank", rank)
        counts = jnp.log(jnp.arange(1.0, states + 1, dtype=dtype))
        self.log_decay = jnp.broadcast_to(counts[None], shape)
        self.narrow = eqx.nn.Linear(channels, rank, use_bias=False, dtype=dtype, key=keys[0])
        widen = eqx.nn.Linear(rank, channels, dtype=dtype, key=keys[1])
        length = jnp.exp(jr.uniform(keys[2], shape[:1], dtype, np.log(shortest), np.log(longest)))
        bias = jnp.log(jnp.expm1(length))  # of which softplus is the length
        self.widen = eqx.tree_at(lambda linear: linear.bias, widen, bias)
        self.drive = eqx.nn.Linear(channels, states, use_bias=False, dtype=dtype, key=keys[3])
        self.readout = eqx.nn.Linear(channels, states, use_bias=False, dtype=dtype, key=keys[4])
        self.skip = jnp.ones(channels, dtype)

    @property
    def channels(self) -> int:
        """How many numbers each time has."""
        return self.skip.shape[0]

    @property
    def poles(self) -> Array:
        """$A$, `(channels, states)`: negative whatever the parameters are."""
        return -jnp.exp(self.log_decay)

    def __call__(self, x: ArrayLike, *, key: Key | None = None) -> Array:
        """The outputs of a whole sequence, by prefix products."""
        return self._scanned(x, None, "parallel")[1]

    def start(self) -> Array:
        """The state before the first input."""
        return jnp.zeros_like(self.log_decay)

    def step(self, state: Array, x: Array) -> tuple[Array, Array]:
        """One input, `(channels,)`: the next state, and the output."""
        state, y = _moved(self.poles, state, *self._chosen(x), x)
        return state, y + self.skip * x

    def recur(self, x: ArrayLike, state: Array | None = None) -> tuple[Array, Array]:
        """The state after a sequence that begins at `state`, and the outputs."""
        return self._scanned(x, state, "sequential")

    def _scanned(self, x: ArrayLike, state: Array | None, method: str) -> tuple[Array, Array]:
        rows = read_sequence(x, self.channels)
        steps, drive, readout = jax.vmap(self._chosen)(rows)
        state, y = selective_scan(self.poles, steps, drive, readout, rows, state, method=method)
        return state, y + self.skip[None] * rows

    def _chosen(self, x: Array) -> tuple[Array, Array, Array]:
        r"""$\Delta$, $B$ and $C$ at one input."""
        return jax.nn.softplus(self.widen(self.narrow(x))), self.drive(x), self.readout(x)


def _held(poles: Array, steps: Array) -> tuple[Array, Array]:
    r"""$e^{\Delta A}$ and $(e^{\Delta A} - 1)/A$, which is $\Delta$ where $A$ has become zero."""
    z = poles * steps
    return jnp.exp(z), steps * mean_growth(z)


def _moved(
    poles: Array, state: Array, steps: Array, drive: Array, readout: Array, x: Array
) -> tuple[Array, Array]:
    factor, gain = _held(poles, steps[:, None])
    state = factor * state + gain * drive[None] * x[:, None]
    return state, state @ readout


def _joined(before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[Array, Array]:
    return after[0] * before[0], after[0] * before[1] + after[1]
