r"""Transformer blocks, before which the residual stream is normalised, and stacks of them.

Block.       $x \leftarrow x + \mathrm{SA}(\mathrm{N}(x))$, then with a memory
             $x \leftarrow x + \mathrm{CA}(\mathrm{N}(x), m)$, then
             $x \leftarrow x + W_2\,\mathrm{gelu}(W_1 \mathrm{N}(x))$; the last block is followed by one more
             normalisation. The sum lets the slope pass whole: it helps the descent, it does not regularise.
Masks.       True where one may look; what stands behind `length` is padding, which nobody sees.
Steps.       `step` goes on from caches of keys and values, one place at a time, and gives the row of the full
             pass.
Cost.        $O(T^2 d + T d^2)$ for a sequence, $O(T d + d^2)$ for a step.
References.  Vaswani et al. (2017); Xiong et al. (2020), on the normalisation before each layer.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_entries, check_shape
from tractable.core.keys import takes_key
from tractable.core.types import Array, Float, Int, Key, Values
from tractable.neural.attention import Cache, CrossAttention, SelfAttention, dropout_of
from tractable.neural.recurrent import within
from tractable.neural.rows_product import rows_product

__all__ = ["FeedForward", "TransformerBlock", "TransformerEncoder"]

Mask = Values


class FeedForward(eqx.Module):
    r"""$\mathrm{gelu}(x W_1 + b_1) W_2 + b_2$ for each row."""

    into: Float[Array, "dim hidden"]
    into_bias: Float[Array, " hidden"]
    back: Float[Array, "hidden dim"]
    back_bias: Float[Array, " dim"]

    @takes_key
    def __init__(self, dim: int, hidden: int, *, dtype: Any = jnp.float32, key: Key):
        dim, hidden = check_count("dim", dim), check_count("hidden", hidden)
        first, second = jr.split(key)
        self.into, self.into_bias = (
            jr.normal(first, (dim, hidden), dtype) * dim**-0.5,
            jnp.zeros(hidden, dtype),
        )
        self.back, self.back_bias = (
            jr.normal(second, (hidden, dim), dtype) * hidden**-0.5,
            jnp.zeros(dim, dtype),
        )

    def __call__(self, x: Values) -> Float[Array, "n dim"]:
        inner = jax.nn.gelu(rows_product(x, self.into) + self.into_bias[None])
        return rows_product(inner, self.back) + self.back_bias[None]


class TransformerBlock(eqx.Module):
    """Attention to itself, to a memory if it has `cross`, and a layer for each row, each added to the stream.

    >>> block = TransformerBlock(8, 2, key=jr.key(0), causal=True)
    >>> block(jnp.ones((5, 8), jnp.float32)).shape
    (5, 8)
    """

    attention: SelfAttention
    cross: CrossAttention | None
    forward: FeedForward
    norms: tuple[eqx.nn.LayerNorm, ...]
    dropout: eqx.nn.Dropout

    @takes_key
    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        hidden: int | None = None,
        causal: bool = False,
        rotary: bool = False,
        memory_dim: int | None = None,
        dropout: float = 0.0,
        dtype: Any = jnp.float32,
        key: Key,
    ):
        keys = jr.split(key, 3)
        self.attention = SelfAttention(
            dim, num_heads, causal=causal, rotary=rotary, dropout=dropout, dtype=dtype, key=keys[0]
        )
        self.cross = None
        if memory_dim is not None:
            self.cross = CrossAttention(
                dim, num_heads, memory_dim=memory_dim, dropout=dropout, dtype=dtype, key=keys[1]
            )
        self.forward = FeedForward(dim, hidden or 4 * dim, dtype=dtype, key=keys[2])
        self.norms = tuple(eqx.nn.LayerNorm(dim, dtype=dtype) for _ in range(2 if self.cross is None else 3))
        self.dropout = dropout_of(dropout)

    def __call__(
        self,
        x: Values,
        mask: Mask | None = None,
        *,
        memory: Cache | None = None,
        memory_mask: Mask | None = None,
        key: Key | None = None,
    ) -> Float[Array, "n dim"]:
        """`memory` is what `cross.remember` made of another sequence; masks are true where one may look."""
        self._check_memory(memory)
        keys = (None,) * 5 if key is None else tuple(jr.split(key, 5))
        look = self.attention(jax.vmap(self.norms[0])(x), mask, key=keys[0])
        x = x + self.dropout(look, key=keys[1])
        if self.cross is not None and memory is not None:
            look = self.cross(jax.vmap(self.norms[1])(x), memory, memory_mask, key=keys[2])
            x = x + self.dropout(look, key=keys[3])
        return x + self.dropout(self.forward(jax.vmap(self.norms[-1])(x)), key=keys[4])

    def step(
        self,
        x: Values,
        cache: Cache,
        place: Int[Array, ""],
        *,
        memory: Cache | None = None,
        memory_mask: Mask | None = None,
    ) -> tuple[Float[Array, " dim"], Cache]:
        """The row of one new place, without dropout, and the cache that holds it too."""
        self._check_memory(memory)
        look, cache = self.attention.step(self.norms[0](x), cache, place)
        x = x + look
        if self.cross is not None and memory is not None:
            calm = eqx.nn.inference_mode(self.cross)
            x = x + calm(self.norms[1](x)[None], memory, memory_mask)[0]
        return x + self.forward(self.norms[-1](x)[None])[0], cache

    def _check_memory(self, memory: Cache | None) -> None:
        same = (memory is None) == (self.cross is None)
        must = "given to a block with `memory_dim`, and to no other"
        check(same, "memory", must, "none" if memory is None else "one")


class TransformerEncoder(eqx.Module):
    """Blocks one after another over vectors, and a last normalisation: `(n, dim)` to `(n, dim)`.

    >>> encoder = TransformerEncoder(8, 2, 2, key=jr.key(0))
    >>> encoder(jnp.ones((5, 8), jnp.float32), length=3).shape
    (5, 8)
    """

    blocks: tuple[TransformerBlock, ...]
    norm: eqx.nn.LayerNorm

    @takes_key
    def __init__(
        self, dim: int, num_heads: int, num_blocks: int, *, dtype: Any = jnp.float32, key: Key, **options: Any
    ):
        keys = jr.split(key, check_count("num_blocks", num_blocks))
        self.blocks = tuple(TransformerBlock(dim, num_heads, dtype=dtype, key=k, **options) for k in keys)
        self.norm = eqx.nn.LayerNorm(dim, dtype=dtype)

    def __call__(
        self,
        x: Values,
        *,
        length: Any = None,
        mask: Mask | None = None,
        memory: Any = None,
        memory_mask: Mask | None = None,
        key: Key | None = None,
    ) -> Float[Array, "n dim"]:
        """What stands from `length` on is padding: nobody looks at it, and its rows come out as zero."""
        check_shape("x", x, (None, self.norm.shape[0]), "One sequence at a time: `jax.vmap` for more.")
        inside = None if length is None else within(length, len(x))
        if inside is not None:
            x = jnp.where(inside[:, None], x, 0)
            mask = inside[None] if mask is None else mask & inside[None]
        check_entries("x", x, np.isfinite, "finite")
        keys = [None] * len(self.blocks) if key is None else list(jr.split(key, len(self.blocks)))
        for block, own in zip(self.blocks, keys):
            seen = None if memory is None or block.cross is None else block.cross.remember(memory)
            x = block(x, mask, memory=seen, memory_mask=memory_mask, key=own)
        x = jax.vmap(self.norm)(x)
        return x if inside is None else jnp.where(inside[:, None], x, 0)

    def step(
        self, x: Values, caches: Any, place: Int[Array, ""], memories: Any, memory_mask: Any
    ) -> tuple[Float[Array, " dim"], Any]:
        """The row of one new place, and the caches of all blocks that hold it too."""
        held = []
        for block, cache, memory in zip(self.blocks, caches, memories):
            x, cache = block.step(x, cache, place, memory=memory, memory_mask=memory_mask)
            held.append(cache)
        return self.norm(x), tuple(held)
