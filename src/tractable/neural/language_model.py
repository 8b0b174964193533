r"""Transformers over tokens: a causal language model, and an encoder with a decoder that looks at its memory.

Model.       Vectors of tokens and places, blocks (`transformer`), logits $\ell_t$ of the token that follows
             $x_0 \dots x_t$: $p(x_1 \dots x_T \mid x_0) = \prod_t \mathrm{softmax}(\ell_{t-1})_{x_t}$.
Steps.       `step(state, token) -> (state, logits)` goes on from a cache of keys and values, and gives the
             row of the full pass: what `decoding` calls.
Cost.        $O(T^2 d + T d^2)$ for a sequence, $O(c d + d^2)$ for a step with a cache of $c$ places.
References.  Vaswani et al. (2017); Su et al. (2021), on rotary places.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_shape, is_concrete
from tractable.core.keys import takes_key
from tractable.core.types import Array, Bool, Float, Int, Key, Values
from tractable.neural.attention import Cache
from tractable.neural.positions import TokenEmbedding, check_tokens, positions_of
from tractable.neural.recurrent import within
from tractable.neural.rows_product import rows_product
from tractable.neural.transformer import TransformerEncoder

__all__ = ["EncoderDecoder", "LanguageModel"]

Tokens = Values
Token = int | Int[Array, ""] | Int[np.ndarray, ""] | np.integer
Mask = Values


class _State(eqx.Module):
    """Where a cached decoding stands."""

    place: Int[Array, ""]
    caches: tuple[Cache, ...]
    memories: tuple[Cache | None, ...]
    memory_mask: Bool[Array, " m"] | None


class LanguageModel(eqx.Module):
    r"""A causal transformer over tokens: row $t$ of the logits is of the token after $x_0 \dots x_t$.

    Places are rotary unless `rotary=False`, which adds sinusoidal vectors. `start()` and `step` decode with
    a cache of `capacity` places.

    >>> model = LanguageModel(10, 8, 2, 1, key=jr.key(0))
    >>> model(jnp.array([1, 2, 3])).shape
    (3, 10)
    """

    embedding: TokenEmbedding
    decoder: TransformerEncoder
    head: Float[Array, "dim vocabulary"]
    capacity: int = eqx.field(static=True)
    rotary: bool = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        vocabulary: int,
        dim: int,
        num_heads: int,
        num_blocks: int,
        *,
        capacity: int = 256,
        rotary: bool = True,
        dtype: Any = jnp.float32,
        key: Key,
        **options: Any,
    ):
        keys = jr.split(key, 3)
        self.embedding = TokenEmbedding(vocabulary, dim, dtype=dtype, key=keys[0])
        self.decoder = TransformerEncoder(
            dim, num_heads, num_blocks, causal=True, rotary=rotary, dtype=dtype, key=keys[1], **options
        )
        self.head = jr.normal(keys[2], (dim, vocabulary), dtype) * dim**-0.5
        self.capacity, self.rotary = check_count("capacity", capacity), rotary

    def __call__(
        self, tokens: Tokens, memory: Any = None, memory_mask: Mask | None = None, *, key: Key | None = None
    ) -> Float[Array, "n vocabulary"]:
        """No length is needed: a causal row never sees the padding that follows."""
        check_shape("tokens", tokens, (None,), "One sequence at a time: `jax.vmap` for more.")
        x = self._vectors(check_tokens(tokens, len(self.embedding.weight)), jnp.arange(len(tokens)))
        return rows_product(self.decoder(x, memory=memory, memory_mask=memory_mask, key=key), self.head)

    def start(self, memory: Any = None, memory_mask: Any = None) -> _State:
        """The state before the first token: empty caches, and the memory's keys and values."""
        blocks = self.decoder.blocks
        caches = tuple(block.attention.start(self.capacity) for block in blocks)
        memories = tuple(None if block.cross is None else block.cross.remember(memory) for block in blocks)
        return _State(jnp.asarray(0), caches, memories, memory_mask)

    def step(self, state: _State, token: Token) -> tuple[_State, Float[Array, " vocabulary"]]:
        """The logits of the next token; beyond `capacity` places an error, in compiled code NaN."""
        place = state.place
        if is_concrete(place):
            full, fix = int(place) < self.capacity, "Make the model with a larger `capacity`."
            check(full, "state", f"of less than `capacity` ({self.capacity}) places", int(place), fix)
        token = check_tokens(token, len(self.embedding.weight), "token")
        x = self._vectors(token[None], place[None])[0]
        x, caches = self.decoder.step(x, state.caches, place, state.memories, state.memory_mask)
        logits = jnp.where(place < self.capacity, x @ self.head, jnp.nan)
        return _State(place + 1, caches, state.memories, state.memory_mask), logits

    def _vectors(self, tokens: Array, places: Array) -> Array:
        x = self.embedding(tokens)
        if self.rotary:
            return x
        return x + positions_of(places, x.shape[-1], 1e4, x.dtype)


class EncoderDecoder(eqx.Module):
    """An encoder over source tokens, and a causal decoder that looks at what it made of them.

    >>> model = EncoderDecoder(10, 12, 8, 2, 1, key=jr.key(0))
    >>> model((jnp.array([1, 2, 3]), jnp.array([0, 4]))).shape
    (2, 12)
    """

    embedding: TokenEmbedding
    encoder: TransformerEncoder
    decoder: LanguageModel

    @takes_key
    def __init__(
        self,
        source_vocabulary: int,
        vocabulary: int,
        dim: int,
        num_heads: int,
        num_blocks: int,
        *,
        dtype: Any = jnp.float32,
        capacity: int = 256,
        key: Key,
        **options: Any,
    ):
        keys = jr.split(key, 3)
        shape = dim, num_heads, num_blocks
        self.embedding = TokenEmbedding(source_vocabulary, dim, dtype=dtype, key=keys[0])
        self.encoder = TransformerEncoder(*shape, rotary=True, dtype=dtype, key=keys[1], **options)
        self.decoder = LanguageModel(
            vocabulary, *shape, capacity=capacity, memory_dim=dim, dtype=dtype, key=keys[2], **options
        )

    def __call__(
        self, pair: tuple[Tokens, Tokens], length: Any = None, *, key: Key | None = None
    ) -> Float[Array, "n vocabulary"]:
        """`pair` is the source and the target so far; `length` is where the source ends."""
        source, target = pair
        keys = (None, None) if key is None else tuple(jr.split(key))
        memory, mask = self.encode(source, length, key=keys[0])
        return self.decoder(target, memory, mask, key=keys[1])

    def encode(self, source: Tokens, length: Any = None, *, key: Key | None = None) -> tuple[Array, Any]:
        """The memory of a source, and where it may be looked at."""
        check_shape("source", source, (None,), "One sequence at a time: `jax.vmap` for more.")
        x = self.embedding(check_tokens(source, len(self.embedding.weight), "source"))
        inside = None if length is None else within(length, len(source))
        return self.encoder(x, length=length, key=key), inside

    def start(self, source: Tokens, length: Any = None) -> _State:
        """The state before the first token of the target; decoding knows no dropout."""
        return self.decoder.start(*eqx.nn.inference_mode(self).encode(source, length))

    def step(self, state: _State, token: Token) -> tuple[_State, Float[Array, " vocabulary"]]:
        """The logits of the next token of the target."""
        return self.decoder.step(state, token)
