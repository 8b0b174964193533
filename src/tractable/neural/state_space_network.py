r"""Networks of state-space layers: blocks for sequences in training, states of fixed size in decoding.

Diagonal.    $h + W_1 g \odot \sigma(W_2 g)$ with $g = \mathrm{gelu}(\mathrm{SSM}(\mathrm{norm}(h)))$: a
             convolution along time, then a gated map of each time.
Selective.   $h + W(\mathrm{SSM}(s) \odot \mathrm{silu}(z))$ with $(u, z)$ linear in $\mathrm{norm}(h)$ and
             $s$ the silu of a short causal convolution of $u$: Mamba's block.
Protocol.    Every part is called with a sequence, or has `start()` and `step(state, x) -> (state, y)` for one
             time after the other; the two agree, and what comes later changes nothing before it, so that
             sequences of unequal length may be filled up at the end.
Cost.        Linear in the length but for the transforms of the convolution; a step costs the same at any
             time.
References.  Gu, Goel and Re (2022); Gu and Dao (2023).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count, check_option
from tractable.core.keys import takes_key
from tractable.core.types import Array, ArrayLike, Key
from tractable.neural.positions import TokenEmbedding, check_tokens
from tractable.neural.selective import SelectiveSSM
from tractable.neural.structured_ssm import DiagonalSSM, read_sequence

__all__ = ["DiagonalBlock", "SelectiveBlock", "StateSpaceNetwork"]

_WIDTH = 4  # of the short convolution


class DiagonalBlock(eqx.Module):
    """Norm, diagonal state-space layer and gated map of each time, around which the input is carried."""

    norm: eqx.nn.LayerNorm
    layer: DiagonalSSM
    mix: eqx.nn.Linear

    @takes_key
    def __init__(self, channels: int, *, dtype: Any = jnp.float32, key: Key, **options: Any):
        key_layer, key_mix = jr.split(key)
        self.norm = eqx.nn.LayerNorm(channels, dtype=dtype)
        self.layer = DiagonalSSM(channels, dtype=dtype, key=key_layer, **options)
        self.mix = eqx.nn.Linear(channels, 2 * channels, dtype=dtype, key=key_mix)

    def __call__(self, x: Array, *, key: Key | None = None) -> Array:
        return x + jax.vmap(self._mixed)(self.layer(jax.vmap(self.norm)(x)))

    def start(self) -> Any:
        """The state before the first input."""
        return self.layer.start()

    def step(self, state: Any, x: Array) -> tuple[Any, Array]:
        """One time."""
        state, y = self.layer.step(state, self.norm(x))
        return state, x + self._mixed(y)

    def _mixed(self, y: Array) -> Array:
        value, gate = jnp.split(self.mix(jax.nn.gelu(y)), 2)
        return value * jax.nn.sigmoid(gate)


class SelectiveBlock(eqx.Module):
    """Norm, short convolution, selective state-space layer and gate, around which the input is carried."""

    norm: eqx.nn.LayerNorm
    split: eqx.nn.Linear
    taps: Array  # of the short convolution, the last for the present
    bias: Array
    layer: SelectiveSSM
    join: eqx.nn.Linear

    @takes_key
    def __init__(self, channels: int, *, expand: int = 2, dtype: Any = jnp.float32, key: Key, **options: Any):
        inner = check_count("expand", expand) * check_count("channels", channels)
        keys = jr.split(key, 4)
        self.norm = eqx.nn.LayerNorm(channels, dtype=dtype)
        self.split = eqx.nn.Linear(channels, 2 * inner, use_bias=False, dtype=dtype, key=keys[0])
        self.taps = jr.uniform(keys[1], (_WIDTH, inner), dtype, -0.5, 0.5)
        self.bias = jnp.zeros(inner, dtype)
        self.layer = SelectiveSSM(inner, dtype=dtype, key=keys[2], **options)
        self.join = eqx.nn.Linear(inner, channels, use_bias=False, dtype=dtype, key=keys[3])

    def __call__(self, x: Array, *, key: Key | None = None) -> Array:
        u, gate = jnp.split(jax.vmap(lambda row: self.split(self.norm(row)))(x), 2, 1)
        past = jnp.concatenate([jnp.zeros((_WIDTH - 1, u.shape[1]), u.dtype), u])
        near = sum(tap[None] * past[i : i + len(u)] for i, tap in enumerate(self.taps))
        y = self.layer(jax.nn.silu(near + self.bias[None])) * jax.nn.silu(gate)
        return x + jax.vmap(self.join)(y)

    def start(self) -> Any:
        """The last inputs of the short convolution, and the state of the layer."""
        return jnp.zeros((_WIDTH - 1, self.bias.size), self.bias.dtype), self.layer.start()

    def step(self, state: Any, x: Array) -> tuple[Any, Array]:
        """One time."""
        past, inside = state
        u, gate = jnp.split(self.split(self.norm(x)), 2)
        window = jnp.concatenate([past, u[None]])
        inside, y = self.layer.step(inside, jax.nn.silu((self.taps * window).sum(0) + self.bias))
        return (window[1:], inside), x + self.join(y * jax.nn.silu(gate))


class StateSpaceNetwork(eqx.Module):
    """Blocks between a map of inputs and a map to outputs, `(length, outputs)` for a sequence.

    `inputs` is the number of tokens (whole numbers from 0), or with `tokens=False` the size of vectors. A
    decoder calls `step(state, token) -> (state, logits)`, beginning at `start()`.

    >>> network = StateSpaceNetwork(5, 5, 8, blocks=1, key=jax.random.key(0))
    >>> whole = network(jnp.array([3, 1, 4, 1]))
    >>> state = network.start()
    >>> for token in (3, 1, 4, 1):
    ...     state, logits = network.step(state, token)
    >>> bool(jnp.abs(whole[-1] - logits).max() < 1e-5)
    True
    """

    embed: TokenEmbedding | eqx.nn.Linear
    blocks: tuple
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    @takes_key
    def __init__(
        self,
        inputs: int,
        outputs: int,
        channels: int = 32,
        *,
        blocks: int = 2,
        kind: str = "diagonal",
        tokens: bool = True,
        dtype: Any = jnp.float32,
        key: Key,
        **options: Any,
    ):
        check_option("kind", kind, ("diagonal", "selective"))
        keys = jr.split(key, check_count("blocks", blocks) + 2)
        block = DiagonalBlock if kind == "diagonal" else SelectiveBlock
        if tokens:
            self.embed = TokenEmbedding(inputs, channels, dtype=dtype, key=keys[0])
        else:  # without a bias nothing stays nothing: blanks of zeros leave the states alone
            self.embed = eqx.nn.Linear(inputs, channels, use_bias=False, dtype=dtype, key=keys[0])
        self.blocks = tuple(block(channels, dtype=dtype, key=one, **options) for one in keys[2:])
        self.norm = eqx.nn.LayerNorm(channels, dtype=dtype)
        self.head = eqx.nn.Linear(channels, outputs, dtype=dtype, key=keys[1])

    def __call__(self, x: ArrayLike) -> Array:
        h = self._embedded(x)
        for block in self.blocks:
            h = block(h)
        return jax.vmap(self._shown)(h)

    def start(self) -> tuple:
        """The states of all blocks before the first input."""
        return tuple(block.start() for block in self.blocks)

    def step(self, state: tuple, x: Any) -> tuple[tuple, Array]:
        """One token or vector: the next states, and the output."""
        h, states = self._embedded(jnp.asarray(x)[None])[0], []
        for block, before in zip(self.blocks, state):
            after, h = block.step(before, h)
            states.append(after)
        return tuple(states), self._shown(h)

    def _embedded(self, x: ArrayLike) -> Array:
        if not isinstance(self.embed, TokenEmbedding):
            return jax.vmap(self.embed)(read_sequence(x, self.embed.weight.shape[1]))
        tokens = check_tokens(x, len(self.embed.weight), "x")
        fits = tokens.ndim == 1 and tokens.shape[0] > 0
        check(fits, "x", "a list of tokens, at least one", f"shape {tokens.shape}")
        return self.embed(tokens)

    def _shown(self, h: Array) -> Array:
        return self.head(self.norm(h))
