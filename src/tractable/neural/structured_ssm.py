r"""Diagonal state-space layers (S4D): one linear system per channel, as a convolution or step by step.

Model.       For each channel $\dot x = Ax + u$, $y = 2\,\Re(Cx) + Du$ with $A = \mathrm{diag}(-e^{\alpha_n} +
             i\omega_n)$: one of each conjugate pair is kept, stable whatever the parameters are. Inputs are
             held over steps of length $\Delta$ (or the bilinear rule is used); $B$ is one, as only $CB$
             counts.
Steps.       $x_k = \bar\lambda x_{k-1} + u_k$, $y_k = 2\,\Re(\sum_n G_n x_{k,n}) + Du_k$, where $G = C\bar
             B$.
Kernel.      $y = K * u + Du$, $K_l = 2\,\Re\sum_n G_n \bar\lambda_n^l$: a Vandermonde product, which is made
             as a matrix product of powers $\bar\lambda^{qb}$ and $\bar\lambda^r$ with $l = qb + r$, $b
             \approx \sqrt L$.
Digits.      Rotations of single precision drift from their powers with every step, and modes that round them
             apart disagree. Here rotations are taken in double precision in all modes: states always, and
             powers before they are rounded.
Cost.        $O(LN + L \log L)$ per channel for a sequence; $O(N)$ and no memory of the past for a step.
References.  Gu, Goel and Re (2022), S4; Gu et al. (2022), S4D.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, check_option
from tractable.core.fourier import causal_convolution
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.neural.hippo import legs_frequencies

__all__ = ["DiagonalSSM", "mean_growth", "read_sequence"]

_INITIAL = ("legs", "linear", "inverse")


class DiagonalSSM(eqx.Module):
    r"""A layer of sequences, `(length, channels)` to the same, with `pairs` conjugate pairs of states each.

    Called, it convolves (training); `recur` gives the same outputs step by step, with the last state; `step`
    is one of these (decoding). `initial` places the frequencies: "legs" (HiPPO), "linear" ($\pi n$) or
    "inverse". `steps` are the ends of the range of $\Delta$, in which its logarithm is uniform: a channel
    remembers about $2 / \Delta$ steps.

    >>> layer = DiagonalSSM(3, 8, key=jax.random.key(0), dtype=jnp.float64)
    >>> x = jnp.sin(jnp.arange(60.0)).reshape((20, 3))
    >>> bool(jnp.abs(layer(x) - layer.recur(x)[1]).max() < 1e-12)
    True
    """

    log_decay: Float[Array, "h n"]
    frequency: Float[Array, "h n"]
    readout: Float[Array, "h n 2"]  # real and imaginary parts
    log_step: Float[Array, " h"]
    skip: Float[Array, " h"]
    method: str = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        channels: int,
        pairs: int = 16,
        *,
        initial: str = "legs",
        steps: tuple[float, float] = (1e-3, 1e-1),
        method: str = "zoh",
        dtype: Any = jnp.float32,
        key: Key,
    ):
        shape = check_count("channels", channels), check_count("pairs", pairs)
        check_option("method", method, ("zoh", "bilinear"))
        shortest, longest = steps
        check(0 < shortest <= longest < np.inf, "steps", "two positive numbers, ascending", steps)
        key_readout, key_step, key_skip = jr.split(key, 3)
        self.log_decay = jnp.full(shape, np.log(0.5), dtype)
        self.frequency = jnp.broadcast_to(jnp.asarray(_frequencies(initial, pairs), dtype)[None], shape)
        self.log_step = jr.uniform(key_step, shape[:1], dtype, np.log(shortest), np.log(longest))
        # so that white noise keeps its variance whatever the step is: sum K^2 is about 2 |C|^2 Delta pairs
        scale = jnp.exp(-0.5 * self.log_step) / 2 / np.sqrt(pairs)
        self.readout = scale[:, None, None] * jr.normal(key_readout, (*shape, 2), dtype)
        self.skip = jr.normal(key_skip, shape[:1], dtype)
        self.method = method

    @property
    def channels(self) -> int:
        """How many numbers each time has."""
        return self.skip.shape[0]

    @property
    def poles(self) -> Array:
        r"""$A$ of the continuous systems, one of each pair, `(channels, pairs)`."""
        return -jnp.exp(self.log_decay) + 1j * self.frequency

    def __call__(self, x: ArrayLike, *, key: Key | None = None) -> Array:
        """The outputs of a whole sequence, by convolution."""
        rows = read_sequence(x, self.channels)
        dtype = rows.dtype
        along = causal_convolution(self.kernel(len(rows)).astype(dtype), rows.T).T
        return along + self.skip.astype(dtype)[None] * rows

    def kernel(self, length: int) -> Array:
        r"""$K_0, \dots, K_{L-1}$ of each channel, `(channels, length)`."""
        length = check_count("length", length)
        log_factor, gain = self._discrete()
        block = int(np.ceil(np.sqrt(length)))
        starts = np.arange(0, length, block)
        coarse = gain[..., None] * _powers(log_factor, starts)
        fine = _powers(log_factor, np.arange(block))
        dtype = self.skip.dtype
        left = jnp.concatenate([coarse.real, -coarse.imag], 1).astype(dtype)
        right = jnp.concatenate([fine.real, fine.imag], 1).astype(dtype)
        table = 2 * jnp.einsum("hnq,hnr->hqr", left, right, precision=jax.lax.Precision.HIGHEST)
        return table.reshape((self.channels, -1))[:, :length]

    def start(self) -> Array:
        """The state before the first input."""
        return jnp.zeros(self.log_decay.shape, jnp.complex128)

    def step(self, state: Array, x: Array) -> tuple[Array, Array]:
        """One input, `(channels,)`: the next state, and the output."""
        log_factor, gain = self._discrete()
        return self._moved(jnp.exp(log_factor), gain, state, x)

    def recur(self, x: ArrayLike, state: Array | None = None) -> tuple[Array, Array]:
        """The state after a sequence that begins at `state`, and the outputs."""
        rows = read_sequence(x, self.channels)
        log_factor, gain = self._discrete()
        factor = jnp.exp(log_factor)
        first = self.start() if state is None else state
        found = run(lambda state, u: self._moved(factor, gain, state, u), first, rows)
        return found.state, found.trace

    def _moved(self, factor: Array, gain: Array, state: Array, x: Array) -> tuple[Array, Array]:
        state = factor * state + x[:, None]
        along = 2 * (gain * state).sum(1).real
        return state, along.astype(x.dtype) + self.skip.astype(x.dtype) * x

    def _discrete(self) -> tuple[Array, Array]:
        r"""$\log\bar\lambda$ and $G = C\bar B$, in double precision."""
        parts = self.log_decay, self.frequency, self.log_step, self.readout
        log_decay, frequency, log_step, readout = (jnp.asarray(part, jnp.float64) for part in parts)
        step = jnp.exp(log_step)[:, None]
        z = step * (-jnp.exp(log_decay) + 1j * frequency)
        log_factor, hold = _held(z, self.method)
        return log_factor, jax.lax.complex(readout[..., 0], readout[..., 1]) * step * hold


def read_sequence(x: ArrayLike, channels: int) -> Array:
    """`x` as `(length, channels)` floats, checked: at least one time, and no NaN, which a convolution would
    spread to all times."""
    rows = as_float("x", x)
    fits = rows.ndim == 2 and rows.shape[1] == channels and rows.shape[0] > 0
    fix = "One sequence at a time: `jax.vmap` takes several."
    check(fits, "x", f"of shape (length, {channels}), at least one time", f"shape {rows.shape}", fix)
    check_finite("x", rows)
    return rows


def _held(z: Array, method: str) -> tuple[Array, Array]:
    r"""$\log\bar\lambda$ and $\bar B / \Delta$ of one pole, $z = \Delta\lambda$: `statespace.discretise` of a
    diagonal system, with a gradient."""
    if method == "bilinear":
        return jnp.log((1 + z / 2) / (1 - z / 2)), 1 / (1 - z / 2)
    return z, mean_growth(z)


def mean_growth(z: Array) -> Array:
    r"""$\int_0^1 e^{zs}\,ds = (e^z - 1)/z$: what an input does, held over a step, $z = \Delta\lambda$.

    Near zero, where a step passes its input over, the slope of the quotient divides by $z^2$, which is zero
    in single precision from $10^{-19}$ on: there the first terms of the series take its place.
    """
    near = jnp.abs(z) < jnp.finfo(z.dtype).eps ** (1 / 3)
    safe, small = jnp.where(near, 1.0, z), jnp.where(near, z, 0.0)
    return jnp.where(near, 1 + small / 2 * (1 + small / 3), jnp.expm1(safe) / safe)


def _powers(log_factor: Array, exponents: np.ndarray) -> Array:
    """Powers along a new last axis."""
    return jnp.exp(log_factor[:, :, None] * jnp.asarray(exponents, jnp.float64)[None, None])


def _frequencies(initial: str, pairs: int) -> np.ndarray:
    check_option("initial", initial, _INITIAL)
    places = np.arange(pairs)
    if initial == "legs":
        return legs_frequencies(pairs)
    return np.pi * places if initial == "linear" else pairs / np.pi * (2 * pairs / (2 * places + 1) - 1)
